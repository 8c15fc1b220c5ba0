"""What C, CUDA and torch share: rounded numbers, and powers as the operations that compute them."""

from __future__ import annotations

import sympy
from sympy import Expr

from gradgen.graph import RECIPROCALS, Node, divides, is_division
from gradgen.model import FORMATS, rest
from gradgen.primitives import PRIMITIVES
from gradgen.printers.base import ATOM, PRODUCT, UNARY, Printer


def decimal(value: Expr) -> str:
    """The shortest decimal that reads back as the nearest double."""
    return repr(float(sympy.N(value, 30)))


class NumericPrinter(Printer):
    """Prints nodes as floating-point arithmetic. A target gives `sqrt`, `power`, `rest` and `literal`."""

    sqrt = "sqrt({})"
    power = "pow({}, {})"
    rest = ""

    def literal(self, text: str) -> str:
        """A decimal as a number of the computation's type."""
        return text

    def number(self, value: Expr) -> str:
        if value.is_Integer and abs(value) < 2**24:  # exact in every type
            return str(value)
        return self.literal(decimal(value))

    def print_const(self, node: Node) -> tuple[str, int]:
        value = node.number
        assert value is not None
        if value.is_Integer and abs(value) < 2**24:
            return self.literal(str(value)), UNARY if value.is_negative else ATOM
        return self.literal(decimal(value)), UNARY if value.is_negative else ATOM

    def _quotient(self, number: Expr) -> bool:
        return is_division(number)

    def _parts(self, number: Expr) -> tuple[Expr, Expr]:
        return sympy.S.One, 1 / number  # 2 * x might overflow

    def _is_reciprocal(self, node: Node) -> bool:
        return node not in self.names and divides(node)

    def _denominator(self, node: Node) -> str:
        base, exponent = node.args[0], node.args[1].number
        assert exponent is not None
        if exponent == -sympy.Rational(1, 2):
            return self.sqrt.format(self.expression(base))
        return " / ".join([self.expression(base, UNARY)] * -int(exponent))  # the power might overflow

    def print_pow(self, node: Node) -> tuple[str, int]:
        base, exponent = node.args
        value = exponent.number
        if value in RECIPROCALS:
            return f"{self.literal('1')} / {self._denominator(node)}", PRODUCT
        if value == sympy.Rational(1, 2):
            return self.sqrt.format(self.expression(base)), ATOM
        if value is not None and value.is_Integer and 2 <= value <= 4:
            text = self.expression(base, UNARY)
            square = f"{text} * {text}"
            return {2: square, 3: f"{square} * {text}", 4: f"({square}) * ({square})"}[int(value)], PRODUCT
        return self.power.format(self.operand(base, node), self.operand(exponent, node)), ATOM

    def print_damp(self, node: Node) -> tuple[str, int]:
        return self.call(node)

    print_xmul = print_unit = print_product = print_modulus = print_damp

    def print_rest(self, node: Node) -> tuple[str, int]:
        """What a constant lacks of its exact value, in float32 and in float64."""
        number = node.args[0].number
        assert number is not None
        texts = [repr(rest(number, FORMATS[dtype])) for dtype in ("float32", "float64")]
        return self.rest.format(*texts), ATOM

    def call(self, node: Node) -> tuple[str, int]:
        row = PRIMITIVES[node.op]
        args = [
            str(arg.number) if i < row.constant_operands else self.operand(arg, node) for i, arg in enumerate(node.args)
        ]
        return self.spelling(node).format(*args), ATOM

    def operand(self, arg: Node, node: Node) -> str:
        """An operand of a function."""
        return self.expression(arg)

    def spelling(self, node: Node) -> str:
        raise NotImplementedError
