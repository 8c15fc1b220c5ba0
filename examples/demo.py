"""The generated Swish beside PyTorch's own: `make demo` builds formulas/swish.py and runs this."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from mpmath import exp, mpf
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import silu

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder that generated/ lies in

from generated import _runtime as rt  # noqa: E402
from generated.swish import swish  # noqa: E402

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
    print("computed by  ", ", ".join(f"{kernel} ({path} kernel)" for kernel, path in record))

    print(f"\n{'':6}{'value':^36}  {'gradient':^36}")
    print(f"{'x':>6}" + "".join(f"{name:>12}" for name in ("swish", "torch silu", "exact")) * 1, end="")
    print("  " + "".join(f"{name:>12}" for name in ("swish", "torch silu", "exact")))
    for k, point in enumerate(POINTS):
        value, gradient = exact(point)
        print(f"{point:6g}" + "".join(f"{number:12.4g}" for number in (ours[0][k], theirs[0][k], value)), end="")
        print("  " + "".join(f"{number:12.4g}" for number in (ours[1][k], theirs[1][k], gradient)))


if __name__ == "__main__":
    main()
