"""Other forms of a formula (rational functions, series, common factors): equal to it, and better where taken."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import mpmath
import nodes
import numpy as np
import pytest
import sympy
import torch
from building import build
from mpmath import mpf

import gradgen.rewrite
from gradgen import (
    algebraic,
    angles,
    exponentials,
    infinite,
    interpolate,
    patches,
    radicals,
    rational,
    relative,
    series,
    squares,
    subproblems,
    variables,
)
from gradgen.candidates import _by_sign
from gradgen.choose import Choice
from gradgen.compensate import marked, unmarked
from gradgen.differentiate import gradient
from gradgen.evaluate import values
from gradgen.extremes import Extremes
from gradgen.graph import Graph, Node, inputs_of, topological
from gradgen.kinks import without_gaps
from gradgen.limits import limits
from gradgen.load import load
from gradgen.measure import Reference
from gradgen.model import FORMATS, Program
from gradgen.plan import Operation, plan
from gradgen.primitives import PRIMITIVES
from gradgen.printers.base import Printer
from gradgen.quality import BAR, Quality
from gradgen.references import References
from gradgen.rewrite import factored, in_exponentials, rewrite
from gradgen.standing import Problem, Standing

pytestmark = pytest.mark.few(every_day=1, slow=6)


def parsed(text: str) -> Node:
    """An expression of x, y, z (tensors) and k (a hyper-parameter) in its sound form."""
    return rewrite([nodes.parsed(text)])[0]


def value(root: Node, point: dict[str, mpf]) -> mpf:
    return values(topological([root]), point)[root]


def agree(one: Node, other: Node, hyper: tuple[float, ...] = (0.7, 2.0)) -> None:
    """Two forms are the same function, to 100 digits."""
    randoms = random.Random(0)
    compared = 0
    with mpmath.workdps(160):
        for _ in range(60):
            point = {name: mpf(randoms.uniform(-6, 6)) for name in ("x", "y", "z")} | {"k": mpf(randoms.choice(hyper))}
            a, b = value(one, point), value(other, point)
            if mpmath.isfinite(a):
                assert abs(a - b) <= abs(a) * mpf(10) ** -100, point
                compared += 1
    assert compared >= 5


RATIONAL = [
    "exp(2*x)/(1 + exp(x))**2",
    "exp(2*x)/(1 + exp(x))**3",
    "(2*exp(x) - 3)/(5*exp(x) + 7)",
    "exp(x)/(exp(x) + exp(-x))",
    "x*exp(-x)*cosh(x)",
    "x*((1 + exp(x))**2 - 1)/((1 + exp(x))**2 + 1)",
    "tanh(softplus(x)) + x*sech(softplus(x))**2*sigmoid(x)",
    "sigmoid(x)**2*tanh(x/2)",
    "1/(1 + k*exp(-x))",
    "y*exp(k*x)/(3 + exp(2*k*x))",
    "log(1 - tanh(x))",
    "log(1 - tanh(x)**2)",
    "log(sigmoid(x)*sigmoid(-x))",
    "log(1 + k*exp(x))",
    "x**2/(1 + x**2)",
    "x**3/(k + abs(x)**3)",
    "log(1 + x**2)",
    "log(k + x**4)",
    "sqrt(k + x**2)",
    "1/(1 + abs(x)) - abs(x)/(1 + abs(x))**2",
    "x*y/(x + y)**2",
    "(exp(x + 1) - 2)/(exp(x) + 5*exp(-2))",
    "x/(exp((13 - x)/4) - 1) + (x - 8)/(exp((x - 8)/2) - 1)",
]


@pytest.mark.parametrize("text", RATIONAL)
def test_rational_forms_are_the_same_function(text: str) -> None:
    node = parsed(text)
    forms = list(rational.forms(node))
    assert forms
    for form, _ in forms:
        agree(node, form)


def test_exponentials_of_numbers_are_symbols_to_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes them for powers of one with the greatest common divisor, of thousands, which takes minutes."""
    seen: list[sympy.Expr] = []
    lowest_terms = rational._lowest_terms
    monkeypatch.setattr(rational, "_lowest_terms", lambda value: seen.append(value) or lowest_terms(value))
    for text in (
        "x/(exp((sympy.Rational('13.1') - x)/4) - 1)",
        "(exp(x + 1) + exp(2 - x))/(3 + exp(x - sympy.Rational(1, 3)))",
    ):
        assert [*rational.forms(parsed(text))]
    assert any(len(value.free_symbols) > 2 for value in seen)
    assert not any(value.has(sympy.exp, sympy.E) for value in seen)


@pytest.mark.parametrize("k", [-1.5, 0.0])
@pytest.mark.parametrize("text", ["log(1 + k*exp(x))", "1/(1 + k*exp(-x))", "sqrt(k + x**2)", "log(k + x**4)"])
def test_rational_forms_hold_for_hyper_parameters_of_any_sign(text: str, k: float) -> None:
    node = parsed(text)
    for form, _ in rational.forms(node):
        agree(node, form, hyper=(k,))


@pytest.mark.parametrize("text", ["sin(x)", "exp(x*y) + exp(x)", "x + y", "floor(x)", "exp(x)**k"])
def test_what_is_no_rational_function_has_no_such_form(text: str) -> None:
    assert [how for _, how in rational.forms(parsed(text)) if how.startswith("as a rational")] == []


def test_parts_that_ask_for_further_parts_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subproblems.Subproblems, "_has_others", lambda *_: True)
    asked: list[Node] = []

    class Solution:
        def __init__(self, problem: Problem, known: subproblems.Alone) -> None:
            self.alone = subproblems.Subproblems(standing, Solution, known).alone

        def uncompensated(self, part: Node) -> Iterator[tuple[Node, list[str]]]:
            asked.append(part)
            self.alone(part, ("x",))
            yield self.alone(part * part, ("x",)), []

        def sound(self, part: Node) -> Quality:
            return standing.sound[node]

        quality = sound

    node = parsed("x*exp(x)")
    standing = Standing(Problem([node], [], ("x",), {}))
    assert subproblems.Subproblems(standing, Solution, {}).alone(node, ("x",)) is node
    assert len(asked) == len(set(asked)) == subproblems._MOST_ALONE


LESS = ["x*tanh(softplus(x))", "1/cosh(x)", "x/cosh(x)", "(1 + x)/(1 + exp(-x))", "x**2*exp(-x)/(1 + exp(x))"]


@pytest.mark.parametrize("text", LESS)
def test_a_limit_less_a_part_of_it_is_the_same_function(text: str) -> None:
    node = parsed(text)
    x = node.graph.input("x")
    (form,) = (form for form, how in rational.forms(node) if how == rational.LESS)
    agree(node, form)
    derived = rational.derivative_less(node, x)
    assert derived is not None
    agree(gradient(node, [x])[0], derived)


NO_LESS = [
    *("x/(1 + exp(-k*x))", "x/(1 + exp(-x - y))"),  # of an argument that is rounded
    *("sinh(x)", "1/(1 + 9*exp(x))", "y*cosh(x)"),  # of which nearly all is taken, or none
    *("y*x*tanh(softplus(x))", "k/cosh(x)", "1e40*x*tanh(softplus(x))", "x**50/cosh(x)"),  # that may overflow before
]


@pytest.mark.parametrize("text", NO_LESS)
def test_what_is_not_about_its_limit_or_may_overflow_with_it_is_none(text: str) -> None:
    node = parsed(text)
    assert rational.LESS not in [how for _, how in rational.forms(node)]
    assert rational.derivative_less(node, node.graph.input("x")) is None


def test_near_the_largest_number_no_limit_is_infinite(tmp_path: Path) -> None:
    """Where mish times a factor is finite, or overflows, and so does the factor times x alone."""
    spec = "@op\ndef f(x: Tensor, y: Tensor):\n    return y * x * tanh(log(1 + exp(x)))\n"
    module, _ = build(spec, tmp_path)
    x = torch.tensor([2.35439703149747, 4.217, 3.0, 1.14, 1.14], dtype=torch.float64)
    y = torch.tensor([-7.665934901931992e307, 1.77e308, -1.2e308, 1.79e308, 1e307], dtype=torch.float64)
    out = module.f(x, y)
    assert out[-1] == pytest.approx(float(1.14 * math.tanh(math.log1p(math.exp(1.14))) * 1e307), rel=1e-14)
    assert torch.equal(out.sign(), y.sign())
    assert (out[1:4].isinf() & (out[1:4] * y[1:4] > 0)).all()


def test_a_limit_less_a_part_of_it_is_better_in_float32(tmp_path: Path) -> None:
    """Mish and its derivative: as quotients they take corrections, or float64."""
    module, _ = build("@op\ndef mish(x: Tensor):\n    return x * tanh(log(1 + exp(x)))\n", tmp_path)
    for kernel in (module._MISH, module._MISH_BACKWARD):
        assert not kernel.wide
        assert "_error" not in kernel.code


SUMS_OF_EXPONENTIALS = [
    "exp(x)/(exp(x) + 2*exp(y) + 3*exp(z))",
    "1/(k*exp(x) + exp(y) + 4)**2",
    "(x*exp(x) + y*exp(y))/(exp(x) + exp(y))",
    "(exp(2*x) - exp(2*y))/(exp(2*x) + exp(x + y) + 5)",
    "exp(2*x - 3)/(exp(2*x - 3) + exp(-y) + 1)",
    "tanh(x)/(2 + tanh(x)*tanh(y))",
    "exp(x)*(exp(2*x) + exp(2*y))**sympy.Rational(-1, 2)",
    "cbrt(1 + exp(x) + exp(2*x))*exp(-y)",
    "sigmoid(x - logaddexp(y, 2*z))/(1 - sigmoid(x)*sigmoid(y))",
    "exp(k*x)/(exp(k*x) + exp(-x))",
    "sqrt(2)*exp(x)/(exp(x) + exp(y))",
    "exp(sqrt(2)*x)/(exp(sqrt(2)*x) + exp(y))",
    "log(exp(x) + 2*exp(y) + 3*exp(z) + exp(x + y) + 1)",
    "log((exp(x) + exp(y) + exp(z))/3)",
    "log(k*exp(x) + (1 - k)*exp(y))",
    "log(k*exp(x) + exp(y) + 1)",
    "log(1 - sigmoid(x)*sigmoid(y))",
    "y*log((1 + exp(x) + exp(y))/(1 + exp(y)))",
]


@pytest.mark.parametrize("k", [0.7, -1.5, 0.0])
@pytest.mark.parametrize("text", SUMS_OF_EXPONENTIALS)
def test_sums_relative_to_their_largest_terms_are_the_same_function(text: str, k: float) -> None:
    node = parsed(text)
    (wrt,) = gradient(node, [node.graph.input("y" if "y" in text else "x")])
    for one in (node, wrt):
        forms = list(exponentials.forms(one))
        assert forms or one is wrt
        for form, _ in forms:
            agree(one, form, hyper=(k,))


def test_sums_of_many_terms_do_not_overflow() -> None:
    """Nor do they vanish, whichever of the terms is the largest."""
    node = parsed("exp(x)/(exp(x) + 2*exp(y) + exp(z + 1) + exp(2*x - y) + 7)")
    ((form, _), *_) = exponentials.forms(node)
    for text in ("x", "y", "z"):
        point = {name: 3000.0 if name == text else -2000.0 for name in ("x", "y", "z")} | {"k": 1.0}
        computed = Program(topological([form]), FORMATS["float64"])([point])[-1][0]
        with mpmath.workdps(60):
            exact = value(node, {name: mpf(x) for name, x in point.items()})
        assert computed == pytest.approx(float(exact), rel=1e-12, abs=0)


def test_powers_of_an_exponential_are_whole_in_no_tiny_unit() -> None:
    """Of decimals they would be of an order that no polynomial has memory for."""
    text = "exp({0}*x)/(exp({0}*x) + exp({1}*x - y))"
    assert list(exponentials.forms(parsed(text.format("3/2", "1/2"))))
    assert not list(exponentials.forms(parsed(text.format("19.46183921", "1.1250000001"))))


@pytest.mark.parametrize("text", ["exp(x) + exp(y)", "sinh(x) - sinh(y)", "x + y", "1/(x + y)", "sin(x)/(1 + exp(x))"])
def test_what_is_no_quotient_of_several_sums_has_no_such_form(text: str) -> None:
    assert list(exponentials.forms(parsed(text))) == []


RADICALS = [
    "sqrt(x**2 + x + 1) - x",
    "sqrt(x**4 + 3*x**2 + 1) - x**2",
    "sqrt(x**2 + 3) - sqrt(x**2 + x + 7)",
    "x/(sqrt(x**2 + x + 1) + 1)",
    "sqrt(1 + k**2*x**2) - 2*x",
    "(sqrt(x**2 + 1) - 1)**2/(x*sqrt(x**2 + 1))",
    "(x**2 + 1)**sympy.Rational(3, 2)/(x - sqrt(x**2 + 1))",
    "x*(x**2 - 2*x + 3)**sympy.Rational(-1, 2) - 1",
]


@pytest.mark.parametrize("text", RADICALS)
def test_sums_of_radicals_are_the_same_function(text: str) -> None:
    node = parsed(text)
    for one in (node, *gradient(node, [node.graph.input("x")])):
        ((form, _),) = radicals.forms(one)
        agree(one, form)


@pytest.mark.parametrize("text", RADICALS[:4])
@pytest.mark.parametrize("x", [-1e250, -1e30, 1e-30, 1e30, 1e250])
def test_sums_of_radicals_neither_cancel_nor_overflow(text: str, x: float) -> None:
    node = parsed(text)
    ((form, _),) = radicals.forms(node)
    computed = Program(topological([form]), FORMATS["float64"])([{"x": x}])[-1][0]
    with mpmath.workdps(1200):
        assert computed == pytest.approx(float(value(node, {"x": mpf(x)})), rel=1e-14, abs=0)


@pytest.mark.parametrize(
    "text", ["sqrt(x**3 + 1) - x", "sqrt(x) + 1", "sqrt(x**2 + y**2)", "exp(x)*sqrt(x**2 + 1)", "x + 1"]
)
def test_what_is_no_sum_of_radicals_has_no_such_form(text: str) -> None:
    assert list(radicals.forms(parsed(text))) == []


@pytest.mark.parametrize("derive", [rational.derivative, exponentials.derivative])
def test_derivatives_of_quotients_of_exponentials(derive: Callable[..., Node | None]) -> None:
    text = {
        rational.derivative: "(exp(x) - exp(-2*x))/(exp(x) + exp(-2*x) + k)",
        exponentials.derivative: "(x*exp(x) - exp(2*y))/(exp(x) + exp(k*y) + 3)",
    }[derive]
    node = parsed(text)
    inputs = [node.graph.input(name) for name in "xy"]
    paths = [[inputs[0]], inputs[:1] * 2] if derive is rational.derivative else [inputs[:1], inputs, inputs[1:] * 2]
    for path in paths:
        derived = derive(node, path)
        assert derived is not None
        expected = functools.reduce(lambda one, wrt: gradient(one, [wrt])[0], path, node)
        agree(expected, derived)


SERIES = {
    "x/expm1(x)": ["1", "-1/2", "1/12", "0", "-1/720", "0", "1/30240"],  # Bernoulli numbers, A&S 23.1.1
    "log1p(x)/x": ["1", "-1/2", "1/3", "-1/4"],
    "sinh(x)/x": ["1", "0", "1/6", "0", "1/120"],
    "(x - atan(x))/x**3": ["1/3", "0", "-1/5", "0", "1/7"],
    "tan(x) - sin(x)": ["0", "0", "0", "1/2", "0", "1/8"],
    "1/tanh(x) - 1/x": ["0", "1/3", "0", "-1/45", "0", "2/945"],
    "sqrt(1 + x) - 1 - x/2": ["0", "0", "-1/8", "1/16"],
    "where(gt(x, 1), 7, cos(x))": ["1", "0", "-1/2"],
    "hypot(1, x)": ["1", "0", "1/2", "0", "-1/8"],
    "1/x": ["1", "0"],
    "logaddexp(x, -x)": ["LOG_2", "0", "1/2", "0", "-1/12", "0", "1/45"],
    "atan2(x, 2 + x)/x": ["1/2", "-1/4", "1/12"],
    "(atan2(1, x) - atan2(1, -x))/x": ["-2", "0", "2/3", "0", "-2/5"],
    "mul_exp(x, 2*x) + damp(x, 1 + x)": ["0", "2", "3", "2", "4/3"],
    "where(gt(x, 1), abs(x), cos(x))": ["1", "0", "-1/2"],
    "(log1p(x) - x/(1 + x))/x**3": ["1/2", "-2/3", "3/4", "-4/5"],
}
ORDERS = {"1/x": 1, "(log1p(x) - x/(1 + x))/x**3": 1}  # of poles


@pytest.mark.parametrize("text", SERIES)
def test_series(text: str) -> None:
    node = parsed(text)
    found = series.coefficients(node, node.graph.input("x"))
    assert found is not None
    order, leading = found
    assert order == ORDERS.get(text, 0)
    with mpmath.workdps(100):
        for computed, c in zip(leading, SERIES[text], strict=False):
            exact = mpmath.log(2) if c == "LOG_2" else mpmath.fraction(*Fraction(c).as_integer_ratio())
            assert abs(computed - exact) < mpf(10) ** -60


@pytest.mark.parametrize(
    "text", ["abs(x)", "exp(-1/x**2)", "sqrt(x)", "log(x)", "sign(x)", "where(gt(x, 0), x, 2)", "atan2(x, -1)"]
)
def test_what_has_no_power_series_at_zero(text: str) -> None:
    node = parsed(text)
    assert series.coefficients(node, node.graph.input("x")) is None


@pytest.mark.parametrize("reach", [0.0625, 0.125, 0.25])
@pytest.mark.parametrize("text", ["x/expm1(x)", "(x - atan(x))/x**3", "1/tanh(x) - 1/x", "tan(x) - sin(x)"])
def test_polynomials_are_as_exact_as_they_are_asked_to_be(text: str, reach: float) -> None:
    node = parsed(text)
    x = node.graph.input("x")
    found = series.coefficients(node, x)
    assert found is not None
    near = series.polynomial(found[1], x, reach, digits=50)
    assert near is not None
    with mpmath.workdps(120):
        for k in range(1, 20):
            point = {"x": mpf(reach) * k / 20 * (-1) ** k}
            exact = value(node, point)
            assert abs(value(near, point) - exact) <= abs(exact) * mpf(2) ** -49


@pytest.mark.parametrize("reach", [0.5, 0.75])
@pytest.mark.parametrize(
    "text", ["(x - atan(x))/x**3", "(atanh(x) - x)/x**3", "(log1p(x) - x)/x**2", "1/tanh(x) - 1/x", "tan(x) - sin(x)"]
)
def test_polynomials_and_quotients_through_points_are_as_exact_as_they_are_asked_to_be(text: str, reach: float) -> None:
    node = parsed(text)
    x = node.graph.input("x")
    expanded = series.coefficients(node, x)
    assert expanded is not None
    _, leading = expanded
    found = list(interpolate.forms(node, x, leading, (-reach, reach), digits=40))
    assert found
    limit = next(c for c in leading if c)
    with mpmath.workdps(120):
        for k in range(1, 20):
            point = {"x": mpf(reach) * k / 20 * (-1) ** k}
            for near in found:  # relative to the first term of the series; it is looked at between the points alone
                scale = abs(limit * point["x"] ** next(n for n, c in enumerate(leading) if c))
                assert abs(value(near, point) - value(node, point)) <= scale * mpf(2) ** -38


def test_no_polynomial_goes_through_a_pole() -> None:
    node = parsed("log1p(x)/x")
    x = node.graph.input("x")
    expanded = series.coefficients(node, x)
    assert expanded is not None
    assert list(interpolate.forms(node, x, expanded[1], (-2.0, 2.0), digits=50)) == []


def planned(text: str, folder: Path, names: str = "x") -> Operation:
    """The operation of a formula of some inputs."""
    spec = folder / "formula.py"
    spec.write_text(f"from sympy import *\n{names.replace(' ', ', ')} = symbols('{names}')\nf = {text}\n")
    (formula,) = load(spec)
    return plan(formula)


ANGLES = {
    "acos((1 + x*y)*((1 + x**2)*(1 + y**2))**-sympy.S.Half)": "atan2(abs(x - y), 1 + x*y)",
    "acos((x*z + y*k)/(hypot(x, y)*hypot(z, k)))": "atan2(abs(x*k - y*z), x*z + y*k)",
    "acos(x/hypot(x, y))": "atan2(abs(y), x)",
    "asin(2*x*(1 + 4*x**2)**-sympy.S.Half)": "atan2(2*x, 1)",
}


@pytest.mark.parametrize("text", ANGLES)
def test_an_angle_by_sine_and_cosine(text: str) -> None:
    node = nodes.parsed(text)
    ((form, _),) = angles.forms(node)
    agree(form, node)
    agree(form, nodes.parsed(ANGLES[text]))
    assert "acos" not in repr(form)
    assert len(topological([form])) <= len(topological(rewrite([nodes.parsed(ANGLES[text])]))) + 2


def test_an_angle_by_something_else_has_no_such_form() -> None:
    for text in ("acos(x)", "acos(exp(x)*(1 + y**2)**-sympy.S.Half)", "acos(x/cbrt(y))", "asin(x*y)"):
        assert not [*angles.forms(nodes.parsed(text))]


def test_equal_inputs_of_an_angle_give_a_number() -> None:
    """(1 + x*y)/sqrt((1 + x**2)*(1 + y**2)) is rounded to more than 1 for a sixth of the inputs x = y."""
    node = parsed("1 - acos((1 + x*y)*((1 + x**2)*(1 + y**2))**-sympy.S.Half)/pi")
    choice = Choice(Problem([node], [], ["x", "y"], {}))
    program = Program(topological(limits([choice.form(node)])), FORMATS["float64"])
    assert [row for x in np.linspace(-100, 100, 401).tolist() if (row := program.at({"x": x, "y": x})[-1]) != 1] == []


def test_errors_where_an_input_is_a_label_are_told() -> None:
    """-log(y*p + (1 - y)*(1 - p)) is infinite for y = 1 where p is below any number, and has few digits beside that."""
    node = parsed("-log(y*sigmoid(x) + (1 - y)*sigmoid(-x))")
    worst = Choice(Problem([node], [], ["x", "y"], {})).quality(node).double
    assert worst.error == math.inf
    assert dict(worst.at)["y"] in (0, 1)


def test_errors_where_large_inputs_nearly_meet_are_told() -> None:
    """Without the difference, whose square may overflow, log((x - y)**2*z + 2*(1 + z)) loses digits there."""
    node = parsed("log((x - y)**2*z + 2*(1 + z))")
    choice = Choice(Problem([node], [], ["x", "y", "z"], {}))
    program = Program(topological(limits([choice.form(node)])), FORMATS["float64"])
    is_right = program.at({"x": 30000.0, "y": 30000.0, "z": 0.6})[-1] == pytest.approx(math.log(3.2), rel=1e-15)
    assert is_right or choice.quality(node).double.ordinary > BAR


def test_an_argument_may_serve_near_zero_alone(tmp_path: Path) -> None:
    """log1p(t) of t = (x - y)/y loses the digits of log(x/y) where x is small, and has them where x nears y."""
    operation = planned("(x - y)/y - log(x/y)", tmp_path, "x y")
    (value, *_) = operation.accuracy
    assert value.single.error <= BAR
    assert value.double.ordinary <= BAR  # 1/y of a subnormal y is infinite


@pytest.mark.slow
def test_what_cancels_farther_than_its_series_reaches_meets_the_bar(tmp_path: Path) -> None:
    operation = planned("(x - atan(x))/x**3", tmp_path)
    for result in operation.accuracy:
        assert any("polynomials through" in note.what for note in result.forms)
        assert result.single.error <= BAR
        assert result.double.error <= BAR
    (second,) = [result for result in operation.double_accuracy if result.name == "grad_of_x"]
    assert any("polynomials through" in note.what for note in second.forms)
    assert second.single.error <= BAR
    assert second.double.error <= 4 * BAR


@pytest.mark.slow
def test_beside_a_pole_polynomials_reach_farther_on_the_other_side(tmp_path: Path) -> None:
    """The second derivative of (log(1 + x) - x)/x**2 was off by 99 units in float64 at 0.7."""
    operation = planned("(log(1 + x) - x)/x**2", tmp_path)
    for result in (*operation.accuracy, *operation.double_accuracy):
        assert result.single.error <= 1
        assert result.double.error <= BAR


RELATIVE = [
    "(1 + x**4)**sympy.Rational(1, 4)",
    "x**3*(1 + x**4)**sympy.Rational(-3, 4)",
    "cbrt(abs(x)**3 + abs(y)**3)",
    "x*abs(x)/cbrt(abs(x)**3 + abs(y)**3)**2",
    "(abs(x)**k + abs(y)**k)**(1/k)",
    "sign(x)*abs(x)**(k - 1)*(abs(x)**k + abs(y)**k)**(1/k - 1)",
    "abs(x)**k/(1 + abs(x)**k)",
    "where(gt(x, 0), 1, 2)*abs(x)**k/(1 + abs(x)**k)",
    "1/(1 + x**6) + y",
    "sqrt(k*x**2 + y**2)",
    "k*x/sqrt(k*x**2 + y**2)",
    "x**2/sqrt(k*x**2 + y**2)",
    "x*y**2/sqrt(k*x**2 + y**2)**3",
    "sqrt(2*k*x**2 + (1 + k)*y**2)",
]


@pytest.mark.parametrize("text", RELATIVE)
def test_powers_of_sums_relative_to_the_largest_term_are_the_same_function(text: str) -> None:
    node = parsed(text)
    found = [form for form, _ in relative.forms(node)]
    assert found
    for form in found:
        agree(node, form)


@pytest.mark.parametrize("size", [1e-120, 1e120])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cbrt(abs(x)**3 + abs(y)**3)", lambda s: s * 2 ** (1 / 3)),
        ("x*abs(x)/cbrt(abs(x)**3 + abs(y)**3)**2", lambda s: 2 ** (-2 / 3)),
        ("(abs(x)**k + abs(y)**k)**(1/k)", lambda s: s * 2 ** (1 / 1.5)),
        ("sqrt(k*x**2 + y**2)", lambda s: s * math.sqrt(2.5)),
        ("sqrt((1 - k)*x**2 + y**2)", lambda s: s * math.sqrt(0.5)),
        ("k*x/sqrt(k*x**2 + y**2)", lambda s: 1.5 / math.sqrt(2.5)),
        ("x**2/sqrt(k*x**2 + y**2)", lambda s: s / math.sqrt(2.5)),
    ],
)
def test_powers_of_sums_neither_overflow_nor_vanish(text: str, expected: Callable[[float], float], size: float) -> None:
    ((form, _),) = relative.forms(parsed(text))
    assert computed(form, {"x": size, "y": size}) == pytest.approx(expected(size), rel=1e-14, abs=0)


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("x**2/sqrt(k*x**2 + y**2)", {"x": 1.0, "y": 1e200}, 1e-200),  # (x/y)**2 is nothing
        ("y**2/sqrt(k*x**2 + y**2)**3", {"x": 1e-60, "y": 1e-230}, 1e-280 / 1.5**1.5),
        ("k*x/sqrt(k*x**2 + y**2)", {"x": 0.0, "y": 0.0}, 0.0),
        ("sqrt(k*x**2 + y**2)", {"x": 0.0, "y": 0.0}, 0.0),
        ("1/sqrt(k*x**2 + y**2)", {"x": 0.0, "y": 0.0}, math.inf),
    ],
)
def test_powers_relative_to_the_largest_term_where_others_vanish(
    text: str, at: dict[str, float], expected: float
) -> None:
    ((form, _),) = relative.forms(parsed(text))
    assert computed(form, at) == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize("text", ["(x + y)**k", "1/(1 + x)", "(x**2 + y**3)**k", "(sqrt(abs(x)) + sqrt(abs(y)))**2"])
def test_sums_that_are_not_of_equal_powers_have_no_such_form(text: str) -> None:
    assert list(relative.forms(parsed(text))) == []


def test_series_are_found_in_products_and_absolute_values_of_inputs() -> None:
    node = parsed("atan(k*x)/(k*x)")
    assert repr(next(series.variables(node, ["x"]))) == "mul(k, x)"
    node = parsed("abs(x)/k - log1p(abs(x)/k)")
    assert "mul(abs(x), pow(k, -1))" in [
        repr(v).replace("mul(pow(k, -1), abs(x))", "mul(abs(x), pow(k, -1))") for v in series.variables(node, ["x"])
    ]


@pytest.mark.parametrize(
    ("text", "place", "within"),
    [
        ("softplus(3 - 2*x) + 2*x - 3", "3 - 2*x", "softplus(-u)"),
        ("exp(-(x - y)**2)", "x - y", "exp(-u**2)"),
        ("expm1((x - k)/2)/(x - k)", "(x - k)/2", "exprel(u, 1)/2"),
        ("softplus(-x - y) + (1 - z)*(x + y)", "x + y", "softplus(-u) + (1 - z)*u"),
        ("z*tanh(x*y + k)", "x*y + k", "z*tanh(u)"),
        ("x*log1p(k/x)", "k/x", "log1p(u)/(u/k)"),
        ("-y*exprel(x, -1/y) - exp(-x/y)", "-x/y", "exprel(u, 1) - exp(u)"),  # Nelson and Siegel's curvature
    ],
)
def test_arguments_of_functions(text: str, place: str, within: str) -> None:
    node = parsed(text)
    found = variables.argument([node], ["x", "y", "z"])
    assert found is not None
    names = {"u": found.variable} | {name: node.graph.input(name) for name in "xyzk"}
    names |= {name: functools.partial(node.graph.apply, name) for name in PRIMITIVES}
    form = found.within(node, node.graph.const(1))
    assert found.place is rewrite([eval(place, {}, names)])[0]
    assert form in rewrite([eval(within, {}, names), eval(within.replace("exprel(u, 1)", "expm1(u)/u"), {}, names)])
    agree(node, found.back(form))


@pytest.mark.parametrize(
    "text",
    [
        *("tanh(x)", "exp(3*x) + exp(-3*x)", "x*sigmoid(x + 1)", "tanh(x - y) + x", "x + y"),
        "(1 - y)*softplus(x) + y*softplus(-x)",
    ],
)
def test_what_is_no_function_of_an_argument(text: str) -> None:
    assert variables.argument([parsed(text)], ["x", "y"]) is None


def test_derivatives_by_an_argument_and_by_the_inputs_in_it() -> None:
    node = parsed("tanh(2*x - 3*y)")
    x, y, z = (node.graph.input(name) for name in "xyz")
    found = variables.argument([node], ["x", "y"])
    assert found is not None
    assert [found.slope(wrt) for wrt in ([], [x], [y], [x, y], [z])] == [node.graph.const(k) for k in (1, 2, -3, -6, 1)]
    (by_y,) = rewrite(gradient(node, [y]))
    form = found.within(by_y, node.graph.const(-3))
    agree(by_y, -3 * found.back(form))
    product = variables.argument([node.graph.apply("tanh", x * y)], ["x", "y"])
    assert product is not None
    assert product.slope([x, y]) is None  # that of x*y by both is not 0
    quotient = variables.argument([exponential := node.graph.apply("exp", z / x)], ["x"])
    assert quotient is not None
    assert quotient.place is z / x
    for wrt in ([x], [x, x]):  # of which all derivatives are functions
        (exponential,) = rewrite(gradient(exponential, [x]))
        assert quotient.slope(wrt) is node.graph.const(1)
        form = quotient.within(exponential, node.graph.const(1))
        assert form is not None
        agree(exponential, quotient.back(form))


RECIPROCALS = ["(k/x)/(exp(k/x) - 1)", "(k/x)**2*exp(k/x)/(exp(k/x) - 1)**2", "x*log(1 + k/x)"]


@pytest.mark.slow
@pytest.mark.usefixtures("first_order")
@pytest.mark.parametrize("formula", RECIPROCALS)
def test_functions_of_a_reciprocal_meet_the_bar_for_large_inputs(formula: str, tmp_path: Path) -> None:
    """Planck's and Einstein's functions of a temperature, and x*log(1 + k/x): their gradients were off by 10**10."""
    spec = tmp_path / "formula.py"
    spec.write_text(f"from sympy import *\nfrom gradgen import op\n@op\ndef f(x, k: float = 2.0): return {formula}\n")
    (operation,) = map(plan, load(spec))
    for result in operation.accuracy:
        assert result.single.error <= BAR


@pytest.mark.slow
def test_so_does_the_second_derivative_of_one(tmp_path: Path) -> None:
    for result in planned("2*x*log(1 + 2/x)", tmp_path).double_accuracy:
        assert result.single.error <= BAR


def test_an_argument_is_no_variable_of_an_argument_within() -> None:
    node = parsed("tanh(x + y)*z")
    first = variables.argument([node], ["x", "y", "z"])
    assert first is not None
    form = first.within(node, node.graph.const(1))
    assert variables.argument([form], [str(first.variable.value), "z"]) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("expm1(y) + x**2 - y", [["expm1(y) - y"]]),
        ("k*(x + y - exp(x) + 2)", [["x - exp(x) + 2"], ["x - exp(x)"]]),
        ("(1 - x)*(1 + x) + y - exp(y)", [["y - exp(y)"], ["y - exp(y)"], ["y - expm1(y)"]]),
        ("x*y + x", []),
        ("exp(x) - x", []),
        ("tanh(x - exp(x) + y)", [["x - exp(x)"]]),
    ],
)
def test_parts_of_sums_that_are_functions_of_fewer_inputs(text: str, expected: list[list[str]]) -> None:
    node = parsed(text)
    names = {name: node.graph.input(name) for name in "xyk"}
    names |= {name: functools.partial(node.graph.apply, name) for name in PRIMITIVES}
    found = [way for _, ways in variables.sums_in_parts(node, ["x", "y"]) for way in ways]
    assert len(found) == len(expected)
    for way, typed in zip(found, expected, strict=True):
        parts = [part for part, inputs in way if inputs]
        assert len(parts) == len(typed)
        for part, text in zip(parts, typed, strict=True):
            agree(part, eval(text, {}, names))
    for total, ways in variables.sums_in_parts(node, ["x", "y"]):
        for way in ways:
            agree(total, functools.reduce(node.graph.add, (part for part, _ in way)))


@pytest.mark.parametrize("formula", ["(exp(v) + m**2 - 1 - v)/2", "-(1 + v - m**2 - exp(v))/2"])
def test_a_part_of_a_sum_keeps_its_digits_where_the_others_are_zero(formula: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(m, v):\n    return {formula}\n", tmp_path)
    v = torch.tensor([1e-10, -1e-4, 0.3], dtype=torch.float64)
    with mpmath.workdps(60):
        exact = [float((mpmath.expm1(x) - x) / 2) for x in map(mpf, v.tolist())]
    assert module.f(torch.zeros_like(v), v).tolist() == pytest.approx(exact, rel=1e-15, abs=0)


def test_common_factors_leave_a_sum_that_cancels() -> None:
    node = parsed("(1 + x)**2*exp(-x) - x**2*exp(-x)")
    form = factored(node)
    assert form is not node
    agree(node, form)
    assert repr(form) == "mul(exp(mul(-1, x)), add(pow(add(1, x), 2), mul(-1, pow(x, 2))))"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sqrt(3)*exp(-x) - sqrt(3)*(1 + sqrt(3)*x)*exp(-x)", "mul(-3, mul(exp(mul(-1, x)), x))"),
        ("k*x - k*(x - 1)", "k"),
        ("(x + k)/x - k/x", "1"),
        ("(x + k)/x - k", "add(mul(add(x, k), pow(x, -1)), mul(-1, k))"),  # nothing cancels
    ],
)
def test_products_are_written_out_where_terms_cancel_then(text: str, expected: str) -> None:
    assert repr(parsed(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/sqrt(1 + k*x**2) - k*x**2/sqrt(1 + k*x**2)**3", "pow(pow(S, 1/2), -3)"),
        ("hypot(1, x) - x**2/hypot(1, x)", "pow(hypot(1, x), -1)"),
    ],
)
def test_what_cancels_by_the_square_of_a_root_does_so_exactly(text: str, expected: str) -> None:
    node = parsed(text)
    (form, _), *_ = algebraic.forms(node)
    agree(node, form)
    assert repr(form).replace("add(1, mul(k, pow(x, 2)))", "S") == expected


def test_the_input_below_a_root_is_written_by_the_root() -> None:
    node = parsed("(sqrt(1 + x) - 1 - x/2)/x**2")
    found = {how: form for form, how in algebraic.forms(node)}
    form = found["as a function of a root"]
    agree(node, form)
    assert Printer({}).expression(form) == "-(1 + sqrt(1 + x))**(-2) / 2"
    other = parsed("(sqrt(1 + x**2) - 1 - x/2)/x**2")
    assert "as a function of a root" not in {how for _, how in algebraic.forms(other)}


@pytest.mark.parametrize(("text", "is_limit"), [("2*cos(x)", True), ("2*sign(x)**2", False), ("1/x", False)])
def test_what_a_form_with_a_kink_is_at_zero(text: str, is_limit: bool) -> None:
    reference = Reference([parsed("2*exp(x)")], ["x"], {}, "float64")
    assert reference.is_limit_at_zero(parsed(text), 0) is is_limit


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "log(1 + x)/x - 1/(1 + x)",
        "x*exp(-exp(x))",
        pytest.param("(sqrt(1 + x) - 1 - x/2)/x**2", marks=pytest.mark.thorough),
        pytest.param("(exp(x) - 1 - x)/x**2", marks=pytest.mark.thorough),
    ],
)
def test_the_search_is_bounded(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By how often a rule is tried on a node: millions of times, and for minutes, in forms that nobody could use."""
    tried, apply = [], gradgen.rewrite._apply
    monkeypatch.setattr(gradgen.rewrite, "_apply", lambda *args: tried.append(1) or apply(*args))
    spec = tmp_path / "spec.py"
    spec.write_text(f"from sympy import *\nx = symbols('x')\nf = {text}\n")
    plan(load(spec)[0])
    assert 0 < len(tried) < 500_000


def test_forms_by_the_sign_of_what_has_an_absolute_value() -> None:
    node = parsed("(x + 1 + abs(x))/(1 + abs(x))")
    form = _by_sign(node)
    assert form is not None
    assert "abs" not in repr(form)
    agree(node, form)
    assert _by_sign(parsed("abs(x) + abs(y)")) is None


def test_each_side_of_zero_has_the_form_that_is_good_there() -> None:
    """exp(-x**2)/erfc(x) is 0/0 where x >> 0, and 1/erfcx(x) where x << 0 a quotient with infinity."""
    node = parsed("exp(-x**2)/erfc(x)")
    choice = Choice(Problem([node], [], ["x"], {}))
    form = choice.form(node)
    assert {below.op for below in topological([form])} >= {"ge", "where", "erfc", "erfcx"}
    assert choice.quality(node).double.error <= BAR


def test_a_derivative_is_taken_from_the_form_of_its_value() -> None:
    value = parsed("exp(-x**2)/erfc(x)")
    (slope,) = rewrite(gradient(value, [value.graph.input("x")]))
    choice = Choice(Problem([value, slope], [], ["x"], {}, {slope: (value, value.graph.input("x"))}))
    assert "ierfcx" in repr(choice.form(slope))
    assert choice.quality(slope).double.ordinary <= 2.5 * BAR
    assert choice.notes(slope)[0].what.startswith("as the derivative of that form")


def lost(node: Node, form: Node, tensors: Sequence[str], **hyper: float) -> int:
    """At how many more of the extreme inputs than the node a form is lost."""
    exact = functools.partial(Reference([node], tensors, hyper, "float64").exact, 0)
    return Extremes(tensors, hyper).lost(node, form, exact)


def test_a_form_must_not_be_nan_where_the_node_has_a_limit() -> None:
    node = parsed("x + y")
    x = node.graph.input("x")
    assert lost(node, node, "xy") <= 0
    assert lost(node, node * (x**2 / x**2), "xy") > 0  # infinity over infinity
    assert lost(node, node + (x - 1) - (x - 1), "xy") > 0


def test_of_one_input_a_form_may_be_nan_at_infinity_for_it_is_given_its_limit() -> None:
    x = parsed("x")
    assert lost(x, x + (x - 1) - (x - 1), "x") <= 0
    assert lost(x, x**2 / x, "x") > 0  # which overflows before that


def test_a_node_that_is_lost_itself_is_held_against_what_is_exact() -> None:
    """x/sqrt(x**2 + 1.5) vanishes beyond 1e154, and with it -1 is left where exactly nothing is."""
    node = parsed("x/sqrt(x**2 + k) - x/hypot(1, x)")
    x, k = map(node.graph.input, "xk")
    one = node.graph.apply("hypot", 1, x)
    other = node.graph.apply("hypot", k**sympy.S.Half, x)
    assert lost(node, (1 - k) * x / one / other / (one + other), "x", k=1.5) <= 0


@pytest.mark.parametrize(
    "text",
    [
        "(x + sigmoid(y))/(sigmoid(x) + (x + y)**2)",
        "x/(1 + (x - y)**2)",
        "1/(x**2 + 3*y**2 + 1)",
        "x*y/(k + 2*(x + y)**2)**2",
    ],
)
def test_a_sum_that_overflows_is_divided_by_in_two_steps(text: str) -> None:
    node = parsed(text)
    (form, _), *_ = squares.forms(node)
    agree(node, form)
    huge = {"x": 3e170, "y": -2e160, "k": 2.0}
    one, other = (computed(root, huge) for root in (node, form))
    assert one == 0.0 or math.isnan(one)
    with mpmath.workprec(4000):
        exact = value(node, {name: mpf(number) for name, number in huge.items()})
        assert abs(other - exact) <= max(abs(exact) * mpf(2) ** -48, mpf(2) ** -1072)


def test_a_sum_without_squares_is_divided_by_at_once() -> None:
    assert list(squares.forms(parsed("y/(1 + x)"))) == []


def test_sigmoids_are_written_out_without_loss() -> None:
    for text in ("sigmoid(x)*y", "logistic_density(x - y)", "x*sigmoid(k*x) + logistic_density(x)"):
        form = rational.expanded(parsed(text))
        assert {below.op for below in topological([form])}.isdisjoint({"sigmoid", "logistic_density"})
        agree(parsed(text), form)


def computed(node: Node, point: dict[str, float]) -> float:
    """A node in double arithmetic."""
    (printed,) = limits([node])
    return Program(topological([printed]), FORMATS["float64"]).at({"k": 1.5, **point})[-1]


@pytest.mark.parametrize(
    ("text", "tensors", "at", "expected"),
    [
        ("x/(1 + x**2)", ["x"], {"x": math.inf}, 0.0),
        ("x**2/(1 + x**2)", ["x"], {"x": -math.inf}, 1.0),
        ("x**3/(1 + x**2)", ["x"], {"x": -math.inf}, -math.inf),
        ("(x + y)/(1 + x**2 + y**2)", ["x", "y"], {"x": math.inf, "y": 2.0}, 0.0),
        ("(x + y)/(1 + x**2 + y**2)", ["x", "y"], {"x": 0.5, "y": -math.inf}, 0.0),
        ("(x + y)/(1 + x**2 + y**2)", ["x", "y"], {"x": math.inf, "y": math.nan}, math.nan),
        ("x**2/(1 + x**2) + y", ["x", "y"], {"x": math.inf, "y": 2.0}, math.nan),  # the limit is another for each y
        ("sin(x)", ["x"], {"x": math.inf}, math.nan),
        ("x - k**2*sin(x)", ["x"], {"x": -math.inf}, -math.inf),
        ("k*x - sin(x)", ["x"], {"x": math.inf}, math.inf),  # the limit is another for k < 0
        ("k*x/(3*x + 1)", ["x"], {"x": -math.inf}, 0.5),
        ("exp(x/(1 + x))", ["x"], {"x": math.inf}, math.e),
        ("x/(x + exp(-k*x))", ["x"], {"x": -math.inf}, 0.0),  # 1 where k < 0
        ("x*softplus(k*x)/(1 + abs(x))", ["x"], {"x": math.inf}, math.inf),  # 0 where k < 0
        ("log(x + exp(1))/log(x)", ["x"], {"x": math.inf}, 1.0),
        ("(log(x) + 1)/log(x)", ["x"], {"x": math.inf}, math.nan),  # too slow to be seen
        ("exp(k*x)*sin(x)", ["x"], {"x": -math.inf}, 0.0),
        ("exp(x)*cos(x)", ["x"], {"x": math.inf}, math.nan),
        ("x*sin(x/2)", ["x"], {"x": math.inf}, math.nan),
        ("x**2*sin_pi(x)", ["x"], {"x": math.inf}, math.nan),
        ("exp(k*x)*sin(x)", ["x"], {"x": math.inf}, math.nan),
        ("cos_pi(x)", ["x"], {"x": math.inf}, math.nan),
        ("x - floor(x)", ["x"], {"x": math.inf}, math.nan),
        ("x*sin_pi(x)**2", ["x"], {"x": math.inf}, math.nan),
        ("x/(1 + (x - y)**2)", ["x", "y"], {"x": math.inf, "y": math.inf}, math.nan),
        ("x/sqrt(1 + x*y)", ["x", "y"], {"x": math.inf, "y": 2.0}, math.inf),
        ("x/sqrt(1 + x*y)", ["x", "y"], {"x": math.inf, "y": -2.0}, math.nan),  # not real there
        ("x/(1 + exp(x*y))", ["x", "y"], {"x": math.inf, "y": 0.0}, math.nan),  # infinite there, and 0 elsewhere
        ("x*y**2/(1 + x*y**2)", ["x", "y"], {"x": math.inf, "y": -2.0}, 1.0),
        ("x*y**2/(1 + x*y**2)", ["x", "y"], {"x": math.inf, "y": 0.0}, math.nan),  # 0 there
    ],
)
def test_limits_at_infinite_inputs(text: str, tensors: list[str], at: dict[str, float], expected: float) -> None:
    node = parsed(text)

    def exact(point: dict[str, float]) -> mpf:
        with mpmath.workprec(2000):
            return value(node, {name: mpf(number) for name, number in point.items()})

    assert math.isnan(computed(node, at))
    form = infinite.settled(node, node, exact, tensors, {"k": 1.5})
    assert computed(form, at) == pytest.approx(expected, nan_ok=True)
    ordinary = {"x": 0.5, "y": 0.25}
    assert computed(form, ordinary) == pytest.approx(computed(node, ordinary), rel=1e-14)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * mpmath.log(x), mpmath.inf),
        (lambda x: -mpmath.sqrt(x), -mpmath.inf),
        (lambda x: x**x, mpmath.inf),
        (lambda x: x * (3 + 1 / x), mpmath.inf),
        (lambda x: mpmath.exp(-x), 0),
        (lambda x: x * mpmath.sin(x) ** 2, None),
        (lambda x: x**2 * mpmath.cos(x) ** 2, None),
        (lambda x: x * mpmath.sin(mpmath.pi * x) ** 2, None),
        (lambda x: x * mpmath.cos(x / 2), None),
        (lambda x: mpmath.exp(x / 2**300) * mpmath.sin(x), None),
        (mpmath.cos, None),
    ],
)
def test_what_a_function_tends_to(function: Callable[[mpf], mpf], expected: mpf | None) -> None:
    with mpmath.workprec(900):
        assert infinite.tends_to([function(x) for x in infinite.FAR]) == expected


def test_a_limit_found_for_few_of_the_other_inputs_is_none() -> None:
    node = parsed("x*(2*y + sympy.Rational(1, 64))/(1 + x)")

    def exact(point: dict[str, float]) -> mpf | None:
        return value(node, {name: mpf(number) for name, number in point.items()}) if point["y"] == 2.7421875 else None

    with mpmath.workprec(2000):
        assert infinite.settled(node, node, exact, ["x", "y"], {}) is node


@pytest.mark.parametrize("there", ["0", "x", "-x"])
def test_what_is_no_limit_is_replaced_by_it(there: str) -> None:
    node = parsed(f"where(lt(abs(x), 2.0**400), k*x/hypot(1, x), {there})")
    form = infinite.settled(node, node, functools.partial(value, node), ["x"], {"k": 1.5})
    for sign in (1, -1):
        assert computed(form, {"x": sign * math.inf}) == sign * 1.5


@pytest.mark.parametrize(
    "text", ["1/(1 + x**2)", "1/log1p(abs(x))", "log1p(log1p(abs(x)))", "-x", "atan(x)", "abs(x)**0.1"]
)
def test_a_limit_that_is_found_by_itself_is_not_written_down(text: str) -> None:
    node = parsed(text)

    def exact(point: dict[str, float]) -> mpf:
        raise AssertionError(point)

    assert infinite.settled(node, node, exact, ["x"], {}) is node


def test_a_selection_that_fills_no_gap_goes() -> None:
    for text, expected in {
        "where(eq(x, 0), 1, sinc(x))": "sinc(x)",
        "where(eq(x, 0), y, y*sinc(k*x))": "mul(y, sinc(mul(k, x)))",
        "2*where(eq(x, 1), 0, log(x))": "mul(2, log(x))",
    }.items():
        assert repr(without_gaps([parsed(text)])[0]) == expected
    for text in ("where(eq(x, 0), 2, sinc(x))", "where(eq(x, 0), 1, expm1(x)/x)", "where(eq(x, 0), 0, x*sqrt(x))"):
        node = parsed(text)
        assert without_gaps([node]) == [node]


def test_a_selection_looks_for_nan_where_nothing_else_shows_it() -> None:
    graph = Graph()
    x, y = graph.input("x"), graph.input("y")
    step = graph.where(graph.apply("gt", x, 0), graph.const(1), graph.const(0))
    nested = graph.where(graph.apply("gt", y, 0), step, x)
    for node, looks in ((step, 1), (step + y, 1), (step + x, 0), (graph.apply("exp", step) * x, 0), (nested + y, 1)):
        (made,) = limits([node])
        assert sum(below.is_number(sympy.nan) for below in topological([made])) == looks
    made = limits([step + x, step + y])
    assert [sum(below.is_number(sympy.nan) for below in topological([root])) for root in made] == [1, 1]  # shared


FACTORS = (
    "x", "1/x", "y**2", "x**k", "1/(1 + x**2)", "exp(x)", "exp(-x)", "exp(y)", "exp(x)**2", "exp(-exp(x))", "exp(x*y)",
    "sin(y*exp(x))", "tanh(y*exp(x))", "atan(x*exp(y))", "cos(x*y)", "erf(x*y)", "softplus(x)", "sigmoid(x)**2",
    "erfc(x)", "sech(x)", "sinh(x)", "log(x**2)", "expm1(x)", "z", "exp(z)", "1000", "k",
)  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_products_stay_what_they_are(count: int) -> None:
    """Each factor once: x*softplus(x)*exp(y) had the square of a factor that both vanishes and grows."""
    points = [dict(zip("xyzk", map(mpf, row), strict=True)) for row in ([0.7, -1.3, 2.1, 1.5], [1.9, 0.4, -0.6, -2.5])]
    for chosen in itertools.combinations(FACTORS, count):
        product = nodes.parsed("*".join(f"({factor})" for factor in chosen), large=["k"])
        for node in (product, product + 1):
            (bound,) = limits([node])
            for point in points:
                with mpmath.workprec(200):
                    exact = value(node, point)
                    assert abs(value(bound, point) - exact) <= 1e-40 * abs(exact), (node, bound)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000*exp(-x)", "mul_exp(1000, -x)"),
        ("k*exp(-x)", "mul_exp(k, -x)"),
        ("-k*sech(x)", "mul_sech(-k, x)"),
        ("1000*x*exp(-x**2)", "mul_exp(1000*x, -x**2)"),
        ("4*exp(-x)", "4*exp(-x)"),
        ("k*sigmoid(x)**8", "k*sigmoid(x)**8"),
        ("1000*exp(-x) + x", "1000*exp(-x) + x"),  # beside x the digits do not matter
    ],
)
def test_what_vanishes_is_multiplied_by_what_is_large_at_once(text: str, expected: str) -> None:
    (bound,) = limits([nodes.parsed(text, large=["k"])])
    assert str(bound) == str(nodes.parsed(expected))


@pytest.mark.parametrize("k", [-10.0, 10.0])
def test_a_large_hyper_parameter_keeps_its_sign_where_a_power_is_lost(k: float) -> None:
    (bound,) = limits([nodes.parsed("k*exp(x)/x**2", large=["k"])])
    assert Program(topological([bound]), FORMATS["float64"]).at({"x": 1e200, "k": k})[-1] == math.copysign(math.inf, k)


@pytest.mark.parametrize(
    "text",
    [
        "(expm1(x) - x)/x**2",
        "expm1(x)**2*(x - 1/x) + expm1(-x)/3 + y",
        "(exp(x) - exp(-x))/(1 + exp(x))",
        "where(gt(expm1(x), y), expm1(x)/x, exp(y)*(1 + x))",
        "expm1(x) - exp(x) + k",
        "(expm1(x) - expm1(y))**-1*exp(x)",
        "sin(x)",
    ],
)
def test_sums_in_exponentials_are_the_same_function(text: str) -> None:
    node = parsed(text)
    agree(node, in_exponentials(node))


def test_in_exponentials_each_is_divided_first() -> None:
    form = in_exponentials(nodes.parsed("(expm1(x) - x)/x**2"))
    assert str(form) == str(nodes.parsed("x**-2*exp(x) + (-(x**-2) - x**-1)"))


def test_marks_are_taken_off_everywhere() -> None:
    node = parsed("exp(x) + y")
    assert unmarked([2 * marked(node), marked(2 * node)]) == [2 * node, 2 * node]


# Chosen by measurement

SAVED = [  # what each of the forms saves: value, derivative and second derivative come out within the bar
    "exp(2*x)/(1 + exp(x))**2",
    "log(1 - tanh(x))",
    "log(1 + x**2)",
    "x**2/(1 + x**2)",
    "x/(1 + abs(x))",
    "x/expm1(x)",
    "(1 + x**4)**sympy.Rational(1, 4)",
    "(1 - cos(x))/x**2",
    "log(cosh(x))",
    "exp(x) - 1 - x",
    "sqrt(1 + x**2) - 1",
    "1/sqrt(1 - x**2) - 1",
    "(x + sqrt(x**2 + k))/2",
    "exp(k*x) - exp(-x)",
    "abs(x)/k - log(1 + abs(x)/k)",
    "log(exp(x) - 1)",
    "(1 + sqrt(3)*abs(x))*exp(-sqrt(3)*abs(x))",
]


@pytest.mark.parametrize("text", SAVED)
def test_the_form_that_is_taken_meets_the_bar(text: str) -> None:
    node = parsed(text)
    roots = [node, *rewrite(gradient(node, [node.graph.input("x")]))]
    choice = Choice(Problem(roots, [], ["x"], {"k": 1.5}))
    assert any(choice.notes(root) for root in roots) or choice.wide(roots)
    wide = choice.wide(roots)
    for root in roots:
        quality = choice.quality(root)
        assert (quality.wide if "float32" in wide else quality.single).error <= BAR
        assert quality.double.ordinary <= BAR
        assert quality.double.error <= BAR or "sqrt(x**2 + k)" in text  # overflows at the largest numbers
        if not any("near " in note.what for note in choice.notes(root)):
            agree(root, choice.form(root), hyper=(1.5,))


DIFFERENCES = [
    *(f"{function}(x) - {function}(y)" for function in ("tanh", "erf", "atan", "asinh", "sin", "cos", "sinh", "cosh")),
    "exp(-x**2) - exp(-y**2)",
    "softplus(x) - softplus(y)",
    "sigmoid(x) - sigmoid(y)",
    "log1p(x) - log1p(y)",
]


@pytest.mark.parametrize("text", DIFFERENCES)
def test_a_difference_of_values_that_are_nearly_equal_keeps_its_digits(text: str) -> None:
    """Two of erf, which no correction is known of, may err to opposite sides in float64: docs/accuracy.md."""
    node = parsed(text)
    quality = Choice(Problem([node], [], ["x", "y"], {})).quality(node)
    assert min(quality.single.error, quality.wide.error) <= BAR
    assert quality.double.error <= (1.15 if "erf" in text else 1) * BAR


@pytest.mark.parametrize("text", [text for text in DIFFERENCES if "erf" not in text])
def test_a_quotient_of_differences_keeps_its_digits(text: str) -> None:
    """Where the difference is 0 the quotient is no number as it was written, and no form may be one there."""
    node = parsed(f"({text})/(x - y)")
    quality = Choice(Problem([node], [], ["x", "y"], {})).quality(node)
    assert min(quality.single.error, quality.wide.error) <= BAR
    assert quality.double.ordinary <= BAR


def test_a_norm_with_coefficients_meets_the_bar_to_its_second_derivatives() -> None:
    """Where squares overflow or vanish, too; but second derivatives of inputs below the smallest normal number."""
    node = parsed("sqrt(k*x**2 + y**2)")
    wrt = [node.graph.input("x"), node.graph.input("y")]
    first = rewrite(gradient(node, wrt))
    second = [row for slope in first for row in rewrite(gradient(slope, wrt))]
    choice = Choice(Problem([node, *first], second, ["x", "y"], {"k": 1.5}))
    for root in (node, *first):
        assert max(choice.quality(root).single.error, choice.quality(root).double.error) <= BAR
    for root in second:
        assert choice.quality(root).double.ordinary <= BAR
        assert choice.quality(root).double.error <= 10 * BAR


@pytest.mark.parametrize(
    "text", ["sigmoid(x)", "x*y", "exp(x)", "tanh(x)", "softplus(x)", "atan2(x, y)", "hypot(x, y)"]
)
def test_a_form_that_is_good_is_left_alone(text: str) -> None:
    node = parsed(text)
    choice = Choice(Problem([node], [], ["x", "y"], {"k": 1.5}))
    assert choice.form(node) is node
    assert choice.wide([node]) == ()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("0.11283791670955126", "0.11283791670955126 * x"),
        ("7.440843292672897e-13", "7.440843292672897e-13 * x"),
        ("2/7", "2 * x / 7"),
        ("12/1000003", "12/1000003 * x"),
    ],
)
def test_coefficients_are_written_as_the_decimals_that_they_are(number: str, text: str) -> None:
    x = Graph().input("x")
    assert Printer({}).expression(x * sympy.Rational(number)) == text


def test_derivatives_are_looked_at_just_inside_of_where_the_value_switches() -> None:
    """The derivative of a polynomial is off most at the ends of the interval that the polynomial was made for."""
    form = parsed("where(lt(abs(x), 5/8), x + exp(3000*(abs(8*x/5) - 1))/10**9, x)")
    references = References([form.graph.input("x")], ["x"], {})
    before = references.measured([form], [0], near=True)[0].double.error
    references.look_at_switches(form)
    assert before <= BAR < references.measured([form], [0], near=True)[0].double.error


@pytest.mark.parametrize(("reach", "is_harmless"), [(2.0**-6, False), (2.0**-27, True)])
def test_a_patch_is_not_far_off_where_the_form_is_not(reach: float, is_harmless: bool) -> None:
    """The points that are looked at always may have no input of such a size."""
    form = parsed("expm1(x*y)/x")
    x, y = map(form.graph.input, "xy")
    near = form.graph.where(form.graph.apply("lt", form.graph.apply("abs", x), reach), y + x * y**2 / 2, form)
    assert References([form], ["x", "y"], {}).is_harmless(near, form, 0, x, reach) == is_harmless


@pytest.mark.parametrize(
    ("text", "place", "first_terms"),
    [
        ("expm1((x - y)/2)/(x - y)", "x - y", "1/2 + (x - y)/8"),
        ("expm1(-x/y)/(x/y)", "x/y", "-1 + x/y/2"),
        ("expm1(x*y)/(x*y)", "x*y", "1 + x*y/2"),
    ],
)
def test_nor_is_one_in_a_difference_a_quotient_or_a_product(text: str, place: str, first_terms: str) -> None:
    form = parsed(text)
    names = {name: form.graph.input(name) for name in "xy"} | {"graph": form.graph}
    variable, terms = eval(place, {}, names), eval(first_terms.replace("1/2", "graph.const(1)/2"), {}, names)
    for reach, is_harmless in ((2.0**-6, False), (2.0**-27, True)):
        near = form.graph.where(form.graph.apply("lt", form.graph.apply("abs", variable), reach), terms, form)
        assert References([form], ["x", "y"], {}).is_harmless(near, form, 0, variable, reach) == is_harmless


def test_beyond_a_patch_there_are_no_branches_for_less() -> None:
    form = parsed("where(lt(abs(x), 1/64), x, where(lt(abs(x), 4), 2*x, where(gt(x, 1), 3*x, 4*x)))")
    found = patches._beyond(form, form.graph.input("x"), 1.0)
    assert Printer({}).expression(found) == "2 * x if abs(x) < 4 else 3 * x if x > 1 else 4 * x"


def test_functions_with_a_parameter_are_functions_of_a_product() -> None:
    """exprel(k, x) = x*exprel(k*x, 1): near k*x = 0 there is a series, near k = 0 one in which x is in the way."""
    form = parsed("(exprel(x, y) - y)/x")
    x, y = map(form.graph.input, "xy")
    found = [moved for moved, place in variables.in_products(form, ["x", "y"]) if place is x * y]
    assert any(set(inputs_of(rewrite([moved / y**2]))) == {variables.PRODUCT} for moved in found)
