"""The table of primitives: everything gradgen knows about a function, one row each.

A row holds the SymPy form, the local derivatives in a sound form, and the spelling for C and CUDA (one text serves
both), torch and mpmath. Adding a primitive is adding a row.

Derivatives follow HIPS autograd's `numpy_vjps`: a function of the result `y` and the operands, here giving the local
derivative by each operand (0 where there is none). They may use `y`, which is how exp, sqrt and relu need no input for
their gradient. The formulas are those of Abramowitz & Stegun (1964), in the form that neither cancels nor overflows.

A row whose function C or CUDA lacks brings its definition in `c_source`; `FN`, `real`, `NAN` and `INFINITY` come from
the kernel's prelude. A row whose function torch lacks, or computes with too large an error, brings `torch_source`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import mpmath
import sympy
from sympy.codegen import cfunctions

from gradgen import erfcx, error_free, exprel, function_errors, functions, half_turns, langevin, normal, scaled, special
from gradgen.graph import HALF, Node

Derivative = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Primitive:
    """One row of the table.

    Attributes:
        name: the primitive's name, the `op` of its nodes.
        derivative: from (y, *operands) to the local derivative by each operand; None for what has none.
        c: the spelling for C and CUDA, a format string of the operands.
        torch: the spelling for torch.
        mpmath: the exact function, of mpmath numbers.
        sympy: the SymPy function it stands for.
        of_numbers: what it is of SymPy's numbers, where that function is none, or stays as it is.
        c_source: the definition of what `c` calls, where C and CUDA lack it.
        torch_source: the definition of what `torch` calls, where torch lacks it.
        constant_operands: how many leading operands must be constants (the order of a Bessel function).
        growth: how it behaves for large arguments, words of: "vanishes" (tends to 0 exponentially on a side),
            "explodes" (grows exponentially on a side), "bounded", "keeps zero" (f(0) = 0, linear there). Without a
            word: grows, at most as a power.
        has_products: whether it vanishes, and products with it need care of their own: `PRODUCTS`.
        ulps: the error, in units in the last place, that its texts may have: the largest of what CUDA's programming
            guide and the C library's manual document for either type, and of what is measured for our own.
        double_ulps: the same in float64 alone, of which some have more digits right.
    """

    name: str
    derivative: Derivative | None
    c: str
    torch: str
    mpmath: Callable[..., Any]
    sympy: type | None = None
    of_numbers: Callable[..., Any] | None = None
    c_source: str = ""
    torch_source: str = ""
    constant_operands: int = 0
    growth: frozenset[str] = frozenset()
    has_products: bool = False
    ulps: float = 1.0
    double_ulps: float = 1.0


def _f(op: str, *args: Any) -> Node:
    node: Node = next(arg for arg in args if isinstance(arg, Node))
    return node.graph.apply(op, *args)


def _sqrt(x: Node) -> Node:
    return x.graph.power(x, x.graph.const(HALF))


def _pow(y: Node, x: Node, p: Node) -> tuple[Any, Any]:
    log: Any = 0  # of 0**p, whose limit that is for a positive p
    if x.number is None or x.number != 0:
        log = _f("damp", y, _f("log", x)) if x.number is None else y * sympy.log(x.number)
    if p.is_number(HALF):
        return HALF / y, log
    if p.number is not None:
        return p * x ** (p - 1), log
    return _f("damp", p, x ** (p - 1)), log


def _maximum(y: Node, a: Node, b: Node) -> tuple[Any, Any]:
    if _is_fixed(a):
        return _fixed(b, a, "gt", y)[::-1]
    return _fixed(a, b, "gt", y) if _is_fixed(b) else _tie(a, b, "gt")


def _minimum(y: Node, a: Node, b: Node) -> tuple[Any, Any]:
    if _is_fixed(a):
        return _fixed(b, a, "lt", y)[::-1]
    return _fixed(a, b, "lt", y) if _is_fixed(b) else _tie(a, b, "lt")


def _is_fixed(node: Node) -> bool:
    """Whether a node is a number in every call: -c and 1 - c of a hyper-parameter c, too."""
    return node.number is not None or node.graph.is_hyper(node)


def _fixed(a: Node, bound: Node, relation: str, y: Node) -> tuple[Any, Any]:
    """Against a constant the constant's side wins a tie; max(a, c) > c exactly where a > c, so that y serves.

    Unless a was rounded, to c maybe: then rules find what its operand is to be compared with.
    """
    is_rounded = a.op in ("add", "mul", "maximum", "minimum") and any(arg.number is not None for arg in a.args)
    return a.graph.where(_f(relation, a if is_rounded else y, bound), a.graph.const(1), a.graph.const(0)), 0


def _tie(a: Node, b: Node, relation: str) -> tuple[Any, Any]:
    """Two tensors split a tie in halves, as torch.maximum does."""
    one, zero, half, where = a.graph.const(1), a.graph.const(0), a.graph.const(HALF), a.graph.where
    a_wins, b_wins = _f(relation, a, b), _f(relation, b, a)
    return where(a_wins, one, where(b_wins, zero, half)), where(b_wins, one, where(a_wins, zero, half))


def _where(y: Node, condition: Node, p: Node, q: Node) -> tuple[Any, Any, Any]:
    one, zero, where = y.graph.const(1), y.graph.const(0), y.graph.where
    return 0, where(condition, one, zero), where(condition, zero, one)


def _where_nonnegative(x: Node) -> Node:
    return x.graph.where(_f("ge", x, 0), x.graph.const(1), x.graph.const(-1))


def _bessel(kind: str, sign: int) -> Derivative:
    """(C[n-1] - sign C[n+1]) / 2 for the Bessel functions J and Y (sign 1) and I (sign -1), A&S 9.1.27, 9.6.26."""

    def derivative(y: Node, n: Node, x: Node) -> tuple[Any, Any]:
        order = int(n.number)  # type: ignore[arg-type]
        if order == 0:
            return 0, -sign * _f(kind, 1, x)
        return 0, HALF * (_f(kind, order - 1, x) - sign * _f(kind, order + 1, x))

    return derivative


def _scaled_bessel(y: Node, n: Node, x: Node) -> tuple[Any, Any]:
    """That of I_n(x), times exp(-|x|), and what this has; A&S 9.6.26."""
    order = int(n.number)  # type: ignore[arg-type]
    before, after = _f("bessel_ie", abs(order - 1), x), _f("bessel_ie", order + 1, x)
    return 0, HALF * (before + after) - _where_nonnegative(x) * y


def _unit(y: Node, a: Node, h: Node) -> tuple[Any, Any]:
    return 1 / h, -y / h


def _direction(a: Any, h: Any) -> Any:
    if h == 0:
        return h
    return mpmath.sign(a) if mpmath.isinf(a) and mpmath.isinf(h) else a / h


def _bessel_exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """With the limits at infinity, at which mpmath fails."""

    def exact(n: Any, x: Any) -> Any:
        if not mpmath.isinf(x):
            return function(int(n), x)
        if function is mpmath.besseli:
            return mpmath.inf * mpmath.sign(x) ** int(n)
        return mpmath.mpf(0) if function is mpmath.besselj or x > 0 else mpmath.nan

    return exact


def _scaled_bessel_exact(n: Any, x: Any) -> Any:
    return mpmath.mpf(0) if mpmath.isinf(x) else mpmath.besseli(int(n), x) * mpmath.exp(-abs(x))


def _real_or_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """mpmath continues real functions into the complex plane; here a value that is not real is NaN."""

    def exact(*args: Any) -> Any:
        value = function(*args)
        return value if not isinstance(value, mpmath.mpc) else value.real if value.imag == 0 else mpmath.nan

    return exact


_LARGE = 64  # a power of two from which on the powers of e with whole exponents take mpmath long
_BEYOND = 2200  # a power of two that is far beyond any float64, or a power of one


def _at_most_float(function: Callable[[Any], Any], is_exponential: bool = False) -> Callable[[Any], Any]:
    """A function for which a number of thousands of digits counts as infinite.

    The exponential of a large whole number mpmath finds by multiplying, which takes a thousand times as long as that of
    any other; so it is given one that differs from it by less than shows.
    """

    def exact(x: Any) -> Any:
        magnitude = mpmath.mag(x) if mpmath.isfinite(x) and x != 0 else 0
        if magnitude > _BEYOND:
            return function(mpmath.sign(x) * mpmath.inf)
        if is_exponential and magnitude > _LARGE and mpmath.isint(x):
            x = mpmath.fadd(x, mpmath.ldexp(1, -mpmath.mp.prec - 2 * magnitude), exact=True)
        return function(x)

    return exact


_EXPONENTIALS = frozenset({"exp", "expm1", "sinh", "cosh", "sech", "csch"})  # of mpmath's
_exp = _at_most_float(mpmath.exp, is_exponential=True)


def _exp2_exact(x: Any) -> Any:
    """Of the exponent's fraction alone: what the rest needs of it, mpmath's power does not have."""
    if not mpmath.isfinite(x):
        return mpmath.mpf(2) ** x
    return mpmath.ldexp(mpmath.mpf(2) ** (x - mpmath.floor(x)), int(mpmath.floor(x)))


def _sigmoid_exact(x: Any) -> Any:
    e = _exp(-abs(x))
    return 1 / (1 + e) if x > 0 else e / (1 + e)


def _dswish_exact(x: Any) -> Any:
    """By its terms, which cancel at -1.28."""
    if mpmath.isinf(x):
        return mpmath.mpf(x > 0)
    with mpmath.workprec(2 * mpmath.mp.prec + _GUARD):  # an input so near to that loses as many digits as it has
        e, a = _exp(-abs(x)), abs(x)
        tail = e * (1 + e - a) / (1 + e) ** 2
        value = 1 - tail if x > 0 else tail
    return +value


def _dgate_exact(u: Any, w: Any) -> Any:
    """By its terms, which may cancel."""
    if mpmath.isinf(u) or (mpmath.isinf(w) and abs(u) > 1464):
        return mpmath.mpf(u > 0)
    with mpmath.workprec(2 * mpmath.mp.prec + _GUARD):
        e = _exp(-abs(u))
        value = (1 if u > 0 else e) / (1 + e) + w * e / (1 + e) ** 2
    return +value


def _softplus_exact(x: Any) -> Any:
    return (x if x > 0 else 0) + mpmath.log1p(_exp(-abs(x)))


def _logaddexp_exact(x: Any, y: Any) -> Any:
    return max(x, y) + mpmath.log1p(_exp(-abs(x - y)))


def _pow_exact(x: Any, p: Any) -> Any:
    if x == 0 and p < 0:
        return mpmath.inf
    if mpmath.isfinite(p) and p != 0 and mpmath.mag(p) > _BEYOND and x > 0:
        return mpmath.mpf(1) if x == 1 else mpmath.inf if (x > 1) == (p > 0) else mpmath.mpf(0)
    return mpmath.mpf(1) if p == 0 else x**p


def _erfc_exact(x: Any) -> Any:
    """Where the asymptotic series serves, by that: mpmath takes long, or gives up."""
    if not _is_far(x):
        return mpmath.erfc(x) if x > -1000 else mpmath.mpf(2)
    return _exp(-(x**2)) * _far_erfcx(x)


_GUARD = 40  # bits


def _ndtr_exact(x: Any) -> Any:
    if mpmath.isinf(x):
        return mpmath.mpf(x > 0)
    with mpmath.workprec(mpmath.mp.prec + _lost_to_square(x)):
        value = _erfc_exact(-x / mpmath.sqrt(2)) / 2
    return +value


def _dgelu_exact(x: Any) -> Any:
    """By its terms, which lose about x**2 to each other."""
    if mpmath.isinf(x):
        return mpmath.mpf(x > 0)
    with mpmath.workprec(mpmath.mp.prec + 2 * _lost_to_square(x)):
        value = _ndtr_exact(x) + x * _exp(-(x**2) / 2) / mpmath.sqrt(2 * mpmath.pi)
    return +value


def _gaussian_exact(x: Any) -> Any:
    with mpmath.workprec(mpmath.mp.prec + _lost_to_square(x)):
        value = _exp(-(x**2) / 2)
    return +value


def _lost_to_square(x: Any) -> int:
    """How many bits, and some, an error of x is larger in exp(x**2)."""
    return _GUARD + 2 * max(0, mpmath.mag(x) if x else 0)


def _erfcx_exact(order: int) -> Callable[[Any], Any]:
    """exp(x**2) i^n erfc(x) by the recurrence A&S 7.2.5, which loses about n + 1 times twice the digits of x."""

    def exact(x: Any) -> Any:
        if mpmath.isinf(x):
            return mpmath.mpf(0) if x > 0 else mpmath.inf
        if x < -1e4:
            return mpmath.inf
        more = 4 * (order + 1) * max(0, mpmath.mag(x)) if x else 0
        with mpmath.workprec(mpmath.mp.prec + more + 20):
            before, value = (
                2 / mpmath.sqrt(mpmath.pi),
                _far_erfcx(x) if _is_far(x) else _exp(x**2) * _erfc_exact(x),
            )
            for n in range(1, order + 1):
                before, value = value, (before - 2 * x * value) / (2 * n)
        return +value

    return exact


def _is_far(x: Any) -> bool:
    """Whether the terms of the asymptotic series, which fall until there are x**2 of them, fall far enough."""
    return bool(1 < x < mpmath.inf and x**2 > mpmath.mp.prec + 20)


def _far_erfcx(x: Any) -> Any:
    """The asymptotic series, A&S 7.1.23."""
    total, term, n = mpmath.mpf(0), 1 / (x * mpmath.sqrt(mpmath.pi)), 0
    while abs(term) > mpmath.eps / x:
        total, n = total + term, n + 1
        term *= -(2 * n - 1) / (2 * x**2)
    return total


_REFLECTED = -64  # below this mpmath takes long


def _polygamma_exact(order: Any, x: Any) -> Any:
    """By the reflection A&S 6.4.7 for x << 0, where mpmath counts its way up to 0 one by one."""
    n = int(order)
    if x > _REFLECTED:
        return mpmath.polygamma(n, x)
    sine = mpmath.sinpi(x)
    if sine == 0:
        return mpmath.nan
    cot, powers = mpmath.cospi(x) / sine, [mpmath.mpf(0), mpmath.mpf(1)]  # of cot(pi*x), in its n-th derivative
    for _ in range(n):
        slope = [-mpmath.pi * k * c for k, c in enumerate(powers)][1:]
        powers = [a + b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return (-1) ** n * mpmath.polygamma(n, 1 - x) - mpmath.pi * mpmath.polyval(powers[::-1], cot)


def _dsinc_exact(x: Any) -> Any:
    if _is_tiny(x) or mpmath.isinf(x):
        return mpmath.mpf(0) if mpmath.isinf(x) else -x / 3
    with _digits_for_what_cancels(x):
        return (x * mpmath.cos(x) - mpmath.sin(x)) / x**2


def _d2sinc_exact(x: Any) -> Any:
    if _is_tiny(x):
        return -mpmath.mpf(1) / 3
    if mpmath.isinf(x):
        return mpmath.mpf(0)
    with _digits_for_what_cancels(x):
        return -mpmath.sin(x) / x - 2 * _dsinc_exact(x) / x


def _dsinc_pi_exact(x: Any) -> Any:
    if _is_tiny(x) or mpmath.isinf(x):
        return mpmath.mpf(0) if mpmath.isinf(x) else -(mpmath.pi**2) * x / 3
    with _digits_for_what_cancels(x):
        return (mpmath.cospi(x) - mpmath.sincpi(x)) / x


def _d2sinc_pi_exact(x: Any) -> Any:
    if _is_tiny(x) or mpmath.isinf(x):
        return mpmath.mpf(0) if mpmath.isinf(x) else -(mpmath.pi**2) / 3
    with _digits_for_what_cancels(x):
        return -(mpmath.pi**2) * mpmath.sincpi(x) - 2 * _dsinc_pi_exact(x) / x


def _exprel_exact(order: int) -> Callable[..., Any]:
    """The derivatives of y = expm1(k*x)/k by k, from k*y^(n) + n*y^(n - 1) = x^n*exp(k*x)."""

    def exact(k: Any, x: Any) -> Any:
        if k == 0 or _is_tiny(k * x):
            return x ** (order + 1) / (order + 1)
        if mpmath.isinf(k * x):
            grown = mpmath.inf * (mpmath.sign(k), 1, mpmath.sign(x))[order]
            return grown if k * x > 0 else -((-1) ** order) * mpmath.factorial(order) / k ** (order + 1)
        with _digits_for_what_cancels(k * x):
            z = k * x
            y = (mpmath.expm1(z) if abs(z) < 1 else _exp(z) - 1) / k
            for n in range(1, order + 1):
                y = (x**n * _exp(z) - n * y) / k
            return y

    return exact


def _logrel_exact(order: int) -> Callable[..., Any]:
    """The derivatives of y = log1p(k*x)/k by k, from k*y^(n) + n*y^(n - 1) = (n - 1)! (-1)^(n - 1) (x/(1 + k*x))^n."""

    def exact(k: Any, x: Any) -> Any:
        if k == 0 or _is_tiny(k * x):
            return (-1) ** order * mpmath.factorial(order) * x ** (order + 1) / (order + 1)
        with _digits_for_what_cancels(k * x):
            z = k * x
            y = mpmath.log1p(z) / k
            for n in range(1, order + 1):
                y = (-mpmath.factorial(n - 1) * (-1 / (1 / x + k)) ** n - n * y) / k
            return y

    return exact


def _langevin_exact(order: int) -> Callable[[Any], Any]:
    """The derivatives of coth(x) - 1/x."""

    def exact(x: Any) -> Any:
        if _is_tiny(x):
            return (x / 3, mpmath.mpf(1) / 3, -2 * x / 15)[order]
        if mpmath.isinf(x):
            return mpmath.sign(x) if order == 0 else mpmath.mpf(0)
        with mpmath.workprec(mpmath.mp.prec + 10 - 6 * min(mpmath.mag(x), 0)):  # coth(x) loses as many again
            e = _exp(-2 * abs(x))
            coth, csch2 = mpmath.sign(x) * (1 + e) / (1 - e), 4 * e / (1 - e) ** 2
            return (coth - 1 / x, 1 / x**2 - csch2, 2 * (coth * csch2 - 1 / x**3))[order]

    return exact


def _is_tiny(x: Any) -> bool:
    """Whether nothing but the first term is left of a power series; what cancels instead would take as many bits."""
    return bool(x == 0 or mpmath.mag(x) < -mpmath.mp.prec - 10)


def _digits_for_what_cancels(x: Any) -> Any:
    """A context with as many more bits as a difference of terms of order x and x**3 loses."""
    return mpmath.workprec(mpmath.mp.prec + 10 - 2 * min(mpmath.mag(x), 0))


_MODULES = (special, error_free, function_errors, normal, scaled, erfcx, half_turns, exprel, langevin)
_C, _TORCH, _NEEDS = (
    reduce(operator.or_, dicts)
    for dicts in zip(*((module.C, module.TORCH, module.NEEDS) for module in _MODULES), strict=True)
)


def _own(name: str) -> tuple[str, str]:
    """The definitions, for C and for torch, of a function that gradgen brings itself."""
    parts = (*_NEEDS.get(name, ()), name)
    return "\n\n\n".join(_C[part] for part in parts if part in _C), "\n\n\n".join(
        _TORCH[part] for part in parts if part in _TORCH
    )


def _row(
    name: str,
    derivative: Derivative | None,
    c: str | None = None,
    torch: str | None = None,
    *,
    exact: Callable[..., Any] | None = None,
    arity: int = 1,
    sympy: type | None = None,
    of_numbers: Callable[..., Any] | None = None,
    constant_operands: int = 0,
    growth: str = "",
    text: str = "",
    ulps: float = 1.0,
    double_ulps: float | None = None,
) -> Primitive:
    """A row with the usual spellings filled in: name(...) in C, torch.name(...) unless gradgen brings its own.

    `text` names the definitions it brings where they have another name.
    """
    operands = ", ".join(f"{{{i}}}" for i in range(arity))
    c_source, torch_source = _own(text or name)
    function = _real_or_nan(exact or getattr(mpmath, name))
    words = set(growth.split(", "))
    if arity == 1 and (name == "tan" or not _WILD.isdisjoint(words)):
        function = _at_most_float(function, name in _EXPONENTIALS)
    return Primitive(
        name=name,
        derivative=derivative,
        c=c or f"{name}({operands})",
        torch=torch or f"{'rt' if torch_source else 'torch'}.{name}({operands})",
        mpmath=function,
        sympy=sympy,
        of_numbers=of_numbers or sympy,
        c_source=c_source,
        torch_source=torch_source,
        constant_operands=constant_operands,
        growth=frozenset(growth.split(", ")) - {""},
        has_products=name in scaled.VANISHING,
        ulps=ulps,
        double_ulps=ulps if double_ulps is None else double_ulps,
    )


_WILD = frozenset({"vanishes", "explodes", "bounded"})
_TWO_OVER_SQRT_PI = 2 / sympy.sqrt(sympy.pi)
_NORMAL = 1 / sympy.sqrt(2 * sympy.pi)  # the normal distribution's density at 0

# What is to be computed in compensated arithmetic: all of it, the functions as well, or the arguments of these alone.
MARKS = ("compensated", "extended", "sharpened")

# For a function the row for what it lacks of its exact value, of its operands and of what it was computed as.
FUNCTION_ERRORS = function_errors.ERRORS
# All that is lacking of something, and in exact arithmetic is 0.
ERRORS = ("sum_error", "product_error", "quotient_error", *dict.fromkeys(FUNCTION_ERRORS.values()))

_ROWS = [
    # Arithmetic and selection. The printers know their precedence; the spellings here are for a row read alone.
    _row("add", lambda y, a, b: (1, 1), "{0} + {1}", "{0} + {1}", exact=lambda a, b: a + b, arity=2),
    _row("mul", lambda y, a, b: (b, a), "{0} * {1}", "{0} * {1}", exact=lambda a, b: a * b, arity=2),
    _row("pow", _pow, "pow({0}, {1})", "torch.pow({0}, {1})", exact=_pow_exact, arity=2, ulps=4, double_ulps=2),
    _row(
        "where", _where, "{0} ? {1} : {2}", "torch.where({0}, {1}, {2})", exact=lambda c, p, q: p if c else q, arity=3
    ),
    # A product whose first factor wins where it is zero: x**2*exp(-x) at 1e30 is 0, not infinity times 0.
    _row("damp", lambda y, v, r: (r, v), exact=lambda v, r: v if v == 0 else v * r, arity=2, ulps=0.5),
    # A product that is 0 where its first factor is, of other inputs, and shows NaN: y*exp(x) at y = 0 and x = 800 is 0.
    _row("xmul", lambda y, v, r: (r, v), exact=lambda v, r: v * r, arity=2, ulps=0.5),
    # a/h for h = |(a, ...)|: the direction of a vector, 0 for the vector 0.
    _row(
        "unit",
        _unit,
        exact=_direction,
        arity=2,
        of_numbers=lambda a, h: a / h if h else h,
        growth="bounded",
        ulps=0.5,
    ),
    # Compensated arithmetic: what is to be computed in it, and what it is made of. In exact arithmetic nothing is lost.
    *(_row(mark, lambda y, x: (1,), exact=lambda x: x, ulps=0.5) for mark in MARKS),
    _row("corrected", None, exact=lambda value, error: value, arity=2, ulps=0.5),
    _row("sum_error", None, exact=lambda a, b, total: mpmath.mpf(0), arity=3, ulps=0.5),
    _row("product_error", None, exact=lambda a, b, product: mpmath.mpf(0), arity=3, ulps=0.5),
    _row("quotient_error", None, exact=lambda a, b, quotient, more: mpmath.mpf(0), arity=4, ulps=0.5),
    _row("rest", None, exact=lambda number: mpmath.mpf(0), ulps=0.5),
    *(
        _row(name, None, exact=lambda *_: mpmath.mpf(0), arity=function_errors.ARITY[name], ulps=0.5)
        for name in dict.fromkeys(FUNCTION_ERRORS.values())
    ),
    # Conditions
    _row("gt", None, "{0} > {1}", "{0} > {1}", exact=lambda a, b: a > b, arity=2),
    _row("ge", None, "{0} >= {1}", "{0} >= {1}", exact=lambda a, b: a >= b, arity=2),
    _row("lt", None, "{0} < {1}", "{0} < {1}", exact=lambda a, b: a < b, arity=2),
    _row("le", None, "{0} <= {1}", "{0} <= {1}", exact=lambda a, b: a <= b, arity=2),
    _row("eq", None, "{0} == {1}", "{0} == {1}", exact=lambda a, b: a == b, arity=2),
    _row("ne", None, "{0} != {1}", "{0} != {1}", exact=lambda a, b: a != b, arity=2),
    _row("and", None, "{0} && {1}", "{0} & {1}", exact=lambda a, b: a and b, arity=2),
    _row("or", None, "{0} || {1}", "{0} | {1}", exact=lambda a, b: a or b, arity=2),
    _row("not", None, "!{0}", "~{0}", exact=lambda a: not a),
    # Exponentials and logarithms
    _row("exp", lambda y, x: (y,), sympy=sympy.exp, growth="vanishes, explodes", ulps=0.65),
    _row("log", lambda y, x: (1 / x,), exact=lambda x: mpmath.log(x) if x != 0 else -mpmath.inf, sympy=sympy.log),
    _row("log1p", lambda y, x: (1 / (1 + x),), sympy=cfunctions.log1p, growth="keeps zero"),
    _row("expm1", lambda y, x: (_f("exp", x),), sympy=cfunctions.expm1, growth="explodes, keeps zero", ulps=1.1),
    _row(
        "exp2",
        lambda y, x: (y * sympy.log(2),),
        exact=_exp2_exact,
        sympy=cfunctions.exp2,
        growth="vanishes, explodes",
        ulps=2,
        double_ulps=1,
    ),
    _row("log2", lambda y, x: (1 / (x * sympy.log(2)),), exact=lambda x: mpmath.log(x, 2), sympy=cfunctions.log2),
    _row("log10", lambda y, x: (1 / (x * sympy.log(10)),), sympy=cfunctions.log10, ulps=2),
    _row(
        "sigmoid",
        lambda y, x: (_f("logistic_density", x),),
        exact=_sigmoid_exact,
        sympy=functions.sigmoid,
        growth="vanishes, bounded",
        ulps=1.9,
    ),
    _row(
        "logistic_density",
        lambda y, x: (-y * _f("tanh", x / 2),),
        exact=lambda x: _sigmoid_exact(x) * _sigmoid_exact(-x),
        of_numbers=lambda x: functions.sigmoid(x) * functions.sigmoid(-x),
        growth="vanishes, bounded",
        ulps=2,
    ),
    # The derivative of t sigmoid(t)
    _row(
        "dswish",
        lambda y, x: (_f("logistic_density", x) * (2 - x * _f("tanh", x / 2)),),
        exact=_dswish_exact,
        growth="vanishes, bounded",
        ulps=2.2,
    ),
    # sigmoid(u) + w logistic_density(u), which is the derivative of t sigmoid(u) by t for w = t u'
    _row(
        "dgate",
        lambda y, u, w: (_f("logistic_density", u) * (1 - w * _f("tanh", u / 2)), _f("logistic_density", u)),
        exact=_dgate_exact,
        arity=2,
        ulps=2.2,
    ),
    _row(
        "softplus",
        lambda y, x: (_f("sigmoid", x),),
        exact=_softplus_exact,
        sympy=functions.softplus,
        growth="vanishes",
        ulps=1.6,
    ),
    _row(
        "logaddexp",
        lambda y, a, b: (_f("sigmoid", a - b), _f("sigmoid", b - a)),
        exact=_logaddexp_exact,
        arity=2,
        sympy=functions.logaddexp,
        ulps=3.3,
    ),
    # 0/0 where the first operand, a parameter, is 0
    _row(
        "exprel",
        lambda y, k, x: (_f("dexprel", k, x), _f("exp", k * x)),
        exact=_exprel_exact(0),
        arity=2,
        growth="explodes",
        ulps=2.4,
    ),
    _row(
        "dexprel",
        lambda y, k, x: (_f("d2exprel", k, x), x * _f("exp", k * x)),
        exact=_exprel_exact(1),
        arity=2,
        growth="explodes",
        ulps=3.2,
    ),
    _row("d2exprel", None, exact=_exprel_exact(2), arity=2, growth="explodes", ulps=2.8),
    _row("logrel", lambda y, k, x: (_f("dlogrel", k, x), 1 / (1 + k * x)), exact=_logrel_exact(0), arity=2, ulps=2.2),
    _row(
        "dlogrel",
        lambda y, k, x: (_f("d2logrel", k, x), -x / (1 + k * x) ** 2),
        exact=_logrel_exact(1),
        arity=2,
        ulps=3.9,
    ),
    _row("d2logrel", None, exact=_logrel_exact(2), arity=2, ulps=4),
    # Circular functions
    _row("sin", lambda y, x: (_f("cos", x),), sympy=sympy.sin, growth="bounded, keeps zero", ulps=2),
    _row("cos", lambda y, x: (-_f("sin", x),), sympy=sympy.cos, growth="bounded", ulps=2),
    _row("tan", lambda y, x: (1 + y**2,), sympy=sympy.tan, growth="keeps zero", ulps=4, double_ulps=3.2),
    _row("asin", lambda y, x: (1 / _sqrt((1 - x) * (1 + x)),), sympy=sympy.asin, growth="bounded, keeps zero", ulps=2),
    _row("acos", lambda y, x: (-1 / _sqrt((1 - x) * (1 + x)),), sympy=sympy.acos, growth="bounded", ulps=2),
    _row("atan", lambda y, x: (_f("hypot", 1, x) ** -2,), sympy=sympy.atan, growth="bounded, keeps zero", ulps=2),
    _row(
        "atan2",
        lambda y, a, b: (
            _f("unit", b, _f("hypot", a, b)) / _f("hypot", a, b),
            -_f("unit", a, _f("hypot", a, b)) / _f("hypot", a, b),
        ),
        arity=2,
        sympy=sympy.atan2,
        growth="bounded",
        ulps=3,
        double_ulps=2,
    ),
    _row("sinc", lambda y, x: (_f("dsinc", x),), sympy=sympy.sinc, growth="bounded", ulps=1.1),
    _row(
        "sin_pi",
        lambda y, x: (sympy.pi * _f("cos_pi", x),),
        exact=mpmath.sinpi,
        of_numbers=lambda x: sympy.sin(sympy.pi * x),
        growth="bounded",
        ulps=2,
    ),
    _row(
        "cos_pi",
        lambda y, x: (-sympy.pi * _f("sin_pi", x),),
        exact=mpmath.cospi,
        of_numbers=lambda x: sympy.cos(sympy.pi * x),
        growth="bounded",
        ulps=2,
    ),
    _row(
        "sinc_pi",
        lambda y, x: (_f("dsinc_pi", x),),
        exact=mpmath.sincpi,
        of_numbers=lambda x: sympy.sinc(sympy.pi * x),
        growth="bounded",
        ulps=2.2,
    ),
    _row("dsinc_pi", lambda y, x: (_f("d2sinc_pi", x),), exact=_dsinc_pi_exact, growth="bounded", ulps=3.1),
    _row("d2sinc_pi", None, exact=_d2sinc_pi_exact, growth="bounded", ulps=2.8),
    _row("dsinc", lambda y, x: (_f("d2sinc", x),), exact=_dsinc_exact, growth="bounded", ulps=2.6),
    _row("d2sinc", None, exact=_d2sinc_exact, growth="bounded", ulps=2.3),
    # Hyperbolic functions
    _row(
        "langevin", lambda y, x: (_f("dlangevin", x),), exact=_langevin_exact(0), growth="bounded, keeps zero", ulps=2.9
    ),
    _row("dlangevin", lambda y, x: (_f("d2langevin", x),), exact=_langevin_exact(1), growth="bounded", ulps=2.4),
    _row("d2langevin", None, exact=_langevin_exact(2), growth="bounded", ulps=4),
    _row("sinh", lambda y, x: (_f("cosh", x),), sympy=sympy.sinh, growth="explodes, keeps zero", ulps=3, double_ulps=2),
    _row("cosh", lambda y, x: (_f("sinh", x),), sympy=sympy.cosh, growth="explodes", ulps=2),
    _row("tanh", lambda y, x: (_f("sech", x) ** 2,), sympy=sympy.tanh, growth="bounded, keeps zero", ulps=2.5),
    _row(
        "sech",
        lambda y, x: (-y * _f("tanh", x),),
        sympy=sympy.sech,
        growth="vanishes, bounded",
        ulps=1.8,
    ),
    _row("csch", lambda y, x: (-y / _f("tanh", x),), sympy=sympy.csch, growth="vanishes", ulps=2.1),
    _row("asinh", lambda y, x: (1 / _f("hypot", 1, x),), sympy=sympy.asinh, growth="keeps zero", ulps=3),
    _row("acosh", lambda y, x: (1 / (_sqrt(x - 1) * _sqrt(x + 1)),), sympy=sympy.acosh, ulps=4),
    _row(
        "atanh", lambda y, x: (1 / ((1 - x) * (1 + x)),), sympy=sympy.atanh, growth="keeps zero", ulps=3, double_ulps=2
    ),
    # Of the reciprocal, which may overflow where the function and its derivative are numbers
    _row(
        "acot",
        lambda y, x: (-(_f("hypot", 1, x) ** -2),),
        "atan(1 / {0})",
        "torch.atan(1 / {0})",
        sympy=sympy.acot,
        ulps=2.5,
    ),
    _row("acsch", lambda y, x: (-1 / (_f("abs", x) * _f("hypot", 1, x)),), sympy=sympy.acsch, ulps=3.5),
    _row("asech", lambda y, x: (-1 / (x * _sqrt((1 - x) * (1 + x))),), sympy=sympy.asech, ulps=4),
    # Error function, gamma, Bessel
    _row(
        "erf",
        lambda y, x: (_TWO_OVER_SQRT_PI * _f("exp", -(x**2)),),
        sympy=sympy.erf,
        growth="bounded, keeps zero",
        ulps=2,
    ),
    _row(
        "erfc",
        lambda y, x: (-_TWO_OVER_SQRT_PI * _f("exp", -(x**2)),),
        exact=_erfc_exact,
        sympy=sympy.erfc,
        growth="vanishes, bounded",
        ulps=2,
    ),
    # erfc(-t/sqrt(2))/2, and the derivative of t times that
    _row(
        "ndtr",
        lambda y, x: (_f("exp", -(x**2) / 2) * _NORMAL,),
        exact=_ndtr_exact,
        growth="vanishes, bounded",
        ulps=1.4,
    ),
    _row(
        "dgelu",
        lambda y, x: ((2 - x**2) * _f("exp", -(x**2) / 2) * _NORMAL,),
        exact=_dgelu_exact,
        growth="vanishes, bounded",
        ulps=2,
    ),
    # exp(-t**2/2), which C computes in one with these: in corrections, others have the exponential of the formula
    _row(
        "gaussian",
        lambda y, x: (-x * y,),
        exact=_gaussian_exact,
        growth="vanishes, bounded",
        ulps=1.4,
    ),
    # exp(t**2) erfc(t), and times its repeated integrals
    _row("erfcx", lambda y, x: (-2 * _f("ierfcx", x),), exact=_erfcx_exact(0), growth="explodes", ulps=2.5),
    _row("ierfcx", lambda y, x: (-4 * _f("i2erfcx", x),), exact=_erfcx_exact(1), growth="explodes", ulps=4),
    _row("i2erfcx", lambda y, x: (2 * x * y - _f("ierfcx", x),), exact=_erfcx_exact(2), growth="explodes", ulps=4),
    _row(
        "erfinv", lambda y, x: (_f("exp", y**2) / _TWO_OVER_SQRT_PI,), "erf_inverse({0})", sympy=sympy.erfinv, ulps=3.75
    ),
    _row(
        "gamma", lambda y, x: (y * _f("digamma", x),), "gamma_fn({0})", sympy=sympy.gamma, growth="explodes", ulps=4.5
    ),
    _row(
        "loggamma",
        lambda y, x: (_f("digamma", x),),
        exact=lambda x: mpmath.re(mpmath.loggamma(x)),
        sympy=sympy.loggamma,
        ulps=4.7,
    ),
    _row("digamma", lambda y, x: (_f("polygamma", 1, x),), sympy=sympy.digamma, ulps=2.6),
    _row(
        "polygamma",
        lambda y, n, x: (0, _f("polygamma", n + 1, x)),
        arity=2,
        exact=_polygamma_exact,
        sympy=sympy.polygamma,
        constant_operands=1,
        ulps=2.8,
    ),
    *(
        _row(
            name,
            _bessel(name, sign),
            arity=2,
            exact=_bessel_exact(exact),
            sympy=function,
            constant_operands=1,
            ulps=ulps,
        )
        for name, sign, exact, function, ulps in (
            ("bessel_j", 1, mpmath.besselj, sympy.besselj, 5.5),
            ("bessel_y", 1, mpmath.bessely, sympy.bessely, 4.5),
            ("bessel_i", -1, mpmath.besseli, sympy.besseli, 3.5),
        )
    ),
    # I_n(x) exp(-|x|)
    _row("bessel_ie", _scaled_bessel, arity=2, exact=_scaled_bessel_exact, constant_operands=1, ulps=2.7),
    # Norms, extremes, steps
    _row(
        "hypot",
        lambda y, a, b: (_f("unit", a, y), _f("unit", b, y)),
        arity=2,
        sympy=cfunctions.hypot,
        of_numbers=lambda a, b: sympy.sqrt(a**2 + b**2),
        ulps=1.1,
    ),
    _row("abs", lambda y, x: (_f("sign", x),), "fabs({0})", exact=abs, sympy=sympy.Abs, ulps=0.5),
    # |x| where the derivative at 0 is to be the one on the right, as in forms that differ for x >= 0 and x < 0.
    _row("modulus", lambda y, x: (_where_nonnegative(x),), "fabs({0})", exact=abs, ulps=0.5),
    _row(
        "sign",
        lambda y, x: (0,),
        "sgn({0})",
        "rt.sgn({0})",
        exact=mpmath.sign,
        sympy=sympy.sign,
        text="sgn",
        growth="bounded",
        ulps=0.5,
    ),
    _row("maximum", _maximum, torch="torch.maximum({0}, {1})", exact=max, arity=2, sympy=sympy.Max, ulps=0.5),
    _row("minimum", _minimum, torch="torch.minimum({0}, {1})", exact=min, arity=2, sympy=sympy.Min, ulps=0.5),
    _row(
        "cbrt",
        lambda y, x: (1 / (3 * y**2),),
        "cube_root({0})",
        exact=lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    ),
    _row("floor", lambda y, x: (0,), sympy=sympy.floor, ulps=0.5),
    _row("ceil", lambda y, x: (0,), sympy=sympy.ceiling, ulps=0.5),
]

# Products r * f(t) with a vanishing function, which `limits` puts in last: `mul` has 0 where f(t) is too small for
# every number r, though r, of the same inputs, be infinite; `lift` has r where it is infinite.
PRODUCTS: dict[str, str] = {
    f"{kind}_{row.name}": row.name for row in _ROWS if row.has_products for kind in ("mul", "lift")
}
_BY_NAME = {row.name: row for row in _ROWS}
# The derivative of such a product by t.
_PRODUCT_SLOPES: dict[str, Callable[[Node, Node], Node]] = {
    "exp": lambda r, t: _f("mul_exp", r, t),
    "sigmoid": lambda r, t: _f("mul_logistic_density", r, t),
    "logistic_density": lambda r, t: -_f("mul_logistic_density", r, t) * _f("tanh", t / 2),
    "dswish": lambda r, t: _f("mul_logistic_density", r * (2 - t * _f("tanh", t / 2)), t),
    "sech": lambda r, t: -_f("mul_sech", r, t) * _f("tanh", t),
    "erfc": lambda r, t: -_TWO_OVER_SQRT_PI * _f("mul_exp", r, -(t**2)),
    "ndtr": lambda r, t: _NORMAL * _f("mul_exp", r, -(t**2) / 2),
    "dgelu": lambda r, t: _NORMAL * _f("mul_exp", r * (2 - t**2), -(t**2) / 2),
}
# What products are off by; those not named by one rounding more than the function
_PRODUCT_ULPS = {"mul_ndtr": 2.4, "lift_ndtr": 1.6, "mul_dgelu": 3.2, "lift_dgelu": 2.3}
_PRODUCT_ULPS |= {"mul_logistic_density": 2.7, "lift_logistic_density": 2.7}
ONE_ROUNDING = 0.8
_PRODUCTS = [
    _row(
        name,
        lambda y, r, t, of=of: (_f(of, t), _PRODUCT_SLOPES[of](r, t)),
        exact=lambda r, t, f=_BY_NAME[of].mpmath: r * f(t),
        arity=2,
        ulps=_PRODUCT_ULPS.get(name, _BY_NAME[of].ulps + ONE_ROUNDING),
        double_ulps=_PRODUCT_ULPS.get(name, _BY_NAME[of].double_ulps + ONE_ROUNDING),
    )
    for name, of in PRODUCTS.items()
]

PRIMITIVES: dict[str, Primitive] = _BY_NAME | {row.name: row for row in _PRODUCTS}
BY_SYMPY: dict[type, Primitive] = {row.sympy: row for row in _ROWS if row.sympy is not None}

# Functions that are written in terms of others: each a SymPy function and its definition on nodes.
DEFINITIONS: dict[type, Callable[..., Node]] = {
    sympy.cot: lambda x: 1 / _f("tan", x),
    sympy.sec: lambda x: 1 / _f("cos", x),
    sympy.csc: lambda x: 1 / _f("sin", x),
    sympy.asec: lambda x: _f("acos", 1 / x),
    sympy.acsc: lambda x: _f("asin", 1 / x),
    sympy.coth: lambda x: 1 / _f("tanh", x),
    sympy.acoth: lambda x: _f("atanh", 1 / x),
    sympy.frac: lambda x: x - _f("floor", x),
    cfunctions.Sqrt: _sqrt,
    cfunctions.Cbrt: lambda x: _f("cbrt", x),
    cfunctions.fma: lambda x, y, z: x * y + z,
}
