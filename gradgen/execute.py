"""Executing a spec file, and turning whatever goes wrong in it into an error that quotes the line."""

from __future__ import annotations

import ast
import importlib.machinery
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from sympy import Basic, Symbol

from gradgen import mistakes
from gradgen.errors import GradgenError
from gradgen.literal import literally, only_builds, symbols_in


class Undecided(BaseException):
    """Python code asks for the value of a flag, which it has to be told."""


class Flag(Symbol):  # type: ignore[misc]
    """A bool parameter while a formula is built: a condition, about which Python's `if` cannot decide."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise Undecided


@dataclass(frozen=True)
class Place:
    """A piece of a spec file: its line and its text."""

    line: int
    text: str


class SpecFile:
    """The text of a spec file and what runs it.

    Raises:
        GradgenError: it cannot be read, or is no Python.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            hint = "Name one of the files in it." if path.is_dir() else None
            raise GradgenError(f"cannot read the spec file: {error.strerror}", file=path, hint=hint) from error
        except UnicodeDecodeError as error:
            problem = "cannot read the spec file: it is not UTF-8 text"
            raise GradgenError(problem, file=path, hint="Save it as UTF-8.") from error
        self.lines = self.text.split("\n")
        self.tree, self.code = self._compiled()
        self.literal = only_builds(self.tree, path.parent, frozenset({path}))

    def _compiled(self) -> tuple[ast.Module, CodeType]:
        try:
            tree = ast.parse(self.text, str(self.path))
            guarded = ast.fix_missing_locations(_Guards(self.text).visit(ast.parse(self.text, str(self.path))))
            return tree, compile(guarded, str(self.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
            raise self.error(f"Python cannot read this: {problem}", getattr(error, "lineno", None)) from error

    def comment_above(self, line: int) -> str:
        """The comment that ends right above a line: what documents a formula in the bare form."""
        start = line - 1
        while start > 0 and self.lines[start - 1].lstrip().startswith("#"):
            start -= 1
        return "\n".join(text.strip().lstrip("#").strip() for text in self.lines[start : line - 1])

    def quote(self, line: int | None) -> str | None:
        """A line of the file, stripped."""
        return self.lines[line - 1].strip() if line and line <= len(self.lines) else None

    def error(
        self, problem: str, line: int | None, hint: str | None = None, expression: str | None = None
    ) -> GradgenError:
        """An error about a line of the file."""
        quoted = expression or self.quote(line)
        return GradgenError(problem, file=self.path, line=line, expression=quoted, hint=hint)

    # Running the user's code

    def execute(self) -> dict[str, Any]:
        """Run the file; its namespace."""
        namespace: dict[str, Any] = {"__name__": self.path.stem, "__file__": str(self.path), **_GUARDS}
        self.run(lambda: exec(self.code, namespace))
        return {name: value for name, value in namespace.items() if name not in _GUARDS}

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Within, the files beside the spec can be imported; later they are forgotten, for the next one has its own."""
        finder, writes = _Siblings(self.path.parent), sys.dont_write_bytecode
        sys.meta_path.insert(0, finder)
        sys.dont_write_bytecode = True  # a build leaves nothing among the specs
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.dont_write_bytecode = writes
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.split(".")[0] in finder.found]:
                del sys.modules[name]

    def run(self, action: Callable[[], Any]) -> Any:
        """Run the user's code; what it raises becomes an error that quotes the line."""
        try:
            with literally() if self.literal else nullcontext():
                return action()
        except GradgenError as error:
            line = error.line or self.line_of(error)
            raise error.located(self.path, line, self.quote(line)) from error
        except (KeyboardInterrupt, Undecided):
            raise
        except BaseException as error:  # a spec may even call sys.exit
            line = self.line_of(error)
            problem, hint = mistakes.explain(error, self.statement_at(line), self.tree)
            raise self.error(problem, line, hint) from error

    def line_of(self, error: BaseException) -> int | None:
        """The last line of this file that the error passed through."""
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(self.path)]
        return lines[-1] if lines else None

    def statement_at(self, line: int | None) -> ast.stmt | None:
        """The innermost statement that holds a line."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.stmt) and line and _holds(n, line)]
        return max(found, key=lambda node: node.lineno, default=None)

    # Finding things in the text

    def definition(self, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
        """The node of a function; its code begins at the first decorator."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first == code.co_firstlineno and node.name == code.co_name:
                    return node
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                return node
        return None

    def defined(self, code: CodeType) -> Place:
        """Where a function is defined."""
        node = self.definition(code)
        line = node.lineno if node else code.co_firstlineno
        return Place(line, self.quote(line) or "")

    def returned(self, code: CodeType) -> Place:
        """What a function returns; its whole body, without the docstring, where it has several returns."""
        node = self.definition(code)
        values = [node.body] if isinstance(node, ast.Lambda) else _returned_values(node)
        if isinstance(node, ast.FunctionDef) and len(values) > 1:
            start = node.body[1 if ast.get_docstring(node) is not None else 0].lineno
            text = "\n".join(self.lines[start - 1 : node.end_lineno])
            return Place(start, textwrap.dedent(text))
        return self.place(values[0]) if values else self.defined(code)

    def place(self, node: ast.expr) -> Place:
        """Where an expression is, and how it was typed."""
        text = ast.get_source_segment(self.text, node) or ""
        first, *rest = text.split("\n")
        return Place(node.lineno, "\n".join([first, *textwrap.dedent("\n".join(rest)).split("\n")]) if rest else text)

    def bound(self, name: str) -> Place | None:
        """The last statement at module level that binds a name other than by an import."""
        places = [
            node.lineno
            for statement in self.tree.body
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef)
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
        ]
        return Place(places[-1], self.quote(places[-1]) or "") if places else None


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _returned_values(function: ast.FunctionDef | None) -> list[ast.expr]:
    """The values that a function returns, without those of functions inside it."""
    found: list[ast.expr] = []
    stack: list[ast.AST] = list(function.body) if function else []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return) and node.value:
            found.append(node.value)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return found


# Files beside a spec may be imported. They stay out of sys.path, where a random.py would hide Python's own.


class _Siblings:
    """Finds the modules of one folder; remembers which it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec, where it is a file of the folder."""
        if path is not None or name in sys.stdlib_module_names or name in ("gradgen", "sympy", "mpmath"):
            return None
        found = importlib.machinery.PathFinder.find_spec(name, [str(self.folder)], target)
        if found is not None and found.origin is not None:
            self.found.add(name)
            return found
        return None


# What Python decides at once although it should not: the truth of a symbol, and whether two formulas are equal


def _truth(value: Any, typed: str, hint: str) -> Any:
    """`value`, if Python can tell whether it is true."""
    if isinstance(value, Flag):
        raise Undecided
    if isinstance(value, Basic) and symbols_in(value):
        raise GradgenError(f"Python cannot decide whether {typed} is true: the inputs have no values yet", hint=hint)
    return value


def _equal(left: Any, right: Any, typed: str, hint: str) -> Any:
    """`left == right`, but for two formulas, of which it would only compare the spelling."""
    if isinstance(left, Flag) or isinstance(right, Flag):
        raise Undecided
    same = left == right
    if same is False and any(isinstance(side, Basic) and symbols_in(side) for side in (left, right)):
        raise GradgenError(f"{typed} compares how two formulas are spelt, and these differ", hint=hint)
    return same


def _unequal(left: Any, right: Any, typed: str, hint: str) -> Any:
    same = _equal(left, right, typed, hint)
    return not same if isinstance(same, bool) else left != right


_GUARDS: dict[str, Any] = {"__gradgen_truth__": _truth, "__gradgen_equal__": _equal, "__gradgen_unequal__": _unequal}

_CHOOSE = "Write Piecewise((a, condition), (b, True))."


class _Guards(ast.NodeTransformer):
    """Puts a call of a guard where Python would decide about a formula."""

    def __init__(self, text: str) -> None:
        self.text = text

    def typed(self, node: ast.expr) -> str:
        return " ".join((ast.get_source_segment(self.text, node) or ast.unparse(node)).split())

    def guard(self, name: str, node: ast.expr, values: list[ast.expr], typed: str, hint: str) -> ast.expr:
        words = [ast.Constant(typed), ast.Constant(hint)]
        call = ast.Call(ast.Name(f"__gradgen_{name}__", ast.Load()), [*values, *words], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def truth(self, node: ast.expr, hint: str) -> ast.expr:
        typed = self.typed(node)
        return self.guard("truth", node, [self.visit(node)], typed, hint)

    def _visit_test(self, node: Any) -> Any:
        test = self.truth(node.test, _CHOOSE)
        node.test = ast.Constant(True)
        node = self.generic_visit(node)
        node.test = test
        return node

    visit_If = visit_While = visit_IfExp = _visit_test  # noqa: N815 - ast's names

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "And" if isinstance(node.op, ast.And) else "Or"
        hint = f"Write {name}({', '.join(map(self.typed, node.values))})."
        last = self.visit(node.values[-1])
        node.values = [*(self.truth(value, hint) for value in node.values[:-1]), last]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            node.operand = self.truth(node.operand, f"Write Not({self.typed(node.operand)}).")
            return node
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1:
            return self.visit(self.chain(node))  # type: ignore[no-any-return]
        if isinstance(node.ops[0], ast.Eq | ast.NotEq):
            equal = isinstance(node.ops[0], ast.Eq)
            left, right = self.typed(node.left), self.typed(node.comparators[0])
            hint = f"Write {'Eq' if equal else 'Ne'}({left}, {right}) for a condition."
            values, typed = [self.visit(node.left), self.visit(node.comparators[0])], self.typed(node)
            return self.guard("equal" if equal else "unequal", node, values, typed, hint)
        return self.generic_visit(node)  # type: ignore[return-value]

    def chain(self, node: ast.Compare) -> ast.expr:
        """a < b < c as Python reads it, a < b and b < c."""
        sides = [node.left, *node.comparators]
        links: list[ast.expr] = []
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            link = ast.copy_location(ast.Compare(left, [operator], [right]), left)
            link.end_lineno, link.end_col_offset = right.end_lineno, right.end_col_offset
            links.append(link)
        return ast.copy_location(ast.BoolOp(ast.And(), links), node)
