"""Rational functions of something and of a square root of it, in lowest terms.

With s = sqrt(1 + x**2) the difference 1/s - x**2/s**3 is 1/s**3: what cancels does so exactly, because s**2 is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import reduce

import sympy
from sympy import Dummy, Expr, Poly

from gradgen.graph import HALF, Node, topological
from gradgen.rational import by_branches

_MOST_NODES = 60  # of a formula that is looked at,
_MOST_OPERATIONS = 60  # of its value as SymPy has it,
_MOST_ROOTS = 2  # of the roots in it that are tried


class _NotAlgebraicError(Exception):
    """The node is no rational function of the root."""


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """Other forms of a node, by each of the roots in it; of a selection by those of its branches."""
    if node.op == "where":
        yield from by_branches(node, forms)
        return
    order = topological([node])
    if len(order) > _MOST_NODES:
        return
    for root in itertools.islice(filter(_is_root, order), _MOST_ROOTS):
        try:
            form = _Extension(node, root).node()
        except (_NotAlgebraicError, sympy.PolynomialError):
            continue
        if form is not node:
            yield form, "in lowest terms of a root"


def _is_root(node: Node) -> bool:
    return node.op == "hypot" or (node.op == "pow" and node.args[1].is_number(HALF))


class _Extension:
    """A node as a rational function of a root and of symbols for all that is not arithmetic."""

    def __init__(self, node: Node, root: Node) -> None:
        self.graph = node.graph
        self.s = Dummy("s", positive=True)
        self.nodes: dict[Expr, Node] = {self.s: root}
        self.values: dict[Node, Expr] = {root: self.s}
        squared = [self.value(arg) ** 2 for arg in root.args] if root.op == "hypot" else [self.value(root.args[0])]
        relation = Poly(self.s**2 - sum(squared), self.s)
        value = self.value(node)
        if not value.has(self.s) or sympy.count_ops(value) > _MOST_OPERATIONS:
            raise _NotAlgebraicError
        top, bottom = sympy.fraction(sympy.together(value))
        reduced = sympy.rem(Poly(top, self.s), relation).as_expr()
        self.top, self.bottom = sympy.fraction(sympy.cancel(reduced / bottom))

    def value(self, node: Node) -> Expr:
        for below in topological([node], stop=self.values.keys()):
            if below not in self.values:
                self.values[below] = self._value(below)
        return self.values[node]

    def _value(self, node: Node) -> Expr:
        if node.number is not None and node.number.is_finite:
            return node.number
        args = [self.values[arg] for arg in node.args]
        if node.op == "add":
            return args[0] + args[1]
        if node.op == "mul":
            return args[0] * args[1]
        if node.op == "unit":
            return args[0] / args[1]
        if node.op == "pow" and node.args[1].number is not None and node.args[1].number.is_Integer:
            return args[0] ** args[1]
        symbol = Dummy(f"a{len(self.nodes)}", real=True)
        self.nodes[symbol] = node
        return symbol

    def node(self) -> Node:
        """The quotient, by the factors of its parts, so that their product cannot overflow beneath a 1."""
        number, top = sympy.factor_list(self.top)
        divisor, bottom = sympy.factor_list(self.bottom)
        factors = [*top, *((factor, -exponent) for factor, exponent in bottom)]
        nodes = [self._as_node(factor) ** exponent for factor, exponent in factors]
        result: Node = reduce(self.graph.mul, nodes, self.graph.const(number / divisor))
        return result

    def _as_node(self, value: Expr) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        if value.is_number:
            return self.graph.const(value)
        if value.is_Pow:
            power: Node = self._as_node(value.base) ** value.exp
            return power
        result: Node = reduce(self.graph.add if value.is_Add else self.graph.mul, map(self._as_node, value.args))
        return result
