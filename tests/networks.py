"""Small networks with an op of the gallery in them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from gallery import Op, as_tuple
from torch import Tensor, nn


class Branches(nn.Module):
    """A layer with so many features for each input of an op, which are an odd number: two processes share unevenly."""

    def __init__(self, op: Op, function: Callable[..., Tensor | tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.op, self.function, self.layer = op, function, nn.Linear(4, 5 * len(op.tensors))
        self.scale = nn.Parameter(torch.full((5,), 0.7))

    def forward(self, x: Tensor) -> Tensor:
        pieces = self.layer(x).chunk(len(self.op.tensors), dim=-1)
        inputs = [piece if k in self.op.differentiable else piece.detach() for k, piece in enumerate(pieces)]
        return self.scale * sum(as_tuple(self.function(*inputs)))


def network(op: Op, function: Callable[..., Tensor | tuple[Tensor, ...]] | None = None) -> nn.Module:
    """Of four features, in double: the op's module, or a function that computes the same, between two layers."""
    torch.manual_seed(0)
    between = functools.partial(function, **op.others) if function else op.module_class(**op.others)
    return nn.Sequential(Branches(op, between), nn.Linear(5, 2)).double()
