"""The CUDA kernels of the gallery: all are compiled, on any machine; marked gpu, they run beside the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gallery
import pytest
import torch
from gallery import DTYPES, OPS, Op, as_tuple, get, gradients, total
from test_paths import demanding_inputs, disagreement, scales
from torch import Tensor

try:
    import nvrtc
except ImportError:  # no CuPy for this system
    nvrtc = None  # type: ignore[assignment]

rt = gallery.runtime()

every = pytest.mark.parametrize("op", OPS, ids=str)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


# ---------------------------------------------------------------------------------------------------------------------
# Compiled without a GPU
# ---------------------------------------------------------------------------------------------------------------------

EVERY_DAY = {("sm_90", dtype) for dtype in DTYPES} | {("sm_80", torch.float32), ("sm_100", torch.float64)}


def _targets() -> list[object]:
    """Architectures and dtypes; every dtype and every architecture is there among those of every day."""
    return [
        pytest.param(arch, dtype, id=f"{arch}-{dtype}", marks=[] if (arch, dtype) in EVERY_DAY else [pytest.mark.slow])
        for arch in ("sm_80", "sm_90", "sm_100")
        for dtype in DTYPES
    ]


@pytest.mark.skipif(nvrtc is None, reason="needs CuPy")
@every
@pytest.mark.parametrize("what", ["forward", "backward", "double_backward"])
@pytest.mark.parametrize(("arch", "dtype"), _targets())
def test_kernels_compile_for_cuda(op: Op, what: str, arch: str, dtype: torch.dtype) -> None:
    cubin = nvrtc.compile(op.kernels[what], dtype, arch=arch)
    assert cubin.startswith(b"\x7fELF")


# ---------------------------------------------------------------------------------------------------------------------
# Run on a GPU
# ---------------------------------------------------------------------------------------------------------------------


def gpu(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")(test))


def moved(tensors: Sequence[Tensor], device: str = "cuda") -> list[Tensor]:
    """Copies on the device, leaves with requires_grad as before."""
    return [tensor.detach().to(device).requires_grad_(tensor.requires_grad) for tensor in tensors]


@gpu
@every
@all_dtypes
def test_cuda_kernels_give_what_cpu_kernels_do(op: Op, dtype: torch.dtype) -> None:
    inputs = demanding_inputs(op, dtype)
    on_cpu = gradients(op, inputs)
    with rt.record_paths() as record:
        on_cuda = gradients(op, moved(inputs))
    assert record == [(op.name, "cuda"), (f"{op.name}_backward", "cuda")]
    bar = 8 if dtype in (torch.float32, torch.float64) else 1
    for found, expected, scale in zip(on_cuda, on_cpu, scales(op, inputs), strict=True):
        assert found.is_cuda
        assert found.dtype == dtype
        assert disagreement(found.cpu(), expected, scale).max() <= bar


@gpu
@every
@all_dtypes
def test_cuda_double_backward_gives_what_that_of_the_cpu_does(op: Op, dtype: torch.dtype) -> None:
    def second(device: str) -> tuple[Tensor, ...]:
        inputs = moved(op.sample((50,), dtype=dtype, grad=True), device)
        wanted = [inputs[k] for k in op.differentiable]
        results = as_tuple(op(*inputs))
        seeds = [torch.full_like(result, 0.75, requires_grad=True) for result in results]
        grads = torch.autograd.grad(results, wanted, seeds, create_graph=True)
        with rt.record_paths() as record:
            found = torch.autograd.grad([grad.sum() for grad in grads], [*wanted, *seeds], materialize_grads=True)
        name = f"{op.name}_double_backward"
        assert [path for of, path in record if of == name] == [device]
        return tuple(tensor.cpu() for tensor in found)

    tolerance = 32 * torch.finfo(dtype).eps
    torch.testing.assert_close(second("cuda"), second("cpu"), rtol=tolerance, atol=tolerance)


@gpu
@every
def test_cuda_gradients_of_both_orders(op: Op) -> None:
    inputs = tuple(moved(op.sample((4,), grad=True)))
    with rt.record_paths() as record:
        assert torch.autograd.gradcheck(op.function, inputs, nondet_tol=0.0)
        assert torch.autograd.gradgradcheck(op.function, inputs)
    assert {path for name, path in record if name == op.name} == {"cuda"}


LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "transposed": ((5, 3), lambda t: t.t()),
    "sliced": ((4, 10), lambda t: t[::2, 1::3]),
    "expanded": ((1, 7), lambda t: t.expand(5, 7)),
    "overlapping": ((20,), lambda t: t.as_strided((4, 5), (2, 3))),
    "permuted": ((2, 3, 4, 5), lambda t: t.permute(2, 0, 3, 1)),
    "channels last": ((2, 3, 4, 5), lambda t: t.contiguous(memory_format=torch.channels_last)),
    "0-d": ((), lambda t: t),
    "empty": ((3, 0), lambda t: t),
    "many": ((300, 1001), lambda t: t[:, ::2]),
}


@gpu
@every
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cuda_strides(op: Op, layout: str) -> None:
    shape, look = LAYOUTS[layout]
    for dtype in (torch.bfloat16, torch.float32):
        viewed = [look(tensor) for tensor in moved(op.sample(shape, dtype=dtype))]
        with rt.record_paths() as record:
            found = gradients(op, viewed)
        assert {path for _, path in record} == {"cuda"}
        for result, flat in zip(found, gradients(op, [t.reshape(-1).clone() for t in viewed]), strict=True):
            assert result.shape == viewed[0].shape
            assert torch.equal(result.reshape(-1), flat)


@gpu
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
@pytest.mark.parametrize("shapes", [[(2, 1), (1, 3), (2, 3)], [(), (2, 3), (3,)], [(4, 1), (3,), ()]], ids=str)
def test_cuda_broadcast(op: Op, shapes: list[tuple[int, ...]]) -> None:
    inputs = op.sample(*shapes, grad=True)
    others = moved(inputs)
    total(op(*inputs)).backward()
    with rt.record_paths() as record:
        total(op(*others)).backward()
    assert {path for _, path in record} == {"cuda"}
    for tensor, other in zip(inputs, others, strict=True):
        if tensor.grad is None:
            assert other.grad is None
            continue
        assert other.grad is not None
        torch.testing.assert_close(other.grad.cpu(), tensor.grad, rtol=1e-12, atol=1e-12)


@gpu
def test_cuda_forward_and_backward_run_on_the_stream_of_the_forward() -> None:
    """On any other, the kernels would read what is not yet written."""
    swish = get("swish")
    x = torch.zeros(1 << 20, device="cuda", requires_grad=True)
    swish(x).sum().backward()  # compiled, so that the launches below do not wait for that
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(200_000_000)
        late.fill_(2.0)
        leaf = late.requires_grad_()
        result = swish(leaf)
        (slope,) = torch.autograd.grad(result.sum(), leaf)
        copies = result.detach().clone(), slope.clone()
    stream.synchronize()
    value, expected = gradients(swish, [torch.full((1,), 2.0)])
    torch.testing.assert_close(copies[0].unique().cpu(), value)
    torch.testing.assert_close(copies[1].unique().cpu(), expected)


@gpu
def test_cuda_in_a_captured_graph() -> None:
    swish = get("swish")
    x = torch.linspace(-3, 3, 1000, device="cuda")
    swish(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = swish(x)
    x.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, swish(x))


@gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_cuda_second_device() -> None:
    for op in OPS:
        inputs = moved(op.sample((100,), grad=True), "cuda:1")
        with rt.record_paths() as record:
            results = as_tuple(op(*inputs))
            total(results).backward()
        assert {path for _, path in record} == {"cuda"}
        assert {result.device for result in results} == {torch.device("cuda:1")}
        assert torch.cuda.current_device() == 0


@gpu
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
def test_cuda_and_cpu_tensors_do_not_mix(op: Op) -> None:
    inputs = moved(op.sample((4,)))
    inputs[-1] = inputs[-1].cpu()
    with pytest.raises(RuntimeError, match=f"same device.*{op.name}"):
        op(*inputs)
    inputs[-1] = torch.tensor(0.5, dtype=torch.float64)  # a number, as torch has it
    assert all(result.is_cuda for result in as_tuple(op(*inputs)))
