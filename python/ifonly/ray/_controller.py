"""The controller: an actor that keeps one logical server in its desired state.

It compares the desired with the actual state a few times a second, and whenever an actor calls.
The desired state is also in Ray's key-value store, so a controller that Ray has restarted continues
from there. Serving does not need the controller: its absence matters only if something else changes
or fails meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any, TypedDict

from . import _config
from ._actors import ActorReport, Frontend, FrontendPlan, Shard, ShardPlan
from ._ray import NAMESPACE, ray, store

#: How often the controller reconciles without a call.
_TICK_SECONDS = 0.5
#: Delay before an actor that could not be created or has died is created again.
_RECREATE_SECONDS = 2.0
#: How long a shard that is no longer needed may finish its answers.
_SHARD_SECONDS = 5.0

#: An actor's name, kind, version, rows, last report and failure.
ActorStatus = tuple[str, str, int, "list[int] | None", "ActorReport | None", "str | None"]


class Version(TypedDict):
    """A bundle and how it is split."""

    bundle: str
    #: The directory from which frontends read the manifest.
    frontend: str
    #: For every shard its part of the bundle and its rows.
    parts: list[tuple[str, tuple[int, int] | None, tuple[int, int]]]
    #: Bytes of memory for a shard and a frontend.
    memory: tuple[int, int]
    #: When its shards may stop, once another version is served.
    until: float | None


class DesiredState(TypedDict):
    """The desired state of a logical server.

    Ray stores it, so it contains only JSON types and no secrets: paths of keys, hashes of tokens,
    addresses without passwords.
    """

    name: str
    #: Unique per deployment.
    deployment: str
    index: int
    keys: list[str]
    certificate: tuple[str, str] | None
    #: Whether the certificate was created for this deployment.
    made_certificate: bool
    config: dict[str, Any]
    binary: str | None
    network: str
    log: str
    cpus: tuple[float, float]
    replicas: int
    #: The version to serve, the version whose shards are starting, and why the last version that
    #: was refused was refused.
    current: int | None
    pending: int | None
    refused: str | None
    versions: dict[str, Version]
    #: The highest version number so far. Numbers are never reused, because frontends remember the
    #: versions that they refused and actors may be slow to stop.
    newest: int
    #: Number of restarts of actors and processes, by name.
    restarts: dict[str, int]


class _Handle:
    """One actor as the controller knows it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.call: Any = None
        self.report: ActorReport | None = None
        self.failure: str | None = None
        self.since = time.monotonic()


class Controller:
    """Keeps one logical server in its desired state."""

    def __init__(self, desired: DesiredState) -> None:
        stored = store._internal_kv_get(_key(desired["name"]))
        self._desired: DesiredState = json.loads(stored) if stored else desired
        self._handles: dict[str, _Handle] = {}
        self._lock = threading.RLock()
        self._awake = threading.Event()
        self._over = False
        self._loop_failure: str | None = None
        self._store()
        threading.Thread(target=self._run, name="ifonly-controller", daemon=True).start()

    def __repr__(self) -> str:
        return self._desired["name"]

    # Remote calls.

    def wake(self) -> None:
        """Reconciles now, because something has changed."""
        self._awake.set()

    def desired(self) -> DesiredState:
        """Returns the desired state."""
        with self._lock:
            return self._desired

    def statuses(self) -> list[ActorStatus]:
        """Returns the status of every actor."""
        with self._lock:
            rows: list[ActorStatus] = []
            for name, version, number in self._shards():
                span = list(self._desired["versions"][str(version)]["parts"][number][2])
                rows.append((name, "shard", version, span, *_last_report(self._handles.get(name))))
            for name in self._frontends():
                current = self._desired["current"] or 0
                rows.append((name, "frontend", current, None, *_last_report(self._handles.get(name))))
            return rows

    def roll_out(self, version: Version) -> int:
        """Begins to serve another bundle, or the same one split differently."""
        with self._lock:
            if self._over:
                raise RuntimeError("the deployment is shutting down")
            if self._desired["pending"] is not None:
                raise RuntimeError("another version is being rolled out; wait until it is ready")
            number = self._desired["newest"] = self._desired["newest"] + 1
            self._desired["versions"][str(number)] = version
            self._desired["pending"], self._desired["refused"] = number, None
            self._store()
        self._awake.set()
        return number

    def abandon(self, number: int) -> bool:
        """Gives up a version that not every frontend serves yet. Returns whether it did."""
        with self._lock:
            if self._desired["pending"] == number:
                self._stop([name for name, version, _ in self._shards() if version == number], _SHARD_SECONDS)
                self._desired["pending"] = None
                del self._desired["versions"][str(number)]
                self._store()
                abandoned = True
            else:
                abandoned = self._desired["current"] == number and self._revert()
        self._awake.set()
        return abandoned

    def set_replicas(self, replicas: int) -> None:
        """Changes the number of frontends."""
        with self._lock:
            self._desired["replicas"] = replicas
            self._store()
        self._awake.set()

    def shut_down(self, seconds: float) -> None:
        """Stops frontends, then shards."""
        with self._lock:
            self._over = True
            frontends, shards = self._frontends(), [name for name, _, _ in self._shards()]
            known = list(self._handles)
            for names, timeout in ((frontends, seconds), (shards, _SHARD_SECONDS), (known, _SHARD_SECONDS)):
                self._stop(names, timeout).join()
            store._internal_kv_del(_key(self._desired["name"]))

    # Internal functions.

    def _run(self) -> None:
        while not self._over:
            try:
                with self._lock:
                    if not self._over:
                        self._reconcile()
                self._loop_failure = None
            except Exception as error:  # The next iteration may succeed.
                text = f"{type(error).__name__}: {error}"
                if text != self._loop_failure:
                    print(f"{self._desired['name']}: {text}", flush=True)
                self._loop_failure = text
            self._awake.wait(_TICK_SECONDS)
            self._awake.clear()
            # Several calls at once need only one iteration.
            time.sleep(0.02)

    def _store(self) -> None:
        store._internal_kv_put(_key(self._desired["name"]), json.dumps(self._desired), overwrite=True)

    def _shards(self) -> list[tuple[str, int, int]]:
        """Returns name, version and number of every desired shard."""
        found = []
        for key, version in sorted(self._desired["versions"].items(), key=lambda item: int(item[0])):
            for number, (_, _, (first, last)) in enumerate(version["parts"]):
                name = f"{self._desired['name']}-shard-{number + 1}-rows-{first}:{last}"
                found.append((name if key == "1" else f"{name}-v{key}", int(key), number))
        return found

    def _frontends(self) -> list[str]:
        return [f"{self._desired['name']}-frontend-{number + 1}" for number in range(self._desired["replicas"])]

    def _reconcile(self) -> None:
        desired = self._desired
        now = time.time()
        for key, version in list(desired["versions"].items()):
            if version["until"] is not None and now >= version["until"] and int(key) != desired["current"]:
                self._stop([name for name, number, _ in self._shards() if number == int(key)], _SHARD_SECONDS)
                del desired["versions"][key]
                self._store()
        for name, number, place in self._shards():
            handle = self._handle(name, "shard", number, place)
            if handle is not None:
                self._exchange(name, handle, lambda handle=handle: handle.actor.reconcile.remote())
        self._activate()
        if desired["current"] is not None:
            for name in self._frontends():
                handle = self._handle(name, "frontend", desired["current"], 0)
                if handle is not None:
                    plan = self._plan(handle)
                    self._exchange(name, handle, lambda handle=handle, plan=plan: handle.actor.reconcile.remote(plan))
            self._retire()
        surplus = [name for name in self._handles if "-frontend-" in name and name not in self._frontends()]
        if surplus:
            self._stop(surplus, _config.limit(desired["config"], "shutdown_seconds", _config.SHUTDOWN_SECONDS))

    def _activate(self) -> None:
        """Makes the pending version the current one once all its shards are ready."""
        pending = self._desired["pending"]
        if pending is None:
            return
        handles = [self._handles.get(name) for name, version, _ in self._shards() if version == pending]
        if all(handle is not None and handle.report is not None and handle.report["state"] == "ready" for handle in handles):
            self._desired["current"], self._desired["pending"] = pending, None
            self._store()

    def _retire(self) -> None:
        """Starts the grace period of earlier versions, or reverts a version that was refused.

        The grace period starts once every frontend serves the current version.
        """
        desired = self._desired
        current = desired["current"]
        reports = self._frontend_reports()
        refused = [one["refused"][1] for one in reports if one["refused"] and one["refused"][0] == current]
        if refused:
            if self._revert():
                desired["refused"] = refused[0]
                self._store()
        elif len(reports) == desired["replicas"] and all(one["version"] == current and one["state"] == "ready" for one in reports):
            earlier = self._earlier_versions()
            for number in earlier:
                desired["versions"][str(number)]["until"] = time.time() + self._grace()
            if earlier:
                self._store()

    def _revert(self) -> bool:
        """Serves the version before the current one again.

        It does nothing and returns False if every frontend already served the current version.
        """
        desired = self._desired
        current, earlier = desired["current"], self._earlier_versions()
        if not earlier:
            return False
        # Frontends that serve this version need its shards until they have reverted, and so do the
        # searches that they began.
        in_use = any(one["version"] == current for one in self._frontend_reports())
        desired["versions"][str(current)]["until"] = time.time() + (self._grace() if in_use else 0.0)
        desired["current"] = max(earlier)
        self._store()
        return True

    def _earlier_versions(self) -> list[int]:
        """Returns the versions before the current one whose grace period has not begun."""
        desired = self._desired
        others = [int(key) for key, version in desired["versions"].items() if version["until"] is None]
        return [number for number in others if number not in (desired["current"], desired["pending"])]

    def _frontend_reports(self) -> list[ActorReport]:
        handles = [self._handles.get(name) for name in self._frontends()]
        return [handle.report for handle in handles if handle is not None and handle.report is not None]

    def _grace(self) -> float:
        return _config.limit(self._desired["config"], "grace_seconds", _config.GRACE_SECONDS)

    def _plan(self, handle: _Handle) -> FrontendPlan:
        desired = self._desired
        assert desired["current"] is not None
        version = desired["versions"][str(desired["current"])]
        shards: dict[int, list[str]] = {}
        for name, number, _ in self._shards():
            report = self._handles[name].report if name in self._handles else None
            shards.setdefault(number, [])
            if report is not None and report["address"] is not None:
                shards[number].append(report["address"].rpartition("//")[2])
        address = handle.report["address"] if handle.report else None
        return FrontendPlan(
            version=desired["current"],
            bundle=version["frontend"],
            shards=shards if version["parts"] else None,
            port=int(address.rpartition(":")[2]) if address else 0,
        )

    def _handle(self, name: str, kind: str, version: int, place: int) -> _Handle | None:
        """Returns the actor of this name, and creates it if it is missing."""
        handle = self._handles.get(name)
        if handle is not None and handle.actor is not None:
            return handle
        if handle is not None and time.monotonic() - handle.since < _RECREATE_SECONDS:
            return None
        made = _Handle(None)
        if handle is not None:
            made.report, made.failure = handle.report, handle.failure
        self._handles[name] = made
        try:
            made.actor = self._create(name, kind, version, place)
        except Exception as error:
            made.failure = f"cannot be placed: {error}"
            return None
        return made

    def _create(self, name: str, kind: str, version: int, place: int) -> Any:
        desired = self._desired
        held = desired["versions"][str(version)]
        options = {
            "name": name,
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "scheduling_strategy": "SPREAD",
            "num_cpus": desired["cpus"][0 if kind == "shard" else 1],
            "memory": held["memory"][0 if kind == "shard" else 1],
        }
        if kind == "frontend":
            certificate = desired["certificate"]
            return ray.remote(Frontend).options(**options).remote(
                name, desired["name"], desired["deployment"], desired["binary"], desired["config"], desired["keys"], desired["index"],
                None if certificate is None else tuple(certificate), desired["log"],
            )  # fmt: skip
        bundle, rows, _ = held["parts"][place]
        assert desired["certificate"] is not None
        plan = ShardPlan(
            name=name,
            controller=desired["name"],
            deployment=desired["deployment"],
            version=version,
            binary=desired["binary"],
            bundle=bundle,
            rows=None if rows is None else (rows[0], rows[1]),
            keys=desired["keys"],
            certificate=(desired["certificate"][0], desired["certificate"][1]),
            network=desired["network"],
            limits=_config.memory_limits(desired["config"]),
            log=desired["log"],
        )
        return ray.remote(Shard).options(**options).remote(plan)

    def _exchange(self, name: str, handle: _Handle, call: Any) -> None:
        """Takes the result of the last call if it is ready, or starts a call."""
        if handle.call is None:
            handle.call = call()
        ready, _ = ray.wait([handle.call], timeout=0.05)
        if not ready:
            if handle.report is not None and time.monotonic() - handle.since > 1.0:
                handle.failure = "the actor does not answer"
            return
        finished, handle.call = handle.call, None
        handle.since = time.monotonic()
        try:
            report: ActorReport = ray.get(finished)
        except ray.exceptions.ActorDiedError as error:
            handle.actor, handle.failure = None, f"the actor died: {_first_line(error)}"
            self._free_name(name)
            return
        except ray.exceptions.RayError as error:
            handle.failure = f"the actor is unavailable: {_first_line(error)}"
            if handle.report is not None:
                handle.report = {**handle.report, "state": "restarting"}
            return
        self._count_restarts(name, handle.report, report)
        handle.report, handle.failure = report, None

    def _free_name(self, name: str) -> None:
        """Frees the name of an actor that Ray will not restart."""
        with contextlib.suppress(Exception):
            ray.kill(ray.get_actor(name, namespace=NAMESPACE))

    def _count_restarts(self, name: str, before: ActorReport | None, now: ActorReport) -> None:
        if before is None:
            return
        same_actor = now["incarnation"] == before["incarnation"]
        more = now["restarts"] - before["restarts"] if same_actor else 1 + now["restarts"]
        if more > 0:
            self._desired["restarts"][name] = self._desired["restarts"].get(name, 0) + more
            self._store()

    def _stop(self, names: list[str], seconds: float) -> threading.Thread:
        """Stops processes and their actors in a thread, so that the controller goes on."""
        handles = [self._handles.pop(name) for name in names if name in self._handles]
        for name in names:
            self._desired["restarts"].pop(name, None)
        thread = threading.Thread(target=_finish, args=([handle.actor for handle in handles if handle.actor is not None], seconds), daemon=True)
        thread.start()
        return thread


def _finish(actors: list[Any], seconds: float) -> None:
    calls = [actor.stop.remote(seconds) for actor in actors]
    if calls:
        ray.wait(calls, num_returns=len(calls), timeout=seconds + 5.0)
    for actor in actors:
        with contextlib.suppress(Exception):
            ray.kill(actor)


def _last_report(handle: _Handle | None) -> tuple[ActorReport | None, str | None]:
    return (None, None) if handle is None else (handle.report, handle.failure)


def _key(name: str) -> str:
    return f"ifonly:{name}"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
