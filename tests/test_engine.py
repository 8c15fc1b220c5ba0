"""The gallery under what PyTorch's engine offers around an operation: precision, memory, hooks and watchfulness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import gallery
import pytest
import torch
from building import build
from gallery import OPS, Op, as_tuple, total
from networks import network
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

rt = gallery.runtime()

pytestmark = pytest.mark.usefixtures("way")

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
        torch.testing.assert_close(found, expected, rtol=2.0**-22, atol=0)  # compilers have an exponential of their own
        (gradient,) = torch.autograd.grad(found.sum(), x)
        assert gradient.dtype is dtype
        torch.testing.assert_close(gradient, slope)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert in_float32.overflowing(x.detach().double()).dtype is torch.float64
    assert not hasattr(in_float32, "overflowing_")  # it would have to be of the input's type


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_to_float32_leaves_the_meta_device_alone(in_float32: Any, dtype: torch.dtype) -> None:
    """Of which torch refuses to tell whether autocast is on."""
    x = torch.empty(3, dtype=dtype, device="meta")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert in_float32.overflowing(x).dtype is dtype


@every
def test_autocast_around_a_network(op: Op) -> None:
    seen = []

    def function(*inputs: Tensor, **hyper: float) -> Any:
        results = op(*inputs, **hyper)
        seen.extend([*inputs, *as_tuple(results)])
        return results

    model = network(op, function).float()
    x = torch.randn(8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).float().square().mean()
    assert {tensor.dtype for tensor in seen} == {torch.bfloat16}
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [p.detach().clone() for p in model.parameters()]
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1024.0  # no gradient was infinite
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


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
def test_anomaly_mode_names_the_call_of_a_nan(op: Op) -> None:
    """One in the gradient that comes in is NaN in what the operation makes of it, where that hangs on it at all."""
    for seed in range(20):
        sample = op.sample((2,), seed=seed, grad=True)
        inputs = [(x.detach() / (1 + 3 * (seed % 2))).requires_grad_(x.requires_grad) for x in sample]
        expected = as_tuple(op(*inputs))
        asked = [inputs[k] for k in op.differentiable]
        slopes = torch.autograd.grad(expected[0].sum(), asked, retain_graph=True, materialize_grads=True)
        if any(slope[0] != 0 for slope in slopes):  # of relu it is 0 below 0, whatever comes in
            break
    incoming = torch.tensor([math.nan, 1.0], dtype=torch.float64)
    refused = pytest.raises(RuntimeError, match=rf"Function '{op.class_name}FunctionBackward' returned nan values")
    with refused, torch.autograd.detect_anomaly(check_nan=True):
        as_tuple(op(*inputs))[0].backward(incoming)
    expected[0].backward(incoming)
    assert any(x.grad.isnan()[0] for x in asked)
    for x, slope in zip(asked, slopes, strict=True):
        assert x.grad.isnan().tolist() == [bool(slope[0] != 0), False]


@single
def test_a_gradient_that_overflows_makes_the_scaler_skip_the_step(op: Op) -> None:
    (start,) = op.sample((5,), dtype=torch.float32)

    def trained(function: Callable[[Tensor], Tensor]) -> tuple[Tensor, float]:
        x = nn.Parameter(start.clone())
        optimizer, scaler = torch.optim.SGD([x], lr=1e-11), torch.amp.GradScaler("cpu", init_scale=2.0**110)
        for _ in range(20):  # the scale is halved each time, until the gradient is finite
            optimizer.zero_grad()
            scaler.scale(1e10 * function(x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return x.detach(), scaler.get_scale()

    (found, scale), (expected, expected_scale) = trained(op.function), trained(op.reference)
    assert scale in (expected_scale, 2 * expected_scale)  # torch's chain may overflow where the gradient does not
    if scale == expected_scale:
        torch.testing.assert_close(found, expected)


@single
def test_hooks_of_modules(op: Op) -> None:
    module, seen = op.module_class(**op.others), []
    module.register_forward_pre_hook(lambda _, inputs: seen.append("before") or (2 * inputs[0],))
    module.register_forward_hook(lambda _, inputs, result: seen.append("after") or result + 1)
    module.register_full_backward_pre_hook(lambda _, grads: seen.append("backward begins"))
    module.register_full_backward_hook(lambda _, to_inputs, grads: seen.append("backward ends"))
    (x,), (again,) = op.sample((5,), grad=True), op.sample((5,), grad=True)
    found = module(x)
    expected = op(2 * again, **op.others) + 1
    assert torch.equal(found, expected)
    if not found.requires_grad:
        return
    found.sum().backward()
    expected.sum().backward()
    assert torch.equal(x.grad, again.grad)
    assert seen == ["before", "after", "backward begins", "backward ends"]


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
def test_hooks_of_what_has_come_together(op: Op) -> None:
    """Of one leaf, of all leaves, and a result that keeps its own gradient."""
    inputs = op.sample((5,), grad=True)
    expected = gradients(op, inputs)
    leaves = [inputs[k] for k in op.differentiable]
    accumulated: list[Tensor] = []
    together: list[Any] = []
    results = as_tuple(op(*inputs))
    for tensor in (*leaves, *results):
        tensor.grad = None
        tensor.retain_grad()
    for leaf in leaves:
        leaf.register_post_accumulate_grad_hook(lambda leaf: accumulated.append(leaf.grad.clone()))
    torch.autograd.graph.register_multi_grad_hook(leaves, together.extend)
    weights = [torch.full_like(result, 2.0) for result in results]
    sum((weight * result).sum() for weight, result in zip(weights, results, strict=True)).backward()
    assert all(torch.equal(result.grad, weight) for result, weight in zip(results, weights, strict=True))
    assert len(accumulated) == len(together) == len(leaves) == len(expected)
    for k, leaf in enumerate(leaves):
        assert torch.equal(together[k], leaf.grad)
        assert any(torch.equal(grad, leaf.grad) for grad in accumulated)


def policy(_: Any, function: Any, *__: Any, **___: Any) -> CheckpointPolicy:
    keeps = function in (torch.ops.aten.mul.Tensor, torch.ops.aten.sigmoid.default)
    return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE


def _saved_on_cpu(function: Callable[..., Any], inputs: Sequence[Tensor]) -> Any:
    with torch.autograd.graph.save_on_cpu():
        return function(*inputs)


# What saves memory, as a way to call a function.
SAVING: dict[str, Callable[[Callable[..., Any], Sequence[Tensor]], Any]] = {
    "checkpointed": lambda function, inputs: checkpoint(function, *inputs, use_reentrant=False),
    "checkpointed selectively": lambda function, inputs: checkpoint(
        function,
        *inputs,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy),
    ),
    "saved on the CPU": _saved_on_cpu,
}


def second(loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of the loss by the leaves, then those of their sum."""
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    rest = [gradient.sum() for gradient in first if gradient.requires_grad]
    return [*first, *(torch.autograd.grad(sum(rest), leaves, materialize_grads=True) if rest else ())]


@differentiable
@pytest.mark.parametrize("way_of_saving", SAVING)
def test_orders_of_what_saves_memory(op: Op, way_of_saving: str) -> None:
    def orders(call: Callable[[Callable[..., Any], Sequence[Tensor]], Any]) -> list[Tensor]:
        inputs = op.sample((5,), grad=True)
        return second(total(call(op.function, inputs)), [inputs[k] for k in op.differentiable])

    expected = orders(lambda function, inputs: function(*inputs))
    for found, right in zip(orders(SAVING[way_of_saving]), expected, strict=True):
        # Modes of checkpoints see operations of torch: the torch form is computed, not the kernels.
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


@differentiable
def test_the_second_order_is_watched_over(op: Op) -> None:
    """Anomaly mode, deterministic algorithms, a graph that is freed, and what was changed meanwhile."""
    inputs = op.sample((5,), grad=True)
    leaves = [inputs[k] for k in op.differentiable]
    expected = second(total(op(*inputs)), leaves)
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autograd.detect_anomaly(check_nan=True):
            found = second(total(op(*inputs)), leaves)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))

    saved: list[Tensor] = []
    loss = total(op(*inputs))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        first = torch.autograd.grad(loss, leaves, create_graph=True)
    rest = [gradient for gradient in first if gradient.requires_grad]
    if not rest:
        return
    sums = sum(gradient.sum() for gradient in rest)
    torch.autograd.grad(sums, leaves, materialize_grads=True, retain_graph=True)
    torch.autograd.grad(sums, leaves, materialize_grads=True)
    with pytest.raises(RuntimeError, match=r"second time|already been freed") if saved else nullcontext():
        torch.autograd.grad(sums, leaves, materialize_grads=True)

    def first_order(hooks: Any) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Inputs that may be written to, those that gradients are taken by, and the sum of these gradients."""
        again = [tensor * 1 for tensor in op.sample((5,), grad=True)]
        wrt = [again[k] for k in op.differentiable]
        loss = total(op(*again))
        with hooks:
            first = torch.autograd.grad(loss, wrt, create_graph=True)
        return again, wrt, sum(gradient.sum() for gradient in first if gradient.requires_grad)

    saved.clear()
    again, *_ = first_order(torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t))
    are_kept = [tensor.data_ptr() in {one.data_ptr() for one in saved} for tensor in again]
    for k, is_kept in enumerate(are_kept):
        again, wrt, slopes = first_order(nullcontext())
        with torch.no_grad():
            again[k].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") if is_kept else nullcontext():
            # Where nobody complains, nothing was read that has changed.
            found = torch.autograd.grad(slopes, wrt, materialize_grads=True)
            for one, right in zip(found, expected[len(leaves) :], strict=True):
                torch.testing.assert_close(one, right)


@differentiable
def test_the_graph_is_kept_on_request_only(op: Op) -> None:
    """A sum saves nothing: that a second time is refused is the operation's doing."""
    inputs = op.sample((5,), grad=True)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        loss = sum(result.sum() for result in as_tuple(op(*inputs)))
    loss.backward(retain_graph=True)
    first = [inputs[k].grad.clone() for k in op.differentiable]
    loss.backward()
    for k, gradient in zip(op.differentiable, first, strict=True):
        torch.testing.assert_close(inputs[k].grad, 2 * gradient)
    refused = pytest.raises(RuntimeError, match=r"second time|already been freed") if saved else nullcontext()
    with refused:
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
    for k in range(op.outputs):
        saved.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            is_kept = as_tuple(op(*op.sample((5,), grad=True)))[k].data_ptr() in {t.data_ptr() for t in saved}
        results = as_tuple(op(*op.sample((5,), grad=True)))
        loss = total(results)
        with torch.no_grad():
            results[k].add_(1)
        refused = pytest.raises(RuntimeError, match="modified by an inplace operation") if is_kept else nullcontext()
        with refused:
            loss.backward()
