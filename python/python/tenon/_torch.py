"""PyTorch modules as packages, and Tenon as a backend of `torch.compile`. Needs the packages torch and onnxscript."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tenon import _tenon
from tenon._compile import compile as compile_model
from tenon._errors import make_error

_LOAD_OPTIONS = frozenset({"threads", "max_in_flight", "nan_check"})
"""Options of the backend that are those of `tenon.load`; the others are those of `tenon.compile`."""


def from_torch(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    **options: Any,
) -> _tenon.Package:
    """Exports a PyTorch module to ONNX and compiles it.

    Weights become constants. A module in training mode is exported as it is: call `module.eval()` first.

    Args:
        module: a `torch.nn.Module`, or a `torch.export.ExportedProgram`.
        args: example inputs, on the CPU.
        kwargs: example inputs by name.
        output: the file to write the package to.
        dynamic_shapes: the dimensions that stay symbolic, as in `torch.onnx.export`: `{"x": {0: "batch"}}`.
        input_names: the names of the inputs; those of the parameters of `forward` by default.
        output_names: the names of the outputs.
        options: those of `tenon.compile`.

    Raises:
        ModuleNotFoundError: torch or onnxscript is not installed.
        InvalidArgument: a tensor is not on the CPU.
        Unsupported: PyTorch cannot export the module, or no backend supports some of its nodes.
    """
    torch = _import("torch")
    _import("onnxscript")
    tensors = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
    if isinstance(module, torch.nn.Module):
        tensors += [*module.parameters(), *module.buffers()]
    _check_devices(tensors)
    exported = _export(
        module,
        tuple(args),
        kwargs=dict(kwargs or {}),
        dynamic_shapes=dynamic_shapes,
        input_names=None if input_names is None else list(input_names),
        output_names=None if output_names is None else list(output_names),
    )
    return _compile(exported, output, options)


def backend(
    graph: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., list[Any]]:
    """Compiles a graph of TorchDynamo: `torch.compile(module, backend="tenon")`.

    Args:
        graph: the `torch.fx.GraphModule`.
        example_inputs: its inputs.
        options: those of `tenon.compile`, and `threads`, `max_in_flight`, `nan_check` of `tenon.load`.
    """
    _import("onnxscript")
    return CompiledGraph(graph, example_inputs, dict(options or {}))


class CompiledGraph:
    """A graph of TorchDynamo, compiled for each set of weights that it is called with.

    TorchDynamo passes weights as inputs, and its guards check neither their identity nor their values: one graph serves
    several modules of a class. Each call therefore compares the weights with those that were compiled.
    """

    def __init__(self, graph: Any, example_inputs: Sequence[Any], options: dict[str, Any]) -> None:
        torch = _import("torch")
        self._graph = graph
        self._load = {name: options.pop(name) for name in _LOAD_OPTIONS & options.keys()}
        self._options = {"progress": False, **options}
        self._signature = _GraphSignature(graph)
        tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
        _check_devices(tensors)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise _unsupported(
                "the graph needs gradients, which Tenon does not compute",
                "call the module under torch.no_grad() or torch.inference_mode(), or module.requires_grad_(False) first",
            )
        self._variants: list[_Variant] = []
        self._variant(example_inputs)

    def __call__(self, *args: Any) -> list[Any]:
        return self._variant(args).run(args)

    def _variant(self, args: Sequence[Any]) -> _Variant:
        """The package for the weights in `args`."""
        for variant in self._variants:
            if variant.is_current(args):
                return variant
        weights = [args[at] for at in self._signature.weights]
        # Weights that were written since then.
        self._variants = [variant for variant in self._variants if not variant.has_weights(weights)]
        torch = _import("torch")
        # The context of the compilation that this is called from would record guards and sizes of the export.
        with torch.no_grad(), torch._guards.tracing(None):
            package = _compile(self._signature.export(self._graph, args), None, self._options)
        model = package.load(**self._load)
        self._variants.append(_Variant(model, self._signature, weights))
        return self._variants[-1]


class _GraphSignature:
    """The inputs and outputs of a graph of TorchDynamo."""

    def __init__(self, graph: Any) -> None:
        torch = _import("torch")
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        (result,) = (node for node in graph.graph.nodes if node.op == "output")
        values = [node.meta.get("example_value") for node in inputs]
        is_weight = [
            (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type") is not None for node in inputs
        ]
        is_tensor = [isinstance(value, torch.Tensor) for value in values]
        self.weights = [at for at in range(len(inputs)) if is_tensor[at] and is_weight[at]]
        """Positions of the inputs that become constants."""
        self.tensors = [at for at in range(len(inputs)) if is_tensor[at] and not is_weight[at]]
        """Positions of the inputs of the package."""
        self.sizes: dict[int, int | tuple[int, int]] = {}
        """Integers by position: a constant, or the position of a tensor and its dimension."""
        for at, value in enumerate(values):
            if not is_tensor[at]:
                self.sizes[at] = self._size(value, values)
        self.dynamic_shapes = tuple(
            {at: torch.export.Dim.DYNAMIC for at, size in enumerate(values[tensor].shape) if _is_symbolic(size)}
            for tensor in self.tensors
        )
        self.count = len(inputs)
        outputs = [_value(argument) for argument in result.args[0]]
        self.outputs = [
            "tensor" if isinstance(value, torch.Tensor) else "size" if _is_symbolic(value) else value
            for value in outputs
        ]
        """`"tensor"`, `"size"`, or the constant."""

    def _size(self, value: Any, values: Sequence[Any]) -> int | tuple[int, int]:
        """Where an integer is found; one that is not the size of a tensor becomes a constant, with a guard."""
        if _is_symbolic(value):
            for at in self.tensors:
                for dimension, size in enumerate(values[at].shape):
                    if _is_symbolic(size) and size.node.expr == value.node.expr:
                        return at, dimension
        return int(value)

    def export(self, graph: Any, args: Sequence[Any]) -> Any:
        """The graph with the weights in `args` as an ONNX model."""
        torch = _import("torch")
        module = torch.nn.Module()
        for at in self.weights:
            module.register_buffer(f"weight_{at}", args[at].detach())

        def forward(*tensors: Any) -> Any:
            """The graph as a function of tensors, with tensors as results."""
            inputs: list[Any] = [None] * self.count
            for at in self.weights:
                inputs[at] = getattr(module, f"weight_{at}")
            for at, tensor in zip(self.tensors, tensors, strict=True):
                inputs[at] = tensor
            for at, size in self.sizes.items():
                inputs[at] = size if isinstance(size, int) else inputs[size[0]].shape[size[1]]
            results = zip(graph(*inputs), self.outputs, strict=True)
            return tuple(
                value if kind == "tensor" else torch.scalar_tensor(value, dtype=torch.int64)
                for value, kind in results
                if kind in ("tensor", "size")
            )

        module.forward = forward
        tensors = tuple(args[at].detach() for at in self.tensors)
        return _export(module.eval(), tensors, dynamic_shapes={"tensors": self.dynamic_shapes})


class _Variant:
    """A loaded model with the weights that are its constants."""

    def __init__(self, model: _tenon.Model, signature: _GraphSignature, weights: list[Any]) -> None:
        self._model = model
        self._signature = signature
        self._weights = weights
        self._versions = [_version(weight) for weight in weights]
        self._from_dlpack = _import("torch").from_dlpack

    def has_weights(self, weights: Sequence[Any]) -> bool:
        """Whether these are the weights, with any values."""
        return all(mine is other for mine, other in zip(self._weights, weights, strict=True))

    def is_current(self, args: Sequence[Any]) -> bool:
        """Whether the weights in `args` are those that were compiled, not written since."""
        compiled = zip(self._signature.weights, self._weights, self._versions, strict=True)
        return all(args[at] is weight and _version(weight) == version for at, weight, version in compiled)

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Runs the model on a graph's inputs and returns the graph's outputs."""
        outputs = self._model.run([args[at].detach() for at in self._signature.tensors])
        results: list[Any] = []
        position = 0
        for kind in self._signature.outputs:
            if kind not in ("tensor", "size"):
                results.append(kind)
                continue
            tensor = outputs.tensor(position)
            position += 1
            results.append(self._from_dlpack(tensor) if kind == "tensor" else tensor.tolist())
        return results


def _value(argument: Any) -> Any:
    """The example value of a node, or a constant."""
    return argument.meta.get("example_value") if hasattr(argument, "meta") else argument


def _is_symbolic(size: Any) -> bool:
    """Whether a size is not a constant."""
    return not isinstance(size, int) and hasattr(size, "node") and size.node.maybe_as_int() is None


def _version(tensor: Any) -> int | None:
    """The count of writes to a tensor; tensors of the inference mode have none."""
    version: int | None = None if tensor.is_inference() else tensor._version
    return version


def _import(name: str) -> Any:
    """Imports a package that Tenon does not depend on."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        text = f"PyTorch modules need the packages torch and onnxscript; {name} is missing: pip install {name}"
        raise ModuleNotFoundError(text, name=name) from error


def _check_devices(tensors: Sequence[Any]) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu":
            found = str(tensor.device)
            help = "move it with .to('cpu')"
            text = f"a tensor is not on the CPU: expected cpu, found {found}; {help}"
            raise make_error("InvalidArgument", text, None, "cpu", found, help, (text,))


def _export(module: Any, args: tuple[Any, ...], **options: Any) -> Any:
    """The `torch.onnx.ONNXProgram` of a module."""
    torch = _import("torch")
    try:
        exported = torch.onnx.export(module, args, dynamo=True, verbose=False, **options)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
        text = f"torch.onnx.export cannot export the module: {type(cause).__name__}: {line}"
        help = "replace that part of the module; torch.onnx.export(…, dynamo=True, report=True) reports each operator"
        raise _unsupported(text, help) from error
    specs = exported.exported_program.graph_signature.output_specs
    written = [str(spec.target) for spec in specs if spec.kind.name.endswith("MUTATION")]
    if written:
        text = f"the module writes to inputs or buffers, which a package does not: {', '.join(written)}"
        raise _unsupported(text, "call module.eval(), or return new tensors")
    return exported


def _compile(exported: Any, output: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> _tenon.Package:
    """Compiles an exported program."""
    with tempfile.TemporaryDirectory(prefix="tenon-torch-") as folder:
        # The weights in a separate file: a message of protobuf is limited to 2 GiB.
        path = Path(folder) / "model.onnx"
        exported.save(path, external_data=True)
        return compile_model(path, output, **options)


def _unsupported(text: str, help: str) -> Exception:
    return make_error("Unsupported", f"{text}; {help}", None, None, None, help, (text,))
