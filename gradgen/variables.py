"""A result as a function of something else than an input: of a difference, a product or a root in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from gradgen import series
from gradgen.graph import HALF, Node, rebuilt, substitute, topological
from gradgen.rewrite import factored, factors, rewrite

# Inputs that stand for something else; no user can give these names
DIFFERENCE, PRODUCT, ROOT = "a difference", "a product", "a root"


def in_differences(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a function of each difference in it: of x - 1 in place of x in log(x)/(x - 1)."""
    for difference in series.differences(node, tensors):
        x, rest = difference.args
        moved = node.graph.input(DIFFERENCE)
        (form,) = rewrite(substitute([node], {difference: moved, x: moved - rest}))
        yield factored(form), difference


def in_products(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a function of each product of an input: of v = k*x, with k/v in place of 1/x."""
    moved = node.graph.input(PRODUCT)
    inputs = [node.graph.input(name) for name in tensors]
    for product in topological([node]):
        number, found = factors(product) if product.op == "mul" else (1, [])
        for x in [base for base, power in found if power == 1 and base in inputs]:
            others = [base**power for base, power in found if base is not x]
            rest = reduce(node.graph.mul, others, node.graph.const(number))
            if x not in topological([rest]):
                (form,) = substitute(substitute([node], {product: moved}), {x: moved / rest})
                yield factored(form), product


def in_roots(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a function of the square root of each input: of v = sqrt(x), with v**2 in place of x."""
    moved = node.graph.input(ROOT)
    for root in topological([node]):
        if root.op == "pow" and root.args[1].is_number(HALF) and root.args[0].value in tensors:
            (form,) = substitute([node], {root: moved, root.args[0]: moved**2})
            yield factored(_with_roots_of_squares(form, moved)), root


def _with_roots_of_squares(node: Node, v: Node) -> Node:
    """The node with v*sqrt(u) for sqrt(v**2*u), where v is not negative."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        is_root = changed.op == "pow" and changed.args[1].is_number(HALF)
        number, found = factors(changed.args[0]) if is_root else (1, [])
        power = sum(exponent for base, exponent in found if base is v)
        if power and power % 2 == 0:
            others = [base**exponent for base, exponent in found if base is not v]
            changed = v ** (power // 2) * reduce(node.graph.mul, others, node.graph.const(number)) ** HALF
        new[below] = changed
    return new[node]
