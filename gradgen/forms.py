"""The forms of results before rounding is corrected: each is looked for when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradgen import infinite
from gradgen.graph import Node, topological
from gradgen.printed import printed_alone
from gradgen.quality import Quality
from gradgen.search import LookedAt, Search
from gradgen.singular import Singularities
from gradgen.standing import Note, Problem, Standing
from gradgen.subproblems import Alone, Subproblems

SETTLED = "with limits at infinity"
_LARGEST = 200  # nodes of a result whose forms are looked for


class Forms:
    """Looks for the forms of the results of a problem.

    Args:
        problem: the results, and what they are functions of.
        alone: the forms of parts of sums as functions of some inputs alone, to which those found are added.

    Attributes:
        standing: how the results stand.
    """

    def __init__(self, problem: Problem, alone: Alone | None = None) -> None:
        self.standing = Standing(problem)
        subproblems = Subproblems(self.standing, Forms, {} if alone is None else alone)
        self._divides = alone is None and len(problem.tensors) == 1  # else other forms are better
        self._search = Search(self.standing, subproblems)
        self._singularities = Singularities(self.standing, subproblems, self._divides)
        self._settled: dict[Node, Node] = {}
        self._found: dict[Node, tuple[Node, list[str]]] = {}
        self._looked_at: dict[Node, LookedAt] = {}

    def find(self, node: Node) -> bool:
        """Look for the form of a result, after that of what it is the derivative of; False if it is too large."""
        standing = self.standing
        if not node.args or len(topological([node])) > _LARGEST:
            return False
        if node not in self._found:
            origin = standing.candidates.origin(node)
            if origin is not node and origin in standing.forms:
                self.find(origin)
                if standing.is_reported(node):  # of the derivative of a polynomial near 0 the ends are off most
                    standing.references.look_at_switches(standing.forms[origin])
            self._looked_at[node] = looked_at = self._search.improve(node)
            self._search.split(node)
            plain = standing.forms[node]  # without series and limits at infinity
            standing.candidates.take(node, plain, is_smooth=plain in standing.switched)
            self._singularities.mend(node, looked_at)
            self._search.finish(node)
            if self._divides:
                self._singularities.fill_by_division(node)
            self._found[node] = standing.forms[node], [note.what for note in standing.notes[node]]
        return True

    def looked_at(self, node: Node) -> LookedAt:
        """The forms of a result that were looked at before its singularities were mended."""
        return self._looked_at.get(node, [])

    def uncompensated(self, node: Node) -> Iterator[tuple[Node, list[str]]]:
        """The form of a result, and what it is; the same with limits at infinite inputs."""
        form, notes = self._found[node] if self.find(node) else (node, [])
        yield form, notes
        if node in self._found:
            yield self.settled(node, form), [*notes, SETTLED]

    def settled(self, node: Node, form: Node) -> Node:
        """A form of a result with its limits at infinite inputs where it is off."""
        if form not in self._settled:
            standing = self.standing
            exact = standing.references.exact(standing.column(node))
            printed = printed_alone(form)
            self._settled[form] = infinite.settled(form, printed, exact, standing.tensors, standing.hyper)
        return self._settled[form]

    @property
    def unpatched(self) -> Mapping[Node, tuple[Node, list[Note]]]:
        """The forms that results had before they were mended where rounding alone may be wrong, with notes on each."""
        return self._singularities.unpatched

    def sound(self, node: Node) -> Quality:
        """The modelled errors of a result in the form that was given."""
        return self.standing.sound[node]

    def quality(self, node: Node) -> Quality:
        """The modelled errors of a result."""
        return self.standing.quality[node]
