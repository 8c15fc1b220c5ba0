"""The whole way from a spec file to the text of its module."""

from __future__ import annotations

from pathlib import Path

from gradgen.load import load
from gradgen.plan import plan
from gradgen.render import render_module, render_shared


def module(spec: Path, templates: Path) -> str:
    """The text of the module generated from a spec file.

    Raises:
        GradgenError: for any mistake in the spec file.
    """
    text = render_module(spec, [plan(formula) for formula in load(spec)], templates)
    compile(text, f"{spec.stem}.py", "exec")  # what is no Python is a bug of gradgen and must not become a file
    return text


def shared(templates: Path) -> dict[str, str]:
    """The files that the modules of a folder share, by name."""
    return render_shared(templates)
