"""The error of a computation in mixed ULPs, by the model of `model`, at fixed points against the exact result."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import mpmath
from mpmath import mpf

from gradgen.evaluate import evaluated
from gradgen.graph import Node, topological
from gradgen.model import FORMATS, Point, Program
from gradgen.ulp import LARGEST, MANTISSA, SMALLEST_EXPONENT, mixed_error

_PRECISION = 160  # bits that an exact value is computed with at first
_MORE = (0, 150, 600, 2500)  # bits that are added, until two attempts in turn agree
_AGREE = 80  # bits in which they do
_SHIFT = mpf(2) ** -50  # by how much an input is moved to see what its rounding does

_PEAKS = 2  # points of each result that are looked at more closely, if the error there is
_LARGE = 1.5  # this large,
_MOST_PEAKS = 8  # and of all results together
_NEIGHBOURS = 24
_OFTEN = 16.0  # an error that counts as large where one asks how often it is
_COMPARED = 24  # points at which a form is compared with what it is to equal,
_ORDINARY = 256.0  # of inputs no larger than this,
_SAME = mpf(2) ** -44  # to this relative difference, which a series has
_LEAST_REACH, _MOST_REACH = 2.0**-30, 4.0
_SEVERAL = 120  # points of several inputs
_FARTHEST = 320  # the power of two up to which several inputs go; beyond, mpmath takes long for a sigmoid
_BUDGET = 40_000  # operations of all points together; a formula with very many is looked at in fewer points
_FEWEST = 16
_SCREEN = 7  # of how many points one is looked at first

_EXPONENTS = (
    *(-1060, -1000, -600, -300, -140, -125, -100, -60, -50, -40, -30, -24, -20, -16, -13, -10, -8, -7),
    *(5, 6, 7, 8, 9, 10, 13, 20, 30, 45, 63, 70, 100, 126, 300, 520),
)
# Where exp(-x), exp(-x**2/2) and exp(-x**2) fall below the smallest normal number
_TAILS = {
    "float32": (86.7, 88.3, 88.9, 89.3, 91.9, 97.1, 101.3, 103.6, 13.1, 13.7, 14.3, 9.21, 9.67, 10.13),
    "float64": (703.9, 708.6, 709.9, 710.3, 717.3, 731.2, 743.7, 37.1, 37.9, 38.4, 26.3, 26.9, 27.2),
}
# Of the largest number
_LARGEST_SHARES = (0.3, 0.6, 1.0)
# Functions that take mpmath a while for large arguments
_CAREFUL = frozenset({"bessel_j", "bessel_y", "bessel_i", "polygamma", "digamma", "loggamma", "gamma", "erfinv"})


@dataclass(frozen=True, order=True)
class Worst:
    """The worst of some errors, in mixed ULPs.

    Attributes:
        error: the error.
        at: where it is.
        often: at which share of the points the error is large.
    """

    error: float
    at: tuple[tuple[str, float | bool], ...] = ()
    often: float = 0.0


@dataclass(frozen=True)
class Sample:
    """The exact values of some nodes at a point.

    Attributes:
        exact: the exact value of each node.
        scale: for each node the largest |x * d exact/dx| over the inputs x.
    """

    exact: tuple[mpf, ...]
    scale: tuple[mpf, ...]


class Reference:
    """The exact values of some nodes at fixed points, against which computations of them are measured.

    Args:
        roots: the nodes, equal in exact arithmetic to what is to be measured.
        tensors: the names of the tensor inputs.
        hyper: a value for each hyper-parameter.
        dtype: "float32" or "float64", the type of inputs and results.
        centres: numbers near which a function of one input is looked at more closely.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        tensors: Sequence[str],
        hyper: Mapping[str, float | bool],
        dtype: str,
        centres: Sequence[float] = (),
    ) -> None:
        self.dtype = dtype
        self._roots = roots
        self._order = topological(roots)
        self._tensors = tensors
        self._known: dict[tuple[float | bool, ...], Sample | None] = {}
        magnitude = 5 if any(node.op in _CAREFUL for node in self._order) else 2000
        every = [*points(tensors, hyper, dtype, magnitude), *_beside(centres, tensors, hyper, dtype)]
        most = max(_FEWEST, _BUDGET // len(self._order))
        self._points = every[:: -(-len(every) // most)]
        self._is_thin = len(self._points) < len(every)

    def is_same(self, root: Node, column: int) -> bool:
        """Whether a root equals the reference's node in exact arithmetic, as far as a few points can tell.

        Where the reference is not real, it must not be either.
        """
        ordinary = [point for point in self._points if all(abs(x) <= _ORDINARY for x in point.values())]
        order = topological([root])
        for point in ordinary[:: -(-len(ordinary) // _COMPARED) or 1]:
            sample = self._sample(point)
            with mpmath.workprec(2 * _precision(point)):
                value = _evaluated(order, [root], point)[0]
                exact = sample.exact[column] if sample else self._evaluated(point)[column]
                if mpmath.isnan(exact) and not mpmath.isnan(value):
                    return False
                if sample and not abs(value - exact) <= _SAME * max(abs(exact), sample.scale[column] * _SAME):
                    return False
        return True

    def is_hopeless(self, root: Node, column: int, error: float) -> bool:
        """Whether already a few of the points show an error of a root beyond this one."""
        (errors,) = self._errors([root], [column], False, self._points[::_SCREEN])
        return any(worst.error > error for worst in errors)

    def worst(
        self, roots: Sequence[Node], columns: Sequence[int], wide: bool = False, near: bool = True
    ) -> list[Worst]:
        """The worst error of each root.

        Args:
            roots: nodes as they are printed.
            columns: for each, which of the reference's nodes it is to equal.
            wide: whether the arithmetic between inputs and results is float64.
            near: whether to look more closely near the points at which the error is large, which from then on are
                looked at always.
        """
        found = self._errors(roots, columns, wide, self._points)
        if self._is_thin or not near:
            return [_worst(errors) for errors in found]
        peaks = [bad for errors in found for bad in heapq.nlargest(_PEAKS, errors) if _LARGE < bad.error < math.inf]
        tops = dict.fromkeys(bad.at for bad in heapq.nlargest(_MOST_PEAKS, peaks))
        closer = [point for at in tops for point in self._neighbours(dict(at))]
        self._points += [point for point in closer if tuple(point.values()) not in self._known]
        more = self._errors(roots, columns, wide, closer)
        return [_worst(a + b) for a, b in zip(found, more, strict=True)]

    def reach(self, root: Node, column: int, variable: Node, target: float, wide: bool) -> float:
        """A power of two beyond which, for |variable| of ordinary size, the error of a root stays below the target."""
        (errors,) = self._errors([root], [column], wide, self._points)
        bad = [dict(worst.at) for worst in errors if worst.error > target]
        below = topological([variable])
        size = Program(below, FORMATS["float64"])
        sizes = [abs(size(point, 0)[-1]) for point in bad]
        near = [size for size in sizes if size < _MOST_REACH]
        return math.ldexp(1.0, math.frexp(max(near))[1]) if near else _LEAST_REACH

    def _errors(
        self, roots: Sequence[Node], columns: Sequence[int], wide: bool, at: Sequence[Point]
    ) -> list[list[Worst]]:
        order = topological(roots)
        places = [order.index(root) for root in roots]
        program, rounded = Program(order, FORMATS["wide" if wide else self.dtype]), FORMATS[self.dtype].rounded
        found: list[list[Worst]] = [[] for _ in roots]
        for turn, point in enumerate(at):
            sample = self._sample(point)
            if sample is None:
                continue
            values = program(point, turn)
            for errors, place, column in zip(found, places, columns, strict=True):
                computed = rounded(values[place])
                error = mixed_error(computed, sample.exact[column], sample.scale[column], self.dtype)
                errors.append(Worst(error, tuple(point.items())))
        return found

    def _sample(self, point: Point) -> Sample | None:
        key = tuple(point.values())
        if key not in self._known:
            exact = self._exact(point)
            self._known[key] = Sample(exact, self._scale(point, exact)) if exact else None
        return self._known[key]

    def _neighbours(self, point: Point) -> Iterator[Point]:
        randoms = random.Random(1)
        rounded = FORMATS[self.dtype].rounded
        for k in range(_NEIGHBOURS):
            reach = 0.15 if k % 2 else 0.01
            moved = {name: rounded(point[name] * (1 + randoms.uniform(-reach, reach))) for name in self._tensors}
            yield {**point, **moved}

    def _exact(self, point: Point) -> tuple[mpf, ...] | None:
        """The values on which two precisions agree; None where none do, or where one is not real.

        1 + x, x an input or a power of one, must not be rounded to 1 or to x: the farther the inputs are from 1, the
        more bits. A value of 0 may be what is left of a cancellation, and is believed last.
        """
        first = _precision(point)
        previous: tuple[mpf, ...] | None = None
        for attempt, more in enumerate(_MORE):
            with mpmath.workprec(first + more):
                values = self._evaluated(point)
            if not all(map(mpmath.isfinite, values)):
                return None
            if previous and all(map(_agree, previous, values)) and (all(values) or attempt == len(_MORE) - 1):
                return values
            previous = values
        return None

    def _scale(self, point: Point, exact: tuple[mpf, ...]) -> tuple[mpf, ...]:
        """For each node the largest |x * d exact/dx| over the inputs x, by a one-sided difference."""
        scale = [mpf(0)] * len(exact)
        with mpmath.workprec(_precision(point)):
            for name in self._tensors:
                shift = _SHIFT / max(1, abs(mpf(point[name])))
                moved = self._evaluated({**point, name: mpf(point[name]) * (1 + shift)})
                for k, (a, b) in enumerate(zip(exact, moved, strict=True)):
                    scale[k] = max(scale[k], abs(b - a) / shift) if mpmath.isfinite(b) else scale[k]
        return tuple(scale)

    def _evaluated(self, point: Point) -> tuple[mpf, ...]:
        return _evaluated(self._order, self._roots, point)


def _evaluated(order: Sequence[Node], roots: Sequence[Node], point: Point) -> tuple[mpf, ...]:
    lifted = {name: value if isinstance(value, bool) else mpf(value) for name, value in point.items()}
    values: dict[Node, object] = {}
    for node in order:
        args = [values[arg] for arg in node.args]
        values[node] = True if node.op == "given" else evaluated(node, args, lifted)
    return tuple(values[root] for root in roots)


def _worst(errors: Sequence[Worst]) -> Worst:
    if not errors:
        return Worst(0.0)
    often = sum(entry.error > _OFTEN for entry in errors) / len(errors)
    return replace(max(errors), often=often)


def _precision(point: Point) -> int:
    """Bits to begin with: the farther the inputs are from 1, the more."""
    return _PRECISION + 3 * max(abs(math.frexp(value)[1]) for value in point.values())


def _agree(a: mpf, b: mpf) -> bool:
    return bool(abs(a - b) <= abs(b) * mpf(2) ** -_AGREE)


def _beside(
    centres: Sequence[float], tensors: Sequence[str], hyper: Mapping[str, float | bool], dtype: str
) -> Iterator[Point]:
    """Numbers closer and closer to the centres."""
    if len(tensors) == 1:
        for centre in centres:
            for k in range(1, 24):
                for side in (1, -1):
                    x = FORMATS[dtype].rounded(centre + side * max(1.0, abs(centre)) * 1.3 * 2.0**-k)
                    yield {tensors[0]: x, **hyper}


def infinite(tensors: Sequence[str]) -> Iterator[dict[str, float]]:
    """Infinite inputs: one of them, and the first two."""
    ordinary = {name: 0.75 + k / 2 for k, name in enumerate(tensors)}
    for name in tensors:
        for value in (math.inf, -math.inf):
            yield {**ordinary, name: value}
    if len(tensors) > 1:
        for signs in itertools.product((1, -1), repeat=2):
            yield {**ordinary, **{name: sign * math.inf for name, sign in zip(tensors, signs, strict=False)}}


def points(tensors: Sequence[str], hyper: Mapping[str, float | bool], dtype: str, magnitude: int) -> Iterator[Point]:
    """Numbers of the type of every exponent up to 2**magnitude: most of ordinary size, some small, some large.

    Several inputs are drawn independently, now and then close to one another.
    """
    randoms = random.Random(0)
    rounded = FORMATS[dtype].rounded
    ordinary = [math.ldexp(1 + (k % 4 + randoms.random()) / 4, k // 4) for k in range(-24, 20)]
    least = SMALLEST_EXPONENT[dtype] - MANTISSA[dtype] + 1
    spread = [e for e in _EXPONENTS if e <= magnitude and least <= e < -SMALLEST_EXPONENT[dtype]]
    wide = [math.ldexp(1 + randoms.random(), e) for e in spread] + [*_TAILS[dtype]]
    wide += [share * LARGEST[dtype] for share in _LARGEST_SHARES if -SMALLEST_EXPONENT[dtype] <= magnitude]
    singles = [sign * rounded(x) for x in [*ordinary, *wide] for sign in (1, -1)]
    if len(tensors) == 1:
        yield from ({tensors[0]: x, **hyper} for x in singles)
        return
    spread = [exponent for exponent in spread if abs(exponent) <= _FARTHEST]
    singles = [x for x in singles if abs(math.frexp(x)[1]) <= _FARTHEST]
    for k in range(_SEVERAL):
        drawn = {name: randoms.choice(singles[: 2 * len(ordinary)] if k % 4 else singles) for name in tensors}
        drawn = {name: rounded(x * (1 + randoms.random() / 8)) for name, x in drawn.items()}
        if k % 8 == 1:  # all of one magnitude, however large or small
            exponent = randoms.choice(spread)
            drawn = {
                name: rounded(math.ldexp(randoms.uniform(1, 2), exponent) * randoms.choice([1, -1])) for name in tensors
            }
        if k % 5 == 0:
            first, second = randoms.sample(list(tensors), 2)
            drawn[second] = rounded(drawn[first] * randoms.choice([1, -1]) * (1 + randoms.random() / 64))
        yield {**drawn, **hyper}
