"""Writes model.onnx, the model of the README's Python example: `y = 2 x` of f32[1, 3], as a MatMul."""

import onnx
from onnx import TensorProto, helper

port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3])
two = helper.make_tensor("two", TensorProto.FLOAT, [3, 3], [2, 0, 0, 0, 2, 0, 0, 0, 2])
node = helper.make_node("MatMul", ["x", "two"], ["y"])
graph = helper.make_graph([node], "example", [port("x")], [port("y")], [two])
opset = helper.make_opsetid("", 21)
onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), "model.onnx")
