"""From a formula to what is computed when: the forward, the backward and the double backward as kernels, what is saved
between them, and which intermediate results have names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from sympy import Expr

from gradgen.arithmetic import Arithmetic
from gradgen.choose import Choice, is_sound
from gradgen.compensate import Compensation, has_marks, unmarked
from gradgen.constants import constants
from gradgen.differentiate import gradient
from gradgen.divisors import by_inverses, one_for_both_branches, ordinary_divisors
from gradgen.few_digits import Own
from gradgen.graph import CONDITIONS, Graph, Node, divides, inputs_of, rebuilt, substitute, topological
from gradgen.kinks import smooth, without_gaps
from gradgen.language import Parameter
from gradgen.limits import LARGE, limits
from gradgen.load import Formula
from gradgen.names import Namer
from gradgen.primitives import PRODUCTS
from gradgen.rewrite import rewrite
from gradgen.share import share
from gradgen.standing import Note, Problem
from gradgen.worst import Worst


@dataclass(frozen=True)
class Statement:
    """A named intermediate result.

    Attributes:
        name: its name.
        node: what it is.
        wanted: the results that read it, as positions.
        given: sets of optional tensors; it is read if all of some set are there. Empty if it is read anyway.
    """

    name: str
    node: Node
    wanted: tuple[int, ...]
    given: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One fused computation.

    Attributes:
        tensors: names of the tensor inputs.
        optional: those of them that may be missing and have a condition that says so.
        scalars: the hyper-parameters it reads.
        results: name and node of each result.
        statements: the named intermediate results, in order.
        names: the name of every node that has one: inputs, statements.
        wide: the types that are computed in float64.
        brief: those of them that need no more than 35 bits of functions.
        moderate: the types of which those elements alone are that have an input, or a hyper-parameter, which is very
            small, or larger than a power of two; each with that power.
        narrow_at: the defaults of hyper-parameters, where those types would not have to be there, or there are
        plain_at: types that do there without the corrections that they need elsewhere.
        uncorrected: types that do without compensated arithmetic; none where there is none.
        plain: the same without the corrections of compensated arithmetic; None where there are none.
        shown: the same to be read, with r * f(t) in two steps where f(t) is computed anyway, and a division in each of
            two branches; None where it is no other.
        ordinary: what is divided by and lies between 1 and 2**100.
        own: the same for some types, in forms that do for these.
        own_at: the hyper-parameters, with values, at which they do.
        constants: name and node of each sum of hyper-parameters, which is computed in double, of nothing else.
    """

    tensors: tuple[str, ...]
    optional: tuple[str, ...]
    scalars: tuple[Parameter, ...]
    results: tuple[tuple[str, Node], ...]
    statements: tuple[Statement, ...]
    names: dict[Node, str]
    wide: tuple[str, ...]
    brief: tuple[str, ...] = ()
    moderate: tuple[tuple[str, int], ...] = ()
    narrow_at: tuple[tuple[Parameter, float | bool], ...] = ()
    plain_at: tuple[str, ...] = ()
    uncorrected: tuple[str, ...] = ()
    plain: Kernel | None = None
    shown: Kernel | None = None
    ordinary: frozenset[Node] = frozenset()
    own: tuple[tuple[Own, Kernel], ...] = ()
    own_at: tuple[tuple[Parameter, float | bool], ...] = ()
    constants: tuple[tuple[str, Node], ...] = ()

    @property
    def inputs(self) -> dict[Node, str]:
        """The names of what is given."""
        return {node: name for node, name in self.names.items() if not node.args}

    @property
    def unstated(self) -> list[tuple[str, Node]]:
        """The results that are no statements, with what they are."""
        return [(name, node) for name, node in self.results if self.names.get(node) != name]

    @property
    def readable(self) -> Kernel:
        """The kernel as mathematics."""
        return self.shown or self.plain or self

    def of_type(self, dtype: str) -> Own | None:
        """What a type has for forms of its own, if it has any."""
        return next((own for own, _ in self.own if dtype in own.types), None)


@dataclass(frozen=True)
class Accuracy:
    """How a result is computed, and its modelled worst errors.

    Attributes:
        name: the result's name.
        single: of float32.
        double: of float64.
        wide: whether float32 is computed in float64.
        narrow_at: the hyper-parameters, with values, at which it is not after all.
        moderate: the power of two up to which it is not, unless an input is very small; None if it always is.
        compensated: the types, of float32 and float64, in which it is computed in compensated arithmetic.
        narrow: of float32, were it computed in float32.
        forms: in what forms it is computed, where not in the one that the rewriting gave.
    """

    name: str
    single: Worst
    double: Worst
    wide: bool
    narrow_at: tuple[tuple[Parameter, float | bool], ...]
    moderate: int | None
    compensated: tuple[str, ...]
    narrow: Worst
    forms: tuple[Note, ...]


@dataclass(frozen=True)
class Saved:
    """A tensor kept for backward.

    Attributes:
        name: its name in the backward.
        source: the input's or the output's own name.
        is_output: whether it is an output.
        readers: the differentiable inputs, as positions among them, whose gradient reads it.
    """

    name: str
    source: str
    is_output: bool
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """Everything about an op that the templates print.

    Attributes:
        formula: what the user wrote.
        outputs: names of the outputs.
        differentiable: names of the inputs with a gradient.
        grads: names of the incoming gradients, one an output.
        saved: what is kept for backward.
        derivatives: for each differentiable input, for each output, the derivative.
        forward, backward, double_backward: the kernels; without a differentiable input there is no backward.
        smooth: the double backward for autograd to differentiate.
        double_outputs: for each result of the double backward, the name of the backward's input it is the gradient of.
        accuracy: of each result of forward and backward.
        double_accuracy: of each result of the double backward for which forms were looked for.
    """

    formula: Formula
    outputs: tuple[str, ...]
    differentiable: tuple[str, ...]
    grads: tuple[str, ...]
    saved: tuple[Saved, ...]
    forward: Kernel
    backward: Kernel | None
    double_backward: Kernel | None
    smooth: Kernel | None
    double_outputs: tuple[str, ...]
    accuracy: tuple[Accuracy, ...]
    double_accuracy: tuple[Accuracy, ...] = ()

    @property
    def is_in_place(self) -> bool:
        """Whether the result may be written over the only tensor, since backward needs the output alone."""
        alone = len(self.formula.tensors) == len(self.outputs) == 1 and self.backward is not None
        alone = alone and not self.formula.in_float32  # the result may be of another type
        return alone and all(saved.is_output for saved in self.saved)


def plan(formula: Formula) -> Operation:
    """Derive, rewrite and plan one op.

    Raises:
        GradgenError: for what is wrong with the formula.
    """
    return _Planner(formula).operation()


@dataclass
class _Planner:
    formula: Formula
    graph: Graph = field(init=False)
    namer: Namer = field(init=False)
    raw: list[Node] = field(init=False)  # the outputs before any rule
    choice: Choice = field(init=False)

    def __post_init__(self) -> None:
        scalars = self.formula.scalars
        large = [p.name for p in scalars if p.kind != "bool" and p.default is not None and abs(p.default) > LARGE]
        self.graph = Graph([p.name for p in scalars], large)
        self.namer = Namer(p.name for p in self.formula.parameters)
        convert = share(self.formula, self.graph)
        self.raw = raw = [convert(e) for e in self.formula.outputs]
        known = set(topological(raw))
        hints = [(name, convert(e)) for name, e in self.formula.names if e.args]
        hints = [(name, node) for name, node in hints if node in known]
        sound = without_gaps(rewrite([*raw, *(node for _, node in hints)]))
        self.values, named = sound[: len(raw)], sound[len(raw) :]
        self.hints = {node: name for (name, _), node in zip(hints, named, strict=True)}
        self.hints |= {limits([node])[0]: name for node, name in self.hints.items()}  # as it is printed
        self.inputs = {p.name: self.graph.input(p.name) for p in self.formula.tensors}
        self.differentiable = [p.name for p in self.formula.tensors if p.grad]
        self.own = {
            name: rewrite([convert(e) for e in derivatives]) for name, derivatives in self.formula.derivatives.items()
        }

    def operation(self) -> Operation:
        outputs = self.output_names()
        derivatives = self.derivatives()
        saved, from_saved = self.choose_saved(derivatives, outputs)
        seconds = self.seconds(from_saved, saved)
        flat = [node for row in derivatives for node in row]
        second = [node for by_saved in seconds for row in by_saved for node in row]
        origins = self.origins(derivatives)
        if any(s.is_output for s in saved):  # they are functions of the outputs, not of the inputs
            second = []
        else:
            origins = self.origins_of(from_saved, seconds, saved) | origins
        written = dict(zip(self.values, self.raw, strict=True)) | self.as_written(derivatives)
        problem = Problem([*self.values, *flat], second, list(self.inputs), self.hyper(), origins, written)
        self.choice = Choice(problem)
        forms = [self.choice.form(value) for value in self.values]
        arithmetic = self.choice.arithmetic(self.values)
        own = [
            (one, [self.choice.own_form(one, value) for value in self.values])
            for one in self.choice.of_few_digits(self.values, arithmetic)
        ]
        forward = self.kernel(forms, outputs, list(self.inputs), [], arithmetic, own=own)
        errors = [self.error(name, [value], forward) for name, value in zip(outputs, self.values, strict=True)]
        if not self.differentiable:
            return Operation(self.formula, outputs, (), (), (), forward, None, None, None, (), tuple(errors))
        grads = (
            tuple(self.namer.fresh(f"grad_{name}") for name in outputs)
            if len(outputs) > 1
            else (self.namer.fresh("grad"),)
        )
        saved_names = [s.name for s in saved]
        terms = [[([g], d) for g, d in zip(grads, row, strict=True)] for row in from_saved]
        optional = list(grads) if len(grads) > 1 else []
        results = [self.namer.fresh(f"grad_{name}") for name in self.differentiable]
        backward = self.sums(terms, results, [*grads, *saved_names], optional, self.choice.arithmetic(flat))
        errors += [self.error(name, row, backward) for name, row in zip(results, derivatives, strict=True)]
        double, smooth, of, double_errors = self.double_backward(from_saved, seconds, grads, saved, results)
        return Operation(
            self.formula,
            outputs,
            tuple(self.differentiable),
            grads,
            saved,
            forward,
            backward,
            double,
            smooth,
            of,
            tuple(errors),
            double_errors,
        )

    def hyper(self) -> dict[str, float | bool]:
        """The values of hyper-parameters at which errors are modelled."""
        kinds: dict[str, type] = {"float": float, "int": int, "bool": bool}
        return {p.name: kinds[p.kind](1 if p.default is None else p.default) for p in self.formula.scalars}

    def error(self, result: str, nodes: Sequence[Node], kernel: Kernel) -> Accuracy:
        """The modelled errors of a result that is a sum of these nodes, each times an incoming gradient."""
        own = kernel.of_type("float32")
        wide = own.is_wide if own else "float32" in kernel.wide
        found = [self.choice.quality(node) for node in nodes]
        is_corrected = has_marks(map(self.choice.form, nodes))
        is_precise = is_corrected and "float32" not in kernel.uncorrected
        widened = [quality.precise if is_precise else quality.wide for quality in found]
        single = max(widened if "float32" in kernel.wide else [quality.single for quality in found])
        if own is not None and own.error is not None:
            single = max(own.error, single) if kernel.own_at else own.error
        if kernel.narrow_at and kernel.wide:
            single = max(single, _at_defaults(self.choice.uncorrected(node).single for node in nodes))
        moderate = dict(kernel.moderate).get("float32") if own is None or kernel.own_at else None
        if moderate is not None:
            seen = max(self.choice.moderate(node, moderate) for node in nodes)
            seen = max(seen, *(self.choice.climbed(node, 2.0**moderate)[0] for node in nodes))
            single = max(single, replace(single, error=seen, normal=seen, ordinary=seen))
        narrow_error = max(quality.single for quality in found)
        forms = dict.fromkeys(note for node in nodes for note in self.choice.notes(node) or ())
        compensated = (*(["float32"] if is_precise else []), "float64") if is_corrected else ()
        double = max(quality.double for quality in found)
        if "float64" in kernel.plain_at:
            double = max(double, _at_defaults(self.choice.uncorrected(node).double for node in nodes))
        return Accuracy(
            result, single, double, wide, kernel.narrow_at, moderate, compensated, narrow_error, tuple(forms)
        )

    def output_names(self) -> tuple[str, ...]:
        """One output is `out`; several have the user's own names where they have any."""
        if len(self.values) == 1:
            return (self.namer.fresh("out"),)
        return tuple(self.namer.fresh(self.hints.get(value, f"out{i}")) for i, value in enumerate(self.values, start=1))

    # Derivatives and what they need

    def derivatives(self) -> list[list[Node]]:
        """For each differentiable input, the derivative of each output by it."""
        wrt = [self.inputs[name] for name in self.differentiable]
        columns = [smooth(value, gradient(value, wrt), self.differentiable) for value in self.values]
        rows = [[column[i] for column in columns] for i in range(len(wrt))]
        rows = [self.own.get(name, row) for name, row in zip(self.differentiable, rows, strict=True)]
        sound = iter(rewrite([node for row in rows for node in row]))
        return [[next(sound) for _ in row] for row in rows]

    def origins(self, derivatives: list[list[Node]]) -> dict[Node, tuple[Node, Node]]:
        """For each derivative the value it is the derivative of, and the input by which; none for what is a value."""
        return {
            derivative: (value, self.inputs[name])
            for name, row in zip(self.differentiable, derivatives, strict=True)
            for value, derivative in zip(self.values, row, strict=True)
            if name not in self.own and derivative not in self.values
        }

    def origins_of(
        self, derivatives: list[list[Node]], seconds: list[list[list[Node]]], saved: tuple[Saved, ...]
    ) -> dict[Node, tuple[Node, Node]]:
        """For each second derivative the derivative it is the derivative of, and the input by which.

        None for what is a value, or a derivative.
        """
        known = {*self.values, *(derivative for row in derivatives for derivative in row)}
        wrt = [self.graph.input(s.name) for s in self.varying(saved)]
        return {
            second: (derivative, x)
            for row, by_output in zip(derivatives, seconds, strict=True)
            for derivative, by_saved in zip(row, by_output, strict=True)
            for x, second in zip(wrt, by_saved, strict=True)
            if second not in known
        }

    def as_written(self, derivatives: list[list[Node]]) -> dict[Node, Node]:
        """For each derivative that of the formula before any rule, by which it may have become another function."""
        wrt = [self.inputs[name] for name in self.differentiable]
        columns = [rewrite(smooth(value, gradient(value, wrt), self.differentiable)) for value in self.raw]
        return {
            derivative: columns[k][i]
            for i, (name, row) in enumerate(zip(self.differentiable, derivatives, strict=True))
            for k, derivative in enumerate(row)
            if name not in self.own
        }

    def choose_saved(
        self, derivatives: list[list[Node]], outputs: tuple[str, ...]
    ) -> tuple[tuple[Saved, ...], list[list[Node]]]:
        """The fewest tensors the derivatives can be had from: inputs alone, or with outputs in their place.

        A derivative is had from an output where its sound form contains that very node; then the output stands for
        an input of its own from here on. Not where the rounding of the output is more than the derivative bears: 1 -
        out is 0 where exp(-x) is not.
        """
        stand_ins = {
            value: self.graph.input(f"saved {name}")
            for value, name in zip(self.values, outputs, strict=True)
            if value.args
        }
        flat = [node for row in derivatives for node in row]
        cut = substitute(flat, stand_ins)
        by_inputs, by_outputs = self.tensors_of(flat), self.tensors_of(cut)
        outputs_only = all(name.startswith("saved ") for name in by_outputs)
        is_less = len(by_outputs) < len(by_inputs) or (outputs_only and len(by_outputs) == len(by_inputs))
        if flat and is_less and is_sound(flat, list(self.inputs), self.hyper()):
            flat = cut
        nodes = iter(flat)
        derivatives = [[next(nodes) for _ in row] for row in derivatives]
        readers = [self.tensors_of(row) for row in derivatives]
        saved = []
        for name in self.tensors_of(flat):
            where = tuple(i for i, row in enumerate(readers) if name in row)
            plain = name.removeprefix("saved ")
            saved.append(Saved(plain, plain, name != plain, where))
        renamed = {self.graph.input(f"saved {s.source}"): self.graph.input(s.name) for s in saved if s.is_output}
        nodes = iter(substitute(flat, renamed))
        return tuple(saved), [[next(nodes) for _ in row] for row in derivatives]

    def tensors_of(self, nodes: Iterable[Node]) -> list[str]:
        return [name for name in inputs_of(nodes) if name not in self.graph.hyper and not self.is_flag(name)]

    def is_flag(self, name: str) -> bool:
        return any(p.name == name and p.kind == "bool" for p in self.formula.scalars)

    def seconds(self, derivatives: list[list[Node]], saved: tuple[Saved, ...]) -> list[list[list[Node]]]:
        """The derivative of each derivative by each saved tensor that depends on a differentiable input."""
        wrt = self.varying(saved)
        nodes = [self.graph.input(s.name) for s in wrt]
        return [[rewrite(smooth(d, gradient(d, nodes), [s.name for s in wrt])) for d in row] for row in derivatives]

    def varying(self, saved: tuple[Saved, ...]) -> list[Saved]:
        return [s for s in saved if s.is_output or s.source in self.differentiable]

    def double_backward(
        self,
        derivatives: list[list[Node]],
        seconds: list[list[list[Node]]],
        grads: tuple[str, ...],
        saved: tuple[Saved, ...],
        results: list[str],
    ) -> tuple[Kernel | None, Kernel | None, tuple[str, ...], tuple[Accuracy, ...]]:
        """The backward of the backward, which maps (grads, saved) to the gradients; and for autograd to differentiate.

        Its incoming gradients are those of the backward's results; it gives the gradients of `grads` and of what was
        saved, except those that are zero.
        """
        incoming = tuple(self.namer.fresh(f"grad_{name}") for name in results)
        wrt = self.varying(saved)
        by_grad: list[list[tuple[list[str], Node]]] = [
            [([v], row[i]) for v, row in zip(incoming, derivatives, strict=True)] for i in range(len(grads))
        ]
        by_saved: list[list[tuple[list[str], Node]]] = [[] for _ in wrt]
        for v, row in zip(incoming, seconds, strict=True):
            for g, second in zip(grads, row, strict=True):
                for terms, derivative in zip(by_saved, second, strict=True):
                    terms.append(([v, g], derivative))
        targets = [*zip(grads, by_grad, strict=True), *((s.name, t) for s, t in zip(wrt, by_saved, strict=True))]
        targets = [(name, terms) for name, terms in targets if not all(d.is_number(0) for _, d in terms)]
        if not targets:
            return None, None, (), ()
        optional = [*(incoming if len(incoming) > 1 else ()), *(grads if len(grads) > 1 else ())]
        names = [self.namer.fresh(f"grad_of_{name}") for name, _ in targets]
        tensors = [*incoming, *grads, *(s.name for s in saved)]
        nodes = [node for _, terms in targets for _, node in terms]
        rows = [terms for _, terms in targets]
        kernel = self.sums(rows, names, tensors, optional, self.choice.arithmetic(nodes))
        smooth = self.sums(rows, names, tensors, optional, None)
        parts = [(name, [node for _, node in terms]) for name, (_, terms) in zip(names, targets, strict=True)]
        errors = [
            self.error(name, part, kernel)
            for name, part in parts
            if all(self.choice.notes(node) is not None for node in part)
        ]
        return kernel, smooth, tuple(name for name, _ in targets), tuple(errors)

    # Kernels

    def sums(
        self,
        rows: list[list[tuple[list[str], Node]]],
        results: Sequence[str],
        tensors: list[str],
        optional: list[str],
        arithmetic: Arithmetic | None,
    ) -> Kernel:
        """A kernel whose results are sums of derivatives, each weighted by incoming gradients that may be missing.

        Without an arithmetic it is for autograd to differentiate.
        """
        values = self.totals(rows, optional, self.choice.form if arithmetic else self.choice.smooth)
        nodes = [node for row in rows for _, node in row]
        every_own = self.choice.of_few_digits(nodes, arithmetic) if arithmetic else ()
        own = [(one, self.totals(rows, optional, partial(self.choice.own_form, one))) for one in every_own]
        every = {weight for row in rows for weights, _ in row for weight in weights}
        return self.kernel(values, results, tensors, optional, arithmetic, every, own)

    def totals(
        self, rows: list[list[tuple[list[str], Node]]], optional: list[str], form: Callable[[Node], Node]
    ) -> list[Node]:
        """Sums of derivatives in some form, each weighted by incoming gradients that may be missing."""
        graph = self.graph
        values: list[Node] = []
        for row in rows:
            total = graph.const(0)
            for weights, derivative in row:
                term = _weighted(form(derivative), [graph.input(w) for w in weights])
                conditions = [graph.given(self.namer.local(w)) for w in weights if w in optional]
                if conditions and not derivative.is_number(0):
                    term = graph.where(reduce(lambda a, b: graph.apply("and", a, b), conditions), term, graph.const(0))
                total = graph.add(total, term)
            values.append(total)
        return values

    def kernel(
        self,
        values: Sequence[Node],
        results: Sequence[str],
        tensors: list[str],
        optional: list[str],
        arithmetic: Arithmetic | None,
        weights: Collection[str] = (),
        own: Sequence[tuple[Own, Sequence[Node]]] = (),
    ) -> Kernel:
        """A kernel of these values; in some types, at the defaults of hyper-parameters, of values of their own."""
        if own:
            kernel = self.kernel(values, results, tensors, optional, arithmetic, weights)
            plainly = [one_for_both_branches(unmarked(limits(some, weights))) for _, some in own]
            printed = [by_inverses(some) if one.is_wide else some for (one, _), some in zip(own, plainly, strict=True)]
            texts = [self.written(some, {}, results, tensors, optional) for some in printed]
            pairs = [(one, text) for (one, _), text in zip(own, texts, strict=True)]
            at = tuple((p, self.hyper()[p.name]) for p in kernel.scalars)
            known = tuple(pair for pair in pairs if {*pair[1].scalars} <= {*kernel.scalars})
            return replace(kernel, own=known, own_at=at if known else ())
        roots = limits(values, weights)
        if arithmetic is None:
            return self.written(roots, {}, results, tensors, optional, is_wordy=True)
        readable = _in_steps(unmarked(roots))
        roots = one_for_both_branches(roots)
        exact, uncorrected = Compensation(roots), unmarked(roots)
        plain = self.written(uncorrected, {}, results, tensors, optional, arithmetic.wide)
        if readable != uncorrected:
            plain = replace(plain, shown=self.written(readable, {}, results, tensors, optional, arithmetic.wide))
        defaults = tuple((p, self.hyper()[p.name]) for p in plain.scalars)
        narrow_at = defaults if arithmetic.is_narrow_at_defaults else ()
        plain = replace(plain, brief=arithmetic.brief, moderate=arithmetic.moderate, narrow_at=narrow_at)
        if exact.roots == roots:
            return plain
        kernel = self.written(exact.roots, exact.errors, results, tensors, optional, arithmetic.wide)
        return replace(
            kernel,
            brief=arithmetic.brief,
            moderate=arithmetic.moderate,
            narrow_at=defaults if arithmetic.plain_at_defaults else narrow_at,
            plain_at=arithmetic.plain_at_defaults if defaults else (),
            uncorrected=arithmetic.uncorrected,
            plain=plain,
            shown=plain.shown,
        )

    def written(
        self,
        roots: Sequence[Node],
        errors: Mapping[Node, Node],
        results: Sequence[str],
        tensors: list[str],
        optional: list[str],
        wide: tuple[str, ...] = (),
        is_wordy: bool = False,
    ) -> Kernel:
        """The kernel of results as they are to be printed, and of the errors that go with some of their parts.

        With `is_wordy` products are written as functions.
        """
        used = set(inputs_of(roots))
        scalars = tuple(p for p in self.formula.scalars if p.name in used)
        namer = self.namer.copy()
        names = {self.graph.input(name): namer.local(name) for name in tensors}
        for p in scalars:
            names[self.graph.flag(p.name) if p.kind == "bool" else self.graph.input(p.name)] = namer.local(p.name)
        given = {node: str(node.value) for node in topological(roots) if node.op == "given"}
        result_names = [namer.local(name) for name in results]
        found = [] if is_wordy else self.decimal_constants(roots)
        for node in found:
            names[node] = namer.statement(self.hints[node]) if node in self.hints else namer.describe(node, names)
        named = dict(reversed(list(zip(roots, result_names, strict=True))))
        statements = _statements(roots, errors, names, namer, self.hints, given, named, is_wordy)
        return Kernel(
            tuple(namer.local(name) for name in tensors),
            tuple(namer.local(name) for name in optional),
            scalars,
            tuple(zip(result_names, roots, strict=True)),
            statements,
            names,
            wide,
            ordinary=ordinary_divisors(roots),
            constants=tuple((names[node], node) for node in found),
        )

    def decimal_constants(self, roots: Sequence[Node]) -> list[Node]:
        """The sums of hyper-parameters that are computed in double: not those of whole numbers, mostly exact anyway."""
        decimal = {p.name for p in self.formula.scalars if p.kind == "float"}
        return [node for node in constants(roots) if not decimal.isdisjoint(inputs_of([node]))]


def _at_defaults(errors: Iterable[Worst]) -> Worst:
    """The worst of some errors where hyper-parameters have their defaults."""
    worst = max(errors, key=lambda worst: worst.at_defaults)
    return replace(worst, error=worst.at_defaults, normal=worst.at_defaults)


def _weighted(derivative: Node, weights: list[Node]) -> Node:
    """weights * derivative; the derivative is complete before an incoming gradient may overflow with a part of it."""
    return reduce(lambda total, weight: weight.graph.mul(weight, total), reversed(weights), derivative)


# Which intermediate results get names

_LINE, _LONGEST_LINE = 84, 124  # characters of a statement that is better two, and of a result that is
_LONG_CONDITION = 28  # of a comparison that is written once
_WIDEST = 64  # characters of one statement, roughly; with indentation and the assignment about a line


def _statements(
    roots: Sequence[Node],
    errors: Mapping[Node, Node],
    names: dict[Node, str],
    namer: Namer,
    hints: dict[Node, str],
    given: dict[Node, str],
    results: dict[Node, str],
    is_wordy: bool,
) -> tuple[Statement, ...]:
    """Name what is used more than once, what would make a statement too long, and what the user named.

    A result that other results are computed from is such a statement, under the result's name.
    """
    known = {node for node in names if node.args}
    order = _each_before_its_error(roots, errors, known)
    uses = Counter(arg for node in order if node not in known for arg in node.args)
    uses.update(roots)
    for node in order:  # a small power is written out: its base is read more than once
        if node.op == "pow" and node.args[1].number is not None and _repeats(node.args[1].number):
            uses[node.args[0]] += 1
    # As an inverse with a name a divisor would overflow before the quotient does, and the quotient be rounded once more
    unnamed = {arg for node in order if node.op == "mul" for arg in node.args if divides(arg) and uses[arg] == 1}
    width: dict[Node, int] = {}
    chosen: list[Node] = []
    read = {*order}

    def measured(node: Node) -> int:
        return _width(node, [width[arg] for arg in node.args], names, is_wordy)

    with_errors = {node for pair in errors.items() if pair[1] in read for node in pair if node.args}
    for node in order:
        if node in known:
            width[node] = len(names[node])
            continue
        plain = not node.args or (node in roots and uses[node] == 1) or _is_scaled_leaf(node)
        if node.op == "where":  # in a branch the selections of a function would be jumps, which no vector has
            jumps = [product for arg in node.args[1:] for product in _products(arg, chosen)]
            chosen += jumps
            width |= dict.fromkeys(jumps, _NAME)
        width[node] = measured(node)
        if node.op in CONDITIONS:
            plain = width[node] < _LONG_CONDITION or _asks_what_is_given(node)
        is_unnamed = plain and node not in with_errors
        is_long = node in roots and width[node] >= _LONGEST_LINE
        if is_unnamed and not is_long:
            continue
        if node.op == "where" and width[node] >= _WIDEST:  # its branches stand on lines of their own
            branches = [arg for arg in node.args[1:] if arg.args and arg.op != "where"]
            long = [arg for arg in branches if width[arg] > _NAME and arg not in chosen]
            chosen += long
            width |= dict.fromkeys(long, _NAME)
            width[node] = measured(node)
        if width[node] >= _LINE or (node in unnamed and width[node] >= _WIDEST):
            widest = max(node.args, key=width.__getitem__)
            named = widest.args[0] if widest in unnamed else widest
            if named.args and width[named] > _NAME and named.op not in CONDITIONS and named not in chosen:
                chosen.append(named)
                width[named] = _NAME
                if widest is not named:
                    width[widest] = measured(widest)
                width[node] = measured(node)
        if is_unnamed or (node in unnamed and node not in hints and node not in with_errors):
            continue
        if uses[node] > 1 or node in hints or width[node] >= _WIDEST or _is_weighted(node) or node in with_errors:
            chosen.append(node)
            width[node] = _NAME
    contexts = _contexts(roots, order, given, known)
    chosen = _grouped(chosen, contexts)
    values = {error: value for value, error in errors.items()}
    for node in chosen:
        if node in results:
            names[node] = results[node]
        elif values.get(node) in names:
            names[node] = namer.statement(f"{names[values[node]]}_error")
        else:
            names[node] = namer.statement(hints[node]) if node in hints else namer.describe(node, names)
    return tuple(Statement(names[node], node, *contexts[node]) for node in chosen)


def _products(node: Node, named: Collection[Node]) -> list[Node]:
    """The products of the table in an expression that have no names; not one of another, which no vector has anyway."""
    if node in named:
        return []
    if node.op not in PRODUCTS:
        return [product for arg in node.args for product in _products(arg, named)]
    within = topological(node.args, stop=named)
    return [] if any(below.op in PRODUCTS and below not in named for below in within) else [node]


def _each_before_its_error(roots: Sequence[Node], errors: Mapping[Node, Node], known: Collection[Node]) -> list[Node]:
    """The nodes below the roots, down to known ones, operands first, and what belongs together close together."""
    order = topological(roots, stop=known)
    read = set(order)
    pairs = [part for node in order if node in errors for part in (node, errors[node]) if part in read]
    return topological([*pairs, *roots], stop=known)


def _grouped(chosen: list[Node], contexts: dict[Node, Context]) -> list[Node]:
    """The nodes in an order that keeps those read under one condition together, operands still first."""
    stop = set(chosen)
    needs = {node: {arg for arg in topological(node.args, stop=stop) if arg in stop} for node in chosen}
    users: dict[Node, list[Node]] = {node: [] for node in chosen}
    for node in chosen:
        for arg in needs[node]:
            users[arg].append(node)
    place = {node: k for k, node in enumerate(chosen)}
    ready = [node for node in chosen if not needs[node]]
    ordered: list[Node] = []
    while ready:
        same = [node for node in ready if ordered and contexts[node] == contexts[ordered[-1]]]
        node = min(same or ready, key=place.__getitem__)
        ready.remove(node)
        ordered.append(node)
        for user in users[node]:
            needs[user].remove(node)
            if not needs[user]:
                ready.append(user)
    return ordered


_NAME = 10  # characters of a name that is yet to be given
_WORDS = 14  # characters of `rt.smooth("", )`
_SHORT = CONDITIONS | {"add"}  # which is not written of these


def _width(node: Node, args: list[int], names: dict[Node, str], is_wordy: bool) -> int:
    """About how many characters a node takes in a statement."""
    if node in names:
        return len(names[node])
    if node.number is not None:
        return 2 if node.number.is_Integer else 20
    if node.op == "rest":  # two numbers
        return 48
    signs = (
        3
        if node.op in ("add", "mul", "pow") or node.op in CONDITIONS
        else 16
        if node.op == "where"
        else len(node.op) + 5
    )
    return signs + sum(args) + (_WORDS if is_wordy and node.op not in _SHORT else 0)


def _repeats(exponent: Expr) -> bool:
    return bool(exponent.is_Integer and 2 <= abs(exponent) <= 4)


def _is_scaled_leaf(node: Node) -> bool:
    """-x, 2*x: shorter than any name for it."""
    return node.op == "mul" and node.args[0].number is not None and not node.args[1].args


def _asks_what_is_given(condition: Node) -> bool:
    """Whether a condition is one of Python's own, not of tensors."""
    return any(below.op in ("given", "flag", "true") for below in topological([condition]))


def _is_weighted(node: Node) -> bool:
    """A term that is there if an incoming gradient is: each stands on a line of its own."""
    return node.op == "where" and any(below.op == "given" for below in topological([node.args[0]]))


Context = tuple[tuple[int, ...], tuple[tuple[str, ...], ...]]


def _contexts(
    roots: Sequence[Node], order: list[Node], given: dict[Node, str], known: Collection[Node]
) -> dict[Node, Context]:
    """For each node the results that read it, and the sets of optional tensors under which alone it is read."""
    wanted: dict[Node, set[int]] = {node: set() for node in order}
    under: dict[Node, set[frozenset[str]]] = {node: set() for node in order}
    for i, root in enumerate(roots):
        wanted[root].add(i)
        under[root].add(frozenset())
    for node in reversed(order):
        for position, arg in enumerate(() if node in known else node.args):
            wanted[arg] |= wanted[node]
            guarded = node.op == "where" and position == 1
            needed = frozenset(given[n] for n in topological(node.args[:1]) if n in given) if guarded else frozenset()
            under[arg] |= {names | needed for names in under[node]}
    return {node: (tuple(sorted(wanted[node])), _alternatives(under[node])) for node in order}


def _alternatives(sets: set[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """The smallest of the sets, none if one of them is empty."""
    smallest = [names for names in sets if not any(other < names for other in sets)]
    return () if frozenset() in sets else tuple(sorted(tuple(sorted(names)) for names in smallest))


def _in_steps(roots: Sequence[Node]) -> list[Node]:
    """The roots with r * f(t) as a product where f(t) is computed anyway."""
    order = topological(roots)
    functions = {(node.op, node.args[0]) for node in order if len(node.args) == 1}
    new: dict[Node, Node] = {}
    for node in order:
        new[node] = rebuilt(node, new)
        if node.op in PRODUCTS and (PRODUCTS[node.op], node.args[1]) in functions:
            r, t = new[node].args
            new[node] = r * node.graph.apply(PRODUCTS[node.op], t)
    return [new[root] for root in roots]
