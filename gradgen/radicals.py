"""Sums of square roots of polynomials, without what cancels and what overflows.

What arithmetic makes of an input x and of square roots s, t, ... of polynomials in it is a quotient of products of sums
of radicals, such as a*s + b*t with polynomials a and b. Where the two terms have different signs such a sum is
(a**2*s**2 - b**2*t**2)/(a*s - b*t), the polynomial above being multiplied out; beyond |x| = 1 all is computed from 1/x,
with the highest power of x before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import sympy
from sympy import Expr, Poly, Symbol

from gradgen.graph import HALF, Node, inputs_of, topological
from gradgen.rational import as_node
from gradgen.rewrite import rewrite

_MOST_NODES = 60  # of a formula that is looked at,
_MOST_OPERATIONS = 80  # of its value as SymPy has it,
_MOST_DEGREE = 12  # of the polynomials
_X = Symbol("x", real=True)


class _NoRadicalsError(Exception):
    """The node is no quotient of sums of at most two radicals."""


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """Another form of a node, if it has roots of polynomials in the only input; with what it is."""
    order = topological([node])
    tensors = [name for name in inputs_of([node]) if name not in node.graph.hyper]
    if len(tensors) != 1 or len(order) > _MOST_NODES or not any(_is_root(below) for below in order):
        return
    try:
        form = _Radicals(node, node.graph.input(tensors[0])).node()
    except (_NoRadicalsError, sympy.PolynomialError):
        return
    yield rewrite([form])[0], "as a quotient of sums of radicals"


def _is_root(node: Node) -> bool:
    exponent = node.args[1].number if node.op == "pow" else None
    return node.op == "hypot" or (exponent is not None and bool((2 * exponent).is_odd))


class _Radicals:
    """A node in terms of an input and of square roots.

    Args:
        node: what has such a form.
        x: the input.
    """

    def __init__(self, node: Node, x: Node) -> None:
        self.graph, self.x = node.graph, x
        self.atoms: dict[Node, Symbol] = {}
        self.roots: dict[Symbol, Poly] = {}  # each with what it is the root of
        self._done: dict[Node, Expr] = {}
        value = self._value(node)
        if not self.roots or sympy.count_ops(value) > _MOST_OPERATIONS:
            raise _NoRadicalsError
        top, bottom = sympy.fraction(sympy.together(value))
        powers: dict[Expr, int] = {}
        self._number = sympy.S.One
        for side, sign in ((self._reduced(top), 1), (bottom, -1)):
            number, found = sympy.factor_list(side)
            self._number *= number**sign
            for factor, exponent in found:
                part = factor if sign > 0 else self._reduced(factor)
                powers[part] = powers.get(part, 0) + sign * exponent
        self._factors = [(Poly(part, *self.roots), exponent) for part, exponent in powers.items() if exponent]

    def _value(self, node: Node) -> Expr:
        for below in topological([node]):
            if below not in self._done:
                self._done[below] = self._of(below, [self._done[arg] for arg in below.args])
        return self._done[node]

    def _of(self, node: Node, args: list[Expr]) -> Expr:
        if node is self.x:
            return _X
        if node.number is not None and node.number.is_Rational:
            return node.number
        if node.op in ("add", "mul"):
            return args[0] + args[1] if node.op == "add" else args[0] * args[1]
        if node.op == "hypot":
            return self._root(args[0] ** 2 + args[1] ** 2)
        if node.op == "unit":
            return args[0] / args[1]
        exponent = node.args[1].number if node.op == "pow" else None
        if exponent is not None and abs(exponent) > _MOST_DEGREE and args[0].has(_X):
            raise _NoRadicalsError  # to be told before it is written out
        if exponent is not None and exponent.is_Integer:
            return args[0] ** exponent
        if exponent is not None and (2 * exponent).is_Integer:
            return self._root(args[0]) ** (2 * exponent)
        if self.x in topological([node]):
            raise _NoRadicalsError
        return self.atoms.setdefault(node, Symbol(f"a{len(self.atoms)}", real=True))

    def _root(self, of: Expr) -> Symbol:
        poly = Poly(sympy.expand(of), _X)
        if poly.degree() % 2 or not 0 < poly.degree() <= _MOST_DEGREE:
            raise _NoRadicalsError
        for symbol, known in self.roots.items():
            if known == poly:
                return symbol
        symbol = Symbol(f"s{len(self.roots)}", positive=True)
        self.roots[symbol] = poly
        return symbol

    def _reduced(self, value: Expr) -> Expr:
        """A polynomial in lower powers of the roots."""
        for symbol, poly in self.roots.items():
            value = sympy.rem(Poly(value, symbol), Poly(symbol**2 - poly.as_expr(), symbol)).as_expr()
        return sympy.expand(value)

    def node(self) -> Node:
        """The quotient."""
        is_large = self.graph.apply("gt", self.graph.apply("abs", self.x), 1)
        inverse = 1 / self.graph.where(is_large, self.x, self.graph.const(1))
        large = self._product([(_Sum(self, factor, inverse), e) for factor, e in self._factors], inverse, [])
        small = self._product([(_Sum(self, factor, None), e) for factor, e in self._factors], self.x, [])
        return as_node(self.graph, self.atoms, self._number) * self.graph.where(is_large, large, small)

    def _product(self, left: Sequence[tuple[_Sum, int]], at: Node, taken: Sequence[tuple[_Way, int]]) -> Node:
        """A product of powers of sums and of ways to compute some, each in one way or the other."""
        if left:
            (one, exponent), *others = left
            ways = [self._product(others, at, [*taken, (way, exponent)]) for way in one.ways]
            return ways[0] if one.condition is None else self.graph.where(one.condition, *ways)
        power = -sum(way.power * exponent for way, exponent in taken)  # of 1/x, if that is what it is computed from
        total = reduce(self.graph.mul, (way.node**exponent for way, exponent in taken))
        return total * at**power if power >= 0 else total * self.x**-power


@dataclass(frozen=True)
class _Way:
    """A sum divided by a power of x, and that power."""

    node: Node
    power: int


class _Sum:
    """A sum of at most two radicals.

    Args:
        of: what it is a part of.
        poly: it as a polynomial in the roots.
        inverse: 1/x, from which it is computed; else it is computed from x.

    Attributes:
        ways: the way to compute it, or two.
        condition: where the first of two is the one.
    """

    def __init__(self, of: _Radicals, poly: Poly, inverse: Node | None) -> None:
        self._of, self._inverse, self._graph = of, inverse, of.graph
        self._squares = [*of.roots.values()]
        self._terms = [(powers, Poly(c, _X)) for powers, c in poly.terms()]
        degrees = [self._half_degree(powers) + c.degree() for powers, c in self._terms]
        if len(self._terms) > 2 or max(degrees) > _MOST_DEGREE:
            raise _NoRadicalsError
        self._power = max(degrees) if inverse is not None else 0
        self.condition: Node | None = None
        parts = [self._term(powers, c) for powers, c in self._terms]
        self.ways = [_Way(reduce(self._graph.add, parts), self._power)]
        if len(parts) == 2:
            (m, a), (n, b) = self._terms
            rest = self._squared(m) * a**2 - self._squared(n) * b**2
            if rest.is_zero:
                raise _NoRadicalsError
            power = rest.degree() - self._power if inverse is not None else 0
            self.ways.append(_Way(self._poly(rest) / (parts[0] - parts[1]), power))
            self.condition = self._graph.apply("ge", self._signs_of(a, b), 0)

    def _signs_of(self, a: Poly, b: Poly) -> Node:
        """What is negative where one of two coefficients is."""
        product: Node = self._poly(a) * self._poly(b)
        is_odd = self._inverse is not None and (a.degree() + b.degree()) % 2
        return product * self._inverse if is_odd else product

    def _half_degree(self, powers: tuple[int, ...]) -> int:
        return sum(k * square.degree() // 2 for k, square in zip(powers, self._squares, strict=True))

    def _squared(self, powers: tuple[int, ...]) -> Poly:
        """The square of a product of roots."""
        return math.prod((square**k for k, square in zip(powers, self._squares, strict=True)), start=Poly(1, _X))

    def _term(self, powers: tuple[int, ...], c: Poly) -> Node:
        """A coefficient times roots, divided by the power of x."""
        total, half = self._poly(c), self._half_degree(powers)
        if self._inverse is not None:
            total = total * self._inverse ** (self._power - half - c.degree())
        for k, square in zip(powers, self._squares, strict=True):
            total = total * self._poly(square) ** (HALF * k) if k else total
        if self._inverse is not None and half % 2:  # the root of x**2 is |x|
            return self._graph.where(self._graph.apply("gt", self._of.x, 0), total, -total)
        return total

    def _poly(self, poly: Poly) -> Node:
        """A polynomial; if there is an inverse, divided by the highest power in it."""
        coefficients = [as_node(self._graph, self._of.atoms, c) for c in poly.all_coeffs()]
        at = self._of.x if self._inverse is None else self._inverse
        ordered = coefficients if self._inverse is None else coefficients[::-1]
        return reduce(lambda total, c: c + at * total, ordered)
