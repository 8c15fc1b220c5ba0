"""Where nodes are no numbers, and whether they have a limit there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from nodes import parsed

from gradgen import points
from gradgen.poles import Poles


def poles(hyper: Mapping[str, float | bool] | None = None) -> Poles:
    return Poles(("x", "y"), hyper or {})


@pytest.mark.parametrize(
    ("text", "has", "has_limit"),
    [
        ("sin(x) / x", True, True),
        ("y * (exp(x) - 1) / x", True, True),
        ("cos(x) / x", True, False),
        ("exp(x) * y", False, True),
        ("(exp(x) - 1) / x / (x - y)", True, True),
        ("asin(y) * (exp(x) - 1) / x", True, True),  # real where y is at most 1 alone,
        ("asin(y) * exp(x)", False, True),
        ("log(-y) * sin(x)", False, True),  # where it is negative
        ("abs(x) / x", True, False),
    ],
)
def test_where_the_others_are_such_that_it_is_real(text: str, has: bool, has_limit: bool) -> None:
    node = parsed(text)
    assert poles().has(node, ["x"]) is has
    assert poles().has_limit(node, "x") is has_limit


def test_a_limit_that_one_whole_number_alone_has() -> None:
    node = parsed("((1 + x)**k - 1 - 2*x) / x**2")
    assert not poles({"k": 2}).has_limit(node, "x")
    assert not poles({"k": 2.0}).has_limit(node, "x")


@pytest.mark.parametrize(
    ("text", "k"),
    [("sqrt(1 - k**2)*(exp(x) - 1)/x", 0.3), ("sqrt(1 - k**2)*(exp(x) - 1)/x", 0.7), ("(exp(x) - 1)/(k*x)", -1)],
)
def test_other_hyper_parameters_need_not_be_in_the_domain(text: str, k: float) -> None:
    assert poles({"k": k}).has_limit(parsed(text), "x")


def test_what_is_0_everywhere() -> None:
    assert poles().vanishes(parsed("asin(y) * 2 - asin(y) - asin(y)"))
    assert not poles().vanishes(parsed("asin(y)"))
    assert not poles().vanishes(parsed("log(-1 - x**2)"))  # which is nowhere real
    assert not poles({"k": 1}).vanishes(parsed("(k - 1) * x"))


def test_hyper_parameters_beside_the_defaults() -> None:
    (_, near) = points.hyper_parameters({"n": 2, "m": -1, "flag": True, "a": 1.0}, "float64")
    assert (near["n"], near["m"], near["flag"]) == (3, -2, True)
    assert near["a"] not in (1.0, round(float(near["a"])))
    assert points.hyper_parameters({"flag": False}, "float64") == [{"flag": False}]
