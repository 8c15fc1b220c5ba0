"""What takes fewer instructions where a kernel has one exponential alone, against mpmath."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import mpmath
import pytest
import torch
from mpmath import mpf
from test_library_functions import compiler

from generated import _runtime, swish
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import mixed_error

DTYPES = (torch.float32, torch.float64)
# The text, the row of the table whose errors it must not exceed, and where it is off by most, by a search of all floats
# and of millions of doubles
FUNCTIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "swish": ("mul_sigmoid(x, x)", (-1.94736886, -0.00012195540002047652)),
    "gelu": ("mul_ndtr(x, x)", (-0.881283522, -1.1916907842849618)),
    "dswish": ("dswish(x)", (-0.547711313, -0.58840980127401865)),
    "logistic_density": ("logistic_density(x)", (0.869805455, -0.83050362133494904)),
}
FUSED = ("swish", "gelu")  # which are for processors with fused multiply-adds


def of_logistic(function: Callable[[mpf, mpf, mpf], mpf]) -> Callable[[mpf], mpf]:
    """A function of t, sigmoid(t) and its derivative."""

    def of(t: mpf) -> mpf:
        e = mpmath.exp(-abs(t))
        return function(t, (1 if t >= 0 else e) / (1 + e), e / (1 + e) ** 2)

    return of


EXACT: dict[str, Callable[[mpf], mpf]] = {
    "swish": of_logistic(lambda t, s, _: t * s),
    "dswish": of_logistic(lambda t, s, density: s + t * density),
    "logistic_density": of_logistic(lambda t, s, density: density),
    "gelu": lambda t: t * mpmath.erfc(-t / mpmath.sqrt(2)) / 2,
}


def kernel(code: str) -> _runtime.Kernel:
    return _runtime.Kernel(
        "alone", tensors=("x",), results=("y",), code=f"const real y = {code};", expression=lambda x, wanted: (x,)
    )


def is_alone(kernel: _runtime.Kernel, dtype: torch.dtype) -> bool:
    return "#define GG_ALONE" in kernel.cpu_source(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_as_exact_as_the_table_says(name: str, dtype: torch.dtype) -> None:
    code, worst = FUNCTIONS[name]
    row = PRIMITIVES[code.partition("(")[0]]
    last = {torch.float32: (-104.5, -14.5), torch.float64: (-746.0, -38.7)}[dtype][name == "gelu"]
    generator = torch.Generator().manual_seed(0)
    near = [torch.randn(3000, generator=generator, dtype=torch.float64) * scale for scale in (1, 4, 1e-3)]
    far = torch.linspace(last, -last, 2001, dtype=torch.float64)
    small = torch.tensor(
        [0.0, -0.0, torch.finfo(dtype).smallest_normal, -torch.finfo(dtype).tiny / 4], dtype=torch.float64
    )
    x = torch.cat([*near, far, small, torch.tensor(worst, dtype=torch.float64)]).to(dtype)
    alone = kernel(code)
    assert is_alone(alone, dtype)
    found = alone((x,))[0]
    assert found is not None
    kind = str(dtype).removeprefix("torch.")
    with mpmath.workdps(60):
        errors = []
        for number, y in zip(x.tolist(), found.tolist(), strict=True):
            t = mpf(number)
            scale = abs(t * mpmath.diff(EXACT[name], t)) if number else mpf(0)
            errors.append(mixed_error(y, EXACT[name](t), scale, kind))
    assert max(errors) <= (row.ulps if dtype is torch.float32 else row.double_ulps)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("name", "below", "above"),
    [("swish", -0.0, math.inf), ("gelu", -0.0, math.inf), ("dswish", -0.0, 1.0), ("logistic_density", 0.0, 0.0)],
)
def test_they_have_their_limits(name: str, below: float, above: float, dtype: torch.dtype) -> None:
    limits = [-math.inf, -torch.finfo(dtype).max, math.inf, math.nan]
    found = kernel(FUNCTIONS[name][0])((torch.tensor(limits, dtype=dtype),))[0]
    assert found is not None
    assert torch.equal(found[:3], torch.tensor([below, below, above], dtype=dtype))
    assert torch.equal(found[:2].signbit(), torch.tensor([below, below]).signbit())
    assert found[3].isnan()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_types_of_16_bits_have_the_digits_they_need(name: str, dtype: torch.dtype) -> None:
    """Of every number there is."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    code = FUNCTIONS[name][0]
    assert is_alone(kernel(code), dtype)
    (found,), (exact,) = kernel(code)((x,)), kernel(code)((x.double(),))
    assert found is not None
    assert exact is not None
    assert torch.equal(found.isnan(), x.isnan())
    is_number = exact.isfinite()
    nearest = exact.to(dtype)[is_number]
    (slope,) = kernel(f"d{name}(x)")((x.double(),))
    assert slope is not None
    size = torch.fmax(nearest.double().abs(), (x.double() * slope)[is_number].abs())
    size = size.clamp(min=torch.finfo(dtype).tiny)
    ulp = torch.exp2(torch.floor(torch.log2(size))) * torch.finfo(dtype).eps
    assert ((found.double()[is_number] - exact[is_number]).abs() / ulp).max() <= 0.51
    assert torch.equal(found[~is_number & ~x.isnan()], exact.to(dtype)[~is_number & ~x.isnan()])


@pytest.mark.parametrize("dtype", [torch.bfloat16, *DTYPES], ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_the_compiler_sees_that_a_product_is_of_its_own_argument(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """In the text of a kernel whose product is of its argument, and of none else."""
    if compiler() is None or "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no C compiler, or no fused multiply-add")
    product = FUNCTIONS[name][0].partition("(")[0]
    cases = [("x, x", True), ("x, 1 * x", True), ("2 * x, x", False), ("-x, x", False)]
    for k, (operands, is_same) in enumerate(cases):
        source = kernel(f"{product}({operands})").cpu_source(dtype)
        asked = source.replace("? f(t) : (product)", "? 42 : 7")
        assert asked != source
        (tmp_path / "a.c").write_text(asked)
        flags = [*_runtime._C_FLAGS, *_runtime._FOR_THIS_PROCESSOR]
        library = tmp_path / f"{k}.so"
        subprocess.run([str(compiler()), *flags, tmp_path / "a.c", "-o", library, "-lm"], check=True)
        x, y = torch.ones(8, dtype=dtype), torch.zeros(8, dtype=dtype)
        data = (ctypes.c_void_p * 2)(x.data_ptr(), y.data_ptr())
        ctypes.CDLL(str(library)).gg_compute(ctypes.c_int64(8), data, (ctypes.c_double * 1)())
        assert (y == (42 if is_same else 7)).all(), operands


def test_others_of_the_same_argument_share_its_exponential() -> None:
    """So do corrections, where there are any."""
    assert not is_alone(kernel("sigmoid(x) + mul_sigmoid(x, x)"), torch.float32)
    assert not is_alone(kernel("x"), torch.float32)
    assert not is_alone(swish._SWISH, torch.float64)
    assert swish._SWISH.narrow is not None
    assert is_alone(swish._SWISH.narrow, torch.float64)


def test_hyper_parameters_at_their_defaults_are_numbers() -> None:
    assert swish._SWISH.narrow is not None
    assert "const real beta = real(1.0);" in swish._SWISH.narrow.cpu_source(torch.float32)
    assert "const real beta = real(gg_scalars[0]);" in swish._SWISH.cpu_source(torch.float32)


def test_hyper_parameters_that_are_no_such_numbers_are_read() -> None:
    """Infinity is none of C's, and 0 may have either sign."""
    for at in (math.inf, -math.inf, 0.0):
        known = _runtime.Kernel(
            "known",
            tensors=("x",),
            scalars={"k": "float"},
            results=("y",),
            code="const real y = x + k;",
            expression=lambda x, k, wanted: (x + k,),
            wide=("float32",),
            narrow_at={"k": at},
        )
        assert known.narrow is not None
        assert "const real k = real(gg_scalars[0]);" in known.narrow.cpu_source(torch.float32)
        with _runtime.record_paths() as paths:
            (found,) = known((torch.tensor([-0.0, 1.0]),), (-at,) if at == 0 else (at,))
        assert [path for _, path in paths] == ["cpu"]
        assert found is not None
        assert found.tolist() == [at, 1 + at]
        assert at != 0 or found[0].signbit()
