"""Texts of the functions that C, CUDA or torch lack, or compute with too large an error.

`C` holds definitions in the common subset of C11 and CUDA C++, `TORCH` definitions in Python on tensors, both by the
name of the function. Three C functions are spelled otherwise than their key, which the libraries have taken: `erfinv`
defines `erf_inverse` (CUDA has an erfinv, with 5 ulps of error), `gamma` defines `gamma_fn` (the C library has a gamma,
the logarithm), `cbrt` defines `cube_root`. `NEEDS` names the entries, of either dict, that must come before an entry.

Where autograd differentiates a torch text, in a compiler or because the table has no derivative, a smooth function
must not have a kink by way of its parts: |x| is written as a selection by x >= 0, all of whose selections take the
right-hand side at 0.

The kernel's prelude gives the C texts `real`, `FN`, `NAN`, `INFINITY` and the math functions; the Python texts see
`torch`, `math` and `Tensor`. The name of a text's own helper begins with the name of the text.

Where a text holds fitted coefficients, they are those of the rational function that interpolates the exact one at the
Chebyshev nodes of the stated interval, computed by mpmath in 60 digits and rounded to double; its relative error there
is below 2e-17 unless stated. "A&S" is Abramowitz & Stegun, Handbook of Mathematical Functions (1964).
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

# Selection and sign

C["damp"] = """\
/* v * r where a vanishing v wins: 0 even if r is infinite. */
FN real damp(real v, real r) { return v == 0 ? v : v * r; }
"""
TORCH["damp"] = '''\
def damp(v: Tensor, r: Tensor) -> Tensor:
    """v * r where a vanishing v wins: 0 even if r is infinite."""
    return v * torch.where((v == 0) & ~r.isfinite(), 0.0, r)
'''

C["xmul"] = """\
/* v * r, 0 where v is even if r is infinite; NaN where r is. */
FN real xmul(real v, real r) { return v == 0 && fabs(r) == real(INFINITY) ? v : v * r; }
"""
TORCH["xmul"] = '''\
def xmul(v: Tensor, r: Tensor) -> Tensor:
    """v * r, 0 where v is even if r is infinite; NaN where r is."""
    return v * torch.where((v == 0) & r.isinf(), 0.0, r)
'''

C["unit"] = """\
/* a / h for a norm h of a, ...: a component of the direction, 0 for the vector 0, 1 or -1 at infinity. */
FN real unit(real a, real h) { return h == 0 ? h : isinf(a) && isinf(h) ? copysign(real(1), a) : a / h; }
"""
TORCH["unit"] = '''\
def unit(a: Tensor, h: Tensor) -> Tensor:
    """a / h for a norm h of a, ...: a component of the direction, 0 for the vector 0, 1 or -1 at infinity."""
    return torch.where(h == 0, h, torch.where(a.isinf() & h.isinf(), torch.sgn(a), a / h))
'''

C["maximum"] = """\
/* The larger of the two, NaN where either is. As one condition GCC does not vectorise it within a minimum. */
FN real maximum(real a, real b) {
    const real larger = a > b ? a : b;
    return a != a ? a : larger;
}
"""
C["minimum"] = """\
/* The smaller of the two, NaN where either is. */
FN real minimum(real a, real b) {
    const real smaller = a < b ? a : b;
    return a != a ? a : smaller;
}
"""

TORCH["modulus"] = '''\
def modulus(x: Tensor) -> Tensor:
    """|x|; its derivative at 0 is the one on the right."""
    return torch.where(x >= 0, x, -x)
'''

C["sgn"] = """\
/* The sign; zeros and NaN stay what they are. */
FN real sgn(real x) {
    const real below = x < 0 ? real(-1) : x;
    return x > 0 ? real(1) : below;
}
"""
TORCH["sgn"] = '''\
def sgn(x: Tensor) -> Tensor:
    """The sign; zeros and NaN stay what they are."""
    return torch.where(x > 0, 1.0, torch.where(x < 0, -1.0, x))
'''

# The logistic function and its kin. exp takes no positive argument, so that nothing overflows.

C["sigmoid"] = """\
/* The logistic function, 1 / (1 + exp(-x)). */
FN real sigmoid(real x) {
    real e = exp(-fabs(x));
    return GG_OVER(x >= 0 ? real(1) : e, 1 + e);
}
"""
TORCH["sigmoid"] = '''\
def sigmoid(x: Tensor) -> Tensor:
    """The logistic function, 1 / (1 + exp(-x))."""
    e = torch.exp(torch.where(x >= 0, -x, x))
    return torch.where(x >= 0, 1.0, e) / (1 + e)
'''

C["logistic_density"] = """\
/* The derivative of the logistic function, e / (1 + e)^2. */
FN real logistic_density(real x) { return gg_logistic_density(x); }
"""
TORCH["logistic_density"] = '''\
def logistic_density(x: Tensor) -> Tensor:
    """The derivative of the logistic function, e / (1 + e)^2."""
    e = torch.exp(torch.where(x >= 0, -x, x))
    return e / (1 + e * (2 + e))
'''

C["softplus"] = """\
/* log(1 + exp(x)) */
FN real softplus(real x) { return (x > 0 ? x : real(0)) + gg_log1p_unit(exp(-fabs(x))); }
"""
TORCH["softplus"] = '''\
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))"""
    return x.clamp(min=0) + torch.log1p(torch.exp(torch.where(x >= 0, -x, x)))
'''

C["logaddexp"] = """\
/* log(exp(a) + exp(b)); equal infinities have no difference. */
FN real logaddexp(real a, real b) {
    real d = a == b ? real(0) : fabs(a - b);
    return (a > b ? a : b) + gg_log1p_unit(exp(-d));
}
"""
TORCH["logaddexp"] = '''\
def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)); equal infinities have no difference."""
    d = torch.where((a == b) & a.isinf(), 0.0, torch.where(a >= b, b - a, a - b))
    return torch.where(a >= b, a, torch.where(a < b, b, a + b)) + torch.log1p(torch.exp(d))
'''

C["sech"] = """\
/* 1 / cosh(x), which decays where cosh overflows. */
FN real sech(real x) {
    real e = exp(-fabs(x));
    return GG_OVER(2 * e, 1 + e * e);
}
"""
TORCH["sech"] = '''\
def sech(x: Tensor) -> Tensor:
    """1 / cosh(x), which decays where cosh overflows."""
    e = torch.exp(torch.where(x >= 0, -x, x))
    return 2 * e / (1 + e * e)
'''

C["csch"] = """\
/* 1 / sinh(x), which decays where sinh overflows. */
FN real csch(real x) {
    real a = fabs(x);
    return copysign(2 * exp(-a) / -expm1(-2 * a), x);
}
"""
TORCH["csch"] = '''\
def csch(x: Tensor) -> Tensor:
    """1 / sinh(x), which decays where sinh overflows."""
    a = x.abs()
    return torch.copysign(2 * torch.exp(-a) / -expm1(-2 * a), x)
'''

# Those of torch compute exp(x) / 2, which overflows where exp does, log(2) too early.
C["acsch"] = """\
/* asinh(1 / x); near 0, where 1 / x may overflow, by logarithms. */
FN real acsch(real x) {
    const real a = fabs(x);
    return a > real(0.01) ? asinh(1 / x) : copysign(log(1 + hypot(real(1), a)) - log(a), x);
}
"""
TORCH["acsch"] = '''\
def acsch(x: Tensor) -> Tensor:
    """asinh(1 / x); near 0, where 1 / x may overflow, by logarithms."""
    a = torch.where(x >= 0, x, -x)
    near = torch.copysign(torch.log(1 + torch.hypot(torch.ones_like(a), a)) - torch.log(a), x)
    return torch.where(a > 0.01, torch.asinh(1 / x), near)
'''

C["asech"] = """\
/* acosh(1 / x); near 0, where 1 / x may overflow, by logarithms. */
FN real asech(real x) {
    return x > real(0.01) || x < 0 ? acosh(1 / x) : log(1 + sqrt((1 - x) * (1 + x))) - log(x);
}
"""
TORCH["asech"] = '''\
def asech(x: Tensor) -> Tensor:
    """acosh(1 / x); near 0, where 1 / x may overflow, by logarithms."""
    near = torch.log(1 + torch.sqrt((1 - x) * (1 + x))) - torch.log(x)
    return torch.where((x > 0.01) | (x < 0), torch.acosh(1 / x), near)
'''

TORCH["sinh"] = '''\
def sinh(x: Tensor) -> Tensor:
    """torch.sinh overflows too early."""
    h = torch.exp(x.abs() / 2)
    return torch.where(x.abs() > 20, torch.copysign(h * (0.5 * h), x), torch.sinh(x))
'''
TORCH["cosh"] = '''\
def cosh(x: Tensor) -> Tensor:
    """torch.cosh overflows too early."""
    h = torch.exp(x.abs() / 2)
    return torch.where(x.abs() > 20, h * (0.5 * h), torch.cosh(x))
'''

# What torch.compile makes of these on the CPU has no digit near 0: exp(x) - 1, a logarithm of a quotient, in float32 a
# difference from 1 (torch 2.13).
TORCH["expm1"] = '''\
def expm1(x: Tensor) -> Tensor:
    """torch.expm1, within torch.compile by the hyperbolic tangent of a half."""
    if not torch.compiler.is_compiling():
        return torch.expm1(x)
    t = torch.tanh(0.5 * x)
    return torch.where(x.abs() < 0.7, 2 * t / (1 - t), torch.exp(x) - 1)
'''
TORCH["atanh"] = '''\
def atanh(x: Tensor) -> Tensor:
    """torch.atanh, within torch.compile by a logarithm beside 1."""
    if not torch.compiler.is_compiling():
        return torch.atanh(x)
    a = x.abs()
    return torch.copysign(0.5 * torch.log1p(2 * a / (1 - a)), x)
'''
TORCH["erf"] = '''\
def erf(x: Tensor) -> Tensor:
    """torch.erf, within torch.compile in float64."""
    return torch.erf(x.double()).to(x.dtype) if torch.compiler.is_compiling() else torch.erf(x)
'''

C["cbrt"] = """\
/* The real cube root: ours, or the C library's and one step of Newton's, for glibc's is off by up to 4 ulps. */
FN real cube_root(real x) {
#ifdef gg_cbrt
    return gg_cbrt(x);
#else
    const real y = cbrt(x);
    return y == 0 || y - y != 0 ? y : y - (y - x / (y * y)) / 3;
#endif
}
"""
TORCH["cbrt"] = '''\
def cbrt(x: Tensor) -> Tensor:
    """The real cube root: the power's, then one step of Newton's, which rids it of the rounding of 1/3."""
    a = x.abs()
    y = a ** (1 / 3)
    y = torch.where((a > 0) & (a < math.inf), y - (y - a / (y * y)) / 3, y)
    return torch.copysign(y, x)
'''

# Sinc

C["sinc"] = """\
/* sin(x) / x, near 0 its Taylor series, 1 - x^2/6 + x^4/120 - ..., nested, which is rounded less. */
FN real sinc_of(real x, real sine) {
    const real w = x * x, far = isinf(x) ? real(0) : sine / x;
    real s = 1;
    for (int k = 9; k > 0; k--) s = 1 - s * w * real(1.0 / (2 * k * (2 * k + 1)));
    return w > 1 ? far : s;
}
FN real sinc(real x) { return sinc_of(x, sin(x)); }
"""
TORCH["sinc"] = '''\
def sinc(x: Tensor) -> Tensor:
    """sin(x) / x, near 0 its Taylor series, 1 - x^2/6 + x^4/120 - ..., nested, which is rounded less."""
    is_far, s = x.abs() > 1, torch.ones_like(x)
    w = torch.where(is_far, 0.0, x * x)  # autograd would meet an infinite series, and 0/0
    for k in range(9, 0, -1):
        s = 1 - s * w * (1 / (2 * k * (2 * k + 1)))
    return torch.where(is_far, torch.where(x.isinf(), 0.0, torch.sin(x) / torch.where(is_far, x, 1.0)), s)
'''

C["dsinc"] = """\
/* (sin(z) / z)' = (cos(z) - sin(z) / z) / z, near 0 its Taylor series, -z/3 + z^3/30 - ..., nested. */
FN double dsinc_of(double z, double sine, double cosine) {
    const double w = z * z, far = isinf(z) ? 0 : (cosine - sine / z) / z;
    double s = 1;
    for (int k = 10; k > 0; k--) s = 1 - s * w * (1.0 / (2 * k * (2 * k + 3)));
    return w > 4 ? far : -z * s / 3;
}
FN real dsinc(real x) { return real(dsinc_of(x, sin((double)x), cos((double)x))); }
"""
TORCH["dsinc"] = '''\
def dsinc(x: Tensor) -> Tensor:
    """(sin(x) / x)' = (cos(x) - sin(x) / x) / x, near 0 its Taylor series, -x/3 + x^3/30 - ..., nested."""
    z = x.double()
    w, s = z * z, 1.0
    for k in range(10, 0, -1):
        s = 1 - s * w / (2 * k * (2 * k + 3))
    y = torch.where(w > 4, (torch.cos(z) - torch.sin(z) / z) / z, -z * s / 3)
    return torch.where(z.isinf(), 0.0, y).to(x.dtype)
'''

C["d2sinc"] = """\
/* (sin(z) / z)'' = -(sin(z) + 2 (cos(z) - sin(z) / z) / z) / z, near 0 its Taylor series, -1/3 + z^2/10 - ... */
FN double d2sinc_of(double z, double sine, double cosine) {
    const double w = z * z, far = isinf(z) ? 0 : -(sine + 2 * (cosine - sine / z) / z) / z;
    double s = 1;
    for (int k = 12; k > 0; k--) s = 1 - s * w * ((2 * k + 1) / (2.0 * k * (2 * k - 1) * (2 * k + 3)));
    return w > 6.25 ? far : -s / 3;
}
FN real d2sinc(real x) { return real(d2sinc_of(x, sin((double)x), cos((double)x))); }
"""
TORCH["d2sinc"] = '''\
def d2sinc(x: Tensor) -> Tensor:
    """(sin(x) / x)'' = -(sin(x) + 2 (cos(x) - sin(x) / x) / x) / x, near 0 its Taylor series, -1/3 + x^2/10 - ..."""
    z = x.double()
    is_far, s = z.abs() > 2.5, 1.0
    w, u = torch.where(is_far, 0.0, z * z), torch.where(is_far, z, 4.0)  # autograd meets both, and no infinity
    for k in range(12, 0, -1):
        s = 1 - s * w * ((2 * k + 1) / (2 * k * (2 * k - 1) * (2 * k + 3)))
    far = -(torch.sin(u) + 2 * (torch.cos(u) - torch.sin(u) / u) / u) / u
    return torch.where(z.isinf(), 0.0, torch.where(is_far, far, -s / 3)).to(x.dtype)
'''

# The gamma function and its logarithmic derivatives, each in terms of 1 + t with t >= 0: t = x - 1 for x >= 1, t = x
# in (0, 1), t = -x where x is reflected, all exact; so is the distance of x from the nearest integer.

C["gamma"] = """\
/* Gamma(1 + t) by a rational function on [0, 1] and the recurrence A&S 6.1.15, from 10 on by Stirling's series
   6.1.40, its power in two halves, for one overflows too early; negative x by reflection 6.1.17. */
FN real gamma_fn(real x) {
    double z = x, n = rint(z), t = z >= 1 ? z - 1 : fabs(z), half = 1, f = 1;
    if (z < 0 && z == n) return real(NAN);
    if (t < 10) {
        for (; t > 1; t -= 1) f *= t;
        double p = ((((((2.902250155872659e-05 * t + 0.0003524597949092313) * t + 0.0027328158824730425)
            * t + 0.016988237551121128) * t + 0.0738970315467388) * t + 0.2664425060621577)
            * t + 0.6021935674856143) * t + 1.0;
        double q = ((((((0.00021462798133534784 * t - 0.002976412269023573) * t + 0.010970709238829842)
            * t + 0.02613385940287833) * t - 0.20927637091403406) * t - 0.04184000500256148)
            * t + 1.1794092323871486) * t + 1.0;
        f *= p / q;
    } else {
        t = t > 200 ? 200 : t;
        double u = 1 / t, w = u * u;
        half = pow(t, 0.5 * t);
        f = exp(u * (1.0 / 12 - w * (1.0 / 360 - w * (1.0 / 1260 - w * (1.0 / 1680 - w * (1.0 / 1188 - w
            * (691.0 / 360360 - w * (1.0 / 156))))))));
        f *= 2.5066282746310007 * sqrt(t) * exp(-t) * half;  /* the constant is sqrt(2 pi) */
    }
    if (z >= 1) return real(f * half);
    if (z >= 0) return real(f / z);
    double s = sin(3.141592653589793 * (z - n));
    if (n != 2 * floor(0.5 * n)) s = -s;
    return real(3.141592653589793 / (s * f) / half);
}
"""
TORCH["gamma"] = '''\
def gamma(x: Tensor) -> Tensor:
    """Gamma(1 + t) by a rational function on [0, 1] and the recurrence A&S 6.1.15, from 10 on by Stirling's series
    6.1.40, its power in two halves, for one overflows too early; negative x by reflection 6.1.17.
    """
    z = x.double()
    n = z.round()
    t = torch.where(z >= 1, z - 1, z.abs())
    far = t >= 10
    v = torch.where(far, 1.0, t)
    product = torch.ones_like(v)
    for _ in range(9):
        product, v = torch.where(v > 1, product * v, product), torch.where(v > 1, v - 1, v)
    p = q = 0.0
    for a, b in (
        (2.902250155872659e-05, 0.00021462798133534784),
        (0.0003524597949092313, -0.002976412269023573),
        (0.0027328158824730425, 0.010970709238829842),
        (0.016988237551121128, 0.02613385940287833),
        (0.0738970315467388, -0.20927637091403406),
        (0.2664425060621577, -0.04184000500256148),
        (0.6021935674856143, 1.1794092323871486),
        (1.0, 1.0),
    ):
        p, q = p * v + a, q * v + b
    v = torch.where(far, t, 10.0).clamp(max=200)
    u, c = 1 / v, 0.0
    for b in (1 / 156, 691 / 360360, 1 / 1188, 1 / 1680, 1 / 1260, 1 / 360, 1 / 12):
        c = b - u * u * c
    half = torch.where(far, v ** (0.5 * v), 1.0)
    near = product * (p / q)
    f = torch.where(far, math.sqrt(2 * math.pi) * v.sqrt() * torch.exp(u * c) * torch.exp(-v) * half, near)
    s = torch.sin(math.pi * (z - n))
    s = torch.where(n == 2 * (0.5 * n).floor(), s, -s)
    y = torch.where(z >= 1, f * half, torch.where(z >= 0, f / z, math.pi / (s * f) / half))
    return torch.where((z < 0) & (z == n), math.nan, y).to(x.dtype)
'''

C["loggamma"] = """\
/* log Gamma(1 + t): on [0, 1] a rational function with the zeros taken out, then the recurrence A&S 6.1.15, from 10
   on Stirling's series 6.1.41. */
FN double loggamma_1p(double t) {
    double f = 1;
    if (!(t < 10)) {
        double u = 1 / t, w = u * u;
        return (t + 0.5) * (log(t) - 1) + 1.4189385332046727  /* (1 + log(2 pi)) / 2 */
            + u * (1.0 / 12 - w * (1.0 / 360 - w * (1.0 / 1260 - w * (1.0 / 1680 - w * (1.0 / 1188 - w
            * (691.0 / 360360 - w * (1.0 / 156)))))));
    }
    for (; t > 1; t -= 1) f *= t;
    double p = ((((((2.9464583706502804e-06 * t + 0.0010806808353176355) * t + 0.029220238177271075)
        * t + 0.25669829592642) * t + 0.9930539511620571) * t + 1.8707344397470345)
        * t + 1.6820338260351562) * t + 0.5772156649015329;
    double q = ((((((0.0002909818225875854 * t + 0.01299531649521575) * t + 0.1724069213280993)
        * t + 0.9950486887673503) * t + 2.8861913529065033) * t + 4.390349291918918)
        * t + 3.3389343216915495) * t + 1.0;
    return log(f) + t * (t - 1) * (p / q);
}
/* log|Gamma(x)|; negative x by reflection A&S 6.1.17, but by Taylor's series around the extremum between -3 and -2,
   whose value is so small that the reflection's terms cancel. */
FN real loggamma(real x) {
    double z = x, u = z + 2.6107208684441447;
    if (z >= 1) return real(loggamma_1p(z - 1));
    if (z >= 0) return real(loggamma_1p(z) - log(z));
    if (z == rint(z)) return real(INFINITY);
    if (fabs(u) < 0.02) {
        return real((((((((((1272.8711242412696 * u - 535.0696004982153) * u + 243.507600732863)
            * u - 100.95660873530588) * u + 51.1405140013337) * u - 20.040726688570068)
            * u + 12.804338095663972) * u - 4.2569085647330125) * u + 5.424164399604597)
            * u - 1.3931965998064209e-15) * u - 0.11862999102044386);
    }
    return real(-log(fabs(sin(3.141592653589793 * (z - rint(z)))) / 3.141592653589793) - loggamma_1p(-z));
}
"""
TORCH["loggamma"] = '''\
def loggamma(x: Tensor) -> Tensor:
    """log|Gamma(x)|, in double because torch.lgamma overflows too early in float."""
    return torch.lgamma(x.double()).to(x.dtype)
'''

C["digamma"] = """\
/* psi(1 + t): on [0, 1] a rational function with the root taken out (in two parts), then the recurrence A&S 6.3.5,
   from 10 on the asymptotic series 6.3.18. */
FN double digamma_1p(double t) {
    double sum = 0;
    if (!(t < 10)) {
        double w = 1 / (t * t);
        return log(t) + 0.5 / t - w * (1.0 / 12 - w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240 - w * (1.0 / 132 - w
            * (691.0 / 32760 - w * (1.0 / 12 - w * (3617.0 / 8160))))))));
    }
    for (; t > 1; t -= 1) sum += 1 / t;
    double p = (((((1.0894678528383955e-06 * t + 0.0005811135063985677) * t + 0.01996408274151926)
        * t + 0.21631407251432455) * t + 0.9711327526262392) * t + 1.8675925104074453)
        * t + 1.2503801375034054;
    double q = (((((0.00012043151172286901 * t + 0.006100975692434821) * t + 0.09111902253303285)
        * t + 0.5710455727133128) * t + 1.6630736963665909) * t + 2.1771665986671342) * t + 1.0;
    return (t - 0.46163214496836236 + 1.5522348162858677e-17) * (p / q) + sum;
}
/* The logarithmic derivative of Gamma; negative x by reflection, A&S 6.3.7. */
FN real digamma(real x) {
    double z = x, r = 3.141592653589793 * (z - rint(z));
    if (z >= 1) return real(digamma_1p(z - 1));
    if (z >= 0) return real(digamma_1p(z) - 1 / z);
    if (r == 0) return real(NAN);
    return real(digamma_1p(-z) - 3.141592653589793 * cos(r) / sin(r));
}
"""
TORCH["digamma"] = '''\
def digamma(x: Tensor) -> Tensor:
    """The logarithmic derivative of Gamma. psi(1 + t): on [0, 1] a rational function with the root taken out (in
    two parts), then the recurrence A&S 6.3.5, from 10 on the asymptotic series 6.3.18; negative x by reflection,
    6.3.7.
    """
    z = x.double()
    r = math.pi * (z - z.round())
    t = torch.where(z >= 1, z - 1, z.abs())
    far = t >= 10
    v = torch.where(far, 1.0, t)
    total = torch.zeros_like(v)
    for _ in range(9):
        total, v = torch.where(v > 1, total + 1 / v, total), torch.where(v > 1, v - 1, v)
    p = q = 0.0
    for a, b in (
        (1.0894678528383955e-06, 0.00012043151172286901),
        (0.0005811135063985677, 0.006100975692434821),
        (0.01996408274151926, 0.09111902253303285),
        (0.21631407251432455, 0.5710455727133128),
        (0.9711327526262392, 1.6630736963665909),
        (1.8675925104074453, 2.1771665986671342),
        (1.2503801375034054, 1.0),
    ):
        p, q = p * v + a, q * v + b
    near = (v - 0.46163214496836236 + 1.5522348162858677e-17) * (p / q) + total
    w, c = 1 / (t * t), 0.0
    for b in (3617 / 8160, 1 / 12, 691 / 32760, 1 / 132, 1 / 240, 1 / 252, 1 / 120, 1 / 12):
        c = b - w * c
    y = torch.where(far, torch.log(t) + 0.5 / t - w * c, near)
    reflected = torch.where(r == 0, math.nan, y - math.pi * torch.cos(r) / torch.sin(r))
    return torch.where(z >= 1, y, torch.where(z >= 0, y - 1 / z, reflected)).to(x.dtype)
'''

C["polygamma"] = """\
/* n! times the sum of (x + k)^-(n + 1) over k >= 0, for x >= 0: term by term as far as x + k < n + 10, then by the
   series A&S 6.4.11. */
FN double polygamma_sum(int n, double x) {
    const double bernoulli[9] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6,
        -3617.0 / 510, 43867.0 / 798};
    int terms = x < n + 10 ? (int) ceil(n + 10 - x) : 0;
    double y = x + terms, factorial = 1, rest, sum, term = 1;
    for (int j = 2; j < n; j++) factorial *= j;  /* (n - 1)! */
    rest = factorial;
    factorial *= n;
    for (int j = 0; j < n; j++) rest /= y;
    sum = n / (2 * y);
    for (int j = 1; j < 10; j++) {
        term *= (n + 2.0 * j - 2) * (n + 2.0 * j - 1) / (2.0 * j * (2 * j - 1)) / y / y;
        sum += bernoulli[j - 1] * term;
    }
    sum = rest + rest * sum;
    for (int k = terms - 1; k >= 0; k--) {
        term = factorial;
        for (int j = 0; j <= n; j++) term /= x + k;
        sum += term;
    }
    return sum;
}
/* The n-th derivative of digamma, 1 <= n <= 20; negative x by reflection A&S 6.4.7. There the n-th derivative of u
   = pi cot(pi x) is (-1)^n times a polynomial in u with positive coefficients, from u' = -(u^2 + pi^2). */
FN real polygamma(int n, real x) {
    double z = x, r = 3.141592653589793 * (z - rint(z)), c[12] = {1}, u, s = 1, power = 1;
    if (!(z < 0)) return real(n % 2 ? polygamma_sum(n, z) : -polygamma_sum(n, z));
    if (r == 0) return real(n % 2 ? INFINITY : NAN);
    u = 3.141592653589793 * cos(r) / sin(r);
    for (int k = 1; k <= n; k++) {  /* c[j] is the coefficient of u^(k + 1 - 2j) pi^(2j) */
        for (int j = (k + 1) / 2; j > 0; j--) c[j] = c[j] * (k - 2 * j) + c[j - 1] * (k + 2 - 2 * j);
        c[0] *= k;
    }
    s = c[0];
    for (int j = 1; j <= (n + 1) / 2; j++) {
        power *= 9.869604401089358;  /* pi^2 */
        s = s * (u * u) + c[j] * power;
    }
    if (n % 2 == 0) s *= u;
    return real((n % 2 ? s : -s) - polygamma_sum(n, 1 - z));
}
"""
TORCH["polygamma"] = '''\
def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma, n >= 1. For x >= 0 it is (-1)^(n + 1) n! times the sum of (x + k)^-(n + 1)
    over k >= 0: term by term as far as x + k < n + 10, then by the series A&S 6.4.11. Negative x by reflection,
    6.4.7: there the n-th derivative of u = pi cot(pi x) is (-1)^n times a polynomial in u with positive
    coefficients, from u' = -(u^2 + pi^2).
    """
    z = x.double()
    negative = z < 0
    v = torch.where(negative, 1 - z, z)
    y = v + (n + 10 - v).ceil().clamp(min=0)
    rest = torch.full_like(y, math.factorial(n - 1))
    for _ in range(n):
        rest = rest / y
    total, term = n / (2 * y), 1.0
    bernoulli = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
    for j, b in enumerate(bernoulli, 1):
        term = term * ((n + 2 * j - 2) * (n + 2 * j - 1) / (2 * j * (2 * j - 1))) / y / y
        total = total + b * term
    total = rest + rest * total
    for k in range(n + 9, -1, -1):
        term = 1.0 * math.factorial(n)
        for _ in range(n + 1):
            term = term / (v + k)
        total = torch.where(v + k < n + 10, total + term, total)
    c = [1] + [0] * ((n + 1) // 2)  # of u^(k + 1 - 2j) pi^(2j)
    for k in range(1, n + 1):
        for j in range((k + 1) // 2, 0, -1):
            c[j] = c[j] * (k - 2 * j) + c[j - 1] * (k + 2 - 2 * j)
        c[0] *= k
    r = math.pi * (z - z.round())
    u = math.pi * torch.cos(r) / torch.sin(r)
    s = 1.0 * c[0]
    for j in range(1, len(c)):
        s = s * (u * u) + c[j] * math.pi ** (2 * j)
    s = s if n % 2 else -s * u
    s = torch.where(r == 0, math.inf if n % 2 else math.nan, s)
    return torch.where(negative, s - total, total if n % 2 else -total).to(x.dtype)
'''

# The error function's inverse

C["erfinv"] = """\
/* The inverse of erf: y times a rational function of y^2 up to 1/2, rational functions of sqrt(-log(1 - |y|))
   beyond, on [0.83, 2.5] and on [2.5, 6.1], where 1 - |y| is 2^-53 (with an error of 3e-16 mixed). */
FN real erf_inverse(real y) {
    double z = y, a = fabs(z), p, q;
    if (a <= 0.5) {
        double w = z * z;
        p = ((((-0.0016005493035574966 * w + 0.0756427849231936) * w - 0.616477943407903)
            * w + 1.7868025384515263) * w - 2.125309744068628) * w + 0.886226925452758;
        q = ((((-0.00880258939807174 * w + 0.18562996432609088) * w - 1.0828992979876984)
            * w + 2.5686335220784353) * w - 2.6599546266312846) * w + 1.0;
        return real(z * (p / q));
    }
    if (a >= 1) return real(a > 1 ? NAN : copysign(INFINITY, z));
    double t = sqrt(-log(1 - a));
    if (t < 2.5) {
        p = ((((((((0.06268166298538916 * t + 1.1976367907847827) * t + 5.012919439536326)
            * t + 6.542532293005519) * t + 7.004346533795804) * t + 5.060375569230095)
            * t + 2.3086266612691806) * t + 0.8784993478070603) * t + 0.0010019043859816634)
            * t - 6.137797158646546e-05;
        q = (((((((0.06267581745388073 * t + 1.1983539863371662) * t + 5.154007208710364)
            * t + 8.161344742356588) * t + 10.752477922752776) * t + 8.840560692218697)
            * t + 6.350925624119502) * t + 2.562970234530918) * t + 1.0;
    } else {
        p = (((((0.009420514225999668 * t + 0.2645748635949284) * t + 1.587999298121188)
            * t + 2.232835976519587) * t + 0.23060942582439672) * t + 0.27579941672721436)
            * t - 0.05044313810482573;
        q = ((((0.009420126979778716 * t + 0.26464712185148315) * t + 1.6110516441877816)
            * t + 2.639973168767259) * t + 1.6223093972642846) * t + 1.0;
    }
    return real(copysign(p / q, z));
}
"""
TORCH["erfinv"] = '''\
def erfinv(y: Tensor) -> Tensor:
    """The inverse of erf: y times a rational function of y^2 up to 1/2, rational functions of sqrt(-log(1 - |y|))
    beyond, on [0.83, 2.5] and on [2.5, 6.1], where 1 - |y| is 2^-53 (with an error of 3e-16 mixed).
    """
    z = y.double()
    a = z.abs()
    w = z * z
    t = torch.sqrt(-torch.log1p(-a))
    p = q = 0.0
    for b, c in (
        (-0.0016005493035574966, -0.00880258939807174),
        (0.0756427849231936, 0.18562996432609088),
        (-0.616477943407903, -1.0828992979876984),
        (1.7868025384515263, 2.5686335220784353),
        (-2.125309744068628, -2.6599546266312846),
        (0.886226925452758, 1.0),
    ):
        p, q = p * w + b, q * w + c
    middle = z * (p / q)
    p = q = 0.0
    for b, c in (
        (0.06268166298538916, 0.0),
        (1.1976367907847827, 0.06267581745388073),
        (5.012919439536326, 1.1983539863371662),
        (6.542532293005519, 5.154007208710364),
        (7.004346533795804, 8.161344742356588),
        (5.060375569230095, 10.752477922752776),
        (2.3086266612691806, 8.840560692218697),
        (0.8784993478070603, 6.350925624119502),
        (0.0010019043859816634, 2.562970234530918),
        (-6.137797158646546e-05, 1.0),
    ):
        p, q = p * t + b, q * t + c
    outer = p / q
    p = q = 0.0
    for b, c in (
        (0.009420514225999668, 0.0),
        (0.2645748635949284, 0.009420126979778716),
        (1.587999298121188, 0.26464712185148315),
        (2.232835976519587, 1.6110516441877816),
        (0.23060942582439672, 2.639973168767259),
        (0.27579941672721436, 1.6223093972642846),
        (-0.05044313810482573, 1.0),
    ):
        p, q = p * t + b, q * t + c
    outer = torch.where(t < 2.5, outer, torch.where(a == 1, math.inf, p / q))
    return torch.where(a <= 0.5, middle, torch.copysign(outer, z)).to(y.dtype)
'''

# Bessel functions of integer order n >= 0

C["bessel_i_sum"] = """\
/* I_n(a) for a >= 0 by the power series A&S 9.6.10, up to 24 + n^2; beyond I_n(a) sqrt(2 pi a) exp(-a), by the
   asymptotic one 9.7.1. The terms of the former are many, each made of the one before: with what they lack. */
FN double bessel_i_sum(int n, double a) {
    double sum, term = 1;
    if (a <= 24 + n * n) {
        double h = 0.5 * a, square = h * h, square_lacks = fma(h, h, -square), lacks = 0, rest = 0;
        for (int k = 1; k <= n; k++) {
            double product = term * h, next = product / k;
            lacks = (lacks * h + fma(term, h, -product) + fma(-next, k, product)) / k;
            term = next;
        }
        sum = term;
        rest = lacks;
        for (int k = 1; term > 1e-17 * sum; k++) {
            double by = k * (k + (double) n), product = term * square, next = product / by;
            lacks = lacks * square + term * square_lacks + fma(term, square, -product);
            lacks = (lacks + fma(-next, by, product)) / by;
            term = next;
            double total = sum + term, part = total - sum;
            rest += (sum - (total - part)) + (term - part) + lacks;
            sum = total;
        }
        return sum + rest;
    }
    sum = 0;
    for (int k = 1; k < 30; k++) {
        term *= ((2.0 * k - 1) * (2 * k - 1) - 4.0 * n * n) / (8 * k * a);
        sum += term;
    }
    return 1 + sum; /* not first, or every addition would round it */
}
"""
C["bessel_i"] = """\
/* The modified Bessel function of the first kind; far out with its exponential in two halves, for one overflows too
   early. */
FN real bessel_i(int n, real x) {
    double z = x, a = fabs(z), y = bessel_i_sum(n, a);
    if (a > 24 + n * n) {
        double half = exp(a > 2000 ? 1000 : 0.5 * a);
        y = half * (y * half / sqrt(6.283185307179586 * (a > 2000 ? 2000 : a)));
    }
    return real(z < 0 && n % 2 ? -y : y);
}
"""
C["bessel_ie"] = """\
/* The modified Bessel function of the first kind, times exp(-|x|). */
FN real bessel_ie(int n, real x) {
    double z = x, a = fabs(z), y = bessel_i_sum(n, a);
    y = a > 24 + n * n ? y / (4 * sqrt(0.39269908169872414 * a)) : y * exp(-a); /* sqrt(2 pi a) */
    return real(z < 0 && n % 2 ? -y : y);
}
"""
TORCH["bessel_i_sum"] = '''\
def bessel_i_sum(n: int, a: Tensor) -> Tensor:
    """I_n(a) for a >= 0 by the power series A&S 9.6.10, up to 24 + n^2; beyond I_n(a) sqrt(2 pi a) exp(-a), by the
    asymptotic one 9.7.1.
    """
    h = 0.5 * a.clamp(max=24 + n * n)
    term = torch.ones_like(h)
    for k in range(1, n + 1):
        term = term * h / k
    near = term
    for k in range(1, 50 + n * n):
        term = term * (h * h / (k * (k + n)))
        near = near + term
    term, far = 1.0, 0.0
    for k in range(1, 30):
        term = term * (((2 * k - 1) ** 2 - 4 * n * n) / (8 * k)) / a
        far = far + term
    return torch.where(a <= 24 + n * n, near, 1 + far)
'''
TORCH["bessel_i"] = '''\
def bessel_i(n: int, x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind; far out with its exponential in two halves, for one overflows
    too early.
    """
    z = x.double()
    a = z.abs()
    y = bessel_i_sum(n, a)
    half = torch.exp(0.5 * a.clamp(max=2000))
    y = torch.where(a <= 24 + n * n, y, half * (y * half / torch.sqrt(2 * math.pi * a.clamp(max=2000))))
    return (torch.where(z < 0, -y, y) if n % 2 else y).to(x.dtype)
'''
TORCH["bessel_ie"] = '''\
def bessel_ie(n: int, x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, times exp(-|x|)."""
    z = x.double()
    a = z.abs()
    y = bessel_i_sum(n, a)
    y = torch.where(a <= 24 + n * n, y * torch.exp(-a), y / (4 * torch.sqrt(math.pi / 8 * a)))  # sqrt(2 pi a)
    return (torch.where(z < 0, -y, y) if n % 2 else y).to(x.dtype)
'''
NEEDS["bessel_i"] = NEEDS["bessel_ie"] = ("bessel_i_sum",)

C["bessel_jy"] = """\
/* J_n(x), or Y_n(x) if `second`, for x >= 0. From max(6, n) on the orders 0 and 1 in the form of Hankel, A&S 9.2.5
   and 9.2.6, its P and Q rational functions of (6/x)^2 on [0, 1] (Q with an error of 3e-16). Below by the
   recurrence 9.1.27 downward (Miller), with J_k(x) = (x/2)^k / k! g_k, which keeps g_k near 1 if x is small, and
   the sum of squares 9.1.76, which is 1; Y_0 by its series of even J_k, 9.1.89, Y_1 by that series' derivative.
   What remains by the recurrence upward. */
FN double bessel_jy(int n, double x, int second) {
    double y[2];
    if (x != x) return x;
    if (x >= 6 && x >= n) {
        double e = cos(x) + sin(x), f = sin(x) - cos(x), root = sqrt(3.141592653589793 * x), v = 36 / (x * x), p, q;
        p = (((((0.00013309934222879483 * v + 0.018628972997780557) * v + 0.3736481656803185)
            * v + 2.2028371836672993) * v + 4.760656260564711) * v + 3.902112348645647) * v + 1.0;
        p /= (((((0.00015357210709564863 * v + 0.019221277471914627) * v + 0.3775997988614007)
            * v + 2.211824488367338) * v + 4.7681948513291355) * v + 3.904065473645645) * v + 1.0;
        q = (((((-3.998509598180759e-05 * v - 0.004991874663035603) * v - 0.08237351788969827)
            * v - 0.4086615692760092) * v - 0.760978130516932) * v - 0.5476090353619227)
            * v - 0.12499999999999997;
        q /= ((((((0.0006478321720665476 * v + 0.04810168346850433) * v + 0.7062887213134426)
            * v + 3.3636521591027333) * v + 6.157991312241031) * v + 4.397148324561957) * v + 1.0) * x;
        y[0] = (second ? p * f + q * e : p * e - q * f) / root;
        p = (((((0.0001269217043493885 * v + 0.01652659473285354) * v + 0.34172310977730996)
            * v + 2.0771160332336147) * v + 4.599710719562443) * v + 3.8430593207721055) * v + 1.0;
        p /= (((((9.61108015297785e-05 * v + 0.015611268690314067) * v + 0.3354677392525406)
            * v + 2.0625960649905037) * v + 4.5873226192207275) * v + 3.8398041124387743) * v + 1.0;
        q = (((((0.00012753764276967683 * v + 0.014038865033652499) * v + 0.2326628281763625)
            * v + 1.1736637214858379) * v + 2.22223310898604) * v + 1.6226257212360538)
            * v + 0.37499999999999994;
        q /= ((((((0.0004802680860556783 * v + 0.04101603361949093) * v + 0.6415797120785053)
            * v + 3.1726644221058176) * v + 5.958307186766872) * v + 4.334597409407221) * v + 1.0) * x;
        y[1] = (second ? q * f - p * e : p * f + q * e) / root;
    } else {
        double h = 0.5 * x, w = h * h, above = 1, g = 1, result = 1, squares = 0, even = 0, odd = 0, ratio = 0;
        for (int k = n + 20 + 2 * (int) x; k > 0; k--) {
            double below;
            if (k % 2 == 0) even = 2 * g / k - ratio * even;
            else if (k > 1) odd = 4.0 * k * g / ((k - 1.0) * (k + 1)) - ratio * odd;
            squares = g * g + w / ((k + 1.0) * (k + 1)) * squares;
            if (k == n) result = g;
            ratio = w / (k * (k + 1.0));
            below = g - ratio * above;
            above = g;
            g = below;
        }
        double norm = sqrt(g * g + 2 * w * squares);
        if (!second) {
            double power = n % 2 ? h : 1, factorial = 1;
            for (int k = 2; k <= n; k++) {
                factorial *= k;
                if (k % 2 == 0) power *= w;
            }
            return (n == 0 ? g : result) / norm * power / factorial;
        }
        double l = log(x) - 0.11593151565841245;  /* log(x / 2) + gamma, Euler's constant */
        y[0] = 0.6366197723675814 * (l * g + w * even) / norm;
        y[1] = 0.6366197723675814 * (h * ((l - 1) * above + w * odd / 6) - g / x) / norm;
    }
    for (int k = 1; k < n && y[1] > -INFINITY; k++) {
        double next = 2 * k / x * y[1] - y[0];
        y[0] = y[1];
        y[1] = next;
    }
    return n == 0 ? y[0] : y[1];
}
"""
TORCH["bessel_jy"] = '''\
def bessel_jy(n: int, x: Tensor, second: bool) -> Tensor:
    """J_n(x), or Y_n(x) if `second`, for x >= 0. From max(6, n) on the orders 0 and 1 in the form of Hankel, A&S
    9.2.5 and 9.2.6, its P and Q rational functions of (6/x)^2 on [0, 1] (Q with an error of 3e-16). Below by the
    recurrence 9.1.27 downward (Miller), with J_k(x) = (x/2)^k / k! g_k, which keeps g_k near 1 if x is small, and
    the sum of squares 9.1.76, which is 1; Y_0 by its series of even J_k, 9.1.89, Y_1 by that series' derivative.
    What remains by the recurrence upward.
    """
    edge = max(6, n)
    t = x.clamp(min=edge)
    v = 36 / (t * t)
    e, f = torch.cos(t) + torch.sin(t), torch.sin(t) - torch.cos(t)
    far = []
    for rows in (
        (  # P and Q of order 0: numerator, denominator, numerator, denominator
            (0.00013309934222879483, 0.00015357210709564863, -3.998509598180759e-05, 0.0006478321720665476),
            (0.018628972997780557, 0.019221277471914627, -0.004991874663035603, 0.04810168346850433),
            (0.3736481656803185, 0.3775997988614007, -0.08237351788969827, 0.7062887213134426),
            (2.2028371836672993, 2.211824488367338, -0.4086615692760092, 3.3636521591027333),
            (4.760656260564711, 4.7681948513291355, -0.760978130516932, 6.157991312241031),
            (3.902112348645647, 3.904065473645645, -0.5476090353619227, 4.397148324561957),
            (1.0, 1.0, -0.12499999999999997, 1.0),
        ),
        (  # of order 1
            (0.0001269217043493885, 9.61108015297785e-05, 0.00012753764276967683, 0.0004802680860556783),
            (0.01652659473285354, 0.015611268690314067, 0.014038865033652499, 0.04101603361949093),
            (0.34172310977730996, 0.3354677392525406, 0.2326628281763625, 0.6415797120785053),
            (2.0771160332336147, 2.0625960649905037, 1.1736637214858379, 3.1726644221058176),
            (4.599710719562443, 4.5873226192207275, 2.22223310898604, 5.958307186766872),
            (3.8430593207721055, 3.8398041124387743, 1.6226257212360538, 4.334597409407221),
            (1.0, 1.0, 0.37499999999999994, 1.0),
        ),
    ):
        a = b = c = d = 0.0
        for row in rows:
            a, b, c, d = a * v + row[0], b * v + row[1], c * v + row[2], d * v + row[3]
        p, q = a / b, c / (d * t)
        far.append((p * f + q * e if second else p * e - q * f) / torch.sqrt(math.pi * t))
        e, f = f, -e
    v = x.clamp(max=edge)
    h = 0.5 * v
    w = h * h
    above = g = result = torch.ones_like(h)
    squares = even = odd = ratio = torch.zeros_like(h)
    for k in range(n + 20 + 2 * edge, 0, -1):
        if k % 2 == 0:
            even = 2 * g / k - ratio * even
        elif k > 1:
            odd = g * (4 * k / (k * k - 1)) - ratio * odd
        squares = g * g + w / (k + 1) ** 2 * squares
        if k == n:
            result = g
        ratio = w / (k * (k + 1))
        above, g = g, g - ratio * above
    norm = torch.sqrt(g * g + 2 * w * squares)
    if second:
        log = torch.log(v) - 0.11593151565841245  # log(x / 2) + gamma, Euler's constant
        first = 2 / math.pi * (log * g + w * even) / norm
        last = 2 / math.pi * (h * ((log - 1) * above + w * odd / 6) - g / v) / norm
    else:
        power = h if n % 2 else 1.0
        for _ in range(n // 2):
            power = power * w
        result = (g if n == 0 else result) / norm * power / math.factorial(n)
        first = last = result
    first, last = torch.where(x >= edge, far[0], first), torch.where(x >= edge, far[1], last)
    for k in range(1, n):
        first, last = last, torch.where(last > -math.inf, 2 * k / x * last - first, last)
    y = first if n == 0 else last
    return y if second else torch.where(x >= edge, y, result)
'''

C["bessel_j"] = """\
/* The Bessel function of the first kind; its parity is that of n. */
FN real bessel_j(int n, real x) {
    double a = fabs(x), y = isinf(a) ? 0 : bessel_jy(n, a, 0);
    return real(x < 0 && n % 2 ? -y : y);
}
"""
TORCH["bessel_j"] = '''\
def bessel_j(n: int, x: Tensor) -> Tensor:
    """The Bessel function of the first kind; its parity is that of n."""
    a = x.double().abs()
    y = torch.where(a.isinf(), 0.0, bessel_jy(n, a, False))
    return (torch.where(x < 0, -y, y) if n % 2 else y).to(x.dtype)
'''

C["bessel_y"] = """\
/* The Bessel function of the second kind, real for x >= 0. */
FN real bessel_y(int n, real x) {
    if (x == 0) return real(-INFINITY);
    if (x < 0) return real(NAN);
    return isinf(x) ? real(0) : real(bessel_jy(n, x, 1));
}
"""
TORCH["bessel_y"] = '''\
def bessel_y(n: int, x: Tensor) -> Tensor:
    """The Bessel function of the second kind, real for x >= 0."""
    z = x.double()
    y = torch.where(z.isinf(), 0.0, bessel_jy(n, z.abs(), True))
    return torch.where(z > 0, y, torch.where(z == 0, -math.inf, math.nan)).to(x.dtype)
'''

NEEDS["bessel_j"] = NEEDS["bessel_y"] = ("bessel_jy",)
