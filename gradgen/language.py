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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradgen.errors import GradgenError


@dataclass(frozen=True)
class Tensor:
    """The annotation of a tensor input.

    `Tensor` alone is a differentiable input; `Tensor(grad=False)` one that gets no gradient (a target, a mask), which
    may also be of an integer or bool type when the op is called.
    """

    grad: bool = True


@dataclass(frozen=True)
class Parameter:
    """A parameter of an op.

    Attributes:
        name: as in the spec.
        kind: "tensor", or for a hyper-parameter "float", "int" or "bool".
        grad: whether a tensor is differentiable.
        default: a hyper-parameter's default, None without one.
    """

    name: str
    kind: str
    grad: bool = True
    default: float | int | bool | None = None


class Op:
    """An operation declared by `@op`. Calling it calls the function, so that formulas may use one another."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.derivatives: dict[str, Callable[..., Any]] = {}
        DECLARED.append(self)

    def derivative(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the derivative by the input `name`, in place of the one gradgen would derive.

        The decorated function takes the op's parameters (those it needs, by name) and returns the derivative of the
        output by that input; for several outputs a tuple of them.
        """

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            if name in self.derivatives:
                raise GradgenError(
                    f"{self.name} has two derivatives by {name!r}", line=function.__code__.co_firstlineno
                )
            self.derivatives[name] = function
            return function

        return declare

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.derivatives:
            raise GradgenError(
                f"{self.name} has a derivative of its own, which would be lost inside another formula",
                hint="Write its formula out here and give this op a derivative of its own, or call the generated"
                " operations one after the other.",
            )
        return self.function(*args, **kwargs)


# What `@op` has declared since the last load began, in order; `load` empties it.
DECLARED: list[Op] = []


def op(function: Callable[..., Any]) -> Op:
    """Declare an operation: a function from symbols to a SymPy expression, or a tuple of them.

    Its parameters are annotated `Tensor` (the default), `Tensor(grad=False)`, `float`, `int` or `bool`.
    """
    if not inspect.isfunction(function):
        raise GradgenError(f"@op decorates a function, not {function!r}", hint="Write @op above a def.")
    return Op(function)


_KINDS: dict[Any, Parameter] = {
    inspect.Parameter.empty: Parameter("", "tensor"),
    Tensor: Parameter("", "tensor"),
    float: Parameter("", "float"),
    int: Parameter("", "int"),
    bool: Parameter("", "bool"),
}


def parameters(declared: Op) -> tuple[Parameter, ...]:
    """The parameters of an op, from its signature.

    Raises:
        GradgenError: for `*args`, an unknown annotation, a default of the wrong type.
    """
    try:
        signature = inspect.signature(declared.function, eval_str=True)
    except NameError as error:
        raise GradgenError(
            f"{error} in the signature of {declared.name}", hint="Import Tensor: from gradgen import Tensor, op"
        ) from error
    return tuple(_parameter(declared.name, p) for p in signature.parameters.values())


def _parameter(op_name: str, p: inspect.Parameter) -> Parameter:
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        raise GradgenError(f"{op_name} takes *{p.name}", hint="Name every input: the signature is the operation's own.")
    if isinstance(p.annotation, Tensor):
        kind, grad = "tensor", p.annotation.grad
    elif isinstance(p.annotation, type) and p.annotation in _KINDS:
        kind, grad = _KINDS[p.annotation].kind, True
    else:
        raise GradgenError(
            f"parameter {p.name!r} of {op_name} is annotated {p.annotation!r}",
            hint="Write Tensor, Tensor(grad=False), float, int or bool.",
        )
    return Parameter(p.name, kind, grad, _default(op_name, p, kind))


def _default(op_name: str, p: inspect.Parameter, kind: str) -> float | int | bool | None:
    value = p.default
    if value is p.empty:
        return None
    if kind == "tensor":
        raise GradgenError(
            f"tensor input {p.name!r} of {op_name} has the default {value!r}",
            hint=f"A tensor has no default; for a hyper-parameter write {p.name}: float = {value!r}.",
        )
    if kind == "float" and type(value) in (int, float):
        return float(value)
    if (kind == "int" and type(value) is int) or (kind == "bool" and type(value) is bool):
        return value  # type: ignore[no-any-return]
    raise GradgenError(
        f"the default of {p.name!r} of {op_name} is {value!r}, no {kind}", hint=f"Write {p.name}: {kind} = ..."
    )
