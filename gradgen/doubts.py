"""What of an operation a user may not have meant, or should not trust: told when it is built."""

from __future__ import annotations

import math
from collections.abc import Iterator

import sympy
from sympy import Piecewise

from gradgen.literal import nodes_of, symbols_in
from gradgen.load import Formula
from gradgen.plan import Operation
from gradgen.quality import BAR

_DOUBTFUL = 1.25 * BAR  # the model is not exact
_MORE = "`gradgen explain` tells more"


def doubts(operation: Operation) -> Iterator[str]:
    """A sentence each, with the operation's name."""
    for doubt in (*_unused(operation.formula), *_gaps(operation.formula), *_unseen(operation), *_unsound(operation)):
        yield f"{operation.formula.name}: {doubt}"


def _unused(formula: Formula) -> Iterator[str]:
    """The parameters that neither the formula nor a derivative reads."""
    expressions = [*formula.outputs, *(part for parts in formula.derivatives.values() for part in parts)]
    used = {symbol.name for expression in expressions for symbol in symbols_in(expression)}
    for parameter in formula.parameters:
        if parameter.name not in used:
            yield f"{parameter.name} is in no formula; nothing depends on it"


def _gaps(formula: Formula) -> Iterator[str]:
    """The conditions of one symbol that no branch is for where none of them holds."""
    for expression in formula.outputs:
        for piecewise in nodes_of(expression):
            if isinstance(piecewise, Piecewise) and _has_gap(piecewise):
                yield f"NaN where no condition of {piecewise} holds; end it with (…, True)"


def _has_gap(piecewise: Piecewise) -> bool:
    conditions = sympy.Or(*(condition for _, condition in piecewise.args))
    if len(conditions.free_symbols) != 1:  # True, or too hard to tell
        return False
    try:
        return bool(conditions.as_set() != sympy.S.Reals)
    except (NotImplementedError, TypeError, ValueError):
        return False


def _unseen(operation: Operation) -> Iterator[str]:
    """The outputs of which nothing is known."""
    for result in operation.accuracy[: len(operation.outputs)]:
        if not result.double.is_known:
            yield f"{result.name} is a number at none of the inputs that were looked at; its errors are not known"


def _unsound(operation: Operation) -> Iterator[str]:
    """The results whose modelled errors are clearly above the bar; if only subnormal ones are, it is said."""
    for result in operation.accuracy:
        for dtype, worst in (("float32", result.single), ("float64", result.double)):
            if worst.error > _DOUBTFUL:
                lost = math.isinf(worst.error)
                found = "no number" if lost else f"off by {worst.error:.3g} units in the last place"
                where = "" if worst.normal > _DOUBTFUL else ", where it is below the smallest normal number"
                yield f"{result.name} may be {found} in {dtype}{where}, as at {worst.place}; {_MORE}"
