"""What is exact at many float64 numbers, by MPFR: mpmath would take twenty times as long.

Dozens of points do not show the worst of float64, which has no exhaustive run.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import mpmath
from mpmath import mpf

from gradgen import model, mpfr, points
from gradgen.differentiate import gradient
from gradgen.graph import Graph, Node, topological
from gradgen.load import Formula
from gradgen.mpfr_functions import FUNCTIONS
from gradgen.references import centres_of
from gradgen.share import share
from gradgen.ulp import LARGEST
from gradgen.verify.quantity import Exact, Point, Quantity

_BITS = 4000  # of what is exact: more than formulas of one input lose,
_BITS_OF_SEVERAL = 2500  # and of several, which do not meet: 1 beside the smallest number, or its square
_FEW_BITS = 400  # where a function is mpmath's, of which there are fewer numbers too
_FEWER = 8
_FARTHEST = 14  # the power of two up to which edges are looked for
# At most, by formulas with a removable singularity, for each power of two that an input is closer to it
_BITS_LOST = 40
_NEAR = 2  # of three tuples so many are of inputs near 1
_STEP = mpf(2) ** -60  # by which an input is moved for the scale

Interval = tuple[float, float]


def applies(formula: Formula) -> bool:
    """Whether an op is of the kind that `samples` knows: without derivatives of the user's own."""
    return not formula.derivatives


def samples(
    formula: Formula,
    hyper: Mapping[str, float | bool],
    count: int,
    intervals: Mapping[str, Interval] = MappingProxyType({}),
    has_edges: bool = False,
) -> list[tuple[Point, dict[Quantity, Exact]]]:
    """Values and gradients, where these are numbers, at random inputs of ordinary size in open intervals.

    With `has_edges`, of one input also at those up to 2**14 beside which a part of the formula overflows or vanishes,
    or it and a constant cancel.
    """
    graph = Graph(p.name for p in formula.scalars)
    names = [p.name for p in formula.tensors]
    values = [*map(share(formula, graph), formula.outputs)]
    quantities = [Quantity(k, ()) for k in range(len(values))]
    roots, differentiable = [*values], [p.name for p in formula.tensors if p.grad]
    for k, value in enumerate(values):
        roots += gradient(value, [*map(graph.input, differentiable)])
        quantities += [Quantity(k, (name,)) for name in differentiable]
    order = topological(roots)
    exact = mpfr.Program(order, roots)
    is_quick = all(node.op in FUNCTIONS for node in order if node.args)
    bits = (_BITS if len(names) == 1 else _BITS_OF_SEVERAL) if is_quick else _FEW_BITS
    randoms, count = random.Random(formula.name), count if is_quick else count // _FEWER
    near = 0 if len(names) == 1 else _NEAR  # where summands are alike, their roundings add up
    columns = [_ordinary(randoms, *intervals.get(name, (-math.inf, math.inf)), count, near) for name in names]
    rows: Iterable[tuple[float, ...]] = zip(*columns, strict=True)
    if has_edges and len(names) == 1:
        nearest = 2.0 ** (-bits / _BITS_LOST)
        low, high = intervals.get(names[0], (-math.inf, math.inf))
        beside = [*points.beside(centres_of(roots), "float64"), *_edges(order, names[0], hyper)]
        rows = itertools.chain(rows, ((x,) for x in beside if abs(x) > nearest and low < x < high))
    found = []
    with mpmath.workprec(bits):
        scalars = {name: number if isinstance(number, bool) else mpf(number) for name, number in hyper.items()}
        for row in rows:
            here = dict(zip(names, map(mpf, row), strict=True)) | scalars
            right = exact(here)
            moved = [exact({**here, name: here[name] * (1 + _STEP)}) for name in names]
            at = {}
            for k, quantity in enumerate(quantities):
                if mpmath.isfinite(right[k]) and abs(right[k]) <= LARGEST["float64"]:
                    scale = max(abs(beside[k] - right[k]) for beside in moved) / _STEP
                    at[quantity] = Exact(right[k], lambda scale=scale: scale)  # type: ignore[misc]
            found.append((dict(zip(names, row, strict=True)), at))
    return found


def _edges(order: Sequence[Node], x: str, hyper: Mapping[str, float | bool]) -> Iterator[float]:
    compute = model.Program([*order], model.FORMATS["float64"])
    return points.edges(points.sizes(compute, x, hyper), "float64", _FARTHEST)


def _ordinary(randoms: random.Random, low: float, high: float, count: int, near: int) -> Iterator[float]:
    """Numbers inside an interval, from 2**-8 to 2**5 in size, or half of them evenly spread where it is finite.

    After each of these, where the interval has some, `near` ones from 1/2 to 2 in size.
    """
    for k in range(count):
        reach = (-1, 1) if near and k % (near + 1) and low < 1 < high else (-8, 5)
        x = math.nan
        while not low < x < high:
            x = randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(*reach)
            if math.isfinite(high - low) and randoms.random() < 0.5:
                x = randoms.uniform(low, high)
        yield x
