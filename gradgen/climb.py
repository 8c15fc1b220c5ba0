"""The worst error of a result of several inputs, looked for near where it is large, again and again.

Where several roundings meet, and where the result hardly depends on any input, few tuples have errors that are much
larger than those of their neighbours: hardly any of those that are drawn is such a tuple, but some are next to one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from gradgen.dense import Columns, as_given, computed, drawn, scale_of
from gradgen.draws import Draws
from gradgen.graph import Node
from gradgen.model import FORMATS
from gradgen.ulp import Array, Right
from gradgen.worst import Place

_KEPT, _EACH, _ROUNDS = 64, 32, 16  # the worst tuples, neighbours of each, and how often these are looked at
_FINEST = 20  # a neighbour is less than a half to 2**-20 of its size away
_APART = (37, 101)  # of one round's steps from the next one's


def worst(
    form: Node,
    arithmetic: str,
    tensors: Sequence[str],
    hyper: Mapping[str, float | bool],
    most: float = math.inf,
) -> tuple[float, Place]:
    """The largest mixed error that is found, of a node as it is printed, and where; the same on every machine.

    Float64 arithmetic is taken for exact.

    Args:
        form: the node, all of whose functions are quick to compute.
        arithmetic: "float32", or "short", which stands for float64.
        tensors: the names of the inputs, two at least.
        hyper: a value for each hyper-parameter.
        most: the largest size of inputs.
    """

    def errors_at(tuples: Array) -> Array:
        return _errors(form, arithmetic, dict(zip(tensors, tuples, strict=True)), given)

    given = as_given(hyper, arithmetic)
    every = drawn(len(tensors))
    every = every[:, (abs(every) <= most).all(axis=0)]
    best, errors = _worst_of(every, errors_at(every))
    steps = _steps(len(tensors))
    for k in range(_ROUNDS):
        repeated = np.repeat(best, _EACH, axis=1)
        sizes, ways = (np.roll(one, k * apart, axis=-1) for one, apart in zip(steps, _APART, strict=True))
        moved = FORMATS["float32"].nearest(repeated * (1 + (ways * sizes)[:, : repeated.shape[1]]))
        moved = np.where(abs(moved) <= most, moved, repeated)
        every = np.concatenate([best, moved], axis=1)
        best, errors = _worst_of(every, np.concatenate([errors, errors_at(moved)]))
    return float(errors[0]), (*zip(tensors, best[:, 0].tolist(), strict=True), *hyper.items())


def _worst_of(tuples: Array, errors: Array) -> tuple[Array, Array]:
    """The worst tuples, with their errors, that of the first the largest."""
    kept = np.argsort(-errors, kind="stable")[:_KEPT]
    return tuples[:, kept], errors[kept]


def _errors(form: Node, arithmetic: str, columns: Columns, hyper: Mapping[str, float | bool]) -> Array:
    """The error at each tuple, 0 where the result is no number."""
    (exact,), (found,) = (computed([form], how, columns, hyper) for how in ("wide", arithmetic))
    scale = scale_of(form, columns, hyper, exact)
    use = np.isfinite(exact) & np.isfinite(scale) & np.isfinite(found)
    errors = np.zeros(len(exact))
    errors[use] = Right.of_doubles(exact[use], scale[use], arithmetic).errors(found[use])
    return errors


@cache
def _steps(count: int) -> tuple[Array, Array]:
    """How far the neighbours of the worst tuples are, and for each input to which side, as a share of that."""
    draws, often = Draws(7), _KEPT * _EACH
    return 2.0 ** -draws.integers(1, _FINEST + 1, often), draws.uniform(-1, 1, count, often)
