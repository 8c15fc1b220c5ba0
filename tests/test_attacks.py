"""Formulas that once came out wrong: value, gradient or second derivative at a point, against the exact one."""

from __future__ import annotations

import itertools
import math
from contextlib import nullcontext
from pathlib import Path

import mpmath
import pytest
import torch
from building import build

from gradgen.exact import Exact
from gradgen.ulp import mixed_error
from gradgen.verify.quantity import Quantity, error
from gradgen.verify.reference import Reference

pytestmark = [pytest.mark.usefixtures("first_order"), pytest.mark.few(every_day=1, slow=4)]

# Products in which another factor explodes: the zero must not win.
PRODUCTS = [
    ("x*exp(x)/cosh(x)", 1000.0),
    ("x*exp(x**2)*erfc(x)", 100.0),
    ("x*exp(-x)*softplus_(x)", -1000.0),
    ("x*exp(2*x)/(1 + exp(2*x) + exp(x))", 1000.0),
    ("x*exp(x)/(exp(x) + 2*exp(-x))", 1000.0),
]


@pytest.mark.parametrize(("formula", "x"), PRODUCTS)
def test_a_vanishing_factor_does_not_win_against_an_exploding_one(formula: str, x: float, tmp_path: Path) -> None:
    """NaN would be honest; 0 is wrong."""
    text = f"from gradgen import softplus as softplus_\n@op\ndef f(x):\n    return {formula}\n"
    module, _ = build(text, tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert module.f(torch.tensor(x, dtype=torch.float64)).item() != 0


VALUES = [
    ("x/sqrt(1 + x**2)", "float32", 1e30, 1.0),
    ("sqrt(1 + x**2)**-3*x**3", "float32", 1e10, 1.0),
    ("log(cosh(x))", "float32", 1000.0, 1000 - math.log(2)),
    ("log(exp(x) + exp(-x))", "float64", -1000.0, 1000.0),
    ("acsch(x)", "float32", 1e-40, 92.796555),
    ("asech(x)", "float32", 1e-40, 92.796555),
    ("sqrt(x**2 + x**2 + x**2)", "float32", 1e30, 1.7320508e30),
    ("sqrt(2 + 3*x**2)", "float32", 1e30, 1.7320508e30),
    ("1/(1 + 10**(-x))", "float32", -30.0, 1e-30),
    ("log(1 + 2**x)/log(2)", "float32", 1000.0, 1000.0),
    ("log((1 + exp(x))/(1 + exp(x - 1)))", "float64", 800.0, 1.0),
    ("(1 - exp(-2*x))/(1 - exp(-200*x))", "float32", 30.0, 1.0),
    ("(1 - exp(-2*x))/(1 - exp(-200*x))", "float64", -5.0, 0.0),
    ("x/(x + 1e40)", "float64", 1e40, 0.5),
    ("log(1 + exp(x)*tanh(exp(x)/2))", "float64", 750.0, 750.0),
    ("1 - (1 - x**2.0)**5.0", "float64", 1e-9, 5e-18),
    ("log(exp(x)/(1 + exp(x + 1)))", "float64", -900.0, -900.0),
    ("log(x*(x + 1))", "float64", 1e300, 600 * math.log(10)),
    ("(sqrt(1 + exp(2*x)) - 1)/exp(x)", "float32", 99.0, 1.0),
    ("(sqrt(1 + exp(2*x)) - 1)/exp(x)", "float64", -380.0, math.exp(-380) / 2),
    ("log(log(1 + exp(exp(x))))", "float32", 99.0, 99.0),
    ("log(1 + x**2) - log(x**2)", "bfloat16", 6016.0, 2.7629895e-08),
]


@pytest.mark.parametrize(("formula", "dtype", "x", "expected"), VALUES)
def test_value(formula: str, dtype: str, x: float, expected: float, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            at = torch.tensor(x, dtype=getattr(torch, dtype))
            rel = max(1e-6, torch.finfo(at.dtype).eps)
            assert module.f(at).item() == pytest.approx(expected, rel=rel, abs=0)


def test_or_within_and(tmp_path: Path) -> None:
    """In Python & binds stronger than |: without parentheses the torch expression was another condition."""
    text = "@op\ndef f(x, y):\n    return Piecewise((x*y, And(x > 0, Or(y > 1, x < y))), (x - y, True))\n"
    module, _ = build(text, tmp_path)
    x, y = torch.tensor([-2.0, 1.0, 2.0, 3.0]), torch.tensor([5.0, 0.5, 3.0, -1.0])
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert module.f(x, y).tolist() == [-7.0, 0.5, 6.0, 4.0]


@pytest.mark.thorough
@pytest.mark.slow
def test_an_input_that_cancels_in_a_form_is_not_read(tmp_path: Path) -> None:
    """Nelson and Siegel's yields: a form of a derivative had b0 - b0 in it, which the kernel was not given."""
    text = """
        @op
        def f(t, b0, b1, b2, l: float = 1.8):
            x = t/l
            g = (1 - exp(-x))/x
            return b0 + b1*g + b2*(g - exp(-x))
    """
    module, _ = build(text, tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            inputs = [torch.tensor([v, 1.0], dtype=torch.float64, requires_grad=True) for v in (3.0, 0.7, -0.4, 0.9)]
            assert torch.autograd.gradcheck(module.f, inputs)


def test_roots_of_what_is_negative_in_the_other_branch(tmp_path: Path) -> None:
    module, _ = build("@op\ndef f(x):\n    return Piecewise((sqrt(x), x > 0), (-sqrt(-x), True))\n", tmp_path)
    x = torch.tensor([4.0, -9.0], requires_grad=True)
    out = module.f(x)
    out.sum().backward()
    assert out.tolist() == [2.0, -3.0]
    assert x.grad.tolist() == pytest.approx([1 / 4, 1 / 6])


@pytest.mark.parametrize(
    ("formula", "at", "expected"),
    [("exp(x)**500", 0.01, math.exp(5)), ("1/(x**600 + 1)", 1.0, 0.5), ("x**1000 + 3*x**999", 1.0, 4.0)],
)
def test_powers_of_hundreds(formula: str, at: float, expected: float, tmp_path: Path) -> None:
    """They were taken apart one factor after the other, deeper than Python allows."""
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    assert module.f(torch.tensor(at, dtype=torch.float64)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.second_order
def test_a_number_is_written_out_where_it_is_read(tmp_path: Path) -> None:
    """One had a name that was given in a block that had not been entered."""
    text = """
        @op
        def f(x, y, z):
            c = Piecewise((y, Or(z > y, x > y, Not(z > -2))), (tanh(2), And(z > 1, z <= x*y)), (Max(y, x - y), True))
            return Min(x - z, y, x - y)*c + 0*x*y*z
    """
    module, _ = build(text, tmp_path)
    inputs = [torch.tensor([v, -v], dtype=torch.float64, requires_grad=True) for v in (0.7, -1.3, 2.1)]
    grads = torch.autograd.grad(module.f(*inputs).sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in grads), inputs, create_graph=True)
    assert all(g.isfinite().all() for g in torch.autograd.grad(sum(s.sum() for s in second), inputs))


@pytest.mark.parametrize("n", [3, 4])
def test_a_whole_power_of_a_negative_number_beside_one_of_its_size(n: int, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x, n: int = {n}):\n    return x**n/(1 + Abs(x)**n)\n", tmp_path)
    x = torch.tensor([-401.0, 401.0, -0.5], requires_grad=True)
    module.f(x).sum().backward()
    exact = [n * v ** (n - 1) / (1 + abs(v) ** n) ** 2 for v in x.tolist()]
    assert x.grad.tolist() == pytest.approx(exact, rel=1e-6)


def test_the_log_likelihood_of_a_mixture(tmp_path: Path) -> None:
    text = "@op\ndef f(x, w: float = 0.3):\n    return -log(w*exp(-(x - 2)**2/2) + (1 - w)*exp(-(x + 2)**2/2))\n"
    module, _ = build(text, tmp_path)
    x = torch.tensor([20.0, -60.0], requires_grad=True)
    out = module.f(x)
    out.sum().backward()
    assert out.tolist() == pytest.approx([162 - math.log(0.3), 58**2 / 2 - math.log(0.7)], rel=1e-6)
    assert x.grad.tolist() == pytest.approx([18.0, -58.0], rel=1e-6)


@pytest.mark.slow
def test_a_quotient_of_differences_from_1_is_a_number_at_0(tmp_path: Path) -> None:
    """Kimura's probability of fixation."""
    module, _ = build("@op\ndef f(s, n: float = 100.0):\n    return (1 - exp(-2*s))/(1 - exp(-4*n*s))\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            s = torch.tensor([0.0, 1e-20], requires_grad=True)
            out = module.f(s)
            out.sum().backward()
            assert out.tolist() == pytest.approx([0.005, 0.005], rel=1e-6)
            assert s.grad.tolist() == pytest.approx([0.995, 0.995], rel=1e-6)


def test_a_difference_that_a_function_and_a_sum_hold(tmp_path: Path) -> None:
    """An estimator of the Kullback-Leibler divergence, (y - x)**2/2 where the two meet."""
    module, _ = build("@op\ndef f(x, y):\n    return exp(y - x) - (y - x) - 1\n", tmp_path)
    x, y = torch.tensor([1.0, 1e-10], dtype=torch.float64), torch.tensor([1 + 2**-30, 2e-10], dtype=torch.float64)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert module.f(x, y).tolist() == pytest.approx([2.0**-61, 5e-21], rel=1e-9, abs=0)


def test_an_infinite_default(tmp_path: Path) -> None:
    module, _ = build("@op\ndef f(x, k: float = float('inf')):\n    return Min(x, k)*k/k\n", tmp_path)
    assert module.f(torch.tensor([3.0, 5.0]), k=4.0).tolist() == [3.0, 4.0]
    module, _ = build("@op\ndef f(x, k: float = float('inf')):\n    return k*x\n", tmp_path)
    assert module.f(torch.tensor([3.0, -5.0])).tolist() == [math.inf, -math.inf]


def test_a_gradient_of_fewer_inputs_has_its_limit(tmp_path: Path) -> None:
    """It was looked for by the other input, which had no value."""
    module, _ = build("@op\ndef f(x, y):\n    return x**2*y/(1 + x**2)\n", tmp_path)
    x, y = torch.tensor([math.inf, -math.inf, 1e30, 1.0]), torch.ones(4, requires_grad=True)
    module.f(x, y).sum().backward()
    assert y.grad.tolist() == [1, 1, 1, 0.5]


@pytest.mark.second_order
def test_a_hyper_parameter_of_zero_that_is_divided_by(tmp_path: Path) -> None:
    """Python refuses to divide by 0; tensors and kernels give what IEEE says."""
    module, _ = build("@op\ndef f(x, k: float = 1.0):\n    return x**2/(2*k**2) + x*(1 + 1/k)\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            out = module.f(x, k=0.0)
            (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(grad.sum(), x)
            assert [*out.tolist(), *grad.tolist(), *second.tolist()] == [math.inf] * 6


def test_one_fraction_of_two_inputs_has_the_limits_of_what_was_typed(tmp_path: Path) -> None:
    """y/(x*(x + y)) has the digits that the difference loses, and is NaN where y is infinite."""
    module, _ = build("@op\ndef f(x, y):\n    return 1/x - 1/(x + y)\n", tmp_path)
    small, large = 2.0**-40, math.inf
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.tensor([0.75, 0.75, -1.5], requires_grad=True)
            y = torch.tensor([small, large, -large], requires_grad=True)
            out = module.f(x, y)
            by_x, by_y = torch.autograd.grad(out.sum(), (x, y))
            assert out.tolist() == pytest.approx([small / 0.5625, 4 / 3, -2 / 3], rel=1e-6, abs=0)
            assert by_x.tolist() == pytest.approx([-2 * small / 0.421875, -16 / 9, -4 / 9], rel=1e-6, abs=0)
            assert by_y.tolist() == pytest.approx([16 / 9, 0, 0], rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("formula", "share"),
    [
        ("x/(1 + exp(-y))", 1.0),
        pytest.param("x*exp(-y**2)", 0.09, marks=pytest.mark.slow),
        pytest.param("x*(1 - erf(-y))", 0.09, marks=pytest.mark.slow),
        pytest.param("x*(1 + tanh(y))", 0.5, marks=pytest.mark.slow),
        pytest.param("(x + y)/cosh(y)", 1.0, marks=pytest.mark.slow),
        pytest.param("x*y/(1 + exp(-y))", 1.0, marks=pytest.mark.slow),
    ],
)
def test_a_gate_that_is_nearly_closed_keeps_the_digits_of_a_large_input(
    formula: str, share: float, tmp_path: Path
) -> None:
    """Where the gate is a subnormal number the product is none: 5 digits of 7 were lost, in value and gradient."""
    module, _ = build(f"@op\ndef f(x, y):\n    return {formula}\n", tmp_path)
    exact = mpmath.memoize(lambda x, y: eval(formula, vars(mpmath), {"x": x, "y": y}))
    for dtype, size, closed in ((torch.float32, 1e13, -100.0), (torch.float64, 1e30, -735.0)):
        at = [torch.tensor(value, dtype=dtype, requires_grad=True) for value in (size, share * closed)]
        point = [x.item() for x in at]
        for path in ("cpu", "torch"):
            with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
                out = module.f(*at)
                found = [out, *torch.autograd.grad(out, at)]
                with mpmath.workdps(700):
                    right = [exact(*point), *(mpmath.diff(exact, point, order) for order in ((1, 0), (0, 1)))]
                # The error of rounding the gate's input, which its exponential multiplies
                rel = 8 * abs(closed) * torch.finfo(dtype).eps
                least = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
                assert [one.item() for one in found] == pytest.approx(list(map(float, right)), rel=rel, abs=4 * least)
                x = torch.tensor([math.nan, size, math.inf, size, size], dtype=dtype)
                y = torch.tensor([-1e5, math.nan, -1.0, -1e30, -math.inf], dtype=dtype)
                values = module.f(x, y).tolist()
                assert math.isnan(values[0])
                assert math.isnan(values[1])
                assert abs(values[2]) == math.inf
                assert values[3:] == [0, 0]


def test_the_digits_of_a_difference_are_kept_where_inputs_nearly_meet(tmp_path: Path) -> None:
    """(y - m)**2 must not be multiplied out for a difference that overflows: up to 1e5 units were lost."""
    module, _ = build("@op\ndef f(y, m, s):\n    return log(pi*s*(1 + ((y - m)/s)**2))\n", tmp_path)
    y, m, s = (
        torch.tensor(values, dtype=torch.float64, requires_grad=True)
        for values in ([-52307.12788035523, 1.7e308], [-52308.59150557316, -1.7e308], [1.1674835394132743, 2.5])
    )
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            (by_y,) = torch.autograd.grad(module.f(y, m, s).sum(), y)
        difference = mpmath.mpf(y[0].item()) - mpmath.mpf(m[0].item())
        with mpmath.workdps(40):
            near = 2 * difference / (difference**2 + mpmath.mpf(s[0].item()) ** 2)
            far = 2 / (mpmath.mpf(y[1].item()) - mpmath.mpf(m[1].item()))
        assert by_y.tolist() == pytest.approx([float(near), float(far)], rel=1e-15, abs=1e-308)


def test_a_function_of_a_difference_is_0_for_equal_inputs_however_large(tmp_path: Path) -> None:
    """Of its series no term may be multiplied out: 0 times what overflows is no number."""
    module, _ = build("@op\ndef f(x, y):\n    return exp(y - x) - (y - x) - 1\n", tmp_path)
    x = torch.tensor([1e170, -1e200, 1e308, 3.0], dtype=torch.float64)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert module.f(x, x).tolist() == [0] * 4


@pytest.mark.parametrize("formula", ["exp(2*x - 3) - exp(3 - 2*x)", "sinh(x - y) + 0*y", "exp(x - y)*(x - y)"])
def test_a_function_that_is_its_own_derivative(formula: str, tmp_path: Path) -> None:
    """The search for forms follows derivatives to where they come from, and must arrive."""
    module, _ = build(f"@op\ndef f(x, y):\n    return {formula}\n", tmp_path)
    assert module.f(torch.tensor(2.0), torch.tensor(1.0)).isfinite()


@pytest.mark.parametrize(("formula", "power"), [("1/(1 + (k/x)**n)", 4.0), ("1/(1 + (x/k)**(-n))", 20.0)])
def test_a_power_that_is_infinite_at_0_leaves_a_slope(formula: str, power: float, tmp_path: Path) -> None:
    """Hill's equation, and the log-logistic distribution: both powers of a quotient that overflow."""
    module, _ = build(f"@op\ndef f(x, k: float = 3.0, n: float = {power}):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.tensor([0.0, 1e-16, 3.0, 1e30], requires_grad=True)
            (slope,) = torch.autograd.grad(module.f(x).sum(), x)
            assert slope.tolist() == pytest.approx([0, 0, power / 12, 0], rel=1e-6, abs=1e-40)


def test_float32_is_wide_for_the_default_where_only_others_are_lost(tmp_path: Path) -> None:
    """The exponential of 20*(x - 1) vanishes in float32, its product with exp(20) does not."""
    text = "@op\ndef f(x, k: float = 20.0):\n    return log((1 + exp(k*x))/(1 + exp(k*(x - 1))))/k\n"
    module, _ = build(text, tmp_path)
    x = torch.tensor([-4.0, -4.2])
    expected = module.f(x.double())
    close = 4 * 84 * 2.0**-24  # four units of what rounding 20*x to the last place makes
    assert module.f(x).tolist() == pytest.approx(expected.tolist(), rel=close, abs=0)


@pytest.mark.second_order
def test_a_power_of_0_in_a_term_of_a_series_is_none(tmp_path: Path) -> None:
    """It was put near x = 1, and its logarithm is no number: the search ended in an error."""
    module, _ = build("@op\ndef f(x, a: float = 0.1):\n    return (1 - x)**(a - 1)\n", tmp_path)
    x = torch.tensor([1 - 1e-9, 0.5], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(module.f(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    exact = [0.9 * 1.9 * (1 - at) ** -2.9 for at in x.tolist()]
    assert second.tolist() == pytest.approx(exact, rel=1e-14, abs=0)


def test_a_limit_that_hangs_on_a_hyper_parameter_is_not_taken_for_another(tmp_path: Path) -> None:
    text = """
        @op
        def flagged(x, sq: bool = False):
            return Piecewise((3*Abs(x)/(1 + Abs(x)), sq), (x/(1 + Abs(x)), True))

        @op
        def capped(x, c: float = 1.0):
            return Piecewise((x/(1 + Abs(x)), c < 100), (x**2/(1 + x**2) + 7, True))

        @op
        def isru(x, a: float = 1.0):
            return x/sqrt(1 + a*x**2)
    """
    module, _ = build(text, tmp_path)
    ends = torch.tensor([math.inf, -math.inf])
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert module.flagged(ends).tolist() == [1.0, -1.0]
            assert not any(abs(value) == 1 for value in module.flagged(ends, sq=True).tolist())
            assert not any(abs(value) == 1 for value in module.capped(ends, c=200.0).tolist())
            x = ends.clone().requires_grad_()
            assert torch.autograd.grad(module.isru(x).sum(), x)[0].tolist() == [0.0, 0.0]
            assert 0 not in torch.autograd.grad(module.isru(x, a=0.0).sum(), x)[0].tolist()


def test_exponentials_that_overflow_beside_others_that_vanish(tmp_path: Path) -> None:
    text = """
        @op
        def growth(x, a: float = 0.5, b: float = 8.0):
            return exp(a*x)/(1 + exp(b*x))

        @op
        def smoothmax(x, y, b: float = 10.0):
            return (x*exp(b*x) + y*exp(b*y))/(exp(b*x) + exp(b*y))
    """
    module, _ = build(text, tmp_path)
    for path, dtype in itertools.product(("cpu", "torch"), (torch.float32, torch.float64)):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.tensor([150.0, 180.0, 1e4, -3.0], dtype=dtype, requires_grad=True)
            out = module.growth(x)
            (grad,) = torch.autograd.grad(out.sum(), x)
            assert out.tolist() == pytest.approx([0.0, 0.0, 0.0, math.exp(-1.5)], rel=1e-6, abs=0)
            assert grad.tolist() == pytest.approx([0.0, 0.0, 0.0, math.exp(-1.5) / 2], rel=1e-6, abs=0)
            x, y = torch.tensor([-3.0, 90.0], dtype=dtype), torch.tensor([20.0, -1.0], dtype=dtype)
            assert module.smoothmax(x, y).tolist() == [20.0, 90.0]


def test_a_flag_between_two_formulas_leaves_both_as_they_are(tmp_path: Path) -> None:
    text = """
        @op
        def f(x, negative: bool = False):
            if negative:
                return -x/(1 + x**2)
            return x**2/(1 + x**2)
    """
    module, _ = build(text, tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.tensor([0.5, 1e8, 1e15, 1e100], dtype=torch.float64, requires_grad=True)
            (grad,) = torch.autograd.grad(module.f(x).sum(), x)
            assert grad.tolist() == pytest.approx([0.64, 2e-24, 2e-45, 2e-300], rel=1e-14, abs=0)
            (grad,) = torch.autograd.grad(module.f(x, negative=True).sum(), x)
            assert grad.tolist() == pytest.approx([-0.48, 1e-16, 1e-30, 1e-200], rel=1e-14, abs=0)


@pytest.mark.thorough
@pytest.mark.slow
def test_likelihoods_with_bessel_functions(tmp_path: Path) -> None:
    """I0 overflows at 714 in float64, at 92 in float32; its logarithm, and I1/I0, do not."""
    text = "@op\ndef f(x, k):\n    return k*cos(x) - log(2*pi*besseli(0, k))\n"
    module, _ = build(text, tmp_path)
    for dtype, k in itertools.product((torch.float32, torch.float64), (0.5, 30.0, 800.0, 1e10)):
        for path in ("cpu", "torch"):
            with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
                x, given = torch.tensor([0.0], dtype=dtype), torch.tensor([k], dtype=dtype, requires_grad=True)
                out = module.f(x, given)
                (grad,) = torch.autograd.grad(out, given)
            with mpmath.workdps(60):
                exact = k - mpmath.log(2 * mpmath.pi * mpmath.besseli(0, k))
                slope = 1 - mpmath.besseli(1, k) / mpmath.besseli(0, k)
            assert out.item() == pytest.approx(float(exact), rel=1e-6)
            assert grad.item() == pytest.approx(float(slope), rel=1e-6, abs=1e-7 if dtype == torch.float32 else 1e-15)


def test_three_terms(tmp_path: Path) -> None:
    text = "@op\ndef f(x, y, z):\n    return sqrt(x**2 + y**2 + z**2), log(exp(x) + exp(y) + exp(z))\n"
    module, _ = build(text, tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            big, tiny, zero, low = (torch.full((3,), v, requires_grad=True) for v in (1e30, 1e-30, 0.0, -200.0))
            assert module.f(*big)[0].item() == pytest.approx(3**0.5 * 1e30, rel=1e-6)
            assert module.f(*low)[1].item() == pytest.approx(-200 + math.log(3), rel=1e-6)
            (grad,) = torch.autograd.grad(module.f(*tiny)[0], tiny)
            assert grad.tolist() == pytest.approx([3**-0.5] * 3, rel=1e-6)
            (grad,) = torch.autograd.grad(module.f(*zero)[0], zero)
            assert grad.tolist() == [0.0] * 3


GRADIENTS = [
    ("acot(x)", 1e-30, -1.0),
    ("1/(exp(x) - 1)", 1000.0, 0.0),
    ("x/(exp(x) - 1)", 1000.0, 0.0),
    ("x/sqrt(1 + x**2)", 0.0, 1.0),
    ("log(cosh(x))", 1e-5, 1e-5),
    ("x/sqrt(x**2 + 2)", 1e6, 2e-18),
    ("x/sqrt(x**2 + pi)", 1e6, 3.14159265e-18),
    ("x/(1 + 2**(-x))", -2000.0, 0.0),
    ("sinh(x)/sqrt(sinh(x)**2 + exp(-4))", 15.75, 1.5296987e-15),
    ("exp(-x)*(exp(x) - 1)", 30.0, math.exp(-30)),  # which 1 less the value is not
    ("x**2*log(1 + 1/x**2)", 1e-20, 1.822068e-18),
    ("(sqrt(1 + exp(2*x)) - 1)/exp(x)", 80.0, 1.8048513878e-35),
]


@pytest.mark.parametrize(("formula", "x", "expected"), GRADIENTS)
def test_gradient(formula: str, x: float, expected: float, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        at = torch.tensor(x, requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            module.f(at).backward()
        assert at.grad.item() == pytest.approx(expected, rel=1e-6, abs=0)


def test_a_kink_that_is_none_is_none_beside_a_hyper_parameter_too(tmp_path: Path) -> None:
    """log(1 + mu) is not real for every mu, and tells nothing where it is not."""
    text = "@op\ndef f(x, mu: float = 255.0):\n    return sign(x)*log(1 + mu*Abs(x))/log(1 + mu)\n"
    module, _ = build(text, tmp_path)
    at = torch.tensor([0.0, -0.0, 1e-30], dtype=torch.float64, requires_grad=True)
    module.f(at).sum().backward()
    assert at.grad.tolist() == pytest.approx([255 / math.log(256)] * 3, rel=1e-14)


@pytest.mark.parametrize("at", [(2.0, 0.0, 0.0), (2.0, 2.0, -1.0), (2.0, 3.0, -1.0)])
@pytest.mark.parametrize("formula", ["x**2/(1 + Abs(b + c*x))", "x/(1 + Abs(b*x + c*x**2))"])
def test_a_sum_that_is_zero_has_no_sign(formula: str, at: tuple[float, ...], tmp_path: Path) -> None:
    """The safe Pade activation unit, whose denominator mostly begins with coefficients of 0."""
    module, _ = build(f"@op\ndef f(x: Tensor, b: Tensor, c: Tensor):\n    return {formula}\n", tmp_path)
    x, b, c = inputs = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in at]
    eagerly = x**2 / (1 + (b + c * x).abs()) if "x**2/" in formula else x / (1 + (b * x + c * x**2).abs())
    expected = torch.autograd.grad(eagerly, inputs)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            torch.testing.assert_close(torch.autograd.grad(module.f(*inputs), inputs), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("formula", "at", "expected"),
    [
        ("Abs(x**2 - 1)*x/(1 + Abs(x**2 - 1)) + y**2", (1.0, 0.0), [0.0, 0.0]),
        ("(x + y + 3)/(1 + Abs(x*(y + 1)))", (2.0, -1.0), [1.0, 1.0]),
        ("Abs(x - m)*exp(-Abs(x - m)) + x**2 + y", (1.0, 0.0), [2.0, 1.0]),
    ],
)
def test_nor_has_a_product_or_a_difference_from_a_number(
    formula: str, at: tuple[float, ...], expected: list[float], tmp_path: Path
) -> None:
    module, _ = build(f"@op\ndef f(x: Tensor, y: Tensor, m: float = 1.0):\n    return {formula}\n", tmp_path)
    inputs = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in at]
    found = torch.autograd.grad(module.f(*inputs), inputs, materialize_grads=True)
    assert [slope.item() for slope in found] == expected


@pytest.mark.parametrize(
    ("formula", "weights"),
    [
        ("-(1 - t)**2*log(t)", (1.0, 1.0)),
        ("-log(t)", (1.0, 1.0)),
        ("-(y*alpha + (1 - y)*(1 - alpha))*(1 - t)**2*log(t)", (0.75, 0.25)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_focal_loss_by_the_probability_of_the_label(
    formula: str, weights: tuple[float, float], dtype: torch.dtype, tmp_path: Path
) -> None:
    """Where the label is 0 that is 1 - p, of which float32 arithmetic leaves nothing from 17 on."""
    text = f"p = 1/(1 + exp(-x))\n    t = y*p + (1 - y)*(1 - p)\n    return {formula}"
    module, _ = build(f"@op\ndef f(x: Tensor, y: Tensor(grad=False), alpha: float = 0.25):\n    {text}\n", tmp_path)
    x = torch.tensor([20.0, 60.0, 100.0, -20.0, -60.0, -100.0], dtype=dtype, requires_grad=True)
    y = torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], dtype=dtype)
    value = module.f(x, y)
    (slope,) = torch.autograd.grad(value.sum(), x)
    weight = torch.tensor(weights, dtype=dtype).repeat_interleave(3)
    torch.testing.assert_close(value.detach(), weight * x.detach().abs())
    torch.testing.assert_close(slope, weight * x.detach().sign())


@pytest.mark.parametrize("base", ["2", "Rational(1, 2)", "8"])
def test_powers_of_two_are_exact_where_they_are_whole(base: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return {base}**x\n", tmp_path)
    exponents = torch.arange(-30.0, 30.0)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert torch.equal(module.f(exponents), {"2": 2.0, "8": 8.0}.get(base, 0.5) ** exponents)


@pytest.mark.slow
@pytest.mark.second_order
def test_a_formula_with_a_derivative_that_is_nothing_but_0(tmp_path: Path) -> None:
    """Rounding leaves something of it in every precision, which is not to be taken for a number that cannot be had."""
    text = "@op\ndef f(x, y):\n    return acosh(1 + 2*(x - y)**2/((1 - x**2)*(1 - y**2)))\n"
    module, _ = build(text, tmp_path)
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.5, -0.25))
    value = module.f(x, y)
    value.backward()
    assert value.item() == pytest.approx(math.acosh(1 + 1.125 / 0.703125), rel=1e-14)
    assert x.grad.item() == pytest.approx(8 / 3, rel=1e-13)
    assert y.grad.item() == pytest.approx(-32 / 15, rel=1e-13)


SECOND = [
    ("exp(-Abs(x))*(1 + Abs(x) + x**2/3)", 0.0, -1 / 3),  # Matern 5/2
    ("exp(-Abs(x))*(1 + Abs(x))", 0.0, -1.0),  # Matern 3/2
    ("Abs(x) - log(1 + Abs(x))", 0.0, 1.0),
    ("Max(x, 0)**2 + Min(x, 0)**2", 0.0, 2.0),
    ("asin(x)", 1e-10, 1e-10),
    ("atanh(x)", 1e-10, 2e-10),
    ("x*Abs(x)", 0.5, 2.0),
]


@pytest.mark.second_order
@pytest.mark.parametrize(("formula", "x", "expected"), SECOND)
def test_second_derivative(formula: str, x: float, expected: float, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        at = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            (slope,) = torch.autograd.grad(module.f(at), at, create_graph=True)
            (curvature,) = torch.autograd.grad(slope, at)
        assert curvature.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("k", [2.0, -2.0])
@pytest.mark.parametrize("formula", ["Abs(x*k)*sign(k)*sign(x)", "Max(x, 0) + Min(x, 0)*sign(k)"])
def test_a_kink_that_is_one_for_some_hyper_parameters_stays_one(formula: str, k: float, tmp_path: Path) -> None:
    """What is smooth for a positive hyper-parameter alone is left to the conventions, for every one."""
    module, _ = build(f"@op\ndef f(x, k: float = 1.0):\n    return {formula}\n", tmp_path)
    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    module.f(x, k=k).backward()
    assert x.grad.item() in (0.0, k)


@pytest.mark.second_order
@pytest.mark.parametrize("formula", ["Max(x, 1), x**2", "Max(x*y, 1), y", "Piecewise((x*y**2, x > 0), (0, True)), x"])
def test_several_outputs_with_branches(formula: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x, y):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        inputs = [torch.tensor([1.7, -0.4], dtype=torch.float64, requires_grad=True) for _ in range(2)]
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            assert torch.autograd.gradcheck(module.f, inputs)
            assert torch.autograd.gradgradcheck(module.f, inputs)


@pytest.mark.second_order
@pytest.mark.parametrize(("k", "expected"), [(0.0, 0.0), (1.0, 0.0), (2.0, 2.0), (3.0, 0.0)])
def test_the_second_derivative_of_a_power_at_zero(k: float, expected: float, tmp_path: Path) -> None:
    """k*(k - 1)*x**(k - 2): a zero in front of an infinite power wins."""
    module, _ = build("@op\ndef f(x, k: float = 2.0):\n    return x**k\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
            (first,) = torch.autograd.grad(module.f(x, k=k).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
            assert second.tolist() == [expected] * 3


@pytest.mark.parametrize(
    ("signature", "formula", "at", "expected"),
    [
        ("x, y", "y*sinh(x)/x", (0.0, 2.0), (2.0, 0.0, 1.0)),
        ("x, y", "y*log(1 + x)/x", (0.0, 3.0), (3.0, -1.5, 1.0)),
        ("x, y", "(exp(x*y) - 1)/x", (0.0, 2.0), (2.0, 2.0, 1.0)),
        ("x, y", "y*log(x)/(x - 1)", (1.0, 2.0), (2.0, -1.0, 1.0)),
        ("x, k: float = 3.0", "(exp(k*x) - 1)/x", (0.0,), (3.0, 4.5)),
        ("x, k: float = 3.0", "x*(1 + x)**k/((1 + x)**k - 1)", (0.0,), (1 / 3, 2 / 3)),
        ("x, k: float = 3.0", "(exp(k*x) - 1)/(exp(x) - 1)", (0.0,), (3.0, 3.0)),
        ("x, k: float = 3.0", "((1 + x)**k - 1)/(exp(x) - 1)", (0.0,), (3.0, 1.5)),
        ("x, k: float = 3.0", "(1 - exp(-k*x**3))/x**3", (0.0,), (3.0, 0.0)),
        ("x, k: float = 3.0", "k*atan(sqrt(x - 1)/k) - atan(sqrt(x - 1))", (1.0,), (0.0, 0.0)),  # Prandtl and Meyer
        ("v, w", "2*atan2(v, w)/v", (0.0, 2.0), (1.0, 0.0, -0.5)),
        ("v, w", "2*atan2(v, w)/v", (1e-6, 2.0), (1.0, -1.6666666666665e-7, -0.5)),
        ("w, x, y", "2*x*atan2(sqrt(x**2 + y**2), w)/sqrt(x**2 + y**2)", (2.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
        ("difference, x", "difference*log(x)/(x - 1)", (-0.7, 1.01), (-0.696523148, 0.995033085, 0.345385279)),
    ],
)
def test_removable_points_of_several_inputs(
    signature: str, formula: str, at: tuple[float, ...], expected: tuple[float, ...], tmp_path: Path
) -> None:
    module, _ = build(f"@op\ndef f({signature}):\n    return {formula}\n", tmp_path)
    inputs = [torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in at]
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            value = module.f(*inputs)
            grads = torch.autograd.grad(value.sum(), inputs)
        found = [value.item(), *(grad.item() for grad in grads)]
        assert found == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("formula", "points", "value", "slope"),
    [
        ("acos(x)/sqrt(1 - x**2)", [1.0, 1 - 2.0**-20, 0.999, 0.7, -0.6], 1, -1 / 3),
        ("acos((x - 1)/2)/(2*sin(acos((x - 1)/2)))", [3.0, 3 - 2.0**-20, 2.9, -0.4], 0.5, -1 / 12),  # of rotations
        ("acos(1 - x)/sqrt(x)", [0.0, 1e-30, 1e-5, 0.3, 1.6], math.sqrt(2), math.sqrt(2) / 12),
        ("acosh(x)/sqrt(x**2 - 1)", [1.0, 1 + 2.0**-20, 1.3, 30.0], 1, -1 / 3),
        ("log(cosh(x))/x", [0.0, 1e-9, 0.0156160425, -0.5, 3.0], 0, 0.5),
        ("cos(5*acos(x))", [1.0, 1 - 2.0**-20, 0.999, 0.7, -0.6], 1, 25),  # of Chebyshev, whose slope is 0/0 at both
        ("cos(5*acos(x))", [-1.0, 2.0**-20 - 1, -0.999], -1, 25),
        ("x/(1 + x + x**Rational(4, 7))", [0.0, 1e-30, 1e-9, 0.3, 30.0], 0, 1),
    ],
)
def test_removable_points_at_the_ends_of_domains(
    formula: str, points: list[float], value: float, slope: float, tmp_path: Path
) -> None:
    """The first point is one, where the value and the slope from within are given; beyond it there is no number."""
    module, (spec,) = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    reference, quantities = Reference(spec, {}, 1075), [Quantity(0, ()), Quantity(0, ("x",))]
    for path, dtype in itertools.product(("cpu", "torch"), ("float32", "float64")):
        x = torch.tensor(points, dtype=getattr(torch, dtype), requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            out = module.f(x)
            (grad,) = torch.autograd.grad(out.sum(), x)
            assert module.f(2 * x[:1] - x[2]).isnan() or "cosh(x))" in formula
        assert [out[0].item(), grad[0].item()] == pytest.approx([value, slope], rel=4 * torch.finfo(x.dtype).eps)
        for at, *found in list(zip(x.tolist(), out.tolist(), grad.tolist(), strict=True))[1:]:
            exact = reference({"x": at}, quantities)
            for quantity, computed in zip(quantities, found, strict=True):
                off = error(computed, exact[quantity], dtype)
                assert off is not None
                assert off <= 4, (path, dtype, quantity, at, computed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signature", "formula", "points"),
    [
        # Of Vasicek's bond the first term of the series in k was taken up to 1/64: off by 4 % at 0.01
        (
            "k, t, s",
            "-s**2/(2*k**2)*((1 - exp(-k*t))/k - t) - s**2*((1 - exp(-k*t))/k)**2/(4*k)",
            [
                (0.01, 5.0, 0.02),
                (1e-3, 5.0, 0.02),
                (1e-5, 5.0, 0.02),
                (1e-7, 5.0, 0.02),
                (0.03, 1.0, 0.1),
                (-2.0, 2.0, 1.0),
            ],
        ),
        (
            "x",
            "sqrt(2)**x/(sqrt(2**(-2*x)) + sqrt(2**(2*x)))",
            [(592.4,), (500.0,), (2.0000000005,), (-450.0,), (1000.0,)],
        ),
        ("x", "atanh(sin(x))", [(1.5707963267949,), (1.5707962941598725,), (-6356653252323464.0,), (1e-9,), (3.0,)]),
        ("x, e: float = 0.0818", "atanh(sin(x)) - e*atanh(e*sin(x))", [(1.5707963267949,), (1e-9,), (-400.0,)]),
        # Kannala and Brandt's camera, whose series was taken up to 1/1024
        (
            "x, k: float = 0.1, l: float = 0.02",
            "(atan(x) + k*atan(x)**3 + l*atan(x)**5)/x",
            [(7.6e-4,), (3e-4,), (2.0,)],
        ),
        # Series whose coefficients are functions of hyper-parameters
        ("r, n: float = 30.0", "(1 - (1 + r)**(-n))/r", [(3.6e-3,), (1e-9,), (-0.2,)]),
        ("r, a: float = 0.39", "(1 - exp(-a*r**3))/r**3", [(0.1,), (1e-3,), (0.4,)]),
        ("x, a: float = 1.3, b: float = 0.6", "(cos(a*x) - cos(b*x))/x**2", [(7.5e-8,), (0.01,), (2.0,)]),
        ("x, a: float = 1.3, b: float = 0.6", "log((1 + a*x**2)/(1 + b*x**2))/x**2", [(0.0144,), (1e-6,), (0.5,)]),
        # SABR's smile, where the root and the rest of the sum nearly cancel
        ("x, r: float = -0.3", "x/log((sqrt(1 - 2*r*x + x**2) + x - r)/(1 - r))", [(-1e17,), (1.4849e-5,), (1e9,)]),
    ],
)
def test_value_and_gradient_at_some_points(
    signature: str, formula: str, points: list[tuple[float, ...]], tmp_path: Path
) -> None:
    module, (spec,) = build(f"@op\ndef f({signature}):\n    return {formula}\n", tmp_path)
    hyper = {p.name: p.default for p in spec.scalars}
    reference, names = Reference(spec, hyper, 1075), [p.name for p in spec.tensors]
    quantities = [Quantity(0, ()), *(Quantity(0, (name,)) for name in names)]
    for path, dtype in itertools.product(("cpu", "torch"), ("float32", "float64")):
        columns = zip(*points, strict=True)
        inputs = [torch.tensor(column, dtype=getattr(torch, dtype), requires_grad=True) for column in columns]
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            out = module.f(*inputs)
            found = [out, *torch.autograd.grad(out.sum(), inputs)]
        for k, row in enumerate(zip(*(x.tolist() for x in inputs), strict=True)):
            exact = reference(dict(zip(names, row, strict=True)), quantities)
            for quantity, values in zip(quantities, found, strict=True):
                off = error(values[k].item(), exact[quantity], dtype)
                assert off is not None
                assert off <= 4, (path, quantity, row, values[k].item())


@pytest.mark.slow
def test_a_series_about_a_place_that_hangs_on_a_hyper_parameter(tmp_path: Path) -> None:
    """A raised cosine about 1/(2*b), where two terms of a series were taken up to where they are 2e-3 off."""
    module, _ = build("@op\ndef f(t, b: float = 0.35):\n    return sinc(pi*t)*cos(pi*b*t)/(1 - (2*b*t)**2)\n", tmp_path)
    for path, dtype in itertools.product(("cpu", "torch"), (torch.float32, torch.float64)):
        t = torch.tensor([1.4066, 1.42, 1.43, 1.45, 10 / 7], dtype=dtype)
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            found = module.f(t).tolist()
        for at, value in zip(t.tolist(), found, strict=True):
            with mpmath.workdps(60):
                x, b = mpmath.mpf(at), mpmath.mpf(0.35)
                exact = mpmath.sincpi(x) * mpmath.cospi(b * x) / (1 - (2 * b * x) ** 2)
                assert abs(value - exact) <= 4 * torch.finfo(dtype).eps * abs(exact), (path, dtype, at)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.second_order
def test_second_derivatives_of_a_skew_normal_likelihood(tmp_path: Path) -> None:
    """By the second input they were NaN, or of the wrong sign, at ordinary numbers: exp(-u**2)/erfc(u) was 0/0."""
    module, (spec,) = build("@op\ndef f(x, a):\n    return log((1 + erf(a*x))/2)\n", tmp_path)
    reference = Reference(spec, {}, 1075)
    pairs = list(itertools.product("xa", repeat=2))
    quantities = [Quantity(0, pair) for pair in pairs]
    lower = [Quantity(0, ()), Quantity(0, ("x",)), Quantity(0, ("a",))]
    rows = [(5.0, -2.0), (-10.0, 1.0), (-20.0, 1.0), (10.0, -3.0), (1.0, 2.0), (-1.5, 1.0)]
    exact = [reference({"x": x, "a": a}, lower + quantities) for x, a in rows]
    for path, dtype in itertools.product(("cpu", "torch"), ("float32", "float64")):
        columns = zip(*rows, strict=True)
        inputs = [torch.tensor(column, dtype=getattr(torch, dtype), requires_grad=True) for column in columns]
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            slopes = torch.autograd.grad(module.f(*inputs).sum(), inputs, create_graph=True)
            found = [one for s in slopes for one in torch.autograd.grad(s.sum(), inputs, retain_graph=True)]
        for quantity, values in zip(quantities, found, strict=True):
            for k, value in enumerate(values.tolist()):
                off = error(value, exact[k][quantity], dtype)
                assert off is not None
                assert off <= 8, (path, quantity, rows[k], value)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.second_order
@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_second_derivatives_where_a_product_is_0(path: str, tmp_path: Path) -> None:
    """By (0 + x*t)**-4 nothing is left of the digits that a form was compared in: it seemed to be another function."""
    module, _ = build("@op\ndef f(x, t):\n    return (exp(x*t) - 1 - x*t)/(x*t)**2\n", tmp_path)
    x = torch.tensor([0.0, 0.0, 1e-12, 1e-3], dtype=torch.float64, requires_grad=True)
    t = torch.tensor([0.0, 1.0, 1.0, 1.0], dtype=torch.float64, requires_grad=True)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        first = torch.autograd.grad(module.f(x, t).sum(), (x, t), create_graph=True)
        by_x, mixed = torch.autograd.grad(first[0].sum(), (x, t), retain_graph=True)
        (by_t,) = torch.autograd.grad(first[1].sum(), t)
    near = [1 / 12, 1 / 12, 1 / 12 + 1e-3 / 20 + 1e-6 / 60 + 1e-9 / 252]  # of (exp(u) - 1 - u)/u**2 twice
    assert by_x.tolist() == pytest.approx([0, *near], rel=1e-12, abs=0)
    slopes = [1 / 6 + u / 12 + u**2 / 40 + u**3 / 180 for u in (0, 1e-12, 1e-3)]
    curved = [slope + u * curvature for slope, u, curvature in zip(slopes, (0, 1e-12, 1e-3), near, strict=True)]
    assert mixed.tolist() == pytest.approx([1 / 6, *curved], rel=1e-12, abs=0)
    assert by_t.tolist()[1:] == pytest.approx([0, 1e-24 / 12, 1e-6 * near[2]], rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("formula", "x", "y", "slopes"),
    [
        ("sqrt(x*y)", 3.0, 0.0, (0.0, math.inf)),
        ("sqrt(x*y)", -3.0, -0.75, (-0.25, -1.0)),
        ("sqrt(x*y)", 1e30, 4e30, (1.0, 0.25)),  # the product overflows in float32
        ("1 - sqrt(x*y) - sqrt((1 - x)*(1 - y))", 0.36, 1.0, (-1 / 1.2, math.inf)),
        ("1 - sqrt(x*y) - sqrt((1 - x)*(1 - y))", 0.64, 0.0, (1 / 1.2, -math.inf)),
        ("sqrt(x**2*y)", 3.0, 4.0, (2.0, 0.75)),
    ],
)
def test_the_root_of_a_product_has_a_slope_where_a_factor_is_0(
    formula: str, x: float, y: float, slopes: tuple[float, float], tmp_path: Path
) -> None:
    module, _ = build(f"@op\ndef f(x, y):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            at = torch.tensor(x, requires_grad=True), torch.tensor(y, requires_grad=True)
            found = torch.autograd.grad(module.f(*at), at)
            assert [one.item() for one in found] == pytest.approx(slopes, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("formula", "at", "expected"),
    [
        ("exp(-x)/sqrt(x)", -3000.0, math.nan),
        ("exp(-x)/(1 + sqrt(x))", -3000.0, math.nan),
        ("exp(x)*(x - 3000)/x**2", 3000.0, 0.0),
        ("exp(-x)/x", -1e200, -math.inf),
        ("exp(-x)/x**3", -1e200, -math.inf),
        ("exp(x)/x**2", math.inf, math.inf),
        ("exp(x)/(1 - x)**3", 1e200, -math.inf),
        ("exp(x)/(1 + x**2)", math.nan, math.nan),
    ],
)
def test_the_sign_of_what_is_lost_beside_an_exponential(
    formula: str, at: float, expected: float, tmp_path: Path
) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            found = module.f(torch.tensor(at, dtype=torch.float64)).item()
            assert found == expected or (math.isnan(found) and math.isnan(expected)), path


@pytest.mark.parametrize("formula", ["exp(x)/(1 + x**2)", "exp(-x)/x**3", "exp(2*x)/sqrt(1 + x**2)"])
def test_an_exponential_over_a_power_overflows_where_it_does_itself(formula: str, tmp_path: Path) -> None:
    """Not where the exponential alone does; and where the power's reciprocal is 0 it is still infinite."""
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    points = [sign * x for x in (1.5, 354.9, 358.0, 709.5, 712.0, 720.0, 740.0, 2100.0, 1e200) for sign in (1, -1)]
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)

    def exact(at: float, order: int) -> float:
        with mpmath.workdps(300):
            value = mpmath.diff(lambda x: eval(formula, {"exp": mpmath.exp, "sqrt": mpmath.sqrt, "x": x}), at, order)
            return float(value)

    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            out = module.f(x)
            (slope,) = torch.autograd.grad(out.sum(), x)
            for found, order in ((out, 0), (slope, 1)):
                right = [exact(at, order) for at in points]
                assert found.tolist() == pytest.approx(right, rel=4e-15, abs=1e-320), (path, order)


@pytest.mark.slow
@pytest.mark.parametrize(("y", "slope"), [(0.0, 0.4760856584), (0.5, 0.0), (1.0, -0.4760856584)])
def test_a_gradient_where_two_branches_of_its_form_meet(y: float, slope: float, tmp_path: Path) -> None:
    """The form was the derivative of one whose branches for x >= 0 and x <= 0 both counted at 0."""
    text = (
        "@op\ndef f(x, y: Tensor(grad=False), g: float = 0.5):\n    p = 1/(1 + exp(-x))\n"
        "    return -y*(1 - p)**(1 - g)*log(p) - (1 - y)*p**g*log(1 - p)\n"
    )
    module, _ = build(text, tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            x = torch.zeros((), dtype=torch.float64, requires_grad=True)
            (found,) = torch.autograd.grad(module.f(x, torch.tensor(y, dtype=torch.float64)), x)
            assert found.item() == pytest.approx(slope, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize(
    ("dtype", "s"), [("float32", -45.0), ("float32", -90.0), ("float64", -400.0), ("float64", 0.5)]
)
def test_a_slope_that_overflows_beside_what_makes_up_for_it(path: str, dtype: str, s: float, tmp_path: Path) -> None:
    """Student's likelihood by the logarithm of its scale: exp(-s) is infinite, the gradient is not."""
    text = "@op\ndef f(x, m, s, nu: float = 4.0):\n    return log(1 + ((x - m)/exp(s))**2/nu)\n"
    module, _ = build(text, tmp_path)
    at = [torch.tensor(v, dtype=getattr(torch, dtype), requires_grad=True) for v in (1.5, 0.3, s)]
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        found = torch.autograd.grad(module.f(*at), at)
    with mpmath.workdps(400):
        x, m, scale = (mpmath.mpf(v.item()) for v in at)
        z = (x - m) / mpmath.exp(scale)
        by_x = 2 * z**2 / (4 + z**2) / (x - m)
        expected = [float(by_x), float(-by_x), float(-by_x * (x - m))]
    assert [v.item() for v in found] == pytest.approx(expected, rel=4e-7 if dtype == "float32" else 9e-16)


@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("k", [1e13, 3e12])
def test_a_rate_that_its_factor_brings_back_into_sight(k: float, path: str, tmp_path: Path) -> None:
    """That of Arrhenius: the exponential is a subnormal number, and 0, where the rate is neither."""
    module, _ = build("@op\ndef f(t, a: float = 1e13, e: float = 2.0):\n    return a*exp(-e/t)\n", tmp_path)
    for dtype, at in ((torch.float32, 0.0203), (torch.float32, 0.0185), (torch.float64, 0.00275)):
        t = torch.tensor(at, dtype=dtype)
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            found = module.f(t, k).item()
        exact = mpmath.mpf(k) * mpmath.exp(-2 / mpmath.mpf(t.item()))
        assert found == pytest.approx(float(exact), rel=1.5e-7 if dtype == torch.float32 else 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_functions_with_twice_the_digits(path: str, tmp_path: Path) -> None:
    """The exponential of a square keeps 200 times the error that the hyperbolic sine in it has."""
    module, _ = build("@op\ndef f(x):\n    return exp(-sinh(2*x - 3)**2)\n", tmp_path)
    x = torch.linspace(-0.4, 3.3, 997, dtype=torch.float64)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        found = module.f(x).tolist()
    with mpmath.workdps(50):
        for at, value in zip(x.tolist(), found, strict=True):
            exact = mpmath.exp(-(mpmath.sinh(2 * mpmath.mpf(at) - 3) ** 2))
            assert abs(value - exact) <= 0.51 * math.ulp(value), at
        assert module.f(torch.tensor(1000.0, dtype=torch.float64)).item() == 0


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_what_is_corrected_has_vanished_far_out(path: str, tmp_path: Path) -> None:
    """Beyond its series an exponential was held to lack 1 of 0."""
    module, _ = build("@op\ndef f(x, c: float = 2.0):\n    return 4*atanh(tanh(c/4)*exp(-x))\n", tmp_path)
    x = torch.tensor([700.0, 1390.0, 1400.0, 1e10, math.inf], dtype=torch.float64)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        assert module.f(x).tolist() == pytest.approx([1.8484686 * math.exp(-700), 0, 0, 0, 0], rel=1e-6)


def test_the_exponential_of_a_squared_logarithm_outgrows_powers(tmp_path: Path) -> None:
    """The density of the log-normal distribution, and its gradient, where 1/x is infinite and next to there."""
    text = "@op\ndef f(x, m: float = 1.3, s: float = 0.7):\n    return exp(-log(x/m)**2/(2*s**2))/(x*s*sqrt(2*pi))\n"
    module, _ = build(text, tmp_path)
    x = torch.tensor([1e-320, 1e-200, 1e200], dtype=torch.float64, requires_grad=True)
    out = module.f(x)
    assert out.tolist() == [0, 0, 0]
    assert torch.autograd.grad(out.sum(), x)[0].tolist() == [0, 0, 0]


MEETING = {
    "p*log(p/q) + (1 - p)*log((1 - p)/(1 - q))": (0.3, (0.3 + 1e-3, 0.3 + 1e-9, 0.3 - 1e-15, 0.9)),
    "p*log(2*p/(p + q))/2 + q*log(2*q/(p + q))/2": (50.0, (50.01, 50.0 + 1e-6, 50.0 - 1e-13, 3.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("formula", MEETING)
def test_what_vanishes_faster_than_the_difference_of_inputs(formula: str, path: str, tmp_path: Path) -> None:
    """Divergences, whose terms cancel to the square of what the inputs differ by."""
    if "1 - p" in formula:
        text = "@op\ndef f(x, y):\n    p, q = 1/(1 + exp(-x)), 1/(1 + exp(-y))\n    return " + formula + "\n"
    else:
        text = f"@op\ndef f(p, q):\n    return {formula}\n"
    module, _ = build(text, tmp_path)
    at, others = MEETING[formula]
    first, second = torch.full((4,), at, dtype=torch.float64), torch.tensor(others, dtype=torch.float64)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        found = module.f(first, second).tolist()
    with mpmath.workdps(100):
        for x, y, value in zip(first.tolist(), second.tolist(), found, strict=True):
            p, q = mpmath.mpf(x), mpmath.mpf(y)
            if "1 - p" in formula:
                p, q = 1 / (1 + mpmath.exp(-p)), 1 / (1 + mpmath.exp(-q))
            exact = eval(formula, {"log": mpmath.log, "p": p, "q": q})
            # In units of what any method working on rounded inputs could give: the scale is that of the derivatives.
            scale = max(abs(exact), abs(x * mpmath.log(p / q)))
            assert abs(value - exact) <= 4 * 2.0**-53 * scale, (x, y)


@pytest.mark.slow
@pytest.mark.second_order
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_exponentials_of_exponentials_have_vanished(path: str, dtype: str, tmp_path: Path) -> None:
    """The density of the Gumbel distribution: the sum in its exponent is infinity less infinity, or overflows alone."""
    module, _ = build("@op\ndef f(x):\n    return exp(-x - exp(-x))\n", tmp_path)
    most = torch.finfo(getattr(torch, dtype)).max
    x = torch.tensor([-math.inf, -most, -most / 1.9, -200.0], dtype=getattr(torch, dtype), requires_grad=True)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        out = module.f(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        assert out.tolist() == slope.tolist() == [0, 0, 0, 0]
        assert torch.autograd.grad(slope.sum(), x)[0].tolist()[0] == 0


TAILS = {  # value and first derivatives at points that used to be infinite, or to have no digits
    "a + b - sqrt(a**2 + b**2)": [(4.75e-29, 295.0), (1e-250, 3.0), (-2.0, -3.0)],
    "a + b + sqrt(a**2 + b**2)": [(-4.75e-29, -295.0), (2.0, 3.0)],
    "sqrt(1 - exp(-2*exp(a)))": [(-740.0,), (-80.0,), (0.5,)],
    "log(a/b)": [(1e200, 1e-200), (1e-200, 1e200), (3.0, 3.00001)],
    "log(1/(1 + exp(-a)) + (1 - 1/(1 + exp(-a)))*exp(-exp(b)))": [(-800.0, 7.0), (-2.0, 0.3), (3.0, -20.0)],
    "sqrt(a**2 + b**2 + 1) - sqrt(a**2 + 1)": [(3e38, 3e38), (100.0, 1e-3), (5.0, 1e-6), (-0.054, 6e-12)],
    "(a**2 + b**2 + 1)**Rational(-3, 4) - (a**2 + 1)**Rational(-3, 4)": [(-1.618, 2.671e13), (0.5, 40.0)],
    "Piecewise((b, a > 0), (b*(exp(a) - 1 - a), True))": [(-1e-15, 0.8), (-1e-17, 0.8), (-3.0, 0.5)],
    "(exp(a) - 1 - a)/a**2": [(709.98,), (715.0,), (1e-9,), (-40.0,)],
    "(1 - exp(-a))/a": [(-709.98,), (-715.0,), (3.0,)],
    "2*(exp(-a) + a - 1)/a**2": [(-709.98,), (-715.0,), (1e-9,), (2.0,)],
    "(exp(a) - 1 - a - a**2/2)/a**3": [(709.98,), (725.0,), (1e-9,), (3.5,), (-2.5,), (-1e30,)],
    "(1 - (1 + a)*exp(-a))/a**2": [(-709.98,), (-703.9,), (1e-9,), (-1.6,), (1e30,)],
    "1e13*exp(-a)": [(735.0,), (95.0,), (0.3,)],
    "1e10*a*exp(-a**2)": [(27.0,), (9.8,), (0.3,)],
}
LONG = {"(exp(a) - 1 - a - a**2/2)/a**3", "(1 - (1 + a)*exp(-a))/a**2"}


@pytest.mark.parametrize("formula", [pytest.param(f, marks=[pytest.mark.slow] * (f in LONG)) for f in TAILS])
def test_digits_in_tails(formula: str, tmp_path: Path) -> None:
    names = ["a", "b"] if "b" in formula else ["a"]
    module, (written,) = build(f"@op\ndef f({', '.join(names)}):\n    return {formula}\n", tmp_path)
    exact = Exact(written)
    for dtype, path, point in itertools.product(("float32", "float64"), ("cpu", "torch"), TAILS[formula]):
        at = [torch.tensor(v, dtype=getattr(torch, dtype), requires_grad=True) for v in point]
        known = dict(zip(names, (x.item() for x in at), strict=True))
        if 0 in known.values():
            continue  # too small for float32
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            out = module.f(*at)
            slopes = torch.autograd.grad(out, at)
        for found, by in zip((out, *slopes), ("", *names), strict=True):
            right = exact.derivative(known, by)
            scale = max(abs(known[name] * exact.derivative(known, by + name)) for name in names)
            assert mixed_error(found.item(), right, scale, dtype) <= 4, (dtype, path, point, by)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_slope_that_is_left_of_what_a_hyper_parameter_cancels(path: str, dtype: str, tmp_path: Path) -> None:
    """Two bells at either side of 0 have opposite slopes there  (Yin, Corradi & Bohte's surrogate, 2021)."""
    text = """
        @op
        def f(x, h: float = 0.15, s: float = 6.0, g: float = 0.5):
            wide = 2*(s*g)**2
            return exp(-x**2/(2*g**2)) - h*exp(-(x - g)**2/wide) - h*exp(-(x + g)**2/wide)
    """
    module, _ = build(text, tmp_path)
    x = torch.tensor([1e-20, 1e-9, 1e-4], dtype=getattr(torch, dtype), requires_grad=True)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        (slopes,) = torch.autograd.grad(module.f(x).sum(), x)
    curvature = -4 + 8 * 0.15 / 36 * (1 - 1 / 36) * math.exp(-1 / 72)
    close = [4 * 2 * torch.finfo(x.dtype).eps] * 2 + [1e-7]
    for slope, at, rel in zip(slopes.tolist(), x.tolist(), close, strict=True):
        assert slope == pytest.approx(curvature * at, rel=rel, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_a_maximum_hides_cancels(path: str, dtype: str, tmp_path: Path) -> None:
    """The slope of a modulus with a bias by the other coordinate is -b*x*y/r**3  (modReLU, Arjovsky et al., 2016)."""
    text = """
        @op
        def f(x, y, b):
            r = sqrt(x**2 + y**2)
            return Max(r + b, 0)*x/r
    """
    module, _ = build(text, tmp_path)
    rows = [[0.3, 2.0, -214.0976, 3.0], [0.7, 0.6, -11955.33, -4.0], [0.0, 0.0, 2.03e-8, -6.0]]
    x, y, b = (torch.tensor(row, dtype=getattr(torch, dtype), requires_grad=True) for row in rows)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        (slopes,) = torch.autograd.grad(module.f(x, y, b).sum(), y)
    at = [one.detach().double()[2].item() for one in (x, y, b)]
    slope = -at[2] * at[0] * at[1] / math.hypot(*at[:2]) ** 3
    assert slopes.tolist() == pytest.approx([0, 0, slope, 0], rel=8 * torch.finfo(x.dtype).eps, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_quotient_of_inputs_has_its_removable_singularity(path: str, dtype: str, tmp_path: Path) -> None:
    """Both are not 0 where it is: the denominator was taken to be, and nothing was removed."""
    module, _ = build("@op\ndef f(a, b):\n    return a/(exp(a/b) - 1)\n", tmp_path)
    at = [torch.tensor(v, dtype=getattr(torch, dtype), requires_grad=True) for v in (0.0, 0.5)]
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        out = module.f(*at)
        assert (out.item(), *(slope.item() for slope in torch.autograd.grad(out, at))) == (0.5, -0.5, 1)


ABOUT_ONE = [1 - 2.0**-24, 1.0, 1 - 2.0**-12]
COSINES = "a, b, t", "sqrt(a**2 + b**2 - 2*a*b*cos(t))"
GGX = "c, a", "a**2/(pi*(c**2*(a**2 - 1) + 1)**2)"  # of microfacets
HENYEY = "g, c", "(1 - g**2)/(4*pi*(1 + g**2 - 2*g*c)**Rational(3, 2))"  # of scattering
ANNUITY = "r, n: float = 30.0", "(1 - (1 + r)**(-n))/r"
MORTGAGE = "r, n: float = 360.0", "r*(1 + r)**n/((1 + r)**n - 1)"
THREE = "a, b, c", "tanh(a*b - b*c + c)/sqrt(1 + (a*b)**2)"
FLOORED = "x, d: float = 0.0", "log(d + exp(x))"  # x, where d is 0, of which exp(x) may be nothing
CANCELLED = "x, y: float = 1.0", "(1 - y)*exp(x)"
SEPARABLE = "a, b", "a*b/sqrt(1 + a**2)**3 - b/(1 + a**2)"  # b times what cancels for large a
ENTANGLED = "a, b, c", "a*b/sqrt(1 + a**2)**3 - b/(1 + a**2) + a*b*c/(1 + a**2)"
NORMS = "x, y, z", "sqrt(x**2 + y**2) - sqrt(x**2 + z**2)"
POWERS = "x, y, p: float = 0.3", "x**p - y**p"
PROBIT = "x, y", "-(y*log((1 + erf(x/sqrt(2)))/2) + (1 - y)*log(1 - (1 + erf(x/sqrt(2)))/2))"
DECIBELS = "a, b", "10*log(10**(a/10) + 10**(b/10), 10)"
ROUNDED = [(-5.498040679184166, -0.3611483948638097, -0.06492382680376167), (0.7278229, 1.95967507, 0.618161619)]
EXTREME = [(6.280646970173026e-91, -5.513907482725397e307, -0.1149068516339949), (4.2e180, 1.5, 3.7e-181)]


@pytest.mark.parametrize(
    ("signature", "formula", "dtype", "points"),
    [
        pytest.param(*THREE, "float64", [*ROUNDED, *EXTREME], marks=pytest.mark.slow),
        (*COSINES, "float64", [(1.0, 1.0, 1e-9), (3.0, 3.0, 1e-5), (1.0, 0.9999999289182604, 0.0)]),
        (*COSINES, "float32", [(1.0, 1.0, 2.0**-50), (1.0, 0.75, 0.01)]),
        (*GGX, "float64", [(1.0, 1e-9), (1.0, 1e-3), (0.5, 0.3), (0.999, 1e-4)]),
        (*GGX, "float32", [(1.0, 2.0**-28), (1.0, 1e-3), (0.5, 0.3), *itertools.product(ABOUT_ONE, [1e-4])]),
        (*HENYEY, "float32", [(1 - 2.0**-24, 1.0), (0.9999, 1.0), (-1 - 2.0**-21, -1.0)]),
        (*ANNUITY, "float32", [(r,) for r in (1e-4, 9.75e-4, 1e-3, 0.0039, -0.004, 0.05)]),
        (*ANNUITY, "float64", [(r,) for r in (1e-4, 9.75e-4, 1e-3, 0.02, 0.05)]),  # about 0.004 it is off by 84
        *((*MORTGAGE, dtype, [(1e-10,), (3e-8,), (1e-5,), (0.005,), (-0.01,)]) for dtype in ("float32", "float64")),
        *((*SEPARABLE, dtype, [(7e6, 1.0), (1e5, 3.0), (0.3, 2.0), (-5.0, 1.0)]) for dtype in ("float32", "float64")),
        (*ENTANGLED, "float32", [(7e6, 1.0, 0.0), (1e5, 3.0, 1e-12), (0.3, 2.0, 1.0), (-5.0, 1.0, 2.0)]),
        *((*PROBIT, dtype, [(6.0, 0.0), (14.0, 0.0), (-9.0, 1.0), (0.3, 1.0)]) for dtype in ("float32", "float64")),
        *((*DECIBELS, dtype, [(100.0, 400.0), (-0.013, -42.05)]) for dtype in ("float32", "float64")),
        ("x", "1 - (1 + erf(x/sqrt(2)))/2", "float32", [(8.72,), (-3.0,), (0.01,)]),
        *((*NORMS, dtype, [(10.0, 1.0, 2.0), (1e5, 1.0, 2.0), (3.0, 1.0, 1.0001)]) for dtype in ("float32", "float64")),
        *((*POWERS, dtype, [(2.0, 2.0001), (1e30, 1e29), (0.001, 5.0)]) for dtype in ("float32", "float64")),
        *((*FLOORED, dtype, [(-119.7,), (-0.5,), (0.3,), (90.0,)]) for dtype in ("float32", "float64")),
        *((*CANCELLED, dtype, [(-1.0,), (95.0,), (800.0,)]) for dtype in ("float32", "float64")),
        ("x", "x*(1 + x/sqrt(1 + x**2))/2", "float64", [(1e155,), (1.7e308,), (-1e5,), (0.3,)]),
        ("x, p: float = 2.1", "14*log(1 + Abs(x)**p)", "float64", [(1e150,), (-1e300,), (2.0,), (1e-3,)]),
    ],
)
def test_value_and_gradient_meet_the_bar(
    signature: str, formula: str, dtype: str, points: list[tuple[float, ...]], tmp_path: Path
) -> None:
    module, (spec,) = build(f"@op\ndef f({signature}):\n    return {formula}\n", tmp_path)
    names = [tensor.name for tensor in spec.tensors]
    quantities = [Quantity(0, ()), *(Quantity(0, (name,)) for name in names)]
    reference = Reference(spec, {scalar.name: scalar.default for scalar in spec.scalars})
    columns = [torch.tensor(column, dtype=getattr(torch, dtype)) for column in zip(*points, strict=True)]
    for path in ("cpu", "torch"):
        inputs = [column.clone().requires_grad_() for column in columns]
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            value = module.f(*inputs)
            results = [value, *torch.autograd.grad(value.sum(), inputs)]
        for row in range(len(points)):
            at = {name: column[row].item() for name, column in zip(names, columns, strict=True)}
            exact = reference(at, quantities)
            for quantity, result in zip(quantities, results, strict=True):
                off = error(result[row].item(), exact[quantity], dtype)
                assert off is not None
                assert off <= 4, (path, quantity, at, result[row].item(), exact[quantity].value)


@pytest.mark.parametrize("power", [365, 1_000_000])
@pytest.mark.parametrize("formula", ["(1 + x)**{}", "sqrt(1 + (1 + x)**{})"])
def test_a_large_power_is_not_written_out(formula: str, power: int, tmp_path: Path) -> None:
    """SymPy expanded it, and a series was a million zeros."""
    module, _ = build(f"@op\ndef f(x):\n    return {formula.format(power)}\n", tmp_path)
    x = torch.tensor(0.5 / power, dtype=torch.float64)
    value = math.exp(power * math.log1p(x.item()))
    assert module.f(x).item() == pytest.approx(value if formula.startswith("(") else math.sqrt(1 + value), rel=1e-9)


@pytest.mark.parametrize("power", [1, 2, 12])
def test_a_softplus_beside_what_vanishes_where_it_grows(power: int, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return log(1 + exp(x))**{power}/(1 + exp(x))\n", tmp_path)
    x = torch.tensor([745.0, 751.0, -700.0 / power], dtype=torch.float64)
    with mpmath.workdps(50):
        exact = [mpmath.log1p(mpmath.exp(at)) ** power / (1 + mpmath.exp(at)) for at in x.tolist()]
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            assert module.f(x).tolist() == pytest.approx([*map(float, exact)], rel=1e-13, abs=1e-323)


def test_a_product_with_1_is_none(tmp_path: Path) -> None:
    """In a series in powers of r are powers of 1."""
    module, _ = build("@op\ndef f(r, n: float = 30.0):\n    return (1 - (1 + r)**(-n))/r\n", tmp_path)
    text = Path(str(module.__file__)).read_text()
    assert "real(1))" not in text
    assert " 1 * " not in str(module.__doc__)


def test_a_power_of_zero_with_a_hyper_parameter_for_exponent(tmp_path: Path) -> None:
    """Its derivative by that was the logarithm of 0, no real number, which ended in a bug in gradgen."""
    formula = "Max(1 - x**2/(12*t), 0)**(1/(m - 1))"
    module, _ = build(f"@op\ndef f(x, t, m: float = 2.0):\n    return {formula}\n", tmp_path)
    inputs = [torch.tensor(column, dtype=torch.float64, requires_grad=True) for column in ([0.3, 5.0], [1.0, 1.0])]
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            out = module.f(*inputs, m=3.0)
            assert out.tolist() == pytest.approx([math.sqrt(1 - 0.09 / 12), 0.0])
            assert torch.autograd.gradcheck(lambda *at: module.f(*at, m=3.0), inputs)


DIFFERENCES = {
    "exp(-b*x) - exp(-a*x)": (1.0, -1.4),
    "2**(a*x) - 2**(b*x)": (math.log(2), 1.4 * math.log(2) ** 2),
    "tanh(a*x + 1) - tanh(b*x + 1)": (1 / math.cosh(1) ** 2, -2.8 * math.tanh(1) / math.cosh(1) ** 2),
    "1/(1 + exp(-a*x)) - 1/(1 + exp(-b*x))": (0.25, 0.0),
    "erf(a*x + 1) - erf(b*x + 1)": (2 / math.sqrt(math.pi) / math.e, -5.6 / math.sqrt(math.pi) / math.e),
    "sinh(a*x + 1) - sinh(b*x + 1)": (math.cosh(1), 1.4 * math.sinh(1)),
}


@pytest.mark.parametrize("formula", DIFFERENCES)
def test_differences_have_their_derivatives_where_they_vanish(formula: str, tmp_path: Path) -> None:
    """There they were taken for 0, whose derivatives are 0."""
    module, _ = build(f"@op\ndef f(x, a: float = 1.2, b: float = 0.2):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else nullcontext():
            out = module.f(x)
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            (curvature,) = torch.autograd.grad(slope.sum(), x)
        assert out.tolist() == [0.0] * 3
        assert slope.tolist() == pytest.approx([DIFFERENCES[formula][0]] * 3, rel=1e-14)
        assert curvature.tolist() == pytest.approx([DIFFERENCES[formula][1]] * 3, rel=1e-12, abs=1e-300)
