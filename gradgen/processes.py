"""The processes that share the work of a build."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from gradgen.errors import GradgenError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnContext

# Takes a function and its arguments, and gives what waits for the value
Submit: TypeAlias = Callable[..., Callable[[], Any]]

MOST_WORKERS = 60  # that Windows lets one wait for


@contextmanager
def workers(count: int) -> Iterator[Submit]:
    """Work is done by so many processes at once; by this one, when it is waited for, if that is one.

    Raises:
        GradgenError: one of them died.
    """
    if count <= 1:
        yield partial
        return

    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    with ProcessPoolExecutor(count, _spawning(), initializer=_start_work, initargs=(_is_deaf(),)) as pool:

        def submit(function: Callable[..., Any], *args: object) -> Callable[[], Any]:
            with interrupts_held():  # it may start a process
                return pool.submit(function, *args).result

        try:
            yield submit
        except BrokenProcessPool as error:
            problem = "a working process died; it was killed, or the machine is out of memory"
            raise GradgenError(problem, hint="Try again with --jobs 1.") from error
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def helper(help_with: Callable[[Connection], None]) -> Iterator[Connection | None]:
    """Another process, at work on its end of a connection whose other end is given; it is killed in the end.

    It has all that this one has, and whoever reads from it when it is gone finds the end of the connection. None where
    no such process can be had, or another thread might hold what it would wait for: one of Python's, or of the system's
    libraries, which have some elsewhere than on Linux.
    """
    from multiprocessing import get_context

    if sys.platform != "linux" or threading.active_count() > 1:
        yield None
        return
    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_help, args=(_is_deaf(), help_with, ours, theirs), daemon=True)
    with interrupts_held(), suppress(OSError):
        process.start()
    theirs.close()
    is_started = process.pid is not None
    try:
        yield ours if is_started else None
    finally:
        ours.close()
        if is_started:
            process.kill()
            process.join()


def _help(is_deaf: bool, help_with: Callable[[Connection], None], parents: Connection, connection: Connection) -> None:
    """What a helper does, in silence: what goes wrong shows where it is then missed."""
    parents.close()
    _start_work(is_deaf)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    with connection, suppress(Exception):
        help_with(connection)


def _spawning() -> SpawnContext:
    """What starts processes: not forked, the same on every system, and safe whatever threads this one has.

    A progress bar is one.
    """
    from multiprocessing import get_context, resource_tracker

    resource_tracker.ensure_running()  # else it is started with the first process, and lets interrupts through
    return get_context("spawn")


def _is_deaf() -> bool:
    """Whether Ctrl-C does not reach this process: a job in the background."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Within, Ctrl-C waits; so it does in processes that are started, until they know what to do about it."""
    if not hasattr(signal, "pthread_sigmask"):  # not a POSIX system
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def collect_rarely() -> None:
    """Spare a process the search for cyclic garbage, a tenth of a build, which leaves next to none; and at its end."""
    gc.set_threshold(500_000)
    atexit.register(gc.freeze)


def _start_work(is_deaf: bool) -> None:
    """Let a working process end with its parent, and unless it is deaf with Ctrl-C, of which the parent tells."""
    collect_rarely()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if not is_deaf:
        _die_of_interrupt()


def _end_with_parent() -> None:
    """Wait for the parent to end, however it does; nobody needs what is computed after that."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _die_of_interrupt() -> None:
    """Let Ctrl-C end a process at once and without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
