"""Sums of hyper-parameters, 1 - beta: they may cancel, and are computed once for all elements, in double."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gradgen.graph import Node, topological

_ARITHMETIC = frozenset({"add", "mul", "input", "const"})


def is_constant(node: Node) -> bool:
    """Whether a node is a sum of numbers and hyper-parameters, and of products and powers of these."""
    return node.op == "add" and node.graph.is_hyper(node) and all(map(_is_arithmetic, topological([node])))


def _is_arithmetic(node: Node) -> bool:
    exponent = node.args[1].number if node.op == "pow" else None
    return node.op in _ARITHMETIC or (exponent is not None and exponent.is_Integer and exponent > 0)


def corrected_sums(order: Iterable[Node]) -> set[Node]:
    """The sums whose rounding errors are computed."""
    return {node.args[2] for node in order if node.op == "sum_error"}


def constants(roots: Iterable[Node], corrected: Collection[Node] = ()) -> list[Node]:
    """The largest of them below some roots, but for those whose rounding errors are given back."""
    roots = list(roots)
    found = [node for node in topological(roots) if node not in corrected and is_constant(node)]
    read = {*topological(roots, stop=found)}
    return [node for node in found if node in read]
