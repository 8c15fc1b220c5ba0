"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch

from gradgen import __version__

LAST_LEVEL_CACHE = 64 << 20  # bytes, where the machine does not tell


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
    }
    if device == "cuda":
        import cupy

        properties = torch.cuda.get_device_properties(0)
        about |= {
            "gpu": properties.name,
            "gpu memory": f"{properties.total_memory / 2**30:.0f} GiB",
            "cuda": str(torch.version.cuda),
            "cupy": cupy.__version__,
        }
    return about


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
