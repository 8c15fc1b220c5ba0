"""From planned operations to text, through the printers and the Jinja templates.

Everything a template needs is computed here; a template only arranges it.
"""

from __future__ import annotations

import itertools
import math
import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from gradgen import coefficients, normal, typed
from gradgen.derivatives import Derivatives, derivatives
from gradgen.doubts import doubts
from gradgen.graph import CONDITIONS, Node, is_inverse, topological
from gradgen.language import Parameter
from gradgen.load import Formula, class_name
from gradgen.measure import LEAST_MODERATE
from gradgen.plan import Accuracy, Kernel, Operation, Statement
from gradgen.primitives import PRIMITIVES
from gradgen.printers.base import Printer
from gradgen.printers.c import CPrinter
from gradgen.printers.smooth import SmoothPrinter
from gradgen.printers.torch import TorchPrinter
from gradgen.quality import EXPONENTIALS

WIDTH = 120


@dataclass(frozen=True)
class Section:
    """What an op brings to its module, as text.

    Attributes:
        name: the op's name.
        summary: the first paragraph of its documentation.
        documentation: what the module's docstring says of it.
        code: its kernels, classes and function.
        exported: the public names among these.
        functions: the public functions among these.
        operator: what makes it an operator of `torch.ops`.
        doubts: what the user may not have meant, or should not trust.
    """

    name: str
    summary: str
    documentation: str
    code: str
    exported: tuple[str, ...]
    functions: tuple[str, ...]
    operator: str
    doubts: tuple[str, ...] = ()


def render_section(spec: Path, operation: Operation, templates: Path) -> Section:
    """The part of a generated module that is about one op."""
    op = _OperationText(operation)
    documentation, code = (
        _environment(templates).get_template(name).render(spec=spec.name, op=op).strip("\n")
        for name in ("_documentation.j2", "_operation.j2")
    )
    return Section(
        op.name,
        op.summary,
        documentation,
        code,
        op.exported,
        op.functions,
        operator_text(operation.formula),
        tuple(doubts(operation)),
    )


def operator_text(formula: Formula) -> str:
    """What makes an op an operator of `torch.ops`."""
    returned = ", ".join(["Tensor"] * len(formula.outputs))
    schema = f"{formula.name}({', '.join(map(_in_schema, formula.parameters))})"
    schema += f" -> ({returned})" if len(formula.outputs) > 1 else f" -> {returned}"
    arguments = [f'"{schema}"', f"{class_name(formula.name)}Function", formula.name]
    return call_text("rt.operator", arguments + ["in_float32=True"] * formula.in_float32)


def render_module(sections: Sequence[Section], templates: Path, library: bool = False) -> str:
    """The text of a generated module; with `library` its ops are operators of `torch.ops` as well."""
    names = sorted(f'"{name}"' for section in sections for name in section.exported)
    exported = call_text("__all__ = ", names, brackets="[]")
    return (
        _environment(templates)
        .get_template("module.py.j2")
        .render(
            sections=sections,
            exported=exported,
            wrapped=[name for section in sections for name in section.functions],
            library=library,
        )
    )


def render_shared(templates: Path) -> dict[str, str]:
    """The texts of the files that modules share, by file name."""
    rows = PRIMITIVES.values()
    context = {
        "device_functions": "\n\n".join(_definitions(row.c_source for row in rows)),
        "torch_functions": "\n\n\n".join(_definitions(row.torch_source for row in rows)),
        "primitives": [_primitive_text(row) for row in derivatives()],
        "normal": normal,
        "coefficients": coefficients,
        "exponentials": EXPONENTIALS,
    }
    names = ("_runtime.py", "__init__.py")
    return {name: _environment(templates).get_template(f"{name}.j2").render(context) for name in names}


def _primitive_text(row: Derivatives) -> str:
    """An entry of the runtime's table of primitives."""
    own = row.value.removeprefix("rt.").removesuffix(f"({', '.join(row.operands)})")
    value = own if own.replace(".", "").isidentifier() else f"lambda {', '.join(row.operands)}: {row.value}"
    head = f"lambda {', '.join(('y', *row.operands))}: "
    slopes = [call_text(head, [slope.replace("rt.", "") for slope in row.slopes], indent=8, brackets="()")]
    if len(row.slopes) == 1:
        slopes = [f"{head}({row.slopes[0].replace('rt.', '')},)"]
    return call_text(f'"{row.name}": _Primitive', [value, *(slopes if row.slopes else [])], ",", indent=4)


def _definitions(sources: Iterable[str]) -> list[str]:
    """The definitions in sources, each once."""
    return list(dict.fromkeys(part.strip() for source in sources for part in source.split("\n\n\n") if part.strip()))


@cache
def _environment(templates: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        optimized=False,  # each template is rendered a few times at most
    )
    environment.filters.update(
        prefixed=lambda text, prefix: f"{prefix}{text}",
        suffixed=lambda text, suffix: f"{text}{suffix}",
        quoted=lambda text: f'"{text}"',
        docstring=_docstring,
    )
    return environment


def _docstring(text: str) -> str:
    """A text, which may be the user's own, as a docstring that says the same."""
    prefix = "r" if "\\" in text else ""
    text = text.replace('"""', "'''")
    return f'{prefix}"""{text}"""'


def call_text(head: str, items: Iterable[str], tail: str = "", indent: int = 0, brackets: str = "()") -> str:
    """`head(items)tail` on one line if it fits, else broken as the usual formatters break it."""
    items = list(items)
    opening, closing = tuple(brackets)
    inner, pad = ", ".join(items), " " * (indent + 4)
    if indent + len(f"{head}({inner}){tail}") <= WIDTH:
        return f"{head}{opening}{inner}{closing}{tail}"
    lines = [f"{pad}{inner}"] if len(pad + inner) <= WIDTH else [f"{pad}{item}," for item in items]
    return "\n".join([f"{head}{opening}", *lines, f"{' ' * indent}{closing}{tail}"])


def where_wide(result: Accuracy) -> str:
    """Where float32 is computed in float64; nothing if everywhere."""
    values = " and ".join(f"{p.name} is {_literal(value)}" for p, value in result.narrow_at)
    ends = f"below 2**{LEAST_MODERATE} or above 2**{result.moderate}"
    where = "" if result.moderate is None else f" where the size of an input is {ends}"
    return f"{where} unless {values}" if values else where


def tuple_text(items: Iterable[str]) -> str:
    """The items as a tuple."""
    items = list(items)
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def target_text(names: Iterable[str]) -> str:
    """Names that a tuple is assigned to."""
    names = list(names)
    return ", ".join(names) if len(names) > 1 else f"({names[0]},)"


@dataclass(frozen=True)
class _Block:
    """Lines of a torch function under one condition, all parts of which hold; no part for no condition."""

    condition: tuple[str, ...]
    lines: list[str]

    @property
    def head(self) -> str:
        """The line, or lines, that open the block."""
        line = f"    if {' and '.join(self.condition)}:"
        if len(line) <= WIDTH:
            return line
        return "\n".join(
            ["    if (", f"        {self.condition[0]}", *(f"        and {p}" for p in self.condition[1:]), "    ):"]
        )


class _FormText(NamedTuple):
    """What the templates print of a form that some types have for themselves."""

    types: tuple[str, ...]
    code: list[str]
    is_wide: bool
    is_brief: bool


class _KernelText:
    """What the templates print of a kernel."""

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        missing: Collection[str] = (),
        printer: type[TorchPrinter] = TorchPrinter,
        readers: Mapping[str, Sequence[int]] = {},
    ) -> None:
        self.name = name
        self.function = f"_{name}_{'smooth' if printer is SmoothPrinter else 'expression'}"
        self._printer = printer
        self.missing = missing
        self.tensors = kernel.tensors
        self.optional = kernel.optional
        self.results = [name for name, _ in kernel.results]
        self.needed_by = {name: [self.results[i] for i in which] for name, which in readers.items()}
        self.wide, self.brief, self.moderate = kernel.wide, kernel.brief, kernel.moderate
        self.narrow_at = [(kernel_name(kernel, p), _literal(value)) for p, value in kernel.narrow_at]
        self.plain_at = kernel.plain_at
        self.forms = [_FormText(own.types, _code(text), own.is_wide, own.is_brief) for own, text in kernel.own]
        self.forms_at = [(kernel_name(kernel, p), _literal(value)) for p, value in kernel.own_at]
        self.plain = kernel.uncorrected
        self.is_compensated = kernel.plain is not None
        self.scalars = kernel.scalars
        self.scalar_kinds = [(kernel_name(kernel, p), p.kind) for p in kernel.scalars]
        self.names = [*kernel.tensors, *(name for name, _ in self.scalar_kinds)]
        self._kernel = kernel

    @property
    def several(self) -> bool:
        """Whether there is more than one result, so that some may not be wanted."""
        return len(self.results) > 1

    @property
    def wants(self) -> list[str]:
        """The names of what says which results are wanted; of one that nothing depends on with an underscore."""
        heads = " ".join(block.head for block in self.blocks)
        names = [f"want_{name}" for name in self.results]
        return [name if re.search(rf"\b{name}\b", heads) else f"_{name}" for name in names]

    @property
    def formulas(self) -> list[str]:
        """The computation as mathematics, a line each."""
        kernel = self._kernel.readable
        printer = Printer(kernel.names)
        lines = [f"{name} = {Printer(kernel.inputs).statement(node)}" for name, node in kernel.constants]
        lines += [f"{s.name} = {printer.statement(s.node)}" for s in kernel.statements]
        return lines + [f"{name} = {printer.expression(node)}" for name, node in kernel.unstated]

    @property
    def code(self) -> list[str]:
        """The computation as C and CUDA statements."""
        return _code(self._kernel)

    @property
    def blocks(self) -> list[_Block]:
        """The computation as torch statements, in blocks of one condition; of several results each has its block."""
        printer = self._torch_printer()
        lines = [(self._condition(s), f"{s.name} = {printer.statement(s.node)}") for s in self._kernel.statements]
        if self.several:
            results = self._kernel.unstated
            lines += [((f"want_{name}",), f"{name} = {self._result(printer, node)}") for name, node in results]
        groups = itertools.groupby(lines, lambda line: line[0])
        return [_Block(condition, [text for _, text in group]) for condition, group in groups]

    @property
    def returned(self) -> str:
        """What the torch function returns, always a tuple."""
        if self.several:
            return ", ".join(self.results)
        return f"({self._result(self._torch_printer(), self._kernel.results[0][1])},)"

    def _result(self, printer: TorchPrinter, node: Node) -> str:
        if printer.is_number(node):
            return f"torch.full_like({self.like}, {printer.expression(node)})"
        text = printer.expression(node)
        return f"{text}.clone()" if not node.args else text

    @property
    def signature(self) -> str:
        """The head of the torch function."""
        names = [f"{name}: Tensor" + (" | None" if self._may_miss(name) else "") for name in self.tensors]
        names += [f"{name}: {kind}" for name, kind in self.scalar_kinds]
        return call_text(f"def {self.function}", [*names, "wanted: Sequence[bool]"], " -> tuple[Tensor | None, ...]:")

    def _may_miss(self, name: str) -> bool:
        return name in self.optional or name in self.missing

    @property
    def like(self) -> str:
        """A tensor that is always there; `like`, which is looked for among them, if none is."""
        return next((name for name in self.tensors if name not in self.optional), "like")

    @property
    def needs_like(self) -> bool:
        """Whether some number must become a tensor like one that is looked for."""
        if self.like != "like":
            return False
        texts = self._torch_printer()
        printed = [texts.statement(s.node) for s in self._kernel.statements]
        printed += [texts.expression(node) for _, node in self._kernel.results]
        constant = any(texts.is_number(node) for _, node in self._kernel.results)
        return constant or bool(self.lifted) or any(re.search(r"\blike\b", text) for text in printed)

    @property
    def constant_lines(self) -> list[str]:
        """The sums of hyper-parameters as statements of Python, which are computed as they are given."""
        printer = self._printer(self._kernel.inputs, self._scalar_nodes, self.like)
        texts = {name: printer.statement(node) for name, node in self._kernel.constants}
        if self._lifts:
            texts = {name: f"rt.constant({text}, {self.like})" for name, text in texts.items()}
        return [f"{name} = {text}" for name, text in texts.items()]

    @property
    def lifted(self) -> list[str]:
        """The hyper-parameters that must become tensors, since a function of numbers alone is taken of them."""
        return [name for name, kind in self.scalar_kinds if kind != "bool"] if self._lifts else []

    def _torch_printer(self) -> TorchPrinter:
        return self._printer(self._kernel.names, self._numbers, self.like)

    @property
    def _numbers(self) -> set[Node]:
        return set() if self._lifts else self._scalar_nodes

    @property
    def _scalar_nodes(self) -> set[Node]:
        """The nodes that depend on hyper-parameters alone."""
        found: set[Node] = set()
        for node in topological(node for _, node in self._kernel.results):
            hyper = node.op == "input" and node.value in node.graph.hyper
            inner = node.args and any(arg in found for arg in node.args)
            if hyper or (inner and all(arg in found or arg.number is not None for arg in node.args)):
                found.add(node)
        return found

    @property
    def _lifts(self) -> bool:
        """Whether numbers alone would meet a function, or a division that Python refuses, by 0."""
        order = topological(node for _, node in self._kernel.results)
        scalar = self._scalar_nodes
        inside = {arg for node in order if node in scalar for arg in node.args}
        for node in scalar:
            if not node.args or node.op in ("add", "mul"):
                continue
            is_one_over = is_inverse(node) and node not in inside
            uses = [n for n in order for arg in n.args if arg is node]
            if not is_one_over or [n.op for n in uses] != ["mul"]:  # x/k alone is a division of a tensor
                return True
        return False

    def _condition(self, statement: Statement) -> tuple[str, ...]:
        parts = []
        if len(statement.wanted) < len(self.results):
            parts.append(" or ".join(f"want_{self.results[i]}" for i in statement.wanted))
        if statement.given:
            common = [name for name in statement.given[0] if all(name in names for names in statement.given)]
            parts += [f"{name} is not None" for name in common]
            rest = [[f"{n} is not None" for n in names if n not in common] for names in statement.given]
            anyone = {names for names in statement.given if len(names) == 1} >= {(name,) for name in self.optional}
            if all(rest) and not anyone:  # one of the incoming gradients is always there
                parts.append(" or ".join(" and ".join(names) for names in rest))
        return tuple(f"({part})" if " or " in part and len(parts) > 1 else part for part in parts)


def _code(kernel: Kernel) -> list[str]:
    printer = CPrinter(kernel.names, kernel.ordinary)
    lines = [f"const scalar {name} = {CPrinter(kernel.inputs).statement(node)};" for name, node in kernel.constants]
    lines += [
        f"const {'bool' if s.node.op in CONDITIONS else 'real'} {s.name} = {printer.statement(s.node)};"
        for s in kernel.statements
    ]
    return lines + [f"const real {name} = {printer.expression(node)};" for name, node in kernel.unstated]


def kernel_name(kernel: Kernel, parameter: Parameter) -> str:
    """The name of a hyper-parameter in a kernel."""
    return next(name for node, name in kernel.names.items() if node.value == parameter.name and not node.args)


@dataclass(frozen=True)
class _SavedText:
    """A saved tensor: its name in backward, the expression that is saved, and when."""

    name: str
    source: str
    condition: str


class _OperationText:
    """What the templates print of an operation."""

    def __init__(self, operation: Operation) -> None:
        formula = operation.formula
        self.operation = operation
        self.name = formula.name
        self.class_name = class_name(formula.name)
        self.constant = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", formula.name).upper().strip("_")
        self.parameters = formula.parameters
        self.tensors = [p.name for p in formula.tensors]
        self.scalars = formula.scalars
        self.learnable = [p for p in formula.tensors if p.init is not None]
        self.given = [p.name for p in formula.tensors if p.init is None]
        self.outputs = operation.outputs
        self.fixed = [p.name for p in formula.tensors if not p.grad]
        readers = {s.name: s.readers for s in operation.saved if len(s.readers) < len(operation.differentiable)}
        backward, double = operation.backward, operation.double_backward
        self.forward = _KernelText(self.name, operation.forward)
        self.backward = _KernelText(f"{self.name}_backward", backward, readers, readers=readers) if backward else None
        name, smooth = f"{self.name}_double_backward", operation.smooth
        self.double = _KernelText(name, double, readers) if double else None
        self.smooth = _KernelText(name, smooth, readers, SmoothPrinter) if smooth else None
        self.grads = operation.grads
        self.differentiable = operation.differentiable
        self.broadcasts = len(self.tensors) > 1
        self.is_in_place = operation.is_in_place
        self.in_float32 = formula.in_float32
        self.positions = {p.name: i for i, p in enumerate(formula.parameters)}

    @property
    def exported(self) -> tuple[str, ...]:
        """What users are to find in the module."""
        in_place = [f"{self.class_name}InplaceFunction"] if self.is_in_place else []
        return self.class_name, f"{self.class_name}Function", *self.functions, *in_place

    @property
    def functions(self) -> tuple[str, ...]:
        """The public functions."""
        return (self.name, f"{self.name}_") if self.is_in_place else (self.name,)

    @property
    def summary(self) -> str:
        """The first paragraph of the documentation."""
        return self.paragraphs[0]

    @property
    def paragraphs(self) -> list[str]:
        doc = "".join(filter(_is_text, self.operation.formula.doc)) or f"The operation {self.name}."
        return [_wrap(part) for part in doc.split("\n\n")]

    @property
    def source(self) -> list[str]:
        """The formula as the user typed it."""
        return textwrap.dedent(typed.formula(self.operation.formula)).splitlines()

    @property
    def accuracy(self) -> list[str]:
        """A table of the modelled errors."""
        rows = [("", "float32", "float64", "")]
        outputs = self.operation.accuracy[: len(self.operation.outputs)]
        is_known = all(output.double.is_known for output in outputs)
        for error in self.operation.accuracy:
            notes = [f"{' and '.join(error.compensated)} in compensated arithmetic"] if error.compensated else []
            notes += [f"float32 is computed in float64{where_wide(error)}"] if error.wide else []
            note = "; ".join(notes)
            figures = [_figure(worst.error) if is_known else "unknown" for worst in (error.single, error.double)]
            rows.append((error.name, figures[0], figures[1], note))
        width = max(len(name) for name, *_ in rows)
        lines = [f"{name:{width}}  {single:>7}  {double:>7}  {note}".rstrip() for name, single, double, note in rows]
        lines += self.lost
        if len(self.operation.formula.tensors) > 1:
            lines += ["float64 was looked at in few places where several inputs are near the ends of the type"]
        return lines

    @property
    def lost(self) -> list[str]:
        """Where results are hardly right, a line each, and how they are elsewhere."""
        lines = []
        for result in self.operation.accuracy:
            for dtype, worst in (("float32", result.single), ("float64", result.double)):
                if worst.error >= _HARDLY_RIGHT:
                    found, elsewhere = _figure(worst.error), _figure(worst.ordinary)
                    lines.append(
                        f"{result.name} in {dtype}: {found} at {worst.place}, {elsewhere} unless it is extreme"
                    )
        return lines

    @property
    def signature(self) -> str:
        """The parameters of the public function."""
        return ", ".join(_parameter(p) for p in self.parameters)

    @property
    def module_head(self) -> str:
        """The head of the module's constructor."""
        parts = ["self"] + (["channels: int"] if any(p.per_channel for p in self.learnable) else [])
        parts += [_parameter(p) for p in self.scalars]
        parts += [f"{p.name}: float = {_literal(p.init)}" for p in self.learnable]
        parts += ["*", "inplace: bool = False"] if self.is_in_place else []
        parts += ["*", "device: Any = None", "dtype: torch.dtype | None = None"] if self.learnable else []
        return "    " + call_text("def __init__", parts, " -> None:", 4)

    @property
    def tensor_signature(self) -> str:
        return ", ".join(f"{name}: Tensor" for name in self.given)

    @property
    def result_type(self) -> str:
        return "Tensor" if len(self.outputs) == 1 else f"tuple[{', '.join(['Tensor'] * len(self.outputs))}]"

    def local(self, name: str) -> str:
        """A local variable of the generated methods: `name`, unless an input is called that."""
        taken = {p.name for p in self.parameters}
        while name in taken:
            name += "_"
        return name

    @property
    def saved(self) -> list[_SavedText]:
        """What `setup_context` keeps; a tensor that only some gradients read is kept when one of them is wanted."""
        texts = []
        for saved in self.operation.saved:
            source = self.local("output") if saved.is_output and len(self.outputs) == 1 else saved.source
            everyone = len(saved.readers) == len(self.differentiable)
            needs = [f"{self.local('needs')}[{self.positions[self.differentiable[i]]}]" for i in saved.readers]
            texts.append(_SavedText(saved.name, source, "" if everyone else " or ".join(needs)))
        return texts

    @property
    def backward_inputs(self) -> list[str]:
        """The tensors that the backward takes: the incoming gradients and what was saved."""
        return [*self.grads, *(saved.name for saved in self.operation.saved)]

    @property
    def double_positions(self) -> list[int]:
        """For each result of the double backward, the position among the backward's inputs it is the gradient of."""
        return [self.backward_inputs.index(name) for name in self.operation.double_outputs]

    @property
    def wanted(self) -> list[str]:
        """For each differentiable input, the expression that says whether its gradient is wanted."""
        return [f"ctx.needs_input_grad[{self.positions[name]}]" for name in self.differentiable]

    @property
    def gradient_names(self) -> list[str]:
        return [f"grad_{name}" for name in self.differentiable]

    @property
    def returned_gradients(self) -> list[str]:
        """What backward returns, for each parameter."""
        return [f"grad_{p.name}" if p.name in self.differentiable else "None" for p in self.parameters]

    @property
    def forward_head(self) -> str:
        kinds = [f"{p.name}: {'Tensor' if p.kind == 'tensor' else p.kind}" for p in self.parameters]
        return "    " + call_text("def forward", kinds, f" -> {self.result_type}:", 4)

    @property
    def quick_call(self) -> str:
        """How the public function tries the short way."""
        scalars = [p.name for p in self.forward.scalars]
        items = [tuple_text(self.tensors)] + ([tuple_text(scalars)] if scalars else [])
        if self.has_what_autograd_takes:
            items.append(f"function={self.class_name}Function")
        return call_text(f"{self.local('quick')} = _{self.constant}.quick", items, indent=4)

    @property
    def quick_overwrite_call(self) -> str:
        """How the public function in place tries the short way, "" if there is none."""
        scalars = [p.name for p in self.forward.scalars]
        items = [self.tensors[0], tuple_text(scalars), f"{self.class_name}InplaceFunction"]
        has_one = self.is_in_place and self.has_what_autograd_takes
        return f"_{self.constant}.quick_overwrite({', '.join(items)})" if has_one else ""

    @property
    def has_what_autograd_takes(self) -> bool:
        """Whether the kernel takes all that the function for autograd does, and has a use for each hyper-parameter."""
        return [p.name for p in self.parameters] == [*self.tensors, *[p.name for p in self.forward.scalars]]

    @property
    def backward_head(self) -> str:
        missing = {s.name for s in self.operation.saved if len(s.readers) < len(self.differentiable)}
        missing |= set(self.grads) if len(self.grads) > 1 else set()
        tensors = [f"{n}: Tensor" + (" | None" if n in missing else "") for n in self.backward_inputs]
        kinds = [f"{p.name}: {p.kind}" for p in self.scalars]
        kinds.append(f"{self.local('wanted')}: Sequence[bool]")
        if self.broadcasts:
            kinds.append(f"{self.local('shapes')}: Sequence[torch.Size] | None")
        return "    " + call_text("def forward", [*tensors, *kinds], " -> tuple[Tensor, ...]:", 4)

    @property
    def backward_target(self) -> str:
        """What the `setup_context` of the backward function unpacks its inputs into."""
        names = [*self.backward_inputs, *[f"ctx.{p.name}" for p in self.scalars], "ctx.wanted"]
        return target_text([*names, "_shapes"] if self.broadcasts else names)

    @property
    def inputs_target(self) -> str:
        """What `setup_context` unpacks its inputs into, "" if it needs none of them."""
        used = {s.source for s in self.operation.saved if not s.is_output} | {p.name for p in self.scalars}
        used |= set(self.differentiable) if self.broadcasts else set()
        names = [p.name if p.name in used else f"_{p.name}" for p in self.parameters]
        return target_text(names) if used else ""

    @property
    def backward_call(self) -> str:
        items = [
            f"{self.class_name}BackwardFunction",
            f"_{self.constant}_BACKWARD",
            tuple_text(self.backward_inputs),
            tuple_text(f"ctx.{p.name}" for p in self.scalars),
            self.local("wanted"),
            *(["ctx.shapes"] if self.broadcasts else []),
        ]
        return call_text(f"{target_text(self.gradient_names)} = rt.apply", items, indent=8)

    @property
    def backward_kernel_call(self) -> str:
        assert self.backward is not None
        scalars = tuple_text(p.name for p in self.backward.scalars)
        return call_text(
            f"{self.local('grads')} = _{self.constant}_BACKWARD",
            [tuple_text(self.backward_inputs), scalars, self.local("wanted")]
            + ([self.local("shapes")] if self.broadcasts else []),
            indent=8,
        )

    @property
    def double_call(self) -> str:
        assert self.double is not None
        items = [
            f"_{self.constant}_DOUBLE_BACKWARD",
            "ctx",
            "grads",
            tuple_text(f"ctx.{p.name}" for p in self.double.scalars),
            tuple_text(map(str, self.double_positions)),
        ]
        return call_text("return rt.double_backward", items, indent=8)

    @property
    def extra_repr(self) -> str:
        """The expression of what a Module tells of itself."""
        shown = [f"channels={{self.{p.name}.numel()}}" for p in self.learnable if p.per_channel][:1]
        shown += [f"{p.name}={{self.{p.name}}}" for p in self.scalars]
        shown += [f"{p.name}={{self.initial_{p.name}}}" for p in self.learnable]
        told = ", ".join(shown)
        if not self.is_in_place:
            return f'f"{told}"'
        return (
            f"""f"{told}" + (", inplace=True" if self.inplace else "")"""
            if told
            else '"inplace=True" if self.inplace else ""'
        )

    @property
    def module_arguments(self) -> str:
        return ", ".join(map(self._module_argument, self.parameters))

    def _module_argument(self, p: Parameter) -> str:
        if p.per_channel:
            return f"rt.per_channel(self.{p.name}, {self.given[0]})"
        return p.name if p.kind == "tensor" and p.init is None else f"self.{p.name}"

    def describe(self, p: Parameter) -> str:
        """What the documentation says of a parameter."""
        if p.kind == "tensor" and p.grad:
            return "tensor, float16, bfloat16, float32 or float64" + ("; broadcasts." if self.broadcasts else ".")
        if p.kind == "tensor":
            return "tensor without gradient, of any real type; broadcasts."
        return f"{p.kind}, passed by value; gets no gradient."

    def describe_result(self) -> str:
        told = "tensor of the broadcast shape and the promoted type" if self.broadcasts else "tensor like the input"
        if len(self.outputs) > 1:
            told = f"{', '.join(self.outputs)}: tensors of the broadcast shape and the promoted type"
        return f"{told}; float32 within autocast." if self.in_float32 else f"{told}."


_HARDLY_RIGHT = 100.0


def _figure(error: float) -> str:
    if math.isinf(error):
        return "no number"
    return f"{error:.1f}" if error < _HARDLY_RIGHT else f"{error:.0e}"


def _is_text(character: str) -> bool:
    """Whether a character may stand in a file of Python: no control character, no half of another one."""
    return character == "\n" or unicodedata.category(character) not in ("Cc", "Cs")


def _wrap(paragraph: str) -> str:
    """A paragraph of a docstring within the line width; one with lines of its own indentation stays as it is."""
    if any(line.startswith(" ") for line in paragraph.splitlines()):
        return paragraph
    return "\n".join(textwrap.wrap(paragraph, WIDTH - 4))


def _parameter(p: Parameter) -> str:
    if p.kind == "tensor":
        return f"{p.name}: Tensor"
    return f"{p.name}: {p.kind}" + ("" if p.default is None else f" = {_literal(p.default)}")


def _in_schema(p: Parameter) -> str:
    """A parameter in the language of torch's operator schemas, which has no literal for infinities and NaN."""
    has_default = p.kind != "tensor" and p.default is not None and math.isfinite(p.default)
    return f"{'Tensor' if p.kind == 'tensor' else p.kind} {p.name}" + (f"={p.default!r}" if has_default else "")


def _literal(value: Any) -> str:
    text = repr(value)
    return f'float("{text}")' if text.lstrip("-") in ("inf", "nan") else text
