"""Writes the tiny models beside this file. Needs the `onnx` package."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).parent


def write(name, nodes, inputs, outputs, inner=(), weights=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, weights, value_info=inner)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)][: 2 if inner else 1]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), HERE / f"{name}.onnx")


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


# An input that decides a shape.
write(
    "reshape",
    [helper.make_node("Reshape", ["x", "shape"], ["r"], "reshape"), helper.make_node("Relu", ["r"], ["y"], "relu")],
    [value("x", [2, 6]), value("shape", [2], TensorProto.INT64)],
    [value("y", None)],
)
# A dimension without a size.
write("batch", [helper.make_node("Relu", ["x"], ["y"], "relu")], [value("x", ["batch", 6])], [value("y", ["batch", 6])])
# Two things that cannot be imported.
write(
    "unknown",
    [helper.make_node("Frobnicate", ["x"], ["a"], "first"), helper.make_node("Widget", ["a"], ["y"], "second")],
    [value("x", [2])],
    [value("y", [2])],
)
# An operator of the model's own between two others, for a function of a library.
write(
    "own",
    [
        helper.make_node("Neg", ["x"], ["n"], "neg"),
        helper.make_node("Twice", ["n"], ["t"], "twice", domain="own", factor=2.0, names=["a", "b"]),
        helper.make_node("Exp", ["t"], ["y"], "exp"),
    ],
    [value("x", ["batch", 3])],
    [value("y", ["batch", 3])],
    [value("t", ["batch", 3])],
)
# Three elementwise operators that a backend of the examples takes as one, and two for others.
write(
    "chain",
    [
        helper.make_node("Mul", ["a", "b"], ["m"], "mul"),
        helper.make_node("Add", ["m", "c"], ["s"], "add"),
        helper.make_node("Relu", ["s"], ["r"], "relu"),
        helper.make_node("Exp", ["r"], ["e"], "exp"),
        helper.make_node("Neg", ["e"], ["y"], "neg"),
    ],
    [value("a", [2, 6]), value("b", [2, 6]), value("c", [2, 6])],
    [value("y", [2, 6])],
)
# Outputs whose names become one file name: characters that files cannot have, names that are cut.
LONG = "L" * 210
write(
    "names",
    [
        helper.make_node("Relu", ["x"], ["a/b"]),
        helper.make_node("Neg", ["x"], ["a_b"]),
        helper.make_node("Abs", ["x"], [LONG + "1"]),
        helper.make_node("Exp", ["x"], [LONG + "2"]),
        helper.make_node("Floor", ["x"], ["é" * 150]),
    ],
    [value("x", [1])],
    [value(name, [1]) for name in ("a/b", "a_b", LONG + "1", LONG + "2", "é" * 150)],
)
# An output of each kind of number, the same as its input.
KINDS = {
    "bool": TensorProto.BOOL,
    "i64": TensorProto.INT64,
    "u64": TensorProto.UINT64,
    "f16": TensorProto.FLOAT16,
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
}
write(
    "types",
    [helper.make_node("Identity", [name], [f"out_{name}"]) for name in KINDS],
    [value(name, [4], kind) for name, kind in KINDS.items()],
    [value(f"out_{name}", [4], kind) for name, kind in KINDS.items()],
)
# Dimensions with a name, without one, and two that a writer calls "?".
write(
    "dims",
    [
        helper.make_node("Relu", ["x"], ["p"], "relu"),
        helper.make_node("Neg", ["y"], ["q"], "neg"),
    ],
    [value("x", ["batch", "?", "length"]), value("y", ["batch", "?", None])],
    [value("p", None), value("q", None)],
)
# The packages of `crates/frontends/tenon/tests/data/formats`, compiled for batch 2 and for any batch.
matrix = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3])
matrix.float_data.extend(range(12))
write(
    "formats",
    [
        helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
        helper.make_node("Concat", ["product", "x"], ["y"], "joined", axis=1),
    ],
    [value("x", ["batch", 4])],
    [value("y", ["batch", 7])],
    weights=[matrix],
)
# Outputs that are declared as what they are not.
write(
    "wrong_outputs",
    [helper.make_node("Relu", ["x"], ["y"], "relu"), helper.make_node("Neg", ["x"], ["z"], "neg")],
    [value("x", [2, 3])],
    [value("y", [2, 4]), value("z", [2, 3], TensorProto.INT64)],
)
# A weight in a file of its own.
weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
weight.external_data.add(key="location", value="external.bin")
write(
    "external",
    [helper.make_node("Add", ["x", "w"], ["y"], "add")],
    [value("x", [2])],
    [value("y", [2])],
    weights=[weight],
)
# Names that would drive a terminal.
CLEAR = "\x1b[2J"
write(
    "escapes",
    [
        helper.make_node("Relu", [f"x{CLEAR}"], [f"r{CLEAR}"], f"relu{CLEAR}"),
        helper.make_node("Exp", [f"r{CLEAR}"], [f"y{CLEAR}"], f"exp{CLEAR}"),
    ],
    [value(f"x{CLEAR}", [2, 3])],
    [value(f"y{CLEAR}", [2, 3])],
)
# A loop whose condition is always true and that has no limit, with a state that is not zero.
step = helper.make_graph(
    [
        helper.make_node("Greater", ["state", "zero"], ["positive"], "compare"),
        helper.make_node("ReduceMax", ["number"], ["same"], "keep", keepdims=0),
        helper.make_node("GreaterOrEqual", ["same", "first"], ["goes_on"], "condition"),
        helper.make_node("Where", ["positive", "state", "zero"], ["next"], "where"),
    ],
    "step",
    [value("number", [], TensorProto.INT64), value("open", [], TensorProto.BOOL), value("state", ["n"])],
    [value("goes_on", [], TensorProto.BOOL), value("next", ["n"])],
)
zero = TensorProto(name="zero", data_type=TensorProto.FLOAT, dims=[], float_data=[0])
first = TensorProto(name="first", data_type=TensorProto.INT64, dims=[], int64_data=[0])
write(
    "endless",
    [helper.make_node("Loop", ["", "", "x"], ["y"], "loop", body=step)],
    [value("x", ["n"])],
    [value("y", ["n"])],
    weights=[zero, first],
)
# The package with a host function in `crates/frontends/tenon/tests/data/formats`.
zero = TensorProto(name="zero", data_type=TensorProto.FLOAT, dims=[], float_data=[0])
write(
    "positive",
    [
        helper.make_node("Greater", ["x", "zero"], ["mask"], "compare"),
        helper.make_node("Compress", ["x", "mask"], ["some"], "choose", axis=0),
        helper.make_node("Neg", ["some"], ["y"], "negate"),
    ],
    [value("x", ["n"])],
    [value("y", None)],
    weights=[zero],
)
# A map as input and output, and strings.
element = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
words = helper.make_map_type_proto(TensorProto.STRING, element)
classes = helper.make_map_type_proto(TensorProto.INT64, element)
graph = helper.make_graph(
    [
        helper.make_node("DictVectorizer", ["words"], ["row"], "row", domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"]),
        helper.make_node("ZipMap", ["row"], ["scores"], "zip", domain="ai.onnx.ml", classlabels_int64s=[7, 8, 9]),
        helper.make_node("ArgMax", ["row"], ["class"], "class", axis=1, keepdims=0),
        helper.make_node("LabelEncoder", ["class"], ["label"], "label", domain="ai.onnx.ml", keys_int64s=[0, 1], values_strings=["x", 'y "z"']),
    ],
    "maps",
    [helper.make_value_info("words", words)],
    [helper.make_value_info("scores", helper.make_sequence_type_proto(classes)), value("label", [1], TensorProto.STRING)],
)
opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), HERE / "maps.onnx")
