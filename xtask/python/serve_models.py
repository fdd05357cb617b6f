"""Writes the models of `cargo xtask bench --serve`, whose batch is a symbol, and the bodies of requests for one row.

Arguments: a folder, and the path of resnet50.onnx, whose batch becomes a symbol."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mlp(sizes):
    """Layers of Gemm and Relu, the last one without Relu."""
    random, nodes, weights, value = np.random.default_rng(7), [], [], "x"
    for at, (before, after) in enumerate(zip(sizes, sizes[1:])):
        scale = np.sqrt(2 / before)
        weight = (random.standard_normal((before, after)) * scale).astype(np.float32)
        weights += [numpy_helper.from_array(weight, f"w{at}"), numpy_helper.from_array(np.zeros(after, np.float32), f"b{at}")]
        is_last = at == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [value, f"w{at}", f"b{at}"], ["y" if is_last else f"g{at}"]))
        if not is_last:
            nodes.append(helper.make_node("Relu", [f"g{at}"], [f"r{at}"]))
            value = f"r{at}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", sizes[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", sizes[-1]])
    graph = helper.make_graph(nodes, "mlp", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def with_batch(path):
    model = onnx.load(path)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    return model


def request(model):
    """JSON and binary bodies of one row."""
    bodies, raw = [], b""
    for port in model.graph.input:
        if port.name in {initializer.name for initializer in model.graph.initializer}:
            continue
        shape = [dim.dim_value or 1 for dim in port.type.tensor_type.shape.dim]
        data = np.random.default_rng(3).standard_normal(shape).round(3).astype(np.float32)
        bodies.append({"name": port.name, "shape": shape, "datatype": "FP32", "data": data.ravel().tolist()})
        raw += data.tobytes()
    binary = [{**{key: body[key] for key in ["name", "shape", "datatype"]},
               "parameters": {"binary_data_size": 4 * len(body["data"])}} for body in bodies]
    head = json.dumps({"inputs": binary, "parameters": {"binary_data_output": True}}).encode()
    return json.dumps({"inputs": bodies}).encode(), head, head + raw


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    models = {
        "mlp": lambda: mlp([784, 256, 256, 10]),
        "wide": lambda: mlp([1024, 4096, 4096, 1024]),
        "resnet50": lambda: with_batch(sys.argv[2]),
    }
    for name, make in models.items():
        model = make()
        onnx.checker.check_model(model)
        onnx.save(model, folder / f"{name}.onnx")
        text, head, binary = request(model)
        (folder / f"{name}.json").write_bytes(text)
        (folder / f"{name}.bin").write_bytes(binary)
        (folder / f"{name}.head").write_text(str(len(head)))


if __name__ == "__main__":
    main()
