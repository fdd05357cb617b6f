"""What the extension module uses of Python for models: futures and pickles."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from tenon import _tenon


class RunFuture(Future[_tenon.Outputs]):
    """The outputs of an execution that a queue runs. It can be cancelled until it has ended."""

    def __init__(self, cancellation: Any) -> None:
        super().__init__()
        self._cancellation = cancellation

    def cancel(self) -> bool:
        """Cancels the execution, whether it waits or runs; `False` if it has ended."""
        # A future that is pending until its end can be cancelled while it runs.
        is_cancelled = super().cancel()
        if is_cancelled:
            self._cancellation.cancel()
        return is_cancelled

    def finish(self, outputs: _tenon.Outputs | None, error: BaseException | None) -> None:
        """Receives the result."""
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        elif outputs is not None:
            self.set_result(outputs)


def load_again(source: str | bytes, options: dict[str, Any]) -> _tenon.Model:
    """The model of a pickle."""
    return _tenon.load(source, **options)
