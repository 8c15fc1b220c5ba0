"""Whether a form does for few digits: held against another one at all numbers of 16 bits, or at very many tuples.

A result is looked at in a few hundred points while forms are looked for, which tells what rounding does to it. A form
that spares instructions at the price of range may be wrong in less than one of a thousand tuples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Literal

import numpy as np

from gradgen import pair
from gradgen.dense import computed, drawn
from gradgen.draws import Draws
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

Which = Literal["all", "edges", "ordinary"]


def does(
    form: Node,
    other: Node,
    tensors: Sequence[str],
    hyper: Mapping[str, float | bool],
    most: float = MOST,
    within: float = math.inf,
    which: Which = "all",
    arithmetic: str = "float32",
) -> bool:
    """Whether some arithmetic makes of a form what float64 makes of another one, but for what few digits do not tell.

    Args:
        form: a node as it is printed.
        other: the one that it is to equal, as it is printed.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
        most: the error in units of float32 that is none.
        within: the largest size of inputs that are looked at, if it is a number; the least then is `LEAST_MODERATE`.
        which: inputs of every size, of several some at which exponentials overflow or vanish, or ordinary ones.
        arithmetic: that of the form, one of `model.FORMATS`.

    Returns:
        False also where that would take long: a function is computed by mpmath.
    """
    if not all(is_quick(topological([node])) for node in (form, other)):
        return False
    every = _INPUTS[which](len(tensors))
    if within < math.inf:
        size = abs(every)
        every = every[:, ((size == 0) | ((size >= 2.0**LEAST_MODERATE) & (size <= within))).all(axis=0)]

    def of_blocks(half: int) -> bool:
        begins = range(half * _BLOCK, every.shape[1], 2 * _BLOCK)
        blocks = (dict(zip(tensors, every[:, begin : begin + _BLOCK], strict=True)) for begin in begins)
        return all(_is_same(form, other, block, hyper, most, arithmetic) for block in blocks)

    return pair.every([form], partial(of_blocks, 0), partial(of_blocks, 1))


def _is_same(
    form: Node,
    other: Node,
    columns: Mapping[str, Array],
    hyper: Mapping[str, float | bool],
    most: float,
    arithmetic: str,
) -> bool:
    (exact,), (found,) = computed([other], "wide", columns, hyper), computed([form], arithmetic, columns, hyper)
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
    """Numbers for so many inputs, each a row: in each column one or two at which exponentials overflow, or vanish.

    For one input all of `_numbers`.
    """
    if count == 1:
        return _numbers()
    draws, columns = Draws(1), np.arange(_TUPLES)
    numbers = draws.signs(count, _TUPLES) * 2.0 ** draws.uniform(*_EXPONENTS, count, _TUPLES)
    for rows, changed in zip(_two_of(count, draws), (slice(None), slice(None, None, 2)), strict=True):
        large = draws.signs(_TUPLES) * draws.uniform(*_OVERFLOWING, _TUPLES)
        numbers[rows[changed], columns[changed]] = (large * 2.0 ** draws.integers(-2, 2, _TUPLES))[changed]
    every: Array = numbers.astype(np.float32).astype(np.float64)
    return every


@cache
def _tuples(count: int) -> Array:
    """Numbers for so many inputs, each a row: in half of the columns two are alike or opposite, or some special.

    For one input all of `_numbers`.
    """
    if count == 1:
        return _numbers()
    draws, columns = Draws(0), np.arange(_TUPLES)
    low, high = np.array(_POWERS).T[:, columns % 3 % 2]  # ordinary ones, all, and in place of the third those at edges
    at_edges = draws.choices(_EDGES, count, _TUPLES) + draws.integers(0, 3, count, _TUPLES)
    powers = np.where(columns % 3 == 2, at_edges, draws.integers(low, high, count, _TUPLES))
    digits = draws.integers(1 << (_DIGITS - 1), 1 << _DIGITS, count, _TUPLES)
    numbers: Array = np.ldexp(draws.signs(count, _TUPLES) * digits, powers - _DIGITS)

    (one, other), kind = _two_of(count, draws), draws.integers(0, 8, _TUPLES)
    alike, special = columns[kind < 2], columns[(kind >= 2) & (kind < 4)]
    numbers[one[alike], alike] = numbers[other[alike], alike] * np.where(kind[alike] == 0, 1, -1)
    is_other_too = draws.integers(0, 1 + len(_SPECIAL), len(special)) > 0
    numbers[one[special], special] = draws.choices(_SPECIAL, len(special))
    both = special[is_other_too]
    numbers[other[both], both] = draws.choices(_SPECIAL, len(both))
    return numbers


def _two_of(count: int, draws: Draws) -> tuple[Array, Array]:
    """Two of so many rows, for each column."""
    one = draws.integers(0, count, _TUPLES)
    return one, (one + draws.integers(1, count, _TUPLES)) % count


_INPUTS = {"all": _tuples, "edges": _edges, "ordinary": drawn}
