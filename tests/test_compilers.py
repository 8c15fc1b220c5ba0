"""Other compilers and processors than those of this machine: the kernels are compiled by Clang, for two of them.

ziglang is Clang with the headers of several systems. What it compiles for another processor is not run.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile

import gallery
import pytest
import torch
from gallery import OPS, Op

rt = gallery.runtime()

TARGETS = ["x86_64-linux-gnu", "aarch64-linux-gnu"]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang")


def compile_for(target: str, source: str) -> None:
    """Compiles with the flags of the runtime, except that Zig need not warn of what gradgen did not write."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *rt._C_FLAGS, "-Werror", "-Wno-pass-failed"]
    command += ["-Wno-unused-command-line-argument", "-x", "c", "-", "-c"]
    with tempfile.TemporaryDirectory() as folder:  # Zig leaves its object there, whatever -o says
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_kernels_compile(op: Op, target: str) -> None:
    for kernel in op.kernels.values():
        for dtype in (torch.float32, torch.float16):
            compile_for(target, kernel.cpu_source(dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_some_compile_every_day(target: str) -> None:
    swish, bce = (next(op for op in OPS if op.name == name) for name in ("swish", "bce_with_logits"))
    compile_for(target, rt._DISPATCH_SOURCE)
    compile_for(target, swish.kernels["backward"].cpu_source(torch.float16))
    compile_for(target, bce.kernels["backward"].cpu_source(torch.float32, sums=(True, False)))
