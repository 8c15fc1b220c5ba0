"""Forms for types of few digits, where what float64 is computed by takes longer than they need.

What has too few digits in float64 may do for 16 bits in float32, and what overflows or rounds off there may do for
float32 where that is computed in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sympy import Expr

from gradgen import halves
from gradgen.arithmetic import BRIEF, ROUGH, Arithmetic
from gradgen.compensate import has_marks, unmarked
from gradgen.corrections import Corrections
from gradgen.divisors import by_inverses
from gradgen.forms import Forms
from gradgen.graph import Node, topological
from gradgen.primitives import PRODUCTS
from gradgen.printed import printed_alone
from gradgen.quality import TARGET, WIDE_COST, Quality, instructions
from gradgen.standing import reads_more
from gradgen.worst import Worst

# Types have forms of their own where these cost no more than a share of the others; those of 16 bits also where they
# cost no more than so many times as much, if the others are computed in float64.
_CHEAPER, _COSTLIER = 0.8, 1.5
_CHEAPER_IN_DOUBLE = 0.9

_ENOUGH = 1.0  # units of float32 that a form may be off by in float64, half of which is rounding,
_SAME = 0.25  # and those that it may differ from another one by there
_AMPLIFIED = 2.0**18  # what it may make of errors of functions and roundings, so that few tuples are off by 2**29
_TRIED = 3  # forms of a result that are looked at closely


@dataclass(frozen=True)
class Own:
    """What some types have for forms of their own.

    Attributes:
        types: which types.
        forms: for each result its form.
        is_wide: whether they are computed in float64.
        is_brief: whether functions need no more than 35 bits there.
        error: the worst modelled error of float32, if it is one of the types.
    """

    types: tuple[str, ...]
    forms: Mapping[Node, Node]
    is_wide: bool = False
    is_brief: bool = False
    error: Worst | None = None


class FewDigits:
    """Looks for forms that do for few digits among those that were looked at.

    Args:
        forms: the forms of the results.
        corrections: what is compensated of them.
    """

    def __init__(self, forms: Forms, corrections: Corrections) -> None:
        self._forms, self._corrections = forms, corrections
        self._standing = forms.standing
        self._of_halves: dict[Node, Node | None] = {}
        self._of_double: dict[tuple[Node, bool], tuple[Node, Worst]] = {}

    def of(self, known: Sequence[Node], arithmetic: Arithmetic) -> tuple[Own, ...]:
        """The forms that some types are best computed in by a kernel of these results; of second derivatives none."""
        if not known or not all(map(self._standing.is_reported, known)):
            return ()
        found = [self._for_halves(known, arithmetic)]
        taken = found[0].types if found[0] else ()
        found.append(self._in_double(known, arithmetic, taken))
        return tuple(filter(None, found))

    def _plain(self, node: Node) -> Node:
        """The form of a result without corrections."""
        (form,) = unmarked([self._standing.forms[node]])
        return form

    def _for_halves(self, known: Sequence[Node], arithmetic: Arithmetic) -> Own | None:
        """For types of 16 bits the cheapest forms that float32 arithmetic does for."""
        forms = {node: form for node in known if (form := self._cheapest_of_halves(node)) is not None}
        before, after = instructions(map(self._plain, known)), instructions(forms.values())
        most = _CHEAPER if {*ROUGH}.isdisjoint(arithmetic.wide) else _COSTLIER
        return Own(ROUGH, forms) if len(forms) == len(known) and after <= most * before else None

    def _in_double(self, known: Sequence[Node], arithmetic: Arithmetic, taken: Sequence[str]) -> Own | None:
        """For types that are computed in float64 the cheapest forms that this does for, whose range is larger."""
        is_marked = has_marks([self._standing.forms[node] for node in known])
        corrected = {*arithmetic.wide} - {*arithmetic.uncorrected} if is_marked else set[str]()
        others = [dtype for dtype in arithmetic.wide if dtype not in taken]
        if "float32" not in others or corrected or arithmetic.is_narrow_at_defaults:
            return None
        is_brief = "float32" in arithmetic.brief
        found = {node: self._cheapest_in_double(node, is_brief) for node in known}
        forms = {node: form for node, (form, _) in found.items()}
        cost, before = WIDE_COST * instructions(by_inverses([*forms.values()])), instructions(map(self._plain, known))
        moderate = dict(arithmetic.moderate)  # whose elements are mostly computed in float32
        costs = {dtype: before if dtype in moderate else WIDE_COST * before for dtype in others}
        types = tuple(dtype for dtype in others if cost <= _CHEAPER_IN_DOUBLE * costs[dtype])
        return Own(types, forms, True, is_brief, max(worst for _, worst in found.values())) if types else None

    def _cheapest_of_halves(self, node: Node) -> Node | None:
        """The cheapest form of a result that does for types of 16 bits in float32 arithmetic; None if none is known."""
        if node not in self._of_halves:
            plain = self._plain(node)
            uncorrected = self._corrections.uncorrected(node)
            is_enough = uncorrected.single.error <= halves.MOST and self.does(plain, plain)
            most = instructions([plain]) if is_enough else math.inf
            found = (
                form
                for form, quality in self._cheaper(node, most, lambda quality: quality.single.error <= halves.MOST)
                if quality.single.error <= halves.MOST and self.does(form, plain)
            )
            self._of_halves[node] = next(found, plain if is_enough else None)
        return self._of_halves[node]

    def _cheapest_in_double(self, node: Node, is_brief: bool) -> tuple[Node, Worst]:
        """The cheapest form of a result that float64 arithmetic does for in float32, if need be by brief functions."""
        if (node, is_brief) not in self._of_double:
            plain = self._plain(node)
            some = self._cheaper(node, instructions([plain]), _is_enough_in_double)
            quick = (pair for pair in some if not _is_called(pair[0]) or _is_called(plain))
            found = (
                (form, quality.wide)
                for form, quality in itertools.islice(quick, _TRIED)
                if _is_enough_in_double(quality)
                and self._is_everywhere(form, plain, _SAME, "wide")
                and not self._amplifies(node, form, BRIEF if is_brief else _AMPLIFIED)
            )
            self._of_double[node, is_brief] = next(found, (plain, self._standing.quality[node].wide))
        return self._of_double[node, is_brief]

    def _cheaper(self, node: Node, most: float, is_enough: Callable[[Quality], bool]) -> Iterator[tuple[Node, Quality]]:
        """The forms of fewer instructions than so many, the cheapest first, with their limits, and errors then."""
        standing = self._standing
        costs = {
            form: instructions([form])
            for quality, form, _ in self._forms.looked_at(node)
            if is_enough(quality) and not reads_more(form, node)
        }
        cheaper = (form for form in sorted(costs, key=costs.__getitem__) if costs[form] < most)
        kept = (form for given in cheaper if (form := standing.kept(node, given)) is not None)
        for form in (self._forms.settled(node, form) for form in kept):
            yield form, standing.measured(node, form, near=True)

    def _amplifies(self, node: Node, form: Node, most: float) -> bool:
        """Whether a form makes more than so many times as much of what its functions and roundings are off by."""
        amplified = self._standing.references.amplified(form, self._standing.column(node))
        return amplified > most or not self._is_everywhere(form, self._plain(node), most, "short")

    def _is_everywhere(self, form: Node, other: Node, most: float, arithmetic: str) -> bool:
        """Whether a form is in some arithmetic what another one is, at all inputs that are looked at for it."""
        does = partial(self.does, form, other, most, arithmetic)
        has_edges = len(self._standing.tensors) > 1  # of one input these are among all that is looked at
        return does() and (not has_edges or does(which="edges")) and does(which="ordinary")

    def does(
        self,
        form: Node,
        other: Node,
        most: float = halves.MOST,
        arithmetic: str = "float32",
        which: halves.Which = "all",
        within: float = math.inf,
    ) -> bool:
        """Whether a form does in some arithmetic where another one is exact, as `halves.does` has it."""
        tensors, hyper = self._standing.tensors, self._standing.hyper
        one, two = map(printed_alone, (form, other))
        if arithmetic != "float32":  # as it is printed then
            (one,) = by_inverses([one])
        return halves.does(one, two, tensors, hyper, most, within, which, arithmetic)


def _is_enough_in_double(quality: Quality) -> bool:
    """Whether float32 is right in float64, which is not looked at where it is in float32."""
    return quality.wide.error <= _ENOUGH or quality.single.error <= TARGET


def _is_called(form: Node) -> bool:
    """Whether loops over a form have no vectors: it has powers by calls, or products with functions of each other."""
    order = topological([printed_alone(form)])
    if any(node.op == "pow" and not _is_written_out(node.args[1].number) for node in order):
        return True
    products = [node for node in order if node.op in PRODUCTS]
    return any(below.op in PRODUCTS for product in products for below in topological(product.args))


def _is_written_out(exponent: Expr | None) -> bool:
    return exponent is not None and bool((2 * exponent).is_Integer)
