"""Coefficients of hyper-parameters in lowest terms."""

from __future__ import annotations

import pytest
from nodes import parsed

from gradgen.lowest_terms import in_lowest_terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/(1/(1 - k) - k/(1 - k))", "1"),
        ("(k**2 - 1)/(2*k - 2)", "mul(1/2, add(1, k))"),
        ("k/(1 + k) - k/(1 + k)", "0"),
        ("(exp(k)**2 - 1)/(exp(k) - 1)", "add(1, exp(k))"),
        ("pi*k/(pi*k**2)", "pow(k, -1)"),
        ("x*k/k**2", "mul(mul(x, k), pow(k, -2))"),  # not of hyper-parameters alone
        ("k", "k"),
    ],
)
def test_in_lowest_terms(text: str, expected: str) -> None:
    assert repr(in_lowest_terms(parsed(text))) == expected
