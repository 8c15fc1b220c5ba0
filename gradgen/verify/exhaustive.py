"""The exhaustive run: C or CUDA kernels for narrow types, at every input that there is, against those for float64.

The float64 kernels are held against what is exact by the ordinary run. What both have in common, such as a wrong
coefficient, would not show in their difference: some of the inputs are looked at here, too, and of those for which
float64 gives NaN.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, TypeVar

import mpmath
import torch
from torch import Tensor

from gradgen.ulp import MANTISSA
from gradgen.verify.measure import Measured, dtype_name, jet, shown, told
from gradgen.verify.probes import Probes
from gradgen.verify.quantity import Exact, Point, Quantity, error
from gradgen.verify.reference import Reference
from gradgen.verify.space import PIECE, Space
from gradgen.verify.subject import Subject

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PATHS = {"cpu": "cpu, exhaustive", "cuda": "cuda, exhaustive"}  # by the type of the device

_STEP = 2.0**-44  # by which an input is moved to see what rounding makes of a result that has no derivative here
_EXPONENT = 0x7FF << 52  # of a float64
_SMALL = 4.0  # ulps: up to here the mean takes errors as the quick look has them, however exactly they are known
_MOST_GAPS, _GAPS_APART = 4, 256  # stretches of NaN looked at in a piece; of pieces of nothing else, one in so many
_T = TypeVar("_T")


def run(
    subject: Subject,
    space: Space,
    progress: Callable[[], None],
    others: Mapping[str, Callable[..., tuple[Tensor, ...]]],
) -> list[Measured]:
    """Measure the kernels of an op, and compute the errors, on the device on which the inputs are.

    Args:
        subject: the op.
        space: its inputs.
        progress: called once for each chunk.
        others: functions of the same inputs to be measured beside it, values and gradients, by what to call them.
    """
    is_on_cuda = space.device.type == "cuda"
    if is_on_cuda:  # where the reference has no faster functions
        subject = replace(subject, reference=subject.function)
    sweeps = [_Sweep(subject, space.dtype, PATHS[space.device.type], subject.call, subject.quantities)]
    simple = [quantity for quantity in subject.quantities if len(quantity.wrt) < 2]
    sweeps += [_Sweep(subject, space.dtype, name, call, simple) for name, call in others.items()]

    reference, probes = Reference(subject.formula, subject.hyper), Probes(subject, space)

    def examine(k: int) -> _Examined:
        inputs = space[k]
        wide = {name: x.double() for name, x in inputs.items()}
        exact = jet(subject.refer, wide, subject.differentiable, subject.quantities)
        first = space.first_piece(k)
        gaps = [(quantity, point) for quantity in exact for point in _gaps(wide, exact[quantity], first)]
        found = [sweep.computed(inputs) for sweep in sweeps]
        rows = [sweep.examined(values, wide, exact) for sweep, values in zip(sweeps, found, strict=True)]
        return _Examined(rows, gaps, _at(found[0], wide, [*probes.places(first, len(next(iter(wide.values()))))]))

    # A GPU has enough to do with one chunk; and what is found in it saves looking closely at the next.
    chunks = map(examine, range(len(space))) if is_on_cuda else _in_threads(examine, len(space))
    for examined in chunks:
        for sweep, rows in zip(sweeps, examined.rows, strict=True):
            sweep.add(rows)
        # Not in the threads, which would have to share mpmath's precision
        for quantity, point in examined.gaps:
            sweeps[0].check(quantity, point, reference(point, [Quantity(quantity.output, ()), quantity]))
        for point, computed in examined.probed:
            sweeps[0].probe(point, computed, probes.exact(point), reference)
        progress()
    return [row for sweep in sweeps for row in sweep.rows.values()]


class _Examined(NamedTuple):
    """What came out of a chunk.

    Attributes:
        rows: of each sweep the errors.
        gaps: for which inputs float64 gives NaN, as far as they are to be looked at.
        probed: what the first sweep computed at the inputs that are.
    """

    rows: list[list[Measured]]
    gaps: list[tuple[Quantity, Point]]
    probed: list[tuple[Point, dict[Quantity, float]]]


def _at(
    found: Mapping[Quantity, Tensor], inputs: Mapping[str, Tensor], places: Sequence[int]
) -> list[tuple[Point, dict[Quantity, float]]]:
    """Inputs, and what was computed of them, at some places."""
    index = torch.tensor(places, dtype=torch.int64, device=next(iter(inputs.values())).device)
    columns = {name: x[index].tolist() for name, x in inputs.items()}
    results = {quantity: values[index].tolist() for quantity, values in found.items()}
    return [
        (
            {name: column[k] for name, column in columns.items()},
            {quantity: column[k] for quantity, column in results.items()},
        )
        for k in range(len(places))
    ]


def _gaps(wide: Mapping[str, Tensor], exact: Tensor, first: int) -> Iterator[Point]:
    """Finite inputs for which float64 gives NaN: of each piece one of each stretch, up to some.

    Of a chunk, whose first piece has the number `first`; so that it does not matter how large chunks are.
    """
    is_gap = exact.isnan()
    for x in wide.values():
        is_gap &= x.isfinite()
    if not is_gap.any():
        return
    everywhere = bool(is_gap.all())
    for k, piece in enumerate(torch.split(is_gap, PIECE)):
        if (first + k) % _GAPS_APART and (everywhere or piece.all()):
            continue
        places = piece.nonzero().squeeze(1).cpu() + k * PIECE
        ends = (places.diff() > 1).nonzero().squeeze(1) + 1
        for stretch in places.tensor_split(ends[: _MOST_GAPS - 1])[:_MOST_GAPS] if len(places) else ():
            middle = int(stretch[len(stretch) // 2])
            yield {name: x[middle].item() for name, x in wide.items()}


def _in_threads(function: Callable[[int], _T], count: int) -> Iterator[_T]:
    """function(0), function(1), ... in order, computed by as many threads as torch uses.

    Each works on a chunk of its own, so that they need not wait for one another after each of many short operations.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads)
    pending: deque[Future[_T]] = deque()
    try:
        for k in range(count):
            pending.append(pool.submit(function, k))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


class _Scratch(threading.local):
    """Columns of doubles of the thread's own, to be overwritten: new memory is cleared first, which costs more."""

    def __init__(self) -> None:
        self._kept = torch.empty(2, 0, dtype=torch.float64)

    def columns(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Two of them, of the length of another column and on its device."""
        count = len(like)
        if self._kept.shape[1] < count or self._kept.device != like.device:
            self._kept = torch.empty(2, count, dtype=torch.float64, device=like.device)
        return self._kept[0, :count], self._kept[1, :count]


_scratch = _Scratch()


class _Sweep:
    """The errors of one way to compute, collected chunk by chunk."""

    def __init__(
        self,
        subject: Subject,
        dtype: torch.dtype,
        path: str,
        call: Callable[..., tuple[Tensor, ...]],
        quantities: Sequence[Quantity],
    ) -> None:
        self._subject, self._call, self._quantities = subject, call, quantities
        self._dtype = dtype_name(dtype)
        self._smallest, self._largest = torch.finfo(dtype).tiny, torch.finfo(dtype).max
        self._ulps = 2.0 ** (MANTISSA[self._dtype] - 1)  # from a power of two to the next
        kinds = dict.fromkeys(quantity.kind for quantity in quantities)
        self.rows = {kind: Measured(subject.label, self._dtype, kind, path) for kind in kinds}

    def add(self, rows: Sequence[Measured]) -> None:
        """Take in what was found in a chunk; in the order of the chunks, so that each run finds the same."""
        for row in rows:
            self.rows[row.kind].add(row)

    def check(self, quantity: Quantity, point: Point, known: Mapping[Quantity, Exact]) -> None:
        """Take in that a result is NaN at a point, in float64 too, if it should be a number."""
        right = known.get(quantity)
        if right is not None and mpmath.isfinite(right.value):
            row = self.rows[quantity.kind]
            row.bad += 1
            row.bad_at = row.bad_at or told(self._subject, quantity, point, math.nan, right, self._dtype)

    def probe(
        self, point: Point, computed: Mapping[Quantity, float], exact: Mapping[Quantity, Exact], reference: Reference
    ) -> None:
        """Take in what was computed at a point; what seems far off is asked of what takes longer, and can tell more."""
        if any(map(math.isnan, point.values())):
            return
        for quantity, right in exact.items():
            row, value = self.rows[quantity.kind], computed[quantity]
            off = error(value, right, self._dtype)
            if off is not None and off > max(row.worst, _SMALL):
                known = reference(point, [Quantity(quantity.output, ()), quantity])
                off = error(value, known[quantity], self._dtype) if quantity in known else None
            if off is None or off <= row.worst:
                continue
            text = told(self._subject, quantity, point, value, right, self._dtype)
            if math.isinf(off) and not row.bad:  # else it may have been counted
                row.bad, row.bad_at = 1, text
            elif off < math.inf:
                row.worst, row.at = off, text

    def computed(self, inputs: dict[str, Tensor]) -> dict[Quantity, Tensor]:
        """The results for a chunk."""
        return jet(self._call, inputs, self._subject.differentiable, self._quantities)

    def examined(
        self, found: dict[Quantity, Tensor], wide: dict[str, Tensor], exact: dict[Quantity, Tensor]
    ) -> list[Measured]:
        """The errors in a chunk, as far as they are larger than what is known.

        Args:
            found: what was computed.
            wide: the inputs, in float64.
            exact: the exact results.
        """
        rows = []
        for quantity, values in found.items():
            row = replace(self.rows[quantity.kind], count=values.numel(), bad=0, bad_at="", total=0.0)
            distance = self._distance(values, exact[quantity], self._slopes(wide, quantity, exact))
            suspects = self._suspects(row, distance, values, exact[quantity])
            if len(suspects):
                places = {name: x[suspects] for name, x in wide.items()}
                computed, right = values[suspects].double(), exact[quantity][suspects]
                self._look_closely(row, quantity, places, computed, right, ~(distance[suspects] <= _SMALL))
            rows.append(row)
        return rows

    def _slopes(
        self, wide: dict[str, Tensor], quantity: Quantity, exact: dict[Quantity, Tensor]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The inputs by which the derivative of the quantity is at hand, each with it."""
        for name, x in wide.items():
            slope = exact.get(Quantity(quantity.output, (*quantity.wrt, name)))
            if slope is not None:
                yield x, slope

    def _distance(self, computed: Tensor, exact: Tensor, slopes: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """The errors, found with little work; too large where no derivative is at hand that makes them less.

        It is overwritten by the next call.
        """
        size, other = _scratch.columns(exact)
        torch.abs(exact, out=size)
        for x, slope in slopes:
            torch.mul(x, slope, out=other)
            torch.maximum(size, other.abs_().nan_to_num_(0.0, posinf=0.0), out=size)
        return other.copy_(computed).sub_(exact).abs_().div_(self._unit(size)).mul_(self._ulps)

    @staticmethod
    def _suspects(row: Measured, distance: Tensor, computed: Tensor, exact: Tensor) -> Tensor:
        """Which results may be off by more than is known, or by much: few. What is small goes into the row's total.

        That total must not depend on what is known, for threads find it out in another order at every run.
        """
        limit = min(row.worst, _SMALL)
        if distance.max() <= limit:  # not if one is NaN, as it is for two infinities, or for two NaN
            row.total = distance.sum().item()
            return torch.arange(0)
        row.total = distance.where(distance <= _SMALL, 0.0).sum().item()
        same = (computed == exact) | (computed.isnan() & exact.isnan())
        return (distance <= limit).logical_or_(same).logical_not_().nonzero().squeeze(1)

    def _unit(self, size: Tensor) -> Tensor:
        """What one unit in the last place of numbers of that size is, times `_ulps`; made of `size`."""
        unit = size.clamp_(min=self._smallest)
        unit.view(torch.int64).bitwise_and_(_EXPONENT)  # leaves the power of two
        return unit

    def _look_closely(
        self,
        row: Measured,
        quantity: Quantity,
        wide: dict[str, Tensor],
        computed: Tensor,
        exact: Tensor,
        large: Tensor,
    ) -> None:
        """Measure results as `gradgen.verify.quantity.error` does, and put the worst into the row.

        The errors of those that are `large` are added to its total.
        """
        same_sign = (computed > 0) == (exact > 0)
        fine = computed == exact
        fine |= exact.isinf() & (computed.abs() == self._largest) & same_sign
        fine |= computed.isinf() & (exact.abs() > self._largest) & same_sign
        fine |= exact.isnan() & (computed.isnan() | self._may_be_a_number(quantity, wide))
        rest = (~fine).nonzero().squeeze(1)
        if not len(rest):
            return
        wide, computed, exact = {name: x[rest] for name, x in wide.items()}, computed[rest], exact[rest]
        unit = self._unit(torch.maximum(exact.abs(), self._scale(wide, quantity, exact)))
        errors = (computed - exact).abs_().div_(unit).mul_(self._ulps)
        # An infinity for what is all but beyond the largest number is right.
        errors[computed.isinf() & (exact.abs() + 4 * unit / self._ulps > self._largest) & same_sign[rest]] = 0.0
        bad = ~errors.isfinite()
        if bad.any():
            row.bad += int(bad.sum())
            row.bad_at = row.bad_at or self._told(quantity, wide, computed, exact, int(bad.byte().argmax()))
            errors[bad] = 0.0
        row.total += errors[large[rest]].sum().item()
        at = int(errors.argmax())
        if errors[at] > row.worst:
            row.worst, row.at = errors[at].item(), self._told(quantity, wide, computed, exact, at)

    def _may_be_a_number(self, quantity: Quantity, wide: dict[str, Tensor]) -> Tensor:
        """Where a number passes though float64 gives NaN: not in a value if an input is NaN, else the fault is there.

        A derivative may be a number whatever the input is, as that of a linear function.
        """
        some_nan = torch.stack([x.isnan() for x in wide.values()]).any(0)
        return torch.ones_like(some_nan) if quantity.wrt else ~some_nan

    def _scale(self, wide: dict[str, Tensor], quantity: Quantity, exact: Tensor) -> Tensor:
        """The largest |x * d quantity/dx| over the inputs.

        From the kernels where they have that derivative, else from what a step makes of the result: for an input
        without gradient, and for second derivatives.
        """
        scale = torch.zeros_like(exact)
        for name, x in wide.items():
            following = Quantity(quantity.output, (*quantity.wrt, name))
            if following in self._subject.quantities:
                shift = x * self._float64(wide, following)
            else:
                shift = (self._float64({**wide, name: x * (1 + _STEP)}, quantity) - exact) / _STEP
            scale = torch.maximum(scale, shift.abs().nan_to_num(0.0, posinf=0.0))
        return scale

    def _float64(self, wide: dict[str, Tensor], quantity: Quantity) -> Tensor:
        return jet(self._subject.refer, wide, self._subject.differentiable, [quantity])[quantity]

    def _told(self, quantity: Quantity, wide: dict[str, Tensor], computed: Tensor, exact: Tensor, at: int) -> str:
        point = shown({name: x[at].item() for name, x in wide.items()}, self._dtype)
        what = quantity.described(len(self._subject.formula.outputs))
        return f"{what} at {point}: {computed[at].item():.9g} in place of {exact[at].item():.9g}"
