"""The wheel, installed as a user installs it: it brings its templates, needs no torch, and builds the same files."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent

# One group: whatever the number of processes, one of them makes the environment, once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, REPOSITORY], check=True)
    (wheel,) = folder.glob("gradgen_torch-*.whl")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    install = [programs / "python", "-m", "pip", "install", "--quiet", "-c", REPOSITORY / "constraints.txt", wheel]
    subprocess.run(install, check=True)
    return programs


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that has to succeed, away from the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_specs_are_built_byte_for_byte_as_in_the_checkout(installed: Path, tmp_path: Path) -> None:
    specs = [REPOSITORY / "formulas" / name for name in ("swish.py", "losses.py", "polar.py")]
    run(installed / "gradgen", "build", *specs, cwd=tmp_path)
    built = {file.name: file.read_bytes() for file in (tmp_path / "generated").iterdir() if file.stem != "__init__"}
    assert built.keys() == {"_runtime.py", *(spec.name for spec in specs)}
    for name, text in built.items():
        assert text == (REPOSITORY / "generated" / name).read_bytes(), name


def test_what_the_checkout_built_is_fresh(installed: Path, tmp_path: Path) -> None:
    output = run(installed / "gradgen", "check", REPOSITORY / "formulas", "-o", REPOSITORY / "generated", cwd=tmp_path)
    assert output.endswith(" fresh\n")


def test_neither_torch_nor_the_checkout_is_needed(installed: Path, tmp_path: Path) -> None:
    program = (
        "import importlib.util, gradgen.build;"
        "print(importlib.util.find_spec('torch'), gradgen.build.templates_dir(), sep='\\n')"
    )
    torch, templates = run(installed / "python", "-c", program, cwd=tmp_path).splitlines()
    assert torch == "None"
    assert Path(templates).is_relative_to(installed.parent)
