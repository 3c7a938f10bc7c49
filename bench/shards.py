"""One server on one machine beside the same server in shards: time of a whole search, memory of each process, and brute force.

    python3 bench/shards.py --rows 4000000 --shards 4 [--rounds 7]
    cargo build --profile image -p ifonly --no-default-features --features serve
    python3 bench/shards.py --rows 4000000 --servers target/image/ifonly          servers as the image has them, which are smaller

Makes a table of whole numbers from 0 to 100 (every value a level of its own), builds a bundle of it, and asks two servers over TLS, each first in one
process and then as a front with shards, all on this machine. Both must find a row as near as the nearest that the table has. Needs numpy.
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
        sys.exit(f"ifonly {arguments[0]}: {done.stderr}")
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
    # Every level occurs in every column, so that all columns have the same scale.
    values[:101, :] = numpy.arange(101)[:, None]
    with open(path, "w") as out:
        out.write(",".join(f"f{k}" for k in range(features)) + ",ok\n")
        for start in range(0, rows, 100_000):
            part = values[start : start + 100_000]
            numpy.savetxt(out, numpy.hstack([part, numpy.ones((len(part), 1), numpy.int16)]), fmt="%d", delimiter=",")
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ifonly", default="target/release/ifonly")
    parser.add_argument("--servers", help="another program for servers and shards")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--features", type=int, default=11)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
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
        run(ifonly, "keygen", "--certificate", "inside.pem", "--names", "localhost")
        run(ifonly, "split", "bundle", "--parts", given.shards, "-o", "parts")
        inside = ["--cert", "inside.pem", "--cert-key", "inside.key"]
        pair = lambda flags: [
            Process(servers, "serve", *flags(index), "--index", index, "--key", "root.key", *inside, "--listen", "localhost:0")
            for index in (1, 2)
        ]
        whole = pair(lambda _: ["bundle"])
        shards = {
            index: [Process(servers, "shard", f"parts/part-{part}", "--key", "root.key", *inside) for part in range(given.shards)]
            for index in (1, 2)
        }
        addresses = lambda index: ",".join(shard.url.split("//")[1] for shard in shards[index])
        secret = ["--shards-cert", "inside.pem", "--shards-key", "inside.key"]
        fronts = pair(lambda index: ["parts/front", "--shards", addresses(index), *secret])
        idle = [front.memory() for front in fronts]
        best = {"one machine": [], "shards": []}
        for round in range(given.rounds):
            own = random.integers(0, 101, size=given.features)
            json.dump({f"f{k}": int(v) for k, v in enumerate(own)}, open("me.json", "w"))
            nearest = int(((values.astype(numpy.int32) - own) ** 2).sum(axis=1).min())
            for name, asked in (("one machine", whole), ("shards", fronts)):
                flags = [flag for server in asked for flag in ("--server", server.url.replace("127.0.0.1", "localhost"))]
                began = time.perf_counter()
                found = json.loads(run(ifonly, "ask", "--json", "--profile", "me.json", "--ca", "inside.pem", *flags))
                best[name].append(time.perf_counter() - began)
                record = [int(found["record"][f"f{k}"]) for k in range(given.features)]
                if sum((a - b) ** 2 for a, b in zip(record, own)) != nearest:
                    sys.exit(f"{name}: {record} is not the nearest to {own.tolist()}: {nearest}")
        print(f"{given.rounds} questions each equal brute force over {given.rows} rows; scheme {found['scheme']}")
        for name, times in best.items():
            print(f"{name}: {min(times) * 1e3:.0f} ms at best, {sorted(times)[len(times) // 2] * 1e3:.0f} ms in the middle")
        print(f"shards / one machine: {min(best['shards']) / min(best['one machine']):.2f}")
        # Records are sealed when they are loaded, which takes 24 bytes each.
        part = sum(os.path.getsize(f"parts/part-0/{name}") for name in ("rows", "records")) + 24 * (given.rows // given.shards)
        for index in (1, 2):
            worst = max(shard.memory("VmHWM") for shard in shards[index])
            print(f"server {index}: a shard had {worst / part:.3f} of its part at most, from its start on ({part / 1e6:.0f} MB of rows and sealed records)")
            front = fronts[index - 1]
            least = idle[index - 1]
            print(
                f"server {index}: the front had {least / 1e6:.0f} MB before the first question, "
                f"{(front.memory('VmHWM') - least) / given.rows:.1f} bytes per row more at most, {front.memory() / 1e6:.0f} MB at the end"
            )
        for process in [*whole, *fronts, *shards[1], *shards[2]]:
            process.stop()


main()
