"""Tenon's packages on Dask arrays.

    import dask.array
    import tenon.dask

    x = dask.array.from_zarr("images.zarr")
    scores = tenon.dask.map_blocks(x, "model.neff", output="scores")
    scores.to_zarr("scores.zarr")

Needs the package `dask[array]`, for several processes or machines `distributed`, and Tenon on every worker.
docs/engines.md describes threads, memory, and what happens when a worker fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from tenon._batches import BatchModel, PackageSource, import_engine, invalid, portable

__all__ = ["map_blocks"]


def map_blocks(
    arrays: Any,
    package: PackageSource,
    *,
    output: str | Sequence[str] | None = None,
    threads: int = 1,
) -> Any:
    """Runs a model on the blocks of Dask arrays; returns the Dask array of an output, or a list of them.

        y = tenon.dask.map_blocks(x, "model.neff").compute()
        boxes, scores = tenon.dask.map_blocks({"image": x}, "model.neff", output=["boxes", "scores"])

    The first dimension of the arrays has the rows; their chunks along it are the blocks. Arrays with several chunks
    along another dimension are rechunked. A worker loads the package once for all blocks of the call. A block has any
    number of rows: it is executed in batches that the model supports.

    Args:
        arrays: the array of a model with one input, or a dictionary with the array of each input.
        package: the path of a package, which this process and all workers must have, its bytes, or a `tenon.Package`.
        output: the name of an output, or several names; by default the only output of the model.
        threads: the most threads of one execution. Dask runs as many blocks at a time as a worker has threads.

    Raises:
        ModuleNotFoundError: Dask is not installed.
        InvalidArgument: an input is missing, an array has another type or shape, or an output has no value for each
            row.
    """
    dask = import_engine("dask", "dask[array]")
    dask_array = import_engine("dask.array", "dask[array]")
    names = None if output is None else [output] if isinstance(output, str) else list(output)
    source = portable(package)
    model = BatchModel(source, outputs=names, threads=threads)
    if output is None and len(model.outputs) > 1:
        found = ", ".join(model.outputs)
        help = f"choose one with output={next(iter(model.outputs))!r}, or a list of names"
        raise invalid(
            [f"the model has several outputs: expected one, found {found}; {help}"], "one output", found, help
        )
    inputs = _inputs(arrays, model)
    blocks = [_whole_rows(array) for array in inputs.values()]
    rows = blocks[0].chunks[0]
    blocks = [block if block.chunks[0] == rows else block.rechunk({0: rows}) for block in blocks]
    # The result of this task is pickled for each worker, once, where unpickling loads the package.
    loaded = dask.delayed(BatchModel)(dask.delayed(source), outputs=list(model.outputs), threads=threads)
    parts = zip(*(block.to_delayed().ravel() for block in blocks), strict=True)
    predicted = [dask.delayed(_predict)(loaded, list(inputs), list(part)) for part in parts]
    results = []
    for name, port in model.outputs.items():
        extents = [extent if isinstance(extent, int) else math.nan for extent in port.shape[1:]]
        values = zip(predicted, rows, strict=True)
        shaped = [dask_array.from_delayed(part[name], (count, *extents), port.numpy_dtype) for part, count in values]
        results.append(dask_array.concatenate(shaped, allow_unknown_chunksizes=True))
    return results[0] if output is None or isinstance(output, str) else results


def _whole_rows(array: Any) -> Any:
    """The array with one chunk in each dimension but the first."""
    divided = {at: -1 for at in range(1, array.ndim) if array.numblocks[at] > 1}
    return array.rechunk(divided) if divided else array


def _predict(model: BatchModel, names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    """The outputs of a block."""
    return model.run(dict(zip(names, arrays, strict=True)))


def _inputs(arrays: Any, model: BatchModel) -> dict[str, Any]:
    """The array of each input, with its type and shape."""
    names = list(model.inputs)
    expected = ", ".join(names)
    if not isinstance(arrays, Mapping):
        if len(names) != 1:
            help = "pass a dictionary with the array of each input"
            text = f"the model has {len(names)} inputs: expected arrays of {expected}, found one array; {help}"
            raise invalid([text], expected, "one array", help)
        arrays = {names[0]: arrays}
    problems = [f"input {name!r} is missing: expected {expected}" for name in names if name not in arrays]
    problems += [f"the model has no input {name!r}: expected {expected}" for name in arrays if name not in names]
    for name, array in arrays.items():
        if not hasattr(array, "to_delayed") or not hasattr(array, "rechunk"):
            found = type(array).__name__
            problems.append(f"input {name!r} is no Dask array: found {found}; convert it with dask.array.from_array")
        elif array.ndim == 0:
            problems.append(f"input {name!r} has no rows: found an array without dimensions")
    if problems:
        raise invalid(problems, expected)
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len({length for length in lengths.values() if not math.isnan(length)}) > 1:
        found = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise invalid([f"the inputs differ in their rows: found {found}"], found=found)
    # One row of each array, without memory. Extents that only the computation shows are checked by it.
    known = {name: array for name, array in arrays.items() if not any(map(math.isnan, array.shape[1:]))}
    model.check(
        {name: numpy.broadcast_to(numpy.empty((), array.dtype), (1, *array.shape[1:])) for name, array in known.items()}
    )
    return {name: arrays[name] for name in names}
