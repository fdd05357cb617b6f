"""Models that the tests compile."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

import tenon

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models/digits/digits.onnx"


def make_model(
    operators: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, numpy.ndarray] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes."""
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(operators, "test", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def value(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def unary(operator: str, kind: int = TensorProto.FLOAT, shape: list[int | str] | None = None) -> tenon.Model:
    """A model of one operator from `x` to `y`."""
    shape = [2, 3] if shape is None else shape
    node = helper.make_node(operator, ["x"], ["y"])
    model = make_model([node], [value("x", kind, shape)], [value("y", kind, shape)])
    return tenon.compile(model).load()


def make_slow(iterations: int = 1_000_000_000, size: int = 64) -> onnx.ModelProto:
    """A loop of matrix products, which runs for hours."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "weight"], ["product"]),
            helper.make_node("Tanh", ["product"], ["next"]),
            helper.make_node("Identity", ["condition"], ["condition_out"]),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("condition", TensorProto.BOOL, []), value("state", TensorProto.FLOAT, [size, size])],
        [value("condition_out", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [size, size])],
        [onnx.numpy_helper.from_array(numpy.eye(size, dtype=numpy.float32), "weight")],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    shape: list[int | str] = [size, size]
    return make_model(
        [loop],
        [value("count", TensorProto.INT64, []), value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, shape)],
    )


@pytest.fixture(scope="session")
def digits() -> tenon.Model:
    """The digits model."""
    return tenon.compile(DIGITS).load()


@pytest.fixture
def image() -> numpy.ndarray:
    """An input of the digits model."""
    return numpy.random.default_rng(1).random((1, 1, 8, 8), numpy.float32)


@pytest.fixture(scope="session")
def slow() -> tenon.Model:
    """A model that runs for hours: inputs `count` and `x`."""
    return tenon.compile(make_slow()).load()


@pytest.fixture
def slow_inputs() -> dict[str, object]:
    """Inputs of the slow model."""
    return {"count": numpy.array(1_000_000_000, numpy.int64), "x": numpy.ones((64, 64), numpy.float32)}


def make_counter(iterations: int) -> onnx.ModelProto:
    """A model of any number of rows whose output `y` is `x + iterations`, computed in a loop."""
    condition = value("condition", TensorProto.BOOL, [])
    nodes = [
        helper.make_node("Add", ["state", "one"], ["next"]),
        helper.make_node("Identity", ["condition"], ["condition_out"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", TensorProto.INT64, []), condition, value("state", TensorProto.FLOAT, ["batch", 3])],
        [value("condition_out", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, ["batch", 3])],
        [onnx.numpy_helper.from_array(numpy.float32(1), "one")],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    ports = [[value(name, TensorProto.FLOAT, ["batch", 3])] for name in ("x", "y")]
    return make_model([loop], *ports, {"count": numpy.array(iterations, numpy.int64)})


def make_rows(batch: int | str = "batch") -> onnx.ModelProto:
    """A model with a row for each record: `y` is twice `x`, and `s` has the sums of the rows of `x`."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0),
    ]
    inputs = [value("x", TensorProto.FLOAT, [batch, 3])]
    outputs = [value("y", TensorProto.FLOAT, [batch, 3]), value("s", TensorProto.FLOAT, [batch])]
    return make_model(nodes, inputs, outputs, {"axes": numpy.array([1], numpy.int64)})


@contextmanager
def deadline(seconds: int) -> Iterator[None]:
    """Fails a test that takes longer; a process that does not react to that ends a minute later, with its stacks."""

    def expire(*_: object) -> None:
        raise TimeoutError(f"the test did not end within {seconds} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)
