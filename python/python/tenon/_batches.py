"""A model that is executed on any number of rows: what `tenon.ray`, `tenon.dask` and `tenon.spark` share. Needs NumPy."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from tenon import _tenon
from tenon._compile import load
from tenon._errors import Error, make_error

PackageSource = str | os.PathLike[str] | bytes | _tenon.Package
"""A package: the path of a file, the bytes of one, or one in memory."""

_FROM_CONSTANT = "make it a constant: tenon.compile(…, constants={{{name!r}: …}})"


class BatchModel:
    """A model whose inputs and outputs have a row for each record in their first dimension.

    Rows are executed in batches of a size that the model supports. A last batch with fewer rows is padded with copies
    of its last row, and the outputs of these are dropped. It is pickled as the path, or the bytes, of the package.
    """

    def __init__(self, package: PackageSource, *, outputs: Sequence[str] | None = None, threads: int = 1) -> None:
        """Loads the package.

        Args:
            package: the package; a path is relative to the folder of this process.
            outputs: the outputs to return, by name; all by default.
            threads: the most threads of one execution.
        """
        self._source = portable(package)
        self._threads = threads
        self._model = load(self._source, threads=threads, progress=False)
        ports = {port.name: port for port in self._model.outputs}
        names = list(ports) if outputs is None else list(outputs)
        unknown = [name for name in names if name not in ports]
        if unknown:
            problems = [f"the model has no output {name!r}: expected {_names(ports)}" for name in unknown]
            raise invalid(problems, expected=_names(ports))
        self.inputs = {port.name: port for port in self._model.inputs}
        """The inputs by name, in order."""
        self.outputs = {name: ports[name] for name in names}
        """The outputs that are returned, by name, in order."""
        self.least, self.most = self._rows()

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_again, (self._source, list(self.outputs), self._threads)

    def run(self, inputs: Mapping[str, Any], places: Mapping[str, str] | None = None) -> dict[str, NDArray[Any]]:
        """Executes on any number of rows, also none.

        Args:
            inputs: an array of each input, all with the same number of rows.
            places: what errors call an input, such as a column; `input 'NAME'` by default.
        """
        names = {name: (places or {}).get(name, f"input {name!r}") for name in self.inputs}
        arrays = {name: as_array(inputs[name], port, names[name]) for name, port in self.inputs.items()}
        rows = next(iter({len(array) for array in arrays.values()}), 0)
        self.check(arrays, names)
        if rows == 0:
            # No kernel runs on empty tensors; the other extents of the outputs are those of a batch of zeros.
            zeros = {name: _zeros(port, self.least) for name, port in self.inputs.items()}
            return {name: array[:0] for name, array in self._execute(zeros, self.least).items()}
        parts = []
        for start in range(0, rows, self.most):
            count = min(self.most, rows - start)
            part = {name: array[start : start + count] for name, array in arrays.items()}
            parts.append(self._execute(part, count))
        if len(parts) == 1:
            return parts[0]
        return {name: numpy.concatenate([part[name] for part in parts]) for name in self.outputs}

    def check(self, arrays: Mapping[str, NDArray[Any]], places: Mapping[str, str] | None = None) -> None:
        """Compares types, shapes and counts of rows with the inputs; all problems are one error.

        An array without rows may have any shape: columns without rows often have one dimension.
        """
        names = {name: (places or {}).get(name, f"input {name!r}") for name in arrays}
        problems = []
        if len({len(array) for array in arrays.values()}) > 1:
            found = ", ".join(f"{len(array)} of {names[name]}" for name, array in arrays.items())
            problems.append(f"the inputs differ in their rows: found {found}")
        for name, array in arrays.items():
            problems += _problems(array, self.inputs[name], names[name]) if len(array) else []
        if problems:
            raise invalid(problems)

    def _execute(self, inputs: Mapping[str, NDArray[Any]], rows: int) -> dict[str, NDArray[Any]]:
        """Executes on at most `most` rows."""
        padded = {name: _padded(array, self.least) for name, array in inputs.items()}
        outputs = self._model.run(padded)
        return {name: outputs.tensor(name).numpy()[:rows] for name in self.outputs}

    def _rows(self) -> tuple[int, int]:
        """The least and the greatest number of rows of an execution."""
        symbols = self._model.symbols
        problems = []
        least, most = 1, 2**31 - 1
        for name, port in self.inputs.items():
            if port.kind != "tensor" or port.keys is not None:
                problems.append(f"input {name!r} is no tensor: expected a tensor, found a {_kind(port)}")
            elif not port.shape:
                help = _FROM_CONSTANT.format(name=name)
                problems.append(f"input {name!r} has no dimension for rows: expected one, found {_type(port)}; {help}")
            else:
                size = port.shape[0]
                bounds = (size, size) if isinstance(size, int) else symbols.get(size)
                if bounds is None:
                    problems.append(
                        f"the rows of input {name!r} are computed: expected a size or a symbol, found {size}"
                    )
                else:
                    least, most = max(least, bounds[0]), min(most, bounds[1])
        if not problems:
            sizes = {port.shape[0] for port in self.inputs.values()}
            if len(sizes) > 1 and any(isinstance(size, int) for size in sizes) or least > most:
                types = ", ".join(f"{name} {_type(port)}" for name, port in self.inputs.items())
                help = "make inputs that are equal for all rows constants: tenon.compile(…, constants=…)"
                problems.append(f"the inputs have different first dimensions: expected the rows, found {types}; {help}")
            by_row = [name for name, port in self.outputs.items() if port.shape and port.shape[0] in sizes]
            for name, port in self.outputs.items():
                if port.kind != "tensor":
                    problems.append(f"output {name!r} is no tensor: expected a tensor, found a {_kind(port)}")
                elif name not in by_row:
                    help = f"choose others with outputs={by_row}" if by_row else "no output has one"
                    found = _type(port)
                    problems.append(f"output {name!r} has no value for each row: expected one, found {found}; {help}")
        if problems:
            raise invalid(problems)
        return least, most


def _load_again(source: str | bytes, outputs: list[str], threads: int) -> BatchModel:
    """The model of a pickle."""
    return BatchModel(source, outputs=outputs, threads=threads)


def portable(package: PackageSource) -> str | bytes:
    """A package in a form that can be pickled: the absolute path, or the bytes."""
    if isinstance(package, (bytes, bytearray, memoryview, _tenon.Package)):
        return bytes(package)
    if isinstance(package, (str, os.PathLike)):
        return os.path.abspath(os.fspath(package))
    expected, found = "a path, bytes or tenon.Package", type(package).__name__
    help = "tenon.compile(…).write(path) writes one"
    raise invalid([f"this is no package: expected {expected}, found {found}; {help}"], expected, found, help)


def as_array(value: Any, port: _tenon.Port, place: str) -> NDArray[Any]:
    """The array of a column. Engines have columns whose rows are arrays."""
    array = numpy.asarray(value)
    if array.ndim == 0:
        raise invalid([f"{place} has no rows: expected {_type(port)}, found {_found(array)}"], place=place)
    if array.dtype != object or port.dtype == "string" or len(array) == 0:
        return array
    rows = [numpy.asarray(row) for row in array]
    shapes = sorted({row.shape for row in rows})
    if len(shapes) > 1:
        help = "pad the rows to one shape"
        found = " and ".join(map(str, shapes[:2]))
        raise invalid([f"{place} has rows of different shapes: found {found}; {help}"], None, found, help, place)
    return numpy.stack(rows)


def invalid(
    problems: Sequence[str],
    expected: str | None = None,
    found: str | None = None,
    help: str | None = None,
    place: str | None = None,
) -> Error:
    """An `InvalidArgument` of all problems."""
    return make_error("InvalidArgument", "\n".join(problems), place, expected, found, help, problems)


def import_engine(name: str, requirement: str) -> Any:
    """Imports a module of an engine, which Tenon does not depend on; `requirement` has all that the module needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        text = f"{error.name} is missing: pip install {requirement!r}"
        raise ModuleNotFoundError(text, name=error.name) from error


def _problems(array: NDArray[Any], port: _tenon.Port, place: str) -> list[str]:
    """What differs between an array and an input."""
    problems = []
    expected, found = _type(port), _found(array)
    if port.dtype != "string" and array.dtype.newbyteorder("=") != port.numpy_dtype:
        help = f"convert it with .astype(numpy.{port.numpy_dtype})"
        problems.append(f"{place} has elements of another type: expected {expected}, found {found}; {help}")
    if not _has_shape(array.shape[1:], port.shape[1:]):
        text = f"{place} has rows of another shape: expected {expected}, found {found}"
        extents = [extent for extent in port.shape[1:] if isinstance(extent, int)]
        if len(extents) == len(port.shape) - 1 and math.prod(extents) == math.prod(array.shape[1:]):
            text += f"; reshape it with .reshape{(-1, *extents)}"
        problems.append(text)
    return problems


def _padded(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with at least `rows` rows; further ones are copies of the last one."""
    missing = rows - len(array)
    return array if missing <= 0 else numpy.concatenate([array, numpy.repeat(array[-1:], missing, axis=0)])


def _zeros(port: _tenon.Port, rows: int) -> NDArray[Any]:
    """An input of zeros with one element in each symbolic dimension."""
    shape = (rows, *(extent if isinstance(extent, int) else 1 for extent in port.shape[1:]))
    return numpy.full(shape, "", object) if port.dtype == "string" else numpy.zeros(shape, port.numpy_dtype)


def _has_shape(found: Sequence[int], expected: Sequence[int | str]) -> bool:
    """Whether extents are those of dimensions; symbolic ones are checked by the execution."""
    return len(found) == len(expected) and all(
        isinstance(extent, str) or extent == size for size, extent in zip(found, expected, strict=True)
    )


def _type(port: _tenon.Port) -> str:
    """The type of a port as in the errors of executions."""
    return f"{port.dtype}[{', '.join(map(str, port.shape))}]"


def _found(array: NDArray[Any]) -> str:
    """The type of an array, with the same names where they exist."""
    try:
        name = _tenon.tensor(array.ravel()[:1]).dtype
    except Error:
        name = str(array.dtype)
    return f"{name}[{', '.join(map(str, array.shape))}]"


def _kind(port: _tenon.Port) -> str:
    return "map" if port.keys is not None else port.kind


def _names(ports: Mapping[str, Any]) -> str:
    return ", ".join(ports)
