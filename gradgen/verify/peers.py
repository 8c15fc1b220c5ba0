"""torch's own functions that compute what an op computes, to be measured beside it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradgen.verify import points
from gradgen.verify.measure import DTYPES
from gradgen.verify.subject import Subject

PATH = "torch's own"


@dataclass(frozen=True)
class Peer:
    """A function of torch: its name within torch, fixed options, and by what name it takes which hyper-parameter."""

    function: str
    options: dict[str, Any] = field(default_factory=dict)
    hyper: dict[str, str] = field(default_factory=dict)


_F = "nn.functional."
_EACH = {"reduction": "none"}

# By the name of the op. A namesake that computes something else is told by its values.
PEERS = {
    "bce_with_logits": Peer(_F + "binary_cross_entropy_with_logits", _EACH),
    "elu": Peer(_F + "elu", hyper={"alpha": "alpha"}),
    "exp": Peer("exp"),
    "gelu": Peer(_F + "gelu"),
    "gelu_tanh": Peer(_F + "gelu", {"approximate": "tanh"}),
    "hardswish": Peer(_F + "hardswish"),
    "huber": Peer(_F + "huber_loss", _EACH, {"delta": "delta"}),
    "leaky_relu": Peer(_F + "leaky_relu", hyper={"alpha": "negative_slope"}),
    "log_sigmoid": Peer(_F + "logsigmoid"),
    "logsigmoid": Peer(_F + "logsigmoid"),
    "mish": Peer(_F + "mish"),
    "relu": Peer(_F + "relu"),
    "selu": Peer(_F + "selu"),
    "sigmoid": Peer("sigmoid"),
    "silu": Peer(_F + "silu"),
    "softplus": Peer(_F + "softplus", hyper={"beta": "beta"}),
    "softsign": Peer(_F + "softsign"),
    "square": Peer("square"),
    "swish": Peer(_F + "silu"),
    "tanh": Peer("tanh"),
    "tanh_exp": Peer("tanh"),
}


def find(subject: Subject) -> Callable[..., tuple[Tensor, ...]] | None:
    """torch's own function for what the op computes, called like it; None where there is none."""
    peer = PEERS.get(subject.name)
    if peer is None or len(subject.formula.outputs) > 1:
        return None
    function = operator.attrgetter(peer.function)(torch)
    if not peer.hyper.keys() <= subject.hyper.keys():
        return None
    options = {**peer.options, **{theirs: subject.hyper[ours] for ours, theirs in peer.hyper.items()}}

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        return (function(*tensors, **options),)

    return call if _agree(subject, call) else None


def _agree(subject: Subject, call: Callable[..., tuple[Tensor, ...]]) -> bool:
    """Whether a function gives what the op gives, and takes every type that the op takes."""
    drawn = points.ordinary(subject.inputs, torch.float64, 50, "peer")
    tensors = [torch.tensor([point[name] for point in drawn], dtype=torch.float64) for name in subject.inputs]
    try:
        for dtype in DTYPES:
            call(*[tensor.to(dtype) for tensor in tensors])
        return torch.allclose(subject.call(*tensors)[0], call(*tensors)[0], rtol=1e-6, atol=1e-9, equal_nan=True)
    except (RuntimeError, TypeError):
        return False
