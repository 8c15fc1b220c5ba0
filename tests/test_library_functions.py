"""The functions of the C library and of torch that kernels call are no worse than the table says they are."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from gradgen.evaluate import function
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import mixed_error

# Those that come from elsewhere; gradgen's own are held against mpmath in `test_special`.
NAMES = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "tanh",
    "asinh", "acosh", "atanh", "erf", "erfc",
]  # fmt: skip
DOMAIN = {"asin": 1.0, "acos": 1.0, "atanh": 0.999, "exp": 700.0, "exp2": 1000.0, "expm1": 700.0, "erfc": 26.0}
COUNT = {"float32": 400, "float64": 200}
TYPES = {"float32": np.float32, "float64": np.float64}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("library")
    lines = ["#include <math.h>", "#include <tgmath.h>"]
    for name in NAMES:
        for real, dtype in (("float", "float32"), ("double", "float64")):
            lines.append(
                f"void {name}_{dtype}(const {real} *x, {real} *out, long n) "
                f"{{ for (long i = 0; i < n; i++) out[i] = {name}(x[i]); }}"
            )
    source, target = folder / "f.c", folder / "f.so"
    source.write_text("\n".join(lines) + "\n")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-o", target, "-lm"], check=True)
    return ctypes.CDLL(str(target))


def inputs(name: str, dtype: str) -> np.ndarray:
    """Numbers of ordinary size and others, every exponent alike, where the function is defined."""
    randoms = random.Random(name)
    most = DOMAIN.get(name, np.inf)
    found = []
    while len(found) < COUNT[dtype]:
        x = randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(-30, 20 if randoms.random() < 0.3 else 4)
        x = min(max(x, -most), most)
        x = abs(x) + 1 if name == "acosh" else abs(x) if name.startswith("log") and name != "log1p" else x
        if not (name == "log1p" and x <= -1) and not (name in ("exp", "exp2") and dtype == "float32" and abs(x) > 80):
            found.append(x)
    return np.array(found, dtype=TYPES[dtype])


def worst(name: str, dtype: str, compute: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """The largest error, where the result is normal and finite, and where it is."""
    x = inputs(name, dtype)
    found = (0.0, 0.0)
    with mpmath.workprec(200):
        for at, got in zip(x.tolist(), compute(x).tolist(), strict=True):
            exact = function(name, mpf(at))
            scale = abs(function(name, mpf(at) * (1 + mpf(2) ** -60)) - exact) * mpf(2) ** 60
            found = max(found, (mixed_error(got, exact, scale, dtype), at))
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_of_the_c_library(name: str, dtype: str, library: ctypes.CDLL) -> None:
    def compute(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        getattr(library, f"{name}_{dtype}")(
            x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(x.size)
        )
        return out

    error, at = worst(name, dtype, compute)
    assert error <= PRIMITIVES[name].ulps, at


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [name for name in NAMES if not PRIMITIVES[name].torch_source])
def test_of_torch(name: str, dtype: str) -> None:
    scope = {"torch": torch}

    def compute(x: np.ndarray) -> np.ndarray:
        result: np.ndarray = eval(PRIMITIVES[name].torch.format("x"), scope, {"x": torch.from_numpy(x)}).numpy()
        return result

    error, at = worst(name, dtype, compute)
    assert error <= PRIMITIVES[name].ulps, at
