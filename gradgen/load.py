"""From a spec file to `Formula`s: what the user wrote, checked for everything that needs no calculus."""

from __future__ import annotations

import builtins
import inspect
import itertools
import keyword
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sympy
from sympy import Basic, Expr, Piecewise, Symbol, Tuple
from sympy.logic.boolalg import Boolean

from gradgen import language
from gradgen.errors import GradgenError
from gradgen.execute import Flag, Place, SpecFile, Undecided
from gradgen.language import Op, Parameter
from gradgen.literal import depth_of, nodes_of, symbols_in

Names = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Formula:
    """One operation as the user wrote it.

    Attributes:
        name: the operation's name.
        doc: its docstring, "" without one.
        parameters: its signature.
        outputs: the SymPy expression of each output.
        file: the spec file.
        line: where the formula is returned.
        source: the text of the formula, as typed.
        derivatives: for an input, the user's own derivative of each output by it.
        names: names the user gave to intermediate expressions, for the generated code.
        places: for an input, where the user's own derivative by it is returned.
        text: all of the spec file.
        in_float32: whether within autocast it computes in float32, not in the type of its inputs.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Expr, ...]
    file: Path
    line: int
    source: str
    derivatives: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    names: Names = ()
    places: dict[str, Place] = field(default_factory=dict)
    text: str = ""
    in_float32: bool = False

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """The tensor inputs."""
        return tuple(p for p in self.parameters if p.kind == "tensor")

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        """The hyper-parameters."""
        return tuple(p for p in self.parameters if p.kind != "tensor")

    def error(self, problem: str, *, within: Basic | None = None, hint: str | None = None) -> GradgenError:
        """An error about this formula, or about the user's own derivative that is the expression `within`."""
        place = Place(self.line, self.source)
        for name, expressions in self.derivatives.items():
            if name in self.places and any(expression is within for expression in expressions):
                place = self.places[name]
        return GradgenError(problem, file=self.file, line=place.line, expression=place.text, hint=hint)


def load(path: Path) -> list[Formula]:
    """The operations of a spec file, in the order of the file.

    Raises:
        GradgenError: for whatever is wrong with the file.
    """
    spec = SpecFile(path)
    with spec.importing():
        formulas = _formulas(spec)
    formulas.sort(key=lambda formula: formula.line)
    for formula in formulas:
        _check_names(formula)
    _check_unique(formulas)
    return formulas


def _formulas(spec: SpecFile) -> list[Formula]:
    """The formulas of a file, those that are decorated first."""
    language.DECLARED.clear()
    namespace = spec.execute()
    formulas = [_Reader(spec, op).formula() for op in language.DECLARED if str(spec.path) in op.files]
    public = {name: value for name, value in namespace.items() if not name.startswith("_") and spec.bound(name)}
    for name, value in public.items():
        if _is_bare(spec, name, value):
            formulas.append(_bare_formula(spec, name, value, namespace))
    if not formulas:
        raise _nothing_found(spec, public)
    return formulas


def _nothing_found(spec: SpecFile, public: dict[str, Any]) -> GradgenError:
    """The error for a file without an op; about what looks most like one."""
    problem = "no operation in this file"
    for name, value in public.items():
        if isinstance(value, Basic) and not isinstance(value, Symbol) and symbols_in(value):
            place = spec.bound(name) or Place(1, "")
            return spec.error(f"{problem}: {_described(value, name)}", place.line, _DECLARE, place.text)
    for node in spec.tree.body:
        if getattr(node, "args", None) and hasattr(node, "decorator_list") and not node.decorator_list:
            hint = "Write @op above it, and from gradgen import op at the top."
            return spec.error(f"{problem}: {node.name} is not declared as one", node.lineno, hint)  # type: ignore[attr-defined]
    return GradgenError(problem, file=spec.path, hint=_DECLARE)


_DECLARE = (
    "Decorate a function with @op (from gradgen import Tensor, op), or bind a SymPy expression of symbols to a public"
    " name."
)


# Ops by decorator


class _Reader:
    """Reads one decorated function."""

    def __init__(self, spec: SpecFile, op: Op) -> None:
        self.spec = spec
        self.op = op
        try:
            self.parameters = language.parameters(op)
        except GradgenError as error:
            place = spec.defined(op.function.__code__)
            raise error.located(spec.path, place.line, place.text) from error

    def formula(self) -> Formula:
        """The op's formula and the user's own derivatives."""
        op = self.op
        place = self.spec.returned(op.function.__code__)
        result, names = self.call(op.function)
        outputs = _expressions(self.spec, result, op.name, place)
        names = _parts(names, outputs)
        derivatives = {name: self.derivative(name, function, len(outputs)) for name, function in op.derivatives.items()}
        places = {name: self.spec.returned(function.__code__) for name, function in op.derivatives.items()}
        doc = inspect.getdoc(op.function) or ""
        return Formula(
            op.name,
            doc,
            self.parameters,
            outputs,
            self.spec.path,
            place.line,
            place.text,
            derivatives,
            names,
            places,
            self.spec.text,
            op.in_float32,
        )

    def call(self, function: Callable[..., Any]) -> tuple[Any, Names]:
        """The function's result, and the names it gave to expressions on the way.

        A flag is a symbol, a condition, as long as that will do. Where Python has to decide about it (`if flag:`), the
        function is called for each value of its flags, and the results are selected by them.
        """
        flags = [p.name for p in self.parameters if p.kind == "bool"]
        try:
            return self.call_once(function, {name: Flag(name) for name in flags})
        except Undecided:
            pass
        if len(flags) > _MOST_FLAGS:
            place = self.spec.defined(function.__code__)
            raise self.spec.error(
                f"{self.op.name} has {len(flags)} bool parameters, and asks for their values",
                place.line,
                "Use them as conditions, Piecewise((a, flag), (b, True)), in place of Python's if.",
            )
        cases: list[Any] = []
        names: dict[str, Expr] = {}
        for values in itertools.product((sympy.true, sympy.false), repeat=len(flags)):
            result, found = self.call_once(function, dict(zip(flags, values, strict=True)))
            cases.append(result)
            names.update(found)
        return _select(flags, cases), tuple(names.items())

    def call_once(self, function: Callable[..., Any], flags: dict[str, Any]) -> tuple[Any, Names]:
        symbols = {p.name: flags[p.name] if p.kind == "bool" else _symbol(p) for p in self.parameters}
        signature = inspect.signature(function).parameters.values()
        by_position = [symbols[p.name] for p in signature if p.kind is p.POSITIONAL_ONLY]
        by_name = {p.name: symbols[p.name] for p in signature if p.kind is not p.POSITIONAL_ONLY}
        with _locals_at_return(function.__code__) as found:
            result = self.spec.run(lambda: function(*by_position, **by_name))
        hints = {_hint_name(n): v for n, v in found.items() if isinstance(v, Expr) and n not in symbols}
        return result, tuple((name, value) for name, value in hints.items() if name)

    def derivative(self, name: str, function: Callable[..., Any], outputs: int) -> tuple[Expr, ...]:
        """The user's own derivative of each output by the input `name`."""
        op, spec = self.op, self.spec
        defined = spec.defined(function.__code__)
        inputs = [p.name for p in self.parameters if p.kind == "tensor" and p.grad]
        if name not in inputs:
            hint = f"Its differentiable inputs: {', '.join(inputs) or 'none'}."
            problem = f"{op.name} has no differentiable input {name!r}"
            raise spec.error(problem, defined.line, hint, f'@{op.name}.derivative("{name}")')
        known = [p.name for p in self.parameters]
        unknown = [p for p in inspect.signature(function).parameters.values() if p.name not in known or _is_rest(p)]
        if unknown:
            problem = f"the derivative of {op.name} by {name!r} takes {unknown[0]}, which is no parameter of {op.name}"
            raise spec.error(problem, defined.line, f"It takes parameters of the op, by name: {', '.join(known)}.")
        place = spec.returned(function.__code__)
        result, _ = self.call(function)
        expressions = _expressions(spec, result, f"the derivative of {op.name} by {name!r}", place)
        if len(expressions) != outputs:
            given = f"{len(expressions)} expression{'s' if len(expressions) > 1 else ''}"
            needed = f"{op.name} has {outputs} output{'s' if outputs > 1 else ''}"
            problem = f"the derivative of {op.name} by {name!r} returns {given}, but {needed}"
            raise spec.error(problem, place.line, "Return one expression for each output.", place.text)
        return expressions


_MOST_FLAGS = 8  # the function is called for each combination of their values


def _is_rest(p: inspect.Parameter) -> bool:
    return p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def _symbol(parameter: Parameter) -> Symbol:
    return Symbol(parameter.name, integer=True) if parameter.kind == "int" else Symbol(parameter.name, real=True)


def _select(flags: Sequence[str], cases: Sequence[Any]) -> Any:
    """The results of a function for each combination of its flags, as one result with conditions."""
    if not flags:
        return cases[0]
    if any(isinstance(result, tuple | Tuple) for result in cases):
        if len({len(result) if isinstance(result, tuple | Tuple) else 1 for result in cases}) > 1:
            return list(cases)  # as many outputs for either value, or it is no op; reported like any list
        return tuple(_select(flags, column) for column in zip(*cases, strict=True))
    odd = [result for result in cases if not _is_number(result)]
    if odd:
        return odd[0]  # to be reported
    half = len(cases) // 2
    p, q = _select(flags[1:], cases[:half]), _select(flags[1:], cases[half:])
    return sympy.sympify(p) if p is q else Piecewise((p, Flag(flags[0])), (q, True), evaluate=False)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, Expr | int | float) and not isinstance(value, bool | Boolean | sympy.MatrixBase)
    ) or _is_symbol(value)


def _is_symbol(value: Any) -> bool:
    """A symbol other than a flag. To SymPy every symbol is a Boolean, too."""
    return isinstance(value, Symbol) and not isinstance(value, Flag)


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
        if previous is None or callable(previous):
            sys.setprofile(previous)
        else:  # a profiler written in C, such as cProfile's, is asked to go on by itself
            previous.enable()


def _hint_name(name: str) -> str:
    """A user's name in the letters that C knows: σ gives sigma; "" where that gives no name."""
    spelled = "".join(letter if letter.isascii() else _latin(letter) for letter in name)
    return spelled if spelled.isidentifier() else ""


def _latin(letter: str) -> str:
    found = re.fullmatch("GREEK (SMALL|CAPITAL) LETTER (?:FINAL )?([A-Z]+)", unicodedata.name(letter, ""))
    if found:
        return found[2].title() if found[1] == "CAPITAL" else found[2].lower().replace("lamda", "lambda_")
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()


def _parts(names: Names, outputs: Sequence[Expr]) -> Names:
    """The names of what the outputs contain; a leftover names nothing."""
    parts = {part for output in outputs for part in nodes_of(output)}
    return tuple((n, v) for n, v in names if v.args and v in parts and depth_of(v) <= _DEEP)


# What a function returned, what a name is bound to


def _expressions(spec: SpecFile, result: Any, name: str, place: Place) -> tuple[Expr, ...]:
    """The outputs as a tuple of expressions; anything else is an error."""
    outputs = tuple(result) if isinstance(result, tuple | Tuple) else (result,)
    if not outputs:
        raise spec.error(f"{name} returns an empty tuple", place.line, "Return the formula.", place.text)
    expressions = tuple(_expression(spec, output, name, place) for output in outputs)
    for expression in expressions:
        _check_depth(spec, expression, name, place)
    return expressions


# SymPy walks expressions by recursion, within Python's limit: to look at deep ones, and to build deeper ones.
_DEEP = 300
_DEEPEST = 1200


def _check_depth(spec: SpecFile, expression: Expr, name: str, place: Place) -> None:
    depth = depth_of(expression)
    if depth > _DEEPEST:
        hint = "Nest fewer functions; put a part of them into an operation of its own."
        raise spec.error(f"{name} is nested {depth} steps deep, of at most {_DEEPEST}", place.line, hint, place.text)


def _expression(spec: SpecFile, value: Any, name: str, place: Place) -> Expr:
    if _is_number(value):
        return sympy.sympify(value)
    if value is None:
        hint = "Return the formula."
    elif isinstance(value, bool | Boolean):
        hint = "Write Piecewise((1, condition), (0, True))."
    else:
        hint = "Return a SymPy expression, or for several outputs a tuple of expressions."
    raise spec.error(_described(value, name), place.line, hint, place.text)


def _described(value: Any, name: str) -> str:
    if isinstance(value, bool | Boolean):
        return f"{name} gives a condition, not a number"
    kind = "None" if value is None else "a formula of matrices" if _is_matrix(value) else f"a {type(value).__name__}"
    return f"{name} gives {kind}, not an expression"


def _is_matrix(value: Any) -> bool:
    return isinstance(value, sympy.MatrixBase) or getattr(value, "is_Matrix", False)


def _is_bare(spec: SpecFile, name: str, value: Any) -> bool:
    """Whether a module-level name is an op: an expression of symbols. A container of such is a mistake."""
    if _is_formula(value):
        return True
    items = value if isinstance(value, list | tuple | set | sympy.MatrixBase) else ()
    items = value.values() if isinstance(value, dict) else items
    if any(_is_formula(item) for item in items):
        place = spec.bound(name) or Place(1, "")
        hint = (
            "Bind each expression to a name of its own; for one op with several outputs use @op and return a tuple."
            " A name that begins with _ is left alone."
        )
        raise spec.error(_described(value, name).replace("gives", "is"), place.line, hint, place.text)
    return False


def _is_formula(value: Any) -> bool:
    return (
        _is_number(value)
        and isinstance(value, Expr)
        and not isinstance(value, Symbol | sympy.Lambda | sympy.IndexedBase)
        and bool(symbols_in(value))
    )


def _bare_formula(spec: SpecFile, name: str, value: Expr, namespace: dict[str, Any]) -> Formula:
    """The formula of an expression; its inputs come in the order in which the file binds them."""
    place = spec.bound(name) or Place(1, str(name))
    found = symbols_in(value)
    _check_symbols(spec, found, place)
    _check_depth(spec, value, name, place)
    bound = [v for v in namespace.values() if isinstance(v, Symbol) and v in found]
    parameters = tuple(Parameter(s.name, "tensor") for s in dict.fromkeys([*bound, *found]))
    names = [(_hint_name(n), v) for n, v in namespace.items() if isinstance(v, Expr) and not isinstance(v, Symbol)]
    hints = _parts(tuple((n, v) for n, v in names if n and v is not value), (value,))
    doc = spec.comment_above(place.line)
    return Formula(name, doc, parameters, (value,), spec.path, place.line, place.text, {}, hints, text=spec.text)


def _check_symbols(spec: SpecFile, symbols: list[Symbol], place: Place) -> None:
    """Every symbol is a real input of its own."""
    for symbol in symbols:
        if symbol.is_extended_real is False or not symbol.is_commutative:
            problem = f"the symbol {symbol.name} is declared not to be real"
            raise spec.error(
                problem, place.line, f'Declare it as {symbol.name} = symbols("{symbol.name}").', place.text
            )
        if sum(other.name == symbol.name for other in symbols) > 1:
            problem = f"two different symbols are both called {symbol.name}"
            raise spec.error(problem, place.line, "Declare each symbol once, with a name of its own.", place.text)


# Names

# What a generated module imports or uses, beside Python's builtins.
_MODULE_NAMES = frozenset({"torch", "rt", "Tensor", "annotations", "math", "Any", "Sequence"})

# Names that mean something in the functions of a generated module.
_LOCAL_NAMES = frozenset(
    """
    bool cls ctx float int self staticmethod super tuple
    """.split()  # noqa: SIM905 - easier to read than a list
)

# Attributes of torch.nn.Module, and of the context of an autograd function: what a hyper-parameter would hide.
_ATTRIBUTES = frozenset(
    """
    inplace shapes wanted
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval
    extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules
    mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
    register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule
    share_memory state_dict to to_empty train training type xpu zero_grad

    backward boxed_grads_call clear_saved_tensors_on_access dirty_tensors generate_vmap_rule jvp mark_dirty
    mark_non_differentiable mark_shared_storage materialize_grads maybe_clear_saved_tensors metadata name
    needs_input_grad next_functions non_differentiable register_hook register_prehook requires_grad save_for_backward
    save_for_forward saved_for_forward saved_tensors saved_variables set_materialize_grads setup_context shapes to_save
    vjp vmap
    """.split()  # noqa: SIM905
)


# What the module of an op with learnable inputs has beside.
_OF_LEARNABLE = ("channels", "device", "dtype", "reset_parameters")


def class_name(name: str) -> str:
    """The class of an op: leaky_relu gives LeakyRelu."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def generated_names(name: str) -> tuple[str, ...]:
    """The public names that an op puts into its module."""
    of_class = [f"{class_name(name)}{suffix}" for suffix in ("", "Function", "InplaceFunction", "BackwardFunction")]
    return name, f"{name}_", *of_class


def _check_names(formula: Formula) -> None:
    _check_op_name(formula)
    for p in formula.parameters:
        _check_parameter_name(formula, p)
    if not formula.tensors:
        raise formula.error(f"{formula.name} has no tensor input", hint="Annotate an input as Tensor.")
    if all(p.init is not None for p in formula.tensors):
        hint = "Annotate what is given in each call as Tensor, without init."
        raise formula.error(f"{formula.name} has no input beside what its module learns", hint=hint)


def _check_op_name(formula: Formula) -> None:
    name = formula.name
    if not _is_name(name):
        raise formula.error(f"{name!r} is no name for an operation", hint=_name_advice(name))
    if not re.match("[a-z]", name):
        needed = (
            "Begin the operation's name with a lower-case letter, not an underscore or an upper-case one, which its"
            " class gets."
        )
        raise formula.error(f"{name!r} is no name for an operation", hint=needed)
    clash = [n for n in generated_names(name) if n in _MODULE_NAMES or hasattr(builtins, n)]
    if clash:
        raise formula.error(
            f"the operation {name} would hide {clash[0]!r} in its module",
            hint=f"Rename it, for example {name.rstrip('_')}_op.",
        )


def _check_parameter_name(formula: Formula, p: Parameter) -> None:
    kind = "an input" if p.kind == "tensor" else "a hyper-parameter"
    problem = f"{p.name!r} is no name for {kind} of {formula.name}"
    if not _is_name(p.name):
        raise formula.error(problem, hint=_name_advice(p.name))
    if p.name == "self":
        raise formula.error(problem, hint="An operation is a plain function, outside of any class.")
    if p.name in _MODULE_NAMES | _LOCAL_NAMES or p.name in generated_names(formula.name):
        other = f"{p.name}_" if p.name != formula.name else f"{p.name}_value"
        raise formula.error(f"{problem}: the generated module uses it", hint=f"Rename it, for example {other}.")
    learnable = [tensor.name for tensor in formula.tensors if tensor.init is not None]
    attributes = _ATTRIBUTES.union(_OF_LEARNABLE if learnable else (), [f"initial_{name}" for name in learnable])
    if (p.kind != "tensor" or p.init is not None) and (p.name in attributes or p.name.startswith("_")):
        other = p.name.strip("_")
        raise formula.error(
            f"{problem}: it would hide an attribute of torch.nn.Module or of its autograd function",
            hint=f"Rename it, for example {other}_value.",
        )


def _is_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def _name_advice(name: str) -> str:
    spelled = re.sub("[^A-Za-z0-9_]+", "_", _hint_name(name) or name).strip("_")
    if not spelled.isidentifier() or keyword.iskeyword(spelled):
        spelled = f"{spelled}_" if spelled and not spelled[0].isdigit() else ""
    example = f", for example {spelled}" if spelled else ""
    return f"Use the letters a to z, digits and underscores{example}."


def _check_unique(formulas: list[Formula]) -> None:
    owners: dict[str, Formula] = {}
    for formula in formulas:
        for name in generated_names(formula.name):
            other = owners.setdefault(name, formula)
            if other is formula:
                continue
            clash = "two operations" if other.name == formula.name else f"{other.name} and {formula.name} both"
            raise formula.error(
                f"{clash} of this file would be called {name}",
                hint=f"The other one is in line {other.line}; rename one.",
            )
