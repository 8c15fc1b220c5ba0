"""Where functions of several inputs may be off in float32, of thousands of tuples: float64 arithmetic tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from gradgen import points
from gradgen.graph import Node
from gradgen.model import Array, Point, program
from gradgen.ulp import LARGEST, Right

_STEP = 2.0**-22  # by what share an input is moved for a derivative
_NOTABLE = 3.0  # errors up to this are none
_ASKED = 3  # tuples of each root


class Tuples:
    """Thousands of tuples, of every magnitude and near the largest number.

    Args:
        tensors: the names of the inputs, several.
        hyper: a value for each hyper-parameter.
    """

    def __init__(self, tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> None:
        self._tensors = tensors
        self._hyper = hyper

    @cached_property
    def _columns(self) -> dict[str, Array]:
        return dict(zip(self._tensors, points.near_the_largest(len(self._tensors)), strict=True))

    def at(self, place: int) -> Point:
        """One of them."""
        return {**{name: float(column[place]) for name, column in self._columns.items()}, **self._hyper}

    def computed(self, roots: Sequence[Node], form: str, moved: str = "") -> list[Array]:
        """The roots, all of whose functions are quick to compute, in some arithmetic; with one of the inputs moved."""
        turns = np.arange(points.TUPLES)
        compute = program(tuple(roots), form, is_quick=True)
        inputs = self._columns | {name: np.full(len(turns), float(value)) for name, value in self._hyper.items()}
        if moved:
            inputs[moved] = inputs[moved] * (1 + _STEP)
        return compute.on(inputs, turns)

    def suspects(self, roots: Sequence[Node]) -> Iterator[Point]:
        """Those at which each of the roots, as it is printed, seems to be off most in float32."""
        exact, narrow = self.computed(roots, "wide"), self.computed(roots, "float32")
        moved = [self.computed(roots, "wide", name) for name in self._columns]
        for k, (right, value) in enumerate(zip(exact, narrow, strict=True)):
            with np.errstate(all="ignore"):
                scale = np.max([abs(other[k] - right) for other in moved], axis=0) / _STEP
                use = np.flatnonzero(np.isfinite(scale) & (abs(right) < LARGEST["float32"]))
            errors = Right.of_doubles(right[use], scale[use], "float32").errors(value[use])
            for place in np.argsort(-errors, kind="stable")[:_ASKED]:
                if errors[place] > _NOTABLE:
                    yield self.at(int(use[place]))
