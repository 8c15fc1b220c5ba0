"""The results as a table in the terminal, as JSON, as a plot, and as docs/performance.md."""

from __future__ import annotations

import json
import re
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
from benchmarks.timing import Timings

RESULTS = Path(__file__).with_name("results")
DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"
_SHOWN = (1 << 10, 1 << 18, 1 << 22, 1 << 26)  # elements at which the document has each operation, on a processor
SECONDS = "seconds in all"  # an option that is none
_MOST_ROWS = 100  # of a table that is printed; beyond that there is the summary


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
        notes: what went wrong.
        options: what was asked for, and the seconds that the whole took.
    """

    device: str
    machine: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    cold: dict[str, float] = field(default_factory=dict)
    saved: dict[str, dict[str, float]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def save(self, stem: Path) -> None:
        """Write JSON and the plot, if there is anything to show, beside each other."""
        self.write(stem)
        if self.rows:
            plot(self, _file(stem, "png"))

    def write(self, stem: Path) -> None:
        """Write JSON."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        content = {**vars(self), "rows": [row.as_dict() for row in self.rows]}
        _file(stem, "json").write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> Results:
        """What `save` wrote."""
        content = json.loads(file.read_text())
        return cls(**{**content, "rows": [Row(**row) for row in content["rows"]]})

    @classmethod
    def together(cls, parts: Sequence[Results]) -> Results:
        """Several runs as one.

        Raises:
            ValueError: if they ran on different machines, or two of them have the same figure.
        """
        whole = cls(parts[0].device, parts[0].machine)
        known = {"device": whole.device, **whole.machine}
        for part in parts:
            about = {"device": part.device, **part.machine}
            if changed := [name for name in known | about if known.get(name) != about.get(name)]:
                raise ValueError(f"these are of different machines, or versions: {', '.join(changed)}")
            whole.rows += part.rows
            whole.cold = part.cold | whole.cold
            whole.saved |= part.saved
        figures = {(row.op, row.dtype, row.n, row.direction, row.peer) for row in whole.rows}
        if len(figures) < len(whole.rows):
            raise ValueError("a figure is in more than one of these")
        measured = {f"{row.op}, {row.dtype}" for row in whole.rows}
        whole.left_out = [*dict.fromkeys(what for part in parts for what in part.left_out if what not in measured)]
        whole.notes = [*dict.fromkeys(note for part in parts for note in part.notes)]
        for name in dict.fromkeys(name for part in parts for name in part.options):
            given = [part.options[name] for part in parts if name in part.options]
            whole.options[name] = sum(given) if name == SECONDS else "; ".join(dict.fromkeys(map(str, given)))
        return whole


def stem(what: str, machine: Mapping[str, str]) -> Path:
    """Where results lie, without suffix."""
    name = (machine.get("gpu") or machine["processor"]).lower()
    return RESULTS / f"{what}-{re.sub('[^a-z0-9]+', '-', name).strip('-')}"


def _file(stem: Path, suffix: str) -> Path:
    """With a suffix more, whatever the name has by itself."""
    return stem.with_name(f"{stem.name}.{suffix}")


def write_timings(timings: Timings, machine: Mapping[str, str], stem: Path) -> None:
    """Write JSON: seconds by what took them."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "seconds": {name: vars(timing) for name, timing in timings.items()}}
    _file(stem, "json").write_text(json.dumps(content, indent=1) + "\n")


@dataclass(frozen=True)
class Sheet:
    """A table, for the terminal or for the document."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def table(self) -> Table:
        """For the terminal."""
        shown = Table(title=self.title, title_justify="left")
        for column in self.columns:
            shown.add_column(column, no_wrap=column == "op")
        for row in self.rows:
            shown.add_row(*row)
        return shown

    def markdown(self) -> list[str]:
        """Lines for the document."""
        rows = (self.columns, ["---"] * len(self.columns), *self.rows)
        return [f"{self.title}:", "", *(f"| {' | '.join(row)} |" for row in rows), ""]


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str, int, str], dict[str, Row]]:
    """The rows of one operation, type, size and direction, by whom they are."""
    groups: dict[tuple[str, str, int, str], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row.op, row.dtype, row.n, row.direction), {})[row.peer] = row
    return groups


def ratio(group: Mapping[str, Row], peer: str) -> float | None:
    """How many times as long as gradgen another one takes."""
    return group[peer].median / group[GRADGEN].median if peer in group else None


def best_peer(group: Mapping[str, Row]) -> tuple[str, float] | None:
    """The fastest of the others, and how many times as long as gradgen it takes."""
    found = {peer: row.median / group[GRADGEN].median for peer, row in group.items() if peer not in (GRADGEN, COPY)}
    return min(found.items(), key=lambda item: item[1]) if found else None


def table(results: Results, direction: str, peers: Sequence[str]) -> Table:
    """The figures of a direction."""
    shown = Table(title=f"{direction}: time, and how many times as long others take", title_justify="left")
    for column in ("op", "type", "elements", "gradgen", "spread", "of copy", *peers):
        shown.add_column(column, justify="left" if column in ("op", "type") else "right", no_wrap=column == "op")
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
    """Print all tables, or where those of all figures would be long the summary alone."""
    peers = [peer for peer in dict.fromkeys(row.peer for row in results.rows) if peer not in (GRADGEN, COPY)]
    if len(grouped(results.rows)) <= _MOST_ROWS * len(DIRECTIONS):
        for direction in DIRECTIONS:
            console.print(table(results, direction, peers))
    for sheet in (*_summary(results), _saved(results), _first_calls(results)):
        if sheet.rows:
            console.print(sheet.table())
    for line in results.notes:
        console.print(line, markup=False)
    for line in results.left_out:
        console.print(f"no time for {line}")


def _summary(results: Results) -> list[Sheet]:
    """Beside the best of the others and the copy: all operations by size, and each at the largest."""
    groups = grouped(results.rows)
    if not groups:
        return []
    dtypes = list(dict.fromkeys(dtype for _, dtype, _, _ in groups))
    sizes = sorted({n for _, _, n, _ in groups})
    ratios: list[list[str]] = []
    shares: list[list[str]] = []
    for direction in DIRECTIONS:
        for n in sizes:
            found = [_alike(groups, dtype, n, direction) for dtype in dtypes]
            best = [[pair for group in alike if (pair := best_peer(group))] for alike in found]
            ratios.append([direction, _power(n), *(_middle([times for _, times in pairs], "{:.2f}") for pairs in best)])
            copied = [[share for group in alike if (share := ratio(group, COPY)) is not None] for alike in found]
            shares.append([direction, _power(n), *(_middle(each, "{:.0%}") for each in copied)])
    over = "the median of the operations (the least, the most)"
    return [
        Sheet(f"Time of the best other in gradgen's, {over}", ["", "elements", *dtypes], ratios),
        Sheet(f"Bytes per second in the copy's, {over}", ["", "elements", *dtypes], shares),
        _by_op(results, sizes[-1]),
    ]


def _by_op(results: Results, n: int) -> Sheet:
    """Each operation beside the copy and the best of the others."""
    groups = {key: group for key, group in grouped(results.rows).items() if key[2] == n}
    columns = [(d, way) for d in dict.fromkeys(dtype for _, dtype, _, _ in groups) for way in DIRECTIONS]
    rows = [
        [op, *(_at_most(groups.get((op, dtype, n, direction))) for dtype, direction in columns)]
        for op in dict.fromkeys(op for op, _, _, _ in groups)
    ]
    return Sheet(
        f"At {_power(n)} elements: bytes per second in the copy's; time of the best other in gradgen's",
        ["op", *(f"{dtype} {direction}" for dtype, direction in columns)],
        [row for row in rows if any(row[1:])],
    )


def _spreads(results: Results) -> Sheet:
    """How far apart the quartiles of gradgen's figures are."""
    groups = grouped(results.rows)
    dtypes = list(dict.fromkeys(dtype for _, dtype, _, _ in groups))
    rows = []
    for direction in DIRECTIONS:
        for n in sorted({n for _, _, n, _ in groups}):
            found = [[group[GRADGEN] for group in _alike(groups, dtype, n, direction)] for dtype in dtypes]
            apart = [[(row.high - row.low) / row.median for row in each] for each in found]
            rows.append([direction, _power(n), *(_middle(each, "{:.0%}") for each in apart)])
    title = "The quartiles of gradgen's time, how far apart, the median of the operations (the least, the most)"
    return Sheet(title, ["", "elements", *dtypes], rows)


def _alike(
    groups: Mapping[tuple[str, str, int, str], Mapping[str, Row]], dtype: str, n: int, direction: str
) -> list[Mapping[str, Row]]:
    """All operations of a type, size and direction."""
    return [group for (_, *key), group in groups.items() if key == [dtype, n, direction]]


def _middle(found: Sequence[float], style: str) -> str:
    if not found:
        return ""
    ordered = sorted(found)
    low, middle, high = (style.format(value) for value in (ordered[0], ordered[len(ordered) // 2], ordered[-1]))
    return f"{middle} ({low}, {high})"


def _at_most(group: Mapping[str, Row] | None) -> str:
    if group is None:
        return ""
    share, best = ratio(group, COPY), best_peer(group)
    cells = ["" if share is None else f"{share:.0%}", "" if best is None else f"{best[1]:.2f} {best[0]}"]
    return ", ".join(cell for cell in cells if cell)


def _peers(results: Results, sizes: Sequence[int]) -> Sheet:
    """How many times as long as gradgen each of the others takes."""
    groups = grouped(results.rows)
    peers = [peer for peer in dict.fromkeys(row.peer for row in results.rows) if peer != GRADGEN]
    rows = []
    for direction, dtype, n in dict.fromkeys((direction, dtype, n) for _, dtype, n, direction in groups):
        if n in sizes:
            found = _alike(groups, dtype, n, direction)
            times = [[time for group in found if (time := ratio(group, peer)) is not None] for peer in peers]
            rows.append([direction, dtype, _power(n), *(_middle(each, "{:.2f}") for each in times)])
    title = "The time of others in units of gradgen's, the median of the operations (the least, the most)"
    return Sheet(title, ["direction", "type", "elements", *peers], rows)


def _saved(results: Results) -> Sheet:
    columns = list(dict.fromkeys(name for row in results.saved.values() for name in row))
    rows = [[op, *(f"{row[name]:.3g}" if name in row else "" for name in columns)] for op, row in results.saved.items()]
    return Sheet("Saved for backward, bytes an element of the result, in float32", ["op", *columns], rows)


def _first_calls(results: Results) -> Sheet:
    rows = [[op, f"{seconds:.3g}"] for op, seconds in results.cold.items()]
    title = "Seconds of torch.compile's first call, with empty caches; the very first loads the compiler, too"
    return Sheet(title, ["op", "first call"], rows)


def markdown(results: Results, plotted: str) -> str:
    """What stands in the document: the summary, or of a processor how long each of the others takes.

    Args:
        results: what was found.
        plotted: where the plot lies, from the document.
    """
    about = ", ".join(f"{name} {value}" for name, value in (results.machine | results.options).items())
    lines = [f"### On {results.machine.get('gpu') or results.machine['processor']}", "", about + ".", ""]
    sizes = sorted({row.n for row in results.rows})
    if results.device == "cuda":
        sheets = [*_summary(results), _peers(results, sizes[-1:]), _spreads(results)]
    else:
        large = [_by_op(results, n) for n in sizes if n in _SHOWN]
        sheets = [_peers(results, sizes), *large, _spreads(results), _saved(results)]
    for sheet in (*sheets, _first_calls(results)):
        lines += sheet.markdown() if sheet.rows else []
    for title, remarks in (("What went wrong", results.notes), ("There was no time for", _by_type(results.left_out))):
        if remarks:
            lines += [f"{title}:", "", *(f"- {remark}" for remark in remarks), ""]
    return "\n".join([*lines, f"![throughput by size]({plotted})"])


def _by_type(left_out: Sequence[str]) -> list[str]:
    """One line for each type."""
    found: dict[str, list[str]] = {}
    for line in left_out:
        op, _, dtype = line.rpartition(", ")
        found.setdefault(dtype, []).append(op)
    return [f"{dtype}: {', '.join(ops)}" for dtype, ops in found.items()]


def record(results: Results, stem: Path) -> None:
    """Put the summary into docs/performance.md, in place of that of the same device."""
    text = DOCUMENT.read_text()
    kind = "gpu" if results.device == "cuda" else results.device
    begin, end = (f"<!-- {kind}: {edge} -->" for edge in ("begin", "end"))
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    plotted = _file(stem, "png").resolve().relative_to(DOCUMENT.parents[1])
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
