"""Texts of Langevin's function coth(x) - 1/x and its first two derivatives; see `special` for the conventions.

C and torch lack them, and so poles that cancel: in a*coth(a*x) - b*coth(b*x) each is left without one. Up to |x| = 2
they are polynomials in x^2, which interpolate at the Chebyshev nodes; beyond, with e = exp(-2 |x|), coth(|x|) is
(1 + e)/(1 - e) and csch(x)^2 is 4 e/(1 - e)^2. The coefficients, highest power first, were computed by mpmath in 60
digits and rounded to double.
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

_NEAR: tuple[tuple[float, ...], ...] = (
    (
        1.226264871671609e-18,
        -5.379575482996935e-17,
        1.1771844073808955e-15,
        -1.76638302897074e-14,
        2.1242158045114936e-13,
        -2.2672499279835997e-12,
        2.293784339061518e-11,
        -2.2775888620768289e-10,
        2.2504017788951407e-09,
        -2.221423709777458e-08,
        2.1925921717444076e-07,
        -2.1644041524066014e-06,
        2.1377799113804258e-05,
        -0.0002116402116319371,
        0.002116402116401251,
        -0.022222222222222185,
        0.3333333333333333,
    ),
    (
        3.3944437396926244e-17,
        -1.4649235424241904e-15,
        3.1285048751581245e-14,
        -4.528804441231041e-13,
        5.1753611370135626e-12,
        -5.1611819548293787e-11,
        4.801631701760865e-10,
        -4.32420746429111e-09,
        3.825189400654076e-08,
        -3.332080439085003e-07,
        2.8503654368466868e-06,
        -2.3808443269178534e-05,
        0.00019240019115863624,
        -0.0014814814812357073,
        0.010582010581984888,
        -0.0666666666666656,
        0.3333333333333333,
    ),
    (
        -9.396848056861518e-19,
        4.386784643042432e-17,
        -1.0051954854381454e-15,
        1.537085043473411e-14,
        -1.811690902590299e-13,
        1.8099937091221906e-12,
        -1.641457851493549e-11,
        1.4134256522959235e-10,
        -1.1829786852755864e-09,
        9.702545045187504e-09,
        -7.799146344057887e-08,
        6.122118089103224e-07,
        -4.665066958168794e-06,
        3.420447830543419e-05,
        -0.0002380844708001343,
        0.0015392015391875683,
        -0.008888888888887721,
        0.04232804232804229,
        -0.13333333333333333,
    ),
)

# By order: the name, what it is, the value for |x| <= 2 of the polynomial s and for a = |x| > 2, and whether it is odd.
_ROWS = (
    ("langevin", "coth(x) - 1/x", "s * a", "(1 + e) / (1 - e) - 1 / a", True),
    (
        "dlangevin",
        "The derivative of coth(x) - 1/x, 1/x^2 - csch(x)^2",
        "s",
        "1 / a / a - 4 * e / (1 - e) / (1 - e)",
        False,
    ),
    (
        "d2langevin",
        "The second derivative of coth(x) - 1/x, 2 (coth(x) csch(x)^2 - 1/x^3)",
        "s * a",
        "8 * e * (1 + e) / (1 - e) / (1 - e) / (1 - e) - 2 / a / a / a",
        True,
    ),
)


def _horner(coefficients: tuple[float, ...], indent: str, end: str) -> str:
    first, *rest = coefficients
    return "\n".join([f"{indent}s = {first!r}{end}", *[f"{indent}s = s * w + {c!r}{end}" for c in rest]]).lstrip()


for (_name, _what, _near, _far, _is_odd), _coefficients in zip(_ROWS, _NEAR, strict=True):
    C[_name] = f"""\
/* {_what} */
FN real {_name}(real x) {{
    const double a = fabs((double)x), w = a * a, e = exp(-2 * a);
    double s;
    if (a > 2) s = {_far};
    else {{
        {_horner(_coefficients, "        ", ";")}
        s = {_near};
    }}
    return {"real(x < 0 ? -s : s)" if _is_odd else "real(s)"};
}}
"""
    TORCH[_name] = f'''\
def {_name}(x: Tensor) -> Tensor:
    """{_what}"""
    z = x.double()
    w, a = z * z, z.abs().clamp(min=2)
    e = torch.exp(-2 * a)
    {_horner(_coefficients, "    ", "")}
    far = {_far}
    return torch.where(z.abs() > 2, {"torch.where(z < 0, -far, far), s * z" if _is_odd else "far, s"}).to(x.dtype)
'''
