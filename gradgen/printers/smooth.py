"""torch, in functions of which autograd has the derivatives of any order: `rt.smooth("sigmoid", x)`.

Sums, selections and products with a number are torch's own; they have nothing to lose, and no 0 meets an infinity.
"""

from __future__ import annotations

from gradgen.graph import Node
from gradgen.printers.base import ATOM, PRODUCT, UNARY
from gradgen.printers.torch import TorchPrinter


class SmoothPrinter(TorchPrinter):
    """Prints nodes as torch expressions whose functions, products and powers are `rt.smooth`."""

    def call(self, node: Node) -> tuple[str, int]:
        return self._smooth(node.op, *node.args)

    print_damp = print_unit = print_product = print_modulus = print_maximum = print_minimum = call

    def print_mul(self, node: Node) -> tuple[str, int]:
        a, b = node.args
        if self.is_number(node) or a.number is not None:
            return super().print_mul(node)
        if self.is_number(a) or self.is_number(b):
            number, tensor = (a, b) if self.is_number(a) else (b, a)
            return f"{self.expression(number, UNARY)} * {self.expression(tensor, UNARY)}", PRODUCT
        if b.op == "pow" and b not in self.names and b.args[1].is_number(-1):
            return self._smooth("div", a, b.args[0])
        return self._smooth("mul", a, b)

    def print_pow(self, node: Node) -> tuple[str, int]:
        return super().print_pow(node) if self.is_number(node) else self._smooth("pow", *node.args)

    def _is_reciprocal(self, node: Node) -> bool:
        return False

    def _smooth(self, name: str, *args: Node) -> tuple[str, int]:
        return f'rt.smooth("{name}", {", ".join(map(self.expression, args))})', ATOM
