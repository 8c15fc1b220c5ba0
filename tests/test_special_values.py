"""NaN, infinities, and branches that are not taken: value and gradient of the gallery, on both paths and all dtypes."""

from __future__ import annotations

import contextlib
import itertools
import math
from contextlib import AbstractContextManager
from pathlib import Path

import gallery
import pytest
import torch
from building import build
from gallery import DTYPES, OPS, Op, as_tuple, get, gradients
from torch import Tensor

pytestmark = pytest.mark.few(every_day=3, slow=14)

rt = gallery.runtime()

INF, NAN = math.inf, math.nan

every = pytest.mark.parametrize("op", OPS, ids=str)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
both_paths = pytest.mark.parametrize("path", ["cpu", "torch"])


def on(path: str) -> AbstractContextManager[object]:
    return rt.force_path("torch") if path == "torch" else contextlib.nullcontext()


def assert_same(found: Tensor, expected: list[float]) -> None:
    """Equal, NaN and the sign of infinities included."""
    torch.testing.assert_close(found.double(), torch.tensor(expected).double(), rtol=0, atol=0, equal_nan=True)


# ---------------------------------------------------------------------------------------------------------------------
# NaN
# ---------------------------------------------------------------------------------------------------------------------


@every
@all_dtypes
@both_paths
def test_nan_in_nan_out(op: Op, dtype: torch.dtype, path: str) -> None:
    """In the value, and in the gradient of the input that is NaN, unless that does not depend on the input."""
    for position, name in enumerate(op.tensors):
        inputs = op.sample((19,), dtype=dtype)
        inputs[position] = torch.full_like(inputs[position], NAN)
        with on(path):
            found = gradients(op, inputs)
        for value in found[: op.outputs]:
            assert value.isnan().all()
        for k, gradient in zip(op.differentiable, found[op.outputs :], strict=True):
            if k == position:
                assert gradient.isnan().all() != (name in op.linear)


@pytest.mark.parametrize(
    "formula",
    [
        "log((exp(x) + exp(y))/2)",
        "0.3*exp(x)/(0.3*exp(x) + 0.7*exp(y))",
        "sqrt(x**2 + x + 1) - x + y**2",
        "Piecewise((x*exp(y), x > 1), (exp(x)*y**2, True))",
        "Piecewise((x, x > y), (y, True))**2 + Max(x, 0)",
        "Piecewise((1, x > 0), (3, True))*y**2 + x**2",
        "Piecewise((y, x > 0), (2*y, True))**2*x*sign(x)",
    ],
)
@both_paths
def test_nan_shows_in_formulas_with_branches(formula: str, path: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x: Tensor, y: Tensor):\n    return {formula}\n", tmp_path)
    for position, other in itertools.product((0, 1), (-1.5, 0.5, 2.0)):
        inputs = [torch.tensor(other, requires_grad=True) for _ in range(2)]
        inputs[position].data.fill_(NAN)
        with module.rt.force_path("torch") if path == "torch" else contextlib.nullcontext():
            value = module.f(*inputs)
            slopes = torch.autograd.grad(value, inputs)
        assert value.isnan()
        assert slopes[position].isnan()


@every
@both_paths
def test_nan_stays_where_it_is(op: Op, path: str) -> None:
    inputs = op.sample((19,), dtype=torch.float32)
    with on(path):
        clean = gradients(op, inputs)
        for tensor in inputs:
            tensor[7] = NAN
        found = gradients(op, inputs)
    elsewhere = torch.arange(19) != 7
    for before, after in zip(clean, found, strict=True):
        assert torch.equal(before[elsewhere], after[elsewhere])


@every
@both_paths
def test_nan_in_the_incoming_gradient_gets_through(op: Op, path: str) -> None:
    inputs = op.sample((1,), grad=True)
    with on(path):
        results = as_tuple(op(*inputs))
        seeds = [torch.full_like(result, NAN) for result in results]
        grads = torch.autograd.grad(results, [inputs[k] for k in op.differentiable], seeds)
    if op.name == "max_gate":
        assert [bool(grad.isnan()) for grad in grads].count(True) == 1  # the larger one's
    elif op.name in ("relu", "binarize"):
        assert bool(grads[0].isnan()) == (op.name == "relu" and inputs[0].item() > 0)
    else:
        assert all(grad.isnan() for grad in grads)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "binarize", "huber", "max_gate", "swish", "exp"])
@both_paths
def test_nan_reaches_the_second_derivative(name: str, path: str) -> None:
    op = get(name)
    inputs = [torch.full((3,), NAN, requires_grad=k in op.differentiable) for k in range(len(op.tensors))]
    wanted = [inputs[k] for k in op.differentiable]
    with on(path):
        result = op(*inputs)
        seed = torch.ones_like(result, requires_grad=True)
        grads = torch.autograd.grad(result, wanted, seed, create_graph=True)
        (found,) = torch.autograd.grad(grads[0].sum(), seed)
    assert found.isnan().all()


# ---------------------------------------------------------------------------------------------------------------------
# Infinities
# ---------------------------------------------------------------------------------------------------------------------

LIMITS = [
    ("binarize", (INF,), {}, (1.0,), (0.0,)),
    ("binarize", (-INF,), {}, (-1.0,), (0.0,)),
    ("elu", (INF,), {}, (INF,), (1.0,)),
    ("elu", (-INF,), {"alpha": 1.5}, (-1.5,), (0.0,)),
    ("exp", (INF,), {}, (INF,), (INF,)),
    ("exp", (-INF,), {}, (0.0,), (0.0,)),
    ("gelu", (INF,), {}, (INF,), (1.0,)),
    ("gelu", (-INF,), {}, (0.0,), (0.0,)),
    ("gelu_tanh", (INF,), {}, (INF,), (1.0,)),
    ("gelu_tanh", (-INF,), {}, (0.0,), (0.0,)),
    ("leaky_relu", (INF,), {"alpha": 0.25}, (INF,), (1.0,)),
    ("leaky_relu", (-INF,), {"alpha": 0.25}, (-INF,), (0.25,)),
    ("huber", (INF, 0.0), {"delta": 1.5}, (INF,), (1.5,)),
    ("huber", (-INF, 0.0), {"delta": 1.5}, (INF,), (-1.5,)),
    ("huber", (0.0, INF), {"delta": 1.5}, (INF,), (-1.5,)),
    ("log_sigmoid", (INF,), {}, (0.0,), (0.0,)),
    ("log_sigmoid", (-INF,), {}, (-INF,), (1.0,)),
    ("bce_with_logits", (INF, 0.5), {}, (INF,), (0.5, -INF)),
    ("bce_with_logits", (-INF, 0.5), {}, (INF,), (-0.5, INF)),
    ("tanh_exp", (INF,), {}, (1.0,), (0.0,)),
    ("tanh_exp", (-INF,), {}, (-1.0,), (0.0,)),
    ("mish", (INF,), {}, (INF,), (1.0,)),
    ("mish", (-INF,), {}, (0.0,), (0.0,)),
    ("neuron", (0.5, 1.0, 2.0, 3.0, INF), {}, (1.0,), (0.0,) * 5),
    ("neuron", (0.5, 1.0, 2.0, 3.0, -INF), {}, (0.0,), (0.0,) * 5),
    ("neuron", (1.0, INF, 2.0, 3.0, 0.5), {}, (1.0,), (0.0,) * 5),
    ("neuron", (1.0, -INF, 2.0, 3.0, 0.5), {}, (0.0,), (0.0,) * 5),
    ("polar_to_cartesian", (INF, 1.0), {}, (INF, INF), None),
    ("relu", (INF,), {}, (INF,), (1.0,)),
    ("relu", (-INF,), {}, (0.0,), (0.0,)),
    ("sigmoid", (INF,), {}, (1.0,), (0.0,)),
    ("sigmoid", (-INF,), {}, (0.0,), (0.0,)),
    ("softplus", (INF,), {"beta": 2.0}, (INF,), (1.0,)),
    ("softplus", (-INF,), {"beta": 2.0}, (0.0,), (0.0,)),
    ("square", (INF,), {}, (INF,), (INF,)),
    ("square", (-INF,), {}, (INF,), (-INF,)),
    ("sum_product", (INF, 1.0, -2.0), {}, (-INF,), (-2.0, -2.0, INF)),
    ("max_gate", (INF, 1.0), {}, (INF,), (1.0, 0.0)),
    ("max_gate", (-INF, 1.0), {}, (1.0,), (0.0, 1.0)),
    ("swish", (INF,), {}, (INF,), (1.0,)),
    ("swish", (-INF,), {}, (0.0,), (0.0,)),
    ("swish", (INF,), {"beta": -0.5}, (0.0,), (0.0,)),
    ("swish", (-INF,), {"beta": 2.0}, (0.0,), (0.0,)),
]


@pytest.mark.parametrize(("name", "at", "hyper", "values", "slopes"), LIMITS)
@all_dtypes
@both_paths
def test_limits_at_infinity(
    name: str,
    at: tuple[float, ...],
    hyper: dict[str, float],
    values: tuple[float, ...],
    slopes: tuple[float, ...] | None,
    dtype: torch.dtype,
    path: str,
) -> None:
    op = get(name)
    inputs = [torch.full((9,), value, dtype=dtype) for value in at]
    with on(path):
        found = gradients(op, inputs, **hyper)
    for tensor, expected in zip(found, (*values, *(slopes or ())), strict=slopes is not None):
        assert_same(tensor, [expected] * 9)


VANISHING = ["binarize", "elu", "gelu", "gelu_tanh", "log_sigmoid", "mish", "relu", "sigmoid", "softplus", "swish"]


@pytest.mark.parametrize("name", [*VANISHING, "tanh_exp", "leaky_relu"])
@pytest.mark.parametrize("at", [INF, -INF])
@both_paths
def test_second_derivatives_vanish_at_infinity(name: str, at: float, path: str) -> None:
    """All of these are straight there; nothing may become 0 * inf or inf - inf on the way."""
    x = torch.full((9,), at, requires_grad=True)
    with on(path):
        (slope,) = torch.autograd.grad(get(name)(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), x, materialize_grads=True)
    assert second.tolist() == [0.0] * 9


@pytest.mark.parametrize("name", VANISHING)
@all_dtypes
@both_paths
def test_tails_are_monotonous_to_nothing(name: str, dtype: torch.dtype, path: str) -> None:
    """Far to the left nothing is NaN, of the wrong sign, or grows again, up to the largest number."""
    largest = torch.finfo(dtype).max
    x = -torch.logspace(math.log10(8.0), math.log10(largest), 300, dtype=torch.float64).clamp(max=largest).to(dtype)
    with on(path):
        value, slope = gradients(get(name), [x])
    for tensor in (value, slope):
        assert tensor.isfinite().all()
        if name not in ("elu", "binarize", "log_sigmoid"):
            sizes = tensor.double().abs()
            assert (sizes[1:] <= sizes[:-1]).all()
            assert sizes[-1] == 0


# ---------------------------------------------------------------------------------------------------------------------
# Branches that are not taken
# ---------------------------------------------------------------------------------------------------------------------


@all_dtypes
@both_paths
def test_elu_where_its_exponential_overflows(dtype: torch.dtype, path: str) -> None:
    x = torch.tensor([12.0, 100.0, 1e4, torch.finfo(dtype).max], dtype=torch.float64).to(dtype)
    for alpha in (1.0, INF, NAN):
        with on(path):
            value, slope = gradients(get("elu"), [x], alpha=alpha)
        assert torch.equal(value, x)
        assert_same(slope, [1.0] * 4)


@both_paths
def test_second_derivative_of_elu_where_its_exponential_overflows(path: str) -> None:
    """The third is autograd's of torch operations, which is NaN there; the README says so."""
    x = torch.tensor([800.0, 1e4, INF], dtype=torch.float64, requires_grad=True)
    with on(path):
        (slope,) = torch.autograd.grad(get("elu")(x).sum(), x, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), x)
    assert curvature.tolist() == [0.0] * 3


@all_dtypes
@both_paths
def test_huber_where_its_square_overflows(dtype: torch.dtype, path: str) -> None:
    largest = torch.finfo(dtype).max
    prediction = torch.tensor([largest, -largest, largest / 4], dtype=torch.float64).to(dtype)
    with on(path):
        value, slope = gradients(get("huber"), [prediction, torch.zeros_like(prediction)])
    torch.testing.assert_close(value, prediction.abs())
    assert_same(slope, [1.0, -1.0, 1.0])


@both_paths
def test_huber_whose_linear_branch_is_infinite(path: str) -> None:
    prediction = torch.tensor([3.0, -0.5])
    with on(path):
        value, slope = gradients(get("huber"), [prediction, torch.zeros(2)], delta=INF)
    assert_same(value, [4.5, 0.125])
    assert_same(slope, [3.0, -0.5])


@pytest.mark.parametrize("incoming", [INF, NAN])
@both_paths
def test_what_a_gate_holds_back_is_zero(incoming: float, path: str) -> None:
    """Not 0 * inf: the incoming gradient belongs to the branch that was not taken."""
    seed = torch.tensor([incoming])
    with on(path):
        x = torch.tensor([-1.0], requires_grad=True)
        get("relu")(x).backward(seed)
        y, z = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        get("max_gate")(y, z).backward(seed)
        far = torch.tensor([2.0], requires_grad=True)
        get("binarize")(far).backward(seed)
    for held_back in (x, y, far):
        assert held_back.grad is not None
        assert held_back.grad.item() == 0
    assert z.grad is not None
    assert_same(z.grad, [incoming])


@both_paths
def test_leaky_relu_with_an_infinite_slope_that_is_not_used(path: str) -> None:
    x = torch.tensor([0.5, 3.0])
    with on(path):
        value, slope = gradients(get("leaky_relu"), [x], alpha=INF)
    assert torch.equal(value, x)
    assert_same(slope, [1.0, 1.0])


# ---------------------------------------------------------------------------------------------------------------------
# Zeros
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["elu", "gelu", "gelu_tanh", "mish", "swish", "tanh_exp", "leaky_relu"])
@both_paths
def test_zero_keeps_its_sign_where_the_function_is_odd_near_it(name: str, path: str) -> None:
    x = torch.tensor([0.0, -0.0] * 9)
    with on(path):
        value = get(name)(x)
    assert torch.equal(value, x)
    assert torch.equal(value.signbit(), x.signbit())


@every
@both_paths
def test_everything_is_finite_at_zero(op: Op, path: str) -> None:
    for zero in (0.0, -0.0):
        with on(path):
            found = gradients(op, [torch.full((9,), zero, dtype=torch.float32) for _ in op.tensors])
        assert all(tensor.isfinite().all() for tensor in found)


@both_paths
def test_a_number_of_hyper_parameters_wins_a_tie(path: str, tmp_path: Path) -> None:
    """As one that is written out does: the clip of PPO, and what a hyper-parameter clips on both sides."""
    text = (
        "@op\ndef f(x: Tensor, e: float = 0.25):\n    return Max(Min(x, e), -e) + 2*Max(x, 1 - e) + 4*Min(x, 1 + 2*e)\n"
    )
    module, _ = build(text, tmp_path)
    x = torch.tensor([-0.25, 0.25, 0.75, 1.5], dtype=torch.float64, requires_grad=True)
    with module.rt.force_path("torch") if path == "torch" else contextlib.nullcontext():
        (found,) = torch.autograd.grad(module.f(x, 0.25).sum(), x)
    assert found.tolist() == [4.0, 4.0, 4.0, 2.0]
