"""Series whose coefficients are functions of other inputs, held against SymPy's."""

from __future__ import annotations

import math

import pytest
import sympy
from nodes import parsed

from gradgen.evaluate import values
from gradgen.graph import Graph, Node, topological
from gradgen.laurent import Laurent, NoSeriesError
from gradgen.poles import Poles
from gradgen.rewrite import rewrite

COUNT = 5
X, K = sympy.symbols("x k")

FORMULAS = [
    "x/(1 - (1 + x)**-k)",
    "x*(1 + x)**k/((1 + x)**k - 1)",
    "(exp(k*x) - 1)/(exp(x) - 1)",
    "1/x - k/(exp(k*x) - 1)",
    "(sin(k*x) - k*x)**2/(x**4*(cos(k*x) - 1))",
    "x**3/(exp(k*x) - 1)**2",
]


def coefficients(root: Node) -> list[Node]:
    return Laurent(root.graph.input("x"), Poles(["x"], {"k": 1.7}), COUNT).coefficients(root)


@pytest.mark.parametrize("formula", FORMULAS)
def test_coefficients(formula: str) -> None:
    """At values of k at which the order of what vanishes is the same."""
    exact = sympy.sympify(formula, locals={"x": X, "k": K})
    found = coefficients(rewrite([parsed(formula)])[0])
    assert len(found) == COUNT
    for k in (sympy.Rational(17, 10), sympy.Rational(-3, 5)):
        series = sympy.series(exact.subs(K, k), X, 0, COUNT).removeO()
        for power, node in enumerate(found):
            value = values(topological([node]), {"k": float(k)})[node]
            assert float(value) == pytest.approx(float(series.coeff(X, power)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("formula", ["k/x", "1/(exp(k*x) - 1)", "exp(k/x)*x", "sqrt(x)/(exp(x) - 1)", "(x - x*k/k)/x"])
def test_what_has_no_such_series(formula: str) -> None:
    with pytest.raises(NoSeriesError):
        coefficients(parsed(formula))


def test_what_is_no_number_stays_none_in_sums_and_products() -> None:
    """Of such a product, a form among others, there was a sign and a size to be asked for."""
    graph = Graph()
    x, nan = graph.input("x"), graph.const(sympy.nan)
    assert {x * nan, nan * x, x + nan, nan + x, 2 * (nan + 1)} == {nan}


def test_functions_of_numbers_are_numbers() -> None:
    found = rewrite([parsed(text) for text in ("sigmoid(k - k)", "softplus(0*k)", "logaddexp(0*k, 0*k)")])
    assert [float(node.number) for node in found if node.number] == pytest.approx([0.5, math.log(2), math.log(2)])
