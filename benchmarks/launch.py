"""Where the time of a call goes whose tensors are too small to matter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.timing import Timings, side_by_side
from generated import _runtime
from generated.swish import _SWISH, SwishFunction, swish

_COUNT = 1000  # elements
_SECONDS = 0.5  # to sample one figure


class _Empty(torch.autograd.Function):
    """What any function written in Python costs: two allocations."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return torch.empty_like(grad)


def show(console: Console) -> Timings:
    """Measure and print: by what is compiled with C alone, and by C++."""
    library = _runtime.compile_native()
    _both()["swish(x)"]()  # compiles the kernels
    _runtime._native = None
    by_c = _show(console, "by C and Python")
    _runtime._use_native(library)
    return by_c | _show(console, "by C++")


def _show(console: Console, way: str) -> Timings:
    timings: Timings = {}
    tables = (
        (f"Forward {way}", _forward()),
        (f"Forward and backward {way}", _both()),
    )
    for title, rows in tables:
        found = side_by_side({name: partial(_ignoring, call) for name, call in rows.items()}, "cpu", _SECONDS)
        shown = Table("what", "median", "quartiles", title=f"{title}, microseconds", title_justify="left")
        for name, timing in found.items():
            low, median, high = (f"{1e6 * value:.2f}" for value in (timing.low, timing.median, timing.high))
            shown.add_row(name, median, f"{low} to {high}")
            timings[f"{title}: {name}"] = timing
        console.print(shown)
    return timings


def _ignoring(call: Callable[[], object], _buffers: int) -> object:
    return call()


def _forward() -> dict[str, Callable[[], object]]:
    x = torch.randn(_COUNT)
    swish(x)  # compiles it
    native = _runtime._native is not None
    dispatch = _SWISH._natives[SwishFunction] if native else _SWISH.narrow._quick.call
    return {
        "an allocation, torch.empty_like(x)": lambda: torch.empty_like(x),
        "F.silu(x)": lambda: torch.nn.functional.silu(x),
        "the compiled dispatcher: looks at the tensor, allocates, computes": lambda: dispatch((x,), (1.0,), (True,)),
        "Kernel.quick: whether somebody watches": lambda: _SWISH.quick((x,), (1.0,), function=SwishFunction),
        "swish(x): the public function": lambda: swish(x),
    }


def _both() -> dict[str, Callable[[], object]]:
    x, ones = torch.randn(_COUNT, requires_grad=True), torch.ones(_COUNT)

    def through(function: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        def call() -> None:
            function(x).backward(ones)
            x.grad = None

        return call

    apply = super(torch.autograd.Function, _Empty).apply
    return {
        "F.silu(x)": through(torch.nn.functional.silu),
        "an empty Function, applied as swish applies its own": through(apply),
        "the same by Function.apply": through(_Empty.apply),
        "swish(x), its forward alone": lambda: swish(x),
        "swish(x)": through(swish),
    }
