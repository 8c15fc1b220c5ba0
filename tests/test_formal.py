"""Power series whose coefficients are functions of hyper-parameters."""

from __future__ import annotations

import mpmath
import pytest
import sympy
from mpmath import mpf
from nodes import parsed

from gradgen import formal
from gradgen.evaluate import values
from gradgen.graph import Node, topological
from gradgen.rewrite import rewrite

K = mpf(3) / 8

# With the first coefficients
SERIES = {
    "(1 - (1 + x)**(-k))/x": ["k", "-k*(k + 1)/2", "k*(k + 1)*(k + 2)/6"],
    "(exp(k*x) - 1)/x": ["k", "k**2/2", "k**3/6"],
    "sin(k*x)/sin(x)": ["k", "0", "-k*(k - 1)*(k + 1)/6"],
    "(1 - exp(-k*x**3))/x**3": ["k", "0", "0", "-k**2/2"],
    "log((1 + k*x**2)/(1 + x**2))/x**2": ["k - 1", "0", "-(k - 1)*(k + 1)/2"],
    "x/log((sqrt(1 - 2*k*x + x**2) + x - k)/(1 - k))": ["1", "-k/2", "-(3*k**2 - 2)/12"],
    "(sqrt(k + x) - sqrt(k))/x": [],
    "tanh(k + x)": [],
    "(logaddexp(x, k*x) - log(2))/x": ["(k + 1)/2"],
    "atan2(k*x, 1 + x)/x": ["k", "-k"],
    "mul_exp(k*x, 2*x)/csch(x)": ["0", "0", "k"],
    "bessel_j(1, k*x)/x": ["k/2", "0", "-k**3/16"],
    "hypot(1, k*x)": ["1", "0", "k**2/2"],
}


def at(node: Node, x: mpf) -> mpf:
    order = topological([node])
    return values(order, {"x": x, "k": K})[node]


@pytest.mark.parametrize("text", SERIES)
def test_coefficients(text: str) -> None:
    (node,) = rewrite([parsed(text)])
    found = formal.coefficients(node, node.graph.input("x"))
    assert len(found) >= 4
    with mpmath.workdps(120):
        for coefficient, expected in zip(found, SERIES[text], strict=False):
            exact = sympy.lambdify("k", expected, "mpmath")(K)
            assert abs(at(coefficient, mpf(0)) - exact) < mpf(10) ** -50
        x = mpf(2) ** -10
        total = sum(at(coefficient, mpf(0)) * x**power for power, coefficient in enumerate(found))
        assert abs(total - at(node, x)) < 10**9 * x ** len(found)


@pytest.mark.parametrize(
    "text", ["abs(x)", "1/x", "sqrt(x)", "x**k", "abs(k + x)", "exp(y*x)", "where(gt(k, x), x, 1)"]
)
def test_what_has_no_series(text: str) -> None:
    node = parsed(text)
    assert formal.coefficients(node, node.graph.input("x")) == []
