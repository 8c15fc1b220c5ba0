"""What the compiler makes of the kernels: the loop over the elements is computed by whole vectors."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import gallery
import pytest
import torch
from building import build
from gallery import DTYPES, EACH_FUNCTION, Op, first

rt = gallery.runtime()


def is_vectorised(kernel: Any, dtype: torch.dtype) -> bool:
    """What GCC says of the loop over the elements."""
    source = kernel.cpu_source(dtype)
    (line,) = (number for number, text in enumerate(source.splitlines(), 1) if "gg_i = gg_begin" in text)
    command = [
        *rt._compiler().command,
        *rt._C_FLAGS,
        *rt._FOR_THIS_PROCESSOR,
        "-fopt-info-vec",
        "-x",
        "c",
        "-",
        "-o",
        "/dev/null",
    ]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    return any(f":{line}:" in told and "loop vectorized" in told for told in done.stderr.splitlines())


def is_gcc() -> bool:
    command = [*rt._compiler().command, "--help=optimizers"]
    return "vectorize" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.few(every_day=8, slow=30)
@pytest.mark.skipif(not is_gcc(), reason="the compiler is not GCC")
@pytest.mark.parametrize("op", first(EACH_FUNCTION), ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_loop_is_vectorised(op: Op, dtype: torch.dtype) -> None:
    found = {kernel.name: is_vectorised(kernel, dtype) for kernel in op.kernels.values()}
    assert all(found.values()), found


SPEC = """
@op
def swiglu(gate: Tensor, value: Tensor):
    return gate / (1 + exp(-gate)) * value

@op
def area(x: Tensor):
    return asinh(x)

@op
def other_area(x: Tensor):
    return atanh(x)

@op
def third_area(x: Tensor):
    return acosh(x)

@op
def root(x: Tensor):
    return cbrt(x)

@op
def hard_swish(x: Tensor):
    return x * Min(Max(x + 3, 0), 6) / 6

@op
def ripple(x: Tensor):
    return sinc(x)

@op
def tent(x: Tensor):
    return Piecewise((x*exp(-x), x > 1), (x*exp(x), x < -1), (x*exp(-1), True))
"""


# A limit at infinity that hangs on the signs of hyper-parameters, which all elements share.
UNIFORM = """
@op
def moneyness(price: Tensor, volatility: Tensor, strike: float = 1.1, rate: float = 0.02):
    return (log(price / strike) + (rate + volatility**2 / 2)) / volatility
"""


@pytest.mark.skipif(not is_gcc(), reason="the compiler is not GCC")
def test_conditions_that_elements_share_do_not_branch(tmp_path: Path) -> None:
    module, _ = build(UNIFORM, tmp_path)
    kernels = [module._MONEYNESS.narrow, module._MONEYNESS_BACKWARD.narrow]
    assert all("& (strike > 0) & (rate > 0)" in kernel.forms[torch.float32].code for kernel in kernels)
    assert [is_vectorised(kernel, torch.float32) for kernel in kernels] == [True, True]


@pytest.mark.skipif(not is_gcc(), reason="the compiler is not GCC")
def test_products_with_inputs_and_functions_of_our_own_are(tmp_path: Path) -> None:
    """What selects, as a product with an infinite number, or a series near 0, selects among what is computed."""
    module, _ = build(SPEC, tmp_path)
    kernels = [kernel for kernel in vars(module).values() if isinstance(kernel, module.rt.Kernel)]
    assert len(kernels) == 24
    for dtype in (torch.float32, torch.float64):
        found = {kernel.name: is_vectorised(kernel, dtype) for kernel in kernels if "double" not in kernel.name}
        assert all(found.values()), (dtype, found)


@pytest.mark.skipif(not is_gcc(), reason="the compiler is not GCC")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_gate_is_beside_a_logarithm(dtype: torch.dtype) -> None:
    """Whose selections GCC joins with those of what follows."""
    code = "const real y = dgate(log1p(x * x), 2 * (x * x) / (1 + x * x));"
    kernel = rt.Kernel("gate", tensors=("x",), results=("y",), code=code, expression=lambda x, wanted: (x,))
    assert is_vectorised(kernel, dtype)
