"""torch: expressions of tensors, in the type of the tensors."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from gradgen.graph import Node
from gradgen.primitives import PRIMITIVES
from gradgen.printers.base import AND, ATOM, COMPARE, OR, PRODUCT, SELECT, UNARY
from gradgen.printers.numeric import NumericPrinter

_BITWISE_OR, _BITWISE_AND = PRODUCT, UNARY  # in Python they bind stronger than comparisons, and & stronger than |


class TorchPrinter(NumericPrinter):
    """Prints nodes as torch expressions.

    Args:
        names: the nodes that have names.
        numbers: those nodes that are Python numbers, not tensors.
        like: the name of a tensor that gives type and device to a number that must become a tensor.
    """

    sqrt = "torch.sqrt({})"
    power = "torch.pow({}, {})"

    def __init__(self, names: Mapping[Node, str], numbers: set[Node], like: str) -> None:
        super().__init__(names)
        self.numbers = numbers
        self.like = like
        self.rest = f"rt.rest({like}, {{}}, {{}})"

    def is_number(self, node: Node) -> bool:
        """Whether a node is a Python number in the generated code."""
        return node.number is not None or node in self.numbers

    def tensor(self, node: Node) -> str:
        """A node where torch insists on a tensor."""
        text = self.expression(node)
        return f"rt.constant({text}, {self.like})" if self.is_number(node) else text

    def print_const(self, node: Node) -> tuple[str, int]:
        special = {sympy.oo: "torch.inf", -sympy.oo: "-torch.inf", sympy.nan: "torch.nan"}
        if node.number in special:
            return special[node.number], ATOM
        return super().print_const(node)

    def spelling(self, node: Node) -> str:
        return PRIMITIVES[node.op].torch

    def operand(self, arg: Node, node: Node) -> str:
        if node.op == "pow" and not all(map(self.is_number, node.args)):
            return self.expression(arg)
        return self.tensor(arg)

    def print_maximum(self, node: Node) -> tuple[str, int]:
        return self._extreme(node, "min")

    def print_minimum(self, node: Node) -> tuple[str, int]:
        return self._extreme(node, "max")

    def _extreme(self, node: Node, bound: str) -> tuple[str, int]:
        """max(x, 0) is a clamp from below; both keep NaN."""
        a, b = node.args if self.is_number(node.args[1]) else node.args[::-1]
        if self.is_number(b) and not self.is_number(a):
            return f"torch.clamp({self.expression(a)}, {bound}={self.expression(b)})", ATOM
        return self.call(node)

    def print_where(self, node: Node) -> tuple[str, int]:
        condition, p, q = node.args
        if self.is_plain(condition):
            test, a = self.expression(condition, OR), self.expression(p, OR)
            return f"{a} if {test} else {self.expression(q)}", SELECT
        a = self.tensor(p) if self.is_number(q) else self.expression(p)
        return f"torch.where({self.expression(condition)}, {a}, {self.expression(q)})", ATOM

    def is_plain(self, condition: Node) -> bool:
        """Whether a condition is a Python bool, not a tensor."""
        if condition.op in ("and", "or", "not"):
            return all(map(self.is_plain, condition.args))
        return condition.op in ("flag", "given", "true")

    def print_and(self, node: Node) -> tuple[str, int]:
        if self.is_plain(node):
            return " and ".join(self.expression(arg, AND) for arg in node.args), AND
        return " & ".join(self.expression(arg, _BITWISE_AND) for arg in node.args), _BITWISE_AND

    def print_or(self, node: Node) -> tuple[str, int]:
        if self.is_plain(node):
            return " or ".join(self.expression(arg, AND) for arg in node.args), OR
        return " | ".join(self.expression(arg, _BITWISE_OR) for arg in node.args), _BITWISE_OR

    def print_not(self, node: Node) -> tuple[str, int]:
        if self.is_plain(node):
            return f"not {self.expression(node.args[0], ATOM)}", AND
        return f"~{self.expression(node.args[0], ATOM)}", UNARY

    def print_given(self, node: Node) -> tuple[str, int]:
        return f"{node.value} is not None", COMPARE
