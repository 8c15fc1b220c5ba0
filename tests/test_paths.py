"""Which of the three paths computes the gallery, and that they give the same, for ordinary and for special values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import gallery
import pytest
import torch
from gallery import DTYPES, OPS, Op, as_tuple, gradients, total
from torch import Tensor

rt = gallery.runtime()

every = pytest.mark.parametrize("op", OPS, ids=str)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


# ---------------------------------------------------------------------------------------------------------------------
# The path that is taken
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.few(every_day=12, slow=60)
@every
@all_dtypes
def test_plain_tensors_take_one_cpu_kernel_each_way(op: Op, dtype: torch.dtype) -> None:
    inputs = op.sample((4,), dtype=dtype, grad=True)
    wanted = [inputs[k] for k in op.differentiable]
    with rt.record_paths() as record:
        results = as_tuple(op(*inputs))
        assert record == [(op.name, "cpu")]
        record.clear()
        torch.autograd.grad(total(results), wanted, retain_graph=True)
        assert record == [(f"{op.name}_backward", "cpu")]
        record.clear()
        seeds = [torch.ones_like(result, requires_grad=True) for result in results]
        grads = torch.autograd.grad(results, wanted, seeds, create_graph=True)
        assert record == [(f"{op.name}_backward", "cpu")]
        record.clear()
        torch.autograd.grad(total(grads), seeds)
        assert record == [(f"{op.name}_double_backward", "cpu")]


@every
def test_the_torch_path_can_be_forced(op: Op) -> None:
    inputs = op.sample((4,), grad=True)
    wanted = [inputs[k] for k in op.differentiable]
    with rt.force_path("torch"), rt.record_paths() as record:
        results = as_tuple(op(*inputs))
        seeds = [torch.ones_like(result, requires_grad=True) for result in results]
        grads = torch.autograd.grad(results, wanted, seeds, create_graph=True)
        torch.autograd.grad(total(grads), seeds)
    names = [op.name, f"{op.name}_backward", f"{op.name}_double_backward"]
    assert record == [(name, "torch") for name in names]


@every
def test_strides_and_broadcasting_stay_on_the_cpu_path(op: Op) -> None:
    inputs = [
        op.sample((6, 8))[k].t()[1::2] if k % 2 == 0 else op.sample((1, 6))[k].expand(4, 6)
        for k in range(len(op.tensors))
    ]
    for k in op.differentiable:
        inputs[k].requires_grad_()
    with rt.record_paths() as record:
        results = as_tuple(op(*inputs))
        total(results).backward()
    assert record == [(op.name, "cpu"), (f"{op.name}_backward", "cpu")]
    contiguous = [tensor.detach().contiguous() for tensor in inputs]
    for result, plain in zip(results, as_tuple(op(*contiguous)), strict=True):
        assert torch.equal(result, plain)


@every
def test_every_order_of_derivatives_has_a_kernel(op: Op) -> None:
    assert set(op.kernels) == {"forward", "backward", "double_backward"}


# ---------------------------------------------------------------------------------------------------------------------
# The same on both paths
# ---------------------------------------------------------------------------------------------------------------------

PRECISION = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}


def special_values(dtype: torch.dtype) -> Tensor:
    """Of both signs: zero, subnormals, the ends of the range, where exponentials vanish, infinity; and NaN."""
    info = torch.finfo(dtype)
    tiny, largest = info.tiny, info.max
    small = [0.0, info.smallest_normal * info.eps, tiny / 2, tiny * (1 - info.eps), tiny, math.sqrt(tiny)]
    ordinary = [info.eps, 1e-3, 0.125, 0.5, 1.0, 1 + info.eps, 1.5, 2.0, 5.0, 9.0, 10.0, 13.5, 17.0, 20.0, 38.0, 50.0]
    large = [87.0, 88.5, 89.0, 100.0, 104.0, 150.0, 709.0, 710.0, 746.0, 1e3, 1e4, 3e4, math.sqrt(largest)]
    ends = [largest / 4, largest, math.inf]
    positive = torch.tensor([*small, *ordinary, *large, *ends], dtype=torch.float64).to(dtype)
    return torch.cat([positive, -positive, torch.tensor([math.nan], dtype=dtype)])


def random_values(count: int, dtype: torch.dtype, seed: int) -> Tensor:
    """One half as weights are, one half of any magnitude."""
    generator = torch.Generator().manual_seed(seed)
    info = torch.finfo(dtype)
    ordinary = 3 * torch.randn(count // 2, dtype=torch.float64, generator=generator)
    low, high = math.log2(info.tiny) - 4, math.log2(info.max)
    exponents = torch.rand(count - count // 2, dtype=torch.float64, generator=generator) * (high - low) + low
    signs = torch.randint(0, 2, exponents.shape, generator=generator) * 2 - 1
    values = torch.cat([ordinary, signs * torch.exp2(exponents)])
    return values[torch.randperm(count, generator=generator)].to(dtype)


def demanding_inputs(op: Op, dtype: torch.dtype) -> list[Tensor]:
    """Special values in all combinations (of more than two tensors, many of them), and random ones."""
    special = special_values(dtype)
    arity = len(op.tensors)
    if arity <= 2:
        columns = [torch.stack(column) for column in zip(*itertools.product(special, repeat=arity), strict=True)]
    else:
        generator = torch.Generator().manual_seed(1)
        columns = [special[torch.randint(0, len(special), (4000,), generator=generator)] for _ in range(arity)]
    drawn = [torch.cat([column, random_values(3000, dtype, seed)]) for seed, column in enumerate(columns)]
    if op.name == "staged":  # the divisor sigmoid(x) + (x + y)**2 is exactly 0 here, and what each path finds is chance
        is_zero = (drawn[0] == -drawn[1]) & (torch.sigmoid(drawn[0].float()) == 0)
        drawn = [x[~is_zero] for x in drawn]
    bounds = [op.bounds.get(name) for name in op.tensors]
    return [x if bound is None else x.clamp(*bound) for x, bound in zip(drawn, bounds, strict=True)]


def spacing(magnitude: Tensor, dtype: torch.dtype) -> Tensor:
    """The unit in the last place of numbers of that magnitude, in `dtype`."""
    info = torch.finfo(dtype)
    _, exponents = torch.frexp(magnitude.clamp(min=info.tiny, max=info.max))
    return torch.exp2((exponents - PRECISION[dtype]).double())


def scales(op: Op, inputs: Sequence[Tensor]) -> list[Tensor]:
    """For each of gradients(op, inputs), its magnitude: the largest of |value| and |x . derivative by x|."""
    leaves = [tensor.detach().double().requires_grad_() for tensor in inputs]
    with rt.force_path("torch"):
        results = as_tuple(op(*leaves))
        wanted = [leaves[k] for k in op.differentiable]
        firsts = torch.autograd.grad(sum(result.sum() for result in results), wanted, create_graph=True)
        found = []
        for value in (*results, *firsts):
            magnitude = value.detach().abs()
            if value.requires_grad:
                slopes = torch.autograd.grad(value.sum(), wanted, retain_graph=True, materialize_grads=True)
                for leaf, slope in zip(wanted, slopes, strict=True):
                    shift = (leaf * slope).detach().abs()
                    # Also where the slope itself overflows, as r*(cos(t) + sin(t)) next to the largest r
                    shift[shift.isinf() & leaf.isfinite()] = torch.finfo(torch.float64).max
                    magnitude = torch.maximum(magnitude, shift.nan_to_num(0, 0, 0))
            found.append(magnitude.nan_to_num(0, 0, 0))
    return found


def disagreement(first: Tensor, second: Tensor, scale: Tensor) -> Tensor:
    """The difference in units in the last place; infinite where only one is NaN or infinite."""
    dtype = first.dtype
    first, second = first.double(), second.double()
    limit = torch.finfo(dtype).max
    rounds_to_inf = limit * (1 - 8 * torch.finfo(dtype).eps)
    near = (first.sign() == second.sign()) & (torch.minimum(first.abs(), second.abs()) >= rounds_to_inf)
    same = (first == second) | (first.isnan() & second.isnan()) | near
    difference = torch.where(same, 0.0, (first - second).abs() / spacing(scale, dtype))
    return difference.nan_to_num(math.inf, math.inf)


@every
@all_dtypes
def test_paths_agree_on_special_and_random_values(op: Op, dtype: torch.dtype) -> None:
    """Both are within the bar of 4 units of the exact value, so at most 8 apart; 1 in what is rounded from float32."""
    inputs = demanding_inputs(op, dtype)
    with rt.record_paths() as record:
        fused = gradients(op, inputs)
    assert {path for _, path in record} == {"cpu"}
    with rt.force_path("torch"):
        plain = gradients(op, inputs)
    bar = 8 if dtype in (torch.float32, torch.float64) else 1
    names = [*(f"result {k}" for k in range(op.outputs)), *(f"gradient of {op.tensors[k]}" for k in op.differentiable)]
    worst = {}
    for name, one, other, scale in zip(names, fused, plain, scales(op, inputs), strict=True):
        assert one.dtype == other.dtype == dtype
        apart = disagreement(one, other, scale)
        k = int(apart.argmax())
        if apart[k] > bar:
            worst[name] = f"{apart[k]:.3g} ulp at {[tensor[k].item() for tensor in inputs]}: {one[k]} and {other[k]}"
    assert not worst


@every
@all_dtypes
def test_paths_agree_on_second_derivatives(op: Op, dtype: torch.dtype) -> None:
    def second() -> tuple[Tensor, ...]:
        inputs = op.sample((50,), dtype=dtype, grad=True)
        wanted = [inputs[k] for k in op.differentiable]
        results = as_tuple(op(*inputs))
        seeds = [torch.linspace(-1, 1, 50, dtype=torch.float64).to(dtype).requires_grad_() for _ in results]
        grads = torch.autograd.grad(results, wanted, seeds, create_graph=True)
        return torch.autograd.grad([grad.sum() for grad in grads], [*wanted, *seeds], materialize_grads=True)

    fused = second()
    with rt.force_path("torch"):
        plain = second()
    tolerance = 32 * torch.finfo(dtype).eps
    torch.testing.assert_close(fused, plain, rtol=tolerance, atol=tolerance)


@every
def test_paths_agree_bit_by_bit_about_layouts(op: Op) -> None:
    """Where the elements lie must not matter: the torch path has no layout of its own to get wrong."""
    shape = (2, 3, 4, 5)
    inputs = op.sample(shape, dtype=torch.float32)
    inputs = [
        tensor.contiguous(memory_format=torch.channels_last)
        if k % 2 == 0
        else tensor.flip(1).transpose(2, 3).transpose(2, 3)
        for k, tensor in enumerate(inputs)
    ]
    fused = gradients(op, inputs)
    one_by_one = gradients(op, [tensor.reshape(-1).clone() for tensor in inputs])
    for found, flat in zip(fused, one_by_one, strict=True):
        assert found.shape == shape
        assert torch.equal(found.reshape(-1), flat)


@every
def test_results_share_no_memory_with_inputs(op: Op) -> None:
    for path in ("cpu", "torch"):
        with rt.force_path("torch") if path == "torch" else rt.record_paths():
            inputs = op.sample((4,), grad=True)
            for result in as_tuple(op(*inputs)):
                assert all(result.data_ptr() != tensor.data_ptr() for tensor in inputs)
