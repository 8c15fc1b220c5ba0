"""The modelled errors of functions of one input at very many numbers, where float64 arithmetic is taken for exact.

Of float64 itself it can tell no errors: "short" numbers stand for its numbers, with the digits of float32 and the range
of float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from gradgen.graph import Node
from gradgen.model import FORMATS, program
from gradgen.points import EXTREME, IRRATIONAL
from gradgen.ulp import MANTISSA, SMALLEST_EXPONENT, Array, Right
from gradgen.worst import Place, Worst

_IN_BINADE, _FEWER = 1024, 8  # inputs of each exponent, and what share of that there is of others
_CURVED = range(-10, 8)  # than these
_THINNER = 4  # every so many of them for float64, whose compensated forms take long
_STEP = 2.0**-22  # by what share an input is moved for a derivative
_NOTABLE = 1.0  # errors up to this are looked at only where there are no others


class Dense:
    """Very many numbers of an input, and what errors are there.

    Args:
        dtype: "float32" or "float64", the type of inputs and results.
        tensor: the name of the input.
        hyper: a value for each hyper-parameter.
        is_default: whether these are the defaults.
    """

    def __init__(self, dtype: str, tensor: str, hyper: Mapping[str, float | bool], is_default: bool) -> None:
        self._form = "short" if dtype == "float64" else dtype
        self._least_normal = math.ldexp(1.0, SMALLEST_EXPONENT[self._form])
        self._least_ordinary = math.ldexp(self._least_normal, MANTISSA[dtype])
        self._x = _numbers()[:: 1 if dtype == "float32" else _THINNER]
        self._tensor, self._hyper, self._is_default = tensor, hyper, is_default
        # Numbers of the type, as a kernel has them: of others error-free transformations are not free of errors.
        self._given = {name: FORMATS[self._form].rounded(float(value)) for name, value in hyper.items()}
        self._known: dict[Node, Worst] = {}

    def errors(self, roots: Sequence[Node]) -> list[Worst]:
        """The worst errors of nodes as they are printed, all of whose functions are quick to compute."""
        new = [root for root in roots if root not in self._known]
        if new:
            self._known.update(zip(new, self._found(new), strict=True))
        return [self._known[root] for root in roots]

    def _found(self, roots: Sequence[Node]) -> list[Worst]:
        exact, values = self._computed(roots, "wide", self._x), self._computed(roots, self._form, self._x)
        most = [  # by the result alone, of which the scale can only make less
            np.where(np.isfinite(right), Right.of_doubles(right, 0.0, self._form).errors(value), 0.0)
            for right, value in zip(exact, values, strict=True)
        ]
        found = [Worst(0.0)] * len(roots)
        for least in (_NOTABLE, 0.0):  # mostly the first few tell
            unknown = [k for k, worst in enumerate(found) if worst.error < _NOTABLE]
            worse = [most[k] > max(least, found[k].error) for k in unknown]
            at = np.flatnonzero(np.any(worse, axis=0)) if worse else np.zeros(0, int)
            moved = self._computed(roots, "wide", self._x[at] * (1 + _STEP))
            for k in unknown:
                found[k] = found[k].including(self._worst(self._x[at], exact[k][at], moved[k], values[k][at]))
        return found

    def _computed(self, roots: Sequence[Node], form: str, x: Array) -> list[Array]:
        """The roots in some arithmetic, rounded to its type."""
        compute = program(tuple(roots), form, is_quick=True)
        inputs = {self._tensor: x, **{name: np.full(len(x), value) for name, value in self._given.items()}}
        return [FORMATS[form].nearest(value) for value in compute.on(inputs, np.arange(len(x)))]

    def _worst(self, x: Array, exact: Array, moved: Array, computed: Array) -> Worst:
        """The worst error at some inputs; `moved` is the exact result where they are larger by a share of `_STEP`."""
        with np.errstate(all="ignore"):
            shift = abs(moved - exact) / _STEP
        use = np.isfinite(exact) & np.isfinite(shift)
        x, size = x[use], abs(exact[use])

        def there(place: int) -> Place:
            return ((self._tensor, float(x[place])), *self._hyper.items())

        errors = Right.of_doubles(exact[use], shift[use], self._form).errors(computed[use])
        return Worst.of(
            errors,
            there,
            0,
            ordinary=(size > self._least_ordinary) & (size < 1 / self._least_ordinary),
            above=x >= 0,
            at_defaults=np.full(len(errors), self._is_default),
            normal=size >= self._least_normal,
        )


@cache
def _numbers() -> Array:
    """float32 numbers, as many of each sign and ordinary exponent, spread evenly and without a pattern.

    Where functions neither have their limits nor are about linear there are more.
    """
    within = 1 + np.arange(1, _IN_BINADE + 1) * IRRATIONAL[0] % 1
    sizes = np.concatenate(
        [
            2.0**power * within[: None if power in _CURVED else _IN_BINADE // _FEWER]
            for power in range(1 - EXTREME, EXTREME)
        ]
    )
    return FORMATS["float32"].nearest(np.concatenate([sizes, -sizes]))  # type: ignore[no-any-return]
