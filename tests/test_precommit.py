"""The hooks, run by the real pre-commit in a scratch repository that uses this one as its users do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SHIPPED = ("gradgen", "templates", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")
SPEC = "from sympy import symbols\n\nx = symbols('x')\nparabola = {formula}\n"

# pre-commit installs the package into an environment of its own, from the network; one group, so that it does so once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pre-commit")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which git and pre-commit depend on nothing of the user's."""
    home = tmp_path_factory.mktemp("home")
    # Git hooks set GIT_DIR and others; PYTHONPATH could put the checkout before what is installed.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHONPATH"))}
    return inherited | {
        "GIT_AUTHOR_NAME": "A. Tester",
        "GIT_AUTHOR_EMAIL": "tester@example.org",
        "GIT_COMMITTER_NAME": "A. Tester",
        "GIT_COMMITTER_EMAIL": "tester@example.org",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PRE_COMMIT_HOME": str(home),
        "PRE_COMMIT_COLOR": "never",
    }


class Project:
    """A user's git repository.

    Attributes:
        folder: where it lies.
        environment: the variables to run commands with.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.git("init", "--quiet")

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)

    def git(self, *arguments: str) -> str:
        done = self.run("git", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit_all(self) -> str:
        """Commit everything, past the hooks, and give the commit's name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", "A step")
        return self.git("rev-parse", "HEAD")

    def hook(self, alias: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "pre_commit", "run", alias)

    def write_spec(self, formula: str) -> None:
        (self.folder / "formulas").mkdir(exist_ok=True)
        (self.folder / "formulas/parabola.py").write_text(SPEC.format(formula=formula))


@pytest.fixture(scope="module")
def revision(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> tuple[Path, str]:
    """A git repository with what is in this working tree, and its commit."""
    folder = tmp_path_factory.mktemp("gradgen")
    for name in SHIPPED:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY / name, folder / name)
    return folder, Project(folder, environment).commit_all()


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str], revision: tuple[Path, str]) -> Project:
    """A project with one formula, not yet built, and both hooks."""
    project = Project(tmp_path, environment)
    config = f"""
repos:
  - repo: {revision[0]}
    rev: {revision[1]}
    hooks:
      - id: gradgen-build
        alias: build
      - id: gradgen-check
        alias: check
      - id: gradgen-check
        alias: check-elsewhere
        args: [formulas, -o, src/ops]
"""
    (tmp_path / ".pre-commit-config.yaml").write_text(config)
    project.write_spec("x**2")
    project.commit_all()
    return project


def test_build_fails_until_what_it_wrote_is_committed(project: Project) -> None:
    first = project.hook("build")
    assert first.returncode == 1, first.stdout
    assert "built generated/parabola.py" in first.stdout
    project.commit_all()
    second = project.hook("build")
    assert second.returncode == 0, second.stdout

    project.write_spec("x**2 + 1")
    project.git("add", "formulas")
    assert project.hook("build").returncode == 1
    assert project.git("status", "--porcelain", "generated") == "M generated/parabola.py"


def test_check_fails_with_a_diff_until_the_build_is_right(project: Project) -> None:
    assert project.hook("check").returncode == 1
    project.hook("build")
    project.commit_all()
    assert project.hook("check").returncode == 0

    project.write_spec("x**2 + 1")
    project.git("add", "formulas")
    done = project.hook("check")
    assert done.returncode == 1
    assert "generated/parabola.py: the spec changed" in done.stdout
    assert "+++ generated/parabola.py as a build gives it" in done.stdout
    assert project.git("status", "--porcelain", "generated") == ""


def test_check_notices_that_the_only_change_is_a_spec_that_is_gone(project: Project) -> None:
    project.write_spec("x")
    (project.folder / "formulas/parabola.py").rename(project.folder / "formulas/line.py")
    project.write_spec("x**2")
    project.hook("build")
    project.commit_all()
    project.git("rm", "--quiet", "formulas/parabola.py")
    done = project.hook("check")
    assert done.returncode == 1
    assert "generated/parabola.py: its spec is gone" in done.stdout


def test_arguments_name_other_folders(project: Project) -> None:
    done = project.hook("check-elsewhere")
    assert done.returncode == 1
    assert "src/ops/parabola.py: missing" in done.stdout
