"""Questions in bulk, for audits: every question a search of its own, at a pace, in parts that are kept.

The driver cuts the people into parts and gives each to a worker; what comes back becomes a Parquet file in one step. A run that was broken off goes on with
the parts that are missing. What a run is (which servers' manifest, which wishes, which columns) stands in ``run.json`` beside the parts, and each part knows the
digest of its questions, so that answers to different questions never end up together.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from .. import _ifonly
from .._ask import Explainer, Wishes, _wish_list
from .._build import StrPath
from .._progress import Bar
from ..errors import IfonlyError, InputError, MachineError, ServersError
from ..results import Answer

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The layout of a run's folder.
_FORMAT = 1
#: How long a worker waits before it asks servers again that were away: together about a minute.
_WAITS = (1.0, 4.0, 15.0, 40.0)


@dataclass(frozen=True)
class Asked:
    """What a run has come to."""

    #: The folder with the parts.
    output: Path
    #: How many questions there were, how many found somebody, and how many had an error of their own.
    questions: int
    found: int
    errors: int
    #: How many parts were there before this call.
    parts_before: int

    @property
    def paths(self) -> list[Path]:
        """The parts, in order."""
        return sorted(self.output.glob("part-*.parquet"))

    def to_table(self) -> Any:
        """All rows, as a pyarrow Table in the order of the questions."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pa.concat_tables([pq.read_table(path) for path in self.paths])


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
    ca: StrPath | None = None,
    timeout: float = 120.0,
    plain_http: bool = False,
    progress: bool | None = None,
    **wishes: Unpack[Wishes],
) -> Asked:
    """Asks for everybody in a table, on Ray, and writes the answers as Parquet to the folder ``output``.

    ``people`` is a ``ray.data.Dataset``, a table as :func:`ifonly.build` takes it, or the path of a Parquet file, of several, or of a folder of them. ``id`` names a
    column that identifies people and is not asked about; rows are numbered anyway. Servers, pins and wishes are those of :class:`ifonly.Explainer` and
    :meth:`~ifonly.Explainer.generate_counterfactuals`.

    At most ``rate`` questions begin per second, over all ``workers``, each of which has at most ``concurrency`` on their way. A call with the same ``output`` goes on
    where the last one ended, and refuses other questions. A question that cannot be asked or answered is a row with an ``error``; servers that cannot be reached
    are asked again for a minute, then the call ends with :class:`ifonly.ServersError`, and what is done is kept.

    Columns: ``row``, the ``id``, ``found``, ``cost``, ``answer.FEATURE`` for every feature (numbers where the feature is one), ``changes`` and ``nearest`` as JSON,
    ``qualifying``, ``notes``, ``error``, ``error_kind``.
    """
    if rate is not None and not rate > 0:
        raise InputError(f"rate = {rate!r}: questions per second, more than 0")
    for name, number in (("workers", workers), ("concurrency", concurrency), ("part_rows", part_rows), ("total_CFs", total_CFs)):
        if number < 1:
            raise InputError(f"{name} = {number!r}: at least 1")
    # A mistake in a wish is everybody's: better to know it before anybody is asked.
    listed, ranges = _wish_list(**wishes)
    addresses = [servers] if isinstance(servers, str) else list(servers)
    reach: dict[str, Any] = {
        "threshold": threshold, "manifest": manifest, "signer": signer, "operators": None if operators is None else list(operators),
        "token": token if token is None or isinstance(token, str) else dict(token), "ca": None if ca is None else os.path.abspath(os.fspath(ca)),
        "timeout": timeout, "plain_http": plain_http,
    }  # fmt: skip
    explainer = Explainer(addresses, **reach)
    # Everybody is to be asked about the same rows, also if the servers reload meanwhile.
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
    if not ray.is_initialized():
        ray.init(address=address, namespace="ifonly", log_to_driver=False)
    run = _Run(folder, document, id, explainer.manifest["schema"]["features"])
    remote: Any = ray.remote
    hands = [
        remote(Asker).options(num_cpus=0, max_restarts=-1, max_task_retries=3, max_concurrency=1).remote(
            f"ifonly-ask-{number + 1}", addresses, reach, total_CFs, dict(wishes), concurrency, None if rate is None else rate / workers
        )
        for number in range(workers)
    ]  # fmt: skip
    try:
        return run.drive(*_chunks(people, part_rows), hands, progress)
    finally:
        for hand in hands:
            with contextlib.suppress(Exception):
                ray.kill(hand)


class Asker:
    """A worker: asks the questions of one part after another, each question on its own."""

    def __init__(
        self, name: str, servers: list[str], reach: dict[str, Any], total_CFs: int, wishes: Wishes, concurrency: int, rate: float | None,
    ) -> None:  # fmt: skip
        self._name, self._servers, self._reach = name, servers, reach
        self._total, self._wishes, self._concurrency, self._rate = total_CFs, wishes, concurrency, rate
        self._explainer: Explainer | None = None
        self._next = 0.0

    def __repr__(self) -> str:
        return self._name

    async def part(self, columns: list[str], rows: list[list[str]]) -> list[tuple[str | None, str | None, str | None]]:
        """For every question the answer's JSON, or the kind of an error and its text."""
        people = [dict(zip(columns, row)) for row in rows]
        places = asyncio.Semaphore(self._concurrency)
        tasks: list[asyncio.Task[tuple[str | None, str | None, str | None]]] = []
        try:
            for person in people:
                await places.acquire()
                await self._pace()
                task = asyncio.create_task(self._one(person))
                task.add_done_callback(lambda _: places.release())
                tasks.append(task)
                if any(task.done() and task.exception() for task in tasks[-2 * self._concurrency :]):
                    break
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pace(self) -> None:
        """Waits for this worker's share of the rate. Time that was not used is gone, so there are no bursts."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._next = max(now, self._next)
        await asyncio.sleep(self._next - now)
        self._next += 1.0 / self._rate

    async def _one(self, person: dict[str, str]) -> tuple[str | None, str | None, str | None]:
        for wait in (*_WAITS, None):
            try:
                explainer = await self._met()
                found = await explainer.generate_counterfactuals_async(person, self._total, **self._wishes)
                return found[0].to_json(), None, None
            except (_Away, ServersError, MachineError) as error:
                # A question that is repeated is another search to servers, at the same pace.
                if wait is None:
                    raise _Away(str(error)) from None
                await asyncio.sleep(wait)
                await self._pace()
            except IfonlyError as error:
                return None, error.kind, str(error)
        raise AssertionError("the last wait is None")

    async def _met(self) -> Explainer:
        """The servers. What goes wrong here is nobody's question."""
        if self._explainer is None:
            try:
                self._explainer = await asyncio.to_thread(lambda: Explainer(self._servers, **self._reach))
            except IfonlyError as error:
                raise _Away(str(error)) from None
        return self._explainer


class _Away(Exception):
    """Servers that stay away; an exception that survives its way through Ray."""


class _Run:
    """A run's folder, and what goes into it."""

    def __init__(self, folder: Path, document: dict[str, Any], id: str | None, features: list[dict[str, Any]]) -> None:
        self._folder, self._document, self._id, self._features = folder, document, id, features
        self._sheet = folder / "run.json"
        if self._sheet.exists():
            self._compare(json.loads(self._sheet.read_text()))
        elif any(folder.glob("part-*.parquet")):
            raise InputError(f"{folder} has parts, but no run.json to say which questions they answer; give another folder")
        else:
            _write_text(self._sheet, json.dumps(document, indent=1, sort_keys=True) + "\n")
        self._counts = {"questions": 0, "found": 0, "errors": 0, "before": 0}

    def _compare(self, before: dict[str, Any]) -> None:
        for key, value in json.loads(json.dumps(self._document)).items():
            if before.get(key) != value:
                what = {"manifest": "of servers with another manifest", "wishes": "with other wishes"}.get(key, f"with another {key}")
                raise InputError(
                    f"{self._folder} has the answers of a run {what} ({json.dumps(before.get(key))}, now {json.dumps(value)}); "
                    "finish that one as it was begun, or give another folder"
                )

    def drive(self, chunks: Iterator[Any], total: int, hands: list[Any], progress: bool | None) -> Asked:
        """Every part that is missing goes to the next worker that is free."""
        free, busy = list(hands), dict[Any, tuple[Any, int, int, Any, str]]()
        first = 0
        trouble: str | None = None
        with Bar("asking", total, progress) as bar:
            for number, chunk in enumerate(chunks):
                columns, rows, ids = self._questions(chunk)
                digest = hashlib.blake2b(json.dumps([columns, rows, [str(one) for one in ids or []]]).encode(), digest_size=16).hexdigest()
                if not self._is_there(number, digest):
                    if not free:
                        trouble = self._collect(busy, free) or trouble
                        bar.at(self._counts["questions"])
                    if trouble is not None:
                        break
                    hand = free.pop()
                    busy[hand.part.remote(columns, rows)] = (hand, number, first, ids, digest)
                first += len(rows)
            while busy:
                trouble = self._collect(busy, free) or trouble
                bar.at(self._counts["questions"])
        counts = self._counts
        if trouble is not None:
            raise ServersError(f"{trouble}; {counts['questions']} questions are answered in {self._folder}, and the same call goes on from there")
        return Asked(self._folder, counts["questions"], counts["found"], counts["errors"], counts["before"])

    def _questions(self, chunk: Any) -> tuple[list[str], list[list[str]], list[Any] | None]:
        ids = None
        if self._id is not None:
            if self._id not in chunk.column_names:
                raise InputError(f"id: there is no column {self._id!r}; there are {', '.join(chunk.column_names)}")
            ids = chunk.column(self._id).to_pylist()
        # A pandas index names rows and is no column, also where pandas wrote it into a file.
        asked = [name for name in chunk.column_names if name != self._id and not name.startswith("__index_level_")]
        columns, rows = _ifonly.rows(chunk.select(asked), "people")
        return columns, rows, ids

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number:06d}.parquet"

    def _is_there(self, number: int, digest: str) -> bool:
        import pyarrow.parquet as pq

        path = self._path(number)
        if not path.exists():
            return False
        table = pq.read_table(path, columns=["found", "error"])
        if (table.schema.metadata or {}).get(b"ifonly.questions") != digest.encode():
            raise InputError(f"{path} answers other questions than the people given now; finish that run as it was begun, or give another folder")
        self._add(table)
        self._counts["before"] += 1
        return True

    def _add(self, table: Any) -> None:
        self._counts["questions"] += table.num_rows
        self._counts["found"] += sum(table.column("found").to_pylist())
        self._counts["errors"] += table.num_rows - table.column("error").null_count

    def _collect(self, busy: dict[Any, Any], free: list[Any]) -> str | None:
        """Waits for a worker, keeps its part, and says what went wrong if something did."""
        done, _ = ray.wait(list(busy), num_returns=1)
        hand, number, first, ids, digest = busy.pop(done[0])
        free.append(hand)
        try:
            answers = ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", error)
            if isinstance(cause, _Away):
                return f"part {number} (rows from {first}): {cause}"
            raise
        table = self._table(answers, first, ids).replace_schema_metadata({"ifonly.questions": digest})
        self._keep(self._path(number), table)
        self._add(table)
        return None

    def _table(self, answers: list[tuple[str | None, str | None, str | None]], first: int, ids: list[Any] | None) -> Any:
        import pyarrow as pa

        found = [None if document is None else Answer(None, {}, document, "[]") for document, _, _ in answers]
        documents = [json.loads(document) if document is not None else {} for document, _, _ in answers]
        nearest = [one.get("nearest", [one] if one.get("found") else []) for one in documents]
        best = [one[0] if one else None for one in nearest]
        columns: dict[str, Any] = {"row": pa.array(range(first, first + len(answers)), pa.int64())}
        if ids is not None and self._id is not None:
            columns[self._id if self._id not in columns else "id"] = pa.array(ids)
        columns["found"] = pa.array([bool(one) for one in best], pa.bool_())
        columns["cost"] = pa.array([one and one["cost"] for one in best], pa.float64())
        for feature in self._features:
            name = feature["name"]
            values = [one["record"].get(name) if one else None for one in best]
            columns[f"answer.{name}"] = _column(values, feature["kind"])
        columns["changes"] = pa.array([json.dumps(one["changes"], ensure_ascii=False) if one else None for one in best], pa.string())
        columns["nearest"] = pa.array(
            [json.dumps([{key: each[key] for key in ("cost", "record", "changes")} for each in one], ensure_ascii=False) if one else None for one in nearest],
            pa.string(),
        )
        columns["qualifying"] = pa.array([one.get("qualifying") for one in documents], pa.int64())
        columns["notes"] = pa.array([None if one is None else one.notes for one in found], pa.list_(pa.string()))
        columns["error"] = pa.array([text for _, _, text in answers], pa.string())
        columns["error_kind"] = pa.array([kind for _, kind, _ in answers], pa.string())
        return pa.table(columns)

    def _keep(self, path: Path, table: Any) -> None:
        import pyarrow.parquet as pq

        beside = path.with_name(f".{path.name}.new")
        with beside.open("wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)


def _column(values: list[Any], kind: Mapping[str, Any]) -> Any:
    """A feature's values: numbers where it is one, texts of everything else."""
    import pyarrow as pa

    notation = kind.get("notation")
    plain = notation is None or (isinstance(notation, Mapping) and notation.get("type") not in ("date", "timestamp"))
    if kind["type"] == "numeric" and plain and all(value is None or isinstance(value, (int, float)) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _chunks(people: Any, size: int) -> tuple[Iterator[Any], int]:
    """The people as pyarrow tables of so many rows, always cut in the same places; and how many there are, where that is known."""
    import pyarrow.dataset as ds

    if isinstance(people, (str, os.PathLike)) or (isinstance(people, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in people)):
        paths = [people] if isinstance(people, (str, os.PathLike)) else list(people)
        files = [str(file) for path in paths for file in _parquet_files(Path(path))]
        dataset = ds.dataset(files, format="parquet")
        return _cut(dataset.to_batches(), size), dataset.count_rows()
    if type(people).__module__.partition(".")[0] == "ray" and hasattr(people, "iter_batches"):
        from ray.data import DataContext

        # Questions are recognised by their rows, so rows keep their places.
        DataContext.get_current().execution_options.preserve_order = True
        tables = people.iter_batches(batch_size=size, batch_format="pyarrow", prefetch_batches=1)
        return _cut((batch for table in tables for batch in table.to_batches()), size), 0
    table = _arrow(people)
    return _cut(table.to_batches(max_chunksize=size), size), table.num_rows


def _cut(batches: Iterable[Any], size: int) -> Iterator[Any]:
    import pyarrow as pa

    held: list[Any] = []
    count = 0
    for batch in batches:
        while batch.num_rows:
            piece = batch.slice(0, size - count)
            batch = batch.slice(piece.num_rows)
            held.append(piece)
            count += piece.num_rows
            if count == size:
                yield pa.Table.from_batches(held)
                held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _parquet_files(path: Path) -> list[Path]:
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"people: {path} has no Parquet files")
    if not all(file.is_file() for file in files):
        raise InputError(f"people: there is no file {path}")
    return files


def _arrow(people: Any) -> Any:
    import pyarrow as pa

    from .. import _tables

    return pa.table(_tables.table(people, "people"))


def _write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)
