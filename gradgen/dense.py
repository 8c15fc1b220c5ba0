"""The modelled errors of functions at very many inputs, where float64 arithmetic is taken for exact.

Of float64 itself it can tell no errors: "short" numbers stand for its numbers, with the digits of float32 and the range
of float64.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from functools import cache

import numpy as np

from gradgen.graph import Node
from gradgen.model import FORMATS, program
from gradgen.points import EXTREME, IRRATIONAL
from gradgen.ulp import MANTISSA, SMALLEST_EXPONENT, Array, Right
from gradgen.worst import Place, Worst

Columns = Mapping[str, Array]

_TUPLES, _WITHIN = 1 << 12, (1, 3)  # of several inputs, within these powers of two and their inverses by turns,
_NEGATIVE = 0.25  # and what share of them is negative
_IN_BINADE, _FEWER = 1024, 8  # inputs of each exponent, and what share of that there is of others
_CURVED = range(-10, 8)  # than these
_BLOCK = 1 << 14  # of how many inputs there is all at once: what fits into a cache is had sooner
_THINNER = 4  # every so many of them for float64, whose compensated forms take long
_STEP = 2.0**-22  # by what share an input is moved for a derivative
_ORDINARY = 2.0**5  # the size of ordinary inputs, or its inverse
_NOTABLE = 1.0  # errors up to this are looked at only where there are no others


class Dense:
    """Very many numbers of an input, or tuples of several, and what errors are there.

    Args:
        dtype: "float32" or "float64", the type of inputs and results.
        tensors: the names of the inputs.
        hyper: a value for each hyper-parameter.
        is_default: whether these are the defaults.
    """

    def __init__(self, dtype: str, tensors: Sequence[str], hyper: Mapping[str, float | bool], is_default: bool) -> None:
        self._form = "short" if dtype == "float64" else dtype
        self._least_normal = math.ldexp(1.0, SMALLEST_EXPONENT[self._form])
        self._least_ordinary = math.ldexp(self._least_normal, MANTISSA[dtype])
        thinner = 1 if dtype == "float32" else _THINNER
        numbers = drawn(len(tensors))
        numbers = numbers[:, ::thinner] if len(tensors) == 1 else numbers
        self._columns: Columns = dict(zip(tensors, numbers, strict=True))
        self._hyper, self._is_default = hyper, is_default
        self._given = as_given(hyper, self._form)
        self._known: dict[Node, Worst] = {}

    def errors(self, roots: Sequence[Node]) -> list[Worst]:
        """The worst errors of nodes as they are printed, all of whose functions are quick to compute."""
        new = [root for root in roots if root not in self._known]
        if new:
            self._known.update(zip(new, self._found(new), strict=True))
        return [self._known[root] for root in roots]

    def between(
        self,
        root: Node,
        forms: Sequence[Node],
        parts: Sequence[Collection[int]],
        u: Node,
        ends: Sequence[float],
        finer: int,
        half: int,
    ) -> Array:
        """The worst errors of forms of a root at half of the inputs of ordinary size, or of so many times as many.

        Of nodes as they are printed, all of whose functions are quick to compute; u is to be one of them.

        Args:
            root: what the forms are to equal.
            forms: nodes.
            parts: for each form in which parts of the values of u it is looked at.
            u: a node.
            ends: where these parts meet.
            finer: how many times as many inputs.
            half: which half of them, 0 or 1.

        Returns:
            for each form the worst error in each part, 0 in others.
        """
        every = _ordinary(len(self._columns), finer)
        found = np.zeros((len(forms), len(ends) + 1))
        for begin in range(half * _BLOCK, every.shape[1], 2 * _BLOCK):
            columns = dict(zip(self._columns, every[:, begin : begin + _BLOCK], strict=True))
            exact, argument = self._computed([root, u], "wide", columns)
            part_of = np.where(np.isfinite(exact), np.searchsorted(ends, argument, side="right"), -1)
            for part in range(len(ends) + 1):
                which = [k for k, some in enumerate(parts) if part in some]
                at = np.flatnonzero(part_of == part)
                if which and len(at):
                    worst = self._worst_at(root, [forms[k] for k in which], columns, at, exact[at])
                    found[which, part] = np.maximum(found[which, part], worst)
        return found

    def _worst_at(self, root: Node, forms: Sequence[Node], columns: Columns, at: Array, exact: Array) -> Array:
        """The worst errors of forms of a root at some places in columns of inputs, from the exact values there."""
        inputs = {name: x[at] for name, x in columns.items()}
        values = np.array(self._computed(forms, self._form, inputs, at))
        alone = Right.of_doubles(exact, 0.0, self._form)
        most = np.array([alone.errors(value) for value in values])  # by the result alone: the scale makes less of it

        def errors(where: Array) -> Array:
            there = {name: x[where] for name, x in inputs.items()}
            shift = scale_of(root, there, self._given, exact[where], at[where])
            use = np.isfinite(shift)
            right = Right.of_doubles(exact[where][use], shift[use], self._form)
            return np.array([right.errors(value[where][use]).max(initial=0.0) for value in values])

        least = errors(np.flatnonzero(np.bincount(most.argmax(axis=1))))
        return np.maximum(least, errors(np.flatnonzero((most > least[:, None]).any(axis=0))))

    def _found(self, roots: Sequence[Node]) -> list[Worst]:
        exact, values = self._computed(roots, "wide", self._columns), self._computed(roots, self._form, self._columns)
        most = [  # by the result alone, of which the scale can only make less
            np.where(np.isfinite(right), Right.of_doubles(right, 0.0, self._form).errors(value), 0.0)
            for right, value in zip(exact, values, strict=True)
        ]
        found = [Worst(0.0)] * len(roots)
        for least in (_NOTABLE, 0.0):  # mostly the first few tell
            unknown = [k for k, worst in enumerate(found) if worst.error < _NOTABLE]
            worse = [most[k] > max(least, found[k].error) for k in unknown]
            at = np.flatnonzero(np.any(worse, axis=0)) if worse else np.zeros(0, int)
            columns = {name: x[at] for name, x in self._columns.items()}
            moved = [self._computed(roots, "wide", {**columns, name: x * (1 + _STEP)}) for name, x in columns.items()]
            for k in unknown:
                others = [results[k] for results in moved]
                found[k] = found[k].including(self._worst(columns, exact[k][at], others, values[k][at]))
        return found

    def _computed(self, roots: Sequence[Node], form: str, columns: Columns, turns: Array | None = None) -> list[Array]:
        return computed(roots, form, columns, self._given, turns)

    def _worst(self, columns: Columns, exact: Array, moved: Sequence[Array], computed: Array) -> Worst:
        """The worst error at some inputs; `moved` is the exact result where one is larger by a share of `_STEP`."""
        shift = _shift(exact, moved)
        use = np.isfinite(exact) & np.isfinite(shift)
        columns, size = {name: x[use] for name, x in columns.items()}, abs(exact[use])

        def there(place: int) -> Place:
            return (*((name, float(x[place])) for name, x in columns.items()), *self._hyper.items())

        errors = Right.of_doubles(exact[use], shift[use], self._form).errors(computed[use])
        return Worst.of(
            errors,
            there,
            0,
            ordinary=(size > self._least_ordinary) & (size < 1 / self._least_ordinary),
            above=next(iter(columns.values())) >= 0,
            at_defaults=np.full(len(errors), self._is_default),
            normal=size >= self._least_normal,
        )


def computed(
    roots: Sequence[Node],
    form: str,
    columns: Columns,
    hyper: Mapping[str, float | bool],
    turns: Array | None = None,
) -> list[Array]:
    """Nodes, all of whose functions are quick to compute, in some arithmetic, rounded to its type.

    `turns` says for each input to which side the functions err, if not to one after the other.
    """
    compute = program(tuple(roots), form, is_quick=True)
    count = len(next(iter(columns.values())))
    inputs = {**columns, **{name: np.full(count, float(value)) for name, value in hyper.items()}}
    return [FORMATS[form].nearest(value) for value in compute.on(inputs, np.arange(count) if turns is None else turns)]


def as_given(hyper: Mapping[str, float | bool], form: str) -> dict[str, float]:
    """Hyper-parameters as a kernel has them, numbers of the type: of others error-free transformations are in error."""
    return {name: FORMATS[form].rounded(float(value)) for name, value in hyper.items()}


def scale_of(
    root: Node,
    columns: Columns,
    hyper: Mapping[str, float | bool],
    exact: Array,
    turns: Array | None = None,
) -> Array:
    """|x * d exact/dx|, the largest of the inputs x, of a node with these exact values; `turns` as of `computed`."""
    every = ({**columns, name: x * (1 + _STEP)} for name, x in columns.items())
    return _shift(exact, [computed([root], "wide", moved, hyper, turns)[0] for moved in every])


def _shift(exact: Array, moved: Sequence[Array]) -> Array:
    """|x * d exact/dx|, the largest of the inputs x, from results where one of them is larger by a share of `_STEP`."""
    with np.errstate(all="ignore"):
        return np.max([abs(other - exact) for other in moved], axis=0) / _STEP  # type: ignore[no-any-return]


@cache
def drawn(count: int) -> Array:
    """Numbers for so many inputs, each a row."""
    return _numbers(range(1 - EXTREME, EXTREME), _IN_BINADE)[None] if count == 1 else _tuples(count, _TUPLES)


@cache
def _ordinary(count: int, finer: int) -> Array:
    """Numbers of ordinary size for so many inputs, so many times as many."""
    most = int(math.log2(_ORDINARY))
    one = count == 1
    every = _numbers(range(-most, most), _IN_BINADE * finer)[None] if one else _tuples(count, _TUPLES * finer)
    return every[:, np.all((abs(every) > 1 / _ORDINARY) & (abs(every) < _ORDINARY), axis=0)]


def _numbers(powers: range, in_binade: int) -> Array:
    """float32 numbers, as many of each sign and of each of these exponents, spread evenly and without a pattern.

    Where functions neither have their limits nor are about linear there are more.
    """
    within = 1 + np.arange(1, in_binade + 1) * IRRATIONAL[0] % 1
    sizes = np.concatenate(
        [2.0**power * within[: None if power in _CURVED else in_binade // _FEWER] for power in powers]
    )
    return FORMATS["float32"].nearest(np.concatenate([sizes, -sizes]))  # type: ignore[no-any-return]


def _tuples(count: int, often: int) -> Array:
    """float32 numbers for so many inputs, of ordinary size, about a quarter of them negative."""
    randoms = random.Random(0)

    def number(within: int) -> float:
        size = math.ldexp(1 + randoms.random(), randoms.randrange(-within, within))
        return -size if randoms.random() < _NEGATIVE else size

    rows = [[number(_WITHIN[k % len(_WITHIN)]) for _ in range(count)] for k in range(often)]
    return FORMATS["float32"].nearest(np.array(rows).T)  # type: ignore[no-any-return]
