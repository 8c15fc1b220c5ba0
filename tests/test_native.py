"""The quick way in C++: autograd is told what Python would tell it, and is left to Python where more is asked."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gallery
import pytest
import torch
from building import build
from gallery import DTYPES, OPS, Op, as_tuple, get, total
from torch import Tensor

from generated.polar import polar_to_cartesian
from generated.swish import swish

rt = gallery.runtime()

pytestmark = pytest.mark.xdist_group("native")

differentiable = [op for op in OPS if op.differentiable]


@pytest.fixture(autouse=True)
def _native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "_native", None)
    rt._use_native(rt.compile_native())


def is_native(result: Tensor) -> bool:
    return type(result.grad_fn).__name__ == "CppFunction"


def refuse(*_: Any) -> None:
    raise AssertionError("the gradient was left to Python")


def prepared(op: Op, shape: tuple[int, ...] = (5,), dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Inputs for which the kernels of value and gradient have been compiled."""
    inputs = op.sample(shape, dtype=dtype, grad=True)
    for _ in range(2):
        total(op(*inputs)).backward()
    for tensor in inputs:
        tensor.grad = None
    return inputs


def gradients(op: Op, inputs: list[Tensor], **options: Any) -> tuple[Tensor, ...]:
    asked = [inputs[k] for k in op.differentiable]
    return torch.autograd.grad(total(op(*inputs)), asked, materialize_grads=True, **options)


@pytest.mark.parametrize("op", differentiable, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (300, 300), (0, 3)], ids=str)
def test_it_gives_what_python_gives(
    op: Op, dtype: torch.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = prepared(op, shape, dtype)
    monkeypatch.setattr(rt._Backward, "__call__", refuse)
    results, found = as_tuple(op(*inputs)), gradients(op, inputs)
    assert all(is_native(result) for result in results)
    assert all(result.grad_fn.name() == f"{op.class_name}FunctionBackward" for result in results)
    monkeypatch.setattr(rt, "_native", None)
    expected = as_tuple(op(*inputs))
    assert not is_native(expected[0])
    for one, other in zip((*results, *found), (*expected, *gradients(op, inputs)), strict=True):
        assert one.dtype is dtype
        assert one.stride() == other.stride()
        assert torch.equal(one, other)


def test_modules_of_two_versions_have_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls C functions, and those of another version know kernels as other structures."""
    before = rt._native_file()
    monkeypatch.setattr(rt, "_COMMON_SOURCE", rt._COMMON_SOURCE + "\n")
    assert rt._native_file() != before


SEVERAL = [op for op in differentiable if len(op.tensors) > 1]
SHAPES = [
    [(4, 5), (5,)],
    [(5,), (4, 5)],
    [(4, 5), (4, 1)],
    [(4, 5), (1, 1)],
    [(4, 5), ()],
    [(2, 3, 4), (3, 1), (2, 1, 4)],
    [(2, 1, 3, 1, 4), (1, 4), (3, 1, 1)],
    [(1, 1), (1,)],
    [(300, 700), (700,)],
    [(700, 300), (700, 1), ()],
]


@pytest.mark.parametrize("op", SEVERAL, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_it_broadcasts_as_python_does(op: Op, shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [op.sample(shape, grad=True)[k] for k, shape in zip(range(len(op.tensors)), itertools.cycle(shapes))]
    gradients(op, inputs)  # compiles the kernels
    monkeypatch.setattr(rt._Backward, "__call__", refuse)
    results, found = as_tuple(op(*inputs)), gradients(op, inputs)
    assert all(is_native(result) for result in results)
    monkeypatch.setattr(rt, "_native", None)
    expected = (*as_tuple(op(*inputs)), *gradients(op, inputs))
    for one, other in zip((*results, *found), expected, strict=True):
        assert one.stride() == other.stride()
        assert torch.equal(one, other)


def test_shapes_without_a_whole_one_are_left_to_python() -> None:
    r, theta = torch.ones(4, 1, requires_grad=True), torch.ones(5, requires_grad=True)
    for _ in range(2):
        found = polar_to_cartesian(r, theta)
        assert not is_native(found[0])
        of_r, of_theta = torch.autograd.grad(found[0].sum(), (r, theta))
        assert (of_r.shape, of_theta.shape) == (r.shape, theta.shape)
    with pytest.raises(RuntimeError, match="must match the size"):
        polar_to_cartesian(torch.ones(3), torch.ones(2, 4))


def test_hyper_parameters_have_names_of_their_own_in_c(tmp_path: Path) -> None:
    """gamma is a function there, real a type: the function in Python knows them as they were given."""
    arguments = "x: Tensor, gamma: float = 2.0, like: float = 0.5, real: float = 1.0, beta: float = 1.0"
    text = f"@op\ndef named({arguments}):\n    return real*x**3/(1 + exp(-gamma*like*beta*x))\n"
    module, _ = build(text, tmp_path)
    module.rt._use_native(module.rt.compile_native())
    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        result = module.named(x, 3.0, 0.25, 2.0)
        (slope,) = torch.autograd.grad(result.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), x)
    assert is_native(result)
    expected = 2 * x**3 / (1 + torch.exp(-0.75 * x))
    (first,) = torch.autograd.grad(expected.sum(), x, create_graph=True)
    torch.testing.assert_close(slope, first)
    torch.testing.assert_close(second, torch.autograd.grad(first.sum(), x)[0])


@pytest.mark.parametrize("op", differentiable, ids=str)
def test_gradients_have_gradients(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the function in Python."""
    inputs = prepared(op, dtype=torch.float64)
    weights = torch.linspace(0.5, 1.5, 5, dtype=torch.float64)

    def second() -> tuple[Tensor, ...]:
        first = gradients(op, inputs, create_graph=True)
        asked = [inputs[k] for k in op.differentiable]
        loss = sum((weights * gradient).sum() for gradient in first)
        return torch.autograd.grad(loss, asked, allow_unused=True, materialize_grads=True)

    found = second()
    monkeypatch.setattr(rt, "_native", None)
    assert all(torch.equal(one, other) for one, other in zip(found, second(), strict=True))


def test_gradcheck() -> None:
    x = torch.linspace(-3, 3, 7, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(swish, (x, 1.5))
    assert torch.autograd.gradgradcheck(swish, (x, 1.5))
    assert is_native(swish(x, 1.5))


def test_an_output_without_a_gradient_is_none_to_the_kernel() -> None:
    r, theta = (torch.linspace(0.5, 2, 5).requires_grad_() for _ in range(2))
    for _ in range(2):  # the first time by Python, which compiles it
        x, _ = polar_to_cartesian(r, theta)
        assert is_native(x)
        of_r, of_theta = torch.autograd.grad(x.sum(), (r, theta))
        torch.testing.assert_close(of_r, torch.cos(theta))
        torch.testing.assert_close(of_theta, -r * torch.sin(theta))
        (alone,) = torch.autograd.grad(polar_to_cartesian(r, theta)[1].sum(), theta)
        torch.testing.assert_close(alone, r * torch.cos(theta))


def gradients_and_addresses(op: Op, inputs: list[Tensor], asked: list[Tensor]) -> tuple[list[Tensor], list[int]]:
    """The gradients of some inputs, and where lies what was saved for them."""
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.data_ptr()) or x, lambda x: x):
        result = total(op(*inputs))
    return [*torch.autograd.grad(result, asked, materialize_grads=True)], kept


@pytest.mark.parametrize("op", SEVERAL, ids=str)
def test_some_inputs_alone_ask_for_a_gradient(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a loss, or of frozen parameters; what the others would need is not saved."""
    sample = [x.detach() for x in prepared(op, (4, 5))]
    for who in itertools.product([False, True], repeat=len(op.differentiable)):
        if not any(who):
            continue
        inputs = [x.clone() for x in sample]
        asked = [inputs[k].requires_grad_() for k in itertools.compress(op.differentiable, who)]

        with monkeypatch.context() as without:
            without.setattr(rt, "_native", None)
            expected, saved = gradients_and_addresses(op, inputs, asked)
        gradients_and_addresses(op, inputs, asked)  # the kernel of these gradients may have been compiled for others
        with monkeypatch.context() as alone:
            alone.setattr(rt._Backward, "__call__", refuse)
            found, kept = gradients_and_addresses(op, inputs, asked)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        addresses = {x.data_ptr() for x in inputs}
        assert {*kept} & addresses == {*saved} & addresses
        assert is_native(as_tuple(op(*inputs))[0])


def test_what_gives_no_gradient_is_left_to_python() -> None:
    """Autograd is told of inputs that the formula is not to be differentiated by."""
    op = next((op for op in OPS if len(op.differentiable) < len(op.tensors)), None)
    assert op is not None
    inputs = [x.detach() for x in prepared(op)]
    fixed = next(k for k in range(len(inputs)) if k not in op.differentiable)
    inputs[fixed].requires_grad_()
    assert not is_native(as_tuple(op(*inputs))[0])
    assert as_tuple(op(*inputs))[0].requires_grad


X = torch.linspace(-3, 3, 6)

OTHERS: dict[str, Callable[[], Tensor]] = {
    "a transpose": lambda: X.view(2, 3).t().detach().requires_grad_(),
    "no elements": lambda: torch.zeros(0, requires_grad=True),
    "integers in bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16, requires_grad=True),
    "a view of a leaf": lambda: X.clone().requires_grad_()[1:],
    "a negative view": lambda: torch._neg_view(X.clone().requires_grad_()),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_other_inputs(make: Callable[[], Tensor]) -> None:
    x = make()
    found = swish(x, 1.5)
    expected = x * torch.sigmoid(1.5 * x)
    torch.testing.assert_close(found, expected)
    (one,), (other,) = (torch.autograd.grad(y.sum(), x) for y in (found, expected))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "grad",
    [torch.ones(1).expand(6), torch.ones(6, 2)[:, 0], torch.ones(6, dtype=torch.float64), torch.ones(6).to_sparse()],
    ids=["expanded", "strided", "of another type", "sparse"],
)
def test_other_incoming_gradients(grad: Tensor) -> None:
    x = X.clone().requires_grad_()
    expected = torch.autograd.grad(swish(x).sum(), x)[0]
    result = swish(x)
    if grad.dtype is torch.float64:
        result = result.double()
    (found,) = torch.autograd.grad(result, x, grad)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("op", differentiable, ids=str)
@pytest.mark.parametrize("shape", [(2,), (3, 1, 5), (1 << 16,), (257, 256)], ids=str)
def test_gradients_of_a_sum(op: Op, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient that comes in is one number, repeated."""
    inputs = prepared(op, shape)
    asked = [inputs[k] for k in op.differentiable]
    expected = torch.autograd.grad(as_tuple(op(*inputs))[0].mul(1).sum(), asked)
    monkeypatch.setattr(rt._Backward, "__call__", refuse)
    found = torch.autograd.grad(as_tuple(op(*inputs))[0].sum(), asked, materialize_grads=True)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()


def assert_cpp_gives_what_python_does(found: Callable[[], list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tensors, which lie in the same way, and nothing is left to Python."""
    with monkeypatch.context() as without:
        without.setattr(rt, "_native", None)
        expected = found()
    with monkeypatch.context() as alone:
        alone.setattr(rt._Backward, "__call__", refuse)
        alone.setattr(rt.Kernel, "__call__", refuse)
        results = found()
    for one, other in zip(results, expected, strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "one channel": lambda x: x[:, :1].to(memory_format=torch.channels_last),
    "a part of the columns": lambda x: torch.cat([x, x], 3)[..., 1:5],
    "a part of the channels": lambda x: torch.cat([x, x], 1)[:, 2:4],
    "every other column": lambda x: x[..., ::2],
    "one column": lambda x: x[..., :1],
    "a crop": lambda x: x[:1].to(memory_format=torch.channels_last)[:, :, :2],
    "a part of one row": lambda x: x[:1, :2],
    "long rows with gaps": lambda x: x.reshape(2, 60).repeat(2, 10)[:, :571],
    "a number, repeated": lambda x: x[:1, :1, :1, :1].expand(2, 3, 4, 5),
    "a row, repeated": lambda x: x[:1, :1, :1].expand(2, 3, 4, 5),
    "a column, repeated": lambda x: x[..., :1].expand(2, 3, 4, 5),
    "overlapping": lambda x: x.as_strided((5, 6, 4), (7, 3, 2)),
    "transposed, with gaps": lambda x: x.transpose(0, 3)[::2],
}


@pytest.mark.parametrize("op", differentiable, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_other_layouts(op: Op, layout: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Such gradients are served, too, and that repeat a number."""
    inputs = [layout(x.detach()).requires_grad_() for x in prepared(op, (2, 3, 4, 5))]
    asked = [inputs[k] for k in op.differentiable]

    def found() -> list[Tensor]:
        results = as_tuple(op(*inputs))
        weighted = sum([(result * torch.ones_like(result)).sum() for result in results])
        totals = [weighted, results[0].sum()]
        gradients = [torch.autograd.grad(t, asked, retain_graph=True, materialize_grads=True) for t in totals]
        return [*results, *itertools.chain(*gradients)]

    assert_cpp_gives_what_python_does(found, monkeypatch)
    lies = (inputs[0] + inputs[-1] if len(inputs) > 1 else -inputs[0]).stride()
    assert [one.stride() for one in found()[: op.outputs]] == [lies] * op.outputs


@pytest.mark.parametrize("op", SEVERAL, ids=str)
def test_operands_with_gaps_broadcast(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in order by itself, as the halves of what a linear layer gave, and a column of another."""
    inputs = []
    for k, x in enumerate(prepared(op, (3, 600))):
        wide = torch.cat([x.detach(), x.detach()], 1)
        inputs.append((wide[:, k : 300 + k], wide[:, 300:600], wide[:, :1])[k % 3].requires_grad_())
    asked = [inputs[k] for k in op.differentiable]

    def found() -> list[Tensor]:
        results = as_tuple(op(*inputs))
        weighted = sum([(result * torch.arange(300.0)).sum() for result in results])
        return [*results, *torch.autograd.grad(weighted, asked)]

    assert_cpp_gives_what_python_does(found, monkeypatch)


MIXED = [
    ("channels last", "contiguous"),
    ("contiguous", "channels last", "transposed"),
    ("transposed", "a row, repeated"),
    ("a column, repeated", "a row, repeated", "gaps"),
    ("gaps", "transposed"),
    ("transposed, repeated", "contiguous"),
    ("contiguous", "transposed, repeated", "channels last"),
]


@pytest.mark.parametrize("op", SEVERAL, ids=str)
@pytest.mark.parametrize("names", MIXED, ids=str)
def test_operands_that_lie_differently(op: Op, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = {
        **LAYOUTS,
        "contiguous": torch.clone,
        "gaps": lambda x: torch.cat([x, x], 3)[..., ::2],
        "transposed, repeated": lambda x: x[:1].mT.contiguous().mT.expand(2, 3, 4, 5),
    }
    samples = zip(itertools.cycle(names), prepared(op, (2, 3, 4, 5)))
    inputs = [layouts[name](x.detach()).requires_grad_() for name, x in samples]
    asked = [inputs[k] for k in op.differentiable]

    def found() -> list[Tensor]:
        results = as_tuple(op(*inputs))
        weighted = sum([(result * torch.rand_like(result).fill_(0.75)).sum() for result in results])
        return [*results, *torch.autograd.grad(weighted, asked)]

    assert_cpp_gives_what_python_does(found, monkeypatch)
    if len(inputs) == 2:
        assert found()[0].stride() == torch.add(*inputs).stride()


@pytest.mark.parametrize("shapes", [((64, 100), (100,)), ((5, 3, 4), (3, 1))], ids=str)
def test_sums_of_a_gradient_that_repeats_a_number(
    shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = [torch.randn(shape, requires_grad=True) for shape in shapes]
    loss = get("bce_with_logits")
    with monkeypatch.context() as without:
        without.setattr(rt, "_native", None)
        expected = torch.autograd.grad(loss(x, y).sum(), (x, y))
    torch.autograd.grad(loss(x, y).sum(), (x, y))
    monkeypatch.setattr(rt._Backward, "__call__", refuse)
    for one, other in zip(torch.autograd.grad(loss(x, y).sum(), (x, y)), expected, strict=True):
        assert torch.equal(one, other)


def test_sums_of_what_does_not_lie_in_order_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which adds the terms in an order of its own."""
    value, gate = torch.randn(5, 4, requires_grad=True), torch.randn(5, requires_grad=True)
    max_gate = get("max_gate")
    expected = torch.autograd.grad(max_gate(value.t(), gate).sum(), gate)
    monkeypatch.setattr(rt._Backward, "__call__", refuse)
    with pytest.raises(AssertionError, match="left to Python"):
        max_gate(value.t(), gate).sum().backward()
    monkeypatch.undo()
    assert torch.equal(torch.autograd.grad(torch.maximum(value.t(), gate).sum(), gate)[0], expected[0])


class TestInPlace:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("name", ["exp", "relu"])
    def test_it_gives_what_python_gives(self, name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
        op = get(name)
        overwrite = getattr(op.code, f"{name}_")
        (leaf,) = prepared(op, (300, 3), dtype)
        monkeypatch.setattr(rt.Kernel, "overwrite", refuse)
        for layout in (lambda x: x * 1, lambda x: (x * 1).t(), lambda x: x.detach().clone()):
            x = layout(leaf)
            if x._base is not None:
                x = x.clone(memory_format=torch.preserve_format)
            expected, address, version = op(x), x.data_ptr(), x._version
            assert overwrite(x) is x
            assert torch.equal(x, expected)
            assert (x.data_ptr(), x._version) == (address, version + 1)
            if not x.requires_grad:
                continue
            assert is_native(x)
            assert x.grad_fn.name() == f"{name.capitalize()}InplaceFunctionBackward"
            gradients = [torch.autograd.grad(y.sum(), leaf, retain_graph=True)[0] for y in (x, expected)]
            assert torch.equal(*gradients)

    def test_gradcheck(self) -> None:
        x = prepared(get("exp"), dtype=torch.float64)[0]
        exp_ = get("exp").code.exp_
        assert is_native(exp_(x * 1))
        assert torch.autograd.gradcheck(lambda x: exp_(x * 1), x)
        assert torch.autograd.gradgradcheck(lambda x: exp_(x * 1), x)

    def test_what_may_not_be_written_to_is_left_to_python(self, monkeypatch: pytest.MonkeyPatch) -> None:
        relu, x = get("relu").code, prepared(get("relu"))[0]
        served = []
        own = rt.Kernel.quick_overwrite
        monkeypatch.setattr(rt.Kernel, "quick_overwrite", lambda *given: served.append(own(*given)) or served[-1])
        with torch.inference_mode():
            inferred = torch.randn(5)
            relu.relu_(inferred)
        assert served == [True]
        with torch.no_grad():
            relu.relu_(x)
        assert served == [True, True]
        for others in (x, x[1:], inferred):
            with pytest.raises(RuntimeError):
                relu.relu_(others)
        relu.relu_((x * 1)[1:])
        with torch.inference_mode():
            relu.relu_(torch.randn(5).mul(1))
            relu.relu_(x.detach().clone())
        assert served == [True, True, False, False, False, False, True, True]


def test_batched_gradients() -> None:
    x = X.clone().requires_grad_()
    grads = torch.stack([torch.ones(6), torch.arange(6.0)])
    result = swish(x)
    expected = torch.stack([torch.autograd.grad(result, x, grad, retain_graph=True)[0] for grad in grads])
    assert is_native(result)
    (found,) = torch.autograd.grad(result, x, grads, is_grads_batched=True)
    torch.testing.assert_close(found, expected)
    back = lambda grad: torch.autograd.grad(swish(x), x, grad)[0]  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(back)(grads), expected)


def test_hooks_on_saved_tensors() -> None:
    x = X.clone().requires_grad_()
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> int:
        kept.append(tensor)
        return len(kept) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda place: 2 * kept[place]):
        result = swish(x)
    assert is_native(result)
    assert len(kept) == 1
    (found,) = torch.autograd.grad(result.sum(), x)
    doubled = (2 * X).requires_grad_()
    assert torch.equal(found, torch.autograd.grad(swish(doubled).sum(), doubled)[0])


def test_a_hook_that_raises() -> None:
    def unpack(_: Any) -> Tensor:
        raise KeyError("unpacked")

    x = X.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        result = swish(x)
    with pytest.raises(KeyError, match="unpacked"):
        result.sum().backward()


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        return None


def test_nothing_is_unpacked_for_a_gradient_that_there_is_not() -> None:
    x, unpacked = X.clone().requires_grad_(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpacked.append):
        result = NoGradient.apply(swish(x))
    for _ in range(2):  # nor is it missed
        result.backward(torch.ones(6))
    assert unpacked == []
    assert x.grad is None


def test_compiled_autograd() -> None:
    """The engine hands the backward pass to a compiler, which calls a node with tensors that have no memory."""
    from torch._dynamo import compiled_autograd

    torch._dynamo.reset()
    r, theta = (X.clone().requires_grad_() for _ in range(2))
    for beta, cut in ((1.5, 0), (1.5, 1), (2.5, 0), (1.0, 0), (1.0, 2)):
        for _ in range(3):  # kernels are compiled
            losses = [swish(r[cut:], beta), *polar_to_cartesian(r[cut:], theta[cut:])]
            losses += polar_to_cartesian(r[cut:], theta[:1])
            expected = torch.autograd.grad(sum(loss.sum() for loss in losses), (r, theta), retain_graph=True)
        assert all(is_native(loss) for loss in losses)
        with compiled_autograd._enable(lambda graph: torch.compile(graph, backend="aot_eager")):
            sum(loss.sum() for loss in losses).backward()
        torch.testing.assert_close((r.grad, theta.grad), expected)
        r.grad = theta.grad = None


def test_backward_in_many_threads() -> None:
    x = torch.linspace(-3, 3, 1000).requires_grad_()
    result = swish(x)
    expected = torch.autograd.grad(swish(x), x, torch.ones(1000))[0]
    found: list[Tensor] = []

    def run() -> None:
        for _ in range(50):
            found.append(torch.autograd.grad(result, x, torch.ones(1000), retain_graph=True)[0])
            found.append(torch.autograd.grad(swish(x), x, torch.ones(1000))[0])

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 * 100
    assert all(torch.equal(one, expected) for one in found)


def test_a_deep_network_is_freed_without_recursion() -> None:
    y = X.clone().requires_grad_()
    for _ in range(100_000):
        y = swish(y)
    assert is_native(y)
    del y
    gc.collect()


def test_it_appears_in_profiles() -> None:
    x = X.clone().requires_grad_()
    with torch.profiler.profile() as profile:
        swish(x).sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert {"SwishFunction", "SwishFunctionBackward"} <= names


# ---------------------------------------------------------------------------------------------------------------------
# When it is compiled, and when it is used
# ---------------------------------------------------------------------------------------------------------------------

SCRIPT = """
import torch
from generated import _runtime
from generated.swish import swish
x = torch.ones(4, requires_grad=True)
swish(x)
print(type(swish(x).grad_fn).__name__)
"""


def run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=gallery.ROOT)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernels with what was compiled in it."""
    compiled = rt.compile_native()
    monkeypatch.setenv("GRADGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GRADGEN_NATIVE")
    (tmp_path / compiled.name).write_bytes(compiled.read_bytes())
    (tmp_path / compiled.name).chmod(0o700)
    tmp_path.chmod(0o700)
    return tmp_path / compiled.name


def test_a_process_uses_what_is_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(dict(os.environ)).stdout == "CppFunction\n"
    monkeypatch.setenv("GRADGEN_NATIVE", "0")
    assert run(dict(os.environ)).stdout == "SwishFunctionBackward\n"


def test_a_damaged_library_is_left_alone(cache: Path) -> None:
    cache.write_bytes(cache.read_bytes()[:-1000])
    done = run(dict(os.environ))
    assert (done.stdout, done.stderr) == ("SwishFunctionBackward\n", "")


@pytest.fixture
def started(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that are begun in the background, of which each third call that goes by Python or C may be one."""
    commands: list[list[str]] = []
    own = {**vars(subprocess), "Popen": lambda command, **_: commands.append(command)}
    rt._native_file()  # the compiler is asked what it is
    for name, value in {"_native": None, "_OFTEN": 3, "_slow_calls": 0, "_compiling": []}.items():
        monkeypatch.setattr(rt, name, value)
    identity = rt._compiler_identity
    known = {args: identity(*args) for args in [(rt._native_recipe()[0].command[0], ())]}
    monkeypatch.setattr(rt, "_compiler_identity", lambda program, rest: known[program, tuple(rest)])
    monkeypatch.setattr(rt, "subprocess", SimpleNamespace(**own))
    return commands


def test_it_is_compiled_after_many_calls(cache: Path, started: list[list[str]]) -> None:
    image = cache.read_bytes()
    cache.unlink()
    cache.with_suffix(".lock").touch()  # whoever held it has died
    r, theta = torch.ones(4, 5, requires_grad=True), torch.ones(5, requires_grad=True)
    for call in range(7):
        assert not is_native(polar_to_cartesian(r, theta)[0]), call
        assert len(started) == (call >= 2)
    cache.write_bytes(image)  # as that other process does
    cache.chmod(0o700)
    assert not is_native(swish(r))
    assert not is_native(swish(r))  # the ninth, after which it looks
    assert is_native(swish(r))
    assert is_native(polar_to_cartesian(r, theta)[0])
    assert len(started) == 1
    assert subprocess.run(started[0], capture_output=True, text=True, check=True).stdout == f"{cache}\n"


def test_it_is_compiled_after_many_calls_without_gradients(cache: Path, started: list[list[str]]) -> None:
    """Of inputs that broadcast, by Python, and of those of one shape, by C."""
    cache.unlink()
    sum_product, x = get("sum_product").function, torch.ones(4, 5)
    sum_product(x, x, x)  # is compiled, and then goes by C
    sum_product(x, torch.ones(5), x)
    assert started == []
    sum_product(x, x, x)
    assert len(started) == 1


def test_only_one_compiles(cache: Path, started: list[list[str]]) -> None:
    cache.unlink()
    x = X.clone().requires_grad_()
    with rt._lock_file(cache.with_suffix(".lock")):
        for _ in range(6):
            swish(x)
    assert started == []
    cache.with_suffix(".failed").touch()
    for _ in range(6):
        swish(x)
    assert started == []


@pytest.mark.parametrize("executable", [None, "", "/usr/sbin/uwsgi"])
def test_nothing_but_python_is_started(
    executable: str | None, cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.unlink()
    monkeypatch.setattr(sys, "executable", executable)
    for _ in range(6):
        swish(X.clone().requires_grad_())
    assert started == []


@pytest.mark.parametrize(
    ("compiler", "message"),
    [("no-such-compiler", r"no C\+\+ compiler was found"), ('"', "CXX cannot be understood"), ("false", "failed")],
)
def test_without_a_compiler_nothing_is_said(
    compiler: str, message: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rt, "_native", None)
    monkeypatch.setattr(rt, "_OFTEN", 1)
    monkeypatch.setattr(rt, "_compiling", [None])
    monkeypatch.setenv("CXX", compiler)
    assert not is_native(swish(X.clone().requires_grad_()))
    with pytest.raises(rt._UnavailableError, match=message):
        rt.compile_native()


def test_paths_are_recorded_and_forced_in_backward() -> None:
    x = X.clone().requires_grad_()
    result = swish(x)
    assert is_native(result)
    with rt.record_paths() as record:
        result.sum().backward(retain_graph=True)
    with rt.force_path("torch"), rt.record_paths() as forced:
        result.sum().backward()
    assert record == [("swish_backward", "cpu")]
    assert forced == [("swish_backward", "torch")]
