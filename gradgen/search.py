"""The search for the form in which a result is most accurate, and cheapest among equals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial, reduce

import sympy
from sympy import Expr

from gradgen import joined, variables
from gradgen.candidates import by_rules
from gradgen.graph import Node, coefficient, inputs_of, substitute, topological
from gradgen.printers.base import Printer
from gradgen.quality import BAR, LOST, TARGET, Quality, cost, meets_target, rank, rank_of_side
from gradgen.rewrite import factored, multiplied_into_branches, rewrite
from gradgen.standing import Form, Standing, each_once
from gradgen.subproblems import Subproblems

SINGULAR = 24.0  # an error that may be the sign of a singularity
_MOST_FORMS, _FEWER_FORMS = 14, 5  # of a value or derivative, and of a second derivative
_MOST_JOINTS, _MORE_JOINTS = 3, 12  # that are measured, of those that are looked at in
_FINER = 16  # times as many inputs
_GOOD = 0.7 * TARGET  # errors below this are alike
_FORMS_WITHIN = 4  # as a function of an argument, beside those
_LONG = 64  # nodes from which on a form
_LONGER = 1.25  # must not cost so many times as much, or a formula would grow with each level of nesting
_SIMPLE = (0.0, 1.0)  # values of a hyper-parameter that make a formula another one
_SPREAD = "with its factor in each term"

LookedAt = list[tuple[Quality, Node, str]]  # forms, with their errors before these and what they are after


class Search:
    """Looks for better forms of results.

    Args:
        standing: how those stand.
        subproblems: their subproblems.
    """

    def __init__(self, standing: Standing, subproblems: Subproblems) -> None:
        self._standing = standing
        self._subproblems = subproblems

    def improve(self, node: Node) -> LookedAt:
        """Take another form of a result where it is better; the forms that were looked at."""
        standing = self._standing
        best = standing.quality[node]
        is_reported = standing.is_reported(node)
        if not is_reported and best.error <= BAR:
            return []
        most = _MOST_FORMS if is_reported or best.error > LOST else _FEWER_FORMS
        if standing.is_poor(node) and self._subproblems.inner is not None:
            most += _FORMS_WITHIN
        if is_reported:
            most += len(standing.candidates.gates(node))
        looked_at: LookedAt = [(best, node, "as it is")]
        is_long = len(topological([node])) > _LONG
        for form, how in itertools.islice(each_once(self._alternatives(node), node), most):
            is_hopeless, is_same = standing.screened(node, form)
            if not is_same:
                continue
            if is_long and cost(form) > _LONGER * cost(node):
                continue
            looked_at.append((standing.measured(node, form, near=False), form, how))
            if not is_hopeless:
                standing.take_if_better(node, form, [], how)
        distributed = _distributed(standing.forms[node])
        if distributed is not None:
            standing.take_if_better(node, distributed, standing.notes[node], _SPREAD)
        gates = {form for form, _ in standing.candidates.gates(node)} if is_reported else set()
        parts = [entry for entry in looked_at if entry[1] not in gates]  # beside others a gate computes all of them
        if len(standing.tensors) == 1 and standing.quality[node].error > BAR:
            self._take_sides(node, parts)
        if len(standing.tensors) == 1 and standing.quality[node].error > SINGULAR:
            self._switch(node, parts)
        if is_reported and standing.is_poor(node):
            self._join(node, parts)
        return looked_at

    def _alternatives(self, node: Node) -> Iterator[Form]:
        """Other forms of a result; more and more of them as long as none is good."""
        standing = self._standing
        candidates, powers, column = standing.candidates, standing.is_reported(node), standing.column(node)
        for form, how in itertools.chain([(node, "as it is")], candidates.usual(node, powers)):
            yield form, how
            if standing.is_poor(node):
                yield from ((there, f"{how}, {more}") for there, more in self._at_defaults(node, form))
        if standing.is_poor(node):
            yield from self._subproblems.within(node)
        if standing.is_poor(node):
            cancels = standing.quality[node].double.ordinary > SINGULAR
            yield from candidates.more(
                node, powers, lambda form: standing.references.is_limit(form, column), cancels=cancels
            )

    def _take_sides(self, node: Node, looked_at: LookedAt) -> None:
        """Take one form above 0 and another one below, where that is better."""
        below, above = (min(looked_at, key=lambda entry: rank_of_side(entry[0], side)) for side in (0, 1))
        if below[1] is not above[1]:
            is_above = node.graph.apply("ge", node.graph.input(self._standing.tensors[0]), 0)
            form = node.graph.where(is_above, above[1], below[1])
            self._standing.take_if_better(node, form, [], f"{above[2]} above 0, {below[2]} below")
            self._standing.switched.add(form)

    def _switch(self, node: Node, looked_at: LookedAt) -> None:
        """Take one form near 0 and another one far from it, where that is better."""
        standing = self._standing
        x = node.graph.input(standing.tensors[0])
        size, near, far = standing.references.switch([form for _, form, _ in looked_at], standing.column(node))
        if near != far:
            is_near = node.graph.apply("lt", node.graph.apply("abs", x), sympy.Float(size))
            form = node.graph.where(is_near, looked_at[near][1], looked_at[far][1])
            how = f"where |{x}| < {size:g} {looked_at[near][2]}, beyond {looked_at[far][2]}"
            standing.take_if_better(node, form, [], how)
            standing.switched.add(form)

    def _join(self, node: Node, looked_at: LookedAt) -> None:
        """Take one form from some place on and another one before it, where float32 then needs nothing else."""
        standing = self._standing
        found = joined.in_one_exponential((form, how) for _, form, how in looked_at)
        if found is None:
            return
        u, forms = found
        best = [*joined.pairs(forms)]
        for finer in (1, _FINER):
            if not best:
                return
            forms = [*dict.fromkeys(form for joint in best for form in (joint.above, joint.below))]
            errors = standing.references.between(forms, standing.column(node), u, joined.PLACES, finer)
            if errors is None:
                return
            worst = joined.worst(best, dict(zip(forms, errors, strict=True)))
            ranks = {
                joint: (max(worse, _GOOD), max(better, _GOOD), cost(joint.of(u)))
                for joint, (worse, better) in worst.items()
                if worse <= TARGET
            }
            best = sorted(ranks, key=ranks.__getitem__)[:_MORE_JOINTS]
        for joint in sorted(best, key=lambda joint: not standing.has_limits(node, joint.of(u)))[:_MOST_JOINTS]:
            form = joint.of(u)
            if standing.is_same(node, form):
                standing.take_if_better(node, form, [], joint.how, meets_target)
                standing.switched.add(form)

    def split(self, node: Node) -> None:
        """Take parts of a form that are computed alone in the form that is best for them by themselves.

        Branches and factors, of which others hide what they lose; and terms that are functions of fewer inputs: where
        the other terms happen to be 0 nothing else is left, which hardly any of the points looked at shows. Not of
        second derivatives, of which there are many.
        """
        standing = self._standing
        if not standing.is_reported(node):
            return
        if standing.is_poor(node):
            self._take_alone(node, _alone(node, standing.tensors))
        if standing.is_poor(node) and len(standing.tensors) > 1:
            taken_out = factored(node)
            self._take_alone(node, _of_fewer(taken_out, standing.tensors), start=taken_out)
        for total, ways in variables.sums_in_parts(standing.forms[node], standing.tensors):
            for way in ways:
                if self._take_alone(node, way, total) or not standing.is_poor(node):
                    break

    def finish(self, node: Node) -> None:
        """Where the form with its series is still off elsewhere, take a better one.

        With a factor within each term of a sum on one side of 0, where nothing cancels; or, if that is better yet, the
        first that a rule makes of it. And what is left of the formula where a hyper-parameter is 0 or 1 by default.
        """
        standing = self._standing
        if standing.quality[node].error <= BAR or not standing.is_reported(node):
            return
        for start in (standing.forms[node], node):
            for form, how in self._at_defaults(node, standing.forms[node], start):
                standing.take_if_better(node, form, standing.notes[node], how)
        before, best, notes = standing.forms[node], standing.quality[node], standing.notes[node]
        starts = dict.fromkeys((before, multiplied_into_branches(before)))
        ruled = each_once(itertools.chain.from_iterable(map(by_rules, starts)), node)
        spread = each_once(self._spread(node), node)
        for some, is_enough in ((spread, False), (itertools.islice(ruled, _FEWER_FORMS), True)):
            for form, how in some:
                if standing.is_same(node, form):
                    quality = standing.measured(node, form, near=True)
                    if rank(quality) < rank(best) and standing.kept(node, form) is form:
                        standing.take(node, form, quality, notes, how, "")
                        best = quality
                        if is_enough:
                            return

    def _at_defaults(self, node: Node, form: Node, start: Node | None = None) -> Iterator[Form]:
        """A form of a result with x in its place where d is 0, if that is the default: of log(d + exp(x)).

        That is made of the result, or of a form of it to start from.
        If no digit is left there, at some points: 1 may be the default of a factor that is a number like any other.
        """
        standing, graph, start = self._standing, node.graph, start or node
        quality = standing.quality[node]
        is_lost = max(quality.best_single.at_defaults, quality.double.at_defaults) > LOST
        for name in inputs_of([node]) if is_lost else ():
            value = standing.hyper.get(name)
            if not isinstance(value, float) or value not in _SIMPLE:
                continue
            d, number = graph.input(name), graph.const(sympy.Float(value))
            (there,) = rewrite(substitute([start], {d: number}))
            if len(topological([there])) < len(topological([start])) - 1:
                unread = [x for x in inputs_of([form]) if x in standing.tensors and x not in inputs_of([there])]
                sizes = [graph.apply("abs", graph.input(x)) for x in unread]
                are_numbers = [graph.apply("le", size, sympy.oo) for size in sizes]  # of NaN it is NaN
                is_there = reduce(partial(graph.apply, "and"), are_numbers, graph.apply("eq", d, number))
                yield graph.where(is_there, there, form), f"without {name} where that is {value:g}"

    def _spread(self, node: Node) -> Iterator[Form]:
        """A form of a function of one input with a factor of it within each term of a sum on one side of 0."""
        standing, spread = self._standing, _distributed(node)
        if spread is not None and len(standing.tensors) == 1:
            before = standing.forms[node]
            is_above = node.graph.apply("ge", node.graph.input(standing.tensors[0]), 0)
            yield node.graph.where(is_above, spread, _where(is_above, 2, before)), f"{_SPREAD} above 0"
            yield node.graph.where(is_above, _where(is_above, 1, before), spread), f"{_SPREAD} below 0"

    def _take_alone(
        self, node: Node, parts: variables.Way, total: Node | None = None, start: Node | None = None
    ) -> bool:
        """Take parts of a form, those of a sum or branches, each in its best form, if that is no worse; tell if so.

        The form is the one taken so far, unless another one is given to start from.
        """
        standing = self._standing
        best = [self._subproblems.alone(part, names) for part, names in parts]
        changed = {part: alone for (part, _), alone in zip(parts, best, strict=True) if alone is not part}
        replaced = {total: reduce(node.graph.add, best)} if total else changed
        (form,) = substitute([start or standing.forms[node]], replaced)
        form = joined.with_factors_within(form, [one for one in best if one.op == "where"])
        if not changed or form is standing.forms[node] or not standing.is_same(node, form):
            return False
        quality = standing.measured(node, form, near=True)
        if rank(quality) > rank(standing.quality[node]):
            return False
        how = f"with {', '.join(Printer({}).expression(part) for part in changed)} as a function by itself"
        standing.take(node, form, quality, standing.notes[node], how, "the other terms may be 0")
        return True


def _alone(node: Node, tensors: Sequence[str]) -> variables.Way:
    """The sums below a node that are branches, or functions of fewer inputs, with the inputs that each is of."""
    order = topological([node])
    branches = {branch for below in order if below.op == "where" for branch in below.args[1:]}
    alone = branches | {one for one, _ in _of_fewer(node, tensors)}
    sums = [below for below in order if below.op == "add" and below in alone]
    return [(one, tuple(variables.tensors_of(one, tensors))) for one in sums]


def _of_fewer(node: Node, tensors: Sequence[str]) -> variables.Way:
    """The sums below a node, no terms of others, that are functions of fewer inputs, with these."""
    order, every = topological([node]), len(variables.tensors_of(node, tensors))
    terms = {arg for below in order if below.op == "add" for arg in below.args}
    found = [(below, tuple(variables.tensors_of(below, tensors))) for below in order if below.op == "add"]
    return [(one, names) for one, names in found if one not in terms and 0 < len(names) < every]


def _where(condition: Node, branch: int, form: Node) -> Node:
    """A form where a condition is met, or is not: of selections by it one branch."""
    selections = [node for node in topological([form]) if node.op == "where" and node.args[0] is condition]
    return substitute([form], {node: node.args[branch] for node in selections})[0]


def _distributed(node: Node) -> Node | None:
    """(u + v)/2 as u/2 + v/2, and w*(u + v)/2 as w*u/2 + w*v/2: what is halved might overflow."""
    number, rest = coefficient(node)
    if rest is None or not abs(number) < 1:
        return None
    if rest.op == "mul":
        for total, other in (rest.args, rest.args[::-1]):
            if total.op == "add":
                rest = node.graph.add(*(other * term for term in total.args))
                break
    return _times_each(number, rest) if rest.op in ("add", "where") else None


def _times_each(number: Expr, node: Node) -> Node:
    """A number times each term of each branch."""
    if node.op == "where":
        condition, p, q = node.args
        return node.graph.where(condition, _times_each(number, p), _times_each(number, q))
    if node.op == "add":
        return node.graph.add(_times_each(number, node.args[0]), _times_each(number, node.args[1]))
    return node.graph.mul(node.graph.const(number), node)
