"""Computing a graph as a kernel does, the same on every machine: every operation rounded to a type, and every function
of the table off by the error that the table gives for it.

Nothing asks the processor or the C library for a function, so that what is decided by this model is decided alike
everywhere.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce

import mpmath
import sympy
from mpmath import mpf

from gradgen.evaluate import evaluated, function
from gradgen.graph import CONDITIONS, HALF, Node
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import MANTISSA

Point = Mapping[str, float | bool]

_PRECISION = 64  # bits, more than any type has


@dataclass(frozen=True)
class Format:
    """A type that arithmetic is done in: the digits of its numbers, and the nearest of them to a double."""

    digits: int
    rounded: Callable[[float], float]


FORMATS = {
    "float32": Format(MANTISSA["float32"], lambda x: ctypes.c_float(x).value),
    "float64": Format(MANTISSA["float64"], float),
}


def compute(order: Sequence[Node], point: Point, form: Format, turn: int) -> dict[Node, float | bool]:
    """What a kernel computes for each node.

    Args:
        order: the nodes, operands first.
        point: a number for each input.
        form: the type of the arithmetic.
        turn: to which side the functions err: not to the same for every point.
    """
    values: dict[Node, float | bool] = {}
    with mpmath.workprec(_PRECISION):
        for place, node in enumerate(order):
            args = [values[arg] for arg in node.args]
            if node.op in ("input", "flag"):
                values[node] = point[str(node.value)]
            elif node.op == "given":
                values[node] = True
            elif node.number is not None:
                values[node] = form.rounded(_decimal(node.number))
            elif node.op in CONDITIONS or node.op == "where":
                values[node] = evaluated(node, args, {})  # type: ignore[assignment]
            elif node.op in _ARITHMETIC:
                values[node] = _ARITHMETIC[node.op](node, args, form)
            else:
                values[node] = _function(node.op, args, form, place + turn)
    return values


@cache
def _decimal(number: sympy.Expr) -> float:
    special = {sympy.oo: math.inf, -sympy.oo: -math.inf, sympy.nan: math.nan}
    return special[number] if number in special else float(sympy.N(number, 30))


def _quotient(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _add(node: Node, args: Sequence[float], form: Format) -> float:
    return form.rounded(args[0] + args[1])


def _mul(node: Node, args: Sequence[float], form: Format) -> float:
    number = node.args[0].number
    if number is not None and number.is_Rational and abs(number.p) <= 3 and 1 < number.q < 100:
        return form.rounded(_quotient(form.rounded(number.p * args[1]), number.q))  # printed as a quotient
    return form.rounded(args[0] * args[1])


def _pow(node: Node, args: Sequence[float], form: Format) -> float:
    base, exponent, rounded = args[0], node.args[1].number, form.rounded
    if exponent in (HALF, -HALF):
        root = rounded(math.sqrt(base)) if base >= 0 else math.nan
        return root if exponent == HALF else rounded(_quotient(1.0, root))
    if exponent in (-1, -2, -3, -4):
        return reduce(lambda total, _: rounded(_quotient(total, base)), range(-int(exponent)), 1.0)
    if exponent in (2, 3, 4):
        square = rounded(base * base)
        return square if exponent == 2 else rounded(square * (base if exponent == 3 else square))
    return _function("pow", args, form, 0)


_ARITHMETIC: dict[str, Callable[[Node, Sequence[float], Format], float]] = {"add": _add, "mul": _mul, "pow": _pow}
_SIDES = (1, -1, 1, 1, -1, -1)


def _function(op: str, args: Sequence[float], form: Format, place: int) -> float:
    """A function of the table, off by the error it may have: here to this side, there to that."""
    if any(arg != arg for arg in args):
        return math.nan
    if op.startswith("mul_") and _vanishes(op.removeprefix("mul_"), args[1], form):  # r * f(t)
        return 0.0
    value = _exact(op, *args)
    if not mpmath.isint(value):  # exp(0) is 1 exactly
        value *= 1 + _SIDES[place % len(_SIDES)] * (PRIMITIVES[op].ulps - 0.5) * mpf(2) ** -form.digits
    return form.rounded(float(value))


def _vanishes(op: str, arg: float, form: Format) -> bool:
    """Whether a vanishing function is 0 even after the texts of `scaled` have scaled it up."""
    return form.rounded(float(mpmath.ldexp(_exact(op, arg), 64))) == 0


@lru_cache(maxsize=1 << 16)
def _exact(op: str, *args: float) -> mpf:
    with mpmath.workprec(_PRECISION):
        return function(op, *map(mpf, args))
