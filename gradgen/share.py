"""From a Formula's expressions to graph nodes, one node for equal subexpressions.

Works through SymPy's expressions object by object, never as a tree: a formula of n nested steps costs n steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import sympy
from sympy import Add, Basic, Expr, Mul, Piecewise, Pow, Symbol
from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne
from sympy.logic.boolalg import ITE, And, Not, Or, Xor

from gradgen.graph import Graph, Node
from gradgen.load import Formula
from gradgen.primitives import BY_SYMPY, DEFINITIONS

_RELATIONS: dict[type, str] = {Gt: "gt", Ge: "ge", Lt: "lt", Le: "le", Eq: "eq", Ne: "ne"}
_FOLDS: dict[type, str] = {Add: "add", Mul: "mul", sympy.Max: "maximum", sympy.Min: "minimum", And: "and", Or: "or"}


def share(formula: Formula, graph: Graph) -> Callable[[Expr], Node]:
    """A function that turns expressions of the formula into nodes of `graph`.

    Raises (the function, not this one):
        GradgenError: for a function outside the table, a symbol that is no parameter, a result that is not real.
    """
    return _Sharer(formula, graph).node


class _Sharer:
    def __init__(self, formula: Formula, graph: Graph) -> None:
        self.formula = formula
        self.graph = graph
        self.kinds = {p.name: p.kind for p in formula.parameters}
        self.done: dict[int, Node] = {}
        self.alive: list[Basic] = []  # keeps what `done` knows by id from being collected
        self.sums: list[tuple[dict[Expr, Expr], Node]] = []

    def node(self, expression: Expr) -> Node:
        """The node of an expression."""
        stack: list[Basic] = [expression]
        while stack:
            item = stack[-1]
            if id(item) in self.done:
                stack.pop()
                continue
            missing = [arg for arg in self.operands(item) if id(arg) not in self.done]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.done[id(item)] = self.convert(item)
            self.alive.append(item)
            stack.pop()
        return self.done[id(expression)]

    def operands(self, item: Basic) -> Iterable[Basic]:
        if isinstance(item, Piecewise):
            return [part for pair in item.args for part in pair.args]
        if isinstance(item, sympy.Heaviside):
            return item.args
        return () if item.is_Atom else item.args

    def convert(self, item: Basic) -> Node:
        """The node of `item`, whose operands are done."""
        args = [self.done[id(arg)] for arg in self.operands(item)]
        node = self.special(item, args) if not item.is_Atom else self.atom(item)
        if node is None:
            node = self.function(item, args)
        if node.number is not None:
            self.check_number(node.number, item)
        return node

    def atom(self, item: Basic) -> Node:
        if isinstance(item, Symbol):
            if item.name not in self.kinds:
                known = ", ".join(self.kinds)
                raise self.formula.error(
                    f"{item.name!r} is no parameter of {self.formula.name}",
                    hint=f"Its parameters are {known}; add {item.name} to them, or put a number in its place.",
                )
            return self.graph.flag(item.name) if self.kinds[item.name] == "bool" else self.graph.input(item.name)
        if item is sympy.true or item is sympy.false:
            return self.graph.true() if item is sympy.true else self.graph.apply("not", self.graph.true())
        return self.graph.const(item)  # type: ignore[arg-type]

    def check_number(self, number: Expr, item: Basic) -> None:
        if number.is_extended_real is False or number.has(sympy.I, sympy.zoo, sympy.nan):
            what = "is not a real number" if number.has(sympy.I) or number.is_extended_real is False else "is undefined"
            raise self.formula.error(
                f"{item} {what}", expression=self.formula.source, hint="A formula is real for real inputs."
            )

    def special(self, item: Basic, args: list[Node]) -> Node | None:
        """Shapes that are more than a function of their operands."""
        graph = self.graph
        kind = type(item)
        if kind in (sympy.Max, sympy.Min):
            args = sorted(args, key=lambda arg: arg.number is not None)  # max(x, 0), as it is read
        if kind in _FOLDS:
            return reduce(lambda a, b: graph.apply(_FOLDS[kind], a, b), args)
        if kind in _RELATIONS:
            return graph.apply(_RELATIONS[kind], *args)
        if isinstance(item, Pow):
            return self.power(item, args)
        if isinstance(item, Piecewise):
            return self.piecewise(args)
        if isinstance(item, Not):
            return graph.apply("not", *args)
        if isinstance(item, ITE):
            c, p, q = args
            if p.op in ("input", "const"):
                return graph.where(c, p, q)
            return graph.apply("or", graph.apply("and", c, p), graph.apply("and", graph.apply("not", c), q))
        if isinstance(item, Xor) and len(args) == 2:
            a, b = args
            n = graph.apply
            return n("or", n("and", a, n("not", b)), n("and", n("not", a), b))
        if isinstance(item, sympy.log) and len(args) == 2:
            return graph.apply("log", args[0]) / graph.apply("log", args[1])
        if isinstance(item, sympy.Heaviside):
            return self.heaviside(args)
        if isinstance(item, sympy.Mod):
            return args[0] - args[1] * graph.apply("floor", args[0] / args[1])
        return None

    def power(self, item: Pow, args: list[Node]) -> Node:
        """A power; a cube root is a function of its own, since 1/3 as an exponent is rounded."""
        self.check_root(item)
        base, exponent = args
        if base.number is None and exponent.number is not None and getattr(exponent.number, "q", 1) == 3:
            graph = self.graph
            root = graph.apply("cbrt", base)
            if base.op != "abs":  # SymPy's root of a negative number is complex
                root = graph.where(graph.apply("ge", base, 0), root, graph.const(sympy.nan))
            return graph.power(root, graph.const(exponent.number.p))
        return self.graph.power(base, exponent)

    def check_root(self, item: Pow) -> None:
        """An even root of what is never positive is not real."""
        base, exponent = item.args
        if exponent.is_Rational and not exponent.is_integer and base.is_negative:  # type: ignore[attr-defined]
            raise self.formula.error(
                f"{item} is not real for any input",
                hint="A formula is real for real inputs; check the sign under the root.",
            )

    def piecewise(self, args: list[Node]) -> Node:
        node = self.graph.const(sympy.nan)  # no condition holds: undefined, as in SymPy
        for value, condition in reversed(list(zip(args[::2], args[1::2], strict=True))):
            if condition.op == "not" and condition.args[0].op == "true":
                continue
            node = self.graph.where(condition, value, node)
        return node

    def heaviside(self, args: list[Node]) -> Node:
        x, middle = (*args, self.graph.const(sympy.Rational(1, 2)))[:2]
        graph = self.graph
        below = graph.where(graph.apply("lt", x, 0), graph.const(0), middle)
        return graph.where(graph.apply("gt", x, 0), graph.const(1), below)

    def function(self, item: Basic, args: list[Node]) -> Node:
        kind = type(item)
        if all(arg.number is not None for arg in args) and kind in BY_SYMPY:
            return self.graph.const(item.func(*(arg.number for arg in args)))
        if kind in DEFINITIONS:
            return DEFINITIONS[kind](*args)
        if isinstance(item, sympy.polygamma) and args[0].is_number(0):
            return self.graph.apply("digamma", args[1])
        if kind in BY_SYMPY:
            return self.primitive(item, args)
        evaluated = item.func(*item.args)  # legendre(3, x) is a polynomial once SymPy may evaluate it
        if type(evaluated) is not kind:
            self.alive.append(evaluated)
            return self.node(evaluated)  # type: ignore[arg-type]
        return self.unknown(item)

    def primitive(self, item: Basic, args: list[Node]) -> Node:
        row = BY_SYMPY[type(item)]
        for order in args[: row.constant_operands]:
            if order.number is None or not (order.number.is_Integer and 0 <= order.number <= 8):
                raise self.formula.error(
                    f"the order of {item} must be a whole number from 0 to 8",
                    expression=item,
                    hint="Write the order as a number.",
                )
        return self.graph.apply(row.name, *args)

    def unknown(self, item: Basic) -> Node:
        name = type(item).__name__
        if name in ("Derivative", "Integral", "Sum", "Product", "Limit"):
            hint = f"SymPy leaves this {name} unevaluated; write its value in closed form."
        elif name in ("re", "im", "conjugate", "arg"):
            hint = "The inputs are real numbers."
        else:
            known = ", ".join(sorted({kind.__name__ for kind in (*BY_SYMPY, *DEFINITIONS)}, key=str.lower))
            hint = f"Functions that gradgen knows: {known}, Piecewise, Heaviside, Mod."
        raise self.formula.error(f"unknown function {name}", expression=item, hint=hint)
