"""python -m benchmarks cpu | gpu | build | launch: see docs/performance.md."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.progress import Progress

from benchmarks import generator, launch, report
from benchmarks.cases import CASES, Case, functions
from benchmarks.machine import description
from benchmarks.measure import COMPILED, EAGER, JITERATOR, LIGER, OWN, Bench

DTYPES = ("float32", "bfloat16", "float16", "float64")
PEERS = (EAGER, OWN, COMPILED, JITERATOR, LIGER)
CPU_SIZES = (10, 14, 18, 20, 22, 24, 26)
GPU_SIZES = (10, 13, 16, 19, 22, 25, 28)
_MEMORY_OF_A_CASE = 6 << 30  # bytes of buffers


@click.group()
def main() -> None:
    """How fast the generated operations are, and the generator."""


def _options(command: click.Command) -> click.Command:
    for option in (
        click.option("--ops", help="Names, comma-separated; default all."),
        click.option("--dtypes", default=",".join(DTYPES), show_default=True, help="Types."),
        click.option("--peers", default=",".join(PEERS), show_default=True, help="Others to measure beside it."),
        click.option("--sizes", help="Powers of two, comma-separated."),
        click.option("--seconds", default=0.2, show_default=True, help="To sample one figure."),
        click.option("--budget", type=float, help="Seconds after which nothing new is begun."),
        click.option("--out", type=click.Path(path_type=Path), help="Where to write, without suffix."),
        click.option("--record", is_flag=True, help="Put a summary into docs/performance.md, too."),
    ):
        command = option(command)
    return command


@main.command()
@_options
def cpu(**options: object) -> None:
    """On the processor."""
    _run("cpu", CPU_SIZES, **options)  # type: ignore[arg-type]


@main.command()
@_options
def gpu(**options: object) -> None:
    """On a CUDA device."""
    if not torch.cuda.is_available():
        raise click.ClickException("torch sees no CUDA device")
    _run("cuda", GPU_SIZES, **options)  # type: ignore[arg-type]


@main.command()
def build() -> None:
    """How long the generator takes."""
    generator.show(Console())


@main.command("launch")
def launch_command() -> None:
    """Where the time of a call with few elements goes, on the processor."""
    launch.show(Console())


def _run(
    device: str,
    default_sizes: Sequence[int],
    ops: str | None,
    dtypes: str,
    peers: str,
    sizes: str | None,
    seconds: float,
    budget: float | None,
    out: Path | None,
    record: bool,
) -> None:
    names = ops.split(",") if ops else [case.name for case in CASES]
    if unknown := set(names) - {case.name for case in CASES}:
        raise click.UsageError(f"no such operation: {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if case.name in names]
    powers = [int(size) for size in sizes.split(",")] if sizes else default_sizes
    kinds = [getattr(torch, dtype) for dtype in dtypes.split(",")]
    results = report.Results(device, description(device))
    begun = time.monotonic()
    console = Console()
    work = [(case, dtype) for dtype in kinds for case in cases]
    with functions(cases) as made, Progress(console=console) as progress:
        bench = Bench(device, made, seconds, peers.split(","))
        task = progress.add_task(device, total=len(work))
        for case, dtype in work:
            progress.update(task, description=f"{case.name}, {dtype}")
            if budget and time.monotonic() - begun > budget:
                results.left_out.append(f"{case.name}, {str(dtype).removeprefix('torch.')}")
            else:
                _measure(bench, case, dtype, powers, results)
            progress.advance(task)
        results.cold = bench.cold
    report.show(results, console)
    slug = (results.machine.get("gpu") or results.machine["processor"]).lower().replace(" ", "-")
    stem = out or report.RESULTS / f"{device}-{slug}"
    results.save(stem)
    if record:
        report.record(results, stem)


def _measure(bench: Bench, case: Case, dtype: torch.dtype, powers: Sequence[int], results: report.Results) -> None:
    for power in powers:
        if case.traffic(1 << power, dtype, True) <= _MEMORY_OF_A_CASE:
            results.rows.extend(bench.rows(case, 1 << power, dtype))
    if dtype == torch.float32:
        results.saved[case.name] = bench.saved_bytes(case, dtype)


if __name__ == "__main__":
    main()
