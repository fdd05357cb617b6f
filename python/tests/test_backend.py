"""`tenon.backend`, with ONNX's own tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import pytest
import tenon
import tenon.backend
from conftest import DIGITS, ROOT, make_model, value
from onnx import TensorProto, helper
from onnx.backend.test.case.node import collect_testcases

# Cases that Tenon computes but whose comparison in the suite fails.
COMPARED_HERE = {
    # One step of f16 is as large as the suite's tolerance.
    "test_attention_4d_causal_fp16_expanded": 1e-3,
    # The suite compares no sequence that starts with a scalar.
    "test_loop16_seq_none": 0.0,
}


def test_the_suite_of_onnx_gives_the_counts_of_the_conformance_page():
    script = Path(__file__).with_name("onnx_backend_suite.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    page = (ROOT / "docs/conformance.md").read_text().split("## ONNX node tests")[1]
    passed, failed, skipped = map(int, re.search(r"\| CpuAcc \| (\d+) \| (\d+) \| (\d+) \|", page).groups())
    failures = {name.removesuffix("_cpu"): text for name, text in result["failures"].items()}
    here = failures.keys() & COMPARED_HERE
    counts = result["counts"]["OnnxBackendNodeModelTest"]
    assert counts["passed"] + len(here) == passed
    assert len(failures) - len(here) == counts["failed"] - len(here) == failed + skipped, failures
    for group in ("SimpleModel", "PyTorchConvertedModel", "PyTorchOperatorModel"):
        counts = result["counts"][f"OnnxBackend{group}Test"]
        assert "failed" not in counts and counts["passed"] > 10, (group, failures)


@pytest.mark.filterwarnings("ignore")
def test_cases_that_the_suite_does_not_compare():
    cases = {case.name: case for case in collect_testcases() if case.name in COMPARED_HERE}
    assert cases.keys() == COMPARED_HERE.keys()
    for name, case in cases.items():
        for inputs, expected in case.data_sets:
            found = tenon.backend.run_model(case.model, inputs)
            for a, b in zip(found, expected, strict=True):
                for x, y in zip(a, b, strict=True):
                    assert x.dtype == y.dtype
                    numpy.testing.assert_allclose(x.astype(float), y.astype(float), rtol=0, atol=COMPARED_HERE[name])


def test_models_and_nodes(image):
    model = onnx.load(DIGITS)
    prepared = tenon.backend.prepare(model)
    outputs = prepared.run([image])
    assert outputs.probabilities.shape == outputs[0].shape == (1, 10)
    assert numpy.array_equal(prepared.run({"image": image})[0], outputs[0])
    assert tenon.backend.is_compatible(model) and not tenon.backend.is_compatible(model, "CUDA")
    assert tenon.backend.supports_device("CPU:0") and not tenon.backend.supports_device("CUDA:0")
    with pytest.raises(tenon.Unsupported):
        tenon.backend.prepare(model, "CUDA")
    node = helper.make_node("Add", ["a", "b"], ["y"])
    a, b = numpy.array([1, 2], numpy.float32), numpy.array([10], numpy.float32)
    assert tenon.backend.run_node(node, [a, b]).y.tolist() == [11, 12]
    for inputs in ([], [image, image]):
        with pytest.raises(tenon.InvalidArgument, match="expected 1 inputs"):
            prepared.run(inputs)


def test_shapes_that_depend_on_values():
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    ports = [value("x", TensorProto.FLOAT, [6]), value("shape", TensorProto.INT64, [2])]
    model = make_model([node], ports, [value("y", TensorProto.FLOAT, ["a", "b"])])
    prepared = tenon.backend.prepare(model)
    x = numpy.arange(6, dtype=numpy.float32)
    for shape in ([2, 3], [3, 2], [6, 1]):
        (y,) = prepared.run([x, numpy.array(shape)])
        assert numpy.array_equal(y, x.reshape(shape))
