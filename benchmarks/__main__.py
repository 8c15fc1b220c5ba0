"""python -m benchmarks cpu | gpu | build | launch | layouts | sums: see docs/performance.md."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.progress import Progress

from benchmarks import generator, launch, layouts, report, sums
from benchmarks.cases import CASES, Case, built
from benchmarks.machine import description
from benchmarks.measure import COMPILED, EAGER, JITERATOR, LIGER, OWN, Bench
from benchmarks.timing import Timings
from benchmarks.workers import Found, Setup, Workers

DTYPES = ("float32", "bfloat16", "float16", "float64")
PEERS = (EAGER, OWN, COMPILED, JITERATOR, LIGER)
CPU_SIZES = (10, 14, 18, 20, 22, 24, 26)
GPU_SIZES = (10, 13, 16, 19, 22, 25, 28)
_FIRST_CALLS = 3  # that are measured where several processes compile: before them, each alone
_WIDTH = 180  # of what is printed to a file

_device = click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
_out = click.option("--out", type=click.Path(path_type=Path), help="Where to write, without suffix.")


@click.group()
def main() -> None:
    """How fast the generated operations are, and the generator."""


def _options(command: click.Command) -> click.Command:
    for option in (
        click.option("--ops", help="Names, comma-separated; default all."),
        click.option("--dtypes", default=",".join(DTYPES), show_default=True, help="Types."),
        click.option("--peers", default=",".join(PEERS), show_default=True, help="Others to measure beside it."),
        click.option("--sizes", help="Powers of two, comma-separated."),
        click.option("--seconds", type=float, help="To sample one figure; default 0.2, on a GPU 0.03."),
        click.option("--processes", type=int, help="That compile at once; default 1, on a GPU two fewer than cores."),
        click.option("--budget", type=float, help="Seconds after which nothing new is begun."),
        _out,
        click.option("--record", is_flag=True, help="Put a summary into docs/performance.md, too."),
    ):
        command = option(command)
    return command


@main.command()
@_options
def cpu(**options: object) -> None:
    """On the processor."""
    _run("cpu", CPU_SIZES, 0.2, 1, **options)  # type: ignore[arg-type]


@main.command()
@_options
def gpu(**options: object) -> None:
    """On a CUDA device."""
    if not torch.cuda.is_available():
        raise click.ClickException("torch sees no CUDA device")
    _run("cuda", GPU_SIZES, 0.03, max(1, (os.cpu_count() or 1) - 2), **options)  # type: ignore[arg-type]


@main.command("record")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@_out
def record_command(files: tuple[Path, ...], out: Path | None) -> None:
    """Put what was found before, in JSON, into docs/performance.md, and plot it; several runs together as one."""
    if len(files) > 1 and out is None:
        raise click.UsageError("Say by --out where several runs are to lie together.")
    try:
        results = report.Results.together([report.Results.load(file) for file in files])
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if out is None:
        report.plot(results, files[0].with_suffix(".png"))
    else:
        results.save(out)
    report.record(results, out or files[0].with_suffix(""))


@main.command()
@_out
def build(out: Path | None) -> None:
    """How long the generator takes."""
    _keep("build", "cpu", generator.show(Console()), out)


@main.command("launch")
@_out
def launch_command(out: Path | None) -> None:
    """Where the time of a call with few elements goes, on the processor."""
    _keep("launch", "cpu", launch.show(Console()), out)


@main.command("layouts")
@_device
@_out
def layouts_command(device: str, out: Path | None) -> None:
    """Operands that are not contiguous, that broadcast, and results written over their inputs."""
    _keep("layouts", device, layouts.show(Console(), device), out)


@main.command("sums")
@_device
@_out
def sums_command(device: str, out: Path | None) -> None:
    """What the gradient of an input costs that broadcasts, such as one number a channel."""
    _keep("sums", device, sums.show(Console(), device), out)


def _keep(what: str, device: str, timings: Timings, out: Path | None) -> None:
    machine = description(device)
    report.write_timings(timings, machine, out or report.stem(what, machine))


def _run(
    device: str,
    default_sizes: Sequence[int],
    default_seconds: float,
    default_processes: int,
    ops: str | None,
    dtypes: str,
    peers: str,
    sizes: str | None,
    seconds: float | None,
    processes: int | None,
    budget: float | None,
    out: Path | None,
    record: bool,
) -> None:
    begun = time.monotonic()
    names = ops.split(",") if ops else [case.name for case in CASES]
    if unknown := set(names) - {case.name for case in CASES}:
        raise click.UsageError(f"no such operation: {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if case.name in names]
    powers = [int(size) for size in sizes.split(",")] if sizes else default_sizes
    kinds = [getattr(torch, dtype) for dtype in dtypes.split(",")]
    results = report.Results(device, description(device))
    results.options = {
        "types": dtypes,
        "sizes": " ".join(f"2^{power}" for power in powers),
        "processes": processes or default_processes,
        "seconds a figure": seconds or default_seconds,
    }
    stem = out or report.stem(device, results.machine)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH

    def is_time() -> bool:
        return not budget or time.monotonic() - begun <= budget

    with built(cases) as place, Progress(console=console) as progress:

        def tell(what: str) -> None:
            progress.console.print(f"{time.monotonic() - begun:4.0f} s: {what}")

        wanted = seconds or default_seconds
        setup = Setup(device, [case.name for case in cases], place, wanted, peers.split(","), [1 << k for k in powers])
        count = min(processes or default_processes, len(cases))
        tell("ready to begin")
        if count > 1 and COMPILED in setup.peers:
            bench = Bench(device, {}, wanted, setup.peers)
            for case in cases[:_FIRST_CALLS]:
                if (first := bench.first_call(case, kinds[0])) is not None:
                    results.cold[case.name] = first
            tell("the first calls of torch.compile are measured")
        with Workers(count, setup) as workers:
            tell(f"{count} processes" if count > 1 else "one process")
            task = progress.add_task(device, total=2 * len(cases) * len(kinds))
            for dtype in kinds:
                kind = str(dtype).removeprefix("torch.")
                prepared = set()
                for case, found in workers.prepare(cases, dtype, is_time):
                    progress.update(task, description=f"{kind} compiled", advance=1)
                    prepared.add(case.name)
                    _add(results, case, found)
                tell(f"{kind} is compiled")
                for case in cases:
                    progress.update(task, description=f"{case.name}, {kind}", advance=1)
                    if case.name in prepared and is_time():
                        _add(results, case, workers.measure(case, dtype))
                    else:
                        results.left_out.append(f"{case.name}, {kind}")
                tell(f"{kind} is measured")
                results.write(stem)
    results.options[report.SECONDS] = math.ceil(time.monotonic() - begun)
    report.show(results, console)
    results.save(stem)
    if record:
        report.record(results, stem)


def _add(results: report.Results, case: Case, found: Found) -> None:
    results.rows += found.rows
    results.notes += [note for note in found.notes if note not in results.notes]
    if found.first_call is not None:
        results.cold[case.name] = found.first_call
    if found.saved:
        results.saved[case.name] = found.saved


if __name__ == "__main__":
    main()
