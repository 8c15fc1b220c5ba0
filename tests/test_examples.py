"""The examples, run as a reader would run them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gallery import ROOT, runtime


def run(example: str, folder: Path) -> str:
    """What the example prints, started in another folder."""
    command = [sys.executable, str(ROOT / "examples" / example)]
    # One thread: many wait for each other for long where processors are shared.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_two_layer_net_learns(tmp_path: Path) -> None:
    printed = run("two_layer_net.py", tmp_path)
    found = re.findall(r"^step +(\d+)  loss ([\d.e+-]+)$", printed, re.MULTILINE)
    assert [int(step) for step, _ in found] == [0, 100, 200, 300, 400, 500]
    losses = [float(loss) for _, loss in found]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 1e6
    assert losses[-1] < 1e-3


def test_two_layer_net_runs_on_the_generated_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("two_layer_net", ROOT / "examples" / "two_layer_net.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert capsys.readouterr().out == ""  # importing it trains nothing
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with runtime().record_paths() as record:
        example.main()
    torch.set_num_threads(threads)
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert {name for name, _ in record} == {"relu", "relu_backward"}
    assert {path for _, path in record} <= {"cpu", "cuda"}
    assert len(record) == 2 * 501


def test_demo_shows_where_torch_loses_what_swish_keeps(tmp_path: Path) -> None:
    printed = run("demo.py", tmp_path)
    assert re.search(r"^gradcheck +passed$", printed, re.MULTILINE)
    assert re.search(r"^gradgradcheck +passed$", printed, re.MULTILINE)
    assert re.search(
        r"^computed by +swish on the (cpu|cuda) path, swish_backward on the \1 path$", printed, re.MULTILINE
    )
    rows = [line.split() for line in printed.splitlines() if re.match(r" *-?\d", line)]
    points = {float(x): [float(cell) for cell in cells] for x, *cells in rows}
    assert {-100.0, 0.0, 88.0} <= set(points)
    for value, _, exact, gradient, _, exact_gradient in points.values():
        assert value == pytest.approx(exact, rel=2e-3)
        assert gradient == pytest.approx(exact_gradient, rel=2e-3)
    _, of_torch, exact, _, gradient_of_torch, exact_gradient = points[-90.0]
    assert of_torch == gradient_of_torch == 0
    assert exact < 0
    assert exact_gradient < 0
    assert max(map(len, printed.splitlines())) <= 100
