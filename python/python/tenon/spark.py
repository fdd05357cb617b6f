"""Tenon's packages on data frames of Spark.

    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.types import ArrayType, FloatType
    import tenon.spark

    predict = predict_batch_udf(
        tenon.spark.make_predict_fn("/models/model.neff", output="scores"),
        return_type=ArrayType(FloatType()),
        batch_size=64,
        input_tensor_shapes=[[1, 8, 8]],
    )
    results = frame.withColumn("scores", predict("pixels"))

Needs the packages `pyspark`, `pandas` and `pyarrow`, and Tenon on every executor. docs/engines.md describes threads
and memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from tenon._batches import BatchModel, PackageSource, invalid, portable

__all__ = ["make_predict_fn"]

PredictFunction = Callable[..., NDArray[Any] | dict[str, NDArray[Any]]]
"""A function of the arrays of a batch, one for each input of the model."""


def make_predict_fn(
    package: PackageSource,
    *,
    output: str | Sequence[str] | None = None,
    threads: int = 1,
) -> Callable[[], PredictFunction]:
    """The function for `pyspark.ml.functions.predict_batch_udf`: it loads a package, and returns a function of batches.

    A Python worker of Spark loads the package once for all its batches. The columns that the UDF is called with are
    the inputs of the model, in order. Columns of arrays need `input_tensor_shapes`: the shape of a row of each input.

    Args:
        package: the path of a package, which all executors must have, its bytes, or a `tenon.Package`.
        output: the name of an output; by default the only output of the model. With a list of names the predictions
            are a dictionary, for a `StructType` with a field of each name. Spark has arrays of one dimension: further
            dimensions of outputs are flattened.
        threads: the most threads of one execution. Spark runs a worker for each core that an executor has.

    Raises:
        InvalidArgument: by the returned function: the model has no such output, one that has no value for each row,
            or arrays of another type or shape than the inputs.
    """
    source = portable(package)
    names = None if output is None else [output] if isinstance(output, str) else list(output)
    only = names[0] if isinstance(output, str) and names else None

    # Spark pickles this function by value, with the modules that it uses by name.
    def make() -> PredictFunction:
        model = BatchModel(source, outputs=names, threads=threads)
        if names is None and len(model.outputs) > 1:
            found = ", ".join(model.outputs)
            help = f"choose one with output={next(iter(model.outputs))!r}, or a list of names"
            raise invalid(
                [f"the model has several outputs: expected one, found {found}; {help}"], "one output", found, help
            )
        single = only or (next(iter(model.outputs)) if names is None else None)
        return _predict_function(model, single)

    return make


def _predict_function(model: BatchModel, single: str | None) -> PredictFunction:
    """A function of the arrays of all inputs in order; Spark reads their number from its signature."""
    inputs = list(model.inputs)
    places = {name: f"column {at} (input {name!r})" for at, name in enumerate(inputs, 1)}

    def predict(*arrays: Any) -> NDArray[Any] | dict[str, NDArray[Any]]:
        if len(arrays) != len(inputs):
            expected, found = f"{len(inputs)} columns: {', '.join(inputs)}", str(len(arrays))
            raise invalid([f"the model has other inputs: expected {expected}, found {found}"], expected, found)
        outputs = model.run(dict(zip(inputs, arrays, strict=True)), places)
        flat = {name: array.reshape(len(array), -1) if array.ndim > 2 else array for name, array in outputs.items()}
        return flat if single is None else flat[single]

    parameters = [inspect.Parameter(f"input_{at}", inspect.Parameter.POSITIONAL_ONLY) for at in range(len(inputs))]
    predict.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return predict
