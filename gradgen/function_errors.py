"""Texts of what functions lack of their exact values, for compensated arithmetic; see `special` for the conventions.

All are made of three power series, of exp(x), sin(x) and cos(x), with some 75 bits: a number and what it lacks, in the
arithmetic of Dekker (A Floating-Point Technique for Extending the Available Precision, 1971). A function with an
inverse lacks what that tells, by one step of Newton's method. They compute in double, whatever the type. Where a result
is no number nothing is known of what it lacks, which is given as 0.
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


/* a + low + b * c, for an a that is larger than b * c. */
FN twofold twofold_next(double a, double low, twofold b, twofold c) {
    const twofold product = twofold_product(b.high, c.high);
    const double sum = a + product.high, lost = (a - sum) + product.high;
    return twofold_of(sum, lost + (low + product.low + (b.high * c.low + b.low * c.high)));
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


def twofold_next(a: float, low: float, b: tuple[Tensor, Tensor], c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """a + low + b * c, for an a that is larger than b * c."""
    product = b[0] * c[0]
    sum = a + product
    lost = (a - sum) + product
    return sum, lost + (low + product_error(b[0], c[0], product) + (b[0] * c[1] + b[1] * c[0]))


def twofold_series(
    w: tuple[Tensor, Tensor], coefficients: Sequence[tuple[float, float]], others: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """1 + w (c0 + w (c1 + ...)), of coefficients and what they lack, and then of others; each less than the last."""
    q = torch.full_like(w[0], others[-1])
    for c in others[-2::-1]:
        q = c + w[0] * q
    m = twofold_next(*coefficients[-1], (q, torch.zeros_like(q)), w)
    for c, lost in coefficients[-2::-1]:
        m = twofold_next(c, lost, m, w)
    return twofold_next(1.0, 0.0, m, w)


def twofold_one(x: Tensor) -> tuple[Tensor, Tensor]:
    """1 for every element of x."""
    return torch.ones_like(x, dtype=torch.float64), torch.zeros_like(x, dtype=torch.float64)


def known_error(error: Tensor, dtype: torch.dtype) -> Tensor:
    """What is known of an error."""
    return torch.where(error.isfinite(), error, 0.0).to(dtype)
'''
NEEDS["twofold"] = ("product_error",)

C["twofold_exp"] = """\
/* (1 + m) 2^(first + second), of which 2^(first + second) may be no number. */
typedef struct { twofold m; double first, second; } twofold_power;


FN double power_of_two(double n) { return gg_double_of(gg_bits_of_double(n + (0x1.8p52 + 1023)) << 52); }


FN double raised(double x, twofold_power p) { return x * power_of_two(p.first) * power_of_two(p.second); }


FN double lowered(double x, twofold_power p) { return x * power_of_two(-p.first) * power_of_two(-p.second); }


/* exp(x + more), NaN from |x| = 1400 on: by the power series of x - n ln(2). */
FN twofold_power twofold_exp(double x, double more) {
    const double within = fabs(x) < 1400 ? x : (double)NAN;
    const double n = rint(within * 1.4426950408889634), half = floor(n / 2);
    const twofold digits = twofold_product(n, -1.9082149292705877e-10);
    const twofold sum = twofold_sum(fma(n, -0.6931471803691238, within), digits.high);
    const twofold r = twofold_sum(sum.high, sum.low + (digits.low + (more - n * 1.1612227229362532e-26)));
    const double t = r.high;
    const double q = 1. / 40320 + t * (1. / 362880 + t * (1. / 3628800 + t * (1. / 39916800 + t * (1. / 479001600
        + t * (1. / 6227020800. + t * (1. / 87178291200. + t * (1. / 1307674368000. + t * (1. / 20922789888000.
        + t * (1. / 355687428096000. + t * (1. / 6402373705728000. + t / 121645100408832000.))))))))));
    twofold m = twofold_next(1. / 5040, 1.7209558293420705e-22, twofold_of(q, 0), r);
    m = twofold_next(1. / 720, -5.300543954373577e-20, m, r);
    m = twofold_next(1. / 120, 1.1564823173178714e-19, m, r);
    m = twofold_next(1. / 24, 2.3129646346357427e-18, m, r);
    m = twofold_next(1. / 6, 9.25185853854297e-18, m, r);
    m = twofold_next(1, 0, twofold_next(0.5, 0, m, r), r);
    const twofold_power power = {twofold_fma(0, m, r), half, n - half};
    return power;
}


/* exp(x + more) + c for a c of 0 or -1, where 2^n is a number; NaN where what it lacks is too small to be one. */
FN twofold twofold_exp_plus(double x, double more, double c) {
    const twofold_power p = twofold_exp(c == 0 && x < -630 ? (double)NAN : x, more);
    const double scale = raised(1, p);
    const twofold one = twofold_sum(scale, c), sum = twofold_sum(one.high, scale * p.m.high);
    return twofold_sum(sum.high, one.low + (sum.low + scale * p.m.low));
}
"""
TORCH["twofold_exp"] = '''\
def twofold_exp(x: Tensor, more: Tensor | float = 0.0) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """m, with what it lacks, and two factors of 2**n, where exp(x + more) = (1 + m) 2**n; NaN from |x| = 1400 on.

    By the power series of x - n ln(2).
    """
    within = torch.where(torch.abs(x) < 1400, x, math.nan)
    n = torch.round(within * 1.4426950408889634)
    half = torch.floor(n / 2)
    ln2_low = torch.full_like(n, -1.9082149292705877e-10)
    digits = n * ln2_low
    sum, low = twofold_sum(within - n * 0.6931471803691238, digits)
    r = twofold_sum(sum, low + (product_error(n, ln2_low, digits) + (more - n * 1.1612227229362532e-26)))
    lost = [0.0, 9.25185853854297e-18, 2.3129646346357427e-18, 1.1564823173178714e-19, -5.300543954373577e-20]
    coefficients = [1 / math.factorial(k) for k in range(2, 20)]
    m = twofold_series(r, [*zip(coefficients, [*lost, 1.7209558293420705e-22], strict=False)], coefficients[6:])
    return twofold_fma(0.0, m, r), torch.exp2(half), torch.exp2(n - half)


def twofold_exp_plus(x: Tensor, more: Tensor | float, c: float) -> tuple[Tensor, Tensor]:
    """exp(x + more) + c, and what that lacks, for a c of 0 or -1; NaN where that is too small to be a number."""
    (m, rest), first, second = twofold_exp(x if c else torch.where(x < -630, math.nan, x), more)
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
    const double gap = ((r - lowered(y, p)) + product.high) + (product.low + r * p.m.low);
    return known_error(raised(gap, p));
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
    const twofold sum = twofold_sum(1 - lowered(above.high, p), p.m.high);
    return known_error(raised((sum.high - lowered(above.low, p)) + (sum.low + p.m.low), p));
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
    const double high = raised(a.high, p), low = raised(a.low, p);
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

C["logaddexp_error"] = """\
/* What y, computed as log(exp(a) + exp(b)), lacks: log(1 + e) - (y - max(a, b)), with e = exp(-|a - b|). */
FN real logaddexp_error(real a, real b, real y) {
    const twofold apart = a > b ? twofold_sum(b, -(double)a) : twofold_sum(a, -(double)b);
    const twofold less = twofold_sum(a > b ? a : b, -(double)y), e = twofold_exp_plus(apart.high, apart.low, 0);
    const twofold m = twofold_exp_plus(less.high, less.low, -1);
    const twofold product = twofold_product(e.high, m.high), sum = twofold_sum(e.high, m.high);
    const double low = product.low + (e.low + m.low + (e.high * m.low + e.low * m.high));
    const double d = (sum.high + product.high) + (sum.low + low);
    return known_error(d - d * d / 2);
}
"""
TORCH["logaddexp_error"] = '''\
def logaddexp_error(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """What y, computed as log(exp(a) + exp(b)), lacks: log(1 + e) - (y - max(a, b)), with e = exp(-|a - b|)."""
    most = torch.maximum(a, b).double()
    e, e_low = twofold_exp_plus(*twofold_sum(torch.minimum(a, b).double(), -most), 0.0)
    m, m_low = twofold_exp_plus(*twofold_sum(most, -y.double()), -1.0)
    product = e * m
    sum, lost = twofold_sum(e, m)
    low = product_error(e, m, product) + (e_low + m_low + (e * m_low + e_low * m))
    d = (sum + product) + (lost + low)
    return known_error(d - d * d / 2, y.dtype)
'''
NEEDS["logaddexp_error"] = _ALL

C["softplus_error"] = """\
/* What y, computed as log(1 + exp(x)), lacks. */
FN real softplus_error(real x, real y) { return logaddexp_error(0, x, y); }
"""
TORCH["softplus_error"] = '''\
def softplus_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as log(1 + exp(x)), lacks."""
    return logaddexp_error(torch.zeros_like(x), x, y)
'''
NEEDS["softplus_error"] = (*_ALL, "logaddexp_error")

C["pow_error"] = """\
/* What y, computed as x to the power of p, lacks: y (exp(d) - 1), with d = p log|x| - log|y|. */
FN real pow_error(real x, real p, real y) {
    const double size = fabs(x), found = fabs(y), log_size = log(size), log_found = log(found);
    const twofold product = twofold_product(p, log_size);
    const double more = p * log_less(twofold_of(size, 0), log_size) - log_less(twofold_of(found, 0), log_found);
    const double d = (product.high - log_found) + (product.low + more);
    return known_error(y * (d + d * d / 2));
}
"""
TORCH["pow_error"] = '''\
def pow_error(x: Tensor, p: Tensor, y: Tensor) -> Tensor:
    """What y, computed as x to the power of p, lacks: y (exp(d) - 1), with d = p log|x| - log|y|."""
    size, p, found = torch.broadcast_tensors(torch.abs(x.double()), p.double(), torch.abs(y.double()))
    log_size, log_found, nothing = torch.log(size), torch.log(found), torch.zeros_like(size)
    product = p * log_size
    more = p * log_less(size, nothing, log_size) - log_less(found, nothing, log_found)
    d = (product - log_found) + (product_error(p, log_size, product) + more)
    return known_error(y * (d + d * d / 2), y.dtype)
'''
NEEDS["pow_error"] = (*_ALL, "log_less")

C["twofold_turned"] = """\
/* 1 + w (high[0] + low[0] + w (...)), four such coefficients and seven others, each less than the one before. */
FN twofold twofold_series(twofold w, const double *high, const double *low, const double *others) {
    const double u = w.high;
    const double q = others[0] + u * (others[1] + u * (others[2] + u * (others[3] + u * (others[4] + u * (others[5]
        + u * others[6])))));
    twofold m = twofold_next(high[3], low[3], twofold_of(q, 0), w);
    m = twofold_next(high[2], low[2], m, w);
    m = twofold_next(high[1], low[1], m, w);
    return twofold_next(1, 0, twofold_next(high[0], low[0], m, w), w);
}


/* sin(x + quarters pi/2), NaN from |x| = 2^19 on: the power series of x - n pi/2 for sine and cosine. */
FN twofold twofold_sine(double x, double quarters) {
    const double odd_high[] = {1. / 6, 1. / 120, 1. / 5040, 1. / 362880};
    const double odd_low[] = {9.25185853854297e-18, 1.1564823173178714e-19, 1.7209558293420705e-22,
                              -1.858393274046472e-22};
    const double odd[] = {1. / 39916800, 1. / 6227020800., 1. / 1307674368000., 1. / 355687428096000.,
                          1. / 121645100408832000., 1. / 51090942171709440000., 1. / 25852016738884976640000.};
    const double even_high[] = {1. / 2, 1. / 24, 1. / 720, 1. / 40320};
    const double even_low[] = {0, 2.3129646346357427e-18, -5.300543954373577e-20, 2.1511947866775882e-23};
    const double even[] = {1. / 3628800, 1. / 479001600, 1. / 87178291200., 1. / 20922789888000.,
                           1. / 6402373705728000., 1. / 2432902008176640000., 1. / 1124000727777607680000.};
    const double within = fabs(x) < 524288 ? x : (double)NAN, n = rint(within * 0.6366197723675814);
    const twofold r = twofold_sum(fma(n, -1.5707963267341256, within), n * -6.077100506303966e-11);
    const twofold t = twofold_sum(r.high, r.low + n * -2.0222662487111665e-21);
    const twofold square = twofold_fma(0, t, t), w = twofold_of(-square.high, -square.low);
    const double turns = (n + quarters) / 4, quarter = 4 * (turns - floor(turns));
    const bool is_odd = quarter == 1 || quarter == 3;
    const twofold cosine = twofold_series(w, even_high, even_low, even);
    const twofold sine = twofold_fma(0, twofold_series(w, odd_high, odd_low, odd), t);
    const twofold found = is_odd ? cosine : sine;
    return quarter < 2 ? found : twofold_of(-found.high, -found.low);
}
"""
TORCH["twofold_turned"] = '''\
def twofold_sine(x: Tensor, quarters: float) -> tuple[Tensor, Tensor]:
    """sin(x + quarters pi/2) and what that lacks, NaN from |x| = 2**19 on: the series of x - n pi/2."""
    within = torch.where(torch.abs(x) < 524288, x, math.nan)
    n = torch.round(within * 0.6366197723675814)
    r, low = twofold_sum(within - n * 1.5707963267341256, n * -6.077100506303966e-11)
    t = twofold_sum(r, low + n * -2.0222662487111665e-21)
    square, low = twofold_fma(0.0, t, t)
    w = -square, -low
    factorials = [math.factorial(k) for k in range(24)]
    lost = {6: 9.25185853854297e-18, 120: 1.1564823173178714e-19, 5040: 1.7209558293420705e-22}
    lost |= {362880: -1.858393274046472e-22, 2: 0.0, 24: 2.3129646346357427e-18}
    lost |= {720: -5.300543954373577e-20, 40320: 2.1511947866775882e-23}
    even, odd = factorials[2::2], factorials[3::2]
    cosine = twofold_series(w, [(1 / k, lost[k]) for k in even[:4]], [1 / k for k in even[4:]])
    sine = twofold_fma(0.0, twofold_series(w, [(1 / k, lost[k]) for k in odd[:4]], [1 / k for k in odd[4:]]), t)
    quarter = (n + quarters) % 4
    is_odd, sign = (quarter == 1) | (quarter == 3), torch.where(quarter < 2, 1.0, -1.0)
    return sign * torch.where(is_odd, cosine[0], sine[0]), sign * torch.where(is_odd, cosine[1], sine[1])
'''
NEEDS["twofold_turned"] = ("product_error", "twofold")

C["sin_error"] = """\
/* What y, computed as sin(x), lacks. */
FN real sin_error(real x, real y) {
    const twofold found = twofold_sine(x, 0);
    return known_error((found.high - y) + found.low);
}
"""
TORCH["sin_error"] = '''\
def sin_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as sin(x), lacks."""
    found, low = twofold_sine(x.double(), 0)
    return known_error((found - y.double()) + low, y.dtype)
'''
C["cos_error"] = """\
/* What y, computed as cos(x), lacks. */
FN real cos_error(real x, real y) {
    const twofold found = twofold_sine(x, 1);
    return known_error((found.high - y) + found.low);
}
"""
TORCH["cos_error"] = '''\
def cos_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as cos(x), lacks."""
    found, low = twofold_sine(x.double(), 1)
    return known_error((found - y.double()) + low, y.dtype)
'''
NEEDS["sin_error"] = NEEDS["cos_error"] = ("product_error", "twofold", "twofold_turned")

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

C["sinh_less"] = """\
/* sinh(x) - y for a y that is next to it: (1 - exp(-2 |x|))/(2 exp(-|x|)). */
FN double sinh_less(double x, double y) {
    const twofold f = twofold_exp_plus(-2 * fabs(x), 0, -1), e = twofold_exp_plus(-fabs(x), 0, 0);
    return quotient_less(x < 0 ? 0.5 : -0.5, f, e, y);
}
"""
TORCH["sinh_less"] = '''\
def sinh_less(x: Tensor, y: Tensor) -> Tensor:
    """sinh(x) - y for a y that is next to it: (1 - exp(-2 |x|))/(2 exp(-|x|))."""
    size = torch.abs(x.double())
    f, e = twofold_exp_plus(-2 * size, 0.0, -1.0), twofold_exp_plus(-size, 0.0, 0.0)
    return quotient_less(torch.where(x < 0, 0.5, -0.5), f, e, y)
'''
NEEDS["sinh_less"] = (*_ALL, "quotient_less")

C["sinh_error"] = """\
/* What y, computed as sinh(x), lacks. */
FN real sinh_error(real x, real y) { return sinh_less(x, y); }
"""
TORCH["sinh_error"] = '''\
def sinh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as sinh(x), lacks."""
    return sinh_less(x, y)
'''

C["asinh_error"] = """\
/* What y, computed as asinh(x), lacks. */
FN real asinh_error(real x, real y) {
    const double size = hypot(1, (double)x), d = -sinh_less(y, x) / size;
    return known_error(d + d * d / 2 * (x / size));
}
"""
TORCH["asinh_error"] = '''\
def asinh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as asinh(x), lacks."""
    size = torch.hypot(twofold_one(x)[0], x.double())
    d = -sinh_less(y.double(), x.double()) / size
    return known_error(d + d * d / 2 * (x / size), y.dtype)
'''
NEEDS["sinh_error"] = NEEDS["asinh_error"] = (*_ALL, "quotient_less", "sinh_less")

C["cosh_error"] = """\
/* What y, computed as cosh(x), lacks: of (1 + exp(-2 |x|))/(2 exp(-|x|)). */
FN real cosh_error(real x, real y) {
    const twofold e = twofold_exp_plus(-fabs(x), 0, 0);
    return quotient_less(0.5, twofold_fma(1, e, e), e, y);
}
"""
TORCH["cosh_error"] = '''\
def cosh_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as cosh(x), lacks: of (1 + exp(-2 |x|))/(2 exp(-|x|))."""
    e = twofold_exp_plus(-torch.abs(x.double()), 0.0, 0.0)
    return quotient_less(torch.full_like(x, 0.5), twofold_fma(1.0, e, e), e, y)
'''
NEEDS["cosh_error"] = (*_ALL, "quotient_less")

C["cbrt_error"] = """\
/* What y, computed as the cube root of x, lacks: (x - y^3)/(3 y^2). */
FN real cbrt_error(real x, real y) {
    const twofold square = twofold_product(y, y), cube = twofold_product(square.high, y);
    return known_error(((x - cube.high) - (cube.low + square.low * y)) / (3 * square.high));
}
"""
TORCH["cbrt_error"] = '''\
def cbrt_error(x: Tensor, y: Tensor) -> Tensor:
    """What y, computed as the cube root of x, lacks: (x - y**3)/(3 y**2)."""
    dtype, y = y.dtype, y.double()
    square = y * y
    cube = square * y
    gap = (x.double() - cube) - (product_error(square, y, cube) + product_error(y, y, square) * y)
    return known_error(gap / (3 * square), dtype)
'''
NEEDS["cbrt_error"] = ("product_error", "twofold")

C["hypot_error"] = """\
/* What y, computed as the root of a^2 + b^2, lacks: (a^2 + b^2 - y^2)/2y; 0 below 1e-140 and beyond 1e154, where what
   squares lack is no number. */
FN real hypot_error(real a, real b, real y) {
    const twofold p = twofold_product(a, a), q = twofold_product(b, b), square = twofold_product(y, y);
    const double large = p.high > q.high ? p.high : q.high, small = p.high > q.high ? q.high : p.high;
    const double gap = ((large - square.high) + small) + ((p.low - square.low) + q.low);
    return y > 1e-140 ? known_error(gap / (2 * (double)y)) : 0;
}
"""
TORCH["hypot_error"] = '''\
def hypot_error(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """What y, computed as the root of a**2 + b**2, lacks: (a**2 + b**2 - y**2)/2y; 0 below 1e-140 and beyond 1e154."""
    dtype, a, b, y = y.dtype, a.double(), b.double(), y.double()
    p, q, square = a * a, b * b, y * y
    low = (product_error(a, a, p) - product_error(y, y, square)) + product_error(b, b, q)
    gap = ((torch.maximum(p, q) - square) + torch.minimum(p, q)) + low
    return torch.where(y > 1e-140, known_error(gap / (2 * y), dtype), 0.0)
'''
NEEDS["hypot_error"] = ("product_error", "twofold")

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

# How many operands each has: those of the function, and what it was computed as.
ARITY = {name: C[name].partition(f" {name}(")[2].partition(")")[0].count("real ") for name in ERRORS.values()}

# Compilers take a minute for what is some hundred operations, and more than one kernel.
for _name in ARITY:
    _start = TORCH[_name].index('"""\n', TORCH[_name].index('"""') + 3) + 4
    TORCH[_name] = f"""\
{TORCH[_name][:_start]}    if torch.compiler.is_compiling():
        return torch.zeros_like(y)
{TORCH[_name][_start:]}"""
