"""Infinite inputs: what a function tends to there, and forms that find infinity over infinity and are NaN or off."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce

import mpmath
import sympy
from mpmath import mpf
from sympy import Expr

from gradgen import mpfr, pair
from gradgen.evaluate import values
from gradgen.graph import RELATIONS, Graph, Node, inputs_of, topological
from gradgen.model import FORMATS, Point, Program
from gradgen.ulp import LARGEST, NOTHING

_SHARES = (1.0, 1.25, 1.625)
_FRACTIONS = (3.964, 2.6851, 0.6524)
# These stand for infinity. Sine and cosine, of half of them or up to three times as much too, of pi times as much too,
# have either sign among them; and they are no whole numbers, of which a periodic function may know but one value.
with mpmath.workprec(500):
    _FARTHEST = mpf(2) ** 320
    FAR = (
        mpf(2) ** 160 + 3.4256,
        *(_FARTHEST * share + fraction for share, fraction in zip(_SHARES, _FRACTIONS, strict=True)),
    )
_CLOSE = mpf(2) ** -40  # how well values far out agree where there is a limit
_ON_THE_WAY = (2.0**60, 2.0**90)  # to infinity
_APART = 2.0**-20  # of two numbers that are not one by rounding
_DENOMINATORS = 1000  # up to which a limit is taken for a fraction
_STEADY = 0.01  # by how much powers that two pairs of values tell of may differ
_LEAST_POWER = 0.05  # of the distance, that an exponential is taken of
_REACHED = 1e18  # where a limit that is had exponentially fast is had for certain
_BEYOND = mpf(2) ** 60  # what grows beyond this far out is infinite, what falls below its inverse is 0
# Inputs that stay finite: the first one, and by how much the next differ
_OTHERS = ((0.75, 0.5), (-1.25, -0.375), (37.5, -11.25), (-41.0, 17.5), (0.015625, 0.03125), (-0.0078125, 2.75))
_SIDES = (None, 1.0, -1.0)  # on which the inputs that stay finite are
_FEWEST = 3  # numbers that a limit must be found among
_MANY = 40  # points with functions that take long, or
_FEW_INPUTS = 3  # more inputs than these, from which on
_STEP, _OTHER_STEP = 5, 7  # one of so many serves; as many as there are rows of hyper-parameters are no multiple of it
_VARIED = 6  # hyper-parameters that are drawn at random

# The exact result where inputs and hyper-parameters have these values; None where it is not known
Exact = Callable[[Mapping[str, float | bool | mpf]], mpf | None]


def tends_to(values: Sequence[mpf]) -> mpf | None:
    """The limit of a function that has these values at the distances of `FAR`; None where it is not plain to see."""
    *near, far = values
    if all(_is_same(value, far) for value in near):
        return far
    sizes = [abs(value) for value in values]
    if max(sizes) < 1 / _BEYOND:
        return mpf(0)
    if min(sizes) > _BEYOND and all(value * far > 0 for value in near) and sizes == sorted(sizes):
        return mpmath.sign(far) * mpmath.inf if _is_steady(sizes[1:]) else None
    return None


def _is_steady(sizes: Sequence[mpf]) -> bool:
    """Whether numbers at the three farthest distances grow as a power does, or as the exponential of one: no swings."""
    logs = [mpmath.log(size) for size in sizes]
    power = _power([log - logs[0] for log in logs])
    exponent = _power([mpmath.log(log / logs[0]) for log in logs])
    return power is not None or (exponent is not None and exponent > _LEAST_POWER)


def _power(logs: Sequence[mpf]) -> mpf | None:
    """The power of the distance that has these logarithms; None if there is none."""
    one, other = (log / mpmath.log(share) for log, share in zip(logs[1:], _SHARES[1:], strict=True))
    return other if abs(one - other) <= _STEADY * max(1, abs(other)) else None


def instead(names: Sequence[str], there: Node, form: Node) -> Node:
    """A form with another node in its place where one of the inputs is infinite."""
    graph = form.graph
    sizes = (graph.apply("abs", graph.input(name)) for name in names)
    is_infinite = reduce(partial(graph.apply, "or"), (graph.apply("eq", size, sympy.oo) for size in sizes))
    return graph.where(is_infinite, there, form)


def settled(form: Node, printed: Node, exact: Exact, tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> Node:
    """A form with the limit for each infinite input at which it is off, if that is the same whatever all others are.

    It may be a number, infinite, or either times hyper-parameters: 3*a/10. Where it hangs on their signs, or on flags,
    it is there for those that are given; where it hangs on the sign of the other inputs, for positive or negative ones.

    Args:
        form: the form.
        printed: the same as it is computed.
        exact: its exact value at finite inputs, None where it has none.
        tensors: the names of the tensor inputs.
        hyper: a value for each hyper-parameter.
    """
    graph = form.graph
    order = topological([printed])
    program, names = Program(order, FORMATS["float64"]), inputs_of(order)
    read = [graph.input(name) for name in names if name in tensors]
    is_laborious = mpfr.is_laborious(order)
    if any(_is_of_numbers(node) for node in order):
        return form  # which numbers it is true for cannot be known from some
    held = [name for name in names if _may_be_held(hyper.get(name))]
    limits: dict[tuple[Node, int], list[tuple[Node, tuple[Node, ...]]]] = {}
    reached = set()
    for x, sign in itertools.product(read, (1, -1)):
        others = [other for other in read if other is not x]
        for side, given in itertools.product(_SIDES if others else (None,), ((), held) if held else ((),)):
            points = _points(tensors, hyper, bool(given), [str(other.value) for other in others], side)
            if (is_laborious or len(read) > _FEW_INPUTS) and len(points) > _MANY:
                points = points[:: _STEP if len(points) % _STEP else _OTHER_STEP]
            ends = [{**point, str(x.value): sign * math.inf} for point in points if not _has_zero(point, tensors)]
            if not _is_off(program, ends, str(x.value), sign):
                if side is None:
                    break
                continue
            limit = _limit_of(form, exact, points, x, sign, hyper, everywhere=not given)
            if limit is not None:
                alike = [_is_alike(graph, name, hyper[name]) for name in given]
                alike += [_is_alike(graph, str(other.value), side) for other in others if side]
                limits.setdefault((x, sign), []).append((limit, tuple(alike)))
                if len(names) == 1 and _is_reached(limit, exact, program, str(x.value), sign, points[0]):
                    reached.add((x, sign))
                if side is None:
                    break
    for limit, conditions in dict.fromkeys(itertools.chain(*limits.values())):
        places = [place for place, found in limits.items() if (limit, conditions) in found]
        end = sympy.Float(_REACHED) if reached.issuperset(places) else sympy.oo
        form = graph.where(reduce(partial(graph.apply, "and"), conditions, _condition(places, read, end)), limit, form)
    return form


def _is_reached(
    limit: Node, exact: Exact, program: Program, name: str, sign: int, others: Mapping[str, float | bool]
) -> bool:
    """Whether the limit is there long before infinity, and the program no number somewhere between, for overflow.

    The program reads no other input than this one; what is exact may, to no effect.
    """
    if limit.number is None or math.isfinite(program([{name: sign * LARGEST["float64"]}])[-1].item()):
        return False
    value = exact({**others, name: sign * _REACHED})
    return value is not None and abs(value - mpf(float(limit.number))) < NOTHING


def _is_off(program: Program, ends: Sequence[Point], name: str, sign: int) -> bool:
    """Whether a program is NaN for an infinite input, or not what it comes closer to on the way there."""
    found = (program([{**end, name: sign * x} for end in ends])[-1].tolist() for x in (*_ON_THE_WAY, math.inf))
    return any(_is_elsewhere(*values) for values in zip(*found, strict=True))


def _is_elsewhere(near: float, far: float, there: float) -> bool:
    """Whether the value at infinity is not what values before it come closer to."""
    if not math.isfinite(there):
        return math.isnan(there) or (math.isfinite(far) and math.copysign(1, there) * (far - near) <= 0)
    gap = abs(far - there)
    return math.isfinite(gap) and gap > _APART * max(abs(far), abs(there)) and gap >= abs(near - there)


def _is_of_numbers(node: Node) -> bool:
    """Whether a node compares hyper-parameters that are no flags."""
    names = inputs_of([node]) if node.op in RELATIONS else []
    return bool(names) and all(name in node.graph.hyper for name in names)


def _may_be_held(value: object) -> bool:
    """Whether a limit may be one for such values alone: numbers of that sign, or that flag."""
    return isinstance(value, bool) or (isinstance(value, float) and value != 0)


def _is_alike(graph: Graph, name: str, value: float | bool) -> Node:
    """The condition that a number has the sign of a given one, or a flag its value."""
    if isinstance(value, bool):
        return graph.flag(name) if value else graph.apply("not", graph.flag(name))
    return graph.apply("gt" if value > 0 else "lt", graph.input(name), 0)


def _has_zero(point: Mapping[str, float | bool], tensors: Sequence[str]) -> bool:
    """Whether one of the inputs is 0: infinity times that is NaN, and mostly nobody cares."""
    return any(point[name] == 0 for name in tensors)


def _points(
    tensors: Sequence[str], hyper: Mapping[str, float | bool], held: bool, others: Sequence[str], side: float | None
) -> list[dict[str, float | bool]]:
    """Finite inputs, with hyper-parameters on which a limit may hang; the others of some sign, or of both and 0."""
    finite = [{name: first + k * step for k, name in enumerate(tensors)} for first, step in _OTHERS]
    if side is None:
        finite += [{**finite[k % 2], other: 0.0} for k, other in enumerate(others)]
    else:
        finite = [{name: side * abs(x) if name in others else x for name, x in point.items()} for point in finite]
    return [{**point, **row} for point, row in itertools.product(finite, _varied(hyper, held))]


def _limit_of(
    form: Node,
    exact: Exact,
    points: Sequence[Mapping[str, float | bool]],
    x: Node,
    sign: int,
    hyper: Mapping[str, float | bool],
    everywhere: bool,
) -> Node | None:
    """The limit of a form along an input that all points have in common; None if there is none.

    Hyper-parameters with which the function is no number do not count, unless it is to be one with all, nor does a 0.
    """
    shares: dict[Node, mpf | None] = dict.fromkeys(_factors(form, hyper))  # what the limits are in units of each factor
    count, rows, unreal = 0, set(), set()
    limits = pair.each(form, lambda point: [*_limits(exact, point, str(x.value), sign)], points)
    for point, found in zip(points, limits, strict=True):
        row = tuple(point[name] for name in hyper)
        if not found and not _has_zero(point, [name for name in point if name not in hyper]):
            unreal.add(row)
        for limit in found:
            count += 1
            rows.add(row)
            shares = dict(_still_common(shares, point, limit))
            if not shares:
                return None
    if rows & unreal:  # of other inputs it is no number for some
        return None
    if count < _FEWEST or (everywhere and rows != {tuple(point[name] for name in hyper) for point in points}):
        return None
    factor, share = next(iter(shares.items()))
    number = _number(share)  # infinity is what is there already, or its opposite
    return factor * ((sign if number > 0 else -sign) * x if number.is_infinite else form.graph.const(number))


def _limits(exact: Exact, point: Mapping[str, float | bool], name: str, sign: int) -> Iterator[mpf | None]:
    """What a function tends to far out along an input: None if to nothing; not a thing if it is no number there."""
    found = [exact({**point, name: mpmath.fmul(sign, distance, exact=True)}) for distance in FAR]
    known = [value for value in found if value is not None]
    if known:
        yield tends_to(known) if len(known) == len(found) else None


def _varied(hyper: Mapping[str, float | bool], held: bool) -> list[dict[str, float | bool]]:
    """Hyper-parameters on which a limit may hang: of other sizes; unless held, of other signs, 0, and other flags."""
    randoms = random.Random(0)
    rows = [dict(hyper)]
    for k in range(_VARIED):
        row: dict[str, float | bool] = {}
        for name, value in hyper.items():
            share = randoms.uniform(-3, 3)
            if isinstance(value, bool):
                row[name] = value if held else bool(randoms.getrandbits(1))
            elif isinstance(value, int):
                row[name] = value + k % 3
            else:
                row[name] = value * abs(share) if held and value else (abs(value) + 1) * share
        rows.append(row)
    if not held:
        rows += [{**hyper, name: 0.0} for name, value in hyper.items() if isinstance(value, float)]
        rows += [{**hyper, name: not value} for name, value in hyper.items() if isinstance(value, bool)]
    return [row for k, row in enumerate(rows) if row not in rows[:k]]


def _condition(places: Sequence[tuple[Node, int]], read: Sequence[Node], end: Expr) -> Node:
    """The condition that one of some inputs is infinite, of some sign each, and no other is NaN.

    Or that it is so large: then it is the only one.
    """
    graph = read[0].graph
    sizes = [graph.apply("abs", x) for x in read]
    if len(read) == 2 and len(places) == 4:  # one of both; NaN shows in both extremes
        infinite = graph.apply("eq", graph.apply("maximum", *sizes), sympy.oo)
        return graph.apply("and", infinite, graph.apply("lt", graph.apply("minimum", *sizes), sympy.oo))
    conditions = []
    for x in dict.fromkeys(x for x, _ in places):
        signs = [sign for y, sign in places if y is x]
        size, sign = (graph.apply("abs", x), 1) if len(signs) == 2 else (x, signs[0])
        is_there = "eq" if end.is_infinite else "ge" if sign > 0 else "le"
        others = [graph.apply("lt", size, sympy.oo) for y, size in zip(read, sizes, strict=True) if y is not x]
        conditions.append(reduce(partial(graph.apply, "and"), others, graph.apply(is_there, size, sign * end)))
    return reduce(partial(graph.apply, "or"), conditions)


def _is_same(a: mpf, b: mpf) -> bool:
    return bool(a == b or (mpmath.isfinite(b) and abs(a - b) <= _CLOSE * abs(b)))


def _factors(form: Node, hyper: Mapping[str, float | bool]) -> Iterator[Node]:
    """What a limit may be a multiple of: 1, hyper-parameters, their inverses, products and quotients."""
    names = [name for name in inputs_of([form]) if isinstance(hyper.get(name), float)]
    parameters = [form.graph.input(name) for name in names]
    yield form.graph.const(1)
    for one in parameters:
        yield from (one, 1 / one)
    for one, other in itertools.combinations(parameters, 2):
        yield from (one * other, one / other, other / one)


def _still_common(
    shares: Mapping[Node, mpf | None], point: Mapping[str, float | bool], limit: mpf | None
) -> Iterator[tuple[Node, mpf]]:
    """The factors in units of which this limit is what those before it are, or it is the first; and what it is."""
    for factor, share in shares.items() if limit is not None else ():
        unit = values(topological([factor]), point)[factor]
        if unit and mpmath.isfinite(unit) and (share is None or _is_same(limit / unit, share)):
            yield factor, limit / unit if share is None else share


def _number(share: mpf) -> Expr:
    """A limit as a number of SymPy."""
    if mpmath.isinf(share):
        return sympy.oo * int(mpmath.sign(share))
    fraction = Fraction(float(share)).limit_denominator(_DENOMINATORS)
    if _is_same(share, mpf(fraction.numerator) / fraction.denominator):
        return sympy.Rational(fraction.numerator, fraction.denominator)
    # Half as far from infinity it was known to 40 binary digits: here to twice as many
    return sympy.Float(share, 20)
