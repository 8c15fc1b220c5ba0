"""Powers of sums of powers, which overflow, or vanish, long before the whole does.

With m the largest of |u|, |v|, ..., the sum u**p + v**p + ... is m**p times a sum of powers of numbers of at most 1,
and u is m times u/m. So every node is some power of m times one that is neither large nor small: in a product the
powers add up, in a sum of equal powers they stay. Of the derivative of a norm, u**(p - 1) times the sum to the power
1/p - 1, nothing is left of m.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import sympy

from gradgen.graph import Node, known_sign, rebuilt, topological
from gradgen.rewrite import factors, terms

_THIRD = sympy.Rational(1, 3)
_MOST_EXPONENT = 64  # of what is taken apart one factor after the other


@dataclass(frozen=True)
class _Sum:
    """A sum of coefficients times powers, all of one exponent, or times products of powers that add up to one exponent.

    Attributes:
        exponent: the exponent.
        parts: the coefficients, and the bases and exponents of what they are multiplied by.
    """

    exponent: Node
    parts: tuple[tuple[Node, tuple[tuple[Node, Node], ...]], ...]

    @property
    def bases(self) -> list[Node]:
        """The bases, each once."""
        return list(dict.fromkeys(base for _, powers in self.parts for base, _ in powers))

    @property
    def size(self) -> Node:
        """The largest of the absolute values of the bases."""
        graph = self.exponent.graph
        sizes = dict.fromkeys(base if known_sign(base) > 0 else graph.apply("abs", base) for base in self.bases)
        return reduce(lambda a, b: graph.apply("maximum", a, b), sizes)


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """The node with the powers of each sum that may overflow relative to its largest term; each with what it is."""
    for scaling in _scalings(node):
        yield scaling(node), "with powers of sums relative to the largest term"
    plain = _without_norms(node)
    for scaling in _scalings(plain) if plain is not node else ():
        form = scaling(plain)
        if scaling.has_lesser:
            yield form, "with sums and norms relative to the largest term"


def _scalings(node: Node) -> Iterator[_Scaling]:
    for total in dict.fromkeys(below.args[0] for below in topological([node]) if below.op in ("pow", "cbrt")):
        found = _sum(total) or _homogeneous(total)
        if found is not None:
            yield _Scaling(total, found)


def _without_norms(node: Node) -> Node:
    """The node with norms as the roots that they are."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        if changed.op == "hypot":
            changed = (changed.args[0] ** 2 + changed.args[1] ** 2) ** sympy.S.Half
        elif changed.op == "unit":
            changed = changed.args[0] / changed.args[1]
        new[below] = changed
    return new[node]


def _sum(node: Node) -> _Sum | None:
    """A sum of powers of more than one base, the exponent of which is larger than 1 as far as it is known."""
    if node.op != "add":
        return None
    powers = [_power(node.graph.const(number) if item is None else number * item) for number, item in terms(node)]
    exponents = {exponent for _, base, exponent in powers if not base.is_number(1)}
    bases = {base for _, base, _ in powers}
    if len(exponents) != 1 or len(bases) < 2 or any(base.number is not None and base.number != 1 for base in bases):
        return None
    (exponent,) = exponents
    if exponent.number is not None and not 1 < exponent.number <= _MOST_EXPONENT:
        return None
    return _Sum(exponent, tuple((one, ((base, exponent),)) for one, base, _ in powers))


def _homogeneous(node: Node) -> _Sum | None:
    """A sum of products of powers, all of one degree of at least 2: x**2 + x*y + y**2."""
    graph, parts, degrees = node.graph, [], set()
    for number, item in terms(node) if node.op == "add" else []:
        more, found = factors(item) if item is not None else (sympy.S.One, [])
        bases = [(base, exponent) for base, exponent in found if not graph.is_hyper(base)]
        others = [base**exponent for base, exponent in found if graph.is_hyper(base)]
        degrees.add(sum(exponent for _, exponent in bases))
        if any(exponent < 0 for _, exponent in bases):
            return None
        powers = tuple((base, graph.const(exponent)) for base, exponent in bases)
        parts.append((reduce(graph.mul, others, graph.const(number * more)), powers))
    every = {base for _, powers in parts for base, _ in powers}
    if len(degrees) != 1 or not 2 <= min(degrees) <= _MOST_EXPONENT or len(every) < 2:
        return None
    return _Sum(graph.const(degrees.pop()), tuple(parts))


def _power(node: Node) -> tuple[Node, Node, Node]:
    """A node as a coefficient times a power: the coefficient, the base and the exponent.

    The power is the only one with an exponent above 1; a product without one, or of several, is a base by itself.
    """
    one = node.graph.const(1)
    if node.number is not None:
        return node, one, one
    number, found = factors(node, keep=lambda item: item.op == "pow")
    powers = [item for item, _ in found if item.op == "pow" and not _is_root(item)]
    if len(powers) != 1:
        return node.graph.const(number), node / number, one
    rest = [item for item, _ in found if item is not powers[0]]
    return reduce(node.graph.mul, rest, node.graph.const(number)), powers[0].args[0], powers[0].args[1]


def _is_root(node: Node) -> bool:
    """Whether a power is a root, or a quotient."""
    return node.args[1].number is not None and not node.args[1].number > 1


class _Scaling:
    """Nodes as powers of the size of a sum's bases times other nodes.

    Args:
        total: the sum.
        parts: what it is made of.

    Attributes:
        has_lesser: whether a sum that was met has terms of several powers, of which the largest was taken out.
    """

    def __init__(self, total: Node, parts: _Sum) -> None:
        graph = total.graph
        self._size, self._one, self._none = parts.size, graph.const(1), graph.const(0)
        self._known: dict[Node, tuple[Node, Node]] = {}
        for base in parts.bases:
            if base.number is None:
                for one in (base, graph.apply("abs", base), *(base.args if base.op == "abs" else ())):
                    self._known[one] = (self._over(one), self._one)
        self._bases = list(self._known)
        self._is_large = any(base.number is not None for base in parts.bases)  # at least 1
        self.has_lesser = False
        products = (
            reduce(graph.mul, (self._over(base) ** exponent for base, exponent in powers), one)
            for one, powers in parts.parts
        )
        scaled = reduce(graph.add, products)
        if all(base.number is None for base in parts.bases):  # the direction of 0, where all is 0, is 0
            scaled = graph.where(graph.apply("eq", self._size, 0), self._one, scaled)
        self._known[total] = (scaled, parts.exponent)

    def __call__(self, root: Node) -> Node:
        new = {base: base for base in self._bases}
        for node in topological([root]):
            if node not in self._known:
                self._known[node] = self._scaled(node, new)
            if node not in new:
                new[node] = self._whole(*self._known[node])
        return new[root]

    def _whole(self, other: Node, power: Node) -> Node:
        """A node times a power of the size; u/m * m is u, (u/m)**2 / m is u/m * (u/m / m), which vanish later."""
        number, found = factors(other)
        least = 1 if power.number is not None and power.number >= 1 else 2
        directions = {self._over(base): base for base in self._bases}
        place = next((k for k, (item, exponent) in enumerate(found) if item in directions and exponent >= least), None)
        if place is None or power.number is None or power.number == 0:
            return other * self._size_to(power)
        direction, exponent = found[place]
        found[place] = (direction, exponent - 1)
        rest = reduce(other.graph.mul, (item**e for item, e in found if e), other.graph.const(number))
        if least == 1:
            return directions[direction] * self._whole(rest, power - 1)
        return direction * self._whole(rest, power)

    def _size_to(self, power: Node) -> Node:
        """A power of the size; of thirds by its cube root, for a third is rounded as an exponent."""
        if power.number is not None and getattr(power.number, "q", 1) == 3:
            root: Node = self._size.graph.apply("cbrt", self._size) ** int(power.number.p)
            return root
        whole: Node = self._size**power
        return whole

    def _over(self, base: Node) -> Node:
        return base / self._size if base.number is not None else base.graph.apply("unit", base, self._size)

    def _scaled(self, node: Node, new: dict[Node, Node]) -> tuple[Node, Node]:
        args = [self._known[arg] for arg in node.args]
        if node.op in ("mul", "damp"):
            (a, m), (b, n) = args
            return node.graph.apply(node.op, a, b), _sum_of(m, n)
        if node.op == "pow" and args[1][1] is self._none:
            return args[0][0] ** node.args[1], _product(args[0][1], node.args[1])
        if node.op == "cbrt":
            return node.graph.apply("cbrt", args[0][0]), _product(args[0][1], node.graph.const(_THIRD))
        if node.op == "add" and args[0][1] is args[1][1]:
            return args[0][0] + args[1][0], args[0][1]
        if node.op == "add" and self._is_large and (most := _most([power for _, power in args])) is not None:
            self.has_lesser = True
            return reduce(node.graph.add, (a * self._size_to(power - most) for a, power in args)), most
        if node.op == "where" and args[1][1] is args[2][1]:
            return node.graph.where(new[node.args[0]], args[1][0], args[2][0]), args[1][1]
        return rebuilt(node, new), self._none


def _most(exponents: Sequence[Node]) -> Node | None:
    """The largest of some exponents; None if one of them is no number."""
    numbers = [exponent.number for exponent in exponents if exponent.number is not None]
    return exponents[0].graph.const(max(numbers)) if len(numbers) == len(exponents) else None


def _product(a: Node, b: Node) -> Node:
    """A product of exponents, multiplied out: p*(1/p - 1) is 1 - p."""
    total = a.graph.const(0)
    for m, u in terms(a):
        for n, v in terms(b):
            factors = [item for item in (u, v) if item is not None]
            if len(factors) == 2 and any(_is_reciprocal(x, y) for x, y in (factors, factors[::-1])):
                factors = []
            total = _sum_of(total, reduce(a.graph.mul, factors, a.graph.const(m * n)))
    return total


def _is_reciprocal(one: Node, other: Node) -> bool:
    return other.op == "pow" and other.args[0] is one and other.args[1].is_number(-1)


def _sum_of(a: Node, b: Node) -> Node:
    """A sum of exponents, in which equal terms are taken together."""
    found: dict[Node | None, sympy.Expr] = {}
    for number, item in [*terms(a), *terms(b)]:
        found[item] = found.get(item, sympy.Integer(0)) + number
    nodes = [a.graph.const(number) if item is None else number * item for item, number in found.items() if number]
    return reduce(a.graph.add, nodes) if nodes else a.graph.const(0)
