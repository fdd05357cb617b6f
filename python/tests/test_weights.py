"""Weights in safetensors and `.npz` files, which reach the model as onnxruntime has them."""

from __future__ import annotations

import numpy
import onnx
import onnxruntime
import pytest
import tenon
from conftest import DIGITS
from safetensors.numpy import save_file


@pytest.fixture(scope="module")
def other_weights():
    """The weights of digits.onnx, halved."""
    initializers = onnx.load(DIGITS).graph.initializer
    arrays = {it.name: onnx.numpy_helper.to_array(it) for it in initializers}
    return {name: array / 2 for name, array in arrays.items() if array.dtype == numpy.float32}


@pytest.fixture(scope="module")
def expected(other_weights):
    """An input, and what onnxruntime computes with these weights."""
    model = onnx.load(DIGITS)
    for initializer in model.graph.initializer:
        if initializer.name in other_weights:
            initializer.CopyFrom(onnx.numpy_helper.from_array(other_weights[initializer.name], initializer.name))
    image = numpy.random.default_rng(1).random((1, 1, 8, 8), numpy.float32)
    return image, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"image": image})[0]


def test_weights_of_files_and_arrays(tmp_path, other_weights, expected):
    image, scores = expected
    save_file(other_weights, tmp_path / "all.safetensors")
    numpy.savez(tmp_path / "all.npz", **other_weights)
    names = sorted(other_weights)
    halves = [tmp_path / "first.safetensors", tmp_path / "second.npz"]
    save_file({name: other_weights[name] for name in names[::2]}, halves[0])
    numpy.savez(halves[1], **{name: other_weights[name] for name in names[1::2]})
    for weights in (tmp_path / "all.safetensors", str(tmp_path / "all.npz"), halves, other_weights):
        for model in (DIGITS, DIGITS.read_bytes()):
            found = tenon.compile(model, weights=weights).load()(image)[0]
            assert numpy.allclose(found, scores, atol=1e-5)


def test_a_quantised_model_has_the_weights(other_weights, expected):
    image, scores = expected
    quantized = tenon.quantize(DIGITS, scheme="f16", weights=other_weights)
    assert numpy.allclose(tenon.compile(quantized).load()(image)[0], scores, atol=2e-3)


def test_misfits(tmp_path, other_weights):
    name = sorted(other_weights)[0]
    with pytest.raises(tenon.InvalidArgument, match="does not fit the model"):
        tenon.compile(DIGITS, weights={name: numpy.zeros((3, 3), numpy.float32)})
    with pytest.raises(tenon.InvalidArgument, match="no tensor of the weights has the name"):
        tenon.compile(DIGITS, weights={"absent": other_weights[name]})
    with pytest.warns(UserWarning, match="1 of 2 tensors of the weights"):
        tenon.compile(DIGITS, weights={name: other_weights[name], "absent": other_weights[name]})
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(tenon.InvalidModel, match="not a safetensors file"):
        tenon.compile(DIGITS, weights=tmp_path / "bad.safetensors")
