"""The bar, and what misses it: the tables of docs/accuracy.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradgen.verify.quantity import KINDS, Point

BAR = 4.0
EASILY = 3.0  # what another C library will not lift above the bar

Worst = tuple[float, str]  # the largest error, and where it is


@dataclass(frozen=True)
class Bound:
    """What errors were measured to stay within, the bar or more, and how many results are no approximation at all."""

    worst: float = BAR
    bad: int = 0


@dataclass(frozen=True)
class Bounds:
    """Those of an op and a type, by the kind of quantity; whether with every library, else only with some."""

    kinds: Mapping[str, Bound]
    everywhere: bool = True

    def __getitem__(self, kind: str) -> Bound:
        return self.kinds[kind]


@dataclass(frozen=True)
class Figure:
    """The largest error that was recorded, how many results were bad, and where the error is; {} if there was none."""

    worst: float
    bad: int
    point: Point


ALL_WITHIN = Bounds(dict.fromkeys(KINDS, Bound()))


def exceptions(of: str) -> dict[tuple[str, str], Bounds]:
    """The rows of one of the tables, by op and type."""
    return {
        (name, dtype): Bounds(
            dict(zip(KINDS, map(_bound, cells), strict=True)), everywhere="not with every C library" not in why
        )
        for name, dtype, *cells, why in _rows(f"exceptions of the {of}")
    }


def recorded() -> dict[tuple[str, str], dict[str, Figure]]:
    """What `gradgen verify --record` found of the gallery, by op, type and kind of quantity."""
    found = {}
    for label, dtype, *cells in _rows("measured"):
        pairs = zip(cells[: 2 * len(KINDS) : 2], cells[1 : 2 * len(KINDS) : 2], strict=True)
        found[label.partition(",")[0], dtype] = dict(zip(KINDS, (_figure(*pair) for pair in pairs), strict=True))
    return found


def conditions() -> str:
    """The line above the recorded figures: by what they were found."""
    return _lines("measured")[0]


def _lines(name: str) -> list[str]:
    """What stands between two comments."""
    text = (Path(__file__).parents[1] / "docs" / "accuracy.md").read_text()
    return text.split(f"<!-- {name}: begin -->\n")[1].split(f"\n<!-- {name}: end -->")[0].splitlines()


def _rows(name: str) -> list[list[str]]:
    """The cells of the table there, without its head."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in _lines(name) if line.startswith("|")][2:]


def _figure(cell: str, place: str) -> Figure:
    worst, bad = re.fullmatch(r"([\d.e+]+)(?:, and (\d+) bad)?", cell).groups()
    point = {name: float(x) for name, x in re.findall(r"(\w+)=([^,]+)", place)}
    return Figure(float(worst), int(bad or 0), point or ({"x": float(place)} if place else {}))


def _bound(cell: str) -> Bound:
    """A bound as it is written: what misses the bar in bold, then the number of bad results."""
    bold, worst, _, bad = re.fullmatch(r"(\*\*)?([\d.e]+|inf)(?:, and (\d+) bad)?(\*\*)?", cell).group(1, 2, 4, 3)
    found = Bound(float(worst), int(bad or 0))
    assert bool(bold) == (found != Bound()), cell
    return found


def judge(found: Mapping[str, Worst], bounds: Bounds, needed: bool) -> None:
    """Within the bounds, and where much was tried not so far within that they are not `needed`."""
    for kind, (error, place) in found.items():
        bound = bounds[kind].worst
        assert error <= bound, f"{kind}: {error:.3g} ULP {place}"
        if needed and bounds.everywhere:
            assert bound <= BAR or error > EASILY, f"{kind}: {error:.3g} ULP: the exception can be lowered to the bar"
            assert bound < math.inf or error == math.inf, f"{kind}: {error:.3g} ULP: the exception can be finite"
