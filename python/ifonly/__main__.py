"""``python -m ifonly`` and ``ifonly``: the command line."""

from __future__ import annotations

import signal
import sys

from . import _ifonly


def main() -> int:
    """Does what the arguments of this process say, and gives the exit code."""
    # The commands wait for signals themselves; Python's handler would only note them, for an interpreter that does not run meanwhile.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _ifonly.main(["ifonly", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
