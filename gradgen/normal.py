"""The normal distribution function Phi, `ndtr`, and the derivative of GELU, Phi(t) + t phi(t), `dgelu`, for the density
phi (Hendrycks & Gimpel, Gaussian Error Linear Units, 2016); see `special` for the conventions.

As erfc(-t/sqrt(2))/2 the one has an argument that is rounded. As a sum the other has lost two units of a float where
its terms cancel and its own derivative vanishes, at -sqrt(2). Both are f(t) = 1 - f(-t), and computed alike: up to a
cut as 1/2 + t (f'(0) + P(t^2)), where nothing that is rounded is much larger than the result; beyond, as r(|t|)
exp(-t^2/2) for t < 0, and 1 less that for t > 0. The polynomial Q of (|t| - k)/(|t| + k), which is exact where r
changes most, is r for `ndtr`, exp(t^2/2) erfc(|t|/sqrt(2))/2, and for `dgelu` r/(|t| + 1), where r is that, less
|t|/sqrt(2 pi). P and Q interpolate at the Chebyshev nodes of the interval, Q up to where a product with the largest
number vanishes; their coefficients, highest power first, were computed by mpmath in 60 digits and rounded to their
type. They are off by 1.4 and 2 units in the last place at every float, times a number by 2.4 and 3.2, or by 1.6 and 2.3
where that is an input of its own, for which the last sums on the way are kept in two parts.
"""

from __future__ import annotations

from dataclasses import dataclass

GONE = {"float": "19.75", "double": "54.05"}  # where the product with the largest number has vanished


@dataclass(frozen=True)
class Function:
    """How one of them is computed.

    Attributes:
        cut: the size of an argument from which on it is by Q; this, and all but the last, for each type.
        middle: k.
        slope: f'(0), rounded; the rest of it is in P.
        near: the coefficients of P.
        far: those of Q.
        grows: whether r is (|t| + 1) Q, not Q.
    """

    cut: dict[str, str]
    middle: dict[str, str]
    slope: dict[str, float]
    near: dict[str, tuple[float, ...]]
    far: dict[str, tuple[float, ...]]
    grows: bool = False


FUNCTIONS: dict[str, Function] = {
    "ndtr": Function(
        cut={"float": "1.25", "double": "1.15"},
        middle={"float": "3", "double": "2.5"},
        slope={"float": 0.3989423, "double": 0.3989422804014327},
        near={
            "float": (
                4.769279e-07,
                -9.062472e-06,
                0.000115039315,
                -0.0011871154,
                0.009973502,
                -0.066490375,
                -1.133517e-08,
            ),
            "double": (
                -1.568559159813433e-13,
                4.930416532811202e-12,
                -1.1265828827753258e-10,
                2.273089830352049e-09,
                -4.1226310350806524e-08,
                6.659691503380903e-07,
                -9.444656186040149e-06,
                0.00011543468759913622,
                -0.0011873282154781259,
                0.009973557010035652,
                -0.06649038006690544,
                -2.49232720227773e-17,
            ),
        },
        far={
            "float": (
                0.00018007973,
                -0.00033740635,
                -0.0010077513,
                0.0029079781,
                0.0061351364,
                -0.046213776,
                0.12322489,
                -0.2064026,
                0.12151395,
            ),
            "double": (
                3.533999519276255e-08,
                -1.8756159031256375e-07,
                3.479014664488223e-07,
                -2.2983055460266123e-07,
                1.131205885612881e-08,
                6.418502491915154e-08,
                -2.1566879640445638e-07,
                -1.0251461704496289e-07,
                2.8857843065994256e-07,
                8.685321591921031e-07,
                8.245004071970892e-07,
                -1.5336998824975942e-06,
                -6.06558979661169e-06,
                -5.389268270586626e-06,
                1.4931356963685825e-05,
                4.8861124452207835e-05,
                1.2336010015681823e-05,
                -0.0002166850604433446,
                -0.00035579135665181653,
                0.0008326337114813288,
                0.002953003076410053,
                -0.005125840001527533,
                -0.024549620777230247,
                0.11313588406989424,
                -0.228069759749972,
                0.1413313313805753,
            ),
        },
    ),
    "dgelu": Function(
        cut={"float": "0.8", "double": "0.8"},
        middle={"float": "1.5", "double": "1.5"},
        slope={"float": 0.7978846, "double": 0.7978845608028654},
        near={
            "float": (
                -9.6867356e-05,
                0.0011428137,
                -0.009494848,
                0.05984078,
                -0.2659615,
                -2.267034e-08,
            ),
            "double": (
                9.595582856678337e-11,
                -2.235814398011886e-09,
                4.0902847227914537e-08,
                -6.5961584024661e-07,
                9.323567192129566e-06,
                -0.00011333587429614136,
                0.0011543468760496524,
                -0.009498625723834697,
                0.059841342060214534,
                -0.26596152026762176,
                -4.98465440455546e-17,
            ),
        },
        far={
            "float": (
                -0.00032546985,
                0.00027610097,
                0.00055844104,
                0.0012952484,
                -0.0017481567,
                -0.00017135042,
                -0.049573313,
                0.20639125,
                -0.39859253,
                -0.1570531,
            ),
            "double": (
                6.926076364311984e-06,
                -4.557151621477968e-05,
                0.00012624870018765674,
                -0.00019063201638829075,
                0.00016547327130301862,
                -6.805062219861614e-05,
                -1.2760636091147609e-05,
                2.6549416489836023e-05,
                -1.1769352183766844e-05,
                -1.8993231465716666e-07,
                7.410880685773792e-06,
                9.498044520363532e-06,
                9.836576333286991e-06,
                -4.257369092476866e-06,
                -4.152477875214737e-05,
                -8.903217670764633e-05,
                -8.5237262306202e-05,
                0.00012695677654905903,
                0.0005609489053202937,
                0.0013199423424224827,
                -0.0017532630099422537,
                -0.00017238856613551034,
                -0.04957299690585211,
                0.20639125486673984,
                -0.39859255066424587,
                -0.15705310144990173,
            ),
        },
        grows=True,
    ),
}


def literals(coefficients: tuple[float, ...], real: str) -> list[str]:
    """Coefficients as C has them, lowest power first."""
    return [literal(c, real) for c in reversed(coefficients)]


def literal(number: float, real: str) -> str:
    """A number as C has it."""
    return f"{number!r}f" if real == "float" else repr(number)


def _tuple(numbers: tuple[float, ...]) -> str:
    """Numbers as a tuple, a few a line."""
    pieces = [", ".join(map(repr, numbers[k : k + 4])) for k in range(0, len(numbers), 4)]
    return "\n".join(["(", *(f"        {piece}," for piece in pieces), "    )"])


C: dict[str, str] = {
    "gaussian": """\
/* exp(-t^2/2) */
FN real gaussian(real t) { return gg_gaussian(t); }
""",
}
TORCH: dict[str, str] = {
    "gaussian": '''\
def gaussian(t: Tensor) -> Tensor:
    """exp(-t**2 / 2)"""
    return torch.exp(-0.5 * (t * t))
''',
}
NEEDS: dict[str, tuple[str, ...]] = {}

_ALONE = {"ndtr": "GG_SELF(gg_gelu, r, t, {})"}
_WHAT = {"ndtr": "The normal distribution function.", "dgelu": "The derivative of t ndtr(t)."}

for _name, _f in FUNCTIONS.items():
    NEEDS[f"mul_{_name}"] = ("mul_exp", "product_error")
    C[f"mul_{_name}"] = f"""\
/* r * {_name}(t), 0 where it is for every number r. */
FN real mul_{_name}(GG_OPERAND r, GG_OPERAND t) {{ return {_ALONE.get(_name, "{}").format(f"gg_mul_{_name}(r, t)")}; }}
"""
    TORCH[f"mul_{_name}"] = f'''\
def mul_{_name}(r: Tensor, t: Tensor) -> Tensor:
    """r * {_name}(t), 0 where it is for every number r."""
    of_p = {_tuple(_f.near["double"])}
    of_q = {_tuple(_f.far["double"])}
    s, r = t.double(), r.double()
    within, a = s.clamp(-{_f.cut["double"]}, {_f.cut["double"]}), torch.where(s >= 0, s, -s).clamp(max={GONE["double"]})
    square, y, p, q = a * a, (a - {_f.middle["double"]}) / (a + {_f.middle["double"]}), 0.0, 0.0
    lost = 0.5 * product_error(a, a, square)
    for c in of_p:
        p = p * (within * within) + c
    for c in of_q:
        q = q * y + c
    q = {"q * a + (q - (a + 1) * q * lost)" if _f.grows else "q - q * lost"}
    tail = mul_exp(torch.where(s < 0, r, 1.0) * q, -0.5 * square)
    near = (0.5 + {_f.slope["double"]} * within) + within * p
    far = torch.where(s < 0, tail, r * (1 - tail))
    return torch.where(a < {_f.cut["double"]}, r * near, far).to(t.dtype)
'''
    NEEDS[_name] = (*NEEDS[f"mul_{_name}"], f"mul_{_name}")
    C[_name] = f"""\
/* {_WHAT[_name]} */
FN real {_name}(real t) {{ return {"gg_dgelu(t)" if _name == "dgelu" else f"gg_mul_{_name}(real(1), t)"}; }}
"""
    TORCH[_name] = f'''\
def {_name}(t: Tensor) -> Tensor:
    """{_WHAT[_name]}"""
    return mul_{_name}(torch.ones_like(t), t)
'''
