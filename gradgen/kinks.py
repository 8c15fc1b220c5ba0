"""Derivatives at kinks that are none.

max(x, 0) + min(0, exp(x) - 1) is differentiable at 0 although neither part is, and there the conventions for the parts
would give 0 in place of 1. So each comparison of a derivative is looked at where its two sides are equal: if the
formula is continuous there, and its derivatives from both sides agree but differ from what the conventions give, the
comparisons that are undecided there are decided as on one side.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mpf

from gradgen.differentiate import gradient
from gradgen.evaluate import evaluated
from gradgen.graph import RELATIONS, Graph, Node, inputs_of, rebuilt, substitute, topological

_DIGITS = 120
_EQUAL = mpf(10) ** -60  # closer than this, two numbers count as equal
_BESIDE = mpf(10) ** -25  # how far beside a kink its sides are looked at
_AGREE = mpf(10) ** -15  # how closely the two sides agree where a formula is smooth
_SAMPLES = 3  # points on each kink
_MOST = 24  # comparisons of one formula that are looked at

Point = dict[str, mpf]


@dataclass(frozen=True)
class _Comparison:
    """What a derivative compares: a relation, or the sign of something (then `node` is the sign)."""

    node: Node
    left: Node
    right: Node


def smooth(value: Node, derivatives: Sequence[Node], tensors: Sequence[str]) -> list[Node]:
    """The derivatives of `value`, right where it is differentiable although a part of it is not."""
    derivatives = list(derivatives)
    with mpmath.workdps(_DIGITS):
        for comparison in _comparisons(derivatives)[:_MOST]:
            derivatives = _mended(value, derivatives, comparison, tensors)
    return derivatives


def without_gaps(roots: Sequence[Node]) -> list[Node]:
    """The roots without selections of a value that the function has there by itself: 1 where x is 0, else sinc(x).

    The branch that is taken is constant, and its derivative 0.
    """
    new: dict[Node, Node] = {}
    with mpmath.workdps(_DIGITS):
        for node in topological(roots):
            new[node] = rebuilt(node, new)
            if new[node].op == "where" and _fills_no_gap(new[node]):
                new[node] = new[node].args[2]
    return [new[root] for root in roots]


def _fills_no_gap(node: Node) -> bool:
    """Whether a selection at one number of an input gives what its other branch gives there, too."""
    condition, at, otherwise = node.args
    if condition.op != "eq":
        return False
    x, place = sorted(condition.args, key=lambda side: side.number is not None)
    if x.op != "input" or place.number is None or not place.number.is_finite:
        return False
    slopes = gradient(otherwise, [x])  # and their slopes, which must be numbers there as they are computed
    beside = [*slopes, *(second for slope in slopes for second in gradient(slope, [x]))]
    randoms = random.Random(0)
    compared = 0
    for _ in range(2 * _SAMPLES):
        point: Point = {name: mpf(randoms.uniform(-2, 2)) for name in inputs_of([at, otherwise])}
        point[str(x.value)] = evaluated(place, [], {})
        one, other, *derivatives = _values([at, otherwise, *beside], point)
        if mpmath.isfinite(one):
            if not abs(one - other) <= _EQUAL * max(1, abs(one)) or not all(map(mpmath.isfinite, derivatives)):
                return False
            compared += 1
    return compared > 0


def _comparisons(derivatives: Sequence[Node]) -> list[_Comparison]:
    found = []
    for node in topological(derivatives):
        if node.op == "sign":
            found.append(_Comparison(node, node.args[0], node.graph.const(0)))
        elif node.op in ("gt", "ge", "lt", "le"):
            left, right = node.args
            if left.op in ("maximum", "minimum") and right in left.args:  # max(x, c) > c where x > c
                left = left.args[1] if left.args[0] is right else left.args[0]
            found.append(_Comparison(node, left, right))
    return found


def _mended(value: Node, derivatives: list[Node], comparison: _Comparison, tensors: Sequence[str]) -> list[Node]:
    """The derivatives with their comparisons decided as on one side of this kink, where that is called for."""
    points = [found for found in _points(comparison, tensors, value) if _is_real(value, *found)]
    if not points or not all(_is_smooth_but_wrong(value, derivatives, *found) for found in points):
        return derivatives
    for direction in (1, -1):
        decided = _decided(derivatives, *points[0], direction)
        if all(_is_right(decided, derivatives, *found) for found in points):
            return decided
    return derivatives


def _is_right(decided: list[Node], derivatives: list[Node], point: Point, name: str) -> bool:
    """Whether derivatives are on a kink what they were beside it, and beside it are what they were."""
    above, below = _moved(point, name, 1), _moved(point, name, -1)
    expected = _values(derivatives, above)
    beside = all(_agree(_values(decided, side), _values(derivatives, side)) for side in (above, below))
    return beside and _agree(_values(decided, point), expected)


def _is_real(value: Node, point: Point, name: str) -> bool:
    """Whether the value is a number on the kink and on both sides of it: others tell nothing."""
    return all(
        mpmath.isfinite(_values([value], at)[0]) for at in (point, _moved(point, name, 1), _moved(point, name, -1))
    )


def _is_smooth_but_wrong(value: Node, derivatives: list[Node], point: Point, name: str) -> bool:
    above, below = _moved(point, name, 1), _moved(point, name, -1)
    here, up, down = (_values([value], p) for p in (point, above, below))
    if not (_agree(here, up) and _agree(here, down)):
        return False
    up, down = _values(derivatives, above), _values(derivatives, below)
    return _agree(up, down) and not _agree(_values(derivatives, point), up)


def _decided(derivatives: list[Node], point: Point, name: str, direction: int) -> list[Node]:
    """The derivatives with every comparison that is undecided at the point, but not beside it, decided as beside it."""
    beside = _moved(point, name, direction)
    new: dict[Node, Node] = {}
    for comparison in _comparisons(derivatives):
        left, right = (_values([side], point)[0] for side in (comparison.left, comparison.right))
        if abs(left - right) < _EQUAL:
            left, right = (_values([side], beside)[0] for side in (comparison.left, comparison.right))
            if abs(left - right) >= _EQUAL:
                new[comparison.node] = _with_equality(comparison, left > right)
    return substitute(derivatives, new)


def _with_equality(comparison: _Comparison, greater: bool) -> Node:
    """The comparison, equality counting as on the side where the left one is greater, or where it is less."""
    node, left, right = comparison.node, comparison.left, comparison.right
    graph: Graph = node.graph
    if node.op == "sign":
        condition = graph.apply("ge" if greater else "gt", left, right)
        return graph.where(condition, graph.const(1), graph.const(-1))
    upward = node.op in ("gt", "ge")
    return graph.apply(("ge" if greater else "gt") if upward else ("lt" if greater else "le"), left, right)


def _points(comparison: _Comparison, tensors: Sequence[str], value: Node) -> Iterator[tuple[Point, str]]:
    """Points at which the two sides are equal, each with the input that leads across."""
    names = [str(node.value) for node in topological([value, comparison.left, comparison.right]) if node.op == "input"]
    flags = [str(node.value) for node in topological([value]) if node.op == "flag"]
    below = {str(n.value) for n in topological([comparison.left, comparison.right]) if n.op == "input"}
    across = [name for name in tensors if name in below]
    randoms = random.Random(0)
    for attempt in range(2 * _SAMPLES):
        point: Point = {name: mpf(randoms.uniform(0.4, 2.1)) * randoms.choice([1, -1]) for name in sorted(set(names))}
        point |= {name: bool(attempt % 2) for name in flags}
        for name in across:
            root = _root(comparison, point, name)
            if root is not None:
                yield {**point, name: root}, name
                break


def _root(comparison: _Comparison, point: Point, name: str) -> mpf | None:
    """Where along one input the two sides are equal, by the secant method."""

    def difference(x: mpf) -> mpf:
        left, right = _values([comparison.left, comparison.right], {**point, name: x})
        return left - right

    try:
        root = mpmath.findroot(difference, (point[name], point[name] * mpf("1.1")), solver="secant", tol=_EQUAL**2)
    except (ValueError, ZeroDivisionError, ArithmeticError, TypeError):
        return None
    return root if isinstance(root, mpf) and abs(difference(root)) < _EQUAL else None


def _moved(point: Point, name: str, direction: int) -> Point:
    return {**point, name: point[name] + direction * _BESIDE}


def _agree(a: Sequence[mpf], b: Sequence[mpf]) -> bool:
    return all(abs(x - y) <= _AGREE * max(1, abs(x), abs(y)) for x, y in zip(a, b, strict=True))


def _values(roots: Sequence[Node], point: Mapping[str, mpf]) -> list[mpf]:
    """The values of nodes, numbers that nearly agree counting as equal."""
    values: dict[Node, object] = {}
    for node in topological(roots):
        args = [values[arg] for arg in node.args]
        values[node] = _value(node, args, point)
    return [values[root] for root in roots]


def _value(node: Node, args: list[object], point: Mapping[str, mpf]) -> object:
    if node.op == "sign" and abs(args[0]) < _EQUAL:  # type: ignore[arg-type]
        args = [mpf(0)]
    elif node.op in RELATIONS and abs(args[0] - args[1]) < _EQUAL:  # type: ignore[operator]
        args = [args[1], args[1]]
    return evaluated(node, args, point)
