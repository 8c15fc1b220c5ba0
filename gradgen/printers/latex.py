"""LaTeX: nodes become SymPy expressions, as they stand, and SymPy prints these; amsmath has all that it uses.

It is mathematics for a reader: what guards against rounding, overflow and NaN is left out, and functions of gradgen's
own are written in terms of others.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping

import sympy
from sympy import Basic, Expr, Float, Function, Rational, Symbol
from sympy.core.alphabets import greeks
from sympy.printing.latex import tex_greek_dictionary

from gradgen.graph import Node, topological
from gradgen.primitives import PRIMITIVES, PRODUCTS
from gradgen.printers.base import is_decimal


class LatexPrinter:
    """Prints nodes as LaTeX, for math mode.

    Args:
        names: the nodes that have names, which are printed instead of what they stand for.
    """

    def __init__(self, names: Mapping[Node, str]) -> None:
        self.names = names

    def statement(self, node: Node) -> str:
        """A named node's own expression."""
        return self._print(node, own=True)

    def expression(self, node: Node) -> str:
        """A node, by its name where it has one."""
        return self._print(node, own=False)

    def _print(self, node: Node, own: bool) -> str:
        made: dict[Node, Basic] = {
            named: Symbol(name) for named, name in self.names.items() if not (own and named is node)
        }
        for below in topological([node], stop=made.keys()):
            if below not in made:
                made[below] = _made(below, [made[arg] for arg in below.args])
        symbols = {item: symbol(item.name) for item in made[node].free_symbols}
        text: str = sympy.latex(made[node], order="none", symbol_names=symbols)
        return text


def symbol(name: str) -> str:
    """A name in math mode: beta and lambda_ are Greek, w0 and x_max get an index, x_ a prime; a word is upright."""
    plain = name.strip("_")
    head, *rest = plain.split("_") if plain else ["x"]
    letters, digits = _split(head)
    index = ",".join([*([digits] if digits else []), *map(_word, rest)])
    primes = "" if keyword.iskeyword(plain) else "'" * (len(name) - len(name.rstrip("_")))
    return _word(letters) + (f"_{{{index}}}" if index else "") + primes


def _split(word: str) -> tuple[str, str]:
    """The letters and the digits at the end of a word: w0 gives w and 0."""
    found = re.fullmatch(r"(.*?[A-Za-z])(\d+)", word)
    return (found[1], found[2]) if found else (word, "")


def _word(word: str) -> str:
    if word in tex_greek_dictionary:
        return str(tex_greek_dictionary[word])
    if word == "lambda" or word.lower() in greeks:
        return f"\\{word}"
    return word if len(word) <= 1 or word.isdigit() else rf"\mathrm{{{word}}}"


def operator(name: str) -> str:
    """The name of an operation in math mode."""
    escaped = name.replace("_", r"\_")
    return rf"\operatorname{{{escaped}}}"


# SymPy would evaluate, and bring its own order.


def _add(*items: Expr) -> Expr:
    parts = [part for item in items for part in (item.args if item.is_Add else (item,))]
    parts.sort(key=_is_subtracted)  # 1 - x, not -x + 1
    return sympy.Add(*parts, evaluate=False)


def _is_subtracted(item: Expr) -> bool:
    first = item.args[0] if item.is_Mul else item
    return bool(first.is_Number and first.is_negative)


def _mul(*items: Expr) -> Expr:
    parts = [part for item in items for part in (item.args if item.is_Mul else (item,)) if part != 1]
    numbers = [part for part in parts if part.is_Number]
    times = Counter(part for part in parts if not part.is_Number)
    rest = [power for part, count in times.items() for power in _power(part, count)]
    return sympy.Mul(*([sympy.Mul(*numbers)] if numbers else []), *rest, evaluate=False)


def _power(part: Expr, count: int) -> list[Expr]:
    """A factor that stands there some times: x*x is x**2, (1 + x)*(1 + x) remains."""
    return [_pow(part, sympy.Integer(count))] if part.is_Symbol and count > 1 else [part] * count


def _pow(base: Expr, exponent: Expr) -> Expr:
    return sympy.Pow(base, exponent, evaluate=False)


def _square(u: Expr) -> Expr:
    return u**2 if u.is_Number else _pow(u, sympy.Integer(2))


def _exp(u: Expr) -> Expr:
    return sympy.exp(u, evaluate=False)


def _log(u: Expr) -> Expr:
    return sympy.log(u, evaluate=False)


def _where(condition: Basic, p: Expr, q: Expr) -> Expr:
    """p where the condition holds, else q; a branch that is NaN only hands one on."""
    if p is sympy.nan or q is sympy.nan:
        return q if p is sympy.nan else p
    rest = q.args if isinstance(q, sympy.Piecewise) else [(q, sympy.true)]
    return sympy.Piecewise((p, condition), *rest, evaluate=False)


def _number(value: Expr) -> Expr:
    """A number; a long decimal as it was typed."""
    return Float(repr(float(value))) if is_decimal(value) and value.q > 100 else value


# What SymPy has under another name, or not at all
_WRITTEN: dict[str, Callable[..., Basic]] = {
    "add": _add,
    "mul": _mul,
    "pow": _pow,
    "where": _where,
    "damp": lambda v, r: _mul(r, v),
    "xmul": _mul,
    "unit": lambda a, h: _mul(a, _pow(h, sympy.S.NegativeOne)),
    "hypot": lambda u, v: _pow(_add(_square(u), _square(v)), sympy.S.Half),
    "cbrt": lambda u: _pow(u, Rational(1, 3)),
    "expm1": lambda u: _add(_exp(u), sympy.S.NegativeOne),
    "exp2": lambda u: _pow(sympy.Integer(2), u),
    "log1p": lambda u: _log(_add(sympy.S.One, u)),
    "log2": lambda u: _mul(_log(u), _pow(_log(sympy.Integer(2)), sympy.S.NegativeOne)),
    "log10": lambda u: _mul(_log(u), _pow(_log(sympy.Integer(10)), sympy.S.NegativeOne)),
    "logaddexp": lambda u, v: _log(_add(_exp(u), _exp(v))),
    "logistic_density": Function("sigmoid'"),
    "exprel": lambda k, u: _mul(_add(_exp(_mul(k, u)), sympy.S.NegativeOne), _pow(k, sympy.S.NegativeOne)),
    "dexprel": Function("exprel'"),
    "d2exprel": Function("exprel''"),
    "logrel": lambda k, u: _mul(_log(_add(sympy.S.One, _mul(k, u))), _pow(k, sympy.S.NegativeOne)),
    "dlogrel": Function("logrel'"),
    "d2logrel": Function("logrel''"),
    "langevin": lambda u: _add(sympy.coth(u, evaluate=False), _mul(sympy.S.NegativeOne, _pow(u, sympy.S.NegativeOne))),
    "dlangevin": Function("langevin'"),
    "d2langevin": Function("langevin''"),
    "dgelu": Function("gelu'"),
    "ndtr": Function("Phi"),
    "dsinc": Function("sinc'"),
    "d2sinc": Function("sinc''"),
    "sin_pi": lambda u: sympy.sin(_mul(sympy.pi, u), evaluate=False),
    "cos_pi": lambda u: sympy.cos(_mul(sympy.pi, u), evaluate=False),
    "sinc_pi": lambda u: sympy.sinc(_mul(sympy.pi, u), evaluate=False),
    "dsinc_pi": Function("sinc_pi'"),
    "d2sinc_pi": Function("sinc_pi''"),
    "gt": lambda a, b: sympy.Gt(a, b, evaluate=False),
    "ge": lambda a, b: sympy.Ge(a, b, evaluate=False),
    "lt": lambda a, b: sympy.Lt(a, b, evaluate=False),
    "le": lambda a, b: sympy.Le(a, b, evaluate=False),
    "eq": lambda a, b: sympy.Eq(a, b, evaluate=False),
    "ne": lambda a, b: sympy.Ne(a, b, evaluate=False),
    "and": lambda a, b: sympy.And(a, b, evaluate=False),
    "or": lambda a, b: sympy.Or(a, b, evaluate=False),
    "not": lambda a: sympy.Not(a, evaluate=False),
    "true": lambda: sympy.true,
}


def _made(node: Node, args: list[Basic]) -> Basic:
    """The SymPy expression of a node, given those of its operands."""
    if node.op in ("input", "flag", "given"):
        return Symbol(str(node.value))
    if node.number is not None:
        return _number(node.number)
    if node.op in _WRITTEN:
        return _WRITTEN[node.op](*args)
    if node.op in PRODUCTS:  # r * f(t) of a vanishing f
        factor, inner = args
        return _mul(factor, _function(PRODUCTS[node.op], [inner]))
    return _function(node.op, args)


def _function(op: str, args: list[Basic]) -> Basic:
    if op in _WRITTEN:
        return _WRITTEN[op](*args)
    function = PRIMITIVES[op].sympy
    return function(*args, evaluate=False) if function else Function(op)(*args)
