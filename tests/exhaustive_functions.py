"""gradgen's own exp, log, tanh and their kin at very many inputs, against the C library's of `long double`.

    python tests/exhaustive_functions.py [NAMES]

prints the worst mixed error of each in float32, at every 61st number, and in float64, at as many random ones, with and
without the instructions of this machine (fused multiply-add); half a minute each. What `test_library_functions.py` has
in `WORST` was found like this.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from test_library_functions import NORMAL, OWN_WHERE_FUSED, TYPES, compiled, compiler, of_c

from generated import _runtime
from gradgen.ulp import LARGEST, MANTISSA, SMALLEST_EXPONENT

ROOT, DENSITY = "0.70710678118654752440084436210484903928L", "0.39894228040143267793994605993438186848L"

OWN = ("exp", "expm1", "log", "log1p", "gg_log1p_unit", "tanh", "erf", "erfc", *NORMAL)
OWN += (*OWN_WHERE_FUSED, "gg_cbrt")
UNIT = "gg_log1p_unit"  # log1p of numbers from 0 to 1
# In the C library's functions; digits of `long double` that the terms of dgelu lose to each other are not missed
EXACT = {
    UNIT: "log1pl(x)",
    "gg_cbrt": "cbrtl(x)",
    "gg_mul_ndtr": f"0.5L * erfcl(-x * {ROOT})",
    "gg_mul_dswish": "(x < 0 ? 1.0L : -1.0L) * expl(-fabsl(x)) * (1 - fabsl(x) + expl(-fabsl(x)))"
    " / powl(1 + expl(-fabsl(x)), 2) + (x < 0 ? 0.0L : 1.0L)",
    "gg_mul_dgelu": f"0.5L * erfcl(-x * {ROOT}) + x * expl(-x * x / 2) * {DENSITY}",
}
STEP = 61
CHUNK = 2**20
COUNT = 2**32 // STEP
FLAGS: dict[str, tuple[str, ...]] = {"plain": (), "native": _runtime._FOR_THIS_PROCESSOR}
_NEAR = np.longdouble(2) ** -24  # by how much inputs are changed to see what their rounding does


def numbers(dtype: str) -> Iterator[np.ndarray]:
    """Chunks of numbers of a type: every so manieth one, or random bits."""
    randoms = np.random.default_rng(0)
    for start in range(0, COUNT, CHUNK):
        size = min(CHUNK, COUNT - start)
        if dtype == "float32":
            yield (np.arange(start, start + size, dtype=np.uint64) * STEP).astype(np.uint32).view(np.float32)
        else:  # half of them where functions are neither constant nor linear
            anywhere = randoms.integers(0, 2**64, size, dtype=np.uint64).view(np.float64)
            ordinary = np.ldexp(randoms.uniform(-2, 2, size), randoms.integers(-14, 9, size))
            yield np.where(np.arange(size) % 2, anywhere, ordinary)


def of_long_doubles(folder: Path, names: list[str]) -> ctypes.CDLL:
    """The C library's functions of `long double`, each of an array."""
    lines = ["#include <math.h>"]
    for name in names:
        lines.append(f"static long double f_{name}(long double x) {{ return {EXACT.get(name, f'{name}l(x)')}; }}")
        loop = f"for (long i = 0; i < n; i++) out[i] = f_{name}(x[i]);"
        lines.append(f"void {name}_long(const long double *x, long double *out, long n) {{ {loop} }}")
    source, target = folder / "exact.c", folder / "exact.so"
    source.write_text("\n".join(lines) + "\n")
    flags = ["-O2", "-fPIC", "-shared"]
    subprocess.run([str(compiler()), *flags, source, "-o", target, "-lm"], check=True)
    return ctypes.CDLL(str(target))


def worst(name: str, dtype: str, own: ctypes.CDLL, exact: ctypes.CDLL) -> tuple[float, float]:
    """The largest mixed error and where it is."""
    ours, theirs = of_c(name, dtype, own), of_c(name, "long", exact)
    found = (0.0, 0.0)
    for every in numbers(dtype):
        x = every[(every >= 0) & (every <= 1)] if name == UNIT else every
        if not x.size:
            continue
        with np.errstate(all="ignore"):
            wide = x.astype(np.longdouble)
            value = theirs(wide)
            scale = np.abs(theirs(wide * (1 + _NEAR)) - value) / _NEAR
            size = np.maximum(np.abs(value), np.where(np.isfinite(scale), scale, 0))
            exponent = np.maximum(np.frexp(size)[1] - 1, SMALLEST_EXPONENT[dtype])
            unit = np.ldexp(np.longdouble(1), exponent - MANTISSA[dtype] + 1)
            is_number = np.isfinite(value) & (np.abs(value) + unit <= LARGEST[dtype])
            got = ours(np.ones_like(x), x) if name in NORMAL else ours(x)
            off = np.where(is_number, np.abs(got.astype(np.longdouble) - value) / unit, 0)
        k = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        found = max(found, (float(off[k]), float(x[k])))
    return found


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind, flags in FLAGS.items():
            Path(folder, kind).mkdir()
            own = compiled(Path(folder, kind), flags)
            exact = of_long_doubles(Path(folder, kind), names)
            for name in names:
                for dtype in TYPES:
                    error, at = worst(name, dtype, own, exact)
                    print(f"{kind:6}  {name:6} {dtype}: {error:.3f} at {at!r}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(OWN))
