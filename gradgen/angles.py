"""Angles by their cosine or sine, which keep half of their digits where that nears 1, and none where it rounds beyond.

acos(p/sqrt(q)) is atan2(sqrt(q - p**2), p), and q - p**2 may be a square or a sum without what cancels:
(1 + x**2)*(1 + y**2) - (1 + x*y)**2 is (x - y)**2.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import sympy
from sympy import Expr, Symbol

from gradgen.graph import HALF, Node, substitute, topological
from gradgen.rational import as_node
from gradgen.rewrite import factors, rewrite

_MOST_NODES = 60  # of a formula that is looked at,
_MOST_OPERATIONS = 60  # and of what is below the root


class _NoPolynomialError(Exception):
    """A node is no polynomial in inputs."""


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """A node with its arccosines and arcsines of quotients by roots as arctangents, if it has any."""
    order = topological([node])
    angles = [below for below in order if below.op in ("acos", "asin")] if len(order) <= _MOST_NODES else []
    found = {angle: form for angle in angles if (form := _as_arctangent(angle)) is not None}
    if found:
        yield rewrite(substitute([node], found))[0], "with angles by sine and cosine"


def _as_arctangent(angle: Node) -> Node | None:
    """An angle by both its sine and its cosine, each times the same; None where its square is no quotient."""
    graph = angle.graph
    atoms: dict[Node, Symbol] = {}
    number, found = factors(angle.args[0])
    try:
        tops = [_polynomial(base, atoms) ** exponent for base, exponent in found if _is_above(base, exponent)]
        squares = [_below_root(base, exponent, atoms) for base, exponent in found if not _is_above(base, exponent)]
    except _NoPolynomialError:
        return None
    if not squares:
        return None
    top = number * sympy.prod(tops)
    number, rest = sympy.factor_list(sympy.expand(sympy.prod(squares) - top**2))
    if number < 0 or sum(sympy.count_ops(factor) for factor, _ in rest) > _MOST_OPERATIONS:
        return None
    one = as_node(graph, atoms, top)
    parts = [_root(as_node(graph, atoms, factor), exponent) for factor, exponent in rest]
    other = reduce(graph.mul, parts, graph.const(sympy.sqrt(number)))
    return graph.apply("atan2", *((other, one) if angle.op == "acos" else (one, other)))


def _is_above(base: Node, exponent: int) -> bool:
    """Whether a factor is above a quotient's line."""
    return exponent > 0 and base.op != "pow"


def _below_root(base: Node, exponent: int, atoms: dict[Node, Symbol]) -> Expr:
    """The polynomial that a factor is one over the root of."""
    if base.op == "pow" and base.args[1].number == -HALF and exponent > 0:
        return _polynomial(base.args[0], atoms) ** exponent
    if base.op == "pow" and base.args[1].number == HALF and exponent < 0:
        return _polynomial(base.args[0], atoms) ** -exponent
    if base.op == "hypot" and exponent < 0:
        one, other = (_polynomial(arg, atoms) for arg in base.args)
        return (one**2 + other**2) ** -exponent
    raise _NoPolynomialError


def _polynomial(node: Node, atoms: dict[Node, Symbol]) -> Expr:
    """A node as a polynomial in inputs."""
    if node.number is not None and node.number.is_Rational:
        return node.number
    if node.op == "input":
        return atoms.setdefault(node, Symbol(f"a{len(atoms)}", real=True))
    if node.op in ("add", "mul"):
        a, b = (_polynomial(arg, atoms) for arg in node.args)
        return a + b if node.op == "add" else a * b
    exponent = node.args[1].number if node.op == "pow" else None
    if exponent is not None and exponent.is_Integer and exponent > 0:
        return _polynomial(node.args[0], atoms) ** exponent
    raise _NoPolynomialError


def _root(base: Node, exponent: int) -> Node:
    """The root of a power."""
    size: Node = base.graph.apply("abs", base) ** (exponent // 2)
    return size * base**HALF if exponent % 2 else size
