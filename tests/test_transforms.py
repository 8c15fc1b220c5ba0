"""The gallery as modules, and under torch.func and torch.compile."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gallery
import pytest
import torch
from gallery import EACH_KIND, OPS, Op, as_tuple, first, get, slopes_of, total
from networks import network
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

rt = gallery.runtime()

# Older compilers have no rule for functions deeper within transforms, nor derivatives of what transforms gave.
with_a_compiler_that_knows_functions = pytest.mark.skipif(torch.__version__ < (2, 13), reason="since torch 2.13")

every = pytest.mark.parametrize("op", OPS, ids=str)
single = pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) == 1], ids=str)
with_hyper = pytest.mark.parametrize("op", [op for op in OPS if op.hyper], ids=str)


def assert_close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# torch.nn.Module
# ---------------------------------------------------------------------------------------------------------------------


@every
def test_modules_compute_what_functions_do(op: Op) -> None:
    inputs = op.sample((5,), grad=True)
    module = op.module_class()
    with rt.record_paths() as record:
        found = as_tuple(module(*inputs))
    assert record == [(op.name, "cpu")]
    for result, expected in zip(found, as_tuple(op(*inputs)), strict=True):
        assert torch.equal(result, expected)
    assert all(result.requires_grad for result in found)


@every
def test_modules_have_no_state(op: Op) -> None:
    module = op.module_class()
    assert isinstance(module, nn.Module)
    assert list(module.parameters()) == []
    assert list(module.buffers()) == []
    assert module.state_dict() == {}
    assert module.load_state_dict({}).missing_keys == []
    nn.Sequential(module).load_state_dict({}, strict=True)


@every
def test_repr_of_modules_shows_the_hyper_parameters(op: Op) -> None:
    defaults = ", ".join(f"{name}={default}" for name, (default, _) in op.hyper.items())
    assert repr(op.module_class()) == f"{op.class_name}({defaults})"
    others = ", ".join(f"{name}={other}" for name, other in op.others.items())
    assert repr(op.module_class(**op.others)) == f"{op.class_name}({others})"


@with_hyper
def test_hyper_parameters_of_modules(op: Op) -> None:
    inputs = op.sample((5,))
    expected = op(*inputs, **op.others)
    assert not torch.equal(expected, op(*inputs))
    assert torch.equal(op.module_class(**op.others)(*inputs), expected)
    assert torch.equal(op.module_class(*op.others.values())(*inputs), expected)
    module = op.module_class()
    for name, other in op.others.items():
        setattr(module, name, other)
    assert torch.equal(module(*inputs), expected)


def loaded(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    found = torch.load(file, weights_only=False)
    assert isinstance(found, nn.Module)
    return found


COPIED = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "torch.save": loaded,
    "within a network": lambda module: loaded(nn.Sequential(nn.Linear(2, 2), module))[1],
}


@every
@pytest.mark.parametrize("by", COPIED)
def test_modules_survive_copying_pickling_and_saving(op: Op, by: str) -> None:
    module = op.module_class(**op.others).eval()
    twin = COPIED[by](module)
    if by == "within a network":
        twin.eval()
    assert type(twin) is type(module)
    assert repr(twin) == repr(module)
    assert not twin.training
    inputs = op.sample((5,))
    for result, expected in zip(as_tuple(twin(*inputs)), as_tuple(module(*inputs)), strict=True):
        assert torch.equal(result, expected)


@single
def test_modules_train_in_a_network(op: Op) -> None:
    """The gradients of the weights around the module are those around torch's own operations."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), op.module_class(), nn.Linear(6, 1)).double()
    x = torch.randn(8, 4, dtype=torch.float64)
    network(x).pow(2).sum().backward()
    found = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
    network.zero_grad()
    network[2](op.reference(network[0](x))).pow(2).sum().backward()
    expected = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert len(found) == 4
    assert_close(found, expected)


@every
def test_symbolic_tracing_keeps_ops_whole(op: Op) -> None:
    """As torch.fx does with torch's own, which tools that take a network apart by it rely on."""
    traced = torch.fx.symbolic_trace(op.module_class())
    assert [node.target for node in traced.graph.nodes if node.op == "call_function"] == [op.function]
    inputs = op.sample((5,))
    for found, expected in zip(as_tuple(traced(*inputs)), as_tuple(op(*inputs)), strict=True):
        assert torch.equal(found, expected)


def test_symbolic_tracing_of_a_function_that_was_imported_is_told() -> None:
    swish = get("swish").function

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return swish(x)

    with pytest.raises(
        TypeError, match=r"must be Tensor, not Proxy; have torch\.fx\.wrap\(\"swish\"\) beside the import"
    ):
        torch.fx.symbolic_trace(Model())


# ---------------------------------------------------------------------------------------------------------------------
# torch.func
# ---------------------------------------------------------------------------------------------------------------------


def of_all(op: Op, *tensors: Tensor) -> Tensor:
    return total(op(*tensors))


def of_reference(op: Op, *tensors: Tensor) -> Tensor:
    return total(op.reference(*tensors))


@every
def test_functional_gradients(op: Op) -> None:
    inputs = op.sample((5,))
    positions = tuple(op.differentiable)
    with rt.record_paths() as record:
        found = grad(lambda *t: of_all(op, *t), argnums=positions)(*inputs)
    assert record == [(op.name, "cpu"), (f"{op.name}_backward", "cpu")]  # below the transform, tensors are plain
    assert_close(found, grad(lambda *t: of_reference(op, *t), argnums=positions)(*inputs))


@every
def test_functional_gradients_of_second_order(op: Op) -> None:
    inputs = op.sample((3,))
    position = op.differentiable[0]

    def slope_squared(function: Any) -> Any:
        slope = grad(function, argnums=position)
        return lambda *t: (slope(*t) ** 2).sum()

    found = grad(slope_squared(lambda *t: of_all(op, *t)), argnums=position)(*inputs)
    assert_close(found, grad(slope_squared(lambda *t: of_reference(op, *t)), argnums=position)(*inputs))


@every
@pytest.mark.parametrize("batched", ["all", "first", "last", "inner"])
def test_vmap(op: Op, batched: str) -> None:
    count = len(op.tensors)
    inputs = op.sample((4, 3))
    dims: list[int | None] = [0] * count
    if batched == "inner":
        dims = [1] * count
    elif count > 1:
        dims = [0 if k == (0 if batched == "first" else count - 1) else None for k in range(count)]
    given = [tensor if dim is not None else tensor[0] for tensor, dim in zip(inputs, dims, strict=True)]
    with rt.record_paths() as record:
        found = as_tuple(vmap(op.function, in_dims=tuple(dims))(*given))
    assert record == [(op.name, "torch")]
    for result, expected in zip(found, as_tuple(op(*given)), strict=True):
        assert_close(result, expected.t() if batched == "inner" else expected)


@every
@pytest.mark.parametrize(("in_dim", "out_dim"), [(-1, 0), (0, -1), (-1, -1), (1, 1)])
def test_vmap_over_other_dimensions(op: Op, in_dim: int, out_dim: int) -> None:
    inputs = op.sample((2, 4, 3))
    found = as_tuple(vmap(op.function, in_dims=in_dim, out_dims=out_dim)(*inputs))
    for result, expected in zip(found, as_tuple(op(*inputs)), strict=True):
        assert_close(result, expected.movedim(in_dim, 0).movedim(0, out_dim))


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
def test_vmap_over_a_different_dimension_of_each_input(op: Op) -> None:
    inputs = op.sample((4, 3))
    dims = tuple(k % 2 - 1 for k in range(len(inputs)))  # the last, the first, ...
    given = [tensor.movedim(0, dim) for tensor, dim in zip(inputs, dims, strict=True)]
    found = as_tuple(vmap(op.function, in_dims=dims, out_dims=1)(*given))
    for result, expected in zip(found, as_tuple(op(*inputs)), strict=True):
        assert_close(result, expected.t())


def hessian_by_vmap(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of a function of a vector: the gradient's own vector-Jacobian products with every unit vector."""
    slope = grad(function)

    def rows(x: Tensor, *rest: Tensor) -> Tensor:
        _, pull = vjp(lambda x: slope(x, *rest), x)
        (found,) = vmap(pull)(torch.eye(len(x), dtype=x.dtype))
        return found

    return rows


NESTED: dict[str, Callable[[Callable[..., Tensor]], Callable[..., Any]]] = {
    "vmap of vmap": lambda f: vmap(vmap(lambda *t: f(*[x[None] for x in t]))),
    "vmap of vmap of grad": lambda f: vmap(vmap(grad(lambda *t: f(*[x[None] for x in t])))),
    "vmap of jacrev of grad": lambda f: vmap(jacrev(grad(f))),
    "jacrev of vmap of grad": lambda f: jacrev(vmap(grad(f))),
    "grad of sum of vmap of grad": lambda f: grad(lambda *t: vmap(grad(f))(*t).pow(2).sum()),
    "vmap of hessian": lambda f: vmap(hessian(f)),
    "hessian by vmap of vjp": lambda f: vmap(hessian_by_vmap(f)),
    "jacfwd of vmap of grad": lambda f: jacfwd(vmap(grad(f))),
}


@pytest.mark.parametrize("op", [op for op in OPS if 0 in op.differentiable], ids=str)
@pytest.mark.parametrize("nested", NESTED)
def test_nested_transforms(op: Op, nested: str) -> None:
    inputs = op.sample((3, 2))
    found = NESTED[nested](lambda *t: of_all(op, *t))(*inputs)
    assert_close(found, NESTED[nested](lambda *t: of_reference(op, *t))(*inputs))


@with_hyper
def test_hyper_parameters_that_a_transform_hands_over_are_refused(op: Op) -> None:
    name, inputs = next(iter(op.hyper)), op.sample((3,))
    for transform, value in ((vmap, torch.ones(3)), (grad, torch.tensor(1.0)), (jacfwd, torch.tensor(1.0))):
        with pytest.raises(TypeError, match=f"argument '{name}' must be float, not Tensor; to pass tensors, declare"):
            transform(lambda value: op(*inputs, **{name: value}).sum())(value)


@every
def test_vmap_of_gradients(op: Op) -> None:
    inputs = op.sample((4, 3))
    positions = tuple(op.differentiable)
    found = vmap(grad(lambda *t: of_all(op, *t), argnums=positions))(*inputs)
    rows = [grad(lambda *t: of_reference(op, *t), argnums=positions)(*row) for row in zip(*inputs, strict=True)]
    assert_close(found, tuple(torch.stack(column) for column in zip(*rows, strict=True)))


@every
def test_gradients_through_vmap(op: Op) -> None:
    inputs = op.sample((4, 3), grad=True)
    total(vmap(op.function)(*inputs)).backward()
    again = op.sample((4, 3), grad=True)
    total(op.reference(*again)).backward()
    for k in op.differentiable:
        assert_close(inputs[k].grad, again[k].grad)


@every
def test_jacobians(op: Op) -> None:
    inputs = op.sample((3,))
    positions = tuple(op.differentiable)
    expected = jacrev(lambda *t: torch.stack(as_tuple(op.reference(*t))), argnums=positions)(*inputs)
    for jacobian in (jacrev, jacfwd):
        found = jacobian(lambda *t: torch.stack(as_tuple(op(*t))), argnums=positions)(*inputs)
        assert_close(found, expected)
        assert found[0].shape == (op.outputs, 3, 3)


@every
def test_hessians_reverse_over_reverse(op: Op) -> None:
    inputs = op.sample((2,))
    position = op.differentiable[0]
    found = jacrev(jacrev(lambda *t: of_all(op, *t), argnums=position), argnums=position)(*inputs)
    assert_close(found, hessian(lambda *t: of_reference(op, *t), argnums=position)(*inputs))


@every
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians_and_hessians_in_batches(op: Op, strategy: str) -> None:
    """By torch.autograd.grad with `is_grads_batched`, which has a vmap of its own."""
    inputs = op.sample((3,))

    def function(*leaves: Tensor, of: Callable[..., Any] = op) -> Tensor:
        rest = iter(leaves)
        results = as_tuple(of(*[next(rest) if k in op.differentiable else x for k, x in enumerate(inputs)]))
        return sum((1 + k) * result for k, result in enumerate(results))  # type: ignore[return-value]

    def scalar(*leaves: Tensor, of: Callable[..., Any] = op) -> Tensor:
        return (function(*leaves, of=of) ** 2).sum()

    leaves = tuple(inputs[k] for k in op.differentiable)
    functional = torch.autograd.functional
    assert_close(
        functional.jacobian(function, leaves, vectorize=True, strategy=strategy), functional.jacobian(function, leaves)
    )
    hessian_of_op = functional.hessian(scalar, leaves)
    assert_close(hessian_of_op, functional.hessian(partial(scalar, of=op.reference), leaves))
    assert_close(functional.hessian(scalar, leaves, vectorize=True, outer_jacobian_strategy=strategy), hessian_of_op)


@every
def test_second_derivatives_of_gradients_in_batches(op: Op) -> None:
    """Each is asked for and refused as without a batch."""

    def gradients(is_batched: bool) -> list[Tensor]:
        leaves = [2 * x for x in op.sample((3,), grad=True)]
        wrt = [leaves[k] for k in op.differentiable]
        results = as_tuple(op(*leaves))
        eye = torch.eye(3, dtype=torch.float64)
        found = []
        for seeds in [eye] if is_batched else eye:
            seeds = [seeds] * len(results)
            found.append(
                torch.autograd.grad(
                    results, wrt, seeds, is_grads_batched=is_batched, create_graph=True, retain_graph=True
                )
            )
        rows = [*found[0]] if is_batched else [torch.stack(column) for column in zip(*found, strict=True)]
        asked = [row for row in rows if row.requires_grad]
        loss = sum(row.square().sum() for row in asked)
        second = torch.autograd.grad(loss, wrt, materialize_grads=True) if asked else ()
        return [*rows, torch.tensor([row.requires_grad for row in rows]), *second]

    assert_close(gradients(is_batched=True), gradients(is_batched=False))


@pytest.mark.usefixtures("way")
@every
@pytest.mark.parametrize("is_early", [False, True], ids=["", "before all others"])
@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_recorded_as_a_graph(op: Op, tracing_mode: str, is_early: bool) -> None:
    """By torch.fx, which sees operations of torch alone."""
    inputs, others = op.sample((4, 3)), op.sample((4, 3), seed=1)
    op(*inputs)  # compiles the kernel
    graph = make_fx(lambda *xs: op(*xs), tracing_mode=tracing_mode, pre_dispatch=is_early)(*inputs)
    assert_close(as_tuple(graph(*others)), as_tuple(op(*others)))


@every
def test_vjp(op: Op) -> None:
    inputs = op.sample((3,))
    results, pull = vjp(op.function, *inputs)
    seeds = tuple(torch.full((3,), 0.5 + k, dtype=torch.float64) for k in range(op.outputs))
    expected_results, expected_pull = vjp(op.reference, *inputs)
    found = pull(seeds if op.outputs > 1 else seeds[0])
    expected = expected_pull(seeds if op.outputs > 1 else seeds[0])
    assert_close(results, expected_results)
    for k in op.differentiable:
        assert_close(found[k], expected[k])


@every
def test_per_sample_gradients(op: Op) -> None:
    model = network(op)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    x, y = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)

    def loss(weights: dict[str, Tensor], sample: Tensor, target: Tensor) -> Tensor:
        return (functional_call(model, weights, (sample,)) - target).pow(2).sum()

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for k in range(5):
        model.zero_grad()
        loss(dict(model.named_parameters()), x[k], y[k]).backward()
        for name, parameter in model.named_parameters():
            assert_close(found[name][k], torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)


# ---------------------------------------------------------------------------------------------------------------------
# torch.compile
# ---------------------------------------------------------------------------------------------------------------------

EVERYDAY = ("swish", "huber", "polar_to_cartesian")


def marked(op: Op) -> object:
    slow = [pytest.mark.slow] * (op.name not in EVERYDAY) + [pytest.mark.thorough] * (op.name not in EACH_KIND)
    return pytest.param(op, marks=slow, id=op.name)


a_few_first = pytest.mark.parametrize("op", [*map(marked, OPS)])


def test_a_module_is_imported_without_the_compiler() -> None:
    """Which takes as long to load as the rest of torch."""
    code = "import sys, generated.swish; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=gallery.ROOT)


@a_few_first
def test_compiled_whole_forward_and_backward(op: Op) -> None:
    torch._dynamo.reset()
    shapes = [(4, 3), (3,), (4, 1)]
    function, hyper = op.function, op.others
    compiled = torch.compile(lambda *t: function(*t, **hyper), fullgraph=True, backend="aot_eager")
    inputs, again = (
        op.sample(*shapes, dtype=torch.float32, grad=True),
        op.sample(*shapes, dtype=torch.float32, grad=True),
    )
    found = as_tuple(compiled(*inputs))
    total(found).backward()
    expected = as_tuple(op(*again, **op.others))
    total(expected).backward()
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-6)
    for tensor, other in zip(inputs, again, strict=True):
        torch.testing.assert_close(tensor.grad, other.grad, rtol=2e-5, atol=1e-6)


@a_few_first
def test_compiled_modules_without_gradient(op: Op) -> None:
    torch._dynamo.reset()
    module = op.module_class(**op.others)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    inputs = op.sample((4,), dtype=torch.bfloat16)
    with torch.no_grad():
        found, expected = as_tuple(compiled(*inputs)), as_tuple(module(*inputs))
    torch.testing.assert_close(found, expected)


@a_few_first
def test_transforms_within_a_compiler(op: Op) -> None:
    """Of what is given, and of what is made on the way, of which the compiler knows more."""
    torch._dynamo.reset()
    inputs, wrt = op.sample((5,)), tuple(op.differentiable)
    tangents = tuple(torch.full_like(x, 0.5) for x in inputs)

    operation = op.function

    def function(*tensors: Tensor) -> Tensor:
        return total(operation(*tensors))

    def of_sums(*tensors: Tensor) -> Tensor:
        return total(operation(*[x + 0.0625 for x in tensors]))

    if torch.__version__ < (2, 13):
        if op.name == "binarize":
            pytest.skip("a gradient of the user's own: since torch 2.13")
        of_sums = function

    transforms: dict[str, Callable[..., Any]] = {
        "vmap": vmap(operation),
        "jvp": lambda *tensors: jvp(of_sums, tensors, tangents),
        "grad": grad(function, argnums=wrt),
        "grad of sums": grad(of_sums, argnums=wrt),
        "vmap of grad": vmap(grad(of_sums, argnums=wrt)),
        "jacrev": jacrev(operation, argnums=wrt),
        "grad of grad": grad(lambda *t: sum(g.sum() for g in grad(of_sums, argnums=wrt)(*t)), argnums=wrt),
        "hessian": hessian(of_sums, argnums=wrt),
    }
    for name, transformed in transforms.items():
        if torch.__version__ < (2, 13) and (name == "hessian" or (name == "jacrev" and op.outputs > 1)):
            continue  # torch compiles no Hessian by several inputs, nor a Jacobian of several outputs
        compiled = torch.compile(transformed, fullgraph=True, backend="aot_eager")
        assert_close({name: compiled(*inputs)}, {name: transformed(*inputs)})  # a failure tells the name


@pytest.mark.slow
@with_a_compiler_that_knows_functions
@a_few_first
def test_a_transform_within_a_compiler_for_all_sizes_and_hyper_parameters(op: Op) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    operation = op.function

    def slope(x: Tensor, *others: Tensor, **hyper: float) -> Tensor:
        return grad(lambda x: sum(y.square().sum() for y in as_tuple(operation(2 * x, *others, **hyper))))(x)

    compiled = torch.compile(slope, fullgraph=True, backend=counter)
    for k in range(5):
        inputs = op.sample((4 + k, 3))
        hyper = {name: default + k / 8 for name, (default, _) in op.hyper.items()}
        assert_close(compiled(*inputs, **hyper), slope(*inputs, **hyper))
    assert counter.frame_count <= 2 + bool(op.hyper)


@pytest.mark.slow
@with_a_compiler_that_knows_functions
@pytest.mark.parametrize("op", first(["elu", "huber"]), ids=str)  # each takes the compiler long
def test_what_transforms_gave_within_a_compiler_has_gradients(op: Op) -> None:
    """By a weight that the transformed function reads, in every way to a second derivative, and forward."""
    operation, inputs = op.function, op.sample((4,))

    def by(transform: Callable[..., Any]) -> Callable[[Tensor, Tensor], Tensor]:
        """The sum of squares of what a transform makes of a function of x."""

        def function(x: Tensor, weight: Tensor) -> Tensor:
            return total(transform(lambda x: total(operation(weight * x, *inputs[1:])))(x)) ** 2

        return function

    transforms: dict[str, Callable[..., Any]] = {
        "hessian": hessian,
        "jacfwd of grad": lambda f: jacfwd(grad(f)),
        "jacrev of grad": lambda f: jacrev(grad(f)),
        "vmap of grad of grad": lambda f: vmap(grad(grad(f))),
        "jvp": lambda f: lambda x: jvp(f, (x,), (x,))[1],
    }
    for name, transform in transforms.items():
        if name.startswith("vmap") and len(inputs) > 1:
            continue  # the others would be of another shape
        torch._dynamo.reset()
        slopes = []
        for function in (by(transform), torch.compile(by(transform), fullgraph=True, backend="aot_eager")):
            weight = torch.full((), 1.25, dtype=torch.float64, requires_grad=True)
            result = function(inputs[0], weight)
            slopes.append(
                torch.autograd.grad(result, weight, materialize_grads=True)[0] if result.requires_grad else None
            )
        assert_close({name: slopes[1]}, {name: slopes[0]})


@with_a_compiler_that_knows_functions
@a_few_first
def test_gradient_penalties_within_a_compiler(op: Op) -> None:
    """A network is trained by a loss with the gradient by its input, which the compiled function takes."""
    torch._dynamo.reset()
    model, x = network(op), torch.linspace(-1, 1, 32, dtype=torch.float64).view(8, 4)

    def loss(x: Tensor) -> Tensor:
        return model(x).square().mean() + grad(lambda x: model(x).sum())(x).square().sum()

    slopes = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        model.zero_grad()
        function(x).backward()
        slopes.append([p.grad for p in model.parameters()])
    assert_close(*slopes)


@pytest.mark.skipif(torch.__version__ < (2, 13), reason="torch exports no jvp, and torch 2.8 no vmap")
@pytest.mark.parametrize(
    "transform", [vmap, lambda f: lambda x: jvp(f, (x,), (torch.ones_like(x),))[1]], ids=["vmap", "jvp"]
)
@pytest.mark.parametrize("name", ["swish", "gelu", "relu"])
def test_exported_within_a_transform(name: str, transform: Callable[..., Callable[[Tensor], Tensor]]) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return transform(get(name).function)(x)

    x = torch.linspace(-2, 2, 6, dtype=torch.float64)
    torch.testing.assert_close(torch.export.export(Model(), (x,)).module()(x), Model()(x))


@single
def test_behind_a_lazy_layer(op: Op) -> None:
    network = nn.Sequential(nn.LazyLinear(3), op.module_class(), nn.LazyLinear(1))
    network(torch.ones(2, 4)).sum().backward()
    assert network[0].weight.shape == network[0].weight.grad.shape == (3, 4)


@pytest.mark.parametrize("op", [op for op in OPS if len(op.differentiable) > 1], ids=str)
@pytest.mark.parametrize("source", ["an input", "of another operation", "parameters that are one"])
def test_one_tensor_for_several_inputs_of_what_is_compiled(op: Op, source: str) -> None:
    torch._dynamo.reset()
    x, function, count = op.sample((3, 4))[0].requires_grad_(), op.function, len(op.tensors)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = self.second = nn.Parameter(x.detach())

        def forward(self, x: Tensor) -> Tensor:
            hidden = x * 2
            first, second = {"an input": (x, x), "of another operation": (hidden, hidden)}.get(
                source, (self.first, self.second)
            )
            return total(function(first, *[second] * (count - 1)))

    network = Tied()
    asked = [network.first] if source == "parameters that are one" else [x]
    expected = torch.autograd.grad(network(x), asked)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), asked), expected, rtol=1e-12, atol=1e-12)


@every
def test_exported_saved_and_loaded(op: Op, tmp_path: Path) -> None:
    """As torch operations, for any size."""
    inputs, others = op.sample((4, 3)), op.sample((7, 3), seed=1)
    sizes = {name: {0: torch.export.Dim("size")} for name in op.tensors}
    program = torch.export.export(op.module_class(), tuple(inputs), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "program.pt2")
    again = torch.export.load(tmp_path / "program.pt2").module()
    for found, expected in zip(as_tuple(again(*others)), as_tuple(op(*others)), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-15)
    if op.smooth:  # docs/pytorch.md says what becomes of the others
        assert_close(slopes_of(again, op, others), slopes_of(op, op, others))


@pytest.mark.slow
@pytest.mark.parametrize("op", first(EACH_KIND), ids=str)
def test_exported_strictly(op: Op) -> None:
    """By the compiler's tracing."""
    inputs = op.sample((4, 3))
    program = torch.export.export(op.module_class(), tuple(inputs), strict=True).module()
    assert_close(as_tuple(program(*inputs)), as_tuple(op(*inputs)))
    if op.smooth:
        assert_close(slopes_of(program, op, inputs), slopes_of(op, op, inputs))


@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
def test_exported_with_inputs_that_broadcast_along_the_batch(op: Op) -> None:
    """Which may be as large as another dimension."""
    sizes = {name: {0: torch.export.Dim("batch")} if k == 0 else None for k, name in enumerate(op.tensors)}
    program = torch.export.export(op.module_class(), tuple(op.sample((5, 3), (3,))), dynamic_shapes=sizes).module()
    for batch in (3, 7):
        others = op.sample((batch, 3), (3,))
        assert_close(as_tuple(program(*others)), as_tuple(op(*others)))


@a_few_first
def test_compiled_once_for_all_sizes_and_hyper_parameters(op: Op) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    function = op.function
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for k in range(5):
        inputs = op.sample((4 + k, 3), dtype=torch.float32, grad=True)
        hyper = {name: default + k / 8 for name, (default, _) in op.hyper.items()}
        wrt = [inputs[k] for k in op.differentiable]
        results = [as_tuple(f(*inputs, **hyper)) for f in (compiled, function)]
        torch.testing.assert_close(*results, rtol=2e-6, atol=1e-6)
        grads = [torch.autograd.grad(total(found), wrt) for found in results]
        torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-6)
    assert counter.frame_count <= 2 + bool(op.hyper)  # as they are at first, for any size, for any hyper-parameter


@pytest.mark.slow
@a_few_first
def test_compiled_for_any_size_at_once(op: Op) -> None:
    """By `dynamic=True`: along both dimensions, and those of one element and none."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(op.function, fullgraph=True, backend=counter, dynamic=True)
    for shape in ((4, 3), (7, 2), (2, 9)):
        inputs = op.sample(shape)
        assert_close(as_tuple(compiled(*inputs)), as_tuple(op(*inputs)))
        assert_close(slopes_of(compiled, op, inputs), slopes_of(op, op, inputs))
    assert counter.frame_count <= 2 + bool(op.hyper)  # without and with gradients
    for shape in ((1, 5), (0, 3)):
        inputs = op.sample(shape)
        assert_close(as_tuple(compiled(*inputs)), as_tuple(op(*inputs)))


@pytest.fixture
def data_in_sizes() -> Iterator[None]:
    """The compiler takes sizes and numbers that hang on data."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


# What stands beside an input of so many rows as data say, made of numbers of its shape before.
BESIDE: dict[str, Callable[[Tensor], Tensor]] = {
    "a row": lambda x: x[0],
    "one number": lambda x: x[0, 0],
    "one number, of two dimensions": lambda x: x[:1, :1],
}


@pytest.mark.usefixtures("data_in_sizes")
@pytest.mark.skipif(torch.__version__ < (2, 11), reason="tried with torch 2.11 and 2.13")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "beside"),
    [
        pytest.param(op, name, id=f"{op}, {name}")
        for op in OPS
        for name in [*BESIDE][: len(BESIDE) if op.tensors[1:] else 1]
    ],
)
def test_compiled_for_sizes_that_hang_on_data(op: Op, beside: str) -> None:
    function = op.function

    def of_some_rows(x: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        return as_tuple(function(x[(x[:, 0] > 0).nonzero().squeeze(-1)], *others))

    first, *others = op.sample((9, 6))
    inputs = [first, *map(BESIDE[beside], others)]
    compiled = torch.compile(of_some_rows, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        assert_close(compiled(*inputs), of_some_rows(*inputs))
        assert_close(slopes_of(compiled, op, inputs), slopes_of(of_some_rows, op, inputs))
        inputs[0] = inputs[0].roll(1, 1)
    program = torch.export.export(Calling(of_some_rows), tuple(inputs)).module()
    assert_close(program(*inputs), of_some_rows(*inputs))


class Calling(nn.Module):
    """Exporters take modules alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


@pytest.mark.usefixtures("data_in_sizes")
@pytest.mark.skipif(torch.__version__ < (2, 11), reason="tried with torch 2.11 and 2.13")
@pytest.mark.parametrize(
    "op", [op for op in OPS if any(type(value) is float for value, _ in op.hyper.values())], ids=str
)
def test_compiled_for_hyper_parameters_that_hang_on_data(op: Op) -> None:
    function, name = op.function, next(name for name, (value, _) in op.hyper.items() if type(value) is float)

    def by_a_number(x: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        return as_tuple(function(x, *others, **{name: x[0, 0].abs().item() + 0.5}))

    inputs = op.sample((4, 3))
    assert_close(torch.compile(by_a_number, fullgraph=True, backend="aot_eager")(*inputs), by_a_number(*inputs))


@pytest.mark.slow
@a_few_first
def test_compiled_under_autocast_and_checkpointed(op: Op) -> None:
    """Within a network, of which the compiler sees all."""
    torch._dynamo.reset()
    model, x = network(op).float(), torch.linspace(-1, 1, 32).view(8, 4)

    def loss(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return checkpoint(model, x, use_reentrant=False).float().square().mean()

    outcomes = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        model.zero_grad()
        value = function(x)
        value.backward()
        outcomes.append([value.detach(), *[p.grad for p in model.parameters()]])
    for found, expected in zip(*outcomes, strict=True):
        assert (found - expected).norm() <= 0.02 * expected.norm()  # of two digits, in which sums are taken


@single
def test_empty_batches(op: Op) -> None:
    x = torch.zeros(0, 3)
    assert vmap(op)(x).shape == vmap(grad(lambda row: op(row).sum()))(x).shape == (0, 3)
    assert jacrev(op)(x).shape == jacfwd(op)(x).shape == (0, 3, 0, 3)


OWN = [] if torch.__version__ < (2, 11) else ["grad", "vjp", "jacrev"]
OWN_NESTED = ["vmap", "vmap of grad", "hessian", "jvp"]


@pytest.mark.parametrize(
    "transform", OWN + [pytest.param(name, marks=with_a_compiler_that_knows_functions) for name in OWN_NESTED]
)
def test_a_transform_within_a_compiler_goes_by_the_gradients_own_formula(transform: str) -> None:
    """Where that of the torch expression is NaN, is that of one side of a kink, or is not the one that was written."""
    points = {
        "elu": ([-1.0, 1.0, 200.0], [0.36787944, 1.0, 1.0], [0.36787944, 0.0, 0.0]),
        "relu": ([-1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]),
        "binarize": ([0.3, -0.2, 2.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]),
    }
    for name, (x, right, second) in points.items():
        torch._dynamo.reset()
        function = get(name).function
        transformed = {
            "grad": grad(lambda x, f=function: f(x).sum()),
            "vjp": lambda x, f=function: vjp(f, x)[1](torch.ones_like(x))[0],
            "jacrev": lambda x, f=function: jacrev(f)(x).diagonal(),
            "vmap": lambda x, f=function: grad(lambda x: vmap(f)(x).sum())(x),
            "vmap of grad": vmap(grad(function)),
            "hessian": lambda x, f=function: hessian(lambda x: f(x).sum())(x).diagonal(),
            "jvp": lambda x, f=function: jvp(f, (x,), (torch.ones_like(x),))[1],
        }[transform]
        compiled = torch.compile(transformed, fullgraph=True, backend="aot_eager")
        expected = torch.tensor(second if transform == "hessian" else right)
        torch.testing.assert_close(transformed(torch.tensor(x)), expected)
        torch.testing.assert_close(compiled(torch.tensor(x)), expected)
        leaf = torch.tensor(x, requires_grad=True)
        torch.compile(function, fullgraph=True, backend="aot_eager")(leaf).sum().backward()
        torch.testing.assert_close(leaf.grad, torch.tensor(right))


@pytest.mark.slow
def test_compiled_for_every_subset_of_gradients() -> None:
    op = get("sum_product")
    for flags in itertools.product([False, True], repeat=3):
        torch._dynamo.reset()
        compiled = torch.compile(op.function, fullgraph=True, backend="aot_eager")
        inputs = op.sample((4,))
        for tensor, flag in zip(inputs, flags, strict=True):
            tensor.requires_grad_(flag)
        result = compiled(*inputs)
        if not any(flags):
            assert not result.requires_grad
            continue
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        found = torch.autograd.grad(result.sum(), wanted)
        assert_close(found, torch.autograd.grad(op.reference(*inputs).sum(), wanted))
