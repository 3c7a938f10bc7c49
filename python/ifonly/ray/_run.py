"""A run's folder: which questions it answers, and the parts that are done.

What a run is stands in ``run.json``, and each part knows the digest of its questions, so that answers to different questions never end up together.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _ifonly
from .._progress import Bar
from ..errors import InputError, ServersError
from ..results import Answer
from ._engine import ray


class Away(Exception):
    """Servers that stay away; an exception that survives its way through Ray."""


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


class Run:
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
                then = before.get(key)
                if isinstance(value, dict) and isinstance(then, dict):
                    differing = [name for name in value if then.get(name) != value[name]]
                    then, value = ({name: one.get(name) for name in differing} for one in (then, value))
                raise InputError(
                    f"{self._folder} has the answers of a run {what} ({json.dumps(then)}, now {json.dumps(value)}); "
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
            if isinstance(cause, Away):
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


def _write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)
