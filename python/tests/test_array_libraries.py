"""Arrays of PyTorch and JAX as inputs, and tensors of Tenon as their arrays."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import tenon
from conftest import make_model, unary, value
from onnx import TensorProto, helper

MIB = 1 << 20
SIZE = 64 * MIB

TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int32": TensorProto.INT32,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
}


class TorchArrays:
    """Arrays of PyTorch."""

    def __init__(self) -> None:
        self.module = pytest.importorskip("torch", reason="torch is not installed: `cargo xtask test --torch`")

    def array(self, elements: numpy.ndarray, dtype: str):
        return self.module.from_numpy(elements.copy()).to(getattr(self.module, dtype))

    def from_dlpack(self, tensor: tenon.Tensor):
        return self.module.from_dlpack(tensor)

    def tolist(self, array) -> list[float]:
        return array.float().tolist()


class JaxArrays:
    """Arrays of JAX."""

    def __init__(self) -> None:
        pytest.importorskip("jax", reason="jax is not installed: `cargo xtask test --torch`")
        self.module = pytest.importorskip("jax.numpy")

    def array(self, elements: numpy.ndarray, dtype: str):
        return self.module.asarray(elements).astype(dtype).block_until_ready()

    def from_dlpack(self, tensor: tenon.Tensor):
        return self.module.from_dlpack(tensor)

    def tolist(self, array) -> list[float]:
        return array.astype("float32").tolist()


@pytest.fixture(params=[TorchArrays, JaxArrays])
def library(request):
    return request.param()


def memory(field: str) -> int:
    """Bytes of memory of this process: `VmRSS` now, `VmHWM` the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1]) * 1024


def peak_of(call: Callable[[], object]) -> int:
    """The memory that a call adds at its peak."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    result = call()
    peak = memory("VmHWM") - before
    del result
    return peak


def first_elements(dtype: str, count: int) -> tenon.Model:
    """A model that returns the first four of `count` elements."""
    kind = TYPES[dtype]
    node = helper.make_node("Slice", ["x", "start", "end"], ["y"])
    constants = {"start": numpy.array([0], numpy.int64), "end": numpy.array([4], numpy.int64)}
    model = make_model([node], [value("x", kind, [count])], [value("y", kind, [4])], constants)
    return tenon.compile(model).load()


@pytest.mark.parametrize("dtype", TYPES)
def test_large_inputs_are_not_copied(library, dtype):
    itemsize = library.array(numpy.zeros(1, numpy.uint8), dtype).itemsize
    count = SIZE // itemsize
    model = first_elements(dtype, count)
    elements = numpy.zeros(count, numpy.uint8)
    elements[:3] = 1, 0, 1
    x = library.array(elements, dtype)
    del elements
    expected = library.tolist(x[:4])
    model(x)
    assert peak_of(lambda: model(x)) < SIZE // 8
    y = library.from_dlpack(model(x).tensor("y"))
    assert y.dtype == x.dtype and library.tolist(y) == expected == [1.0, 0.0, 1.0, 0.0]
    # The measurement finds a copy.
    assert peak_of(lambda: tenon.tensor(x)) >= SIZE // 2


def test_arrays_in_another_order_are_copied(library):
    x = library.array(numpy.arange(6, dtype=numpy.uint8).reshape(3, 2), "float32")
    y = unary("Neg")(x.T)["y"]
    assert y.tolist() == [[0, -2, -4], [-1, -3, -5]]


def test_reference_counts_do_not_grow(library):
    model = unary("Neg")
    x = library.array(numpy.ones((2, 3), numpy.uint8), "float32")
    before = sys.getrefcount(x)
    for _ in range(1000):
        model(x)
    assert sys.getrefcount(x) == before


def test_outputs_share_their_memory_with_pytorch():
    torch = TorchArrays().module
    tensor = tenon.empty((2, 3), "bf16")
    shared = torch.from_dlpack(tensor)
    shared[...] = 1.5
    assert shared.dtype == torch.bfloat16 and tensor.tolist() == [[1.5] * 3] * 2
    assert shared.data_ptr() % 64 == 0
    del tensor
    gc.collect()
    assert shared.float().sum() == 9


def test_wrong_types_name_the_conversion(library):
    name = type(library).__name__.removesuffix("Arrays").lower()
    x = library.array(numpy.ones((2, 3), numpy.uint8), "float16")
    help = {"torch": r"\.to\(torch.float32\)", "jax": r"\.astype\(jax.numpy.float32\)"}[name]
    with pytest.raises(tenon.InvalidArgument, match=f"f16\\[2, 3\\]; convert it with {help}"):
        unary("Neg")(x)


def test_tensors_that_require_gradients_are_refused():
    torch = TorchArrays().module
    with pytest.raises(BufferError, match="detach"):
        unary("Neg")(torch.ones(2, 3, requires_grad=True))


def test_tensors_of_other_devices_are_refused():
    torch = TorchArrays().module
    with pytest.raises((tenon.Error, BufferError, ValueError)) as caught:
        unary("Neg")(torch.empty(2, 3, device="meta"))
    assert "meta" in str(caught.value)
