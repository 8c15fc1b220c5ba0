"""The whole way from a spec file to the text of its module: op by op, so that several processes can share the work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from sympy import Pow

from gradgen.errors import GradgenError
from gradgen.load import Formula, load
from gradgen.plan import plan
from gradgen.render import Section, render_module, render_section, render_shared

_SINGULAR = 20  # times as long as other formulas take those for which series are looked for


def efforts(spec: Path) -> list[int]:
    """For each op of a spec file how long it takes, beside others.

    Raises:
        GradgenError: for any mistake in it that shows before an op is derived.
    """
    return [_effort(formula) for formula in _formulas(spec, _content(spec))]


def _effort(formula: Formula) -> int:
    """The operations of a formula, many times as many where it divides by what is 0 where the inputs are."""
    zero = {symbol: 0 for output in formula.outputs for symbol in output.free_symbols}
    powers = {power for output in formula.outputs for power in output.atoms(Pow) if power.exp.is_negative}
    is_singular = any(power.base.subs(zero).is_zero for power in powers)
    return int(sum(output.count_ops() for output in formula.outputs)) * (_SINGULAR if is_singular else 1)


def section(spec: Path, templates: Path, k: int) -> Section:
    """What the k-th op of a spec file brings to its module.

    Raises:
        GradgenError: for any mistake in the spec file, outside of other ops.
    """
    formulas = _formulas(spec, _content(spec))
    if k >= len(formulas):
        raise GradgenError("it changed while it was built", file=spec, hint="Build again.")
    return render_section(spec, plan(formulas[k]), templates)


def assembled(spec: Path, templates: Path, sections: Sequence[Section], library: bool = False) -> str:
    """The text of the module generated from a spec file, made of what all of its ops bring.

    With `library` they are operators of `torch.ops` as well.
    """
    text = render_module(sections, templates, library)
    compile(text, f"{spec.stem}.py", "exec")  # what is no Python is a bug of gradgen and must not become a file
    return text


def module(spec: Path, templates: Path) -> str:
    """The text of the module generated from a spec file.

    Raises:
        GradgenError: for any mistake in the spec file.
    """
    return assembled(spec, templates, [section(spec, templates, k) for k in range(len(efforts(spec)))])


@lru_cache(maxsize=1)
def _formulas(spec: Path, content: bytes) -> list[Formula]:
    """The ops of a spec file; of one after the other it is read once."""
    return load(spec)


def _content(spec: Path) -> bytes:
    return spec.read_bytes() if spec.is_file() else b""


def shared(templates: Path) -> dict[str, str]:
    """The files that the modules of a folder share, by name."""
    return render_shared(templates)
