"""Sums of terms that are each 0/0 where an input is 0, and have limits there one by one: the sum has no series in one
variable.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import pytest
import torch
from building import build
from mpmath import mpf

pytestmark = [pytest.mark.usefixtures("first_order"), pytest.mark.few(every_day=1, slow=5)]

# With the limits, of a formula of two inputs, where the first one is 0: the value and both derivatives.
SUMS: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    "(exp(x) - 1)/x + y*log(1 + x)/x": lambda y: (1 + y, (1 - y) / 2, 1),
    "(1 - exp(-x))/x + (1 - exp(-x*y))/x": lambda y: (1 + y, -(1 + y**2) / 2, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("formula", SUMS)
def test_terms_that_have_limits_one_by_one(formula: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x, y):\n    return {formula}\n", tmp_path)

    def exact(x: mpf, y: mpf) -> Any:
        return eval(formula, vars(mpmath) | {"x": x, "y": y})

    for dtype in (torch.float32, torch.float64):
        close = 8 * torch.finfo(dtype).eps
        for point in ((0.0, 2.0), (1e-30, 0.5), (-1e-9, -3.0), (1e-3, 0.75), (-0.25, 1.5)):
            x, y = (torch.tensor(v, dtype=dtype, requires_grad=True) for v in point)
            out = module.f(x, y)
            found = [out, *torch.autograd.grad(out, (x, y))]
            with mpmath.workdps(300):
                at = mpf(x.item()), mpf(y.item())
                right = (
                    SUMS[formula](at[1]) if not at[0] else [mpmath.diff(exact, at, n) for n in ((0, 0), (1, 0), (0, 1))]
                )
            for one, limit in zip(found, right, strict=True):
                assert abs(one.item() - limit) <= close * max(1, abs(limit)), (dtype, point)


@pytest.mark.slow
def test_terms_with_a_hyper_parameter(tmp_path: Path) -> None:
    """Debye's function of two temperatures."""
    module, _ = build("@op\ndef f(x, k: float = 2.0):\n    return x/(exp(x) - 1) + k*x/(exp(k*x) - 1)\n", tmp_path)
    for k in (2.0, 0.5, 1.0):
        for at in (0.0, 1e-300, -1e-20, 1e-9):
            x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
            out = module.f(x, k)
            out.backward()
            assert out.item() == pytest.approx(2 - (1 + k) * at / 2, rel=1e-15)
            assert x.grad.item() == pytest.approx(-(1 + k) / 2 + (1 + k**2) * at / 6, rel=1e-15)


@pytest.mark.slow
@pytest.mark.second_order
def test_a_hyper_parameter_in_the_coefficients(tmp_path: Path) -> None:
    """The second derivative was NaN at 0, for the series of a power has its exponent in each of its terms."""
    module, _ = build("@op\ndef f(x, a: float = 2.5):\n    return (1 - (1 - x)**a)/x\n", tmp_path)
    for a in (0.5, 2.5, -1.25):
        for at in (0.0, 1e-300, -1e-12):
            x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
            out = module.f(x, a)
            (slope,) = torch.autograd.grad(out, x, create_graph=True)
            (curvature,) = torch.autograd.grad(slope, x)
            binomial = [float(mpmath.binomial(a, n)) * (-1) ** (n + 1) for n in range(5)]
            assert out.item() == pytest.approx(binomial[1] + at * binomial[2], rel=1e-15)
            assert slope.item() == pytest.approx(binomial[2] + 2 * at * binomial[3], rel=1e-14)
            assert curvature.item() == pytest.approx(2 * binomial[3] + 6 * at * binomial[4], rel=1e-12)


@pytest.mark.slow
def test_a_pole_that_one_whole_number_lacks(tmp_path: Path) -> None:
    """((1 + x)**2 - 1 - 2*x)/x**2 is 1, with any other exponent it has a pole at 0."""
    module, _ = build("@op\ndef f(x, k: int = 2):\n    return ((1 + x)**k - 1 - 2*x)/x**2\n", tmp_path)
    x = torch.tensor([1e-6, -1e-6], dtype=torch.float64)
    assert module.f(x, 3).tolist() == pytest.approx([1e6 + 3, -1e6 + 3], rel=1e-9)
    assert module.f(x).tolist() == pytest.approx([1, 1], rel=1e-3)


def test_a_branch_that_is_a_pole_where_it_is_not_taken(tmp_path: Path) -> None:
    module, _ = build(
        "@op\ndef f(x):\n    return Piecewise((2/x, 2/x > Rational(1, 3)), (Rational(1, 6), True))\n", tmp_path
    )
    assert module.f(torch.tensor([4.0, -4.0, 8.0])).tolist() == pytest.approx([0.5, 1 / 6, 1 / 6])
