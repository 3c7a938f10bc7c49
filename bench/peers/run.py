#!/usr/bin/env python3
"""Compares ifonly with other systems that find the nearest row, on the same rows in the same run.

    cargo build --release -p ifonly-bench
    python3 bench/peers/run.py [--rows 4000000] [--features 32] [--rounds 7] [--json FILE]

The script creates a virtual environment next to this file and installs requirements.txt into it.

Plaintext and exact: FAISS IndexFlatL2, the 8-bit scalar quantiser of FAISS, brute force with
scikit-learn, and numpy. Private: TenSEAL (BFV, one ciphertext per feature, 8192 rows per
ciphertext) and MPyC (three parties on this machine, distances and a secret argmin).

All systems use one thread and are timed by CPU clocks. The rounds of the systems alternate, and
each system keeps its best round. The two private systems are slow, so they get fewer rows; the
output says how many.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = HERE / ".venv"


def inside_the_environment():
    """Installs the other systems and restarts this script in their virtual environment."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    if not (VENV / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")], check=True
        )
        (VENV / "ready").touch()
    # Limit every library to one thread.
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    os.execve(str(python), [str(python), *sys.argv], {**os.environ, **threads})


class Ours:
    """The process scan-peer, which executes one step for each line of input."""

    def __init__(self, binary, rows, profile, directory):
        (directory / "rows.u8").write_bytes(rows.tobytes())
        (directory / "profile.u8").write_bytes(profile.tobytes())
        command = [str(binary), str(directory / "rows.u8"), str(rows.shape[1]), str(directory / "profile.u8")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.step("read")

    def step(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        seconds, row, distance = self.process.stdout.readline().split()
        return float(seconds), None if row == "-" else (int(row), int(distance))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def timed(work):
    # CPU time of this process, whose libraries use one thread. scan-peer also reports CPU time.
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def plaintext_peers(np, rows, profile):
    """Returns for each name a function that searches once and returns (row, squared distance)."""
    import faiss
    from sklearn.neighbors import NearestNeighbors

    faiss.omp_set_num_threads(1)
    d = rows.shape[1]
    floats = rows.astype(np.float32)
    query = profile.astype(np.float32)[None, :]
    flat = faiss.IndexFlatL2(d)
    flat.add(floats)
    quantised = faiss.IndexScalarQuantizer(d, faiss.ScalarQuantizer.QT_8bit_direct, faiss.METRIC_L2)
    quantised.train(floats[:1000])
    quantised.add(floats)
    brute = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(floats)

    def by_faiss(index):
        distances, found = index.search(query, 1)
        return int(found[0, 0]), int(round(float(distances[0, 0])))

    def by_sklearn():
        distances, found = brute.kneighbors(query)
        return int(found[0, 0]), int(round(float(distances[0, 0]) ** 2))

    def by_numpy():
        difference = floats - query
        squares = np.einsum("ij,ij->i", difference, difference)
        best = int(squares.argmin())
        return best, int(squares[best])

    return {
        "faiss IndexFlatL2": lambda: by_faiss(flat),
        "faiss 8-bit quantiser": lambda: by_faiss(quantised),
        "scikit-learn brute force": by_sklearn,
        "numpy": by_numpy,
    }


def tenseal_peer(np, rows, profile):
    """Returns the server CPU seconds for encrypted squared distances, after a check of them."""
    import tenseal as ts

    slots = 8192
    d = rows.shape[1]
    bound = 255 * 255 * d
    modulus = next(p for p in range((2 * bound // (2 * slots) + 1) * 2 * slots + 1, 1 << 40, 2 * slots) if is_prime(p))
    context = ts.context(ts.SCHEME_TYPE.BFV, poly_modulus_degree=slots, plain_modulus=modulus)
    encrypted = [ts.bfv_vector(context, [int(x)] * slots) for x in profile]
    chunks = [rows[at : at + slots].astype(np.int64) for at in range(0, len(rows), slots)]
    columns = [[(-2 * chunk[:, k]).tolist() + [0] * (slots - len(chunk)) for k in range(d)] for chunk in chunks]
    norms = [(chunk * chunk).sum(axis=1).tolist() + [0] * (slots - len(chunk)) for chunk in chunks]
    start = time.process_time()
    answers = []
    for column, norm in zip(columns, norms):
        total = encrypted[0] * column[0]
        for k in range(1, d):
            total += encrypted[k] * column[k]
        answers.append(total + norm)
    seconds = time.process_time() - start
    values = np.array([v for answer in answers for v in answer.decrypt()][: len(rows)])
    values += int((profile.astype(np.int64) ** 2).sum())
    truth = ((rows.astype(np.int64) - profile.astype(np.int64)) ** 2).sum(axis=1)
    if not np.array_equal(values % modulus, truth % modulus):
        raise SystemExit("The distances that TenSEAL computed are wrong.")
    return seconds


def is_prime(n):
    return n > 1 and all(n % p for p in range(2, int(n**0.5) + 1))


MPYC_PROGRAM = """
import json, sys, time
from mpyc.runtime import mpc
rows, profile = json.load(open(sys.argv[-1]))
async def main():
    number = mpc.SecInt(32)
    await mpc.start()
    secret = mpc.input([number(x) for x in profile], senders=0)
    start = time.process_time()
    wall = time.perf_counter()
    norms = [sum(y * y for y in row) for row in rows]
    costs = [number(n) - 2 * mpc.in_prod(secret, [number(y) for y in row]) for n, row in zip(norms, rows)]
    best, _ = mpc.argmin(costs)
    best = int(await mpc.output(best))
    wall = time.perf_counter() - wall
    cpu = time.process_time() - start
    await mpc.shutdown()
    if mpc.pid == 0:
        print(json.dumps([wall, cpu, best]))
mpc.run(main())
"""


def mpyc_peer(rows, profile, directory):
    """Returns wall-clock seconds, CPU seconds of one party, and the row found by three parties."""
    (directory / "mpyc_search.py").write_text(MPYC_PROGRAM)
    (directory / "rows.json").write_text(json.dumps([rows.tolist(), profile.tolist()]))
    command = [sys.executable, str(directory / "mpyc_search.py"), "-M3", "--no-log", str(directory / "rows.json")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    line = next(line for line in output.splitlines() if line.startswith("["))
    wall, cpu, best = json.loads(line)
    return wall, cpu, best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the table")
    parser.add_argument("--features", type=int, default=32, help="features of a row, one byte each")
    parser.add_argument("--rounds", type=int, default=7, help="rounds; each system keeps its best")
    parser.add_argument("--tenseal-rows", type=int, default=100_000, help="rows for TenSEAL")
    parser.add_argument("--mpyc-rows", type=int, default=200, help="rows for MPyC")
    default = ROOT / "target" / "release" / "scan-peer"
    parser.add_argument("--binary", type=pathlib.Path, default=default, help="program scan-peer")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results to this file")
    args = parser.parse_args()
    if not args.binary.exists():
        raise SystemExit(f"{args.binary} is missing: cargo build --release -p ifonly-bench")
    inside_the_environment()
    import numpy as np

    random = np.random.default_rng(1)
    rows = random.integers(0, 256, size=(args.rows, args.features), dtype=np.uint8)
    profile = random.integers(0, 256, size=args.features, dtype=np.uint8)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        ours = Ours(args.binary, rows, profile, directory)
        peers = plaintext_peers(np, rows, profile)
        best = {}
        found = {}
        for _ in range(args.rounds):
            for step, label in (("server", "one ifonly server"), ("both", "two ifonly servers and decoding")):
                seconds, nearest = ours.step(step)
                best[label] = min(best.get(label, seconds), seconds)
                found[label] = nearest
            for label, work in peers.items():
                seconds, nearest = timed(work)
                best[label] = min(best.get(label, seconds), seconds)
                found[label] = nearest
        ours.close()
        truth = found["numpy"]
        for label, nearest in found.items():
            # Systems may break ties differently, but all distances must be equal.
            if nearest is not None and nearest[1] != truth[1]:
                raise SystemExit(f"{label} found {nearest}, numpy found {truth}")

        few = rows[: args.tenseal_rows]
        ours_few = Ours(args.binary, few, profile, directory)
        server_few = min(ours_few.step("server")[0] for _ in range(50))
        tenseal = tenseal_peer(np, few, profile)
        server_few = min(server_few, min(ours_few.step("server")[0] for _ in range(50)))
        ours_few.close()
        fewest = rows[: args.mpyc_rows]
        mpyc_wall, mpyc_cpu, mpyc_row = mpyc_peer(fewest, profile, directory)
        distances = ((fewest.astype(np.int64) - profile.astype(np.int64)) ** 2).sum(axis=1)
        if distances[mpyc_row] != distances.min():
            raise SystemExit("MPyC did not find the nearest row.")

    flat = best["faiss IndexFlatL2"]
    report = {
        "machine": platform.processor() or platform.machine(),
        "rows": args.rows,
        "features": args.features,
        "best_seconds": best,
        "ratio_to_faiss_flat": {label: seconds / flat for label, seconds in best.items()},
        "tenseal": {
            "rows": args.tenseal_rows,
            "server_cpu_seconds": tenseal,
            "our_server_seconds": server_few,
            "ratio": tenseal / server_few,
        },
        "mpyc": {
            "rows": args.mpyc_rows,
            "wall_seconds": mpyc_wall,
            "party_cpu_seconds": mpyc_cpu,
            "cpu_per_row_ratio": mpyc_cpu / args.mpyc_rows / (best["one ifonly server"] / args.rows),
        },
    }
    print(
        f"{args.rows} rows of {args.features} bytes, one thread, "
        f"best of {args.rounds} interleaved rounds"
    )
    for label, seconds in sorted(best.items(), key=lambda item: item[1]):
        ratio = seconds / flat
        print(f"{label:32} {seconds * 1e3:10.2f} ms   {ratio:7.3f} times FAISS IndexFlatL2")
    print(
        f"TenSEAL, {args.tenseal_rows} rows: {tenseal:.2f} s of server CPU, "
        f"{tenseal / server_few:,.0f} times one ifonly server"
    )
    ratio = report["mpyc"]["cpu_per_row_ratio"]
    print(
        f"MPyC, {args.mpyc_rows} rows: {mpyc_wall:.2f} s, "
        f"CPU per party and row {ratio:,.0f} times one ifonly server"
    )
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
