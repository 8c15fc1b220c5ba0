"""One division in place of several: 1 / (b * b) where the power can neither overflow nor vanish, else 1 / b / b."""

from __future__ import annotations

from collections.abc import Sequence

from sympy import Integer

from gradgen.graph import HALF, RECIPROCALS, Node, rebuilt, topological
from gradgen.ranges import Ranges

REPEATED_DIVISIONS = RECIPROCALS - {Integer(-1), -HALF}  # powers that several divisions would compute
_TAME = 2.0**16  # up to its fourth power, and down to that of its inverse, all is well within float32


def one_division(roots: Sequence[Node]) -> list[Node]:
    """The roots with powers below -1 as the inverses of powers; for printing, `Graph.power` would undo it."""
    ranges = Ranges()
    new: dict[Node, Node] = {}
    for node in topological(roots):
        found = rebuilt(node, new)
        exponent = found.args[1].number if found.op == "pow" else None
        if exponent is not None and exponent in REPEATED_DIVISIONS and _is_tame(found.args[0], ranges):
            found = found.graph.inverse(found.args[0] ** -exponent)
        new[node] = found
    return [new[root] for root in roots]


def _is_tame(node: Node, ranges: Ranges) -> bool:
    known = ranges(node)
    return any(low >= 1 / _TAME and high <= _TAME for low, high in ((known.low, known.high), (-known.high, -known.low)))
