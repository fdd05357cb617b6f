"""Reads cases (a JSON list), prints the types that onnx infers for each, a line a case."""

import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, shape_inference

TYPES = {
    "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16,
    "i64": TensorProto.INT64, "i32": TensorProto.INT32, "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8, "bool": TensorProto.BOOL,
}
NAMES = {number: name for name, number in TYPES.items()}
ELEMENT_TYPES = {"to", "dtype", "output_dtype", "output_datatype"}


def attribute(name, value):
    return TYPES[value] if name in ELEMENT_TYPES else value


def model(case):
    inputs, constants, names = [], [], []
    for index, operand in enumerate(case["inputs"]):
        if operand is None:
            names.append("")
            continue
        names.append(f"i{index}")
        dtype, shape, values = operand
        if values is None:
            inputs.append(helper.make_tensor_value_info(names[-1], TYPES[dtype], shape))
        else:
            array = np.array(values, helper.tensor_dtype_to_np_dtype(TYPES[dtype]))
            constants.append(onnx.numpy_helper.from_array(array.reshape(shape), names[-1]))
    outputs = [f"o{index}" for index in range(case["outputs"])]
    attributes = {name: attribute(name, value) for name, value in case["attributes"].items()}
    node = helper.make_node(case["op"], names, outputs, **attributes)
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "case", inputs, made, constants)
    opset = helper.make_opsetid("", onnx.defs.onnx_opset_version())
    return helper.make_model(graph, opset_imports=[opset])


def inferred(case):
    result = shape_inference.infer_shapes(
        model(case), check_type=True, strict_mode=True, data_prop=True
    )
    texts = []
    for output in result.graph.output:
        tensor = output.type.tensor_type
        dims = tensor.shape.dim
        if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in dims):
            return "unknown"
        texts.append(f"{NAMES[tensor.elem_type]}{[dim.dim_value for dim in dims]}")
    return "; ".join(texts)


for case in json.load(open(sys.argv[1])):
    try:
        print(inferred(case))
    except Exception as error:
        print("error:", str(error).replace("\n", " "))
