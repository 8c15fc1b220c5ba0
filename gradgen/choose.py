"""Which of the forms of a result is computed, and in which precision: the cheapest that meets the bar, by the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import sympy
from mpmath import mpf
from sympy import Expr

from gradgen import hyperbolic, infinite, rational, variables
from gradgen.candidates import Candidates
from gradgen.compensate import has_marks, marked, unmarked
from gradgen.expansion import Expansion, Expansions
from gradgen.extremes import Extremes
from gradgen.graph import Node, coefficient, inputs_of, substitute, topological
from gradgen.inner import Inner
from gradgen.measure import LEAST_REACH, Reference
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
from gradgen.rewrite import factored, factors, rewrite
from gradgen.worst import Worst

# A type with fewer digits than float32 asks for float64 arithmetic only where float32 has hardly a digit left.
_WIDENED = {"float32": TARGET, "bfloat16": 2.0**14, "float16": 2.0**11}

_ROUGH = ("bfloat16", "float16")  # computed in float32, of which they keep few digits

_MOST_FORMS, _FEWER_FORMS = 14, 5  # of a value or derivative, and of a second derivative
_FORMS_WITHIN = 3  # as a function of an argument, beside those
_HOPELESS = 1.5  # times the error of the best form
_SINGULAR = 24.0  # an error that may be the sign of a singularity
_FARTHER, _FARTHEST = 2.0**-3, 8.0  # between which polynomials through points reach, where the series does not
_STEP, _PATIENCE = 1.25, 2  # by how much farther they try to reach, and how often without gain
_BESIDE_REACH = (0.6, 0.8, 0.9, 0.952, 0.97, 0.991, 1.002, 1.02, 1.1, -0.7, -0.85, -0.935, -0.98, -1.006, -1.2)
_SETTLED = "with limits at infinity"
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


@dataclass(frozen=True)
class _Patch:
    """A form with another one in its place near a removable singularity.

    Attributes:
        form: all of it.
        quality: its modelled errors.
        by: what the other one is.
        is_near: where that is taken.
        near: the other one.
    """

    form: Node
    quality: Quality
    by: str
    is_near: Node
    near: Node


class Choice:
    """The forms in which the results of an op are computed.

    Args:
        nodes: the results in their sound form, values and derivatives.
        others: second derivatives, of which no errors are reported.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
        origins: for some of the nodes which other one they are the derivative of, and by which input.
        written: for some of the nodes what they were before any rule.

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
    ) -> None:
        every = [*nodes, *others]
        self._reported = len(nodes)
        self._tensors = tensors
        self._hyper = hyper
        self._extremes = Extremes(tensors, hyper)
        centres = self._centres(every)
        self._single = Reference(every, tensors, hyper, "float32", centres)
        self._double = Reference(every, tensors, hyper, "float64", centres)
        self._forms = {node: node for node in every}
        self._candidates = Candidates(tensors, origins or {}, written or {})
        self._expansions = Expansions(tensors, hyper)
        self._switched: set[Node] = set()  # those that have one form, or another one that equals it
        self._filled: set[Node] = set()  # those with a removable singularity that their form does without
        self._with_limits: dict[Node, Node] = {}
        self._uncompensated: dict[Node, tuple[Node, list[str]]] = {}
        self._unpatched: dict[Node, tuple[Node, list[Note]]] = {}  # whose error may be one of rounding alone
        self._needs_no_correction: set[Node] = set()  # in float32
        self._uncorrected: dict[Node, Worst] = {}  # of float32, in float32 arithmetic without corrections
        self.notes: dict[Node, list[Note]] = {node: [] for node in every}
        sound = self._measured(every, range(len(every)), near=True)
        self._sound = dict(zip(every, sound, strict=True))
        self._quality = dict(self._sound)
        for column, node in enumerate(every):
            if node.args and len(topological([node])) <= _LARGEST:
                self._improve(node, column)
                self._split(node, column)
                plain = self._forms[node]  # without series, compensation and limits at infinity
                self._candidates.take(node, plain, is_smooth=plain in self._switched)
                self._patch(node, column)
                self._uncompensated[node] = self._forms[node], [note.what for note in self.notes[node]]
                self._compensate(node, column)
                self._leave_plain(node, column)
                self._settle(node, column)

    def _measured(self, forms: Sequence[Node], columns: Sequence[int], near: bool) -> list[Quality]:
        printed = as_printed(forms)
        single = self._single.worst(printed, columns, near=near)
        wide = single
        if has_marks(forms) or any(worst.error > TARGET for worst in single):
            wide = self._single.worst(printed, columns, wide=True, near=False)
        double = self._double.worst(printed, columns, near=near)
        return [Quality(*row) for row in zip(single, wide, double, strict=True)]

    def _exact(self, column: int) -> infinite.Exact:
        """The exact value of a result at a point."""
        return partial(self._double.exact, column)

    def _centres(self, nodes: Sequence[Node]) -> list[float]:
        """Where an input and a number in the nodes cancel: 1 of x - 1."""
        found = set()
        for node in topological(nodes):
            for one, other in itertools.permutations(node.args) if node.op == "add" else ():
                (a, x), b = coefficient(one), other.number
                if x is not None and x.op == "input" and a.is_comparable and b is not None and b.is_comparable:
                    found.add(-float(b / a))
        return sorted(found)

    def _improve(self, node: Node, column: int) -> None:
        """Take another form of a result where it is better."""
        best = self._quality[node]
        if column >= self._reported and best.error <= BAR:
            return
        most = _MOST_FORMS if column < self._reported or best.error > LOST else _FEWER_FORMS
        if self._is_poor(node) and self._inner is not None:
            most += _FORMS_WITHIN
        # Autograd differentiates second derivatives as they are computed, at 0 as well.
        looked_at = [(best, node, "as it is")]
        is_long = len(topological([node])) > _LONG
        for form, how in itertools.islice(_each_once(self._alternatives(node, column), node), most):
            is_hopeless = self._is_hopeless(form, column, self._quality[node])
            if (is_hopeless and len(self._tensors) > 1) or not self._single.is_same(form, column):
                continue
            if is_long and cost(form) > _LONGER * cost(node):
                continue
            (far,) = self._measured([form], [column], near=False)
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

        Where the other terms happen to be 0 nothing else is left, which hardly any of the points looked at shows.
        """
        if len(self._tensors) == 1:
            return
        known: dict[Node, Node] = {}
        for total, ways in variables.sums_in_parts(self._forms[node], self._tensors):
            for way in ways:
                if self._take_parts(node, column, total, way, known) or not self._is_poor(node):
                    break

    def _take_parts(self, node: Node, column: int, total: Node, way: variables.Way, known: dict[Node, Node]) -> bool:
        """Take a sum in a form as that of its parts, each in its best form, if that is no worse; tell whether it is."""
        best = [self._alone(part, names, known) for part, names in way]
        (form,) = substitute([self._forms[node]], {total: reduce(node.graph.add, best)})
        changed = [part for (part, _), alone in zip(way, best, strict=True) if alone is not part]
        if not changed or form is self._forms[node] or not self._single.is_same(form, column):
            return False
        (quality,) = self._measured([form], [column], near=True)
        if rank(quality) > rank(self._quality[node]):
            return False
        self._forms[node], self._quality[node] = form, quality
        how = f"with {', '.join(Printer({}).expression(part) for part in changed)} as a function by itself"
        self._note(node, self.notes[node], how, "the other terms may be 0")
        return True

    def _alone(self, part: Node, names: Sequence[str], known: dict[Node, Node]) -> Node:
        """A part of a sum in the form that is best for it as a function of these inputs; as it is if there are none."""
        if names and part not in known:
            within = Choice([part], [], names, self._hyper)
            form, _ = next(within.uncompensated(part))
            known[part] = form if rank(within.quality(part)) < rank(within.sound(part)) else part
        return known.get(part, part)

    def _alternatives(self, node: Node, column: int) -> Iterator[tuple[Node, str]]:
        """Other forms of a result, each with what it is; more and more of them as long as none is good."""
        powers = column < self._reported
        yield from self._candidates.usual(node, powers)
        if self._is_poor(node):
            yield from self._within(node)
        if self._is_poor(node):
            yield from self._candidates.more(node, powers, lambda form: self._is_limit(form, column))

    def _is_limit(self, form: Node, column: int) -> bool:
        """Whether a form of a function of one input is what that tends to where the input is 0."""
        return len(self._tensors) == 1 and self._double.is_limit_at_zero(form, column)

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
        return Choice(*self._inner.problem)

    def _switch(self, node: Node, column: int, looked_at: Sequence[tuple[Quality, Node, str]]) -> None:
        """Take one form near 0 and another one far from it, where that is better."""
        x = node.graph.input(self._tensors[0])
        printed = [printed_alone(form) for _, form, _ in looked_at]
        size, near, far = self._double.switch(printed, column, BAR)
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
        kept, given = self._extremes.kept(node, form, self._exact(column)), form
        if kept is None:
            return
        form = kept
        best, best_cost, new_cost = self._quality[node], cost(self._forms[node]), cost(form)
        for near in (False, True):
            (quality,) = self._measured([form], [column], near)
            if not comparison(quality, new_cost, best, best_cost):
                return
            if kept is not given and quality.wide.error > TARGET:
                return  # only a form with all digits is worth another one for infinite inputs
        self._forms[node], self._quality[node] = form, quality
        self._candidates.take(node, form, is_smooth=False)
        is_cheaper = is_better(quality, new_cost, best, best_cost)
        why = "as exact, and cheaper" if is_cheaper else "more exact in float64 for ordinary numbers"
        self._note(node, notes, how, why)

    def _note(self, node: Node, notes: list[Note], how: str, why: str) -> None:
        """Add a note on the form just taken to those on what it is made from; `why` where it is not for the errors."""
        before, after = notes[-1].after if notes else self._sound[node], self._quality[node]
        self.notes[node] = [*notes, Note(how, "more exact" if rank(after) < rank(before) else why, before, after)]

    def _is_poor(self, node: Node) -> bool:
        """Whether the best form of a result so far has an error, everywhere, that others may do without."""
        quality = self._quality[node]
        return max(quality.single.error, quality.double.error) > TARGET

    def _is_hopeless(self, form: Node, column: int, best: Quality) -> bool:
        """Whether a form is so much worse than the best that it need not be measured."""
        printed = printed_alone(form)
        return self._double.is_hopeless(printed, column, _HOPELESS * max(best.double.error, TARGET))

    def _patch(self, node: Node, column: int) -> None:
        """Near a removable singularity take the series of a result, where that is better; else those of its parts."""
        if self._patch_within(node, column, is_as_good=True):
            return
        if any(self._patch_near(node, column, expansion) for expansion in self._expansions.of(node)):
            return
        if self._patch_within(node, column, is_as_good=False):
            return
        whole = factored(node)
        at = [name for name in self._tensors if self._expansions.has_pole(self._forms[node], [name])]
        for part in [*self._expansions.parts(whole, at)]:
            patches = (
                self._patch_near(node, column, expansion) for expansion in self._expansions.in_input(part, whole)
            )
            patch = next(filter(None, patches), None)
            if patch is not None:
                whole = node.graph.where(patch.is_near, patch.near, whole)

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
        for form, how in self._within(node):
            if not self._has_pole_within(inner.argument, form) and self._single.is_same(form, column):
                (quality,) = self._measured([form], [column], near=True)
                if is_as_good and rank(quality) > rank(self._quality[node]):
                    continue
                self._forms[node], self._quality[node] = form, quality
                self._filled.add(node)
                self._note(node, self.notes[node], how, "the other is no number there")
                return True
        return False

    def _patch_near(self, node: Node, column: int, expansion: Expansion) -> _Patch | None:
        """Take the series of a result, or of a part of it, near a removable singularity, if that is better."""
        quality, place = self._quality[node], expansion.place
        if expansion.change is None and self._expansions.has_pole(place, inputs_of([place])):
            return None
        has_pole = expansion.whole is not None or self._has_pole_at(node, expansion)
        if not self._is_singular(node) and not has_pole:
            return None
        if not has_pole and not self._reaches(self._forms[node], place, column, self._singular(node)):
            return None  # what is wrong is not near 0
        found = expansion.series()
        if found is None or (found[0] and not self._is_singular(node)):
            return None
        pole, leading = found
        best = self._best_near(node, column, expansion.without_pole(pole), leading)
        if best is None:
            return None
        # A part may not be all that is no number there, and a difference is 0 elsewhere.
        is_other = expansion.whole is not None or expansion.change is not None
        is_removed = is_other or not self._expansions.has_pole(best.form, inputs_of([place]))
        is_gone = has_pole and not pole and is_removed
        if not is_gone and rank(best.quality) >= rank(quality):
            return None
        form = self._extremes.kept(node, best.form, self._exact(column)) if len(self._tensors) > 1 else best.form
        if form is None and not is_gone:
            return None
        if not is_gone and quality.normal <= _SINGULAR:
            self._unpatched[node] = self._forms[node], self.notes[node]
        self._forms[node], self._quality[node] = form or best.form, best.quality
        if is_gone:
            self._filled.add(node)
        how = f"near {Printer({}).expression(place)} = 0 by {best.by}"
        self._note(node, self.notes[node], how, "the other is no number there")
        return best

    def _best_near(self, node: Node, column: int, expansion: Expansion, leading: Sequence[mpf]) -> _Patch | None:
        """The best of a node's forms with an expansion in its place near 0.

        First its power series, as far as it reaches; then farther and farther other polynomials, while that helps.
        """
        place, near_zero = expansion.place, expansion.polynomials(leading)
        others = [*self._candidates.rational(node, powers=column < self._reported), *hyperbolic.forms(node)]
        forms = dict.fromkeys([self._forms[node], node, *(form for form, _ in others)])
        reaches = {
            form: list(expansion.reaches) or self._reaches(form, place, column) or [LEAST_REACH] for form in forms
        }
        tries = [(form, reach, near) for form in forms for reach in reaches[form] for near in near_zero(reach)]
        least = min(itertools.chain(*reaches.values()))
        while not tries and least > _FARTHER:  # other polynomials may go on from where the series serves
            least /= 2
            tries = [(form, least, near) for form in forms for near in near_zero(least)]
        best: _Patch | None = None
        by, patience = "its power series", _PATIENCE
        while tries and patience:
            self._look_beside({reach for _, reach, _ in tries}, place)
            patched = [(entry, made_of) for made_of in tries for entry in self._patched(column, place, *made_of)]
            if not patched:
                break
            (*_, new), (form, reach, near) = min(patched, key=lambda entry: entry[0][:2])
            (measured,) = self._measured([new], [column], near=True)
            patience -= 1
            if best is None or rank(measured) < rank(best.quality):
                best, patience = _Patch(new, measured, by, next(_is_near(place, reach)), near), _PATIENCE
            by, tries = "polynomials through its values", []
            if best.quality.error > TARGET and _FARTHER <= reach < _FARTHEST:
                farther = sorted({_STEP * reach, *(more for more in reaches.pop(form, []) if more > reach)})
                tries = [(form, reach, near) for reach in farther for near in expansion.farther(leading, reach)]
        return best

    def _look_beside(self, reaches: Collection[float], place: Node) -> None:
        """Add inputs just inside and outside of where a series might end."""
        if place.op == "input" and len(self._tensors) == 1:
            name = str(place.value)
            at = [{**self._hyper, name: reach * share} for reach in sorted(reaches) for share in _BESIDE_REACH]
            for reference in (self._single, self._double):
                reference.look_at(at)

    def _patched(
        self, column: int, variable: Node, form: Node, reach: float, near: Node
    ) -> Iterator[tuple[tuple[int, int], float, Node]]:
        """A form with another one in its place where |variable| < reach: its rank, its cost, itself.

        Nothing where the two are not the same function.
        """
        for is_near in _is_near(variable, reach):
            new = form.graph.where(is_near, near, form)
            if self._single.is_same(new, column):
                (measured,) = self._measured([new], [column], near=False)
                yield rank(measured), cost(new), new
                return

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
            if is_other and not self._is_hopeless(sharpened, column, self._quality[node]):
                self._take_if_better(node, sharpened, column, notes, f"{how}with corrected arguments", meets_bar)
                if self._forms[node] is sharpened and self._quality[node].double.error <= BAR:
                    return
            new = marked(form)
            if self._quality[node].double.normal <= BAR or self._is_hopeless(new, column, self._quality[node]):
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
            (plain,) = self._measured(form.args, [column], near=True)
            self._uncorrected[node] = plain.single
            if plain.single.error <= TARGET:
                self._quality[node] = replace(self._quality[node], single=plain.single)
                self._needs_no_correction.add(node)

    def _settle(self, node: Node, column: int) -> None:
        """Give the form its limits at infinite inputs where it is NaN."""
        form = self._forms[node]
        new = self._settled(form, column)
        if new is not form:
            self._forms[node] = new
            self._note(node, self.notes[node], _SETTLED, "the other is NaN there")

    def _settled(self, form: Node, column: int) -> Node:
        """A form of a result with its limits at infinite inputs where it is NaN."""
        if form not in self._with_limits:
            exact, printed = self._exact(column), printed_alone(form)
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
        if place.op == "mul":  # of a product that is where an input is
            return self._expansions.has_pole(form, set(inputs_of([place])).intersection(self._tensors))
        return self._expansions.has_pole(form if variable is place else expansion.root, inputs_of([variable]))

    def _has_pole_within(self, change: variables.Change, form: Node) -> bool:
        """Whether a form of a result is no number where the variable of a change is zero."""
        return self._expansions.has_pole(change.moved([form])[0], [str(change.variable.value)])

    def _reaches(self, form: Node, variable: Node, column: int, beyond: float = TARGET) -> list[float]:
        """How far from zero a series might be used: as far as float32 asks for, or float64, or not as far.

        Nothing if what is wrong, by more than this error, is not near zero.
        """
        printed = printed_alone(form)
        needed = [self._single.reach(printed, column, variable, beyond, wide=wide) for wide in (False, True)]
        needed.append(self._double.reach(printed, column, variable, beyond, wide=False))
        least, most = max(LEAST_REACH, *needed[1:]), max(needed)
        return sorted({most, least, least / 2, least / 4, least / 8}) if most else []

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
        is_seen = all(self._single.is_dense(unmarked([self._forms[node]])) for node in nodes if node in self._forms)
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


def _each_once(candidates: Iterable[tuple[Node, str]], known: Node) -> Iterator[tuple[Node, str]]:
    """The forms that neither came before nor are the one that is known."""
    seen = {known}
    for form, how in candidates:
        if form not in seen:
            seen.add(form)
            yield form, how


def _is_near(variable: Node, reach: float) -> Iterator[Node]:
    """Conditions that |variable| < reach; of d/q also one that holds for positive q alone, of which there is a log."""
    graph = variable.graph
    yield graph.apply("lt", graph.apply("abs", variable), sympy.Float(reach))
    for base in [base for base, power in factors(variable)[1] if power == -1]:
        (over,) = rewrite([variable * base])
        yield graph.apply("le", graph.apply("abs", over), sympy.Float(reach) * base)  # which may be 0


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
