"""What is generated: its cost, its text, and the gradients at kinks that are none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from building import build

from gradgen import generate
from gradgen.build import templates_dir

NESTED = """
from sympy import exp, sin
from gradgen import op

@op
def nested(x):
    for _ in range({}):
        x = sin(x * exp(-x)) + x
    return x
"""


def nested(levels: int, folder: Path) -> str:
    spec = folder / "nested.py"
    spec.write_text(NESTED.format(levels))
    return generate.module(spec, templates_dir())


def test_the_docstring_has_the_formula_with_what_it_is_made_of(tmp_path: Path) -> None:
    module, _ = build('@op\ndef f(x):\n    """F."""\n    s = exp(-x)\n    return s/(1 + s)\n', tmp_path)
    assert "\n\n    s = exp(-x)\n    return s/(1 + s)\n\n" in str(module.__doc__)
    module, _ = build('@op\ndef f(x):\n    """F."""\n    return exp(-x)/(1 + exp(-x))\n', tmp_path)
    assert "\n\n    exp(-x)/(1 + exp(-x))\n\n" in str(module.__doc__)


def test_the_docstring_names_a_function_where_a_kernel_multiplies_by_it_in_one_step(tmp_path: Path) -> None:
    """mul_exp(y, t) beside exp(t) is y times what has a name already."""
    module, _ = build("@op\ndef f(x):\n    return x**2 / (1 + exp(-x))\n", tmp_path)
    text = str(module.__doc__).partition("Gradient")[2]
    assert "mul_exp(" in Path(module.__file__).read_text()
    assert text.count("exp(") == 1
    assert text.count("exp_neg_abs_x") > 2


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r'r"""V \nu \xi \u-shaped \N{x} """', r"V \nu \xi \u-shaped \N{x}"),
        ("r'''A \"\"\"smooth\"\"\" \\\\ gate.'''", r"A '''smooth''' \\ gate."),
        (r"'half \ud800 of a letter, \x00 and \f'", "half  of a letter,  and"),
    ],
    ids=["backslashes", "quotes", "no text"],
)
def test_documentation_says_what_the_user_wrote(written: str, shown: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    {written}\n    return x**2\n", tmp_path)
    for documented in (module, module.f, module.F):
        assert str(documented.__doc__).replace("  ", " ").startswith(shown.replace("  ", " "))


@pytest.mark.slow
@pytest.mark.usefixtures("first_order")
def test_cost_grows_linearly_with_nesting(tmp_path: Path) -> None:
    lengths = [len(nested(levels, tmp_path)) for levels in (5, 10, 20)]
    assert lengths[1] <= 2.3 * lengths[0]
    assert lengths[2] <= 2.3 * lengths[1]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("first_order")
def test_deep_formulas_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    text = nested(200, tmp_path)
    assert text.count("exp(-") >= 200


@pytest.mark.few(every_day=4, slow=20)
@pytest.mark.parametrize(
    ("formula", "at", "expected"),
    [
        ("Max(0, x) + Min(0, alpha*(exp(x/alpha) - 1))", 0.0, 1.0),  # CELU as its paper prints it
        ("Max(x, 0) - Max(-x, 0)", 0.0, 1.0),
        ("Max(x, 1) + Min(x, 1)", 1.0, 1.0),
        ("x*Abs(x)", 0.0, 0.0),
        ("Max(x, 0)**2", 0.0, 0.0),
        ("x/(1 + Abs(x))", 0.0, 1.0),  # softsign
        ("Max(x, 0) + log(1 + exp(-Abs(x)))", 0.0, 0.5),
        # Not differentiable: the conventions.
        ("Max(x, 0)", 0.0, 0.0),
        ("Abs(x)", 0.0, 0.0),
        ("sign(x)", 0.0, 0.0),
        ("Max(x, 0) + alpha*Min(x, 0)/2", 0.0, 0.0),
        ("Piecewise((x, x > 0), (3*x, True))", 0.0, 3.0),
        ("Min(Max(x, -1), 1)", 1.0, 0.0),
    ],
)
def test_derivative_at_a_kink(formula: str, at: float, expected: float, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x: Tensor, alpha: float = 1.5):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        x = torch.tensor([at, at - 0.5, at + 0.5], dtype=torch.float64, requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            (grad,) = torch.autograd.grad(module.f(x).sum(), x)
        assert grad[0].item() == expected


def test_two_inputs_meet_at_a_kink_that_is_none(tmp_path: Path) -> None:
    module, _ = build("@op\ndef f(x, y):\n    return Max(x - y, 0) - Max(y - x, 0)\n", tmp_path)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([1.0, 3.0], requires_grad=True)
    module.f(x, y).sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert y.grad.tolist() == [-1, -1]


@pytest.mark.few(every_day=1, slow=3)
@pytest.mark.parametrize(("new", "old", "gain"), [("lp", "lq", "a"), ("x", "q", "a"), ("new", "old", "adv")])
def test_branches_that_are_the_same_in_a_whole_region_count_once(new: str, old: str, gain: str, tmp_path: Path) -> None:
    """The clipped objective of PPO: within the bounds both arguments of the minimum are the same."""
    module, _ = build(
        f"""
        @op
        def f({new}: Tensor, {old}: Tensor(grad=False), {gain}: Tensor(grad=False), eps: float = 0.2):
            r = exp({new} - {old})
            return -Min(r*{gain}, Max(Min(r, 1 + eps), 1 - eps)*{gain})
        """,
        tmp_path,
    )
    x, y = (0.3 * torch.randn(500, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    weight = torch.linspace(-2, 2, 500, dtype=torch.float64)
    x[:10] = y[:10]
    x.requires_grad_()
    ratio = torch.exp(x - y)
    (expected,) = torch.autograd.grad(-torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight).sum(), x)
    (found,) = torch.autograd.grad(module.f(x, y, weight).sum(), x)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-15)


def test_branches_that_are_not_taken_never_touch(tmp_path: Path) -> None:
    module, _ = build(
        """
        @op
        def f(x):
            r = sqrt(x)
            return Piecewise((r, x > 1), (2*r, x > 0), (log(1 - x)*x, x > -1), (0, True))
        """,
        tmp_path,
    )
    for path in ("cpu", "torch"):
        x = torch.tensor([-5.0, -0.5, 0.25, 4.0], dtype=torch.float64, requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            (grad,) = torch.autograd.grad(module.f(x).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(grad.sum(), x)
        expected = [0.0, torch.log1p(torch.tensor(0.5).double()).item() + 0.5 / 1.5, 2.0, 0.25]
        torch.testing.assert_close(grad.detach(), torch.tensor(expected, dtype=torch.float64))
        assert torch.isfinite(second).all()


def test_the_users_names_are_kept(tmp_path: Path) -> None:
    spec = tmp_path / "named.py"
    spec.write_text(
        "from sympy import exp, tanh\nfrom gradgen import op\n\n@op\ndef f(x, y):\n"
        "    inner = exp(x) * y\n    return inner + tanh(inner)\n"
    )
    text = generate.module(spec, templates_dir())
    assert "const real inner = lift_exp(y, x);" in text
    assert "const real out = inner + tanh(inner);" in text


@pytest.mark.few(every_day=4, slow=17)
@pytest.mark.parametrize(
    "name",
    [
        "register",
        "I",
        "exp",
        "torch_",
        "out",
        "grad",
        "wanted",
        "output",
        "inputs",
        "grads",
        "needs",
        "like",
        "real",
        "y0",
        "n",
        "i",
        "lambda_",
    ],
)
def test_any_name_of_an_input_works(name: str, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f({name}, x):\n    return sin({name})*x\n", tmp_path)
    a = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([2.0, -1.0], dtype=torch.float64, requires_grad=True)
    with module.rt.record_paths() as taken:
        assert torch.autograd.gradcheck(module.f, (a, b))
    assert {path for _, path in taken} == {"cpu"}
    module.rt.force_path("torch")
    assert torch.autograd.gradgradcheck(module.f, (a, b))


@pytest.mark.parametrize(
    ("formula", "low", "high"),
    [
        ("x*Min(Max(x + 3, 0), 6)/6", 0.0, math.inf),  # hard swish
        ("x*Max(x, 0)", 0.0, math.inf),
        ("x**2*exp(-x**2)", 0.0, 0.0),
        ("x**3/(1 + exp(-x))", 0.0, math.inf),
        ("x*exp(-Abs(x))", 0.0, 0.0),
        ("sqrt(1 + x**2)", math.inf, math.inf),
        ("x/sqrt(1 + x**2)", -1.0, 1.0),
    ],
)
def test_infinities_give_the_limit(formula: str, low: float, high: float, tmp_path: Path) -> None:
    module, _ = build(f"@op\ndef f(x):\n    return {formula}\n", tmp_path)
    for path in ("cpu", "torch"):
        x = torch.tensor([-math.inf, math.inf, -1e30, 1e30], dtype=torch.float64, requires_grad=True)
        with module.rt.force_path("torch") if path == "torch" else module.rt.record_paths():
            y = module.f(x)
            (grad,) = torch.autograd.grad(y.sum(), x)
        assert y[:2].tolist() == [low, high]
        assert not grad.isnan().any()


def test_the_readme_shows_what_is_generated() -> None:
    root = Path(__file__).parents[1]
    blocks = (root / "README.md").read_text().split("```python\n")[1:]
    shown = [block.split("```")[0] for block in blocks if block.startswith("_SWISH")]
    assert shown
    assert all(text in (root / "generated" / "swish.py").read_text() for text in shown)
