"""Random numbers, very many at once, the same on every machine and with every version of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradgen.ulp import Array

_DIGITS = 53  # of a float64


class Draws:
    """A sequence of random numbers, of which each call takes the next ones.

    Args:
        seed: what tells one sequence from another.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)  # the stream of a generator of bits does not change, others' may

    def shares(self, *shape: int) -> Array:
        """Numbers from 0 up to 1, less than that."""
        raw = self._bits.random_raw(int(np.prod(shape))).reshape(shape)
        shares: Array = (raw >> np.uint64(64 - _DIGITS)) * 2.0**-_DIGITS
        return shares

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        """Numbers from one up to another, less than that."""
        return low + (high - low) * self.shares(*shape)

    def integers(self, low: Any, high: Any, *shape: int) -> Array:
        """Whole numbers from one up to another, less than that; either may be an array of this shape."""
        found: Array = low + np.floor((high - low) * self.shares(*shape)).astype(np.int64)
        return found

    def choices(self, values: Sequence[float], *shape: int) -> Array:
        """Some of these values, each as likely."""
        chosen: Array = np.array(values)[self.integers(0, len(values), *shape)]
        return chosen

    def signs(self, *shape: int) -> Array:
        """1 and -1, each as likely."""
        return self.choices((1, -1), *shape)
