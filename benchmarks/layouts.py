"""Operands that do not lie in order, that broadcast, and results written over their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

from benchmarks.timing import Call, Timings, side_by_side
from generated.relu import relu_
from generated.staged import max_gate
from generated.swish import swish

_SIZES = (16, 512, 2048)  # of the sides of a square; channels_last has 16 of them as channels
_SECONDS = 0.3  # to sample one figure

Make = Callable[[int, str], tuple[Tensor, ...]]


def _random(*shape: int, device: str) -> Tensor:
    return torch.randn(shape, device=device)


def _channels_last(side: int, device: str) -> tuple[Tensor, ...]:
    return (_random(side // 16, 16, side // 4, 4, device=device).to(memory_format=torch.channels_last),)


_UNARY: dict[str, Make] = {
    "contiguous": lambda side, device: (_random(side, side, device=device),),
    "channels last": _channels_last,
    "transposed": lambda side, device: (_random(side, side, device=device).t(),),
    "every other column": lambda side, device: (_random(side, 2 * side, device=device)[:, ::2],),
    "left half of the columns": lambda side, device: (_random(side, 2 * side, device=device)[:, :side],),
    "one row, repeated": lambda side, device: (_random(side, device=device).expand(side, side),),
}

_BINARY: dict[str, Make] = {
    "with a row": lambda side, device: (_random(side, side, device=device), _random(side, device=device)),
    "with a column": lambda side, device: (_random(side, side, device=device), _random(side, 1, device=device)),
    "one of them transposed": lambda side, device: (
        _random(side, side, device=device),
        _random(side, side, device=device).t(),
    ),
}


def show(console: Console, device: str) -> Timings:
    """Measure and print."""
    timings: Timings = {}
    shown = Table("what", *[str(side * side) for side in _SIZES], title="Microseconds, PyTorch's own in brackets")

    def add(what: str, pairs: Sequence[tuple[Call, Call]]) -> None:
        cells = []
        for side, (ours, theirs) in zip(_SIZES, pairs, strict=True):
            found = side_by_side({"gradgen": ours, "torch": theirs}, device, _SECONDS)
            cells.append(f"{1e6 * found['gradgen'].median:.3g} ({1e6 * found['torch'].median:.3g})")
            timings.update({f"{what}, {side * side}, {peer}": timing for peer, timing in found.items()})
        shown.add_row(what, *cells)

    rows: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], Make]] = {
        **{f"swish, {name}": (swish, functional.silu, make) for name, make in _UNARY.items()},
        **{f"max_gate, {name}": (max_gate, torch.maximum, make) for name, make in _BINARY.items()},
    }
    for name, (ours, theirs, make) in rows.items():
        for direction, way in (("forward", _forward), ("forward and backward", _both)):
            calls = [(way(ours, make(side, device)), way(theirs, make(side, device))) for side in _SIZES]
            add(f"{name}, {direction}", calls)
    make = _UNARY["contiguous"]
    for direction, way in (("forward", _forward), ("forward and backward", _both_over)):
        calls = [(way(relu_, make(side, device)), way(torch.relu_, make(side, device))) for side in _SIZES]
        add(f"relu_, {direction}", calls)
    console.print(shown)
    return timings


def _forward(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Call:
    return lambda _buffers: function(*inputs)


def _both(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Call:
    """The incoming gradient lies as the result does."""
    leaves = [x.requires_grad_() for x in inputs]
    grad = torch.ones_like(function(*leaves))
    return lambda _buffers: torch.autograd.grad(function(*leaves), leaves, grad)


def _both_over(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Call:
    """Over a copy of a leaf, as a layer writes over the result of the one before it."""
    return _both(lambda leaf: function(leaf.clone()), inputs)
