"""Builds a bundle with many workers; each processes a part of the rows.

The passes run on Ray Data over a dataset of parts. A part names files, or row groups of one, and
each worker reads its part with the reader of ``ifonly build``. So rows never pass through Python or
Ray's store. Only column statistics do, a few megabytes per part, which are merged as they arrive.
The rows of a Ray dataset, which are in Ray's store anyway, are first stored in files
(``_blocks.py``).
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _build, _ifonly, _tables
from .._progress import Bar
from ..errors import IfonlyError, InputError, MachineError
from . import _blocks
from ._datasets import each, in_order, is_dataset
from ._ray import ray

#: Maximum number of retries of a part whose worker dies. Ray Data itself has no limit.
_RETRIES = 5
#: Errors in the functions of a dataset.
_USER_CODE_ERROR: Any = getattr(ray.exceptions, "UserCodeException", ())


def build(
    data: Any,
    output: _build.StrPath,
    accepted: str | None = None,
    *,
    address: str | None = None,
    num_cpus: float = 1,
    part_bytes: int = 64 << 20,
    **options: Any,
) -> _build.BuildReport:
    """Builds a bundle with all workers of a Ray cluster.

    The bundle equals that of ``ifonly.build``, byte by byte.

    ``data`` is the paths of CSV or Parquet files, or of directories of them, or a
    ``ray.data.Dataset``. ``accepted`` is the name of the target column. Files form parts of about
    ``part_bytes``: Parquet files are divided between row groups, CSV files not at all. The blocks
    of a dataset are grouped to about that size. Each task takes ``num_cpus``. ``address`` is the
    cluster, as for ``ray.init``; without it the build uses Ray as it runs, or starts it on this
    machine until the build ends. The other keyword arguments are those of ``ifonly.build``.

    A dataset is executed once, in order. Its rows are the table that ``ifonly.build`` would have in
    memory. If its blocks have different types for a column, they are cast to a common type, as
    ``pyarrow.concat_tables`` does with ``promote_options="permissive"``.

    On a cluster all nodes must see the data and the directory of ``output`` under the same paths,
    as the same user. Workers store their parts, the rows of a dataset, and find the signing key in
    directories beside ``output`` that only this user can read. The build removes these at its end.
    If a worker dies, another repeats its part, up to five times.
    """
    if not (_tables.are_paths(data) or is_dataset(data)):
        raise InputError("data: give paths of files or directories, or a ray.data.Dataset; use ifonly.build for tables in memory")
    if accepted is not None and not isinstance(accepted, str):
        raise InputError("accepted: a mask cannot be divided among workers; write it into a column and give the name of the column")
    parameters = inspect.signature(_build.build).parameters
    wanted: dict[str, Any] = {name: parameter.default for name, parameter in parameters.items()}
    unknown = sorted(set(options) - set(wanted))
    if unknown:
        raise TypeError(f"ifonly.ray.build() got an unexpected keyword argument {unknown[0]!r}")
    wanted |= {**options, "data": data, "output": output, "accepted": accepted}

    def builder(given: Any, chosen: str, settings: str | None, mask: object, model: _build.Model | None, bar: Bar) -> _build.Report:
        # Workers run in other directories, so the path must be absolute.
        absolute = {key: os.path.abspath(path) for key, path in json.loads(chosen).items() if key in ("output", "cuts")}
        chosen = json.dumps({**json.loads(chosen), **absolute})
        _ifonly.Build.check(chosen)
        with _ray_running(address):
            if not is_dataset(given):
                return _from_files(_files(given), chosen, settings, _Workers(num_cpus, bar, model), int(part_bytes))
            return _from_dataset(given, chosen, settings, _Workers(num_cpus, bar, model), int(part_bytes))

    return _build.build_by(builder, wanted)


@contextlib.contextmanager
def _ray_running(address: str | None) -> Iterator[None]:
    """Uses Ray as it runs, or starts it until the end of the block."""
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False)
    try:
        yield
    finally:
        if started:
            ray.shutdown()


def _files(given: Any) -> list[str]:
    paths = _tables.table(given, "data")
    listed = [paths] if isinstance(paths, str) else paths
    if "-" in listed:
        raise InputError("standard input cannot be read by several workers; give files")
    return [os.path.abspath(path) for path in listed]


def _from_files(files: list[str], chosen: str, settings: str | None, workers: _Workers, part_bytes: int) -> _build.Report:
    build = _ifonly.Build(files, chosen, settings)
    with in_order():
        return workers.build(build, build.parts(part_bytes), Rows())


def _from_dataset(dataset: Any, chosen: str, settings: str | None, workers: _Workers, part_bytes: int) -> _build.Report:
    def begun(schema: Any) -> _ifonly.Build:
        # Only the columns; the tasks have the rows.
        return _ifonly.Build(schema.empty_table(), chosen, settings)

    with in_order(dataset), _private_beside(json.loads(chosen)["output"]) as directory:
        workers.bar.at(0, "reading")
        # The first block already shows errors in the columns, so check it before reading the rest.
        stored, schema = _translated(lambda: _blocks.gather(dataset, directory, workers.num_cpus, begun))
        workers.bar.at(1, "reading")
        rows = Rows(directory, schema.serialize().to_pybytes())
        return workers.build(begun(schema), _blocks.parts(stored, part_bytes), rows)


@contextlib.contextmanager
def _private_beside(output: str) -> Iterator[str]:
    """Creates a directory beside ``output`` that only this user can access."""
    parent, name = os.path.split(output)
    try:
        directory = tempfile.mkdtemp(prefix=f".{name}.", suffix=".blocks", dir=parent)
    except OSError as error:
        raise MachineError(f"cannot create a directory in {parent}: {error.strerror}") from error
    try:
        yield directory
    finally:
        _remove(directory)


def _remove(directory: str) -> None:
    """Removes a directory to which a cancelled worker may still write."""
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.exists(directory):
            return
        time.sleep(0.1)
    warnings.warn(f"cannot remove {directory}, which contains rows or the signing key; remove it after all workers have ended", stacklevel=2)


@dataclass(frozen=True)
class Rows:
    """Where the rows of parts are: in the files that a part names, or in stored blocks."""

    directory: str | None = None
    schema: bytes = b""

    def of(self, part: str) -> str | tuple[Any, int]:
        """Returns the rows of a part in the form that the passes take."""
        return part if self.directory is None else _blocks.read(part, self.directory, self.schema)


class _Workers:
    """Distributes the tasks of a build."""

    def __init__(self, num_cpus: float, bar: Bar, model: _build.Model | None) -> None:
        self.num_cpus, self.bar, self.model = num_cpus, bar, model

    def build(self, build: _ifonly.Build, parts: Sequence[str], rows: Rows) -> _build.Report:
        directory = None
        try:
            directory = os.fspath(build.begin())
            return self._build(build, list(parts), rows, directory)
        finally:
            build.close()
            if directory is not None:
                _remove(directory)

    def _build(self, build: _ifonly.Build, parts: list[str], rows: Rows, directory: str) -> _build.Report:
        work = build.task()
        for stats in self._each("learning", _learn, parts, directory, work=work, rows=rows):
            build.add_stats(stats)
        plan = build.plan()
        encoded = self._each("encoding", _encode, parts, directory, work=work, plan=plan, rows=rows)
        results: list[tuple[str, int]] = [tuple(json.loads(one)) for one in encoded]
        tallies = [tally for tally, _ in results]
        # Groups need all rows, so this process makes them. A grouped build has one part from here.
        self.bar.at(0, "grouping")
        plan, tallies, counts = build.group(plan, tallies, self.model)
        manifest = build.manifest(plan, tallies)
        build.write_worker_key()
        for _ in self._each("signing", _sign, [str(count) for count in counts], directory, manifest=manifest, threads=max(1, int(self.num_cpus))):
            pass
        return build.assemble(plan, tallies, lambda _, share: self.bar.at(share, "assembling"))

    def _each(self, stage: str, task: Callable[..., bytes], parts: list[str], directory: str, **known: Any) -> Iterator[bytes]:
        """Yields the results of a task for all parts, in order."""
        items = [{"number": number, "part": part} for number, part in enumerate(parts)]
        results = each(_run_part, items, {"task": task, "stage": stage, "directory": directory, "known": known}, self.num_cpus)
        with contextlib.closing(results):
            for number in range(len(parts)):
                self.bar.at(number / len(parts), stage)
                row = _translated(lambda: next(results))
                if row["error"]:
                    raise pickle.loads(row["error"])
                yield row["result"]
        self.bar.at(1, stage)


def _translated(call: Callable[[], Any]) -> Any:
    """Calls Ray and translates its own errors into ``MachineError``.

    Errors from the functions of a dataset pass unchanged to their author.
    """
    try:
        return call()
    except ray.exceptions.RayTaskError as error:
        import pyarrow as pa

        if isinstance(error.cause, pa.ArrowException) and not isinstance(error, _USER_CODE_ERROR):
            # From Ray itself, which converts other blocks to Arrow tables.
            raise InputError(f"the table: it cannot be read through the Arrow interface: {error.cause}") from error
        raise
    except _USER_CODE_ERROR:
        raise
    except ray.exceptions.RayError as error:
        raise MachineError(f"a Ray worker was lost and could not be replaced: {error}") from error


def _run_part(row: dict[str, Any], task: Callable[..., bytes], stage: str, directory: str, known: dict[str, Any]) -> dict[str, Any]:
    """Runs a task on one part.

    It returns our own errors as results, so that the first error in the data is raised, and without
    a wrapper.
    """
    number = row["number"]
    try:
        _count(stage, directory, number)
        return {"number": number, "result": task(row["part"], directory, number, **known), "error": b""}
    except IfonlyError as error:
        return {"number": number, "result": b"", "error": pickle.dumps(error)}


def _count(stage: str, directory: str, number: int) -> None:
    """Counts the attempts at a part, and refuses it after too many."""
    try:
        with open(os.path.join(directory, f"{stage}-{number}.begun"), "ab") as file:
            file.write(b".")
            begun = file.tell()
    except OSError as error:
        raise MachineError(f"cannot write to {directory}, which all workers share: {error.strerror}") from error
    if begun > _RETRIES + 1:
        raise MachineError(
            f"{stage}: part {number + 1} was started {begun - 1} times and its worker died each time, probably from lack of memory; "
            "use smaller parts (part_bytes) or fewer at a time (num_cpus)"
        )


def _learn(part: str, directory: str, number: int, work: str, rows: Rows) -> bytes:
    return _ifonly.build_collect_stats(work, rows.of(part))


def _encode(part: str, directory: str, number: int, work: str, plan: str, rows: Rows) -> bytes:
    return json.dumps(_ifonly.build_encode(work, plan, rows.of(part), directory, number)).encode()


def _sign(count: str, directory: str, number: int, manifest: str, threads: int) -> bytes:
    # Use only the processors that Ray reserved for this task. Rayon reads the variable once per
    # process, at the first signature.
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    _ifonly.build_sign(manifest, directory, number, int(count))
    return b""
