"""Errors in units in the last place (ULP) of a floating-point type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

Array = np.ndarray[Any, np.dtype[Any]]

_HUGE = 1e300  # a scale whose unit makes every error none

# "short" has the digits of float32 and the range of float64: `gradgen.model`.
NOTHING = mpf(2) ** -1200  # below any number that a double holds
MANTISSA = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11, "short": 24}
SMALLEST_EXPONENT = {"float64": -1022, "float32": -126, "bfloat16": -126, "float16": -14, "short": -1022}
LARGEST = {
    "float64": float.fromhex("0x1.fffffffffffffp1023"),
    "float32": float.fromhex("0x1.fffffep127"),
    "bfloat16": float.fromhex("0x1.fep127"),
    "float16": 65504.0,
    "short": float.fromhex("0x1.fffffep1023"),
}


def ulp(value: mpf, dtype: str) -> mpf:
    """The distance between neighbouring numbers of a type at `value`."""
    return mpmath.ldexp(1, _ulp_exponent(value, dtype))


def _ulp_exponent(value: mpf, dtype: str) -> int:
    """The power of two that `ulp` is."""
    smallest = SMALLEST_EXPONENT[dtype]
    return (max(int(mpmath.mag(value)) - 1, smallest) if value != 0 else smallest) - MANTISSA[dtype] + 1


def mixed_error(computed: float, exact: mpf, scale: mpf, dtype: str) -> float:
    """|computed - exact| in units of ulp(max(|exact|, scale)).

    Args:
        computed: what a kernel gave.
        exact: the exact result.
        scale: the largest |x * d exact/dx| over the inputs x: what a rounded input alone makes of the result.
        dtype: the type of the result.

    Returns:
        The error; infinite for a NaN or an infinity where the exact result is a number of the type, 0 for an infinity
        where the exact result, or the next number to it, is beyond the type's largest.
    """
    if mpmath.isnan(exact):
        return 0.0
    if mpmath.isinf(exact):
        return 0.0 if computed * mpmath.sign(exact) >= LARGEST[dtype] else math.inf
    unit = ulp(max(abs(exact), scale), dtype)
    if math.isinf(computed) and abs(exact) + 4 * unit > LARGEST[dtype]:
        return 0.0 if (computed > 0) == (exact > 0) else math.inf
    if not math.isfinite(computed):
        return math.inf
    return float(abs(mpf(computed) - exact) / unit)


class Right:
    """Exact results as doubles, against which many computed ones are measured at once, as by `mixed_error`.

    Args:
        exact: the exact results.
        scale: for each the largest |x * d exact/dx| over the inputs x.
        dtype: the type of the results.
    """

    def __init__(self, exact: Sequence[mpf], scale: Sequence[mpf], dtype: str) -> None:
        self._largest = LARGEST[dtype]
        rows = [_row(value, size, dtype) for value, size in zip(exact, scale, strict=True)]
        columns = zip(*rows, strict=True) if rows else [()] * 5
        self._nearest, self._rest, self._unit, self._beyond, undefined = map(np.array, columns)
        self._undefined = undefined.astype(bool)
        self._is_special = (np.abs(self._beyond) == 2) | self._undefined

    @classmethod
    def of_doubles(cls, exact: Array, scale: Array | float, dtype: str) -> Right:
        """Exact results that are finite doubles, of a narrower type."""
        right = cls([], [], dtype)
        size = np.maximum(np.abs(exact), np.minimum(scale, _HUGE))
        exponent = np.maximum(np.frexp(size)[1] - 1, SMALLEST_EXPONENT[dtype])
        unit = np.ldexp(1.0, np.where(size == 0, SMALLEST_EXPONENT[dtype], exponent) - MANTISSA[dtype] + 1)
        right._nearest, right._rest, right._unit = exact, np.zeros_like(exact), unit
        right._beyond = np.where(np.abs(exact) + 4 * unit > LARGEST[dtype], np.sign(exact), 0.0)
        right._undefined = right._is_special = np.zeros(len(exact), bool)
        return right

    def errors(self, computed: Array, at: slice | Array = slice(None)) -> Array:
        """The errors of results for those of the exact ones that are at some places."""
        nearest, rest, unit = self._nearest[at], self._rest[at], self._unit[at]
        with np.errstate(all="ignore"):
            found: Array = np.abs((computed - nearest) / unit - rest)
        if (special := ~np.isfinite(computed) | self._is_special[at]).any():
            found[special] = self._special(computed[special], self._beyond[at][special], self._undefined[at][special])
        return found

    def _special(self, computed: Array, beyond: Array, undefined: Array) -> Array:
        """The errors of results that are not finite, or are not to be."""
        with np.errstate(invalid="ignore"):
            reached = computed * np.sign(beyond) >= self._largest
        is_right = np.where(np.isfinite(computed), np.abs(beyond) == 2, np.isinf(computed)) & reached
        return np.where(is_right | undefined, 0.0, math.inf)

    def extend(self, other: Right) -> None:
        """Append the exact results of another one."""
        for name in ("_nearest", "_rest", "_unit", "_beyond", "_undefined", "_is_special"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))


def _row(exact: mpf, scale: mpf, dtype: str) -> tuple[float, float, float, int, bool]:
    """The nearest double to an exact result, and what is left in units; the unit; whether the result is, nearly, beyond
    the largest number (1, or 2 where it is infinite, with its sign); whether it is undefined.
    """
    if mpmath.isnan(exact):
        return 0.0, 0.0, 1.0, 0, True
    sign = 1 if exact > 0 else -1
    if mpmath.isinf(exact):
        return 0.0, 0.0, 1.0, 2 * sign, False
    power = max(_ulp_exponent(exact, dtype), _ulp_exponent(scale, dtype))
    is_near = mpmath.mag(exact) >= -SMALLEST_EXPONENT[dtype]  # to the largest number
    beyond = sign if is_near and abs(exact) + mpmath.ldexp(4, power) > LARGEST[dtype] else 0
    nearest = float(exact)
    if math.isinf(nearest):
        nearest = 0.0
    whole, exponent = _rest(exact, nearest)
    return nearest, _double(whole, exponent - power), _double(1, power), beyond, False


def _rest(exact: mpf, nearest: float) -> tuple[int, int]:
    """What a double lacks of a number, as a whole number times a power of two."""
    sign, mantissa, exponent, _ = exact._mpf_
    whole = -mantissa if sign else mantissa
    if not nearest:
        return whole, exponent
    share, power = math.frexp(nearest)
    digits = MANTISSA["float64"]
    least = min(exponent, power - digits)
    return (whole << exponent - least) - (int(math.ldexp(share, digits)) << power - digits - least), least


def _double(whole: int, power: int) -> float:
    """A whole number times a power of two."""
    dropped = max(whole.bit_length() - 64, 0)
    try:
        return math.ldexp(whole >> dropped, power + dropped)
    except OverflowError:
        return math.copysign(math.inf, whole)
