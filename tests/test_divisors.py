"""One division in place of several, by the model of rounding."""

from __future__ import annotations

import itertools
import math
import struct
from pathlib import Path

import pytest
import torch
from building import build
from nodes import parsed

from gradgen.divisors import by_inverses, one_division, one_for_both_branches, ordinary_divisors
from gradgen.graph import Node, topological
from gradgen.model import FORMATS, Program
from gradgen.printers.c import CPrinter

NUMBERS = [-math.inf, -1e300, -3.7, -1.0, -1e-310, -0.0, 0.0, 0.3, 1.9, 2e10, math.inf, math.nan]


def divisions(roots: list[Node]) -> int:
    """How many quotients are computed, each of the products with the inverse of a number that has no name."""
    order = topological(roots)
    inverses = {node for node in order if node.op == "pow" and node.args[1].is_number(-1)}
    readers = {node: [reader for reader in order if node in reader.args] for node in inverses}
    return sum(1 for node in inverses if readers[node] or node in roots)


def bits(found: float) -> bytes:
    return b"nan" if math.isnan(found) else struct.pack("d", found)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("where(ge(x, 0), x/(1 + y), y/(2 + x*x)*exp(-y))", 2, 1),
        ("where(ge(x, 0), 1/(1 + exp(-x)), exp(x)/(2 + exp(x)))", 2, 1),
        ("where(ge(x, 0), 1/(1 + exp(-x)), exp(x)/(1 + exp(-x)))", 1, 1),
        ("z + where(gt(x, y), x/y/z, exp(y/(1 + z)))", 3, 2),  # two quotients in one branch, one in the other
        ("where(gt(x, y), x/y/z, exp(y/(1 + z))/(x + z))", 4, 2),  # of the second the first is an operand
        ("where(gt(x, y), where(gt(x, z), x/y, y/z), z/x)", 3, 1),  # selections in branches
        # What is computed anyway stays as it is, and what no branch stands beside.
        ("where(ge(x, 0), x/y, y/z) + x/y", 2, 2),
        ("where(ge(x, 0), x/y, y/z) + exp(z)/y", 2, 2),
        ("where(gt(x, y), x/y/z, exp(y/z))", 2, 2),
        ("where(ge(x, 0), x/y, z)", 1, 1),
        ("where(gt(x/y, 0), x/y, y/z)", 2, 2),
        # Which of two inverses is a factor shows where one has a name; a hyper-parameter decides for all elements.
        ("where(gt(x, 0), z/y, 1/x/y)", 2, 2),
        ("where(gt(k, 1), x/y, y/z)", 2, 2),
        ("where(gt(x, 0), 19*(1/(1 + y)), 19*(1/(2 + z)))*exp(x)", 2, 2),  # 19 would be the last factor
    ],
)
def test_branches_share_a_division(text: str, before: int, after: int) -> None:
    node = parsed(text)
    roots = one_for_both_branches([node])
    assert divisions([node]) == before
    assert divisions(roots) == after
    first, second = (Program(topological(which), FORMATS["float64"]) for which in ([node], roots))
    for k, x in enumerate(NUMBERS):
        for j, y in enumerate(NUMBERS):
            point = {"x": x, "y": y, "z": NUMBERS[(k + 3 * j) % len(NUMBERS)], "k": 2.0}
            assert bits(first.at(point)[-1]) == bits(second.at(point)[-1]), point


def test_a_condition_for_all_elements_is_none_of_these() -> None:
    x, y = (parsed(name) for name in "xy")
    graph = x.graph
    selection = graph.where(graph.flag("is_fast"), x / graph.input("y"), graph.input("z") / x)
    assert one_for_both_branches([selection]) == [selection]
    assert y.op == "input"


NAMED = """
@op
def quotient(selector: Tensor(grad=False), alpha: Tensor, beta: Tensor, first_divisor: Tensor, second_divisor_of):
    return Piecewise((alpha/first_divisor, selector > 0), (beta/second_divisor_of, True))

@op
def relative(prediction: Tensor, target: Tensor(grad=False)):
    above = (prediction - target)/Abs(target)
    return Piecewise((above, prediction > target), ((target - prediction)/Abs(prediction), True))

@op
def slope(x: Tensor):
    return Piecewise((x/(1 + x**2), x > 0), (x/(2 + Abs(x)), True))
"""


def test_a_long_divisor_has_a_name_and_its_inverse_has_none(tmp_path: Path) -> None:
    module, _ = build(NAMED, tmp_path)

    def column(*numbers: float) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.float64)

    one, least = column(1, 1), column(5e-324, 5e-324)
    assert module.quotient(one, column(1.5e-323, 0), one, least, one).tolist() == [3, 0]
    found = module.relative(column(2e-323, -2.5e-323, 5e-324), column(1e-323, 1e-323, 5e-324))
    assert found.tolist() == [1, 1.4, 0]
    assert module.slope(column(-torch.finfo(torch.float64).max)).tolist() == [-1]


@pytest.mark.parametrize(
    ("text", "is_ordinary"),
    [
        ("x/(1 + exp(-modulus(x)))", True),
        ("x/(2 + sin(y))", True),
        ("x/where(gt(x, 0), 1 + exp(-modulus(y)), 2)", True),
        ("x*(1/(1 + exp(-modulus(x)))**3)", False),  # a power of -3, until one division computes it
        ("x/(1 + exp(x))", False),
        ("x/(1 + x*x)", False),
        ("x/exp(-modulus(x))", False),
        ("x/(sin(y) - 2)", False),
        ("x/y", False),
    ],
)
def test_what_is_an_ordinary_number_to_divide_by(text: str, is_ordinary: bool) -> None:
    assert bool(ordinary_divisors([parsed(text)])) == is_ordinary


def test_a_cube_is_one_where_it_is_what_is_divided_by() -> None:
    roots = one_division([parsed("x*(1 + exp(-modulus(x)))**-3")])
    (divisor,) = ordinary_divisors(roots)
    assert divisor.op == "pow"
    printed = CPrinter({roots[0].graph.input("x"): "x"}, {divisor}).statement(roots[0])
    assert printed == "over(x, (1 + exp(-fabs(x))) * (1 + exp(-fabs(x))) * (1 + exp(-fabs(x))))"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("z/(1 + x)**2 + y/(1 + x)", 1),
        ("exp(1/x**4)", 1),
        ("y/(3 - tanh(x))**2", 1),  # of a square that is divided by, since it cannot overflow,
        ("y/(3 - tanh(x))**2 + 1/(3 - tanh(x))", 1),  # unless there is an inverse anyway
        ("y/x + z/(x + y)", 2),
    ],
)
def test_powers_of_an_inverse_take_one_division(text: str, after: int) -> None:
    (node,) = one_division([parsed(text)])
    (found,) = by_inverses([node])
    assert divisions([found]) == after
    assert (found is node) == (text in ("y/(3 - tanh(x))**2", "y/x + z/(x + y)"))
    first, second = (Program(topological([one]), FORMATS["float64"]) for one in (node, found))
    numbers = [x for x in NUMBERS if abs(x) in (0, math.inf) or not abs(math.log10(abs(x))) > 30]  # NaN, too
    for x, y, z in itertools.product(numbers, repeat=3):
        point = [{"x": x, "y": y, "z": z, "k": 1.0}]
        one, other = (float(program(point)[-1][0]) for program in (first, second))
        assert one == pytest.approx(other, rel=1e-14, abs=0, nan_ok=True) or not math.isfinite(one)
