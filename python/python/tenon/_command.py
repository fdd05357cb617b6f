"""The `tenon` command."""

import signal
import sys

from tenon import _tenon


def main() -> None:
    """Runs the command of `sys.argv`."""
    # Signals end the process, as they end the command without Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_tenon.main(["tenon", *sys.argv[1:]]))
