"""Rational functions of something that grows, in a form that neither overflows nor cancels more than it must.

Whatever is made of one growing g by arithmetic alone is P(g)/Q(g), the rest of the formula in the coefficients. It is
computed from the smaller of g and 1/g, in which the polynomials are turned around; powers that P or Q have in common
stand before them. There are two such g:

    an exponential E = exp(u), with sigmoid, tanh, sinh, ... of multiples of u, and tanh(softplus(u)): then the smaller
    of E and 1/E is exp(-|u|), which never overflows;
    an input x, whose powers overflow.

Logarithms and square roots of such functions have forms of the same kind.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial, reduce
from typing import TypeVar

import sympy
from sympy import Expr, Poly, Symbol

from gradgen.differentiate import gradient
from gradgen.graph import HALF, Graph, Node, inputs_of, known_sign, rebuilt, topological
from gradgen.rewrite import rewrite, terms

_G = sympy.Dummy("g", positive=True)
_MOST_NODES = 120  # of a formula that is looked at,
_MOST_OPERATIONS = 90  # of its value as SymPy has it,
_MOST_ATOMS = 5  # of what is no function of g in it,
_MOST_DEGREE = 12  # of the polynomials
_MOST_SHIFT = 30  # whose exponential is a factor
_MOST_PART = sympy.Rational(3, 4)  # of a limit that is taken from it,
_MOST_LIMIT, _GONE = 2**100, 110  # which is no larger up to where exp(-x) is 0 in float32

OF_EXPONENTIAL: dict[str, Callable[[Expr], Expr]] = {
    "exp": lambda e: e,
    "expm1": lambda e: e - 1,
    "sigmoid": lambda e: e / (1 + e),
    "logistic_density": lambda e: e / (1 + e) ** 2,
    "sinh": lambda e: (e - 1 / e) / 2,
    "cosh": lambda e: (e + 1 / e) / 2,
    "tanh": lambda e: (e**2 - 1) / (e**2 + 1),
    "sech": lambda e: 2 * e / (e**2 + 1),
    "csch": lambda e: 2 * e / (e**2 - 1),
}


_IN_EXPONENTS = ("softplus", "logaddexp")  # logarithms of sums of exponentials

_Found = TypeVar("_Found")

ONE_FRACTION = "as one fraction"
LESS = "as what it tends to, less a part of that"


class _NotRationalError(Exception):
    """The node is no rational function of what was tried."""


def forms(node: Node, powers: bool = True) -> Iterator[tuple[Node, str]]:
    """Other forms of a node, all of it or its logarithms and roots as rational functions; each with what it is.

    Without `powers`, in exponentials alone: the reciprocal of an input has no derivative at 0.
    """
    if len(topological([node])) > _MOST_NODES:
        return
    if node.op == "where":
        yield from by_branches(node, partial(forms, powers=powers))
    inputs = [node.graph.input(name) for name in inputs_of([node]) if name not in node.graph.hyper]
    sizes = [below for below in topological([node]) if below.op == "abs" and below.args[0] in inputs]
    makers: list[Callable[[Node], _Fraction]] = [
        _Exponential,
        *([_Shifted] if _shifts(node) else []),
        *(partial(_Power, x=x) for x in (*sizes, *inputs) if powers),
    ]
    of_exponential: _Fraction | None = None
    for make in makers:
        made = cache(partial(_made, make=make))
        of_exponential = made(node) if make is _Exponential else of_exponential
        quotient = cache(partial(_quotient, made=made))
        fraction = None if make in (_Exponential, _Shifted) else made(node)
        plain = _if_rational(fraction.plain) if fraction else None
        if plain is not None and plain is not node:
            yield rewrite([plain])[0], ONE_FRACTION
        of = "an exponential" if make in (_Exponential, _Shifted) else "an input or its reciprocal"
        found = (
            (_by_terms(node, quotient), "each term as"),
            (quotient(node), "as"),
            (_inner(node, make), "with logarithms and roots as those of"),
        )
        for form, what in found:
            if form is not None and form is not node:
                yield form, f"{what} a rational function of {of}"
    less = _if_rational(lambda: _Less(of_exponential).node()) if isinstance(of_exponential, _Exponential) else None
    if less is not None:
        yield less, LESS


def derivative_less(value: Node, x: Node) -> Node | None:
    """The derivative of what is a limit less a part of that, by its one input; None if the value is none."""
    return _if_rational(lambda: _Less(_Exponential(value)).slope(x))


def derivative(node: Node, path: Sequence[Node]) -> Node | None:
    """The derivative of a rational function of an exponential by some inputs, one after another, as another one.

    None if the node is none, or if there is more of the inputs in it.
    """
    return _if_rational(lambda: _Exponential(node).derivative(path))


def expanded(node: Node) -> Node:
    """The node with what is made of exponentials written out, for arithmetic that has more digits than a function."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        new[below] = rebuilt(below, new)
        if below.op in _WRITTEN_OUT:
            new[below] = _WRITTEN_OUT[below.op](new[below].args[0])
    return new[node]


def _small(u: Node) -> Node:
    """exp(-|u|)."""
    return u.graph.apply("exp", -u.graph.apply("modulus", u))


def _above(u: Node, p: Node | int, q: Node | int) -> Node:
    """p where u is not negative, else q."""
    graph = u.graph
    return graph.where(graph.apply("ge", u, 0), graph.node(p), graph.node(q))


def _tanh(u: Node) -> Node:
    small = u.graph.apply("expm1", -2 * u.graph.apply("modulus", u))
    size = -small / (2 + small)
    return _above(u, size, -size)


_WRITTEN_OUT: dict[str, Callable[[Node], Node]] = {
    "sigmoid": lambda u: _above(u, 1, _small(u)) / (1 + _small(u)),
    "logistic_density": lambda u: _small(u) / (1 + _small(u)) ** 2,
    "softplus": lambda u: _above(u, u, 0) + u.graph.apply("log1p", _small(u)),
    "tanh": _tanh,
    "sech": lambda u: 2 * _small(u) / (1 + _small(u) ** 2),
}


def _shifts(node: Node) -> list[Expr]:
    """The numbers that are added in arguments of exponentials."""
    of_exponential = (below for below in topological([node]) if below.op in (*OF_EXPONENTIAL, *_IN_EXPONENTS))
    return [number for below in of_exponential for arg in below.args for number, item in terms(arg) if item is None]


def _step(number: Expr, others: Sequence[Expr]) -> Expr:
    """What a number and those that are in a rational ratio to it are multiples of; its size if these would be large."""
    ratios = [ratio for ratio in (other / number for other in others) if ratio.is_Rational]
    common = reduce(sympy.gcd, ratios, sympy.S.One)
    is_step = all(abs(ratio / common) <= _MOST_DEGREE for ratio in (*ratios, sympy.S.One))
    return abs(number * common) if is_step else abs(number)


def by_branches(node: Node, forms: Callable[[Node], Iterator[tuple[Node, str]]]) -> Iterator[tuple[Node, str]]:
    """A selection with one form after the other of its branches."""
    condition, p, q = node.args
    for first, second in itertools.zip_longest(forms(p), forms(q)):
        form = node.graph.where(condition, first[0] if first else p, second[0] if second else q)
        yield form, f"its branches {(first or second)[1]}"


def _if_rational(compute: Callable[[], _Found]) -> _Found | None:
    try:
        return compute()
    except (_NotRationalError, sympy.PolynomialError):
        return None


def _made(node: Node, make: Callable[[Node], _Fraction]) -> _Fraction | None:
    return _if_rational(lambda: make(node))


def _quotient(node: Node, made: Callable[[Node], _Fraction | None]) -> Node | None:
    fraction = made(node)
    return _if_rational(fraction.node) if fraction else None


def _by_terms(node: Node, quotient: Callable[[Node], Node | None]) -> Node:
    """Each term of a sum by itself, which keeps apart what has nothing in common."""
    if node.op == "add":
        return node.graph.add(_by_terms(node.args[0], quotient), _by_terms(node.args[1], quotient))
    return quotient(node) or node


def _inner(node: Node, make: Callable[[Node], _Fraction]) -> Node:
    """The node with the logarithms and square roots in it in their forms."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        try:
            if below.op in ("log", "log1p"):
                argument = changed.args[0] if below.op == "log" else 1 + changed.args[0]
                changed = make(argument).log(changed)
            elif below.op == "pow" and below.args[1].is_number(HALF):
                changed = make(changed.args[0]).root(changed)
        except (_NotRationalError, sympy.PolynomialError):
            pass
        new[below] = changed
    return new[node]


def _is_power_of_sum(power: Expr) -> bool:
    """Whether it has so many terms as its exponent tells."""
    return bool(power.exp.is_Integer and power.base.has(_G) and power.base.is_Add)


@cache
def _stand_in(index: int) -> Symbol:
    """What stands for something in coefficients: the same in all fractions, so that those alike are found again."""
    return sympy.Dummy(f"a{index}")


@lru_cache(maxsize=1024)
def _lowest_terms(value: Expr) -> tuple[Expr, Expr]:
    """Numerator and denominator, with nothing in common."""
    return sympy.fraction(sympy.cancel(sympy.together(value)))  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _factor_list(value: Expr) -> tuple[Expr, list[tuple[Expr, int]]]:
    """The number before a polynomial, and its factors with their exponents."""
    return sympy.factor_list(value)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Side:
    """P/Q = small**power * P1(small)/Q1(small), where `small` is no larger than 1 and P1(0), Q1(0) are not zero."""

    small: Node
    power: int
    top: Poly
    bottom: Poly


class _Fraction:
    """A node as P(g)/Q(g), and what stands for the rest of the formula in the coefficients."""

    def __init__(self, node: Node) -> None:
        self.graph: Graph = node.graph
        self.atoms: dict[Node, Symbol] = {}
        self.done: dict[Node, Expr] = {}
        value = self.value(node)
        if not value.has(_G) or len(self.atoms) > _MOST_ATOMS or sympy.count_ops(value) > _MOST_OPERATIONS:
            raise _NotRationalError
        if any(abs(power.exp) > _MOST_DEGREE for power in value.atoms(sympy.Pow) if _is_power_of_sum(power)):
            raise _NotRationalError  # to be told before it is written out
        powers = [power.exp for power in value.atoms(sympy.Pow) if power.base == _G and power.exp.is_Rational]
        self.unit: Expr = reduce(sympy.lcm, (power.q for power in powers), sympy.Integer(1))
        if self.unit != 1:
            value = sympy.powsimp(sympy.expand_power_base(value.subs(_G, _G**self.unit)))
        top, bottom = _lowest_terms(value)
        self.top: Poly = Poly(top, _G)
        self.bottom: Poly = Poly(bottom, _G)
        if not 0 < max(self.top.degree(), self.bottom.degree()) <= _MOST_DEGREE:
            raise _NotRationalError

    # What a growing g is asked for

    def leaf(self, node: Node) -> Expr | None:
        """A node as a function of g, if it is one by itself."""
        raise NotImplementedError

    def smalls(self) -> tuple[Node, Node]:
        """g and 1/g, each where it is the smaller one."""
        raise NotImplementedError

    def is_large(self) -> Node:
        """The condition that 1/g is the smaller one."""
        raise NotImplementedError

    def is_positive(self) -> Node:
        """The condition that g > 0."""
        return self.graph.true()

    def sign(self) -> int:
        """1 where g is always at least 1, -1 where always at most 1, else 0."""
        return 0

    def log_g(self) -> Node:
        """log|g|"""
        raise NotImplementedError

    # From nodes to SymPy

    def value(self, node: Node) -> Expr:
        """A node as a rational function of g and of symbols for the rest."""
        if node not in self.done:
            self.done[node] = self._value(node)
        return self.done[node]

    def _value(self, node: Node) -> Expr:
        if node.number is not None and node.number.is_Rational:
            return node.number
        if node.op == "add":
            return self.value(node.args[0]) + self.value(node.args[1])
        if node.op == "mul":
            return self.value(node.args[0]) * self.value(node.args[1])
        if node.op == "pow" and node.args[1].number is not None and node.args[1].number.is_Integer:
            return self.value(node.args[0]) ** node.args[1].number
        leaf = self.leaf(node)
        return self.atom(node) if leaf is None else leaf

    def atom(self, node: Node) -> Symbol:
        """What stands for a node in the coefficients."""
        return self.atoms.setdefault(node, _stand_in(len(self.atoms)))

    # The forms

    def sides(self) -> tuple[_Side, _Side]:
        left, right = self.smalls()
        low_top, top = _lowest(self.top)
        low_bottom, bottom = _lowest(self.bottom)
        degree = self.bottom.degree() - self.top.degree()
        return (
            _Side(left, low_top - low_bottom, top, bottom),
            _Side(right, degree, _reversed(self.top), _reversed(self.bottom)),
        )

    def node(self) -> Node:
        """P/Q."""
        left, right = self.sides()
        sign = self.sign()
        if sign:
            side = right if sign > 0 else left
            return self.quotient(side) * side.small**side.power
        common = max(min(left.power, right.power), 0) if left.small is right.small else 0
        parts = [self.quotient(side) * side.small ** (side.power - common) for side in (right, left)]
        chosen: Node = self.graph.where(self.is_large(), *parts) * left.small**common
        return chosen

    def plain(self) -> Node:
        """P/Q in g itself, in lowest terms."""
        left, _ = self.sides()
        form: Node = self.quotient(left) * left.small**left.power
        return form

    def log(self, direct: Node) -> Node:
        """The logarithm of P/Q; `direct` is its plain form, and serves where nothing overflows."""
        return self.log_beside(direct, self.log_side(0), self.log_side(1))

    def log_beside(self, direct: Node, left: tuple[Node, Node], right: tuple[Node, Node]) -> Node:
        """The logarithm by the side that is the smaller one, where it has a form; each side has its condition."""
        graph, is_large = self.graph, self.is_large()
        on_left = graph.where(left[1], left[0], direct)
        return graph.where(is_large, graph.where(right[1], right[0], direct), on_left)

    def log_side(self, which: int) -> tuple[Node, Node]:
        """The logarithm from one side, power * log(small) + log(c) + log1p(P1/(c Q1) - 1) with c = P1(0)/Q1(0), and
        the condition under which it is one.
        """
        side = self.sides()[which]
        at_zero = sympy.cancel(side.top.eval(0) / side.bottom.eval(0))
        rest = self.poly_quotient(side.top - at_zero * side.bottom, at_zero * side.bottom, side.small)
        log_small = -self.log_g() if which else self.log_g()
        c = self.coefficient(at_zero) if at_zero.is_polynomial() else None
        if c is None or (c.number is not None and not c.number.is_positive):
            raise _NotRationalError
        log_c = self.graph.apply("log", c) if c.number is None else self.graph.const(sympy.log(c.number))
        value: Node = side.power * log_small + log_c + self.graph.apply("log1p", rest)
        holds = self.graph.true() if c.number is not None else self.graph.apply("gt", c, 0)
        return value, self.graph.apply("and", holds, self.is_positive()) if side.power % 2 else holds

    def root(self, direct: Node) -> Node:
        """sqrt(P/Q)."""
        left, right = self.sides()
        if left.power % 2 or right.power % 2:
            raise _NotRationalError
        parts = [
            self.quotient(side) ** HALF * self.graph.apply("abs", side.small) ** (side.power // 2)
            for side in (right, left)
        ]
        return self.graph.where(self.is_large(), *parts)

    def quotient(self, side: _Side) -> Node:
        return self.poly_quotient(side.top, side.bottom, side.small)

    def poly_quotient(self, top: Poly | Expr, bottom: Poly | Expr, small: Node) -> Node:
        quotient: Node = self.product(top, small) / self.product(bottom, small)
        return quotient

    # From polynomials to nodes

    def product(self, poly: Poly, small: Node) -> Node:
        """A polynomial by its factors."""
        number, found = _factor_list(poly.as_expr())
        nodes = [self.horner(Poly(factor, _G), small) ** exponent for factor, exponent in found]
        return reduce(self.graph.mul, nodes, self.coefficient(number))

    def horner(self, poly: Poly, small: Node) -> Node:
        if small.op == "exp" and poly.degree() == 1 and poly.all_coeffs() in ([1, -1], [-1, 1]):
            return self.graph.apply("expm1", small.args[0]) * self.coefficient(poly.all_coeffs()[0])
        coefficients = [self.coefficient(c) for c in reversed(poly.all_coeffs())]
        step = 1 if any(not c.is_number(0) for c in coefficients[1::2]) else 2
        first, *rest = reversed(coefficients[::step])
        return reduce(lambda total, c: c + small**step * total, rest, first)

    def coefficient(self, value: Expr) -> Node:
        return as_node(self.graph, self.atoms, value)


def as_node(graph: Graph, atoms: Mapping[Node, Symbol], value: Expr) -> Node:
    """A polynomial in symbols that stand for nodes, as a node.

    Args:
        graph: where to make it.
        atoms: the nodes, each with its symbol.
        value: the polynomial.
    """
    if value.is_Symbol:
        return next(node for node, symbol in atoms.items() if symbol == value)
    if value.is_number:
        return graph.const(value)
    number, rest = value.as_content_primitive()
    if number != 1:
        return graph.const(number) * as_node(graph, atoms, rest)
    if value.is_Pow:
        return as_node(graph, atoms, value.base) ** graph.const(value.exp)
    args = [as_node(graph, atoms, arg) for arg in value.args]
    return reduce(graph.add if value.is_Add else graph.mul, args)


class _Exponential(_Fraction):
    """g = exp(u); u is what the first exponential is taken of, or a fraction of it."""

    def __init__(self, node: Node) -> None:
        self.base: dict[Node | None, Expr] | None = None
        super().__init__(node)
        if self.base is None:
            raise _NotRationalError
        parts = (self.graph.const(number) * (1 if item is None else item) for item, number in self.base.items())
        base = reduce(self.graph.add, parts)
        self.u: Node = self.graph.const(1 / self.unit) * base

    def leaf(self, node: Node) -> Expr | None:
        return OF_EXPONENTIAL[node.op](self.exponential(node.args[0])) if node.op in OF_EXPONENTIAL else None

    def exponential(self, argument: Node) -> Expr:
        """exp(argument) as a rational function of g."""
        result: Expr = sympy.S.One
        rest: list[tuple[Expr, Node | None]] = []
        for number, item in terms(argument):
            factor = self.factor(number) if item is None else None
            if factor is not None:
                result *= factor
            elif item is not None and item.op == "softplus" and number.is_Integer:
                result *= (1 + self.exponential(item.args[0])) ** number
            elif item is not None and item.op == "logaddexp" and number.is_Integer:
                result *= reduce(lambda a, b: a + b, map(self.exponential, item.args)) ** number
            else:
                rest.append((number, item))
        return result * _G ** self.multiple({item: number for number, item in rest}) if rest else result

    def factor(self, number: Expr) -> Expr | None:
        """exp(number), of a number that is added in an exponent, where that is written as a factor."""
        value = sympy.exp(number)
        return value if value.is_Rational else None

    def multiple(self, argument: dict[Node | None, Expr]) -> Expr:
        """How often a sum, as numbers by term, holds the base; the first sum asked about is the base."""
        if self.base is None:
            lead = sympy.sign(next(iter(argument.values())))
            if set(argument) == {None}:
                raise _NotRationalError
            self.base = {item: number / lead for item, number in argument.items()}
        if argument.keys() != self.base.keys():
            raise _NotRationalError
        every = {number / self.base[item] for item, number in argument.items()}
        ratios = {ratio if ratio.is_Rational else sympy.nsimplify(ratio) for ratio in every}
        if len(ratios) > 1 or not all(ratio.is_Rational for ratio in ratios):
            raise _NotRationalError
        return ratios.pop()

    def derivative(self, path: Sequence[Node]) -> Node:
        """The derivative by some inputs, of which there is no more than in u, a multiple of each."""
        top, bottom, scale = self.top, self.bottom, self.graph.const(1)
        for wrt in path:
            (slope,) = gradient(self.u, [wrt])
            if wrt in topological(self.atoms) or not self.graph.hyper.issuperset(inputs_of([slope])):
                raise _NotRationalError
            top, bottom = ((top.diff() * bottom - top * bottom.diff()) * Poly(_G)).cancel(bottom**2, include=True)
            scale = scale * slope
        return scale * _Plain(self, top, bottom).node()

    def sign(self) -> int:
        return known_sign(self.u)

    def smalls(self) -> tuple[Node, Node]:
        sign = self.sign()
        size = self.u if sign > 0 else -self.u if sign < 0 else self.graph.apply("modulus", self.u)
        small = self.graph.apply("exp", -size)
        return small, small

    def is_large(self) -> Node:
        return self.graph.apply("ge", self.u, 0)

    def log_g(self) -> Node:
        return self.u

    def log(self, direct: Node) -> Node:
        """Near 1 the logarithm is that of 1 + (P - Q)/Q, in which nothing cancels but what must."""
        plain = super().log(direct)
        excess = _Plain(self, self.top - self.bottom, self.bottom).node()
        is_near = self.graph.apply("lt", self.graph.apply("abs", excess), HALF)
        return self.graph.where(is_near, self.graph.apply("log1p", excess), plain)


class _Shifted(_Exponential):
    """The same where exponents differ by numbers, as in (exp(x + 1) - 2)/(exp(x) + 5).

    Symbols stand for the exponentials of these: to SymPy exp(13.1/4) and exp(40.1/5) are powers of exp(1/200).
    """

    def __init__(self, node: Node) -> None:
        self.shifts = _shifts(node)
        self.is_one = False
        super().__init__(node)
        if not self.is_one:
            raise _NotRationalError

    def factor(self, number: Expr) -> Expr | None:
        known = super().factor(number)
        if known is not None or abs(number) >= _MOST_SHIFT:
            return known
        self.is_one = True
        step = _step(number, self.shifts)
        return self.atom(self.graph.const(sympy.exp(step))) ** (number / step)


class _Plain(_Exponential):
    """Another quotient of polynomials in the g of a fraction."""

    def __init__(self, of: _Exponential, top: Poly, bottom: Poly) -> None:
        self.graph, self.atoms, self.u, self.unit = of.graph, of.atoms, of.u, of.unit
        self.top, self.bottom = top, bottom
        if top.is_zero:
            raise _NotRationalError


class _Less(_Plain):
    """The same of an input alone: k small**n, what it tends to where `small` vanishes, less a part c of that.

    What is rounded on the way to c counts for no more than c does, and what k small**n is off by for 1 - c. That is
    larger than the result: k is to be such that it does not overflow before `small` is 0, for infinity less infinity is
    no number. How large c is elsewhere than for a `small` of 1 the model of rounding sees.
    """

    def __init__(self, of: _Exponential) -> None:
        super().__init__(of, of.top, of.bottom)
        if self.u.op != "input" or not self.atoms.keys() <= {self.u}:
            raise _NotRationalError
        self.factors, self.parts = zip(*map(self.split, self.sides()), strict=True)

    def split(self, side: _Side) -> tuple[Expr, Expr]:
        """k and c, whose coefficients are positive numbers."""
        k = sympy.cancel(side.top.eval(0) / side.bottom.eval(0))
        c = sympy.cancel(1 - side.top.as_expr() / (k * side.bottom.as_expr()))
        known = [number for poly in sympy.fraction(c) for number in Poly(poly, _G).all_coeffs()]
        if c == 0 or not k.is_polynomial() or not all(number.is_number and number >= 0 for number in known):
            raise _NotRationalError
        sizes = [abs(number) * _GONE ** sum(powers) for powers, number in Poly(k, *self.atoms.values(), _G).terms()]
        if c.subs(_G, 1) > _MOST_PART or sum(sizes) > _MOST_LIMIT:
            raise _NotRationalError
        return k, c

    def node(self) -> Node:
        limit = self.limit(self.factors)
        less = limit - self.times(limit, self.parts)
        at_zero = self.factors[1].subs(self.atoms.get(self.u, _G), 0)
        return less if at_zero != 0 else self.graph.where(self.graph.apply("eq", limit, 0), limit, less)  # -0, not 0

    def slope(self, x: Node) -> Node:
        """The derivative by x, the input: (k small**n)' less (k small**n)' c + k small**n c'."""
        first, second = self.factors
        if x is not self.u or not sympy.cancel(second / first).is_polynomial():
            raise _NotRationalError
        slopes, changes = [], []
        for side, k, c, sign in zip(self.sides(), self.factors, self.parts, (1, -1), strict=True):
            slopes.append(sympy.expand(sympy.diff(k, self.atoms.get(x, _G)) + sign * side.power * k))
            changes.append(sign * k / first * _G**side.power * _G * sympy.diff(c, _G))  # small' = sign * small
        limit, change = self.limit(slopes), self.times(self.coefficient(first), changes)
        return limit - (self.times(limit, self.parts) + change)

    def limit(self, factors: Sequence[Expr]) -> Node:
        """k small**n on either side."""
        top, power = self.either([self.coefficient(k) for k in factors], [side.power for side in self.sides()])
        return top * power

    def times(self, factor: Node, parts: Sequence[Expr]) -> Node:
        """A factor times a rational function of `small` on either side."""
        small, _ = self.smalls()
        tops, bottoms = zip(*(sympy.fraction(sympy.cancel(c)) for c in parts), strict=True)
        powers, lowest = zip(*(_lowest(Poly(top, _G)) for top in tops), strict=True)
        top, power = self.either([self.product(top, small) for top in lowest], powers)
        product: Node = factor * power * (top / self.divisor(bottoms))
        return product

    def divisor(self, bottoms: Sequence[Expr]) -> Node:
        """A polynomial in `small` on either side; a power of one where both are the same power."""
        small, _ = self.smalls()
        found = [_factor_list(bottom) for bottom in bottoms]
        common = math.gcd(*(exponent for _, factors in found for _, exponent in factors))
        if common == 0 or any(number != 1 for number, _ in found):
            common = 1
        roots = [sympy.Mul(number, *(f ** (n // common) for f, n in factors)) for number, factors in found]
        root, _ = self.either([self.product(Poly(root, _G), small) for root in roots], (0, 0))
        power: Node = root**common
        return power

    def either(self, nodes: Sequence[Node], powers: Sequence[int]) -> tuple[Node, Node]:
        """One node times a power of `small` or the other, by the side, and the power that both have."""
        small, _ = self.smalls()
        common = min(powers)
        left, right = [node * small ** (n - common) for node, n in zip(nodes, powers, strict=True)]
        return self.graph.where(self.is_large(), right, left), small**common


class _Power(_Fraction):
    """g = x, an input or the absolute value of one."""

    def __init__(self, node: Node, x: Node) -> None:
        self.x = x
        self.size = x if x.op == "abs" else x.graph.apply("abs", x)
        super().__init__(node)
        if self.unit != 1:
            raise _NotRationalError

    def node(self) -> Node:
        if max(self.top.degree(), self.bottom.degree()) < 2:  # nothing overflows
            raise _NotRationalError
        return super().node()

    def leaf(self, node: Node) -> Expr | None:
        return _G if node is self.x else None

    def _value(self, node: Node) -> Expr:
        if self.x.op == "abs" and node.op == "pow" and node.args[0] is self.x.args[0]:
            exponent = node.args[1].number
            if exponent is not None and exponent.is_even:
                return _G**exponent
        return super()._value(node)

    def smalls(self) -> tuple[Node, Node]:
        # Where it is not taken, the reciprocal has no pole that autograd could meet.
        return self.x, 1 / self.graph.where(self.is_large(), self.x, self.graph.const(1))

    def is_large(self) -> Node:
        return self.graph.apply("gt", self.size, 1)

    def is_positive(self) -> Node:
        return self.graph.true() if self.x.op == "abs" else self.graph.apply("gt", self.x, 0)

    def log_g(self) -> Node:
        return self.graph.apply("log", self.size)

    def log(self, direct: Node) -> Node:
        return self.log_beside(direct, (direct, self.graph.true()), self.log_side(1))

    def root(self, direct: Node) -> Node:
        _, right = self.sides()
        if right.power % 2:
            raise _NotRationalError
        scaled = self.quotient(right) ** HALF * self.size ** (-right.power // 2)
        return self.graph.where(self.is_large(), scaled, direct)


def _lowest(poly: Poly) -> tuple[int, Poly]:
    """The lowest power in a polynomial, and the polynomial without it."""
    low = min(power for (power,) in poly.monoms())
    return low, Poly(sympy.quo(poly, Poly(_G**low, _G)), _G) if low else poly


def _reversed(poly: Poly) -> Poly:
    return Poly(list(reversed(poly.all_coeffs())), _G)
