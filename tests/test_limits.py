"""The last pass over a graph, by the model of rounding."""

from __future__ import annotations

import math

import pytest
from nodes import parsed

from gradgen.graph import topological
from gradgen.limits import limits
from gradgen.model import FORMATS, Program
from gradgen.rewrite import rewrite


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
    order = topological(limits(rewrite([parsed(text)])))
    found = Program(order, FORMATS["float64"]).at({"x": x, "y": y, "z": 1.0, "k": 2.0})[-1]
    assert found == pytest.approx(expected, rel=1e-10)


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
    order = topological(limits(rewrite([parsed(text)])))
    compute = Program(order, FORMATS["float64"]).at
    assert compute({"x": 800.0, "y": 0.0, "z": 3.0, "k": 2.0})[-1] == (3 if "z" in text else 0)
    assert math.isinf(compute({"x": 800.0, "y": 1.0, "z": 3.0, "k": 2.0})[-1])
    assert math.isnan(compute({"x": math.nan, "y": 0.0, "z": 3.0, "k": 2.0})[-1])


def test_what_brings_an_exponential_back_does_so_before_it_is_infinite() -> None:
    order = topological(limits(rewrite([parsed("z + y*exp(x)")])))
    found = Program(order, FORMATS["float64"]).at({"x": 715.0, "y": 1e-5, "z": 3.0, "k": 2.0})[-1]
    assert found == pytest.approx(1e-5 * math.exp(15) * math.exp(700), rel=1e-10)
