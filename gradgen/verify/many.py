"""What is exact at many float64 numbers, by MPFR: mpmath would take twenty times as long.

Dozens of points do not show the worst of float64, which has no exhaustive run.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence

import mpmath
from mpmath import mpf

from gradgen import model, mpfr, points
from gradgen.differentiate import gradient
from gradgen.graph import Graph, Node, topological
from gradgen.load import Formula
from gradgen.share import share
from gradgen.ulp import LARGEST
from gradgen.verify.quantity import Exact, Point, Quantity

_BITS = 4000  # of what is exact: more than formulas lose
_FEW_BITS = 400  # where a function is mpmath's, of which there are fewer numbers too
_FEWER = 8
_FARTHEST = 14  # the power of two up to which edges are looked for
# At most, by formulas with a removable singularity, for each power of two that an input is closer to it
_BITS_LOST = 40
_STEP = mpf(2) ** -60  # by which an input is moved for the scale


def applies(formula: Formula) -> bool:
    """Whether an op is of the kind that `samples` knows: one input, one output, no derivatives of the user's own."""
    return len(formula.tensors) == len(formula.outputs) == 1 and not formula.derivatives


def samples(
    formula: Formula,
    hyper: Mapping[str, float | bool],
    count: int,
    interval: tuple[float, float] = (-math.inf, math.inf),
    has_edges: bool = False,
) -> list[tuple[Point, dict[Quantity, Exact]]]:
    """Value and gradient, where these are normal numbers, at random numbers of ordinary size in an open interval.

    With `has_edges` also at numbers up to 2**14 beside those at which a part of the formula overflows or vanishes.
    """
    graph = Graph(p.name for p in formula.scalars)
    (x,) = (p.name for p in formula.tensors)
    value = share(formula, graph)(formula.outputs[0])
    roots = [value, *gradient(value, [graph.input(x)])]
    order = topological(roots)
    exact = mpfr.Program(order, roots)
    is_quick = all(node.op in mpfr.FUNCTIONS for node in order if node.args)
    bits = _BITS if is_quick else _FEW_BITS
    numbers = _ordinary(random.Random(formula.name), *interval, count if is_quick else count // _FEWER)
    if has_edges:
        nearest = 2.0 ** (-bits / _BITS_LOST)
        numbers = itertools.chain(numbers, (edge for edge in _edges(order, x, hyper) if abs(edge) > nearest))
    found = []
    with mpmath.workprec(bits):
        scalars = {name: number if isinstance(number, bool) else mpf(number) for name, number in hyper.items()}
        for number in numbers:
            here, moved = (exact({x: mpf(number) * (1 + shift), **scalars}) for shift in (0, _STEP))
            quantities = {}
            for wrt, right, beside in zip(((), (x,)), here, moved, strict=True):
                if mpmath.isfinite(right) and sys.float_info.min <= abs(right) <= LARGEST["float64"]:
                    scale = abs(beside - right) / _STEP
                    quantities[Quantity(0, wrt)] = Exact(right, lambda scale=scale: scale)  # type: ignore[misc]
            found.append(({x: number}, quantities))
    return found


def _edges(order: Sequence[Node], x: str, hyper: Mapping[str, float | bool]) -> Iterator[float]:
    compute = model.Program([*order], model.FORMATS["float64"])
    return points.edges(points.sizes(compute, x, hyper), "float64", _FARTHEST)


def _ordinary(randoms: random.Random, low: float, high: float, count: int) -> Iterator[float]:
    """Numbers inside an interval, from 2**-8 to 2**5 in size, or half of them evenly spread where it is finite."""
    while count:
        x = randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(-8, 5)
        if math.isfinite(high - low) and randoms.random() < 0.5:
            x = randoms.uniform(low, high)
        if low < x < high:
            count -= 1
            yield x
