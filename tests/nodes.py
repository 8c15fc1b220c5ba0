"""Nodes for a test, from text."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import sympy

from gradgen import rewrite as rewriting
from gradgen.graph import Graph, Node
from gradgen.primitives import PRIMITIVES


def parsed(text: str, large: Iterable[str] = ()) -> Node:
    """An expression of x, y, z (tensors), k (a hyper-parameter, `large` or not) and the primitives, before any rule."""
    graph = Graph(["k"], large)
    names = {name: graph.input(name) for name in ("x", "y", "z", "k")}
    names |= {name: functools.partial(graph.apply, name) for name in PRIMITIVES}
    names |= {"sqrt": lambda u: u**sympy.S.Half, "pi": graph.const(sympy.pi)}
    return graph.node(eval(text, {"sympy": sympy}, names))


def forget_rules() -> None:
    """Let rewriting look for the rules anew, after the table was changed."""
    for known in (rewriting._rules_for, rewriting._rules_of):
        known.cache_clear()
