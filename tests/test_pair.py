"""Two processes that build one op give what one does, and one does where the other fails it."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gradgen import build, generate, pair, processes
from gradgen.build import templates_dir
from gradgen.graph import Graph
from gradgen.pair import Pair, PartedError
from gradgen.render import Section

HEAD = "from sympy import *\nfrom gradgen import op\n\n"
FORMULAS = {
    "swish": "@op\ndef f(x, beta: float = 1.0):\n    return x/(1 + exp(-beta*x))\n",
    "langevin": "@op\ndef f(x):\n    return coth(x) - 1/x\n",
    "gated": "@op\ndef f(x, y):\n    return x*y/(1 + exp(-y))\n",
    "distance": "@op\ndef f(x, y):\n    return sqrt(1 + (x - y)**2) - 1\n",
}


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the command, which has none."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def spec(text: str, folder: Path) -> Path:
    file = folder / "spec.py"
    file.write_text(HEAD + text)
    return file


def by_two(file: Path, help_with: Callable[[Connection], None]) -> tuple[Section, bool]:
    """What an op brings to its module, and whether the other process helped to the end."""
    with processes.helper(help_with) as connection:
        assert connection
        section = generate.section_by_two(file, templates_dir(), connection)
        return section, not connection.closed


@pytest.mark.parametrize("name", ["swish", "langevin", "gated"])
def test_two_find_what_one_does(name: str, tmp_path: Path) -> None:
    file = spec(FORMULAS[name], tmp_path)
    section, is_helped = by_two(file, partial(generate.help_with, file))
    assert is_helped
    assert section == generate.section(file, templates_dir(), 0)


def of_another_formula(folder: Path, connection: Connection) -> None:
    generate.help_with(spec(FORMULAS["distance"], folder), connection)


def gone_at_once(_: Path, connection: Connection) -> None:
    connection.close()


def gone_in_between(folder: Path, connection: Connection) -> None:
    exchanged, steps = Pair.exchanged, iter(range(4))

    def fails(self: Pair, step: str, found: object) -> object:
        return exchanged(self, step, found) if next(steps, None) is not None else connection.close()

    Pair.exchanged = fails  # type: ignore[method-assign]
    generate.help_with(spec(FORMULAS["langevin"], folder), connection)


@pytest.mark.parametrize("fails", [of_another_formula, gone_at_once, gone_in_between], ids=lambda f: f.__name__)
def test_one_goes_on_alone_where_the_other_fails_it(fails: Callable[..., None], tmp_path: Path) -> None:
    file = spec(FORMULAS["langevin"], tmp_path)
    (tmp_path / "other").mkdir()
    section, is_helped = by_two(file, partial(fails, tmp_path / "other"))
    assert not is_helped
    assert section == generate.section(file, templates_dir(), 0)


class Other:
    """The other end of a connection, of a process that takes the same steps, or others."""

    def __init__(self, *steps: object) -> None:
        self.steps = iter(steps)

    def send(self, _: object) -> None:
        pass

    def recv(self) -> tuple[object, object]:
        return next(self.steps), "theirs"


def test_each_does_its_half() -> None:
    """What is asked of the other side is not computed."""
    asked = []

    def first() -> str:
        asked.append("first")
        return "mine"

    step: tuple[list[str], list[int]] = ([], [])
    for side, found in ((0, ("mine", "theirs")), (1, ("theirs", "mine"))):
        with pair.working(Pair(Other((0, step), (1, step), (2, step)), side)):  # type: ignore[arg-type]
            functions = [first, pytest.fail] if side == 0 else [pytest.fail, first]
            assert pair.both([], *functions) == found
            assert [pair.does(0), pair.does(1)] == [side == 0, side == 1]
            assert pair.by(side, [], first) == "mine"
            assert pair.by(1 - side, [], pytest.fail) == "theirs"  # type: ignore[arg-type]
    assert len(asked) == 4
    assert pair.does(0)
    assert pair.does(1)
    assert pair.both([], first, first) == ("mine", "mine")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100])
def test_each_of_many_is_computed_once_and_in_order(count: int) -> None:
    ours, theirs = multiprocessing.Pipe()
    asked: tuple[list[int], list[int]] = ([], [])

    def found(end: Connection, side: int) -> list[int]:
        def squared(x: int) -> int:
            asked[side].append(x)
            return x * x

        with pair.working(Pair(end, side)):
            return [*pair.each(Graph().input("x"), squared, range(count))]

    with ours, theirs, ThreadPoolExecutor(2) as threads:
        both = [threads.submit(found, end, side) for side, end in enumerate((ours, theirs))]
        assert [one.result(timeout=20) for one in both] == [[x * x for x in range(count)]] * 2
    assert sorted(asked[0] + asked[1]) == [*range(count)]
    assert abs(len(asked[0]) - len(asked[1])) <= 1


@pytest.mark.parametrize("step", [(0, "exp add"), (1, "exp mul")], ids=str)
def test_what_is_not_at_the_same_step_is_not_believed(step: object) -> None:
    with pytest.raises(PartedError):
        Pair(Other(step), 0).exchanged("exp mul", 2.0)  # type: ignore[arg-type]


def test_what_makes_a_node_on_one_side_alone_is_noticed() -> None:
    """Of two nodes that are alike the first one tells the order of operands."""
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        for connection, side in ((ours, 0), (theirs, 1)):
            graph = Graph()
            x = graph.input("x")
            if side == 1:
                x * 2
                with pytest.raises(PartedError), pair.working(Pair(connection, side)):
                    pair.by(1, [x], lambda: 2.0)
            else:
                connection.send(((0, (["input"], [len(graph)])), 1.0))


def test_large_results_do_not_block() -> None:
    """Each would wait for the other one to read what is more than a pipe holds."""
    ours, theirs = multiprocessing.Pipe()
    large = "x" * (1 << 24)
    with ours, theirs, ThreadPoolExecutor(2) as threads:
        both = [threads.submit(Pair(end, side).exchanged, "", large) for end, side in ((ours, 0), (theirs, 1))]
        assert [found.result(timeout=20) == large for found in both] == [True, True]


class TestBuild:
    @pytest.fixture(autouse=True)
    def _alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def built(self, text: str, jobs: int) -> dict[str, str]:
        """The texts, or what was complained of."""
        file = Path("swish.py")
        file.write_text(HEAD + text)
        survey = build.make_survey([file], Path("generated"))
        results = [*build.regenerate(survey, jobs, is_helped=True)]
        return {
            result.target.path.name: result.text if isinstance(result, build.Generated) else result.message
            for result in results
        }

    def test_files_are_the_same_by_two_and_in_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alone = self.built(FORMULAS["langevin"], jobs=1)
        printed, this = generate.shared, os.getpid()

        def shared(templates: Path) -> dict[str, str]:
            return printed(templates) if os.getpid() != this else pytest.fail("the other process prints it")

        monkeypatch.setattr(generate, "shared", shared)
        by_two = self.built(FORMULAS["langevin"], jobs=2)
        assert by_two == alone
        assert [*by_two] == ["__init__.py", "_runtime.py", "swish.py"]

    def test_files_are_the_same_where_no_help_comes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alone = self.built(FORMULAS["langevin"], jobs=1)
        monkeypatch.setattr(build, "_help_with_one", partial(gone_at_once, Path()))
        assert self.built(FORMULAS["langevin"], jobs=2) == alone

    def test_files_are_the_same_where_no_process_can_be_had(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def start(_: object) -> None:
            raise BlockingIOError

        alone = self.built(FORMULAS["langevin"], jobs=1)
        monkeypatch.setattr(multiprocessing.context.ForkProcess, "start", start)
        assert self.built(FORMULAS["langevin"], jobs=2) == alone

    def test_a_process_with_threads_is_not_forked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One of them might hold what the other process would wait for."""
        monkeypatch.setattr(threading, "active_count", lambda: 2)
        with processes.helper(pytest.fail) as connection:
            assert connection is None
        assert "swish.py" in self.built(FORMULAS["langevin"], jobs=2)

    def test_a_mistake_is_told_as_by_one(self) -> None:
        for text in ("@op\ndef f(x):\n    return besselk(0, x)\n", "@op\ndef f(x):\n    return zeta(x)\n", "f ="):
            told = self.built(text, jobs=2)
            assert told["swish.py"].startswith("swish.py:")
            assert told == self.built(text, jobs=1)

    def test_what_a_spec_prints_is_seen_once(self) -> None:
        Path("loud.py").write_text(HEAD + "import os\nprint('loud')\nos.system('echo loud')\n" + FORMULAS["langevin"])
        command = [sys.executable, "-m", "gradgen", "build", "loud.py", "--force", "--jobs"]
        shown = [subprocess.run([*command, jobs], capture_output=True, text=True) for jobs in ("1", "2")]
        assert [done.stdout.count("loud\n") for done in shown] == [2, 2], shown

    def test_helpers_end_with_the_build(self) -> None:
        code = inspect.cleandoc(
            """
            import multiprocessing, pathlib
            from gradgen import build
            survey = build.make_survey([pathlib.Path("swish.py")], pathlib.Path("out"))
            results = build.regenerate(survey, 2, is_helped=True)
            next(results)
            (helper,) = multiprocessing.active_children()
            results.close()
            assert not helper.is_alive()
            """
        )
        Path("swish.py").write_text(HEAD + FORMULAS["langevin"])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
