"""Operations written over their input: where backward needs the output alone, and as torch has its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gallery
import pytest
import torch
from building import build
from gallery import DTYPES, OPS
from torch import Tensor

rt = gallery.runtime()

pytestmark = pytest.mark.usefixtures("way")

OF_GALLERY = ["exp", "relu"]


def pair(name: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The op that overwrites its input, and the one that does not."""
    module = gallery.get(name).code
    return getattr(module, f"{name}_"), getattr(module, name)


def test_it_is_there_where_backward_needs_the_output_alone() -> None:
    assert [op.name for op in OPS if hasattr(op.code, f"{op.name}_")] == OF_GALLERY


@pytest.mark.parametrize("path", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OF_GALLERY)
class TestValuesAndGradients:
    def test_are_those_of_the_op(self, name: str, dtype: torch.dtype, path: str) -> None:
        overwrite, compute = pair(name)
        leaf = torch.randn(40, dtype=dtype).requires_grad_()

        def run(function: Callable[..., Tensor]) -> tuple[Tensor, Tensor, Tensor]:
            y = function(leaf * 2)
            (first,) = torch.autograd.grad(y.sum(), leaf, create_graph=True)
            (second,) = torch.autograd.grad((first * first).sum() + 0 * leaf.sum(), leaf)
            return y.detach(), first.detach(), second

        if path == "torch":
            with rt.force_path("torch"):
                found, expected = run(overwrite), run(compute)
        else:
            with rt.record_paths() as record:
                found = run(overwrite)
            assert {path for _, path in record} == {"cpu"}
            expected = run(compute)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)

    def test_lie_where_the_input_lay(self, name: str, dtype: torch.dtype, path: str) -> None:
        overwrite, compute = pair(name)
        for x in (
            torch.randn(2, 3, 4, 5),
            torch.randn(4, 5).T,
            torch.randn(6)[::2],
            torch.randn(3, 4)[1],
            torch.zeros(0),
        ):
            x = x.to(dtype)
            x = x if x._base is None else x.clone(memory_format=torch.preserve_format)
            address, version = x.data_ptr(), x._version
            with rt.force_path("torch") if path == "torch" else rt.record_paths():
                expected = compute(x)
                assert overwrite(x) is x
            assert torch.equal(x, expected)
            assert x.data_ptr() == address
            assert x._version > version


@pytest.mark.parametrize("name", OF_GALLERY)
class TestTensorsOfOtherKinds:
    def test_views_change_what_they_are_views_of(self, name: str) -> None:
        overwrite, compute = pair(name)
        leaf = torch.randn(3, 4, requires_grad=True)
        whole = leaf * 1
        overwrite(whole[:, 1])
        expected = torch.stack([compute(leaf[:, k]) if k == 1 else leaf[:, k] for k in range(4)], 1)
        assert torch.equal(whole, expected)
        gradients = [torch.autograd.grad(y.square().sum(), leaf)[0] for y in (whole, expected)]
        torch.testing.assert_close(*gradients, rtol=0, atol=0)

    @pytest.mark.parametrize("detached", [False, True])
    def test_negative_views(self, name: str, detached: bool) -> None:
        overwrite, compute = pair(name)
        x = torch.randn(5)
        expected = -compute(-x)
        view = torch._neg_view(x)
        overwrite(view.detach() if detached else view)
        assert torch.equal(x, expected)

    def test_what_is_left_of_a_transform(self, name: str) -> None:
        overwrite, compute = pair(name)
        weight, kept = torch.full((2,), 2.0, requires_grad=True), []
        torch.func.grad(lambda x: (kept.append(x * weight), x.sum())[1])(torch.ones(2))
        (found,) = torch.autograd.grad(overwrite(kept[0]).sum(), weight)
        (expected,) = torch.autograd.grad(compute(torch.ones(2) * weight).sum(), weight)
        assert torch.equal(found, expected)

    def test_transforms(self, name: str) -> None:
        overwrite, compute = pair(name)
        x = torch.randn(3, 4)
        torch.testing.assert_close(torch.func.vmap(overwrite)(x.clone()), compute(x))
        slope = torch.func.grad(lambda x: overwrite(x * 2).sum())(x)
        torch.testing.assert_close(slope, torch.func.grad(lambda x: compute(x * 2).sum())(x))

    def test_compiled(self, name: str) -> None:
        overwrite, compute = pair(name)
        x = torch.randn(7, requires_grad=True)
        compiled = torch.compile(lambda x: overwrite(x * 2) + 1, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), compute(x * 2) + 1)

    def test_without_autograd(self, name: str) -> None:
        overwrite, compute = pair(name)
        leaf = torch.randn(5, requires_grad=True)
        expected = compute(leaf).detach()
        with torch.no_grad():
            assert torch.equal(overwrite(leaf), expected)
        with torch.inference_mode():
            x = torch.full((3,), 0.5)
            assert torch.equal(overwrite(x.clone()), compute(x))


@pytest.mark.parametrize("name", OF_GALLERY)
class TestWhatTorchRefuses:
    @pytest.mark.parametrize(
        ("made", "message"),
        [
            (lambda: torch.ones(4, requires_grad=True), "a leaf Variable that requires grad"),
            (lambda: torch.ones(4, requires_grad=True)[1:], "a view of a leaf Variable that requires grad"),
            (lambda: torch.ones(1).expand(4), "more than one element of the written-to tensor"),
        ],
    )
    def test_is_left_as_it_was(self, name: str, made: Callable[[], Tensor], message: str) -> None:
        overwrite, _ = pair(name)
        x = made()
        with pytest.raises(RuntimeError, match=message):
            overwrite(x)
        assert torch.equal(x, torch.ones_like(x))

    def test_an_inference_tensor_outside_of_inference_mode(self, name: str) -> None:
        with torch.inference_mode():
            x = torch.ones(3)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            pair(name)[0](x)

    def test_an_input_that_another_gradient_needs(self, name: str) -> None:
        leaf = torch.randn(4, requires_grad=True)
        x = leaf * 1
        square = x * x
        pair(name)[0](x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()

    def test_a_result_that_is_changed_before_backward(self, name: str) -> None:
        leaf = torch.randn(4, requires_grad=True)
        y = pair(name)[0](leaf * 1)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    def test_a_hook_on_what_was_overwritten(self, name: str) -> None:
        """It is told of the gradient of the result, as with torch's own operations."""
        leaf = torch.randn(4, requires_grad=True)
        told = {}
        for overwrite in (pair(name)[0], getattr(torch, f"{name}_")):
            x = leaf * 1
            x.retain_grad()
            x.register_hook(lambda grad, of=overwrite: told.setdefault(of, grad))
            (3 * overwrite(x)).sum().backward()
            assert torch.equal(x.grad, torch.full((4,), 3.0))
        one, other = told.values()
        torch.testing.assert_close(one, other)

    def test_what_is_no_floating_tensor(self, name: str) -> None:
        with pytest.raises(NotImplementedError, match=f"{name}_"):
            pair(name)[0](torch.arange(3))


@pytest.mark.parametrize("name", OF_GALLERY)
def test_nothing_is_kept_but_the_result(name: str) -> None:
    leaf = torch.randn(100, requires_grad=True)
    pair(name)[1](leaf)
    x, kept = leaf * 1, []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        pair(name)[0](x)
    assert [tensor.data_ptr() for tensor in kept] == [x.data_ptr()]


@pytest.mark.parametrize("name", OF_GALLERY)
def test_the_module(name: str) -> None:
    make = getattr(gallery.get(name).code, name.capitalize())
    x = torch.randn(3)
    assert make()(x) is not x
    assert (str(make()), str(make(inplace=True))) == (f"{name.capitalize()}()", f"{name.capitalize()}(inplace=True)")
    assert make(inplace=True)(x) is x


class TestSpecs:
    @pytest.mark.parametrize("formula", ["x + k", "exp(x)", "k + exp(x)"])
    def test_hyper_parameters_that_the_gradient_does_not_take(self, formula: str, tmp_path: Path, way: str) -> None:
        built, _ = build(f"@op\ndef f(x: Tensor, k: float = 2.0):\n    return {formula}\n", tmp_path)
        if way == "C++":
            built.rt._use_native(built.rt.compile_native())
        leaf = torch.randn(4, dtype=torch.float64, requires_grad=True)
        overwrite = getattr(built, "f_", None)
        for function in (built.f, built.f, *[lambda x: overwrite(x * 1)] * 3 * (overwrite is not None)):
            (slope,) = torch.autograd.grad(function(leaf).sum(), leaf, create_graph=True)
            expected = torch.ones_like(leaf) if formula == "x + k" else leaf.exp()
            torch.testing.assert_close(slope, expected)
            if formula != "x + k":
                torch.testing.assert_close(torch.autograd.grad(slope.sum(), leaf)[0], expected)

    def test_hyper_parameters(self, tmp_path: Path, way: str) -> None:
        built, _ = build("@op\ndef grown(x: Tensor, k: float = 2.0):\n    return k*exp(x)\n", tmp_path)
        x = torch.randn(4, dtype=torch.float64)
        assert torch.equal(built.grown_(x.clone(), 3.0), built.grown(x, 3.0))
        assert str(built.Grown(0.5, inplace=True)) == "Grown(k=0.5, inplace=True)"
        leaf = x.requires_grad_()
        if way == "C++":
            built.rt._use_native(built.rt.compile_native())
        for _ in range(2):
            assert torch.autograd.gradcheck(lambda x: built.grown_(x * 1, 3.0), (leaf,))
            assert torch.autograd.gradgradcheck(lambda x: built.grown_(x * 1, 3.0), (leaf,))
        with pytest.raises(TypeError, match=r"grown_\(\): argument 'k' must be float"):
            built.grown_(x * 1, "three")

    @pytest.mark.parametrize("formula", ["x*exp(x)", "x + exp(y)"])
    def test_it_is_not_there_for_others(self, formula: str, tmp_path: Path) -> None:
        inputs = ", ".join(f"{name}: Tensor" for name in "xy" if name in formula.replace("exp", ""))
        built, _ = build(f"@op\ndef other({inputs}):\n    return {formula}\n", tmp_path)
        assert not hasattr(built, "other_")
        assert built.__all__ == ["Other", "OtherFunction", "other"]
