#!/usr/bin/env python3
"""Measures the memory of one process that builds a bundle from a table of `bench/large.py`.

    python3 bench/build_memory.py 1000000 /tmp/large

The process collects the column statistics, encodes the rows and signs the first 2% of the records.
Then the measurement ends.
"""

import json
import resource
import sys
from pathlib import Path

import ifonly._ifonly as module


class Measured(Exception):
    """Ends the build when the measurement is complete."""


def at(stage: str, share: float) -> None:
    # Records are signed in batches of the same size, so later batches need no more memory.
    if stage == "signing" and share > 0.02:
        raise Measured


def main() -> None:
    rows, place = int(sys.argv[1]), Path(sys.argv[2])
    data = place / f"table-{rows}"
    if not data.exists():
        sys.exit(f"{data} is missing. Run first: python3 bench/large.py {rows} --place {place}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        options = {"output": str(place / "memory.bundle"), "name": "large"}
        module.build(str(data), json.dumps(options), None, None, at)
    except Measured:
        pass
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    print(
        f"{rows} rows: {used.ru_maxrss >> 10} MB, of which {before >> 10} MB before the build; "
        f"{seconds:.1f} CPU seconds"
    )


if __name__ == "__main__":
    main()
