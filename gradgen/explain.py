"""What gradgen makes of a formula, and why: the rewrites, the derivatives, what is kept for backward, and the cost."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gradgen import typed
from gradgen.differentiate import gradient
from gradgen.errors import GradgenError
from gradgen.graph import CONDITIONS, Graph, Node, inputs_of, rebuilt, substitute, topological
from gradgen.kinks import smooth
from gradgen.load import Formula, load
from gradgen.plan import Accuracy, Kernel, plan
from gradgen.primitives import PRIMITIVES, PRODUCTS
from gradgen.printers.base import Printer
from gradgen.printers.c import CPrinter
from gradgen.printers.latex import LatexPrinter, operator, symbol
from gradgen.quality import BAR, TARGET
from gradgen.render import where_wide
from gradgen.rewrite import Step, folded, recorded, rewrite
from gradgen.share import share
from gradgen.worst import Worst

BYTES = {"float16, bfloat16": 2, "float32": 4, "float64": 8}  # the size of an element


def explain(path: Path, name: str | None = None) -> list[Explanation]:
    """Explain an op of a spec file, or each of them.

    Raises:
        GradgenError: for a mistake in the file; if it has no such op.
    """
    formulas = load(path)
    chosen = [formula for formula in formulas if name in (None, formula.name)]
    if not chosen:
        known = ", ".join(formula.name for formula in formulas)
        raise GradgenError(f"there is no operation {name!r} in this file", file=path, hint=f"It has: {known}.")
    return [Explanation(formula) for formula in chosen]


@dataclass(frozen=True)
class Rewrite:
    """A step with its text.

    Attributes:
        step: the step.
        before, after: its two sides.
        parts: what the names in them stand for that are no inputs' names.
    """

    step: Step
    before: str
    after: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole step, in lines."""
        joint = " -> " if len(self.before) + len(self.after) < 100 else "\n  -> "
        return "\n".join([f"{self.before}{joint}{self.after}", *(f"  with {part}" for part in self.parts)])


@dataclass(frozen=True)
class Equation:
    """`left` = `node`; with `by`, the derivative of `left` by these inputs in turn."""

    left: str
    node: Node
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """Equations in order, and the names of the nodes that have one."""

    equations: list[Equation]
    names: Mapping[Node, str]

    def texts(self, printer: Printer | LatexPrinter) -> Iterator[tuple[Equation, str]]:
        """Each equation with the text of its right side."""
        for equation in self.equations:
            own = not equation.by and self.names.get(equation.node) == equation.left
            yield equation, printer.statement(equation.node) if own else printer.expression(equation.node)


class Explanation:
    """Everything about one op that a person may want to know.

    Attributes:
        formula: what the user wrote.
        operation: what it was made into.
        value, derivative: the rewrites of the value, then those that the derivatives bring; in order, each once.
    """

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self.operation = operation = plan(formula)
        # Derived again, for the plan does not keep apart what it rewrites for which kernel.
        self._graph = graph = Graph(p.name for p in formula.scalars)
        self._convert = convert = share(formula, graph)
        self._values, steps = _sound([convert(expression) for expression in formula.outputs])
        self.value = _rewrites(steps)
        wrt = operation.differentiable
        columns = [_gradient(value, [graph.input(name) for name in wrt], wrt) for value in self._values]
        rows = [list(row) for row in zip(*columns, strict=True)]
        for name, own in formula.derivatives.items():
            rows[wrt.index(name)] = [convert(expression) for expression in own]
        self._derivatives, steps = _sound([node for row in rows for node in row])
        self.derivative = _rewrites(steps, self.value)

    @cached_property
    def second(self) -> list[Rewrite]:
        """The rewrites that the double backward brings."""
        graph, operation = self._graph, self.operation
        values = dict(zip(operation.outputs, self._values, strict=True))
        outputs = {values[s.source]: graph.input(s.name) for s in operation.saved if s.is_output}
        wrt = [s.name for s in operation.saved if s.is_output or s.source in operation.differentiable]
        nodes = [graph.input(name) for name in wrt]
        seconds = [_gradient(derivative, nodes, wrt) for derivative in substitute(self._derivatives, outputs)]
        _, steps = _sound([node for row in seconds for node in row])
        return _rewrites(steps, [*self.value, *self.derivative])

    @cached_property
    def written(self) -> str:
        """The formula as it was typed: the body of its function."""
        return typed.body(self.formula.text, self.formula.line) or self.formula.source

    @cached_property
    def derivatives_written(self) -> dict[str, str]:
        """The user's own derivatives as they were typed, by input."""
        places = self.formula.places.items()
        return {name: typed.body(self.formula.text, place.line) or place.text for name, place in places}

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels that there are, by what they are called."""
        operation = self.operation
        kernels = {
            "forward": operation.forward,
            "backward": operation.backward,
            "double backward": operation.double_backward,
        }
        return {name: kernel for name, kernel in kernels.items() if kernel is not None}

    def derivatives(self) -> Block:
        """The derivative of each output by each differentiable input, in the sound form that kernels are made from."""
        lefts = _lefts(self.formula, self.operation.outputs)
        pairs = [(left, by) for by in self.operation.differentiable for left in lefts]
        found = [Equation(left, d, (by,)) for (left, by), d in zip(pairs, self._derivatives, strict=True)]
        return self._with_names(found)

    def second_derivatives(self) -> Block:
        """The second derivatives of each output, each mixed one once, in the same form."""
        wrt, lefts = self.operation.differentiable, _lefts(self.formula, self.operation.outputs)
        inputs = [self._graph.input(name) for name in wrt]
        found = []
        for (k, left), derivative in zip(itertools.product(range(len(wrt)), lefts), self._derivatives, strict=True):
            row = rewrite(_gradient(derivative, inputs[k:], wrt[k:]))
            found += [Equation(left, d, (wrt[k], by)) for by, d in zip(wrt[k:], row, strict=True)]
        return self._with_names(found)

    def _with_names(self, found: Sequence[Equation]) -> Block:
        """Equations, after those of what they have in common."""
        sound = rewrite([self._convert(expression) for _, expression in self.formula.names])
        hints = {node: name for node, (name, _) in zip(sound, self.formula.names, strict=True)}
        names = _named([equation.node for equation in found], hints, _WORTH)
        return Block([*(Equation(name, node) for node, name in names.items()), *found], names)

    def memory(self, name: str) -> tuple[list[str], list[str]]:
        """The tensors that a kernel reads, and those that it writes."""
        kernel = self.kernels[name]
        return _read(kernel), [name for name, _ in kernel.results]

    # As text

    def lines(self, second: bool = False) -> Iterator[tuple[str, str]]:
        """The explanation line by line, each with its style; `second` includes the double backward."""
        formula = self.formula
        yield f"{formula.name}  ({formula.file}:{formula.line})", "bold green"
        if formula.doc:
            yield formula.doc.split("\n\n")[0], ""
        yield from _section("Formula, as written", self.written.splitlines())
        count, results = len(self.operation.outputs), self.operation.accuracy
        yield from _listed("Rewrites of the value", self.value, results[:count])
        yield from _section("Forward", _plain(_kernel_block(self.operation.forward.readable)))
        for name, text in self.derivatives_written.items():
            yield from _section(f"Derivative of your own, by {name}", text.splitlines())
        if self.operation.backward is None:
            yield from _section("Derivatives", ["none: no input is differentiable"])
        else:
            yield from _listed("Rewrites that the derivatives bring", self.derivative, results[count:])
            yield from _section("Derivatives", _plain(self.derivatives()))
            yield from _section("Backward", _plain(_kernel_block(self.operation.backward.readable)))
            yield from _section("Saved for backward, bytes per element", self._saved())
        if second and self.operation.double_backward is not None:
            seconds = self.operation.double_accuracy
            yield from _listed("Rewrites that the double backward brings", self.second, seconds)
            yield from _section("Double backward", _plain(_kernel_block(self.operation.double_backward.readable)))
        elif second:
            yield from _section("Double backward", ["none: every second derivative is zero"])
        title = "Modelled worst errors in ULP, and the forms that were chosen, without -> with each"
        yield from _section(title, self._accuracy(second))
        yield from self._cost([name for name in self.kernels if second or name != "double backward"])

    def _accuracy(self, second: bool) -> list[str]:
        operation = self.operation
        found = [*operation.accuracy, *(operation.double_accuracy if second else ())]
        rows = [[result.name, _error(result.single.error), _error(result.double.error)] for result in found]
        head, *lines = _table([["", "float32", "float64"], *rows])
        told = [head]
        for result, line in zip(found, lines, strict=True):
            told += [line, *(f"    {reason}" for reason in dict.fromkeys(_reasons(result)))]
            for dtype, worst in (("float32", result.single), ("float64", result.double)):
                if worst.error > BAR:
                    told.append(f"    worst in {dtype} at {worst.place}")
        if second and len(operation.double_accuracy) < len(operation.double_outputs):
            told.append("no forms are looked for of second derivatives by a saved output")
        return told

    def _saved(self) -> list[str]:
        operation = self.operation
        rows = []
        for saved in operation.saved:
            wanted = [operation.differentiable[i] for i in saved.readers]
            always = len(wanted) == len(operation.differentiable)
            condition = "" if always else f", for the gradient of {', '.join(wanted)}"
            kind = "output" if saved.is_output else "input"
            rows.append([f"{saved.source}, {kind}{condition}", *map(str, BYTES.values())])
        if not rows:
            return ["nothing"]
        if len(rows) > 1:
            rows.append(["together", *(str(len(rows) * size) for size in BYTES.values())])
        return _table([["", *BYTES], *rows])

    def _cost(self, names: list[str]) -> Iterator[tuple[str, str]]:
        kernels = self.kernels
        operations = []
        for name in names:
            kernel = kernels[name]
            operations.append([name, _counted(operations_of(kernel))])
            if kernel.plain is not None:
                plain = _counted(operations_of(kernel.plain))
                operations.append([f"{name}, in a type without its corrections", plain])
            for own, text in kernel.own:
                where = " at the defaults" if kernel.scalars else ""
                operations.append([f"{name}, in {' and '.join(own.types)}{where}", _counted(operations_of(text))])
        yield from _section("Operations per element, as the C and CUDA kernels state them", _table(operations))
        rows = [["", "", *BYTES]]
        for name in names:
            read, written = self.memory(name)
            traffic = [f"{len(read) * size} + {len(written) * size}" for size in BYTES.values()]
            rows.append([name, f"{', '.join(read)} -> {', '.join(written)}", *traffic])
        yield from _section("Bytes read + written per element, all tensors being of one type", _table(rows))

    def latex(self, second: bool = False) -> str:
        """The formula and its derivatives as displayed equations, for a paper that uses amsmath."""
        formula = self.formula
        inputs, scalars = (", ".join(symbol(p.name) for p in kind) for kind in (formula.tensors, formula.scalars))
        call = f"{operator(formula.name)}({inputs}{'; ' if scalars else ''}{scalars})"
        heads = {formula.name: operator(formula.name)} if len(self.operation.outputs) == 1 else {}
        written = _written_block(formula, self.operation.outputs)
        parts = [f"% {formula.name}", _displayed(written, dict.fromkeys(heads, call))]
        if self.operation.backward is not None:
            parts.append(_displayed(self.derivatives(), heads))
        if second and self.operation.double_backward is not None:
            parts.append(_displayed(self.second_derivatives(), heads))
        return "\n".join(parts)


# Rewrites


def _gradient(value: Node, wrt: Sequence[Node], names: Sequence[str]) -> list[Node]:
    return smooth(value, gradient(value, wrt), names)


def _sound(roots: Sequence[Node]) -> tuple[list[Node], list[Step]]:
    """The roots in their sound form, and the steps on the way to it."""
    with recorded() as steps:
        sound = rewrite(roots)
    return sound, steps


def _rewrites(steps: Iterable[Step], before: Iterable[Rewrite] = ()) -> list[Rewrite]:
    """Steps, each once, without those that came before."""
    seen = {rewrite.text for rewrite in before}
    found = []
    for step in steps:
        shown = _shown(step)
        if shown.text not in seen and shown.before != shown.after:  # as where u/hypot(1, u) becomes a primitive
            seen.add(shown.text)
            found.append(shown)
    return found


def _functions(roots: Iterable[Node]) -> set[str]:
    """The primitives below some nodes; r * f(t) counts as f."""
    return {PRODUCTS.get(node.op, node.op) for node in topological(roots)}


_LONG = 36  # nodes of a step that is shown as it stands
_WORTH = 5  # nodes of a part that gets a name where a longer step has it twice
_PARTS = 4  # parts of a step that get names; dots stand for what is deeper inside
_MOST = 24  # nodes of a part that is shown; dots stand for a longer one


def _shown(step: Step) -> Rewrite:
    """A step as text: if it is long, with names for its parts, and with dots where these do not help."""
    sides = [step.before, _computed(step.after)]
    order = topological(sides)
    long = sum(_size(side, {}) for side in sides) > _LONG
    named = _named(sides, {}, _WORTH) if long else {}
    deep = list(named)[:-_PARTS]
    shown = named | dict.fromkeys(deep, "...")
    for node in order:
        if node not in shown and node not in sides and _size(node, shown) > _MOST:
            shown[node] = "..."
    printer = Printer(shown)
    before, after = map(printer.statement, sides)
    parts = tuple(f"{name} = {printer.statement(node)}" for node, name in named.items() if node not in deep)
    return Rewrite(step, before, after, parts)


def _computed(root: Node) -> Node:
    """A node whose functions of numbers are numbers: a rule brings in log(b/a), which may be 0."""
    new: dict[Node, Node] = {}
    for node in topological([root]):
        changed = rebuilt(node, new)
        new[node] = folded(changed) or changed
    return new[root]


def _size(node: Node, names: Mapping[Node, str]) -> int:
    """How many nodes are printed of a node that is not printed by its name."""
    size: dict[Node, int] = {}
    for below in topological([node], stop=names.keys() - {node}):
        named = below in names and below is not node
        size[below] = 1 if named else 1 + sum(size[arg] for arg in below.args)
    return size[node]


# Forms


def _reasons(result: Accuracy) -> Iterator[str]:
    """Each form of a result: what it is, what it is better by, and what it does to the errors."""
    for note in result.forms:
        single, double = _change(note.before.single, note.after.single), _change(note.before.double, note.after.double)
        yield f"{note.what}: {note.why}, float32 {single}, float64 {double}"
    change = _change(result.narrow, result.single)
    if result.wide and result.single.error < result.narrow.error and result.narrow.error > TARGET:
        yield f"float32 in float64 arithmetic{where_wide(result)}: more exact, float32 {change}"
    elif result.wide and result.compensated:
        yield f"float32 in float64 arithmetic{where_wide(result)}: cheaper than the corrections, float32 {change}"
    elif result.wide:
        yield f"float32 in float64 arithmetic{where_wide(result)}: another result of the kernel needs it"


def _change(before: Worst, after: Worst) -> str:
    """The worst errors; if they say nothing those of ordinary inputs and results, or how many are large."""
    for name, what in (("error", ""), ("ordinary", " for ordinary numbers")):
        one, other = (_error(getattr(worst, name)) for worst in (before, after))
        if one != other:
            return f"{one} -> {other}{what}"
    one, other = (f"{100 * worst.often:.3g}" for worst in (before, after))
    if one != other:
        return f"off by much at {one} -> {other} % of the points"
    return f"{_error(before.error)} as before"


def _error(error: float) -> str:
    return "no number" if math.isinf(error) else f"{error:.3g}"


# Equations


def _kernel_block(kernel: Kernel) -> Block:
    """What a kernel computes."""
    statements = [Equation(*constant) for constant in kernel.constants]
    statements += [Equation(s.name, s.node) for s in kernel.statements]
    return Block([*statements, *(Equation(*result) for result in kernel.unstated)], kernel.names)


def _written_block(formula: Formula, outputs: tuple[str, ...]) -> Block:
    """The formula as it was typed, before any rewrite."""
    convert = share(formula, Graph(p.name for p in formula.scalars))
    roots = [convert(expression) for expression in formula.outputs]
    hints = {convert(expression): name for name, expression in formula.names}
    names = _named(roots, hints, _LARGE)
    results = [Equation(left, root) for left, root in zip(_lefts(formula, outputs), roots, strict=True)]
    return Block([*(Equation(name, node) for node, name in names.items()), *results], names)


def _lefts(formula: Formula, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """What the outputs are called in equations: one has the name of the op."""
    return outputs if len(outputs) > 1 else (formula.name,)


_LARGE = 100  # nodes of a part that, typed twice, is not printed twice


def _named(roots: Sequence[Node], hints: Mapping[Node, str], worth: int) -> dict[Node, str]:
    """Names for parts of the roots, operands first: the user's own, and others for what is there twice and long."""
    order = topological(roots)
    uses = Counter(arg for node in order for arg in node.args)
    taken = {*hints.values(), *(str(node.value) for node in order if not node.args)}
    fresh = (name for name in map("t{}".format, itertools.count(1)) if name not in taken)
    names: dict[Node, str] = {}
    for node in order:
        if node in roots or not node.args or node.op in CONDITIONS:
            continue
        if node in hints:
            names[node] = hints[node]
        elif uses[node] > 1 and _size(node, names) >= worth:
            names[node] = next(fresh)
    return names


# Functions that no paper has, by what is printed of them
_OWN = {
    "dgelu": "dgelu(u) = ndtr(u) + u*exp(-u**2/2)/sqrt(2*pi), the derivative of u*ndtr(u)",
    "dswish": "dswish(u) = sigmoid(u) + u*logistic_density(u), the derivative of u*sigmoid(u)",
    "dgate": "dgate(u, w) = sigmoid(u) + w*logistic_density(u), the derivative of v*sigmoid(u) for w = v*u'",
    "ndtr": "ndtr(u) = erfc(-u/sqrt(2))/2, the normal distribution function",
    "logistic_density": "logistic_density(u) = sigmoid(u) * sigmoid(-u)",
    "exprel": "exprel(k, u) = (exp(k*u) - 1)/k",
    "dexprel": "dexprel is the derivative of exprel by k",
    "d2exprel": "d2exprel is the second derivative of exprel by k",
    "logrel": "logrel(k, u) = log(1 + k*u)/k",
    "dlogrel": "dlogrel is the derivative of logrel by k",
    "d2logrel": "d2logrel is the second derivative of logrel by k",
    "langevin": "langevin(u) = coth(u) - 1/u",
    "dlangevin": "dlangevin is the derivative of langevin",
    "d2langevin": "d2langevin is the second derivative of langevin",
    "dsinc": "dsinc is the derivative of sinc",
    "d2sinc": "d2sinc is the second derivative of sinc",
    "sin_pi": "sin_pi(u) = sin(pi*u)",
    "cos_pi": "cos_pi(u) = cos(pi*u)",
    "sinc_pi": "sinc_pi(u) = sin(pi*u)/(pi*u)",
    "dsinc_pi": "dsinc_pi is the derivative of sinc_pi",
    "d2sinc_pi": "d2sinc_pi is the second derivative of sinc_pi",
}


def _plain(block: Block) -> list[str]:
    """The equations as lines of plain text."""
    lines = [
        f"d {equation.left}/d {' d '.join(equation.by)} = {text}" if equation.by else f"{equation.left} = {text}"
        for equation, text in block.texts(Printer(block.names))
    ]
    used = _functions(equation.node for equation in block.equations)
    return lines + [f"({meaning})" for name, meaning in _OWN.items() if name in used]


def _displayed(block: Block, heads: Mapping[str, str]) -> str:
    """The equations as one displayed block of LaTeX; `heads` are left sides that are no plain symbols."""
    rows = []
    for equation, text in block.texts(LatexPrinter(block.names)):
        left = heads.get(equation.left, symbol(equation.left))
        if equation.by:
            left = _derivative(left, equation.by)
        rows.append((left, text))
    if len(rows) == 1:
        return f"\\[\n  {rows[0][0]} = {rows[0][1]}\n\\]"
    lines = " \\\\\n".join(f"    {left} &= {text}" for left, text in rows)
    return f"\\[\n  \\begin{{aligned}}\n{lines}\n  \\end{{aligned}}\n\\]"


def _derivative(left: str, by: tuple[str, ...]) -> str:
    """The derivative of something by one input or two, in LaTeX."""
    if len(by) == 1:
        return rf"\frac{{\partial {left}}}{{\partial {symbol(by[0])}}}"
    below = [rf"\partial {symbol(name)}" for name in by]
    both = f"{below[0]}^{{2}}" if by[0] == by[1] else r" \, ".join(below)
    return rf"\frac{{\partial^{{2}} {left}}}{{{both}}}"


# Cost

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*(?:e[+-]?\d+)?|[<>=!]=|&&|\|\||\S")
_SIGNS = {"+": "addition", "-": "addition", "*": "multiplication", "/": "division", "?": "selection"}
_SIGNS |= dict.fromkeys(("<", ">", "<=", ">=", "==", "!="), "comparison")
_COUNTED = ("addition", "multiplication", "division", "square root", "comparison", "selection")
_CALLS = {
    "sqrt": ["square root"],
    "damp": ["multiplication"],
    "xmul": ["multiplication"],
    "unit": ["division"],
    "over": ["division"],
}
_CALLS |= {
    row.c.partition("(")[0]: ["multiplication", PRODUCTS[name]] if name in PRODUCTS else [name]
    for name, row in PRIMITIVES.items()
    if re.fullmatch(r"\w+\((\{\d\}(, )?)+\)", row.c) and name not in (*_CALLS, "modulus")  # fabs, as abs is
}


def operations_of(kernel: Kernel) -> Counter[str]:
    """How many operations of which kind a kernel's C text has.

    A subtraction is an addition, a change of sign is nothing, a product with a vanishing function is a multiplication
    and that function; any function is one operation, whatever it takes.
    """
    counts: Counter[str] = Counter()
    for _, text in _kernel_block(kernel).texts(CPrinter(kernel.names, kernel.ordinary)):
        tokens = _TOKEN.findall(text)
        for before, token, behind in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
            if token in "+-" and not re.fullmatch(r"[\w.]+|\)", before):
                continue  # a sign
            called = token.isidentifier() and behind == "(" and token != "real"  # real(2) is a number
            counts.update(_CALLS.get(token, [token]) if called else [_SIGNS[token]] if token in _SIGNS else [])
    return counts


def _counted(counts: Counter[str]) -> str:
    kinds = [kind for kind in _COUNTED if counts[kind]]
    words = [f"{counts[kind]} {kind}{'s' if counts[kind] > 1 else ''}" for kind in kinds]
    return ", ".join([*words, *(f"{counts[name]} {name}" for name in counts if name not in _COUNTED)]) or "none"


def _read(kernel: Kernel) -> list[str]:
    """The tensors that a kernel's results depend on."""
    roots = [node for _, node in kernel.results]
    used = set(inputs_of(roots))
    names = [name for node, name in kernel.names.items() if node.op == "input" and node.value in used]
    return [name for name in kernel.tensors if name in names]


# Lines with a style


def _section(title: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield title, "bold"
    for line in lines:
        yield f"    {line}".rstrip(), ""


def _listed(title: str, rewrites: list[Rewrite], results: Sequence[Accuracy]) -> Iterator[tuple[str, str]]:
    """The rewrites that always serve, of what these results are made from."""
    others = "; other forms were chosen for their errors, see below" if any(r.forms for r in results) else ""
    yield from _section(title, () if rewrites else [f"none{others}"])
    for item in rewrites:
        yield textwrap.indent(item.text, "    "), "cyan"
        rule = item.step.rule
        yield f"        by {rule.pattern} = {rule.replacement}: {rule.why}", "dim"


def _table(rows: list[list[str]]) -> list[str]:
    """Rows of cells as lines, the columns being aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
