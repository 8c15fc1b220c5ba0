"""Sines and cosines in C: of ordinary arguments gradgen's own, by whole vectors, of those far out the C library's."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from building import build
from test_library_functions import TYPES, compiler, exact

from generated import _runtime as rt
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import mixed_error

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")

CALLS = {"sin": "gg_near_sine(x[i], 0)", "cos": "gg_near_sine(x[i], 1)", "tan": "gg_near_tan(x[i])"}
MOST = {"float32": 2.0**17, "float64": 2.0**30}
REALS = {"float32": "float", "float64": "double"}
FLAGS = {"plain": (), "native": rt._FOR_THIS_PROCESSOR}
HEADERS = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <tgmath.h>\n"


def compiled(source: str, folder: Path, flags: Sequence[str]) -> ctypes.CDLL:
    (folder / "f.c").write_text(source)
    command = [str(compiler()), *rt._C_FLAGS, *flags, str(folder / "f.c"), "-o", str(folder / "f.so"), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "f.so"))


@pytest.fixture(scope="module", params=FLAGS)
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """For instructions that each machine has, a fused multiply-add may not be one, and for those of this one."""
    return FLAGS[request.param]


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory, flags: tuple[str, ...]) -> Callable[[str, np.ndarray], np.ndarray]:
    """gradgen's own functions of an array, by their names."""
    text = HEADERS + "#define FN static inline\n" + rt._BITS + "\n" + rt._MATH + "\n" + rt._ELEMENTARY + "\n"
    text += "#ifndef gg_near_tan\n#define gg_near_tan(x) tan(x)\n#endif\n"
    for real in REALS.values():
        for name, call in CALLS.items():
            text += f"void {name}_{real}(const {real} *x, {real} *out, long n)\n"
            text += f"{{ for (long i = 0; i < n; i++) out[i] = {call}; }}\n"
    library = compiled(text, tmp_path_factory.mktemp("sines"), flags)

    def compute(name: str, x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        function = getattr(library, f"{name}_{REALS[x.dtype.name]}")
        function(*(a.ctypes.data_as(ctypes.c_void_p) for a in (x, out)), ctypes.c_long(x.size))
        return out

    return compute


def arguments(dtype: str) -> np.ndarray:
    """Ordinary ones, of each size, next to multiples of pi/2, and what is largest."""
    randoms, most = np.random.default_rng(0), MOST[dtype]
    sizes = np.exp2(randoms.uniform(-30, math.log2(most), 3000))
    with mpmath.workprec(120):
        turns = [int(n) for n in np.exp2(randoms.uniform(0, math.log2(most) - 1, 3000))]
        beside = [float(n * mpmath.pi / 2) * (1 + randoms.integers(-2, 3) * np.finfo(dtype).eps) for n in turns]
    every = np.concatenate([randoms.uniform(0, 8, 3000), sizes, beside, [most, 622.0353454107791, 174678486.52180672]])
    x = np.concatenate([every, -every]).astype(TYPES[dtype])
    return x[abs(x) <= most]


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", TYPES)
def test_no_digit_is_lost(dtype: str, name: str, near: Callable[..., np.ndarray]) -> None:
    """Beside zeros as well: the error is one of the result alone, however large the argument."""
    x = arguments(dtype)
    exact = getattr(mpmath, name)
    with mpmath.workprec(200):
        found = near(name, x).tolist()
        off = [mixed_error(y, exact(at), mpmath.mpf(0), dtype) for at, y in zip(x.tolist(), found, strict=True)]
    assert max(off) <= 1.55, x[int(np.argmax(off))]


@pytest.mark.parametrize("dtype", TYPES)
def test_tangents_are_as_the_table_says(dtype: str, near: Callable[..., np.ndarray]) -> None:
    x = arguments(dtype)
    with mpmath.workprec(200):
        exact = [mpmath.tan(at) for at in x.tolist()]
        scales = [abs(at) * (1 + y**2) for at, y in zip(x.tolist(), exact, strict=True)]
        off = [mixed_error(*row, dtype) for row in zip(near("tan", x).tolist(), exact, scales, strict=True)]
    assert max(off) <= PRIMITIVES["tan"].double_ulps, x[int(np.argmax(off))]


@pytest.mark.parametrize("dtype", TYPES)
def test_zeros_keep_their_sign_and_what_is_no_number_gives_none(dtype: str, near: Callable[..., np.ndarray]) -> None:
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], TYPES[dtype])
    tiny = np.finfo(dtype).tiny * np.array([1, -0.25], TYPES[dtype])
    np.testing.assert_array_equal(near("cos", x), [1, 1, np.nan, np.nan, np.nan])
    for name in ("sin", "tan"):
        np.testing.assert_array_equal(np.signbit(near(name, x)[:2]), [False, True])
        np.testing.assert_array_equal(near(name, x), [0, 0, np.nan, np.nan, np.nan])
        np.testing.assert_array_equal(near(name, tiny), tiny)


# Kernels

SPEC = """
@op
def wave(x: Tensor, t: Tensor):
    return x + sin(t)

@op
def turned(x: Tensor):
    return x * cos(sin(x) * 10**9)

@op
def chord(x: Tensor):
    return sin(pi * x) + cos(x)

@op
def slope(x: Tensor):
    return tan(x)

@op
def ripple(x: Tensor):
    return sinc(x)
"""


@pytest.fixture(scope="module")
def waves(tmp_path_factory: pytest.TempPathFactory) -> object:
    return build(SPEC, tmp_path_factory.mktemp("waves"))[0]


def mixed(dtype: torch.dtype) -> torch.Tensor:
    """1,600 numbers, three stretches and a bit: the second has one far out, the third some, one of them infinite."""
    x = torch.linspace(-9, 9, 1600, dtype=torch.float64)
    x[700] = 3.0e4 if dtype is torch.float16 else 1e30
    x[1100:1200] *= 3e3 if dtype is torch.float16 else 1e12
    x[1190] = math.inf
    return x.to(dtype)


def assert_is(found: torch.Tensor, truth: Callable[..., mpmath.mpf], *inputs: torch.Tensor) -> None:
    """Within the bar of what mpmath makes of the inputs; the scale, which lets pass anything far out, is left out."""
    dtype = str(found.dtype).removeprefix("torch.")
    with mpmath.workprec(1200):
        for y, *at in zip(found.tolist(), *(x.tolist() for x in inputs), strict=True):
            if all(map(math.isfinite, at)):
                value = truth(*map(mpmath.mpf, at))
                largest = max([abs(value), *(abs(x) for x in at if abs(x) < 100)])
                assert mixed_error(y, value, largest, dtype) <= 4, at
            else:
                assert math.isnan(y)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_far_elements_among_ordinary_ones(waves: object, dtype: torch.dtype) -> None:
    t = mixed(dtype)
    x = torch.linspace(-1, 1, t.numel(), dtype=dtype)
    with waves.rt.record_paths() as record:
        found = waves.wave(x, t)
    assert [path for _, path in record] == ["cpu"]
    assert_is(found, lambda a, b: a + mpmath.sin(b), x, t)
    near = t.abs() < 100
    assert torch.equal(found[near], waves.wave(x, torch.where(near, t, 1))[near])  # no element hangs on its neighbours


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_tangents(waves: object, dtype: torch.dtype) -> None:
    t = mixed(dtype)
    assert_is(waves.slope(t), mpmath.tan, t)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_sinc_and_its_derivatives(waves: object, dtype: torch.dtype) -> None:
    """Where they switch from their series to sines, and far out, where ordinary sines no longer do."""
    t = mixed(dtype)[:-1]
    at = torch.where(t.isinf(), 7.0, t).requires_grad_()
    value = waves.ripple(at)
    (slope,) = torch.autograd.grad(value.sum(), at, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), at)
    assert_is(value, mpmath.sinc, at)
    assert_is(slope, partial(exact, "dsinc"), at)
    assert_is(second, partial(exact, "d2sinc"), at)
    far = torch.tensor([math.inf, -math.inf], dtype=dtype)
    assert waves.ripple(far).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_sine_of_a_sine_is_looked_at(waves: object, dtype: torch.dtype) -> None:
    """No input is far out, but what is computed of it: 10**9 is more than float32's sines take, not than float64's."""
    x = torch.cat([torch.linspace(-3, 3, 1600, dtype=dtype), torch.linspace(-9e-10, 9e-10, 50, dtype=dtype)])
    found = waves.turned(x)
    with waves.rt.force_path("torch"):
        expected = waves.turned(x)
    near_zero = x.abs() < 1e-2 if dtype is torch.float64 else x.abs() < 1e-9
    assert near_zero.any()
    assert torch.isfinite(found).all()
    assert (found.abs() <= x.abs()).all()
    torch.testing.assert_close(found[near_zero], expected[near_zero], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_of_sines_of_half_turns(waves: object, dtype: torch.dtype) -> None:
    x = torch.cat([torch.linspace(-40, 40, 1601, dtype=dtype), torch.tensor([1e6, 123456.5, -7.5], dtype=dtype)])
    assert_is(waves.chord(x), lambda a: mpmath.sinpi(a) + mpmath.cos(a), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_over_inputs(waves: object, dtype: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """The first pass over a stretch writes nothing, so that the second finds what the first one found."""
    kind = getattr(torch, dtype)
    library = compiled(waves._WAVE.cpu_source(kind), tmp_path, flags)
    t = mixed(kind)
    x = torch.linspace(-1, 1, t.numel(), dtype=kind)
    apart, over = torch.empty_like(x), x.clone()
    for out, first in ((apart, x), (over, over)):
        data = (ctypes.c_void_p * 3)(first.data_ptr(), t.data_ptr(), out.data_ptr())
        library.gg_compute(ctypes.c_int64(x.numel()), data, None)
    assert torch.equal(over.nan_to_num(7), apart.nan_to_num(7))
    assert_is(over, lambda a, b: a + mpmath.sin(b), x, t)
