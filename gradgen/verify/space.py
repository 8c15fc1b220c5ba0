"""The inputs of an exhaustive run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gradgen.verify import points

PIECE = 1 << 16  # numbers at a time: a few columns of them stay in a core's own cache
_PIECES_ON_CUDA = 64  # so many more at a time that starting to work on them takes less time than the work
_TUPLES = 10_000_000  # of several inputs
_MOST_OF_GRID = 1 << 14
_SIGNED = {16: torch.int16, 32: torch.int32}

# Odd, and near 2**32 times the golden section and other irrational numbers: their multiples fill all dimensions evenly.
_STEPS = (2654435769, 3242174889, 2447445413, 3535990533, 1779033703, 3144134277, 2869860233, 1013904243)


class Space:
    """The inputs of an exhaustive run, in chunks.

    For an op of one input these are all bit patterns, NaN among them, and of float32 every `stride`-th. For several
    inputs they are tuples that are spread evenly over the bit patterns, preceded by combinations of special numbers.

    Args:
        names: the inputs.
        dtype: float16, bfloat16 or float32.
        stride: by how much to thin float32 numbers, or tuples.
        device: where they are made.
        pieces: how many times `PIECE` numbers there are in a chunk; None for what suits the device.
    """

    def __init__(
        self, names: Sequence[str], dtype: torch.dtype, stride: int, device: str = "cpu", pieces: int | None = None
    ) -> None:
        self.names, self.dtype, self.device = names, dtype, torch.device(device)
        self._pieces = pieces or (_PIECES_ON_CUDA if self.device.type == "cuda" else 1)
        self._chunk = self._pieces * PIECE
        self._bits = points.width(dtype)
        self._single = len(names) == 1
        self._step = stride if dtype == torch.float32 or not self._single else 1
        self._first = torch.arange(self._chunk, device=self.device)
        self._total = -(-(1 << self._bits if self._single else _TUPLES) // self._step)

    def __len__(self) -> int:
        """How many chunks there are."""
        return -(-self._total // self._chunk) + (not self._single)

    @property
    def pieces(self) -> int:
        """How many pieces there are in all, but for the combinations of special numbers."""
        return -(-self._total // PIECE)

    def first_piece(self, k: int) -> int:
        """How many pieces come before a chunk; the combinations of special numbers are one, however many they are."""
        return k * self._pieces if self._single or k == 0 else (k - 1) * self._pieces + 1

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        """A chunk: a column for each input."""
        if self._single:
            return {self.names[0]: self._numbers(self._indices(k) * self._step)}
        if k == 0:
            values = [*points.special(self.dtype), math.inf, -math.inf]
            grid = points.grid(self.names, values, _MOST_OF_GRID, "grid")
            special = {name: [point[name] for point in grid] for name in self.names}
            return {name: torch.tensor(x, dtype=self.dtype, device=self.device) for name, x in special.items()}
        index = self._indices(k - 1)
        columns = [
            (index * step + j * (index >> 3)) % (1 << 32)
            for j, step in enumerate(itertools.islice(itertools.cycle(_STEPS), len(self.names)))
        ]
        return {
            name: self._numbers(column >> (32 - self._bits)) for name, column in zip(self.names, columns, strict=True)
        }

    def _indices(self, k: int) -> Tensor:
        return self._first[: self._total - k * self._chunk] + k * self._chunk

    def _numbers(self, patterns: Tensor) -> Tensor:
        """The numbers with these bit patterns."""
        return patterns.to(_SIGNED[self._bits]).view(self.dtype)
