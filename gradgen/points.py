"""The inputs at which errors are modelled: most of ordinary size, others of every magnitude that a type has."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import gmpy2
import numpy as np

from gradgen.model import FORMATS, Array, Program
from gradgen.ulp import LARGEST, MANTISSA, SMALLEST_EXPONENT

_EXPONENTS = (
    *(-1060, -1000, -600, -300, -140, -125, -100, -60, -50, -40, -30, -24, -20, -16, -13, -10, -8, -7),
    *(5, 6, 7, 8, 9, 10, 13, 20, 30, 45, 63, 70, 100, 126, 300, 520),
)
EXTREME = 30  # the power of two from which on an input, or its reciprocal, is no ordinary one
IRRATIONAL = tuple(math.sqrt(prime) for prime in (5, 2, 3, 7, 11, 13))  # whose multiples have no pattern
_ORDINARY = 44  # numbers of ordinary size
_EVERY = {"float32": 3, "float64": 29}  # so many powers of two apart are numbers of one input
_LARGEST_SHARES = (0.3, 0.6, 1.0)  # of the largest number
# Where exp(-x), exp(-x**2/2) and exp(-x**2) fall below the smallest normal number
_TAILS = {
    "float32": (86.7, 88.3, 88.9, 89.3, 91.9, 97.1, 101.3, 103.6, 13.1, 13.7, 14.3, 9.21, 9.67, 10.13),
    "float64": (703.9, 708.6, 709.9, 710.3, 717.3, 731.2, 743.7, 37.1, 37.9, 38.4, 26.3, 26.9, 27.2),
}
_SEVERAL = 120  # points of several inputs
_LABELS = (0.0, 1.0)  # of which one of several inputs often is one, beside others so large that exponentials vanish
_SIZES = {"float32": (0.7, 1.3, 9, 19, 38, 80, 97, 150), "float64": (0.7, 1.3, 9, 19, 38, 110, 731, 1100)}
_NEAR = (2.0**-20, 2.0**-12)  # shares that are not rounded away
_TINY = (2.0**-28, 2.0**-12)  # the square of the first is lost beside 1 in float64, too, and yet it is not extreme
_FAR = (4, 5, 6, 8, 11, 15)  # powers of two
_MOST_ELSEWHERE = 400  # of each kind of points, of which there are more than that from eight inputs on
_APART = (2.0**-6, 2.0**-20)  # how far, at most, those that are close to one another are from each other
_OPPOSITE = 600  # the power of two, and its inverse, of two inputs whose quotient overflows or vanishes
_OPPOSITES = 6  # pairs of those
TUPLES = 1 << 12  # of several inputs, of which some are near the largest number
_ALIKE = 32  # points where two inputs are the same but for the sign, of the sizes that exponentials tell apart
_BISECTIONS = 10
_BESIDE_DEFAULT = 1.9046  # of a hyper-parameter's default
_BESIDE_ZERO = 0.4773
_ROUNDED_BY = 0.45  # units in the last place that a hyper-parameter loses in float32
_BESIDE_EDGES = (0.8, 0.97, 0.998, 1.002, 1.03)


Sizes = Callable[[Sequence[float], Sequence[int]], Sequence[Array]]


def of_one(dtype: str, magnitude: int) -> Iterator[float]:
    """Numbers of a type up to 2**magnitude for a function of one input."""
    randoms = random.Random(0)
    for x in _numbers(dtype, magnitude, randoms):
        yield from (x, -x)
    for k, exponent in enumerate(range(_least_exponent(dtype), -SMALLEST_EXPONENT[dtype] + 1, _EVERY[dtype])):
        if exponent <= magnitude:
            yield FORMATS[dtype].rounded(math.ldexp(1 + randoms.random(), exponent) * (-1) ** k)


def of_several(tensors: Sequence[str], dtype: str, magnitude: int) -> Iterator[dict[str, float]]:
    """Numbers of a type for a function of several inputs: independent ones, and such that cancel."""
    randoms = random.Random(0)
    rounded = FORMATS[dtype].rounded
    spread = _exponents(dtype, magnitude)
    singles = [sign * x for x in _numbers(dtype, magnitude, randoms) for sign in (1, -1)]
    for k in range(_SEVERAL):
        drawn = {name: randoms.choice(singles[: 2 * _ORDINARY] if k % 4 else singles) for name in tensors}
        drawn = {name: rounded(x * (1 - randoms.random() / 8)) for name, x in drawn.items()}
        if k % 8 == 1:  # all of one magnitude, however large or small
            exponent = randoms.choice(spread)
            drawn = {
                name: rounded(math.ldexp(randoms.uniform(1, 2), exponent) * randoms.choice([1, -1])) for name in tensors
            }
        if k % 5 == 0:
            first, second = randoms.sample(list(tensors), 2)
            apart = _APART[k // 5 % len(_APART)] * randoms.random()
            drawn[second] = rounded(drawn[first] * randoms.choice([1, -1]) * (1 - apart))
        yield drawn
    for k in range(_ALIKE):
        drawn = {name: rounded(randoms.choice(singles[: 2 * _ORDINARY])) for name in tensors}
        first, second = randoms.sample(list(tensors), 2)
        drawn[first] = rounded(math.ldexp(randoms.uniform(1, 2), k // 4 - 1) * (-1) ** k)
        yield {**drawn, second: -drawn[first] if k % 4 < 3 else drawn[first]}
    if dtype == "float32" and magnitude > 127:  # sums overflow; float64 arithmetic, which float32 may turn to, sees it
        for share in (0.9, -0.9):
            yield dict.fromkeys(tensors, rounded(share * LARGEST[dtype]))
    for name, exponent in itertools.product(tensors, spread[::3]):  # one of them extreme
        others = {other: rounded(randoms.choice(singles[: 2 * _ORDINARY])) for other in tensors}
        yield {**others, name: rounded(math.ldexp(randoms.uniform(1, 2), exponent) * randoms.choice([1, -1]))}
    if dtype == "float64" and magnitude > _OPPOSITE:  # float32 is looked at in very many tuples of every size
        for large, small in itertools.islice(itertools.permutations(tensors, 2), _OPPOSITES):
            others = {other: rounded(randoms.choice(singles[: 2 * _ORDINARY])) for other in tensors}
            sizes = (math.ldexp(randoms.uniform(1, 2), sign * _OPPOSITE) for sign in (1, -1))
            yield {**others, **dict(zip((large, small), sizes, strict=True))}


def elsewhere(tensors: Sequence[str], dtype: str) -> Iterator[dict[str, float]]:
    """Numbers of a type for a function of several inputs, where one is 0, or about 1, or two nearly meet."""
    for kind in (labels, beside_one, meeting):
        every = [*kind(tensors, dtype)]
        places = sorted(random.Random(0).sample(range(len(every)), min(len(every), _MOST_ELSEWHERE)))
        yield from (every[place] for place in places)


def labels(tensors: Sequence[str], dtype: str) -> Iterator[dict[str, float]]:
    """Numbers of a type for a function of several inputs, of which one is 0 or 1."""
    randoms = random.Random(0)
    rounded = FORMATS[dtype].rounded
    for name, label, size, sign in itertools.product(tensors, _LABELS, _SIZES[dtype], (1, -1)):
        first = next(other for other in tensors if other != name)
        drawn = {other: rounded(size * randoms.uniform(0.9, 1.1) * randoms.choice([1, -1])) for other in tensors}
        yield {**drawn, first: sign * abs(drawn[first]), name: label}


def beside_one(tensors: Sequence[str], dtype: str) -> Iterator[dict[str, float]]:
    """Numbers of a type for a function of several inputs, of which one is about 1 or -1, and the next tiny, or so too.

    The others have few digits: what their rounding does is seen in other points.
    """
    below = [1 - math.ldexp(1.0, -k) for k in (MANTISSA[dtype] - 1, MANTISSA[dtype] // 2, 4)]
    for name, sign, one, size in itertools.product(tensors, (1, -1), (1.0, *below), (*_TINY, *below)):
        following = tensors[(tensors.index(name) + 1) % len(tensors)]
        yield {**dict.fromkeys(tensors, 0.75), following: size, name: sign * one}


def meeting(tensors: Sequence[str], dtype: str) -> Iterator[dict[str, float]]:
    """Numbers of a type for a function of several inputs, of which two nearly meet, far from the others, or where
    those are tiny.
    """
    randoms = random.Random(0)
    rounded = FORMATS[dtype].rounded
    for pair, exponent, apart in itertools.product(itertools.combinations(tensors, 2), _FAR, (4, 0)):
        drawn = {name: rounded(randoms.uniform(0.5, 2)) for name in tensors}
        drawn[pair[0]] = rounded(math.ldexp(randoms.uniform(1, 2), exponent) * randoms.choice([1, -1]))
        yield {**drawn, pair[1]: rounded(drawn[pair[0]] + randoms.uniform(-apart, apart))}
    if len(tensors) > 2:
        for pair, small, share in itertools.product(itertools.combinations(tensors, 2), _TINY, (0.0, *_NEAR)):
            yield {**dict.fromkeys(tensors, small), pair[0]: 0.75, pair[1]: rounded(0.75 * (1 - share))}


@cache
def near_the_largest(count: int) -> Array:
    """float32 numbers for so many inputs: of each some near the largest number, some of every and of ordinary size."""
    randoms = random.Random(0)
    highest = -SMALLEST_EXPONENT["float32"] + 2
    spans = ((highest - 3, highest), (_least_exponent("float32"), highest), (-8, 8))
    with gmpy2.context(
        precision=MANTISSA["float64"]
    ):  # the same on every machine, which the C library's powers are not
        rows = [
            [float(gmpy2.exp2(randoms.uniform(*randoms.choice(spans)))) * randoms.choice([1, -1]) for _ in range(count)]
            for _ in range(TUPLES)
        ]
    largest = LARGEST["float32"]
    return FORMATS["float32"].nearest(np.clip(np.array(rows).T, -largest, largest))  # type: ignore[no-any-return]


def hyper_parameters(defaults: Mapping[str, float | bool], dtype: str) -> list[dict[str, float | bool]]:
    """The hyper-parameters that errors are modelled for: the defaults, and others near them that are less simple.

    With a default of 1 or 2 no product is rounded, and float32 has it exactly.
    """
    near = {name: _less_simple(value, dtype) for name, value in defaults.items()}
    return [dict(defaults)] if near == defaults else [dict(defaults), near]


def some(drawn: Sequence[Mapping[str, float]], dtype: str) -> Iterator[Mapping[str, float]]:
    """Every other point, of both signs, and all at the end of a type, where a product may overflow."""
    for k, point in enumerate(drawn):
        if k % 4 in (1, 2) or any(abs(x) > LARGEST[dtype] / 2 for x in point.values()):
            yield point


def _less_simple(value: float | bool, dtype: str) -> float | bool:
    if not isinstance(value, float):
        return value if isinstance(value, bool) else value + (1 if value >= 0 else -1)  # not 0
    near = FORMATS[dtype].rounded(_BESIDE_DEFAULT * value if value else _BESIDE_ZERO)
    unit = math.ldexp(1.0, math.frexp(near)[1] - MANTISSA[dtype])
    return near + _ROUNDED_BY * unit if dtype == "float32" else near


def beside(centres: Sequence[float], dtype: str) -> Iterator[float]:
    """Numbers closer and closer to the centres."""
    for centre, k, side in itertools.product(centres, range(1, 24), (1, -1)):
        near = FORMATS[dtype].rounded(centre + side * max(1.0, abs(centre)) * 1.3 * 2.0**-k)
        if math.isfinite(near):
            yield near


def sizes(compute: Program, name: str, others: Mapping[str, float | bool]) -> Sizes:
    """The absolute values that a program finds for an input, others being given."""

    def of(inputs: Sequence[float], turns: Sequence[int]) -> list[Array]:
        columns = {key: np.full(len(inputs), float(value)) for key, value in others.items()}
        return [*map(abs, compute.on({**columns, name: np.array(inputs)}, np.array(turns, int)))]

    return of


def edges(sizes: Sizes, dtype: str, magnitude: int) -> Iterator[float]:
    """Numbers near those at which one of some functions leaves the numbers of the type, or the normal ones.

    Args:
        sizes: from numbers to the absolute values of the functions, which err to a side by turns.
        dtype: the type.
        magnitude: the power of two up to which to look.
    """
    bounds = (LARGEST[dtype], 2.0 ** SMALLEST_EXPONENT[dtype], 2.0 ** _least_exponent(dtype))
    highest = min(-SMALLEST_EXPONENT[dtype], magnitude)
    exponents = range(_least_exponent(dtype), highest + 1, 2 if dtype == "float32" else 16)
    powers = np.ldexp(1.0, list(exponents))
    for sign in (1.0, -1.0):
        seen = sizes((sign * powers).tolist(), range(len(powers)))
        places = sorted(  # between which powers which function crosses which bound
            {
                (int(place), which, bound)
                for (which, values), bound in itertools.product(enumerate(seen), bounds)
                for place in np.flatnonzero((values[:-1] < bound) != (values[1:] < bound))
            }
        )
        found = set(_crossings(sizes, sign, powers, places).tolist())
        for edge, share in itertools.product(sorted(found), _BESIDE_EDGES):
            if edge * share <= LARGEST[dtype]:
                yield FORMATS[dtype].rounded(sign * edge * share)


def _crossings(
    sizes: Sizes,
    sign: float,
    powers: Array,
    places: Sequence[tuple[int, int, float]],
) -> Array:
    """About the last numbers at which functions are still on their side of a bound, each above a power."""
    below_it = np.array([place for place, _, _ in places], int)
    low: Array = powers[below_it]
    high: Array = powers[below_it + 1]

    def is_below(x: Array) -> Array:
        values = sizes((sign * x).tolist(), [0] * len(x))
        return np.array([values[which][k] < bound for k, (_, which, bound) in enumerate(places)], bool)

    below = is_below(low)
    for _ in range(_BISECTIONS if places else 0):
        middle = np.sqrt(low) * np.sqrt(high)  # rounded alike everywhere
        is_alike = is_below(middle) == below
        low, high = np.where(is_alike, middle, low), np.where(is_alike, high, middle)
    return low


def last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """About the last number between two up to which something holds; it does for the lower one."""
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low) * math.sqrt(high)  # rounded alike everywhere
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def extreme(tensors: Sequence[str]) -> Iterator[dict[str, float]]:
    """Infinite, vanishing and extreme inputs: one of them; the first two infinite; all of one magnitude."""
    ordinary = {name: 0.75 + k / 2 for k, name in enumerate(tensors)}
    for name in tensors:
        for value in (math.inf, -math.inf, 0.0, 1e-40, -1e-40, 1e-310):
            yield {**ordinary, name: value}
    if len(tensors) > 1:
        for signs in itertools.product((1, -1), repeat=2):
            yield {**ordinary, **{name: sign * math.inf for name, sign in zip(tensors, signs, strict=False)}}
    for size, sign in itertools.product((1e110, 1e160, 1e300, 1e-110, 1e-160, 1e-300), (1, -1)):
        yield {name: sign * size * x for name, x in ordinary.items()}


def _numbers(dtype: str, magnitude: int, randoms: random.Random) -> list[float]:
    """Positive numbers, the ordinary ones first."""
    ordinary = [math.ldexp(1 + (k % 4 + randoms.random()) / 4, k // 4) for k in range(-24, _ORDINARY - 24)]
    wide = [math.ldexp(1 + randoms.random(), e) for e in _exponents(dtype, magnitude)] + [*_TAILS[dtype]]
    wide += [share * LARGEST[dtype] for share in _LARGEST_SHARES if -SMALLEST_EXPONENT[dtype] <= magnitude]
    return [FORMATS[dtype].rounded(x) for x in [*ordinary, *wide]]


def _exponents(dtype: str, magnitude: int) -> list[int]:
    return [e for e in _EXPONENTS if e <= magnitude and _least_exponent(dtype) <= e < -SMALLEST_EXPONENT[dtype]]


def _least_exponent(dtype: str) -> int:
    return SMALLEST_EXPONENT[dtype] - MANTISSA[dtype] + 1
