"""Forms of a function of exp(-|u|) that are one from u = -1 or 1 on and another one before.

What is exact a little further on, as 1 + u for u < -1/2, is rounded about 0, where others are better.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gradgen.graph import Node, rebuilt, substitute, topological
from gradgen.rational import expanded
from gradgen.rewrite import factored

PLACES = (-1, 1)  # at which forms switch, between which there are three parts


class Form(NamedTuple):
    """A form in exp(-|u|).

    Attributes:
        node: the form.
        side: the side of 0 that it holds for, 1 or -1; 0 if for both.
        how: what it is.
    """

    node: Node
    side: int
    how: str

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts between `PLACES` in which it may be taken."""
        return {0: (0, 1, 2), 1: (2,), -1: (0,)}[self.side]


class Joint(NamedTuple):
    """One form from a place on, and another one before it."""

    place: int
    above: Form
    below: Form

    @property
    def how(self) -> str:
        """What it is."""
        return f"{self.above.how} from {self.place} on, before that {self.below.how}"

    def of(self, u: Node) -> Node:
        """The form, switching by u."""
        return u.graph.where(u.graph.apply("ge", u, self.place), self.above.node, self.below.node)


def in_one_exponential(forms: Iterable[tuple[Node, str]]) -> tuple[Node, list[Form]] | None:
    """u, and what forms are in exp(-|u|): for both sides of u = 0, and for either side alone.

    None if there is no such u. Those that have another one than the first, or several, are left out.

    Args:
        forms: each with what it is.
    """
    found: dict[Node, Form] = {}
    argument: Node | None = None
    for form, how in itertools.chain.from_iterable(itertools.starmap(_beside_its_factors, forms)):
        written = expanded(form)
        arguments = {below.args[0] for below in topological([written]) if below.op == "modulus"}
        if len(arguments) == 1:
            (u,) = arguments
            argument = argument or u
            for side in (0, 1, -1) if u is argument else ():
                part = _on_side(written, u, side)
                for node in (part, _with_squares_written_out(part)):
                    found.setdefault(node, Form(node, side, how))
    return (argument, [*found.values()]) if argument else None


def _beside_its_factors(form: Node, how: str) -> Iterator[tuple[Node, str]]:
    """A form, and sigmoid(u) (1 + x sigmoid(-u)) beside sigmoid(u) + x logistic_density(u)."""
    yield form, how
    products: dict[Node, Node] = {}
    for node in topological([form]):
        if node.op == "logistic_density":
            (u,) = node.args
            products[node] = node.graph.apply("sigmoid", u) * node.graph.apply("sigmoid", -u)
    taken_out = factored(substitute([form], products)[0])
    if products and taken_out is not form:
        yield taken_out, f"{how}, with common factors of sums before them"


def _on_side(form: Node, u: Node, side: int) -> Node:
    """A form where u is positive, or negative; itself for both sides. exp(-|u|) stays, as all forms share it."""
    graph = form.graph
    true, false = graph.true(), graph.apply("not", graph.true())
    holds = {graph.apply("ge", sign * u, 0): true if sign == side else false for sign in (1, -1)}
    return substitute([form], holds)[0] if side else form


def _with_squares_written_out(form: Node) -> Node:
    """1/(c^2 + e (2 c + e)) in place of 1/(c + e)**2: where the exponential e is small, one rounding for three."""
    new: dict[Node, Node] = {}
    for node in topological([form]):
        new[node] = rebuilt(node, new)
        base = new[node].args[0] if node.op == "pow" and node.args[1].is_number(-2) else None
        if base is not None and base.op == "add" and base.args[0].number is not None:
            c, e = base.args
            if any(below.op == "exp" for below in topological([e])):
                new[node] = (c * c + e * (2 * c + e)) ** -1
    return new[form]


def pairs(forms: Sequence[Form]) -> Iterator[Joint]:
    """All ways to switch: at -1 or 1, from a form for that side of 0 alone to one for both sides."""
    for place in PLACES:
        whole, half = ([form for form in forms if form.side == side] for side in (0, place))
        above, below = (whole, half) if place < 0 else (half, whole)
        yield from (Joint(place, *pair) for pair in itertools.product(above, below))


def worst(joints: Iterable[Joint], errors: Mapping[Form, Sequence[float]]) -> dict[Joint, tuple[float, float]]:
    """The worst errors of each, that of the worse side first, from those of the forms in the parts between `PLACES`."""
    found = {}
    for joint in joints:
        end = PLACES.index(joint.place) + 1
        worse, better = sorted((max(errors[joint.above][end:]), max(errors[joint.below][:end])), reverse=True)
        found[joint] = worse, better
    return found


def with_factors_within(form: Node, selections: Iterable[Node]) -> Node:
    """A form with what some selections in it are multiplied by in their branches, and all else as it stands.

    There it may bring back the digits that a branch loses where it vanishes.
    """
    chosen, new = set(selections), dict[Node, Node]()
    for node in topological([form]):
        new[node] = rebuilt(node, new)
        one, other = new[node].args if node.op == "mul" else (node, node)
        if other in chosen:
            one, other = other, one
        if node.op == "mul" and one in chosen:
            condition, p, q = one.args
            new[node] = node.graph.where(condition, other * p, other * q)
            chosen.add(new[node])
    return new[form]
