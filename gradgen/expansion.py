"""Where a removable singularity may be: a form of a result as something fixed times a function of one variable."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import mpmath
from mpmath import mpf

from gradgen import interpolate, mpfr, series, variables
from gradgen.graph import CONDITIONS, Node, inputs_of, substitute, topological
from gradgen.model import FORMATS, Program
from gradgen.rewrite import factored, rewrite
from gradgen.variables import Change

_MOST_VARIABLES = 4  # that a series is looked for in
_POLE_DIGITS = 80
_SERIES_DIGITS = 56  # binary digits that a series is to have where it is used


@dataclass(frozen=True)
class Expansion:
    """A form of a node as something fixed times a function of a variable alone.

    Attributes:
        root: the form.
        fixed, varying: its factors.
        variable: what the second one is a function of.
        place: what that stands for; itself where it is a node of the form.
        whole: the form that the root is a part of, if it is one.
        change: what the variable, or what it is a multiple of, is in place of, if it is none of the inputs.
    """

    root: Node
    fixed: Node
    varying: Node
    variable: Node
    place: Node
    whole: Node | None = None
    change: Change | None = None

    def without_pole(self, order: int) -> Expansion:
        """The same with a pole of the second factor in the first one."""
        if not order:
            return self
        power = self.variable**order
        return replace(self, fixed=self.fixed / power, varying=self.varying * power)

    def polynomials(self, leading: Sequence[mpf]) -> Callable[[float], list[Node]]:
        """From how far |variable| goes, to the polynomial that its power series is up to there, if there is one."""

        @cache
        def near(reach: float) -> list[Node]:
            polynomial = series.polynomial(leading, self.variable, reach, _SERIES_DIGITS)
            return [] if polynomial is None else [self._in_place(polynomial)]

        return near

    def farther(self, leading: Sequence[mpf], reach: float) -> Iterator[Node]:
        """What else it is for |variable| < reach, beyond where the power series serves."""
        return map(self._in_place, interpolate.forms(self.varying, self.variable, leading, reach, _SERIES_DIGITS))

    def _in_place(self, near: Node) -> Node:
        fixed = self.fixed if self.change is None else self.change.back(self.fixed)
        (form,) = substitute([fixed * near], {self.variable: self.place})
        return form if self.whole is None else substitute([self.whole], {self.root: form})[0]


class Expansions:
    """The places in an op where a removable singularity may be.

    Args:
        tensors: the names of its tensor inputs.
        hyper: a value for each hyper-parameter.
    """

    def __init__(self, tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> None:
        self._tensors = tensors
        self._hyper = hyper

    def of(self, node: Node) -> Iterator[Expansion]:
        """Where to look for a series: a form of the node as something fixed times a function of a variable alone."""
        for form in dict.fromkeys((node, factored(node))):
            for fixed, varying, variable in _functions_of_one(form, self._tensors):
                yield Expansion(form, fixed, varying, variable, variable)
        others = ((variables.PRODUCT, variables.in_products), (variables.ROOT, variables.in_roots))
        for name, stands_for in others:
            for form, place in stands_for(node, self._tensors):
                for fixed, varying, variable in _functions_of_one(form, [name]):
                    if variable.value == name:
                        yield Expansion(form, fixed, varying, variable, place)
        known = set()
        for form, change in variables.in_differences(node, self._tensors):
            known.add(change.place)
            yield from self._in_difference(form, change)
        for change in variables.sums(node, self._tensors):
            (moved,) = change.moved([node])
            if change.place not in known and self.has_pole(moved, [variables.DIFFERENCE]):
                yield from self._in_difference(factored(rewrite([moved])[0]), change)

    def _in_difference(self, form: Node, change: Change) -> Iterator[Expansion]:
        """A form as something fixed times a function of a difference, or of a product of it."""
        name = variables.DIFFERENCE
        for fixed, varying, variable in _functions_of_one(form, [name]):
            if variable.value == name:
                yield Expansion(form, fixed, varying, variable, change.place, change=change)
        relative = variables.relative_to_rest(form, change)
        for multiple, product in (*variables.in_products(form, [name]), *([relative] if relative else [])):
            for fixed, varying, variable in _functions_of_one(multiple, [variables.PRODUCT]):
                if variable.value == variables.PRODUCT and name not in inputs_of([fixed]):
                    yield Expansion(multiple, fixed, varying, variable, change.back(product), change=change)

    def parts(self, whole: Node, at: Sequence[str]) -> Iterator[Node]:
        """The largest parts of a form with a removable singularity where one of some inputs is 0."""
        left = [whole] if at else []
        while left:
            part = left.pop()
            found = [expansion for expansion in self.in_input(part, whole) if expansion.variable.value in at]
            if any(series.is_removable(expansion.varying, expansion.variable) for expansion in found):
                yield part
            elif part.op not in CONDITIONS and not set(at).isdisjoint(inputs_of([part])):
                left += part.args

    def in_input(self, part: Node, whole: Node) -> Iterator[Expansion]:
        """A part of a form as something fixed times a function of an input that is no number where that is 0."""
        for fixed, varying, variable in _functions_of_one(part, self._tensors):
            if variable.op == "input" and self.has_pole(varying, [str(variable.value)]):
                yield Expansion(part, fixed, varying, variable, variable, whole)

    def has_pole(self, node: Node, names: Iterable[str]) -> bool:
        """Whether a node is no number where some inputs are zero."""
        zero = dict.fromkeys(self._tensors, 1.25) | dict.fromkeys(names, 0.0)
        order, point = topological([node]), {**zero, **self._hyper}
        if not math.isfinite(Program(order, FORMATS["float64"]).at(point)[-1]):
            return True
        with mpmath.workprec(_POLE_DIGITS):  # the model has log(q) - log(q) as what two errors leave
            lifted = {name: x if isinstance(x, bool) else mpf(x) for name, x in point.items()}
            (value,) = mpfr.Program(order, [node])(lifted)
            return not mpmath.isfinite(value)


def _functions_of_one(root: Node, names: Sequence[str]) -> Iterator[tuple[Node, Node, Node]]:
    """The root as a product of what is free of one of some inputs and a function of a variable; and that variable."""
    for name in names:
        fixed, varying = series.varying(root, [name])
        for variable in itertools.islice(series.variables(varying, [name]), _MOST_VARIABLES):
            yield fixed, varying, variable
