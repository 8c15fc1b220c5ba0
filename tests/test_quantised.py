"""Formulas whose branch hangs on a quotient, or a product, of two inputs, where one is 0/0 for an infinite divisor.

Fake quantisation and clipping with a learnable step: whether x/s is rounded to 0, or clipped, no size of s alone says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from building import build
from torch import Tensor

Function = Callable[[Tensor, Tensor], Tensor]

OPS: dict[str, Function] = {
    "Max(Min(x/s, 1), -1)*s": lambda x, s: (x / s).clamp(-1, 1) * s,
    "Min(x*s, 1)/s": lambda x, s: (x * s).clamp(max=1) / s,
    "s*Min(Max(floor(x/s + 0.5), -8), 7)": lambda x, s: s * torch.floor(x / s + 0.5).clamp(-8, 7),
    "sign(x)*floor(Abs(x)/s + 0.5)*s": lambda x, s: torch.sign(x) * torch.floor(x.abs() / s + 0.5) * s,
    "floor(x*s + 0.5)/s": lambda x, s: torch.floor(x * s + 0.5) / s,
    "ceiling(x*s - 0.5)/s": lambda x, s: torch.ceil(x * s - 0.5) / s,
    "tanh(Min(x*s, 1))/s": lambda x, s: torch.tanh((x * s).clamp(max=1)) / s,
}


@pytest.mark.parametrize("path", [None, "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("formula", OPS)
def test_the_branch_of_a_quotient_is_taken_at_every_scale(
    formula: str, dtype: torch.dtype, path: str | None, tmp_path: Path
) -> None:
    module, _ = build(f"@op\ndef f(x: Tensor, s: Tensor):\n    return {formula}\n", tmp_path)
    generator = torch.Generator().manual_seed(0)
    quotient = (torch.randn(4000, generator=generator) * torch.tensor([0.2, 4.0, 40.0, 1e-3]).repeat(1000)).double()
    quotient = torch.where((quotient - quotient.floor() - 0.5).abs() < 1e-3, quotient + 0.01, quotient)  # not at a jump
    scale = torch.randn(4000, generator=generator).double().exp2() * 2.0 ** torch.randint(
        -30, 30, (4000,), generator=generator
    )
    x = quotient / scale if "x*s" in formula else quotient * scale
    x, s = (t.to(dtype).requires_grad_() for t in (x, scale))
    wide = [t.detach().double().requires_grad_() for t in (x, s)]
    expected = OPS[formula](*wide)
    slopes = torch.autograd.grad(expected.sum(), wide)
    with module.rt.force_path(path) if path else nullcontext():
        found = module.f(x, s)
        gradients = torch.autograd.grad(found.sum(), (x, s))
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=0)
    for gradient, slope, size in zip(
        gradients, slopes, (1.0, expected.abs() / wide[1].abs() + (wide[0] / wide[1]).abs()), strict=True
    ):
        within = tolerance * (slope.abs() + abs(size))  # terms of it may cancel
        assert ((gradient.double() - slope).abs() <= within).all()


def test_where_an_input_is_0_and_another_one_infinite_there_is_a_limit(tmp_path: Path) -> None:
    """Their product is no number, which tells nothing of how near to the singularity that is."""
    text = "@op\ndef f(x: Tensor, y: Tensor, s: Tensor):\n    return (tanh(x*s + y) - tanh(y))/s\n"
    module, _ = build(text, tmp_path)
    for dtype, path in itertools.product((torch.float32, torch.float64), (None, "torch")):
        rows = ([1.0, 1.0], [math.inf, -math.inf], [0.0, 0.0])
        x, y, s = (torch.tensor(row, dtype=dtype, requires_grad=True) for row in rows)
        with module.rt.force_path(path) if path else nullcontext():
            found = module.f(x, y, s)
            gradients = torch.autograd.grad(found.sum(), (y, s))
        assert [one.tolist() for one in (found, *gradients)] == [[0, 0]] * 3
