"""Texts of Langevin's function coth(x) - 1/x and its first two derivatives; see `special` for the conventions.

C and torch lack them, and so poles that cancel: in a*coth(a*x) - b*coth(b*x) each is left without one. Up to |x| = 2
they are polynomials in x^2, the second derivative up to |x| = 3 a quotient of two, which interpolate at the Chebyshev
nodes; beyond, with e = exp(-2 |x|), coth(|x|) is (1 + e)/(1 - e) and csch(x)^2 is 4 e/(1 - e)^2. The coefficients,
highest power first, were computed by mpmath in 60 digits and rounded to double.
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
        -7.633853529416265e-15,
        1.8257396531672157e-12,
        -2.2489995302251098e-10,
        -3.1203442118911634e-08,
        -7.413086076956024e-06,
        -0.0002943158505714106,
        -0.009267158341571395,
        -0.13333333333333333,
    ),
)
_DIVISOR = (  # of the last one
    2.4760686905930025e-08,
    3.187402071834964e-06,
    0.00016623565059978123,
    0.004337380177848822,
    0.058386418092650556,
    0.38696400502210304,
    1.0,
)


# By order: the name, what it is, up to which |x| the polynomial s serves, what it gives there of x, what is computed of
# a = |x| beyond, and whether it is odd.
_ROWS = (
    ("langevin", "coth(x) - 1/x", 2, "s * {x}", "(1 + e) / (1 - e) - 1 / a", True),
    (
        "dlangevin",
        "The derivative of coth(x) - 1/x, 1/x^2 - csch(x)^2",
        2,
        "s",
        "1 / a / a - 4 * e / (1 - e) / (1 - e)",
        False,
    ),
    (
        "d2langevin",
        "The second derivative of coth(x) - 1/x, 2 (coth(x) csch(x)^2 - 1/x^3)",
        3,
        "s * {x} / r",
        "8 * e * (1 + e) / (1 - e) / (1 - e) / (1 - e) - 2 / a / a / a",
        True,
    ),
)


def _horner(name: str, coefficients: tuple[float, ...], indent: str, end: str) -> list[str]:
    first, *rest = coefficients
    return [f"{indent}{name} = {first!r}{end}", *[f"{indent}{name} = {name} * w + {c!r}{end}" for c in rest]]


def _lines(order: int, indent: str, end: str) -> str:
    """The polynomial s, and the one that it is divided by."""
    divisor = _horner("r", _DIVISOR, indent, end) if order == 2 else []
    return "\n".join([*_horner("s", _NEAR[order], indent, end), *divisor]).lstrip()


for _order, (_name, _what, _end, _near, _far, _is_odd) in enumerate(_ROWS):
    C[_name] = f"""\
/* {_what} */
FN real {_name}(real x) {{
    const double a = fabs((double)x), w = a * a, e = exp(-2 * a);
    double s{", r" if _order == 2 else ""};
    if (a > {_end}) s = {_far};
    else {{
        {_lines(_order, "        ", ";")}
        s = {_near.format(x="a")};
    }}
    return {"real(x < 0 ? -s : s)" if _is_odd else "real(s)"};
}}
"""
    _beyond = "torch.where(z < 0, -far, far)" if _is_odd else "far"
    TORCH[_name] = f'''\
def {_name}(x: Tensor) -> Tensor:
    """{_what}"""
    z = x.double()
    w, a = z * z, z.abs().clamp(min={_end})
    e = torch.exp(-2 * a)
    {_lines(_order, "    ", "")}
    far = {_far}
    return torch.where(z.abs() > {_end}, {_beyond}, {_near.format(x="z")}).to(x.dtype)
'''
