"""Every float32 input of each formula of `literature/` that has one: the C kernel against the float64 kernel.

    python tests/exhaustive_literature.py [OPS]

prints a row of docs/literature.md for each, as soon as it is found; two minutes or so each. The float64 kernels are
held against mpmath by `test_literature.py`, which also has the interval in which each formula is meant.
"""

from __future__ import annotations

import importlib
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from building import FIRST_ORDER, build_formula, new_package
from test_literature import FORMULAS, UNARY, domain
from torch import Tensor

from gradgen.verify import exhaustive
from gradgen.verify.measure import Measured
from gradgen.verify.space import Space
from gradgen.verify.subject import Subject


class _Simple(Subject):
    """Without second derivatives."""

    quantities = FIRST_ORDER


class _Inside(Space):
    """Of all float32 numbers those in an open interval, and NaN where that is everything."""

    def __init__(self, names: Sequence[str], interval: tuple[float, float], stride: int) -> None:
        super().__init__(names, torch.float32, stride)
        self._low, self._high = interval
        self._all = interval == (-math.inf, math.inf)
        self._chunks = [k for k in range(super().__len__()) if self._all or self._meets(k)]

    def _meets(self, k: int) -> bool:
        """Whether a chunk may have numbers inside: where it is of one sign its ends are its extremes."""
        x = self._numbers(self._indices(k)[[0, -1]] * self._step)
        if x[0].signbit() != x[1].signbit():  # where numbers are few
            x = self._numbers(self._indices(k) * self._step)
            return bool(((x > self._low) & (x < self._high)).any())
        low, high = sorted(x.tolist())
        return high > self._low and low < self._high

    def __len__(self) -> int:
        """How many chunks there are."""
        return len(self._chunks)

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        """A chunk: a column of what is inside."""
        ((name, x),) = super().__getitem__(self._chunks[k]).items()
        whole = self._all or all(self._low < end < self._high for end in (x[0], x[-1], x.min(), x.max()))
        return {name: x if whole else x[(x > self._low) & (x < self._high)]}


def measured(names: Sequence[str], stride: int = 1) -> Iterator[tuple[str, list[Measured]]]:
    """The worst errors of value and gradient, formula by formula, at every so manieth number."""
    with tempfile.TemporaryDirectory() as folder:
        package = new_package(Path(folder, f"formulas_{Path(folder).name}"))  # another name each time
        for name in names:
            spec, formula = FORMULAS[name]
            function = getattr(build_formula(formula, spec, package), name)
            reference = package.with_name(f"reference_of_{name}")
            shutil.copytree(package, reference)
            sys.path.insert(0, folder)
            runtime = importlib.import_module(f"{reference.name}._runtime")
            runtime._vectorised.add(torch.float64)
            refer = getattr(importlib.import_module(f"{reference.name}.{name}"), name)
            sys.path.remove(folder)
            subject = _Simple(formula, function, runtime, refer)
            yield name, exhaustive.run(subject, _Inside(subject.inputs, domain(name)[0], stride), lambda: None, {})


def row(name: str, found: Sequence[Measured]) -> str:
    """A row of the table."""
    cells = [name]
    for one in found:
        cells += [
            f"{one.worst:.2f}" + (f", and {one.bad} bad" if one.bad else ""),
            one.at.partition(" at ")[2].partition(":")[0],
        ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for name, found in measured(sys.argv[1:] or UNARY):
        print(row(name, found), flush=True)
        for one in found:
            if one.bad:
                print(f"{name}: {one.bad_at}", file=sys.stderr, flush=True)
