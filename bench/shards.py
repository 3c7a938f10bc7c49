"""Compares a server in one process with the same server split into shards.

The script measures the time of a whole search and the memory of each process.

    python3 bench/shards.py --rows 4000000 --shards 4 [--rounds 7]

With the server program of the container image, which is smaller:

    cargo build --profile image -p ifonly --no-default-features --features serve
    python3 bench/shards.py --rows 4000000 --servers target/image/ifonly

The script creates a table of integers from 0 to 100, where every value has its own level, and
builds a bundle. It searches over TLS at two servers, first with one process per server, then with
a frontend and shards per server, all on this machine. Every answer must be as near as the nearest
row that brute force finds. Needs numpy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy


def run(ifonly, *arguments):
    done = subprocess.run([ifonly, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ifonly {arguments[0]} failed: {done.stderr}")
    return done.stdout


class Process:
    def __init__(self, ifonly, *arguments):
        arguments = [ifonly, *map(str, arguments), "--log", "error"]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            sys.exit(f"{' '.join(arguments)} did not start: {line!r}")
        self.url = line.split()[-1]

    def memory(self, key="VmRSS"):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(key):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        self.process.terminate()
        self.process.wait()


def table(path, rows, features, random):
    values = random.integers(0, 101, size=(rows, features), dtype=numpy.int16)
    # Every level occurs in every column, so all columns get the same scale.
    values[:101, :] = numpy.arange(101)[:, None]
    with open(path, "w") as out:
        out.write(",".join(f"f{k}" for k in range(features)) + ",ok\n")
        for start in range(0, rows, 100_000):
            part = values[start : start + 100_000]
            numpy.savetxt(out, numpy.hstack([part, numpy.ones((len(part), 1), numpy.int16)]), fmt="%d", delimiter=",")
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ifonly", default="target/release/ifonly", help="the ifonly program")
    parser.add_argument("--servers", help="program for servers and shards; default: as --ifonly")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the table")
    parser.add_argument("--features", type=int, default=11, help="features of a row")
    parser.add_argument("--shards", type=int, default=4, help="shards of each server")
    parser.add_argument("--rounds", type=int, default=7, help="searches in each layout")
    parser.add_argument("--seed", type=int, default=1, help="seed of the table and the profiles")
    given = parser.parse_args()
    random = numpy.random.default_rng(given.seed)
    ifonly = str(pathlib.Path(given.ifonly).resolve())
    servers = str(pathlib.Path(given.servers or given.ifonly).resolve())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        values = table("table.csv", given.rows, given.features, random)
        print(f"building a bundle of {given.rows} rows", flush=True)
        run(ifonly, "build", "table.csv", "-o", "bundle", "--target", "ok", "--accept", "1")
        os.remove("table.csv")
        run(ifonly, "keygen", "-o", "root.key")
        run(ifonly, "keygen", "--shard-certificate", "shards.pem", "--names", "localhost")
        run(ifonly, "split", "bundle", "--parts", given.shards, "-o", "parts")
        tls = ["--cert", "shards.pem", "--cert-key", "shards.key"]
        common = ["--key", "root.key", *tls]
        pair = lambda flags: [
            Process(servers, "serve", *flags(index), "--index", index, *common, "--listen", "localhost:0")
            for index in (1, 2)
        ]
        whole = pair(lambda _: ["bundle"])
        shards = {
            index: [
                Process(servers, "shard", f"parts/part-{part}", *common)
                for part in range(given.shards)
            ]
            for index in (1, 2)
        }
        addresses = lambda index: ",".join(shard.url.split("//")[1] for shard in shards[index])
        mutual = ["--shards-cert", "shards.pem", "--shards-key", "shards.key"]
        frontends = pair(lambda index: ["parts/frontend", "--shards", addresses(index), *mutual])
        idle = [frontend.memory() for frontend in frontends]
        seconds = {"one process": [], "shards": []}
        for round in range(given.rounds):
            own = random.integers(0, 101, size=given.features)
            json.dump({f"f{k}": int(v) for k, v in enumerate(own)}, open("me.json", "w"))
            nearest = int(((values.astype(numpy.int32) - own) ** 2).sum(axis=1).min())
            for name, asked in (("one process", whole), ("shards", frontends)):
                urls = [server.url.replace("127.0.0.1", "localhost") for server in asked]
                flags = ["--profile", "me.json", "--ca", "shards.pem"]
                flags += [flag for url in urls for flag in ("--server", url)]
                began = time.perf_counter()
                found = json.loads(run(ifonly, "ask", "--json", *flags))
                seconds[name].append(time.perf_counter() - began)
                record = [int(found["record"][f"f{k}"]) for k in range(given.features)]
                if sum((a - b) ** 2 for a, b in zip(record, own)) != nearest:
                    sys.exit(
                        f"{name}: {record} is not the nearest row to {own.tolist()}; "
                        f"the smallest squared distance is {nearest}"
                    )
        print(
            f"{given.rounds} searches in each layout equal brute force over {given.rows} rows; "
            f"scheme {found['scheme']}"
        )
        for name, times in seconds.items():
            median = sorted(times)[len(times) // 2]
            print(f"{name}: best {min(times) * 1e3:.0f} ms, median {median * 1e3:.0f} ms")
        print(f"shards / one process: {min(seconds['shards']) / min(seconds['one process']):.2f}")
        # The all-or-nothing transform adds 24 bytes to each record in memory.
        part = sum(os.path.getsize(f"parts/part-0/{name}") for name in ("rows", "records"))
        part += 24 * (given.rows // given.shards)
        for index in (1, 2):
            worst = max(shard.memory("VmHWM") for shard in shards[index])
            print(
                f"server {index}: peak memory of a shard {worst / part:.3f} times its part "
                f"({part / 1e6:.0f} MB of rows and encoded records)"
            )
            frontend = frontends[index - 1]
            start = idle[index - 1]
            grown = (frontend.memory("VmHWM") - start) / given.rows
            print(
                f"server {index}: memory of the frontend {start / 1e6:.0f} MB at its start, "
                f"at peak {grown:.1f} bytes per row more, "
                f"{frontend.memory() / 1e6:.0f} MB at the end"
            )
        for process in [*whole, *frontends, *shards[1], *shards[2]]:
            process.stop()


main()
