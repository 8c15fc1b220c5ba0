"""Builds specs for a test and imports what comes out."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from pathlib import Path
from types import ModuleType

from gradgen import generate
from gradgen.build import templates_dir
from gradgen.load import Formula, load

_NUMBERS = itertools.count()


def build(text: str, folder: Path) -> tuple[ModuleType, list[Formula]]:
    """The generated module of a spec with this text, and its formulas."""
    package = folder / f"built{next(_NUMBERS)}"
    package.mkdir()
    spec = package / "spec.py"
    spec.write_text("from sympy import *\nfrom gradgen import Tensor, op\n" + textwrap.dedent(text))
    formulas = load(spec)
    (package / "ops.py").write_text(generate.module(spec, templates_dir()))
    for name, shared in generate.shared(templates_dir()).items():
        (package / name).write_text(shared)
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(f"{package.name}.ops"), formulas
    finally:
        sys.path.remove(str(folder))
