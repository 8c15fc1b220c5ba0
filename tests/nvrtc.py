"""Compiles the CUDA kernels with the runtime's options, on a machine without a GPU or a driver."""

from __future__ import annotations

from typing import NamedTuple

import gallery
from cupy.cuda import nvrtc

OPTIONS = gallery.runtime()._CUDA_OPTIONS + gallery.runtime()._CUDA_EXACTLY


class Compiled(NamedTuple):
    cubin: bytes
    ptx: str  # what the machine code was made of
    told: str  # registers, and what did not fit into them


def compile(source: str, arch: str = "sm_90", options: tuple[str, ...] = ()) -> Compiled:
    """`options` have the last word over the runtime's. Errors are shown whole."""
    options = (*OPTIONS, *options, f"--gpu-architecture={arch}", "--ptxas-options=-v", "-w")
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return Compiled(nvrtc.getCUBIN(program), nvrtc.getPTX(program).decode(), nvrtc.getProgramLog(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise AssertionError(f"NVRTC refused the text for {arch}:\n{log}\n{_numbered(source)}") from error
    finally:
        nvrtc.destroyProgram(program)


def _numbered(source: str) -> str:
    return "\n".join([f"{number:4} {line}" for number, line in enumerate(source.splitlines(), 1)])
