"""Faults that were reported against other libraries: value, gradient or second derivative at the points of the report.

Every fourth row every day: both types in torch operations, and some of the float32 C kernels, which take a while to
compile. The other rows and C kernels are `slow`.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import mpmath
import pytest
import torch
from building import build_formula, new_package
from faults import KINDS, Fault
from mpmath import mpf

from gradgen.exact import Exact
from gradgen.load import Formula, load
from gradgen.ulp import mixed_error

BAR = 4.0
ROWS = {fault.name: (kind, fault) for kind, faults in KINDS.items() for fault in faults}
PLACES = [("float32", "cpu"), ("float32", "torch"), ("float64", "torch"), ("float64", "cpu")]


def cases() -> Iterator[object]:
    for k, (name, (_, fault)) in enumerate(ROWS.items()):
        for dtype, path in PLACES:
            if dtype in fault.dtypes:
                everyday = k % 4 == 0 and (path == "torch" or (dtype == "float32" and k % 12 == 0))
                # One worker runs all tests of a row: it builds the module, which takes long, and finds the results.
                marks = [pytest.mark.xdist_group(name), *([] if everyday else [pytest.mark.slow])]
                if known := fault.known.get(f"{dtype} {path}", fault.known.get(dtype)):
                    marks.append(pytest.mark.xfail(reason=known, strict=True, raises=AssertionError))
                yield pytest.param(name, dtype, path, id=f"{name}-{dtype}-{path}", marks=marks)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the modules of the rows are built, a package."""
    return new_package(tmp_path_factory.mktemp("built") / "built_faults")


@functools.cache
def formulas() -> dict[str, Formula]:
    lines = ["from sympy import *", "from gradgen import Tensor, op"]
    for name, (_, fault) in ROWS.items():
        lines += ["@op", f"def {name}({', '.join(fault.inputs)}):", f"    return {fault.formula}"]
    with tempfile.TemporaryDirectory() as place:
        spec = Path(place) / "spec.py"
        spec.write_text("\n".join(lines) + "\n")
        return {formula.name: formula for formula in load(spec)}


@functools.cache
def built(name: str, folder: Path) -> ModuleType:
    """The generated module of one row, which takes a second or so to find: only those that are tested are built."""
    return build_formula(formulas()[name], Path("spec.py"), folder)


# Rows whose exact result hangs on what is left of 1 in the far tail.
TAILS = {"log_one_minus_sigmoid", "normal_log_cdf_tail", "log1mexp"}


@functools.cache
def exact(name: str) -> Exact:
    fault = ROWS[name][1]
    return Exact(formulas()[name], 300 if "float32" in fault.dtypes and name not in TAILS else 1500)


def rounded(fault: Fault, dtype: str) -> list[tuple[float, ...]]:
    rows = [point if isinstance(point, tuple) else (point,) for point in fault.points]
    return [tuple(torch.tensor(row, dtype=getattr(torch, dtype)).tolist()) for row in rows]


@functools.cache
def expected(name: str, dtype: str, by: str) -> list[tuple[mpf, mpf]]:
    """The exact result at each point, with what a rounded input alone makes of it."""
    fault = ROWS[name][1]
    if fault.expected is not None:
        return [(mpf(fault.expected), mpf(0)) for _ in fault.points]
    found = []
    for row in rounded(fault, dtype):
        point = dict(zip(fault.inputs, row, strict=True))
        result = exact(name).derivative(point, by) if by else exact(name).value(point)
        assert mpmath.isfinite(result), f"no exact result at {row}: the row must state one"
        scales = [abs(x * exact(name).derivative(point, by + k)) for k, x in point.items() if x != 0]
        found.append((result, max(scales, default=mpf(0))))
    return found


def computed(fault: Fault, module: ModuleType, dtype: str, path: str, by: str) -> list[float]:
    columns = zip(*rounded(fault, dtype), strict=True)
    inputs = {k: torch.tensor(c, dtype=getattr(torch, dtype)) for k, c in zip(fault.inputs, columns, strict=True)}
    for k in by:
        inputs[k].requires_grad_()
    with module.rt.force_path("torch") if path == "torch" else nullcontext(), module.rt.record_paths() as taken:
        result = getattr(module, fault.name)(*inputs.values())
        for order, k in enumerate(by, 1):
            if not result.requires_grad:  # the derivative before was constant
                return [0.0] * len(fault.points)
            grads = torch.autograd.grad(result.sum(), inputs[k], create_graph=order < len(by), materialize_grads=True)
            result = grads[0]
    assert {way for _, way in taken} == {path}
    return result.tolist()


def errors(name: str, dtype: str, path: str, folder: Path) -> list[tuple[float, str]]:
    """The mixed error of all that a row asks for, each with the place it is at."""
    fault, module = ROWS[name][1], built(name, folder)
    found = []
    for by in fault.by:
        results = computed(fault, module, dtype, path, by)
        rights = expected(name, dtype, by)
        for row, result, (right, scale) in zip(rounded(fault, dtype), results, rights, strict=True):
            if mpmath.isinf(right):
                error = 0.0 if result == right else math.inf
            else:
                error = mixed_error(result, right, scale, dtype)
            found.append((error, f"by {by!r} at {row}: {result}, exactly {mpmath.nstr(right, 17)}"))
    return found


@pytest.mark.parametrize(("name", "dtype", "path"), list(cases()))
def test_fault(name: str, dtype: str, path: str, folder: Path, request: pytest.FixtureRequest) -> None:
    if all(len(by) < 2 for by in ROWS[name][1].by):
        request.getfixturevalue("first_order")
    error, place = max(errors(name, dtype, path, folder))
    assert error <= BAR, f"{error:.3g} ULP {place}"


def test_the_data() -> None:
    assert len(ROWS) == sum(map(len, KINDS.values())) >= 50
    for name, (_, fault) in ROWS.items():
        repository, _, number = fault.source.partition("#")
        assert repository.count("/") == 1, name
        assert number.isdigit(), name
        assert all(len(row) == len(fault.inputs) for row in rounded(fault, fault.dtypes[0])), name
        if fault.expected is None:
            assert all(math.isfinite(x) for row in rounded(fault, fault.dtypes[0]) for x in row), name
