"""Searches in bulk, for audits: one search per person, at a limited rate, with stored results.

The driver divides the people into parts and gives each part to a worker. The results of a part
become one Parquet file, written atomically. A run that was interrupted continues with the missing
parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._ask import Explainer, Wishes, _wish_list
from .._build import StrPath
from ..errors import IfonlyError, InputError, MachineError, ServersError
from ._queries import chunks
from ._ray import ray, start
from ._run import Run, RunResult, ServersUnavailable

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Version of the layout of a run's folder.
_FORMAT = 1


def ask(
    people: Any,
    servers: Iterable[str],
    output: StrPath,
    *,
    id: str | None = None,
    total_CFs: int = 1,
    rate: float | None = None,
    workers: int = 2,
    concurrency: int = 4,
    part_rows: int = 1000,
    address: str | None = None,
    threshold: int | None = None,
    manifest: str | None = None,
    signer: str | None = None,
    operators: Iterable[str] | None = None,
    token: str | Mapping[str, str] | None = None,
    token_file: StrPath | None = None,
    token_env: str | None = None,
    ca: StrPath | None = None,
    timeout: float = 120.0,
    plain_http: bool = False,
    retry_seconds: float = 60.0,
    progress: bool | None = None,
    **wishes: Unpack[Wishes],
) -> RunResult:
    """Searches for every person in a table, on Ray, and writes the answers as Parquet files.

    ``people`` is a ``ray.data.Dataset``, a table as :func:`ifonly.build` takes it, or the paths of
    Parquet files or of a folder of them. ``output`` is the folder of the answers. ``id`` names a
    column that identifies people and is not part of the search; rows are numbered in any case.
    Servers, pins and wishes are those of :class:`ifonly.Explainer` and
    :meth:`~ifonly.Explainer.generate_counterfactuals`.

    A ``token`` passes through Ray to the workers. To avoid this, give a file (``token_file``) with
    the same path on every node, or an environment variable (``token_env``) of this program and of
    Ray's workers. Both are read where they are used, in the format of ``--token-file`` and
    ``IFONLY_TOKEN`` of ``ifonly ask``: ``TOKEN`` or ``URL=TOKEN``, one per line, or separated by
    spaces. Profiles and answers always pass through Ray.

    At most ``rate`` searches begin per second, over all ``workers``. Each worker has at most
    ``concurrency`` searches in flight. A call with the same ``output`` resumes the run, and refuses
    other searches. An invalid or failed search is a row with an ``error``. If servers are
    unreachable, workers retry for ``retry_seconds``; then the call raises
    :class:`ifonly.ServersError` and keeps the finished parts.

    Columns: ``row``, the ``id``, ``found``, ``cost``, ``answer.FEATURE`` for every feature (numbers
    for numeric features), ``changes`` and ``nearest`` as JSON, ``matching_rows``, ``notes``,
    ``error``, ``error_kind``.
    """
    if rate is not None and not rate > 0:
        raise InputError(f"rate = {rate!r}: must be a number of searches per second above 0")
    for name, number in (("workers", workers), ("concurrency", concurrency), ("part_rows", part_rows), ("total_CFs", total_CFs)):
        if number < 1:
            raise InputError(f"{name} = {number!r}: must be at least 1")
    if sum(one is not None for one in (token, token_file, token_env)) > 1:
        raise InputError("give only one of token, token_file and token_env")
    # An error in a wish concerns every search, so report it before any search.
    listed, ranges = _wish_list(**wishes)
    addresses = [servers] if isinstance(servers, str) else list(servers)
    reach: dict[str, Any] = {
        "threshold": threshold, "manifest": manifest, "signer": signer, "operators": None if operators is None else list(operators),
        "token": token if token is None or isinstance(token, str) else dict(token),
        "token_file": None if token_file is None else os.path.abspath(os.fspath(token_file)), "token_env": token_env, "ca": None if ca is None else os.path.abspath(os.fspath(ca)),
        "timeout": timeout, "plain_http": plain_http,
    }  # fmt: skip
    explainer = _connect(addresses, reach)
    # Pin the manifest, so that all searches use the same rows even if the servers reload.
    reach["manifest"] = explainer.digest
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "format": _FORMAT,
        "manifest": explainer.digest,
        "wishes": {**listed, "permitted_range": ranges, "top": total_CFs},
        "id": id,
        "part_rows": part_rows,
    }
    start(address)
    run = Run(folder, document, id, explainer.manifest["schema"]["features"])
    actors = [
        ray.remote(Searcher).options(num_cpus=0, max_restarts=-1, max_task_retries=3, max_concurrency=1).remote(
            f"ifonly-ask-{number + 1}", addresses, reach, total_CFs, dict(wishes), concurrency,
            None if rate is None else rate / workers, retry_seconds,
        )
        for number in range(workers)
    ]  # fmt: skip
    try:
        return run.drive(*chunks(people, part_rows), actors, progress)
    finally:
        for actor in actors:
            with contextlib.suppress(Exception):
                ray.kill(actor)


class Searcher:
    """A worker: runs the searches of one part after another."""

    def __init__(
        self, name: str, servers: list[str], reach: dict[str, Any], total_CFs: int, wishes: Wishes, concurrency: int, rate: float | None,
        retry_seconds: float,
    ) -> None:  # fmt: skip
        self._name, self._servers, self._reach = name, servers, reach
        self._total, self._wishes, self._concurrency, self._rate = total_CFs, wishes, concurrency, rate
        self._retry_seconds = retry_seconds
        self._explainer: Explainer | None = None
        self._next = 0.0

    def __repr__(self) -> str:
        return self._name

    async def part(self, columns: list[str], rows: list[list[str | float]]) -> list[tuple[str | None, str | None, str | None]]:
        """Returns for every person the answer's JSON, or the kind and text of an error."""
        people = [dict(zip(columns, row)) for row in rows]
        slots = asyncio.Semaphore(self._concurrency)
        tasks: list[asyncio.Task[tuple[str | None, str | None, str | None]]] = []
        try:
            for person in people:
                await slots.acquire()
                await self._pace()
                task = asyncio.create_task(self._one(person))
                task.add_done_callback(lambda _: slots.release())
                tasks.append(task)
                if any(task.done() and task.exception() for task in tasks[-2 * self._concurrency :]):
                    break
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pace(self) -> None:
        """Waits for this worker's share of the rate. Unused time is lost, to avoid bursts."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._next = max(now, self._next)
        await asyncio.sleep(self._next - now)
        self._next += 1.0 / self._rate

    async def _one(self, person: dict[str, str | float]) -> tuple[str | None, str | None, str | None]:
        begun, wait = time.monotonic(), 0.5
        while True:
            try:
                explainer = await self._connected()
                found = await explainer.generate_counterfactuals_async(person, self._total, **self._wishes)
                return found[0].to_json(), None, None
            except (ServersUnavailable, ServersError, MachineError) as error:
                left = begun + self._retry_seconds - time.monotonic()
                if left <= 0:
                    raise ServersUnavailable(str(error)) from None
                # A retry is a new search for the servers, so it counts for the rate too.
                await asyncio.sleep(min(wait, left))
                wait *= 2
                await self._pace()
            except IfonlyError as error:
                return None, error.kind, str(error)

    async def _connected(self) -> Explainer:
        """Connects to the servers. An error here does not concern a single search."""
        if self._explainer is None:
            try:
                self._explainer = await asyncio.to_thread(_connect, self._servers, self._reach)
            except IfonlyError as error:
                raise ServersUnavailable(str(error)) from None
        return self._explainer


def _connect(servers: list[str], reach: Mapping[str, Any]) -> Explainer:
    """Connects to the servers. It reads the token here if only its place was given."""
    given = dict(reach)
    path, name = given.pop("token_file"), given.pop("token_env")
    if path is not None:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InputError(f"token_file: {path} on node {ray.util.get_node_ip_address()}: {why}") from error
        given["token"] = _tokens([line.strip() for line in lines if not line.lstrip().startswith("#")], servers)
    elif name is not None:
        if name not in os.environ:
            raise InputError(f"token_env: the variable {name} is not set on node {ray.util.get_node_ip_address()}; set it before Ray starts on the node")
        given["token"] = _tokens(os.environ[name].split(" "), servers)
    return Explainer(servers, **given)


def _tokens(texts: list[str], servers: list[str]) -> dict[str, str]:
    """Returns tokens by address, from TOKEN (for all servers) and URL=TOKEN.

    The first of several counts, as for `ifonly ask`.
    """
    own: dict[str, str] = {}
    common: str | None = None
    for text in filter(None, texts):
        url, _, token = text.rpartition("=")
        if url.startswith(("http://", "https://")):
            own.setdefault(url, token)
        elif common is None:
            common = text
    if common is None and not own:
        raise InputError("token_file, token_env: it contains no token")
    return {**({} if common is None else dict.fromkeys(servers, common)), **own}
