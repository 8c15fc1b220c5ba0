"""The language of spec files: what may be written, and that it reaches the graph unchanged.

The graph is evaluated by mpmath, each formula beside one written in mpmath by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import pytest
import sympy
from mpmath import mpf

from gradgen.errors import GradgenError
from gradgen.graph import Graph, Node, topological
from gradgen.language import Parameter
from gradgen.literal import literally
from gradgen.load import Formula, load
from gradgen.primitives import PRIMITIVES
from gradgen.share import share

HEAD = "from sympy import *\nfrom gradgen import *\n\n"
POINTS = (-2.5, -1.0, -0.375, 0.0, 0.375, 0.75, 1.0, 3.25)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Formula]]:
    """The formulas of a text."""

    def read(text: str, name: str = "spec.py") -> list[Formula]:
        path = tmp_path / name
        path.write_text(text)
        return load(path)

    return read


def evaluate(root: Node, point: dict[str, Any]) -> Any:
    """The value of a node, NaN where it is not real."""
    values: dict[Node, Any] = {}
    with mpmath.workdps(40):
        for node in topological([root]):
            values[node] = applied(node, [values[arg] for arg in node.args]) if node.args else leaf(node, point)
    return values[root]


def applied(node: Node, args: list[Any]) -> Any:
    try:
        return PRIMITIVES[node.op].mpmath(*args)
    except (ZeroDivisionError, ValueError):
        return mpmath.nan


def leaf(node: Node, point: dict[str, Any]) -> Any:
    if node.op == "true":
        return True
    if node.number is None:
        value = point[str(node.value)]
        return value if isinstance(value, bool) else mpf(value)
    special = {sympy.oo: mpmath.inf, -sympy.oo: -mpmath.inf, sympy.nan: mpmath.nan}
    return special[node.number] if node.number in special else mpmath.mpmathify(node.number.evalf(40))


def value(formula: Formula, output: int = 0, **point: Any) -> Any:
    """The value of an output of a formula, by its graph."""
    convert = share(formula, Graph(p.name for p in formula.scalars))
    return evaluate(convert(formula.outputs[output]), point)


def same(a: Any, b: Any) -> bool:
    if isinstance(b, mpmath.mpc):
        b = b.real if b.imag == 0 else mpmath.nan
    if mpmath.isnan(a) or mpmath.isnan(b):
        return bool(mpmath.isnan(a) and mpmath.isnan(b))
    return bool(a == b or abs(a - b) < 1e-25 * (1 + abs(b)))


# Functions: each as typed, and by hand. x is an input, y another, which is x + 2.


def relu(x: Any) -> Any:
    return max(x, mpf(0))


MPMATH = """
    sin cos tan sec csc cot asin acos atan asec acsc sinh cosh tanh sech csch coth asinh acosh atanh asech acsch acoth
""".split()  # noqa: SIM905

FORMULAS: dict[str, Callable[[Any], Any]] = {
    # Elementary functions
    "x**2": lambda x: x**2,
    "x**-3": lambda x: x**-3,
    "sqrt(x)": lambda x: mpmath.sqrt(x),
    "sqrt(x**2)": lambda x: abs(x),
    "1/x": lambda x: 1 / x,
    "x**(S(3)/2)": lambda x: mpmath.sqrt(x) ** 3,
    "x**0.5": lambda x: mpmath.sqrt(x),
    "cbrt(x)": lambda x: mpmath.cbrt(x) if x >= 0 else mpmath.nan,
    "root(x, 3)": lambda x: mpmath.cbrt(x) if x >= 0 else mpmath.nan,
    "root(x, 5)": lambda x: mpmath.root(x, 5),
    "real_root(x, 3)": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "real_root(x, 5)": lambda x: mpmath.sign(x) * mpmath.root(abs(x), 5),
    "2**x": lambda x: mpf(2) ** x,
    "E**x": lambda x: mpmath.exp(x),
    "exp(x)": mpmath.exp,
    "log(x)": mpmath.log,
    "log(x, 2)": lambda x: mpmath.log(x, 2),
    "ln(x)": mpmath.log,
    "log(x, y)": lambda x: mpmath.log(x) / mpmath.log(x + 2),
    "log1p(x)": lambda x: mpmath.log(1 + x),
    "expm1(x)": mpmath.expm1,
    "exp2(x)": lambda x: mpf(2) ** x,
    "log2(x)": lambda x: mpmath.log(x, 2),
    "log10(x)": mpmath.log10,
    "sigmoid(x)": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus(x)": lambda x: mpmath.log(1 + mpmath.exp(x)),
    "logaddexp(x, y)": lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(x + 2)),
    "hypot(x, y)": lambda x: mpmath.hypot(x, x + 2),
    # Circular and hyperbolic functions, and their inverses
    **{f"{name}(x)": getattr(mpmath, name) for name in MPMATH},
    "acot(x)": lambda x: mpmath.acot(x),
    "sinc(x)": mpmath.sinc,
    "atan2(x, y)": lambda x: mpmath.atan2(x, x + 2),
    # Steps and selections
    "Abs(x)": abs,
    "abs(x)": abs,
    "sign(x)": mpmath.sign,
    "floor(x)": mpmath.floor,
    "ceiling(x)": mpmath.ceil,
    "frac(x)": lambda x: x - mpmath.floor(x),
    "x // 2": lambda x: mpmath.floor(x / 2),
    "x % 2": lambda x: x - 2 * mpmath.floor(x / 2),
    "Mod(x, y)": lambda x: x - (x + 2) * mpmath.floor(x / (x + 2)),
    "Max(x, 0)": relu,
    "Min(x, 1)": lambda x: min(x, mpf(1)),
    "Max(x, y, x**2, 1)": lambda x: max(x + 2, x**2, mpf(1)),
    "Min(x, y, x**3, -1)": lambda x: min(x, x**3, mpf(-1)),
    "Max(x)": lambda x: x,
    "Heaviside(x)": lambda x: (mpmath.sign(x) + 1) / 2,
    "Heaviside(x, 1)": lambda x: mpf(x >= 0),
    "Piecewise((x, x > 0))": lambda x: x if x > 0 else mpmath.nan,
    "Piecewise((x, x > 0), (nan, True))": lambda x: x if x > 0 else mpmath.nan,
    "Piecewise((x, x > 0), (oo, True))": lambda x: x if x > 0 else mpmath.inf,
    "Piecewise((1, x > 1), (2, x > 0), (3, True), (4, True))": lambda x: mpf(1 if x > 1 else 2 if x > 0 else 3),
    "Piecewise((1, False), (2, True))": lambda x: mpf(2),
    "Piecewise((1, Eq(x, 1)), (2, Ne(x, 0)), (3, True))": lambda x: mpf(1 if x == 1 else 2 if x else 3),
    "Piecewise((1, (x > 0) & (x < 1)), (0, True))": lambda x: mpf(0 < x < 1),
    "Piecewise((1, Or(x < 0, x > 1, Eq(x, 0.375))), (0, True))": lambda x: mpf(x < 0 or x > 1 or x == 0.375),
    "Piecewise((1, ~(x > 0)), (0, True))": lambda x: mpf(x <= 0),
    "Piecewise((1, Xor(x > 0, x > 1)), (0, True))": lambda x: mpf(0 < x <= 1),
    "Piecewise((1, Xor(x > 0, x > 1, x > 2)), (0, True))": lambda x: mpf(0 < x <= 1 or x > 2),
    "Piecewise((1, Nand(x > 0, x < 1)), (0, True))": lambda x: mpf(not 0 < x < 1),
    "Piecewise((1, Nor(x < 0, x > 1)), (0, True))": lambda x: mpf(0 <= x <= 1),
    "Piecewise((1, Implies(x > 0, x > 1)), (0, True))": lambda x: mpf(x <= 0 or x > 1),
    "Piecewise((1, Equivalent(x > 0, x > 1, x > 2)), (0, True))": lambda x: mpf(x <= 0 or x > 2),
    "Piecewise((1, ITE(x > 0, x < 1, x < -1)), (0, True))": lambda x: mpf(x < 1 if x > 0 else x < -1),
    "Piecewise((x, Piecewise((x, x > 0), (-x, True)) > 1), (0, True))": lambda x: x if abs(x) > 1 else mpf(0),
    "Piecewise((1, Contains(x, Interval(0, 1))), (0, True))": lambda x: mpf(0 <= x <= 1),
    # Special functions
    "erf(x)": mpmath.erf,
    "erfc(x)": mpmath.erfc,
    "erfinv(x)": lambda x: (
        mpmath.erfinv(x) if abs(x) < 1 else mpmath.sign(x) * mpmath.inf if abs(x) == 1 else mpmath.nan
    ),
    "gamma(x + 4)": lambda x: mpmath.gamma(x + 4),
    "loggamma(x + 4)": lambda x: mpmath.loggamma(x + 4),
    "digamma(x + 4)": lambda x: mpmath.digamma(x + 4),
    "polygamma(0, x + 4)": lambda x: mpmath.digamma(x + 4),
    "polygamma(2, x + 4)": lambda x: mpmath.polygamma(2, x + 4),
    "factorial(x + 4)": lambda x: mpmath.gamma(x + 5),
    **{
        f"bessel{kind}({order}, x + 4)": lambda x, kind=kind, order=order: getattr(mpmath, f"bessel{kind}")(
            order, x + 4
        )
        for kind in "jyi"
        for order in (0, 1, 3)
    },
    "legendre(3, x)": lambda x: (5 * x**3 - 3 * x) / 2,
    "hermite(2, x)": lambda x: 4 * x**2 - 2,
    "chebyshevt(4, x)": lambda x: 8 * x**4 - 8 * x**2 + 1,
    # Ways to write
    "x/3 - x/S(7) + Rational(1, 9)": lambda x: x / 3 - x / 7 + mpf(1) / 9,
    "0.1*x + 1e-3": lambda x: x / 10 + mpf(1) / 1000,
    "-(x - y)/(x*y - 0.3)": lambda x: 2 / (x * (x + 2) - mpf(3) / 10),
    "x*(pi + E + GoldenRatio + EulerGamma)": lambda x: x * (mpmath.pi + mpmath.e + mpmath.phi + mpmath.euler),
    "Add(x, Mul(2, x), Pow(x, 2))": lambda x: 3 * x + x**2,
    "sum(x**k for k in range(4))": lambda x: 1 + x + x**2 + x**3,
    "sum([x, x, 1])": lambda x: 2 * x + 1,
    "prod([x, y, 2])": lambda x: 2 * x * (x + 2),
    "__import__('functools').reduce(lambda a, b: a*x + b, (1, 2, 3))": lambda x: x**2 + 2 * x + 3,
    "UnevaluatedExpr(x + 1)*2": lambda x: 2 * x + 2,
    "conjugate(x)*re(x) + im(x)": lambda x: x**2,
    "sympify('x**2 + 1') - 1": lambda x: x**2,
    "S('1/3')*x": lambda x: x / 3,
    # Computing with formulas
    "diff(x**3 + sin(x), x)": lambda x: 3 * x**2 + mpmath.cos(x),
    "(x**3).diff(x, 2)": lambda x: 6 * x,
    "Derivative(exp(x**2), x).doit()": lambda x: 2 * x * mpmath.exp(x**2),
    "diff(Abs(x), x)": mpmath.sign,
    "diff(Max(x, 0)**2, x)": lambda x: 2 * relu(x),
    "(x**2 + y).subs(y, x**3)": lambda x: x**2 + x**3,
    "(x - 1).subs({x: x - x + 1})": lambda x: mpf(0),
    "simplify(sin(x)**2 + cos(x)**2 + x)": lambda x: 1 + x,
    "expand((x + 1)**3)": lambda x: (x + 1) ** 3,
    "factor(x**2 - 1)": lambda x: x**2 - 1,
    "integrate(x**2, (x, 0, x))": lambda x: x**3 / 3,
    "integrate(exp(-x**2), (x, 0, x))": lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.erf(x),
    "series(exp(x), x, 0, 3).removeO()": lambda x: 1 + x + x**2 / 2,
    "limit((1 + x/Symbol('n'))**Symbol('n'), Symbol('n'), oo)": mpmath.exp,
    "Sum(x**Symbol('k'), (Symbol('k'), 0, 3)).doit()": lambda x: 1 + x + x**2 + x**3,
    "summation(x**Symbol('k'), (Symbol('k'), 0, 3))": lambda x: 1 + x + x**2 + x**3,
    "product(x + Symbol('k'), (Symbol('k'), 0, 2))": lambda x: x * (x + 1) * (x + 2),
    "Poly(x**2 + 2*x, x).as_expr()": lambda x: x**2 + 2 * x,
    "lambdify(x, x**2 + 1, 'sympy')(x)": lambda x: x**2 + 1,
    "Lambda(x, x**2)(x + 1)": lambda x: (x + 1) ** 2,
    "Matrix([[x, 1], [2, y]]).det()": lambda x: x * (x + 2) - 2,
    "solve(Symbol('t')*2 - x, Symbol('t'))[0]": lambda x: x / 2,
    "x.func('x', real=True)**2": lambda x: x**2,
    "(2*x).args[1]": lambda x: x,
    "x if (x**2).is_nonnegative else 0": lambda x: x,
    "piecewise_fold(Piecewise((x, x > 0), (0, True)) + 1)": lambda x: relu(x) + 1,
}


@pytest.mark.parametrize("text", FORMULAS)
def test_formula_is_what_was_typed(text: str, read: Callable[..., list[Formula]]) -> None:
    (formula,) = read(f"{HEAD}@op\ndef f(x, y):\n    return {text}\n")
    for x in POINTS:
        try:
            with mpmath.workdps(40):
                expected = FORMULAS[text](mpf(x))
        except (ZeroDivisionError, ValueError):
            continue  # a pole
        assert same(value(formula, x=x, y=x + 2), expected), f"at {x}"


class TestParameters:
    def test_every_kind(self, read: Callable[..., list[Formula]]) -> None:
        text = "def f(a, b: Tensor, c: Tensor(grad=False), d: float, e: float = 1, g: int = 2, h: bool = True):\n"
        (formula,) = read(f"{HEAD}@op\n{text}    return a\n")
        assert formula.parameters == (
            Parameter("a", "tensor"),
            Parameter("b", "tensor"),
            Parameter("c", "tensor", grad=False),
            Parameter("d", "float"),
            Parameter("e", "float", default=1.0),
            Parameter("g", "int", default=2),
            Parameter("h", "bool", default=True),
        )
        assert type(formula.parameters[4].default) is float
        assert [p.name for p in formula.tensors] == ["a", "b", "c"]
        assert [p.name for p in formula.scalars] == ["d", "e", "g", "h"]

    @pytest.mark.parametrize(
        ("default", "expected"),
        [("pi", 3.141592653589793), ("Rational(1, 3)", 1 / 3), ("float('inf')", float("inf")), ("2**0.5", 2**0.5)],
    )
    def test_default_may_be_any_real_number(self, default: str, expected: float, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x, a: float = {default}):\n    return a*x\n")
        assert formula.parameters[1].default == expected

    def test_default_may_be_a_number_of_numpy(self, read: Callable[..., Any]) -> None:
        pytest.importorskip("numpy")
        (formula,) = read(f"import numpy as np\n{HEAD}@op\ndef f(x, a: float = np.float32(2)):\n    return a*x\n")
        assert formula.parameters[1].default == 2.0
        assert type(formula.parameters[1].default) is float

    @pytest.mark.parametrize("signature", ["x, /, a: float", "x, *, a: float", "x: 'Tensor', a: 'float'"])
    def test_python_allows_more_than_one_way(self, signature: str, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f({signature}):\n    return a*x\n")
        assert value(formula, x=3, a=2) == 6
        assert [p.kind for p in formula.parameters] == ["tensor", "float"]

    def test_annotations_may_be_postponed(self, read: Callable[..., Any]) -> None:
        (formula,) = read(
            f"from __future__ import annotations\n{HEAD}@op\ndef f(x: Tensor(grad=False)):\n    return x\n"
        )
        assert formula.parameters == (Parameter("x", "tensor", grad=False),)

    def test_int_is_an_exponent(self, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x, n: int = 2):\n    return x**n + (-1)**n\n")
        assert value(formula, x=-3, n=3) == -28

    def test_symbols_are_real(self, read: Callable[..., Any]) -> None:
        (formula,) = read(
            f"{HEAD}@op\ndef f(x, a: float, n: int):\n    return x if x.is_real and n.is_integer else a\n"
        )
        assert str(formula.outputs[0]) == "x"


FLAGS = {
    "if": "if flag:\n        return x\n    return 2*x",
    "if not": "if not flag:\n        return 2*x\n    return x",
    "conditional expression": "return x if flag else 2*x",
    "and": "return x if flag and True else 2*x",
    "==": "return x if flag == True else 2*x",
    "index": "return (2*x, x)[bool(flag)]",
    "condition": "return Piecewise((x, flag), (2*x, True))",
    "negated condition": "return Piecewise((2*x, ~flag), (x, True))",
    "Not": "return Piecewise((2*x, Not(flag)), (x, True))",
    "part of a condition": "return Piecewise((x, flag & (x > 0)), (2*x, Not(flag)), (x, True))",
    "both": "y = 2*x\n    if flag:\n        y = x\n    return Piecewise((y, flag), (y, True))",
    "computing": "return simplify(Piecewise((x, flag), (2*x, True)))",
    "deep inside": "y = x\n    for _ in range(3):\n        y = y if flag else y + x/3\n    return y",
}


class TestFlags:
    @pytest.mark.parametrize("name", FLAGS)
    @pytest.mark.parametrize("flag", [True, False])
    def test_selects(self, name: str, flag: bool, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x, flag: bool = True):\n    {FLAGS[name]}\n")
        assert same(value(formula, x=5, flag=flag), mpf(5 if flag else 10))

    def test_several_flags_and_outputs(self, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x, a: bool, b: bool):\n    return (x if a else -x), (x**2 if b else x)\n")
        for a in (True, False):
            for b in (True, False):
                assert value(formula, 0, x=3, a=a, b=b) == (3 if a else -3)
                assert value(formula, 1, x=3, a=a, b=b) == (9 if b else 3)

    def test_many_flags_that_are_conditions(self, read: Callable[..., Any]) -> None:
        names = [f"a{i}" for i in range(30)]
        branches = ", ".join(f"(x + {i}, {name})" for i, name in enumerate(names))
        signature = ", ".join(f"{name}: bool" for name in names)
        (formula,) = read(f"{HEAD}@op\ndef f(x, {signature}):\n    return Piecewise({branches}, (x, True))\n")
        assert value(formula, x=1, **{name: name == "a29" for name in names}) == 30

    def test_flag_in_a_derivative(self, read: Callable[..., Any]) -> None:
        text = "@f.derivative('x')\ndef _(x, flag):\n    return 1 if flag else x\n"
        (formula,) = read(f"{HEAD}@op\ndef f(x, flag: bool):\n    return x\n{text}")
        convert = share(formula, Graph(["flag"]))
        (node,) = map(convert, formula.derivatives["x"])
        assert [evaluate(node, {"x": 3, "flag": flag}) for flag in (True, False)] == [1, 3]


class TestOps:
    def test_several_in_the_order_of_the_file(self, read: Callable[..., Any]) -> None:
        text = "@op\ndef b(x):\n    return x\n@op\ndef a(x):\n    return -x\nc = symbols('x')**2\n"
        assert [formula.name for formula in read(HEAD + text)] == ["b", "a", "c"]

    def test_outputs(self, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(r, t):\n    return r*cos(t), r*sin(t)\n")
        with mpmath.workdps(40):
            assert same(value(formula, 0, r=2, t=1), 2 * mpmath.cos(1))
            assert same(value(formula, 1, r=2, t=1), 2 * mpmath.sin(1))

    def test_docstring_line_and_source(self, read: Callable[..., Any]) -> None:
        (formula,) = read(
            f'{HEAD}@op\ndef f(x):\n    """Twice\n\n    x."""\n    y = x\n    return  x + \\\n        y\n'
        )
        assert (formula.doc, formula.line, formula.source) == ("Twice\n\nx.", 10, "x + \\\ny")

    def test_source_of_several_returns_is_the_body(self, read: Callable[..., Any]) -> None:
        body = "    if c:\n        return x\n    return 2*x"
        (formula,) = read(f'{HEAD}@op\ndef f(x, c: bool):\n    """Doc."""\n{body}\n')
        assert formula.source == "if c:\n    return x\nreturn 2*x"

    def test_source_is_not_that_of_an_inner_function(self, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x):\n    def g(y):\n        return y + 1\n    return g(x)\n")
        assert formula.source == "g(x)"

    def test_local_names_are_hints(self, read: Callable[..., Any]) -> None:
        body = "    s = 1/(1 + exp(-x))\n    σ_2 = s*x\n    left = zeta(x)\n    k = 3\n    return σ_2*k + exp(σ_2)\n"
        (formula,) = read(f"{HEAD}@op\ndef f(x):\n{body}")
        assert [name for name, _ in formula.names] == ["s", "sigma_2"]

    def test_ops_may_use_one_another(self, read: Callable[..., Any]) -> None:
        text = "@op\ndef f(x):\n    return x**2\n@op\ndef g(x, y):\n    return f(x + y) - f(x=y)\n"
        _, formula = read(HEAD + text)
        assert value(formula, x=3, y=4) == 33

    def test_helpers_and_decorators(self, read: Callable[..., Any]) -> None:
        text = (
            "import functools\ndef twice(g):\n    @functools.wraps(g)\n    def inner(*a, **k):\n"
            "        return 2*g(*a, **k)\n    return inner\n@op\n@twice\ndef f(x, n: int = 3):\n    return x**n\n"
        )
        (formula,) = read(HEAD + text)
        assert [p.name for p in formula.parameters] == ["x", "n"]
        assert value(formula, x=2, n=3) == 16

    def test_decorator_of_a_sibling(self, read: Callable[..., Any], tmp_path: Path) -> None:
        (tmp_path / "tools.py").write_text(
            "def twice(g):\n    def inner(x):\n        return 2*g(x)\n    return inner\n"
        )
        (formula,) = read(f"from tools import twice\n{HEAD}@op\n@twice\ndef f(x):\n    return x\n")
        assert (formula.name, value(formula, x=2)) == ("inner", 4)

    def test_made_in_a_function(self, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}def make():\n    @op\n    def f(x):\n        return x\n    return f\nmake()\n")
        assert formula.name == "f"


class TestDerivatives:
    def test_of_one_input(self, read: Callable[..., Any]) -> None:
        text = "@op\ndef f(x, y, a: float):\n    return sign(x)*y\n@f.derivative('x')\ndef _(a, x):\n    return a*x\n"
        (formula,) = read(HEAD + text)
        assert {name: list(map(str, row)) for name, row in formula.derivatives.items()} == {"x": ["a*x"]}

    def test_of_several_outputs_and_inputs(self, read: Callable[..., Any]) -> None:
        text = (
            "@op\ndef f(x, y):\n    return x, y\n@f.derivative('y')\ndef _(y):\n    return 0, y\n"
            "@f.derivative('x')\ndef _():\n    return 1, 0\n"
        )
        (formula,) = read(HEAD + text)
        assert {name: list(map(str, row)) for name, row in formula.derivatives.items()} == {
            "x": ["1", "0"],
            "y": ["0", "y"],
        }

    @pytest.mark.parametrize(
        "declaration", ["f.derivative('x')(lambda x: 3*x)", "@f.derivative('x')\ndef _(x, /):\n    return 3*x"]
    )
    def test_by_any_plain_function(self, declaration: str, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x):\n    return sign(x)\n{declaration}\n")
        assert [str(e) for e in formula.derivatives["x"]] == ["3*x"]


class TestBareForm:
    def test_inputs_come_in_the_order_of_binding(self, read: Callable[..., Any]) -> None:
        (formula,) = read("from sympy import *\nz, a = symbols('z a')\nb = Symbol('b')\nf = b + a + z\n")
        assert [p.name for p in formula.parameters] == ["z", "a", "b"]
        assert {p.kind for p in formula.parameters} == {"tensor"}

    def test_symbols_without_a_name_come_last(self, read: Callable[..., Any]) -> None:
        (formula,) = read("from sympy import *\na = symbols('a')\nf = Symbol('b')*a\n")
        assert [p.name for p in formula.parameters] == ["a", "b"]

    def test_private_names_are_no_operations_but_hints(self, read: Callable[..., Any]) -> None:
        text = "x = symbols('x')\n_s = 1/(1 + exp(-x))\n_other = [x**2]\nn = 3\nc = pi**2\nswish = x*_s*n\n"
        (formula,) = read("from sympy import *\n" + text)
        assert (formula.name, formula.line, formula.source) == ("swish", 7, "swish = x*_s*n")
        assert [name for name, _ in formula.names] == ["_s"]

    def test_each_public_expression_is_an_operation(self, read: Callable[..., Any]) -> None:
        formulas = read("from sympy import *\nx = symbols('x')\ng = x**2\nh = g + 1\n")
        assert [formula.name for formula in formulas] == ["g", "h"]
        assert [name for name, _ in formulas[1].names] == ["g"]

    def test_the_last_binding_counts(self, read: Callable[..., Any]) -> None:
        (formula,) = read("from sympy import *\nx = symbols('x')\nf = x\nfor _ in range(2):\n    f = sin(f)\n")
        assert (str(formula.outputs[0]), formula.line) == ("sin(sin(x))", 5)

    def test_imported_expressions_are_no_operations(self, read: Callable[..., Any], tmp_path: Path) -> None:
        (tmp_path / "common.py").write_text("from sympy import *\nx = symbols('x')\nshared = exp(x)\n")
        (formula,) = read("from common import shared, x\nf = x*shared\n")
        assert formula.name == "f"

    def test_symbols_of_abc(self, read: Callable[..., Any]) -> None:
        (formula,) = read("from sympy.abc import x, y\nf = x/y\n")
        assert value(formula, x=6, y=3) == 2

    def test_symbol_of_any_assumption_is_a_real_input(self, read: Callable[..., Any]) -> None:
        (formula,) = read("from sympy import *\nx = symbols('x', positive=True)\nf = sqrt(x**2)\n")
        assert value(formula, x=-3) == 3


class TestSiblings:
    @pytest.mark.parametrize("computes", ["expand((x + 1)**2) - (x + 1)**2 + x", "(x*y).subs(y, 1)", "diff(x**2, x)/2"])
    def test_that_compute_are_executed_with_evaluation(
        self, computes: str, read: Callable[..., Any], tmp_path: Path
    ) -> None:
        (tmp_path / "first.py").write_text("import second\ndef act(x):\n    return second.act(x)\n")
        (tmp_path / "second.py").write_text(
            f"from sympy import *\ny = Symbol('y')\ndef act(x):\n    return {computes}\n"
        )
        (formula,) = read(f"from first import act\n{HEAD}@op\ndef f(x):\n    return act(x)\n")
        assert str(formula.outputs[0].expand()) == "x"
        assert not formula.outputs[0].has(sympy.Subs, sympy.Derivative)
        assert value(formula, x=3) == 3

    def test_are_each_folder_s_own(self, tmp_path: Path) -> None:
        for folder, scale in (("one", 1), ("two", 2)):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "common.py").write_text(f"scale = {scale}\n")
            (tmp_path / folder / "spec.py").write_text(
                f"from common import scale\n{HEAD}@op\ndef f(x):\n    return scale*x\n"
            )
        assert [value(load(tmp_path / folder / "spec.py")[0], x=1) for folder in ("one", "two", "one")] == [1, 2, 1]
        assert "common" not in sys.modules

    def test_hide_nothing_of_python(self, read: Callable[..., Any], tmp_path: Path) -> None:
        sys.modules.pop("colorsys", None)  # a module of Python's that nobody has imported
        for name in ("colorsys", "sympy"):
            (tmp_path / f"{name}.py").write_text("raise RuntimeError\n")
        (formula,) = read(f"import colorsys\n{HEAD}@op\ndef f(x):\n    return x*colorsys.rgb_to_hsv(2, 2, 2)[2]\n")
        assert value(formula, x=4) == 8

    def test_may_be_imported_by_an_operation(self, read: Callable[..., Any], tmp_path: Path) -> None:
        (tmp_path / "common.py").write_text("scale = 2\n")
        (formula,) = read(f"{HEAD}@op\ndef f(x):\n    from common import scale\n    return scale*x\n")
        assert value(formula, x=3) == 6

    def test_their_operations_are_not_this_file_s(self, read: Callable[..., Any], tmp_path: Path) -> None:
        (tmp_path / "other.py").write_text("from gradgen import op\n@op\ndef g(x):\n    return x**2\n")
        (formula,) = read(f"from other import g\n{HEAD}@op\ndef f(x):\n    return g(x) + 1\n")
        assert (formula.name, value(formula, x=2)) == ("f", 5)

    def test_leave_no_files(self, read: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        (tmp_path / "common.py").write_text("scale = 2\n")
        read(f"from common import scale\n{HEAD}@op\ndef f(x):\n    return scale*x\n")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["common.py", "spec.py"]


# How SymPy is left alone while a formula is typed, and woken where a spec computes

TYPED = {
    "x + x": "x + x",
    "2*(x + y)": "2*(x + y)",
    "exp(log(x))": "exp(log(x))",
    "Max(x, x)": "Max(x, x)",
    "Abs(-x)": "Abs(-x)",
}


class TestLiteral:
    @pytest.mark.parametrize("text", TYPED)
    def test_formula_stays_as_typed(self, text: str, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x, y):\n    return {text}\n")
        with literally():
            x, y = sympy.symbols("x y", real=True)
            expected = eval(text, {**vars(sympy)}, {"x": x, "y": y})
        assert formula.outputs[0] == expected
        assert formula.outputs[0] != sympy.sympify(text, {"x": x, "y": y})

    @pytest.mark.parametrize(
        "line",
        [
            "z = diff(x, x)",
            "z = x.subs(x, 1)",
            "import sympy as s; z = s.simplify(x)",
            "from sympy import simplify as s; z = s(x)",
            "for g in (simplify, sin): z = g(x)",
            "z = list(map(expand, [x]))",
            "z = getattr(x, 'subs')(x, 1)",
            "z = eval('simplify(x)')",
            "z = globals()['simplify'](x)",
            "from operator import methodcaller; z = methodcaller('expand')(x)",
            "z = x.is_positive",
            "z = Lambda(x, x)(x)",
            "z = S('diff(x**2, x)')",
            "z = sympify('x - x')",
            "from sympy.simplify import radsimp; z = radsimp(x)",
            "import numpy; z = numpy.array([x]).sum()",
        ],
    )
    def test_evaluation_is_on_where_a_spec_computes(self, line: str, read: Callable[..., Any]) -> None:
        if "numpy" in line:
            pytest.importorskip("numpy")
        (formula,) = read(f"{HEAD}@op\ndef f(x):\n    {line}\n    return x + x\n")
        assert formula.outputs[0] == 2 * sympy.Symbol("x", real=True)

    @pytest.mark.parametrize(
        "line",
        [
            "import sympy as s; z = s.sin(x) + s.pi",
            "import math; z = math.sqrt(2)*x",
            "z = S(1)/3 + S.Half + Rational(1, 2)",
            "z = [x]; z.append(x)",
            "z = sum([x, x])",
            "from functools import reduce; z = reduce(lambda a, b: a + b, [x, x])",
        ],
    )
    def test_evaluation_is_off_where_a_spec_only_builds(self, line: str, read: Callable[..., Any]) -> None:
        (formula,) = read(f"{HEAD}@op\ndef f(x):\n    {line}\n    return x + x\n")
        assert formula.outputs[0] != 2 * sympy.Symbol("x", real=True)

    def test_sympy_is_as_before_afterwards(self, read: Callable[..., Any]) -> None:
        before = [kind.__dict__.get("__new__") for kind in (sympy.Max, sympy.Min, sympy.And, sympy.Or)]
        with pytest.raises(GradgenError):
            read(f"{HEAD}@op\ndef f(x):\n    return 1/0\n")
        x = sympy.Symbol("x")
        assert x + x == 2 * x
        assert sympy.Max(x, x) == x
        assert sympy.And(x > 0, sympy.true) == (x > 0)
        assert [kind.__dict__.get("__new__") for kind in (sympy.Max, sympy.Min, sympy.And, sympy.Or)] == before

    def test_options_of_this_package_s_files_do_not_leak(self, read: Callable[..., Any]) -> None:
        read(
            f"{HEAD}@op\ndef f(x):\n    return x\nassert f.function.__annotations__ == {{}}\ndef g(x: 1 + 1): pass\n"
            "assert g.__annotations__ == {'x': 2}\n"
        )


NESTED = {
    "issue": "sin(f*exp(-f)) + f",
    "max": "Max(f*exp(-f), 0) + f",
    "piecewise": "Piecewise((f*exp(-f), f > 0), (f, True))",
    "conditions": "Piecewise((f*exp(-f), (f > 0) & (f < 1)), (f + 1, Or(f > 2, f < -2)), (f, True))",
    "root": "sqrt(1 + f**2)*f",
    "absolute": "Abs(f)*sign(f) + cbrt(f) + log(f, 2)",
}


@pytest.mark.parametrize("name", NESTED)
def test_cost_is_linear_in_nesting(name: str, read: Callable[..., Any]) -> None:
    nodes = []
    for levels in (8, 16, 32):  # a walk as a tree would take years
        (formula,) = read(
            f"{HEAD}@op\ndef g(f):\n    for _ in range({levels}):\n        f = {NESTED[name]}\n    return f\n"
        )
        root = share(formula, Graph())(formula.outputs[0])
        nodes.append(len(topological([root])))
    assert nodes[2] - nodes[1] == 2 * (nodes[1] - nodes[0])


def test_flag_costs_no_more(read: Callable[..., Any]) -> None:
    text = "f = x\n    for _ in range(24):\n        f = sin(f*exp(-f)) + (f if flag else 2*f)\n    return f"
    (formula,) = read(f"{HEAD}@op\ndef g(x, flag: bool):\n    {text}\n")
    count = len(topological([share(formula, Graph(["flag"]))(formula.outputs[0])]))  # as a tree it would not end
    assert count < 400
