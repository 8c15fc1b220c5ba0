"""The modelled errors of the forms of some results, in float32 and in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from gradgen import infinite, joined, pair, points
from gradgen.compensate import has_marks, unmarked
from gradgen.dense import Dense
from gradgen.graph import RELATIONS, Node, coefficient, topological
from gradgen.measure import LEAST_REACH, Reference
from gradgen.model import Array, Point, is_quick, program
from gradgen.printed import as_printed, printed_alone
from gradgen.quality import BAR, TARGET, Quality, steps
from gradgen.settled import ExactValues
from gradgen.variables import solved_for
from gradgen.worst import Worst

_LEAST_SWITCH = 2.0**-20  # in size; those beyond are where something overflows or vanishes
_HOPELESS = 1.5  # times the error of the best form
_BESIDE = (0.6, 0.8, 0.9, 0.952, 0.97, 0.991, 1.002, 1.02, 1.1, -0.7, -0.85, -0.935, -0.98, -1.006, -1.2)
_INSIDE = (0.97, 0.4, -0.97, -0.4)
_AT_ENDS = (*_BESIDE, 0.9985, -0.9975)


class References:
    """What the forms of some results are held against.

    Args:
        nodes: the results, each of which is a column.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
    """

    def __init__(self, nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> None:
        self._nodes, self._tensors, self._hyper = nodes, tensors, hyper
        self._exact = ExactValues(nodes)
        self._of_sides = tuple(
            Reference(nodes, tensors, hyper, dtype, centres_of(nodes)) if pair.does(side) else None
            for side, dtype in enumerate(("float32", "float64"))
        )

    @property
    def _single(self) -> Reference:
        return self._of(0)

    @property
    def _double(self) -> Reference:
        return self._of(1)

    def _of(self, side: int) -> Reference:
        """What is known in one of the types; of a pair of processes either has one."""
        reference = self._of_sides[side]
        assert reference is not None
        return reference

    def measured(self, forms: Sequence[Node], columns: Sequence[int], near: bool) -> list[Quality]:
        """The errors of forms of some columns; with `near` also close to where they are large."""
        printed = as_printed(forms)

        def in_single() -> tuple[list[Worst], ...]:
            single = self._single.worst(printed, columns, near=near)
            wide, is_marked = single, has_marks(forms)
            if is_marked or any(worst.error > TARGET for worst in single):
                wide = self._single.worst(printed, columns, "wide", near=False)
            precise = wide
            if is_marked and any(worst.error > TARGET for worst in wide):
                precise = self._single.worst(printed, columns, "float64", near=False)
            return single, wide, precise

        narrow, double = pair.both(forms, in_single, lambda: self._double.worst(printed, columns, near=near))
        return [Quality(*row) for row in zip(*narrow, double, strict=True)]

    def steps_of_double(self, form: Node, column: int) -> int:
        """The first part of the rank of a form's errors, those of float64, at the points that all forms are held to."""
        printed = as_printed([form])
        (worst,) = pair.by(1, [form], lambda: self._double.worst(printed, [column], near=False))
        return steps(worst)

    def elsewhere(self, forms: Sequence[Node], columns: Sequence[int]) -> list[Quality]:
        """The errors of forms of some columns where one of several inputs is 0, or about 1, or two nearly meet."""
        printed = [*map(printed_alone, forms)]

        def at(dtype: str) -> list[Point]:
            return [{**point, **self._hyper} for point in points.elsewhere(self._tensors, dtype)]

        def in_single() -> tuple[list[Worst], ...]:
            worst = self._single.worst_at(at("float32"), printed, columns, ("float32", "wide", "float64"))
            single, wide = next(worst), next(worst)
            precise = next(worst) if has_marks(forms) and any(one.error > TARGET for one in wide) else wide
            return single, wide, precise

        def in_double() -> list[Worst]:
            return next(self._double.worst_at(at("float64"), printed, columns, ("float64",)))

        narrow, double = pair.both(forms, in_single, in_double)
        return [Quality(*row) for row in zip(*narrow, double, strict=True)]

    def look_densely(self) -> None:
        """From now on look at very many ordinary inputs, too."""
        for reference in filter(None, self._of_sides):
            reference.look_densely()

    def between(
        self, forms: Sequence[joined.Form], column: int, u: Node, ends: Sequence[float], finer: int = 1
    ) -> list[list[float]] | None:
        """The worst errors of forms in float32 where u is in the parts between some ends, at very many ordinary inputs.

        None if that takes long.
        """
        root, nodes = self._nodes[column], [printed_alone(form.node) for form in forms]
        if not all(is_quick(topological([node])) for node in (root, *nodes, u)):
            return None
        dense = Dense("float32", self._tensors, self._hyper, is_default=True)

        def of_blocks(which: int) -> Array:
            return dense.between(root, nodes, [form.parts for form in forms], u, ends, finer, which)

        even, odd = pair.both(nodes, partial(of_blocks, 0), partial(of_blocks, 1))
        return np.maximum(even, odd).tolist()  # type: ignore[no-any-return]

    def amplified(self, form: Node, column: int) -> float:
        """By how much a form multiplies the errors of functions, where nothing overflows, in units of float32."""
        printed = printed_alone(form)
        return pair.by(0, [form], lambda: self._single.amplified(printed, column))

    def moderate(self, form: Node, column: int, most: float) -> float:
        """The worst error of a form in float32 arithmetic where no input is very small, or larger than `most`."""
        printed = printed_alone(form)
        return pair.by(0, [form], lambda: self._single.moderate(printed, column, most))

    def exact(self, column: int) -> infinite.Exact:
        """The exact value of a result at a point."""
        return partial(self._exact, column)

    def is_same(self, form: Node, column: int) -> bool:
        """Whether a form equals a result in exact arithmetic, as far as a few points can tell."""
        return pair.by(0, [form], lambda: self._single.is_same(form, column))

    def is_limit(self, form: Node, column: int) -> bool:
        """Whether a form of a function of one input is what that tends to where the input is 0."""
        return len(self._tensors) == 1 and pair.by(1, [form], lambda: self._double.is_limit_at_zero(form, column))

    def is_dense(self, form: Node) -> bool:
        """Whether a form is looked at in very many inputs."""
        plain = unmarked([form])
        return pair.by(0, [form], lambda: self._single.is_dense(plain))

    def is_quick(self, form: Node) -> bool:
        """Whether very many points near what is worst are looked at."""
        return is_quick(topological([printed_alone(form)]))

    def is_hopeless(self, form: Node, column: int, best: Quality) -> bool:
        """Whether a form is so much worse than the best that it need not be measured."""
        return pair.by(1, [form], partial(self._is_hopeless, printed_alone(form), column, best))

    def _is_hopeless(self, printed: Node, column: int, best: Quality) -> bool:
        return self._double.is_hopeless(printed, column, _HOPELESS * max(best.double.error, TARGET))

    def screened(self, form: Node, column: int, best: Quality) -> tuple[bool, bool]:
        """Whether a form is hopeless, and whether it is the same; one of several inputs not if hopeless."""
        if len(self._tensors) > 1:
            is_hopeless = self.is_hopeless(form, column, best)
            return is_hopeless, not is_hopeless and self.is_same(form, column)
        hopeless = partial(self._is_hopeless, printed_alone(form), column, best)
        is_same, is_hopeless = pair.both([form], lambda: self._single.is_same(form, column), hopeless)
        return is_hopeless, is_same

    def switch(self, forms: Sequence[Node], column: int) -> tuple[float, int, int]:
        """Below which |x| which of the forms is best, and which one beyond."""
        printed = [*map(printed_alone, forms)]
        return pair.by(1, forms, lambda: self._double.switch(printed, column, BAR))

    def reaches(self, form: Node, variable: Node, column: int, beyond: float = TARGET) -> list[float]:
        """How far from zero a series might be used: as far as float32 asks for, or float64, or not as far.

        Nothing if what is wrong, by more than this error, is not near zero.
        """
        printed = printed_alone(form)

        def in_single() -> list[float]:
            return [self._single.reach(printed, column, variable, beyond, kind) for kind in ("float32", "wide")]

        def in_double() -> float:
            return self._double.reach(printed, column, variable, beyond, "float64")

        (narrow, wide), double = pair.both([form], in_single, in_double)
        least, most = max(LEAST_REACH, wide, double), max(narrow, wide, double)
        return sorted({most, least, least / 2, least / 4, least / 8}) if most else []

    def is_harmless(
        self, form: Node, other: Node, column: int, place: Node, reach: float, beside: Sequence[Node] = ()
    ) -> bool:
        """Whether a form that is to replace another one near 0 of a variable is not far off there where that is not.

        Of several inputs the points that are looked at always may all be elsewhere. Those `beside` the variable are
        also looked at where their products with it are no small numbers.
        """
        found = solved_for(place, self._tensors) if len(self._tensors) > 1 else None
        if found is None:
            return True
        one, before = map(printed_alone, (form, other))
        inside = [reach * share for share in _INSIDE]
        names = [str(x.value) for x in beside]
        return pair.by(1, [form, other], lambda: self._double.is_no_worse(one, before, column, found, inside, names))

    def is_input(self, place: Node) -> bool:
        """Whether a variable is all that the results are functions of."""
        return place.op == "input" and len(self._tensors) == 1

    def look_beside(self, ends: Collection[float], place: Node) -> None:
        """Look also just inside and outside of where a series in the only input, or what is linear in it, might end."""
        found = solved_for(place, self._tensors) if len(self._tensors) == 1 else None
        if self.is_input(place):
            self._look_beside(ends, _BESIDE)
        elif found is not None:
            values = [size * share for size in sorted({*map(abs, ends)} - {0}) for share in _BESIDE]
            hypers = points.hyper_parameters(self._hyper, "float64")
            at = [{**hyper, str(found.variable.value): value} for hyper in hypers for value in values]
            inputs = program((found.solution,), "float64")(at)[0]
            (name,) = self._tensors
            moved = zip(itertools.product(hypers, values), inputs, strict=True)
            self._look_at([{**hyper, name: float(x)} for (hyper, _), x in moved if math.isfinite(x)])

    def look_at_switches(self, form: Node) -> None:
        """Look also just inside and outside of where a form of the only input switches to another one."""
        if len(self._tensors) == 1:
            self._look_beside(_switches([form], self._tensors[0]), _AT_ENDS)

    def _look_beside(self, ends: Iterable[float], shares: Sequence[float]) -> None:
        """Look just inside and outside of some values of the only input."""
        (name,), sizes = self._tensors, sorted(set(map(abs, ends)) - {0})
        self._look_at([{**self._hyper, name: size * share} for size in sizes for share in shares])

    def _look_at(self, at: Sequence[Point]) -> None:
        for reference in filter(None, self._of_sides):
            reference.look_at(at)


def _switches(nodes: Sequence[Node], name: str) -> set[float]:
    """The numbers of ordinary size at which selections in the nodes switch by an input, or by its absolute value."""
    found = set()
    for node in topological(nodes):
        for one, other in (node.args, node.args[::-1]) if node.op in RELATIONS else ():
            inside = one.args[0] if one.op == "abs" else one
            number = other.number
            if inside.op == "input" and inside.value == name and number is not None and number.is_finite:
                found.add(float(number))
    return {x for x in found if _LEAST_SWITCH <= abs(x) <= 1 / _LEAST_SWITCH}


def centres_of(nodes: Sequence[Node]) -> list[float]:
    """Where an input and a number in the nodes cancel: 1 of x - 1."""
    found = set()
    for node in topological(nodes):
        for one, other in itertools.permutations(node.args) if node.op == "add" else ():
            (a, x), b = coefficient(one), other.number
            if x is not None and x.op == "input" and a.is_comparable and b is not None and b.is_comparable:
                found.add(-float(b / a))
    return sorted(found)
