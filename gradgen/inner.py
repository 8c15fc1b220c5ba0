"""Results as functions of an argument in place of some inputs: of 2*x - 3, of x - y, of (x - m)/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradgen.candidates import Candidates
from gradgen.graph import Node
from gradgen.printers.base import Printer
from gradgen.rewrite import factored, rewrite
from gradgen.standing import Problem
from gradgen.variables import Argument


class Inner:
    """The results of an op as functions of an argument.

    Args:
        argument: what they are functions of, beside other inputs.
        paths: for each result by which inputs it is a derivative.
        candidates: what is known of them.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.

    Attributes:
        argument: the argument.
        problem: the functions of the argument, those that are more than the argument itself.
    """

    def __init__(
        self,
        argument: Argument,
        paths: Mapping[Node, Sequence[Node]],
        candidates: Candidates,
        tensors: Sequence[str],
        hyper: Mapping[str, float | bool],
    ) -> None:
        self.argument = argument
        self._slopes: dict[Node, Node] = {}
        self._within: dict[Node, Node] = {}
        self._bounded: dict[Node, tuple[Node, Node]] = {}
        written, origins = {}, {}
        results: list[dict[Node, None]] = [{}, {}, {}]  # by order
        for node, wrt in sorted(paths.items(), key=lambda entry: len(entry[1])):
            slope = argument.slope(wrt)
            form = None if slope is None else argument.within(node, slope)
            if form is None or slope is None or not form.args:
                continue
            self._slopes[node], self._within[node] = slope, form
            results[len(wrt)][form] = None
            before = argument.within(candidates.written(node), slope)
            if before is not None:
                written[form] = before
            rest = argument.rest(slope) if len(wrt) == 1 else None
            if rest is not None:
                bounded = factored(rewrite([argument.variable * form])[0])
                self._bounded[node] = bounded, rest
                results[1][bounded] = None
            origin = self._within.get(candidates.origin(node))
            has_slope = not argument.is_reciprocal or argument.inside.isdisjoint(str(x.value) for x in wrt)
            if wrt and has_slope and origin is not None and not any(form in lower for lower in results[: len(wrt)]):
                origins[form] = (origin, argument.variable if wrt[0].value in argument.inside else wrt[0])
        first = [*dict.fromkeys([*results[0], *results[1]])]
        second = [node for node in results[2] if node not in first]
        names = [str(argument.variable.value), *(name for name in tensors if name not in argument.inside)]
        self.problem = Problem(first, second, names, hyper, origins, written)

    def within(self, node: Node) -> Node | None:
        """The function of the argument that a result is a multiple of; None if it is none."""
        return self._within.get(node)

    def slope(self, node: Node) -> Node:
        """What that function is multiplied by."""
        return self._slopes[node]

    def back(self, node: Node, form: Node) -> Node:
        """A form of the function of the argument as one of the result."""
        return self._slopes[node] * self.argument.back(form)

    def bounded(self, node: Node) -> Node | None:
        """The function that a result is a multiple of, times the argument: often a number where that function is 0."""
        return self._bounded[node][0] if node in self._bounded else None

    def switched(self, node: Node, bounded: Node, form: Node) -> Node:
        """A result by the one function where the argument is large, whose slope may overflow, and by the other else."""
        place, rest = self.argument.place, self._bounded[node][1]
        is_large = node.graph.apply("gt", node.graph.apply("abs", place), 1)
        return node.graph.where(is_large, self.argument.back(bounded) / rest, self.back(node, form))

    def __str__(self) -> str:
        return f"as a function of the argument {Printer({}).expression(self.argument.place)}"
