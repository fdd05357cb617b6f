"""`tenon.quantize`: the quantised models run in Tenon and in onnxruntime with equal results."""

from __future__ import annotations

import numpy
import onnx
import onnxruntime
import pytest
import tenon
from conftest import DIGITS, ROOT


@pytest.fixture(scope="module")
def images():
    return numpy.random.default_rng(0).random((32, 1, 8, 8), numpy.float32)


def test_the_quantised_model_runs_everywhere(tmp_path, images):
    path = tmp_path / "images.npz"
    numpy.savez(path, image=images)
    for data in (path, {"image": images}, [{"image": image[None]} for image in images]):
        quantized = tenon.quantize(DIGITS, data, labels=[0] * 32)
    report = quantized.report
    assert [node.kept for node in report.nodes] == [None] * 5 and report.samples == 32 and not report.few_samples
    assert all(node.error < 0.05 for node in report.nodes) and report.outputs[0].agreement > 0.9
    assert report.nbytes[1] < 0.4 * report.nbytes[0] and abs(report.nbytes[1] - len(quantized.data)) < 64
    quantized.write(tmp_path / "q.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
    model = tenon.compile(quantized).load()
    expected = [session.run(None, {"image": image[None]})[0] for image in images]
    found = [model(image[None])[0] for image in images]
    # One step of the scores is far below.
    assert numpy.allclose(found, expected, atol=0.02)
    accuracy = numpy.mean([scores.argmax() == 0 for scores in expected])
    assert report.accuracy is not None and abs(report.accuracy[1] - accuracy) <= 1 / 32


def test_weights_of_4_bits_need_no_data(images):
    quantized = tenon.quantize(DIGITS.read_bytes(), scheme="int4", block_size=16, exclude=["dense2"])
    kept = {node.node: node.kept for node in quantized.report.nodes}
    assert kept["dense1"] is None and kept["dense2"] == "excluded by name" and "convolutions" in kept["conv1"]
    expected = tenon.compile(DIGITS).load()(images[:1])[0]
    assert numpy.allclose(tenon.compile(quantized).load()(images[:1])[0], expected, atol=0.1)


def test_models_of_f16(tmp_path, images):
    quantized = tenon.quantize(DIGITS, {"image": images}, scheme="f16")
    assert quantized.report.outputs[0].error < 0.01 and quantized.report.nbytes[1] < 0.55 * quantized.report.nbytes[0]
    quantized.write(tmp_path / "half.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "half.onnx")
    expected = session.run(None, {"image": images[:1]})[0]
    assert numpy.allclose(tenon.compile(quantized).load()(images[:1])[0], expected, atol=2e-3)


def test_mistakes_are_reported(images):
    for options, text in [
        ({"scheme": "int2"}, "int8, int4 or f16"),
        ({"method": "guess"}, "minmax, percentile or entropy"),
        ({"calibration": {"picture": images}}, "without this input"),
        ({"calibration": {"image": images[:, :, :4]}}, "does not fit"),
        ({"calibration": None}, "no samples"),
        ({"percentile": 10.0, "method": "percentile"}, "percentile out of range"),
        ({"scheme": "int4", "block_size": 24}, "power of two"),
        ({"labels": [1]}, "labels"),
    ]:
        with pytest.raises(tenon.InvalidArgument, match=text):
            tenon.quantize(DIGITS, **{"calibration": {"image": images}, **options})
    with pytest.raises(tenon.InvalidArgument, match="no model"):
        tenon.quantize(5)


def test_the_signature_of_a_litert_model_is_chosen_by_name():
    cases = numpy.load(ROOT / "crates/formats/litert/tests/data/operators.npz")
    model = cases["signatures/model"].tobytes()
    with pytest.raises(tenon.InvalidArgument, match="no signature 'cube'; it has double, square"):
        tenon.quantize(model, scheme="f16", signature="cube")
