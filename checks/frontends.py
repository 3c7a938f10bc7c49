#!/usr/bin/env python3
"""Measures two logical servers with two frontends each behind HAProxy, and drains frontends.

32 clients search at the same time. The script measures the throughput of one frontend and of two.
HAProxy passes TLS through and queries the admin port of each frontend for readiness. Halfway
through the last run, one frontend of each logical server receives SIGTERM. No search may fail, and
these frontends must end by themselves.

With --redis, every search needs a token. All frontends of a logical server count its budget in a
Redis that this script starts. At the end the script compares answered searches with counted ones.

    cargo build --release -p ifonly -p ifonly-bench
    python3 checks/frontends.py [--programs target/release] [--rows 20000] [--people 32]
        [--seconds 10] [--redis redis-server]

The script uses only the standard library, haproxy and openssl. It listens on loopback addresses and
ends all processes that it started.
"""
import argparse
import csv
import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

INDICES, FRONTENDS = (1, 2), ("a", "b")


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class TestBed:
    """A bundle, keys, a certificate, and the started processes."""

    def __init__(self, options, folder):
        self.options, self.folder, self.started = options, folder, []
        self.ifonly = options.programs / "ifonly"
        self.token = None
        rng = random.Random(options.seed)
        with open(folder / "loans.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["income", "debt", "age", "housing", "decision"])
            for _ in range(options.rows):
                numbers = rng.randint(10, 99), rng.randint(0, 40), rng.randint(18, 80)
                table.writerow([*numbers, rng.choice(["rent", "own"]), "yes"])
        run(self.ifonly, "build", folder / "loans.csv", "-o", folder / "loans.bundle",
            "--target", "decision", "--accept", "yes")
        run(self.ifonly, "keygen", "-o", folder / "root.key")
        run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
            "-keyout", folder / "tls.key", "-out", folder / "tls.pem")
        profile = {"income": 30, "debt": 20, "age": 40, "housing": "rent"}
        (folder / "me.json").write_text(json.dumps(profile))

    def start(self, *command, **more):
        process = subprocess.Popen([str(word) for word in command], **more)
        self.started.append(process)
        return process

    def redis(self):
        path = self.folder / "redis.sock"
        self.start(self.options.redis, "--port", "0", "--unixsocket", path, "--dir", self.folder,
                   "--appendonly", "yes", "--save", "", stdout=subprocess.DEVNULL)
        while not path.exists():
            time.sleep(0.01)
        printed = run(self.ifonly, "keygen", "--token", "clients", "--searches", "1000000")
        self.entry = printed[printed.index("[[tokens]]"):]
        # The output has two hexadecimal numbers: the token and its hash, which is in the entry.
        numbers = re.findall(r"\b[0-9a-f]{64}\b", printed)
        self.token = next(number for number in numbers if number not in self.entry)
        return f'ledger = "redis+unix://{path}"\n'

    def spent(self):
        """The searches that Redis counted for each logical server."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.folder / "redis.sock"))
            counts = []
            for index in INDICES:
                line.sendall(f"HGET ifonly:ledger:loans/{index} \"clients phase0\"\r\n".encode())
                counts.append(int(line.recv(100).split(b"\r\n")[1]))
            return counts

    def frontend(self, index, name, ledger):
        """Starts a frontend; returns its process, its port and its admin port."""
        path = self.folder / f"{index}{name}.toml"
        path.write_text(f'bundle = "loans.bundle"\nindex = {index}\nkeys = ["root.key"]\n'
                        f'listen = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n{ledger}'
                        f'[tls]\ncertificate = "tls.pem"\nkey = "tls.key"\n'
                        f"[limits]\nqueue = 256\naddress_percent = 100\n"
                        + (self.entry if self.token else ""))
        process = self.start(self.ifonly, "serve", "--config", path, "--log", "warn",
                             stdout=subprocess.PIPE, text=True)
        ports = [int(process.stdout.readline().rsplit(":", 1)[1]) for _ in range(2)]
        return process, *ports

    def balance(self, frontends):
        """Starts HAProxy for these frontends; returns its process and the addresses for clients."""
        lines = ["global", "  maxconn 2000", "defaults", "  mode tcp", "  timeout connect 2s",
                 "  timeout client 60s", "  timeout server 60s", "  retries 3", "  option redispatch"]
        addresses = []
        for index in INDICES:
            port = free_port()
            addresses.append(f"https://localhost:{port}")
            lines += [f"listen server{index}", f"  bind 127.0.0.1:{port}", "  balance leastconn",
                      "  option httpchk GET /readyz"]
            for name in FRONTENDS:
                if (index, name) in frontends:
                    _, public, admin = frontends[index, name]
                    check = f"check port {admin} inter 200ms fall 1"
                    lines.append(f"  server {name} 127.0.0.1:{public} {check}")
        path = self.folder / f"haproxy{len(self.started)}.cfg"
        path.write_text("\n".join(lines) + "\n")
        haproxy = self.start("haproxy", "-db", "-q", "-f", path)
        for address in addresses:
            while True:
                with socket.socket() as line:
                    if line.connect_ex(("127.0.0.1", int(address.rsplit(":", 1)[1]))) == 0:
                        break
                time.sleep(0.05)
        return haproxy, addresses

    def visit(self, addresses, meanwhile=None):
        """Runs the clients for some seconds; returns the numbers and the failures they printed."""
        options = self.options
        visitors = self.start(options.programs / "visitors", self.folder / "tls.pem",
                              self.folder / "me.json", options.people, options.seconds,
                              self.token or "-", *addresses, stdout=subprocess.PIPE, text=True)
        if meanwhile:
            threading.Timer(options.seconds / 2, meanwhile).start()
        said, _ = visitors.communicate()
        faults = [line for line in said.splitlines() if line.startswith("fault ")]
        others = [line for line in said.splitlines() if not line.startswith("fault ")]
        numbers = dict(line.split(" ", 1) for line in others)
        return {name: float(value) for name, value in numbers.items()}, faults

    def end(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
                process.wait()


def measure(bed):
    ledger = bed.redis() if bed.options.redis else ""
    keys = [(index, name) for index in INDICES for name in FRONTENDS]
    frontends = {(index, name): bed.frontend(index, name, ledger) for index, name in keys}
    single = {key: frontend for key, frontend in frontends.items() if key[1] == "a"}
    results, complaints, searches = {}, [], 0

    def drain():
        for index in INDICES:
            frontends[index, "b"][0].send_signal(signal.SIGTERM)

    one, two, drained = "one frontend", "two frontends", "two frontends, one drained"
    runs = (one, single, None), (two, frontends, None), (drained, frontends, drain)
    for what, chosen, meanwhile in runs:
        haproxy, addresses = bed.balance(chosen)
        numbers, faults = bed.visit(addresses, meanwhile)
        haproxy.kill()
        haproxy.wait()
        results[what] = numbers
        searches += numbers["searches"]
        print(f"{what}: {numbers['per_second']:.0f} searches per second, "
              f"p50 {numbers['p50_ms']:.0f} ms, p99 {numbers['p99_ms']:.0f} ms, "
              f"longest {numbers['longest_ms']:.0f} ms, "
              f"{numbers['failures']:.0f} of {numbers['searches']:.0f} failed", flush=True)
        complaints += [f"{what}: {fault}" for fault in faults]
    for index in INDICES:
        try:
            code = frontends[index, "b"][0].wait(timeout=40)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            status = "did not end" if code is None else f"ended with status {code}"
            complaints.append(f"the drained frontend of server {index} {status}")
    if bed.options.redis:
        counted = bed.spent()
        print(f"{searches:.0f} searches were answered; the two servers counted {counted}")
        # A retry after a broken connection may be counted twice, but every search at least once.
        if any(count < searches for count in counted):
            complaints.append("a server counted fewer searches than were answered")
    ratio = results[two]["per_second"] / results[one]["per_second"]
    tokens = "budgets in Redis" if bed.options.redis else "no tokens"
    print("\n".join(complaints))
    print(f"{bed.options.people} clients, {bed.options.rows} rows, {tokens}: "
          f"two frontends have {ratio:.2f} times the throughput of one; "
          f"{results[drained]['failures']:.0f} failures when one is drained: "
          f"{'FAILED' if complaints else 'passed'}")
    return not complaints


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    release = Path(__file__).resolve().parent.parent / "target/release"
    parser.add_argument("--programs", type=Path, default=release,
                        help="directory of the programs ifonly and visitors")
    parser.add_argument("--rows", type=int, default=20000, help="rows of the table")
    parser.add_argument("--people", type=int, default=32, help="concurrent clients")
    parser.add_argument("--seconds", type=int, default=10, help="duration of each run")
    parser.add_argument("--seed", type=int, default=1, help="seed of the table")
    parser.add_argument("--redis", help="program redis-server; use budgets and count them there")
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    with tempfile.TemporaryDirectory() as folder:
        bed = TestBed(options, Path(folder))
        try:
            right = measure(bed)
        finally:
            bed.end()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
