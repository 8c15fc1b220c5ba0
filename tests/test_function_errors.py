"""What functions lack of their exact values, in C and in torch: next to nothing is wrong of it, and nothing beyond."""

from __future__ import annotations

import ctypes
import math
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from generated import _runtime
from gradgen import error_free, function_errors
from gradgen.evaluate import function
from gradgen.primitives import FUNCTION_ERRORS, PRIMITIVES

NAMES = sorted(dict.fromkeys(FUNCTION_ERRORS.values()))
TYPES = {np.float32: "float", np.float64: "double"}
PRELUDE = """\
#include <math.h>
#include <stdbool.h>
#include <tgmath.h>
typedef {type} real;
#define FN static inline
"""
# What is wrong of an error, in units in the last place of the value: the inverse hyperbolic tangent magnifies it near
# 1, the logarithm of a sum where that is near 1.
WRONG = {"atanh_error": 2.0**-6, "logaddexp_error": 2.0**-20, "sin_error": 2.0**-22, "cos_error": 2.0**-22}
FAR = [1400.0, 1e10, 1e300, math.inf]

Row = tuple[float, ...]


def of(name: str) -> str:
    return name.removesuffix("_error")


def numbers(name: str, count: int = 600) -> list[Row]:
    """Operands of every magnitude at which the function is an ordinary number."""
    draw = random.Random(name)
    xs = [draw.choice((-1, 1)) * 2.0 ** draw.uniform(-60, 9.3) for _ in range(count)]
    xs += [draw.uniform(-3, 3) for _ in range(count)]
    if name == "log_error":
        xs = [*map(abs, xs), *(2.0 ** draw.uniform(-1000, 1000) for _ in range(count))]
        xs += [1 + 2.0 ** draw.uniform(-50, -1) for _ in range(count)]
    if name == "asinh_error":
        xs += [draw.choice((-1, 1)) * 2.0 ** draw.uniform(9, 1000) for _ in range(count)]
    if name == "log1p_error":
        xs = [x for x in xs if x > -1] + [2.0 ** draw.uniform(9, 1000) for _ in range(count)]
    if name == "atanh_error":
        xs = [x for x in xs if abs(x) < 1] + [1 - 2.0 ** draw.uniform(-50, -1) for _ in range(count)]
    if name in ("sin_error", "cos_error"):
        xs += [draw.uniform(-5e5, 5e5) for _ in range(count)]
    if name == "pow_error":
        return [(abs(x), draw.choice((0.5, 2.0, -1.0, 1.0)) * draw.uniform(-3, 3)) for x in xs]
    if name == "logaddexp_error":
        return [(x, x + draw.choice((0.0, draw.uniform(-60, 60), draw.uniform(-1, 1)))) for x in xs]
    if name == "hypot_error":
        xs = [x * (1.0 if k % 2 else 2.0 ** draw.uniform(-400, 400)) for k, x in enumerate(xs)]
        return [(x, x * draw.choice((draw.uniform(-2, 2), 2.0 ** draw.uniform(-60, 60), 0.0))) for x in xs]
    if not name.startswith("mul_"):
        return [(x,) for x in xs]
    xs += [-abs(x) % 150 - 750 for x in xs]
    return [(draw.choice((-1, 1)) * 2.0 ** draw.uniform(-20, 20) * (2.0**200 if x < -600 else 1), x) for x in xs]


def exact(name: str, row: Row) -> mpf:
    return function(of(name), *map(mpf, row))


def off(value: mpf, draw: random.Random, dtype: type) -> float:
    """A number next to an exact value, as a function that errs gives."""
    x = dtype(float(value))
    for _ in range(draw.randrange(3)):
        x = np.nextafter(x, dtype(draw.choice((-math.inf, math.inf))))
    return float(x)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[type, ctypes.CDLL]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    built = {}
    for dtype, type_name in TYPES.items():
        lines = [PRELUDE.format(type=type_name), _runtime._BITS, *function_errors.C.values()]
        for name in NAMES:
            call = f"{name}({'r[i], ' if function_errors.ARITY[name] == 3 else ''}x[i], y[i])"
            parameters = "const real *r, const real *x, const real *y, real *out, long size"
            lines.append(f"void all_{name}({parameters}) {{ for (long i = 0; i < size; i++) out[i] = {call}; }}")
        folder = tmp_path_factory.mktemp("errors")
        (folder / "all.c").write_text("\n".join(lines))
        flags = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unused-function"]
        subprocess.run(
            [compiler, *flags, "-shared", "-fPIC", folder / "all.c", "-o", folder / "all.so", "-lm"], check=True
        )
        built[dtype] = ctypes.CDLL(str(folder / "all.so"))
    return built


def by_c(library: ctypes.CDLL, name: str, dtype: type) -> Callable[..., np.ndarray]:
    def compute(*columns: Sequence[float]) -> np.ndarray:
        arrays = [np.array(column, dtype) for column in columns]
        arrays = [arrays[0], *arrays] if len(arrays) == 2 else arrays
        out = np.empty_like(arrays[0])
        getattr(library, f"all_{name}")(
            *(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)), ctypes.c_long(out.size)
        )
        return out

    return compute


def by_torch(name: str, dtype: type) -> Callable[..., np.ndarray]:
    namespace = {"torch": torch, "math": math, "Tensor": torch.Tensor, "Sequence": Sequence}
    for text in (error_free.TORCH | function_errors.TORCH).values():
        exec(text, namespace)
    return lambda *columns: namespace[name](*(torch.from_numpy(np.array(c, dtype)) for c in columns)).numpy()


@pytest.fixture(params=["C", "torch"])
def compute(
    request: pytest.FixtureRequest, libraries: dict[type, ctypes.CDLL]
) -> Callable[[str, type], Callable[..., np.ndarray]]:
    if request.param == "torch":
        return by_torch
    return lambda name, dtype: by_c(libraries[dtype], name, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.get)
@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_what_the_value_lacks(
    name: str, dtype: type, compute: Callable[..., Callable[..., np.ndarray]]
) -> None:
    draw = random.Random(0)
    info = np.finfo(dtype)
    with mpmath.workdps(50):
        rows, computed, lacking = [], [], []
        for row in numbers(name):
            row = tuple(float(dtype(x)) for x in row)
            value = exact(name, row)
            if not float(info.tiny) * 2**60 < abs(value) < float(info.max) / 2**30:
                continue
            y = off(value, draw, dtype)
            rows.append(row)
            computed.append(y)
            lacking.append(value - mpf(y))
        assert len(rows) > 300
        found = compute(name, dtype)(*zip(*rows, strict=True), computed)
        assert found.dtype == dtype
        for row, y, error, right in zip(rows, computed, found.tolist(), lacking, strict=True):
            if error == 0 and name != "hypot_error" and max(abs(row[-1]), abs(y)) > 630:
                continue  # what an exponential lacks is too small to be a number
            unit = mpf(float(np.spacing(dtype(abs(y)))))
            allowed = WRONG.get(name, 2.0**-24 if dtype is np.float64 else 2.0**-20)
            assert abs(mpf(error) - right) <= allowed * unit, (row, y, error, right)
        assert max(abs(right) for right in lacking) > 0


def unknown(name: str) -> list[Row]:
    """Operands at which a function is no number, at its bounds or beyond the series."""
    far = [x for size in FAR for x in (size, -size)]
    if name in ("log_error", "log1p_error"):
        return [(math.inf,), (-2.0,), (math.nan,)]
    if name == "pow_error":
        return [(0.0, 2.5), (0.0, -0.5), (math.inf, 0.5), (-2.0, 0.5), (math.nan, 2.0), (2.0, 2000.0), (2.0, -2000.0)]
    if name == "hypot_error":
        return [(0.0, 0.0), (1e-150, 3e-150), (1e200, 1.0), (math.inf, 1.0), (math.nan, 1.0)]
    if name == "logaddexp_error":
        return [(a, b) for a in (0.0, *far) for b in far if a != b] + [(math.nan, 1.0)]
    if name in ("asinh_error", "cbrt_error"):
        far = [math.inf, -math.inf, math.nan]
    if name in ("sin_error", "cos_error"):
        far = [2.0**19, -(2.0**19), 1e300, math.inf]
    return [(r, x) for r in (1.0, -3.0, 0.0, math.inf) for x in far] if name.startswith("mul_") else [(x,) for x in far]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lacking_where_nothing_is_known(
    name: str, compute: Callable[..., Callable[..., np.ndarray]]
) -> None:
    """A correction there would be all that is left."""
    rows = unknown(name)
    values = [float(PRIMITIVES[of(name)].mpmath(*map(mpf, row))) for row in rows]
    found = compute(name, np.float64)(*zip(*rows, strict=True), values)
    assert found.tolist() == [0.0] * len(rows), list(zip(rows, values, found.tolist(), strict=True))


def test_powers_of_two_are_exact_in_torch() -> None:
    n = torch.arange(-1022, 1024, dtype=torch.float64)
    assert torch.exp2(n).tolist() == [math.ldexp(1, int(k)) for k in n.tolist()]


def test_errors_of_powers_broadcast() -> None:
    """As the powers do: base and exponent may both be smaller than these."""
    x, p = torch.linspace(0.5, 2, 4)[:, None], torch.linspace(-1, 3, 3)
    y = x**p
    whole = _runtime.pow_error(x.expand(4, 3), p.expand(4, 3), y)
    assert torch.equal(_runtime.pow_error(x, p, y), whole)
