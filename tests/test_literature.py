"""Formulas from the literature, typed as it prints them (`literature/`): float32, and float64 against mpmath.

A float32 operation of one input is compared with the float64 torch form at inputs from all bit patterns; the float64
one, and float32 ones of several inputs, with mpmath at some points, the float64 one also with MPFR at hundreds. Every
day a fifth of the formulas, none of which takes long; `slow` are the others, denser inputs, more points, and the paths
that were left out.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import mpmath
import pytest
import torch
from building import build_formula, new_package
from exceptions import ALL_WITHIN, BAR, Bound, Bounds, Worst, exceptions, judge
from torch import Tensor

from gradgen.load import load
from gradgen.ulp import LARGEST
from gradgen.verify import many
from gradgen.verify.measure import jet
from gradgen.verify.quantity import KINDS, Exact, Quantity, error
from gradgen.verify.reference import Reference
from gradgen.verify.subject import Subject

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

LONGEST = ("black_scholes_call", "great_circle", "colu")  # to build, or to have exact results of
EVERY_DAY = [name for name in list(FORMULAS)[::5] if name not in LONGEST]
PATHS = ("cpu", "torch")


EXCEPTIONS = exceptions("literature")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the modules of the formulas are built, a package."""
    return new_package(tmp_path_factory.mktemp("built") / "built_literature")


@functools.cache
def built(name: str, folder: Path) -> ModuleType:
    """The generated module of one formula, which takes a second or so to find: only those that are tested are built."""
    spec, formula = FORMULAS[name]
    return build_formula(formula, spec, folder)


def hyper(name: str) -> dict[str, float]:
    return {p.name: p.default for p in FORMULAS[name][1].scalars}


def domain(name: str) -> list[tuple[float, float]]:
    bounds = DOMAIN.get(name, {})
    return [bounds.get(p.name, (-math.inf, math.inf)) for p in FORMULAS[name][1].tensors]


def derivatives(name: str, inputs: list[Tensor], path: str, folder: Path) -> dict[Quantity, Tensor]:
    """The value and its derivatives of first and second order."""
    module = built(name, folder)
    function = getattr(module, name)
    subject = Subject(FORMULAS[name][1], function, module.rt, function)
    tensors = dict(zip(subject.inputs, inputs, strict=True))
    with module.rt.force_path("torch") if path == "torch" else nullcontext(), module.rt.record_paths() as taken:
        found = jet(subject.call, tensors, subject.differentiable, subject.quantities)
    assert {way for _, way in taken} == {path}
    return found


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
    size = torch.maximum(exact.abs(), scale.abs().nan_to_num(0.0, posinf=0.0)).clamp(min=TINY, max=HUGE)
    ulp = torch.exp2(torch.floor(torch.log2(size)) - 23)
    error = (computed.double() - exact).abs() / ulp
    beyond = (exact.abs() + 4 * ulp > HUGE) & (computed.double() == exact.sign() * torch.inf)
    error = torch.where(beyond | (computed.double() == exact), 0.0, error)
    return torch.where(exact.isnan(), 0.0, torch.where(error.isnan(), torch.inf, error))


STEP = 2.0**-44  # by which an input is moved to see what rounding it makes of a second derivative


def worst_single(name: str, stride: int, paths: Sequence[str], folder: Path) -> dict[str, Worst]:
    """The worst errors of value, gradient and second derivative, each with the place it is at."""
    x = bit_patterns(stride, *domain(name)[0])
    wide = x.double()
    double = derivatives(name, [wide], "cpu", folder)
    value, gradient, second = double
    found = {quantity.kind: unfounded(name, x, exact, quantity) for quantity, exact in double.items()}
    for path in paths:
        single = derivatives(name, [x], path, folder)
        scales = {value: wide * double[gradient], gradient: wide * double[second]}
        suspects = single_errors(single[second], double[second], torch.zeros(())) > BAR
        scales[second] = torch.zeros_like(wide)
        if suspects.any():
            moved = derivatives(name, [wide[suspects] * (1 + STEP)], "cpu", folder)[second]
            scales[second][suspects] = (moved - double[second][suspects]) / STEP
        for quantity, scale in scales.items():
            worst = worst_of(x, single[quantity], double[quantity], scale)
            found[quantity.kind] = max(found[quantity.kind], worst)
    return found


def worst_of(x: Tensor, computed: Tensor, exact: Tensor, scale: Tensor) -> Worst:
    error = single_errors(computed, exact, scale)
    at = int(error.argmax())
    return error[at].item(), f"at {x[at].item()!r}: {computed[at].item()!r}, exactly {exact[at].item()!r}"


def unfounded(name: str, x: Tensor, double: Tensor, quantity: Quantity) -> Worst:
    """An infinite error where what is to judge float32 is itself no number and should be; some inputs are tried."""
    reference = Reference(FORMULAS[name][1], hyper(name), bits=300)
    odd = x[~double.isfinite() & x.isfinite() & (x.abs() <= REACH.get(name, math.inf))]
    for number in odd[:: len(odd) // 3 + 1].tolist():
        point = {FORMULAS[name][1].tensors[0].name: number}
        exact = reference(point, [Quantity(0, ()), quantity])
        value, right = (
            exact[wanted].value if wanted in exact else mpmath.nan for wanted in (Quantity(0, ()), quantity)
        )
        if mpmath.isfinite(value) and mpmath.isfinite(right) and abs(right) < LARGEST["float32"]:
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
def samples(name: str, dtype: str, count: int) -> list[tuple[tuple[float, ...], dict[Quantity, Exact]]]:
    """For each point what is exact there."""
    formula = FORMULAS[name][1]
    subject = Subject(formula, None, None, None)
    reference = Reference(formula, hyper(name), bits=1200 if name in FAR_TAILS else 300)
    rows = []
    for row in points(name, count):
        row = tuple(torch.tensor(row, dtype=getattr(torch, dtype)).tolist())
        if any(not low < x < high for x, (low, high) in zip(row, domain(name), strict=True)):
            continue  # rounded to an end of its interval
        exact = reference(dict(zip(subject.inputs, row, strict=True)), subject.quantities)
        if len(exact) == len(subject.quantities) and all(mpmath.isfinite(found.value) for found in exact.values()):
            rows.append((row, exact))
    assert len(rows) > count / 2
    return rows


def worst_pointwise(name: str, dtype: str, paths: Sequence[str], count: int, folder: Path) -> dict[str, Worst]:
    """The worst errors of value, gradient and second derivative against mpmath."""
    rows = samples(name, dtype, count)
    columns = [
        torch.tensor(column, dtype=getattr(torch, dtype)) for column in zip(*(row for row, _ in rows), strict=True)
    ]
    found = dict.fromkeys(KINDS, (0.0, ""))
    for path in paths:
        for quantity, computed in derivatives(name, columns, path, folder).items():
            for result, (row, exact) in zip(computed.tolist(), rows, strict=True):
                off = error(result, exact[quantity], dtype)
                if off is not None:
                    right = mpmath.nstr(exact[quantity].value, 17)
                    place = f"{path}, {quantity.described(1)} at {row}: {result}, exactly {right}"
                    found[quantity.kind] = max(found[quantity.kind], (off, place))
    return found


def at_many(name: str, count: int, folder: Path) -> dict[str, Worst]:
    """The worst errors of value and gradient of a float64 operation, at many numbers."""
    names = [p.name for p in FORMULAS[name][1].tensors]
    intervals = dict(zip(names, domain(name), strict=True))
    rows = many.samples(FORMULAS[name][1], hyper(name), count, intervals, has_edges=True)
    columns = [torch.tensor([point[x] for point, _ in rows], dtype=torch.float64) for x in names]
    results = derivatives(name, columns, "cpu", folder)
    found = dict.fromkeys(KINDS, (0.0, ""))
    for quantity, computed in results.items():
        for result, (point, exact) in zip(computed.tolist(), rows, strict=True):
            off = error(result, exact[quantity], "float64") if quantity in exact else None
            if off is not None:
                place = f"cpu, {quantity.described(1)} at {point}: {result}, exactly {exact[quantity].value}"
                found[quantity.kind] = max(found[quantity.kind], (off, place))
    return found


def worse(one: dict[str, Worst], other: dict[str, Worst]) -> dict[str, Worst]:
    return {kind: max(one[kind], other[kind]) for kind in KINDS}


# The tests


def test_the_exceptions_are_few_and_of_formulas_that_there_are() -> None:
    values = [found for found in EXCEPTIONS.values() if {found["value"], found["gradient"]} != {Bound()}]
    assert len(values) <= 10
    assert len(EXCEPTIONS) <= 13
    assert FORMULAS.keys() >= {name for name, _ in EXCEPTIONS}


def each(names: Iterable[str], dtype: str) -> list[object]:
    """One worker runs all tests of a formula; it builds its module, which takes longest, and finds exact results.

    Those that neither are of a fourth of those that are looked at every day nor have exceptions are thorough.
    """
    known = {*EVERY_DAY[::4], *(name for name, of in EXCEPTIONS if of == dtype)}
    return [
        pytest.param(name, marks=[pytest.mark.xdist_group(name), *[pytest.mark.thorough] * (name not in known)])
        for name in names
    ]


def bounds(name: str, dtype: str) -> Bounds:
    return EXCEPTIONS.get((name, dtype), ALL_WITHIN)


@pytest.mark.sample
@pytest.mark.parametrize("name", each((name for name in EVERY_DAY if name in UNARY), "float32"))
def test_float32(name: str, folder: Path) -> None:
    judge(worst_single(name, 65537, ["cpu"], folder), bounds(name, "float32"), needed=False)


@pytest.mark.sample
@pytest.mark.parametrize("name", each(EVERY_DAY, "float64"))
def test_float64(name: str, folder: Path) -> None:
    found = worst_pointwise(name, "float64", ["torch"], 8, folder)
    judge(worse(found, at_many(name, 100, folder)), bounds(name, "float64"), needed=False)


@pytest.mark.sample
@pytest.mark.parametrize("name", each((name for name in EVERY_DAY if name in SEVERAL), "float32"))
def test_several_inputs_float32(name: str, folder: Path) -> None:
    judge(worst_pointwise(name, "float32", ["cpu"], 8, folder), bounds(name, "float32"), needed=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", each(FORMULAS, "float32"))
def test_float32_densely(name: str, folder: Path) -> None:
    found = worst_pointwise(name, "float32", PATHS, 25, folder)
    if name in UNARY:
        found = worse(found, worst_single(name, 16411, ["cpu"], folder))
        # What an exception is about may be a few numbers, such as cloglog's below the smallest normal one.
        stride = 16411 if (name, "float32") in EXCEPTIONS else 131101
        found = worse(found, worst_single(name, stride, ["torch"], folder))
    judge(found, bounds(name, "float32"), needed=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", each(FORMULAS, "float64"))
def test_float64_densely(name: str, folder: Path) -> None:
    found = worst_pointwise(name, "float64", PATHS, 25, folder)
    judge(worse(found, at_many(name, 400, folder)), bounds(name, "float64"), needed=True)
