"""Measures cases: the generated operation, its peers and a copy, forward, and forward with backward."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.cases import Case, Function
from benchmarks.machine import cache_bytes
from benchmarks.timing import Call, side_by_side

GRADGEN, COPY, EAGER, OWN, COMPILED, JITERATOR, LIGER = (
    "gradgen",
    "copy",
    "eager",
    "torch",
    "compile",
    "jiterator",
    "liger",
)
DIRECTIONS = ("forward", "forward and backward")
_MOST_SETS = 64
_BEYOND_CACHE = 2  # times the cache, so that what is used again has left it


@dataclass(frozen=True)
class Row:
    """A figure: seconds of one call.

    Attributes:
        op: the operation.
        dtype: the name of the type.
        n: the number of elements.
        direction: one of DIRECTIONS.
        peer: by whom it is computed.
        median: seconds, and the quartiles
        low: below
        high: above it.
        traffic: the bytes that must be moved.
    """

    op: str
    dtype: str
    n: int
    direction: str
    peer: str
    median: float
    low: float
    high: float
    traffic: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Bench:
    """Measures on one device, with what was compiled by torch for each case.

    Attributes:
        cold: seconds that torch.compile took for the first call of each case, forward and backward.
    """

    def __init__(self, device: str, functions: dict[str, Function], seconds: float, peers: Sequence[str]) -> None:
        self.device, self._functions, self._seconds, self._peers = device, functions, seconds, peers
        self._cache = cache_bytes(device)
        self._compiled: dict[tuple[str, torch.dtype], Function] = {}
        self.cold: dict[str, float] = {}

    def rows(self, case: Case, n: int, dtype: torch.dtype) -> Iterator[Row]:
        """Both directions of a case at a size."""
        contestants = self._contestants(case, dtype)
        for direction in DIRECTIONS:
            backward = direction != DIRECTIONS[0]
            traffic = case.traffic(n, dtype, backward)
            sets = max(2, min(_MOST_SETS, -(-_BEYOND_CACHE * self._cache // traffic)))
            inputs = [case.inputs(n, dtype, self.device, backward, k) for k in range(sets)]
            calls: dict[str, Call] = {}
            for name, function in contestants.items():
                if backward and name == JITERATOR:
                    continue
                calls[name] = _training(function, inputs) if backward else _inference(function, inputs)
            calls[COPY] = _copy(traffic // 2, self.device, sets)
            timings = side_by_side(calls, self.device, self._seconds)
            for name, timing in timings.items():
                yield Row(
                    case.name,
                    str(dtype).removeprefix("torch."),
                    n,
                    direction,
                    name,
                    timing.median,
                    timing.low,
                    timing.high,
                    traffic,
                )

    def saved_bytes(self, case: Case, dtype: torch.dtype, n: int = 1 << 16) -> dict[str, float]:
        """Bytes an element of the result that each contestant keeps from forward to backward."""
        return {
            name: _saved(function, case.inputs(n, dtype, self.device, True, 0)) / n
            for name, function in self._contestants(case, dtype).items()
            if name not in (JITERATOR, LIGER)
        }

    def _contestants(self, case: Case, dtype: torch.dtype) -> dict[str, Function]:
        found: dict[str, Function] = {GRADGEN: self._functions[case.name], EAGER: case.eager}
        if case.own:
            found[OWN] = case.own
        if COMPILED in self._peers:
            found[COMPILED] = self._compile(case, dtype)
        if self.device == "cuda":
            if case.jiterator:
                found[JITERATOR] = _jiterator(case)
            if case.liger and (function := _liger(case.liger)):
                found[LIGER] = function
        return {name: function for name, function in found.items() if name == GRADGEN or name in self._peers}

    def _compile(self, case: Case, dtype: torch.dtype) -> Function:
        """The eager formula, compiled for any size; the first time, the seconds of that are kept."""
        if (case.name, dtype) not in self._compiled:
            first = case.name not in self.cold
            torch._dynamo.reset()
            compiled = torch.compile(case.eager, dynamic=True)
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if first:  # what was compiled before is not to help
                    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
                begun = time.perf_counter()
                inputs = case.inputs(1 << 14, dtype, self.device, True, 0)
                _training(compiled, [inputs])(0)
                if first:
                    self.cold[case.name] = time.perf_counter() - begun
                    del os.environ["TORCHINDUCTOR_CACHE_DIR"]
                with torch.no_grad():
                    compiled(*inputs)
            self._compiled[case.name, dtype] = compiled
        return self._compiled[case.name, dtype]


def _outputs(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _inference(function: Function, inputs: Sequence[Sequence[Tensor]]) -> Call:
    def call(k: int) -> None:
        function(*inputs[k % len(inputs)])

    return call


def _training(function: Function, inputs: Sequence[Sequence[Tensor]]) -> Call:
    grads = [torch.ones_like(output) for output in _outputs(function(*inputs[0]))]

    def call(k: int) -> None:
        tensors = inputs[k % len(inputs)]
        outputs = _outputs(function(*tensors))
        torch.autograd.grad(outputs, [x for x in tensors if x.requires_grad], grads)

    return call


def _copy(size: int, device: str, sets: int) -> Call:
    """Copies so many bytes, reading and writing each once."""
    sources = [torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(sets)]
    target = torch.empty_like(sources[0])

    def call(k: int) -> None:
        target.copy_(sources[k % len(sources)])

    return call


def _saved(function: Function, inputs: Sequence[Tensor]) -> int:
    """The bytes of the storages that are kept for backward, inputs among them."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*inputs)
    return sum(kept.values())


def _jiterator(case: Case) -> Function:
    create = torch.cuda.jiterator._create_jit_fn
    function: Function = create(f"template <typename T> T {case.name}(T x) {{ return {case.jiterator}; }}")
    return function


def _liger(place: str) -> Function | None:
    module, _, name = place.partition(":")
    try:
        function: Callable[..., Tensor] = getattr(importlib.import_module(module), name).apply
    except ImportError:
        return None
    return function
