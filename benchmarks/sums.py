"""What the gradient of an input that broadcasts costs: forward and backward with it, in units of those without it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.cases import CASES, CHANNELS, Function, built, load
from benchmarks.timing import Timings, side_by_side

_OPS = ("channel_swish", "bias_gelu")
# The sizes of the one input after its first, and those of the other
_SHAPES = {
    "per channel": ((CHANNELS,), (CHANNELS,)),
    "per channel of images": ((64, 7, 7), (64, 1, 1)),
    "scalar": ((CHANNELS,), ()),
}
_SIZES = (1 << 14, 1 << 18, 1 << 22, 1 << 24)  # elements
_DTYPES = (torch.float32, torch.bfloat16)
_SECONDS = 1.0  # to sample one figure


def show(console: Console, device: str) -> Timings:
    """Measure and print."""
    timings: Timings = {}
    cases = [case for case in CASES if case.name in _OPS]
    table = Table("op", "other input", "type", *[f"2^{n.bit_length() - 1}" for n in _SIZES], title="times as long")
    with built(cases) as (folder, package):
        for name, function in load(cases, folder, package).items():
            for shape in _SHAPES:
                for dtype in _DTYPES:
                    kind = str(dtype).removeprefix("torch.")
                    ratios = []
                    for n in _SIZES:
                        found = _measured(function, n, *_SHAPES[shape], dtype, device)
                        ratios.append(f"{found['with'].median / found['without'].median:.2f}")
                        timings |= {f"{name}, {shape}, {kind}, {n}, {way} it": found[way] for way in found}
                    table.add_row(name, shape, kind, *ratios)
    console.print(table)
    return timings


def _measured(
    function: Function, n: int, sizes: tuple[int, ...], shape: tuple[int, ...], dtype: torch.dtype, device: str
) -> Timings:
    x = torch.randn(n // math.prod(sizes), *sizes, device=device, dtype=dtype, requires_grad=True)
    other = torch.randn(shape, device=device, dtype=dtype)
    calls = {
        "with": _both(function, x, other.clone().requires_grad_()),
        "without": _both(function, x, other),
    }
    return side_by_side(calls, device, _SECONDS)


def _both(function: Function, x: Tensor, other: Tensor) -> Callable[[int], None]:
    ones = torch.ones_like(x)

    def call(_buffers: int) -> None:
        result = function(x, other)
        assert isinstance(result, Tensor)
        result.backward(ones)
        x.grad = other.grad = None

    return call
