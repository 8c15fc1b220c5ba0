"""The gallery within PyTorch on a CUDA device: the compiler, transforms, autocast, graphs, streams, threads, FSDP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gallery
import pytest
import torch
from devices import gpu
from gallery import OPS, Op, as_tuple, get, gradients, total
from test_cuda import moved
from torch import Tensor, nn
from torch.func import grad, hessian, jvp, vmap

rt = gallery.runtime()

every = pytest.mark.parametrize("op", OPS, ids=str)
smooth = pytest.mark.parametrize("op", [op for op in OPS if op.smooth], ids=str)


def sample(op: Op, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> list[Tensor]:
    return moved(op.sample(shape, dtype=dtype, grad=grad))


@gpu
@every
def test_compiled_forward_and_backward(op: Op) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(op.function, fullgraph=True)
    for size in (7, 1000):
        inputs, again = sample(op, 3, size, grad=True), sample(op, 3, size, grad=True)
        found, expected = as_tuple(compiled(*inputs)), as_tuple(op(*again))
        torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-6)
        total(found).backward()
        total(expected).backward()
        for tensor, other in zip(inputs, again, strict=True):
            torch.testing.assert_close(tensor.grad, other.grad, rtol=2e-5, atol=1e-6)


@gpu
def test_compiled_for_cuda_graphs() -> None:
    torch._dynamo.reset()
    swish = get("swish")
    compiled = torch.compile(swish.function, fullgraph=True, mode="reduce-overhead")
    for k in range(4):
        x = torch.randn(1000, device="cuda", generator=torch.Generator("cuda").manual_seed(k)).requires_grad_()
        y = compiled(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        value, expected = gradients(swish, [x.detach()])
        torch.testing.assert_close((y.detach(), slope), (value, expected), rtol=2e-6, atol=1e-6)


@gpu
@smooth
def test_transforms(op: Op) -> None:
    """As on the CPU, where they are held against the formula."""
    inputs = op.sample((5,))
    tangents = [torch.full_like(x, 0.5) for x in inputs]
    wrt = tuple(op.differentiable)

    def function(*tensors: Tensor) -> Tensor:
        return total(op(*tensors))

    def results(device: str) -> list[Any]:
        here, along = moved(inputs, device), moved(tangents, device)
        return [
            jvp(op.function, tuple(here), tuple(along)),
            vmap(op.function)(*here),
            vmap(grad(function, argnums=wrt))(*here),
            hessian(function, argnums=wrt)(*here),
            vmap(grad(lambda *t: sum(g.sum() for g in grad(function, argnums=wrt)(*t)), argnums=wrt))(*here),
        ]

    for found, expected in zip(results("cuda"), results("cpu"), strict=True):
        flat, others = torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected)
        for one, other in zip(flat, others, strict=True):
            assert one.is_cuda
            torch.testing.assert_close(one.cpu(), other, rtol=1e-12, atol=1e-12)


@gpu
@smooth
def test_third_derivatives(op: Op) -> None:
    def third(device: str) -> list[Tensor]:
        inputs = moved(op.sample((6,), grad=True), device)
        wanted = [inputs[k] for k in op.differentiable]
        slopes = as_tuple(op(*inputs))
        for _ in range(3):
            slopes = torch.autograd.grad(total(slopes), wanted, create_graph=True, materialize_grads=True)
        return [slope.detach().cpu() for slope in slopes]

    torch.testing.assert_close(third("cuda"), third("cpu"), rtol=1e-11, atol=1e-11)


@gpu
@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_and_checkpointing(op: Op, dtype: torch.dtype) -> None:
    """A layer, the op and a layer, with the types that PyTorch gives them, the op computed again in the backward."""
    torch.manual_seed(0)
    before, after = nn.Linear(8, 8, device="cuda"), nn.Linear(8, 1, device="cuda")
    x = torch.randn(4, 8, device="cuda")
    types = []

    def through(x: Tensor) -> Tensor:
        hidden = before(x)
        inputs = [hidden * (k + 1) for k in range(len(op.tensors))]
        results = as_tuple(op(*inputs))
        types.extend(result.dtype for result in results)
        return sum(results)

    found = []
    for is_again in (False, True):
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
        optimizer = torch.optim.SGD([*before.parameters(), *after.parameters()], lr=0.0)
        with torch.autocast("cuda", dtype=dtype):
            hidden = torch.utils.checkpoint.checkpoint(through, x, use_reentrant=False) if is_again else through(x)
            loss = after(hidden).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        found.append([loss.detach(), *[p.grad.clone() for p in before.parameters()]])
        optimizer.zero_grad()
    assert {*types} == {dtype}
    torch.testing.assert_close(found[0], found[1])


LAYOUTS: dict[str, Callable[[int, Tensor], Tensor]] = {
    "contiguous": lambda k, x: x,
    "a row": lambda k, x: x[0] if k else x,
    "a column": lambda k, x: x[:, :1].contiguous() if k else x,
    "gaps": lambda k, x: torch.cat([x, x], 1)[:, ::2],
    "transposed": lambda k, x: x.t().contiguous().t() if k % 2 else x,
    "a row, repeated": lambda k, x: x[:1].expand(6, 8),
}


@gpu
@every
@pytest.mark.parametrize("layout", LAYOUTS)
def test_calls_by_cpp_give_what_those_by_python_gave(op: Op, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call is one by Python, of which C++ learns how the kernels are launched."""
    inputs = [LAYOUTS[layout](k, x).detach() for k, x in enumerate(sample(op, 6, 8))]
    asked = [inputs[k].requires_grad_() for k in op.differentiable]

    def found() -> list[Tensor]:
        results = as_tuple(op(*inputs))
        grads = [torch.linspace(0.5, 1.5, 48, device="cuda").view(6, 8) for _ in results]
        return [*results, *(torch.autograd.grad(results, asked, grads) if asked else ())]

    monkeypatch.setattr(rt, "_native", None)
    expected = found()
    rt._use_native(rt.compile_native())
    found()  # gradients by Python, if a kernel for them is still to be learned

    def refuse(*_: Any) -> None:
        raise AssertionError("left to Python")

    monkeypatch.setattr(rt.Kernel, "__call__", refuse)
    monkeypatch.setattr(rt._Backward, "__call__", refuse)
    for one, other in zip(found(), expected, strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()


@gpu
@pytest.mark.parametrize("name", ["mish", "sum_product"])
def test_a_training_step_in_a_captured_graph(name: str) -> None:
    """With a weight that torch multiplies by, and with one of which the kernel itself sums the gradient."""
    op = get(name)
    x = torch.linspace(-3, 3, 4096, device="cuda")
    weight = torch.full((), 0.5, device="cuda", requires_grad=True)

    def loss() -> Tensor:
        return (op(x, weight, x) if len(op.tensors) == 3 else op(weight * x)).square().sum()

    def step() -> None:
        weight.grad = None
        loss().backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    weight.grad = None
    with torch.cuda.graph(graph):
        loss().backward()
    with torch.no_grad():
        weight.fill_(1.5)
    graph.replay()
    found = weight.grad.clone()
    step()
    torch.testing.assert_close(found, weight.grad)


@gpu
@every
def test_the_dispatcher_launches_what_the_general_way_does(op: Op) -> None:
    kernel, scalars = op.kernels["forward"], tuple(default for default, _ in op.hyper.values())
    scalars = scalars[: len(kernel.scalars)]
    for dtype in gallery.DTYPES:
        for shape in [(), (5,), (3, 700), (3000, 1000)]:
            inputs = sample(op, *shape, dtype=dtype)
            with rt.record_paths() as record:  # for which the dispatcher is left out
                expected = as_tuple(op(*inputs))
            assert record == [(op.name, "cuda")]
            found = kernel.quick(tuple(inputs), scalars)
            assert found is not None
            for one, other in zip(found, expected, strict=True):
                assert torch.equal(one, other)
    odd = [x[1:] for x in sample(op, 6)]
    assert kernel.quick(tuple(odd), scalars) is None  # not aligned
    torch.testing.assert_close(as_tuple(op(*odd)), as_tuple(op(*[x.clone() for x in odd])))
    with torch.no_grad():
        asks = [x.requires_grad_() for x in sample(op, 4)]
        assert kernel.quick(tuple(asks), scalars) is not None
    if op.differentiable:
        assert kernel.quick(tuple(asks), scalars) is None


@gpu
@pytest.mark.parametrize(
    "shapes", [((64, 96), (96,), ()), ((4, 8, 33), (8, 1), (4, 8, 33)), ((7,), (1,), (7,))], ids=str
)
def test_the_dispatcher_launches_for_shapes_that_it_has_seen(shapes: tuple[tuple[int, ...], ...]) -> None:
    op = get("sum_product")
    for dtype in gallery.DTYPES:
        for seed in range(2):
            inputs = moved(op.sample(*shapes, dtype=dtype, seed=seed))
            with rt.record_paths() as record:  # for which the dispatcher is left out
                expected = op(*inputs)
            assert record == [("sum_product", "cuda")]
            (found,) = op.kernels["forward"].quick(tuple(inputs))
            assert torch.equal(found, expected)


@gpu
def test_the_dispatcher_runs_on_the_current_stream() -> None:
    swish = get("swish")
    x = torch.zeros(1 << 20, device="cuda")
    swish(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # on another stream, the kernel would read x before it is filled
        x.fill_(2.0)
        y = swish(x)
    stream.synchronize()
    assert torch.equal(y, swish(torch.full_like(x, 2.0)))


@gpu
def test_many_threads_each_with_a_stream() -> None:
    gelu, faults = get("gelu"), []

    def work(seed: int) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            for k in range(50):
                x = torch.randn(100 + 37 * k, device="cuda", generator=generator, requires_grad=True)
                y = gelu(x)
                (slope,) = torch.autograd.grad(y.sum(), x)
                value, expected = gradients(gelu, [x.detach().double()])
                close = torch.allclose(y.double(), value, rtol=1e-6, atol=1e-6)
                if not (close and torch.allclose(slope.double(), expected, rtol=1e-6, atol=1e-6)):
                    faults.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shapes", [((4096, 512), (512,)), ((64, 32, 28, 28), (32, 1, 1)), ((100_003,), ())], ids=str)
def test_sums_of_broadcast_gradients_are_those_of_float64_each_time(
    dtype: torch.dtype, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    op = get("sum_product")
    whole, own = shapes
    torch.manual_seed(0)
    values = [torch.randn(shape, device="cuda").to(dtype) for shape in (whole, own, own)]

    def slopes(convert: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        inputs = [convert(value).requires_grad_() for value in values]
        return torch.autograd.grad(op(*inputs).sum(), inputs)

    first, second, exact = slopes(torch.clone), slopes(torch.clone), slopes(Tensor.double)
    for one, other, right in zip(first, second, exact, strict=True):
        assert torch.equal(one, other)
        size = values[0].double().abs().sum() if one.numel() == 1 else right.abs().max()
        assert (one.double() - right).abs().max() <= torch.finfo(dtype).eps * size


@gpu
@pytest.mark.parametrize("name", ["relu_", "exp_"])
def test_in_place(name: str) -> None:
    op = get(name.rstrip("_"))
    in_place = getattr(op.code, name)
    for dtype in gallery.DTYPES:
        (x,) = sample(op, 333, dtype=dtype)
        expected, y = op(x), x.clone()
        assert in_place(y) is y
        assert torch.equal(y, expected)
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(in_place(leaf.clone()).sum(), leaf)
        assert torch.equal(slope, gradients(op, [x])[1])


@gpu
@every
def test_memory_formats(op: Op) -> None:
    for shape, look in (
        ((2, 3, 4, 5), lambda t: t.contiguous(memory_format=torch.channels_last)),
        ((2, 3, 4, 5), lambda t: t.permute(3, 0, 2, 1)),
        ((6, 8), lambda t: t[:, ::2]),
    ):
        inputs = [look(x) for x in sample(op, *shape)]
        on_cpu = [look(x) for x in op.sample(shape, dtype=torch.float32)]
        for found, expected in zip(as_tuple(op(*inputs)), as_tuple(op(*on_cpu)), strict=True):
            assert found.stride() == expected.stride()
            torch.testing.assert_close(found.cpu(), expected, rtol=2e-6, atol=1e-6)


@gpu
def test_fully_sharded(tmp_path: Path) -> None:
    """On one device: what is tested is that ops work between the layers that FSDP2 takes apart."""
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    init_process_group("nccl", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        layers = [nn.Linear(16, 16), get("mish").module_class(), nn.Linear(16, 4), get("gelu").module_class()]
        plain = nn.Sequential(*layers).cuda()
        torch.manual_seed(0)
        again = [nn.Linear(16, 16), get("mish").module_class(), nn.Linear(16, 4), get("gelu").module_class()]
        sharded = nn.Sequential(*again).cuda()
        fully_shard(sharded, mesh=init_device_mesh("cuda", (1,)))
        x = torch.randn(8, 16, device="cuda")
        losses = []
        for model in (plain, sharded):
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            for _ in range(3):
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[0], losses[1])
    finally:
        destroy_process_group()
