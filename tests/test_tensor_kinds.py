"""The gallery on tensors of every kind, beside the same in PyTorch's own operations."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gallery
import pytest
import torch
from gallery import OPS, Op, as_tuple, get, gradients, total
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset

rt = gallery.runtime()

every = pytest.mark.parametrize("op", OPS, ids=str)


def significant(tensor: Tensor) -> list[int]:
    """The strides that say where an element is."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def gaps(tensor: Tensor) -> Tensor:
    """The same numbers with others between them."""
    wide = torch.full((*tensor.shape, 2), 9.0, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def offset(tensor: Tensor) -> Tensor:
    """The same numbers, not at the start of their storage."""
    return torch.cat([torch.zeros(3, dtype=tensor.dtype), tensor.flatten()])[3:].view(tensor.shape)


def negative(tensor: Tensor) -> Tensor:
    """The same numbers as a view that says that they are negated in memory."""
    view = torch._neg_view(-tensor)
    assert view.is_neg()
    return view


def of_conjugates(tensor: Tensor) -> Tensor:
    """The same numbers as the imaginary parts of a conjugate view."""
    view = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert view.is_neg()
    return view


# Shape, and what is made of numbers of that shape.
KINDS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "in order": ((3, 4), lambda x: x),
    "channels last": ((2, 3, 4, 5), lambda x: x.contiguous(memory_format=torch.channels_last)),
    "channels last in 3d": ((2, 3, 2, 4, 5), lambda x: x.contiguous(memory_format=torch.channels_last_3d)),
    "permuted": ((2, 3, 4), lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0)),
    "with gaps": ((3, 4), gaps),
    "with gaps, transposed": ((3, 4), lambda x: gaps(x.t()).t()),
    "expanded": ((3, 4), lambda x: x[:1].expand(3, 4)),
    "overlapping": ((12,), lambda x: x.as_strided((4, 5), (2, 1))),
    "offset": ((3, 5), offset),
    "negative": ((3, 4), negative),
    "of conjugates": ((3, 4), of_conjugates),
    "empty": ((3, 0, 2), lambda x: x),
    "0-d": ((), lambda x: x),
    "one element": ((1, 1, 1), lambda x: x),
}


def composite(inputs: list[Tensor]) -> Tensor:
    """A function of torch's own operations, which lies as they do."""
    return torch.sigmoid(functools.reduce(torch.add, inputs))


@pytest.mark.usefixtures("way")
@every
@pytest.mark.parametrize("dtype", gallery.DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_of_every_kind(op: Op, dtype: torch.dtype, kind: str) -> None:
    """What the same numbers give that lie in order, in a result that lies as torch's own does."""
    if kind == "of conjugates" and dtype is torch.bfloat16:
        pytest.skip("no complex type has parts of bfloat16")
    shape, made = KINDS[kind]
    inputs = [made(x) for x in op.sample(shape, dtype=dtype)]
    plain = [x.clone(memory_format=torch.contiguous_format) for x in inputs]
    found = [[x.detach().requires_grad_(k in op.differentiable) for k, x in enumerate(xs)] for xs in (inputs, plain)]
    results = [as_tuple(op(*leaves)) for leaves in found]
    for one, other in zip(*results, strict=True):
        assert one.dtype is dtype
        assert torch.equal(one, other)
        assert significant(one) == significant(composite(inputs))
    grads = [
        torch.autograd.grad(total(own), [leaves[k] for k in op.differentiable])
        for own, leaves in zip(results, found, strict=True)
    ]
    for one, other in zip(*grads, strict=True):
        assert torch.equal(one, other)
    leaves = [x.detach().requires_grad_() for x in inputs]
    for ours, theirs in zip(grads[0], torch.autograd.grad(total(composite(leaves)), leaves), strict=False):
        assert significant(ours) == significant(theirs)


class Tagged(Tensor):
    """A subclass by `__torch_function__`, that of Tensor."""


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
def test_results_and_gradients_of_mixed_layouts_lie_alike_on_every_path(op: Op) -> None:
    formats = itertools.cycle((torch.contiguous_format, torch.channels_last))
    inputs = [
        tensor.contiguous(memory_format=form) for tensor, form in zip(op.sample((2, 3, 4, 5)), formats, strict=False)
    ]
    meta = [tensor.to("meta") for tensor in inputs]
    kernel, without = gradients(op, inputs), gradients(op, meta)
    with rt.force_path("torch"):
        torch_path = gradients(op, inputs)
    for ours, *others in zip(kernel, without, torch_path, strict=True):
        assert [other.stride() for other in others] == [ours.stride()] * 2


@pytest.mark.usefixtures("way")
@every
def test_a_subclass_of_the_function_protocol(op: Op) -> None:
    inputs = op.sample((4,))
    tagged = [x.as_subclass(Tagged).requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
    for found, expected in zip(as_tuple(op(*tagged)), as_tuple(op(*inputs)), strict=True):
        assert type(found) is Tagged
        torch.testing.assert_close(found.detach().as_subclass(Tensor), expected, rtol=1e-13, atol=1e-15)
    grads = torch.autograd.grad(total(op(*tagged)), [tagged[k] for k in op.differentiable])
    plain = [x.requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
    expected = torch.autograd.grad(total(op(*plain)), [plain[k] for k in op.differentiable])
    for found, right in zip(grads, expected, strict=True):
        torch.testing.assert_close(found.as_subclass(Tensor), right, rtol=1e-12, atol=1e-14)


class Noting(Tensor):
    """A subclass whose `__torch_function__` notes what is called, as loggers and units do."""

    called: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.called.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})


@every
def test_a_subclass_sees_the_operations(op: Op) -> None:
    inputs = op.sample((4,))
    noting = [x.as_subclass(Noting).requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
    Noting.called.clear()
    results = as_tuple(op(*noting))
    assert [function for function in Noting.called if "get" not in function.__name__]
    for found, expected in zip(results, as_tuple(op(*inputs)), strict=True):
        assert type(found) is Noting
        torch.testing.assert_close(found.detach().as_subclass(Tensor), expected, rtol=1e-13, atol=1e-15)


@every
def test_a_subclass_of_the_dispatch_protocol(op: Op) -> None:
    """Two tensors in one: an operation is done to both."""
    pairs = [op.sample((4,)), op.sample((4,), seed=1)]
    twos = [TwoTensor(a, b).requires_grad_(k in op.differentiable) for k, (a, b) in enumerate(zip(*pairs, strict=True))]
    results = as_tuple(op(*twos))
    grads = torch.autograd.grad(sum(r.sum() for r in results), [twos[k] for k in op.differentiable])
    for side, inputs in zip(("a", "b"), pairs, strict=True):
        leaves = [x.requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
        own = as_tuple(op(*leaves))
        expected = torch.autograd.grad(sum(r.sum() for r in own), [leaves[k] for k in op.differentiable])
        for found, right in zip((*results, *grads), (*own, *expected), strict=True):
            assert type(found) is TwoTensor
            torch.testing.assert_close(getattr(found, side).detach(), right.detach(), rtol=1e-12, atol=1e-14)


@every
def test_meta_tensors(op: Op) -> None:
    for kind in ("in order", "channels last", "with gaps, transposed", "empty", "0-d"):
        shape, made = KINDS[kind]
        inputs = [made(x) for x in op.sample(shape)]
        found = as_tuple(op(*[torch.empty_strided(x.shape, x.stride(), device="meta") for x in inputs]))
        for one, other in zip(found, as_tuple(op(*inputs)), strict=True):
            assert one.is_meta
            assert (one.shape, significant(one)) == (other.shape, significant(other))


class Looking(TorchDispatchMode):
    """Sees every operation, as counters of operations and of memory do."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


def added(results: Sequence[Tensor]) -> Tensor:
    """A loss whose gradients are one number each, repeated."""
    return sum(result.sum() for result in results)  # type: ignore[return-value]


@every
@pytest.mark.parametrize(
    "loss", [added, pytest.param(total, marks=pytest.mark.slow)], ids=["repeated gradients", "gradients in order"]
)
@pytest.mark.parametrize("kind", ["channels last", "with gaps, transposed", "overlapping"])
def test_gradients_lie_alike_whoever_looks(op: Op, kind: str, loss: Callable[..., Tensor]) -> None:
    """Those of fake tensors, of subclasses and under a mode as those of the kernels do."""

    def strides(inputs: Sequence[Tensor]) -> list[list[int]]:
        leaves = [x.detach().requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
        results = as_tuple(op(*leaves))
        grads = torch.autograd.grad(loss(results), [leaves[k] for k in op.differentiable])
        return [significant(tensor) for tensor in (*results, *grads)]

    shape, made = KINDS[kind]
    inputs = [made(x) for x in op.sample(shape)]
    expected = strides(inputs)
    assert strides([x.as_subclass(Tagged) for x in inputs]) == expected
    assert strides([TwoTensor(x, x.detach()) for x in inputs]) == expected
    assert strides([torch.empty_strided(x.shape, x.stride(), device="meta") for x in inputs]) == expected
    with Looking():
        assert strides(inputs) == expected
    with FakeTensorMode() as mode:
        assert strides([mode.from_tensor(x) for x in inputs]) == expected


def turned(tensor: Tensor) -> Tensor:
    """The same numbers, neighbours in memory of which are one below the other."""
    return tensor.mT.contiguous().mT


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
@pytest.mark.parametrize("dtype", gallery.DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(40, 31), (37, 600), (1, 1024, 33), (2, 2, 33, 700), (350, 520)], ids=str)
def test_rows_of_one_operand_and_columns_of_another(op: Op, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Which are gathered by tiles, but in the first shape, and on several threads where there are many elements."""
    layouts = itertools.cycle((torch.clone, turned, lambda x: x[..., :1].expand(shape), gaps, turned))
    inputs = [made(x) for x, made in zip(op.sample(shape, dtype=dtype), layouts, strict=False)]
    plain = [x.clone(memory_format=torch.contiguous_format) for x in inputs]
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        pairs = [[*zip(*map(as_tuple, (op(*xs), op(*plain))), strict=True)] for xs in (inputs, [*map(turned, inputs)])]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in itertools.chain(*pairs))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
def test_tensors_without_elements_lie_as_torch_has_it(op: Op) -> None:
    whole = torch.zeros(3, 0, 2, 4, dtype=torch.float64)
    others = (
        whole,
        whole.contiguous(memory_format=torch.channels_last),
        whole.new_zeros(4, 2, 0, 3).permute(3, 2, 1, 0),
        whole.new_zeros(6, 3, 2, 8)[::2, :0, :, ::2],
        whole.new_zeros(3, 1, 2, 1)[:, :0].expand(3, 0, 2, 4),
        whole.new_zeros(2, 1),
        whole.new_zeros(()),
    )
    for first, second in itertools.product(others[:5], others):
        inputs = [first, second, *[first] * (len(op.tensors) - 2)]
        expected = composite(inputs).stride()
        found = gradients(op, inputs)
        assert {result.stride() for result in found[: op.outputs]} == {expected}
        with FakeTensorMode() as mode:
            fake = gradients(op, [mode.from_tensor(x) for x in inputs])
        assert [tensor.stride() for tensor in fake] == [tensor.stride() for tensor in found]


@every
@pytest.mark.parametrize("kind", ["channels last", "permuted", "with gaps, transposed"])
def test_tangents_lie_as_the_inputs_do(op: Op, kind: str) -> None:
    shape, made = KINDS[kind]
    inputs = [made(x) for x in op.sample(shape)]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, x.clone()) if k in op.differentiable else x for k, x in enumerate(inputs)]
        for primal, tangent in map(forward_ad.unpack_dual, as_tuple(op(*duals))):
            assert (tangent is None) == (not op.differentiable)
            for tensor in (primal, primal if tangent is None else tangent):
                assert significant(tensor) == significant(composite(inputs))


@every
def test_fake_tensors(op: Op) -> None:
    """Nothing is computed, and results lie as those of the kernels do."""
    for kind in ("in order", "channels last", "with gaps, transposed", "expanded", "empty", "0-d"):
        shape, made = KINDS[kind]
        inputs = [made(x) for x in op.sample(shape)]
        with FakeTensorMode() as mode, rt.record_paths() as record:
            found = gradients(op, [mode.from_tensor(x) for x in inputs])
        assert {path for _, path in record} <= {"torch"}
        for one, other in zip(found, gradients(op, inputs), strict=True):
            assert isinstance(one, FakeTensor)
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert significant(one) == significant(other)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1 and op.differentiable], ids=str)
@pytest.mark.parametrize("kind", ["channels last", "channels last in 3d", "permuted"])
def test_gradients_of_a_sum_lie_as_the_inputs_do(op: Op, kind: str) -> None:
    """The gradients that come in are one number each, repeated; two of them do not bring all into order."""
    shape, made = KINDS[kind]
    inputs = [made(x) for x in op.sample(shape)]
    for path in ("cpu", "torch"):
        with rt.force_path("torch") if path == "torch" else rt.record_paths():
            assert {x.stride() for x in gradients(op, inputs)} == {inputs[0].stride()}


@every
def test_quantised_tensors_are_refused(op: Op) -> None:
    for k in range(len(op.tensors)):
        inputs = op.sample((4,), dtype=torch.float32)
        inputs[k] = torch.quantize_per_tensor(inputs[k], 0.1, 0, torch.qint8)
        name = op.tensors[k]
        with pytest.raises(NotImplementedError, match=rf"argument '{name}'.*convert it with {name}.dequantize\(\)"):
            op(*inputs)


@pytest.mark.usefixtures("way")
@every
def test_sparse_gradients(op: Op) -> None:
    """Those that an embedding of the results gives, and that are given of the gradients."""

    def derivatives(sparse: bool) -> list[Tensor]:
        leaves = op.sample((5, 2), grad=True)
        wrt = [leaves[k] for k in op.differentiable]
        rows = torch.tensor([3, 0, 3])
        taken = sum(torch.nn.functional.embedding(rows, out, sparse=sparse).sum() for out in as_tuple(op(*leaves)))
        first = torch.autograd.grad(total(op(*leaves)), wrt, create_graph=True)
        weights = [torch.eye(5, 2, dtype=torch.float64) for _ in first]
        given = [weight.to_sparse() if sparse else weight for weight in weights]
        return [*torch.autograd.grad(taken, wrt), *torch.autograd.grad(first, wrt, given)]

    for found, expected in zip(derivatives(sparse=True), derivatives(sparse=False), strict=True):
        assert torch.equal(found, expected)


MANY = 2**31 + 9


def slopes_of_many(op: Op, inputs: list[Tensor], wanted: int | None) -> Tensor:
    """The gradient of the first result by one input, or the result itself."""
    leaves = [x.detach().requires_grad_(k == wanted) for k, x in enumerate(inputs)]
    result = as_tuple(op(*leaves))[0]
    if wanted is None:
        return result
    (slope,) = torch.autograd.grad(result, leaves[wanted], torch.ones((), dtype=result.dtype).expand_as(result))
    return slope


@pytest.mark.slow
@pytest.mark.xdist_group("memory")  # 9 GB
@pytest.mark.parametrize("op", gallery.first(["swish"]), ids=str)
def test_more_than_2_to_the_31_elements(op: Op) -> None:
    one = op.sample((1,), dtype=torch.float16)
    many = [x.expand(MANY) for x in one]
    for wanted in (None, *op.differentiable):
        expected, found = (slopes_of_many(op, inputs, wanted) for inputs in (one, many))
        assert len(found) == MANY
        for part in (found[:9], found[2**30 : 2**30 + 9], found[-9:]):
            assert part.tolist() == expected.tolist() * 9
        del found, part  # before there are as many again


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.xdist_group("memory")
@pytest.mark.parametrize("shape", [(1,), (12345,)], ids=["of all", "of each column"])
def test_sums_of_more_than_2_to_the_31_gradients(shape: tuple[int, ...]) -> None:
    rows = MANY // 12345 + 1
    x, z = torch.full((1, 1), 0.75, dtype=torch.bfloat16).expand(rows, 12345), torch.tensor(2.0**-9).bfloat16()
    slope = slopes_of_many(get("sum_product"), [x, torch.ones(shape, dtype=torch.bfloat16), z], 1)
    count = rows * 12345 // slope.numel()
    assert slope.tolist() == [torch.tensor(count * 2.0**-9).bfloat16().item()] * slope.numel()


class Results(Dataset[list[Tensor]]):
    """What a worker of a DataLoader computes: results and gradients of each op."""

    def __len__(self) -> int:
        return len(OPS)

    def __getitem__(self, k: int) -> list[Tensor]:
        inputs = OPS[k].sample((5000,), dtype=torch.float32)
        return list(gradients(OPS[k], inputs))


@pytest.mark.parametrize("start", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
@pytest.mark.usefixtures("way")
def test_workers_of_a_data_loader(start: str) -> None:
    data = Results()
    expected = [data[k] for k in range(len(data))]  # torch's threads run here before the workers are forked
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": start, "batch_size": None}
    for found, right in zip(DataLoader(data, **options), expected, strict=True):
        assert len(found) == len(right)
        assert all(map(torch.equal, found, right))
