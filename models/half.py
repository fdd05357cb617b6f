"""Copies of models in half precision."""

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

# Inputs that are f32 in every model, by operator and position: ONNX has no other type for them.
SINGLE = {("Resize", 1), ("Resize", 2)}


def half(model):
    """A copy of the model with f16 in place of f32, in its inputs, outputs, constants and casts."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    convert_graph(model.graph)
    return model


def half_arrays(arrays):
    """Arrays by name, those of f32 in f16."""
    return {name: half_array(array) for name, array in arrays.items()}


def half_array(array):
    if array.dtype != np.float32:
        return array
    limits = np.finfo(np.float16)
    # Without this a mask of the lowest f32 would be infinite, and rows without any other score NaN.
    finite = np.where(np.isinf(array), array, array.clip(limits.min, limits.max))
    return finite.astype(np.float16)


def convert_graph(graph):
    single = {
        node.input[index]
        for node in graph.node
        for operator, index in SINGLE
        if node.op_type == operator and index < len(node.input) and node.input[index]
    }
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in graph.initializer:
        convert_tensor(tensor, single)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR and not single.intersection(node.output):
                convert_tensor(attribute.t, single)
            elif attribute.type == AttributeProto.GRAPH:
                convert_graph(attribute.g)
            elif (node.op_type, attribute.name, attribute.i) == ("Cast", "to", TensorProto.FLOAT):
                attribute.i = TensorProto.FLOAT16


def convert_tensor(tensor, single):
    if tensor.data_type == TensorProto.FLOAT and tensor.name not in single:
        array = half_array(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
