"""What results are computed by near their removable singularities, and where their forms are 0/0."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import reduce

from gradgen import hyperbolic, variables
from gradgen.compensate import marked
from gradgen.expansion import Expansion, Expansions, Formal, Meeting
from gradgen.graph import Node, inputs_of
from gradgen.patches import Patch, Patches
from gradgen.printers.base import Printer
from gradgen.quality import TARGET, Quality, rank
from gradgen.rewrite import factored, factors, in_exponentials
from gradgen.search import SINGULAR, LookedAt
from gradgen.standing import Note, Standing, each_once, reads_more
from gradgen.subproblems import Subproblems

_NO_NUMBER = "the other is no number there"
_EACH = "with each exponential divided by what its sum is divided by"


class Singularities:
    """Mends the forms of results near removable singularities.

    Args:
        standing: how those stand.
        subproblems: their subproblems.
        divides: whether quotients of series are looked at, too.

    Attributes:
        unpatched: for results that were mended though their error may be one of rounding alone the form before, with
            notes on it.
    """

    def __init__(self, standing: Standing, subproblems: Subproblems, divides: bool) -> None:
        self.unpatched: dict[Node, tuple[Node, list[Note]]] = {}
        self._standing = standing
        self._subproblems = subproblems
        self._patches = Patches(standing.references)
        self._expansions = Expansions(standing.tensors, standing.poles, divides)
        self._looked_at: LookedAt = []  # for the result that is mended

    def mend(self, node: Node, looked_at: LookedAt) -> None:
        """Take what is better near a removable singularity of a result, and a number where its form is 0/0."""
        self._looked_at = looked_at
        self._patch(node)
        self._fill(node)
        self._fill_by_terms(node)
        self._fill_by_powers(node)

    # Series near a singularity

    def _patch(self, node: Node) -> None:
        """Near a removable singularity take the series of a result, where that is better; else those of its parts."""
        if self._patch_within(node, is_as_good=True):
            return
        found = itertools.chain(self._expansions.of(node), self._in_argument(node))
        is_patched = is_settled = False
        for expansion in found:
            if is_settled and not self._has_pole_at(self._standing.forms[node], expansion):
                continue
            if self._patch_near(node, expansion):
                is_patched = True
                if not isinstance(expansion, Meeting):  # of which the best is taken, by another difference
                    is_settled = True
        if is_patched or self._patch_within(node, is_as_good=False):
            return
        form, is_of_one = self._standing.forms[node], len(self._standing.tensors) == 1
        shown = self._expansions.at_sums(form) if is_of_one and form is not node else ()  # poles the node does not show
        if any(self._patch_near(node, expansion) for expansion in shown):
            return
        whole = factored(node)
        at = self._standing.inputs_with_poles(self._standing.forms[node])
        for part in [*self._expansions.parts(whole, at)]:
            patches = (self._patch_near(node, expansion) for expansion in self._expansions.in_input(part, whole))
            patch = next(filter(None, patches), None)
            if patch is not None:
                whole = node.graph.where(patch.is_near, patch.made_of.near, whole)

    def _in_argument(self, node: Node) -> Iterator[Expansion]:
        """A poor result in powers of an argument: near 0 of that alone, for elsewhere it may lose digits."""
        inner = self._subproblems.inner if self._standing.is_poor(node) else None
        within = inner.within(node) if inner else None
        if inner and within:
            change = inner.argument
            yield from self._expansions.in_argument(inner.slope(node), within, change)

    def _patch_within(self, node: Node, is_as_good: bool) -> bool:
        """Take the form as a function of an argument if only that is a number where the argument is zero.

        Elsewhere it is to be as good, if that is asked for.
        """
        standing = self._standing
        inner = self._subproblems.inner if standing.is_poor(node) else None
        if inner is None or not self._has_pole_within(inner.argument, node):
            return False
        if not self._has_pole_within(inner.argument, standing.forms[node]):
            standing.filled.add(node)
            return False
        for form, how in each_once(self._subproblems.within(node), node):
            if self._has_pole_within(inner.argument, form) or not standing.is_same(node, form):
                continue
            quality = standing.measured(node, form, near=True)
            if is_as_good and rank(quality) > rank(standing.quality[node]):
                continue
            standing.take(node, form, quality, standing.notes[node], how, _NO_NUMBER)
            standing.filled.add(node)
            return True
        return False

    def _patch_near(self, node: Node, expansion: Expansion) -> Patch | None:
        """Take the series of a result, or of a part of it, near a removable singularity, if that is better."""
        standing, place, zero = self._standing, expansion.place, _where_zero(expansion.place)
        quality, before, column = standing.quality[node], standing.forms[node], standing.column(node)
        if expansion.change is None and (not zero or standing.poles.has(place, zero)):
            return None
        has_pole = expansion.whole is not None or self._has_pole_at(before, expansion)
        if not self._is_singular(node) and not has_pole:
            return None
        if not has_pole and not standing.references.reaches(before, place, column, self._singular(node)):
            return None  # what is wrong is not near 0
        found = expansion.series()
        if found is None or (found[0] and not self._is_singular(node)):
            return None
        pole, leading = found
        if isinstance(expansion, Meeting):  # what is left beyond takes more digits than there are
            forms = dict.fromkeys(marked(form, "extended") for form in (before, node))
        else:
            others = [*standing.rational(node), *hyperbolic.forms(node)]
            forms = dict.fromkeys([before, node, *(form for form, _ in others)])
        more: dict[Node, str] = {}
        if expansion.whole is None and expansion.change is None:
            more = {form: how for _, form, how in self._looked_at} | {in_exponentials(node): _EACH}
            more = {form: how for form, how in more.items() if form not in forms and not reads_more(form, node)}
        best = self._patches.best(column, forms, expansion.without_pole(pole), leading, more)
        if best is None:
            return None
        # A part may not be all that is no number there, and a difference is 0 elsewhere.
        is_other = expansion.whole is not None or expansion.change is not None
        is_removed = is_other or not standing.poles.has(best.form, zero)
        is_gone = has_pole and not pole and is_removed
        if not is_gone and rank(best.quality) >= rank(quality):
            return None
        if isinstance(expansion, Formal) and self._has_filling(node, best.quality):
            return None
        kept = standing.kept(node, best.form) if len(standing.tensors) > 1 else best.form
        form = kept or best.form
        if (kept is None and not is_gone) or reads_more(form, node):
            return None
        if not is_gone and quality.normal <= SINGULAR:
            self.unpatched[node] = before, standing.notes[node]
        how, notes = f"near {Printer({}).expression(place)} = 0 by {best.by}", standing.notes[node]
        if best.beside:
            how, notes = f"{best.beside}, {how}", []
        standing.take(node, form, best.quality, notes, how, _NO_NUMBER)
        standing.patched.add(node)
        if is_gone:
            standing.filled.add(node)
        return best

    def _is_singular(self, node: Node) -> bool:
        """Whether the error of a result may be the sign of a singularity."""
        return self._standing.quality[node].normal > self._singular(node)

    def _singular(self, node: Node) -> float:
        """An error that may be the sign of a singularity; of what has two forms already, one beside the other."""
        return TARGET if self._standing.forms[node] in self._standing.switched else SINGULAR

    def _has_pole_at(self, form: Node, expansion: Expansion) -> bool:
        """Whether a form of a result is no number where the variable of an expansion is zero."""
        variable, place, poles = expansion.variable, expansion.place, self._standing.poles
        if expansion.change is not None:
            return self._has_pole_within(expansion.change, form)
        if place.op in ("mul", "hypot"):  # a product is 0 where an input is, a norm where all are
            return poles.has(form, set(_where_zero(place)).intersection(self._standing.tensors))
        return poles.has(form if variable is place else expansion.root, inputs_of([variable]))

    def _has_pole_within(self, change: variables.Change, form: Node) -> bool:
        """Whether a form of a result is no number where the variable of a change is zero."""
        return self._standing.poles.has(change.moved([form])[0], [str(change.variable.value)])

    # Numbers where a form is 0/0

    def _fill(self, node: Node) -> None:
        """Of the forms that were looked at take the best that is a number where the one so far is 0/0, if one is."""
        for quality, form, how in self._fillings(node):
            self._fill_with(node, form, quality, how)
            return

    def _fillings(self, node: Node) -> Iterator[tuple[Quality, Node, str]]:
        """Of the forms that were looked at those that are numbers where the one so far is 0/0, the best first."""
        poles = self._standing.inputs_with_poles(self._standing.forms[node])
        for quality, form, how in sorted(self._looked_at if poles else (), key=lambda one: rank(one[0])):
            if not self._standing.inputs_with_poles(form, poles):
                yield quality, form, how

    def _has_filling(self, node: Node, quality: Quality) -> bool:
        """Whether a form that was looked at is a number where the one so far is 0/0, and no farther off than this."""
        best = next(self._fillings(node), None)
        return best is not None and rank(best[0]) <= rank(quality)

    def _fill_by_terms(self, node: Node) -> None:
        """Where a form is 0/0 take the sum of its terms, each in the form that is best for it by itself.

        Those of a derivative are the derivatives of the terms of the value, which may have limits where its own do not.
        """
        standing, removable = self._standing, self._removable(node)
        terms = standing.candidates.terms(node) if removable else []
        if len(terms) < 2 or not all(standing.poles.has_limit(*one) for one in itertools.product(terms, removable)):
            return
        form = reduce(node.graph.add, (self._filled_alone(term, removable) for term in terms))
        if standing.inputs_with_poles(form, removable) or reads_more(form, node) or not standing.is_same(node, form):
            return
        quality = standing.measured(node, form, near=True)
        self._fill_with(node, form, quality, "with each term in the form that is best for it alone")

    def _filled_alone(self, term: Node, removable: Sequence[str]) -> Node:
        """A term in the form that is best for it by itself, if it is no number where some inputs are zero."""
        if not self._standing.inputs_with_poles(term, removable):
            return term
        return self._subproblems.alone(term, tuple(variables.tensors_of(term, self._standing.tensors)))

    def _fill_with(self, node: Node, form: Node, quality: Quality, how: str) -> None:
        """Take a form that is a number where the one so far is 0/0, unless it is far off elsewhere, and that is not."""
        if quality.normal <= max(SINGULAR, self._standing.quality[node].normal):
            self._standing.take(node, form, quality, [], how, _NO_NUMBER)
            self._standing.filled.add(node)

    def _fill_by_powers(self, node: Node) -> None:
        """Where a form is still 0/0 take the first terms of its power series, whose coefficients are no numbers."""
        for expansion in self._expansions.in_powers(node, self._removable(node)):
            self._patch_near(node, expansion)

    def fill_by_division(self, node: Node) -> None:
        """Where a result is no number after all take the first terms of its power series as one of a quotient."""
        for expansion in self._expansions.by_division(node, self._removable(node)):
            self._patch_near(node, expansion)

    def _removable(self, node: Node) -> list[str]:
        """Those of the inputs where the form of a result is no number where they are zero, though the result is one."""
        poles = self._standing.inputs_with_poles(self._standing.forms[node])
        return [name for name in poles if self._standing.poles.has_limit(node, name)]


def _where_zero(place: Node) -> list[str]:
    """The inputs that are zero where a variable is: of a quotient not those that it is divided by."""
    _, found = factors(place)
    return inputs_of([base for base, exponent in found if exponent > 0])
