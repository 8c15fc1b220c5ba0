"""What tests of CUDA kernels share: their mark, and the type of the function of the driver that launches a kernel."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

# cuLaunchKernel: the function, the sizes of grid and block, bytes of shared memory, the stream, the arguments
LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)


def gpu(test: Any) -> Any:
    """Marks a test that runs CUDA kernels."""
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")(test))
