"""The errors a user can cause: where it is, what was written, what is wrong, what to write instead."""

from __future__ import annotations

from pathlib import Path


class GradgenError(Exception):
    """A mistake in a spec file, or in how gradgen was called.

    Args:
        problem: what is wrong, one sentence without a full stop.
        file: the file that it concerns.
        line: the line in that file, counted from 1.
        expression: the user's own text, quoted back.
        hint: what to write or do instead.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        expression: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.file = file
        self.line = line
        self.expression = expression
        self.hint = hint

    def located(self, file: Path | str, line: int | None = None, expression: str | None = None) -> GradgenError:
        """Fill in what the raiser could not know; what is known already stays."""
        self.file = self.file or file
        self.line = self.line or line
        self.expression = self.expression or expression
        return self

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        lines = [f"{place}{self.problem}"]
        if self.expression:
            lines += [f"    {line}" for line in self.expression.splitlines()]
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)
