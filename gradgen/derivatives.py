"""The derivatives of the primitives as torch expressions, for autograd: the table's own, printed."""

from __future__ import annotations

from dataclasses import dataclass

from gradgen.graph import CONDITIONS, Graph
from gradgen.primitives import PRIMITIVES, Primitive
from gradgen.printers.smooth import SmoothPrinter

# What is torch's own, or of a derivative that hangs on numbers: the runtime has these, if anybody needs to.
_APART = CONDITIONS | {"add", "where", "compensated", "sharpened", "maximum", "minimum", "pow"}


@dataclass(frozen=True)
class Derivative:
    """A primitive for autograd.

    Attributes:
        name: the primitive's name.
        operands: the names of its operands.
        value: its expression.
        slopes: the expressions of the derivative by each operand; those that are "0" have none.
    """

    name: str
    operands: tuple[str, ...]
    value: str
    slopes: tuple[str, ...]


def derivatives() -> list[Derivative]:
    """Every primitive that has a derivative in the table, but those of which the runtime has its own."""
    rows = (row for row in PRIMITIVES.values() if row.name not in _APART and not row.name.startswith("bessel"))
    return [_derivative(row) for row in rows if row.derivative is not None]


def _derivative(row: Primitive) -> Derivative:
    assert row.derivative is not None
    graph = Graph()
    operands = _operands(row)
    y, *nodes = [graph.input(name) for name in ("y", *operands)]
    slopes = [graph.node(slope) for slope in row.derivative(y, *nodes)]
    names = {node: str(node.value) for node in (y, *nodes)}
    printer = SmoothPrinter(names, set(nodes[: row.constant_operands]), operands[-1])
    return Derivative(row.name, operands, row.torch.format(*operands), tuple(map(printer.expression, slopes)))


def _operands(row: Primitive) -> tuple[str, ...]:
    arity = row.torch.count("{")
    return ("x",) if arity == 1 else ("n", "x") if row.constant_operands else ("a", "b", "c")[:arity]
