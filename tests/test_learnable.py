"""Inputs that the module of an op learns: `Tensor(init=1.0)`, and one for each channel."""

from __future__ import annotations

import copy
import io
import pickle
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch
from building import build
from gallery import OPS, ROOT, Op
from torch import nn

from gradgen.errors import GradgenError
from gradgen.load import load
from gradgen.render import operator_text

SPEC = '''
@op
def learned_swish(x: Tensor, beta: Tensor(init=1.5), shift: float = 0.0):
    """Swish with a learnable beta  (Ramachandran et al., 2017)."""
    return (x - shift) / (1 + exp(-beta * (x - shift)))


@op
def prelu(x: Tensor, weight: Tensor(init=0.25, per_channel=True)):
    """PReLU  (He et al., Delving Deep into Rectifiers, 2015)."""
    return Max(x, 0) + weight * Min(x, 0)
'''


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    module, _ = build(SPEC, tmp_path_factory.mktemp("learnable"))
    return module


def test_the_module_has_a_parameter_with_the_initial_value(ops: ModuleType) -> None:
    module = ops.LearnedSwish()
    assert {name: p.shape for name, p in module.named_parameters()} == {"beta": ()}
    assert module.beta.item() == 1.5
    assert ops.LearnedSwish(shift=0.5, beta=2.0).beta.item() == 2.0
    assert repr(ops.LearnedSwish(shift=0.5)) == "LearnedSwish(shift=0.5, beta=1.5)"
    assert repr(ops.Prelu(3)) == "Prelu(channels=3, weight=0.25)"
    assert ops.Prelu(3, 0.5, dtype=torch.float64).weight.tolist() == [0.5] * 3
    assert ops.Prelu(3, dtype=torch.float64).weight.dtype is torch.float64


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPS if any(type(d) is float for d, _ in op.hyper.values())], ids=str)
def test_hyper_parameters_of_the_gallery_may_be_learned_as_one_number(op: Op, tmp_path: Path) -> None:
    spec = (ROOT / "formulas" / f"{op.module}.py").read_text()
    built, _ = build(re.sub(r"(\w+): float = ([\w.]+)", r"\1: Tensor(init=\2)", spec), tmp_path)
    module, inputs = getattr(built, op.class_name)(dtype=torch.float64), op.sample((3, 4), grad=True)
    torch.testing.assert_close(module(*inputs), op(*inputs))
    with torch.no_grad():
        for name, (_, other) in op.hyper.items():
            assert getattr(module, name).shape == ()
            getattr(module, name).fill_(other)
    torch.testing.assert_close(module(*inputs), op(*inputs, **op.others))
    leaves = [p.detach().requires_grad_() for p in module.parameters()]
    function = getattr(built, op.name)
    assert torch.autograd.gradcheck(lambda *leaves: function(*[x.detach() for x in inputs], *leaves), leaves)
    twin = pickle.loads(pickle.dumps(module))
    twin.reset_parameters()
    torch.testing.assert_close(twin(*inputs), op(*inputs))


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPS if any(type(d) is float for d, _ in op.hyper.values())], ids=str)
def test_hyper_parameters_of_the_gallery_may_be_learned(op: Op, tmp_path: Path) -> None:
    """One for each channel, with the values and gradients of the number that it is there."""
    spec = (ROOT / "formulas" / f"{op.module}.py").read_text()
    learned, count = re.subn(r"(\w+): float = ([\w.]+)", r"\1: Tensor(init=\2, per_channel=True)", spec)
    assert count >= len(op.hyper)
    built, _ = build(learned, tmp_path)
    module = getattr(built, op.class_name)(2, dtype=torch.float64)
    inputs = op.sample((3, 2, 4), grad=True)
    assert {name: p.tolist() for name, p in module.named_parameters()} == {
        name: [default] * 2 for name, (default, _) in op.hyper.items()
    }
    torch.testing.assert_close(module(*inputs), op(*inputs))
    with torch.no_grad():
        for name, (_, other) in op.hyper.items():
            getattr(module, name)[1] = other
    result = module(*inputs)
    for channel, hyper in enumerate(({}, op.others)):
        own = [x.detach()[:, channel].requires_grad_() for x in inputs]
        expected = op(*own, **hyper)
        torch.testing.assert_close(result[:, channel], expected)
        for k in op.differentiable:
            (slope,) = torch.autograd.grad(result[:, channel].sum(), inputs[k], retain_graph=True)
            (expected_slope,) = torch.autograd.grad(expected.sum(), own[k], retain_graph=True)
            torch.testing.assert_close(slope[:, channel], expected_slope)
    function, parameters = getattr(built, op.name), [p.detach()[:, None] for p in module.parameters()]
    leaves = [p.requires_grad_() for p in parameters]
    assert torch.autograd.gradcheck(lambda *leaves: function(*[x.detach() for x in inputs], *leaves), leaves)
    assert torch.autograd.gradgradcheck(lambda *leaves: function(*[x.detach() for x in inputs], *leaves), leaves)
    blank = getattr(built, op.class_name)(2, device="meta", dtype=torch.float64)
    assert blank(*[x.detach().to("meta") for x in inputs]).shape == result.shape
    blank.to_empty(device="cpu").reset_parameters()
    torch.testing.assert_close(blank(*inputs), op(*inputs))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(*inputs), result)
    blank.load_state_dict(module.state_dict())
    assert torch.equal(blank(*inputs), result)
    if len(inputs) == 1:
        behind = nn.Sequential(nn.LazyLinear(2, dtype=torch.float64), module)
        behind(torch.ones(3, 5, dtype=torch.float64)).sum().backward()
        assert behind[0].weight.shape == behind[0].weight.grad.shape == (2, 5)


def test_the_function_takes_it_as_any_input(ops: ModuleType) -> None:
    x = torch.randn(4, 3)
    beta = torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(ops.learned_swish(x, beta), x * torch.sigmoid(beta * x))


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 5, 3), (2, 5, 3, 4), (2, 5, 3, 4, 2)], ids=str)
def test_channels_lie_where_torch_has_them(ops: ModuleType, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    ours, theirs = ops.Prelu(5, dtype=torch.float64), nn.PReLU(5, dtype=torch.float64)
    with torch.no_grad():
        ours.weight.copy_(torch.rand(5))
        theirs.weight.copy_(ours.weight)
    # nn.PReLU takes a vector for a batch
    expected = torch.where(x > 0, x, theirs.weight * x) if x.dim() == 1 else theirs(x)
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(
        torch.autograd.grad(ours(x).square().sum(), [x, ours.weight]),
        torch.autograd.grad(expected.square().sum(), [x, theirs.weight]),
    )


def test_a_number_has_one_channel(ops: ModuleType) -> None:
    assert ops.Prelu(1)(torch.tensor(-2.0)).tolist() == -0.5
    with pytest.raises(RuntimeError):
        ops.Prelu(3)(torch.tensor(-2.0))


def test_it_learns(ops: ModuleType) -> None:
    torch.manual_seed(0)
    x = torch.randn(256, 4)
    target = x * torch.sigmoid(3.0 * x)
    module = ops.LearnedSwish()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(x), target).backward()
        optimizer.step()
    assert module.beta.item() == pytest.approx(3.0, abs=0.01)


def test_modules_are_saved_and_copied_with_it(ops: ModuleType) -> None:
    module = ops.Prelu(3)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([0.1, 0.2, 0.3]))
    saved, state = io.BytesIO(), io.BytesIO()
    torch.save(module, saved)
    torch.save(module.state_dict(), state)
    loaded = torch.load(io.BytesIO(saved.getvalue()), weights_only=False)
    assert torch.equal(torch.load(io.BytesIO(state.getvalue()))["weight"], module.weight)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert torch.equal(twin.weight, module.weight)
        assert twin.weight is not module.weight
    other = ops.Prelu(3)
    assert other.load_state_dict(module.state_dict()).missing_keys == []
    assert torch.equal(other.weight, module.weight)
    other.reset_parameters()
    assert other.weight.tolist() == [0.25] * 3


def test_on_the_meta_device(ops: ModuleType) -> None:
    module = ops.Prelu(3, device="meta")
    assert module(torch.empty(2, 3, device="meta")).shape == (2, 3)
    module.to_empty(device="cpu").reset_parameters()
    assert module.weight.tolist() == [0.25] * 3


def test_torch_fx_keeps_it_whole(ops: ModuleType) -> None:
    network = nn.Sequential(nn.Linear(4, 3), ops.Prelu(3), ops.LearnedSwish())
    traced = torch.fx.symbolic_trace(network)
    for shape in ((4,), (2, 4)):
        x = torch.randn(shape)
        assert torch.equal(traced(x), network(x))


def network_of(ops: ModuleType) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), ops.Prelu(3), nn.Linear(3, 2), ops.LearnedSwish()).double()


def test_compiled_whole_it_learns_the_same(ops: ModuleType) -> None:
    torch._dynamo.reset()
    network = network_of(ops)
    x = torch.randn(5, 4, dtype=torch.float64)
    expected = torch.autograd.grad(network(x).square().sum(), [*network.parameters()])
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x).square().sum(), [*network.parameters()]), expected)


def test_compiled_for_as_many_rows_as_data_say(ops: ModuleType) -> None:
    torch._dynamo.reset()
    network = network_of(ops)
    x = torch.randn(9, 4, dtype=torch.float64)

    def of_some_rows(x: torch.Tensor) -> torch.Tensor:
        found = network(x[(x[:, 0] > 0).nonzero().squeeze(-1)])
        assert isinstance(found, torch.Tensor)
        return found

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(of_some_rows, fullgraph=True, backend="aot_eager")
        for rows in (x, -x):
            found, expected = compiled(rows), of_some_rows(rows)
            torch.testing.assert_close(found, expected)
            slopes = [torch.autograd.grad(y.square().sum(), [*network.parameters()]) for y in (found, expected)]
            torch.testing.assert_close(*slopes)


def test_exported_with_its_parameters(ops: ModuleType, tmp_path: Path) -> None:
    network = network_of(ops)
    program = torch.export.export(
        network, (torch.randn(5, 4, dtype=torch.float64),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2")
    assert loaded.state_dict.keys() == network.state_dict().keys()
    x = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(loaded.module()(x), network(x))


def test_gradients_of_its_parameters_for_each_sample(ops: ModuleType) -> None:
    network = network_of(ops)
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    x = torch.randn(5, 4, dtype=torch.float64)

    def loss(parameters: dict[str, torch.Tensor], sample: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(network, parameters, (sample,)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for k, sample in enumerate(x):
        one = torch.autograd.grad(network(sample).square().sum(), [*network.parameters()])
        for name, expected in zip(parameters, one, strict=True):
            torch.testing.assert_close(found[name][k], expected)


def test_an_ensemble_of_modules(ops: ModuleType) -> None:
    """Each member has its own parameters, over which `vmap` goes."""
    members = [network_of(ops) for _ in range(3)]
    for k, member in enumerate(members):
        with torch.no_grad():
            member[1].weight.fill_(0.1 * k)
            member[3].beta.fill_(1.0 + k)
    stacked, _ = torch.func.stack_module_state(members)
    x = torch.randn(5, 4, dtype=torch.float64)
    found = torch.func.vmap(lambda state: torch.func.functional_call(members[0], state, (x,)))(stacked)
    torch.testing.assert_close(found, torch.stack([member(x) for member in members]))


def test_as_an_operator(tmp_path: Path) -> None:
    module, formulas = build(SPEC, tmp_path)
    for formula, learned in zip(formulas, (torch.tensor(1.5), torch.rand(3)), strict=True):
        exec(operator_text(formula), {"rt": module.rt, **vars(module)})
        inputs = [torch.randn(2, 3).requires_grad_(), learned.requires_grad_()]
        torch.library.opcheck(getattr(torch.ops.gradgen, formula.name).default, inputs)


def test_a_wrong_number_of_channels(ops: ModuleType) -> None:
    with pytest.raises(RuntimeError, match=re.escape("argument 'x' of shape [2, 4]")):
        ops.Prelu(3)(torch.zeros(2, 4))


WRONG = {
    "def f(x: Tensor, b: Tensor(per_channel=True)): return x*b": "has no initial value",
    "def f(x: Tensor, b: Tensor(init='1')): return x*b": "init='1'",
    "def f(x: Tensor, b: Tensor(init=1.0, per_channel=3)): return x*b": "per_channel=3",
    "def f(x: Tensor, b: Tensor(grad=False, init=1.0)): return x*b": "gets no gradient",
    "def f(x: Tensor(init=1.0)): return x**2": "no input beside what its module learns",
    "def f(x: Tensor, device: Tensor(init=1.0)): return x*device": "'device' is no name",
    "def f(x: Tensor, b: Tensor(init=1.0), channels: float = 1.0): return x*b*channels": "'channels' is no name",
    "def f(x: Tensor, b: Tensor(init=1.0), initial_b: float = 1.0): return x*b*initial_b": "'initial_b' is no name",
    "def f(x: Tensor, b: Tensor(init=1.0) = 2.0): return x*b": "has the default 2.0",
}


@pytest.mark.parametrize(("text", "problem"), WRONG.items(), ids=WRONG.values())
def test_mistakes(tmp_path: Path, text: str, problem: str) -> None:
    spec = tmp_path / "spec.py"
    spec.write_text(f"from gradgen import Tensor, op\n@op\n{text}\n")
    with pytest.raises(GradgenError, match=re.escape(problem)) as caught:
        load(spec)
    assert caught.value.line == 3
    assert caught.value.hint


@pytest.mark.parametrize("function", ["prelu", "learned_swish"])
def test_under_autocast_types_are_promoted(ops: ModuleType, function: str) -> None:
    """As of `x * weight` there: a parameter for each channel makes float32 of it, one number takes the type of x."""
    module = ops.Prelu(3) if function == "prelu" else ops.LearnedSwish()
    (parameter,) = module.parameters()
    x = torch.randn(5, 3).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, plain = module(x), x * parameter
    assert found.dtype is plain.dtype is (torch.float32 if function == "prelu" else torch.bfloat16)
    found.float().square().sum().backward()
    assert x.grad.dtype is torch.bfloat16
    assert parameter.grad.dtype is torch.float32
