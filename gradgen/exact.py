"""The exact value of a formula and of its derivatives, by MPFR and mpmath, from what the user wrote.

Independent of all that gradgen derives: it evaluates the formula before any rule, and differentiates by central
differences in enough digits. Precision doubles until two evaluations agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mpmath
from mpmath import mpf

from gradgen import mpfr
from gradgen.evaluate import values
from gradgen.graph import Graph, Node, topological
from gradgen.load import Formula
from gradgen.share import share
from gradgen.ulp import NOTHING

_AGREE = 80  # bits that two evaluations must agree in; a double has 53
_MOST = 40_000  # bits of precision at which two evaluations that still differ are given up

Point = Mapping[str, float]


class UnsettledError(ArithmeticError):
    """More digits are needed."""


class Exact:
    """A formula as exact functions of a point (a number for each parameter).

    Args:
        formula: the formula as the user wrote it.
        bits: how far points and results reach: all that matters is at least 2**-bits. By default that of float64,
            which makes for slow evaluations.
    """

    def __init__(self, formula: Formula, bits: int = 1075) -> None:
        self._bits = bits
        self._graph = Graph(p.name for p in formula.scalars)
        convert = share(formula, self._graph)
        self._roots = [convert(expression) for expression in formula.outputs]
        self._orders = [topological([root]) for root in self._roots]
        self._programs = [
            None if mpfr.is_summed(order) else mpfr.Program(order, [root])
            for order, root in zip(self._orders, self._roots, strict=True)
        ]

    def value(self, point: Point, output: int = 0) -> mpf:
        """The value of an output; NaN where it is not real."""
        return _settled(lambda: self._evaluate(output, _lift(point)), self._bits + 150)

    def derivative(self, point: Point, wrt: Sequence[str], output: int = 0) -> mpf:
        """The derivative of an output by one or two inputs (the same one twice for its second derivative).

        By central differences of a relative width that vanishes with the precision: at a kink the mean of both sides.
        """
        precision = (2 + len(wrt)) * self._bits + 400
        return _settled(lambda: self._difference(output, _lift(point), wrt), precision)

    def _difference(self, output: int, point: dict[str, mpf], wrt: Sequence[str]) -> mpf:
        if not wrt:
            return self._evaluate(output, point)
        name = wrt[0]
        width = mpf(2) ** -(mpmath.mp.prec // (6 * len(wrt))) * (abs(point[name]) or mpf(2) ** -self._bits)
        above, below = ({**point, name: point[name] + step} for step in (width, -width))
        return (self._difference(output, above, wrt[1:]) - self._difference(output, below, wrt[1:])) / (2 * width)

    def intermediates(self, point: Point, output: int = 0) -> list[mpf]:
        """What is computed on the way to the value of an output, in the order of computation."""
        with mpmath.workprec(self._bits + 150):
            return [value for value in self._values(output, _lift(point)).values() if isinstance(value, mpf)]

    def _evaluate(self, output: int, point: Mapping[str, mpf]) -> mpf:
        program = self._programs[output]
        return program(point)[0] if program else self._values(output, point)[self._roots[output]]

    def _values(self, output: int, point: Mapping[str, mpf]) -> dict[Node, object]:
        return values(self._orders[output], point)


def _lift(point: Point) -> dict[str, mpf]:
    return {name: mpf(value) if isinstance(value, float | int) else value for name, value in point.items()}


def _settled(evaluate: Callable[[], mpf], precision: int) -> mpf:
    """The value on which two precisions, one twice the other, agree."""
    previous = None
    while precision <= _MOST:
        try:
            with mpmath.workprec(precision):
                value = evaluate()
        except UnsettledError:
            previous, precision = None, 2 * precision
            continue
        if previous is not None and _agree(previous, value):
            return value
        previous, precision = value, 2 * precision
    raise ArithmeticError("no agreement between precisions: is the point a singularity?")


def _agree(a: mpf, b: mpf) -> bool:
    if mpmath.isnan(a) or mpmath.isnan(b):
        return bool(mpmath.isnan(a) and mpmath.isnan(b))
    if mpmath.isinf(a) or mpmath.isinf(b):
        return bool(a == b)
    return bool(abs(a - b) <= max(abs(b) * mpf(2) ** -_AGREE, NOTHING))
