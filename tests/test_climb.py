"""Tuples of several inputs in which roundings meet, of which hardly one is drawn by chance."""

from __future__ import annotations

from pathlib import Path

import mpmath
import pytest
import torch
from building import build
from mpmath import mpf
from nodes import parsed

from gradgen import climb
from gradgen.dense import computed, drawn
from gradgen.printed import printed_alone
from gradgen.rewrite import rewrite
from gradgen.ulp import mixed_error


def of(text: str, arithmetic: str = "float32", most: float = 64.0) -> tuple[float, dict[str, float]]:
    (node,) = rewrite([parsed(text)])
    names = [name for name in "xyz" if name in text.replace("exp", "")]
    error, at = climb.worst(printed_alone(node), arithmetic, names, {}, most)
    return error, dict(at)  # type: ignore[arg-type]


@pytest.mark.parametrize("arithmetic", ["float32", "short"])
def test_finds_what_hardly_any_tuple_shows(arithmetic: str) -> None:
    """Where (y + 1)*exp(x*y + x) depends on neither input, what rounding takes from x*y counts in full."""
    error, at = of("(y + 1)*exp(x*y + x)", arithmetic)
    assert error > 6
    assert abs(at["y"] + 1 + 1 / at["x"]) < 0.05
    assert (error, at) == of("(y + 1)*exp(x*y + x)", arithmetic)


def test_finds_no_more_than_there_is() -> None:
    assert of("x*y")[0] <= 0.5
    assert of("x + y")[0] <= 0.5
    assert of("sqrt(x**2 + y**2 + z**2)")[0] < 2.7


@pytest.mark.parametrize("arithmetic", ["float32", "short"])
def test_a_hyper_parameter_is_a_number_of_the_type(arithmetic: str) -> None:
    (node,) = rewrite([parsed("k*x + 0*y")])
    error, at = climb.worst(printed_alone(node), arithmetic, ["x", "y"], {"k": 0.1})
    assert error <= 0.5
    assert dict(at)["k"] == 0.1


def test_stays_within_the_bound() -> None:
    assert all(abs(number) <= 8 for number in of("exp(x*y + x)", most=8.0)[1].values())
    assert computed([parsed("x*y")], "wide", dict(zip("xy", drawn(2), strict=True)), {})[0].size == drawn(2).shape[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_what_it_finds_is_computed_with_more_digits(dtype: torch.dtype, tmp_path: Path) -> None:
    module, _ = build("@op\ndef f(x, y):\n    return exp(x*y + x)\n", tmp_path)
    first = torch.tensor([7.407888412475586, 6.885492324829102, -1.0], dtype=dtype)
    second = torch.tensor([-1.1265755891799927, -1.1631464958190918, 0.25], dtype=dtype)
    x, y = (numbers.expand(1000, 3).clone() for numbers in (first, second))
    x[:, :2] *= 1 + torch.linspace(-(2.0**-12), 2.0**-12, 1000, dtype=dtype)[:, None]
    x.requires_grad_()
    (found,) = torch.autograd.grad(module.f(x, y).sum(), x)
    worst = 0.0
    with mpmath.workprec(200):
        for a, b, got in zip(x.flatten().tolist(), y.flatten().tolist(), found.flatten().tolist(), strict=True):
            p, q = mpf(a), mpf(b)
            power = mpmath.exp(p * q + p)
            scale = max(abs(p * (q + 1) ** 2), abs(q * (1 + p * (q + 1)))) * power
            worst = max(worst, mixed_error(got, (q + 1) * power, scale, str(dtype).removeprefix("torch.")))
    assert worst <= 4
