"""The gallery as operators of torch.ops: `gradgen build --library`."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gallery
import pytest
import torch
from building import build
from click.testing import CliRunner
from gallery import EACH_KIND, OPS, Op, as_tuple, first, get, gradients, slopes_of
from subjects import subject
from torch._subclasses.fake_tensor import FakeTensorMode

from gradgen.cli import main
from gradgen.load import load
from gradgen.render import operator_text

rt = gallery.runtime()
every = pytest.mark.parametrize("op", OPS, ids=str)
FORMATS = (torch.contiguous_format, torch.channels_last)

SPEC = '''\
from sympy import exp
from gradgen import Tensor, op

@op
def slope(x: Tensor, k: float = float("inf"), n: int = 2, is_odd: bool = True):
    """A slope."""
    return x**n * exp(-x / k)
'''


@pytest.fixture(scope="session", autouse=True)
def _registered() -> None:
    """Once in a process: torch takes a new operator away with the garbage of an old one of its name."""
    for op in OPS:
        exec(operator_text(subject(op).formula), {"rt": rt, **vars(op.code)})


def operator(op: Op) -> Any:
    return getattr(torch.ops.gradgen, op.name)


def layouts(op: Op) -> Iterator[list[torch.Tensor]]:
    """Inputs in order, in channels_last, some in order and some in that, with gaps, and broadcast."""
    yield op.sample((4, 6), dtype=torch.float32)
    yield [x.contiguous(memory_format=torch.channels_last) for x in op.sample((2, 3, 4, 5), dtype=torch.float32)]
    mixed = zip(op.sample((2, 3, 4, 5), dtype=torch.float32), itertools.cycle(FORMATS), strict=False)
    yield [x.contiguous(memory_format=form) for x, form in mixed]
    yield [x.t()[::2] for x in op.sample((5, 6), dtype=torch.float32)]
    yield op.sample((3, 4), (4,), dtype=torch.float64)


@pytest.mark.parametrize("op", first(EACH_KIND), ids=str)
def test_opcheck(op: Op) -> None:
    """All that it checks for one layout; what takes longest, tracing with unknown sizes, not again for the others."""
    wanted = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    for inputs in layouts(op):
        for k in op.differentiable:
            inputs[k].requires_grad_()
        torch.library.opcheck(operator(op).default, (*inputs, *op.others.values()), test_utils=wanted)
        wanted = wanted[:3]


@every
@pytest.mark.usefixtures("way")
def test_results_lie_as_compilers_are_told(op: Op) -> None:
    """By Python, which compiles the kernel, and after that by the dispatcher."""
    repeated = [x.t().contiguous().t().expand(2, 4, 5) if k % 2 == 0 else x for k, x in enumerate(op.sample((4, 5)))]
    permuted = [x.permute(torch.randperm(3).tolist()) for x in op.sample((3, 3, 3))]
    for inputs in (*layouts(op), repeated, permuted):
        with FakeTensorMode() as mode:
            told = as_tuple(operator(op)(*[mode.from_tensor(x) for x in inputs], **op.others))
        for _ in range(3):
            results = as_tuple(operator(op)(*inputs, **op.others))
            assert [x.stride() for x in results] == [x.stride() for x in told]


@every
def test_values_and_gradients_are_those_of_the_op(op: Op) -> None:
    for inputs in layouts(op):
        own = gradients(op, inputs, **op.others)
        with rt.record_paths() as record:
            leaves = [x.clone().requires_grad_(k in op.differentiable) for k, x in enumerate(inputs)]
            results = as_tuple(operator(op)(*leaves, **op.others))
            grads = torch.autograd.grad(sum(r.sum() for r in results), [leaves[k] for k in op.differentiable])
        assert {path for _, path in record} == {"cpu"}
        for found, expected in zip((*results, *grads), own, strict=True):
            assert found.stride() == expected.stride()
            assert torch.equal(found, expected)


@every
def test_gradcheck(op: Op) -> None:
    inputs = op.sample((3,), grad=True)
    assert torch.autograd.gradcheck(operator(op), inputs)
    assert torch.autograd.gradgradcheck(operator(op), inputs)


@every
@pytest.mark.parametrize("dims", [(0, 0), (1, 1), (0, None), (1, 0)], ids=str)
def test_vmap(op: Op, dims: tuple[int | None, int | None]) -> None:
    inputs = op.sample((3, 3))
    in_dims = tuple(dims[min(k, 1)] for k in range(len(inputs)))
    mapped, expected = (as_tuple(torch.vmap(f, in_dims)(*inputs)) for f in (operator(op), op))
    for found, right in zip(mapped, expected, strict=True):
        torch.testing.assert_close(found, right)
    nested = torch.vmap(torch.vmap(operator(op)))(*inputs)
    for found, right in zip(as_tuple(nested), as_tuple(op(*inputs)), strict=True):
        torch.testing.assert_close(found, right)


def test_vmap_where_inputs_broadcast() -> None:
    """What is mapped over stays apart from what broadcasts, whatever the ranks."""
    x, y = torch.randn(5, 4), torch.randn(5, 2, 4)
    multiply = get("max_gate")
    for a, b in ((x, y), (y, x)):
        found = torch.vmap(operator(multiply))(a, b)
        assert torch.equal(found, torch.maximum(x[:, None], y))


class Model(torch.nn.Module):
    """An op amid others."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        results = as_tuple(self.call(*[2 * x for x in inputs]))
        return sum((1 + k) * result for k, result in enumerate(results)) + torch.ones(())


@every
def test_an_exported_program_has_the_operator_and_is_saved_and_loaded(op: Op, tmp_path: Path) -> None:
    inputs, others = op.sample((4, 3)), op.sample((7, 3), seed=1)
    size = torch.export.Dim("size")
    program = torch.export.export(
        Model(operator(op)), tuple(inputs), dynamic_shapes={"inputs": ({0: size},) * len(inputs)}
    )
    assert f"gradgen.{op.name}.default" in [str(node.target) for node in program.graph.nodes]
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    torch.testing.assert_close(loaded(*others), Model(op)(*others))
    found, expected = (slopes_of(model, op, others) for model in (loaded, Model(op)))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("op", first(EACH_KIND), ids=str)
def test_a_compiled_graph_has_the_operator(op: Op) -> None:
    torch._dynamo.reset()
    found: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        found.append(graph)
        return graph.forward

    inputs = op.sample((5,))
    compiled = torch.compile(Model(operator(op)), fullgraph=True, backend=backend)
    torch.testing.assert_close(slopes_of(compiled, op, inputs), slopes_of(Model(op), op, inputs))
    assert operator(op) in [node.target for node in found[0].graph.nodes]


@every
@pytest.mark.parametrize(
    "differentiate", [lambda f, *xs: torch.func.jvp(f, xs, xs), lambda f, *xs: torch.func.jacfwd(f)(*xs)]
)
def test_forward_mode_is_refused_not_wrong(op: Op, differentiate: Callable[..., Any]) -> None:
    """torch 2.13 drops the tangent."""
    with pytest.raises(NotImplementedError, match=rf"{op.name} has no forward-mode derivative.*; call {op.name}"):
        differentiate(operator(op), *op.sample((3,)))


@every
def test_dual_numbers(op: Op) -> None:
    inputs = op.sample((4,))
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(x, torch.full_like(x, 1.0 + k)) if k in op.differentiable else x
            for k, x in enumerate(inputs)
        ]
        pairs = zip(*(as_tuple(f(*duals)) for f in (operator(op), op)), strict=True)
        for found, expected in pairs:
            tangents = [torch.autograd.forward_ad.unpack_dual(result).tangent for result in (found, expected)]
            torch.testing.assert_close(*tangents)


IN_FLOAT32 = """
@op(autocast="float32")
def operated_error(x: Tensor, y: Tensor(grad=False), k: float = 1.0):
    return k * (x - y)**2
"""


def test_autocast_to_float32(tmp_path: Path) -> None:
    """As the function does, whose inputs are converted before it."""
    module, (formula,) = build(IN_FLOAT32, tmp_path)
    exec(operator_text(formula), {"rt": module.rt, **vars(module)})
    x, y = torch.linspace(-2, 12, 8, dtype=torch.bfloat16).requires_grad_(), torch.ones(8, dtype=torch.bfloat16)
    for is_on in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_on):
            found, expected = (f(x, y) for f in (torch.ops.gradgen.operated_error, module.operated_error))
        assert found.dtype is (torch.float32 if is_on else torch.bfloat16)
        assert torch.equal(found, expected)
        slopes = [torch.autograd.grad(result.sum(), x)[0] for result in (found, expected)]
        assert slopes[0].dtype is torch.bfloat16
        assert torch.equal(*slopes)


@pytest.mark.slow
def test_autocast_to_float32_within_compilers(tmp_path: Path) -> None:
    """Which have to be told of the type of the result; float64 stays what it is."""
    module, (formula,) = build(IN_FLOAT32.replace("operated", "compiled"), tmp_path)
    exec(operator_text(formula), {"rt": module.rt, **vars(module)})
    error, x = torch.ops.gradgen.compiled_error, torch.linspace(-2, 12, 8, dtype=torch.bfloat16)
    compiled = torch.compile(lambda x, y: error(x, y, k=3.0), fullgraph=True, backend="aot_eager")
    for dtype in (torch.bfloat16, torch.float64):
        inputs = [x.to(dtype).requires_grad_(), torch.ones(8, dtype=dtype)]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.library.opcheck(error.default, inputs)
            found, expected = compiled(*inputs), module.compiled_error(*inputs, k=3.0)
            with FakeTensorMode() as mode:
                assert error(*map(mode.from_tensor, inputs)).dtype is found.dtype
        assert found.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
        assert torch.equal(found, expected)
        assert torch.equal(*[torch.autograd.grad(result.sum(), inputs[0])[0] for result in (found, expected)])


def test_bad_arguments_are_told_as_the_op_tells_them() -> None:
    with pytest.raises(NotImplementedError, match=r"\"swish\" not implemented for 'Long' .*x\.float\(\)"):
        torch.ops.gradgen.swish(torch.arange(3))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        torch.ops.gradgen.max_gate(torch.zeros(2), torch.zeros(3))


@pytest.mark.slow
def test_the_gallery_is_built_with_its_operators(tmp_path: Path) -> None:
    """By the command itself; in another process, for here there are operators of the same names."""
    package = tmp_path / "built_with_operators"
    done = CliRunner().invoke(main, ["build", str(gallery.ROOT / "formulas"), "--library", "-o", str(package)])
    assert done.exit_code == 0, done.output
    script = f"""
import importlib, sys, torch
sys.path[:0] = [{str(tmp_path)!r}, {str(Path(__file__).parent)!r}]
from gallery import OPS, as_tuple
for op in OPS:
    module = importlib.import_module("built_with_operators." + op.module)
    operator, inputs = getattr(torch.ops.gradgen, op.name), op.sample((4, 3), grad=True)
    found, expected = (as_tuple(f(*inputs, **op.others)) for f in (operator, getattr(module, op.name)))
    leaves = [inputs[k] for k in op.differentiable]
    both = [torch.autograd.grad(sum(y.sum() for y in results), leaves) for results in (found, expected)]
    assert all(map(torch.equal, (*found, *both[0]), (*expected, *both[1]))), op.name
    assert "generated" not in [name.partition(".")[0] for name in sys.modules], op.name
    torch.library.opcheck(operator.default, tuple(inputs), test_utils="test_schema")
    print(op.name)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert told.stdout.split() == [op.name for op in OPS], told.stderr


def test_it_can_be_registered_again() -> None:
    text = operator_text(subject(get("exp")).formula).replace('"exp(', '"exp_again(')
    x = torch.randn(3)
    for _ in range(2):
        exec(text, {"rt": rt, **vars(get("exp").code)})
        assert torch.equal(torch.ops.gradgen.exp_again(x), get("exp")(x))


def test_defaults_in_a_schema(tmp_path: Path) -> None:
    """Infinity cannot be one: who calls the operator has to name it, and what comes after."""
    spec = tmp_path / "slope.py"
    spec.write_text(SPEC)
    text = operator_text(load(spec)[0])
    schema = "slope(Tensor x, float k, int n=2, bool is_odd=True) -> Tensor"
    assert text == f'rt.operator("{schema}", SlopeFunction, slope)'


class TestBuild:
    """The option of the command."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("formulas").mkdir()
        Path("formulas", "cube_of.py").write_text(
            "from gradgen import Tensor, op\n\n@op\ndef cube_of(x: Tensor):\n    return x**3\n"
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, [*arguments, "--jobs", "1"])
        return done.exit_code, done.output

    def test_operators_stay_until_they_are_taken_away(self) -> None:
        module = Path("generated", "cube_of.py")
        assert self.run("build")[0] == 0
        assert "rt.operator" not in module.read_text()
        code, told = self.run("check", "--library")
        assert (code, "built with --library, or without it" in told) == (1, True)
        assert self.run("build", "--library")[0] == 0
        assert module.read_text().count('rt.operator("cube_of(Tensor x) -> Tensor", CubeOfFunction, cube_of)') == 1
        assert self.run("check")[0] == 0
        text = module.read_text()
        assert self.run("build", "--force")[0] == 0
        assert module.read_text() == text
        assert self.run("build", "--no-library")[0] == 0
        assert "rt.operator" not in module.read_text()

    def test_importing_the_module_is_all_there_is_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run("build", "--library", "-o", "with_operators")[0] == 0
        monkeypatch.syspath_prepend(".")
        try:
            __import__("with_operators.cube_of")
            assert torch.ops.gradgen.cube_of(torch.tensor([2.0])).item() == 8
        finally:
            for name in [name for name in sys.modules if name.startswith("with_operators")]:
                del sys.modules[name]
