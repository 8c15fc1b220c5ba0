"""What a verification prints: a table for each op, and in words what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradgen.verify.gradchecks import Check
from gradgen.verify.measure import Measured
from gradgen.verify.ordinary import Outcome
from gradgen.verify.peers import PATH as PEER
from gradgen.verify.subject import Subject

ANY_WIDTH = 1000  # columns of a terminal on which every table fits
_Row = list[str | Text]


def tables(subject: Subject, outcome: Outcome, bar: float, console: Console) -> Iterator[Table]:
    """The measured errors of an op, a row for each type and kind of quantity, a column for each path.

    The last column tells where the worst are; where a terminal is too narrow for it, a table below.
    """
    title = f"{subject.label}: worst and mean error in ULPs"
    head, *rows = _rows(outcome, bar)
    whole = _table(title, head, rows)
    if console.measure(whole, options=console.options.update(width=ANY_WIDTH)).maximum <= console.width:
        yield whole
    else:
        yield _table(title, head[:-1], [row[:-1] for row in rows])
        yield _table("Where the worst are", [head[0], head[-1]], [[row[0], row[-1]] for row in rows if row[-1]])


def _table(title: str, head: _Row, rows: Sequence[_Row]) -> Table:
    """A table whose columns are broken between words alone, not within "0.50 / 0.13"."""
    found = Table(title=title, title_justify="left")
    for column in zip(head, *rows, strict=True):
        words = [word for cell in column for word in re.split(r"(?<!/) (?!/)", str(cell))]
        found.add_column(column[0], min_width=max(map(len, words)))
    for row in rows:
        found.add_row(*row)
    return found


def _rows(outcome: Outcome, bar: float) -> Iterator[_Row]:
    """The names of the columns, and the rows."""
    groups: dict[tuple[str, str], dict[str, Measured]] = {}
    for row in outcome.rows:
        groups.setdefault((row.dtype, row.kind), {})[row.path] = row
    columns = list(dict.fromkeys([row.path for row in outcome.rows] + [check.path for check in outcome.checks]))
    yield ["type", "quantity", *columns, "paths differ by", "bad", "worst"]
    for (dtype, kind), rows in groups.items():
        ours = [row for row in rows.values() if row.path != PEER]
        worst = max(ours, key=lambda row: row.worst)
        at = next((row.bad_at for row in ours if row.bad), worst.at)  # what is bad has no error
        apart = [row.apart for row in rows.values() if row.apart is not None]
        yield [
            dtype,
            kind,
            *[_cell(rows.get(column), bar) for column in columns],
            number(max(apart)) if apart else "",
            _bad(max(row.bad for row in ours)),
            Text(at.partition(": ")[0]),
        ]
    for name in dict.fromkeys(check.name for check in outcome.checks):
        by_path = {check.path: check for check in outcome.checks if check.name == name}
        yield ["float64", name, *[_status(by_path.get(column)) for column in columns], "", "", ""]


def complaints(outcome: Outcome, bar: float) -> list[str]:
    """What is wrong with an op, a line each; what is wrong in the same way on several paths is one."""
    lines: dict[str, list[str]] = {}
    for row in outcome.rows:
        if row.path == PEER:
            continue
        if row.worst > bar:
            text = f"{row.dtype} {row.kind}: {number(row.worst)} ULPs, over the bar of {bar:g}: {row.at}"
            lines.setdefault(text, []).append(row.path)
        if row.bad:
            text = f"{row.dtype} {row.kind}: {row.bad} of {row.count} are bad, such as {row.bad_at}"
            lines.setdefault(text, []).append(row.path)
    for check in outcome.checks:
        if check.failed:
            lines.setdefault(f"{check.name}: {check.status}", []).append(check.path)
    return [*outcome.failures, *(f"{text} ({' and '.join(dict.fromkeys(paths))})" for text, paths in lines.items())]


def number(error: float) -> str:
    """An error in as many digits as mean something."""
    return f"{error:.2f}" if error < 1000 else f"{error:.3g}"


def worst_of(rows: Iterable[Measured]) -> tuple[float, str, int]:
    """The worst error of some rows, where it is, and how many bad results there are."""
    found: Sequence[Measured] = list(rows)
    worst = max(found, key=lambda row: row.worst)
    return worst.worst, worst.at, max(row.bad for row in found)


def _cell(row: Measured | None, bar: float) -> Text:
    if row is None:
        return Text("")
    wrong = not row.passes(bar) and row.path != PEER
    return Text(f"{number(row.worst)} / {number(row.mean)}", style="bold red" if wrong else "")


def _bad(count: int) -> Text:
    return Text(str(count), style="bold red" if count else "")


def _status(check: Check | None) -> Text:
    if check is None:
        return Text("")
    return Text("failed", style="bold red") if check.failed else Text(check.status)
