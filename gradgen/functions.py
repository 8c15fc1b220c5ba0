"""SymPy functions for spec files that SymPy itself lacks, beside those of `sympy.codegen.cfunctions`."""

from __future__ import annotations

from typing import Any

from sympy import Expr, Function, exp, log
from sympy.codegen.cfunctions import exp2, expm1, hypot, log1p, log2, log10

__all__ = ["exp2", "expm1", "hypot", "log1p", "log2", "log10", "logaddexp", "sigmoid", "softplus"]


class _OfExponentials(Function):  # type: ignore[misc]
    """A function that SymPy can write by exponentials; of numbers it is what that is."""

    @staticmethod
    def written(*args: Expr) -> Expr:
        raise NotImplementedError

    @classmethod
    def eval(cls, *args: Expr) -> Expr | None:
        return cls.written(*args) if all(arg.is_number for arg in args) else None

    def _eval_rewrite_as_exp(self, *args: Expr, **_: Any) -> Expr:
        return self.written(*args)


class sigmoid(_OfExponentials):  # noqa: N801 - spelled like SymPy's own functions
    """The logistic function, 1/(1 + exp(-x))."""

    nargs = 1

    @staticmethod
    def written(x: Expr) -> Expr:
        return 1 / (1 + exp(-x))


class softplus(_OfExponentials):  # noqa: N801
    """log(1 + exp(x))."""

    nargs = 1

    @staticmethod
    def written(x: Expr) -> Expr:
        return log(1 + exp(x))


class logaddexp(_OfExponentials):  # noqa: N801
    """log(exp(x) + exp(y))."""

    nargs = 2

    @staticmethod
    def written(x: Expr, y: Expr) -> Expr:
        return log(exp(x) + exp(y))
