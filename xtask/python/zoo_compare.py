"""Compares Tenon with onnxruntime on one model and prints a line of JSON.

Usage: python zoo_compare.py MODEL.onnx INPUTS.npz THREADS SECONDS

INPUTS.npz is that of models/zoo/export.py. `onnxruntime` and `tenon` are the errors of each, or
null; `differs` says how outputs differ, or is null. Floats may differ, relative to the greatest magnitude of the output, by the
largest of 0.001 (0.005 with weights of half precision), twice what onnxruntime's results with and without its optimisations
differ, and a quarter of what those of a quantised model differ from the model that it was made of. Other values are equal. Times are medians of calls with
NumPy arrays, in microseconds.
"""

import collections
import json
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
import tenon

MARGIN = 1e-3
# Ten steps of half precision at the greatest magnitude.
HALF_MARGIN = 10 * 2**-11


def session(path, threads, optimised):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def flat(value):
    """The arrays in sequences and maps; the keys of a map are an array as well."""
    if isinstance(value, dict):
        keys = sorted(value)
        return [np.array(keys), np.array([value[key] for key in keys])]
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in flat(part)]
    return [np.asarray(value)]


def difference(ours, theirs):
    """The greatest difference relative to the greatest magnitude, or a text that says what else differs."""
    if ours.shape != theirs.shape:
        return f"the shape is {list(ours.shape)} instead of {list(theirs.shape)}"
    if theirs.dtype.kind not in "fV" or ours.dtype.kind not in "fV":
        unequal = int(np.sum(ours != theirs))
        return f"{unequal} of {theirs.size} elements differ" if unequal else 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return "NaN or infinite elements differ"
    if not finite.any():
        return 0.0
    if not np.isfinite(ours[finite]).all():
        return "elements are NaN or infinite"
    return float(np.abs(ours[finite] - theirs[finite]).max() / max(np.abs(theirs[finite]).max(), 1e-30))


def compared(names, ours, theirs, limit):
    """The greatest difference, and the first output that differs more than the limit."""
    greatest, text = 0.0, None
    for name, value, expected in zip(names, ours, theirs):
        parts = list(zip(flat(value), flat(expected)))
        if len(flat(value)) != len(flat(expected)):
            return greatest, f"{name}: {len(flat(value))} arrays instead of {len(flat(expected))}"
        for ours_part, part in parts:
            found = difference(ours_part, part)
            if isinstance(found, str):
                text = text or f"{name}: {found}"
                continue
            greatest = max(greatest, found)
            if found > limit:
                text = text or f"{name}: {found:.1e} of the greatest magnitude, limit {limit:.1e}"
    return greatest, text


def greatest_difference(ours, theirs):
    """That of all outputs, but for those whose shapes or other values differ."""
    pairs = [pair for one, other in zip(ours, theirs) for pair in zip(flat(one), flat(other))]
    found = [difference(*pair) for pair in pairs]
    return max((value for value in found if not isinstance(value, str)), default=0.0)


def has_half_weights(path):
    weights = onnx.load(path, load_external_data=False).graph.initializer
    return any(weight.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16) for weight in weights)


def median_us(run, seconds):
    times = []
    run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return sorted(times)[len(times) // 2]


def shown(error):
    return " ".join(str(error).split()).replace(f"{sys.argv[1]}: ", "")[:600]


def main():
    path, arrays, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    stored = np.load(arrays)
    inputs = {key[3:]: stored[key] for key in stored.files if key.startswith("in.")}
    inputs.update({key[4:]: json.loads(str(stored[key])) for key in stored.files if key.startswith("map.")})
    report = {"onnxruntime": None, "tenon": None, "differs": None}

    def end():
        print(json.dumps(report))
        sys.exit()

    try:
        theirs = session(path, threads, True)
        optimised = theirs.run(None, inputs)
        exact = session(path, threads, False).run(None, inputs)
        of_quantisation = 0.0
        if "base" in stored.files:
            base = str(pathlib.Path(path).with_name(str(stored["base"])))
            of_quantisation = greatest_difference(exact, session(base, threads, False).run(None, inputs)) / 4
    except Exception as error:
        report["onnxruntime"] = shown(error)
        end()
    names = [value.name for value in theirs.get_outputs()]
    try:
        start = time.perf_counter()
        package = tenon.compile(path)
        report["compile_s"] = time.perf_counter() - start
    except Exception as error:
        report["tenon"] = f"compile: {shown(error)}"
        end()
    placed = collections.Counter(node.operator for node in package.placement.nodes if node.backend != "CpuAcc")
    report.update(nodes=len(package.placement.nodes), others=dict(placed.most_common()))
    try:
        model = package.load(threads=threads)
        ours = model.run(inputs)
        ours = [ours[name] for name in names]
    except Exception as error:
        report["tenon"] = f"run: {shown(error)}"
        end()
    margin = HALF_MARGIN if has_half_weights(path) else MARGIN
    limit = max(margin, 2 * greatest_difference(optimised, exact), of_quantisation)
    report["difference"], report["differs"] = compared(names, ours, exact, limit)
    rounds = [(median_us(lambda: model.run(inputs), seconds), median_us(lambda: theirs.run(None, inputs), seconds)) for _ in range(2)]
    report["tenon_us"], report["onnxruntime_us"] = (min(times) for times in zip(*rounds))
    end()


main()
