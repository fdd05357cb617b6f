"""`tenon.dask` on two worker processes, compared with NumPy."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

import numpy
import pytest
import tenon
import tenon.dask
from conftest import deadline, make_counter, make_rows

REASON = "dask and distributed are not installed: `cargo xtask test --engines` installs them"
dask_array = pytest.importorskip("dask.array", reason=REASON)
distributed = pytest.importorskip("distributed", reason=REASON)

ROWS = numpy.random.default_rng(1).integers(0, 100, (103, 3)).astype(numpy.float32)


CLUSTER = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def client():
    with ExitStack() as stack:
        with deadline(60):
            cluster = stack.enter_context(distributed.LocalCluster(**CLUSTER))
            client = stack.enter_context(distributed.Client(cluster))
            client.wait_for_workers(2)
        yield client
        with deadline(60):
            stack.close()


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("dask") / "model.neff"
    tenon.compile(make_rows(), path, progress=False)
    return str(path)


@pytest.fixture(autouse=True)
def limit():
    with deadline(60):
        yield


def count_loads() -> None:
    """Counts the packages that this process loads from here on."""
    from tenon import _batches

    load = _batches.load

    def counting(*arguments, **options):
        _batches.loads += 1
        return load(*arguments, **options)

    _batches.loads = 0
    _batches.load = counting


def loads() -> int:
    from tenon import _batches

    return _batches.loads


def test_blocks_are_computed_by_both_workers(client, package):
    client.run(count_loads)
    x = dask_array.from_array(ROWS, chunks=(10, 2))
    y, s = tenon.dask.map_blocks(x, package, output=["y", "s"])
    assert (y.shape, y.dtype, s.shape, s.dtype) == ((103, 3), numpy.float32, (103,), numpy.float32)
    assert y.chunks == ((*[10] * 10, 3), (3,))
    twice, sums = dask_array.compute(y, s)
    numpy.testing.assert_array_equal(twice, 2 * ROWS)
    numpy.testing.assert_array_equal(sums, ROWS.sum(axis=1))
    assert list(client.run(loads).values()) == [1, 1]


def test_a_package_of_a_fixed_batch_runs_blocks_of_other_sizes(client):
    package = tenon.compile(make_rows(8), progress=False)
    x = dask_array.from_array(ROWS, chunks=(20, 3))
    y = tenon.dask.map_blocks({"x": x}, package, output="y")
    numpy.testing.assert_array_equal(y.compute(), 2 * ROWS)


def test_blocks_of_unknown_size_are_computed(client, package):
    x = dask_array.from_array(ROWS, chunks=(10, 3))
    # The last block has no rows.
    selected = x[(x[:, 0] > 30) & (dask_array.arange(103, chunks=10) < 100)]
    expected = ROWS[:100][ROWS[:100, 0] > 30].sum(axis=1)
    numpy.testing.assert_array_equal(tenon.dask.map_blocks(selected, package, output="s").compute(), expected)


def test_the_result_is_an_array(client, package):
    x = dask_array.from_array(ROWS, chunks=(10, 3))
    total = (tenon.dask.map_blocks(x * 2, package, output="y") + 1).sum(axis=0)
    numpy.testing.assert_array_equal(total.compute(), (4 * ROWS + 1).sum(axis=0))
    y = tenon.dask.map_blocks(x, package, output="y")
    numpy.testing.assert_array_equal(y.compute(scheduler="threads"), 2 * ROWS)


def test_the_blocks_of_a_worker_that_ends_are_computed_again(package, tmp_path):
    counter = tmp_path / "counter.neff"
    tenon.compile(make_counter(10_000), counter, progress=False)
    with distributed.LocalCluster(**CLUSTER) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        x = dask_array.from_array(ROWS, chunks=(1, 3))
        y = tenon.dask.map_blocks(x, counter).persist()
        blocks = distributed.futures_of(y)
        while sum(block.done() for block in blocks) < 10:
            time.sleep(0.01)
        pids = client.run(os.getpid)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        assert not all(block.done() for block in blocks)
        numpy.testing.assert_array_equal(y.compute(), ROWS + 10_000)


def test_errors_of_workers_have_their_class_and_parts(client, package):
    with pytest.raises(tenon.FileNotFound) as caught:
        client.submit(tenon.load, "/absent").result()
    assert (caught.value.kind, caught.value.place) == ("NotFound", "/absent")
    # The shape of the rows is known to the workers only.
    x = dask_array.from_array(ROWS, chunks=(10, 3)).map_blocks(lambda block: block[:, :2], chunks=(10, float("nan")))
    with pytest.raises(tenon.InvalidArgument, match="rows of another shape") as caught:
        tenon.dask.map_blocks(x, package, output="s").compute()
    assert len(caught.value.problems) == 1


def test_wrong_arrays_are_refused(package):
    x = dask_array.from_array(ROWS, chunks=(10, 3))

    def failure(arrays, path=package, **options) -> str:
        with pytest.raises(tenon.InvalidArgument) as caught:
            tenon.dask.map_blocks(arrays, path, **options)
        return str(caught.value)

    assert "several outputs: expected one, found y, s; choose one with output='y'" in failure(x)
    assert "no output 'z': expected y, s" in failure(x, output="z")
    assert "elements of another type: expected f32[batch, 3], found f64" in failure(x.astype(float), output="y")
    assert "rows of another shape: expected f32[batch, 3], found f32[1, 2]" in failure(x[:, :2], output="y")
    assert "input 'x' is missing: expected x\nthe model has no input 'z'" in failure({"z": x}, output="y")
    assert "is no Dask array: found ndarray; convert it with dask.array.from_array" in failure(ROWS, output="y")
