"""Texts of expm1(k x)/k, log1p(k x)/k and their derivatives by k; see `special` for the conventions.

Both are x at k = 0, where no series in x stands for 0/0: k is a parameter, as in (x**lam - 1)/lam, or another tensor.
With z = k x their n-th derivatives by k are x^(n + 1) times those of expm1(z)/z and log1p(z)/z by z,

    int t^n exp(z t) dt,    (-1)^n n! int t^n / (1 + z t)^(n + 1) dt    over t in [0, 1].
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

C["exprel"] = """\
/* (exp(k x) - 1) / k, in two factors where the exponential overflows before the quotient does. */
FN real exprel(real k, real x) {
    const real z = k * x, h = exp(z / 2);
    return fabs(z) < real(1e-30) ? x : isinf(h) ? copysign(h, k) : z > 80 ? h / k * h : expm1(z) / k;
}
"""
TORCH["exprel"] = '''\
def exprel(k: Tensor, x: Tensor) -> Tensor:
    """(exp(k x) - 1) / k, in two factors where the exponential overflows before the quotient does."""
    z = k * x
    h = torch.exp(z / 2)
    y = torch.where(z > 80, torch.where(h.isinf(), torch.copysign(h, k), h / k * h), expm1(z) / k)
    return torch.where(z.abs() < 1e-30, x, y)
'''

C["dexprel"] = """\
/* The derivative of (exp(k x) - 1) / k by k, ((z - 1) exp(z) + 1) / k^2 with z = k x; near 0 its Taylor series in z, of
   z < 0 that of exp(-z) times it. */
FN real dexprel(real k, real x) {
    const double c = k, z = c * x, w = fabs(z), h = exp(z / 2);
    double s = 1;
    if (w > 80) return real(z > 0 ? (isinf(h) ? h : (z - 1) * h / k * h / k) : 1.0 / k / k);
    if (w > 3) return real(((z - 1) * exp(z) + 1) / k / k);
    for (int n = 26; n > 0; n--) s = 1 + s * w * (z < 0 ? 1.0 / (n + 2) : (n + 1) / (n * (n + 2.0)));
    return real((z < 0 ? exp(z) : 1) * s / 2 * x * x);
}
"""
TORCH["dexprel"] = '''\
def dexprel(k: Tensor, x: Tensor) -> Tensor:
    """The derivative of (exp(k x) - 1) / k by k, ((z - 1) exp(z) + 1) / k^2 with z = k x; near 0 its Taylor series in
    z, of z < 0 that of exp(-z) times it.
    """
    c, z = k.double(), k.double() * x.double()
    w, h, above, below = z.abs(), torch.exp(z / 2), 1.0, 1.0
    for n in range(26, 0, -1):
        above = 1 + above * w * ((n + 1) / (n * (n + 2)))
        below = 1 + below * w * (1 / (n + 2))
    near = torch.where(z < 0, torch.exp(z) * below, above) / 2 * x * x
    tail = torch.where(z > 0, torch.where(h.isinf(), h, (z - 1) * h / c * h / c), 1 / c / c)
    return torch.where(w > 80, tail, torch.where(w > 3, ((z - 1) * torch.exp(z) + 1) / c / c, near)).to(x.dtype)
'''

C["d2exprel"] = """\
/* The second derivative of (exp(k x) - 1) / k by k, (((z - 2) z + 2) exp(z) - 2) / k^3 with z = k x; near 0 its Taylor
   series in z, of z < 0 that of exp(-z) times it. */
FN real d2exprel(real k, real x) {
    const double c = k, z = c * x, w = fabs(z), h = exp(z / 2);
    double s = 1;
    if (isinf(h)) return copysign(real(h), x);
    if (w > 80) return real(z > 0 ? (1 - 2 / z + 2 / z / z) * x * h / k * h * x : -2.0 / k / k / k);
    if (w > 3) return real((((z - 2) * z + 2) * exp(z) - 2) / k / k / k);
    for (int n = 26; n > 0; n--) s = 1 + s * w * (z < 0 ? 1.0 / (n + 3) : (n + 2) / (n * (n + 3.0)));
    return real((z < 0 ? exp(z) : 1) * s / 3 * x * x * x);
}
"""
TORCH["d2exprel"] = '''\
def d2exprel(k: Tensor, x: Tensor) -> Tensor:
    """The second derivative of (exp(k x) - 1) / k by k, (((z - 2) z + 2) exp(z) - 2) / k^3 with z = k x; near 0 its
    Taylor series in z, of z < 0 that of exp(-z) times it.
    """
    c, z = k.double(), k.double() * x.double()
    w, h, above, below = z.abs(), torch.exp(z / 2), 1.0, 1.0
    for n in range(26, 0, -1):
        above = 1 + above * w * ((n + 2) / (n * (n + 3)))
        below = 1 + below * w * (1 / (n + 3))
    near = torch.where(z < 0, torch.exp(z) * below, above) / 3 * x * x * x
    far = (((z - 2) * z + 2) * torch.exp(z) - 2) / c / c / c
    grown = torch.where(h.isinf(), torch.copysign(h, x), (1 - 2 / z + 2 / z / z) * x * h / c * h * x)
    tail = torch.where(z > 0, grown, -2 / c / c / c)
    return torch.where(w > 80, tail, torch.where(w > 3, far, near)).to(x.dtype)
'''

C["logrel_double"] = """\
/* log(1 + k x) / k, by two logarithms where the product overflows. */
FN double logrel_double(double k, double x) {
    const double z = k * x;
    return fabs(z) < 1e-30 ? x : (z == INFINITY ? log(fabs(k)) + log(fabs(x)) : log1p(z)) / k;
}
"""
C["logrel"] = """\
/* log(1 + k x) / k */
FN real logrel(real k, real x) { return real(logrel_double(k, x)); }
"""
TORCH["logrel"] = '''\
def logrel(k: Tensor, x: Tensor) -> Tensor:
    """log(1 + k x) / k, by two logarithms where the product overflows."""
    z = k * x
    log = torch.where(z == math.inf, k.abs().log() + x.abs().log(), torch.log1p(z))
    return torch.where(z.abs() < 1e-30, x, log / k)
'''

C["dlogrel"] = """\
/* The derivative of log(1 + k x) / k by k, (x / (1 + z) - log(1 + z) / k) / k with z = k x; near 0 in terms of
   s = z / (2 + z), of which log(1 + z) is 2 atanh(s), and q = (atanh(s) / s - 1) / s^2 = 1/3 + s^2/5 + s^4/7 + ... */
FN real dlogrel(real k, real x) {
    const double c = k, z = c * x, s = z / (2 + z);
    double q = 0;
    if (!(z > -0.75 && z < 4)) return real((1 / (1.0 / x + k) - logrel_double(k, x)) / k);
    for (int n = 46; n > 0; n--) q = q * s * s + 1 / (2 * n + 1.0);
    return real(-x * (1 + (1 / (1 + z) + 2 * s * q)) / (4 * (1 + z) + z * z) * x);
}
"""
TORCH["dlogrel"] = '''\
def dlogrel(k: Tensor, x: Tensor) -> Tensor:
    """The derivative of log(1 + k x) / k by k, (x / (1 + z) - log(1 + z) / k) / k with z = k x; near 0 in terms of
    s = z / (2 + z), of which log(1 + z) is 2 atanh(s), and q = (atanh(s) / s - 1) / s^2 = 1/3 + s^2/5 + s^4/7 + ...
    """
    c, z = k.double(), k.double() * x.double()
    s, q = z / (2 + z), torch.zeros_like(z)
    for n in range(46, 0, -1):
        q = q * s * s + 1 / (2 * n + 1)
    near = -x * (1 + (1 / (1 + z) + 2 * s * q)) / (4 * (1 + z) + z * z) * x
    far = (1 / (1 / x.double() + c) - logrel(c, x.double())) / c
    return torch.where((z > -0.75) & (z < 4), near, far).to(x.dtype)
'''

C["d2logrel"] = """\
/* The second derivative of log(1 + k x) / k by k, (2 (log(1 + z) / k - t) / k - t^2) / k with z = k x, t = x / (1 + z);
   near 0 in terms of s = z / (2 + z), as the first. */
FN real d2logrel(real k, real x) {
    const double c = k, z = c * x, s = z / (2 + z), t = 1 / (1.0 / x + k), i = 1 / (1 + z);
    double q = 0;
    if (!(z > -0.75 && z < 7)) return real((2 * (logrel_double(k, x) - t) / k - t * t) / k);
    for (int n = 74; n > 0; n--) q = q * s * s + 1 / (2 * n + 1.0);
    return real(x * (1 + (i * (2 + i) + 4 * q)) / (8 + z * (12 + z * (6 + z))) * x * x);
}
"""
TORCH["d2logrel"] = '''\
def d2logrel(k: Tensor, x: Tensor) -> Tensor:
    """The second derivative of log(1 + k x) / k by k, (2 (log(1 + z) / k - t) / k - t^2) / k with z = k x,
    t = x / (1 + z); near 0 in terms of s = z / (2 + z), as the first.
    """
    c, z = k.double(), k.double() * x.double()
    s, t, q = z / (2 + z), 1 / (1 / x.double() + c), torch.zeros_like(z)
    for n in range(74, 0, -1):
        q = q * s * s + 1 / (2 * n + 1)
    i = 1 / (1 + z)
    near = x * (1 + (i * (2 + i) + 4 * q)) / (8 + z * (12 + z * (6 + z))) * x * x
    far = (2 * (logrel(c, x.double()) - t) / c - t * t) / c
    return torch.where((z > -0.75) & (z < 7), near, far).to(x.dtype)
'''

NEEDS["logrel"] = ("logrel_double",)
NEEDS["dlogrel"] = NEEDS["d2logrel"] = ("logrel_double", "logrel")
