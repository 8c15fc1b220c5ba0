"""Forms as the printers get them: with what keeps their limits, and with the corrections they are marked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gradgen.compensate import compensated
from gradgen.graph import Node
from gradgen.limits import limits


def as_printed(forms: Sequence[Node]) -> list[Node]:
    """The forms as they are printed beside one another."""
    return [printed_alone(*forms)] if len(forms) == 1 else compensated(limits(forms))


@lru_cache(maxsize=256)
def printed_alone(form: Node) -> Node:
    """A form as it is printed where nothing else is; asked for again and again."""
    (only,) = compensated(limits([form]))
    return only
