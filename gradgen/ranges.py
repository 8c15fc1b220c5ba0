"""Where the values of nodes lie, as far as signs and bounds tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sympy import Expr

from gradgen.graph import Node, topological

_INF = math.inf


@dataclass(frozen=True)
class Range:
    """The values between two bounds; `zero` tells whether 0 may be among them."""

    low: float = -_INF
    high: float = _INF
    zero: bool = True

    @property
    def negative(self) -> bool:
        """Whether every value is below zero."""
        return self.high < 0 or (self.high == 0 and not self.zero)


_ANY = Range()
_POSITIVE = Range(0, _INF, zero=False)
_UP = Range(0, _INF)

# What a primitive gives, whatever its operands are.
_IMAGES: dict[str, Range] = {
    "expm1": Range(-1),
    "sigmoid": Range(0, 1, zero=False),
    "logistic_density": Range(0, 0.25, zero=False),
    "softplus": _POSITIVE,
    "sin": Range(-1, 1),
    "cos": Range(-1, 1),
    "tanh": Range(-1, 1),
    "erf": Range(-1, 1),
    "erfc": Range(0, 2, zero=False),
    "ndtr": Range(0, 1, zero=False),
    "dswish": Range(-0.1, 1.1),
    "gaussian": Range(0, 1, zero=False),
    "dgelu": Range(-0.129, 1.129),
    "cosh": Range(1, _INF, zero=False),
    "sech": Range(0, 1, zero=False),
    "acosh": _UP,
    "acos": Range(0, 3.2),
    "hypot": _UP,
    "abs": _UP,
    "modulus": _UP,
    "sign": Range(-1, 1),
}

# The operands for which a primitive is real; just outside of a bound rounding may be to blame.
_DOMAINS: dict[str, Range] = {
    "log": _UP,
    "log2": _UP,
    "log10": _UP,
    "log1p": Range(-1),
    "asin": Range(-1, 1),
    "acos": Range(-1, 1),
    "atanh": Range(-1, 1),
    "erfinv": Range(-1, 1),
    "acosh": Range(1),
}
_MARGIN = 1e-9


class Ranges:
    """The ranges of the nodes of one graph, each found once."""

    def __init__(self) -> None:
        self._known: dict[Node, Range] = {}

    def __call__(self, root: Node) -> Range:
        """The range of a node."""
        for _ in self._new(root):
            pass
        return self._known[root]

    def never_real(self, root: Node) -> Node | None:
        """The first node below `root`, and not seen before, that is not real for any input."""
        return next((node for node, args in self._new(root) if _leaves_domain(node, args)), None)

    def _new(self, root: Node) -> Iterator[tuple[Node, list[Range]]]:
        """The nodes whose ranges have not been found before, with those of their operands."""
        for node in topological([root], stop=self._known.keys()):
            if node not in self._known:
                args = [self._known[arg] for arg in node.args]
                self._known[node] = _range(node, args)
                yield node, args


def _leaves_domain(node: Node, args: list[Range]) -> bool:
    if node.op == "pow" and args[0].negative:
        exponent = node.args[1].number
        return exponent is not None and exponent.is_integer is False
    domain = _DOMAINS.get(node.op)
    if domain is None:
        return False
    below = args[0].negative if domain.low == 0 else args[0].high < domain.low - _MARGIN
    return below or args[0].low > domain.high + _MARGIN


def _range(node: Node, args: list[Range]) -> Range:
    if node.number is not None:
        return _of_number(node)
    if node.op in _BOUNDS:
        return _BOUNDS[node.op](node, args)
    return _IMAGES.get(node.op, _ANY)


def _of_number(node: Node) -> Range:
    try:
        value = float(node.number)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return _ANY
    return _ANY if math.isnan(value) else Range(value, value, value == 0)


def _sum(_: Node, args: list[Range]) -> Range:
    a, b = args
    low = -_INF if -_INF in (a.low, b.low) else a.low + b.low
    high = _INF if _INF in (a.high, b.high) else a.high + b.high
    one_side = (a.low >= 0 and b.low >= 0) or (a.high <= 0 and b.high <= 0)
    return Range(low, high, a.zero and b.zero if one_side else low <= 0 <= high)


def _product(_: Node, args: list[Range]) -> Range:
    a, b = args
    corners = [0 if 0 in (x, y) else x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners), a.zero or b.zero)


def _power(node: Node, args: list[Range]) -> Range:
    base, exponent = args[0], node.args[1].number
    if exponent is None:
        return _UP if base.low >= 0 else _ANY
    zero = base.zero if exponent.is_positive else False
    if base.low >= 0 and exponent.is_positive:
        return Range(_raised(base.low, exponent), _raised(base.high, exponent), zero)
    if base.low >= 0 or (exponent / 2).is_integer or not exponent.is_integer:
        return Range(0, _INF, zero)
    return Range(-_INF, 0, zero) if base.high <= 0 else Range(-_INF, _INF, zero)


def _raised(bound: float, exponent: Expr) -> float:
    try:
        return math.pow(bound, exponent)
    except OverflowError:
        return _INF


def _exponential(_: Node, args: list[Range]) -> Range:
    return Range(0, 1 if args[0].high <= 0 else _INF, zero=False)


def _maximum(_: Node, args: list[Range]) -> Range:
    a, b = args
    low = max(a.low, b.low)
    return Range(low, max(a.high, b.high), not _excludes_zero(low, a, b) and low <= 0)


def _excludes_zero(low: float, a: Range, b: Range) -> bool:
    """Whether the greater of two values is never 0: one of them is always above it."""
    return low == 0 and any(side.low == 0 and not side.zero for side in (a, b))


def _minimum(_: Node, args: list[Range]) -> Range:
    a, b = args
    high = min(a.high, b.high)
    return Range(min(a.low, b.low), high, not (high < 0 or a.negative or b.negative))


def _hull(_: Node, args: list[Range]) -> Range:
    p, q = args[1:]
    return Range(min(p.low, q.low), max(p.high, q.high), p.zero or q.zero)


_BOUNDS: dict[str, Callable[[Node, list[Range]], Range]] = {
    "add": _sum,
    "mul": _product,
    "pow": _power,
    "maximum": _maximum,
    "minimum": _minimum,
    "where": _hull,
    "exp": _exponential,
    "exp2": _exponential,
}
