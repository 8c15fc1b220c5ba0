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
from gradgen.plan import plan
from gradgen.render import render_module, render_section
from gradgen.verify.subject import Subject

_NUMBERS = itertools.count()
_GENERATED: dict[str, str] = {}  # by the text of the spec, or its name: several tests look at one formula
_RUNTIME: list[ModuleType] = []

_every_quantity = Subject.quantities.fget
FIRST_ORDER = property(lambda self: [quantity for quantity in _every_quantity(self) if len(quantity.wrt) < 2])


def build(text: str, folder: Path) -> tuple[ModuleType, list[Formula]]:
    """The generated module of a spec with this text, and its formulas."""
    package = new_package(folder / f"built{next(_NUMBERS)}")
    spec = package / "spec.py"
    spec.write_text("from sympy import *\nfrom gradgen import Tensor, op\n" + textwrap.dedent(text))
    formulas = load(spec)
    if text not in _GENERATED:
        _GENERATED[text] = generate.module(spec, templates_dir())
    (package / "ops.py").write_text(_GENERATED[text])
    return imported(package, "ops"), formulas


def build_formula(formula: Formula, spec: Path, package: Path) -> ModuleType:
    """The generated module of one formula of a spec, in a package that holds others already."""
    name = f"{spec}: {formula.name}"
    if name not in _GENERATED:
        section = render_section(spec, plan(formula), templates_dir())
        _GENERATED[name] = render_module([section], templates_dir())
    (package / f"{formula.name}.py").write_text(_GENERATED[name])
    return imported(package, formula.name)


def new_package(folder: Path) -> Path:
    """The folder, made, with what generated modules share."""
    folder.mkdir()
    for name, shared in generate.shared(templates_dir()).items():
        (folder / name).write_text(shared)
    return folder


def imported(package: Path, module: str) -> ModuleType:
    """A module of the package, with the runtime of the first one: they are the same, and take long to import."""
    sys.path.insert(0, str(package.parent))
    try:
        importlib.invalidate_caches()
        runtime = f"{package.name}._runtime"
        if _RUNTIME:
            sys.modules[runtime] = _RUNTIME[0]
        else:
            _RUNTIME.append(importlib.import_module(runtime))
        return importlib.import_module(f"{package.name}.{module}")
    finally:
        sys.path.remove(str(package.parent))
