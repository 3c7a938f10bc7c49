#!/usr/bin/env python3
"""Kills what runs on Ray while people ask, and looks whether the promises hold.

    python checks/chaos.py --kills 100 --seed 7

Two logical servers on a local Ray: the first has shards and fronts, the second fronts with the whole bundle. People ask all the time, through a balancer per server that
knows the fronts. One after another, processes and actors are killed: shards, fronts, the programs that hold them, their actors, the keepers. Promised is:

- no answer is wrong: each is compared with brute force over the table;
- a search that fails says why, within its deadline; somebody without patience sees to it that some fail;
- after every kill a search that begins then succeeds within five seconds;
- no budget is overspent: short budgets are spent by two people at once, the whole time.

Prints a summary, and exits with 1 if a promise was broken. Needs the package with its extra `ray`, and pandas.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import ray

import ifonly
import ifonly.ray
from ifonly.ray._deploy import _binary
from ifonly.ray._process import program

BACK_SECONDS = 5.0
#: One exchange with a server, retries included: of people who wait until a dead shard is back, and of somebody who does not.
PATIENT, IMPATIENT = 4.0, 0.5
SESSIONS = 4
JOBS = ["baker", "clerk", "nurse", "pilot"]


def deadline(exchange: float) -> float:
    """When a search must be over. With its greeting it has four exchanges at most; and a second for a busy machine."""
    return 4 * exchange + 1.0


class Table:
    """Rows that brute force can search. Every value is a level of its own, so costs are exact."""

    def __init__(self, rng: random.Random, rows: int) -> None:
        self.frame = pd.DataFrame(
            {
                "income": [rng.randrange(500, 9001, 50) for _ in range(rows)],
                "age": [rng.randrange(18, 91) for _ in range(rows)],
                "debt": [rng.randrange(0, 5001, 100) for _ in range(rows)],
                "job": [rng.choice(JOBS) for _ in range(rows)],
                "approved": [rng.random() < 0.5 for _ in range(rows)],
            }
        )
        accepted = self.frame["approved"].to_numpy()
        self.numbers = {name: self.frame[name].to_numpy(float)[accepted] for name in ("income", "age", "debt")}
        self.spread = {name: float(np.ptp(self.frame[name])) for name in self.numbers}
        self.jobs = self.frame["job"].to_numpy()[accepted]
        self.people = np.flatnonzero(~accepted)

    def question(self, rng: random.Random) -> Question:
        person = self.frame.iloc[int(rng.choice(self.people))].drop("approved").to_dict()
        wishes: dict[str, Any] = {}
        if rng.random() < 0.3:
            wishes["immutable"] = ["job"]
        if rng.random() < 0.3:
            wishes["only_up"] = ["age"]
        if rng.random() < 0.3:
            wishes["permitted_range"] = {"debt": [None, int(person["debt"])]}
        if rng.random() < 0.3:
            wishes["feature_weights"] = {"income": rng.choice([0.5, 2.0, 3.25])}
        return Question(self, person, wishes)


class Question:
    """A person, what they wish, and the answer by looking at every row."""

    def __init__(self, table: Table, person: dict[str, Any], wishes: dict[str, Any]) -> None:
        self.person, self.wishes = person, wishes
        weights = wishes.get("feature_weights", {})
        costs = (table.jobs != person["job"]).astype(float)
        for name, there in table.numbers.items():
            costs += weights.get(name, 1.0) * (np.abs(there - person[name]) / table.spread[name]) ** 2
        fits = np.ones(len(costs), bool)
        if "immutable" in wishes:
            fits &= table.jobs == person["job"]
        if "only_up" in wishes:
            fits &= table.numbers["age"] >= person["age"]
        if "permitted_range" in wishes:
            fits &= table.numbers["debt"] <= person["debt"]
        self.qualifying = int(fits.sum())
        self.cost = float(costs[fits].min()) if fits.any() else None
        near = fits & (np.abs(costs - (self.cost or 0.0)) < 1e-7)
        self.nearest = {
            (table.numbers["income"][row], table.numbers["age"][row], table.numbers["debt"][row], table.jobs[row]) for row in np.flatnonzero(near)
        }

    def wrong(self, answer: ifonly.Answer) -> str | None:
        """What is wrong with an answer."""
        if answer.document["qualifying"] != self.qualifying:
            return f"{answer.document['qualifying']} rows qualify, not {self.qualifying}"
        if (answer.cost is None) != (self.cost is None):
            return f"cost {answer.cost}, not {self.cost}"
        if answer.cost is not None and self.cost is not None and abs(answer.cost - self.cost) > 1e-6 * max(1.0, self.cost):
            return f"cost {answer.cost}, not {self.cost}"
        record = answer.record
        if record is not None and (float(record["income"]), float(record["age"]), float(record["debt"]), record["job"]) not in self.nearest:
            return f"{record} is not one of the nearest"
        return None


class Balancer(threading.Thread):
    """Passes connections on to the fronts, the next one if one does not take it."""

    def __init__(self, deployment: ifonly.ray.Deployment) -> None:
        super().__init__(daemon=True)
        self._deployment = deployment
        self._fronts = deployment.addresses
        self._turn = 0
        self._bound = threading.Event()
        self.url, self.over = "", False
        self.start()
        self._bound.wait(10)
        threading.Thread(target=self._refresh, daemon=True).start()

    def _refresh(self) -> None:
        while not self.over:
            with contextlib.suppress(Exception):
                self._fronts = self._deployment.addresses or self._fronts
            time.sleep(0.5)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._bound.set()
        await server.serve_forever()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fronts = list(self._fronts)
        self._turn += 1
        for place in range(len(fronts)):
            host, _, port = fronts[(self._turn + place) % len(fronts)].rpartition("//")[2].rpartition(":")
            try:
                there, back = await asyncio.wait_for(asyncio.open_connection(host, int(port)), 1.0)
            except (OSError, asyncio.TimeoutError):
                continue
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
            return
        writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.close()


class Log:
    """What the searches came to."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done = threading.Condition(self.lock)
        self.right = self.failed = self.impatient = 0
        self.slowest = self.slowest_failure = 0.0
        self.broken: list[str] = []
        self.reasons: collections.Counter[str] = collections.Counter()
        self.successes: list[tuple[float, float]] = []
        self.spent: collections.Counter[str] = collections.Counter()
        self.over = False

    def add(self, begun: float, question: Question, answer: ifonly.Answer | None, error: Exception | None, exchange: float = PATIENT) -> None:
        ended = time.monotonic()
        seconds = ended - begun
        with self.lock:
            if answer is not None:
                wrong = question.wrong(answer)
                if wrong is not None:
                    self.broken.append(f"WRONG ANSWER: {wrong}, for {question.person} with {question.wishes}")
                self.right += 1
                self.slowest = max(self.slowest, seconds)
                self.successes.append((begun, ended))
                del self.successes[:-200]
                self.done.notify_all()
                return
            self.failed += 1
            self.slowest_failure = max(self.slowest_failure, seconds / deadline(exchange))
            self.impatient += exchange == IMPATIENT
            if not isinstance(error, ifonly.ServersError) or not str(error).strip():
                self.broken.append(f"a failure that is not clear: {error!r}")
            self.reasons[_kind(str(error))] += 1
            if seconds > deadline(exchange):
                self.broken.append(f"a search failed after {seconds:.1f} s, later than its deadline: {error}")

    def success_after(self, moment: float, seconds: float) -> float | None:
        """When the first search ended that began after this moment and succeeded."""
        with self.lock:
            while True:
                found = [ended for begun, ended in self.successes if begun >= moment]
                if found:
                    return min(found)
                left = moment + seconds - time.monotonic()
                if left <= 0 or not self.done.wait(left):
                    return None


def _kind(text: str) -> str:
    """An error without what differs each time."""
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"\d[\d_,.:]*", "N", text)
    return text[:230]


def ask_always(log: Log, urls: list[str], questions: list[Question], token: str, rng: random.Random, exchange: float) -> None:
    """A person after another, each with a search of their own."""
    while not log.over:
        question, begun = rng.choice(questions), time.monotonic()
        try:
            explainer = ifonly.Explainer(urls, token=token, timeout=exchange)
            answer = explainer.generate_counterfactuals(question.person, **question.wishes)[0]
            log.add(begun, question, answer, None, exchange)
        except Exception as error:
            log.add(begun, question, None, error, exchange)
            time.sleep(0.05)


def spend_always(log: Log, urls: list[str], questions: list[Question], tokens: list[tuple[str, str]], rng: random.Random) -> None:
    """Spends one budget after another, beside somebody who does the same."""
    for name, token in tokens:
        refused = 0
        while refused < 3:
            if log.over:
                return
            question, begun = rng.choice(questions), time.monotonic()
            try:
                explainer = ifonly.Explainer(urls, token=token, timeout=PATIENT)
                answer = explainer.generate_counterfactuals(question.person, **question.wishes)[0]
                log.add(begun, question, answer, None)
                with log.lock:
                    log.spent[name] += 1
                refused = 0
            except ifonly.ServersError as error:
                if "session" in str(error) or "budget" in str(error):
                    refused += 1
                else:
                    log.add(begun, question, None, error)
                    time.sleep(0.05)
            except Exception as error:
                log.add(begun, question, None, error)


def make_tokens(command: list[str], count: int) -> tuple[list[dict[str, Any]], str, list[tuple[str, str]]]:
    """Entries for the servers; a token without a budget, and tokens with one."""
    entries: list[dict[str, Any]] = []
    tokens = []
    for number in range(count + 1):
        name = "people" if number == 0 else f"budget-{number}"
        flags = [] if number == 0 else ["--sessions", str(SESSIONS)]
        said = subprocess.run([*command, "keygen", "--token", name, *flags], capture_output=True, text=True, check=True).stdout
        tokens.append((name, re.findall(r"nobody else: (\S+)", said)[0]))
        entries.append({"name": name, "hash": re.findall(r'hash = "(\w+)"', said)[0]})
        if number:
            entries[-1]["sessions"] = SESSIONS
    return entries, tokens[0][1], tokens[1:]


def victims(deployments: list[ifonly.ray.Deployment]) -> dict[str, list[tuple[str, Any]]]:
    """Who could be killed, by kind: a process's number, or an actor's name."""
    found: dict[str, list[tuple[str, Any]]] = collections.defaultdict(list)
    for deployment in deployments:
        for row in sorted(deployment.status(), key=lambda row: str(row["actor"])):
            if row["pid"] is None or row["actor_pid"] is None:
                continue
            found[f"{row['kind']} process"].append((row["what"], row["pid"]))
            found[f"{row['kind']} actor"].append((row["what"], row["actor_pid"]))
            found[f"{row['kind']} holder"].append((row["what"], _parent(row["pid"])))
        found["keeper"].append((deployment.name, deployment.name))
    return dict(found)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill(kind: str, whom: Any) -> None:
    """An actor by Ray or by the kernel, everything else by the kernel."""
    if kind == "keeper":
        ray.kill(ray.get_actor(whom, namespace="ifonly"), no_restart=False)
    else:
        os.kill(whom, signal.SIGKILL)


def whole(deployments: list[ifonly.ray.Deployment], seconds: float) -> bool:
    """Whether everything is ready, with the dead replaced, within so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(ifonly.MachineError):
            rows = [row for deployment in deployments for row in deployment.status()]
            if all(row["state"] == "ready" and _alive(row["pid"]) and _alive(row["actor_pid"]) for row in rows):
                return True
        time.sleep(0.1)
    return False


def _alive(pid: int | None) -> bool:
    with contextlib.suppress(OSError):
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def overspent(folder: Path, top: int) -> list[str]:
    """Whether a ledger has more than a budget."""
    broken = []
    for ledger in sorted(folder.glob("ledger-*")):
        counts = collections.Counter(ledger.read_text().split("\n"))
        for line, count in counts.items():
            name, _, stage = line.partition(" ")
            if name.startswith("budget-") and count > SESSIONS * (top if stage == "record" else 1):
                broken.append(f"{ledger.name}: {count} times {line!r} with {SESSIONS} sessions")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--shards", type=int, default=4, help="shards of the first server")
    parser.add_argument("--replicas", type=int, default=2, help="fronts of each server")
    parser.add_argument("--clients", type=int, default=3, help="people who ask at once, beside one without patience and two who spend budgets")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--quiet", action="store_true", help="no line for every kill")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="ifonly-chaos-") as name:
        folder = Path(name)
        os.chdir(folder)
        return run(args, rng, folder)


def run(args: argparse.Namespace, rng: random.Random, folder: Path) -> int:
    table = Table(rng, args.rows)
    report = ifonly.build(table.frame, "loans.bundle", accepted="approved", servers=2)
    questions = [table.question(rng) for _ in range(60)]
    ifonly.keygen("root.key")
    entries, people, budgets = make_tokens(program(_binary(None)), 2 * max(8, args.kills))
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="error")
    limits = {"address_share": 100, "running": 4, "shutdown_seconds": 2}
    config = {"tokens": entries, "limits": limits}
    deployments = [
        ifonly.ray.deploy(
            "loans.bundle", "root.key", shards=shards, replicas=args.replicas, index=index, directory=folder,
            config={**config, "ledger": f"ledger-{index}"}, log="error",
        )
        for index, shards in ((1, args.shards), (2, 0))
    ]  # fmt: skip
    for deployment in deployments:
        print(deployment.status())
    balancers = [Balancer(deployment) for deployment in deployments]
    urls = [balancer.url for balancer in balancers]
    log = Log()
    threads = [
        threading.Thread(
            target=ask_always,
            args=(log, urls, questions, people, random.Random(f"{args.seed} {number}"), PATIENT if number else IMPATIENT),
            daemon=True,
        )
        for number in range(args.clients + 1)
    ]
    threads += [
        threading.Thread(target=spend_always, args=(log, urls, questions, budgets, random.Random(f"{args.seed} spends {number}")), daemon=True)
        for number in range(2)
    ]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    if log.success_after(begun, 30.0) is None:
        print("nobody gets an answer before anything is killed:", dict(log.reasons))
        return 1
    back: list[tuple[float, str]] = []
    healed: list[float] = []
    killed: collections.Counter[str] = collections.Counter()
    for number in range(args.kills):
        if not whole(deployments, 60.0):
            log.broken.append(f"after kill {number} not everything came back within a minute")
            print("\n".join(str(deployment.status()) for deployment in deployments))
            break
        if healed:
            healed[-1] = time.monotonic() - healed[-1]
        there = victims(deployments)
        kind = rng.choice(sorted(there))
        what, whom = rng.choice(there[kind])
        time.sleep(rng.random() / 2)
        moment = time.monotonic()
        try:
            kill(kind, whom)
        except ProcessLookupError:
            log.broken.append(f"{kind} of {what} was gone before it was killed")
            continue
        killed[kind] += 1
        healed.append(moment)
        success = log.success_after(moment, 60.0)
        seconds = 60.0 if success is None else success - moment
        back.append((seconds, f"{kind} of {what}"))
        if seconds > BACK_SECONDS:
            log.broken.append(f"{seconds:.1f} s until a search succeeded after kill {number + 1}, {kind} of {what}")
        if not args.quiet:
            print(f"kill {number + 1:3}: {kind:14} {what:44} service back after {seconds:5.2f} s", flush=True)
    if healed:
        healed[-1] = (time.monotonic() if whole(deployments, 60.0) else float("inf")) - healed[-1]
    log.over = True
    for thread in threads:
        thread.join(deadline(PATIENT) + 5.0)
    took = time.monotonic() - begun
    statuses = [str(deployment.status()) for deployment in deployments]
    log.broken += overspent(folder, report.manifest["top_limit"])
    log.broken += [f"{count} searches with {name}, which has {SESSIONS} sessions" for name, count in log.spent.items() if count > SESSIONS]
    for balancer in balancers:
        balancer.over = True
    for deployment in deployments:
        deployment.shutdown()
    ray.shutdown()
    print("\n".join(statuses))
    print(f"seed {args.seed}: {sum(killed.values())} kills in {took:.0f} s: {', '.join(f'{count} {kind}' for kind, count in sorted(killed.items()))}")
    print(f"searches: {log.right} answered, all compared with brute force; {log.failed} failed, {log.impatient} of them without patience ({log.right / took:.1f} answers per second)")
    print(f"slowest answer {log.slowest:.2f} s, slowest failure after {100 * log.slowest_failure:.0f} % of its deadline ({deadline(PATIENT):.0f} s, without patience {deadline(IMPATIENT):.0f} s)")
    for reason, count in log.reasons.most_common(8):
        print(f"  {count} x {reason}")
    times = sorted(seconds for seconds, _ in back)
    if times:
        slowest = max(back)
        print(f"service back: median {times[len(times) // 2]:.2f} s, at most {slowest[0]:.2f} s ({slowest[1]}); everything whole again after at most {max(healed):.2f} s")
    print(f"budgets: {sum(log.spent.values())} searches on {len(log.spent)} budgets of {SESSIONS}, at most {max(log.spent.values(), default=0)} on one")
    for line in log.broken[:20]:
        print(f"BROKEN: {line}")
    print("all promises hold" if not log.broken else f"{len(log.broken)} promises broken")
    return 1 if log.broken else 0


if __name__ == "__main__":
    sys.exit(main())
