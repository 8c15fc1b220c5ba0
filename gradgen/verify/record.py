"""The measured errors as Markdown, kept in a file between two comments: those of the CPU, and those of CUDA.

Each may be measured on a machine of its own: to record one leaves the other as it is.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gradgen import __version__
from gradgen.build import write
from gradgen.errors import GradgenError
from gradgen.verify.measure import Measured, device_of
from gradgen.verify.ordinary import Outcome
from gradgen.verify.peers import PATH as PEER
from gradgen.verify.quantity import KINDS
from gradgen.verify.report import number, worst_of

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
_MARKERS = {"cpu": (BEGIN, END), "cuda": ("<!-- measured on CUDA: begin -->", "<!-- measured on CUDA: end -->")}
_HEAD = 4  # lines of a table: how it was measured, nothing, names of columns, a rule


def current(file: Path, device: str = "cpu") -> tuple[str, str, str]:
    """What a file has before, in and after the place of the table of a device; of one that is not there, nothing.

    Without such a place, that of CUDA is below that of the CPU, else at the end.

    Raises:
        GradgenError: it cannot be read, or its markers do not come as one pair.
    """
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise GradgenError(f"cannot read this file ({error})", file=file) from error
    first, last = _MARKERS[device]
    before, begin, rest = text.partition(first)
    table, end, after = rest.partition(last)
    if not begin and last not in text:
        if device == "cuda" and END in text:
            before, end, after = text.partition(END)
            return f"{before}{end}\n\n", "", after
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return text + gap, "", "\n"
    if not end or first in rest or last in before or last in after:
        raise GradgenError(
            "the place of the table is not marked clearly",
            file=file,
            hint=f"Have the line {first} once, and below it the line {last} once.",
        )
    return before, table.strip("\n"), after


def check(file: Path, ops: Sequence[str], method: str, runtime: Any, device: str = "cpu") -> None:
    """Whether rows of these operations can stand in the table of a device that a file has.

    Raises:
        GradgenError: it has rows of others, too, and was not measured in this way.
    """
    _, former, _ = current(file, device)
    head, rows = _parsed(former)
    recorded = dict.fromkeys(op.removeprefix("| ") for op, _ in rows)
    others = [op for op in recorded if op not in ops]
    if others and head[0] != _about(method, runtime, device):
        raise GradgenError(
            f"the table has rows of {'; '.join(others)} that were measured in another way",
            file=file,
            hint="Record those operations in the same run, measure as the line above the table says, or name another"
            " file.",
        )


def save(file: Path, table: str, device: str = "cpu") -> None:
    """Put the table of a device between its markers in the file, and leave all else as it is.

    The rows of other ops, which `check` has looked at, stay.

    Raises:
        GradgenError: the file cannot be read or written, or its markers do not come as one pair.
    """
    before, former, after = current(file, device)
    begin, end = _MARKERS[device]
    write(file, f"{before}{begin}\n{_merged(former, table)}\n{end}{after}")


def _merged(former: str, table: str) -> str:
    """A table, and of a former one that begins alike the rows of ops that it has not."""
    head, rows = _parsed(table)
    former_head, former_rows = _parsed(former)
    if former_head != head:
        return table
    ops = {op for op, _ in rows}
    others = {key: row for key, row in former_rows.items() if key in rows or key[0] not in ops}
    return "\n".join([*head, *(others | rows).values()])


def _parsed(table: str) -> tuple[list[str], dict[tuple[str, str], str]]:
    """The lines above the rows of a table, and the rows by op and type."""
    lines = table.splitlines()
    rows = [line for line in lines[_HEAD:] if line.startswith("| ")]
    return lines[:_HEAD], {tuple(row.split(" | ", 2)[:2]): row for row in rows}  # type: ignore[misc]


def markdown(outcomes: Sequence[Outcome], method: str, runtime: Any, device: str = "cpu") -> str:
    """The table of a device: a row for each op and type, each number the worst of all paths there."""
    heads = ["op", "type"]
    for kind in KINDS:
        heads += [kind, "at"]
    if device == "cpu":
        heads += ["torch's value", "torch's gradient"]
    lines = [_about(method, runtime, device), "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for outcome in outcomes:
        here = [row for row in outcome.rows if device_of(row.path) == device]
        for dtype in dict.fromkeys(row.dtype for row in here):
            rows = [row for row in here if row.dtype == dtype]
            cells = [rows[0].op, dtype]
            for kind in KINDS:
                cells += _cells([row for row in rows if row.kind == kind and row.path != PEER])
            for kind in KINDS[:2] if device == "cpu" else ():
                cells.append(_cells([row for row in rows if row.kind == kind and row.path == PEER])[0])
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(rows: Sequence[Measured]) -> list[str]:
    """An error, and where it is, without the quantity where that is plain."""
    if not rows:
        return ["", ""]
    worst, at, bad = worst_of(rows)
    place = at.partition(": ")[0]
    place = re.sub(r"^(?:value|d/d\w+|d2/d\w+ d\w+) at \w+=([^,]*)$", r"\1", place)
    return [f"{number(worst)}, and {bad} bad" if bad else number(worst), place]


def _about(method: str, runtime: Any, device: str) -> str:
    return f"Mixed errors in ULPs, by gradgen {__version__} on {conditions(runtime, device)}. {method}"


def conditions(runtime: Any, device: str = "cpu") -> str:
    """By what kernels are computed here. No name of a machine or a folder: those are nobody's business."""
    if device == "cuda":
        parts = [torch.cuda.get_device_name(), _driver(), f"CUDA {torch.version.cuda}", _nvrtc()]
    else:
        library = " ".join(platform.libc_ver()).strip() or platform.system()
        parts = [platform.machine(), library, _compiler(runtime)]
    return ", ".join(filter(None, [*parts, f"torch {torch.__version__.partition('+')[0]}"]))


def _driver() -> str:
    """The version of the driver of the GPU, "" where there is no tool to ask."""
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = re.match(r"\d+(?:\.\d+)+", done.stdout)
    return f"driver {version[0]}" if version else ""


def _nvrtc() -> str:
    """The version of what compiles the kernels, whose functions they call, too."""
    from cupy.cuda import nvrtc

    return f"NVRTC {'.'.join(map(str, nvrtc.getVersion()))}"


def _compiler(runtime: Any) -> str:
    """Name and version of the C compiler, "" where there is none."""
    try:
        command = runtime._compiler().command
        done = subprocess.run([command[0], "--version"], capture_output=True, text=True, timeout=10)
    except Exception:  # then the kernels were not compiled either, which is reported where it matters
        return ""
    first = (done.stdout.splitlines() or [""])[0]
    version = re.search(r"\d+(?:\.\d+)+", re.sub(r"\(.*?\)", "", first))
    return f"{'clang' if 'clang' in first else 'gcc'} {version[0]}" if version else ""
