#!/usr/bin/env python3
"""The memory of one process that learns and encodes a table of `bench/large.py` and begins to sign it.

    python3 bench/build_memory.py 1000000 /tmp/large
"""

import json
import resource
import sys
from pathlib import Path

import ifonly._ifonly as module



class Enough(Exception):
    pass


def at(stage: str, share: float) -> None:
    # Signing goes on batch by batch; what comes behind is more of the same.
    if stage == "signing" and share > 0.02:
        raise Enough


def main() -> None:
    rows, place = int(sys.argv[1]), Path(sys.argv[2])
    data = place / f"table-{rows}"
    if not data.exists():
        sys.exit(f"first: python3 bench/large.py {rows} --place {place}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        options = {"output": str(place / "memory.bundle"), "name": "large"}
        module.build(str(data), json.dumps(options), None, None, at)
    except Enough:
        pass
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    print(f"{rows} rows: {used.ru_maxrss >> 10} MB, {before >> 10} MB before the build; {seconds:.1f} processor seconds")


if __name__ == "__main__":
    main()
