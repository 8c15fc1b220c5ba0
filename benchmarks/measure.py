"""Measures cases: the generated operation, its peers and a copy, forward, and forward with backward."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.cases import Case, Function
from benchmarks.machine import cache_bytes
from benchmarks.timing import Call, Timing, side_by_side

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
SAVED_AT = 1 << 16  # elements, where the bytes saved for backward are counted
_MOST_SETS = 64
_BEYOND_CACHE = 2  # times the cache, so that what is used again has left it
_FIRST_CALL_AT = 1 << 14  # elements
_NOT_COMPILED = (1 << 13, 1 << 19)  # elements; on a GPU each size is compiled apart, and between others two tell little
_MOST_KEPT = 1 << 28  # bytes on a GPU that a process keeps for itself
_OVERWRITING = (LIGER,)  # they write the gradients over their inputs


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
        notes: what went wrong, such as a peer that raised and is left out of a case for it; a line each, as keys.
    """

    def __init__(self, device: str, functions: dict[str, Function], seconds: float, peers: Sequence[str]) -> None:
        self.device, self._functions, self._seconds, self._peers = device, functions, seconds, peers
        self._cache = cache_bytes(device)
        self._compiled: dict[str, Function] = {}
        self.notes: dict[str, None] = {}
        # All that was compiled is kept, and what was called last is looked for first.
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1 << 20

    def prepare(self, case: Case, n: int, dtype: torch.dtype) -> None:
        """The first calls of all that is compiled at them, in both directions."""
        for backward in (False, True):
            self._calls(case, n, dtype, backward, 1, (GRADGEN, COMPILED, JITERATOR, LIGER))
            self._free()

    def rows(self, case: Case, n: int, dtype: torch.dtype) -> list[Row]:
        """Both directions of a case at a size."""
        found = []
        for direction in DIRECTIONS:
            backward = direction != DIRECTIONS[0]
            traffic = case.traffic(n, dtype, backward)
            name = str(dtype).removeprefix("torch.")
            for peer, timing in self._timings(case, n, dtype, backward).items():
                quartiles = (timing.median, timing.low, timing.high)
                found.append(Row(case.name, name, n, direction, peer, *quartiles, traffic))
            self._free()
        return found

    def saved_bytes(self, case: Case, dtype: torch.dtype, n: int = SAVED_AT) -> dict[str, float]:
        """Bytes an element of the result that each contestant keeps from forward to backward."""
        found = {}
        for name, function in self._contestants(case, n).items():
            if name not in (JITERATOR, LIGER):
                with self._noting(case, name):
                    found[name] = _saved(function, case.inputs(n, dtype, self.device, True, 0)) / n
        return found

    def first_call(self, case: Case, dtype: torch.dtype) -> float | None:
        """Seconds of torch.compile's first call, forward and backward, where nothing has been kept of former ones."""
        inputs = case.inputs(_FIRST_CALL_AT, dtype, self.device, True, 0)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
            os.environ.pop("TRITON_CACHE_DIR", None)  # set by Inductor, to a folder within the other
            with self._noting(case, COMPILED):
                begun = time.perf_counter()
                _training(self._compile(case), [inputs])(0)
                return time.perf_counter() - begun
        return None

    def _timings(self, case: Case, n: int, dtype: torch.dtype, backward: bool) -> dict[str, Timing]:
        """Of all contestants and the copy; nothing where gradgen itself raised."""
        traffic = case.traffic(n, dtype, backward)
        sets = max(2, min(_MOST_SETS, -(-_BEYOND_CACHE * self._cache // traffic)))
        with self._noting(case, "all"):
            calls = self._calls(case, n, dtype, backward, sets, (GRADGEN, *self._peers))
            if GRADGEN in calls:
                calls[COPY] = _copy(traffic // 2, self.device, sets)
                return side_by_side(calls, self.device, self._seconds)
        return {}

    def _calls(
        self, case: Case, n: int, dtype: torch.dtype, backward: bool, sets: int, names: Sequence[str]
    ) -> dict[str, Call]:
        """Those of these contestants that there are, and that do not raise in their first call."""
        inputs = [case.inputs(n, dtype, self.device, backward, k) for k in range(sets)]
        calls: dict[str, Call] = {}
        for name, function in self._contestants(case, n).items():
            if name in names and not (backward and name == JITERATOR):
                with self._noting(case, name):
                    own = [_copied(tensors) for tensors in inputs] if name in _OVERWRITING else inputs
                    call = _training(function, own) if backward else _inference(function, own)
                    call(0)
                    if self.device == "cuda":
                        torch.cuda.synchronize()  # an error of a kernel shows itself later
                    calls[name] = call
        return calls

    def _contestants(self, case: Case, n: int) -> dict[str, Function]:
        found: dict[str, Function] = {GRADGEN: self._functions[case.name], EAGER: case.eager}
        if case.own:
            found[OWN] = case.own
        if COMPILED in self._peers and not (self.device == "cuda" and n in _NOT_COMPILED):
            found[COMPILED] = self._compile(case)
        if self.device == "cuda":
            if case.jiterator:
                with self._noting(case, JITERATOR):
                    found[JITERATOR] = _jiterator(case)
            if case.liger and importlib.util.find_spec("liger_kernel"):
                with self._noting(case, LIGER):
                    found[LIGER] = _liger(case.liger)
        return {name: function for name, function in found.items() if name == GRADGEN or name in self._peers}

    def _compile(self, case: Case) -> Function:
        """The eager formula, compiled for any size; on a GPU for each size apart, which makes faster kernels."""
        if case.name not in self._compiled:
            self._compiled[case.name] = torch.compile(case.eager, dynamic=self.device != "cuda")
        return self._compiled[case.name]

    @contextmanager
    def _noting(self, case: Case, name: str) -> Iterator[None]:
        """Notes an error, and goes on; notes what gradgen warns of, and no other warnings."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                yield
            except Exception as error:
                first = (str(error).strip().splitlines() or [""])[0]
                self.notes[f"{name} is left out of {case.name}: {type(error).__name__}: {first}"] = None
        if name == GRADGEN:
            for warning in seen:
                self.notes[f"{name} warned in {case.name}: {str(warning.message).splitlines()[0]}"] = None

    def _free(self) -> None:
        """Leave the memory to others, such as the processes that measure other cases, if it is much."""
        if self.device == "cuda" and torch.cuda.memory_reserved() > _MOST_KEPT:
            torch.cuda.empty_cache()


def _copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]


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
    if device == "cuda":
        for source in sources:
            source.random_()  # zeros may be faster to copy
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


@functools.cache
def _jiterator(case: Case) -> Function:
    create = torch.cuda.jiterator._create_jit_fn
    function: Function = create(f"template <typename T> T {case.name}(T x) {{ return {case.jiterator}; }}")
    return function


def _liger(place: str) -> Function:
    module, _, name = place.partition(":")
    function: Callable[..., Tensor] = getattr(importlib.import_module(module), name).apply
    return function
