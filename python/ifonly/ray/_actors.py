"""Ray actors that own processes: one kind for shards, one for frontends.

Actors hold no state that must survive. The controller sends the desired state again and again
(``reconcile``), and the actor returns the actual state. So the next call repairs an actor that Ray
has restarted, here or on another node.
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
from ._process import Process, get, program
from ._ray import NAMESPACE, ray

#: How often an actor polls its frontend's admin port.
_POLL_SECONDS = 0.2
#: The state of a process that runs and does not respond.
SILENT = "does not answer"


class ActorReport(TypedDict):
    """The actual state of an actor and its process."""

    #: Changes with every start of the actor.
    incarnation: str
    node: str
    actor_pid: int
    pid: int | None
    address: str | None
    state: str
    restarts: int
    #: The version of the bundle that the process serves.
    version: int | None
    #: The version that the process refused, and the reason.
    refused: tuple[int, str] | None


class ShardPlan(TypedDict):
    """The desired state of a shard. It never changes: a new bundle or split needs new shards."""

    name: str
    controller: str
    #: Unique per deployment, so that an actor never finds the processes of another deployment.
    deployment: str
    version: int
    binary: str | None
    bundle: str
    rows: tuple[int, int] | None
    keys: list[str]
    certificate: tuple[str, str]
    network: str
    #: Maximum concurrent answers and megabytes of buffered answers; None for the defaults.
    limits: tuple[int | None, int | None]
    log: str


class FrontendPlan(TypedDict):
    """The desired state of a frontend."""

    version: int
    bundle: str
    #: Addresses of the shards, by version still served; None if the frontend holds the bundle.
    shards: dict[int, list[str]] | None
    #: The port that the frontend had before, which clients know.
    port: int


class _Worker:
    """The common part of both kinds of actors."""

    def __init__(self, name: str, controller: str) -> None:
        self._name, self._controller = name, controller
        self._incarnation = uuid.uuid4().hex
        self._process: Process | None = None

    def __repr__(self) -> str:
        return self._name

    def _notify(self) -> None:
        """Asks the controller to look now. Without this call it looks a little later."""
        with contextlib.suppress(Exception):
            ray.get_actor(self._controller, namespace=NAMESPACE).wake.remote()

    def _report(self, state: str, version: int | None, refused: tuple[int, str] | None = None) -> ActorReport:
        process = self._process
        return ActorReport(
            incarnation=self._incarnation,
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
        """Gives the process this time to finish, then kills it."""
        process, self._process = self._process, None
        if process is not None:
            process.stop(seconds)


class Shard(_Worker):
    """Owns a process ``ifonly shard``."""

    def __init__(self, plan: ShardPlan) -> None:
        super().__init__(plan["name"], plan["controller"])
        self._plan = plan
        self._process = Process(_folder(plan["deployment"]) / f"{_digest(plan['name'])}.socket", self._command, self._notify)

    def _command(self, port: int) -> list[str]:
        plan = self._plan
        _require([plan["bundle"], *plan["keys"], *plan["certificate"]])
        host = "127.0.0.1" if plan["network"] == "loopback" else str(ray.util.get_node_ip_address())
        certificate, key = plan["certificate"]
        command = [*program(plan["binary"]), "shard", plan["bundle"], "--cert", certificate, "--cert-key", key]
        # The admin port serves the health checks.
        command += ["--listen", f"{host}:{port}", "--admin", "127.0.0.1:0", "--log", plan["log"]]
        for path in plan["keys"]:
            command += ["--key", path]
        if plan["rows"] is not None:
            command += ["--rows", "{}:{}".format(*plan["rows"])]
        for flag, number in zip(("--max-concurrent", "--buffer-megabytes"), plan["limits"]):
            if number is not None:
                command += [flag, str(number)]
        return command

    def stop(self, seconds: float) -> None:
        """Stops the process; the last shard on a node removes the folder."""
        super().stop(seconds)
        folder = _folder(self._plan["deployment"])
        (folder / f"{_digest(self._name)}.socket").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def reconcile(self) -> ActorReport:
        """Returns the actual state."""
        process = self._process
        if process is None:
            return self._report("stopped", None)
        state = "ready" if process.address is not None else process.failure or "starting"
        if process.silent:
            state = SILENT
        return self._report(state, self._plan["version"])


class Frontend(_Worker):
    """Owns a process ``ifonly serve`` and its configuration files."""

    def __init__(
        self, name: str, controller: str, deployment: str, binary: str | None, config: dict[str, Any], keys: list[str], index: int,
        certificate: tuple[str, str] | None, log: str,
    ) -> None:  # fmt: skip
        super().__init__(name, controller)
        self._binary, self._config, self._keys, self._index = binary, config, keys, index
        self._certificate, self._log = certificate, log
        self._folder = _folder(deployment, _digest(name))
        self._plan: FrontendPlan | None = None
        self._lock = threading.Lock()
        # The version that the process serves, the one that it refused, and the one whose reload is
        # requested and not yet answered.
        self._serving: int | None = None
        self._refused: tuple[int, str] | None = None
        self._reloading: int | None = None
        self._reload_counts = (0, 0)
        self._ready = "starting"
        threading.Thread(target=self._watch, name="ifonly-watch", daemon=True).start()
        self._notify()

    def reconcile(self, plan: FrontendPlan) -> ActorReport:
        """Moves towards the desired state and returns the actual state."""
        with self._lock:
            before, self._plan = self._plan, plan
            for version, addresses in (plan["shards"] or {}).items():
                _config.replace(self._shards_file(version), "".join(f"{address}\n" for address in addresses))
            if before is None or (before["version"], before["bundle"]) != (plan["version"], plan["bundle"]):
                self._write()
            if self._process is None:
                self._process = Process(
                    self._folder / "socket", self._command, self._notify, port=_config.port(self._config), before=plan["port"]
                )
                if self._process.was_found:
                    self._serving = self._saved_version()
            # Readiness reported before the process fell silent does not count.
            return self._report(SILENT if self._process.silent else self._ready, self._serving, self._refused)

    def stop(self, seconds: float) -> None:
        """Gives running answers this time to finish, then stops the process. Removes its files."""
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

    def _save_version(self, version: int) -> None:
        """Stores the served version, also for the actor's next incarnation."""
        self._serving = version
        _config.replace(self._folder / "serving", str(version))

    def _saved_version(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / "serving").read_text())
        return None

    def _command(self, port: int) -> list[str]:
        with self._lock:
            assert self._plan is not None
            self._reloading, self._ready = None, "starting"
            self._save_version(self._plan["version"])
            _require([self._plan["bundle"], *self._keys, *(self._certificate or ())])
        listen = self._config["listen"].rpartition(":")[0] + f":{port}"
        flags = ["--config", str(self._folder / "server.toml"), "--listen", listen, "--log", self._log]
        return [*program(self._binary), "serve", *flags]

    def _watch(self) -> None:
        """Polls the admin port for readiness and for the result of a reload."""
        while True:
            process = self._process
            if process is None or process.admin is None or process.address is None:
                self._ready = (process.failure if process else None) or "starting"
            else:
                before = self._ready, self._serving, self._refused
                with contextlib.suppress(OSError):
                    self._poll(process, process.admin)
                if before != (self._ready, self._serving, self._refused):
                    self._notify()
            time.sleep(_POLL_SECONDS)

    def _poll(self, process: Process, admin: str) -> None:
        self._ready = _readiness(admin)
        with self._lock:
            plan = self._plan
            if plan is None:
                return
            if self._reloading is not None:
                self._check_reload(process, _reloads(admin))
            elif plan["version"] != self._serving and (self._refused is None or self._refused[0] != plan["version"]):
                counts = _reloads(admin)
                if process.signal(signal.SIGHUP):
                    self._reloading, self._reload_counts = plan["version"], counts

    def _check_reload(self, process: Process, counts: tuple[int, int]) -> None:
        """Checks whether a requested reload has ended.

        It waits even if another version is desired by now: the reload may still succeed, and then
        must be undone.
        """
        if self._reloading is None or counts == self._reload_counts:
            return
        version, self._reloading = self._reloading, None
        if counts[1] > self._reload_counts[1]:
            self._refused = version, process.log or "see its log for the reason"
        else:
            self._save_version(version)
            # The readiness concerned the previous version.
            self._ready = "starting"


def _readiness(admin: str) -> str:
    try:
        with get(admin, "/readyz"):
            return "ready"
    except urllib.error.HTTPError as error:
        text = error.read(300).decode("utf-8", "replace").strip()
        return f"not ready: {text or error.reason}"


def _reloads(admin: str) -> tuple[int, int]:
    """Returns the number of reloads, and how many of them failed."""
    with get(admin, "/metrics") as response:
        lines = response.read(1 << 20).decode("utf-8", "replace").splitlines()
    counts = dict(line.rsplit(" ", 1) for line in lines if line.startswith("ifonly_reload"))
    return int(counts.get("ifonly_reloads_total", 0)), int(counts.get("ifonly_reload_failures_total", 0))


def _require(paths: list[str]) -> None:
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{path} is missing on node {ray.util.get_node_ip_address()}; "
                "bundle, keys and certificates must have the same path on every node"
            )


def _folder(*names: str) -> Path:
    """Returns a private folder that the actor's next incarnation finds again.

    It refuses a folder that another user owns or can access.
    """
    folder = Path(tempfile.gettempdir()) / f"ifonly-ray-{os.getuid()}"
    for place in (folder, *(folder.joinpath(*names[: count + 1]) for count in range(len(names)))):
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{place} must be a folder that only this user can access")
    return folder.joinpath(*names)


def _digest(name: str) -> str:
    """Returns a short name, because the path of a socket has at most about a hundred bytes."""
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
