"""The normal distribution function and the derivatives of GELU and Swish in kernels and torch, against mpmath."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from building import build
from mpmath import mpf
from test_library_functions import TYPES, compiled, compiler, of_c

from generated import _runtime
from gradgen.normal import FUNCTIONS
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import mixed_error

NAMES = [*FUNCTIONS, "dswish"]
KINDS = [*((name, kind) for name in FUNCTIONS for kind in ("mul", "lift")), ("dswish", "mul")]
# Where they are off by most, by a search of a million numbers each; what is about the cuts is drawn at random
WORST = (
    -1.22071755,
    -1.57838714,
    -1.1279191970825195,
    -1.2578002214431763,
    -1.0955526742026147,
    -0.9263069583354592,
    -1.2235070110769606,
    -2.34250951,
    -0.545030773,
    -0.28383437,
    0.0128002362,
)
SPANS = ((-2, -0.5, 2000), (-1.3, 1.3, 1000), (-9, 9, 500), (-40, 0, 500))
FAR = {"float32": (13, 19), "float64": (37, 53)}  # where they are too small alone
FAR_OF_DSWISH = {"float32": (88, 190), "float64": (710, 1450)}


@pytest.fixture(scope="module", params=[(), _runtime._FOR_THIS_PROCESSOR], ids=["plain", "native"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if compiler() is None:
        pytest.skip("no C compiler")
    return compiled(tmp_path_factory.mktemp("normal"), request.param)


def of_torch(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    function = getattr(_runtime, f"mul_{name}")
    return lambda r, t: function(torch.from_numpy(r), torch.from_numpy(t)).numpy()


def exact(name: str, t: mpf) -> tuple[mpf, mpf]:
    """The value, and the derivative."""
    if name == "dswish":
        e, a = mpmath.exp(-abs(t)), abs(t)
        tail, density = e * (1 + e - a) / (1 + e) ** 2, e / (1 + e) ** 2
        return (tail if t < 0 else 1 - tail), density * (2 - t * mpmath.tanh(t / 2))
    value, density = mpmath.erfc(-t / mpmath.sqrt(2)) / 2, mpmath.npdf(t)
    return (value, density) if name == "ndtr" else (value + t * density, (2 - t**2) * density)


def off(name: str, dtype: str, compute: Callable[[np.ndarray, np.ndarray], np.ndarray], t: np.ndarray) -> float:
    """By how much the worst is off."""
    t = t.astype(TYPES[dtype])
    got = compute(np.ones_like(t), t)
    errors = []
    with mpmath.workprec(200):
        for x, y in zip(t.tolist(), got.tolist(), strict=True):
            value, slope = exact(name, mpf(x))
            errors.append(mixed_error(y, value, abs(x * slope), dtype))
    return max(errors)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_are_as_the_table_says(name: str, dtype: str, library: ctypes.CDLL) -> None:
    randoms = np.random.default_rng(0)
    t = np.concatenate([WORST, *(randoms.uniform(low, high, count) for low, high, count in SPANS)])
    row = PRIMITIVES[name]
    allowed = row.ulps if dtype == "float32" else row.double_ulps
    assert off(name, dtype, of_c(f"gg_mul_{name}", dtype, library), t) <= allowed
    assert off(name, dtype, of_torch(name), t) <= allowed + (0.9 if dtype == "float64" else 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_products_are_as_the_table_says(name: str, kind: str, dtype: str, library: ctypes.CDLL) -> None:
    """Where the product is just below a power of two a unit of it is half as much."""
    randoms, row = np.random.default_rng(2), PRIMITIVES[f"{kind}_{name}"]
    t = np.concatenate([WORST, *(randoms.uniform(low, high, count) for low, high, count in SPANS[:2])]).astype(dtype)
    r = randoms.uniform(1, 2, t.size).astype(dtype)
    r[::2] = 2 - r[::2] / 16
    found = of_c(f"gg_{kind}_{name}", dtype, library)(r, t)
    errors = []
    with mpmath.workprec(200):
        for factor, x, y in zip(r.tolist(), t.tolist(), found.tolist(), strict=True):
            value, slope = exact(name, mpf(x))
            errors.append(mixed_error(y, factor * value, abs(factor * x * slope), dtype))
    allowed = row.ulps if dtype == "float32" else row.double_ulps
    assert allowed / 2 < max(errors) <= allowed


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_products_have_the_digits_that_vanish_alone(name: str, dtype: str, library: ctypes.CDLL) -> None:
    randoms = np.random.default_rng(1)
    far = (FAR_OF_DSWISH if name == "dswish" else FAR)[dtype]
    t = -randoms.uniform(*far, 300).astype(TYPES[dtype])
    with mpmath.workprec(200):
        alone = [exact(name, mpf(x))[0] for x in t.tolist()]
        tiny, eps = (mpf(float(x)) for x in (np.finfo(TYPES[dtype]).tiny, np.finfo(TYPES[dtype]).eps))
        r = np.array([float(min(abs(tiny / value), np.finfo(TYPES[dtype]).max)) for value in alone], TYPES[dtype])
        for compute in (of_c(f"gg_mul_{name}", dtype, library), of_torch(name)):
            for factor, value, got in zip(r.tolist(), alone, compute(r, t).tolist(), strict=True):
                right = factor * value
                conditioned = (far[1] if name == "dswish" else far[1] ** 2 / 2) * eps
                assert abs(got - right) <= max(8 * conditioned * abs(right), 4 * tiny * eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_the_ends(name: str, dtype: str, library: ctypes.CDLL) -> None:
    inf, nan, most = np.inf, np.nan, float(np.finfo(TYPES[dtype]).max)
    cases = [
        *((1.0, -inf, 0.0), (1.0, inf, 1.0), (1.0, 0.0, 0.5), (1.0, -0.0, 0.5), (1.0, nan, nan), (nan, 1.0, nan)),
        *(
            (most, -inf, 0.0),
            (inf, -1e4, 0.0),
            (-inf, 3.0, -inf),
            (inf, 1.0, inf),
            (nan, -inf, nan),
            (most, 99.0, most),
        ),
        *((0.0, -3.0, 0.0), (-most, -1e30, 0.0), (1.0, -1e30, 0.0), (1.0, 1e30, 1.0)),
    ]
    r, t, right = (np.array(column, TYPES[dtype]) for column in zip(*cases, strict=True))
    for compute in (of_c(f"gg_mul_{name}", dtype, library), of_torch(name)):
        np.testing.assert_array_equal(compute(r, t), right)
    if (name, "lift") in KINDS:
        lifted = np.isfinite(r) | np.isnan(r)  # what is infinite is seen to before
        np.testing.assert_array_equal(of_c(f"gg_lift_{name}", dtype, library)(r, t)[lifted], right[lifted])


@pytest.mark.parametrize("name", NAMES)
def test_torch_differentiates_them(name: str) -> None:
    t = torch.tensor([-3.0, -1.5, -0.75, -0.1, 0.0, 0.5, 0.9, 1.3, 4.0], dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(getattr(_runtime, name)(t).sum(), t)
    for x, slope in zip(t.tolist(), slopes.tolist(), strict=True):
        assert slope == pytest.approx(float(exact(name, mpf(x))[1]), rel=1e-12)


def test_an_implementation_is_of_one_function() -> None:
    """Where one formula ends the other one goes on."""
    for name, f in FUNCTIONS.items():
        for dtype, real in (("float32", "float"), ("float64", "double")):
            cut = TYPES[dtype](float(f.cut[real]))
            beside = np.array([np.nextafter(cut, TYPES[dtype](0)), cut, np.nextafter(cut, TYPES[dtype](2))])
            for sign in (1, -1):
                assert off(name, dtype, of_torch(name), sign * beside) <= PRIMITIVES[name].ulps + 1.2


GATES = """
@op
def swiglu(t: Tensor, r: Tensor):
    return t / (1 + exp(-t)) * r

@op
def geglu(t: Tensor, r: Tensor):
    return t * (1 + erf(t / sqrt(2))) / 2 * r

@op
def grown(t: Tensor, r: Tensor):
    return r * exp(t)
"""


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build(GATES, tmp_path_factory.mktemp("gates"))[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("name", ["swiglu", "geglu", "grown"])
def test_an_infinite_input_keeps_the_sign_of_the_product(name: str, path: str, dtype: torch.dtype, gates: Any) -> None:
    t = torch.tensor([-math.inf, -1e4, -60.0, -20.0, -2.0, -0.5, 0.0, 3.0, math.nan], dtype=dtype, requires_grad=True)
    negative = torch.zeros_like(t) if name == "grown" else (t < -1).to(dtype)
    for r in (math.inf, -math.inf):
        with gates.rt.force_path("torch") if path == "torch" else nullcontext():
            (slope,) = torch.autograd.grad(getattr(gates, name)(t, torch.full_like(t, r)).sum(), t)
        assert slope[:-1].tolist() == (r * (1 - 2 * negative))[:-1].tolist()
        assert slope[-1].isnan()
