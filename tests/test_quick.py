"""The functions that the model computes by arithmetic alone, against mpmath."""

from __future__ import annotations

import ast
import inspect
import math
import random
from functools import partial

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from gradgen import quick
from gradgen.evaluate import function
from gradgen.scaled import VANISHING

RELATIVE = 2e-14  # far below what float32 shows

ENDS = [0.0, -0.0, math.inf, -math.inf, 1e300, -1e300, 1e-300, -1e-300, 1.0, -1.0]


def inputs(count: int) -> list[tuple[float, ...]]:
    randoms = random.Random(1)
    sizes = (lambda: randoms.gauss(0, 3), lambda: randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(-40, 7))
    found = [tuple(randoms.choice(sizes)() for _ in range(count)) for _ in range(300)]
    return found + [tuple(randoms.choice(ENDS) for _ in range(count)) for _ in range(40)]


@pytest.mark.parametrize("name", quick.FUNCTIONS)
def test_gives_what_mpmath_does(name: str) -> None:
    compute = quick.FUNCTIONS[name]
    at = inputs(len(inspect.signature(compute).parameters))
    with np.errstate(all="ignore"):
        found = compute(*map(np.array, zip(*at, strict=True)))
    compared = 0
    for x, value in zip(at, found.tolist(), strict=True):
        with mpmath.workprec(300):
            exact = function(name, *map(mpf, x))
            if mpmath.isnan(exact) or not 1e-290 < abs(exact) < 1e290:
                continue
            assert abs(value - exact) <= RELATIVE * scale(name, x, exact), x
            compared += 1
    assert compared > 100


ZEROS = {"dgelu": -0.75, "dswish": -1.28}


def scale(name: str, x: tuple[float, ...], exact: mpf) -> mpf:
    """What an error is measured by: near their zeros derivatives are as far off as their terms."""
    zeros = [zero for of, zero in ZEROS.items() if name.endswith(of)]
    is_near = any(abs(x[-1] - zero) < 0.1 for zero in zeros)
    return 0.1 * abs(x[0] if len(x) > 1 else 1) if is_near else abs(exact)


@pytest.mark.parametrize("name", quick.FUNCTIONS)
def test_at_every_magnitude_of_float32(name: str) -> None:
    compute = quick.FUNCTIONS[name]
    randoms = random.Random(2)
    count = len(inspect.signature(compute).parameters)
    at = [tuple(randoms.choice([-1, 1]) * 2.0 ** randoms.uniform(-149, 128) for _ in range(count)) for _ in range(300)]
    with np.errstate(all="ignore"):
        found = compute(*map(np.array, zip(*at, strict=True)))
    for x, value in zip(at, found.tolist(), strict=True):
        with mpmath.workprec(300):
            exact = function(name, *map(mpf, x))
            if mpmath.isnan(exact) or not 1e-60 < abs(exact) < 1e60:
                continue
            assert abs(value - exact) <= 5 * RELATIVE * abs(exact), x


@pytest.mark.parametrize("name", VANISHING)
def test_products_with_what_is_too_small_alone(name: str) -> None:
    """As kernels have them: 1e200 * exp(-800) has all its digits, though the exponential is 0."""
    compute, randoms = quick.FUNCTIONS[f"mul_{name}"], random.Random(3)
    far = {"erfc": (26, 33), "ndtr": (-47, -37), "dgelu": (-47, -37)}.get(name, (-1100, -700))
    size = partial(randoms.uniform, *far)
    at = [(randoms.choice([-1, 1]) * 10.0 ** randoms.uniform(100, 300), size()) for _ in range(300)]
    compared = 0
    for x, value in zip(at, compute(*map(np.array, zip(*at, strict=True))).tolist(), strict=True):
        with mpmath.workprec(300):
            exact = function(name, mpf(x[1])) * x[0]
            if abs(exact) > 1e-290:
                assert abs(value - exact) <= 5 * RELATIVE * abs(exact), x
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "erf", "erfc"])
def test_nan_and_the_ends(name: str) -> None:
    compute = quick.FUNCTIONS[name]
    with np.errstate(all="ignore"):
        assert np.isnan(compute(np.array([np.nan]))).all()
        for x, value in zip(ENDS, compute(np.array(ENDS)).tolist(), strict=True):
            exact = function(name, mpf(x))
            if mpmath.isinf(exact) or exact == 0:
                assert value == float(exact), x


def test_nothing_asks_the_c_library() -> None:
    """Whose logarithms, exponentials and powers differ in the last digit from one machine to another."""
    tree = ast.parse(inspect.getsource(quick))
    called = {f"{n.value.id}.{n.attr}" for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_module(n.value)}
    assert called == {f"np.{name}" for name in EXACT_OF_NUMPY} | {"math.factorial", "math.pi", "math.sqrt"}
    powers = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    squares = [n for n in powers if isinstance(n.right, ast.Constant) and n.right.value == 2]  # one multiplication
    assert all(n in squares or isinstance(n.left, (ast.Constant, ast.UnaryOp)) for n in powers)


EXACT_OF_NUMPY = (
    "clip", "copysign", "errstate", "frexp", "full_like", "inf", "int32", "isfinite", "ldexp", "maximum", "minimum",
    "nan", "rint", "sqrt", "where",
)  # fmt: skip


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "math")
