"""Whether a form does for types of 16 bits: held against another one at all numbers of these, or at very many tuples.

A result is looked at in a few hundred points while forms are looked for, which tells what rounding does to it. A form
that spares instructions at the price of range may be wrong in less than one of a thousand tuples.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cache, partial

import numpy as np

from gradgen import pair
from gradgen.dense import computed
from gradgen.graph import Node, topological
from gradgen.measure import LEAST_MODERATE
from gradgen.model import is_quick
from gradgen.ulp import Array, Right

MOST = 2.0**7  # units of float32, a 64th of one of float16; functions of few digits make eight times as much of it

_STEP = 2.0**-22  # by what share an input is moved for a derivative
_BLOCK = 1 << 14  # of how many inputs there is all at once: what fits into a cache is had sooner
_TUPLES = 1 << 14
_POWERS = ((-7, 9), (-132, 129))  # of ordinary inputs, and of all that bfloat16 has, by turns,
_EDGES = (-126, -63, -42, 41, 62, 126)  # and of those whose powers overflow or vanish
_SPECIAL = (0.0, -0.0, math.inf, -math.inf, 2.0**128 - 2.0**120, 2.0**120 - 2.0**128)
_EXPONENTS = (-2, 5)  # powers of two of what is beside an argument at which exponentials overflow, or vanish,
_OVERFLOWING = (80.0, 110.0)  # which are of this size, or by a power of two less or more
_DIGITS = 11  # those of float16, among which are those of bfloat16


def does(
    form: Node,
    other: Node,
    tensors: Sequence[str],
    hyper: Mapping[str, float | bool],
    most: float = MOST,
    within: float = math.inf,
    at_edges: bool = False,
) -> bool:
    """Whether float32 arithmetic makes of a form what float64 makes of another one, but for what 16 bits do not tell.

    Args:
        form: a node as it is printed.
        other: the one that it is to equal, as it is printed.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
        most: the error in units of float32 that is none.
        at_edges: whether all tuples are to have inputs at which exponentials overflow or vanish.
        within: the largest size of inputs that are looked at, if it is a number; the least then is `LEAST_MODERATE`.

    Returns:
        False also where that would take long: a function is computed by mpmath.
    """
    if not all(is_quick(topological([node])) for node in (form, other)):
        return False
    tuples = _edges if at_edges else _tuples
    every = _numbers() if len(tensors) == 1 else tuples(len(tensors))
    if within < math.inf:
        size = abs(every)
        every = every[:, ((size == 0) | ((size >= 2.0**LEAST_MODERATE) & (size <= within))).all(axis=0)]

    def of_blocks(which: int) -> bool:
        begins = range(which * _BLOCK, every.shape[1], 2 * _BLOCK)
        blocks = (dict(zip(tensors, every[:, begin : begin + _BLOCK], strict=True)) for begin in begins)
        return all(_is_same(form, other, block, hyper, most) for block in blocks)

    return pair.every([form], partial(of_blocks, 0), partial(of_blocks, 1))


def _is_same(
    form: Node, other: Node, columns: Mapping[str, Array], hyper: Mapping[str, float | bool], most: float
) -> bool:
    (exact,), (found,) = computed([other], "wide", columns, hyper), computed([form], "float32", columns, hyper)
    is_infinite, is_number = np.isinf(exact), np.isfinite(exact)
    if (found[is_infinite] != exact[is_infinite]).any():
        return False
    columns = {name: x[is_number] for name, x in columns.items()}
    exact, found = exact[is_number], found[is_number]
    off = Right.of_doubles(exact, 0.0, "float32").errors(found) > most
    columns, exact, found = {name: x[off] for name, x in columns.items()}, exact[off], found[off]
    with np.errstate(all="ignore"):
        changes = [  # the lesser of either side: a jump is no slope
            [
                abs(computed([other], "wide", {**columns, name: x * (1 + step)}, hyper)[0] - exact)
                for step in (_STEP, -_STEP)
            ]
            for name, x in columns.items()
        ]
        scale = np.nan_to_num(np.max(np.min(changes, axis=1), axis=0) / _STEP)
    return bool((Right.of_doubles(exact, scale, "float32").errors(found) <= most).all())


@cache
def _numbers() -> Array:
    """All numbers of bfloat16 and of float16, infinite ones among them, as the only row."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    every: Array = np.concatenate([_doubles((bits << 16).view(np.float32)), _doubles(bits.astype("u2").view("f2"))])
    return every[None]


def _doubles(numbers: Array) -> Array:
    found: Array = numbers[~np.isnan(numbers)].astype(np.float64)
    return found


@cache
def _edges(count: int) -> Array:
    """Numbers for so many inputs, each a row: in each column one or two at which exponentials overflow, or vanish."""
    randoms = random.Random(1)

    def column(k: int) -> list[float]:
        numbers = [randoms.choice([1, -1]) * 2.0 ** randoms.uniform(*_EXPONENTS) for _ in range(count)]
        for one in randoms.sample(range(count), 1 + k % 2):
            numbers[one] = randoms.choice([1, -1]) * randoms.uniform(*_OVERFLOWING) * 2.0 ** randoms.randrange(-2, 2)
        return numbers

    every: Array = np.array([column(k) for k in range(_TUPLES)]).T
    return every.astype(np.float32).astype(np.float64)


@cache
def _tuples(count: int) -> Array:
    """Numbers for so many inputs, each a row: in half of the columns two are alike or opposite, or some special."""
    randoms = random.Random(0)

    def number(kind: int) -> float:
        digits, sign = randoms.randrange(1 << (_DIGITS - 1), 1 << _DIGITS), randoms.choice([1, -1])
        power = randoms.choice(_EDGES) + randoms.randrange(3) if kind == 2 else randoms.randrange(*_POWERS[kind])
        return sign * math.ldexp(digits, power - _DIGITS)

    def column(k: int) -> list[float]:
        numbers = [number(k % 3) for _ in range(count)]
        one, other = randoms.sample(range(count), 2)
        kind = randoms.randrange(8)
        if kind < 2:
            numbers[one] = numbers[other] * (1, -1)[kind]
        elif kind < 4:
            numbers[one] = randoms.choice(_SPECIAL)
            numbers[other] = randoms.choice([numbers[other], *_SPECIAL])
        return numbers

    every: Array = np.array([column(k) for k in range(_TUPLES)]).T
    return every
