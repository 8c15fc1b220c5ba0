"""The whole of a verification, from spec files to a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gradgen.errors import GradgenError
from gradgen.verify import exhaustive, measure, ordinary, peers, record, report
from gradgen.verify.ordinary import Outcome
from gradgen.verify.settings import Settings
from gradgen.verify.space import Space
from gradgen.verify.subject import Subject, built


def verify(settings: Settings) -> bool:
    """Measure all ops, print what was found, and tell whether everything is within the bar.

    Raises:
        GradgenError: for a mistake in the specs, or in how the command was called.
    """
    if settings.stride > 1 and not settings.exhaustive:
        raise GradgenError("--stride thins an exhaustive run", hint="Give --exhaustive, too.")
    paths = measure.paths(settings.only)
    if settings.exhaustive and not exhaustive.PATHS.keys() & paths:
        raise GradgenError("--exhaustive is of kernels, which --path torch leaves out", hint="Give --path cpu, too.")
    methods = {}  # those of the tables that are to be written, by the device
    if settings.record:
        methods = {device: _method(settings, device, paths) for device in dict.fromkeys(map(measure.device_of, paths))}
        for device in methods:
            record.current(settings.record, device)  # a mistake in it is to be told before anything is measured
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=report.ANY_WIDTH)
    outcomes: list[Outcome] = []
    wrong = 0
    with built(settings.paths, settings.templates, settings.given) as subjects:
        if settings.record:
            ops = [subject.label for subject in subjects]
            for device, method in methods.items():
                record.check(settings.record, ops, method, subjects[0].runtime, device)
        for subject in subjects:
            started = time.perf_counter()
            with _progress(console, subject.name) as progress:
                outcome = _outcome(subject, settings, paths, progress)
            console.print(*report.tables(subject, outcome, settings.bar, console))
            complaints = report.complaints(outcome, settings.bar)
            for line in complaints:
                console.print(f"{subject.name}: {line}", style="red", markup=False, soft_wrap=True)
            verdict = "not sound" if complaints else "sound"
            console.print(f"{subject.name}: {verdict} ({_duration(time.perf_counter() - started)})\n", markup=False)
            wrong += bool(complaints)
            outcomes.append(outcome)
        if settings.record:
            for device, method in methods.items():
                table = record.markdown(outcomes, method, subjects[0].runtime, device)
                record.save(settings.record, table, device)
            console.print(f"recorded in {settings.record}", markup=False, soft_wrap=True)
    if settings.points is None:
        console.print("The ends of float64 were not looked at; --points 100 does.", soft_wrap=True)
    console.print(f"{len(outcomes)} verified, {wrong} of them not sound" if wrong else f"{len(outcomes)} verified")
    return not wrong


Tick = Callable[[str, int], Callable[[], None]]


def _outcome(subject: Subject, settings: Settings, paths: Sequence[str], progress: Tick) -> Outcome:
    """All that is measured of an op."""
    peer = peers.find(subject) if settings.record and paths != ["cuda"] else None  # which computes on the CPU
    tick = progress("ordinary points", ordinary.STEPS)
    outcome = ordinary.run(subject, settings.points, peer, tick, settings.only)
    if settings.exhaustive and not outcome.failures:  # kernels that fell back would be compared with themselves
        for device in [path for path in paths if path in exhaustive.PATHS]:
            others = {peers.PATH: peer} if peer and device == "cpu" else {}
            for dtype in exhaustive.DTYPES:
                space = Space(subject.inputs, dtype, settings.stride, device)
                tick = progress(f"{measure.dtype_name(dtype)}, {device}", len(space))
                found = exhaustive.run(subject, space, tick, others)
                measured = {(row.dtype, row.kind, row.path) for row in found}
                outcome.rows = [row for row in outcome.rows if (row.dtype, row.kind, row.path) not in measured] + found
    return outcome


def _method(settings: Settings, device: str, paths: Sequence[str]) -> str:
    """How was measured on a device, for the record."""
    points = "dozens" if settings.points is None else f"{settings.points} of each kind"
    text = f"Points: {points} for each type, every exponent alike, ordinary and special ones; of float64 "
    text += "not the ends of the type, but " if settings.points is None else ""
    text += "a thousand more, where no derivative is the user's own."
    if settings.exhaustive and device in paths:
        kernels = {"cpu": "C", "cuda": "CUDA"}[device]
        thinned = f", of float32 every {settings.stride}th" if settings.stride > 1 else ""
        text += (
            f" Then, for the {kernels} kernels of float16, bfloat16 and float32, every input there is{thinned}, or of"
            " several inputs millions of tuples, against the float64 kernel."
        )
    here = [path for path in paths if measure.device_of(path) == device]
    if len(here) > 1:
        return f"{text} Each number is the worst of all paths."
    return text if here == ["cuda"] else f"{text} Each number is that of the path {here[0]}."


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Tick]:
    """Gives a function that begins a bar, of so many steps, and gives the function that moves it on.

    Bars are for terminals; elsewhere nothing is shown until an op is done.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def begin(what: str, steps: int) -> Callable[[], None]:
            task = bars.add_task(f"{name}: {what}", total=steps)
            return lambda: bars.advance(task)

        yield begin
