"""Measures OpenVINO on one model, the fields of `tenon bench --json` on stdout.

Usage: python openvino_bench.py MODEL.onnx MODEL.npz THREADS SECONDS [PRECISION]
"""

import sys

import openvino as ov
import timing

model, inputs, threads, seconds = timing.arguments()
request = None


def load():
    global request
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
    }
    if len(sys.argv) > 5:
        settings["INFERENCE_PRECISION_HINT"] = sys.argv[5]
    request = ov.Core().compile_model(model, "CPU", settings).create_infer_request()


def run_first():
    for key, value in inputs.items():
        request.set_tensor(key, ov.Tensor(value))
    request.infer()


timing.report(load, run_first, lambda: request.infer, threads, seconds)
