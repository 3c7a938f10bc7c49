#!/usr/bin/env python3
"""Writes a table of 30 columns of mixed kinds as CSV and as Parquet, to time `ifonly build`.

    pip install numpy pyarrow
    python3 bench/table.py 1000000 big
    /usr/bin/time -v target/release/ifonly build big.csv -o big.bundle \\
        --target approved --accept yes
"""

import csv
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = np.array(
    ["north", "south", "east", "west", "centre", "abroad", "unknown place", "somewhere else"]
)


def columns(rows):
    rng = np.random.default_rng(7)
    table = {f"grid{i}": rng.integers(18, 18 + 60 * (i + 1), rows) for i in range(6)}
    table |= {f"float{i}": np.round(rng.normal(50, 12, rows), 4 + i % 3) for i in range(6)}
    table |= {f"skewed{i}": np.round(np.exp(rng.normal(7, 1.5, rows)), 2) for i in range(5)}
    table |= {f"zero{i}": np.where(rng.random(rows) < 0.8, 0, rng.integers(0, 100_000, rows)) for i in range(3)}
    table |= {f"word{i}": WORDS[rng.integers(0, 3 + i, rows)] for i in range(5)}
    days = lambda: np.datetime64("1990-01-01") + rng.integers(0, 9_000, rows).astype("timedelta64[D]")
    table |= {f"date{i}": days().astype(str) for i in range(2)}
    table |= {"amount": rng.integers(0, 1_000_000, rows), "share": rng.random(rows)}
    return table | {"approved": np.where(rng.random(rows) < 0.8, "yes", "no")}


def main():
    rows, name = int(sys.argv[1]), sys.argv[2]
    table = {column: values.tolist() for column, values in columns(rows).items()}
    with open(f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values()))
    pq.write_table(pa.table(table), f"{name}.parquet")


if __name__ == "__main__":
    main()
