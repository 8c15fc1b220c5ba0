"""Computing a graph as a kernel does, the same on every machine: every operation rounded to a type, and every function
of the table off by the error that the table gives for it.

Nothing asks the processor or the C library for a function, so that what is decided by this model is decided alike
everywhere.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial, reduce

import mpmath
import sympy
from mpmath import mpf

from gradgen.evaluate import function
from gradgen.graph import CONDITIONS, HALF, RECIPROCALS, WRITTEN_OUT, Node, is_quotient
from gradgen.primitives import PRIMITIVES
from gradgen.ulp import MANTISSA, SMALLEST_EXPONENT

Point = Mapping[str, float | bool]

_PRECISION = 64  # bits, more than any type has


@dataclass(frozen=True)
class Format:
    """A type that arithmetic is done in: the digits of its numbers, and the nearest of them to a double.

    Where it is wide, results are rounded to a type with fewer digits, and need no compensation.
    """

    digits: int
    rounded: Callable[[float], float]
    flushed: float  # numbers below this are 0 on some machines
    is_wide: bool = False


FORMATS = {
    "float32": Format(MANTISSA["float32"], lambda x: ctypes.c_float(x).value, 2.0 ** SMALLEST_EXPONENT["float32"]),
    "float64": Format(MANTISSA["float64"], float, 0.0),
    "wide": Format(MANTISSA["float64"], float, 0.0, is_wide=True),
}


Step = Callable[[list[float], Point, int], float]


class Program:
    """What a kernel computes for some nodes.

    Args:
        order: the nodes, operands first.
        form: the type of the arithmetic.
    """

    def __init__(self, order: Sequence[Node], form: Format) -> None:
        self._places = {node: place for place, node in enumerate(order)}
        self._uses = Counter(arg for node in order for arg in node.args)
        self._steps = [self._step(node, form) for node in order]

    def __call__(self, point: Point, turn: int) -> list[float]:
        """The value of each node (of a condition 0 or 1).

        Args:
            point: a number for each input.
            turn: to which side the functions err: not to the same for every point.
        """
        values: list[float] = []
        for step in self._steps:
            values.append(step(values, point, turn))
        return values

    def _step(self, node: Node, form: Format) -> Step:
        args = [self._places[arg] for arg in node.args]
        place, name, op = self._places[node], str(node.value), node.op
        if op in ("input", "flag"):
            return lambda values, point, turn: point[name]
        if op in ("given", "true"):
            return lambda values, point, turn: True
        if node.number is not None:
            constant = form.rounded(_decimal(node.number))
            return lambda values, point, turn: constant
        if op == "where":
            condition, p, q = args
            return lambda values, point, turn: values[p] if values[condition] else values[q]
        if op in CONDITIONS:
            holds = PRIMITIVES[op].mpmath
            return lambda values, point, turn: holds(*[values[arg] for arg in args])
        if op == "mul" and (parts := self._quotient(node)):
            top, base, exponent = parts
            i, k = self._places[top], self._places[base]
            divide = _divide(exponent, form)
            return lambda values, point, turn: divide(values[i], values[k])
        if op in _ARITHMETIC and not (op == "pow" and node.args[1].number not in WRITTEN_OUT):
            compute = _ARITHMETIC[op](node, form)
            return lambda values, point, turn: compute(*[values[arg] for arg in args])
        return lambda values, point, turn: _function(op, [values[arg] for arg in args], form, place + turn)

    def _quotient(self, node: Node) -> tuple[Node, Node, sympy.Expr] | None:
        """The parts of a product with a reciprocal that nothing else reads, and so is printed as a division."""
        a, b = node.args
        for top, reciprocal in ((a, b), (b, a)):
            exponent = reciprocal.args[1].number if reciprocal.op == "pow" else None
            if exponent in RECIPROCALS and self._uses[reciprocal] == 1:
                return top, reciprocal.args[0], exponent
        return None


@cache
def _decimal(number: sympy.Expr) -> float:
    special = {sympy.oo: math.inf, -sympy.oo: -math.inf, sympy.nan: math.nan}
    return special[number] if number in special else float(sympy.N(number, 30))


def rest(number: sympy.Expr, form: Format) -> float:
    """What a number lacks where it is written as one of a type."""
    return float(sympy.N(number, 60) - sympy.Float(form.rounded(_decimal(number)), 60))


def _quotient(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _add(node: Node, form: Format) -> Callable[[float, float], float]:
    rounded = form.rounded
    return lambda a, b: rounded(a + b)


def _mul(node: Node, form: Format) -> Callable[[float, float], float]:
    rounded, number = form.rounded, node.args[0].number
    if number is not None and is_quotient(number):
        divisor = int(number.q) / int(number.p)
        return lambda a, b: rounded(b / divisor)
    return lambda a, b: rounded(a * b)


def _pow(node: Node, form: Format) -> Callable[[float, float], float]:
    exponent, rounded = node.args[1].number, form.rounded
    assert exponent is not None
    if exponent == HALF:
        return lambda base, _: _root(rounded, base)
    if exponent in RECIPROCALS:
        divide = _divide(exponent, form)
        return lambda base, _: divide(1.0, base)
    return partial(_small_power, rounded, int(exponent))


def _divide(exponent: sympy.Expr, form: Format) -> Callable[[float, float], float]:
    """a * b**exponent for an exponent of `RECIPROCALS`."""
    rounded = form.rounded
    if exponent == -HALF:
        return lambda a, b: rounded(_quotient(a, _root(rounded, b)))
    times, flushed = range(-int(exponent)), form.flushed

    def divide(a: float, b: float) -> float:
        divisor = math.copysign(0.0, b) if abs(b) < flushed else b
        return reduce(lambda total, _: rounded(_quotient(total, divisor)), times, a)

    return divide


def _root(rounded: Callable[[float], float], base: float) -> float:
    return rounded(math.sqrt(base)) if base >= 0 else math.nan


def _small_power(rounded: Callable[[float], float], exponent: int, base: float, _: float) -> float:
    square = rounded(base * base)
    return square if exponent == 2 else rounded(square * (base if exponent == 3 else square))


def _sum_error(node: Node, form: Format) -> Callable[[float, float, float], float]:
    rounded = form.rounded

    def error(a: float, b: float, total: float) -> float:
        part = rounded(total - a)
        return rounded(rounded(a - rounded(total - part)) + rounded(b - part))

    return error


def _product_error(node: Node, form: Format) -> Callable[[float, float, float], float]:
    return lambda a, b, product: form.rounded(_fused(a, b, -product))


def _quotient_error(node: Node, form: Format) -> Callable[[float, float, float], float]:
    return lambda a, b, quotient: form.rounded(_quotient(form.rounded(_fused(-quotient, b, a)), b))


def _fused(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once, for a c that is nearly -a * b and numbers that are not among the largest."""
    product = a * b
    a_high, b_high = _SPLIT * a - (_SPLIT * a - a), _SPLIT * b - (_SPLIT * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return (product + c) + error


_SPLIT = 2.0**27 + 1  # Dekker's: into halves whose products are exact


def _rest(node: Node, form: Format) -> Callable[[float], float]:
    number = node.args[0].number
    assert number is not None
    value = form.rounded(rest(number, form))
    return lambda _: value


def _corrected(node: Node, form: Format) -> Callable[[float, float], float]:
    return lambda value, error: value if form.is_wide or not math.isfinite(error) else form.rounded(value + error)


_ARITHMETIC: dict[str, Callable[[Node, Format], Callable[..., float]]] = {
    "add": _add,
    "mul": _mul,
    "pow": _pow,
    "sum_error": _sum_error,
    "product_error": _product_error,
    "quotient_error": _quotient_error,
    "rest": _rest,
    "corrected": _corrected,
}
_SIDES = (1, -1, 1, 1, -1, -1)


def _function(op: str, args: Sequence[float], form: Format, place: int) -> float:
    """A function of the table, off by the error it may have: here to this side, there to that."""
    if op.startswith("mul_") and form.rounded(_scaled_up(op.removeprefix("mul_"), args[1])) == 0:
        return args[0] if args[0] != args[0] else 0.0  # r * f(t), where even the texts of `scaled` have 0
    nearest, rest, is_exact = _exact(op, *args)
    if is_exact:
        return form.rounded(nearest)
    off = _SIDES[place % len(_SIDES)] * (PRIMITIVES[op].ulps - 0.5) * 2.0**-form.digits
    return form.rounded(nearest + (rest + nearest * off))


@lru_cache(maxsize=1 << 16)
def _scaled_up(op: str, arg: float) -> float:
    """A vanishing function times 2**64."""
    with mpmath.workprec(_PRECISION):
        return float(mpmath.ldexp(function(op, mpf(arg)), 64)) if arg == arg else math.nan


@lru_cache(maxsize=1 << 17)
def _exact(op: str, *args: float) -> tuple[float, float, bool]:
    """A function's value as its nearest double and what is left of it, and whether it is to be taken as it is."""
    if any(arg != arg for arg in args):
        return math.nan, 0.0, True
    with mpmath.workprec(_PRECISION):
        value = function(op, *map(mpf, args))
        nearest = float(value)
        if not math.isfinite(nearest) or mpmath.isint(value):  # exp(0) is 1 exactly
            return nearest, 0.0, True
        return nearest, float(value - nearest), False
