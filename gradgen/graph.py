"""A formula as a directed acyclic graph in which equal subexpressions are one node.

Nodes are hash-consed by their `Graph`, so that identity is equality. The constructors (`add`, `mul`, `power`, `where`,
`apply`) fold constants exactly and drop neutral elements; anything cleverer is a rule of `rewrite`.

A difference is a sum with a factor of -1, a quotient a product with a power of -1, as in SymPy: fewer shapes to match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import sympy
from sympy import Expr, Float, Integer, Rational

Operand = Union["Node", Expr, int]

ZERO, ONE, MINUS_ONE, HALF = Integer(0), Integer(1), Integer(-1), Rational(1, 2)
COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "hypot", "logaddexp", "and", "or", "eq", "ne"})
RELATIONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
CONDITIONS = RELATIONS | {"and", "or", "not", "flag", "given", "true"}
# What may have a kink where its operand, or the difference of its operands, is 0, or a whole number
KINKS = frozenset({"sign", "abs", "modulus", "maximum", "minimum", "floor", "ceil"})
NONNEGATIVE = frozenset(
    {"abs", "modulus", "exp", "exp2", "sigmoid", "logistic_density", "softplus", "sech", "cosh", "hypot"}
)
ODD = frozenset({"tanh", "sinh", "sin", "tan", "asinh", "atan", "erf", "asin", "atanh", "sign", "sin_pi", "dsinc_pi"})
EVEN = frozenset({"cosh", "cos", "abs", "modulus", "sech", "logistic_density", "cos_pi", "sinc_pi"})


@dataclass(eq=False)
class Node:
    """One operation of a graph: `op` names a primitive, or is "input", "const", "flag" (a bool) or "given".

    Attributes:
        graph: the graph that holds the node.
        op: the primitive's name.
        args: the operands.
        value: an input's name, or a constant's exact SymPy value.
        serial: how many nodes the graph had before.
        kinds: the primitives of the node and of all below it.
    """

    graph: Graph
    op: str
    args: tuple[Node, ...]
    value: str | Expr | None
    serial: int
    kinds: frozenset[str]

    def __repr__(self) -> str:
        return str(self.value) if not self.args else f"{self.op}({', '.join(map(repr, self.args))})"

    @property
    def number(self) -> Expr | None:
        """The exact value of a constant, None for anything else."""
        return self.value if self.op == "const" else None

    def is_number(self, value: Expr | int) -> bool:
        """Whether this is the constant `value`."""
        if self.op != "const":
            return False
        if isinstance(value, int):  # asked for very often, of which SymPy's == makes a SymPy number first
            return isinstance(self.value, Integer) and bool(self.value.p == value)
        if isinstance(value, Rational) and isinstance(self.value, Rational):
            return bool(self.value.p == value.p and self.value.q == value.q)
        return bool(self.value == value)

    def __add__(self, other: Operand) -> Node:
        return self.graph.add(self, self.graph.node(other))

    def __radd__(self, other: Operand) -> Node:
        return self.graph.add(self.graph.node(other), self)

    def __sub__(self, other: Operand) -> Node:
        return self.graph.add(self, -self.graph.node(other))

    def __rsub__(self, other: Operand) -> Node:
        return self.graph.add(self.graph.node(other), -self)

    def __mul__(self, other: Operand) -> Node:
        return self.graph.mul(self, self.graph.node(other))

    def __rmul__(self, other: Operand) -> Node:
        return self.graph.mul(self.graph.node(other), self)

    def __truediv__(self, other: Operand) -> Node:
        return self.graph.mul(self, self.graph.node(other) ** MINUS_ONE)

    def __rtruediv__(self, other: Operand) -> Node:
        return self.graph.mul(self.graph.node(other), self**MINUS_ONE)

    def __pow__(self, other: Operand) -> Node:
        return self.graph.power(self, self.graph.node(other))

    def __neg__(self) -> Node:
        return self.graph.mul(self.graph.node(MINUS_ONE), self)


class Graph:
    """The nodes of one op, each there once.

    Args:
        hyper: the names of the inputs that are passed by value; for a kink they count as constants.
        large: those of them that by default are large enough to bring back into sight what has vanished.

    Attributes:
        signs: what is known of the signs of nodes; see `known_sign`.
        sound: the sound forms of nodes; see `rewrite`.
    """

    def __init__(self, hyper: Iterable[str] = (), large: Iterable[str] = ()) -> None:
        self.hyper = frozenset(hyper)
        self.large = frozenset(large)
        self.signs: dict[Node, int] = {}
        self.sound: dict[Node, Node] = {}
        self._nodes: dict[object, Node] = {}
        self._whole: dict[int, Node] = {}

    def __len__(self) -> int:
        """How many nodes were made."""
        return len(self._nodes)

    def _intern(self, op: str, args: tuple[Node, ...], value: str | Expr | None = None) -> Node:
        order = sorted(arg.serial for arg in args) if op in COMMUTATIVE else [arg.serial for arg in args]
        key = (op, tuple(order), value)
        if key not in self._nodes:
            kinds = frozenset({op}).union(*[arg.kinds for arg in args])
            self._nodes[key] = Node(self, op, args, value, len(self._nodes), kinds)
        return self._nodes[key]

    # Leaves

    def input(self, name: str) -> Node:
        """A tensor input or a hyper-parameter."""
        return self._intern("input", (), name)

    def flag(self, name: str) -> Node:
        """A bool hyper-parameter, a condition."""
        return self._intern("flag", (), name)

    def given(self, name: str) -> Node:
        """The condition that the optional tensor `name` is there."""
        return self._intern("given", (), name)

    def true(self) -> Node:
        """The condition that always holds."""
        return self._intern("true", ())

    def const(self, value: Expr | int) -> Node:
        """An exact number. A float stands for the decimal that was typed."""
        if isinstance(value, int):
            if value in self._whole:
                return self._whole[value]
            self._whole[value] = self._intern("const", (), Integer(value))
            return self._whole[value]
        if not isinstance(value, Expr):
            value = sympy.sympify(value)
        if isinstance(value, Float):
            value = Rational(repr(float(value)))
        return self._intern("const", (), value)

    def node(self, value: Operand) -> Node:
        """`value` as a node of this graph."""
        return value if isinstance(value, Node) else self.const(value)

    # Arithmetic

    def add(self, a: Node, b: Node) -> Node:
        if a.number is not None and b.number is not None:
            return self.const(a.number + b.number)
        if a.is_number(0) or b.number is sympy.nan:
            return b
        if b.is_number(0) or a.number is sympy.nan:
            return a
        (m, u), (n, v) = coefficient(a), coefficient(b)
        if u is v and u is not None:
            return self.mul(self.const(m + n), u)
        return self._select_sum(a, b) or self._intern("add", (a, b))

    def _select_sum(self, a: Node, b: Node) -> Node | None:
        """where(c, u, 0) + where(c, 0, v) is where(c, u, v): the parts of a branch's derivative meet again."""
        if a.op == b.op == "where" and a.args[0] is b.args[0]:
            (condition, p, q), (_, r, s) = a.args, b.args
            return self.where(condition, self.add(p, r), self.add(q, s))
        return None

    def mul(self, a: Node, b: Node) -> Node:
        if b.number is not None:
            a, b = b, a
        if a.number is not None:
            if b.number is not None:
                return self.const(a.number * b.number)
            if a.is_number(0) or a.number is sympy.nan:
                return a
            if a.is_number(1):
                return b
            inner, rest = coefficient(b)
            if inner != 1 and rest is not None:
                return self.mul(self.const(a.number * inner), rest)
            return self._select_product(b, a) or self._intern("mul", (a, b))
        (m, u), (n, v) = coefficient(a), coefficient(b)
        if (m != 1 or n != 1) and u is not None and v is not None:
            return self.mul(self.const(m * n), self.mul(u, v))
        if a is b:
            return self.power(a, self.const(2))
        for factor, product in ((a, b), (b, a)):  # k*((k - 1)*x**(k - 2)): a zero among k and k - 1 wins
            if product.op == "damp" and all(self.is_hyper(node) for node in (factor, product.args[0])):
                return self.apply("damp", self.mul(factor, product.args[0]), product.args[1])
        return self._select_product(a, b) or self._select_product(b, a) or self._intern("mul", (a, b))

    def is_hyper(self, node: Node) -> bool:
        """Whether a node depends on hyper-parameters alone."""
        return all(below.op != "input" or below.value in self.hyper for below in topological([node]))

    def _select_product(self, select: Node, factor: Node) -> Node | None:
        """Move a factor into the branches of a selection that has a zero, so that the zero meets no infinity."""
        if select.op == "where" and has_zero_branch(select):
            condition, p, q = select.args
            return self.where(condition, self.mul(p, factor), self.mul(q, factor))
        if select.op == "add" and all(has_zero_branch(term) for term in select.args):
            return self.add(self.mul(select.args[0], factor), self.mul(select.args[1], factor))
        return None

    def power(self, base: Node, exponent: Node) -> Node:
        if exponent.is_number(0):
            return self.const(1)
        if exponent.is_number(1) or base.is_number(1):
            return base
        if base.number is not None and exponent.number is not None:
            return self.const(base.number**exponent.number)
        if base.is_number(sympy.E):
            return self.apply("exp", exponent)
        if exponent.number is not None and _is_half(exponent.number) and exponent.number != HALF:
            return self.power(self.power(base, self.const(HALF)), self.const(2 * exponent.number))  # a norm to a power
        if exponent.number is not None and getattr(exponent.number, "q", 1) == 4:  # two square roots, rounded correctly
            return self.power(
                self.power(self.power(base, self.const(HALF)), self.const(HALF)), self.const(exponent.number.p)
            )
        if base.op == "pow" and base.args[1].number is not None and exponent.number is not None:
            inner, outer = base.args[1].number, exponent.number
            if inner == HALF and outer.is_integer and not _even(outer):
                return self._intern("pow", (base, exponent))
            if outer == -1 or (outer.is_integer and (inner == -1 or not inner.is_integer)):
                return self.power(base.args[0], self.const(inner * outer))
            if _even(inner):
                return self.power(self.apply("abs", base.args[0]), self.const(inner * outer))
        if base.op == "pow" and base.args[1].number is None and exponent.is_number(-1):
            return self.power(base.args[0], -base.args[1])
        if base.op == "abs" and exponent.number is not None and _even(exponent.number):
            base = base.args[0]
        inner, rest = coefficient(base)
        if exponent.number is not None and exponent.number.is_integer and inner != 1 and rest is not None:
            return self.mul(self.const(inner**exponent.number), self.power(rest, exponent))
        if exponent.is_number(HALF) and inner.is_positive and inner != 1 and rest is not None:
            return self.mul(self.const(sympy.sqrt(inner)), self.power(rest, exponent))
        return self._intern("pow", (base, exponent))

    def inverse(self, a: Node) -> Node:
        """1 / a; if that is a power it stays one, which `power` would merge with the division."""
        minus_one = self.const(MINUS_ONE)
        return self._intern("pow", (a, minus_one)) if a.op == "pow" else self.power(a, minus_one)

    def product(self, a: Node, b: Node) -> Node:
        """a * b as it stands, of inverses of one number too, which `mul` would merge."""
        return self._intern("mul", (a, b))

    # Selection and everything else

    def where(self, condition: Node, p: Node, q: Node) -> Node:
        """`p` where the condition holds, else `q`."""
        if condition.op == "true" or p is q:
            return p
        if condition.op == "not":
            return self.where(condition.args[0], q, p)
        if condition.op == "ne":
            return self.where(self.apply("eq", *condition.args), q, p)
        if p.op == "where" and p.args[0] is condition:
            return self.where(condition, p.args[1], q)
        if q.op == "where" and q.args[0] is condition:
            return self.where(condition, p, q.args[2])
        if (
            p.op == "where"
            and p.args[2] is q
            and (q.is_number(0) or q.number is sympy.nan)
            and condition.op in RELATIONS
            and p.args[0].op in RELATIONS
        ):
            return self.where(self.apply("and", condition, p.args[0]), p.args[1], q)
        return self._intern("where", (condition, p, q))

    def apply(self, op: str, *args: Operand) -> Node:
        """The primitive `op` of the operands, in its canonical form."""
        nodes = tuple(self.node(arg) for arg in args)
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](self, *nodes)
        if len(nodes) == 1 and (op in ODD or op in EVEN):
            m, u = coefficient(nodes[0])
            if u is not None and m.is_negative:
                inner = self.apply(op, -nodes[0])
                return -inner if op in ODD else inner
        if op == "abs" and known_sign(nodes[0]):
            return nodes[0] if known_sign(nodes[0]) > 0 else -nodes[0]
        if op in ("damp", "xmul") and nodes[1].is_number(1):
            return nodes[0]
        if op == "not" and nodes[0].op == "not":
            return nodes[0].args[0]
        if op in ("and", "or"):
            return self._connective(op, nodes)
        if op in RELATIONS and all(node.number is not None and node.number.is_comparable for node in nodes):
            return self.true() if _COMPARE[op](*(node.number for node in nodes)) else self._false()
        return self._intern(op, nodes)

    def _connective(self, op: str, nodes: tuple[Node, ...]) -> Node:
        a, b = nodes
        if a is b:
            return a
        for decided, other in ((a, b), (b, a)):
            if decided.op == "true":
                return other if op == "and" else decided
            if decided is self._false():
                return decided if op == "and" else other
        return self._intern(op, nodes)

    def _false(self) -> Node:
        return self._intern("not", (self.true(),))


_COMPARE: dict[str, Callable[[Expr, Expr], bool]] = {
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "eq": lambda a, b: bool(sympy.Eq(a, b)),
    "ne": lambda a, b: bool(sympy.Ne(a, b)),
}

_ARITHMETIC: dict[str, Callable[..., Node]] = {
    "add": Graph.add,
    "mul": Graph.mul,
    "pow": Graph.power,
    "where": Graph.where,
}


def _even(value: Expr) -> bool:
    return bool(value.is_integer and (value / 2).is_integer)


def _is_half(value: Expr) -> bool:
    return bool(value.is_Rational and value.q == 2)


RECIPROCALS = frozenset({*map(Integer, (-1, -2, -3, -4)), -HALF})  # powers that divisions compute
WRITTEN_OUT = RECIPROCALS | {HALF, *map(Integer, (2, 3, 4))}  # powers that the printers write out, with these


def is_quotient(number: Expr) -> bool:
    """Whether a product with a number is computed as a quotient, x / 3 or x / 1.5: it rounds once, and reads well."""
    return bool(number.is_Rational and abs(number.p) <= 2 and 1 < number.q < 100)


def is_division(number: Expr) -> bool:
    """Whether that quotient is a division: halves, quarters, ... are exact factors."""
    return is_quotient(number) and bool(number.q & (number.q - 1))


def is_inverse(node: Node) -> bool:
    """Whether it is 1 / x for some x, of which products are quotients."""
    return node.op == "pow" and node.args[1].is_number(-1)


def divides(node: Node) -> bool:
    """Whether products with it are computed by divisions: 1 / x, 1 / x / x, 1 / sqrt(x)."""
    return node.op == "pow" and node.args[1].number in RECIPROCALS


def coefficient(node: Node) -> tuple[Expr, Node | None]:
    """The numeric factor of a node and the rest: 2*x gives (2, x); a constant gives (its value, None)."""
    if node.number is not None:
        return node.number, None
    if node.op == "mul" and node.args[0].number is not None:
        return node.args[0].number, node.args[1]
    return ONE, node


def known_sign(node: Node) -> int:
    """1 for what is nowhere negative, -1 for what is nowhere positive, 0 for what may be either."""
    known = node.graph.signs
    if node not in known:
        known[node] = _sign(node)
    return known[node]


def _sign(node: Node) -> int:
    number, rest = coefficient(node)
    if rest is None:
        return int(sympy.sign(number)) if number.is_comparable else 0
    even = rest.op == "pow" and rest.args[1].number is not None and bool((rest.args[1].number / 2).is_integer)
    if even or rest.op in NONNEGATIVE:
        return int(sympy.sign(number))
    if rest.op in ("mul", "pow"):
        known = [known_sign(arg) for arg in (rest.args if rest.op == "mul" else rest.args[:1])]
        return int(sympy.sign(number)) * math.prod(known) if rest.op == "mul" or known == [1] else 0
    if rest.op == "add":
        signs = {known_sign(arg) for arg in rest.args}
        return int(sympy.sign(number)) * signs.pop() if len(signs) == 1 else 0
    return 0


def has_zero_branch(node: Node) -> bool:
    """Whether the node is a selection one of whose branches is the constant 0."""
    return node.op == "where" and any(arg.is_number(0) or has_zero_branch(arg) for arg in node.args[1:])


def topological(roots: Iterable[Node], stop: Collection[Node] = ()) -> list[Node]:
    """Every node below `roots`, operands before what uses them; does not descend below the nodes in `stop`."""
    done: dict[Node, None] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            for arg in () if node in stop else node.args:
                if arg not in done:
                    stack.append(arg)
                    break
            else:
                done[node] = None
                stack.pop()
    return list(done)


def rebuilt(node: Node, new: Mapping[Node, Node]) -> Node:
    """The node with each of its operands replaced by what it became."""
    args = [new[arg] for arg in node.args]
    same = all(a is b for a, b in zip(args, node.args, strict=True))
    return node if same else node.graph.apply(node.op, *args)


def substitute(roots: Sequence[Node], new: Mapping[Node, Node]) -> list[Node]:
    """The roots with the nodes of `new` replaced."""
    done = dict(new)
    for node in topological(roots, stop=new.keys()):
        if node not in done:
            done[node] = rebuilt(node, done)
    return [done[root] for root in roots]


def inputs_of(roots: Iterable[Node]) -> list[str]:
    """The names of the inputs below `roots`, in the order of their creation."""
    found = [node for node in topological(roots) if node.op in ("input", "flag")]
    return [str(node.value) for node in sorted(found, key=lambda node: node.serial)]
