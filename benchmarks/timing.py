"""Times functions side by side, so that what disturbs the machine disturbs all of them alike."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

SHORTEST = {"cpu": 2e-3, "cuda": 1e-3}  # seconds that a sample must last, for the clock's sake
_ROUNDS = 15  # samples of each function, unless that takes longer
_FEWEST = 3
_WARM_UP = 3

Call = Callable[[int], object]


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median of the samples, and the quartiles."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """The statistics of some samples."""
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))


Timings = dict[str, Timing]  # of each call, by its name


def side_by_side(calls: Mapping[str, Call], device: str, seconds: float) -> Timings:
    """The time of one call of each function.

    All are warmed up, by two calls where one lasts longer than `seconds`; then they are sampled in turn, in another
    order each time, for what one leaves in the caches and in the allocator is to help none more than others. A sample
    is as many calls as last `SHORTEST`.

    Args:
        calls: the functions, each of a number that tells which of several sets of buffers to use.
        device: "cpu" or "cuda".
        seconds: how long to sample each, unless that would give fewer than three samples.
    """
    sample, shortest = _cuda_sample if device == "cuda" else _cpu_sample, SHORTEST[device]
    counts = {}
    for name, call in calls.items():
        call(0)  # which may compile
        once, which_set = math.inf, itertools.count()
        for _ in range(_WARM_UP):
            once = min(once, sample(call, 1, which_set))
            if once > seconds:
                break
        if once < shortest:
            once = min(once, sample(call, max(1, min(10, int(shortest / once))), which_set))
        counts[name] = max(1, round(shortest / once))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    which = {name: itertools.count() for name in calls}
    order, chance = [*calls], random.Random(0)
    begun = time.perf_counter()
    for turn in range(_ROUNDS):
        if turn >= _FEWEST and time.perf_counter() - begun > seconds * len(calls):
            break
        chance.shuffle(order)
        for name in order:
            samples[name].append(sample(calls[name], counts[name], which[name]))
    return {name: Timing.of(found) for name, found in samples.items()}


def _cpu_sample(call: Call, count: int, which: Iterator[int]) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        call(next(which))
    return (time.perf_counter() - begun) / count


def _cuda_sample(call: Call, count: int, which: Iterator[int]) -> float:
    """By events on the device; where a call takes longer to launch than to run, that is what is measured."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(count):
        call(next(which))
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count
