"""Processes that compile cases at once, and measure them one after another, each what it has compiled.

To compile takes longer than to measure, and uses one core; while one process measures, the others wait.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.context import SpawnContext
from typing import Any

import torch

from benchmarks.cases import CASES, Case, load
from benchmarks.machine import free_memory, most_traffic
from benchmarks.measure import COMPILED, Bench, Row

_PATIENCE = 120.0  # seconds to wait for an answer
_CONTEXT = 1 << 30  # bytes that a process needs on a GPU before it has any tensor


@dataclass(frozen=True)
class Setup:
    """What is measured, and where.

    Attributes:
        device: "cpu" or "cuda".
        cases: the names of the operations.
        built: the folder and the package of those that the gallery has not.
        seconds: to sample one figure.
        peers: the others to measure.
        sizes: the numbers of elements.
    """

    device: str
    cases: Sequence[str]
    built: tuple[str, str]
    seconds: float
    peers: Sequence[str]
    sizes: Sequence[int]


@dataclass
class Found:
    """What a process answers.

    Attributes:
        rows: the figures.
        first_call: seconds of torch.compile's first call, where it was measured.
        saved: bytes an element that are kept for backward, by whom.
        notes: what went wrong.
    """

    rows: list[Row] = field(default_factory=list)
    first_call: float | None = None
    saved: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Workers:
    """So many processes, or if that is one this process alone."""

    def __init__(self, count: int, setup: Setup) -> None:
        self._setup = setup
        self._processes: dict[futures.Executor, int] = {}  # with their numbers
        self._owners: dict[tuple[str, torch.dtype], futures.Executor] = {}
        self._is_alone = count <= 1
        if self._is_alone:
            _start(setup, nullcontext())
            return
        context = get_context("spawn")
        room = _Room(context, free_memory(setup.device) - count * _CONTEXT)
        arguments = (setup, _Patient(context.Lock()), room)
        executors = [futures.ProcessPoolExecutor(1, context, _start, arguments) for _ in range(count)]
        started = [executor.submit(os.getpid) for executor in executors]
        for executor, future in zip(executors, started, strict=True):
            self._processes[executor] = future.result(_PATIENCE)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for executor in self._processes:
            executor.shutdown(wait=False, cancel_futures=True)

    def prepare(
        self, cases: Sequence[Case], dtype: torch.dtype, is_time: Callable[[], bool]
    ) -> Iterator[tuple[Case, Found]]:
        """Has cases compiled, as long as there is time to begin with one; yields each when it is."""
        if self._is_alone:
            for case in cases:
                if is_time():
                    yield case, _prepare(case.name, dtype)
            return
        waiting, idle = deque(cases), [*self._processes]
        running: dict[futures.Future[Found], tuple[futures.Executor, Case]] = {}
        while True:
            while idle and waiting and is_time():
                executor, case = idle.pop(), waiting.popleft()
                running[executor.submit(_prepare, case.name, dtype)] = executor, case
            if not running:
                return
            done = futures.wait(running, _PATIENCE, futures.FIRST_COMPLETED).done or {*running}
            for future in done:
                executor, case = running.pop(future)
                found = self._answer(executor, case, future, 0)
                if executor in self._processes:
                    idle.append(executor)
                    self._owners[case.name, dtype] = executor
                yield case, found

    def measure(self, case: Case, dtype: torch.dtype) -> Found:
        """Measures what has been prepared, while all others wait."""
        if self._is_alone:
            return _measure(case.name, dtype)
        executor = self._owners.get((case.name, dtype))
        if executor not in self._processes:
            return Found(notes=[f"nothing was measured of {case.name}, {dtype}: its process had ended"])
        return self._answer(executor, case, executor.submit(_measure, case.name, dtype), _PATIENCE)

    def _answer(self, executor: futures.Executor, case: Case, future: futures.Future[Found], patience: float) -> Found:
        """Of a process; one that does not give any is ended."""
        try:
            return future.result(patience)
        except Exception as error:
            if isinstance(error, (futures.TimeoutError, futures.BrokenExecutor)):
                _end(self._processes.pop(executor))
                executor.shutdown(wait=False, cancel_futures=True)
            return Found(notes=[f"{case.name} failed: {type(error).__name__}: {error}"])


class _Patient:
    """A lock between processes that is not waited for without end, for its holder may have died."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._is_held = self._lock.acquire(timeout=_PATIENCE / 2)

    def __exit__(self, *_: object) -> None:
        if self._is_held:
            self._lock.release()


class _Room:
    """Memory of one device that processes share, by the GiB: who needs some waits until others have left it."""

    def __init__(self, context: SpawnContext, size: int) -> None:
        self._size = max(1, size >> 30)
        self._units, self._turn = context.Semaphore(self._size), _Patient(context.Lock())

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Within, so many bytes are this process's."""
        count = min(self._size, size >> 30)
        until = time.monotonic() + _PATIENCE / 2
        if count:
            with self._turn:  # or two of them might wait for what the other has taken
                for _ in range(count):
                    self._units.acquire(timeout=max(0.0, until - time.monotonic()))
        try:
            yield
        finally:
            for _ in range(count):
                self._units.release()


def _end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


# What follows runs in a process of its own, which has one of these.

_setup: Setup
_bench: Bench
_room: _Room | None
_timed: set[str] = set()
_cases = {case.name: case for case in CASES}


def _start(setup: Setup, tuning: AbstractContextManager[None], room: _Room | None = None) -> None:
    global _setup, _bench, _room
    functions = load([_cases[name] for name in setup.cases], *setup.built)
    _setup, _room = setup, room
    _bench = Bench(setup.device, functions, setup.seconds, setup.peers)
    if room is not None and COMPILED in setup.peers:
        _share(tuning)


def _share(tuning: AbstractContextManager[None]) -> None:
    """Let Inductor compile in this process, and time what it chooses from while no other process does."""
    from torch._inductor import config

    config.compile_threads = 1  # before anything starts processes for more

    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    benchmark = CachingAutotuner.benchmark_all_configs

    def alone(self: CachingAutotuner, *args: Any, **kwargs: Any) -> Any:
        with tuning:
            return benchmark(self, *args, **kwargs)

    CachingAutotuner.benchmark_all_configs = alone


def _prepare(name: str, dtype: torch.dtype) -> Found:
    """What can be done before anything is measured: in one process of several, the first calls at all sizes."""
    case = _cases[name]
    found = Found()
    if _room is None:
        if COMPILED in _setup.peers and name not in _timed:
            _timed.add(name)
            found.first_call = _bench.first_call(case, dtype)
    else:
        for n in _sizes(case, dtype):
            with _room.of(case.traffic(n, dtype, True) * 3 // 2):
                _bench.prepare(case, n, dtype)
    if dtype == torch.float32:
        found.saved = _bench.saved_bytes(case, dtype)
    found.notes = [*_bench.notes]
    return found


def _measure(name: str, dtype: torch.dtype) -> Found:
    case = _cases[name]
    sizes = _sizes(case, dtype)
    rows = [row for n in sizes for row in _bench.rows(case, n, dtype)]
    kind = str(dtype).removeprefix("torch.")
    large = [f"{name}, {kind}, {n} elements: there is no memory" for n in _setup.sizes if n not in sizes]
    return Found(rows, notes=[*_bench.notes, *large])


def _sizes(case: Case, dtype: torch.dtype) -> list[int]:
    """Those that there is memory for."""
    most = most_traffic(_setup.device)
    return [n for n in _setup.sizes if case.traffic(n, dtype, True) <= most]
