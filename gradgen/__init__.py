"""gradgen: from a SymPy formula to a fused, differentiable PyTorch operation.

A spec file imports what it needs from here::

    from gradgen import Tensor, op

`Tensor` and `op` declare an operation; the functions (`sigmoid`, `softplus`, `logaddexp`, ...) are SymPy functions that
gradgen knows and SymPy lacks. Everything is loaded on first use, so that the command line starts without SymPy.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Tensor": "language",
    "op": "language",
    "sigmoid": "functions",
    "softplus": "functions",
    "logaddexp": "functions",
    "log1p": "functions",
    "expm1": "functions",
    "log2": "functions",
    "log10": "functions",
    "exp2": "functions",
    "hypot": "functions",
    "GradgenError": "errors",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gradgen' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"gradgen.{_HOME[name]}"), name)
