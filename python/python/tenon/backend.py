"""Tenon as an ONNX backend: `onnx.backend.base.Backend`. Needs the package `onnx`.

    import tenon.backend

    outputs = tenon.backend.run_model(model, [x])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

import tenon

__all__ = ["TenonBackend", "TenonRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]

_DEVICE = "CPU"


def _array(value: Any) -> Any:
    """An input in a form that `tenon.Model` reads; ONNX's tests pass strings as arrays of objects."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value


class TenonRep(BackendRep):
    """A compiled model; one whose shapes depend on the values of inputs is compiled for each run."""

    def __init__(self, source: onnx.ModelProto, options: dict[str, Any]) -> None:
        self._source = source
        self._options = options
        self._names = [port.name for port in source.graph.output]
        self._error: tenon.Error | None = None
        self.model: tenon.Model | None = None
        try:
            self.model = tenon.compile(source, **options).load()
        except (tenon.Unsupported, tenon.InvalidModel) as error:
            if not _inputs(source):
                raise
            self._error = error

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on arrays in order, or by name; returns a named tuple of the outputs."""
        if kwargs:
            raise tenon.InvalidArgument(f"run has no option {', '.join(sorted(kwargs))}")
        names = _inputs(self._source)
        if not isinstance(inputs, dict):
            values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) != len(names):
                raise tenon.InvalidArgument(f"expected {len(names)} inputs, found {len(values)}")
            inputs = dict(zip(names, values, strict=True))
        given = {name: _array(value) for name, value in inputs.items()}
        if self.model is not None:
            try:
                return self._outputs(self.model.run(given))
            except tenon.InvalidArgument as error:
                # Sizes that the compiled form excludes.
                return self._run_once(given, error)
        return self._run_once(given, self._error)

    def _run_once(self, given: dict[str, Any], error: tenon.Error | None) -> tuple[Any, ...]:
        """Compiles the model for these values and runs it."""
        known = {name: value for name, value in given.items() if isinstance(value, (numpy.ndarray, numpy.generic))}
        try:
            model = tenon.compile(self._source, **{**self._options, "known_inputs": known}).load()
        except tenon.Error as again:
            # Shapes that depend on values inside of the model: those of its inputs are constants.
            try:
                model = tenon.compile(self._source, **{**self._options, "constants": known}).load()
            except tenon.Error:
                raise again from error
        left = {port.name: given[port.name] for port in model.inputs if port.name in given}
        return self._outputs(model.run(left))

    def _outputs(self, outputs: tenon.Outputs) -> tuple[Any, ...]:
        result: tuple[Any, ...] = namedtupledict("Outputs", self._names)(*outputs)
        return result


def _inputs(model: onnx.ModelProto) -> list[str]:
    """The inputs that have no default value."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return [port.name for port in model.graph.input if port.name not in defaults]


class TenonBackend(Backend):
    """Compiles and runs ONNX models and single nodes."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = _DEVICE, **kwargs: Any) -> bool:
        """Whether the model compiles without the values of its inputs."""
        if not cls.supports_device(device):
            return False
        try:
            return cls.prepare(model, device, **kwargs).model is not None
        except tenon.Error:
            return False

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = _DEVICE, **kwargs: Any) -> TenonRep:
        """Compiles a model; the options are those of `tenon.compile`."""
        if not cls.supports_device(device):
            raise tenon.Unsupported(f"the device {device} is not supported: expected {_DEVICE}")
        return TenonRep(model, {"progress": False, **kwargs})

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = _DEVICE, **kwargs: Any) -> tuple[Any, ...]:
        """Compiles a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = _DEVICE,
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node. `opset_version` is the version of its operator set, the newest by default."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        given = [numpy.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        ports = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in zip(names, given, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", ports, outputs)
        opsets = [onnx.helper.make_opsetid(node.domain, version)]
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        inferred = onnx.shape_inference.infer_shapes(model)
        return cls.run_model(inferred, given, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this is the CPU."""
        return device.split(":")[0].upper() == _DEVICE


is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run_model = TenonBackend.run_model
run_node = TenonBackend.run_node
supports_device = TenonBackend.supports_device
