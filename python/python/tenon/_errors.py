"""The exceptions of Tenon. Each has the parts of its message as attributes."""

from __future__ import annotations

from collections.abc import Sequence


class Error(Exception):
    """An error of Tenon."""

    kind: str
    """The kind: `InvalidModel`, `Unsupported`, `DeadlineExceeded`."""
    place: str | None
    """The file, member, field or node."""
    expected: str | None
    """The expected value."""
    found: str | None
    """The value found instead."""
    help: str | None
    """The remedy."""
    problems: Sequence[str]
    """All problems of the same input; the first one is this error's."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.kind = type(self).__name__
        self.place = None
        self.expected = None
        self.found = None
        self.help = None
        self.problems = (message,)


class InvalidModel(Error, ValueError):
    """A source model is malformed."""


class InvalidPackage(Error, ValueError):
    """A package is malformed."""


class InvalidProgram(Error, ValueError):
    """A host program is malformed."""


class InvalidArgument(Error, ValueError):
    """An argument has a wrong type, shape, range or name."""


class Unsupported(Error, NotImplementedError):
    """Well-formed, but not supported; `problems` has all reasons."""


class NotFound(Error, LookupError):
    """A member, tensor, backend or kernel of that name does not exist."""


class FileNotFound(NotFound, FileNotFoundError):
    """A file does not exist."""

    # The inherited one is that of LookupError, which refuses this class. tblib, with which Dask pickles errors, calls it.
    __new__ = FileNotFoundError.__new__  # type: ignore[assignment]


class IoError(Error, OSError):
    """An input or output operation failed."""


class OutOfMemory(Error, MemoryError):
    """Memory, or a limit on it, is exhausted."""


class OutOfBounds(Error, IndexError):
    """An index read from data is outside of its tensor."""


class Closed(Error, ValueError):
    """The model is closed."""


class Cancelled(Error):
    """The work was cancelled."""


class DeadlineExceeded(Error, TimeoutError):
    """The work did not end within its timeout."""


class ExecutionFailed(Error, RuntimeError):
    """A kernel failed."""


_CLASSES: dict[str, type[Error]] = {
    "Usage": InvalidArgument,
    "InvalidArgument": InvalidArgument,
    "BadInput": InvalidArgument,
    "InvalidModel": InvalidModel,
    "InvalidPackage": InvalidPackage,
    "InvalidProgram": InvalidProgram,
    "UnsupportedVersion": Unsupported,
    "Unsupported": Unsupported,
    "NotFound": NotFound,
    "Absent": NotFound,
    "FileNotFound": FileNotFound,
    "Io": IoError,
    "OutOfMemory": OutOfMemory,
    "OutOfBounds": OutOfBounds,
    "Closed": Closed,
    "Cancelled": Cancelled,
    "DeadlineExceeded": DeadlineExceeded,
    "ExecutionFailed": ExecutionFailed,
}


def make_error(
    kind: str,
    message: str,
    place: str | None,
    expected: str | None,
    found: str | None,
    help: str | None,
    problems: Sequence[str],
) -> Error:
    """The exception of an error; the extension module calls it."""
    error = _CLASSES.get(kind, Error)(message)
    error.kind = "NotFound" if kind == "FileNotFound" else kind
    error.place = place
    error.expected = expected
    error.found = found
    error.help = help
    error.problems = tuple(problems)
    return error
