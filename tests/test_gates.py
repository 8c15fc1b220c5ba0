"""The derivative of what is gated, sigmoid(u) + w logistic_density(u), in kernels and torch, against mpmath."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path

import mpmath
import pytest
import torch
from building import build
from mpmath import mpf
from torch import Tensor

from generated import _runtime
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import mixed_error

DTYPES = (torch.float32, torch.float64)
PATHS = ("cpu", "torch")
WORST = ((0.5147600173950195, -4.448100566864014), (1.343, -16.88), (-0.880, -1.709))
KERNEL = _runtime.Kernel(
    "gate",
    tensors=("u", "w"),
    results=("y",),
    code="const real y = dgate(u, w);",
    expression=lambda u, w, wanted: (_runtime.dgate(u, w),),
)


def dgate(path: str, u: Tensor, w: Tensor) -> Tensor:
    with _runtime.force_path("torch") if path == "torch" else nullcontext():
        (y,) = KERNEL((u, w))
    assert y is not None
    return y


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_it_is_as_exact_as_the_table_says(path: str, dtype: torch.dtype) -> None:
    """As a share of the value, or of what u changes it by, for u > 0 of the term with w as well.

    Next to a zero as well, and where it is off by most.
    """
    last = {torch.float32: 100.0, torch.float64: 740.0}[dtype]
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(4000, generator=generator, dtype=torch.float64) * k for k in (1, 3, last / 3)]
    u = torch.cat(drawn).clamp(-last, last)
    sizes = torch.tensor([0.1, 1.0, 30.0]).repeat(len(u) // 3)
    w = torch.randn(len(u), generator=generator, dtype=torch.float64) * sizes
    zero = -(1 + u.clamp(max=30).exp())
    w = torch.where(torch.arange(len(u)) % 4 == 0, zero * (1 + w / 1e4), w)
    worst_u, worst_w = zip(*WORST, strict=True)
    u, w = (torch.cat([t, torch.tensor(at, dtype=torch.float64)]).to(dtype) for t, at in ((u, worst_u), (w, worst_w)))
    kind, row = str(dtype).removeprefix("torch."), PRIMITIVES["dgate"]
    errors = []
    with mpmath.workdps(60):
        for a, b, y in zip(u.tolist(), w.tolist(), dgate(path, u, w).tolist(), strict=True):
            e = mpmath.exp(-abs(mpf(a)))
            density = e / (1 + e) ** 2
            exact = (1 if a > 0 else e) / (1 + e) + b * density
            slopes = (abs(density * (1 - b * mpmath.tanh(mpf(a) / 2))), abs(b * density) if a > 0 else mpf(0))
            errors.append(mixed_error(y, exact, max(slopes), kind))
    worst = max(range(len(errors)), key=errors.__getitem__)
    assert errors[worst] <= row.ulps, (u[worst], w[worst])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, *DTYPES], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_it_has_its_limits(path: str, dtype: torch.dtype) -> None:
    """However large the other factor of the density is; what is no number is none."""
    inf, nan, large = math.inf, math.nan, torch.finfo(dtype).max
    u = torch.tensor([-inf, inf, -inf, inf, -large, large, nan, 0, -inf], dtype=dtype)
    w = torch.tensor([1, 1, -inf, inf, -large, -large, 0, nan, nan], dtype=dtype)
    expected = torch.tensor([0, 1, 0, 1, 0, 1, nan, nan, nan], dtype=dtype)
    torch.testing.assert_close(dgate(path, u, w), expected, rtol=0, atol=0, equal_nan=True)
    unbounded = dgate(path, torch.tensor([-1.0, 1.0, 0.0], dtype=dtype), torch.tensor([inf, -inf, inf], dtype=dtype))
    torch.testing.assert_close(unbounded, torch.tensor([inf, -inf, inf], dtype=dtype), rtol=0, atol=0)


def test_derivatives_of_gates_are_one_function(tmp_path: Path) -> None:
    """Of one argument another one, which takes fewer instructions yet."""
    text = "@op\ndef f(x: Tensor):\n    return {} / (1 + exp(-{}))\n"
    module, _ = build(text.format("(x + 1)", "x"), tmp_path)
    assert module._F_BACKWARD.code == "const real grad_x = grad * dgate(x, x + 1);"
    module, _ = build(text.format("x", "1.702 * x"), tmp_path)
    assert module._F_BACKWARD.code == "const real grad_x = grad * dswish(real(1.702) * x);"
    assert module._F_BACKWARD.wide == ()
    module, _ = build(text.format("x", "x"), tmp_path)
    assert module._F_BACKWARD.code == "const real grad_x = grad * dswish(x);"
