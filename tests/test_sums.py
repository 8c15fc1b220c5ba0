"""Gradients of broadcast inputs: summed by the kernel, over any layout, the same for any number of threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import gallery
import pytest
import torch
from gallery import OPS, Op, as_tuple, total
from torch import Tensor

from generated.losses import _BCE_WITH_LOGITS_BACKWARD, bce_with_logits
from generated.neuron import neuron

rt = gallery.runtime()

# The shape of x, and that of y, which is broadcast to it.
SHAPES = [
    ((300, 7), (7,)),
    ((300, 7), ()),
    ((300, 7), (300, 1)),
    ((300, 7), (1, 1)),
    ((1000, 300), (300,)),
    ((1000, 256), (256,)),
    ((4, 5, 6, 7), (5, 1, 1)),
    ((3, 5, 7, 7), (5, 1, 1)),
    ((6, 63), (6, 1)),
    ((4, 5, 6, 7), (1, 6, 1)),
    ((4, 5, 6, 7), (4, 1, 6, 1)),
    ((300000,), (1,)),
    ((8, 30000), (30000,)),
    ((64, 3), (3,)),
    ((2, 3, 50000), (3, 1)),
    ((1, 1), (1,)),
    ((0, 3), (3,)),
    ((2, 0), (2, 1)),
]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() else t,
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "expanded": lambda t: t[..., :1].expand(t.shape) if t.dim() else t,
}
TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-6, torch.float64: 1e-13}


@pytest.fixture
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def sample(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).sub_(0.3).to(dtype)


def exact(x: Tensor, y: Tensor, grad: Tensor) -> list[Tensor]:
    """The gradients of bce_with_logits."""
    x, y, grad = x.double(), y.double(), grad.double()
    return [(grad * (x.sigmoid() - y)).sum_to_size(x.shape), (-grad * x).sum_to_size(y.shape)]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_the_kernel_sums(shapes: tuple[tuple[int, ...], tuple[int, ...]], layout: str, dtype: torch.dtype) -> None:
    x, y, grad = (sample(shape, dtype, k) for k, shape in enumerate([*shapes, shapes[0]]))
    x, grad = x.clone(), LAYOUTS[layout](grad)
    for first, second, order in [(LAYOUTS[layout](x), y, 1), (y, LAYOUTS[layout](x), -1)]:
        inputs = [first.detach().requires_grad_(), second.detach().requires_grad_()]
        with rt.record_paths() as record:
            found = torch.autograd.grad(bce_with_logits(*inputs), inputs, grad)
        assert [path for _, path in record] == ["cpu", "cpu"], order
        terms = [g.abs().max().item() if g.numel() else 0 for g in exact(*inputs, grad.abs())]
        for one, own, right, size in zip(found, inputs, exact(*inputs, grad), terms, strict=True):
            assert one.shape == own.shape
            assert one.dtype is dtype
            torch.testing.assert_close(
                one.double(), right.to(dtype).double(), rtol=0, atol=TOLERANCES[dtype] * (size + 1)
            )


@pytest.mark.parametrize("wanted", [(True, False), (False, True)], ids=str)
def test_one_gradient_alone(wanted: tuple[bool, bool]) -> None:
    x, y, grad = sample((40, 9), torch.float32, 0), sample((9,), torch.float32, 1), sample((40, 9), torch.float32, 2)
    inputs = [t.requires_grad_(want) for t, want in zip((x, y), wanted, strict=True)]
    (found,) = torch.autograd.grad(bce_with_logits(*inputs), [t for t in inputs if t.requires_grad], grad)
    (right,) = itertools.compress(exact(*[t.detach() for t in inputs], grad), wanted)
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(
    "shapes", [((1 << 20,), (1,)), ((3000, 200), (200,)), ((64, 8000), (64, 1)), ((40, 9001), (9001,))], ids=str
)
def test_the_number_of_threads_changes_nothing(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y, grad = (sample(shape, torch.float64, k) for k, shape in enumerate([*shapes, shapes[0]]))
    found = []
    for threads in (1, 2, 5, 1):
        torch.set_num_threads(threads)
        found.append(_BCE_WITH_LOGITS_BACKWARD((grad, y, x), (), (True, True), (x.shape, y.shape))[1])
    assert all(torch.equal(one, found[0]) for one in found)


def test_a_default_device_is_for_the_user() -> None:
    x, y, grad = sample((40, 9), torch.float32, 0), sample((9,), torch.float32, 1), sample((40, 9), torch.float32, 2)
    expected = _BCE_WITH_LOGITS_BACKWARD((grad, y, x), (), (True, True), (x.shape, y.shape))
    with torch.device("meta"):
        found = _BCE_WITH_LOGITS_BACKWARD((grad, y, x), (), (True, True), (x.shape, y.shape))
        alone = _BCE_WITH_LOGITS_BACKWARD((grad, y.expand(40, 9).contiguous(), x))
    assert all(map(torch.equal, found, expected))
    assert all(not tensor.is_meta for tensor in alone)


def test_terms_are_not_rounded_before_they_are_added() -> None:
    x = torch.full((1 << 16,), 1.0, dtype=torch.bfloat16)
    y = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
    grad = torch.full((1 << 16,), 1.0078125, dtype=torch.bfloat16)
    grad[::2] = 1.0
    (found,) = torch.autograd.grad(bce_with_logits(x * 1.0078125, y), y, grad)
    product = [1.0078125 * 1.0078125, 1.0078125]  # the first of which is no bfloat16
    assert found.item() == torch.tensor(-sum(product) * (1 << 15)).bfloat16().item()


@pytest.mark.parametrize("far", [(), (5,), (0, 511, 512, 699)], ids=str)
def test_terms_of_elements_that_are_computed_in_float_and_in_double(far: tuple[int, ...]) -> None:
    """Of the former floats hold all digits, of the latter some terms are beyond their range here."""
    random = torch.Generator().manual_seed(0)
    shapes = [(9, 700), (700,), (9, 700), (700,)]
    w0, x0, w1, x1 = (torch.randn(shape, generator=random).bfloat16() for shape in shapes)
    grad = torch.ones(9, 700, dtype=torch.bfloat16)
    w0[:, far], x0[[*far]] = w0[:, far] * 2.0**90, 2.0**-90
    w0[1, far], w1[1, far] = w0[0, far], w1[0, far]
    grad[0, far], grad[1, far] = 2.0**40, -(2.0**40)  # beyond a float times this number, and they cancel
    inputs = [t.requires_grad_() for t in (w0, x0, w1, x1, torch.zeros((), dtype=torch.bfloat16))]
    with rt.record_paths() as record:
        found = torch.autograd.grad(neuron(*inputs), inputs, grad)
    assert [path for _, path in record] == ["cpu", "cpu"]
    wide = [t.detach().double().requires_grad_() for t in inputs]
    exact = torch.autograd.grad(torch.sigmoid(wide[0] * wide[1] + wide[2] * wide[3] + wide[4]), wide, grad.double())
    for one, right in zip(found, exact, strict=True):
        torch.testing.assert_close(one, right.bfloat16(), rtol=2.0**-6, atol=0.05)


def test_nan_and_infinity_reach_the_sum() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = torch.zeros(3, requires_grad=True)
    grad = torch.tensor([[1.0, torch.nan, torch.inf], [1.0, 1.0, 1.0]])
    (found,) = torch.autograd.grad(bce_with_logits(x, y), y, grad)
    assert found[0] == -5
    assert found[1].isnan()
    assert found[2] == -torch.inf


def test_of_more_operands_than_an_integer_has_bits() -> None:
    names = [f"x{k}" for k in range(40)]
    kernel = rt.Kernel(
        "many",
        tensors=tuple(names),
        results=tuple([f"y{k}" for k in range(40)]),
        code="\n".join([f"const real y{k} = {k + 1} * x{k};" for k in range(40)]),
        expression=lambda *_: pytest.fail("the kernel serves"),
    )
    inputs = [torch.full((5, 3), float(k)) for k in range(40)]
    shapes = [torch.Size([3]) if k % 2 else torch.Size([5, 3]) for k in range(40)]
    for k, found in enumerate(kernel(inputs, shapes=shapes)):
        assert found.tolist() == (inputs[k] * (k + 1)).sum_to_size(shapes[k]).tolist()


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
@pytest.mark.parametrize("small", [(3,), (), (4, 1)], ids=str)
def test_all_paths_and_both_orders_agree(op: Op, small: tuple[int, ...]) -> None:
    def gradients() -> list[Tensor]:
        inputs = op.sample((4, 3), small, grad=True)
        wanted = [inputs[k] for k in op.differentiable]
        results = as_tuple(op(*inputs))
        first = torch.autograd.grad(total(results), wanted, create_graph=True, allow_unused=True)
        some = tuple(g for g in first if g is not None and g.requires_grad)
        second = torch.autograd.grad(total(some), wanted, allow_unused=True) if some else ()
        for found, own in zip([*first, *second], wanted * 2, strict=False):
            assert found is None or found.shape == own.shape
        return [g.detach() for g in (*first, *second) if g is not None]

    kernels = gradients()
    with rt.force_path("torch"):
        torch.testing.assert_close(kernels, gradients(), rtol=1e-12, atol=1e-12)
