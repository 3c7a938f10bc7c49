"""The keeper: an actor that knows what one logical server should be, and sees to it.

It compares what should be with what is, a few times a second and whenever an actor calls; nothing is done once and hoped for. What should be is also
in Ray's own store, so a keeper that Ray has restarted goes on where the last one was. Serving needs no keeper: it is missed only when something else
changes or dies meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any, TypedDict

from . import _config
from ._actors import Front, FrontPlan, Shard, ShardPlan, Told
from ._engine import NAMESPACE, ray, store

#: How often the keeper looks when nobody calls.
_TICK_SECONDS = 0.5
#: An actor that cannot be made or has died for good is made again after so long.
_AGAIN_SECONDS = 2.0
#: How long a shard has to finish when nobody needs it any more.
_SHARD_SECONDS = 5.0


class Version(TypedDict):
    """A bundle and how it is cut."""

    bundle: str
    #: Where fronts find the manifest.
    front: str
    #: For every shard its part of the bundle and its rows.
    parts: list[tuple[str, tuple[int, int] | None, tuple[int, int]]]
    #: Bytes of memory for a shard and a front.
    memory: tuple[int, int]
    #: When its shards may go, once another version is served.
    until: float | None


class Wanted(TypedDict):
    """What should be. Only what JSON has, and no secrets, since Ray stores it: paths of keys, hashes of tokens, addresses without passwords."""

    name: str
    #: Another one for every deployment.
    deployment: str
    index: int
    keys: list[str]
    certificate: tuple[str, str] | None
    #: Whether it was made for this deployment alone.
    made_certificate: bool
    config: dict[str, Any]
    binary: str | None
    network: str
    log: str
    cpus: tuple[float, float]
    replicas: int
    #: The version to serve, the one that is on its way, and why the last one that was refused was.
    current: int | None
    arriving: int | None
    refused: str | None
    versions: dict[str, Version]
    #: The highest number that a version had. None is given twice: fronts remember what they refused, and actors may be slow to go.
    newest: int
    #: How often actors and processes were started again, by name.
    restarts: dict[str, int]


class _Hand:
    """One actor as the keeper knows it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.call: Any = None
        self.told: Told | None = None
        self.trouble: str | None = None
        self.since = time.monotonic()


class Keeper:
    """Sees to one logical server."""

    def __init__(self, wanted: Wanted) -> None:
        stored = store._internal_kv_get(_key(wanted["name"]))
        self._wanted: Wanted = json.loads(stored) if stored else wanted
        self._hands: dict[str, _Hand] = {}
        self._lock = threading.RLock()
        self._awake = threading.Event()
        self._over = False
        self._loop_trouble: str | None = None
        self._store()
        threading.Thread(target=self._run, name="ifonly-keeper", daemon=True).start()

    def __repr__(self) -> str:
        return self._wanted["name"]

    # What others call.

    def wake(self) -> None:
        """Something has changed."""
        self._awake.set()

    def wanted(self) -> Wanted:
        """What should be."""
        with self._lock:
            return self._wanted

    def told(self) -> list[tuple[str, str, int, list[int] | None, Told | None, str | None]]:
        """For every actor its name, kind, version, rows, what it says of itself, and what is wrong with it."""
        with self._lock:
            rows: list[tuple[str, str, int, list[int] | None, Told | None, str | None]] = []
            for name, version, number in self._shards():
                hand = self._hands.get(name)
                span = list(self._wanted["versions"][str(version)]["parts"][number][2])
                rows.append((name, "shard", version, span, *_said(hand)))
            for name in self._fronts():
                hand = self._hands.get(name)
                rows.append((name, "front", self._wanted["current"] or 0, None, *_said(hand)))
            return rows

    def bring(self, version: Version) -> int:
        """Begins to serve another bundle, or the same one cut otherwise."""
        with self._lock:
            if self._over:
                raise RuntimeError("the deployment is being shut down")
            if self._wanted["arriving"] is not None:
                raise RuntimeError("another version is on its way; wait until it has arrived")
            number = self._wanted["newest"] = self._wanted["newest"] + 1
            self._wanted["versions"][str(number)] = version
            self._wanted["arriving"], self._wanted["refused"] = number, None
            self._store()
        self._awake.set()
        return number

    def abandon(self, number: int) -> bool:
        """Gives up a version that is on its way, or that not every front has taken up; whether that was so."""
        with self._lock:
            if self._wanted["arriving"] == number:
                self._end([name for name, version, _ in self._shards() if version == number], _SHARD_SECONDS)
                self._wanted["arriving"] = None
                del self._wanted["versions"][str(number)]
                self._store()
                given_up = True
            else:
                given_up = self._wanted["current"] == number and self._take_back()
        self._awake.set()
        return given_up

    def set_replicas(self, replicas: int) -> None:
        """Changes the number of fronts."""
        with self._lock:
            self._wanted["replicas"] = replicas
            self._store()
        self._awake.set()

    def shut_down(self, seconds: float) -> None:
        """Ends fronts, then shards."""
        with self._lock:
            self._over = True
            fronts, shards = self._fronts(), [name for name, _, _ in self._shards()]
            known = list(self._hands)
            for names, patience in ((fronts, seconds), (shards, _SHARD_SECONDS), (known, _SHARD_SECONDS)):
                self._end(names, patience).join()
            store._internal_kv_del(_key(self._wanted["name"]))

    # What goes on inside.

    def _run(self) -> None:
        while not self._over:
            try:
                with self._lock:
                    if not self._over:
                        self._tend()
                self._loop_trouble = None
            except Exception as error:  # Whatever it is, the next look may find it gone.
                said = f"{type(error).__name__}: {error}"
                if said != self._loop_trouble:
                    print(f"{self._wanted['name']}: {said}", flush=True)
                self._loop_trouble = said
            self._awake.wait(_TICK_SECONDS)
            self._awake.clear()
            # Calls that came together are one.
            time.sleep(0.02)

    def _store(self) -> None:
        store._internal_kv_put(_key(self._wanted["name"]), json.dumps(self._wanted), overwrite=True)

    def _shards(self) -> list[tuple[str, int, int]]:
        """Name, version and number of every shard that should be."""
        found = []
        for key, version in sorted(self._wanted["versions"].items(), key=lambda item: int(item[0])):
            for number, (_, _, (first, last)) in enumerate(version["parts"]):
                name = f"{self._wanted['name']}-shard-{number + 1}-rows-{first}:{last}"
                found.append((name if key == "1" else f"{name}-v{key}", int(key), number))
        return found

    def _fronts(self) -> list[str]:
        return [f"{self._wanted['name']}-front-{number + 1}" for number in range(self._wanted["replicas"])]

    def _tend(self) -> None:
        wanted = self._wanted
        now = time.time()
        for key, version in list(wanted["versions"].items()):
            if version["until"] is not None and now >= version["until"] and int(key) != wanted["current"]:
                self._end([name for name, number, _ in self._shards() if number == int(key)], _SHARD_SECONDS)
                del wanted["versions"][key]
                self._store()
        for name, number, place in self._shards():
            hand = self._hand(name, "shard", number, place)
            if hand is not None:
                self._listen(name, hand, lambda hand=hand: hand.actor.tend.remote())
        self._arrive()
        if wanted["current"] is not None:
            for name in self._fronts():
                hand = self._hand(name, "front", wanted["current"], 0)
                if hand is not None:
                    plan = self._plan(hand)
                    self._listen(name, hand, lambda hand=hand, plan=plan: hand.actor.tend.remote(plan))
            self._leave()
        surplus = [name for name in self._hands if "-front-" in name and name not in self._fronts()]
        if surplus:
            self._end(surplus, _config.limit(wanted["config"], "shutdown_seconds", _config.SHUTDOWN_SECONDS))

    def _arrive(self) -> None:
        """A version whose shards all answer is the one to serve."""
        arriving = self._wanted["arriving"]
        if arriving is None:
            return
        hands = [self._hands.get(name) for name, version, _ in self._shards() if version == arriving]
        if all(hand is not None and hand.told is not None and hand.told["state"] == "ready" for hand in hands):
            self._wanted["current"], self._wanted["arriving"] = arriving, None
            self._store()

    def _leave(self) -> None:
        """Once every front serves the current version, the ones before it have their grace; what a front refuses is taken back."""
        wanted = self._wanted
        current = wanted["current"]
        told = self._told_by_fronts()
        refused = [one["refused"][1] for one in told if one["refused"] and one["refused"][0] == current]
        if refused:
            if self._take_back():
                wanted["refused"] = refused[0]
                self._store()
        elif len(told) == wanted["replicas"] and all(one["version"] == current and one["state"] == "ready" for one in told):
            before = self._before()
            for number in before:
                wanted["versions"][str(number)]["until"] = time.time() + self._grace()
            if before:
                self._store()

    def _take_back(self) -> bool:
        """Serves the version before the current one again, unless every front had come to serve the current one."""
        wanted = self._wanted
        current, before = wanted["current"], self._before()
        if not before:
            return False
        # Fronts that have taken it up need its shards until they are back, and so do searches that they began; nobody else does.
        taken_up = any(one["version"] == current for one in self._told_by_fronts())
        wanted["versions"][str(current)]["until"] = time.time() + (self._grace() if taken_up else 0.0)
        wanted["current"] = max(before)
        self._store()
        return True

    def _before(self) -> list[int]:
        """The versions before the current one that have not begun to go."""
        wanted = self._wanted
        others = [int(key) for key, version in wanted["versions"].items() if version["until"] is None]
        return [number for number in others if number not in (wanted["current"], wanted["arriving"])]

    def _told_by_fronts(self) -> list[Told]:
        hands = [self._hands.get(name) for name in self._fronts()]
        return [hand.told for hand in hands if hand is not None and hand.told is not None]

    def _grace(self) -> float:
        return _config.limit(self._wanted["config"], "grace_seconds", _config.GRACE_SECONDS)

    def _plan(self, hand: _Hand) -> FrontPlan:
        wanted = self._wanted
        assert wanted["current"] is not None
        version = wanted["versions"][str(wanted["current"])]
        shards: dict[int, list[str]] = {}
        for name, number, _ in self._shards():
            told = self._hands[name].told if name in self._hands else None
            shards.setdefault(number, [])
            if told is not None and told["address"] is not None:
                shards[number].append(told["address"].rpartition("//")[2])
        address = hand.told["address"] if hand.told else None
        return FrontPlan(
            version=wanted["current"],
            bundle=version["front"],
            shards=shards if version["parts"] else None,
            port=int(address.rpartition(":")[2]) if address else 0,
        )

    def _hand(self, name: str, kind: str, version: int, place: int) -> _Hand | None:
        """The actor of this name, made if there is none."""
        hand = self._hands.get(name)
        if hand is not None and hand.actor is not None:
            return hand
        if hand is not None and time.monotonic() - hand.since < _AGAIN_SECONDS:
            return None
        made = _Hand(None)
        if hand is not None:
            made.told, made.trouble = hand.told, hand.trouble
        self._hands[name] = made
        try:
            made.actor = self._make(name, kind, version, place)
        except Exception as error:
            made.trouble = f"cannot be placed: {error}"
            return None
        return made

    def _make(self, name: str, kind: str, version: int, place: int) -> Any:
        wanted = self._wanted
        held = wanted["versions"][str(version)]
        options = {
            "name": name,
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "scheduling_strategy": "SPREAD",
            "num_cpus": wanted["cpus"][0 if kind == "shard" else 1],
            "memory": held["memory"][0 if kind == "shard" else 1],
        }
        if kind == "front":
            certificate = wanted["certificate"]
            return ray.remote(Front).options(**options).remote(
                name, wanted["name"], wanted["deployment"], wanted["binary"], wanted["config"], wanted["keys"], wanted["index"],
                None if certificate is None else tuple(certificate), wanted["log"],
            )  # fmt: skip
        bundle, rows, _ = held["parts"][place]
        assert wanted["certificate"] is not None
        plan = ShardPlan(
            name=name,
            keeper=wanted["name"],
            deployment=wanted["deployment"],
            version=version,
            binary=wanted["binary"],
            bundle=bundle,
            rows=None if rows is None else (rows[0], rows[1]),
            keys=wanted["keys"],
            certificate=(wanted["certificate"][0], wanted["certificate"][1]),
            network=wanted["network"],
            limits=_config.memory_limits(wanted["config"]),
            log=wanted["log"],
        )
        return ray.remote(Shard).options(**options).remote(plan)

    def _listen(self, name: str, hand: _Hand, ask: Any) -> None:
        """Takes the answer to the last call if it is there, and calls again."""
        if hand.call is None:
            hand.call = ask()
        ready, _ = ray.wait([hand.call], timeout=0.05)
        if not ready:
            if hand.told is not None and time.monotonic() - hand.since > 1.0:
                hand.trouble = "the actor does not answer"
            return
        call, hand.call = hand.call, None
        hand.since = time.monotonic()
        try:
            told: Told = ray.get(call)
        except ray.exceptions.ActorDiedError as error:
            hand.actor, hand.trouble = None, f"the actor died: {_first_line(error)}"
            self._forget(name)
            return
        except ray.exceptions.RayError as error:
            hand.trouble = f"the actor is away: {_first_line(error)}"
            if hand.told is not None:
                hand.told = {**hand.told, "state": "restarting"}
            return
        self._count(name, hand.told, told)
        hand.told, hand.trouble = told, None

    def _forget(self, name: str) -> None:
        """Frees the name of an actor that Ray will not restart."""
        with contextlib.suppress(Exception):
            ray.kill(ray.get_actor(name, namespace=NAMESPACE))

    def _count(self, name: str, before: Told | None, now: Told) -> None:
        if before is None:
            return
        more = now["restarts"] - before["restarts"] if now["life"] == before["life"] else 1 + now["restarts"]
        if more > 0:
            self._wanted["restarts"][name] = self._wanted["restarts"].get(name, 0) + more
            self._store()

    def _end(self, names: list[str], seconds: float) -> threading.Thread:
        """Lets processes finish, then ends their actors; meanwhile the others are tended."""
        hands = [self._hands.pop(name) for name in names if name in self._hands]
        for name in names:
            self._wanted["restarts"].pop(name, None)
        thread = threading.Thread(target=_finish, args=([hand.actor for hand in hands if hand.actor is not None], seconds), daemon=True)
        thread.start()
        return thread


def _finish(actors: list[Any], seconds: float) -> None:
    calls = [actor.stop.remote(seconds) for actor in actors]
    if calls:
        ray.wait(calls, num_returns=len(calls), timeout=seconds + 5.0)
    for actor in actors:
        with contextlib.suppress(Exception):
            ray.kill(actor)


def _said(hand: _Hand | None) -> tuple[Told | None, str | None]:
    return (None, None) if hand is None else (hand.told, hand.trouble)


def _key(name: str) -> str:
    return f"ifonly:{name}"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
