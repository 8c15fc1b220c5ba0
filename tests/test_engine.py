"""The gallery under what PyTorch's engine offers around an operation: precision, memory, hooks and watchfulness."""

from __future__ import annotations

from typing import Any

import gallery
import pytest
import torch
from building import build
from gallery import OPS, Op, as_tuple, total
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

rt = gallery.runtime()

every = pytest.mark.parametrize("op", OPS, ids=str)
differentiable = pytest.mark.parametrize("op", [op for op in OPS if op.differentiable], ids=str)
single = pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) == 1], ids=str)


def gradients(op: Op, inputs: list[Tensor]) -> list[Tensor | None]:
    for tensor in inputs:
        tensor.grad = None
    total(op(*inputs)).backward()
    return [inputs[k].grad for k in op.differentiable]


@every
@pytest.mark.parametrize("dtype", gallery.DTYPES, ids=str)
def test_autocast_leaves_the_type_of_the_input(op: Op, dtype: torch.dtype) -> None:
    """As torch's pointwise operations that are on no list of autocast's."""
    inputs = op.sample((5,), dtype=dtype, grad=True)
    expected = as_tuple(op(*inputs))
    plain = gradients(op, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = as_tuple(op(*inputs))
        within = gradients(op, inputs)
    assert [result.dtype for result in found] == [dtype] * len(found)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert all(one is other is None or torch.equal(one, other) for one, other in zip(within, plain, strict=True))


IN_FLOAT32 = """
@op(autocast="float32")
def squared_error(x: Tensor, y: Tensor(grad=False), k: float = 1.0):
    return k * (x - y)**2

@op(autocast="float32")
def overflowing(x: Tensor):
    return exp(x)
"""


@pytest.fixture(scope="module")
def in_float32(tmp_path_factory: pytest.TempPathFactory) -> Any:
    module, _ = build(IN_FLOAT32, tmp_path_factory.mktemp("autocast"))
    return module


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_to_float32(in_float32: Any, dtype: torch.dtype, wrap: Any) -> None:
    """As torch has it for exp, mse_loss and others; outside of autocast in the type of the inputs."""
    torch._dynamo.reset()
    x = torch.linspace(-2, 12, 8, dtype=dtype).requires_grad_()
    y = torch.ones(8, dtype=dtype)
    for function, arguments in ((in_float32.squared_error, (x, y)), (in_float32.overflowing, (x,))):
        assert wrap(function)(*arguments).dtype is dtype
        expected = function(*[argument.float() for argument in arguments])
        (slope,) = torch.autograd.grad(expected.sum(), x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = wrap(function)(*arguments)
        assert torch.equal(found, expected)
        (gradient,) = torch.autograd.grad(found.sum(), x)
        assert gradient.dtype is dtype
        assert torch.equal(gradient, slope)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert in_float32.overflowing(x.detach().double()).dtype is torch.float64
    assert not hasattr(in_float32, "overflowing_")  # it would have to be of the input's type


@single
def test_autocast_around_a_network(op: Op) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), op.module_class(), nn.Linear(6, 1))
    x = torch.randn(8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = network[0](x)
        assert op(hidden).dtype is hidden.dtype is torch.bfloat16
        loss = network(x).float().square().mean()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    before = [p.detach().clone() for p in network.parameters()]
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1024.0  # no gradient was infinite
    assert any(not torch.equal(p, old) for p, old in zip(network.parameters(), before, strict=True))


@every
def test_without_a_graph(op: Op) -> None:
    inputs = op.sample((5,), grad=True)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            results = as_tuple(op(*inputs))
        assert all(not result.requires_grad for result in results)
        assert all(result.is_inference() == isinstance(mode, torch.inference_mode) for result in results)


@differentiable
def test_reentrant_checkpointing(op: Op) -> None:
    inputs, again = op.sample((5,), grad=True), op.sample((5,), grad=True)
    expected = gradients(op, inputs)
    total(checkpoint(op.function, *again, use_reentrant=True)).backward()
    for k, gradient in zip(op.differentiable, expected, strict=True):
        assert torch.equal(again[k].grad, gradient)


@differentiable
def test_anomaly_mode_and_deterministic_algorithms(op: Op) -> None:
    inputs = op.sample((5,), grad=True)
    expected = gradients(op, inputs)
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autograd.detect_anomaly(check_nan=True):
            found = gradients(op, inputs)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@differentiable
def test_hooks(op: Op) -> None:
    inputs = op.sample((5,), grad=True)
    expected = gradients(op, inputs)
    seen: list[Any] = []
    result = as_tuple(op(*inputs))[0]
    if not result.requires_grad:
        return
    result.register_hook(lambda grad: seen.append("tensor") or 2 * grad)
    result.grad_fn.register_prehook(lambda grads: seen.append("before"))
    result.grad_fn.register_hook(lambda _, grads: seen.append("after"))
    inputs[op.differentiable[0]].register_hook(lambda grad: seen.append("input"))
    for tensor in inputs:
        tensor.grad = None
    total(result).backward()
    assert sorted(seen) == ["after", "before", "input", "tensor"]
    if op.outputs == 1:
        torch.testing.assert_close(inputs[op.differentiable[0]].grad, 2 * expected[0])


@differentiable
def test_the_graph_is_kept_on_request_only(op: Op) -> None:
    inputs = op.sample((5,), grad=True)
    loss = total(op(*inputs))
    loss.backward(retain_graph=True)
    first = [inputs[k].grad.clone() for k in op.differentiable]
    loss.backward()
    for k, gradient in zip(op.differentiable, first, strict=True):
        torch.testing.assert_close(inputs[k].grad, 2 * gradient)
    with pytest.raises(RuntimeError, match=r"second time|already been freed"):
        loss.backward()


@differentiable
def test_a_change_of_what_was_saved_is_noticed(op: Op) -> None:
    """Of each input and result, if backward reads it; of the others it does no harm."""
    inputs = [tensor * 1 for tensor in op.sample((5,), grad=True)]  # leaves must not be written to
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        op(*inputs)
    kept = {tensor.data_ptr() for tensor in saved}
    for k in range(len(inputs)):
        again = [tensor * 1 for tensor in op.sample((5,), grad=True)]
        loss = total(op(*again))
        with torch.no_grad():
            again[k].add_(1)
        if inputs[k].data_ptr() in kept:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        else:
            loss.backward()
