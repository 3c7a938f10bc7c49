"""The command line: ``python -m ifonly`` and ``ifonly``."""

from __future__ import annotations

import signal
import sys

from . import _ifonly


def main() -> int:
    """Runs the command of this process and returns its exit code."""
    # The commands handle signals themselves. Python's handler would only set a flag for the
    # interpreter, which does not run during a command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _ifonly.main(["ifonly", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
