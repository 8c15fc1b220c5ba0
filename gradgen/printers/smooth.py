"""torch, in functions of which autograd has the derivatives of any order: `rt.smooth("sigmoid", x)`.

Sums, selections and products with a number are torch's own; they have nothing to lose, and no 0 meets an infinity.
"""

from __future__ import annotations

from gradgen.graph import CONDITIONS, Node, is_inverse
from gradgen.primitives import PRIMITIVES
from gradgen.printers.base import ATOM, PRODUCT, UNARY
from gradgen.printers.torch import TorchPrinter

_OF_NUMBERS = frozenset({"maximum", "minimum"})  # where a number is something else than a tensor of it


class SmoothPrinter(TorchPrinter):
    """Prints nodes as torch expressions whose functions, products and powers are `rt.smooth`."""

    def compound(self, node: Node) -> tuple[str, int]:
        if node.op in CONDITIONS:  # they are not differentiated
            return TorchPrinter(self.names, self.numbers, self.like).compound(node)
        return super().compound(node)

    def call(self, node: Node) -> tuple[str, int]:
        fixed = PRIMITIVES[node.op].constant_operands
        args = [
            self.expression(arg) if i < fixed or node.op in _OF_NUMBERS else self.tensor(arg)
            for i, arg in enumerate(node.args)
        ]
        return self._smooth(node.op, *args)

    print_damp = print_xmul = print_unit = print_product = print_modulus = print_maximum = print_minimum = call

    def print_mul(self, node: Node) -> tuple[str, int]:
        a, b = node.args
        if self.is_number(node) or a.number is not None:
            return super().print_mul(node)
        if self.is_number(a) or self.is_number(b):
            number, tensor = (a, b) if self.is_number(a) else (b, a)
            return f"{self.expression(number, UNARY)} * {self.expression(tensor, UNARY)}", PRODUCT
        if b not in self.names and is_inverse(b):
            return self._smooth("div", *map(self.expression, (a, b.args[0])))
        return self._smooth("mul", *map(self.expression, node.args))

    def print_pow(self, node: Node) -> tuple[str, int]:
        if self.is_number(node):
            return super().print_pow(node)
        base, exponent = node.args
        return self._smooth("pow", self.tensor(base), self.expression(exponent))

    def _is_reciprocal(self, node: Node) -> bool:
        return False

    def _smooth(self, name: str, *args: str) -> tuple[str, int]:
        return f'rt.smooth("{name}", {", ".join(args)})', ATOM
