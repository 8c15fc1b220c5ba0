"""Mistakes in a call: the exception that torch raises, with the names of the operation and of the argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from building import build
from gallery import OPS, Op, as_tuple, get
from torch import Tensor

every = pytest.mark.parametrize("op", OPS, ids=str)
several = pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
with_hyper = pytest.mark.parametrize("op", [op for op in OPS if op.hyper], ids=str)


def call_with(op: Op, position: int, value: Any) -> Any:
    """Calls `op` with that in place of one input, once as a function and once as a module."""
    inputs: list[Any] = op.sample((4,), dtype=torch.float32)
    inputs[position] = value
    return op(*inputs)


@every
@pytest.mark.parametrize(
    ("dtype", "shown"),
    [
        (torch.int32, "Int"),
        (torch.int64, "Long"),
        (torch.uint8, "Byte"),
        (torch.bool, "Bool"),
        (torch.complex64, "ComplexFloat"),
        (torch.complex128, "ComplexDouble"),
    ],
    ids=str,
)
def test_dtypes_that_are_not_floating(op: Op, dtype: torch.dtype, shown: str) -> None:
    for k, name in enumerate(op.tensors):
        wrong = torch.ones(4, dtype=dtype)
        if name in op.fixed and not dtype.is_complex:
            assert call_with(op, k, wrong).shape == (4,)
            continue
        expected = f"\"{op.name}\" not implemented for '{shown}' (argument '{name}')"
        with pytest.raises(NotImplementedError, match=re.escape(expected)) as caught:
            call_with(op, k, wrong)
        assert (f"{name}.float()" in str(caught.value)) == (not dtype.is_complex)


def test_torch_raises_the_same_for_integers() -> None:
    for wrong in (torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.complex64)):
        with pytest.raises(NotImplementedError):
            torch.nn.functional.mish(wrong)
        with pytest.raises(NotImplementedError):
            get("mish")(wrong)


@every
@pytest.mark.parametrize("value", [1.5, None, [1.0, 2.0], "x", np.ones(4)], ids=repr)
def test_what_is_no_tensor(op: Op, value: Any) -> None:
    for k, name in enumerate(op.tensors):
        expected = f"{op.name}(): argument '{name}' must be Tensor, not {type(value).__name__}"
        with pytest.raises(TypeError, match=re.escape(expected)):
            call_with(op, k, value)


@every
def test_a_wrong_number_of_arguments(op: Op) -> None:
    inputs = op.sample((4,))
    with pytest.raises(TypeError, match=f"{op.name}\\(\\) missing 1 required positional argument: '{op.tensors[-1]}'"):
        op(*inputs[:-1])
    with pytest.raises(TypeError, match=f"{op.name}\\(\\) takes"):
        op(*inputs, *[1.0] * len(op.hyper), 1.0)
    with pytest.raises(TypeError, match=f"{op.name}\\(\\) got an unexpected keyword argument 'gamma'"):
        op(*inputs, gamma=1.0)


@every
def test_tensors_by_keyword(op: Op) -> None:
    inputs = op.sample((4,))
    by_name = op.function(**dict(zip(reversed(op.tensors), reversed(inputs), strict=True)))
    for found, expected in zip(as_tuple(by_name), as_tuple(op(*inputs)), strict=True):
        assert torch.equal(found, expected)


@several
def test_shapes_that_do_not_broadcast(op: Op) -> None:
    for k, name in enumerate(op.tensors):
        with pytest.raises(
            RuntimeError, match=r"must match the size of tensor b .* non-singleton dimension 1"
        ) as caught:
            call_with(op, k, torch.ones(2, 3))
        message = str(caught.value)
        assert f"{op.name}()" in message
        assert f"'{name}' of shape [2, 3]" in message
        assert any(f"'{other}' of shape [4]" in message for other in op.tensors if other != name)


def test_shapes_are_complained_of_in_the_words_of_torch() -> None:
    a, b = torch.ones(2, 3), torch.ones(4)
    with pytest.raises(RuntimeError) as of_torch:
        torch.maximum(a, b)
    with pytest.raises(RuntimeError) as ours:
        get("max_gate")(a, b)
    assert str(ours.value).startswith(str(of_torch.value))


@several
def test_different_devices(op: Op) -> None:
    for k, name in enumerate(op.tensors):
        other = op.tensors[0 if k else 1]
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as caught:
            call_with(op, k, torch.ones(4, device="meta"))
        message = str(caught.value)
        assert f"{op.name}()" in message
        assert f"'{name}' is on meta" in message or f"argument '{name}' is on meta" in message
        assert f"'{other}' is on cpu" in message


@every
def test_meta_tensors_give_shapes(op: Op) -> None:
    inputs = [torch.empty(2, 3, device="meta", requires_grad=k in op.differentiable) for k in range(len(op.tensors))]
    results = as_tuple(op(*inputs))
    assert {(result.shape, result.device.type) for result in results} == {((2, 3), "meta")}
    grads = torch.autograd.grad(sum(result.sum() for result in results), [inputs[k] for k in op.differentiable])
    assert {(grad.shape, grad.device.type) for grad in grads} == {((2, 3), "meta")}


@every
def test_sparse_tensors(op: Op) -> None:
    for k, name in enumerate(op.tensors):
        with pytest.raises(NotImplementedError, match=f'"{op.name}" not implemented for layout.*{name}'):
            call_with(op, k, torch.ones(4).to_sparse())


@with_hyper
@pytest.mark.parametrize("value", ["1", None, [1.0], 1j, True, torch.tensor(1.0)], ids=repr)
def test_hyper_parameters_of_a_wrong_type(op: Op, value: Any) -> None:
    inputs = op.sample((4,))
    for name in op.hyper:
        expected = f"{op.name}(): argument '{name}' must be float, not {type(value).__name__}"
        with pytest.raises(TypeError, match=re.escape(expected)) as caught:
            op(*inputs, **{name: value})
        assert isinstance(value, Tensor) == ("declare the parameter as" in str(caught.value))
        with pytest.raises(TypeError, match=re.escape(expected)):
            op.module_class(**{name: value})


def test_a_hyper_parameter_too_large_for_a_float() -> None:
    with pytest.raises(OverflowError, match=re.escape("swish(): argument 'beta' is too large for a float")):
        get("swish")(torch.ones(4), 10**400)


def test_a_whole_number_that_no_float_is(tmp_path: Path) -> None:
    module, _ = build("@op\ndef f(x, n: int):\n    return x**n\n", tmp_path)
    x = torch.full((4,), -1.0)
    assert module.f(x, 2**53).tolist() == [1.0] * 4
    for value in (2**53 + 1, -(2**60), np.int64(2**60), 10**400):
        with pytest.raises(OverflowError, match=re.escape("f(): argument 'n' is beyond 2**53")):
            module.f(x, value)


@with_hyper
@pytest.mark.parametrize("make", [int, np.float32, np.float64, np.int64, float], ids=lambda make: make.__name__)
def test_numbers_of_other_kinds_are_welcome_as_hyper_parameters(op: Op, make: Any) -> None:
    inputs = op.sample((4,))
    for name in op.hyper:
        assert torch.equal(op(*inputs, **{name: make(2)}), op(*inputs, **{name: 2.0}))


def test_an_error_leaves_everything_usable() -> None:
    for op in OPS:
        with pytest.raises(TypeError):
            call_with(op, 0, "nonsense")
        assert all(result.isfinite().all() for result in as_tuple(op(*op.sample((4,)))))
