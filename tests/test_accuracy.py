"""Value and gradient of every gallery op on every path, against the exact result of the formula as the user wrote it.

The measure is the mixed error in units in the last place, of docs and design: 4 is the bar.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from gallery import OPS, ROOT, Op, runtime

from gradgen.exact import Exact
from gradgen.load import Formula, load
from gradgen.ulp import MANTISSA, SMALLEST_EXPONENT, mixed_error

BAR = 4.0
PATHS = ["cpu", "torch"]

# Formulas looked at for ordinary numbers only: what is exact for the cross-entropy of a huge x takes as many digits as
# x has units.
ORDINARY_ONLY = {"bce_with_logits"}


def formula(op: Op) -> Formula:
    return next(f for f in load(Path(ROOT, "formulas", f"{op.module}.py")) if f.name == op.name)


def extreme(dtype: str, randoms: random.Random, count: int) -> Iterator[float]:
    """Numbers of every magnitude, each exponent alike."""
    for _ in range(count):
        exponent = randoms.randint(SMALLEST_EXPONENT[dtype] - MANTISSA[dtype] + 1, -SMALLEST_EXPONENT[dtype])
        yield randoms.choice([-1, 1]) * math.ldexp(randoms.uniform(1, 2), exponent)


def ordinary(randoms: random.Random, count: int) -> Iterator[float]:
    """Numbers of the size that activations have, and ten and a hundred times that."""
    for _ in range(count):
        yield randoms.gauss(0, 1) * 10 ** randoms.uniform(-1, 2)


def points(op: Op, dtype: str, magnitudes: bool) -> list[tuple[float, ...]]:
    randoms = random.Random(len(op.name))
    count = 50 if len(op.tensors) == 1 else 20
    found = []
    for _ in range(count):
        drawn = [next(ordinary(randoms, 1)) for _ in op.tensors]
        if magnitudes and op.name not in ORDINARY_ONLY and randoms.random() < 0.6:
            drawn = [next(extreme(dtype, randoms, 1)) for _ in op.tensors]
        for k, name in enumerate(op.tensors):
            if name in op.bounds:
                drawn[k] = randoms.uniform(*op.bounds[name])
        found.append(tuple(drawn))
    kind = getattr(torch, dtype)
    rounded = [tuple(torch.tensor(row, dtype=kind).tolist()) for row in found]
    return [row for row in rounded if all(map(math.isfinite, row)) and not at_kink(op, row)]


def at_kink(op: Op, row: tuple[float, ...]) -> bool:
    """Where a formula has a kink the exact derivative, the mean of both sides, is not the convention."""
    return not op.smooth and (0.0 in row or abs(row[0]) == 1.0 or len(set(row)) < len(row))


BY_NAME = {op.name: op for op in OPS}


@functools.cache
def exact_results(name: str, dtype: str, magnitudes: bool, bits: int) -> list[tuple]:
    """For each point the value of each output and the gradient by each input, each with its scale."""
    op = BY_NAME[name]
    exact = Exact(formula(op), bits)
    names = [op.tensors[k] for k in op.differentiable]
    hyper = {name: default for name, (default, _) in op.hyper.items()}
    rows = []
    for row in points(op, dtype, magnitudes):
        point = dict(zip(op.tensors, row, strict=True)) | hyper
        values, gradients = [], []
        for output in range(op.outputs):
            first = {name: exact.derivative(point, [name], output) for name in op.tensors}
            scale = max(abs(point[name] * first[name]) for name in op.tensors)
            values.append((exact.value(point, output), scale))
            for name in names:
                scale = max(abs(point[k] * exact.derivative(point, [name, k], output)) for k in op.tensors)
                gradients.append((first[name], scale))
        rows.append((row, values, gradients))
    return rows


def check(op: Op, dtype: str, path: str, magnitudes: bool, bits: int) -> None:
    results = exact_results(op.name, dtype, magnitudes, bits)
    columns = zip(*(row for row, *_ in results), strict=True)
    tensors = [torch.tensor(column, dtype=getattr(torch, dtype)) for column in columns]
    for k in op.differentiable:
        tensors[k].requires_grad_()
    rt = runtime()
    with rt.force_path("torch") if path == "torch" else nullcontext(), rt.record_paths() as taken:
        outputs = op(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        inputs = [tensors[k] for k in op.differentiable]
        grads = [g for out in outputs for g in torch.autograd.grad(out.sum(), inputs, retain_graph=True)]
    assert {way for _, way in taken} == {path}
    for i, (row, values, gradients) in enumerate(results):
        for computed, (value, scale) in zip(outputs, values, strict=True):
            assert mixed_error(computed[i].item(), value, scale, dtype) <= BAR, f"value at {row}"
        if op.name != "binarize":  # its gradient is not that of its formula
            for computed, (value, scale) in zip(grads, gradients, strict=True):
                assert mixed_error(computed[i].item(), value, scale, dtype) <= BAR, f"gradient at {row}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("op", OPS, ids=str)
def test_every_magnitude(op: Op, dtype: str, path: str) -> None:
    check(op, dtype, path, magnitudes=True, bits=320)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_float64_at_ordinary_numbers(op: Op, path: str) -> None:
    check(op, "float64", path, magnitudes=False, bits=250)
