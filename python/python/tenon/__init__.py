"""Tenon compiles ONNX models into packages and runs them on the CPU.

    import tenon

    tenon.compile("model.onnx").write("model.neff")
    model = tenon.load("model.neff")
    outputs = model(x=[[1.0, 2.0, 3.0]])

Arrays are those of any library with DLPack or the buffer protocol: NumPy, PyTorch, JAX. NumPy is not needed.
"""

import os as _os

from tenon import _tenon
from tenon._compile import compare, compile, load
from tenon._errors import (
    Cancelled,
    Closed,
    DeadlineExceeded,
    Error,
    ExecutionFailed,
    FileNotFound,
    InvalidArgument,
    InvalidModel,
    InvalidPackage,
    InvalidProgram,
    IoError,
    NotFound,
    OutOfBounds,
    OutOfMemory,
    Unsupported,
)
from tenon._models import RunFuture
from tenon._quantize import QuantizedModel, quantize
from tenon._reports import (
    ComparedNode,
    Comparison,
    Divergence,
    MemoryTraffic,
    PlacedNode,
    Placement,
    Profile,
    ProfileRow,
    QuantizationReport,
    QuantizedNode,
    QuantizedOutput,
    Refusal,
    SkippedNode,
)
from tenon._tenon import (
    Bindings,
    HostProgram,
    Model,
    Netlist,
    Outputs,
    Package,
    Port,
    Session,
    Tensor,
    empty,
    tensor,
)
from tenon._torch import from_torch

__all__ = [
    "Bindings",
    "Cancelled",
    "Closed",
    "ComparedNode",
    "Comparison",
    "DeadlineExceeded",
    "Divergence",
    "Error",
    "ExecutionFailed",
    "FileNotFound",
    "HostProgram",
    "InvalidArgument",
    "InvalidModel",
    "InvalidPackage",
    "InvalidProgram",
    "IoError",
    "MemoryTraffic",
    "Model",
    "Netlist",
    "NotFound",
    "OutOfBounds",
    "OutOfMemory",
    "Outputs",
    "Package",
    "PlacedNode",
    "Placement",
    "Port",
    "Profile",
    "ProfileRow",
    "QuantizationReport",
    "QuantizedModel",
    "QuantizedNode",
    "QuantizedOutput",
    "Refusal",
    "RunFuture",
    "Session",
    "SkippedNode",
    "Tensor",
    "Unsupported",
    "compare",
    "compile",
    "empty",
    "from_torch",
    "load",
    "quantize",
    "tensor",
]

__version__: str = _tenon.__version__

_os.register_at_fork(after_in_child=_tenon.after_fork)

for _name in __all__:
    # The public names are those of this module.
    if isinstance(_value := globals()[_name], type) and _value.__module__.startswith("tenon._"):
        _value.__module__ = "tenon"
del _name, _value
