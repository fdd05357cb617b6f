"""Compares Tenon with the interpreter of ai-edge-litert on the models that export.py wrote, and prints a line for each.

    python compare.py TENON DIR [NAME...]

TENON is the path of the command. Results of f32 and f16 may differ by 0.001 of the greatest magnitude of an output. Where the
interpreter computes in integers (dynamic, int8, int16) its roundings are other ones: results may differ by one and a half times of
what the interpreter's results differ from those of the f32 model.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

LIMIT = 1e-3
WORDS = 200


def interpreted(path, inputs=None):
    """The inputs and the outputs of the interpreter by name."""
    interpreter = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    interpreter.allocate_tensors()
    random, details = np.random.default_rng(11), interpreter.get_input_details()
    if inputs is None:
        inputs = [random.integers(0, WORDS, it["shape"]).astype(np.int32) if it["dtype"] == np.int32
                  else random.uniform(-1, 1, it["shape"]).astype(np.float32) for it in details]
    for detail, value in zip(details, inputs):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return inputs, [interpreter.get_tensor(it["index"]) for it in interpreter.get_output_details()]


def run(tenon, path, inputs):
    """The outputs of Tenon in the order of the model."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        info = subprocess.run([tenon, "info", path, "--json"], capture_output=True, text=True)
        if info.returncode:
            raise RuntimeError(info.stderr.strip()[:2000])
        described = json.loads(info.stdout)
        arguments = []
        for port, value in zip(described["inputs"], inputs):
            file = folder / f"in{len(arguments)}.npy"
            np.save(file, value)
            arguments += ["--input", f"{port['name']}={file}"]
        outputs = folder / "out"
        made = subprocess.run([tenon, "run", path, *arguments, "--output", outputs], capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(made.stderr.strip()[:2000])
        return [np.load(outputs / f"{port['name']}.npy") for port in described["outputs"]]


def difference(ours, theirs):
    """The greatest difference relative to the greatest magnitude, of all outputs."""
    greatest = 0.0
    for a, b in zip(ours, theirs):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise RuntimeError(f"{a.dtype} {a.shape} in place of {b.dtype} {b.shape}")
        a, b = a.astype(np.float64), b.astype(np.float64)
        greatest = max(greatest, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return greatest


def main():
    tenon, folder = sys.argv[1], Path(sys.argv[2])
    failures = 0
    for path in sorted(folder.glob("*.tflite")):
        name, form = path.stem.rsplit("-", 1)
        if sys.argv[3:] and not {name, path.stem} & set(sys.argv[3:]):
            continue
        limit = LIMIT
        try:
            inputs, theirs = interpreted(path)
            if form in ["dynamic", "int8", "int16"]:
                _, exact = interpreted(folder / f"{name}-f32.tflite", inputs)
                limit = max(LIMIT, 1.5 * difference(theirs, exact))
            found = difference(run(tenon, path, inputs), theirs)
            text = f"{found:.1e} of the greatest magnitude, limit {limit:.1e}"
            wrong = not found <= limit
        except RuntimeError as error:
            text, wrong = str(error), True
        failures += wrong
        print("FAILED" if wrong else "ok    ", path.stem, text, flush=True)
    print(failures, "failed")
    sys.exit(min(failures, 1))


if __name__ == "__main__":
    main()
