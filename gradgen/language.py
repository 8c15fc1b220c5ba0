"""The language of spec files: `Tensor` and `op`.

    from sympy import exp
    from gradgen import Tensor, op

    @op
    def swish(x: Tensor, beta: float = 1.0):
        \"\"\"Swish, x * sigmoid(beta * x)  (Ramachandran et al., 2017).\"\"\"
        return x / (1 + exp(-beta * x))

This module only records what was declared; `load` calls the functions.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradgen.errors import GradgenError


@dataclass(frozen=True)
class Tensor:
    """The annotation of a tensor input.

    `Tensor` alone is a differentiable input; `Tensor(grad=False)` one that gets no gradient (a target, a mask), which
    may also be of an integer or bool type when the op is called. `Tensor(init=1.0)` is learnable: the module of the op
    holds it as a parameter that starts as 1, a single number, or one for each channel with `per_channel=True`.
    """

    grad: bool = True
    init: float | None = None
    per_channel: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.grad, bool):
            raise GradgenError(f"Tensor(grad={self.grad!r})", hint="Write Tensor, or Tensor(grad=False).")
        if not isinstance(self.per_channel, bool) or (self.init is not None and _number(self.init) is None):
            given = f"Tensor(init={self.init!r}, per_channel={self.per_channel!r})"
            raise GradgenError(given, hint=_LEARNABLE)
        if self.init is None and self.per_channel:
            raise GradgenError("Tensor(per_channel=True) has no initial value", hint=_LEARNABLE)
        if self.init is not None and not self.grad:
            raise GradgenError("Tensor(grad=False, init=...) is learnable, but gets no gradient", hint=_LEARNABLE)


_LEARNABLE = "For an input that the module learns write Tensor(init=1.0), or Tensor(init=1.0, per_channel=True)."


@dataclass(frozen=True)
class Parameter:
    """A parameter of an op.

    Attributes:
        name: as in the spec.
        kind: "tensor", or for a hyper-parameter "float", "int" or "bool".
        grad: whether a tensor is differentiable.
        default: a hyper-parameter's default, None without one.
        init: what a learnable tensor starts as; None for one that is given in each call.
        per_channel: whether a learnable tensor has one number for each channel.
    """

    name: str
    kind: str
    grad: bool = True
    default: float | int | bool | None = None
    init: float | None = None
    per_channel: bool = False


class Op:
    """An operation declared by `@op`. Calling it calls the function, so that formulas may use one another."""

    def __init__(
        self, function: Callable[..., Any], files: frozenset[str] = frozenset(), in_float32: bool = False
    ) -> None:
        self.function = function
        self.in_float32 = in_float32
        self.name = function.__name__
        self.files = files
        self.derivatives: dict[str, Callable[..., Any]] = {}
        self.used = False
        DECLARED.append(self)

    def derivative(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the derivative by the input `name`, in place of the one gradgen would derive.

        The decorated function takes the op's parameters (those it needs, by name) and returns the derivative of the
        output by that input; for several outputs a tuple of them.
        """
        how = f'Write @{self.name}.derivative("x") above a function, x being an input of {self.name}.'
        if not isinstance(name, str):
            raise GradgenError(f"a derivative of {self.name} without the name of an input", hint=how)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            if not inspect.isfunction(function):
                raise GradgenError(f"the derivative of {self.name} by {name!r} is no function", hint=how)
            if name in self.derivatives:
                raise GradgenError(f"{self.name} has two derivatives by {name!r}", hint="Take one of them out.")
            if self.used:
                raise self._lost()
            self.derivatives[name] = function
            return function

        return declare

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.derivatives:
            raise self._lost()
        self.used = True
        return self.function(*args, **kwargs)

    def _lost(self) -> GradgenError:
        return GradgenError(
            f"{self.name} has a derivative of its own, which would be lost inside another formula",
            hint="Write its formula out here and give this op a derivative of its own, or call the generated"
            " operations one after the other.",
        )


# What `@op` has declared since the last load began, in order; `load` empties it.
DECLARED: list[Op] = []


def op(function: Callable[..., Any] | None = None, *, autocast: str | None = None) -> Any:
    """Declare an operation: a function from symbols to a SymPy expression, or a tuple of them.

    Its parameters are annotated `Tensor` (the default), `Tensor(grad=False)`, `float`, `int` or `bool`. Within autocast
    it computes in the type of its inputs, as pointwise operations do; with `@op(autocast="float32")` in float32, as
    torch's losses do.
    """
    if autocast is not None:
        if function is not None or autocast != "float32":
            raise GradgenError(f"op(autocast={autocast!r})", hint='Write @op(autocast="float32"), or @op alone.')
        return partial(_declared, in_float32=True)
    return _declared(function)


def _declared(function: Callable[..., Any] | None, in_float32: bool = False) -> Op:
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise GradgenError(f"@op decorates a def, not {_described(function)}", hint=_PLAIN)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        kind = "async" if inspect.iscoroutinefunction(function) else "a generator"
        raise GradgenError(f"{function.__name__} is {kind}; an operation is a plain function", hint=_PLAIN)
    caller = inspect.currentframe()
    while caller and caller.f_code in (_declared.__code__, op.__code__):
        caller = caller.f_back
    files = {function.__code__.co_filename, caller.f_code.co_filename if caller else ""}
    return Op(function, frozenset(files), in_float32)


_PLAIN = "Write @op alone, without brackets, right above a plain def that returns a formula."


def _described(value: object) -> str:
    if inspect.isfunction(value):
        return "a lambda, which has no name"
    if value is None or isinstance(value, str):
        return "nothing" if value is None else repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


_KINDS: dict[Any, str] = {inspect.Parameter.empty: "tensor", Tensor: "tensor", float: "float", int: "int", bool: "bool"}


def parameters(declared: Op) -> tuple[Parameter, ...]:
    """The parameters of an op, from its signature.

    Raises:
        GradgenError: for `*args`, an unknown annotation, a default of the wrong type.
    """
    hint = (
        "Write Tensor, Tensor(grad=False), float, int or bool, with Tensor from gradgen: from gradgen import Tensor, op"
    )
    try:
        signature = inspect.signature(declared.function, eval_str=True)
    except Exception as error:  # an annotation in quotes is code of the user's
        raise GradgenError(f"{error}, in the signature of {declared.name}", hint=hint) from error
    found = tuple(_parameter(declared.name, p, hint) for p in signature.parameters.values())
    for before, after in itertools.pairwise(found):
        if before.default is not None and after.default is None:
            raise GradgenError(
                f"{after.name!r} of {declared.name} has no default, but follows {before.name!r}, which has one",
                hint="Write parameters with a default last.",
            )
    return found


def _parameter(op_name: str, p: inspect.Parameter, hint: str) -> Parameter:
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        raise GradgenError(f"{op_name} takes {p}", hint="Name every input: the signature is the operation's own.")
    if isinstance(p.annotation, Tensor):
        declared, init = p.annotation, _number(p.annotation.init)
        return Parameter(p.name, "tensor", declared.grad, _default(op_name, p, "tensor"), init, declared.per_channel)
    if isinstance(p.annotation, type) and p.annotation in _KINDS:
        kind = _KINDS[p.annotation]
        return Parameter(p.name, kind, True, _default(op_name, p, kind))
    is_module = inspect.ismodule(p.annotation)  # of `import *` from sympy, as tensor is
    written = p.annotation.__name__ if is_module else inspect.formatannotation(p.annotation)
    raise GradgenError(
        f"parameter {p.name!r} of {op_name} is annotated {written}, which gradgen does not know", hint=hint
    )


_EXACT = 2**53  # whole numbers up to here are floats, too


def _default(op_name: str, p: inspect.Parameter, kind: str) -> float | int | bool | None:
    value = p.default
    if value is p.empty:
        return None
    if kind == "tensor":
        raise GradgenError(
            f"tensor input {p.name!r} of {op_name} has the default {value!r}",
            hint=f"A tensor has no default; for a hyper-parameter write {p.name}: float = {_number(value) or 1.0!r}.",
        )
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int" and type(value) is int:
        if abs(value) <= _EXACT:
            return value
        problem = f"the default of {p.name!r} of {op_name} is beyond 2**53, where a float64 skips whole numbers"
        raise GradgenError(problem, hint=f"Write {p.name}: float, or a smaller number.")
    number = _number(value)
    if kind == "float" and number is not None and not math.isnan(number):
        return number
    example = {"bool": "True", "int": "1", "float": "1.0"}[kind]
    problem = f"the default of {p.name!r} of {op_name} is {value!r}, which is no {kind}"
    raise GradgenError(problem, hint=f"Write, for example, {p.name}: {kind} = {example}.")


def _number(value: Any) -> float | None:
    """A real number of Python's, numpy's or SymPy's as a float; None for anything else."""
    if isinstance(value, bool | str | complex):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
