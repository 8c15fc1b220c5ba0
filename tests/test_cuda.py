"""The CUDA kernels of the gallery: all are compiled, on any machine; marked gpu, they run beside the CPU's."""

from __future__ import annotations

import gallery
import pytest
import torch
from gallery import DTYPES, OPS, Op, as_tuple, gradients, total
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
        pytest.param(arch, dtype, marks=[] if (arch, dtype) in EVERY_DAY else [pytest.mark.slow])
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
