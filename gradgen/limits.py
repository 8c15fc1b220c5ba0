"""The last passes over a graph: products that are 0 times infinity, NaN through a selection, and divisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import sympy
from sympy import Expr

from gradgen.divisors import one_division
from gradgen.graph import Graph, Node, coefficient, known_sign, rebuilt, topological
from gradgen.primitives import MARKS, PRIMITIVES, PRODUCTS
from gradgen.rewrite import Factor, factors


def limits(roots: Sequence[Node], weights: Collection[str] = ()) -> list[Node]:
    """The roots with vanishing products and NaN made right; the results are for printing, no rule fits them.

    What is multiplied by the inputs named as `weights` is complete before it is.
    """
    facts = _facts_of(roots[0].graph, frozenset(weights)) if roots else _Facts(weights)
    return one_division(_propagate_nan(_damp_products(_powers_of_two(roots), facts), facts))


def _powers_of_two(roots: Sequence[Node]) -> list[Node]:
    """The roots with exp(log(2)*x) as exp2(x), which is a whole number where x is."""
    new: dict[Node, Node] = {}
    for node in topological(roots):
        new[node] = rebuilt(node, new)
        if node.op == "exp":
            number, rest = coefficient(new[node].args[0])
            times = sympy.expand_log(number) / sympy.log(2)
            if rest is not None and times.is_Rational:
                new[node] = node.graph.apply("exp2", times * rest)
    return [new[root] for root in roots]


@dataclass(frozen=True)
class _Fact:
    """What is known of a node for large inputs.

    Attributes:
        tensors: the tensor inputs it depends on.
        nan: those of them whose NaN shows in it, if its selections look for it.
        vanishes: it tends to 0 exponentially on some side, or is 0 there.
        rapid: it does so as the exponential of an exponential.
        explodes: it grows exponentially on some side.
        grows: it grows as a power, and is finite for finite inputs.
        powerlike: it grows at most as a power.
        pole: it grows as a power near 0.
        creeps: it grows as a logarithm for large inputs and near 0.
        swells: it grows as a power above the first of a logarithm, so that its exponential outgrows every power.
        decays: it is the reciprocal of what grows as a power.
        finite: it has no pole at a finite input but 0, where what vanishes for large inputs does not.
        calm: neither it nor what it is made of vanishes or explodes.
    """

    tensors: frozenset[str] = frozenset()
    nan: frozenset[str] = frozenset()
    vanishes: bool = False
    rapid: bool = False
    explodes: bool = False
    grows: bool = False
    pole: bool = False
    creeps: bool = False
    swells: bool = False
    decays: bool = False
    powerlike: bool = True
    finite: bool = True
    calm: bool = True


class _Facts:
    """The facts about nodes, each found once."""

    def __init__(self, weights: Collection[str]) -> None:
        self._weights = weights
        self._known: dict[Node, _Fact] = {}

    def __call__(self, node: Node) -> _Fact:
        if node in self._known:
            return self._known[node]
        for below in topological([node], stop=self._known.keys()):
            if below not in self._known:
                is_weight = below.op == "input" and below.value in self._weights
                self._known[below] = _Fact() if is_weight else _fact(below, [self._known[arg] for arg in below.args])
        return self._known[node]


@lru_cache(maxsize=4)
def _facts_of(graph: Graph, weights: frozenset[str]) -> _Facts:
    """The facts about the nodes of a graph, whose forms share most of theirs."""
    return _Facts(weights)


def _fact(node: Node, args: list[_Fact]) -> _Fact:
    if node.op == "input":
        name = frozenset({str(node.value)} - node.graph.hyper)
        return _Fact(tensors=name, nan=name, grows=bool(name))
    if node.op in MARKS:
        return args[0]
    growth = PRIMITIVES[node.op].growth if node.op in PRIMITIVES else frozenset()
    if node.op in ("exp", "expm1") and known_sign(node.args[0]) < 0:
        growth = growth - {"explodes"} | {"bounded"}
    explodes = _explodes(node, args, growth)
    is_reciprocal = node.op == "pow" and not (node.args[1].number is not None and node.args[1].number.is_positive)
    may_be_zero = is_reciprocal and not _is_positive(node.args[0]) and not _is_zero_at_zero_alone(node.args[0])
    has_pole = node.op in _WITH_POLES or may_be_zero
    finite = not has_pole and all(arg.finite for arg in args)
    powerlike = "bounded" in growth or (
        "explodes" not in growth and not explodes and all(arg.powerlike for arg in args)
    )
    vanishes, rapid = _vanishes(node, args, growth), _rapid(node, args, growth)
    return _Fact(
        tensors=frozenset().union(*(arg.tensors for arg in args)),
        nan=_nan(node, args),
        vanishes=vanishes,
        rapid=rapid,
        explodes=explodes,
        grows=powerlike and finite and _grows(node, args),
        pole=powerlike and finite and _has_pole_at_zero(node, args),
        creeps=_creeps(node, args),
        swells=_swells(node, args),
        decays=powerlike and _decays(node, args),
        finite=finite,
        powerlike=powerlike and (node.op != "pow" or not args[1].tensors),
        calm=not (vanishes or rapid or explodes) and all(arg.calm for arg in args),
    )


_WITH_POLES = frozenset(
    {"log", "log1p", "log2", "log10", "tan", "atanh", "csch", "acsch", "asech", "gamma", "loggamma", "digamma"}
    | {"polygamma", "bessel_y", "erfinv"}
)


def _is_positive(node: Node) -> bool:
    """Whether a node is surely above 0: 1 + exp(x)."""
    if node.number is not None:
        return bool(node.number.is_positive)
    return node.op == "add" and known_sign(node) > 0 and any(map(_is_positive, node.args))


def _is_zero_at_zero_alone(node: Node) -> bool:
    """Whether a node is 0 where an input is, and nowhere else: x, sqrt(x), expm1(-abs(k*x))."""
    while node.args:
        _, found = factors(node)
        # A scale is taken not to be 0.
        varying = [factor for factor in found if not node.graph.is_hyper(factor[0])] or found
        if len(varying) != 1 or varying[0][1] < 1:
            return False
        node = varying[0][0]
        if not node.args:
            break
        is_power = node.op == "pow" and node.args[1].number is not None and bool(node.args[1].number.is_positive)
        if not (is_power or node.op in _INCREASING):
            return False
        node = node.args[0]
    return node.op == "input"


_INCREASING = frozenset({"expm1", "sinh", "tanh", "asinh", "atan", "erf", "abs", "modulus"})


def _vanishes(node: Node, args: list[_Fact], growth: frozenset[str]) -> bool:
    if node.op == "mul":
        return any(arg.vanishes for arg in args) and all(arg.vanishes or arg.powerlike for arg in args)
    if node.op == "add":
        return all(arg.vanishes for arg in args)
    if node.op == "where":  # 1 or exp(-|u|), a sigmoid's numerator, which vanishes on one side as the sigmoid does
        (p, q), (of_p, of_q) = node.args[1:], args[1:]
        return (p.is_number(1) and of_q.vanishes) or (q.is_number(1) and of_p.vanishes)
    if node.op in ("maximum", "minimum"):  # max(x, 0) is 0 on one side, and so is min(max(x, 0), 6)
        numbers = [arg.number for arg in node.args if arg.number is not None]
        return bool(numbers) and any(arg.vanishes or (arg.grows and numbers[0].is_zero) for arg in args)
    if node.op == "pow":
        exponent = node.args[1].number
        return exponent is not None and (args[0].vanishes if exponent.is_positive else args[0].explodes)
    if node.op == "damp":  # by a tensor that vanishes, or by a hyper-parameter that may be 0
        return bool(args[0].tensors) or args[1].vanishes
    if node.op in PRODUCTS:
        return True
    grows = bool(args) and (args[0].grows or args[0].pole or args[0].explodes or args[0].swells)
    return ("vanishes" in growth and grows) or ("keeps zero" in growth and args[0].vanishes)


def _rapid(node: Node, args: list[_Fact], growth: frozenset[str]) -> bool:
    if node.op in ("mul", "pow"):
        return any(arg.rapid for arg in args)
    return "vanishes" in growth and args[0].explodes


def _explodes(node: Node, args: list[_Fact], growth: frozenset[str]) -> bool:
    if node.op in ("add", "mul", "where", "maximum", "minimum", "damp", "xmul"):
        return any(arg.explodes for arg in args)
    if node.op == "pow":
        exponent = node.args[1].number
        return exponent is not None and (args[0].explodes if exponent.is_positive else args[0].vanishes)
    return "explodes" in growth and (args[0].grows or args[0].swells)


def _creeps(node: Node, args: list[_Fact]) -> bool:
    if node.op in ("log", "log2", "log10", "asinh"):
        return args[0].grows
    return (
        node.op in ("add", "mul")
        and any(arg.creeps for arg in args)
        and all(arg.creeps or not arg.tensors for arg in args)
    )


def _swells(node: Node, args: list[_Fact]) -> bool:
    if node.op == "pow":
        exponent = node.args[1].number
        return args[0].creeps and exponent is not None and exponent > 1
    if node.op == "mul":
        return all(arg.creeps for arg in args) or (
            any(arg.swells for arg in args) and not any(arg.grows for arg in args)
        )
    return node.op == "add" and any(arg.swells for arg in args)


def _grows(node: Node, args: list[_Fact]) -> bool:
    if node.op == "pow":
        exponent = node.args[1].number  # of a hyper-parameter's sign nothing is known
        return args[0].grows and (not args[1].tensors if exponent is None else bool(exponent.is_positive))
    if node.op == "damp":
        return not args[0].tensors and args[1].grows
    growing = ("add", "mul", "where", "hypot", "maximum", "minimum", "abs", "modulus", "softplus")
    return node.op in growing and any(arg.grows for arg in args)


def _decays(node: Node, args: list[_Fact]) -> bool:
    exponent = node.args[1].number if node.op == "pow" else None
    return exponent is not None and bool(exponent.is_negative) and args[0].grows


def _has_pole_at_zero(node: Node, args: list[_Fact]) -> bool:
    if node.op == "pow":
        exponent = node.args[1].number
        return exponent is not None and bool(exponent.is_negative) and _is_zero_at_zero_alone(node.args[0])
    return node.op in ("add", "mul", "where", "abs", "modulus") and any(arg.pole for arg in args)


def _nan(node: Node, args: list[_Fact]) -> frozenset[str]:
    if node.op == "where":  # as `_guarded` may leave it
        condition, p, q = args
        return condition.tensors | (p.nan if node.args[2].is_number(sympy.nan) else p.nan & q.nan)
    by_node = dict(zip(node.args, args, strict=True))
    return frozenset().union(*(by_node[arg].nan for arg in _showing(node)))


# A factor that vanishes exponentially wins against one that grows as a power, at infinity and where either overflows.


_INFINITE = 2000  # for each power in a product that is 0, exp(t) beyond this is infinite even times the product
LARGE = 4  # a factor up to this leaves what it is multiplied by, if that is subnormal, within as many units
_LONGEST = 16  # factors of a product that are looked at together, through shared products as well


def _damp_products(roots: Sequence[Node], facts: _Facts) -> list[Node]:
    new: dict[Node, Node] = {}
    order = topological(roots)
    added = _added_to_more(order, roots, facts)
    shared = {product for product, uses in Counter(arg for node in order for arg in node.args).items() if uses > 1}
    for node in order:
        bound = None
        if node.op == "mul" and not facts(node).calm:
            number, found = factors(node, keep=lambda item: _is_power_of_one(item, shared))
            found = [(new[base], exponent) for base, exponent in found]
            if len(found) <= _LONGEST:
                bound = _damped(number, found, facts, node in added) or _zeroed(number, found, facts)
        new[node] = bound or rebuilt(node, new)
    return [new[root] for root in roots]


def _is_power_of_one(node: Node, shared: Collection[Node]) -> bool:
    """Whether a node is the power of a product that is computed anyway: its factors may overflow alone."""
    return node.op == "pow" and node.args[0].op == "mul" and node.args[0] in shared and _is_positive(node.args[1])


def _added_to_more(order: Sequence[Node], roots: Sequence[Node], facts: _Facts) -> set[Node]:
    """Products that are only read in sums with something that does not vanish, so that their last digits are lost."""
    alone = set(roots)
    for node in order:
        if node.op != "add":
            alone.update(node.args)
        else:
            alone.update(arg for arg, other in (node.args, node.args[::-1]) if facts(other).vanishes)
    return {node for node in order if node.op == "mul" and node not in alone}


def _damped(number: Expr, found: list[Factor], facts: _Facts, added: bool) -> Node | None:
    """A product with its growing factors bound to the vanishing ones; None if it has not both.

    What vanishes is multiplied by what grows with other inputs first, and by what is large: it may be a subnormal
    number, with hardly any digit, where the product is none. Where it is but `added` to more, the digits of what
    vanishes do not matter.
    """
    known = {factor: facts(factor[0] ** factor[1]) for factor in found}
    if not any(fact.vanishes or fact.rapid for fact in known.values()):
        return None
    beside = {factor: _vanishing_beside(factor, known) for factor in found}
    # Each factor has one part alone, though a softplus may grow beside the one and vanish beside another.
    growing = [factor for factor in found if beside[factor]]
    left = [factor for factor in found if factor not in growing]
    vanishing = [v for v in left if any(v in others for others in beside.values())]
    lifted = [v for v in _lifted(found, facts) if v in left and (not added or known[v].explodes)]
    apart = [f for f in left if f not in vanishing and any(_is_lifted(v, f, facts) for v in lifted)]
    vanishing += [v for v in lifted if v not in vanishing and any(_is_lifted(v, f, facts) for f in apart)]
    graph = found[0][0].graph
    large = [] if added or apart else _large(left)
    is_large = bool(large) or (abs(number) > LARGE and not added and not apart)
    if is_large and not growing:
        vanishing = [f for f in left if known[f].vanishes and _has_products(f[0]) and f[1] == 1]
    if not growing and not apart and not (is_large and vanishing):
        return None
    rest = [factor for factor in left if factor not in [*vanishing, *apart, *large]]
    bound = _product(graph, growing)
    if any(known[factor].decays for factor in growing):
        bound = _sign_where_lost(
            growing, bound, [base for base, exponent in vanishing if known[base, exponent].explodes]
        )
    bound = bound * _product(graph, large)
    if added and not apart and not any(known[factor].explodes for factor in vanishing):
        return graph.const(number) * graph.mul(
            _product(graph, rest), graph.apply("damp", _product(graph, vanishing), bound)
        )
    if apart:
        bound, last = _product(graph, apart), bound
    if abs(number) < 1 or is_large:  # before the product may overflow, or what vanishes has lost its digits
        number, bound = sympy.Integer(1), graph.const(number) * bound
    fact = facts(_product(graph, apart))
    is_other = bool(apart) and not any(fact.tensors & facts(base).tensors for base, _ in vanishing)
    kind = "lift" if is_other else "mul"
    for base, exponent in vanishing:
        is_product = _has_products(base) and exponent > 0
        for _ in range(exponent if is_product else 0):
            if base.op == "exp" and _has_vanished(base, bound):
                bound = graph.apply("damp", base, bound)
            elif is_other and exponent > 1:  # a power vanishes long before its base does
                bound = graph.apply("xmul", bound, base) if facts(base).explodes else bound * base
            else:
                bound = graph.apply(f"{kind}_{base.op}", bound, base.args[0])
        if not is_product and facts(base**exponent).vanishes:
            bound = _leading_where_lost(base**exponent, graph.apply("damp", base**exponent, bound), bound)
        elif not is_product:
            rest.append((base, exponent))
    if apart and growing:
        bound = graph.apply("damp", bound, last)
    return graph.const(number) * graph.mul(_product(graph, rest), bound)


def _has_vanished(exponential: Node, product: Node) -> bool:
    """Whether a product with an exponential that is at most 1 is as good as 0 where that has lost digits.

    It has the same exponential already, and what that is multiplied by is no larger than the largest number; should it
    be infinite, the exponential is `damp`ed.
    """
    argument = exponential.args[0]
    has_it = product.op == "mul_exp" and product.args[1] is argument
    return known_sign(argument) < 0 and (has_it or (product.op == "damp" and product.args[0] is exponential))


_LINEAR = 2.0**-60  # below this a function that is 0 at 0 is its first term, to all digits
_SLOPES = dict.fromkeys(("tanh", "log1p", "expm1", "sin", "sinh", "asin", "asinh", "atan", "atanh"), sympy.Integer(1))
_SLOPES["erf"] = 2 / sympy.sqrt(sympy.pi)


def _leading_where_lost(vanishing: Node, product: Node, factor: Node) -> Node:
    """A product with tanh(exp(x)), where exp(x) is tiny as one with that, whose digits the factor brings back."""
    number, leading = _leading(vanishing)
    if leading is None or leading is vanishing:
        return product
    graph, (*first, last) = vanishing.graph, leading.args
    op = {"softplus": "mul_exp"}.get(leading.op, leading.op if first else f"mul_{leading.op}")
    linear = graph.apply(op, reduce(graph.mul, first, graph.const(number) * factor), last)
    return graph.where(graph.apply("lt", graph.apply("abs", leading), sympy.Float(_LINEAR)), linear, product)


def _leading(node: Node) -> tuple[Expr, Node | None]:
    """What a node is a number times, where that is tiny: a function that is had in products, or a product with one."""
    number, rest = coefficient(node)
    while rest is not None and rest.op in _SLOPES:
        number *= _SLOPES[rest.op]
        more, rest = coefficient(rest.args[0])
        number *= more
    is_known = rest is not None and (rest.op == "softplus" or rest.op in PRODUCTS or _has_products(rest))
    return number, rest if is_known else None


def _large(found: list[Factor]) -> list[Factor]:
    """The hyper-parameters that are large by default."""
    return [(base, e) for base, e in found if e > 0 and base.op == "input" and base.value in base.graph.large]


def _zeroed(number: Expr, found: list[Factor], facts: _Facts) -> Node | None:
    """A product in which what may be 0 wins against what other inputs make infinite; None if it has not both."""
    exploding = [factor for factor in found if facts(factor[0] ** factor[1]).explodes]
    tensors = frozenset[str]().union(*(facts(base).tensors for base, _ in exploding))
    zeros = [f for f in found if f not in exploding and _may_be_zero(*f) and not facts(f[0]).tensors <= tensors]
    if not exploding or not zeros:
        return None
    graph = found[0][0].graph
    bound = graph.apply("xmul", _product(graph, zeros), _product(graph, exploding))
    return graph.const(number) * graph.mul(_product(graph, [f for f in found if f not in exploding + zeros]), bound)


def _sign_where_lost(found: Sequence[Factor], product: Node, exponentials: Iterable[Node]) -> Node:
    """A product, or its sign where it is 0 and is bound to an exponential that is infinite for each factor of it.

    For 1/x/x may be 0 where exp(x)/x/x is infinite.
    """
    graph = product.graph
    signs = [
        graph.apply("sign", base) ** max(exponent, 1) for base, exponent in found if _may_have_sign(base, exponent)
    ]
    sign = reduce(graph.mul, signs, graph.const(1))
    least = _INFINITE * sum(abs(exponent) for _, exponent in found)
    for exponential in exponentials:
        is_infinite = graph.apply("gt", exponential.args[0], graph.const(least))
        is_lost = graph.apply("and", is_infinite, graph.apply("eq", product, 0))
        product = graph.where(is_lost, sign, product)
    return product


def _may_have_sign(base: Node, exponent: int) -> bool:
    """Whether a factor may be negative, or 0 without being rounded: not (1 + x**2)**-1, nor a root of that."""
    number = base.args[1].number if base.op == "pow" else None
    if exponent > 0:
        return number is None or not number.is_negative
    return exponent % 2 == 1 and known_sign(base) <= 0


def _has_products(base: Node) -> bool:
    return base.op in PRIMITIVES and PRIMITIVES[base.op].has_products


def _lifted(found: list[Factor], facts: _Facts) -> list[Factor]:
    """The factors that others may bring back into sight after they have vanished; none where another one explodes."""
    lifted = [v for v in found if any(_is_lifted(v, factor, facts) for factor in found)]
    exploding = [factor for factor in found if facts(factor[0] ** factor[1]).explodes]
    is_plain = not exploding or (len(lifted) == 1 and exploding == lifted)
    return lifted if is_plain else []


def _is_lifted(vanishing: Factor, factor: Factor, facts: _Facts) -> bool:
    """Whether one factor vanishes, by a function that is had in products too, and the other, of other inputs, grows.

    Or the one explodes and the other may be 0, which infinity times 0 is to be.
    """
    base, exponent = vanishing
    if exponent < 0 or not _has_products(base):
        return False
    one, other = facts(base**exponent), facts(factor[0] ** factor[1])
    is_lifted = one.vanishes and (other.grows or other.pole)
    return (is_lifted or (one.explodes and _may_be_zero(*factor))) and not other.tensors <= one.tensors


def _may_be_zero(base: Node, exponent: int) -> bool:
    """Whether a factor is 0 for some inputs, as a sine is."""
    if base.op == "pow" and base.args[1].number is not None:
        return exponent * float(base.args[1].number) > 0 and _may_be_zero(base.args[0], 1)
    return exponent > 0 and base.op not in _NEVER_ZERO and not _is_positive(base)


_NEVER_ZERO = frozenset(
    {
        "exp",
        "exp2",
        "cosh",
        "sech",
        "sigmoid",
        "logistic_density",
        "softplus",
        "logaddexp",
        "erfc",
        "ndtr",
        "erfcx",
        "gamma",
    }
)


def _vanishing_beside(factor: Factor, known: Mapping[Factor, _Fact]) -> list[Factor]:
    """The factors that vanish where this one grows; none if another one explodes, for then it may win."""
    fact = known[factor]
    if fact.explodes and not fact.rapid:  # only what vanishes as the exponential of an exponential wins against that
        return [other for other in known if known[other].rapid and fact.tensors <= known[other].tensors]
    related = [other for other in known if known[other].tensors & fact.tensors]
    if fact.vanishes and fact.grows:
        return [other for other in related if known[other].vanishes and _is_opposite(factor[0], other[0])]
    if not (fact.grows or fact.pole or fact.decays) or fact.vanishes:
        return []
    vanishing = [other for other in related if known[other].vanishes]
    if not (fact.grows or fact.pole):  # what decays is bound to what explodes on the other side
        vanishing = [other for other in vanishing if known[other].explodes and _has_products(other[0])]
    if not any(fact.tensors <= known[other].tensors for other in vanishing):
        return []
    if not all(known[other].powerlike for other in related if other not in vanishing):
        return []
    return vanishing if len(vanishing) == 1 or not any(known[other].explodes for other in vanishing) else []


def _is_opposite(base: Node, other: Node) -> bool:
    """Whether the one, a softplus, grows where the other vanishes."""
    return base.op == "softplus" and _has_products(other) and other.args[0] is -base.args[0]


def _product(graph: Graph, found: Iterable[Factor]) -> Node:
    return reduce(graph.mul, (base**exponent for base, exponent in found), graph.const(1))


# A comparison with NaN is false, and the branch it falls to may not see the NaN.


def _propagate_nan(roots: Sequence[Node], facts: _Facts) -> list[Node]:
    covered = _covered(roots, facts)
    new: dict[Node, Node] = {}
    for node in topological(roots):
        new[node] = rebuilt(node, new)
        if node.op == "where" and new[node].op == "where":
            new[node] = _guarded(new[node], _unseen(node, facts) - covered[node])
    return [new[root] for root in roots]


def _covered(roots: Sequence[Node], facts: _Facts) -> dict[Node, frozenset[str]]:
    """For each node the inputs whose NaN shows in other operands of whatever is made of it."""
    order = topological(roots)
    shown: dict[Node, frozenset[str]] = {}
    for node in order:
        shown[node] = _shown(node, shown, facts)
    covered = dict.fromkeys(roots, frozenset[str]())
    for node in reversed(order):
        for arg in node.args:
            by_others = covered[node].union(*_shown_beside(node, arg, shown, facts))
            covered[arg] = covered[arg] & by_others if arg in covered else by_others
    return covered


def _shown_beside(
    node: Node, arg: Node, shown: Mapping[Node, frozenset[str]], facts: _Facts
) -> Iterable[frozenset[str]]:
    """The inputs whose NaN shows in other operands of a node, or takes its other branch."""
    if node.op != "where":
        return [shown[other] for other in _showing(node) if other is not arg]
    condition, p, _ = node.args
    is_taken_without = node.args.count(arg) == 1 and arg is p and _is_false_of_nan(condition)
    return [facts(condition).tensors] if is_taken_without else []


def _shown(node: Node, shown: Mapping[Node, frozenset[str]], facts: _Facts) -> frozenset[str]:
    """The inputs whose NaN shows in a node as it is."""
    if node.op == "input":
        return facts(node).nan
    if node.op != "where":
        return frozenset().union(*(shown[arg] for arg in _showing(node)))
    condition, p, q = node.args
    of_condition = facts(condition).tensors
    if q.is_number(sympy.nan):
        return of_condition | shown[p]
    return (shown[q] & of_condition if _is_false_of_nan(condition) else frozenset()) | (shown[p] & shown[q])


def _showing(node: Node) -> Sequence[Node]:
    """The operands whose NaN shows in a node that is no selection."""
    return {"damp": node.args[:1], "unit": node.args[1:], "corrected": node.args[:1]}.get(node.op, node.args)


def _is_false_of_nan(condition: Node) -> bool:
    """Whether NaN in any tensor that a condition depends on makes it false."""
    if condition.op == "and":
        return all(map(_is_false_of_nan, condition.args))
    return condition.op in _COMPLEMENT or condition.op == "eq"


_COMPLEMENT = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt"}


def _unseen(node: Node, facts: _Facts) -> frozenset[str]:
    """The inputs of which a selection has to look for NaN itself."""
    condition, _, q = node.args
    return frozenset() if q.is_number(sympy.nan) else facts(condition).tensors - facts(q).nan


def _guarded(node: Node, unseen: Collection[str]) -> Node:
    """A selection that is NaN where one of these inputs, which it compares, is NaN."""
    if not unseen:
        return node
    graph = node.graph
    condition, p, q = node.args
    if condition.op in _COMPLEMENT:
        ordered = graph.apply(_COMPLEMENT[condition.op], *condition.args)
    else:
        inputs = sorted(map(graph.input, unseen), key=lambda input: input.serial)
        ordered = reduce(lambda a, b: graph.apply("and", a, b), (graph.apply("eq", v, v) for v in inputs))
    return graph.where(condition, p, graph.where(ordered, q, graph.const(sympy.nan)))
