"""`tenon.onnxruntime` beside the real one, and calls as other projects make them."""

from __future__ import annotations

import threading
import time

import numpy
import onnxruntime as real
import pytest
import tenon
import tenon.onnxruntime as ort
from conftest import DIGITS, make_model, make_slow, value
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def sessions():
    return ort.InferenceSession(str(DIGITS)), real.InferenceSession(str(DIGITS))


def test_sessions_are_alike(sessions, image):
    ours, theirs = sessions
    for mine, other in zip(ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs()):
        assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)
    assert ours.get_modelmeta().custom_metadata_map == theirs.get_modelmeta().custom_metadata_map
    assert ours.get_modelmeta().graph_name == theirs.get_modelmeta().graph_name
    for names in (None, [], ["probabilities"]):
        found, expected = ours.run(names, {"image": image}), theirs.run(names, {"image": image})
        assert isinstance(found, list) and len(found) == len(expected)
        assert numpy.allclose(found[0], expected[0], atol=1e-5)
    with pytest.raises(ValueError, match="no output 'absent'"):
        ours.run(["absent"], {"image": image})
    with pytest.raises(ValueError, match="float32"):
        ours.run(None, {"image": image.astype(numpy.float64)})
    assert ours.get_overridable_initializers() == []


def test_symbols_and_overrides():
    x, y = value("x", TensorProto.FLOAT, ["batch", 3]), value("y", TensorProto.FLOAT, ["batch", 3])
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], [x], [y]).SerializeToString()
    ours, theirs = ort.InferenceSession(model), real.InferenceSession(model)
    assert ours.get_inputs()[0].shape == theirs.get_inputs()[0].shape == ["batch", 3]
    for batch in (1, 5):
        array = numpy.ones((batch, 3), numpy.float32)
        assert numpy.array_equal(ours.run(None, {"x": array})[0], -array)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_free_dimension_override_by_name("batch", 2)
    assert ort.InferenceSession(model, options).get_inputs()[0].shape == [2, 3]


def make_map_models():
    """Models that take and make maps, with strings and integers as keys, and their inputs."""
    ml = "ai.onnx.ml"
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    key_types = {"strings": TensorProto.STRING, "int64s": TensorProto.INT64}
    for kind, keys in {"strings": ["b", "a", "ü"], "int64s": [7, -1, 3]}.items():
        map_type = helper.make_map_type_proto(key_types[kind], element)
        maps = helper.make_value_info("y", helper.make_sequence_type_proto(map_type))
        scores = value("x", TensorProto.FLOAT, ["rows", 3])
        zipped = helper.make_node("ZipMap", ["x"], ["y"], domain=ml, **{f"classlabels_{kind}": keys})
        yield make_model([zipped], [scores], [maps]), numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 7
        vocabulary = {"strings": "string_vocabulary", "int64s": "int64_vocabulary"}[kind]
        row = helper.make_node("DictVectorizer", ["x"], ["y"], domain=ml, **{vocabulary: keys})
        model = make_model([row], [helper.make_value_info("x", map_type)], [value("y", TensorProto.FLOAT, [1, 3])])
        yield model, {keys[2]: 0.5, keys[0]: -2.0}
    map_type = helper.make_map_type_proto(TensorProto.INT64, element)
    for to, kind in {"TO_FLOAT": TensorProto.FLOAT, "TO_INT64": TensorProto.INT64}.items():
        cast = helper.make_node("CastMap", ["x"], ["y"], domain=ml, map_form="SPARSE", max_map=4, cast_to=to)
        model = make_model([cast], [helper.make_value_info("x", map_type)], [value("y", kind, [1, 4])])
        # Both leave out the key beyond the columns.
        yield model, {1: 2.75, 3: -1.25, 7: 5.0}


def test_maps_are_dictionaries():
    for model, given in make_map_models():
        model.opset_import.add(domain="ai.onnx.ml", version=1)
        ours, theirs = ort.InferenceSession(model.SerializeToString()), real.InferenceSession(model.SerializeToString())
        for mine, other in zip(ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs()):
            assert mine.type == other.type
        (found,), (expected,) = ours.run(None, {"x": given}), theirs.run(None, {"x": given})
        if isinstance(expected, list):
            assert found == expected
        else:
            assert numpy.array_equal(found, expected)


def test_packages_are_sessions(tmp_path, image):
    tenon.compile(DIGITS, tmp_path / "digits.neff")
    session = ort.InferenceSession(tmp_path / "digits.neff")
    assert session.run(None, {"image": image})[0].shape == (1, 10)


def test_options_without_an_effect_are_kept_and_named_once():
    ort._warned.clear()
    options = ort.SessionOptions()
    with pytest.warns(UserWarning, match="graph_optimization_level has no effect"):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.graph_optimization_level == 99 and options.inter_op_num_threads == 0
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    with pytest.warns(UserWarning, match="CUDAExecutionProvider is not available"):
        ort.InferenceSession(str(DIGITS), options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(AttributeError, match="tenon.onnxruntime has no 'SparseTensor'"):
        ort.SparseTensor
    with pytest.raises(AttributeError):
        options.absent
    assert ort.get_available_providers()[0] == "TenonExecutionProvider" and ort.get_device() == "CPU"


def test_bindings(sessions, image):
    session, theirs = sessions
    expected = theirs.run(None, {"image": image})[0]
    binding = session.io_binding()
    binding.bind_cpu_input("image", image)
    binding.bind_output("probabilities")
    session.run_with_iobinding(binding)
    assert numpy.allclose(binding.copy_outputs_to_cpu()[0], expected, atol=1e-5)
    value_in = ort.OrtValue.ortvalue_from_numpy(image)
    value_out = ort.OrtValue.ortvalue_from_shape_and_type((1, 10), numpy.float32)
    binding.clear_binding_inputs()
    binding.clear_binding_outputs()
    binding.bind_ortvalue_input("image", value_in)
    binding.bind_ortvalue_output("probabilities", value_out)
    session.run_with_iobinding(binding, ort.RunOptions())
    assert numpy.allclose(value_out.numpy(), expected, atol=1e-5)
    assert binding.get_outputs()[0].data_ptr() == value_out.data_ptr()
    assert value_in.data_type() == "tensor(float)" and value_in.shape() == [1, 1, 8, 8]
    value_in.update_inplace(numpy.zeros_like(image))
    with pytest.raises(ValueError):
        value_in.update_inplace(numpy.zeros(3, numpy.float32))
    target = numpy.zeros((1, 10), numpy.float32)
    binding.bind_input("image", "cpu", 0, numpy.float32, image.shape, image.ctypes.data)
    binding.bind_output("probabilities", "cpu", 0, numpy.float32, target.shape, target.ctypes.data)
    session.run_with_iobinding(binding)
    assert numpy.allclose(target, expected, atol=1e-5)
    with pytest.raises(tenon.Unsupported):
        binding.bind_output("probabilities", "cuda")
    (returned,) = session.run_with_ort_values(None, {"image": ort.OrtValue.ortvalue_from_numpy(image)})
    assert numpy.allclose(returned.numpy(), expected, atol=1e-5)


def test_terminate_ends_an_execution():
    session = ort.InferenceSession(make_slow().SerializeToString())
    options = ort.RunOptions()
    feed = {"count": numpy.array(10**9), "x": numpy.ones((64, 64), numpy.float32)}
    timer = threading.Timer(0.2, lambda: setattr(options, "terminate", True))
    timer.start()
    started = time.monotonic()
    with pytest.raises(tenon.Cancelled):
        session.run(None, feed, options)
    assert time.monotonic() - started < 1
    with pytest.raises(tenon.Cancelled):
        session.run(None, feed, options)


def test_the_calls_of_a_face_recogniser(image):
    # The sequence of calls of insightface's model zoo: shapes of inputs, names of outputs, one dict.
    session = ort.InferenceSession(str(DIGITS), providers=["CPUExecutionProvider"], provider_options=None)
    session.set_providers(["CPUExecutionProvider"])
    config = session.get_inputs()[0]
    assert config.shape[2:4] == [8, 8]
    names = [output.name for output in session.get_outputs()]
    assert len(session.run(names, {config.name: image})) == len(names)


def test_the_calls_of_a_text_recogniser(image):
    # As rapidocr: options first, metadata for the list of characters, positional names.
    options = ort.SessionOptions()
    for name, setting in (("log_severity_level", 4), ("enable_cpu_mem_arena", False), ("intra_op_num_threads", 2)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ort, "_warn_once", lambda text: None)
            setattr(options, name, setting)
    session = ort.InferenceSession(str(DIGITS), sess_options=options, providers=[("CPUExecutionProvider", {})])
    characters = session.get_modelmeta().custom_metadata_map["tenon.labels"].splitlines()
    feed = dict(zip([node.name for node in session.get_inputs()], [image]))
    assert len(characters) == session.run([node.name for node in session.get_outputs()], feed)[0].shape[1]


def test_the_calls_of_a_text_encoder(image):
    # As optimum: positions of inputs and outputs by name, io_binding with shapes of the caller.
    session = ort.InferenceSession(str(DIGITS))
    inputs = {node.name: at for at, node in enumerate(session.get_inputs())}
    outputs = {node.name: at for at, node in enumerate(session.get_outputs())}
    onnx_outputs = session.run(None, {name: image for name in inputs})
    assert {name: onnx_outputs[at] for name, at in outputs.items()}["probabilities"].shape == (1, 10)
    assert session.get_provider_options().keys() >= {"CPUExecutionProvider"}
