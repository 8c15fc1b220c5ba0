"""Power series of a graph at zero, for removable singularities: (exp(x) - 1)/x, (x - atan(x))/x**3, ...

Truncated Laurent series (Knuth, The Art of Computer Programming 2, section 4.7) are carried through the graph node by
node; a function of the table enters with its Taylor coefficients at the constant term of its operand.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any, Protocol

import gmpy2
import mpmath
import sympy
from mpmath import mpf
from mpmath.libmp import NoConvergence

from gradgen.evaluate import evaluated, values
from gradgen.graph import CONDITIONS, HALF, Graph, Node, inputs_of, rebuilt, substitute, topological
from gradgen.mpfr import precise
from gradgen.mpfr_functions import Number, lifted, lowered
from gradgen.primitives import PRIMITIVES, PRODUCTS
from gradgen.rewrite import factors

TERMS = 44  # that are carried; quotients use up some
_DIGITS = 100
_ZERO = 1e-60  # a coefficient below this is none
_BESIDE = mpf(10) ** -40  # where a condition is decided
_MOST_NODES = 150
_NOTHING = gmpy2.mpfr(0)


class NoSeriesError(Exception):
    """The node has no series at zero."""


class Coefficients(Protocol):
    """What coefficients are asked for beside arithmetic.

    Attributes:
        terms: how many of a series are carried.
    """

    terms: int

    def of(self, node: Node) -> Any:
        """A node in which the variable is not."""

    def is_zero(self, c: Any) -> bool:
        """Whether a coefficient is none."""

    def sign(self, c: Any) -> int:
        """1 or -1 for a coefficient that is known to be above or below 0, else 0."""

    def whole(self, c: Any) -> int | None:
        """The whole number that a coefficient is, if it is one."""

    def total(self, parts: Iterable[Any]) -> Any:
        """A sum."""

    def power(self, base: Any, exponent: Any) -> Any:
        """A power."""

    def taylor(self, op: str, orders: Sequence[Node], at: Any, count: int) -> Sequence[Any]:
        """The first coefficients of a function about a number, as many as can be had; before it stand its orders."""


class _Numbers:
    """Numbers of MPFR."""

    terms = TERMS

    def of(self, node: Node) -> Number:
        if node.number is None:
            raise NoSeriesError
        return lifted(evaluated(node, [], {}))

    def is_zero(self, c: Number) -> bool:
        return bool(abs(c) < _ZERO)

    def sign(self, c: Number) -> int:
        return int(gmpy2.sign(c))

    def whole(self, c: Number) -> int | None:
        return int(c) if c.is_integer() else None

    def total(self, parts: Iterable[Number]) -> Number:
        return gmpy2.fsum([*parts])

    def power(self, base: Number, exponent: Number) -> Number:
        return base**exponent

    def taylor(self, op: str, orders: Sequence[Node], at: Number, count: int) -> Sequence[Number]:
        before = tuple(evaluated(order, [], {}) for order in orders)
        return [*map(lifted, _taylor(op, before, lowered(at), count))]


NUMBERS = _Numbers()


@dataclass(frozen=True)
class Series:
    """v**low * (c[0] + c[1] v + ...), as far as it is known; c[0] is not 0 unless all is."""

    field: Coefficients
    low: int
    c: tuple[Any, ...]

    @staticmethod
    def of(field: Coefficients, low: int, coefficients: Sequence[Any]) -> Series:
        coefficients = list(coefficients)
        while coefficients and field.is_zero(coefficients[0]):
            del coefficients[0]
            low += 1
        return Series(field, low, tuple(coefficients))

    @staticmethod
    def steady(field: Coefficients, value: Any, terms: int | None = None) -> Series:
        """A number."""
        return Series.of(field, 0, [value, *[0 * value] * ((terms or field.terms) - 1)])

    @property
    def end(self) -> int:
        """The first power that is not known."""
        return self.low + len(self.c)

    def __getitem__(self, power: int) -> Any:
        return self.c[power - self.low] if self.low <= power < self.end else self._nothing

    @property
    def _nothing(self) -> Any:
        return self.field.total([])

    def __add__(self, other: Series) -> Series:
        low, end = min(self.low, other.low), min(self.end, other.end)
        return Series.of(self.field, low, [self[k] + other[k] for k in range(low, end)])

    def __mul__(self, other: Series) -> Series:
        count = min(len(self.c), len(other.c))
        own = self._terms(count)
        c = [self.field.total(a * other.c[k - i] for i, a in own if i <= k) for k in range(count)]
        return Series.of(self.field, self.low + other.low, c)

    def __neg__(self) -> Series:
        return Series(self.field, self.low, tuple(-a for a in self.c))

    def __sub__(self, other: Series) -> Series:
        return self + -other

    def _terms(self, count: int) -> list[tuple[int, Any]]:
        """The first coefficients that are not 0, each with its place."""
        return [(i, a) for i, a in enumerate(self.c[:count]) if a]

    def power(self, exponent: Any) -> Series:
        """By the recurrence of J.C.P. Miller."""
        field = self.field
        low = field.whole(self.low * exponent) if self.low else 0
        if not self.c or low is None:
            raise NoSeriesError
        # The root of v**2 is |v|, which has no series.
        if field.whole(exponent) is None and (field.sign(self.c[0]) < 0 or self.low % 2 or low % 2):
            raise NoSeriesError
        own = self._terms(len(self.c))[1:]
        c = [field.power(self.c[0], exponent)]
        for k in range(1, len(self.c)):
            total = field.total((exponent * i - (k - i)) * a * c[k - i] for i, a in own if i <= k)
            c.append(total / (k * self.c[0]))
        return Series.of(field, low, c)

    def inverse(self) -> Series:
        """1/self"""
        return self.power(self.field.of(_MINUS_ONE))

    def through(self, op: str, *orders: Node) -> Series:
        """A function of it, of some orders, that is analytic at the constant term."""
        if self.low < 0 or self.end <= 0:
            raise NoSeriesError
        inner = Series.of(self.field, 0, [self._nothing, *(self[k] for k in range(1, self.end))])
        step = max(inner.low, 1)
        count = self.end if not inner.c else -(-self.end // step)
        taylor = self.field.taylor(op, orders, self[0], count)
        end = self.end if len(taylor) == count else len(taylor) * step
        total = Series.steady(self.field, self._nothing, end)
        for coefficient in reversed(taylor):
            total = inner * total + Series.steady(self.field, coefficient, end)
        return total


_MINUS_ONE, _RIGHT_ANGLE = map(Graph().const, (-1, sympy.pi / 2))


@lru_cache(maxsize=256)
def _taylor(op: str, before: tuple[mpf, ...], at: mpf, count: int) -> tuple[mpf, ...]:
    """The coefficients of the polynomial through equidistant points so close that it is the Taylor polynomial."""
    points, function = count + _GUARD, PRIMITIVES[op].mpmath
    step = mpf(2) ** -_STEP
    with mpmath.workprec(mpmath.mp.prec + _STEP * points + points):
        nodes = [step * (k - points // 2) for k in range(points)]
        try:
            table = [function(*before, at + node) for node in nodes]
        except (ValueError, ZeroDivisionError, OverflowError, NoConvergence) as error:
            raise NoSeriesError from error
        if not all(isinstance(value, mpf) and mpmath.isfinite(value) for value in table):
            raise NoSeriesError
        with precise():
            polynomial = through([*map(lifted, nodes)], [*map(lifted, table)])
            return tuple(map(lowered, polynomial[:count]))


def through(points: Sequence[Number], values: Sequence[Number]) -> list[Number]:
    """The coefficients of the polynomial that has these values at these points, by Newton's divided differences."""
    table = list(values)
    for order in range(1, len(points)):
        for k in range(len(points) - 1, order - 1, -1):
            table[k] = (table[k] - table[k - 1]) / (points[k] - points[k - order])
    polynomial = table[-1:]
    for k in range(len(points) - 2, -1, -1):  # times (v - points[k]), plus table[k]
        shifted = [_NOTHING, *polynomial]
        polynomial = [a - points[k] * b for a, b in zip(shifted, [*polynomial, _NOTHING], strict=True)]
        polynomial[0] += table[k]
    return polynomial


_GUARD = 24  # more points than coefficients: the last ones are not exact
_STEP = 12  # the points are 2**-12 apart


def varying(root: Node, tensors: Sequence[str]) -> tuple[Node, Node]:
    """The root as a product of what depends on no tensor and the rest."""
    graph = root.graph
    number, found = factors(root)
    fixed, rest = graph.const(number), graph.const(1)
    for base, exponent in found:
        if set(inputs_of([base])).isdisjoint(tensors):
            fixed = fixed * base**exponent
        else:
            rest = rest * base**exponent
    return fixed, rest


def variables(root: Node, tensors: Sequence[str]) -> Iterator[Node]:
    """The nodes that the root is a function of alone: the input, its absolute value, a product such as beta*x."""
    fresh = root.graph.input("series variable")
    for node in topological([root]):
        depends = node.op not in CONDITIONS and any(name in tensors for name in inputs_of([node]))
        if depends and node is not root and inputs_of(substitute([root], {node: fresh})) == [fresh.value]:
            yield node


def coefficients(root: Node, variable: Node) -> tuple[int, list[mpf]] | None:
    """The order of a node's pole in another one at zero, and the power series of what it is the pole of.

    That is the series of root * variable**order, as far as it is known; None where there is none, or so many of its
    first terms are 0 that it is nothing near zero.
    """
    with mpmath.workdps(_DIGITS), precise():
        series = expanded(root, variable, NUMBERS)
        if series is None or not all(map(gmpy2.is_finite, series.c)):
            return None
        pole = max(0, -series.low) if series.c else 0
        return pole, [lowered(series[k]) for k in range(-pole, series.end)]


def expanded(root: Node, variable: Node, field: Coefficients) -> Series | None:
    """A node as a series in another one, with some kind of coefficients; None where it has none.

    Nor where so many of the first terms are 0 that it is nothing near zero.
    """
    if len(topological([root], stop={variable})) > _MOST_NODES:
        return None
    try:
        with mpmath.workdps(_DIGITS), precise():
            found = _along(_as_taken(root, variable), variable, field)
    except NoSeriesError:
        return None
    return None if found.low > field.terms else found


def _along(root: Node, variable: Node, field: Coefficients) -> Series:
    known: dict[Node, Series] = {}
    fixed: set[Node] = set()  # in which the variable is not
    for node in topological([root], stop={variable}):
        if node is not variable and fixed.issuperset(node.args):
            fixed.add(node)
        elif node.op not in CONDITIONS:
            for arg in fixed.intersection(node.args):
                known[arg] = Series.steady(field, field.of(arg))
            known[node] = _expanded(node, known, variable, field)
    return Series.steady(field, field.of(root)) if root in fixed else known[root]


def is_removable(root: Node, variable: Node) -> bool:
    """Whether a node that is no number where another one is 0 has a limit there."""
    found = coefficients(root, variable)
    return found is not None and found[0] == 0


def _expanded(node: Node, known: dict[Node, Series], variable: Node, field: Coefficients) -> Series:
    if node is variable:
        one = field.of(node.graph.const(1))
        return Series(field, 1, (one, *[0 * one] * (field.terms - 1)))
    args = [known.get(arg) for arg in node.args]
    if node.op == "add":
        return args[0] + args[1]  # type: ignore[operator]
    if node.op == "mul":
        return args[0] * args[1]  # type: ignore[operator]
    if node.op == "pow" and variable.value not in inputs_of([node.args[1]]):
        return args[0].power(field.of(node.args[1]))  # type: ignore[union-attr]
    if node.op == "unit":
        return args[0] * args[1].inverse()  # type: ignore[operator, union-attr]
    if node.op == "hypot":
        square: Series = args[0] * args[0] + args[1] * args[1]  # type: ignore[operator]
        return square.power(field.of(node.graph.const(HALF)))
    if node.op == "abs" and args[0].c and field.sign(args[0].c[0]) and args[0].low % 2 == 0:  # type: ignore[union-attr]
        return args[0] if field.sign(args[0].c[0]) > 0 else -args[0]  # type: ignore
    if node.op in _OF_TWO:
        return _OF_TWO[node.op](*args)
    row = PRIMITIVES.get(node.op)
    if row is None or node.op in _NOT_ANALYTIC:
        raise NoSeriesError
    if node.op == "csch":
        return args[0].through("sinh").inverse()  # type: ignore[union-attr]
    if len(args) != 1 + row.constant_operands:
        raise NoSeriesError
    return args[-1].through(node.op, *node.args[:-1])  # type: ignore[union-attr]


def _angle(y: Series, x: Series) -> Series:
    """atan2(y, x), where that is analytic: not for y = 0 where x is not positive."""
    if x.low == 0 and x.field.sign(x[0]) > 0:
        return (y * x.inverse()).through("atan")
    side = y.field.sign(y[0]) if y.low == 0 else 0
    if not side:
        raise NoSeriesError
    return Series.steady(y.field, side * y.field.of(_RIGHT_ANGLE)) - (x * y.inverse()).through("atan")


def _product(op: str, r: Series, t: Series) -> Series:
    return r * t.through(op)


def _one(like: Series) -> Series:
    return Series.steady(like.field, -like.field.of(_MINUS_ONE))


# Functions of two series; expm1(k*x)/k, log1p(k*x)/k and their derivatives by k among them
_OF_TWO: dict[str, Callable[..., Series]] = {
    "logaddexp": lambda a, b: b + (a - b).through("softplus"),
    "exprel": lambda k, x: (k * x).through("expm1") * k.inverse(),
    "dexprel": lambda k, x: ((k * x).through("exp") * k * x - (k * x).through("expm1")) * (k * k).inverse(),
    "logrel": lambda k, x: (k * x).through("log1p") * k.inverse(),
    "dlogrel": lambda k, x: ((k * x + _one(k)).inverse() * k * x - (k * x).through("log1p")) * (k * k).inverse(),
    "atan2": _angle,
    **dict.fromkeys(("damp", "xmul"), operator.mul),
    **{name: partial(_product, of) for name, of in PRODUCTS.items()},
}
_NOT_ANALYTIC = frozenset({"abs", "sign", "floor", "ceil", "cbrt", "not", "given", "rest"})


def _as_taken(root: Node, variable: Node) -> Node:
    """The root with the branches of selections that are taken on both sides of zero."""
    new: dict[Node, Node] = {variable: variable}
    for node in topological([root], stop={variable}):
        if node.op == "where":
            new[node] = new[node.args[1] if _is_met(node.args[0], variable) else node.args[2]]
        elif node is not variable:
            new[node] = rebuilt(node, new)
    return new[root]


def _is_met(condition: Node, variable: Node) -> bool:
    """Whether a condition holds beside zero."""
    graph: Graph = condition.graph
    point = graph.input("series variable")
    (condition,) = substitute([condition], {variable: point})
    if inputs_of([condition]) != [point.value]:
        raise NoSeriesError
    found = {_holds(condition, {str(point.value): side * _BESIDE}) for side in (1, -1)}
    if len(found) != 1:
        raise NoSeriesError
    return found.pop()


def _holds(condition: Node, point: dict[str, mpf]) -> bool:
    return bool(values(topological([condition]), point)[condition])


def polynomial(found: Sequence[mpf], variable: Node, reach: float, digits: int) -> Node | None:
    """The shortest polynomial that is the series to so many binary digits for |variable| < reach; None if too few
    terms are known.
    """
    count = terms_needed([abs(c) for c in found], reach, digits)
    return None if count is None else horner([constant(c, variable) for c in found[:count]], variable)


def terms_needed(sizes: Sequence[mpf], reach: float, digits: int) -> int | None:
    """How many terms of a series with coefficients of these sizes are it to so many binary digits for |v| < reach.

    None if too few are known.
    """
    at_end = [float(size * mpf(reach) ** k) for k, size in enumerate(sizes)]
    lead = next((size for size in at_end if size), None)
    if lead is None or not math.isfinite(lead):
        return None
    return next((n for n in range(1, len(at_end) - 4) if sum(at_end[n:]) <= lead * 2.0**-digits), None)


def horner(found: Sequence[Node], variable: Node) -> Node:
    """The polynomial with these coefficients, not all of them 0, of the powers of a variable."""
    low = next(k for k, c in enumerate(found) if not c.is_number(0))
    step = 2 if all(c.is_number(0) for c in found[low + 1 :: 2]) else 1
    first, *rest = reversed(found[low::step])
    return variable**low * reduce(lambda total, c: c + variable**step * total, rest, first)


def constant(value: mpf, variable: Node) -> Node:
    """A coefficient as a node of the variable's graph: the small fraction that it is, else its nearest double."""
    return variable.graph.const(_exact(value))


def _exact(value: mpf) -> sympy.Expr:
    if abs(value) < _ZERO:
        return sympy.Integer(0)
    fraction = sympy.Rational(str(mpmath.nstr(value, 60))).limit_denominator(10**12)
    with mpmath.workdps(60):
        if abs(mpf(fraction.p) / fraction.q - value) < abs(value) * mpf(10) ** -45:
            return fraction
    return sympy.Float(float(value), 17)
