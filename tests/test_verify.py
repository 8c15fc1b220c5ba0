"""The command `gradgen verify`: what it finds, what it says about it, and with which code it ends."""

from __future__ import annotations

import io
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import click.testing
import mpmath
import pytest
import torch
from building import FIRST_ORDER
from devices import gpu
from mpmath import mpf
from rich.console import Console
from torch import Tensor

from gradgen import build
from gradgen.cli import main
from gradgen.errors import GradgenError
from gradgen.load import Formula, load
from gradgen.verify import exhaustive, gradchecks, many, measure, peers, points, record, report, run
from gradgen.verify.gradchecks import Check
from gradgen.verify.measure import Measured
from gradgen.verify.ordinary import Outcome
from gradgen.verify.quantity import Exact, Quantity, error
from gradgen.verify.reference import BITS_OF_FLOAT64, Reference
from gradgen.verify.space import Space
from gradgen.verify.subject import Subject, built

Verify = Callable[..., click.testing.Result]

HEAD = "from sympy import *\nfrom gradgen import Tensor, op\n\n\n"
SQUARE = "@op\ndef square(x: Tensor):\n    return x**2\n"
SWISH = "@op\ndef swish(x: Tensor, beta: float = 1.0):\n    return x / (1 + exp(-beta * x))\n"
POWER = (
    "@op\ndef power(x: Tensor, n: int = 2, flip: bool = False):\n    return Piecewise((-x**n, flip), (x**n, True))\n"
)
PAIR = "@op\ndef pair(x: Tensor, y: Tensor):\n    return x + y, x * y\n"
# No rule knows that the two powers cancel.
UNSOUND = "@op\ndef cancelling(x: Tensor):\n    return (1 + x)**Rational(7, 3) - (1 + x*1.0000001)**Rational(7, 3)\n"
STRAIGHT = (
    "@op\ndef binarize(x: Tensor):\n    return sign(x)\n\n\n"
    '@binarize.derivative("x")\ndef _(x):\n    return Piecewise((1, Abs(x) <= 1), (0, True))\n'
)


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Verify:
    """The command, in a folder of its own, where its first argument is the text of the spec to verify.

    There is no path "cuda", on any machine, but for tests of it.
    """
    monkeypatch.chdir(tmp_path)
    if not request.node.get_closest_marker("gpu"):
        monkeypatch.setattr(measure, "_lacking_for_cuda", lambda: "torch sees no CUDA device")

    def run(text: str, *arguments: str) -> click.testing.Result:
        Path("spec.py").write_text(HEAD + text)
        return click.testing.CliRunner().invoke(main, ["verify", "spec.py", *arguments])

    return run


def corrupted(folder: Path, old: str, new: str) -> str:
    """A folder of templates in whose runtime one text stands for another."""
    shutil.copytree(build.templates_dir(), folder)
    runtime = folder / "_runtime.py.j2"
    text = runtime.read_text()
    assert old in text
    runtime.write_text(text.replace(old, new))
    return str(folder)


def cells(result: click.testing.Result, *heads: str) -> list[str]:
    """The cells of the row of the table that begins with these ones."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    (found,) = [row for row in rows if row[: len(heads)] == list(heads)]
    return found


def formula(text: str, folder: Path) -> Formula:
    spec = folder / "written.py"
    spec.write_text(HEAD + text)
    (found,) = load(spec)
    return found


def alone(written: Formula, function: Callable[..., Tensor]) -> Subject:
    """An op that is computed by a function of the test's own."""
    return Subject(written, function, SimpleNamespace(), function)


class TestVerdict:
    def test_a_sound_op_passes_and_is_shown_in_a_table(self, verify: Verify) -> None:
        result = verify(SWISH)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "swish, beta=1.0: worst and mean error in ULPs" in result.stdout
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            for kind in ("value", "gradient", "second derivative"):
                row = cells(result, dtype, kind)
                for cell in row[2:4]:  # on the cpu path and on the torch path
                    worst, mean = map(float, cell.split(" / "))
                    assert 0 < mean < worst < 4
                assert row[5] == "0"
                assert " at x=" in row[6]
        assert cells(result, "float64", "gradcheck")[2:4] == ["passed", "passed"]
        assert cells(result, "float64", "gradgradcheck")[2:4] == ["passed", "passed"]
        assert "The ends of float64 were not looked at" in result.stdout
        assert result.stdout.endswith("1 verified\n")

    def test_how_far_it_has_got_is_shown_in_a_terminal(self) -> None:
        shown = io.StringIO()
        with run._progress(Console(file=shown, force_terminal=True, width=80), "swish") as begin:
            tick = begin("ordinary points", 2)
            tick()
        assert "swish: ordinary points" in shown.getvalue()
        assert "━" in shown.getvalue()

    def test_an_unsound_formula_fails_and_the_worst_place_is_named(self, verify: Verify) -> None:
        result = verify(UNSOUND)
        assert result.exit_code == 1
        (line, *_) = [line for line in result.stdout.splitlines() if line.startswith("cancelling: float64 value: ")]
        assert "over the bar of 4: value at x=" in line
        found, exact = line.split(": ")[-1].split(" in place of ")
        assert found != exact
        assert result.stdout.endswith("1 verified, 1 of them not sound\n")

    def test_a_corrupted_kernel_fails_on_its_path_alone(self, verify: Verify, tmp_path: Path) -> None:
        templates = corrupted(tmp_path / "t", "f'gg_store({name})'", "f'gg_store({name} * (1 + real(1e-5)))'")
        result = verify(SQUARE, "--templates", templates)
        assert result.exit_code == 1
        _, _, cpu, torch_path, apart, *_ = cells(result, "float32", "value")
        assert float(cpu.split(" / ")[0]) > 80
        assert float(torch_path.split(" / ")[0]) <= 0.5
        assert float(apart) > 40
        assert "square: float32 gradient: " in result.stdout
        assert "(cpu)" in result.stdout
        assert "(torch)" not in result.stdout

    def test_a_result_that_is_none_is_bad(self, verify: Verify, tmp_path: Path) -> None:
        templates = corrupted(
            tmp_path / "t", "f'gg_store({name})'", "f'gg_store({name} > real(4) ? real(0)/0 : {name})'"
        )
        result = verify(SQUARE, "--templates", templates)
        assert result.exit_code == 1
        assert " are bad, such as value at x=" in result.stdout
        assert ": nan in place of " in result.stdout

    def test_a_kernel_that_falls_back_fails(self, verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CC", "/nowhere/cc")
        result = verify(SQUARE)
        assert result.exit_code == 1
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            assert f"square: {dtype}, cpu: kernel fell back: square on the torch path" in result.stdout

    @pytest.mark.few(every_day=1, slow=9)
    @pytest.mark.parametrize("text", ["1/x", "x + 1/x**2", "-1/sqrt(x)", "log(x)"])
    def test_poles_are_sound(self, verify: Verify, text: str) -> None:
        result = verify(f"@op\ndef pole(x: Tensor):\n    return {text}\n")
        assert result.exit_code == 0, result.output

    @pytest.mark.parametrize("path", ["cpu", "torch"])
    def test_of_one_path_alone(self, verify: Verify, path: str) -> None:
        result = verify(SQUARE, "--path", path, "--record", "new.md")
        assert result.exit_code == 0, result.output
        _, _, worst, peer, apart, bad, _ = cells(result, "float32", "value")
        assert (worst.partition(" / ")[0], peer.partition(" / ")[0], apart, bad) == ("0.50", "0.50", "", "0")
        assert cells(result, "float64", "gradcheck")[2:4] == ["passed", ""]
        assert f"Each number is that of the path {path}.\n" in Path("new.md").read_text()

    def test_the_bar(self, verify: Verify) -> None:
        result = verify(SQUARE, "--bar", "0.2")
        assert result.exit_code == 1
        assert "over the bar of 0.2" in result.stdout

    def test_a_derivative_of_the_users_own_is_what_gradients_are_compared_with(self, verify: Verify) -> None:
        result = verify(STRAIGHT)
        assert result.exit_code == 0, result.stdout
        assert cells(result, "float64", "gradcheck")[2:4] == ["own derivative"] * 2
        assert cells(result, "float64", "gradgradcheck")[2:4] == ["passed", "passed"]

    def test_several_outputs_of_two_inputs(self, verify: Verify) -> None:
        result = verify(PAIR)
        assert result.exit_code == 0, result.stdout
        assert " of output " in cells(result, "float64", "value")[6]

    @pytest.mark.parametrize(("width", "count"), [(80, 2), (200, 1)])
    def test_a_narrow_terminal_has_the_places_in_a_table_of_their_own(
        self, width: int, count: int, tmp_path: Path
    ) -> None:
        """And breaks no number and no word."""
        place = "d2/dx dy at x=-7.3308044863525597, y=-0.036372647250263061"
        kinds = ("value", "second derivative")
        rows = [Measured("pair", "float64", kind, path, 1.94, place) for kind in kinds for path in ("cpu", "torch")]
        checks = [Check("gradgradcheck", path, "passed") for path in ("cpu", "torch")]
        subject = alone(formula(PAIR, tmp_path), lambda x, y: (x + y, x * y))
        shown = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
        tables = [*report.tables(subject, Outcome(rows, checks), 4.0, shown)]
        assert len(tables) == count
        shown.print(*tables)
        text = shown.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, text.splitlines())) <= width
        for word in (place, "derivative", "gradgradcheck", "1.94 / 0.00"):
            assert word in text

    def test_an_error_of_one_output_is_told_as_one_of_it(self, tmp_path: Path) -> None:
        subject = alone(formula(PAIR, tmp_path), lambda x, y: (x + y, x * y + y / 64 * (y == 3)))
        places = [{"x": 2.0, "y": 5.0}, {"x": 2.0, "y": 3.0}]
        reference = Reference(subject.formula, {})
        samples = [(place, reference(place, subject.quantities)) for place in places]
        tensors = {name: torch.tensor([place[name] for place in places]) for name in ("x", "y")}
        found = measure.jet(subject.call, tensors, ("x", "y"), subject.quantities)
        results = {"cpu": {quantity: values.tolist() for quantity, values in found.items()}}
        value, gradient, second = measure.compared(subject, "float32", samples, results)
        assert value.at.startswith("value of output 1 at x=2, y=3: 6.046875 in place of 6.0")
        assert gradient.at.startswith("d/dy of output 1 at x=2, y=3: 2.015625 in place of 2.0")
        assert (value.count, gradient.count, second.count, second.worst) == (4, 8, 12, 0.0)


class TestHyperParameters:
    def test_values_in_place_of_the_defaults(self, verify: Verify) -> None:
        result = verify(SWISH + "\n\n" + POWER, "--with", "n=3", "--with", "flip=True", "--record", "new.md")
        assert result.exit_code == 0, result.stdout
        assert "swish, beta=1.0: worst" in result.stdout
        assert "power, n=3, flip=True: worst" in result.stdout
        recorded = Path("new.md").read_text()
        assert "| swish, beta=1.0 | float32 |" in recorded
        assert "| power, n=3, flip=True | float32 |" in recorded

    def test_they_reach_the_kernels_their_reference_and_autograds_checks(self, tmp_path: Path) -> None:
        seen = []

        def power(x: Tensor, n: int, flip: bool) -> Tensor:
            seen.append((n, flip))
            return -(x**n) if flip else x**n

        subject = replace(alone(formula(POWER, tmp_path), power), given={"n": 3, "flip": True})
        rows = exhaustive.run(subject, Space(["x"], torch.float16, 1), lambda: None, {})
        assert [row.bad for row in rows] == [0, 0, 0]
        assert [check.status for check in gradchecks.run(subject, "cpu")] == ["passed", "passed"]
        assert set(seen) == {(3, True)}
        (exact,) = Reference(subject.formula, subject.hyper)({"x": 2.0}, [Quantity(0, ())]).values()
        assert float(exact.value) == -8

    def test_a_kernel_that_is_wrong_for_others_than_the_default_is_found(self, verify: Verify, tmp_path: Path) -> None:
        templates = corrupted(tmp_path / "t", "f'gg_store({name})'", "f'gg_store(beta == 1 ? {name} : 0)'")
        assert verify(SWISH, "--templates", templates).exit_code == 0
        result = verify(SWISH, "--templates", templates, "--with", "beta=2.5")
        assert result.exit_code == 1
        assert "(cpu)" in result.stdout
        assert "(torch)" not in result.stdout

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("beta", "--with beta is not of the form NAME=VALUE\n  Write, for example, beta=2.5."),
            ("=2", "--with =2 is not of the form NAME=VALUE"),
            ("n=3 n=4", "--with gives n twice\n  Verify once"),
            (
                "gamma=1",
                "spec.py: no op has a hyper-parameter gamma\n  Hyper-parameters are beta of swish, n of power,",
            ),
            ("x=1", "spec.py: no op has a hyper-parameter x; it is a tensor input of swish\n"),
            ("beta=inf", "spec.py:7: --with beta=inf: beta of swish is declared float, which takes a finite number\n"),
            ("beta=two", "with beta=two: beta of swish is declared float"),
            ("n=2.5", "spec.py:12: --with n=2.5: n of power is declared int, which takes a whole number"),
            (f"n={2**53 + 1}", "n of power is declared int, which takes a whole number within 2**53\n"),
            ("flip=1", "flip of power is declared bool, which takes True or False\n  Write, for example, --with flip="),
        ],
    )
    def test_mistakes(self, verify: Verify, given: str, message: str) -> None:
        arguments = [argument for text in given.split() for argument in ("--with", text)]
        result = verify(SWISH + "\n\n" + POWER, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output


class TestRecord:
    def test_keeps_what_is_around_the_table(self, verify: Verify) -> None:
        file = Path("accuracy.md")
        file.write_text(f"# Title\n\n{record.BEGIN}\nold\n{record.END}\n\nThe end.\n")
        for _ in range(2):
            assert verify(SQUARE, "--record", "accuracy.md").exit_code == 0
            text = file.read_text()
            assert text.startswith(f"# Title\n\n{record.BEGIN}\nMixed errors in ULPs")
            assert text.endswith(f"|\n{record.END}\n\nThe end.\n")
            assert "old" not in text
            assert text.count("| square | float32 |") == 1

    def test_of_some_ops_leaves_the_rows_of_others(self, verify: Verify) -> None:
        file = Path("accuracy.md")
        verify(SQUARE + "\n\n" + POWER, "--record", "accuracy.md")
        whole = file.read_text().splitlines()
        row = next(line for line in whole if line.startswith("| square | float32 |"))
        file.write_text(file.read_text().replace(row, "| square | float32 | changed |"))
        verify(SQUARE, "--record", "accuracy.md")
        assert file.read_text().splitlines() == whole

    def test_of_others_are_not_mixed_with_those_of_another_method(self, verify: Verify) -> None:
        """Nor are they lost: nothing is measured, and nothing written."""
        file = Path("accuracy.md")
        verify(SQUARE + "\n\n" + POWER, "--record", "accuracy.md")
        before = file.read_text().replace("Points: dozens", "Points: few")
        file.write_text(before)
        result = verify(SQUARE, "--record", "accuracy.md")
        assert result.exit_code == 2
        assert result.stderr.startswith(
            "Error: accuracy.md: the table has rows of power, n=2, flip=False that were measured in another way\n"
        )
        assert file.read_text() == before
        assert verify(SQUARE + "\n\n" + POWER, "--record", "accuracy.md").exit_code == 0
        assert "Points: dozens" in file.read_text()

    def test_has_torch_beside_it(self, verify: Verify) -> None:
        verify(SQUARE, "--record", "new.md")
        lines = Path("new.md").read_text().splitlines()
        assert lines[0] == record.BEGIN
        assert lines[-1] == record.END
        assert f"torch {torch.__version__.split('+')[0]}" in lines[1]
        (row,) = [line.split(" | ") for line in lines if line.startswith("| square | float32 |")]
        assert len(row) == 10
        assert float(row[8]) <= 0.5  # torch's value

    def test_of_cuda_is_a_table_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
        monkeypatch.setattr(record, "_driver", lambda: "driver 570.1")
        monkeypatch.setattr(record, "_nvrtc", lambda: "NVRTC 13.0")
        errors = {"cpu": 1.25, "torch": 1.5, peers.PATH: 9.0, "cuda": 1.0, "cuda, exhaustive": 1.75}
        rows = [Measured("square", "float32", "value", path, worst) for path, worst in errors.items()]
        runtime = SimpleNamespace()
        cpu, cuda = (record.markdown([Outcome(rows)], "So.", runtime, device) for device in ("cpu", "cuda"))
        assert cpu.endswith("|\n| square | float32 | 1.50 |  |  |  |  |  | 9.00 |  |")
        assert cuda.endswith("|\n| square | float32 | 1.75 |  |  |  |  |  |")
        assert " on NVIDIA H200, driver 570.1, CUDA " in cuda
        assert "NVRTC 13.0, torch " in cuda
        assert record.markdown([Outcome(rows[:3])], "So.", runtime, "cuda").endswith("---|")

        file = tmp_path / "notes.md"
        file.write_text(f"Notes\n\n{record.BEGIN}\n{record.END}\n\nThe end.\n")
        record.save(file, cuda, "cuda")
        record.save(file, cpu)
        both = file.read_text()
        for table, device in ((cuda, "cuda"), (cpu, "cpu")):
            record.save(file, table, device)
            assert file.read_text() == both
        begin, end = record._MARKERS["cuda"]
        assert both == (f"Notes\n\n{record.BEGIN}\n{cpu}\n{record.END}\n\n{begin}\n{cuda}\n{end}\n\nThe end.\n")

    def test_a_file_without_markers_gets_them_at_its_end(self, tmp_path: Path) -> None:
        file = tmp_path / "notes.md"
        file.write_text("Notes\n")
        record.save(file, "table")
        record.save(file, "other")
        assert file.read_text() == f"Notes\n\n{record.BEGIN}\nother\n{record.END}\n"

    @pytest.mark.parametrize(
        "text",
        [record.BEGIN, record.END, f"{record.END}{record.BEGIN}", f"{record.BEGIN}{record.BEGIN}{record.END}"],
    )
    def test_unclear_markers_are_a_mistake_and_nothing_is_written(self, verify: Verify, text: str) -> None:
        Path("accuracy.md").write_text(text)
        result = verify(SQUARE, "--record", "accuracy.md")
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: accuracy.md: the place of the table is not marked clearly\n")
        assert Path("accuracy.md").read_text() == text


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--bar", "-1"], "Invalid value for '--bar'"),
            (["--bar", "nan"], "Invalid value for '--bar'"),
            (["--stride", "0"], "Invalid value for '--stride'"),
            (["--stride", "7"], "--stride thins an exhaustive run"),
            (["--points", "0"], "Invalid value for '--points'"),
            (["--path", "gpu"], "Invalid value for '--path'"),
            (["--path", "cuda"], "--path cuda cannot be had: torch sees no CUDA device\n  It takes a CUDA device,"),
            (["--path", "torch", "--exhaustive"], "--exhaustive is of kernels, which --path torch leaves out\n"),
            (["nowhere.py"], "nowhere.py: no such file or folder"),
            (["--templates", "nowhere"], "nowhere: no such folder of templates"),
            (["--record", "."], "Invalid value for '--record'"),
        ],
    )
    def test_exit_code_2(self, verify: Verify, arguments: list[str], message: str) -> None:
        result = verify(SQUARE, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output

    def test_a_cupy_that_cannot_be_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setitem(sys.modules, "cupy", None)
        assert measure.paths() == ["cpu", "torch"]
        with pytest.raises(GradgenError, match="--path cuda cannot be had: CuPy cannot be imported"):
            measure.paths(["cpu", "cuda"])

    def test_a_mistake_in_the_spec(self, verify: Verify) -> None:
        result = verify("@op\ndef broken(x: Tensor):\n    return zeta(x)\n")
        assert result.exit_code == 2
        assert "spec.py:7: gradgen does not know the function zeta" in result.stderr
        assert "Traceback" not in result.output

    def test_without_torch(self, tmp_path: Path) -> None:
        code = "import sys; sys.modules['torch'] = None; from gradgen.cli import main; main(['verify', 'spec.py'])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("Error: verify needs torch, which is not installed\n")
        assert "pip install" in done.stderr
        assert "Traceback" not in done.stderr


class TestReference:
    def value(self, text: str, folder: Path, x: float) -> dict[Quantity, Exact]:
        written = formula(text, folder)
        subject = alone(written, torch.square)
        return Reference(written, {})({"x": x}, subject.quantities)

    def test_value_and_derivatives_with_their_scales(self, tmp_path: Path) -> None:
        found = self.value("@op\ndef f(x: Tensor):\n    return x**3\n", tmp_path, 2.0)
        wrt = [(), ("x",), ("x", "x")]
        assert [float(found[Quantity(0, w)].value) for w in wrt] == pytest.approx([8, 12, 12])
        assert [float(found[Quantity(0, w)].scale()) for w in wrt] == pytest.approx([24, 24, 12])

    def test_what_no_precision_settles_is_left_out(self, tmp_path: Path) -> None:
        assert self.value("@op\ndef f(x: Tensor):\n    return log(1 - tanh(x))\n", tmp_path, 1e30) == {}

    def test_nothing_is_divided_by_what_has_cancelled(self, tmp_path: Path) -> None:
        """exp(exp(x)) is 1 in all digits there are, and the quotient would seem to be 0, where it is 1."""
        text = "@op\ndef f(x: Tensor):\n    return exp(x)/(exp(exp(x)) - 1)\n"
        assert self.value(text, tmp_path, -1e10) == {}
        assert float(self.value(text, tmp_path, -100.0)[Quantity(0, ())].value) == 1

    def test_minus_zero_where_the_formula_is_not_real_on_that_side(self, tmp_path: Path) -> None:
        text = "@op\ndef f(x: Tensor):\n    return log(1 + 1/x)\n"
        assert self.value(text, tmp_path, -0.0) == {}
        assert self.value(text, tmp_path, 0.0)[Quantity(0, ())].value == math.inf

    def test_a_term_far_below_another_is_not_lost(self, tmp_path: Path) -> None:
        found = self.value("@op\ndef f(x: Tensor):\n    return log(1 + exp(x))\n", tmp_path, -530.0)
        for exact in found.values():
            assert float(exact.value) == pytest.approx(math.exp(-530), rel=1e-9, abs=0)

    @pytest.mark.parametrize("x", [2.0**70, 1e30, 1.5e118, 1e300])
    @pytest.mark.parametrize(
        "text", ["log(1 + exp(x))", "log(1 + 2**x)/log(2)", "log(cosh(x))", "log(exp(x) - exp(-x))"]
    )
    def test_slopes_where_an_exponential_is_no_float(self, tmp_path: Path, text: str, x: float) -> None:
        written = formula(f"@op\ndef f(x: Tensor):\n    return {text}\n", tmp_path)
        found = Reference(written, {}, BITS_OF_FLOAT64)({"x": x}, [Quantity(0, ()), Quantity(0, ("x",))])
        assert float(found[Quantity(0, ("x",))].value) == 1

    def test_derivatives_at_kinks_are_left_out(self, tmp_path: Path) -> None:
        text = "@op\ndef f(x: Tensor):\n    return Max(x, 0)**2 + Abs(x - 1)\n"
        assert list(self.value(text, tmp_path, 1.0)) == [Quantity(0, ())]
        assert list(self.value(text, tmp_path, 0.0)) == [Quantity(0, ()), Quantity(0, ("x",))]
        assert len(self.value(text, tmp_path, 2.0)) == 3
        text = "@op\ndef f(x: Tensor):\n    return x*exp(x)/(1 + sqrt(x**2))\n"
        assert len(self.value(text, tmp_path, 0.0)) == 2
        assert len(self.value(text, tmp_path, 0.5)) == 3

    def test_a_slope_next_to_a_pole_that_no_step_comes_near_is_left_out(self, tmp_path: Path) -> None:
        """It is 1; differences see nothing but (x + y)**2 in the denominator, and what they leave may be anything."""
        text = "@op\ndef f(x: Tensor, y: Tensor):\n    return (x + 1/(1 + exp(-y)))/(1/(1 + exp(-x)) + (x + y)**2)\n"
        reference = Reference(formula(text, tmp_path), {})
        value, slope, point = Quantity(0, ()), Quantity(0, ("y",)), {"x": -13864.0, "y": 13864.0}
        assert list(reference(point, [value, slope])) == [value]
        huge = reference(point, [value])[value].value
        assert reference._is_lost(mpf("2e-537"), huge, point, ["y"])
        assert not reference._is_lost(huge, huge, point, ["y"])
        assert not reference._is_lost(mpf("2e-537"), mpf(3), point, ["y"])

    def test_a_0_of_an_analytic_function_is_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No divisor is 0, so that it is no limit that would have to be looked for all around."""
        monkeypatch.setattr(Reference, "_beside", lambda *_: pytest.fail("looked around"))
        found = self.value("@op\ndef f(x: Tensor):\n    return 1/(1 + exp(-x**4))\n", tmp_path, 0.0)
        assert [float(exact.value) for exact in found.values()] == [0.5, 0, 0]

    @pytest.mark.parametrize(
        ("text", "x", "expected"),
        [
            ("x/(exp(x) - 1)", 0.0, (1, -1 / 2, 1 / 6)),
            ("(1 - sqrt(1 - x**2))/x**2", 0.0, (1 / 2, 0, 1 / 4)),
            ("sin(pi*x)/(1 - x)", 1.0, (math.pi, 0, -(math.pi**3) / 3)),
            ("x*log(x)", 0.0, ()),
            ("sin(1/x)", 0.0, ()),
            ("Abs(x)/x", 0.0, ()),
        ],
    )
    def test_what_is_0_by_0_has_its_limit_if_there_is_one(
        self, text: str, x: float, expected: tuple[float, ...], tmp_path: Path
    ) -> None:
        found = self.value(f"@op\ndef f(x: Tensor):\n    return {text}\n", tmp_path, x)
        assert [float(exact.value) for exact in found.values()] == pytest.approx(expected, rel=1e-12, abs=1e-30)

    @pytest.mark.parametrize(
        ("text", "at", "expected"),
        [
            ("(exp(x) - 1)/x + y", (0.0, 2.0), 3),
            ("(x - y)/(log(x) - log(y))", (2.0, 2.0), 2),
            ("x*y/(x**2 + y**2)", (0.0, 0.0), None),
            ("x*y/(x**2 + y**2)", (0.0, 3.0), 0),
            ("1 - exp(-x**2/y**2)", (0.0, 0.0), None),  # the same in all directions that mirror one another
            ("1 - exp(-x**2/y)", (0.0, 0.0), None),  # 0 along each line
        ],
    )
    def test_so_it_has_from_all_sides(
        self, text: str, at: tuple[float, float], expected: float | None, tmp_path: Path
    ) -> None:
        written = formula(f"@op\ndef f(x: Tensor, y: Tensor):\n    return {text}\n", tmp_path)
        found = Reference(written, {})(dict(zip("xy", at, strict=True)), [Quantity(0, ())])
        assert [float(exact.value) for exact in found.values()] == ([] if expected is None else [expected])

    def test_a_norm_has_no_mixed_derivative_at_0(self, tmp_path: Path) -> None:
        """What rounding leaves there, 1e-994, was taken for it."""
        written = formula("@op\ndef f(x: Tensor, y: Tensor):\n    return sqrt(x**2 + y**2)\n", tmp_path)
        assert Quantity(0, ("x", "y")) not in Reference(written, {})(
            {"x": 0.0, "y": 0.0}, [Quantity(0, ()), Quantity(0, ("x",)), Quantity(0, ("x", "y"))]
        )

    def test_at_a_pole_only_infinite_derivatives_are_believed(self, tmp_path: Path) -> None:
        text = "@op\ndef f(x: Tensor):\n    return 1/x\n"
        found = self.value(text, tmp_path, 0.0)
        assert [exact.value for exact in found.values()] == [mpf("inf")] * len(found)
        assert not found[Quantity(0, ())].is_of_either_sign
        assert self.value(text, tmp_path, -0.0)[Quantity(0, ())].is_of_either_sign

    def test_a_0_is_no_limit_of_what_is_beside_it_at_large_numbers(self, tmp_path: Path) -> None:
        spec = "@op\ndef f(x: Tensor, y: Tensor):\n    return (x - y)**2/(2 + (x - y)**2)\n"
        found = Reference(formula(spec, tmp_path), {}, BITS_OF_FLOAT64)({"x": 1.7e308, "y": 1.7e308}, [Quantity(0, ())])
        assert found[Quantity(0, ())].value == 0

    def test_the_logarithm_of_what_has_cancelled_is_left_out(self, tmp_path: Path) -> None:
        spec = "@op\ndef f(x: Tensor, y: Tensor):\n    return log(exp(x) - exp(y))\n"
        assert not Reference(formula(spec, tmp_path), {})({"x": 3.4e38, "y": 3.4e38}, [Quantity(0, ())])

    def test_what_jumps_at_minus_zero_is_left_out(self, tmp_path: Path) -> None:
        reference = Reference(formula("@op\ndef f(y: Tensor, x: Tensor):\n    return atan2(y, x)\n", tmp_path), {})
        assert not reference({"y": -0.0, "x": -0.0}, [Quantity(0, ())])
        assert reference({"y": -0.0, "x": 1.0}, [Quantity(0, ())])[Quantity(0, ())].value == 0

    def test_derivatives_of_what_is_far_beyond_all_types_are_left_out(self, tmp_path: Path) -> None:
        found = self.value("@op\ndef f(x: Tensor):\n    return sinh(x)/x\n", tmp_path, 3.4e38)
        assert list(found) == [Quantity(0, ())]

    @pytest.mark.parametrize(
        ("text", "sign", "expected"),
        [("x/(1 + exp(-x))", 1, math.inf), ("x/(1 + exp(-x))", -1, 0), ("tanh(x)", -1, -1), ("sin(x)", 1, None)],
    )
    def test_limits(self, tmp_path: Path, text: str, sign: int, expected: float | None) -> None:
        reference = Reference(formula(f"@op\ndef f(x: Tensor):\n    return {text}\n", tmp_path), {})
        found = reference.limit({"x": sign * math.inf}, Quantity(0, ()))
        assert (None if found is None else float(found)) == expected

    def test_a_limit_has_a_scale_by_the_inputs_that_are_finite(self, tmp_path: Path) -> None:
        written = formula("@op\ndef f(x: Tensor, y: Tensor):\n    return 4*tanh(x) + y**3\n", tmp_path)
        subject, point = alone(written, torch.square), {"x": math.inf, "y": -1.5}
        ((_, found),) = measure.limit_samples(subject, Reference(written, {}), [point])
        assert float(found[Quantity(0, ())].value) == pytest.approx(4 - 1.5**3)
        assert float(found[Quantity(0, ())].scale()) == pytest.approx(3 * 1.5**3, rel=1e-4)
        assert float(found[Quantity(0, ("x",))].scale()) == 0


@pytest.mark.parametrize(
    ("computed", "exact", "expected"),
    [
        (1 + 2**-23, 1.0, 1.0),
        (math.nan, 1.0, math.inf),
        (math.inf, 1.0, math.inf),
        (math.inf, 1e39, 0.0),
        (-math.inf, 1e39, math.inf),
        (math.inf, math.inf, 0.0),
        (-math.inf, math.inf, math.inf),
        (1e30, math.inf, math.inf),
        (math.nan, math.nan, 0.0),
        (1.0, math.nan, math.inf),
    ],
)
def test_error(computed: float, exact: float, expected: float) -> None:
    assert error(computed, Exact(mpf(exact)), "float32") == expected


def test_an_error_of_more_than_half_an_ulp_is_taken_against_the_scale() -> None:
    assert error(1 + 2**-22, Exact(mpf(1), lambda: mpf(8)), "float32") == 0.25
    assert error(1 + 2**-22, Exact(mpf(1), lambda: None), "float32") is None


def test_where_an_input_is_minus_zero_an_infinity_may_have_either_sign() -> None:
    either = Exact(mpf("inf"), is_of_either_sign=True)
    assert [error(y, either, "float32") for y in (math.inf, -math.inf, 1.0, math.nan)] == [0, 0, math.inf, math.inf]


def test_an_infinity_may_be_a_matter_of_rounding_an_input() -> None:
    below = mpf(2) ** 128 - mpf(2) ** 108
    assert error(math.inf, Exact(below), "float32") == math.inf
    assert error(math.inf, Exact(below, lambda: mpf(2) ** 130), "float32") == 0.0


def test_points_meet_every_exponent_alike() -> None:
    found = [point["x"] for point in points.every_magnitude(["x"], torch.float32, 512, "seed")]
    assert found == [point["x"] for point in points.every_magnitude(["x"], torch.float32, 512, "seed")]
    exponents = sorted(math.frexp(x)[1] for x in found if x > 0)
    assert len(exponents) in (255, 256)
    assert set(range(-124, 128)) <= set(exponents)


def test_many_float64_numbers_with_what_is_exact(tmp_path: Path) -> None:
    written = formula("@op\ndef f(x: Tensor, k: float = 3.0):\n    return k*x**2\n", tmp_path)
    found = many.samples(written, {"k": 3.0}, 50)
    assert [point for point, _ in found] == [point for point, _ in many.samples(written, {"k": 3.0}, 50)]
    assert len({point["x"] for point, _ in found}) == 50
    for point, exact in found:
        value, slope = exact[Quantity(0, ())], exact[Quantity(0, ("x",))]
        with mpmath.workprec(200):
            x = mpf(point["x"])
            assert (value.value, slope.value) == (3 * x**2, 6 * x)
        assert float(value.scale()) == pytest.approx(float(6 * x**2))
    assert all(0.5 < point["x"] < 0.75 for point, _ in many.samples(written, {"k": 3.0}, 50, {"x": (0.5, 0.75)}))


def test_many_tuples_of_several_outputs_with_what_is_exact(tmp_path: Path) -> None:
    written = formula(
        "@op\ndef f(x: Tensor, y: Tensor, z: Tensor(grad=False)):\n    return x*y**2 + z, x - y\n", tmp_path
    )
    found = many.samples(written, {}, 50, {"y": (0.5, math.inf)})
    assert {wrt for _, exact in found for _, wrt in exact} == {(), ("x",), ("y",)}
    assert len({(*point.values(),) for point, _ in found}) == 50
    for point, exact in found:
        assert point["y"] > 0.5
        with mpmath.workprec(300):
            x, y, z = (mpf(point[name]) for name in "xyz")
            expected = {(0, ()): x * y**2 + z, (0, ("x",)): y**2, (0, ("y",)): 2 * x * y, (1, ()): x - y}
            assert {(*key,): exact[Quantity(*key)].value for key in expected} == expected
        assert float(exact[Quantity(0, ("x",))].scale()) == pytest.approx(float(2 * y**2))


def test_what_is_exact_of_several_inputs_is_so_beside_1(tmp_path: Path) -> None:
    """exp(x*y) is the smallest number or so, and (1 + exp(x*y))**2 has that in its last bits."""
    written = formula("@op\ndef f(x: Tensor, y: Tensor):\n    return log((1 + exp(x*y))**2)\n", tmp_path)
    found = many.samples(written, {}, 20, {"x": (25.0, 26.0), "y": (-27.2, -27.0)})
    for point, exact in found:
        with mpmath.workprec(3000):
            right = 2 * mpmath.log1p(mpmath.exp(mpf(point["x"]) * mpf(point["y"])))
            assert abs(exact[Quantity(0, ())].value / right - 1) < 2**-100


def test_many_tuples_of_several_are_near_1_mostly(tmp_path: Path) -> None:
    """Where summands are alike their roundings add up."""
    written = formula("@op\ndef f(x: Tensor, y: Tensor):\n    return x + y\n", tmp_path)
    tuples = [(*point.values(),) for point, _ in many.samples(written, {}, 300)]
    assert sum(all(0.5 <= abs(x) <= 2 for x in row) for row in tuples) >= 200


def test_what_is_off_between_a_few_numbers_alone_is_found_at_many(tmp_path: Path) -> None:
    written = formula("@op\ndef f(x: Tensor):\n    return x\n", tmp_path)
    found = many.samples(written, {}, 1000)
    off = [x * (1 + 2**-48) if 0.01 < x < 0.02 else x for x in (point["x"] for point, _ in found)]
    (row,) = measure.compared(alone(written, torch.clone), "float64", found, {"cpu": {Quantity(0, ()): off}})
    assert 8 < row.worst <= 32
    assert row.count == 1000


def test_an_overflow_where_only_a_part_of_the_formula_does_is_found(tmp_path: Path) -> None:
    """exp(x)/(1 + x**2) is a number up to x = 722.9, exp(x) up to 709.8."""
    written = formula("@op\ndef f(x: Tensor):\n    return exp(x)/(1 + x**2)\n", tmp_path)
    found = many.samples(written, {}, 20, has_edges=True)
    naive = [torch.tensor(x, dtype=torch.float64).exp().item() / (1 + x**2) for x in (p["x"] for p, _ in found)]
    (row,) = measure.compared(alone(written, torch.clone), "float64", found, {"cpu": {Quantity(0, ()): naive}})
    assert (row.bad, "inf in place of" in row.bad_at) == (1, True)


def test_a_subnormal_number_without_digits_is_found(tmp_path: Path) -> None:
    """x*exp(x), of which the exponential has lost its digits where the product still has some."""
    written = formula("@op\ndef f(x: Tensor):\n    return x*exp(x)\n", tmp_path)
    found = many.samples(written, {}, 20, has_edges=True)
    naive = [torch.tensor(x, dtype=torch.float64).exp().item() * x for x in (p["x"] for p, _ in found)]
    (row,) = measure.compared(alone(written, torch.clone), "float64", found, {"cpu": {Quantity(0, ()): naive}})
    assert row.worst > 100


def test_gradcheck_finds_a_wrong_gradient(tmp_path: Path) -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * x

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            return grad

    first, _ = gradchecks.run(alone(formula(SQUARE, tmp_path), Wrong.apply), "cpu")
    assert first.failed
    assert "Jacobian mismatch" in first.status


def test_a_namesake_of_a_torch_function_is_no_peer(tmp_path: Path) -> None:
    assert peers.find(alone(formula(SQUARE, tmp_path), torch.square)) is not None
    assert peers.find(alone(formula(SQUARE, tmp_path), torch.sin)) is None


def test_what_is_a_number_nowhere_is_not_called_sound(verify: Verify) -> None:
    result = verify("@op\ndef f(x: Tensor, y: Tensor):\n    return asin(x*y - 1000000)\n")
    assert result.exit_code == 1
    assert "f: value: none of the points that were looked at has one that is a number" in result.stdout
    assert "f: not sound" in result.stdout


def test_numbers_beside_a_constant_are_looked_at(verify: Verify) -> None:
    result = verify("@op\ndef f(x: Tensor):\n    return asin(x - 1000000)\n")
    assert result.exit_code == 0, result.stdout
    assert "at x=1000000." in cells(result, "float64", "value")[-1]


class TestExhaustive:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_all_patterns_are_there(self, dtype: torch.dtype) -> None:
        space = Space(["x"], dtype, 1000)
        patterns = torch.cat([space[k]["x"].view(torch.int16) for k in range(len(space))])
        assert patterns.unique().numel() == patterns.numel() == 1 << 16

    def test_a_stride_thins_float32(self) -> None:
        stride = (1 << 11) + 1
        space = Space(["x"], torch.float32, stride)
        patterns = torch.cat([space[k]["x"].view(torch.int32) for k in range(len(space))]).long() % (1 << 32)
        assert torch.equal(patterns, torch.arange(0, 1 << 32, stride))

    @pytest.mark.parametrize("names", [["x"], ["x", "y", "z"]], ids=["one input", "several"])
    def test_chunks_of_another_size_hold_the_same_numbers(self, names: list[str]) -> None:
        stride = 41 if len(names) > 1 else 16411
        small, large = (Space(names, torch.float32, stride, "cpu", pieces) for pieces in (None, 3))
        pieces, chunks = ([space[k] for k in range(len(space))] for space in (small, large))
        assert len(chunks) < len(pieces)
        for name in names:
            one, other = (torch.cat([part[name] for part in parts]) for parts in (pieces, chunks))
            assert torch.equal(one.view(torch.int32), other.view(torch.int32))
            for k, chunk in enumerate(chunks):
                piece = pieces[large.first_piece(k)][name]
                assert torch.equal(chunk[name][: len(piece)].view(torch.int32), piece.view(torch.int32))

    @pytest.mark.parametrize("device", ["cpu", "cuda"])
    def test_what_is_found_does_not_depend_on_the_chunks(
        self, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor on whether one is looked at after the other, as on CUDA, where there is no faster reference either."""
        monkeypatch.setattr(exhaustive, "_GAPS_APART", 3)

        def function(x: Tensor) -> Tensor:
            y = torch.where(x.abs() > 1e20, math.nan, x)  # whole pieces of it
            y = torch.where((x > 3) & (x < 3.5), math.nan, y)
            if x.dtype == torch.float64:
                return y
            y = torch.where((x > 1e-3) & (x < 1e3), y * (1 + 2**-21), y)
            return torch.where((x > 100) & (x < 200), math.inf, y)

        subject = alone(formula("@op\ndef f(x: Tensor):\n    return x\n", tmp_path), function)
        whole = Space(["x"], torch.float32, 16411)
        expected = exhaustive.run(subject, whole, lambda: None, {})
        in_chunks = Space(["x"], torch.float32, 16411, "cpu", 2)
        if device == "cuda":
            in_chunks.device = torch.device(device)
            subject = replace(subject, reference=lambda x: pytest.fail("called"))
        found = exhaustive.run(subject, in_chunks, lambda: None, {})
        assert {row.path for row in found} == {exhaustive.PATHS[device]}
        assert [row.mean for row in found] == pytest.approx([row.mean for row in expected])
        assert [replace(row, path="", total=0.0) for row in found] == [
            replace(row, path="", total=0.0) for row in expected
        ]
        assert expected[0].worst > 1
        assert expected[0].bad > 400  # infinities; and of NaN a few

    def test_tuples_are_spread_evenly(self) -> None:
        space = Space(["x", "y", "z"], torch.float32, 20)
        columns = [torch.cat([space[k][name] for k in range(1, len(space))]) for name in space.names]
        assert len(columns[0]) == 500_000
        octants = sum((column.view(torch.int32) < 0).long() << k for k, column in enumerate(columns))
        assert (octants.bincount() / 500_000 - 1 / 8).abs().max() < 0.005
        for column in columns:
            exponents = (column.view(torch.int32) >> 23 & 0xFF).bincount()
            assert exponents.min() > 0.9 * exponents.max()

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("pattern", [0x0001, 0x3C01, -0x8000 + 0x7801, -0x8000 + 0x0001])
    def test_a_fault_at_a_single_input_is_found(self, tmp_path: Path, dtype: torch.dtype, pattern: int) -> None:
        place = torch.tensor([pattern], dtype=torch.int16).view(dtype)

        def function(x: Tensor) -> Tensor:
            return torch.where(x == place, x * 1.5 + torch.sign(x) * 1e-3, x) if x.dtype == dtype else x

        subject = alone(formula("@op\ndef f(x: Tensor):\n    return x\n", tmp_path), function)
        ticks: list[None] = []
        value, *_ = exhaustive.run(subject, Space(["x"], dtype, 1), lambda: ticks.append(None), {})
        assert value.count == 1 << 16
        assert value.worst > 4
        assert f"at x={measure.shown({'x': place.item()}, value.dtype).removeprefix('x=')}: " in value.at
        assert len(ticks) == 1

    @pytest.mark.parametrize("dtype", exhaustive.DTYPES, ids=measure.dtype_name)
    @pytest.mark.parametrize("wrong", ["value", "gradient", "second derivative"])
    def test_a_fault_that_float64_shares_is_found(self, tmp_path: Path, dtype: torch.dtype, wrong: str) -> None:
        def function(x: Tensor) -> Tensor:
            y = x.detach()
            is_there = (y > 0.5) & (y < 64)
            off = {"value": y**0, "gradient": x - y, "second derivative": (x - y) ** 2}[wrong]
            return torch.where(is_there, torch.sin(x.double()) + 0.05 * off, torch.sin(x.double())).to(x.dtype)

        subject = alone(formula("@op\ndef f(x: Tensor):\n    return sin(x)\n", tmp_path), function)
        rows = {row.kind: row for row in exhaustive.run(subject, Space(["x"], dtype, 4001), lambda: None, {})}
        assert rows[wrong].worst > 4
        assert 0.5 < float(re.search(r" at x=(\S+): ", rows[wrong].at).group(1)) < 64
        assert all(row.worst <= 1 and not row.bad for kind, row in rows.items() if kind != wrong)

    def test_the_mean_is_that_of_all_errors_that_are_numbers(self, tmp_path: Path) -> None:
        def function(x: Tensor) -> Tensor:
            return torch.where(x.abs() < 1, x * (1 + 2**-9), x * 1.5) if x.dtype == torch.float16 else x

        space = Space(["x"], torch.float16, 1)
        inputs = [x for x in space[0]["x"].tolist() if not math.isnan(x)]
        computed = function(torch.tensor(inputs, dtype=torch.float16)).tolist()
        errors = [
            error(y, Exact(mpf(x), lambda x=x: mpf(abs(x))), "float16") for x, y in zip(inputs, computed, strict=True)
        ]
        subject = alone(formula("@op\ndef f(x: Tensor):\n    return x\n", tmp_path), function)
        value, *_ = exhaustive.run(subject, space, lambda: None, {})
        assert value.bad == errors.count(math.inf) > 0
        finite = sum(e for e in errors if e < math.inf)
        assert value.mean == pytest.approx(finite / (value.count - value.bad), rel=1e-12)

    def test_a_number_for_nan_is_bad(self, tmp_path: Path) -> None:
        def function(x: Tensor) -> Tensor:
            return x.nan_to_num(1.0, math.inf, -math.inf) if x.dtype == torch.float16 else x * 1

        subject = alone(formula("@op\ndef f(x: Tensor):\n    return x\n", tmp_path), function)
        value, *_ = exhaustive.run(subject, Space(["x"], torch.float16, 1), lambda: None, {})
        assert value.bad == 2 * 1023

    @pytest.mark.parametrize("low", [-math.inf, 2.0, 2.0 + 2**-9])
    def test_nan_in_every_type_is_bad_where_there_is_a_number(self, tmp_path: Path, low: float) -> None:
        def function(x: Tensor) -> Tensor:
            return torch.where((x > low) & (x < 2.25), math.nan, x)

        subject = alone(formula("@op\ndef f(x: Tensor):\n    return x\n", tmp_path), function)
        value, *_ = exhaustive.run(subject, Space(["x"], torch.float16, 1), lambda: None, {})
        assert value.bad
        assert re.match(r"value at x=\S+: nan in place of", value.bad_at)

    def test_nan_where_there_is_no_number_is_right(self, tmp_path: Path) -> None:
        subject = alone(formula("@op\ndef f(x: Tensor):\n    return log(x)\n", tmp_path), torch.log)
        value, *_ = exhaustive.run(subject, Space(["x"], torch.float16, 1), lambda: None, {})
        assert not value.bad

    def test_the_command(self, verify: Verify) -> None:
        result = verify(SQUARE, "--exhaustive", "--stride", "65537")
        assert result.exit_code == 0, result.stdout
        for dtype in ("float16", "bfloat16", "float32"):
            worst, mean = cells(result, dtype, "value")[4].split(" / ")  # in the column of the exhaustive run
            assert worst == "0.50"
            assert 0 < float(mean) < 0.25
            assert cells(result, dtype, "gradient")[4] == "0.00 / 0.00"
        assert cells(result, "float64", "value")[4] == ""

    def test_the_command_for_two_inputs(self, verify: Verify, tmp_path: Path) -> None:
        templates = corrupted(
            tmp_path / "t", "f'gg_store({name})'", "f'gg_store(sizeof(real) == 4 && a > 0 && b < 0 ? 0 : {name})'"
        )
        text = "@op\ndef hinge(a: Tensor, b: Tensor(grad=False)):\n    return Max(a, b)\n"
        result = verify(text, "--exhaustive", "--stride", "100", "--templates", templates)
        assert result.exit_code == 1
        lines = [line for line in result.stdout.splitlines() if "cpu, exhaustive)" in line]
        assert any(line.startswith("hinge: float32 value: ") and "over the bar" in line for line in lines)

    @gpu
    def test_the_command_on_cuda(self, verify: Verify) -> None:
        result = verify(SQUARE, "--exhaustive", "--stride", "65537", "--path", "cuda", "--record", "new.md")
        assert result.exit_code == 0, result.stdout
        assert re.search(r"┃ cuda +┃ cuda, exhaustive +┃ paths differ by", result.stdout)
        for dtype in ("float16", "bfloat16", "float32"):
            assert cells(result, dtype, "value")[3].startswith("0.50 / 0.")
            assert cells(result, dtype, "gradient")[3] == "0.00 / 0.00"
        recorded = Path("new.md").read_text()
        assert recorded.startswith(record._MARKERS["cuda"][0])
        assert f" on {torch.cuda.get_device_name()}, " in recorded
        assert "for the CUDA kernels of float16" in recorded
        assert record.BEGIN not in recorded

    @pytest.mark.slow
    def test_every_float32(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All are in the chunks of a whole run; of those, which take seven minutes, every 64th is computed."""
        whole = Space(["x"], torch.float32, 1)
        chunk = len(whole[0]["x"])
        assert len(whole) * chunk == 1 << 32
        for k in (*range(0, len(whole), 97), len(whole) - 1):
            patterns = whole[k]["x"].view(torch.int32).long() & 0xFFFF_FFFF
            assert torch.equal(patterns, torch.arange(k * chunk, (k + 1) * chunk)), k

        spec = tmp_path / "relu.py"
        spec.write_text(HEAD + "@op\ndef relu(x: Tensor):\n    return Max(x, 0)\n")
        monkeypatch.setattr(Subject, "quantities", FIRST_ORDER)  # a second derivative takes as long again
        with built((spec,), None) as (subject,):
            rows = exhaustive.run(subject, Space(["x"], torch.float32, 64), lambda: None, {})
        assert [(row.kind, row.count, row.worst, row.bad) for row in rows] == [
            (kind, 1 << 26, 0.0, 0) for kind in ("value", "gradient")
        ]
