"""Errors in units in the last place (ULP) of a floating-point type."""

from __future__ import annotations

import math

import mpmath
from mpmath import mpf

MANTISSA = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}
SMALLEST_EXPONENT = {"float64": -1022, "float32": -126, "bfloat16": -126, "float16": -14}
LARGEST = {
    "float64": float.fromhex("0x1.fffffffffffffp1023"),
    "float32": float.fromhex("0x1.fffffep127"),
    "bfloat16": float.fromhex("0x1.fep127"),
    "float16": 65504.0,
}


def ulp(value: mpf, dtype: str) -> mpf:
    """The distance between neighbouring numbers of a type at `value`."""
    exponent = int(mpmath.frexp(value)[1]) - 1 if value != 0 else SMALLEST_EXPONENT[dtype]
    return mpf(2) ** (max(exponent, SMALLEST_EXPONENT[dtype]) - MANTISSA[dtype] + 1)


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
    unit = ulp(max(abs(exact), scale), dtype)
    if math.isinf(computed) and abs(exact) + 4 * unit > LARGEST[dtype]:
        return 0.0 if (computed > 0) == (exact > 0) else math.inf
    if not math.isfinite(computed):
        return math.inf
    if mpmath.isinf(exact):
        return 0.0 if abs(computed) >= LARGEST[dtype] else math.inf
    return float(abs(mpf(computed) - exact) / unit)
