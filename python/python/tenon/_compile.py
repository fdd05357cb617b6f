"""`tenon.compile`, `tenon.load` and `tenon.compare`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from tenon import _tenon
from tenon._errors import InvalidArgument
from tenon._progress import Progress, reporter
from tenon._reports import Comparison


@runtime_checkable
class ModelProto(Protocol):
    """What is used of `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes:
        """The bytes of the ONNX file."""


ModelSource = str | os.PathLike[str] | bytes | ModelProto
"""An ONNX model: the path of a file, the bytes of one, or `onnx.ModelProto`."""

WeightsSource = str | os.PathLike[str] | Mapping[str, Any] | Sequence[str | os.PathLike[str]]
"""Tensors by name: the path of a safetensors or `.npz` file, several, or arrays."""

DimensionSize = int | range | Sequence[int]
"""The size of a dimension: one, a range with step 1, or those of buckets."""


def model_source(model: ModelSource) -> str | bytes:
    """The path or the bytes of a model."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, ModelProto):
        return model.SerializeToString()
    kind = type(model).__name__
    error = InvalidArgument(f"this is no model: expected a path, bytes or onnx.ModelProto, found {kind}")
    error.expected, error.found = "a path, bytes or onnx.ModelProto", kind
    raise error


def weight_files(weights: WeightsSource | None) -> tuple[list[str], dict[str, Any]]:
    """The paths and the arrays of weights."""
    if weights is None:
        return [], {}
    if isinstance(weights, Mapping):
        return [], dict(weights)
    if isinstance(weights, (str, os.PathLike)):
        return [os.fspath(weights)], {}
    return [os.fspath(path) for path in weights], {}


def precision_rules(precision: str | Mapping[str, str]) -> list[str]:
    """The rules of a precision: `bf16`, or `pattern=bf16` for each pattern."""
    if isinstance(precision, str):
        return [precision]
    return [f"{pattern}={name}" for pattern, name in precision.items()]


def compile(
    model: ModelSource,
    output: str | os.PathLike[str] | None = None,
    *,
    dims: Mapping[str, DimensionSize] | None = None,
    pad: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    known_inputs: Mapping[str, Any] | None = None,
    backends: Sequence[str] = (),
    hints: Mapping[str, str] | None = None,
    precision: str | Mapping[str, str] = "f32",
    cpu: str = "baseline",
    states: bool | Mapping[str, str] = False,
    symbolic: bool = True,
    linked_folders: Sequence[str | os.PathLike[str]] = (),
    signature: str | None = None,
    weights: WeightsSource | None = None,
    timeout: float | None = None,
    progress: Progress | bool | None = None,
) -> _tenon.Package:
    """Compiles an ONNX or LiteRT model.

    Args:
        model: the path of a file, the bytes of one, or `onnx.ModelProto`.
        output: the file to write the package to.
        dims: sizes of symbolic dimensions by name: an `int` fixes one, a `range` bounds it, a list has the sizes of
            buckets. Dimensions without one stay symbolic.
        pad: the value that inputs are padded with, up to the next bucket.
        constants: inputs that become constants.
        known_inputs: the values that inputs will have; their shapes fix symbolic dimensions.
        backends: the backends in order of preference; the default ones if empty.
        hints: patterns of node names, each with the backend that is offered those nodes first.
        precision: the type of the weights of matrix products and convolutions of f32: `f32`, `f16`, `bf16`, or `fast`
            (bf16 if the CPU has instructions for it); or patterns of node names to these, of which the first match
            counts, while all other nodes stay in f32.
        cpu: the instruction sets that prepared constants may rely on: `baseline`, `avx2`, `avx512`, `native`.
        states: whether outputs that are inputs of the next execution are declared as states: found by their names
            and types (`True`), or these outputs to inputs.
        symbolic: whether dimensions without a size stay symbolic; else they are errors.
        linked_folders: folders into which links to external data may lead, besides the model's own.
        signature: the signature of a LiteRT model; by default its first one.
        weights: values of initialisers and inputs by name: a `.safetensors` or `.npz` file, the `.json` index of several
            safetensors files, a list of these, or arrays. Names that the model does not have are left out with a warning.
        timeout: the most seconds.
        progress: called with step, units done and all units (0: unknown); `True` shows a bar, `False` none; by
            default a bar appears in terminals and notebooks after half a second.

    Raises:
        InvalidModel: the model is malformed.
        Unsupported: no chosen backend supports some nodes; all of them are in `problems`.
        DeadlineExceeded: it took longer than `timeout`.
    """
    with reporter(progress) as callback:
        package = _tenon.compile_model(
            model_source(model),
            dims=dict(dims or {}),
            pad=dict(pad or {}),
            constants=dict(constants or {}),
            known_inputs=dict(known_inputs or {}),
            backends=list(backends),
            hints=list((hints or {}).items()),
            precisions=precision_rules(precision),
            cpu=cpu,
            states=states if isinstance(states, bool) else dict(states),
            symbolic=symbolic,
            linked_folders=list(linked_folders),
            signature=signature,
            weights=weight_files(weights),
            timeout=timeout,
            progress=callback,
        )
    if output is not None:
        package.write(output)
    return package


def load(
    package: str | os.PathLike[str] | bytes | _tenon.Package,
    *,
    threads: int | None = None,
    max_in_flight: int | None = None,
    nan_check: bool = False,
    check_digests: bool = False,
    native_nodes: bool = False,
    timeout: float | None = None,
    progress: Progress | bool | None = None,
) -> _tenon.Model:
    """Loads a package.

    Args:
        package: the path of a file, which is mapped; the bytes of one; or a package.
        threads: the most threads of one execution; all CPUs by default.
        max_in_flight: the most concurrent executions, further ones wait; the number of CPUs by default.
        nan_check: whether every execution checks the outputs of nodes for NaN.
        check_digests: whether the package is compared with its digests.
        native_nodes: whether shared libraries in the package may run in this process.
        timeout: the most seconds.
        progress: as in `compile`.
    """
    with reporter(progress) as callback:
        return _tenon.load(
            package,
            threads=threads,
            max_in_flight=max_in_flight,
            nan_check=nan_check,
            check_digests=check_digests,
            native_nodes=native_nodes,
            timeout=timeout,
            progress=callback,
        )


def compare(
    model: ModelSource | _tenon.Package,
    inputs: Mapping[str, Any] | Sequence[Any],
    backends: tuple[str, str] = ("CpuAcc", "CpuRef"),
    *,
    relative: float | None = None,
    absolute: float | None = None,
    steps: int | None = None,
    timeout: float | None = None,
) -> Comparison:
    """Runs a model on two backends in lock step, up to the first node whose outputs differ.

    Args:
        model: an ONNX model as in `compile`, or a package.
        inputs: arrays by name or in order.
        backends: the two backends; the outputs of the second one are the expected ones.
        relative: the largest relative difference of floats; of the backends' own statement by default.
        absolute: the largest absolute difference of floats.
        steps: the largest difference of integers of up to 16 bits.
        timeout: the most seconds.
    """
    package = model if isinstance(model, _tenon.Package) else compile(model, backends=backends, progress=False)
    return _tenon.compare_package(package, inputs, backends, relative, absolute, steps, timeout)
