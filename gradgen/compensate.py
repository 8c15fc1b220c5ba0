"""Compensated arithmetic, for results that rounding alone puts above the bar.

Of every operation below a node that is marked `compensated` the rounding error is computed as well, by the error-free
transformations of Dekker (1971) and Knuth, and carried along to first order; at the end it is added to the value
(Ogita, Rump & Oishi, Accurate Sum and Dot Product, 2005, extended from sums and products to all that has a derivative).
What is left is the error of the functions themselves; below one that is marked `extended` it is computed, too, of those
that `function_errors` has.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import reduce

import sympy
from sympy import Expr

from gradgen import normal
from gradgen.divisors import REPEATED_DIVISIONS
from gradgen.graph import (
    CONDITIONS,
    HALF,
    WRITTEN_OUT,
    Node,
    inputs_of,
    is_division,
    is_inverse,
    rebuilt,
    substitute,
    topological,
)
from gradgen.primitives import FUNCTION_ERRORS, MARKS, PRIMITIVES, PRODUCTS


def marked(node: Node, mark: str = "compensated") -> Node:
    """The node, to be computed in compensated arithmetic, or with corrected arguments of functions."""
    return node.graph.apply(mark, node)


def compensated(roots: Sequence[Node]) -> list[Node]:
    """The roots with what is marked written out; for printing, like the results of `limits`."""
    return Compensation(roots).roots


def has_marks(roots: Iterable[Node]) -> bool:
    """Whether something below the roots is to be computed in compensated arithmetic."""
    return any(node.op in MARKS for node in topological(roots))


def unmarked(roots: Sequence[Node]) -> list[Node]:
    """The roots as they are without compensation."""
    new: dict[Node, Node] = {}
    for node in topological(roots):
        new[node] = new[node.args[0]] if node.op in MARKS else rebuilt(node, new)
    return [new[root] for root in roots]


class Compensation:
    """Some nodes with what is marked written out.

    Args:
        roots: nodes, some of which may contain marked ones.

    Attributes:
        roots: what the nodes became; themselves where nothing is marked.
        errors: for each node of a compensated computation what it lacks of its exact value, to first order.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        new: dict[Node, Node] = {}
        self.errors: dict[Node, Node] = {}
        order = topological(roots)
        uses = Counter(arg for node in order for arg in node.args)
        shared = {node for node in order if uses[node] > 1}
        by_mark = {"compensated": _Errors(shared), "extended": _Errors(shared, functions=True)}
        for node in order:
            new[node] = rebuilt(node, new)
            if node.op in MARKS:
                value = _divided(new[node].args[0], shared)
                errors = by_mark[node.op] if node.op in by_mark else _Errors(shared, _arguments(value))
                error = errors(value)
                new[node] = value if error is None else value.graph.apply("corrected", value, error)
                self.errors |= errors.found
        self.roots = [new[root] for root in roots]


def _divided(root: Node, shared: Container[Node]) -> Node:
    """The root with a * b**-1 * b**-1 in place of a * b**-2, of which nothing is left where b**-2 vanishes alone.

    That is where something else reads that power, too; else such a product is computed as a / b / b.
    """
    new: dict[Node, Node] = {}
    for node in topological([root]):
        found = rebuilt(node, new)
        pairs = (found.args, found.args[::-1]) if found.op == "mul" else ()
        for top, reciprocal in pairs:
            if _is_repeated_division(reciprocal) and reciprocal in shared and top.number is None:
                *_, found = _quotients(top, reciprocal)
                break
        new[node] = found
    return new[root]


def _quotients(a: Node, reciprocal: Node) -> list[Node]:
    """a * b**-1, a * b**-1 * b**-1, and so on, as far as the power of b goes."""
    b, exponent = reciprocal.args
    steps = itertools.repeat(b.graph.inverse(b), -int(exponent.number or 0))
    return [*itertools.accumulate(steps, operator.mul, initial=a)][1:]


def _is_repeated_division(node: Node) -> bool:
    return node.op == "pow" and node.args[1].number in REPEATED_DIVISIONS


def _arguments(root: Node) -> frozenset[Node]:
    """The arithmetic in the arguments of functions."""
    order = topological([root])
    calls = [node for node in order if node.args and not _is_arithmetic(node)]
    return frozenset(topological([arg for call in calls for arg in call.args]))


class _Errors:
    """What nodes lack of their exact values, to first order; None where that is nothing.

    Args:
        shared: the nodes that several others read.
        own: the nodes whose own rounding errors count, by default all; of others what they inherit.
        functions: whether the errors of functions count.
    """

    def __init__(self, shared: Container[Node], own: Container[Node] | None = None, functions: bool = False) -> None:
        self._known: dict[Node, Node | None] = {}
        self._shared, self._own, self._functions = shared, own, functions
        self._cancelling: set[Node] = set()  # those of `_cancels`, with what is made of them

    @property
    def found(self) -> dict[Node, Node]:
        """The errors of nodes that are computed."""
        return {node: error for node, error in self._known.items() if error is not None and node.args}

    def __call__(self, root: Node) -> Node | None:
        for node in topological([root], stop=self._known.keys()):
            if node not in self._known and node.op not in CONDITIONS:
                self._known[node] = self._error(node)
                if self._cancels(node) or (node.op not in _STEEP and not self._cancelling.isdisjoint(node.args)):
                    self._cancelling.add(node)
        return self._known[root]

    def _cancels(self, node: Node) -> bool:
        """Whether nothing but its error may be left of a node: a sum of what has errors, of several inputs."""
        inherits = node.op == "add" and any(self._known[arg] is not None for arg in node.args)
        return inherits and len({*inputs_of([node])} - node.graph.hyper) > 1

    def _counts(self, node: Node, error: Node | None) -> Node | None:
        """The rounding error of a node itself, if it counts."""
        return error if self._own is None or node in self._own else None

    def _error(self, node: Node) -> Node | None:
        if node.number is not None:
            return None if _is_exact(node.number) else self._counts(node, node.graph.apply("rest", node))
        if not node.args:
            return None
        if node.op == "pow" and node.args[1].number in WRITTEN_OUT:
            return self._of_power(node)
        if node.op == "unit":
            return self._of_quotient(node.args[0], node.args[1], node)
        by_kind = {"where": self._of_branches, "add": self._of_sum}
        by_kind |= dict.fromkeys(("mul", "damp", "xmul"), self._of_product)
        return by_kind.get(node.op, self._of_function)(node)

    def _of_branches(self, node: Node) -> Node | None:
        condition, *branches = node.args
        errors = [self._known[branch] for branch in branches]
        if errors == [None, None]:
            return None
        return node.graph.where(condition, *(error or node.graph.const(0) for error in errors))

    def _of_sum(self, node: Node) -> Node | None:
        a, b = node.args
        own = self._counts(node, node.graph.apply("sum_error", a, b, node))
        return _total(own, self._known[a], self._known[b])

    def _of_product(self, node: Node) -> Node | None:
        a, b = node.args
        for top, reciprocal in ((a, b), (b, a)):
            if is_inverse(reciprocal):
                return self._of_quotient(top, reciprocal.args[0], node)
        for top, reciprocal in ((a, b), (b, a)):
            if _is_repeated_division(reciprocal) and reciprocal not in self._shared:
                return self._of_quotients(top, reciprocal, node)
        if a.number is not None and is_division(a.number):
            divisor = node.graph.const(1 / a.number)
            self(divisor)
            return self._of_quotient(b, divisor, node)
        own = None if _is_power_of_two(a) else node.graph.apply("product_error", a, b, node)
        return _total(self._counts(node, own), _times(b, self._known[a]), _times(a, self._known[b]))

    def _of_quotients(self, a: Node, reciprocal: Node, product: Node) -> Node | None:
        """Of what is computed as a / b / b in place of a * b**-2."""
        b, _ = reciprocal.args
        for quotient in _quotients(a, reciprocal)[:-1]:
            self._known.setdefault(quotient, self._of_quotient(a, b, quotient))
            a = quotient
        return self._of_quotient(a, b, product)

    def _of_quotient(self, a: Node, b: Node, quotient: Node) -> Node | None:
        """Of what is computed in place of a / b."""
        inherited = _total(self._known[a], _times(-quotient, self._known[b]))
        if self._counts(quotient, quotient) is None:
            return None if inherited is None else inherited * b.graph.inverse(b)
        # No reciprocal is read: beside one a / b would be computed as a product with it.
        return _quotient_error(a, b, quotient, inherited)

    def _of_power(self, node: Node) -> Node | None:
        base, exponent = node.args
        power = exponent.number
        assert power is not None
        inherited, square = self._known[base], base**2
        if power == 4 and inherited is not None and square.op == "pow" and square.args[0] is base:
            return self._of_square(square, node, self._of_square(base, square, inherited, node), node)
        if power == 2 and inherited is not None:
            return self._of_square(base, node, inherited, node)
        own = self._counts(node, _of_written_out(base, power))
        slope = power * base ** (power - 1) if power > 1 else power * node / base  # which is 0/0 at 0
        return _total(own, _times(slope, inherited))

    def _of_square(self, base: Node, square: Node, inherited: Node, of: Node) -> Node:
        """Of a square, as part of another node: with that of its root's error it is not negative."""
        own = self._counts(of, base.graph.apply("product_error", base, base, square))
        step = inherited * (2 * base + inherited)
        return step if own is None else own + step

    def _of_function(self, node: Node) -> Node | None:
        total = None
        if self._functions and node.op in FUNCTION_ERRORS:
            total = node.graph.apply(FUNCTION_ERRORS[node.op], *node.args, node)
        for arg, slope in zip(node.args, _slopes(node), strict=True):
            error = self._known[arg]
            if error is not None and (node.op in _PERIODIC or (node.op in _STEEP and arg in self._cancelling)):
                is_small = node.graph.apply("lt", node.graph.apply("abs", error), 1)
                error = node.graph.where(is_small, error, node.graph.const(0))
            if error is not None and node.op in PRODUCTS and arg is node.args[0]:
                total = _total(total, node.graph.apply("damp", error, slope))  # of a factor that is 0 the slope is 0/0
            elif not slope.is_number(0):
                total = _total(total, _times(slope, error))
        return total


def _of_written_out(base: Node, power: Expr) -> Node | None:
    """The rounding errors of a power of a number, as the printers write it out; None for the power of a root."""
    graph = base.graph
    value: Node = base**power
    own: Node
    if power == HALF:
        own = graph.apply("product_error", value, value, base) / (-2 * value)
        return own
    if power == 2:
        return graph.apply("product_error", base, base, value)
    if power > 0:
        square = base**2
        if square.op != "pow" or square.args[0] is not base:
            return None
        factor, often = (base, 1) if power == 3 else (square, 2)
        inner = _times(often * factor, _of_written_out(base, sympy.Integer(2)))
        return _total(graph.apply("product_error", square, factor, value), inner)
    divisor = base if power != -HALF else base**HALF
    before = base ** (power + 1) if power < -1 else graph.const(1)
    own = _quotient_error(before, divisor, value)
    if power == -HALF:
        return _total(own, _times(-value / divisor, _of_written_out(base, HALF)))
    return own if power == -1 else _total(own, _times(1 / divisor, _of_written_out(base, power + 1)))


def _quotient_error(a: Node, b: Node, quotient: Node, more: Node | None = None) -> Node:
    return quotient.graph.apply("quotient_error", a, b, quotient, more or quotient.graph.const(0))


# Functions of which the first order tells nothing where the argument is off by more than 1: all arguments of these,
_PERIODIC = frozenset({"sin", "cos", "tan", "sin_pi", "cos_pi"})
# and moderate ones of those, beyond which they are constant, 0 or infinite
_STEEP = frozenset({"exp", "expm1", "exp2", "sinh", "cosh", "tanh", "sech", "csch", "erf", "erfc", "erfcx"})
_STEEP |= {"sigmoid", "logistic_density", "dgate", "softplus", *PRODUCTS}
_LOGISTIC = frozenset({"logistic_density", "dswish", "dgate"})  # with tanh(t/2) in their derivatives
_ARITHMETIC = frozenset({"add", "mul", "damp", "xmul", "unit", "where", *CONDITIONS})


def _is_arithmetic(node: Node) -> bool:
    """Whether a node is no function that makes more of an error in its argument."""
    return node.op in _ARITHMETIC or (node.op == "pow" and node.args[1].number in WRITTEN_OUT)


def _slopes(node: Node) -> list[Node]:
    """The derivative of a function by each operand."""
    graph = node.graph
    if node.op not in PRODUCTS:
        return _derivatives(node.op, node, *node.args)
    factor, t = node.args
    value = graph.input("value of a vanishing function")
    (slope,) = _derivatives(PRODUCTS[node.op], value, t)
    by_t = substitute([slope], {value: node})[0]  # that of exp, sech, ... is a multiple of the function
    return [node / factor, by_t if by_t is not slope else factor * slope]


def _derivatives(op: str, value: Node, *args: Node) -> list[Node]:
    """Those of the table, with the exponential that the function has been computed by."""
    graph, derivative = value.graph, PRIMITIVES[op].derivative
    if derivative is None:
        return [graph.const(0)] * len(args)
    found = [graph.node(slope) for slope in derivative(value, *args)]
    t = args[0]
    if op in normal.FUNCTIONS:
        return substitute(found, {graph.apply("exp", -(t**2) / 2): graph.apply("gaussian", t)})
    if op in _LOGISTIC:
        return substitute(found, {graph.apply("tanh", t / 2): 2 * graph.apply("sigmoid", t) - 1})
    return found


def _total(*errors: Node | None) -> Node | None:
    found = [error for error in errors if error is not None]
    return reduce(lambda a, b: a + b, found) if found else None


def _times(factor: Node, error: Node | None) -> Node | None:
    return None if error is None else factor * error


def _is_exact(number: Expr) -> bool:
    """Whether a number is one of every type."""
    return not number.is_finite or (number.is_Rational and _is_dyadic(number.q) and abs(number.p) < 2**24)


def _is_power_of_two(node: Node) -> bool:
    number = node.number
    return number is not None and number.is_Rational and _is_dyadic(number.q) and _is_dyadic(abs(number.p))


def _is_dyadic(whole: int) -> bool:
    return not whole & (whole - 1)
