"""Forms that equal a result in exact arithmetic, among which the most accurate is looked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import sympy

from gradgen import algebraic, angles, exponentials, hyperbolic, radicals, rational, relative, squares, variables
from gradgen.differentiate import gradient
from gradgen.graph import KINKS, Node, coefficient, inputs_of, substitute, topological
from gradgen.printers.base import Printer
from gradgen.rewrite import collected, factored, factors, multiplied_out, powers_of, rewrite, terms, tried, written_out
from gradgen.rules import GATE, NEARLY_EQUAL, QUOTIENT

_KINKS = KINKS | {"where"}


def by_rules(node: Node, why: str | None = None) -> Iterator[tuple[Node, str]]:
    """The forms that the rules that are only tried make of a node, each with its rule; maybe of one reason alone."""
    for form, rule in tried(node, why):
        by = f"by {rule.pattern} = {rule.replacement} ({rule.why})"
        form = collected(form)
        yield form, by
        for scaled, more in relative.forms(form):
            yield scaled, f"{by}, {more}"


class Candidates:
    """The forms of the results of an op.

    Args:
        tensors: the names of the tensor inputs they are functions of.
        origins: for some of the results which other one they are the derivative of, and by which input.
        written: for some of the results what they were before any rule.
    """

    def __init__(
        self, tensors: Sequence[str], origins: Mapping[Node, tuple[Node, Node]], written: Mapping[Node, Node]
    ) -> None:
        self._tensors = tensors
        self._origins = origins
        self._written = written
        self._taken: dict[Node, Node] = {}
        self._smooth: set[Node] = set()
        self._rational_forms: dict[tuple[Node, bool], list[tuple[Node, str]]] = {}
        self._gates: dict[Node, list[tuple[Node, str]]] = {}

    def take(self, node: Node, form: Node, is_smooth: bool) -> None:
        """Note which form of a result was taken, and whether its branches equal each other.

        The maximum, by which sums are scaled, has a kink where the result has none: of such a form no derivative is of
        use, and the one that was taken before it serves.
        """
        if any(below.op == "maximum" for below in topological([form])):
            return
        self._taken[node] = form
        if is_smooth:
            self._smooth.add(node)

    def written(self, node: Node) -> Node:
        """What a result was before any rule."""
        return self._written.get(node, node)

    def origin(self, node: Node) -> Node:
        """What a result is the derivative of; itself if it is none."""
        return self._origins[node][0] if node in self._origins else node

    def path(self, node: Node) -> list[Node]:
        """The inputs by which a result is a derivative, the last one first."""
        path = []
        while node in self._origins:
            node, wrt = self._origins[node]
            path.append(wrt)
        return path

    def terms(self, node: Node) -> list[Node]:
        """The terms of a value, or of a derivative the derivatives of these; none where the table has not got one."""
        value, path = self.origin(self.origin(node)), self.path(node)
        total = value if value.op == "add" else written_out(value)
        found = [node.graph.const(a) if term is None else a * term for a, term in terms(total)]
        try:
            for wrt in reversed(path):
                found = rewrite([gradient(term, [wrt])[0] for term in found])
        except NotImplementedError:
            return []
        return [term for term in found if not term.is_number(0)]

    def usual(self, node: Node, powers: bool) -> Iterator[tuple[Node, str]]:
        """The forms of a node, each with what it is, of which one may be the cheaper one.

        Args:
            node: a result in its sound form.
            powers: whether roots and powers are variables of the rational forms.
        """
        if powers:
            yield from self.gates(node)
        yield from self.rational(node, powers)
        if powers and node in self._origins:
            less = rational.derivative_less(*self._origins[node])
            if less is not None:
                yield less, f"as the derivative of the value {rational.LESS}"
        for shifted, change in variables.in_differences(node, self._tensors):
            yield change.back(shifted), f"in terms of {Printer({}).expression(change.place)}"

    def gates(self, node: Node) -> list[tuple[Node, str]]:
        """The forms of a node with derivatives of gates, each a function by itself."""
        if node not in self._gates:
            found = [(_of_themselves(form), how) for form, how in by_rules(node, GATE)]
            more = [(factored(form), f"{how}, with common factors of sums before them") for form, how in found]
            self._gates[node] = [entry for pair in zip(found, more, strict=True) for entry in pair]
        return self._gates[node]

    def more(
        self, node: Node, powers: bool, is_limit: Callable[[Node], bool], cancels: bool = False
    ) -> Iterator[tuple[Node, str]]:
        """Those that are looked at where none of the usual ones is good.

        Args:
            node: a result in its sound form.
            powers: whether roots and powers are variables of the rational forms.
            is_limit: tells whether a form with a kink at 0 is there what the node tends to.
            cancels: whether it loses digits for ordinary inputs, which no scale keeps.
        """
        if cancels:
            yield from by_rules(node, NEARLY_EQUAL)
        for form, norm in variables.by_directions(node, self._tensors):
            yield form, f"by the direction of {Printer({}).expression(norm)}"
        yield from angles.forms(node)
        yield from exponentials.forms(node)
        value, path = self.origin(self.origin(node)), self.path(node)
        for derive in (rational.derivative, exponentials.derivative) if path else ():
            derived = derive(self.written(value), path)
            if derived is not None:
                yield derived, "as the derivative of the quotient of sums of exponentials that the value is"
        written = self._written.get(node, node)
        if written is not node:
            how = "as the derivative of what was written" if node in self._origins else "as it was written"
            yield written, how
            for form, more in itertools.chain(exponentials.forms(written), self.rational(written, powers)):
                yield form, f"{how}, {more}"
        yield from self._scaled(node, powers)
        taken_out = factored(node)
        if taken_out is not node:
            yield taken_out, "with common factors of sums before them"
        spread = multiplied_out(node)
        if spread is not node:
            yield spread, "with exponentials multiplied out"
        for start in dict.fromkeys((node, taken_out)) if powers else ():
            yield from squares.forms(start)
        for start in dict.fromkeys((node, taken_out, *([written] if len(self._tensors) > 1 else []))):
            yield from relative.forms(start)
        if len(self._tensors) > 1:  # of one input it is a quotient of polynomials, which have other forms
            for start in [form for form, how in self.rational(node, powers) if how == rational.ONE_FRACTION]:
                for form, how in (*squares.forms(start), *relative.forms(start)):
                    yield form, f"{rational.ONE_FRACTION}, {how}"
        yield from hyperbolic.forms(node)
        for form, how in self._derived(node):
            is_smooth = self._origins[node][0] in self._smooth
            has_kinks = not _KINKS.isdisjoint(below.op for below in topological([form]))
            if powers or is_smooth or not has_kinks or is_limit(form):
                yield form, how
                yield from ((further, f"{how}, {by}") for further, by in by_rules(form, QUOTIENT))
                more_forms = itertools.chain(squares.divided_twice(form), self._scaled(form, powers)) if powers else ()
                for further, more in more_forms:
                    yield further, f"{how}, {more}"
        for start in dict.fromkeys((node, written)):
            yield from radicals.forms(start)
        for form, how in algebraic.forms(node):
            yield form, how
            for scaled, more in relative.forms(form):
                yield scaled, f"{how}, {more}"
        for split, how in (
            (_by_flag(node), "by a flag"),
            (_by_sign(node), "by the sign of what has an absolute value"),
            (_by_larger(node), "by the larger of two"),
        ):
            if split is not None:
                yield split, how
                for form, more in rational.forms(split, powers):
                    yield form, f"{how}, {more}"
        starts = {taken_out: "with common factors of sums before them", node: ""}
        if spread is not node:
            starts[spread] = "with exponentials multiplied out"
        if node in self._origins and powers:
            starts = {written: "as the derivative of what was written"} | starts
        ruled = []
        for start, how in starts.items():
            for form, by in by_rules(start):
                ruled.append((form, by))
                told = f"{how}, {by}" if how else by
                yield form, told
                yield factored(form), f"{told}, with common factors of sums before them"
        for form, by in ruled:
            for rational_form, more in rational.forms(form, powers):
                yield rational_form, f"{by}, {more}"

    def _scaled(self, node: Node, powers: bool) -> Iterator[tuple[Node, str]]:
        """Forms of a node as a function of an input times hyper-parameters: (a*x)**2, of which a**2*x**2 overflows."""
        for product, x in variables.products(node, self._tensors):
            scale = [name for name in inputs_of([product]) if name not in self._tensors]
            if not scale or len(inputs_of([product])) - len(scale) > 1:
                continue
            start = factored(rewrite([variables.in_product(node, product, x)])[0])
            varying = [base for base, _ in factors(start)[1] if not node.graph.is_hyper(base)]
            if not set(scale).isdisjoint(inputs_of(varying)):
                continue  # there is more of the input
            others = [*squares.forms(start), *relative.forms(start), *algebraic.forms(start)]
            others += [*rational.forms(start, powers), *by_rules(start)]
            for found, how in ((start, ""), *others):
                back = _put_back(found, node.graph.input(variables.PRODUCT), product)
                yield back, ", ".join(filter(None, (f"in terms of {Printer({}).expression(product)}", how)))
            return

    def _derived(self, node: Node) -> Iterator[tuple[Node, str]]:
        """The derivative of the form that is taken of what the node is a derivative of; none where there are kinks."""
        origin, wrt = self._origins.get(node, (node, node))
        form = self._taken.get(origin, origin) if origin is not node else node
        undefined = _undefined(origin)
        kinks = (below for below in topological([origin, node]) if below.op in _KINKS)
        if form is origin or any(below.args[0] not in undefined for below in kinks):
            return
        (derived,) = rewrite(gradient(form, [wrt]))
        yield derived, "as the derivative of that form"
        yield factored(derived), "as the derivative of that form, with common factors of sums before them"

    def rational(self, node: Node, powers: bool) -> list[tuple[Node, str]]:
        """The node's forms as rational functions, which are looked for once."""
        if (node, powers) not in self._rational_forms:
            self._rational_forms[node, powers] = [*rational.forms(node, powers)]
        return self._rational_forms[node, powers]


def _of_themselves(form: Node) -> Node:
    """A form with dswish(u) for dgate(u, u), which takes longer."""
    gates = [node for node in topological([form]) if node.op == "dgate" and node.args[0] is node.args[1]]
    return substitute([form], {gate: form.graph.apply("dswish", gate.args[0]) for gate in gates})[0]


def _undefined(node: Node) -> set[Node]:
    """The conditions without which a node is undefined: where it is something there is no kink."""
    selections = [below for below in topological([node]) if below.op == "where"]
    return {below.args[0] for below in selections if below.args[2].number is sympy.nan}


def _by_flag(node: Node) -> Node | None:
    """A node that asks for a flag, for either value of it in turn."""
    graph = node.graph
    flag = next((below for below in topological([node]) if below.op == "flag"), None)
    if flag is None:
        return None
    holds = [substitute([node], {flag: value})[0] for value in (graph.true(), graph.apply("not", graph.true()))]
    return graph.where(flag, *rewrite(holds))


def _by_sign(node: Node) -> Node | None:
    """A node that has the absolute value of one other node in it, without.

    Where a sum that it hangs on is 0 neither sign serves; where an input is, or a difference of two, forms are held
    against the node.
    """
    sizes = [below for below in topological([node]) if below.op in ("abs", "modulus")]
    if len({size.args[0] for size in sizes}) != 1:
        return None
    (inner, *_) = sizes[0].args
    signs = [below for below in topological([node]) if below.op == "sign" and below.args[0] is inner]
    above = substitute([node], dict.fromkeys(sizes, inner) | dict.fromkeys(signs, node.graph.const(1)))
    below = substitute([node], dict.fromkeys(sizes, -inner) | dict.fromkeys(signs, node.graph.const(-1)))
    p, q = rewrite([*above, *below])
    split = node.graph.where(node.graph.apply("ge", inner, 0), p, q)
    if not signs or _is_difference(inner) or all(base.op != "add" for base, _ in factors(inner)[1]):
        return split
    (at_zero,) = rewrite(substitute([node], dict.fromkeys([*sizes, *signs], node.graph.const(0))))
    return node.graph.where(node.graph.apply("eq", inner, 0), at_zero, split)


def _is_difference(total: Node) -> bool:
    """Whether a node is x - y of two tensors."""
    if total.op != "add":
        return False
    numbers, inputs = zip(*map(coefficient, total.args), strict=True)
    are_tensors = all(x is not None and x.op == "input" and not x.graph.is_hyper(x) for x in inputs)
    return are_tensors and sorted(numbers) == [-1, 1]


def _by_larger(node: Node) -> Node | None:
    """A node that has one maximum in it, max(u, c), for u > c and for others."""
    graph = node.graph
    found = [below for below in topological([node]) if below.op == "maximum"]
    if len(found) != 1:
        return None
    u, c = found[0].args if found[0].args[1].number is not None else found[0].args[::-1]
    is_larger = graph.apply("gt", u, c)
    conditions, true = (is_larger, graph.apply("gt", found[0], c)), graph.true()
    (above,) = substitute([node], {found[0]: u, **dict.fromkeys(conditions, true)})
    (below,) = substitute([node], {found[0]: c, **dict.fromkeys(conditions, graph.apply("not", true))})
    return graph.where(is_larger, *rewrite([above, below]))


def _put_back(form: Node, variable: Node, product: Node) -> Node:
    """A form with a product in place of a variable; x where that was written as the product a*x by a."""
    (back,) = substitute([form], {variable: product})
    number, found = factors(back, keep=lambda item: item is product)
    if (product, 1) not in found:
        return back  # of a power of the product the factors may overflow alone
    found.remove((product, 1))
    more, parts = factors(product)
    powers = powers_of([*found, *parts]).items()
    return reduce(form.graph.mul, (base**power for base, power in powers), form.graph.const(number * more))
