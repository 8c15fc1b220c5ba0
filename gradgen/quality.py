"""How good a form of a result is by the model of rounding, and which of two is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy

from gradgen.compensate import compensated
from gradgen.graph import CONDITIONS, Node, coefficient, topological
from gradgen.primitives import FUNCTION_ERRORS
from gradgen.worst import Worst

BAR = 4.0

# What a modelled error must not exceed. The bar is for every float, and the model looks at some of them.
TARGET = 3.25

LOST = 1000.0  # errors beyond this are alike

WIDE_COST = 2.0  # of float64 arithmetic, with float32 as unit
_WORTH = 0.9  # the share of the error that compensation must not leave more than
_CHEAPER = 0.75  # a form that is as accurate as the sound one must cost this much less to be taken
_HUGE = 1e300
_QUARTER_BELOW, _THREE_QUARTERS_BELOW = 0.8408964152537145, 0.5946035575013605  # 2**-0.25, 2**-0.75
_SUBNORMAL = 4  # by how many steps lesser errors count, at most, where results are subnormal numbers
_CHEAP = frozenset({"add", "mul", "where", "abs", "maximum", "minimum", "unit", "damp", "xmul", "rest", "corrected"})
# Instructions beside those of an exponential, which is computed once of an argument of either sign
_EXPONENTIAL = 12.0
_BESIDE_EXPONENTIAL = {
    **{"exp": 1.0, "sigmoid": 6.0, "logistic_density": 8.0, "sech": 8.0, "expm1": 9.0, "softplus": 14.0, "tanh": 18.0},
    **{"dswish": 14.0, "dgate": 20.0},
    **dict.fromkeys(("erf", "erfc", "ndtr", "dgelu"), 24.0),
    "gaussian": 4.0,
}
EXPONENTIALS = tuple(_BESIDE_EXPONENTIAL)  # the functions that have one in them
_OF_SQUARES = {"erf": "erf", "erfc": "erfc", **dict.fromkeys(("ndtr", "dgelu", "gaussian"), "ndtr")}
_OF_CORRECTIONS = {"sum_error": 6.0, "quotient_error": 5.0, "corrected": 4.0}
_OF_CORRECTIONS |= dict.fromkeys(FUNCTION_ERRORS.values(), 40.0)
_INSTRUCTIONS = _BESIDE_EXPONENTIAL | _OF_CORRECTIONS
_COSTS = {"dgate": 20.0}  # of functions that take longer than most
_POWER_COST = {sympy.Integer(k): c for k, c in {-2: 8.0, -1: 4.0, 2: 1.0, 3: 2.0, 4: 2.0}.items()}


@dataclass(frozen=True)
class Quality:
    """The modelled worst errors of one form of a result.

    Attributes:
        single: of float32, in float32 arithmetic.
        wide: of float32, in float64 arithmetic without corrections.
        precise: of float32, in float64 arithmetic with them, where there are any and `wide` is not near the bar.
        double: of float64.
    """

    single: Worst
    wide: Worst
    precise: Worst
    double: Worst

    @property
    def widened(self) -> Worst:
        """Of float32, in float64 arithmetic, with corrections or without."""
        return min(self.wide, self.precise)

    @property
    def best_single(self) -> Worst:
        """Of float32, in whichever arithmetic is the best."""
        return min(self.single, self.widened)

    @property
    def error(self) -> float:
        """The worst error, float32 being computed in the best of all ways."""
        return max(self.double.error, self.best_single.error)

    @property
    def ordinary(self) -> float:
        """The worst error where neither inputs nor result are extreme, float32 being computed in the best way."""
        return max(self.double.ordinary, min(self.single.ordinary, self.wide.ordinary, self.precise.ordinary))

    @property
    def normal(self) -> float:
        """The worst error of a result that is no subnormal number, in float64 arithmetic."""
        return max(self.widened.normal, self.double.normal)

    def including(self, other: Quality) -> Quality:
        """With errors that were seen elsewhere."""
        return Quality(
            self.single.including(other.single),
            self.wide.including(other.wide),
            self.precise.including(other.precise),
            self.double.including(other.double),
        )


Comparison = Callable[[Quality, float, Quality, float], bool]


def is_better(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is more exact, or as exact and cheaper."""
    new_rank, old_rank = rank(new), rank(old)
    if new_rank != old_rank:
        return new_rank < old_rank
    return new_cost < _CHEAPER * old_cost


def is_more_accurate(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is better, or float64 gains by it and float32 does not suffer.

    One that is no number somewhere does not serve in place of one that is nowhere far off.
    """
    if is_better(new, new_cost, old, old_cost):
        return True
    if old.double.error <= LOST and new.double.error == math.inf:
        return False
    gains = new.double.ordinary < _WORTH * old.double.ordinary and new.double.normal <= max(old.double.normal, TARGET)
    gains = gains and (new.double.normal <= BAR or new.double.often <= old.double.often)
    return gains and steps(new.best_single) <= steps(old.best_single)


def meets_bar(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is better, or it alone meets the bar in float64 and float32 does not suffer."""
    if is_better(new, new_cost, old, old_cost):
        return True
    meets = new.double.error <= BAR < old.double.error
    return meets and steps(new.best_single) <= steps(old.best_single)


def meets_target(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is better, and meets the target in the arithmetic of either type, where nothing is extreme."""
    ordinary = max(new.single.ordinary, new.double.ordinary)
    return ordinary <= TARGET and is_better(new, new_cost, old, old_cost)


def is_enough(new: Quality, new_cost: float, old: Quality, old_cost: float) -> bool:
    """Whether a form is better, and nowhere above the target in float64."""
    return new.double.error <= TARGET and is_better(new, new_cost, old, old_cost)


def rank(quality: Quality) -> tuple[int, int]:
    """How far the errors are above the target, by powers of two."""
    return steps(quality.double), steps(quality.best_single)


def rank_of_side(quality: Quality, side: int) -> tuple[int, int]:
    """The same on one side of 0 alone."""
    narrow = min(worst.sides[side] for worst in (quality.single, quality.wide, quality.precise))
    return _powers(min(quality.double.sides[side], _HUGE)), _powers(min(narrow, _HUGE))


def steps(worst: Worst) -> int:
    """How far errors are above the target, in powers of the square root of 2: everywhere and for what is ordinary.

    Very large errors count by how often they are, and beside them the largest that is finite.

    What is no number where nothing is extreme counts twice: one that is far off may still be of the right size.
    """
    if worst.error <= TARGET:
        return 0
    ordinary = _powers(min(worst.ordinary, LOST))
    if worst.error <= LOST:
        normal = _powers(worst.normal)
        return min(_powers(worst.error), normal + _SUBNORMAL) + ordinary
    often = math.ceil(20 * (worst.often + worst.lost))
    return _powers(LOST) + often + math.isinf(worst.error) + ordinary + _powers(min(worst.finite, LOST))


def _powers(error: float) -> int:
    """By how many powers of the square root of 2, rounded, and one more, an error is above the target."""
    if error <= TARGET:
        return 0
    fraction, exponent = math.frexp(error / TARGET)  # no logarithm, which is not the same everywhere
    return 1 + 2 * exponent - (fraction < _QUARTER_BELOW) - (fraction < _THREE_QUARTERS_BELOW)


def cost(node: Node) -> float:
    """About how long a node takes to compute, in additions."""
    return sum(map(_cost, topological(compensated([node]))))


def instructions(nodes: Iterable[Node]) -> float:
    """About how many instructions nodes take, together, with functions of few digits."""
    order = topological(nodes)
    exponentials = {_exponential(node) for node in order if node.op in _BESIDE_EXPONENTIAL}
    others = sum(_INSTRUCTIONS.get(node.op) or _cost(node) for node in order)
    return others + _EXPONENTIAL * len(exponentials)


def _exponential(node: Node) -> tuple[object, ...]:
    """What tells the exponentials of functions apart: the size of the argument."""
    number, rest = coefficient(node.args[0])
    while rest is not None and rest.op in ("abs", "modulus"):
        more, rest = coefficient(rest.args[0])
        number *= more
    return _OF_SQUARES.get(node.op, "exp"), abs(2 * number if node.op == "tanh" else number), rest


def _cost(node: Node) -> float:
    if not node.args or node.op in CONDITIONS:
        return 0.0
    if node.op == "pow":
        exponent = node.args[1].number
        return _POWER_COST.get(exponent, 12.0)
    return 1.0 if node.op in _CHEAP or node.op.endswith("_error") else _COSTS.get(node.op, 12.0)
