"""Texts of the scaled complementary error function exp(t**2) erfc(t) and of its first two repeated integrals.

C and torch lack them. For t >= 0 each is a polynomial that interpolates the exact function at the Chebyshev nodes, in
2 t - 1 up to t = 1 and beyond, times (1 + 2 t)**(n + 1), in 1 - 6 / (t + 2), after Shepherd & Laframboise, Chebyshev
approximation of (1 + 2 x) exp(x**2) erfc(x) in 0 <= x < infinity (1981); for t < 0 by erfc(-t) = 2 - erfc(t) and the
recurrence A&S 7.2.5. The coefficients, highest power first, were computed by mpmath in 60 digits and rounded to double.
"""

from __future__ import annotations

C: dict[str, str] = {}
TORCH: dict[str, str] = {}
NEEDS: dict[str, tuple[str, ...]] = {}

LOW: tuple[tuple[float, ...], ...] = (
    (
        6.262771053587241e-13,
        -4.160618845515828e-12,
        2.398689260688562e-11,
        -1.5043598845972197e-10,
        9.22946038936375e-10,
        -5.46249948820386e-09,
        3.130015426527821e-08,
        -1.733000651936447e-07,
        9.245065479322321e-07,
        -4.7371217618120916e-06,
        2.3227251770199672e-05,
        -0.00010849543905811927,
        0.0004801314675678723,
        -0.0019990676151747846,
        0.007760645225970017,
        -0.027751321377647135,
        0.08983648318540813,
        -0.25634441145129333,
        0.6156903441929259,
    ),
    (
        1.7671708700785524e-12,
        -1.1400545005911865e-11,
        6.322454792641818e-11,
        -3.8328020898787255e-10,
        2.2697767246337424e-09,
        -1.2922081093811108e-08,
        7.099995546418325e-08,
        -3.7560112646086566e-07,
        1.9063076069399295e-06,
        -9.245065835050672e-06,
        4.26340936439598e-05,
        -0.0001858180140631403,
        0.0007594680738034562,
        -0.002880788805421583,
        0.009995338075838559,
        -0.031042580903879135,
        0.08325396413294261,
        -0.17967296637081628,
        0.25634441145129333,
    ),
    (
        2.564912810298009e-12,
        -1.6094670849723818e-11,
        8.6010638417085e-11,
        -5.050360952099614e-10,
        2.893812602028435e-09,
        -1.5889683967099477e-08,
        8.397533131549016e-08,
        -4.259986525915811e-07,
        2.0658161940107436e-06,
        -9.531538564897896e-06,
        4.1602793047345044e-05,
        -0.00017053637442909702,
        0.0006503630497964999,
        -0.0022784042214317544,
        0.007201972013502649,
        -0.019990676151675733,
        0.04656387135582045,
        -0.08325396413294264,
        0.08983648318540813,
    ),
)
HIGH: tuple[tuple[float, ...], ...] = (
    (
        -1.6525741884556504e-10,
        -2.608498390875632e-10,
        1.3984480330499803e-09,
        3.5167565358181244e-09,
        -4.89349866082599e-09,
        -2.7011695256879006e-08,
        -3.736451904467977e-09,
        1.6226292217084476e-07,
        2.0501152447913777e-07,
        -8.919534193221389e-07,
        -2.209566007771382e-06,
        5.276227442742804e-06,
        1.9946657977559094e-05,
        -4.294302494683942e-05,
        -0.0001757703976826848,
        0.0005733251951354429,
        0.00117866056976143,
        -0.010437170695549378,
        0.02650923206565457,
        -0.01752790509988198,
        -0.10471583763042186,
        1.2329951186255526,
    ),
    (
        3.010050676658367e-10,
        -1.0934689253792723e-09,
        -4.772679250448946e-09,
        7.491148351130696e-09,
        3.794886401666538e-08,
        -7.89956805033983e-09,
        -2.0650043867115122e-07,
        -1.9199975267929853e-07,
        8.63861076393739e-07,
        2.0045099529696885e-06,
        -2.8438614981759045e-06,
        -1.4318011473165506e-05,
        6.856580671507847e-06,
        9.476604743958454e-05,
        -1.5751267171215685e-05,
        -0.0006569532306308517,
        0.00032667916981577756,
        0.004689421078619415,
        -0.008891822080737162,
        -0.015849565174018945,
        0.08882063970088651,
        -0.12088054175508856,
        -0.1307818987958103,
        1.311531996848369,
    ),
    (
        1.6348199503261622e-09,
        2.7520257767195778e-09,
        -1.3125233337275118e-08,
        -3.276156251680894e-08,
        3.673854542126778e-08,
        1.9822630895531454e-07,
        7.372101290303945e-08,
        -7.880717315579022e-07,
        -1.333891861610879e-06,
        2.007066984563836e-06,
        8.70184625909912e-06,
        -4.778184058618852e-07,
        -4.405581990476619e-05,
        -3.3973794194551705e-05,
        0.0002085901394302265,
        0.000285675977255327,
        -0.0010635151706911339,
        -0.0016318546458641563,
        0.0063862928968111896,
        0.005308631053841779,
        -0.038482579671132035,
        0.018280775942113362,
        0.14899033179794688,
        -0.2975917696456216,
        -0.07281696717843746,
        1.3605752088967977,
    ),
)


def _nested(variable: str, coefficients: tuple[float, ...]) -> str:
    """A polynomial as Horner's scheme, a line for each few terms."""
    first, *rest = coefficients
    lines = [f"s = {first!r};"]
    for k in range(0, len(rest), 3):
        inner = "s"
        for c in rest[k : k + 3]:
            inner = f"({inner} * {variable} + {c!r})"
        lines.append(f"s = {inner[1:-1]};")
    return "\n        ".join(lines)


def _tuples(rows: tuple[tuple[float, ...], ...]) -> str:
    """Rows of numbers as a tuple of tuples, a few numbers a line."""
    lines = ["("]
    for row in rows:
        pieces = [", ".join(map(repr, row[k : k + 4])) for k in range(0, len(row), 4)]
        lines += ["        (", *(f"            {piece}," for piece in pieces), "        ),"]
    return "\n".join([*lines, "    )"])


def _positive(order: int) -> str:
    """The C statements for a >= 0."""
    return f"""double s;
    if (a < 1) {{
        const double y = 2 * a - 1;
        {_nested("y", LOW[order])}
    }} else {{
        const double y = 1 - 6 / (a + 2), d = 1 + 2 * a;
        {_nested("y", HIGH[order])}
        s = s{" / d" * (order + 1)};
    }}"""


C["erfcx_double"] = f"""\
/* exp(t^2) erfc(t), in double. */
FN double erfcx_double(double z) {{
    const double a = fabs(z), q = a * a;
    if (z < -26.7) return INFINITY;
    {_positive(0)}
    return z < 0 ? 2 * exp(q) * (1 + fma(a, a, -q)) - s : s;
}}
"""
C["erfcx"] = """\
/* exp(t^2) erfc(t) */
FN real erfcx(real t) { return real(erfcx_double(t)); }
"""
C["ierfcx"] = f"""\
/* exp(t^2) times the integral of erfc beyond t: -1/2 times the derivative of erfcx. */
FN real ierfcx(real t) {{
    const double a = t;
    if (a < 0) return real(0.5641895835477563 - a * erfcx_double(a));
    {_positive(1)}
    return real(s);
}}
"""
C["i2erfcx"] = f"""\
/* exp(t^2) times the second repeated integral of erfc beyond t: -1/4 times the derivative of ierfcx. */
FN real i2erfcx(real t) {{
    const double a = t;
    if (a < 0) return real((0.25 + 0.5 * a * a) * erfcx_double(a) - 0.28209479177387814 * a);
    {_positive(2)}
    return real(s);
}}
"""

TORCH["erfcx_double"] = f'''\
def erfcx_positive(order: int, a: Tensor) -> Tensor:
    """exp(a^2) times a repeated integral of erfc beyond a >= 0, in double."""
    low = {_tuples(LOW)}[order]
    high = {_tuples(HIGH)}[order]
    d = 1 + 2 * a.clamp(min=1)
    y, p = 2 * a.clamp(max=1) - 1, 0.0
    for c in low:
        p = p * y + c
    y, q = 1 - 6 / (a.clamp(min=1) + 2), 0.0
    for c in high:
        q = q * y + c
    for _ in range(order + 1):
        q = q / d
    return torch.where(a < 1, p, q)


def erfcx_double(z: Tensor) -> Tensor:
    """exp(z^2) erfc(z), in double."""
    a = torch.where(z >= 0, z, -z)
    q = a * a
    e = 2 * torch.exp(q.clamp(max=713)) * (1 + product_error(a, a, q).nan_to_num(0))
    s = erfcx_positive(0, a)
    return torch.where(z < 0, torch.where(z < -26.7, torch.inf, e - s), s)

'''
TORCH["erfcx"] = '''\
def erfcx(t: Tensor) -> Tensor:
    """exp(t^2) erfc(t)"""
    return erfcx_double(t.double()).to(t.dtype)
'''
TORCH["ierfcx"] = '''\
def ierfcx(t: Tensor) -> Tensor:
    """exp(t^2) times the integral of erfc beyond t: -1/2 times the derivative of erfcx."""
    z = t.double()
    below = 0.5641895835477563 - z * erfcx_double(z.clamp(max=0))
    return torch.where(z < 0, below, erfcx_positive(1, z.clamp(min=0))).to(t.dtype)
'''
TORCH["i2erfcx"] = '''\
def i2erfcx(t: Tensor) -> Tensor:
    """exp(t^2) times the second repeated integral of erfc beyond t: -1/4 times the derivative of ierfcx."""
    z = t.double()
    below = (0.25 + 0.5 * z * z) * erfcx_double(z.clamp(max=0)) - 0.28209479177387814 * z
    return torch.where(z < 0, below, erfcx_positive(2, z.clamp(min=0))).to(t.dtype)
'''
NEEDS["erfcx"] = NEEDS["ierfcx"] = NEEDS["i2erfcx"] = ("product_error", "erfcx_double")
