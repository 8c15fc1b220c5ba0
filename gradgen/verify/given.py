"""The hyper-parameters that are to have other values than their defaults: what was typed, read and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gradgen.errors import GradgenError
from gradgen.load import Formula

Value = float | int | bool

_LARGEST = 2**53  # of whole numbers, as for defaults in a spec file


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _int(text: str) -> int:
    value = int(text)
    if abs(value) > _LARGEST:
        raise ValueError
    return value


def _bool(text: str) -> bool:
    if text not in ("True", "False"):
        raise ValueError
    return text == "True"


# For each kind of hyper-parameter how it is read, what it is called, and an example.
_KINDS: dict[str, tuple[Callable[[str], Value], str, str]] = {
    "float": (_float, "a finite number", "2.5"),
    "int": (_int, "a whole number within 2**53", "3"),
    "bool": (_bool, "True or False", "False"),
}


def read(texts: Sequence[str], formulas: Sequence[Formula]) -> list[dict[str, Value]]:
    """What each formula's hyper-parameters are set to, as far as one of the texts, NAME=VALUE, says so.

    Raises:
        GradgenError: for a text that is not of that form, a name that no formula has, or two texts for one, a value of
            another type than the hyper-parameter's.
    """
    typed: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise GradgenError(f"--with {text} is not of the form NAME=VALUE", hint="Write, for example, beta=2.5.")
        if name in typed:
            raise GradgenError(f"--with gives {name} twice", hint="Verify once for each of its values.")
        if not any(name == p.name for formula in formulas for p in formula.scalars):
            raise _unknown(name, formulas)
        typed[name] = value
    return [_of(typed, formula) for formula in formulas]


def _of(typed: Mapping[str, str], formula: Formula) -> dict[str, Value]:
    found = {}
    for p in formula.scalars:
        if p.name not in typed:
            continue
        convert, kind, example = _KINDS[p.kind]
        try:
            found[p.name] = convert(typed[p.name])
        except ValueError:
            raise GradgenError(
                f"--with {p.name}={typed[p.name]}: {p.name} of {formula.name} is declared {p.kind}, which takes {kind}",
                file=formula.file,
                line=formula.line,
                hint=f"Write, for example, --with {p.name}={example}.",
            ) from None
    return found


def _unknown(name: str, formulas: Sequence[Formula]) -> GradgenError:
    """The error for a name that is no hyper-parameter."""
    files = {formula.file for formula in formulas}
    known = [f"{p.name} of {formula.name}" for formula in formulas for p in formula.scalars]
    inputs = [formula.name for formula in formulas if any(name == p.name for p in formula.tensors)]
    problem = f"no op has a hyper-parameter {name}" + (f"; it is a tensor input of {inputs[0]}" if inputs else "")
    return GradgenError(
        problem,
        file=files.pop() if len(files) == 1 else None,
        hint=f"Hyper-parameters are {', '.join(known)}." if known else "There are no hyper-parameters here.",
    )
