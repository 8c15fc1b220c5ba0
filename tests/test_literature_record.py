"""docs/literature.md: formulas of the literature at every float32 input, as they were found and as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest
from exhaustive_literature import measured
from test_literature import UNARY, each

from gradgen.quality import BAR

LINES = (Path(__file__).parents[1] / "docs" / "literature.md").read_text().splitlines()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES if line.startswith("| ")][1:]
RECORD = {name: (float(value), float(gradient)) for name, value, _, gradient, _ in ROWS}
STRIDE = 4001
ROUNDED = 0.005  # by how much a number of the record may be


def test_every_row_is_within_the_bar() -> None:
    assert len(RECORD) == len(ROWS) >= 60
    assert RECORD.keys() <= set(UNARY)
    assert max(map(max, RECORD.values())) <= BAR


@pytest.mark.slow
@pytest.mark.parametrize("name", each(RECORD, "float32"))
def test_the_record_is_that_of_the_kernels(name: str) -> None:
    """At a million of the inputs nothing is worse than what was recorded of all."""
    ((_, found),) = measured([name], STRIDE)
    for one, recorded in zip(found, RECORD[name], strict=True):
        assert not one.bad, one.bad_at
        assert one.worst <= recorded + ROUNDED, one.at
