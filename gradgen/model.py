"""Computing a graph as a kernel does, the same on every machine: every operation rounded to a type, and every function
of the table off by the error that the table gives for it.

Nothing asks the processor or the C library for a function, so that what is decided by this model is decided alike
everywhere.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import mpmath
import numpy as np
import sympy
from mpmath import mpf

from gradgen import composed, mpfr, normal, quick
from gradgen.constants import constants, corrected_sums
from gradgen.evaluate import function
from gradgen.graph import CONDITIONS, HALF, RECIPROCALS, WRITTEN_OUT, Node, is_quotient, topological
from gradgen.primitives import FUNCTION_ERRORS, ONE_ROUNDING, PRIMITIVES, PRODUCTS
from gradgen.scaled import SIGNED
from gradgen.ulp import MANTISSA, SMALLEST_EXPONENT

Point = Mapping[str, float | bool]
Array = np.ndarray[Any, np.dtype[Any]]
Operation = Callable[..., Array]

_PRECISION = 64  # bits, more than any type has
_TWOFOLD = 128  # bits, more than two numbers of any type have
_ROUGH = 2.0**-24  # the share of what a function lacks by which that is off


@dataclass(frozen=True)
class Format:
    """A type that arithmetic is done in.

    Where it is wide, results are rounded to a type with fewer digits, and need no compensation. The short one has the
    digits of float32 and the range of float64: in units in the last place errors are what they are in float64, of which
    float64 arithmetic can then tell the exact result.

    Attributes:
        digits: of its numbers.
        dtype: the type itself, or of its range.
        flushed: numbers below this are 0 on some machines.
        is_wide: whether it has more digits than results, which are rounded to fewer.
    """

    digits: int
    dtype: type[np.floating[Any]]
    flushed: float
    is_wide: bool = False

    @property
    def is_short(self) -> bool:
        """Whether it has the digits of float32 and the range of float64."""
        return self.dtype is np.float64 and self.digits < MANTISSA["float64"]

    def rounded(self, x: float) -> float:
        """The nearest number of the type."""
        return float(self.nearest(np.float64(x)))

    def nearest(self, x: Any) -> Any:
        """The nearest numbers of the type, as doubles."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.rounding(x)

    @cached_property
    def rounding(self) -> Callable[[Any], Any]:
        """What `nearest` does, where numpy has been told to be silent, which takes as long again."""
        if self.is_short:
            split = 2.0 ** (MANTISSA["float64"] - self.digits) + 1  # so large that adding it to x rounds (Veltkamp)
            return lambda x: np.where(abs(x) < _SPLIT, (away := x * split) - (away - x), x)
        return (lambda x: x) if self.dtype is np.float64 else lambda x: self.dtype(x).astype(np.float64)

    def given(self, x: Any) -> Any:
        """The numbers of the type that inputs become; float64 has every input as it is."""
        return x if self.dtype is np.float64 else self.nearest(x)


_SPLIT = 2.0**990  # beyond this Veltkamp's way overflows

FORMATS = {
    "float32": Format(MANTISSA["float32"], np.float32, 2.0 ** SMALLEST_EXPONENT["float32"]),
    "float64": Format(MANTISSA["float64"], np.float64, 0.0),
    "wide": Format(MANTISSA["float64"], np.float64, 0.0, is_wide=True),
    "short": Format(MANTISSA["short"], np.float64, 0.0),
}


Step = Callable[[list[Array], Mapping[str, Array], Array], Array]


@lru_cache(maxsize=256)
def program(roots: tuple[Node, ...], form: str, is_quick: bool = False) -> Program:
    """What computes some roots in one of the `FORMATS`; most are computed again and again."""
    return Program(topological(roots), FORMATS[form], is_quick, roots)


class Program:
    """What a kernel computes for some nodes, at many points at once.

    Args:
        order: the nodes, operands first.
        form: the type of the arithmetic.
        is_quick: whether functions are computed by `gradgen.quick`, not by mpmath: all of them have to be there.
        roots: those of the nodes whose values are asked for; all if there are none.
    """

    def __init__(self, order: Sequence[Node], form: Format, is_quick: bool = False, roots: Sequence[Node] = ()) -> None:
        self._function = _quick_function if is_quick else _function
        self._lacking = _quickly_lacking if is_quick else _lacking
        self._places = {node: place for place, node in enumerate(order)}
        self._uses = Counter(arg for node in order for arg in node.args)
        is_narrow = form.digits < MANTISSA["float64"]
        self._constants = {*constants(roots or order, corrected_sums(order))} if is_narrow else set()
        self._steps = [self._step(node, form) for node in order]
        self._roots = [self._places[root] for root in roots or order]
        last = {read: place for place, node in enumerate(order) for read in self._read(node)}
        for node in roots or order:
            last.pop(node, None)
        self._read_last: list[list[int]] = [[] for _ in order]
        for node, place in last.items():
            self._read_last[place].append(self._places[node])

    def __call__(self, points: Sequence[Point], turn: int = 0) -> list[Array]:
        """The values of each root (of a condition 0 or 1).

        Args:
            points: a number for each input; every point has all of them.
            turn: to which side the functions err at the first point: not to the same for every point.
        """
        if not points:
            return [np.zeros(0)] * len(self._roots)
        inputs = {name: np.array([float(point[name]) for point in points]) for name in points[0]}
        return self.on(inputs, np.arange(turn, turn + len(points)))

    def on(self, inputs: Mapping[str, Array], turns: Array) -> list[Array]:
        """The same for columns of inputs; `turns` says for each point to which side the functions err."""
        values: list[Array] = []
        turns = turns % _PERIOD
        nothing = np.zeros(0)  # in place of what nothing reads any more: what fits into a cache is had sooner
        with np.errstate(all="ignore"):
            for step, read_last in zip(self._steps, self._read_last, strict=True):
                values.append(step(values, inputs, turns))
                for place in read_last:
                    values[place] = nothing
        return [values[root] for root in self._roots]

    def at(self, point: Point) -> list[float]:
        """The value of each root at a point."""
        return [float(value[0]) for value in self([point])]

    def _step(self, node: Node, form: Format) -> Step:
        args = [self._places[arg] for arg in node.args]
        place, name, op = self._places[node] % _PERIOD, str(node.value), node.op
        if op in ("input", "flag"):
            return lambda values, inputs, turns: form.given(inputs[name])
        if op in ("given", "true"):
            return lambda values, inputs, turns: np.ones(len(turns))
        if node.number is not None:
            constant = form.rounded(_decimal(node.number))
            return lambda values, inputs, turns: np.full(len(turns), constant)
        if op == "where":
            condition, p, q = args
            return lambda values, inputs, turns: np.where(values[condition], values[p], values[q])
        if op in CONDITIONS:
            holds = _CONDITIONS[op]
            return lambda values, inputs, turns: holds(*[values[arg] for arg in args])
        if node in self._constants:
            once = Program(topological([node]), FORMATS["wide"], roots=[node])
            return lambda values, inputs, turns: form.nearest(once.on(inputs, turns)[0])
        if op == "mul" and (parts := self._quotient(node)):
            top, base, exponent = parts
            i, k = self._places[top], self._places[base]
            divide = _divide(exponent, form)
            return lambda values, inputs, turns: divide(values[i], values[k])
        if op in _ARITHMETIC and not (op == "pow" and node.args[1].number not in WRITTEN_OUT):
            compute = _ARITHMETIC[op](node, form)
            return lambda values, inputs, turns: compute(*[values[arg] for arg in args])
        if op in _EXACT:
            exact = _EXACT[op]
            return lambda values, inputs, turns: exact(*[values[arg] for arg in args])
        if op in _ERRORS:
            return lambda values, inputs, turns: self._lacking(
                _ERRORS[op], [values[arg] for arg in args], form, place + turns
            )
        compute = partial(_composed, self._function) if op in composed.TEXTS else self._function
        return lambda values, inputs, turns: compute(op, [values[arg] for arg in args], form, place + turns)

    def _read(self, node: Node) -> Sequence[Node]:
        """The nodes whose values the step of a node may read."""
        parts = self._quotient(node) if node.op == "mul" else None
        return (*node.args, parts[1]) if parts else node.args

    def _quotient(self, node: Node) -> tuple[Node, Node, sympy.Expr] | None:
        """The parts of a product with a reciprocal that nothing else reads, and so is printed as a division."""
        a, b = node.args
        for top, reciprocal in ((a, b), (b, a)):
            exponent = reciprocal.args[1].number if reciprocal.op == "pow" else None
            if exponent in RECIPROCALS and self._uses[reciprocal] == 1:
                return top, reciprocal.args[0], exponent
        return None


_CONDITIONS: dict[str, Callable[..., Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}


@cache
def _decimal(number: sympy.Expr) -> float:
    special = {sympy.oo: math.inf, -sympy.oo: -math.inf, sympy.nan: math.nan, sympy.zoo: math.nan}
    return special[number] if number in special else float(sympy.N(number, 30))


def rest(number: sympy.Expr, form: Format) -> float:
    """What a number lacks where it is written as one of a type; nothing where it is beyond that."""
    written = form.rounded(_decimal(number))
    return float(sympy.N(number, 60) - sympy.Float(written, 60)) if math.isfinite(written) else 0.0


def _add(node: Node, form: Format) -> Operation:
    rounded = form.rounding
    return lambda a, b: rounded(a + b)


def _mul(node: Node, form: Format) -> Operation:
    number, rounded = node.args[0].number, form.rounding
    if number is not None and is_quotient(number):
        divisor = int(number.q) / int(number.p)
        return lambda a, b: rounded(b / divisor)
    return lambda a, b: rounded(a * b)


def _pow(node: Node, form: Format) -> Operation:
    exponent = node.args[1].number
    assert exponent is not None
    if exponent == HALF:
        return lambda base, _: form.rounding(np.sqrt(base))
    if exponent in RECIPROCALS:
        divide = _divide(exponent, form)
        return lambda base, _: divide(np.ones_like(base), base)
    return partial(_small_power, form, int(exponent))


def _divide(exponent: sympy.Expr, form: Format) -> Operation:
    """a * b**exponent for an exponent of `RECIPROCALS`."""
    if exponent == -HALF:
        return lambda a, b: form.rounding(a / form.rounding(np.sqrt(b)))

    def divide(a: Array, b: Array) -> Array:
        divisor = np.where(abs(b) < form.flushed, np.copysign(0.0, b), b)
        quotient = a
        for _ in range(-int(exponent)):
            quotient = form.rounding(quotient / divisor)
        return quotient

    return divide


def _small_power(form: Format, exponent: int, base: Array, _: Array) -> Array:
    square: Array = form.rounding(base * base)
    return square if exponent == 2 else form.rounding(square * (base if exponent == 3 else square))


def _sum_error(node: Node, form: Format) -> Operation:
    rounded = form.rounding

    def error(a: Array, b: Array, total: Array) -> Array:
        part = rounded(total - a)
        return rounded(rounded(a - rounded(total - part)) + rounded(b - part))  # type: ignore[no-any-return]

    return error


def _product_error(node: Node, form: Format) -> Operation:
    return lambda a, b, product: form.rounding(quick.fused(a, b, -product))


def _quotient_error(node: Node, form: Format) -> Operation:
    rounded = form.rounding
    return lambda a, b, quotient, more: rounded(rounded(rounded(quick.fused(-quotient, b, a)) + more) / b)


def _rest(node: Node, form: Format) -> Operation:
    number = node.args[0].number
    assert number is not None
    value = form.rounded(rest(number, form))
    return lambda operand: np.full_like(operand, value)


def _corrected(node: Node, form: Format) -> Operation:
    if form.is_wide:
        return lambda value, error: value
    return lambda value, error: np.where(np.isfinite(error), form.rounding(value + error), value)


def _damp(node: Node, form: Format) -> Operation:
    return lambda v, r: np.where(v == 0, v, form.rounding(v * r))


def _xmul(node: Node, form: Format) -> Operation:
    return lambda v, r: np.where((v == 0) & np.isinf(r), v, form.rounding(v * r))


def _unit(node: Node, form: Format) -> Operation:
    def direction(a: Array, h: Array) -> Array:
        ratio = np.where(np.isinf(a) & np.isinf(h), np.copysign(1.0, a), form.rounding(a / h))
        return np.where(h == 0, h, ratio)

    return direction


_ARITHMETIC: dict[str, Callable[[Node, Format], Operation]] = {
    "add": _add,
    "mul": _mul,
    "pow": _pow,
    "sum_error": _sum_error,
    "product_error": _product_error,
    "quotient_error": _quotient_error,
    "rest": _rest,
    "corrected": _corrected,
    "damp": _damp,
    "xmul": _xmul,
    "unit": _unit,
}
_ERRORS = {name: of for of, name in FUNCTION_ERRORS.items() if not of.startswith("lift_")}
# Functions whose result is a number of the type.
_EXACT: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "modulus": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "maximum": np.maximum,
    "minimum": np.minimum,
}

_WRITTEN_OUT = frozenset(["input", "flag", "given", "true", "where", *CONDITIONS, *_ARITHMETIC, *_EXACT])


def is_quick(order: Sequence[Node]) -> bool:
    """Whether a program of these nodes may be a quick one."""
    return all(
        _ERRORS.get(node.op, node.op) in quick.FUNCTIONS
        for node in order
        if node.number is None
        and (node.op not in _WRITTEN_OUT or (node.op == "pow" and node.args[1].number not in WRITTEN_OUT))
    )


def _composed(function: Callable[..., Array], op: str, args: Sequence[Array], form: Format, places: Array) -> Array:
    """A function of the table by those that its text calls, each of which errs to its own side."""
    turns = itertools.count()

    def called(name: str, *operands: Array) -> Array:
        return function(name, operands, form, places + next(turns))

    return composed.TEXTS[op](composed.Others(called, form.rounding), *args)  # type: ignore[no-any-return]


_PATTERN = (1, -1, 1, 1, -1, -1)
_PERIOD = len(_PATTERN)
_SIDES = np.tile(_PATTERN, 8)  # so often that an index need not be taken modulo the period each time


def _function(op: str, args: Sequence[Array], form: Format, places: Array) -> Array:
    """A function of the table, off by the error it may have: here to this side, there to that."""
    nearest, rest, is_exact = _exactly(op, *(arg.tobytes() for arg in args))
    off = _off(op, form, places)
    computed = nearest + (rest + _size(op, args, nearest) * off)
    value: Array = form.rounding(np.where(is_exact, nearest, computed))
    if op in PRODUCTS and (is_infinite := np.isinf(args[0])).any():
        scaled_up = np.array([_scaled_up(PRODUCTS[op], factor) for factor in args[1][is_infinite].tolist()])
        value[is_infinite] = _of_infinite(op, value[is_infinite], args[0][is_infinite], form.rounding(scaled_up))
    return value


def _quick_function(op: str, args: Sequence[Array], form: Format, places: Array) -> Array:
    """The same by arithmetic alone."""
    value = _quickly(op, *(arg.tobytes() for arg in args))
    is_exact = (value == np.rint(value)) & ((abs(value) < 2.0**52) | np.isinf(value))  # exp(0) is 1 exactly
    off = _size(op, args, value) * _off(op, form, places)
    found: Array = form.rounding(np.where(is_exact, value, value + off))
    if op in PRODUCTS and (is_infinite := np.isinf(args[0])).any():
        scaled_up = np.ldexp(quick.FUNCTIONS[PRODUCTS[op]](args[1][is_infinite]), 64)
        found[is_infinite] = _of_infinite(op, found[is_infinite], args[0][is_infinite], form.rounding(scaled_up))
    return found


def _of_infinite(op: str, value: Array, r: Array, scaled_up: Array) -> Array:
    """r * f(t), for an infinite r what the texts of `scaled` have: r, or 0 where even f(t) times 2**64 is."""
    if not op.startswith("lift_"):
        return np.where(scaled_up == 0, 0.0, value)
    is_negative = (scaled_up < 0) | ((scaled_up == 0) & (PRODUCTS[op] in SIGNED))
    return np.where(is_negative, -r, r)


def _lacking(op: str, args: Sequence[Array], form: Format, places: Array) -> Array:
    """What a function of the table, computed as the last operand, lacks of its exact value; 0 where that is unknown."""
    *operands, computed = args
    nearest, rest, _ = _exactly(op, *(arg.tobytes() for arg in operands), precision=_TWOFOLD)
    return _known((nearest - computed) + rest, form, places)


def _quickly_lacking(op: str, args: Sequence[Array], form: Format, places: Array) -> Array:
    """The same of a type that has far fewer digits than doubles."""
    *operands, computed = args
    return _known(_quickly(op, *(arg.tobytes() for arg in operands)) - computed, form, places)


def _known(error: Array, form: Format, places: Array) -> Array:
    rough = error * (1 + _SIDES[places] * _ROUGH)
    return form.rounding(np.where(np.isfinite(rough), rough, 0.0))  # type: ignore[no-any-return]


def _size(op: str, args: Sequence[Array], value: Array) -> Array:
    """What a function errs by a share of: its value, or what it changes by with its argument, if that is more."""
    conditioned = _CONDITIONED.get(PRODUCTS.get(op, op))
    if conditioned is None:
        return value
    changed_by, most = conditioned
    r, operands = (args[0], args[1:]) if op in PRODUCTS else (1.0, args)
    with np.errstate(all="ignore"):
        change = abs(changed_by(r, *operands))
        size: Array = np.fmax(abs(value), np.fmin(change, most * abs(value)))
    if op in PRODUCTS:  # whose one rounding more is relative to the value
        whole = PRIMITIVES[op].ulps - 0.5
        alone = min(PRIMITIVES[PRODUCTS[op]].ulps - 0.5, whole - ONE_ROUNDING)
        size = (size * alone + abs(value) * (whole - alone)) / whole
    found: Array = np.where(np.isfinite(size), size, value)
    return found


def _change_of_gate(u: Array, w: Array) -> Array:
    """The derivative of dgate by its first argument; for u > 0 at least its term with w."""
    slope, term = (quick.mul_logistic_density(factor, u) for factor in (1 - w * quick.tanh(u / 2), w))
    change: Array = np.where(u > 0, np.fmax(abs(slope), abs(term)), slope)
    return change


_DENSITY = normal.FUNCTIONS["ndtr"].slope["double"]  # at 0

# For functions that are as exact as their argument at best a number times this and the derivative by it, and how many
# times the value what the argument does counts for, at most.
_CONDITIONED: dict[str, tuple[Callable[..., Array], float]] = {
    "ndtr": (lambda r, t: quick.mul_exp(r * t * _DENSITY, -0.5 * t * t), math.inf),
    "dgelu": (lambda r, t: quick.mul_exp(r * t * _DENSITY * (2 - t * t), -0.5 * t * t), math.inf),
    "dswish": (
        lambda r, t: quick.mul_logistic_density(r * np.fmin(abs(t), 1.0) * (2 - t * quick.tanh(t / 2)), t),
        math.inf,
    ),
    "dgate": (lambda r, u, w: _change_of_gate(u, w), math.inf),
    "erfc": (lambda r, t: quick.mul_exp(r * t * 2 / math.sqrt(math.pi), -t * t), 2.5),
}


def _off(op: str, form: Format, places: Array) -> Array:
    """By what share of its size a function errs before it is rounded."""
    ulps = PRIMITIVES[op].ulps if form.dtype is np.float32 else PRIMITIVES[op].double_ulps
    off: Array = _SIDES[places] * (ulps - 0.5) * 2.0**-form.digits
    return off


@lru_cache(maxsize=1 << 8)
def _exactly(op: str, *columns: bytes, precision: int = _PRECISION) -> tuple[Array, Array, Array]:
    """What `_exact` gives for doubles: forms of a result have the same functions of the same inputs."""
    operands = np.array([np.frombuffer(column) for column in columns])
    is_number = ~np.isnan(operands).any(axis=0)
    found = np.full((3, len(is_number)), np.nan)
    found[1:] = [[0], [1]]
    found[:, is_number] = _KNOWN.setdefault((op, precision), _Known(op, precision)).values(operands[:, is_number])
    return found[0], found[1], found[2] != 0


class _Known:
    """The values of a function that are known, what `_exact` gives of each."""

    def __init__(self, op: str, precision: int) -> None:
        self._op, self._precision = op, precision
        self._places: dict[tuple[float, ...], int] = {}
        self._columns = np.zeros((3, 0))

    def values(self, operands: Array) -> Array:
        """A column for each column of operands."""
        rows = list(zip(*operands.tolist(), strict=True))
        new = [row for row in dict.fromkeys(rows) if row not in self._places]
        if len(self._places) + len(new) > _MOST_KNOWN:
            self._places.clear()
            self._columns = np.zeros((3, 0))
            new = list(dict.fromkeys(rows))
        if new:
            self._places.update(zip(new, itertools.count(len(self._places)), strict=False))
            columns = np.array([*_exact(self._op, new, self._precision)], np.float64).T
            self._columns = np.concatenate([self._columns, columns], axis=1)
        return self._columns[:, np.fromiter(map(self._places.__getitem__, rows), np.intp, len(rows))]


_KNOWN: dict[tuple[str, int], _Known] = {}
_MOST_KNOWN = 1 << 17  # values of each function


@lru_cache(maxsize=1 << 7)
def _quickly(op: str, *columns: bytes) -> Array:
    """A function of doubles by arithmetic alone."""
    found: Array = quick.FUNCTIONS[op](*map(np.frombuffer, columns))
    return found


@lru_cache(maxsize=1 << 16)
def _scaled_up(op: str, arg: float) -> float:
    """A vanishing function times 2**64."""
    (found,) = mpfr.in_doubles(op, [[arg]], _PRECISION, power=64)
    if found is not None:
        return found[0]
    with mpmath.workprec(_PRECISION):
        return float(mpmath.ldexp(function(op, mpf(arg)), 64)) if arg == arg else math.nan


def _exact(op: str, rows: Sequence[tuple[float, ...]], precision: int) -> Iterator[tuple[float, float, bool]]:
    """A function's values as their nearest doubles and what is left of them, and whether they are to be taken as is."""
    for args, value in zip(rows, mpfr.in_doubles(op, rows, precision), strict=True):
        yield value or _slowly_exact(op, args, precision)


def _slowly_exact(op: str, args: tuple[float, ...], precision: int) -> tuple[float, float, bool]:
    """The same for one that MPFR cannot tell."""
    with mpmath.workprec(precision):
        value = function(op, *map(mpf, args))
        nearest = float(value)
        if not math.isfinite(nearest) or mpmath.isint(value):  # exp(0) is 1 exactly
            return nearest, 0.0, True
        return nearest, float(value - nearest), False
