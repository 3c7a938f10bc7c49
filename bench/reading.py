#!/usr/bin/env python3
"""Instructions that a client takes to read an answer: the same whatever it holds, counted by callgrind.

    cargo build --release -p ifonly-scan --example reading
    python3 bench/reading.py

Nothing qualifies, half of the rows qualify, or a lie makes their costs impossible. The counts may differ by one in ten thousand, a
few instructions for records that were found or not; a branch on what a row holds costs a thousand times as much.
"""

import pathlib
import re
import subprocess
import sys

BINARY = pathlib.Path(__file__).resolve().parent.parent / "target" / "release" / "examples" / "reading"
ROWS = 50_000


def collected(case, k, times):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(BINARY), case, str(ROWS), str(k), str(times)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


def instructions(case, k):
    """One search; what one and three searches have in common is the making of the answers."""
    return (collected(case, k, 3) - collected(case, k, 1)) // 2


def main():
    uneven = False
    for k in (1, 10):
        counts = {case: instructions(case, k) for case in ("nothing", "half", "lie")}
        spread = max(counts.values()) / min(counts.values()) - 1
        uneven |= spread > 1e-4
        shown = ", ".join(f"{case} {count:,}" for case, count in counts.items())
        print(f"{ROWS} rows, {k} wanted: {shown}; they differ by {100 * spread:.4f}%")
    sys.exit(1 if uneven else 0)


if __name__ == "__main__":
    main()
