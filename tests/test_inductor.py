"""The gallery within torch.compile's own code generator: fused with what stands beside it, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from gallery import OPS, Op, as_tuple, get
from torch import Tensor
from torch._inductor import metrics

pytestmark = pytest.mark.slow

Function = Callable[..., tuple[Tensor, ...]]


def with_neighbours(ops: list[Op]) -> Function:
    """The results of ops, one more than they are, of inputs twice as large."""
    functions = [(op.function, op.others, len(op.tensors)) for op in ops]  # Dynamo does not trace how they are imported

    def function(*inputs: Tensor) -> tuple[Tensor, ...]:
        found: list[Tensor] = []
        for op, hyper, count in functions:
            given, inputs = inputs[:count], inputs[count:]
            found += [result + 1 for result in as_tuple(op(*[2 * tensor for tensor in given], **hyper))]
        return tuple(found)

    return function


def results_and_gradients(function: Function, inputs: list[Tensor]) -> list[Tensor | None]:
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    results = function(*inputs)
    sum(result.square().sum() for result in results if result.requires_grad).backward()
    return [*results, *(tensor.grad for tensor in inputs)]


@pytest.fixture(autouse=True)
def reset() -> None:
    torch._dynamo.reset()


def test_the_whole_gallery() -> None:
    """One kernel for each op and its neighbours, forward, and no more than one backward."""
    function = with_neighbours(OPS)
    inputs = [tensor for k, op in enumerate(OPS) for tensor in op.sample((64 + k,), dtype=torch.float32)]
    metrics.reset()
    found = results_and_gradients(torch.compile(function, fullgraph=True), inputs)
    assert len(OPS) < metrics.generated_kernel_count <= 2 * len(OPS)
    for ours, expected in zip(found, results_and_gradients(function, inputs), strict=True):
        assert (ours is None) == (expected is None)
        if ours is not None:
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_an_op_and_its_neighbours_are_one_kernel() -> None:
    function = torch.compile(with_neighbours([get("swish")]), fullgraph=True)
    x = torch.linspace(-3, 3, 1000, requires_grad=True)
    metrics.reset()
    (y,) = function(x)
    assert metrics.generated_kernel_count == 1
    y.sum().backward()
    assert metrics.generated_kernel_count == 2
