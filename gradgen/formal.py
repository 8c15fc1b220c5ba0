"""Power series whose coefficients are rational functions of hyper-parameters: of (1 - (1 + r)**-n)/r in powers of r."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import mpmath
import sympy
from mpmath import mpf
from sympy import QQ
from sympy.polys.fields import FracField

from gradgen.differentiate import gradient
from gradgen.graph import Graph, Node, substitute, topological
from gradgen.lowest_terms import quotient
from gradgen.mpfr_functions import Number, lifted, lowered
from gradgen.rewrite import rewrite
from gradgen.series import NUMBERS, NoSeriesError, expanded

_TERMS = 24  # that are carried; quotients use up some
_SYMBOLS = sympy.symbols("h0:8")  # which stand for hyper-parameters and functions of them
_MOST_TERMS = 60  # of the polynomials that a coefficient is the quotient of,
_MOST_READ = 24  # and of those of one that is printed
_LARGEST = 60  # nodes of a derivative
_MOST_DENOMINATOR = 10**10  # of a function's derivative
_SAME = mpf(10) ** -40
_OPERAND = "series operand"


@lru_cache(maxsize=64)
def coefficients(root: Node, variable: Node) -> list[Node]:
    """Those of the powers of another node, of one that is nothing but a function of it and of hyper-parameters.

    As far as they are short; none if it has no such series.
    """
    field = _HyperParameters(root.graph)
    found = expanded(root, variable, field)
    if found is None or found.low < 0:
        return []
    nodes = []
    for power in range(found.end):
        if field.size(found[power]) > _MOST_READ:
            break
        nodes.append(field.node(found[power]))
    return nodes


class _HyperParameters:
    """Rational functions of hyper-parameters, and of what stands for other functions of them."""

    terms = _TERMS

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._field = FracField(_SYMBOLS, QQ)
        self._symbols: dict[Node, Any] = {}

    def of(self, node: Node) -> Any:
        values: dict[Node, Any] = {}
        for below in topological([node]):
            args = [values[arg] for arg in below.args]
            exponent = below.args[1].number if below.op == "pow" else None
            if below.number is not None:
                if not below.number.is_finite:
                    raise NoSeriesError
                share, number = below.number.as_coeff_Mul()
                values[below] = self._rational(share) * (1 if number == 1 else self._symbol(self._graph.const(number)))
            elif below.op in ("add", "mul"):
                values[below] = args[0] + args[1] if below.op == "add" else args[0] * args[1]
            elif exponent is not None and exponent.is_Integer and args[0]:
                values[below] = args[0] ** int(exponent)
            else:
                values[below] = self._symbol(below)
        return values[node]

    def _rational(self, number: sympy.Rational) -> Any:
        return self._field(QQ(int(number.p), int(number.q)))

    def _symbol(self, node: Node) -> Any:
        if not self._graph.is_hyper(node) or len(self._symbols) == len(_SYMBOLS):
            raise NoSeriesError
        return self._symbols.setdefault(node, self._field.gens[len(self._symbols)])

    def is_zero(self, c: Any) -> bool:
        return not c

    def sign(self, c: Any) -> int:
        number = self._number(c)
        return 0 if number is None else (number > 0) - (number < 0)

    def whole(self, c: Any) -> int | None:
        number = self._number(c)
        return int(number) if number is not None and number.denominator == 1 else None

    def _number(self, c: Any) -> Any:
        return c.numer.LC / c.denom.LC if c.numer.is_ground and c.denom.is_ground else None

    def total(self, parts: Iterable[Any]) -> Any:
        total = sum(parts, self._field.zero)
        if self.size(total) > _MOST_TERMS:
            raise NoSeriesError
        return total

    def size(self, c: Any) -> int:
        """How many terms there are in the polynomials."""
        return len(c.numer) + len(c.denom)

    def power(self, base: Any, exponent: Any) -> Any:
        whole = self.whole(exponent)
        if base == 1 or whole is not None:
            return base if base == 1 else base**whole
        return self.of(rewrite([self.node(base) ** self.node(exponent)])[0])

    def taylor(self, op: str, orders: Sequence[Node], at: Any, count: int) -> Sequence[Any]:
        number = self._number(at)
        if number is not None:
            place = lifted(mpf(int(number.numerator)) / int(number.denominator))
            with suppress(_NoFractionError):
                return self._fractions(
                    NUMBERS.taylor(op, orders, place, count), partial(self._by_derivatives, op, orders, at)
                )
        return self._by_derivatives(op, orders, at, count)

    def _fractions(self, numbers: Sequence[Number], exact: Callable[[int], Sequence[Any]]) -> list[Any]:
        """A function's coefficients as fractions, or multiples of the first that is none, which is had exactly."""
        found: list[Any] = []
        unit: tuple[mpf, Any] | None = None
        for k, c in enumerate(map(lowered, numbers)):
            fraction = _fraction(c, k)
            if fraction is not None:
                found.append(self._rational(fraction))
                continue
            unit = unit or (c, exact(k + 1)[k])
            multiple = _fraction(c / unit[0], k)
            if multiple is None:
                raise _NoFractionError
            found.append(self._rational(multiple) * unit[1])
        return found

    def _by_derivatives(self, op: str, orders: Sequence[Node], at: Any, count: int) -> Sequence[Any]:
        operand, place = self._graph.input(_OPERAND), self.node(at)
        node, found = self._graph.apply(op, *orders, operand), list[Any]()
        while len(found) < count and len(topological([node])) <= _LARGEST:
            (value,) = rewrite(substitute([node], {operand: place}))
            found.append(self.of(value) / math.factorial(len(found)))
            try:
                (node,) = rewrite(gradient(node, [operand]))
            except NotImplementedError:
                break
        return found

    def node(self, c: Any) -> Node:
        """A rational function as a node."""
        symbols = {node: symbol.as_expr() for node, symbol in self._symbols.items()}
        return quotient(self._graph, symbols, c.numer.as_expr(), c.denom.as_expr())


class _NoFractionError(Exception):
    """A number is no fraction of small terms."""


def _fraction(value: mpf, order: int) -> sympy.Rational | None:
    """The fraction that a coefficient is, of a derivative whose terms are small; None if it is none."""
    derivative = value * math.factorial(order)
    fraction = sympy.Rational(str(mpmath.nstr(derivative, 90))).limit_denominator(_MOST_DENOMINATOR)
    is_it = abs(mpf(fraction.p) / fraction.q - derivative) <= _SAME * max(1, abs(derivative))
    return fraction / math.factorial(order) if is_it else None
