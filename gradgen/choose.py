"""Which of the forms of a result is computed, and in which precision: the cheapest that meets the bar, by the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradgen import infinite
from gradgen.compensate import has_marks, unmarked
from gradgen.corrections import Corrections
from gradgen.graph import Node, topological
from gradgen.measure import Reference
from gradgen.printed import as_printed, printed_alone
from gradgen.quality import BAR, LOST, TARGET, Quality
from gradgen.search import Search
from gradgen.singular import Singularities
from gradgen.standing import Note, Standing
from gradgen.subproblems import Alone, Subproblems
from gradgen.worst import Worst

# A type with fewer digits than float32 asks for float64 arithmetic only where float32 has hardly a digit left.
_WIDENED = {"float32": TARGET, "bfloat16": 2.0**14, "float16": 2.0**11}

_ROUGH = ("bfloat16", "float16")  # computed in float32, of which they keep few digits

_SETTLED = "with limits at infinity"
_LARGEST = 200  # nodes of a result whose forms are looked for


@dataclass(frozen=True)
class Arithmetic:
    """In which arithmetic a kernel is computed.

    Attributes:
        wide: the types that are computed in float64.
        uncorrected: the types in which what is compensated need not be.
        is_narrow_at_defaults: whether no type needs float64 where hyper-parameters have their defaults.
    """

    wide: tuple[str, ...] = ()
    uncorrected: tuple[str, ...] = ()
    is_narrow_at_defaults: bool = False


class Choice:
    """The forms in which the results of an op are computed.

    Args:
        nodes: the results in their sound form, values and derivatives.
        others: second derivatives, of which no errors are reported.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
        origins: for some of the nodes which other one they are the derivative of, and by which input.
        written: for some of the nodes what they were before any rule.
        alone: the forms of parts of sums as functions of these inputs alone, to which those found are added.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        others: Sequence[Node],
        tensors: Sequence[str],
        hyper: Mapping[str, float | bool],
        origins: Mapping[Node, tuple[Node, Node]] | None = None,
        written: Mapping[Node, Node] | None = None,
        alone: Alone | None = None,
    ) -> None:
        self._standing = standing = Standing(nodes, others, tensors, hyper, origins or {}, written or {})
        subproblems = Subproblems(
            standing, lambda problem, known: Choice(*problem, alone=known), {} if alone is None else alone
        )
        search, singularities = Search(standing, subproblems), Singularities(standing, subproblems)
        self._corrections = Corrections(standing, singularities.unpatched)
        self._with_limits: dict[Node, Node] = {}
        self._uncompensated: dict[Node, tuple[Node, list[str]]] = {}
        for node in standing.forms:
            if node.args and len(topological([node])) <= _LARGEST:
                looked_at = search.improve(node)
                search.split(node)
                plain = standing.forms[node]  # without series, compensation and limits at infinity
                standing.candidates.take(node, plain, is_smooth=plain in standing.switched)
                singularities.mend(node, looked_at)
                self._uncompensated[node] = standing.forms[node], [note.what for note in standing.notes[node]]
                self._corrections.compensate(node)
                self._settle(node)

    def _settle(self, node: Node) -> None:
        """Give the form its limits at infinite inputs where it is NaN."""
        standing = self._standing
        form = standing.forms[node]
        new = self._settled(node, form)
        if new is not form:
            standing.take(node, new, standing.quality[node], standing.notes[node], _SETTLED, "the other is NaN there")

    def _settled(self, node: Node, form: Node) -> Node:
        """A form of a result with its limits at infinite inputs where it is NaN."""
        if form not in self._with_limits:
            standing = self._standing
            exact = standing.references.exact(standing.column(node))
            printed = printed_alone(form)
            self._with_limits[form] = infinite.settled(form, printed, exact, standing.tensors, standing.hyper)
        return self._with_limits[form]

    def form(self, node: Node) -> Node:
        """The form in which a result is computed."""
        return self._standing.forms.get(node, node)

    @property
    def notes(self) -> Mapping[Node, Sequence[Note]]:
        """For each result in what form it is computed, where that is not the one that was given."""
        return self._standing.notes

    def smooth(self, node: Node) -> Node:
        """The form of a result for autograd to differentiate: as it was given, but where that keeps no digits.

        Exponentials of which quotients are made, and corrections for rounding, make no good derivatives.
        """
        standing = self._standing
        if node not in standing.forms:
            return node
        given, chosen = standing.sound[node].double, standing.quality[node].double
        if node in standing.filled or chosen.ordinary <= LOST < given.ordinary:
            return unmarked([standing.forms[node]])[0]
        return self._settled(node, node)

    def uncompensated(self, node: Node) -> Iterator[tuple[Node, list[str]]]:
        """The form of a result without compensation, and what it is; the same with limits at infinite inputs."""
        form, notes = self._uncompensated.get(node, (node, []))
        yield form, notes
        if node in self._uncompensated:
            yield self._settled(node, form), [*notes, _SETTLED]

    def sound(self, node: Node) -> Quality:
        """The modelled errors of a result in the form that was given."""
        return self._standing.sound[node]

    def quality(self, node: Node) -> Quality:
        """The modelled errors of a result."""
        return self._standing.quality[node]

    def uncorrected(self, node: Node) -> Worst:
        """The modelled errors of a result of float32 in float32 arithmetic, without corrections."""
        return self._corrections.uncorrected(node)

    def arithmetic(self, nodes: Sequence[Node]) -> Arithmetic:
        """In which arithmetic a kernel that computes these results is best computed."""
        forms = self._standing.forms
        known = [node for node in nodes if node in forms]
        marked = [node for node in known if has_marks([forms[node]])]
        narrow = not any(map(self._corrections.is_corrected, marked))
        wide = self.wide(nodes)
        kinds = ("float32", *_ROUGH) if narrow else _ROUGH
        uncorrected = tuple(dtype for dtype in kinds if dtype not in wide) if marked else ()
        is_seen = all(self._standing.references.is_dense(forms[node]) for node in known)
        return Arithmetic(wide, uncorrected, bool(wide) and is_seen and not self.wide(nodes, at_defaults=True))

    def wide(self, nodes: Sequence[Node], at_defaults: bool = False) -> tuple[str, ...]:
        """The types of which a kernel that computes these results is better computed in float64.

        Where hyper-parameters are near their defaults, or just where they have them, without corrections.
        """
        known = [node for node in nodes if node in self._standing.forms]
        found = [self.quality(node) for node in known]
        every = [(quality.single.error, quality.wide.error) for quality in found]
        ordinary = [(quality.single.ordinary, quality.wide.ordinary) for quality in found]
        is_corrected = any(map(self._corrections.is_corrected, known))
        if at_defaults:
            every = [(self.uncorrected(node).at_defaults, self.quality(node).wide.at_defaults) for node in known]
            is_corrected = False
        if any(min(pair) > LOST for pair in every):
            every = ordinary  # by where something can be saved
        errors = {"float32": every, "bfloat16": every, "float16": ordinary}  # which has no other numbers
        return tuple(dtype for dtype, most in _WIDENED.items() if _gains(errors[dtype], most, is_corrected))


def is_sound(nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> bool:
    """Whether nodes, just as they are, meet the bar where their results are no subnormal numbers."""
    printed = as_printed(nodes)
    return all(
        worst.normal <= BAR
        for dtype in ("float32", "float64")
        for worst in Reference(nodes, tensors, hyper, dtype).worst(printed, range(len(nodes)), near=False)
    )


def _gains(errors: Sequence[tuple[float, float]], most: float, is_corrected: bool) -> bool:
    """Whether errors, each in float32 arithmetic and in float64, are so large in the one that the other is worth it.

    Where something is compensated in float32 it always is: two roundings are cheaper than all corrections.
    """
    narrow, widened = map(max, zip(*errors, strict=True)) if errors else (0.0, 0.0)
    if is_corrected:
        narrow = max(narrow, math.nextafter(TARGET, math.inf))
    return narrow > most and widened < narrow
