"""The gallery on several processes, by PyTorch's own engine: what they compute together is what one computes alone."""

from __future__ import annotations

import copy
import importlib
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import gallery
import networks
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from gallery import EACH_KIND, OPS, Op, as_tuple
from subjects import subject
from test_examples import run
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from gradgen.render import operator_text

pytestmark = pytest.mark.slow

WORLD = 2


def together(task: Callable[..., None], tmp_path: Path, *arguments: Any) -> None:
    """Runs task(rank, mesh, *arguments) in two processes; what goes wrong in one goes wrong here."""
    mp.spawn(_worker, (task, str(tmp_path / "store"), arguments), nprocs=WORLD)


def _worker(rank: int, task: Callable[..., None], store: str, arguments: tuple[Any, ...]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    try:
        task(rank, init_device_mesh("cpu", (WORLD,)), *arguments)
        dist.barrier()  # nobody leaves while another still talks to it
    except Exception:
        traceback.print_exc()
        raise
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads have been seen to abort a process that ends in the ordinary way


class Gated(nn.Module):
    """A layer for each input of an op, as in a gated unit, and one after it."""

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op, self.function = op, op.module_class(**op.others)
        self.layers, self.out = nn.ModuleList([nn.Linear(4, 6) for _ in op.tensors]), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        inputs = [layer(x) for layer in self.layers]
        inputs = [x if k in self.op.differentiable else x.detach() for k, x in enumerate(inputs)]
        found = self.out(sum(as_tuple(self.function(*inputs))))
        assert isinstance(found, Tensor)
        return found


def network(op: Op, is_gated: bool = False) -> nn.Module:
    if len(op.tensors) > 1 and not is_gated:
        return networks.network(op)
    torch.manual_seed(0)
    if is_gated and len(op.tensors) > 1:
        return Gated(op).double()
    return nn.Sequential(nn.Linear(4, 6), op.module_class(), nn.Linear(6, 2)).double()


def batch() -> Tensor:
    return torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def loss(output: Tensor) -> Tensor:
    return output.square().mean()


def trained(model: nn.Module, x: Tensor, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13, msg=lambda message: f"{where}: {message}")


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


LEARNING = [op for op in OPS if len(op.kernels) > 1]


def _ddp(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    return DistributedDataParallel(model)


def _fsdp(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    for layer in model.children():
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    first, last = ("layers.*", "out") if isinstance(model, Gated) else ("0", "2")
    return parallelize_module(model, mesh, {first: ColwiseParallel(), last: RowwiseParallel()})


def _learn(rank: int, mesh: DeviceMesh, prepare: Callable[[nn.Module, DeviceMesh], nn.Module]) -> None:
    for op in LEARNING:
        model = network(op, is_gated=prepare is _tensor_parallel)
        alone = copy.deepcopy(model)
        trained(alone, batch())
        parallel = prepare(model, mesh)
        trained(parallel, batch() if prepare is _tensor_parallel else batch().chunk(WORLD)[rank])
        assert_same({key: whole(value) for key, value in model.state_dict().items()}, alone.state_dict(), op.name)


@pytest.mark.parametrize("prepare", [_ddp, _fsdp, _tensor_parallel])
def test_training_together(tmp_path: Path, prepare: Callable[[nn.Module, DeviceMesh], nn.Module]) -> None:
    together(_learn, tmp_path, prepare)


class Checkpointed(nn.Module):
    """What it holds is computed once more in backward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found = checkpoint(self.inner, x, use_reentrant=False)
        assert isinstance(found, Tensor)
        return found


def _combine(rank: int, mesh: DeviceMesh, names: Sequence[str]) -> None:
    """DDP, FSDP2 and tensor-parallel layers within the compiler, and FSDP2 around what is checkpointed."""
    for op in map(gallery.get, names):
        for prepare in (_ddp, _fsdp, _tensor_parallel, None):
            torch._dynamo.reset()
            model = network(op, is_gated=prepare is _tensor_parallel)
            alone = copy.deepcopy(model)
            trained(alone, batch())
            if prepare is None:
                parallel = _fsdp(nn.Sequential(*map(Checkpointed, model.children())), mesh)
            else:
                parallel = torch.compile(prepare(model, mesh), backend="aot_eager")
            trained(parallel, batch() if prepare is _tensor_parallel else batch().chunk(WORLD)[rank])
            assert_same([whole(p) for p in parallel.parameters()], [*alone.parameters()], op.name)


OF_EACH_KIND = [op.name for op in LEARNING if op.name in EACH_KIND]
OTHERS = [op.name for op in LEARNING if op.name not in EACH_KIND]


@pytest.mark.parametrize(
    "names", [OF_EACH_KIND, pytest.param(OTHERS, marks=pytest.mark.thorough)], ids=["of each kind", "others"]
)
def test_training_together_compiled_and_checkpointed(tmp_path: Path, names: Sequence[str]) -> None:
    together(_combine, tmp_path, names)


def _learn_in_mixed_precision(rank: int, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for op in LEARNING:
        seen: set[torch.dtype] = set()

        def noting(*inputs: Tensor, op: Op = op, seen: set[torch.dtype] = seen, **hyper: float) -> Any:
            results = op(*inputs, **hyper)
            seen.update(tensor.dtype for tensor in (*inputs, *as_tuple(results)))
            return results

        models = [networks.network(op, function).float() for function in (noting, op.reference)]
        for model in models:
            for layer in model.children():
                fully_shard(layer, mesh=mesh, mp_policy=policy)
            trained(fully_shard(model, mesh=mesh, mp_policy=policy), batch().chunk(WORLD)[rank].float())
        assert seen == {torch.bfloat16}, op.name
        found, expected = ([whole(p) for p in model.parameters()] for model in models)
        assert {parameter.dtype for parameter in found} == {torch.float32}
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.005)


def test_training_together_in_mixed_precision(tmp_path: Path) -> None:
    together(_learn_in_mixed_precision, tmp_path)


# For each input in turn.
PLACEMENTS: dict[str, tuple[Any, ...]] = {
    "sharded": (Shard(0),),
    "sharded along the last": (Shard(1),),
    "replicated": (Replicate(),),
    "partial": (Partial(),),
    "sharded, replicated": (Shard(0), Replicate()),
    "replicated, sharded along the last": (Replicate(), Shard(1)),
    "sharded along one and the other": (Shard(0), Shard(1)),
    "partial, sharded": (Partial(), Shard(0)),
}


def _distributed(tensor: Tensor, mesh: DeviceMesh, placement: Any) -> DTensor:
    if isinstance(placement, Partial):  # what all processes have adds up to the tensor
        return DTensor.from_local(tensor / WORLD, mesh, [placement])
    return distribute_tensor(tensor, mesh, [placement])


def _of_dtensors(rank: int, mesh: DeviceMesh) -> None:
    for op in OPS:
        plain = op.sample((5, 6))  # of which the processes have 3 rows and 2
        for place, placements in PLACEMENTS.items():
            if len(placements) > len(plain):
                continue
            given = [_distributed(x, mesh, placement) for x, placement in zip(plain, cycle(placements), strict=False)]
            alone = [tensor.clone() for tensor in plain]
            for k in op.differentiable:
                given[k].requires_grad_()
                alone[k].requires_grad_()
            results, expected = as_tuple(op(*given)), as_tuple(op(*alone))
            where = f"{op.name}, {place}"
            assert all(isinstance(result, DTensor) for result in results), where
            assert_same([result.full_tensor() for result in results], list(expected), where)
            if op.differentiable and all(result.requires_grad for result in expected):
                ours, theirs = [given[k] for k in op.differentiable], [alone[k] for k in op.differentiable]
                found, right = (_gradients(rs, xs) for rs, xs in ((results, ours), (expected, theirs)))
                assert_same(list(map(whole, found)), right, where)
                if all(gradient.requires_grad for gradient in right):
                    second = (_gradients(gradients, xs) for gradients, xs in ((found, ours), (right, theirs)))
                    assert_same(*([*map(whole, gradients)] for gradients in second), f"{where}, second derivatives")


def _gradients(results: Sequence[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    total = sum(result.square().sum() for result in results)
    return list(torch.autograd.grad(total, inputs, create_graph=True, materialize_grads=True))


def _forward_mode(rank: int, mesh: DeviceMesh) -> None:
    x = _distributed(torch.randn(4, 6), mesh, Shard(0))
    for function in (gallery.get("swish").function, torch.sigmoid):
        with pytest.raises(NotImplementedError):
            torch.func.jvp(function, (x,), (torch.ones_like(x),))


def _operators(rank: int, mesh: DeviceMesh) -> None:
    swish = gallery.get("swish")
    exec(operator_text(subject(swish).formula), {"rt": gallery.runtime(), **vars(swish.code)})
    with pytest.raises(NotImplementedError, match="does not have a sharding strategy registered"):
        torch.ops.gradgen.swish(_distributed(torch.randn(4, 6), mesh, Shard(0)))


def test_operators_of_dtensors_are_refused_by_torch(tmp_path: Path) -> None:
    together(_operators, tmp_path)


def test_forward_mode_of_dtensors_is_refused_by_torch(tmp_path: Path) -> None:
    together(_forward_mode, tmp_path)


def test_dtensors(tmp_path: Path) -> None:
    together(_of_dtensors, tmp_path)


LEARNABLE = """\
from gradgen import Tensor, op


@op
def scaled(x: Tensor, scale: Tensor(init=0.5)):
    return x / (1 + scale**2)


@op
def weighted(x: Tensor, weight: Tensor(init=0.25, per_channel=True)):
    return x + weight * x**2
"""


def _along_channels(name: str, layer: nn.Module, mesh: DeviceMesh) -> None:
    """Numbers for channels to the processes that have these channels, and one number to all."""
    for key, parameter in [*layer.named_parameters(recurse=False)]:
        placement = Shard(0) if parameter.dim() else Replicate()
        layer.register_parameter(key, nn.Parameter(distribute_tensor(parameter, mesh, [placement])))


def _learnable_tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    distribute_module(model[1], mesh, _along_channels)
    return parallelize_module(model, mesh, {"0": ColwiseParallel(use_local_output=False), "2": RowwiseParallel()})


def _learn_numbers(rank: int, mesh: DeviceMesh, folder: str) -> None:
    sys.path.insert(0, folder)
    ops = importlib.import_module("learnable.gates")
    for prepare, layer in (
        (_ddp, ops.Scaled()),
        (_ddp, ops.Weighted(6)),
        (_fsdp, ops.Weighted(6)),
        (_learnable_tensor_parallel, ops.Scaled()),
        (_learnable_tensor_parallel, ops.Weighted(6)),
    ):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, 2)).double()
        alone = copy.deepcopy(model)
        trained(alone, batch())
        parallel = prepare(model, mesh)
        trained(parallel, batch() if prepare is _learnable_tensor_parallel else batch().chunk(WORLD)[rank])
        assert_same({key: whole(value) for key, value in model.state_dict().items()}, alone.state_dict(), str(layer))
    with pytest.raises(ValueError, match="doesn't support scalar parameters"):
        fully_shard(ops.Scaled(), mesh=mesh)


def test_learnable_numbers(tmp_path: Path) -> None:
    """One number, which FSDP2 does not take, and one for each channel, which tensor-parallel layers share out."""
    (tmp_path / "gates.py").write_text(LEARNABLE)
    command = [sys.executable, "-m", "gradgen", "build", str(tmp_path / "gates.py"), "-o", str(tmp_path / "learnable")]
    subprocess.run(command, check=True, cwd=gallery.ROOT)
    together(_learn_numbers, tmp_path, str(tmp_path))


def test_the_example_runs_under_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(WORLD), "--master-port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(gallery.ROOT / "examples" / "two_layer_net.py")],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=gallery.ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    losses = re.findall(r"step +(\d+)  loss ([\d.e+-]+)", done.stdout)
    assert sorted(int(step) for step, _ in losses) == sorted([0, 100, 200, 300, 400, 500] * WORLD)
    assert len(set(losses)) == 6  # each process has those of one alone
    alone = run("two_layer_net.py", tmp_path)
    assert set(re.findall(r"step +(\d+)  loss ([\d.e+-]+)", alone)) == set(losses)
