"""Infinite inputs: what a function tends to there, and forms that are NaN because they find infinity over infinity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import mpmath
import sympy
from mpmath import mpf
from sympy import Expr

from gradgen.graph import Node, inputs_of, topological
from gradgen.model import FORMATS, Program

FAR = (2.0**160, 2.0**320)  # stand for infinity
_CLOSE = mpf(2) ** -40  # how well values far out agree where there is a limit
_BEYOND = mpf(2) ** 60  # what grows beyond this far out is infinite, what falls below its inverse is 0
_OTHERS = ((0.75, 0.5), (-1.25, -0.375))  # of inputs that stay finite: the first one, and by how much the next differ
_VARIED = ((1.0, 0.0), (-1.0, 0.0), (2.5, 0.125))  # factors and summands of hyper-parameters

Exact = Callable[[Mapping[str, float | bool]], mpf | None]


def tends_to(near: mpf | None, far: mpf | None) -> mpf | None:
    """The limit of a function that has these values far out; None where it is not plain to see."""
    if near is None or far is None:
        return None
    if _is_same(near, far):
        return far
    if max(abs(near), abs(far)) < 1 / _BEYOND:
        return mpf(0)
    if min(abs(near), abs(far)) > _BEYOND and near * far > 0 and abs(near) < abs(far):
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
        if any(math.isnan(program({**point, name: sign * math.inf}, 0)[-1]) for point in points):
            far = [[exact({**point, name: sign * distance}) for distance in FAR] for point in points]
            limit = _common([tends_to(*values) for values in far if None not in values])
            if limit is not None:  # infinity is what is there already, or its opposite
                limits[x, sign] = (sign if limit > 0 else -sign) * x if limit.is_infinite else graph.const(limit)
    for limit in dict.fromkeys(limits.values()):
        places = [place for place, other in limits.items() if other is limit]
        form = graph.where(_condition(places, read), limit, form)
    return form


def _varied(hyper: Mapping[str, float | bool]) -> list[dict[str, float | bool]]:
    """Hyper-parameters of other sizes and signs, on which a limit may hang."""
    real = {name: value for name, value in hyper.items() if isinstance(value, float)}
    return [{**hyper, **{name: scale * value + shift for name, value in real.items()}} for scale, shift in _VARIED]


def _condition(places: Sequence[tuple[Node, int]], read: Sequence[Node]) -> Node:
    """The condition that one of some inputs is infinite, of some sign each, and no other is NaN."""
    graph = read[0].graph
    sizes = [graph.apply("abs", x) for x in read]
    if len(places) == 2 * len(read):
        return graph.apply("eq", reduce(lambda a, b: graph.apply("maximum", a, b), sizes), sympy.oo)
    conditions = []
    for x in dict.fromkeys(x for x, _ in places):
        signs = [sign for y, sign in places if y is x]
        infinite = graph.apply("abs", x) if len(signs) == 2 else signs[0] * x
        others = [graph.apply("lt", size, sympy.oo) for y, size in zip(read, sizes, strict=True) if y is not x]
        conditions.append(reduce(partial(graph.apply, "and"), others, graph.apply("eq", infinite, sympy.oo)))
    return reduce(partial(graph.apply, "or"), conditions)


def _is_same(a: mpf, b: mpf) -> bool:
    return bool(a == b or (mpmath.isfinite(b) and abs(a - b) <= _CLOSE * abs(b)))


def _common(limits: Sequence[mpf | None]) -> Expr | None:
    """What all limits are, if that is a number that is a multiple of 1/2, or infinite."""
    first, *rest = limits or [None]
    if first is None or any(limit is None or not _is_same(limit, first) for limit in rest):
        return None
    if mpmath.isinf(first):
        return sympy.oo * int(mpmath.sign(first))
    halves = mpmath.nint(2 * first)
    return sympy.Rational(int(halves), 2) if abs(2 * first - halves) <= _CLOSE else None
