"""A float64 operation of one input at many numbers, against MPFR; mpmath would take twenty times as long."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping

import mpmath
import torch
from exceptions import Worst
from mpmath import mpf
from torch import Tensor

from gradgen import mpfr
from gradgen.differentiate import gradient
from gradgen.graph import Graph, topological
from gradgen.load import Formula
from gradgen.share import share
from gradgen.ulp import LARGEST, mixed_error
from gradgen.verify.quantity import KINDS, Quantity

_BITS = 4000  # of what is exact: more than any of the formulas loses
_FEW_BITS = 400  # where a function is mpmath's, of which there are fewer numbers too
_FEWER = 8
_STEP = mpf(2) ** -60  # by which an input is moved for the scale


def worst_of_many(
    formula: Formula,
    hyper: Mapping[str, float],
    interval: tuple[float, float],
    count: int,
    compute: Callable[[Tensor], Mapping[Quantity, Tensor]],
) -> dict[str, Worst]:
    """The worst errors of value and gradient, where these are normal numbers."""
    graph = Graph(p.name for p in formula.scalars)
    (x,) = (p.name for p in formula.tensors)
    value = share(formula, graph)(formula.outputs[0])
    roots = [value, *gradient(value, [graph.input(x)])]
    order = topological(roots)
    exact = mpfr.Program(order, roots)
    is_quick = all(node.op in mpfr.FUNCTIONS for node in order if node.args)
    inputs = [*_ordinary(random.Random(formula.name), *interval, count if is_quick else count // _FEWER)]
    computed = {q.kind: result.tolist() for q, result in compute(torch.tensor(inputs, dtype=torch.float64)).items()}
    found = dict.fromkeys(KINDS, (0.0, ""))
    with mpmath.workprec(_BITS if is_quick else _FEW_BITS):
        scalars = {name: number if isinstance(number, bool) else mpf(number) for name, number in hyper.items()}
        for k, number in enumerate(inputs):
            here, moved = (exact({x: mpf(number) * (1 + shift), **scalars}) for shift in (0, _STEP))
            for kind, right, beside in zip(KINDS, here, moved, strict=False):
                if mpmath.isfinite(right) and sys.float_info.min <= abs(right) <= LARGEST["float64"]:
                    off = mixed_error(computed[kind][k], right, abs(beside - right) / _STEP, "float64")
                    place = f"{kind} at {number!r}: {computed[kind][k]!r}, exactly {mpmath.nstr(right, 20)}"
                    found[kind] = max(found[kind], (off, place))
    return found


def _ordinary(randoms: random.Random, low: float, high: float, count: int) -> Iterator[float]:
    """Numbers inside an interval, from 2**-8 to 2**5 in size, or half of them evenly spread where it is finite."""
    while count:
        x = randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(-8, 5)
        if math.isfinite(high - low) and randoms.random() < 0.5:
            x = randoms.uniform(low, high)
        if low < x < high:
            count -= 1
            yield x
