"""Derivatives beyond the second: right, finite, the same by every way to have them, and in training."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mpmath
import pytest
import torch
from building import build
from gallery import OPS, Op, as_tuple, get
from subjects import subject
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from gradgen.exact import Exact
from gradgen.quality import BAR
from gradgen.ulp import mixed_error

BITS = 320
FLOAT64_BAR = 80.0  # sums of derivatives are not rewritten: mish is off by 62 in its fifth near 0
SMOOTH = [op for op in OPS if not subject(op).formula.derivatives]
FEW = (1e-9, 0.4, 2.6, 19.0)
ALL = (*FEW, 1e-30, 1e-3, 0.03, 1.3, 7.0, 30.0)


def derivative(
    op: Callable[..., Tensor | tuple[Tensor, ...]],
    point: Sequence[float],
    wrt: Sequence[int],
    dtype: torch.dtype,
    output: int = 0,
) -> float:
    """A derivative of an output by some inputs, in turn, at a point."""
    leaves = [torch.tensor([x], dtype=dtype, requires_grad=True) for x in point]
    y = as_tuple(op(*leaves))[output]
    for position in wrt:
        if not y.requires_grad:
            return 0.0
        (slope,) = torch.autograd.grad(y.sum(), leaves[position], create_graph=True, allow_unused=True)
        if slope is None:
            return 0.0
        y = slope
    return y.item()


def orders(op: Op) -> list[tuple[int, ...]]:
    """By which inputs to differentiate: all third derivatives of few inputs, and some beyond."""
    inputs = op.differentiable[:2]
    third = [*itertools.combinations_with_replacement(inputs, 3)]
    return [*third, (inputs[0],) * 4, (inputs[0],) * 5]


def points(op: Op, magnitudes: Sequence[float], dtype: torch.dtype) -> list[tuple[float, ...]]:
    """With one input of each magnitude and either sign, the others being ordinary."""
    found = []
    for k, (sign, size) in enumerate(itertools.product((1, -1), magnitudes)):
        others = [round(low + (high - low) * ((0.37 * k + 0.21 * i) % 1), 2) for i, (low, high) in enumerate(op.ranges)]
        place = k % len(op.tensors)
        low, high = op.bounds.get(op.tensors[place], (-math.inf, math.inf))
        if low <= sign * size <= high:
            others[place] = sign * size
        found.append(tuple(torch.tensor(others, dtype=dtype).tolist()))
    return found


@functools.cache
def exact(name: str) -> Exact:
    return Exact(subject(get(name)).formula, BITS)


@dataclass(frozen=True)
class Case:
    """An output of an operation, with its hyper-parameters."""

    op: Op
    output: int
    hyper: dict[str, float]

    def __str__(self) -> str:
        return " ".join([self.op.name, *[f"output {self.output}"] * (self.output > 0), *map(str, self.hyper.values())])

    def right(self, point: Sequence[float], wrt: Sequence[int]) -> tuple[mpmath.mpf, mpmath.mpf]:
        """A derivative and by how much it changes with its inputs."""
        op, known = self.op, exact(self.op.name)
        defaults = {name: default for name, (default, _) in op.hyper.items()}
        named = dict(zip(op.tensors, point, strict=True)) | defaults | self.hyper
        names = [op.tensors[k] for k in wrt]
        value = known.derivative(named, names, self.output)
        slopes = [abs(named[x] * known.derivative(named, [*names, x], self.output)) for x in op.tensors]
        return value, max(slopes)


# First outputs at the defaults, then other outputs, and other hyper-parameters.
CASES = [
    *[pytest.param(Case(op, 0, {}), marks=[pytest.mark.thorough] * (k % 2)) for k, op in enumerate(SMOOTH)],
    *[pytest.param(Case(op, k, {}), marks=pytest.mark.slow) for op in SMOOTH for k in range(1, op.outputs)],
    *[pytest.param(Case(op, 0, op.others), marks=pytest.mark.slow) for op in SMOOTH if op.hyper],
]


HOW = [  # the types of 16 bits are rounded from what float32 is
    *[pytest.param(d, FEW, marks=pytest.mark.sample, id=f"{d}-few") for d in (torch.float32, torch.float64)],
    *[pytest.param(d, ALL, marks=pytest.mark.slow, id=f"{d}-all") for d in (torch.float32, torch.float64)],
    pytest.param(torch.float16, FEW, marks=pytest.mark.slow, id="torch.float16-few"),
    pytest.param(torch.float16, ALL, marks=pytest.mark.thorough, id="torch.float16-all"),
    pytest.param(torch.bfloat16, FEW, marks=pytest.mark.thorough, id="torch.bfloat16-few"),
    pytest.param(torch.bfloat16, ALL, marks=pytest.mark.thorough, id="torch.bfloat16-all"),
]


@pytest.mark.parametrize(("dtype", "magnitudes"), HOW)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_are_right(case: Case, dtype: torch.dtype, magnitudes: Sequence[float]) -> None:
    op, bar = case.op, FLOAT64_BAR if dtype is torch.float64 else BAR
    compared = 0
    for wrt in orders(op):
        for point in points(op, magnitudes, dtype):
            try:
                value, scale = case.right(point, wrt)
            except ArithmeticError:  # at a kink; or 0, of which differences leave noise
                continue
            if dtype is torch.float64 and 0 < abs(value) < torch.finfo(dtype).tiny:
                continue
            compared += 1
            found = derivative(functools.partial(op, **case.hyper), point, wrt, dtype, case.output)
            error = mixed_error(found, value, scale, str(dtype).removeprefix("torch."))
            assert error <= bar, f"by {wrt} at {point}: {found} in place of {mpmath.nstr(value, 17)}, {error:.3g} ULP"
    assert compared > 0.3 * len(orders(op)) * len(points(op, magnitudes, dtype))


OTHERS = [
    *(
        "sin(x)/x",
        "coth(x) - 1/x",
        "besselj(1, x)",
        pytest.param("loggamma(x)", marks=pytest.mark.thorough),
        "(x - atan(x))/x**3",
        "tanh(x)/x",
        "exp(-x**2)*erfc(-x)",
    ),
    *(
        "atan2(x, y)",
        "sqrt(x**2 + y**2)",
        "x**y",
        "log(exp(x) + exp(y))",
        "Max(x, 0)**3*y",
        "Piecewise((exp(x), x < 1), (x, True))",
    ),
]


@pytest.mark.few(every_day=1, slow=5)
@pytest.mark.slow
@pytest.mark.parametrize("text", OTHERS)
def test_of_other_functions_are_right(text: str, tmp_path: Path) -> None:
    """Among them those of removable singularities, at the very point."""
    module, (formula,) = build(f"@op\ndef f({'x, y' if 'y' in text else 'x'}): return {text}", tmp_path)
    names = [p.name for p in formula.tensors]
    known, compared = Exact(formula, 200), 0
    places = [(0.3,), (0.0,), (1e-9,), (-1e-3,), (-1.7,), (2.5,), (9.0,)]
    for place in [(*p, *q) for p, q in itertools.product(places, [(0.7,), (-1.3,)])] if len(names) > 1 else places:
        for wrt in itertools.chain(*(itertools.combinations_with_replacement(range(len(names)), n) for n in (3, 4))):
            point = dict(zip(names, torch.tensor(place).tolist(), strict=True))
            by = [names[k] for k in wrt]
            try:
                value = known.derivative(point, by)
                scale = max(abs(point[x] * known.derivative(point, [*by, x])) for x in names)
            except ArithmeticError:
                continue
            if mpmath.isfinite(value):
                compared += 1
                found = derivative(module.f, place, wrt, torch.float32)
                assert mixed_error(found, value, scale, "float32") <= BAR, (place, wrt, found, mpmath.nstr(value, 9))
    assert compared > 5


def by_autograd(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def slope(x: Tensor) -> Tensor:
        x = x if x.requires_grad else x.detach().requires_grad_()
        y = f(x)
        if not y.requires_grad:  # a constant
            return torch.zeros_like(x)
        return torch.autograd.grad(y.sum(), x, create_graph=True, materialize_grads=True)[0]

    return slope


def elementwise(op: Op) -> Callable[[Tensor], Tensor]:
    """The first output as a function of the first input, the others being numbers."""
    _, *others = op.sample((), dtype=torch.float64)

    return lambda x: as_tuple(op(x, *others))[0]


WAYS = [*itertools.product((grad, jacrev, jacfwd), repeat=3)]
EVERY_DAY = ("swish", "bce_with_logits", "relu")


@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: " ".join(way.__name__ for way in ways))
@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=[pytest.mark.slow] * (op.name not in EVERY_DAY) + [pytest.mark.thorough] * (k % 2))
        for k, op in enumerate(SMOOTH)
    ],
    ids=str,
)
def test_are_the_same_by_every_way(op: Op, ways: Sequence[Callable[..., Callable[[Tensor], Tensor]]]) -> None:
    f = elementwise(op)
    (low, high), *_ = op.ranges
    x = torch.linspace(low, high, 5, dtype=torch.float64) + 0.01
    expected = functools.reduce(lambda g, way: way(g), [by_autograd] * 3, f)(x)
    found = vmap(functools.reduce(lambda g, way: way(g), ways, f))(x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_take_no_code_of_their_own() -> None:
    """Of what is generated there is a kernel for value, gradient and second derivative, and the torch form of each."""
    for op in OPS:
        assert {*op.kernels} <= {"forward", "backward", "double_backward"}


def test_of_a_branch_that_is_not_taken_nothing_is_left() -> None:
    x = torch.tensor([800.0, -800.0, 2.0], requires_grad=True)
    y = get("elu")(x)
    for expected in ([1.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == expected


def test_that_vanish_are_zeros() -> None:
    x = torch.tensor([-1.0, 0.0, 3.0], requires_grad=True)
    y = get("square")(x)
    for expected in ([-2.0, 0.0, 6.0], [2.0] * 3, [0.0] * 3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == expected


@pytest.mark.parametrize("name", ["swish", "gelu", "mish", "tanh_exp", "softplus"])
def test_a_network_learns_from_the_fourth_derivative_of_its_output(name: str) -> None:
    """As for the Kuramoto-Sivashinsky equation: the loss has u_xxxx, and its gradient is a fifth derivative."""
    torch.manual_seed(0)
    op = get(name)
    weights = [torch.randn(8, 1, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64) / 3]
    x = torch.linspace(-1, 1, 7, dtype=torch.float64).reshape(-1, 1)

    def gradients(activation: Callable[[Tensor], Tensor]) -> list[Tensor]:
        leaves = [w.clone().requires_grad_() for w in weights]
        t = x.clone().requires_grad_()
        u = activation(activation(t @ leaves[0].T) @ leaves[1].T).sum(1)
        for _ in range(4):
            (u,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return list(torch.autograd.grad((u**2).mean(), leaves))

    for found, expected in zip(gradients(op.function), gradients(op.reference), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("op", SMOOTH, ids=str)
def test_a_network_learns_from_second_derivatives_by_its_input(op: Op) -> None:
    """As a physics-informed network does, by steps of an optimiser; here u_tt = -u."""
    (low, high), *_ = op.ranges
    t = torch.linspace(low, high, 9, dtype=torch.float64).reshape(-1, 1) / 2
    _, *others = op.sample((), dtype=torch.float64)

    def trained(activation: Callable[..., Tensor | tuple[Tensor, ...]]) -> list[Tensor]:
        torch.manual_seed(0)
        first, last = torch.nn.Linear(1, 6).double(), torch.nn.Linear(6, 1).double()
        parameters = [*first.parameters(), *last.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        for _ in range(3):
            x = t.clone().requires_grad_()
            inner = (low + high) / 2 + (high - low) / 8 * torch.tanh(first(x))  # where the op is ordinary
            u = last(as_tuple(activation(inner, *others))[0])
            (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
            (curvature,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
            optimizer.zero_grad()
            (curvature + u).square().mean().backward()
            optimizer.step()
        return [p.detach() for p in parameters]

    for found, expected in zip(trained(op), trained(op.reference), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["bce_with_logits", "staged", "neuron", "sum_product", "polar_to_cartesian"])
def test_of_inputs_that_broadcast_have_their_shapes(name: str) -> None:
    op = get(name)
    leaves = op.sample((3, 1), (2,), dtype=torch.float64, grad=True)
    inputs = [leaf for leaf in leaves if leaf.requires_grad]

    def slopes(*inputs: Tensor) -> tuple[Tensor, ...]:
        rest = iter(inputs)
        results = as_tuple(op(*[next(rest) if leaf.requires_grad else leaf for leaf in leaves]))
        return torch.autograd.grad(sum(y.sum() for y in results), inputs, create_graph=True)

    assert torch.autograd.gradgradcheck(slopes, inputs)


@pytest.mark.parametrize("op", SMOOTH, ids=str)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_of_a_jacobian_by_batched_gradients(op: Op, before: int) -> None:
    """As of one row after the other; torch's former vmap, which batches them, knows no function."""
    f = functools.reduce(lambda g, _: by_autograd(g), range(before), elementwise(op))
    (low, high), *_ = op.ranges
    x = (torch.linspace(low, high, 4, dtype=torch.float64) + 0.01).requires_grad_()
    found = []
    for vectorize in (True, False):
        rows = torch.autograd.functional.jacobian(f, x, create_graph=True, vectorize=vectorize)
        found.append((rows, *torch.autograd.grad((rows**2).sum() + (x**2).sum(), x)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["huber", "bce_with_logits", "sum_product", "polar_to_cartesian"])
def test_forward_over_reverse_over_reverse_by_an_input_that_broadcasts(name: str) -> None:
    op = get(name)
    x, *others = op.sample((), (3,), dtype=torch.float64)

    def slope(function: Callable[..., Tensor | tuple[Tensor, ...]], x: Tensor) -> Tensor:
        return grad(grad(lambda x: as_tuple(function(x, *others))[0].sum()))(x)

    found = [jvp(functools.partial(slope, function), (x,), (x,)) for function in (op.function, op.reference)]
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_an_incoming_nan_is_told() -> None:
    x = torch.tensor([1.0, 0.0, -2.0], requires_grad=True)
    second = by_autograd(by_autograd(get("swish").function))(x)
    (third,) = torch.autograd.grad(second, x, torch.full((3,), math.nan))
    assert third.isnan().all()
