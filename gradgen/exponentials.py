"""Sums of exponentials, of several arguments or under roots, relative to their largest terms.

What arithmetic makes of exp(u), exp(v), ... is a quotient of products of sums c*exp(u) + d*exp(v) + ... With m the
largest of u, v, ... such a sum is exp(m) times one of which no term overflows, and one is of ordinary size; in a
quotient the exponents m are added up, and those of a sum that is left above it are less m. Its logarithm is m plus
that of the other sum, or, one after the other, logarithms of sums of two exponentials (`logaddexp`); near 1 it is that
of 1 + (P - Q)/Q, of whose terms those that cancel are gone.

A quotient in one exponential alone `rational` computes with fewer of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import groupby, permutations, product

import sympy
from sympy import QQ, Expr, Rational, Symbol
from sympy.polys.fields import FracElement, FracField
from sympy.polys.rings import PolyElement

from gradgen.differentiate import gradient
from gradgen.graph import HALF, Graph, Node, known_sign, rebuilt, topological
from gradgen.rational import OF_EXPONENTIAL, as_node
from gradgen.rewrite import factors, terms

_MOST_NODES = 120  # of a formula that is looked at,
_MOST_OPERATIONS = 120  # of its value as SymPy has it,
_MOST_ATOMS = 6  # of what is no exponential in it,
_LONGEST = 60  # terms of a product of sums, multiplied out,
_MOST_TERMS = 14  # and of a sum
_HIGHEST = 64  # power of an exponential, in units of which all powers of it are whole: of decimals these are huge
_MOST_WAYS = 500  # in which an exponent is made of those of sums
_THIRD = Rational(1, 3)

Exponent = tuple[Rational, ...]  # how often each of the arguments is in it


class _NoSumsError(Exception):
    """The node is no quotient of sums of exponentials, or of one that is too long."""


def forms(node: Node) -> Iterator[tuple[Node, str]]:
    """Other forms of a node, all of it or its logarithms; each with what it is."""
    below = topological([node])
    if len(below) > _MOST_NODES or not any(one.op in OF_EXPONENTIAL for one in below):
        return
    for form in (_quotient(node), _by_terms(node), _with_logarithms(node)):
        if form is not None and form is not node:
            yield form, "with sums of exponentials relative to the largest term"


def derivative(node: Node, path: Sequence[Node]) -> Node | None:
    """The derivative of a node by some inputs, one after another, in such a form; None if it has none."""
    return _if_sums(partial(_Sums(node.graph).derivative, node, path))


@lru_cache(maxsize=64)  # of terms and parts it is asked for again and again
def _quotient(node: Node) -> Node | None:
    return _if_sums(partial(_Sums(node.graph).quotient, node))


def _if_sums(compute: Callable[[], Node]) -> Node | None:
    try:
        return compute()
    except (_NoSumsError, sympy.PolynomialError):
        return None


def _by_terms(node: Node) -> Node:
    """Each term of a sum by itself."""
    if node.op == "add":
        return node.graph.add(*map(_by_terms, node.args))
    return _quotient(node) or node


def _with_logarithms(node: Node) -> Node:
    """The node with the logarithms in it in their forms."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        new[below] = rebuilt(below, new)
        if below.op in ("log", "log1p"):
            argument = below.args[0] if below.op == "log" else 1 + below.args[0]
            new[below] = _if_sums(partial(_Sums(node.graph).logarithm, argument, new[below])) or new[below]
    return new[node]


@dataclass(frozen=True, eq=False)
class _Sum:
    """c*exp(u) + d*exp(v) + ..., by what the exponents are made of; one exponential, or at least two."""

    parts: Mapping[Exponent, Expr]

    @property
    def is_one(self) -> bool:
        return len(self.parts) == 1

    @property
    def is_positive(self) -> bool:
        """Whether no term is negative, as far as is known of its coefficient."""
        return all(not c.is_number or c.is_positive for c in self.parts.values())

    @property
    def is_difference(self) -> bool:
        """Whether the terms are two that cancel where their exponents are the same."""
        return len(self.parts) == 2 and sympy.expand(sum(self.parts.values())) == 0


class _Quotients:
    """Quotients of polynomials in symbols, of which those of exponentials may have exponents that are not whole.

    Args:
        arguments: the symbols of exponentials.
        atoms: those of all else.
        values: what is to be written with them.
    """

    def __init__(self, arguments: Collection[Symbol], atoms: Collection[Symbol], values: Sequence[Expr]) -> None:
        if not arguments or len(atoms) > _MOST_ATOMS or sympy.count_ops(values) > _MOST_OPERATIONS:
            raise _NoSumsError
        self._arguments, self._atoms = [*arguments], [*atoms]
        powers = reduce(set.union, (value.atoms(sympy.Pow) for value in values))
        roots = [power for power in powers if power.base in arguments and power.exp.is_Rational]
        self._units = [math.lcm(1, *(int(p.exp.q) for p in roots if p.base == g)) for g in arguments]
        units = dict(zip(self._arguments, self._units, strict=True))
        every = [p.exp * units[p.base] for p in powers if p.base in arguments and p.exp.is_Rational]
        if max(map(abs, every), default=0) > _HIGHEST:
            raise _NoSumsError
        self._whole = {g: g**unit for g, unit in units.items()} | {p: p.base ** (p.exp * units[p.base]) for p in roots}
        self._field = FracField([*self._arguments, *self._atoms], QQ)

    def element(self, value: Expr) -> FracElement:
        """A value in lowest terms."""
        return self._field.from_expr(value.xreplace(self._whole))

    def derivative(self, element: FracElement, slopes: Mapping[Symbol, Expr]) -> FracElement:
        """The derivative of an element, from those of the arguments of exponentials and of all else."""
        total = self._field.zero
        units = [*self._units, *(None for _ in self._atoms)]
        for symbol, unit, x in zip(self._field.symbols, units, self._field.gens, strict=True):
            slope = self.element(slopes.get(symbol, sympy.S.Zero))
            total += element.diff(x) * slope * (x / unit if unit else 1)
        return total

    def factors(self, element: FracElement) -> tuple[Expr, list[tuple[_Sum, Expr]]]:
        """A number, and sums with whole exponents, the product of which is an element."""
        number, found = sympy.S.One, []
        for side, sign in ((element.numer, 1), (element.denom, -1)):
            if len(side) > _LONGEST:
                raise _NoSumsError
            content, parts = side.factor_list()
            number *= QQ.to_sympy(content) ** sign
            for part, exponent in parts:
                total = self._sum(part)
                if next(iter(total.values())).could_extract_minus_sign():
                    total, number = {vector: -c for vector, c in total.items()}, number * (-1) ** exponent
                if len(total) > _MOST_TERMS:
                    raise _NoSumsError
                found.append((_Sum(total), sympy.Integer(sign * exponent)))
        return number, _with_longer_differences(found)

    def _sum(self, poly: PolyElement) -> dict[Exponent, Expr]:
        total: dict[Exponent, Expr] = {}
        count = len(self._arguments)
        for powers, c in poly.terms():
            vector = tuple(Rational(k, unit) for k, unit in zip(powers[:count], self._units, strict=True))
            others = (atom**k for atom, k in zip(self._atoms, powers[count:], strict=True))
            total[vector] = total.get(vector, sympy.S.Zero) + math.prod(others, start=QQ.to_sympy(c))
        return total


class _Sums:
    """What nodes are in terms of exponentials, each of an argument that is a symbol's, and of symbols for the rest."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._arguments: dict[Node, Symbol] = {}
        self._atoms: dict[Node, Symbol] = {}
        self._done: dict[Node, Expr] = {}
        self._outermost_of: dict[_Sum, list[Exponent]] = {}

    # From nodes to SymPy

    def _value(self, node: Node) -> Expr:
        """A node as a rational function of exponentials and of what else there is."""
        if node not in self._done:
            self._done[node] = self._of(node)
        return self._done[node]

    def _of(self, node: Node) -> Expr:
        if node.number is not None and node.number.is_Rational:
            return node.number
        if node.op in ("add", "mul"):
            a, b = map(self._value, node.args)
            return a + b if node.op == "add" else a * b
        if node.op == "pow" and node.args[1].number is not None and node.args[1].number.is_Integer:
            return self._value(node.args[0]) ** node.args[1].number
        if node.op in OF_EXPONENTIAL:
            return OF_EXPONENTIAL[node.op](self._exponential(node.args[0]))
        return self._atoms.setdefault(node, Symbol(f"a{len(self._atoms)}"))

    def _exponential(self, argument: Node) -> Expr:
        result: Expr = sympy.S.One
        for number, item in terms(argument):
            if item is None and sympy.exp(number).is_Rational:
                result *= sympy.exp(number)
            elif item is not None and number.is_Integer and item.op == "softplus":
                result *= (1 + self._exponential(item.args[0])) ** number
            elif item is not None and number.is_Integer and item.op == "logaddexp":
                result *= reduce(lambda a, b: a + b, map(self._exponential, item.args)) ** number
            elif item is not None and number.is_Integer and item.op == "log":
                result *= self._value(item.args[0]) ** number
            else:
                unit, often = item or self._graph.const(1), number
                if not number.is_Rational:
                    unit, often = number * unit, sympy.S.One
                result *= self._argument_of(unit) ** often
        return result

    def _argument_of(self, unit: Node) -> Symbol:
        # Of symbols of one name, as dummies are, SymPy does not always put the same one first.
        return self._arguments.setdefault(unit, Symbol(f"g{len(self._arguments)}", positive=True))

    def _fraction(self, value: Expr) -> tuple[Expr, list[tuple[_Sum, Expr]]]:
        """A number, and sums with whole exponents, the product of which is a value."""
        quotients = _Quotients(self._arguments.values(), self._atoms.values(), [value])
        return quotients.factors(quotients.element(value))

    # The forms

    def quotient(self, node: Node) -> Node:
        """A product of powers, whole ones or not."""
        content, found = factors(node)
        whole: Expr = sympy.S.One
        powers: dict[_Sum, Expr] = {}
        others = [self._graph.const(content)]

        def take(value: Expr, exponent: Expr) -> None:
            number, sums = self._fraction(value)
            if not exponent.is_Integer and not all(one.is_positive for one, _ in sums):
                raise _NoSumsError
            others.append(self._graph.const(number) ** self._graph.const(exponent))
            for one, often in sums:
                same = next((known for known in powers if known.parts == one.parts), one)
                powers[same] = powers.get(same, 0) + often * exponent

        roots = [(root * exponent, inner) for base, exponent in found for root, inner in [_root(base)] if inner]
        for base, exponent in found:
            if _root(base)[1] is None:
                whole *= self._value(base) ** exponent
        for _, inner in roots:
            self._value(inner)
        if not self._has_several and not roots:
            raise _NoSumsError
        for value, exponent in [(whole, sympy.S.One), *((self._value(inner), root) for root, inner in roots)]:
            take(value, exponent)
        if not any(often < 0 or not often.is_Integer for one, often in powers.items() if not one.is_one):
            raise _NoSumsError  # there is nothing to be relative to
        return self._product([(one, often) for one, often in powers.items() if often != 0], others)

    def derivative(self, node: Node, path: Sequence[Node]) -> Node:
        """The derivative of a quotient of sums by some inputs."""
        value = self._value(node)
        if not self._has_several:
            raise _NoSumsError
        slopes = {wrt: self._slopes(wrt) for _ in path for wrt in dict.fromkeys(path)}  # one may bring new atoms
        every = [value, *(slope for each in slopes.values() for slope in each.values())]
        quotients = _Quotients(self._arguments.values(), self._atoms.values(), every)
        element = quotients.element(value)
        for wrt in path:
            element = quotients.derivative(element, slopes[wrt])
        number, found = quotients.factors(element)
        return self._product(found, [self._graph.const(number)])

    def _slopes(self, wrt: Node) -> dict[Symbol, Expr]:
        """The derivatives of what symbols stand for by an input, those of exponentials divided by these."""
        symbols = [*self._arguments.items(), *self._atoms.items()]
        return {symbol: self._value(gradient(node, [wrt])[0]) for node, symbol in symbols}

    @property
    def _has_several(self) -> bool:
        """Whether there are exponentials of more than one argument."""
        return len(self._arguments) - (self._graph.const(1) in self._arguments) > 1

    def _product(self, powers: Sequence[tuple[_Sum, Expr]], others: Sequence[Node]) -> Node:
        """Powers of sums and some factors, with the exponents of what is taken out of the sums added up."""
        graph = self._graph
        above = [one for one, often in powers if often == 1 and not one.is_one and not one.is_difference]
        inside = above[0] if len(above) == 1 else None
        exponent: Exponent = (sympy.S.Zero,) * len(self._arguments)
        taken_out: list[tuple[_Sum, Expr]] = []
        scaled = list(others)
        for one, often in powers:
            if one.is_one:
                ((vector, c),) = one.parts.items()
                exponent = _plus(exponent, vector, often)
                scaled.append(self._coefficient(c) ** graph.const(often))
            elif one is not inside:
                taken_out.append((one, often))
                scaled.append(self._relative(one) ** graph.const(often))
        if inside is None:
            return reduce(graph.mul, scaled, self._exp(exponent, taken_out))
        parts = (self._coefficient(c) * self._exp(_plus(exponent, v), taken_out) for v, c in inside.parts.items())
        return reduce(graph.mul, scaled, reduce(graph.add, parts))

    def logarithm(self, node: Node, direct: Node) -> Node:
        """The logarithm of a quotient of positive sums; `direct` serves where a hyper-parameter makes one negative."""
        graph = self._graph
        number, found = self._fraction(self._value(node))
        if not number.is_positive or not all(one.is_positive for one, _ in found):
            raise _NoSumsError
        if all(one.is_one for one, _ in found):
            raise _NoSumsError
        if len(found) == 1 and found[0][1] == 1:
            mean = _Sum({v: number * c for v, c in found[0][0].parts.items()})
            if sympy.expand(sum(mean.parts.values())) == 1:
                return self._logarithm_of_mean(mean)
        total = graph.const(sympy.log(number))
        for one, often in found:
            total = total + graph.const(often) * self._folded(one)
        weights = dict.fromkeys(c for one, _ in found for c in one.parts.values() if not c.is_number)
        for weight in weights:
            total = graph.where(graph.apply("gt", self._coefficient(weight), 0), total, direct)
        if any(often < 0 and not one.is_one for one, often in found):
            number, above = self._fraction(self._value(node) - 1)
            return self._log(self._product(above, [graph.const(number)]), total)
        return total

    def _folded(self, one: _Sum) -> Node:
        """The logarithm of a sum of positive terms."""
        graph = self._graph
        each = []
        for vector, c in one.parts.items():
            coefficient = self._coefficient(c)
            each.append(self._argument(vector) + (0 if c == 1 else graph.apply("log", coefficient)))

        def both(a: Node, b: Node) -> Node:
            if a.is_number(0) or b.is_number(0):
                return graph.apply("softplus", b if a.is_number(0) else a)
            return graph.apply("logaddexp", a, b)

        return reduce(both, each)

    def _logarithm_of_mean(self, one: _Sum) -> Node:
        """The logarithm of a sum whose coefficients add up to 1, which vanishes with the exponents."""
        graph = self._graph
        parts = ((self._coefficient(c), self._below(vector, one)) for vector, c in one.parts.items())
        excess = reduce(graph.add, (c * graph.apply("expm1", u) for c, u in parts))
        return self._largest(one) + self._log(excess, graph.apply("log", self._relative(one)))

    def _log(self, excess: Node, far: Node) -> Node:
        """log(1 + excess), in another form where that is not near 0."""
        graph = self._graph
        is_near = graph.apply("lt", graph.apply("abs", excess), HALF)
        return graph.where(is_near, graph.apply("log1p", excess), far)

    def _outermost(self, one: _Sum) -> list[Exponent]:
        """The exponents of which one is the largest: none lies between two others, or is known to be less than one."""
        if one not in self._outermost_of:
            self._outermost_of[one] = self._found_outermost(one)
        return self._outermost_of[one]

    def _found_outermost(self, one: _Sum) -> list[Exponent]:
        found = [u for u in one.parts if not any(_is_between(u, a, b) for a, b in permutations(one.parts, 2))]
        for u, v in permutations(found, 2):
            if u in found and v in found and known_sign(self._argument(_plus(u, v, -1))) < 0:
                found.remove(u)
        return found

    def _largest(self, one: _Sum) -> Node:
        return self._most(self._outermost(one))

    def _most(self, exponents: Sequence[Exponent]) -> Node:
        return reduce(lambda a, b: self._graph.apply("maximum", a, b), map(self._argument, exponents))

    def _below(self, vector: Exponent, one: _Sum) -> Node:
        """An exponent less the largest of a sum."""
        outermost = self._outermost(one)
        if len(outermost) == 1:
            return self._argument(_plus(vector, outermost[0], -1))
        if len(outermost) == 2 and vector in outermost:
            (other,) = (v for v in outermost if v != vector)
            return self._graph.apply("minimum", self._argument(_plus(vector, other, -1)), 0)
        if any(_cancel(vector, other) for other in outermost if other != vector):  # f - (f + i) is -i
            each = (self._argument(_plus(vector, other, -1)) for other in outermost)
            return reduce(lambda a, b: self._graph.apply("minimum", a, b), each)
        return self._argument(vector) - self._largest(one)

    def _relative(self, one: _Sum) -> Node:
        """A sum divided by its largest exponential."""
        graph = self._graph
        if one.is_difference:
            (u, c), (v, d) = one.parts.items()
            if len(self._outermost(one)) == 1:
                below = self._argument(_plus(v, u, -1) if u in self._outermost(one) else _plus(u, v, -1))
                return -self._coefficient(c if u in self._outermost(one) else d) * graph.apply("expm1", below)
            apart = self._argument(_plus(u, v, -1))
            size = -graph.apply("expm1", -graph.apply("modulus", apart))
            return self._coefficient(c) * graph.where(graph.apply("ge", apart, 0), size, -size)
        each = [(self._coefficient(c), self._exp_below(v, one)) for v, c in one.parts.items()]
        if len(each) == len(self._outermost(one)) == 2 and each[0][0] is each[1][0]:
            return each[0][0] * (1 + self._small(one))
        return reduce(graph.add, (c * part for c, part in each))

    def _exp(self, vector: Exponent, taken_out: Sequence[tuple[_Sum, Expr]]) -> Node:
        """An exponential times powers of the largest ones of some sums.

        If it can be, a product of the sums' own, each divided by the largest; so no large numbers cancel.
        """
        each = [(one, share) for one, often in self._together(taken_out) for share in _shares(often)]

        def rest(chosen: Sequence[Exponent]) -> Exponent:
            return reduce(lambda v, k: _plus(v, chosen[k], each[k][1]), range(len(each)), vector)

        if math.prod(len(self._outermost(one)) for one, _ in each) > _MOST_WAYS:
            raise _NoSumsError
        chosen = min(product(*(self._outermost(one) for one, _ in each)), key=lambda way: sum(map(abs, rest(way))))
        if not any(rest(chosen)) and all(share == -1 for _, share in each):
            together = groupby(zip(each, chosen, strict=True), key=lambda pair: pair[0][0])
            parts = (self._exps_below([vector for _, vector in pairs], one) for one, pairs in together)
            return reduce(self._graph.mul, parts, self._graph.const(1))
        return self._graph.apply("exp", self._piecewise(vector, self._together(taken_out)))

    def _together(self, taken_out: Sequence[tuple[_Sum, Expr]]) -> list[tuple[_Sum, Expr]]:
        """Powers of the largest exponentials of sums, those of sums with the same ones as one power."""
        found: dict[frozenset[Exponent], tuple[_Sum, Expr]] = {}
        for one, often in taken_out:
            key = frozenset(self._outermost(one))
            found[key] = (one, often + (found[key][1] if key in found else 0))
        return [(one, often) for one, often in found.values() if often != 0]

    def _piecewise(self, vector: Exponent, taken_out: Sequence[tuple[_Sum, Expr]]) -> Node:
        """An exponent and multiples of the largest ones of some sums, added up wherever another one is the largest."""
        if not taken_out:
            return self._argument(vector)
        (one, often), *others = taken_out
        *before, last = self._outermost(one)
        total = self._piecewise(_plus(vector, last, often), others)
        for k, u in reversed([*enumerate(before)]):
            value = self._piecewise(_plus(vector, u, often), others)
            total = self._graph.where(self._is_largest(u, self._outermost(one)[k + 1 :]), value, total)
        return total

    def _is_largest(self, u: Exponent, others: Sequence[Exponent]) -> Node:
        """The condition that none of some other exponents is larger."""
        if len(others) == 1:
            return self._graph.apply("ge", self._argument(_plus(u, others[0], -1)), 0)
        return self._graph.apply("ge", self._argument(u), self._most(others))

    def _exps_below(self, vectors: Sequence[Exponent], one: _Sum) -> Node:
        """A product of exponentials, each divided by the largest of a sum."""
        graph = self._graph
        if len(self._outermost(one)) != 2:
            return reduce(graph.mul, (self._exp_below(vector, one) for vector in vectors))
        u, v = map(vectors.count, self._outermost(one))  # of u and v one is 0
        lone = reduce(
            graph.mul, [self._exp_below(self._outermost(one)[0 if u > v else 1], one)] * abs(u - v), graph.const(1)
        )
        return self._small(one) ** graph.const(min(u, v)) * lone

    def _exp_below(self, vector: Exponent, one: _Sum) -> Node:
        """An exponential divided by the largest of a sum; of two the smaller one is all that is computed."""
        graph = self._graph
        if len(self._outermost(one)) == 2 and vector in self._outermost(one):
            u, v = self._outermost(one)
            parts = (graph.const(1), self._small(one))
            return graph.where(self._is_largest(u, [v]), *(parts if vector == u else reversed(parts)))
        below = self._below(vector, one)
        return graph.const(1) if below.is_number(0) else graph.apply("exp", below)

    def _small(self, one: _Sum) -> Node:
        """Of two exponentials the smaller one divided by the other."""
        u, v = self._outermost(one)
        apart = self._argument(_plus(u, v, -1))
        return self._graph.apply("exp", -self._graph.apply("modulus", apart))

    def _argument(self, vector: Exponent) -> Node:
        """An exponent as a node."""
        graph = self._graph
        parts = (graph.const(number) * item for item, number in zip(self._arguments, vector, strict=True) if number)
        return reduce(graph.add, parts, graph.const(0))

    def _coefficient(self, value: Expr) -> Node:
        return as_node(self._graph, self._atoms, value)


def _with_longer_differences(found: Sequence[tuple[_Sum, Expr]]) -> list[tuple[_Sum, Expr]]:
    """Powers of sums in which exp(2*u) - exp(2*v) stands for (exp(u) - exp(v))*(exp(u) + exp(v))."""
    for pair in permutations(found, 2):
        (one, often), (other, _) = pair
        if one.is_difference and len(other.parts) == 2 and {exponent for _, exponent in pair} == {often}:
            both = _Sum(_multiplied(one.parts, other.parts))
            if both.is_difference:
                return _with_longer_differences([*(item for item in found if item not in pair), (both, often)])
    return list(found)


def _multiplied(a: Mapping[Exponent, Expr], b: Mapping[Exponent, Expr]) -> dict[Exponent, Expr]:
    """A product of sums, multiplied out."""
    total: dict[Exponent, Expr] = {}
    for (u, c), (v, d) in product(a.items(), b.items()):
        total[_plus(u, v)] = sympy.expand(total.get(_plus(u, v), 0) + c * d)
    return {vector: c for vector, c in total.items() if c != 0}


def _root(node: Node) -> tuple[Expr, Node | None]:
    """The exponent and the base of a power that is no whole one; None if the node is none."""
    if node.op == "cbrt":
        return _THIRD, node.args[0]
    exponent = node.args[1].number if node.op == "pow" else None
    if exponent is not None and exponent.is_Rational and not exponent.is_Integer:
        return exponent, node.args[0]
    return sympy.S.One, None


def _shares(exponent: Expr) -> list[Expr]:
    """An exponent as a sum of ones, or of minus ones, if it is whole."""
    return [sympy.sign(exponent)] * int(abs(exponent)) if exponent.is_Integer else [exponent]


def _cancel(u: Exponent, v: Exponent) -> bool:
    """Whether less of the arguments is left of the difference of two exponents than is in both."""
    sizes = [sum(map(abs, vector)) for vector in (_plus(u, v, -1), u, v)]
    return bool(sizes[0] < sizes[1] + sizes[2])


def _plus(a: Exponent, b: Exponent, often: Expr | int = 1) -> Exponent:
    return tuple(p + often * q for p, q in zip(a, b, strict=True))


def _is_between(one: Exponent, a: Exponent, b: Exponent) -> bool:
    """Whether an exponent lies strictly between two others."""
    if one in (a, b):
        return False
    differing = [(p - q, r - q) for p, q, r in zip(one, b, a, strict=True) if r != q or p != q]
    if any(to_a == 0 for _, to_a in differing):
        return False
    shares = {part / to_a for part, to_a in differing}
    return len(shares) == 1 and bool(0 < shares.pop() < 1)
