"""The generated Swish beside PyTorch's own: `make demo` builds formulas/swish.py and runs this."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mpmath import exp, mpf
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import silu

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder that generated/ lies in

from generated import _runtime as rt
from generated.swish import swish

POINTS = [-100.0, -90.0, -10.0, -1.0, 0.0, 1.0, 88.0]


def value_and_gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[list[float], list[float]]:
    x = x.clone().requires_grad_()
    y = function(x)
    y.sum().backward()
    assert x.grad is not None
    return y.tolist(), x.grad.tolist()


def exact(x: float) -> tuple[float, float]:
    """With the digits of mpmath, from the formula in the textbooks."""
    s = 1 / (1 + exp(-mpf(x)))
    return float(x * s), float(s + x * s * (1 - s))


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"

    x = torch.linspace(-5, 5, 11, dtype=torch.float64, device=device, requires_grad=True)
    print("gradcheck    ", "passed" if gradcheck(swish, x) else "failed")
    print("gradgradcheck", "passed" if gradgradcheck(swish, x) else "failed")

    x = torch.tensor(POINTS, device=device)
    with rt.record_paths() as record:
        ours = value_and_gradient(swish, x)
    theirs = value_and_gradient(silu, x)
    print("computed by   " + ", ".join(f"{kernel} on the {path} path" for kernel, path in record))

    names = ["swish", "torch silu", "exact"]
    print(f"\nfloat32{'value':^36}  {'gradient':^36}".rstrip())
    print(row("x", names, names))
    for point, *found in zip(POINTS, *ours, *theirs, strict=True):
        value, gradient = exact(point)
        print(row(f"{point:g}", [found[0], found[2], value], [found[1], found[3], gradient]))


def row(head: str, values: list[Any], gradients: list[Any]) -> str:
    cells = [f"{cell:>12.4g}" if isinstance(cell, float) else f"{cell:>12}" for cell in (*values, *gradients)]
    return f"{head:>7}{''.join(cells[:3])}  {''.join(cells[3:])}"


if __name__ == "__main__":
    main()
