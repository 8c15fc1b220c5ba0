"""Every rule is an identity, and the case it was made for comes out right."""

from __future__ import annotations

import random
from dataclasses import replace

import mpmath
import pytest
import sympy
from mpmath import mpf
from nodes import parsed

from gradgen.evaluate import values
from gradgen.graph import Node, inputs_of, topological
from gradgen.rewrite import _Pattern, factored, multiplied_out, rewrite
from gradgen.rules import (
    RULES,
    Rule,
    _is_irrational,
    _is_multiple_of_pi,
    _is_negative_coefficient,
    _is_no_half,
    _is_reciprocal_or_high,
    _is_root_of_2,
    _turns,
)

# What the numbers of a rule are multiples of, if not of 1
UNITS = {
    _is_multiple_of_pi: sympy.pi / 3,
    _is_no_half: sympy.Rational(1, 5),
    _is_irrational: sympy.sqrt(2) / 9,
    _is_root_of_2: sympy.sqrt(2) / 2,
    _is_negative_coefficient: -sympy.Rational(1, 2),
    **dict.fromkeys((_turns, _is_reciprocal_or_high), sympy.Integer(-1)),
}


def evaluate(root: Node, point: dict[str, mpf]) -> mpf:
    """The exact value of a graph."""
    return values(topological([root]), point)[root]


# Conditions that hold wherever the pattern is a number: the other branch is for what overflows or vanishes in floats.
ALWAYS = {
    "sqrt(u*v)": "ge(mul(u, sign(v)), 0)",
    "sqrt(v/u)": "ge(mul(u, sign(v)), 0)",
    "(1 + 1/u)*log1p(1/u) + log(u)/u": "gt(u, 0)",
    "log1p(1/u) + log(u)": "gt(u, 0)",
    "atan(u) - atan(v)": "gt(pow(maximum(1, maximum(abs(u), abs(v))), -1), 0)",
    "log(u) - log(v)": "gt(v, 0)",
}
# Those with a branch for numbers farther out than others are looked at with, and what power of these v is
FAR = {"log(u*v)": 1, "log(u/v)": -1, "log(u**2 + v**2)": 1}


def drawn(randoms: random.Random, turn: int) -> dict[str, mpf]:
    """Values of the wild names: near 0, or farther out, or two of them equal, opposite, or nearly equal."""
    point = {name: mpf(randoms.uniform(-100, 100) if turn % 4 == 2 else randoms.uniform(-4, 4)) for name in "tuvw"}
    if turn % 4 == 3:
        one, other = randoms.sample("tuvw", 2)
        point[one] = randoms.choice([point[other], -point[other], point[other] * (1 + mpf(2) ** -20)])
    return point


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern)
def test_rule_is_an_identity(rule: Rule) -> None:
    at_9 = rule.replacement.replace("oo", "9")  # as if numbers overflowed there
    pattern = _Pattern(replace(rule, replacement=at_9))
    randoms = random.Random(0)
    order = topological([pattern.pattern, pattern.replacement])
    held: dict[Node, set[bool]] = {
        node.args[0]: set() for node in topological([pattern.replacement]) if node.op == "where"
    }
    compared = 0
    with mpmath.workdps(500):  # of which large exponentials that cancel take some
        for turn in range(160):
            scale = mpf(10) ** 200 if rule.pattern in FAR and turn % 2 else mpf(1)
            point = {name: value * scale for name, value in drawn(randoms, turn).items()}
            point["v"] *= scale ** (FAR.get(rule.pattern, 1) - 1)  # so that it is the scale to that power
            unit = UNITS.get(rule.condition, sympy.Integer(1))
            numbers = {name: unit * sympy.Integer(randoms.randint(1, 9)) for name in ("a", "b")}
            given = [number for name, number in numbers.items() if name in inputs_of([pattern.pattern])]
            if rule.condition is not None and not rule.condition(*given):
                continue
            point |= {name: mpmath.mpmathify(sympy.N(number, 510)) for name, number in numbers.items()}
            found = values(order, point)
            before, after = found[pattern.pattern], found[pattern.replacement]
            if before is None or not mpmath.isfinite(before):  # outside the domain of the formula as it was written
                continue
            assert before == after or abs(before - after) <= abs(before) * mpf(10) ** -200 + mpf(10) ** -220, point
            compared += 1
            for condition, seen in held.items():
                seen.add(bool(found[condition]))
    assert compared >= 15
    one_way = [repr(condition) for condition, seen in held.items() if len(seen) == 1]
    assert {*one_way} <= {ALWAYS.get(rule.pattern)}  # each branch is looked at


def sound(build: str) -> str:
    """What becomes of an expression of x, y (tensors) and k (a hyper-parameter)."""
    return repr(rewrite([parsed(build)])[0])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1/(1 + exp(-x))", "sigmoid(x)"),
        ("exp(x)/(1 + exp(x))", "sigmoid(x)"),
        ("1/(1 + exp(-k*x))**2", "pow(sigmoid(mul(k, x)), 2)"),
        ("exp(x)/(3 + 2*exp(x))", "mul(1/2, sigmoid(add(x, -log(3/2))))"),
        ("log(1 + exp(x))", "softplus(x)"),
        ("log(1/(1 + exp(-x)))", "mul(-1, softplus(mul(-1, x)))"),
        ("1 - 1/(1 + exp(-x))", "sigmoid(mul(-1, x))"),
        ("k*exp(x) - k", "mul(k, expm1(x))"),
        ("2*exp(x) + y - 2", "add(mul(2, expm1(x)), y)"),
        ("(exp(x) - exp(-x))/(exp(x) + exp(-x))", "tanh(x)"),
        ("(exp(2*x) - 1)/(exp(2*x) + 1)", "tanh(x)"),
        ("(1 - exp(-2*x))/(1 + exp(-2*x))", "tanh(x)"),
        ("2/(1 + exp(-2*x)) - 1", "tanh(x)"),
        ("1 + erf(x)", "erfc(mul(-1, x))"),
        ("y + 1 - erf(x)", "add(erfc(x), y)"),
        ("1 + tanh(x)", "mul(2, sigmoid(mul(2, x)))"),
        ("1 - tanh(x)**2", "pow(sech(x), 2)"),
        ("(x**2 + y**2)**k", "pow(add(pow(x, 2), pow(y, 2)), k)"),
        ("log(exp(x) + exp(y))", "logaddexp(x, y)"),
        ("x - log(1 + exp(x))", "mul(-1, softplus(mul(-1, x)))"),
        (
            "maximum(x, 0) - x*y + log(1 + exp(-abs(x)))",
            "add(where(ge(x, 0), mul(add(1, mul(-1, y)), x), mul(-1, mul(x, y))), softplus(mul(-1, modulus(x))))",
        ),
        ("1 - cos(x)", "mul(2, pow(sin(mul(1/2, x)), 2))"),
        ("(3*x**2 + 2*y**2)**sympy.S.Half", "hypot(mul(sqrt(3), x), mul(sqrt(2), y))"),
        ("(x**2 + y**2)**sympy.Rational(1, 4)", "pow(hypot(x, y), 1/2)"),
        ("log((exp(x) - exp(-x))/2)", "add(add(log(mul(-1, expm1(mul(-2, x)))), x), -log(2))"),
        ("log(x + (x**2 - 1)**sympy.S.Half)", "acosh(x)"),
        ("log(k*x + ((k*x)**2 - 1)**sympy.S.Half)", "acosh(mul(k, x))"),
        ("asin(x/(1 + x**2)**sympy.S.Half)", "atan(x)"),
        ("sin(x)/x", "sinc(x)"),
        ("sin(k*x)/x", "mul(k, sinc(mul(k, x)))"),
        ("sin(2*sympy.pi*x)", "sin_pi(mul(2, x))"),
        ("cos(sympy.pi*x/3)", "cos_pi(mul(1/3, x))"),
        ("sin(sympy.pi*x)/(sympy.pi*x)", "sinc_pi(x)"),
        ("sinc(sympy.pi*x)", "sinc_pi(x)"),
        ("sin(sympy.sqrt(2)*sympy.pi*x)", "sin(mul(sqrt(2)*pi, x))"),
        ("x*hypot(k - k + 3, 4) + unit(k - k, 2) + 4*logistic_density(k - k)", "add(mul(5, x), 1)"),
        ("x*x**sympy.Rational(-3, 7)", "pow(x, 4/7)"),
        ("x*y/sqrt(x)", "mul(pow(x, 1/2), y)"),
        ("sqrt(x)*(x*y)**-2", "mul(pow(pow(x, 1/2), -3), pow(y, -2))"),
        ("sqrt(x)*(1/sqrt(x))", "1"),
        ("(x - k)**2 - x**2 + 2*k*x + y", "add(pow(k, 2), y)"),
    ],
)
def test_rules_meet_formulas_as_they_are_typed(written: str, expected: str) -> None:
    assert sound(written) == expected


def test_a_sum_is_matched_only_up_to_a_common_factor() -> None:
    assert sound("2*exp(x) - 1") == "add(mul(2, exp(x)), -1)"
    assert sound("1 - 2*erf(x)") == "add(1, mul(-2, erf(x)))"


@pytest.mark.parametrize(
    "text",
    [
        "x*(x*y) + x*y",
        "x*(y*x) - y*x**2",
        "sigmoid(x)*y*sigmoid(x) - sigmoid(x)*y",
        "exp(x)*(exp(-x)*y + x) + x*(y*x)*x",
        "k*x*x*y - (x*y)*(x*k) + x*y",
        "x**2*y**-2 + x/y - (x/y)*(x/y)",
    ],
)
def test_products_that_repeat_a_factor_keep_their_value(text: str) -> None:
    node = parsed(text)
    point = {"x": mpf("0.7"), "y": mpf("-1.3"), "k": mpf("2.1")}
    (new,) = rewrite([node])
    for form in (new, factored(new), multiplied_out(new)):
        assert mpmath.almosteq(evaluate(form, point), evaluate(node, point), 1e-12)
