"""A result as a function of something else than an input: of a difference, a product, a root or a norm in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from sympy import Expr

from gradgen.differentiate import gradient
from gradgen.graph import HALF, Graph, Node, coefficient, inputs_of, rebuilt, substitute, topological
from gradgen.rewrite import Factor, factored, factors, powers_of, rewrite, terms, written_out

# Inputs that stand for something else; no user can give these names
DIFFERENCE, PRODUCT, ROOT, NORM, ARGUMENT = "a difference", "a product", "a root", "a norm", "the argument"

# What f(k*x, 1) is multiplied by to be f(k, x): a power of x
_DEGREES = {
    f"{order}{name}": power for name in ("exprel", "logrel") for power, order in enumerate(("", "d", "d2"), start=1)
}

_RECIPROCAL = 2  # operations that h/x may cost as an argument: x is h/u, and h/x near 0 where x is large


@dataclass(frozen=True)
class Change:
    """A variable in place of something that is linear in an input.

    Attributes:
        place: it.
        variable: the input that stands for it.
        pivot: one of the inputs in it.
        solution: what that is, in terms of the variable and the others.
    """

    place: Node
    variable: Node
    pivot: Node
    solution: Node

    def moved(self, nodes: Sequence[Node]) -> list[Node]:
        """Some nodes in terms of the variable."""
        return substitute(nodes, {self.place: self.variable, self.pivot: self.solution})

    def back(self, node: Node) -> Node:
        """A node in terms of the variable as one of the inputs."""
        return substitute([node], {self.variable: self.place})[0]


@dataclass(frozen=True)
class Argument(Change):
    """What some inputs are found in alone, linear in one of them or in its reciprocal: x - y of w*exp(-(x - y)**2).

    SymPy writes out 2*(x - y), so that it need not stand in the results as such.

    Attributes:
        inside: the names of the tensors in it.
    """

    inside: frozenset[str]

    @property
    def is_reciprocal(self) -> bool:
        """Whether it is linear in the reciprocal of an input, as h/x, of which h/x**2 is a function as well."""
        return self.pivot**-1 in topological([self.place])

    def slope(self, wrt: Sequence[Node]) -> Node | None:
        """What a derivative by it is multiplied by to be one by some inputs; None if there is nothing."""
        within = [x for x in wrt if x.value in self.inside]
        if self.is_reciprocal:
            return self.place.graph.const(1)
        slopes = rewrite(gradient(self.place, within))
        if len(within) > 1 and any(not other.is_number(0) for slope in slopes for other in gradient(slope, within)):
            return None
        (slope,) = self.moved([reduce(self.place.graph.mul, slopes, self.place.graph.const(1))])
        # That of (x - m)/s by s is a multiple of it, and part of the function.
        number, found = factors(slope)
        rest = [(base, power) for base, power in found if base is not self.variable or power < 0]
        return self.back(reduce(self.place.graph.mul, (base**power for base, power in rest), slope.graph.const(number)))

    def rest(self, slope: Node) -> Node | None:
        """What the argument is the slope times; None where that is a number, or the argument itself."""
        (rest,) = rewrite([self.place / slope])
        return None if slope.number is not None or rest is self.place else rest

    def is_all_but_a_factor(self, node: Node) -> bool:
        """Whether a node is a product of powers of the input and of functions of the argument: x*log(1 + h/x)."""
        (moved,) = substitute([node], {self.place: self.variable})
        return all(self.pivot.value not in inputs_of([base]) for base, _ in factors(moved)[1] if base is not self.pivot)

    def within(self, node: Node, slope: Node) -> Node | None:
        """A result, divided by a slope, as a function of the variable and the other inputs; None if it is none."""
        for start in dict.fromkeys((node, _without_parameters(node))):
            moved, divisor = self.moved([start, slope])
            form = factored(rewrite([moved / divisor])[0])
            if self.inside.isdisjoint(inputs_of([form])):
                return form
        return None


def argument(values: Sequence[Node], tensors: Sequence[str]) -> Argument | None:
    """What some inputs of all values are found in alone, which saves operations; None if there is nothing.

    The one with the most inputs in it, of these the one that saves most, of these the largest: (x - m)/s, not x - m.
    Multiples and powers of what stands for an argument already are as good as that. The reciprocal of one input, h/x,
    may be one of products of powers of x and functions of h/x, and cost an operation or two.
    """
    best, most = None, (0, 0)
    for found in _arguments(values, tensors):
        worth = _worth(found, values)
        if worth is not None and worth >= most:
            best, most = found, worth
    return best


def _arguments(values: Sequence[Node], tensors: Sequence[str]) -> Iterator[Argument]:
    """The sums, products and powers below some nodes that can be solved for an input: each with each of its inputs."""
    graph = values[0].graph
    variable = graph.input(_unlike(tensors))
    for place in topological([*values, *map(_without_parameters, values)]):
        inside = frozenset(inputs_of([place])).intersection(tensors)
        _, rest = coefficient(place)  # a multiple of an input is as good as the input
        is_multiple = rest is not None and rest.op in ("mul", "pow") and all(x.startswith(ARGUMENT) for x in inside)
        if rest is None or rest.op not in ("add", "mul", "pow") or is_multiple:
            continue
        for x in map(graph.input, sorted(inside)):
            solution = _solved(place, x, variable)
            if solution is not None:
                yield Argument(place, variable, x, solution, inside)


def _worth(found: Argument, values: Sequence[Node]) -> tuple[int, int] | None:
    """How many inputs an argument stands for, and how many operations it saves; None where it does not serve."""
    inside, is_reciprocal = found.inside, found.is_reciprocal
    if is_reciprocal and (len(inside) > 1 or not all(map(found.is_all_but_a_factor, values))):
        return None
    forms = [found.within(value, value.graph.const(1)) for value in values]
    known = [form for form in forms if form is not None and form.args]
    saved = len(topological(values)) - len(topological(known)) - len(inside)
    # 1 - y beside y is no gain, but where something is divided by it
    is_plain = len(inside) == 1 and not any(map(partial(_is_divided_by, found.place), topological(values)))
    least = -_RECIPROCAL if is_reciprocal else int(is_plain)
    return (len(inside), max(0, saved)) if len(known) == len(values) and saved >= least else None


def _is_divided_by(place: Node, node: Node) -> bool:
    """Whether a node is a negative power of what a place is in."""
    exponent = node.args[1].number if node.op == "pow" else None
    return exponent is not None and bool(exponent.is_negative) and place in topological(node.args[:1])


def _unlike(names: Sequence[str]) -> str:
    """A name of an argument that is none of these."""
    name = ARGUMENT
    while name in names:
        name += " within"
    return name


def _solved(place: Node, x: Node, value: Node) -> Node | None:
    """What x is where a node has some value; None where that is not linear in x or in its reciprocal."""
    while place is not x:
        if place.op == "pow" and place.args[0] is x and place.args[1].is_number(-1):
            return 1 / value
        (inner, *more) = [arg for arg in place.args if x in topological([arg])]
        others = [arg for arg in place.args if arg is not inner]
        if more or place.op not in ("add", "mul") or len(others) != 1:
            return None
        value = value - others[0] if place.op == "add" else value / others[0]
        place = inner
    return value


def solved_for(place: Node, tensors: Sequence[str]) -> Change | None:
    """A variable in place of a node that is linear in an input, or in its reciprocal; None if it is in none."""
    variable = place.graph.input(_unlike(tensors))
    for x in map(place.graph.input, tensors_of(place, tensors)):
        solution = _solved(place, x, variable)
        if solution is not None:
            return Change(place, variable, x, solution)
    return None


def in_differences(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Change]]:
    """The node as a function of each difference in it: of x - 1 in place of x in log(x)/(x - 1)."""
    for total in _differences(node, tensors):
        change = _by(total, total.args[0])
        assert change is not None
        yield factored(rewrite(change.moved([node]))[0]), change


def _differences(root: Node, tensors: Sequence[str]) -> list[Node]:
    """What the root is divided by that is an input and something more, x - 1, x - y; or is a function of, x - y."""
    found = []
    for node in topological([root]):
        exponent = node.args[1].number if node.op == "pow" else None
        is_divisor = exponent is not None and exponent.is_negative
        total = node.args[0] if node.args else node
        if total.op == "add" and (is_divisor or (len(node.args) == 1 and len(tensors_of(total, tensors)) == 2)):
            first = total.args[0]
            if first.op == "input" and first.value in tensors and first not in topological([total.args[1]]):
                found.append(total)
    return list(dict.fromkeys(found))


def sums(root: Node, tensors: Sequence[str]) -> Iterator[Change]:
    """Sums in the root that are linear in an input, 1 - x, k*x - y, with a variable in their place."""
    for total in topological([root]):
        pivots = [root.graph.input(name) for name in tensors_of(total, tensors)] if total.op == "add" else []
        change = next(filter(None, (_by(total, pivot) for pivot in pivots)), None)
        if change is not None:
            yield change


def meetings(node: Node, tensors: Sequence[str]) -> Iterator[Change]:
    """The differences of two inputs of a node: as they are, and as shares of the second."""
    variable = node.graph.input(DIFFERENCE)
    for x, y in itertools.combinations(map(node.graph.input, tensors_of(node, tensors)), 2):
        yield Change(x - y, variable, x, y + variable)
        yield Change((x - y) / y, variable, x, y + variable * y)


def tensors_of(node: Node, tensors: Sequence[str]) -> list[str]:
    return [name for name in inputs_of([node]) if name in tensors]


def _by(total: Node, pivot: Node) -> Change | None:
    variable = total.graph.input(DIFFERENCE)
    solution = _solved(total, pivot, variable)
    return None if solution is None else Change(total, variable, pivot, solution)


# What is to be added up, with the inputs of those that may be functions by themselves
Way = list[tuple[Node, tuple[str, ...]]]


def sums_in_parts(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, list[Way]]]:
    """The sums of functions of fewer inputs than they have themselves, with the ways to take them apart.

    The largest are exp(y) - 1 - y and x**2 of exp(y) - 1 - y + x**2, but 1 may also have been taken for x**2 - 1.
    """
    order = topological([node])
    inner = {arg for below in order if below.op == "add" for arg in below.args}
    for total in [below for below in order if below.op == "add" and below not in inner]:
        ways = [way for way in _ways(total, tensors) if any(names for _, names in way)]
        if ways:
            yield total, ways


def _ways(total: Node, tensors: Sequence[str]) -> Iterator[Way]:
    """The terms of a sum, added up by the inputs that they are functions of; a number is a part of any of them."""
    every = len(tensors_of(total, tensors))
    for form in _in_terms(total, tensors):
        parts: dict[tuple[str, ...], Node] = {}
        rest = total.graph.const(0)
        for number, item in terms(form):
            one = total.graph.const(number) if item is None else number * item
            names = tuple(tensors_of(one, tensors))
            if names:
                parts[names] = parts[names] + one if names in parts else one
            else:
                rest = rest + one
        for place in sorted(parts, key=len)[: None if not rest.is_number(0) else 1]:
            found = {**parts, place: rewrite([parts[place] + rest])[0]} if not rest.is_number(0) else parts
            yield [(part, names if len(names) < every and _is_curved(part) else ()) for names, part in found.items()]


def _in_terms(total: Node, tensors: Sequence[str]) -> Iterator[Node]:
    """A sum as it is and with products written out, unless that mixes inputs: (x - y)**2 is no sum of such parts."""
    yield total
    form = written_out(total)
    mixed = [{item for _, item in terms(one) if item and len(tensors_of(item, tensors)) > 1} for one in (total, form)]
    if form is not total and mixed[1] <= mixed[0]:
        yield form


def _is_curved(part: Node) -> bool:
    """Whether a part is a sum of more than inputs."""
    return part.op == "add" and any(item is not None and item.op != "input" for _, item in terms(part))


def relative_to_rest(node: Node, change: Change) -> tuple[Node, Node] | None:
    """A node in terms of a difference d = p - q as a function of d/q; and that. None where q is a number."""
    (rest,) = substitute([change.solution], {change.variable: change.variable.graph.const(0)})
    if rest.number is not None:
        return None
    moved = node.graph.input(PRODUCT)
    (form,) = substitute([_with_logarithms_of_quotients(node)], {change.variable: moved * rest})
    return factored(rewrite([factored(form)])[0]), change.variable / rest


def _with_logarithms_of_quotients(node: Node) -> Node:
    """The node with log(u/v) for log(u) - log(v)."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        found = terms(changed) if changed.op == "add" else []
        for (a, one), (b, other) in itertools.combinations(found, 2):
            if one and other and one.op == other.op == "log" and a == -b:
                rest = changed - a * one - b * other
                changed = rest + a * node.graph.apply("log", one.args[0] / other.args[0])
                break
        new[below] = changed
    return new[node]


def products(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The products in a node with an input as a factor that is in none of the others, each with that input."""
    inputs = [node.graph.input(name) for name in tensors]
    for product in topological([node]):
        found = factors(product)[1] if product.op == "mul" else []
        for x in [base for base, power in found if power == 1 and base in inputs]:
            if x not in topological([base for base, _ in found if base is not x]):
                yield product, x


def in_products(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a function of each product of an input, and that."""
    for form in dict.fromkeys((node, _without_parameters(node))):
        for product, x in products(form, tensors):
            yield in_product(form, product, x), product


def _without_parameters(node: Node) -> Node:
    """The node with x*exprel(k*x, 1) for exprel(k, x), a function of the product."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        if changed.op in _DEGREES and changed.args[1].number is None:
            k, x = changed.args
            changed = x ** _DEGREES[changed.op] * node.graph.apply(changed.op, k * x, 1)
        new[below] = changed
    return new[node]


def in_product(node: Node, product: Node, x: Node) -> Node:
    """The node as a function of a product of an input: of v = k*x, with v/k in place of x."""
    moved = node.graph.input(PRODUCT)
    number, found = factors(product)
    others = [base**power for base, power in found if base is not x]
    rest = reduce(node.graph.mul, others, node.graph.const(number))
    (form,) = substitute(substitute([node], {product: moved}), {x: moved / rest})
    return factored(form)


def in_roots(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a function of the square root of each input: of v = sqrt(x), with v**2 in place of x."""
    moved = node.graph.input(ROOT)
    for root in topological([node]):
        if root.op == "pow" and root.args[1].is_number(HALF) and root.args[0].value in tensors:
            (form,) = substitute([node], {root: moved, root.args[0]: moved**2})
            yield factored(_with_roots_of_squares(form, moved)), root


def in_angles(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a function of p = a/b for each atan2(a, b) in it, which is atan(p) where b is positive; and a/b."""
    p = node.graph.input(PRODUCT)
    for a, b in _angles(node, tensors):
        (form,) = substitute([_of_quotient(node, a, b)], {a: p * b})
        yield factored(rewrite([form])[0]), a / b


def in_angles_of_norms(node: Node, tensors: Sequence[str]) -> Iterator[tuple[list[Products], Node]]:
    """The same where a is a norm: sums of products of its components and a function of p, in several ways; and a/b."""
    p, moved = node.graph.input(PRODUCT), node.graph.input(NORM)
    for a, b in _angles(node, tensors):
        if a.op == "hypot":
            ways = _in_norm(_of_quotient(node, a, b), a)
            yield [_parted(substitute([x * y for x, y in products], {moved: p * b})) for products in ways], a / b


def _angles(node: Node, tensors: Sequence[str]) -> list[tuple[Node, Node]]:
    """What the angles in a node are between: something with an input in it, and another input."""
    order = topological([node])
    pairs = dict.fromkeys((below.args[0], below.args[1]) for below in order if below.op == "atan2")
    return [(a, b) for a, b in pairs if tensors_of(a, tensors) and b.value in tensors and b not in topological([a])]


def _of_quotient(node: Node, a: Node, b: Node) -> Node:
    """A node in terms of a, b and p = a/b, with atan(p) for the angle between them and b*hypot(p, 1) for their norm."""
    graph, p = node.graph, node.graph.input(PRODUCT)
    norm, order = graph.apply("hypot", p, 1), topological([node])
    new = {graph.apply("atan2", a, b): graph.apply("atan", p)}
    for length in [below for below in order if below.op == "hypot" and {*below.args} == {a, b}]:
        new[length] = norm * b
        for direction in [below for below in order if below.op == "unit" and below.args[1] is length]:
            side = direction.args[0]
            new[direction] = (p if side is a else side / b) / norm
    return substitute([node], new)[0]


def _parted(parts: Sequence[Node]) -> Products:
    """The sum of some nodes as one of products of what is free of p and a function of p."""
    total = rewrite([reduce(parts[0].graph.add, parts)])[0]
    split = ((number, *(factors(item) if item is not None else (1, []))) for number, item in terms(written_out(total)))
    return _collected(((number * more, powers_of(product)) for number, more, product in split), total.graph, PRODUCT)


def _with_roots_of_squares(node: Node, v: Node) -> Node:
    """The node with v*sqrt(u) for sqrt(v**2*u), where v is not negative."""
    new: dict[Node, Node] = {}
    for below in topological([node]):
        changed = rebuilt(below, new)
        is_root = changed.op == "pow" and changed.args[1].is_number(HALF)
        number, found = factors(changed.args[0]) if is_root else (1, [])
        power = sum(exponent for base, exponent in found if base is v)
        if power and power % 2 == 0:
            others = [base**exponent for base, exponent in found if base is not v]
            rest = reduce(node.graph.mul, others, node.graph.const(number))
            if rest.number is None or rest.number.is_nonnegative:  # the root of -1 is no number
                changed = v ** (power // 2) * rest**HALF
        new[below] = changed
    return new[node]


Products = list[tuple[Node, Node]]  # of what is free of a variable and a function of that alone


def in_norms(node: Node, tensors: Sequence[str]) -> Iterator[tuple[list[Products], Node]]:
    """The node as a sum of products of inputs and a function of each norm in it, and that: x and f(r)/r of f(r)*x/r.

    There are several ways, for the square of each component may be that of the norm less those of the others.
    """
    order = topological([node])
    norms = [below for below in order if below.op == "hypot" and all(tensors_of(c, tensors) for c in below.args)]
    inner = {arg for norm in norms for arg in norm.args}
    for norm in [norm for norm in norms if norm not in inner]:
        ways = [
            products
            for products in _in_norm(node, norm)
            if products and all(set(inputs_of([varying])).isdisjoint(tensors) for _, varying in products)
        ]
        if ways:
            yield ways, norm


def by_directions(node: Node, tensors: Sequence[str]) -> Iterator[tuple[Node, Node]]:
    """The node as a sum of products of components of the direction of each norm in it and a function of that; and that.

    One of the ways is a sum of what has one sign: of the derivative of f(r)*x/r by x that is f'(r) and (y/r)**2 times
    what is left, where f(r)/r and (x/r)**2 times the rest nearly cancel.
    """
    graph = node.graph
    for ways, norm in in_norms(node, tensors):
        moved, (_, components) = graph.input(NORM), _parts_of_norm(norm)
        for products in ways:
            total = graph.const(0)
            for fixed, varying in products:
                number, found = factors(fixed)
                degree = sum(power for base, power in found if base in components)
                direction = graph.const(number)
                for base, power in found:
                    direction = direction * (graph.apply("unit", base, moved) if base in components else base) ** power
                for more, item in terms(varying):
                    total = total + direction * (more * (moved**degree if item is None else item * moved**degree))
            (form,) = substitute(rewrite([total]), {moved: norm})
            yield rewrite([form])[0], norm


def _in_norm(node: Node, norm: Node) -> list[Products]:
    """A node as a sum of products of what is free of a norm and the rest, the simplest of the ways to do so first."""
    moved = node.graph.input(NORM)
    inner, components = _parts_of_norm(norm)
    directions = [below for below in topological([node]) if below.op == "unit" and below.args[1] in (norm, *inner)]
    quotients = {one: one.args[0] / (moved if one.args[1] is norm else one.args[1]) for one in directions}
    squares = {total: moved**2 for total in topological([node]) if _is_square(total, components)}
    (form,) = substitute([node], {**quotients, **squares, norm: moved})
    ways = [_without_square(form, moved, component, components) for component in components]
    return sorted(ways, key=lambda products: len(topological([varying for _, varying in products])))


def _without_square(form: Node, moved: Node, component: Node, components: Sequence[Node]) -> Products:
    """A form in terms of a norm as a sum of products, with one component squared as the norm's square less the others.

    Of the Hessian of f(r) the functions that x**2 and y**2 are multiplied by have no limits; those of 1 and x**2 have.
    """
    square = [(moved, 1), *((other, -1) for other in components if other is not component)]
    done: list[tuple[Expr, Mapping[Node, int]]] = []
    left = [(number, *(factors(item) if item is not None else (1, []))) for number, item in terms(written_out(form))]
    while left:
        number, more, product = left.pop()
        powers = powers_of(product)
        if powers.get(component, 0) >= 2:
            left += [(number * sign, more, [*product, (component, -2), (base, 2)]) for base, sign in square]
        else:
            done.append((number * more, powers))
    return _collected(done, form.graph, NORM)


def _collected(parts: Iterable[tuple[Expr, Mapping[Node, int]]], graph: Graph, name: str) -> Products:
    """A sum of numbers times powers as one of products of what is free of an input and what is not."""
    found: dict[frozenset[Factor], tuple[Node, Node]] = {}
    for number, every in parts:
        powers = {base: power for base, power in every.items() if power}
        fixed = {base: power for base, power in powers.items() if name not in inputs_of([base])}
        varying = {base: power for base, power in powers.items() if base not in fixed}
        key = frozenset(fixed.items())
        one, total = found.get(key, (_multiplied(fixed, graph), graph.const(0)))
        found[key] = one, total + number * _multiplied(varying, graph)
    return [(one, total) for one, total in found.values() if not total.is_number(0)]


def _is_square(node: Node, components: Sequence[Node]) -> bool:
    """Whether a node is the sum of the squares of the components of a norm."""
    found = terms(node, most=len(components)) if node.op == "add" else []
    return {number for number, _ in found} == {1} and {item for _, item in found} == {one**2 for one in components}


def _multiplied(powers: Mapping[Node, int], graph: Graph) -> Node:
    return reduce(graph.mul, (base**power for base, power in powers.items()), graph.const(1))


def _parts_of_norm(norm: Node) -> tuple[list[Node], list[Node]]:
    """The norms that a norm is made of, and its components."""
    left, inner, components = list(norm.args), list[Node](), list[Node]()
    while left:
        part = left.pop()
        (inner if part.op == "hypot" else components).append(part)
        left += part.args if part.op == "hypot" else ()
    return inner, components
