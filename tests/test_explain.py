"""What `gradgen explain` says: every rewrite is a rule and an identity, every count is that of a hand count."""

from __future__ import annotations

import functools
import itertools
import random
import re
import subprocess
import sys
from pathlib import Path

import click.testing
import mpmath
import pytest
from mpmath import mpf

from gradgen.cli import main
from gradgen.evaluate import values
from gradgen.explain import Explanation, Rewrite, _rewrites, explain, operations_of
from gradgen.graph import Graph, Node, topological
from gradgen.printers.latex import LatexPrinter, symbol
from gradgen.rewrite import recorded, rewrite
from gradgen.rules import RULES

FORMULAS = Path(__file__).parents[1] / "formulas"
OPS = {
    "swish": "swish",
    "mish": "mish",
    "gelu": "gelu",
    "gelu_tanh": "gelu",
    "huber": "losses",
    "tanh_exp": "losses",
    "bce_with_logits": "losses",
    "polar_to_cartesian": "polar",
    "binarize": "binarize",
    "square": "square",
    "exp": "exp",
}


@functools.cache
def explained(name: str) -> Explanation:
    (explanation,) = explain(FORMULAS / f"{OPS[name]}.py", name)
    return explanation


def command(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["explain", *arguments])


def evaluate(root: Node, point: dict[str, mpf]) -> object:
    return values(topological([root]), point)[root]


def rewrites(explanation: Explanation) -> list[Rewrite]:
    return [*explanation.value, *explanation.derivative, *explanation.second]


@pytest.mark.few(every_day=3, slow=11)
class TestRewrites:
    @pytest.mark.parametrize("name", OPS)
    def test_are_rules_and_identities(self, name: str) -> None:
        randoms = random.Random(0)
        for item in rewrites(explained(name)):
            step = item.step
            assert step.rule in RULES
            inputs = {str(n.value) for n in topological([step.before, step.after]) if n.op == "input"}
            compared = 0
            with mpmath.workdps(50):
                for _ in range(8):
                    point = {name: mpf(randoms.uniform(0.1, 2)) for name in sorted(inputs)}
                    before, after = evaluate(step.before, point), evaluate(step.after, point)
                    if not mpmath.isnan(before):
                        assert mpmath.almosteq(before, after, rel_eps=mpf(10) ** -40), item.text
                        compared += 1
            assert compared >= 4, item.text

    @pytest.mark.parametrize(
        ("name", "before", "after", "pattern"),
        [
            ("swish", "1 / (1 + exp(-beta * x))", "sigmoid(beta * x)", "1/(a + b*exp(u))"),
            ("mish", "log(1 + exp(x))", "softplus(x)", "log(a + b*exp(u))"),
            ("tanh_exp", "sinh(x) * sech(x)", "tanh(x)", "sinh(u)*sech(u)"),
            ("bce_with_logits", "log(sigmoid(-x))", "-softplus(x)", "log(sigmoid(u))"),
        ],
    )
    def test_of_the_value(self, name: str, before: str, after: str, pattern: str) -> None:
        found = [(r.before, r.after, r.step.rule.pattern) for r in explained(name).value]
        assert (before, after, pattern) in found

    def test_of_the_derivatives_are_listed_apart(self) -> None:
        explanation = explained("bce_with_logits")
        assert [(r.before, r.after) for r in explanation.derivative] == [("softplus(-x) - softplus(x)", "-x")]

    @pytest.mark.parametrize("name", OPS)
    def test_are_listed_once(self, name: str) -> None:
        texts = [item.text for item in rewrites(explained(name))]
        assert len(texts) == len(set(texts))

    def test_of_long_expressions_name_their_parts(self, tmp_path: Path) -> None:
        spec = tmp_path / "long.py"
        spec.write_text(
            "from sympy import exp, sin\nfrom gradgen import Tensor, op\n\n"
            "@op\ndef f(x: Tensor(grad=False), t1: Tensor(grad=False)):\n"
            "    u = x + 3*sin(x + 2*t1) + sin(t1 + 5*x)*sin(7*t1)\n    return exp(u) - exp(-u)\n"
        )
        (explanation,) = explain(spec)
        part = "t2 = x + 3 * sin(x + 2 * t1) + sin(t1 + 5 * x) * sin(7 * t1)"  # t1 is an input
        assert [(r.before, r.after, r.parts) for r in explanation.value] == [
            ("exp(t2) - exp(-t2)", "2 * sinh(t2)", (part,))
        ]

    def test_of_deep_expressions_stay_short(self) -> None:
        graph = Graph()
        u = graph.input("x")
        for _ in range(50):
            u = u * graph.apply("sin", 3 + 2 * u) + u**2
        with recorded() as steps:
            rewrite([graph.apply("exp", u) - graph.apply("exp", -u)])
        (item,) = _rewrites(steps)
        assert (item.before, item.after, len(item.parts)) == ("exp(t50) - exp(-t50)", "2 * sinh(t50)", 4)
        assert len(item.text) < 300


class TestDerivatives:
    @pytest.mark.parametrize(
        ("name", "lines"),
        [
            ("square", ["d square/d x = 2 * x"]),
            ("exp", ["d exp/d x = exp(x)"]),
            ("mish", ["d mish/d x = tanh(softplus(x)) + x * sech(softplus(x))**2 * sigmoid(x)"]),
            ("binarize", ["d binarize/d x = 1 if abs(x) <= 1 else 0"]),
            ("huber", ["d huber/d prediction = error if abs(error) <= delta else delta * sign(error)"]),
            ("polar_to_cartesian", ["d x/d r = cos(theta)", "d y/d r = sin(theta)", "d x/d theta = -y"]),
        ],
    )
    def test_are_in_their_sound_form(self, name: str, lines: list[str]) -> None:
        shown = [line.strip() for line, _ in explained(name).lines()]
        assert set(lines) <= set(shown)

    def test_of_the_users_own_are_shown_as_typed(self) -> None:
        assert explained("binarize").derivatives_written == {"x": "return Piecewise((1, Abs(x) <= 1), (0, True))"}

    def test_the_formula_is_shown_as_typed(self) -> None:
        assert explained("huber").written.startswith("error = prediction - target\nreturn Piecewise((error**2 / 2")
        assert explained("square").written == "square = x**2"


class TestCost:
    def test_matches_a_hand_count(self) -> None:
        assert operations_of(explained("gelu").kernels["forward"]) == {"multiplication": 1, "ndtr": 1}
        square = explained("square").kernels
        assert operations_of(square["forward"]) == {"multiplication": 1}
        assert operations_of(square["backward"]) == {"multiplication": 2}  # grad * (2 * x)
        # error = prediction - target; error * error * 0.5 or delta * (|error| - 0.5 * delta)
        huber = {"addition": 2, "multiplication": 4, "comparison": 1, "selection": 1, "abs": 1}
        assert operations_of(explained("huber").kernels["forward"]) == huber

    def test_counts_no_signs_and_no_casts(self) -> None:
        # softplus(-|x|) plus (1 - y) * x or -y * x, whichever way the signs are put
        forward = operations_of(explained("bce_with_logits").kernels["forward"])
        assert forward == {
            "addition": 2, "multiplication": 2, "softplus": 1, "abs": 1, "comparison": 1, "selection": 1
        }  # fmt: skip

    def test_tells_what_is_read_and_written(self) -> None:
        assert explained("swish").memory("backward") == (["grad", "x"], ["grad_x"])
        assert explained("exp").memory("backward") == (["grad", "out"], ["grad_x"])
        lines = [" ".join(line.split()) for line, _ in explained("swish").lines()]
        assert "backward grad, x -> grad_x 4 + 2 8 + 4 16 + 8" in lines

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("swish", ["x, input 2 4 8"]),
            ("exp", ["out, output 2 4 8"]),
            ("polar_to_cartesian", ["r, input, for the gradient of theta 2 4 8", "theta, input 2 4 8"]),
        ],
    )
    def test_tells_what_is_saved(self, name: str, expected: list[str]) -> None:
        lines = [" ".join(line.split()) for line, _ in explained(name).lines()]
        assert set(expected) <= set(lines)
        assert ("together 4 8 16" in lines) == (len(expected) > 1)


class TestForms:
    def told(self, explanation: Explanation, second: bool = False) -> dict[str, list[str]]:
        """The lines below each result of the table of errors."""
        lines = [line for line, _ in explanation.lines(second)]
        start = next(i for i, line in enumerate(lines) if line.startswith("Modelled worst errors in ULP")) + 2
        found: dict[str, list[str]] = {}
        for line in lines[start : lines.index("", start)]:
            if line.startswith(" " * 8):
                next(reversed(found.values())).append(line.strip())
            else:
                found[line.split()[0]] = []
        return found

    def test_tell_what_they_do_to_the_errors(self, tmp_path: Path) -> None:
        spec = tmp_path / "gated.py"
        spec.write_text("from sympy import *\nx = symbols('x')\nf = 1/(1 + exp(-x))/(1 + (x + 1)**2)\n")
        (explanation,) = explain(spec)
        reasons = self.told(explanation)
        number = r"([\d.]+(?:e\+\d+)?)"
        (compensated,) = [reason for reason in reasons["grad_x"] if "compensated" in reason]
        found = re.fullmatch(
            r"(.*)in compensated arithmetic: more exact, "
            rf"float32 {number} -> {number}, float64 {number} -> {number}",
            compensated,
        )
        assert found, compensated
        single_before, single, double_before, double = map(float, found.groups()[1:])
        (result,) = [result for result in explanation.operation.accuracy if result.name == "grad_x"]
        assert double == pytest.approx(result.double.error, rel=0.01)
        assert single_before > 4 > single
        assert double_before > 4 > double
        widened = rf"float32 in float64 arithmetic: more exact, float32 {re.escape(found[3])} -> 0\.(5|499)"
        assert re.fullmatch(widened, reasons["grad_x"][-1]), reasons["grad_x"][-1]

    def test_are_told_of_where_no_rule_always_serves(self, tmp_path: Path) -> None:
        spec = tmp_path / "chosen.py"
        spec.write_text("from sympy import *\nx = symbols('x')\nf = tan(x) - sin(x)\ng = x*cos(x)\n")
        told = {e.formula.name: [line.strip() for line, _ in e.lines()] for e in explain(spec)}
        found = {name: lines[lines.index("Rewrites of the value") + 1] for name, lines in told.items()}
        assert found == {"f": "none; other forms were chosen for their errors, see below", "g": "none"}

    def test_follow_one_another(self, tmp_path: Path) -> None:
        spec = tmp_path / "series.py"
        spec.write_text("from sympy import *\nx = symbols('x')\nf = (cosh(x) - 1)/x**2\n")
        (explanation,) = explain(spec)
        for result in explanation.operation.accuracy:
            assert len(result.forms) >= 3
            for one, other in itertools.pairwise(result.forms):
                assert one.after == other.before
        value = self.told(explanation)["out"]
        told = [reason.partition(":")[0] for reason in value]
        assert told.index("near x = 0 by its power series") < told.index("with limits at infinity")
        assert "the other is off there" in value[told.index("with limits at infinity")]
        assert "for ordinary numbers" in value[0]  # the worst error is infinite before and after

    def test_by_a_rule_tell_why(self, tmp_path: Path) -> None:
        spec = tmp_path / "rule.py"
        spec.write_text("from sympy import *\nx = symbols('x')\nf = sin(acos(x))\n")
        (explanation,) = explain(spec)
        (rule,) = [rule for rule in RULES if rule.pattern == "sin(acos(u))"]
        (reason,) = self.told(explanation)["out"]
        assert reason.startswith(f"by {rule.pattern} = {rule.replacement} ({rule.why}): more exact, ")

    def test_of_the_double_backward(self) -> None:
        swish = explained("swish")
        assert not any(name.startswith("grad_of") for name in self.told(swish))
        reasons = self.told(swish, second=True)
        assert list(reasons) == ["out", "grad_x", "grad_of_grad", "grad_of_x"]
        assert reasons["grad_of_grad"][0] == reasons["grad_x"][0]
        assert any("more exact" in reason for reason in reasons["grad_of_x"])
        lines = [line.strip() for line, _ in explained("exp").lines(second=True)]
        assert "no forms are looked for of second derivatives by a saved output" in lines


class TestLatex:
    @pytest.mark.parametrize("name", OPS)
    def test_is_balanced_and_mentions_each_input(self, name: str) -> None:
        explanation = explained(name)
        text = explanation.latex(second=True)
        depth = 0
        for sign in re.findall(r"(?<!\\)[{}]", text):
            depth += 1 if sign == "{" else -1
            assert depth >= 0
        assert depth == 0
        assert text.count("\\left") == text.count("\\right")
        opened: list[str] = []
        for kind, environment in re.findall(r"\\(begin|end)\{(\w+)\}", text):
            if kind == "begin":
                opened.append(environment)
            else:
                assert opened.pop() == environment
        assert not opened
        blocks = 2 + (explanation.operation.double_backward is not None)
        assert text.count("\\[\n") == text.count("\n\\]") == blocks - (explanation.operation.backward is None)
        assert text.count(r"\frac{\partial^{2}") == (blocks == 3) * self.seconds(explanation)
        assert all(symbol(p.name) in text for p in explanation.formula.parameters)
        assert "nan" not in text.lower()

    @staticmethod
    def seconds(explanation: Explanation) -> int:
        """How many second derivatives there are, a mixed one once."""
        count = len(explanation.operation.differentiable)
        return len(explanation.operation.outputs) * count * (count + 1) // 2

    def test_of_swish(self) -> None:
        assert explained("swish").latex().splitlines() == [
            "% swish",
            r"\[",
            r"  \operatorname{swish}(x; \beta) = \frac{x}{1 + e^{- \beta x}}",
            r"\]",
            r"\[",
            r"  \frac{\partial \operatorname{swish}}{\partial x} = \operatorname{sigmoid}{\left(\beta x \right)}"
            r" + x \operatorname{sigmoid'}{\left(\beta x \right)} \beta",
            r"\]",
        ]

    def test_squares(self) -> None:
        """1**2 + x**2 and x*x, as kernels compute them, are 1 + x**2 and x**2 for a reader."""
        graph = Graph()
        x, one = graph.input("x"), graph.const(1)
        norm = graph.apply("hypot", one, x)
        assert LatexPrinter({}).expression(norm) == r"\sqrt{1 + x^{2}}"
        quotient = graph.apply("unit", graph.mul(x, x), norm)
        assert LatexPrinter({}).expression(quotient) == r"\frac{x^{2}}{\sqrt{1 + x^{2}}}"
        shifted = graph.add(one, x)
        twice = graph.mul(x, graph.apply("damp", shifted, shifted))
        assert LatexPrinter({}).expression(twice) == r"x \left(1 + x\right) \left(1 + x\right)"

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("x", "x"),
            ("beta", r"\beta"),
            ("lambda_", r"\lambda"),
            ("w0", "w_{0}"),
            ("x_max", r"x_{\mathrm{max}}"),
            ("target", r"\mathrm{target}"),
            ("x_", "x'"),
        ],
    )
    def test_names(self, name: str, expected: str) -> None:
        assert symbol(name) == expected


class TestCommand:
    def test_explains_every_op_of_a_file(self) -> None:
        result = command(str(FORMULAS / "polar.py"), "--second")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("polar_to_cartesian  (")
        titles = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
        assert [title.split(",")[0] for title in titles[2:]] == [
            "Formula",
            "Rewrites of the value",
            "Forward",
            "Rewrites that the derivatives bring",
            "Derivatives",
            "Backward",
            "Saved for backward",
            "Rewrites that the double backward brings",
            "Double backward",
            "Modelled worst errors in ULP",
            "Operations per element",
            "Bytes read + written per element",
        ]
        assert "\x1b" not in result.stdout

    def test_prints_latex_alone(self) -> None:
        result = command(str(FORMULAS / "square.py"), "square", "--latex")
        assert (result.exit_code, result.stdout) == (0, explained("square").latex() + "\n")

    def test_an_op_without_gradient(self, tmp_path: Path) -> None:
        spec = tmp_path / "plain.py"
        spec.write_text("from gradgen import Tensor, op\n\n@op\ndef f(x: Tensor(grad=False)):\n    return x[0]*2\n")
        assert command(str(spec)).exit_code == 2
        spec.write_text(spec.read_text().replace("x[0]", "x"))
        result = command(str(spec), "--second")
        assert result.exit_code == 0
        assert "none: no input is differentiable" in result.stdout

    @pytest.mark.parametrize(
        ("text", "op", "message"),
        [
            (None, "f", "cannot read the spec file: No such file or directory"),
            ("x = 1\n", "f", "no operation in this file"),
            ("from sympy import *\nx, y = symbols('x y')\nf = x*y\ng = 2*x\n", "h", "It has: f, g."),
            ("from sympy import *\nx = symbols('x')\nf = zeta(x)\n", "f", "does not know the function zeta"),
        ],
    )
    def test_mistakes(self, text: str | None, op: str, message: str, tmp_path: Path) -> None:
        spec = tmp_path / "spec.py"
        if text is not None:
            spec.write_text(text)
        result = command(str(spec), op)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"Error: {spec}")
        assert message in result.stderr
        assert "Traceback" not in result.stderr


def test_needs_no_torch() -> None:
    program = "import sys, gradgen.explain; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
