"""The table of rewrite rules: an identity a row, each with the reason it is there.

A pattern is written in terms of `t`, `u`, `v`, `w` (any expression) and `a`, `b` (any number). A pattern that is a sum
matches inside a longer sum and up to a common factor; one that is a product matches inside a longer product, a power of
it as often as it is there. A factor v that is not there is 1, as are a and b in a sum: sin(v*u)/u is sin(u)/u, too.
And u may be -x: exp(u)*sigmoid(-u) is exp(-x)*sigmoid(x), too.

`tests/test_rules.py` proves every identity, and `tests/rule_examples.py` has a formula for each that it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sympy import Expr, pi, sqrt


@dataclass(frozen=True)
class Rule:
    """An identity: `pattern` becomes `replacement` because of `why`, where `condition` on the numbers a, b holds.

    One that is `tried` is better in some formulas and worse in others: `choose` measures whether. What `varies` names
    must not be made of hyper-parameters alone, what `symbolic` names be no number, and what `separate` names have no
    input in common. The name of one that takes the `whole` sum, or product, stands for all other terms, or factors.
    """

    pattern: str
    replacement: str
    why: str
    condition: Callable[..., bool] | None = None
    tried: bool = False
    varies: str = ""
    symbolic: str = ""
    separate: str = ""
    whole: bool = False


def _same_sign(a: Expr, b: Expr) -> bool:
    return bool((a / b).is_positive)


def _positive(a: Expr) -> bool:
    return bool(a.is_positive)


def _is_multiple_of_pi(a: Expr) -> bool:
    return bool((a / pi).is_Rational)


def _is_reciprocal_or_high(a: Expr) -> bool:
    """Whether a power is not one of those that a polynomial in an exponential has, which is computed once."""
    return bool(a.is_negative or a > 16 or not a.is_integer)


def _are_positive(a: Expr, b: Expr) -> bool:
    return bool(a.is_positive and b.is_positive)


def _is_negative_coefficient(a: Expr, b: Expr) -> bool:
    """Whether a root is taken of what is positive for a negative coefficient."""
    return bool(b.is_negative and not a.is_Integer)


def _is_no_half(a: Expr) -> bool:
    return not (2 * a).is_integer


def _is_irrational(a: Expr) -> bool:
    return bool(a.is_irrational and (a**2).is_rational)


def _is_root_of_2(a: Expr) -> bool:
    """Whether a number is a multiple of the square root of 2."""
    return bool((a * sqrt(2)).is_rational and not a.is_zero)


def _is_even(a: Expr) -> bool:
    return bool(a.is_even)


def _is_odd(a: Expr) -> bool:
    return bool(a.is_odd)


def _scales(a: Expr, b: Expr) -> bool:
    return bool(a.is_positive and b.is_number)


def _turns(a: Expr, b: Expr) -> bool:
    return bool(a.is_negative and b.is_number)


def _above(a: Expr, b: Expr) -> bool:
    return bool(a > b)


def _below(a: Expr, b: Expr) -> bool:
    return bool(a < b)


_ROUNDED = "the sum, or the product, is rounded, to the bound maybe"
_TAIL = "1 - f and 1 + f lose every digit where f nears its limit"
_HALF_TURNS = "pi*u is rounded, and of a large u no digit of the result is left"
_IRRATIONAL = "a is rounded, and its product with the root may exceed 1"
_SQUARES = "the squares overflow or vanish before the norm does"
GATE = "the terms cancel where they have opposite signs, and either has been rounded"
NEARLY_EQUAL = "a difference of numbers that are nearly equal"
QUOTIENT = "infinity over infinity where both overflow"
_POLES = "poles that cancel: infinity minus infinity at u = 0"
_SOFTPLUS_DIFFERENCE = (
    "where(lt(abs(u - v), 32), where(gt(u - v, 0), log1p(expm1(u - v)*sigmoid(v)), "
    "-log1p(expm1(v - u)*sigmoid(u))), softplus(u) - softplus(v))"
)
_REMOVABLE = "0/0 at u = 0, and in the derivative infinity minus infinity"
_PARAMETER = "0/0 where u, a parameter perhaps, is 0"
_POWER = "0/0 where v, a parameter perhaps, is 0"
_LARGE_POWER = "1 + u rounds a small u away, and a large power asks for it"
_OVERFLOW = "the exponential overflows long before the result"

RULES: tuple[Rule, ...] = (
    # Exponentials against one another
    Rule("log(v*exp(u))", "log(v) + u", _OVERFLOW),
    Rule("exp(log(u))", "u", "exact, and log of 0 is infinite"),
    Rule("exp(u)**a", "exp(a*u)", "one factor may overflow while the other vanishes", _is_reciprocal_or_high),
    Rule("exp(u)*exp(v)", "exp(u + v)", "one factor may overflow while the other vanishes"),
    Rule("damp(w, exp(u))*exp(v)", "damp(w, exp(u + v))", "one factor may overflow while the other vanishes"),
    Rule("damp(a, u)", "a*u", "a number is not 0"),
    Rule("u*damp(v, u**(v - 1))", "v*u**v", "one power, which another one may cancel"),
    Rule("exp(u) - 1", "expm1(u)", "near u = 0 only the difference is left"),
    Rule("v*exp(u) - v", "v*expm1(u)", "near u = 0 only the difference is left"),
    Rule("expm1(u) + 1", "exp(u)", "undoes expm1 where a sum brings the 1 back"),
    Rule("1/(a + b*exp(u))", "sigmoid(log(a/b) - u)/a", _OVERFLOW, _same_sign),
    Rule("exp(u)*sigmoid(-u)", "sigmoid(u)", _OVERFLOW),
    Rule("exp(u)*sigmoid(a - u)", "exp(a)*sigmoid(u - a)", _OVERFLOW),
    Rule("sigmoid(-u)**v*exp(v*u)", "sigmoid(u)**v", _OVERFLOW),
    *(Rule(f"exp({n}*u/2)*sqrt(1 + exp(u))**-{n}", f"sqrt(sigmoid(u))**{n}", _OVERFLOW) for n in (1, 3, 5)),
    Rule("exp(u)/(exp(u) + exp(v))", "sigmoid(u - v)", _OVERFLOW),
    Rule("exp(w)/(exp(w) + (exp(u) + exp(v)))", "sigmoid(w - logaddexp(u, v))", _OVERFLOW),
    Rule("exp(t)/(exp(t) + (exp(u) + (exp(v) + exp(w))))", "sigmoid(t - logaddexp(logaddexp(u, v), w))", _OVERFLOW),
    Rule("1/(1 + (exp(u) + exp(v)))", "sigmoid(-logaddexp(u, v))", _OVERFLOW),
    Rule("exp(u)*sigmoid(-logaddexp(u, v))", "sigmoid(u - softplus(v))", _OVERFLOW),
    Rule("expm1(u)*sigmoid(-u)", "tanh(u/2)", "a quotient of exponentials: infinity over infinity in the tail"),
    Rule("exp(u) - exp(-u)", "2*sinh(u)", "near u = 0 only the difference is left"),
    Rule("exp(u) + exp(-u)", "2*cosh(u)", "one function for the pair, so that a quotient can become tanh"),
    Rule("exp(u)/expm1(u)", "-1/expm1(-u)", "infinity over infinity in the tail"),
    Rule(
        "expm1(u)/expm1(v)",
        "where(gt(minimum(u, v), 0), exp(u - v)*(expm1(-u)/expm1(-v)), expm1(u)/expm1(v))",
        "infinity over infinity in the tail",
        tried=True,
    ),
    Rule("sigmoid(u) - sigmoid(-u)", "tanh(u/2)", "near u = 0 only the difference is left"),
    Rule("sigmoid(u) + sigmoid(-u)", "1", "exact, and two functions less"),
    Rule("log(cosh(u))", "logaddexp(u, -u) - log(2)", _OVERFLOW),
    Rule("log(sinh(u))", "log(-expm1(-2*u)) + u - log(2)", _OVERFLOW),
    Rule("log(2*sinh(u))", "log(-expm1(-2*u)) + u", _OVERFLOW),
    Rule("log(2*cosh(u))", "logaddexp(u, -u)", _OVERFLOW),
    Rule("sinh(u)*sech(u)", "tanh(u)", "infinity over infinity in the tail"),
    Rule("sinh(u)*csch(u)", "1", "infinity times 0 in the tail"),
    Rule("cosh(u)*csch(u)", "1/tanh(u)", "infinity over infinity in the tail"),
    Rule("1/cosh(u)", "sech(u)", "cosh overflows where its reciprocal is still a number"),
    Rule("1/sinh(u)", "csch(u)", "sinh overflows where its reciprocal is still a number"),
    # Circular functions
    Rule("sin(u)*cos(u)", "sin(2*u)/2", "one function, whose sum with 1 can become a square"),
    Rule("sin(a*u)", "sin_pi(a/pi*u)", _HALF_TURNS, _is_multiple_of_pi),
    Rule("cos(a*u)", "cos_pi(a/pi*u)", _HALF_TURNS, _is_multiple_of_pi),
    Rule("sinc(a*u)", "sinc_pi(a/pi*u)", _HALF_TURNS, _is_multiple_of_pi),
    Rule("sin_pi(v*u)/u", "v*pi*sinc_pi(v*u)", _REMOVABLE, varies="u"),
    Rule("cos_pi(sigmoid(u)/2)", "sin_pi(sigmoid(-u)/2)", _TAIL),
    # Quotients that are 0/0
    Rule("sin(v*u)/u", "v*sinc(v*u)", _REMOVABLE, varies="u"),
    Rule("sin(v*u)/sin(u)", "v*sinc(v*u)/sinc(u)", _REMOVABLE, tried=True),
    Rule("expm1(v*u)/u", "exprel(u, v)", _PARAMETER, varies="v"),
    Rule("log1p(v*u)/u", "logrel(u, v)", _PARAMETER, varies="v"),
    Rule("exprel(u, v)/v", "exprel(u*v, 1)", "0/0 at v = 0, too"),
    Rule("exprel(u, -v)/v", "-exprel(-u*v, 1)", "0/0 at v = 0, too"),
    Rule("logrel(u, v)/v", "logrel(u*v, 1)", "0/0 at v = 0, too"),
    Rule(
        "(maximum(1 + u, 0)**v - 1)/v",
        "where(lt(4*abs(v*log1p(u)), 5), exprel(v, log1p(u)), maximum(1 + u, 0)**v/v - 1/v)",
        _POWER,
    ),
    Rule("(u**v - 1)/v", "where(lt(4*abs(v*log(u)), 5), exprel(v, log(u)), u**v/v - 1/v)", _POWER),
    # Quotients that are 0/0 where two inputs meet
    *(
        Rule(
            f"({f}({u}) - {f}({v}))/({' - '.join(order)})",
            replacement.format(u=u, v=v, scale=scale, factor=f"{sign}{scale}"),
            "0/0 where u = v",
        )
        for f, replacement in (
            (
                "exp",
                "where(gt({u}, {v}), {factor}*exp({u})*exprel({scale}*(v - u), 1), "
                "{factor}*exp({v})*exprel({scale}*(u - v), 1))",
            ),
            (
                "sin",
                "where(lt(abs({u} - {v}), 8), {factor}*cos({u}/2 + {v}/2)*sinc({u}/2 - {v}/2), "
                "{factor}*sin({u})/({u} - {v}) - {factor}*sin({v})/({u} - {v}))",
            ),
            (
                "cos",
                "where(lt(abs({u} - {v}), 8), -{factor}*sin({u}/2 + {v}/2)*sinc({u}/2 - {v}/2), "
                "{factor}*cos({u})/({u} - {v}) - {factor}*cos({v})/({u} - {v}))",
            ),
        )
        for scale, u, v in (("1", "u", "v"), ("a", "a*u", "a*v"))
        for order, sign in ((("u", "v"), ""), (("v", "u"), "-"))
    ),
    # 1 - f and 1 + f
    Rule("1 - sigmoid(u)", "sigmoid(-u)", _TAIL),
    Rule("2*sigmoid(u) - 1", "tanh(u/2)", "near u = 0 only the difference is left"),
    Rule("1 - tanh(u)**2", "sech(u)**2", _TAIL),
    Rule("1 + tanh(u)", "2*sigmoid(2*u)", _TAIL),
    Rule("1 - tanh(u)", "2*sigmoid(-2*u)", _TAIL),
    Rule("1 - sqrt(pi)*(u*erfcx(u))", "sqrt(pi)*ierfcx(u)", "erfcx(u) nears 1/(sqrt(pi)*u)"),
    Rule("erfcx(u) - 2*(u*ierfcx(u))", "4*i2erfcx(u)", "2*u*ierfcx(u) nears erfcx(u)"),
    Rule(
        "erfc(-sqrt(2)/2*u)/2 + sqrt(2)/(2*sqrt(pi))*(u*exp(-u**2/2))",
        "dgelu(u)",
        "the terms cancel where u < 0, and most digits count where the sum is steepest",
        tried=True,
    ),
    Rule(
        "sigmoid(u) + u*logistic_density(u)",
        "dswish(u)",
        GATE,
        tried=True,
    ),
    Rule("sigmoid(-u) - u*logistic_density(u)", "dswish(-u)", GATE, tried=True),  # for the density is even
    Rule("sigmoid(u) + w*logistic_density(u)", "dgate(u, w)", GATE, tried=True),
    Rule("dgate(u, w) + v*logistic_density(u)", "dgate(u, v + w)", "one more such term"),
    Rule(
        "erfc(a*u)",
        "2*ndtr(-sqrt(2)*a*u)",
        "the argument is rounded, and its square tells how much counts",
        _is_root_of_2,
        tried=True,
    ),
    Rule("1 + erf(u)", "erfc(-u)", _TAIL),
    Rule("1 - erf(u)", "erfc(u)", _TAIL),
    Rule("2 - erfc(u)", "erfc(-u)", _TAIL),
    Rule("1 - erfc(u)", "erf(u)", "near u = 0 only the difference is left"),
    Rule("1 - cos(u)", "2*sin(u/2)**2", _TAIL),
    Rule("1 + cos(u)", "2*cos(u/2)**2", _TAIL),
    Rule("1 - cos_pi(u)", "2*sin_pi(u/2)**2", _TAIL),
    Rule("1 + cos_pi(u)", "2*cos_pi(u/2)**2", _TAIL),
    Rule("1 - u**2", "(1 - u)*(1 + u)", "u**2 is rounded before it is taken from 1"),
    Rule("u**2 + (1 - u)*(1 + u)", "1", "exact, where a difference of roots has become a quotient"),
    *(
        Rule(pattern, replacement, "where u is large, the difference of numbers nearly equal")
        for pattern, replacement in (
            ("1/(u + v) - u/(u + v)**2", "v/(u + v)**2"),
            ("t/(u + v) - t*u/(u + v)**2", "t*v/(u + v)**2"),  # whatever the factor is
        )
    ),
    # Logarithms of sums
    Rule("log(sigmoid(u))", "-softplus(-u)", "sigmoid underflows, its logarithm is about u"),
    Rule("log(sigmoid(u)/sigmoid(v))", "softplus(-v) - softplus(-u)", "both underflow, and their quotient overflows"),
    Rule("log(a + b*exp(u))", "softplus(u + log(b/a)) + log(a)", _OVERFLOW, lambda a, b: _positive(a) and _positive(b)),
    Rule("log1p(exp(u))", "softplus(u)", _OVERFLOW),
    Rule("log((1 + exp(u))*sigmoid(v))", "softplus(u) - softplus(-v)", _OVERFLOW),
    Rule("log1p(exp(u) + exp(v))", "logaddexp(softplus(u), v)", _OVERFLOW),
    Rule("log(a*exp(u) + b*exp(v))", "logaddexp(u + log(a), v + log(b))", _OVERFLOW, _are_positive),
    *(
        Rule(pattern.format(base), replacement.format(base), _OVERFLOW, condition)
        for base in (2, 10)
        for pattern, replacement, condition in (
            ("log{0}(v*exp(u))", "log{0}(v) + u/log({0})", None),
            ("log{0}(a + b*exp(u))", "(softplus(u + log(b/a)) + log(a))/log({0})", _are_positive),
            ("log{0}(a*exp(u) + b*exp(v))", "logaddexp(u + log(a), v + log(b))/log({0})", _are_positive),
        )
    ),
    Rule("log2(exp2(u) + exp2(v))", "logaddexp(log(2)*u, log(2)*v)/log(2)", _OVERFLOW),
    Rule("log(exp(u) - exp(v))", "u + log(-expm1(v - u))", _OVERFLOW),
    Rule("log(sigmoid(u) - sigmoid(v))", "log(-expm1(v - u)) - softplus(-u) - softplus(v)", _TAIL),
    Rule("log(exp(w) + (exp(u) + exp(v)))", "logaddexp(logaddexp(u, v), w)", _OVERFLOW),
    Rule(
        "log(exp(t) + (exp(u) + (exp(v) + exp(w))))",
        "logaddexp(logaddexp(u, v), logaddexp(t, w))",
        _OVERFLOW,
    ),
    Rule("u - logaddexp(u, v)", "-softplus(v - u)", "a difference of two large numbers"),
    Rule("u - logaddexp(logaddexp(u, v), w)", "-softplus(logaddexp(v, w) - u)", "a difference of two large numbers"),
    Rule("log(u**a)", "a*log(abs(u))", "the power overflows long before its logarithm", _is_even),
    Rule("log(u**a)", "a*log(u)", "the power overflows long before its logarithm", _is_odd),
    Rule("cbrt(u)**3", "u", "exact, and no power of what is rounded"),
    Rule("cbrt(u)**-3", "1/u", "exact, and no power of what is rounded"),
    Rule("sqrt(1/u)", "1/sqrt(u)", "the reciprocal overflows before its root does"),
    Rule(
        "v/sqrt(u*v)",
        "where(lt(u, 0), -sqrt(v/u), sqrt(v/u))",
        "0/0 where v is 0, and the product overflows before the root does",
        symbolic="u",
        separate="uv",
    ),
    Rule("log(sqrt(u))", "log(u)/2", "the root rounds what is near 1"),
    Rule("log(1 + u)", "log1p(u)", "1 + u rounds a small u away"),
    Rule("log1p(expm1(u))", "u", _OVERFLOW),
    *(
        Rule(pattern, replacement, "what is taken off within is only added again", symbolic="u")
        for pattern, replacement in (
            ("u + maximum(v, t - u)", "maximum(u + v, t)"),
            ("u + minimum(v, t - u)", "minimum(u + v, t)"),
            ("u + maximum(v, minimum(w, t - u))", "maximum(u + v, minimum(u + w, t))"),
            ("u + minimum(v, maximum(w, t - u))", "minimum(u + v, maximum(u + w, t))"),
        )
    ),
    Rule("maximum(u, 0) + softplus(-abs(u))", "softplus(u)", "the stable form, typed by hand, has a kink that is none"),
    Rule("u - softplus(u)", "-softplus(-u)", "a difference of two large numbers"),
    Rule("v*softplus(u/v) - u", "v*softplus(-u/v)", "a difference of two large numbers"),
    Rule("softplus(u) - v*u", "where(ge(u, 0), (1 - v)*u, -v*u) + softplus(-modulus(u))", "v may be 1 where u >> 0"),
    Rule(
        "softplus(v*u)/u",
        "where(ge(v*u, 0), v, 0) + softplus(-modulus(v*u))/u",
        "the product overflows before the quotient does",
        tried=True,
    ),
    *(
        Rule(pattern, replacement, "what is taken off within is only added again", tried=True)
        for pattern, replacement in (
            ("w + softplus(u - w)", "logaddexp(u, w)"),
            (
                "w + softplus(v*(u - w))/v",
                "where(ge(v*(u - w), 0), u, w) + softplus(-modulus(v*(u - w)))/v",
            ),
            (
                "w + v*softplus((u - w)/v)",
                "where(ge((u - w)/v, 0), u, w) + v*softplus(-modulus((u - w)/v))",
            ),
        )
    ),
    Rule(
        "softplus(a*u)",
        "a*(where(ge(u, 0), u, 0) + softplus(-modulus(a*u))/a)",
        "the product overflows before the result, divided by a, does",
        _positive,
        tried=True,
    ),
    Rule("softplus(u) - maximum(u, 0)", "softplus(-abs(u))", "a difference of two large numbers"),
    Rule("softplus(-u) - softplus(u)", "-u", "a difference of two large numbers"),
    Rule("sigmoid(u)*sigmoid(-v) - sigmoid(v)*sigmoid(-u)", "sigmoid(u) - sigmoid(v)", "a difference of more factors"),
    Rule("abs(u)*sign(u)", "u", "one number in place of two functions"),
    Rule("u*sign(u)", "abs(u)", "one function, so that a quotient can be put in lowest terms"),
    # Comparisons with what is no input itself
    *(Rule(f"{relation}(a + u, b)", f"{relation}(u, b - a)", _ROUNDED) for relation in ("gt", "ge", "lt", "le")),
    *(
        Rule(f"{relation}(a*u, b)", f"{after}(u, b/a)", _ROUNDED, condition)
        for relation, opposite in (("gt", "lt"), ("ge", "le"), ("lt", "gt"), ("le", "ge"))
        for after, condition in ((relation, _scales), (opposite, _turns))
    ),
    *(
        Rule(f"{relation}(u**2, v**2)", f"{relation}(abs(u), abs(v))", "both squares overflow, or vanish")
        for relation in ("gt", "ge", "lt", "le")
    ),
    Rule("gt(maximum(u, a), b)", "gt(u, b)", _ROUNDED, _below),
    Rule("gt(minimum(u, a), b)", "gt(u, b)", _ROUNDED, _above),
    Rule("lt(maximum(u, a), b)", "lt(u, b)", _ROUNDED, _below),
    Rule("lt(minimum(u, a), b)", "lt(u, b)", _ROUNDED, _above),
    # Inverse functions, written out
    Rule("log(u + hypot(1, u))", "asinh(u)", "for u < 0 only the difference is left"),
    Rule("log(u + sqrt(-(1 - u)*(1 + u)))", "acosh(u)", "the square overflows before the logarithm does"),
    Rule("acosh(1 + u)", "2*asinh(sqrt(u/2))", "1 + u rounds a small u away, and a large one has overflown"),
    Rule("acos(1 - u)", "where(lt(u, 1), 2*asin(sqrt(u/2)), pi/2 + asin(u - 1))", "1 - u rounds a small u away"),
    Rule("asin(a*sqrt(u))", "atan2(a*sqrt(u), sqrt(1 - a**2*u))", _IRRATIONAL, _is_irrational),
    Rule("acos(a*sqrt(u))", "atan2(sqrt(1 - a**2*u), a*sqrt(u))", _IRRATIONAL, _is_irrational),
    Rule("log((1 + u)/(1 - u))", "2*atanh(u)", "near u = 0 the quotient is rounded to 1"),
    Rule(
        "log((u + v)/(u - v))",
        "where(lt(2*abs(v), abs(u)), 2*atanh(v/u), log((u + v)/(u - v)))",
        "where v is small the quotient is rounded to 1",
        tried=True,
    ),
    Rule("atan(u) + pi/2", "atan2(1, -u)", "for u << 0 only the difference is left"),
    Rule("pi - atan2(1, u)", "atan2(1, -u)", "for u << 0 only the difference is left"),
    Rule("pi/2 - atan(u)", "atan2(1, u)", "for u >> 0 only the difference is left"),
    Rule("asin(tanh(u))", "2*atan(tanh(u/2))", "tanh nears 1, where asin loses half of its digits"),
    Rule("atanh(sin(u))", "sign(cos(u))*asinh(tan(u))", "the sine is rounded to 1 beside pi/2, where it is infinite"),
    Rule("sin(acos(u))", "sqrt((1 - u)*(1 + u))", "the sine of what is rounded near 0 or pi", tried=True),
    Rule("cos(asin(u))", "sqrt((1 - u)*(1 + u))", "the cosine of what is rounded near pi/2", tried=True),
    Rule("acos(tanh(u))", "2*atan(exp(-u))", "tanh nears 1, where acos loses half of its digits"),
    Rule("atan(sinh(u))", "2*atan(tanh(u/2))", "sinh overflows, and so does the derivative"),
    Rule("asin(unit(u, hypot(1, u)))", "atan(u)", "the quotient nears 1, where asin loses half of its digits"),
    # Norms
    Rule("sqrt(w**2 + (u**2 + v**2))", "hypot(hypot(u, v), w)", _SQUARES),
    Rule("sqrt(a*u**2 + b*v**2)", "hypot(sqrt(a)*u, sqrt(b)*v)", _SQUARES, _are_positive),
    Rule("(u**2 + v**2)**a", "hypot(u, v)**(2*a)", _SQUARES, _is_no_half),
    Rule("u**2*v**-2", "(u/v)**2", "the squares overflow or vanish before the quotient does"),
    Rule("u/hypot(u, v)", "unit(u, hypot(u, v))", "the direction of a vector has a limit at infinity and none at 0"),
    Rule(
        "unit(u, hypot(u, v))*unit(hypot(u, v), hypot(hypot(u, v), w))",
        "unit(u, hypot(hypot(u, v), w))",
        "a norm is divided by that is multiplied by",
        varies="w",  # else it belongs to a function of one norm
    ),
    Rule(
        "(1 - unit(u, hypot(u, v)))*(1 + unit(u, hypot(u, v)))",
        "unit(v, hypot(u, v))**2",
        "where v is small, a component of the direction nears 1",
    ),
    Rule(
        "sqrt(a + b*u**2)",
        "hypot(sqrt(a), sqrt(b)*u)",
        "the square overflows before the norm does",
        lambda a, b: _positive(a) and _positive(b),
    ),
    # Powers that nearly cancel, tried
    Rule("t*u**v + w*damp(v, u**(v - 1))", "u**(v - 1)*(t*u + v*w)", "two powers that nearly cancel", tried=True),
    *(
        Rule(
            pattern,
            f"where(gt({power}, 1), {other}, {pattern})",
            "the power overflows, and with it its square",
            tried=True,
        )
        for pattern, power, other in (
            ("(w + u**v)**-2*damp(v, u**(v - 1))", "u**v", "v*u**(-v - 1)*(1 + w*u**-v)**-2"),
            ("(w + u**v)**-2*u**v", "u**v", "u**-v*(1 + w*u**-v)**-2"),
            (
                "(w + (t/u)**v)**-2*damp(v, (t/u)**(v - 1))*t*u**-2",
                "(t/u)**v",
                "v*(u/t)**(v - 1)*(1 + w*(u/t)**v)**-2/t",
            ),
        )
    ),
    *(
        Rule(pattern, replacement, "the product, or quotient, overflows before its root does", tried=True)
        for pattern, replacement in (
            ("sqrt(u*v)", "where(ge(u*sign(v), 0), sqrt(abs(u))*sqrt(abs(v)), sqrt(u*v))"),
            ("sqrt(v/u)", "where(ge(u*sign(v), 0), sqrt(abs(v))/sqrt(abs(u)), sqrt(v/u))"),
        )
    ),
    # Quotients that are 0/0, tried
    Rule("expm1(u)/u", "exprel(u, 1)", "0/0 at u = 0, and in the derivatives the exponential overflows", tried=True),
    Rule("log1p(u)/u", "logrel(u, 1)", _REMOVABLE, tried=True),
    *(
        Rule(pattern, f"{sign}{replacement}", _OVERFLOW, tried=True)
        for patterns, replacement in (
            (
                ("log(expm1(u)/u)", "log(u/expm1(u))"),
                "where(gt(u, 0), u + log(exprel(-u, 1)), log(exprel(u, 1)))",
            ),
            (
                ("log(-expm1(-u)/u)", "log(-u/expm1(-u))"),
                "where(lt(u, 0), log(exprel(u, 1)) - u, log(exprel(-u, 1)))",
            ),
        )
        for pattern, sign in zip(patterns, ("", "-"), strict=True)
    ),
    Rule("1/tanh(u)", "langevin(u) + 1/u", _POLES, tried=True),
    Rule("v/tanh(u)", "v*langevin(u) + v/u", _POLES, tried=True, whole=True),
    # Differences, tried
    *(
        Rule(pattern, replacement, "a root of a quadratic equation that nears 0", tried=True, whole=True)
        for pattern, replacement in (
            ("v - sqrt(u)", "where(gt(v, 0), (v**2 - u)/(v + sqrt(u)), v - sqrt(u))"),
            ("v + sqrt(u)", "where(lt(v, 0), (v**2 - u)/(v - sqrt(u)), v + sqrt(u))"),
        )
    ),
    *(
        Rule(pattern, replacement, NEARLY_EQUAL, tried=True)
        for pattern, replacement in (
            ("sqrt(u) - sqrt(v)", "(u - v)/(sqrt(u) + sqrt(v))"),
            ("hypot(u, v) - sqrt(w)", "(u**2 + v**2 - w)/(hypot(u, v) + sqrt(w))"),
            ("hypot(u, v) - hypot(u, w)", "(v - w)*unit(v + w, hypot(u, v) + hypot(u, w))"),
            ("hypot(u, v) - abs(u)", "v*unit(v, hypot(u, v) + abs(u))"),
            (
                "unit(u, hypot(v, u)) - unit(w, hypot(v, w))",
                "where(gt(u*sign(w), 0), unit(v, hypot(v, u))*unit(v, hypot(v, w))*((u - w)/hypot(v, u))"
                "*unit(u + w, hypot(v, w))/(unit(u, hypot(v, u)) + unit(w, hypot(v, w))), "
                "unit(u, hypot(v, u)) - unit(w, hypot(v, w)))",
            ),
            (
                "unit(u, hypot(v, u)) - unit(u, hypot(w, u))",
                "unit(w - v, hypot(v, u) + hypot(w, u))*unit(w + v, hypot(v, u) + hypot(w, u))"
                "*(unit(u, hypot(v, u)) + unit(u, hypot(w, u)))",
            ),
            (
                "unit(u, hypot(v, u)) - u/sqrt(w)",
                "unit(u, hypot(v, u))*((w - u**2 - v**2)/sqrt(w))/(hypot(v, u) + sqrt(w))",
            ),
            (
                "unit(u, hypot(u, v)) - sign(u)",
                "-sign(u)*unit(v, hypot(u, v))*unit(v, hypot(u, v) + abs(u))",
            ),
            (
                "sqrt(a + exp(2*u)) - exp(u)",
                "where(gt(u, 0), a*exp(-u)/(1 + sqrt(1 + a*exp(-2*u))), sqrt(a + exp(2*u)) - exp(u))",
            ),
            *(
                (
                    f"sqrt({square}) - exp(u)",
                    "where(gt(u, 0), w/(1 + sqrt(1 + w*exp(-u))), w*exp(u/2)/(exp(u/2) + sqrt(exp(u) + w)))",
                )
                for square in ("exp(2*u) + w*exp(u)", "exp(u)*(exp(u) + w)")
            ),
            (
                "(sqrt(1 + w*exp(u)) - 1)*exp(-u)",
                "where(lt(u, 0), w/(1 + sqrt(1 + w*exp(u))), w*exp(-u/2)/(exp(-u/2) + sqrt(exp(-u) + w)))",
            ),
            (
                "1 + exp(u) - sqrt(exp(u)*(2 + exp(u)))",
                "where(gt(u, 0), exp(-u)/(1 + exp(-u) + sqrt(1 + 2*exp(-u))), "
                "1/(1 + exp(u) + exp(u/2)*sqrt(2 + exp(u))))",
            ),
            (
                "1 + v - sqrt(v*(2 + v))",
                "where(gt(v, 0), 1/(1 + v + sqrt(v)*sqrt(2 + v)), 1 + v - sqrt(v*(2 + v)))",
            ),
            ("sqrt(1 + u**4) - u**2", "1/(hypot(1, u**2) + u**2)"),
            ("1/sqrt(u) - 1/sqrt(v)", "(v - u)/(sqrt(u)*sqrt(v))/(sqrt(u) + sqrt(v))"),
            ("1/hypot(u, v) - 1/sqrt(w)", "(w - u**2 - v**2)/(hypot(u, v)*sqrt(w))/(hypot(u, v) + sqrt(w))"),
            (
                "1/hypot(u, v) - 1/hypot(u, w)",
                "(w - v)/hypot(u, v)/hypot(u, w)*unit(w + v, hypot(u, v) + hypot(u, w))",
            ),
            ("cbrt(u) - cbrt(v)", "(u - v)/(cbrt(u)**2 + cbrt(u)*cbrt(v) + cbrt(v)**2)"),
            (
                "cbrt(u)**-2 - cbrt(v)**-2",
                "(v - u)*(cbrt(u) + cbrt(v))*cbrt(u)**-2*cbrt(v)**-2/(cbrt(u)**2 + cbrt(u)*cbrt(v) + cbrt(v)**2)",
            ),
            ("sqrt(1 + u) - 1", "where(lt(abs(u), 3), u/(1 + sqrt(1 + u)), sqrt(1 + u) - 1)"),
            ("hypot(1, u) - 1", "where(lt(abs(u), 2), u*(u/(1 + hypot(1, u))), hypot(1, u) - 1)"),
            ("sqrt(u) - v", "where(gt(2*v, sqrt(u)), (u - v**2)/(sqrt(u) + v), sqrt(u) - v)"),
            ("sqrt(u) + v", "where(gt(-2*v, sqrt(u)), (u - v**2)/(sqrt(u) - v), sqrt(u) + v)"),
            ("hypot(u, v) - u", "where(gt(2*u, abs(v)), v*(v/(hypot(u, v) + u)), hypot(u, v) - u)"),
            ("1/(hypot(1, u) - u)", "where(gt(u, 0), hypot(1, u) + u, 1/(hypot(1, u) - u))"),
            ("1/(hypot(1, u) + u)", "where(lt(u, 0), hypot(1, u) - u, 1/(hypot(1, u) + u))"),
            ("hypot(u, v) + u", "where(gt(-2*u, abs(v)), v*(v/(hypot(u, v) - u)), hypot(u, v) + u)"),
            (
                "u + v - hypot(u, v)",
                "where(gt(u + v, 0), 2*u*unit(v, u + v + hypot(u, v)), u + v - hypot(u, v))",
            ),
            (
                "u + v + hypot(u, v)",
                "where(lt(u + v, 0), 2*u*unit(v, u + v - hypot(u, v)), u + v + hypot(u, v))",
            ),
            ("1 + u/sqrt(v)", "where(lt(u, 0), (v - u**2)/sqrt(v)/(sqrt(v) - u), 1 + u/sqrt(v))"),
            ("1 - u/sqrt(v)", "where(gt(u, 0), (v - u**2)/sqrt(v)/(sqrt(v) + u), 1 - u/sqrt(v))"),
            (
                "1 + unit(u, hypot(v, u))",
                "where(lt(u, 0), v/hypot(v, u)*(v/(hypot(v, u) - u)), 1 + unit(u, hypot(v, u)))",
            ),
            (
                "1 - unit(u, hypot(v, u))",
                "where(gt(u, 0), v/hypot(v, u)*(v/(hypot(v, u) + u)), 1 - unit(u, hypot(v, u)))",
            ),
            ("1 + sin(u)", "2*sin(u/2 + pi/4)**2"),
            ("1 - sin(u)", "2*cos(u/2 + pi/4)**2"),
            ("1 + sin_pi(u)", "2*cos_pi(u/2 - 1/4)**2"),
            ("1 - sin_pi(u)", "2*cos_pi(u/2 + 1/4)**2"),
            ("u**2 - v**2", "(u - v)*(u + v)"),
            ("u**2 + v**2 - 2*w*(u*v)", "(u - v)**2 + 2*(u*v)*(1 - w)"),
            ("1 + u**2 - 2*v*u", "(1 - u)**2 + 2*u*(1 - v)"),
            ("1/u - 1/v", "(v - u)/(u*v)"),
            ("(1 + u)**v - 1", "where(lt(abs(v*log1p(u)), 1), expm1(v*log1p(u)), (1 + u)**v - 1)"),
            ("u**v - 1", "where(lt(abs(v*log(u)), 1), expm1(v*log(u)), u**v - 1)"),
            (
                "maximum(1 + u, 0)**v - 1",
                "where(lt(abs(v*log1p(u)), 1), expm1(v*log1p(u)), maximum(1 + u, 0)**v - 1)",
            ),
            (
                "exp(u) - exp(v)",
                "where(gt(u - v, 0), -exp(u)*expm1(v - u), "
                "where(lt(u - v, 0), exp(v)*expm1(u - v), "
                "where(eq(u - v, 0), damp(u - v, exp(u/2 + v/2)), sign(u) - sign(v))))",  # with two derivatives
            ),
            ("cosh(u) - 1", "2*sinh(u/2)**2"),
            (
                "log(u) - log(v)",
                "where(lt(2*abs(u - v), v), log1p((u - v)/v), 2*log(sqrt(u)/sqrt(v)))",
            ),
            (
                "log1p(u) - log1p(v)",
                "where(lt(2*abs(u - v), 1 + v), log1p((u - v)/(1 + v)), 2*log(sqrt(1 + u)/sqrt(1 + v)))",
            ),
            *(
                (f"log1p(u**v) - v*log({u})", f"where(gt({u}, 1), log1p(u**-v), log1p(u**v) - v*log({u}))")
                for u in ("u", "abs(u)")
            ),
            ("log1p(u) - log(v)", "where(lt(abs(1 + u - v), v), log1p((1 + u - v)/v), log1p(u) - log(v))"),
            (
                "(1 + u)*log1p(u) - u*log(u)",
                "log1p(u) + u*where(gt(u, 1), log1p(1/u), log1p(u) - log(u))",
            ),
            (
                "(1 + 1/u)*log1p(1/u) + log(u)/u",
                "where(gt(u, 0), log1p(1/u) + log1p(u)/u, (1 + 1/u)*log1p(1/u) + log(u)/u)",
            ),
            ("log1p(1/u) + log(u)", "where(gt(u, 0), log1p(u), log1p(1/u) + log(u))"),
            (
                "sigmoid(u) - sigmoid(v)",
                "where(ge(u - v, 0), -expm1(v - u)*sigmoid(u)*sigmoid(-v), "
                "where(lt(u - v, 0), expm1(u - v)*sigmoid(v)*sigmoid(-u), sign(u) - sign(v)))",
            ),
            *(
                (
                    pattern,
                    "where(lt(sign(u - v)*sign(u + v), 0), "
                    "expm1(-abs(u - v))*expm1(-abs(u + v))*logistic_density(u)*sigmoid(abs(v))**2, "
                    "where(gt(sign(u - v)*sign(u + v), 0), "
                    "-expm1(-abs(u - v))*expm1(-abs(u + v))*logistic_density(v)*sigmoid(abs(u))**2, "
                    "exp(-abs(u)) - exp(-abs(v))))",
                )
                for pattern in (
                    "logistic_density(u) - logistic_density(v)",
                    "sigmoid(u)*sigmoid(-u) - sigmoid(v)*sigmoid(-v)",
                )
            ),
            (
                "tanh(u) - tanh(v)",
                "where(ge(u - v, 0), -2*expm1(2*(v - u))*sigmoid(2*u)*sigmoid(-2*v), "
                "where(lt(u - v, 0), 2*expm1(2*(u - v))*sigmoid(2*v)*sigmoid(-2*u), sign(u) - sign(v)))",
            ),
            (
                "erf(u) - erf(v)",
                "where(eq(u - v, 0), 2/sqrt(pi)*(u - v)*exp(-(u/2 + v/2)**2), where(gt(u + v, 1), erfc(v) - erfc(u), "
                "where(lt(u + v, -1), erfc(-u) - erfc(-v), erf(u) - erf(v))))",
            ),
            (
                "atan(u) - atan(v)",
                "atan2(where(gt(1/maximum(1, maximum(abs(u), abs(v))), 0), "
                "(u - v)/maximum(1, maximum(abs(u), abs(v))), "
                "unit(u, maximum(1, maximum(abs(u), abs(v)))) - unit(v, maximum(1, maximum(abs(u), abs(v))))), "
                "1/maximum(1, maximum(abs(u), abs(v))) + where(gt(abs(u), abs(v)), "
                "unit(u, maximum(1, maximum(abs(u), abs(v))))*v, u*unit(v, maximum(1, maximum(abs(u), abs(v))))))",
            ),
            ("abs(u) - abs(v)", "where(gt(u*sign(v), 0), sign(v)*(u - v), abs(u) - abs(v))"),
            (
                "asinh(u) - asinh(v)",
                "where(gt(minimum(unit(u, v), unit(v, u)), 0), "
                "asinh((u - v)/(hypot(1, v)/(1 + unit(v, u)) + hypot(1, u)/(1 + unit(u, v)))), asinh(u) - asinh(v))",
            ),
            ("sin(u) - sin(v)", "where(lt(abs(u - v), 8), 2*cos(u/2 + v/2)*sin(u/2 - v/2), sin(u) - sin(v))"),
            (
                "cos(u) - cos(v)",
                "where(lt(minimum(abs(u - v), abs(u + v)), 8), -2*sin(u/2 + v/2)*sin(u/2 - v/2), cos(u) - cos(v))",
            ),
            (
                "softplus(u)**2 - softplus(v)**2",
                f"(softplus(u) + softplus(v))*{_SOFTPLUS_DIFFERENCE}",
            ),
            ("atanh(1 - u)", "where(lt(abs(1 - u), 1/2), atanh(1 - u), log(2 - u)/2 - log(u)/2)"),
            ("tan(u) - sin(u)", "2*tan(u)*sin(u/2)**2"),
            (
                "sinh(u) - sinh(v)",
                "where(eq(u - v, 0), damp(u - v, cosh(u/2 + v/2)), "
                "where(eq(u, v), sign(u) - sign(v), 2*cosh(u/2 + v/2)*sinh(u/2 - v/2)))",
            ),
            ("cosh(u) - cosh(v)", "where(eq(abs(u), abs(v)), abs(u) - abs(v), 2*sinh(u/2 + v/2)*sinh(u/2 - v/2))"),
            ("softplus(u) - log(2)", "where(lt(u, 64), log1p(expm1(u)/2), softplus(u) - log(2))"),
            (
                "softplus(u) - softplus(v)",
                "where(lt(abs(u - v), 1), log1p(expm1(u - v)*sigmoid(v)), "
                "where(gt(minimum(u, v), 0), u - v + (softplus(-u) - softplus(-v)), softplus(u) - softplus(v)))",
            ),
            (
                "softplus(u) - softplus(v)",
                _SOFTPLUS_DIFFERENCE,
            ),
            (
                "softplus(u + v) - softplus(u - v) - v",
                "sign(u)*sign(v)*(minimum(modulus(u), modulus(v)) + log1p(expm1(-2*minimum(modulus(u), modulus(v)))"
                "*sigmoid(-modulus(modulus(u) - modulus(v)))))",
            ),
            (
                "(softplus(v*(u + w)) - softplus(v*(u - w)))/v - w",
                "sign(u)*sign(v)*sign(w)*(minimum(modulus(u), modulus(w)) + log1p(expm1(-2*modulus(v)*minimum("
                "modulus(u), modulus(w)))*sigmoid(-modulus(v)*modulus(modulus(u) - modulus(w))))/modulus(v))",
            ),
            (
                "v*exp(u) - w*expm1(u)",
                "where(eq(v, w), v, where(lt(u, -log(2)), w + (v - w)*exp(u), v + (v - w)*expm1(u)))",
            ),
            ("v*softplus(u) + w*softplus(-u)", "where(ge(u, 0), v*u, -w*u) + (v + w)*softplus(-modulus(u))"),
            ("erfc(u)", "erfcx(u)*exp(-u**2)"),
            (
                "1/erfcx(u) - sqrt(pi)*u",
                "where(gt(u, 0), sqrt(pi)*ierfcx(u)/erfcx(u), 1/erfcx(u) - sqrt(pi)*u)",
            ),
            ("bessel_i(a, u)", "bessel_ie(a, u)*exp(abs(u))"),
            ("log(u)", "log1p(u - 1)"),
            ("log(u)", "where(lt(2*abs(u - 1), 1), log1p(u - 1), log(u))"),
            ("logaddexp(u, -u)", "log(2) + log1p(2*sinh(u/2)**2)"),
        )
    ),
    *(
        Rule(
            f"u**{w} - v**{w}",
            f"where(lt(abs({w}*log(u/v)), 1), "
            f"v**{w}*expm1({w}*where(lt(2*abs(u - v), v), log1p((u - v)/v), log(u/v))), u**{w} - v**{w})",
            NEARLY_EQUAL,
            condition,
            tried=True,
            symbolic=symbolic,
        )
        for w, condition, symbolic in (("a", _is_no_half, ""), ("w", None, "w"))
    ),
    Rule(
        "ierfcx(u)*erfcx(u)**-2",
        "where(gt(u, 0), ierfcx(u)*erfcx(u)**-2, (1/(sqrt(pi)*erfcx(u)) - u)/erfcx(u))",
        QUOTIENT,
        tried=True,
    ),
    Rule(
        "exp(v*cos(u))/bessel_i(a, v)",
        "where(ge(v, 0), exp(-2*v*sin(u/2)**2), exp(2*v*cos(u/2)**2))/bessel_ie(a, v)",
        _OVERFLOW,
        tried=True,
    ),
    Rule("exp(u)/bessel_i(a, v)", "exp(u - abs(v))/bessel_ie(a, v)", _OVERFLOW, tried=True),
    Rule(
        "log(expm1(u))",
        "where(gt(u, 1), u + log1p(-exp(-u)), log(expm1(u)))",
        "the exponential overflows long before its logarithm",
        tried=True,
    ),
    Rule(
        "log(u) - log(v)",
        "where(gt(v, 0), log(u/v), log(u) - log(v))",
        "one logarithm, near 1 where the two are nearly equal",
        tried=True,
    ),
    Rule("log1p(v*exp(u))", "where(gt(u, 1), u + log(v + exp(-u)), log1p(v*exp(u)))", _OVERFLOW, tried=True),
    Rule(
        "log1p(v*exp(u)**2)",
        "where(gt(u, 1), 2*u + log(v + exp(-2*u)), log1p(v*exp(u)**2))",
        "the square overflows long before its logarithm",
        tried=True,
    ),
    Rule(
        "log1p(-u**v)",
        "where(lt(abs(v*log(u)), 1), log(-expm1(v*log(u))), log1p(-u**v))",
        "the power nears 1, from which it is taken",
        tried=True,
        symbolic="v",
    ),
    *(
        Rule(
            pattern,
            replacement,
            NEARLY_EQUAL,
            tried=True,
            whole=True,
            varies="u",
            symbolic="u",
        )
        for pattern, replacement in (
            (
                "v - hypot(u, w)",
                "where(gt(v, 0), (v - u)*unit(v + u, v + hypot(u, w)) - w*unit(w, v + hypot(u, w)), v - hypot(u, w))",
            ),
            (
                "v + hypot(u, w)",
                "where(lt(v, 0), w*unit(w, hypot(u, w) - v) - (v - u)*unit(v + u, hypot(u, w) - v), v + hypot(u, w))",
            ),
        )
    ),
    *(
        Rule("expm1(t*u)/expm1(v*u)", replacement, "0/0 at u = 0, and infinity over infinity in the tail", tried=True)
        for replacement in (
            "where(gt(minimum(t*u, v*u), 0), exp((t - v)*u)*(exprel(-t*u, 1)/exprel(-v*u, 1)), "
            "exprel(t*u, 1)/exprel(v*u, 1))*t/v",
            "where(lt(maximum(abs(t*u), abs(v*u)), 1), exprel(t*u, 1)/exprel(v*u, 1)*t/v, "
            "where(gt(minimum(t*u, v*u), 0), exp((t - v)*u)*(expm1(-t*u)/expm1(-v*u)), expm1(t*u)/expm1(v*u)))",
        )
    ),
    Rule(
        "log(t*exp(u) + w*exp(v))",
        "where(gt(minimum(t, w), 0), logaddexp(u + log(t), v + log(w)), log(t*exp(u) + w*exp(v)))",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "log(u*v)",
        "where(lt(abs(log(u*sign(v)) + log(abs(v))), 350), log(u*v), log(u*sign(v)) + log(abs(v)))",
        "the product overflows or vanishes long before its logarithm",
        tried=True,
    ),
    Rule(
        "log(u/v)",
        "where(lt(abs(log(u*sign(v)) - log(abs(v))), 350), log(u/v), log(u*sign(v)) - log(abs(v)))",
        "the quotient overflows or vanishes long before its logarithm",
        tried=True,
    ),
    Rule(
        "log(sigmoid(u) + sigmoid(-u)*exp(v))",
        "where(lt(maximum(u, v), -1), logaddexp(u, v) - softplus(u), "
        "where(gt(v, maximum(u, 1)), logaddexp(u, v) - softplus(u), log1p(expm1(v)*sigmoid(-u))))",
        "both terms vanish long before their logarithm is large",
        tried=True,
    ),
    Rule(
        "(-expm1(b*exp(u)))**a",
        "where(lt(u, 0), exp(a*u)*(-b*exprel(b*exp(u), 1))**a, (-expm1(b*exp(u)))**a)",
        "the exponential vanishes long before its root",
        _is_negative_coefficient,
        tried=True,
    ),
    *(
        Rule(pattern, replacement, "0/0 at u = 0", tried=True, varies="v", symbolic="v")
        for pattern, replacement in (
            ("u/expm1(u*v)", "1/(v*exprel(u*v, 1))"),
            ("u/expm1(u/v)", "v/exprel(u/v, 1)"),
        )
    ),
    Rule(
        "log(u/(u + v))",
        "where(lt(abs(v), abs(u)), -log1p(v/u), log(u/(u + v)))",
        "the quotient is rounded to 1 where v is small",
        tried=True,
    ),
    Rule(
        "u/(a + abs(u))",
        "unit(u, a + abs(u))",
        "what it is multiplied by makes it overflow before it is divided",
        _positive,
        tried=True,
    ),
    Rule("u**-2*v**-1", "u**-1*(u*v)**-1", "the square overflows where v is small", tried=True),
    Rule(
        "log(v*sinh(u))",
        "where(gt(abs(u), 1), abs(u) + log(v*sign(u)*(-expm1(-2*abs(u)))/2), log(v*sinh(u)))",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "log(-expm1(u))",
        "where(lt(u, -1), log1p(-exp(u)), log(-expm1(u)))",
        "expm1(u) nears -1 where u << 0",
        tried=True,
    ),
    Rule(
        "log(-expm1(-exp(u)))",
        "where(lt(u, 0), u + log(exprel(-exp(u), 1)), log1p(-exp(-exp(u))))",
        "the exponential vanishes long before its logarithm is large",
        tried=True,
    ),
    Rule(
        "exp(u)*softplus(v)",
        "where(lt(v, -1), exp(u + v)*logrel(exp(v), 1), exp(u)*softplus(v))",
        "infinity times 0 in the tail",
        tried=True,
    ),
    Rule(
        "log(softplus(u))",
        "where(lt(u, -1), u + log(logrel(exp(u), 1)), log(softplus(u)))",
        "softplus vanishes long before its logarithm is large",
        tried=True,
    ),
    Rule(
        "log(softplus(exp(u)))",
        "where(gt(u, 1), u + log1p(exp(-u)*softplus(-exp(u))), log(softplus(exp(u))))",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "softplus(u)**v",
        "where(lt(u, -1), exp(v*u)*logrel(exp(u), 1)**v, softplus(u)**v)",
        "softplus vanishes long before its root does, and its reciprocal overflows",
        tried=True,
    ),
    Rule(
        "asinh(v*exp(u))",
        "where(gt(u, 1), sign(v)*(u + log(abs(v) + sqrt(v**2 + exp(-2*u)))), asinh(v*exp(u)))",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "asinh(v*sinh(u))",
        "where(gt(abs(u), 1), sign(u)*sign(v)*(abs(u) + log(sqrt((v*expm1(-2*abs(u))/2)**2 + exp(-2*abs(u)))"
        " - abs(v)*expm1(-2*abs(u))/2)), asinh(v*sinh(u)))",
        _OVERFLOW,
        tried=True,
    ),
    Rule("sqrt(v*u**2)", "abs(u)*sqrt(v)", _SQUARES, tried=True),
    Rule("expm1(u)*exp(-u)", "-expm1(-u)", "infinity times 0 in the tail", tried=True),
    Rule(
        "exp(u)/expm1(exp(u))",
        "where(lt(u, 4), 1/exprel(exp(u), 1), exp(minimum(u, 64) - exp(minimum(u, 64))))",
        "infinity over infinity in the tail",
        tried=True,
    ),
    Rule(
        "log1p(v*expm1(u))",
        "where(gt(u, 1), u + log(v + (1 - v)*exp(-u)), log1p(v*expm1(u)))",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "logrel(v, expm1(u))",
        "where(gt(u, 1), (u + log(v + (1 - v)*exp(-u)))/v, logrel(v, expm1(u)))",
        _OVERFLOW,
        tried=True,
    ),
    *(
        Rule(pattern, replacement, "infinity times 0 in the tail", tried=True)
        for pattern, replacement in (
            ("cosh(u)*exp(v)", "mul_exp(1/2 + exp(-2*abs(u))/2, abs(u) + v)"),
            ("sinh(u)*exp(v)", "mul_exp(-sign(u)*expm1(-2*abs(u))/2, abs(u) + v)"),
            ("w*cosh(u)*exp(v)", "mul_exp(w*(1/2 + exp(-2*abs(u))/2), abs(u) + v)"),
            ("w*sinh(u)*exp(v)", "mul_exp(-w*sign(u)*expm1(-2*abs(u))/2, abs(u) + v)"),
        )
    ),
    Rule(
        "(1 + u)**v",
        "where(lt(abs(u), 1), exp(v*log1p(u)), (1 + u)**v)",
        _LARGE_POWER,
        tried=True,
        symbolic="v",
    ),
    Rule(
        "(1 + u)**(1/u)",
        "where(lt(abs(u), 1), exp(logrel(u, 1)), (1 + u)**(1/u))",
        _LARGE_POWER,
        tried=True,
    ),
    Rule(
        "log1p(u**v)",
        "where(gt(u, 1), v*log(u) + log1p(u**-v), log1p(u**v))",
        "the power overflows long before its logarithm does",
        tried=True,
    ),
    Rule(
        "log(u**2 + v**2)",
        "where(lt(abs(log(maximum(abs(u), abs(v)))), 300), log(u**2 + v**2), 2*log(hypot(u, v)))",
        _SQUARES,
        tried=True,
    ),
    Rule(
        "log1p(w*u**2)",
        "where(lt(w*u**2, oo), log1p(w*u**2), 2*log(abs(u)) + log(w) + log1p(1/(w*u**2)))",
        _SQUARES,
        tried=True,
    ),
    Rule(
        "u**2*log1p(u**-2)",
        "where(gt(abs(u), 1), logrel(u**-2, 1), u**2*(log1p(u**2) - 2*log(abs(u))))",
        _SQUARES,
        tried=True,
    ),
    Rule(
        "log1p(w*u**-2)",
        "where(lt(w*u**-2, oo), log1p(w*u**-2), log(w) - 2*log(abs(u)) + log1p(u**2/w))",
        _SQUARES,
        tried=True,
    ),
    Rule(
        "log1p(w*(u/v)**2)",
        "where(lt(w*(u/v)**2, oo), log1p(w*(u/v)**2), 2*log(abs(u)) - 2*log(abs(v)) + log(w) + log1p(1/(w*(u/v)**2)))",
        _SQUARES,
        tried=True,
    ),
    *(
        Rule(
            f"log(w*({pattern}))",
            "where(lt(w*(v + u*(u/v)), oo), log(w*(v + u*(u/v))), "
            "2*log(abs(u)) - log(abs(v)) + log(abs(w)) + log1p((v/u)**2))",
            _SQUARES,
            tried=True,
        )
        for pattern in ("v*(1 + (u/v)**2)", "(u**2 + v**2)/v")
    ),
    Rule(
        "log(abs(tanh(u)))",
        "where(gt(abs(u), 1), log1p(-2*sigmoid(-2*abs(u))), log(abs(tanh(u))))",
        "tanh(u) nears 1 or -1",
        tried=True,
    ),
    Rule(
        "log(tanh(u))",
        "where(gt(u, 1), log1p(-2*sigmoid(-2*u)), log(tanh(u)))",
        "tanh(u) nears 1",
        tried=True,
    ),
    Rule(
        "log(erfc(u))",
        "where(gt(u, 1), log(erfcx(u)) - u**2, log(erfc(u)))",
        "erfc vanishes long before its logarithm is large",
        tried=True,
    ),
    Rule(
        "log(erfc(u)/2)",
        "where(gt(u, 1), log(erfcx(u)/2) - u**2, where(lt(u, 0), log1p(-erfc(-u)/2), log(erfc(u)/2)))",
        "erfc vanishes on one side and nears 2 on the other",
        tried=True,
    ),
    Rule(
        "exp(t)*(1 + w*exp(u))**v",
        "where(gt(w, 0), exp(t + v*softplus(u + log(w))), exp(t)*(1 + w*exp(u))**v)",
        "the exponential overflows where the power vanishes",
        tried=True,
    ),
    Rule("exp(t)/sqrt(1 + exp(u))", "exp(t - softplus(u)/2)", _OVERFLOW, tried=True),
    Rule(
        "exp(t)*(sqrt(1 + exp(u)) - 1)",
        "where(gt(u, 0), exp(t + u/2)/(exp(-u/2) + sqrt(1 + exp(-u))), exp(t + u)/(1 + sqrt(1 + exp(u))))",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "v*(t*expm1(u) + w)",
        "where(gt(u, 64), v*t*exp(u) + v*(w - t), v*(t*expm1(u) + w))",
        "the exponential overflows before a divisor makes it small",
        tried=True,
        whole=True,
    ),
    Rule("cbrt(1 + exp(u))", "exp(softplus(u)/3)", _OVERFLOW, tried=True),
    Rule("(1 + exp(u))**v", "exp(v*softplus(u))", _OVERFLOW, tried=True),
    Rule("cbrt(exp(u) + exp(v))", "exp(logaddexp(u, v)/3)", _OVERFLOW, tried=True),
    Rule("cbrt(exp(u) + exp(v))**-2*exp(t)", "exp(t - 2*logaddexp(u, v)/3)", _OVERFLOW, tried=True),
    Rule("(exp(u) + exp(v))**w", "exp(w*logaddexp(u, v))", _OVERFLOW, tried=True),
    Rule(
        "(1 + w*exp(u))**v",
        "where(gt(w, 0), exp(v*softplus(u + log(w))), (1 + w*exp(u))**v)",
        _OVERFLOW,
        tried=True,
    ),
    Rule(
        "exp(u)*sigmoid(v)",
        "where(ge(v, 0), exp(u)*sigmoid(v), exp(u + v)*sigmoid(-v))",
        "an exponential that overflows beside one that vanishes",
        tried=True,
    ),
    Rule(
        "(t*exp(u) + w*exp(v))/(exp(u) + exp(v))",
        "t*sigmoid(u - v) + w*sigmoid(v - u)",
        _OVERFLOW,
        tried=True,
    ),
    Rule("sigmoid(u)**v", "exp(-v*softplus(-u))", "sigmoid vanishes long before its power does", tried=True),
)
