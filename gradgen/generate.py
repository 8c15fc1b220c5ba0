"""The whole way from a spec file to the text of its module: op by op, so that several processes can share the work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sympy import Pow, Symbol, Tuple

from gradgen import pair
from gradgen.errors import GradgenError
from gradgen.literal import depth_of, nodes_of
from gradgen.load import Formula, load
from gradgen.pair import Pair, PartedError
from gradgen.plan import plan
from gradgen.render import Section, render_module, render_section, render_shared

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_SINGULAR = 20  # times as long as other formulas take those for which series are looked for
_DEEP = 40  # steps of nesting through which SymPy does not go


def efforts(spec: Path) -> list[int]:
    """For each op of a spec file how long it takes, beside others.

    Raises:
        GradgenError: for any mistake in it that shows before an op is derived.
    """
    return [_effort(formula) for formula in _formulas(spec, _content(spec))]


def _effort(formula: Formula) -> int:
    """The operations of a formula, many times as many where it divides by what is 0 where the inputs are."""
    parts = nodes_of(Tuple(*formula.outputs))
    zero = {part: 0 for part in parts if isinstance(part, Symbol)}
    powers = [part for part in parts if isinstance(part, Pow) and depth_of(part) < _DEEP]
    is_singular = any(power.exp.is_negative and power.base.subs(zero).is_zero for power in powers)
    return sum(bool(part.args) for part in parts) * (_SINGULAR if is_singular else 1)


def section(spec: Path, templates: Path, k: int) -> Section:
    """What the k-th op of a spec file brings to its module.

    Raises:
        GradgenError: for any mistake in the spec file, outside of other ops.
    """
    formulas = _formulas(spec, _content(spec))
    if k >= len(formulas):
        raise GradgenError("it changed while it was built", file=spec, hint="Build again.")
    return render_section(spec, plan(formulas[k]), templates)


def section_by_two(spec: Path, templates: Path, connection: Connection | None) -> Section:
    """What the only op of a spec file brings to its module, with a process that does `help_with` it, if there is one.

    The connection is closed where that fails, and this process does all by itself.

    Raises:
        GradgenError: for any mistake in the spec file.
    """
    if connection:
        try:
            with pair.working(Pair(connection, 0)):
                return section(spec, templates, 0)
        except PartedError:
            connection.close()
    return section(spec, templates, 0)


def help_with(spec: Path, connection: Connection) -> None:
    """Take half of what takes long of the only op of a spec file.

    Raises:
        PartedError: the other process went on alone, or is gone.
        GradgenError: for any mistake in the spec file.
    """
    (formula,) = _formulas(spec, _content(spec))
    with pair.working(Pair(connection, 1)):
        plan(formula)


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
