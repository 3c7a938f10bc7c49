"""Deploys one logical server on Ray, finds it again and changes it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from .._build import StrPath
from ..errors import InputError, MachineError
from . import _config
from ._controller import Controller, DesiredState, Version
from ._process import program
from ._ray import NAMESPACE, ray, start

#: Memory besides the data: the program, its threads, buffers.
_BASE_BYTES = 64 << 20
#: Maximum memory per row of an answer that a shard computes, and of the row order at a frontend
#: that holds the rows itself.
_ANSWER_BYTES = 16
_ORDER_BYTES = 4
#: Bytes that the all-or-nothing transform adds to a record.
_AONT_BYTES = 24
_COLUMNS = ("what", "where", "rows", "address", "state", "restarts")


class Status(list[dict[str, Any]]):
    """The status of a deployment: one dictionary per process; ``str`` makes it a table.

    The keys are ``what``, ``where``, ``rows``, ``address``, ``state``, ``restarts``, ``kind``,
    ``version``, ``actor``, ``pid`` and ``actor_pid``.
    """

    def __str__(self) -> str:
        shown = [_COLUMNS, *(tuple("-" if row[key] is None else str(row[key]) for key in _COLUMNS) for row in self)]
        widths = [max(len(line[place]) for line in shown) for place in range(len(_COLUMNS))]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in shown)

    @property
    def ready(self) -> bool:
        """Whether every process is ready."""
        return bool(self) and all(row["state"] == "ready" for row in self)


class Deployment:
    """A logical server that runs on Ray.

    It outlives this process. :func:`connect` finds it again, and :meth:`shutdown` stops it.
    """

    def __init__(self, name: str, controller: Any) -> None:
        self.name = name
        self._controller = controller

    @property
    def addresses(self) -> list[str]:
        """The addresses of the frontends, for a load balancer.

        A frontend that restarts on its node keeps its address.
        """
        return [row["address"] for row in self.status() if row["kind"] == "frontend" and row["address"] is not None]

    def status(self) -> Status:
        """Returns the status of all processes."""
        desired: DesiredState = self._call("desired")
        status = Status()
        for name, kind, version, rows, report, failure in self._call("statuses"):
            state = failure or (report["state"] if report else "being placed")
            if state == "ready" and kind == "frontend" and report["version"] != version:
                state = f"serves version {report['version']}"
            elif state == "ready" and kind == "shard" and version not in (desired["current"], desired["pending"]):
                state = "retiring"
            status.append(
                {
                    "what": name.removeprefix("ifonly-"),
                    "kind": kind,
                    "where": report["node"] if report else None,
                    "rows": f"{rows[0]}:{rows[1]}" if rows else None,
                    "address": report["address"] if report else None,
                    "state": state,
                    "restarts": desired["restarts"].get(name, 0),
                    "version": version if kind == "shard" else report["version"] if report else None,
                    "actor": name,
                    "pid": report["pid"] if report else None,
                    "actor_pid": report["actor_pid"] if report else None,
                }
            )
        return status

    def reload(self, bundle: StrPath, *, timeout: float = 120.0) -> None:
        """Serves another bundle without downtime. Returns when every frontend serves it.

        The shards of the new bundle start first. Then every frontend reloads, and answers earlier
        searches from the old shards for ``limits.grace_seconds``, after which these stop. If a
        frontend refuses the bundle, or a step exceeds ``timeout``, all frontends return to the
        previous bundle and the error gives the reason.
        """
        desired: DesiredState = self._call("desired")
        current = desired["versions"][str(desired["current"])]
        self._roll_out(_version(bundle, len(current["parts"]), desired["index"], len(desired["keys"]), desired["config"]), timeout)

    def scale(self, *, shards: int | None = None, replicas: int | None = None, timeout: float = 120.0) -> None:
        """Changes the number of shards or of frontends.

        Another number of shards reloads the same bundle with a different split. A frontend that is
        removed finishes its answers.
        """
        if replicas is not None:
            known: DesiredState = self._call("desired")
            _check_replicas(replicas, known["config"])
            self._call("set_replicas", replicas)
        if shards is not None:
            desired: DesiredState = self._call("desired")
            current = desired["versions"][str(desired["current"])]
            if (desired["certificate"] is None) != (shards == 0):
                raise InputError("shards cannot be added to a server without shards, nor all be removed; deploy the server again instead")
            self._roll_out(_version(current["bundle"], shards, desired["index"], len(desired["keys"]), desired["config"]), timeout)
        self.wait(timeout)

    def wait(self, timeout: float = 120.0) -> None:
        """Waits until every process is ready."""
        deadline = time.monotonic() + timeout
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise MachineError(f"{self.name} is not ready after {timeout:g} seconds:\n{self.status()}{_room()}")
            time.sleep(0.1)

    def shutdown(self) -> None:
        """Stops everything.

        Frontends may finish their answers for ``limits.shutdown_seconds``; then shards stop.
        """
        desired: DesiredState = self._call("desired")
        seconds = _config.limit(desired["config"], "shutdown_seconds", _config.SHUTDOWN_SECONDS)
        self._call("shut_down", seconds, timeout=seconds + 60.0)
        with contextlib.suppress(Exception):
            ray.kill(self._controller)
        if desired["made_certificate"]:
            for path in desired["certificate"] or ():
                # The file may be on another machine.
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"<ifonly.ray.Deployment: {self.name}>"

    def _is_ready(self) -> bool:
        desired: DesiredState = self._call("desired")
        status = self.status()
        return (
            desired["pending"] is None
            and sum(row["kind"] == "frontend" for row in status) == desired["replicas"]
            and all(row["state"] in ("ready", "retiring") for row in status)
        )

    def _roll_out(self, version: Version, timeout: float) -> None:
        try:
            number: int = self._call("roll_out", version)
        except ray.exceptions.RayTaskError as error:
            raise MachineError(f"{self.name}: {error.cause if hasattr(error, 'cause') else error}") from error
        try:
            self.wait(timeout)
        except MachineError as error:
            if self._call("abandon", number):
                raise MachineError(f"{error}\nThe rollout of {version['bundle']} was abandoned; frontends return to the previous bundle.") from error
            if self._call("desired")["refused"] is None:
                raise
        refused = self._call("desired")["refused"]
        if refused is not None:
            raise MachineError(f"{self.name}: a frontend refused {version['bundle']}; still serving the previous bundle: {refused}")

    def _call(self, method: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """Calls the controller. Retries if Ray is restarting it."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return ray.get(getattr(self._controller, method).remote(*arguments), timeout=timeout)
            except ray.exceptions.GetTimeoutError as error:
                raise MachineError(f"the controller of {self.name} did not answer within {timeout:g} seconds") from error
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayActorError as error:
                if isinstance(error, ray.exceptions.ActorDiedError) or time.monotonic() > deadline:
                    raise MachineError(f"{self.name} is no longer running: {error}") from error
                time.sleep(0.2)


def deploy(
    bundle: StrPath,
    key: StrPath | Iterable[StrPath],
    shards: int = 8,
    replicas: int = 2,
    index: int = 1,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | StrPath | None = None,
    address: str | None = None,
    certificate: tuple[StrPath, StrPath] | None = None,
    directory: StrPath | None = None,
    network: Literal["loopback", "node"] | None = None,
    shard_cpus: float | None = None,
    frontend_cpus: float | None = None,
    binary: StrPath | None = None,
    log: Literal["error", "warn", "info", "debug"] = "warn",
    timeout: float = 120.0,
) -> Deployment:
    """Runs one logical server on Ray and returns when all its processes are ready.

    ``shards`` processes hold the rows, and ``replicas`` frontends serve clients. With ``shards=0``
    every frontend holds the whole bundle. ``bundle`` is a bundle, or the output of
    ``ifonly split``. ``key`` is the file of the root key, or several files. ``index`` is the index
    of this server in the bundle. All files must have the same path on every node. Ray receives
    paths of keys, not keys, and a configuration with a password is refused.

    - ``name``: name on Ray; the default is ``ifonly-DATASET-serverINDEX``. The actors are detached:
      they run until :meth:`Deployment.shutdown`, and :func:`connect` finds them again.
    - ``config``: the servers' configuration, a dictionary or a TOML file with the keys of
      docs/server.toml: ``listen``, ``tls``, ``tokens``, ``ledger``, ``limits`` and so on. By
      default frontends listen on free ports of 127.0.0.1; beyond loopback ``tls`` is needed.
    - ``address``: the Ray cluster, as for ``ray.init``; used if Ray is not initialised yet.
    - ``certificate``: the two files with which frontends and shards authenticate each other
      (``ifonly keygen --shard-certificate``). Without them a certificate is created in
      ``directory``, which on a cluster must be a folder that all nodes share.
    - ``network``: whether shards listen on loopback or on their node's address. The default is
      loopback if there is one node.
    - ``shard_cpus``, ``frontend_cpus``: processors that Ray reserves for each; the default is 1, or
      less on a small cluster. Memory is reserved for the rows and records of the part, and for the
      answers that ``limits.max_concurrent`` and ``limits.buffer_megabytes`` of ``config`` allow.
      Both limits apply to shards too.
    - ``binary``: the program to run. The default is the variable ``IFONLY``, or else the package.
    """
    paths = [key] if isinstance(key, (str, os.PathLike)) else list(key)
    keys = [_file(path, "key") for path in paths]
    settings = _config.read(config)
    version = _version(bundle, shards, index, len(keys), settings)
    _check_replicas(replicas, settings)
    executable = _binary(binary)
    start(address)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    dataset = str(_manifest(version["frontend"])["dataset"]["name"])
    called = name or f"{dataset}-server{index}"
    called = "ifonly-" + (re.sub(r"[^A-Za-z0-9._-]+", "-", called).strip("-") or "data").removeprefix("ifonly-")
    if _find(called) is not None:
        raise InputError(f"{called} is already running; use ifonly.ray.connect({called!r}) with reload or scale to change it, or choose another name")
    deployment_id = uuid.uuid4().hex
    if network is None:
        network = "loopback" if len(nodes) == 1 else "node"
    if not shards:
        pair = None
    elif certificate is not None:
        pair = (_file(certificate[0], "certificate"), _file(certificate[1], "key of the certificate"))
    else:
        pair = _certificate(f"{called}-{deployment_id[:8]}", directory, len(nodes), executable)
    cpus = _cpus(len(version["parts"]), replicas, shard_cpus, frontend_cpus)
    desired = DesiredState(
        name=called,
        deployment=deployment_id,
        index=index,
        keys=keys,
        certificate=pair,
        made_certificate=certificate is None and pair is not None,
        config=settings,
        binary=executable,
        network=network,
        log=log,
        cpus=cpus,
        replicas=replicas,
        current=None,
        pending=1,
        refused=None,
        versions={"1": version},
        newest=1,
        restarts={},
    )
    controller = (
        ray.remote(Controller)
        .options(name=called, namespace=NAMESPACE, lifetime="detached", max_restarts=-1, max_task_retries=0, max_concurrency=8, num_cpus=0)
        .remote(desired)
    )
    deployment = Deployment(called, controller)
    try:
        deployment.wait(timeout)
    except BaseException:
        with contextlib.suppress(Exception):
            deployment.shutdown()
        raise
    return deployment


def connect(name: str, *, address: str | None = None) -> Deployment:
    """Finds a running deployment by its name."""
    start(address or "auto")
    called = name if name.startswith("ifonly-") else f"ifonly-{name}"
    controller = _find(called)
    if controller is None:
        named = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == NAMESPACE]
        running = sorted(one for one in named if "-shard-" not in one and "-frontend-" not in one)
        raise InputError(f"no deployment is named {called}; running deployments: {', '.join(running) or 'none'}")
    return Deployment(called, controller)


def _find(name: str) -> Any:
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def _file(path: StrPath, what: str) -> str:
    found = os.path.abspath(os.fspath(path))
    if not os.path.isfile(found):
        raise InputError(f"{what}: no such file: {found}")
    return found


def _check_replicas(replicas: int, config: Mapping[str, Any]) -> None:
    if replicas < 1:
        raise InputError(f"replicas = {replicas}: must be at least 1")
    if replicas > 1 and config.get("peers"):
        raise InputError(
            f"replicas = {replicas}, but config has peers, and each frontend needs its own peers.listen; "
            "give replicas=1 and deploy each further frontend under another name, or remove peers"
        )


def _binary(given: StrPath | None) -> str | None:
    if given is not None:
        found = shutil.which(os.fspath(given))
        if found is None:
            raise InputError(f"binary: {os.fspath(given)} is not an executable program")
        return os.path.abspath(found)
    named = [path for path in os.environ.get("IFONLY", "").split(os.pathsep) if path]
    return os.path.abspath(named[0]) if named else None


def _manifest(bundle: str) -> dict[str, Any]:
    """Returns the manifest of a bundle or of a part of one."""
    path = Path(bundle) / "manifest.json"
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InputError(f"{bundle} is not a bundle: {error}") from error


def _version(bundle: StrPath, shards: int, index: int, keys: int, config: Mapping[str, Any]) -> Version:
    """Returns how a bundle is split, and the memory that its parts need."""
    folder = os.path.abspath(os.fspath(bundle))
    if shards < 0:
        raise InputError(f"shards = {shards}: must be 0 or more")
    split = os.path.isdir(os.path.join(folder, "frontend"))
    frontend = os.path.join(folder, "frontend") if split else folder
    manifest = _manifest(frontend)
    rows, servers = int(manifest["rows"]), len(manifest["operators"])
    if not 1 <= index <= servers:
        raise InputError(f"index = {index}: the bundle has servers 1 to {servers}")
    parts: list[tuple[str, tuple[int, int] | None, tuple[int, int]]] = []
    if split:
        found = sorted((path for path in Path(folder).glob("part-*")), key=lambda path: int(path.name.rpartition("-")[2]))
        if shards != len(found):
            raise InputError(f"shards = {shards}, but {folder} was split into {len(found)} parts")
        parts = [(str(path), None, _label(path)) for path in found]
        folders = [path for path, _, _ in parts]
    else:
        if shards > rows:
            raise InputError(f"shards = {shards}, but the bundle has only {rows} rows")
        cuts = [rows * number // shards for number in range(shards + 1)] if shards else []
        parts = [(folder, (first, last), (first, last)) for first, last in zip(cuts, cuts[1:])]
        folders = [folder]
    memory = _memory(sum(_bytes(path, "rows") for path in folders), sum(_bytes(path, "records") for path in folders), rows, shards, keys, config)
    return Version(bundle=folder, frontend=frontend, parts=parts, memory=memory, until=None)


def _memory(row_bytes: int, record_bytes: int, rows: int, shards: int, keys: int, config: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the bytes that Ray reserves for a shard and for a frontend.

    They cover rows, which are mapped; records, which are encoded once per key;
    ``limits.max_concurrent`` answers (one if it is not set); and ``limits.buffer_megabytes`` if it
    is set. Without these limits a process may need more: one answer per processor, and 1024 MB of
    buffered answers. Sessions of sealed searches are not counted.
    """
    concurrent, buffered = _config.memory_limits(config)
    answers = (_ANSWER_BYTES + (0 if shards else _ORDER_BYTES)) * (concurrent or 1) * rows
    data = row_bytes + keys * (record_bytes + _AONT_BYTES * rows)
    buffers = (buffered or 0) << 20
    held = -(-(data + answers) // max(shards, 1)) + buffers + _BASE_BYTES
    # A frontend with shards keeps the row order and the bits of a record query for every row.
    return held, 9 * rows + _BASE_BYTES if shards else held


def _label(part: Path) -> tuple[int, int]:
    """Returns the rows of a part of a split bundle."""
    try:
        label = json.loads((part / "part").read_bytes())
        return int(label["first"]), int(label["first"]) + int(label["count"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{part} is not a part of a bundle: {error!r}") from error


def _bytes(folder: str, file: str) -> int:
    try:
        return (Path(folder) / file).stat().st_size
    except OSError as error:
        raise InputError(f"{folder} is not a bundle: {error}") from error


def _certificate(name: str, directory: StrPath | None, nodes: int, binary: str | None) -> tuple[str, str]:
    if directory is None and nodes > 1:
        raise InputError(
            f"the cluster has {nodes} nodes, and frontends and shards need one certificate: give certificate=(FILE.pem, FILE.key) from "
            "`ifonly keygen --shard-certificate FILE.pem`, copied to every node, or a directory that all nodes share"
        )
    folder = Path(directory) if directory is not None else Path.home() / ".cache" / "ifonly" / "ray"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pair = folder / f"{name}.pem", folder / f"{name}.key"
    made = subprocess.run([*program(binary), "keygen", "--shard-certificate", str(pair[0])], capture_output=True, text=True)
    if made.returncode != 0:
        raise MachineError(f"cannot create a certificate for shards: {made.stderr.strip()}")
    return str(pair[0].absolute()), str(pair[1].absolute())


def _cpus(shards: int, replicas: int, shard: float | None, frontend: float | None) -> tuple[float, float]:
    """Returns the processors to reserve for a shard and a frontend.

    The default is one, or less on a small cluster, so that other servers and the second set of
    shards of a reload fit.
    """
    there = float(ray.cluster_resources().get("CPU", 1.0))
    usual = min(1.0, max(0.01, int(100 * there / (4 * (shards + replicas))) / 100))
    return (usual if shard is None else shard), (usual if frontend is None else frontend)


def _room() -> str:
    """Returns a sentence about the free resources, for errors of placement."""
    left = ray.available_resources()
    return f"\nThe cluster has {left.get('CPU', 0):g} free CPUs and {left.get('memory', 0) / 2**30:.1f} GiB of free memory."
