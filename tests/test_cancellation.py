"""Formulas in which nearly everything cancels somewhere, at the points of `gradgen verify`: all within the bar."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgen.choose import BAR
from gradgen.verify import ordinary
from gradgen.verify.quantity import KINDS
from gradgen.verify.subject import built

# Each with what is held to the bar. The norms have no second derivatives at 0, the second derivative of atan is off
# by 4.4 in float64.
FORMULAS = {
    **dict.fromkeys(
        [
            "log(1 + x)/x",
            "x/(exp(x) - 1)",
            "sinh(x)/x",
            "(x - atan(x))/x**3",
            "tan(x) - sin(x)",
            *(f"{f}(x) - {f}(y)" for f in ("tanh", "erf", "asinh", "sin", "cos", "sinh", "cosh", "tan")),
            "exp(-x**2) - exp(-y**2)",
            "x**3 - y**3",
            "sqrt(x) - sqrt(y)",
            "sqrt(1 + k*x**2)",
        ],
        KINDS,
    ),
    "atan(x) - atan(y)": KINDS[:2],
    "sqrt(k*x**2 + y**2)": KINDS[:2],
    "sqrt(k*x**2 + b*y**2)": KINDS[:2],
    "sqrt(y**2 - k*x**2)": KINDS,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", FORMULAS)
def test_value_and_derivatives_at_the_points_of_verify(text: str, tmp_path: Path) -> None:
    parameters = [f"{x}: Tensor" for x in "xy" if x in text.replace("exp", "")]
    parameters += [f"{name}: float = {value}" for name, value in (("k", 2.0), ("b", 3.0)) if f"{name}*" in text]
    spec = tmp_path / "spec.py"
    spec.write_text(
        "from sympy import *\nfrom gradgen import Tensor, op\n\n\n"
        f"@op\ndef cancelling({', '.join(parameters)}):\n    return {text}\n"
    )
    with built((spec,), None) as (subject,):
        outcome = ordinary.run(subject, None, None, lambda: None)
    assert not outcome.failures
    rows = [row for row in outcome.rows if row.kind in FORMULAS[text]]
    assert {row.kind for row in rows} == set(FORMULAS[text])
    for row in rows:
        assert row.passes(BAR), f"{row.path}, {row.dtype}: {row.worst:.3g} ULP, {row.at}; {row.bad} bad, {row.bad_at}"
