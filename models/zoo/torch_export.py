"""Modules of PyTorch as ONNX files."""

import io

import onnx
import torch
from torch import nn

# torch's exporters: the default one, which writes opset 18 and later, and the older one.
GRAPH, TRACE = "torch.export", "trace"
OPSETS = {GRAPH: 20, TRACE: 17}


class Tensors(nn.Module):
    """A model that takes and returns tensors alone: named arguments, and all tensors of the result in order."""

    def __init__(self, model, names=None, images=False):
        super().__init__()
        self.model, self.names, self.images = model, names, images

    def forward(self, *values):
        if self.images:
            return tuple(tensors(self.model(list(values))))
        if self.names:
            return tuple(tensors(self.model(**dict(zip(self.names, values)))))
        return tuple(tensors(self.model(*values)))


def tensors(value):
    """The tensors in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for part in value for tensor in tensors(part)]


def calibrate(model, samples):
    """Sets the statistics of batch norms from some inputs, so that activations keep their scale."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    model.eval()
    if norms:
        for norm in norms:
            norm.train()
            norm.momentum = None
        with torch.no_grad():
            model(*samples)
    return model.eval()


def export(model, inputs, path, exporters, axes=None):
    """Writes the file with the first exporter that can. `axes` names the axes of an input whose sizes are symbolic. Returns the
    inputs as arrays."""
    errors = []
    for exporter in exporters:
        try:
            with torch.no_grad():
                write(model, inputs, path, exporter, axes or {})
            return {name: value.numpy() for name, value in inputs.items()}
        except Exception as error:
            errors.append(f"{type(error).__name__}: {' '.join(str(error).split())[:250]}")
    raise RuntimeError("; ".join(errors))


def write(model, inputs, path, exporter, axes):
    options = {"input_names": list(inputs), "opset_version": OPSETS[exporter], "dynamo": exporter == GRAPH}
    if exporter == GRAPH:
        if axes:
            options["dynamic_shapes"] = (tuple(axes.get(name, {}) for name in inputs),)
        program = torch.onnx.export(model, tuple(inputs.values()), verbose=False, **options)
        program.save(str(path), external_data=False)
    else:
        # In memory: torch writes another file for each tensor beside a large one.
        file = io.BytesIO()
        torch.onnx.export(model, tuple(inputs.values()), file, dynamic_axes=axes, **options)
        path.write_bytes(file.getvalue())
    onnx.checker.check_model(str(path))
