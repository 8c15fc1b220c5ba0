"""The CUDA kernels of the gallery: all are compiled, on any machine; marked gpu, they run beside the CPU's."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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


# Bytes that a thread keeps in memory for want of registers, at most: around the calls that a division, or the sine of
# a large number, makes in rare cases, and in long second derivatives. The compiler prefers more threads to none.
SPILLED = {"forward": 16, "backward": 64, "double_backward": 128}


@pytest.mark.skipif(nvrtc is None, reason="needs CuPy")
@every
@pytest.mark.parametrize("what", ["forward", "backward", "double_backward"])
@pytest.mark.parametrize(("arch", "dtype"), _targets())
def test_flat_kernels_fit_into_registers(op: Op, what: str, arch: str, dtype: torch.dtype) -> None:
    told = nvrtc.compile_flat(op.kernels[what].cuda_flat_source(dtype), arch)
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", told)))
    (registers,) = re.findall(r"Used (\d+) registers", told)
    assert spilled <= SPILLED[what], told
    assert int(registers) <= (64 if what == "forward" else 255), told


# ---------------------------------------------------------------------------------------------------------------------
# Run without a GPU: the CUDA text as C++, a thread after the other
# ---------------------------------------------------------------------------------------------------------------------

SHIM = """
#include <cmath>
#include <cstdint>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) alignas(n)
#define __restrict__
struct index { unsigned x; };
static index gridDim, blockIdx, threadIdx;
using namespace std;
"""


def emulated(kernel: Any, dtype: torch.dtype, folder: Path, is_aligned: bool, is_large: bool) -> Callable[..., None]:
    """What a kernel for contiguous operands does, in a grid of so many blocks."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    operands, scalars = len(kernel.tensors) + len(kernel.results), len(kernel.scalars)
    stored = {torch.float32: "float", torch.float64: "double"}.get(dtype, "unsigned short")
    arguments = [f"({stored} *)data[{k}]" for k in range(operands)] + [f"scalars[{k}]" for k in range(scalars)]
    source, library = folder / f"{kernel.name}.cpp", folder / f"{kernel.name}-{is_aligned}-{is_large}.so"
    source.write_text(
        SHIM
        + kernel.cuda_flat_source(dtype, is_aligned=is_aligned, is_large=is_large)
        + f"""
        extern "C" void run(unsigned blocks, void **data, const double *scalars, long long count) {{
            gridDim.x = blocks;
            for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
                for (threadIdx.x = 0; threadIdx.x < GG_BLOCK; threadIdx.x++)
                    gradgen_{kernel.name}({", ".join([*arguments, "count"])});
        }}"""
    )
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC", rt._NATIVE]
    subprocess.run([compiler, *flags, source, "-o", library], check=True)
    function = ctypes.CDLL(str(library)).run
    function.argtypes = [ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong]

    def run(blocks: int, tensors: Sequence[Tensor], values: Sequence[float]) -> None:
        data = (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])
        function(blocks, data, (ctypes.c_double * len(values))(*values), tensors[0].numel())

    return run


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "not aligned"])
def test_flat_kernels_compute_every_element_once(op: Op, dtype: torch.dtype, is_aligned: bool, tmp_path: Path) -> None:
    kernel, values = op.kernels["forward"], [default for default, _ in op.hyper.values()]
    run = emulated(kernel, dtype, tmp_path, is_aligned, is_large=is_aligned)
    for count, blocks in [(1, 1), (7, 1), (8, 1), (256, 1), (5003, 1), (5003, 2), (5003, 100)]:
        start = 0 if is_aligned else 1
        inputs = [t[start:] for t in op.sample((count + start,), dtype=dtype)]
        outputs = [torch.full((count + 9 + start,), 77.0, dtype=dtype)[start:] for _ in range(op.outputs)]
        run(blocks, [*inputs, *outputs], values)
        for found, expected in zip(outputs, kernel(inputs, values), strict=True):
            tolerance = 4 * torch.finfo(dtype).eps
            torch.testing.assert_close(found[:count], expected, rtol=tolerance, atol=tolerance)
            assert (found[count:] == 77).all()


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
    "not aligned": ((3, 5), lambda t: t.flatten()[1:]),
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
