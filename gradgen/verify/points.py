"""Where an op is looked at: numbers of every magnitude, ordinary and special ones. The same ones at every run."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import torch

from gradgen.verify.quantity import Point

_SAME_WIDTH = {16: torch.int16, 32: torch.int32, 64: torch.int64}


def width(dtype: torch.dtype) -> int:
    """How many bits a number of the type has."""
    return dtype.itemsize * 8


def numbers(patterns: Sequence[int], dtype: torch.dtype) -> list[float]:
    """The numbers with these bit patterns."""
    bits = width(dtype)
    signed = [pattern - (1 << bits) if pattern >> (bits - 1) else pattern for pattern in patterns]
    return torch.tensor(signed, dtype=_SAME_WIDTH[bits]).view(dtype).tolist()


def special(dtype: torch.dtype) -> list[float]:
    """Zeros, ones, and the ends of the type: the smallest subnormal, the smallest normal, the largest number."""
    info = torch.finfo(dtype)
    ends = [info.smallest_normal * info.eps, info.tiny, info.max]
    return [0.0, -0.0, 1.0, -1.0, *ends, *[-end for end in ends]]


def every_magnitude(names: Sequence[str], dtype: torch.dtype, count: int, seed: str) -> list[Point]:
    """About `count` points that are spread evenly over the bit patterns: each exponent is met alike."""
    randoms = random.Random(seed)
    columns = []
    for _ in names:
        patterns = [int((k + randoms.random()) / count * (1 << width(dtype))) for k in range(count)]
        randoms.shuffle(patterns)
        columns.append(numbers(patterns, dtype))
    rows = [row for row in zip(*columns, strict=True) if all(map(math.isfinite, row))]
    return [dict(zip(names, row, strict=True)) for row in rows]


def ordinary(names: Sequence[str], dtype: torch.dtype, count: int, seed: str) -> list[Point]:
    """Numbers of the size that activations have, and some ten times that."""
    randoms = random.Random(seed)
    rows = [[randoms.gauss(0, 1) * 10 ** randoms.uniform(-1, 1.3) for _ in names] for _ in range(count)]
    rounded = torch.tensor(rows, dtype=torch.float64).to(dtype).tolist()
    return [dict(zip(names, row, strict=True)) for row in rounded]


def grid(names: Sequence[str], values: Sequence[float], most: int, seed: str) -> list[Point]:
    """All combinations of the values, or if these are too many a choice of `most`, and all inputs alike."""
    total = len(values) ** len(names)
    if total <= most:
        rows = list(itertools.product(values, repeat=len(names)))
    else:
        randoms = random.Random(seed)
        rows = [(value,) * len(names) for value in values]
        rows += [tuple(randoms.choice(values) for _ in names) for _ in range(most - len(rows))]
    return [dict(zip(names, row, strict=True)) for row in rows]


def with_one(names: Sequence[str], values: Sequence[float], shares: Sequence[float] = (1.0,)) -> list[Point]:
    """Each of the values in the place of each input, while the others are ordinary, or such shares of that."""
    others = {name: 0.75 + 0.5 * k for k, name in enumerate(names)}
    shares = shares if len(names) > 1 else (1.0,)
    beside = [{name: share * value for name, value in others.items()} for share in shares]
    return [{**rest, name: value} for rest in beside for name in names for value in values]
