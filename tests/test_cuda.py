"""The CUDA kernels of the gallery: all are compiled, on any machine; marked gpu, they run beside the CPU's."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import itertools
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gallery
import pytest
import torch
from devices import LAUNCH, gpu
from gallery import DTYPES, EACH_FUNCTION, OPS, Op, as_tuple, get, gradients, total
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

# What tells the orders apart is the arithmetic of indices, for which one architecture and the type of most bytes stand
# for all. The other architectures differ in how many registers a kernel takes, each tried with one of the types. Beside
# those the ops that are like another one are thorough.
TARGETS = [*itertools.product(["sm_90"], DTYPES, ["rows"])]
OTHERS = [
    ("sm_90", torch.float64, "strided"),
    ("sm_80", torch.float32, "rows"),
    ("sm_100", torch.bfloat16, "rows"),
]
COMPILED = [(op, *target) for op in OPS for target in TARGETS]
COMPILED += [
    pytest.param(op, *target, marks=[pytest.mark.thorough] * (op.name not in EACH_FUNCTION))
    for op in OPS
    for target in OTHERS
]


needs_nvrtc = pytest.mark.skipif(nvrtc is None, reason="needs CuPy")

# Instructions that take a number below the smallest normal one as 0, or do not round a quotient or a root to nearest.
# Some functions of CUDA's own (tan, pow) consist of them, where it does no harm; the gallery calls none of those.
INEXACT = re.compile(r"\S*\.ftz\S*|(?:div|rcp|sqrt|rsqrt)\.(?:approx|full)\S*")

# Those of them that are made exact, and those in kernels that make do with fewer digits, of float and of double; what
# is flushed is not stored.
MADE_EXACT = {"rcp.approx.ftz.f32"}
BRIEFLY = {"ex2.approx.ftz.f32", "rcp.approx.ftz.f32", "rcp.approx.f32", "div.full.f32", "sqrt.approx.f32"}
BRIEFLY_IN_DOUBLE = {"rcp.approx.ftz.f64"}

# Bytes that a thread keeps in memory for want of registers, at most: around the calls that a division, or the sine of
# a large number, makes in rare cases, and in long second derivatives. The compiler prefers more threads to none.
SPILLED = {"forward": 16, "backward": 64, "double_backward": 128}


@pytest.mark.few(every_day=12, slow=45)
@needs_nvrtc
@pytest.mark.parametrize("what", ["forward", "backward", "double_backward"])
@pytest.mark.parametrize(("op", "arch", "dtype", "order"), COMPILED, ids=str)
def test_kernels_compile_fit_into_registers_and_flush_nothing(
    op: Op, what: str, arch: str, dtype: torch.dtype, order: str
) -> None:
    kernel = op.kernels[what]
    source = kernel.cuda_rows_source(dtype) if order == "rows" else kernel.cuda_strided_source(dtype, dimensions=3)
    compiled = nvrtc.compile(source, arch, kernel.cuda_options(dtype))
    assert compiled.cubin.startswith(b"\x7fELF")
    few = BRIEFLY if dtype.itemsize == 2 else MADE_EXACT
    few = few | BRIEFLY_IN_DOUBLE if dtype in kernel.brief else few
    assert {*INEXACT.findall(compiled.ptx)} <= few
    if order == "rows":  # loads and stores of 16 bytes
        pack = "v2" if dtype is torch.float64 else "v4"
        assert all(re.search(rf"{way}.global\S*\.{pack}\.", compiled.ptx) for way in ("ld", "st"))
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", compiled.told)))
    (registers,) = re.findall(r"Used (\d+) registers", compiled.told)
    assert spilled <= SPILLED[what], compiled.told
    assert int(registers) <= (64 if what == "forward" else 255), compiled.told


@needs_nvrtc
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_exponential_serves_for_what_it_is_multiplied_by_as_well(dtype: torch.dtype) -> None:
    """As in swish, whose kernel took a third longer with two."""

    def instructions(code: str) -> int:
        kernel = rt.Kernel(
            "f", tensors=("x", "t"), results=("out",), code=f"const real out = {code};", expression=lambda *_: ()
        )
        ptx = nvrtc.compile(kernel.cuda_rows_source(dtype), options=kernel.cuda_options(dtype)).ptx
        return sum(line.startswith("\t") and not line.startswith("\t.") for line in ptx.splitlines())

    alone, both = (instructions(code) for code in ("mul_exp(x, t)", "mul_exp(x, t) - exp(t)"))
    assert both < alone + 40


@needs_nvrtc
@all_dtypes
def test_kernels_with_sums_compile_for_cuda(dtype: torch.dtype) -> None:
    kernel = get("sum_product").kernels["backward"]
    sums, columns = (False, True, True), (False, False, True, True)
    nvrtc.compile(kernel.cuda_strided_source(dtype, None, None, sums, dimensions=2, is_large=True))
    for is_aligned in (True, False):
        told = nvrtc.compile(kernel.cuda_rows_source(dtype, None, None, sums, columns, in_packs=is_aligned)).told
        assert "bytes stack frame" not in told or re.search(r"\b0 bytes stack frame", told), told


@pytest.mark.few(every_day=3, slow=12)
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("op", [op for op in OPS if len(op.differentiable) > 1], ids=str)
def test_kernels_with_sums_fit_into_registers(op: Op, dtype: torch.dtype, arch: str) -> None:
    """Of the gradient of the last input, which is a column."""
    kernel, column = op.kernels["backward"], op.tensors[op.differentiable[-1]]
    sums = tuple(result == f"grad_{column}" for result in kernel.results)
    columns = tuple(tensor == column for tensor in kernel.tensors)
    assert any(sums)
    source = kernel.cuda_rows_source(dtype, None, None, sums, columns)
    told = nvrtc.compile(source, arch, kernel.cuda_options(dtype)).told
    assert sum(map(int, re.findall(r"(\d+) bytes spill stores", told))) <= SPILLED["backward"], told


@needs_nvrtc
def test_what_would_not_be_exact_is_found() -> None:
    text = """extern "C" __global__ void kernel(float *x) { x[0] = sqrtf(x[1]) + x[2] / x[3]; }"""
    assert INEXACT.findall(nvrtc.compile(text).ptx) == []
    for option in ("--ftz=true", "--prec-div=false", "--prec-sqrt=false"):
        assert INEXACT.findall(nvrtc.compile(text, options=(option,)).ptx)


# ---------------------------------------------------------------------------------------------------------------------
# Compiled by the runtime, and kept
# ---------------------------------------------------------------------------------------------------------------------

TEXT = """extern "C" __global__ void kernel(float *x) { *x /= 3; }"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What NVRTC is asked for."""
    run, asked = rt._run_nvrtc, []

    def noting(*arguments: Any) -> bytes:
        asked.append(arguments[1:])
        image: bytes = run(*arguments)
        return image

    monkeypatch.setattr(rt, "_run_nvrtc", noting)
    return asked


def image(text: str = TEXT, capability: tuple[int, int] = (9, 0)) -> bytes:
    found: bytes = rt._cuda_image(nvrtc.nvrtc, "kernel", text, nvrtc.OPTIONS, capability)
    return found


@needs_nvrtc
def test_an_image_is_compiled_once_and_kept_privately(cache: Path, runs: list[tuple[Any, ...]]) -> None:
    first = image()
    assert first.startswith(b"\x7fELF")
    assert image() == first
    assert len(runs) == 1
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o700
    image(TEXT + " ")
    assert image(capability=(8, 0)) != first
    assert len(runs) == len(list(cache.iterdir())) == 3


@needs_nvrtc
def test_an_image_that_is_damaged_is_compiled_anew(cache: Path, runs: list[tuple[Any, ...]]) -> None:
    first = image()
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    assert image() == image() == first
    assert len(runs) == 2


@needs_nvrtc
def test_where_nothing_can_be_kept_images_are_compiled_each_time(cache: Path, runs: list[tuple[Any, ...]]) -> None:
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    assert image() == image()
    assert len(runs) == 2
    assert not list(cache.iterdir())


@needs_nvrtc
def test_a_device_that_is_newer_than_nvrtc_is_given_ptx(cache: Path) -> None:
    newest = max(nvrtc.nvrtc.getSupportedArchs())
    text = image(capability=(newest // 10 + 1, 0)).decode()
    assert f".target sm_{newest}" in text
    assert "div.rn.f32" in text


@needs_nvrtc
def test_a_text_that_is_refused_is_told(cache: Path) -> None:
    with pytest.raises(RuntimeError, match=r"kernel\.cu.*error.*no_such_function"):
        image("void kernel() { no_such_function(); }")
    assert not list(cache.iterdir())


# ---------------------------------------------------------------------------------------------------------------------
# Run without a GPU: the CUDA text as C++, a thread after the other
# ---------------------------------------------------------------------------------------------------------------------

SHIM = """
#include <cmath>
#include <cstdint>
#define __device__
#define __constant__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) alignas(n)
#define __restrict__
struct index { unsigned x; };
static index gridDim, blockIdx, threadIdx;
using namespace std;
"""


def compiled(text: str, folder: Path, is_c: bool = False) -> ctypes.CDLL:
    """CUDA text as C++, or that of C."""
    compiler = shutil.which("gcc" if is_c else "g++") or shutil.which("cc" if is_c else "c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, library = folder / f"kernel.{'c' if is_c else 'cpp'}", folder / f"{len(list(folder.glob('*.so')))}.so"
    source.write_text(text if is_c else SHIM + text)
    flags = [
        "-std=gnu11" if is_c else "-std=c++17",
        "-O1",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-w",
        "-shared",
        "-fPIC",
        *rt._FOR_THIS_PROCESSOR,
    ]
    subprocess.run([compiler, *flags, source, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def emulated(
    kernel: Any, dtype: torch.dtype, folder: Path, sums: Sequence[bool], columns: Sequence[bool], is_aligned: bool
) -> Callable[..., None]:
    """What a kernel that computes by rows does, all of its operands given, in blocks that cover so many columns."""
    stored = {torch.float32: "float", torch.float64: "double"}.get(dtype, "unsigned short")
    types = [stored] * len(kernel.tensors) + ["double" if is_sum else stored for is_sum in sums]
    arguments = [f"({type} *)data[{k}]" for k, type in enumerate(types)]
    arguments += [f"scalars[{k}]" for k in range(len(kernel.scalars))]
    arguments += [f"lies[{k}]" for k in range(2 * sum(columns))]
    library = compiled(
        kernel.cuda_rows_source(dtype, None, None, sums, columns, in_packs=is_aligned, is_large=is_aligned)
        + f"""
        extern "C" void
        run(void **data, const double *scalars, const long long *lies, long long count, long long width) {{
            const long long blocks = (width + GG_BLOCK * GG_LANES - 1) / (GG_BLOCK * GG_LANES);
            for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
                for (threadIdx.x = 0; threadIdx.x < GG_BLOCK; threadIdx.x++)
                    gradgen_{kernel.name}({", ".join([*arguments, "count", "width"])});
        }}""",
        folder,
    )
    function = library.run
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_longlong] * 2

    def run(tensors: Sequence[Tensor], values: Sequence[float], lies: Sequence[int], count: int, width: int) -> None:
        data = (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])
        function(data, (ctypes.c_double * len(values))(*values), (ctypes.c_longlong * len(lies))(*lies), count, width)

    return run


def lanes_of(dtype: torch.dtype, is_aligned: bool) -> int:
    return 16 // torch.empty(0, dtype=dtype).element_size() if is_aligned else 1


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "not aligned"])
def test_kernels_by_rows_compute_every_element_once(
    op: Op, dtype: torch.dtype, is_aligned: bool, tmp_path: Path
) -> None:
    kernel, values = op.kernels["forward"], [default for default, _ in op.hyper.values()]
    run = emulated(kernel, dtype, tmp_path, [False] * op.outputs, [False] * len(op.tensors), is_aligned)
    for count, most in [(1, 1), (7, 1), (8, 1), (256, 1000), (5003, 500), (5003, 10000)]:
        start = 0 if is_aligned else 1
        inputs = [t[start:] for t in op.sample((count + start,), dtype=dtype)]
        outputs = [torch.full((count + 9 + start,), 77.0, dtype=dtype)[start:] for _ in range(op.outputs)]
        run([*inputs, *outputs], values, [], count, rt._width(count, 1, most, lanes_of(dtype, is_aligned)))
        for found, expected in zip(outputs, kernel(inputs, values), strict=True):
            tolerance = 4 * torch.finfo(dtype).eps
            torch.testing.assert_close(found[:count], expected, rtol=tolerance, atol=tolerance)
            assert (found[count:] == 77).all()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[(name, torch.bfloat16) for name in ("neuron", "staged", "sum_product")],
        ("sum_product", torch.float32),
    ],
    ids=str,
)
def test_elements_of_either_arithmetic_are_computed_as_on_the_cpu(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    """Each is looked at, whether float does for it."""
    op = get(name)
    kernel = op.kernels["forward"]
    assert kernel.moderate[dtype] == 2.0**40
    assert "gg_is_moderate" in kernel.cuda_rows_source(dtype)
    assert "gg_is_moderate" not in kernel.cuda_rows_source(torch.float64)
    inputs = demanding_inputs(op, dtype)
    sizes = torch.stack([x.double().abs() for x in inputs])
    is_moderate = ((sizes == 0) | ((sizes >= 2.0**-40) & (sizes <= 2.0**40))).all(0)
    assert 0.1 < is_moderate.double().mean() < 0.9
    count = inputs[0].numel()
    found = torch.full((count,), 77.0, dtype=dtype)
    run = emulated(kernel, dtype, tmp_path, [False], [False] * len(inputs), is_aligned=False)
    run([*inputs, found], [], [], count, rt._width(count, 1, 1000, 1))
    (expected,), (scale, *_) = kernel(inputs), scales(op, inputs)
    assert disagreement(found, expected, scale).max() <= (1 if dtype == torch.bfloat16 else 4)


@pytest.mark.parametrize("scalar", [1.0, 0.0, 64.0, 65.0, -1e9, 2.0**-40, 2.0**-41, 1e-50])
def test_a_scalar_decides_for_all_elements_as_on_the_cpu(scalar: float, tmp_path: Path) -> None:
    """1e-50 is 0 as a float, and is not moderate."""
    kernel = rt.Kernel(
        "lost",
        tensors=("x",),
        scalars={"s": "float"},
        results=("y",),
        code="const real sum = 1 + x, y = (sum + real(0x1p-30)) - sum + 0 * s;",
        expression=lambda x, s, wanted: (x,),
        wide=("float32",),
        moderate={"float32": 2.0**6},
    )
    x = torch.tensor([1.0, 64.0, 65.0, 2.0**-41, 0.0])
    found = torch.full((5,), 77.0)
    run = emulated(kernel, torch.float32, tmp_path, [False], [False], is_aligned=False)
    run([x, found], [scalar], [], 5, rt._width(5, 1, 1000, 1))
    is_moderate = scalar == 0 or 2.0**-40 <= abs(scalar) <= 64
    assert found.tolist() == [0, 0, 2.0**-30, 2.0**-30, 0] if is_moderate else [2.0**-30] * 5
    assert torch.equal(found, kernel((x,), (scalar,))[0])


# The whole shape, and that of the second input
BROADCAST = [
    ((6, 7), (7,)),
    ((300, 8), (8,)),
    ((5, 3, 4), (3, 1)),
    ((3, 8, 16), (1, 8, 1)),
    ((2, 3, 2, 2), (3, 2, 2)),
    ((40, 5), ()),
    ((4, 6), (4, 1)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "not aligned"])
def test_kernels_by_rows_read_and_sum_what_is_smaller(dtype: torch.dtype, is_aligned: bool, tmp_path: Path) -> None:
    """The backward of x * y + z, in which only y is broadcast, as the launcher computes it."""
    kernel, lanes = get("sum_product").kernels["backward"], lanes_of(dtype, is_aligned)
    assert kernel.tensors == ("grad", "x", "y", "z")
    sums, columns = [False, True, False], [False, False, True, False]
    run = emulated(kernel, dtype, tmp_path, sums, columns, is_aligned)
    for whole, own in BROADCAST:
        start = 0 if is_aligned else 1
        count = torch.Size(whole).numel()
        grad, x, z = (torch.randn(count + start).to(dtype)[start:].view(whole) for _ in range(3))
        y = torch.randn(own).to(dtype)
        lie = rt._walk_through([x, y]).columns[1]
        expected = kernel((grad, x, y, z), (), None, (x.shape, y.shape, z.shape))
        for most in (1, 50, 100_000):
            width = rt._width(count, lie.repeat * lie.size, most, lanes)
            assert width % lanes == width % (lie.repeat * lie.size) == 0
            of_x, of_z = (torch.full((count + start,), 77.0, dtype=dtype)[start:].view(whole) for _ in range(2))
            total = torch.full((width,), 77.0, dtype=torch.float64)
            run([grad, x, y, z, of_x, total, of_z], [], lie, count, width)
            of_y = total.view(-1, lie.size, lie.repeat).sum((0, 2)).view_as(y)
            torch.testing.assert_close((of_x, of_z), (expected[0], expected[2]))
            torch.testing.assert_close(of_y.to(dtype), expected[1])


def test_rows_are_no_longer_than_they_need_to_be() -> None:
    assert rt._width(1 << 20, 1, 1 << 16, 4) == 1 << 16
    assert rt._width(1001 * 1001, 1001, 1 << 14, 1) == 1001 * 16
    assert rt._width(7, 1, 1 << 16, 4) == 8
    assert rt._width(30, 6, 12, 4) == 12


def test_operands_that_follow_no_such_rule() -> None:
    def columns(tensor: Tensor, *whole: int) -> Any:
        return rt._walk_through([tensor, torch.ones(whole)]).columns[0]

    assert columns(torch.ones(4, 1, 6), 4, 5, 6) is None
    assert columns(torch.ones(5, 4).t(), 4, 5) is None
    assert columns(torch.ones(10)[::2], 5) is None
    assert columns(torch.ones(4, 1, 6), 4, 1, 6) == columns(torch.ones(5), 1, 5) == rt._WHOLE
    assert columns(torch.ones(1, 5, 1), 4, 5, 6) == (6, 5)
    assert columns(torch.ones(1, 5).expand(4, 5), 4, 5) == (1, 5)
    assert columns(torch.ones(()), 4, 5) == columns(torch.ones(()).expand(4, 5), 4, 5) == (1, 1)
    last = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert rt._walk_through([torch.ones(3, 1, 1), last, last]).columns == ((1, 3), rt._WHOLE, rt._WHOLE)


class Function:
    """In place of a function of CuPy: the text as C++, called for one thread after the other."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._place, self._kernel = library.place, getattr(library, name)
        self.ptr = id(self)

    def __call__(self, grid: tuple[int], block: tuple[int], arguments: Sequence[float], stream: Any) -> None:
        passed = [ctypes.c_double(a) if isinstance(a, float) else ctypes.c_longlong(a) for a in arguments]
        self.parameters = len(passed)
        for index in range(grid[0] * block[0]):
            self._place(index // block[0], index % block[0], grid[0])
            self._kernel(*passed)


class Module:
    """In place of a module of CuPy: what was compiled is the text itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, image: bytes) -> None:
        place = """
        extern "C" void place(unsigned block, unsigned thread, unsigned blocks) {
            blockIdx.x = block, threadIdx.x = thread, gridDim.x = blocks;
        }"""
        self._library = compiled(image.decode() + place, self._folder)

    def get_function(self, name: str) -> Function:
        return Function(self._library, name)


@needs_nvrtc
def test_cupy_has_what_it_is_replaced_by() -> None:
    import cupy

    assert {"load", "get_function"} <= {*vars(cupy.cuda.Module)}
    assert "__call__" in vars(cupy.cuda.Function)


@pytest.fixture
def launchers(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> Callable[..., Any]:
    """Launchers of CUDA kernels whose device is this machine's processor."""
    compiler = SimpleNamespace(
        getVersion=lambda: (13, 0),
        getSupportedArchs=lambda: (90,),
        createProgram=lambda text, *rest: text,
        compileProgram=lambda text, options: None,
        getCUBIN=str.encode,
        destroyProgram=lambda text: None,
        NVRTCError=RuntimeError,
    )
    cuda = SimpleNamespace(
        Device=lambda number: contextlib.nullcontext(),
        Module=functools.partial(Module, tmp_path),
        nvrtc=compiler,
    )
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(rt, "_multiprocessors", lambda device: 1)

    def make(*of: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
            return rt._CudaLauncher(*of)

    return make


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, launchers: Callable[..., Any]) -> list[int]:
    """How many operands and numbers kernels without scalars were given in place of the driver, by the dispatcher."""
    counts: list[int] = []

    def launch(function: int, blocks: int, *rest: Any) -> int:
        kernel: Function = ctypes.cast(function, ctypes.py_object).value
        *_, block, _, _, _, stream, parameters, _ = rest
        counts.append(kernel.parameters)
        numbers = [ctypes.c_longlong.from_address(parameters[k]).value for k in range(kernel.parameters)]
        kernel((blocks,), (block,), numbers, stream)
        return 0

    callback = LAUNCH(launch)
    known = rt._known_keys
    monkeypatch.setattr(rt, "_cuda_launch", lambda: ctypes.cast(callback, ctypes.c_void_p).value)
    monkeypatch.setattr(rt, "_known_keys", lambda device: known("cpu"))
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
    return counts


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_dispatcher_launches_for_shapes_that_it_has_seen(
    dtype: torch.dtype, launchers: Callable[..., Any], launched: list[int]
) -> None:
    original = get("sum_product").kernels["forward"]
    kernel = copy.copy(original)  # what it learns here is of no use elsewhere
    kernel._quick, kernel._launchers, kernel._plans, kernel._natives = None, {}, ctypes.c_void_p(), {}
    launch = launchers(kernel, rt._Variant("cuda", dtype, (True,) * 3, (True,), (False,)))

    def sample(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
        return tuple([torch.randn(shape).to(dtype) for shape in shapes])

    def learn(*shapes: tuple[int, ...]) -> None:
        inputs = sample(*shapes)
        (output,) = rt._allocate(list(inputs), torch.broadcast_shapes(*shapes), [torch.broadcast_shapes(*shapes)])
        launch(list(inputs), [output], [], (False,))

    bias, channel = ((30, 8), (8,), (30, 8)), ((3, 1), (4, 3, 40), ())
    for shapes in (bias, channel):
        assert kernel._quick is None or kernel.quick(sample(*shapes)) is None
        learn(*shapes)
        inputs = sample(*shapes)
        (found,) = kernel.quick(inputs)
        assert torch.equal(found, original(inputs)[0])
    assert launched == [len(["x", "y", "z", "out", "count", "columns"]) + 2 * smaller for smaller in (1, 2)]
    inputs = [tensor.expand(30, 8) for tensor in sample((8,), (8,), (8,))]
    launch(inputs, [torch.empty_like(inputs[0], memory_format=torch.contiguous_format)], [], (False,))
    assert kernel.quick(sample((30, 8), (30, 8), (30, 8))) is None  # which is read otherwise than what is expanded
    learn((50,), (50,), (50,))
    for shapes in (bias, channel, ((7, 3),) * 3, ((1000, 9),) * 3):
        inputs = sample(*shapes)
        (found,) = kernel.quick(inputs)
        assert torch.equal(found, original(inputs)[0])
    for shapes in (((30, 8), (30, 8), (8,)), ((31, 8), (8,), (31, 8)), ((30, 8), (1, 8), (30, 8))):
        assert kernel.quick(sample(*shapes)) is None
    learn((2, 1), (1, 3), (2, 3))  # the whole is z
    inputs = sample((2, 1), (1, 3), (2, 3))
    assert torch.equal(kernel.quick(inputs)[0], original(inputs)[0])
    assert kernel.quick(sample((1, 50), (50,), (1, 50))) is None
    learn((1, 50), (50,), (1, 50))  # each of which has all elements
    inputs = sample((1, 50), (50,), (1, 50))
    assert torch.equal(kernel.quick(inputs)[0], original(inputs)[0])
    learn((2, 1), (1, 3), ())  # of which none is the whole
    assert kernel.quick(sample((2, 1), (1, 3), ())) is None
    odd = sample((30, 8), (9,), (30, 8))
    assert kernel.quick((odd[0], odd[1][1:], odd[2])) is not None  # what is smaller need not be aligned
    odd = sample((241,), (8,), (30, 8))
    assert kernel.quick((odd[0][1:].view(30, 8), odd[1], odd[2])) is None
    transposed = sample((8, 30), (8,), (30, 8))
    assert kernel.quick((transposed[0].t(), *transposed[1:])) is None
    for size in range(rt._MOST_LAYOUTS + 5):
        learn((size + 1, 16), (16,), (16,))
    assert len(kernel._quick._plans) == rt._MOST_LAYOUTS + len(["those of one shape"])


# The shapes of x, y and z in (x + y) * z, and of the incoming gradient a number that is expanded
SHAPES = [
    ((5, 3), (5, 3), (5, 3)),
    ((4, 6), (6,), ()),
    ((4, 6), (1, 6), (4, 6)),
    ((70, 33), (33,), (33,)),
    ((2, 3, 4), (3, 1), (2, 3, 4)),
    ((3, 1), (1, 5), (3, 5)),
    ((9, 7), (9, 1), ()),
    ((1, 5), (5,), (1, 5)),
    ((), (), ()),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_what_is_launched_gives_what_cpu_kernels_do(
    shapes: Sequence[Sequence[int]], dtype: torch.dtype, launchers: Callable[..., Any]
) -> None:
    kernel = get("sum_product").kernels["backward"]
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    whole = torch.broadcast_shapes(*shapes)
    own = [torch.Size(shape) for shape in shapes]
    sums = tuple(shape != whole for shape in own)
    launch = launchers(kernel, rt._Variant("cuda", dtype, (True,) * 4, (True,) * 3, sums))
    for grad in (torch.randn(whole).to(dtype), torch.tensor(0.5, dtype=dtype).expand(whole)):
        outputs = [torch.full(shape, 77.0, dtype=dtype) for shape in own]
        launch([grad, *inputs], outputs, [], sums)
        torch.testing.assert_close(tuple(outputs), kernel((grad, *inputs), (), None, own))


@contextlib.contextmanager
def forgotten(kernel: Any) -> Iterator[None]:
    """Within, it knows nothing that has been compiled, and learns for the time being."""
    known = kernel._quick, kernel._launchers, kernel._plans.value
    kernel._quick, kernel._launchers, kernel._plans.value = None, {}, None
    try:
        yield
    finally:
        kernel._quick, kernel._launchers, kernel._plans.value = known


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "_native", None)
    rt._use_native(rt.compile_native())


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_nodes_launch_kernels_that_sum(
    shapes: Sequence[Sequence[int]], dtype: torch.dtype, launchers: Callable[..., Any], launched: list[int]
) -> None:
    op = get("sum_product")
    kernel = op.kernels["backward"]
    inputs = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    op.function(*inputs)  # by Python, until the kernel has been compiled
    result = op.function(*inputs)
    own, grad = [tensor.shape for tensor in inputs], torch.randn_like(result)
    sums = tuple(shape != result.shape for shape in own)
    expected = torch.autograd.grad(result, inputs, grad, retain_graph=True)
    with forgotten(kernel):
        launch = launchers(kernel, rt._Variant("cuda", dtype, (True,) * 4, (True,) * 3, sums))
        launch([grad, *inputs], [torch.empty_like(tensor) for tensor in inputs], [], sums)
        found = torch.autograd.grad(result, inputs, grad, retain_graph=True)
        assert len(launched) == 1
        torch.testing.assert_close(found, expected)
        if any(sums):
            x, y, z = [tensor.detach().requires_grad_() for tensor in inputs]
            others = (x, y.unsqueeze(0) if y.dim() < result.dim() else y, z[None] if z.dim() < result.dim() else z)
            torch.autograd.grad(op.function(*others), (x, y, z), grad.view_as(op.function(*others)))
            is_other = any(a.shape != b.shape for a, b in zip(others, inputs, strict=True))
            assert len(launched) == (1 if is_other else 2)  # a kernel is for the shapes that it has seen


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("layout", ["sliced", "overlapping", "permuted", "many"])
def test_strides_are_followed_by_what_is_launched(
    layout: str, launchers: Callable[..., Any], launched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One operand lies otherwise than the rest."""
    shape, look = LAYOUTS[layout]
    op = get("sum_product")
    x, y, z = [look(torch.randn(shape)) for _ in range(3)]
    inputs = [x.contiguous().requires_grad_(), y.requires_grad_(), z.contiguous().requires_grad_()]
    for _ in range(2):
        expected = op.function(*inputs)
        torch.autograd.grad(expected.sum(), inputs)
    with contextlib.ExitStack() as stack:
        for what, present, wanted in (("forward", 3, (True,)), ("backward", 4, (True,) * 3)):
            kernel = op.kernels[what]
            stack.enter_context(forgotten(kernel))
            launch = launchers(
                kernel, rt._Variant("cuda", torch.float32, (True,) * present, wanted, (False,) * len(wanted))
            )
            given = [expected.detach()] * (present == 4) + [tensor.detach() for tensor in inputs]
            launch(
                given, rt._allocate(given, expected.shape, [expected.shape] * len(wanted)), [], (False,) * len(wanted)
            )
        assert launched == []
        found = op.function(*inputs)
        assert len(launched) == 1
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
        grad = torch.randn_like(found)
        gradients = torch.autograd.grad(found, inputs, grad)
        assert len(launched) == 2
        monkeypatch.setattr(rt, "_native", None)
    for one, other in zip(gradients, torch.autograd.grad(op.function(*inputs), inputs, grad), strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()


@pytest.mark.usefixtures("native")
def test_what_lies_far_apart_is_left_to_python(
    launchers: Callable[..., Any], launched: list[int], tmp_path: Path
) -> None:
    """A kernel for small tensors counts by 32 bits."""
    kernel = get("relu").kernels["forward"]
    far = torch.from_file(str(tmp_path / "far"), shared=True, size=2**31 + 2**20, dtype=torch.float32)
    with forgotten(kernel):
        launch = launchers(kernel, rt._Variant("cuda", torch.float32, (True,), (True,), (False,)))
        x = torch.randn(9)[::3]
        launch([x], [torch.empty(3)], [], (False,))
        assert torch.equal(kernel.quick((x,))[0], x.clamp(min=0))
        assert len(launched) == 1
        apart = far.as_strided((3,), (2**30 + 5,))
        apart[:] = torch.tensor([1.0, 2.0, 3.0])
        assert kernel.quick((apart,)) is None
        assert len(launched) == 1


@pytest.mark.usefixtures("native")
def test_kernels_are_launched_over_their_input(launchers: Callable[..., Any], launched: list[int]) -> None:
    op = get("relu")
    kernel, leaf = op.kernels["forward"], torch.randn(3, 8, requires_grad=True)
    with forgotten(kernel):
        launch = launchers(kernel, rt._Variant("cuda", torch.float32, (True,), (True,), (False,)))
        flat = torch.randn(9)
        launch([flat], [flat], [], (False,))
        given = leaf * 2
        result = op.code.relu_(given)
        assert result is given
        assert len(launched) == 1
        assert torch.equal(result, (leaf * 2).clamp(min=0))
        (gradient,) = torch.autograd.grad(result.sum(), leaf)
        assert torch.equal(gradient, 2.0 * (leaf > 0))
        assert kernel.quick((leaf.detach(),)) is None  # which is told that the result is elsewhere
        launch([flat], [torch.empty_like(flat)], [], (False,))
        assert torch.equal(kernel.quick((leaf.detach(),))[0], leaf.detach().clamp(min=0))
        assert len(launched) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sums_have_more_rows_than_a_few(
    dtype: torch.dtype, launchers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written of a sum to be added later is little beside what it is made of."""
    monkeypatch.setattr(rt, "_FEW_SUMS", 64)
    widths: list[int] = []
    own_width = rt._width
    monkeypatch.setattr(rt, "_width", lambda *given: widths.append(own_width(*given)) or widths[-1])
    kernel, shapes = get("sum_product").kernels["backward"], ((600, 24), (24,), ())
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    launch = launchers(kernel, rt._Variant("cuda", dtype, (True,) * 4, (True,) * 3, (False, True, True)))
    grad, own = torch.randn(600, 24).to(dtype), [torch.Size(shape) for shape in shapes]
    outputs = [torch.full(shape, 77.0, dtype=dtype) for shape in own]
    launch([grad, *inputs], outputs, [], (False, True, True))
    assert 600 * 24 / 32 < widths[-1] <= 600 * 24 / 16
    torch.testing.assert_close(tuple(outputs), kernel((grad, *inputs), (), None, own))


def test_sums_take_less_memory_than_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "_multiprocessors", lambda device: 132)
    for power in range(10, 29):
        for lanes in (4, 8):  # of float32, and of the types of 16 bits
            width = rt._width(1 << power, 1024, rt._most_columns(0, lanes, 1 << power, sums=True), lanes)
            assert 8 * width <= max(1 << 19, 16 // lanes * (1 << power) // 4)
            assert width % 1024 == 0


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


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "empty"])
@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
def test_strides_are_followed(
    layout: str, is_large: bool, launchers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one operand cannot be read by rows, none is."""
    walk = rt._walk
    monkeypatch.setattr(rt, "_walk", lambda lies: walk(lies)._replace(is_large=is_large))
    shape, look = LAYOUTS[layout]
    kernel = get("sum_product").kernels["backward"]
    inputs = [look(torch.randn(shape)) for _ in range(4)]
    inputs[1] = torch.stack([inputs[1], inputs[1]], -1)[..., 0]
    whole = inputs[0].shape
    launch = launchers(kernel, rt._Variant("cuda", torch.float32, (True,) * 4, (True,) * 3, (False,) * 3))
    outputs = rt._allocate(inputs, whole, [whole] * 3)
    launch(inputs, outputs, [], (False,) * 3)
    for found, expected in zip(outputs, kernel(inputs), strict=True):
        torch.testing.assert_close(found, expected)
    assert orders(launch) == {"rows" if layout == "0-d" else "strided"}


def orders(launch: Any) -> set[str]:
    """How a launcher has computed."""
    return {key[0].__name__.removeprefix("cuda_").removesuffix("_source") for key in launch._functions}


@pytest.mark.parametrize("of_y", [(2, 3, 4, 5), (3, 1, 1), ()], ids=str)
def test_dense_operands_in_one_order_of_dimensions_are_computed_by_rows(
    of_y: tuple[int, ...], launchers: Callable[..., Any]
) -> None:
    kernel = get("sum_product").kernels["backward"]
    x, z = (torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last) for _ in range(2))
    grad, y = torch.ones(()).expand(x.shape), torch.randn(of_y)
    if y.dim() == 4:
        y = y.contiguous(memory_format=torch.channels_last)
    inputs, summed = [grad, x, y, z], (False, y.shape != x.shape, False)
    launch = launchers(kernel, rt._Variant("cuda", torch.float32, (True,) * 4, (True,) * 3, summed))
    own = [tensor.shape for tensor in inputs[1:]]
    outputs = rt._allocate(inputs, x.shape, own)
    launch(inputs, outputs, [], summed)
    assert orders(launch) == {"rows"}
    assert outputs[0].stride() == x.stride()
    torch.testing.assert_close(tuple(outputs), kernel(inputs, (), None, own))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_strides_are_followed_and_torch_sums(dtype: torch.dtype, launchers: Callable[..., Any]) -> None:
    kernel = get("sum_product").kernels["backward"]
    sums = (False, True, True)
    launch = launchers(kernel, rt._Variant("cuda", dtype, (True,) * 4, (True,) * 3, sums))
    grad, x, y, z = [torch.randn(shape).to(dtype) for shape in [(6, 4), (6, 4), (4, 1), (12,)]]
    inputs = [grad.t(), x.t(), y, z[::2]]
    own = [tensor.shape for tensor in inputs[1:]]
    for _ in range(2):
        outputs = rt._allocate(inputs, inputs[0].shape, own)
        launch(inputs, outputs, [], sums)
        torch.testing.assert_close(tuple(outputs), kernel(inputs, (), None, own))
    assert orders(launch) == {"strided"}


def test_torch_sums_where_there_would_be_a_sum_for_nearly_every_element(launchers: Callable[..., Any]) -> None:
    kernel, sums = get("sum_product").kernels["backward"], (False, True, False)
    launch = launchers(kernel, rt._Variant("cuda", torch.float32, (True,) * 4, (True,) * 3, sums))
    for rows, order in ((500, {"rows"}), (3000, {"rows", "strided"})):
        inputs = [torch.randn(rows, columns) for columns in (2, 2, 1, 2)]
        outputs = [torch.empty_like(tensor) for tensor in inputs[1:]]
        launch(inputs, outputs, [], sums)
        assert orders(launch) == order
        torch.testing.assert_close(tuple(outputs), kernel(inputs, (), None, [tensor.shape for tensor in inputs[1:]]))


def test_steps_are_along_the_fewest_dimensions() -> None:
    def steps(*tensors: Tensor) -> Any:
        return rt._walk_through(tensors)[:3]

    assert steps(torch.ones(20)[::2], torch.ones(10)) == (1, (10, 2, 1), False)
    assert steps(torch.ones(6), torch.ones(6, 4).t(), torch.ones(4, 6)) == (2, (4, 6, 0, 1, 1, 4, 6, 1), False)
    assert steps(torch.ones(3, 1, 5).expand(3, 4, 5), torch.ones(3, 4, 5)) == (3, (3, 4, 5, 5, 0, 1, 20, 5, 1), False)
    assert steps(torch.ones(()), torch.ones(())) == (1, (1, 1, 1), False)
    far = torch.empty_strided((2,), (2**30,), device="meta")
    assert steps(far, torch.ones(2)) == (1, (2, 2**30, 1), True)
    many = torch.empty(1, device="meta").expand(2**30)
    assert steps(many, many)[2]


# ---------------------------------------------------------------------------------------------------------------------
# Functions that have fewer digits than their arithmetic
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("towards", ["0", "INFINITY"])
def test_quotients_are_exact_though_inverses_are_not(towards: str, tmp_path: Path) -> None:
    """The CUDA text, with inverses that are off by a unit in the last place, as the device's may be."""
    inexact, count = re.subn(r"asm\(.*\);", f"inverse = nextafterf(1 / b, {towards});", rt._EXACT["float"])
    assert count == 1
    text = f"""
    #define FN static inline
    #define __CUDA_ARCH__ 900
    {inexact}
    extern "C" void over(const float *a, const float *b, float *found, long count) {{
        for (long k = 0; k < count; k++)
            found[k] = gg_over(a[k], b[k]);
    }}"""
    library = compiled(text, tmp_path)
    torch.manual_seed(0)
    b = torch.ldexp(1 + torch.rand(400_000), torch.randint(0, 100, (400_000,)))
    a = b * torch.ldexp(2 * torch.rand(b.numel()) - 1, torch.randint(-120, 26, (b.numel(),)))
    a[: b.numel() // 4] = torch.ldexp(torch.rand(b.numel() // 4), torch.tensor(-127))  # with quotients below those
    b[: b.numel() // 4] = 1 + torch.rand(b.numel() // 4)
    found = torch.empty_like(b)
    call = functools.partial(library.over, *(ctypes.c_void_p(t.data_ptr()) for t in (a, b, found)))
    call(ctypes.c_long(b.numel()))
    exact = a.double() / b.double()
    unit = torch.ldexp(torch.ones_like(exact), (torch.frexp(exact).exponent - 24).clamp(min=-149))
    off, is_far = (found.double() - exact).abs() / unit, exact.abs() >= 2.0**-100
    assert off[is_far].max() <= 0.51
    assert off[~is_far].max() <= 0.76  # what is too much may be a subnormal number there, which is rounded
    odd = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0])
    a[:5], b[:5] = odd, 1.5
    call(ctypes.c_long(5))
    torch.testing.assert_close(found[:5], odd, rtol=0, atol=0, equal_nan=True)
    assert found[3:5].signbit().tolist() == [False, True]


BRIEF = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "log1p_unit": torch.log1p,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "brief_inverse": torch.reciprocal,
}


def _mul_dswish(r: Tensor, t: Tensor) -> Tensor:
    a, e = t.abs(), torch.exp(-t.abs())
    tail = e * (1 + e - a) / (1 + e) ** 2
    return r * torch.where(t < 0, tail, 1 - tail)


def _mul_dgelu(r: Tensor, t: Tensor) -> Tensor:
    return r * (torch.erfc(-t / math.sqrt(2)) / 2 + t * torch.exp(-t * t / 2) / math.sqrt(2 * math.pi))


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul_exp": lambda r, t: r * torch.exp(t),
    "mul_erfc": lambda r, t: r * torch.erfc(t),
    "mul_logistic_density": lambda r, t: r * torch.exp(-t.abs()) / (1 + torch.exp(-t.abs())) ** 2,
    "mul_dswish": _mul_dswish,
    "mul_ndtr": lambda r, t: r * torch.erfc(-t / math.sqrt(2)) / 2,
    "mul_dgelu": _mul_dgelu,
}
ZEROS = {"mul_dswish": -1.28, "mul_dgelu": -0.75}  # near these they are as exact as their terms
MOST_OFF = {"float": 2.0**-20, "double": 2.0**-35}  # of the result
ROUNDING = {"float": 2.0**-24, "double": 2.0**-53}
# What CUDA's own powers of two and reciprocals of floats are off by (PTX ISA), which has other functions off by more.
OF_DEVICE, BY_DEVICE = {"exp2f(x)": "0x1.6p-23", "1 / x": "0x1p-23"}, 2.0


OF_SQUARES = ("erfc", "mul_erfc", "mul_ndtr", "mul_dgelu")


def most_off(name: str, language: str, real: str, t: Tensor) -> Tensor:
    """Of the result, with what two roundings of its exponent, or of the square that is one, make of that."""
    most = MOST_OFF[real] * (BY_DEVICE if language.startswith("CUDA ") else 1)
    exponent = t.double().abs() if name in ("exp", "expm1", *PRODUCTS) else torch.zeros_like(t.double())
    exponent = t.double() ** 2 if name in OF_SQUARES else exponent
    return most + 2.1 * ROUNDING[real] * exponent.where(exponent < 400, 0)


LANGUAGES = [
    *itertools.product([torch.float32, torch.float64], ["CUDA", "C"]),
    *itertools.product([torch.float32], ["CUDA and the device's errors", "CUDA less the device's errors"]),
]


@pytest.fixture(scope="module", params=LANGUAGES, ids=str)
def brief(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[torch.dtype, str, str, Callable[..., Tensor]]:
    """The type, language, how it calls the type, and how a function of that is called: function(name, arguments...)."""
    dtype, language = request.param
    real = {torch.float32: "float", torch.float64: "double"}[dtype]
    if is_c := language == "C":
        headers = [f"#include <{name}.h>" for name in ("math", "stdbool", "stdint", "tgmath")]
        functions, linkage = (
            [*headers, rt._BITS, rt._BRIEF[real], rt._MATH, "#define gg_brief_inverse(x) GG_OVER(1, x)"],
            "",
        )
    else:
        text = rt._brief_functions([real])
        for computed, error in OF_DEVICE.items() if language != "CUDA" else ():
            assert f"return {computed};" in text
            sign = "+" if "and" in language else "-"
            text = text.replace(f"return {computed};", f"return (float)({computed} * (1 {sign} {error}));")
        functions, linkage = [rt._BITS, text, rt._MATH], 'extern "C" '
    text = "#define FN static inline\n" + "\n\n".join(functions)
    for name in [*BRIEF, *PRODUCTS]:
        called = name if is_c and hasattr(torch, name) else f"gg_{name}"
        text += f"""
        {linkage}void {name}_all(const {real} *r, const {real} *t, {real} *found, long count) {{
            for (long k = 0; k < count; k++)
                found[k] = {called}({"r[k], t[k]" if name in PRODUCTS else "t[k]"});
        }}"""
    library = compiled(text, tmp_path_factory.mktemp("brief"), is_c)

    def call(name: str, *arguments: Tensor) -> Tensor:
        columns = [argument.to(dtype).contiguous() for argument in arguments]
        found = torch.empty_like(columns[-1])
        pointers = [ctypes.c_void_p(column.data_ptr()) for column in (columns[0], columns[-1], found)]
        getattr(library, f"{name}_all")(*pointers, ctypes.c_long(found.numel()))
        return found

    return dtype, language, real, call


def every_magnitude(dtype: torch.dtype) -> Tensor:
    """Numbers of both signs and of every exponent of float32, more of those that are ordinary."""
    torch.manual_seed(0)
    exponents = torch.cat([torch.arange(-140, 128), torch.arange(-12, 8).repeat_interleave(500)])
    sizes = torch.ldexp(1 + torch.rand(exponents.numel(), dtype=torch.float64), exponents)
    return torch.cat([sizes, -sizes, torch.tensor([0.0, -0.0])]).to(dtype)


@pytest.mark.parametrize(("brief_reals", "most"), [(["float"], 2.0**-17), ([], 2.4 * 2.0**-24)], ids=["brief", "exact"])
def test_gelu_is_a_function_by_itself_where_no_other_has_an_exponential(
    brief_reals: list[str], most: float, tmp_path: Path
) -> None:
    """Where both factors are the same operand: their places tell."""
    (product,) = re.findall(r"FN real mul_ndtr\(.*gg_gelu.*", rt._DEVICE_FUNCTIONS)
    functions = [rt._BITS, rt._brief_functions(brief_reals), rt._MATH, product]
    text = "#define FN static inline\n#define GG_ALONE\ntypedef float real;\n" + "\n".join(functions)
    for name, called in (("own", "mul_ndtr(x, x)"), ("other", "mul_ndtr(2 * x, x)")):
        text += f"""
        extern "C" void {name}(const float *of, float *found, long count) {{
            for (long k = 0; k < count; k++) {{
                const float x = of[k];
                found[k] = {called};
            }}
        }}"""
    library = compiled(text, tmp_path)
    x = every_magnitude(torch.float32)
    exact = x.double() * torch.erfc(-x.double() / math.sqrt(2)) / 2
    changed_by = x.double() * _mul_dgelu(torch.ones(1, dtype=torch.float64), x.double())
    size = torch.maximum(exact.abs(), changed_by.abs()).clamp(min=2.0**-126)
    for name, factor in (("own", 1), ("other", 2)):
        found = torch.empty_like(x)
        getattr(library, name)(
            ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(found.data_ptr()), ctypes.c_long(x.numel())
        )
        is_number = (factor * exact).to(torch.float32).isfinite()
        off = (found.double() - factor * exact).abs() / (factor * size)
        assert off[is_number].max() <= 2 * most
    special = torch.tensor([math.inf, -math.inf, math.nan, -0.0])
    found = torch.empty_like(special)
    library.own(ctypes.c_void_p(special.data_ptr()), ctypes.c_void_p(found.data_ptr()), ctypes.c_long(4))
    torch.testing.assert_close(found, torch.tensor([math.inf, 0, math.nan, 0]), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", BRIEF)
def test_brief_functions_are_off_by_little(
    name: str, brief: tuple[torch.dtype, str, str, Callable[..., Tensor]]
) -> None:
    dtype, language, real, call = brief
    x = every_magnitude(dtype)
    if name == "brief_inverse":
        x = x[(x >= 2.0**-100) & (x <= 2.0**100)]
    elif name in ("log", "log1p"):
        x = x[x > (0 if name == "log" else -1)]
    elif name == "log1p_unit":
        x = x[(x >= 0) & (x <= 1)]
    exact, found = BRIEF[name](x.double()), call(name, x).double()
    smallest, largest = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    is_beyond = exact.abs() > largest * (1 - MOST_OFF[real])
    assert (found.isinf() | (found.abs() > largest * (1 - 2 * MOST_OFF[real])))[is_beyond].all()
    scale = torch.ones_like(exact) if name == "log" else exact.abs()  # x times the derivative of log(x) is 1
    off = (found - exact).abs() / torch.maximum(scale, exact.abs()).clamp(min=smallest)
    off[(found == exact) | is_beyond] = 0
    over = off / most_off(name, language, real, x)
    assert over.max() <= 1, (x[over.argmax()], found[over.argmax()], exact[over.argmax()])
    assert torch.equal(found.signbit(), exact.signbit())
    for odd in {"brief_inverse": [], "log1p_unit": [math.nan]}.get(name, [math.nan, math.inf, -math.inf]):
        there = torch.tensor([odd])
        torch.testing.assert_close(call(name, there).double(), BRIEF[name](there.double()), equal_nan=True)


@pytest.mark.parametrize("name", PRODUCTS)
def test_brief_products_are_off_by_little(
    name: str, brief: tuple[torch.dtype, str, str, Callable[..., Tensor]]
) -> None:
    dtype, language, real, call = brief
    factors = [
        1.0,
        -3.0,
        1e-38,
        2.0**-140,
        1e30,
        -3e38,
    ]  # as far as float32 goes, below the smallest normal number, too
    t = every_magnitude(dtype)
    t = t[t.abs() < 700]  # where float64 has what the functions give
    smallest, largest = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
    for factor in factors:
        r = torch.full_like(t, factor)
        exact, found = PRODUCTS[name](r.double(), t.double()), call(name, r, t).double()
        near_zero = (t - ZEROS[name]).abs() < 0.3 if name in ZEROS else t.isnan()
        size = torch.maximum(exact.abs(), torch.where(near_zero, 0.2 * r.double().abs(), 0.0))
        off = (found - exact).abs() / size.clamp(min=smallest)
        is_beyond = exact.abs() > largest * (1 - MOST_OFF[real])
        assert (found.abs() > largest * (1 - 2 * MOST_OFF[real]))[is_beyond].all()
        off[(found == exact) | is_beyond] = 0
        is_rounded = real == "float" and abs(factor) < smallest  # as no more than bfloat16 has digits there
        over = off / (torch.tensor(2.0**-13) if is_rounded else most_off(name, language, real, t))
        assert over.max() <= 1, (factor, t[over.argmax()], found[over.argmax()], exact[over.argmax()])
    low, high = torch.tensor([-math.inf]), torch.tensor([math.inf])
    vanishing, growing = (high, low) if name == "mul_erfc" else (low, high)
    for factor in (0.0, 1.0, -3e38, math.inf, -math.inf):
        assert call(name, torch.tensor([factor]), vanishing) == 0
    assert call(name, torch.tensor([math.nan]), vanishing).isnan()
    if name == "mul_exp":
        assert call(name, torch.tensor([-2.0]), growing) == -math.inf
        assert call(name, torch.tensor([0.0]), growing).isnan()
        assert call(name, torch.tensor([0.0]), torch.tensor([5000.0])) == 0


# ---------------------------------------------------------------------------------------------------------------------
# Run on a GPU
# ---------------------------------------------------------------------------------------------------------------------


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
