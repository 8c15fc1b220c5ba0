"""Which of the forms of a result is computed, and in which precision: the cheapest that meets the bar, by the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradgen import climb, halves
from gradgen.arithmetic import BRIEF, ROUGH, Arithmetic
from gradgen.compensate import compensated, has_marks, unmarked
from gradgen.corrections import Corrections
from gradgen.few_digits import FewDigits, Own
from gradgen.forms import SETTLED, Forms
from gradgen.graph import Node, topological
from gradgen.measure import GAUSSIAN, MODERATE, MODERATE_LEAST, Reference
from gradgen.printed import as_printed, printed_alone
from gradgen.quality import BAR, LOST, TARGET, Quality, instructions, rank
from gradgen.search import SINGULAR
from gradgen.standing import Note, Problem, reads_more
from gradgen.twins import twins
from gradgen.worst import Place, Worst

# A type with fewer digits than float32 asks for float64 arithmetic only where float32 has hardly a digit left.
_WIDENED = {"float32": TARGET, "bfloat16": 2.0**14, "float16": 2.0**11}

# The same of moderate inputs, if it is looked near what is worst in every binade: of the bar, half a unit is left.
_SEEN = 3.4

# The share of points at which a form may be off, beside those at which the other one is, if it is right for labels
_FEW = 0.1

_LOOKED_AT: tuple[halves.Which, ...] = ("edges", "all")  # inputs at which a form is held against itself for it

Errors = Sequence[tuple[float, float]]  # of results, each in two arithmetics

# What is corrected in float32 stays there if that takes so many times the instructions at most, for float64 takes twice
# as many, and if its error is no larger: what is left is that of functions, which the table has a bound for.
_CHEAPLY, _CORRECTED = 1.8, 3.9


class Choice:
    """The forms in which the results of an op are computed.

    Args:
        problem: the results, and what they are functions of.
    """

    def __init__(self, problem: Problem) -> None:
        self._twins = twins(problem.every, problem.tensors, problem.hyper)
        nodes, others = ([x for x in some if x not in self._twins] for some in (problem.nodes, problem.others))
        self._forms = Forms(problem._replace(nodes=nodes, others=others))
        self._standing = self._forms.standing
        self._corrections = Corrections(self._standing, self._forms.unpatched, self._forms.looked_at)
        self._climbed: dict[tuple[Node, float, str], tuple[float, Place]] = {}
        for node in self._standing.forms:
            if self._forms.find(node):
                self._corrections.compensate(node)
                self._settle(node)
        self._errors_of_moderate: dict[tuple[Node, int], float] = {}
        self._few_digits = FewDigits(self._forms, self._corrections)
        self._elsewhere: dict[Node, Quality] = {}
        if len(problem.tensors) > 1:
            reported = [*dict.fromkeys(nodes)]
            self._look_densely(reported)
            there = self._errors_elsewhere(reported)
            self._elsewhere = {node: found[self._standing.forms[node]] for node, found in there.items()}
            for node in self._elsewhere:
                self._mend_elsewhere(node, there[node])

    def _distinct(self, node: Node) -> tuple[Node, int]:
        """What a result is computed as, and with which sign."""
        return self._twins.get(node, (node, 1))

    def _look_densely(self, nodes: Sequence[Node]) -> None:
        """Compensate what is near the bar at ordinary inputs.

        Roundings of several inputs add up in few of all tuples, and in others than those by more; near the worst they
        are looked for once more. The search for forms does not see them: which form has the least of them in these
        would be chance.
        """
        standing = self._standing
        standing.references.look_densely()
        for node in nodes:
            self._corrections.forget(node)
            quality = standing.measured(node, standing.forms[node], near=True)
            if quality.double.error <= TARGET and not has_marks([standing.forms[node]]):
                error, at = self.climbed(node, arithmetic="short")
                if error > BAR:
                    worst = replace(quality.double, error=error, at=at, ordinary=error, normal=error)
                    quality = replace(quality, double=worst)
            standing.quality[node] = quality
            self._corrections.compensate(node, bar=TARGET)
            self._settle(node)

    def _errors_elsewhere(self, nodes: Sequence[Node]) -> dict[Node, dict[Node, Quality]]:
        """The errors of the forms of each result where inputs are labels, about 1, or nearly meet."""
        standing, forms = self._standing, {}
        for node in nodes:
            others = (form for _, form, _ in self._forms.looked_at(node) if not reads_more(form, node))
            forms[node] = [*dict.fromkeys([standing.forms[node], *others])]
        columns = [standing.column(node) for node, some in forms.items() for _ in some]
        found = iter(standing.references.elsewhere([form for some in forms.values() for form in some], columns))
        return {node: {form: next(found) for form in some} for node, some in forms.items()}

    def _mend_elsewhere(self, node: Node, elsewhere: Mapping[Node, Quality]) -> None:
        """Where a result is far off for such inputs, take a form that was looked at and is not, if any is.

        Or one that is off at a few other inputs, where float32 is no number at these in the one so far.

        Args:
            node: the result.
            elsewhere: the errors of its forms for such inputs.
        """
        standing, so_far, there = self._standing, self.quality(node), self._elsewhere[node]
        if there.ordinary <= SINGULAR or node in standing.filled:
            return
        others = {form: how for _, form, how in self._forms.looked_at(node) if form in elsewhere}
        if not others:
            return
        everywhere = {form: standing.measured(node, form, near=False) for form in others}
        best = min(others, key=lambda form: rank(everywhere[form]))
        best_there = min(others, key=lambda form: (rank(elsewhere[form]), rank(everywhere[form])))

        def is_better(quality: Quality) -> bool:
            return rank(quality) < rank(so_far)

        def saves_float32(quality: Quality) -> bool:
            is_saved = there.best_single.error == math.inf > elsewhere[best_there].best_single.error
            return is_better(quality) or (is_saved and quality.double.often <= so_far.double.often + _FEW)

        for other, is_enough in ((best, is_better), (best_there, saves_float32)):
            form = self._forms.settled(node, other)
            quality = standing.measured(node, form, near=True)
            if is_enough(quality):
                why = "the other is off where inputs nearly meet, or are about 1"
                standing.take(node, form, quality, [], others[other], why)
                self._corrections.forget(node)
                self._elsewhere[node] = quality  # such inputs are among those that errors are modelled at from now on
                return

    def _settle(self, node: Node) -> None:
        """Give the form its limits at infinite inputs where it is off."""
        standing = self._standing
        new = self._forms.settled(node, standing.forms[node])
        if new is not standing.forms[node]:
            quality, notes = standing.quality[node], standing.notes[node]
            if not math.isfinite(quality.double.error):  # at large inputs, maybe, which have the limit too
                quality = standing.measured(node, new, near=False)
            standing.take(node, new, quality, notes, SETTLED, "the other is off there")

    def form(self, node: Node) -> Node:
        """The form in which a result is computed."""
        node, sign = self._distinct(node)
        return sign * self._standing.forms.get(node, node)

    def of_few_digits(self, nodes: Sequence[Node], arithmetic: Arithmetic) -> tuple[Own, ...]:
        """The forms that some types have for themselves in a kernel that computes these results."""
        return self._few_digits.of([*dict.fromkeys(self._known(nodes))], arithmetic)

    def own_form(self, own: Own, node: Node) -> Node:
        """The form in which types that have forms of their own compute a result."""
        node, sign = self._distinct(node)
        return sign * own.forms.get(node, node)

    def notes(self, node: Node) -> Sequence[Note] | None:
        """In what form a result is computed, where that is not the one that was given; None of what is no result."""
        return self._standing.notes.get(self._distinct(node)[0])

    def smooth(self, node: Node) -> Node:
        """The form of a result for autograd to differentiate: as it was given, but where that keeps no digits.

        Exponentials of which quotients are made, and corrections for rounding, make no good derivatives.
        """
        standing, (node, sign) = self._standing, self._distinct(node)
        if node not in standing.forms:
            return node
        given, chosen = standing.sound[node].double, standing.quality[node].double
        if node in standing.filled or chosen.ordinary <= LOST < given.ordinary:
            return sign * unmarked([standing.forms[node]])[0]
        return sign * self._forms.settled(node, node)

    def quality(self, node: Node) -> Quality:
        """The modelled errors of a result."""
        node, _ = self._distinct(node)
        quality, elsewhere = self._standing.quality[node], self._elsewhere.get(node)
        return quality.including(elsewhere) if elsewhere else quality

    def uncorrected(self, node: Node) -> Quality:
        """The modelled errors of a result without corrections."""
        return self._corrections.uncorrected(self._distinct(node)[0])

    def arithmetic(self, nodes: Sequence[Node]) -> Arithmetic:
        """In which arithmetic a kernel that computes these results is best computed."""
        forms = self._standing.forms
        known = self._known(nodes)
        marked = [node for node in known if has_marks([forms[node]])]
        narrow = not any(map(self._corrections.is_corrected, marked))
        wide = self.wide(nodes)
        plain = [self.uncorrected(node).single for node in known]
        rough = [dtype for dtype in ROUGH if all(_sees(dtype, worst) <= _WIDENED[dtype] for worst in plain)]
        corrected = self._corrected(known, wide)
        without = {*rough, *wide, *(["float32"] if narrow else [])} - {*corrected}
        uncorrected = tuple(dtype for dtype in _WIDENED if dtype in without) if marked else ()
        is_brief = bool(wide) and not corrected and all(map(self._is_brief, known))
        is_seen = all(self._standing.references.is_dense(forms[node]) for node in known)
        moderate = tuple((dtype, power) for dtype in wide if (power := self._moderate(known, dtype)) is not None)
        is_narrow_at_defaults = bool(wide) and is_seen and all(map(self._is_narrow_at_defaults, known))
        is_plain = bool(marked) and is_seen and all(map(self._is_plain_at_defaults, known))
        plain_at_defaults = ("float64",) if is_plain and (is_narrow_at_defaults or not wide) else ()
        return Arithmetic(
            wide, wide if is_brief else (), moderate, uncorrected, is_narrow_at_defaults, plain_at_defaults
        )

    def _is_narrow_at_defaults(self, node: Node) -> bool:
        """Whether float32 does by itself where hyper-parameters have their defaults."""
        return bool(self._standing.hyper) and self.uncorrected(node).single.at_defaults <= TARGET

    def _is_plain_at_defaults(self, node: Node) -> bool:
        """Whether a result of float64 needs no corrections where hyper-parameters have their defaults: x*1 is exact."""
        if not self._standing.hyper:
            return False
        at_defaults = self.uncorrected(node).double.at_defaults
        return at_defaults <= TARGET and self.climbed(node, arithmetic="short")[0] <= BAR

    def _is_brief(self, node: Node) -> bool:
        """Whether a result that is computed in float64 for float32 needs but some digits of functions."""
        amplified = self._standing.references.amplified
        return self.uncorrected(node).single.error <= BRIEF or amplified(*self._unmarked(node)) <= BRIEF

    def _moderate(self, known: Sequence[Node], dtype: str) -> int | None:
        """Up to which power of two a type needs neither float64 nor corrections; None if it does up to any tried.

        Not float32 of one input: docs/literature.md has what it is off by in float64, at every number.
        """
        if dtype == "float32" and len(self._standing.tensors) == 1:
            return None
        forms = [self._unmarked(node)[0] for node in known]
        is_seen = all(map(self._standing.references.is_quick, forms))
        bar = max(_WIDENED[dtype], _SEEN if is_seen else 0.0)
        is_gaussian = any(below.op in GAUSSIAN for below in topological(forms))
        powers = (*MODERATE, MODERATE_LEAST) if is_gaussian or dtype in ROUGH else MODERATE

        def do(power: int) -> bool:
            if any(self.moderate(node, power) > bar for node in known):
                return False
            if dtype == "float32" and any(self.climbed(node, 2.0**power)[0] > BAR for node in known):
                return False
            seen, does = [*filter(self._standing.references.is_quick, forms)], self._few_digits.does
            if dtype in ROUGH:
                return all(does(form, form, bar, within=2.0**power) for form in seen)
            return all(does(form, form, within=2.0**power, which=which) for form in seen for which in _LOOKED_AT)

        return next(filter(do, powers), None)

    def moderate(self, node: Node, power: int) -> float:
        """The error of float32 without corrections where no input is very small, or larger than this power of two."""
        node, _ = self._distinct(node)
        if (node, power) not in self._errors_of_moderate:
            error = self._standing.references.moderate(*self._unmarked(node), 2.0**power)
            self._errors_of_moderate[node, power] = error
        return self._errors_of_moderate[node, power]

    def climbed(self, node: Node, most: float = math.inf, arithmetic: str = "float32") -> tuple[float, Place]:
        """The error without corrections in the worst tuple of several inputs that is found near others, and where.

        0 and nowhere for a form with functions that take long.
        """
        node, _ = self._distinct(node)
        standing, (form, _) = self._standing, self._unmarked(node)
        key = form, most, arithmetic
        if key not in self._climbed:
            self._climbed[key] = 0.0, ()
            if len(standing.tensors) > 1 and standing.references.is_quick(form):
                given = standing.tensors, standing.hyper, most
                self._climbed[key] = climb.worst(printed_alone(form), arithmetic, *given)
        return self._climbed[key]

    def _unmarked(self, node: Node) -> tuple[Node, int]:
        """The form of a result without corrections, and its column."""
        (form,) = unmarked([self._standing.forms[node]])
        return form, self._standing.column(node)

    def _known(self, nodes: Sequence[Node]) -> list[Node]:
        """What some nodes are computed as, those that are results."""
        return [node for node, _ in map(self._distinct, nodes) if node in self._standing.forms]

    def wide(self, nodes: Sequence[Node]) -> tuple[str, ...]:
        """The types of which a kernel that computes these results is better computed in float64."""
        known = self._known(nodes)
        found = [self._standing.quality[node] for node in known]
        every = [self._errors_of_float32(node) for node in known]
        ordinary = [(q.single.ordinary, min(q.wide.ordinary, q.precise.ordinary)) for q in found]
        is_corrected = any(map(self._corrections.is_corrected, known))
        does_corrected = is_corrected and self._does_corrected(known)
        errors = _by_type(every, ordinary)
        elsewhere = [self._elsewhere[node] for node in known if node in self._elsewhere]
        if any(quality.best_single.error > LOST for quality in elsewhere):
            elsewhere = []  # nothing can be saved there
        there = _by_type(
            [(quality.single.error, quality.widened.error) for quality in elsewhere],
            [(quality.single.ordinary, quality.widened.ordinary) for quality in elsewhere],
        )
        wide = (
            dtype
            for dtype, most in _WIDENED.items()
            if _gains(errors[dtype], most, is_corrected) or _gains(there[dtype], most)
        )
        return tuple(dtype for dtype in wide if dtype != "float32" or not does_corrected)

    def _does_corrected(self, known: Sequence[Node]) -> bool:
        """Whether float32 does with corrections, and these take fewer instructions than float64 takes more.

        Not of one input, as in `_moderate`.
        """
        if len(self._standing.tensors) == 1:
            return False
        most = {node: _CORRECTED if self._corrections.is_corrected(node) else TARGET for node in known}
        forms = [self._standing.forms[node] for node in most]
        does = all(self._errors_of_float32(node)[0] <= most[node] for node in most)
        return does and instructions(compensated(forms)) <= _CHEAPLY * instructions(unmarked(forms))

    def _errors_of_float32(self, node: Node) -> tuple[float, float]:
        """In both arithmetics; with the errors elsewhere, unless nothing can be saved there."""
        told = self.quality(node)
        quality = told if told.best_single.error <= LOST else self._standing.quality[node]
        single, wide = quality.single.error, quality.widened.error
        if single <= TARGET and not self._corrections.is_corrected(node):
            climbed, _ = self.climbed(node)
            single = climbed if climbed > BAR else single
        return single, wide

    def _corrected(self, known: Sequence[Node], wide: Sequence[str]) -> list[str]:
        """Of the types that are computed in float64 those whose digits do not do there without corrections."""
        found = [*map(self.quality, known)]
        every = [(quality.wide.error, quality.precise.error) for quality in found]
        ordinary = [(quality.wide.ordinary, quality.precise.ordinary) for quality in found]
        errors = _by_type(every, ordinary)
        return [dtype for dtype in wide if _gains(errors[dtype], _WIDENED[dtype])]


def _by_type(every: Errors, ordinary: Errors) -> dict[str, Errors]:
    """The errors of results that each type has: float16 has no numbers that are extreme."""
    if _is_lost(every) and not _is_lost(ordinary):
        every = ordinary  # by where something can be saved
    return {"float32": every, "bfloat16": every, "float16": ordinary}


def _is_lost(errors: Errors) -> bool:
    """Whether of some result hardly a digit is right in either arithmetic."""
    return any(min(pair) > LOST for pair in errors)


def _sees(dtype: str, worst: Worst) -> float:
    """The error of float32 arithmetic that a type sees: float16 has no numbers that are extreme."""
    return worst.ordinary if dtype == "float16" else worst.error


def is_sound(nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> bool:
    """Whether nodes, just as they are, meet the bar where their results are no subnormal numbers."""
    printed = as_printed(nodes)
    return all(
        worst.normal <= BAR
        for dtype in ("float32", "float64")
        for worst in Reference(nodes, tensors, hyper, dtype).worst(printed, range(len(nodes)), near=False)
    )


def _gains(errors: Errors, most: float, is_corrected: bool = False) -> bool:
    """Whether errors, each in two arithmetics, are so large in the lesser one that the other is worth it.

    Where something is compensated in float32 it always is: two roundings are cheaper than all corrections.
    """
    narrow, widened = map(max, zip(*errors, strict=True)) if errors else (0.0, 0.0)
    if is_corrected:
        narrow = max(narrow, math.nextafter(TARGET, math.inf))
    return narrow > most and widened < narrow
