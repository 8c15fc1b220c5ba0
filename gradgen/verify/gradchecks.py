"""Autograd's own checks, of gradients against differences of values, at a few points where differences mean much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradgen.verify import points
from gradgen.verify.measure import device_of, jet, on
from gradgen.verify.subject import Subject

_CANDIDATES = 400
_CHOSEN = 4
_STEP = 1e-4  # over which derivatives must not change much: there is no kink and no pole within it
_CHANGE = 0.05
_LARGEST = 1e3


@dataclass(frozen=True)
class Check:
    """What a check gave: `status` is "passed", why it was not run, or what is wrong if `failed`."""

    name: str
    path: str
    status: str
    failed: bool = False


def run(subject: Subject, path: str) -> list[Check]:
    """gradcheck and gradgradcheck of an op in float64, on one path."""
    chosen = {} if not subject.differentiable else _chosen(subject, path)
    if not chosen or not next(iter(chosen.values())).numel():
        reason = "no point to check at" if subject.differentiable else "no gradient"
        return [Check(name, path, reason) for name in ("gradcheck", "gradgradcheck")]
    first = (
        Check("gradcheck", path, "own derivative")  # which need not be that of the formula
        if subject.formula.derivatives
        else _checked("gradcheck", subject, path, chosen)
    )
    return [first, _checked("gradgradcheck", subject, path, chosen)]


def _checked(name: str, subject: Subject, path: str, chosen: dict[str, Tensor]) -> Check:
    leaves = [x.clone().requires_grad_(key in subject.differentiable) for key, x in chosen.items()]
    check: Any = getattr(torch.autograd, name)
    try:
        with on(subject, path):
            check(subject.call, leaves)
    except RuntimeError as error:  # GradcheckError is one
        return Check(name, path, " ".join(str(error).split()), failed=True)
    return Check(name, path, "passed")


def _chosen(subject: Subject, path: str) -> dict[str, Tensor]:
    """Points, as a column for each input, where the op and its derivatives are finite, moderate and smooth."""
    device = device_of(path)
    drawn = points.ordinary(subject.inputs, torch.float64, _CANDIDATES, subject.name)
    columns = {
        name: torch.tensor([p[name] for p in drawn], dtype=torch.float64, device=device) for name in subject.inputs
    }
    with on(subject, path):
        here = _stacked(subject, columns)
        good = (here.abs() < _LARGEST).all(0)
        for name in subject.inputs:
            for step in (-_STEP, _STEP):
                there = _stacked(subject, {**columns, name: columns[name] + step})
                good &= ((there - here).abs() <= _CHANGE * (here.abs() + _CHANGE)).all(0)
    return {name: column[good][:_CHOSEN] for name, column in columns.items()}


def _stacked(subject: Subject, tensors: dict[str, Tensor]) -> Tensor:
    return torch.stack(list(jet(subject.call, tensors, subject.differentiable, subject.quantities).values()))
