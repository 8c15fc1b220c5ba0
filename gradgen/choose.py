"""Which of the forms of a result is computed, and in which precision: the cheapest that meets the bar, by the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import sympy
from sympy import Expr

from gradgen import hyperbolic, infinite, rational, variables
from gradgen.candidates import Candidates
from gradgen.compensate import has_marks, marked, unmarked
from gradgen.expansion import Expansion, Expansions
from gradgen.extremes import Extremes
from gradgen.graph import Node, coefficient, inputs_of, substitute, topological
from gradgen.inner import Inner
from gradgen.measure import Reference
from gradgen.patches import Patch, Patches
from gradgen.poles import Poles
from gradgen.primitives import MARKS
from gradgen.printed import as_printed, printed_alone
from gradgen.printers.base import Printer
from gradgen.quality import (
    BAR,
    LOST,
    TARGET,
    Comparison,
    Quality,
    cost,
    is_better,
    is_more_accurate,
    meets_bar,
    rank,
    rank_of_side,
)
from gradgen.references import References
from gradgen.rewrite import factored
from gradgen.worst import Worst

# A type with fewer digits than float32 asks for float64 arithmetic only where float32 has hardly a digit left.
_WIDENED = {"float32": TARGET, "bfloat16": 2.0**14, "float16": 2.0**11}

_ROUGH = ("bfloat16", "float16")  # computed in float32, of which they keep few digits

_MOST_FORMS, _FEWER_FORMS = 14, 5  # of a value or derivative, and of a second derivative
_FORMS_WITHIN = 3  # as a function of an argument, beside those
_MOST_ALONE = 12  # parts of sums, of all results, whose forms are looked for by themselves
_SINGULAR = 24.0  # an error that may be the sign of a singularity
_SETTLED, _NO_NUMBER = "with limits at infinity", "the other is no number there"
_MOST_COMPENSATED = 80  # nodes of a result for which a text four times as long is reasonable
_LARGEST = 200  # nodes of a result whose forms are looked for
_LONG = 64  # nodes from which on a form
_LONGER = 1.25  # must not cost so many times as much, or a formula would grow with each level of nesting


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

    Attributes:
        notes: for each result in what form it is computed, where that is not the one that was given.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        others: Sequence[Node],
        tensors: Sequence[str],
        hyper: Mapping[str, float | bool],
        origins: Mapping[Node, tuple[Node, Node]] | None = None,
        written: Mapping[Node, Node] | None = None,
        alone: dict[tuple[Node, tuple[str, ...]], Node] | None = None,
    ) -> None:
        every = [*nodes, *others]
        self._reported = len(nodes)
        self._tensors = tensors
        self._hyper = hyper
        self._extremes = Extremes(tensors, hyper)
        self._references = References(every, tensors, hyper)
        self._patches = Patches(self._references)
        self._forms = {node: node for node in every}
        self._candidates = Candidates(tensors, origins or {}, written or {})
        self._poles = Poles(tensors, hyper)
        self._expansions = Expansions(tensors, self._poles)
        self._parts_alone = {} if alone is None else alone
        self._switched: set[Node] = set()  # those that have one form, or another one that equals it
        self._looked_at: dict[Node, list[tuple[Quality, Node, str]]] = {}
        self._filled: set[Node] = set()  # those with a removable singularity that their form does without
        self._with_limits: dict[Node, Node] = {}
        self._uncompensated: dict[Node, tuple[Node, list[str]]] = {}
        self._unpatched: dict[Node, tuple[Node, list[Note]]] = {}  # whose error may be one of rounding alone
        self._needs_no_correction: set[Node] = set()  # in float32
        self._uncorrected: dict[Node, Worst] = {}  # of float32, in float32 arithmetic without corrections
        self.notes: dict[Node, list[Note]] = {node: [] for node in every}
        sound = self._references.measured(every, range(len(every)), near=True)
        self._sound = dict(zip(every, sound, strict=True))
        self._quality = dict(self._sound)
        for column, node in enumerate(every):
            if node.args and len(topological([node])) <= _LARGEST:
                self._improve(node, column)
                self._split(node, column)
                plain = self._forms[node]  # without series, compensation and limits at infinity
                self._candidates.take(node, plain, is_smooth=plain in self._switched)
                self._patch(node, column)
                self._fill(node)
                self._fill_by_terms(node, column)
                self._fill_by_powers(node, column)
                self._uncompensated[node] = self._forms[node], [note.what for note in self.notes[node]]
                self._compensate(node, column)
                self._leave_plain(node, column)
                self._settle(node, column)

    def _improve(self, node: Node, column: int) -> None:
        """Take another form of a result where it is better."""
        best = self._quality[node]
        if column >= self._reported and best.error <= BAR:
            return
        most = _MOST_FORMS if column < self._reported or best.error > LOST else _FEWER_FORMS
        if self._is_poor(node) and self._inner is not None:
            most += _FORMS_WITHIN
        # Autograd differentiates second derivatives as they are computed, at 0 as well.
        looked_at = self._looked_at[node] = [(best, node, "as it is")]
        is_long = len(topological([node])) > _LONG
        for form, how in itertools.islice(_each_once(self._alternatives(node, column), node), most):
            is_hopeless = self._references.is_hopeless(form, column, self._quality[node])
            if is_hopeless and len(self._tensors) > 1:
                continue
            if not self._references.is_same(form, column):
                continue
            if is_long and cost(form) > _LONGER * cost(node):
                continue
            (far,) = self._references.measured([form], [column], near=False)
            looked_at.append((far, form, how))
            if not is_hopeless:
                self._take_if_better(node, form, column, [], how, is_better)
        distributed = _distributed(self._forms[node])
        if distributed is not None:
            how = "with its factor in each term"
            self._take_if_better(node, distributed, column, self.notes[node], how, is_better)
        if len(self._tensors) == 1 and self._quality[node].error > BAR:
            below = min(looked_at, key=lambda entry: rank_of_side(entry[0], 0))
            above = min(looked_at, key=lambda entry: rank_of_side(entry[0], 1))
            if below[1] is not above[1]:
                is_above = node.graph.apply("ge", node.graph.input(self._tensors[0]), 0)
                form = node.graph.where(is_above, above[1], below[1])
                how = f"{above[2]} above 0, {below[2]} below"
                self._take_if_better(node, form, column, [], how, is_better)
                self._switched.add(form)
        if len(self._tensors) == 1 and self._quality[node].error > _SINGULAR:
            self._switch(node, column, looked_at)

    def _split(self, node: Node, column: int) -> None:
        """Take parts of sums that are functions of fewer inputs in the form that is best for them by themselves.

        Where the other terms happen to be 0 nothing else is left, which hardly any of the points looked at shows. Not
        of second derivatives, of which there are many.
        """
        if len(self._tensors) == 1 or column >= self._reported:
            return
        for total, ways in variables.sums_in_parts(self._forms[node], self._tensors):
            for way in ways:
                if self._take_parts(node, column, total, way) or not self._is_poor(node):
                    break

    def _take_parts(self, node: Node, column: int, total: Node, way: variables.Way) -> bool:
        """Take a sum in a form as that of its parts, each in its best form, if that is no worse; tell whether it is."""
        best = [self._alone(part, names) for part, names in way]
        (form,) = substitute([self._forms[node]], {total: reduce(node.graph.add, best)})
        changed = [part for (part, _), alone in zip(way, best, strict=True) if alone is not part]
        if not changed or form is self._forms[node] or not self._references.is_same(form, column):
            return False
        (quality,) = self._references.measured([form], [column], near=True)
        if rank(quality) > rank(self._quality[node]):
            return False
        how = f"with {', '.join(Printer({}).expression(part) for part in changed)} as a function by itself"
        self._take(node, form, quality, self.notes[node], how, "the other terms may be 0")
        return True

    def _alone(self, part: Node, names: tuple[str, ...]) -> Node:
        """A part of a sum in the form that is best for it as a function of these inputs.

        As it is if there are none, or when so many parts have been looked at.
        """
        known = self._parts_alone
        if names and (part, names) not in known and len(known) < _MOST_ALONE:
            within = Choice([part], [], names, self._hyper, alone=known)
            form, _ = next(within.uncompensated(part))
            known[part, names] = form if rank(within.quality(part)) < rank(within.sound(part)) else part
        return known.get((part, names), part)

    def _alternatives(self, node: Node, column: int) -> Iterator[tuple[Node, str]]:
        """Other forms of a result, each with what it is; more and more of them as long as none is good."""
        powers = column < self._reported
        yield from self._candidates.usual(node, powers)
        if self._is_poor(node):
            yield from self._within(node)
        if self._is_poor(node):
            yield from self._candidates.more(node, powers, lambda form: self._references.is_limit(form, column))

    def _within(self, node: Node) -> Iterator[tuple[Node, str]]:
        """Forms of a result as a function of an argument, if it is one, each with what it is."""
        inner = self._inner
        within = inner.within(node) if inner else None
        if inner and within:
            for form, notes in itertools.chain(self._choice_within.uncompensated(within), [(within, [])]):
                back = inner.back(node, form)
                if not self._extremes.is_lost_without(node, back):
                    yield back, ", ".join([str(inner), *notes])

    @cached_property
    def _inner(self) -> Inner | None:
        """The results as functions of an argument, if they are."""
        paths = {node: self._candidates.path(node) for node in self._forms}
        values = [node for node, wrt in paths.items() if not wrt and node.args]
        argument = variables.argument(values, self._tensors) if values else None
        inner = Inner(argument, paths, self._candidates, self._tensors, self._hyper) if argument else None
        return inner if inner and (inner.problem.nodes or inner.problem.others) else None

    @cached_property
    def _choice_within(self) -> Choice:
        """The forms of the functions of the argument."""
        assert self._inner is not None
        return Choice(*self._inner.problem, alone=self._parts_alone)

    def _switch(self, node: Node, column: int, looked_at: Sequence[tuple[Quality, Node, str]]) -> None:
        """Take one form near 0 and another one far from it, where that is better."""
        x = node.graph.input(self._tensors[0])
        size, near, far = self._references.switch([form for _, form, _ in looked_at], column)
        if near != far:
            is_near = node.graph.apply("lt", node.graph.apply("abs", x), sympy.Float(size))
            form = node.graph.where(is_near, looked_at[near][1], looked_at[far][1])
            how = f"where |{x}| < {size:g} {looked_at[near][2]}, beyond {looked_at[far][2]}"
            self._take_if_better(node, form, column, [], how, is_better)
            self._switched.add(form)

    def _take_if_better(
        self, node: Node, form: Node, column: int, notes: list[Note], how: str, comparison: Comparison
    ) -> None:
        """Take another form of a result if by this comparison it is better than the one so far.

        `notes` are on what it is made from.
        """
        if _reads_more(form, node):
            return
        kept, given = self._extremes.kept(node, form, self._references.exact(column)), form
        if kept is None:
            return
        form = kept
        best, best_cost, new_cost = self._quality[node], cost(self._forms[node]), cost(form)
        for near in (False, True):
            (quality,) = self._references.measured([form], [column], near)
            if not comparison(quality, new_cost, best, best_cost):
                return
            if kept is not given and quality.wide.error > TARGET:
                return  # only a form with all digits is worth another one for infinite inputs
        is_cheaper = is_better(quality, new_cost, best, best_cost)
        why = "as exact, and cheaper" if is_cheaper else "more exact in float64 for ordinary numbers"
        self._take(node, form, quality, notes, how, why)
        self._candidates.take(node, form, is_smooth=False)

    def _take(self, node: Node, form: Node, quality: Quality, notes: list[Note], how: str, why: str) -> None:
        """Take a form, with a note beside those on what it is made from; `why` where it is not for the errors."""
        self._forms[node], self._quality[node] = form, quality
        before, after = notes[-1].after if notes else self._sound[node], quality
        self.notes[node] = [*notes, Note(how, "more exact" if rank(after) < rank(before) else why, before, after)]

    def _is_poor(self, node: Node) -> bool:
        """Whether the best form of a result so far has an error, everywhere, that others may do without."""
        quality = self._quality[node]
        return max(quality.single.error, quality.double.error) > TARGET

    def _patch(self, node: Node, column: int) -> None:
        """Near a removable singularity take the series of a result, where that is better; else those of its parts."""
        if self._patch_within(node, column, is_as_good=True):
            return
        if any(self._patch_near(node, column, expansion) for expansion in self._expansions.of(node)):
            return
        if self._patch_within(node, column, is_as_good=False):
            return
        whole = factored(node)
        at = self._inputs_with_poles(self._forms[node])
        for part in [*self._expansions.parts(whole, at)]:
            patches = (
                self._patch_near(node, column, expansion) for expansion in self._expansions.in_input(part, whole)
            )
            patch = next(filter(None, patches), None)
            if patch is not None:
                whole = node.graph.where(patch.is_near, patch.made_of.near, whole)

    def _fill(self, node: Node) -> None:
        """Of the forms that were looked at take the best that is a number where the one so far is 0/0, if one is."""
        poles = self._inputs_with_poles(self._forms[node])
        for quality, form, how in sorted(self._looked_at.get(node, ()) if poles else (), key=lambda one: rank(one[0])):
            if not self._inputs_with_poles(form, poles):
                self._fill_with(node, form, quality, how)
                return

    def _fill_by_terms(self, node: Node, column: int) -> None:
        """Where a form is 0/0 take the sum of its terms, each in the form that is best for it by itself.

        Those of a derivative are the derivatives of the terms of the value, which may have limits where its own do not.
        """
        removable = self._removable(node)
        terms = self._candidates.terms(node) if removable else []
        if len(terms) < 2 or not all(self._poles.has_limit(*one) for one in itertools.product(terms, removable)):
            return
        names = [tuple(variables.tensors_of(term, self._tensors)) for term in terms]
        best = [
            self._alone(*one) if self._inputs_with_poles(one[0], removable) else one[0]
            for one in zip(terms, names, strict=True)
        ]
        form = reduce(node.graph.add, best)
        if (
            self._inputs_with_poles(form, removable)
            or not self._references.is_same(form, column)
            or _reads_more(form, node)
        ):
            return
        (quality,) = self._references.measured([form], [column], near=True)
        self._fill_with(node, form, quality, "with each term in the form that is best for it alone")

    def _fill_with(self, node: Node, form: Node, quality: Quality, how: str) -> None:
        """Take a form that is a number where the one so far is 0/0, unless it is far off elsewhere, and that is not."""
        if quality.normal <= max(_SINGULAR, self._quality[node].normal):
            self._take(node, form, quality, [], how, _NO_NUMBER)
            self._filled.add(node)

    def _fill_by_powers(self, node: Node, column: int) -> None:
        """Where a form is still 0/0 take the first terms of its power series, whose coefficients are no numbers."""
        for expansion in self._expansions.in_powers(node, self._removable(node)):
            self._patch_near(node, column, expansion)

    def _removable(self, node: Node) -> list[str]:
        """Those of the inputs where the form of a result is no number where they are zero, though the result is one."""
        return [name for name in self._inputs_with_poles(self._forms[node]) if self._poles.has_limit(node, name)]

    def _inputs_with_poles(self, form: Node, names: Sequence[str] | None = None) -> list[str]:
        """Those of the inputs where a form is no number where they are zero."""
        return [n for n in (self._tensors if names is None else names) if self._poles.has(form, [n])]

    def _patch_within(self, node: Node, column: int, is_as_good: bool) -> bool:
        """Take the form as a function of an argument if only that is a number where the argument is zero.

        Elsewhere it is to be as good, if that is asked for.
        """
        inner = self._inner if self._is_poor(node) else None
        if inner is None or not self._has_pole_within(inner.argument, node):
            return False
        if not self._has_pole_within(inner.argument, self._forms[node]):
            self._filled.add(node)
            return False
        for form, how in _each_once(self._within(node), node):
            if self._has_pole_within(inner.argument, form):
                continue
            if self._references.is_same(form, column):
                (quality,) = self._references.measured([form], [column], near=True)
                if is_as_good and rank(quality) > rank(self._quality[node]):
                    continue
                self._take(node, form, quality, self.notes[node], how, _NO_NUMBER)
                self._filled.add(node)
                return True
        return False

    def _patch_near(self, node: Node, column: int, expansion: Expansion) -> Patch | None:
        """Take the series of a result, or of a part of it, near a removable singularity, if that is better."""
        quality, place = self._quality[node], expansion.place
        if expansion.change is None and self._poles.has(place, inputs_of([place])):
            return None
        has_pole = expansion.whole is not None or self._has_pole_at(node, expansion)
        if not self._is_singular(node) and not has_pole:
            return None
        if not has_pole and not self._references.reaches(self._forms[node], place, column, self._singular(node)):
            return None  # what is wrong is not near 0
        found = expansion.series()
        if found is None or (found[0] and not self._is_singular(node)):
            return None
        pole, leading = found
        others = [*self._candidates.rational(node, powers=column < self._reported), *hyperbolic.forms(node)]
        forms = dict.fromkeys([self._forms[node], node, *(form for form, _ in others)])
        best = self._patches.best(column, forms, expansion.without_pole(pole), leading)
        if best is None:
            return None
        # A part may not be all that is no number there, and a difference is 0 elsewhere.
        is_other = expansion.whole is not None or expansion.change is not None
        is_removed = is_other or not self._poles.has(best.form, inputs_of([place]))
        is_gone = has_pole and not pole and is_removed
        if not is_gone and rank(best.quality) >= rank(quality):
            return None
        kept: Node | None = best.form
        if len(self._tensors) > 1:
            kept = self._extremes.kept(node, best.form, self._references.exact(column))
        form = kept or best.form
        if (kept is None and not is_gone) or _reads_more(form, node):
            return None
        if not is_gone and quality.normal <= _SINGULAR:
            self._unpatched[node] = self._forms[node], self.notes[node]
        how = f"near {Printer({}).expression(place)} = 0 by {best.by}"
        self._take(node, form, best.quality, self.notes[node], how, _NO_NUMBER)
        if is_gone:
            self._filled.add(node)
        return best

    def _compensate(self, node: Node, column: int) -> None:
        """Where rounding alone puts a float64 result near the bar or above it, compute it in compensated arithmetic.

        All of it only above the bar. It does nothing for subnormal results.
        """
        if self._quality[node].double.normal <= TARGET or len(topological([node])) > _MOST_COMPENSATED:
            return
        enough = TARGET if column < self._reported else BAR
        for form, notes, how in self._to_compensate(node, column):
            sharpened = marked(form, "sharpened")
            is_other = printed_alone(sharpened) is not printed_alone(form)
            if is_other and not self._references.is_hopeless(sharpened, column, self._quality[node]):
                self._take_if_better(node, sharpened, column, notes, f"{how}with corrected arguments", meets_bar)
                if self._forms[node] is sharpened and self._quality[node].double.error <= BAR:
                    return
            new = marked(form)
            if self._quality[node].double.normal <= BAR or self._references.is_hopeless(
                new, column, self._quality[node]
            ):
                continue
            self._take_if_better(node, new, column, notes, f"{how}in compensated arithmetic", is_more_accurate)
            if max(self._quality[node].single.error, self._quality[node].double.error) <= enough:
                return

    def _to_compensate(self, node: Node, column: int) -> Iterator[tuple[Node, list[Note], str]]:
        """Forms of a result, each once, with notes on what it is made from, and what it is."""
        best, notes = self._forms[node], self.notes[node]
        found: dict[Node, tuple[list[Note], str]] = {best: (notes, "")}
        if node in self._unpatched:
            form, before = self._unpatched[node]
            found[form] = before, ""
        is_any = node not in self._filled
        if is_any:
            found.setdefault(node, ([], ""))
            for form, how in self._candidates.rational(node, powers=column < self._reported):
                found.setdefault(form, ([], f"{how}, "))
        found.setdefault(rational.expanded(best), (notes, ""))
        if is_any:
            found.setdefault(rational.expanded(node), ([], ""))
        for form, (before, how) in found.items():
            yield form, before, how

    def _leave_plain(self, node: Node, column: int) -> None:
        """Where float32 meets the target without the corrections that float64 needs, it goes without."""
        form = self._forms[node]
        if form.op in MARKS:
            (plain,) = self._references.measured(form.args, [column], near=True)
            self._uncorrected[node] = plain.single
            if plain.single.error <= TARGET:
                self._quality[node] = replace(self._quality[node], single=plain.single)
                self._needs_no_correction.add(node)

    def _settle(self, node: Node, column: int) -> None:
        """Give the form its limits at infinite inputs where it is NaN."""
        form = self._forms[node]
        new = self._settled(form, column)
        if new is not form:
            self._take(node, new, self._quality[node], self.notes[node], _SETTLED, "the other is NaN there")

    def _settled(self, form: Node, column: int) -> Node:
        """A form of a result with its limits at infinite inputs where it is NaN."""
        if form not in self._with_limits:
            exact, printed = self._references.exact(column), printed_alone(form)
            self._with_limits[form] = infinite.settled(form, printed, exact, self._tensors, self._hyper)
        return self._with_limits[form]

    def _is_singular(self, node: Node) -> bool:
        """Whether the error of a result may be the sign of a singularity."""
        return self._quality[node].normal > self._singular(node)

    def _singular(self, node: Node) -> float:
        """An error that may be the sign of a singularity; of what has two forms already, one beside the other."""
        return TARGET if self._forms[node] in self._switched else _SINGULAR

    def _has_pole_at(self, node: Node, expansion: Expansion) -> bool:
        """Whether the form of a result is no number where the variable of an expansion is zero."""
        variable, place, form = expansion.variable, expansion.place, self._forms[node]
        if expansion.change is not None:
            return self._has_pole_within(expansion.change, form)
        if place.op in ("mul", "hypot"):  # a product is 0 where an input is, a norm where all are
            return self._poles.has(form, set(inputs_of([place])).intersection(self._tensors))
        return self._poles.has(form if variable is place else expansion.root, inputs_of([variable]))

    def _has_pole_within(self, change: variables.Change, form: Node) -> bool:
        """Whether a form of a result is no number where the variable of a change is zero."""
        return self._poles.has(change.moved([form])[0], [str(change.variable.value)])

    def form(self, node: Node) -> Node:
        """The form in which a result is computed."""
        return self._forms.get(node, node)

    def smooth(self, node: Node) -> Node:
        """The form of a result for autograd to differentiate: as it was given, but where that keeps no digits.

        Exponentials of which quotients are made, and corrections for rounding, make no good derivatives.
        """
        if node not in self._forms:
            return node
        given, chosen = self._sound[node].double, self._quality[node].double
        if node in self._filled or chosen.ordinary <= LOST < given.ordinary:
            return unmarked([self._forms[node]])[0]
        return self._settled(node, list(self._forms).index(node))

    def uncompensated(self, node: Node) -> Iterator[tuple[Node, list[str]]]:
        """The form of a result without compensation, and what it is; the same with limits at infinite inputs."""
        form, notes = self._uncompensated.get(node, (node, []))
        yield form, notes
        if node in self._uncompensated:
            yield self._settled(form, list(self._forms).index(node)), [*notes, _SETTLED]

    def sound(self, node: Node) -> Quality:
        """The modelled errors of a result in the form that was given."""
        return self._sound[node]

    def quality(self, node: Node) -> Quality:
        """The modelled errors of a result."""
        return self._quality[node]

    def uncorrected(self, node: Node) -> Worst:
        """The modelled errors of a result of float32 in float32 arithmetic, without corrections."""
        return self._uncorrected.get(node, self._quality[node].single)

    def arithmetic(self, nodes: Sequence[Node]) -> Arithmetic:
        """In which arithmetic a kernel that computes these results is best computed."""
        marked = [node for node in nodes if node in self._forms and has_marks([self._forms[node]])]
        narrow = not any(map(self._is_corrected, marked))
        wide = self.wide(nodes)
        kinds = ("float32", *_ROUGH) if narrow else _ROUGH
        uncorrected = tuple(dtype for dtype in kinds if dtype not in wide) if marked else ()
        is_seen = all(self._references.is_dense(self._forms[node]) for node in nodes if node in self._forms)
        return Arithmetic(wide, uncorrected, bool(wide) and is_seen and not self.wide(nodes, at_defaults=True))

    def wide(self, nodes: Sequence[Node], at_defaults: bool = False) -> tuple[str, ...]:
        """The types of which a kernel that computes these results is better computed in float64.

        Where hyper-parameters are near their defaults, or just where they have them, without corrections.
        """
        known = [node for node in nodes if node in self._quality]
        found = [self._quality[node] for node in known]
        every = [(quality.single.error, quality.wide.error) for quality in found]
        ordinary = [(quality.single.ordinary, quality.wide.ordinary) for quality in found]
        is_corrected = any(node in self._forms and self._is_corrected(node) for node in nodes)
        if at_defaults:
            every = [(self.uncorrected(node).at_defaults, self._quality[node].wide.at_defaults) for node in known]
            is_corrected = False
        if any(min(pair) > LOST for pair in every):
            every = ordinary  # by where something can be saved
        errors = {"float32": every, "bfloat16": every, "float16": ordinary}  # which has no other numbers
        return tuple(dtype for dtype, most in _WIDENED.items() if _gains(errors[dtype], most, is_corrected))

    def _is_corrected(self, node: Node) -> bool:
        """Whether a result is compensated, in float32 too."""
        return has_marks([self._forms[node]]) and node not in self._needs_no_correction


def is_sound(nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> bool:
    """Whether nodes, just as they are, meet the bar where their results are no subnormal numbers."""
    printed = as_printed(nodes)
    return all(
        worst.normal <= BAR
        for dtype in ("float32", "float64")
        for worst in Reference(nodes, tensors, hyper, dtype).worst(printed, range(len(nodes)), near=False)
    )


def _reads_more(form: Node, node: Node) -> bool:
    """Whether a form reads an input that the node does not: what cancels in it, and is no operand of the kernel."""
    return not set(inputs_of([form])) <= set(inputs_of([node]))


def _each_once(candidates: Iterable[tuple[Node, str]], node: Node) -> Iterator[tuple[Node, str]]:
    """The forms of a node that neither came before nor are the node itself, nor read what it does not."""
    seen = {node}
    for form, how in candidates:
        if form not in seen:
            seen.add(form)
            if not _reads_more(form, node):
                yield form, how


def _distributed(node: Node) -> Node | None:
    """(u + v)/2 as u/2 + v/2: the sum might overflow."""
    number, rest = coefficient(node)
    return _times_each(number, rest) if rest is not None and rest.op in ("add", "where") and abs(number) < 1 else None


def _times_each(number: Expr, node: Node) -> Node:
    """A number times each term of each branch."""
    if node.op == "where":
        condition, p, q = node.args
        return node.graph.where(condition, _times_each(number, p), _times_each(number, q))
    if node.op == "add":
        return node.graph.add(_times_each(number, node.args[0]), _times_each(number, node.args[1]))
    return node.graph.mul(node.graph.const(number), node)


def _gains(errors: Sequence[tuple[float, float]], most: float, is_corrected: bool) -> bool:
    """Whether errors, each in float32 arithmetic and in float64, are so large in the one that the other is worth it.

    Where something is compensated in float32 it always is: two roundings are cheaper than all corrections.
    """
    narrow, widened = map(max, zip(*errors, strict=True)) if errors else (0.0, 0.0)
    if is_corrected:
        narrow = max(narrow, math.nextafter(TARGET, math.inf))
    return narrow > most and widened < narrow
