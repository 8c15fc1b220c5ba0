"""What is measured: for each operation its inputs, the formula as eager PyTorch, and PyTorch's own operation."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from gradgen import build

CHANNELS = 1024
ROW = 4096  # a typical width of what is between the matrix products of a feed-forward layer
_SPECS = Path(__file__).with_name("formulas")
_GALLERY = "generated"

Function = Callable[..., Tensor | tuple[Tensor, ...]]
Inputs = Callable[[int], list[tuple[int, ...]]]


def _one(n: int) -> list[tuple[int, ...]]:
    return [(n,)]


def _alike(count: int) -> Inputs:
    return lambda n: [(n,)] * count


def _two_in_rows(n: int) -> list[tuple[int, ...]]:
    """Liger-Kernel computes by rows, and refuses long ones."""
    width = min(n, ROW)
    return [(n // width, width)] * 2


def _by_channel(n: int) -> list[tuple[int, ...]]:
    return [(n // CHANNELS, CHANNELS), (CHANNELS,)]


@dataclass(frozen=True)
class Case:
    """An operation.

    Attributes:
        module: the generated module.
        name: the operation in it.
        eager: the formula in PyTorch's operations, as a person would type it.
        own: PyTorch's own operation, if it has one.
        shapes: from the number of elements of the result to the shapes of the inputs.
        fixed: how many of the last inputs get no gradient.
        outputs: how many results there are, each of n elements.
        jiterator: the body of a forward function for torch's jiterator, of `x`.
        liger: the class of Liger-Kernel, by "module:name", whose `apply` computes the same.
    """

    module: str
    name: str
    eager: Function
    own: Function | None = None
    shapes: Inputs = _one
    fixed: int = 0
    outputs: int = 1
    jiterator: str = ""
    liger: str = ""

    def inputs(self, n: int, dtype: torch.dtype, device: str, grad: bool, seed: int) -> list[Tensor]:
        """Random inputs, of the normal distribution."""
        generator = torch.Generator(device).manual_seed(seed)
        shapes = self.shapes(n)
        tensors = [torch.randn(shape, generator=generator, device=device).to(dtype) for shape in shapes]
        for tensor in tensors[: len(tensors) - self.fixed] if grad else ():
            tensor.requires_grad_()
        return tensors

    def traffic(self, n: int, dtype: torch.dtype, backward: bool) -> int:
        """The bytes that must be moved: each input and result once, in each direction."""
        sizes = [torch.Size(shape).numel() for shape in self.shapes(n)]
        forward = sum(sizes) + self.outputs * n
        back = self.outputs * n + sum(sizes) + sum(sizes[: len(sizes) - self.fixed])
        return (forward + back * backward) * dtype.itemsize


def _binarize(x: Tensor) -> Tensor:
    within = x.clamp(-1, 1)
    return within + (torch.sign(x) - within).detach()


def _huber(x: Tensor, y: Tensor) -> Tensor:
    size = (x - y).abs()
    return torch.where(size <= 1, size**2 / 2, size - 0.5)


def _bce(x: Tensor, y: Tensor) -> Tensor:
    return x.clamp(min=0) - x * y + torch.log1p(torch.exp(-x.abs()))


def _staged(x: Tensor, y: Tensor) -> Tensor:
    return (x + torch.sigmoid(y)) / (torch.sigmoid(x) + (x + y) ** 2)


def _polar(r: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    return r * torch.cos(theta), r * torch.sin(theta)


def _gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / 2**0.5)) / 2


def _gelu_tanh(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


CASES = (
    Case("binarize", "binarize", _binarize),
    Case("elu", "elu", lambda x: torch.where(x > 0, x, torch.expm1(x)), functional.elu),
    Case("exp", "exp", torch.exp, torch.exp, jiterator="exp(x)"),
    Case("gelu", "gelu", _gelu, functional.gelu, jiterator="x * T(0.5) * erfc(-x * T(0.7071067811865476))"),
    Case("gelu", "gelu_tanh", _gelu_tanh, partial(functional.gelu, approximate="tanh")),
    Case("leaky_relu", "leaky_relu", lambda x: torch.where(x > 0, x, 0.01 * x), functional.leaky_relu),
    Case("losses", "huber", _huber, partial(functional.huber_loss, reduction="none"), _alike(2), 1),
    Case("losses", "log_sigmoid", lambda x: -functional.softplus(-x), functional.logsigmoid),
    Case(
        "losses",
        "bce_with_logits",
        _bce,
        partial(functional.binary_cross_entropy_with_logits, reduction="none"),
        _alike(2),
    ),
    Case("losses", "tanh_exp", torch.tanh, torch.tanh, jiterator="tanh(x)"),
    Case(
        "mish",
        "mish",
        lambda x: x * torch.tanh(functional.softplus(x)),
        functional.mish,
        jiterator="x * tanh(log1p(exp(x)))",
    ),
    Case("neuron", "neuron", lambda a, b, c, d, e: torch.sigmoid(a * b + c * d + e), None, _alike(5)),
    Case("polar", "polar_to_cartesian", _polar, None, _alike(2), outputs=2),
    Case("relu", "relu", lambda x: x.clamp(min=0), functional.relu),
    Case("sigmoid", "sigmoid", lambda x: 1 / (1 + torch.exp(-x)), torch.sigmoid, jiterator="T(1) / (T(1) + exp(-x))"),
    Case("softplus", "softplus", lambda x: torch.log1p(torch.exp(x)), functional.softplus),
    Case("square", "square", lambda x: x * x, torch.square),
    Case("staged", "staged", _staged, None, _alike(2)),
    Case("staged", "sum_product", lambda x, y, z: (x + y) * z, None, _alike(3)),
    Case("staged", "max_gate", torch.maximum, torch.maximum, _alike(2)),
    Case("swish", "swish", lambda x: x * torch.sigmoid(x), functional.silu, jiterator="x / (T(1) + exp(-x))"),
    Case(
        "glu",
        "swiglu",
        lambda gate, value: functional.silu(gate) * value,
        None,
        _two_in_rows,
        liger="liger_kernel.ops.swiglu:LigerSiLUMulFunction",
    ),
    Case("glu", "geglu", lambda gate, value: functional.gelu(gate) * value, None, _two_in_rows),
    Case(
        "glu",
        "geglu_tanh",
        lambda gate, value: functional.gelu(gate, approximate="tanh") * value,
        None,
        _two_in_rows,
        liger="liger_kernel.ops.geglu:LigerGELUMulFunction",
    ),
    Case("channels", "bias_gelu", lambda x, bias: functional.gelu(x + bias), None, _by_channel),
    Case("channels", "channel_swish", lambda x, beta: x * torch.sigmoid(beta * x), None, _by_channel),
)


@contextmanager
def built(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """A folder, and a package in it that holds those of the operations that the gallery has not, while this lasts."""
    with tempfile.TemporaryDirectory(prefix="gradgen-benchmarks-") as folder:
        package = f"{Path(folder).name}_built".replace("-", "_")
        if _own_modules() & {case.module for case in cases}:
            survey = build.make_survey((_SPECS,), Path(folder, package), None)
            for result in build.build(survey):
                if isinstance(result, build.Failed):
                    raise RuntimeError(result.message)
        yield folder, package


def load(cases: Sequence[Case], folder: str, package: str) -> dict[str, Function]:
    """The generated operations by name: the gallery's as they are committed, others from what was built."""
    own = _own_modules()
    sys.path.insert(0, folder)
    try:
        return {
            case.name: getattr(
                importlib.import_module(f"{package if case.module in own else _GALLERY}.{case.module}"), case.name
            )
            for case in cases
        }
    finally:
        sys.path.remove(folder)


def _own_modules() -> set[str]:
    return {spec.stem for spec in _SPECS.glob("*.py")}
