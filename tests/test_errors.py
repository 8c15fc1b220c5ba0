"""What a user reads who made a mistake in a spec file: the place, what was written, what is wrong, what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gradgen import build, cli, generate
from gradgen.errors import GradgenError

HEAD = "from sympy import *\nfrom gradgen import Tensor, op\n\n"


def spec(body: str, signature: str = "x: Tensor", name: str = "f") -> str:
    """A spec file whose op's body begins in line 6."""
    return f"{HEAD}@op\ndef {name}({signature}):\n    {body}\n"


def derived(declaration: str) -> str:
    """A spec file with a declaration from line 8 on, after an op f."""
    return spec("return x*y", "x: Tensor, y: Tensor(grad=False), a: float = 1.0") + "\n" + declaration + "\n"


def bare(lines: str) -> str:
    """A spec file in the bare form, from line 3 on."""
    return f"from sympy import *\nx = symbols('x')\n{lines}\n"


def message(folder: Path, source: str | bytes, name: str = "spec.py") -> str:
    """The message that a spec file gives; its first line without the folder."""
    path = folder / name
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    with pytest.raises(GradgenError) as caught:
        generate.module(path, build.templates_dir())
    return str(caught.value.located(path)).removeprefix(f"{folder}/")


# Each: the source, the line that is named, what is quoted from it, and words of the message.
MISTAKES: dict[str, tuple[str, int, str, list[str]]] = {
    # No Python
    "syntax": ("from sympy import exp\ny = exp(\n", 2, "y = exp(", ["never closed"]),
    "indentation": ("def f(x):\nreturn x\n", 2, "return x", ["indented block"]),
    # Exceptions
    "exception": (spec("return x*(1/0)"), 6, "return x*(1/0)", ["ZeroDivisionError", "before SymPy"]),
    "exception of the user's": (HEAD + "raise ValueError('own words')", 4, "raise", ["ValueError: own words"]),
    "exit": (HEAD + "import sys\nsys.exit(3)", 5, "sys.exit(3)", ["SystemExit", "Take out"]),
    "misspelt import": ("from sympy import expp\n", 1, "import expp", ["Did you mean exp?"]),
    "import of no function": ("from gradgen import gelu\n", 1, "import gelu", ["gradgen has", "expm1", "SymPy's"]),
    "misspelt attribute": ("import sympy\nsympy.expp(1)\n", 2, "sympy.expp", ["Did you mean exp?"]),
    "foreign module": ("import no_such_module\n", 1, "import no_such", ["sympy and gradgen"]),
    "relative import": ("from .helper import act\n", 1, "from .helper", ["without the leading dot"]),
    "missing import": (
        "from gradgen import op\n@op\ndef f(x):\n    return exp(x)\n",
        4,
        "exp(x)",
        ["from sympy import"],
    ),
    "missing import of op": ("@op\ndef f(x):\n    return x\n", 1, "@op", ["from gradgen import op"]),
    "library without import": (spec("return math.exp(x)"), 6, "math.exp(x)", ["of math take no symbols", "SymPy's"]),
    "misspelt name of the file's own": (
        "from sympy import exp\nfrom gradgen import op\n@op\ndef f(x):\n    return ex(x)\n",
        5,
        "ex(x)",
        ["Did you mean exp?"],
    ),
    "misspelt parameter": (spec("return sin(alpah*x)", "x, alpha: float = 1.0"), 6, "sin(", ["Did you mean alpha?"]),
    "parameter of another": (
        HEAD + "@op\ndef f(x, steep: float = 1.0):\n    return steep*x\n\n@op\ndef g(x):\n    return steep*x\n",
        10,
        "steep*x",
        ["make it a parameter"],
    ),
    "unknown option": (
        "from gradgen import op\n@op(inplace=True)\ndef f(x):\n    return x\n",
        2,
        "@op(",
        ["Write @op"],
    ),
    "too many arguments": (
        HEAD + "def g(x, a=1.0, *, b, c=2):\n    return a*x\n\n" + "@op\ndef f(x):\n    return g(x, x, x)\n",
        9,
        "g(x, x, x)",
        ["Call it as g(x, a=1.0, b=..., c=2)."],
    ),
    "default that is no number": (
        spec("return a*x", "x, a: float = float('nan')"),
        5,
        "def f(",
        ["is nan, which is no float"],
    ),
    "parameter that SymPy has taken": (spec("return x/(1 + exp(-beta*x))"), 6, "beta*x", ["beta: float = 1.0"]),
    "registry for a parameter": (spec("return S*x"), 6, "S*x", ["S: float = 1.0"]),
    "missing multiplication": (spec("return x(1 + x)"), 6, "x(1 + x)", ["x*(1 + x)"]),
    "missing multiplication of a function": (spec("return exp(x)(1 + x)"), 6, "exp(x)(", ["x*(1 + x)"]),
    "square brackets": (spec("return exp[x]"), 6, "exp[x]", ["exp(x)"]),
    "function of other libraries": (spec("return relu(x)"), 6, "relu(x)", ["Max(x, 0)"]),
    "capital letter": (spec("return Exp(x)"), 6, "Exp(x)", ["Did you mean exp?"]),
    "misspelt annotation": (spec("return x*k", "x, k: flaot = 1.0"), 5, "flaot", ["Did you mean float?"]),
    "annotation in small letters": (
        spec("return x", "x: tensor"),
        5,
        "tensor",
        ["is annotated sympy.tensor", "Tensor,"],
    ),
    "the same, unknown": (
        "from gradgen import op\n@op\ndef f(x: tensor):\n    return x\n",
        3,
        "tensor",
        ["mean Tensor?"],
    ),
    # Python instead of SymPy
    "if": (spec("if x > 0:\n        return x\n    return 0"), 6, "if x > 0:", ["whether x > 0 is true", "Piecewise"]),
    "truth of a symbol": (spec("return 1 if x else 0"), 6, "1 if x else 0", ["whether x is true"]),
    "while": (spec("while x < 9:\n        x = 2*x\n    return x"), 6, "while x < 9:", ["x < 9"]),
    "and": (spec("return Piecewise((1, x > 0 and x < 1), (0, True))"), 6, "x > 0 and", ["Write And(x > 0, x < 1)."]),
    "or": (spec("return Piecewise((1, x < 0 or x > 1), (0, True))"), 6, "x < 0 or", ["Write Or(x < 0, x > 1)."]),
    "not": (spec("return Piecewise((1, not x > 0), (0, True))"), 6, "not x", ["Write Not(x > 0)."]),
    "chain": (spec("return Piecewise((1, 0 < x < 1), (0, True))"), 6, "0 < x < 1", ["Write And(0 < x, x < 1)."]),
    "==": (spec("return Piecewise((1, x == 0), (0, True))"), 6, "x == 0", ["spelt", "Write Eq(x, 0)"]),
    "!=": (spec("return Piecewise((1, x != 0), (0, True))"), 6, "x != 0", ["spelt", "Write Ne(x, 0)"]),
    "== of an int": (spec("return x if n == 2 else -x", "x, n: int"), 6, "n == 2", ["Eq(n, 2)"]),
    "max": (spec("return max(x, 0)"), 6, "max(x, 0)", ["Write Max(x, 0)"]),
    "min": (spec("return min(x, 1)"), 6, "min(x, 1)", ["Write Min(x, 1)"]),
    "round": (spec("return round(x)"), 6, "round(x)", ["floor"]),
    "^": (spec("return (x + 1)^2"), 6, "^2", ["x**2"]),
    "& without brackets": (spec("return Piecewise((1, x > 0 & x < 1), (0, True))"), 6, "&", ["(x > 0) & (x < 1)"]),
    "@": (spec("return x @ y", "x, y"), 6, "x @ y", ["no matrix product"]),
    "math": ("import math\n" + spec("return math.exp(x)"), 7, "math.exp(x)", ["math.exp takes no symbols"]),
    "from math": (spec("from math import exp\n    return exp(x)"), 7, "exp(x)", ["SymPy's functions"]),
    "numpy": ("import numpy as np\n" + spec("return np.exp(x)"), 7, "np.exp(x)", ["np.exp takes no symbols"]),
    "numpy.maximum": ("import numpy\n" + spec("return numpy.maximum(x, 0)"), 7, "maximum", ["takes no symbols"]),
    "method of a tensor": (spec("return x.exp()"), 6, "x.exp()", ["Write exp(x)", "not tensors"]),
    "reduction": (spec("return x/x.sum()"), 6, "x.sum()", ["not tensors"]),
    "shape": (spec("return x/x.shape[0]"), 6, "x.shape", ["not tensors"]),
    "index": (spec("return x[0]"), 6, "x[0]", ["not tensors"]),
    "loop of unknown length": (
        spec("for _ in range(n):\n        x += 1\n    return x", "x, n: int"),
        6,
        "range(n)",
        ["has no value while the formula is read", "range(3)"],
    ),
    # Decorators
    "autocast to float64": (
        HEAD + '@op(autocast="float64")\ndef f(x):\n    return x\n',
        4,
        'autocast="float64"',
        ['@op(autocast="float32")', "@op alone"],
    ),
    "no brackets": (HEAD + "@op()\ndef f(x):\n    return x\n", 4, "@op()", ["without brackets"]),
    "no name": (HEAD + "@op('f')\ndef f(x):\n    return x\n", 4, "@op('f')", ["not 'f'"]),
    "lambda": (HEAD + "f = op(lambda x: x**2)\n", 4, "lambda", ["a lambda, which has no name"]),
    "async": (HEAD + "@op\nasync def f(x):\n    return x\n", 4, "@op", ["f is async"]),
    "generator": (spec("yield x"), 4, "@op", ["f is a generator"]),
    "class": (HEAD + "@op\nclass f:\n    pass\n", 4, "@op", ["the class f"]),
    "method": (HEAD + "class A:\n    @op\n    def f(self, x):\n        return x\n", 7, "x", ["outside of any class"]),
    "static method": (HEAD + "@op\n@staticmethod\ndef f(x):\n    return x\n", 4, "@op", ["right above a plain def"]),
    "twice": (HEAD + "@op\n@op\ndef f(x):\n    return x\n", 4, "@op", ["right above a plain def"]),
    "operation not called": (
        spec("return x") + "@op\ndef g(x):\n    return f + x\n",
        9,
        "f + x",
        ["Call the operation"],
    ),
    "several outputs inside": (spec("return x, x") + "@op\ndef g(x):\n    return f(x) + x\n", 9, "f(x)", ["apart"]),
    # Signature
    "*args": (spec("return x", "*x"), 5, "def f(*x):", ["*x", "Name every input"]),
    "**kwargs": (spec("return x", "x, **more"), 5, "**more", ["takes **more"]),
    "annotation": (spec("return x", "x: str"), 5, "x: str", ["annotated str", "Tensor(grad=False)"]),
    "annotation of numpy": ("import numpy\n" + spec("return x", "x: numpy.ndarray"), 6, "x: numpy", ["numpy.ndarray"]),
    "annotation of nothing": (spec("return x", "x: 'Nope'"), 5, "Nope", ["'Nope' is not defined", "from gradgen"]),
    "call of Tensor": (spec("return x", "x: Tensor(3)"), 5, "Tensor(3)", ["Tensor(grad=False)"]),
    "unknown argument of Tensor": (spec("return x", "x: Tensor(g=1)"), 5, "Tensor(g=1)", ["Tensor(grad=False)"]),
    "default str": (spec("return x", "x, a: float = '1'"), 5, "a: float = '1'", ["'1', which is no float", "= 1.0."]),
    "default None": (spec("return x", "x, a: float = None"), 5, "= None", ["None, which is no float"]),
    "default bool": (spec("return x", "x, a: float = True"), 5, "= True", ["True, which is no float"]),
    "default float": (spec("return x", "x, a: int = 1.0"), 5, "= 1.0", ["1.0, which is no int", "a: int = 1."]),
    "default int": (spec("return x", "x, a: bool = 1"), 5, "= 1", ["1, which is no bool", "a: bool = True."]),
    "default too large": (spec("return x", "x, a: int = 10**30"), 5, "10**30", ["2**53"]),
    "default of a tensor": (
        spec("return x", "x: Tensor = 2"),
        5,
        "x: Tensor = 2",
        ["has no default", "x: float = 2.0"],
    ),
    "order": (spec("return x", "a: float = 1.0, *, x: Tensor"), 5, "def f(", ["'x' of f has no default", "last"]),
    "no tensor": (spec("return a", "a: float"), 6, "a", ["no tensor input"]),
    "too many flags": (
        spec("return x if a0 else 0", "x, " + ", ".join(f"a{i}: bool" for i in range(9))),
        5,
        "def f(",
        ["9 bool parameters", "Piecewise"],
    ),
    # Results
    "list": (spec("return [x, x**2]"), 6, "[x, x**2]", ["a list", "a tuple of expressions"]),
    "matrix": (spec("return Matrix([x, x])"), 6, "Matrix([x, x])", ["matrices"]),
    "None": (spec("y = x**2"), 5, "def f(", ["None", "Return the formula."]),
    "str": (spec("return 'x**2'"), 6, "'x**2'", ["a str"]),
    "dict": (spec("return {'y': x}"), 6, "{'y': x}", ["a dict"]),
    "array": ("import numpy\n" + spec("return numpy.array([x])"), 7, "numpy.array([x])", ["ndarray"]),
    "condition": (spec("return x > 0"), 6, "x > 0", ["a condition", "Piecewise((1, condition), (0, True))"]),
    "bool": (spec("return True"), 6, "True", ["a condition"]),
    "empty tuple": (spec("return ()"), 6, "()", ["empty tuple"]),
    "tuple of tuples": (spec("return x, (x, x)"), 6, "x, (x, x)", ["a tuple, not an expression"]),
    "one branch": (spec("if flag:\n        return x", "x, flag: bool"), 7, "x", ["None"]),
    "as many outputs": (spec("return (x, x) if flag else x", "x, flag: bool"), 6, "(x, x) if", ["a list"]),
    # What is in a formula
    "unknown function": (
        spec("return zeta(x) + 1"),
        6,
        "zeta(x) + 1",
        ["function zeta", "Functions that gradgen knows"],
    ),
    "function of the user's": (spec("return Function('g')(x)"), 6, "Function('g')", ["the function g, in g(x)"]),
    "in another return": (spec("if c:\n        return zeta(x)\n    return x", "x, c: bool"), 6, "if c:", ["zeta"]),
    "free symbol": (spec("return x*Symbol('beta')"), 6, "x*Symbol", ["'beta' is no parameter", "add beta"]),
    "dummy": (spec("return x*Dummy('x')"), 6, "Dummy", ["the Dummy 'x'"]),
    "derivative left": (spec("return Derivative(sin(x), x)"), 6, "Derivative", ["left as it is", ".doit()"]),
    "integral left": (spec("t = Symbol('t')\n    return Integral(t*x, (t, 0, 1))"), 7, "Integral", [".doit()"]),
    "sum left": (spec("k = Symbol('k')\n    return Sum(x**k, (k, 0, oo))"), 7, "Sum", ["left as it is"]),
    "series": (spec("return series(exp(x), x, 0, 3)"), 6, "series", [".removeO()"]),
    "condition as number": (spec("return x*(x > 0)"), 6, "x*(x > 0)", ["A condition is no number"]),
    "condition in a function": (
        spec("return exp(x > 0)"),
        6,
        "exp(x > 0)",
        ["x > 0 is a condition", "Piecewise((1, x > 0)"],
    ),
    "flag as number": (spec("return x*flag", "x, flag: bool"), 6, "x*flag", ["flag is a condition"]),
    "number as condition": (spec("return Piecewise((1, x), (0, True))"), 6, "(1, x)", ["x is a number", "x > 0"]),
    "sum as condition": (spec("return Piecewise((1, x + 1), (0, True))"), 6, "x + 1", ["Boolean", "a comparison"]),
    "numbers in ITE": (spec("return ITE(x > 0, x, -x)"), 6, "ITE(x", ["Piecewise((a, condition)"]),
    "Python's sum": (spec("return exp(x)/sum(exp(x))"), 6, "sum(exp", ["element by element"]),
    "sum of nothing": (spec("return Sum(x)"), 6, "Sum(x)", ["element by element"]),
    "assertion": (spec("assert k > 0\n    return k*x", "x, k: float = 1.0"), 6, "assert k > 0", ["Take it out"]),
    "branch without brackets": (spec("return Piecewise(x, x > 0)"), 6, "Piecewise(x", ["Each branch is a pair"]),
    "no branch": (spec("return Piecewise()"), 6, "Piecewise()", ["Each branch is a pair"]),
    "arguments": (spec("return exp(x, 2)"), 6, "exp(x, 2)", ["exactly 1 argument"]),
    "order that is no number": (spec("return besselj(y, x)", "x, y"), 6, "besselj(y, x)", ["whole number from 0 to 8"]),
    "series of symbols": (bare("x = IndexedBase('x')\ni = symbols('i')\nf = x[i]**2"), 5, "x[i]**2", ["Indexed"]),
    "too deep": (spec("for _ in range(2000):\n        x = sin(x)\n    return x"), 8, "x", ["nested 2001 steps deep"]),
    # Not real
    "sqrt": (spec("return sqrt(-1 - x**2)"), 6, "sqrt(-1 - x**2)", ["not real for any input"]),
    "I": (spec("return I*x"), 6, "I*x", ["I is not a real number"]),
    "1j": (spec("return 1j*x"), 6, "1j*x", ["not a real number"]),
    "log": (spec("return log(-1 - x**2)"), 6, "log(-1 - x**2)", ["not real for any input"]),
    "log to a base": (spec("return log(x, -2)"), 6, "log(x, -2)", ["not real for any input"]),
    "asin": (spec("return asin(2 + x**2)"), 6, "asin(2 + x**2)", ["not real for any input"]),
    "acosh": (spec("return acosh(-exp(x))"), 6, "acosh(-exp(x))", ["not real for any input"]),
    "atanh": (spec("return atanh(2 + exp(x))"), 6, "atanh(2 + exp(x))", ["not real for any input"]),
    "power": (spec("return (-1 - x**2)**0.3"), 6, "**0.3", ["not real for any input"]),
    "root of a local": (spec("a = -exp(x)\n    return x + sqrt(a)"), 7, "x + sqrt(a)", ["sqrt(-exp(x)) is not real"]),
    "power of a negative": (spec("return (-2)**x"), 6, "(-2)**x", ["not real for most inputs", "int parameter"]),
    "asin(2)": (spec("return x*asin(2)"), 6, "x*asin(2)", ["asin(2) is not a real number"]),
    "acosh(0)": (spec("return x*acosh(0)"), 6, "x*acosh(0)", ["acosh(0) is not a real number"]),
    "log(-2)": (spec("return x + log(-2)"), 6, "log(-2)", ["log(-2) is not a real number"]),
    "erfinv(2)": (spec("return x*erfinv(2)"), 6, "erfinv(2)", ["erfinv(2) is not a real number"]),
    "cube root of -8": (spec("return x*(-8)**Rational(1, 3)"), 6, "(-8)", ["not a real number"]),
    "infinity": (spec("return x + oo"), 6, "x + oo", ["oo is infinite", "branch of a Piecewise"]),
    "infinite float": (spec("return x + 1e400"), 6, "x + 1e400", ["infinite"]),
    "infinite function": (spec("return x*loggamma(-1)"), 6, "loggamma(-1)", ["loggamma(-1) is infinite"]),
    "zoo": (spec("return x + zoo"), 6, "x + zoo", ["zoo is not a real number"]),
    "nan": (spec("return nan"), 6, "nan", ["undefined"]),
    "division by zero": (spec("return x/(S(1) - 1)"), 6, "x/(S(1) - 1)", ["not a real number"]),
    "too large": (spec("return x + 10**400"), 6, "10**400", ["larger than any float64"]),
    "too many digits to print": (spec("return x*10**5000"), 6, "10**5000", ["larger than any float64"]),
    "too large Float": (spec("return x + Float('1e400')"), 6, "1e400", ["larger than any float64"]),
    "tower": (spec("return x + Integer(10)**10**10"), 6, "10**10", ["more than 2000 digits"]),
    "factorial": (spec("return x + factorial(10**6)"), 6, "factorial", ["larger than any float64"]),
    # Names
    "upper case": (spec("return x", name="Swish"), 6, "x", ["'Swish' is no name for an operation", "lower-case"]),
    "underscore": (spec("return x", name="_f"), 6, "x", ["'_f' is no name for an operation", "not an underscore"]),
    "keyword as symbol": ("from sympy import *\nf = symbols('lambda')**2\n", 2, "lambda", ["for example lambda_"]),
    "no identifier": ("from sympy import *\nf = symbols('my-x')**2\n", 2, "my-x", ["for example my_x"]),
    "Greek parameter": (spec("return α*x", "x, α: float"), 6, "α*x", ["'α' is no name", "for example alpha"]),
    "Greek operation": (spec("return x", name="ψ"), 6, "x", ["'ψ' is no name", "for example psi"]),
    "accent": (spec("return x", name="naïve"), 6, "x", ["for example naive"]),
    "builtin": (spec("return x", name="sum"), 6, "x", ["hide 'sum'", "sum_op"]),
    "exception class": (spec("return x", name="value_error"), 6, "x", ["hide 'ValueError'"]),
    "torch": (spec("return x", name="torch"), 6, "x", ["hide 'torch'"]),
    "rt": (spec("return x", name="rt"), 6, "x", ["hide 'rt'"]),
    "tensor": (spec("return x", name="tensor"), 6, "x", ["hide 'Tensor'"]),
    "any_": (spec("return x", name="any_"), 6, "x", ["hide 'Any'"]),
    "sequence": (spec("return x", name="sequence"), 6, "x", ["hide 'Sequence'"]),
    "bare builtin": (bare("list = x**2"), 3, "list = x**2", ["hide 'list'"]),
    "same name": (spec("return x") + spec("return x"), 12, "x", ["two operations", "called f", "line 6"]),
    "same class": (spec("return x", name="a_b") + spec("return x", name="aB"), 12, "x", ["a_b and aB both"]),
    "class of a Function": (spec("return x", name="g") + spec("return x", name="g_function"), 12, "x", ["GFunction"]),
    "same name, bare": (spec("return x") + "f = Symbol('y')**2\n", 7, "f = Symbol", ["two operations", "called f"]),
    "parameter like the operation": (spec("return f*x", "x, f"), 6, "f*x", ["'f' is no name for an input of f"]),
    # The user's own derivatives
    "of no input": (derived("@f.derivative('z')\ndef _(x):\n    return x"), 9, '@f.derivative("z")', ["'z'", ": x."]),
    "of an input without": (derived("@f.derivative('y')\ndef _(x):\n    return x"), 9, '("y")', ["'y'", ": x."]),
    "of a hyper-parameter": (derived("@f.derivative('a')\ndef _(x):\n    return x"), 9, '("a")', ["'a'", ": x."]),
    "of two inputs": (derived("@f.derivative('x', 'y')\ndef _(x):\n    return x"), 8, "'y'", ["one more for each"]),
    "under another name": (derived("@f.gradient('x')\ndef _(x):\n    return x"), 8, "f.gradient", ["@name.derivative"]),
    "of nothing": (derived("@f.derivative\ndef _(x):\n    return x"), 8, "@f.derivative", ["without the name"]),
    "of f, twice": (
        derived("@f.derivative('x')\ndef _(x):\n    return x\n@f.derivative('x')\ndef _(x):\n    return x"),
        11,
        "@f.derivative('x')",
        ["two derivatives by 'x'"],
    ),
    "of another parameter": (
        derived("@f.derivative('x')\ndef _(z):\n    return z"),
        9,
        "def _(z)",
        ["takes z", "x, y, a"],
    ),
    "of *args": (derived("@f.derivative('x')\ndef _(*x):\n    return x[0]"), 9, "def _(*x)", ["takes *x"]),
    "of two outputs": (
        derived("@f.derivative('x')\ndef _(x):\n    return x, x"),
        10,
        "x, x",
        ["2 expressions", "1 output"],
    ),
    "of no function": (derived("f.derivative('x')(3)"), 8, "(3)", ["no function"]),
    "of an operation": (derived("@f.derivative('x')\n@op\ndef g(x):\n    return x"), 8, "@f", ["no function"]),
    "of a plain function": (
        HEAD + "def f(x):\n    return x\n@f.derivative('x')\ndef _(x):\n    0\n",
        6,
        "@f",
        ["@op above"],
    ),
    "None as derivative": (derived("@f.derivative('x')\ndef _(x):\n    x"), 9, "def _", ["of f by 'x' gives None"]),
    "condition as derivative": (
        derived("@f.derivative('x')\ndef _(x):\n    return x > 0"),
        10,
        "x > 0",
        ["a condition"],
    ),
    "complex derivative": (
        derived("@f.derivative('x')\ndef _(x):\n    return sqrt(-1 - x**2)"),
        10,
        "sqrt",
        ["not real"],
    ),
    "unknown in a derivative": (derived("@f.derivative('x')\ndef _(x):\n    return zeta(x)"), 10, "zeta(x)", ["zeta"]),
    "lost": (
        derived("@f.derivative('x')\ndef _(x):\n    return x\n@op\ndef g(x):\n    return f(x, x)"),
        13,
        "f(x, x)",
        ["lost"],
    ),
    "lost later": (
        spec("return x**2") + "_y = f(Symbol('t'))\n@f.derivative('x')\ndef _(x):\n    return x\n",
        8,
        "@f.derivative('x')",
        ["which would be lost"],
    ),
    # The bare form
    "bare list": (bare("f = [x**2, x]"), 3, "f = [x**2, x]", ["f is a list", "a name of its own"]),
    "bare matrix": (bare("f = Matrix([x**2])"), 3, "f = Matrix", ["matrices"]),
    "bare dict": (bare("f = {'a': x**2}"), 3, "f = {", ["f is a dict"]),
    "bare condition": (bare("f = x > 0"), 3, "f = x > 0", ["no operation", "a condition"]),
    "bare function": (bare("def f(x):\n    return x"), 3, "def f(x):", ["no operation", "Write @op above it"]),
    "two symbols": (bare("y = symbols('x', positive=True)\nf = x*y"), 4, "f = x*y", ["both called x"]),
    "imaginary symbol": ("from sympy import *\nf = symbols('x', imaginary=True)**2\n", 2, "f = ", ["not to be real"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message_tells_place_quote_and_remedy(name: str, tmp_path: Path) -> None:
    source, line, quoted, words = MISTAKES[name]
    first, second, *_ = lines = message(tmp_path, source).splitlines()
    assert first.startswith(f"spec.py:{line}: "), lines
    assert second.startswith("    ")
    assert quoted in second
    for word in words:
        assert word in "\n".join(lines)


@pytest.mark.parametrize("name", [name for name in MISTAKES if name not in ("too large", "tower")])
def test_message_is_readable(name: str, tmp_path: Path) -> None:
    text = message(tmp_path, MISTAKES[name][0])
    assert "Traceback" not in text
    assert "site-packages" not in text
    assert " object at 0x" not in text
    assert str(tmp_path) not in text
    assert "__gradgen" not in text


NO_ATTRIBUTES = """
    forward training type half to eval train apply double parameters name shapes needs_input_grad _slope
""".split()  # noqa: SIM905
IN_USE = "self ctx torch rt Tensor Any super tuple float".split()  # noqa: SIM905


@pytest.mark.parametrize("name", NO_ATTRIBUTES)
def test_hyper_parameter_hides_no_attribute(name: str, tmp_path: Path) -> None:
    text = message(tmp_path, spec(f"return x*{name}", f"x: Tensor, {name}: float = 1.0"))
    assert f"{name!r} is no name for a hyper-parameter of f" in text
    assert "Rename it, for example" in text


def test_hyper_parameters_that_torch_has_attributes_for_are_all_known() -> None:
    torch = pytest.importorskip("torch")
    from gradgen.load import _ATTRIBUTES

    public = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert public <= _ATTRIBUTES


@pytest.mark.parametrize("kind", ["Tensor", "float"])
@pytest.mark.parametrize("name", IN_USE)
def test_parameter_does_not_take_a_name_of_the_generated_module(name: str, kind: str, tmp_path: Path) -> None:
    annotation = "gradgen.Tensor" if kind == "Tensor" else kind
    source = f"import gradgen\n@gradgen.op\ndef f(y, {name}: {annotation}):\n    return y*{name}\n"
    assert f"{name!r} is no name for" in message(tmp_path, source)


@pytest.mark.parametrize("name", ["input", "min", "max", "eps", "forward", "grad", "out", "real", "lambda_"])
def test_tensors_may_have_usual_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.py"
    path.write_text(spec(f"return x*{name}", f"x: Tensor, {name}: Tensor"))
    compile(generate.module(path, build.templates_dir()), "generated", "exec")


def test_recursion(tmp_path: Path) -> None:
    first, _, hint = message(tmp_path, spec("return f(x) + 1")).splitlines()
    assert re.match(r"spec\.py:[456]: RecursionError", first)
    assert "no operation calls itself" in hint


class TestWholeFile:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(GradgenError, match=r"nope\.py: cannot read the spec file: No such file"):
            generate.module(tmp_path / "nope.py", build.templates_dir())

    @pytest.mark.parametrize("source", ["", "import sympy\n", "from sympy import *\nx = symbols('x')\nc = pi**2\n"])
    def test_without_operation(self, source: str, tmp_path: Path) -> None:
        text = message(tmp_path, source)
        assert text.startswith("spec.py: no operation in this file")
        assert "@op" in text

    def test_not_utf8(self, tmp_path: Path) -> None:
        assert "not UTF-8" in message(tmp_path, b"# caf\xe9\n")

    def test_null_byte(self, tmp_path: Path) -> None:
        assert "null bytes" in message(tmp_path, b"x = 1\0\n")

    @pytest.mark.parametrize("change", [lambda s: s.replace("\n", "\r\n"), lambda s: "\ufeff" + s, lambda s: "\f" + s])
    def test_line_ends_and_marks_do_not_move_the_line(self, change: object, tmp_path: Path) -> None:
        text = message(tmp_path, change(spec("return zeta(x) + 1")))  # type: ignore[operator]
        assert text.splitlines()[:2] == [
            "spec.py:6: gradgen does not know the function zeta, in zeta(x)",
            "    zeta(x) + 1",
        ]

    def test_formula_of_several_lines_is_quoted_whole(self, tmp_path: Path) -> None:
        lines = message(tmp_path, spec("return (x +\n            zeta(x))")).splitlines()
        assert lines[1:3] == ["    x +", "    zeta(x)"]

    def test_mistake_in_a_sibling_is_told_where_it_is_imported(self, tmp_path: Path) -> None:
        (tmp_path / "helper.py").write_text("def act(x:\n")
        text = message(tmp_path, "from helper import act\n")
        assert text.startswith("spec.py:1: SyntaxError")
        assert "helper.py, line 1" in text

    def test_unknown_function_deep_inside_is_told_at_once(self, tmp_path: Path) -> None:
        text = message(
            tmp_path, spec("x = zeta(x)\n    for _ in range(40):\n        x = x*exp(-x)\n    return gamma(zeta(x))")
        )
        assert "zeta" in text
        assert len(text) < 2000


class TestCommand:
    @pytest.fixture
    def runner(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
        monkeypatch.chdir(tmp_path)
        return CliRunner()

    def test_mistake_ends_with_2_and_leaves_the_earlier_output(self, runner: CliRunner) -> None:
        Path("act.py").write_text(spec("return x**2"))
        assert runner.invoke(cli.main, ["build", "act.py", "-o", "out"]).exit_code == 0
        before = Path("out/act.py").read_bytes()
        Path("act.py").write_text(spec("return zeta(x)"))
        result = runner.invoke(cli.main, ["build", "act.py", "-o", "out"])
        assert result.exit_code == 2
        assert "act.py:6: gradgen does not know the function zeta" in result.output
        assert "Traceback" not in result.output
        assert Path("out/act.py").read_bytes() == before
        assert not list(Path("out").glob("*.tmp"))

    def test_debug_shows_the_traceback(self, runner: CliRunner) -> None:
        Path("act.py").write_text(spec("return x*(1/0)"))
        result = runner.invoke(cli.main, ["build", "act.py", "-o", "out", "--debug"])
        assert result.exit_code == 2
        assert "Traceback" in result.output

    def test_spec_that_exits_does_not_end_the_build(self, runner: CliRunner) -> None:
        Path("a.py").write_text("raise SystemExit(0)\n")
        Path("b.py").write_text(spec("return x**2"))
        result = runner.invoke(cli.main, ["build", "a.py", "b.py", "-o", "out", "-j", "1"])
        assert result.exit_code == 2
        assert Path("out/b.py").exists()
        assert not Path("out/a.py").exists()

    def test_spec_may_print(self, runner: CliRunner) -> None:
        Path("act.py").write_text(spec("print('hello')\n    return x**2"))
        assert runner.invoke(cli.main, ["build", "act.py", "-o", "out"]).exit_code == 0
