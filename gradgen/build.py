"""What a build has to do, and doing it: which files are stale and why, generating them, writing them safely.

Finding out needs the stamps alone and imports neither SymPy nor Jinja2; the generator is imported when a file turns
out to be stale. A mistake in one spec does not stop the others: it becomes a `Failed` among the results.
"""

from __future__ import annotations

import keyword
import os
import secrets
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from gradgen import processes, stamp
from gradgen.errors import GradgenError
from gradgen.processes import Submit
from gradgen.stamp import Drift

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from gradgen.render import Section

_T = TypeVar("_T")

# What the modules of an output folder share, in the order in which it is written: before the modules that import it.
SHARED = ("__init__.py", "_runtime.py")


@dataclass(frozen=True)
class Target:
    """A file that a build writes.

    Attributes:
        path: where it is written.
        spec: the spec file that it is made from; None for what all modules share.
        source: the digests of what it is made from.
        existing: the text on disk; None when there is none.
        drift: why it is stale; () when it is fresh.
    """

    path: Path
    spec: Path | None
    source: stamp.Source
    existing: str | None
    drift: tuple[Drift, ...]

    @property
    def origin(self) -> Path:
        """The file to name when generating fails."""
        return self.spec or self.path


@dataclass(frozen=True)
class Survey:
    """What one call of the command is about.

    Attributes:
        stale: the files to generate.
        fresh: the files to leave alone.
        orphans: generated files in the output folder whose spec is gone.
        problems: the user's mistakes that were met on the way; they concern no other file.
        templates: the folder of the templates.
    """

    stale: tuple[Target, ...]
    fresh: tuple[Target, ...]
    orphans: tuple[Path, ...]
    problems: tuple[GradgenError, ...]
    templates: Path


@dataclass(frozen=True)
class Generated:
    """The whole text of a target, stamp included, how long it took, and what in it is not sound."""

    target: Target
    text: str
    seconds: float
    doubts: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the text is not the one on disk."""
        return self.text != self.target.existing


@dataclass(frozen=True)
class Failed:
    """Why a target could not be generated, in a form that crosses the border between processes.

    Attributes:
        target: the file that was to be written.
        message: what to tell the user.
        traceback: what to tell somebody who asks for it.
        is_bug: whether gradgen is to blame, and not the spec.
    """

    target: Target
    message: str
    traceback: str
    is_bug: bool


Result: TypeAlias = Generated | Failed

# What waits for the section of each op of a file
_Sections: TypeAlias = list[Callable[[], Any]]


def templates_dir() -> Path:
    """The folder of the templates that come with gradgen: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


def make_survey(
    paths: Sequence[Path], out: Path, templates: Path | None = None, *, force: bool = False, library: bool | None = None
) -> Survey:
    """Find the spec files, and which of the files that they give are stale.

    Args:
        paths: spec files, and folders of them.
        out: the folder of the generated files.
        templates: the folder of the templates; None for those that come with gradgen.
        force: whether to take every file for stale.
        library: whether ops are to be operators of `torch.ops` as well; None for those that are now.

    Raises:
        GradgenError: nothing at all can be built, because of `out` or `templates`.
    """
    templates = templates or templates_dir()
    if not templates.is_dir():
        raise GradgenError("no such folder of templates", file=templates)
    if out.exists() and not out.is_dir():
        raise GradgenError("the output folder is a file", file=out, hint="Name another folder with -o DIR.")

    specs, problems = _find_specs(paths)
    # Only folders tell all the specs there are; and a spec that was not found is no proof that it is gone.
    complete = all(path.is_dir() for path in paths) and not problems
    digest = stamp.generator_digest(templates)
    targets, obstacles = _find_targets(specs, out, digest, library) if specs else ([], [])
    return Survey(
        stale=tuple(target for target in targets if target.drift or force),
        fresh=tuple(target for target in targets if not (target.drift or force)),
        orphans=tuple(_find_orphans(out, specs)) if complete else (),
        problems=(*problems, *obstacles),
        templates=templates,
    )


def regenerate(survey: Survey, jobs: int | None = None, *, is_helped: bool = False) -> Iterator[Result]:
    """Generate what is stale, in the order of the survey, writing nothing.

    Args:
        survey: what to do.
        jobs: how many processes may work at once, each on an op; None for as many as there are processors.
        is_helped: whether two of them may work on an op if it is the only one; the other one is a fork of this one.

    Raises:
        GradgenError: a working process died.
    """
    if not survey.stale:
        return

    workers = min(jobs or processes.processors(), processes.MOST_WORKERS)
    specs = [target for target in survey.stale if target.spec]
    if len(specs) == 1 and workers > 1:
        only = _attempt(specs[0], _efforts, specs[0])
        if is_helped and isinstance(only, _Timed) and len(only.value) == 1:
            yield from _by_two(survey, specs[0])
            return
        workers = min(workers, len(only.value)) if isinstance(only, _Timed) else 1
    with processes.workers(workers) as submit:
        efforts = [submit(_attempt, target, _efforts, target) for target in survey.stale]
        begun: Iterable[_Sections | Failed] = (
            _sections(target, survey.templates, of_ops(), submit)
            for target, of_ops in zip(survey.stale, efforts, strict=True)
        )
        if workers > 1:
            begun = list(begun)
        for target, sections in zip(survey.stale, begun, strict=True):
            yield sections if isinstance(sections, Failed) else _joined(target, survey.templates, sections)


def _by_two(survey: Survey, spec: Target) -> Iterator[Result]:
    """Generate what is stale where its only spec has one op, with a process that does `_help_with_one` it."""
    help_with = partial(_help_with_one, spec.origin, survey.templates if len(survey.stale) > 1 else None)
    with processes.helper(help_with) as connection:
        section = _attempt(spec, _generator().section_by_two, spec.spec, survey.templates, connection)
        result = _joined(spec, survey.templates, [lambda: section])
        shared = None
        if connection and isinstance(section, _Timed) and len(survey.stale) > 1:
            with suppress(EOFError, OSError):
                shared = connection.recv()
        for target in survey.stale:
            yield result if target is spec else _joined(target, survey.templates, [], shared)


def _help_with_one(spec: Path, templates: Path | None, connection: Connection) -> None:
    """Take half of what takes long of an op, then print what modules share if there are templates for it."""
    generate = _generator()
    generate.help_with(spec, connection)
    if templates:
        connection.send(generate.shared(templates))


def build(survey: Survey, jobs: int | None = None, *, is_helped: bool = False) -> Iterator[Result]:
    """Generate what is stale and write it, each file as soon as its turn has come.

    Args and raises as `regenerate`; also raises GradgenError when a file cannot be written.
    """
    shared: list[Generated] = []  # waits for the first module that needs it: where all specs fail nothing is written
    for result in regenerate(survey, jobs, is_helped=is_helped):
        if isinstance(result, Generated) and result.target.spec is None:
            shared.append(result)
            continue
        if isinstance(result, Generated):
            yield from _written(shared)
            shared.clear()
            _write(result)
        yield result
    if survey.fresh or not any(target.spec for target in survey.stale):
        yield from _written(shared)


def _written(results: Iterable[Generated]) -> Iterator[Generated]:
    """The results, each once it is written."""
    for result in results:
        _write(result)
        yield result


def _write(result: Generated) -> None:
    if result.changed:
        write(result.target.path, result.text)


def write(path: Path, text: str) -> None:
    """Replace the file in one step, or leave it as it was: a reader never sees half of it, nor does a full disk.

    Raises:
        GradgenError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise GradgenError(f"cannot write this file: {error.strerror}", file=path) from error
    finally:
        with suppress(OSError):  # after success there is nothing to remove
            temporary.unlink()


def remove_orphan(path: Path) -> bool:
    """Remove a generated file whose spec is gone, unless somebody edited it; tell whether it was removed.

    Raises:
        GradgenError: it cannot be removed.
    """
    if not stamp.is_intact(_read(path)):
        return False
    try:
        path.unlink()
    except OSError as error:
        raise GradgenError(f"cannot remove this file: {error.strerror}", file=path) from error
    return True


@contextmanager
def _collected(problems: list[GradgenError]) -> Iterator[None]:
    """Put a mistake on the list, and go on after it."""
    try:
        yield
    except GradgenError as problem:
        problems.append(problem)


def _find_specs(paths: Iterable[Path]) -> tuple[list[Path], list[GradgenError]]:
    """The spec files under the paths, each once, with the mistakes among them."""
    specs: list[Path] = []
    problems: list[GradgenError] = []
    for path in paths:
        with _collected(problems):
            specs += _expand(path)
    by_name: dict[str, Path] = {}
    for spec in specs:
        with _collected(problems):
            _check_name(spec)
            _check_unique(spec, by_name)
            by_name.setdefault(spec.stem, spec)
    return list(by_name.values()), problems


def _expand(path: Path) -> list[Path]:
    """A spec file as itself, a folder as the spec files in it."""
    if path.is_dir():
        specs = sorted(file for file in path.glob("*.py") if file.is_file() and not file.name.startswith(("_", ".")))
        if not specs:
            raise GradgenError("no spec file in this folder", file=path, hint="A spec file is a Python file, NAME.py.")
        return specs
    if not path.exists():
        raise GradgenError("no such file or folder", file=path, hint="Name spec files, or folders that hold them.")
    if path.suffix != ".py":
        raise GradgenError("not a spec file", file=path, hint="A spec file is a Python file, NAME.py.")
    return [path]


def _check_name(spec: Path) -> None:
    """Refuse a spec whose generated module could not be imported, or would replace a file that modules share."""
    name = spec.stem
    if f"{name}.py" in SHARED:
        raise GradgenError(f"the name {name!r} is taken by a file that the modules share", file=spec, hint=_RENAME)
    if not name.isidentifier():
        raise GradgenError(f"{name!r} is no Python identifier, so no module can have it", file=spec, hint=_RENAME)
    if keyword.iskeyword(name):
        raise GradgenError(f"{name!r} is a Python keyword, so no module can have it", file=spec, hint=_RENAME)


def _check_unique(spec: Path, by_name: dict[str, Path]) -> None:
    """Refuse a second spec of one name; the same file named twice is none."""
    other = by_name.get(spec.stem, spec)
    if not other.samefile(spec):
        problem = f"two specs would give one module {spec.stem!r}, this one and {other}"
        raise GradgenError(problem, file=spec, hint="Rename one, or build them into two folders.")


_RENAME = "Rename the spec file."


def _find_targets(
    specs: Iterable[Path], out: Path, generator: str, library: bool | None
) -> tuple[list[Target], list[GradgenError]]:
    """What the specs give, after what their modules share, with the mistakes that were met."""
    wanted: list[tuple[Path, Path | None]] = [(out / name, None) for name in SHARED if not _is_users_init(out / name)]
    wanted += [(out / spec.name, spec) for spec in specs]
    targets: list[Target] = []
    problems: list[GradgenError] = []
    for path, spec in wanted:
        with _collected(problems):
            targets.append(_examine(path, spec, generator, library))
    return targets, problems


def _is_users_init(path: Path) -> bool:
    """Whether this is an `__init__.py` of the user's own, which does as well as the generated one and stays."""
    return path.name == "__init__.py" and path.exists() and not stamp.is_stamped(_read(path))


def _examine(path: Path, spec: Path | None, generator: str, library: bool | None) -> Target:
    """Compare the stamp of the file, where there is one, with what it is made from."""
    existing = _read(path) if path.exists() else None
    if library is None:
        library = existing is not None and stamp.is_stamped(existing) and stamp.is_library(existing)
    source = stamp.Source(generator)
    if spec:
        source = stamp.Source(generator, spec.name, stamp.digest(_read_bytes(spec)), library)
    if existing is None:
        return Target(path, spec, source, None, (Drift.MISSING,))
    if not stamp.is_stamped(existing):
        hint = "gradgen never overwrites a file that it did not write: move it away, or choose another folder with -o."
        raise GradgenError("this file is in the way of a generated one", file=path, hint=hint)
    return Target(path, spec, source, existing, source.drift(existing))


def _find_orphans(out: Path, specs: Iterable[Path]) -> Iterator[Path]:
    """The generated modules in the output folder that no spec gives."""
    names = {spec.name for spec in specs}
    for path in sorted(out.glob("*.py")):
        known = path.name in names or path.name.startswith(("_", "."))
        if not known and path.is_file() and stamp.is_stamped(_read(path)):
            yield path


def _read(path: Path) -> str:
    """The text of a file that may be anything; what is no UTF-8 is no text of gradgen's and need not survive."""
    return _read_bytes(path).decode("utf-8", errors="replace").replace("\r\n", "\n")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GradgenError(f"cannot read this file: {error.strerror}", file=path) from error


@dataclass(frozen=True)
class _Timed(Generic[_T]):
    """What a step towards a file gave, and when it was begun and done, by a clock that all processes have."""

    value: _T
    begun: float
    done: float


def _attempt(target: Target, step: Callable[..., _T], *args: object) -> _Timed[_T] | Failed:
    """Take a step towards a file; whatever goes wrong becomes a result, so that the other files are not stopped."""
    try:
        begun = time.monotonic()
        value = step(*args)
        return _Timed(value, begun, time.monotonic())
    except GradgenError as error:
        return Failed(target, str(error.located(target.origin)), traceback.format_exc(), is_bug=False)
    except Exception as error:
        message = f"{target.origin}: this is a bug in gradgen, not in the spec ({_one_line(error)})"
        return Failed(target, message, traceback.format_exc(), is_bug=True)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _generator() -> ModuleType:
    """The rest of the generator, which loads SymPy and Jinja2; gmpy2 swallows an interrupt while it is loaded."""
    with processes.interrupts_held():
        from gradgen import generate
    return generate


def _efforts(target: Target) -> list[int]:
    """For each section of a target how long it takes, beside others."""
    return _generator().efforts(target.spec) if target.spec else []


def _text(target: Target, templates: Path, sections: Sequence[Section], shared: Mapping[str, str] | None) -> str:
    """The whole text of a target, from what the ops of its spec bring, or one of those that modules share."""
    generate = _generator()
    if target.spec is None:
        return target.source.stamp((shared or generate.shared(templates))[target.path.name])
    if stamp.digest(_read_bytes(target.spec)) != target.source.spec:  # its ops may be of two versions
        raise GradgenError("it changed while it was built", file=target.spec, hint="Build again.")
    return target.source.stamp(generate.assembled(target.spec, templates, sections, target.source.library))


def _sections(
    target: Target, templates: Path, efforts: _Timed[list[int]] | Failed, submit: Submit
) -> _Sections | Failed:
    """What waits for the section of each op of a target; that with most to do is the first to be begun."""
    if isinstance(efforts, Failed):
        return efforts
    section = _generator().section
    begun = {
        k: submit(_attempt, target, section, target.spec, templates, k)
        for k, _ in sorted(enumerate(efforts.value), key=lambda entry: -entry[1])
    }
    return [begun[k] for k in range(len(begun))]


def _joined(target: Target, templates: Path, sections: _Sections, shared: Mapping[str, str] | None = None) -> Result:
    """A target, once its sections are there; the first mistake among them otherwise.

    `shared` are the texts that modules share, where they are known.
    """
    texts, begun = [], []
    for result in sections:
        section = result()
        if isinstance(section, Failed):
            return section
        texts.append(section.value)
        begun.append(section.begun)
    last = _attempt(target, _text, target, templates, texts, shared)
    if isinstance(last, Failed):
        return last
    doubts = tuple(doubt for text in texts for doubt in text.doubts)
    return Generated(target, last.value, last.done - min(begun, default=last.begun), doubts)
