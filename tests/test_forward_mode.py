"""Forward-mode differentiation of the gallery, alone and nested with the other transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gallery
import pytest
import torch
from gallery import OPS, Op, as_tuple, get, total
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap

rt = gallery.runtime()

every = pytest.mark.parametrize("op", OPS, ids=str)


def assert_close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)


def of_differentiable(op: Op, function: Callable[..., Any], inputs: list[Tensor]) -> Callable[..., Any]:
    """The function of the differentiable inputs alone."""

    def call(*given: Tensor) -> Any:
        rest = iter(given)
        return function(*[next(rest) if k in op.differentiable else tensor for k, tensor in enumerate(inputs)])

    return call


def prepared(op: Op, shape: tuple[int, ...] = (5,)) -> tuple[Any, Any, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """An op and its reference, both of the differentiable inputs alone, these inputs, and tangents."""
    inputs = op.sample(shape)
    given = tuple(inputs[k] for k in op.differentiable)
    generator = torch.Generator().manual_seed(0)
    tangents = tuple(torch.randn(x.shape, dtype=x.dtype, generator=generator) for x in given)
    return of_differentiable(op, op.function, inputs), of_differentiable(op, op.reference, inputs), given, tangents


@every
def test_jvp(op: Op) -> None:
    function, reference, given, tangents = prepared(op)
    assert_close(jvp(function, given, tangents), jvp(reference, given, tangents))


@every
def test_dual_numbers(op: Op) -> None:
    function, reference, given, tangents = prepared(op)
    found = []
    for call in (function, reference):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(given, tangents, strict=True)]
            found.append([tuple(forward_ad.unpack_dual(result)) for result in as_tuple(call(*duals))])
    assert_close(*found)


@every
def test_inputs_without_tangents(op: Op) -> None:
    function, reference, given, tangents = prepared(op)
    for k in range(len(given)):

        def of_one(x: Tensor, call: Any, k: int = k) -> Any:
            return call(*given[:k], x, *given[k + 1 :])

        results = [
            jvp(lambda x, call=call, f=of_one: f(x, call), (given[k],), (tangents[k],))  # type: ignore[misc]
            for call in (function, reference)
        ]
        assert_close(*results)


NESTED: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "forward over reverse": hessian,
    "reverse over forward": lambda f, n: jacrev(jacfwd(f, n), n),
    "forward over forward": lambda f, n: jacfwd(jacfwd(f, n), n),
    "of third order": lambda f, n: jacfwd(jacrev(jacfwd(f, n), n), n),
    "of third order by gradients": lambda f, n: jacfwd(jacrev(grad(f, n), n), n),
}


@every
@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_nested(op: Op, nested: Callable[[Any, tuple[int, ...]], Any]) -> None:
    function, reference, given, _ = prepared(op, (2,))
    positions = tuple(range(len(given)))
    found = nested(lambda *x: total(function(*x)), positions)(*given)
    assert_close(found, nested(lambda *x: total(reference(*x)), positions)(*given))


@every
def test_vmap_of_tangents(op: Op) -> None:
    function, reference, given, tangents = prepared(op, (3, 4))
    expected = jvp(reference, given, tangents)
    several = tuple(torch.stack([t, 2 * t]) for t in tangents)
    found = vmap(lambda *t: jvp(function, given, t)[1])(*several)
    assert_close([both[1] for both in as_tuple(found)], [2 * one for one in as_tuple(expected[1])])


@pytest.mark.parametrize("op", [op for op in OPS if len(op.differentiable) == len(op.tensors)], ids=str)
def test_below_and_above_vmap(op: Op) -> None:
    function, reference, given, tangents = prepared(op, (3, 4))
    expected = jvp(reference, given, tangents)
    assert_close(vmap(lambda x, t: jvp(function, x, t))(given, tangents), expected)
    assert_close(jvp(vmap(function, in_dims=1, out_dims=1), given, tangents), expected)


@every
def test_linearize(op: Op) -> None:
    function, reference, given, tangents = prepared(op)
    value, pushforward = linearize(function, *given)
    expected, slope = jvp(reference, given, tangents)
    assert_close((value, pushforward(*tangents)), (expected, slope))


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
def test_inputs_that_broadcast(op: Op) -> None:
    inputs = op.sample((3, 4))
    inputs[-1] = inputs[-1][:1]
    given = tuple(inputs[k] for k in op.differentiable)
    function, reference = (of_differentiable(op, call, inputs) for call in (op.function, op.reference))
    tangents = tuple(torch.ones_like(x) for x in given)
    assert_close(jvp(function, given, tangents), jvp(reference, given, tangents))
    positions = tuple(range(len(given)))
    found = hessian(lambda *x: total(function(*x)), positions)(*given)
    assert_close(found, hessian(lambda *x: total(reference(*x)), positions)(*given))


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) == 1], ids=str)
def test_forward_mode_is_as_exact_as_the_gradient(op: Op) -> None:
    """Also where the formula as typed gives NaN: the derivatives are those of the backward kernel."""
    x = torch.tensor([-1e4, -90.0, -20.0, -1.0, 1e-3, 1.0, 20.0, 90.0, 1e4])
    (tangent,) = as_tuple(jvp(op.function, (x,), (torch.ones_like(x),))[1])
    (slope,) = torch.autograd.grad(op(x.requires_grad_()).sum(), x)
    torch.testing.assert_close(tangent, slope, rtol=1e-6, atol=1e-36)


def test_the_second_derivative_forward_over_forward_is_finite_in_the_tails() -> None:
    swish = get("swish")
    x = torch.tensor([-1e4, -100.0, 100.0, 1e4], dtype=torch.float64)
    ones = torch.ones_like(x)
    second = jvp(lambda x: jvp(swish, (x,), (ones,))[1], (x,), (ones,))[1]
    assert second.isfinite().all()


def test_compiled_functions_have_no_part_in_it() -> None:
    """torch.compile takes no function with a JVP; outside it, the same op has one."""
    swish = get("swish").function
    x = torch.linspace(-3, 3, 7, requires_grad=True)
    compiled = torch.compile(swish, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(swish(x).sum(), x))
