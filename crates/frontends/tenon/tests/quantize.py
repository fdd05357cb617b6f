"""Checks a quantised model with onnx, and prints its accuracy in onnxruntime. Usage: quantize.py MODEL.onnx DATA.npz"""

import sys

import numpy as np
import onnx
import onnxruntime

model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
assert any(node.op_type in ("DequantizeLinear", "Cast") for node in model.graph.node)
data = np.load(sys.argv[2])
options = onnxruntime.SessionOptions()
# Without VNNI, products of u8 and i8 saturate in 16 bits unless this option makes them exact.
options.add_session_config_entry("session.x64quantprecision", "1")
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
scores = [session.run(None, {name: image[None]})[0][0] for image in data["images"]]
print((np.argmax(scores, 1) == data["labels"]).mean())
