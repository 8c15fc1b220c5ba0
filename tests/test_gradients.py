"""The gradients of the gallery, of first and higher order, for whatever inputs and requests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import gallery
import pytest
import torch
from gallery import OPS, ROOT, Op, as_tuple, get, subsets, total
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

rt = gallery.runtime()

pytestmark = pytest.mark.usefixtures("way")

several = pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) > 1], ids=str)
every = pytest.mark.parametrize("op", OPS, ids=str)
smooth = pytest.mark.parametrize("op", [op for op in OPS if op.smooth], ids=str)


def test_the_gallery_is_complete() -> None:
    """Whatever is built from formulas/ is in the table that these tests run through."""
    built = {
        name
        for module in (ROOT / "generated").glob("[!_]*.py")
        for name in re.findall(r"^def ([a-z]\w*[^_\W])\(", module.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert built == {op.name for op in OPS}


@every
@pytest.mark.parametrize("hyper", ["default", "other"])
def test_the_reference_formula_has_the_same_values(op: Op, hyper: str) -> None:
    """Else, comparing derivatives with it would prove nothing."""
    chosen = op.others if hyper == "other" else {}
    inputs = op.sample((40,))
    torch.testing.assert_close(
        as_tuple(op(*inputs, **chosen)), as_tuple(op.reference(*inputs, **chosen)), rtol=1e-13, atol=1e-14
    )


# ---------------------------------------------------------------------------------------------------------------------
# gradcheck and gradgradcheck
# ---------------------------------------------------------------------------------------------------------------------


def assert_gradients(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.few(every_day=8, slow=42)
@every
def test_gradients_of_both_orders(op: Op) -> None:
    with rt.record_paths() as record:
        assert_gradients(op.function, tuple(op.sample((5,), grad=True)))
    paths = {name: {path for of, path in record if of == name} for name, _ in record}
    assert paths[op.name] == paths[f"{op.name}_backward"] == {"cpu"}
    assert "cpu" in paths[f"{op.name}_double_backward"]  # and "torch", to record what could be differentiated again


@pytest.mark.parametrize("op", [op for op in OPS if op.hyper], ids=str)
def test_gradients_with_other_hyper_parameters(op: Op) -> None:
    inputs = tuple(op.sample((5,), grad=True))
    assert_gradients(lambda *tensors: op(*tensors, **op.others), inputs)
    assert_gradients(lambda *tensors: op(*tensors, *op.others.values()), inputs)


@every
def test_gradients_of_the_torch_path(op: Op) -> None:
    with rt.force_path("torch"), rt.record_paths() as record:
        assert_gradients(op.function, tuple(op.sample((5,), grad=True)))
    assert {path for _, path in record} == {"torch"}


VIEWS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "transposed": ((3, 2), lambda t: t.t()),
    "sliced": ((4, 5), lambda t: t[::2, 1::2]),
    "expanded": ((1, 3), lambda t: t.expand(2, 3)),
    "all expanded": ((1,), lambda t: t.expand(2, 3)),
    "overlapping": ((4,), lambda t: t.as_strided((2, 3), (1, 1))),
    "flipped and permuted": ((2, 1, 3), lambda t: t.flip(0).permute(2, 0, 1)),
    "channels last": ((1, 2, 2, 2), lambda t: t.contiguous(memory_format=torch.channels_last)),
    "0-d": ((), lambda t: t),
    "0-d out of many": ((3,), lambda t: t[1]),
    "empty": ((2, 0), lambda t: t),
    "empty slice": ((3, 2), lambda t: t[:, 2:]),
}


@every
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_through_views(op: Op, view: str) -> None:
    shape, look = VIEWS[view]
    inputs = tuple(op.sample(shape, grad=True))
    assert_gradients(lambda *tensors: op(*map(look, tensors)), inputs)


@several
@pytest.mark.parametrize("view", ["transposed", "sliced", "expanded"])
def test_gradients_of_a_view_beside_a_plain_tensor(op: Op, view: str) -> None:
    shape, look = VIEWS[view]
    viewed = look(torch.empty(shape)).shape
    inputs = op.sample(shape, viewed, grad=True)
    assert_gradients(lambda first, *rest: op(look(first), *rest), tuple(inputs))


BROADCASTS: dict[str, list[tuple[int, ...]]] = {
    "rows and columns": [(2, 1), (1, 3), (2, 3)],
    "fewer dimensions": [(2, 3), (3,), (1,)],
    "a scalar first": [(), (2, 3), (3,)],
    "a scalar last": [(2, 3), (2, 3), ()],
    "all scalars but one": [(), (), (4,)],
    "ones in front": [(1, 1, 3), (2, 1), (1,)],
    "empty": [(2, 0), (1,), ()],
}


@pytest.mark.few(every_day=8, slow=30)
@several
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_broadcast_inputs_get_gradients_of_their_own_shape(op: Op, shapes: str) -> None:
    inputs = op.sample(*BROADCASTS[shapes], grad=True)
    assert_gradients(op.function, tuple(inputs))
    plain = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs]
    total(op(*inputs)).backward()
    total(op.reference(*plain)).backward()
    for tensor, expected in zip(inputs, plain, strict=True):
        if tensor.requires_grad:
            assert tensor.grad is not None
            assert tensor.grad.shape == tensor.shape
            torch.testing.assert_close(tensor.grad, expected.grad, rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# What was asked for, and nothing else
# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, tuple[bool, ...], list[bool]]]]:
    """Each call of a kernel: its name, what it was asked for, and what it gave."""
    record: list[tuple[str, tuple[bool, ...], list[bool]]] = []
    original = rt.Kernel.__call__

    def spy(kernel: Any, tensors: Any, scalars: Any = (), wanted: Any = None, shapes: Any = None) -> Any:
        results = original(kernel, tensors, scalars, wanted, shapes)
        asked = (True,) * len(kernel.results) if wanted is None else tuple(wanted)
        if kernel.narrow is None or not kernel._is_narrow(scalars):  # else that one is recorded
            record.append((kernel.name, asked, [result is not None for result in results]))
        return results

    monkeypatch.setattr(rt.Kernel, "__call__", spy)
    monkeypatch.setattr(rt.Kernel, "quick", lambda *_, **__: None)  # by which a kernel is not called
    return record


def _requests() -> list[Any]:
    """All subsets of inputs of all operations; of the neuron those of one input, all and, slowly, all but one."""
    cases = []
    for op in OPS:
        every = len(op.differentiable)
        for subset in subsets(op.differentiable):
            names = "+".join([op.tensors[k] for k in subset])
            marks = [pytest.mark.slow] if every > 3 and len(subset) == every - 1 else []
            if every <= 3 or len(subset) in (1, every - 1, every):
                cases.append(pytest.param(op, subset, id=f"{op}-{names}", marks=marks))
    return cases


@pytest.mark.few(every_day=8, slow=30)
@pytest.mark.parametrize(("op", "subset"), _requests())
def test_every_subset_of_gradients(op: Op, subset: tuple[int, ...], calls: list[Any]) -> None:
    inputs = op.sample((4,))
    for k in subset:
        inputs[k].requires_grad_()
    asked = tuple(k in subset for k in op.differentiable)

    total(op(*inputs)).backward()

    assert [name for name, *_ in calls] == [op.name, f"{op.name}_backward"]
    _, wanted, given = calls[1]
    assert wanted == asked
    assert tuple(given) == asked
    reference = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in inputs]
    total(op.reference(*reference)).backward()
    for tensor, expected in zip(inputs, reference, strict=True):
        assert (tensor.grad is not None) == tensor.requires_grad
        if tensor.grad is not None:
            torch.testing.assert_close(tensor.grad, expected.grad, rtol=1e-11, atol=1e-12)

    assert gradcheck(op.function, inputs)
    assert gradgradcheck(op.function, inputs)


@every
@pytest.mark.parametrize("needs_seed", [False, True], ids=["inputs", "inputs and incoming gradient"])
def test_only_the_second_derivatives_asked_for_are_computed(op: Op, needs_seed: bool, calls: list[Any]) -> None:
    kernel = op.kernels["double_backward"]
    inputs = op.sample((4,))
    last = op.differentiable[-1]
    inputs[last].requires_grad_()
    results = as_tuple(op(*inputs))
    seeds = [torch.full_like(result, 0.7, requires_grad=needs_seed) for result in results]
    (grad,) = torch.autograd.grad(results, inputs[last], seeds, create_graph=True)
    calls.clear()
    if grad.requires_grad:
        torch.autograd.grad(total(grad), [inputs[last], *(seeds if needs_seed else [])], allow_unused=True)
    asked = {name: wanted for name, wanted, _ in calls}.get(kernel.name, (False,) * len(kernel.results))
    for result, wanted in zip(kernel.results, asked, strict=True):
        of = result.removeprefix("grad_of_")
        if of.startswith("grad"):
            assert wanted == needs_seed
        elif of in op.tensors and op.tensors.index(of) != last:
            assert not wanted


@every
def test_second_derivatives_that_vanish_are_zeros_where_torch_has_zeros(op: Op) -> None:
    """The gradient of relu hangs on its input though it is flat: torch.autograd.grad need not be told to allow it."""
    found = []
    for function in (op, op.reference):
        inputs = op.sample((3,), grad=True)
        wanted = [inputs[k] for k in op.differentiable]
        grads = torch.autograd.grad(total(function(*inputs)), wanted, create_graph=True)
        parts = [total(grad) for grad in grads if grad.requires_grad]
        found.append(torch.autograd.grad(parts, wanted, allow_unused=True) if parts else [None] * len(wanted))
    for own, right in zip(*found, strict=True):
        assert right is None or own is not None
        if own is not None:
            torch.testing.assert_close(own, torch.zeros_like(own) if right is None else right)


@every
@pytest.mark.parametrize("dtype", gallery.DTYPES, ids=str)
def test_gradients_have_the_dtype_of_their_input(op: Op, dtype: torch.dtype) -> None:
    inputs = op.sample((4,), dtype=dtype, grad=True)
    results = as_tuple(op(*inputs))
    assert {result.dtype for result in results} == {dtype}
    grads = torch.autograd.grad(total(results), [inputs[k] for k in op.differentiable], create_graph=True)
    assert {grad.dtype for grad in grads} == {dtype}
    exact = [tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in inputs]
    expected = torch.autograd.grad(total(op.reference(*exact)), [exact[k] for k in op.differentiable])
    tolerance = 40 * torch.finfo(dtype).eps
    for grad, reference in zip(grads, expected, strict=True):
        torch.testing.assert_close(grad.double(), reference, rtol=tolerance, atol=tolerance)


@several
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_mixed_dtypes_promote_and_gradients_come_back(op: Op, dtype: torch.dtype) -> None:
    inputs = op.sample((4,), dtype=torch.float32)
    inputs[0] = inputs[0].to(dtype)
    for k in op.differentiable:
        inputs[k].requires_grad_()
    results = as_tuple(op(*inputs))
    assert {result.dtype for result in results} == {torch.promote_types(dtype, torch.float32)}
    total(results).backward()
    for k in op.differentiable:
        assert inputs[k].grad is not None
        assert inputs[k].grad.dtype == inputs[k].dtype


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_fixed_inputs_may_be_integer_or_bool(dtype: torch.dtype, path: str) -> None:
    huber = get("huber")
    prediction = torch.tensor([-2.5, 0.25, 0.75, 3.5], requires_grad=True)
    target = torch.tensor([0, 1, 0, 1]).to(dtype)
    with rt.record_paths() as record:
        if path == "torch":
            with rt.force_path("torch"):
                loss = huber(prediction, target)
                loss.sum().backward()
        else:
            loss = huber(prediction, target)
            loss.sum().backward()
    assert [taken for _, taken in record] == [path, path]
    assert loss.dtype == torch.float32
    assert loss.tolist() == [2.0, 0.28125, 0.28125, 2.0]
    assert prediction.grad is not None
    assert prediction.grad.tolist() == [-1.0, -0.75, 0.75, 1.0]
    assert gradcheck(huber.function, (torch.tensor([-2.5, 0.2, 0.7, 3.5]).double().requires_grad_(), target))


def test_fixed_inputs_get_no_gradient() -> None:
    prediction = torch.tensor([0.5, 2.0], requires_grad=True)
    target = torch.zeros(2, requires_grad=True)
    get("huber")(prediction, target).sum().backward()
    assert prediction.grad is not None
    assert target.grad is None
    only_target = get("huber")(prediction.detach(), target)
    assert torch.autograd.grad(only_target.sum(), target, allow_unused=True) == (None,)


# ---------------------------------------------------------------------------------------------------------------------
# Kinks
# ---------------------------------------------------------------------------------------------------------------------


def derivative(op: Op, *values: float, **hyper: float) -> list[float]:
    """The gradient at one point, the same on both paths."""
    found = []
    for path in ("cpu", "torch"):
        inputs = [torch.tensor(value, dtype=torch.float64) for value in values]
        for k in op.differentiable:
            inputs[k].requires_grad_()
        with rt.force_path("torch") if path == "torch" else rt.record_paths():
            op(*inputs, **hyper).backward()
        found.append([float(inputs[k].grad) for k in op.differentiable])  # type: ignore[arg-type]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("name", "at", "hyper", "expected"),
    [
        ("relu", (0.0,), {}, [0.0]),
        ("relu", (-0.0,), {}, [0.0]),
        ("leaky_relu", (0.0,), {}, [0.01]),  # the branch that x > 0 does not take
        ("leaky_relu", (-0.0,), {"alpha": 0.3}, [0.3]),
        ("elu", (0.0,), {"alpha": 1.7}, [1.7]),
        ("max_gate", (1.5, 1.5), {}, [0.5, 0.5]),
        ("max_gate", (0.0, -0.0), {}, [0.5, 0.5]),
        ("max_gate", (-0.0, 0.0), {}, [0.5, 0.5]),
        ("max_gate", (float("inf"), float("inf")), {}, [0.5, 0.5]),
        ("max_gate", (-float("inf"), -float("inf")), {}, [0.5, 0.5]),
        ("binarize", (-1.0,), {}, [1.0]),
        ("binarize", (1.0,), {}, [1.0]),
        ("binarize", (0.0,), {}, [1.0]),
        ("binarize", (1.0000000000000002,), {}, [0.0]),
        ("binarize", (-1.0000000000000002,), {}, [0.0]),
        # Differentiable as a whole, though written in pieces:
        ("elu", (0.0,), {}, [1.0]),
        ("huber", (1.0, 0.0), {}, [1.0]),
        ("huber", (-1.0, 0.0), {}, [-1.0]),
        ("huber", (2.0, 0.5), {"delta": 1.5}, [1.5]),
        ("huber", (0.5, 2.0), {"delta": 1.5}, [-1.5]),
        ("huber", (0.25, 0.25), {}, [0.0]),
    ],
)
def test_derivative_at_a_kink(name: str, at: tuple[float, ...], hyper: dict[str, float], expected: list[float]) -> None:
    assert derivative(get(name), *at, **hyper) == expected


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("elu", [[0.0, -0.0]]),
        ("huber", [[1.0, -1.0, 3.0, 0.5], [0.0, 0.0, 2.0, 0.5]]),
    ],
)
def test_gradients_where_the_pieces_meet_smoothly(name: str, points: list[list[float]]) -> None:
    op = get(name)
    inputs = [torch.tensor(values, dtype=torch.float64) for values in points]
    for k in op.differentiable:
        inputs[k].requires_grad_()
    assert gradcheck(op.function, inputs)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "max_gate"])
def test_second_derivative_at_a_kink_is_zero(name: str) -> None:
    op = get(name)
    inputs = [torch.zeros(3, dtype=torch.float64, requires_grad=True) for _ in op.tensors]
    grads = torch.autograd.grad((op(*inputs) ** 2 + op(*inputs)).sum(), inputs, create_graph=True)
    again = torch.autograd.grad(grads[0].sum(), inputs)
    slope = {"relu": 0.0, "leaky_relu": 0.01, "max_gate": 0.5}[name]
    for second in again:  # of u^2 + u, with u the function: 2 u'^2 + (2 u + 1) u'', where u'' is 0
        torch.testing.assert_close(second, torch.full_like(second, 2 * slope * slope))


def test_signs_of_binarize() -> None:
    for dtype in gallery.DTYPES:
        x = torch.tensor([-2.0, -0.0, 0.0, 1e-7, 3.0]).to(dtype)
        with rt.record_paths() as record:
            assert get("binarize")(x).tolist() == [-1, 0, 0, 1, 1]
        assert record == [("binarize", "cpu")]


def test_surrogate_gradient_of_binarize() -> None:
    x = torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5], requires_grad=True)
    upstream = torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0])
    get("binarize")(x).backward(upstream)
    assert x.grad is not None
    assert x.grad.tolist() == [0, 3, 4, 5, 0]
    inside = torch.tensor([-0.5, 0.3], dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(get("binarize").function, (inside,))  # of the surrogate, which is what was asked for


# ---------------------------------------------------------------------------------------------------------------------
# Second and third derivatives against torch's own
# ---------------------------------------------------------------------------------------------------------------------


def nested_gradients(
    function: Callable[..., Any], op: Op, inputs: list[Tensor], order: int
) -> list[tuple[Tensor, ...]]:
    """The gradients up to `order`, each of a sum of those before by all inputs, weighed so that none can stand in."""
    leaves = [tensor.detach().requires_grad_(k in op.differentiable) for k, tensor in enumerate(inputs)]
    wanted = [leaves[k] for k in op.differentiable]
    found: list[tuple[Tensor, ...]] = []
    results: Any = as_tuple(function(*leaves))
    for left in range(order, 0, -1):
        loss = total(tuple(results)) + (total(tuple(results)) ** 2 if left == order else 0)
        results = torch.autograd.grad(loss, wanted, create_graph=left > 1, materialize_grads=True)
        found.append(tuple(grad.detach() for grad in results))
        if not any(grad.requires_grad for grad in results):
            break
    return found


@every
def test_second_derivatives_match_those_of_torch(op: Op) -> None:
    for shapes in ([(7,)], [(2, 3), (3,), (2, 1)]):
        inputs = op.sample(*shapes, seed=5)
        found = nested_gradients(op.function, op, inputs, 2)
        expected = nested_gradients(op.reference, op, inputs, 2)
        assert len(found) == 2
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@smooth
def test_third_derivatives_through_autograd(op: Op) -> None:
    inputs = op.sample((6,), seed=9)
    found = nested_gradients(op.function, op, inputs, 3)
    expected = nested_gradients(op.reference, op, inputs, 3)
    assert len(found) == 3
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@smooth
def test_third_derivatives_at_zero(op: Op) -> None:
    """Where |x|, which sound forms are made with, has a kink that the function has not."""
    inputs = [torch.zeros(1, dtype=torch.float64) for _ in op.tensors]
    if op.name == "bce_with_logits":
        inputs[1] += 0.3
    found = nested_gradients(op.function, op, inputs, 3)
    expected = nested_gradients(op.reference, op, inputs, 3)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@smooth
@pytest.mark.parametrize("at", [0.0, 0.7])
def test_second_derivative_by_way_of_the_incoming_gradient(op: Op, at: float) -> None:
    """Differentiates what double backward gives for the incoming gradient, which is itself a first derivative."""

    def twice(function: Callable[..., Any]) -> list[Tensor]:
        inputs = [torch.full((1,), at, dtype=torch.float64, requires_grad=True) for _ in op.tensors]
        result = as_tuple(function(*inputs))[0]
        seed = torch.full_like(result, 0.7, requires_grad=True)
        grads = torch.autograd.grad(result, inputs, seed, create_graph=True)
        (of_seed,) = torch.autograd.grad(total(grads), seed, create_graph=True)
        return list(torch.autograd.grad(of_seed, inputs, materialize_grads=True))

    torch.testing.assert_close(twice(op.function), twice(op.reference), rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Gradients that are not there
# ---------------------------------------------------------------------------------------------------------------------


def record_presence(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[bool]]]:
    """Will have each call of a kernel: its name, and which of its tensors were there."""
    received: list[tuple[str, list[bool]]] = []
    original = rt.Kernel.__call__

    def spy(kernel: Any, tensors: Any, *rest: Any) -> Any:
        received.append((kernel.name, [tensor is not None for tensor in tensors]))
        return original(kernel, tensors, *rest)

    monkeypatch.setattr(rt.Kernel, "__call__", spy)
    return received


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_an_unused_result_does_not_leak(path: str) -> None:
    """At r = inf, theta = 0, the unused y = inf * 0 is NaN, and so would be its part of the gradient of r."""
    r = torch.tensor([float("inf"), 2.0], requires_grad=True)
    theta = torch.tensor([0.0, 0.5], requires_grad=True)
    with rt.force_path("torch") if path == "torch" else rt.record_paths():
        x, y = get("polar_to_cartesian")(r, theta)
        x.sum().backward()
    assert torch.isnan(y[0])
    assert r.grad is not None
    torch.testing.assert_close(r.grad, theta.detach().cos())


@pytest.mark.parametrize("way", ["C"], indirect=True)  # of C++ Python hears nothing
@pytest.mark.parametrize("used", [0, 1])
def test_gradients_of_unused_results_are_not_materialised(used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    received = record_presence(monkeypatch)
    r, theta = get("polar_to_cartesian").sample((3,), grad=True)
    get("polar_to_cartesian")(r, theta)[used].sum().backward()
    name, present = received[1]
    assert name == "polar_to_cartesian_backward"
    assert present[:2] == [used == 0, used == 1]


@pytest.mark.parametrize("used", [0, 1])
def test_one_result_of_two(used: int) -> None:
    op = get("polar_to_cartesian")
    assert_gradients(lambda *tensors: op(*tensors)[used], tuple(op.sample((4,), grad=True)))


@several
@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_second_derivative_of_one_gradient_alone(op: Op, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are not there in double backward, rather than zeros that cost time and meet NaN."""
    received = record_presence(monkeypatch)
    name = op.kernels["double_backward"].name

    def second(function: Callable[..., Any], used: int) -> tuple[Tensor, ...]:
        inputs = op.sample((4,), grad=True)
        wanted = [inputs[k] for k in op.differentiable]
        loss = total(function(*inputs))
        grads = torch.autograd.grad(loss + loss**2, wanted, create_graph=True)
        received.clear()
        return torch.autograd.grad(total(grads[used]), wanted, materialize_grads=True)

    count = len(op.differentiable)
    for used in range(count):
        with rt.force_path("torch") if path == "torch" else rt.record_paths():
            found = second(op.function, used)
        given = [present[:count] for of, present in received if of == name]
        if path == "cpu":
            assert given == [[k == used for k in range(count)]]
        else:  # where two gradients are one expression, torch knows one tensor, and which of the two is no matter
            assert [sum(present) for present in given] == [1]
        torch.testing.assert_close(found, second(op.reference, used), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("path", ["cpu", "torch"])
def test_an_unused_gradient_does_not_leak_into_double_backward(path: str) -> None:
    """The gradient of z is q = inf; the second derivatives of the gradient of x must not meet it."""
    x = torch.tensor([float("inf")], requires_grad=True)
    y, z = torch.ones(1, requires_grad=True), torch.full((1,), 3.0, requires_grad=True)
    with rt.force_path("torch") if path == "torch" else rt.record_paths():
        seed = torch.ones(1, requires_grad=True)
        grad_x, _, grad_z = torch.autograd.grad(get("sum_product")(x, y, z), (x, y, z), seed, create_graph=True)
        assert torch.isinf(grad_z)
        of_seed, of_z = torch.autograd.grad(grad_x, (seed, z))
    assert (of_seed.item(), of_z.item()) == (3.0, 1.0)


def test_backward_without_any_gradient_gives_none() -> None:
    for op in OPS:
        function = getattr(op.code, f"{op.class_name}Function")
        assert function.backward(None, *[None] * op.outputs) == (None,) * (len(op.tensors) + len(op.hyper))


def test_results_do_not_require_grad_where_no_input_does() -> None:
    for op in OPS:
        assert not any(result.requires_grad for result in as_tuple(op(*op.sample((3,)))))
        with torch.no_grad():
            assert not any(result.requires_grad for result in as_tuple(op(*op.sample((3,), grad=True))))
        with torch.inference_mode():
            assert all(result.is_inference() for result in as_tuple(op(*op.sample((3,)))))


def test_backward_twice_needs_retain_graph_as_torch_does() -> None:
    for op in OPS:
        inputs = op.sample((3,), grad=True)
        loss = total(op(*inputs))
        first = torch.autograd.grad(loss, inputs[0], retain_graph=True)
        assert torch.equal(first[0], torch.autograd.grad(loss, inputs[0])[0])
        if op.kernels["backward"].tensors != ("grad",):
            with pytest.raises(RuntimeError, match="second time"):
                torch.autograd.grad(loss, inputs[0])


def test_changing_a_saved_input_in_place_is_noticed() -> None:
    for op, position in itertools.product([get("swish"), get("huber"), get("neuron")], [0]):
        inputs = [tensor.clone() for tensor in op.sample((3,), grad=True)]
        loss = total(op(*inputs))
        with torch.no_grad():
            inputs[position].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
