"""The last pass over a graph, by the model of rounding."""

from __future__ import annotations

import math

import pytest
from nodes import parsed

from gradgen.graph import topological
from gradgen.limits import limits
from gradgen.model import FORMATS, Program
from gradgen.rewrite import rewrite


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
    ],
)
def test_what_decays_beside_an_exponential(text: str, x: float, y: float, expected: float) -> None:
    assert computed(text, x, y) == pytest.approx(expected, rel=1e-10)


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
