"""Which of the forms of a result is computed, and in which precision: the cheapest that meets the bar, by the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce

import sympy
from mpmath import mpf
from sympy import Expr

from gradgen import algebraic, hyperbolic, infinite, interpolate, points, rational, relative, series, squares
from gradgen.compensate import compensated, has_marks, marked, unmarked
from gradgen.differentiate import gradient
from gradgen.graph import CONDITIONS, HALF, Node, coefficient, inputs_of, rebuilt, substitute, topological
from gradgen.limits import limits
from gradgen.measure import LEAST_REACH, Reference
from gradgen.model import FORMATS, Program
from gradgen.primitives import MARKS
from gradgen.printers.base import Printer
from gradgen.rewrite import collected, factored, factors, multiplied_out, rewrite, tried
from gradgen.worst import Worst

BAR = 4.0

# What a modelled error must not exceed. The bar is for every float, and the model looks at some of them.
TARGET = 3.25

# A type with fewer digits than float32 asks for float64 arithmetic only where float32 has hardly a digit left.
_WIDENED = {"float32": TARGET, "bfloat16": 2.0**14, "float16": 2.0**11}

_ROUGH = ("bfloat16", "float16")  # computed in float32, of which they keep few digits

_WIDE_COST = 2.0  # of float64 arithmetic, with float32 as unit
_WORTH = 0.9  # the share of the error that compensation must not leave more than
_CHEAPER = 0.75  # a form that is as accurate as the sound one must cost this much less to be taken
_HUGE = 1e300
_TINY = 1e-10  # what may be the rounding of a sum that vanishes
_LOST = 1000.0  # errors beyond this are alike
_SUBNORMAL = 4  # by how many steps lesser errors count, at most, where results are subnormal numbers
_MOST_FORMS, _FEWER_FORMS = 14, 5  # of a value or derivative, and of a second derivative
_MOST_VARIABLES = 4  # that a series is looked for in
_HOPELESS = 1.5  # times the error of the best form
_SINGULAR = 24.0  # an error that may be the sign of a singularity
_SERIES_DIGITS = 56  # binary digits that a series is to have where it is used
_FARTHER, _FARTHEST = 2.0**-3, 8.0  # between which polynomials through points reach, where the series does not
_STEP, _PATIENCE = 1.25, 2  # by how much farther they try to reach, and how often without gain
_KINKS = frozenset({"where", "sign", "abs", "modulus", "maximum", "minimum", "floor", "ceil"})
_BESIDE_REACH = (0.6, 0.8, 0.9, 0.952, 0.97, 0.991, 1.002, 1.02, 1.1, -0.7, -0.85, -0.935, -0.98, -1.006, -1.2)
# Inputs that stand for something else; no user can give these names
_DIFFERENCE, _PRODUCT, _ROOT = "a difference", "a product", "a root"
_MOST_COMPENSATED = 80  # nodes of a result for which a text four times as long is reasonable
_LARGEST = 200  # nodes of a result whose forms are looked for
_LONG = 64  # nodes from which on a form
_LONGER = 1.25  # must not cost so many times as much, or a formula would grow with each level of nesting


@dataclass(frozen=True)
class Quality:
    """The modelled worst errors of one form of a result.

    Attributes:
        single: of float32, in float32 arithmetic.
        wide: of float32, in float64 arithmetic.
        double: of float64.
    """

    single: Worst
    wide: Worst
    double: Worst

    @property
    def error(self) -> float:
        """The worst error, float32 being computed in the better of both ways."""
        return max(self.double.error, min(self.single.error, self.wide.error))


@dataclass(frozen=True)
class Note:
    """A form that was taken, in place of the one before it.

    Attributes:
        what: the form.
        why: what it is better by.
        before: the modelled errors without it.
        after: those with it.
    """

    what: str
    why: str
    before: Quality
    after: Quality


@dataclass(frozen=True)
class Arithmetic:
    """In which arithmetic a kernel is computed.

    Attributes:
        wide: the types that are computed in float64.
        uncorrected: the types in which what is compensated need not be.
        is_narrow_at_defaults: whether no type needs float64 where hyper-parameters have their defaults.
    """

    wide: tuple[str, ...] = ()
    uncorrected: tuple[str, ...] = ()
    is_narrow_at_defaults: bool = False


@dataclass(frozen=True)
class _Expansion:
    """A form of a node as something fixed times a function of a variable alone.

    Attributes:
        root: the form.
        fixed, varying: its factors.
        variable: what the second one is a function of.
        place: what that stands for; itself where it is a node of the form.
        whole: the form that the root is a part of, if it is one.
    """

    root: Node
    fixed: Node
    varying: Node
    variable: Node
    place: Node
    whole: Node | None = None

    def without_pole(self, order: int) -> _Expansion:
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
        (form,) = substitute([self.fixed * near], {self.variable: self.place})
        return form if self.whole is None else substitute([self.whole], {self.root: form})[0]


@dataclass(frozen=True)
class _Patch:
    """A form with another one in its place near a removable singularity.

    Attributes:
        form: all of it.
        quality: its modelled errors.
        by: what the other one is.
        is_near: where that is taken.
        near: the other one.
    """

    form: Node
    quality: Quality
    by: str
    is_near: Node
    near: Node


class Choice:
    """The forms in which the results of an op are computed.

    Args:
        nodes: the results in their sound form, values and derivatives.
        others: second derivatives, of which no errors are reported.
        tensors: the names of the tensor inputs they are functions of.
        hyper: a value for each hyper-parameter.
        origins: for some of the nodes which other one they are the derivative of, and by which input.
        written: for some of the nodes what they were before any rule.

    Attributes:
        notes: for each result in what form it is computed, where that is not the one that was given.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        others: Sequence[Node],
        tensors: Sequence[str],
        hyper: Mapping[str, float | bool],
        origins: Mapping[Node, tuple[Node, Node]] | None = None,
        written: Mapping[Node, Node] | None = None,
    ) -> None:
        every = [*nodes, *others]
        self._origins = origins or {}
        self._written = written or {}
        self._reported = len(nodes)
        self._tensors = tensors
        self._hyper = hyper
        self._extremes = [{**point, **hyper} for point in points.extreme(tensors)]
        centres = self._centres(every)
        self._single = Reference(every, tensors, hyper, "float32", centres)
        self._double = Reference(every, tensors, hyper, "float64", centres)
        self._forms = {node: node for node in every}
        self._plain_forms: dict[Node, Node] = {}  # without series, compensation and limits at infinity
        self._rational_forms: dict[tuple[Node, bool], list[tuple[Node, str]]] = {}
        self._switched: set[Node] = set()  # those that have one form, or another one that equals it
        self._needs_no_correction: set[Node] = set()  # in float32
        self._uncorrected: dict[Node, Worst] = {}  # of float32, in float32 arithmetic without corrections
        self.notes: dict[Node, list[Note]] = {node: [] for node in every}
        sound = self._measured(every, range(len(every)), near=True)
        self._sound = dict(zip(every, sound, strict=True))
        self._quality = dict(self._sound)
        for column, node in enumerate(every):
            if node.args and len(topological([node])) <= _LARGEST:
                self._improve(node, column)
                self._plain_forms[node] = self._forms[node]
                self._patch(node, column)
                self._compensate(node, column)
                self._leave_plain(node, column)
                self._settle(node, column)

    def _measured(self, forms: Sequence[Node], columns: Sequence[int], near: bool) -> list[Quality]:
        printed = _finished(forms)
        single = self._single.worst(printed, columns, near=near)
        wide = single
        if has_marks(forms) or any(worst.error > TARGET for worst in single):
            wide = self._single.worst(printed, columns, wide=True, near=False)
        double = self._double.worst(printed, columns, near=near)
        return [Quality(*row) for row in zip(single, wide, double, strict=True)]

    def _centres(self, nodes: Sequence[Node]) -> list[float]:
        """Where an input and a number in the nodes cancel: 1 of x - 1."""
        found = set()
        for node in topological(nodes):
            for one, other in itertools.permutations(node.args) if node.op == "add" else ():
                (a, x), b = coefficient(one), other.number
                if x is not None and x.op == "input" and a.is_comparable and b is not None and b.is_comparable:
                    found.add(-float(b / a))
        return sorted(found)

    def _improve(self, node: Node, column: int) -> None:
        """Take another form of a result where it is better."""
        best = self._quality[node]
        if column >= self._reported and best.error <= BAR:
            return
        most = _MOST_FORMS if column < self._reported or best.error > _LOST else _FEWER_FORMS
        # Autograd differentiates second derivatives as they are computed, at 0 as well.
        candidates = _each_once(self._candidates(node, powers=column < self._reported), node)
        looked_at = [(best, node, "as it is")]
        is_long = len(topological([node])) > _LONG
        for form, how in itertools.islice(candidates, most):
            is_hopeless = self._is_hopeless(form, column, self._quality[node])
            if (is_hopeless and len(self._tensors) > 1) or not self._single.is_same(form, column):
                continue
            if is_long and cost(form) > _LONGER * cost(node):
                continue
            (far,) = self._measured([form], [column], near=False)
            looked_at.append((far, form, how))
            if not is_hopeless:
                self._take_if_better(node, form, column, [], how, _is_better)
        distributed = _distributed(self._forms[node])
        if distributed is not None:
            how = "with its factor in each term"
            self._take_if_better(node, distributed, column, self.notes[node], how, _is_better)
        if len(self._tensors) == 1 and self._quality[node].error > BAR:
            below = min(looked_at, key=lambda entry: _rank_of_side(entry[0], 0))
            above = min(looked_at, key=lambda entry: _rank_of_side(entry[0], 1))
            if below[1] is not above[1]:
                is_above = node.graph.apply("ge", node.graph.input(self._tensors[0]), 0)
                form = node.graph.where(is_above, above[1], below[1])
                how = f"{above[2]} above 0, {below[2]} below"
                self._take_if_better(node, form, column, [], how, _is_better)
                self._switched.add(form)
        if len(self._tensors) == 1 and self._quality[node].error > _SINGULAR:
            self._switch(node, column, looked_at)

    def _switch(self, node: Node, column: int, looked_at: Sequence[tuple[Quality, Node, str]]) -> None:
        """Take one form near 0 and another one far from it, where that is better."""
        x = node.graph.input(self._tensors[0])
        printed = [_finished([form])[0] for _, form, _ in looked_at]
        size, near, far = self._double.switch(printed, column, BAR)
        if near != far:
            is_near = node.graph.apply("lt", node.graph.apply("abs", x), sympy.Float(size))
            form = node.graph.where(is_near, looked_at[near][1], looked_at[far][1])
            how = f"where |{x}| < {size:g} {looked_at[near][2]}, beyond {looked_at[far][2]}"
            self._take_if_better(node, form, column, [], how, _is_better)
            self._switched.add(form)

    def _take_if_better(
        self, node: Node, form: Node, column: int, notes: list[Note], how: str, is_better: _Comparison
    ) -> None:
        """Take another form of a result if it is better than the one so far; `notes` are on what it is made from."""
        if not self._keeps_limits(node, form, column):
            return
        best, best_cost, new_cost = self._quality[node], cost(self._forms[node]), cost(form)
        for near in (False, True):
            (quality,) = self._measured([form], [column], near)
            if not is_better(quality, new_cost, best, best_cost):
                return
        self._forms[node], self._quality[node] = form, quality
        is_cheaper = _is_better(quality, new_cost, best, best_cost)
        why = "as exact, and cheaper" if is_cheaper else "more exact in float64 for ordinary numbers"
        self._note(node, notes, how, why)

    def _note(self, node: Node, notes: list[Note], how: str, why: str) -> None:
        """Add a note on the form just taken to those on what it is made from; `why` where it is not for the errors."""
        before, after = notes[-1].after if notes else self._sound[node], self._quality[node]
        self.notes[node] = [*notes, Note(how, "more exact" if _rank(after) < _rank(before) else why, before, after)]

    def _keeps_limits(self, node: Node, form: Node, column: int) -> bool:
        """Whether a form overflows, vanishes or is NaN at no more of the extreme inputs than the node itself.

        Where one input is infinite NaN does not count: `_settle` gives the form its limit.
        """
        sound, other = _finished([node, form])
        order = topological([sound, other])
        program, (i, k) = Program(order, FORMATS["float64"]), (order.index(sound), order.index(other))
        values = program(self._extremes)
        lost = 0
        for point, old, new in zip(self._extremes, values[i].tolist(), values[k].tolist(), strict=True):
            is_finite = all(math.isfinite(point[name]) for name in self._tensors)
            exact = self._double.exact(column, point) if is_finite else None
            if exact is not None:
                lost += _is_lost(new, float(exact)) - _is_lost(old, float(exact))
            elif is_finite or len(self._tensors) > 1 or not math.isnan(new):
                lost += _is_lost(new, old) - _is_lost(old, new)
        return lost <= 0

    def _rational(self, node: Node, powers: bool) -> list[tuple[Node, str]]:
        """The node's forms as rational functions, which are looked for once."""
        if (node, powers) not in self._rational_forms:
            self._rational_forms[node, powers] = [*rational.forms(node, powers)]
        return self._rational_forms[node, powers]

    def _candidates(self, node: Node, powers: bool) -> Iterator[tuple[Node, str]]:
        """Other forms of a node, each with what it is; many of them where the node itself is poor."""
        yield from self._rational(node, powers)
        for shifted, difference in self._shifted(node):
            form = substitute([shifted], {shifted.graph.input(_DIFFERENCE): difference})[0]
            yield form, f"in terms of {Printer({}).expression(difference)}"
        quality = self._quality[node]
        if max(quality.single.error, quality.double.error) <= TARGET:
            return
        written = self._written.get(node, node)
        if written is not node:
            yield written, "as the derivative of what was written" if node in self._origins else "as it was written"
        yield from self._scaled(node, powers)
        taken_out = factored(node)
        if taken_out is not node:
            yield taken_out, "with common factors of sums before them"
        spread = multiplied_out(node)
        if spread is not node:
            yield spread, "with exponentials multiplied out"
        for start in dict.fromkeys((node, taken_out)) if powers else ():
            yield from squares.forms(start)
        for start in dict.fromkeys((node, taken_out, *([written] if len(self._tensors) > 1 else []))):
            yield from relative.forms(start)
        yield from hyperbolic.forms(node)
        for form, how in self._derived(node):
            is_smooth = self._plain_forms.get(self._origins[node][0]) in self._switched
            if powers or is_smooth or _KINKS.isdisjoint(below.op for below in topological([form])):
                yield form, how
                more_forms = itertools.chain(squares.divided_twice(form), self._scaled(form, powers)) if powers else ()
                for further, more in more_forms:
                    yield further, f"{how}, {more}"
        for form, how in algebraic.forms(node):
            yield form, how
            for scaled, more in relative.forms(form):
                yield scaled, f"{how}, {more}"
        for split, how in (
            (_by_flag(node), "by a flag"),
            (_by_sign(node), "by the sign of what has an absolute value"),
        ):
            if split is not None:
                yield split, how
                for form, more in rational.forms(split, powers):
                    yield form, f"{how}, {more}"
        starts = {taken_out: "with common factors of sums before them", node: ""}
        if spread is not node:
            starts[spread] = "with exponentials multiplied out"
        if node in self._origins and powers:
            starts = {written: "as the derivative of what was written"} | starts
        by_rules = []
        for start, how in starts.items():
            for form, by in _by_rules(start):
                by_rules.append((form, by))
                yield form, f"{how}, {by}" if how else by
        for form, by in by_rules:
            for rational_form, more in rational.forms(form, powers):
                yield rational_form, f"{by}, {more}"

    def _scaled(self, node: Node, powers: bool) -> Iterator[tuple[Node, str]]:
        """Forms of a node as a function of an input times hyper-parameters: (a*x)**2, of which a**2*x**2 overflows."""
        for form, product in self._in_products(node):
            scale = [name for name in inputs_of([product]) if name not in self._tensors]
            if not scale or len(inputs_of([product])) - len(scale) > 1:
                continue
            start = factored(rewrite([form])[0])
            varying = [base for base, _ in factors(start)[1] if not node.graph.is_hyper(base)]
            if not set(scale).isdisjoint(inputs_of(varying)):
                continue  # there is more of the input
            others = [*squares.forms(start), *relative.forms(start), *algebraic.forms(start)]
            others += [*rational.forms(start, powers), *_by_rules(start)]
            for found, how in ((start, ""), *others):
                (back,) = substitute([found], {node.graph.input(_PRODUCT): product})
                yield back, ", ".join(filter(None, (f"in terms of {Printer({}).expression(product)}", how)))
            return

    def _derived(self, node: Node) -> Iterator[tuple[Node, str]]:
        """The derivative of the form that is taken of what the node is a derivative of; none where there are kinks."""
        origin, wrt = self._origins.get(node, (node, node))
        form = self._plain_forms.get(origin, origin)
        undefined = _undefined(origin)
        kinks = (below for below in topological([origin, node]) if below.op in _KINKS)
        if form is origin or any(below.args[0] not in undefined for below in kinks):
            return
        if any(below.op == "maximum" for below in topological([form])):  # a kink where the function has none
            return
        (derived,) = rewrite(gradient(form, [wrt]))
        yield derived, "as the derivative of that form"
        yield factored(derived), "as the derivative of that form, with common factors of sums before them"

    def _is_hopeless(self, form: Node, column: int, best: Quality) -> bool:
        """Whether a form is so much worse than the best that it need not be measured."""
        (printed,) = _finished([form])
        return self._double.is_hopeless(printed, column, _HOPELESS * max(best.double.error, TARGET))

    def _shifted(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """The node as a function of each difference in it: of x - 1 in place of x in log(x)/(x - 1)."""
        for difference in series.differences(node, self._tensors):
            x, rest = difference.args
            moved = node.graph.input(_DIFFERENCE)
            (form,) = rewrite(substitute([node], {difference: moved, x: moved - rest}))
            yield factored(form), difference

    def _patch(self, node: Node, column: int) -> None:
        """Near a removable singularity take the series of a result, where that is better; else those of its parts."""
        if any(self._patch_near(node, column, expansion) for expansion in self._expansions(node)):
            return
        whole = factored(node)
        at = [name for name in self._tensors if self._has_pole(self._forms[node], [name])]
        for part in [*self._parts(whole, at)]:
            patches = (self._patch_near(node, column, expansion) for expansion in self._in_input(part, whole))
            patch = next(filter(None, patches), None)
            if patch is not None:
                whole = node.graph.where(patch.is_near, patch.near, whole)

    def _patch_near(self, node: Node, column: int, expansion: _Expansion) -> _Patch | None:
        """Take the series of a result, or of a part of it, near a removable singularity, if that is better."""
        quality, variable, place = self._quality[node], expansion.variable, expansion.place
        if self._has_pole(place, inputs_of([place])):
            return None
        has_pole = expansion.whole is not None or self._has_pole_at(node, expansion)
        if max(quality.wide.normal, quality.double.normal) <= _SINGULAR and not has_pole:
            return None
        if not has_pole and not self._reaches(self._forms[node], place, column, beyond=_SINGULAR):
            return None  # what is wrong is not near 0
        found = series.coefficients(expansion.varying, variable)
        if found is None or (found[0] and max(quality.wide.normal, quality.double.normal) <= _SINGULAR):
            return None
        pole, leading = found
        best = self._best_near(node, column, expansion.without_pole(pole), leading)
        if best is None:
            return None
        # A part may not be all that is no number there, and a difference is 0 elsewhere.
        is_other = expansion.whole is not None or variable.value == _DIFFERENCE
        is_gone = has_pole and (is_other or not self._has_pole(best.form, inputs_of([place])))
        if not is_gone and _rank(best.quality) >= _rank(quality):
            return None
        self._forms[node], self._quality[node] = best.form, best.quality
        how = f"near {Printer({}).expression(place)} = 0 by {best.by}"
        self._note(node, self.notes[node], how, "the other is no number there")
        return best

    def _parts(self, whole: Node, at: Sequence[str]) -> Iterator[Node]:
        """The largest parts of a form with a removable singularity where one of some inputs is 0."""
        left = [whole] if at else []
        while left:
            part = left.pop()
            found = [expansion for expansion in self._in_input(part, whole) if expansion.variable.value in at]
            if any(series.is_removable(expansion.varying, expansion.variable) for expansion in found):
                yield part
            elif part.op not in CONDITIONS and not set(at).isdisjoint(inputs_of([part])):
                left += part.args

    def _in_input(self, part: Node, whole: Node) -> Iterator[_Expansion]:
        """A part of a form as something fixed times a function of an input that is no number where that is 0."""
        for fixed, varying, variable in _functions_of_one(part, self._tensors):
            if variable.op == "input" and self._has_pole(varying, [str(variable.value)]):
                yield _Expansion(part, fixed, varying, variable, variable, whole)

    def _best_near(self, node: Node, column: int, expansion: _Expansion, leading: Sequence[mpf]) -> _Patch | None:
        """The best of a node's forms with an expansion in its place near 0.

        First its power series, as far as it reaches; then farther and farther other polynomials, while that helps.
        """
        place, near_zero = expansion.place, expansion.polynomials(leading)
        others = [*self._rational(node, powers=column < self._reported), *hyperbolic.forms(node)]
        forms = dict.fromkeys([self._forms[node], node, *(form for form, _ in others)])
        reaches = {form: self._reaches(form, place, column) or [LEAST_REACH] for form in forms}
        tries = [(form, reach, near) for form in forms for reach in reaches[form] for near in near_zero(reach)]
        least = min(itertools.chain(*reaches.values()))
        while not tries and least > _FARTHER:  # other polynomials may go on from where the series serves
            least /= 2
            tries = [(form, least, near) for form in forms for near in near_zero(least)]
        best: _Patch | None = None
        by, patience = "its power series", _PATIENCE
        while tries and patience:
            self._look_beside({reach for _, reach, _ in tries}, place)
            patched = [(entry, made_of) for made_of in tries for entry in self._patched(column, place, *made_of)]
            if not patched:
                break
            (*_, new), (form, reach, near) = min(patched, key=lambda entry: entry[0][:2])
            (measured,) = self._measured([new], [column], near=True)
            patience -= 1
            if best is None or _rank(measured) < _rank(best.quality):
                best, patience = _Patch(new, measured, by, _is_near(place, reach), near), _PATIENCE
            by, tries = "polynomials through its values", []
            if best.quality.error > TARGET and _FARTHER <= reach < _FARTHEST:
                farther = sorted({_STEP * reach, *(more for more in reaches.pop(form, []) if more > reach)})
                tries = [(form, reach, near) for reach in farther for near in expansion.farther(leading, reach)]
        return best

    def _look_beside(self, reaches: Collection[float], place: Node) -> None:
        """Add inputs just inside and outside of where a series might end."""
        if place.op == "input" and len(self._tensors) == 1:
            name = str(place.value)
            at = [{**self._hyper, name: reach * share} for reach in sorted(reaches) for share in _BESIDE_REACH]
            for reference in (self._single, self._double):
                reference.look_at(at)

    def _expansions(self, node: Node) -> Iterator[_Expansion]:
        """Where to look for a series: a form of the node as something fixed times a function of a variable alone."""
        for form in dict.fromkeys((node, factored(node))):
            for fixed, varying, variable in _functions_of_one(form, self._tensors):
                yield _Expansion(form, fixed, varying, variable, variable)
        others = ((_PRODUCT, self._in_products), (_ROOT, self._in_roots), (_DIFFERENCE, self._shifted))
        for name, stands_for in others:
            for form, place in stands_for(node):
                for fixed, varying, variable in _functions_of_one(form, [name]):
                    if variable.value == name:
                        yield _Expansion(form, fixed, varying, variable, place)

    def _in_products(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """The node as a function of each product of an input: of v = k*x, with k/v in place of 1/x."""
        moved = node.graph.input(_PRODUCT)
        tensors = [node.graph.input(name) for name in self._tensors]
        for product in topological([node]):
            number, found = factors(product) if product.op == "mul" else (1, [])
            for x in [base for base, power in found if power == 1 and base in tensors]:
                others = [base**power for base, power in found if base is not x]
                rest = reduce(node.graph.mul, others, node.graph.const(number))
                if x not in topological([rest]):
                    (form,) = substitute(substitute([node], {product: moved}), {x: moved / rest})
                    yield factored(form), product

    def _in_roots(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """The node as a function of the square root of each input: of v = sqrt(x), with v**2 in place of x."""
        moved = node.graph.input(_ROOT)
        for root in topological([node]):
            if root.op == "pow" and root.args[1].is_number(HALF) and root.args[0].value in self._tensors:
                (form,) = substitute([node], {root: moved, root.args[0]: moved**2})
                yield factored(_with_roots_of_squares(form, moved)), root

    def _patched(
        self, column: int, variable: Node, form: Node, reach: float, near: Node
    ) -> Iterator[tuple[tuple[int, int], float, Node]]:
        """A form with another one in its place where |variable| < reach: its rank, its cost, itself.

        Nothing where the two are not the same function.
        """
        new = form.graph.where(_is_near(variable, reach), near, form)
        if self._single.is_same(new, column):
            (measured,) = self._measured([new], [column], near=False)
            yield _rank(measured), cost(new), new

    def _compensate(self, node: Node, column: int) -> None:
        """Where rounding alone puts a float64 result near the bar or above it, compute it in compensated arithmetic.

        All of it only above the bar. It does nothing for subnormal results.
        """
        if self._quality[node].double.normal <= TARGET or len(topological([node])) > _MOST_COMPENSATED:
            return
        enough = TARGET if column < self._reported else BAR
        for form, notes, how in self._to_compensate(node, column):
            sharpened = marked(form, "sharpened")
            is_other = _finished([sharpened]) != _finished([form])
            if is_other and not self._is_hopeless(sharpened, column, self._quality[node]):
                self._take_if_better(node, sharpened, column, notes, f"{how}with corrected arguments", _meets_bar)
                if self._forms[node] is sharpened and self._quality[node].double.error <= BAR:
                    return
            new = marked(form)
            if self._quality[node].double.normal <= BAR or self._is_hopeless(new, column, self._quality[node]):
                continue
            self._take_if_better(node, new, column, notes, f"{how}in compensated arithmetic", _is_more_accurate)
            if max(self._quality[node].single.error, self._quality[node].double.error) <= enough:
                return

    def _to_compensate(self, node: Node, column: int) -> Iterator[tuple[Node, list[Note], str]]:
        """Forms of a result, each once, with notes on what it is made from, and what it is."""
        best, notes = self._forms[node], self.notes[node]
        found: dict[Node, tuple[list[Note], str]] = {best: (notes, "")}
        found.setdefault(node, ([], ""))
        for form, how in self._rational(node, powers=column < self._reported):
            found.setdefault(form, ([], f"{how}, "))
        found.setdefault(rational.expanded(best), (notes, ""))
        found.setdefault(rational.expanded(node), ([], ""))
        for form, (before, how) in found.items():
            yield form, before, how

    def _leave_plain(self, node: Node, column: int) -> None:
        """Where float32 meets the target without the corrections that float64 needs, it goes without."""
        form = self._forms[node]
        if form.op in MARKS:
            (plain,) = self._measured(form.args, [column], near=True)
            self._uncorrected[node] = plain.single
            if plain.single.error <= TARGET:
                self._quality[node] = replace(self._quality[node], single=plain.single)
                self._needs_no_correction.add(node)

    def _settle(self, node: Node, column: int) -> None:
        """Give the form its limits at infinite inputs where it is NaN."""
        form = self._forms[node]
        (printed,) = _finished([form])
        new = infinite.settled(form, printed, partial(self._double.exact, column), self._tensors, self._hyper)
        if new is not form:
            self._forms[node] = new
            self._note(node, self.notes[node], "with limits at infinity", "the other is NaN there")

    def _has_pole_at(self, node: Node, expansion: _Expansion) -> bool:
        """Whether the form of a result is no number where the variable of an expansion is zero."""
        variable, place = expansion.variable, expansion.place
        if place.op == "mul":  # of a product that is where an input is
            return self._has_pole(self._forms[node], set(inputs_of([place])).intersection(self._tensors))
        return self._has_pole(self._forms[node] if variable is place else expansion.root, inputs_of([variable]))

    def _has_pole(self, node: Node, names: Iterable[str]) -> bool:
        """Whether a node is no number where some inputs are zero."""
        zero = dict.fromkeys(self._tensors, 1.25) | dict.fromkeys(names, 0.0)
        order = topological([node])
        value = Program(order, FORMATS["float64"]).at({**zero, **self._hyper})[-1]
        return not math.isfinite(value)

    def _reaches(self, form: Node, variable: Node, column: int, beyond: float = TARGET) -> list[float]:
        """How far from zero a series might be used: as far as float32 asks for, or float64, or not as far.

        Nothing if what is wrong, by more than this error, is not near zero.
        """
        (printed,) = _finished([form])
        needed = [self._single.reach(printed, column, variable, beyond, wide=wide) for wide in (False, True)]
        needed.append(self._double.reach(printed, column, variable, beyond, wide=False))
        least, most = max(LEAST_REACH, *needed[1:]), max(needed)
        return sorted({most, least, least / 2, least / 4, least / 8}) if most else []

    def form(self, node: Node) -> Node:
        """The form in which a result is computed."""
        return self._forms.get(node, node)

    def quality(self, node: Node) -> Quality:
        """The modelled errors of a result."""
        return self._quality[node]

    def uncorrected(self, node: Node) -> Worst:
        """The modelled errors of a result of float32 in float32 arithmetic, without corrections."""
        return self._uncorrected.get(node, self._quality[node].single)

    def arithmetic(self, nodes: Sequence[Node]) -> Arithmetic:
        """In which arithmetic a kernel that computes these results is best computed."""
        marked = [node for node in nodes if node in self._forms and has_marks([self._forms[node]])]
        narrow = not any(map(self._is_corrected, marked))
        wide = self.wide(nodes)
        kinds = ("float32", *_ROUGH) if narrow else _ROUGH
        uncorrected = tuple(dtype for dtype in kinds if dtype not in wide) if marked else ()
        is_seen = all(self._single.is_dense(unmarked([self._forms[node]])) for node in nodes if node in self._forms)
        return Arithmetic(wide, uncorrected, bool(wide) and is_seen and not self.wide(nodes, at_defaults=True))

    def wide(self, nodes: Sequence[Node], at_defaults: bool = False) -> tuple[str, ...]:
        """The types of which a kernel that computes these results is better computed in float64.

        Where hyper-parameters are near their defaults, or just where they have them, without corrections.
        """
        known = [node for node in nodes if node in self._quality]
        found = [self._quality[node] for node in known]
        every = [(quality.single.error, quality.wide.error) for quality in found]
        ordinary = [(quality.single.ordinary, quality.wide.ordinary) for quality in found]
        is_corrected = any(node in self._forms and self._is_corrected(node) for node in nodes)
        if at_defaults:
            every = [(self.uncorrected(node).at_defaults, self._quality[node].wide.error) for node in known]
            is_corrected = False
        if any(min(pair) > _LOST for pair in every):
            every = ordinary  # by where something can be saved
        errors = {"float32": every, "bfloat16": every, "float16": ordinary}  # which has no other numbers
        return tuple(dtype for dtype, most in _WIDENED.items() if _gains(errors[dtype], most, is_corrected))

    def _is_corrected(self, node: Node) -> bool:
        """Whether a result is compensated, in float32 too."""
        return has_marks([self._forms[node]]) and node not in self._needs_no_correction


def is_sound(nodes: Sequence[Node], tensors: Sequence[str], hyper: Mapping[str, float | bool]) -> bool:
    """Whether nodes, just as they are, meet the bar where their results are no subnormal numbers."""
    printed = _finished(nodes)
    return all(
        worst.normal <= BAR
        for dtype in ("float32", "float64")
        for worst in Reference(nodes, tensors, hyper, dtype).worst(printed, range(len(nodes)), near=False)
    )


def _by_rules(node: Node) -> Iterator[tuple[Node, str]]:
    """The forms that the rules that are only tried make of a node, each with its rule."""
    for form, rule in tried(node):
        by = f"by {rule.pattern} = {rule.replacement} ({rule.why})"
        form = collected(form)
        yield form, by
        for scaled, more in relative.forms(form):
            yield scaled, f"{by}, {more}"


def _each_once(candidates: Iterable[tuple[Node, str]], known: Node) -> Iterator[tuple[Node, str]]:
    """The forms that neither came before nor are the one that is known."""
    seen = {known}
    for form, how in candidates:
        if form not in seen:
            seen.add(form)
            yield form, how


def _is_near(variable: Node, reach: float) -> Node:
    """The condition that |variable| < reach."""
    graph = variable.graph
    return graph.apply("lt", graph.apply("abs", variable), sympy.Float(reach))


def _functions_of_one(root: Node, names: Sequence[str]) -> Iterator[tuple[Node, Node, Node]]:
    """The root as a product of what is free of one of some inputs and a function of a variable; and that variable."""
    for name in names:
        fixed, varying = series.varying(root, [name])
        for variable in itertools.islice(series.variables(varying, [name]), _MOST_VARIABLES):
            yield fixed, varying, variable


def _with_roots_of_squares(node: Node, v: Node) -> Node:
    """The node with v*sqrt(u) for sqrt(v**2*u), where v is not negative."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        is_root = changed.op == "pow" and changed.args[1].is_number(HALF)
        number, found = factors(changed.args[0]) if is_root else (1, [])
        power = sum(exponent for base, exponent in found if base is v)
        if power and power % 2 == 0:
            others = [base**exponent for base, exponent in found if base is not v]
            changed = v ** (power // 2) * reduce(node.graph.mul, others, node.graph.const(number)) ** HALF
        new[below] = changed
    return new[node]


def _finished(forms: Sequence[Node]) -> list[Node]:
    """The forms as they are printed."""
    return compensated(limits(forms))


def _undefined(node: Node) -> set[Node]:
    """The conditions without which a node is undefined: where it is something there is no kink."""
    selections = [below for below in topological([node]) if below.op == "where"]
    return {below.args[0] for below in selections if below.args[2].number is sympy.nan}


def _distributed(node: Node) -> Node | None:
    """(u + v)/2 as u/2 + v/2: the sum might overflow."""
    number, rest = coefficient(node)
    return _times_each(number, rest) if rest is not None and rest.op in ("add", "where") and abs(number) < 1 else None


def _times_each(number: Expr, node: Node) -> Node:
    """A number times each term of each branch."""
    if node.op == "where":
        condition, p, q = node.args
        return node.graph.where(condition, _times_each(number, p), _times_each(number, q))
    if node.op == "add":
        return node.graph.add(_times_each(number, node.args[0]), _times_each(number, node.args[1]))
    return node.graph.mul(node.graph.const(number), node)


def _by_flag(node: Node) -> Node | None:
    """A node that asks for a flag, for either value of it in turn."""
    graph = node.graph
    flag = next((below for below in topological([node]) if below.op == "flag"), None)
    if flag is None:
        return None
    holds = [substitute([node], {flag: value})[0] for value in (graph.true(), graph.apply("not", graph.true()))]
    return graph.where(flag, *rewrite(holds))


def _by_sign(node: Node) -> Node | None:
    """A node that has the absolute value of one other node in it, without."""
    sizes = [below for below in topological([node]) if below.op in ("abs", "modulus")]
    if len({size.args[0] for size in sizes}) != 1:
        return None
    (inner, *_) = sizes[0].args
    signs = {
        below: below.graph.const(1) for below in topological([node]) if below.op == "sign" and below.args[0] is inner
    }
    above = substitute([node], dict.fromkeys(sizes, inner) | signs)
    below = substitute([node], dict.fromkeys(sizes, -inner) | {sign: -one for sign, one in signs.items()})
    p, q = rewrite([*above, *below])
    return node.graph.where(node.graph.apply("ge", inner, 0), p, q)


def _is_lost(value: float, other: float) -> bool:
    """Whether a value is NaN, infinite or 0 where another way to compute it gives an ordinary number."""
    if math.isnan(value):
        return not math.isnan(other)
    if math.isinf(value):
        return math.isfinite(other)
    return value == 0 and _TINY < abs(other) < math.inf


def _gains(errors: Sequence[tuple[float, float]], most: float, is_corrected: bool) -> bool:
    """Whether errors, each in float32 arithmetic and in float64, are so large in the one that the other is worth it.

    Where something is compensated in float32 it always is: two roundings are cheaper than all corrections.
    """
    narrow, widened = map(max, zip(*errors, strict=True)) if errors else (0.0, 0.0)
    if is_corrected:
        narrow = max(narrow, math.nextafter(TARGET, math.inf))
    return narrow > most and widened < narrow


_Comparison = Callable[[Quality, float, Quality, float], bool]


def _is_more_accurate(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is better, or float64 gains by it and float32 does not suffer."""
    if _is_better(new, new_cost, old, old_cost):
        return True
    gains = new.double.ordinary < _WORTH * old.double.ordinary and new.double.normal <= max(old.double.normal, TARGET)
    gains = gains and (new.double.normal <= BAR or new.double.often <= old.double.often)
    return gains and _steps(min(new.single, new.wide)) <= _steps(min(old.single, old.wide))


def _meets_bar(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is better, or it alone meets the bar in float64 and float32 does not suffer."""
    if _is_better(new, new_cost, old, old_cost):
        return True
    meets = new.double.error <= BAR < old.double.error
    return meets and _steps(min(new.single, new.wide)) <= _steps(min(old.single, old.wide))


def _is_better(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    new_rank, old_rank = _rank(new), _rank(old)
    factors = [_WIDE_COST if quality.single.error > TARGET else 1.0 for quality in (new, old)]
    if new_rank != old_rank:
        return new_rank < old_rank
    return new_cost * factors[0] < _CHEAPER * old_cost * factors[1]


def _rank(quality: Quality) -> tuple[int, int]:
    """How far the errors are above the target, by powers of two."""
    return _steps(quality.double), _steps(min(quality.single, quality.wide))


def _rank_of_side(quality: Quality, side: int) -> tuple[int, int]:
    """The same on one side of 0 alone."""
    narrow = min(quality.single.sides[side], quality.wide.sides[side])
    return _powers(min(quality.double.sides[side], _HUGE)), _powers(min(narrow, _HUGE))


def _steps(worst: Worst) -> int:
    """The powers of the square root of 2, everywhere and for what is ordinary; very large errors count by how often."""
    if worst.error <= TARGET:
        return 0
    ordinary = _powers(min(worst.ordinary, _LOST))
    if worst.error <= _LOST:
        normal = _powers(worst.normal)
        return min(_powers(worst.error), normal + _SUBNORMAL) + ordinary
    return _powers(_LOST) + math.ceil(20 * worst.often) + math.isinf(worst.error) + ordinary


def _powers(error: float) -> int:
    return 1 + round(2 * math.log2(error / TARGET)) if error > TARGET else 0


def cost(node: Node) -> float:
    """About how long a node takes to compute, in additions."""
    return sum(map(_cost, topological(compensated([node]))))


_POWER_COST = {sympy.Integer(k): c for k, c in {-2: 8.0, -1: 4.0, 2: 1.0, 3: 2.0, 4: 2.0}.items()}


def _cost(node: Node) -> float:
    if not node.args or node.op in CONDITIONS:
        return 0.0
    if node.op == "pow":
        exponent = node.args[1].number
        return _POWER_COST.get(exponent, 12.0)
    return 1.0 if node.op in _CHEAP or node.op.endswith("_error") else 12.0


_CHEAP = frozenset({"add", "mul", "where", "abs", "maximum", "minimum", "unit", "damp", "rest", "corrected"})
