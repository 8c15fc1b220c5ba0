"""Sums of hyper-parameters, 1 - beta: they may cancel, and are computed once for all elements, in double."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gradgen.graph import Node, topological


def corrected_sums(order: Iterable[Node]) -> set[Node]:
    """The sums whose rounding errors are computed."""
    return {node.args[2] for node in order if node.op == "sum_error"}


def constants(roots: Iterable[Node], corrected: Collection[Node] = ()) -> list[Node]:
    """The largest of them below some roots, but for those whose rounding errors are given back."""
    roots = list(roots)
    order, scalars = topological(roots), set[Node]()
    for node in order:
        if _is_scalar(node, scalars):
            scalars.add(node)
    found = {node for node in scalars if node.op == "add" and node not in corrected}
    read = {*topological(roots, stop=found)}
    return [node for node in order if node in found and node in read]


def _is_scalar(node: Node, scalars: Collection[Node]) -> bool:
    """Whether a node is a hyper-parameter or a number, or a sum, a product or a power of some."""
    if not node.args:
        return node.number is not None or (node.op == "input" and node.value in node.graph.hyper)
    exponent = node.args[1].number if node.op == "pow" else None
    is_power = exponent is not None and exponent.is_Integer and exponent > 0
    return (node.op in ("add", "mul") or is_power) and all(arg in scalars for arg in node.args)
