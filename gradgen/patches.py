"""Series and polynomials in place of a result near a removable singularity."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import NamedTuple

import sympy
from mpmath import mpf

from gradgen.expansion import Expansion
from gradgen.graph import Node, rebuilt, topological
from gradgen.measure import LEAST_REACH
from gradgen.quality import BAR, TARGET, Quality, cost, rank, rank_of_side
from gradgen.references import References
from gradgen.rewrite import factors, rewrite

_FARTHER, _FARTHEST = 2.0**-3, 8.0  # between which polynomials through points reach, where the series does not
_STEP, _PATIENCE = 1.25, 2  # by how much farther they try to reach, and how often without gain
_MORE_PATIENCE = 4  # on one side alone
_MOST_TIED = 4  # of those that seem as exact as each other, which are looked at more closely
_THROUGH_POINTS = "polynomials through its values"
_EACH_SIDE = "by one form above 0 and another one below"


class Try(NamedTuple):
    """A form, and another one that may take its place in an interval about a removable singularity.

    Of a function of others `beside` the variable too, which an interval alone may not say all of.
    """

    form: Node
    interval: tuple[float, float]
    near: Node
    beside: tuple[Node, ...] = ()


class _Patched(NamedTuple):
    """A form with another one in its place near a removable singularity."""

    form: Node
    is_near: Node
    made_of: Try


@dataclass(frozen=True)
class Patch:
    """A form with another one in its place near a removable singularity.

    Attributes:
        form: all of it.
        quality: its modelled errors.
        by: what the other one is.
        is_near: where that is taken.
        made_of: what it is made of.
        beside: what it is in place of, if that is one of the other forms.
    """

    form: Node
    quality: Quality
    by: str
    is_near: Node
    made_of: Try
    beside: str = ""


class Patches:
    """The patches of the forms of some results.

    Args:
        references: what these are held against.
    """

    def __init__(self, references: References) -> None:
        self._references = references

    def best(
        self,
        column: int,
        forms: Collection[Node],
        expansion: Expansion,
        leading: Sequence[mpf],
        others: Mapping[Node, str],
    ) -> Patch | None:
        """The best of some forms of a result with an expansion in its place near 0.

        First its power series, as far as it reaches; then farther and farther other polynomials, while that helps. What
        is off beyond them is tried with other forms, given with what they are.
        """
        place, near_zero = expansion.place, expansion.polynomials(leading)
        reaches = {
            form: list(expansion.reaches) or self._references.reaches(form, place, column) or [LEAST_REACH]
            for form in forms
        }
        tries = [
            Try(form, (-reach, reach), near, expansion.beside)
            for form in forms
            for reach in reaches[form]
            for near in near_zero(reach)
        ]
        least = min(itertools.chain(*reaches.values()))
        while not tries and least > _FARTHER:  # other polynomials may go on from where the series serves
            least /= 2
            tries = [Try(form, (-least, least), near) for form in forms for near in near_zero(least)]
        best: Patch | None = None
        by, patience = "its power series", _PATIENCE
        while tries and patience:
            before, (best, seeming) = best, self._better(column, place, tries, best, by)
            if best is None or seeming is None:
                break
            patience = patience - 1 if best is before else _PATIENCE
            form, (_, reach), *_ = seeming
            by, tries = _THROUGH_POINTS, []
            if best.quality.ordinary > TARGET and _FARTHER <= reach < _FARTHEST:  # elsewhere they cannot help
                farther = sorted({_STEP * reach, *(more for more in reaches.pop(form, []) if more > reach)})
                intervals = [(-more, more) for more in farther]
                tries = [Try(form, wide, near) for wide in intervals for near in expansion.farther(leading, wide)]
        if best is not None and best.quality.error > BAR and others:
            best = self._beside_others(column, place, best, others)
        is_lopsided = any(leading[::2]) and any(leading[1::2])
        if best is not None and is_lopsided and expansion.whole is None and self._references.is_input(place):
            _, reach = best.made_of.interval
            worst_at = dict(best.quality.double.at).get(str(place.value), 0)
            if abs(worst_at) < _FARTHEST:  # elsewhere they cannot help
                side = (0.0, reach) if worst_at > 0 else (-reach, 0.0)
                best = replace(self._on_one_side(column, expansion, leading, best, side), beside=best.beside)
        return best

    def _beside_others(self, column: int, place: Node, patch: Patch, forms: Mapping[Node, str]) -> Patch:
        """The same patch of another form, or of one above it and another one below, if that is better."""
        _, interval, near, beside = patch.made_of
        named = {**forms}
        if self._references.is_input(place):
            measured: dict[Node, Quality] = {}
            for form in (patch.made_of.form, *forms):
                first = next(_patched(place, Try(form, interval, near, beside)))
                (measured[form],) = self._references.measured([first.form], [column], near=False)
            below, above = (min(measured, key=lambda form: rank_of_side(measured[form], side)) for side in (0, 1))
            if below is not above:
                named[place.graph.where(place.graph.apply("ge", place, 0), above, below)] = _EACH_SIDE
        found, _ = self._better(column, place, [Try(form, interval, near, beside) for form in named], patch, patch.by)
        return patch if found is None or found is patch else replace(found, beside=named[found.made_of.form])

    def _better(
        self, column: int, place: Node, tries: Sequence[Try], best: Patch | None, by: str
    ) -> tuple[Patch | None, Try | None]:
        """The best of some forms near 0 and the one before them; and which of them seemed the best at first.

        (best, None) where none of them is the same function.
        """
        self._references.look_beside({end for made_of in tries for end in made_of.interval}, place)
        ranked = self._ranked(column, [entry for made_of in tries for entry in _patched(place, made_of)])
        same = (
            (at, entry)
            for at, entry in ranked
            if self._references.is_same(entry.form, column) and self._is_harmless(column, place, entry)
        )
        least, first = next(same, (None, None))
        if first is None:
            return best, None
        for at, entry in itertools.chain([(least, first)], itertools.islice(same, _MOST_TIED - 1)):
            if at != least or (best and not max(rank(best.quality))):
                break
            (measured,) = self._references.measured([entry.form], [column], near=True)
            if best is None or rank(measured) < rank(best.quality):
                best = Patch(entry.form, measured, by, entry.is_near, entry.made_of)
        return best, first.made_of

    def _is_harmless(self, column: int, place: Node, entry: _Patched) -> bool:
        form, interval, _, beside = entry.made_of
        reach = max(map(abs, interval))
        return self._references.is_harmless(entry.form, form, column, place, reach, beside)

    def _ranked(self, column: int, patched: Sequence[_Patched]) -> Iterator[tuple[tuple[int, int], _Patched]]:
        """What seems best at first, the cheapest of equals first; each with its rank.

        What is worse than others in float64 is not held to the points of float32 before they are all refused.
        """
        steps = [self._references.steps_of_double(entry.form, column) for entry in patched]
        for least in sorted(set(steps)):
            alike = [entry for entry, step in zip(patched, steps, strict=True) if step == least]
            measured = [self._references.measured([entry.form], [column], near=False) for entry in alike]
            ranks = [rank(quality) for (quality,) in measured]
            order = sorted(range(len(alike)), key=lambda k: (ranks[k], cost(alike[k].form)))
            yield from ((ranks[k], alike[k]) for k in order)

    def _on_one_side(
        self, column: int, expansion: Expansion, leading: Sequence[mpf], best: Patch, side: tuple[float, float]
    ) -> Patch:
        """With polynomials of their own on one side of 0, while that helps: on the other one log(1 + x) has a pole."""
        form, (low, high), patience = best.form, side, _MORE_PATIENCE
        while patience and best.quality.error > TARGET and _FARTHER <= high - low < _FARTHEST:
            low, high = _STEP * low, _STEP * high
            tries = [Try(form, (low, high), near) for near in expansion.farther(leading, (low, high))]
            before, (found, _) = best, self._better(column, expansion.place, tries, best, _THROUGH_POINTS)
            best = found or best
            patience = patience - 1 if best is before else _MORE_PATIENCE
        return best


def _patched(variable: Node, made_of: Try) -> Iterator[_Patched]:
    """A form with another one in its place near 0, under each condition that may serve."""
    (low, reach), graph = made_of.interval, variable.graph
    beyond = _beyond(made_of.form, variable, reach) if low == -reach else made_of.form
    for is_near in _is_near(variable, made_of.interval):
        yield _Patched(graph.where(is_near, made_of.near, beyond), is_near, made_of)
    if made_of.beside:
        sizes = (graph.apply("abs", x) for x in made_of.beside)
        largest = reduce(partial(graph.apply, "maximum"), sizes, graph.const(1))
        is_near = graph.apply("le", graph.apply("abs", variable), sympy.Float(reach) / largest)  # infinite ones, too
        yield _Patched(graph.where(is_near, made_of.near, made_of.form), is_near, made_of)


def _beyond(form: Node, variable: Node, reach: float) -> Node:
    """A form where |variable| is no less than this: without the branches for less."""
    size, new = variable.graph.apply("abs", variable), dict[Node, Node]()
    for node in topological([form]):
        changed = rebuilt(node, new)
        if changed.op == "where":
            condition, _, other = changed.args
            limit = condition.args[1].number if condition.op == "lt" and condition.args[0] is size else None
            changed = other if limit is not None and limit <= reach else changed
        new[node] = changed
    return new[form]


def _is_near(variable: Node, interval: tuple[float, float]) -> Iterator[Node]:
    """Conditions that low < variable < high; of d/q also one that holds for positive q, of which there is a log."""
    graph, (low, reach) = variable.graph, interval
    if low != -reach:
        is_above, is_below = (graph.apply(op, variable, sympy.Float(end)) for op, end in (("gt", low), ("lt", reach)))
        yield graph.apply("and", is_above, is_below)
        return
    yield graph.apply("lt", graph.apply("abs", variable), sympy.Float(reach))
    for base in [base for base, power in factors(variable)[1] if power == -1]:
        (over,) = rewrite([variable * base])
        yield graph.apply("le", graph.apply("abs", over), sympy.Float(reach) * base)  # which may be 0
