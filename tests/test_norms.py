"""Functions of a norm: 0/0 where the norm is 0, where autograd has NaN, and cancelling beside one of its components."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import mpmath
import pytest
import torch
from building import build

# With what the value is at 0, for which the formula is 0/0, and whether a second derivative is held to the bar, too.
RADIAL = {
    "atan(r)/r": (1.0, True),
    "(1 - cos(r))/r**2": (0.5, False),  # of Rodrigues' rotation
    "tanh(r)*x/r": (0.0, False),
}
AT = [(1e-30, 3e-30), (1e-12, -2e-12), (1e-4, 2e-4), (-0.3, 0.01), (1.5, -0.7), (-8.5, 0.028)]


def exact_of(formula: str, x: float, y: float) -> list[mpmath.mpf]:
    """The value, the gradient and the derivative by both inputs."""

    def value(x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
        return eval(formula, vars(mpmath) | {"x": x, "y": y, "r": mpmath.hypot(x, y)})

    with mpmath.workdps(600):
        point = mpmath.mpf(x), mpmath.mpf(y)
        return [value(*point), *(mpmath.diff(value, point, n) for n in ((1, 0), (0, 1), (1, 1)))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "formula", [pytest.param(f, marks=[pytest.mark.thorough] * (f != "atan(r)/r")) for f in RADIAL]
)
def test_a_function_of_a_norm(formula: str, tmp_path: Path) -> None:
    text = f"@op\ndef f(x, y):\n    r = sqrt(x**2 + y**2)\n    return {formula}\n"
    module, _ = build(text, tmp_path)
    at_zero, has_second = RADIAL[formula]
    for dtype, path in itertools.product((torch.float32, torch.float64), ("cpu", "torch")):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            for point in [(0.0, 0.0), *AT]:
                x, y = (torch.tensor(v, dtype=dtype, requires_grad=True) for v in point)
                out = module.f(x, y)
                by_x, by_y = torch.autograd.grad(out, (x, y), create_graph=True)
                if point == (0.0, 0.0):
                    assert out.item() == at_zero
                    assert (by_x.item(), by_y.item()) == ((1.0, 0.0) if formula.endswith("x/r") else (0.0, 0.0))
                    continue
                (mixed,) = torch.autograd.grad(by_x, y)
                right = exact_of(formula, x.item(), y.item())
                close = 32 * torch.finfo(dtype).eps
                found = [out.item(), by_x.item(), by_y.item(), mixed.item()]
                for k, (one, exact) in enumerate(zip(found, right, strict=True)):
                    shifts = [abs(v * slope) for v, slope in zip(point, right[1:3], strict=True)] if k == 0 else []
                    scale = max(abs(exact), *shifts, 0)
                    if k < 3 or (has_second and dtype == torch.float32):
                        assert abs(one - exact) <= close * scale + torch.finfo(dtype).tiny, (path, dtype, point, k)


@pytest.mark.slow
@pytest.mark.usefixtures("first_order")
def test_a_function_of_a_norm_of_three(tmp_path: Path) -> None:
    text = "@op\ndef f(x, y, z):\n    r = sqrt(x**2 + y**2 + z**2)\n    return (r - sin(r))/r**3\n"
    module, _ = build(text, tmp_path)
    for path in ("cpu", "torch"):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            zero = [torch.zeros(2, requires_grad=True) for _ in range(3)]
            out = module.f(*zero)
            assert out.tolist() == pytest.approx([1 / 6, 1 / 6], rel=1e-7)
            assert all(slope.tolist() == [0.0, 0.0] for slope in torch.autograd.grad(out.sum(), zero))
            near = [torch.tensor([v], requires_grad=True) for v in (1e-3, 2e-3, -1e-3)]
            for v, slope in zip((1e-3, 2e-3, -1e-3), torch.autograd.grad(module.f(*near), near), strict=True):
                assert slope.item() == pytest.approx(-v / 60, rel=1e-5)


@pytest.mark.parametrize(
    ("formula", "x", "y", "expected"),
    [
        ("(x + y)/2 - sqrt(((x - y)/2)**2 + 1)", 1e-3, 1e10, 1e-3 - 1e-10),
        ("(x + y)/2 - sqrt(((x - y)/2)**2 + 1)", 3.0, 1e16, 3.0 - 1e-16),
        ("(x + y + sqrt((x - y)**2 + 4))/2", -3.0, -1e16, -3.0 + 1e-16),
    ],
)
def test_the_smaller_of_two_energies(formula: str, x: float, y: float, expected: float, tmp_path: Path) -> None:
    """Roots of a quadratic equation, of which one is next to nothing beside the other."""
    module, _ = build(f"@op\ndef f(x, y):\n    return {formula}\n", tmp_path)
    for dtype, path in itertools.product((torch.float32, torch.float64), ("cpu", "torch")):
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            found = module.f(torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)).item()
            assert found == pytest.approx(torch.tensor(expected, dtype=dtype).item(), rel=8 * torch.finfo(dtype).eps)


OF_THREE = """
@op
def decay(x, y, z):
    return exp(-sqrt(x**2 + y**2 + z**2))

@op
def share(x, y, z):
    return sqrt(x**2 + y**2)/sqrt(x**2 + y**2 + z**2)

@op
def above(x, y, z):
    return sqrt(x**2 + y**2 + z**2) - z
"""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_norms_of_three_at_zero_and_at_infinity(dtype: torch.dtype, of_three: ModuleType) -> None:
    def at(function: Callable[..., torch.Tensor], *numbers: float) -> tuple[float, list[float]]:
        inputs = [torch.tensor(number, dtype=dtype, requires_grad=True) for number in numbers]
        value = function(*inputs)
        return value.item(), [slope.item() for slope in torch.autograd.grad(value, inputs)]

    assert at(of_three.decay, 0, 0, 0) == (1, [0, 0, 0])
    assert at(of_three.share, 1, math.inf, 2) == (1, [0, 0, 0])
    assert at(of_three.above, 1, 2, math.inf) == (0, [0, 0, 0])


@pytest.fixture(scope="module")
def of_three(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build(OF_THREE, tmp_path_factory.mktemp("three"))[0]
