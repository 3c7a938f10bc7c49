#!/usr/bin/env python3
"""Counts the instructions per row of every kernel with callgrind.

Other programs on the machine change times, but not instruction counts.

    cargo build --release -p ifonly-bench
    python3 bench/instructions.py            # prints the counts, compares with instructions.json
    python3 bench/instructions.py --write    # records the counts

Each kernel runs once and three times on the same rows. Half of the difference is one run without
the setup. The comparison fails if a count grew by more than 3%. Compilers also change the counts,
so the record names the compiler.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target" / "release" / "kernel-repeat"
RECORD = ROOT / "bench" / "instructions.json"
ROWS = 19_200
KERNELS = [
    "linear", "linear-61-bit", "u16-linear", "squares", "table", "gated", "gated-table", "order",
    "decode-2", "decode-3", "xor", "gf256",
]  # fmt: skip


def collected(kernel, backend, times):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(BINARY)]
    command += [kernel, backend, str(ROWS), str(times)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


def main():
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    counts = {}
    for backend in ("portable", "avx2"):
        for kernel in KERNELS:
            per_row = (collected(kernel, backend, 3) - collected(kernel, backend, 1)) / 2 / ROWS
            counts[f"{kernel} {backend}"] = round(per_row, 2)
            print(f"{kernel:16} {backend:10} {per_row:10.2f} instructions per row", flush=True)
    if "--write" in sys.argv:
        record = {"compiler": compiler, "rows": ROWS, "instructions_per_row": counts}
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
        return
    record = json.loads(RECORD.read_text())
    if record["compiler"] != compiler:
        print(f"recorded with {record['compiler']}, counted with {compiler}")
    grown = {
        name: (record["instructions_per_row"][name], count)
        for name, count in counts.items()
        if name in record["instructions_per_row"] and count > 1.03 * record["instructions_per_row"][name]
    }
    for name, (before, now) in grown.items():
        print(f"{name}: {before} before, {now} now")
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
