#!/usr/bin/env python3
"""Compares Python with the command line on one table: build, one search, memory of 1000 searches.

    cargo build --release -p ifonly
    pip install './python[all]'
    python python/benchmarks/speed.py

Both sides of every ratio are measured in one run, in turns. The smallest of several times counts,
because other programs can only add to it. The time of a search at the command line is that of
`ifonly ask` minus that of `ifonly profile`, which starts and connects to the servers but does not
search.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

import ifonly


def table(rows: int) -> pd.DataFrame:
    rng = random.Random(1)
    return pd.DataFrame(
        {
            "age": [rng.randint(18, 90) for _ in range(rows)],
            "income": [round(rng.lognormvariate(10, 0.8), 2) for _ in range(rows)],
            "debt": [round(rng.expovariate(1 / 5000), 2) for _ in range(rows)],
            "hours": [rng.randint(0, 120) / 2 for _ in range(rows)],
            "score": [rng.gauss(600, 80) for _ in range(rows)],
            "job": [rng.choice(["nurse", "baker", "pilot", "clerk", "cook"]) for _ in range(rows)],
            "housing": [rng.choice(["own", "rent", "free"]) for _ in range(rows)],
            "since": pd.to_datetime([1_500_000_000 + 86_400 * rng.randint(0, 3000) for _ in range(rows)], unit="s"),
        }
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ifonly", default=str(Path(__file__).resolve().parents[2] / "target/release/ifonly"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    frame = table(options.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame.to_parquet(folder / "table.parquet")
        ifonly.keygen(folder / "sign.key", signing_key=True)
        sign = ["--signing-key", str(folder / "sign.key"), "--replace"]

        def run(*command: object) -> object:
            return subprocess.run([options.ifonly, *map(str, command)], check=True, capture_output=True, text=True)

        build_there, build_here = [], []
        for _ in range(options.turns):
            build_there.append(seconds(lambda: run("build", folder / "table.parquet", "-o", folder / "there", *sign)))
            build_here.append(seconds(lambda: ifonly.build(frame, folder / "here", signing_key=folder / "sign.key", replace=True, progress=False)))
        print(
            f"building {options.rows} rows: {min(build_here):.2f} s from a DataFrame, {min(build_there):.2f} s from Parquet at the command line, "
            f"ratio {min(build_here) / min(build_there):.2f}"
        )
        person = frame.iloc[[0]]
        with ifonly.serve(folder / "here") as deployment:
            explainer = deployment.explainer()
            answer = explainer.generate_counterfactuals(person, only_up=["income"])[0]
            (folder / "me.json").write_text(json.dumps(answer._values))
            urls = sum((["--server", url] for url in deployment.servers), [])
            ask_there, ask_here, start_there = [], [], []
            for _ in range(3 * options.turns):
                start_there.append(seconds(lambda: run("profile", *deployment.servers)))
                ask_there.append(seconds(lambda: run("ask", *urls, "--profile", folder / "me.json", "--only-up", "income")))
                ask_here.append(seconds(lambda: explainer.generate_counterfactuals(person, only_up=["income"])))
            there = min(ask_there) - min(start_there)
            print(
                f"one search: {1e3 * min(ask_here):.0f} ms, {1e3 * there:.0f} ms at the command line "
                f"({1e3 * min(ask_there):.0f} ms less {1e3 * min(start_there):.0f} ms to start and connect), ratio {min(ask_here) / there:.2f}"
            )
            people = [answer._values] * 1000
            explainer.generate_counterfactuals(people[:100], progress=False)
            before = resident()
            took = seconds(lambda: explainer.generate_counterfactuals(people, progress=False))
            print(f"1000 searches in one call: {took:.0f} s, {before:.0f} MB before, {resident():.0f} MB after")


if __name__ == "__main__":
    main()
