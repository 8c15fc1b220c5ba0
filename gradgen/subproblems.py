"""Results, and parts of them, as functions of other or of fewer inputs, whose forms are looked for by themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

from gradgen import variables
from gradgen.candidates import Candidates
from gradgen.expansion import Expansions
from gradgen.graph import Node
from gradgen.inner import Inner
from gradgen.poles import Poles
from gradgen.quality import Quality, rank
from gradgen.standing import Form, Problem, Standing, each_once

_MOST_ALONE = 12  # parts of sums, of all results, whose forms are looked for by themselves

Alone = dict[tuple[Node, tuple[str, ...]], Node]  # for a part and its inputs the form that is best by itself


class Solution(Protocol):
    """The forms of the results of a problem."""

    def uncompensated(self, node: Node) -> Iterator[tuple[Node, list[str]]]: ...

    def sound(self, node: Node) -> Quality: ...

    def quality(self, node: Node) -> Quality: ...


class Subproblems:
    """The subproblems of the results of an op.

    Args:
        standing: how those stand.
        solve: what looks for the forms of a subproblem, in which parts alone have known forms.
        alone: the parts alone that are known, to which those found are added.

    Attributes:
        inner: the results as functions of an argument, if they are.
    """

    def __init__(self, standing: Standing, solve: Callable[[Problem, Alone], Solution], alone: Alone) -> None:
        self._standing = standing
        self._solve = solve
        self._alone = alone

    @cached_property
    def inner(self) -> Inner | None:
        standing = self._standing
        paths = {node: standing.candidates.path(node) for node in standing.forms}
        values = [node for node, wrt in paths.items() if not wrt and node.args]
        argument = variables.argument(values, standing.tensors) if values else None
        if argument is None:
            return None
        inner = Inner(argument, paths, standing.candidates, standing.tensors, standing.hyper)
        return inner if inner.problem.nodes or inner.problem.others else None

    @cached_property
    def _within(self) -> Solution:
        """The forms of the functions of the argument."""
        assert self.inner is not None
        return self._solve(self.inner.problem, self._alone)

    def within(self, node: Node) -> Iterator[Form]:
        """Forms of a result as a function of an argument, if it is one."""
        inner = self.inner
        within = inner.within(node) if inner else None
        if inner and within:
            for form, notes in itertools.chain(self._within.uncompensated(within), [(within, [])]):
                back = inner.back(node, form)
                if not self._standing.extremes.is_lost_without(node, back):
                    yield back, ", ".join([str(inner), *notes])
            bounded = inner.bounded(node)
            if bounded is not None:
                (large, how), (form, notes) = (next(self._within.uncompensated(part)) for part in (bounded, within))
                notes = [str(inner), *notes, "where |the argument| > 1 by the argument times it", *how]
                yield inner.switched(node, large, form), ", ".join(notes)

    def alone(self, part: Node, names: tuple[str, ...]) -> Node:
        """A part of a sum in the form that is best for it as a function of these inputs.

        As it is if there are none, or when so many parts have been looked at.
        """
        known = self._alone
        if names and (part, names) not in known and len(known) < _MOST_ALONE:
            known[part, names] = part  # where its own form asks for it
            if self._has_others(part, names):
                known[part, names] = self._best(part, names)
        return known.get((part, names), part)

    def _best(self, part: Node, names: tuple[str, ...]) -> Node:
        """The form of a part that is best for it as a function of these inputs."""
        solution = self._solve(Problem([part], [], names, self._standing.hyper), self._alone)
        form, _ = next(solution.uncompensated(part))
        return form if rank(solution.quality(part)) < rank(solution.sound(part)) else part

    def _has_others(self, part: Node, names: tuple[str, ...]) -> bool:
        """Whether there are other forms of a part, or series: its exact values may take long."""
        if variables.argument([part], names) is not None:
            return True
        candidates, expansions = Candidates(names, {}, {}), Expansions(names, Poles(names, self._standing.hyper))
        usual, more = candidates.usual(part, powers=True), candidates.more(part, powers=True, is_limit=lambda _: False)
        forms = each_once(itertools.chain(usual, more), part)
        return any(next(found, None) is not None for found in (forms, expansions.of(part)))
