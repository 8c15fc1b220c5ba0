"""Forms that are one from some place on and another one before it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf
from nodes import parsed

from generated.swish import swish
from gradgen.choose import Choice
from gradgen.compensate import has_marks
from gradgen.dense import Dense, _ordinary, computed
from gradgen.differentiate import gradient
from gradgen.evaluate import values
from gradgen.graph import Node, topological
from gradgen.joined import Form, Joint, in_one_exponential, pairs, worst
from gradgen.printed import printed_alone
from gradgen.quality import TARGET
from gradgen.standing import Problem
from gradgen.ulp import Right

PLACES = (-700, -30, -2, -1.001, -1, -0.5, 0, 0.7, 1, 1.5, 30, 700)


def exact(root: Node, x: float) -> mpf:
    with mpmath.workdps(60):
        return values(topological([root]), {"x": mpf(x)})[root]


@pytest.mark.parametrize(
    "text",
    [
        "sigmoid(x) + x*logistic_density(x)",
        "sigmoid(x)*(1 + x*sigmoid(-x))",
        "softplus(x)*sech(x)",
        "sigmoid(x)/(2 + exp(-modulus(x)))**2",
    ],
)
def test_every_joint_is_the_function(text: str) -> None:
    node = parsed(text)
    found = in_one_exponential([(node, "as it is")])
    assert found is not None
    u, forms = found
    joints = [*pairs(forms)]
    assert {joint.place for joint in joints} == {-1, 1}
    for joint in joints:
        form = joint.of(u)
        for x in PLACES:
            right = exact(node, x)
            assert abs(exact(form, x) - right) <= abs(right) * mpf(2) ** -150


def test_squares_of_sums_are_written_out_too() -> None:
    found = in_one_exponential([(parsed("x/(2 + exp(-modulus(x)))**2"), "")])
    assert found is not None
    whole = [form.node for form in found[1] if form.side == 0]
    powers = [{node.args[1].number for node in topological([form]) if node.op == "pow"} for form in whole]
    assert powers == [{-2}, {-1}]


def test_squares_that_may_be_of_any_size_are_not() -> None:
    """1 + x (2 + x) cancels at -1."""
    found = in_one_exponential([(parsed("sigmoid(x)/(1 + x)**2"), "")])
    assert found is not None
    assert all("pow(add(1, x), -2)" in str(form.node) for form in found[1])


@pytest.mark.parametrize("count", [1, 2])
def test_many_more_inputs_are_drawn_for_few_forms(count: int) -> None:
    assert _ordinary(count, 4).shape[1] >= 4 * _ordinary(count, 1).shape[1] - 4 > 0


def test_a_side_that_is_no_number_is_the_worst() -> None:
    whole, half = Form(parsed("x"), 0, ""), Form(parsed("y"), -1, "")
    errors = {whole: [9.0, 0.5, 1.0], half: [math.inf, 9.0, 9.0]}
    (found,) = worst([Joint(-1, whole, half)], errors).values()
    assert found == (math.inf, 1.0)


def test_a_form_is_held_to_the_parts_in_which_it_may_be_taken() -> None:
    whole, half = Form(parsed("x"), 0, ""), Form(parsed("y"), 1, "")
    (found,) = worst([Joint(1, half, whole)], {whole: [1.0, 2.0, 9.0], half: [9.0, 9.0, 3.0]}).values()
    assert found == (3.0, 2.0)
    assert whole.parts == (0, 1, 2)
    assert half.parts == (2,)


@pytest.mark.parametrize("text", ["sigmoid(x) + x*logistic_density(x)", "x*sigmoid(x) - x/2", "tanh(x)/x"])
def test_the_worst_errors_in_parts_are_those_of_all_inputs(text: str) -> None:
    """Where a form is far off is told by the result alone, and what inputs lose is looked at there."""
    root, step = parsed(text), 2.0**-22
    forms = [printed_alone(form) for form in (root, root.graph.const(2) * (root / 2), root + 1 - 1)]
    u, ends = root.graph.input("x"), (-1, 1)
    dense = Dense("float32", ["x"], {}, is_default=True)
    found = np.maximum(*(dense.between(root, forms, [(0, 1, 2)] * 3, u, ends, 1, which) for which in (0, 1)))
    every, expected = _ordinary(1, 1)[0], np.zeros((3, 3))
    for x in np.split(every, range(1 << 14, len(every), 1 << 14)):
        right, moved = (computed([root], "wide", {"x": at}, {})[0] for at in (x, x * (1 + step)))
        known = Right.of_doubles(right, abs(moved - right) / step, "float32")
        for k, value in enumerate(computed(forms, "float32", {"x": x}, {})):
            errors = known.errors(value)
            for part, where in enumerate([x < -1, (x >= -1) & (x < 1), x >= 1]):
                expected[k, part] = max(expected[k, part], errors[where].max(initial=0.0))
    assert found.tolist() == expected.tolist()
    assert expected.min() > 0


@pytest.mark.parametrize("text", ["x*x + 1", "sigmoid(x)*sigmoid(2*x)", "erf(x)"])
def test_there_is_none_without_one_exponential(text: str) -> None:
    assert in_one_exponential([(parsed(text), "")]) is None


def test_forms_of_another_exponential_are_left_out() -> None:
    graph = parsed("x").graph
    x = graph.input("x")
    one, other = (graph.apply("sigmoid", u) for u in (x, 3 * x))
    found = in_one_exponential([(one, "one"), (other, "other")])
    assert found is not None
    assert found[0] is x
    assert {form.how for form in found[1]} == {"one"}


def test_a_gradient_of_two_forms_needs_no_corrections_in_any_type() -> None:
    """Its best form about 0 cancels where the other loses nothing."""
    value = parsed("x**2*sigmoid(x)")
    x = value.graph.input("x")
    (slope,) = gradient(value, [x])
    choice = Choice(Problem([value, slope], [], ["x"], {}, {slope: (value, x)}))
    assert not has_marks([choice.form(slope)])
    quality = choice.quality(slope)
    assert max(quality.single.error, quality.double.error) <= TARGET
    assert choice.arithmetic([slope]).wide == ()
    (note,) = [note.what for note in choice.notes(slope) or () if "from -1 on" in note.what]
    assert "before that as a rational function of an exponential" in note


@pytest.mark.parametrize("k", [1.0, 0.5, -2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_infinite_inputs_have_the_limit_whatever_the_sign_of_beta(k: float, dtype: torch.dtype) -> None:
    """A form was chosen that has it without asking."""
    x = torch.tensor([math.inf, -math.inf], dtype=dtype, requires_grad=True)
    swish(x, k).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == ([1, 0] if k > 0 else [0, 1])
