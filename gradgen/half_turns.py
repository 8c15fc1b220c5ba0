"""Texts of sine, cosine and sinc of pi times a number, which is reduced exactly; see `special` for the conventions.

pi x itself is rounded, and of a large x no digit of sin(pi x) is left. x - 2 round(x/2) is exact.
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

C["sin_pi"] = """\
/* sin(pi x), by the nearest half turns; 0 with the sign of x where x is whole. */
FN real sin_pi(real x) {
    const real r = x - 2 * rint(x / 2);
    const real t = fabs(r) > real(0.5) ? copysign(real(1), r) - r : r;
    return t == 0 ? 0 * x : gg_near_sine(real(3.141592653589793) * t, 0);
}
"""
TORCH["sin_pi"] = '''\
def sin_pi(x: Tensor) -> Tensor:
    """sin(pi x), by the nearest half turns; 0 with the sign of x where x is whole."""
    r = x - 2 * torch.round(x / 2)
    t = torch.where(r.abs() > 0.5, torch.sgn(r) - r, r)
    return torch.where(t == 0, 0 * x, torch.sin(math.pi * t))
'''

C["cos_pi"] = """\
/* cos(pi x), by the nearest half turns. */
FN real cos_pi(real x) {
    const real r = fabs(x - 2 * rint(x / 2));
    return gg_near_sine(real(3.141592653589793) * (real(0.5) - r), 0);
}
"""
TORCH["cos_pi"] = '''\
def cos_pi(x: Tensor) -> Tensor:
    """cos(pi x), by the nearest half turns."""
    r = (x - 2 * torch.round(x / 2)).abs()
    return torch.sin(math.pi * (0.5 - r))
'''

C["sinc_pi"] = """\
/* sin(pi x) / (pi x) */
FN real sinc_pi(real x) {
    const real u = real(3.141592653589793) * x, within = fabs(x) < real(0.5) ? u : real(0);
    const real near = sinc_of(within, gg_near_sine(within, 0)), far = isinf(x) ? real(0) : sin_pi(x) / u;
    return fabs(x) < real(0.5) ? near : far;
}
"""
TORCH["sinc_pi"] = '''\
def sinc_pi(x: Tensor) -> Tensor:
    """sin(pi x) / (pi x)"""
    u = math.pi * x
    return torch.where(x.abs() < 0.5, sinc(u), torch.where(x.isinf(), 0.0, sin_pi(x) / u))
'''
NEEDS["sinc_pi"] = ("sin_pi", "sinc")

_REDUCED = """\
    const double z = x, pi = 3.141592653589793, r = z - 2 * rint(z / 2);
    const double t = fabs(r) > 0.5 ? copysign(1.0, r) - r : r;
    const double sine = gg_near_sine(pi * t, 0) / pi / z, cosine = gg_near_sine(pi * (0.5 - fabs(r)), 0);"""

C["dsinc_pi"] = f"""\
/* The derivative of sin(pi x) / (pi x). */
FN real dsinc_pi(real x) {{
{_REDUCED}
    const double near = pi * dsinc_of(pi * z, 0, 0), far = isinf(z) ? 0 : (cosine - sine) / z;
    return real(fabs(z) < 0.5 ? near : far);
}}
"""
TORCH["dsinc_pi"] = '''\
def dsinc_pi(x: Tensor) -> Tensor:
    """The derivative of sin(pi x) / (pi x)."""
    z = x.double()
    far = torch.where(z.isinf(), 0.0, (cos_pi(z) - sinc_pi(z)) / z)
    return torch.where(z.abs() < 0.5, math.pi * dsinc(math.pi * z), far).to(x.dtype)
'''
NEEDS["dsinc_pi"] = ("dsinc", "sin_pi", "cos_pi", "sinc", "sinc_pi")

C["d2sinc_pi"] = f"""\
/* The second derivative of sin(pi x) / (pi x). */
FN real d2sinc_pi(real x) {{
{_REDUCED}
    const double u = fabs(z) < 0.95 ? pi * z : 0;
    const double near = pi * pi * d2sinc_of(u, gg_near_sine(u, 0), gg_near_sine(u, 1));
    const double far = isinf(z) ? 0 : -pi * pi * sine - 2 * (cosine - sine) / z / z;
    return real(fabs(z) < 0.95 ? near : far);
}}
"""
TORCH["d2sinc_pi"] = '''\
def d2sinc_pi(x: Tensor) -> Tensor:
    """The second derivative of sin(pi x) / (pi x)."""
    z = x.double()
    u = torch.where(z.abs() < 0.95, 1.0, z)  # autograd would meet 0/0
    sine = sinc_pi(u)
    far = torch.where(z.isinf(), 0.0, -(math.pi**2) * sine - 2 * (cos_pi(u) - sine) / u / u)
    return torch.where(z.abs() < 0.95, math.pi**2 * d2sinc(math.pi * z), far).to(x.dtype)
'''
NEEDS["d2sinc_pi"] = ("d2sinc", "sin_pi", "cos_pi", "sinc", "sinc_pi")
