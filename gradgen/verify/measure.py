"""Measures an op at given points: what each path computes, against what is exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import mpmath
import torch
from mpmath import mpf
from torch import Tensor

from gradgen.errors import GradgenError
from gradgen.ulp import MANTISSA
from gradgen.verify.quantity import Exact, Point, Quantity, apart, error
from gradgen.verify.reference import Reference
from gradgen.verify.subject import Subject

_SHIFT = 2.0**-20  # by which an input is moved to see what its rounding makes of a limit

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# What is exact at a point, for the quantities that are determined there.
Sample = tuple[Point, dict[Quantity, Exact]]


@dataclass
class Measured:
    """The errors of one kind of quantity, in mixed ULPs.

    Attributes:
        op: the op's name and hyper-parameters.
        dtype: the name of the type of inputs and results.
        kind: one of `KINDS`; gradients by all inputs together are one kind.
        path: by what it was computed.
        worst: the largest error that is a number.
        at: what and where that is.
        bad: how many results are no approximation at all: NaN or an infinity for a number, a number for an infinity.
        bad_at: the first of these.
        count: how many results were looked at.
        numbers: how many of these should be numbers, of those that were held against exact results.
        total: the sum of all errors that are numbers.
        apart: the largest difference from another path; None where there is no other.
    """

    op: str
    dtype: str
    kind: str
    path: str
    worst: float = 0.0
    at: str = ""
    bad: int = 0
    bad_at: str = ""
    count: int = 0
    numbers: int = 0
    total: float = 0.0
    apart: float | None = None

    @property
    def mean(self) -> float:
        """The mean of all errors that are numbers."""
        return self.total / max(self.count - self.bad, 1)

    def add(self, other: Measured) -> None:
        """Take in what was measured elsewhere of the same kind; where both are equally bad, this one's place stays."""
        if other.worst > self.worst:
            self.worst, self.at = other.worst, other.at
        self.bad += other.bad
        self.bad_at = self.bad_at or other.bad_at
        self.count += other.count
        self.numbers += other.numbers
        self.total += other.total

    def passes(self, bar: float) -> bool:
        """Whether everything is within the bar."""
        return self.worst <= bar and not self.bad


def dtype_name(dtype: torch.dtype) -> str:
    """Its name without the module, as `gradgen.exact` has it."""
    return str(dtype).removeprefix("torch.")


def shown(point: Mapping[str, float], dtype: str) -> str:
    """A point, in as many digits as tell numbers of the type apart."""
    return ", ".join(f"{name}={float(x):.{_digits(dtype)}g}" for name, x in point.items())


def _digits(dtype: str) -> int:
    """How many decimal digits tell numbers of a type apart."""
    return math.ceil(MANTISSA[dtype] * math.log10(2)) + 1


def jet(
    call: Callable[..., tuple[Tensor, ...]],
    tensors: Mapping[str, Tensor],
    differentiable: Sequence[str],
    quantities: Sequence[Quantity],
    ones: Tensor | None = None,
) -> dict[Quantity, Tensor]:
    """The quantities of an elementwise function, each of the shape of the tensors.

    Args:
        call: the function of the tensors.
        tensors: its inputs, by name, of one shape.
        differentiable: the names of those that have gradients.
        quantities: what to compute.
        ones: a tensor like the inputs that is full of ones; None to have it made.
    """
    leaves = {name: x.detach().requires_grad_(name in differentiable) for name, x in tensors.items()}
    outputs = call(*leaves.values())
    ones = torch.ones_like(outputs[0]) if ones is None else ones
    order = max(len(quantity.wrt) for quantity in quantities)

    def slopes(y: Tensor, again: bool) -> list[Tensor]:
        if not y.requires_grad:  # such as the gradient of a linear function
            return [torch.zeros_like(y) for _ in differentiable]
        inputs = [leaves[name] for name in differentiable]
        return list(torch.autograd.grad(y, inputs, ones, retain_graph=True, create_graph=again, materialize_grads=True))

    found: dict[Quantity, Tensor] = {}
    for k, output in enumerate(outputs):
        found[Quantity(k, ())] = output.detach()
        for name, gradient in zip(differentiable, slopes(output, order > 1) if order else [], strict=False):
            found[Quantity(k, (name,))] = gradient.detach()
            if order > 1:
                for other, second in zip(differentiable, slopes(gradient, False), strict=True):
                    found[Quantity(k, (name, other))] = second
    return {quantity: found[quantity] for quantity in quantities}


def paths(only: Sequence[str] = ()) -> list[str]:
    """The paths that can be had on this machine, or some of them.

    Raises:
        GradgenError: one that is asked for cannot be had.
    """
    lacking = _lacking_for_cuda()
    if lacking and "cuda" in only:
        hint = "It takes a CUDA device, a torch that sees it, and CuPy. Without --path what can be had is measured."
        raise GradgenError(f"--path cuda cannot be had: {lacking}", hint=hint)
    found = ["cpu", *([] if lacking else ["cuda"]), "torch"]
    return [path for path in found if path in only] if only else found


def device_of(path: str) -> str:
    """The type of the device on which is computed what goes by the name of a path."""
    return "cuda" if path.partition(",")[0] == "cuda" else "cpu"


def _lacking_for_cuda() -> str:
    """Why there is no path "cuda", "" where there is one."""
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    try:
        import cupy  # noqa: F401
    except Exception:  # an installation may be broken in more ways than ImportError
        return "CuPy cannot be imported"
    return ""


def computed(
    subject: Subject, path: str, dtype: torch.dtype, points: Sequence[Point]
) -> tuple[dict[Quantity, list[float]], set[str]]:
    """The op's quantities at the points, and by which kernels on which other path, if any, they were computed."""
    device = device_of(path)
    tensors = {name: torch.tensor([p[name] for p in points], dtype=dtype, device=device) for name in subject.inputs}
    with on(subject, path), subject.runtime.record_paths() as taken:
        found = jet(subject.call, tensors, subject.differentiable, subject.quantities)
    strayed = {f"{kernel} on the {way} path" for kernel, way in taken if way != path}
    return {quantity: values.tolist() for quantity, values in found.items()}, strayed


def on(subject: Subject, path: str) -> Any:
    """The context in which CPU tensors take a path."""
    return subject.runtime.force_path("torch") if path == "torch" else nullcontext()


def nan_samples(subject: Subject, points: Sequence[Point]) -> list[Sample]:
    """What NaN inputs must give: NaN, in the value of each output that depends on them."""
    found = []
    for point in points:
        absent = {name for name, x in point.items() if math.isnan(x)}
        reached = [
            k for k, e in enumerate(subject.formula.outputs) if absent & {symbol.name for symbol in e.free_symbols}
        ]
        found.append((point, {Quantity(k, ()): Exact(mpmath.nan) for k in reached}))
    return found


def limit_samples(subject: Subject, reference: Reference, points: Sequence[Point]) -> list[Sample]:
    """What is to come out at infinities: the limit, as far as it is plain."""
    found = []
    for point in points:
        limits = {quantity: reference.limit(point, quantity) for quantity in subject.quantities}
        exact = {
            quantity: Exact(limit, partial(_scale_of_limit, reference, point, quantity, limit))
            for quantity, limit in limits.items()
            if limit is not None
        }
        found.append((point, exact))
    return found


def _scale_of_limit(reference: Reference, point: Point, quantity: Quantity, limit: mpf) -> mpf | None:
    """What rounding one of the finite inputs alone makes of a limit; None where that is not plain."""
    scale = mpf(0)
    for name, x in point.items() if mpmath.isfinite(limit) else ():
        if math.isfinite(x) and x:
            beside = reference.limit({**point, name: x * (1 + _SHIFT)}, quantity)
            if beside is None or not mpmath.isfinite(beside):
                return None
            scale = max(scale, abs(beside - limit) / _SHIFT)
    return scale


def compared(
    subject: Subject, dtype: str, samples: Sequence[Sample], results: Mapping[str, Mapping[Quantity, Sequence[float]]]
) -> list[Measured]:
    """The errors of what the paths gave at the samples: a row for each kind of quantity and each path."""
    rows: dict[tuple[str, str], Measured] = {}
    for path, found in results.items():
        for quantity in found:
            key = (quantity.kind, path)
            row = rows.setdefault(key, Measured(subject.label, dtype, *key))
            for k, (point, exact) in enumerate(samples):
                if quantity not in exact:
                    continue
                value = found[quantity][k]
                off = error(value, exact[quantity], dtype)
                if off is None:
                    continue
                row.count += 1
                row.numbers += bool(mpmath.isfinite(exact[quantity].value))
                if math.isinf(off):
                    row.bad += 1
                    row.bad_at = row.bad_at or told(subject, quantity, point, value, exact[quantity], dtype)
                else:
                    row.total += off
                    if off > row.worst:
                        row.worst, row.at = off, told(subject, quantity, point, value, exact[quantity], dtype)
                others = [result[quantity][k] for other, result in results.items() if other != path]
                for other in others:
                    row.apart = max(row.apart or 0.0, apart(value, other, exact[quantity], dtype))
    return [row for row in rows.values() if row.count]


_LONGEST = 10_000  # binary digits of an exponent that is written out


def _written(value: mpf, digits: int) -> str:
    """A number as people write it; of one beyond all types only which way."""
    if mpmath.isfinite(value) and value != 0 and abs(mpmath.mag(value)) > _LONGEST:
        return f"{'-' if value < 0 else ''}2**{'' if mpmath.mag(value) > 0 else '-'}{_LONGEST} and beyond"
    return str(mpmath.nstr(value, digits))


def told(subject: Subject, quantity: Quantity, point: Point, value: float, exact: Exact, dtype: str) -> str:
    """What was computed where, and in place of what."""
    what, digits = quantity.described(len(subject.formula.outputs)), _digits(dtype)
    return f"{what} at {shown(point, dtype)}: {value:.{digits}g} in place of {_written(exact.value, digits + 2)}"
