#!/usr/bin/env python3
"""Counts with callgrind the instructions that a client needs to decode an answer.

    cargo build --release -p ifonly-bench
    python3 bench/reading.py

The number of instructions must not depend on the content of the answer. The script compares three
cases: no row matches, half of the rows match, and a lying server makes the costs of the matching
rows impossible. The counts may differ by 0.01%: the client executes a few instructions more or
less for a record that was found or not. A branch on the content of a row would cost a thousand
times as much.
"""

import pathlib
import re
import subprocess
import sys

BINARY = pathlib.Path(__file__).resolve().parent.parent / "target" / "release" / "read-speed"
ROWS = 50_000


def collected(case, k, times):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(BINARY)]
    command += [case, str(ROWS), str(k), str(times)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


def instructions(case, k):
    """The instructions of one search, without the setup that creates the answers."""
    return (collected(case, k, 3) - collected(case, k, 1)) // 2


def main():
    uneven = False
    for k in (1, 10):
        counts = {case: instructions(case, k) for case in ("nothing", "half", "lie")}
        spread = max(counts.values()) / min(counts.values()) - 1
        uneven |= spread > 1e-4
        shown = ", ".join(f"{case} {count:,}" for case, count in counts.items())
        print(f"{ROWS} rows, {k} records requested: {shown}; difference {100 * spread:.4f}%")
    sys.exit(1 if uneven else 0)


if __name__ == "__main__":
    main()
