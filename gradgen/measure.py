"""The error of a computation in mixed ULPs, by the model of `model`, at fixed points against the exact result."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import mpmath
import numpy as np
from mpmath import mpf

from gradgen import mpfr, points
from gradgen.dense import Dense
from gradgen.graph import Node, inputs_of, topological
from gradgen.model import FORMATS, Array, Point, is_quick, program
from gradgen.settled import HIDDEN, ExactValues, lacks, precision_of
from gradgen.tuples import Tuples
from gradgen.ulp import LARGEST, MANTISSA, SMALLEST_EXPONENT, Right
from gradgen.variables import Change
from gradgen.worst import Place, Worst

_PEAKS = 2  # points of each result that are looked at more closely, if the error there is
_LARGE = 1.5  # this large,
_LARGE_SUBNORMAL = 1000.0  # an error that counts where the result is a subnormal number, too
_MUCH_WORSE = 16.0  # times the error of another form
_UNFAIR = 1000.0  # errors from which on it counts how often they are,
_MOST_PEAKS = 8  # and of all results together,
_MOST_MORE = 1000  # until so many points have been added
_NEIGHBOURS = 24
_CLOSE_NEIGHBOURS, _MANY_NEIGHBOURS = 200, 1024  # with functions that take long, and without
_NEAR, _CLOSER = 0.15, 1 / 15  # how near to a peak its neighbours are, and what share of that for every other one
_CLOSE = 0.25  # how much the result may differ from that at the peak
_COMPARED = 24  # points at which a form is compared with what it is to equal,
_FEW_COMPARED, _PRODUCTS = 3, (0.7, -2.5, 37.0)  # where a product with another input is so much
_IN_KINKS = 3  # and how many of them are moved to where two branches meet
_ORDINARY = 256.0  # of inputs no larger than this,
_SAME = mpf(2) ** -44  # to this relative difference, which a series has
_BESIDE = 2.0**-20  # how far from a point it is looked whether the formula is real there
_TINY = 2.0**-100  # an input at which a function is what it tends to at 0
_NOTHING = mpf(2) ** HIDDEN
LEAST_REACH, _MOST_REACH = 2.0**-30, 4.0
_SWITCHES = tuple(2.0**power for power in range(-6, 7))  # where one form may take over from another
_JUST_BEYOND, _BELOW_EDGE = 1 + 2.0**-9, (0.998, 0.9996)  # an edge; shares of it
_ASKED = 4  # points at which a result seems lost where mpmath is asked whether it is
_BUDGET = 40_000  # operations of all points together; a formula with very many is looked at in fewer points
_FEWEST = 16
_VANISHING, _FEW = 2.0**-130, 24  # inputs below this, and of how many one is looked at with functions that take long
# Powers of two: the least of the sizes of inputs that are neither small nor large (GG_LEAST in C, the same in CUDA),
# and those one of which is the largest: beyond the second exponentials may vanish, beyond the last those of squares, or
# powers of others. Float32 has the last with these functions alone: of others more roundings meet than are looked for.
LEAST_MODERATE = -40
MODERATE, MODERATE_LEAST = (40, 6), 3
GAUSSIAN = frozenset({"erfc", "ndtr", "dgelu"})
_SCREEN = 7  # of how many points one is looked at first

# Functions that take mpmath a while, and as many times as long as others for ordinary arguments
_CAREFUL = {
    "bessel_j": 20,
    "bessel_y": 40,
    "bessel_i": 60,
    "bessel_ie": 60,
    "polygamma": 80,
    "digamma": 30,
    "loggamma": 40,
    "gamma": 15,
    "erfinv": 40,
}


_SLOW_FAR_OUT = _CAREFUL.keys() - {"bessel_i", "bessel_ie"}  # those that take longer for large ones


@dataclass(frozen=True)
class Sample:
    """The exact values of some nodes at a point.

    Attributes:
        exact: the exact value of each node.
        scale: for each node the largest |x * d exact/dx| over the inputs x.
    """

    exact: tuple[mpf, ...]
    scale: tuple[mpf, ...]


class _Facts:
    """What is known of some points.

    Attributes:
        right: for each of the nodes the exact results.
        ordinary: for each of them at which points neither inputs nor result are extreme.
        normal: for each of them at which points the result is no subnormal number.
        above: at which points the first input is not negative.
        default: at which points the hyper-parameters have their defaults.
    """

    def __init__(self, count: int, tensors: Sequence[str], hyper: Mapping[str, float | bool], dtype: str) -> None:
        self._tensors, self._hyper, self._dtype = tensors, hyper, dtype
        self.right = [Right([], [], dtype) for _ in range(count)]
        self.ordinary = np.zeros((count, 0), bool)
        self.normal = np.zeros((count, 0), bool)
        self.above = np.zeros(0, bool)
        self.default = np.zeros(0, bool)

    def extend(self, at: Sequence[Point], samples: Sequence[Sample]) -> None:
        """Append points with the exact values there."""
        extreme = 2.0**points.EXTREME
        inside = [all(1 / extreme < abs(point[x]) < extreme for x in self._tensors) for point in at]
        for column, right in enumerate(self.right):
            exact, scale = [sample.exact[column] for sample in samples], [sample.scale[column] for sample in samples]
            right.extend(Right(exact, scale, self._dtype))
        ordinary = [
            [
                is_inside and self._is_ordinary(sample.exact[column])
                for is_inside, sample in zip(inside, samples, strict=True)
            ]
            for column in range(len(self.right))
        ]
        self.ordinary = np.concatenate([self.ordinary, np.array(ordinary, bool).reshape(len(self.right), -1)], axis=1)
        least = SMALLEST_EXPONENT[self._dtype]
        normal = [[mpmath.mag(sample.exact[column]) > least for sample in samples] for column in range(len(self.right))]
        self.normal = np.concatenate([self.normal, np.array(normal, bool).reshape(len(self.right), -1)], axis=1)
        above = [point[self._tensors[0]] >= 0 for point in at]
        self.above = np.concatenate([self.above, np.array(above, bool)])
        self.default = np.concatenate([self.default, np.array([self.is_default(point) for point in at], bool)])

    def is_default(self, point: Point) -> bool:
        """Whether the hyper-parameters of a point have their defaults."""
        return all(point[name] == value for name, value in self._hyper.items())

    def _is_ordinary(self, exact: mpf) -> bool:
        """Whether a result is well inside the range of the type."""
        return bool(exact == 0 or abs(mpmath.mag(exact)) < -SMALLEST_EXPONENT[self._dtype] - MANTISSA[self._dtype])


class Reference:
    """The exact values of some nodes at fixed points, against which computations of them are measured.

    Args:
        roots: the nodes, equal in exact arithmetic to what is to be measured.
        tensors: the names of the tensor inputs.
        hyper: a value for each hyper-parameter, its default; others beside them are looked at, too.
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
        self._exact = ExactValues(roots)
        self._values = self._exact.values
        self._tensors = tensors
        self._known: dict[tuple[float | bool, ...], Sample | None] = {}
        slow = [node for node in self._order if node.op in _SLOW_FAR_OUT]
        magnitude = 2000 if set(inputs_of(slow)).isdisjoint(tensors) else 5
        self._hypers = points.hyper_parameters(hyper, dtype)
        if len(tensors) == 1:
            every = [*points.of_one(dtype, magnitude), *points.beside(centres, dtype), *self._edges(hyper, magnitude)]
            drawn = [{tensors[0]: x} for x in every]
        else:
            drawn = [*points.of_several(tensors, dtype, magnitude)]
        at: list[Point] = [{**point, **hyper} for point in drawn]
        at += [{**point, **near} for near in self._hypers[1:] for point in points.some(drawn, dtype)]
        if slow:  # the farther an input is from 1, the more digits the exact value takes
            at = [point for k, point in enumerate(at) if k % _FEW == 0 or not self._is_vanishing(point)]
        most = max(_FEWEST, _BUDGET // sum(_CAREFUL.get(node.op, 1) for node in self._order))
        self._drawn = at[:: -(-len(at) // most)]
        self._is_thin = len(self._drawn) < len(at)
        self._tuples = Tuples(tensors, self._hypers[0])
        self._points: list[Point] = []
        self._facts = _Facts(len(roots), tensors, hyper, dtype)
        self._errors_of: dict[tuple[Node, int, str], Array] = {}
        self._dense: list[Dense] = []
        if len(tensors) == 1:
            self.look_densely()
        self._add(self._drawn)
        self._base = len(self._points)

    def _is_vanishing(self, point: Point) -> bool:
        return any(abs(point[name]) < _VANISHING for name in self._tensors)

    def look_densely(self) -> None:
        """From now on look at very many inputs, too, of forms whose functions are quick to compute."""
        self._dense = [Dense(self.dtype, self._tensors, near, self._facts.is_default(near)) for near in self._hypers]

    def look_at(self, more: Sequence[Point]) -> None:
        """From now on look at these points, too."""
        rounded = FORMATS[self.dtype].rounded
        self._add({**point, **{name: rounded(point[name]) for name in self._tensors}} for point in more)

    def _add(self, at: Iterable[Point]) -> None:
        """From now on look at those of the points that are new, if the nodes are numbers there."""
        new = {tuple(point.values()): point for point in at if tuple(point.values()) not in self._known}
        samples = {key: sample for key, point in new.items() if (sample := self._sample(point)) is not None}
        self._points += [new[key] for key in samples]
        self._facts.extend([new[key] for key in samples], list(samples.values()))

    def _edges(self, hyper: Mapping[str, float | bool], magnitude: int) -> list[float]:
        """Inputs near which a node overflows or vanishes."""
        (name,) = self._tensors
        sizes = points.sizes(program(tuple(self._roots), "float64"), name, hyper)
        found = list(points.edges(sizes, self.dtype, magnitude))
        return [*found, *self._later_edges(found, sizes, hyper)]

    def _later_edges(
        self,
        edges: Sequence[float],
        sizes: points.Sizes,
        hyper: Mapping[str, float | bool],
    ) -> Iterator[float]:
        """Inputs near which a node overflows, of those where what it is made of does so before."""
        (name,) = self._tensors
        largest = LARGEST[self.dtype]

        def is_computed(column: int, sign: int, x: float) -> bool:
            return bool(sizes([sign * x], [0])[column][0] < largest)

        def is_below(column: int, sign: int, x: float) -> bool:
            value = self.exact(column, {name: sign * x, **hyper})
            return value is not None and abs(value) < largest

        for column, sign in itertools.product(range(len(self._roots)), (1, -1)):
            sides = [sign * x for x in edges if sign * x > 0]
            low = max((x for x in sides if is_computed(column, sign, x)), default=math.inf)
            high = min((x for x in sides if x > low), default=math.inf)
            if high == math.inf:
                continue
            start = _JUST_BEYOND * points.last(partial(is_computed, column, sign), low, high)
            if is_below(column, sign, start) and not is_below(column, sign, 2 * start):
                edge = points.last(partial(is_below, column, sign), start, 2 * start)
                yield from (FORMATS[self.dtype].rounded(sign * edge * share) for share in _BELOW_EDGE)

    def exact(self, column: int, point: Point) -> mpf | None:
        """The exact value of a node at a point; None where it is not real, or cannot be had."""
        return self._exact(column, point)

    def is_same(self, root: Node, column: int) -> bool:
        """Whether a root equals the reference's node in exact arithmetic, as far as a few points can tell.

        Where the reference is not real, it must not be either; where it is 0/0 it may be anything.
        """
        ordinary = [point for point in self._drawn if all(abs(x) <= _ORDINARY for x in point.values())]
        exactly = mpfr.Program(topological([root]), [root])
        for point in ordinary[:: -(-len(ordinary) // _COMPARED) or 1]:
            sample = self._sample(point)
            for factor in (2, 8) if not exactly.is_laborious else (2,):
                bits = factor * precision_of(point)
                with mpmath.workprec(bits):
                    found = exactly.at(point)
                if not lacks(found, bits):
                    break
            (value,) = found.values
            with mpmath.workprec(bits):
                exact = sample.exact[column] if sample else self._evaluated(point)[column]
                if mpmath.isnan(exact) and not mpmath.isnan(value) and not self._is_real_beside(point, column):
                    return False
                if max(abs(value), abs(exact)) < _NOTHING:
                    continue
                if sample and not abs(value - exact) <= _SAME * max(abs(exact), sample.scale[column] * _SAME):
                    return False
        return all(self._is_same_in(exactly, column, point) for point in self._in_kinks(ordinary))

    def _in_kinks(self, ordinary: Sequence[Point]) -> Iterator[Point]:
        """Points where an absolute value or a selection may have its kink: an input is 0, or as another one."""
        some = ordinary[:: -(-len(ordinary) // _IN_KINKS) or 1]
        for point, name in itertools.product(some, self._tensors):
            yield {**point, name: 0.0}
            yield from ({**point, name: point[other]} for other in self._tensors if other > name)

    def _is_same_in(self, exactly: mpfr.Program, column: int, point: Point) -> bool:
        """Whether what is computed at a point is what the reference's node is there, if both are finite.

        The derivative of a form with a selection may there be one of neither branch. What has no digits tells nothing,
        so what other nodes lose is not asked.
        """
        for bits in (factor * precision_of(point) for factor in (1, 2, 8)):
            with mpmath.workprec(bits):
                found, right = (program.at(point) for program in (exactly, self._exact.alone(column).program))
                (value,), (exact,) = found.values, right.values
                if not (mpmath.isfinite(value) and mpmath.isfinite(exact)):
                    return True
                if not (lacks(found, bits) or lacks(right, bits)):
                    return bool(abs(value - exact) <= _SAME * max(1, abs(exact)))
        return True

    def _is_real_beside(self, point: Point, column: int) -> bool:
        """Whether a node is real where one of the inputs is a little more or less."""
        beside = (
            {**point, name: point[name] + sign * (abs(point[name]) or 1.0) * _BESIDE}
            for name in self._tensors
            for sign in (1, -1)
        )
        return any(not mpmath.isnan(self._evaluated(other)[column]) for other in beside)

    def is_limit_at_zero(self, root: Node, column: int) -> bool:
        """Whether a root is, where the only input is 0, what the reference's node tends to from either side."""
        (name,) = self._tensors
        exactly = mpfr.Program(topological([root]), [root])
        points = [{**self._hypers[0], name: place} for place in (0.0, -_TINY, _TINY)]
        (value,) = exactly(points[0])
        beside = [self.exact(column, point) for point in points[1:]]
        return all(exact is not None and abs(value - exact) <= _SAME * max(1, abs(exact)) for exact in beside)

    def is_hopeless(self, root: Node, column: int, error: float) -> bool:
        """Whether already a few of the points show an error of a root beyond this one; no small one of a subnormal."""
        which = slice(None, None, _SCREEN)
        (errors,) = self._errors([root], [column], self.dtype, which)
        counts = self._facts.normal[column][which] | (errors > _LARGE_SUBNORMAL)
        return bool((counts & (errors > error)).any())

    def worst(
        self, roots: Sequence[Node], columns: Sequence[int], arithmetic: str = "", near: bool = True
    ) -> list[Worst]:
        """The worst error of each root.

        Args:
            roots: nodes as they are printed.
            columns: for each, which of the reference's nodes it is to equal.
            arithmetic: that between inputs and results, one of `FORMATS`; by default of their type.
            near: whether to look more closely near the points at which the error is large, which from then on are
                looked at always.
        """
        form = arithmetic or self.dtype
        is_own = form == self.dtype
        found = self._every(roots, columns, form)
        close: list[Worst] = [Worst(0.0)] * len(roots)
        order = topological(roots)
        is_dense = near and is_own and self._has_dense(order)
        if not self._is_thin and near:
            if self.dtype == "float32" and len(self._tensors) > 1 and is_own and is_quick(order):
                self._add(self._tuples.suspects(roots))
                found = self._every(roots, columns, form)
            has_more = self.dtype == "float32" and is_dense and len(self._tensors) == 1  # near a peak, `Dense`
            is_fair = max(float(errors.max(initial=0.0)) for errors in found) <= _UNFAIR
            is_full = len(self._points) >= self._base + _MOST_MORE
            tops = [] if (has_more and is_fair) or is_full else self._peaks(found)
            self._add([point for top in tops for point in self._neighbours(top, _NEIGHBOURS)])
            found = self._every(roots, columns, form)
            if self.dtype == "float32" and is_own:
                close = self._close_errors(roots, columns, found)
        if is_dense:
            for dense in self._dense:
                close = list(map(Worst.including, close, dense.errors(roots)))
        if near and self.dtype == "float32" and len(self._tensors) > 1 and is_quick(order):
            close = list(map(Worst.including, close, self._lost(roots, columns, form)))
        worst = list(map(self._worst, found, columns))
        return list(map(Worst.including, worst, close))

    def _peaks(self, found: Sequence[Array]) -> list[Point]:
        """The points where errors are largest, of those that are finite and large."""
        tops: dict[int, float] = {}
        for errors in found:
            for place in np.argsort(-np.where(errors < math.inf, errors, 0.0), kind="stable")[:_PEAKS]:
                if _LARGE < errors[place] < math.inf:
                    tops[int(place)] = max(float(errors[place]), tops.get(int(place), 0.0))
        return [self._points[place] for place in heapq.nlargest(_MOST_PEAKS, tops, key=lambda place: tops[place])]

    def _peaks_of_binades(self, found: Sequence[Array]) -> list[Point]:
        """Where errors are largest for each sign and ordinary exponent of the first input."""
        tops: dict[tuple[int, bool], tuple[float, int]] = {}
        for place, errors in enumerate(zip(*found, strict=True)):
            x = self._points[place][self._tensors[0]]
            binade, worst = math.frexp(x)[1], max(errors)
            if abs(binade) < points.EXTREME and worst < math.inf:
                tops[binade, x < 0] = max(tops.get((binade, x < 0), (0.0, 0)), (float(worst), place))
        return [self._points[place] for _, place in tops.values()]

    def worst_at(
        self, at: Sequence[Point], roots: Sequence[Node], columns: Sequence[int], arithmetics: Sequence[str]
    ) -> Iterator[list[Worst]]:
        """For each arithmetic in turn the worst error of each root, at other points than those looked at before."""
        first = len(self._points)
        self._add(at)
        for form in arithmetics:
            found = self._errors(roots, columns, form, slice(first, None))
            yield [self._worst(errors, column, first) for errors, column in zip(found, columns, strict=True)]

    def _worst(self, errors: Array, column: int, first: int = 0) -> Worst:
        """The worst of the errors at all points, or at those from one on."""
        return Worst.of(
            errors,
            lambda place: tuple(self._points[first + place].items()),
            max(self._base - first, 0),
            ordinary=self._facts.ordinary[column][first:],
            above=self._facts.above[first:],
            at_defaults=self._facts.default[first:],
            normal=self._facts.normal[column][first:],
        )

    def _every(self, roots: Sequence[Node], columns: Sequence[int], form: str) -> list[Array]:
        """The errors of each root at all points, in an arithmetic; what is known from before is not computed again."""
        keys = [(root, column, form) for root, column in zip(roots, columns, strict=True)]
        known = [self._errors_of.get(key, np.zeros(0)) for key in keys]
        for start in {len(errors) for errors in known} - {len(self._points)}:
            which = [k for k, errors in enumerate(known) if len(errors) == start]
            new = self._errors([roots[k] for k in which], [columns[k] for k in which], form, slice(start, None))
            for k, more in zip(which, new, strict=True):
                known[k] = np.concatenate([known[k], more])
        self._errors_of.update(zip(keys, known, strict=True))
        return known

    def _close_errors(self, roots: Sequence[Node], columns: Sequence[int], sampled: Sequence[Array]) -> list[Worst]:
        """The worst errors at very many points near some others, where float64 arithmetic is taken for exact.

        Those are the peaks; where all functions are quick to compute, peaks of every binade, unless `Dense` has
        these.
        """
        order = topological(roots)
        quick = is_quick(order)
        narrow, wide = (program(tuple(roots), dtype, quick) for dtype in ("float32", "wide"))
        count, peaks = _CLOSE_NEIGHBOURS, self._peaks(sampled)
        least_normal = math.ldexp(1.0, SMALLEST_EXPONENT[self.dtype])
        if quick:
            count = _MANY_NEIGHBOURS
            peaks += [] if self._is_dense(order) else self._peaks_of_binades(sampled)
        found = [Worst(0.0)] * len(roots)
        if not peaks:
            return found
        around = [self._around(peak, count) for peak in peaks]
        sizes = [len(next(iter(close.values()))) for close in around]
        every = {name: np.concatenate([close[name] for close in around]) for name in peaks[0]}
        turns = np.concatenate([np.arange(size) for size in sizes])
        values, exact = narrow.on(every, turns), wide.on(every, turns)
        for peak, close, end, size in zip(peaks, around, itertools.accumulate(sizes), sizes, strict=True):
            sample, here = self._sample(peak), slice(end - size, end)
            assert sample is not None
            for k, column in enumerate(columns):
                right = exact[k][here]
                with np.errstate(invalid="ignore"):  # where they differ by more, the peak tells nothing
                    near = np.flatnonzero(
                        (abs(right - float(sample.exact[column])) <= _CLOSE * abs(right)) & np.isfinite(right)
                    )
                if len(near):
                    scale = float(sample.scale[column])
                    errors = Right.of_doubles(right[near], scale, self.dtype).errors(values[k][here][near])
                    worst = int(errors.argmax())
                    at = tuple((name, type(peak[name])(column[near[worst]])) for name, column in close.items())
                    normal = errors[abs(right[near]) >= least_normal].max(initial=0.0)
                    found[k] = found[k].including(replace(self._at(float(errors[worst]), at), normal=float(normal)))
        return found

    def _at(self, error: float, at: Place) -> Worst:
        """An error at a point."""
        return Worst(error, at, at_defaults=error if self._facts.is_default(dict(at)) else 0.0, normal=error)

    def is_dense(self, roots: Sequence[Node]) -> bool:
        """Whether some roots are looked at in very many inputs, of every size."""
        return self._is_dense(topological(roots))

    def _is_dense(self, order: Sequence[Node]) -> bool:
        """The same of roots that are computed by these nodes."""
        return len(self._tensors) == 1 and self._has_dense(order)

    def _has_dense(self, order: Sequence[Node]) -> bool:
        """Whether what is computed by these nodes is to be looked at in `Dense`.

        Not what float32 would be compensated in: it is computed in float64.
        """
        is_plain = self.dtype == "float64" or all(node.op != "corrected" for node in order)
        return bool(self._dense) and is_plain and is_quick(order)

    def _lost(self, roots: Sequence[Node], columns: Sequence[int], form: str) -> list[Worst]:
        """An infinite error for each root that is NaN or infinite at large inputs where it should not be."""
        computed, right = (self._tuples.computed(roots, which) for which in (form, "wide"))
        rounded = FORMATS[self.dtype].nearest
        found = []
        for value, exact, column in zip(computed, right, columns, strict=True):
            is_lost = np.isfinite(rounded(exact)) & ~np.isfinite(rounded(value))
            at = map(self._tuples.at, np.flatnonzero(is_lost)[:_ASKED].tolist())
            worst = (self._at(math.inf, tuple(point.items())) for point in at if self.exact(column, point) is not None)
            found.append(next(worst, Worst(0.0)))
        return found

    def _around(self, point: Point, count: int) -> dict[str, Array]:
        """Columns of inputs near a point, spread evenly and without a pattern."""
        columns = {}
        for k, (name, value) in enumerate(point.items()):
            if name not in self._tensors:
                columns[name] = np.full(count, float(value))
                continue
            spread = 2 * (np.arange(1, count + 1) * points.IRRATIONAL[k % len(points.IRRATIONAL)] % 1) - 1
            spread[::2] *= _CLOSER
            columns[name] = FORMATS[self.dtype].nearest(value * (1 + _NEAR * spread))
        keep = np.all([np.isfinite(column) for column in columns.values()], axis=0)
        return {name: column[keep] for name, column in columns.items()}

    def is_no_worse(
        self,
        root: Node,
        other: Node,
        column: int,
        change: Change,
        values: Sequence[float],
        beside: Sequence[str] = (),
    ) -> bool:
        """Whether a root is far off at no point where a variable has some values, unless another one is there, too.

        Some of the points are looked at also where an input, of those `beside` it, is so large that their product is
        about 1, or a few.
        """
        drawn = [
            point for point in self._drawn if all(1 / _ORDINARY <= abs(point[x]) <= _ORDINARY for x in self._tensors)
        ]
        some = drawn[:: -(-len(drawn) // _COMPARED) or 1]
        rounded, name = FORMATS[self.dtype].rounded, str(change.variable.value)
        at = [{**point, name: value} for value in values for point in some]
        at += [
            {**point, x: rounded(product / value), name: value}
            for value, x, product in itertools.product(values, beside, _PRODUCTS)
            for point in some[:_FEW_COMPARED]
        ]
        pivots = program((change.solution,), "float64")(at)[0] if at else ()
        for point in at:
            del point[name]
        pivot = str(change.pivot.value)
        moved = ({**point, pivot: rounded(float(x))} for point, x in zip(at, pivots, strict=True))
        found = [(point, sample) for point in moved if (sample := self._sample(point))]
        if not found:
            return True
        exact = [sample.exact[column] for _, sample in found]
        scale = [sample.scale[column] for _, sample in found]
        right = Right(exact, scale, self.dtype)
        computed = program((root, other), self.dtype)([point for point, _ in found])
        errors, others = (right.errors(FORMATS[self.dtype].nearest(one)) for one in computed)
        return not (errors > np.maximum(_UNFAIR, _MUCH_WORSE * others)).any()

    def reach(self, root: Node, column: int, variable: Node, target: float, form: str) -> float:
        """A power of two beyond which, for |variable| of ordinary size, the error of a root stays below the target.

        0 if it does for every variable of ordinary size.
        """
        (errors,) = self._every([root], [column], form)
        bad = [self._points[place] for place in np.flatnonzero(errors > target)]
        if not bad:
            return 0.0
        sizes = abs(program((variable,), "float64")(bad)[0])
        near = sizes[sizes < _MOST_REACH]
        return math.ldexp(1.0, math.frexp(max(LEAST_REACH / 2, float(near.max())))[1]) if len(near) else 0.0

    def switch(self, roots: Sequence[Node], column: int, target: float) -> tuple[float, int, int]:
        """Below which |x|, a power of two, which of some roots is to be used, and which one beyond.

        So that fewest of the points are left where the error is beyond the target; for one input x.
        """
        (name,) = self._tensors
        large = [errors > target for errors in self._every(roots, [column] * len(roots), self.dtype)]
        sizes = np.array([abs(float(point[name])) for point in self._points])

        def fewest(which: Array) -> tuple[int, int]:
            return min((int((errors & which).sum()), k) for k, errors in enumerate(large))

        tries = []
        for size in _SWITCHES:
            (near, i), (far, k) = fewest(sizes < size), fewest(sizes >= size)
            tries.append((near + far, size, i, k))
        return min(tries)[1:]

    def _errors(self, roots: Sequence[Node], columns: Sequence[int], form: str, which: slice) -> list[Array]:
        """The errors at some of the points; the functions err to sides that vary."""
        quick = form == "float32" and is_quick(topological(roots))  # whose last digits of float64 are not right
        values = program(tuple(roots), form, quick)(self._points[which], which.start or 0)
        rounded = FORMATS[self.dtype].nearest
        return [
            self._facts.right[column].errors(rounded(value), which)
            for value, column in zip(values, columns, strict=True)
        ]

    def amplified(self, root: Node, column: int) -> float:
        """The worst error of a root in float32's digits and float64's range, at the points looked at so far.

        In units of float32: what errors of functions are multiplied by, where nothing overflows.
        """
        (values,) = program((root,), "short", is_quick(topological([root])))(self._points)
        return float(self._facts.right[column].errors(FORMATS[self.dtype].nearest(values), slice(None)).max())

    def moderate(self, root: Node, column: int, most: float) -> float:
        """The worst error of a root where no tensor is very small, or larger than this.

        At those of the points looked at so far, near those of them where it is large, and at all of the very many that
        are of no extreme size.
        """
        (errors,) = self._every([root], [column], self.dtype)
        tensors = np.array([[abs(float(point[name])) for name in self._tensors] for point in self._points])
        is_moderate = ((tensors == 0) | ((tensors >= 2.0**LEAST_MODERATE) & (tensors <= most))).all(axis=1)
        found = [float(errors[is_moderate].max(initial=0.0))]
        peaks = np.where(is_moderate, errors, math.inf)  # which is none
        found += [near.error for near in self._close_errors([root], [column], [peaks])]
        dense = self._dense if self._has_dense(topological([root])) else []
        found += [worst.error for one in dense for worst in one.errors([root])]
        return max(found)

    def _sample(self, point: Point) -> Sample | None:
        key = tuple(point.values())
        if key not in self._known:
            found = self._values(point)
            self._known[key] = Sample(found.values, self._values.scales(point, found, self._tensors)) if found else None
        return self._known[key]

    def _neighbours(self, point: Point, count: int) -> Iterator[Point]:
        randoms = random.Random(1)
        rounded = FORMATS[self.dtype].rounded
        for k in range(count):
            reach = _NEAR if k % 2 else _NEAR * _CLOSER
            moved = {name: rounded(point[name] * (1 + randoms.uniform(-reach, reach))) for name in self._tensors}
            if all(map(math.isfinite, moved.values())):
                yield {**point, **moved}

    def _evaluated(self, point: Point) -> tuple[mpf, ...]:
        return self._values.program(point)
