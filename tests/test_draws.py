"""Random numbers are of the ranges that are asked for, and the same wherever a formula is built."""

from __future__ import annotations

import numpy as np

from gradgen.draws import Draws


def test_numbers_are_the_same_everywhere() -> None:
    draws = Draws(7)
    assert draws.shares(3).tolist() == [0.625095466604667, 0.8972138009695755, 0.7756856902451935]
    assert draws.integers(-2, 3, 6).tolist() == [-1, -1, 2, -2, 2, 1]


def test_ranges() -> None:
    draws, low, high = Draws(0), np.array([0, -5]), np.array([2, -3])
    numbers = draws.integers(low, high, 1000, 2)
    assert [sorted(set(column)) for column in numbers.T.tolist()] == [[0, 1], [-5, -4]]
    uniform = draws.uniform(-3, 5, 10_000)
    assert -3 <= uniform.min() < uniform.max() < 5
    assert abs(uniform.mean() - 1) < 0.1
    assert {*draws.signs(100).tolist()} == {1, -1}
    assert {*draws.choices((0.5, 4.0), 100).tolist()} == {0.5, 4.0}


def test_the_next_numbers_are_others() -> None:
    draws = Draws(0)
    assert (draws.shares(10) != draws.shares(10)).all()
