"""Rational functions of something and of square and cube roots of it, in lowest terms.

With s = sqrt(1 + x**2) the difference 1/s - x**2/s**3 is 1/s**3: what cancels does so exactly, because s**2 is known.
With s = sqrt(1 + x) there need not be any x: (s - 1 - x/2)/x**2 is -1/(2*(1 + s)**2).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce

import sympy
from sympy import Dummy, Expr, Poly

from gradgen.graph import HALF, Node, topological
from gradgen.rational import by_branches
from gradgen.rewrite import rewrite

_MOST_NODES = 60  # of a formula that is looked at,
_MOST_OPERATIONS = 60  # of its value as SymPy has it,
_MOST_ROOTS = 2  # of the roots in it that are tried
_HIGHEST_POWER = 12  # that is no name for what it is: of a sum so many terms are to be factored


class _NotAlgebraicError(Exception):
    """The node is no rational function of the roots."""


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """Other forms of a node, by each of the roots in it; of a selection by those of its branches."""
    if node.op == "where":
        yield from by_branches(node, forms)
        return
    order = topological([node])
    if len(order) > _MOST_NODES:
        return
    roots = [below for below in order if _degree(below) and below.op != "abs"]
    together = tuple(roots[:_MOST_ROOTS])
    alone = [(root,) for root in together]
    tries: list[tuple[type[_Extension], tuple[Node, ...], str]]
    tries = [(_InRoot, chosen, "as a function of a root") for chosen in alone]
    tries += [(_Extension, chosen, "in lowest terms of a root") for chosen in alone]
    tries += [(_Extension, together, "in lowest terms of roots")] if len(together) > 1 else []
    for make, chosen, how in tries:
        try:
            quotient = make(node, chosen)
            found = ((quotient.node(), ""), (quotient.in_turn(), ", factor by factor"))
        except (_NotAlgebraicError, sympy.PolynomialError):
            continue
        for form, more in found:
            if form is not node:
                yield rewrite([form])[0], how + more


def _degree(node: Node) -> int:
    """Of which power a node is the root; 0 of what is none."""
    if node.op == "pow" and node.args[1].is_number(HALF):
        return 2
    return {"hypot": 2, "abs": 2, "cbrt": 3}.get(node.op, 0)


class _Extension:
    """A node as a rational function of roots and of symbols for all that is not arithmetic."""

    def __init__(self, node: Node, roots: Sequence[Node]) -> None:
        if not roots:
            raise _NotAlgebraicError
        self.graph = node.graph
        roots = [*(below for below in topological([node]) if below.op == "abs"), *roots]
        self.values: dict[Node, Expr] = {root: Dummy(f"s{k}", positive=True) for k, root in enumerate(roots)}
        self.nodes: dict[Expr, Node] = {symbol: root for root, symbol in self.values.items()}
        symbols = list(self.nodes)
        relations = [
            symbol ** _degree(root) - self._radicand(root) for symbol, root in zip(symbols, roots, strict=True)
        ]
        value = self.value(node)
        if not value.has(*symbols) or sympy.count_ops(value) > _MOST_OPERATIONS:
            raise _NotAlgebraicError
        self.top, self.bottom = sympy.fraction(sympy.cancel(self._reduced(value, symbols, relations)))

    def _reduced(self, value: Expr, symbols: Sequence[Expr], relations: Sequence[Expr]) -> Expr:
        """A value in lower powers of the symbols, which make the relations 0."""
        top, bottom = sympy.fraction(sympy.together(value))
        for symbol, relation in reversed([*zip(symbols, relations, strict=True)]):  # of roots in roots the outer first
            top = sympy.rem(Poly(top, symbol), Poly(relation, symbol)).as_expr()
        return top / bottom

    def _radicand(self, root: Node) -> Expr:
        """What it is the root of."""
        args = map(self.value, root.args)
        return next(args) if root.op in ("pow", "cbrt") else sum(arg**2 for arg in args)

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
        if node.op == "sign" and (size := self.graph.apply("abs", *node.args)) in self.values:
            return args[0] / self.values[size]
        exponent = node.args[1].number if node.op == "pow" else None
        if exponent is not None and exponent.is_Integer and abs(exponent) <= _HIGHEST_POWER:
            return args[0] ** exponent
        symbol = Dummy(f"a{len(self.nodes)}", real=True)
        self.nodes[symbol] = node
        return symbol

    def node(self) -> Node:
        """The quotient, by the factors of its parts, so that their product cannot overflow beneath a 1."""
        scale, factors = self.factors
        result: Node = reduce(self.graph.mul, (base**exponent for base, exponent in factors), scale)
        return result

    def in_turn(self) -> Node:
        """The same, each factor divided by another one, so that neither their product nor its divisor overflows."""
        scale, factors = self.factors
        above, below = (
            [base for base, exponent in factors for _ in range(sign * exponent)]  # none where it is negative
            for sign in (1, -1)
        )
        one = self.graph.const(1)
        pairs = itertools.zip_longest(above, below, fillvalue=one)
        result: Node = reduce(self.graph.mul, (factor / divisor for factor, divisor in pairs), scale)
        return result

    @cached_property
    def factors(self) -> tuple[Node, list[tuple[Node, int]]]:
        """A number, and the factors of the quotient with their powers."""
        number, top = sympy.factor_list(self.top)
        divisor, bottom = sympy.factor_list(self.bottom)
        scale, found = number / divisor, []
        for factor, exponent in [*top, *((factor, -exponent) for factor, exponent in bottom)]:
            size = _size(factor)
            scale *= size**exponent
            found.append((self._as_node(sympy.expand(factor / size)), exponent))
        return self.graph.const(scale), found

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


class _InRoot(_Extension):
    """A node as a rational function of the root of a + b*x, in which there is no x; all else stands for itself."""

    def _reduced(self, value: Expr, symbols: Sequence[Expr], relations: Sequence[Expr]) -> Expr:
        inputs = [symbol for symbol, node in self.nodes.items() if node.op == "input" and not self.graph.is_hyper(node)]
        for x in inputs if len(symbols) == 1 else ():
            relation = Poly(relations[0], x)
            if relation.degree() == 1 and value.has(x):
                return value.subs(x, -relation.nth(0) / relation.nth(1))
        raise _NotAlgebraicError


def _size(total: Expr) -> Expr:
    """A power of two that is no less than any number in a sum: without it a term overflows where its input does."""
    numbers = [abs(term.as_coeff_Mul()[0]) for term in total.args] if total.is_Add else []
    largest = max([number for number in numbers if number.is_comparable], default=sympy.S.One)
    return 2 ** sympy.ceiling(sympy.log(largest, 2)) if largest > 1 else sympy.S.One
