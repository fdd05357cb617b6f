"""Progress of long operations: a callback, or a bar on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], object]
"""Called with the step, the units done and all units (0: unknown)."""

_DELAY = 0.5
_INTERVAL = 0.1
_WIDTH = 24


class Bar:
    """A bar of one line, shown after half a second."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = 0.0
        self._length = 0

    def __call__(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._start < _DELAY or now - self._last < _INTERVAL:
            return
        self._last = now
        if total:
            filled = min(_WIDTH, _WIDTH * done // total)
            bar = "#" * filled + "." * (_WIDTH - filled)
            self._show(f"[{bar}] {min(100, 100 * done // total):3}% {step}")
        else:
            self._show(f"{step} {done or ''}".rstrip())

    def close(self) -> None:
        """Removes the line."""
        if self._length:
            self._write("\r" + " " * self._length + "\r")

    def _show(self, text: str) -> None:
        # Names in models send no escape sequences to the terminal.
        text = "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)[:100]
        self._write("\r" + text.ljust(self._length))
        self._length = len(text)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_shown() -> bool:
    """Whether a bar is of use: in a terminal or a notebook."""
    if sys.stderr is None:
        return False
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")


@contextmanager
def reporter(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """The callback of an operation."""
    if progress is None:
        progress = _is_shown()
    if progress is True:
        bar = Bar()
        try:
            yield bar
        finally:
            bar.close()
    elif progress is False:
        yield None
    else:
        yield progress
