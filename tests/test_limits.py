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
