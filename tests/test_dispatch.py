"""The compiled dispatcher: what it serves, that it gives what the general way gives, and what it leaves to that."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
from collections.abc import Callable
from typing import Any

import gallery
import pytest
import torch
from devices import LAUNCH
from gallery import DTYPES, OPS, Op, as_tuple
from torch import Tensor
from torch.autograd import forward_ad

from generated.losses import huber
from generated.swish import _SWISH, SwishFunction, swish

rt = gallery.runtime()

BETA = (1.0,)


@pytest.fixture(autouse=True)
def _compiled(way: str) -> None:
    for dtype in DTYPES:
        swish(torch.zeros(1, dtype=dtype))


def x(*shape: int, **options: Any) -> Tensor:
    return torch.linspace(-3, 3, torch.Size(shape).numel(), **options).reshape(shape)


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (3, 1, 700), (300, 300)], ids=str)
def test_it_gives_what_the_general_way_gives(op: Op, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    inputs = op.sample(shape, dtype=dtype)
    with rt.record_paths() as record:  # for which the dispatcher is left out
        expected = as_tuple(op(*inputs))
    assert record == [(op.name, "cpu")]
    kernel, scalars = op.kernels["forward"], tuple(default for default, _ in op.hyper.values())
    found = kernel.quick(tuple(inputs), scalars[: len(kernel.scalars)])
    assert found is not None
    for one, other in zip(found, expected, strict=True):
        assert one.dtype is dtype
        assert torch.equal(one, other)


def test_it_serves_what_autograd_need_not_see(way: str) -> None:
    asks = x(4).requires_grad_()
    assert _SWISH.quick((asks,), BETA) is None
    with torch.no_grad():
        assert _SWISH.quick((asks,), BETA) is not None
        assert _SWISH.quick((torch.nn.Parameter(asks),), BETA) is not None
        assert _SWISH.quick((asks,), BETA, function=SwishFunction)[0].grad_fn is None
    recorded = _SWISH.quick((asks,), BETA, function=SwishFunction)
    assert recorded is not None
    assert recorded[0].grad_fn.name() == "SwishFunctionBackward"
    assert type(recorded[0].grad_fn).__name__ == ("SwishFunctionBackward" if way == "C" else "CppFunction")
    with torch.inference_mode():
        made_here = x(4)
        result = _SWISH.quick((made_here,), BETA)
        assert result is not None
        assert result[0].is_inference()
    assert _SWISH.quick((made_here,), BETA) is not None
    assert swish(asks).grad_fn is not None


class Sub(Tensor):
    pass


STRANGE = {
    "a subclass": lambda: x(4).as_subclass(Sub),
    "a negative view": lambda: torch._neg_view(x(4)),
    "a tensor of zeros without memory": lambda: torch._efficientzerotensor(4),
    "a functionalised tensor": lambda: torch._to_functional_tensor(x(4)),
    "a meta tensor": lambda: x(4, device="meta"),
    "a sparse tensor": lambda: x(4).to_sparse(),
    "a quantised tensor": lambda: torch.quantize_per_tensor(x(4), 0.1, 0, torch.qint8),
    "an integer tensor": lambda: torch.arange(4),
    "a complex tensor": lambda: torch.zeros(4, dtype=torch.complex64),
    "a list": lambda: [1.0, 2.0],
    "a number": lambda: 1.0,
    "nothing": lambda: None,
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
@pytest.mark.filterwarnings("ignore")
def test_it_leaves_what_is_not_plain_and_contiguous(make: Callable[[], Any]) -> None:
    assert _SWISH.quick((make(),), BETA) is None
    assert _SWISH.quick((x(4),), BETA) is not None


@pytest.mark.parametrize(
    "strided",
    [x(2, 3).t(), x(8)[::2], x(1, 2, 3, 4).to(memory_format=torch.channels_last), x(1).expand(4), x(1, 3).expand(2, 3)],
    ids=["a transpose", "a slice", "channels last", "a number, repeated", "a row, repeated"],
)
def test_in_c_it_leaves_what_is_not_contiguous(strided: Tensor, way: str) -> None:
    found = _SWISH.quick((strided,), BETA)
    assert (found is None) == (way == "C")
    for result in found or ():
        expected = _SWISH((strided,), BETA)[0]
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride() == (2 * strided).stride()


@pytest.mark.parametrize(
    ("tensors", "scalars"),
    [((x(4),), (1,)), ((x(4),), (True,)), ((x(4),), ("1",)), ((x(4),), ()), ((x(4), x(4)), BETA), ((), BETA)],
    ids=str,
)
def test_it_leaves_arguments_that_are_to_be_checked(tensors: Any, scalars: Any) -> None:
    assert _SWISH.quick(tensors, scalars) is None


def test_it_takes_tuples() -> None:
    assert _SWISH.quick([x(4)], BETA) is None
    assert _SWISH.quick((x(4),), [1.0]) is None
    assert _SWISH([x(4)], [1.0])[0].shape == (4,)


def test_several_inputs_have_one_type_and_in_c_one_shape(way: str) -> None:
    kernel = next(op for op in OPS if op.name == "huber").kernels["forward"]
    huber(x(2, 3), x(2, 3))
    assert kernel.quick((x(2, 3), x(2, 3)), BETA) is not None
    for other in (x(3, 2), x(2, 3, dtype=torch.float64), x(2, 3).requires_grad_()):
        assert kernel.quick((x(2, 3), other), BETA) is None
        assert kernel.quick((other, x(2, 3)), BETA) is None
    for tensors in ((x(2, 3), x(3)), (x(3), x(2, 3)), (x(2, 3), x(3, 2).t()), (x(3, 2).t(), x(2, 3))):
        assert (kernel.quick(tensors, BETA) is None) == (way == "C")


def test_whoever_watches_sees_the_operations(way: str) -> None:
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    asks = x(4).requires_grad_()
    with Watch():
        assert _SWISH.quick((x(4),), BETA) is None
        assert _SWISH.quick((asks,), BETA, function=SwishFunction) is None
        seen.clear()
        swish(x(4))
    assert seen
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x(4), torch.ones(4))
        assert _SWISH.quick((dual,), BETA) is None
        assert _SWISH.quick((dual,), BETA, function=SwishFunction) is None
        for plain in (x(4), asks):  # C++ sees of each tensor that it has no tangent
            assert (_SWISH.quick((plain,), BETA, function=SwishFunction) is None) == (way == "C")
    with rt.force_path("torch"):
        assert _SWISH.quick((x(4),), BETA) is None

    def within(t: Tensor) -> Tensor:
        assert _SWISH.quick((t,), BETA) is None
        assert _SWISH.quick((x(4),), BETA) is None
        return swish(t)

    assert torch.func.vmap(within)(x(3, 4)).shape == (3, 4)
    with torch.no_grad():  # a tensor that outlived its transform
        leaked: list[Tensor] = []
        torch.func.vmap(lambda t: leaked.append(t) or t)(x(3, 4))
        assert _SWISH.quick((leaked[0],), BETA) is None


def test_what_runs_code_in_the_midst_of_a_call_is_left_alone() -> None:
    class Interrupt(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") in ("numel", "data_ptr"):
                raise KeyboardInterrupt
            return function(*args, **(kwargs or {}))

    with Interrupt():
        assert _SWISH.quick((x(1000),), BETA) is None
        with pytest.raises(KeyboardInterrupt):
            swish(x(1000))
    with torch.device("cpu"):
        assert _SWISH.quick((x(4),), BETA) is None
    assert _SWISH.quick((x(4),), BETA) is not None


def test_results_are_new_and_nothing_is_lost() -> None:
    given = x(1000)
    scalar = 1.0625
    _SWISH((given,), (scalar,))  # compiles it
    results = [_SWISH.quick((given,), (scalar,)) for _ in range(3)]
    assert len({result[0].data_ptr() for result in results}) == 3
    for _ in range(20):
        _SWISH.quick((given,), (scalar,))

    def counts() -> tuple[int, list[int]]:
        while gc.collect():
            pass
        kept = (given, scalar, torch.float32, Tensor, given.shape)
        return len(gc.get_objects()), [sys.getrefcount(thing) for thing in kept]

    def is_kept() -> bool:
        """Whether a thousand calls leave anything behind."""
        objects, references = counts()
        for _, leave in itertools.product(range(1000), (False, True)):
            _SWISH.quick((given.t() if leave else given,), (scalar,))
            _SWISH.quick((given[::2],), (scalar,))
        more, after = counts()
        is_referred_to = any(abs(new - old) >= 10 for new, old in zip(after, references, strict=True))
        return is_referred_to or abs(more - objects) >= 100

    assert not all(is_kept() for _ in range(3))  # threads of other tests may come and go


# ---------------------------------------------------------------------------------------------------------------------
# CUDA kernels, launched by a function in place of the driver's; the device's memory is this machine's
# ---------------------------------------------------------------------------------------------------------------------

HERE = -1  # the number that CPU tensors have in place of a device's
STREAM = 77


class Driver:
    """Notes what is launched, and puts twice the first operand of type float into the second, times a scalar."""

    def __init__(self, count: int = 1) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.fault = 0
        self._callback = LAUNCH(self.launch)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        current, stream = (lambda: HERE), (lambda device: STREAM + device - HERE)
        self.how = rt._Launch(address, 5, current, stream, HERE, 256, 4, 1024 * 4, 3, 0, 0, 1, keeps=self)
        names = ("x", "y")[:count]
        self._kernel = rt.Kernel(
            "twice", tensors=names, scalars={"scale": "float"}, results=("out",), code="", expression=lambda *_: ()
        )
        self._kernel.serve_quickly(rt._Variant("cpu", torch.float32, (True,) * count, (True,), (False,)), self.how)

    def __call__(self, *tensors: Tensor) -> Any:
        """By the dispatcher of a formula of tensors and a scalar, which has this kernel alone."""
        native = rt._native is not None
        call = rt._make_native(self._kernel, None) if native else self._kernel._quick.call
        return call(tensors, (1.5,), (True,))

    def launch(self, function: int, *rest: Any) -> int:
        *sizes, stream, parameters, _ = rest
        inputs, numbers = len(self._kernel.tensors), self.how.count
        scalar = ctypes.c_double.from_address(parameters[inputs + 1]).value
        others = [ctypes.c_longlong.from_address(parameters[inputs + 2 + k]).value for k in range(numbers + 2)]
        *between, count, columns = others
        source, target = [ctypes.c_longlong.from_address(parameters[k]).value for k in (self.how.like, inputs)]
        self.launched.append((function, *sizes, stream, *between, count, columns))
        values = (ctypes.c_float * count).from_address(source)
        (ctypes.c_float * count).from_address(target)[:] = [2 * scalar * value for value in values]
        return self.fault


@pytest.fixture
def driver(way: str) -> Driver:
    return Driver()


@pytest.mark.parametrize(
    ("count", "blocks", "columns"),
    [(1, 1, 4), (4, 1, 4), (1023, 1, 1024), (1025, 2, 1028), (4096, 4, 4096), (9999, 4, 4096), (30000, 10, 10000)],
)
def test_a_cuda_kernel_is_launched_as_by_the_general_way(count: int, blocks: int, columns: int, driver: Driver) -> None:
    given = x(count)
    (found,) = driver(given)
    assert torch.equal(found, 3 * given)
    assert driver.launched == [(5, blocks, 1, 1, 256, 1, 1, 0, STREAM, count, columns)]
    assert columns == rt._width(count, 1, max(1024 * 4, count // 3), 4)
    assert blocks == -(-columns // (256 * 4))


def test_a_cuda_kernel_is_launched_for_shapes_that_have_been_seen(way: str) -> None:
    driver = Driver(2)
    shapes = (torch.Size([8]), torch.Size([3, 8]))
    how, sizes, numbers = driver.how, (1, 8, 2, 3, 8), (7, 5)
    how.shapes, how.like, how.columns, how.count = shapes, 1, 8, len(numbers)
    how.numbers, how.sizes = (ctypes.c_int64 * 2)(*numbers), (ctypes.c_int64 * 5)(*sizes)
    given = x(3, 8)
    (found,) = driver(x(8), given)
    assert torch.equal(found, 3 * given)
    assert driver.launched == [(5, 1, 1, 1, 256, 1, 1, 0, STREAM, *numbers, 24, 8)]
    for other in ((x(1, 8), given), (x(8), x(4, 8)), (given, x(8)), (given, given), (x(1), given)):
        assert driver(*other) is None
    assert len(driver.launched) == 1


def test_nothing_is_launched_for_no_elements(driver: Driver) -> None:
    assert driver(x(0, 3))[0].shape == (0, 3)
    assert driver.launched == []


def test_cuda_kernels_are_left_to_python_where_they_cannot_be_launched(driver: Driver) -> None:
    assert driver(x(9)[1:]) is None  # not a multiple of 16 bytes
    driver.how.device = HERE + 1  # another than that of the tensors
    assert driver(x(8)) is None
    driver.how.device, driver.how.current = HERE, lambda: HERE + 1  # another is the current one
    assert driver(x(8)) is None
    assert driver.launched == []
    driver.how.current = lambda: HERE
    driver.fault = 1
    assert driver(x(8)) is None
    assert len(driver.launched) == 1
    driver.fault = 0
    assert driver(x(8)) is not None
    assert driver(x(8).requires_grad_()) is True
    assert driver(x(8, dtype=torch.float64)) is None


def test_what_tells_the_stream_may_fail(driver: Driver) -> None:
    driver.how.stream = None
    with pytest.raises(TypeError):
        driver(x(8))
    assert driver.launched == []
