"""The benchmark runs and writes what it found; no test asserts a time."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console
from torch import Tensor

from benchmarks import generator, launch, layouts, measure, report, sums, timing, workers
from benchmarks.__main__ import main
from benchmarks.cases import CASES, Case, built, load
from benchmarks.measure import COMPILED, COPY, DIRECTIONS, EAGER, GRADGEN, OWN, Bench, Row
from benchmarks.workers import Setup, Workers


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> report.Results:
    """Of a short run."""
    stem = tmp_path_factory.mktemp("benchmarks") / "short"
    options = ["--ops", "relu,huber", "--dtypes", "float32,bfloat16", "--peers", "eager,torch"]
    done = CliRunner().invoke(main, ["cpu", *options, "--sizes", "6,10", "--seconds", "0.001", "--out", str(stem)])
    assert done.exit_code == 0, done.output
    assert "forward and backward" in done.output
    assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    return report.Results.load(stem.with_suffix(".json"))


def test_every_figure_is_there(results: report.Results) -> None:
    groups = report.grouped(results.rows)
    assert len(groups) == 2 * 2 * 2 * len(DIRECTIONS)
    for group in groups.values():
        assert group.keys() == {GRADGEN, EAGER, OWN, COPY}
        assert all(0 < row.low <= row.median <= row.high for row in group.values())
    assert results.saved["relu"][GRADGEN] == 4
    assert results.machine["torch"] == torch.__version__
    assert results.options["types"] == "float32,bfloat16"
    assert results.options["sizes"] == "2^6 2^10"
    assert results.options["seconds in all"] > 0


def test_a_record_of_former_days_is_read(results: report.Results, tmp_path: Path) -> None:
    results.write(tmp_path / "former")
    content = json.loads((tmp_path / "former.json").read_text())
    del content["options"]
    (tmp_path / "former.json").write_text(json.dumps(content))
    assert report.Results.load(tmp_path / "former.json").rows == results.rows


def test_what_stands_in_the_document_of_a_processor(results: report.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_SHOWN", (1 << 10,))
    lines = report.markdown(results, "plot.png").splitlines()
    assert len([line for line in lines if line.startswith("| relu | ")]) == 2  # one is of what is saved
    assert [line for line in lines if line.startswith("At 2^10 elements:")]
    assert not [line for line in lines if line.startswith("At 2^6 elements:")]
    assert "quartiles" in "".join(lines)
    assert "types float32,bfloat16, sizes 2^6 2^10" in lines[2]


def test_what_is_saved_can_be_read_again(results: report.Results, tmp_path: Path) -> None:
    results.save(tmp_path / "again")
    assert report.Results.load(tmp_path / "again.json") == results
    assert json.loads((tmp_path / "again.json").read_text())["device"] == "cpu"


def test_several_runs_are_recorded_as_one(
    results: report.Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, files = tmp_path / "docs" / "performance.md", []
    document.parent.mkdir()
    document.write_text("<!-- cpu: begin -->\n<!-- cpu: end -->\n")
    monkeypatch.setattr(report, "DOCUMENT", document)
    for dtype, other in (("float32", "bfloat16"), ("bfloat16", "float32")):
        part = dataclasses.replace(
            results,
            rows=[row for row in results.rows if row.dtype == dtype],
            cold={"relu": float(len(dtype))},
            left_out=[f"relu, {other}", "exp, float64"],
            notes=["one", dtype],
            options={"types": dtype, "sizes": "2^6 2^10", "seconds in all": 7},
        )
        part.write(tmp_path / dtype)
        files.append(str(tmp_path / f"{dtype}.json"))

    def recorded(*arguments: str) -> str:
        return CliRunner().invoke(main, ["record", *arguments]).output

    assert recorded(*files, "--out", str(tmp_path / "whole")) == ""
    whole = report.Results.load(tmp_path / "whole.json")
    assert sorted(whole.rows, key=str) == sorted(results.rows, key=str)
    assert whole.options == {"types": "float32; bfloat16", "sizes": "2^6 2^10", "seconds in all": 14}
    assert (whole.saved, whole.cold) == (results.saved, {"relu": 7.0})
    assert (whole.left_out, whole.notes) == (["exp, float64"], ["one", "float32", "bfloat16"])
    assert "types float32; bfloat16, sizes 2^6 2^10" in document.read_text()
    assert "by --out" in recorded(*files)
    assert "in more than one" in recorded(files[0], files[0], "--out", str(tmp_path / "whole"))
    dataclasses.replace(results, machine={**results.machine, "torch": "1"}).write(tmp_path / "other")
    assert "different machines" in recorded(files[0], str(tmp_path / "other.json"), "--out", str(tmp_path / "whole"))


def test_what_there_is_no_time_for_is_named(tmp_path: Path) -> None:
    options = ["--ops", "relu", "--dtypes", "float32", "--sizes", "6", "--budget", "1e-9", "--out", str(tmp_path / "x")]
    done = CliRunner().invoke(main, ["cpu", *options])
    assert done.exit_code == 0, done.output
    assert "no time for relu, float32" in done.output


def test_an_operation_that_is_none_is_refused() -> None:
    done = CliRunner().invoke(main, ["cpu", "--ops", "nonsense"])
    assert done.exit_code == 2
    assert "no such operation: nonsense" in done.output


def test_what_is_slow_in_its_first_call_is_called_often_nevertheless() -> None:
    called = []

    def call(k: int) -> None:
        called.append(k)
        if len(called) == 1:
            time.sleep(0.05)

    timing.side_by_side({"a": call}, "cpu", 0.02)
    assert len(called) > 100


def test_a_long_call_is_warmed_up_once() -> None:
    called = []
    timing.side_by_side({"a": lambda k: called.append(time.sleep(0.01))}, "cpu", 0.001)
    assert len(called) == 2 + 3


def test_what_there_is_no_memory_for_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "most_traffic", lambda device: 1 << 10)
    options = ["--ops", "relu", "--dtypes", "float32", "--sizes", "4,10", "--peers", "eager", "--out"]
    assert CliRunner().invoke(main, ["cpu", *options, str(tmp_path / "x")]).exit_code == 0
    found = report.Results.load(tmp_path / "x.json")
    assert {row.n for row in found.rows} == {16}
    assert found.notes == ["relu, float32, 1024 elements: there is no memory"]


def test_medians_and_quartiles() -> None:
    assert timing.Timing.of([1.0, 2.0, 3.0, 4.0, 100.0]) == timing.Timing(3.0, 2.0, 4.0, 5)
    found = timing.side_by_side({"a": lambda k: None, "b": lambda k: sum(range(2000))}, "cpu", 0.01)
    assert found["a"].median < found["b"].median


def test_functions_are_called_in_changing_order() -> None:
    called: list[str] = []
    names = "abcd"
    timing.side_by_side({name: lambda k, name=name: called.append(name) for name in names}, "cpu", 0.01)
    turns = [name for name, before in zip(called, ["", *called], strict=False) if name != before]
    rounds = ["".join(turns[k : k + 4]) for k in range(4, len(turns) - 3, 4)]
    assert len({*rounds}) > 2


def test_traffic_counts_each_input_and_result_once() -> None:
    case = {case.name: case for case in CASES}
    assert case["swish"].traffic(10, torch.float32, False) == 4 * (10 + 10)
    assert case["swish"].traffic(10, torch.float32, True) == 4 * (20 + 30)
    assert case["huber"].traffic(10, torch.bfloat16, True) == 2 * (30 + 40)
    assert case["bias_gelu"].traffic(2048, torch.float32, False) == 4 * (2048 + 1024 + 2048)


@pytest.mark.slow
def test_peers_compute_the_same() -> None:
    with built(CASES) as place:
        made = load(CASES, *place)
        for case in CASES:
            inputs = case.inputs(1 << 11, torch.float64, "cpu", True, 0)
            for other in (case.eager, case.own):
                if other is not None:
                    for ours, theirs in zip(derived(made[case.name], inputs), derived(other, inputs), strict=True):
                        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, msg=case.name)


def derived(function: object, inputs: list[Tensor]) -> list[Tensor]:
    """Results and gradients."""
    results = function(*inputs)  # type: ignore[operator]
    results = results if isinstance(results, tuple) else (results,)
    wanted = [x for x in inputs if x.requires_grad]
    return [*results, *torch.autograd.grad(results, wanted, [torch.ones_like(y) for y in results])]


def test_saved_bytes_count_each_storage_once() -> None:
    case = Case("square", "square", lambda x: x * x * x)
    bench = Bench("cpu", {"square": lambda x: x * x}, 0.01, [EAGER])
    found = bench.saved_bytes(case, torch.float32, 1 << 12)
    assert math.isclose(found[GRADGEN], 4)
    assert math.isclose(found[EAGER], 8)


def test_a_peer_that_raises_is_left_out_of_its_case() -> None:
    def fails(x: Tensor) -> Tensor:
        raise RuntimeError("no rows\nand more about it")

    bench = Bench("cpu", {"square": lambda x: x * x}, 0.001, [EAGER, OWN])
    rows = bench.rows(Case("square", "square", fails, torch.square), 64, torch.float32)
    assert {row.peer for row in rows} == {GRADGEN, OWN, COPY}
    assert [*bench.notes] == ["eager is left out of square: RuntimeError: no rows"]


def test_a_peer_that_raises_in_one_direction_is_measured_in_the_other() -> None:
    bench = Bench("cpu", {"square": lambda x: x * x}, 0.001, [EAGER])
    rows = bench.rows(Case("square", "square", lambda x: x.detach() ** 2), 64, torch.float32)
    assert [row.direction for row in rows if row.peer == EAGER] == [DIRECTIONS[0]]
    assert len(bench.notes) == 1


def test_without_figures_of_gradgen_there_are_none() -> None:
    def fails(x: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("too large")

    bench = Bench("cpu", {"square": fails}, 0.001, [EAGER])
    assert not bench.rows(Case("square", "square", torch.square), 64, torch.float32)
    assert [*bench.notes] == ["gradgen is left out of square: OutOfMemoryError: too large"]


def test_a_peer_that_writes_over_its_inputs_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    least: list[float] = []

    def ours(x: Tensor) -> Tensor:
        least.append(float(x.detach().abs().max()))
        return x * x

    def theirs(x: Tensor) -> Tensor:
        x.data.zero_()
        return x * x

    monkeypatch.setattr(measure, "_OVERWRITING", (EAGER,))
    rows = Bench("cpu", {"square": ours}, 0.001, [EAGER]).rows(Case("square", "square", theirs), 64, torch.float32)
    assert len(rows) == 2 * 3
    assert min(least) > 0


_RELU = [case for case in CASES if case.name == "relu"]


def _workers(peers: tuple[str, ...] = (EAGER,), names: tuple[str, ...] = ("relu",)) -> Workers:
    return Workers(2, Setup("cpu", names, ("", "none"), 0.001, peers, [64]))


def test_each_process_measures_what_it_has_prepared() -> None:
    cases = [case for case in CASES if case.name in ("relu", "exp", "mish")]
    with _workers(names=("relu", "exp", "mish")) as workers:
        assert not [*workers.prepare(cases, torch.float32, lambda: False)]  # there is no time
        prepared = {case.name: found for case, found in workers.prepare(cases, torch.float32, lambda: True)}
        assert {name: found.saved[GRADGEN] for name, found in prepared.items()} == {"relu": 4, "exp": 4, "mish": 4}
        for case in cases:
            found = workers.measure(case, torch.float32)
            assert not found.notes
            assert {(row.op, row.peer) for row in found.rows} == {(case.name, x) for x in (GRADGEN, EAGER, COPY)}


def test_a_process_that_ends_costs_its_cases_alone() -> None:
    with _workers() as workers:
        assert len([*workers.prepare(_RELU, torch.float32, lambda: True)]) == 1
        [owner] = workers._owners.values()
        os.kill(workers._processes[owner], signal.SIGKILL)
        found = workers.measure(_RELU[0], torch.float32)
        assert not found.rows
        assert found.notes[0].startswith("relu failed: BrokenProcessPool")
        assert "its process had ended" in workers.measure(_RELU[0], torch.float32).notes[0]
        assert len([*workers.prepare(_RELU, torch.bfloat16, lambda: True)]) == 1  # by the other
        assert workers.measure(_RELU[0], torch.bfloat16).rows


def _rows() -> Iterator[Row]:
    """Two operations on a GPU; one peer is twice as slow as gradgen, the other as fast as the copy."""
    for op, unit in (("relu", 1e-3), ("exp", 2e-3)):
        for direction in DIRECTIONS:
            for n in (1 << 10, 1 << 28):
                for peer, times in ((GRADGEN, 1.0), (COPY, 0.8), (OWN, 0.8 * 1e3 * unit), (COMPILED, 2.0)):
                    yield Row(op, "float32", n, direction, peer, unit * times, unit * times, unit * times, 8 * n)


def _on_a_gpu() -> report.Results:
    machine = {"gpu": "NVIDIA H200", "torch": "2.11.0", "driver": "580.1", "processor": "any"}
    left_out = ["relu, float16", "exp, float16"]
    return report.Results("cuda", machine, [*_rows()], {"relu": 7.0}, {}, left_out, ["liger is left out of swiglu: no"])


def test_what_stands_in_the_document_of_a_gpu() -> None:
    lines = report.markdown(_on_a_gpu(), "plot.png").splitlines()
    assert lines[0] == "### On NVIDIA H200"
    assert "| forward | 2^28 | 1.60 (0.80, 1.60) |" in lines
    assert "| forward | 2^28 | 80% (80%, 80%) |" in lines
    assert "| relu | 80%, 0.80 torch | 80%, 0.80 torch |" in lines
    assert "| exp | 80%, 1.60 torch | 80%, 1.60 torch |" in lines
    assert "- float16: relu, exp" in lines
    assert "- liger is left out of swiglu: no" in lines
    assert not [line for line in lines if "2^10" in line and "float32" in line]  # of each peer the largest size alone


def test_a_document_is_recorded_from_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "docs" / "performance.md"
    document.parent.mkdir()
    document.write_text("before\n<!-- gpu: begin -->\nold\n<!-- gpu: end -->\nafter\n")
    monkeypatch.setattr(report, "DOCUMENT", document)
    _on_a_gpu().write(tmp_path / "gpu")
    done = CliRunner().invoke(main, ["record", str(tmp_path / "gpu.json")])
    assert done.exit_code == 0, done.output
    text = document.read_text()
    assert text.startswith("before\n<!-- gpu: begin -->\n### On NVIDIA H200\n")
    assert text.endswith("![throughput by size](../gpu.png)\n<!-- gpu: end -->\nafter\n")
    assert "old" not in text
    assert (tmp_path / "gpu.png").exists()


def test_long_tables_are_printed_as_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    results = _on_a_gpu()
    many = [
        Row(f"op{k}", *list(vars(row).values())[1:])
        for k in range(60)
        for row in results.rows[: len(results.rows) // 2]
    ]
    report.show(report.Results("cuda", results.machine, many), Console(width=200))
    printed = capsys.readouterr().out
    assert "op59" in printed
    assert "how many times as long others take" not in printed


def timed(command: str, tmp_path: Path) -> tuple[str, dict[str, dict[str, float]]]:
    """What a command prints, and the timings that it writes."""
    done = CliRunner().invoke(main, [command, "--out", str(tmp_path / "found.v1")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.v1.json").read_text())
    assert found["machine"]["torch"] == torch.__version__
    assert all(0 < each["low"] <= each["median"] <= each["high"] for each in found["seconds"].values())
    return done.output, found["seconds"]


def test_results_of_two_machines_lie_apart() -> None:
    names = [report.stem("cpu", {"processor": f"Intel(R) w/ CPU @ {speed}GHz"}).name for speed in ("2.20", "2.80")]
    assert names == ["cpu-intel-r-w-cpu-2-20ghz", "cpu-intel-r-w-cpu-2-80ghz"]


def test_how_long_the_generator_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(generator, "_seconds", lambda arguments: commands.append(arguments) or 0.25 * len(commands))
    printed, seconds = timed("build", tmp_path)
    assert "the gallery, nothing to do" in printed
    assert seconds["one operation, swish"] == {"median": 0.75, "low": 0.625, "high": 0.875, "samples": 3}
    fresh = [command[-1] for command in commands if command[1].endswith("swish.py")]
    assert len({*fresh}) == len(fresh) == 3  # an empty folder each time


def test_the_generator_is_a_command_that_may_fail(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x\n")
    assert generator._seconds(["--version"]) > 0
    with pytest.raises(subprocess.CalledProcessError):
        generator._seconds(["build", str(tmp_path / "none.py"), "-o", str(tmp_path)])


@pytest.mark.xdist_group("native")
def test_where_the_time_of_a_small_call_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "_SECONDS", 1e-4)
    monkeypatch.setattr(launch._runtime, "_native", None)
    printed, seconds = timed("launch", tmp_path)
    for way in ("by C and Python", "by C++"):
        assert f"Forward and backward {way}, microseconds" in printed
        assert f"Forward and backward {way}: swish(x)" in seconds
    assert printed.count("F.silu(x)") == 4


def test_other_layouts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(layouts, "_SECONDS", 1e-4)
    monkeypatch.setattr(layouts, "_SIZES", (16,))
    printed, seconds = timed("layouts", tmp_path)
    assert "channels last" in printed
    assert "relu_" in printed
    for peer in ("gradgen", "torch"):
        assert f"max_gate, with a row, forward and backward, 256, {peer}" in seconds


@pytest.mark.slow
def test_gradients_of_inputs_that_broadcast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sums, "_SECONDS", 1e-4)
    monkeypatch.setattr(sums, "_SIZES", (1 << 12,))
    printed, seconds = timed("sums", tmp_path)
    assert printed.count("channel_swish") == printed.count("bias_gelu") == 6
    assert len(seconds) == 24
    assert {name.rpartition(", ")[2] for name in seconds} == {"with it", "without it"}
