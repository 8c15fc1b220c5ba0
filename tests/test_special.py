"""The functions that gradgen brings itself, in C (float and double) and in torch, against mpmath in mixed ULPs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import operator
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from mpmath import inf, mpf, nan

from generated import _runtime
from gradgen import erfcx, error_free, exprel, half_turns, langevin, special
from gradgen.primitives import PRIMITIVES

_MODULES = (special, erfcx, half_turns, exprel, langevin)
C_TEXTS, TORCH, NEEDS = (
    functools.reduce(operator.or_, dicts)
    for dicts in zip(*((module.C, module.TORCH, module.NEEDS) for module in _MODULES), strict=True)
)
HELPERS = {part for parts in NEEDS.values() for part in parts} - PRIMITIVES.keys()
BAR = 4.0
BEYOND_THE_BAR = {"gamma", "loggamma", "bessel_j", "bessel_y"}  # in float64, as docs/accuracy.md says
# What torch's may be off by beyond what the table says; the terms of Bessel functions are not corrected there
ABOVE = {"gamma": 0.1, "bessel_ie": 20.0}
POINTS = 20  # per stratum and function
MANY, MANY_SLOW = 3000, 600  # float64 numbers of each function, and of one that takes mpmath long

FLOAT, DOUBLE = np.float32, np.float64
TYPES = {FLOAT: "float", DOUBLE: "double"}
# Where C spells a function otherwise than its key
C_NAMES = {"erfinv": "erf_inverse", "gamma": "gamma_fn", "cbrt": "cube_root"}

PRELUDE = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <tgmath.h>
typedef {type} real;
#define real(x) ((real) (x))
#define FN static inline
#define GG_OVER(a, b) ((a) / (b))
#define GG_OVER_SQUARE(a, e) ((a) / (1 + (e) * (2 + (e))))
#define gg_log1p_unit log1p
#define gg_logistic_density(x) GG_OVER_SQUARE(exp(-fabs(x)), exp(-fabs(x)))
#define gg_near_sine(x, k) ((k) ? cos(x) : sin(x))
"""
CUDA_PRELUDE = """\
typedef {type} real;
#define FN static __device__ __forceinline__
#define GG_OVER(a, b) ((a) / (b))
#define GG_OVER_SQUARE(a, e) ((a) / (1 + (e) * (2 + (e))))
#define gg_log1p_unit log1p
#define gg_logistic_density(x) GG_OVER_SQUARE(exp(-fabs(x)), exp(-fabs(x)))
#define gg_near_sine(x, k) ((k) ? cos(x) : sin(x))
#define NAN __int_as_float(0x7fc00000)
#define INFINITY __int_as_float(0x7f800000)
"""

# Exact values, each with the scale of the mixed error: the largest |x . derivative by x|

Exact = tuple[Any, Any]


def _of(f: Callable[[Any], Any], derivative: Callable[[Any], Any]) -> Callable[[Any], Exact]:
    return lambda x: (f(x), abs(x * derivative(x)))


def _sigmoid(x: Any) -> Any:
    e = mpmath.exp(-abs(x))
    return (1 if x >= 0 else e) / (1 + e)


def _logistic_density(x: Any) -> Any:
    e = mpmath.exp(-abs(x))
    return e / (1 + e) ** 2


def _softplus(x: Any) -> Any:
    return max(x, 0) + mpmath.log1p(mpmath.exp(-abs(x)))


def _logaddexp(a: Any, b: Any) -> Exact:
    value = max(a, b) + mpmath.log1p(mpmath.exp(-abs(a - b)))
    return value, max(abs(a) * _sigmoid(a - b), abs(b) * _sigmoid(b - a))


def _relative(order: int, of: Callable[..., Any]) -> Callable[[Any, Any], Exact]:
    """x^(n + 1) times the n-th derivative of expm1(z)/z or log1p(z)/z at z = k x, as hypergeometric functions."""

    def value(k: Any, x: Any) -> Any:
        return of(order, k * x) * x ** (order + 1) / (order + 1)

    def exact(k: Any, x: Any) -> Exact:
        y, step = value(k, x), mpf(2) ** -60
        return y, max(abs(value(k * (1 + step), x) - y), abs(value(k, x * (1 + step)) - y)) / step

    return exact


def _exprel(n: int, z: Any) -> Any:
    if abs(z) < 50:
        return mpmath.hyp1f1(n + 1, n + 2, z)
    e = mpmath.exp(min(z, mpf(10) ** 6))
    first = (e - 1) / z
    second = (e - first) / z
    return (n + 1) * (first, second, (e - 2 * second) / z, (e - 3 * (e - 2 * second) / z) / z)[n]


def _logrel(n: int, z: Any) -> Any:
    if z <= -1:
        return mpmath.nan
    if abs(z) < 0.5:
        return (-1) ** n * mpmath.factorial(n) * mpmath.hyp2f1(n + 1, n + 1, n + 2, -z)
    first = mpmath.log1p(z) / z
    second = (1 / (1 + z) - first) / z
    return (n + 1) * (first, second, -((1 + z) ** -2 + 2 * second) / z)[n]


def _tanh(x: Any) -> Any:
    return mpmath.tanh(x) if abs(x) < 1000 else mpmath.sign(x)


def _csch(x: Any) -> Exact:
    if x == 0:
        return inf, 0
    return mpmath.csch(x), abs(x * mpmath.csch(x) / _tanh(x))


def _langevin(order: int) -> Callable[[Any], Any]:
    """The derivatives of coth(x) - 1/x."""

    def value(x: Any) -> Any:
        if abs(x) > 1e6:
            return (mpmath.sign(x) - 1 / x, x**-2, -2 * x**-3, 6 * x**-4)[order]
        if abs(x) < 1e-3:  # A&S 4.5.67
            terms = (
                (2 * k - 1, mpmath.bernoulli(2 * k) * mpf(2) ** (2 * k) / mpmath.factorial(2 * k)) for k in range(1, 15)
            )
            return sum(c * mpmath.ff(p, order) * x ** (p - order) for p, c in terms if p >= order)
        coth, csch2 = mpmath.coth(x), mpmath.csch(x) ** 2
        third = -2 * csch2 * (csch2 + 2 * coth**2) + 6 / x**4
        return (coth - 1 / x, 1 / x**2 - csch2, 2 * (coth * csch2 - 1 / x**3), third)[order]

    return value


def _sinc(order: int) -> Callable[[Any], Any]:
    """The derivatives of sin(x)/x: that of order n is the integral of t^n cos(x t + n pi / 2) over t in [0, 1]."""

    def value(x: Any) -> Any:
        if abs(x) < 1:
            terms = range(20)
            return sum(
                (-1) ** k * x ** (2 * k - order) / mpmath.factorial(2 * k - order) / (2 * k + 1)
                for k in terms
                if 2 * k >= order
            )
        s, c = mpmath.sin(x), mpmath.cos(x)
        first = (c - s / x) / x
        second = -(s + 2 * first) / x
        return (s / x, first, second, -(c + 3 * second) / x)[order]

    return value


def _sinc_pi(order: int) -> Callable[[Any], Any]:
    """The derivatives of sin(pi x)/(pi x)."""

    def value(x: Any) -> Any:
        if abs(x) < 0.3:
            return mpmath.pi**order * _sinc(order)(mpmath.pi * x)
        s, c = mpmath.sincpi(x), mpmath.cospi(x)
        first = (c - s) / x
        second = -(mpmath.pi**2) * s - 2 * first / x
        return (s, first, second, -(mpmath.pi**2 * c + 3 * second) / x)[order]

    return value


def _pole(x: Any) -> bool:
    return x <= 0 and mpmath.isint(x)


def _polygamma(n: int, x: Any) -> Any:
    """By reflection for negative x, where mpmath takes long: a sum over all integers in place of the cotangent."""
    if x > 0:
        return mpmath.polygamma(n, x)
    r = x - mpmath.nint(x)
    a, b = (r, 1 - r) if r > 0 else (1 + r, -r)
    if n == 0:
        cot = mpmath.pi * mpmath.cot(mpmath.pi * r)
    else:
        cot = (-1) ** n * mpmath.factorial(n) * (mpmath.zeta(n + 1, a) + (-1) ** (n + 1) * mpmath.zeta(n + 1, b))
    return (-1) ** n * mpmath.polygamma(n, 1 - x) - cot


def _gamma(x: Any) -> Exact:
    if _pole(x):
        return (inf if x == 0 else nan), 0
    if abs(x) > 400:
        return (inf if x > 0 else mpf(0)), 0
    value = mpmath.gamma(x)
    return value, abs(x * value * _polygamma(0, x))


def _loggamma(x: Any) -> Exact:
    return (inf, 0) if _pole(x) else (mpmath.re(mpmath.loggamma(x)), abs(x * _polygamma(0, x)))


def _polygamma_of(n: int) -> Callable[[Any], Exact]:
    def exact(x: Any) -> Exact:
        if _pole(x):
            return (-inf if n == 0 and x == 0 else inf if n % 2 else -inf if x == 0 else nan), 0
        return _polygamma(n, x), abs(x * _polygamma(n + 1, x))

    return exact


def _erfcx(order: int) -> Callable[[Any], Exact]:
    """exp(t**2) i^n erfc(t) by the recurrence A&S 7.2.5; its derivative is -2(n + 1) times the next."""

    def exact(t: Any) -> Exact:
        with mpmath.workdps(80):
            found = [2 / mpmath.sqrt(mpmath.pi), mpmath.exp(t**2) * mpmath.erfc(t)]
            for n in range(1, order + 2):
                found.append((found[-2] - 2 * t * found[-1]) / (2 * n))
            return found[order + 1], abs(2 * (order + 1) * t * found[order + 2])

    return exact


def _erfinv(y: Any) -> Exact:
    if abs(y) >= 1:
        return (nan if abs(y) > 1 else inf * y), 0
    value = mpmath.erfinv(y) if abs(y) > 1e-20 else y * mpmath.sqrt(mpmath.pi) / 2
    return value, abs(y * mpmath.exp(value**2))


def _bessel(f: Callable[[int, Any], Any], n: int, first: int, second: int) -> Callable[[Any], Exact]:
    """`first` C[n-1] + `second` C[n+1] is twice the derivative."""

    def exact(x: Any) -> Exact:
        if f is mpmath.bessely and x <= 0:
            return (nan if x < 0 else -inf), 0
        before = f(n - 1, x) if n else (second * first) * f(1, x)
        return f(n, x), abs(x * (first * before + second * f(n + 1, x)) / 2)

    return exact


def _scaled_bessel(n: int) -> Callable[[Any], Exact]:
    def exact(x: Any) -> Exact:
        scale = mpmath.exp(-abs(x))
        slope = (mpmath.besseli(abs(n - 1), x) + mpmath.besseli(n + 1, x)) / 2 - mpmath.sign(x) * mpmath.besseli(n, x)
        return mpmath.besseli(n, x) * scale, abs(x * slope * scale)

    return exact


# Points


def _strata(dtype: Any, low: float = -np.inf, high: float = np.inf, rng: Any = None, n: int = 0) -> np.ndarray:
    """Of all exponents and both signs, between `low` and `high`."""
    info = np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, 3 * n)
    x = np.ldexp(1 + rng.random(3 * n), exponents) * rng.choice([-1, 1], 3 * n)
    return x[(x >= low) & (x <= high)]


def points(dtype: Any, case: Case, seed: int = 0) -> np.ndarray:
    """All exponents in the domain; uniform in the spans; close to the given points; the points where all changes."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    parts = [_strata(dtype, *case.domain, rng=rng, n=POINTS)]
    parts += [rng.uniform(*span, 2 * POINTS) for span in case.spans]
    for centre in case.near:
        exponents = rng.uniform(0, info.nmant, POINTS // 4)
        parts.append(centre + rng.choice([-1, 1], len(exponents)) * np.exp2(exponents) * np.spacing(dtype(abs(centre))))
    edges = [1.0, float(info.tiny), float(info.smallest_subnormal), float(info.max)]
    edges = [0.0, *edges, *(-edge for edge in edges)]
    parts.append(np.array([edge for edge in edges if case.domain[0] <= edge <= case.domain[1]]))
    with np.errstate(over="ignore"):
        x = np.concatenate(parts).astype(dtype) + dtype(0)  # no -0.0, which mpmath does not know
    return np.unique(x[np.isfinite(x)])[:: case.thin]


@dataclass(frozen=True)
class Case:
    """A function to test.

    Attributes:
        exact: from the arguments to the exact value and the scale.
        spans: where to look closely, beside all exponents.
        near: points around which to look in all distances.
        domain: outside of it no point is chosen.
        order: the integer argument that comes first.
        arity: 1 or 2 real arguments.
        thin: take one in so many points, because mpmath takes long.
    """

    exact: Callable[..., Exact]
    spans: tuple[tuple[float, float], ...] = ((-4, 4),)
    near: tuple[float, ...] = ()
    domain: tuple[float, float] = (-math.inf, math.inf)
    order: int | None = None
    arity: int = 1
    thin: int = 1


_TAILS = ((-4, 4), (-40, 40), (-110, 110), (-104, -86), (86, 104), (-750, 750), (-746, -707), (707, 746))
_GAMMA = ((0, 3), (-4, 0), (0, 40), (-40, 0), (100, 172), (-186, -100))
_ROOTS = (
    1,
    2,
    1.4616321449683623,
    -0.5040830082644554,
    -1.573498473162390,
    -2.6107208684441447,
    -2.457024738220800,
    -2.747682646727413,
    -3.635293366436901,
    -3.143580888349980,
    -1,
    -2,
    -3,
    -10,
)
_HALVES = (0.25, 0.5, 1, 1.5, 2.5, 3, 4096.5, 8191, 2097152.5, 1e9, 3e22)
_TURNS = (2.0815759778181, 4.4934094579090642, 7.7252518369377, 5.9403699904)

CASES: dict[str, Case] = {
    "sigmoid": Case(_of(_sigmoid, _logistic_density), _TAILS),
    "logistic_density": Case(_of(_logistic_density, lambda x: _logistic_density(x) * _tanh(x / 2)), _TAILS),
    "softplus": Case(_of(_softplus, _sigmoid), _TAILS),
    "logaddexp": Case(_logaddexp, _TAILS, arity=2),
    "sech": Case(_of(mpmath.sech, lambda x: mpmath.sech(x) * _tanh(x)), _TAILS),
    "csch": Case(_csch, _TAILS),
    "sinh": Case(_of(mpmath.sinh, mpmath.cosh), _TAILS),
    "cosh": Case(_of(mpmath.cosh, mpmath.sinh), _TAILS),
    "cbrt": Case(lambda x: (mpmath.sign(x) * mpmath.cbrt(abs(x)), 0)),
    **{
        f"{prefix}{name}": Case(_relative(n, of), spans, arity=2, thin=5)
        for name, of, spans in (("exprel", _exprel, ((-5, 5), (-100, 100))), ("logrel", _logrel, ((-1, 5), (0, 100))))
        for n, prefix in enumerate(("", "d", "d2"))
    },
    **{
        f"{prefix}langevin": Case(_of(_langevin(n), _langevin(n + 1)), ((-4, 4), (-100, 100)), (2,))
        for n, prefix in enumerate(("", "d", "d2"))
    },
    "sinc": Case(_of(_sinc(0), _sinc(1)), ((-4, 4), (-100, 100)), _TURNS),
    "dsinc": Case(_of(_sinc(1), _sinc(2)), ((-4, 4), (-100, 100)), _TURNS),
    "d2sinc": Case(_of(_sinc(2), _sinc(3)), ((-4, 4), (-100, 100)), _TURNS),
    "sin_pi": Case(_of(mpmath.sinpi, lambda x: mpmath.pi * mpmath.cospi(x)), ((-4, 4), (-1e6, 1e6)), _HALVES),
    "cos_pi": Case(_of(mpmath.cospi, lambda x: mpmath.pi * mpmath.sinpi(x)), ((-4, 4), (-1e6, 1e6)), _HALVES),
    **{
        name: Case(_of(_sinc_pi(k), _sinc_pi(k + 1)), ((-4, 4), (-1e6, 1e6)), _HALVES)
        for k, name in enumerate(["sinc_pi", "dsinc_pi", "d2sinc_pi"])
    },
    "gamma": Case(_gamma, _GAMMA, _ROOTS),
    "loggamma": Case(_loggamma, _GAMMA, _ROOTS),
    "digamma": Case(_polygamma_of(0), _GAMMA[:4], _ROOTS),
    **{f"polygamma_{n}": Case(_polygamma_of(n), _GAMMA[:4], (-1, -2, -0.5), order=n) for n in (1, 2, 3, 8)},
    **{
        name: Case(_erfcx(order), ((0, 2), (-27, 30), (0, 1000)), domain=(-26.6, 1e8))
        for order, name in enumerate(("erfcx", "ierfcx", "i2erfcx"))
    },
    "erfinv": Case(_erfinv, ((-1, 1), (0.9, 1)), (0.5, 1, -1, 0.998), domain=(-1, 1)),
    **{
        f"bessel_i_{n}": Case(
            _bessel(mpmath.besseli, n, 1, 1), ((-5, 5), (-60, 60), (60, 95), (-720, 720), (708, 715)), order=n,
            near=(24.0 + n * n,), domain=(-2000, 2000)
        )
        for n in (0, 1, 2, 4)
    },
    **{
        f"bessel_ie_{n}": Case(_scaled_bessel(n), ((-5, 5), (-60, 60), (-720, 720)), order=n, near=(24.0 + n * n,))
        for n in (0, 1, 2, 4)
    },
    **{
        f"bessel_{kind}_{n}": Case(
            _bessel(f, n, 1, -1), ((0, 6), (6, 30), (-30, 0), (0, 100)), domain=(-1e5, 1e5), order=n, thin=thin
        )
        for kind, f, thin in (("j", mpmath.besselj, 1), ("y", mpmath.bessely, 6))
        for n in (0, 1, 2, 5)
    },
}  # fmt: skip


def _name(case: str) -> str:
    return case.rsplit("_", 1)[0] if CASES[case].order is not None else case


def allowed(case: str) -> float:
    """The error that the table says the function may have."""
    return PRIMITIVES[_name(case)].ulps


# The measure


def mixed_error(got: float, exact: Any, scale: Any, dtype: Any) -> float:
    """|got - exact| in units of the last place of max(|exact|, scale); infinite for a wrong NaN or infinity."""
    info = np.finfo(dtype)
    if mpmath.isnan(exact):
        return 0.0 if math.isnan(got) else math.inf
    if abs(exact) >= mpf(float(info.max)) * (1 + mpf(float(info.epsneg)) / 2):
        return 0.0 if got == (math.inf if exact > 0 else -math.inf) else math.inf
    if not math.isfinite(got):
        return math.inf
    size = max(abs(exact), scale, mpf(float(info.tiny)))
    return float(abs(mpf(got) - exact) / mpmath.ldexp(1, mpmath.frexp(size)[1] - 1 - info.nmant))


_exact_cache: dict[tuple[str, Any], tuple[list[np.ndarray], list[Exact]]] = {}


def _reference(case_name: str, dtype: Any) -> tuple[list[np.ndarray], list[Exact]]:
    key = case_name, dtype
    if key not in _exact_cache:
        case = CASES[case_name]
        arguments = [points(dtype, case, seed) for seed in range(case.arity)]
        if case.arity == 2:
            a, b = (np.random.default_rng(5).permutation(x) for x in arguments)
            n = min(len(a), len(b))
            a, b = a[:n], b[:n]
            # near each other as well, where the result passes zero, and with an ordinary product
            u = np.random.default_rng(6).uniform(-3, 0, n)
            with np.errstate(all="ignore"):
                a, b = (
                    np.concatenate([a, a, u, a]).astype(dtype),
                    np.concatenate([b, a + b % 20, np.log1p(-np.exp(u)), b / a]).astype(dtype),
                )
            keep = np.isfinite(a) & np.isfinite(b)
            arguments = [a[keep], b[keep]]
        with mpmath.workdps(40):
            exact = [case.exact(*map(mpf, map(float, row))) for row in zip(*arguments, strict=True)]
        _exact_cache[key] = arguments, exact
    return _exact_cache[key]


def worst(case_name: str, dtype: Any, compute: Callable[..., np.ndarray]) -> tuple[float, Any]:
    """The largest mixed error and where it is."""
    arguments, exact = _reference(case_name, dtype)
    got = compute(*arguments)
    assert got.dtype == dtype
    with mpmath.workdps(40):
        errors = [mixed_error(float(g), *e, dtype) for g, e in zip(got, exact, strict=True)]
    at = int(np.argmax(errors))
    return errors[at], ([float(a[at]) for a in arguments], float(got[at]), mpmath.nstr(exact[at][0], 20))


# C


def c_source(type_name: str, prelude: str = PRELUDE, loops: bool = True) -> str:
    """All C texts, and a loop over an array around each function."""
    texts: dict[str, None] = {}
    for name in C_TEXTS:
        for part in (*NEEDS.get(name, ()), name):
            if part in C_TEXTS:
                texts[C_TEXTS[part]] = None
    lines = [prelude.format(type=type_name), *texts]
    for name, text in C_TEXTS.items():
        if name in HELPERS:
            continue
        spelled = C_NAMES.get(name, name)
        signature = text[text.rindex(f"real {spelled}(") :].split("{")[0]
        order = "int" in signature
        arity = signature.count("real ") - 1
        operands = (["n"] if order else []) + ["x[i]", "y[i]"][:arity]
        if loops:
            lines.append(
                f"void loop_{name}(int n, const real *x, const real *y, real *out, long size) "
                f"{{ for (long i = 0; i < size; i++) out[i] = {spelled}({', '.join(operands)}); }}"
            )
        else:
            lines.append(
                f'extern "C" __global__ void loop_{name}(int n, const real *x, const real *y, real *out) '
                f"{{ int i = threadIdx.x; out[i] = {spelled}({', '.join(operands)}); }}"
            )
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, ctypes.CDLL]:
    return build(tmp_path_factory.mktemp("special"))


def build(folder: Path) -> dict[Any, ctypes.CDLL]:
    """The library of each type."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    built = {}
    for dtype, type_name in TYPES.items():
        source, library = folder / f"{type_name}.c", folder / f"{type_name}.so"
        source.write_text(c_source(type_name))
        flags = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(
            [compiler, *flags, "-Wno-unused-parameter", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True
        )
        built[dtype] = ctypes.CDLL(str(library))
    source, library = folder / "vector.c", folder / "vector.so"
    texts = (
        "\n".join([_runtime._BITS, _runtime._VECTOR_FUNCTIONS, _runtime._MATH, _runtime._ELEMENTARY])
        .replace("{", "{{")
        .replace("}", "}}")
    )
    source.write_text(c_source("float", f"{PRELUDE}#undef gg_log1p_unit\n#undef gg_near_sine\n{texts}"))
    flags = [*_runtime._C_FLAGS, *_runtime._FOR_THIS_PROCESSOR]
    subprocess.run([compiler, *flags, source, "-o", library, "-lm"], check=True)
    built["vector"] = ctypes.CDLL(str(library))
    return built


def c_function(library: ctypes.CDLL, name: str, order: int | None = None) -> Callable[..., np.ndarray]:
    def compute(*arguments: np.ndarray) -> np.ndarray:
        arrays = [np.ascontiguousarray(a) for a in arguments]
        out = np.empty_like(arrays[0])
        x, y = (arrays * 2)[:2]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)]
        getattr(library, f"loop_{name}")(ctypes.c_int(order or 0), *pointers, ctypes.c_long(out.size))
        return out

    return compute


@pytest.mark.few(every_day=8, slow=31)
@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("case", [case for case in CASES if _name(case) in C_TEXTS])
def test_c_is_as_the_table_says(case: str, dtype: Any, libraries: dict[Any, ctypes.CDLL]) -> None:
    error, at = worst(case, dtype, c_function(libraries[dtype], _name(case), CASES[case].order))
    assert error <= allowed(case), at


@pytest.mark.parametrize("case", [case for case in CASES if _name(case) in C_TEXTS])
def test_c_with_vector_functions_is_as_the_table_says(case: str, libraries: dict[Any, ctypes.CDLL]) -> None:
    error, at = worst(case, FLOAT, c_function(libraries["vector"], _name(case), CASES[case].order))
    assert error <= allowed(case), at


# torch


def torch_functions() -> dict[str, Any]:
    """The functions that the texts define."""
    namespace: dict[str, Any] = {"torch": torch, "math": math, "Tensor": torch.Tensor}
    for text in (error_free.TORCH | TORCH).values():
        exec(text, namespace)
    return namespace


def torch_function(name: str, order: int | None = None) -> Callable[..., np.ndarray]:
    function = torch_functions()[name]
    before = () if order is None else (order,)
    return lambda *arguments: function(*before, *map(torch.from_numpy, arguments)).numpy()


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("case", [case for case in CASES if _name(case) in TORCH])
def test_torch_is_as_the_table_says(case: str, dtype: Any) -> None:
    error, at = worst(case, dtype, torch_function(_name(case), CASES[case].order))
    assert error <= allowed(case) + ABOVE.get(_name(case), 0), at


# Both: many numbers


def test_which_may_miss_the_bar() -> None:
    assert {name for name in map(_name, CASES) if PRIMITIVES[name].ulps > BAR} == BEYOND_THE_BAR


def _many(case: Case) -> list[np.ndarray]:
    """Arguments spread evenly over the spans, near the given points, and of every ordinary magnitude."""
    rng = np.random.default_rng(17)
    n = MANY_SLOW if (case.thin > 1 and case.arity == 1) or case.order is not None else MANY
    parts = [rng.uniform(*span, n) for span in case.spans]
    parts += [centre * (1 + rng.uniform(-0.2, 0.2, n // 4)) for centre in case.near]
    parts.append(np.exp(rng.uniform(-30, 3, n)) * rng.choice([-1, 1], n))
    x = rng.permutation(np.concatenate(parts))
    x = x[(case.domain[0] <= x) & (x <= case.domain[1])][:n]
    if case.arity == 1:
        return [x]
    first = np.where(rng.random(len(x)) < 0.5, rng.choice([1.0, 2.0, -1.0], len(x)), rng.uniform(-3, 3, len(x)))
    return [first, x / first]  # of an ordinary product


@pytest.mark.few(every_day=8, slow=28)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_float64_numbers_are_as_the_table_says(case: str, libraries: dict[Any, ctypes.CDLL]) -> None:
    """A few hundred points had not shown errors of up to 90 units: of gamma where it is steady, of dlogrel near 2."""
    arguments = _many(CASES[case])
    with mpmath.workdps(40):
        exact = [CASES[case].exact(*map(mpf, row)) for row in zip(*(a.tolist() for a in arguments), strict=True)]
        paths = _paths(libraries, _name(case), DOUBLE, CASES[case].order)
        for path, compute in paths.items():
            got = compute(*arguments).tolist()
            errors = [mixed_error(g, *e, DOUBLE) for g, e in zip(got, exact, strict=True)]
            at = int(np.argmax(errors))
            above = ABOVE.get(_name(case), 0) if path == "torch" else 0
            assert errors[at] <= allowed(case) + above, [float(a[at]) for a in arguments]


# Both: NaN, infinities, zeros, selection

SMOOTH = sorted({_name(case) for case in CASES})
ORDERS = {"polygamma": 1, "bessel_i": 1, "bessel_ie": 1, "bessel_j": 1, "bessel_y": 1}
LIMITS = {  # at -0.0, 0.0, -infinity and infinity; None where there is no limit
    "sigmoid": (0.5, 0.5, 0.0, 1.0),
    "logistic_density": (0.25, 0.25, 0.0, 0.0),
    "softplus": (math.log(2), math.log(2), 0.0, math.inf),
    "sech": (1.0, 1.0, 0.0, 0.0),
    "csch": (-math.inf, math.inf, -0.0, 0.0),
    "sinh": (-0.0, 0.0, -math.inf, math.inf),
    "cosh": (1.0, 1.0, math.inf, math.inf),
    "cbrt": (-0.0, 0.0, -math.inf, math.inf),
    "langevin": (0.0, 0.0, -1.0, 1.0),
    "dlangevin": (1 / 3, 1 / 3, 0.0, 0.0),
    "d2langevin": (0.0, 0.0, 0.0, 0.0),
    "sinc": (1.0, 1.0, 0.0, 0.0),
    "dsinc": (0.0, -0.0, 0.0, 0.0),
    "d2sinc": (-1 / 3, -1 / 3, 0.0, 0.0),
    "sin_pi": (-0.0, 0.0, None, None),
    "cos_pi": (1.0, 1.0, None, None),
    "sinc_pi": (1.0, 1.0, 0.0, 0.0),
    "dsinc_pi": (0.0, -0.0, 0.0, 0.0),
    "d2sinc_pi": (-(math.pi**2) / 3, -(math.pi**2) / 3, 0.0, 0.0),
    "gamma": (-math.inf, math.inf, None, math.inf),
    "loggamma": (math.inf, math.inf, None, math.inf),
    "digamma": (math.inf, -math.inf, None, math.inf),
    "polygamma": (math.inf, math.inf, None, 0.0),
    "erfcx": (1.0, 1.0, math.inf, 0.0),
    "ierfcx": (1 / math.sqrt(math.pi), 1 / math.sqrt(math.pi), math.inf, 0.0),
    "i2erfcx": (0.25, 0.25, math.inf, 0.0),
    "erfinv": (-0.0, 0.0, math.nan, math.nan),
    "bessel_i": (-0.0, 0.0, -math.inf, math.inf),
    "bessel_ie": (-0.0, 0.0, 0.0, 0.0),
    "bessel_j": (-0.0, 0.0, 0.0, 0.0),
    "bessel_y": (-math.inf, -math.inf, math.nan, 0.0),
}


def _paths(
    libraries: dict[Any, ctypes.CDLL], name: str, dtype: Any, order: int | None = None
) -> dict[str, Callable[..., np.ndarray]]:
    """What computes a function of a type: in C, for floats in C with vector instructions too, and with torch."""
    order = ORDERS.get(name) if order is None else order
    kinds = {"C": dtype, **({"vectors in C": "vector"} if dtype is FLOAT else {})} if name in C_TEXTS else {}
    paths = {path: c_function(libraries[kind], name, order) for path, kind in kinds.items()}
    return paths | ({"torch": torch_function(name, order)} if name in TORCH else {})


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("name", SMOOTH)
def test_nan_in_nan_out(name: str, dtype: Any, libraries: dict[Any, ctypes.CDLL]) -> None:
    x = np.full(9, np.nan, dtype)
    for compute in _paths(libraries, name, dtype).values():
        if CASES.get(name) and CASES[name].arity == 2:
            for other in (0, *((np.inf, -np.inf) if name == "logaddexp" else (0.5, -2))):
                assert np.isnan(compute(x, np.full(9, other, dtype))).all()
                assert np.isnan(compute(np.full(9, other, dtype), x)).all()
        else:
            assert np.isnan(compute(x)).all()


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str, dtype: Any, libraries: dict[Any, ctypes.CDLL]) -> None:
    at, expected = [-0.0, 0.0, -math.inf, math.inf], LIMITS[name]
    known = [i for i, limit in enumerate(expected) if limit is not None]
    for compute in _paths(libraries, name, dtype).values():
        got = compute(np.array(at, dtype))[known]
        np.testing.assert_allclose(got, np.array([expected[i] for i in known], dtype), rtol=1e-6)
        zeros = got == 0
        if name in ("csch", "sinh", "cbrt", "erfinv"):
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(np.array(expected)[known][zeros]))


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
def test_values_at_singular_points(dtype: Any, libraries: dict[Any, ctypes.CDLL]) -> None:
    integers = np.array([-1, -2, -7, -(2.0**30)], dtype)
    for compute in _paths(libraries, "loggamma", dtype).values():
        assert (compute(integers) == np.inf).all()
    for name in ("gamma", "digamma"):
        for compute in _paths(libraries, name, dtype).values():
            assert np.isnan(compute(integers)).all()
    for n, expected in ((1, np.inf), (3, np.inf), (2, np.nan)):
        for compute in (c_function(libraries[dtype], "polygamma", n), torch_function("polygamma", n)):
            np.testing.assert_array_equal(compute(integers), np.full(4, expected, dtype))
    for compute in _paths(libraries, "erfinv", dtype).values():
        np.testing.assert_array_equal(
            compute(np.array([-1, 1, 1.5, -np.inf], dtype)), np.array([-np.inf, np.inf, np.nan, np.nan], dtype)
        )
    for compute in _paths(libraries, "logaddexp", dtype).values():
        infinities = np.array([np.inf, np.inf, -np.inf, -np.inf], dtype)
        other = np.array([np.inf, -np.inf, np.inf, -np.inf], dtype)
        np.testing.assert_array_equal(compute(infinities, other), np.array([np.inf, np.inf, np.inf, -np.inf], dtype))


SELECTION = {
    "damp": lambda v, r: v if v == 0 else v * r,
    "xmul": lambda v, r: v if v == 0 and math.isinf(r) else v * r,
    "unit": lambda a, h: h if h == 0 else math.copysign(1, a) if math.isinf(a) and math.isinf(h) else a / h,
    "maximum": lambda a, b: math.nan if a != a or b != b else max(a, b),
    "minimum": lambda a, b: math.nan if a != a or b != b else min(a, b),
    "sgn": lambda x, _: 1 if x > 0 else -1 if x < 0 else x,
}


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("name", SELECTION)
def test_selection(name: str, dtype: Any, libraries: dict[Any, ctypes.CDLL]) -> None:
    values = [-np.inf, -2.5, -0.0, 0.0, 1e-40, 3.0, np.inf, np.nan]
    a, b = (grid.ravel().astype(dtype) for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.array([SELECTION[name](x, y) for x, y in zip(a, b, strict=True)], dtype)
    for compute in _paths(libraries, name, dtype).values():
        np.testing.assert_array_equal(compute(a) if name == "sgn" else compute(a, b), expected)


@pytest.mark.parametrize("name", [name for name in TORCH if name not in HELPERS])
def test_torch_texts_keep_shape_type_and_transforms(name: str) -> None:
    function = torch_functions()[name]
    arity = 2 if name in SELECTION and name != "sgn" else CASES[name].arity if name in CASES else 1
    before = (ORDERS[name],) if name in ORDERS else ()
    x = torch.linspace(0.1, 0.9, 6).reshape(2, 3)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        out = function(*before, *[x.to(dtype)] * arity)
        assert out.dtype == dtype
        assert out.shape == x.shape
    expected = function(*before, *[x] * arity)
    torch.testing.assert_close(torch.func.vmap(partial(function, *before))(*[x] * arity), expected)
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*before, *[x] * arity), expected)


# CUDA


@pytest.mark.parametrize("architecture", ["compute_80", "compute_90"])
@pytest.mark.parametrize("type_name", TYPES.values())
def test_cuda_compiles(type_name: str, architecture: str) -> None:
    nvrtc = pytest.importorskip("cupy").cuda.nvrtc
    program = nvrtc.createProgram(c_source(type_name, CUDA_PRELUDE, loops=False), "special.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"--gpu-architecture={architecture}",))
        assert "loop_polygamma" in nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))


@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize(
    ("dtype", "x", "t"),
    [
        (torch.float32, -1e38, -165.0),
        (torch.float32, -3e38, -174.125),
        (torch.float32, -3e38, -187.5),
        (torch.float64, -1.7e308, -1401.0),
        (torch.float64, -1.7e308, -1416.5),
        (torch.float64, -1.7e308, -1450.0),
        (torch.float32, 1e-40, 178.0),
        (torch.float32, -1e-45, 191.9),
        (torch.float32, 1e-40, 150.0),
        (torch.float64, 1e-310, 1420.0),
        (torch.float64, -5e-324, 1454.0),
    ],
)
def test_a_large_number_times_a_vanishing_one(path: str, dtype: torch.dtype, x: float, t: float) -> None:
    operands = [torch.tensor([value], dtype=dtype) for value in (x, t)]
    with _runtime.force_path("torch") if path == "torch" else contextlib.nullcontext():
        kernel = _runtime.Kernel(
            "large",
            tensors=("r", "t"),
            results=("out",),
            code="const real out = mul_exp(r, t);",
            expression=lambda r, t, wanted: (_runtime.mul_exp(r, t),),
        )
        (found,) = kernel(operands)
    exact = mpmath.mpf(operands[0].item()) * mpmath.exp(operands[1].item())
    unit = max(abs(exact) * torch.finfo(dtype).eps, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps)
    assert math.isfinite(found.item())
    assert abs(found.item() - exact) <= abs(t) * unit
