"""The forms that the results of an op are computed in as it stands, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from gradgen import infinite
from gradgen.candidates import Candidates
from gradgen.extremes import Extremes
from gradgen.graph import Node, inputs_of, topological
from gradgen.poles import Poles
from gradgen.printed import printed_alone
from gradgen.quality import TARGET, WIDE_COST, Comparison, Quality, cost, is_better, rank
from gradgen.references import References

Form = tuple[Node, str]  # of a result, with what it is


@dataclass(frozen=True)
class Note:
    """A form that was taken, in place of the one before it.

    Attributes:
        what: the form.
        why: what it is better by.
        before: the modelled errors without it.
        after: those with it.
    """

    what: str
    why: str
    before: Quality
    after: Quality


class Problem(NamedTuple):
    """What forms are looked for of.

    Attributes:
        nodes: the results in their sound form, values and derivatives.
        others: second derivatives, of which no errors are reported.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
        origins: for some of the nodes which other one they are the derivative of, and by which input.
        written: for some of the nodes what they were before any rule.
    """

    nodes: Sequence[Node]
    others: Sequence[Node]
    tensors: Sequence[str]
    hyper: Mapping[str, float | bool]
    origins: Mapping[Node, tuple[Node, Node]] = MappingProxyType({})
    written: Mapping[Node, Node] = MappingProxyType({})

    @property
    def every(self) -> list[Node]:
        """All of the results, each once."""
        return list(dict.fromkeys([*self.nodes, *self.others]))


class Standing:
    """How the results of a problem stand.

    Args:
        problem: the results, and what they are functions of.

    Attributes:
        tensors, hyper: those of the problem.
        sound: for each result the modelled errors of the form that was given.
        forms: the form it is computed in.
        quality: the modelled errors of that.
        notes: what that is, where it is not the form that was given.
        switched: the forms that are one near 0 and another one beyond, or the like.
        filled: the results with a removable singularity that their form does without.
        patched: the results that have a series near such a one, of which derivatives are not made.
        candidates, extremes, poles: what is known of their forms.
    """

    def __init__(self, problem: Problem) -> None:
        every = problem.every
        self.tensors, self.hyper = tensors, hyper = problem.tensors, problem.hyper
        self.references = References(every, tensors, hyper)
        self.candidates = Candidates(tensors, problem.origins, problem.written)
        self.extremes = Extremes(tensors, hyper)
        self.poles = Poles(tensors, hyper)
        self.forms = {node: node for node in every}
        self.notes: dict[Node, list[Note]] = {node: [] for node in every}
        self.switched: set[Node] = set()
        self.filled: set[Node] = set()
        self.patched: set[Node] = set()
        self._columns = {node: column for column, node in enumerate(every)}
        self._reported = set(problem.nodes)
        sound = self.references.measured(every, range(len(every)), near=True)
        self.sound = dict(zip(every, sound, strict=True))
        self.quality = dict(self.sound)

    def column(self, node: Node) -> int:
        """Which of the columns of `references` a result is."""
        return self._columns[node]

    def is_reported(self, node: Node) -> bool:
        """Whether the errors of a result are reported: no second derivative."""
        return node in self._reported

    def is_poor(self, node: Node) -> bool:
        """Whether the best form of a result so far has an error, everywhere, that others may do without."""
        quality = self.quality[node]
        return max(quality.single.error, quality.double.error) > TARGET

    def measured(self, node: Node, form: Node, near: bool) -> Quality:
        """The errors of a form of a result; with `near` also close to where they are large."""
        (quality,) = self.references.measured([form], [self.column(node)], near)
        return quality

    def is_same(self, node: Node, form: Node) -> bool:
        """Whether a form equals a result in exact arithmetic, as far as a few points can tell."""
        return self.references.is_same(form, self.column(node))

    def is_hopeless(self, node: Node, form: Node) -> bool:
        """Whether a form of a result is so much worse than the best that it need not be measured."""
        return self.references.is_hopeless(form, self.column(node), self.quality[node])

    def screened(self, node: Node, form: Node) -> tuple[bool, bool]:
        """Whether a form of a result is hopeless, and whether it is the same; one of several inputs not if hopeless."""
        return self.references.screened(form, self.column(node), self.quality[node])

    def has_limits(self, node: Node, form: Node) -> bool:
        """Whether a form of a result is what that tends to where inputs are infinite."""
        exact = self.references.exact(self.column(node))
        return infinite.settled(form, printed_alone(form), exact, self.tensors, self.hyper) is form

    def kept(self, node: Node, form: Node) -> Node | None:
        """A form of a result that is as good for infinite inputs; None if it cannot be."""
        return self.extremes.kept(node, form, self.references.exact(self.column(node)))

    def rational(self, node: Node) -> list[Form]:
        """The forms of a result as rational functions."""
        return self.candidates.rational(node, powers=self.is_reported(node))

    def inputs_with_poles(self, form: Node, names: Sequence[str] | None = None) -> list[str]:
        """Those of the inputs where a form is no number where they are zero."""
        return [n for n in (self.tensors if names is None else names) if self.poles.has(form, [n])]

    def take(self, node: Node, form: Node, quality: Quality, notes: list[Note], how: str, why: str) -> None:
        """Take a form, with a note beside those on what it is made from; `why` where it is not for the errors."""
        self.forms[node], self.quality[node] = form, quality
        before, after = notes[-1].after if notes else self.sound[node], quality
        self.notes[node] = [*notes, Note(how, "more exact" if rank(after) < rank(before) else why, before, after)]

    def take_if_better(
        self, node: Node, form: Node, notes: list[Note], how: str, comparison: Comparison = is_better
    ) -> None:
        """Take another form of a result if by this comparison it is better than the one so far.

        `notes` are on what it is made from.
        """
        if reads_more(form, node):
            return
        kept, given = self.kept(node, form), form
        if kept is None:
            return
        form = kept
        best = self.quality[node]
        best_cost = self._cost(self.forms[node], best)
        for near in (False, True):
            quality = self.measured(node, form, near)
            new_cost = self._cost(form, quality)
            if not comparison(quality, new_cost, best, best_cost):
                return
            if kept is not given and quality.wide.ordinary > TARGET:
                return  # only a form with all digits is worth another one for infinite inputs
        is_cheaper = is_better(quality, new_cost, best, best_cost)
        why = "as exact, and cheaper" if is_cheaper else "more exact in float64 for ordinary numbers"
        self.take(node, form, quality, notes, how, why)
        if node not in self.patched:
            self.candidates.take(node, form, is_smooth=False)

    def _cost(self, form: Node, quality: Quality) -> float:
        """About how long float32 takes, in additions; float64 twice as long, if not for some of its elements alone."""
        worst = quality.single.ordinary if len(self.tensors) > 1 else quality.single.error
        return cost(form) * (WIDE_COST if worst > TARGET else 1.0)


def reads_more(form: Node, node: Node) -> bool:
    """Whether a form reads an input that the node does not: what cancels in it, and is no operand of the kernel."""
    return not set(inputs_of([form])) <= set(inputs_of([node]))


def each_once(candidates: Iterable[Form], node: Node) -> Iterator[Form]:
    """The forms of a node that neither came before nor are the node itself, nor read what it does not, and are real."""
    seen = {node}
    for form, how in candidates:
        if form not in seen:
            seen.add(form)
            if not reads_more(form, node) and not _has_imaginary(form):
                yield form, how


def _has_imaginary(form: Node) -> bool:
    """Whether a form has a number that is not real: a rule's logarithm of a negative one, in a branch maybe."""
    numbers = (below.number for below in topological([form]))
    return any(number is not None and number.is_extended_real is False for number in numbers)
