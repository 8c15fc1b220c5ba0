"""Every rule is what saves a result: within the bar with it, beyond the bar without."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import mpmath
import numpy as np
import pytest
import sympy
import torch
from building import build
from mpmath import mpf
from nodes import forget_rules, parsed
from rule_examples import EXAMPLES, Example, named
from test_rules import UNITS, drawn

from gradgen import mpfr, rational
from gradgen import rewrite as rewriting
from gradgen.differentiate import gradient
from gradgen.evaluate import values
from gradgen.graph import Node, rebuilt, topological
from gradgen.limits import limits
from gradgen.model import FORMATS, Program
from gradgen.quality import BAR
from gradgen.rewrite import _Pattern, rewrite, tried
from gradgen.rules import RULES, Rule
from gradgen.ulp import mixed_error

HYPER = "k"
TURNS = range(6)  # after so many the model's functions err to the same sides again
INFINITE = mpf(2) ** 5000  # stands for an infinite input


def derived(node: Node, by: str) -> Node:
    """The derivative of a node, in its sound form."""
    for name in by:
        (node,) = rewrite(gradient(node, [node.graph.input(name)]))
    return node


def forms(example: Example, after: str) -> list[Node]:
    """What the rules make of an example; or what other form of it, or of its value, has this name, if one has."""
    (value,) = rewrite([parsed(example.text)])
    result = derived(value, example.by)
    if not after:
        return [result]
    by_value = [derived(form, example.by) for form in named_forms(value, after)]
    return named_forms(result, after) or by_value or [result]


def named_forms(node: Node, name: str) -> list[Node]:
    """Other forms of a node: by a rule that is only tried, or as a rational function."""
    found = [(named(rule), form) for form, rule in tried(node)] + [(how, form) for form, how in rational.forms(node)]
    return [form for how, form in found if how == name]


def error(form: Node, example: Example) -> float:
    """The modelled error in mixed ULPs, whichever sides the functions err to."""
    (printed,) = limits([form])
    program = Program(topological([printed]), FORMATS["float64"])
    value, scale = exact(example)
    return max(mixed_error(float(program([example.at], turn)[-1][0]), value, scale, "float64") for turn in TURNS)


def least_error(example: Example, after: str) -> float:
    return min(error(form, example) for form in forms(example, after))


@functools.cache
def exact(example: Example) -> tuple[mpf, mpf]:
    """The result of the formula as it was written, and the largest |x * d result/dx| over its tensors x."""
    node = parsed(example.text)
    order = topological([node])

    def value(point: dict[str, mpf]) -> mpf:
        return values(order, point)[node]

    def difference(point: dict[str, mpf], by: str) -> mpf:
        """The derivative; the value, too, is the mean of both sides, which is the limit where the formula is 0/0."""
        width = {name: mpf(2) ** -300 * (abs(point[name]) or 1) for name in by[-1:] or point}
        above, below = ({**point, **{name: point[name] + s * width[name] for name in width}} for s in (1, -1))
        if not by:
            sides = [found for found in (value(above), value(below)) if mpmath.isfinite(found)]
            return sum(sides) / len(sides) if sides else mpmath.nan  # one at an end of the domain
        return (difference(above, by[:-1]) - difference(below, by[:-1])) / (2 * width[by[-1]])

    with mpmath.workprec(4000):
        point = {name: mpf(x) if math.isfinite(x) else mpmath.sign(x) * INFINITE for name, x in example.at.items()}
        slopes = {name: difference(point, example.by + name) for name in point if name != HYPER}
        scales = [abs(point[name] * slope) for name, slope in slopes.items() if mpmath.isfinite(slope)]
        return difference(point, example.by), max(scales, default=mpf(0))


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """Within, a rule is not in the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "RULES", tuple(other for other in RULES if other is not rule))
        forget_rules()
        try:
            yield
        finally:
            forget_rules()


def test_every_rule_has_an_example() -> None:
    assert list(EXAMPLES) == [named(rule) for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_rule_saves_its_example(rule: Rule) -> None:
    example = EXAMPLES[named(rule)]
    assert least_error(example, named(rule) if rule.tried else example.after) <= BAR
    with without(rule):
        assert least_error(example, "" if rule.tried else example.after) > BAR


CONDITIONAL = [rule for rule in RULES if "where(" in rule.replacement]
# It saves one rounding of several; it tells apart what is 0 either way, but for derivatives, and infinite u and v.
SLIGHT = {
    "atan(u) - atan(v)": "gt(abs(u), abs(v))",
    "exp(u) - exp(v)": "eq(add(u, mul(-1, v)), 0)",
}
POINTS, AT_ONCE = 1200, 100


def points(rule: Rule) -> Iterator[dict[str, float]]:
    """Values of the wild names and numbers: ordinary ones, others of every magnitude, or nearly equal."""
    randoms = random.Random(0)
    for turn in range(POINTS):
        point = {name: float(value) for name, value in drawn(randoms, turn).items()}
        if turn % 3 == 1:
            exponents = (-900, -500, -200, -60, -30, -10, -3, 0, 3, 6, 9, 10, 12, 30, 200, 500, 900)
            point = {name: math.ldexp(randoms.uniform(-2, 2), randoms.choice(exponents)) for name in point}
        elif turn % 3 == 2:
            point = {name: randoms.uniform(-1000, 1000) for name in point}
        if turn % 7 == 3:
            one, other = randoms.sample(sorted(point), 2)
            apart = randoms.choice([1, -1]) * 2.0 ** -randoms.randint(2, 50)
            point[one] = randoms.choice([1, -1]) * point[other] * (1 + apart)
        if turn % 11 == 5:  # powers that overflow, or their squares
            point = {name: randoms.uniform(-3, 3) for name in point}
            point["u"] = math.ldexp(1.5, randoms.randint(200, 900))
        if turn % 5 == 0:
            point = {name: abs(value) for name, value in point.items()}
        unit = UNITS.get(rule.condition, sympy.Integer(1))
        yield point | {name: float(unit * randoms.randint(1, 9)) for name in "ab"}


def swapped(root: Node, select: Node) -> Node:
    """A node in which a selection takes its other branch."""
    new: dict[Node, Node] = {}
    for node in topological([root]):
        changed = rebuilt(node, new)
        if node is select and changed.op == "where":
            condition, p, q = changed.args
            changed = changed.graph.where(condition, q, p)
        new[node] = changed
    return new[root]


def off(computed: float, right: mpf) -> float:
    """The relative error in units in the last place; infinite for no number, none where next to nothing is left."""
    if not math.isfinite(computed):
        return math.inf
    if max(abs(computed), abs(right)) < 1e-290:
        return 0.0
    return float(abs(computed - right) / abs(right) * 2**53) if right else math.inf


@pytest.mark.slow
@pytest.mark.parametrize("rule", CONDITIONAL, ids=named)
def test_each_condition_of_a_rule_matters(rule: Rule) -> None:
    """Somewhere the other branch is a hundred times as far off, or no number."""
    pattern = _Pattern(rule)
    root = pattern.replacement
    program = mpfr.Program(topological([root, pattern.pattern]), [root, pattern.pattern])
    unseen = [node for node in topological([root]) if node.op == "where"]
    unseen = [select for select in unseen if repr(select.args[0]) != SLIGHT.get(rule.pattern)]
    every, found = list(points(rule)), 0
    for start in range(0, POINTS, AT_ONCE):
        known = []
        with mpmath.workprec(4000):
            for point in every[start : start + AT_ONCE]:
                right, written = program({name: mpf(value) for name, value in point.items()})
                if mpmath.isfinite(right) and mpmath.isfinite(written) and abs(right) < 1e300:
                    known.append((point, right))
        found += len(known)
        plain = errors(root, known)
        unseen = [
            select
            for select in unseen
            if not ((errors(swapped(root, select), known) > 100 * np.maximum(plain, 1)) & np.isfinite(plain)).any()
        ]
        if not unseen:
            break
    assert not unseen
    assert found > (start + AT_ONCE) / 10


def errors(form: Node, known: Sequence[tuple[dict[str, float], mpf]]) -> np.ndarray:
    """Those of a form in float64 at some points, of each of which the exact result is known."""
    if not known:
        return np.zeros(0)
    (printed,) = limits([form])
    values = Program(topological([printed]), FORMATS["float64"])([point for point, _ in known], 0)[-1]
    return np.array([off(float(value), right) for value, (_, right) in zip(values, known, strict=True)])


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 87.9), (torch.float64, 708.9)])
def test_products_of_a_hyperbolic_function_and_an_exponential_reach_the_largest_number(
    dtype: torch.dtype, least: float, tmp_path: Path
) -> None:
    text = """
    @op
    def f(x: Tensor, y: Tensor):
        return cosh(x)*exp(y)

    @op
    def g(x: Tensor, y: Tensor):
        return sinh(x)*exp(y)

    @op
    def h(x: Tensor):
        return x*sinh(x)*exp(-x**2/2)
    """
    module, _ = build(text, tmp_path)
    x = torch.tensor([0.0, 0.4, 3.0, -20.0, least, 1e-3], dtype=dtype)
    y = least + 0.6 - abs(x)
    found = torch.stack([module.f(x, y), module.g(x, y)])
    for k in range(len(x)):
        with mpmath.workdps(40):
            right = [f(x[k].item()) * mpmath.exp(y[k].item()) for f in (mpmath.cosh, mpmath.sinh)]
        for value, exact in zip(found[:, k].tolist(), right, strict=True):
            assert abs(value - exact) <= 4 * torch.finfo(dtype).eps * max(abs(exact), abs(exact * y[k].item()))
    assert not module.h(torch.tensor([30.0, 1e3, 1e6], dtype=dtype)).signbit().any()
