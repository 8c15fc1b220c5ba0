"""What the gallery keeps between forward and backward: the least, and nothing for gradients nobody asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import gallery
import pytest
import torch
from gallery import OPS, Op, as_tuple, get, total
from torch import Tensor
from torch.utils.checkpoint import checkpoint

rt = gallery.runtime()

pytestmark = pytest.mark.usefixtures("way")


def names_of_saved(op: Op, needs: Sequence[str], **hyper: float) -> set[str]:
    """The inputs, and results out0, out1, ..., that autograd keeps when gradients of `needs` are wanted."""
    inputs = op.sample((3,))
    for k, name in enumerate(op.tensors):
        inputs[k].requires_grad_(name in needs)
    packed: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: packed.append(tensor) or tensor, lambda tensor: tensor
    ):
        results = as_tuple(op(*inputs, **hyper))
    known = {tensor.data_ptr(): name for name, tensor in zip(op.tensors, inputs, strict=True)}
    known |= {tensor.data_ptr(): f"out{k}" for k, tensor in enumerate(results)}
    found = [known[tensor.data_ptr()] for tensor in packed]
    assert len(found) == len(set(found)), "saved twice"
    return set(found)


ALL = ("x",)

SAVED: list[tuple[str, Sequence[str], set[str]]] = [
    # From the output their derivative is had as exactly as from the input.
    ("exp", ALL, {"out0"}),
    ("relu", ALL, {"out0"}),
    # Not sigmoid and tanh: s (1 - s) and 1 - t^2 of a rounded s or t near 1 are off by 10^6 ulp.
    ("sigmoid", ALL, {"x"}),
    ("tanh_exp", ALL, {"x"}),
    ("swish", ALL, {"x"}),
    ("mish", ALL, {"x"}),
    ("gelu", ALL, {"x"}),
    ("gelu_tanh", ALL, {"x"}),
    ("softplus", ALL, {"x"}),
    ("log_sigmoid", ALL, {"x"}),
    ("elu", ALL, {"x"}),
    ("leaky_relu", ALL, {"x"}),
    ("square", ALL, {"x"}),
    ("binarize", ALL, {"x"}),
    ("huber", ("prediction",), {"prediction", "target"}),
    ("bce_with_logits", ("x",), {"x", "y"}),
    ("bce_with_logits", ("y",), {"x"}),
    ("bce_with_logits", ("x", "y"), {"x", "y"}),
    ("polar_to_cartesian", ("r",), {"theta"}),
    ("polar_to_cartesian", ("r", "theta"), {"r", "theta"}),
    ("sum_product", ("x",), {"z"}),
    ("sum_product", ("y",), {"z"}),
    ("sum_product", ("x", "y"), {"z"}),
    ("sum_product", ("z",), {"x", "y"}),
    ("sum_product", ("x", "z"), {"x", "y", "z"}),
    ("sum_product", ("x", "y", "z"), {"x", "y", "z"}),
    ("max_gate", ("x",), {"x", "y"}),
    ("staged", ("y",), {"x", "y"}),
]


@pytest.mark.parametrize(("name", "needs", "expected"), SAVED)
def test_saved_tensors(name: str, needs: Sequence[str], expected: set[str]) -> None:
    assert names_of_saved(get(name), needs) == expected


def test_the_neuron_saves_no_weight_that_no_gradient_reads() -> None:
    """All gradients read all inputs, by way of the slope of the sigmoid."""
    neuron = get("neuron")
    for name in neuron.tensors:
        saved = names_of_saved(neuron, [name])
        assert saved <= set(neuron.tensors)
        assert "out0" not in saved


@pytest.mark.parametrize("op", OPS, ids=str)
def test_nothing_is_saved_where_no_gradient_is_wanted(op: Op) -> None:
    assert names_of_saved(op, ()) == set()
    with torch.no_grad():
        assert names_of_saved(op, op.tensors) == set()


@pytest.mark.parametrize("op", OPS, ids=str)
def test_no_more_is_saved_than_there_are_inputs(op: Op) -> None:
    assert len(names_of_saved(op, [op.tensors[k] for k in op.differentiable])) <= len(op.tensors)


@pytest.mark.parametrize("way", ["C"], indirect=True)  # a node in C++ does not show them
def test_saved_tensors_show_in_the_graph() -> None:
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    swish = get("swish")(x)
    assert [tensor.data_ptr() for tensor in swish.grad_fn.saved_tensors] == [x.data_ptr()]
    exp = get("exp")(x)
    assert [tensor.data_ptr() for tensor in exp.grad_fn.saved_tensors] == [exp.data_ptr()]
    assert exp.grad_fn.name() == "ExpFunctionBackward"
    z = torch.tensor([2.0, 3.0])
    product = get("sum_product")(x, x, z)
    assert [tensor is None for tensor in product.grad_fn.saved_tensors] == [True, True, False]


def test_saved_tensors_are_freed_after_backward(way: str) -> None:
    for op in OPS:
        inputs = op.sample((3,), grad=True)
        result = as_tuple(op(*inputs))[0]
        total(result).backward()
        if names_of_saved(op, [op.tensors[k] for k in op.differentiable]):
            with pytest.raises(RuntimeError, match=r"already been freed|second time"):
                total(result).backward()
            if way == "C":  # a node in C++ does not show them
                with pytest.raises(RuntimeError, match="already been freed"):
                    _ = result.grad_fn.saved_tensors


def test_saved_tensors_may_be_moved_away_and_back() -> None:
    """As saved_tensors_hooks do that keep activations on disk or in other memory."""
    for op in OPS:
        inputs = op.sample((3,), grad=True)
        total(op(*inputs)).backward()
        again = op.sample((3,), grad=True)

        def pack(tensor: Tensor) -> list[Any]:
            return [tensor.tolist(), tensor.dtype]

        def unpack(kept: list[Any]) -> Tensor:
            return torch.tensor(kept[0], dtype=kept[1])

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = total(op(*again))
        loss.backward()
        for tensor, other in zip(inputs, again, strict=True):
            assert (tensor.grad is None and other.grad is None) or torch.equal(tensor.grad, other.grad)


def test_checkpointing_computes_the_same() -> None:
    for op in OPS:
        inputs, again = op.sample((3,), grad=True), op.sample((3,), grad=True)
        total(op(*inputs)).backward()
        total(checkpoint(op.function, *again, use_reentrant=False)).backward()
        for tensor, other in zip(inputs, again, strict=True):
            assert (tensor.grad is None and other.grad is None) or torch.equal(tensor.grad, other.grad)


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Operations that are linear in some of their inputs, built for the purpose."""
    folder = tmp_path_factory.mktemp("linear")
    spec = folder / "combine.py"
    spec.write_text(
        "from gradgen import Tensor, op\n\n\n"
        "@op\ndef combine(x: Tensor, y: Tensor, a: float = 2.0):\n    return a * x - y / 3 + 1\n\n\n"
        "@op\ndef scale(x: Tensor, weight: Tensor(grad=False)):\n    return x * weight\n"
    )
    command = [sys.executable, "-m", "gradgen", "build", str(spec), "-o", str(folder / "linear_ops")]
    subprocess.run(command, check=True, cwd=gallery.ROOT, capture_output=True)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("linear_ops.combine")
    finally:
        sys.path.remove(str(folder))


def test_what_is_linear_saves_nothing(linear: Any) -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    packed: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: packed.append(tensor) or tensor, lambda tensor: tensor
    ):
        result = linear.combine(x, y)
    assert packed == []
    result.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3
    assert y.grad is not None
    torch.testing.assert_close(y.grad, torch.full((3,), -1 / 3))


def test_what_is_linear_has_no_use_for_its_input(linear: Any) -> None:
    x, weight = torch.randn(3, requires_grad=True), torch.tensor([0, 1, 2])
    packed: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: packed.append(tensor) or tensor, lambda tensor: tensor
    ):
        result = linear.scale(x, weight)
    assert [tensor.tolist() for tensor in packed] == [[0, 1, 2]]
    result.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 1, 2]
    assert torch.autograd.gradgradcheck(linear.scale, (x.detach().double().requires_grad_(), weight))
    assert torch.autograd.gradgradcheck(linear.combine, [t.detach().double().requires_grad_() for t in (x, x)])
