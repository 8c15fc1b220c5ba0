"""Errors in units in the last place, one at a time and many at once."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from mpmath import mpf

from gradgen.ulp import LARGEST, MANTISSA, SMALLEST_EXPONENT, Right, mixed_error, ulp

DTYPES = [dtype for dtype in MANTISSA if dtype != "short"]  # in which nothing is stored


def cases(dtype: str) -> list[tuple[float, mpf, mpf]]:
    """Computed results, exact ones and scales, of every size and near the ends of the type."""
    randoms = random.Random(0)
    top, found = -SMALLEST_EXPONENT[dtype], []
    for _ in range(2000):
        exact = mpf(randoms.choice((-1, 1)) * math.ldexp(randoms.uniform(0.5, 1), randoms.randint(-top - 30, top + 2)))
        exact += exact * mpf(2) ** -70
        scale = mpf(0) if randoms.random() < 0.3 else abs(exact) * mpf(2) ** randoms.randint(-6, 6)
        computed = float(exact + randoms.uniform(-6, 6) * ulp(max(abs(exact), scale), dtype))
        if abs(computed) > LARGEST[dtype]:
            computed = math.copysign(math.inf, computed)
        found.append((computed, exact, scale))
    odd = [math.nan, math.inf, -math.inf, 0.0, LARGEST[dtype], -LARGEST[dtype]]
    ends = [mpf(0), mpf("inf"), mpf("-inf"), mpf("nan"), mpf(LARGEST[dtype]), -mpf(LARGEST[dtype]), mpf(1)]
    return found + [(computed, exact, mpf(scale)) for computed in odd for exact in ends for scale in (0, 1)]


@pytest.mark.parametrize(("value", "expected"), [(1, 2.0**-23), (1.5, 2.0**-23), (2, 2.0**-22), (0, 2.0**-149)])
def test_ulp_is_the_distance_to_the_next_number(value: float, expected: float) -> None:
    assert ulp(mpf(value), "float32") == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_errors_at_once_are_those_of_each(dtype: str) -> None:
    computed, exact, scale = zip(*cases(dtype), strict=True)
    expected = [mixed_error(*case, dtype) for case in cases(dtype)]
    found = Right(exact, scale, dtype).errors(np.array(computed))
    most = 2.0**52  # a difference of the largest numbers overflows
    assert np.allclose(np.minimum(found, most), np.minimum(expected, most), rtol=1e-9, atol=1e-9)
    assert max(error for error in expected if error < math.inf) > 5
    assert math.inf in expected


@pytest.mark.parametrize("scale", [0.0, 1e-30, 3.0, 1e20])
def test_doubles_are_exact_results_too(scale: float) -> None:
    exact = np.array([float(value) for _, value, _ in cases("float32") if abs(value) < 1e300])
    computed = np.array([result for result, value, _ in cases("float32") if abs(value) < 1e300])
    found = Right.of_doubles(exact, scale, "float32").errors(computed)
    expected = [mixed_error(c, mpf(e), mpf(scale), "float32") for c, e in zip(computed, exact.tolist(), strict=True)]
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-9)
