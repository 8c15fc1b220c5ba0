"""What a form of a result loses where an input is infinite, 0, or near the ends of the type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gradgen import infinite, points
from gradgen.graph import Node, topological
from gradgen.model import FORMATS, Program
from gradgen.primitives import MARKS
from gradgen.printed import printed_alone

_TINY = 1e-10  # what may be the rounding of a sum that vanishes


class Extremes:
    """Inputs at the ends of what they can be, and what forms of results are there.

    Args:
        tensors: the names of the tensor inputs.
        hyper: a value for each hyper-parameter.
    """

    def __init__(self, tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> None:
        self._tensors = tensors
        self._hyper = hyper
        self._points = [{**point, **hyper} for point in points.extreme(tensors)]

    def kept(self, node: Node, form: Node, exact: infinite.Exact) -> Node | None:
        """A form, maybe with the node in its place where one of several inputs is infinite; None if neither will do.

        y/(x*(x + y)) is NaN where 1/x - 1/(x + y) is 1/x.
        """
        has_several = len(self._tensors) > 1  # of one, what is 0/0 may be given a series yet
        is_worse_at_zero = has_several and self._is_nan_at_zero(form) and not self._is_nan_at_zero(node)
        if self.lost(node, form, exact) <= 0:
            return None if is_worse_at_zero else form
        if not has_several or form.op in MARKS or is_worse_at_zero:
            return None
        places = [*([name] for name in self._tensors), self._tensors]
        guarded = [infinite.instead(names, node, form) for names in places]
        lost = [self.lost(node, tried, exact) for tried in guarded]
        return guarded[lost.index(min(lost))] if min(lost) <= 0 else None

    def is_lost_without(self, node: Node, form: Node) -> bool:
        """Whether a form is NaN whatever the inputs where some hyper-parameter is 0, and the node is not."""
        order = topological([node, form])
        program = Program(order, FORMATS["float64"])
        for zero in [name for name, value in self._hyper.items() if isinstance(value, float)]:
            values = program([{**point, zero: 0.0} for point in self._points])
            if np.isnan(values[order.index(form)]).all() > np.isnan(values[order.index(node)]).all():
                return True
        return False

    def lost(self, node: Node, form: Node, exact: infinite.Exact) -> int:
        """At how many more of the extreme inputs than the node itself a form overflows, vanishes or is NaN.

        Where one input is infinite NaN does not count: the form is given its limit there.
        """
        sound, other = printed_alone(node), printed_alone(form)
        order = topological([sound, other])
        program, (i, k) = Program(order, FORMATS["float64"]), (order.index(sound), order.index(other))
        values = program(self._points)
        lost = 0
        for point, old, new in zip(self._points, values[i].tolist(), values[k].tolist(), strict=True):
            is_finite = all(math.isfinite(point[name]) for name in self._tensors)
            known = exact(point) if is_finite else None
            if known is not None:
                lost += _is_lost(new, float(known)) - _is_lost(old, float(known))
            elif is_finite or len(self._tensors) > 1 or not math.isnan(new):
                lost += _is_lost(new, old) - _is_lost(old, new)
        return lost

    def _is_nan_at_zero(self, form: Node) -> bool:
        """Whether a form is NaN where all inputs are 0."""
        program = Program(topological([printed_alone(form)]), FORMATS["float64"])
        return math.isnan(program.at({**self._hyper, **dict.fromkeys(self._tensors, 0.0)})[-1])


def _is_lost(value: float, other: float) -> bool:
    """Whether a value is NaN, infinite or 0 where another way to compute it gives an ordinary number."""
    if math.isnan(value):
        return not math.isnan(other)
    if math.isinf(value):
        return math.isfinite(other)
    return value == 0 and _TINY < abs(other) < math.inf
