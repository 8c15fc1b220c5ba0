"""Names for generated code: valid in Python, C and CUDA, the user's own where there is one."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from sympy import Integer, Rational

from gradgen.graph import CONDITIONS, Node, topological
from gradgen.primitives import MARKS, PRIMITIVES, PRODUCTS

_C_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    class delete new operator private protected public template this throw try catch typename using namespace virtual
    friend explicit export mutable and or not xor bool true false nullptr constexpr alignas alignof thread_local
    real half complex imaginary errno stdin stdout stderr linux unix
    threadIdx blockIdx blockDim gridDim warpSize
""".split()  # noqa: SIM905 - as a list of strings it would take forty lines
_PYTHON_NAMES = ["torch", "rt", "wanted", "like", "math", "None", "True", "False"]
RESERVED = frozenset([*_C_WORDS, *_PYTHON_NAMES, *keyword.kwlist, *PRIMITIVES, "sqrt", "fabs", "tgamma", "sgn", "over"])

_SHORT = {"logistic_density": "density", "maximum": "max", "minimum": "min", "modulus": "abs"}
_NOUNS = {"add": "sum", "pow": "power", "where": "branch", "unit": "direction"}
_NOUNS |= dict.fromkeys(("mul", "damp", "xmul"), "product")


class Namer:
    """Hands out the names of one op, and in a copy of itself those of one kernel.

    Args:
        taken: names that exist already.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._spelled: dict[str, str] = {}
        self._scope: set[str] = set()

    def copy(self) -> Namer:
        """A namer for a kernel, which knows the op's names and has a scope of its own."""
        copy = Namer(self._taken)
        copy._spelled = dict(self._spelled)
        return copy

    def fresh(self, name: str) -> str:
        """A new name of the op, like `name`."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def local(self, name: str) -> str:
        """The spelling in kernels of a name of the op, in whichever kernel the same."""
        if name not in self._spelled:
            spelled = _valid(name)
            while spelled in self._spelled.values() or (spelled != name and spelled in self._taken):
                spelled += "_"
            self._spelled[name] = spelled
        self._scope.add(self._spelled[name])
        return self._spelled[name]

    def statement(self, name: str) -> str:
        """A name for an intermediate result of this kernel, like `name`."""
        spelled = _valid(name)
        while spelled in self._scope:
            spelled += "_"
        self._scope.add(spelled)
        return spelled

    def describe(self, node: Node, names: dict[Node, str]) -> str:
        """A name that says what a node is: sigmoid_x, x_squared, product1."""
        if node.op in MARKS:
            return self.describe(node.args[0], names)
        if node.op in CONDITIONS:
            return self.statement(self._numbered("condition"))
        words = [names.get(arg) for arg in node.args]
        described = _power_name(node, names) if node.op == "pow" else None
        op = "product" if node.op in PRODUCTS else _SHORT.get(node.op, node.op)
        if described is None and node.op == "mul" and node.args[0].is_number(-1):
            described = _argument_name(node, names)
        if described is None and node.op == "mul" and all(words) and not any("_" in str(word) for word in words):
            described = "_".join(map(str, words))
        if described is None and node.op not in _NOUNS and len(words) == 1:
            described = f"{op}_{_argument_name(node.args[0], names)}" if _argument_name(node.args[0], names) else None
        if described is not None and described not in self._scope and described == _valid(described):
            return self.statement(described)
        weighted = node.op == "where" and any(below.op == "given" for below in topological(node.args[:1]))
        return self.statement(self._numbered("term" if weighted else _NOUNS.get(node.op, op)))

    def _numbered(self, noun: str) -> str:
        number, stem = 1, f"{noun}_" if noun[-1].isdigit() else noun  # expm1_1
        while f"{stem}{number}" in self._scope or f"{stem}{number}" in RESERVED:
            number += 1
        return f"{stem}{number}"


def _valid(name: str) -> str:
    """The name, changed where it means something in C, in CUDA or in the generated Python."""
    # An upper-case name may be a macro of some C header (I is).
    clash = name in RESERVED or name.startswith(("gg_", "_", "has_", "want_")) or name == "I" or name[1:].isupper()
    return f"{name.lstrip('_')}_" if clash else name


def _argument_name(node: Node, names: dict[Node, str]) -> str | None:
    if node in names:
        return names[node]
    prefix = (
        "neg" if node.op == "mul" and node.args[0].is_number(-1) else "abs" if node.op in ("abs", "modulus") else ""
    )
    inner = _argument_name(node.args[-1], names) if prefix else None
    return f"{prefix}_{inner}" if inner else None


def _power_name(node: Node, names: dict[Node, str]) -> str | None:
    base, exponent = node.args
    if base not in names:
        return None
    forms = {Integer(2): "{}_squared", Integer(3): "{}_cubed", Rational(1, 2): "sqrt_{}", Integer(-1): "inv_{}"}
    form = forms.get(exponent.number) if exponent.number is not None else None
    return form.format(names[base]) if form else None
