"""The functions that kernels compute by others are those of the table, and err as their texts do."""

from __future__ import annotations

import random

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from generated import _runtime
from gradgen import composed, quick
from gradgen.evaluate import function
from gradgen.graph import Graph, topological
from gradgen.model import FORMATS, Program
from gradgen.primitives import PRIMITIVES

COUNT = {name: PRIMITIVES[name].c.count("{") for name in composed.TEXTS}


@pytest.mark.parametrize("name", composed.TEXTS)
def test_each_is_the_function_of_its_name(name: str) -> None:
    randoms = random.Random(0)
    at = [[randoms.choice((-1, 1)) * 2.0 ** randoms.uniform(-20, 6) for _ in range(200)] for _ in range(COUNT[name])]
    others = composed.Others(lambda called, *args: quick.FUNCTIONS[called](*args), lambda x: x)
    found = composed.TEXTS[name](others, *map(np.array, at))
    for value, *x in zip(found.tolist(), *at, strict=True):
        with mpmath.workprec(200):
            exact = function(name, *map(mpf, x))
        size = max(abs(exact), 2.0**-1022, *map(abs, x if name == "logaddexp" else [0.0]))
        assert abs(value - exact) <= 1e-13 * size, x


@pytest.mark.parametrize("name", composed.TEXTS)
def test_the_modelled_error_is_the_measured_one_or_half_as_much_again(name: str) -> None:
    """The same text in C, at many float32 numbers, against itself in float64."""
    names = ("a", "b")[: COUNT[name]]
    generator = torch.Generator().manual_seed(0)
    shape = (COUNT[name], 1 << 18)
    x = (torch.rand(shape, generator=generator) * 8 - 4).to(torch.float32)
    kernel = _runtime.Kernel(
        f"probe_{name}",
        tensors=names,
        results=("y",),
        code=f"const real y = {name}({', '.join(names)});",
        expression=lambda *_: pytest.fail("no C kernel"),
    )
    (found,), (exact,) = kernel(tuple(x)), kernel(tuple(x.double()))
    graph = Graph()
    order = topological([graph.apply(name, *map(graph.input, names))])
    program = Program(order, FORMATS["float32"], is_quick=True)
    modelled = program.on(dict(zip(names, x.double().numpy(), strict=True)), np.arange(shape[1]))[-1]
    size = torch.stack([exact, *x]).abs().amax(0) if name == "logaddexp" else exact  # which is what is left of these
    unit = torch.exp2(torch.frexp(size)[1] - 24.0)

    def worst(values: torch.Tensor) -> float:
        return float(((values.double() - exact).abs() / unit).max())

    assert worst(found) <= worst(torch.from_numpy(modelled)) <= 1.5 * worst(found)
