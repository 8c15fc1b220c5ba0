"""What the exceptions mean that mistakes in a spec file raise, and what to write instead."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator

import sympy

import gradgen
from gradgen.literal import builds

# Libraries that compute with numbers and tensors, and under which names people import them
_FOREIGN = ("math", "cmath", "numpy", "scipy", "torch", "jax")
_ALIASES = ("np", "jnp")
_USE_SYMPY = "Use SymPy's functions: from sympy import exp, Max, Piecewise, ..."
_SYMBOLS = "The inputs are SymPy symbols, a formula for one element, not tensors."

# How a formula has what is a function elsewhere.
_WRITTEN = {
    "relu": "Max(x, 0)",
    "silu": "x/(1 + exp(-x))",
    "clip": "Min(Max(x, least), most)",
    "clamp": "Min(Max(x, least), most)",
    "softmax": "exp(x)/(exp(x) + exp(y)), of inputs for one element",
    "logsumexp": "log(exp(x) + exp(y)), of inputs for one element",
    "square": "x**2",
    "rsqrt": "1/sqrt(x)",
}

# The text of an exception, and what to do about it; {0}, {1} are what the brackets match.
_HINTS: tuple[tuple[str, str], ...] = (
    (r"expecting bool or Boolean", "ITE is of conditions; of numbers write Piecewise((a, condition), (b, True))."),
    (r"truth value of Relational", "Write Piecewise((a, condition), (b, True)); for and, or, not: And, Or, Not."),
    (r"(Cannot convert expression|must be real number)", "Use SymPy's functions: from sympy import exp, sin, ..."),
    (r"Cannot round|Cannot convert symbols to int", "Write floor(x), or floor(x + S(1)/2) to round."),
    (r"ufunc|no callable|must be Tensor, not", "Use SymPy's functions: from sympy import exp, sin, ..."),
    (r"operand type\(s\) for \^", "Write a power as x**2; ^ is Python's exclusive or."),
    (r"operand type\(s\) for [&|]", "Put each comparison into brackets: (x > 0) & (x < 1)."),
    (r"operand type\(s\) for @", "A formula is computed element by element; it has no matrix product."),
    (r"operand type\(s\) for .*'Op'", "Call the operation: name(x)."),
    (
        r"operand type\(s\) for .*'(\w*Than|\w*Equality|And|Or|Not|Boolean\w*)'|BooleanAtom not allowed",
        "A condition is no number: write Piecewise((1, condition), (0, True)).",
    ),
    (r"'(?!NoneType|module|Op')\w+' object is not callable", "Write the multiplication: x*(1 + x)."),
    (r"type '\w+' is not subscriptable|'\w*(Meta|Class)' object is not subscriptable", "Call a function: exp(x)."),
    (r"division by zero", "Python divides before SymPy sees it; an infinite branch of a Piecewise is oo."),
    (r"argument must be a Boolean", "A condition is a comparison, such as x > 0 or Eq(x, 0)."),
    (r"ExprCondPair|\(expr, cond\) pair", "Each branch is a pair: Piecewise((x, x > 0), (0, True))."),
    (
        r"'Symbol' object cannot be interpreted as an integer",
        "An input has no value while the formula is read: write the number of steps as a number, range(3).",
    ),
    (r"'Symbol' object is not (subscriptable|iterable)|non-iterable Symbol", _SYMBOLS),
    (
        r"object is not iterable|Sum requires|Product requires",
        "A formula is computed element by element; it has no sums along a dimension.",
    ),
    (
        r"Op\.derivative\(\) takes",
        'A derivative is by one input: write @name.derivative("x"), and one more for each other.',
    ),
    (
        r"'Op' object has no attribute",
        'A gradient of your own is @name.derivative("x") above a function of the inputs.',
    ),
    (r"'function' object has no attribute 'derivative'", "Put @op above the function that it is a derivative of."),
    (r"^op\(\) (got|takes)", 'Write @op alone, or @op(autocast="float32").'),
    (r"Tensor\.__init__\(\)", "Write Tensor, Tensor(grad=False), or Tensor(init=1.0)."),
    (r"relative import", "Write it without the leading dot; the folder of the spec file is searched first."),
    (r"'tuple'.*operand|operand.*'tuple'|concatenate tuple", "Take a tuple apart first: a, b = name(x)."),
    (
        r"maximum recursion depth",
        "A formula has a fixed number of steps, a few hundred at most; no operation calls itself.",
    ),
)


def explain(error: BaseException, statement: ast.stmt | None, tree: ast.Module) -> tuple[str, str | None]:
    """The problem in a sentence, and a hint where the mistake is a known one."""
    text = re.sub(r" \((?:/|[A-Za-z]:).*\)$", "", " ".join(str(error).split("\n\n")[0].splitlines()[:2]).strip())
    problem = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(statement, ast.Assert):
        return problem, "Take it out: a formula holds for all numbers; what is to be refused is refused by the caller."
    hint = _call_hint(statement, tree, text) or _taken_hint(statement, text) or _text_hint(text)
    return problem, hint or _signature_hint(error, tree, text) or _type_hint(error, tree, text)


def _text_hint(text: str) -> str | None:
    return next((hint for pattern, hint in _HINTS if re.search(pattern, text)), None)


def _signature_hint(error: BaseException, tree: ast.Module, text: str) -> str | None:
    """How a function of the file is called, where it was called in another way."""
    found = re.match(r"(\w+)\(\) (takes|got|missing)", text) if isinstance(error, TypeError) else None
    for node in ast.walk(tree):
        if found and isinstance(node, ast.FunctionDef) and node.name == found[1]:
            return f"Call it as {node.name}({', '.join(_parameters(node.args))})."
    return None


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """The parameters of a function as they are written, without their annotations."""
    named = [*arguments.posonlyargs, *arguments.args]
    without = len(named) - len(arguments.defaults)
    for k, argument in enumerate(named):
        yield argument.arg if k < without else f"{argument.arg}={ast.unparse(arguments.defaults[k - without])}"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield f"{argument.arg}=" + ("..." if default is None else ast.unparse(default))


def _type_hint(error: BaseException, tree: ast.Module, text: str) -> str | None:
    if isinstance(error, SystemExit):
        return "Take out what ends Python: the file is executed to read its formulas."
    if isinstance(error, UnboundLocalError):
        return None
    if isinstance(error, NameError):
        return _name_hint(str(getattr(error, "name", "")), tree)
    if isinstance(error, ModuleNotFoundError):
        return "A spec file needs sympy and gradgen, and may import the files beside it."
    if isinstance(error, ImportError | AttributeError):
        return _attribute_hint(text)
    return None


def _name_hint(name: str, tree: ast.Module) -> str:
    if name == "where":
        return "Write Piecewise((a, condition), (b, True)), SymPy's choice: from sympy import Piecewise."
    if name in (*_FOREIGN, *_ALIASES):
        return f"The functions of {name} take no symbols. {_USE_SYMPY}"
    if name in _WRITTEN:
        return f"Write it as a formula: {_WRITTEN[name]}."
    for public in gradgen.__all__:
        if name != public and name.lower() == public.lower():
            return f"Did you mean {public}? Import it: from gradgen import {public}."
    if name != name.lower() and builds(sympy, name.lower()):
        return f"Did you mean {name.lower()}? Import it: from sympy import {name.lower()}."
    for module, names in (("gradgen", gradgen.__all__), ("sympy", dir(sympy))):
        if name in names:
            return f"Import it: from {module} import {name}."
    of_the_file = _names(tree)
    here = difflib.get_close_matches(name, of_the_file, 1, 0.75)
    if here and name not in of_the_file:  # else it is another function's, or defined below
        return f"Did you mean {here[0]}?"
    similar = _similar(name, ("float", "bool"))
    question = f"Did you mean {similar}? If not, import" if similar else "Import"
    return f"{question} it, define it, or make it a parameter of the operation."


def _names(tree: ast.Module) -> set[str]:
    """What is imported or defined in a file, at any place, and the parameters of its functions."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _attribute_hint(text: str) -> str | None:
    found = re.search(r"'?(\w+)'? object has no attribute '(\w+)'", text)
    if found and found[1] in ("Symbol", "Add", "Mul", "Pow"):
        name = found[2]
        known = builds(sympy, name) or name in gradgen.__all__
        return f"Write {name}(x): the inputs are SymPy symbols, not tensors." if known else _SYMBOLS
    found = re.search(r"import name '(\w+)'|has no attribute '(\w+)'", text)
    similar = _similar(found[1] or found[2]) if found else None
    if similar is None and "from 'gradgen'" in text:
        public = ", ".join(name for name in gradgen.__all__ if name[0] != "_")
        return f"gradgen has {public}; the other functions of formulas are SymPy's."
    return f"Did you mean {similar}?" if similar else None


def _similar(name: str, others: Iterable[str] = ()) -> str | None:
    matches = difflib.get_close_matches(name, [*others, *gradgen.__all__, *dir(sympy)], 1, 0.75)
    return matches[0] if matches else None


def _call_hint(statement: ast.stmt | None, tree: ast.Module, text: str) -> str | None:
    """A hint from what the statement calls: Python's max, or a function of a library of numbers or tensors."""
    if not re.search("truth value|[Cc]annot convert|ufunc|callable|must be|invalid combination|not supported", text):
        return None
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement else []
    for call in calls:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in ("max", "min"):
            return f"Write {name.title()}({', '.join(map(ast.unparse, call.args))}), SymPy's {name.title()}."
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in _libraries(tree):
            written = ast.unparse(call.func)
            return f"{written} takes no symbols. {_USE_SYMPY}"
    return None


def _taken_hint(statement: ast.stmt | None, text: str) -> str | None:
    """A hint where a parameter was forgotten that is called like something of SymPy's, as beta, gamma and S are."""
    if statement is None or not re.search("'(FunctionClass|ExpMeta|SingletonRegistry|function)'", text):
        return None
    called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and id(node) not in called and hasattr(sympy, node.id):
            return (
                f"{node.id} is SymPy's here: call it, or make it a parameter of the operation, {node.id}: float = 1.0."
            )
    return None


def _libraries(tree: ast.Module) -> set[str]:
    """The names of imported modules that compute with numbers, not with symbols."""
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    foreign = [a for a in aliases if a.name.split(".")[0] in _FOREIGN]
    return {alias.asname or alias.name.split(".")[0] for alias in foreign}
