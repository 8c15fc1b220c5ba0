"""Every exponent and many mantissas of float32: the float32 kernels against the float64 kernels.

The float64 kernels are held against mpmath in `test_accuracy`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

UNARY = [
    "swish.swish", "mish.mish", "softplus.softplus", "gelu.gelu", "gelu.gelu_tanh", "losses.log_sigmoid", "elu.elu",
    "losses.tanh_exp", "sigmoid.sigmoid", "exp.exp", "relu.relu", "square.square", "leaky_relu.leaky_relu",
]  # fmt: skip
BAR = 4.0
CHUNK = 1 << 22
SMALLEST, LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


def function(name: str) -> Callable[[Tensor], Tensor]:
    module, op = name.split(".")
    return getattr(importlib.import_module(f"generated.{module}"), op)


def inputs(stride: int, start: int) -> Tensor:
    """The float32 numbers whose bit patterns are start, start + stride, ..., without NaN."""
    patterns = torch.arange(start, min(start + CHUNK * stride, 1 << 32), stride, dtype=torch.int64)
    signed = torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns).to(torch.int32)
    x = signed.view(torch.float32)
    return x[~x.isnan()]


def derivatives(name: str, x: Tensor, order: int) -> list[Tensor]:
    """The value and its derivatives up to an order."""
    x = x.clone().requires_grad_()
    y = function(name)(x)
    found = [y.detach()]
    for k in range(order):
        if y.requires_grad:
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=k + 1 < order, materialize_grads=True)
        else:  # the derivative before was constant
            y = torch.zeros_like(y)
        found.append(y.detach())
    return found


def errors(computed: Tensor, exact: Tensor, scale: Tensor) -> Tensor:
    """The mixed error in float32 ULPs; infinite for a NaN where the exact result is none."""
    size = torch.maximum(exact.abs(), scale.abs().nan_to_num(0.0)).clamp(min=SMALLEST, max=LARGEST)
    ulp = torch.exp2(torch.floor(torch.log2(size)) - 23)
    error = (computed.double() - exact).abs() / ulp
    beyond = (exact.abs() >= LARGEST) & (computed.double() == exact.sign() * torch.inf)
    error = torch.where(beyond | (computed.double() == exact), 0.0, error)
    return torch.where(exact.isnan(), 0.0, error.nan_to_num(nan=torch.inf))


def worst(name: str, stride: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The worst errors of value and gradient, each with the input it is at."""
    found = [(0.0, 0.0), (0.0, 0.0)]
    for start in range(0, 1 << 32, CHUNK * stride):
        x = inputs(stride, start)
        single = derivatives(name, x, 1)
        double = derivatives(name, x.double(), 2)
        for k in (0, 1):
            error = errors(single[k], double[k], x.double() * double[k + 1])
            at = int(error.argmax())
            found[k] = max(found[k], (error[at].item(), x[at].item()))
    return found[0], found[1]


@pytest.mark.parametrize("name", UNARY)
def test_float32(name: str) -> None:
    value, gradient = worst(name, stride=4099)
    assert value[0] <= BAR, value
    assert gradient[0] <= BAR, gradient


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_float32_densely(name: str) -> None:
    value, gradient = worst(name, stride=509)
    assert value[0] <= BAR, value
    assert gradient[0] <= BAR, gradient


if __name__ == "__main__":  # every number: python tests/test_exhaustive.py
    for op in UNARY:
        (value, at), (gradient, where) = worst(op, stride=1)
        print(f"{op:20} value {value:.3f} at {at!r}, gradient {gradient:.3f} at {where!r}", flush=True)
