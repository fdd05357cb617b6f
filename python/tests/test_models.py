"""Compiling, loading, binding, sessions, reports, the other program formats."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser
from pathlib import Path

import numpy
import onnx
import onnxruntime
import pytest
import tenon
from conftest import DIGITS, ROOT, make_model, unary, value
from onnx import TensorProto, helper


def test_results_are_those_of_onnxruntime(digits, image):
    session = onnxruntime.InferenceSession(str(DIGITS))
    expected = session.run(None, {"image": image})[0]
    for found in (digits(image), digits(image=image), digits({"image": image}), digits.run([image])):
        assert numpy.allclose(found["probabilities"], expected, atol=1e-5)


def test_models_are_compiled_from_paths_bytes_and_messages(tmp_path, image):
    expected = tenon.compile(str(DIGITS)).load()(image)[0]
    data = DIGITS.read_bytes()
    for source in (DIGITS, data, bytearray(data), onnx.load(DIGITS)):
        assert numpy.array_equal(tenon.compile(source).load()(image)[0], expected)
    for source in (None, 5, ["a"], object()):
        with pytest.raises(tenon.InvalidArgument, match="no model"):
            tenon.compile(source)


def test_maps_have_keys():
    y = helper.make_value_info("y", helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[4, 2])
    message = make_model([node], [value("x", TensorProto.FLOAT, [2, 2])], [y])
    message.opset_import.add(domain="ai.onnx.ml", version=1)
    model = tenon.compile(message).load()
    assert model.inputs[0].keys is None and model.outputs[0].keys == (4, 2)
    x = numpy.array([[0.25, 0.75], [1, 0]], numpy.float32)
    rows = [{4: 0.25, 2: 0.75}, {4: 1.0, 2: 0.0}]
    outputs = model(x)
    assert outputs.y == rows and list(outputs) == [rows] and outputs.get("y") == rows
    assert numpy.array_equal(outputs.tensor("y").numpy(), x)
    copy = pickle.loads(pickle.dumps(outputs))
    assert copy["y"] == rows and "maps as f32[2, 2]" in repr(copy)
    assert model.submit([x]).result()["y"] == rows and model.session({})(x)[0] == rows
    narrow = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[4, 2, 1])
    message.graph.node[0].CopyFrom(narrow)
    with pytest.raises(tenon.InvalidModel, match="'y' does not have a column for each key: expected 3, found 2"):
        tenon.compile(message).load()


def test_packages_are_written_and_loaded(tmp_path, image):
    path = tmp_path / "digits.neff"
    package = tenon.compile(DIGITS, path)
    assert bytes(package) == path.read_bytes()
    package.write(str(tmp_path / "other.neff"))
    assert (tmp_path / "other.neff").read_bytes() == path.read_bytes()
    expected = package.load()(image)[0]
    for source in (path, str(path), bytes(package), package):
        assert numpy.array_equal(tenon.load(source, threads=1, max_in_flight=2)(image)[0], expected)
    assert package.inputs == tenon.load(path).inputs
    assert [port.name for port in package.outputs] == ["probabilities"]
    assert package.metadata["tenon.labels"].startswith("zero")
    assert "MatMul" in package.graph_text() and "tenon" in package.program_text()


def test_errors_have_their_parts(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        tenon.load(tmp_path / "absent.neff")
    assert isinstance(missing.value, tenon.NotFound) and "absent.neff" in missing.value.place
    with pytest.raises(FileNotFoundError):
        tenon.compile(tmp_path / "absent.onnx")
    with pytest.raises(tenon.InvalidModel) as malformed:
        tenon.compile(b"\xff\xff")
    assert isinstance(malformed.value, ValueError) and malformed.value.kind == "InvalidModel"
    with pytest.raises(tenon.InvalidPackage):
        tenon.load(b"no package")
    with pytest.raises(tenon.Error, match=r"tenon\.compile"):
        tenon.load(DIGITS)
    for source in (None, 5, ["a"]):
        with pytest.raises(tenon.InvalidArgument, match="a path, bytes or tenon.Package"):
            tenon.load(source)
    nodes = [helper.make_node(name, ["x"], [name], domain="com.acme") for name in ("Own", "Other")]
    outputs = [value(name, TensorProto.FLOAT, [2]) for name in ("Own", "Other")]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [2])], outputs)
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    with pytest.raises(tenon.Unsupported) as unsupported:
        tenon.compile(model)
    assert isinstance(unsupported.value, NotImplementedError)
    assert len(unsupported.value.problems) == 2, unsupported.value.problems
    with pytest.raises(tenon.Error, match="CpuAbc"):
        tenon.compile(DIGITS, backends=["CpuAbc"])
    with pytest.raises(tenon.Error, match="sse"):
        tenon.compile(DIGITS, cpu="sse")


def symbolic() -> onnx.ModelProto:
    weight = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    x, y = value("x", TensorProto.FLOAT, ["batch", 3]), value("y", TensorProto.FLOAT, ["batch", 4])
    return make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [x], [y], {"w": weight})


def test_symbolic_dimensions():
    weight = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    model = tenon.compile(symbolic()).load()
    assert model.inputs[0].shape == ("batch", 3) and model.outputs[0].shape == ("batch", 4)
    assert list(model.symbols) == ["batch"]
    for batch in (1, 2, 7):
        x = numpy.random.default_rng(0).random((batch, 3), numpy.float32)
        assert numpy.allclose(model(x)["y"], x @ weight)
    fixed = tenon.compile(symbolic(), dims={"batch": 2}).load()
    assert fixed.inputs[0].shape == (2, 3) and not fixed.symbols
    ranged = tenon.compile(symbolic(), dims={"batch": range(1, 9)}).load()
    assert ranged.symbols == {"batch": (1, 8)}
    with pytest.raises(tenon.InvalidArgument):
        ranged(numpy.zeros((9, 3), numpy.float32))
    bucketed = tenon.compile(symbolic(), dims={"batch": [2, 4]}, pad={"x": 0}).load()
    x = numpy.ones((3, 3), numpy.float32)
    assert numpy.allclose(bucketed(x)["y"], x @ weight)
    for size in (-1, "two", range(1, 9, 2), 1.5, None):
        with pytest.raises(tenon.InvalidArgument, match="dimension 'batch'"):
            tenon.compile(symbolic(), dims={"batch": size})
    bindings = model.bind(batch=2)
    bindings.inputs["x"].numpy()[...] = 1
    bindings.run()
    assert numpy.allclose(bindings.outputs["y"].numpy(), numpy.ones((2, 3)) @ weight)
    with pytest.raises(tenon.InvalidArgument, match="batch"):
        model.bind()
    assert len(model.profile({"x": x}, 2)) >= 1


def test_constants_and_known_inputs():
    add = helper.make_node("Add", ["a", "b"], ["y"])
    port = lambda name: value(name, TensorProto.FLOAT, ["n"])
    model = make_model([add], [port("a"), port("b")], [port("y")])
    b = numpy.array([10, 20], numpy.float32)
    loaded = tenon.compile(model, constants={"b": b}).load()
    b[...] = 0
    assert [port.name for port in loaded.inputs] == ["a"]
    assert loaded([1.0, 2.0])["y"].tolist() == [11, 22]
    known = tenon.compile(model, known_inputs={"a": numpy.zeros(3, numpy.float32)}).load()
    assert known.inputs[0].shape == (3,)


def test_bindings_use_memory_in_place(digits, image):
    bindings = digits.bind()
    x, y = bindings.inputs["image"].numpy(), bindings.outputs["probabilities"].numpy()
    for scale in (1.0, 0.5):
        x[...] = image * scale
        bindings.run()
        assert numpy.array_equal(y, digits((image * scale).astype(numpy.float32))[0])
    own = tenon.empty((1, 1, 8, 8))
    own.numpy()[...] = image
    bindings.set_input("image", own)
    bindings.run(timeout=10)
    assert numpy.array_equal(y, digits(image)[0])
    with pytest.raises(tenon.InvalidArgument, match="expected f32"):
        bindings.set_input("image", tenon.empty((1, 8, 8)))
    with pytest.raises(tenon.InvalidArgument, match="no input 'x'"):
        bindings.set_input("x", own)
    with pytest.raises(TypeError):
        bindings.set_input("image", image)
    same = unary("Neg").bind()
    with pytest.raises(tenon.InvalidArgument, match="memory of an output"):
        same.set_input("x", same.outputs["y"])
    with pytest.raises(tenon.DeadlineExceeded):
        bindings.run(timeout=0.0)


def test_sessions_keep_states():
    add = helper.make_node("Add", ["x", "past"], ["present"])
    copy = helper.make_node("Identity", ["present"], ["y"])
    port = lambda name: value(name, TensorProto.FLOAT, [2])
    ports = [port("x"), port("past")], [port("y"), port("present")]
    model = tenon.compile(make_model([add, copy], *ports)).load()
    session = model.session({"present": "past"})
    assert session.states == {"present": "past"}
    assert [port.name for port in session.inputs] == ["x"]
    assert session.value("present") is None
    assert session(x=[1.0, 2.0])["y"].tolist() == [1, 2]
    other = session.fork()
    assert session.run({"x": [1.0, 2.0]})["y"].tolist() == [2, 4]
    assert other.run([[5.0, 5.0]])["y"].tolist() == [6, 7]
    assert session.value("past").tolist() == [2, 4]
    session.set_value("past", numpy.array([10, 10], numpy.float32))
    assert session(x=[0.0, 0.0])["y"].tolist() == [10, 10]
    session.reset()
    assert session(x=[0.0, 1.0])["y"].tolist() == [0, 1]
    for states in ({"present": "x2"}, ["present"]):
        with pytest.raises(tenon.Error):
            model.session(states)
    declared = tenon.compile(make_model([add, copy], *ports), states={"present": "past"}).load()
    assert declared.states == {"present": "past"}


def test_precision(digits):
    def weights(**options):
        nodes = tenon.compile(DIGITS, **options).placement.nodes
        return {node.weights for node in nodes}

    assert weights() == {None}
    assert weights(precision="bf16") == {None, "bf16"}
    assert weights(precision={"*conv1*": "f16", "*": "bf16"}) == {None, "f16", "bf16"}
    with pytest.raises(tenon.InvalidArgument, match="f17"):
        tenon.compile(DIGITS, precision="f17")
    with pytest.raises(tenon.Error, match="no such node"):
        tenon.compile(DIGITS, precision={"no such node": "bf16"})
    precise, narrow = (tenon.load(tenon.compile(DIGITS, precision=name)) for name in ("f32", "bf16"))
    image = numpy.full((1, 1, 8, 8), 0.5, numpy.float32)
    results = [numpy.asarray(model(image)[0]) for model in (precise, narrow)]
    assert 0 < numpy.abs(results[0] - results[1]).max() < 0.05 * numpy.abs(results[0]).max()


def test_placement_and_hints(digits):
    placement = digits.placement
    assert sum(placement.counts().values()) == len(placement.nodes) == 10
    bytes_of_nodes = sum(node.read + node.written for node in placement.nodes if node.read is not None)
    assert placement.traffic.moved == bytes_of_nodes > placement.traffic.least > 0
    assert placement.traffic.fused == ("c1", "c2", "c3", "h")
    hinted = tenon.compile(DIGITS, hints={"conv*": "CpuRef"}).placement
    assert {node.backend for node in hinted.nodes if node.node.startswith("conv")} == {"CpuRef"}
    reference = tenon.compile(DIGITS, backends=["CpuRef"]).placement
    assert reference.backends == ("CpuRef",) and "CpuAcc" not in reference.counts()
    assert "on CpuRef" in str(reference)


def test_profile_and_trace(digits, image, tmp_path):
    import json

    profile = digits.profile([image], 3)
    assert profile.executions == 3 and "conv1" in {row.node for row in profile}
    assert 0.99 < sum(row.share for row in profile.rows) < 1.01 and profile.seconds > 0
    assert all(row.of_ceiling is None for row in profile.rows) and "conv1" in str(profile)
    profile.trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_taps(digits, image):
    session = onnxruntime.InferenceSession(str(DIGITS))
    values = digits.tap([image], "logits")
    assert list(values) == ["logits"]
    shifted = numpy.exp(values["logits"] - values["logits"].max())
    assert numpy.allclose(shifted / shifted.sum(), session.run(None, {"image": image})[0], atol=1e-5)
    assert set(digits.tap([image])) > {"logits"}
    with pytest.raises(tenon.InvalidArgument, match="no value matches"):
        digits.tap([image], "absent")


def test_compare(image):
    comparison = tenon.compare(DIGITS, [image])
    assert comparison and comparison.backends == ("CpuAcc", "CpuRef")
    assert {"conv1", "softmax"} <= {node.node for node in comparison.compared}
    strict = tenon.compare(DIGITS, {"image": image}, relative=0.0, absolute=0.0)
    assert not strict and strict.divergence.absolute > 0 and len(strict.divergence.values) == 2
    package = tenon.compile(DIGITS, backends=["CpuRef", "CpuAcc"])
    assert tenon.compare(package, [image], ("CpuRef", "CpuAcc"))
    with pytest.raises(tenon.InvalidArgument):
        tenon.compare(DIGITS, [image], ("CpuRef", "CpuRef"))
    with pytest.raises(tenon.InvalidArgument):
        tenon.compare(DIGITS, [image], relative=-1.0)


class Checker(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_pages_of_notebooks_escape_every_name():
    name = "<script>alert(1)</script>\"'&"
    node = helper.make_node("Tanh", [name], [name + "y"], name=name + "n")
    ports = [value(name, TensorProto.FLOAT, [2])], [value(name + "y", TensorProto.FLOAT, [2])]
    package = tenon.compile(make_model([node], *ports))
    model = package.load()
    profile = model.profile([[0.0, 1.0]], 1, ceiling=True)
    for page in (model, package, model.placement, profile):
        html = page._repr_html_()
        checker = Checker()
        checker.feed(html)
        assert "script" not in checker.tags and "<script" not in html and not checker.open
        assert name in checker.text


def test_names_send_no_escape_sequences_to_the_terminal(capsys):
    name = "\x1b[31mred"
    node = helper.make_node("Tanh", [name], [name + "y"])
    ports = [value(name, TensorProto.FLOAT, [2])], [value(name + "y", TensorProto.FLOAT, [2])]
    model = tenon.compile(make_model([node], *ports)).load()
    for text in (repr(model), repr(model.inputs[0]), str(model.inputs[0]), repr(model([0.0, 1.0]))):
        assert "\x1b" not in text and "red" in text
    from tenon._progress import Bar

    Bar()._show(name)
    assert "\x1b" not in capsys.readouterr().err


NETLIST = """\
devices: {arch: grayskull}
queues:
  x: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1],
      df: Float32, target_device: 0, loc: dram, dram: [[0, 0x10000000]]}
  y: {type: queue, input: square, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1],
      ublock: [1, 1], df: Float32, target_device: 0, loc: dram, dram: [[0, 0x20000000]]}
graphs:
  squares:
    target_device: 0
    input_count: 1
    square: {type: multiply, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, x],
      in_df: [Float32, Float32], acc_df: Float16, out_df: Float32, intermed_df: Float32,
      ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, t: 1, mblock: [1, 1], ublock: [1, 1]}
programs:
  - run:
    - var: {$zero: 0}
    - execute: {graph_name: squares, queue_settings: {
        x: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $zero, rd_ptr_global: $zero}}}
"""


def test_netlists(tmp_path):
    (tmp_path / "squares.yaml").write_text(NETLIST)
    x = numpy.random.default_rng(0).random((1, 1, 32, 32), numpy.float32)
    for netlist in (tenon.Netlist(tmp_path / "squares.yaml"), tenon.Netlist.parse(NETLIST)):
        assert netlist.programs == ["run"] and netlist.params == {}
        outputs = netlist.run({"x": x})
        assert list(outputs) == ["y"]
        assert numpy.allclose(outputs["y"], x * x, rtol=1e-6)
    with pytest.raises(tenon.Error):
        tenon.Netlist.parse("graphs: 5")
    with pytest.raises(tenon.InvalidArgument, match="queue 'z'"):
        netlist.run({"z": x})
    with pytest.raises(FileNotFoundError):
        tenon.Netlist(tmp_path / "absent.yaml")


PROGRAM = """\
func.func @main() -> i32 {
  %0 = tfrt.constant.i32 7
  tfrt.return %0 : i32
}
"""


def test_host_programs(tmp_path):
    program = tenon.HostProgram.parse(PROGRAM, "seven.mlir")
    assert "'main' returned 7" in program.run()
    assert str(program) == PROGRAM
    bef = tenon.HostProgram.parse(bytes(program))
    assert str(bef) == PROGRAM and "returned 7" in bef.run(["main"], threads=2)
    (tmp_path / "seven.bef").write_bytes(bytes(program))
    assert "returned 7" in tenon.HostProgram(tmp_path / "seven.bef").run()
    with pytest.raises(tenon.InvalidProgram):
        tenon.HostProgram.parse("func.func @f( {").run()
    with pytest.raises(tenon.InvalidProgram):
        bytes(tenon.HostProgram.parse("nonsense"))
    with pytest.raises(tenon.NotFound):
        program.run(["absent"])
    with pytest.raises(TypeError):
        tenon.HostProgram.parse(5)


def test_a_decoder_of_the_repository():
    # A key-value cache that grows, as in generation of text.
    found = sorted(Path(ROOT / "models").glob("*/*.onnx"))
    assert found, "the repository has models"
    for path in found[:3]:
        assert tenon.compile(path).inputs
