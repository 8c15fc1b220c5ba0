"""C and CUDA: one text, see the prelude of the runtime for what it may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sympy

from gradgen.graph import Node, is_inverse
from gradgen.primitives import PRIMITIVES
from gradgen.printers.base import AND, ATOM, OR, SELECT, UNARY
from gradgen.printers.numeric import NumericPrinter

# Of a NaN these raise an exception, so that GCC has a branch before one that need not be asked, and no vectors.
_ORDERED = frozenset({"lt", "le", "gt", "ge"})


class CPrinter(NumericPrinter):
    """Prints nodes as C expressions of type `real`.

    Args:
        names: the nodes that have names.
        ordinary: those that a division need not look at.
    """

    rest = "rest({}, {})"

    def __init__(self, names: Mapping[Node, str], ordinary: Collection[Node] = ()) -> None:
        super().__init__(names)
        self.ordinary = ordinary

    def literal(self, text: str) -> str:
        # A small whole number takes the type of the other operand.
        return text if text.lstrip("-").isdigit() and len(text) < 3 else f"real({text})"

    def print_const(self, node: Node) -> tuple[str, int]:
        special = {sympy.oo: "INFINITY", -sympy.oo: "-INFINITY", sympy.nan: "NAN"}
        if node.number in special:
            return f"real({special[node.number]})", ATOM
        return super().print_const(node)

    def spelling(self, node: Node) -> str:
        return PRIMITIVES[node.op].c

    def operand(self, arg: Node, node: Node) -> str:
        """An operand that has no other operand to take its type from."""
        text = self.expression(arg)
        return f"real({text})" if arg.number is not None and "real(" not in text else text

    def _divided(self, numerator: Node, reciprocal: Node) -> tuple[str, int]:
        return self._over(self.operand(numerator, reciprocal), reciprocal) or super()._divided(numerator, reciprocal)

    def print_pow(self, node: Node) -> tuple[str, int]:
        return self._over(self.literal("1"), node) or super().print_pow(node)

    def _over(self, numerator: str, reciprocal: Node) -> tuple[str, int] | None:
        """A quotient by an ordinary number; None if it is by another."""
        divisor = reciprocal.args[0]
        if not is_inverse(reciprocal) or divisor not in self.ordinary:
            return None
        return f"over({numerator}, {self.expression(divisor)})", ATOM

    def print_where(self, node: Node) -> tuple[str, int]:
        condition, p, q = node.args
        a, b = (self.operand(x, node) if x.number is not None else self.expression(x, OR) for x in (p, q))
        if q.op == "where" and q not in self.names:
            b = self.expression(q)
        return f"{self.expression(condition, OR)} ? {a} : {b}", SELECT

    def print_and(self, node: Node) -> tuple[str, int]:
        if any(arg.op in _ORDERED for arg in node.args[1:]):
            return " & ".join(self.expression(arg, AND if arg.op == "and" else ATOM) for arg in node.args), AND
        return " && ".join(self.expression(arg, AND) for arg in node.args), AND

    def print_or(self, node: Node) -> tuple[str, int]:
        return " || ".join(self.expression(arg, AND) for arg in node.args), OR

    def print_not(self, node: Node) -> tuple[str, int]:
        return f"!{self.expression(node.args[0], ATOM)}", UNARY

    def print_true(self, node: Node) -> tuple[str, int]:
        return "true", ATOM

    def print_given(self, node: Node) -> tuple[str, int]:
        return f"has_{node.value}", ATOM
