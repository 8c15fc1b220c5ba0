"""The command `gradgen`: what its subcommands are called, what they print, and with which code they end.

Nothing heavy is imported here: a call that finds everything fresh is over before SymPy would be loaded.
"""

from __future__ import annotations

import difflib
import functools
import math
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from enum import IntEnum
from pathlib import Path
from typing import Any

import click

from gradgen import __version__, build, processes
from gradgen.errors import GradgenError
from gradgen.stamp import Drift, unstamped

# A progress bar is shown from this many stale files on; fewer are done before anybody looks.
_LONG = 4

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Exit(IntEnum):
    """Exit codes; where several apply, the greatest is given."""

    FINE = 0
    DRIFT = 1
    UNSOUND = 1
    MISTAKE = 2
    BUG = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130  # what a shell reports for a process that Ctrl-C ended


class Command(click.Command):
    """A subcommand: a function that returns its exit code, and that may raise, for every error is reported alike."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."))

    def invoke(self, ctx: click.Context) -> None:
        """Run the function, turn what it raises into a message, and end with its code."""
        ctx.obj = ctx.params.pop("debug")
        try:
            code = super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted; every file that was written is whole.", err=True)
            code = Exit.INTERRUPTED
        except BrokenPipeError:
            raise  # click ends quietly when nobody reads on, as in `gradgen check | head`
        except (GradgenError, OSError) as error:  # OSError: such as a folder that nobody may look into
            code = _complain(str(error), traceback.format_exc())
        except Exception as error:
            message = f"this is a bug in gradgen ({type(error).__name__}: {error})"
            code = _complain(message, traceback.format_exc(), is_bug=True)
        ctx.exit(code)


def _complain(message: str, trace: str, *, is_bug: bool = False) -> Exit:
    """Print an error, under --debug with its traceback, and give the exit code that it asks for."""
    debug = click.get_current_context().obj
    if debug:
        click.echo(trace, err=True)
    elif is_bug:
        message += "; please report it, with what --debug shows"
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {message}", err=True)
    return Exit.BUG if is_bug else Exit.MISTAKE


_templates = click.option(
    "--templates",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of templates in place of those that come with gradgen.",
)


def _surveyed(function: Callable[..., Exit]) -> Callable[..., Exit]:
    """Give a subcommand the arguments that say what to build, and hand it the survey that they amount to."""

    @click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILES or FOLDERS]")
    @click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        default=Path("generated"),
        show_default=True,
        metavar="DIR",
        help="The folder of the generated files.",
    )
    @click.option("--force", is_flag=True, help="Generate what looks fresh, too.")
    @click.option(
        "--library/--no-library",
        default=None,
        show_default="as each file is",
        help="Have the ops as operators of torch.ops.gradgen as well, or no longer.",
    )
    @_templates
    @click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        show_default="one for each processor",
        help="How many processes may work at once.",
    )
    @functools.wraps(function)
    def surveyed(
        paths: tuple[Path, ...],
        output: Path,
        force: bool,
        library: bool | None,
        templates: Path | None,
        jobs: int | None,
        **options: Any,
    ) -> Exit:
        survey = build.make_survey(paths or (Path("formulas"),), output, templates, force=force, library=library)
        return function(survey, jobs, **options)

    return surveyed


@click.group(context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="gradgen", message="%(prog)s %(version)s")
def main() -> None:
    """From a SymPy formula to a fused, differentiable PyTorch operation."""
    processes.collect_rarely()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else NumPy starts threads, for what nobody asks for


@main.command("build", cls=Command, context_settings=_SETTINGS)
@_surveyed
@click.option("--fail-on-change", is_flag=True, help="End with exit code 1 when a file changed, as formatters do.")
def build_command(survey: build.Survey, jobs: int | None, fail_on_change: bool) -> Exit:
    """Build the formulas that changed.

    FILES are spec files, FOLDERS hold them; by default it is the folder formulas/. When folders alone are given, they
    are taken for all there is: a generated file in the output folder whose spec is in none of them is removed.
    """
    code = _report_problems(survey)
    built = changed = failed = 0
    with closing(_tracked(build.build(survey, jobs, is_helped=True), len(survey.stale))) as results:
        for result in results:
            if isinstance(result, build.Failed):
                code = max(code, _report_failure(result))
                failed += 1
            else:
                click.echo(_built_line(result))
                for doubt in result.doubts:
                    click.echo(f"  {doubt}")
                built += 1
                changed += result.changed
    removed = sum(_remove_orphan(path) for path in survey.orphans)
    _summarise(built=built, fresh=len(survey.fresh), removed=removed, failed=failed)
    return max(code, Exit.DRIFT) if fail_on_change and (changed or removed) else code


@main.command("check", cls=Command, context_settings=_SETTINGS)
@_surveyed
def check_command(survey: build.Survey, jobs: int | None) -> Exit:
    """Show what a build would change.

    The arguments are those of the build. The exit code is 1 if it would change anything, else 0.
    """
    code = _report_problems(survey)
    drifted, fresh, failed = 0, len(survey.fresh), 0
    with closing(_tracked(build.regenerate(survey, jobs, is_helped=True), len(survey.stale))) as results:
        for result in results:
            if isinstance(result, build.Failed):
                code = max(code, _report_failure(result))
                failed += 1
            elif result.changed:
                _report_drift(result)
                drifted += 1
            else:
                fresh += 1
    for path in survey.orphans:
        click.echo(f"{path}: {Drift.ORPHAN.value}")
        drifted += 1
    _summarise(drifted=drifted, fresh=fresh, failed=failed)
    return max(code, Exit.DRIFT) if drifted else code


@main.command("explain", cls=Command, context_settings=_SETTINGS)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("op", required=False)
@click.option("--second", is_flag=True, help="Include the double backward.")
@click.option("--latex", is_flag=True, help="Print the formula and its derivatives as LaTeX (amsmath), nothing else.")
def explain_command(file: Path, op: str | None, second: bool, latex: bool) -> Exit:
    """Show what is made of a formula, and why.

    For OP, or for every op of the spec file FILE: the rules that were applied, the derivatives, what is kept for
    backward, and the operations and the bytes that an element takes.
    """
    from rich.console import Console

    from gradgen.explain import explain

    console = Console(highlight=False)
    for i, explanation in enumerate(explain(file, op)):
        if i:
            click.echo()
        if latex:
            click.echo(explanation.latex(second))
        else:
            for line, style in explanation.lines(second):
                console.print(line, style=style, markup=False, emoji=False, soft_wrap=True)
    return Exit.FINE


def _number(_: click.Context, option: click.Parameter, value: float) -> float:
    """The value of an option that NaN passes as, for it is not less than anything."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number", param=option)
    return value


@main.command("verify", cls=Command, context_settings=_SETTINGS)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILES or FOLDERS]")
@_templates
@click.option(
    "--bar",
    type=click.FloatRange(min=0),
    callback=_number,
    default=4.0,
    show_default=True,
    metavar="ULPS",
    help="The largest error that passes.",
)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="what is quick",
    help="How many points of each kind to look at for each type; the ends of float64 among them, which takes a while.",
)
@click.option("--exhaustive", is_flag=True, help="Go through every float16, bfloat16 and float32 input as well.")
@click.option(
    "--stride",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="With --exhaustive: of the float32 inputs every Nth.",
)
@click.option(
    "--path",
    "only",
    type=click.Choice(["cpu", "cuda", "torch"]),
    multiple=True,
    show_default="all that can be had",
    help="Measure this way to compute; may be given for several.",
)
@click.option(
    "--with",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A hyper-parameter, in each op that has it, in place of its default; may be given for several.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the table, that of CUDA by itself, into this Markdown file; rows of other ops stay; they must have been"
    " measured in this way.",
)
def verify_command(paths: tuple[Path, ...], **options: Any) -> Exit:
    """Measure how exact the operations are.

    FILES are spec files, FOLDERS hold them; by default it is the folder formulas/. Each op is built anew, into a folder
    of its own, and value, gradients and second derivatives are compared with the exact results of the formula: on
    every path that can be had here, for every type. So are the paths with one another, and torch's gradcheck and
    gradgradcheck look at the derivatives. The exit code is 1 if one of these fails, an error is over the bar, or a
    result is bad, that is, NaN or infinite where it should be a number, or the reverse.

    --exhaustive compares the C kernels with those for float64 at every input there is, which takes minutes for each op
    of one input; of several inputs, at ten million tuples. Some of these are held against the formula itself, for what
    both kernels have wrong. Where there is a CUDA device it compares the CUDA kernels likewise.
    """
    from gradgen.verify import Settings, verify

    return Exit.FINE if verify(Settings(paths or (Path("formulas"),), **options)) else Exit.UNSOUND


def _tracked(results: Iterator[build.Result], total: int) -> Generator[build.Result, None, None]:
    """The same results, under a progress bar where somebody watches and it takes a while."""
    if total >= _LONG and sys.stdout.isatty():
        from rich.progress import track

        results = iter(track(results, "Building", total, transient=True))
    yield from results


def _report_problems(survey: build.Survey) -> Exit:
    """Print the mistakes that were met in the survey."""
    codes = [_complain(str(problem), "".join(traceback.format_exception(problem))) for problem in survey.problems]
    return max(codes, default=Exit.FINE)


def _report_failure(failure: build.Failed) -> Exit:
    return _complain(failure.message, failure.traceback, is_bug=failure.is_bug)


def _built_line(result: build.Generated) -> str:
    verb = "built" if result.changed else "unchanged"
    edits = ", over edits made by hand" if Drift.EDITED in result.target.drift else ""
    return f"{verb} {result.target.path} ({result.seconds:.2f} s){edits}"


def _remove_orphan(path: Path) -> bool:
    """Remove a generated file without a spec, say so, and tell whether it is gone."""
    if build.remove_orphan(path):
        click.echo(f"removed {path}: {Drift.ORPHAN.value}")
        return True
    click.echo(f"kept {path}: {Drift.ORPHAN.value}, but it was {Drift.EDITED.value}; remove it yourself", err=True)
    return False


def _report_drift(result: build.Generated) -> None:
    """Print why a file on disk is not what a build gives, and how it differs."""
    path, existing = result.target.path, result.target.existing
    reasons = ", ".join(drift.value for drift in result.target.drift or (Drift.TEXT,))
    if existing is None:
        click.echo(f"{path}: {reasons}")
    elif unstamped(existing) == unstamped(result.text):
        click.echo(f"{path}: {reasons}; nothing but its stamp would change")
    else:
        click.echo(f"{path}: {reasons}")
        for line in _diff(path, existing, result.text):
            click.echo(line, nl=False)


def _diff(path: Path, before: str, after: str) -> Iterator[str]:
    """A unified diff, in the usual colours; click takes them out where no terminal shows them."""
    styles: dict[str, dict[str, Any]] = {"+": {"fg": "green"}, "-": {"fg": "red"}, "@": {"fg": "cyan"}}
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"{path}", f"{path} as a build gives it"
    )
    for line in lines:
        whole = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        yield click.style(whole, **styles.get(line[0], {}))


def _summarise(**counts: int) -> None:
    """Print how many files met which fate, such as `1 built, 16 fresh`."""
    summary = ", ".join(f"{count} {fate}" for fate, count in counts.items() if count)
    if summary:
        click.echo(summary)
