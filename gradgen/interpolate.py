"""Functions through Chebyshev points, for what loses digits farther from zero than its power series reaches.

The series of (x - atan(x))/x**3 converges for |x| < 1 alone, and ever more slowly towards it. The polynomial that takes
the function's values at Chebyshev points of an interval converges on all of it, geometrically, for a function that is
analytic there (Trefethen, Approximation Theory and Approximation Practice, 2013, theorem 8.2); a quotient of two does
so beyond the distance of the poles, too, where the terms of a polynomial are larger than their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce

import mpmath
from mpmath import mpf

from gradgen.evaluate import values
from gradgen.graph import Node, topological
from gradgen.series import constant, through

_POINTS, _FEWER_POINTS = (12, 16, 20, 24, 28, 34, 40, 48), (12, 18, 24)  # that are tried in turn
_DIGITS = 120  # decimal; the values themselves cancel


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
    order = topological([root], stop={variable})
    limit = leading[low]

    @cache
    def remainder(w: mpf) -> mpf:
        """(root/variable**low - its limit)/w at w = variable**step."""
        v = w if step == 1 else mpmath.sqrt(w)
        return (values(order, {}, {variable: v})[order[-1]] / v**low - limit) / w

    with mpmath.workdps(_DIGITS):
        end = mpf(reach) ** step
        start = mpf(0) if step == 2 else -end
        error = abs(limit) * mpf(2) ** -digits / end
        w, first = variable**step, variable**low
        for interpolated, counts in ((_polynomial, _POINTS), (_quotient, _FEWER_POINTS)):
            found = next(filter(None, (interpolated(remainder, start, end, count, error) for count in counts)), None)
            if found is not None:
                top, bottom = found
                rest = w * _horner(top, w)
                yield first * (constant(limit, w) + rest / _horner(bottom, w))
                if any(bottom[1:]):  # as one fraction, which does not cancel where both are positive
                    above = [limit * low + high for low, high in zip(bottom, [mpf(0), *top], strict=True)]
                    yield first * (_horner(above, w) / _horner(bottom, w))


_Found = tuple[list[mpf], list[mpf]]


def _points(a: mpf, b: mpf, count: int) -> list[mpf]:
    angles = (mpmath.pi * (2 * k + 1) / (2 * count) for k in range(count))
    return [(a + b) / 2 + (b - a) / 2 * mpmath.cos(angle) for angle in angles]


def _values(function: Callable[[mpf], mpf], at: Sequence[mpf]) -> list[mpf] | None:
    found = [function(x) for x in at]
    return found if all(isinstance(value, mpf) and mpmath.isfinite(value) for value in found) else None


def _polynomial(function: Callable[[mpf], mpf], a: mpf, b: mpf, count: int, error: mpf) -> _Found | None:
    """The coefficients of a polynomial; None where it converges too slowly."""
    at = _points(a, b, count)
    values = _values(function, at)
    if values is None:
        return None
    top = through(at, values)
    bottom = [mpf(1), *[mpf(0)] * count]
    return (top, bottom) if _is_close(function, top, bottom, a, b, count, error) else None


def _quotient(function: Callable[[mpf], mpf], a: mpf, b: mpf, count: int, error: mpf) -> _Found | None:
    """The coefficients of two polynomials, the second one without a zero; None where they converge too slowly."""
    half = count // 2
    at = _points(a, b, count)
    values = _values(function, at)
    if values is None:
        return None
    rows = [
        [x**k for k in range(half)] + [-y * x**k for k in range(1, half + 1)] for x, y in zip(at, values, strict=True)
    ]
    try:
        found = list(mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix(values)))
    except ZeroDivisionError:  # fewer coefficients would do
        return None
    top, bottom = found[:half], [mpf(1), *found[half:]]
    return (top, bottom) if _is_close(function, top, bottom, a, b, count, error) else None


def _is_close(
    function: Callable[[mpf], mpf],
    top: Sequence[mpf],
    bottom: Sequence[mpf],
    a: mpf,
    b: mpf,
    count: int,
    error: mpf,
) -> bool:
    """Whether a quotient is the function between the points it was made of, and its divisor of one sign."""
    for x in _points(a, b, count + 2):  # an even count, so that none is 0
        divisor = mpmath.polyval(bottom[::-1], x)
        if not divisor > 0 or abs(mpmath.polyval(top[::-1], x) / divisor - function(x)) > error:
            return False
    return True


def _horner(numbers: Sequence[mpf], variable: Node) -> Node:
    last, *rest = [constant(number, variable) for number in reversed(numbers[: _length(numbers)])]
    return reduce(lambda total, number: number + variable * total, rest, last)


def _length(numbers: Sequence[mpf]) -> int:
    """The count of coefficients without zeros at the end."""
    return max((k for k, number in enumerate(numbers, 1) if number), default=1)
