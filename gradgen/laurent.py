"""Laurent series whose coefficients are functions of other inputs: of x/(1 - (1 + x)**-k) in powers of x.

What has no pole enters with its derivatives; sums, products and whole powers of what has are those of their series
(Knuth, The Art of Computer Programming 2, section 4.7).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from gradgen.differentiate import gradient
from gradgen.graph import Node, inputs_of, substitute, topological
from gradgen.poles import Poles
from gradgen.rewrite import rewrite
from gradgen.series import NoSeriesError

_MORE = 3  # terms that are carried beyond those asked for; quotients use up some
_LARGEST = 150  # nodes of a derivative that becomes a coefficient


@dataclass(frozen=True)
class _Series:
    """d**low * (c[0] + c[1] d + ...), as far as it is known."""

    low: int
    c: tuple[Node, ...]


class Laurent:
    """Series in powers of a variable.

    Args:
        d: the variable.
        poles: where nodes are no numbers.
        count: how many terms are asked for.
    """

    def __init__(self, d: Node, poles: Poles, count: int) -> None:
        self._d, self._poles, self._count = d, poles, count + _MORE
        self._zero = d.graph.const(0)
        self._known: dict[Node, _Series] = {}

    def coefficients(self, root: Node) -> list[Node]:
        """Those of 1, d, d**2, ... of a node that has a limit where d is 0.

        Raises:
            NoSeriesError: it has no such series, or it cannot be told.
        """
        found = self._of(root)
        if found.low < 0:
            raise NoSeriesError
        return rewrite([*[self._zero] * found.low, *found.c])[: self._count - _MORE]

    def _of(self, node: Node) -> _Series:
        if node not in self._known:
            self._known[node] = self._normal(self._found(node))
        return self._known[node]

    def _found(self, node: Node) -> _Series:
        name = str(self._d.value)
        if name not in inputs_of([node]):
            return _Series(0, (node, *[self._zero] * (self._count - 1)))
        if not self._poles.has(node, [name]):
            return _Series(0, tuple(rewrite(taylor(node, self._d, self._poles, self._count))))
        exponent = node.args[1].number if node.op == "pow" else None
        if node.op == "add":
            return self._sum(*map(self._of, node.args))
        if node.op == "mul":
            return self._product(*map(self._of, node.args))
        if exponent is not None and exponent.is_Integer:
            base = self._of(node.args[0])
            return reduce(self._product, [base if exponent > 0 else self._inverse(base)] * abs(int(exponent)))
        raise NoSeriesError

    def _normal(self, found: _Series) -> _Series:
        """A series that begins with what is not 0."""
        for k, one in enumerate(found.c):
            if not self._poles.vanishes(one):
                return _Series(found.low + k, found.c[k:])
        raise NoSeriesError  # as far as it is known it is nothing

    def _sum(self, a: _Series, b: _Series) -> _Series:
        low, end = min(a.low, b.low), min(a.low + len(a.c), b.low + len(b.c))
        return _Series(low, tuple(self._at(a, power) + self._at(b, power) for power in range(low, end)))

    def _at(self, found: _Series, power: int) -> Node:
        return found.c[power - found.low] if power >= found.low else self._zero

    def _product(self, a: _Series, b: _Series) -> _Series:
        count = min(len(a.c), len(b.c))
        return _Series(a.low + b.low, tuple(_convolved(a.c, b.c, k, range(k + 1)) for k in range(count)))

    def _inverse(self, a: _Series) -> _Series:
        first = 1 / a.c[0]
        found = [first]
        for k in range(1, len(a.c)):
            found.append(-first * _convolved(a.c, found, k, range(1, k + 1)))
        return _Series(-a.low, tuple(found))


def _convolved(a: Sequence[Node], b: Sequence[Node], k: int, places: range) -> Node:
    return reduce(operator.add, (a[i] * b[k - i] for i in places))


def taylor(node: Node, d: Node, poles: Poles, count: int) -> list[Node]:
    """The coefficients of a node that is a number where d is 0, by its derivatives, as far as these are short.

    Raises:
        NoSeriesError: it has a power of d that hangs on other inputs, or a branch that is not taken at 0.
    """
    found: list[Node] = []
    for k in range(count):
        (at_zero,) = substitute([node], {d: d.graph.const(0)})
        if any(map(_is_no_number, topological([at_zero]))):
            raise NoSeriesError
        found.append(at_zero / math.factorial(k))
        try:
            (node,) = rewrite(gradient(node, [d]))
        except NotImplementedError:
            break
        if len(topological([node])) > _LARGEST or poles.has(node, [str(d.value)]):
            break
    return found


def _is_no_number(node: Node) -> bool:
    """Whether a node is a power of 0, or a number that is infinite or none."""
    return (node.op == "pow" and node.args[0].is_number(0)) or (node.number is not None and not node.number.is_finite)
