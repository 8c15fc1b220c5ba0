"""The values of nodes in mpmath's working precision, by MPFR wherever it can tell, which takes a tenth of the time.

MPFR rounds correctly, and so is the same on every machine. A function that it does not have is left to mpmath; so is
everything where something on the way overflows, underflows or is divided by 0, for mpmath's numbers know no bounds.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import gmpy2
import mpmath
import sympy
from mpmath import mpf

from gradgen import evaluate
from gradgen.graph import HALF, Node
from gradgen.mpfr_functions import FUNCTIONS, RANGE, Number, lifted, lowered, slow
from gradgen.primitives import PRIMITIVES, PRODUCTS

Point = Mapping[str, float | mpf | bool]  # the values of inputs by name
_Compute = Callable[[Mapping[str, Number], Sequence[Number]], list[Number]]

_STEP = 256  # bits; numbers of a formula are had in as many of these as are needed

# What takes long to thousands of digits.
_LABORIOUS = PRIMITIVES.keys() - FUNCTIONS.keys() | {"erf", "erfc"} | evaluate.SUMMED
_LABORIOUS |= {product for product, name in PRODUCTS.items() if name in _LABORIOUS}

# What to doubles is 0, or infinite, where something on the way underflows or overflows.
_EXPONENTIALS = frozenset({"exp", "expm1", "sech", "sigmoid", "logistic_density", "softplus", "logaddexp"})
_EXPONENTIALS |= {product for product, name in PRODUCTS.items() if name in _EXPONENTIALS}

# Of functions that can lose bits, how many, from the exponents of operands and result.
_CANCELLING: dict[str, Callable[..., float]] = {
    "add": lambda a, b, result: max(a, b) - result,
    **dict.fromkeys(("log", "log2", "log10", "acosh", "acos"), lambda a, result: -result),
    **dict.fromkeys(("sin", "cos", "tan"), lambda a, result: max(a, 0) - result),
}


def in_doubles(
    op: str, rows: Iterable[Sequence[float]], precision: int, power: int = 0
) -> list[tuple[float, float, bool] | None]:
    """A primitive of doubles, to so many bits: the nearest double, what that lacks, and whether it is a whole number.

    None where MPFR cannot tell. The primitive is multiplied by a power of two before.
    """
    compute = FUNCTIONS.get(op)
    if compute is None:
        return [None for _ in rows]
    found: list[tuple[float, float, bool] | None] = []
    with gmpy2.context(emin=-RANGE, emax=RANGE, precision=precision) as context:
        for args in rows:
            context.clear_flags()
            value = gmpy2.mul_2exp(compute(*map(gmpy2.mpfr, args)), power)
            nearest = float(value)
            if op in _EXPONENTIALS and (context.underflow or math.isinf(nearest)) and not context.invalid:
                found.append((nearest, 0.0, nearest != 0))
            elif context.invalid or is_beyond(context) or not math.isfinite(nearest):
                found.append(None)
            else:
                found.append((nearest, float(value - nearest), value.is_integer()))
    return found


def is_laborious(order: Iterable[Node]) -> bool:
    """Whether thousands of digits of some nodes take long."""
    return not _LABORIOUS.isdisjoint(node.op for node in order)


def is_summed(order: Iterable[Node]) -> bool:
    """Whether thousands of digits of some nodes take MPFR longer than mpmath."""
    return not evaluate.SUMMED.isdisjoint(node.op for node in order)


class Evaluation:
    """What a program found at a point.

    Args:
        program: the program.
        found: the value of each of its nodes.
        is_quick: whether they are numbers of MPFR, not of mpmath.

    Attributes:
        is_quick: whether it was MPFR that found it.
        found: the values of the roots as they were found.
    """

    def __init__(self, program: Program, found: Sequence[Any], is_quick: bool) -> None:
        self.is_quick, self.found = is_quick, [found[root] for root in program.roots]
        self._program, self._found = program, found

    @cached_property
    def values(self) -> tuple[mpf, ...]:
        """The values of the roots; NaN where one is not real."""
        return tuple(map(lowered, self.found) if self.is_quick else self.found)

    @property
    def is_finite(self) -> bool:
        """Whether the roots all have finite values."""
        return all(map(gmpy2.is_finite if self.is_quick else mpmath.isfinite, self.found))

    def agrees(self, before: Evaluation, bits: int, nothing: float = -math.inf) -> bool:
        """Whether the finite values differ from those found before by less than their first bits show.

        Those with no more than a certain exponent may be anything.
        """
        if self.is_quick and before.is_quick:
            pairs, scaled, size = zip(before.found, self.found, strict=True), gmpy2.mul_2exp, exponent
        else:
            pairs, scaled, size = zip(before.values, self.values, strict=True), mpmath.ldexp, mpmath.mag
        return all(a == b or scaled(abs(a - b), bits) <= abs(b) or size(b) <= nothing for a, b in pairs)

    @cached_property
    def bits_lost(self) -> float:
        """How many bits the step on the way lost that lost most of them by cancellation.

        Infinitely many where a result is 0: what was too small beside the operands may be missing.
        """
        most = 0.0
        for cancelled, place, args in self._program.cancelling:
            lost = cancelled(*map(self._exponent, args), self._exponent(place))
            if lost > most:  # not NaN
                most = lost
        return most

    @property
    def hidden(self) -> float:
        """The exponent of what may be left of the roots that are 0, since a summand was too small beside the other.

        sqrt(1 + x) - 1 is 0 for a tiny x, and about x/2. To the first order, of each operand by itself.
        """
        hidden: list[float] = []
        for place, (node, args) in enumerate(zip(self._program.order, self._program.args, strict=True)):
            sizes, left = [*map(self._exponent, args)], [hidden[arg] for arg in args]
            found: Sequence[float] = []
            if node.op == "add":
                small, large = sorted(sizes)
                found = [*left, small if large - small > mpmath.mp.prec else -math.inf]
            elif node.op == "where":
                found = [left[1] if self._found[args[0]] else left[2]]
            elif max(left, default=-math.inf) > -math.inf:
                found = [*self._passed_on(node, self._exponent(place), sizes, left)]
            hidden.append(max(found, default=-math.inf))
        return max((hidden[root] for root in self._program.roots if not self._found[root]), default=-math.inf)

    def _passed_on(self, node: Node, size: float, sizes: Sequence[float], hidden: Sequence[float]) -> Iterator[float]:
        """The exponents of what is hidden in a node by each of its operands, from all of their exponents."""
        exponent = node.args[1].number if node.op == "pow" else None
        vanishes = node.op in PRIMITIVES and "vanishes" in PRIMITIVES[node.op].growth
        for k, (left, of_arg) in enumerate(zip(hidden, sizes, strict=True)):
            if left == -math.inf or (size == -math.inf and vanishes and left < of_arg):
                continue  # exp(-t) is 0 as well where t is half as large
            if node.op == "mul":
                yield left + max(sizes[1 - k], hidden[1 - k])
            elif of_arg == -math.inf:
                yield left * float(exponent) if exponent else left
            else:
                yield left + max(size, 0) - min(of_arg, 0)

    def _exponent(self, place: int) -> Any:
        value = self._found[place]
        return -math.inf if isinstance(value, bool) else exponent(value) if self.is_quick else mpmath.mag(value)


class Program:
    """What computes some nodes.

    Args:
        order: the nodes, each after its operands.
        roots: those whose values are asked for.

    Attributes:
        order: the nodes.
        roots: the places among them of those whose values are asked for.
        args: for each node the places of its operands.
        cancelling: the steps that can lose bits: how many, from exponents, with the places of result and operands.
        is_laborious: whether thousands of digits take long.
    """

    def __init__(self, order: Sequence[Node], roots: Sequence[Node]) -> None:
        places = {node: place for place, node in enumerate(order)}
        self.order, self.roots = order, [places[root] for root in roots]
        self.args = [[places[arg] for arg in node.args] for node in order]
        self.cancelling = [
            (_CANCELLING[node.op], place, args)
            for place, (node, args) in enumerate(zip(order, self.args, strict=True))
            if node.op in _CANCELLING
        ]
        self.is_laborious = is_laborious(order)
        self._constants = [node.number for node in order if node.number is not None]
        self._rounded: dict[int, list[Number]] = {}  # the same to so many bits
        self._compute = _compiled(order, self.args)

    def __call__(self, point: Point) -> tuple[mpf, ...]:
        """The values of the roots; NaN where one is not real.

        Args:
            point: the values of the inputs, by name.
        """
        return self.at(point).values

    def at(self, point: Point) -> Evaluation:
        """What is found at a point, the values of the inputs by name."""
        with bounded() as context:
            found = self._quickly(all_lifted(point), context)
        if found:
            return Evaluation(self, found, is_quick=True)
        slowly = evaluate.values(self.order, _all_lowered(point))
        return Evaluation(self, [slowly[node] for node in self.order], is_quick=False)

    def slopes(self, point: Point, there: Evaluation, names: Sequence[str], share: mpf) -> tuple[mpf, ...]:
        """For each root the largest |x * d root/dx| over some inputs x, by one-sided differences.

        Args:
            point: the values of the inputs, by name.
            there: what was found at it.
            names: of the inputs.
            share: by how much of itself an input grows, less if it is larger than 1.
        """
        if there.is_quick or all(abs(value.exp) < RANGE for value in there.values):
            with bounded() as context:
                base = there.found if there.is_quick else [*map(lifted, there.values)]

                def at(moved: Mapping[str, Number]) -> list[Number] | None:
                    found = self._quickly(moved, context)
                    return [found[root] for root in self.roots] if found else None

                largest = _largest(at, all_lifted(point), base, names, lifted(share))
                if largest:
                    return tuple(map(lowered, largest))
        return tuple(_largest(self, _all_lowered(point), there.values, names, share) or ())

    def _quickly(self, point: Mapping[str, Number], context: Any) -> Sequence[Number] | None:
        """The values of all nodes by MPFR; None where it cannot tell."""
        precision = _precision()
        if precision not in self._rounded:
            self._rounded[precision] = [*map(_constant, self._constants)]
        found = self._compute(point, self._rounded[precision])
        is_infinite = any(gmpy2.is_infinite(found[root]) for root in self.roots)
        return None if is_infinite or is_beyond(context) else found


def _largest(
    values: Callable[[Mapping[str, Number]], Sequence[Number] | None],
    point: Mapping[str, Number],
    base: Sequence[Number],
    names: Sequence[str],
    share: Number,
) -> list[Number] | None:
    """What `slopes` gives, from a function of a point; None where that gives None."""
    most = [abs(value) * 0 for value in base]
    for name in names:
        moved_by = share / max(1, abs(point[name]))
        moved = values({**point, name: point[name] * (1 + moved_by)})
        if moved is None:
            return None
        slopes = [abs(b - a) / moved_by for a, b in zip(base, moved, strict=True)]
        most = [slope if known < slope < math.inf else known for known, slope in zip(most, slopes, strict=True)]
    return most


# What Python has an operator for: it takes half the time of a call.
_OPERATORS = {"add": "+", "mul": "*", "xmul": "*", "gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def _compiled(order: Sequence[Node], args: Sequence[Sequence[int]]) -> _Compute:
    """A function that computes each node from those before it: of the inputs by name, and of the nodes' constants."""
    called: dict[str, Any] = {}
    lines, constants = [], itertools.count()
    for place, (node, operands) in enumerate(zip(order, args, strict=True)):
        read = [f"v{operand}" for operand in operands]
        if node.op in ("input", "flag"):
            text = f"inputs[{str(node.value)!r}]"
        elif node.op in ("given", "true"):
            text = "True"
        elif node.number is not None:
            text = f"constants[{next(constants)}]"
        elif node.op in _OPERATORS:
            text = f" {_OPERATORS[node.op]} ".join(read)
        elif node.op == "where":
            text = "{1} if {0} else {2}".format(*read)
        else:
            called[f"f{place}"] = _function(node)
            text = f"f{place}({', '.join(read)})"
        lines.append(f"    v{place} = {text}")
    every = ", ".join(f"v{place}" for place in range(len(order)))
    exec("\n".join(["def compute(inputs, constants):", *lines, f"    return [{every}]"]), called)
    return called["compute"]  # type: ignore[no-any-return]


def evaluated(node: Node, args: Sequence[Any], inputs: Mapping[str, Number]) -> Number:
    """A node's value, from those of its operands and of all inputs."""
    if node.op in ("input", "flag"):
        return inputs[str(node.value)]
    if node.op in ("given", "true"):
        return True
    return _constant(node.number) if node.number is not None else _function(node)(*args)


@cache
def _function(node: Node) -> Callable[..., Number]:
    """What computes a node from its operands."""
    return _power(node.args[1].number) if node.op == "pow" else FUNCTIONS.get(node.op) or slow(node.op)


def _power(exponent: sympy.Expr | None) -> Callable[..., Number]:
    """What raises to a power; some are simpler than others."""
    if exponent == HALF:
        return lambda base, _: gmpy2.sqrt(base)
    if exponent is not None and exponent.is_Integer:
        whole = int(exponent)
        return lambda base, _: base**whole
    return operator.pow


def _constant(number: sympy.Expr) -> Number:
    return _rounded(number, _precision())


def _precision() -> int:
    """The bits of constants: at least those that are worked with."""
    return int(-(-mpmath.mp.prec // _STEP) * _STEP)


@cache
def _rounded(number: sympy.Expr, precision: int) -> Number:
    with mpmath.workprec(precision), bounded():
        return lifted(evaluate.number_of(number))


def exponent(x: Number) -> float:
    """The exponent of a number, as mpmath's `mag`."""
    return gmpy2.get_exp(x) if gmpy2.is_regular(x) else -math.inf if x == 0 else math.nan


def bounded(reach: int = RANGE) -> Any:
    """A context to enter, for numbers of mpmath's working precision with exponents up to a certain one."""
    return gmpy2.context(emin=-reach, emax=reach, precision=mpmath.mp.prec)


def is_beyond(context: Any) -> bool:
    """Whether something on the way was beyond the range of numbers."""
    return bool(context.overflow or context.underflow or context.divzero)


def all_lifted(point: Point) -> dict[str, Number]:
    """The values of inputs as numbers of MPFR."""
    return {
        name: x if isinstance(x, bool) else lifted(x) if isinstance(x, mpf) else gmpy2.mpfr(x)
        for name, x in point.items()
    }


def _all_lowered(point: Point) -> dict[str, mpf | bool]:
    return {name: x if isinstance(x, bool) else mpf(x) for name, x in point.items()}


def precise() -> Any:
    """A context to enter, for numbers of mpmath's working precision and of any size."""
    return gmpy2.context(precision=mpmath.mp.prec)
