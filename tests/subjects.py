"""Gallery ops as gradgen.verify sees them."""

from __future__ import annotations

import functools
from pathlib import Path

from gallery import ROOT, Op, runtime

from gradgen.load import Formula, load
from gradgen.verify.subject import Subject


def subject(op: Op) -> Subject:
    """An op as it was generated; its float64 kernels judge those for narrower types."""
    return Subject(_formulas(op.module)[op.name], op.function, runtime(), op.function)


@functools.cache
def _formulas(module: str) -> dict[str, Formula]:
    return {formula.name: formula for formula in load(Path(ROOT, "formulas", f"{module}.py"))}
