"""Power series of a graph at zero, for removable singularities: (exp(x) - 1)/x, (x - atan(x))/x**3, ...

Truncated Laurent series (Knuth, The Art of Computer Programming 2, section 4.7) are carried through the graph node by
node; a function of the table enters with its Taylor coefficients at the constant term of its operand.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import gmpy2
import mpmath
import sympy
from mpmath import mpf
from mpmath.libmp import NoConvergence

from gradgen.evaluate import evaluated, values
from gradgen.graph import CONDITIONS, Graph, Node, inputs_of, rebuilt, substitute, topological
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


class _NoSeriesError(Exception):
    """The node has no series at zero."""


@dataclass(frozen=True)
class _Series:
    """v**low * (c[0] + c[1] v + ...), as far as it is known; c[0] is not 0 unless all is."""

    low: int
    c: tuple[Number, ...]

    @staticmethod
    def of(low: int, coefficients: Sequence[Number]) -> _Series:
        coefficients = list(coefficients)
        while coefficients and abs(coefficients[0]) < _ZERO:
            del coefficients[0]
            low += 1
        return _Series(low, tuple(coefficients))

    @property
    def end(self) -> int:
        """The first power that is not known."""
        return self.low + len(self.c)

    def __getitem__(self, power: int) -> Number:
        return self.c[power - self.low] if self.low <= power < self.end else _NOTHING

    def __add__(self, other: _Series) -> _Series:
        low, end = min(self.low, other.low), min(self.end, other.end)
        return _Series.of(low, [self[k] + other[k] for k in range(low, end)])

    def __mul__(self, other: _Series) -> _Series:
        count = min(len(self.c), len(other.c))
        own = self._terms(count)
        c = [gmpy2.fsum([a * other.c[k - i] for i, a in own if i <= k]) for k in range(count)]
        return _Series.of(self.low + other.low, c)

    def __sub__(self, other: _Series) -> _Series:
        return self + other * _steady(-1)

    def _terms(self, count: int) -> list[tuple[int, Number]]:
        """The first coefficients that are not 0, each with its place."""
        return [(i, a) for i, a in enumerate(self.c[:count]) if a]

    def power(self, exponent: Number | float) -> _Series:
        """By the recurrence of J.C.P. Miller."""
        exponent = gmpy2.mpfr(exponent)
        low = self.low * exponent
        if not self.c or not low.is_integer():
            raise _NoSeriesError
        # The root of v**2 is |v|, which has no series.
        if not exponent.is_integer() and (self.c[0] < 0 or self.low % 2 or low % 2):
            raise _NoSeriesError
        own = self._terms(len(self.c))[1:]
        c = [self.c[0] ** exponent]
        for k in range(1, len(self.c)):
            total = gmpy2.fsum([(exponent * i - (k - i)) * a * c[k - i] for i, a in own if i <= k])
            c.append(total / (k * self.c[0]))
        return _Series.of(int(low), c)

    def through(self, function: Callable[[mpf], mpf]) -> _Series:
        """function(self), for a function that is analytic at the constant term."""
        if self.low < 0 or self.end <= 0:
            raise _NoSeriesError
        inner = _Series.of(0, [_NOTHING, *(self[k] for k in range(1, self.end))])
        count = self.end if not inner.c else -(-self.end // max(inner.low, 1))
        taylor = _taylor(function, lowered(self[0]), count)
        total = _steady(_NOTHING, self.end)
        for coefficient in reversed(taylor):
            total = inner * total + _steady(lifted(coefficient), self.end)
        return total


def _steady(value: Number | int, terms: int = TERMS) -> _Series:
    return _Series.of(0, [gmpy2.mpfr(value), *[_NOTHING] * (terms - 1)])


@lru_cache(maxsize=256)
def _taylor(function: Callable[[mpf], mpf], at: mpf, count: int) -> tuple[mpf, ...]:
    """The coefficients of the polynomial through equidistant points so close that it is the Taylor polynomial."""
    points = count + _GUARD
    step = mpf(2) ** -_STEP
    with mpmath.workprec(mpmath.mp.prec + _STEP * points + points):
        nodes = [step * (k - points // 2) for k in range(points)]
        try:
            table = [function(at + node) for node in nodes]
        except (ValueError, ZeroDivisionError, OverflowError, NoConvergence) as error:
            raise _NoSeriesError from error
        if not all(isinstance(value, mpf) and mpmath.isfinite(value) for value in table):
            raise _NoSeriesError
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
    if len(topological([root], stop={variable})) > _MOST_NODES:
        return None
    with mpmath.workdps(_DIGITS), precise():
        known: dict[Node, _Series] = {}
        try:
            root = _as_taken(root, variable)
            for node in topological([root], stop={variable}):
                if node.op not in CONDITIONS:
                    known[node] = _expanded(node, known, variable)
        except _NoSeriesError:
            return None
        series = known[root]
        if series.low > TERMS or not all(map(gmpy2.is_finite, series.c)):
            return None
        pole = max(0, -series.low) if series.c else 0
        return pole, [lowered(series[k]) for k in range(-pole, series.end)]


def is_removable(root: Node, variable: Node) -> bool:
    """Whether a node that is no number where another one is 0 has a limit there."""
    found = coefficients(root, variable)
    return found is not None and found[0] == 0


def _expanded(node: Node, known: dict[Node, _Series], variable: Node) -> _Series:
    if node is variable:
        return _Series(1, (gmpy2.mpfr(1), *[_NOTHING] * (TERMS - 1)))
    if node.number is not None:
        return _steady(lifted(evaluated(node, [], {})))
    args = [known.get(arg) for arg in node.args]
    if node.op == "add":
        return args[0] + args[1]  # type: ignore[operator]
    if node.op == "mul":
        return args[0] * args[1]  # type: ignore[operator]
    if node.op == "pow" and node.args[1].number is not None:
        return args[0].power(lifted(evaluated(node.args[1], [], {})))  # type: ignore[union-attr]
    if node.op == "unit":
        return args[0] * args[1].power(-1)  # type: ignore[operator, union-attr]
    if node.op == "hypot":
        return (args[0] * args[0] + args[1] * args[1]).power(0.5)  # type: ignore[operator]
    if node.op == "abs" and args[0].low % 2 == 0 and args[0].c:  # type: ignore[union-attr]
        return args[0] if args[0].c[0] > 0 else args[0] * _steady(-1)  # type: ignore
    if node.op in _OF_TWO:
        return _OF_TWO[node.op](*args)
    row = PRIMITIVES.get(node.op)
    if row is None or node.op in _NOT_ANALYTIC:
        raise _NoSeriesError
    if node.op == "csch":
        return args[0].through(mpmath.sinh).power(-1)  # type: ignore[union-attr]
    if row.constant_operands == 1 and len(args) == 2:
        return args[1].through(partial(row.mpmath, evaluated(node.args[0], [], {})))  # type: ignore[union-attr]
    if len(args) != 1:
        raise _NoSeriesError
    return args[0].through(row.mpmath)  # type: ignore[union-attr]


def _angle(y: _Series, x: _Series) -> _Series:
    """atan2(y, x), where that is analytic: not for y = 0 where x is not positive."""
    if x.low == 0 and x[0] > 0:
        return (y * x.power(-1)).through(mpmath.atan)
    if y.low or not y.c:
        raise _NoSeriesError
    right = gmpy2.const_pi() / 2
    return _steady(right if y[0] > 0 else -right) - (x * y.power(-1)).through(mpmath.atan)


def _product(function: Callable[[mpf], mpf], r: _Series, t: _Series) -> _Series:
    return r * t.through(function)


# Functions of two series; expm1(k*x)/k, log1p(k*x)/k and their derivatives by k among them
_OF_TWO: dict[str, Callable[..., _Series]] = {
    "logaddexp": lambda a, b: b + (a - b).through(PRIMITIVES["softplus"].mpmath),
    "exprel": lambda k, x: (k * x).through(mpmath.expm1) * k.power(-1),
    "dexprel": lambda k, x: ((k * x).through(mpmath.exp) * k * x - (k * x).through(mpmath.expm1)) * k.power(-2),
    "logrel": lambda k, x: (k * x).through(mpmath.log1p) * k.power(-1),
    "dlogrel": lambda k, x: ((k * x + _steady(1)).power(-1) * k * x - (k * x).through(mpmath.log1p)) * k.power(-2),
    "atan2": _angle,
    **dict.fromkeys(("damp", "xmul"), operator.mul),
    **{name: partial(_product, PRIMITIVES[of].mpmath) for name, of in PRODUCTS.items()},
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
        raise _NoSeriesError
    found = {_holds(condition, {str(point.value): side * _BESIDE}) for side in (1, -1)}
    if len(found) != 1:
        raise _NoSeriesError
    return found.pop()


def _holds(condition: Node, point: dict[str, mpf]) -> bool:
    return bool(values(topological([condition]), point)[condition])


def polynomial(found: Sequence[mpf], variable: Node, reach: float, digits: int) -> Node | None:
    """The shortest polynomial that is the series to so many binary digits for |variable| < reach; None if too few
    terms are known.
    """
    sizes = [float(abs(c) * mpf(reach) ** k) for k, c in enumerate(found)]
    lead = next((size for size in sizes if size), None)
    if lead is None or not math.isfinite(lead):
        return None
    count = next((n for n in range(1, len(found) - 4) if sum(sizes[n:]) <= lead * 2.0**-digits), None)
    return None if count is None else _horner(found[:count], variable)


def _horner(found: Sequence[mpf], variable: Node) -> Node:
    low = next(k for k, c in enumerate(found) if c)
    step = 1 if any(found[low + 1 :: 2]) else 2
    first, *rest = [constant(c, variable) for c in reversed(found[low::step])]
    return variable**low * reduce(lambda total, number: number + variable**step * total, rest, first)


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
