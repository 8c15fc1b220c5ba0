"""How long the generator takes, as a user meets it: whole commands, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Timing, Timings

_FORMULAS = Path(__file__).parents[1] / "formulas"
_TEN, _TEN_HARD = (Path(__file__).with_name(f"ten_{kind}operations.py") for kind in ("", "hard_"))
_RUNS = 3
# Unset for what is measured: pip compiles what it installs, and a checkout is compiled where it is first imported.
_WITHOUT_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def show(console: Console) -> Timings:
    """Measure and print."""
    gallery = str(_FORMULAS)
    rows = (
        ("one operation, swish", ["build", f"{gallery}/swish.py"], True),
        ("a spec of ten operations", ["build", str(_TEN)], True),
        ("ten in which much cancels", ["build", str(_TEN_HARD)], True),
        ("the gallery", ["build", gallery], True),
        ("the gallery, nothing to do", ["build", gallery], False),
        ("check that the gallery is fresh", ["check", gallery], False),
    )
    with tempfile.TemporaryDirectory() as folder:
        _seconds(["build", f"{gallery}/relu.py", "-o", folder])  # compiles the generator's own files
    shown = Table("command", "median", "of", title="The generator, seconds", title_justify="left")
    timings = {}
    for what, arguments, is_fresh in rows:
        samples = _samples(arguments, is_fresh)
        timings[what] = Timing.of(samples)
        shown.add_row(what, f"{timings[what].median:.2f}", ", ".join(f"{sample:.2f}" for sample in samples))
    console.print(shown)
    return timings


def _samples(arguments: list[str], is_fresh: bool) -> list[float]:
    """Seconds of a command, into an empty folder each time or into one that it has filled before."""
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        if not is_fresh:
            _seconds(["build", *arguments[1:], "-o", folder])
        for k in range(_RUNS):
            samples.append(_seconds([*arguments, "-o", f"{folder}/{k}" if is_fresh else folder]))
    return samples


def _seconds(arguments: list[str]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != _WITHOUT_BYTECODE}
    begun = time.perf_counter()
    command = [sys.executable, "-m", "gradgen", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begun
