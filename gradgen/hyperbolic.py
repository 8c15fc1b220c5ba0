"""Quotients of sinh and cosh, which overflow before the quotient does, by the exponential that both nearly are.

Beyond |u| = 20 there is no digit of exp(-|u|) left in sinh(u) or cosh(u); a factor before an exponential is multiplied
with it so that neither overflows.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradgen.graph import Node, substitute, topological
from gradgen.rewrite import factored

_FAR = 20


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """The node with another form where the argument of its sinh and cosh is large; with what it is."""
    found = [below for below in topological([node]) if below.op in ("sinh", "cosh")]
    arguments = {below.args[0] for below in found}
    if len(arguments) != 1:
        return
    (u,) = arguments
    size = node.graph.apply("abs", u)
    half = node.graph.apply("exp", size) / 2
    signed = node.graph.apply("sign", u) * half
    (far,) = substitute([node], {below: signed if below.op == "sinh" else half for below in found})
    is_near = node.graph.apply("lt", size, _FAR)
    yield node.graph.where(is_near, node, factored(far)), "with sinh and cosh of large numbers as exponentials"
