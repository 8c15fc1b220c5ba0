"""Results that are, but for their sign, one function: their form is looked for once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from building import build
from nodes import parsed

from gradgen.choose import Choice
from gradgen.standing import Problem
from gradgen.twins import twins


@pytest.mark.parametrize(
    ("one", "other", "sign"),
    [
        ("tanh(x - y)", "-tanh(x - y)", -1),
        ("(x - y)/(1 + (x - y)**2)", "1/((x - y) + 1/(x - y))", 1),
        ("exp(k*x)*y", "-y*exp(k*x)", -1),
        ("sign(x - y)", "sign(y - x)", 0),  # not the same kink, as far as its form tells
        ("tanh(x - y)", "tanh(x + y)", 0),
        ("tanh(k*x)", "tanh(x)", 0),  # the same for the default alone
        ("exp(x)", "exp(x) + x*1e-20", 0),
        ("0*x", "0*y", 0),
    ],
)
def test_twins(one: str, other: str, sign: int) -> None:
    nodes = [parsed(one), parsed(other)]
    found = twins(nodes, ["x", "y"], {"k": 1.0})
    assert found == ({nodes[1]: (nodes[0], sign)} if sign else {})


def test_branches_that_points_may_not_see_are_no_twins() -> None:
    nodes = [parsed(f"where(gt(x, 100), {number}, tanh(x))") for number in (1, 2)]
    assert twins(nodes, ["x"], {}) == {}


def test_a_twin_has_the_form_and_the_errors_of_the_other() -> None:
    one, other = nodes = [parsed("exp(y - x) - 1 - (y - x)"), parsed("-exp(y - x) + 1 + (y - x)")]
    choice = Choice(Problem(nodes, [], ["x", "y"], {}))
    assert choice.form(one) is not one
    assert choice.form(other) is -1 * choice.form(one)
    assert choice.smooth(other) is -1 * choice.smooth(one)
    assert choice.quality(other) == choice.quality(one)
    assert choice.notes(other) == choice.notes(one)
    assert choice.arithmetic([other]) == choice.arithmetic([one])


def test_derivatives_of_a_function_of_a_difference_share_their_expression(tmp_path: Path) -> None:
    module, _ = build("@op\ndef f(x, y):\n    return exp(y - x) - 1 - (y - x)\n", tmp_path)
    text = Path(module.__file__).read_text()
    assert _lines(text, "grad_x = -") == ["grad_x = -grad_y"] * 3  # in the docstring, in torch and in C


def _lines(text: str, start: str) -> Sequence[str]:
    every = (line.strip().removeprefix("const real ").removesuffix(";") for line in text.splitlines())
    return [line for line in every if line.startswith(start)]
