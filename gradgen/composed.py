"""Functions that kernels compute by others, in as many operations: the texts of `special` and `scaled` once more, for
the model, which rounds each operation and lets the others err.

Not the logistic density: beside a sigmoid of the same argument their seven roundings and one exponential seldom meet in
the points that are looked at, and do in one of all floats. It is off by what its row in the table says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradgen.scaled import VANISHING

Array = Any  # of doubles


@dataclass(frozen=True)
class Others:
    """What the texts are made of.

    Attributes:
        function: a function by its name and arguments.
        rounded: the nearest numbers of the type.
    """

    function: Callable[..., Array]
    rounded: Callable[[Array], Array]


def _sigmoid(by: Others, x: Array) -> Array:
    e = by.function("exp", -abs(x))
    return by.rounded(np.where(x >= 0, 1.0, e) / by.rounded(1 + e))


def _softplus(by: Others, x: Array) -> Array:
    return by.rounded(np.maximum(x, 0.0) + by.function("log1p", by.function("exp", -abs(x))))


def _logaddexp(by: Others, a: Array, b: Array) -> Array:
    d = np.where(a == b, 0.0, by.rounded(abs(a - b)))
    return by.rounded(np.maximum(a, b) + by.function("log1p", by.function("exp", -d)))


def _sech(by: Others, x: Array) -> Array:
    e = by.function("exp", -abs(x))
    return by.rounded(2 * e / by.rounded(1 + by.rounded(e * e)))


def _csch(by: Others, x: Array) -> Array:
    a = abs(x)
    return np.copysign(by.rounded(2 * by.function("exp", -a) / -by.function("expm1", -2 * a)), x)


def _mul_sigmoid(by: Others, r: Array, t: Array) -> Array:
    d = -abs(t)
    product = by.function("mul_exp", r, d)
    return by.rounded(np.where(t >= 0, r, product) / by.rounded(1 + by.function("exp", d)))


def _mul_logistic_density(by: Others, r: Array, t: Array) -> Array:
    d = -abs(t)
    e = by.function("exp", d)
    return by.rounded(by.function("mul_exp", r, d) / by.rounded(1 + by.rounded(e * e + 2 * e)))


def _mul_sech(by: Others, r: Array, t: Array) -> Array:
    d = -abs(t)
    e = by.function("exp", d)
    return by.rounded(2 * by.function("mul_exp", r, d) / by.rounded(1 + by.rounded(e * e)))


_TEXTS: tuple[Callable[..., Array], ...] = (
    *(_sigmoid, _softplus, _logaddexp, _sech, _csch),
    *(_mul_sigmoid, _mul_logistic_density, _mul_sech),
)


def _lifting(text: Callable[..., Array]) -> Callable[..., Array]:
    """r * f(t), r where that is infinite."""
    return lambda by, r, t: np.where(np.isinf(r), r, text(by, r, t))


# By the names of the table of primitives: from what it is made of and its operands to its values
TEXTS: dict[str, Callable[..., Array]] = {text.__name__.removeprefix("_"): text for text in _TEXTS}
TEXTS |= {f"lift_{name}": _lifting(TEXTS[f"mul_{name}"]) for name in VANISHING if f"mul_{name}" in TEXTS}
