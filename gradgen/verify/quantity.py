"""What is measured of an op, and the two numbers that an error is taken against."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import mpmath
from mpmath import mpf

from gradgen.ulp import LARGEST, mixed_error, ulp

KINDS = ("value", "gradient", "second derivative")

_HALF = 0.5

Point = dict[str, float]


class Quantity(NamedTuple):
    """An output of an op, or a derivative of it: `wrt` names no, one or two inputs."""

    output: int
    wrt: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Which of KINDS it is."""
        return KINDS[len(self.wrt)]

    def described(self, outputs: int) -> str:
        """Its name in a report, such as `d/dx` or `d2/dx dy of output 1`."""
        order = str(len(self.wrt)) if len(self.wrt) > 1 else ""
        name = f"d{order}/{' '.join(f'd{name}' for name in self.wrt)}" if self.wrt else "value"
        return f"{name} of output {self.output}" if outputs > 1 else name


@dataclass(frozen=True)
class Exact:
    """An exact result.

    Attributes:
        value: the result; infinite or NaN where the computed one should be.
        scale: gives what rounding an input alone makes of it, the largest |x * d value/dx|; None where that cannot be
            had. It takes long, and most results are so near that it does not matter.
        is_of_either_sign: whether an infinite result may be of the other sign: 1/x is where x is -0.
    """

    value: mpf
    scale: Callable[[], mpf | None] = field(default=lambda: mpf(0))
    is_of_either_sign: bool = False


def error(computed: float, exact: Exact, dtype: str) -> float | None:
    """The mixed error in ULPs; infinite for what is not even an approximation, None where it cannot be told.

    Unlike `mixed_error` it takes exact results that are infinite, which only an infinity of that sign, or the type's
    largest number, approximates, and NaN, which only NaN does. What is within half an ULP of the result itself has
    that error, however large the scale may be.
    """
    value = exact.value
    if mpmath.isnan(value):
        return 0.0 if math.isnan(computed) else math.inf
    if mpmath.isinf(value):
        fits = exact.is_of_either_sign or (computed > 0) == (value > 0)
        return 0.0 if fits and abs(computed) >= LARGEST[dtype] else math.inf
    found = mixed_error(computed, value, mpf(0), dtype)
    if found <= _HALF or math.isnan(computed):
        return found
    scale = exact.scale()
    if scale is None:
        return found if math.isinf(found) else None
    return mixed_error(computed, value, scale, dtype)


def apart(a: float, b: float, exact: Exact, dtype: str) -> float:
    """How far two results are from each other, in the ULPs of their error; infinite where one is a number alone."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return 0.0 if min(abs(a), abs(b)) >= LARGEST[dtype] and (a > 0) == (b > 0) else math.inf
    difference = abs(mpf(a) - mpf(b))
    found = float(difference / ulp(max(abs(a), abs(b)), dtype))
    scale = exact.scale() if found > 2 * _HALF else None
    return found if scale is None else float(difference / ulp(max(abs(exact.value), scale), dtype))
