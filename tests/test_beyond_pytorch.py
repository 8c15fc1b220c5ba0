"""docs/pytorch.md: what torch does not support, and what happens then. A test that fails may be good news."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gallery
import pytest
import torch
from gallery import get
from subjects import subject
from torch.func import functionalize, grad, jacrev, jvp, vmap

from gradgen.render import operator_text

rt = gallery.runtime()
swish, binarize = get("swish").function, get("binarize").function
STATED = (Path(__file__).parents[1] / "docs" / "pytorch.md").read_text()


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    for name in ("swish", "elu", "relu", "binarize"):
        exec(operator_text(subject(get(name)).formula), {"rt": rt, **vars(get(name).code)})


def test_the_document_is_of_this_version() -> None:
    assert f"torch {'.'.join(torch.__version__.split('.')[:2])}." in STATED


AT = {"elu": [-1.0, 1.0, 200.0], "relu": [-1.0, 0.0, 1.0], "binarize": [0.3, -0.2, 2.0]}
RIGHT = {"elu": [0.36787944, 1.0, 1.0], "relu": [0.0, 0.0, 1.0], "binarize": [1.0, 1.0, 0.0]}
EXPORTED = {"elu": [0.36787944, 1.0, math.nan], "relu": [0.0, 1.0, 1.0], "binarize": [0.0, 0.0, 0.0]}


@pytest.mark.parametrize("name", AT)
def test_gradients_of_exported_programs(name: str) -> None:
    """Those of the torch expression; of an operator its own."""

    class Model(torch.nn.Module):
        def __init__(self, call: Callable[..., torch.Tensor]) -> None:
            super().__init__()
            self.call = call

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.call(x)

    x = torch.tensor(AT[name])
    for call, expected in ((get(name).function, EXPORTED), (getattr(torch.ops.gradgen, name), RIGHT)):
        leaf = x.clone().requires_grad_()
        torch.export.export(Model(call), (x,)).module()(leaf).sum().backward()
        torch.testing.assert_close(leaf.grad, torch.tensor(expected[name]), equal_nan=True)


def test_a_gradient_of_ones_own_in_forward_mode_within_an_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return jvp(binarize, (x,), (torch.ones_like(x),))[1]

    x = torch.tensor(AT["binarize"])
    assert Model()(x).tolist() == RIGHT["binarize"]
    assert torch.export.export(Model(), (x,)).module()(x).tolist() == EXPORTED["binarize"]


def test_functionalize() -> None:
    with pytest.raises(RuntimeError, match="NYI: Functionalize rule for custom_function_call"):
        functionalize(swish)(torch.randn(3))


@pytest.mark.parametrize("transform", [lambda f: grad(lambda x: f(x).sum()), jacrev], ids=["grad", "jacrev"])
def test_transforms_of_operators(transform: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        transform(torch.ops.gradgen.swish)(torch.randn(3))


def test_tensors_for_hyper_parameters() -> None:
    x, beta = torch.randn(3), torch.ones(3)
    with pytest.raises(TypeError, match=r"must be float, not Tensor; .* declare the parameter as `beta: Tensor`"):
        swish(x, beta)
    with pytest.raises(TypeError, match=r"must be float, not Tensor; .* declare the parameter as `beta: Tensor`"):
        vmap(swish)(x, beta)


@pytest.mark.xdist_group("native")
def test_saved_tensors_of_a_node_in_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rt, "_native", None)
    x = torch.ones(3, requires_grad=True)
    assert swish(x).grad_fn.saved_tensors
    rt._use_native(rt.compile_native())
    for name in ("saved_tensors", "needs_input_grad", "beta"):
        assert not hasattr(swish(x).grad_fn, name)
    assert not isinstance(swish(x).grad_fn, torch.autograd.graph.Node)
    assert not hasattr(torch.nn.functional.silu(x).grad_fn, "saved_tensors")


def run(script: str) -> list[str]:
    """What a script prints, in a process of its own: torch is in disorder after some of its errors."""
    text = "import sys, threading, torch\nfrom generated.swish import swish\n" + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600, cwd=gallery.ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_forward_mode_in_several_threads() -> None:
    found = run("""
        from torch.autograd import forward_ad
        def enter():
            try:
                with forward_ad.dual_level():
                    print("entered")
            except RuntimeError as error:
                print(error)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
            thread = threading.Thread(target=enter)
            thread.start()
            thread.join()
            print(*[round(slope, 4) for slope in forward_ad.unpack_dual(swish(dual)).tangent.tolist()])
    """)
    assert len(found) == 2
    assert "forward" in found[0].lower()
    assert found[1] == "0.9277 0.9277"


@pytest.mark.parametrize("transform", ["grad(lambda x: f(x).sum())", "jacrev(f)"])
def test_reverse_mode_within_an_export(transform: str) -> None:
    """An error, and no wrong program."""
    found = run(f"""
        class Slope(torch.nn.Module):
            def forward(self, x):
                f = swish
                return torch.func.{transform}(x)
        try:
            torch.export.export(Slope(), (torch.ones(3),))
            print("exported")
        except Exception as error:
            print(type(error).__name__, str(error).replace(chr(10), " "))
    """)
    assert re.search("Cannot access data pointer|Unsupported functorch tracing attempt", found[-1]), found


@pytest.mark.slow
@pytest.mark.parametrize(
    "transform",
    ["slope(slope(slope(f)))(x)", "torch.vmap(torch.func.hessian(lambda x: f(x).sum()))(x.expand(2, 4))"],
    ids=["forward mode within itself", "vmap of hessian"],
)
def test_transforms_that_the_compiler_refuses_at_times(transform: str) -> None:
    """As of torch's own operations: an error of torch's, or the right values."""
    found = run(f"""
        def slope(f):
            return lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]
        x = torch.linspace(-1, 1, 4, dtype=torch.float64)
        for f in (swish, lambda x: x * torch.sigmoid(x)):
            torch._dynamo.reset()
            def task(x):
                return {transform}
            try:
                compiled = torch.compile(task, fullgraph=True, backend="aot_eager")(x)
                print(torch.allclose(compiled, task(x), rtol=1e-10))
            except Exception as error:
                print(type(error).__name__, str(error).replace(chr(10), " "))
    """)
    refused = "TorchRuntimeError .* when making fake tensor call"
    assert re.match(f"True$|{refused}", found[-2]), found
    assert re.match(refused, found[-1]), found


def test_masked_tensors() -> None:
    x = torch.masked.masked_tensor(torch.randn(3), torch.tensor([True, False, True]))
    for function in (swish, torch.nn.functional.silu):
        with pytest.raises(TypeError, match="Multiple dispatch failed"):
            function(x)


@pytest.mark.filterwarnings("ignore")
def test_torchscript() -> None:
    x = torch.randn(3)
    with pytest.raises(RuntimeError, match="not defined on python value of type 'Kernel'"):
        torch.jit.script(swish)
    assert torch.allclose(torch.jit.trace(swish, (x,))(x), swish(x))


def test_second_derivatives_of_what_was_compiled() -> None:
    torch._dynamo.reset()
    x = torch.randn(3, requires_grad=True)
    for function in (swish, torch.nn.functional.silu):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        (slope,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="does not currently support double backward"):
            slope.sum().backward()


def test_quantised_and_complex_tensors() -> None:
    with pytest.raises(NotImplementedError, match=r"'Quint8' .*convert it with x.dequantize\(\)"):
        swish(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8))
    with pytest.raises(NotImplementedError, match="'ComplexFloat'"):
        swish(torch.ones(2, dtype=torch.complex64))
