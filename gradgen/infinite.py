"""Infinite inputs: what a function tends to there, and forms that are NaN because they find infinity over infinity."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce

import mpmath
import numpy as np
import sympy
from mpmath import mpf
from sympy import Expr

from gradgen.graph import Node, inputs_of, topological
from gradgen.model import FORMATS, Program

_DISTANCES = ((160, 1.0, 0.3741), (320, 1.0, 0.8519), (320, 1.625, 0.1093))
# These stand for infinity: no whole numbers, of which a periodic function may know but one value
with mpmath.workprec(500):
    FAR = tuple(mpf(2) ** power * share + fraction for power, share, fraction in _DISTANCES)
_CLOSE = mpf(2) ** -40  # how well values far out agree where there is a limit
_BEYOND = mpf(2) ** 60  # what grows beyond this far out is infinite, what falls below its inverse is 0
# Inputs that stay finite: the first one, and by how much the next differ
_OTHERS = ((0.75, 0.5), (-1.25, -0.375), (37.5, -11.25), (-41.0, 17.5), (0.015625, 0.03125), (-0.0078125, 2.75))
_FEWEST = 3  # numbers that a limit must be found among
_VARIED = 6  # hyper-parameters that are drawn at random

Exact = Callable[[Mapping[str, float | bool | mpf]], mpf | None]


def tends_to(values: Sequence[mpf]) -> mpf | None:
    """The limit of a function that has these values at the distances of `FAR`; None where it is not plain to see."""
    *near, far = values
    if all(_is_same(value, far) for value in near):
        return far
    sizes = [abs(value) for value in values]
    if max(sizes) < 1 / _BEYOND:
        return mpf(0)
    if min(sizes) > _BEYOND and all(value * far > 0 for value in near) and sizes == sorted(sizes):
        return mpmath.sign(far) * mpmath.inf
    return None


def settled(form: Node, printed: Node, exact: Exact, tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> Node:
    """A form with the limit for each infinite input at which it is NaN, if that is the same whatever all others are.

    Args:
        form: the form.
        printed: the same as it is computed.
        exact: its exact value at finite inputs, None where it has none.
        tensors: the names of the tensor inputs.
        hyper: a value for each hyper-parameter.
    """
    graph = form.graph
    program = Program(topological([printed]), FORMATS["float64"])
    finite = [{name: first + k * step for k, name in enumerate(tensors)} for first, step in _OTHERS]
    points = [{**point, **values} for point, values in itertools.product(finite, _varied(hyper))]
    read = [graph.input(name) for name in inputs_of([printed]) if name in tensors]
    limits: dict[tuple[Node, int], Node] = {}
    for x, sign in itertools.product(read, (1, -1)):
        name = str(x.value)
        if np.isnan(program([{**point, name: sign * math.inf} for point in points])[-1]).any():
            limit = _common(_limits(exact, point, name, sign) for point in points)
            if limit is not None:  # infinity is what is there already, or its opposite
                limits[x, sign] = (sign if limit > 0 else -sign) * x if limit.is_infinite else graph.const(limit)
    for limit in dict.fromkeys(limits.values()):
        places = [place for place, other in limits.items() if other is limit]
        form = graph.where(_condition(places, read), limit, form)
    return form


def _limits(exact: Exact, point: Mapping[str, float | bool], name: str, sign: int) -> tuple[bool, mpf | None]:
    """Whether a function is a number far out along an input, and what it tends to there."""
    values = [exact({**point, name: mpmath.fmul(sign, distance, exact=True)}) for distance in FAR]
    known = [value for value in values if value is not None]
    return bool(known), tends_to(known) if len(known) == len(values) else None


def _varied(hyper: Mapping[str, float | bool]) -> list[dict[str, float | bool]]:
    """Hyper-parameters of other sizes and signs, on which a limit may hang; flags stay as they are."""
    randoms = random.Random(0)
    rows = [dict(hyper)]
    for k in range(_VARIED):
        row: dict[str, float | bool] = {}
        for name, value in hyper.items():
            drawn = (abs(value) + 1) * randoms.uniform(-3, 3)
            row[name] = value if isinstance(value, bool) else value + k % 3 if isinstance(value, int) else drawn
        rows.append(row)
    return [row for k, row in enumerate(rows) if row not in rows[:k]]


def _condition(places: Sequence[tuple[Node, int]], read: Sequence[Node]) -> Node:
    """The condition that one of some inputs is infinite, of some sign each, and no other is NaN."""
    graph = read[0].graph
    sizes = [graph.apply("abs", x) for x in read]
    if len(read) == 2 and len(places) == 4:  # one of both; NaN shows in both extremes
        infinite = graph.apply("eq", graph.apply("maximum", *sizes), sympy.oo)
        return graph.apply("and", infinite, graph.apply("lt", graph.apply("minimum", *sizes), sympy.oo))
    conditions = []
    for x in dict.fromkeys(x for x, _ in places):
        signs = [sign for y, sign in places if y is x]
        infinite = graph.apply("abs", x) if len(signs) == 2 else signs[0] * x
        others = [graph.apply("lt", size, sympy.oo) for y, size in zip(read, sizes, strict=True) if y is not x]
        conditions.append(reduce(partial(graph.apply, "and"), others, graph.apply("eq", infinite, sympy.oo)))
    return reduce(partial(graph.apply, "or"), conditions)


def _is_same(a: mpf, b: mpf) -> bool:
    return bool(a == b or (mpmath.isfinite(b) and abs(a - b) <= _CLOSE * abs(b)))


def _common(found: Iterable[tuple[bool, mpf | None]]) -> Expr | None:
    """What all limits are where there is a number, if that is a multiple of 1/2, or infinite; None if they differ."""
    first, count = None, 0
    for is_number, limit in found:
        if not is_number:
            continue
        count += 1
        if limit is None or not (first is None or _is_same(limit, first)):
            return None
        first = limit
    if first is None or count < _FEWEST:
        return None
    if mpmath.isinf(first):
        return sympy.oo * int(mpmath.sign(first))
    halves = mpmath.nint(2 * first)
    return sympy.Rational(int(halves), 2) if abs(2 * first - halves) <= _CLOSE else None
