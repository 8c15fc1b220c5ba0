"""Other compilers and processors than those of this machine: the kernels are compiled by Clang, for two of them.

ziglang is Clang with the headers of several systems. What it compiles for another processor is run where an emulator is
installed (Debian's qemu-user-static).
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gallery
import numpy as np
import pytest
import torch
from gallery import EACH_FUNCTION, OPS, Op, first

rt = gallery.runtime()

TARGETS = ["x86_64-linux-gnu", "aarch64-linux-gnu"]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang")


def compile_for(target: str, source: str) -> None:
    """Compiles with the flags of the runtime, except that Zig need not warn of what gradgen did not write.

    The loop over the elements, if there is one, is computed by whole vectors.
    """
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *processor(target), *rt._C_FLAGS, "-Werror"]
    command += ["-Wno-pass-failed", "-Wno-unused-command-line-argument", "-Wno-ignored-optimization-argument"]
    command += ["-Rpass=loop-vectorize", "-x", "c", "-", "-c"]
    with tempfile.TemporaryDirectory() as folder:  # Zig leaves its object there, whatever -o says
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    for line in [number for number, text in enumerate(source.splitlines(), 1) if "gg_i = gg_begin" in text]:
        assert re.search(rf":{line}:\d+: remark: vectorized loop", done.stderr), done.stderr


def processor(target: str) -> list[str]:
    """One with fused multiply-add, as on aarch64, and what a kernel is compiled with there."""
    return ["-mcpu=x86_64_v3", *rt._FASTER] if target.startswith("x86_64") else []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", first(EACH_FUNCTION), ids=str)
def test_kernels_compile(op: Op, target: str) -> None:
    for kernel in op.kernels.values():
        for dtype in (torch.float32, torch.float16):
            compile_for(target, kernel.cpu_source(dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_some_compile_every_day(target: str) -> None:
    swish, bce = (next(op for op in OPS if op.name == name) for name in ("swish", "bce_with_logits"))
    compile_for(target, rt._COMMON_SOURCE)
    compile_for(target, swish.kernels["backward"].cpu_source(torch.float16))
    compile_for(target, bce.kernels["backward"].cpu_source(torch.float32, sums=(True, False)))


# A program of a kernel: it reads its inputs, the whole of the first, then the others, and writes the results.
MAIN = """
#include <stdio.h>
int main(void)
{{
    static float data[{operands}][{count}];
    double scalars[] = {{{scalars}}};
    void *pointers[{operands}];
    for (int k = 0; k < {operands}; k++)
        pointers[k] = data[k];
    if (fread(data, sizeof data[0], {inputs}, stdin) != {inputs})
        return 1;
    gg_compute({count}, pointers, scalars);
    return fwrite(data[{inputs}], sizeof data[0], {operands} - {inputs}, stdout) != {operands} - {inputs};
}}
"""
COUNT = 20_000
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


def results_of(op: Op, kernel: object, target: str, inputs: np.ndarray, folder: Path) -> np.ndarray:
    """What a kernel of float32 gives on another processor, a row for each result."""
    scalars = ", ".join(str(float(default)) for default, _ in op.hyper.values()) or "0"
    operands = len(kernel.tensors) + len(kernel.results)
    text = MAIN.format(operands=operands, inputs=len(kernel.tensors), count=COUNT, scalars=scalars)
    source, program = folder / "program.c", folder / target
    source.write_text(kernel.cpu_source(torch.float32) + text)
    flags = [*[flag for flag in rt._C_FLAGS if flag != "-shared"], *processor(target)]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *flags, "-static", "-w", source, "-o", program]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    run = [EMULATOR, program] if target.startswith("aarch64") else [program]
    done = subprocess.run(run, input=inputs.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(len(kernel.results), COUNT)


@pytest.mark.slow
@pytest.mark.skipif(EMULATOR is None, reason="needs an emulator of aarch64")
@pytest.mark.parametrize("op", OPS, ids=str)
def test_kernels_give_the_same_on_aarch64(op: Op, tmp_path: Path) -> None:
    """Every magnitude, zeros, infinities and NaN: the same bits."""
    randoms = np.random.default_rng(1)
    for kernel in op.kernels.values():
        inputs = randoms.integers(0, 2**32, (len(kernel.tensors), COUNT), dtype=np.uint64).astype(np.uint32)
        inputs[:, ::2] = randoms.normal(size=(len(kernel.tensors), COUNT // 2)).astype(np.float32).view(np.uint32)
        here, there = (
            results_of(op, kernel, target, inputs.view(np.float32), tmp_path)
            for target in ("x86_64-linux-musl", "aarch64-linux-musl")
        )
        assert np.array_equal(here, there, equal_nan=True), kernel.name
