"""The user's names never hide a name of the generated code, and flags work in any condition on any path."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from building import build

pytestmark = [pytest.mark.usefixtures("first_order"), pytest.mark.few(every_day=3, slow=8)]

LOCALS = [
    "out", "grad", "grad_x", "grad_of_x", "grad_of_grad", "grad_grad_x", "x_squared", "product1", "sum1", "exp_x",
    "wanted", "like", "has_x", "want_x", "real", "I", "i", "n", "double", "lambda_", "_hidden", "exp_neg_x",
]  # fmt: skip


def check(text: str, folder: Path, *, count: int = 1, **hyper: object) -> None:
    """gradcheck and gradgradcheck on both paths, without a fallback."""
    module, _ = build(text, folder)
    inputs = [torch.tensor([0.3, -0.7, 1.9], dtype=torch.float64) + k / 7 for k in range(count)]
    for path in ("cpu", "torch"):
        for tensor in inputs:
            tensor.requires_grad_()
        forced = module.rt.force_path("torch") if path == "torch" else module.rt.record_paths()
        with forced, module.rt.record_paths() as taken:
            assert torch.autograd.gradcheck(lambda *t: module.f(*t, **hyper), inputs)
            assert torch.autograd.gradgradcheck(lambda *t: module.f(*t, **hyper), inputs)
        assert {way for _, way in taken} == {path}


@pytest.mark.parametrize("name", LOCALS)
def test_any_local_name(name: str, tmp_path: Path) -> None:
    check(f"@op\ndef f(x):\n    {name} = exp(x)\n    return ({name} + exp(-x))*x**2 + {name}\n", tmp_path)


@pytest.mark.parametrize("name", ["product1", "sum1", "exp_x", "exp_neg_x", "x_squared"])
def test_a_local_name_that_would_be_given(name: str, tmp_path: Path) -> None:
    check(f"@op\ndef f(x):\n    {name} = sin(x)\n    return {name}*exp(x) + {name}**2 + x**2 + exp(-x)\n", tmp_path)


@pytest.mark.parametrize("returned", ["s, sin(s)", "sin(s), s", "s, s", "s, x", "x, x", "s, 2*s, s**2"])
def test_outputs_that_share(returned: str, tmp_path: Path) -> None:
    check(f"@op\ndef f(x, y):\n    s = exp(x)*y\n    return {returned}\n", tmp_path, count=2)


CONDITIONS = [
    "p", "Not(p)", "And(p, q)", "Or(Not(p), q)", "Xor(p, x > 0)", "And(Not(p), x > 0)", "Or(p, x > 0)",
    "And(p, pi > 3)", "Or(2 < 1, x > 0)", "And(Eq(1, 2), x > 0)",
    "And(Or(p, Not(q)), x > 0)", "Not(And(p, x > 0))", "Xor(p, q)", "And(p, k > 1)", "Or(k > 1, x > 0)",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_flags_in_conditions(condition: str, tmp_path: Path) -> None:
    text = f"""
        @op
        def f(x, p: bool = True, q: bool = False, k: float = 1.5):
            return Piecewise((x**2, {condition}), (sin(k*x), True))
        """
    module, _ = build(text, tmp_path)
    for p, q, k in itertools.product((True, False), (True, False), (0.5, 1.5)):
        results = []
        for path in ("cpu", "torch"):
            x = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
            forced = module.rt.force_path("torch") if path == "torch" else module.rt.record_paths()
            with forced, module.rt.record_paths() as taken:
                y = module.f(x, p=p, q=q, k=k)
                (grad,) = torch.autograd.grad(y.sum(), x)
            assert {way for _, way in taken} == {path}
            results.append((y.detach(), grad))
        here = [bool(eval(condition, {**_LOGIC, "p": p, "q": q, "k": k, "x": x})) for x in (0.3, -0.7)]
        square = torch.tensor(here)
        x = torch.tensor([0.3, -0.7], dtype=torch.float64)
        for y, grad in results:
            torch.testing.assert_close(y, torch.where(square, x**2, torch.sin(k * x)))
            torch.testing.assert_close(grad, torch.where(square, 2 * x, k * torch.cos(k * x)))


_LOGIC = {
    "pi": math.pi,
    "Eq": lambda a, b: a == b,
    "And": lambda *args: all(args),
    "Or": lambda *args: any(args),
    "Not": lambda arg: not arg,
    "Xor": lambda a, b: a != b,
}


def test_a_flag_with_several_outputs(tmp_path: Path) -> None:
    text = """
        @op
        def f(x, y, p: bool = True):
            return Piecewise((x*y, p), (sin(x), True)), y*x
        """
    check(text, tmp_path, count=2)
    check(text, tmp_path, count=2, p=False)
