"""Results that are one function, but for their sign: the derivatives by x and by y of a function of x - y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mpmath
from mpmath import mpf

from gradgen import mpfr, points
from gradgen.graph import CONDITIONS, KINKS, Node, topological

_MAGNITUDE, _COMPARED, _FEWEST = 5, 32, 8  # of the points looked at; how many, and how many must tell something
_BITS, _SAME = 400, mpf(2) ** -100


def twins(
    nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]
) -> dict[Node, tuple[Node, int]]:
    """For some of the nodes an earlier one that they equal, times the sign 1 or -1.

    As far as some points can tell, which do not see every branch of a selection, so that there are none of those; and
    if both have the same kinks, for at those derivatives are what was agreed on.
    """
    nodes = [node for node in nodes if CONDITIONS.isdisjoint(below.op for below in topological([node]))]
    if len(nodes) < 2:
        return {}
    found: dict[Node, tuple[Node, int]] = {}
    with mpmath.workprec(_BITS):
        columns = _values(nodes, tensors, hyper)
        for place, node in enumerate(nodes):
            for earlier in nodes[:place]:
                sign = 0 if earlier in found else _sign(columns[earlier], columns[node])
                if sign and _kinks(earlier) == _kinks(node):
                    found[node] = earlier, sign
                    break
    return found


def _values(nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> dict[Node, list[mpf]]:
    """The values of each node at some points."""
    drawn = points.of_one("float64", _MAGNITUDE) if len(tensors) == 1 else ()
    at = [{tensors[0]: x} for x in drawn] or [*points.of_several(tensors, "float64", _MAGNITUDE)]
    near = points.hyper_parameters(hyper, "float64")[-1]
    every = [{**point, **near} for point in at[:: -(-len(at) // _COMPARED)]]
    program = mpfr.Program(topological(nodes), nodes)
    rows = [program(point) for point in every]
    return {node: [row[column] for row in rows] for column, node in enumerate(nodes)}


def _sign(one: Sequence[mpf], other: Sequence[mpf]) -> int:
    """1 if two functions have the same values, -1 if each has the negative of the other's, 0 if neither."""
    pairs = [pair for pair in zip(one, other, strict=True) if not all(map(mpmath.isnan, pair))]
    if len(pairs) < _FEWEST or not any(a for a, _ in pairs):
        return 0
    return next((sign for sign in (1, -1) if all(_is_close(a, sign * b) for a, b in pairs)), 0)


def _is_close(a: mpf, b: mpf) -> bool:
    return bool(a == b or abs(a - b) <= _SAME * abs(a))


def _kinks(node: Node) -> set[Node]:
    return {below for below in topological([node]) if below.op in KINKS}
