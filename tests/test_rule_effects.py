"""Every rule is what saves a result: within the bar with it, beyond the bar without."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import mpmath
import pytest
from mpmath import mpf
from nodes import parsed
from rule_examples import EXAMPLES, Example, named

from gradgen import rational
from gradgen import rewrite as rewriting
from gradgen.differentiate import gradient
from gradgen.evaluate import values
from gradgen.graph import Node, topological
from gradgen.limits import limits
from gradgen.model import FORMATS, Program
from gradgen.quality import BAR
from gradgen.rewrite import rewrite, tried
from gradgen.rules import RULES, Rule
from gradgen.ulp import mixed_error

HYPER = "k"
TURNS = range(6)  # after so many the model's functions err to the same sides again
INFINITE = mpf(2) ** 5000  # stands for an infinite input


def derived(node: Node, by: str) -> Node:
    """The derivative of a node, in its sound form."""
    for name in by:
        (node,) = rewrite(gradient(node, [node.graph.input(name)]))
    return node


def forms(example: Example, after: str) -> list[Node]:
    """What the rules make of an example; or what other form of it, or of its value, has this name, if one has."""
    (value,) = rewrite([parsed(example.text)])
    result = derived(value, example.by)
    if not after:
        return [result]
    by_value = [derived(form, example.by) for form in named_forms(value, after)]
    return named_forms(result, after) or by_value or [result]


def named_forms(node: Node, name: str) -> list[Node]:
    """Other forms of a node: by a rule that is only tried, or as a rational function."""
    found = [(named(rule), form) for form, rule in tried(node)] + [(how, form) for form, how in rational.forms(node)]
    return [form for how, form in found if how == name]


def error(form: Node, example: Example) -> float:
    """The modelled error in mixed ULPs, whichever sides the functions err to."""
    (printed,) = limits([form])
    program = Program(topological([printed]), FORMATS["float64"])
    value, scale = exact(example)
    return max(mixed_error(float(program([example.at], turn)[-1][0]), value, scale, "float64") for turn in TURNS)


def least_error(example: Example, after: str) -> float:
    return min(error(form, example) for form in forms(example, after))


@functools.cache
def exact(example: Example) -> tuple[mpf, mpf]:
    """The result of the formula as it was written, and the largest |x * d result/dx| over its tensors x."""
    node = parsed(example.text)
    order = topological([node])

    def value(point: dict[str, mpf]) -> mpf:
        return values(order, point)[node]

    def difference(point: dict[str, mpf], by: str) -> mpf:
        """The derivative; the value, too, is the mean of both sides, which is the limit where the formula is 0/0."""
        width = {name: mpf(2) ** -300 * (abs(point[name]) or 1) for name in by[-1:] or point}
        above, below = ({**point, **{name: point[name] + s * width[name] for name in width}} for s in (1, -1))
        if not by:
            sides = [found for found in (value(above), value(below)) if mpmath.isfinite(found)]
            return sum(sides) / len(sides) if sides else mpmath.nan  # one at an end of the domain
        return (difference(above, by[:-1]) - difference(below, by[:-1])) / (2 * width[by[-1]])

    with mpmath.workprec(4000):
        point = {name: mpf(x) if math.isfinite(x) else mpmath.sign(x) * INFINITE for name, x in example.at.items()}
        slopes = {name: difference(point, example.by + name) for name in point if name != HYPER}
        scales = [abs(point[name] * slope) for name, slope in slopes.items() if mpmath.isfinite(slope)]
        return difference(point, example.by), max(scales, default=mpf(0))


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """Within, a rule is not in the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "RULES", tuple(other for other in RULES if other is not rule))
        rewriting._rules_for.cache_clear()
        try:
            yield
        finally:
            rewriting._rules_for.cache_clear()


def test_every_rule_has_an_example() -> None:
    assert list(EXAMPLES) == [named(rule) for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_rule_saves_its_example(rule: Rule) -> None:
    example = EXAMPLES[named(rule)]
    assert least_error(example, named(rule) if rule.tried else example.after) <= BAR
    with without(rule):
        assert least_error(example, "" if rule.tried else example.after) > BAR
