"""What is verified: an op as a build gives it, imported from a folder that is thrown away afterwards."""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradgen import build
from gradgen.errors import GradgenError
from gradgen.load import Formula, load
from gradgen.verify.given import Value, read
from gradgen.verify.quantity import Quantity

# What a hyper-parameter without a default is set to.
_FALLBACK: dict[str, Value] = {"float": 1.0, "int": 1, "bool": True}


@dataclass(frozen=True)
class Subject:
    """An op, as it was written and as it was built.

    Attributes:
        formula: what the user wrote.
        function: what people call; takes the tensors, then the hyper-parameters by name.
        runtime: the module that the generated ones share.
        reference: the function again, in float64 by faster functions that are off by a few more ulps.
        given: hyper-parameters that are not to have their defaults.
    """

    formula: Formula
    function: Callable[..., Any]
    runtime: Any
    reference: Callable[..., Any]
    given: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The op's name."""
        return self.formula.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensor inputs."""
        return tuple(p.name for p in self.formula.tensors)

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The tensor inputs that get a gradient."""
        return tuple(p.name for p in self.formula.tensors if p.grad)

    @property
    def label(self) -> str:
        """The op's name, and what its hyper-parameters are."""
        return ", ".join([self.name, *(f"{name}={value}" for name, value in self.hyper.items())])

    @property
    def hyper(self) -> dict[str, Value]:
        """The hyper-parameters: those that were given, else their defaults, and 1 where there is none."""
        defaults = {p.name: _FALLBACK[p.kind] if p.default is None else p.default for p in self.formula.scalars}
        return defaults | dict(self.given)

    @property
    def quantities(self) -> list[Quantity]:
        """What is measured: value, gradients, second derivatives.

        Derivatives that the user wrote need not commute; of all others one order stands for both.
        """
        names, found = self.differentiable, []
        for output in range(len(self.formula.outputs)):
            found.append(Quantity(output, ()))
            found += [Quantity(output, (name,)) for name in names]
            for k, name in enumerate(names):
                found += [
                    Quantity(output, (name, other)) for other in (names if self.formula.derivatives else names[k:])
                ]
        return found

    def call(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs."""
        return self._outputs(self.function, tensors)

    def refer(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs for float64 tensors, with digits enough to measure those for other types by."""
        return self._outputs(self.reference, tensors)

    def _outputs(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        results = function(*tensors, **self.hyper)
        return results if isinstance(results, tuple) else (results,)


@contextmanager
def built(paths: tuple[Path, ...], templates: Path | None, given: Sequence[str] = ()) -> Iterator[list[Subject]]:
    """The ops of spec files and folders of them, in order, built and imported for as long as the context lasts.

    Args:
        paths: the spec files and folders.
        templates: the folder of the templates; None for those that come with gradgen.
        given: hyper-parameters that are not to have their defaults, each as NAME=VALUE.

    Raises:
        GradgenError: for the first mistake in the specs, in how they are named, or in what is given.
    """
    with tempfile.TemporaryDirectory(prefix="gradgen-verify-") as folder:
        package = Path(folder).name.replace("-", "_")
        survey = build.make_survey(paths, Path(folder, package), templates)
        if survey.problems:
            raise survey.problems[0]
        specs = [target.spec for target in survey.stale if target.spec]
        formulas = [(spec, formula) for spec in specs for formula in load(spec)]
        values = read(given, [formula for _, formula in formulas])
        for result in build.build(survey, jobs=1):
            if isinstance(result, build.Failed):
                raise _failure(result)
        reference = f"{package}_reference"
        shutil.copytree(Path(folder, package), Path(folder, reference))
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            runtime = importlib.import_module(f"{package}._runtime")
            importlib.import_module(f"{reference}._runtime")._vectorised.add(torch.float64)
            yield [
                Subject(formula, _function(package, spec, formula), runtime, _function(reference, spec, formula), own)
                for (spec, formula), own in zip(formulas, values, strict=True)
            ]
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.partition(".")[0] in (package, reference)]:
                del sys.modules[name]


def _function(package: str, spec: Path, formula: Formula) -> Callable[..., Any]:
    """What people call, in a package that was built."""
    function: Callable[..., Any] = getattr(importlib.import_module(f"{package}.{spec.stem}"), formula.name)
    return function


def _failure(result: build.Failed) -> Exception:
    """What to raise for a spec that could not be built."""
    return RuntimeError(result.message) if result.is_bug else GradgenError(result.message)
