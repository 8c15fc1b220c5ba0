"""The exact values of nodes at points, in as many bits as it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mpf

from gradgen import mpfr
from gradgen.graph import Node, topological
from gradgen.model import Point

_PRECISION = 160  # bits that an exact value is computed with at first
_MORE = (0, 150, 600, 2500, 10_000)  # bits that are added, until two attempts agree; the last where it takes no time
_AGREE = 80  # bits in which they do
_ZERO = 3  # the first attempt that a result of 0 is believed at
_SHIFT = mpf(2) ** -50  # by how much an input is moved to see what its rounding does
HIDDEN = -1100  # what has a smaller exponent is 0 in every type


@dataclass(frozen=True)
class Settled:
    """The exact values of some nodes, and how many bits show their first `_AGREE` ones."""

    found: mpfr.Evaluation
    bits: int

    @property
    def values(self) -> tuple[mpf, ...]:
        return self.found.values


class Values:
    """The exact values of some nodes, each point's found once.

    Attributes:
        program: what computes them.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        self.program = mpfr.Program(topological(roots), roots)
        self._known: dict[tuple[float | bool | mpf, ...], Settled | None] = {}

    def __call__(self, point: Point) -> Settled | None:
        """The values at a point; None where one is not real, or cannot be had."""
        key = tuple(point.values())
        if key not in self._known:
            self._known[key] = self.at(point)
        return self._known[key]

    def at(self, point: Point) -> Settled | None:
        """The values at a point as it is called, found anew: those on which two precisions agree.

        1 + x, x an input or a power of one, must not be rounded to 1 or to x: the farther the inputs are from 1, the
        more bits. So with the powers of x in sqrt(1 + x), and each attempt has room for two more of them. What is left
        of a cancellation of nearly all bits may lack what was too small in both attempts, and is believed last; where
        more bits take long, only what is 0 is. A 0 is none where a summand that was too small may be left in its place.
        """
        is_laborious = self.program.is_laborious
        bits = 0
        previous: mpfr.Evaluation | None = None
        is_in_vain = any(abs(value) > _MORE[-1] for value in point.values())  # exp(-value) would still be too small
        attempts = len(_MORE) - (is_laborious or is_in_vain)
        for attempt in range(attempts):
            before, bits = bits, precision_of(point, attempt)
            with mpmath.workprec(bits):
                found = self.program.at(point)
                if not found.is_finite:
                    return None
                if previous is not None:
                    is_last, has_zeros = attempt == attempts - 1, not all(found.found)
                    agree = found.agrees(previous, _AGREE) and (
                        is_last
                        or (
                            (not has_zeros or attempt >= _ZERO)
                            and (is_laborious or not (lacks(found, bits) and lacks(previous, before)))
                        )
                    )
                    is_nothing = is_last and not agree and found.agrees(previous, _AGREE, HIDDEN)
                    if (agree or is_nothing) and (not has_zeros or found.hidden < HIDDEN):
                        # What is left of 0 by rounding is less in more bits
                        return Settled(found, bits if is_nothing else before)
            previous = found
        return None

    def scales(self, point: Point, settled: Settled, names: Sequence[str]) -> tuple[mpf, ...]:
        """For each node the largest |x * d exact/dx| over some inputs x, by a one-sided difference."""
        with mpmath.workprec(settled.bits):
            return self.program.slopes(point, settled.found, names, _SHIFT)


class ExactValues:
    """The exact values of some nodes, of one at a time.

    Attributes:
        values: those of all of them.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        self.values = Values(roots)
        self._roots = roots
        self._alone: dict[int, Values] = {}

    def __call__(self, column: int, point: Point) -> mpf | None:
        """The exact value of a node at a point; None where it is not real, or cannot be had.

        Nor where another node is not real, unless what they are made of takes long.
        """
        if self.values.program.is_laborious:
            found = self.alone(column)(point)
            return found.values[0] if found else None
        found = self.values(point)
        return found.values[column] if found else None

    def alone(self, column: int) -> Values:
        """Those of one node by itself."""
        if column not in self._alone:
            self._alone[column] = Values([self._roots[column]])
        return self._alone[column]


def precision_of(point: Point, attempt: int = 0) -> int:
    """The bits of an attempt: the farther the inputs are from 1, the more."""
    farthest = max(abs(int(mpmath.mag(value))) if 0 < abs(value) < math.inf else 0 for value in point.values())
    return _PRECISION + _MORE[attempt] + (3 + 2 * attempt) * farthest


def lacks(found: mpfr.Evaluation, bits: int) -> bool:
    """Whether of what was found in so many bits too few may be left."""
    return found.bits_lost > bits - _AGREE
