"""The values of nodes in mpmath's working precision."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import mpmath
import sympy
from mpmath import mpf
from mpmath.libmp import NoConvergence
from sympy import Expr

from gradgen.graph import Node
from gradgen.primitives import PRIMITIVES

# What mpmath sums up, and MPFR too, which begins anew each time.
SUMMED = frozenset({"gamma", "loggamma", "digamma", "polygamma", "bessel_j", "bessel_y"})

_MOST_KEPT = 1 << 14

_PLAIN = {"add": operator.add, "mul": operator.mul, "xmul": operator.mul}  # always real, and most of what there is


def values(order: Iterable[Node], point: Mapping[str, Any], known: Mapping[Node, Any] | None = None) -> dict[Node, Any]:
    """The values of nodes, as `evaluated` gives them.

    Args:
        order: the nodes, each after its operands.
        point: the values of the inputs, by name.
        known: the values of some of the nodes.
    """
    found = dict(known or {})
    for node in order:
        if node not in found:
            args = [found[arg] for arg in node.args]
            found[node] = _PLAIN[node.op](*args) if node.op in _PLAIN else evaluated(node, args, point)
    return found


def evaluated(node: Node, args: Sequence[object], point: Mapping[str, mpf]) -> Any:
    """A number, or for a condition a bool; NaN where the node is not real.

    Args:
        node: what to evaluate.
        args: the values of its operands.
        point: the values of the inputs, by name.
    """
    if node.op in ("input", "flag"):
        return point[str(node.value)]
    if node.op in ("true", "given"):
        return True
    if node.number is not None:
        return number_of(node.number)
    if node.op == "where":  # the branch that is not taken may be anything
        return args[1] if args[0] else args[2]
    return function(node.op, *args)


def function(op: str, *args: object) -> Any:
    """A primitive of numbers; NaN where it is not real, or mpmath gives up."""
    return _kept(op, mpmath.mp.prec, *args) if op in SUMMED else _computed(op, *args)


@lru_cache(_MOST_KEPT)  # many forms ask for the same
def _kept(op: str, _precision: int, *args: object) -> Any:
    return _computed(op, *args)


def _computed(op: str, *args: object) -> Any:
    try:
        return PRIMITIVES[op].mpmath(*args)
    except (ZeroDivisionError, ValueError, OverflowError, MemoryError, NoConvergence):
        return mpmath.nan


def number_of(number: Expr) -> mpf:
    """A number of a formula; NaN for SymPy's infinity without a sign, which 1/0 is."""
    return mpmath.nan if number is sympy.nan or number is sympy.zoo else _number(number, mpmath.mp.prec)


@cache
def _number(number: Expr, precision: int) -> mpf:
    return mpf(sympy.N(number, mpmath.mp.dps + 5)._to_mpmath(precision))
