"""Formulas of the classes that the rules are for, with scales and shifts, at every magnitude: value and gradient."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from exceptions import BAR

from gradgen.verify.measure import compared, computed, dtype_name
from gradgen.verify.reference import BITS_OF_FLOAT64, Reference
from gradgen.verify.subject import built

EVERY_DAY = [
    "log(p*exp(x) + (1 - p)*exp(y))",
    "exp(2.5*x)/(1 + exp(x))**2.5",
    "cbrt(x + 1) - cbrt(x)",
    "log(1 + exp(-(2*x - 3))) + 2*x - 3",
    "sqrt((2*x - 3)**2 + 1) - (2*x - 3)",
]
SLOW = [
    "sqrt((x - 1)**2 + y**2) - sqrt((x + 1)**2 + y**2)",
    "a*x*(1 + (a*x)**2)**(-k)",
    # Exponentials against one another, and what grows against what vanishes
    "exp(k*x)/(1 + exp(x))**k",
    "exp(-x)*(exp(x) - 1)",
    "exp(x)*log(1 + exp(-x))",
    "exp(-x)*log(1 + exp(x))",
    "exp(-1/(a*x)**2)",
    "sqrt(1 + exp(2*x)) - exp(x)",
    "(sqrt(exp(2*x) + 4*exp(x)) - exp(x))/2",
    "(sqrt(1 + 4*exp(x)) - 1)/(2*exp(x))",
    "1 + exp(-x) - sqrt((1 + exp(-x))**2 - 1)",
    # Sums of them: numbers of terms, weights, scales and shifts
    "(exp(x) - exp(-2*x))/(exp(x) + exp(-2*x) + 1)",
    "(1 - exp(-3*x))/(1 + exp(-x) + exp(-3*x))",
    "(1 + 2*exp(x))/(1 + exp(x) + exp(3*x))**2",
    "(exp(2*x - 3) - exp(-x))/(exp(2*x - 3) + exp(-x) + 1)",
    "x*exp(x)/(exp(x) + exp(-x) + 3)",
    "2*exp(x)/(2*exp(x) + exp(y) + 3)",
    "exp(x)/(exp(x) + 2*exp(y) + 3*exp(z))",
    "exp(x)/(k + exp(x) + exp(y))",
    "1/(1 + exp(-x))/(1/(1 + exp(-x)) + 1/(1 + exp(-y)))",
    "1/(p*exp(a*x) + (1 - p)*exp(-k*x))",
    "exp(-x)/(exp(-x) + exp(-y))**2",
    "exp(x)/sqrt(exp(2*x) + exp(2*y))",
    "sqrt(1 + exp(x) + exp(2*x))",
    "cbrt(1 + exp(x) + exp(2*x))",
    "sqrt(4 + exp(2*x)) - exp(x)",
    "1 - tanh(x)*tanh(y)",
    "(sinh(x) - sinh(y))/(cosh(x) + cosh(y))",
    "log(exp(x) + 2*exp(y) + 3*exp(z))",
    "log(1 + exp(x) + 2*exp(y) + exp(2*z) + exp(x + y))",
    "log((exp(x) + exp(y) + exp(z))/3)",
    "log((exp(a*x) + exp(-a*x))/2)",
    "log(k + exp(x) + exp(2*x))",
    "log((1 + exp(x) + exp(y))/(1 + exp(y)))",
    "log(1 - 1/((1 + exp(-x))*(1 + exp(-y))))",
    "1/((1 + exp(-x))*(1 + exp(-y)) - 1)",
    # Logarithms, nested
    "log(log(1 + exp(x)))",
    "sqrt(log(1 + exp(x)))",
    "asinh(exp(x))",
    "asinh(sinh(x)/2)",
    "log(1 + exp(a*x)) - Max(a*x, 0)",
    "log(1 + exp(a*x + 1)) - log(1 + exp(a*x))",
    "log((1 + exp(x + a))/(1 + exp(x - a))) - a",
    "a + log((1 + exp(x - a))/(1 + exp(x - k)))",
    "log(1 + (a*x)**2) - 2*log(a*x)",
    "k*log(1 + exp(x/k)) - x",
    # Differences of roots and of their kin
    "sqrt(x**4 + 1) - x**2",
    "sqrt(x**2 + k) - sqrt(x**2 + 1)",
    "sqrt((x - 1)**2 + 1) - sqrt((x + 1)**2 + 1)",
    "sqrt(x**2 + x + 1) - x",
    "sqrt(x**2 + 3) - sqrt(x**2 + x + 1)",
    "sqrt(x**4 + 3*x**2 + 1) - x**2",
    "sqrt(a*x**2 + k) - sqrt(a*x**2 + 1)",
    "x/(sqrt(x**2 + x + 1) + 1)",
    "sqrt(x**2 + y**2) - sqrt(x**2)",
    "asinh(a*x + 1) - asinh(a*x)",
    "atan(a*x + 1) - atan(a*x)",
    "Abs(a*x + 1) - Abs(a*x - 1)",
    "sin(a*x + 1) - sin(a*x)",
    # Squares and powers that overflow
    "sqrt(x**2/(1 + x**2))",
    "x/(1 + Abs(x)**k)**(1/k)",
    "x/cbrt(1 + Abs(x)**3)",
    "x/cbrt(1 + x**2)",
    "(a*x)**3/(1 + (a*x)**2)**(Rational(3, 2))",
    "cbrt(1 + (a*x)**2)",
    "(1 + (a*x)**2)**Rational(1, 8)",
    "(x**2 + 1)/sqrt(x**2 + 2)",
    "log(1 + x**2/k)",
    "log(1 + (x/z)**2/k) + log(z)",
    "log(pi*z*(1 + ((x - y)/z)**2))",
    "1/(x + sqrt(1 + x**2))",
    # Functions of 2*x - 3, of which SymPy writes the parts out
    "exp(2*x - 3)/sqrt(1 + exp(2*(2*x - 3)))",
    "(1 + 2*exp(2*x - 3))/(3 + exp(2*x - 3))",
    "log(2*x - 3 + sqrt(1 + (2*x - 3)**2))",
    "(2*x - 3)/sqrt(k + (2*x - 3)**2)",
    "k*log(1 + exp((2*x - 3)/k)) - (2*x - 3)",
    "sqrt((2*x - 4)**2 + 1) - sqrt((2*x - 2)**2 + 1)",
    # Functions of an argument of several inputs, beside others
    "log(1 + exp(-(x + y))) + x + y",
    "log(1 + exp(-(x + y))) + (1 - z)*(x + y)",
    "z*(sqrt(1 + (x - y)**2) - 1)",
    "(x - y)/(exp(x - y) - 1)",
    "(x - y)**2/(k**2 + (x - y)**2)",
    # Sums of functions of one input each, and clips
    "-(1 + x - y**2 - exp(x))/2",
    "(exp(x) - 1 - x)/2 + (exp(-y) - 1 + y)/2",
    "(y + Max(-a, Min(a, x - y)) - z)**2",
    "Max(x**2, (y + Max(-a, Min(a, x - y)))**2)/2",
]

TENSORS, HYPER = ("x", "y", "z"), {"a": 1.3, "k": 1.7, "p": 0.3}
DECLARED = {x: f"{x}: Tensor" for x in TENSORS} | {name: f"{name}: float = {value}" for name, value in HYPER.items()}
EXPONENTS = {torch.float32: range(-126, 127, 11), torch.float64: [*range(-60, 60, 9), *range(-970, 971, 97)]}


def similar(names: Sequence[str], dtype: torch.dtype) -> list[dict[str, float]]:
    """Inputs of similar size, near 0 and up to where exponentials overflow, of all signs; none of a single one."""
    signs = itertools.product((1, -1), repeat=len(names))
    return [
        {
            name: torch.tensor(sign * math.ldexp(1 + turn / 7, exponent), dtype=dtype).item()
            for turn, (name, sign) in enumerate(zip(names, each, strict=True))
        }
        for each in (signs if len(names) > 1 else ())
        for exponent in (-30, -6, 0, 3, 6, 8)
    ]


@pytest.mark.few(every_day=1, slow=5)
@pytest.mark.usefixtures("first_order")
@pytest.mark.parametrize(
    "text",
    [
        *EVERY_DAY,
        *(pytest.param(text, marks=[pytest.mark.slow, pytest.mark.thorough]) for text in SLOW),
    ],
)
def test_class(text: str, tmp_path: Path) -> None:
    names = set(re.findall(r"\b[xyzakp]\b", text))
    parameters = [DECLARED[name] for name in DECLARED if name in names]
    spec = tmp_path / "spec.py"
    spec.write_text(
        "from sympy import *\nfrom gradgen import Tensor, op\n\n\n"
        f"@op\ndef typed({', '.join(parameters)}):\n    return {text}\n"
    )
    with built((spec,), None) as (subject,):
        reference = Reference(subject.formula, subject.hyper, BITS_OF_FLOAT64)
        for dtype, exponents in EXPONENTS.items():
            points = [
                {
                    name: torch.tensor(sign * math.ldexp(1.37 + turn / 7, exponent - 3 * turn), dtype=dtype).item()
                    for turn, name in enumerate(subject.inputs)
                }
                for exponent in exponents
                for sign in (1, -1)
            ]
            points += similar(subject.inputs, dtype)
            samples = [(point, reference(point, subject.quantities)) for point in points]
            found, strayed = computed(subject, "cpu", dtype, points)
            assert not strayed
            for row in compared(subject, dtype_name(dtype), samples, {"cpu": found}):
                assert row.passes(BAR), (row.worst, row.at, row.bad_at)
