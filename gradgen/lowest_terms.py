"""Coefficients of series that are functions of hyper-parameters alone, in lowest terms."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from sympy import Expr, Symbol

from gradgen.graph import Graph, Node, topological
from gradgen.rational import as_node

_MOST_OPERATIONS = 600  # of one that is looked at


def in_lowest_terms(node: Node) -> Node:
    """A node of hyper-parameters alone as a fraction of polynomials with no factor in common, in factors.

    1/(1/(1 - r) - r/(1 - r)) is 1. What is no rational function of them is a symbol in it. Any other node stays as it
    is.
    """
    if node.number is not None or not node.graph.is_hyper(node):
        return node
    symbols: dict[Node, Symbol] = {}
    value = _value(node, symbols)
    if value.has(sympy.zoo, sympy.nan) or sympy.count_ops(value) > _MOST_OPERATIONS:
        return node
    return quotient(node.graph, symbols, *sympy.fraction(sympy.cancel(value)))


def quotient(graph: Graph, symbols: Mapping[Node, Symbol], top: Expr, bottom: Expr) -> Node:
    """A quotient of polynomials in symbols that stand for nodes, in factors."""
    made = graph.const(1)
    for side, sign in ((top, 1), (bottom, -1)):
        number, factors = sympy.factor_list(side)
        made = number**sign * made
        for base, exponent in factors:
            made = made * as_node(graph, symbols, base) ** (sign * exponent)
    return made


def _value(node: Node, symbols: dict[Node, Symbol]) -> Expr:
    """A node as a rational function of symbols for what is none."""
    values: dict[Node, Expr] = {}
    for below in topological([node]):
        args = [values[arg] for arg in below.args]
        exponent = below.args[1].number if below.op == "pow" else None
        if below.number is not None:
            share, number = below.number.as_coeff_Mul()
            values[below] = share * (1 if number == 1 else _symbol(node.graph.const(number), symbols))
        elif below.op in ("add", "mul"):
            values[below] = args[0] + args[1] if below.op == "add" else args[0] * args[1]
        elif exponent is not None and exponent.is_Integer:
            values[below] = args[0] ** exponent
        else:
            values[below] = _symbol(below, symbols)
    return values[node]


def _symbol(node: Node, symbols: dict[Node, Symbol]) -> Symbol:
    return symbols.setdefault(node, Symbol(f"h{len(symbols)}"))
