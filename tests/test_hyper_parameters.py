"""Hyper-parameters at their defaults and far from them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType

import pytest
import torch
from building import build
from torch import Tensor

# Sums of hyper-parameters that cancel where these are about 1, and nothing else that does
SUMS = {
    "beta*Abs(x) + (1 - beta)*Abs(y)": 0.9,
    "(1 - beta)*log(1 + exp(x)) + y**2": 0.25,
    "x*y*(beta**2 - 1)": 0.5,
    "Abs(beta - Heaviside(-x, 0))*x**2 + y**2": 0.7,
    "Piecewise(((1 - beta)*x, y > 0), (beta*x, True))": 0.7,
}


@pytest.mark.parametrize("path", [None, "torch"])
@pytest.mark.parametrize("formula", SUMS)
def test_sums_of_hyper_parameters_keep_their_digits(formula: str, path: str | None, tmp_path: Path) -> None:
    text = f"@op\ndef f(x: Tensor, y: Tensor, beta: float = {SUMS[formula]}):\n    return {formula}\n"
    module, _ = build(text, tmp_path)
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(2000, generator=generator) for _ in "xy"]
    for beta in (SUMS[formula], 0.99, 0.999, 1 - 1e-6):
        with forced(module, path):
            found, expected = (
                _results(module, [t.to(dtype) for t in tensors], beta) for dtype in (torch.float32, torch.float64)
            )
        for one, exact in zip(found, expected, strict=True):
            size = exact.abs().clamp(min=abs(1 - beta) * 2.0**-20)  # below that terms cancel
            assert ((one.double() - exact).abs() <= 4 * torch.finfo(torch.float32).eps * size).all(), (formula, beta)


@pytest.mark.parametrize("path", [None, "torch"])
def test_sums_of_hyper_parameters_keep_their_digits_beside_corrections(path: str | None, tmp_path: Path) -> None:
    """float32 does without the corrections that float64 has: the sum is not one of rounded numbers there."""
    text = "@op\ndef f(x: Tensor, a: float = 0.9, b: float = 0.3):\n    return (1 - a*b)*Abs(x) + (a - b)*x**2\n"
    module, _ = build(text, tmp_path)
    assert "_error" in module._F.code
    x = torch.linspace(0.1, 4.0, 500)
    for a, b in ((0.9, 0.3), (0.999, 0.998), (1 - 1e-5, 1 - 2e-5)):
        with forced(module, path):
            found, expected = module.f(x, a, b), module.f(x.double(), a, b)
        torch.testing.assert_close(found.double(), expected, rtol=2.0**-22, atol=0)


def _results(module: ModuleType, tensors: Sequence[Tensor], beta: float) -> list[Tensor]:
    """Value and gradients."""
    tensors = [tensor.requires_grad_() for tensor in tensors]
    value = module.f(*tensors, beta=beta)
    return [value.detach(), *torch.autograd.grad(value.sum(), tensors)]


def forced(module: ModuleType, path: str | None) -> AbstractContextManager[None]:
    return module.rt.force_path(path) if path else nullcontext()  # type: ignore[no-any-return]


def test_float32_has_digits_at_defaults_though_far_out_no_arithmetic_does(tmp_path: Path) -> None:
    """Fu's equation (Budyko, Climate and Life, 1974): far out 0 in any arithmetic, and before that in float32 alone."""
    text = "@op\ndef f(x: Tensor, w: float = 2.6):\n    return 1 + x - (1 + x**w)**(1/w)\n"
    module, _ = build(text, tmp_path)
    x = torch.tensor([0.25, 1.0, 8.452, 20.0, 100.0, 1000.0, 1e5])
    torch.testing.assert_close(module.f(x).double(), module.f(x.double()), rtol=2.0**-23, atol=0)


def test_a_formula_of_which_a_default_leaves_less_is_right_there(tmp_path: Path) -> None:
    """TanhSoft: at its default b is 0, and b*exp(c*x) no number where the exponential overflows."""
    text = """
    @op
    def f(x: Tensor, a: float = 0.87, b: float = 0.0, c: float = 1.0, d: float = 0.6):
        return tanh(a*x + b*exp(c*x))*log(d + exp(c*x))
    """
    module, _ = build(text, tmp_path)
    x = torch.tensor([-5.0, 0.0, 3.0, 88.0, 95.0, 1e4, 1e30])
    expected = torch.tanh(0.87 * x.double()) * torch.logaddexp(x.double(), torch.tensor(0.6).double().log())
    torch.testing.assert_close(module.f(x).double(), expected, rtol=2.0**-22, atol=0)
