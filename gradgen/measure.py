"""The error of a computation in mixed ULPs, by the model of `model`, at fixed points against the exact result."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import mpmath
from mpmath import mpf

from gradgen import points
from gradgen.evaluate import evaluated
from gradgen.graph import Node, inputs_of, topological
from gradgen.model import FORMATS, Point, Program
from gradgen.ulp import MANTISSA, SMALLEST_EXPONENT, mixed_error

_PRECISION = 160  # bits that an exact value is computed with at first
_MORE = (0, 150, 600, 2500)  # bits that are added, until two attempts in turn agree
_AGREE = 80  # bits in which they do
_SHIFT = mpf(2) ** -50  # by how much an input is moved to see what its rounding does

_PEAKS = 2  # points of each result that are looked at more closely, if the error there is
_LARGE = 1.5  # this large,
_MOST_PEAKS = 8  # and of all results together
_NEIGHBOURS = 24
_CLOSE_NEIGHBOURS = 200
_CLOSE = 0.25  # how much the result may differ from that at the peak
_EXTREME = 30  # the power of two from which on an input, or its reciprocal, is no ordinary one
_OFTEN = 16.0  # an error that counts as large where one asks how often it is
_COMPARED = 24  # points at which a form is compared with what it is to equal,
_ORDINARY = 256.0  # of inputs no larger than this,
_SAME = mpf(2) ** -44  # to this relative difference, which a series has
_NOTHING = mpf(2) ** -1100  # what is smaller is 0 in every type
_LEAST_REACH, _MOST_REACH = 2.0**-30, 4.0
_BUDGET = 40_000  # operations of all points together; a formula with very many is looked at in fewer points
_FEWEST = 16
_SCREEN = 7  # of how many points one is looked at first

# Functions that take mpmath a while for large arguments
_CAREFUL = frozenset({"bessel_j", "bessel_y", "bessel_i", "polygamma", "digamma", "loggamma", "gamma", "erfinv"})


@dataclass(frozen=True, order=True)
class Worst:
    """The worst of some errors, in mixed ULPs.

    Attributes:
        error: the error.
        at: where it is.
        often: at which share of the points the error is large.
        ordinary: the worst error where neither inputs nor result are extreme.
        sides: the worst errors where the first input is negative, and where it is not.
    """

    error: float
    at: tuple[tuple[str, float | bool], ...] = ()
    often: float = 0.0
    ordinary: float = 0.0
    sides: tuple[float, float] = (0.0, 0.0)


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
        slow = [node for node in self._order if node.op in _CAREFUL]
        magnitude = 2000 if set(inputs_of(slow)).isdisjoint(tensors) else 5
        at: list[Point]
        if len(tensors) == 1:
            every = [*points.of_one(dtype, magnitude), *points.beside(centres, dtype), *self._edges(hyper, magnitude)]
            at = [{tensors[0]: x, **hyper} for x in every]
        else:
            at = [{**point, **hyper} for point in points.of_several(tensors, dtype, magnitude)]
        most = max(_FEWEST, _BUDGET // len(self._order))
        self._drawn = at[:: -(-len(at) // most)]
        self._is_thin = len(self._drawn) < len(at)
        self._points = self._defined(self._drawn)
        self._base = len(self._points)
        self._errors_of: dict[tuple[Node, int, bool], list[Worst]] = {}

    def look_at(self, more: Sequence[Point]) -> None:
        """From now on look at these points, too."""
        if not self._is_thin:
            rounded = FORMATS[self.dtype].rounded
            at = [{**point, **{name: rounded(point[name]) for name in self._tensors}} for point in more]
            self._add(at)

    def _add(self, at: Iterable[Point]) -> None:
        """From now on look at those of the points that are new."""
        self._points += self._defined(point for point in at if tuple(point.values()) not in self._known)

    def _defined(self, at: Iterable[Point]) -> list[Point]:
        """Those of the points at which the nodes are numbers."""
        return [point for point in at if self._sample(point) is not None]

    def _edges(self, hyper: Mapping[str, float | bool], magnitude: int) -> list[float]:
        """Inputs near which a node overflows or vanishes."""
        (name,) = self._tensors
        program = Program(self._order, FORMATS["float64"])
        places = [self._order.index(root) for root in self._roots]

        def sizes(x: float) -> list[float]:
            values = program({name: x, **hyper}, 0)
            return [abs(values[place]) for place in places]

        return list(points.edges(sizes, self.dtype, magnitude))

    def exact(self, column: int, point: Point) -> mpf | None:
        """The exact value of a node at a point; None where one of the nodes is not real, or cannot be had."""
        values = self._exact(point)
        return values[column] if values else None

    def is_same(self, root: Node, column: int) -> bool:
        """Whether a root equals the reference's node in exact arithmetic, as far as a few points can tell.

        Where the reference is not real, it must not be either.
        """
        ordinary = [point for point in self._drawn if all(abs(x) <= _ORDINARY for x in point.values())]
        order = topological([root])
        for point in ordinary[:: -(-len(ordinary) // _COMPARED) or 1]:
            sample = self._sample(point)
            with mpmath.workprec(2 * _precision(point)):
                value = _evaluated(order, [root], point)[0]
                exact = sample.exact[column] if sample else self._evaluated(point)[column]
                if mpmath.isnan(exact) and not mpmath.isnan(value):
                    return False
                if max(abs(value), abs(exact)) < _NOTHING:
                    continue
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
        found = self._every(roots, columns, wide)
        often = [_often(errors[: self._base]) for errors in found]  # what was added near peaks does not count
        if not self._is_thin and near:
            peaks = [bad for errors in found for bad in heapq.nlargest(_PEAKS, errors) if _LARGE < bad.error < math.inf]
            tops = [dict(at) for at in dict.fromkeys(bad.at for bad in heapq.nlargest(_MOST_PEAKS, peaks))]
            closer = [point for top in tops for point in self._neighbours(top, _NEIGHBOURS)]
            self._add(closer)
            found = self._every(roots, columns, wide)
            if self.dtype == "float32" and not wide:
                close = self._close_errors(roots, columns, tops)
                found = [a + b for a, b in zip(found, close, strict=True)]
        return [replace(_worst(errors), often=share) for errors, share in zip(found, often, strict=True)]

    def _every(self, roots: Sequence[Node], columns: Sequence[int], wide: bool) -> list[list[Worst]]:
        """The errors of each root at all points; what is known from before is not computed again."""
        keys = [(root, column, wide) for root, column in zip(roots, columns, strict=True)]
        known = [self._errors_of.setdefault(key, []) for key in keys]
        for start in {len(errors) for errors in known}:
            which = [k for k, errors in enumerate(known) if len(errors) == start]
            at = self._points[start:]
            new = self._errors([roots[k] for k in which], [columns[k] for k in which], wide, at, start)
            for k, more in zip(which, new, strict=True):
                known[k] += more
        return known

    def _close_errors(self, roots: Sequence[Node], columns: Sequence[int], peaks: Sequence[Point]) -> list[list[Worst]]:
        """Errors at very many points near some peaks, where float64 arithmetic is taken for exact."""
        order = topological(roots)
        places = [order.index(root) for root in roots]
        narrow, wide = Program(order, FORMATS["float32"]), Program(order, FORMATS["wide"])
        found: list[list[Worst]] = [[] for _ in roots]
        for peak in peaks:
            sample = self._sample(peak)
            if sample is None:
                continue
            for turn, point in enumerate(self._neighbours(peak, _CLOSE_NEIGHBOURS)):
                values, exact = narrow(point, turn), wide(point, 0)
                for errors, place, column in zip(found, places, columns, strict=True):
                    right = exact[place]
                    if abs(right - sample.exact[column]) > _CLOSE * abs(right):  # the peak tells nothing of this point
                        continue
                    error = mixed_error(values[place], mpf(right), sample.scale[column], self.dtype)
                    errors.append(Worst(error, tuple(point.items())))
        return found

    def reach(self, root: Node, column: int, variable: Node, target: float, wide: bool) -> float:
        """A power of two beyond which, for |variable| of ordinary size, the error of a root stays below the target."""
        (errors,) = self._every([root], [column], wide)
        bad = [dict(worst.at) for worst in errors if worst.error > target]
        below = topological([variable])
        size = Program(below, FORMATS["float64"])
        sizes = [abs(size(point, 0)[-1]) for point in bad]
        near = [size for size in sizes if size < _MOST_REACH]
        return math.ldexp(1.0, math.frexp(max(near))[1]) if near else _LEAST_REACH

    def _errors(
        self, roots: Sequence[Node], columns: Sequence[int], wide: bool, at: Sequence[Point], first: int = 0
    ) -> list[list[Worst]]:
        """The errors at some points, the number of the first of which is given, that functions err to varied sides."""
        order = topological(roots)
        places = [order.index(root) for root in roots]
        program, rounded = Program(order, FORMATS["wide" if wide else self.dtype]), FORMATS[self.dtype].rounded
        found: list[list[Worst]] = [[] for _ in roots]
        for turn, point in enumerate(at, first):
            sample = self._sample(point)
            assert sample is not None
            values = program(point, turn)
            inside = all(2.0**-_EXTREME < abs(point[name]) < 2.0**_EXTREME for name in self._tensors)
            for errors, place, column in zip(found, places, columns, strict=True):
                computed = rounded(values[place])
                error = mixed_error(computed, sample.exact[column], sample.scale[column], self.dtype)
                is_ordinary = inside and self._is_ordinary(sample.exact[column])
                sides = (0.0, error) if point[self._tensors[0]] >= 0 else (error, 0.0)
                errors.append(Worst(error, tuple(point.items()), 0.0, error if is_ordinary else 0.0, sides))
        return found

    def _is_ordinary(self, exact: mpf) -> bool:
        """Whether a result is well inside the range of the type."""
        return bool(exact == 0 or abs(mpmath.mag(exact)) < -SMALLEST_EXPONENT[self.dtype] - MANTISSA[self.dtype])

    def _sample(self, point: Point) -> Sample | None:
        key = tuple(point.values())
        if key not in self._known:
            exact = self._exact(point)
            self._known[key] = Sample(exact, self._scale(point, exact)) if exact else None
        return self._known[key]

    def _neighbours(self, point: Point, count: int) -> Iterator[Point]:
        randoms = random.Random(1)
        rounded = FORMATS[self.dtype].rounded
        for k in range(count):
            reach = 0.15 if k % 2 else 0.01
            moved = {name: rounded(point[name] * (1 + randoms.uniform(-reach, reach))) for name in self._tensors}
            if all(map(math.isfinite, moved.values())):
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


def _often(errors: Sequence[Worst]) -> float:
    return sum(entry.error > _OFTEN for entry in errors) / max(len(errors), 1)


def _worst(errors: Sequence[Worst]) -> Worst:
    if not errors:
        return Worst(0.0)
    below, above = (max(side) for side in zip(*(entry.sides for entry in errors), strict=True))
    ordinary = max(entry.ordinary for entry in errors)
    return replace(max(errors), ordinary=ordinary, sides=(below, above))


def _precision(point: Point) -> int:
    """Bits to begin with: the farther the inputs are from 1, the more."""
    return _PRECISION + 3 * max(abs(int(mpmath.mag(value))) if value else 0 for value in point.values())


def _agree(a: mpf, b: mpf) -> bool:
    return bool(abs(a - b) <= abs(b) * mpf(2) ** -_AGREE)
