"""The functions of the C library and of torch that kernels call are no worse than the table says they are."""

from __future__ import annotations

import ctypes
import math
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from generated import _runtime
from gradgen import erfcx, error_free, exprel, function_errors, half_turns, langevin, normal, scaled, special
from gradgen.evaluate import function
from gradgen.primitives import MARKS, PRIMITIVES
from gradgen.ulp import mixed_error

# Those that come from elsewhere; gradgen's own are held against mpmath in `test_special`.
OF_ONE = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt", "sqrt",
]  # fmt: skip
OF_TWO = ["pow", "hypot", "atan2"]
NAMES = [*OF_ONE, *OF_TWO]
EXACT = {"sqrt": mpmath.sqrt}  # what is no primitive of its own

# Where not what the table says: glibc's cbrt is followed by a step of Newton's, and no model knows
# that torch's square root is not correctly rounded on every CPU.
ALLOWED_OF_C = {"cbrt": 4.0, "sqrt": 0.5}
ALLOWED_OF_TORCH = {"sqrt": 0.8}
# gradgen's own where a multiply-add is fused, the C library's elsewhere
OWN_WHERE_FUSED = ["exp2", "sinh", "cosh", "atan", "asin", "acos", "asinh", "acosh", "atanh"]
OF_TWO_WHERE_FUSED = ["pow", "hypot", "atan2"]
WITHIN_THE_COMPILER = ("expm1", "atanh", "erf")  # gradgen's own there alone

# What else the kernels call: it selects or rounds, and has no error.
C_EXACT = {"ceil", "copysign", "fabs", "floor", "fma", "gg_bits_of_double", "gg_double_of", "isinf", "rint"}
C_WORDS = {"real", "sizeof", "for", "if", "return", "while", "GG_OVER", "GG_OVER_SQUARE"}  # which are quotients
TORCH_EXACT = {
    "abs", "broadcast_tensors", "ceil", "clamp", "copysign", "floor", "full_like", "maximum", "minimum", "ones_like",
    "round", "sgn", "where", "zeros_like",
}  # fmt: skip
# Held against mpmath as the whole of one of gradgen's own
NORMAL = ["gg_mul_ndtr", "gg_mul_dgelu", "gg_mul_dswish"]  # in `test_normal`, as are these
LIFTED = ["gg_lift_ndtr", "gg_lift_dgelu"]
PRODUCTS = ["gg_mul_exp", *NORMAL, *LIFTED]
C_INSIDE = {"gg_cbrt", "gg_dgelu", "gg_gaussian", "gg_mul_erfc", "gg_log1p_unit", "gg_mul_logistic_density", *PRODUCTS}
C_INSIDE |= {"gg_near_sine"}  # in `test_sines`
C_INSIDE |= {"gg_dswish", "gg_logistic_density", "gg_mul_sigmoid", "GG_SELF"}  # in `test_alone`
C_INSIDE |= {"gg_dgate"}  # in `test_gates`
TORCH_INSIDE = {"lgamma": "loggamma"}

DOMAIN = {
    "asin": 1.0, "acos": 1.0, "atanh": 0.999, "exp": 700.0, "exp2": 1000.0, "expm1": 700.0, "erfc": 26.0,
    "sinh": 700.0, "cosh": 700.0,
}  # fmt: skip
# Where the error is largest among six million inputs: of C's float, of C's double, of torch's float
WORST = {
    "exp": (
        0.359539866,
        0.35022665374938988,
        -0.01462313998490572,
        -0.1272241201122202,
        -0.002710402710363269,
        48.874073,
        -5.1887269,
        -691.40914778020704,
        0.35237122314600744,
    ),
    "exp2": (-0.020978152751922607, -0.0046095744612860189, 0.4974871277809143),
    "expm1": (
        0.3472842276096344,
        0.3489068471989093,
        -16.635643005371094,
        0.35661129046960838,
        8.54792063e-44,
        -2.3059280373510987e-308,
        17.1180515,
        37.106004591847238,
    ),
    "log": (
        0.54198670387268066,
        0.55152530845431658,
        2.638934850692749,
        1.4108125,
        1.4107255537368013,
        0.70288733556841654,
    ),
    "log1p": (
        -0.29470676183700562,
        0.40518351669077224,
        -0.27953046560287476,
        0.406671137,
        -0.29850167542578643,
        -0.30051282862043938,
    ),
    "log2": (0.2711239755153656, 0.31231119031844112, 0.2651251554489136),
    "log10": (3.9877798557281494, 0.50025675985962725, 0.4249979257583618),
    "sin": (-0.25259795784950256, -0.17533210780863348, -1.4940361976623535),
    "cos": (-0.7855876088142395, -0.88049533085609633, 0.07183379679918289),
    "tan": (-0.63255482912063599, 0.060805902247979736, 0.23629501461982727),
    "asin": (-0.50094687938690186, -0.1992529992304195, -0.5371224880218506),
    "acos": (-0.51880782842636108, 0.6287722352177193, -0.5399315357208252),
    "atan": (0.70547431707382202, -0.12327096905707338, -0.37983381748199463),
    "sinh": (0.73841416835784912, 0.72295056816049197, 0.24042817950248718),
    "cosh": (1.2263373136520386, 1.2446160347104289, -1.4469205141067505),
    "tanh": (0.23412507772445679, 0.23200626343459874, 4.184535026550293, -0.00776717532, -0.030853288033621418),
    "asinh": (0.24746453762054443, 0.25249877294511119, 0.5009855628013611),
    "acosh": (1.6895630359649658, 1.7742645189776867, 1.7541230916976929),
    "atanh": (0.12296341359615326, -0.1230842778306786, 0.1932900846004486),
    "erf": (
        -0.84258902072906494,
        0.052382346278503765,
        0.013698810711503029,
        -1.00952029,
        1.03304935,
        0.97147088523966829,
        -1.0020065726906195,
    ),
    "erfc": (
        0.7836449146270752,
        0.84119648598454533,
        -0.03839481249451637,
        1.02790236,
        1.03304935,
        0.99504643291404093,
        1.016502757861184,
    ),
    "cbrt": (0.0078187920153141022, -0.0001808108719403893),
    "sqrt": (0.003903235075995326,),
    "pow": ((0.97870486974716187, 0.3333333432674408), (0.81437551750820814, 1 / 3), (5.861138e32, 0.0039423359558)),
    "hypot": ((2.3253021212634069e-14, -1.2722195692760341e-11), (-1.5725531675197416e-37, -6.005267371460932e-38)),
    "atan2": ((2.7124333326673151e28, 1.0823174741569602e29), (-4.5088367507871745e21, 4.277462349606178e21)),
}
COUNT = {"float32": 400, "float64": 200}
COUNT_OF_TWO = {"float32": 1200, "float64": 800}
TYPES = {"float32": np.float32, "float64": np.float64}
LARGEST = {"float32": 126, "float64": 1022}  # a power of two


def exact(name: str, *x: mpf) -> mpf:
    return EXACT[name](*x) if name in EXACT else function(name, *x)


def allowed(name: str, dtype: str, others: Mapping[str, float]) -> float:
    if name in others:
        return others[name]
    return PRIMITIVES[name].double_ulps if dtype == "float64" else PRIMITIVES[name].ulps


# Which functions there are

MODULES = (special, error_free, function_errors, normal, scaled, erfcx, half_turns, exprel, langevin)


def test_no_c_text_calls_another_function() -> None:
    texts = "\n".join(text for module in MODULES for text in module.C.values())
    texts = re.sub(r"/\*.*?\*/", "", texts, flags=re.DOTALL)
    own = set(re.findall(r"FN \w+ (\w+)\(", texts))
    spelled = " ".join(row.c for row in PRIMITIVES.values() if row.name not in MARKS)
    called = set(re.findall(r"(\w+)\(", f"{texts} {spelled}"))
    assert called - own - C_WORDS == {*NAMES} | C_EXACT | C_INSIDE


def test_no_torch_text_calls_another_function() -> None:
    texts = "\n".join(text for module in MODULES for text in module.TORCH.values())
    texts = re.sub(r'""".*?"""', "", texts, flags=re.DOTALL)
    spelled = " ".join(row.torch for row in PRIMITIVES.values() if row.name not in MARKS)
    called = set(re.findall(r"torch\.(?:special\.)?(\w+)\(", f"{texts} {spelled}"))
    assert called == ({*NAMES} - {"cbrt"}) | TORCH_EXACT | TORCH_INSIDE.keys()
    assert all(PRIMITIVES[name].torch_source for name in TORCH_INSIDE.values())


# What their errors are


@pytest.fixture(scope="module", params=[(), _runtime._FOR_THIS_PROCESSOR], ids=["plain", "native"])
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """For instructions that each machine has, and for those of this one."""
    if compiler() is None:
        pytest.skip("no C compiler")
    found: tuple[str, ...] = request.param
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, flags: tuple[str, ...]) -> ctypes.CDLL:
    """What kernels call: gradgen's own in place of some of the C library's."""
    return compiled(tmp_path_factory.mktemp("library"), flags)


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def compiled(folder: Path, flags: Sequence[str], brief: str = "") -> ctypes.CDLL:
    """The functions of NAMES, each of arrays, as kernels have them; `brief` is the text of those with few digits."""
    lines = ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", "#include <tgmath.h>"]
    lines += ["#define FN static inline", _runtime._BITS, brief, _runtime._MATH, _runtime._ELEMENTARY]
    lines += ["#ifndef gg_cbrt", "#define gg_cbrt(x) cbrt(x)", "#endif"]
    for name in [*NAMES, "gg_log1p_unit", "gg_cbrt", *PRODUCTS]:
        for real, dtype in (("float", "float32"), ("double", "float64")):
            more = f"const {real} *y, " if name in (*OF_TWO, *PRODUCTS) else ""
            lines.append(
                f"void {name}_{dtype}(const {real} *x, {more}{real} *out, long n) "
                f"{{ for (long i = 0; i < n; i++) out[i] = {name}(x[i]{', y[i]' if more else ''}); }}"
            )
    source, target = folder / "f.c", folder / "f.so"
    source.write_text("\n".join(lines) + "\n")
    own = [flag for flag in _runtime._C_FLAGS if not flag.startswith("-fno-builtin")]
    subprocess.run([str(compiler()), *own, *flags, source, "-o", target, "-lm"], check=True)
    return ctypes.CDLL(str(target))


def inputs(name: str, dtype: str) -> list[np.ndarray]:
    """An array for each argument: every exponent alike, ordinary and others, where the function is defined."""
    make = {"pow": _powers, "hypot": _vectors, "atan2": _vectors}.get(name)
    randoms = random.Random(name)
    if make is None:
        return [np.array([*WORST[name], *_numbers(name, dtype, randoms)], dtype=TYPES[dtype])]
    pairs = [*WORST[name], *(make(randoms, LARGEST[dtype]) for _ in range(COUNT_OF_TWO[dtype]))]
    return [np.array(column, dtype=TYPES[dtype]) for column in zip(*pairs, strict=True)]


def _numbers(name: str, dtype: str, randoms: random.Random) -> list[float]:
    most = DOMAIN.get(name, np.inf)
    found: list[float] = []
    while len(found) < COUNT[dtype]:
        x = randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(-30, 20 if randoms.random() < 0.3 else 4)
        x = min(max(x, -most), most)
        is_positive = name == "sqrt" or (name.startswith("log") and name != "log1p")
        x = abs(x) + 1 if name == "acosh" else abs(x) if is_positive else x
        grows = name in ("exp", "exp2", "sinh", "cosh")
        if not (name == "log1p" and x <= -1) and not (grows and dtype == "float32" and abs(x) > 80):
            found.append(x)
    return found


def _powers(randoms: random.Random, largest: int) -> tuple[float, float]:
    """A base of any size, or near 1, and an exponent so large that the power just is a number, or a common one."""
    distance = 2.0 ** randoms.uniform(-20, -1) * randoms.choice([-1, 1])
    base = 1 + distance if randoms.random() < 0.4 else 2.0 ** randoms.uniform(-largest, largest)
    most = largest / max(abs(np.log2(base)), 2.0**-20)
    if randoms.random() < 0.2:
        whole = randoms.choice([-7, -5, 5, 6, 7, 11])
        return -base if abs(whole) < most else base, min(whole, int(most))
    if randoms.random() < 0.3:
        return base, min(randoms.choice([1 / 3, 1.5, 2 / 3, 2.5, -1.5, -1 / 3]), most)
    return base, randoms.choice([-1, 1]) * most * randoms.choice(
        [1.0, randoms.random(), 2.0 ** randoms.uniform(-20, 0)]
    )


def _vectors(randoms: random.Random, largest: int) -> tuple[float, float]:
    """Of all quadrants: alike, of equal size, a little or very different, and beside the axes."""
    size = 2.0 ** randoms.uniform(2 - largest, largest - 2)
    ratio = randoms.choice([1.0, 2.0 ** randoms.uniform(-2, 2), 2.0 ** randoms.uniform(-40, 40)])
    other = min(max(size * ratio, 2.0 ** (2 - largest)), 2.0 ** (largest - 2))
    return randoms.choice([-1, 1]) * size, randoms.choice([-1, 1]) * other


def worst(name: str, dtype: str, compute: Callable[..., np.ndarray]) -> tuple[float, tuple[float, ...]]:
    """The largest error, where the result is normal and finite, and where it is."""
    arrays = inputs(name, dtype)
    found: tuple[float, tuple[float, ...]] = (0.0, ())
    rows = zip(*(x.tolist() for x in arrays), compute(*arrays).tolist(), strict=True)
    with mpmath.workprec(200):
        for *at, got in rows:
            x = [mpf(value) for value in at]
            value = exact(name, *x)
            moved = [[*x[:i], x[i] * (1 + mpf(2) ** -60), *x[i + 1 :]] for i in range(len(x))]
            changes = [abs(exact(name, *near) - value) for near in moved]
            scale = max((change for change in changes if not mpmath.isnan(change)), default=mpf(0)) * mpf(2) ** 60
            found = max(found, (mixed_error(got, value, scale, dtype), tuple(at)))
    return found


def of_c(name: str, dtype: str, library: ctypes.CDLL) -> Callable[..., np.ndarray]:
    def compute(*arrays: np.ndarray) -> np.ndarray:
        out = np.empty_like(arrays[0])
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (*arrays, out)]
        getattr(library, f"{name}_{dtype}")(*pointers, ctypes.c_long(out.size))
        return out

    return compute


def of_torch(name: str) -> Callable[..., np.ndarray]:
    text = PRIMITIVES[name].torch if name in PRIMITIVES else f"torch.{name}({{0}})"
    scope: Mapping[str, object] = {"torch": torch, "rt": _runtime}

    def compute(*arrays: np.ndarray) -> np.ndarray:
        names = "xy"[: len(arrays)]
        tensors = dict(zip(names, map(torch.from_numpy, arrays), strict=True))
        result: np.ndarray = eval(text.format(*names), dict(scope), tensors).numpy()
        return result

    return compute


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_of_the_c_library(name: str, dtype: str, library: ctypes.CDLL) -> None:
    error, at = worst(name, dtype, of_c(name, dtype, library))
    assert error <= allowed(name, dtype, ALLOWED_OF_C), at


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "name",
    [n for n in NAMES if n not in PRIMITIVES or not PRIMITIVES[n].torch_source or n in WITHIN_THE_COMPILER],
)
def test_of_torch(name: str, dtype: str) -> None:
    error, at = worst(name, dtype, of_torch(name))
    assert error <= allowed(name, dtype, ALLOWED_OF_TORCH), at


@pytest.mark.parametrize("dtype", TYPES)
def test_products_near_the_ends_of_a_type(dtype: str, library: ctypes.CDLL) -> None:
    """None of its factors makes r exp(t) overflow, or lose digits, on the way; of any t."""
    limits = np.finfo(dtype)
    t = np.linspace(-1, 1, 20001).astype(dtype) * {"float32": 194, "float64": 1456}[dtype]
    t = np.concatenate([t, np.linspace(-3, 3, 20001).astype(dtype)]).astype(np.longdouble)
    for aim in (
        0.99 * limits.max,
        0.7 * limits.max,
        0.51 * limits.max,
        limits.tiny,
        1.3 * limits.tiny,
        2.1 * limits.tiny,
    ):
        with np.errstate(all="ignore"):
            r = (aim / np.exp(t)).astype(dtype)
            exact = r.astype(np.longdouble) * np.exp(t)
        use = (abs(r) >= limits.tiny) & np.isfinite(r) & (exact < limits.max)
        found = of_c("gg_mul_exp", dtype, library)(r[use], t[use].astype(dtype)).astype(np.longdouble)
        unit = np.ldexp(np.longdouble(1), np.frexp(np.maximum(exact[use], limits.tiny))[1] - 1 - limits.nmant)
        assert use.sum() > 100
        assert (abs(found - exact[use]) <= 1.6 * unit).all(), aim


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "erf", "erfc", "gg_cbrt", *OWN_WHERE_FUSED])
def test_own_functions_at_the_ends(name: str, dtype: str, library: ctypes.CDLL) -> None:
    """Where the C library's branch: infinities, zeros with their signs, poles, what overflows, what is subnormal."""
    largest, tiny = np.finfo(dtype).max, np.finfo(dtype).tiny
    sizes = [
        0.0,
        tiny,
        tiny / 8,
        tiny * 2.0 ** -(np.finfo(dtype).nmant),
        1.0,
        2.0,
        88.8,
        104.0,
        127.9,
        150.5,
        709.9,
        710.4,
        746.0,
        1023.9,
        1075.5,
        largest,
        np.inf,
    ]
    x = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    inverse = name.replace("a", "arc", 1) if name.startswith("a") else name.removeprefix("gg_")
    with np.errstate(all="ignore"):
        compute = getattr(np, inverse, None) or np.vectorize(getattr(math, name), [np.float64])
        exact = compute(x.astype(np.longdouble if hasattr(np, inverse) else np.float64)).astype(dtype)
    assert_alike(of_c(name, dtype, library)(x), exact)


def assert_alike(got: np.ndarray, exact: np.ndarray) -> None:
    """The same infinities, zeros with their signs, and what is no number; others but for two units."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(exact[exact == 0]))
    np.testing.assert_array_almost_equal_nulp(got[np.isfinite(exact)], exact[np.isfinite(exact)], 2)
    np.testing.assert_array_equal(got[np.isinf(exact)], exact[np.isinf(exact)])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", OF_TWO_WHERE_FUSED)
def test_own_functions_of_two_at_the_ends(name: str, dtype: str, library: ctypes.CDLL) -> None:
    """Of all pairs of numbers of any size and sign, whole, odd and half ones, zeros, infinities and no number."""
    info = np.finfo(dtype)
    sizes = [0.0, info.smallest_subnormal, info.tiny, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 1e10, 2.0**23 + 1, 2.0**31]
    sizes += [2.0**24 + 2, 2.0**52 + 1, 2.0**53 + 2, 2.0**60, float(info.max), np.inf]
    some = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    x, y = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        compute = {"pow": np.power, "hypot": np.hypot, "atan2": np.arctan2}[name]
        exact = compute(x.astype(np.longdouble), y.astype(np.longdouble)).astype(dtype)
    assert_alike(of_c(name, dtype, library)(x, y), exact)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_logarithm_of_softplus(dtype: str, library: ctypes.CDLL) -> None:
    """log(1 + x) for 0 <= x <= 1, most of the numbers on either side of 1/2 and below 1, where it is off by most."""
    randoms, tiny = np.random.default_rng(0), float(np.finfo(dtype).tiny)
    sizes = [[0.0, tiny / 4, tiny, 0.5, 1.0], 2.0 ** -randoms.uniform(0, 60, 1000), randoms.uniform(0.3, 1, 20_000)]
    x = np.concatenate(sizes).astype(dtype)
    got = of_c("gg_log1p_unit", dtype, library)(x)
    with mpmath.workprec(120):
        exact = [mpmath.log1p(mpf(value)) for value in x.tolist()]
        off = [mixed_error(g, e, mpf(0), dtype) for g, e in zip(got.tolist(), exact, strict=True)]
    assert max(off) <= 1, x[np.argmax(off)]
    assert got[0] == 0
    assert not np.signbit(got[0])
    assert np.isnan(of_c("gg_log1p_unit", dtype, library)(np.array([np.nan], dtype)))


@pytest.mark.parametrize(("dtype", "real", "most"), [("float32", "float", 2.0**-20), ("float64", "double", 2.0**-35)])
def test_functions_with_few_digits(dtype: str, real: str, most: float, flags: tuple[str, ...], tmp_path: Path) -> None:
    """As kernels of types of 16 bits have them, and those of float32 in double; `test_cuda.py` has more numbers."""
    library, randoms = compiled(tmp_path, flags, _runtime._BRIEF[real]), np.random.default_rng(0)
    sizes = np.concatenate([2.0 ** randoms.uniform(-40, 10, 300), randoms.uniform(0, 8, 300)])
    far = {"float32": 80, "float64": 700}[dtype]
    for name in ("exp", "expm1", "tanh", "erf", "erfc", "gg_log1p_unit"):
        x = randoms.uniform(0, 1, 600) if name == "gg_log1p_unit" else np.concatenate([sizes, -sizes])
        x = x[np.abs(x) < (far if name in ("exp", "expm1") else 9 if dtype == "float32" else 26)].astype(TYPES[dtype])
        got = of_c(name, dtype, library)(x)
        with mpmath.workprec(120):
            right = [mpmath.log1p(mpf(v)) if name.startswith("gg") else exact(name, mpf(v)) for v in x.tolist()]
            off = np.array([float(abs(mpf(g) / r - 1)) for g, r in zip(got.tolist(), right, strict=True)])
        rounding = np.finfo(TYPES[dtype]).eps / 2
        of_square = rounding * x.astype(np.float64) ** 2 if name == "erfc" else 0 * x  # the exponent is a rounded one
        assert (off <= most + of_square).all(), (name, x[np.argmax(off - of_square)])
        assert off.max() > rounding, name  # it is these that are called
