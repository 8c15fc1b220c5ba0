"""The results as a table in the terminal, as JSON, as a plot, and as docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

from benchmarks.measure import COPY, DIRECTIONS, GRADGEN, Row

RESULTS = Path(__file__).with_name("results")
DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"


@dataclass
class Results:
    """What one run found.

    Attributes:
        device: "cpu" or "cuda".
        machine: what it ran on.
        rows: the figures.
        cold: seconds of torch.compile's first call, by operation.
        saved: bytes an element that are kept for backward, by operation and by whom.
        left_out: what there was no time for.
    """

    device: str
    machine: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    cold: dict[str, float] = field(default_factory=dict)
    saved: dict[str, dict[str, float]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def save(self, stem: Path) -> None:
        """Write JSON and the plot, beside each other."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        content = {**vars(self), "rows": [row.as_dict() for row in self.rows]}
        stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
        plot(self, stem.with_suffix(".png"))

    @classmethod
    def load(cls, file: Path) -> Results:
        """What `save` wrote."""
        content = json.loads(file.read_text())
        return cls(**{**content, "rows": [Row(**row) for row in content["rows"]]})


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str, int, str], dict[str, Row]]:
    """The rows of one operation, type, size and direction, by whom they are."""
    groups: dict[tuple[str, str, int, str], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row.op, row.dtype, row.n, row.direction), {})[row.peer] = row
    return groups


def ratio(group: Mapping[str, Row], peer: str) -> float | None:
    """How many times as long as gradgen another one takes."""
    return group[peer].median / group[GRADGEN].median if peer in group else None


def table(results: Results, direction: str, peers: Sequence[str]) -> Table:
    """The figures of a direction."""
    shown = Table(title=f"{direction}: time, and how many times as long others take", title_justify="left")
    for column in ("op", "type", "elements", "gradgen", "spread", "of copy", *peers):
        shown.add_column(column, justify="left" if column in ("op", "type") else "right")
    for (op, dtype, n, towards), group in grouped(results.rows).items():
        if towards == direction:
            shown.add_row(op, dtype, _power(n), *_cells(group, peers))
    return shown


def _cells(group: Mapping[str, Row], peers: Sequence[str]) -> list[str]:
    own = group[GRADGEN]
    copied = ratio(group, COPY)
    found = [ratio(group, peer) for peer in peers]
    return [
        duration(own.median),
        f"{(own.high - own.low) / own.median:.0%}",
        "" if copied is None else f"{copied:.0%}",
        *["" if value is None else f"{value:.2f}" for value in found],
    ]


def duration(seconds: float) -> str:
    """In a unit that leaves one to three digits before the point."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _power(n: int) -> str:
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else str(n)


def show(results: Results, console: Console) -> None:
    """Print all tables."""
    peers = [peer for peer in dict.fromkeys(row.peer for row in results.rows) if peer not in (GRADGEN, COPY)]
    for direction in DIRECTIONS:
        console.print(table(results, direction, peers))
    for title, rows in (
        ("Saved for backward, bytes an element", results.saved),
        ("torch.compile's first call, seconds", {op: {"": seconds} for op, seconds in results.cold.items()}),
    ):
        if rows:
            console.print(_plain_table(title, rows))
    for line in results.left_out:
        console.print(f"no time for {line}")


def _plain_table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    shown = Table("op", *columns, title=title, title_justify="left")
    for op, row in rows.items():
        shown.add_row(op, *[f"{row[name]:.3g}" if name in row else "" for name in columns])
    return shown


def markdown(results: Results, plotted: str) -> str:
    """The summary that stands in the document: how many times as long as gradgen the others take.

    Args:
        results: what was found.
        plotted: where the plot lies, from the document.
    """
    groups = grouped(results.rows)
    peers = [peer for peer in dict.fromkeys(row.peer for row in results.rows) if peer != GRADGEN]
    about = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    lines = [f"### On {results.machine.get('gpu') or results.machine['processor']}", "", about + ".", ""]
    lines += ["The time of others in units of gradgen's, the median of the operations (the least, the most):", ""]
    lines += _row(["direction", "type", "elements", *peers]) + _row(["---"] * (3 + len(peers)))
    for key in dict.fromkeys((direction, dtype, n) for _, dtype, n, direction in groups):
        found = [group for (_, dtype, n, direction), group in groups.items() if (direction, dtype, n) == key]
        lines += _row([key[0], key[1], _power(key[2]), *(_spread(found, peer) for peer in peers)])
    for title, rows in (
        ("Saved for backward, bytes an element of the result, in float32:", results.saved),
        ("Seconds of torch.compile's first call:", {op: {"first call": s} for op, s in results.cold.items()}),
    ):
        if rows:
            columns = list(dict.fromkeys(name for row in rows.values() for name in row))
            lines += ["", title, "", *_row(["op", *columns]), *_row(["---"] * (1 + len(columns)))]
            for op, row in rows.items():
                lines += _row([op, *(f"{row[name]:.3g}" if name in row else "" for name in columns)])
    return "\n".join([*lines, "", f"![throughput by size]({plotted})"])


def _row(cells: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


def _spread(groups: Sequence[Mapping[str, Row]], peer: str) -> str:
    found = sorted(value for group in groups if (value := ratio(group, peer)) is not None)
    return f"{found[len(found) // 2]:.2f} ({found[0]:.2f}, {found[-1]:.2f})" if found else ""


def record(results: Results, stem: Path) -> None:
    """Put the summary into docs/performance.md, in place of that of the same device."""
    text = DOCUMENT.read_text()
    begin, end = (f"<!-- {results.device}: {edge} -->" for edge in ("begin", "end"))
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    plotted = stem.with_suffix(".png").resolve().relative_to(DOCUMENT.parents[1])
    DOCUMENT.write_text(f"{before}{begin}\n{markdown(results, f'../{plotted}')}\n{end}{after}")


def plot(results: Results, file: Path) -> None:
    """Throughput by size, of the operations together, and each peer; the copy is the roof."""
    dtypes = list(dict.fromkeys(row.dtype for row in results.rows))
    figure, grid = plt.subplots(
        len(DIRECTIONS), len(dtypes), figsize=(4.5 * len(dtypes), 7), sharex=True, sharey="row", squeeze=False
    )
    for line, direction in zip(grid, DIRECTIONS, strict=True):
        for axes, dtype in zip(line, dtypes, strict=True):
            _panel(axes, [row for row in results.rows if (row.dtype, row.direction) == (dtype, direction)])
            axes.set_title(f"{direction}, {dtype}", fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("elements")
    for line in grid:
        line[0].set_ylabel("GB/s, median of the operations")
    grid[0][0].legend(fontsize=8)
    name = results.machine.get("gpu") or results.machine["processor"]
    figure.suptitle(f"{name}, torch {results.machine['torch']}", fontsize=11)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _panel(axes: Any, rows: Sequence[Row]) -> None:
    for peer in dict.fromkeys(row.peer for row in rows):
        sizes = sorted({row.n for row in rows if row.peer == peer})
        speeds = [
            sorted(row.traffic / row.median / 1e9 for row in rows if (row.peer, row.n) == (peer, n)) for n in sizes
        ]
        style = {COPY: ("black", "--", 1.2), GRADGEN: ("tab:red", "-", 2.2)}.get(peer, (None, "-", 1.2))
        axes.plot(
            sizes,
            [found[len(found) // 2] for found in speeds],
            label=peer,
            color=style[0],
            linestyle=style[1],
            linewidth=style[2],
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
