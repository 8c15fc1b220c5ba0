"""The operations of the gallery as the tests see them: each with a plain torch formula to be compared with."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# What PyTorch makes of an op hangs on its inputs, outputs, hyper-parameters and branches; these have each kind. What a
# compiler makes of its kernels hangs on the functions in them, too.
EACH_KIND = ("swish", "huber", "polar_to_cartesian", "binarize", "elu", "relu", "max_gate", "sum_product")
EACH_FUNCTION = (*EACH_KIND, "gelu", "mish", "bce_with_logits", "staged")

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@dataclass(frozen=True)
class Op:
    """One operation.

    name, module  the function, and the generated module it is in
    reference     the same function in torch operations, written naively; right in float64 at ordinary points
    tensors       the names of its tensor inputs
    ranges        where each of them is ordinary: random numbers from there meet no kink
    hyper         hyper-parameters: the default, and another value
    fixed         tensor inputs that get no gradient
    linear        tensor inputs that their own derivative does not depend on
    outputs       the number of results
    smooth        it has derivatives of every order everywhere
    bounds        tensor inputs that mean something in an interval only, with the interval
    """

    name: str
    module: str
    reference: Callable[..., Any]
    tensors: tuple[str, ...] = ("x",)
    ranges: tuple[tuple[float, float], ...] = ((-3.0, 3.0),)
    hyper: dict[str, tuple[float, float]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    linear: tuple[str, ...] = ()
    outputs: int = 1
    smooth: bool = True
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def __call__(self, *tensors: Tensor, **hyper: float) -> Any:
        return self.function(*tensors, **hyper)

    @property
    def code(self) -> ModuleType:
        return importlib.import_module(f"generated.{self.module}")

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(self.code, self.name)

    @property
    def class_name(self) -> str:
        return re.sub(r"(?:^|_)([a-z])", lambda match: match[1].upper(), self.name)

    @property
    def module_class(self) -> type[torch.nn.Module]:
        return getattr(self.code, self.class_name)

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernels by what they do: forward, backward, double_backward."""
        names = {
            self.name: "forward",
            f"{self.name}_backward": "backward",
            f"{self.name}_double_backward": "double_backward",
        }
        found = [value for value in vars(self.code).values() if isinstance(value, runtime().Kernel)]
        return {names[kernel.name]: kernel for kernel in found if kernel.name in names}

    @property
    def differentiable(self) -> list[int]:
        """The positions of the inputs that get a gradient."""
        return [k for k, name in enumerate(self.tensors) if name not in self.fixed]

    @property
    def others(self) -> dict[str, float]:
        """Hyper-parameters that are not the default."""
        return {name: other for name, (_, other) in self.hyper.items()}

    def sample(
        self, *shapes: Sequence[int], dtype: torch.dtype = torch.float64, seed: int = 0, grad: bool = False
    ) -> list[Tensor]:
        """Ordinary inputs: of the given shapes in turn, and of the last for those that remain; a leaf each."""
        generator = torch.Generator().manual_seed(seed + len(self.name))
        tensors = []
        for k, (low, high) in enumerate(self.ranges):
            shape = shapes[min(k, len(shapes) - 1)]
            values = torch.rand(tuple(shape), dtype=torch.float64, generator=generator) * (high - low) + low
            tensors.append(values.to(dtype).requires_grad_(grad and k in self.differentiable))
        return tensors


def runtime() -> Any:
    """The runtime that the generated modules share."""
    return importlib.import_module("generated._runtime")


def _straight_through(x: Tensor) -> Tensor:
    clipped = x.clamp(-1, 1)
    return torch.sign(x) + clipped - clipped.detach()


def _gelu_tanh(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def _bce_with_logits(x: Tensor, y: Tensor) -> Tensor:
    p = 1 / (1 + torch.exp(-x))
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p))


def _huber(prediction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    error = prediction - target
    return torch.where(error.abs() <= delta, error**2 / 2, delta * (error.abs() - delta / 2))


_ANY = (-3.0, 3.0)

OPS = [
    # Away from [-1, 1], for there the gradient is not that of the function.
    Op("binarize", "binarize", _straight_through, ranges=((1.1, 3.0),), smooth=False),
    Op(
        "elu",
        "elu",
        lambda x, alpha=1.0: torch.where(x > 0, x, alpha * torch.expm1(x)),
        hyper={"alpha": (1.0, 1.7)},
        smooth=False,
    ),
    Op("exp", "exp", torch.exp),
    Op("gelu", "gelu", lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2),
    Op("gelu_tanh", "gelu", _gelu_tanh),
    Op(
        "leaky_relu",
        "leaky_relu",
        lambda x, alpha=0.01: torch.where(x > 0, x, alpha * x),
        hyper={"alpha": (0.01, 0.3)},
        smooth=False,
    ),
    Op(
        "huber",
        "losses",
        _huber,
        ("prediction", "target"),
        (_ANY, _ANY),
        hyper={"delta": (1.0, 0.6)},
        fixed=("target",),
        smooth=False,
    ),
    Op("log_sigmoid", "losses", lambda x: -torch.log(1 + torch.exp(-x))),
    Op(
        "bce_with_logits",
        "losses",
        _bce_with_logits,
        ("x", "y"),
        (_ANY, (0.05, 0.95)),
        linear=("y",),
        bounds={"y": (0.0, 1.0)},
    ),
    Op("tanh_exp", "losses", torch.tanh),
    Op("mish", "mish", lambda x: x * torch.tanh(torch.log(1 + torch.exp(x)))),
    Op(
        "neuron",
        "neuron",
        lambda w0, x0, w1, x1, w2: torch.sigmoid(w0 * x0 + w1 * x1 + w2),
        ("w0", "x0", "w1", "x1", "w2"),
        (_ANY,) * 5,
    ),
    Op(
        "polar_to_cartesian",
        "polar",
        lambda r, theta: (r * torch.cos(theta), r * torch.sin(theta)),
        ("r", "theta"),
        (_ANY, _ANY),
        linear=("r",),
        outputs=2,
    ),
    Op("relu", "relu", torch.relu, smooth=False),
    Op("sigmoid", "sigmoid", torch.sigmoid),
    Op(
        "softplus",
        "softplus",
        lambda x, beta=1.0: torch.log(1 + torch.exp(beta * x)) / beta,
        hyper={"beta": (1.0, 2.5)},
    ),
    Op("square", "square", lambda x: x * x),
    Op(
        "staged",
        "staged",
        lambda x, y: (x + torch.sigmoid(y)) / (torch.sigmoid(x) + (x + y) ** 2),
        ("x", "y"),
        (_ANY, _ANY),
    ),
    Op("sum_product", "staged", lambda x, y, z: (x + y) * z, ("x", "y", "z"), (_ANY,) * 3, linear=("x", "y", "z")),
    Op("max_gate", "staged", torch.maximum, ("x", "y"), (_ANY, _ANY), smooth=False),
    Op("swish", "swish", lambda x, beta=1.0: x * torch.sigmoid(beta * x), hyper={"beta": (1.0, 1.7)}),
]
BY_NAME = {op.name: op for op in OPS}


def get(name: str) -> Op:
    return BY_NAME[name]


def as_tuple(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def total(results: Any) -> Tensor:
    """A scalar that depends on each element of each result differently, as a loss does."""
    return sum(
        (
            result * torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype, device=result.device).view_as(result)
        ).sum()
        * (1 + 0.25 * k)
        for k, result in enumerate(as_tuple(results))
    )  # type: ignore[return-value]


def gradients(op: Op, tensors: Sequence[Tensor], **hyper: float) -> tuple[Tensor, ...]:
    """The results of `op`, then the gradients of their sum by the differentiable inputs, all without history."""
    leaves = [
        tensor.detach().requires_grad_() if k in op.differentiable else tensor for k, tensor in enumerate(tensors)
    ]
    results = as_tuple(op(*leaves, **hyper))
    wanted = [leaves[k] for k in op.differentiable]
    grads = torch.autograd.grad(sum(result.sum() for result in results), wanted)
    return (*[result.detach() for result in results], *grads)


def slopes_of(function: Callable[..., Any], op: Op, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of what a function gives that takes the inputs of an op, by those that get any."""
    leaves = [x.detach().requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
    return torch.autograd.grad(total(function(*leaves)), [leaves[k] for k in op.differentiable])


def subsets(positions: Sequence[int], *sizes: int) -> list[tuple[int, ...]]:
    """The non-empty subsets, or those of the given sizes."""
    chosen = sizes or range(1, len(positions) + 1)
    return [subset for size in chosen for subset in itertools.combinations(positions, size)]


def first(names: Sequence[str]) -> list[object]:
    """All ops, as parameters of a test that is thorough for those that are like one of these."""
    return [op if op.name in names else pytest.param(op, marks=pytest.mark.thorough) for op in OPS]
