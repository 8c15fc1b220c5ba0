"""The command: what it prints, what it writes, with which code it ends.

Most tests put a generator of one line in the place of the real one, to see the command alone; `TestWithTheGenerator`
has both, in processes of their own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace

import click.testing
import pytest

import gradgen
from gradgen.cli import main
from gradgen.errors import GradgenError

REPOSITORY = Path(__file__).parent.parent
HEAVY = ("sympy", "mpmath", "torch", "jinja2", "rich", "multiprocessing")

Command = Callable[..., click.testing.Result]


def stand_in() -> ModuleType:
    """A `gradgen.generate` for specs that say what happens: a text to generate, or a mistake, or a bug."""

    def assembled(spec: Path, templates: Path, sections: list[None], library: bool = False) -> str:
        text = spec.read_text()
        if "mistake" in text:
            raise GradgenError("a mistake", line=1, expression=text.strip())
        if "bug" in text:
            raise KeyError("bug")
        if "interrupt" in text:
            raise KeyboardInterrupt
        return f'"""Made of {text.strip()}."""\n'

    def section(spec: Path, templates: Path, k: int) -> SimpleNamespace:
        if "changing" in spec.read_text():
            spec.write_text("changed\n")
        return SimpleNamespace(doubts=())

    result = ModuleType("gradgen.generate")
    result.efforts = lambda spec: [1]  # type: ignore[attr-defined]
    result.section = section  # type: ignore[attr-defined]
    result.assembled = assembled  # type: ignore[attr-defined]
    result.shared = lambda templates: {  # type: ignore[attr-defined]
        name: f'"""{name}."""\n' for name in ("_runtime.py", "__init__.py")
    }
    return result


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, in a folder with the specs relu and swish, with the stand-in for a generator."""
    generator = stand_in()
    monkeypatch.setitem(sys.modules, "gradgen.generate", generator)
    monkeypatch.setattr(gradgen, "generate", generator, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("formulas").mkdir()
    for name in ("relu", "swish"):
        Path(f"formulas/{name}.py").write_text(f"{name}\n")

    def run(name: str, *arguments: str, color: bool = False) -> click.testing.Result:
        # One job: a stand-in cannot follow into other processes.
        return click.testing.CliRunner().invoke(main, [name, *arguments, "--jobs", "1"], color=color)

    return run


def generated() -> dict[str, tuple[bytes, int]]:
    """The files of the output folder, with what tells whether one was touched."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("generated").iterdir()}


def edit(path: str, text: str = "# by hand\n") -> None:
    with Path(path).open("a") as file:
        file.write(text)


class TestBuild:
    def test_builds_formulas_into_generated(self, command: Command) -> None:
        result = command("build")
        assert result.exit_code == 0
        *lines, summary = result.stdout.splitlines()
        assert [line.split(" (")[0] for line in lines] == [
            "built generated/__init__.py",
            "built generated/_runtime.py",
            "built generated/relu.py",
            "built generated/swish.py",
        ]
        assert lines[-1].endswith(" s)")
        assert summary == "4 built"
        first, _, *rest = Path("generated/swish.py").read_text().splitlines()
        assert "from swish.py" in first
        assert rest == ['"""Made of swish."""']
        assert Path("generated/_runtime.py").read_text().endswith('"""_runtime.py."""\n')

    def test_leaves_alone_what_is_fresh(self, command: Command) -> None:
        command("build")
        before = generated()
        result = command("build")
        assert (result.exit_code, result.stdout) == (0, "4 fresh\n")
        assert generated() == before

    def test_builds_what_changed_alone(self, command: Command) -> None:
        command("build")
        before = generated()
        edit("formulas/swish.py", "more\n")
        result = command("build")
        assert result.stdout.startswith("built generated/swish.py (")
        assert result.stdout.endswith("1 built, 3 fresh\n")
        after = generated()
        assert after.pop("swish.py") != before.pop("swish.py")
        assert after == before

    def test_takes_files_and_another_folder(self, command: Command) -> None:
        result = command("build", "formulas/swish.py", "-o", "deep/ops")
        assert result.exit_code == 0
        assert sorted(path.name for path in Path("deep/ops").iterdir()) == ["__init__.py", "_runtime.py", "swish.py"]

    def test_force_generates_anew_and_touches_nothing_that_is_right(self, command: Command) -> None:
        command("build")
        before = generated()
        result = command("build", "--force")
        assert "unchanged generated/swish.py (" in result.stdout
        assert result.stdout.endswith("4 built\n")
        assert generated() == before

    def test_uses_templates_of_the_users_own(self, command: Command) -> None:
        Path("mine").mkdir()
        Path("mine/any.j2").touch()
        assert command("build", "--templates", "mine").exit_code == 0
        assert command("check", "--templates", "mine").exit_code == 0
        assert "the templates or the generator changed" in command("check").stdout

    def test_says_that_it_overwrites_edits(self, command: Command) -> None:
        command("build")
        edit("generated/swish.py")
        assert "s), over edits made by hand\n" in command("build").stdout
        assert command("check").exit_code == 0

    def test_fails_on_change_when_asked_to(self, command: Command) -> None:
        assert command("build", "--fail-on-change").exit_code == 1
        assert command("build", "--fail-on-change").exit_code == 0
        assert command("build", "--force", "--fail-on-change").exit_code == 0
        Path("formulas/relu.py").unlink()
        assert command("build", "--fail-on-change").exit_code == 1

    def test_removes_a_module_whose_spec_is_gone(self, command: Command) -> None:
        command("build")
        Path("generated/mine.py").touch()
        Path("formulas/relu.py").unlink()
        result = command("build")
        assert result.exit_code == 0
        assert result.stdout == "removed generated/relu.py: its spec is gone\n3 fresh, 1 removed\n"
        assert sorted(generated()) == ["__init__.py", "_runtime.py", "mine.py", "swish.py"]

    def test_keeps_an_edited_module_whose_spec_is_gone(self, command: Command) -> None:
        command("build")
        edit("generated/relu.py")
        Path("formulas/relu.py").unlink()
        result = command("build")
        assert result.exit_code == 0
        assert result.stderr.startswith("kept generated/relu.py: its spec is gone, but it was edited by hand")
        assert "relu.py" in generated()

    def test_removes_nothing_when_only_files_were_named(self, command: Command) -> None:
        command("build")
        Path("formulas/relu.py").unlink()
        assert command("build", "formulas/swish.py").exit_code == 0
        assert "relu.py" in generated()


class TestCheck:
    def test_is_short_when_all_is_fresh(self, command: Command) -> None:
        command("build")
        result = command("check")
        assert (result.exit_code, result.output) == (0, "4 fresh\n")

    def test_shows_the_difference_and_the_reason(self, command: Command) -> None:
        command("build")
        before = generated()
        Path("formulas/swish.py").write_text("sigmoid\n")
        result = command("check")
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        assert lines[:3] == [
            "generated/swish.py: the spec changed",
            "--- generated/swish.py",
            "+++ generated/swish.py as a build gives it",
        ]
        assert '-"""Made of swish."""' in lines
        assert lines[-2:] == ['+"""Made of sigmoid."""', "1 drifted, 3 fresh"]
        assert generated() == before

    def test_undoes_in_the_diff_what_was_edited_by_hand(self, command: Command) -> None:
        command("build")
        edit("generated/swish.py", "# by hand")
        result = command("check")
        assert result.exit_code == 1
        assert "generated/swish.py: edited by hand\n" in result.stdout
        assert "\n-# by hand\n\\ No newline at end of file\n" in result.stdout

    def test_needs_one_line_when_only_the_stamp_is_old(self, command: Command) -> None:
        command("build")
        edit("formulas/swish.py", "\n")
        result = command("check")
        assert result.exit_code == 1
        assert result.stdout == (
            "generated/swish.py: the spec changed; nothing but its stamp would change\n1 drifted, 3 fresh\n"
        )

    def test_tells_what_is_missing_and_creates_nothing(self, command: Command) -> None:
        result = command("check")
        assert result.exit_code == 1
        assert result.stdout.splitlines()[-2:] == ["generated/swish.py: missing", "4 drifted"]
        assert not Path("generated").exists()

    def test_reports_a_module_whose_spec_is_gone(self, command: Command) -> None:
        command("build")
        Path("formulas/relu.py").unlink()
        result = command("check")
        assert (result.exit_code, result.stdout) == (1, "generated/relu.py: its spec is gone\n1 drifted, 3 fresh\n")
        assert "relu.py" in generated()

    def test_force_finds_what_stamps_cannot_tell(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        command("build")
        assert command("check", "--force").stdout == "4 fresh\n"
        monkeypatch.setattr(sys.modules["gradgen.generate"], "assembled", lambda *_: "PASS = 1\n")
        assert command("check").exit_code == 0
        result = command("check", "--force")
        assert result.exit_code == 1
        assert "generated/swish.py: generated anew, the text differs" in result.stdout

    def test_colours_the_diff_in_a_terminal_alone(self, command: Command) -> None:
        command("build")
        edit("generated/swish.py")
        assert "\x1b" not in command("check").stdout
        assert "\x1b[31m-# by hand\n\x1b[0m" in command("check", color=True).stdout


class TestErrors:
    @pytest.mark.parametrize("name", ["build", "check"])
    def test_a_missing_folder_is_a_mistake(self, command: Command, name: str) -> None:
        result = command(name, "nowhere")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("Error: nowhere: no such file or folder\n")
        assert "Traceback" not in result.stderr

    @pytest.mark.parametrize("name", ["build", "check"])
    def test_a_mistake_in_one_spec_does_not_stop_the_others(self, command: Command, name: str) -> None:
        command("build")
        Path("formulas/relu.py").write_text("mistake\n")
        Path("formulas/a-b.py").touch()
        edit("formulas/swish.py", "more\n")
        before = generated()
        result = command(name)
        assert result.exit_code == 2
        assert "Error: formulas/a-b.py: 'a-b' is no Python identifier" in result.stderr
        assert "Error: formulas/relu.py:1: a mistake\n    mistake\n" in result.stderr
        assert "generated/swish.py" in result.stdout
        assert result.stdout.endswith(", 2 fresh, 1 failed\n")
        assert generated()["relu.py"] == before["relu.py"]
        assert (generated()["swish.py"] != before["swish.py"]) == (name == "build")

    @pytest.mark.parametrize("name", ["build", "check"])
    @pytest.mark.parametrize(("text", "code"), [("mistake\n", 2), ("bug\n", 70)])
    def test_a_failure_outranks_drift(self, command: Command, name: str, text: str, code: int) -> None:
        Path("formulas/relu.py").write_text(text)
        assert command(name).exit_code == code

    @pytest.mark.parametrize("text", ["mistake\n", "bug\n"])
    def test_debug_shows_the_traceback(self, command: Command, text: str) -> None:
        Path("formulas/relu.py").write_text(text)
        assert "Traceback" not in command("build").stderr
        assert "Traceback (most recent call last):" in command("build", "--debug").stderr

    def test_debug_shows_the_traceback_of_a_wrong_call(self, command: Command) -> None:
        assert "Traceback (most recent call last):" in command("build", "formulas", "nowhere", "--debug").stderr
        Path("file").touch()
        assert "Traceback (most recent call last):" in command("build", "-o", "file", "--debug").stderr

    def test_a_bug_is_called_one_and_writes_nothing(self, command: Command) -> None:
        Path("formulas/relu.py").write_text("bug\n")
        result = command("build")
        assert result.exit_code == 70
        assert result.stderr == (
            "Error: formulas/relu.py: this is a bug in gradgen, not in the spec (KeyError: 'bug');"
            " please report it, with what --debug shows\n"
        )
        assert sorted(generated()) == ["__init__.py", "_runtime.py", "swish.py"]

    def test_a_bug_outside_the_generator_is_called_one_too(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gradgen.build.make_survey", lambda *_, **__: 1 / 0)
        result = command("build")
        assert result.exit_code == 70
        assert result.stderr.startswith("Error: this is a bug in gradgen (ZeroDivisionError: division by zero)")

    def test_a_wrong_answer_of_the_system_is_no_bug(self, command: Command) -> None:
        result = command("build", "x" * 5000)
        assert result.exit_code == 2
        assert "File name too long" in result.stderr

    def test_a_file_of_the_users_own_is_never_overwritten(self, command: Command) -> None:
        Path("generated").mkdir()
        Path("generated/swish.py").write_text("mine\n")
        result = command("build", "--force")
        assert result.exit_code == 2
        assert "Error: generated/swish.py: this file is in the way of a generated one\n" in result.stderr
        assert Path("generated/swish.py").read_text() == "mine\n"
        assert "built generated/relu.py" in result.stdout

    def test_specs_are_never_overwritten_by_their_modules(self, command: Command) -> None:
        assert command("build", "-o", "formulas").exit_code == 2
        assert Path("formulas/swish.py").read_text() == "swish\n"

    def test_an_output_folder_that_is_a_file_is_a_mistake(self, command: Command) -> None:
        Path("generated").touch()
        result = command("build")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: generated: the output folder is a file\n")

    @pytest.mark.skipif(sys.platform != "linux", reason="needs a folder in which nobody may write, not even root")
    def test_an_unwritable_folder_is_a_mistake(self, command: Command) -> None:
        result = command("build", "-o", "/proc/generated")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: /proc/generated/__init__.py: cannot write this file: ")

    def test_a_spec_that_changes_while_it_is_built_is_not_written(self, command: Command) -> None:
        Path("formulas/relu.py").write_text("changing\n")
        result = command("build")
        assert result.exit_code == 2
        assert "Error: formulas/relu.py: it changed while it was built\n  Build again." in result.stderr
        assert sorted(generated()) == ["__init__.py", "_runtime.py", "swish.py"]

    def test_where_all_specs_fail_nothing_is_written(self, command: Command) -> None:
        Path("formulas/relu.py").write_text("bug\n")
        result = command("build", "formulas/relu.py")
        assert (result.exit_code, result.stdout) == (70, "1 failed\n")
        assert not Path("generated").exists()

    def test_an_interrupt_ends_without_a_traceback(self, command: Command) -> None:
        Path("formulas/relu.py").write_text("interrupt\n")
        result = command("build")
        assert result.exit_code == 130
        assert "Interrupted" in result.stderr
        assert "Traceback" not in result.stderr
        assert not Path("generated").exists()

    def test_an_unknown_option_is_a_mistake(self, command: Command) -> None:
        assert command("build", "--fore").exit_code == 2


class TestProcess:
    """The command as a process of its own."""

    @pytest.mark.parametrize("start", [["-m", "gradgen"], ["-c", "from gradgen.cli import main; main()"]])
    def test_tells_its_version(self, start: list[str]) -> None:
        done = subprocess.run([sys.executable, *start, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"gradgen {gradgen.__version__}\n"

    @pytest.mark.parametrize("name", ["build", "check"])
    def test_imports_nothing_heavy_for_what_is_fresh(self, command: Command, name: str) -> None:
        command("build")
        program = (
            "import sys; from gradgen.cli import main; main([sys.argv[1]], standalone_mode=False);"
            f"print([name for name in {HEAVY} if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=True)
        assert done.stdout == "4 fresh\n[]\n"

    def test_ends_quietly_when_nobody_reads_on(self, command: Command) -> None:
        command("build")
        process = subprocess.Popen(
            [sys.executable, "-m", "gradgen", "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
        process.stderr.close()
        process.wait()


class TestWithTheGenerator:
    """The command with the real generator, as a process of its own."""

    SPEC = "from sympy import symbols\n\nx = symbols('x')\n{name} = x**2 + x\n"
    COMMAND = (sys.executable, "-m", "gradgen")

    @pytest.fixture(autouse=True)
    def _specs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("formulas").mkdir()
        for name in ("first", "second", "third"):
            Path(f"formulas/{name}.py").write_text(self.SPEC.format(name=name))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
        )

    def test_builds_in_parallel_in_order_past_mistakes(self) -> None:
        Path("formulas/second.py").write_text("nonsense(\n")
        done = self.run("build", "--jobs", "2")
        assert done.returncode == 2
        assert done.stderr.startswith("Error: formulas/second.py:1: ")
        assert "Traceback" not in done.stderr
        *built, summary = done.stdout.splitlines()
        assert [line.split()[1] for line in built] == [
            "generated/__init__.py",
            "generated/_runtime.py",
            "generated/first.py",
            "generated/third.py",
        ]
        assert summary == "4 built, 1 failed"
        assert self.run("build", "--jobs", "2", "--debug").stderr.count("Traceback") >= 1

    def test_a_build_tells_of_what_is_not_sound(self) -> None:
        Path("formulas/first.py").write_text("from sympy import symbols\nx, y = symbols('x y')\nf = 1/x - 1/(x + y)\n")
        done = self.run("build", "formulas/first.py")
        assert done.returncode == 0
        off = r"grad_x may be off by \S+ units in the last place in float64"
        assert re.search(rf"\n  f: {off}, as at x=\S+, y=\S+; `gradgen explain` tells", done.stdout)
        text = Path("generated/first.py").read_text()
        assert re.search(r"\n    grad_x in float64: \S+ at x=\S+, y=\S+, (\S+) unless it is extreme\n", text)
        Path("formulas/first.py").write_text("from sympy import symbols\nx, y = symbols('x y')\nf = x*y\n")
        assert self.run("build", "formulas/first.py").stdout.count("\n") == 2

    def test_a_build_tells_of_what_is_likely_no_intention(self) -> None:
        head = "from sympy import *\nfrom gradgen import op\n\n"
        text = "@op\ndef f(x, y, k: float = 1.0):\n    return Piecewise((x, x > 1), (x**2, {other}))\n"
        Path("formulas/first.py").write_text(head + text.format(other="x < -1"))
        done = self.run("build", "formulas/first.py")
        assert done.returncode == 0
        assert "\n  f: y is in no formula; nothing depends on it\n  f: k is in no formula" in done.stdout
        gap = "  f: NaN where no condition of Piecewise((x, x > 1), (x**2, x < -1)) holds; end it with (…, True)\n"
        assert gap in done.stdout
        for other in ("x <= 1", "x < 2", "True"):
            text = f"@op\ndef f(x, k: float = 1.0):\n    return Piecewise((x, x > 1), (k*x**2, {other}))\n"
            Path("formulas/first.py").write_text(head + text)
            assert self.run("build", "formulas/first.py").stdout.count("\n") == 2

    def test_a_build_tells_of_what_is_a_number_nowhere(self) -> None:
        """And no figure stands for its errors."""
        head = "from sympy import *\nfrom gradgen import op\n\n"
        Path("formulas/first.py").write_text(head + "@op\ndef f(x, y):\n    return asin(x*y - 1000000)\n")
        done = self.run("build", "formulas/first.py")
        assert done.returncode == 0
        assert (
            "\n  f: out is a number at none of the inputs that were looked at; its errors are not known\n"
            in done.stdout
        )
        assert re.search(
            r"\n    out +unknown +unknown\n    grad_x +unknown +unknown", Path("generated/first.py").read_text()
        )

    @pytest.mark.slow
    def test_gallery_is_the_same_whatever_the_hash_seed_and_the_number_of_processes(self) -> None:
        """What is committed was built by several processes, each with a seed of its own."""
        done = self.run("build", str(REPOSITORY / "formulas"), "-o", "alone", "--jobs", "1", PYTHONHASHSEED="1")
        assert done.returncode == 0, done.stderr
        alone = {file.name: file.read_bytes() for file in Path("alone").iterdir()}
        assert len(alone) > 10
        assert alone == {name: (REPOSITORY / "generated" / name).read_bytes() for name in alone}

    def test_builds_the_ops_of_one_file_in_parallel(self) -> None:
        several = "from sympy import besselk, symbols\n\nx = symbols('x')\n" + "".join(
            f"op{k} = x**2 + {k}*x\n" for k in range(3)
        )
        Path("several.py").write_text(several)
        for jobs in ("1", "2"):
            assert self.run("build", "several.py", "-o", jobs, "--jobs", jobs).returncode == 0
        assert Path("1/several.py").read_bytes() == Path("2/several.py").read_bytes()
        Path("several.py").write_text(several + "op3 = besselk(0, x)\n")
        done = self.run("build", "several.py", "-o", "2", "--jobs", "2")
        assert done.returncode == 2
        assert "besselk" in done.stderr
        assert Path("1/several.py").read_bytes() == Path("2/several.py").read_bytes()

    def never_end(self) -> None:
        """Two of the specs tell of the process that reads them, and keep it busy."""
        for name in ("first", "second"):
            Path(f"formulas/{name}.py").write_text(
                f"import os, pathlib\npathlib.Path('{name}').write_text(str(os.getpid()))\nwhile True: pass\n"
            )

    def test_interrupt_ends_all_processes_at_once_without_a_traceback(self) -> None:
        self.never_end()
        process = subprocess.Popen(
            [*self.COMMAND, "build", "--jobs", "2"],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL
            ),  # ignored where tests run in the background
        )
        try:
            workers = [int(_awaited(Path(name))) for name in ("first", "second")]
            os.killpg(process.pid, signal.SIGINT)
            _, error = process.communicate(timeout=20)
        except BaseException:  # nothing else would ever end them
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert process.returncode == 130
        assert "Interrupted" in error
        assert "Traceback" not in error
        for worker in workers:
            with pytest.raises(ProcessLookupError):
                os.kill(worker, 0)

    def test_no_process_outlives_the_one_that_started_it(self) -> None:
        self.never_end()
        process = subprocess.Popen(
            [*self.COMMAND, "build", "--jobs", "2"], stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            for name in ("first", "second"):
                _awaited(Path(name))
            process.kill()
            process.communicate(timeout=20)  # ends once nobody holds the pipe any more
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise

    def test_a_process_that_dies_is_reported(self) -> None:
        Path("formulas/first.py").write_text("import os\nos._exit(1)\n")
        done = self.run("build", "--jobs", "2")
        assert done.returncode == 2
        assert "a working process died" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
    def test_shows_progress_in_a_terminal_alone(self) -> None:
        assert "Building" not in self.run("build").stdout
        terminal, end = os.openpty()
        process = subprocess.Popen([*self.COMMAND, "build", "--force", "--jobs", "1"], stdout=end)
        os.close(end)
        shown = ""
        with suppress(OSError):  # a terminal that nobody writes to any more
            while part := os.read(terminal, 4096):
                shown += part.decode(errors="replace")
        os.close(terminal)
        assert process.wait() == 0
        assert "Building" in shown
        assert "unchanged generated/third.py (" in shown


def _awaited(path: Path) -> str:
    """The text of a file that another process is about to write."""
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)
    return path.read_text()
