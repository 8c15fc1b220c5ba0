"""Functions of whole columns of doubles by additions, multiplications, divisions, square roots and powers of two alone.

NumPy asks the C library for them, whose last digits differ from one machine to another. These are the same everywhere,
off by some units in the last place, which is nothing to what float32 shows, and a thousand times as fast as mpmath.
The formulas are those of Abramowitz & Stegun (1964), and of FDLIBM (Sun Microsystems, 1993) for the logarithms.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from gradgen import erfcx as tables
from gradgen import normal
from gradgen.scaled import VANISHING

Array = Any  # of doubles

_LN2 = 0.6931471805599453
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has 32 bits
_EXPONENTIAL = [1 / math.factorial(k) for k in range(14, 0, -1)]  # of (exp(r) - 1)/r
_LOGARITHM = [2 / (2 * k + 1) for k in range(12, 0, -1)]  # of log((1 + s)/(1 - s))/s - 2, in s^2
_ARC_TANGENT = [(-1) ** k / (2 * k + 1) for k in range(13, -1, -1)]  # of atan(t)/t in t^2, for t up to tan(pi/16)
_MOST = 1500.0  # beyond which an exponential vanishes or overflows
_SPLIT = 2.0**27 + 1  # into halves whose products are exact


def _nested(x: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial, highest power first."""
    total = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:  # in place, which takes half the time
        total *= x
        total += c
    return total


def _reduced(x: Array) -> tuple[Array, Array]:
    """n and r with x = n log(2) + r, |r| <= log(2)/2."""
    within = np.clip(x, -_MOST, _MOST)
    n = np.rint(within / _LN2)
    return n, (within - n * _LN2_HIGH) - n * _LN2_LOW


def _scaled(x: Array, n: Array) -> Array:
    """x 2^n, for an x that is NaN where n is, whatever that becomes; of 32 bits, for which NumPy has vectors."""
    with np.errstate(invalid="ignore"):
        return np.ldexp(x, n.astype(np.int32))


def exp(x: Array) -> Array:
    return mul_exp(1.0, x)


def mul_exp(factor: Array | float, x: Array) -> Array:
    """factor * exp(x), with all digits also where the exponential alone is a subnormal number, or nothing."""
    n, r = _reduced(x)
    return _scaled(factor * (1 + r * _nested(r, _EXPONENTIAL)), n)


def expm1(x: Array) -> Array:
    near = np.clip(x, -0.5, 0.5)
    return np.where(abs(x) < 0.35, near * _nested(near, [1 / math.factorial(k) for k in range(18, 0, -1)]), exp(x) - 1)


def _log(x: Array, lost: Array | float) -> Array:
    """log(x), plus a correction that is small."""
    m, n = np.frexp(x)
    is_small = m < math.sqrt(0.5)
    m, n = np.where(is_small, 2 * m, m), n - is_small
    s = (m - 1) / (m + 1)
    found = n * _LN2_HIGH + (n * _LN2_LOW + lost + 2 * s + s * (s * s * _nested(s * s, _LOGARITHM)))
    found = np.where(x == 0, -np.inf, np.where(x == np.inf, np.inf, found))
    return np.where(x < 0, np.nan, found)


def log(x: Array) -> Array:
    return _log(x, 0.0)


def log1p(x: Array) -> Array:
    total = 1 + x
    lost = np.where(np.isfinite(total) & (total != 0), (x - (total - 1)) / total, 0.0)
    return np.where(x == 0, x, _log(total, lost))


def tanh(x: Array) -> Array:
    t = expm1(2 * np.minimum(abs(x), 30.0))
    return np.copysign(t / (t + 2), x)


def sinh(x: Array) -> Array:
    size = abs(x)
    t = expm1(np.minimum(size, 700.0))
    half = exp(size / 2)
    return np.copysign(np.where(size < 700, (t + t / (t + 1)) / 2, half / 2 * half), x)


def cosh(x: Array) -> Array:
    half = exp(abs(x) / 2)
    return half / 2 * half + 0.5 / half / half


def sech(x: Array) -> Array:
    return mul_sech(1.0, x)


def mul_sech(factor: Array | float, x: Array) -> Array:
    e = exp(-abs(x))
    return mul_exp(2.0 * factor, -abs(x)) / (1 + e * e)


def sigmoid(x: Array) -> Array:
    return mul_sigmoid(1.0, x)


def mul_sigmoid(factor: Array | float, x: Array) -> Array:
    d = -abs(x)
    return np.where(x >= 0, factor, mul_exp(factor, d)) / (1 + exp(d))


def logistic_density(x: Array) -> Array:
    return mul_logistic_density(1.0, x)


def mul_logistic_density(factor: Array | float, x: Array) -> Array:
    d = -abs(x)
    e = exp(d)
    return mul_exp(factor, d) / (1 + e) / (1 + e)


def dswish(x: Array) -> Array:
    return mul_dswish(1.0, x)


def mul_dswish(factor: Array | float, x: Array) -> Array:
    a = np.minimum(abs(x), 2000.0)
    e = exp(-a)
    q = ((1 - a) + e) / (1 + e) / (1 + e)
    return np.where(x < 0, mul_exp(factor * q, -a), factor * (1 - mul_exp(q, -a)))


def dgate(u: Array, w: Array) -> Array:
    d = np.maximum(-abs(u), -2000.0)
    e = exp(d)
    q = np.where(u < 0, (1 + w) + e, 1 + (1 + w) * e) / (1 + e) / (1 + e)
    found = np.where(u < 0, mul_exp(q, d), q)
    return np.where((d < -1464.0) & (w == w), np.where(u > 0, 1.0, 0.0), found)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + log1p(exp(-abs(x)))


def logaddexp(a: Array, b: Array) -> Array:
    return np.where(a == b, a + _LN2, np.maximum(a, b) + log1p(exp(-abs(a - b))))


def pow(base: Array, exponent: Array) -> Array:
    whole = exponent == np.rint(exponent)
    size = exp(exponent * log(abs(base)))
    found = np.where((base < 0) & whole & (exponent % 2 != 0), -size, size)
    return np.where((base < 0) & ~whole, np.nan, np.where(exponent == 0, 1.0, found))


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once, for a c that is nearly -a * b and numbers not among the largest (Dekker 1971)."""
    product = a * b
    a_high, b_high = _SPLIT * a - (_SPLIT * a - a), _SPLIT * b - (_SPLIT * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return (product + c) + error


def _positive_erfcx(order: int, a: Array) -> Array:
    near, far = np.minimum(a, 1.0), np.maximum(a, 1.0)
    power = reduce(operator.mul, [1 + 2 * far] * (order + 1))  # numpy's own is not the same everywhere
    above = _nested(1 - 6 / (far + 2), tables.HIGH[order]) / power
    return np.where(a < 1, _nested(2 * near - 1, tables.LOW[order]), above)


def erfc(x: Array) -> Array:
    return mul_erfc(1.0, x)


def mul_erfc(factor: Array | float, x: Array) -> Array:
    a = np.minimum(abs(x), 40.0)
    tail = mul_exp(factor * _positive_erfcx(0, a) * (1 - fused(a, a, -a * a)), -a * a)
    return np.where(x < 0, 2 * factor - tail, tail)


def erf(x: Array) -> Array:
    near = np.minimum(abs(x), 0.5)
    series = [(-1) ** k / math.factorial(k) / (2 * k + 1) for k in range(14, -1, -1)]
    small = 2 / math.sqrt(math.pi) * near * _nested(near * near, series)
    return np.copysign(np.where(abs(x) < 0.5, small, 1 - erfc(abs(x))), x)


def ndtr(x: Array) -> Array:
    return mul_ndtr(1.0, x)


def mul_ndtr(factor: Array | float, x: Array) -> Array:
    return _mul_normal("ndtr", factor, x)


def gaussian(x: Array) -> Array:
    return exp(-0.5 * x * x)


def dgelu(x: Array) -> Array:
    return mul_dgelu(1.0, x)


def mul_dgelu(factor: Array | float, x: Array) -> Array:
    return _mul_normal("dgelu", factor, x)


def _mul_normal(name: str, factor: Array | float, x: Array) -> Array:
    f = normal.FUNCTIONS[name]
    cut, middle = float(f.cut["double"]), float(f.middle["double"])
    near, far = np.clip(x, -cut, cut), np.clip(abs(x), cut, float(normal.GONE["double"]))
    q = _nested((far - middle) / (far + middle), f.far["double"]) * (far + 1 if f.grows else 1)
    square = far * far
    q = q * (1 - fused(far, far, -square) / 2)
    above = factor * (1 - mul_exp(q, -square / 2))
    beyond = np.where(x < 0, mul_exp(factor * q, -square / 2), above)
    within = (0.5 + f.slope["double"] * near) + near * _nested(near * near, f.near["double"])
    return np.where(abs(x) < cut, factor * within, beyond)


def erfcx(x: Array) -> Array:
    a = np.minimum(abs(x), 1e10)
    below = 2 * exp(a * a) * (1 + fused(a, a, -a * a)) - _positive_erfcx(0, a)
    above = np.where(x < 1e10, _positive_erfcx(0, a), 1 / (math.sqrt(math.pi) * x))
    return np.where(x < 0, below, above)


def ierfcx(x: Array) -> Array:
    a = np.minimum(abs(x), 1e10)
    above = np.where(x < 1e10, _positive_erfcx(1, a), 1 / (2 * math.sqrt(math.pi) * x) / x)
    return np.where(x < 0, 1 / math.sqrt(math.pi) - x * erfcx(x), above)


def i2erfcx(x: Array) -> Array:
    a = np.minimum(abs(x), 1e10)
    above = np.where(x < 1e10, _positive_erfcx(2, a), 1 / (4 * math.sqrt(math.pi) * x) / x / x)
    return np.where(x < 0, (erfcx(x) - 2 * x * ierfcx(x)) / 4, above)


def asinh(x: Array) -> Array:
    a = np.minimum(abs(x), 1e10)
    near = log1p(a + a * a / (1 + np.sqrt(1 + a * a)))
    return np.copysign(np.where(abs(x) < 1e10, near, log(abs(x)) + _LN2), x)


def atanh(x: Array) -> Array:
    return log1p(2 * x / (1 - x)) / 2


def atan(x: Array) -> Array:
    size = abs(x)
    t = np.where(size > 1, 1 / np.maximum(size, 1.0), size)
    for _ in range(2):  # by half of the angle
        t = t / (1 + np.sqrt(1 + t * t))
    found = 4 * t * _nested(t * t, _ARC_TANGENT)
    return np.copysign(np.where(size > 1, math.pi / 2 - found, found), x)


def hypot(a: Array, b: Array) -> Array:
    most = np.maximum(abs(a), abs(b))
    unit = np.ldexp(1.0, np.frexp(np.where(np.isfinite(most) & (most > 0), most, 1.0))[1])
    return np.sqrt((a / unit) ** 2 + (b / unit) ** 2) * unit


_NAMED: tuple[Callable[..., Array], ...] = (
    *(exp, expm1, log, log1p, tanh, sinh, cosh, sech, sigmoid, logistic_density, dswish, dgate, softplus, logaddexp),
    *(pow, erf, erfc, ndtr, dgelu, gaussian, erfcx, ierfcx, i2erfcx, asinh, atanh, atan, hypot),
    *(mul_exp, mul_sech, mul_sigmoid, mul_logistic_density, mul_dswish, mul_erfc, mul_ndtr, mul_dgelu),
)

# By the names of the table of primitives; a product with an infinite number is a matter of those who have one.
FUNCTIONS: dict[str, Callable[..., Array]] = {function.__name__: function for function in _NAMED}
FUNCTIONS |= {f"lift_{name}": FUNCTIONS[f"mul_{name}"] for name in VANISHING}
