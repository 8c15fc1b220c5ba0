"""Applies the rules to a graph, operands first, until none fits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial, reduce
from typing import Any

import sympy
from sympy import Expr

from gradgen.graph import COMMUTATIVE, Graph, Node, coefficient, inputs_of, rebuilt, substitute, topological
from gradgen.primitives import PRIMITIVES
from gradgen.rules import RULES, Rule

Binding = dict[str, Node]
Term = tuple[Expr, Node | None]  # a number times a node; None for the number alone
Factor = tuple[Node, int]  # a node to a whole power
Product = tuple[Expr, list[Factor]]  # a number times factors

_NUMBERS = ("a", "b")
_LONGEST = 32  # terms of a sum, or factors of a product, that are looked at together


@dataclass(frozen=True)
class Step:
    """A rule at work: it made `after` of `before`, whose operands were in their sound form already."""

    rule: Rule
    before: Node
    after: Node


_RECORD: ContextVar[list[Step] | None] = ContextVar("_RECORD", default=None)


@contextmanager
def recorded() -> Iterator[list[Step]]:
    """Within, the list that is given collects what rules do, in order."""
    steps: list[Step] = []
    token = _RECORD.set(steps)
    try:
        yield steps
    finally:
        _RECORD.reset(token)


def rewrite(roots: Iterable[Node]) -> list[Node]:
    """The roots, nodes of one graph, in their sound form."""
    found = list(roots)
    rewriter = _Rewriter(found[0].graph) if found else None
    return [rewriter.node(root) for root in found] if rewriter else []


def tried(node: Node, why: str | None = None) -> Iterator[tuple[Node, Rule]]:
    """The node with one of the rules that are only tried applied wherever it fits; each with the rule.

    Where it fits in several places, one within the other, also in the outermost alone: what it makes of an inner one
    may be none that the rules know. Rules with another reason than `why` are left out, if that is given.
    """
    views = [_View(below) for below in topological([node])]
    for rule in RULES:
        is_asked, pattern = rule.tried and why in (None, rule.why), _pattern(rule)
        fitting = [view for view in views if is_asked and view.has(pattern) and _apply(pattern, view)]
        if fitting:
            form = _Rewriter(node.graph, rule).node(node)
            if form is not node:
                yield form, rule
        if len(fitting) > 1:
            outermost = fitting[-1]
            new = _apply(pattern, outermost)
            assert new is not None
            yield rewrite(substitute([node], {outermost.node: new}))[0], rule


class _Rewriter:
    """One rewriting of a graph; `done` keeps what every node became, so that a node is looked at once.

    What the rules alone make of a node the graph keeps, for rewritings to come; not while steps are recorded.
    """

    def __init__(self, graph: Graph, tried: Rule | None = None) -> None:
        self.tried = tried
        self.record = _RECORD.get()
        self.done = graph.sound if tried is None and self.record is None else dict[Node, Node]()

    def node(self, root: Node) -> Node:
        for node in topological([root], stop=self.done.keys()):
            if node not in self.done:
                self.done[node] = self.settle(rebuilt(node, self.done))
        return self.done[root]

    def settle(self, node: Node) -> Node:
        """Apply rules at a node, whose operands are done, until none fits; what a rule brings in is done in turn."""
        if node not in self.done:
            new, after = self._changed(node)
            self.done[node] = after.node(new) if new else node
        return self.done[node]

    def _changed(self, node: Node) -> tuple[Node | None, _Rewriter]:
        """What the first of the rules that fits makes of a node, and what is to go on with that."""
        is_sound = node.graph.sound.get(node) is node  # only what is tried may change it
        if not is_sound:
            new = folded(node) or _undefined(node) or _in_branches(node) or _collected(node) or _gathered(node)
            if new:
                return new, self
        view = _View(node)
        for pattern in _rules_for(node.op, self.tried, view.parts, view.operand_kinds, node.kinds):
            is_tried = pattern.rule is self.tried
            applied = _apply(pattern, view) if is_tried or not is_sound else None
            if applied and applied is not node:
                if self.record is not None:
                    self.record.append(Step(pattern.rule, node, applied))
                return applied, _Rewriter(node.graph) if is_tried else self  # tried once, for it may fit again
        return None, self


def folded(node: Node) -> Node | None:
    """A function of constants is a constant."""
    function = PRIMITIVES[node.op].of_numbers if node.op in PRIMITIVES else None
    if function is None or not node.args or any(arg.number is None for arg in node.args):
        return None
    return node.graph.const(function(*(arg.number for arg in node.args)))


def _undefined(node: Node) -> Node | None:
    """Arithmetic on what is undefined somewhere is undefined there: the rules see what it is elsewhere."""
    for k, arg in enumerate(node.args if node.op in _ARITHMETIC else ()):
        if arg.op == "where" and arg.args[2].number is sympy.nan:
            condition, value, nan = arg.args
            value = node.graph.apply(node.op, *node.args[:k], value, *node.args[k + 1 :])
            return node.graph.where(condition, value, nan)
    return None


def _in_branches(node: Node) -> Node | None:
    """A hyper-parameter and a selection of numbers as a selection of sums of hyper-parameters, which lose no digits."""
    for select, other in (node.args, node.args[::-1]) if node.op == "add" else ():
        if select.op == "where" and other.number is None and node.graph.is_hyper(other):
            condition, p, q = select.args
            if p.number is not None and q.number is not None and sympy.nan not in (p.number, q.number):
                return node.graph.where(condition, other + p, other + q)
    return None


def _collected(node: Node) -> Node | None:
    """A sum whose like terms are put together: (1 - x) - (1 + x) is -2*x, and loses no digits.

    Alike are products of the same factors, in whatever order they were multiplied. Products with sums in them are
    written out where one product, or nothing, is left then: k*x - k*(x - 1) is k. Or nothing but hyper-parameters.
    """
    found = terms(node, most=_LONGEST) if node.op == "add" else []
    if len(found) > _LONGEST:
        return None
    left = [(number, found[k][1]) for number, k in _alike([_as_product(term) for term in found])]
    spread = [product for term in found for product in _spread(term)]
    if len(found) < len(spread) <= _LONGEST:
        fewer = [(number, spread[k][1]) for number, k in _alike(spread)]
        is_told = len(fewer) == 1 or all(node.graph.is_hyper(base) for _, product in fewer for base, _ in product)
        if len(fewer) < len(left) and is_told:
            left = [*map(_as_term, fewer)]
    if len(left) == len(found):
        return None
    return _sum(node.graph, left)


def _alike(products: Sequence[Product]) -> list[tuple[Expr, int]]:
    """For each kind of product the sum of the numbers and the place of the first one; none where that sum is 0."""
    alike: dict[frozenset[Factor], list[int]] = {}
    for k, (_, found) in enumerate(products):
        powers = {(base, exponent) for base, exponent in powers_of(found).items() if exponent}
        alike.setdefault(frozenset(powers), []).append(k)
    sums = [(sum(products[k][0] for k in places), places[0]) for places in alike.values()]
    return [(number, k) for number, k in sums if number != 0]


def _as_product(term: Term) -> Product:
    number, item = term
    more, found = factors(item) if item is not None else (sympy.S.One, [])
    return number * more, found


def _as_term(product: Product) -> Term:
    number, found = product
    return (number, _product(sympy.S.One, found)) if found else (number, None)


def _spread(term: Term) -> list[Product]:
    """The terms that a product with a sum in it is; a term that is none as it is."""
    number, found = _as_product(term)
    total = next((factor for factor in found if factor[0].op == "add" and factor[1] in (1, 2)), None)
    if total is None or len(found) > _LONGEST:
        return [(number, found)]
    others = [factor for factor in found if factor is not total]
    inner = [*map(_as_product, terms(total[0], most=_LONGEST))]
    if total[1] == 2:
        inner = [(a * b, [*one, *other]) for (a, one), (b, other) in itertools.product(inner, inner)]
    return [(number * more, [*others, *parts]) for more, parts in inner]


def _gathered(node: Node) -> Node | None:
    """A product in which powers of one base cancel: x * x**-2 is 1/x, also where one of them overflows.

    So do broken ones, x / sqrt(x), unless a whole power is left, which is real where they are not.
    """
    number, found = factors(node) if node.op == "mul" else (sympy.S.One, [])
    if len(found) > _LONGEST:
        return None
    alike: dict[Node, list[Factor]] = {}
    for factor in found:
        alike.setdefault(_as_power(factor[0])[0], []).append(factor)
    left: dict[Node, Expr | int] = {}
    is_gathered = False
    for base, parts in alike.items():
        powers = powers_of(parts)
        exponents = [_as_power(factor)[1] * times for factor, times in parts]
        if len(powers) > 1 and len({exponent > 0 for exponent in exponents}) > 1 and not sum(exponents).is_Integer:
            powers = {base: sum(exponents)}
        left |= powers
        is_gathered = is_gathered or len({(factor, times > 0) for factor, times in parts}) > len(powers)
    return _product(number, list(left.items())) if is_gathered else None


def _as_power(node: Node) -> tuple[Node, Expr]:
    """A node as a base and its exponent; what is no broken power as that to the first."""
    exponent = node.args[1].number if node.op == "pow" else None
    return (node.args[0], exponent) if exponent is not None and exponent.is_Rational else (node, sympy.S.One)


def powers_of(found: Iterable[Factor]) -> dict[Node, int]:
    """The power of each base of a product; a product may hold a base more than once."""
    exponents: dict[Node, int] = {}
    for base, exponent in found:
        exponents[base] = exponents.get(base, 0) + exponent
    return exponents


class _Pattern:
    """A rule as graphs, whose inputs t, u, v, w, a, b are wild."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._names = _Names(Graph())
        self.pattern: Node = self._names.read(rule.pattern)
        self.has_parts = self.pattern.op == "add" or _is_product(self.pattern)
        self.needs = frozenset(part.op for part in _parts(self.pattern)) - _FIT_ANYTHING
        self.kinds = self.pattern.kinds - _FIT_ANYTHING.union(_ARITHMETIC)

    @cached_property
    def replacement(self) -> Node:
        """What it is replaced by: few of the rules ever fit."""
        return self._names.read(self.rule.replacement)


class _Names(dict[str, Any]):
    """What the names in rules stand for in a graph; functions of the table are made when they are asked for."""

    def __init__(self, graph: Graph) -> None:
        super().__init__({name: graph.input(name) for name in ("t", "u", "v", "w", *_NUMBERS)})
        self.update(sqrt=lambda x: x**sympy.S.Half, where=partial(graph.apply, "where"), pi=sympy.pi, oo=sympy.oo)
        self._graph = graph

    def __missing__(self, name: str) -> Callable[..., Any]:
        return _maker(self._graph, name)

    def read(self, text: str) -> Node:
        """What a pattern or replacement says."""
        return self._graph.node(eval(text, {}, self))


_ARITHMETIC = ("add", "mul", "pow")
_FIT_ANYTHING = {"input", "const", "mul"}  # a wild name, a number, one times something


def _parts(pattern: Node) -> list[Node]:
    """What a pattern looks for in a node: terms of a sum, factors of a product, else operands."""
    if pattern.op == "add":
        return [item for _, item in terms(pattern) if item is not None]
    if _is_product(pattern):
        return [item for item, _ in factors(pattern)[1]]
    return list(pattern.args)


def _maker(graph: Graph, name: str) -> Callable[..., Any]:
    """A function of the table as a pattern calls it: of numbers alone it is a number."""

    def make(*args: Any) -> Any:
        is_number = not any(isinstance(arg, Node) for arg in args)
        return row.of_numbers(*args) if is_number else graph.apply(name, *args)  # type: ignore[misc]

    row = PRIMITIVES[name]
    return make


@lru_cache(maxsize=1 << 14)
def _rules_for(
    op: str, tried: Rule | None, parts: frozenset[str], operands: frozenset[str], kinds: frozenset[str]
) -> tuple[_Pattern, ...]:
    """The rules whose pattern may fit a node of this kind, with parts, operands and nodes below it of these kinds."""
    fitting = (pattern for pattern in _rules_of(op, tried) if pattern.kinds <= kinds)
    return tuple(pattern for pattern in fitting if pattern.needs <= (parts if pattern.has_parts else operands))


@cache
def _rules_of(op: str, tried: Rule | None) -> tuple[_Pattern, ...]:
    """The rules whose pattern is of this kind. A power is a product of one factor."""
    kinds = {"mul": ("mul", "pow"), "pow": ("mul", "pow")}.get(op, (op,))
    rules = [*([tried] if tried else []), *(rule for rule in RULES if not rule.tried)]
    return tuple(pattern for pattern in map(_pattern, rules) if pattern.pattern.op in kinds)


def factored(node: Node) -> Node:
    """The node with what all terms of a sum have as a factor before the sum: the rest may cancel to a few terms."""
    return _with_each(node, "add", _without_common_factors)


def multiplied_out(node: Node) -> Node:
    """The node with exponentials multiplied into sums: there they may meet others, and vanish together."""
    return _with_each(node, "mul", _over_the_terms)


def multiplied_into_branches(node: Node) -> Node:
    """The node with what a selection is multiplied by in its branches, where it may meet what makes up for it."""
    return _with_each(node, "mul", _over_the_branches)


def written_out(total: Node) -> Node:
    """A sum with the products of sums in it written out, and like terms put together: x + (1 - y)*(1 + y)."""
    left, done = [_as_product(term) for term in terms(total, most=_LONGEST)], list[Product]()
    while left and len(left) + len(done) <= _LONGEST:
        product = left.pop(0)
        parts = _spread(_as_term(product))
        done += parts if len(parts) == 1 else []
        left = (parts if len(parts) > 1 else []) + left
    if left:
        return total
    return _sum(total.graph, [_as_term((number, done[k][1])) for number, k in _alike(done)])


def in_exponentials(node: Node) -> Node:
    """A sum of exponentials, each times all that is beside it: divided by it, they overflow only where the node does.

    The node itself where no term of it has an exponential.
    """
    each = {below: below.graph.apply("exp", below.args[0]) - 1 for below in topological([node]) if below.op == "expm1"}
    sums: dict[frozenset[Factor], tuple[Node, list[Factor]]] = {}
    for number, item in terms(written_out(substitute([node], each)[0])):
        more, found = factors(item) if item is not None else (sympy.S.One, [])
        powers = powers_of(found).items()
        exponentials = [(base, exponent) for base, exponent in powers if base.op == "exp"]
        others = [factor for factor in powers if factor not in exponentials]
        term = _product(number * more, others) if others else node.graph.const(number * more)
        total, _ = sums.get(frozenset(exponentials), (node.graph.const(0), []))
        sums[frozenset(exponentials)] = total + term, exponentials
    if sums.keys() == {frozenset()}:
        return node
    return reduce(
        node.graph.add, (total * _product(sympy.S.One, one) if one else total for total, one in sums.values())
    )


def collected(node: Node) -> Node:
    """The node with hyper-parameters in sums taken together: x**2 - k*x**2 as (1 - k)*x**2."""
    return _with_each(node, "add", _by_tensors)


def _by_tensors(node: Node) -> Node | None:
    """A sum with the coefficients of equal products of tensors added up; None where no two are equal."""
    graph, found = node.graph, terms(node, most=_LONGEST)
    if len(found) > _LONGEST:
        return None
    sums: dict[frozenset[Factor], tuple[Node, list[Factor]]] = {}
    for number, item in found:
        more, product = factors(item) if item is not None else (sympy.S.One, [])
        powers = powers_of(product)
        fixed = [(base, exponent) for base, exponent in powers.items() if graph.is_hyper(base)]
        varying = [(base, exponent) for base, exponent in powers.items() if not graph.is_hyper(base)]
        scale = _product(number * more, fixed) if fixed else graph.const(number * more)
        total, _ = sums.get(frozenset(varying), (graph.const(0), []))
        sums[frozenset(varying)] = total + scale, varying
    if len(sums) == len(found):
        return None
    parts = [scale * _product(sympy.S.One, varying) if varying else scale for scale, varying in sums.values()]
    return reduce(graph.add, parts)


def _with_each(node: Node, op: str, change: Callable[[Node], Node | None]) -> Node:
    """The node with each sum, or product, below it changed, operands first; the result in its sound form."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        new[below] = (change(changed) or changed) if changed.op == op else changed
    return node if new[node] is node else rewrite([new[node]])[0]


def _over_the_terms(node: Node) -> Node | None:
    if all(base.op != "exp" for base, _ in factors(node)[1]):
        return None
    found = _spread((sympy.S.One, node))
    return _sum(node.graph, list(map(_as_term, found))) if 1 < len(found) <= _LONGEST else None


def _over_the_branches(node: Node) -> Node | None:
    number, found = factors(node)
    choice = next((base for base, exponent in found if base.op == "where" and exponent == 1), None)
    if choice is None:
        return None
    before = _product(number, [(base, exponent) for base, exponent in found if base is not choice] or [(choice, 0)])
    return _in_each_branch(choice, before)


def _in_each_branch(node: Node, factor: Node) -> Node:
    if node.op != "where":
        return factor * node
    condition, p, q = node.args
    return node.graph.where(condition, _in_each_branch(p, factor), _in_each_branch(q, factor))


def _without_common_factors(node: Node) -> Node | None:
    found = terms(node, most=_LONGEST)
    items = [(number, item) for number, item in found if item is not None]
    if len(items) < len(found) or len(found) > _LONGEST:
        return None
    products = [(number * more, powers_of(found)) for number, item in items for more, found in [factors(item)]]
    common = {
        base: min((powers.get(base, 0) for _, powers in products), key=abs)
        for base, exponent in products[0][1].items()
        if all(powers.get(base, 0) * exponent > 0 for _, powers in products)
    }
    if not common:
        return None
    rest = [
        (number, _product(sympy.S.One, [(base, power - common.get(base, 0)) for base, power in powers.items()]))
        for number, powers in products
    ]
    return _product(sympy.S.One, list(common.items())) * _sum(node.graph, rest)


@cache
def _pattern(rule: Rule) -> _Pattern:
    return _Pattern(rule)


class _View:
    """A node as the rules look at it, flattened at most once for all of them."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @cached_property
    def terms(self) -> list[Term]:
        """The terms of a sum; none of a sum too long to look at."""
        found = terms(self.node, most=_LONGEST)
        return found if len(found) <= _LONGEST else []

    @cached_property
    def factors(self) -> Product:
        """The factors of a product; none of a product too long to look at."""
        number, found = factors(self.node)
        return number, found if len(found) <= _LONGEST else []

    @cached_property
    def parts(self) -> frozenset[str]:
        """The kinds of the terms of a sum, or of the factors of what may be a product; of anything else none."""
        if self.node.op == "add":
            return frozenset(item.op for _, item in self.terms if item is not None)
        return frozenset(item.op for item, _ in self.factors[1]) if self.node.op in ("mul", "pow") else frozenset()

    @cached_property
    def operand_kinds(self) -> frozenset[str]:
        return frozenset(arg.op for arg in self.node.args)

    def has(self, pattern: _Pattern) -> bool:
        """Whether something of each kind that a pattern needs is there: quick to tell, and mostly not so."""
        parts = self.parts if pattern.has_parts else self.operand_kinds
        return pattern.needs <= parts and pattern.kinds <= self.node.kinds


def _apply(pattern: _Pattern, view: _View) -> Node | None:
    """What the rule makes of the node, None where it does not fit."""
    condition = pattern.rule.condition
    for binding, finish in _whole_matches(pattern.pattern, view, pattern.rule.whole):
        numbers = [binding[name].number for name in _NUMBERS if name in binding]
        if any(view.node.graph.is_hyper(binding[name]) for name in pattern.rule.varies):
            continue
        if any(binding[name].number is not None for name in pattern.rule.symbolic):
            continue
        inputs = [name for part in pattern.rule.separate for name in inputs_of([binding[part]])]
        if len(inputs) > len(set(inputs)):
            continue
        if condition is None or condition(*numbers):
            return finish(_instantiate(pattern.replacement, binding, view.node.graph))
    return None


Finish = Callable[[Node], Node]


def _whole_matches(pattern: Node, view: _View, whole: bool) -> Iterator[tuple[Binding, Finish]]:
    """Matches of a pattern at a node, each with how to put the replacement into what surrounds it."""
    if pattern.op == "add":
        yield from _rest_matches(pattern, view) if whole else _sum_matches(pattern, view)
    elif _is_product(pattern):
        yield from _rest_of_product_matches(pattern, view) if whole else _product_matches(pattern, view)
    else:
        for binding in _match(pattern, view.node, {}):
            yield binding, lambda new: new


@cache
def _is_product(pattern: Node) -> bool:
    """Whether a pattern looks for factors; a root is one by itself."""
    if pattern.op == "pow":
        exponent = pattern.args[1].number
        return exponent is not None and bool(exponent.is_integer)
    return pattern.op == "mul"


# Sums: some terms of the node are the pattern's, up to a common factor; the rest is added again.


def terms(node: Node, most: int | None = None) -> list[Term]:
    """The terms of a sum as (number, node), flattened; a number alone is (number, None). Stops beyond `most`."""
    found: list[Term] = []
    stack: list[Term] = [coefficient(node)]
    while stack and (most is None or len(found) <= most):
        factor, item = stack.pop()
        if item is not None and item.op == "add":
            inner = [coefficient(arg) for arg in item.args]
            stack.extend((factor * number, rest) for number, rest in reversed(inner))
        else:
            found.append((factor, item))
    return found


def _sum_matches(pattern: Node, view: _View) -> Iterator[tuple[Binding, Finish]]:
    found = view.terms
    for binding, scale, used in _match_terms(_wanted_terms(pattern), found, {}, None, ()):
        rest = [term for i, term in enumerate(found) if i not in used]
        yield binding, lambda new, scale=scale, rest=rest: _sum(new.graph, [(scale, new), *rest])  # type: ignore[misc]


@cache
def _wanted_terms(pattern: Node) -> list[Term]:
    """The terms of a pattern, that which takes anything last."""
    return sorted(terms(pattern), key=_is_wild)


def _rest_matches(pattern: Node, view: _View) -> Iterator[tuple[Binding, Finish]]:
    """Matches of something plus a wild name, which takes all the other terms; of but one other it is a plain match.

    The common factor is positive, so that what is to be squared is not of the other sign.
    """
    (number, item), (other_number, wild) = _wanted_terms(pattern)
    assert item is not None
    assert wild is not None
    for i, (factor, candidate) in enumerate(view.terms if len(view.terms) > 2 else ()):
        scale = factor / number
        if candidate is None or scale <= 0:
            continue
        for bound in _match(item, candidate, {}):
            rest = [(n / (scale * other_number), term) for k, (n, term) in enumerate(view.terms) if k != i]
            if any(term is not None for _, term in rest):
                for binding in _bind(str(wild.value), _sum(candidate.graph, rest), bound):
                    yield binding, lambda new, scale=scale: scale * new  # type: ignore[misc]


def _match_terms(
    wanted: list[Term], found: list[Term], binding: Binding, scale: Expr | None, used: tuple[int, ...]
) -> Iterator[tuple[Binding, Expr, tuple[int, ...]]]:
    """Ways to find each wanted term, times one common scale, among the terms found."""
    if not wanted:
        assert scale is not None
        yield binding, scale, used
        return
    number, item = wanted[0]
    if item is not None and _absorbs(item):
        yield from _match_absorbing(wanted, found, binding, scale, used)
        return
    for i, (factor, candidate) in enumerate(found):
        if i in used or (item is None) != (candidate is None) or (scale is not None and factor != scale * number):
            continue
        inner = [binding] if item is None or candidate is None else _match(item, candidate, binding)
        for bound in inner:
            yield from _match_terms(wanted[1:], found, bound, scale or factor / number, (*used, i))


def _is_wild(term: Term) -> bool:
    return term[1] is not None and term[1].op == "input" and term[1].value not in _NUMBERS


def _absorbs(pattern: Node) -> bool:
    """Whether a pattern is a wild name, or one times something, and takes a number or all that is not the something."""
    if _is_wild((sympy.S.One, pattern)):
        return True
    return pattern.op == "mul" and pattern.args[0].op == "input" and pattern.args[0].value not in _NUMBERS


def _match_absorbing(
    wanted: list[Term], found: list[Term], binding: Binding, scale: Expr | None, used: tuple[int, ...]
) -> Iterator[tuple[Binding, Expr, tuple[int, ...]]]:
    """Like `_match_terms`, the first term wanted taking the number of the term found as well."""
    number, item = wanted[0]
    scale = sympy.S.One if scale is None else scale
    for i, (factor, candidate) in enumerate(found):
        if i in used or candidate is None:
            continue
        for bound in _match(item, (factor / (scale * number)) * candidate, binding):  # type: ignore[arg-type]
            yield from _match_terms(wanted[1:], found, bound, scale, (*used, i))


def _sum(graph: Graph, found: Sequence[Term]) -> Node:
    nodes = [graph.const(number) if item is None else number * item for number, item in found]
    return reduce(graph.add, nodes) if nodes else graph.const(0)


# Products: some factors of the node are the pattern's; the rest is multiplied again.


def factors(node: Node, keep: Callable[[Node], bool] | None = None) -> Product:
    """The factors of a product as (number, [(node, whole power), ...]), flattened except for what `keep` holds."""
    if keep is not None:
        return _flattened(node, keep)
    number, found = _factors(node)
    return number, list(found)


@lru_cache(maxsize=1 << 12)  # what looks at sums asks for the same terms again and again
def _factors(node: Node) -> tuple[Expr, tuple[Factor, ...]]:
    number, found = _flattened(node, lambda _: False)
    return number, tuple(found)


def _flattened(node: Node, keep: Callable[[Node], bool]) -> Product:
    number, rest = coefficient(node)
    found: list[Factor] = []
    stack: list[Factor] = [(rest, 1)] if rest is not None else []
    while stack:
        item, exponent = stack.pop()
        if keep(item):
            found.append((item, exponent))
        elif item.op == "mul":
            stack.extend((arg, exponent) for arg in reversed(item.args))
        elif item.op == "pow" and item.args[1].number is not None and item.args[1].number.is_Integer:
            stack.append((item.args[0], exponent * int(item.args[1].number)))
        elif item.number is not None:
            number *= item.number**exponent
        else:
            found.append((item, exponent))
    return number, found


def _product_matches(pattern: Node, view: _View) -> Iterator[tuple[Binding, Finish]]:
    number, found = view.factors
    wanted = _wanted_factors(pattern)
    for binding, used in _match_factors(wanted, found, {}, ()):
        often = min(found[i][1] // exponent for i, (_, exponent) in zip(used, wanted, strict=True))
        left = list(found)
        for i, (_, exponent) in zip(used, wanted, strict=True):
            left[i] = (left[i][0], left[i][1] - often * exponent)
        yield binding, lambda new, often=often, left=left: _product(number, [(new, often), *left])  # type: ignore[misc]


@cache
def _wanted_factors(pattern: Node) -> list[Factor]:
    """The factors of a pattern, which has no number."""
    scale, found = factors(pattern)
    assert scale == 1
    return found


def _rest_of_product_matches(pattern: Node, view: _View) -> Iterator[tuple[Binding, Finish]]:
    """Matches of something times a wild name, which takes all the other factors; not where there are none."""
    number, found = view.factors
    (wild, _), wanted = sorted(_wanted_factors(pattern), key=lambda factor: not _is_wild((sympy.S.One, factor[0])))
    for bound, (i,) in _match_factors([wanted], found, {}, ()):
        rest = [*found[:i], (found[i][0], found[i][1] - wanted[1]), *found[i + 1 :]]
        other = _product(number, rest)
        for binding in _bind(str(wild.value), other, bound) if other.number is None else ():
            yield binding, lambda new: new


def _match_factors(
    wanted: list[Factor], found: list[Factor], binding: Binding, used: tuple[int, ...]
) -> Iterator[tuple[Binding, tuple[int, ...]]]:
    """Ways to find each wanted factor, with a power of the same sign and at least as large, among those found."""
    if not wanted:
        yield binding, used
        return
    item, exponent = wanted[0]
    for i, (candidate, power) in enumerate(found):
        if i in used or power // exponent < 1:
            continue
        for bound in _match(item, candidate, binding):
            yield from _match_factors(wanted[1:], found, bound, (*used, i))


def _product(number: Expr, found: Sequence[tuple[Node, Expr | int]]) -> Node:
    graph = found[0][0].graph
    nodes = [item**exponent for item, exponent in found if exponent]
    return number * reduce(graph.mul, nodes) if nodes else graph.const(number)


# One node against one pattern


def _match(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    """Bindings under which the pattern is exactly this node."""
    if pattern.op == "input":
        yield from _bind(str(pattern.value), node, binding)
    elif pattern.number is not None:
        if node.number == pattern.number:
            yield binding
    elif pattern.op == "add":
        yield from _match_sum(pattern, node, binding)
    elif pattern.op == "mul" and pattern.args[0].number is not None:
        yield from _match(pattern.args[1], node * (1 / pattern.args[0].number), binding)
    elif pattern.op == "pow" and pattern.args[1].op == "input":
        if node.op == "pow":
            for bound in _bind(str(pattern.args[1].value), node.args[1], binding):
                yield from _match(pattern.args[0], node.args[0], bound)
    elif pattern.op == "pow":
        if node.op == "pow" and node.args[1].number == pattern.args[1].number:
            yield from _match(pattern.args[0], node.args[0], binding)
    elif _absorbs(pattern):
        yield from _match_product(pattern, node, binding)
    elif pattern.op == node.op:
        yield from _match_operands(pattern.args, node, binding)


def _bind(name: str, node: Node, binding: Binding) -> Iterator[Binding]:
    if name in binding:
        if binding[name] is node:
            yield binding
    elif name not in _NUMBERS or node.number is not None:
        yield binding | {name: node}


def _match_operands(patterns: tuple[Node, ...], node: Node, binding: Binding) -> Iterator[Binding]:
    orders = [node.args, node.args[::-1]] if node.op in COMMUTATIVE else [node.args]
    for args in orders:
        bindings = [binding]
        for pattern, arg in zip(patterns, args, strict=True):
            bindings = [new for bound in bindings for new in _match(pattern, arg, bound)]
        yield from bindings


def _match_product(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    """A wild name times something: some factors of the node are the something, the name takes the others."""
    wild, something = pattern.args
    number, found = factors(node)
    if len(found) > _LONGEST:
        return
    wanted = factors(something)[1]
    for bound, used in _match_factors(wanted, found, binding, ()):
        taken = dict(zip(used, wanted, strict=True))
        rest = [(base, power - (taken[i][1] if i in taken else 0)) for i, (base, power) in enumerate(found)]
        yield from _bind(str(wild.value), _product(number, rest), bound)


def _match_sum(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    """A sum inside a pattern: each of its two terms is matched by some terms of the node, all of them used."""
    wanted = pattern.args
    for one, rest in _splits(node) if node.op == "add" else ():
        for bound in _match_scaled(wanted[0], one, binding):
            yield from _match_scaled(wanted[1], rest, bound)


@lru_cache(maxsize=256)  # the patterns ask for the same sums one after the other
def _splits(node: Node) -> tuple[tuple[Node, Node], ...]:
    """Each term of a sum, and the sum of the others; of a long sum none."""
    found = terms(node, most=_LONGEST)
    if len(found) > _LONGEST:
        return ()
    return tuple(
        (_sum(node.graph, [term]), _sum(node.graph, found[:i] + found[i + 1 :])) for i, term in enumerate(found)
    )


def _match_scaled(pattern: Node, node: Node, binding: Binding) -> Iterator[Binding]:
    """Like `_match`; a wild number times a pattern takes the node's numeric factor."""
    if pattern.op == "mul" and pattern.args[0].op == "input" and pattern.args[0].value in _NUMBERS:
        number, rest = coefficient(node)
        if rest is not None:
            for bound in _bind(str(pattern.args[0].value), node.graph.const(number), binding):
                yield from _match(pattern.args[1], rest, bound)
    else:
        yield from _match(pattern, node, binding)


def _instantiate(replacement: Node, binding: Binding, graph: Graph) -> Node:
    """The replacement with what was bound in place of the wild names."""

    def change(node: Node) -> Node:
        if node.op == "input":
            return binding[str(node.value)]
        if node.op == "const":
            return graph.node(node.number)
        return graph.apply(node.op, *(new[arg] for arg in node.args))

    new: dict[Node, Node] = {}
    for node in topological([replacement]):
        new[node] = change(node)
    return new[replacement]
