"""Texts of what functions lack of their exact values, for compensated arithmetic; see `special` for the conventions.

All are made of one series: exp(x) with some 80 bits, as a number and what it lacks, in the arithmetic of Dekker (A
Floating-Point Technique for Extending the Available Precision, 1971). A function with an inverse lacks what that tells,
by one step of Newton's method. They compute in double, whatever the type. Where a result is no number nothing is known
of what it lacks, which is given as 0.
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

C["twofold"] = """\
/* A number and what it lacks. */
typedef struct { double high, low; } twofold;


FN twofold twofold_of(double high, double low) {
    const twofold found = {high, low};
    return found;
}


FN twofold twofold_sum(double a, double b) {
    const double sum = a + b, part = sum - a;
    return twofold_of(sum, (a - (sum - part)) + (b - part));
}


FN twofold twofold_product(double a, double b) {
    const double product = a * b;
    return twofold_of(product, fma(a, b, -product));
}


/* a + b * c */
FN twofold twofold_fma(double a, twofold b, twofold c) {
    const twofold product = twofold_product(b.high, c.high), sum = twofold_sum(a, product.high);
    return twofold_sum(sum.high, sum.low + (product.low + (b.high * c.low + b.low * c.high)));
}


/* What is known of an error. */
FN double known_error(double error) { return error - error == 0 ? error : 0; }
"""
TORCH["twofold"] = '''\
def twofold_sum(a: Tensor, b: Tensor | float) -> tuple[Tensor, Tensor]:
    """a + b, and what that lacks."""
    sum = a + b
    part = sum - a
    return sum, (a - (sum - part)) + (b - part)


def twofold_fma(a: float, b: tuple[Tensor, Tensor], c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """a + b * c, of numbers and what they lack."""
    product = b[0] * c[0]
    sum, low = twofold_sum(product, a)
    return twofold_sum(sum, low + (product_error(b[0], c[0], product) + (b[0] * c[1] + b[1] * c[0])))


def twofold_one(x: Tensor) -> tuple[Tensor, Tensor]:
    """1 for every element of x."""
    return torch.ones_like(x, dtype=torch.float64), torch.zeros_like(x, dtype=torch.float64)


def known_error(error: Tensor, dtype: torch.dtype) -> Tensor:
    """What is known of an error."""
    return torch.where(error.isfinite(), error, 0.0).to(dtype)
'''
NEEDS["twofold"] = ("product_error",)

C["twofold_exp"] = """\
/* (1 + m) 2^n; n in two parts, for 2^n may be no number. */
typedef struct { twofold m; double first, second; } twofold_power;


/* 2^n */
FN double power_of_two(double n) { return gg_double_of(gg_bits_of_double(n + (0x1.8p52 + 1023)) << 52); }


/* exp(x + more), NaN from |x| = 1400 on: by the series of a sixteenth of x - n ln(2), and (1 + m)^2 = 1 + m (2 + m). */
FN twofold_power twofold_exp(double x, double more) {
    const double within = fabs(x) < 1400 ? x : (double)NAN;
    const double n = rint(within * 1.4426950408889634), half = floor(n / 2);
    const twofold digits = twofold_product(n, -1.9082149292705877e-10);
    const twofold r = twofold_sum(fma(n, -0.6931471803691238, within), digits.high);
    const twofold all = twofold_sum(r.high, r.low + (digits.low + (more - n * 1.1612227229362532e-26)));
    const twofold t = twofold_of(all.high / 16, all.low / 16);
    const double u = t.high;
    const double q = u * (1. / 120 + u * (1. / 720 + u * (1. / 5040 + u * (1. / 40320 + u * (1. / 362880
        + u * (1. / 3628800 + u * (1. / 39916800 + u / 479001600)))))));
    twofold m = twofold_sum(1. / 24, q);
    m = twofold_fma(1. / 6, twofold_of(m.high, m.low + 2.3129646346357427e-18), t);
    m = twofold_fma(0.5, twofold_of(m.high, m.low + 9.25185853854297e-18), t);
    m = twofold_fma(0, twofold_fma(1, m, t), t);
    for (int k = 0; k < 4; k++)
        m = twofold_fma(0, twofold_fma(2, m, twofold_of(1, 0)), m);
    const twofold_power power = {m, power_of_two(half), power_of_two(n - half)};
    return power;
}


/* exp(x + more) + c for a c of 0 or -1, where 2^n is a number. */
FN twofold twofold_exp_plus(double x, double more, double c) {
    const twofold_power p = twofold_exp(x, more);
    const double scale = p.first * p.second;
    const twofold one = twofold_sum(scale, c), sum = twofold_sum(one.high, scale * p.m.high);
    return twofold_sum(sum.high, one.low + (sum.low + scale * p.m.low));
}
"""
TORCH["twofold_exp"] = '''\
def twofold_exp(x: Tensor, more: Tensor | float = 0.0) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """m, with what it lacks, and two factors of 2**n, where exp(x + more) = (1 + m) 2**n; NaN beyond |x| = 1400.

    By the series of a sixteenth of x - n ln(2), and (1 + m)**2 = 1 + m (2 + m).
    """
    within = torch.where(torch.abs(x) < 1400, x, math.nan)
    n = torch.round(within * 1.4426950408889634)
    half = torch.floor(n / 2)
    ln2_low = torch.full_like(n, -1.9082149292705877e-10)
    digits = n * ln2_low
    r, low = twofold_sum(within - n * 0.6931471803691238, digits)
    r, low = twofold_sum(r, low + (product_error(n, ln2_low, digits) + (more - n * 1.1612227229362532e-26)))
    t = r / 16, low / 16
    q = 1 / 39916800 + t[0] / 479001600
    for factorial in (3628800, 362880, 40320, 5040, 720, 120):
        q = 1 / factorial + t[0] * q
    m, low = twofold_sum(t[0] * q, 1 / 24)
    m, low = twofold_fma(1 / 6, (m, low + 2.3129646346357427e-18), t)
    found = twofold_fma(0.0, twofold_fma(1.0, twofold_fma(0.5, (m, low + 9.25185853854297e-18), t), t), t)
    for _ in range(4):
        found = twofold_fma(0.0, twofold_fma(2.0, found, twofold_one(x)), found)
    return found, torch.exp2(half), torch.exp2(n - half)


def twofold_exp_plus(x: Tensor, more: Tensor | float, c: float) -> tuple[Tensor, Tensor]:
    """exp(x + more) + c, and what that lacks, for a c of 0 or -1, where 2**n is a number."""
    (m, rest), first, second = twofold_exp(x, more)
    scale = first * second
    one, lost = twofold_sum(scale, c)
    sum, low = twofold_sum(one, scale * m)
    return twofold_sum(sum, lost + (low + scale * rest))
'''
NEEDS["twofold_exp"] = ("product_error", "twofold")
_ALL = ("product_error", "twofold", "twofold_exp")

C["mul_exp_error"] = """\
/* What y, computed as r * exp(t), lacks. */
FN real mul_exp_error(real r, real t, real y) {
    const twofold_power p = twofold_exp(t, 0);
    const twofold product = twofold_product(r, p.m.high);
    const double gap = ((r - y / p.first / p.second) + product.high) + (product.low + r * p.m.low);
    return known_error(gap * p.first * p.second);
}
"""
TORCH["mul_exp_error"] = '''\
def mul_exp_error(r: Tensor, t: Tensor, y: Tensor) -> Tensor:
    """What y, computed as r * exp(t), lacks."""
    dtype, r, y = y.dtype, r.double(), y.double()
    (m, rest), first, second = twofold_exp(t.double())
    product = r * m
    gap = ((r - y / first / second) + product) + (product_error(r, m, product) + r * rest)
    return known_error(gap * first * second, dtype)
'''
NEEDS["mul_exp_error"] = _ALL

C["expm1_error"] = """\
/* What y, computed as exp(x) - 1, lacks. */
FN real expm1_error(real x, real y) {
    const twofold_power p = twofold_exp(x, 0);
    const twofold above = twofold_sum(1, y);
    const twofold sum = twofold_sum(1 - above.high / p.first / p.second, p.m.high);
    return known_error(((sum.high - above.low / p.first / p.second) + (sum.low + p.m.low)) * p.first * p.second);
}
"""
TORCH["expm1_error"] = '''\
def expm1_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as exp(x) - 1, lacks."""
    (m, rest), first, second = twofold_exp(x.double())
    above, low = twofold_sum(y.double(), 1.0)
    sum, lost = twofold_sum(1 - above / first / second, m)
    return known_error(((sum - low / first / second) + (lost + rest)) * first * second, y.dtype)
'''
NEEDS["expm1_error"] = _ALL

C["log_less"] = """\
/* log(a) - y for a y that is next to it: log(1 + d) with d = a exp(-y) - 1. */
FN double log_less(twofold a, double y) {
    const twofold_power p = twofold_exp(-y, 0);
    const double high = a.high * p.first * p.second, low = a.low * p.first * p.second;
    const twofold product = twofold_product(high, p.m.high), sum = twofold_sum(high - 1, product.high);
    const double d = (sum.high + low) + (sum.low + (product.low + (high * p.m.low + low * p.m.high)));
    return d - d * d / 2;
}
"""
TORCH["log_less"] = '''\
def log_less(a: Tensor, more: Tensor, y: Tensor) -> Tensor:
    """log(a + more) - y for a y that is next to it: log(1 + d) with d = (a + more) exp(-y) - 1."""
    (m, rest), first, second = twofold_exp(-y)
    high, low = a * first * second, more * first * second
    product = high * m
    sum, lost = twofold_sum(high - 1, product)
    d = (sum + low) + (lost + (product_error(high, m, product) + (high * rest + low * m)))
    return d - d * d / 2
'''
NEEDS["log_less"] = _ALL

C["log_error"] = """\
/* What y, computed as log(x), lacks. */
FN real log_error(real x, real y) { return known_error(log_less(twofold_of(x, 0), y)); }
"""
TORCH["log_error"] = '''\
def log_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as log(x), lacks."""
    return known_error(log_less(x.double(), torch.zeros_like(x.double()), y.double()), y.dtype)
'''
C["log1p_error"] = """\
/* What y, computed as log(1 + x), lacks. */
FN real log1p_error(real x, real y) { return known_error(log_less(twofold_sum(1, x), y)); }
"""
TORCH["log1p_error"] = '''\
def log1p_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as log(1 + x), lacks."""
    return known_error(log_less(*twofold_sum(x.double(), 1.0), y.double()), y.dtype)
'''
NEEDS["log_error"] = NEEDS["log1p_error"] = (*_ALL, "log_less")

C["softplus_error"] = """\
/* What y, computed as log(1 + exp(x)), lacks: log(1 + e) - (y - max(x, 0)), with e = exp(-|x|). */
FN real softplus_error(real x, real y) {
    const twofold rest = twofold_sum(x > 0 ? x : 0, -(double)y), e = twofold_exp_plus(-fabs(x), 0, 0);
    const twofold m = twofold_exp_plus(rest.high, rest.low, -1);
    const twofold product = twofold_product(e.high, m.high), sum = twofold_sum(e.high, m.high);
    const double low = product.low + (e.low + m.low + (e.high * m.low + e.low * m.high));
    const double d = (sum.high + product.high) + (sum.low + low);
    return known_error(d - d * d / 2);
}
"""
TORCH["softplus_error"] = '''\
def softplus_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as log(1 + exp(x)), lacks: log(1 + e) - (y - max(x, 0)), with e = exp(-|x|)."""
    over = torch.clamp(x.double(), min=0)
    e, e_low = twofold_exp_plus(-torch.abs(x.double()), 0.0, 0.0)
    m, m_low = twofold_exp_plus(*twofold_sum(over, -y.double()), -1.0)
    product = e * m
    sum, lost = twofold_sum(e, m)
    low = product_error(e, m, product) + (e_low + m_low + (e * m_low + e_low * m))
    d = (sum + product) + (lost + low)
    return known_error(d - d * d / 2, y.dtype)
'''

NEEDS["softplus_error"] = _ALL

C["quotient_less"] = """\
/* r top / bottom - y for a y that is next to it, and what is known of that. */
FN double quotient_less(double r, twofold top, twofold bottom, double y) {
    const twofold a = twofold_product(r, top.high), b = twofold_product(y, bottom.high);
    return known_error(((a.high - b.high) + ((a.low + r * top.low) - (b.low + y * bottom.low))) / bottom.high);
}
"""
TORCH["quotient_less"] = '''\
def quotient_less(r: Tensor, top: tuple[Tensor, Tensor], bottom: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    """r top / bottom - y for a y that is next to it, and what is known of that."""
    dtype, r, y = y.dtype, r.double(), y.double()
    a, b = r * top[0], y * bottom[0]
    a_low, b_low = product_error(r, top[0], a) + r * top[1], product_error(y, bottom[0], b) + y * bottom[1]
    return known_error(((a - b) + (a_low - b_low)) / bottom[0], dtype)
'''
NEEDS["quotient_less"] = _ALL

C["mul_sigmoid_error"] = """\
/* What y, computed as r / (1 + exp(-t)), lacks. */
FN real mul_sigmoid_error(real r, real t, real y) {
    const twofold one = twofold_of(1, 0), e = twofold_exp_plus(-fabs(t), 0, 0);
    return quotient_less(r, t < 0 ? e : one, twofold_fma(1, e, one), y);
}
"""
TORCH["mul_sigmoid_error"] = '''\
def mul_sigmoid_error(r: Tensor, t: Tensor, y: Tensor) -> Tensor:
    """What y, computed as r / (1 + exp(-t)), lacks."""
    one, e = twofold_one(t), twofold_exp_plus(-torch.abs(t.double()), 0.0, 0.0)
    top = torch.where(t < 0, e[0], 1.0), torch.where(t < 0, e[1], 0.0)
    return quotient_less(r, top, twofold_fma(1.0, e, one), y)
'''
NEEDS["mul_sigmoid_error"] = (*_ALL, "quotient_less")

C["mul_logistic_density_error"] = """\
/* What y, computed as r exp(t) / (1 + exp(t))^2, lacks. */
FN real mul_logistic_density_error(real r, real t, real y) {
    const twofold one = twofold_of(1, 0), e = twofold_exp_plus(-fabs(t), 0, 0), above = twofold_fma(1, e, one);
    return quotient_less(r, e, twofold_fma(0, above, above), y);
}
"""
TORCH["mul_logistic_density_error"] = '''\
def mul_logistic_density_error(r: Tensor, t: Tensor, y: Tensor) -> Tensor:
    """What y, computed as r exp(t) / (1 + exp(t))**2, lacks."""
    e = twofold_exp_plus(-torch.abs(t.double()), 0.0, 0.0)
    above = twofold_fma(1.0, e, twofold_one(t))
    return quotient_less(r, e, twofold_fma(0.0, above, above), y)
'''
NEEDS["mul_logistic_density_error"] = (*_ALL, "quotient_less")

C["mul_sech_error"] = """\
/* What y, computed as 2 r / (exp(t) + exp(-t)), lacks. */
FN real mul_sech_error(real r, real t, real y) {
    const twofold e = twofold_exp_plus(-fabs(t), 0, 0);
    return quotient_less(2 * (double)r, e, twofold_fma(1, e, e), y);
}
"""
TORCH["mul_sech_error"] = '''\
def mul_sech_error(r: Tensor, t: Tensor, y: Tensor) -> Tensor:
    """What y, computed as 2 r / (exp(t) + exp(-t)), lacks."""
    e = twofold_exp_plus(-torch.abs(t.double()), 0.0, 0.0)
    return quotient_less(2 * r, e, twofold_fma(1.0, e, e), y)
'''
NEEDS["mul_sech_error"] = (*_ALL, "quotient_less")

C["sinh_error"] = """\
/* What y, computed as (exp(x) - exp(-x))/2, lacks. */
FN real sinh_error(real x, real y) {
    const twofold one = twofold_of(1, 0), f = twofold_exp_plus(fabs(x), 0, -1), above = twofold_fma(1, f, one);
    return quotient_less(copysign(0.5, x), twofold_fma(0, f, twofold_fma(1, above, one)), above, y);
}
"""
TORCH["sinh_error"] = '''\
def sinh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as (exp(x) - exp(-x))/2, lacks."""
    one, f = twofold_one(x), twofold_exp_plus(torch.abs(x.double()), 0.0, -1.0)
    above = twofold_fma(1.0, f, one)
    half = torch.copysign(torch.full_like(one[0], 0.5), x)
    return quotient_less(half, twofold_fma(0.0, f, twofold_fma(1.0, above, one)), above, y)
'''
NEEDS["sinh_error"] = (*_ALL, "quotient_less")

C["cosh_error"] = """\
/* What y, computed as (exp(x) + exp(-x))/2, lacks. */
FN real cosh_error(real x, real y) {
    const twofold e = twofold_exp_plus(fabs(x), 0, 0);
    return quotient_less(0.5, twofold_fma(1, e, e), e, y);
}
"""
TORCH["cosh_error"] = '''\
def cosh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as (exp(x) + exp(-x))/2, lacks."""
    e = twofold_exp_plus(torch.abs(x.double()), 0.0, 0.0)
    return quotient_less(torch.full_like(x, 0.5), twofold_fma(1.0, e, e), e, y)
'''
NEEDS["cosh_error"] = (*_ALL, "quotient_less")

C["tanh_less"] = """\
/* tanh(x) - y for a y that is next to it. */
FN double tanh_less(double x, double y) {
    const twofold one = twofold_of(1, 0), f = twofold_exp_plus(-2 * fabs(x), 0, -1);
    return quotient_less(x < 0 ? 1 : -1, f, twofold_fma(2, f, one), y);
}
"""
TORCH["tanh_less"] = '''\
def tanh_less(x: Tensor, y: Tensor) -> Tensor:
    """tanh(x) - y for a y that is next to it."""
    f = twofold_exp_plus(-2 * torch.abs(x.double()), 0.0, -1.0)
    return quotient_less(torch.where(x < 0, 1.0, -1.0), f, twofold_fma(2.0, f, twofold_one(x)), y)
'''
NEEDS["tanh_less"] = (*_ALL, "quotient_less")

C["tanh_error"] = """\
/* What y, computed as tanh(x), lacks. */
FN real tanh_error(real x, real y) { return tanh_less(x, y); }
"""
TORCH["tanh_error"] = '''\
def tanh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as tanh(x), lacks."""
    return tanh_less(x, y)
'''

C["atanh_error"] = """\
/* What y, computed as atanh(x), lacks. */
FN real atanh_error(real x, real y) { return known_error(-tanh_less(y, x) / ((1 - x) * (1 + x))); }
"""
TORCH["atanh_error"] = '''\
def atanh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as atanh(x), lacks."""
    return known_error(-tanh_less(y, x) / ((1 - x) * (1 + x)), y.dtype)
'''
NEEDS["tanh_error"] = NEEDS["atanh_error"] = (*_ALL, "quotient_less", "tanh_less")

# Those of functions that are products with 1
for _name in ("exp", "sigmoid", "logistic_density", "sech"):
    NEEDS[f"{_name}_error"] = (*NEEDS[f"mul_{_name}_error"], f"mul_{_name}_error")
    C[f"{_name}_error"] = f"""\
/* What y, computed as {_name}(x), lacks. */
FN real {_name}_error(real x, real y) {{ return mul_{_name}_error(1, x, y); }}
"""
    TORCH[f"{_name}_error"] = f'''\
def {_name}_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as {_name}(x), lacks."""
    return mul_{_name}_error(torch.ones_like(x), x, y)
'''

ERRORS: dict[str, str] = {name.removesuffix("_error"): name for name in C if name.endswith("_error")}
ERRORS |= {f"lift_{name}": f"mul_{name}_error" for name in ("exp", "sigmoid", "logistic_density", "sech")}
