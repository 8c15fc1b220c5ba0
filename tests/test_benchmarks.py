"""The benchmark runs and writes what it found; no test asserts a time."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from benchmarks import report, timing
from benchmarks.__main__ import main
from benchmarks.cases import CASES, Case, functions
from benchmarks.measure import COPY, DIRECTIONS, EAGER, GRADGEN, OWN, Bench


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


def test_what_is_saved_can_be_read_again(results: report.Results, tmp_path: Path) -> None:
    results.save(tmp_path / "again")
    assert report.Results.load(tmp_path / "again.json") == results
    assert json.loads((tmp_path / "again.json").read_text())["device"] == "cpu"


def test_what_there_is_no_time_for_is_named(tmp_path: Path) -> None:
    options = ["--ops", "relu", "--dtypes", "float32", "--sizes", "6", "--budget", "1e-9", "--out", str(tmp_path / "x")]
    done = CliRunner().invoke(main, ["cpu", *options])
    assert "no time for relu, float32" in done.output


def test_an_operation_that_is_none_is_refused() -> None:
    done = CliRunner().invoke(main, ["cpu", "--ops", "nonsense"])
    assert done.exit_code == 2
    assert "no such operation: nonsense" in done.output


def test_medians_and_quartiles() -> None:
    assert timing.Timing.of([1.0, 2.0, 3.0, 4.0, 100.0]) == timing.Timing(3.0, 2.0, 4.0, 5)
    found = timing.side_by_side({"a": lambda k: None, "b": lambda k: sum(range(2000))}, "cpu", 0.01)
    assert found["a"].median < found["b"].median


def test_traffic_counts_each_input_and_result_once() -> None:
    case = {case.name: case for case in CASES}
    assert case["swish"].traffic(10, torch.float32, False) == 4 * (10 + 10)
    assert case["swish"].traffic(10, torch.float32, True) == 4 * (20 + 30)
    assert case["huber"].traffic(10, torch.bfloat16, True) == 2 * (30 + 40)
    assert case["bias_gelu"].traffic(2048, torch.float32, False) == 4 * (2048 + 1024 + 2048)


@pytest.mark.slow
def test_peers_compute_the_same() -> None:
    with functions(CASES) as made:
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
