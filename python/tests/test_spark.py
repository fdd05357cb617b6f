"""`tenon.spark` with a local Spark, compared with NumPy."""

from __future__ import annotations

import os
import shutil
import sys

import numpy
import pytest
import tenon
import tenon.spark
from conftest import deadline, make_rows

sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: `cargo xtask test --engines` installs it")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("java is not installed (Debian: apt-get install default-jre-headless)", allow_module_level=True)

from pyspark.ml.functions import predict_batch_udf  # noqa: E402
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType  # noqa: E402

ROWS = numpy.random.default_rng(1).integers(0, 100, (103, 3)).astype(numpy.float32)


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    with deadline(120):
        session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("batch", ["batch", 8])
def test_rows_are_predicted(spark, tmp_path, batch):
    path = tmp_path / "model.neff"
    tenon.compile(make_rows(batch), path, progress=False)
    field = StructField("x", ArrayType(FloatType()))
    frame = spark.createDataFrame([(row.tolist(),) for row in ROWS], StructType([field])).repartition(2)
    options = {"batch_size": 16, "input_tensor_shapes": [[3]]}
    twice = predict_batch_udf(
        tenon.spark.make_predict_fn(path, output="y"), return_type=ArrayType(FloatType()), **options
    )
    sums = predict_batch_udf(tenon.spark.make_predict_fn(path, output="s"), return_type=FloatType(), **options)
    fields = [StructField("s", FloatType()), StructField("y", ArrayType(FloatType()))]
    both = predict_batch_udf(
        tenon.spark.make_predict_fn(path, output=["s", "y"]), return_type=StructType(fields), **options
    )
    with deadline(120):
        rows = frame.select("x", twice("x").alias("y"), sums("x").alias("s"), both("x").alias("both")).collect()
    x = numpy.array([row.x for row in rows], numpy.float32)
    # Spark keeps no order.
    numpy.testing.assert_array_equal(x[numpy.lexsort(x.T)], ROWS[numpy.lexsort(ROWS.T)])
    numpy.testing.assert_array_equal([row.y for row in rows], 2 * x)
    numpy.testing.assert_array_equal([row.s for row in rows], x.sum(axis=1))
    numpy.testing.assert_array_equal([row.both.y for row in rows], 2 * x)
    numpy.testing.assert_array_equal([row.both.s for row in rows], x.sum(axis=1))


def test_wrong_columns_are_named(spark):
    package = tenon.compile(make_rows(), progress=False)
    # Floats of Python are doubles.
    frame = spark.createDataFrame([(row.tolist(),) for row in ROWS[:3]], ["x"])
    predict = tenon.spark.make_predict_fn(package, output="s")
    udf = predict_batch_udf(predict, return_type=FloatType(), batch_size=16, input_tensor_shapes=[[3]])
    with (
        deadline(120),
        pytest.raises(Exception, match=r"column 1 \(input 'x'\) has elements of another type: expected f32"),
    ):
        frame.select(udf("x")).collect()
