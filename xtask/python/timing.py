"""Times the runs of a peer runtime and prints the fields of `tenon bench --json`."""

import json
import resource
import sys
import time


def arguments():
    """MODEL.onnx MODEL.npz THREADS SECONDS from the command line; the inputs of the .npz by name."""
    import numpy as np

    model, arrays, threads, seconds = sys.argv[1:5]
    stored = np.load(arrays)
    inputs = {key[3:]: stored[key] for key in stored.files if key.startswith("in.")}
    return model, inputs, int(threads), float(seconds)


def report(load, run_first, bind, threads, seconds):
    """Measures `load()`, then `run_first()`, then calls of what `bind()` returns for some seconds."""
    begin = time.perf_counter()
    load()
    loaded = time.perf_counter()
    run_first()
    first = time.perf_counter()
    run = bind()
    for _ in range(5):
        run()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e3)
    times.sort()
    print(
        json.dumps(
            {
                "load_ms": (loaded - begin) * 1e3,
                "first_ms": (first - loaded) * 1e3,
                "median_us": times[len(times) // 2],
                "p99_us": times[int(len(times) * 0.99)],
                "min_us": times[0],
                "runs": len(times),
                "threads": threads,
                "peak_rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            }
        )
    )
