"""The measured errors as Markdown, kept in a file between two comments."""

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
from gradgen.verify.measure import Measured
from gradgen.verify.ordinary import Outcome
from gradgen.verify.peers import PATH as PEER
from gradgen.verify.quantity import KINDS
from gradgen.verify.report import number, worst_of

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
_HEAD = 4  # lines of a table: how it was measured, nothing, names of columns, a rule


def current(file: Path) -> tuple[str, str, str]:
    """What a file has before, in and after the place of the table; of one that is not there, nothing.

    Raises:
        GradgenError: it cannot be read, or its markers do not come as one pair.
    """
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise GradgenError(f"cannot read this file ({error})", file=file) from error
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin and END not in text:
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return text + gap, "", "\n"
    if not end or BEGIN in rest or END in before or END in after:
        raise GradgenError(
            "the place of the table is not marked clearly",
            file=file,
            hint=f"Have the line {BEGIN} once, and below it the line {END} once.",
        )
    return before, table.strip("\n"), after


def check(file: Path, ops: Sequence[str], method: str, runtime: Any) -> None:
    """Whether rows of these operations can stand in the table that a file has.

    Raises:
        GradgenError: it has rows of others, too, and was not measured in this way.
    """
    _, former, _ = current(file)
    head, rows = _parsed(former)
    recorded = dict.fromkeys(op.removeprefix("| ") for op, _ in rows)
    others = [op for op in recorded if op not in ops]
    if others and head[0] != _about(method, runtime):
        raise GradgenError(
            f"the table has rows of {'; '.join(others)} that were measured in another way",
            file=file,
            hint="Record those operations in the same run, measure as the line above the table says, or name another"
            " file.",
        )


def save(file: Path, table: str) -> None:
    """Put the table between the markers of the file, and leave all else as it is.

    The rows of other ops, which `check` has looked at, stay.

    Raises:
        GradgenError: the file cannot be read or written, or its markers do not come as one pair.
    """
    before, former, after = current(file)
    write(file, f"{before}{BEGIN}\n{_merged(former, table)}\n{END}{after}")


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


def markdown(outcomes: Sequence[Outcome], method: str, runtime: Any) -> str:
    """The table: a row for each op and type, each number the worst of all paths."""
    heads = ["op", "type"]
    for kind in KINDS:
        heads += [kind, "at"]
    heads += ["torch's value", "torch's gradient"]
    lines = [_about(method, runtime), "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for outcome in outcomes:
        for dtype in dict.fromkeys(row.dtype for row in outcome.rows):
            rows = [row for row in outcome.rows if row.dtype == dtype]
            cells = [rows[0].op, dtype]
            for kind in KINDS:
                cells += _cells([row for row in rows if row.kind == kind and row.path != PEER])
            for kind in KINDS[:2]:
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


def _about(method: str, runtime: Any) -> str:
    return f"Mixed errors in ULPs, by gradgen {__version__} on {conditions(runtime)}. {method}"


def conditions(runtime: Any) -> str:
    """By what kernels are computed here. No name of a machine or a folder: those are nobody's business."""
    library = " ".join(platform.libc_ver()).strip() or platform.system()
    parts = [platform.machine(), library, _compiler(runtime), f"torch {torch.__version__.partition('+')[0]}"]
    if torch.cuda.is_available():
        parts.append(f"CUDA {torch.version.cuda}")
    return ", ".join(filter(None, parts))


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
