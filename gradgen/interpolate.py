"""Functions through Chebyshev points, for what loses digits farther from zero than its power series reaches.

The series of (x - atan(x))/x**3 converges for |x| < 1 alone, and ever more slowly towards it. The polynomial that takes
the function's values at Chebyshev points of an interval converges on all of it, geometrically, for a function that is
analytic there (Trefethen, Approximation Theory and Approximation Practice, 2013, theorem 8.2); a quotient of two does
so beyond the distance of the poles, too, where the terms of a polynomial are larger than their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce

import gmpy2
import mpmath
import numpy as np
from mpmath import mpf

from gradgen.graph import Node, substitute, topological
from gradgen.mpfr import Number, Program, lifted, lowered, precise
from gradgen.series import constant, through
from gradgen.ulp import Array

_POINTS, _FEWER_POINTS = (12, 16, 20, 24, 28, 34, 40, 48), (12, 18, 24)  # that are tried in turn
_DIGITS = 120  # decimal; the values themselves cancel
_VARIABLE = "interpolation variable"


def forms(root: Node, variable: Node, leading: Sequence[mpf], reach: float, digits: int) -> Iterator[Node]:
    """Polynomials and quotients of two that are a node to so many binary digits for |variable| <= reach.

    Args:
        root: a function of the variable alone.
        variable: the variable.
        leading: the node's power series, the first coefficient of which is kept: the limit at zero is exact.
        reach: the end of the interval.
        digits: the size of the error, relative to the limit, as a power of two.
    """
    low = next((k for k, c in enumerate(leading) if c), None)
    if low is None:
        return
    step = 1 if any(leading[low + 1 :: 2]) else 2  # an even or odd function is one of the square
    (moved,) = substitute([root], {variable: variable.graph.input(_VARIABLE)})
    program = Program(topological([moved]), [moved])
    with mpmath.workdps(_DIGITS), precise():
        limit = lifted(leading[low])

        @cache
        def remainder(w: Number) -> Number:
            """(root/variable**low - its limit)/w at w = variable**step."""
            v = w if step == 1 else gmpy2.sqrt(w)
            (value,) = program({_VARIABLE: lowered(v)})
            return (lifted(value) / v**low - limit) / w

        end = gmpy2.mpfr(reach) ** step
        start = end * 0 if step == 2 else -end
        error = abs(limit) * gmpy2.mpfr(2) ** -digits / end
        found = [
            next(filter(None, (interpolated(remainder, start, end, count, error) for count in counts)), None)
            for interpolated, counts in ((_polynomial, _POINTS), (_quotient, _FEWER_POINTS))
        ]
    w, first = variable**step, variable**low
    for top, bottom in filter(None, found):
        rest = w * _horner(top, w)
        yield first * (constant(leading[low], w) + rest / _horner(bottom, w))
        if any(bottom[1:]):  # as one fraction, which does not cancel where both are positive
            with mpmath.workdps(_DIGITS):
                above = [leading[low] * b + a for b, a in zip(bottom, [mpf(0), *top], strict=True)]
            yield first * (_horner(above, w) / _horner(bottom, w))


_Found = tuple[list[mpf], list[mpf]]


def _points(a: Number, b: Number, count: int) -> list[Number]:
    angles = (gmpy2.const_pi() * (2 * k + 1) / (2 * count) for k in range(count))
    return [(a + b) / 2 + (b - a) / 2 * gmpy2.cos(angle) for angle in angles]


def _values(function: Callable[[Number], Number], at: Sequence[Number]) -> list[Number] | None:
    found = [function(x) for x in at]
    return found if all(map(gmpy2.is_finite, found)) else None


def _polynomial(function: Callable[[Number], Number], a: Number, b: Number, count: int, error: Number) -> _Found | None:
    """The coefficients of a polynomial; None where it converges too slowly."""
    at = _points(a, b, count)
    values = _values(function, at)
    if values is None:
        return None
    return _if_close(function, through(at, values), [gmpy2.mpfr(1), *[a * 0] * count], a, b, count, error)


def _quotient(function: Callable[[Number], Number], a: Number, b: Number, count: int, error: Number) -> _Found | None:
    """The coefficients of two polynomials, the second one without a zero; None where they converge too slowly."""
    half = count // 2
    at = _points(a, b, count)
    values = _values(function, at)
    if values is None:
        return None
    rows = [
        [*(x**k for k in range(half)), *(-y * x**k for k in range(1, half + 1)), y]
        for x, y in zip(at, values, strict=True)
    ]
    found = _solved(np.array(rows))
    return _if_close(function, found[:half], [gmpy2.mpfr(1), *found[half:]], a, b, count, error)


def _solved(table: Array) -> list[Number]:
    """The solution of linear equations, the right-hand sides of which are the last column; NaN if there is none."""
    size = len(table)
    for k in range(size):
        pivot = k + int(np.argmax(abs(table[k:, k])))
        table[[k, pivot]] = table[[pivot, k]]
        table[k] /= table[k, k]
        table[k + 1 :] -= np.outer(table[k + 1 :, k], table[k])
    for k in reversed(range(size)):
        table[:k, -1] -= table[:k, k] * table[k, -1]
    return list(table[:, -1])


def _if_close(
    function: Callable[[Number], Number],
    top: list[Number],
    bottom: list[Number],
    a: Number,
    b: Number,
    count: int,
    error: Number,
) -> _Found | None:
    """A quotient if it is the function between the points it was made of, and its divisor of one sign."""
    for x in _points(a, b, count + 2):  # an even count, so that none is 0
        divisor = _at(bottom, x)
        if not divisor > 0 or not abs(_at(top, x) / divisor - function(x)) <= error:
            return None
    return [*map(lowered, top)], [*map(lowered, bottom)]


def _at(numbers: Sequence[Number], x: Number) -> Number:
    return reduce(lambda total, number: total * x + number, reversed(numbers))


def _horner(numbers: Sequence[mpf], variable: Node) -> Node:
    last, *rest = [constant(number, variable) for number in reversed(numbers[: _length(numbers)])]
    return reduce(lambda total, number: number + variable * total, rest, last)


def _length(numbers: Sequence[mpf]) -> int:
    """The count of coefficients without zeros at the end."""
    return max((k for k, number in enumerate(numbers, 1) if number), default=1)
