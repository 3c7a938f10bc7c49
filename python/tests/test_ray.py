"""On Ray: what dies comes back, what is reloaded has no gap, what was asked is not asked again."""

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
from ifonly.ray import _actors, _ask, _config, _deploy, _keeper, _process

#: How long something may take on a busy machine.
PATIENCE = 90.0
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
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come"
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
def bundle(desk: Path) -> str:
    ifonly.build(loans(), "loans.bundle", servers=2)
    ifonly.keygen("root.key")
    return "loans.bundle"


# The command line.


def test_the_package_has_the_command_line(bundle: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ifonly", "inspect", bundle], capture_output=True, text=True)
    assert done.returncode == 0 and "60" in done.stdout, done
    assert subprocess.run([sys.executable, "-m", "ifonly", "inspect", "nothing"], capture_output=True).returncode == 4
    serve = [sys.executable, "-m", "ifonly", "serve", bundle, "--index", "1", "--key", "root.key"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None and server.stdout.readline().startswith("listening on http://127.0.0.1:")
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0


# Configurations.


def test_a_configuration_is_read_checked_and_written(desk: Path) -> None:
    Path("conf").mkdir()
    Path("conf/server.toml").write_text('listen = "0.0.0.0:8443"\nledger = "ledger"\n[tls]\ncertificate = "a.pem"\nkey = "/b.key"\n[[tokens]]\nname = "x"\nhash = "0"\n')
    config = _config.read("conf/server.toml")
    assert config["ledger"] == str(desk / "conf/ledger") and config["tls"] == {"certificate": str(desk / "conf/a.pem"), "key": "/b.key"}
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


def test_fronts_in_folders_of_their_own_have_one_ledger(desk: Path) -> None:
    table = {"file": "ledger", "name": "loans/1", "timeout_seconds": 3}
    assert _config.read({"ledger": table})["ledger"] == {**table, "file": str(desk / "ledger")}
    # Somebody else's dictionary stays theirs.
    assert table["file"] == "ledger"
    store = _config.read({"ledger": {"url_file": "url", "ca": "ca.pem"}})["ledger"]
    assert store == {"url_file": str(desk / "url"), "ca": str(desk / "ca.pem")}
    assert _config.read({"ledger": {"url_env": "LEDGER"}})["ledger"] == {"url_env": "LEDGER"}
    # In a table a file is a file, whatever it is called.
    assert _config.read({"ledger": {"file": "a://b"}})["ledger"] == {"file": f"{desk}/a:/b"}
    Path("conf").mkdir()
    Path("conf/server.toml").write_text('ledger = { file = "ledger" }\n')
    assert _config.read("conf/server.toml")["ledger"] == {"file": str(desk / "conf/ledger")}


def test_passwords_of_ledgers_do_not_go_through_ray(desk: Path) -> None:
    with_one = (
        "redis://:hush@h", "rediss://user:hush@h:6379/0", "postgres://u:hush@h/d", "postgres://u@h/d?password=hush", "redis+unix:///s?db=1&pass=hush",
        "redis://user@example.org:hush@h", "postgres://u@h/d?%70assword=hush",
    )  # fmt: skip
    for url in with_one:
        for ledger in (url, {"url": url}):
            with pytest.raises(ifonly.InputError, match="url_file.*url_env") as refused:
                _config.read({"ledger": ledger})
            assert "hush" not in str(refused.value)
    for url in ("redis://h:6379/0", "redis://[::1]:6379", "postgres://ifonly@db.example.org:5432/budgets?sslmode=disable", "redis+unix:///run/a:b"):
        assert _config.read({"ledger": url})["ledger"] == url
        assert _config.read({"ledger": {"url": url}})["ledger"] == {"url": url}


# Processes.


class Kept:
    """A process that prints where it would listen, and its actor's place."""

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


def test_a_process_that_dies_is_started_again_on_its_port(desk: Path) -> None:
    kept = Kept(desk / "leash")
    pid = kept.serving()
    os.kill(pid, signal.SIGKILL)
    until(lambda: kept.process.restarts == 1)
    assert kept.serving() != pid and kept.ports == [0, 4321]
    pid = kept.serving()
    kept.process.stop(PATIENCE)
    until(lambda: gone(pid))


def test_a_process_outlives_its_actor_and_is_found_again(desk: Path) -> None:
    before = Kept(desk / "leash")
    pid = before.serving()
    # Another one takes the line over, as after the actor's death: a dead one starts nothing.
    before.process._stopping.set()
    after = Kept(desk / "leash")
    assert after.process.was_found and after.serving() == pid and after.process.address == "http://127.0.0.1:4321"
    after.process.stop(PATIENCE)
    until(lambda: gone(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parents' death")
def test_no_orphan_stays(desk: Path) -> None:
    # An actor that dies while its process serves, and is not restarted.
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_ray import _die; _die({str(desk / 'one')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    until(lambda: gone(int(done.stdout)))
    # The program between the two dies.
    kept = Kept(desk / "two")
    pid = kept.serving()
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    until(lambda: gone(pid))
    until(lambda: kept.process.restarts == 1)
    kept.process.stop(PATIENCE)


def _die(place: str) -> None:
    _process.ALONE_SECONDS = 0.5
    print(Kept(Path(place)).serving(), flush=True)
    os._exit(0)


def test_a_process_that_cannot_start_says_why(desk: Path) -> None:
    kept = Kept(desk / "leash", "import sys; sys.exit('no such bundle')")
    until(lambda: kept.process.restarts >= 2)
    assert "exit code 1" in str(kept.process.trouble) and "no such bundle" in str(kept.process.trouble)
    kept.process.stop(PATIENCE)


def test_a_process_that_hangs_is_seen_ended_and_started_again(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_process, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(_process, "_ANSWER_SECONDS", 0.5)
    kept = Kept(desk / "leash", ALIVE)
    pid = kept.serving()
    until(lambda: kept.process.admin)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: kept.process.silent)
    until(lambda: gone(pid))
    until(lambda: kept.process.restarts >= 1)
    kept.serving()
    until(lambda: kept.process.admin and not kept.process.silent)
    kept.process.stop(PATIENCE)


def test_a_process_that_is_late_now_and_then_is_left_alone(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(([False] * (_process._MISSES - 1) + [True]) * 20)
    over = threading.Event()

    def alive(admin: str) -> bool:
        answer = next(answers, None)
        if answer is None:
            over.set()
        return answer is not False

    monkeypatch.setattr(_process, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(_process, "_alive", alive)
    kept = Kept(desk / "leash", ALIVE)
    pid = kept.serving()
    assert over.wait(PATIENCE)
    assert kept.process.restarts == 0 and kept.serving() == pid
    kept.process.stop(PATIENCE)


# The keeper, without Ray: actors are what they say of themselves.


class Stage:
    """A keeper with one shard for every version and two fronts, which looks when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stored: dict[str, str] = {}
        monkeypatch.setattr(_keeper, "store", SimpleNamespace(_internal_kv_get=stored.get, _internal_kv_put=lambda key, text, overwrite: stored.update({key: text})))
        calls = SimpleNamespace(wait=lambda calls, **_: (calls, []), get=lambda call: call, exceptions=ray.exceptions)
        monkeypatch.setattr(_keeper, "ray", calls)
        monkeypatch.setattr(_keeper, "_finish", lambda actors, seconds: self.stopped.extend(actors))
        monkeypatch.setattr(_keeper.Keeper, "_run", lambda keeper: None)
        monkeypatch.setattr(_keeper.Keeper, "_make", lambda keeper, name, kind, version, place: self.actor(name, version))
        self.says: dict[str, dict[str, Any]] = {}
        self.plans: dict[str, Any] = {}
        self.stopped: list[Any] = []
        wanted: Any = {
            "name": "s", "config": {}, "replicas": 2, "current": None, "arriving": 1, "refused": None, "versions": {"1": self.version()}, "newest": 1, "restarts": {},
        }  # fmt: skip
        self.keeper = _keeper.Keeper(wanted)
        self.wanted = self.keeper.wanted()
        self.look()
        for name in ("s-front-1", "s-front-2"):
            self.says[name].update(version=1, state="ready")
        self.look()

    def version(self) -> _keeper.Version:
        return _keeper.Version(bundle="b", front="b", parts=[("b", (0, 9), (0, 9))], memory=(1, 1), until=None)

    def actor(self, name: str, version: int) -> Any:
        says = self.says.setdefault(name, {"life": "a", "restarts": 0, "address": None, "state": "ready", "version": version, "refused": None})
        if "-front-" in name:
            says["version"], says["state"] = None, "starting"

        def tend(plan: Any = None) -> Any:
            self.plans[name] = plan
            return dict(says)

        return SimpleNamespace(tend=SimpleNamespace(remote=tend))

    def look(self) -> None:
        # The first look makes and hears of shards, the second of fronts.
        for _ in range(3):
            self.keeper._tend()

    def serves(self) -> set[int]:
        return {plan["version"] for name, plan in self.plans.items() if "-front-" in name}


def test_a_version_that_a_front_does_not_come_to_serve_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    number = stage.keeper.bring(stage.version())
    stage.look()
    assert stage.wanted["current"] == number == 2 and stage.serves() == {2}
    # One front takes it up, the other hangs.
    stage.says["s-front-1"]["version"] = 2
    stage.look()
    assert stage.keeper.abandon(2)
    stage.look()
    assert stage.wanted["current"] == 1 and stage.wanted["arriving"] is None and stage.serves() == {1}
    # What is served stays, and the front that went ahead has its shards until it is back.
    assert stage.wanted["versions"]["1"]["until"] is None and stage.wanted["versions"]["2"]["until"] is not None and not stage.stopped
    assert not stage.keeper.abandon(2), "given up twice"
    # It is put back from the store as it is.
    assert _keeper.Keeper(stage.wanted).wanted()["current"] == 1
    # The next one has a number of its own, and is served.
    stage.says["s-front-1"]["version"] = 1
    assert stage.keeper.bring(stage.version()) == 3
    stage.look()
    assert stage.serves() == {3}
    for name in ("s-front-1", "s-front-2"):
        stage.says[name]["version"] = 3
    stage.look()
    assert stage.wanted["versions"]["1"]["until"] is not None and stage.wanted["versions"]["3"]["until"] is None
    assert not stage.keeper.abandon(3) and stage.wanted["current"] == 3, "what every front serves is not taken back"


def test_a_version_that_nobody_took_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    # Given up before its shards were there, after them, and refused.
    stage.keeper.bring(stage.version())
    assert stage.keeper.abandon(2) and list(stage.wanted["versions"]) == ["1"]
    assert stage.keeper.bring(stage.version()) == 3
    stage.look()
    assert stage.serves() == {3} and stage.keeper.abandon(3)
    stage.look()
    assert stage.serves() == {1} and list(stage.wanted["versions"]) == ["1"]
    assert stage.keeper.bring(stage.version()) == 4
    stage.says["s-front-2"]["refused"] = (4, "broken")
    stage.look()
    assert stage.serves() == {1} and list(stage.wanted["versions"]) == ["1"] and stage.wanted["refused"] == "broken"
    # Fronts remember it, and it is not held against the next.
    assert stage.keeper.bring(stage.version()) == 5
    stage.look()
    assert stage.serves() == {5} and stage.wanted["refused"] is None
    assert not stage.keeper.abandon(4)


def test_a_front_that_reloads_late_is_brought_back(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_actors, "_folder", lambda *names: desk)
    monkeypatch.setattr(_actors.Front, "_look", lambda front: None)
    monkeypatch.setattr(_actors.Front, "_changed", lambda front: None)
    monkeypatch.setattr(_actors, "_readiness", lambda admin: "ready")
    counts = [0, 0]
    monkeypatch.setattr(_actors, "_reloads", lambda admin: tuple(counts))
    signals: list[int] = []
    process: Any = SimpleNamespace(pid=1, address="http://127.0.0.1:1", admin="", restarts=0, silent=False, log="broken", signal=lambda number: not signals.append(number))
    front = _actors.Front("f", "k", "d", None, _config.read(None), ["root.key"], 1, None, "warn")
    front._process, front._serving = process, 1

    def wants(version: int) -> _actors.Told:
        front.tend(_actors.FrontPlan(version=version, bundle=f"b{version}", shards=None, port=0))
        front._ask(process, "")
        return front._tell("", front._serving, front._refused)

    assert wants(1)["version"] == 1 and not signals
    assert wants(2)["version"] == 1 and len(signals) == 1
    # Taken back while the process is still at it; then it takes the new one up after all.
    assert wants(1)["version"] == 1 and len(signals) == 1
    counts[0] = 1
    assert wants(1)["version"] == 2
    wants(1)
    assert len(signals) == 2 and "b1" in (desk / "server.toml").read_text()
    counts[0] = 2
    assert wants(1)["version"] == 1
    # What it refuses it is asked for once; another one is asked for again.
    wants(3)
    counts[1] = 1
    assert wants(3)["refused"] == (3, "broken")
    wants(3)
    wants(1)
    assert len(signals) == 3
    wants(4)
    assert len(signals) == 4


# Deployments.


def asked(deployments: list[ifonly_ray.Deployment]) -> tuple[str, ifonly.Answer]:
    explainer = ifonly.Explainer([deployment.addresses[0] for deployment in deployments])
    return explainer.digest, explainer.generate_counterfactuals(ME)[0]


@pytest.mark.parametrize("shards", [0, 2])
def test_a_server_on_ray_answers_heals_reloads_and_scales(cluster: None, bundle: str, shards: int) -> None:
    # Shards of a new bundle take a while to come, and the other server must offer the old one as long.
    config, patient = ({"limits": {"grace_seconds": seconds, "shutdown_seconds": 1}} for seconds in (8, 120))
    with (
        ifonly_ray.deploy(bundle, "root.key", shards=shards, replicas=2, index=1, config=config, directory=".", timeout=PATIENCE) as one,
        ifonly_ray.deploy(bundle, "root.key", shards=0, replicas=1, index=2, config=patient, timeout=PATIENCE) as two,
    ):
        assert one.name == "ifonly-loans-server1"
        status = one.status()
        assert status.ready and [row["kind"] for row in status] == ["shard"] * shards + ["front"] * 2
        assert str(status).splitlines()[0].split() == ["what", "where", "rows", "address", "state", "restarts"]
        first, answer = asked([one, two])
        assert answer.record == {"income": 1050, "job": "baker"}
        with pytest.raises(ifonly.InputError, match="runs already"):
            ifonly_ray.deploy(bundle, "root.key", index=1, shards=shards)
        # Found by name, as another driver would.
        found = ifonly_ray.connect("loans-server1")
        assert found.addresses == one.addresses
        # A process dies, then an actor; addresses stay.
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
        assert asked([one, two])[1].record == answer.record
        # Another bundle, while somebody asks.
        ifonly.build(loans(25), "more.bundle", servers=2)
        failures: list[Exception] = []
        over = threading.Event()

        def ask_on() -> None:
            while not over.is_set():
                try:
                    assert asked([one, two])[1].record in ({"income": 1050, "job": "baker"}, {"income": 1075, "job": "baker"})
                except Exception as error:
                    failures.append(error)

        asking = threading.Thread(target=ask_on)
        asking.start()
        # Servers reload within the grace of each other, as operators must.
        reloads = [threading.Thread(target=one.reload, args=("more.bundle",)), threading.Thread(target=two.reload, args=("more.bundle",))]
        for thread in reloads:
            thread.start()
        for thread in reloads:
            thread.join()
        over.set()
        asking.join()
        second, answer = asked([one, two])
        assert second != first and answer.record == {"income": 1075, "job": "baker"}
        # A bundle that is broken changes nothing.
        ifonly.build(loans(75), "broken.bundle", servers=2)
        Path("broken.bundle/rows").write_bytes(b"")
        Path("broken.bundle/checksums").write_text("nothing")
        with pytest.raises(ifonly.MachineError, match="as before|not ready"):
            one.reload("broken.bundle", timeout=20.0)
        assert asked([one, two])[0] == second
        one.scale(replicas=1, **({"shards": shards + 1} if shards else {}))
        until(lambda: len([row for row in one.status() if row["kind"] == "front"]) == 1)
        until(lambda: len([row for row in one.status() if row["kind"] == "shard"]) == (shards + 1 if shards else 0))
        assert asked([one, two])[0] == second
        pids = [row["pid"] for row in one.status()]
        assert not failures, failures[0]
    until(lambda: all(gone(pid) for pid in pids))
    with pytest.raises(ifonly.InputError, match="no deployment is called"):
        ifonly_ray.connect("loans-server1")


def test_what_stands_still_on_ray_is_seen_and_started_again(cluster: None, bundle: str) -> None:
    with ifonly_ray.deploy(bundle, "root.key", shards=1, replicas=1, index=1, directory=".", timeout=PATIENCE) as one:
        before = {row["kind"]: row["pid"] for row in one.status()}
        for pid in before.values():
            os.kill(pid, signal.SIGSTOP)
        seen: set[str] = set()

        def both_are_seen() -> bool:
            seen.update(row["kind"] for row in one.status() if row["state"] == "does not answer")
            return seen == {"shard", "front"}

        until(both_are_seen)
        until(lambda: all(row["pid"] not in (None, before[row["kind"]]) for row in one.status()) and one.status().ready)
        assert all(row["restarts"] >= 1 for row in one.status())


def test_what_cannot_be_deployed_is_refused_before_anything_starts(cluster: None, bundle: str) -> None:
    for arguments, word in (
        ({"bundle": "nothing"}, "no bundle"),
        ({"key": "nothing"}, "no file"),
        ({"index": 3}, "servers 1 to 2"),
        ({"replicas": 0}, "at least one front"),
        ({"replicas": 2, "config": {"peers": {"listen": "127.0.0.1:0"}}}, "replicas=1 and deploy again"),
        ({"shards": 61}, "only 60 rows"),
        ({"config": {"listen": "0.0.0.0:0"}}, "plain HTTP"),
        ({"binary": "/no/such/program"}, "no program"),
    ):
        given: dict[str, Any] = {"bundle": bundle, "key": "root.key", "shards": 0, **arguments}
        with pytest.raises(ifonly.InputError, match=word):
            ifonly_ray.deploy(**given)


def test_memory_is_reserved_for_what_may_be_held(bundle: str) -> None:
    base, limits = 64 << 20, {"limits": {"running": 3, "transit_megabytes": 7}}
    assert _deploy._memory(32_000, 160_000, 1000, 2, 1, {}) == ((32_000 + 184_000) // 2 + 16 * 500 + base, 9000 + base)
    # Records are sealed for each key, and limits say how many answers there are at once, and how much waits.
    assert _deploy._memory(32_000, 160_000, 1000, 2, 2, limits)[0] == (32_000 + 2 * 184_000) // 2 + 3 * 16 * 500 + (7 << 20) + base
    whole = 32_000 + 184_000 + 3 * 20 * 1000 + (7 << 20) + base
    assert _deploy._memory(32_000, 160_000, 1000, 0, 1, limits) == (whole, whole)
    # Parts need together what the bundle needs, but for their heads.
    subprocess.run([sys.executable, "-m", "ifonly", "split", bundle, "--parts", "2", "-o", "parts"], check=True, capture_output=True)
    cut, split = (_deploy._version(place, 2, 1, 1, limits)["memory"] for place in (bundle, "parts"))
    assert cut[1] == split[1] and abs(cut[0] - split[0]) < 4096, (cut, split)


def test_shards_have_the_limits_of_the_configuration(desk: Path) -> None:
    for name in ("bundle", "root.key", "a.pem", "a.key"):
        Path(name).touch()
    shard = object.__new__(_actors.Shard)
    for limits, flags in (
        ({}, []),
        ({"limits": {"running": 3}}, ["--running", "3"]),
        ({"limits": {"running": 3, "transit_megabytes": 7, "queue": 5}}, ["--running", "3", "--transit-megabytes", "7"]),
    ):
        shard._plan = _actors.ShardPlan(
            name="s", keeper="k", deployment="d", version=1, binary="ifonly", bundle="bundle", rows=(0, 5), keys=["root.key"], certificate=("a.pem", "a.key"),
            network="loopback", limits=_config.memory_limits(_config.read(limits)), log="warn",
        )  # fmt: skip
        command = shard._command(0)
        assert command[command.index("--rows") :] == ["--rows", "0:5", *flags]
    for wrong in (0, "3", 1.5, True):
        with pytest.raises(ifonly.InputError, match="limits.running"):
            _config.read({"limits": {"running": wrong}})


def test_servers_with_peers_are_not_given_a_second_front() -> None:
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
    assert calls == ["wanted"]


# Questions in bulk.


def people() -> pd.DataFrame:
    table = pd.DataFrame({"who": [f"p{number}" for number in range(23)], "income": [900 + 37 * number for number in range(23)], "job": "baker"})
    table.loc[5, "job"] = "wizard"
    return table


def test_questions_in_bulk_are_answered_once_and_kept(cluster: None, bundle: str, desk: Path) -> None:
    table = people()
    table.to_parquet("people.parquet")
    with ifonly.serve(bundle) as deployment:
        options: dict[str, Any] = {"id": "who", "part_rows": 10, "workers": 2, "immutable": ["job"]}
        run = ifonly_ray.ask("people.parquet", deployment.servers, "out", **options)
        assert (run.questions, run.found, run.errors, run.parts_before) == (23, 22, 1, 0)
        answers = run.to_table().to_pandas()
        assert list(answers["row"]) == list(range(23)) and list(answers["who"]) == list(table["who"])
        assert "wizard" in answers["error"][5] and answers["error_kind"][5] == "input" and not answers["found"][5]
        alone = deployment.explainer().generate_counterfactuals(table.drop(columns="who").iloc[[7]], immutable=["job"])[0]
        assert answers["cost"][7] == alone.cost and answers["answer.income"][7] == alone.record["income"]  # type: ignore[index]
        assert answers["qualifying"][7] == alone.document["qualifying"]
        # A part that is missing is asked for again, the others are not; the same people in memory are the same questions.
        kept = {path.name: path.stat().st_mtime_ns for path in run.paths}
        run.paths[1].unlink()
        again = ifonly_ray.ask(table, deployment.servers, "out", **options)
        assert again.parts_before == 2 and again.to_table().to_pandas().equals(answers)
        assert [name for name, moment in kept.items() if Path("out", name).stat().st_mtime_ns == moment] == ["part-000000.parquet", "part-000002.parquet"]
        for other, given, word in (
            (table, {**options, "immutable": []}, "other wishes"),
            (table.iloc[::-1], options, "other questions"),
            (table, {**options, "part_rows": 5}, "another part_rows"),
        ):
            with pytest.raises(ifonly.InputError, match=word):
                ifonly_ray.ask(other, deployment.servers, "out", **given)


def test_a_dataset_is_asked_at_a_pace(cluster: None, bundle: str) -> None:
    with ifonly.serve(bundle) as deployment:
        begun = time.monotonic()
        run = ifonly_ray.ask(ray.data.from_pandas(people()), deployment.servers, "out", id="who", part_rows=6, rate=10.0)
        # The first question of each of two workers is free.
        assert run.questions == 23 and time.monotonic() - begun >= (23 - 2) / 10.0


def test_rows_of_a_dataset_keep_their_places(cluster: None) -> None:
    def slowly(batch: Any) -> Any:
        import time

        # Who comes first is done last.
        time.sleep(1.0 if batch["id"][0] == 0 else 0.0)
        return batch

    dataset = ray.data.range(80, override_num_blocks=4).map_batches(slowly, batch_size=None)
    pieces, _ = _ask.chunks(dataset, 30)
    listed = [piece["id"].to_pylist() for piece in pieces]
    assert [len(piece) for piece in listed] == [30, 30, 20] and sum(listed, []) == list(range(80))
    assert not ray.data.DataContext.get_current().execution_options.preserve_order


def test_servers_that_are_away_end_the_run_and_what_is_done_is_kept(cluster: None, bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with monkeypatch.context() as patch, pytest.raises(ifonly.ServersError, match="[12]0 questions are answered"):
            patch.setattr(_ask, "chunks", broken)
            ifonly_ray.ask(people(), deployment.servers, "out", **options)
    with ifonly.serve(bundle) as deployment:
        run = ifonly_ray.ask(people(), deployment.servers, "out", **options)
        assert run.parts_before >= 1 and run.questions == 23


def test_tokens_that_are_named_are_read_where_they_are_used(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[Any] = []
    monkeypatch.setattr(_ask, "Explainer", lambda servers, **reach: met.append(reach))
    servers = ["https://a.example", "https://b.example"]

    def token(**reach: Any) -> Any:
        _ask._meet(servers, {"token": None, "token_file": None, "token_env": None, "timeout": 1.0, **reach})
        assert met[-1].keys() == {"token", "timeout"}
        return met[-1]["token"]

    assert token() is None and token(token="abc") == "abc"
    Path("tokens").write_text("# ours\nabc\n\n https://b.example=def\n")
    assert token(token_file="tokens") == {"https://a.example": "abc", "https://b.example": "def"}
    monkeypatch.setenv("OURS", "https://a.example=xyz abc")
    assert token(token_env="OURS") == {"https://a.example": "xyz", "https://b.example": "abc"}
    monkeypatch.setenv("OURS", "https://a.example=xyz")
    assert token(token_env="OURS") == {"https://a.example": "xyz"}
    monkeypatch.setenv("OURS", "")
    Path("picture").write_bytes(b"\xff\xfe")
    for wrong, word in (({"token_file": "nothing"}, "nothing"), ({"token_file": "picture"}, "not text"), ({"token_env": "NOTHING"}, "NOTHING"), ({"token_env": "OURS"}, "no token")):
        with pytest.raises(ifonly.InputError, match=word):
            token(**wrong)
    with pytest.raises(ifonly.InputError, match="one of"):
        ifonly_ray.ask([ME], servers, "out", token="abc", token_env="OURS")


# What the documentation shows.


def test_programs_of_the_page_run(cluster: None, desk: Path) -> None:
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
    assert session["run"].questions == 3


# Everything at once.


def test_the_check_notices_wrong_answers_and_overspent_budgets(desk: Path) -> None:
    spec = importlib.util.spec_from_file_location("chaos", CHAOS)
    assert spec is not None and spec.loader is not None
    chaos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chaos)
    rng = random.Random(7)
    question = chaos.Table(rng, 500).question(rng)
    income, age, debt, job = sorted(question.nearest)[0]
    right = {
        "found": True, "cost": question.cost, "record": {"income": income, "age": age, "debt": debt, "job": job},
        "changes": [], "notes": [], "troubles": [], "wishes": [], "qualifying": question.qualifying,
    }  # fmt: skip
    wrong = [{"cost": question.cost + 0.01}, {"qualifying": question.qualifying + 1}, {"record": {**right["record"], "debt": debt + 100}}, {"found": False}]
    assert question.wrong(ifonly.Answer(0, {}, json.dumps(right), "[[]]")) is None
    for lie in wrong:
        assert question.wrong(ifonly.Answer(0, {}, json.dumps({**right, **lie}), "[[]]")), lie
    Path("ledger-1").write_text("budget-1 phase0\n" * chaos.SESSIONS + "people phase0\n" * 50)
    assert chaos.overspent(desk, 1) == []
    Path("ledger-2").write_text("budget-1 phase0\n" * (chaos.SESSIONS + 1))
    assert len(chaos.overspent(desk, 1)) == 1


def test_promises_hold_while_things_are_killed() -> None:
    done = subprocess.run([sys.executable, str(CHAOS), "--kills", "5", "--shards", "2", "--rows", "4000"], capture_output=True, text=True)
    assert done.returncode == 0 and "all promises hold" in done.stdout, done.stdout + done.stderr
