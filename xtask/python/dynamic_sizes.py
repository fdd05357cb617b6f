"""Measures a peer runtime on models whose sizes are known only when they run; one line of JSON.

Usage: python dynamic_sizes.py onnxruntime|openvino decode MODEL.onnx PROMPT THREADS STEPS
       python dynamic_sizes.py onnxruntime|openvino lengths MODEL.onnx THREADS LENGTH...
       python dynamic_sizes.py onnxruntime|openvino samples MODEL.onnx THREADS SECONDS SAMPLE.npz...
"""

import json
import sys
import time

import numpy as np

# Calls of one length, of which the best counts.
CALLS = 5


class OnnxRuntime:
    def __init__(self, path, threads):
        import onnxruntime as ort

        self.ort = ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # Warnings about the sizes of reused memory would be many.
        options.log_severity_level = 3
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = {value.name: value.shape for value in self.session.get_inputs()}
        self.outputs = [value.name for value in self.session.get_outputs()]

    def run(self, inputs):
        return self.session.run(None, inputs)

    def step(self, inputs, states):
        """One execution with bound inputs and outputs: `states` (values by name) are read without a copy."""
        binding = self.session.io_binding()
        for name, array in inputs.items():
            binding.bind_cpu_input(name, array)
        for name, value in states.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        found = dict(zip(self.outputs, binding.get_outputs()))
        return found.pop("logits").numpy(), found

    def value(self, array):
        return self.ort.OrtValue.ortvalue_from_numpy(array)


class OpenVino:
    def __init__(self, path, threads):
        import openvino as ov

        self.ov = ov
        settings = {
            "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }  # fmt: skip
        model = ov.Core().compile_model(path, "CPU", settings)
        self.request = model.create_infer_request()
        self.inputs = {port.any_name: list(port.partial_shape) for port in model.inputs}
        self.outputs = [port.any_name for port in model.outputs]

    def run(self, inputs, states={}):
        for name, array in inputs.items():
            self.request.set_tensor(name, self.ov.Tensor(array))
        for name, value in states.items():
            self.request.set_tensor(name, value)
        self.request.infer()

    def step(self, inputs, states):
        self.run(inputs, states)
        logits = self.request.get_tensor("logits").data
        # The memory of an output is written by the next execution.
        states = {name: self.copy(self.request.get_tensor(name)) for name in self.outputs if name != "logits"}
        return logits, states

    def copy(self, tensor):
        return self.ov.Tensor(tensor.data.copy())

    def value(self, array):
        return self.ov.Tensor(array)


def decode(runtime, prompt, steps):
    """Greedy decoding with a growing cache: the time of all executions after the prompt, and the tokens."""
    pasts = [name for name in runtime.inputs if name.startswith("past_key_values.")]
    heads, width = (runtime.inputs[pasts[0]][axis] for axis in (1, 3))
    heads, width = (int(size if isinstance(size, int) else size.get_length()) for size in (heads, width))

    def generate(count):
        empty = runtime.value(np.zeros((1, heads, 0, width), np.float32))
        states = dict.fromkeys(pasts, empty)
        tokens = np.array([[at * 37 % 199 + 1 for at in range(prompt)]], np.int64)
        past, made = 0, []
        for step in range(count):
            if step == 1:
                begin = time.perf_counter()
            new = tokens.shape[1]
            inputs = {
                "input_ids": tokens,
                "attention_mask": np.ones((1, past + new), np.int64),
                "position_ids": np.arange(past, past + new, dtype=np.int64)[None],
            }
            logits, found = runtime.step(inputs, states)
            states = {name.replace("present", "past_key_values"): value for name, value in found.items()}
            made.append(int(logits[0, -1].argmax()))
            tokens = np.array([[made[-1]]], np.int64)
            past += new
        return time.perf_counter() - begin, made

    generate(3)
    seconds, tokens = generate(steps + 1)
    return {"seconds": seconds, "tokens": tokens}


def lengths(runtime, all_lengths):
    """The first and the best later call of each length."""
    rows = []

    def call(length):
        inputs = {
            "input_ids": (np.arange(length, dtype=np.int64) * 31 % 997)[None],
            "attention_mask": np.ones((1, length), np.int64),
        }
        start = time.perf_counter()
        runtime.run(inputs)
        return (time.perf_counter() - start) * 1e6

    call(16)
    for length in all_lengths:
        first = call(length)
        rows.append({"length": length, "first_us": first, "later_us": min(call(length) for _ in range(CALLS))})
    return rows


def samples(runtime, seconds, files):
    """The median time of each sample, one after the other in turn."""
    arrays = []
    for file in files:
        stored = np.load(file)
        arrays.append({key[3:]: stored[key] for key in stored.files if key.startswith("in.")})
    times = [[] for _ in arrays]
    end = time.perf_counter() + seconds * len(arrays)
    while time.perf_counter() < end or len(times[0]) < CALLS:
        for inputs, found in zip(arrays, times):
            start = time.perf_counter()
            runtime.run(inputs)
            found.append((time.perf_counter() - start) * 1e6)
    return [sorted(found)[len(found) // 2] for found in times]


def main():
    runtime, task, model, *rest = sys.argv[1:]
    make = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}[runtime]
    if task == "decode":
        prompt, threads, steps = map(int, rest)
        found = decode(make(model, threads), prompt, steps)
    elif task == "lengths":
        threads, *all_lengths = map(int, rest)
        found = lengths(make(model, threads), all_lengths)
    else:
        threads, seconds, *files = rest
        found = samples(make(model, int(threads)), float(seconds), files)
    print(json.dumps(found))


main()
