"""Compensated arithmetic: the error that goes with each operation is the one it makes."""

from __future__ import annotations

import math
import random
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from building import build
from mpmath import mpf
from nodes import parsed

from generated import _runtime as rt
from generated.neuron import neuron
from gradgen.arithmetic import Arithmetic
from gradgen.choose import Choice
from gradgen.compensate import Compensation, has_marks, marked
from gradgen.differentiate import gradient
from gradgen.evaluate import values
from gradgen.few_digits import Own
from gradgen.graph import Graph, Node, inputs_of, topological
from gradgen.limits import limits
from gradgen.model import FORMATS, Program
from gradgen.primitives import PRIMITIVES
from gradgen.printed import printed_alone
from gradgen.quality import BAR, TARGET, instructions
from gradgen.references import References
from gradgen.standing import Problem

EXPRESSIONS = [
    "x + y", "x - y", "x*y", "x/y", "3*x", "x/3", "2*x/7", "pi*x", "x + pi", "x*y*(x + y)", "(x + y)/(x - y)",
    *(f"(x + y)**{power}" for power in (2, 3, 4, -1, -2, -3, -4)),
    "sqrt(x*x + y)", "1/sqrt(x*x + y)", "abs(x*y)", "x*y + where(gt(x, 1), x*y, x + y)",
    "maximum(x*y, 1)", "unit(x*y, x + y)", "damp(x, x*y)",
]  # fmt: skip
THROUGH_FUNCTIONS = ["exp({})", "sin({})", "log({})", "erfc({})"]
PRODUCTS = ["x*exp(-x)", "x*y*exp(-x*y)", "x*sigmoid(-x*y)", "x*sech(x*y)", "(x + y)*logistic_density(x*y)"]


def exact(root: Node, point: dict[str, float]) -> mpf:
    return values(topological([root]), {name: mpf(x) for name, x in point.items()})[root]


def points() -> list[dict[str, float]]:
    randoms = random.Random(0)
    return [{"x": randoms.uniform(0.5, 3), "y": randoms.uniform(0.5, 3)} for _ in range(40)]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_value_and_error_have_twice_the_digits(text: str) -> None:
    root = parsed(text)
    (whole,) = Compensation([marked(root)]).roots
    assert whole.op == "corrected" or text == "abs(x)"
    value, error = whole.args
    order = topological([whole])
    program = Program(order, FORMATS["float64"])
    plain = 0.0
    with mpmath.workdps(80):
        for point in points():
            values = dict(zip(order, program.at(point), strict=True))
            right = exact(root, point)
            plain = max(plain, float(abs(mpf(values[value]) - right) / abs(right)))
            both = mpf(values[value]) + mpf(values[error])
            assert abs(both - right) <= mpf(2) ** -96 * max(abs(right), 1), point
    assert plain > 2**-56  # there was something to correct


@pytest.mark.parametrize("text", [f.format("x*y/3") for f in THROUGH_FUNCTIONS] + PRODUCTS)
def test_what_is_left_is_the_error_of_the_functions(text: str) -> None:
    """The rounding of their arguments is made up for."""
    root = parsed(text)
    (whole,) = Compensation(limits([marked(root)])).roots
    order = topological([whole])
    program = Program(order, FORMATS["float32"])
    value = whole.args[0]
    worst_plain = worst = 0.0
    with mpmath.workdps(60):
        for turn, point in enumerate(points()):
            point = {name: FORMATS["float32"].rounded(x) for name, x in point.items()}
            values = dict(zip(order, (float(row[0]) for row in program([point], turn)), strict=True))
            right = exact(root, point)
            unit = abs(right) * mpf(2) ** -24
            worst_plain = max(worst_plain, float(abs(values[value] - right) / unit))
            worst = max(worst, float(abs(values[whole] - right) / unit))
    functions = sum(PRIMITIVES[node.op].ulps for node in topological([root]) if node.op in _FUNCTIONS)
    assert worst <= 2 * functions + 1.5
    assert worst < worst_plain


_FUNCTIONS = frozenset({"exp", "sin", "log", "sigmoid", "erfc", "sech", "logistic_density"})


def test_an_error_that_is_no_number_is_left_out() -> None:
    root = parsed("x*y + x")
    (whole,) = Compensation([marked(root)]).roots
    program = Program(topological([whole]), FORMATS["float64"])
    assert program.at({"x": 1e200, "y": 1e200})[-1] == math.inf
    assert program.at({"x": math.inf, "y": 2.0})[-1] == math.inf
    assert math.isnan(program.at({"x": math.nan, "y": 2.0})[-1])


def test_a_factor_that_is_zero_leaves_the_correction_of_the_rest() -> None:
    """The slope of x*y*exp(-x) by x*y is 0/0 where x is 0."""
    root = parsed("mul_exp(x*y, -x) + y*y")
    (whole,) = Compensation([marked(root)]).roots
    order = topological([whole])
    found = dict(zip(order, Program(order, FORMATS["float64"]).at({"x": 0.0, "y": 0.1}), strict=True))
    with mpmath.workdps(60):
        left = mpf(0.1) ** 2 - mpf(found[whole.args[0]])
    assert left
    assert found[whole.args[1]] == pytest.approx(float(left), rel=1e-6, abs=0)


def test_an_argument_that_is_off_by_periods_is_not_corrected() -> None:
    """No digit of sin(x*y) is right there, but it is no number beyond 1 either."""
    (whole,) = Compensation([marked(parsed("sin(x*y)"))]).roots
    point = {"x": 1.1e200, "y": 1.3}
    assert abs(Program(topological([whole]), FORMATS["float64"]).at(point)[-1]) <= 1


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_a_sum_of_which_no_digit_is_left_is_not_corrected(path: str) -> None:
    """sigmoid(w0*x0 + w1*x1 + w2) was 2.7, and -1194, where the products cancel but for what rounding took of them."""
    generator = torch.Generator().manual_seed(0)
    w0, x0, x1 = (10 ** (6 + 5 * torch.rand(20_000, generator=generator, dtype=torch.float64)) for _ in range(3))
    w1 = -w0 * x0 / x1
    columns = [x.requires_grad_() for x in (w0, x0, w1, x1, torch.full_like(w0, 0.3))]
    with rt.force_path("torch") if path == "torch" else nullcontext():
        out = neuron(*columns)
        (slope,) = torch.autograd.grad(out.sum(), columns[-1])
    assert ((out >= 0) & (out <= 1)).all()
    assert ((slope >= 0) & (slope <= 0.5)).all()  # of which a correction may be as much as the rest


def test_roundings_that_add_up_in_few_tuples_are_seen() -> None:
    """Of the hundreds of points that forms are chosen by none shows them."""
    names, graph = [*"abcde"], Graph()
    a, b, c, d, e = map(graph.input, names)
    node = graph.apply("logistic_density", a * b + c * d + e)
    references = References([node], names, {})
    (before,) = references.measured([node], [0], near=True)
    references.look_densely()
    (after,) = references.measured([node], [0], near=True)
    assert before.double.error < after.double.error
    choice = Choice(Problem([node], [], names, {}))
    assert has_marks([choice.form(node)])
    assert choice.quality(node).double.error <= BAR


def test_what_is_not_marked_stays_as_it_is() -> None:
    root = parsed("x*y + x")
    assert Compensation([root]).roots == [root]


CANCELS = """
from gradgen import Tensor, op

@op
def f(x: Tensor, y: Tensor):
    return x**3 - 3*x**2*y + 3*x*y**2 - y**3 + x
"""


@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_generated_texts(tmp_path: Path, path: str, dtype: torch.dtype) -> None:
    """The error-free transformations as C and torch compute them, in a kernel with sums, products and constants."""
    module, _ = build(CANCELS, tmp_path)
    text = Path(module.__file__).read_text()
    assert "in compensated arithmetic" in text
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(500, generator=generator, dtype=torch.float64).to(dtype) + 1
    x = (y * (1 + 1e-3 * torch.rand(500, generator=generator, dtype=torch.float64).to(dtype))).to(dtype)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        found = module.f(x, y)
    for a, b, result in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
        with mpmath.workdps(60):
            right = (mpf(a) - mpf(b)) ** 3 + a
            assert abs(result - right) <= 1.01 * abs(right) * mpf(2) ** -(24 if dtype is torch.float32 else 53)


def test_types_that_need_no_corrections_are_computed_without(tmp_path: Path) -> None:
    """float32 and bfloat16 in float64 arithmetic have no use for them; float16 has, where no digit would be left."""
    module, _ = build(CANCELS, tmp_path)
    kernel = module._F
    plain = {dtype: "GG_PLAIN = 1" in kernel.cpu_source(dtype) for dtype in module.rt._FORMATS}
    assert not plain[torch.float64]
    assert plain[torch.bfloat16]
    assert not plain[torch.float16]
    assert plain[torch.float32] == (torch.float32 in kernel.plain)
    assert {*kernel.wide} <= {*kernel.plain}


def test_half_types_go_without() -> None:
    """What is stored with few digits has no use for corrections of a few units."""
    node = parsed("exp(x)*sin(y)*tanh(x)*erf(y)")
    choice = Choice(Problem([node], [], ["x", "y"], {}))
    assert "extended" in {below.op for below in topological([choice.form(node)])}
    found = choice.arithmetic([node])
    assert found.wide == ("float32",)
    assert found.uncorrected == ("float32", "bfloat16", "float16")
    assert choice.arithmetic([parsed("x*y")]) == Arithmetic()


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("(x + y)*(1 + erf((x + y)/sqrt(2)))/2", ()),
        ("exp(x)*sin(y)*tanh(x)*erf(y)", ("float32",)),  # whose functions would be computed twice
    ],
)
def test_few_corrections_are_cheaper_than_float64(text: str, wide: tuple[str, ...]) -> None:
    node = parsed(text)
    choice = Choice(Problem([node], [], ["x", "y"], {}))
    found = choice.arithmetic([node])
    assert found.wide == wide
    assert has_marks([choice.form(node)])
    assert ("float32" in found.uncorrected) == bool(wide)


def test_float64_arithmetic_needs_few_bits_of_functions_unless_their_errors_grow() -> None:
    """What does not cancel multiplies them by little, however much of it overflows in float32."""
    node = parsed("exp(x)*(1 + x*y)")
    found = Choice(Problem([node], [], ["x", "y"], {})).arithmetic([node])
    assert found.wide == found.brief == ("float32", "bfloat16")
    assert found.moderate == (("float32", 40), ("bfloat16", 40))  # where nothing is so large that a product overflows
    node = parsed("loggamma(x + 0.5) - loggamma(x)")
    found = Choice(Problem([node], [], ["x"], {})).arithmetic([node])
    assert found.wide == ("float32",)
    assert found.brief == found.moderate == ()


def test_float64_arithmetic_keeps_corrections_where_its_digits_do_not_do() -> None:
    """Terms that cancel as far as this for large x leave float32 no digit of what float64 knows."""
    node = parsed("x*y/sqrt(1 + x**2)**3 - y/(1 + x**2) + x*y*z/(1 + x**2)")
    choice = Choice(Problem([node], [], ["x", "y", "z"], {}))
    quality, found = choice.quality(node), choice.arithmetic([node])
    assert quality.precise.error <= BAR < quality.wide.error
    assert "float32" in found.wide
    assert "float32" not in found.uncorrected
    assert not found.brief


@pytest.mark.parametrize(
    "text",
    [
        "(x - y - (z - k) - 1/3)**2",
        "(x - y - (z - k) - 1/3)**4",
        "Max(x - y - (z - k) - 1/3, 0)**2",
        "Abs(y - 1/(1 + exp(-x)))**2",
    ],
)
def test_a_square_is_not_negative_where_its_root_is_what_rounding_takes(text: str, tmp_path: Path) -> None:
    inputs = [name for name in "xyzk" if name in text.replace("exp", "")]
    source = f"@op\ndef f({', '.join(f'{name}: Tensor' for name in inputs)}):\n    return {text}\n"
    module, _ = build(source, tmp_path)
    generator = torch.Generator().manual_seed(0)
    x, y, z = torch.randn(3, 100_000, dtype=torch.float64, generator=generator)
    given = (x, torch.sigmoid(x)) if len(inputs) == 2 else (x, y, z, z - (x - y) + 1 / 3)
    assert (module.f(*given) >= 0).all()


# Types of few digits


def own_of(choice: Choice, node: Node) -> dict[str, Own]:
    """What each type has for forms of its own."""
    every = choice.of_few_digits([node], choice.arithmetic([node]))
    return {dtype: own for own in every for dtype in own.types}


def with_slope(text: str) -> tuple[Choice, Node, Node]:
    """How a formula in x is computed, and its derivative; with both."""
    value = parsed(text)
    x = value.graph.input("x")
    (slope,) = gradient(value, [x])
    return Choice(Problem([value, slope], [], ["x"], {}, {slope: (value, x)})), value, slope


def test_types_of_16_bits_have_a_form_of_their_own_where_it_takes_fewer_instructions() -> None:
    """The gradient is a selection between fractions of an exponential, for all digits of float32."""
    choice, value, slope = with_slope("x**2*sigmoid(x)")
    assert not own_of(choice, value)
    own = own_of(choice, slope)["bfloat16"]
    form, other = choice.own_form(own, slope), choice.form(slope)
    assert instructions([form]) < 0.7 * instructions([other])
    assert "where" in {below.op for below in topological([other])}
    assert "where" not in {below.op for below in topological([form])}
    (quality,) = References([value, slope], ["x"], {}).measured([form], [1], near=True)
    assert TARGET < quality.single.error < 2**7


def test_kernels_of_16_bits_need_no_float64(tmp_path: Path) -> None:
    """GELU of a sum would overflow in float32 as the error function has it, as the normal distribution has it not."""
    text = "@op\ndef f(x: Tensor, y: Tensor):\n    u = x + y\n    return u * (1 + erf(u / sqrt(2))) / 2\n"
    module, _ = build(text, tmp_path)
    assert "mul_ndtr" in module._F.code
    assert module._F.real(torch.bfloat16) == "float"
    assert torch.bfloat16 not in module._F.wide
    assert torch.bfloat16 not in module._F.moderate


def test_what_torch_computes_may_need_it_as_before(tmp_path: Path) -> None:
    """There the form of all digits is taken, of the largest numbers a difference of what overflows."""
    text = "@op\ndef f(x: Tensor, y: Tensor, k: float = 2.0):\n    return exp(k*x)/(exp(k*x) + exp(k*y))\n"
    module, _ = build(text, tmp_path)
    assert module._F.narrow.forms
    largest = torch.tensor(torch.finfo(torch.bfloat16).max, dtype=torch.bfloat16)
    assert module.f(largest, largest) == 0.5
    with module.rt.force_path("torch"):
        assert module.f(largest, largest) == 0.5


def test_no_form_does_where_all_are_no_numbers_somewhere() -> None:
    choice = Choice(Problem([node := parsed("exp(x)*(1 + x*y)")], [], ["x", "y"], {}))
    assert not own_of(choice, node)


CUBE_GATE = """
@op
def f(x: Tensor, k: float = 1.0):
    return x**3 / (1 + exp(-k * x))
"""


@pytest.mark.parametrize("beta", [0.0, 1e-3, 1.0, 1e30])
def test_forms_of_16_bits_are_for_the_defaults(beta: float, tmp_path: Path) -> None:
    """At which they were looked at: with a large beta a product of theirs underflows."""
    module, _ = build(CUBE_GATE, tmp_path)
    kernel = module.FFunction.backward_kernel
    assert {*kernel.narrow.forms} == {torch.bfloat16, torch.float16, torch.float32}
    assert not kernel.forms
    x = torch.tensor([-5.8125, 1e20, 0.5, -3.9e-29, 2e-31], dtype=torch.bfloat16, requires_grad=True)
    double = x.detach().double().requires_grad_()
    (slope,) = torch.autograd.grad(module.f(x, beta).sum(), x)
    (expected,) = torch.autograd.grad(module.f(double, beta).sum(), double)
    torch.testing.assert_close(slope, expected.to(torch.bfloat16), rtol=2.0**-7, atol=0)


def test_what_is_generated_has_them(tmp_path: Path) -> None:
    module, _ = build(CUBE_GATE, tmp_path)
    kernel = module._F_BACKWARD
    assert "?" in kernel.code
    assert kernel.wide == (torch.float32,)
    assert len({form.code for form in kernel.narrow.forms.values()}) == 2
    for dtype, form in kernel.narrow.forms.items():
        assert form.wide == (dtype is torch.float32)
        assert "?" not in form.code or form.wide
    assert not module._F.forms


def test_what_overflows_in_float64_alone_does_for_float32_in_its_arithmetic() -> None:
    """The square of a sum; float64 has it relative to the sum, by two more divisions."""
    node = parsed("(x + sigmoid(y))/(sigmoid(x) + (x + y)**2)")
    choice = Choice(Problem([node], [], ["x", "y"], {}))
    own = own_of(choice, node)["float32"]
    assert own.is_wide
    assert own.is_brief
    assert own.error is not None
    assert own.error.error < 0.51
    assert "maximum" in {below.op for below in topological([choice.form(node)])}
    assert "maximum" not in {below.op for below in topological([choice.own_form(own, node)])}


@pytest.mark.parametrize(
    "text",
    [
        "tanh(x) - x",  # of the form as it is no digit is left near 0, in float64 either
        "exp(x*y)/(exp(x*y) + exp(z*y))",  # overflows for ordinary float32 numbers, whatever computes it
    ],
)
def test_what_float64_arithmetic_loses_is_no_form_of_float32(text: str) -> None:
    node = parsed(text)
    tensors = sorted(inputs_of([node]))
    choice = Choice(Problem([node], [], tensors, {}))
    found = own_of(choice, node).get("float32")
    assert found is None or choice.own_form(found, node) is not node


def test_what_no_vector_has_is_no_form_of_float32() -> None:
    """The derivative as it was written, the product of a product with a function of the same argument."""
    choice, _, slope = with_slope("x*tanh(exp(x))")
    products = [node for node in topological([printed_alone(slope)]) if node.op == "mul_sech"]
    assert any(below.op == "mul_sech" for product in products for below in topological(product.args))
    assert "float32" in choice.arithmetic([slope]).wide
    assert "float32" not in own_of(choice, slope)


def test_forms_of_float32_are_right_at_very_many_tuples(tmp_path: Path) -> None:
    """By float64, in mixed units of float32."""
    text = "@op\ndef f(x: Tensor, y: Tensor):\n    return (x + 1/(1 + exp(-y)))/(1/(1 + exp(-x)) + (x + y)**2)\n"
    module, _ = build(text, tmp_path)
    assert [*module._F.forms] == [torch.float32]
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (2, 200_000), generator=generator).to(torch.int32).view(torch.float32)
    near = torch.randn(2, 200_000, generator=generator) * torch.tensor([1.0, 30.0]).repeat(100_000)
    near[1, ::3] = -near[0, ::3]
    x, y = torch.cat(
        [bits, near, torch.cartesian_prod(*[torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan])] * 2).T], 1
    )
    doubles = [t.double().requires_grad_() for t in (x, y)]
    exact = module.f(*doubles)
    slopes = torch.autograd.grad(exact.sum(), doubles)
    scale = torch.stack([(t * slope).abs() for t, slope in zip(doubles, slopes, strict=True)]).nan_to_num().amax(0)
    unit = torch.maximum(exact.abs(), scale).detach().clamp(2.0**-126, 2.0**127).log2().floor().sub(23).exp2()
    found, expected = module.f(x, y).double(), exact.float().double()
    assert torch.equal(found.isnan(), expected.isnan())
    is_number = expected.isfinite()
    assert torch.equal(found[~is_number & ~expected.isnan()], expected[~is_number & ~expected.isnan()])
    assert ((found - exact).abs() / unit)[is_number].max() <= 0.6


# Where hyper-parameters have their defaults

GATE = """
@op
def f(x: Tensor, k: float = 1.0):
    return x / (1 + exp(-k * x))
"""


def errors(found: torch.Tensor, x: torch.Tensor, k: float) -> torch.Tensor:
    """Of float32 results against float64, in units in the last place of the results."""
    exact = x.double() * torch.sigmoid(k * x.double())
    return (found.double() - exact).abs() / torch.exp2(torch.floor(torch.log2(exact.abs())) - 23)


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_a_gate_is_computed_in_float32_at_its_default_alone(tmp_path: Path, path: str) -> None:
    """There k*x is not rounded; float64 is twice as slow."""
    module, _ = build(GATE, tmp_path)
    kernel = module._F
    assert "float32 is computed in float64 unless k is 1.0" in module.__doc__
    assert "typedef double real" in kernel.cpu_source(torch.float32)
    assert "typedef float real" in kernel.narrow.cpu_source(torch.float32)
    assert "GG_PLAIN = 1" in kernel.narrow.cpu_source(torch.float32)
    assert "GG_PLAIN = 1" in kernel.narrow.cpu_source(torch.float64)
    assert "GG_PLAIN = 1" not in kernel.cpu_source(torch.float64)
    x = torch.linspace(-3, 3, 20_001).sub(1e-5)
    with module.rt.force_path("torch") if path == "torch" else nullcontext():
        for _ in range(2):  # when it is compiled, and by the quick way
            for one in (1.0, 1, np.float64(1.0)):
                assert 0.6 < errors(module.f(x, one), x, 1.0).max() <= 4
            assert errors(module.f(x), x, 1.0).max() > 0.6
            assert errors(module.f(x, 0.9523), x, 0.9523).max() <= 0.6
            assert errors(module.f(x, 0.999999), x, 0.999999).max() <= 0.6


def test_what_is_no_number_is_no_default(tmp_path: Path) -> None:
    module, _ = build(GATE, tmp_path)
    x = torch.ones(3)
    module.f(x)
    for wrong in (torch.ones(3), "1.0", None, [1.0]):
        with pytest.raises(TypeError, match="k"):
            module.f(x, wrong)


def test_sharpened_nodes_correct_arguments_alone() -> None:
    root = parsed("x*exp(x*y) + y")
    (whole,) = Compensation([marked(root, "sharpened")]).roots
    order = topological([whole])
    (product,) = [node.args for node in order if node.op == "product_error"]
    assert {str(node.value) for node in product[:2]} == {"x", "y"}
    assert "sum_error" not in {node.op for node in order}
    point = {"x": 1.0 + 2.0**-30, "y": 37.3 + 2.0**-40}
    with mpmath.workdps(60):
        exact = mpf(point["x"]) * mpmath.exp(mpf(point["x"]) * mpf(point["y"])) + mpf(point["y"])
        plain = Program(topological([root]), FORMATS["float64"]).at(point)[-1]
        sharp = Program(order, FORMATS["float64"]).at(point)[-1]
        assert abs(sharp - exact) < abs(plain - exact) / 4
        assert abs(sharp - exact) < abs(exact) * mpf(2) ** -51


def test_extended_nodes_correct_functions_too() -> None:
    root = parsed("tanh(x*y)*log(x) - exp(-y)")
    point = {"x": 1.0 + 2.0**-30, "y": 3.3 + 2.0**-40}
    with mpmath.workdps(60):
        right = exact(root, point)
        found = {}
        for mark in ("compensated", "extended"):
            order = topological(Compensation([marked(root, mark)]).roots)
            values = dict(zip(order, Program(order, FORMATS["float64"]).at(point), strict=True))
            value, error = order[-1].args
            found[mark] = abs(mpf(values[value]) + mpf(values[error]) - right)
        assert found["extended"] < abs(right) * mpf(2) ** -70
        assert found["compensated"] > abs(right) * mpf(2) ** -56


def test_of_moderate_inputs_float32_needs_no_float64() -> None:
    """Exponentials of what is larger vanish, beside values that make up for them."""
    moderate = Arithmetic(("float32",), ("float32",), (("float32", 6),))
    for text, expected in (("y*x*sigmoid(x)", moderate), ("y*x*tanh(x)", replace(moderate, moderate=()))):
        value = parsed(text)
        (slope,) = gradient(value, [value.graph.input("x")])
        choice = Choice(Problem([value, slope], [], ["x", "y"], {}))
        assert not has_marks([choice.form(value), choice.form(slope)])
        assert choice.arithmetic([value]).moderate
        assert choice.arithmetic([slope] if text.endswith("tanh(x)") else [value, slope]) == expected


def test_float_does_for_no_input_of_which_an_exponential_overflows_on_the_way(tmp_path: Path) -> None:
    """x*exp(y) is infinite where x*exp(y)*sigmoid(x) is a number: for elements of a size that makes none so."""
    module, _ = build("@op\ndef f(x: Tensor, y: Tensor):\n    return exp(y)*x/(1 + exp(-x))\n", tmp_path)
    assert all(most < 2.0**7 for most in module._F.moderate.values())
    y = torch.linspace(80, 89, 2000, dtype=torch.float64).float()
    x = torch.tensor([0.98886, 2.0, -0.5, 0.01]).repeat(500)
    exact = y.double().exp() * x.double() * x.double().sigmoid()
    torch.testing.assert_close(module.f(x, y).double(), exact.float().double(), rtol=2e-5, atol=0)


GATED = """
from sympy import exp
from gradgen import Tensor, op

@op
def gated(gate: Tensor, value: Tensor):
    return gate/(1 + exp(-gate))*value
"""


def test_a_module_says_for_which_inputs_float64_is(tmp_path: Path) -> None:
    module, _ = build(GATED, tmp_path)
    assert "float32 is computed in float64 where the size of an input is below 2**-40 or above 2**6\n" in module.__doc__
    gate, value = torch.randn(2, 1000).mul(20).unbind()
    found = module.gated(gate, value)
    torch.testing.assert_close(found, torch.nn.functional.silu(gate.double()).mul(value).float(), rtol=1e-6, atol=0)


def test_other_forms_are_for_what_is_off_where_nothing_is_extreme(tmp_path: Path) -> None:
    """The quotient overflows at some inputs; a form in which it does not has fewer digits, and none at 0."""
    text = "x*log(x/y) - x + y"
    module, _ = build(f"@op\ndef f(x: Tensor, y: Tensor):\n    return {text}\n", tmp_path)
    assert module.f(torch.tensor(1.0).double(), torch.tensor(0.0).double()) == math.inf
    randoms = random.Random(0)
    for _ in range(200):
        x = randoms.uniform(0.1, 9)
        y = x * randoms.uniform(0.99, 1.01)
        with mpmath.workprec(200):
            expected = mpf(x) * mpmath.log(mpf(x) / mpf(y)) - mpf(x) + mpf(y)
            found = module.f(*(torch.tensor(number, dtype=torch.float64) for number in (x, y))).item()
            assert abs(found - expected) <= 2.0**-52 * expected


def test_a_quotient_stays_one_beside_its_error() -> None:
    """As the product with a reciprocal that the error reads too it was infinite."""
    root = parsed("(x*y)/(x*z)")
    order = topological(Compensation([marked(root)]).roots)
    assert Program(order, FORMATS["float64"]).at({"x": 2.0**-530, "y": 2.0**-500, "z": 2.0**-530})[-1] == 2.0**30


@pytest.mark.parametrize("power", [-3, -4])
def test_a_product_with_a_negative_power_is_divided_as_often(power: int) -> None:
    """The power vanishes alone."""
    order = topological(Compensation([marked(parsed(f"x*(y + z)**({power})"))]).roots)
    point = {"x": 1.7 * 2.0**1000, "y": 1.1 * 2.0**400, "z": 1.3 * 2.0**360}
    found = Program(order, FORMATS["float64"]).at(point)[-1]
    with mpmath.workdps(50):
        right = mpf(point["x"]) * (mpf(point["y"]) + mpf(point["z"])) ** power
        assert found == float(right)


@pytest.mark.parametrize(("beta", "is_plain"), [(1.0, True), (1.3, False)])
def test_float64_has_no_corrections_where_a_hyper_parameter_rounds_nothing(
    beta: float, is_plain: bool, tmp_path: Path
) -> None:
    """beta * x is x for a beta of 1, by default or not; its errors are looked for at the default."""
    spec = f"@op\ndef swish(x: Tensor, beta: float = {beta}):\n    return x / (1 + exp(-beta * x))\n"
    module, _ = build(spec, tmp_path)
    kernel = module._SWISH
    assert "corrected" in kernel.code
    assert torch.float64 not in kernel.plain
    assert (kernel.narrow is not None and torch.float64 in kernel.narrow.plain) == is_plain
