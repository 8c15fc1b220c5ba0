"""Where a node is no number, whether it tends to one there, and whether it is 0 everywhere, by some points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import mpmath
from mpmath import mpf

from gradgen import mpfr, points
from gradgen.graph import CONDITIONS, Node, topological
from gradgen.model import FORMATS, Program

_DIGITS = 80  # binary ones
_LIMIT_DIGITS = 2000  # enough for what cancels several times where an input is as near 0 as that
_NEAR, _CLOSE = 2.0**-100, 2.0**-40
_NOTHING = 2.0**-60  # what may be the rounding of 0
_ELSEWHERE = (1.25, 0.375, -0.375)  # the first of the other inputs, where one of them is 0,
_APART = 0.1875  # and how far the next is from it, away from 0

Values = Mapping[str, float | bool]


class Poles:
    """The poles of nodes, and their limits.

    Args:
        tensors: the names of the tensor inputs.
        hyper: a value for each hyper-parameter.
    """

    def __init__(self, tensors: Sequence[str], hyper: Values) -> None:
        self._tensors = tensors
        self._hypers = points.hyper_parameters(hyper, "float64")  # for one value a pole may have no residue
        self._known: dict[tuple[Node, frozenset[str]], bool] = {}

    def has(self, node: Node, names: Iterable[str]) -> bool:
        """Whether a node is no number where some inputs are zero; hyper-parameters keep their values."""
        key = node, frozenset(names)
        if key not in self._known:
            self._known[key] = node.op not in CONDITIONS and self._is_no_number(*key)
        return self._known[key]

    def _is_no_number(self, node: Node, names: frozenset[str]) -> bool:
        order = topological([node])
        point = {**self._beside(order, names), **dict.fromkeys(names, 0.0), **self._hypers[0]}
        if not math.isfinite(Program(order, FORMATS["float64"]).at(point)[-1]):
            return True
        return not mpmath.isfinite(_exactly(order, point))  # the model has two errors left of log(q) - log(q)

    def has_limit(self, node: Node, name: str) -> bool:
        """Whether a node tends to one number, from wherever it is real, as an input goes to 0."""
        order = topological([node])
        beside, seen = self._beside(order, [name]), False
        for hyper in self._hypers:
            sizes = [sign * size for sign in (-1, 1) for size in (_NEAR, _NEAR**2)]
            found = [_exactly(order, {**beside, **hyper, name: size}, _LIMIT_DIGITS) for size in sizes]
            real = [value for value in found if not mpmath.isnan(value)]
            if any(not abs(value - real[-1]) <= _CLOSE * max(1, abs(real[-1])) for value in real):
                return False
            seen = seen or bool(real)
        return seen

    def vanishes(self, node: Node) -> bool:
        """Whether a node is 0 whatever the inputs are."""
        order = topological([node])
        places = itertools.product(self._others(), self._hypers)
        found = [_exactly(order, {**others, **hyper}) for others, hyper in places]
        real = [value for value in found if not mpmath.isnan(value)]
        return bool(real) and all(abs(value) < _NOTHING for value in real)

    def sizes(self, nodes: Iterable[Node]) -> list[mpf]:
        """How large some nodes of hyper-parameters alone are at most, of the values of these that are looked at."""
        found = [[_exactly(topological([node]), hyper) for hyper in self._hypers] for node in nodes]
        return [max((abs(value) for value in values if not mpmath.isnan(value)), default=mpf(0)) for values in found]

    def _beside(self, order: list[Node], names: Iterable[str]) -> Values:
        """Where some inputs are nearly zero, and the others such that the last of some nodes is real there, if any."""
        places = [{**others, **dict.fromkeys(names, _CLOSE), **self._hypers[0]} for others in self._others()]
        if set(self._tensors) <= set(names):
            return places[0]
        return next((at for at in places if mpmath.isfinite(_exactly(order, at))), places[0])

    def _others(self) -> Iterator[dict[str, float]]:
        for first in _ELSEWHERE:
            apart = math.copysign(_APART, first)
            yield {name: first + k * apart for k, name in enumerate(self._tensors)}


def _exactly(order: list[Node], point: Values, bits: int = _DIGITS) -> mpf:
    """The last of some nodes at a point, to more digits than any type has."""
    with mpmath.workprec(bits):
        return mpfr.Program(order, [order[-1]])(point)[0]
