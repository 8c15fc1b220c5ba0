"""The gallery within torch.compile's own code generator: fused with what stands beside it, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gallery
import pytest
import torch
from gallery import EACH_FUNCTION, EACH_KIND, OPS, Op, as_tuple, get, gradients
from test_paths import disagreement, scales, special_values
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor import metrics
from torch.func import jvp, vmap

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


def assert_the_same(compiled: Function, function: Function, inputs: list[Tensor]) -> None:
    """Results and gradients of both are within 1e-5 of their magnitude.

    That of a gradient is the sum over the results of what each of them adds, without signs: with two results, as
    r*cos(t) and r*sin(t), these may cancel, and then the order in which they are added shows.
    """
    found = results_and_gradients(compiled, inputs)
    expected = results_and_gradients(function, inputs)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    results = function(*leaves)
    magnitudes = [torch.zeros_like(leaf) for leaf in leaves]
    for result in results:
        if result.requires_grad:
            parts = torch.autograd.grad(result.square().sum(), leaves, retain_graph=True, materialize_grads=True)
            magnitudes = [magnitude + part.abs() for magnitude, part in zip(magnitudes, parts, strict=True)]
    scales = [*(result.detach().abs() for result in results), *magnitudes]
    for ours, right, scale in zip(found, expected, scales, strict=True):
        assert (ours is None) == (right is None)
        if ours is not None:
            excess = (ours - right).abs() - (1e-5 * scale + 1e-6)
            assert excess.max() <= 0, f"{ours} in place of {right}"


def first_together(names: Sequence[str], parts: int = 1) -> pytest.MarkDecorator:
    """Those ops at once, and all others, which are thorough, in so many parts."""
    some, others = ([op for op in OPS if (op.name in names) == is_one] for is_one in (True, False))
    rest = [pytest.param(others[k::parts], marks=pytest.mark.thorough) for k in range(parts)]
    ids = ["of each kind", *(["others"] if parts == 1 else [f"others, {k + 1} of {parts}" for k in range(parts)])]
    return pytest.mark.parametrize("ops", [some, *rest], ids=ids)


@pytest.fixture(autouse=True)
def reset() -> None:
    torch._dynamo.reset()


@first_together(EACH_FUNCTION)
def test_the_whole_gallery(ops: list[Op]) -> None:
    """One kernel for each op and its neighbours, forward, and no more than one backward.

    But for compensated ones, of which the compiler may make one more: they have very many operations.
    """
    function = with_neighbours(ops)
    inputs = [tensor for k, op in enumerate(ops) for tensor in op.sample((64 + k,), dtype=torch.float32)]
    compiled = torch.compile(function, fullgraph=True)
    metrics.reset()
    assert_the_same(compiled, function, inputs)
    compensated = sum(any("corrected(" in kernel.code for kernel in op.kernels.values()) for op in ops)
    assert len(ops) < metrics.generated_kernel_count <= 2 * len(ops) + compensated


@first_together(EACH_KIND, parts=4)
def test_all_sizes(ops: list[Op]) -> None:
    """What was generated for the first size, and then for any, forward and backward."""
    function = with_neighbours(ops)
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for k in range(5):
        inputs = [tensor for op in ops for tensor in op.sample((9 + 7 * k, 3), dtype=torch.float32)]
        assert_the_same(compiled, function, inputs)
    assert counter.frame_count <= 2


@pytest.mark.skipif(torch.__version__ < (2, 13), reason="since torch 2.13")
@first_together(EACH_KIND)
def test_transforms(ops: list[Op]) -> None:
    """torch.func within what the code generator compiles gives what it gives without."""

    def summed(op: Op) -> Callable[..., Tensor]:
        function, hyper = op.function, op.others

        def result(*given: Tensor) -> Tensor:
            return sum(y.square().sum() for y in as_tuple(function(*[2 * tensor for tensor in given], **hyper)))

        return result

    prepared = [(summed(op), tuple(op.differentiable), len(op.tensors)) for op in ops]

    def function(*inputs: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        for result, wrt, count in prepared:
            given, inputs = inputs[:count], inputs[count:]
            slopes = torch.func.grad(result, argnums=wrt)
            found += [*slopes(*given), *vmap(slopes)(*given), *jvp(result, given, given)]
        return found

    inputs = [tensor for k, op in enumerate(ops) for tensor in op.sample((16 + k,), dtype=torch.float32)]
    compiled = torch.compile(function, fullgraph=True)
    for found, expected in zip(compiled(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_an_op_and_its_neighbours_are_one_kernel() -> None:
    function = torch.compile(with_neighbours([get("swish")]), fullgraph=True)
    x = torch.linspace(-3, 3, 1000, requires_grad=True)
    metrics.reset()
    (y,) = function(x)
    assert metrics.generated_kernel_count == 1
    y.sum().backward()
    assert metrics.generated_kernel_count == 2


@pytest.mark.parametrize(
    ("dtype", "part"),
    [
        (torch.float32, slice(0, None, 2)),
        *[
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                (torch.float32, slice(1, None, 2)),
                (torch.float64, slice(0, None, 3)),
                (torch.bfloat16, slice(0, None, 3)),
            )
        ],
    ],
    ids=["float32", "float32, others", "float64", "bfloat16"],
)
def test_sound_at_special_values(dtype: torch.dtype, part: slice) -> None:
    """What the compiler fuses and reorders keeps the bar: within 8 units of the kernels, 1 in what is of 16 bits.

    But for subnormal numbers, on the way too, of which its own kernels make 0. All ops of one input in float32, and
    every third in the others, which takes the compiler long.
    """
    ops = [op for op in OPS if len(op.tensors) == 1][part]
    functions = [op.function for op in ops]

    def function(*inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(as_tuple(f(x))[0] for f, x in zip(functions, inputs, strict=True))

    inputs = [special_values(dtype).requires_grad_() for _ in ops]
    results = torch.compile(function, fullgraph=True)(*inputs)
    grads = torch.autograd.grad(results, inputs, [torch.ones_like(result) for result in results])
    wrong = []
    bar, least = 1 if dtype is torch.bfloat16 else 8, torch.finfo(dtype).tiny / torch.finfo(dtype).eps
    for op, x, value, grad in zip(ops, inputs, results, grads, strict=True):
        fused = gradients(op, [x.detach()])
        for one, other, scale in zip((value.detach(), grad), fused, scales(op, [x.detach()]), strict=True):
            apart = disagreement(one, other, scale)
            apart[((x != 0) & (x.abs() < least)) | ((scale != 0) & (scale < least))] = 0
            k = int(apart.argmax())
            if apart[k] > bar:
                wrong.append(f"{op}: {apart[k]:.3g} at {x[k].item()}: {one[k]}, {other[k]}")
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["expm1", "atanh", "erf"])
def test_functions_that_the_compiler_has_no_digits_of(name: str, dtype: torch.dtype) -> None:
    """It makes exp(x) - 1 of torch.expm1; of another torch this may no longer be so, and rt's own not be needed."""
    sizes = torch.logspace(-30, -0.01, 4000, dtype=torch.float64)
    x = torch.cat([-sizes, sizes]).to(dtype)
    exact = getattr(torch, name)(x.double())
    found = torch.compile(getattr(gallery.runtime(), name), fullgraph=True)(x)
    error = ((found.double() - exact) / exact).abs().max().item()
    assert error <= 4 * torch.finfo(dtype).eps
    without = torch.compile(getattr(torch, name), fullgraph=True)(x)
    lost = ((without.double() - exact) / exact).abs().max().item()
    assert lost > 4 * torch.finfo(dtype).eps or (name, dtype) == ("erf", torch.float64)
