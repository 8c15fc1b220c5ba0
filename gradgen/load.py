"""From a spec file to `Formula`s: what the user wrote, checked for everything that needs no calculus.

A spec is executed with SymPy's automatic evaluation off, so that a formula arrives as it was typed: evaluation walks
expressions as trees, which takes minutes on a formula of sixteen nested levels, and rearranges them. A spec that
computes with expressions (`diff`, `subs`, ...) needs SymPy awake and is executed as usual.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import keyword
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sympy
from sympy import Expr, Piecewise, Symbol, Tuple
from sympy.core.function import UndefinedFunction
from sympy.logic.boolalg import Boolean

from gradgen import functions, language
from gradgen.errors import GradgenError
from gradgen.language import Op, Parameter


@dataclass(frozen=True)
class Formula:
    """One operation as the user wrote it.

    Attributes:
        name: the operation's name.
        doc: its docstring, "" without one.
        parameters: its signature.
        outputs: the SymPy expression of each output.
        derivatives: for an input, the user's own derivative of each output by it.
        names: names the user gave to intermediate expressions, for the generated code.
        file: the spec file.
        line: where the formula is returned.
        source: the text of the formula, as typed.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Expr, ...]
    file: Path
    line: int
    source: str
    derivatives: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    names: tuple[tuple[str, Expr], ...] = ()

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """The tensor inputs."""
        return tuple(p for p in self.parameters if p.kind == "tensor")

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        """The hyper-parameters."""
        return tuple(p for p in self.parameters if p.kind != "tensor")

    def error(self, problem: str, *, expression: object = None, hint: str | None = None) -> GradgenError:
        """An error about this formula; quotes `expression`, else the formula as typed."""
        quoted = self.source if expression is None else str(expression)
        return GradgenError(problem, file=self.file, line=self.line, expression=quoted, hint=hint)


def load(path: Path) -> list[Formula]:
    """The operations of a spec file, in the order of the file.

    Raises:
        GradgenError: for whatever is wrong with the file.
    """
    spec = _Spec(path)
    namespace, declared = spec.execute()
    formulas = [spec.formula(op) for op in declared]
    bare = {name: value for name, value in namespace.items() if not name.startswith("_")}
    formulas += [spec.bare_formula(name, value, namespace) for name, value in bare.items() if spec.is_bare(name, value)]
    if not formulas:
        raise GradgenError(
            "no operation in this file",
            file=path,
            hint="Decorate a function with @op (from gradgen import Tensor, op), or bind a SymPy expression of symbols"
            " to a public name.",
        )
    formulas.sort(key=lambda formula: formula.line)
    for formula in formulas:
        _check_names(formula)
    _check_unique(formulas)
    return formulas


class _Spec:
    """A spec file while it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise GradgenError(f"cannot read the spec file: {reason}", file=path) from error
        self.lines = self.text.splitlines()
        try:
            self.tree = ast.parse(self.text, str(path))
            self.code = compile(self.tree, str(path), "exec")
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise GradgenError(
                f"Python cannot read this: {getattr(error, 'msg', error)}",
                file=path,
                line=line,
                expression=self.quote(line),
            ) from error
        self.literal = not _computes(self.tree)

    def quote(self, line: int | None) -> str | None:
        """A line of the file, stripped."""
        return self.lines[line - 1].strip() if line and line <= len(self.lines) else None

    def execute(self) -> tuple[dict[str, Any], list[Op]]:
        """Run the file; its namespace and the ops it declared itself."""
        namespace: dict[str, Any] = {"__name__": self.path.stem, "__file__": str(self.path)}
        language.DECLARED.clear()
        sys.path.insert(0, str(self.path.parent))
        try:
            self.guarded(lambda: exec(self.code, namespace))
        finally:
            sys.path.remove(str(self.path.parent))
        declared = [op for op in language.DECLARED if op.function.__code__.co_filename == str(self.path)]
        return namespace, declared

    def guarded(self, run: Callable[[], Any]) -> Any:
        """Run the user's code; what it raises becomes an error that quotes the line."""
        evaluation = sympy.evaluate(False) if self.literal else nullcontext()
        try:
            with evaluation:
                return run()
        except GradgenError as error:
            line = error.line or self.line_of(error)
            raise error.located(self.path, line, self.quote(line)) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a spec may even call sys.exit
            line = self.line_of(error)
            problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise GradgenError(
                problem, file=self.path, line=line, expression=self.quote(line), hint=_hint(error)
            ) from error

    def line_of(self, error: BaseException) -> int | None:
        """The last line of this file that the error passed through."""
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(self.path)]
        return lines[-1] if lines else None

    # Ops by decorator

    def formula(self, op: Op) -> Formula:
        """Call the op's function with symbols."""
        code = op.function.__code__
        try:
            parameters = language.parameters(op)
        except GradgenError as error:
            line = self.definition_line(code)
            raise error.located(self.path, line, self.quote(line)) from error
        line, source = self.returned(code)
        result, names = self.call(op.function, parameters)
        outputs = self.expressions(result, op.name, line, source)
        derivatives = {
            name: self.derivative(op, name, function, parameters, len(outputs))
            for name, function in op.derivatives.items()
        }
        doc = inspect.getdoc(op.function) or ""
        return Formula(op.name, doc, parameters, outputs, self.path, line, source, derivatives, names)

    def call(
        self, function: Callable[..., Any], parameters: tuple[Parameter, ...]
    ) -> tuple[Any, tuple[tuple[str, Expr], ...]]:
        """The function's result, and the names it gave to expressions on the way.

        A bool is not a number: the function is called with true and with false, so that `if flag:` works as well as a
        condition of a Piecewise, and the two results are selected by the flag.
        """
        flags = [p.name for p in parameters if p.kind == "bool"]
        cases: list[tuple[Any, Any]] = []
        names: dict[str, Expr] = {}
        for values in itertools.product((sympy.true, sympy.false), repeat=len(flags)):
            chosen = dict(zip(flags, values, strict=True))
            symbols = {p.name: chosen[p.name] if p.kind == "bool" else _symbol(p) for p in parameters}
            wanted = inspect.signature(function).parameters
            with _locals_at_return(function.__code__) as found:
                result = self.guarded(lambda: function(**{n: s for n, s in symbols.items() if n in wanted}))  # noqa: B023
            cases.append((values, result))
            names.update({n: v for n, v in found.items() if isinstance(v, Expr) and n not in symbols})
        return _select(flags, cases), tuple(names.items())

    def derivative(
        self, op: Op, name: str, function: Callable[..., Any], parameters: tuple[Parameter, ...], outputs: int
    ) -> tuple[Expr, ...]:
        """The user's own derivative of each output by the input `name`."""
        line, source = self.returned(function.__code__)
        here = {"file": self.path, "line": self.definition_line(function.__code__)}
        inputs = [p.name for p in parameters if p.kind == "tensor" and p.grad]
        if name not in inputs:
            known = ", ".join(inputs) or "none"
            raise GradgenError(
                f"{op.name} has no differentiable input {name!r}",
                expression=f'@{op.name}.derivative("{name}")',
                hint=f"Its differentiable inputs: {known}.",
                **here,  # type: ignore[arg-type]
            )
        unknown = [p for p in inspect.signature(function).parameters if p not in {q.name for q in parameters}]
        if unknown:
            raise GradgenError(
                f"the derivative of {op.name} by {name!r} takes {unknown[0]!r}, which is no parameter of {op.name}",
                expression=self.quote(self.definition_line(function.__code__)),
                hint=f"It takes parameters of the op, by name: {', '.join(p.name for p in parameters)}.",
                **here,  # type: ignore[arg-type]
            )
        result, _ = self.call(function, parameters)
        expressions = self.expressions(result, f"the derivative of {op.name}", line, source)
        if len(expressions) != outputs:
            raise GradgenError(
                f"the derivative of {op.name} by {name!r} returns {len(expressions)} expressions, one is needed for each"
                f" of the {outputs} outputs",
                expression=source,
                **here,  # type: ignore[arg-type]
            )
        return expressions

    def definition_line(self, code: CodeType) -> int:
        """The line of a function's def (its code begins at the first decorator)."""
        node = self.function_node(code)
        return node.lineno if node else code.co_firstlineno

    def function_node(self, code: CodeType) -> ast.FunctionDef | None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first == code.co_firstlineno:
                    return node
        return None

    def returned(self, code: CodeType) -> tuple[int, str]:
        """Line and text of what a function returns."""
        node = self.function_node(code)
        returns = [n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value] if node else []
        if not returns:
            return self.definition_line(code), self.quote(self.definition_line(code)) or ""
        last = max(returns, key=lambda n: n.lineno)
        return last.lineno, ast.get_source_segment(self.text, last.value) or ""  # type: ignore[arg-type]

    def expressions(self, result: Any, name: str, line: int, source: str) -> tuple[Expr, ...]:
        """The outputs as a tuple of expressions; anything else is an error."""
        outputs = tuple(result) if isinstance(result, tuple | Tuple) else (result,)
        here = {"file": self.path, "line": line, "expression": source}
        if not outputs:
            raise GradgenError(f"{name} returns an empty tuple", **here)  # type: ignore[arg-type]
        return tuple(_expression(output, name, here) for output in outputs)

    # Ops in the bare form

    def is_bare(self, name: str, value: Any) -> bool:
        """Whether a module-level name is an op: an expression of symbols. A container of such is a mistake."""
        if isinstance(value, Expr) and not value.is_Matrix:
            return not isinstance(value, Symbol) and bool(_symbols(value))
        items = value if isinstance(value, list | tuple | set | sympy.MatrixBase) else ()
        if any(isinstance(item, Expr) and not isinstance(item, Symbol) and _symbols(item) for item in items):
            line = self.binding_line(name)
            raise GradgenError(
                f"{name} is a {type(value).__name__}, no expression",
                file=self.path,
                line=line,
                expression=self.quote(line),
                hint="Bind each expression to a name of its own; for one op with several outputs use @op and return a"
                " tuple. A name that begins with _ is left alone.",
            )
        return False

    def bare_formula(self, name: str, value: Expr, namespace: dict[str, Any]) -> Formula:
        bound = [v.name for v in namespace.values() if isinstance(v, Symbol)]
        found = _symbols(value)
        order = [*dict.fromkeys(n for n in bound if n in found), *(n for n in found if n not in bound)]
        line = self.binding_line(name)
        names = tuple((n, v) for n, v in namespace.items() if isinstance(v, Expr) and not isinstance(v, Symbol))
        source = self.quote(line) or str(value)
        _expression(value, name, {"file": self.path, "line": line, "expression": source})
        parameters = tuple(Parameter(n, "tensor") for n in order)
        return Formula(name, "", parameters, (value,), self.path, line, source, {}, names)

    def binding_line(self, name: str) -> int:
        """The last line at module level that binds a name."""
        lines = [
            node.lineno
            for statement in self.tree.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
        ]
        return lines[-1] if lines else 1


def _symbol(parameter: Parameter) -> Symbol:
    return Symbol(parameter.name, integer=True) if parameter.kind == "int" else Symbol(parameter.name, real=True)


def _symbols(expression: Expr) -> list[str]:
    """The names of the symbols of an expression in order of appearance; walks it as a graph, not as a tree."""
    names: dict[str, None] = {}
    seen: set[int] = set()
    stack: list[Any] = [expression]
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Symbol):
            names[item.name] = None
        stack.extend(reversed(item.args))
    return list(names)


def _select(flags: list[str], cases: list[tuple[Any, Any]]) -> Any:
    """The results of a function for each value of its flags, as one result with conditions."""
    if not flags:
        return cases[0][1]
    results = [result for _, result in cases]
    if any(isinstance(result, tuple) for result in results):
        if len({len(result) if isinstance(result, tuple) else 1 for result in results}) > 1:
            return [*results]  # as many outputs for either value, or it is no op; reported like any list
        columns = zip(*results, strict=True)
        return tuple(_select(flags, [(c[0], r) for c, r in zip(cases, column, strict=True)]) for column in columns)
    if not all(isinstance(result, Expr | int | float) for result in results):
        return next(result for result in results if not isinstance(result, Expr | int | float))
    half = len(cases) // 2
    p = _select(flags[1:], cases[:half]) if len(flags) > 1 else results[0]
    q = _select(flags[1:], cases[half:]) if len(flags) > 1 else results[1]
    if p is q or p == q:
        return sympy.sympify(p)
    return Piecewise((p, Symbol(flags[0])), (q, True), evaluate=False)


@contextmanager
def _locals_at_return(code: CodeType) -> Iterator[dict[str, Any]]:
    """Collects the local variables of a function as it returns: the user's own names for intermediate results."""
    found: dict[str, Any] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is code:
            found.update(frame.f_locals)

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(previous)


def _expression(value: Any, name: str, here: dict[str, Any]) -> Expr:
    if isinstance(value, bool | Boolean):
        raise GradgenError(
            f"{name} gives a condition, no number", hint="Write Piecewise((1, condition), (0, True)).", **here
        )
    if isinstance(value, int | float):
        value = sympy.sympify(value)
    if isinstance(value, Expr) and not getattr(value, "is_Matrix", False):
        return value
    if value is None:
        raise GradgenError(f"{name} gives None, no expression", hint="Return the formula.", **here)
    hint = "Return a SymPy expression, or for several outputs a tuple of expressions."
    raise GradgenError(f"{name} gives a {type(value).__name__}, no expression", hint=hint, **here)


# Names

# What a generated module imports or uses, beside Python's builtins.
_MODULE_NAMES = frozenset({"torch", "rt", "Tensor", "annotations", "math"})
_PARAMETER_NAMES = _MODULE_NAMES | {"self", "ctx", "cls"}


def class_name(name: str) -> str:
    """The class of an op: leaky_relu gives LeakyRelu."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def generated_names(name: str) -> tuple[str, ...]:
    """The public names that an op puts into its module."""
    return name, f"{class_name(name)}Function", f"{class_name(name)}BackwardFunction", class_name(name)


def _check_names(formula: Formula) -> None:
    name = formula.name
    hint = f"Rename it, for example {name}_op." if name.isidentifier() else "Use letters, digits and underscores."
    if not name.isidentifier() or keyword.iskeyword(name):
        raise formula.error(f"{name!r} is no name for an operation", hint=hint)
    clash = [n for n in generated_names(name) if n in _MODULE_NAMES or hasattr(builtins, n)]
    if clash:
        raise formula.error(f"the operation {name} would hide {clash[0]!r} in its module", hint=hint)
    if len(set(generated_names(name))) < len(generated_names(name)) or not re.match("[a-z]", name):
        raise formula.error(
            f"the operation {name} and its class {class_name(name)} need different names",
            hint="Begin the operation's name with a lower-case letter.",
        )
    for p in formula.parameters:
        if not p.name.isidentifier() or keyword.iskeyword(p.name) or p.name in _PARAMETER_NAMES:
            raise formula.error(f"{p.name!r} is no name for a parameter of {name}", hint="Choose another name.")
    if not formula.tensors:
        raise formula.error(f"{name} has no tensor input", hint="Annotate an input as Tensor.")


def _check_unique(formulas: list[Formula]) -> None:
    owners: dict[str, Formula] = {}
    for formula in formulas:
        for name in generated_names(formula.name):
            if name in owners:
                other = owners[name]
                clash = "two operations" if other.name == formula.name else f"{other.name} and {formula.name} both"
                raise formula.error(
                    f"{clash} of this file would be called {name}",
                    hint=f"The other one is in line {other.line}; rename one.",
                )
            owners[name] = formula


# Which specs compute, and what their exceptions mean

_MAKERS = frozenset({"symbols", "Symbol", "Rational", "Integer", "Float", "S", "sympify", "sqrt", "cbrt", "root", "evaluate"})


def _computes(tree: ast.Module) -> bool:
    """Whether a spec calls more of SymPy than constructors, or a method of an expression."""
    imported: dict[str, str] = {}
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sympy":
            imported.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return any(isinstance(node, ast.Call) and _is_computation(node.func, imported, modules) for node in ast.walk(tree))


def _is_computation(called: ast.expr, imported: dict[str, str], modules: set[str]) -> bool:
    if isinstance(called, ast.Name):
        starred = "*" in imported and hasattr(sympy, called.id) and not hasattr(builtins, called.id)
        return (called.id in imported or starred) and not _constructs(imported.get(called.id, called.id))
    if isinstance(called, ast.Attribute):
        if isinstance(called.value, ast.Name) and called.value.id in modules:
            return hasattr(sympy, called.attr) and not _constructs(called.attr)
        return called.attr != "derivative"
    return False


def _constructs(name: str) -> bool:
    """Whether a name of SymPy only builds an expression."""
    if name in _MAKERS or hasattr(functions, name):
        return True
    value = getattr(sympy, name, None)
    if isinstance(value, type):
        kinds = (sympy.Function, Boolean, Expr, UndefinedFunction)
        return issubclass(value, kinds) and not issubclass(value, sympy.Derivative | sympy.Integral | sympy.Sum)
    return value is None


def _hint(error: BaseException) -> str | None:
    text = str(error)
    if "truth value of Relational" in text:
        return "Python's if cannot decide about symbols: write Piecewise((a, condition), (b, True))."
    if "Cannot convert expression to float" in text or "must be real number, not" in text:
        return "Use SymPy's function instead of math's: from sympy import exp, sin, ..."
    if "ufunc" in text or "no callable" in text:
        return "Use SymPy's function instead of numpy's: from sympy import exp, sin, ..."
    if isinstance(error, NameError):
        return "Import it (from sympy import ...), or make it a parameter of the op."
    if isinstance(error, ModuleNotFoundError):
        return "A spec file needs sympy and gradgen alone."
    return None
