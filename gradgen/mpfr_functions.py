"""The primitives in MPFR's numbers, which are computed in a tenth of the time that mpmath's take.

To the precision of MPFR's context, all but a few bits. What cannot be told so is left to mpmath.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import gmpy2
import mpmath
from mpmath import mpf
from mpmath.libmp import from_man_exp

from gradgen import evaluate
from gradgen.primitives import ERRORS, MARKS, PRODUCTS

Number = Any  # gmpy2.mpfr; a condition is a bool

RANGE = 1 << 15  # of exponents: far beyond any float64, and not so far that a sine takes long
_FAR = 1 << 62  # an exponent beyond all ranges


def lifted(x: mpf) -> Number:
    """An mpmath number as one of MPFR, of no more digits than are worked with."""
    sign, mantissa, exponent, _ = x._mpf_
    if not mantissa:  # 0, an infinity or NaN
        return gmpy2.mpfr(float(x))
    number = gmpy2.mul_2exp(gmpy2.mpfr(mantissa), max(-_FAR, min(exponent, _FAR)))
    return -number if sign else number


def lowered(x: Number) -> mpf:
    """An MPFR number as one of mpmath."""
    if not gmpy2.is_finite(x):
        return mpf(float(x))
    mantissa, exponent = x.as_mantissa_exp()
    return mpmath.make_mpf(from_man_exp(mantissa, int(exponent)))


@cache
def slow(op: str) -> Callable[..., Number]:
    """A primitive that MPFR does not have."""

    @_keeping
    def function(*args: Number) -> Number:
        with mpmath.workprec(gmpy2.get_context().precision):
            return lifted(evaluate.function(op, *map(lowered, args)))

    return function


_MOST_KEPT = 1 << 14


def _keeping(function: Callable[..., Number]) -> Callable[..., Number]:
    """A function that keeps its values, for many forms ask for the same: those of which no flag has to tell again.

    Not where the last operand is 0, whose sign counts; those before it are orders, and factors.
    """
    kept: dict[tuple[Number, ...], Number] = {}

    def keeping(*args: Number) -> Number:
        key = (*args, gmpy2.get_context().precision)
        value = kept.get(key)
        if value is None:
            value = function(*args)
            if all(gmpy2.is_regular(x) and abs(gmpy2.get_exp(x)) < RANGE for x in (args[-1], value)):
                if len(kept) >= _MOST_KEPT:
                    kept.clear()
                kept[key] = value
        return value

    return keeping


@_keeping
def _exp_neg_abs(x: Number) -> Number:
    return gmpy2.exp(-abs(x))


def _sigmoid(x: Number) -> Number:
    e = _exp_neg_abs(x)
    return 1 / (1 + e) if x > 0 else e / (1 + e)


def _logistic_density(x: Number) -> Number:
    e = _exp_neg_abs(x)
    return e / (1 + e) ** 2


def _dswish(x: Number) -> Number:
    """By its terms, which cancel at -1.28."""
    if not 2 * abs(x) < RANGE:
        return slow("dswish")(x)
    with _widened(gmpy2.get_context().precision):
        e, a = gmpy2.exp(-abs(x)), abs(x)
        tail = e * (1 + e - a) / (1 + e) ** 2
        value = 1 - tail if x > 0 else tail
    return +value


def _dgate(u: Number, w: Number) -> Number:
    """By its terms, which may cancel."""
    if not 2 * abs(u) < RANGE:
        return slow("dgate")(u, w)
    with _widened(gmpy2.get_context().precision):
        e = gmpy2.exp(-abs(u))
        value = (1 if u > 0 else e) / (1 + e) + w * e / (1 + e) ** 2
    return +value


def _softplus(x: Number) -> Number:
    return (x if x > 0 else 0) + gmpy2.log1p(_exp_neg_abs(x))


def _logaddexp(a: Number, b: Number) -> Number:
    return max(a, b) + gmpy2.log1p(_exp_neg_abs(a - b))


def _bessel(op: str, of_integer: Callable[[int, Number], Number], n: Number, x: Number) -> Number:
    return of_integer(int(n), x) if n.is_integer() else slow(op)(n, x)


_GUARD = 32  # bits


def _widened(bits: float) -> Any:
    """A context to enter, with so many more bits than now: what differences lose, and some for what is rounded."""
    now = gmpy2.get_context()
    return gmpy2.context(now, precision=now.precision + _GUARD + max(0, int(bits)))


def _polygamma(n: Number, x: Number) -> Number:
    """By the recurrence A&S 6.4.6 up to where the asymptotic series 6.4.11 has all digits, for positive numbers."""
    if not (n.is_integer() and n > 0 and 0 < x < gmpy2.inf()):
        return slow("polygamma")(n, x)
    order, bits = int(n), gmpy2.get_context().precision + _GUARD
    with _widened(0):
        below, y = gmpy2.mpfr(0), gmpy2.mpfr(x)
        while y < order + bits // 6:
            below += 1 / math.prod(itertools.repeat(y, order), start=y)  # faster than a power
            y += 1
        beyond = coefficient = math.factorial(order - 1) / y**order
        beyond += order * coefficient / (2 * y)
        square = y * y
        for j in range(2, bits, 2):
            coefficient = coefficient * ((j + order - 2) * (j + order - 1)) / (square * (j * (j - 1)))
            term = _bernoulli(j, bits) * coefficient
            beyond += term
            if gmpy2.get_exp(term) < gmpy2.get_exp(beyond) - bits:
                break
        result = (-1) ** (order + 1) * (math.factorial(order) * below + beyond)
    return +result if gmpy2.is_regular(result) else slow("polygamma")(n, x)


@cache
def _bernoulli(j: int, bits: int) -> Number:
    """The Bernoulli number B_j."""
    numerator, denominator = mpmath.bernfrac(j)
    return gmpy2.mpfr(gmpy2.mpq(numerator, denominator), bits)


def _erfc(x: Number) -> Number:
    """Where MPFR's series is long, by the trapezoidal rule, whose digits double with twice the terms.

    Of erfc(x) = 2*x*exp(-x**2)/pi * (integral of exp(-t**2)/(x**2 + t**2) over t > 0), with what its pole adds:
    Matta and Reichel, Rational approximations to the error functions, Math. Comp. 25 (1971).
    """
    if x < -1:
        return 2 - _erfc(-x)
    bits = gmpy2.get_context().precision + _GUARD
    if not (x > 1 and x * x < min(4 * bits, RANGE // 2)):  # elsewhere it is quick, or may underflow
        return gmpy2.erfc(x)
    reach = math.ceil(math.sqrt(bits * math.log(2)))
    if abs(x - reach) < 1:
        reach += 2  # the pole must not be where the rule counts it half
    with _widened(0):
        square = x * x
        total = sum((weight / (square + node) for weight, node in _trapezoids(reach, bits)), start=1 / (2 * square))
        result = 2 * x * gmpy2.exp(-square) / reach * total
        if x < reach:
            result -= 2 / gmpy2.expm1(2 * reach * x)
    return +result


@cache
def _trapezoids(reach: int, bits: int) -> list[tuple[Number, Number]]:
    """exp(-t**2) and t**2 at the multiples t of pi/reach; each exponential from the one before it."""
    first = (gmpy2.const_pi(bits) / reach) ** 2
    weight, ratio, growth = gmpy2.exp(-first), gmpy2.exp(-3 * first), gmpy2.exp(-2 * first)
    found: list[tuple[Number, Number]] = []
    while gmpy2.get_exp(weight) > -bits:
        found.append((weight, (len(found) + 1) ** 2 * first))
        weight, ratio = weight * ratio, ratio * growth
    return found


def _erf(x: Number) -> Number:
    if abs(x) > 1 and x * x < gmpy2.get_context().precision:
        return gmpy2.copy_sign(1 - _erfc(abs(x)), x)
    return gmpy2.erf(x)


_FIRST = 64  # bits in which Newton's method starts
_SETTLED = 2.0**-24  # a step of this share leaves an error of its square


def _erfinv(y: Number) -> Number:
    """By Newton's method from a bound, which it nears from its side, and then with twice the digits after each step.

    Of erf where that is small, else of the logarithm of erfc, which is no more than exp(-x**2).
    """
    if not (gmpy2.is_regular(y) and -1 < y < 1):
        return y if y == 0 else y * gmpy2.inf() if y in (1, -1) else gmpy2.nan()
    now = gmpy2.get_context()
    bits, is_near = now.precision + _GUARD, -0.5 < y < 0.5
    with gmpy2.context(now, precision=max(bits, y.precision)):
        size = abs(y)
        log_rest = gmpy2.log(1 - size)
        x = size if is_near else gmpy2.sqrt(-log_rest)
    precision = _FIRST
    while True:
        with gmpy2.context(now, precision=precision):
            slope = 2 / gmpy2.sqrt(gmpy2.const_pi()) * gmpy2.exp(-x * x)
            rest = 1 if is_near else _erfc(x)
            step = (size - _erf(x) if is_near else (gmpy2.log(rest) - log_rest) * rest) / slope
            x += step
        if not gmpy2.is_finite(step):  # rest, or exp(-x**2), is beyond the range of numbers
            return slow("erfinv")(y)
        is_settled = abs(step) <= _SETTLED * x
        if is_settled and precision == bits:
            return gmpy2.copy_sign(+x, y)
        if is_settled:
            precision = min(2 * precision - _GUARD // 2, bits)


def _is_ordinary(x: Number) -> bool:
    """Whether a function whose power series begins with x can be had by differences, which lose bits as x vanishes."""
    return bool(gmpy2.is_regular(x) and -gmpy2.get_context().precision < gmpy2.get_exp(x) < RANGE)


def _ndtr(x: Number) -> Number:
    if not _has_square(x):
        return slow("ndtr")(x)
    with _widened(2 * gmpy2.get_exp(x)):
        value = _erfc(-x / gmpy2.sqrt(gmpy2.mpfr(2))) / 2
    return +value


def _gaussian(x: Number) -> Number:
    if not _has_square(x):
        return slow("gaussian")(x)
    with _widened(2 * gmpy2.get_exp(x)):
        value = gmpy2.exp(-x * x / 2)
    return +value


def _dgelu(x: Number) -> Number:
    """By its terms, which lose about x**2 to each other."""
    if not _has_square(x):
        return slow("dgelu")(x)
    with _widened(4 * gmpy2.get_exp(x)):
        value = _ndtr(x) + x * gmpy2.exp(-x * x / 2) / gmpy2.sqrt(2 * gmpy2.const_pi())
    return +value


def _has_square(x: Number) -> bool:
    """Whether neither the exponential of a number's square, nor its inverse, is out of range."""
    return bool(gmpy2.is_regular(x) and 4 * x * x < RANGE)


def _erfcx(op: str, order: int) -> Callable[[Number], Number]:
    """exp(x**2) i^n erfc(x) by the recurrence A&S 7.2.5, which loses about n + 1 times twice the digits of x."""

    def function(x: Number) -> Number:
        if not _has_square(x):
            return slow(op)(x)
        with _widened(4 * (order + 1) * gmpy2.get_exp(x)):
            before, value = 2 / gmpy2.sqrt(gmpy2.const_pi()), gmpy2.exp(x * x) * _erfc(x)
            for n in range(1, order + 1):
                before, value = value, (before - 2 * x * value) / (2 * n)
        return +value

    return function


def _exprel(op: str, order: int) -> Callable[..., Number]:
    """The derivatives of y = expm1(k*x)/k by k, from k*y^(n) + n*y^(n - 1) = x^n*exp(k*x)."""

    def function(k: Number, x: Number) -> Number:
        if not _is_ordinary(k * x):
            return slow(op)(k, x)
        with _widened(-(order + 1) * gmpy2.get_exp(k * x)):
            e = gmpy2.exp(k * x)
            y = (e - 1) / k
            for n in range(1, order + 1):
                y = (x**n * e - n * y) / k
        return +y if gmpy2.is_regular(y) else slow(op)(k, x)

    return function


def _logrel(op: str, order: int) -> Callable[..., Number]:
    """The derivatives of y = log1p(k*x)/k by k, from k*y^(n) + n*y^(n - 1) = (n - 1)! (-1)^(n - 1) (x/(1 + k*x))^n."""

    def function(k: Number, x: Number) -> Number:
        if not (_is_ordinary(k * x) and k * x > -1):
            return slow(op)(k, x)
        with _widened(-order * gmpy2.get_exp(k * x)):
            y, slope = gmpy2.log1p(k * x) / k, -1 / (1 / x + k)
            for n in range(1, order + 1):
                y = (-math.factorial(n - 1) * slope**n - n * y) / k
        return +y if gmpy2.is_regular(y) else slow(op)(k, x)

    return function


def _sinc(op: str, order: int) -> Callable[[Number], Number]:
    """The derivatives of sin(x)/x."""

    def function(x: Number) -> Number:
        if not _is_ordinary(x):
            return slow(op)(x)
        with _widened(-2 * gmpy2.get_exp(x)):
            sine, cosine = gmpy2.sin_cos(x)
            y = sine / x
            slope = (cosine - y) / x
            found = (y, slope, -y - 2 * slope / x)[order]
        return +found

    return function


def _langevin(op: str, order: int) -> Callable[[Number], Number]:
    """The derivatives of coth(x) - 1/x."""

    def function(x: Number) -> Number:
        if not _is_ordinary(x):
            return slow(op)(x)
        with _widened(-6 * gmpy2.get_exp(x)):
            e = gmpy2.exp(-2 * abs(x))
            coth, csch2 = gmpy2.copy_sign((1 + e) / (1 - e), x), 4 * e / (1 - e) ** 2
            found = (coth - 1 / x, 1 / x**2 - csch2, 2 * (coth * csch2 - 1 / x**3))[order]
        return +found

    return function


_FEW_TERMS = 16  # twice as many as there are


def _sin(x: Number) -> Number:
    """Of a tiny number by its power series: MPFR rounds again and again where many zeros follow a term."""
    bits = gmpy2.get_context().precision
    if not (gmpy2.is_regular(x) and -_FEW_TERMS * gmpy2.get_exp(x) > bits):
        return gmpy2.sin(x)
    term, square, n, size = +x, x * x, 2, gmpy2.get_exp(x)
    total = term
    while gmpy2.get_exp(term) + 2 * size > size - bits:
        term *= -square / (n * (n + 1))
        total += term
        n += 2
    return total


def _nothing(*_: Number) -> Number:
    return gmpy2.mpfr(0)


_NAMED = (
    *("exp", "log", "log1p", "expm1", "exp2", "log2", "log10", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "sech", "csch", "asinh", "acosh", "atanh", "hypot", "cbrt"),
)
FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{name: getattr(gmpy2, name) for name in _NAMED},
    **{name: _keeping(getattr(gmpy2, name)) for name in ("gamma", "digamma")},
    "sin": _sin,
    "erf": _keeping(_erf),
    "erfc": _keeping(_erfc),
    "erfinv": _keeping(_erfinv),
    "ndtr": _keeping(_ndtr),
    "dgelu": _keeping(_dgelu),
    "dswish": _keeping(_dswish),
    "dgate": _keeping(_dgate),
    "gaussian": _keeping(_gaussian),
    **{name: getattr(operator, name) for name in ("add", "mul", "pow", "gt", "ge", "lt", "le", "eq", "ne")},
    "where": lambda condition, p, q: p if condition else q,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
    "damp": lambda v, r: v if v == 0 else v * r,
    "xmul": operator.mul,
    "unit": lambda a, h: h if h == 0 else a / h,
    **dict.fromkeys(MARKS, lambda x: x),
    "corrected": lambda value, error: value,
    **dict.fromkeys((*ERRORS, "rest"), _nothing),
    "sigmoid": _sigmoid,
    "logistic_density": _logistic_density,
    "softplus": _softplus,
    "logaddexp": _logaddexp,
    **{name: _keeping(_erfcx(name, n)) for n, name in enumerate(("erfcx", "ierfcx", "i2erfcx"))},
    **{name: _keeping(_exprel(name, n)) for n, name in enumerate(("exprel", "dexprel", "d2exprel"))},
    **{name: _keeping(_logrel(name, n)) for n, name in enumerate(("logrel", "dlogrel", "d2logrel"))},
    **{name: _keeping(_sinc(name, n)) for n, name in enumerate(("sinc", "dsinc", "d2sinc"))},
    **{name: _keeping(_langevin(name, n)) for n, name in enumerate(("langevin", "dlangevin", "d2langevin"))},
    "loggamma": _keeping(lambda x: gmpy2.lgamma(x)[0]),
    "polygamma": _keeping(_polygamma),
    "bessel_j": _keeping(partial(_bessel, "bessel_j", gmpy2.jn)),
    "bessel_y": _keeping(partial(_bessel, "bessel_y", gmpy2.yn)),
    "acot": lambda x: gmpy2.atan(1 / x),
    "acsch": lambda x: gmpy2.asinh(1 / x),
    "asech": lambda x: gmpy2.acosh(1 / x),
    "floor": gmpy2.rint_floor,
    "ceil": gmpy2.rint_ceil,
    "abs": abs,
    "modulus": abs,
    "maximum": max,
    "minimum": min,
    "sign": lambda x: gmpy2.mpfr(gmpy2.sign(x)),
}
FUNCTIONS |= {
    product: lambda r, t, f=FUNCTIONS[name]: r * f(t) for product, name in PRODUCTS.items() if name in FUNCTIONS
}
