#!/usr/bin/env python3
"""Two logical servers with two fronts each behind HAProxy, asked by 32 people at once: throughput of one front and of two, and
what becomes of searches when fronts are drained meanwhile.

HAProxy passes TLS through and asks each front's admin port whether it is ready. Halfway through the last run one front of each
logical server gets SIGTERM: no search may fail, and the fronts must end by themselves. With --redis, every search needs a token whose budget
all fronts of a logical server count in a Redis that this script starts; in the end it compares what was sold with what was counted.

    cargo build --release -p ifonly && cargo build --release -p ifonly-client --example visitors
    python3 checks/fronts.py --programs target/release [--rows 20000] [--people 32] [--seconds 10] [--redis redis-server]

Standard library only; needs haproxy and openssl, uses loopback addresses, ends what it starts.
"""
import argparse, csv, json, random, signal, socket, subprocess, sys, tempfile, threading, time
from pathlib import Path

INDICES, FRONTS = (1, 2), ("a", "b")


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Desk:
    """A bundle, keys, a certificate, and the processes."""

    def __init__(self, options, folder):
        self.options, self.folder, self.started = options, folder, []
        self.ifonly = options.programs / "ifonly"
        self.token = None
        rng = random.Random(options.seed)
        with open(folder / "loans.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["income", "debt", "age", "housing", "decision"])
            for _ in range(options.rows):
                table.writerow([rng.randint(10, 99), rng.randint(0, 40), rng.randint(18, 80), rng.choice(["rent", "own"]), "yes"])
        run(self.ifonly, "build", folder / "loans.csv", "-o", folder / "loans.bundle", "--target", "decision", "--accept", "yes")
        run(self.ifonly, "keygen", "-o", folder / "root.key")
        run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
            "-keyout", folder / "tls.key", "-out", folder / "tls.pem")
        (folder / "me.json").write_text(json.dumps({"income": 30, "debt": 20, "age": 40, "housing": "rent"}))

    def start(self, *command, **more):
        process = subprocess.Popen([str(word) for word in command], **more)
        self.started.append(process)
        return process

    def redis(self):
        path = self.folder / "redis.sock"
        self.start(self.options.redis, "--port", "0", "--unixsocket", path, "--dir", self.folder, "--appendonly", "yes",
                   "--save", "", stdout=subprocess.DEVNULL)
        while not path.exists():
            time.sleep(0.01)
        printed = run(self.ifonly, "keygen", "--token", "everybody", "--sessions", "1000000")
        self.token = printed.splitlines()[0].rsplit(" ", 1)[1]
        self.entry = printed[printed.index("[[tokens]]"):]
        return f'ledger = "redis+unix://{path}"\n'

    def spent(self):
        """What the Redis has counted: searches begun at each logical server."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.folder / "redis.sock"))
            counts = []
            for index in INDICES:
                line.sendall(f"HGET ifonly:ledger:loans/{index} \"everybody phase0\"\r\n".encode())
                counts.append(int(line.recv(100).split(b"\r\n")[1]))
            return counts

    def front(self, index, name, ledger):
        """A front: its process, its port and its admin port."""
        path = self.folder / f"{index}{name}.toml"
        path.write_text(f'bundle = "loans.bundle"\nindex = {index}\nkeys = ["root.key"]\nlisten = "127.0.0.1:0"\n'
                        f'admin = "127.0.0.1:0"\n{ledger}[tls]\ncertificate = "tls.pem"\nkey = "tls.key"\n'
                        f"[limits]\nqueue = 256\naddress_share = 100\n" + (self.entry if self.token else ""))
        process = self.start(self.ifonly, "serve", "--config", path, "--log", "warn", stdout=subprocess.PIPE, text=True)
        ports = [int(process.stdout.readline().rsplit(":", 1)[1]) for _ in range(2)]
        return process, *ports

    def balance(self, fronts):
        """HAProxy before these fronts; the addresses that people ask."""
        lines = ["global", "  maxconn 2000", "defaults", "  mode tcp", "  timeout connect 2s", "  timeout client 60s",
                 "  timeout server 60s", "  retries 3", "  option redispatch"]
        addresses = []
        for index in INDICES:
            port = free_port()
            addresses.append(f"https://localhost:{port}")
            lines += [f"listen server{index}", f"  bind 127.0.0.1:{port}", "  balance leastconn", "  option httpchk GET /readyz"]
            lines += [f"  server {name} 127.0.0.1:{fronts[index, name][1]} check port {fronts[index, name][2]} inter 200ms fall 1"
                      for name in FRONTS if (index, name) in fronts]
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
        """People ask for a while; what the example counted."""
        options = self.options
        visitors = self.start(options.programs / "examples" / "visitors", self.folder / "tls.pem", self.folder / "me.json",
                              options.people, options.seconds, self.token or "-", *addresses, stdout=subprocess.PIPE, text=True)
        if meanwhile:
            threading.Timer(options.seconds / 2, meanwhile).start()
        said, _ = visitors.communicate()
        faults = [line for line in said.splitlines() if line.startswith("fault ")]
        numbers = dict(line.split(" ", 1) for line in said.splitlines() if not line.startswith("fault "))
        return {name: float(value) for name, value in numbers.items()}, faults

    def end(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
                process.wait()


def measure(desk):
    ledger = desk.redis() if desk.options.redis else ""
    fronts = {(index, name): desk.front(index, name, ledger) for index in INDICES for name in FRONTS}
    alone = {key: front for key, front in fronts.items() if key[1] == "a"}
    results, complaints, searches = {}, [], 0

    def drain():
        for index in INDICES:
            fronts[index, "b"][0].send_signal(signal.SIGTERM)

    for what, chosen, meanwhile in (("one front", alone, None), ("two fronts", fronts, None), ("two fronts, one drained", fronts, drain)):
        haproxy, addresses = desk.balance(chosen)
        numbers, faults = desk.visit(addresses, meanwhile)
        haproxy.kill()
        haproxy.wait()
        results[what] = numbers
        searches += numbers["searches"]
        print(f"{what}: {numbers['per_second']:.0f} searches a second, p50 {numbers['p50_ms']:.0f} ms, p99 {numbers['p99_ms']:.0f} ms, "
              f"longest {numbers['longest_ms']:.0f} ms, {numbers['failures']:.0f} of {numbers['searches']:.0f} failed", flush=True)
        complaints += [f"{what}: {fault}" for fault in faults]
    for index in INDICES:
        try:
            code = fronts[index, "b"][0].wait(timeout=40)
        except subprocess.TimeoutExpired:
            code = "none: it did not end"
        if code != 0:
            complaints.append(f"the drained front of server {index} ended with {code}")
    if desk.options.redis:
        counted = desk.spent()
        print(f"{searches:.0f} searches were answered, {counted} were counted at the two servers")
        # Whoever asked again after a broken connection may have been counted twice, nobody less than once.
        if any(count < searches for count in counted):
            complaints.append("searches were answered that nobody counted")
    ratio = results["two fronts"]["per_second"] / results["one front"]["per_second"]
    print("\n".join(complaints))
    print(f"fronts: {desk.options.people} people, {desk.options.rows} rows, {'budgets in Redis' if desk.options.redis else 'no tokens'}: two fronts "
          f"{ratio:.2f} times one; {results['two fronts, one drained']['failures']:.0f} failures when one is drained: "
          f"{'FAILED' if complaints else 'fine'}")
    return not complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=Path(__file__).resolve().parent.parent / "target/release")
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--people", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--redis", help="the program, for budgets")
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(options, Path(folder))
        try:
            right = measure(desk)
        finally:
            desk.end()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
