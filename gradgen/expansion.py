"""Where a removable singularity may be: a form of a result as something fixed times a function of one variable."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce

import sympy
from mpmath import mpf

from gradgen import formal, interpolate, series, variables
from gradgen.graph import CONDITIONS, HALF, Node, inputs_of, rebuilt, substitute, topological
from gradgen.laurent import Laurent, taylor
from gradgen.lowest_terms import in_lowest_terms
from gradgen.poles import Poles
from gradgen.rewrite import factored, factors, rewrite, terms, written_out
from gradgen.series import NoSeriesError
from gradgen.variables import Change

_MOST_VARIABLES = 4  # that a series is looked for in
_TERMS = 9  # of a series whose coefficients are functions of other inputs, beyond those that are 0
_DIVIDED = 6  # of one whose coefficients are quotients of such
_HIGHEST_POLE = 3
_TAYLOR_REACHES = tuple(2.0**power for power in (-6, -8, -10, -12, -16, -24, -30))
_FORMAL_REACHES = tuple(2.0**power for power in (-2, -3, -4, -5, -6, -7, -8, -12, -20, -30))
_ROOM = (2, 1)  # times as far a series is to serve, if it can, for hyper-parameters of other values
_WITH_ENDS = ("acos", "asin", "acosh")
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

    @property
    def reaches(self) -> tuple[float, ...]:
        """How far from zero to use it; empty if that hangs on the errors of what it is in place of."""
        return ()

    @property
    def beside(self) -> tuple[Node, ...]:
        """The other tensors that how far it holds may hang on."""
        return ()

    def series(self) -> tuple[int, list[mpf]] | None:
        """The order of the pole of its second factor, and the power series of what that is the pole of."""
        return series.coefficients(self.varying, self.variable)

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

    def farther(self, leading: Sequence[mpf], interval: tuple[float, float]) -> Iterator[Node]:
        """What else it is for a variable in an interval about 0, beyond where the power series serves."""
        return map(self._in_place, interpolate.forms(self.varying, self.variable, leading, interval, _SERIES_DIGITS))

    def _in_place(self, near: Node) -> Node:
        fixed = self.fixed if self.change is None else self.change.back(self.fixed)
        (form,) = substitute([fixed * near], {self.variable: self.place})
        return form if self.whole is None else substitute([self.whole], {self.root: form})[0]


@dataclass(frozen=True)
class Taylor(Expansion):
    """A form of a node as its first terms in powers of a difference or an input, with functions of others as
    coefficients.
    """

    @property
    def reaches(self) -> tuple[float, ...]:
        return _TAYLOR_REACHES

    @property
    def beside(self) -> tuple[Node, ...]:
        graph = self.root.graph
        inputs = map(graph.input, inputs_of([self.root]))
        return tuple(x for x in inputs if x is not self.variable and not graph.is_hyper(x))

    def series(self) -> tuple[int, list[mpf]]:
        return 0, []

    def polynomials(self, leading: Sequence[mpf]) -> Callable[[float], list[Node]]:
        assert self.change is not None
        near = self.change.back(self.varying)
        return lambda reach: [near]

    def farther(self, leading: Sequence[mpf], interval: tuple[float, float]) -> Iterator[Node]:
        return iter(())


@dataclass(frozen=True)
class Formal(Taylor):
    """The same of a function of one input, whose coefficients are known functions of hyper-parameters alone.

    Attributes:
        coefficients: these.
        sizes: how large they are, at most, for the values of the hyper-parameters that are looked at.
    """

    coefficients: tuple[Node, ...] = ()
    sizes: tuple[mpf, ...] = ()

    @property
    def reaches(self) -> tuple[float, ...]:
        return _FORMAL_REACHES

    def polynomials(self, leading: Sequence[mpf]) -> Callable[[float], list[Node]]:
        @cache
        def near(reach: float) -> list[Node]:
            assert self.change is not None
            counts = (series.terms_needed(self.sizes, room * reach, _SERIES_DIGITS) for room in _ROOM)
            count = next(filter(None, counts), None)
            return [] if not count else [self.change.back(series.horner(self.coefficients[:count], self.variable))]

        return near


class Meeting(Taylor):
    """The same of what vanishes where two inputs meet, faster than their difference: a number, but one that cancels."""


@dataclass(frozen=True)
class Radial(Expansion):
    """A form of a node as a sum of products of something fixed and a function of a norm alone.

    Attributes:
        products: these.
    """

    products: tuple[tuple[Node, Node], ...] = ()

    @classmethod
    def of(cls, products: variables.Products, variable: Node, place: Node) -> Radial:
        """That of these products, of a variable that stands for a place."""
        form = reduce(variable.graph.add, (fixed * varying for fixed, varying in products))
        return cls(form, variable.graph.const(1), form, variable, place, products=tuple(products))

    @cached_property
    def _series(self) -> list[tuple[int, list[mpf]]] | None:
        found = [series.coefficients(varying, self.variable) for _, varying in self.products]
        return None if None in found else [one for one in found if one is not None]

    def series(self) -> tuple[int, list[mpf]] | None:
        """None where a product has no limit: its second factor has a pole that components of the norm do not lift."""
        degrees = [sum(exponent for _, exponent in factors(fixed)[1]) for fixed, _ in self.products]
        found = self._series
        return None if found is None or any(map(operator.gt, (pole for pole, _ in found), degrees)) else (0, [])

    def polynomials(self, leading: Sequence[mpf]) -> Callable[[float], list[Node]]:
        @cache
        def near(reach: float) -> list[Node]:
            found = [series.polynomial(c, self.variable, reach, _SERIES_DIGITS) for _, c in self._series or []]
            return [] if None in found else [self._added_up([one for one in found if one is not None])]

        return near

    def farther(self, leading: Sequence[mpf], interval: tuple[float, float]) -> Iterator[Node]:
        ways = [
            interpolate.forms(varying * self.variable**pole, self.variable, c, interval, _SERIES_DIGITS)
            for (_, varying), (pole, c) in zip(self.products, self._series or [], strict=True)
        ]
        return map(self._added_up, zip(*ways, strict=False))

    def _added_up(self, near: Sequence[Node]) -> Node:
        """The sum of the products, with these in place of their second factors, which may have had poles."""
        poles = (pole for pole, _ in self._series or [])
        parts = [
            fixed / self.variable**pole * one for (fixed, _), pole, one in zip(self.products, poles, near, strict=True)
        ]
        (form,) = substitute([reduce(self.variable.graph.add, parts)], {self.variable: self.place})
        return rewrite([form])[0]


@dataclass(frozen=True)
class OfAngle(Radial):
    """The same of the quotient of a norm and an input, in whose angle it is, times products of what that is made of."""

    def series(self) -> tuple[int, list[mpf]] | None:
        return None if self._series is None or any(pole for pole, _ in self._series) else (0, [])


class Expansions:
    """The places in an op where a removable singularity may be.

    Args:
        tensors: the names of its tensor inputs.
        poles: where its nodes are no numbers.
        divides: whether quotients of series are looked at, too.
    """

    def __init__(self, tensors: Sequence[str], poles: Poles, divides: bool = False) -> None:
        self._tensors = tensors
        self._poles = poles
        self._divides = divides

    def of(self, node: Node) -> Iterator[Expansion]:
        """Where to look for a series: a form of the node as something fixed times a function of a variable alone."""
        for form in dict.fromkeys((node, factored(node))):
            for fixed, varying, variable in _functions_of_one(form, self._tensors):
                yield Expansion(form, fixed, varying, variable, variable)
        others = (
            (variables.PRODUCT, variables.in_products),
            (variables.ROOT, variables.in_roots),
            (variables.PRODUCT, variables.in_angles),
        )
        for name, stands_for in others:
            for form, place in stands_for(node, self._tensors):
                for fixed, varying, variable in _functions_of_one(form, [name]):
                    if variable.value == name:
                        yield Expansion(form, fixed, varying, variable, place)
        for (products, *_), norm in variables.in_norms(node, self._tensors):
            yield Radial.of(products, node.graph.input(variables.NORM), norm)
        for ways, quotient in variables.in_angles_of_norms(node, self._tensors):
            yield from (OfAngle.of(products, node.graph.input(variables.PRODUCT), quotient) for products in ways)
        known = set()
        for form, change in variables.in_differences(node, self._tensors):
            known.add(change.place)
            yield from self._in_difference(form, change)
        yield from self.at_sums(node, known)
        for change in variables.meetings(node, self._tensors):
            (moved,) = change.moved([node])
            if self._poles.vanishes(substitute([moved], {change.variable: node.graph.const(0)})[0]):
                yield from self._by_derivatives(moved, change, least=0)

    def at_sums(self, node: Node, known: Container[Node] = ()) -> Iterator[Expansion]:
        """Where a sum in a node is zero, and the node no number; at places that are known by derivatives alone."""
        poles = []
        for change in variables.sums(node, self._tensors):
            (moved,) = change.moved([node])
            if self._poles.has(moved, [variables.DIFFERENCE]):
                form = factored(rewrite([moved])[0])
                poles.append((moved, change))
                if change.place not in known:
                    yield from self._in_difference(form, change)
            yield from self._in_root(node, change)
        for moved, change in poles:
            yield from self._by_derivatives(moved, change)

    def in_powers(self, node: Node, names: Iterable[str]) -> Iterator[Expansion]:
        """A node in powers of each of some inputs, with hyper-parameters and other inputs in the coefficients."""
        for moved, change in self._moved(node, names):
            yield from self._by_derivatives(moved, change)

    def by_division(self, node: Node, names: Iterable[str]) -> Iterator[Expansion]:
        """The same where quotients are 0/0, by the series of what they are quotients of."""
        for moved, change in self._moved(node, names):
            with suppress(NoSeriesError):
                every = Laurent(change.variable, self._poles, _DIVIDED).coefficients(moved)
                coefficients = [*map(in_lowest_terms, every)]
                near = reduce(lambda total, one: one + change.variable * total, reversed(coefficients))
                yield Taylor(moved, node.graph.const(1), near, change.variable, change.place, change=change)

    def _moved(self, node: Node, names: Iterable[str]) -> Iterator[tuple[Node, Change]]:
        """A node as a function of a variable in place of each of some inputs."""
        variable = node.graph.input(variables.DIFFERENCE)
        for x in map(node.graph.input, names):
            yield substitute([node], {x: variable})[0], Change(x, variable, x, variable)

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

    def _in_root(self, node: Node, change: Change) -> Iterator[Expansion]:
        """A node as something fixed times a function of the root of a sum d: acos(1 - d)/sqrt(d)."""
        for sign in (1, -1):
            (solution,) = substitute([change.solution], {change.variable: sign * change.variable})
            place = change.place if sign > 0 else written_out(-change.place)
            total = replace(change, place=place, solution=written_out(solution))
            (moved,) = total.moved([node])
            (moved,) = rewrite([_with_roots(moved, change.variable)])
            for form, root in variables.in_roots(moved, [variables.DIFFERENCE]):
                v = node.graph.input(variables.ROOT)
                (solution,) = substitute([total.solution], {total.variable: v**2})
                of_root = Change(total.back(root), v, total.pivot, solution)
                alone = [
                    Expansion(form, fixed, varying, v, of_root.place, change=of_root)
                    for fixed, varying, variable in _functions_of_one(form, [variables.ROOT])
                    if variable is v
                ]
                yield from alone
                if not alone and self._poles.has(form, [variables.ROOT]):
                    yield from self._formal(form, of_root)

    def _formal(self, form: Node, change: Change) -> Iterator[Expansion]:
        """A form in powers of a variable, if all else in it is hyper-parameters."""
        variable = change.variable
        if not self._divides or not set(inputs_of([form])) <= {variable.value, *form.graph.hyper}:
            return
        coefficients = formal.coefficients(form, variable)
        sizes = self._poles.sizes(coefficients)
        if any(sizes):
            of = form, form.graph.const(1), form, variable, change.place
            yield Formal(*of, change=change, coefficients=tuple(coefficients), sizes=tuple(sizes))

    def _by_derivatives(self, form: Node, change: Change, least: int = 1) -> Iterator[Expansion]:
        """A form in powers of a difference or an input d, if it is 0/0 there: derivatives of form*d**p by d."""
        for expansion in self._formal(form, change):
            yield expansion
            return
        d, zero, parts = change.variable, change.variable.graph.const(0), terms(written_out(form))
        for order in range(least, _HIGHEST_POLE + 1):
            products = [one * d**order if item is None else one * item * d**order for one, item in parts]
            (term,) = rewrite([reduce(form.graph.add, products)])
            if self._poles.has(term, [variables.DIFFERENCE]):
                continue
            try:
                every = taylor(term, d, self._poles, order + _TERMS)
            except NoSeriesError:
                return
            found = [zero if self._poles.vanishes(one) else one for one in every]
            coefficients = [*map(in_lowest_terms, rewrite(found[order:]))]
            if coefficients and all(map(self._poles.vanishes, found[:order])):  # else it is a pole
                near = reduce(lambda total, one: one + d * total, reversed(coefficients))
                kind = Taylor if order else Meeting
                yield kind(form, d.graph.const(1), near, d, change.place, change=change)
            return

    def in_argument(self, slope: Node, form: Node, change: Change) -> Iterator[Expansion]:
        """A multiple of a function of an argument as something fixed times a function of the argument alone."""
        for fixed, varying, variable in _functions_of_one(form, [str(change.variable.value)]):
            if variable is change.variable:
                yield Expansion(form, slope * fixed, varying, variable, change.place, change=change)

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
            if variable.op == "input" and self._poles.has(varying, [str(variable.value)]):
                yield Expansion(part, fixed, varying, variable, variable, whole)


def _with_roots(node: Node, d: Node) -> Node:
    """The node with 2*asin(sqrt(d/2)) for acos(1 - d), and the like: functions at the ends of domains by roots."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        new[below] = _by_root(changed, written_out(changed.args[0]), d) if below.op in _WITH_ENDS else changed
    return new[node]


def _by_root(node: Node, argument: Node, d: Node) -> Node:
    graph = node.graph
    (end,) = substitute([argument], {d: graph.const(0)})
    if end.number not in (1, -1):
        return node
    half = (written_out(1 - end * argument) / 2) ** HALF
    angle: Node = 2 * graph.apply("asin", half)  # acos(end*argument)
    found = {
        "acos": angle if end.is_number(1) else graph.const(sympy.pi) - angle,
        "asin": end * (graph.const(sympy.pi / 2) - angle),
        "acosh": 2 * graph.apply("asinh", (written_out(argument - 1) / 2) ** HALF),
    }
    return found[node.op]


def _functions_of_one(root: Node, names: Sequence[str]) -> Iterator[tuple[Node, Node, Node]]:
    """The root as a product of what is free of one of some inputs and a function of a variable; and that variable."""
    for name in names:
        fixed, varying = series.varying(root, [name])
        for variable in itertools.islice(series.variables(varying, [name]), _MOST_VARIABLES):
            yield fixed, varying, variable
