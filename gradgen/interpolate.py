"""Functions through Chebyshev points, for what loses digits farther from zero than its power series reaches.

The series of (x - atan(x))/x**3 converges for |x| < 1 alone, and ever more slowly towards it. The polynomial that takes
the function's values at Chebyshev points of an interval converges on all of it, geometrically, for a function that is
analytic there (Trefethen, Approximation Theory and Approximation Practice, 2013, theorem 8.2); a quotient of two does
so beyond the distance of the poles, too, where the terms of a polynomial are larger than their sum. Beside a value at
the middle of what the function takes, in place of that at zero, less of the sum is the quotient's, and rounded with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce

import gmpy2
import mpmath
import numpy as np
from mpmath import mpf

from gradgen.graph import Node, substitute, topological
from gradgen.mpfr import Program, precise
from gradgen.mpfr_functions import Number, lifted, lowered
from gradgen.series import constant, through
from gradgen.ulp import Array

_POINTS, _FEWER_POINTS = (12, 16, 20, 24, 28, 34, 40, 48), (12, 18, 24, 32)  # that are tried in turn
_MIDDLE_BITS = 8  # of a value that is exact in every type
_DIGITS = 120  # decimal; the values themselves cancel
_VARIABLE = "interpolation variable"


def forms(
    root: Node, variable: Node, leading: Sequence[mpf], interval: tuple[float, float], digits: int
) -> Iterator[Node]:
    """Polynomials and quotients of two that are a node to so many binary digits in an interval about 0.

    Args:
        root: a function of the variable alone.
        variable: the variable.
        leading: the node's power series, the first coefficient of which is kept: the limit at zero is exact.
        interval: its ends, one of which may be 0; of an even or odd function the second one counts.
        digits: the size of the error, relative to the limit, as a power of two.
    """
    least = next((k for k, c in enumerate(leading) if c), None)
    if least is None:
        return
    step = 1 if any(leading[least + 1 :: 2]) else 2  # an even or odd function is one of the square
    (moved,) = substitute([root], {variable: variable.graph.input(_VARIABLE)})
    program = Program(topological([moved]), [moved])
    with mpmath.workdps(_DIGITS), precise():
        limit = lifted(leading[least])

        @cache
        def quotient(w: Number) -> Number:
            """root/variable**least at w = variable**step."""
            v = w if step == 1 else gmpy2.sqrt(w)
            (value,) = program({_VARIABLE: lowered(v)})
            return lifted(value) / v**least

        low, high = map(gmpy2.mpfr, interval)
        start, end = (low * 0, high**2) if step == 2 else (low, high)
        error = abs(limit) * gmpy2.mpfr(2) ** -digits / max(-start, end)
        from_limit = _slope(quotient, end * 0, limit)
        polynomial = _first(_polynomial, _POINTS, from_limit, start, end, error)
        fraction = _first(_quotient, _FEWER_POINTS, from_limit, start, end, error)
        middle = _middle(quotient, limit, end or start) if fraction else None
        about = _first(_quotient, _FEWER_POINTS, _slope(quotient, *middle), start, end, error) if middle else None
    w, first = variable**step, variable**least
    for top, bottom in filter(None, (polynomial, fraction)):
        yield first * (constant(leading[least], w) + w * _horner(top, w) / _horner(bottom, w))
    if fraction:  # as one fraction, which does not cancel where both are positive
        top, bottom = fraction
        with mpmath.workdps(_DIGITS):
            above = [leading[least] * b + a for b, a in zip(bottom, [mpf(0), *top], strict=True)]
        yield first * (_horner(above, w) / _horner(bottom, w))
    if middle and about:  # less of it is rounded where the function is far from its limit
        at, value = (constant(lowered(number), w) for number in middle)
        top, bottom = about
        yield first * (value + (w - at) * _horner(top, w) / _horner(bottom, w))


_Found = tuple[list[mpf], list[mpf]]


def _first(
    interpolated: Callable[..., _Found | None],
    counts: Sequence[int],
    function: Callable[[Number], Number],
    a: Number,
    b: Number,
    error: Number,
) -> _Found | None:
    """With the first of these counts of points that are enough."""
    return next(filter(None, (interpolated(function, a, b, count, error) for count in counts)), None)


def _slope(function: Callable[[Number], Number], at: Number, value: Number) -> Callable[[Number], Number]:
    """The function (f(w) - f(at))/(w - at) of w."""
    return lambda w: (function(w) - value) / (w - at)


def _middle(function: Callable[[Number], Number], limit: Number, end: Number) -> tuple[Number, Number] | None:
    """Where a function is about half way between 0 and the end, and what it is there: a number of few bits."""
    mean = (limit + function(end)) / 2
    if not gmpy2.is_finite(mean) or mean == limit:
        return None
    with gmpy2.context(precision=_MIDDLE_BITS):
        value = +mean
    low, high = end * 0, end
    for _ in range(gmpy2.get_context().precision):
        half = (low + high) / 2
        low, high = (half, high) if (function(half) > value) == (limit > value) else (low, half)
    return low, value


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
