"""Writes the tiny models beside this file. Needs the `onnx` package."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).parent


def write(name, nodes, inputs, outputs, inner=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, value_info=inner)
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
