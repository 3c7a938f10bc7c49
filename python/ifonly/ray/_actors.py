"""The two kinds of workers: an actor that owns a shard's process, and one that owns a front's.

Actors hold nothing that matters. What should be comes from the keeper, again and again (``tend``); what is goes back as the answer. So an actor
that Ray has restarted, here or on another node, is put right by the next call.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import stat
import tempfile
import threading
import time
import urllib.error
import uuid
from pathlib import Path
from typing import Any, TypedDict

from . import _config
from ._engine import NAMESPACE, ray
from ._process import Process, get, program

#: How often a front is asked whether it is ready.
_LOOK_SECONDS = 0.2
#: The state of a process that is there and says nothing.
SILENT = "does not answer"


class Told(TypedDict):
    """What an actor says of itself."""

    #: Another one after every start of the actor.
    life: str
    node: str
    actor_pid: int
    pid: int | None
    address: str | None
    state: str
    restarts: int
    #: Which version of the bundle it serves.
    version: int | None
    #: The version that it could not take up, and why.
    refused: tuple[int, str] | None


class ShardPlan(TypedDict):
    """What a shard needs, which never changes: another bundle or another cut is another shard."""

    name: str
    keeper: str
    #: Another one for every deployment, so that nobody finds the processes of another.
    deployment: str
    version: int
    binary: str | None
    bundle: str
    rows: tuple[int, int] | None
    keys: list[str]
    certificate: tuple[str, str]
    network: str
    #: Answers at work at once, and megabytes of answers that wait for their front; the program's own numbers without.
    limits: tuple[int | None, int | None]
    log: str


class FrontPlan(TypedDict):
    """What a front should be now."""

    version: int
    bundle: str
    #: The addresses of the shards of every version that is still answered; none for a front with the whole bundle.
    shards: dict[int, list[str]] | None
    #: The port that it had, by which clients know it.
    port: int


class _Worker:
    """What both have in common."""

    def __init__(self, name: str, keeper: str) -> None:
        self._name, self._keeper = name, keeper
        self._life = uuid.uuid4().hex
        self._process: Process | None = None

    def __repr__(self) -> str:
        return self._name

    def _changed(self) -> None:
        """Tells the keeper to look now; it looks anyway, only later."""
        with contextlib.suppress(Exception):
            ray.get_actor(self._keeper, namespace=NAMESPACE).wake.remote()

    def _tell(self, state: str, version: int | None, refused: tuple[int, str] | None = None) -> Told:
        process = self._process
        return Told(
            life=self._life,
            node=ray.util.get_node_ip_address(),
            actor_pid=os.getpid(),
            pid=None if process is None else process.pid,
            address=None if process is None else process.address,
            state=state,
            restarts=0 if process is None else process.restarts,
            version=version,
            refused=refused,
        )

    def stop(self, seconds: float) -> None:
        """Lets the process finish for so long, then ends it."""
        process, self._process = self._process, None
        if process is not None:
            process.stop(seconds)


class Shard(_Worker):
    """Owns ``ifonly shard``."""

    def __init__(self, plan: ShardPlan) -> None:
        super().__init__(plan["name"], plan["keeper"])
        self._plan = plan
        self._process = Process(_folder(plan["deployment"]) / f"{_digest(plan['name'])}.leash", self._command, self._changed)

    def _command(self, port: int) -> list[str]:
        plan = self._plan
        _require([plan["bundle"], *plan["keys"], *plan["certificate"]])
        host = "127.0.0.1" if plan["network"] == "loopback" else str(ray.util.get_node_ip_address())
        certificate, key = plan["certificate"]
        command = [*program(plan["binary"]), "shard", plan["bundle"], "--cert", certificate, "--cert-key", key]
        # By its admin port it is known to be alive.
        command += ["--listen", f"{host}:{port}", "--admin", "127.0.0.1:0", "--log", plan["log"]]
        for path in plan["keys"]:
            command += ["--key", path]
        if plan["rows"] is not None:
            command += ["--rows", "{}:{}".format(*plan["rows"])]
        for flag, number in zip(("--running", "--transit-megabytes"), plan["limits"]):
            if number is not None:
                command += [flag, str(number)]
        return command

    def stop(self, seconds: float) -> None:
        """Lets the process finish for so long, then ends it; the last shard of a node removes the folder."""
        super().stop(seconds)
        folder = _folder(self._plan["deployment"])
        (folder / f"{_digest(self._name)}.leash").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def tend(self) -> Told:
        """How it is."""
        process = self._process
        if process is None:
            return self._tell("stopped", None)
        state = "ready" if process.address is not None else process.trouble or "starting"
        if process.silent:
            state = SILENT
        return self._tell(state, self._plan["version"])


class Front(_Worker):
    """Owns ``ifonly serve``, and the files that tell it what to serve."""

    def __init__(
        self, name: str, keeper: str, deployment: str, binary: str | None, config: dict[str, Any], keys: list[str], index: int,
        certificate: tuple[str, str] | None, log: str,
    ) -> None:  # fmt: skip
        super().__init__(name, keeper)
        self._binary, self._config, self._keys, self._index = binary, config, keys, index
        self._certificate, self._log = certificate, log
        self._folder = _folder(deployment, _digest(name))
        self._plan: FrontPlan | None = None
        self._lock = threading.Lock()
        # What the process serves, what it would not, and which reload it has been asked for and has not answered.
        self._serving: int | None = None
        self._refused: tuple[int, str] | None = None
        self._asked: int | None = None
        self._counts = (0, 0)
        self._ready = "starting"
        threading.Thread(target=self._look, name="ifonly-look", daemon=True).start()
        self._changed()

    def tend(self, plan: FrontPlan) -> Told:
        """Becomes what it should be, and says how far it is."""
        with self._lock:
            before, self._plan = self._plan, plan
            for version, addresses in (plan["shards"] or {}).items():
                _config.replace(self._shards_file(version), "".join(f"{address}\n" for address in addresses))
            if before is None or (before["version"], before["bundle"]) != (plan["version"], plan["bundle"]):
                self._write()
            if self._process is None:
                self._process = Process(
                    self._folder / "leash", self._command, self._changed, port=_config.port(self._config), before=plan["port"]
                )
                if self._process.was_found:
                    self._serving = self._noted()
            # What was heard before it fell silent does not count.
            return self._tell(SILENT if self._process.silent else self._ready, self._serving, self._refused)

    def stop(self, seconds: float) -> None:
        """Lets running answers finish for so long, then ends the process and removes its files."""
        super().stop(seconds)
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()
            self._folder.parent.rmdir()

    def _shards_file(self, version: int) -> Path:
        return self._folder / f"shards-{version}"

    def _write(self) -> None:
        plan = self._plan
        assert plan is not None
        config = dict(self._config, bundle=plan["bundle"], index=self._index, keys=self._keys)
        if plan["shards"] is not None and self._certificate is not None:
            certificate, key = self._certificate
            config["shards"] = {"file": str(self._shards_file(plan["version"])), "certificate": certificate, "key": key}
        _config.replace(self._folder / "server.toml", f"# Version {plan['version']}.\n" + _config.write(config))

    def _note(self, version: int) -> None:
        """What the process serves, also for the actor's next life."""
        self._serving = version
        _config.replace(self._folder / "serving", str(version))

    def _noted(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / "serving").read_text())
        return None

    def _command(self, port: int) -> list[str]:
        with self._lock:
            assert self._plan is not None
            self._asked, self._ready = None, "starting"
            self._note(self._plan["version"])
            _require([self._plan["bundle"], *self._keys, *(self._certificate or ())])
        listen = self._config["listen"].rpartition(":")[0] + f":{port}"
        flags = ["--config", str(self._folder / "server.toml"), "--listen", listen, "--log", self._log]
        return [*program(self._binary), "serve", *flags]

    def _look(self) -> None:
        """Watches the admin port: readiness, and whether a reload was taken up."""
        while True:
            process = self._process
            if process is None or process.admin is None or process.address is None:
                self._ready = (process.trouble if process else None) or "starting"
            else:
                was = self._ready, self._serving, self._refused
                with contextlib.suppress(OSError):
                    self._ask(process, process.admin)
                if was != (self._ready, self._serving, self._refused):
                    self._changed()
            time.sleep(_LOOK_SECONDS)

    def _ask(self, process: Process, admin: str) -> None:
        self._ready = _readiness(admin)
        with self._lock:
            plan = self._plan
            if plan is None:
                return
            if self._asked is not None:
                self._hear_of_reload(process, _reloads(admin))
            elif plan["version"] != self._serving and (self._refused is None or self._refused[0] != plan["version"]):
                counts = _reloads(admin)
                if process.signal(signal.SIGHUP):
                    self._asked, self._counts = plan["version"], counts

    def _hear_of_reload(self, process: Process, counts: tuple[int, int]) -> None:
        """A reload that was asked for is waited for, also if something else is wanted by now: it may come late, and then must be undone."""
        if self._asked is None or counts == self._counts:
            return
        asked, self._asked = self._asked, None
        if counts[1] > self._counts[1]:
            self._refused = asked, process.log or "its log says why"
        else:
            self._note(asked)
            # Ready was said about the version before.
            self._ready = "starting"


def _readiness(admin: str) -> str:
    try:
        with get(admin, "/readyz"):
            return "ready"
    except urllib.error.HTTPError as error:
        said = error.read(300).decode("utf-8", "replace").strip()
        return f"not ready: {said or error.reason}"


def _reloads(admin: str) -> tuple[int, int]:
    """How many reloads there were, and how many of those failed."""
    with get(admin, "/metrics") as response:
        lines = response.read(1 << 20).decode("utf-8", "replace").splitlines()
    counts = dict(line.rsplit(" ", 1) for line in lines if line.startswith("ifonly_reloads_"))
    return int(counts.get("ifonly_reloads_total", 0)), int(counts.get("ifonly_reloads_failed_total", 0))


def _require(paths: list[str]) -> None:
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{path} is not on node {ray.util.get_node_ip_address()}: bundle, keys and certificates must have the same path on every node"
            )


def _folder(*names: str) -> Path:
    """A folder that the actor's next life finds again; nobody else can read or have made it."""
    folder = Path(tempfile.gettempdir()) / f"ifonly-ray-{os.getuid()}"
    for place in (folder, *(folder.joinpath(*names[: count + 1]) for count in range(len(names)))):
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{place} must be a folder of this user alone")
    return folder.joinpath(*names)


def _digest(name: str) -> str:
    """Short: the path of a socket has at most a hundred bytes."""
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
