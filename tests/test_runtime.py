"""The runtime beside the generated modules, tried with kernels written by hand."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gallery
import pytest
import torch
from devices import gpu
from torch import Tensor

from gradgen.render import render_shared

try:
    import nvrtc
except ImportError:  # no CuPy for this system
    nvrtc = None  # type: ignore[assignment]

TEMPLATES = Path(__file__).parents[1] / "templates"
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


# What the generator writes for swish, in short.
SWISH = '''
from typing import Any

import torch
from torch import Tensor

from . import _runtime as rt


def _forward(x, beta, wanted):
    return (x * rt.sigmoid(beta * x),)


def _backward(grad, x, beta, wanted):
    s = rt.sigmoid(beta * x)
    return (grad * (s + beta * x * s * (1 - s)),)


def _double_backward(ddx, grad, x, beta, wanted):
    s = rt.sigmoid(beta * x)
    slope = beta * s * (1 - s)
    return (
        ddx * (s + x * slope) if wanted[0] else None,
        ddx * grad * slope * (2 + beta * x * (1 - 2 * s)) if wanted[1] else None,
    )


forward = rt.Kernel(
    "swish",
    tensors=("x",),
    scalars={"beta": "float"},
    results=("y",),
    code="const real y = x * sigmoid(beta * x);",
    expression=_forward,
)
backward = rt.Kernel(
    "swish_backward",
    tensors=("grad", "x"),
    scalars={"beta": "float"},
    results=("dx",),
    code="""
        const real s = sigmoid(beta * x);
        const real dx = grad * (s + beta * x * s * (real(1) - s));
    """,
    expression=_backward,
)
double_backward = rt.Kernel(
    "swish_double_backward",
    tensors=("ddx", "grad", "x"),
    scalars={"beta": "float"},
    results=("dgrad", "dx"),
    code="""
        const real s = sigmoid(beta * x);
        const real slope = beta * s * (real(1) - s);
        const real dgrad = ddx * (s + x * slope);
        const real dx = ddx * grad * slope * (real(2) + beta * x * (real(1) - real(2) * s));
    """,
    expression=_double_backward,
)


class SwishBackward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(grad, x, beta):
        return backward((grad, x), (beta,))[0]

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        grad, x, ctx.beta = inputs
        ctx.save_for_backward(grad, x)

    @staticmethod
    def backward(ctx: Any, ddx):
        grad, x = ctx.saved_tensors
        return *double_backward((ddx, grad, x), (ctx.beta,), ctx.needs_input_grad[:2]), None


class SwishFunction(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, beta):
        return forward((x,), (beta,))[0]

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        x, ctx.beta = inputs
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad):
        (x,) = ctx.saved_tensors
        if grad is None:
            return None, None
        return SwishBackward.apply(grad, x, ctx.beta), None


def swish(x: Tensor, beta: float = 1.0) -> Tensor:
    (x,) = rt.check("swish", {"x": x})
    return SwishFunction.apply(x, rt.number("swish", "beta", "float", beta))
'''


def write_package(folder: Path) -> None:
    """A package `ops` in `folder`: the rendered runtime and swish."""
    package = folder / "ops"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "swish.py").write_text(SWISH)
    text = render_shared(TEMPLATES)["_runtime.py"]
    head = '_DEVICE_FUNCTIONS = r"""\n'
    assert head in text
    (package / "_runtime.py").write_text(
        text.replace(head, f"{head}FN double in_double(double x) {{ return x + 1e-12; }}\n")
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime")
    write_package(folder)
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, folder: Path, cache: Path) -> None:
    monkeypatch.setenv("GRADGEN_CACHE_DIR", str(cache))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def rt() -> Iterator[ModuleType]:
    """The runtime, freshly imported: it has warned of nothing and found no compiler yet."""
    forget()
    yield importlib.import_module("ops._runtime")
    forget()


@pytest.fixture
def ops(rt: ModuleType) -> ModuleType:
    return importlib.import_module("ops.swish")


def product(rt: ModuleType, **changes: Any) -> Any:
    """x * y + z, each used differently enough that mixing them up shows."""
    return rt.Kernel(
        **{
            "name": "product",
            "tensors": ("x", "y", "z"),
            "results": ("r",),
            "code": "const real r = x * y + z;",
            "expression": lambda x, y, z, wanted: (x * y + z,),
            **changes,
        }
    )


def identity(rt: ModuleType, **changes: Any) -> Any:
    return rt.Kernel(
        **{
            "name": "identity",
            "tensors": ("x",),
            "results": ("y",),
            "code": "const real y = x;",
            "expression": lambda x, wanted: (x,),
            **changes,
        }
    )


def paths_of(rt: ModuleType, call: Callable[[], Any]) -> list[str]:
    with rt.record_paths() as record:
        call()
    return [path for _, path in record]


# ---------------------------------------------------------------------------------------------------------------------
# The CPU path
# ---------------------------------------------------------------------------------------------------------------------


def filled(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    """Different values everywhere, from -4 to 4."""
    count = torch.Size(shape).numel()
    return torch.linspace(-4, 4, count, dtype=torch.float64).reshape(shape).to(device, dtype)


LAYOUTS: dict[str, Callable[..., Tensor]] = {
    "contiguous": lambda **k: filled(5, 7, **k),
    "transposed": lambda **k: filled(5, 7, **k).t(),
    "strided slice": lambda **k: filled(10, 21, **k)[::2, 1::3],
    "strided slice, transposed": lambda **k: filled(21, 10, **k).t()[::2, 1::3],
    "rows": lambda **k: filled(10, 8, **k)[::3],
    "expanded": lambda **k: filled(1, 7, **k).expand(5, 7),
    "all expanded": lambda **k: filled(1, **k).expand(3, 4),
    "channels last": lambda **k: filled(2, 3, 4, 5, **k).to(memory_format=torch.channels_last),
    "channels last, sliced": lambda **k: filled(2, 6, 4, 5, **k).to(memory_format=torch.channels_last)[:, ::2],
    "permuted": lambda **k: filled(2, 3, 4, 5, **k).permute(2, 0, 3, 1),
    "0-d": lambda **k: filled(**k),
    "one element": lambda **k: filled(1, 1, 1, **k),
    "empty": lambda **k: filled(3, 0, 2, **k),
    "offset": lambda **k: filled(40, **k)[3:],
    "overlapping": lambda **k: filled(20, **k).as_strided((4, 5), (2, 3)),
    "long rows": lambda **k: filled(3, 1000, **k)[:, ::2],
    "five dimensions": lambda **k: filled(2, 4, 3, 4, 5, **k)[:, ::2].transpose(0, 3),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_dtype(rt: ModuleType, ops: ModuleType, layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype=dtype)
    with rt.record_paths() as record:
        (y,) = ops.forward((x,), (1.5,))
    assert record == [("swish", "cpu")]
    exact = x.double() * torch.sigmoid(1.5 * x.double())
    torch.testing.assert_close(y, exact.to(dtype), rtol=6 * torch.finfo(dtype).eps, atol=1e-9)
    assert y.dtype is dtype
    assert y.shape == x.shape
    assert y.stride() == (x * 1).stride()


BROADCASTS = [
    [(4, 5), (4, 5), (4, 5)],
    [(4, 5), (5,), ()],
    [(4, 1), (5,), (3, 1, 1)],
    [(2, 3, 4), (2, 1, 4), (3, 1)],
    [(1,), (), (1, 1)],
    [(3, 1, 0), (2, 1), (1,)],
    [(2, 1, 2, 1), (3, 1, 4), (2, 1, 1, 4)],
]


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_broadcast(rt: ModuleType, shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    tensors = [filled(*shape, dtype=dtype) + k for k, shape in enumerate(shapes)]
    x, y, z = [tensor.double() for tensor in tensors]
    with rt.record_paths() as record:
        (r,) = product(rt)(tensors)
    assert record == [("product", "cpu")]
    torch.testing.assert_close(r, (x * y + z).to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
    assert r.shape == torch.broadcast_shapes(*shapes)
    assert r.is_contiguous()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_results_of_mixed_layouts_lie_as_those_of_torch(rt: ModuleType, order: tuple[int, ...]) -> None:
    layouts = filled(4, 6)[:, ::2], filled(3, 4).t(), filled(3, 1).t().expand(4, 3) + 1
    x, y, z = (layouts[k] for k in order)
    (r,) = product(rt)((x, y, z))
    torch.testing.assert_close(r, x * y + z)
    assert r.stride() == (x * y + z).stride()


def test_shapes_that_do_not_broadcast(rt: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="must match the size"):
        product(rt)((filled(3), filled(4), filled(4)))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ((torch.float16, torch.bfloat16, torch.float16), torch.float32),
        ((torch.float32, torch.float64, torch.float16), torch.float64),
        ((torch.float16, torch.float16, torch.float32), torch.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_promotion(rt: ModuleType, dtypes: tuple[torch.dtype, ...], expected: torch.dtype, path: str) -> None:
    x, y, z = [torch.full((3,), 0.5 + k, dtype=dtype) for k, dtype in enumerate(dtypes)]
    zero_d = torch.tensor(2.5, dtype=torch.float64)
    force = rt.force_path("torch") if path == "torch" else warnings.catch_warnings()
    with rt.record_paths() as record, force:
        (r,) = product(rt)((x, y, z))
        (s,) = product(rt)((x, x, zero_d))
    assert {path for _, path in record} == {path}
    assert r.dtype is expected
    assert r.tolist() == [0.5 * 1.5 + 2.5] * 3
    assert s.dtype is dtypes[0]  # a 0-d tensor does not promote one with dimensions
    assert s.tolist() == [0.5 * 0.5 + 2.5] * 3


def test_scalars_arrive_by_kind(rt: ModuleType) -> None:
    kernel = identity(
        rt,
        name="scalars",
        scalars={"a": "float", "n": "int", "flag": "bool"},
        code="const real y = flag ? x * a : x * n;",
        expression=lambda x, a, n, flag, wanted: (x * a if flag else x * n,),
    )
    x = filled(3, dtype=torch.float64)
    for flag, factor in ((True, 0.1), (False, 3)):
        assert torch.equal(kernel((x,), (0.1, 3, flag))[0], x * factor)
        with rt.force_path("torch"):
            assert torch.equal(kernel((x,), (0.1, 3, flag))[0], x * factor)


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_half_precision_is_computed_in_float(rt: ModuleType, path: str) -> None:
    kernel = identity(
        rt, name="square", code="const real y = x * x * real(1e-3);", expression=lambda x, wanted: (x * x * 1e-3,)
    )
    with rt.force_path("torch") if path == "torch" else rt.record_paths():
        (y,) = kernel((torch.full((3,), 1000.0, dtype=torch.float16),))
    assert y.tolist() == [1000.0] * 3  # the square alone is beyond float16
    assert y.dtype is torch.float16


def test_helpers_may_compute_in_double(rt: ModuleType) -> None:
    kernel = identity(rt, name="double", code="const real y = real((in_double(x) - x) * 1e12);")
    assert kernel((torch.ones(3),))[0].tolist() == pytest.approx([1.0] * 3, rel=1e-3)


def test_names_that_headers_define(rt: ModuleType) -> None:
    names = ("I", "i", "n", "linux", "unix", "complex", "index", "count", "data", "step", "value", "_ind", "T")
    kernel = identity(
        rt,
        name="names",
        tensors=names,
        code=f"const real y = {' + '.join(names)};",
        expression=lambda *a: (sum(a[:-1]),),
    )
    assert paths_of(rt, lambda: kernel([filled(3)] * len(names))) == ["cpu"]
    assert kernel([filled(3)] * len(names))[0].tolist() == (filled(3) * len(names)).tolist()


# What is given and what is wanted


def mixed(rt: ModuleType) -> Any:
    """Two results; the second reads only `y`, and asks whether `w` is there."""

    def expression(x: Tensor, y: Tensor, w: Tensor | None, wanted: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        return (x + y if wanted[0] else None, (y * w if w is not None else y - 1) if wanted[1] else None)

    return rt.Kernel(
        "mixed",
        tensors=("x", "y", "w"),
        optional=("w",),
        results=("a", "b"),
        code="const real a = x + y;\nconst real b = has_w ? y * w : y - real(1);",
        expression=expression,
    )


@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False), None], ids=str)
def test_wanted_and_present(
    rt: ModuleType, wanted: tuple[bool, bool] | None, dtype: torch.dtype, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = mixed(rt)
    allocated = []
    allocate = rt._allocate

    def spy(inputs: Any, shape: Any, shapes: Any) -> Any:
        allocated.append(len(shapes))
        return allocate(inputs, shape, shapes)

    monkeypatch.setattr(rt, "_allocate", spy)
    values = {"x": filled(2, 3, dtype=dtype), "y": filled(3, dtype=dtype) + 1, "w": filled(2, 1, dtype=dtype) - 2}
    for present in itertools.product([True, False], repeat=3):
        tensors = [value if there else None for value, there in zip(values.values(), present, strict=True)]
        x, y, w = [torch.zeros((), dtype=dtype) if tensor is None else tensor for tensor in tensors]
        shape = torch.broadcast_shapes(*[tensor.shape for tensor in tensors if tensor is not None])
        with rt.record_paths() as record, rt.force_path("torch") if path == "torch" else rt.record_paths():
            results = kernel(tensors, (), wanted)
        if not any(present):
            assert results == (None, None)
            continue
        assert record == [("mixed", path if wanted is None or any(wanted) else "torch")]
        exact = (x.double() + y.double(), y.double() * w.double() if present[2] else y.double() - 1)
        for result, value, want in zip(results, exact, wanted or (True, True), strict=True):
            assert (result is not None) == want
            if result is not None:
                assert result.shape == shape
                assert result.dtype is dtype
                torch.testing.assert_close(result, value.to(dtype).expand(shape))
    if path == "cpu" and wanted != (False, False):
        assert set(allocated) == {sum(wanted or (True, True))}


def test_one_kernel_serves_every_combination(rt: ModuleType) -> None:
    kernel = mixed(rt)
    values = (filled(3), filled(3) + 1, filled(3) - 2)
    for _ in range(2):
        for dtype, *chosen in itertools.product([torch.float32, torch.bfloat16], *[[True, False]] * 3):
            tensors = [
                value.to(dtype) if there else None for value, there in zip(values, (chosen[0], True, True), strict=True)
            ]
            wanted = tuple(chosen[1:])
            with rt.force_path("torch"):
                expected = kernel(tensors, (), wanted)
            for result, value in zip(kernel(tensors, (), wanted), expected, strict=True):
                assert (result is None) == (value is None)
                if result is not None:
                    torch.testing.assert_close(result, value)


def test_unwanted_results_are_not_computed(rt: ModuleType) -> None:
    source = mixed(rt).cpu_source(torch.float32, (True, True, False), (False, True))
    assert "gg_out_b[gg_i] = gg_store(b);" in source
    assert "gg_out_a" not in source
    assert "const real w = real(0);" in source
    assert "enum { has_w = 0 };" in source


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_no_result_is_an_input(rt: ModuleType, path: str) -> None:
    x = filled(3)
    with rt.force_path("torch") if path == "torch" else rt.record_paths():
        (y,) = identity(rt)((x,))
    assert y.data_ptr() != x.data_ptr()
    assert torch.equal(x, y)


# Conversions


every_conversion = pytest.mark.parametrize(
    ("dtype", "compiler"),
    [
        (torch.bfloat16, "cc"),
        (torch.float16, "cc"),
        (torch.float16, "cc -U__FLT16_MAX__ -U__F16C__"),  # by the bits
        (torch.float16, "cc -DGG_HALF_BY_TYPE"),  # by the compiler, where it knows the type
    ],
    ids=["bfloat16", "float16", "float16 by bits", "float16 by type"],
)
ALL_16_BITS = torch.arange(-(2**15), 2**15, dtype=torch.int16)


def bits(tensor: Tensor) -> Tensor:
    """The bits, NaNs made one: their payload is nobody's business."""
    return torch.where(tensor.isnan(), torch.tensor(-1, dtype=torch.int16), tensor.view(torch.int16))


@every_conversion
def test_conversions_for_all_bit_patterns(
    rt: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, compiler: str
) -> None:
    monkeypatch.setenv("CC", compiler)
    kernel = identity(
        rt,
        name="scaled",
        scalars={"factor": "float"},
        code="const real y = x * factor;",
        expression=lambda x, f, w: (x * f,),
    )
    x = ALL_16_BITS.view(dtype)
    # Exact; ties and their neighbours; roundings of all sorts; subnormal results; overflow.
    for factor in (1.0, 1 + 2**-11, 1 + 2**-8, 1 - 2**-12, 1.5, 0.3, 2.0**-10, 1.1 * 2**-14, 3e-5, 2.0**-24, 3.0, 1e4):
        assert paths_of(rt, lambda f=factor: kernel((x,), (f,))) == ["cpu"]
        (y,) = kernel((x,), (factor,))
        assert torch.equal(bits(y), bits((x.float() * torch.tensor(factor, dtype=torch.float32)).to(dtype)))


@every_conversion
def test_results_of_halves_end_where_they_end(
    rt: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, compiler: str
) -> None:
    """Whatever the count beside vectors and strips that they are converted in, and written over their input, too."""
    monkeypatch.setenv("CC", compiler)
    kernel = identity(rt, name="halves")
    for count in (1, 7, 8, 9, 255, 256, 257, 300, 519):
        around = torch.full((count + 16,), 77.0, dtype=dtype)
        x = around[8:-8].copy_(torch.randn(count).to(dtype))
        expected = x.clone()
        assert torch.equal(kernel((x,))[0], expected)
        dense = torch.full((count,), 77.0, dtype=dtype).copy_(x)
        kernel._run_fused("cpu", (dense,), (), (True,), None, [around[8:-8]])
        assert torch.equal(around[8:-8], expected)
        assert around[:8].eq(77.0).all()
        assert around[-8:].eq(77.0).all()
        assert torch.equal(kernel.overwrite(dense), expected)


@every_conversion
def test_no_nan_is_rounded_away(
    rt: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, compiler: str
) -> None:
    """The one with most digits, and the ones with a single digit: a quiet one, and the least that bfloat16 has."""
    monkeypatch.setenv("CC", compiler)
    bits = "x > real(0) ? 0x7fffffffu : x < real(0) ? 0xff810000u : 0x7fc00000u"
    kernel = identity(rt, name="nans", code=f"const real y = gg_float_of({bits});")
    assert kernel((torch.tensor([1.0, -1.0, 0.0], dtype=dtype),))[0].isnan().all()


def test_subnormals_and_special_values_survive(rt: ModuleType) -> None:
    for dtype in DTYPES:
        info = torch.finfo(dtype)
        x = torch.tensor([info.smallest_normal, info.max, float("inf"), -float("inf"), float("nan"), -0.0], dtype=dtype)
        x = torch.cat([x, x[:1] * info.eps])
        (y,) = identity(rt)((x,))
        torch.testing.assert_close(y, x, rtol=0, atol=0, equal_nan=True)
        assert y[5].signbit()
        assert y[6] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exponentials_are_the_same_alone_and_beside_products(rt: ModuleType, dtype: torch.dtype) -> None:
    """Of other parts, for the sake of time: the last product alone is rounded in both."""
    alone = identity(rt, name="alone", code="const real y = exp(x);")
    beside = identity(rt, name="beside", code="const real two = mul_exp(real(2), x), y = two < 0 ? x : exp(x);")
    assert "#define GG_BESIDE_MUL_EXP" in beside.cpu_source(dtype)
    assert "#define GG_BESIDE_MUL_EXP" not in alone.cpu_source(dtype)
    bits = torch.randint(-(2**31), 2**31, (2_000_000,), generator=torch.Generator().manual_seed(0))
    spread = bits.to(torch.int32).view(torch.float32).to(dtype)
    dense = torch.linspace(-760, 720, 2_000_001, dtype=dtype)
    near = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, -103.97208, -745.1332, 88.72284, 709.7828])
    x = torch.cat([spread, dense, dense / 7, near.to(dtype), torch.nextafter(near, torch.zeros(9)).to(dtype)])
    found, expected = alone((x,))[0], beside((x,))[0]
    assert torch.equal(found.isnan(), x.isnan())
    assert torch.equal(found.nan_to_num(nan=-1), expected.nan_to_num(nan=-1))


@pytest.mark.parametrize("narrow_at", [{}, {"s": 1.0}])
def test_types_of_16_bits_have_it_where_hyper_parameters_have_their_defaults(
    rt: ModuleType, narrow_at: dict[str, float]
) -> None:
    """By Python, by C++ and in place."""
    kernel = identity(
        rt,
        scalars={"s": "float"},
        code="const real y = x + 0 * s;",
        forms=(rt.Form(("bfloat16", "float16"), "const real y = 2 * x + 0 * s;"),),
        forms_at={"s": 1.0},
        narrow_at=narrow_at,
        wide=("bfloat16",),
    )
    for dtype, scalar in itertools.product((torch.bfloat16, torch.float16, torch.float32), (0.5, 1.0)):
        factor = 2 if scalar == 1 and dtype is not torch.float32 else 1
        for _ in range(3):
            x = filled(3, 5, dtype=dtype)
            assert torch.equal(kernel((x,), (scalar,))[0], factor * x)
            assert torch.equal(kernel.overwrite(x.clone(), (scalar,)), factor * x)
    assert kernel.real(torch.bfloat16) == "double"
    assert kernel.narrow.real(torch.bfloat16) == "float"


def test_corrections_are_left_where_nothing_is_rounded(rt: ModuleType) -> None:
    """At the values for which scalars have none, in the types that are named; by Python, by C++ and in place."""
    code = "const real y = s * x, y_error = product_error(s, x, y), out = corrected(y, y_error + 1);"
    kernel = identity(
        rt, scalars={"s": "float"}, results=("out",), code=code, narrow_at={"s": 1.0}, plain_at=("float64",)
    )
    for dtype, scalar in itertools.product((torch.float64, torch.float32), (0.5, 1.0)):
        lost = 0 if scalar == 1 and dtype is torch.float64 else 1
        for _ in range(3):
            x = filled(3, 5, dtype=dtype)
            assert torch.equal(kernel((x,), (scalar,))[0], scalar * x + lost)
            assert torch.equal(kernel.overwrite(x.clone(), (scalar,)), scalar * x + lost)


def test_types_may_have_a_text_of_their_own(rt: ModuleType) -> None:
    """On the CPU by Python and by C++, for CUDA, and where hyper-parameters have their defaults."""
    types = ("float32", "bfloat16", "float16")
    kernel = identity(
        rt,
        scalars={"s": "float"},
        code="const real y = x + 0 * s;",
        forms=(rt.Form(types[1:], "const real y = 2 * x + 0 * s;"),),
        narrow_at={"s": 1.0},
        wide=types,
        moderate=dict.fromkeys(types, 2.0**6),
    )
    for dtype, factor in ((torch.bfloat16, 2), (torch.float16, 2), (torch.float32, 1), (torch.float64, 1)):
        x = filled(3, 5, dtype=dtype)
        for scalar, turn in itertools.product((0.5, 1.0), range(3)):
            assert torch.equal(kernel((x,), (scalar,))[0], factor * x), turn
        for text in (kernel.cuda_rows_source(dtype), kernel.cuda_strided_source(dtype)):
            assert ("y = 2 * x" in text) == (factor == 2)
            assert ("typedef double real;" in text) == (factor == 1)


def test_a_text_of_their_own_may_be_in_double(rt: ModuleType) -> None:
    """For types that no kernel of float would serve, with functions of few digits where these do."""
    code = "const real y = exp(x);"
    forms = (rt.Form(("float32",), "const real y = exp(x) + real(0x1p-40);", wide=True, brief=True),)
    kernel = identity(rt, code=code, forms=forms, wide=("bfloat16",), moderate={"float32": 2.0**6})
    assert [kernel.real(dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16)] == [
        "double",
        "double",
        "float",
    ]
    source = kernel.cpu_source(torch.float32)
    assert "0x1p-40" in source
    assert source.count("GG_BRIEF") > kernel.cpu_source(torch.bfloat16).count("GG_BRIEF")
    for text in (kernel.cuda_rows_source(torch.float32), kernel.cuda_strided_source(torch.float32)):
        assert "typedef double real;" in text
        assert "gg_is_moderate" not in text.split("gg_element")[-1]
    x = filled(300)
    torch.testing.assert_close(kernel((x,))[0], x.exp())


# Elements that need double beside others that do not


def mixed_arithmetic(rt: ModuleType, dtype: torch.dtype, **changes: Any) -> Any:
    """0 in float, 2**-10 in double, for x of up to 2**30 but -1."""
    return identity(
        rt,
        **{
            "name": "lost",
            "scalars": {"s": "float"},
            "code": "const real sum = 1 + x, y = ((sum + real(0x1p-30)) - sum) * real(0x1p20) + 0 * s;",
            "wide": (str(dtype).removeprefix("torch."),),
            "moderate": {str(dtype).removeprefix("torch."): 2.0**6},
            **changes,
        },
    )


def numbers_of_any_size(count: int, dtype: torch.dtype, share: float = 1 / 3) -> tuple[Tensor, Tensor]:
    """Numbers, a share of which are not moderate, with the largest and least that are, and what comes of them."""
    wide = [64.5, -65.0, 2.0**-41, -(2.0**-50), 1000.0]
    some = torch.tensor([*wide, 0.0, -0.0, 64.0, -64.0, 2.0**-40, 1.0, 3.0, 0.1, 7.5, 0.25])
    generator = torch.Generator().manual_seed(count)
    which = torch.randint(len(wide), len(some), (count,), generator=generator)
    which = torch.where(torch.rand(count, generator=generator) < share, which % len(wide), which)
    x = some[which].to(dtype)  # of which float16 has no very small ones
    return x, torch.where((which < len(wide)) & (x != 0), 2.0**-10, 0.0).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("count", [1, 7, 511, 513, 5000, 200_000])
@pytest.mark.parametrize("share", [0.004, 0.3, 0.7, 1.0], ids=["some", "many", "most", "all"])
def test_every_element_has_the_arithmetic_that_it_needs(
    rt: ModuleType, dtype: torch.dtype, count: int, share: float
) -> None:
    """Whatever its neighbours need, in as many threads as there are, and in place."""
    kernel = mixed_arithmetic(rt, dtype)
    x, expected = numbers_of_any_size(count, dtype, share)
    x[600:1800], expected[600:1800] = 2.5, 0  # whole stretches of the C code
    for _ in range(3):  # by Python, then by the dispatcher
        assert torch.equal(kernel((x,), (1.0,))[0], expected)
    assert torch.equal(kernel((x.repeat_interleave(2)[::2],), (0.0,))[0], expected)
    assert torch.equal(kernel.overwrite(x.clone(), (1.0,)), expected)
    moderate = torch.full((count,), 2.5, dtype=dtype)
    assert not kernel((moderate,), (1.0,))[0].any()
    itself = mixed_arithmetic(rt, dtype, code="const real y = x + 0 * s;")
    assert torch.equal(itself((x,), (1.0,))[0], x)


def test_it_has_so_however_operands_lie(rt: ModuleType) -> None:
    code = "const real sum = 1 + x + 0 * y, r = ((sum + real(0x1p-30)) - sum) * real(0x1p20);"
    kernel = mixed_arithmetic(rt, torch.float32, tensors=("x", "y"), results=("r",), scalars={}, code=code)
    x, expected = (numbers.view(700, 300) for numbers in numbers_of_any_size(210_000, torch.float32))
    ones, row = torch.ones(700, 300), torch.ones(300)
    row[::7] = 100
    assert torch.equal(kernel((x.t().contiguous().t(), ones))[0], expected)  # across
    assert torch.equal(kernel((x[:, ::3], ones[:, ::3].contiguous()))[0], expected[:, ::3])
    assert torch.equal(kernel((x, row))[0], torch.where(row > 64, 2.0**-10, expected))
    assert torch.equal(kernel((ones[:, :1], row))[0], torch.where(row > 64, 2.0**-10, 0.0).expand(700, 300))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_double_is_for_infinities_and_for_scalars_that_are_not_moderate(rt: ModuleType, dtype: torch.dtype) -> None:
    code = "const real y = ((1 + real(0x1p-30)) - 1) * real(0x1p20) + (x - x < 0 ? x : 0) + 0 * s;"
    kernel = mixed_arithmetic(rt, dtype, code=code)
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0, 3.0], dtype=dtype)
    for _ in range(2):
        assert kernel((x,), (1.0,))[0].tolist() == [2.0**-10] * 3 + [0, 0]
        for scalar in (65.0, -1e9, 2.0**-41, 1e-50):
            assert kernel((x,), (scalar,))[0].tolist() == [2.0**-10] * 5


@pytest.mark.parametrize(
    ("size", "dtype", "bits"),
    [
        (8.0, torch.float32, 0x41000000),
        (8.0, torch.bfloat16, 0x41000000),
        (8.0, torch.float16, 0x48000000),
        (2.0**40, torch.float16, 0x7BFF0000),  # the largest one, not infinity
        (2.0**-40, torch.float16, 0x00010000),  # the least one, not 0
        (2.0**-40, torch.bfloat16, 0x2B800000),
    ],
)
def test_bounds_are_compared_by_their_bits(rt: ModuleType, size: float, dtype: torch.dtype, bits: int) -> None:
    with torch.device("meta"):  # a default device is for the user
        assert rt._bits_of(size, dtype) == bits


def test_one_input_that_is_not_moderate_is_enough(rt: ModuleType) -> None:
    code = "const real sum = 1 + x + 0 * y, a = ((sum + real(0x1p-30)) - sum) * 0x1p20, b = 2 * a;"
    options = {"tensors": ("x", "y"), "scalars": {}, "results": ("a", "b"), "code": code}
    one, large = torch.ones(3), torch.tensor([1.0, 100.0, 0.0])
    for result, factor in zip(mixed_arithmetic(rt, torch.float32, **options)((one, large)), (1, 2), strict=True):
        assert result.tolist() == [0, factor * 2.0**-10, 0]
    half = mixed_arithmetic(rt, torch.float16, **options)
    assert half((one.half(), large.half()))[0].tolist() == [0, 2.0**-10, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(), (300,), (700, 1), (3,)], ids=str)
def test_terms_of_sums_have_so_too(rt: ModuleType, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Beside a result that is none; each term is of double, and is added there."""
    code = "const real sum = 1 + x, y = ((sum + real(0x1p-30)) - sum) * real(0x1p20) + 0 * s, z = 4 * y;"
    kernel = mixed_arithmetic(rt, dtype, code=code, results=("y", "z"))
    x, expected = (
        numbers.view(-1, shape[-1] if shape == (3,) else 300) for numbers in numbers_of_any_size(210_000, dtype)
    )
    x[:100], expected[:100] = 2.5, 0  # whole stretches of the C code
    shapes = [x.shape, torch.Size(shape)]
    for wanted in ((True, True), (False, True)):
        y, z = kernel((x,), (1.0,), wanted, shapes)
        assert y is None or torch.equal(y, expected)
        assert torch.equal(z, (4 * expected.double()).sum_to_size(shape).to(dtype))


# Threads and size


def test_threads_share_the_work(rt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(rt, "_GRAIN", 1)
    kernel = product(rt)
    try:
        for count, layout in itertools.product((1, 2, 3, 7, 16), LAYOUTS):
            torch.set_num_threads(count)
            x = LAYOUTS[layout](dtype=torch.float64)
            y, z = x.flip(0) if x.dim() else x + 1, filled(x.shape[-1] if x.dim() else 1, dtype=torch.float64)
            (r,) = kernel((x, y, z))
            torch.testing.assert_close(r, (x * y + z).reshape(r.shape), rtol=1e-15, atol=1e-15)
    finally:
        torch.set_num_threads(threads)


def test_number_of_threads(rt: ModuleType) -> None:
    """Each part is begun with a pause, in which the other threads find the other parts."""
    declared = "extern int usleep(unsigned);\nextern unsigned long pthread_self(void);"
    code = f"{declared}\nif (gg_i == 0) usleep(50000);\nconst real y = real(pthread_self() >> 8);"
    kernel = identity(rt, name="who", code=code)
    threads = torch.get_num_threads()
    try:
        for allowed, size, expected in (
            (3, 2 * 32768 - 1, 1),
            (3, 2 * 32768, 2),
            (3, 10 * 32768, 3),
            (1, 10 * 32768, 1),
        ):
            torch.set_num_threads(allowed)
            (y,) = kernel((torch.zeros(size, dtype=torch.float64),))
            _, shares = y.unique(return_counts=True)
            assert len(shares) == expected
            assert shares.max() - shares.min() <= 1
    finally:
        torch.set_num_threads(threads)


def test_strides_beyond_32_bits(rt: ModuleType) -> None:
    memory = torch.empty(2**32 + 8, dtype=torch.bfloat16)  # 8 GiB of addresses, a thousand pages of memory
    x = memory[:: 2**22]
    x.copy_(torch.arange(1025) % 256)
    assert identity(rt)((x,))[0].tolist() == x.tolist()
    assert identity(rt)((memory[2**32 :].fill_(5),))[0].tolist() == [5] * 8


@pytest.mark.slow
def test_more_than_2_to_the_31_elements(rt: ModuleType) -> None:
    x = torch.ones(1, dtype=torch.bfloat16).expand(2**31 + 9)
    (y,) = identity(rt)((x,))
    assert y[-9:].tolist() == [1] * 9
    y[-1] = 2
    (z,) = identity(rt)((y,))
    assert z[-2:].tolist() == [1, 2]


def test_many_threads_of_python_at_once(rt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    library = rt._library

    def slow_library(*arguments: str) -> Any:
        built.append(arguments)
        time.sleep(0.05)
        return library(*arguments)

    monkeypatch.setattr(rt, "_library", slow_library)
    kernel = identity(rt, name="crowd", code="const real y = x + real(1);")
    barrier = threading.Barrier(8)
    results = []

    def run() -> None:
        barrier.wait()
        for _ in range(50):
            results.append(kernel((torch.ones(10),))[0].sum().item())

    workers = [threading.Thread(target=run) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [20.0] * 400
    assert sorted(name for name, _ in built) == ["common", "crowd"]


# ---------------------------------------------------------------------------------------------------------------------
# Which path
# ---------------------------------------------------------------------------------------------------------------------


class Sub(Tensor):
    pass


def test_plain_tensors_take_the_cpu_path(rt: ModuleType, ops: ModuleType) -> None:
    x = filled(4)
    with torch.inference_mode():
        made_in_inference = filled(4)
        assert paths_of(rt, lambda: ops.forward((made_in_inference,), (1.0,))) == ["cpu"]
    parameter = torch.nn.Parameter(x)
    with torch.no_grad():
        assert paths_of(rt, lambda: ops.forward((parameter,), (1.0,))) == ["cpu"]
    negative = torch._neg_view(x)
    assert paths_of(rt, lambda: ops.forward((negative,), (1.0,))) == ["cpu"]
    assert torch.equal(ops.forward((negative,), (1.0,))[0], ops.forward((-x,), (1.0,))[0])


def test_grad_mode_takes_the_torch_path_and_is_differentiable(rt: ModuleType, ops: ModuleType) -> None:
    x = filled(4, dtype=torch.float64).requires_grad_()
    assert paths_of(rt, lambda: ops.forward((x,), (1.0,))) == ["torch"]
    assert torch.autograd.gradcheck(lambda x: ops.forward((x,), (1.3,))[0], x)


def _in_fake_mode(call: Callable[[Tensor], Any]) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        call(mode.from_tensor(filled(4)))


def _in_dispatch_mode(call: Callable[[Tensor], Any]) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Mode.seen += 1
            return func(*args, **(kwargs or {}))

    with Mode():
        call(filled(4))
    assert Mode.seen


def _in_forward_ad(call: Callable[[Tensor], Any]) -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        call(forward_ad.make_dual(filled(4), torch.ones(4)))


def _in_functionalize(call: Callable[[Tensor], Any]) -> None:
    torch.func.functionalize(call)(filled(4))


def _functional_wrapper(call: Callable[[Tensor], Any]) -> None:
    call(torch._to_functional_tensor(filled(4)))


def _in_jit_trace(call: Callable[[Tensor], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(call, filled(4), check_trace=False)


WATCHED: dict[str, Callable[[Callable[[Tensor], Any]], Any]] = {
    "subclass": lambda call: call(filled(4).as_subclass(Sub)),
    "meta": lambda call: call(filled(4).to("meta")),
    "zero tensor": lambda call: call(torch._efficientzerotensor((4,))),
    "fake": _in_fake_mode,
    "dispatch mode": _in_dispatch_mode,
    "vmap": lambda call: torch.func.vmap(call)(filled(3, 4)),
    "grad": lambda call: torch.func.grad(lambda x: call(x).sum())(filled(4)),
    "jvp": lambda call: torch.func.jvp(call, (filled(4),), (filled(4),)),
    "forward AD": _in_forward_ad,
    "functionalize": _in_functionalize,
    "functional": _functional_wrapper,
    "jit.trace": _in_jit_trace,
    "sparse": lambda call: call(filled(4).to_sparse()),
    "mkldnn": lambda call: call(filled(4).to_mkldnn()),
    "complex": lambda call: call(filled(4) * 1j),
}


@pytest.mark.parametrize("case", WATCHED)
def test_everything_else_takes_the_torch_path(rt: ModuleType, case: str) -> None:
    kernel = identity(rt, name="double", code="const real y = x + x;", expression=lambda x, wanted: (x + x,))
    with rt.record_paths() as record:
        WATCHED[case](lambda x: kernel((x,))[0])
    assert record
    assert {path for _, path in record} == {"torch"}


def test_a_plain_tensor_beside_another_kind_takes_the_torch_path(rt: ModuleType) -> None:
    tensors = (filled(4), filled(4).as_subclass(Sub), filled(4))
    assert paths_of(rt, lambda: product(rt)(tensors)) == ["torch"]
    assert type(product(rt)(tensors)[0]) is Sub


def test_force_path_concerns_this_thread_only(rt: ModuleType, ops: ModuleType) -> None:
    x = filled(4)
    with rt.force_path("torch"):
        assert paths_of(rt, lambda: ops.forward((x,), (1.0,))) == ["torch"]
        with rt.record_paths() as record:
            worker = threading.Thread(target=lambda: ops.forward((x,), (1.0,)))
            worker.start()
            worker.join()
        assert record == [("swish", "cpu")]
    assert paths_of(rt, lambda: ops.forward((x,), (1.0,))) == ["cpu"]
    with pytest.raises(ValueError, match="torch"), rt.force_path("gpu"):
        pass


# ---------------------------------------------------------------------------------------------------------------------
# Autograd, transforms, compilation, through a module like a generated one
# ---------------------------------------------------------------------------------------------------------------------


def test_gradients_of_both_orders(rt: ModuleType, ops: ModuleType) -> None:
    x = filled(3, 4, dtype=torch.float64).t().requires_grad_()
    with rt.record_paths() as record:
        assert torch.autograd.gradcheck(lambda x: ops.swish(x, 1.3), x)
        assert torch.autograd.gradgradcheck(lambda x: ops.swish(x, 1.3), x)
    assert set(record) == {(name, "cpu") for name in ("swish", "swish_backward", "swish_double_backward")}


def test_transforms(rt: ModuleType, ops: ModuleType) -> None:
    x = filled(3, 4, dtype=torch.float64)
    expected = torch.stack([ops.swish(row, 1.3) for row in x])
    torch.testing.assert_close(torch.func.vmap(lambda row: ops.swish(row, 1.3))(x), expected)

    def slope(x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: ops.swish(x, 1.3).sum())(x)

    s = torch.sigmoid(1.3 * x)
    torch.testing.assert_close(slope(x), s + 1.3 * x * s * (1 - s))
    torch.testing.assert_close(torch.func.vmap(slope)(x), slope(x))
    hessian = torch.func.hessian(lambda x: torch.nn.functional.silu(x).sum())(x[0])
    jacobian = torch.func.jacrev(torch.func.grad(lambda x: ops.swish(x).sum()))(x[0])
    torch.testing.assert_close(jacobian, hessian)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compile_without_graph_breaks(rt: ModuleType, ops: ModuleType, dtype: torch.dtype) -> None:
    compiled = torch.compile(lambda x: ops.swish(x, 1.3).sum(), fullgraph=True, backend="aot_eager")
    x = filled(3, 4, dtype=dtype).requires_grad_()
    (grad,) = torch.autograd.grad(compiled(x), x)
    (expected,) = torch.autograd.grad(ops.swish(x, 1.3).sum(), x)
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(compiled(x), ops.swish(x, 1.3).sum(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(grad, expected, rtol=tolerance, atol=tolerance)
    torch._dynamo.reset()


def test_compile_with_masks_promotion_and_broadcast(rt: ModuleType) -> None:
    kernel = mixed(rt)

    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    def run(x: Tensor, y: Tensor, fixed: Tensor) -> Any:
        x, y, fixed = rt.check("op", {"x": x, "y": y, "fixed": fixed}, fixed=("fixed",))
        return kernel((x, None, y), (), (True, True)), fixed

    for rows in (3, 5):
        (a, b), mask = run(filled(rows, 2), filled(2, dtype=torch.float16), torch.ones(rows, 1, dtype=torch.bool))
        assert (a.shape, b.shape) == ((rows, 2), (rows, 2))
        torch.testing.assert_close(a, filled(rows, 2))
        assert mask.dtype is torch.float32
    torch._dynamo.reset()


def test_compilers_are_shown_no_sets(rt: ModuleType) -> None:
    """Within a function that torch 2.6 or 2.8 compiles, `in` of a frozenset of types or dtypes is an error."""
    sets = (set, frozenset)
    assert {name for name, value in vars(rt).items() if isinstance(value, sets)} == {"_vectorised", "_warned"}
    assert not [name for name, value in vars(mixed(rt)).items() if isinstance(value, sets)]


def test_export_by_tracing(ops: ModuleType) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: ops.swish(x, 2.0))(filled(3))
    torch.testing.assert_close(graph(filled(4)), ops.swish(filled(4), 2.0))


def test_distributed_tensors(folder: Path, tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("torch without distributed")
    run_python(
        folder,
        f"""
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Shard, distribute_tensor
        from ops import swish
        torch.distributed.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
        x = torch.linspace(-2, 2, 12).reshape(4, 3)
        d = distribute_tensor(x.clone(), init_device_mesh("cpu", (1,)), [Shard(0)]).requires_grad_()
        y = swish.swish(d, 1.3)
        assert isinstance(y, DTensor), type(y)
        y.sum().backward()
        torch.testing.assert_close(y.full_tensor().detach(), swish.swish(x, 1.3))
        x.requires_grad_()
        swish.swish(x, 1.3).sum().backward()
        torch.testing.assert_close(d.grad.full_tensor(), x.grad)
        torch.distributed.destroy_process_group()
        """,
    )


# ---------------------------------------------------------------------------------------------------------------------
# The cache on disk, and what happens without it
# ---------------------------------------------------------------------------------------------------------------------


def use_swish() -> tuple[set[str], list[str]]:
    """The paths and the warnings of computing with two kernels, twice; the runtime is as in a new process."""
    forget()
    swish = importlib.import_module("ops.swish")
    x = torch.linspace(-3, 3, 50, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, swish.rt.record_paths() as record:
        warnings.simplefilter("always")
        for _ in range(2):
            y = swish.swish(x, 1.5)
            (grad,) = torch.autograd.grad(y.sum(), x)
    s = torch.sigmoid(1.5 * x)
    torch.testing.assert_close(y, x * s)
    torch.testing.assert_close(grad, s + 1.5 * x * s * (1 - s))
    assert {warning.category for warning in caught} <= {RuntimeWarning}
    return {path for _, path in record}, [str(warning.message) for warning in caught]


def forget() -> None:
    """Has the next import of the runtime start afresh."""
    for name in [name for name in sys.modules if name.split(".")[0] == "ops"]:
        del sys.modules[name]


def run_python(folder: Path, code: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


LIBRARIES = 3  # forward, backward and the dispatcher


def libraries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.so"))


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for compiled kernels that is not there yet, nor is its parent."""
    cache = tmp_path / "own" / "cache"
    monkeypatch.setenv("GRADGEN_CACHE_DIR", str(cache))
    return cache


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each compilation."""
    log = tmp_path / "compilations"
    log.touch()
    note = f'case "$*" in *" -o "*) echo "$*" >> {log};; esac'
    monkeypatch.setenv("CC", script(tmp_path / "noting-cc", f'{note}\nexec cc "$@"'))
    return log


def test_the_cache_is_private_and_used_again(own_cache: Path, compilations: Path) -> None:
    for _ in range(2):
        assert use_swish() == ({"cpu"}, [])
    assert len(compilations.read_text().splitlines()) == LIBRARIES
    assert len(libraries(own_cache)) == LIBRARIES
    assert sorted(own_cache.iterdir()) == libraries(own_cache)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_cache_is_private_under_any_umask(own_cache: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert use_swish() == ({"cpu"}, [])
    finally:
        os.umask(before)
    for private in (own_cache, own_cache.parent, *libraries(own_cache)):
        assert private.stat().st_mode & 0o777 == 0o700


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADGEN_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert use_swish() == ({"cpu"}, [])
    assert len(libraries(tmp_path / "xdg" / "gradgen")) == LIBRARIES
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert use_swish() == ({"cpu"}, [])
    assert len(libraries(tmp_path / ".cache" / "gradgen")) == LIBRARIES
    monkeypatch.setenv("GRADGEN_CACHE_DIR", "~/chosen")
    assert use_swish() == ({"cpu"}, [])
    assert len(libraries(tmp_path / "chosen")) == LIBRARIES


def test_a_cache_that_was_removed_is_made_again(rt: ModuleType, ops: ModuleType, own_cache: Path) -> None:
    ops.forward((filled(3),), (1.0,))
    shutil.rmtree(own_cache)
    assert paths_of(rt, lambda: ops.backward((filled(3), filled(3)), (1.0,))) == ["cpu"]


def test_another_compiler_compiles_anew(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for compiler, times in (("cc", 1), ("cc -DSOMETHING", 2), ("cc", 2)):
        monkeypatch.setenv("CC", compiler)
        assert use_swish() == ({"cpu"}, [])
        assert len(libraries(own_cache)) == times * LIBRARIES


@pytest.mark.slow
def test_thirty_two_processes_at_once_compile_once(own_cache: Path, compilations: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"

    def work() -> None:
        while not go.exists():
            time.sleep(0.001)
        assert use_swish() == ({"cpu"}, [])

    children = [fork(work) for _ in range(32)]
    go.touch()
    assert [exit_code(child) for child in children] == [0] * 32
    assert len(libraries(own_cache)) == LIBRARIES
    assert len(compilations.read_text().splitlines()) == LIBRARIES
    assert sorted(own_cache.iterdir()) == libraries(own_cache)  # neither locks nor temporary files are left


ALL_AT_ONCE = """
import os, sys, time, torch
from gallery import OPS, gradients
torch.set_num_threads(1)
cases = [(op, op.sample((300,), dtype=torch.float32)) for op in OPS if op.function]  # imported, and none called yet
go, children = time.monotonic() + 1, []
for k in range(32):
    child = os.fork()
    if not child:
        time.sleep(max(0, go - time.monotonic()))
        for op, inputs in cases[k % len(cases):] + cases[:k % len(cases)]:
            torch.save(gradients(op, inputs), f"{sys.argv[1]}/{op.name}-{k}.pt")
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


@pytest.mark.slow
def test_the_first_call_of_the_whole_gallery_in_thirty_two_processes(
    own_cache: Path, compilations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each begins with another operation; nothing is compiled twice, and all compute the same."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(gallery.ROOT), str(gallery.ROOT / "tests")]))
    subprocess.run([sys.executable, "-c", ALL_AT_ONCE, str(tmp_path)], check=True)
    assert sorted(own_cache.iterdir()) == libraries(own_cache)
    assert len(compilations.read_text().splitlines()) == len(libraries(own_cache)) > len(gallery.OPS)
    for op in gallery.OPS:
        expected = gallery.gradients(op, op.sample((300,), dtype=torch.float32))
        for k in range(32):
            found = torch.load(tmp_path / f"{op.name}-{k}.pt")
            assert all(map(torch.equal, found, expected))


@pytest.mark.few(every_day=2, slow=9)
@pytest.mark.parametrize("damage", ["cut", "emptied", "garbage", "not a library", "others may write"])
def test_a_damaged_library_is_compiled_anew(own_cache: Path, compilations: Path, damage: str) -> None:
    # In children, since a library that is loaded once stays so.
    assert exit_code(fork(use_swish)) == 0
    originals = {library: library.read_bytes() for library in libraries(own_cache)}
    for library, content in originals.items():
        if damage == "others may write":
            library.chmod(0o722)
        else:
            library.write_bytes(
                {
                    "cut": content[: len(content) // 2],
                    "emptied": b"",
                    "garbage": content[:5000] + b"garbage" + content[5007:],
                    "not a library": b"text" + hashlib.sha256(b"text").digest(),
                }[damage]
            )

    def work() -> None:
        assert use_swish() == ({"cpu"}, [])

    assert exit_code(fork(work)) == 0
    assert {library: library.read_bytes() for library in libraries(own_cache)} == originals
    assert {library.stat().st_mode & 0o777 for library in originals} == {0o700}
    assert len(compilations.read_text().splitlines()) == 2 * LIBRARIES


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_write_is_refused(own_cache: Path, mode: int) -> None:
    own_cache.mkdir(parents=True)
    own_cache.chmod(mode)
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert f"{own_cache} can be written by other users" in warning
    assert "GRADGEN_CACHE_DIR" in warning
    assert not libraries(own_cache)


def test_a_parent_that_others_can_write_is_refused_unless_sticky(own_cache: Path) -> None:
    own_cache.mkdir(parents=True, mode=0o700)
    own_cache.parent.chmod(0o777)
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert f"{own_cache.parent} can be written by other users" in warning
    own_cache.parent.chmod(0o1777)
    assert use_swish() == ({"cpu"}, [])


def test_a_parent_for_the_group(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of the user's own is as good as the user; any other is not."""
    own_cache.mkdir(parents=True, mode=0o700)
    own_cache.parent.chmod(0o770)
    forget()
    runtime = importlib.import_module("ops._runtime")
    for is_own in (True, False):
        monkeypatch.setattr(runtime, "_is_own_group", lambda number, is_own=is_own: is_own)
        assert (runtime._distrust(own_cache) is None) == is_own
    monkeypatch.undo()
    assert not runtime._is_own_group(2**31 - 5)


def test_a_link_is_judged_by_where_it_leads(own_cache: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True, mode=0o700)
    shared.chmod(0o777)
    own_cache.parent.mkdir()
    own_cache.symlink_to(shared / "cache")
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert str(shared) in warning


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("whose", ["folder", "parent"])
def test_a_folder_of_somebody_else_is_refused(own_cache: Path, whose: str) -> None:
    own_cache.mkdir(parents=True, mode=0o700)
    given = own_cache if whose == "folder" else own_cache.parent
    os.chown(given, 12345, 12345)
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert f"{given} belongs to another user" in warning


@pytest.mark.parametrize("home", ["/proc", "/dev/null"])
def test_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.delenv("GRADGEN_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert f"{home}/.cache" in warning
    assert "GRADGEN_CACHE_DIR" in warning


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(own_cache: Path) -> None:
    own_cache.mkdir(parents=True)
    own_cache.chmod(0o500)
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert str(own_cache) in warning


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(path: str) -> str:
        return path

    monkeypatch.delenv("GRADGEN_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", no_home)
    monkeypatch.setattr(Path, "home", lambda: Path("~").expanduser())
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert "there is no folder to keep compiled kernels in" in warning


def test_a_full_disk(own_cache: Path) -> None:
    """Stands in for one: a limit on the size of files, which the compiler runs into."""

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        paths, told = use_swish()
        assert paths == {"torch"}
        assert len(told) == 1

    assert exit_code(fork(work)) == 0
    assert list(own_cache.iterdir()) == []


@pytest.mark.parametrize("chosen", [None, "no-such-compiler --flag"])
def test_no_compiler(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    if chosen:
        monkeypatch.setenv("CC", chosen)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert "no C compiler was found" in warning
    assert "Install gcc or clang" in warning
    assert (f"CC={chosen}" in warning) == bool(chosen)


def test_a_failing_compiler(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", script(tmp_path / "failing-cc", "echo 'sorry, not today' >&2; exit 3"))
    paths, (warning,) = use_swish()
    assert paths == {"torch"}
    assert "sorry, not today" in warning
    assert "exit status 3" in warning
    assert list(own_cache.iterdir()) == []


def test_a_compiler_that_writes_nonsense(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = 'while [ $# -gt 1 ]; do [ "$1" = -o ] && echo text > "$2"; shift; done'
    monkeypatch.setenv("CC", script(tmp_path / "nonsense-cc", write))
    paths, told = use_swish()
    assert paths == {"torch"}
    assert len(told) == 1


@pytest.mark.parametrize("refused", range(len(gallery.runtime()._FOR_THIS_PROCESSOR)))
def test_a_compiler_that_refuses_a_flag_for_this_processor(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    flag, log = gallery.runtime()._FOR_THIS_PROCESSOR[refused], tmp_path / "log"
    refuse = f'case "$*" in *{flag}*) exit 1;; esac'
    monkeypatch.setenv("CC", script(tmp_path / "plain-cc", f'{refuse}\necho "$*" >> {log}\nexec cc "$@"'))
    assert use_swish() == ({"cpu"}, [])
    *_, taken = (line for line in log.read_text().splitlines() if "-shared" in line)
    assert ("-march=native" in taken) == (refused > 0)


def test_warnings_as_errors_leave_the_kernel_usable(
    ops: ModuleType, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="false"):
            ops.swish(torch.ones(3))
        torch.testing.assert_close(ops.swish(torch.ones(3)), torch.nn.functional.silu(torch.ones(3)))


# Forks


def fork(work: Callable[[], Any]) -> int:
    """Starts `work` in a child, which is killed if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            work()
            os._exit(0)
        except BaseException:  # whatever it is, the parent is told
            traceback.print_exc()
            os._exit(1)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_computes(rt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "_GRAIN", 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    x = filled(100)
    used, unused = identity(rt), identity(rt, name="later", code="const real y = x + real(1);")
    used((x,))

    def work() -> None:
        with rt.record_paths() as record:
            results = used((x,))[0].tolist(), unused((x,))[0].tolist()
        assert results == (x.tolist(), (x + 1).tolist())
        assert record == [("identity", "cpu"), ("later", "cpu")]

    try:
        # Inside, torch's own threads are gone: what follows must not need them.
        assert exit_code(fork(work)) == 0
        work()
    finally:
        torch.set_num_threads(threads)


def test_a_fork_while_another_thread_builds(rt: ModuleType) -> None:
    held, done = threading.Event(), threading.Event()

    def build() -> None:
        with rt._build_lock:
            held.set()
            done.wait(120)

    worker = threading.Thread(target=build)
    worker.start()
    held.wait()
    kernel = identity(rt, name="forked", code="const real y = x + real(2);")
    try:
        assert exit_code(fork(lambda: kernel((torch.ones(2),)))) == 0
    finally:
        done.set()
        worker.join()


# ---------------------------------------------------------------------------------------------------------------------
# Arguments
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.5, None, [1.0], "x"])
def test_check_wants_tensors(rt: ModuleType, value: Any) -> None:
    kind = type(value).__name__
    with pytest.raises(TypeError, match=rf"^swish\(\): argument 'x' must be Tensor, not {kind}$"):
        rt.check("swish", {"x": value})


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.int64, "Long"),
        (torch.bool, "Bool"),
        (torch.complex64, "ComplexFloat"),
        (torch.float8_e5m2, "Float8_e5m2"),
    ],
    ids=str,
)
def test_check_wants_floating_dtypes(rt: ModuleType, dtype: torch.dtype, name: str) -> None:
    x = torch.ones(2).to(dtype)
    with pytest.raises(
        NotImplementedError, match=rf"^\"swish\" not implemented for '{name}' \(argument 'y'\); .*float32"
    ):
        rt.check("swish", {"x": torch.ones(2), "y": x})
    with pytest.raises(NotImplementedError, match=f"'{name}'"):
        rt.check("swish", {"x": x})


def test_check_converts_fixed_inputs(rt: ModuleType) -> None:
    x = torch.ones(2, dtype=torch.bfloat16)
    for fixed in (torch.tensor([0, 1]), torch.tensor([False, True])):
        _, target = rt.check("loss", {"x": x, "target": fixed}, fixed=("target",))
        assert target.dtype is torch.bfloat16
        assert target.tolist() == [0, 1]
    (alone,) = rt.check("loss", {"target": torch.tensor([3])}, fixed=("target",))
    assert alone.dtype is torch.get_default_dtype()
    with pytest.raises(NotImplementedError, match="ComplexFloat"):
        rt.check("loss", {"x": x, "target": x * 1j}, fixed=("target",))


def nested(layout: torch.layout) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


def quantised() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: torch.ones(2, 2).to_sparse(), "sparse_coo.*to_dense"),
        (lambda: torch.ones(2, 2).to_sparse_csr(), "sparse_csr"),
        (lambda: torch.ones(2).to_mkldnn(), "mkldnn"),
        (lambda: nested(torch.strided), "nested.*to_padded_tensor"),
        (lambda: nested(torch.jagged), "nested"),
        (quantised, "Quint8"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("count", [1, 2])
def test_check_rejects_other_layouts(rt: ModuleType, make: Callable[[], Tensor], told: str, count: int) -> None:
    tensors = {"x": make(), "y": torch.ones(2)}
    with pytest.raises(NotImplementedError, match=f'^"swish" not implemented for .*{told}') as error:
        rt.check("swish", dict(list(tensors.items())[:count]))
    assert "(argument 'x'" in str(error.value)


def test_check_wants_one_device(rt: ModuleType) -> None:
    here, there = torch.ones(2), torch.ones(2, device="meta")
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device, but found at least two"
    ) as e:
        rt.check("op", {"x": here, "y": there})
    assert "op(): argument 'x' is on cpu, 'y' is on meta" in str(e.value)
    for x, y in (
        rt.check("op", {"x": torch.tensor(1.0), "y": there}),
        rt.check("op", {"x": there, "y": torch.tensor(1.0)}),
    ):
        assert x.device == y.device == there.device
    with pytest.raises(RuntimeError, match="same device"):
        rt.check("op", {"x": here, "y": torch.ones((), device="meta")})


def test_check_wants_shapes_that_broadcast(rt: ModuleType) -> None:
    with pytest.raises(RuntimeError) as own:
        rt.check("op", {"x": torch.ones(2, 3, 4), "y": torch.ones(1, 4), "z": torch.ones(2, 4)})
    with pytest.raises(RuntimeError) as of_torch:
        torch.ones(2, 3, 4) + torch.ones(2, 4)
    assert str(own.value).startswith(str(of_torch.value))
    assert "op(): a is argument 'x' of shape [2, 3, 4], b is 'z' of shape [2, 4]" in str(own.value)
    for shapes in BROADCASTS:
        rt.check("op", dict(zip("xyz", [torch.ones(shape) for shape in shapes], strict=True)))
    with pytest.raises(RuntimeError, match=r"tensor a \(0\) must match the size of tensor b \(2\)"):
        rt.check("op", {"x": torch.ones(0), "y": torch.ones(2)})


def test_check_promotes_as_torch_does(rt: ModuleType) -> None:
    for dtypes in itertools.product(DTYPES, DTYPES):
        for shapes in itertools.product([(), (2,)], repeat=2):
            x, y = [torch.ones(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
            promoted = rt.check("op", {"x": x, "y": y})
            assert {tensor.dtype for tensor in promoted} == {torch.result_type(x, y)}
    x = torch.ones(2, dtype=torch.float16, requires_grad=True)
    rt.check("op", {"x": x, "y": torch.ones(2)})[0].sum().backward()
    assert x.grad is not None


def test_check_returns_what_needs_nothing(rt: ModuleType) -> None:
    x, y = torch.nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Sub)
    assert rt.check("op", {"x": x})[0] is x
    checked = rt.check("op", {"x": x, "y": y})
    assert checked[0] is x
    assert checked[1] is y


def test_number(rt: ModuleType) -> None:
    import numpy as np

    for kind, value, expected in [
        ("float", 1.5, 1.5),
        ("float", 2, 2.0),
        ("float", np.float32(0.5), 0.5),
        ("float", np.int64(3), 3.0),
        ("int", 3, 3),
        ("int", np.int32(3), 3),
        ("bool", True, True),
        ("bool", np.True_, True),
    ]:
        number = rt.number("op", "a", kind, value)
        assert number == expected
        assert type(number) is {"float": float, "int": int, "bool": bool}[kind]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", "1"),
        ("float", None),
        ("float", 1j),
        ("float", True),
        ("int", 1.0),
        ("int", True),
        ("bool", 1),
        ("bool", 0.0),
    ],
)
def test_number_of_the_wrong_kind(rt: ModuleType, kind: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^op\(\): argument 'a' must be {kind}, not {type(value).__name__}$"):
        rt.number("op", "a", kind, value)


def test_number_tells_how_to_pass_tensors(rt: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"argument 'beta' must be float, not Tensor; .*`beta: Tensor` in the spec"):
        rt.number("op", "beta", "float", torch.tensor(1.0))


def test_numbers_under_symbolic_shapes(rt: ModuleType) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    def run(x: Tensor) -> Tensor:
        return x * rt.number("op", "n", "int", x.shape[0]) + rt.number("op", "a", "float", x.shape[0] / 2)

    for size in (3, 5):
        assert run(torch.ones(size)).tolist() == [1.5 * size] * size
    torch._dynamo.reset()


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (1, 4), (3, 4), (1, 3, 4), (2, 3, 4)], ids=str)
def test_sum_to(rt: ModuleType, shape: tuple[int, ...]) -> None:
    grad = filled(2, 3, 4, dtype=torch.float64).requires_grad_()
    x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(x.expand(2, 3, 4), x, grad)
    summed = rt.sum_to(grad, x.shape)
    torch.testing.assert_close(summed, expected)
    assert summed.shape == shape
    assert torch.autograd.gradcheck(lambda g: rt.sum_to(g, x.shape), grad)
    batched = torch.func.vmap(lambda g: rt.sum_to(g, x.shape))(torch.stack([grad, grad]))
    torch.testing.assert_close(batched[1], expected)


def test_sum_to_leaves_alone(rt: ModuleType) -> None:
    assert rt.sum_to(None, (3,)) is None
    x = torch.ones(3)
    assert rt.sum_to(x, x.shape) is x


# ---------------------------------------------------------------------------------------------------------------------
# CUDA, without and with a GPU
# ---------------------------------------------------------------------------------------------------------------------

needs_nvrtc = pytest.mark.skipif(nvrtc is None, reason="needs CuPy")


@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_cuda_kernels_compile(rt: ModuleType, ops: ModuleType, arch: str, dtype: torch.dtype) -> None:
    for dimensions in (1, 3):
        present, wanted = (True, False, True), (False, True)
        text = ops.double_backward.cuda_strided_source(dtype, present, wanted, dimensions=dimensions)
        assert b"gradgen_swish_double_backward" in nvrtc.compile(text, arch).cubin


@needs_nvrtc
def test_cuda_kernels_of_all_kinds_compile(rt: ModuleType) -> None:
    names = ("I", "i", "n", "_ind", "T", "w", "real_", "float16", "index", "exp_")
    kernel = rt.Kernel(
        "kinds",
        tensors=names,
        optional=("w",),
        scalars={"a": "float", "k": "int", "flag": "bool"},
        results=("r", "q"),
        code="""
            const real r = flag ? sigmoid(I * i) + real(k) : (isnan(n) ? real(NAN) : real(INFINITY));
            const bool small = !(fabs(_ind) > real(1e-30)) && true;
            const real q = has_w && small ? w * a : real(in_double(T)) + real_ + float16 + index + exp_;
        """,
        expression=lambda *arguments: (None, None),
    )
    for dtype, given in itertools.product(DTYPES, (True, False)):
        present = [given or name != "w" for name in names]
        nvrtc.compile(kernel.cuda_rows_source(dtype, present))
        nvrtc.compile(kernel.cuda_strided_source(dtype, present))


@needs_nvrtc
def test_nvrtc_shows_errors(rt: ModuleType) -> None:
    kernel = identity(rt, code="const real y = no_such_function(x);")
    with pytest.raises(AssertionError, match="no_such_function"):
        nvrtc.compile(kernel.cuda_rows_source(torch.float32))


def test_cuda_text_leaves_out_what_is_absent(rt: ModuleType) -> None:
    for write in (mixed(rt).cuda_rows_source, mixed(rt).cuda_strided_source):
        source = write(torch.bfloat16, (False, True, False), (False, True))
        assert {*re.findall(r"\bgg_(?:in|out)_[a-z]\b", source)} == {"gg_in_y", "gg_out_b"}


def thrice_without_cuda(rt: ModuleType) -> list[str]:
    """The paths taken by three calls of two kernels where CUDA tensors are to be computed and cannot be."""
    kernel, other = identity(rt), identity(rt, name="other")
    with rt.record_paths() as record:
        for each in (kernel, kernel, other):
            assert each((filled(3),))[0].tolist() == filled(3).tolist()
    return [path for _, path in record]


def test_without_cupy(rt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(rt, "_choose_path", lambda tensors: "cuda")
    with pytest.warns(RuntimeWarning, match="CuPy cannot be imported.*cupy-cuda") as told:
        assert thrice_without_cuda(rt) == ["torch"] * 3
    assert len(told) == 1


def test_a_cupy_that_fails_is_tried_once(rt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def launch(inputs: list[Tensor], outputs: list[Tensor], scalars: list[float], sums: tuple[bool, ...]) -> None:
        tried.append(inputs)
        raise RuntimeError("CUDA driver version is insufficient")

    monkeypatch.setattr(rt, "_choose_path", lambda tensors: "cuda")
    monkeypatch.setattr(rt, "_CudaLauncher", lambda kernel, variant: launch)
    with pytest.warns(RuntimeWarning, match="CuPy cannot run the kernel: CUDA driver version is insufficient") as told:
        assert thrice_without_cuda(rt) == ["torch"] * 3
    assert len(told) == 1
    assert len(tried) == 2  # once for each kernel


def test_a_lack_of_memory_is_told_and_does_not_last(rt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(rt, "_choose_path", lambda tensors: "cuda")
    monkeypatch.setattr(rt, "_CudaLauncher", lambda kernel, variant: launch)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            thrice_without_cuda(rt)


@gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cuda_every_layout_and_dtype(rt: ModuleType, ops: ModuleType, layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype=dtype, device="cuda")
    with rt.record_paths() as record:
        (y,) = ops.forward((x,), (1.5,))
    assert record == [("swish", "cuda")]
    exact = x.double() * torch.sigmoid(1.5 * x.double())
    torch.testing.assert_close(y, exact.to(dtype), rtol=6 * torch.finfo(dtype).eps, atol=1e-9)
    assert y.device == x.device


@gpu
@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_cuda_broadcast(rt: ModuleType, shapes: list[tuple[int, ...]]) -> None:
    x, y, z = [filled(*shape, device="cuda") + k for k, shape in enumerate(shapes)]
    with rt.record_paths() as record:
        (r,) = product(rt)((x, y, z))
    assert record == [("product", "cuda")]
    torch.testing.assert_close(r, x * y + z)


@gpu
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)], ids=str)
def test_cuda_wanted_and_present(rt: ModuleType, wanted: tuple[bool, bool]) -> None:
    kernel = mixed(rt)
    values = (filled(2, 3), filled(3) + 1, filled(2, 1) - 2)
    for present in itertools.product([True, False], repeat=3):
        here = [value if there else None for value, there in zip(values, present, strict=True)]
        there = [value if value is None else value.cuda() for value in here]
        for own, other in zip(kernel(there, (), wanted), kernel(here, (), wanted), strict=True):
            assert (own is None) == (other is None)
            if own is not None:
                torch.testing.assert_close(own.cpu(), other)


@gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_cuda_conversions_for_all_bit_patterns(rt: ModuleType, dtype: torch.dtype) -> None:
    kernel = identity(
        rt,
        name="scaled",
        scalars={"factor": "float"},
        code="const real y = x * factor;",
        expression=lambda x, f, w: (x * f,),
    )
    x = ALL_16_BITS.view(dtype)
    for factor in (1.0, 1 + 2**-11, 1 + 2**-8, 1.5, 3.0, 1e4):
        y = kernel((x.cuda(),), (factor,))[0].cpu()
        expected = (x.float() * torch.tensor(factor, dtype=torch.float32)).to(dtype)
        assert torch.equal(bits(y), bits(expected))


@gpu
def test_cuda_runs_on_the_current_stream(rt: ModuleType) -> None:
    kernel = identity(rt, name="streamed", code="const real y = x + real(1);")
    x = torch.zeros(1 << 20, device="cuda")
    kernel((x,))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # on another stream, the kernel would read x before it is filled
        x.fill_(5)
        (y,) = kernel((x,))
        z = y.clone()
    stream.synchronize()
    assert z.unique().tolist() == [6.0]


@gpu
def test_cuda_runs_on_the_device_of_the_inputs(rt: ModuleType) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    x = filled(5, device="cuda:1")
    (y,) = identity(rt)((x,))
    assert y.device == x.device
    assert torch.cuda.current_device() == 0
    assert torch.equal(x, y)


@gpu
def test_cuda_gradients_of_both_orders(rt: ModuleType, ops: ModuleType) -> None:
    x = filled(3, 4, dtype=torch.float64, device="cuda").requires_grad_()
    with rt.record_paths() as record:
        assert torch.autograd.gradcheck(lambda x: ops.swish(x, 1.3), x)
        assert torch.autograd.gradgradcheck(lambda x: ops.swish(x, 1.3), x)
    assert set(record) == {(name, "cuda") for name in ("swish", "swish_backward", "swish_double_backward")}


@gpu
def test_cuda_more_than_2_to_the_31_elements(rt: ModuleType) -> None:
    if torch.cuda.mem_get_info()[0] < 10 << 30:
        pytest.skip("needs 10 GiB of GPU memory")
    x = torch.ones(2**31 + 9, dtype=torch.bfloat16, device="cuda")
    x[-1] = 2
    (y,) = identity(rt)((x,))
    assert y[-2:].tolist() == [1, 2]


@gpu
def test_cuda_beside_cpu_scalars(rt: ModuleType) -> None:
    x, y, z = rt.check("op", {"x": filled(3, device="cuda"), "y": torch.tensor(2.0), "z": torch.tensor(1.0)})
    with rt.record_paths() as record:
        torch.testing.assert_close(product(rt)((x, y, z))[0].cpu(), filled(3) * 2 + 1)
    assert record == [("product", "cuda")]


# ---------------------------------------------------------------------------------------------------------------------
# Cost
# ---------------------------------------------------------------------------------------------------------------------


def test_a_call_goes_through_few_functions(ops: ModuleType) -> None:
    """Nothing is hashed, looked up on disk or compiled in each call, by whichever way it goes."""
    x = torch.ones(1)
    ops.forward((x,), (1.0,))
    called: list[str] = []

    def note(frame: Any, event: str, function: Any) -> None:
        if event in ("call", "c_call"):
            called.append(frame.f_code.co_name if event == "call" else function.__name__)

    sys.setprofile(note)
    try:
        ops.forward((x,), (1.0,))
    finally:
        sys.setprofile(None)
    assert len(called) < 60, called


def test_threads_are_those_of_torch_but_not_after_a_fork(rt: ModuleType) -> None:
    """Those of a parent are not there in its child, where waiting for them would never end."""
    kernel = identity(rt, name="pooled", code="const real y = x + real(3);")
    x = torch.zeros(1 << 20)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert kernel((x,))[0].unique().tolist() == [3]
        assert all(rt._torch_threads()) or not list(Path(torch.__file__).parent.glob("lib/libgomp*"))

        def work() -> None:
            assert rt._torch_threads() == (None, None)
            found = kernel((x,)), identity(rt, name="late", code="const real y = x + real(4);")((x,))
            torch.set_num_threads(1)  # torch itself would wait for ever
            assert [y.unique().tolist() for (y,) in found] == [[3], [4]]

        assert exit_code(fork(work)) == 0
    finally:
        torch.set_num_threads(threads)
