"""Writes small models with the onnx package, at several operator sets, into the folder given.

Each is checked by onnx itself. The test `python.rs` imports them and compares their text with
`models.txt`.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(sys.argv[1])
NEWEST = onnx.defs.onnx_opset_version()
OPSETS = [7, 9, 11, 13, 17, 21, NEWEST]


def save(name, nodes, inputs, outputs, opset, initialisers=(), functions=(), extra=(), **options):
    def value(entry):
        name, shape, *dtype = entry
        return helper.make_tensor_value_info(name, dtype[0] if dtype else TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        list(nodes), name, [value(i) for i in inputs], [value(o) for o in outputs],
        initializer=[numpy_helper.from_array(np.asarray(a), n) for n, a in initialisers],
    )
    imports = [helper.make_opsetid("", opset), *extra]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    # The oldest file format that has this operator set, as an exporter of its time writes.
    model.ir_version = 3 if opset < 9 else 8 if opset < 21 else 10
    if opset < 9:
        have = {i.name for i in graph.input}
        for tensor in graph.initializer:
            if tensor.name not in have:
                model.graph.input.append(
                    helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )
    helper.set_model_props(model, {"opset": str(opset)})
    onnx.checker.check_model(model, full_check=True)
    path = FOLDER / f"{name}-{opset:02}.onnx"
    onnx.save(model, path, **options)


def ints(name, values):
    """A Constant node that makes a list of integers, as exporters write shapes and axes."""
    array = np.asarray(values, np.int64)
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def axes(opset):
    """Squeeze, Unsqueeze, ReduceSum and ReduceMean along an axis."""
    nodes, value = [], "x"
    for op, since in [("Unsqueeze", 13), ("ReduceSum", 13), ("ReduceMean", 18), ("Squeeze", 13)]:
        keep = {"keepdims": 1} if op.startswith("Reduce") else {}
        out = op.lower()
        if opset >= since:
            nodes.append(ints(f"{out}_axes", [1]))
            nodes.append(helper.make_node(op, [value, f"{out}_axes"], [out], name=op, **keep))
        else:
            nodes.append(helper.make_node(op, [value], [out], name=op, axes=[1], **keep))
        value = out
    save("axes", nodes, [("x", [2, 3])], [(value, [2, 3])], opset)


def parts(opset):
    """Slice, Split, Pad, Clip and Dropout."""
    nodes = []
    if opset >= 10:
        nodes += [ints("starts", [1]), ints("ends", [5]), ints("one", [1])]
        nodes.append(helper.make_node("Slice", ["x", "starts", "ends", "one"], ["s"], name="Slice"))
    else:
        nodes.append(helper.make_node("Slice", ["x"], ["s"], name="Slice", starts=[1], ends=[5], axes=[1]))
    parts = {"num_outputs": 2} if opset >= 18 else {}
    nodes.append(helper.make_node("Split", ["s"], ["a", "b"], name="Split", axis=1, **parts))
    if opset >= 11:
        nodes += [ints("pads", [0, 1, 0, 1])]
        nodes.append(helper.make_node("Pad", ["a", "pads"], ["p"], name="Pad"))
        clip = [("low", np.float32(-1)), ("high", np.float32(1))]
        nodes.append(helper.make_node("Clip", ["p", "low", "high"], ["c"], name="Clip"))
    else:
        nodes.append(helper.make_node("Pad", ["a"], ["p"], name="Pad", pads=[0, 1, 0, 1]))
        nodes.append(helper.make_node("Clip", ["p"], ["c"], name="Clip", min=-1.0, max=1.0))
        clip = []
    ratio = {"ratio": 0.25} if opset < 12 else {}
    nodes.append(helper.make_node("Dropout", ["c"], ["d", "mask"], name="Dropout", **ratio))
    save("parts", nodes, [("x", [2, 6])], [("d", [2, 4]), ("b", [2, 2])], opset, clip)


def scaled(opset):
    """Upsample or Resize, BatchNormalization, Softmax over the channels, Cast, TopK."""
    scales = np.asarray([1, 1, 2, 2], np.float32)
    constants = [("scales", scales)] if opset >= 9 else []
    if opset >= 11:
        resize = helper.make_node(
            "Resize", ["x", "roi", "scales"] if opset < 13 else ["x", "", "scales"], ["r"],
            name="Resize", mode="nearest", coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        if opset < 13:
            constants.append(("roi", np.zeros(0, np.float32)))
    elif opset >= 9:
        resize = helper.make_node("Upsample", ["x", "scales"], ["r"], name="Resize")
    else:
        resize = helper.make_node("Upsample", ["x"], ["r"], name="Resize", scales=scales.tolist())
    for name in ["scale", "bias", "mean", "var"]:
        constants.append((name, np.ones(3, np.float32)))
    norm = helper.make_node(
        "BatchNormalization", ["r", "scale", "bias", "mean", "var"], ["n"], name="Norm", epsilon=1e-3
    )
    soft = helper.make_node("Softmax", ["n"], ["s"], name="Softmax", axis=3)
    cast = helper.make_node("Cast", ["s"], ["h"], name="Cast", to=TensorProto.DOUBLE)
    nodes = [resize, norm, soft, cast]
    if opset >= 10:
        nodes += [ints("k", [2]), helper.make_node("TopK", ["h", "k"], ["t", "i"], name="TopK")]
    else:
        nodes.append(helper.make_node("TopK", ["h"], ["t", "i"], name="TopK", k=2))
    outputs = [("t", [1, 3, 4, 2], TensorProto.DOUBLE), ("i", [1, 3, 4, 2], TensorProto.INT64)]
    save("scaled", nodes, [("x", [1, 3, 2, 2])], outputs, opset, constants)


def functions(opset):
    """A function with an attribute, called by another one, and twice."""
    domain = "tenon.test"
    sets = [helper.make_opsetid("", opset)]
    alpha = onnx.AttributeProto()
    alpha.name, alpha.ref_attr_name, alpha.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    leaky = helper.make_node("LeakyRelu", ["a"], ["t"])
    leaky.attribute.append(alpha)
    inner = helper.make_function(
        domain, "Inner", ["a", "b"], ["y"],
        [leaky, helper.make_node("Add", ["t", "b"], ["y"])], sets, ["slope"],
    )
    outer = helper.make_function(
        domain, "Outer", ["a"], ["y"],
        [
            helper.make_node("Inner", ["a", "a"], ["m"], domain=domain, slope=0.5),
            helper.make_node("Inner", ["m", "a"], ["y"], domain=domain, slope=0.25),
        ],
        [*sets, helper.make_opsetid(domain, 1)],
    )
    nodes = [helper.make_node("Outer", ["x"], ["y"], name="call", domain=domain)]
    save(
        "functions", nodes, [("x", [2])], [("y", [2])], opset,
        functions=[inner, outer], extra=[helper.make_opsetid(domain, 1)],
    )


def external(opset):
    """Weights in a file beside the model, and symbolic dimensions."""
    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    save(
        "external", [helper.make_node("MatMul", ["x", "w"], ["y"], name="MatMul")],
        [("x", ["batch", 4])], [("y", ["batch", 3])], opset, [("w", weights)],
        save_as_external_data=True, size_threshold=0, location="weights.bin",
    )


def types(opset):
    """A constant of every element type, typed and raw."""
    import ml_dtypes

    raw = {
        "f16": np.float16, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "bool": np.bool_,
        "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
        "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
        "c64": np.complex64, "c128": np.complex128,
        "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
        "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
        "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4,
    }
    graph = helper.make_graph([], "types", [], [])
    for name, dtype in raw.items():
        array = np.asarray([0, 1, 1], np.float32).astype(dtype)
        tensor = numpy_helper.from_array(array, f"raw_{name}")
        graph.initializer.append(tensor)
        graph.output.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, [3]))
        typed = helper.make_tensor(f"typed_{name}", tensor.data_type, [3], array.astype(dtype).tolist())
        assert not typed.HasField("raw_data"), name
        graph.initializer.append(typed)
        graph.output.append(helper.make_tensor_value_info(typed.name, tensor.data_type, [3]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    onnx.save(model, FOLDER / f"types-{opset:02}.onnx")


for opset in OPSETS:
    axes(opset)
    parts(opset)
    scaled(opset)
    if opset >= 13:
        functions(opset)
types(21)
external(17)
print(NEWEST)
