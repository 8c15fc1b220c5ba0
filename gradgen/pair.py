"""Two processes that take the same steps: what takes long each does half of, and tells the other what it found.

Both derive and look for forms in the same order, which is the same everywhere. So they need to tell each other nothing
but results, and neither needs what only the other one computes with.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gradgen.graph import Node, topological

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_T = TypeVar("_T")
_U = TypeVar("_U")

_MOST_AT_ONCE = 16


class PartedError(Exception):
    """The two took different steps, or one of them is gone: what it would have told is not known."""


class Pair:
    """One of two processes.

    Args:
        connection: to the other one.
        side: which of them it is, 0 or 1.
    """

    def __init__(self, connection: Connection, side: int) -> None:
        self._connection, self.side = connection, side
        self._steps = itertools.count()

    def exchanged(self, step: object, found: object) -> object:
        """What the other one found, for what this one did at the same step.

        Raises:
            PartedError: there is no other one any more, or it is at another step.
        """
        mine = (next(self._steps), step)
        try:
            if self.side == 0:  # one after the other, for neither may find the connection full
                self._connection.send((mine, found))
            its, its_found = self._connection.recv()
            if self.side == 1:
                self._connection.send((mine, found))
        except (EOFError, OSError) as error:
            raise PartedError from error
        if its != mine:
            raise PartedError
        return its_found


_PAIR: ContextVar[Pair | None] = ContextVar("pair", default=None)


@contextmanager
def working(pair: Pair | None) -> Iterator[None]:
    """Within, this process is one of a pair; it works alone where there is none."""
    token = _PAIR.set(pair)
    try:
        yield
    finally:
        _PAIR.reset(token)


def does(side: int) -> bool:
    """Whether this process is the one that does what is done on a side."""
    pair = _PAIR.get()
    return pair is None or pair.side == side


def both(forms: Sequence[Node], first: Callable[[], _T], second: Callable[[], _U]) -> tuple[_T, _U]:
    """The results of two functions that are about some forms, and change nothing that the other one reads.

    Nor do they make nodes: of two that are alike the one that is made first tells the order of operands.

    Raises:
        PartedError: the other one of the pair does not tell what it is to find.
    """
    pair = _PAIR.get()
    if pair is None:
        return first(), second()
    step = [node.op for node in topological(forms)], [len(form.graph) for form in forms]
    if pair.side == 0:
        mine = first()
        return mine, pair.exchanged(step, mine)  # type: ignore[return-value]
    its = second()
    return pair.exchanged(step, its), its  # type: ignore[return-value]


def every(forms: Sequence[Node], first: Callable[[], bool], second: Callable[[], bool]) -> bool:
    """Whether two functions that are about some forms both tell so; alone the second is asked if the first does.

    Raises:
        PartedError: as of `both`.
    """
    return all(both(forms, first, second)) if _PAIR.get() else first() and second()


def each(form: Node, function: Callable[[_T], _U], items: Sequence[_T]) -> Iterator[_U]:
    """The results of a function that is about a form for some items, in order; more and more of them at once.

    Raises:
        PartedError: as of `both`.
    """
    if not _PAIR.get():
        yield from map(function, items)
        return
    begin, size = 0, 2
    while begin < len(items):
        some = items[begin : begin + size]
        first, second = (partial(_mapped, function, some[k::2]) for k in (0, 1))
        yield from _alternating(*both([form], first, second))
        begin, size = begin + size, min(2 * size, _MOST_AT_ONCE)


def _mapped(function: Callable[[_T], _U], items: Sequence[_T]) -> list[_U]:
    return [*map(function, items)]


def _alternating(even: Sequence[_T], odd: Sequence[_T]) -> list[_T]:
    """One of these and one of those in turn; the first may be one more."""
    every: list[_T] = [*even, *odd]
    every[::2], every[1::2] = even, odd
    return every


def by(side: int, forms: Sequence[Node], function: Callable[[], _T]) -> _T:
    """The result of a function that is about some forms, and is called on one side."""
    found = both(forms, function if side == 0 else _nothing, function if side == 1 else _nothing)
    return found[side]  # type: ignore[return-value]


def _nothing() -> None:
    pass
