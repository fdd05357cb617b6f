"""`tenon.quantize`: models of 8 and 4 bits, and of f16."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tenon import _tenon
from tenon._compile import DimensionSize, ModelSource, WeightsSource, model_source, weight_files
from tenon._progress import Progress, reporter
from tenon._reports import QuantizationReport

CalibrationData = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""Typical inputs: the path of an `.npz` or of a folder, arrays by name, or several sets of arrays."""


@dataclass(frozen=True)
class QuantizedModel:
    """A quantised ONNX model, which `tenon.compile` takes as it is."""

    data: bytes
    """The bytes of the ONNX file."""
    report: QuantizationReport
    """What was quantised, and what it costs."""

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, under a temporary name first: `path` is replaced as a whole or not at all."""
        _tenon.write_file(path, self.data)

    def SerializeToString(self) -> bytes:
        """The bytes of the ONNX file, as of `onnx.ModelProto`."""
        return self.data

    def __bytes__(self) -> bytes:
        return self.data


def quantize(
    model: ModelSource,
    calibration: CalibrationData | None = None,
    *,
    scheme: Literal["int8", "int4", "f16"] = "int8",
    method: Literal["minmax", "percentile", "entropy"] = "minmax",
    percentile: float = 99.99,
    block_size: int = 32,
    exclude: Sequence[str] = (),
    max_node_error: float = 0.1,
    labels: Sequence[int] | None = None,
    dims: Mapping[str, DimensionSize] | None = None,
    linked_folders: Sequence[str | os.PathLike[str]] = (),
    signature: str | None = None,
    weights: WeightsSource | None = None,
    timeout: float | None = None,
    progress: Progress | bool | None = None,
) -> QuantizedModel:
    """Quantises an f32 model; the result is standard ONNX with QuantizeLinear and DequantizeLinear.

    Args:
        model: the path of a file, the bytes of one, or `onnx.ModelProto`.
        calibration: typical inputs: an `.npz` or a folder of files, a dictionary of arrays, or several. An array may
            have several samples along its first dimension. With `int4` and `f16` only the report needs them.
        scheme: `int8` computes convolutions and matrix products in integers, `int4` stores the weights of matrix
            products in 4 bits, `f16` has all values of floating point in f16.
        method: how the range of an activation follows from its elements.
        percentile: the share of the elements in the range, in percent.
        block_size: weights of 4 bits with one scale.
        exclude: patterns of names of nodes that stay in f32.
        max_node_error: nodes stay in f32 if their outputs differ by more than this, relative to their norm.
        labels: the right class of each row of the first output, for the accuracy in the report.
        dims: sizes of symbolic dimensions, as in `compile`.
        linked_folders: folders into which links to external data may lead, besides the model's own.
        signature: the signature of a LiteRT model; by default its first one.
        weights: values of initialisers and inputs by name, as in `compile`.
        timeout: the most seconds.
        progress: as in `compile`.

    Raises:
        InvalidArgument: no node can be quantised, or the calibration data does not fit.
        Unsupported: the operator set of the model is older than 13.
    """
    if isinstance(calibration, Mapping):
        calibration = dict(calibration)
    elif calibration is not None and not isinstance(calibration, (str, os.PathLike)):
        calibration = [dict(arrays) for arrays in calibration]
    with reporter(progress) as callback:
        data, report = _tenon.quantize_model(
            model_source(model),
            calibration,
            scheme=scheme,
            block_size=block_size,
            method=method,
            percentile=percentile,
            exclude=list(exclude),
            max_node_error=max_node_error,
            labels=None if labels is None else [int(label) for label in labels],
            dims=dict(dims or {}),
            linked_folders=list(linked_folders),
            signature=signature,
            weights=weight_files(weights),
            timeout=timeout,
            progress=callback,
        )
    return QuantizedModel(data, QuantizationReport.from_json(report))
