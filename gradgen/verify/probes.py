"""What is exact at some inputs of an exhaustive run, quickly: its reference shares its text with what it measures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mpmath import mpf

from gradgen.differentiate import gradient
from gradgen.graph import Graph, Node, topological
from gradgen.mpfr_functions import FUNCTIONS
from gradgen.settled import Values
from gradgen.share import share
from gradgen.verify.quantity import Exact, Point, Quantity
from gradgen.verify.space import PIECE, Space
from gradgen.verify.subject import Subject

_FEWEST = 1024  # inputs in all, if there are so few pieces; of others one of each,
_APART = 8  # or one of so many, where functions take mpmath long
_STEP, _BITS = 2654435769, 32  # near 2**32 times the golden section: its multiples fill a piece evenly


class Probes:
    """Inputs at which what is computed is held against the formula, and what is exact there.

    By differentiating the formula as it was written, in as many bits as it takes: where that tells anything.

    Args:
        subject: the op. Derivatives of the user's own are not looked at.
        space: the inputs of which they are some.
    """

    def __init__(self, subject: Subject, space: Space) -> None:
        formula = subject.formula
        graph = Graph(p.name for p in formula.scalars)
        nodes = {Quantity(k, ()): node for k, node in enumerate(map(share(formula, graph), formula.outputs))}
        for order in (1, 2) if not formula.derivatives else ():
            wanted = [quantity for quantity in subject.quantities if len(quantity.wrt) == order]
            for quantity in wanted:
                (nodes[quantity],) = gradient(
                    nodes[Quantity(quantity.output, quantity.wrt[:-1])], [graph.input(quantity.wrt[-1])]
                )
        self.quantities = [*nodes]
        roots: list[Node] = [*nodes.values()]
        is_quick = all(node.op in FUNCTIONS for node in topological(roots) if node.args)
        self._values, self._hyper, self._names = Values(roots), subject.hyper, subject.inputs
        self._of_each = max(1, _FEWEST // space.pieces)
        self._apart = 1 if is_quick or self._of_each > 1 else _APART

    def places(self, first: int, count: int) -> Iterator[int]:
        """Where in a chunk of so many inputs they are, whose first piece has the number `first`."""
        for k in range(-(-count // PIECE)):
            if (first + k) % self._apart == 0:
                for j in range(self._of_each):
                    number = ((first + k) * self._of_each + j + 1) * _STEP % (1 << _BITS)
                    place = k * PIECE + (number * PIECE >> _BITS)
                    if place < count:
                        yield place

    def exact(self, point: Point) -> dict[Quantity, Exact]:
        """The results at a point, each with its scale; none where one of them is no number."""
        at = {**point, **self._hyper}
        settled = self._values.at(at)
        if settled is None:
            return {}
        scales: list[tuple[mpf, ...]] = []

        def scale(k: int) -> mpf:
            if not scales:
                scales.append(self._values.scales(at, settled, self._names))
            return scales[0][k]

        return {
            quantity: Exact(value, partial(scale, k))
            for k, (quantity, value) in enumerate(zip(self.quantities, settled.values, strict=True))
        }
