"""`tenon.ray` on a cluster of two nodes, compared with NumPy."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import numpy
import pytest
import tenon
import tenon.ray
from conftest import deadline, make_counter, make_rows

# Ray reports its use to its developers otherwise.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
REASON = "ray is not installed: `cargo xtask test --engines` installs it"
ray = pytest.importorskip("ray", reason=REASON)
pytest.importorskip("ray.data", reason=REASON)

ADDEND = 30_000
"""The iterations of the model `counter`: a batch takes about 0.1 s."""


@pytest.fixture
def cluster():
    """Two nodes, each with CPUs for all actors of a test and a task.

    The address is that of the interface: with 127.0.0.1, Ray waits without end.
    """
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 3, "object_store_memory": 128 * 2**20}
    with deadline(240):
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        try:
            cluster.add_node(**node)
            cluster.wait_for_nodes()
            ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.fixture
def package(tmp_path) -> str:
    tenon.compile(make_rows(), tmp_path / "model.neff", progress=False)
    return str(tmp_path / "model.neff")


@pytest.fixture
def counter(tmp_path) -> str:
    tenon.compile(make_counter(ADDEND), tmp_path / "counter.neff", progress=False)
    return str(tmp_path / "counter.neff")


def rows(count: int, blocks: int):
    """A dataset with a row `x` for each `id`."""

    def make(batch):
        return {"id": batch["id"], "x": numpy.stack([batch["id"] % 1000] * 3, axis=1).astype(numpy.float32)}

    return ray.data.range(count, override_num_blocks=blocks).map_batches(make, batch_format="numpy")


def actors(node) -> list[int]:
    """The processes on a node that compute predictions."""
    (raylet,) = (process.process.pid for process in node.all_processes["raylet"])
    children = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    return [int(pid) for pid in children if b"Predictor" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def collect(batches) -> dict[str, numpy.ndarray]:
    """The columns of all batches, in the order of the ids."""
    parts = list(batches)
    columns = {name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = numpy.argsort(columns["id"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def test_a_node_that_fails_loses_no_row(cluster, counter):
    """The other node computes its rows again, each once."""
    (worker,) = cluster.worker_nodes
    count = 1600
    dataset = tenon.ray.map(rows(count, 100), counter, outputs={"y": "sum"}, keep=["id"], actors=2, batch_size=16)
    batches = iter(dataset.iter_batches(batch_size=16, batch_format="numpy", prefetch_batches=0))
    parts = [next(batches)]
    nodes = [cluster.head_node, worker]
    assert [len(actors(node)) for node in nodes] == [1, 1]
    for node in nodes:
        # The actor has mapped the package: nodes and actors share its memory.
        assert counter in Path(f"/proc/{actors(node)[0]}/maps").read_text()
    start = time.monotonic()
    cluster.remove_node(worker, allow_graceful=False)
    parts += batches
    print(f"the other {len(parts) - 1} batches took {time.monotonic() - start:.1f} s")
    columns = collect(parts)
    numpy.testing.assert_array_equal(columns["id"], numpy.arange(count))
    expected = numpy.stack([numpy.arange(count) % 1000] * 3, axis=1) + ADDEND
    numpy.testing.assert_array_equal(columns["sum"], expected.astype(numpy.float32))


def test_datasets_are_mapped(cluster, package):
    # A batch of 7 rows, the last one of a block has fewer.
    dataset = tenon.ray.map(rows(100, 4), package, outputs=["s"], batch_size=7, actors=2)
    columns = collect(dataset.iter_batches(batch_format="numpy"))
    assert set(columns) == {"id", "x", "s"}
    numpy.testing.assert_array_equal(columns["id"], numpy.arange(100))
    numpy.testing.assert_array_equal(columns["s"], 3 * numpy.arange(100, dtype=numpy.float32))

    # A package of a fixed batch, in memory.
    fixed = tenon.compile(make_rows(8), progress=False)
    dataset = tenon.ray.map(rows(100, 4), fixed, inputs={"x": "x"}, outputs={"y": "twice"}, keep=["id"], actors=(1, 2))
    columns = collect(dataset.iter_batches(batch_format="numpy"))
    assert set(columns) == {"id", "twice"}
    numpy.testing.assert_array_equal(columns["twice"][:, 1], 2 * numpy.arange(100))

    # Errors of arguments are those of the call, errors of columns those of the actors.
    with pytest.raises(tenon.InvalidArgument, match="no output 'z': expected y, s"):
        tenon.ray.map(rows(4, 1), package, outputs=["z"])
    with pytest.raises(tenon.InvalidArgument, match="number of actors is out of range"):
        tenon.ray.map(rows(4, 1), package, actors=0)
    with pytest.raises(Exception, match="the dataset has no column 'x' for input 'x': found id; name the column"):
        tenon.ray.map(ray.data.range(4), package).take_all()
    with pytest.raises(Exception, match="/absent/model.neff: cannot read"):
        tenon.ray.map(rows(4, 1), "/absent/model.neff").take_all()
    with pytest.warns(
        RuntimeWarning, match="6 actors with 1 CPUs leave no CPU .* has 6, and nothing is computed until it has 7"
    ):
        tenon.ray.map(rows(4, 1), package, actors=6)
    with warnings.catch_warnings(action="error"):
        tenon.ray.map(rows(4, 1), package, actors=5)


def test_requests_are_answered(cluster, package):
    serve = pytest.importorskip(
        "ray.serve", reason="ray[serve] is not installed: `cargo xtask test --engines` installs it"
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    serve.start(http_options={"port": port})
    try:
        application = tenon.ray.deployment(package, outputs=["s"], num_replicas=2, max_queued_requests=100)
        handle = serve.run(application)
        x = numpy.arange(30, dtype=numpy.float32).reshape(10, 3)
        answers = [handle.predict.remote({"x": x + at}) for at in range(20)]
        for at, answer in enumerate(answers):
            numpy.testing.assert_array_equal(answer.result(timeout_s=30)["s"], (x + at).sum(axis=1))
        with pytest.raises(tenon.InvalidArgument, match="input 'x' is missing: expected x"):
            handle.predict.remote({}).result(timeout_s=30)

        def post(body: str) -> tuple[int, dict[str, object]]:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/", body.encode())
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return response.status, json.loads(response.read())
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())

        assert post('{"x": [[1, 2, 3], [4, 5, 6]]}') == (200, {"s": [6, 15]})
        status, answer = post('{"x": [[1, 2]]}')
        assert status == 400 and "rows of another shape" in str(answer["error"])
    finally:
        serve.shutdown()
