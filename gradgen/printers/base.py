"""What the target languages have in common: infix operators, parentheses, quotients and differences.

The base class prints plain formulas, for docstrings; a target overrides what differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import sympy
from sympy import Expr, Rational

from gradgen.graph import HALF, RELATIONS, Node, coefficient, is_inverse, is_quotient
from gradgen.primitives import PRODUCTS

# Binding strength, weakest first.
SELECT, OR, AND, COMPARE, SUM, PRODUCT, UNARY, ATOM = range(8)

_RELATION_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def is_decimal(value: Expr) -> bool:
    """Whether a number is just what the float nearest to it is written as: 0.044715, but not 1/3."""
    if not isinstance(value, Rational) or math.isinf(float(value)):
        return False
    return bool(value == Rational(repr(float(value))))


class Printer:
    """Prints nodes as expressions.

    Args:
        names: the nodes that have names, which are printed instead of what they stand for.
    """

    def __init__(self, names: Mapping[Node, str]) -> None:
        self.names = names

    def statement(self, node: Node) -> str:
        """A named node's own expression."""
        return self._print(node, SELECT, own=True)

    def expression(self, node: Node, strength: int = SELECT) -> str:
        """A node, in parentheses where it binds weaker than `strength`."""
        return self._print(node, strength, own=False)

    def _print(self, node: Node, strength: int, own: bool) -> str:
        if not own and node in self.names:
            return self.names[node]
        text, binds = self.compound(node)
        return f"({text})" if binds < strength else text

    def compound(self, node: Node) -> tuple[str, int]:
        """The text of a node and how strongly it binds."""
        if node.op in RELATIONS:
            a, b = (self.expression(arg, SUM) for arg in node.args)
            return f"{a} {_RELATION_SIGNS[node.op]} {b}", COMPARE
        if node.op in PRODUCTS:
            return self.print_product(node)
        method = getattr(self, f"print_{node.op}", None)
        return method(node) if method else self.call(node)

    def call(self, node: Node) -> tuple[str, int]:
        """A function of its operands."""
        return f"{node.op}({', '.join(map(self.expression, node.args))})", ATOM

    # Leaves

    def print_input(self, node: Node) -> tuple[str, int]:
        return str(node.value), ATOM

    print_flag = print_input

    def print_const(self, node: Node) -> tuple[str, int]:
        value = node.number
        assert value is not None
        text = self.number(value)
        is_call = value.is_Function or (value.is_Pow and value.args[1] == HALF)
        if is_call or text.isidentifier() or re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", text):
            return text, ATOM
        is_product = value.is_positive and (value.is_Rational or value.is_Mul)
        return text, PRODUCT if is_product else SUM

    # Arithmetic

    def print_add(self, node: Node) -> tuple[str, int]:
        a, b = node.args
        if self._subtracted(a) and not self._subtracted(b):
            a, b = b, a
        left = self.expression(a, SUM)
        if self._subtracted(b):
            return f"{left} - {self._changed(-b, b, PRODUCT)}", SUM
        return f"{left} + {self.expression(b, PRODUCT)}", SUM

    def _changed(self, new: Node, node: Node, strength: int) -> str:
        """What is printed of a node in place of it; it may have a name that is not there yet where it is printed."""
        return self._print(new, strength, own=new not in node.args)

    def _subtracted(self, node: Node) -> bool:
        return node not in self.names and bool(coefficient(node)[0].is_negative)

    def print_mul(self, node: Node) -> tuple[str, int]:
        a, b = node.args
        if a.is_number(-1):
            return f"-{self.expression(b, PRODUCT)}", PRODUCT
        if a.number is not None and a.number.is_negative:
            return f"-{self._changed(-node, node, PRODUCT)}", PRODUCT
        if a.number is not None and self._quotient(a.number):
            numerator, denominator = self._parts(a.number)
            scaled = b if numerator == 1 else b.graph.const(numerator) * b
            return f"{self._changed(scaled, node, PRODUCT)} / {self.number(denominator)}", PRODUCT
        return self._product(a, b)

    def _product(self, a: Node, b: Node) -> tuple[str, int]:
        """a * b, as a quotient where one of them is a reciprocal."""
        for numerator, reciprocal in ((a, b), (b, a)):
            if self._is_reciprocal(reciprocal):
                return self._divided(numerator, reciprocal)
        return f"{self.expression(a, PRODUCT)} * {self.expression(b, UNARY)}", PRODUCT

    def _divided(self, numerator: Node, reciprocal: Node) -> tuple[str, int]:
        return f"{self.expression(numerator, PRODUCT)} / {self._denominator(reciprocal)}", PRODUCT

    def _quotient(self, number: Expr) -> bool:
        """Whether a factor is printed as a division."""
        return is_quotient(number)

    def _parts(self, number: Expr) -> tuple[Expr, Expr]:
        """What is multiplied with and what is divided by, in place of a factor."""
        return sympy.Integer(number.p), sympy.Integer(number.q)

    def _is_reciprocal(self, node: Node) -> bool:
        return node not in self.names and is_inverse(node)

    def _denominator(self, node: Node) -> str:
        return self.expression(node.args[0], UNARY)

    def number(self, value: Expr) -> str:
        """A number inside an expression: a decimal as it was typed, anything else exactly."""
        if value.is_infinite:
            return "inf" if value.is_extended_positive else "-inf"
        if is_decimal(value) and not value.is_Integer:
            return repr(float(value))
        return str(sympy.sstr(value, full_prec=False))

    def print_pow(self, node: Node) -> tuple[str, int]:
        base, exponent = node.args
        if exponent.is_number(HALF):
            return f"sqrt({self.expression(base)})", ATOM
        if exponent.is_number(-1):
            return f"1 / {self._denominator(node)}", PRODUCT
        return f"{self.expression(base, ATOM)}**{self.expression(exponent, ATOM)}", UNARY

    # Selection

    def print_where(self, node: Node) -> tuple[str, int]:
        condition, p, q = node.args
        return f"{self.expression(p, OR)} if {self.expression(condition, OR)} else {self.expression(q)}", SELECT

    def print_and(self, node: Node) -> tuple[str, int]:
        return " and ".join(self.expression(arg, AND) for arg in node.args), AND

    def print_or(self, node: Node) -> tuple[str, int]:
        return " or ".join(self.expression(arg, OR) for arg in node.args), OR

    def print_not(self, node: Node) -> tuple[str, int]:
        return f"not {self.expression(node.args[0], ATOM)}", AND

    def print_true(self, node: Node) -> tuple[str, int]:
        return "True", ATOM

    def print_given(self, node: Node) -> tuple[str, int]:
        return f"{node.value} is given", COMPARE

    # Functions that mathematics writes otherwise

    def print_modulus(self, node: Node) -> tuple[str, int]:
        return f"abs({self.expression(node.args[0])})", ATOM

    def print_damp(self, node: Node) -> tuple[str, int]:
        v, r = node.args
        return self._product(r, v)

    def print_xmul(self, node: Node) -> tuple[str, int]:
        return self._product(*node.args)

    def print_product(self, node: Node) -> tuple[str, int]:
        """r * f(t) of a vanishing f."""
        r, t = node.args
        return f"{self.expression(r, PRODUCT)} * {PRODUCTS[node.op]}({self.expression(t)})", PRODUCT

    def print_compensated(self, node: Node) -> tuple[str, int]:
        return self.compound(node.args[0])

    print_extended = print_sharpened = print_compensated

    def print_unit(self, node: Node) -> tuple[str, int]:
        a, h = node.args
        return f"{self.expression(a, PRODUCT)} / {self.expression(h, UNARY)}", PRODUCT
