"""SymPy building formulas as they are typed, and telling the spec files for which that will do.

SymPy evaluates while it builds: it rearranges a formula, and walks it as a tree, which takes minutes where sixteen
steps are nested. So a spec is executed with evaluation off. Evaluation must stay on where a spec computes with formulas
(`diff`, `subs`, ...), for SymPy's algorithms rely on it. A spec can only compute by something that it imports, by an
attribute, or by a builtin like `getattr`: where all of these are known to build and no more, so does the spec.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import sympy
from sympy import And, Basic, Expr, Max, Min, Or, Symbol
from sympy.core.relational import Relational
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean, as_Boolean

import gradgen
from gradgen import functions


@contextmanager
def literally() -> Iterator[None]:
    """Within, SymPy builds what is typed.

    `sympy.evaluate(False)` leaves out the classes that are taken over here: they would still compare and sort their
    arguments, by algorithms that fail without evaluation.
    """
    with ExitStack() as stack:
        stack.enter_context(sympy.evaluate(False))
        for kind, convert in ((Max, sympy.sympify), (Min, sympy.sympify), (And, as_Boolean), (Or, as_Boolean)):
            stack.enter_context(_taken_over(kind, _lattice(convert)))
        stack.enter_context(_taken_over(ExprCondPair, _pair))
        yield


@contextmanager
def _taken_over(kind: Any, new: Callable[..., Any]) -> Iterator[None]:
    """Within, `new` makes the instances of a class."""
    own = kind.__dict__.get("__new__")
    kind.__new__ = new
    try:
        yield
    finally:
        if own is None:
            del kind.__new__
        else:
            kind.__new__ = own


def _lattice(convert: Callable[[Any], Basic]) -> Callable[..., Basic]:
    """Makes Max, Min, And, Or of their arguments in the order of typing."""

    def new(cls: Any, *args: Any, **_: Any) -> Basic:
        converted = [convert(arg) for arg in args]
        if len(converted) < 2:
            return converted[0] if converted else cls.identity
        made = Basic.__new__(cls, *converted)
        made._argset = frozenset(converted)
        return made

    return new


def _pair(cls: Any, *pair: Any) -> Basic:
    """Makes a branch of a Piecewise; a condition that holds a Piecewise itself stays as it is."""
    if len(pair) != 2:
        raise TypeError("a branch of Piecewise is an (expr, cond) pair")
    value, condition = pair
    if condition in (True, False):
        condition = sympy.sympify(bool(condition))
    if not isinstance(condition, Boolean):
        raise TypeError(f"Second argument must be a Boolean, not `{condition}`")
    return sympy.Tuple.__new__(cls, sympy.sympify(value), condition)


def nodes_of(expression: Basic) -> list[Basic]:
    """Every part of an expression once, operands before what uses them; walks it as a graph, not as a tree."""
    done: dict[int, Basic] = {}
    stack: list[tuple[Basic, bool]] = [(expression, False)]
    while stack:
        item, seen = stack.pop()
        if seen:
            done.setdefault(id(item), item)
        elif id(item) not in done:
            stack.append((item, True))
            stack.extend((arg, False) for arg in reversed(item.args) if isinstance(arg, Basic))
    return list(done.values())


def depth_of(expression: Basic) -> int:
    """How many steps an expression is nested deep."""
    depth: dict[int, int] = {}
    for part in nodes_of(expression):
        depth[id(part)] = 1 + max((depth[id(arg)] for arg in part.args if id(arg) in depth), default=0)
    return depth[id(expression)]


def symbols_in(expression: Basic) -> list[Symbol]:
    """The symbols of an expression in order of appearance."""
    return [part for part in dict.fromkeys(nodes_of(expression)) if isinstance(part, Symbol)]


# Which specs only build

_SAFE_MODULES = frozenset(
    {"__future__", "abc", "collections", "dataclasses", "enum", "fractions", "functools", "itertools", "math", "typing"}
)
_SAFE_METHODS = frozenset({"append", "derivative", "extend", "format", "items", "join", "keys", "split", "values"})
_UNSAFE_BUILTINS = frozenset(
    {
        "__builtins__",
        "__import__",
        "compile",
        "delattr",
        "eval",
        "exec",
        "getattr",
        "globals",
        "locals",
        "setattr",
        "vars",
    }
)
_UNSAFE_CLASSES = (sympy.Derivative, sympy.Integral, sympy.Lambda, sympy.Limit, sympy.Product, sympy.Subs, sympy.Sum)
_MAKERS = frozenset({"symbols", "Symbol", "Rational", "Integer", "Float", "sqrt", "cbrt", "root"})


def only_builds(tree: ast.Module, folder: Path, seen: frozenset[Path] = frozenset()) -> bool:
    """Whether a file, and the files of its folder that it imports, do no more with formulas than to build them."""
    modules: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if not _is_safe_module(alias.name, folder, seen):
                    return False
                modules[alias.asname or alias.name.split(".")[0]] = {"sympy": sympy, "gradgen": gradgen}.get(alias.name)
        elif isinstance(node, ast.ImportFrom) and not _is_safe_import(node, folder, seen):
            return False
    starred = _has_star(tree)
    allowed = set(_constants(tree))
    return all(_is_safe(node, modules, starred, allowed) for node in ast.walk(tree))


def _is_safe(node: ast.AST, modules: dict[str, Any], starred: bool, allowed: set[int]) -> bool:
    """Whether a node gives no access to anything that computes with formulas."""
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else None
        if owner in modules:
            return modules[owner] is None or id(node) in allowed or builds(modules[owner], node.attr)
        return owner == "S" or node.attr in _SAFE_METHODS
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in allowed:
        known = starred and hasattr(sympy, node.id) and not hasattr(builtins, node.id)
        return node.id not in _UNSAFE_BUILTINS and (not known or builds(sympy, node.id))
    return True


def _constants(tree: ast.Module) -> Iterator[int]:
    """The nodes of S and sympify where they stand for numbers, as in S(1), S.Half; they read whole formulas, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "S":
            yield id(node.value)
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", ""))
            in (
                "S",
                "sympify",
            )
            and all(isinstance(arg, ast.Constant) and isinstance(arg.value, int | float) for arg in node.args)
        ):
            yield id(node.func)


def _has_star(tree: ast.Module) -> bool:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(alias.name == "*" for node in imports for alias in node.names)


def _is_safe_import(node: ast.ImportFrom, folder: Path, seen: frozenset[Path]) -> bool:
    top = (node.module or "").split(".")[0]
    names = [alias.name for alias in node.names]
    if top == "sympy":
        return node.module == "sympy.abc" or all(n in ("*", "S", "sympify") or builds(sympy, n) for n in names)
    if top == "gradgen":
        return all(n == "*" or n in gradgen.__all__ or builds(functions, n) for n in names)
    return not node.level and _is_safe_module(node.module or "", folder, seen)


def _is_safe_module(name: str, folder: Path, seen: frozenset[Path]) -> bool:
    """Whether a module has no formulas to compute with, or only builds them."""
    if name in ("sympy", "gradgen"):
        return True
    path = folder.joinpath(*name.split(".")).with_suffix(".py")
    if path in seen:
        return True
    if not path.is_file():
        return name in _SAFE_MODULES
    try:
        tree = ast.parse(path.read_text(encoding="utf-8-sig"))
    except (OSError, SyntaxError, ValueError):
        return True  # executing it will say what is wrong
    return only_builds(tree, folder, seen | {path})


def builds(module: Any, name: str) -> bool:
    """Whether a name of SymPy or gradgen only builds an expression."""
    value = getattr(module, name, None)
    if module is gradgen or name in _MAKERS or hasattr(functions, name):
        return value is not None
    if isinstance(value, type):
        return issubclass(value, Expr | Boolean | Relational) and not issubclass(value, _UNSAFE_CLASSES)
    return isinstance(value, Basic)
