"""Reverse mode on the graph, node by node, with each primitive's own local derivative (the staged computation of
Griewank & Walther, Evaluating Derivatives, 2008, chapter 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from gradgen.graph import CONDITIONS, Node, topological
from gradgen.primitives import PRIMITIVES


def gradient(output: Node, wrt: Sequence[Node]) -> list[Node]:
    """The derivative of `output` by each node of `wrt`; the constant 0 where there is none.

    A branch that is not taken contributes an exact zero: its factor is moved into the selection (`Graph.mul`), so that
    the zero never meets the infinity or NaN of that branch's own derivative.
    """
    graph = output.graph
    order = topological([output], stop=set(wrt))
    active = _depending_on(order, set(wrt))
    adjoint: dict[Node, Node] = {output: graph.const(1)}
    for node in reversed(order):
        if node not in adjoint or node not in active or node in wrt:
            continue
        for operand, local in _local_derivatives(node):
            if operand in active and not local.is_number(0):
                term = adjoint[node] * local
                adjoint[operand] = adjoint[operand] + term if operand in adjoint else term
    return [adjoint.get(node, graph.const(0)) for node in wrt]


def _depending_on(order: list[Node], wrt: set[Node]) -> set[Node]:
    """The nodes whose value depends on `wrt` other than through a condition."""
    active: set[Node] = set()
    for node in order:
        if node in wrt or (node.op not in CONDITIONS and any(arg in active for arg in node.args)):
            active.add(node)
    return active


def _local_derivatives(node: Node) -> list[tuple[Node, Node]]:
    """Each operand of a node with the derivative of the node by it."""
    derivative = PRIMITIVES[node.op].derivative
    if derivative is None:
        raise NotImplementedError(f"{node.op} has no derivative in the table")
    locals_ = derivative(node, *node.args)
    return [(operand, node.graph.node(local)) for operand, local in zip(node.args, locals_, strict=True)]
