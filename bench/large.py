#!/usr/bin/env python3
"""Builds one bundle in one process and with Ray workers; compares time, memory and the bytes.

    pip install './python[ray]' numpy
    python3 bench/large.py 50000000 --workers 2 --place /tmp/large

The script creates a seeded table of 16 features in Parquet files of a million rows, and reuses
files that already exist. It builds the table in one process, then with Ray, and prints a table of
time, CPU time and memory. It needs about 400 bytes of disk per row. `--rows-per-group` sets the
size of a row group, which is the smallest unit of work for a worker.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

WORDS = ["north", "south", "east", "west", "abroad"]
FILE_ROWS = 1_000_000


def make(place: Path, rows: int, group: int) -> None:
    """Writes the table file by file. The content of file n depends only on n."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    place.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        count = min(FILE_ROWS, rows - first)
        path = place / f"part-{number:04}.parquet"
        if path.exists() and pq.ParquetFile(path).metadata.num_rows == count:
            continue
        rng = np.random.default_rng([7, number])
        table = {f"grid{i}": rng.integers(18, 18 + 60 * (i + 1), count) for i in range(6)}
        table |= {f"decimal{i}": np.round(rng.normal(50, 12, count).clip(0, 99), 2) for i in range(4)}
        table |= {f"word{i}": np.array(WORDS)[rng.integers(0, 3 + i, count)] for i in range(3)}
        table |= {f"amount{i}": rng.integers(0, 1_000_000, count) for i in range(2)}
        table |= {"share": np.round(rng.random(count), 6)}
        new = path.with_suffix(".new")
        pq.write_table(pa.table(table), new, row_group_size=group)
        new.rename(path)


def run(how: str, data: Path, output: Path, workers: int, part_bytes: int) -> None:
    """Runs one build in this process and prints when each stage began."""
    import ifonly
    from ifonly import _progress

    began, stages = time.perf_counter(), {}
    plain = _progress.Bar.at

    def at(self, done, what=None):
        stages.setdefault(what, round(time.perf_counter() - began, 1))
        plain(self, done, what)

    _progress.Bar.at = at
    key = output.parent / "one.bundle.signing.key"
    wanted = {"name": "large", "replace": True, **({"signing_key": key} if key.exists() else {})}
    if how == "one":
        ifonly.build(data, output, **wanted)
    else:
        import ray
        import ifonly.ray

        ray.init(num_cpus=workers, log_to_driver=False, include_dashboard=False)
        # The clock starts here: the start of Ray is not measured.
        began = time.perf_counter()
        stages.clear()
        ifonly.ray.build(data, output, part_bytes=part_bytes, **wanted)
    seconds = round(time.perf_counter() - began, 1)
    print(json.dumps({"seconds": seconds, "stages": stages}), flush=True)


class Meter(threading.Thread):
    """Samples CPU time and memory of a process and its descendants five times per second."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.cpu, self.peak, self.together, self.ended = root, {}, {}, 0, threading.Event()

    def run(self) -> None:
        tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGESIZE")
        while not self.ended.wait(0.2):
            stats = {}
            for entry in os.listdir("/proc"):
                if entry.isdigit():
                    try:
                        text = Path(f"/proc/{entry}/stat").read_text()
                    except OSError:
                        continue
                    name, fields = text.split("(", 1)[1].rsplit(")", 1)[0], text.rsplit(")", 1)[1].split()
                    stats[int(entry)] = (name, int(fields[1]), int(fields[11]) + int(fields[12]))
            family, grown = {self.root}, True
            while grown:
                more = {pid for pid, (_, parent, _) in stats.items() if parent in family} - family
                family, grown = family | more, bool(more)
            together = 0
            for pid in family & stats.keys():
                try:
                    resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
                except OSError:
                    continue
                # Private memory only: mapped files and Ray's object store are shared.
                own = (resident - shared) * page
                self.cpu[pid] = stats[pid][2] / tick
                before = self.peak.get(pid, ("", 0))[1]
                self.peak[pid] = (stats[pid][0], max(before, own))
                together += own
            self.together = max(self.together, together)


def measured(how: str, data: Path, output: Path, workers: int, part_bytes: int) -> dict:
    command = [sys.executable, __file__, "0", "--how", how, "--data", data, "--output", output]
    command += ["--workers", str(workers), "--part-bytes", str(part_bytes)]
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    meter = Meter(child.pid)
    meter.start()
    printed, _ = child.communicate()
    meter.ended.set()
    meter.join()
    if child.returncode:
        sys.exit(f"The build ({how}) failed.")
    largest = max((peak for name, peak in meter.peak.values() if name not in ("gcs_server", "raylet")), default=0)
    checksums = (output / "checksums").read_bytes()
    return {
        **json.loads(printed.strip().splitlines()[-1]),
        "cpu": round(sum(meter.cpu.values())),
        "largest": largest >> 20,
        "together": meter.together >> 20,
        "checksums": hashlib.sha256(checksums).hexdigest()[:16],
        "bytes": sum(file.stat().st_size for file in output.iterdir()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int, help="rows of the table")
    parser.add_argument("--workers", type=int, default=2, help="Ray workers")
    parser.add_argument("--place", type=Path, default=Path("large"), help="directory for all files")
    parser.add_argument("--part-bytes", type=int, default=64 << 20, help="size of one part for Ray")
    parser.add_argument("--rows-per-group", type=int, default=FILE_ROWS, help="rows of a row group")
    parser.add_argument("--only", choices=["one", "ray"], help="run only one of the two builds")
    for hidden in ("--how", "--data", "--output"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.how:
        return run(given.how, Path(given.data), Path(given.output), given.workers, given.part_bytes)
    data = given.place / f"table-{given.rows}"
    make(data, given.rows, given.rows_per_group)
    columns = ["rows", "built by", "seconds", "CPU seconds", "largest process, MB"]
    columns += ["all processes, MB", "bundle, MB", "checksums"]
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    found = {}
    for how in ["one", "ray"] if given.only is None else [given.only]:
        output = given.place / f"{how}.bundle"
        shutil.rmtree(output, ignore_errors=True)
        row = found[how] = measured(how, data, output, given.workers, given.part_bytes)
        by = "one process" if how == "one" else f"Ray, {given.workers} workers"
        numbers = (row[key] for key in ("seconds", "cpu", "largest", "together"))
        cells = [f"{given.rows:,}", by, *numbers, row["bytes"] >> 20, row["checksums"]]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        print(f"  stages began at {row['stages']}", file=sys.stderr, flush=True)
        # The disk may not have room for two bundles. Comparing the checksums is enough.
        if how == "one" and given.only is None:
            shutil.rmtree(output)
    if len(found) == 2:
        same = found["one"]["checksums"] == found["ray"]["checksums"]
        print("equal bytes" if same else "DIFFERENT BYTES")
        sys.exit(not same)


if __name__ == "__main__":
    main()
