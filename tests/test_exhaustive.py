"""Gallery ops at every exponent and many mantissas, and at the ends of each type: value to second derivative.

Kernels for narrow types are held against those for float64, which `test_accuracy` holds against mpmath; at the ends,
where the latter may fail as well, all are held against mpmath. What misses the bar is in a table of docs/accuracy.md,
and so is what was recorded of all inputs there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from devices import gpu
from exceptions import ALL_WITHIN, conditions, exceptions, judge, recorded
from gallery import EACH_FUNCTION, OPS, Op, first, runtime
from subjects import subject

from gradgen.verify import exhaustive, points, record
from gradgen.verify.measure import DTYPES, Measured, compared, computed, dtype_name
from gradgen.verify.quantity import Point
from gradgen.verify.reference import BITS, BITS_OF_FLOAT64, Reference
from gradgen.verify.space import Space

EXCEPTIONS = exceptions("gallery")
RECORD = recorded()
ROUNDED = 0.006  # by how much a number of the record may be
ON_CPU = ("cpu", "torch")

# A kink that is met by rounding alone, in any type that holds these numbers.
NEAR_KINKS: dict[str, list[Point]] = {"huber": [{"prediction": 1.0, "target": -1e-20}]}


def everywhere(op: Op, dtype: torch.dtype, stride: int, device: str = "cpu") -> list[Measured]:
    """The errors at every input, or at tuples spread evenly, of them each `stride`-th; for float64 there is nothing."""
    if dtype not in exhaustive.DTYPES:
        return []
    return exhaustive.run(subject(op), Space(op.tensors, dtype, stride, device), lambda: None, {})


def at_ends(op: Op, dtype: torch.dtype, dense: bool, paths: Sequence[str] = ON_CPU) -> list[Measured]:
    """The errors, on all paths, where inputs are 0, 1, or the least and largest of their type, and at a few others."""
    most, at_random = (1400, 50) if len(op.tensors) <= 3 else (120, 30)
    if not dense:
        most, at_random = 20, 5
    elif dtype != torch.float64:  # of these `everywhere` looks at many
        most, at_random = most // 4, at_random // 2
    where = points.grid(op.tensors, points.special(dtype), most, op.name) + NEAR_KINKS.get(op.name, [])
    where += points.every_magnitude(op.tensors, dtype, at_random, op.name)
    return at(op, dtype, where, paths)


def at(op: Op, dtype: torch.dtype, where: list[Point], paths: Sequence[str] = ON_CPU) -> list[Measured]:
    """The errors at the points, on all paths."""
    reference = Reference(subject(op).formula, subject(op).hyper, BITS_OF_FLOAT64 if dtype == torch.float64 else BITS)
    samples = [(point, reference(point, subject(op).quantities)) for point in where]
    results = {path: computed(subject(op), path, dtype, where)[0] for path in paths}
    return compared(subject(op), dtype_name(dtype), samples, results)


def check(op: Op, dtype: torch.dtype, rows: list[Measured], dense: bool) -> None:
    bounds = EXCEPTIONS.get((op.name, dtype_name(dtype)), ALL_WITHIN)
    kinds = dict.fromkeys(row.kind for row in rows)
    judge({kind: max((row.worst, row.at) for row in rows if row.kind == kind) for kind in kinds}, bounds, needed=dense)
    for kind in kinds:
        by_path = {row.path: row for row in rows if row.kind == kind}
        everywhere = exhaustive.PATHS.values()
        ends = max((row.bad for path, row in by_path.items() if path not in everywhere), default=0)
        bad = ends + sum(row.bad for path, row in by_path.items() if path in everywhere)
        if dense:  # with another compiler a few results near the end of a type may be on the other side of it
            near = pytest.approx(bounds[kind].bad, rel=0.01, abs=1 if bounds[kind].bad > 10 else 0)
            assert bad == near, next(iter(by_path.values())).bad_at
        else:
            assert bad <= bounds[kind].bad, [row.bad_at for row in by_path.values()]


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_sparsely(op: Op, dtype: torch.dtype) -> None:
    rows = everywhere(op, dtype, stride=2003 if len(op.tensors) == 1 else 101)
    check(op, dtype, rows + at_ends(op, dtype, dense=False), dense=False)


@pytest.mark.slow
@pytest.mark.parametrize(  # bfloat16 is computed as float16 is
    "dtype",
    [pytest.param(d, marks=[pytest.mark.thorough] * (d is torch.float16)) for d in DTYPES],
    ids=dtype_name,
)
@pytest.mark.parametrize("op", first(EACH_FUNCTION), ids=str)
def test_densely(op: Op, dtype: torch.dtype) -> None:
    # Of tuples a part, for they take longest; more where an exception is to be found.
    unary = 127 if (op.name, dtype_name(dtype)) in EXCEPTIONS else 521
    rows = everywhere(op, dtype, stride={1: unary, 2: 7}.get(len(op.tensors), 24))
    check(op, dtype, rows + at_ends(op, dtype, dense=True), dense=True)
    for row in rows:  # a part of those that the record is of
        figure = RECORD[op.name, row.dtype][row.kind]
        assert row.worst <= figure.worst * (1 + ROUNDED) + ROUNDED, row.at
        assert row.bad <= figure.bad, row.bad_at


@gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_cuda_densely(op: Op, dtype: torch.dtype) -> None:
    with runtime().record_paths() as taken:
        rows = everywhere(op, dtype, stride=7 if len(op.tensors) == 1 else 1, device="cuda")
        rows += at_ends(op, dtype, dense=False, paths=["cuda"])
    assert {path for _, path in taken} == {"cuda"}
    check(op, dtype, rows, dense=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_the_record_is_that_of_the_kernels(op: Op, dtype: torch.dtype) -> None:
    """Where the largest error was found, it still is."""
    if record.conditions(runtime()) not in conditions():
        pytest.skip("recorded with another processor, library or compiler")
    for kind, figure in RECORD[op.name, dtype_name(dtype)].items():
        if figure.point:
            point = {name: torch.tensor(x, dtype=dtype).item() for name, x in figure.point.items()}  # was written short
            found = max(row.worst for row in at(op, dtype, [point]) if row.kind == kind)
            assert found == pytest.approx(figure.worst, rel=ROUNDED, abs=ROUNDED), (kind, figure.point)


def test_the_exceptions_are_of_ops_that_there_are() -> None:
    assert {(op.name, dtype_name(dtype)) for op in OPS for dtype in DTYPES} >= EXCEPTIONS.keys()
