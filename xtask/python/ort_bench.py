"""Measures onnxruntime on one model, the fields of `tenon bench --json` on stdout.

Usage: python ort_bench.py MODEL.onnx MODEL.npz THREADS SECONDS
"""

import json
import resource
import sys
import time

start = time.perf_counter()
import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402

model, arrays, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
stored = np.load(arrays)
inputs = {key[3:]: stored[key] for key in stored.files if key.startswith("in.")}

loading = time.perf_counter()
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
loaded = time.perf_counter()
session.run(None, inputs)
first = time.perf_counter()

# Bound inputs and outputs, so that Python's own copies are not counted.
binding = session.io_binding()
for key, value in inputs.items():
    binding.bind_ortvalue_input(key, ort.OrtValue.ortvalue_from_numpy(value))
for result in session.get_outputs():
    binding.bind_output(result.name)
run = session.run_with_iobinding
for _ in range(5):
    run(binding)
times = []
end = time.perf_counter() + seconds
while time.perf_counter() < end or len(times) < 5:
    begin = time.perf_counter_ns()
    run(binding)
    times.append((time.perf_counter_ns() - begin) / 1e3)
times.sort()
print(
    json.dumps(
        {
            "load_ms": (loaded - loading) * 1e3,
            "first_ms": (first - loaded) * 1e3,
            "import_ms": (loading - start) * 1e3,
            "median_us": times[len(times) // 2],
            "p99_us": times[int(len(times) * 0.99)],
            "min_us": times[0],
            "runs": len(times),
            "threads": threads,
            "peak_rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
    )
)
