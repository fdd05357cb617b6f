"""The classes of ONNX Runtime's Python interface over Tenon. Needs NumPy.

    import tenon.onnxruntime as ort

    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": x})

docs/python.md lists what is there. Options without an effect are kept, and named in a warning once.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy

import tenon

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
]

_PROVIDERS = ["TenonExecutionProvider", "CPUExecutionProvider"]

_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "float16",
    "bf16": "bfloat16",
    "i2": "int2",
    "u2": "uint2",
    "i4": "int4",
    "u4": "uint4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
    "string": "string",
    "c64": "complex64",
    "c128": "complex128",
    "f8e4m3fn": "float8e4m3fn",
    "f8e4m3fnuz": "float8e4m3fnuz",
    "f8e5m2": "float8e5m2",
    "f8e5m2fnuz": "float8e5m2fnuz",
    "f8e8m0fnu": "float8e8m0",
    "f4e2m1fn": "float4e2m1",
}

_warned: set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"tenon.onnxruntime has no '{name}': docs/python.md lists what it has")


class GraphOptimizationLevel(IntEnum):
    """Kept for callers; Tenon always optimises."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Kept for callers; operators are executed in order."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """Options of a session. `intra_op_num_threads` and overrides of dimensions have an effect."""

    _USED = {"intra_op_num_threads", "_dims", "_entries"}

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self._dims: dict[str, int] = {}
        self._entries: dict[str, str] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._USED:
            _warn_once(f"SessionOptions.{name} has no effect in Tenon")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return _SESSION_DEFAULTS[name]
        except KeyError:
            raise AttributeError(f"SessionOptions has no '{name}'") from None

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a symbolic dimension."""
        self._dims[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry, which has no effect."""
        _warn_once(f"the session entry {key} has no effect in Tenon")
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """An entry that was added."""
        return self._entries[key]


_SESSION_DEFAULTS: dict[str, Any] = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "enable_profiling": False,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "inter_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "optimized_model_filepath": "",
    "profile_file_prefix": "onnxruntime_profile_",
    "use_deterministic_compute": False,
}


class RunOptions:
    """Options of an execution. `terminate` cancels the executions that have these options."""

    def __init__(self) -> None:
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self._lock = threading.Lock()
        self._is_terminated = False
        self._running: set[tenon.RunFuture] = set()

    @property
    def terminate(self) -> bool:
        """Whether executions end."""
        return self._is_terminated

    @terminate.setter
    def terminate(self, value: bool) -> None:
        with self._lock:
            self._is_terminated = value
            running = list(self._running)
        if value:
            for future in running:
                future.cancel()

    def _run(self, model: tenon.Model, feed: Mapping[str, Any]) -> tenon.Outputs:
        with self._lock:
            if self._is_terminated:
                raise tenon.Cancelled("RunOptions.terminate is set")
            future = model.submit(feed)
            self._running.add(future)
        try:
            return future.result()
        except BaseException as error:
            future.cancel()
            if self._is_terminated:
                raise tenon.Cancelled("RunOptions.terminate was set") from error
            raise
        finally:
            with self._lock:
                self._running.discard(future)


class NodeArg:
    """An input or output."""

    def __init__(self, port: tenon.Port, *, is_output: bool = False) -> None:
        self.name = port.name
        self.shape = list(port.shape)
        element = f"tensor({_TYPES.get(port.dtype, port.dtype)})"
        kinds = {"sequence": "seq({})", "optional": "optional({})", "optional-sequence": "optional(seq({}))"}
        self.type = kinds.get(port.kind, "{}").format(element)
        if port.keys is not None:
            key = "string" if isinstance(port.keys[0], str) else "int64"
            self.type = f"map({key},{element})"
            self.shape = []
            if is_output:
                self.type = f"seq({self.type})"

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


class ModelMetadata:
    """What a package keeps of the model's metadata."""

    def __init__(self, model: tenon.Model) -> None:
        self.graph_name = model.name
        self.custom_metadata_map = model.metadata
        self.producer_name = ""
        self.domain = ""
        self.description = ""
        self.graph_description = ""
        self.version = 0


class OrtValue:
    """A tensor in memory of Tenon."""

    def __init__(self, tensor: tenon.Tensor) -> None:
        self._tensor = tensor

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """A copy of an array."""
        _expect_cpu(device_type)
        return OrtValue(tenon.tensor(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A tensor of zeros of a NumPy type."""
        _expect_cpu(device_type)
        return OrtValue(tenon.empty(list(shape), _dtype(element_type)))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A copy of a tensor with DLPack."""
        return OrtValue(tenon.tensor(data))

    def numpy(self) -> Any:
        """The array, over the same memory."""
        return self._tensor.numpy()

    def shape(self) -> list[int]:
        """The extents."""
        return list(self._tensor.shape)

    def data_type(self) -> str:
        """`tensor(float)` and so on."""
        return f"tensor({_TYPES.get(self._tensor.dtype, self._tensor.dtype)})"

    def data_ptr(self) -> int:
        """The address of the first element."""
        address: int = numpy.from_dlpack(self._tensor).ctypes.data
        return address

    def device_name(self) -> str:
        """Memory of the host."""
        return "cpu"

    def has_value(self) -> bool:
        """Whether there is a tensor."""
        return True

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return True

    def tensor_size_in_bytes(self) -> int:
        """The number of bytes."""
        return self._tensor.nbytes

    def update_inplace(self, np_arr: Any) -> None:
        """Writes the elements."""
        target = self._tensor.numpy()
        if target.shape != np_arr.shape or target.dtype != np_arr.dtype:
            raise tenon.InvalidArgument(
                f"expected {target.dtype}{list(target.shape)}, found {np_arr.dtype}{list(np_arr.shape)}"
            )
        target[...] = np_arr

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()


def _expect_cpu(device_type: str) -> None:
    if device_type.lower() != "cpu":
        raise tenon.Unsupported(f"the device {device_type} is not supported: expected cpu")


def _dtype(element_type: Any) -> str:
    """The name in Tenon of a NumPy type."""
    return tenon.tensor(numpy.zeros(1, element_type)).dtype


def _array_at(address: int, element_type: Any, shape: Sequence[int]) -> Any:
    """The array at an address of the caller."""
    dtype = numpy.dtype(element_type)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if count == 0:
        return numpy.zeros(tuple(shape), dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return numpy.frombuffer(memory, dtype).reshape(tuple(shape))


class IOBinding:
    """Arrays of inputs and outputs for `InferenceSession.run_with_iobinding`."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an array."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a tensor."""
        self._inputs[name] = ortvalue._tensor

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory at an address, which must stay valid."""
        _expect_cpu(device_type)
        self._inputs[name] = _array_at(buffer_ptr, element_type, shape)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output: to new memory, or to memory at an address, which must stay valid."""
        _expect_cpu(device_type)
        if buffer_ptr is None:
            self._outputs[name] = None
        elif shape is None or element_type is None:
            raise tenon.InvalidArgument(f"output '{name}': an address needs element_type and shape")
        else:
            self._outputs[name] = _array_at(buffer_ptr, element_type, shape)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to a tensor."""
        self._outputs[name] = ortvalue

    def clear_binding_inputs(self) -> None:
        """Removes the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Removes the outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Does nothing: memory is the host's."""

    def synchronize_outputs(self) -> None:
        """Does nothing: memory is the host's."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last execution, in the order of their binding."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The arrays of the last execution."""
        return [value.numpy() for value in self._results]

    def _run(self, run_options: RunOptions | None) -> None:
        out = {
            name: value._tensor if isinstance(value, OrtValue) else value
            for name, value in self._outputs.items()
            if value is not None
        }
        outputs = self._session._execute(self._inputs, run_options, out)
        results = []
        for name in self._outputs:
            bound = self._outputs[name]
            results.append(bound if isinstance(bound, OrtValue) else OrtValue(outputs.tensor(name)))
        self._results = results


class InferenceSession:
    """A model that Tenon compiles, or a package, and runs."""

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        for name in kwargs:
            _warn_once(f"InferenceSession({name}=…) has no effect in Tenon")
        self._options = sess_options or SessionOptions()
        self._providers = list(_PROVIDERS)
        if providers is not None:
            self.set_providers(providers)
        threads = self._options.intra_op_num_threads or None
        self._model = _load(path_or_bytes, dict(self._options._dims), threads)
        self._names = [port.name for port in self._model.outputs]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Executes, and returns the outputs of these names, all by default."""
        names = list(output_names) if output_names else self._names
        unknown = [name for name in names if name not in self._names]
        if unknown:
            raise tenon.InvalidArgument(
                f"the model has no output '{unknown[0]}': expected one of {', '.join(self._names)}"
            )
        feed = {name: value._tensor if isinstance(value, OrtValue) else value for name, value in input_feed.items()}
        outputs = self._execute(feed, run_options, {})
        return [outputs[name] for name in names]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Executes on tensors and returns tensors."""
        feed = {name: value._tensor for name, value in input_dict_ort_values.items()}
        outputs = self._execute(feed, run_options, {})
        return [OrtValue(outputs.tensor(name)) for name in output_names or self._names]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Executes on the arrays of a binding."""
        iobinding._run(run_options)

    def _execute(
        self, feed: Mapping[str, Any], run_options: RunOptions | None, out: dict[str, Any]
    ) -> tenon.Outputs:
        if run_options is None:
            return self._model.run(feed, out=out or None)
        outputs = run_options._run(self._model, feed)
        for name, target in out.items():
            numpy.asarray(target)[...] = outputs[name]
        return outputs

    def get_inputs(self) -> list[NodeArg]:
        """The inputs."""
        return [NodeArg(port) for port in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [NodeArg(port, is_output=True) for port in self._model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: constants are part of the package."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """The metadata."""
        return ModelMetadata(self._model)

    def get_providers(self) -> list[str]:
        """The providers in order."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """No provider has options."""
        return {name: {} for name in self._providers}

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Any = None) -> None:
        """Names of other providers are reported; Tenon computes all nodes."""
        for provider in providers or []:
            name = provider if isinstance(provider, str) else provider[0]
            if name not in _PROVIDERS:
                _warn_once(f"{name} is not available in Tenon: expected one of {', '.join(_PROVIDERS)}")

    def get_session_options(self) -> SessionOptions:
        """The options."""
        return self._options

    def io_binding(self) -> IOBinding:
        """An empty binding."""
        return IOBinding(self)

    def disable_fallback(self) -> None:
        """Does nothing: there is no other provider."""

    def enable_fallback(self) -> None:
        """Does nothing: there is no other provider."""


def _load(source: str | os.PathLike[str] | bytes, dims: dict[str, int], threads: int | None) -> tenon.Model:
    """The model of an ONNX file or a package, by its first bytes."""
    if isinstance(source, bytes):
        head = source[:16]
    else:
        with open(source, "rb") as file:
            head = file.read(16)
    # A NEFF header: a version below 256, then its own size.
    if head[1:16] == bytes(7) + (1024).to_bytes(8, "little"):
        return tenon.load(source, threads=threads, progress=False)
    return tenon.load(tenon.compile(source, dims=dims, progress=False), threads=threads, progress=False)


def get_available_providers() -> list[str]:
    """The providers."""
    return list(_PROVIDERS)


def get_all_providers() -> list[str]:
    """The providers."""
    return list(_PROVIDERS)


def get_device() -> str:
    """The device."""
    return "CPU"


def get_version_string() -> str:
    """The version of Tenon."""
    return tenon.__version__
