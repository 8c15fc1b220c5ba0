"""The worst of some modelled errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradgen.ulp import Array

_OFTEN = 16.0  # an error that counts as large where one asks how often it is

Place = tuple[tuple[str, float | bool], ...]


@dataclass(frozen=True, order=True)
class Worst:
    """The worst of some errors, in mixed ULPs.

    Attributes:
        error: the error.
        at: where it is.
        often: at which share of the points the error is large.
        lost: at which share it is infinite, so that the result is no number or overflows, though neither inputs nor
            what the result should be are extreme.
        ordinary: the worst error where neither inputs nor result are extreme.
        finite: the same of those that are finite.
        sides: the worst errors where the first input is negative, and where it is not.
        at_defaults: the worst error where hyper-parameters have their defaults.
        normal: the worst error where the result is no subnormal number.
    """

    error: float
    at: Place = ()
    often: float = 0.0
    lost: float = 0.0
    ordinary: float = 0.0
    sides: tuple[float, float] = (0.0, 0.0)
    at_defaults: float = 0.0
    normal: float = 0.0
    finite: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether there was any point to look at: not if the result is a number at none of them."""
        return bool(self.at)

    @property
    def place(self) -> str:
        """Where the error is, for people."""
        return ", ".join(f"{name}={value:.9g}" for name, value in self.at)

    @staticmethod
    def of(errors: Array, at: Callable[[int], Place], counted: int, **where: Array) -> Worst:
        """The worst of the errors at some points.

        Args:
            errors: the errors.
            at: tells where the point is that has an index.
            counted: of how many points, the first ones, shares are told; others were sought where errors are large.
            where: at which of them neither inputs nor result are extreme (`ordinary`), the first input is not
                negative (`above`), hyper-parameters have their defaults (`at_defaults`), the result is no subnormal
                number (`normal`).
        """
        if not len(errors):
            return Worst(0.0)
        place, shown = int(errors.argmax()), errors[:counted]
        ordinary, below, above, at_defaults, normal = (
            float(errors[which].max(initial=0.0))
            for which in (where["ordinary"], ~where["above"], where["above"], where["at_defaults"], where["normal"])
        )
        finite = float(errors[where["ordinary"] & np.isfinite(errors)].max(initial=0.0))
        is_lost = np.isinf(shown) & where["ordinary"][:counted]
        often, lost = (float(large.sum()) / max(counted, 1) for large in (shown > _OFTEN, is_lost))
        sides = below, above
        return Worst(float(errors[place]), at(place), often, lost, ordinary, sides, at_defaults, normal, finite)

    def including(self, other: Worst) -> Worst:
        """With errors that were seen elsewhere."""
        worse = max(self, other, key=lambda worst: worst.error)
        return Worst(
            worse.error,
            worse.at,
            max(self.often, other.often),
            max(self.lost, other.lost),
            max(self.ordinary, other.ordinary),
            (max(self.sides[0], other.sides[0]), max(self.sides[1], other.sides[1])),
            max(self.at_defaults, other.at_defaults),
            max(self.normal, other.normal),
            max(self.finite, other.finite),
        )
