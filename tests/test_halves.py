"""Whether forms do for types of 16 bits is told by all of their numbers, or by tuples in which they may not."""

from __future__ import annotations

import pytest
from nodes import parsed

from gradgen.halves import does
from gradgen.printed import printed_alone


def is_enough(form: str, other: str, tensors: str = "xy", **options: float) -> bool:
    one, two = (printed_alone(parsed(text)) for text in (form, other))
    return does(one, two, list(tensors), {}, **options)


@pytest.mark.parametrize(
    ("form", "other", "tensors"),
    [
        ("x*exp(x)*exp(-x)", "x", "x"),  # infinity times 0
        ("mul_exp(x*y, x + y)", "x*mul_exp(y, x + y)", "xy"),  # the product overflows where the result does not
        ("x - y", "where(eq(x, y), 0, x - y)", "xy"),  # equal infinities
        ("(x + y)*(x + y)/4", "(x/2 + y/2)*(x/2 + y/2)", "xy"),
    ],
)
def test_ranges_are_seen(form: str, other: str, tensors: str) -> None:
    assert not is_enough(form, other, tensors)


@pytest.mark.parametrize(("form", "tensors"), [("mul_sigmoid(x, x)", "x"), ("sigmoid(x + y)", "xy"), ("x*y/y", "xy")])
def test_a_form_does_for_itself_unless_float32_overflows(form: str, tensors: str) -> None:
    assert is_enough(form, form, tensors) == (form != "x*y/y")


def test_few_digits_are_enough() -> None:
    assert not is_enough("log(1 + exp(-abs(x)))", "log1p(exp(-abs(x)))", "x")  # of none that are left
    assert is_enough("tanh(x)", "1.0000001*tanh(x)", "x")
    assert not is_enough("tanh(x)", "1.0001*tanh(x)", "x")
    assert is_enough("tanh(x)", "1.0001*tanh(x)", "x", most=8 * 2.0**10)


def test_a_jump_is_no_slope() -> None:
    at_one = "where(ge(x, 1), 1, 0)"
    assert is_enough(at_one, at_one, "x")
    assert not is_enough("where(gt(x, 1), 1, 0)", at_one, "x")
    assert not is_enough(at_one, "where(gt(x, 1), 1, 0)", "x")


def test_inputs_may_be_moderate() -> None:
    assert not is_enough("x*x", "x*x + x*x*where(gt(abs(x), 64), 1, 0)", "x")
    assert is_enough("x*x", "x*x + x*x*where(gt(abs(x), 64), 1, 0)", "x", within=64.0)
    assert not is_enough("x*y", "where(lt(abs(x*y), 2**-70), 2*x*y, x*y)", within=64.0)


def test_functions_without_a_quick_text_do_not() -> None:
    assert not is_enough("gamma(x)", "gamma(x)", "x")
