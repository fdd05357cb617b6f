"""Writes ONNX's own node tests for `cargo xtask conformance --onnx-node`.

    onnx_node_cases.py FOLDER

The script writes FOLDER/cases.json, and FOLDER/data.bin with the models and the arrays that cases.json
refers to. The inputs of a model that are tensors are constants of the model; `inputs` has their names, and
`values` those that are sequences or optional, with their values. `skip`
is the reason why a case is skipped, `operator` is the first operator of its model.
"""

import json
import logging
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn": "f4e2m1fn",
    "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2", "bool": "bool",
    **{f"{sign}int{bits}": f"{short}{bits}"
       for sign, short in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}


DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training")


def skip(case):
    """The reason why a case is out of scope for a tensor backend, or None."""
    model = case.model
    for node in model.graph.node:
        if node.domain not in DOMAINS:
            return f"domain {node.domain}"
    return None


def constant_inputs(model, inputs):
    """The model with its inputs that are tensors as initialisers, and the other inputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.input[:]
    others = []
    for value, array in zip(model.graph.input, inputs):
        if not value.type.HasField("tensor_type"):
            copy.graph.input.append(value)
            others.append((value.name, array))
            continue
        if isinstance(array, onnx.TensorProto):
            tensor = onnx.TensorProto()
            tensor.CopyFrom(array)
            tensor.name = value.name
        else:
            array = np.asarray(array)
            tensor = numpy_helper.from_array(array, value.name)
        copy.graph.initializer.append(tensor)
    return copy, others


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cases = []
    with open(folder / "data.bin", "wb") as data:
        def write(content):
            start = data.tell()
            data.write(content)
            return [start, len(content)]

        def stored(name, value):
            """A value in cases.json: a tensor, a sequence or nothing."""
            if value is None:
                return {"name": name, "kind": "none", "tensors": []}
            is_list = isinstance(value, (list, tuple))
            tensors = [tensor(item) for item in value] if is_list else [tensor(value)]
            return {"name": name, "kind": "sequence" if is_list else "tensor", "tensors": tensors}

        def tensor(array):
            if isinstance(array, onnx.TensorProto):
                array = numpy_helper.to_array(array)
            array = np.asarray(array)
            shape = list(array.shape)
            if array.dtype.kind in "OUS":
                strings = [str(item) for item in array.reshape(-1)]
                return {"dtype": "string", "shape": shape, "strings": strings}
            if array.dtype.name not in DTYPES:
                raise TypeError(f"type {array.dtype.name}")
            dtype = DTYPES[array.dtype.name]
            if dtype in ("i4", "u4", "i2", "u2"):  # NumPy arrays have one element per byte
                array, dtype = array.astype("int8"), "i8"
            elif dtype == "f4e2m1fn":
                array, dtype = array.astype("float32"), "f32"
            content = np.ascontiguousarray(array).tobytes()
            return {"dtype": dtype, "shape": shape, "data": write(content)}

        for case in sorted(collect_testcases(None), key=lambda case: case.name):
            entry = {"name": case.name, "operator": case.model.graph.node[0].op_type,
                     "skip": skip(case)}
            cases.append(entry)
            if entry["skip"]:
                continue
            for inputs, outputs in case.data_sets:
                try:
                    model, others = constant_inputs(case.model, inputs)
                except Exception as error:  # an array that onnx cannot serialize
                    entry["skip"] = f"input not stored: {error}"
                    break
                names = [value.name for value in case.model.graph.output]
                try:
                    values = [stored(*other) for other in others]
                    expected = [stored(*output) for output in zip(names, outputs)]
                except TypeError as error:
                    entry["skip"] = str(error)
                    break
                entry.setdefault("sets", []).append(
                    {"model": write(model.SerializeToString()), "outputs": expected, "values": values,
                     "inputs": [value.name for value in case.model.graph.input]})
            entry["rtol"], entry["atol"] = case.rtol, case.atol
    text = {"onnx": onnx.__version__, "cases": cases}
    (folder / "cases.json").write_text(json.dumps(text))


main()
