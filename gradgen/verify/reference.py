"""The exact results of an op at a point: value, gradients, second derivatives, each with its scale."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import mpmath
from mpmath import mpf
from sympy import Abs, Heaviside, Max, Min, Mod, Mul, Piecewise, Pow, ceiling, floor, frac, sign
from sympy.logic.boolalg import ITE

from gradgen.infinite import FAR, tends_to
from gradgen.load import Formula
from gradgen.points import IRRATIONAL
from gradgen.verify.quantity import Exact, Point, Quantity
from gradgen.verify.shaken import Shaken

# How far points and results reach. Enough for float32 and what is narrower, and for ordinary numbers of float64; that
# more digits are needed shows in that two precisions do not agree.
BITS = 160
BITS_OF_FLOAT64 = 1075

_ROUGH = (Abs, sign, Max, Min, Piecewise, ITE, floor, ceiling, frac, Mod, Heaviside)
_NEAR = mpf(2) ** -200  # how far beside a point one looks for a kink: nearer than any number of the narrow types
_MOST_DIRECTIONS = 16
_NOTHING = mpf(2) ** -150  # what vanishes where these are this near, of numbers of about 1
_FAR_BEYOND = 2**20  # the power of two
_NOISE = mpf(2) ** -2500  # what is smaller may be what rounding leaves of 0
_CLOSE = mpf(2) ** -40  # how well slopes on both sides agree where there is no kink


class Reference:
    """The exact results of an op, as far as they can be had; each is computed once.

    Args:
        formula: the op as the user wrote it.
        hyper: its hyper-parameters.
        bits: how far points and results reach, as for `gradgen.exact.Exact`.
    """

    def __init__(self, formula: Formula, hyper: Mapping[str, float], bits: int = BITS) -> None:
        self._inputs = [p.name for p in formula.tensors]
        self._hyper = dict(hyper)
        self._bits = bits
        self._formula = Shaken(formula, bits)
        # Derivatives of the user's own are what the op's gradients are, whatever its formula says.
        self._own = {
            name: Shaken(replace(formula, outputs=expressions, derivatives={}, places={}, names=()), bits)
            for name, expressions in formula.derivatives.items()
        }
        self._rough = any(
            expression.has(*_ROUGH) or any(map(_is_absolute_value, expression.atoms(Pow)))
            for group in (formula.outputs, *formula.derivatives.values())
            for expression in group
        )
        self._known: dict[tuple[object, ...], mpf | None] = {}

    def __call__(self, point: Point, quantities: Iterable[Quantity]) -> dict[Quantity, Exact]:
        """Those of the quantities that are determined at the point, which is finite.

        Left out is what is not real, what no practical precision settles, and derivatives at a kink, where not
        mathematics but a convention says what they are.
        """
        found: dict[Quantity, Exact] = {}
        for quantity in quantities:
            if quantity.wrt and Quantity(quantity.output, ()) not in found:
                continue  # what has no value needs no derivative, which would be long in the finding
            if self._rough and self._is_kink(point, quantity):
                continue
            is_smooth = not quantity.wrt or Quantity(quantity.output, quantity.wrt[:-1]) in found
            value = (self._continued if is_smooth else self._at)(point, quantity)
            if value is None or (not is_smooth and self._is_noise(value, point, quantity)):
                continue
            if mpmath.isfinite(value) and quantity.wrt and mpmath.isinf(found[Quantity(quantity.output, ())].value):
                continue  # differentiated at a pole
            has_negative_zero = any(map(_is_negative_zero, point.values()))
            if has_negative_zero and self._jumps_below_zero(point, quantity, value):
                continue
            found[quantity] = Exact(value, partial(self._scale, point, quantity), has_negative_zero)
        return found

    def limit(self, point: Point, quantity: Quantity) -> mpf | None:
        """What a quantity tends to as the infinite coordinates of a point grow; None where that is not plain to see."""
        values = []
        for distance in FAR:
            value = self._at({name: _towards(x, distance) for name, x in point.items()}, quantity)
            if value is None:
                return None
            values.append(value)
        return tends_to(values)

    def _jumps_below_zero(self, point: Point, quantity: Quantity, value: mpf) -> bool:
        """Whether a quantity is not what it is just below a -0: log(1 + 1/x) is not real there, atan2(y, x) -pi."""
        below = self._at(_below_zero(point), quantity)
        if below is None:
            return bool(mpmath.isinf(value))
        return not self._rough and bool(mpmath.isfinite(value) and abs(below - value) > _CLOSE)

    def _scale(self, point: Point, quantity: Quantity) -> mpf | None:
        """The largest |x * d quantity/dx| over the inputs; None where it cannot be had."""
        shifts = [mpf(0)]
        for name in self._inputs:
            if point[name] != 0:
                slope = self._continued(point, quantity, name)
                if slope is None:
                    return None
                shifts.append(abs(point[name] * slope))
        return max(shifts)

    def _continued(self, point: Point, quantity: Quantity, *more: str) -> mpf | None:
        """A quantity, or its derivative by `more`; where it is no number but has a limit from all sides, that.

        A 0 may be one by a divisor that is 0 but has been shaken.
        """
        value = self._at(point, quantity, *more)
        is_noise = value is not None and self._is_noise(value, point, quantity, *more)
        if value is not None and mpmath.isfinite(value):
            if value != 0 and not is_noise:
                return value
            if self._is_regular(point, quantity):
                return mpf(0)
            if self._rough and not is_noise:
                return value
        near, nearer = [self._beside(point, quantity, step, *more) for step in (_NEAR, _NEAR**2)]
        if near is None or nearer is None:
            return value
        limit = nearer[-1]
        if all(abs(one - limit) <= _CLOSE * abs(limit) for one in (*near, *nearer)):
            return limit
        size = min(max(abs(mpf(point[name])) for name in self._inputs), 1) or 1
        is_vanishing = max(map(abs, nearer)) <= _CLOSE * max(map(abs, near)) <= _CLOSE * _NOTHING * size
        if is_noise and max(map(abs, nearer)) > _NOTHING:
            return None  # a kink
        return mpf(0) if is_vanishing else value

    def _is_regular(self, point: Point, quantity: Quantity) -> bool:
        """Whether what a quantity is, or is the derivative of, is analytic at the point, and nothing next to it is not.

        What is so of the formula is not looked at for derivatives of the user's own.
        """
        return self._own.keys().isdisjoint(quantity.wrt) and self._formula.is_regular(
            {**point, **self._hyper}, quantity.output
        )

    def _beside(self, point: Point, quantity: Quantity, step: mpf, *more: str) -> list[mpf] | None:
        """A quantity, or its derivative, at a distance in all directions; None where it cannot be had."""
        found = []
        for signs, powers in self._directions():
            beside = {
                name: mpmath.fadd(point[name], sign * step**power * (min(abs(point[name]), 1) or 1), exact=True)
                for name, sign, power in zip(self._inputs, signs, powers, strict=True)
            }
            one = self._at(beside, quantity, *more)
            if one is None:
                return None
            found.append(one)
        return found

    def _directions(self) -> Iterator[tuple[tuple[float, ...], tuple[int, ...]]]:
        """Up and down for each input, none as far as another, nor twice at the same angle: x**2/y**2 has no limit.

        Then one input nearer than the others, by the power of the distance that is told: nor has x**2/y.
        """
        count = len(self._inputs)
        signs = itertools.product((1.0, -1.0), repeat=count)
        for place, row in enumerate(itertools.islice(signs, _MOST_DIRECTIONS)):
            yield tuple(sign / (1 + (k + place) * IRRATIONAL[0] % 1) for k, sign in enumerate(row)), (1,) * count
        for nearest in range(count if count > 1 else 0):
            yield (1.0,) * count, tuple(2 if k == nearest else 1 for k in range(count))

    def _at(self, point: Mapping[str, float | mpf], quantity: Quantity, *more: str) -> mpf | None:
        """A quantity, or its derivative by `more`; None where it is not real, or cannot be had."""
        wrt = (*quantity.wrt, *more)
        value = self._at(point, Quantity(quantity.output, ())) if wrt else None
        if wrt and self._is_beyond(value):
            return None
        first, *rest = wrt or ("",)
        own = self._own.get(first)
        names = tuple(rest) if own else wrt
        key = (quantity.output, first if own else "", *sorted(names), *point.values())
        if key not in self._known:
            found = (own or self._formula).result({**point, **self._hyper}, names, quantity.output)
            is_lost = value is not None and found is not None and not own and self._is_lost(found, value, point, wrt)
            self._known[key] = None if is_lost else found
        return self._known[key]

    def _is_lost(self, slope: mpf, value: mpf, point: Mapping[str, float | mpf], wrt: Sequence[str]) -> bool:
        """Whether a slope is nothing beside a value beyond all types: next to a pole that is nearer than any step."""
        size = math.prod((max(abs(mpf(point[name])), 1) for name in wrt), start=mpf(1))
        return bool(abs(value) > mpf(2) ** self._bits and abs(slope) * size < _NOTHING * abs(value) < mpmath.inf)

    def _is_noise(self, value: mpf, point: Point, quantity: Quantity, *more: str) -> bool:
        """Whether a value is what rounding leaves of 0: next to nothing, and another number if it is found again."""
        if not 0 < abs(value) < _NOISE:
            return False
        known, self._known = self._known, {}
        again = self._at(point, quantity, *more)
        self._known = known
        return again is None or bool(abs(again - value) > _CLOSE * abs(value))

    @staticmethod
    def _is_beyond(value: mpf | None) -> bool:
        """Whether a value is so far beyond all types that it has too few digits to be differentiated."""
        return value is None or bool(mpmath.isfinite(value) and value != 0 and mpmath.mag(value) > _FAR_BEYOND)

    def _is_kink(self, point: Point, quantity: Quantity) -> bool:
        """Whether a derivative is another one on either side of the point."""
        if len(quantity.wrt) - (bool(quantity.wrt) and quantity.wrt[0] in self._own) == 0:
            return False  # not differentiated at all: as good at a kink as anywhere
        for name in self._inputs:
            step = _NEAR * (abs(point[name]) or 1)
            below, above = (
                self._at({**point, name: mpmath.fadd(point[name], d, exact=True)}, quantity) for d in (-step, step)
            )
            if below is None or above is None or abs(above - below) > _CLOSE * max(abs(above), abs(below), _NEAR):
                return True
        return False


def _is_negative_zero(x: float) -> bool:
    return x == 0 and math.copysign(1, x) < 0


def _below_zero(point: Point) -> dict[str, float | mpf]:
    """The point, with a number just below 0 in place of -0."""
    return {name: -_NEAR if _is_negative_zero(x) else x for name, x in point.items()}


def _is_absolute_value(power: Pow) -> bool:
    """Whether a power is that of an even one, to less than the first: sqrt(x**2)."""
    even = [base for base in Mul.make_args(power.base) if base.is_Pow and base.exp.is_even]
    return bool(power.exp.is_Rational and not power.exp.is_Integer and even)


def _towards(x: float, distance: mpf) -> mpf:
    return mpmath.fmul(mpmath.sign(x), distance, exact=True) if math.isinf(x) else mpf(x)
