"""Compiles the CUDA kernels as CuPy would, on a machine without a GPU or a driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch
from cupy._core import _carray, _kernel, _scalar, core
from cupy.cuda import nvrtc

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

# The kinds of arguments, as cupy/_core/_kernel.pxd numbers them.
_NDARRAY, _INDEXER, _SCALAR = 1, 2, 3


def compile(
    kernel: Any,
    dtype: torch.dtype,
    present: Sequence[bool] | None = None,
    wanted: Sequence[bool] | None = None,
    arch: str = "sm_90",
    *,
    sums: Sequence[bool] | None = None,
    ndim: int = 1,
) -> bytes:
    """The cubin of a kernel for `ndim`-dimensional inputs (1: contiguous, more: strided); errors are shown whole."""
    source = cuda_text(kernel, dtype, present, wanted, sums=sums, ndim=ndim)
    options = [
        *kernel.cuda_source(dtype, present, wanted).options,
        # What CuPy adds on its own.
        "-ftz=true",
        "--device-as-default-execution-space",
        f"--gpu-architecture={arch}",
        *[f"-I{folder}" for folder in _include_folders()],
    ]
    program = nvrtc.createProgram(source, f"{kernel.name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, tuple(options))
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise AssertionError(f"NVRTC refused {kernel.name} ({dtype}, {arch}):\n{log}\n{_numbered(source)}") from error
    finally:
        nvrtc.destroyProgram(program)


def compile_rows(source: str, arch: str) -> str:
    """What the compiler tells of a kernel for contiguous operands: registers, and what did not fit into them."""
    program = nvrtc.createProgram(source, "rows.cu", (), ())
    options = ["--std=c++17", "--fmad=false", "-ftz=true", f"--gpu-architecture={arch}", "--ptxas-options=-v", "-w"]
    try:
        nvrtc.compileProgram(program, tuple(options))
        assert nvrtc.getCUBIN(program).startswith(b"\x7fELF")
        told: str = nvrtc.getProgramLog(program)
        return told
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise AssertionError(f"NVRTC refused ({arch}):\n{log}\n{_numbered(source)}") from error
    finally:
        nvrtc.destroyProgram(program)


def cuda_text(
    kernel: Any,
    dtype: torch.dtype,
    present: Sequence[bool] | None = None,
    wanted: Sequence[bool] | None = None,
    *,
    sums: Sequence[bool] | None = None,
    ndim: int = 1,
) -> str:
    """The whole source that CuPy makes of a kernel and hands to NVRTC."""
    parts = kernel.cuda_source(dtype, present, wanted, sums)
    made = cupy.ElementwiseKernel(
        parts.in_params, parts.out_params, parts.operation, parts.name, preamble=parts.preamble, options=parts.options
    )
    arguments = []
    for parameter in made.in_params + made.out_params:
        if parameter.name.startswith("gg_arg_"):
            info = (_SCALAR, _scalar.CScalar, np.dtype(parameter.dtype), 0, True, True)
        else:
            info = (_NDARRAY, cupy.ndarray, np.dtype(parameter.dtype), ndim, ndim == 1, True)
        arguments.append(_kernel._ArgInfo(*info))
    arguments.append(_kernel._ArgInfo(_INDEXER, _carray.Indexer, None, ndim, True, True))
    # An array has a dtype to be checked against the parameter's; a scalar takes the parameter's.
    given = tuple([info.dtype if info.arg_kind == _NDARRAY else None for info in arguments[: made.nin]])
    wrote = tuple([parameter.dtype for parameter in made.out_params])
    _, _, types = _kernel._decide_params_type(made.in_params, made.out_params, given, wrote)
    code = _kernel._get_elementwise_kernel_code(
        tuple(arguments), types, made.params, made.operation, made.name, made.preamble
    )
    return "".join([f"#include <{header}>\n" for header in core._cupy_header_list]) + code


def _include_folders() -> list[Path]:
    """CuPy's own headers, and the toolkit's out of NVIDIA's wheels."""
    packages = Path(cupy.__file__).parents[1]
    bundled = Path(cupy.__file__).parent / "_core" / "include"
    return [bundled, *bundled.glob("cupy/_cccl/*"), *packages.glob("nvidia/*/include")]


def _numbered(source: str) -> str:
    return "\n".join([f"{number:4} {line}" for number, line in enumerate(source.splitlines(), 1)])
