"""MPFR gives what mpmath gives, and leaves to it what it cannot tell."""

from __future__ import annotations

import itertools
import math

import gmpy2
import mpmath
import pytest
import sympy
from mpmath import mpf
from nodes import parsed

from gradgen import evaluate, mpfr
from gradgen.graph import CONDITIONS, Graph, Node, topological
from gradgen.mpfr_functions import FUNCTIONS, lifted, lowered
from gradgen.primitives import PRIMITIVES

BITS = 300
NUMBERS = (0.37, 0.81, -0.44, 1.9, -3.2, 7.5, 1e-20, -1e15)
# No numbers, or no functions of numbers
SPECIAL = {*CONDITIONS, "where", "sum_error", "product_error", "quotient_error", "rest"}
NAMES = sorted(FUNCTIONS.keys() - SPECIAL)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mpmath's help."""
    monkeypatch.setattr(evaluate, "values", lambda *_: pytest.fail("was left to mpmath"))


def program(root: Node) -> mpfr.Program:
    return mpfr.Program(topological([root]), [root])


def points(name: str) -> list[tuple[float, ...]]:
    count = PRIMITIVES[name].c.count("{")
    return list(itertools.product(NUMBERS if count == 1 else NUMBERS[:6], repeat=count))


@pytest.mark.parametrize("name", NAMES)
def test_gives_what_mpmath_does(name: str) -> None:
    graph = Graph()
    compute = program(graph.apply(name, *(graph.input(x) for x in "ab"[: PRIMITIVES[name].c.count("{")])))
    compared = 0
    with mpmath.workprec(BITS):
        for point in points(name):
            at = dict(zip("ab", map(mpf, point), strict=False))
            exact = evaluate.function(name, *map(mpf, point))
            if mpmath.isfinite(exact):
                (value,) = compute(at)
                assert abs(value - exact) <= abs(exact) * mpf(2) ** (10 - BITS), point
                compared += 1
    assert compared > 1


@pytest.mark.parametrize("precision", [64, 160, 310, 910, 2660])
def test_error_functions_are_those_of_mpfr(precision: int) -> None:
    context = gmpy2.context(gmpy2.get_context(), precision=precision)
    pole = math.ceil(math.sqrt((precision + 32) * math.log(2)))  # of the trapezoidal rule
    with context:
        for x in (0.5, 1.003, 1.7, 4.3, 8.9, 13.1, 21.7, 40.3, 120.9, pole - 0.6, pole, pole + 0.9, pole + 1.1):
            for name, argument in (("erfc", x), ("erf", x), ("erf", -x), ("erfc", -x)):
                x_exactly, right = gmpy2.mpfr(argument), getattr(gmpy2, name)(gmpy2.mpfr(argument))
                off = abs(FUNCTIONS[name](x_exactly) - right)
                assert off <= abs(right) * gmpy2.mpfr(2) ** (1 - precision), (name, argument)


@pytest.mark.parametrize("precision", [64, 310, 2660])
@pytest.mark.parametrize("rest", [1e-3, 1e-16, 1e-300])
def test_the_inverse_error_function_is_one_however_near_to_1(precision: int, rest: float) -> None:
    with gmpy2.context(gmpy2.get_context(), precision=2 * precision + 2000):
        y = 1 - gmpy2.mpfr(rest)
        opposite = -y
    with gmpy2.context(gmpy2.get_context(), precision=precision):
        x = FUNCTIONS["erfinv"](y)
        assert FUNCTIONS["erfinv"](opposite) == -x
    with gmpy2.context(gmpy2.get_context(), precision=2 * precision + 2000):
        assert abs(gmpy2.log(gmpy2.erfc(x)) / gmpy2.log(gmpy2.mpfr(rest)) - 1) < gmpy2.mpfr(2) ** (4 - precision)


@pytest.mark.usefixtures("alone")
def test_does_not_ask_mpmath_for_an_ordinary_formula() -> None:
    graph = Graph()
    x, k = graph.input("x"), graph.input("k")
    branch = graph.where(graph.apply("gt", x, 0), graph.apply("exp", -x) * k, x ** sympy.Rational(3) + sympy.pi)
    with mpmath.workprec(BITS):
        (value,) = program(graph.apply("tanh", branch))({"x": mpf(2), "k": mpf("0.1")})
        assert abs(value - mpmath.tanh(mpmath.exp(-2) * mpf("0.1"))) < mpf(2) ** (5 - BITS)
        (value,) = program(graph.apply("tanh", branch))({"x": mpf(-1), "k": mpf("0.1")})
        assert abs(value - mpmath.tanh(mpmath.pi - 1)) < mpf(2) ** (5 - BITS)


def test_what_underflows_is_left_to_mpmath() -> None:
    graph = Graph()
    root = graph.apply("log", graph.apply("exp", -graph.input("x")))
    with mpmath.workprec(BITS):
        assert program(root)({"x": mpf("1e30")}) == (mpf("-1e30"),)


@pytest.mark.parametrize(("name", "x"), [("log", -1.0), ("acosh", 0.5), ("log", 0.0), ("exp", math.inf)])
def test_what_is_no_number_is_left_to_mpmath(name: str, x: float) -> None:
    graph = Graph()
    (value,) = program(graph.apply(name, graph.input("x")))({"x": mpf(x)})
    assert not mpmath.isfinite(value)


def test_a_function_that_it_lacks_is_left_to_mpmath() -> None:
    graph = Graph()
    assert program(graph.apply("bessel_j", 0, graph.input("x")))({"x": mpf(1)}) == (+mpmath.besselj(0, 1),)


def test_what_no_exponent_is_large_enough_for_is_left_to_mpmath() -> None:
    graph = Graph()
    root = graph.apply("log", graph.apply("gamma", graph.input("x")))
    with mpmath.workprec(BITS):
        (value,) = program(root)({"x": mpf("1e30")})
        assert abs(value / (mpf("1e30") * mpmath.log(mpf("1e30"))) - 1) < 0.1


@pytest.mark.parametrize("name", ["tanh", "bessel_j"])
def test_slopes_are_the_largest_of_all_inputs(name: str) -> None:
    graph = Graph()
    x, k = graph.input("x"), graph.input("k")
    root = graph.apply(name, x) * k**2 if name == "tanh" else graph.apply(name, 1, x) * k**2
    function = mpmath.tanh if name == "tanh" else lambda x: mpmath.besselj(1, x)
    compute, point, share = program(root), {"x": mpf(1), "k": mpf(3)}, mpf(2) ** -60
    with mpmath.workprec(BITS):
        (slope,) = compute.slopes(point, compute.at(point), ["x", "k"], share)
        assert abs(slope / (2 * 9 * function(1)) - 1) < mpf(2) ** -50
        (slope,) = compute.slopes(point, compute.at(point), ["x"], share)
        assert abs(slope / (9 * mpmath.diff(function, 1)) - 1) < mpf(2) ** -50


@pytest.mark.parametrize("power", [0, 64])
def test_doubles_and_what_they_lack(power: int) -> None:
    (found,) = mpfr.in_doubles("exp", [[-740.5]], 64, power)
    assert found is not None
    nearest, rest, is_whole = found
    with mpmath.workprec(BITS):
        exact = mpmath.exp(mpf(-740.5)) * mpf(2) ** power
        assert nearest == float(exact)
        assert not is_whole
        assert abs(nearest + mpf(rest) - exact) <= exact * mpf(2) ** -60 or power == 0  # where the rest vanishes
    assert mpfr.in_doubles("gamma", [[1e30], [1.0]], 64) == [None, (1.0, 0.0, True)]
    assert mpfr.in_doubles("bessel_i", [[0.0, 1.0]], 64) == [None]


OVERFLOWING = {
    ("exp", (1e30,)): (math.inf, 0.0, True),
    ("exp", (-1e30,)): (0.0, 0.0, False),
    ("mul_exp", (-1e300, -1e30)): (-0.0, 0.0, False),
    ("mul_exp", (-1e-300, 1e30)): (-math.inf, 0.0, True),
    ("sigmoid", (1e30,)): (1.0, 0.0, True),
    ("softplus", (0.1 * 2.0**70,)): (0.1 * 2.0**70, 0.0, True),
    ("logaddexp", (-1e30, 0.5)): (0.5, 0.0, True),
    ("mul_exp", (0.0, 1e30)): None,
    ("exp", (math.nan,)): None,
}


@pytest.mark.parametrize(("op", "args"), OVERFLOWING)
def test_exponentials_in_doubles_that_are_out_of_range(op: str, args: tuple[float, ...]) -> None:
    (found,) = mpfr.in_doubles(op, [args], 64)
    assert repr(found) == repr(OVERFLOWING[op, args])


@pytest.mark.parametrize("precision", [300, 3337, 5605])
@pytest.mark.parametrize("power", [-19, -300, -1055, -9000])
def test_a_sine_of_few_digits(power: int, precision: int) -> None:
    x = mpmath.ldexp(mpf(-4) / 3, power)
    with gmpy2.context(gmpy2.get_context(), precision=precision, emin=-mpfr.RANGE, emax=mpfr.RANGE) as context:
        found = lowered(FUNCTIONS["sin"](lifted(x)))
        assert not mpfr.is_beyond(context)
    with mpmath.workprec(precision + 50):
        assert abs(found - mpmath.sin(x)) <= abs(x) * mpf(2) ** (2 - precision)


def test_a_sine_of_what_no_float_is_takes_no_time() -> None:
    """MPFR would need as many bits as the exponent is large, some 10**18 of them."""
    graph = Graph()
    root = graph.apply("sin", graph.apply("exp", graph.apply("exp", graph.input("x"))))
    with mpmath.workprec(BITS):
        (value,) = program(root)({"x": mpf(40)})
    assert mpmath.isnan(value) or abs(value) <= 1


@pytest.mark.parametrize(
    ("name", "sum_of", "lost"),
    [
        ("log", (1, 2**-90), 90),
        ("log", (2**-90,), 0),
        ("acos", (1, -(2**-90)), 44),
        ("sin", (2**70,), 70),
        ("exp", (90,), 0),
    ],
)
def test_bits_that_a_function_loses(name: str, sum_of: tuple[float, ...], lost: float) -> None:
    graph = Graph()
    with mpmath.workprec(BITS):
        x = mpmath.fsum(map(mpf, sum_of))
        found = program(graph.apply(name, graph.input("x"))).at({"x": x})
        assert abs(found.bits_lost - lost) <= 2


@pytest.mark.parametrize("power", [90, 40_000])  # the second is beyond the range of MPFR
def test_bits_that_a_sum_loses(power: int) -> None:
    graph = Graph()
    x = graph.input("x")
    with mpmath.workprec(BITS):
        found = program((x + 3) - x).at({"x": mpf(2) ** power})
        assert found.bits_lost == (math.inf if power > BITS else power - 1)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("(1 + x) - 1", -900),
        ("sqrt((1 + x) - 1)", -450),
        ("((1 + x) - 1)**3", -2700),
        ("((1 + x) - 1)*((1 + x**2) - 1)", -2700),
        ("k*((1 + x) - 1)", -800),
        ("log(1 + x)/k", -1000),
        ("where(gt(x, 1), (1 + x) - 1, 0)", -math.inf),
        ("x**2 - x*x", -math.inf),
        ("sqrt(x) - sqrt(x)", -math.inf),
        ("(1 + x) - 1 + x", -math.inf),  # not 0
        ("exp(-(exp(1/x) + 1))", -math.inf),  # what is lost beside a number that large cannot make its exponential any
    ],
)
def test_what_a_zero_may_hide(text: str, hidden: float) -> None:
    root = parsed(text)
    point = {"x": mpf(2) ** -900, "k": mpf(2) ** 100}
    with mpmath.workprec(BITS):
        assert program(root).at(point).hidden == pytest.approx(hidden, abs=3)


@pytest.mark.parametrize("bits", [200, 1000])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_polygamma(order: int, bits: int) -> None:
    for x in (mpf(2) ** -900, mpf("0.3"), mpf(1), mpf("17.25"), mpf(10) ** 10, mpf(2) ** 700):
        with mpmath.workprec(bits), mpfr.precise():
            found = lowered(FUNCTIONS["polygamma"](lifted(mpf(order)), lifted(x)))
        with mpmath.workprec(2 * bits):
            exact = mpmath.polygamma(order, x)
            assert abs(found - exact) <= abs(exact) * mpf(2) ** (1 - bits)


@pytest.mark.parametrize("name", ["digamma", "erfc", "gamma", "loggamma", "sigmoid", "sinc"])
def test_values_that_are_kept_are_those_of_the_precision_and_the_range(name: str) -> None:
    graph = Graph()
    compute = program(graph.apply(name, graph.input("a")))
    for bits in (200, 300, 200):
        with mpmath.workprec(bits):
            for x in ("0.7", "0.7", "0", "0", "1e6", "1e6", "1e60", "1e60"):
                (value,) = compute.at({"a": mpf(x)}).values
                exact = evaluate.function(name, mpf(x))
                if mpmath.isfinite(exact):
                    assert abs(value - exact) <= abs(exact) * mpf(2) ** (10 - bits), (bits, x)
                else:
                    assert not mpmath.isfinite(value), (bits, x)
