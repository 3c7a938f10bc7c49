"""Ray: failed processes restart, reloads cause no downtime, finished searches are not repeated."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import ifonly

ray = pytest.importorskip("ray")

import ifonly.ray as ifonly_ray
from ifonly.ray import _actors, _ask, _config, _deploy, _controller, _process

#: Maximum time of one step on a busy machine, in seconds.
DEADLINE = 90.0
CHAOS = Path(__file__).resolve().parents[2] / "checks" / "chaos.py"
ME = {"income": 900, "job": "baker"}

SERVER = "import sys, time\nprint('starting', file=sys.stderr, flush=True)\nprint('listening on http://127.0.0.1:' + sys.argv[1], flush=True)\ntime.sleep(600)"

ALIVE = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
print("listening on http://127.0.0.1:" + sys.argv[1], flush=True)
print(f"admin on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def loans(more: int = 0) -> pd.DataFrame:
    rows = [(1000 + 50 * number + more, ["nurse", "baker", "pilot"][number % 3]) for number in range(60)]
    return pd.DataFrame(rows, columns=["income", "job"])


@pytest.fixture
def bundle(folder: Path) -> str:
    ifonly.build(loans(), "loans.bundle", servers=2)
    ifonly.keygen("root.key")
    return "loans.bundle"


# The command line.


def test_the_package_includes_the_command_line(bundle: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ifonly", "inspect", bundle], capture_output=True, text=True)
    assert done.returncode == 0 and "60" in done.stdout, done
    assert subprocess.run([sys.executable, "-m", "ifonly", "inspect", "nothing"], capture_output=True).returncode == 4
    serve = [sys.executable, "-m", "ifonly", "serve", bundle, "--index", "1", "--key", "root.key"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None and server.stdout.readline().startswith("listening on http://127.0.0.1:")
        server.send_signal(signal.SIGINT)
        assert server.wait(DEADLINE) == 0


# Configurations.


def test_a_configuration_is_read_checked_and_written(folder: Path) -> None:
    Path("conf").mkdir()
    Path("conf/server.toml").write_text('listen = "0.0.0.0:8443"\nledger = "ledger"\n[tls]\ncertificate = "a.pem"\nkey = "/b.key"\n[[tokens]]\nname = "x"\nhash = "0"\n')
    config = _config.read("conf/server.toml")
    assert config["ledger"] == str(folder / "conf/ledger") and config["tls"] == {"certificate": str(folder / "conf/a.pem"), "key": "/b.key"}
    assert _config.port(config) == 8443
    if sys.version_info >= (3, 11):
        import tomllib

        odd = {**config, "words": ['a "quoted" line\nand Ω', ""], "odd key": {"deep": [True, 1, 2.5]}}
        assert tomllib.loads(_config.write(odd)) == odd
    assert _config.read({"ledger": "valkey://127.0.0.1"})["ledger"] == "valkey://127.0.0.1"
    for wrong, word in (
        ({"listen": "0.0.0.0:8443"}, "plain HTTP"),
        ({"listen": "8443"}, "host:port"),
        ({"bundle": "x"}, "bundle="),
        ({"shards": {}}, "shards="),
    ):
        with pytest.raises(ifonly.InputError, match=word):
            _config.read(wrong)


def test_frontends_in_different_folders_share_one_ledger(folder: Path) -> None:
    table = {"file": "ledger", "name": "loans/1", "timeout_seconds": 3}
    assert _config.read({"ledger": table})["ledger"] == {**table, "file": str(folder / "ledger")}
    # The caller's dictionary is not changed.
    assert table["file"] == "ledger"
    store = _config.read({"ledger": {"url_file": "url", "ca": "ca.pem"}})["ledger"]
    assert store == {"url_file": str(folder / "url"), "ca": str(folder / "ca.pem")}
    assert _config.read({"ledger": {"url_env": "LEDGER"}})["ledger"] == {"url_env": "LEDGER"}
    # The key "file" always names a file, even if it looks like a URL.
    assert _config.read({"ledger": {"file": "a://b"}})["ledger"] == {"file": f"{folder}/a:/b"}
    Path("conf").mkdir()
    Path("conf/server.toml").write_text('ledger = { file = "ledger" }\n')
    assert _config.read("conf/server.toml")["ledger"] == {"file": str(folder / "conf/ledger")}


def test_ledger_passwords_do_not_pass_through_ray(folder: Path) -> None:
    with_password = (
        "redis://:hush@h", "rediss://user:hush@h:6379/0", "postgres://u:hush@h/d", "postgres://u@h/d?password=hush", "redis+unix:///s?db=1&pass=hush",
        "redis://user@example.org:hush@h", "postgres://u@h/d?%70assword=hush",
    )  # fmt: skip
    for url in with_password:
        for ledger in (url, {"url": url}):
            with pytest.raises(ifonly.InputError, match="url_file.*url_env") as refused:
                _config.read({"ledger": ledger})
            assert "hush" not in str(refused.value)
    for url in ("redis://h:6379/0", "redis://[::1]:6379", "postgres://ifonly@db.example.org:5432/budgets?sslmode=disable", "redis+unix:///run/a:b"):
        assert _config.read({"ledger": url})["ledger"] == url
        assert _config.read({"ledger": {"url": url}})["ledger"] == {"url": url}


# Processes.


class Running:
    """A process that prints an address as if it listened there."""

    def __init__(self, place: Path, script: str = SERVER) -> None:
        self.ports: list[int] = []

        def command(port: int) -> list[str]:
            self.ports.append(port)
            return [sys.executable, "-c", script, str(port or 4321)]

        self.process = _process.Process(place, command, lambda: None)

    def serving(self) -> int:
        return int(until(lambda: self.process.pid if self.process.address else None))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_process_that_dies_is_restarted_on_its_port(folder: Path) -> None:
    running = Running(folder / "socket")
    pid = running.serving()
    os.kill(pid, signal.SIGKILL)
    until(lambda: running.process.restarts == 1)
    assert running.serving() != pid and running.ports == [0, 4321]
    pid = running.serving()
    running.process.stop(DEADLINE)
    until(lambda: gone(pid))


def test_a_process_outlives_its_actor_and_is_found_again(folder: Path) -> None:
    before = Running(folder / "socket")
    pid = before.serving()
    # A second object takes over the connection, as after an actor's death. A dead actor starts no
    # process, so the first object must not either.
    before.process._stopping.set()
    after = Running(folder / "socket")
    assert after.process.was_found and after.serving() == pid and after.process.address == "http://127.0.0.1:4321"
    after.process.stop(DEADLINE)
    until(lambda: gone(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals children when their parent dies")
def test_no_orphan_process_remains(folder: Path) -> None:
    # An actor that dies while its process serves, and is not restarted.
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_ray import _die; _die({str(folder / 'one')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    until(lambda: gone(int(done.stdout)))
    # The supervisor dies.
    running = Running(folder / "two")
    pid = running.serving()
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    until(lambda: gone(pid))
    until(lambda: running.process.restarts == 1)
    running.process.stop(DEADLINE)


def _die(place: str) -> None:
    _process.ORPHAN_SECONDS = 0.5
    print(Running(Path(place)).serving(), flush=True)
    os._exit(0)


def test_a_process_that_cannot_start_gives_the_reason(folder: Path) -> None:
    running = Running(folder / "socket", "import sys; sys.exit('no such bundle')")
    until(lambda: running.process.restarts >= 2)
    assert "exit code 1" in str(running.process.failure) and "no such bundle" in str(running.process.failure)
    running.process.stop(DEADLINE)


def test_a_process_that_hangs_is_detected_and_restarted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_process, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(_process, "_ANSWER_SECONDS", 0.5)
    running = Running(folder / "socket", ALIVE)
    pid = running.serving()
    until(lambda: running.process.admin)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: running.process.silent)
    until(lambda: gone(pid))
    until(lambda: running.process.restarts >= 1)
    running.serving()
    until(lambda: running.process.admin and not running.process.silent)
    running.process.stop(DEADLINE)


def test_a_process_that_misses_few_health_checks_is_not_restarted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(([False] * (_process._MISSES - 1) + [True]) * 20)
    over = threading.Event()

    def alive(admin: str) -> bool:
        answer = next(answers, None)
        if answer is None:
            over.set()
        return answer is not False

    monkeypatch.setattr(_process, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(_process, "_alive", alive)
    running = Running(folder / "socket", ALIVE)
    pid = running.serving()
    assert over.wait(DEADLINE)
    assert running.process.restarts == 0 and running.serving() == pid
    running.process.stop(DEADLINE)


# The controller without Ray: actors are replaced by their reports.


class FakeCluster:
    """A controller with one shard per version and two frontends, which reconciles on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stored: dict[str, str] = {}
        monkeypatch.setattr(_controller, "store", SimpleNamespace(_internal_kv_get=stored.get, _internal_kv_put=lambda key, text, overwrite: stored.update({key: text})))
        calls = SimpleNamespace(wait=lambda calls, **_: (calls, []), get=lambda call: call, exceptions=ray.exceptions)
        monkeypatch.setattr(_controller, "ray", calls)
        monkeypatch.setattr(_controller, "_finish", lambda actors, seconds: self.stopped.extend(actors))
        monkeypatch.setattr(_controller.Controller, "_run", lambda controller: None)
        monkeypatch.setattr(_controller.Controller, "_create", lambda controller, name, kind, version, place: self.actor(name, version))
        self.reports: dict[str, dict[str, Any]] = {}
        self.plans: dict[str, Any] = {}
        self.stopped: list[Any] = []
        desired: Any = {
            "name": "s", "config": {}, "replicas": 2, "current": None, "pending": 1, "refused": None, "versions": {"1": self.version()}, "newest": 1, "restarts": {},
        }  # fmt: skip
        self.controller = _controller.Controller(desired)
        self.desired = self.controller.desired()
        self.reconcile()
        for name in ("s-frontend-1", "s-frontend-2"):
            self.reports[name].update(version=1, state="ready")
        self.reconcile()

    def version(self) -> _controller.Version:
        return _controller.Version(bundle="b", frontend="b", parts=[("b", (0, 9), (0, 9))], memory=(1, 1), until=None)

    def actor(self, name: str, version: int) -> Any:
        report = self.reports.setdefault(
            name, {"incarnation": "a", "restarts": 0, "address": None, "state": "ready", "version": version, "refused": None}
        )
        if "-frontend-" in name:
            report["version"], report["state"] = None, "starting"

        def reconcile(plan: Any = None) -> Any:
            self.plans[name] = plan
            return dict(report)

        return SimpleNamespace(reconcile=SimpleNamespace(remote=reconcile))

    def reconcile(self) -> None:
        # The first iteration creates the shards, the second the frontends.
        for _ in range(3):
            self.controller._reconcile()

    def serves(self) -> set[int]:
        return {plan["version"] for name, plan in self.plans.items() if "-frontend-" in name}


def test_a_version_that_a_frontend_does_not_load_is_reverted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch)
    number = cluster.controller.roll_out(cluster.version())
    cluster.reconcile()
    assert cluster.desired["current"] == number == 2 and cluster.serves() == {2}
    # One frontend loads it, the other hangs.
    cluster.reports["s-frontend-1"]["version"] = 2
    cluster.reconcile()
    assert cluster.controller.abandon(2)
    cluster.reconcile()
    assert cluster.desired["current"] == 1 and cluster.desired["pending"] is None and cluster.serves() == {1}
    # The served version stays. The other version keeps its shards until the frontend is back.
    assert cluster.desired["versions"]["1"]["until"] is None and cluster.desired["versions"]["2"]["until"] is not None and not cluster.stopped
    assert not cluster.controller.abandon(2), "abandoned twice"
    # A restarted controller reads this state from the store.
    assert _controller.Controller(cluster.desired).desired()["current"] == 1
    # The next version has a new number and is served.
    cluster.reports["s-frontend-1"]["version"] = 1
    assert cluster.controller.roll_out(cluster.version()) == 3
    cluster.reconcile()
    assert cluster.serves() == {3}
    for name in ("s-frontend-1", "s-frontend-2"):
        cluster.reports[name]["version"] = 3
    cluster.reconcile()
    assert cluster.desired["versions"]["1"]["until"] is not None and cluster.desired["versions"]["3"]["until"] is None
    assert not cluster.controller.abandon(3) and cluster.desired["current"] == 3, "a version that every frontend serves is not reverted"


def test_a_version_that_no_frontend_loaded_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch)
    # Abandoned before its shards are ready, abandoned afterwards, and refused.
    cluster.controller.roll_out(cluster.version())
    assert cluster.controller.abandon(2) and list(cluster.desired["versions"]) == ["1"]
    assert cluster.controller.roll_out(cluster.version()) == 3
    cluster.reconcile()
    assert cluster.serves() == {3} and cluster.controller.abandon(3)
    cluster.reconcile()
    assert cluster.serves() == {1} and list(cluster.desired["versions"]) == ["1"]
    assert cluster.controller.roll_out(cluster.version()) == 4
    cluster.reports["s-frontend-2"]["refused"] = (4, "broken")
    cluster.reconcile()
    assert cluster.serves() == {1} and list(cluster.desired["versions"]) == ["1"] and cluster.desired["refused"] == "broken"
    # Frontends remember the refused version; this does not affect the next one.
    assert cluster.controller.roll_out(cluster.version()) == 5
    cluster.reconcile()
    assert cluster.serves() == {5} and cluster.desired["refused"] is None
    assert not cluster.controller.abandon(4)


def test_a_frontend_that_reloads_late_is_reverted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_actors, "_folder", lambda *names: folder)
    monkeypatch.setattr(_actors.Frontend, "_watch", lambda frontend: None)
    monkeypatch.setattr(_actors.Frontend, "_notify", lambda frontend: None)
    monkeypatch.setattr(_actors, "_readiness", lambda admin: "ready")
    counts = [0, 0]
    monkeypatch.setattr(_actors, "_reloads", lambda admin: tuple(counts))
    signals: list[int] = []
    process: Any = SimpleNamespace(pid=1, address="http://127.0.0.1:1", admin="", restarts=0, silent=False, log="broken", signal=lambda number: not signals.append(number))
    frontend = _actors.Frontend("f", "k", "d", None, _config.read(None), ["root.key"], 1, None, "warn")
    frontend._process, frontend._serving = process, 1

    def request(version: int) -> _actors.ActorReport:
        frontend.reconcile(_actors.FrontendPlan(version=version, bundle=f"b{version}", shards=None, port=0))
        frontend._poll(process, "")
        return frontend._report("", frontend._serving, frontend._refused)

    assert request(1)["version"] == 1 and not signals
    assert request(2)["version"] == 1 and len(signals) == 1
    # The version is reverted while the process still reloads. Then the reload succeeds after all.
    assert request(1)["version"] == 1 and len(signals) == 1
    counts[0] = 1
    assert request(1)["version"] == 2
    request(1)
    assert len(signals) == 2 and "b1" in (folder / "server.toml").read_text()
    counts[0] = 2
    assert request(1)["version"] == 1
    # A refused version is requested only once; another version is requested again.
    request(3)
    counts[1] = 1
    assert request(3)["refused"] == (3, "broken")
    request(3)
    request(1)
    assert len(signals) == 3
    request(4)
    assert len(signals) == 4


# Deployments.


def search(deployments: list[ifonly_ray.Deployment]) -> tuple[str, ifonly.Answer]:
    explainer = ifonly.Explainer([deployment.addresses[0] for deployment in deployments])
    return explainer.digest, explainer.generate_counterfactuals(ME)[0]


@pytest.mark.parametrize("shards", [0, 2])
def test_a_server_on_ray_answers_recovers_reloads_and_scales(cluster: None, bundle: str, shards: int) -> None:
    # New shards take time to start, and the other server must serve the old bundle until then.
    config, long_grace = ({"limits": {"grace_seconds": seconds, "shutdown_seconds": 1}} for seconds in (8, 120))
    with (
        ifonly_ray.deploy(bundle, "root.key", shards=shards, replicas=2, index=1, config=config, directory=".", timeout=DEADLINE) as one,
        ifonly_ray.deploy(bundle, "root.key", shards=0, replicas=1, index=2, config=long_grace, timeout=DEADLINE) as two,
    ):
        assert one.name == "ifonly-loans-server1"
        status = one.status()
        assert status.ready and [row["kind"] for row in status] == ["shard"] * shards + ["frontend"] * 2
        assert str(status).splitlines()[0].split() == ["what", "where", "rows", "address", "state", "restarts"]
        first, answer = search([one, two])
        assert answer.record == {"income": 1050, "job": "baker"}
        with pytest.raises(ifonly.InputError, match="already running"):
            ifonly_ray.deploy(bundle, "root.key", index=1, shards=shards)
        # Another driver finds it by name.
        found = ifonly_ray.connect("loans-server1")
        assert found.addresses == one.addresses
        # A process dies, then an actor; the addresses stay.
        addresses = one.addresses
        for what in ("pid", "actor_pid"):
            for row in {row["kind"]: row for row in one.status()}.values():
                os.kill(row[what], signal.SIGKILL)

                def back(dead: int = row[what], actor: str = row["actor"], what: str = what) -> bool:
                    rows = {row["actor"]: row for row in one.status()}
                    return rows[actor][what] not in (None, dead) and rows[actor]["state"] == "ready"

                until(back)
        assert one.addresses == addresses
        until(lambda: sum(row["restarts"] for row in one.status()) >= 2)
        assert search([one, two])[1].record == answer.record
        # Reload another bundle during searches.
        ifonly.build(loans(25), "more.bundle", servers=2)
        failures: list[Exception] = []
        over = threading.Event()

        def search_on() -> None:
            while not over.is_set():
                try:
                    assert search([one, two])[1].record in ({"income": 1050, "job": "baker"}, {"income": 1075, "job": "baker"})
                except Exception as error:
                    failures.append(error)

        searching = threading.Thread(target=search_on)
        searching.start()
        # Both servers reload within the grace period, as operators must.
        reloads = [threading.Thread(target=one.reload, args=("more.bundle",)), threading.Thread(target=two.reload, args=("more.bundle",))]
        for thread in reloads:
            thread.start()
        for thread in reloads:
            thread.join()
        over.set()
        searching.join()
        second, answer = search([one, two])
        assert second != first and answer.record == {"income": 1075, "job": "baker"}
        # A broken bundle changes nothing.
        ifonly.build(loans(75), "broken.bundle", servers=2)
        Path("broken.bundle/rows").write_bytes(b"")
        Path("broken.bundle/checksums").write_text("nothing")
        with pytest.raises(ifonly.MachineError, match="previous bundle|not ready"):
            one.reload("broken.bundle", timeout=20.0)
        assert search([one, two])[0] == second
        one.scale(replicas=1, **({"shards": shards + 1} if shards else {}))
        until(lambda: len([row for row in one.status() if row["kind"] == "frontend"]) == 1)
        until(lambda: len([row for row in one.status() if row["kind"] == "shard"]) == (shards + 1 if shards else 0))
        assert search([one, two])[0] == second
        pids = [row["pid"] for row in one.status()]
        assert not failures, failures[0]
    until(lambda: all(gone(pid) for pid in pids))
    with pytest.raises(ifonly.InputError, match="no deployment is named"):
        ifonly_ray.connect("loans-server1")


def test_processes_that_hang_on_ray_are_detected_and_restarted(cluster: None, bundle: str) -> None:
    with ifonly_ray.deploy(bundle, "root.key", shards=1, replicas=1, index=1, directory=".", timeout=DEADLINE) as one:
        before = {row["kind"]: row["pid"] for row in one.status()}
        for pid in before.values():
            os.kill(pid, signal.SIGSTOP)
        seen: set[str] = set()

        def both_are_detected() -> bool:
            seen.update(row["kind"] for row in one.status() if row["state"] == "does not answer")
            return seen == {"shard", "frontend"}

        until(both_are_detected)
        until(lambda: all(row["pid"] not in (None, before[row["kind"]]) for row in one.status()) and one.status().ready)
        assert all(row["restarts"] >= 1 for row in one.status())


def test_invalid_deployments_are_refused_before_a_process_starts(cluster: None, bundle: str) -> None:
    for arguments, word in (
        ({"bundle": "nothing"}, "not a bundle"),
        ({"key": "nothing"}, "no such file"),
        ({"index": 3}, "servers 1 to 2"),
        ({"replicas": 0}, "at least 1"),
        ({"replicas": 2, "config": {"peers": {"listen": "127.0.0.1:0"}}}, "replicas=1 and deploy each"),
        ({"shards": 61}, "only 60 rows"),
        ({"config": {"listen": "0.0.0.0:0"}}, "plain HTTP"),
        ({"binary": "/no/such/program"}, "not an executable program"),
    ):
        given: dict[str, Any] = {"bundle": bundle, "key": "root.key", "shards": 0, **arguments}
        with pytest.raises(ifonly.InputError, match=word):
            ifonly_ray.deploy(**given)


def test_memory_is_reserved_for_data_and_answers(bundle: str) -> None:
    base, limits = 64 << 20, {"limits": {"max_concurrent": 3, "buffer_megabytes": 7}}
    assert _deploy._memory(32_000, 160_000, 1000, 2, 1, {}) == ((32_000 + 184_000) // 2 + 16 * 500 + base, 9000 + base)
    # Records are encoded once per key. The limits bound concurrent and buffered answers.
    assert _deploy._memory(32_000, 160_000, 1000, 2, 2, limits)[0] == (32_000 + 2 * 184_000) // 2 + 3 * 16 * 500 + (7 << 20) + base
    whole = 32_000 + 184_000 + 3 * 20 * 1000 + (7 << 20) + base
    assert _deploy._memory(32_000, 160_000, 1000, 0, 1, limits) == (whole, whole)
    # The parts together need as much as the bundle, except for their headers.
    subprocess.run([sys.executable, "-m", "ifonly", "split", bundle, "--parts", "2", "-o", "parts"], check=True, capture_output=True)
    cut, split = (_deploy._version(place, 2, 1, 1, limits)["memory"] for place in (bundle, "parts"))
    assert cut[1] == split[1] and abs(cut[0] - split[0]) < 4096, (cut, split)


def test_shards_have_the_limits_of_the_configuration(folder: Path) -> None:
    for name in ("bundle", "root.key", "a.pem", "a.key"):
        Path(name).touch()
    shard = object.__new__(_actors.Shard)
    for limits, flags in (
        ({}, []),
        ({"limits": {"max_concurrent": 3}}, ["--max-concurrent", "3"]),
        ({"limits": {"max_concurrent": 3, "buffer_megabytes": 7, "queue": 5}}, ["--max-concurrent", "3", "--buffer-megabytes", "7"]),
    ):
        shard._plan = _actors.ShardPlan(
            name="s", controller="k", deployment="d", version=1, binary="ifonly", bundle="bundle", rows=(0, 5), keys=["root.key"], certificate=("a.pem", "a.key"),
            network="loopback", limits=_config.memory_limits(_config.read(limits)), log="warn",
        )  # fmt: skip
        command = shard._command(0)
        assert command[command.index("--rows") :] == ["--rows", "0:5", *flags]
    for wrong in (0, "3", 1.5, True):
        with pytest.raises(ifonly.InputError, match="limits.max_concurrent"):
            _config.read({"limits": {"max_concurrent": wrong}})


def test_servers_with_peers_cannot_have_a_second_frontend() -> None:
    peers: dict[str, Any] = {"peers": {"listen": "127.0.0.1:0"}}
    _deploy._check_replicas(1, peers)
    _deploy._check_replicas(2, {})
    calls: list[str] = []

    def call(method: str) -> Any:
        calls.append(method)
        return {"config": peers}

    deployment = ifonly_ray.Deployment("ifonly-x", None)
    deployment._call = call  # type: ignore[method-assign,assignment]
    with pytest.raises(ifonly.InputError, match="replicas=1"):
        deployment.scale(replicas=2)
    assert calls == ["desired"]


# Searches in bulk.


def people() -> pd.DataFrame:
    table = pd.DataFrame({"who": [f"p{number}" for number in range(23)], "income": [900 + 37 * number for number in range(23)], "job": "baker"})
    table.loc[5, "job"] = "wizard"
    return table


def test_searches_in_bulk_run_once_and_are_stored(cluster: None, bundle: str, folder: Path) -> None:
    table = people()
    table.to_parquet("people.parquet")
    with ifonly.serve(bundle) as deployment:
        options: dict[str, Any] = {"id": "who", "part_rows": 10, "workers": 2, "immutable": ["job"]}
        run = ifonly_ray.ask("people.parquet", deployment.servers, "out", **options)
        assert (run.searches, run.found, run.errors, run.parts_before) == (23, 22, 1, 0)
        answers = run.to_table().to_pandas()
        assert list(answers["row"]) == list(range(23)) and list(answers["who"]) == list(table["who"])
        assert "wizard" in answers["error"][5] and answers["error_kind"][5] == "input" and not answers["found"][5]
        alone = deployment.explainer().generate_counterfactuals(table.drop(columns="who").iloc[[7]], immutable=["job"])[0]
        assert alone.record is not None
        assert answers["cost"][7] == alone.cost and answers["answer.income"][7] == alone.record["income"]
        assert answers["matching_rows"][7] == alone.document["matching_rows"]
        # Only a missing part is repeated. The same people in memory give the same parts.
        stored = {path.name: path.stat().st_mtime_ns for path in run.paths}
        run.paths[1].unlink()
        again = ifonly_ray.ask(table, deployment.servers, "out", **options)
        assert again.parts_before == 2 and again.to_table().to_pandas().equals(answers)
        assert [name for name, moment in stored.items() if Path("out", name).stat().st_mtime_ns == moment] == ["part-000000.parquet", "part-000002.parquet"]
        for other, given, word in (
            (table, {**options, "immutable": []}, "other wishes"),
            (table.iloc[::-1], options, "other people"),
            (table, {**options, "part_rows": 5}, "another part_rows"),
        ):
            with pytest.raises(ifonly.InputError, match=word):
                ifonly_ray.ask(other, deployment.servers, "out", **given)


def test_searches_for_a_dataset_keep_to_the_rate(cluster: None, bundle: str) -> None:
    with ifonly.serve(bundle) as deployment:
        begun = time.monotonic()
        run = ifonly_ray.ask(ray.data.from_pandas(people()), deployment.servers, "out", id="who", part_rows=6, rate=10.0)
        # The first search of each of the two workers does not wait.
        assert run.searches == 23 and time.monotonic() - begun >= (23 - 2) / 10.0


def test_rows_of_a_dataset_keep_their_order(cluster: None) -> None:
    def slowly(batch: Any) -> Any:
        import time

        # The first block is finished last.
        time.sleep(1.0 if batch["id"][0] == 0 else 0.0)
        return batch

    dataset = ray.data.range(80, override_num_blocks=4).map_batches(slowly, batch_size=None)
    pieces, _ = _ask.chunks(dataset, 30)
    listed = [piece["id"].to_pylist() for piece in pieces]
    assert [len(piece) for piece in listed] == [30, 30, 20] and sum(listed, []) == list(range(80))
    assert not ray.data.DataContext.get_current().execution_options.preserve_order


def test_unreachable_servers_end_the_run_and_finished_parts_stay(cluster: None, bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"id": "who", "part_rows": 10, "workers": 1, "retry_seconds": 0.1}
    with ifonly.serve(bundle) as deployment:

        def broken(people: Any, size: int) -> tuple[Iterator[Any], int]:
            pieces, count = chunks(people, size)

            def stop_before_the_last() -> Iterator[Any]:
                yield next(pieces)
                yield next(pieces)
                deployment.stop()
                yield from pieces

            return stop_before_the_last(), count

        chunks = _ask.chunks
        with monkeypatch.context() as patch, pytest.raises(ifonly.ServersError, match="[12]0 searches are stored"):
            patch.setattr(_ask, "chunks", broken)
            ifonly_ray.ask(people(), deployment.servers, "out", **options)
    with ifonly.serve(bundle) as deployment:
        run = ifonly_ray.ask(people(), deployment.servers, "out", **options)
        assert run.parts_before >= 1 and run.searches == 23


def test_tokens_in_files_and_variables_are_read_by_the_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[Any] = []
    monkeypatch.setattr(_ask, "Explainer", lambda servers, **reach: connections.append(reach))
    servers = ["https://a.example", "https://b.example"]

    def token(**reach: Any) -> Any:
        _ask._connect(servers, {"token": None, "token_file": None, "token_env": None, "timeout": 1.0, **reach})
        assert connections[-1].keys() == {"token", "timeout"}
        return connections[-1]["token"]

    assert token() is None and token(token="abc") == "abc"
    Path("tokens").write_text("# ours\nabc\n\n https://b.example=def\n")
    assert token(token_file="tokens") == {"https://a.example": "abc", "https://b.example": "def"}
    monkeypatch.setenv("OURS", "https://a.example=xyz abc")
    assert token(token_env="OURS") == {"https://a.example": "xyz", "https://b.example": "abc"}
    monkeypatch.setenv("OURS", "https://a.example=xyz")
    assert token(token_env="OURS") == {"https://a.example": "xyz"}
    monkeypatch.setenv("OURS", "")
    Path("picture").write_bytes(b"\xff\xfe")
    for wrong, word in (({"token_file": "nothing"}, "nothing"), ({"token_file": "picture"}, "not text"), ({"token_env": "NOTHING"}, "NOTHING"), ({"token_env": "OURS"}, "contains no token")):
        with pytest.raises(ifonly.InputError, match=word):
            token(**wrong)
    with pytest.raises(ifonly.InputError, match="only one of"):
        ifonly_ray.ask([ME], servers, "out", token="abc", token_env="OURS")


# Documentation.


def test_programs_of_the_page_run(cluster: None, folder: Path) -> None:
    text = (CHAOS.parents[1] / "docs" / "ray.md").read_text()
    loans = pd.DataFrame(
        {
            "age": [34, 51, 28, 45, 39, 60],
            "income": [2100, 900, 3900, 2500, 1200, 2900],
            "job": ["nurse", "baker", "nurse", "pilot", "baker", "pilot"],
            "decision": ["yes", "no", "yes", "yes", "no", "no"],
        }
    )
    session = {"loans": loans, "me": {"age": 39, "income": 1200, "job": "baker"}, "people": loans[loans.decision == "no"]}
    for program in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(program, "docs/ray.md", "exec"), session)  # noqa: S102
    assert session["run"].searches == 3


# Failures under load.


def test_the_check_notices_wrong_answers_and_overspent_budgets(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("chaos", CHAOS)
    assert spec is not None and spec.loader is not None
    chaos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chaos)
    rng = random.Random(7)
    question = chaos.Table(rng, 500).question(rng)
    income, age, debt, job = sorted(question.nearest)[0]
    right = {
        "found": True, "cost": question.cost, "record": {"income": income, "age": age, "debt": debt, "job": job},
        "changes": [], "notes": [], "server_failures": [], "wishes": [], "matching_rows": question.matching_rows,
    }  # fmt: skip
    wrong = [{"cost": question.cost + 0.01}, {"matching_rows": question.matching_rows + 1}, {"record": {**right["record"], "debt": debt + 100}}, {"found": False}]
    assert question.wrong(ifonly.Answer(0, {}, json.dumps(right), "[[]]")) is None
    for lie in wrong:
        assert question.wrong(ifonly.Answer(0, {}, json.dumps({**right, **lie}), "[[]]")), lie
    Path("ledger-1").write_text("budget-1 phase0\n" * chaos.SEARCHES + "people phase0\n" * 50)
    assert chaos.overspent(folder, 1) == []
    Path("ledger-2").write_text("budget-1 phase0\n" * (chaos.SEARCHES + 1))
    assert len(chaos.overspent(folder, 1)) == 1


def test_guarantees_hold_while_processes_are_killed() -> None:
    done = subprocess.run([sys.executable, str(CHAOS), "--kills", "5", "--shards", "2", "--rows", "4000"], capture_output=True, text=True)
    assert done.returncode == 0 and "all promises hold" in done.stdout, done.stdout + done.stderr
