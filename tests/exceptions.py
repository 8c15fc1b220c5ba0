"""The bar, and what misses it: the tables of docs/accuracy.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradgen.verify.quantity import KINDS

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


ALL_WITHIN = Bounds(dict.fromkeys(KINDS, Bound()))


def exceptions(of: str) -> dict[tuple[str, str], Bounds]:
    """The rows of one of the tables, by op and type."""
    text = (Path(__file__).parents[1] / "docs" / "accuracy.md").read_text()
    table = text.split(f"<!-- exceptions of the {of}: begin -->")[1].split(f"<!-- exceptions of the {of}: end -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    return {
        (name, dtype): Bounds(
            dict(zip(KINDS, map(_bound, cells), strict=True)), everywhere="not with every C library" not in why
        )
        for name, dtype, *cells, why in rows
    }


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
