"""Writes operators.npz: small models of each operator, inputs, and the outputs of LiteRT's interpreter.

    pip install ai-edge-litert==2.3.0 flatbuffers numpy
    python make.py

An entry is `CASE/model`, `CASE/input/INDEX`, `CASE/output/INDEX` or `CASE/tolerance`: the greatest difference that is
accepted, relative to the greatest magnitude of the expected output; of integer outputs absolute.
"""

import io
import pathlib
import sys
import zipfile

import numpy as np

import cases


def write(path, arrays):
    """An .npz whose bytes depend on the arrays alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.asarray(array), version=(1, 0))
            entry = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data.getvalue())


def main():
    arrays, failed = {}, []
    for name, (model, inputs, tolerance, compute) in cases.all_cases().items():
        try:
            outputs = compute(model, inputs)
        except (RuntimeError, ValueError) as error:
            failed.append(f"{name}: {str(error)[:300]}")
            continue
        arrays[f"{name}/model"] = np.frombuffer(model, np.uint8)
        arrays[f"{name}/tolerance"] = np.float32(tolerance)
        for index, value in enumerate(inputs):
            arrays[f"{name}/input/{index}"] = value
        for index, value in enumerate(outputs):
            arrays[f"{name}/output/{index}"] = value
    write(pathlib.Path(__file__).parent / "operators.npz", arrays)
    print(len(arrays), "arrays")
    if failed:
        sys.exit("\n".join(["the interpreter refused:", *failed]))


if __name__ == "__main__":
    main()
