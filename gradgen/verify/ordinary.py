"""The ordinary run: every path and type at a few dozen points, float64 at more, and autograd's own checks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gradgen.verify import gradchecks, many, peers, points
from gradgen.verify.gradchecks import Check
from gradgen.verify.measure import (
    DTYPES,
    Measured,
    Sample,
    compared,
    computed,
    dtype_name,
    jet,
    limit_samples,
    nan_samples,
    paths,
)
from gradgen.verify.reference import BITS_OF_FLOAT64, Reference
from gradgen.verify.subject import Subject

# Points of each kind, by the number of inputs: what is exact costs the more, the more second derivatives there are.
_POINTS = {1: 48, 2: 12, 3: 8}
_FEWEST = 4
_MANY = 1000  # more of float64, where these are quick to have

_Function = Callable[..., tuple[Tensor, ...]]

STEPS = len(DTYPES) + 1  # how many times a run reports progress


@dataclass
class Outcome:
    """What came out for an op: the measured rows, autograd's checks, and what failed otherwise, in words."""

    rows: list[Measured] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run(
    subject: Subject,
    count: int | None,
    peer: _Function | None,
    progress: Callable[[], None],
    only: Sequence[str] = (),
) -> Outcome:
    """Measure an op.

    Args:
        subject: the op.
        count: how many points of each kind to look at; None for what is quick.
        peer: a function of the same inputs to be measured beside it, value and gradients.
        progress: called `STEPS` times on the way.
        only: the paths to measure; empty for all that can be had.
    """
    outcome = Outcome()
    reference = Reference(subject.formula, subject.hyper)
    limits = limit_samples(subject, reference, points.with_one(subject.inputs, [math.inf, -math.inf], [1.0, -1.0]))
    nans = nan_samples(subject, points.with_one(subject.inputs, [math.nan]))
    for dtype in DTYPES:
        samples = [*_samples(subject, reference, dtype, count), *limits, *nans]
        _measure(subject, dtype, samples, paths(only), outcome)
        if peer:
            outcome.rows += _of_peer(subject, peer, dtype, samples)
        progress()
    outcome.failures += _unseen(subject, outcome.rows)
    for path in paths(only):
        outcome.checks += gradchecks.run(subject, path)
    progress()
    return outcome


def _unseen(subject: Subject, rows: Sequence[Measured]) -> Iterator[str]:
    """Value or gradient, if float64, which has the most points, was held against no number at all."""
    seen = {row.kind for row in rows if row.dtype == "float64" and row.numbers}
    for kind in dict.fromkeys(quantity.kind for quantity in subject.quantities if len(quantity.wrt) < 2):
        if kind not in seen:
            yield f"{kind}: none of the points that were looked at has one that is a number, so nothing is known of it"


def _of_peer(subject: Subject, peer: _Function, dtype: torch.dtype, samples: list[Sample]) -> list[Measured]:
    """The errors of another function at the samples."""
    tensors = {name: torch.tensor([p[name] for p, _ in samples], dtype=dtype) for name in subject.inputs}
    simple = [quantity for quantity in subject.quantities if len(quantity.wrt) < 2]
    found = jet(peer, tensors, subject.differentiable, simple)
    results = {peers.PATH: {quantity: values.tolist() for quantity, values in found.items()}}
    return compared(subject, dtype_name(dtype), samples, results)


def _samples(subject: Subject, reference: Reference, dtype: torch.dtype, count: int | None) -> list[Sample]:
    """The points for a type, with what is exact there."""
    names, seed = subject.inputs, f"{subject.name} {dtype}"
    fewer = count or _POINTS.get(len(names), _FEWEST)
    found = points.ordinary(names, dtype, fewer, seed)
    if dtype == torch.float64:
        found += points.grid(names, [0.0, -0.0, 1.0, -1.0], fewer, seed)
    else:
        found += points.grid(names, points.special(dtype), fewer, seed)
        found += points.every_magnitude(names, dtype, fewer, seed)
    samples = [(point, reference(point, subject.quantities)) for point in found]
    if dtype == torch.float64 and count:  # the ends of float64 take digits, and time, that are spent on request only
        far = Reference(subject.formula, subject.hyper, BITS_OF_FLOAT64)
        extremes = points.grid(names, points.special(dtype), fewer, seed)
        extremes += points.every_magnitude(names, dtype, fewer, seed)
        samples += [(point, far(point, subject.quantities)) for point in extremes]
    if dtype == torch.float64 and many.applies(subject.formula):
        samples += many.samples(subject.formula, subject.hyper, _MANY, has_edges=True)
    return samples


def _measure(
    subject: Subject, dtype: torch.dtype, samples: list[Sample], paths: Sequence[str], outcome: Outcome
) -> None:
    """Compute the samples on each path, and compare."""
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that a kernel cannot be had is reported below
        for path in paths:
            results[path], strayed = computed(subject, path, dtype, [point for point, _ in samples])
            if strayed:
                outcome.failures.append(f"{dtype_name(dtype)}, {path}: kernel fell back: {', '.join(sorted(strayed))}")
    outcome.rows += compared(subject, dtype_name(dtype), samples, results)
