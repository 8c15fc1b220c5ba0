"""SymPy functions for spec files that SymPy itself lacks, beside those of `sympy.codegen.cfunctions`."""

from __future__ import annotations

from typing import Any

from sympy import Expr, Function, exp, log
from sympy.codegen.cfunctions import exp2, expm1, hypot, log1p, log2, log10

__all__ = ["exp2", "expm1", "hypot", "log1p", "log2", "log10", "logaddexp", "sigmoid", "softplus"]


class sigmoid(Function):  # type: ignore[misc]  # noqa: N801 - spelled like SymPy's own functions
    """The logistic function, 1/(1 + exp(-x))."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        """Of numbers it is a number."""
        return 1 / (1 + exp(-x)) if x.is_number else None

    def _eval_rewrite_as_exp(self, x: Expr, **_: Any) -> Expr:
        return 1 / (1 + exp(-x))


class softplus(Function):  # type: ignore[misc]  # noqa: N801
    """log(1 + exp(x))."""

    nargs = 1

    @classmethod
    def eval(cls, x: Expr) -> Expr | None:
        """Of numbers it is a number."""
        return log(1 + exp(x)) if x.is_number else None

    def _eval_rewrite_as_exp(self, x: Expr, **_: Any) -> Expr:
        return log(1 + exp(x))


class logaddexp(Function):  # type: ignore[misc]  # noqa: N801
    """log(exp(x) + exp(y))."""

    nargs = 2

    @classmethod
    def eval(cls, x: Expr, y: Expr) -> Expr | None:
        """Of numbers it is a number."""
        return log(exp(x) + exp(y)) if x.is_number and y.is_number else None

    def _eval_rewrite_as_exp(self, x: Expr, y: Expr, **_: Any) -> Expr:
        return log(exp(x) + exp(y))
