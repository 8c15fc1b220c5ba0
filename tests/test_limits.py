"""The last pass over a graph, by the model of rounding."""

from __future__ import annotations

import math
from collections import Counter

import mpmath
import pytest
from mpmath import mpf
from nodes import parsed

from gradgen.evaluate import values
from gradgen.graph import topological
from gradgen.limits import limits
from gradgen.model import FORMATS, Program
from gradgen.rewrite import rewrite
from gradgen.ulp import mixed_error


def computed(text: str, x: float, y: float) -> float:
    """What a formula is computed as in float64, where z is 3 and k is 2."""
    order = topological(limits(rewrite([parsed(text)])))
    return Program(order, FORMATS["float64"]).at({"x": x, "y": y, "z": 3.0, "k": 2.0})[-1]


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("exp(x)/(1 + x**2)", 715.0, 0.0, 6.4854725829e304),
        ("exp(x)/(1 + x**2)", 1e200, 0.0, math.inf),
        ("exp(-x)/x**3", -1e200, 0.0, -math.inf),
        ("exp(x)*(1 + x**2)**sympy.Rational(-1, 3)", 1e200, 0.0, math.inf),
        # As small a product as that brings the exponential back.
        ("exp(x*y)/(1 + x**2)**2", 1e300, 2.1e-297, 0.0),
        ("exp(y + tanh(x))/(1 + x**2)**2", 1e250, 2001.0, 0.0),
        ("exp(-1/sqrt(x))/x", 0.0, 0.0, 0.0),
        ("exp(-x - 2/sqrt(x))/(x*sqrt(x))", 0.0, 0.0, 0.0),
    ],
)
def test_what_decays_beside_an_exponential(text: str, x: float, y: float, expected: float) -> None:
    assert computed(text, x, y) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "text",
    [
        "x*tanh(exp(x))",
        "x*log1p(sigmoid(x))",
        "x*tanh(log1p(sigmoid(x)))",
        "x*erf(softplus(x))",
        "x*sin(-3*exp(x))",
        "-2*x**2*atan(tanh(exp(2*x)/5))",
        "x*tanh(x*erfc(-x)/2)",
    ],
)
def test_a_factor_brings_digits_back_of_what_is_about_linear_in_what_vanishes(text: str) -> None:
    """The exponential is a subnormal number, of a few digits; so may the result be, of some more."""
    node = parsed(text)
    order = topological([node])
    is_gaussian = "erfc" in text
    for x in (-27.19, -27.13, -27.06, -26.9) if is_gaussian else (-741.3, -739.9, -722.2, -370.6, -369.9, -361.1):
        with mpmath.workprec(400):
            right = values(order, {"x": mpf(x)})[node]
            off = mixed_error(computed(text, x, 0.0), right, mpf(0), "float64")
        assert off <= 4, x
        assert abs(right) < 1e-300 or abs(x) < 371


def test_what_vanishes_for_a_moment_is_not_linear_there() -> None:
    """The sine of exp(x) is 0 far from where exp(x) is."""
    (form,) = limits(rewrite([parsed("x*sin(exp(x))")]))
    conditions = [node for node in topological([form]) if node.op == "lt"]
    assert [repr(node.args[0]) for node in conditions] == ["exp(x)"]


ZEROS = [
    "z + y*exp(x)",
    "sin(y)*exp(x)",
    "y*(exp(x) - x)",
    "x*tanh(y)*exp(x)",
    "z + sign(y)*exp(x)",
    "sqrt(abs(y))*sinh(x)",
    "x*y*expm1(x)",
    "y**2*cosh(x)",
    "z - (y*exp(x))**2",
]


@pytest.mark.parametrize("text", ZEROS)
def test_zero_wins_against_what_another_input_makes_infinite(text: str) -> None:
    assert computed(text, 800.0, 0.0) == (3 if "z" in text else 0)
    assert math.isinf(computed(text, 800.0, 1.0))
    assert math.isnan(computed(text, math.nan, 0.0))


def test_what_brings_an_exponential_back_does_so_before_it_is_infinite() -> None:
    assert computed("z + y*exp(x)", 715.0, 1e-5) == pytest.approx(1e-5 * math.exp(15) * math.exp(700), rel=1e-10)


def test_a_selection_of_1_or_what_vanishes_is_multiplied_as_a_sigmoid_is() -> None:
    """Of other selections nothing is known: 5 or exp(-|x|) is no sigmoid's numerator."""
    for text, is_damped in (
        ("1, exp(-modulus(x))", True),
        ("exp(-modulus(x)), 1", True),
        ("x, exp(-modulus(x))", False),
    ):
        (found,) = limits([parsed(f"x*where(ge(x, 0), {text})")])
        assert ("damp" in {node.op for node in topological([found])}) == is_damped


@pytest.mark.parametrize("number", [1, 10**19, 3 * 10**36])
@pytest.mark.parametrize("power", [2, 3])
def test_an_exponential_is_bound_once_to_what_grows(power: int, number: int) -> None:
    """Where it has lost digits so much is lost with the second one that they do not matter, whatever the number."""
    (form,) = limits([parsed(f"{number}*x*exp(-modulus(x))**{power}")])
    order = topological([form])
    assert Counter(node.op for node in order)["mul_exp"] == 1
    for x in map(FORMATS["float32"].rounded, (29.6, 43.7, 61.2, 87.4, 89.1, 94.3, 102.9, 103.9, 150.0)):
        exact = number * mpf(x) * mpmath.exp(-power * mpf(x))
        found = Program(order, FORMATS["float32"]).at({"x": x, "y": 0.0, "z": 0.0, "k": 0.0})[-1]
        assert mixed_error(found, exact, power * mpf(x) * exact, "float32") <= 4, x


def test_one_that_may_be_large_is_bound_each_time() -> None:
    (form,) = limits([parsed("x*exp(x)**2")])
    assert Counter(node.op for node in topological([form]))["mul_exp"] == 2
