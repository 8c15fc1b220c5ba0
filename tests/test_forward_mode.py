"""Forward-mode differentiation of the gallery, alone and nested with the other transforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gallery
import pytest
import torch
from building import build
from gallery import OPS, Op, as_tuple, get, total
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

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


@pytest.mark.few(every_day=12, slow=80)
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


@pytest.mark.few(every_day=4, slow=30)
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


def twice(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, ...]:
    """Value, derivative, derivative and second derivative, forward over forward."""
    ones = torch.ones_like(x)
    (value, slope), (again, second) = jvp(lambda x: jvp(function, (x,), (ones,)), (x,), (ones,))
    return value, slope, again, second


def test_forward_over_forward_is_by_the_kernels() -> None:
    """At kinks the convention, in tails all digits, and a derivative of the user's own."""
    zero = torch.zeros(1)
    assert [t.item() for t in twice(get("relu").function, zero)] == [0.0, 0.0, 0.0, 0.0]
    x = torch.tensor([-0.5, 0.3, 2.0])
    binarize = get("binarize").function
    assert twice(lambda x: binarize(x) * x, x)[3].tolist() == [2.0, 2.0, 0.0]
    assert jacfwd(jacrev(jacfwd(lambda x: (binarize(x) * x * x).sum())))(x).sum((0, 1)).tolist() == [6.0, 6.0, 0.0]
    tail = torch.tensor([-100.0, 800.0])
    slope = torch.tensor([3.7835e-44, 1.0])
    for found in twice(get("elu").function, tail)[1:3]:
        torch.testing.assert_close(found, slope, rtol=0.02, atol=0)
    assert all(found.isfinite().all() for found in twice(get("swish").function, torch.tensor([-1e4, -100.0, 1e4])))


def test_one_tangent_is_no_factor_afterwards() -> None:
    """In float16 the slope alone may be beyond the largest number."""
    x, tangent = torch.tensor([300.0], dtype=torch.float16), torch.tensor([0.01], dtype=torch.float16)
    (result,) = as_tuple(jvp(lambda x: get("gelu")(x) * 1, (x,), (tangent,))[1])
    assert torch.equal(result, tangent)
    square = get("square").function
    large = torch.tensor([60000.0], dtype=torch.float16)
    assert jvp(square, (large,), (tangent,))[1].item() == pytest.approx(1200.0, rel=2e-3)


CONSTANT = {
    "jvp": lambda f, x: jvp(f, (x,), (torch.ones_like(x),))[1],
    "jvp of vmap": lambda f, x: jvp(vmap(f), (x,), (torch.ones_like(x),))[1],
    "vmap of jvp": lambda f, x: vmap(lambda x: jvp(f, (x,), (torch.ones_like(x),))[1])(x),
    "forward over forward": lambda f, x: twice(f, x)[3],
    "hessian": lambda f, x: hessian(lambda x: f(x).sum())(x),
}


@pytest.mark.parametrize("transform", CONSTANT.values(), ids=CONSTANT)
def test_an_op_without_gradient(tmp_path: Path, transform: Callable[..., Tensor]) -> None:
    module, _ = build("@op\ndef noise(x: Tensor(grad=False)): return sin(x)", tmp_path)
    x = torch.randn(3)
    assert not transform(module.noise, x).any()
    torch.testing.assert_close(jvp(lambda x: module.noise(x) * x, (x,), (torch.ones(3),))[1], torch.sin(x))


def test_results_may_be_written_to() -> None:
    """Unless backward reads them, whoever watches."""
    swish = get("swish").function

    def changed(x: Tensor) -> Tensor:
        y = swish(x)
        y += 1
        return y.sum()

    x = torch.randn(4)
    expected = grad(lambda x: swish(x).sum())(x)
    assert torch.equal(grad(changed)(x), expected)
    torch.testing.assert_close(hessian(changed)(x), hessian(lambda x: swish(x).sum())(x))
    leaf = x.clone().requires_grad_()
    with FlopCounterMode(display=False):
        loss = changed(leaf)
    assert torch.equal(torch.autograd.grad(loss, leaf)[0], expected)
    with FlopCounterMode(display=False):
        y = checkpoint(swish, leaf, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(y.sum(), leaf)[0], expected)


def test_compiled_functions_have_no_part_in_it() -> None:
    """torch.compile takes no function with a JVP; outside it, the same op has one."""
    swish = get("swish").function
    x = torch.linspace(-3, 3, 7, requires_grad=True)
    compiled = torch.compile(swish, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(swish(x).sum(), x))


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) == 1], ids=str)
@pytest.mark.parametrize("scaled", [lambda f: lambda x: 2 * f(x), lambda f: lambda x: f(x) / 2])
def test_forward_over_reverse_over_forward_of_a_plain_sum(op: Op, scaled: Callable[..., Any]) -> None:
    """The incoming gradient is one number, expanded."""

    def third(f: Callable[..., Any]) -> Callable[..., Any]:
        def along(g: Callable[..., Any]) -> Callable[..., Any]:
            return lambda x: jvp(g, (x,), (torch.cos(x),))[1]

        return along(lambda x: grad(lambda y: along(scaled(f))(y).sum())(x))

    (x,) = op.sample((4,))
    assert_close(third(op)(x), third(op.reference)(x))
