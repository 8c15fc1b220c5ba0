"""One division in place of several: 1 / (b * b) where the power can neither overflow nor vanish, else 1 / b / b; and
one for both branches of a selection.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from functools import partial, reduce
from itertools import chain

from sympy import Integer

from gradgen.graph import HALF, RECIPROCALS, Node, is_inverse, rebuilt, substitute, topological
from gradgen.ranges import Ranges

REPEATED_DIVISIONS = RECIPROCALS - {Integer(-1), -HALF}  # powers that several divisions would compute
_LARGEST = 2.0**100
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


def by_inverses(roots: Sequence[Node]) -> list[Node]:
    """The roots with powers of one inverse in place of those that several divisions, or one more, would compute.

    For printing, and for arithmetic in which one rounding more does not matter.
    """
    order = topological(roots)
    inverses = {node.args[0] for node in order if is_inverse(node)}
    new: dict[Node, Node] = {}
    for node in order:
        args, graph = [new[arg] for arg in node.args], node.graph
        changed = any(map(operator.is_not, args, node.args))
        new[node] = (graph.product if node.op == "mul" else partial(graph.apply, node.op))(*args) if changed else node
        base, exponent = _inverse_power(node)
        if exponent > 1 and (not is_inverse(node) or base in inverses):
            new[node] = reduce(graph.product, [graph.inverse(new[base])] * exponent)
    return [new[root] for root in roots]


def _inverse_power(node: Node) -> tuple[Node, int]:
    """A number and k, where the node is 1 over its k-th power; 0 for another node."""
    power = node.args[0] if is_inverse(node) else node
    exponent = power.args[1].number if power.op == "pow" else None
    if exponent is None or not exponent.is_Integer:
        return node, 0
    return power.args[0], int(exponent) if is_inverse(node) else -int(exponent)


def ordinary_divisors(roots: Sequence[Node]) -> frozenset[Node]:
    """What the roots divide by and is known to lie between 1 and 2^100, so that its inverse is an ordinary number."""
    ranges = Ranges()
    divisors = {node.args[0] for node in topological(roots) if is_inverse(node)}
    return frozenset(node for node in divisors if ranges(node).low >= 1 and ranges(node).high <= _LARGEST)


def one_for_both_branches(roots: Sequence[Node]) -> list[Node]:
    """The roots with (a if c else p) / (b if c else q) * (1 if c else r) in place of a / b if c else p / q * r.

    What is computed of an element is the same, or rounded once less where it was a product with an inverse.
    """
    roots, seen = [*roots], set[Node]()
    while found := next((node for node in _choices(roots) if node not in seen), None):
        seen.add(found)
        roots = substitute(roots, dict(_shared(found, roots)))
    return roots


def _choices(roots: Sequence[Node]) -> Iterator[Node]:
    """The selections that have quotients in both branches and are not decided once for all elements."""
    divide: set[Node] = set()
    for node in topological(roots):
        if is_inverse(node) or not divide.isdisjoint(node.args):
            divide.add(node)
        if node.op == "where" and divide.issuperset(node.args[1:]) and not _is_uniform(node.args[0]):
            yield node


def _is_uniform(condition: Node) -> bool:
    below = topological([condition])
    return condition.graph.is_hyper(condition) or any(node.op in ("given", "flag") for node in below)


def _shared(selection: Node, roots: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """For each quotient in a branch of a selection one of what either branch divides, if both do."""
    condition, *branches = selection.args
    elsewhere = {*topological(roots, stop=[selection]), *topological([condition])}
    below = [topological([branch]) for branch in branches]
    of_branches = [_quotients(own, elsewhere.union(other)) for own, other in zip(below, reversed(below), strict=True)]
    pairs = [*zip(*of_branches, strict=False)]
    shared = {*chain.from_iterable(pairs)}
    others = {
        arg
        for node in topological(roots)
        for arg in node.args
        if is_inverse(arg) and arg not in shared and node not in shared
    }
    for pair in pairs:
        (a, b), (p, q) = (_parts(quotient) for quotient in pair)
        graph = selection.graph
        is_coefficient = a is p and a.number is not None and not a.is_number(1)  # which would be the last factor then
        is_shared = any(graph.inverse(divisor) in others for divisor in (b, q))  # then there is one division more
        if not is_coefficient and not is_shared:
            one = graph.mul(graph.where(condition, a, p), graph.inverse(graph.where(condition, b, q)))
            yield from ((quotient, one) for quotient in pair)


def _quotients(nodes: Sequence[Node], elsewhere: Collection[Node]) -> list[Node]:
    """The quotients among some nodes that are read nowhere else, operands first."""
    divided = {arg for node in nodes if node.op == "mul" for arg in node.args}
    return [
        node
        for node in nodes
        if node not in elsewhere
        and (_is_quotient(node) if node.op == "mul" else is_inverse(node) and node not in divided)
    ]


def _is_quotient(product: Node) -> bool:
    """Whether it is clear what is divided by: of two inverses the one that has a name is a factor."""
    return sum(map(is_inverse, product.args)) == 1


def _parts(quotient: Node) -> tuple[Node, Node]:
    """What is divided, and by what, as it is printed."""
    if quotient.op == "pow":
        return quotient.graph.const(1), quotient.args[0]
    a, b = quotient.args
    return (a, b.args[0]) if is_inverse(b) else (b, a.args[0])
