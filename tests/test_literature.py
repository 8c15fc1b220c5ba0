"""Formulas from the literature, typed as it prints them (`literature/`): float32, and float64 against mpmath.

A float32 operation of one input is compared with the float64 torch form at inputs from all bit patterns; the float64
one, and float32 ones of several inputs, with mpmath at some points. Every day a third of the formulas; `slow` are the
others, denser inputs, more points, and the paths that were left out.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import mpmath
import pytest
import torch
from building import build_formula, new_package
from mpmath import mpf
from torch import Tensor

from gradgen.exact import Exact
from gradgen.load import load
from gradgen.ulp import LARGEST, mixed_error

BAR = 4.0
EASILY = 3.0  # what another C library will not lift above the bar
SPECS = sorted(Path(__file__).with_name("literature").glob("*.py"))
FORMULAS = {formula.name: (spec, formula) for spec in SPECS for formula in load(spec)}
UNARY = [name for name, (_, formula) in FORMULAS.items() if len(formula.tensors) == 1]
SEVERAL = [name for name in FORMULAS if name not in UNARY]

# Where a formula is meant to be used; elsewhere everywhere.
POSITIVE = (0.0, math.inf)
UNIT = (0.0, 1.0)
SYMMETRIC = (-1.0, 1.0)
DOMAIN: dict[str, dict[str, tuple[float, float]]] = {
    name: {parameter.name: interval for parameter in FORMULAS[name][1].tensors}
    for interval, names in {
        POSITIVE: """planck planck_wavelength bose_einstein einstein_heat schottky debye_integrand
            oscillator_free_energy lennard_jones buckingham yukawa maxwell_boltzmann michaelis_menten hill arrhenius
            richardson weibull_log_density weibull_distribution lognormal_log_density inverse_gaussian_log_density
            exponential_distribution rayleigh_distribution box_cox softplus_inverse bertalanffy nernst itakura_saito
            poisson_deviance msle""",
        UNIT: "binary_entropy logit cloglog kl_bernoulli jensen_shannon hellinger tversky zero_inflated_poisson",
        SYMMETRIC: "lorentz_factor kinetic_energy doppler fene fisher_z velocity_addition",
        (-1.0, 3.0): "rotation_logarithm",
        (0.0, math.pi): "slerp",
        (-1.5, 1.5): "great_circle",
    }.items()
    for name in names.split()
} | {
    "poisson_nll": {"x": (-20.0, 20.0), "y": (0.0, 100.0)},
    "poisson_nll_full": {"rate": (1e-3, 100.0), "y": (0.0, 100.0)},
    "gaussian_nll": {"mean": (-10.0, 10.0), "variance": (1e-3, 10.0), "y": (-10.0, 10.0)},
    "label_smoothing_bce": {"x": (-100.0, 100.0), "y": UNIT},
    "van_der_waals": {"volume": (0.4, 10.0), "temperature": (0.1, 5.0)},
    "ghk_flux": {"v": (-50.0, 50.0), "inside": (0.01, 10.0), "outside": (0.01, 10.0)},
    "black_scholes_d1": {"price": (0.1, 10.0), "volatility": (0.01, 1.0)},
    "black_scholes_call": {"price": (0.5, 2.0), "volatility": (0.05, 1.0)},
    "zero_inflated_poisson": {"p": UNIT, "rate": (0.01, 30.0)},
    "bpr": {"x": (-100.0, 100.0), "y": (-100.0, 100.0)},
}  # fmt: skip

# How large an input mpmath can take: an exponential of an exponential it writes out in full, and what is left of 1
# where a function nears it takes more digits than there are.
FAR_TAILS = ("normal_log_distribution", "mills_ratio", "hazard", "expected_improvement")
REACH = {
    **dict.fromkeys(["tanhexp", "cloglog_activation", "gompertz", "colu", "symexp"], 1e3),
    **dict.fromkeys(["tanh_log_jacobian", "mercator_latitude"], 1e3),
    **dict.fromkeys(FAR_TAILS, 25.0),
}

EVERY_DAY = set(list(FORMULAS)[::3])
PATHS = ("cpu", "torch")


@dataclass(frozen=True)
class Bounds:
    """What a formula that misses the bar was measured to stay within, a quarter added; with some libraries or all."""

    value: float
    gradient: float
    everywhere: bool = True


def exceptions(dtype: str) -> dict[str, Bounds]:
    """The rows of a type in the table of docs/accuracy.md.

    Each must be necessary: where an error is well within the bar, or one bounded by inf is finite, a slow test fails.
    """
    text = (Path(__file__).parents[1] / "docs" / "accuracy.md").read_text()
    table = text.split("<!-- exceptions: begin -->")[1].split("<!-- exceptions: end -->")[0]
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    return {
        row[0]: Bounds(float(row[2]), float(row[3]), "not with every C library" not in row[4])
        for row in rows
        if row[1] == dtype
    }


SINGLE, DOUBLE = exceptions("float32"), exceptions("float64")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the modules of the formulas are built, a package."""
    return new_package(tmp_path_factory.mktemp("built") / "built_literature")


@functools.cache
def built(name: str, folder: Path) -> ModuleType:
    """The generated module of one formula, which takes a second or so to find: only those that are tested are built."""
    spec, formula = FORMULAS[name]
    return build_formula(formula, spec, folder)


def domain(name: str) -> list[tuple[float, float]]:
    bounds = DOMAIN.get(name, {})
    return [bounds.get(p.name, (-math.inf, math.inf)) for p in FORMULAS[name][1].tensors]


def derivatives(name: str, inputs: list[Tensor], path: str, folder: Path, order: int = 1) -> dict[str, Tensor]:
    """The value, by "", and its derivatives, by the names of the inputs."""
    module = built(name, folder)
    parameters = FORMULAS[name][1].tensors
    inputs = [x.clone().requires_grad_(p.grad) for x, p in zip(inputs, parameters, strict=True)]
    wanted = [(p.name, x) for x, p in zip(inputs, parameters, strict=True) if p.grad]
    with module.rt.force_path("torch") if path == "torch" else nullcontext(), module.rt.record_paths() as taken:
        value = getattr(module, name)(*inputs)
        found = {"": value}
        grads = torch.autograd.grad(value.sum(), [x for _, x in wanted], create_graph=order > 1, materialize_grads=True)
        found |= {by: grad for (by, _), grad in zip(wanted, grads, strict=True)}
        if order == 2 and grads[0].requires_grad:
            (found["second"],) = torch.autograd.grad(grads[0].sum(), wanted[0][1], materialize_grads=True)
    assert {way for _, way in taken} == {path}
    return {by: result.detach() for by, result in found.items()}


# float32 against float64, at inputs of every magnitude

TINY, HUGE = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


def bit_patterns(stride: int, low: float, high: float) -> Tensor:
    """The float32 numbers inside an interval whose bit patterns are 0, stride, 2 * stride, ..."""
    patterns = torch.arange(0, 1 << 32, stride, dtype=torch.int64)
    signed = torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns).to(torch.int32)
    x = signed.view(torch.float32)
    return x[(x > low) & (x < high)]


def single_errors(computed: Tensor, exact: Tensor, scale: Tensor) -> Tensor:
    """The mixed error in float32 ULPs; infinite for a NaN or an infinity where the exact result is a number."""
    size = torch.maximum(exact.abs(), scale.abs().nan_to_num(0.0)).clamp(min=TINY, max=HUGE)
    ulp = torch.exp2(torch.floor(torch.log2(size)) - 23)
    error = (computed.double() - exact).abs() / ulp
    beyond = (exact.abs() + 4 * ulp > HUGE) & (computed.double() == exact.sign() * torch.inf)
    error = torch.where(beyond | (computed.double() == exact), 0.0, error)
    return torch.where(exact.isnan(), 0.0, torch.where(error.isnan(), torch.inf, error))


Worst = tuple[float, str]


def worst_single(name: str, stride: int, paths: Sequence[str], folder: Path) -> tuple[Worst, Worst]:
    """The worst errors of value and gradient, each with the place it is at."""
    x = bit_patterns(stride, *domain(name)[0])
    double = derivatives(name, [x.double()], "torch", folder, order=2)
    by = FORMULAS[name][1].tensors[0].name
    second = double.get("second", torch.zeros_like(double[by]))
    value, gradient = unfounded(name, x, double[""], ""), unfounded(name, x, double[by], by)
    for path in paths:
        single = derivatives(name, [x], path, folder)
        value = max(value, worst_of(x, single[""], double[""], double[by]))
        gradient = max(gradient, worst_of(x, single[by], double[by], second))
    return value, gradient


def worst_of(x: Tensor, computed: Tensor, exact: Tensor, slope: Tensor) -> Worst:
    error = single_errors(computed, exact, x.double() * slope)
    at = int(error.argmax())
    return error[at].item(), f"at {x[at].item()!r}: {computed[at].item()!r}, exactly {exact[at].item()!r}"


def unfounded(name: str, x: Tensor, double: Tensor, by: str) -> Worst:
    """An infinite error where what is to judge float32 is itself no number and should be; some inputs are tried."""
    formula = FORMULAS[name][1]
    exact, hyper = Exact(formula, bits=300), {p.name: p.default for p in formula.scalars}
    odd = x[~double.isfinite() & x.isfinite() & (x.abs() <= REACH.get(name, math.inf))]
    for number in odd[:: len(odd) // 3 + 1].tolist():
        point = {formula.tensors[0].name: number, **hyper}
        try:
            value = exact.value(point)
            right = exact.derivative(point, [by]) if by and mpmath.isfinite(value) else value
        except ArithmeticError:
            continue
        if mpmath.isfinite(right) and abs(right) < LARGEST["float32"]:
            return math.inf, f"at {number}: float64 has no number, exactly {mpmath.nstr(right, 17)}"
    return 0.0, ""


# Any type against mpmath

MAGNITUDES = [1e-40, 1e-12, 1e-6, 1e-3, 0.03, 30.0, 90.0, 800.0, 1e4, 1e12, 1e30]


def points(name: str, count: int) -> Iterator[tuple[float, ...]]:
    """Numbers from the domain; where that is unbounded, ordinary ones and others of many magnitudes by turns."""
    randoms = random.Random(name)
    intervals = domain(name)
    for k in range(count):
        row = []
        for low, high in intervals:
            if math.isfinite(high - low):
                # Each has its share of every part of the interval, a few are close to its ends.
                share = (k + randoms.random()) / count if len(intervals) == 1 else randoms.random()
                nearness = 10.0 ** -randoms.randint(1, 6)
                share = randoms.choice([nearness, 1 - nearness]) if k % 4 == 3 else share
                row.append(low + (high - low) * share)
            else:
                size = abs(randoms.gauss(0, 1)) * 10 ** randoms.uniform(-1, 1)
                if k % 2:
                    size = randoms.choice(MAGNITUDES) * randoms.uniform(1, 2)
                row.append(min(size, REACH.get(name, math.inf)) * (1 if low == 0 else randoms.choice([-1, 1])))
        yield tuple(row)


@functools.cache
def exact_results(name: str, dtype: str, count: int) -> list[tuple[tuple[float, ...], dict]]:
    """For each point the value and the derivatives, each with its scale."""
    formula = FORMULAS[name][1]
    exact = Exact(formula, bits=1200 if name in FAR_TAILS else 300)
    hyper = {p.name: p.default for p in formula.scalars}
    rows = []
    for row in points(name, count):
        row = tuple(torch.tensor(row, dtype=getattr(torch, dtype)).tolist())
        point = dict(zip([p.name for p in formula.tensors], row, strict=True)) | hyper
        if any(not low < x < high for x, (low, high) in zip(row, domain(name), strict=True)):
            continue  # rounded to an end of its interval
        try:
            first = {p.name: exact.derivative(point, [p.name]) for p in formula.tensors}
            results = {"": (exact.value(point), largest(point, first))}
            for p in formula.tensors:
                if p.grad:
                    second = {k: exact.derivative(point, [p.name, k]) for k in first}
                    results[p.name] = (first[p.name], largest(point, second))
        except ArithmeticError:
            continue  # no agreement between precisions
        if all(mpmath.isfinite(result) and mpmath.isfinite(scale) for result, scale in results.values()):
            rows.append((row, results))
    assert len(rows) > count / 2
    return rows


def largest(point: Mapping[str, float], slopes: Mapping[str, mpf]) -> mpf:
    return max(abs(point[k] * slope) for k, slope in slopes.items())


def worst_pointwise(name: str, dtype: str, paths: Sequence[str], count: int, folder: Path) -> tuple[Worst, Worst]:
    """The worst errors of value and gradient against mpmath."""
    rows = exact_results(name, dtype, count)
    columns = [
        torch.tensor(column, dtype=getattr(torch, dtype)) for column in zip(*(row for row, _ in rows), strict=True)
    ]
    value, gradient = (0.0, ""), (0.0, "")
    for path in paths:
        computed = derivatives(name, columns, path, folder)
        for i, (row, results) in enumerate(rows):
            for by, (exact, scale) in results.items():
                result = computed[by][i].item()
                error = mixed_error(result, exact, scale, dtype)
                place = f"{path}, by {by!r} at {row}: {result}, exactly {mpmath.nstr(exact, 17)}"
                if by:
                    gradient = max(gradient, (error, place))
                else:
                    value = max(value, (error, place))
    return value, gradient


# The tests


def test_the_exceptions_are_few_and_of_formulas_that_there_are() -> None:
    assert len(SINGLE) <= 6
    assert len(DOUBLE) <= 10
    assert FORMULAS.keys() >= SINGLE.keys() | DOUBLE.keys()


def judge(name: str, value: Worst, gradient: Worst, exceptions: Mapping[str, Bounds], needed: bool) -> None:
    """Within the bar, or within the bounds of an exception; where much was tried the exception must be `needed`."""
    bounds = exceptions.get(name, Bounds(BAR, BAR))
    assert value[0] <= bounds.value, f"value: {value[0]:.3g} ULP {value[1]}"
    assert gradient[0] <= bounds.gradient, f"gradient: {gradient[0]:.3g} ULP {gradient[1]}"
    if name in exceptions and needed and bounds.everywhere:
        for error, bound in ((value[0], bounds.value), (gradient[0], bounds.gradient)):
            assert bound <= BAR or error > EASILY, f"{error:.3g} ULP: the exception of {name} can be lowered to the bar"
            assert bound < math.inf or error == math.inf, f"{error:.3g} ULP: the exception of {name} can be finite"


def each(names: Sequence[str], everyday: Collection[str]) -> list[object]:
    """One worker runs all tests of a formula; it builds its module, which takes longest, and finds exact results."""
    return [
        pytest.param(name, marks=[pytest.mark.xdist_group(name), *([] if name in everyday else [pytest.mark.slow])])
        for name in names
    ]


@pytest.mark.parametrize("name", each(UNARY, EVERY_DAY))
def test_float32(name: str, folder: Path) -> None:
    judge(name, *worst_single(name, 65537, ["cpu"], folder), SINGLE, needed=False)


@pytest.mark.parametrize("name", each(FORMULAS, EVERY_DAY))
def test_float64(name: str, folder: Path) -> None:
    judge(name, *worst_pointwise(name, "float64", ["torch"], 8, folder), DOUBLE, needed=False)


@pytest.mark.parametrize("name", each(SEVERAL, EVERY_DAY))
def test_several_inputs_float32(name: str, folder: Path) -> None:
    judge(name, *worst_pointwise(name, "float32", ["cpu"], 8, folder), SINGLE, needed=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", each(FORMULAS, ()))
def test_float32_densely(name: str, folder: Path) -> None:
    found = [worst_pointwise(name, "float32", PATHS, 25, folder)]
    if name in UNARY:
        found.append(worst_single(name, 4099, PATHS, folder))
    judge(name, *map(max, zip(*found, strict=True)), SINGLE, needed=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", each(FORMULAS, ()))
def test_float64_densely(name: str, folder: Path) -> None:
    judge(name, *worst_pointwise(name, "float64", PATHS, 25, folder), DOUBLE, needed=True)
