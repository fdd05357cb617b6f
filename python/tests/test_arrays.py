"""Arrays of other libraries as inputs, and tensors of Tenon as arrays."""

from __future__ import annotations

import array
import collections
import ctypes

import ml_dtypes
import numpy
import pytest
import tenon
from conftest import make_model, unary, value
from onnx import TensorProto, helper

NUMPY = {
    TensorProto.FLOAT: numpy.float32,
    TensorProto.DOUBLE: numpy.float64,
    TensorProto.FLOAT16: numpy.float16,
    TensorProto.INT8: numpy.int8,
    TensorProto.INT16: numpy.int16,
    TensorProto.INT32: numpy.int32,
    TensorProto.INT64: numpy.int64,
    TensorProto.UINT8: numpy.uint8,
    TensorProto.UINT16: numpy.uint16,
    TensorProto.UINT32: numpy.uint32,
    TensorProto.UINT64: numpy.uint64,
    TensorProto.BOOL: numpy.bool_,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}


def sample(dtype, shape=(3, 5)) -> numpy.ndarray:
    bits = numpy.random.default_rng(3).integers(0, 2, shape) if dtype is numpy.bool_ else None
    if bits is not None:
        return bits.astype(bool)
    return numpy.random.default_rng(3).integers(0, 4, shape).astype(dtype)


@pytest.mark.parametrize("kind", NUMPY, ids=lambda kind: TensorProto.DataType.Name(kind))
def test_every_type_passes_through_a_model(kind):
    x = sample(NUMPY[kind])
    shape = list(x.shape)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    graph_inputs = [value("x", kind, shape)]
    target = numpy.array([5, 3], numpy.int64)
    model = tenon.compile(make_model([node], graph_inputs, [value("y", kind, [5, 3])], {"shape": target})).load()
    y = model(x)["y"]
    assert y.dtype == x.dtype and model.inputs[0].numpy_dtype == x.dtype
    assert numpy.array_equal(y, x.reshape(5, 3))
    # Elements in another order are copied.
    transposed = numpy.asfortranarray(x)
    assert numpy.array_equal(model(transposed)["y"], x.reshape(5, 3))
    assert numpy.array_equal(model(x[::-1])["y"], x[::-1].reshape(5, 3))
    if x.dtype.kind in "iufc" and x.dtype.itemsize > 1 and x.dtype.isbuiltin:
        assert numpy.array_equal(model(x.astype(x.dtype.newbyteorder(">")))["y"], x.reshape(5, 3))
    # As lists of Python.
    assert numpy.array_equal(model(x.tolist())["y"], x.reshape(5, 3))


@pytest.mark.parametrize("dtype", [numpy.complex64, numpy.complex128])
def test_complex_elements_round_trip(dtype):
    x = (sample(numpy.float32) + 1j * sample(numpy.float32)).astype(dtype)
    tensor = tenon.tensor(x)
    assert numpy.array_equal(tensor.numpy(), x) and tensor.numpy().dtype == dtype
    assert tenon.tensor(x.tolist(), dtype=tensor.dtype).tolist() == x.tolist()
    assert numpy.array_equal(tenon.tensor(x.astype(x.dtype.newbyteorder(">"))).numpy(), x)


def test_strings():
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    port = lambda name: value(name, TensorProto.STRING, [2, 1])
    model = tenon.compile(make_model([node], [port("a"), port("b")], [port("y")])).load()
    for a in ([["é"], [""]], numpy.array([["é"], [""]]), numpy.array([["é"], [""]], object)):
        assert model(a, [["x"], ["yz"]])["y"].tolist() == [["éx"], ["yz"]]
    with pytest.raises(tenon.InvalidArgument, match="str"):
        model([[1], [2]], [["x"], ["y"]])
    with pytest.raises(tenon.InvalidArgument, match="str"):
        model(numpy.array([[1], ["b"]], object), [["x"], ["y"]])


def test_sequences_and_optional_values():
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    y = value("y", TensorProto.FLOAT, [2])
    model = tenon.compile(make_model([node], [sequence, value("i", TensorProto.INT64, [])], [y])).load()
    assert model.inputs[0].kind == "sequence"
    parts = [numpy.array([1, 2], numpy.float32), [3.0, 4.0]]
    assert model(parts, 1)["y"].tolist() == [3, 4]
    with pytest.raises(tenon.InvalidArgument, match="a list of arrays"):
        model(numpy.zeros(2, numpy.float32), 0)


def test_wrong_types_name_the_conversion():
    model = unary("Neg")
    cases = [
        (numpy.zeros((2, 3)), "f64\\[2, 3\\]; convert it with .astype\\(numpy.float32\\)"),
        (array.array("d", [0.0]), "convert it with numpy.asarray\\(x\\).astype\\(numpy.float32\\)"),
        (tenon.empty((2, 3), "i64"), "convert it with .numpy\\(\\).astype\\(numpy.float32\\)"),
    ]
    for x, text in cases:
        with pytest.raises(tenon.InvalidArgument, match=text) as caught:
            model(x)
        assert isinstance(caught.value, ValueError)
        assert caught.value.expected == "f32[2, 3]"
    with pytest.raises(tenon.InvalidArgument, match="ml_dtypes.bfloat16"):
        unary("Neg", TensorProto.BFLOAT16)(numpy.zeros((2, 3), numpy.float32))
    with pytest.raises(tenon.InvalidArgument, match="wrong shape: expected f32\\[2, 3\\], found f32\\[3, 2\\]"):
        model(numpy.zeros((3, 2), numpy.float32))


def test_all_problems_are_reported_together():
    port = lambda name: value(name, TensorProto.FLOAT, [2])
    add = helper.make_node("Add", ["a", "b"], ["y"])
    model = tenon.compile(make_model([add], [port("a"), port("b")], [port("y")])).load()
    with pytest.raises(tenon.InvalidArgument) as caught:
        model(a=numpy.zeros(2), b=numpy.zeros(2, numpy.int32), c=0)
    assert len(caught.value.problems) == 3
    with pytest.raises(tenon.InvalidArgument, match="expected 2 \\(a, b\\), found 1"):
        model([0.0, 0.0])
    with pytest.raises(tenon.InvalidArgument, match="in order and by name"):
        model([0.0, 0.0], b=[0.0, 0.0])


class Hostile:
    """An object whose protocols fail."""

    def __init__(self, name: str, result: object) -> None:
        self.name, self.result = name, result

    def __getattr__(self, name: str) -> object:
        if name != self.__dict__.get("name"):
            raise AttributeError(name)

        def call(*_: object, **__: object) -> object:
            if isinstance(self.result, BaseException):
                raise self.result
            return self.result

        return call


@pytest.mark.parametrize(
    "x",
    [
        object(),
        None,
        ...,
        {1, 2},
        collections.deque([1.0]),
        iter([1.0]),
        int,
        numpy.ndarray,
        lambda: 0,
        "text",
        b"bytes",
        b"",
        Ellipsis,
        numpy.datetime64("2026-01-01"),
        numpy.array(["2026"], "datetime64[Y]"),
        numpy.zeros((2, 3), [("a", "f4"), ("b", "i4")]),
        numpy.zeros((2, 3), "V0"),
        numpy.zeros((2, 3), "S0"),
        numpy.zeros((2, 3), object),
        numpy.zeros((2, 3), numpy.longdouble),
        numpy.zeros((0, 3), numpy.float32),
        numpy.zeros(0, numpy.float32),
        [],
        [[], []],
        [[1.0, 2.0, 3.0], [1.0]],
        [[1.0, 2.0, 3.0], 1.0],
        [1.0, [2.0]],
        [[numpy.zeros(3)], [None]],
        [["a", "b", "c"], [1, 2, 3]],
        [[True, False, True], [1, 2, 3]],
        (ctypes.c_float * 3)(),
        memoryview(b"abcd"),
        Hostile("__dlpack__", None),
        Hostile("__dlpack__", 7),
        Hostile("__dlpack__", BufferError("refused")),
        Hostile("__array__", 5),
        Hostile("__array__", [[1, 2], [3]]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_unsuitable_values_are_refused(x):
    with pytest.raises((tenon.InvalidArgument, BufferError)) as caught:
        unary_float()(x)
    assert str(caught.value)


_FLOAT: list[tenon.Model] = []


def unary_float() -> tenon.Model:
    if not _FLOAT:
        _FLOAT.append(unary("Neg"))
    return _FLOAT[0]


def test_exceptions_of_protocols_pass_through():
    for error in (KeyboardInterrupt(), RuntimeError("device"), MemoryError()):
        with pytest.raises(type(error)):
            unary_float()(Hostile("__dlpack__", error))
    deep: list[object] = []
    deep.append(deep)
    with pytest.raises(tenon.InvalidArgument, match="too deeply"):
        unary_float()(deep)


def test_values_of_lists_are_not_converted():
    model = unary("Neg", TensorProto.INT8)
    assert model([[1, 2, 3], [-127, 0, 5]])["y"].tolist() == [[-1, -2, -3], [127, 0, -5]]
    for x in (128, -129, 2**70, 1.0, True, "1", None):
        with pytest.raises(tenon.InvalidArgument):
            model([[x, 0, 0], [0, 0, 0]])
    # Floats round as NumPy's.
    x = [[0.1, 1 / 3, 1e300], [float("nan"), -0.0, 7]]
    with numpy.errstate(over="ignore"):
        expected = -numpy.array(x).astype(numpy.float32)
    assert unary_float()(x)["y"].tobytes() == expected.tobytes()
    bf16 = tenon.tensor([0.1, 1 / 3, 3.0e38, 2.0**-130], dtype="bf16").numpy()
    assert numpy.array_equal(bf16, numpy.array([0.1, 1 / 3, 3.0e38, 2.0**-130]).astype(ml_dtypes.bfloat16))


def test_tensors_share_their_memory():
    tensor = tenon.empty((2, 3))
    a, b = tensor.numpy(), numpy.from_dlpack(tensor)
    a[...] = [[1, 2, 3], [4, 5, 6]]
    assert numpy.array_equal(a, b) and a.ctypes.data == b.ctypes.data and a.ctypes.data % 64 == 0
    view = memoryview(tensor)
    assert (view.format, view.shape, view.strides, view.readonly) == ("f", (2, 3), (12, 4), False)
    assert tensor.tolist() == a.tolist() and len(tensor) == 2 and tensor.nbytes == 24
    assert numpy.asarray(tensor, dtype=numpy.float64).dtype == numpy.float64
    copy = numpy.array(tensor)
    copy[0, 0] = 9
    assert tensor.tolist()[0][0] == 1
    # The memory lives as long as a view.
    del tensor
    assert a.tolist() == [[1, 2, 3], [4, 5, 6]] == view.tolist()
    scalar = tenon.tensor(2.5)
    assert scalar.shape == () and scalar.tolist() == 2.5 and scalar.numpy().shape == ()
    empty = tenon.empty((0, 3), "i64")
    assert empty.tolist() == [] and empty.numpy().shape == (0, 3)


def test_tensors_are_inputs_in_place():
    model = unary_float()
    x = tenon.empty((2, 3))
    x.numpy()[...] = 2.0
    assert (model(x)["y"] == -2).all()
    outputs = model(x)
    again = model(outputs.tensor("y"))
    assert (again["y"] == 2).all()


def test_dlpack_protocol():
    tensor = tenon.tensor(numpy.arange(6, dtype=numpy.int32).reshape(2, 3))
    assert tensor.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(tensor.__dlpack__())
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0)))
    for options in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            tensor.__dlpack__(**options)
    with pytest.raises(BufferError):
        tenon.tensor(["a"]).__dlpack__()
    with pytest.raises(BufferError, match="no format"):
        memoryview(tenon.empty(3, "bf16") if False else tenon.empty((3,), "bf16"))

    class Exporter:
        """An array of a library from before version 1."""

        def __init__(self, tensor: tenon.Tensor, **options: object) -> None:
            self.tensor, self.options = tensor, options

        def __dlpack__(self, stream: object = None) -> object:
            return self.tensor.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    model = unary("Neg", TensorProto.INT32)
    assert numpy.array_equal(model(Exporter(tensor))["y"], -tensor.numpy())

    class Again:
        """An object that exports one capsule twice."""

        capsule = tensor.__dlpack__(max_version=(1, 0))

        def __dlpack__(self, **_: object) -> object:
            return self.capsule

    assert numpy.array_equal(model(Again())["y"], -tensor.numpy())
    with pytest.raises(tenon.InvalidArgument, match="DLPack capsule"):
        model(Again())


def test_read_only_arrays_are_inputs():
    x = numpy.ones((2, 3), numpy.float32)
    x.flags.writeable = False
    y = unary_float()(x)["y"]
    assert (y == -1).all() and y.flags.writeable and y.flags.c_contiguous


def test_outputs_are_written_into_arrays():
    model = unary_float()
    x = numpy.ones((2, 3), numpy.float32)
    y = numpy.zeros((2, 3), numpy.float32)
    assert model.run({"x": x}, out={"y": y})["y"].tolist() == y.tolist() == (-x).tolist()
    tensor = tenon.empty((2, 3))
    model.run([x], out={"y": tensor})
    assert (tensor.numpy() == -1).all()
    unsuitable = [
        numpy.zeros((3, 2), numpy.float32),
        numpy.zeros((2, 3)),
        numpy.zeros((3, 2), numpy.float32).T,
        numpy.zeros((2, 3), ">f4"),
        numpy.frombuffer(bytes(24), numpy.float32).reshape(2, 3),
        [0.0],
        None,
    ]
    for array_ in unsuitable:
        with pytest.raises(tenon.InvalidArgument, match="output 'y'"):
            model.run([x], out={"y": array_})
    with pytest.raises(tenon.InvalidArgument, match="no output 'z'"):
        model.run([x], out={"z": y})


def test_outputs_by_name_by_position_and_unpacked():
    split = helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2)
    port = lambda name, n: value(name, TensorProto.FLOAT, [n])
    model = tenon.compile(make_model([split], [port("x", 4)], [port("a", 2), port("b", 2)])).load()
    outputs = model([1.0, 2.0, 3.0, 4.0])
    a, b = outputs
    assert a.tolist() == outputs["a"].tolist() == outputs[0].tolist() == outputs.a.tolist() == [1, 2]
    assert b.tolist() == outputs[-1].tolist() == [3, 4]
    assert outputs.keys() == ["a", "b"] and len(outputs) == 2 and "a" in outputs and "c" not in outputs
    assert {name: array.tolist() for name, array in dict(outputs).items()} == {"a": [1, 2], "b": [3, 4]}
    assert outputs.get("c") is None and outputs.get("c", 5) == 5
    assert isinstance(outputs.tensor(0), tenon.Tensor)
    for key, error in (("c", KeyError), (2, IndexError), (-3, IndexError), (1.5, TypeError)):
        with pytest.raises(error):
            outputs[key]
    with pytest.raises(AttributeError):
        outputs.c


def test_sizes_from_outside_allocate_nothing():
    for shape in ((2**40, 2**40), (2**62,), (2**50,)):
        with pytest.raises((tenon.OutOfMemory, tenon.InvalidArgument)):
            tenon.empty(shape)
    with pytest.raises(tenon.InvalidArgument, match="unknown data type"):
        tenon.empty((1,), "float")
    with pytest.raises(OverflowError):
        tenon.empty((-1,))
    with pytest.raises(tenon.InvalidArgument):
        tenon.empty((1,), "string")
    with pytest.raises(tenon.InvalidArgument):
        tenon.tensor(b"123", "f32", [1])
