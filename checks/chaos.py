#!/usr/bin/env python3
"""Kills processes and actors on Ray under load and checks that the guarantees hold.

    python checks/chaos.py --kills 100 --seed 7

Two logical servers run on a local Ray. The first has shards and frontends; the second has
frontends with the whole bundle. Clients search all the time, through one load balancer per server.
The script kills one process or actor after another: shards, frontends, their supervisors, their
actors and the controllers. The guarantees are:

- No answer is wrong. The script compares each answer with brute force over the table.
- A failed search reports its reason within its deadline. One client has a short timeout, so that
  some searches fail.
- After every kill, a search that starts afterwards succeeds within five seconds.
- No budget is overspent. Two clients spend short budgets at the same time, during the whole run.

The script prints a summary. It exits with 1 if a guarantee was broken. It needs the Python package
with its extra `ray`, and pandas.
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

RECOVERY_SECONDS = 5.0
#: Timeouts of a request with its retries: long enough for a shard to restart, and too short.
LONG_TIMEOUT, SHORT_TIMEOUT = 4.0, 0.5
SEARCHES = 4
JOBS = ["baker", "clerk", "nurse", "pilot"]


def deadline(timeout: float) -> float:
    """The deadline of a search: at most four requests, plus one second for a busy machine."""
    return 4 * timeout + 1.0


class Table:
    """A table for brute force. Every value has its own level, so costs are exact."""

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
    """A profile, its wishes, and the answer by brute force over all rows."""

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
        self.matching_rows = int(fits.sum())
        self.cost = float(costs[fits].min()) if fits.any() else None
        near = fits & (np.abs(costs - (self.cost or 0.0)) < 1e-7)
        income, age, debt = (table.numbers[name] for name in ("income", "age", "debt"))
        self.nearest = {
            (income[row], age[row], debt[row], table.jobs[row]) for row in np.flatnonzero(near)
        }

    def wrong(self, answer: ifonly.Answer) -> str | None:
        """The error in an answer; None if the answer is right."""
        matching = answer.document["matching_rows"]
        if matching != self.matching_rows:
            return f"{matching} matching rows, expected {self.matching_rows}"
        if (answer.cost is None) != (self.cost is None):
            return f"cost {answer.cost}, expected {self.cost}"
        if answer.cost is not None and self.cost is not None:
            if abs(answer.cost - self.cost) > 1e-6 * max(1.0, self.cost):
                return f"cost {answer.cost}, expected {self.cost}"
        record = answer.record
        if record is not None:
            numbers = (float(record[name]) for name in ("income", "age", "debt"))
            if (*numbers, record["job"]) not in self.nearest:
                return f"{record} is not one of the nearest rows"
        return None


class Balancer(threading.Thread):
    """A load balancer: forwards each connection to the next frontend that accepts it."""

    def __init__(self, deployment: ifonly.ray.Deployment) -> None:
        super().__init__(daemon=True)
        self._deployment = deployment
        self._frontends = deployment.addresses
        self._turn = 0
        self._bound = threading.Event()
        self.url, self.over = "", False
        self.start()
        self._bound.wait(10)
        threading.Thread(target=self._refresh, daemon=True).start()

    def _refresh(self) -> None:
        while not self.over:
            with contextlib.suppress(Exception):
                self._frontends = self._deployment.addresses or self._frontends
            time.sleep(0.5)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._bound.set()
        await server.serve_forever()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frontends = list(self._frontends)
        self._turn += 1
        for place in range(len(frontends)):
            url = frontends[(self._turn + place) % len(frontends)]
            host, _, port = url.rpartition("//")[2].rpartition(":")
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
    """The results of all searches."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done = threading.Condition(self.lock)
        self.right = self.failed = self.short_failed = 0
        self.slowest = self.slowest_failure = 0.0
        self.broken: list[str] = []
        self.reasons: collections.Counter[str] = collections.Counter()
        self.successes: list[tuple[float, float]] = []
        self.spent: collections.Counter[str] = collections.Counter()
        self.over = False

    def add(
        self,
        begun: float,
        question: Question,
        answer: ifonly.Answer | None,
        error: Exception | None,
        timeout: float = LONG_TIMEOUT,
    ) -> None:
        ended = time.monotonic()
        seconds = ended - begun
        with self.lock:
            if answer is not None:
                wrong = question.wrong(answer)
                if wrong is not None:
                    asked = f"{question.person} with {question.wishes}"
                    self.broken.append(f"WRONG ANSWER: {wrong}, for {asked}")
                self.right += 1
                self.slowest = max(self.slowest, seconds)
                self.successes.append((begun, ended))
                del self.successes[:-200]
                self.done.notify_all()
                return
            self.failed += 1
            self.slowest_failure = max(self.slowest_failure, seconds / deadline(timeout))
            self.short_failed += timeout == SHORT_TIMEOUT
            if not isinstance(error, ifonly.ServersError) or not str(error).strip():
                self.broken.append(f"a failure without a reason: {error!r}")
            self.reasons[_kind(str(error))] += 1
            if seconds > deadline(timeout):
                self.broken.append(
                    f"a search failed after {seconds:.1f} s, past its deadline: {error}"
                )

    def success_after(self, moment: float, seconds: float) -> float | None:
        """The end of the first successful search that began after this moment."""
        with self.lock:
            while True:
                found = [ended for begun, ended in self.successes if begun >= moment]
                if found:
                    return min(found)
                left = moment + seconds - time.monotonic()
                if left <= 0 or not self.done.wait(left):
                    return None


def _kind(text: str) -> str:
    """The text of an error without addresses and numbers."""
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"\d[\d_,.:]*", "N", text)
    return text[:230]


def search_always(
    log: Log,
    urls: list[str],
    questions: list[Question],
    token: str,
    rng: random.Random,
    timeout: float,
) -> None:
    """Runs one search after another, each with new connections."""
    while not log.over:
        question, begun = rng.choice(questions), time.monotonic()
        try:
            explainer = ifonly.Explainer(urls, token=token, timeout=timeout)
            answer = explainer.generate_counterfactuals(question.person, **question.wishes)[0]
            log.add(begun, question, answer, None, timeout)
        except Exception as error:
            log.add(begun, question, None, error, timeout)
            time.sleep(0.05)


def spend_always(
    log: Log,
    urls: list[str],
    questions: list[Question],
    tokens: list[tuple[str, str]],
    rng: random.Random,
) -> None:
    """Spends one budget after another, while a second thread spends the same budgets."""
    for name, token in tokens:
        refused = 0
        while refused < 3:
            if log.over:
                return
            question, begun = rng.choice(questions), time.monotonic()
            try:
                explainer = ifonly.Explainer(urls, token=token, timeout=LONG_TIMEOUT)
                answer = explainer.generate_counterfactuals(question.person, **question.wishes)[0]
                log.add(begun, question, answer, None)
                with log.lock:
                    log.spent[name] += 1
                refused = 0
            except ifonly.ServersError as error:
                if "no searches left" in str(error) or "budget" in str(error):
                    refused += 1
                else:
                    log.add(begun, question, None, error)
                    time.sleep(0.05)
            except Exception as error:
                log.add(begun, question, None, error)


def make_tokens(command: list[str], count: int) -> tuple[list[dict[str, Any]], str, list[tuple[str, str]]]:
    """Returns the configuration entries, a token without a budget, and tokens with a budget."""
    entries: list[dict[str, Any]] = []
    tokens = []
    for number in range(count + 1):
        name = "people" if number == 0 else f"budget-{number}"
        flags = [] if number == 0 else ["--searches", str(SEARCHES)]
        keygen = [*command, "keygen", "--token", name, *flags]
        said = subprocess.run(keygen, capture_output=True, text=True, check=True).stdout
        digest = re.findall(r'hash = "(\w+)"', said)[0]
        # The output has two hexadecimal numbers: the token and its hash.
        token = next(word for word in re.findall(r"\b[0-9a-f]{64}\b", said) if word != digest)
        tokens.append((name, token))
        entries.append({"name": name, "hash": digest})
        if number:
            entries[-1]["searches"] = SEARCHES
    return entries, tokens[0][1], tokens[1:]


def victims(deployments: list[ifonly.ray.Deployment]) -> dict[str, list[tuple[str, Any]]]:
    """What can be killed, by kind: the ID of a process or the name of an actor."""
    found: dict[str, list[tuple[str, Any]]] = collections.defaultdict(list)
    for deployment in deployments:
        for row in sorted(deployment.status(), key=lambda row: str(row["actor"])):
            if row["pid"] is None or row["actor_pid"] is None:
                continue
            found[f"{row['kind']} process"].append((row["what"], row["pid"]))
            found[f"{row['kind']} actor"].append((row["what"], row["actor_pid"]))
            found[f"{row['kind']} supervisor"].append((row["what"], _parent(row["pid"])))
        found["controller"].append((deployment.name, deployment.name))
    return dict(found)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill(kind: str, whom: Any) -> None:
    """Kills a controller through Ray and everything else with SIGKILL."""
    if kind == "controller":
        ray.kill(ray.get_actor(whom, namespace="ifonly"), no_restart=False)
    else:
        os.kill(whom, signal.SIGKILL)


def whole(deployments: list[ifonly.ray.Deployment], seconds: float) -> bool:
    """Whether all processes and actors are ready, killed ones replaced, within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(ifonly.MachineError):
            rows = [row for deployment in deployments for row in deployment.status()]
            pids = [row[key] for row in rows for key in ("pid", "actor_pid")]
            if all(row["state"] == "ready" for row in rows) and all(map(_alive, pids)):
                return True
        time.sleep(0.1)
    return False


def _alive(pid: int | None) -> bool:
    if pid is None:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def overspent(folder: Path, top: int) -> list[str]:
    """The entries of all ledgers that exceed a budget."""
    broken = []
    for ledger in sorted(folder.glob("ledger-*")):
        counts = collections.Counter(ledger.read_text().split("\n"))
        for line, count in counts.items():
            name, _, stage = line.partition(" ")
            if name.startswith("budget-") and count > SEARCHES * (top if stage == "record" else 1):
                broken.append(f"{ledger.name}: {count} times {line!r}; the budget is {SEARCHES}")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="number of kills")
    parser.add_argument("--seed", type=int, default=7, help="seed of the table, searches and kills")
    parser.add_argument("--shards", type=int, default=4, help="shards of the first server")
    parser.add_argument("--replicas", type=int, default=2, help="frontends of each server")
    parser.add_argument(
        "--clients",
        type=int,
        default=3,
        help="concurrent clients, besides one with a short timeout and two that spend budgets",
    )
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the table")
    parser.add_argument("--quiet", action="store_true", help="do not print a line for every kill")
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
    limits = {"address_percent": 100, "max_concurrent": 4, "shutdown_seconds": 2}
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
            target=search_always,
            args=(
                log,
                urls,
                questions,
                people,
                random.Random(f"{args.seed} {number}"),
                LONG_TIMEOUT if number else SHORT_TIMEOUT,
            ),
            daemon=True,
        )
        for number in range(args.clients + 1)
    ]
    threads += [
        threading.Thread(
            target=spend_always,
            args=(log, urls, questions, budgets, random.Random(f"{args.seed} spends {number}")),
            daemon=True,
        )
        for number in range(2)
    ]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    if log.success_after(begun, 30.0) is None:
        print("No search succeeded before the first kill:", dict(log.reasons))
        return 1
    back: list[tuple[float, str]] = []
    healed: list[float] = []
    killed: collections.Counter[str] = collections.Counter()
    for number in range(args.kills):
        if not whole(deployments, 60.0):
            log.broken.append(f"no full recovery within a minute after kill {number}")
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
            log.broken.append(f"{kind} of {what} had ended before it was killed")
            continue
        killed[kind] += 1
        healed.append(moment)
        success = log.success_after(moment, 60.0)
        seconds = 60.0 if success is None else success - moment
        back.append((seconds, f"{kind} of {what}"))
        if seconds > RECOVERY_SECONDS:
            log.broken.append(
                f"{seconds:.1f} s until a search succeeded after kill {number + 1} "
                f"({kind} of {what})"
            )
        if not args.quiet:
            print(
                f"kill {number + 1:3}: {kind:19} {what:44} recovered after {seconds:5.2f} s",
                flush=True,
            )
    if healed:
        healed[-1] = (time.monotonic() if whole(deployments, 60.0) else float("inf")) - healed[-1]
    log.over = True
    for thread in threads:
        thread.join(deadline(LONG_TIMEOUT) + 5.0)
    took = time.monotonic() - begun
    statuses = [str(deployment.status()) for deployment in deployments]
    log.broken += overspent(folder, report.manifest["top_limit"])
    log.broken += [
        f"{count} searches with {name}, whose budget is {SEARCHES}"
        for name, count in log.spent.items()
        if count > SEARCHES
    ]
    for balancer in balancers:
        balancer.over = True
    for deployment in deployments:
        deployment.shutdown()
    ray.shutdown()
    print("\n".join(statuses))
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(killed.items()))
    print(f"seed {args.seed}: {sum(killed.values())} kills in {took:.0f} s: {kinds}")
    print(
        f"searches: {log.right} answered, all compared with brute force "
        f"({log.right / took:.1f} per second); {log.failed} failed, "
        f"{log.short_failed} of them with the short timeout"
    )
    print(
        f"slowest answer {log.slowest:.2f} s, slowest failure after "
        f"{100 * log.slowest_failure:.0f} % of its deadline ({deadline(LONG_TIMEOUT):.0f} s, "
        f"with the short timeout {deadline(SHORT_TIMEOUT):.0f} s)"
    )
    for reason, count in log.reasons.most_common(8):
        print(f"  {count} x {reason}")
    times = sorted(seconds for seconds, _ in back)
    if times:
        slowest = max(back)
        print(
            f"service recovered: median {times[len(times) // 2]:.2f} s, "
            f"at most {slowest[0]:.2f} s ({slowest[1]}); "
            f"all processes replaced after at most {max(healed):.2f} s"
        )
    print(
        f"budgets: {sum(log.spent.values())} searches on {len(log.spent)} budgets of {SEARCHES}, "
        f"at most {max(log.spent.values(), default=0)} on one"
    )
    for line in log.broken[:20]:
        print(f"BROKEN: {line}")
    print("all promises hold" if not log.broken else f"{len(log.broken)} promises broken")
    return 1 if log.broken else 0


if __name__ == "__main__":
    sys.exit(main())
