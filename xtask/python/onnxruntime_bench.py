"""Measures onnxruntime on one model, the fields of `tenon bench --json` on stdout.

Usage: python onnxruntime_bench.py MODEL.onnx MODEL.npz THREADS SECONDS
"""

import onnxruntime as ort
import timing

model, inputs, threads, seconds = timing.arguments()
session = None


def load():
    global session
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bind():
    # Bound inputs and outputs, so that Python's own copies are not counted.
    binding = session.io_binding()
    for key, value in inputs.items():
        binding.bind_ortvalue_input(key, ort.OrtValue.ortvalue_from_numpy(value))
    for result in session.get_outputs():
        binding.bind_output(result.name)
    return lambda: session.run_with_iobinding(binding)


timing.report(load, lambda: session.run(None, inputs), bind, threads, seconds)
