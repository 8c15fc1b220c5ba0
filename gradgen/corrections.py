"""Compensated arithmetic for results of which rounding alone takes digits that count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gradgen import rational
from gradgen.compensate import has_marks, marked, unmarked
from gradgen.graph import Node, topological
from gradgen.printed import printed_alone
from gradgen.quality import BAR, TARGET, Quality, cost, is_enough, is_more_accurate, meets_bar, rank
from gradgen.search import LookedAt
from gradgen.standing import Note, Standing

# How all of a form is computed with more digits, the cheaper way first.
_WHOLE = {
    "compensated": "in compensated arithmetic",
    "extended": "in compensated arithmetic, functions with twice the digits",
}
_LITTLE_MORE = 2.0  # times the error
_MOST_OTHERS = 4  # of the forms that were looked at, the best without corrections
_MOST_COMPENSATED = 80  # nodes of a result for which a text four times as long is reasonable


class Corrections:
    """Compensates the forms of results.

    Args:
        standing: how those stand.
        unpatched: other forms that may be compensated, each with notes on it.
        looked_at: what gives the forms of a result that were looked at.
    """

    def __init__(
        self,
        standing: Standing,
        unpatched: Mapping[Node, tuple[Node, list[Note]]],
        looked_at: Callable[[Node], LookedAt],
    ) -> None:
        self._standing = standing
        self._unpatched = unpatched
        self._looked_at = looked_at
        self._needs_none: set[Node] = set()  # in float32
        self._uncorrected: dict[Node, Quality] = {}  # of the corrected results, as they would be without

    def forget(self, node: Node) -> None:
        """Drop what is known of a result whose form is another one now, or is looked at in other points."""
        self._needs_none.discard(node)
        self._uncorrected.pop(node, None)

    def compensate(self, node: Node, bar: float = BAR) -> None:
        """Where rounding alone puts a float64 result near the bar or above it, compute it in compensated arithmetic.

        All of it only above `bar`. It does nothing for subnormal results. Where float32 meets the target without the
        corrections that float64 needs, it goes without.
        """
        standing = self._standing
        if standing.quality[node].double.normal > TARGET and len(topological([node])) <= _MOST_COMPENSATED:
            self._take_compensated(node, bar)
        form = standing.forms[node]
        if has_marks([form]):
            plain = standing.measured(node, unmarked([form])[0], near=True)
            self._uncorrected[node] = plain
            if plain.single.error <= TARGET:
                standing.quality[node] = replace(standing.quality[node], single=plain.single)
                self._needs_none.add(node)

    def _take_compensated(self, node: Node, bar: float) -> None:
        """Take a form with corrected arguments, or in compensated arithmetic."""
        standing = self._standing
        enough = TARGET if standing.is_reported(node) else BAR
        for form, how in self._gates(node):
            standing.take_if_better(node, marked(form, "sharpened"), [], f"{how}, with corrected arguments", is_enough)
            if standing.quality[node].double.error <= TARGET:
                return
        for form, notes, how in self._to_compensate(node):
            sharpened = marked(form, "sharpened")
            is_other = printed_alone(sharpened) is not printed_alone(form)
            if is_other and not standing.is_hopeless(node, sharpened):
                standing.take_if_better(node, sharpened, notes, f"{how}with corrected arguments", meets_bar)
                if standing.forms[node] is sharpened and standing.quality[node].double.error <= bar:
                    return
            for mark, what in _WHOLE.items():
                new = marked(form, mark)
                is_new = mark == "compensated" or printed_alone(new) is not printed_alone(marked(form))
                if standing.quality[node].double.normal > bar and is_new and not standing.is_hopeless(node, new):
                    standing.take_if_better(node, new, notes, f"{how}{what}", is_more_accurate)
                    if max(standing.quality[node].single.error, standing.quality[node].double.error) <= enough:
                        return

    def _gates(self, node: Node) -> list[tuple[Node, str]]:
        """Forms of a result with derivatives of gates that lose little more digits than the best, cheapest first."""
        standing = self._standing
        if node in standing.filled or not standing.is_reported(node):
            return []
        gates = {form for form, _ in standing.candidates.gates(node)}
        most = _LITTLE_MORE * standing.quality[node].double.error
        found = [(form, how) for quality, form, how in self._looked_at(node) if quality.double.error <= most]
        return sorted([entry for entry in found if entry[0] in gates], key=lambda entry: cost(entry[0]))

    def _to_compensate(self, node: Node) -> Iterator[tuple[Node, list[Note], str]]:
        """Forms of a result, each once, with notes on what it is made from, and what it is."""
        standing = self._standing
        (best,), notes = unmarked([standing.forms[node]]), standing.notes[node]
        found: dict[Node, tuple[list[Note], str]] = {best: (notes, "")}
        if node in self._unpatched:
            form, before = self._unpatched[node]
            found[form] = before, ""
        is_any = node not in standing.filled
        if is_any:
            found.setdefault(node, ([], ""))
            for form, how in standing.rational(node):
                found.setdefault(form, ([], f"{how}, "))
        found.setdefault(rational.expanded(best), (notes, ""))
        if is_any:
            found.setdefault(rational.expanded(node), ([], ""))
        poles = set(standing.inputs_with_poles(best))

        def has_no_more_poles(form: Node) -> bool:
            return form is best or poles.issuperset(standing.inputs_with_poles(form))

        for form, (before, how) in found.items():
            if has_no_more_poles(form):
                yield form, before, how
        if is_any and standing.quality[node].double.ordinary > BAR:
            # Of forms that lose as much without corrections some lose nothing with them
            for _, form, how in sorted(self._looked_at(node), key=lambda entry: rank(entry[0]))[:_MOST_OTHERS]:
                if form not in found and has_no_more_poles(form):
                    yield form, [], f"{how}, "

    def is_corrected(self, node: Node) -> bool:
        """Whether a result is compensated, in float32 too."""
        return has_marks([self._standing.forms[node]]) and node not in self._needs_none

    def uncorrected(self, node: Node) -> Quality:
        """The modelled errors of a result without corrections."""
        return self._uncorrected.get(node, self._standing.quality[node])
