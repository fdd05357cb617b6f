"""Models that are executed on any number of rows, compared with NumPy: what the modules of the engines share."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import re
import sys

import numpy
import pytest
import tenon
import tenon.dask
import tenon.ray
import tenon.spark
from conftest import make_model, make_rows, value
from onnx import TensorProto, helper
from tenon._batches import BatchModel

ROWS = numpy.random.default_rng(1).integers(0, 100, (23, 3)).astype(numpy.float32)


def compiled(model, **options) -> tenon.Package:
    return tenon.compile(model, progress=False, **options)


@pytest.fixture(scope="module")
def package() -> tenon.Package:
    return compiled(make_rows())


@pytest.mark.parametrize(
    ("batch", "options", "bounds"),
    [
        ("batch", {}, (1, 2**31 - 1)),
        (4, {}, (4, 4)),
        (1, {}, (1, 1)),
        ("batch", {"dims": {"batch": range(3, 6)}}, (3, 5)),
        ("batch", {"dims": {"batch": [2, 8]}, "pad": {"x": 0}}, (1, 8)),
    ],
)
def test_batches_of_any_size_are_executed(batch, options, bounds):
    model = BatchModel(compiled(make_rows(batch), **options))
    assert (model.least, model.most) == bounds
    for rows in range(len(ROWS)):
        outputs = model.run({"x": ROWS[:rows]})
        assert outputs.keys() == {"y", "s"}
        numpy.testing.assert_array_equal(outputs["y"], 2 * ROWS[:rows])
        numpy.testing.assert_array_equal(outputs["s"], ROWS[:rows].sum(axis=1))
        assert outputs["y"].shape == (rows, 3) and outputs["s"].shape == (rows,)
        assert outputs["y"].dtype == outputs["s"].dtype == numpy.float32


def test_rows_of_objects_are_stacked(package):
    rows = numpy.empty(2, object)
    rows[:] = [ROWS[0], ROWS[1]]
    model = BatchModel(package, outputs=["y"])
    numpy.testing.assert_array_equal(model.run({"x": rows})["y"], 2 * ROWS[:2])
    rows[1] = ROWS[1, :2]
    with pytest.raises(tenon.InvalidArgument, match=r"input 'x' has rows of different shapes: found \(2,\) and \(3,\)"):
        model.run({"x": rows})


def test_strings_are_rows():
    ports = [[value(name, TensorProto.STRING, ["n"])] for name in ("x", "y")]
    model = BatchModel(compiled(make_model([helper.make_node("Identity", ["x"], ["y"])], *ports)))
    for texts in (numpy.array(["a", "bc"]), numpy.array(["a", "bc"], object), numpy.empty(0, object)):
        assert model.run({"x": texts})["y"].tolist() == texts.tolist()


def test_a_model_is_pickled_as_its_file(package, tmp_path):
    path = tmp_path / "model.neff"
    package.write(path)
    model = BatchModel(path, outputs=["s"])
    data = pickle.dumps(model)
    assert str(path).encode() in data and len(data) < 500
    numpy.testing.assert_array_equal(pickle.loads(data).run({"x": ROWS})["s"], ROWS.sum(axis=1))
    assert pickle.loads(pickle.dumps(BatchModel(package))).run({"x": ROWS}).keys() == {"y", "s"}


def test_the_path_is_independent_of_the_folder(package, tmp_path, monkeypatch):
    package.write(tmp_path / "model.neff")
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(BatchModel("model.neff"))
    monkeypatch.chdir("/")
    assert pickle.loads(data).inputs.keys() == {"x"}


def test_wrong_arrays_are_named(package):
    model = BatchModel(package)
    with pytest.raises(tenon.InvalidArgument) as caught:
        model.run({"x": numpy.zeros((4, 3, 1))}, {"x": "column 'pixels'"})
    assert caught.value.problems == (
        "column 'pixels' has elements of another type: expected f32[batch, 3], found f64[4, 3, 1]; "
        "convert it with .astype(numpy.float32)",
        "column 'pixels' has rows of another shape: expected f32[batch, 3], found f64[4, 3, 1]; "
        "reshape it with .reshape(-1, 3)",
    )
    with pytest.raises(
        tenon.InvalidArgument, match=r"rows of another shape: expected f32\[batch, 3\], found f32\[4, 2\]$"
    ):
        model.run({"x": numpy.zeros((4, 2), numpy.float32)})
    with pytest.raises(tenon.InvalidArgument, match="input 'x' has no rows"):
        model.run({"x": numpy.float32(1)})


def multiply(k: list[int | str]):
    """A model `y = x * k`, with the sum of all rows as `total`."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"]), helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0)]
    inputs = [value("x", TensorProto.FLOAT, ["batch", 3]), value("k", TensorProto.FLOAT, k)]
    return make_model(
        nodes, inputs, [value("y", TensorProto.FLOAT, ["batch", 3]), value("total", TensorProto.FLOAT, [])]
    )


def test_several_inputs_have_the_same_rows():
    model = BatchModel(compiled(multiply(["batch", 1])), outputs=["y"])
    k = ROWS[:, :1]
    numpy.testing.assert_array_equal(model.run({"x": ROWS, "k": k})["y"], ROWS * k)
    with pytest.raises(tenon.InvalidArgument, match="differ in their rows: found 23 of input 'x', 22 of input 'k'"):
        model.run({"x": ROWS, "k": k[1:]})


def test_models_without_rows_are_refused():
    with pytest.raises(
        tenon.InvalidArgument, match=r"output 'total' has no value for each row.*choose others with outputs=\['y'\]"
    ):
        BatchModel(compiled(multiply(["batch", 1])))
    with pytest.raises(tenon.InvalidArgument, match=r"input 'k' has no dimension for rows.*constants=\{'k': …\}"):
        BatchModel(compiled(multiply([])), outputs=["y"])
    with pytest.raises(tenon.InvalidArgument, match=r"different first dimensions.*k f32\[1, 3\]"):
        BatchModel(compiled(multiply([1, 3])), outputs=["y"])
    with pytest.raises(tenon.InvalidArgument, match="the model has no output 'z': expected y, total"):
        BatchModel(compiled(multiply([1, 3])), outputs=["z"])
    with pytest.raises(tenon.InvalidArgument, match="expected a path, bytes or tenon.Package, found int"):
        BatchModel(3)
    with pytest.raises(tenon.FileNotFound):
        BatchModel("/absent/model.neff")


def test_a_predictor_adds_columns(package):
    batch = {"id": numpy.arange(23), "x": ROWS}
    result = tenon.ray.Predictor(package)(batch)
    assert list(result) == ["id", "x", "y", "s"]
    numpy.testing.assert_array_equal(result["s"], ROWS.sum(axis=1))
    predictor = tenon.ray.Predictor(package, inputs={"x": "pixels"}, outputs={"y": "x"}, keep=["id"])
    result = predictor({"id": batch["id"], "pixels": ROWS, "other": ROWS})
    assert list(result) == ["id", "x"]
    numpy.testing.assert_array_equal(result["x"], 2 * ROWS)
    # An input of several columns.
    columns = {name: ROWS[:, at] for at, name in enumerate("abc")}
    result = tenon.ray.Predictor(package, inputs={"x": ["a", "b", "c"]}, outputs=["y"], keep=[])(columns)
    assert list(result) == ["y"]
    numpy.testing.assert_array_equal(result["y"], 2 * ROWS)


def test_a_predictor_names_the_columns(package):
    def failure(batch, **options) -> str:
        with pytest.raises(tenon.InvalidArgument) as caught:
            tenon.ray.Predictor(package, **options)(batch)
        return str(caught.value)

    batch = {"id": numpy.arange(23), "pixels": ROWS}
    assert failure(batch) == (
        "the dataset has no column 'x' for input 'x': found id, pixels; name the column of each input: inputs={'x': …}"
    )
    assert "no column 'c' to keep: found id, pixels" in failure(batch, inputs={"x": "pixels"}, keep=["c"])
    collision = failure({"x": ROWS, "y": ROWS})
    assert "has a column 'y', which is that of output 'y'" in collision and "outputs={'y': …}" in collision
    assert "the model has no input 'q': expected x" in failure(batch, inputs={"q": "pixels"})
    wrong = failure(batch | {"pixels": ROWS.astype(float)}, inputs={"x": "pixels"})
    assert "column 'pixels' (input 'x') has elements of another type" in wrong and ".astype(numpy.float32)" in wrong
    assert "batch_format='numpy'" in failure([1, 2])


def test_the_functions_of_spark_have_a_parameter_for_each_input(package):
    predict = tenon.spark.make_predict_fn(package, output="y")()
    assert len(inspect.signature(predict).parameters) == 1
    numpy.testing.assert_array_equal(predict(ROWS), 2 * ROWS)
    both = tenon.spark.make_predict_fn(package, output=["s", "y"])()(ROWS)
    assert list(both) == ["s", "y"]
    numpy.testing.assert_array_equal(both["s"], ROWS.sum(axis=1))
    with pytest.raises(
        tenon.InvalidArgument, match="several outputs: expected one, found y, s; choose one with output='y'"
    ):
        tenon.spark.make_predict_fn(package)()
    product = tenon.spark.make_predict_fn(compiled(multiply(["batch", 1])), output="y")()
    assert len(inspect.signature(product).parameters) == 2
    numpy.testing.assert_array_equal(product(ROWS, ROWS[:, :1]), ROWS * ROWS[:, :1])
    with pytest.raises(tenon.InvalidArgument, match="expected 2 columns: x, k, found 1"):
        product(ROWS)
    with pytest.raises(tenon.InvalidArgument, match=r"column 2 \(input 'k'\) has elements of another type"):
        product(ROWS, numpy.zeros((23, 1)))


def test_the_functions_of_spark_flatten_rows():
    ports = [[value(name, TensorProto.FLOAT, ["n", 2, 2])] for name in ("x", "y")]
    predict = tenon.spark.make_predict_fn(compiled(make_model([helper.make_node("Neg", ["x"], ["y"])], *ports)))()
    x = numpy.arange(12, dtype=numpy.float32).reshape(3, 2, 2)
    numpy.testing.assert_array_equal(predict(x), -x.reshape(3, 4))


class Request:
    """What a replica uses of a request."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def body(self) -> bytes:
        return self._body


def test_a_replica_answers_requests(package):
    responses = pytest.importorskip(
        "starlette.responses", reason="starlette is not installed: `cargo xtask test --engines` installs it"
    )
    assert responses
    replica = tenon.ray._Replica(package, ["y"], 1)

    def answer(body: bytes):
        response = asyncio.run(replica(Request(body)))
        return response.status_code, json.loads(response.body)

    assert answer(b'{"x": [[1, 2.5, 3]]}') == (200, {"y": [[2, 5, 6]]})
    assert answer(b'{"x": [[1e38, 3e38, -3e38]]}')[1] == {"y": [[pytest.approx(2e38), "inf", "-inf"]]}
    for body, reason in [
        (b"[1]", "no JSON object"),
        (b"{", "Expecting"),
        (b"\xff", "codec"),
        (b"{}", "input 'x' is missing: expected x"),
        (b'{"x": [[1, 2, 3]], "z": 1}', "no input 'z'"),
        (b'{"x": [[1, 2]]}', "rows of another shape"),
        (b'{"x": [[1, 2], [3]]}', "equal lengths"),
        (b'{"x": [["a", "b", "c"]]}', "another type"),
        (b'{"x": 1}', "no rows"),
        (b'{"x": {"a": 1}}', "x"),
        (b'{"x": null}', "x"),
    ]:
        status, value = answer(body)
        assert status == 400 and reason in value["error"], (body, status, value)


def test_missing_engines_are_named(package, monkeypatch):
    for engine, call, requirement in [
        ("ray", lambda: tenon.ray.map(None, package), "ray[data]"),
        ("ray.serve", lambda: tenon.ray.deployment(package), "ray[serve]"),
        ("dask", lambda: tenon.dask.map_blocks(None, package), "dask[array]"),
    ]:
        monkeypatch.setitem(sys.modules, engine, None)
        with pytest.raises(
            ModuleNotFoundError, match=rf"{engine.split('.')[0]}.* is missing: pip install '{re.escape(requirement)}'"
        ):
            call()
