"""The extension module: classes and functions over the Rust crate `tenon`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, final

from tenon._models import RunFuture
from tenon._reports import Comparison, Placement, Profile

__all__ = [
    "Bindings",
    "HostProgram",
    "Model",
    "Netlist",
    "Outputs",
    "Package",
    "Port",
    "Session",
    "Tensor",
    "__version__",
    "after_fork",
    "compare_package",
    "compile_model",
    "empty",
    "load",
    "main",
    "make_outputs",
    "quantize_model",
    "tensor",
    "write_file",
]

__version__: str

# `Any` in the place of an array: anything with DLPack or the buffer protocol, a list, a scalar.

@final
class Tensor:
    """An array in memory of Tenon, aligned to 64 bytes."""

    @property
    def dtype(self) -> str:
        """The data type by its name in Tenon: `f32`, `bf16`, `i64`, `bool`, `string`."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
    @property
    def nbytes(self) -> int:
        """The number of bytes."""
    def numpy(self) -> Any:
        """A NumPy array over the same memory. Elements below a byte and strings are copied."""
    def tolist(self) -> Any:
        """The elements as nested lists."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...
    def __len__(self) -> int: ...

def empty(shape: Sequence[int], dtype: str = "f32") -> Tensor:
    """An array of zeros, aligned to 64 bytes."""
def tensor(value: Any, dtype: str | None = None, shape: Sequence[int] | None = None) -> Tensor:
    """A copy of an array, list or number; of `bytes` with a type and a shape."""
@final
class Port:
    """An input or output of a model: name, data type, dimensions."""

    @property
    def name(self) -> str:
        """The name."""
    @property
    def kind(self) -> str:
        """`tensor`, `sequence`, `optional` or `optional-sequence`."""
    @property
    def dtype(self) -> str:
        """The data type by its name in Tenon: `f32`, `bf16`, `i64`, `bool`, `string`."""
    @property
    def shape(self) -> tuple[int | str, ...]:
        """The dimensions: an `int` of each fixed one, the symbol or expression of each symbolic one as a `str`."""
    @property
    def keys(self) -> tuple[str, ...] | tuple[int, ...] | None:
        """The keys of the columns of a map: all `str` or all `int`; `None` for other values."""
    @property
    def numpy_dtype(self) -> Any:
        """The type of NumPy or `ml_dtypes` with the same elements; needs the package."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Outputs:
    """The outputs of one execution: by name, by position, and in order when unpacked."""

    def __getitem__(self, key: str | int, /) -> Any: ...
    def __getattr__(self, name: str, /) -> Any: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    def keys(self) -> list[str]:
        """The names in order."""
    def values(self) -> list[Any]:
        """The arrays in order."""
    def items(self) -> list[tuple[str, Any]]:
        """Names and arrays in order."""
    def get(self, name: str, default: Any = None) -> Any:
        """The array of a name, or `default`."""
    def tensor(self, key: str | int) -> Any:
        """The output as `tenon.Tensor`, without NumPy."""

@final
class Package:
    """A package that a compilation made, in memory."""

    @property
    def inputs(self) -> list[Port]:
        """The inputs in order."""
    @property
    def outputs(self) -> list[Port]:
        """The outputs in order."""
    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the model."""
    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
    @property
    def placement(self) -> Placement:
        """The backend of each node, and why other backends refused it."""
    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, under a temporary name first: `path` is replaced as a whole or not at all."""
    def load(
        self,
        *,
        threads: int | None = None,
        max_in_flight: int | None = None,
        nan_check: bool = False,
        check_digests: bool = False,
        native_nodes: bool = False,
        timeout: float | None = None,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> Model:
        """Loads the package without a file."""
    def graph_text(self) -> str:
        """The optimised graph as text."""
    def program_text(self) -> str:
        """The host program as text."""
    def __bytes__(self) -> bytes: ...
    def _repr_html_(self) -> str: ...

@final
class Model:
    """A loaded package, ready to run on any number of threads."""

    @property
    def name(self) -> str:
        """The model's name."""
    @property
    def inputs(self) -> list[Port]:
        """The inputs in order."""
    @property
    def outputs(self) -> list[Port]:
        """The outputs in order."""
    @property
    def symbols(self) -> dict[str, tuple[int, int]]:
        """The symbolic dimensions: smallest and greatest size by name."""
    @property
    def metadata(self) -> dict[str, str]:
        """The model's metadata."""
    @property
    def placement(self) -> Placement:
        """The backend of each node, and why other backends refused it."""
    @property
    def states(self) -> dict[str, str]:
        """The states that the package declares: output names to input names."""
    @property
    def closed(self) -> bool:
        """Whether the model is closed."""
    def close(self) -> None:
        """Frees the model when its last execution, binding and session has ended. Later calls raise `Closed`."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    def __call__(self, *arrays: Any, **named: Any) -> Outputs: ...
    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        timeout: float | None = None,
        out: dict[str, Any] | None = None,
    ) -> Outputs:
        """Executes on arrays by name or in order. `out` has arrays that receive outputs."""
    def submit(self, inputs: Mapping[str, Any] | Sequence[Any], *, timeout: float | None = None) -> RunFuture:
        """Executes on a thread of the queue of the process; returns a `concurrent.futures.Future` of the outputs."""
    def bind(self, **dims: int) -> Bindings:
        """Memory for inputs and outputs that executions use in place. A model with symbolic dimensions needs their sizes."""
    def session(self, states: dict[str, str] | None = None) -> Session:
        """A session, which keeps states between executions: those of the package, or these outputs to inputs."""
    def profile(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        runs: int = 10,
        *,
        ceiling: bool = False,
        timeout: float | None = None,
    ) -> Profile:
        """Times of the kernels over some executions, and a trace of one more. `ceiling` measures the machine's peaks
        first, which takes some tenths of a second."""
    def tap(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        values: str = "*",
        *,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """The intermediate values whose name, or the name of whose node, matches a pattern (`*`, `?`), by name."""
    def _repr_html_(self) -> str: ...

@final
class Bindings:
    """Tensors that stay bound to the inputs and outputs of a model. An execution copies and allocates nothing."""

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The tensors of the inputs, by name. Writing their elements sets the inputs of the next execution."""
    @property
    def outputs(self) -> dict[str, Tensor]:
        """The tensors of the outputs, by name. Each execution overwrites their elements."""
    def set_input(self, name: str, tensor: Tensor) -> None:
        """Binds another tensor of Tenon to an input."""
    def run(self, *, timeout: float | None = None) -> None:
        """Executes on the bound tensors."""

@final
class Session:
    """A model whose states are kept between executions."""

    @property
    def inputs(self) -> list[Port]:
        """The inputs that are not states."""
    @property
    def outputs(self) -> list[Port]:
        """The outputs that are not states."""
    @property
    def states(self) -> dict[str, str]:
        """The states: output names to input names."""
    @property
    def steps(self) -> int | None:
        """The number of steps in the states that grow; `None` if no state grows or their extents differ."""
    def __call__(self, *arrays: Any, **named: Any) -> Outputs: ...
    def run(self, inputs: Mapping[str, Any] | Sequence[Any], *, timeout: float | None = None) -> Outputs:
        """Executes on arrays by name or in order: all inputs that are not states."""
    def fork(self) -> Session:
        """A session that continues from here by itself."""
    def reset(self) -> None:
        """Forgets all states."""
    def value(self, name: str) -> Any:
        """A copy of the value of a state, by the name of its output or input; `None` before the first execution."""
    def set_value(self, name: str, value: Any) -> None:
        """Sets the value of a state, by the name of its output or input, to a copy of an array."""
    def truncate(self, steps: int) -> None:
        """Goes back to the first `steps` steps of the states that grow."""

@final
class Netlist:
    """A netlist that was read and checked."""

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    @staticmethod
    def parse(text: str, name: str = "netlist.yaml") -> Netlist:
        """The netlist of a text; messages have `name` in place of a file."""
    @property
    def programs(self) -> list[str]:
        """The programs in the order of the file."""
    @property
    def params(self) -> dict[str, int]:
        """The parameters of the programs, `$` included, with their default values."""
    def run(
        self,
        inputs: dict[str, Any] | None = None,
        *,
        programs: Sequence[str] | None = None,
        params: dict[str, int] | None = None,
        seed: int = 0,
        loops: int = 1,
        threads: int | None = None,
        timeout: float | None = None,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> dict[str, Any]:
        """Runs programs on arrays `[n, t, rows, columns]` of host queues and rams; others are generated. Returns the
        arrays of output queues and rams by name."""

@final
class HostProgram:
    """A host program."""

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    @staticmethod
    def parse(program: str | bytes, name: str = "program") -> HostProgram:
        """The program of MLIR text (`str`) or of BEF (`bytes`); messages have `name` in place of a file."""
    def run(
        self,
        functions: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """Runs functions without arguments, all by default, and returns what they print."""
    def __bytes__(self) -> bytes: ...

def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file as a whole or not at all."""
def quantize_model(
    model: str | os.PathLike[str] | bytes,
    samples: Any,
    *,
    scheme: str,
    block_size: int,
    method: str,
    percentile: float,
    exclude: Sequence[str],
    max_node_error: float,
    labels: Sequence[int] | None,
    dims: Mapping[str, Any],
    linked_folders: Sequence[str | os.PathLike[str]],
    signature: str | None,
    weights: tuple[list[str], dict[str, Any]],
    timeout: float | None,
    progress: Callable[[str, int, int], object] | None,
) -> tuple[bytes, str]:
    """Quantises the ONNX or LiteRT file of a path, or its bytes; returns the bytes of the quantised one and the report as JSON."""

def compile_model(
    model: str | bytes,
    *,
    dims: dict[str, Any],
    pad: dict[str, float],
    constants: dict[str, Any],
    known_inputs: dict[str, Any],
    backends: Sequence[str],
    hints: Sequence[tuple[str, str]],
    precisions: Sequence[str],
    cpu: str,
    states: bool | dict[str, str],
    symbolic: bool,
    linked_folders: Sequence[str | os.PathLike[str]],
    signature: str | None,
    weights: tuple[list[str], dict[str, Any]],
    timeout: float | None,
    progress: Callable[[str, int, int], object] | None,
) -> Package:
    """Compiles the ONNX or LiteRT file of a path, or its bytes."""
def compare_package(
    package: Package,
    inputs: Mapping[str, Any] | Sequence[Any],
    backends: tuple[str, str],
    relative: float | None,
    absolute: float | None,
    steps: int | None,
    timeout: float | None,
) -> Comparison:
    """Runs a package and compares each node on two backends."""
def load(
    package: str | os.PathLike[str] | bytes | Package,
    *,
    threads: int | None = None,
    max_in_flight: int | None = None,
    nan_check: bool = False,
    check_digests: bool = False,
    native_nodes: bool = False,
    timeout: float | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> Model:
    """Loads a package from a file, from bytes, or from `tenon.Package`."""
def make_outputs(names: Sequence[str], values: Sequence[Any], maps: Sequence[str | None]) -> Outputs:
    """The outputs of a pickle: names; tensors, lists of tensors, or `None`; and the keys of maps as text."""
def after_fork() -> None:
    """Runs in the child of a fork (`os.register_at_fork`)."""
def main(arguments: Sequence[str]) -> int:
    """Runs the `tenon` command with these arguments, the name of the program first; returns its exit status."""
