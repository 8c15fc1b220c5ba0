"""The exact value of a formula, or the admission that it cannot be had."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gmpy2
import mpmath
from mpmath import mpf

from gradgen import exact, mpfr
from gradgen.evaluate import evaluated
from gradgen.graph import Node
from gradgen.load import Formula
from gradgen.mpfr_functions import lowered

_LOGARITHMS = frozenset({"log", "log2", "log10", "log1p"})
_ENTIRE = frozenset(
    {"const", "input", "add", "mul", "exp", "sin", "cos", "sinh", "cosh", "tanh", "erf", "atan", "asinh"}
)
_EXACT_OPS = frozenset({"add", "mul", "abs", "sign", "maximum", "minimum", "where", "floor", "ceil"})
_REACH = 1 << 21  # of exponents: of a number of this size the sine does not take long
_NO_DIGITS = 16  # binary ones
_SHAKEN = 8  # binary digits
_SOLID = mpf(2) ** -30  # what is larger is no divisor that is 0 but for rounding


class _Numbers(NamedTuple):
    """What numbers are computed with: mpmath's, or MPFR's.

    Attributes:
        is_finite: whether one is.
        size: the exponent of one.
        scaled: one times a power of two.
    """

    is_finite: Callable[[Any], bool]
    size: Callable[[Any], Any]
    scaled: Callable[[Any, int], Any]


_MPMATH = _Numbers(mpmath.isfinite, mpmath.mag, mpmath.ldexp)
_MPFR = _Numbers(gmpy2.is_finite, mpfr.exponent, gmpy2.mul_2exp)


class Shaken(exact.Exact):
    """The exact value of a formula, or the admission that it cannot be had.

    No precision of practical size shows a digit of 1 - tanh(x) at x = 1e30, and evaluations in two of them agree on a
    0 that is not there; so they do on log(1 + exp(-500)). Hence what a function gives, and a sum that has been rounded,
    is shaken in its last digits: what hangs on these does not agree. Nor is anything divided by what is left of a sum
    when all its digits have cancelled: x/(exp(x) - 1) for a tiny x would seem to vanish. Nor is that divided by 0, nor
    its logarithm taken, which changes little where it is large.
    """

    def __init__(self, formula: Formula, bits: int) -> None:
        super().__init__(formula, bits)
        self._random = random.Random(bits)

    def result(self, point: Mapping[str, float | mpf], wrt: tuple[str, ...], output: int) -> mpf | None:
        """The derivative of an output by the inputs `wrt`, none for its value; None where it cannot be had."""
        try:
            found = self.derivative(point, wrt, output) if wrt else self.value(point, output)
        except (ArithmeticError, ValueError, mpmath.libmp.NoConvergence):
            return None
        return None if mpmath.isnan(found) else found

    def is_regular(self, point: Mapping[str, float | mpf], output: int) -> bool:
        """Whether all that is computed on the way to an output is analytic at a point, by far."""
        try:
            with mpmath.workprec(self._bits + 150):
                values = self._values(output, {name: mpf(x) for name, x in point.items()})
        except (ArithmeticError, ValueError):
            return False
        return all(_is_analytic(node, [values[arg] for arg in node.args]) for node in self._orders[output])

    def _evaluate(self, output: int, point: Mapping[str, mpf]) -> mpf:
        found = None if mpfr.is_summed(self._orders[output]) else self._quickly(output, point)
        return self._values(output, point)[self._roots[output]] if found is None else found

    def _quickly(self, output: int, point: Mapping[str, mpf]) -> mpf | None:
        """An output's value by MPFR; None where it cannot tell."""
        with mpfr.bounded(_REACH) as context:
            inputs = mpfr.all_lifted(point)
            try:
                values = self._computed(output, _MPFR, lambda node, args: mpfr.evaluated(node, args, inputs))
            except exact.UnsettledError:
                if not mpfr.is_beyond(context):
                    raise
                return None
            found = values[self._roots[output]]
            return None if mpfr.is_beyond(context) or gmpy2.is_infinite(found) else lowered(found)

    def _values(self, output: int, point: Mapping[str, mpf]) -> dict[Node, Any]:
        return self._computed(output, _MPMATH, lambda node, args: evaluated(node, args, point))

    def _computed(
        self, output: int, numbers: _Numbers, compute: Callable[[Node, Sequence[Any]], Any]
    ) -> dict[Node, Any]:
        """The values of the nodes, each shaken."""
        precision = mpmath.mp.prec
        values: dict[Node, Any] = {}
        lost: set[Node] = set()
        for node in self._orders[output]:
            args = [values[arg] for arg in node.args]
            value = compute(node, args)
            if node.op == "add" and _has_cancelled(value, args, numbers, precision):
                lost.add(node)
            if lost and not lost.isdisjoint(node.args) and _hangs_on_digits(node, args, numbers):
                raise exact.UnsettledError
            if _is_rounded(node, args, numbers, precision) and any(args):  # exp(0) is 1
                value = self._shake(value, numbers, precision)
            values[node] = value
        return values

    def _shake(self, value: Any, numbers: _Numbers, precision: int) -> Any:
        if isinstance(value, bool) or not numbers.is_finite(value):
            return value
        return value + numbers.scaled(value * self._random.uniform(-1, 1), _SHAKEN - precision)


def _has_cancelled(value: Any, args: Sequence[Any], numbers: _Numbers, precision: int) -> bool:
    """Whether nothing of a sum's terms is left but the digits in which they were shaken."""
    if not value or not numbers.is_finite(value):
        return False
    return numbers.size(value) <= max(map(numbers.size, args)) + _NO_DIGITS - precision  # type: ignore[no-any-return]


def _hangs_on_digits(node: Node, args: Sequence[Any], numbers: _Numbers) -> bool:
    """Whether a node is something definite also where an argument has lost its digits: a reciprocal, a logarithm."""
    if node.op == "mul":
        return any(x == x and not numbers.is_finite(x) for x in args)
    return node.op in _LOGARITHMS or (node.op == "pow" and args[1] < 0)


def _is_rounded(node: Node, args: Sequence[Any], numbers: _Numbers, precision: int) -> bool:
    """Whether a node's value has as many digits as there are; products of numbers do not, and most sums."""
    if node.op == "add":
        if not all(x and numbers.is_finite(x) for x in args):
            return False
        one, other = map(numbers.size, args)
        return abs(one - other) > precision  # type: ignore[no-any-return]
    if node.op == "pow":
        exponent = node.args[1].number
        return exponent is None or not (exponent.is_Integer and exponent > 0)
    return bool(node.args) and node.op not in _EXACT_OPS


def _is_analytic(node: Node, args: Sequence[Any]) -> bool:
    """Whether a node is an analytic function of arguments that are not near a singularity."""
    if node.op in _LOGARITHMS:
        return bool(args[0] > (_SOLID - 1 if node.op == "log1p" else _SOLID))
    if node.op != "pow":
        return node.op in _ENTIRE
    base, exponent = args
    is_whole = node.args[1].number is not None and node.args[1].number.is_Integer
    return bool((is_whole and exponent > 0) or abs(base) > _SOLID)
