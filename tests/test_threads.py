"""The gallery called from many threads at once, forward and backward."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from building import build
from gallery import OPS, Op, as_tuple, get, total
from torch import Tensor

pytestmark = pytest.mark.usefixtures("way")

every = pytest.mark.parametrize("op", OPS, ids=str)
differentiable = pytest.mark.parametrize("op", [op for op in OPS if op.differentiable], ids=str)
COUNT = 8


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What a function gives in so many threads that begin together, each with its number."""
    barrier, found, failed = threading.Barrier(COUNT), [None] * COUNT, []

    def run(k: int) -> None:
        barrier.wait()
        try:
            found[k] = work(k)
        except BaseException as error:  # of a thread nobody would hear
            failed.append(error)

    workers = [threading.Thread(target=run, args=(k,)) for k in range(COUNT)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return found


def forward_and_backward(op: Op, seed: int) -> tuple[Tensor, ...]:
    inputs = op.sample((40, 30), seed=seed, grad=True)
    results = as_tuple(op(*inputs, **op.others))
    if op.differentiable:
        total(results).backward()
    return (*(result.detach() for result in results), *(inputs[k].grad for k in op.differentiable))


def assert_equal(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is other is None) or torch.equal(one, other)


@every
def test_each_thread_has_its_own_results(op: Op) -> None:
    expected = [forward_and_backward(op, k) for k in range(COUNT)]
    for found, right in zip(at_once(lambda k: forward_and_backward(op, k)), expected, strict=True):
        assert_equal(found, right)


@differentiable
def test_a_graph_of_one_thread_is_run_backward_by_another(op: Op) -> None:
    inputs = [op.sample((40, 30), seed=k, grad=True) for k in range(COUNT)]
    losses = [total(op(*tensors)) for tensors in inputs]
    at_once(lambda k: losses[(k + 1) % COUNT].backward())
    for k, tensors in enumerate(inputs):
        again = op.sample((40, 30), seed=k, grad=True)
        total(op(*again)).backward()
        assert_equal(tuple(x.grad for x in tensors), tuple(x.grad for x in again))


@differentiable
def test_gradients_of_one_tensor_from_many_threads_add_up(op: Op) -> None:
    inputs, again = op.sample((40, 30), grad=True), op.sample((40, 30), grad=True)
    at_once(lambda _: total(op(*inputs)).backward())
    (COUNT * total(op(*again))).backward()
    for k in op.differentiable:
        torch.testing.assert_close(inputs[k].grad, again[k].grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["swish", "sum_product"])
def test_other_threads_of_python_run_meanwhile(name: str) -> None:
    """While a kernel runs, of one shape and of several. A thread that waits does not interrupt Python here."""
    inputs = get(name).sample((3000, 2000), (2000,), dtype=torch.float64)
    get(name)(*inputs)
    turns, is_over = [], threading.Event()

    def take_turns() -> None:
        while not is_over.is_set():
            turns.append(1)
            time.sleep(0.0005)

    other, interval = threading.Thread(target=take_turns), sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        other.start()
        before = len(turns)
        get(name)(*inputs)
        taken = len(turns) - before
    finally:
        is_over.set()
        sys.setswitchinterval(interval)
        other.join()
    assert taken > 2


FIRST_CALLS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
sys.setswitchinterval(1e-5)
from gallery import OPS
from test_threads import COUNT, assert_equal, at_once, forward_and_backward
for op in OPS:
    found = at_once(lambda k: forward_and_backward(op, k))
    for k, results in enumerate(found):
        assert_equal(results, forward_and_backward(op, k))
    print(op.name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["C"], indirect=True)
def test_the_first_calls_of_the_gallery_are_by_many_threads(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that has compiled nothing, nor finds what others have."""
    monkeypatch.setenv("GRADGEN_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", FIRST_CALLS, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert done.stdout.split() == [op.name for op in OPS], done.stderr
    assert len([*(tmp_path / "cache").glob("swish-*.so")]) == 1


def test_the_first_call_of_all_threads_is_forward_and_backward(tmp_path: Path) -> None:
    """Nothing is compiled, and no launcher made, when they begin."""
    module, _ = build("@op\ndef f(x, y):\n    return sin(x)*exp(y/3) + x*y**2\n", tmp_path)

    def work(k: int) -> tuple[Tensor, Tensor, Tensor]:
        x, y = (torch.linspace(-1, 1 + k, 300, dtype=torch.float64).requires_grad_() for _ in range(2))
        result = module.f(x, y)
        slopes = torch.autograd.grad(result.sum(), (x, y), create_graph=True)
        slopes[0].pow(2).sum().backward()
        return result.detach(), slopes[1].detach(), y.grad

    found = at_once(work)
    for k, results in enumerate(found):
        assert_equal(results, work(k))
