"""Quotients by a sum in which squares may overflow, long before the quotient vanishes.

With m = max(|u|, 1) the sum s + u**2 is m*(s/m + u*(u/m)), and a quotient is divided by one of the two factors after
the other: v/(s + u**2) is v/m/(s/m + u*(u/m)).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import reduce

from gradgen.graph import Node, rebuilt, topological
from gradgen.rewrite import factors, terms


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """The node with each of the sums that it is divided by in two factors; each with what it is."""
    for divisor in dict.fromkeys(_divisors(node)):
        halves = _halves(divisor)
        if halves is not None:
            yield _divided(node, divisor, halves), "with a sum that may overflow as two divisors"


def divided_twice(node: Node) -> Iterator[tuple[Node, str]]:
    """The node with its quotients by the square of a sum divided by the sum twice; each with what it is."""
    squared = (below for below in topological([node]) if below.op == "pow" and _whole(below) < -1)
    for divisor in dict.fromkeys(below.args[0] for below in squared if below.args[0].op == "add"):
        yield _divided(node, divisor, (divisor,)), "divided twice by a sum, whose square may overflow"


def _divisors(node: Node) -> Iterator[Node]:
    for below in topological([node]):
        if below.op == "pow" and below.args[0].op == "add" and _whole(below) < 0:
            yield below.args[0]


def _halves(total: Node) -> tuple[Node, Node] | None:
    """Two factors of a sum, neither of which overflows where the squares in it do; None if it has no squares."""
    graph = total.graph
    found = [(graph.const(number), graph.const(1) if item is None else item) for number, item in terms(total)]
    bases = [item.args[0] for _, item in found if _whole(item) == 2]
    if not bases:
        return None
    sizes = (graph.apply("abs", base) for base in bases)
    size = reduce(lambda a, b: graph.apply("maximum", a, b), sizes, graph.const(1))
    parts = [
        number * item.args[0] * graph.apply("unit", item.args[0], size) if _whole(item) == 2 else number * item / size
        for number, item in found
    ]
    return size, reduce(graph.add, parts)


def _divided(node: Node, divisor: Node, halves: tuple[Node, ...]) -> Node:
    """The node with its quotients by a sum written as those by the factors of it in turn."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        number, found = factors(below) if below.op in ("mul", "pow") else (1, [])
        often = -sum(exponent for base, exponent in found if base is divisor)
        if often <= 0:
            new[below] = rebuilt(below, new)
            continue
        others = [new[base] ** exponent for base, exponent in found if base is not divisor]
        # In turn, so that what grows meets what it is to be divided by.
        total = below.graph.const(number)
        for factor, half in itertools.zip_longest(others, halves * often):
            total = total if factor is None else total * factor
            total = total if half is None else total / half
        new[below] = total
    return new[node]


def _whole(node: Node) -> int:
    """The whole power that a node is; 1 of what is none."""
    exponent = node.args[1].number if node.op == "pow" else None
    return int(exponent) if exponent is not None and exponent.is_Integer else 1
