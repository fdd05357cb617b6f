"""Writes model.onnx, the model of the README's Python example: `y = x + x` of f32[1, 3]."""

import onnx
from onnx import TensorProto, helper

port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3])
graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "example", [port("x")], [port("y")])
opset = helper.make_opsetid("", 21)
onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), "model.onnx")
