"""Tenon's packages on a cluster of Ray: `map` for the rows of a dataset, `deployment` for requests.

    import ray
    import tenon.ray

    images = ray.data.read_parquet("images")
    results = tenon.ray.map(images, "model.neff", inputs={"image": "pixels"}, actors=4)
    results.write_parquet("results")

Needs the packages `ray[data]`, for `deployment` also `ray[serve]`, and Tenon on every node. docs/engines.md describes
threads, memory, and what happens when a node fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
from numpy.typing import NDArray

from tenon import _tenon
from tenon._batches import BatchModel, PackageSource, import_engine, invalid, portable
from tenon._errors import InvalidArgument

__all__ = ["Predictor", "deployment", "map"]

ROWS = 32
"""The default rows of a batch: as many as `tenon serve` joins."""


class Predictor:
    """Computes columns of a batch from others: the callable class of `Dataset.map_batches`.

        dataset.map_batches(
            tenon.ray.Predictor,
            fn_constructor_args=["/models/model.neff"],
            fn_constructor_kwargs={"inputs": {"image": "pixels"}, "outputs": {"scores": "prediction"}},
            batch_format="numpy",
            batch_size=32,
            compute=ray.data.ActorPoolStrategy(size=4),
            num_cpus=1,
        )

    `map` does this. Each actor loads the package once. Batches may have any number of rows.
    """

    def __init__(
        self,
        package: PackageSource | Any,
        *,
        inputs: Mapping[str, str | Sequence[str]] | None = None,
        outputs: Mapping[str, str] | Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        threads: int = 1,
    ) -> None:
        """Loads the package.

        Args:
            package: the path of a package, which is mapped, the bytes of one, a `tenon.Package`, or Ray's reference
                to bytes.
            inputs: the column of an input; that of the same name by default. Of several columns, which have a scalar
                in each row, an input has the values of a row along its second dimension.
            outputs: the outputs to compute, or the column of each of them; all, in columns of their names, by default.
            keep: the columns of the batch that the result has too; all by default.
            threads: the most threads of one execution.

        Raises:
            InvalidArgument: the model has no such input or output, or one that has no value for each row.
        """
        names = None if outputs is None else list(outputs)
        self._model = BatchModel(_value(package), outputs=names, threads=threads)
        columns = dict(inputs or {})
        unknown = [name for name in columns if name not in self._model.inputs]
        if unknown:
            expected = ", ".join(self._model.inputs)
            raise invalid([f"the model has no input {name!r}: expected {expected}" for name in unknown], expected)
        self._inputs = {name: columns.get(name, name) for name in self._model.inputs}
        renamed = outputs if isinstance(outputs, Mapping) else {}
        self._outputs = {name: renamed.get(name, name) for name in self._model.outputs}
        self._keep = None if keep is None else list(keep)

    @property
    def batch_rows(self) -> int | None:
        """The rows of a batch that the model was compiled for; `None` if it runs with different ones."""
        return self._model.most if self._model.least == self._model.most else None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a batch that are kept, and those of the outputs.

        Args:
            batch: an array for each column.

        Raises:
            InvalidArgument: a column is missing, or has another type or shape than its input.
        """
        if not isinstance(batch, Mapping):
            found = type(batch).__name__
            raise invalid([f"a batch is no dictionary of arrays: found {found}; pass batch_format='numpy'"])
        kept = list(batch) if self._keep is None else self._keep
        self._check_columns(batch, kept)
        places = {
            name: f"column {column!r} (input {name!r})"
            if isinstance(column, str)
            else f"columns {list(column)} (input {name!r})"
            for name, column in self._inputs.items()
        }
        arrays = {name: _column(batch, column) for name, column in self._inputs.items()}
        outputs = self._model.run(arrays, places)
        return {name: batch[name] for name in kept} | {self._outputs[name]: array for name, array in outputs.items()}

    def _check_columns(self, batch: Mapping[str, Any], kept: Sequence[str]) -> None:
        found = ", ".join(batch)
        problems = []
        for name, columns in self._inputs.items():
            for column in [columns] if isinstance(columns, str) else columns:
                if column not in batch:
                    help = f"name the column of each input: inputs={{{name!r}: …}}"
                    problems.append(f"the dataset has no column {column!r} for input {name!r}: found {found}; {help}")
        problems += [f"the dataset has no column {name!r} to keep: found {found}" for name in kept if name not in batch]
        for name, column in self._outputs.items():
            if column in kept:
                help = f"name another one, outputs={{{name!r}: …}}, or leave it out of keep=[…]"
                problems.append(f"the dataset has a column {column!r}, which is that of output {name!r}; {help}")
        if problems:
            raise invalid(problems)


def map(
    dataset: Any,
    package: PackageSource,
    *,
    inputs: Mapping[str, str | Sequence[str]] | None = None,
    outputs: Mapping[str, str] | Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    batch_size: int | None = None,
    actors: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    threads: int | None = None,
    **options: Any,
) -> Any:
    """Runs a model on the rows of a `ray.data.Dataset`, on a pool of actors; returns the dataset of the results.

        rows = ray.data.from_numpy(numpy.zeros((1000, 3), numpy.float32))
        results = tenon.ray.map(rows, "model.neff", inputs={"x": "data"}, outputs={"y": "prediction"}, actors=2)

    Each actor loads the package once; actors of a node share the memory of a package that is a file. Work of a node
    that fails is computed again on others.

    Args:
        dataset: the dataset. Nothing is computed until its results are read.
        package: the path of a package, which each node that runs actors must have, or its bytes or a `tenon.Package`,
            which are copied into the memory of each actor.
        inputs: the column of an input; that of the same name by default. Of several columns, which have a scalar in
            each row, an input has the values of a row along its second dimension: `{"features": ["age", "height"]}`.
        outputs: the outputs to compute, or the column of each of them; all, in columns of their names, by default.
        keep: the columns of the dataset that the result has too; all by default.
        batch_size: rows of a batch; by default those that the model was compiled for, or 32 if it runs with different
            ones.
        actors: the number of actors, or the least and the greatest one.
        num_cpus: the CPUs that Ray reserves for each actor.
        threads: the most threads of one execution; by default `num_cpus`, at least 1.
        options: further options of `Dataset.map_batches`, such as `resources` or `max_restarts`.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        InvalidArgument: the model has no such input or output, or one that has no value for each row. Where the
            package is a path that this process cannot read, and for columns that are missing or have another type or
            shape than their input, the actors raise it when the results are read.
    """
    ray = import_engine("ray", "ray[data]")
    data = import_engine("ray.data", "ray[data]")
    least, most = actors if isinstance(actors, tuple) else (actors, actors)
    if not 1 <= least <= most:
        raise invalid([f"the number of actors is out of range: expected 1 <= least <= greatest, found {actors!r}"])
    source = portable(package)
    arguments: dict[str, Any] = {
        "inputs": inputs,
        "outputs": outputs,
        "keep": keep,
        "threads": threads or max(1, int(num_cpus)),
    }
    if isinstance(source, bytes) or os.path.exists(source):
        # Errors of the arguments are raised here, not by an actor.
        rows = Predictor(source, **arguments).batch_rows
        batch_size = batch_size or rows
    _check_cpus(ray, least, num_cpus)
    return dataset.map_batches(
        Predictor,
        # Ray computes a key from the arguments for each batch: a reference is small.
        fn_constructor_args=[ray.put(source) if isinstance(source, bytes) else source],
        fn_constructor_kwargs=arguments,
        batch_format="numpy",
        batch_size=batch_size or ROWS,
        compute=data.ActorPoolStrategy(size=least)
        if least == most
        else data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=num_cpus,
        **options,
    )


class _Replica:
    """A replica of `deployment`: a loaded package and a thread that executes it."""

    def __init__(self, package: PackageSource, outputs: Sequence[str] | None, threads: int) -> None:
        self._model = BatchModel(package, outputs=outputs, threads=threads)
        # One execution at a time: Ray Serve has reserved its CPUs for `threads` threads.
        self._executor = ThreadPoolExecutor(1, "tenon")

    async def predict(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays of the inputs by name. Called through a handle of the deployment."""
        missing = [name for name in self._model.inputs if name not in arrays]
        unknown = [name for name in arrays if name not in self._model.inputs]
        expected = ", ".join(self._model.inputs)
        problems = [f"input {name!r} is missing: expected {expected}" for name in missing]
        problems += [f"the model has no input {name!r}: expected {expected}" for name in unknown]
        if problems:
            raise invalid(problems, expected)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._model.run, arrays)

    async def __call__(self, request: Any) -> Any:
        """Answers a request of HTTP whose body is a JSON object of nested lists, an input each."""
        responses = import_engine("starlette.responses", "ray[serve]")
        try:
            values = json.loads(await request.body())
            if not isinstance(values, dict):
                raise invalid(['the body is no JSON object of inputs: expected {"NAME": [[…], …], …}'])
            arrays = {name: self._array(name, value) for name, value in values.items()}
            outputs = await self.predict(arrays)
        except (InvalidArgument, json.JSONDecodeError, UnicodeDecodeError) as error:
            return responses.JSONResponse({"error": str(error)}, status_code=400)
        return responses.JSONResponse({name: _json_value(array) for name, array in outputs.items()})

    def _array(self, name: str, value: Any) -> Any:
        """Nested lists as an array of the input's type; `predict` reports unknown inputs."""
        port = self._model.inputs.get(name)
        return value if port is None else _tenon.tensor(value, dtype=port.dtype).numpy()


def deployment(
    package: PackageSource,
    *,
    outputs: Sequence[str] | None = None,
    name: str = "tenon",
    num_replicas: int | str = 1,
    max_ongoing_requests: int = 2,
    max_queued_requests: int = 1024,
    num_cpus: float = 1,
    threads: int | None = None,
    **options: Any,
) -> Any:
    """An application of Ray Serve with one deployment, whose replicas run a model.

        from ray import serve

        handle = serve.run(tenon.ray.deployment("/models/model.neff", num_replicas=2))
        outputs = handle.predict.remote({"x": x}).result()

    Over HTTP, the body of a request is a JSON object with nested lists for each input, that of the answer one with
    each output: `curl localhost:8000 -d '{"x": [[1.0, 2.0, 3.0]]}'`. Requests have any number of rows. Malformed ones
    are answered with status 400 and the reason. The application can also be bound to other deployments of an
    application. `tenon serve` has the Open Inference Protocol, joins requests to batches, and needs no Ray.

    Args:
        package: the path of a package, which each node that runs replicas must have, its bytes, or a `tenon.Package`.
        outputs: the outputs to return, by name; all by default.
        name: the name of the deployment.
        num_replicas: the number of replicas, or `"auto"`.
        max_ongoing_requests: the most requests that a replica has at a time: one is executed, the others wait.
        max_queued_requests: the most requests that wait for a replica; further ones are refused, over HTTP with
            status 503.
        num_cpus: the CPUs that Ray reserves for each replica.
        threads: the most threads of one execution; by default `num_cpus`, at least 1.
        options: further options of `ray.serve.deployment`, such as `autoscaling_config`.

    Raises:
        ModuleNotFoundError: Ray Serve is not installed.
        InvalidArgument: as for `map`.
    """
    serve = import_engine("ray.serve", "ray[serve]")
    source = portable(package)
    threads = threads or max(1, int(num_cpus))
    if isinstance(source, bytes) or os.path.exists(source):
        BatchModel(source, outputs=outputs, threads=threads)
    actor_options = {"num_cpus": num_cpus, **options.pop("ray_actor_options", {})}
    replicas = serve.deployment(
        _Replica,
        name=name,
        num_replicas=num_replicas,
        max_ongoing_requests=max_ongoing_requests,
        max_queued_requests=max_queued_requests,
        ray_actor_options=actor_options,
        **options,
    )
    return replicas.bind(source, None if outputs is None else list(outputs), threads)


def _value(package: Any) -> Any:
    """The package that a reference of Ray's object store is for."""
    ray = sys.modules.get("ray")
    return ray.get(package) if ray is not None and isinstance(package, ray.ObjectRef) else package


def _column(batch: Mapping[str, Any], column: str | Sequence[str]) -> Any:
    """A column; several of scalars become the columns of a matrix."""
    if isinstance(column, str):
        return batch[column]
    return numpy.stack([numpy.asarray(batch[name]) for name in column], axis=1)


def _check_cpus(ray: Any, actors: int, num_cpus: float) -> None:
    """Warns of actors that reserve all CPUs: the tasks that read the dataset would wait for one without end."""
    cpus = ray.cluster_resources().get("CPU", 0)
    if actors * num_cpus > cpus - 1:
        text = (
            f"{actors} actors with {num_cpus:g} CPUs leave no CPU to the tasks that read the dataset: "
            f"the cluster has {cpus:g}, and nothing is computed until it has {actors * num_cpus + 1:g}; "
            "use fewer actors, or add nodes"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _json_value(array: NDArray[Any]) -> Any:
    """Nested lists; NaN and infinities, which JSON lacks, are strings."""
    values = array.astype(numpy.float32 if array.dtype.kind == "V" else array.dtype, copy=False)
    if values.dtype.kind == "f" and not numpy.isfinite(values).all():
        texts = numpy.where(numpy.isnan(values), "NaN", numpy.where(values > 0, "inf", "-inf"))
        values = numpy.where(numpy.isfinite(values), values.astype(object), texts.astype(object))
    return values.tolist()
