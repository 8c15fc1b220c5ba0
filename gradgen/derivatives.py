"""The primitives for autograd: the table's own derivatives, as torch expressions."""

from __future__ import annotations

from dataclasses import dataclass

from gradgen.graph import CONDITIONS, Graph
from gradgen.primitives import ERRORS, MARKS, PRIMITIVES, Primitive
from gradgen.printers.smooth import SmoothPrinter

# What is torch's own, what compensated arithmetic is made of, and what the runtime has derivatives of that hang on
# which of the operands are numbers.
_APART = CONDITIONS | {"add", "where", "pow", "maximum", "minimum", *MARKS, *ERRORS, "corrected", "rest"}
_APART |= {"bessel_j", "bessel_y", "bessel_i", "bessel_ie"}


@dataclass(frozen=True)
class Derivatives:
    """A primitive for autograd.

    Attributes:
        name: the primitive's name.
        operands: the names of its operands.
        value: its expression.
        slopes: the expressions of the derivatives by its operands, "0" where there is none; no expression where
            autograd has to differentiate how the value is computed.
    """

    name: str
    operands: tuple[str, ...]
    value: str
    slopes: tuple[str, ...]


def derivatives() -> list[Derivatives]:
    """Of every primitive that formulas can be made of."""
    return [_derivatives(row) for row in PRIMITIVES.values() if row.name not in _APART]


def _derivatives(row: Primitive) -> Derivatives:
    operands = _operands(row)
    graph = Graph()
    y, *nodes = [graph.input(name) for name in ("y", *operands)]
    printer = SmoothPrinter({n: str(n.value) for n in (y, *nodes)}, set(nodes[: row.constant_operands]), operands[-1])
    slopes = [graph.node(slope) for slope in row.derivative(y, *nodes)] if row.derivative else []
    return Derivatives(row.name, operands, row.torch.format(*operands), tuple(map(printer.expression, slopes)))


def _operands(row: Primitive) -> tuple[str, ...]:
    arity = len({f"{{{i}}}" for i in range(3) if f"{{{i}}}" in row.torch})
    return ("n", "x") if row.constant_operands else ("x",) if arity == 1 else ("a", "b")
