"""From a Formula's expressions to graph nodes, one node for equal subexpressions.

Works through SymPy's expressions object by object, never as a tree: a formula of n nested steps costs n steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce

import sympy
from sympy import Add, Basic, Dummy, Expr, Mul, Piecewise, Pow, Symbol, Wild
from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne
from sympy.logic.boolalg import ITE, And, Equivalent, Implies, Nand, Nor, Not, Or, Xor

from gradgen.graph import CONDITIONS, Graph, Node, known_sign
from gradgen.load import Formula
from gradgen.primitives import BY_SYMPY, DEFINITIONS
from gradgen.ranges import Ranges

_RELATIONS: dict[type, str] = {Gt: "gt", Ge: "ge", Lt: "lt", Le: "le", Eq: "eq", Ne: "ne"}
_FOLDS: dict[type, str] = {Add: "add", Mul: "mul", sympy.Max: "maximum", sympy.Min: "minimum", And: "and", Or: "or"}
_LOGIC = (And, Or, Not, Nand, Nor, Xor, Implies, Equivalent, ITE)
_COMPARES = (*_RELATIONS, sympy.Max, sympy.Min)
_UNEVALUATED = (sympy.Derivative, sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Subs, sympy.Order)
_LARGEST = sympy.Float(1.7976931348623157e308)
_MOST_DIGITS = 2000  # of an exact power of numbers


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
        self.ranges = Ranges()
        self.root: Basic | None = None

    def node(self, expression: Expr) -> Node:
        """The node of an expression."""
        self.root = expression
        node = self.converted(expression)
        self.need_number(node, expression)
        if self.is_undefined(node):
            raise self.error(f"{_shown(expression)} {_what_is(node)}", _REAL)
        return node

    def converted(self, expression: Basic) -> Node:
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

    def operands(self, item: Basic) -> Sequence[Basic]:
        if isinstance(item, _UNEVALUATED):
            raise self.unknown(item)
        if isinstance(item, sympy.Contains):
            return ()
        if isinstance(item, Piecewise):
            return [part for pair in item.args for part in pair.args]
        return () if item.is_Atom else tuple(item.args)

    def error(self, problem: str, hint: str) -> Exception:
        return self.formula.error(problem, within=self.root, hint=hint)

    def convert(self, item: Basic) -> Node:
        """The node of `item`, whose operands are done."""
        if item.is_Atom:
            return self.atom(item)
        args = [self.done[id(arg)] for arg in self.operands(item)]
        self.check_operands(item, args)
        node = self.special(item, args) or self.function(item, args)
        self.check_real(node, item)
        return node

    # Leaves

    def atom(self, item: Basic) -> Node:
        if isinstance(item, Symbol):
            return self.symbol(item)
        if item is sympy.true or item is sympy.false:
            return self.graph.true() if item is sympy.true else self.graph.apply("not", self.graph.true())
        if not isinstance(item, Expr) or not item.is_number:
            raise self.unknown(item)
        self.check_size(item)
        if item.is_extended_real is False or item is sympy.zoo:
            raise self.error(f"{item} is not a real number", _REAL)
        return self.graph.const(item)

    def symbol(self, item: Symbol) -> Node:
        if item.name not in self.kinds or isinstance(item, Dummy | Wild):
            known = ", ".join(self.kinds)
            kind = f"the {type(item).__name__} " if isinstance(item, Dummy | Wild) else ""
            raise self.error(
                f"{kind}{item.name!r} is no parameter of {self.formula.name}",
                f"Its parameters are {known}; add {item.name} to them, or put a number in its place.",
            )
        return self.graph.flag(item.name) if self.kinds[item.name] == "bool" else self.graph.input(item.name)

    # What makes no sense

    def check_operands(self, item: Basic, args: list[Node]) -> None:
        """Numbers where numbers are needed, conditions where conditions are; no infinity in arithmetic."""
        parts = self.operands(item)
        conditions = parts if isinstance(item, _LOGIC) else ()
        if isinstance(item, Piecewise):
            conditions = parts[1::2]
        for part, node in zip(parts, args, strict=True):
            if any(part is condition for condition in conditions):
                self.need_condition(node, part)
            else:
                self.need_number(node, part)
            if not isinstance(item, (Piecewise, *_COMPARES)) and self.is_undefined(node):
                raise self.error(
                    f"{_shown(part)} {_what_is(node)}", "Only a branch of a Piecewise may be infinite or nan."
                )

    def need_number(self, node: Node, item: Basic) -> None:
        if node.op in CONDITIONS:
            shown = _shown(item)
            hint = f"Write Piecewise((1, {shown}), (0, True)) for 1 where it holds and 0 elsewhere."
            raise self.error(f"{shown} is a condition, where a number is needed", hint)

    def need_condition(self, node: Node, item: Basic) -> None:
        if node.op not in CONDITIONS:
            shown = _shown(item)
            raise self.error(
                f"{shown} is a number, where a condition is needed", f"Write Ne({shown}, 0), or {shown} > 0."
            )

    def is_undefined(self, node: Node) -> bool:
        return node.number is not None and (node.number.is_infinite or node.number is sympy.nan)

    def check_real(self, node: Node, item: Basic) -> None:
        """Stop at what is not real for any input."""
        number = node.number
        if number is not None:
            self.check_size(number, item)
            if not _is_real(number):
                raise self.error(f"{_shown(item)} is not a real number", _REAL)
        culprit = self.ranges.never_real(node)
        if culprit is not None:
            what = "is not a real number" if number is not None else "is not real for any input"
            raise self.error(f"{_shown(item)} {what}", _REAL)

    def check_size(self, number: Expr, item: Basic | None = None) -> None:
        """Stop at a number that no float64 can hold."""
        if not number.is_infinite and number.is_comparable and abs(number.evalf(20)) > _LARGEST:
            shown = _shown(number if item is None else item)
            raise self.error(f"{shown} is larger than any float64, about 1.8e308", "Write a smaller number.")

    # Shapes

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
        if isinstance(item, _LOGIC):
            return self.logic(item, args)
        for shape, convert in _SHAPES.items():
            if isinstance(item, shape):
                return convert(self, item, args)
        return None

    def logic(self, item: Basic, args: list[Node]) -> Node:
        apply = self.graph.apply
        if isinstance(item, Not):
            return apply("not", *args)
        if isinstance(item, Nand | Nor):
            joined = reduce(lambda a, b: apply("and" if isinstance(item, Nand) else "or", a, b), args)
            return apply("not", joined)
        if isinstance(item, Implies):
            return apply("or", apply("not", args[0]), args[1])
        if isinstance(item, Equivalent):
            pairs = [apply("not", self.differ(a, b)) for a, b in itertools.pairwise(args)]
            return reduce(lambda a, b: apply("and", a, b), pairs)
        if isinstance(item, ITE):
            c, p, q = args
            return apply("or", apply("and", c, p), apply("and", apply("not", c), q))
        return reduce(self.differ, args)

    def differ(self, a: Node, b: Node) -> Node:
        """Whether one of two conditions holds, but not both."""
        apply = self.graph.apply
        return apply("or", apply("and", a, apply("not", b)), apply("and", apply("not", a), b))

    def power(self, item: Pow, args: list[Node]) -> Node:
        """A power; a cube root is a function of its own, since 1/3 as an exponent is rounded.

        A power of a number is an exponential, so that it meets others: `limits` makes those of 2 what they were.
        """
        base, exponent = args
        if base.number is not None and exponent.number is not None:
            self.check_power(base.number, exponent.number, item)
        elif base.number is not None and base.number.is_negative and not item.exp.is_integer:
            hint = "A power of a negative number is real for whole exponents alone: give it an int parameter."
            raise self.error(f"{_shown(item)} is not real for most inputs", hint)
        if base.number is not None and base.number.is_positive and base.number != 1 and exponent.number is None:
            return self.graph.apply("exp", sympy.log(base.number) * exponent)
        if base.number is None and exponent.number is not None and getattr(exponent.number, "q", 1) == 3:
            self.check_real(self.graph.power(base, exponent), item)
            return self.third_power(base, exponent.number)
        return self.graph.power(base, exponent)

    def third_power(self, base: Node, exponent: Expr) -> Node:
        graph = self.graph
        root = graph.apply("cbrt", base)
        if known_sign(base) <= 0:  # SymPy's root of a negative number is complex
            root = graph.where(graph.apply("ge", base, 0), root, graph.const(sympy.nan))
        return graph.power(root, graph.const(exponent.p))

    def check_power(self, base: Expr, exponent: Expr, item: Pow) -> None:
        """Stop before SymPy begins to compute a number of more digits than anything has room for."""
        if base in (0, 1, -1) or not base.is_comparable or not exponent.is_comparable:
            return
        digits = abs(float(sympy.log(abs(base.evalf(20)), 10).evalf(20) * exponent.evalf(20)))
        if digits > _MOST_DIGITS:
            raise self.error(
                f"{_shown(item)} has more than {_MOST_DIGITS} digits", "Write a number that a float64 can hold."
            )

    def piecewise(self, item: Piecewise, args: list[Node]) -> Node:
        node = self.graph.const(sympy.nan)  # no condition holds: undefined, as in SymPy
        for value, condition in reversed(list(zip(args[::2], args[1::2], strict=True))):
            if condition.op == "not" and condition.args[0].op == "true":
                continue
            node = self.graph.where(condition, value, node)
        return node

    def heaviside(self, item: Basic, args: list[Node]) -> Node:
        x, middle = (*args, self.graph.const(sympy.Rational(1, 2)))[:2]
        graph = self.graph
        below = graph.where(graph.apply("lt", x, 0), graph.const(0), middle)
        return graph.where(graph.apply("gt", x, 0), graph.const(1), below)

    def factorial(self, item: Basic, args: list[Node]) -> Node:
        number = args[0].number
        return self.graph.apply("gamma", args[0] + 1) if number is None else self.number(item, [number])

    def membership(self, item: Basic) -> Node:
        """Whether a number is in a set, by the comparisons that say so."""
        number, container = item.args
        condition = container.as_relational(number)
        self.alive.append(condition)
        return self.converted(condition)

    def logarithm(self, item: Basic, args: list[Node]) -> Node | None:
        if len(args) == 1:
            return None
        for node in args:
            if node.number is not None and node.number.is_negative:
                raise self.error(f"{_shown(item)} is not real for any input", _REAL)
        return self.graph.apply("log", args[0]) / self.graph.apply("log", args[1])

    # Functions

    def function(self, item: Basic, args: list[Node]) -> Node:
        kind = type(item)
        if kind in BY_SYMPY and all(arg.number is not None for arg in args):
            return self.number(item, [arg.number for arg in args if arg.number is not None])
        if kind in DEFINITIONS:
            return DEFINITIONS[kind](*args)
        if isinstance(item, sympy.polygamma) and args[0].is_number(0):
            return self.graph.apply("digamma", args[1])
        if kind in BY_SYMPY:
            return self.primitive(item, args)
        evaluated = self.evaluated(item, args)
        if type(evaluated) is not kind:
            self.alive.append(evaluated)
            return self.converted(evaluated)
        raise self.unknown(item)

    def evaluated(self, item: Basic, args: list[Node]) -> Basic:
        """What SymPy makes of a function outside the table: legendre(3, x) is a polynomial."""
        if len(args) == 1 and args[0].number is not None:
            self.check_argument(item, args[0].number)
        return item.func(*item.args)

    def number(self, item: Basic, args: list[Expr]) -> Node:
        """A function of numbers, as exact as SymPy can."""
        self.check_argument(item, args[0])
        value = item.func(*args)
        try:
            known = value.is_infinite or complex(value.evalf(15)) is not None
        except (TypeError, ValueError, OverflowError):
            known = False
        if not known and value is not sympy.nan:
            raise self.error(f"{_shown(item)} is not a real number", _REAL)
        return self.graph.const(value)

    def check_argument(self, item: Basic, argument: Expr) -> None:
        """Stop before SymPy begins to compute a factorial that nothing has room for."""
        if argument.is_Integer and argument > 1000 and not isinstance(item, sympy.log | sympy.Abs | sympy.sign):
            growing = sympy.gamma | sympy.factorial | sympy.factorial2 | sympy.subfactorial | sympy.fibonacci
            if isinstance(item, growing):
                raise self.error(f"{_shown(item)} is larger than any float64, about 1.8e308", "Write a smaller number.")

    def primitive(self, item: Basic, args: list[Node]) -> Node:
        row = BY_SYMPY[type(item)]
        for order in args[: row.constant_operands]:
            if order.number is None or not (order.number.is_Integer and 0 <= order.number <= 8):
                raise self.error(
                    f"the order of {_shown(item)} must be a whole number from 0 to 8", "Write the order as a number."
                )
        return self.graph.apply(row.name, *args)

    def unknown(self, item: Basic) -> Exception:
        name = item.name if isinstance(item, sympy.core.function.AppliedUndef) else type(item).__name__
        shown = _shown(item)
        if isinstance(item, sympy.Order):
            return self.error(
                f"{shown} stands for the rest of a series, not for a number", "Write .removeO() behind it."
            )
        if isinstance(item, _UNEVALUATED):
            return self.error(
                f"{shown} is left as it is, SymPy has not computed it",
                "Write .doit() behind it, or its value in closed form; for a derivative of Abs, Max or sign declare the"
                ' symbols real: symbols("x", real=True).',
            )
        kinds = {kind.__name__ for kind in (*BY_SYMPY, *DEFINITIONS)} - {"Sqrt", "Cbrt", "fma"}
        known = sorted([*kinds, "sqrt", "cbrt", "Piecewise", "Heaviside", "ITE", "Mod"], key=str.lower)
        hint = f"Functions that gradgen knows: {', '.join(known)}."
        return self.error(f"gradgen does not know the function {name}, in {shown}", hint)


_REAL = "A formula is real for real inputs; check signs and domains: roots, logarithms, inverse functions."

_SHAPES: dict[type, Callable[[_Sharer, Basic, list[Node]], Node | None]] = {
    Pow: _Sharer.power,
    Piecewise: _Sharer.piecewise,
    sympy.log: _Sharer.logarithm,
    sympy.Heaviside: _Sharer.heaviside,
    sympy.Mod: lambda self, item, args: args[0] - args[1] * self.graph.apply("floor", args[0] / args[1]),
    sympy.re: lambda self, item, args: args[0],
    sympy.conjugate: lambda self, item, args: args[0],
    sympy.im: lambda self, item, args: self.graph.const(0),
    sympy.factorial: _Sharer.factorial,
    sympy.Contains: lambda self, item, args: self.membership(item),
    sympy.UnevaluatedExpr: lambda self, item, args: args[0],
}


def _what_is(node: Node) -> str:
    return "is undefined" if node.number is sympy.nan else "is infinite"


def _is_real(number: Expr) -> bool:
    """Whether a number is real, infinite or nan."""
    if number is sympy.zoo or number.is_extended_real is False:
        return False
    if number.is_extended_real or number is sympy.nan:
        return True
    try:
        return complex(number.evalf(15)).imag == 0
    except (TypeError, ValueError, OverflowError):
        return False


_SHORT = 30  # parts of an expression that is shown whole


def _shown(item: Basic) -> str:
    """An expression in words; only what it is where it is long, for its text may be exponentially long."""
    parts, stack = 0, [item]
    while stack and parts <= _SHORT:
        part = stack.pop()
        parts += 1
        stack.extend(part.args)
    if stack:
        return f"{type(item).__name__}(...)"
    try:
        text = str(item)
    except (ValueError, RecursionError):  # a whole number of too many digits
        return "this number" if item.is_number else f"{type(item).__name__}(...)"
    return text if len(text) <= 100 else f"{text[:40]}..."
