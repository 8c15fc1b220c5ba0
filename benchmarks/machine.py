"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

from generated import _runtime
from gradgen import __version__

LAST_LEVEL_CACHE = 64 << 20  # bytes, where the machine does not tell
_MOST_ON_CPU = 6 << 30  # bytes


def description(device: str) -> dict[str, str]:
    """The machine and the versions, in words."""
    about = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "compiler": _compiler(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gradgen": __version__,
        "threads": str(torch.get_num_threads()),
        "small calls": _small_calls(),
    }
    if device == "cuda":
        import cupy

        properties = torch.cuda.get_device_properties(0)
        about |= {
            "gpu": properties.name,
            "gpu memory": f"{properties.total_memory / 2**30:.0f} GiB",
            "driver": _driver(),
            "cuda": str(torch.version.cuda),
            "nvrtc of cupy": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
            "cupy": cupy.__version__,
            "triton": _version("triton"),
            "liger-kernel": _version("liger-kernel"),
        }
    return about


def _small_calls() -> str:
    """By what small calls go; processes find it compiled, as they do once small operations have been called often."""
    if not _runtime._may_be_native():
        return "C"
    try:
        _runtime.compile_native()
    except _runtime._UnavailableError as error:
        return f"C, for C++ cannot be had: {error}"
    return "C++"


def most_traffic(device: str) -> int:
    """The bytes that a case may move; its buffers and what eager PyTorch keeps need up to four times as many."""
    return torch.cuda.get_device_properties(0).total_memory // 4 if device == "cuda" else _MOST_ON_CPU


def free_memory(device: str) -> int:
    """The bytes that several processes may share."""
    return torch.cuda.mem_get_info()[0] if device == "cuda" else _MOST_ON_CPU


def cache_bytes(device: str) -> int:
    """The size of the last cache, beyond which buffers do not stay in it."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).L2_cache_size)
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        number = file.read_text().strip()
        sizes.append(int(number[:-1]) * {"K": 1 << 10, "M": 1 << 20}[number[-1]])
    return max(sizes, default=LAST_LEVEL_CACHE)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def _compiler() -> str:
    try:
        out = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "none"
    return out.splitlines()[0]


def _driver() -> str:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
