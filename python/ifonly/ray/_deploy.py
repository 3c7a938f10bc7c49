"""One logical server on Ray: deploying it, finding it again, changing it."""

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
from ._engine import NAMESPACE, ray, start
from ._keeper import Keeper, Version, Wanted
from ._process import program

#: Beside the data: the program, its threads, buffers.
_BASE_BYTES = 64 << 20
#: At most so much of an answer that is at work for each row, at a shard, and the order at a front that has the rows itself.
_ANSWER_BYTES = 16
_ORDER_BYTES = 4
#: What sealing adds to a record.
_SEAL_BYTES = 24
_COLUMNS = ("what", "where", "rows", "address", "state", "restarts")


class Status(list[dict[str, Any]]):
    """A row for every part: ``what``, ``where``, ``rows``, ``address``, ``state``, ``restarts``, ``version``, ``pid``, ``actor_pid``. Printed, it is a table."""

    def __str__(self) -> str:
        shown = [_COLUMNS, *(tuple("-" if row[key] is None else str(row[key]) for key in _COLUMNS) for row in self)]
        widths = [max(len(line[place]) for line in shown) for place in range(len(_COLUMNS))]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in shown)

    @property
    def ready(self) -> bool:
        """Whether every part is."""
        return bool(self) and all(row["state"] == "ready" for row in self)


class Deployment:
    """A logical server that runs on Ray. It outlives this process; :func:`connect` finds it again, :meth:`shutdown` ends it."""

    def __init__(self, name: str, keeper: Any) -> None:
        self.name = name
        self._keeper = keeper

    @property
    def addresses(self) -> list[str]:
        """Where the fronts listen now: what a load balancer needs. A front that is started again on its node keeps its address."""
        return [row["address"] for row in self.status() if row["kind"] == "front" and row["address"] is not None]

    def status(self) -> Status:
        """What runs where, and how it is."""
        wanted: Wanted = self._call("wanted")
        status = Status()
        for name, kind, version, rows, told, trouble in self._call("told"):
            state = trouble or (told["state"] if told else "being placed")
            if state == "ready" and kind == "front" and told["version"] != version:
                state = f"serves version {told['version']}"
            elif state == "ready" and kind == "shard" and version not in (wanted["current"], wanted["arriving"]):
                state = "leaving"
            status.append(
                {
                    "what": name.removeprefix("ifonly-"),
                    "kind": kind,
                    "where": told["node"] if told else None,
                    "rows": f"{rows[0]}:{rows[1]}" if rows else None,
                    "address": told["address"] if told else None,
                    "state": state,
                    "restarts": wanted["restarts"].get(name, 0),
                    "version": version if kind == "shard" else told["version"] if told else None,
                    "actor": name,
                    "pid": told["pid"] if told else None,
                    "actor_pid": told["actor_pid"] if told else None,
                }
            )
        return status

    def reload(self, bundle: StrPath, *, timeout: float = 120.0) -> None:
        """Serves another bundle without a gap, and returns when every front does.

        Shards of the new bundle come first; then every front takes it up, and answers searches that began before from the old shards for
        ``limits.grace_seconds``, after which those end. Where a front refuses it, or anything does not come within ``timeout``, fronts that have taken it up go back, everything is as it
        was and the error says why.
        """
        wanted: Wanted = self._call("wanted")
        current = wanted["versions"][str(wanted["current"])]
        self._bring(_version(bundle, len(current["parts"]), wanted["index"], len(wanted["keys"]), wanted["config"]), timeout)

    def scale(self, *, shards: int | None = None, replicas: int | None = None, timeout: float = 120.0) -> None:
        """Changes the number of shards, as a reload of the same bundle cut otherwise, or of fronts; a front that goes finishes its answers."""
        if replicas is not None:
            known: Wanted = self._call("wanted")
            _check_replicas(replicas, known["config"])
            self._call("set_replicas", replicas)
        if shards is not None:
            wanted: Wanted = self._call("wanted")
            current = wanted["versions"][str(wanted["current"])]
            if (wanted["certificate"] is None) != (shards == 0):
                raise InputError("a server without shards stays one, and one with shards keeps some; deploy it anew")
            self._bring(_version(current["bundle"], shards, wanted["index"], len(wanted["keys"]), wanted["config"]), timeout)
        self.wait(timeout)

    def wait(self, timeout: float = 120.0) -> None:
        """Returns when every part is ready."""
        deadline = time.monotonic() + timeout
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise MachineError(f"{self.name} is not ready after {timeout:g} seconds:\n{self.status()}{_room()}")
            time.sleep(0.1)

    def shutdown(self) -> None:
        """Ends everything: fronts finish their answers for ``limits.shutdown_seconds``, then shards go."""
        wanted: Wanted = self._call("wanted")
        seconds = _config.limit(wanted["config"], "shutdown_seconds", _config.SHUTDOWN_SECONDS)
        self._call("shut_down", seconds, timeout=seconds + 60.0)
        with contextlib.suppress(Exception):
            ray.kill(self._keeper)
        if wanted["made_certificate"]:
            for path in wanted["certificate"] or ():
                # Another machine may have it.
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"<ifonly.ray.Deployment: {self.name}>"

    def _is_ready(self) -> bool:
        wanted: Wanted = self._call("wanted")
        status = self.status()
        return (
            wanted["arriving"] is None
            and sum(row["kind"] == "front" for row in status) == wanted["replicas"]
            and all(row["state"] in ("ready", "leaving") for row in status)
        )

    def _bring(self, version: Version, timeout: float) -> None:
        try:
            number: int = self._call("bring", version)
        except ray.exceptions.RayTaskError as error:
            raise MachineError(f"{self.name}: {error.cause if hasattr(error, 'cause') else error}") from error
        try:
            self.wait(timeout)
        except MachineError as error:
            if self._call("abandon", number):
                raise MachineError(f"{error}\n{version['bundle']} was given up, and fronts that had taken it up go back") from error
            if self._call("wanted")["refused"] is None:
                raise
        refused = self._call("wanted")["refused"]
        if refused is not None:
            raise MachineError(f"{self.name}: a front did not take up {version['bundle']}, and everything is as before: {refused}")

    def _call(self, method: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """Asks the keeper, and again if it was just being restarted."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return ray.get(getattr(self._keeper, method).remote(*arguments), timeout=timeout)
            except ray.exceptions.GetTimeoutError as error:
                raise MachineError(f"the keeper of {self.name} does not answer for {timeout:g} seconds") from error
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayActorError as error:
                if isinstance(error, ray.exceptions.ActorDiedError) or time.monotonic() > deadline:
                    raise MachineError(f"{self.name} does not run any more: {error}") from error
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
    front_cpus: float | None = None,
    binary: StrPath | None = None,
    log: Literal["error", "warn", "info", "debug"] = "warn",
    timeout: float = 120.0,
) -> Deployment:
    """Runs one logical server on Ray: ``shards`` processes that hold the rows, ``replicas`` fronts that clients ask. Returns when all are ready.

    ``bundle`` is a bundle, or what ``ifonly split`` made of one; ``key`` the root key's file, or several; ``index`` says which of the bundle's servers
    this is. With ``shards=0`` every front holds the whole bundle. Everything must have the same path on every node: Ray gets paths of keys, not keys,
    and a configuration with a password in it is refused.

    - ``name``: what it is called on Ray, ``ifonly-DATASET-serverINDEX`` unless given. Actors are detached: they outlive this process, until
      :meth:`Deployment.shutdown`; :func:`connect` finds them again.
    - ``config``: the servers' configuration, a dictionary or a TOML file with the keys of docs/server.toml: ``listen``, ``tls``, ``tokens``, ``ledger``, ``limits`` …
      Fronts listen on free ports of 127.0.0.1 unless it says otherwise; beyond loopback it needs ``tls``.
    - ``address``: the Ray cluster, as ``ray.init`` takes it; used if Ray is not initialised yet.
    - ``certificate``: the pair of files by which fronts and shards know each other (``ifonly keygen --certificate``). Without one it is made in
      ``directory``, which on a cluster must be a folder that all nodes share.
    - ``network``: whether shards listen on loopback or on their node's address; the former if there is one node.
    - ``shard_cpus``, ``front_cpus``: what Ray reserves for each; 1, or less where the cluster has fewer. Memory is reserved for the rows and records of
      the part, and for as many answers as ``config`` allows with ``limits.running`` and ``limits.transit_megabytes``, which shards are given too.
    - ``binary``: the program to run, or the variable ``IFONLY``; otherwise the package's own.
    """
    paths = [key] if isinstance(key, (str, os.PathLike)) else list(key)
    keys = [_file(path, "key") for path in paths]
    settings = _config.read(config)
    version = _version(bundle, shards, index, len(keys), settings)
    _check_replicas(replicas, settings)
    executable = _binary(binary)
    start(address)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    dataset = str(_manifest(version["front"])["dataset"]["name"])
    called = name or f"{dataset}-server{index}"
    called = "ifonly-" + (re.sub(r"[^A-Za-z0-9._-]+", "-", called).strip("-") or "data").removeprefix("ifonly-")
    if _find(called) is not None:
        raise InputError(f"{called} runs already: ifonly.ray.connect({called!r}) finds it, and its reload and scale change it; or give another name")
    deployment_id = uuid.uuid4().hex
    if network is None:
        network = "loopback" if len(nodes) == 1 else "node"
    if not shards:
        pair = None
    elif certificate is not None:
        pair = (_file(certificate[0], "certificate"), _file(certificate[1], "certificate's key"))
    else:
        pair = _certificate(f"{called}-{deployment_id[:8]}", directory, len(nodes), executable)
    cpus = _cpus(len(version["parts"]), replicas, shard_cpus, front_cpus)
    wanted = Wanted(
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
        arriving=1,
        refused=None,
        versions={"1": version},
        newest=1,
        restarts={},
    )
    keeper = (
        ray.remote(Keeper)
        .options(name=called, namespace=NAMESPACE, lifetime="detached", max_restarts=-1, max_task_retries=0, max_concurrency=8, num_cpus=0)
        .remote(wanted)
    )
    deployment = Deployment(called, keeper)
    try:
        deployment.wait(timeout)
    except BaseException:
        with contextlib.suppress(Exception):
            deployment.shutdown()
        raise
    return deployment


def connect(name: str, *, address: str | None = None) -> Deployment:
    """A deployment that another process made, by its name."""
    start(address or "auto")
    called = name if name.startswith("ifonly-") else f"ifonly-{name}"
    keeper = _find(called)
    if keeper is None:
        named = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == NAMESPACE]
        running = sorted(one for one in named if "-shard-" not in one and "-front-" not in one)
        raise InputError(f"no deployment is called {called}; running: {', '.join(running) or 'none'}")
    return Deployment(called, keeper)


def _find(name: str) -> Any:
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def _file(path: StrPath, what: str) -> str:
    found = os.path.abspath(os.fspath(path))
    if not os.path.isfile(found):
        raise InputError(f"{what}: there is no file {found}")
    return found


def _check_replicas(replicas: int, config: Mapping[str, Any]) -> None:
    if replicas < 1:
        raise InputError(f"replicas = {replicas}: at least one front")
    if replicas > 1 and config.get("peers"):
        raise InputError(
            f"replicas = {replicas}, but config has peers, and every front has an address of its own for the server before; "
            "give replicas=1 and deploy again under another name and peers.listen for another front, or give no peers"
        )


def _binary(given: StrPath | None) -> str | None:
    if given is not None:
        found = shutil.which(os.fspath(given))
        if found is None:
            raise InputError(f"binary: {os.fspath(given)} is no program")
        return os.path.abspath(found)
    named = [path for path in os.environ.get("IFONLY", "").split(os.pathsep) if path]
    return os.path.abspath(named[0]) if named else None


def _manifest(bundle: str) -> dict[str, Any]:
    """What the manifest says; of parts too, which have not all rows."""
    path = Path(bundle) / "manifest.json"
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InputError(f"{bundle} is no bundle: {error}") from error


def _version(bundle: StrPath, shards: int, index: int, keys: int, config: Mapping[str, Any]) -> Version:
    """How a bundle is cut, and what its parts need."""
    folder = os.path.abspath(os.fspath(bundle))
    if shards < 0:
        raise InputError(f"shards = {shards}: a number of processes, or 0 for none")
    split = os.path.isdir(os.path.join(folder, "front"))
    front = os.path.join(folder, "front") if split else folder
    manifest = _manifest(front)
    rows, servers = int(manifest["rows"]), len(manifest["operators"])
    if not 1 <= index <= servers:
        raise InputError(f"index = {index}: the bundle has the servers 1 to {servers}")
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
    return Version(bundle=folder, front=front, parts=parts, memory=memory, until=None)


def _memory(row_bytes: int, record_bytes: int, rows: int, shards: int, keys: int, config: Mapping[str, Any]) -> tuple[int, int]:
    """What Ray reserves for a shard and for a front, in bytes.

    Rows, which are mapped, and records, which are sealed once for every key; of answers one that is at work, or as many as ``limits.running`` says, and
    those that wait if ``limits.transit_megabytes`` is given. Without these limits a process may take more: by default an answer at work for
    every processor, and 1024 MB of answers that wait. Sessions of sealed searches are not counted.
    """
    running, transit = _config.memory_limits(config)
    answers = (_ANSWER_BYTES + (0 if shards else _ORDER_BYTES)) * (running or 1) * rows
    data = row_bytes + keys * (record_bytes + _SEAL_BYTES * rows)
    waiting = (transit or 0) << 20
    held = -(-(data + answers) // max(shards, 1)) + waiting + _BASE_BYTES
    # A front with shards keeps an order and the query's bits for every row while it fetches a record.
    return held, 9 * rows + _BASE_BYTES if shards else held


def _label(part: Path) -> tuple[int, int]:
    """Which rows a part of a split bundle has."""
    try:
        label = json.loads((part / "part").read_bytes())
        return int(label["first"]), int(label["first"]) + int(label["count"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{part} is no part of a bundle: {error!r}") from error


def _bytes(folder: str, file: str) -> int:
    try:
        return (Path(folder) / file).stat().st_size
    except OSError as error:
        raise InputError(f"{folder} is no bundle: {error}") from error


def _certificate(name: str, directory: StrPath | None, nodes: int, binary: str | None) -> tuple[str, str]:
    if directory is None and nodes > 1:
        raise InputError(
            f"the cluster has {nodes} nodes, and fronts and shards need one certificate: give certificate=(FILE.pem, FILE.key), made by `ifonly keygen "
            "--certificate FILE.pem` and present on every node, or a directory that all nodes share"
        )
    folder = Path(directory) if directory is not None else Path.home() / ".cache" / "ifonly" / "ray"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pair = folder / f"{name}.pem", folder / f"{name}.key"
    made = subprocess.run([*program(binary), "keygen", "--certificate", str(pair[0])], capture_output=True, text=True)
    if made.returncode != 0:
        raise MachineError(f"no certificate for shards could be made: {made.stderr.strip()}")
    return str(pair[0].absolute()), str(pair[1].absolute())


def _cpus(shards: int, replicas: int, shard: float | None, front: float | None) -> tuple[float, float]:
    """One each, or less on a small cluster, where room is left for other servers and a reload's second set of shards."""
    there = float(ray.cluster_resources().get("CPU", 1.0))
    usual = min(1.0, max(0.01, int(100 * there / (4 * (shards + replicas))) / 100))
    return (usual if shard is None else shard), (usual if front is None else front)


def _room() -> str:
    """What Ray has left, for whoever wonders why something is not placed."""
    left = ray.available_resources()
    return f"\nThe cluster has {left.get('CPU', 0):g} CPUs and {left.get('memory', 0) / 2**30:.1f} GiB of memory left."
