"""A run's folder: its searches and the finished parts.

``run.json`` describes the run, and each part has the digest of its profiles, so that answers to
different searches are never mixed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _tables
from .._progress import Bar
from ..errors import InputError, ServersError
from ..results import Answer
from ._ray import ray


class ServersUnavailable(Exception):
    """The servers stay unreachable. Ray can pickle this exception."""


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    #: The folder with the parts.
    output: Path
    #: Number of searches, of searches that found a record, and of searches with an error.
    searches: int
    found: int
    errors: int
    #: Number of parts that existed before this call.
    parts_before: int

    @property
    def paths(self) -> list[Path]:
        """The parts, in order."""
        return sorted(self.output.glob("part-*.parquet"))

    def to_table(self) -> Any:
        """Returns all rows as a pyarrow Table, in the order of the people."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pa.concat_tables([pq.read_table(path) for path in self.paths])


class Run:
    """Reads and writes a run's folder."""

    def __init__(self, folder: Path, document: dict[str, Any], id: str | None, features: list[dict[str, Any]]) -> None:
        self._folder, self._document, self._id, self._features = folder, document, id, features
        self._sheet = folder / "run.json"
        if self._sheet.exists():
            self._compare(json.loads(self._sheet.read_text()))
        elif any(folder.glob("part-*.parquet")):
            raise InputError(f"{folder} has parts but no run.json, so their searches are unknown; give another folder")
        else:
            _write_text(self._sheet, json.dumps(document, indent=1, sort_keys=True) + "\n")
        self._counts = {"searches": 0, "found": 0, "errors": 0, "before": 0}

    def _compare(self, before: dict[str, Any]) -> None:
        for key, value in json.loads(json.dumps(self._document)).items():
            if before.get(key) != value:
                what = {"manifest": "with another manifest", "wishes": "with other wishes"}.get(key, f"with another {key}")
                then = before.get(key)
                if isinstance(value, dict) and isinstance(then, dict):
                    differing = [name for name in value if then.get(name) != value[name]]
                    then, value = ({name: one.get(name) for name in differing} for one in (then, value))
                raise InputError(
                    f"{self._folder} has the answers of a run {what} ({json.dumps(then)}, now {json.dumps(value)}); "
                    "repeat the original call to finish that run, or give another folder"
                )

    def drive(self, chunks: Iterator[Any], total: int, actors: list[Any], progress: bool | None) -> RunResult:
        """Gives every missing part to the next free worker."""
        free, busy = list(actors), dict[Any, tuple[Any, int, int, Any, str]]()
        first = 0
        failure: str | None = None
        with Bar("searching", total, progress) as bar:
            for number, chunk in enumerate(chunks):
                columns, rows, ids = self._profiles(chunk)
                digest = hashlib.blake2b(json.dumps([columns, rows, [str(one) for one in ids or []]]).encode(), digest_size=16).hexdigest()
                if not self._is_there(number, digest):
                    if not free:
                        failure = self._collect(busy, free) or failure
                        bar.at(self._counts["searches"])
                    if failure is not None:
                        break
                    actor = free.pop()
                    busy[actor.part.remote(columns, rows)] = (actor, number, first, ids, digest)
                first += len(rows)
            while busy:
                failure = self._collect(busy, free) or failure
                bar.at(self._counts["searches"])
        counts = self._counts
        if failure is not None:
            raise ServersError(f"{failure}; {counts['searches']} searches are stored in {self._folder}, and the same call resumes the run")
        return RunResult(self._folder, counts["searches"], counts["found"], counts["errors"], counts["before"])

    def _profiles(self, chunk: Any) -> tuple[list[str], list[list[str | float]], list[Any] | None]:
        ids = None
        if self._id is not None:
            if self._id not in chunk.column_names:
                raise InputError(f"id: no column {self._id!r}; the columns are {', '.join(chunk.column_names)}")
            ids = chunk.column(self._id).to_pylist()
        # A pandas index is not a column, even if pandas wrote it into a file.
        features = [name for name in chunk.column_names if name != self._id and not name.startswith("__index_level_")]
        columns, rows = _tables.people(chunk.select(features), "people")
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
            raise InputError(f"{path} has answers for other people; repeat the original call to finish that run, or give another folder")
        self._add(table)
        self._counts["before"] += 1
        return True

    def _add(self, table: Any) -> None:
        self._counts["searches"] += table.num_rows
        self._counts["found"] += sum(table.column("found").to_pylist())
        self._counts["errors"] += table.num_rows - table.column("error").null_count

    def _collect(self, busy: dict[Any, Any], free: list[Any]) -> str | None:
        """Waits for a worker and stores its part. Returns a failure of the servers, or None."""
        done, _ = ray.wait(list(busy), num_returns=1)
        actor, number, first, ids, digest = busy.pop(done[0])
        free.append(actor)
        try:
            answers = ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", error)
            if isinstance(cause, ServersUnavailable):
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
        columns["matching_rows"] = pa.array([one.get("matching_rows") for one in documents], pa.int64())
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
    """Returns a feature's values as numbers if it is numeric, else as texts."""
    import pyarrow as pa

    notation = kind.get("notation")
    plain = notation is None or (isinstance(notation, Mapping) and notation.get("type") not in ("date", "timestamp"))
    if kind["type"] == "numeric" and plain and all(value is None or isinstance(value, (int, float)) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)
