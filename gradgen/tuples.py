"""Where functions of several inputs may be off in float32, of thousands of tuples: float64 arithmetic tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradgen import points
from gradgen.graph import Node, topological
from gradgen.model import FORMATS, Array, Point, Program
from gradgen.ulp import LARGEST, Right

_STEP = 2.0**-22  # by what share an input is moved for a derivative
_NOTABLE = 3.0  # errors up to this are none
_ASKED = 3  # tuples of each root


def suspects(roots: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> Iterator[Point]:
    """The tuples at which each of the roots seems to be off most.

    Args:
        roots: nodes as they are printed, all of whose functions are quick to compute.
        tensors: the names of the inputs, several.
        hyper: a value for each hyper-parameter.
    """
    order = topological(roots)
    turns = np.arange(points.TUPLES)
    given = dict(zip(tensors, points.near_the_largest(len(tensors)), strict=True))
    given |= {name: np.full(len(turns), float(value)) for name, value in hyper.items()}

    def computed(form: str, inputs: Mapping[str, Array]) -> list[Array]:
        values = Program(order, FORMATS[form], is_quick=True).on(inputs, turns)
        return [values[order.index(root)] for root in roots]

    exact, narrow = computed("wide", given), computed("float32", given)
    moved = [computed("wide", {**given, name: given[name] * (1 + _STEP)}) for name in tensors]
    for k, (right, value) in enumerate(zip(exact, narrow, strict=True)):
        with np.errstate(all="ignore"):
            scale = np.max([abs(other[k] - right) for other in moved], axis=0) / _STEP
            use = np.flatnonzero(np.isfinite(scale) & (abs(right) < LARGEST["float32"]))
        errors = Right.of_doubles(right[use], scale[use], "float32").errors(value[use])
        for place in np.argsort(-errors, kind="stable")[:_ASKED]:
            if errors[place] > _NOTABLE:
                yield {**{name: float(given[name][use[place]]) for name in tensors}, **hyper}
