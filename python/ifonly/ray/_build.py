"""Building a bundle with many workers: what one process does with all rows, each worker does with a part of them.

The passes run on Ray Data, over a dataset of parts: a row of it names files, or row groups of one, and every worker reads its own with the reader that
``ifonly build`` has. So rows never pass through Python or Ray's store; only what was learnt about columns does, a few megabytes a part, which is put together as it comes.
The rows of a dataset of Ray's, which are in its store anyway, are kept in files first (``_blocks.py``).
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
from ._engine import ray

#: How often a part is tried again when its worker dies. Ray Data by itself never gives up.
_RETRIES = 5
#: Faults in functions that Ray Data was given.
_OF_THE_AUTHOR: Any = getattr(ray.exceptions, "UserCodeException", ())


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
    """Makes the bundle that ``ifonly.build`` would make, byte by byte, with all workers of a Ray cluster.

    ``data`` are the paths of CSV or Parquet files, or of directories of them, or a ``ray.data.Dataset``; ``accepted`` is the name of the column that says who was
    accepted. Files are cut into parts of about ``part_bytes``: Parquet between its row groups, CSV not at all; the blocks of a dataset are put together to as much.
    Each task takes ``num_cpus``. ``address`` is the cluster's, as ``ray.init`` takes it; without it Ray is used as it runs already, or started on this machine for the
    time of the build. All other keyword arguments are those of ``ifonly.build``.

    A dataset is carried out once, in order, and its rows are the table that ``ifonly.build`` would have in memory, whatever its blocks are. Where these have different types for
    a column, they are cast to one that holds all, as ``pyarrow.concat_tables`` does with ``promote_options="permissive"``.

    On a cluster all nodes must see paths and the directory of ``output`` under the same names, as the same user: workers leave their parts, the rows of a dataset too, and
    find the signing key, in directories beside ``output`` that only this user can read, and that go when the build ends. A worker that dies is
    replaced, and its part done again, up to five times.
    """
    if not (_tables.are_paths(data) or is_dataset(data)):
        raise InputError("data: give the paths of files or directories, or a ray.data.Dataset; tables in memory are for ifonly.build")
    if accepted is not None and not isinstance(accepted, str):
        raise InputError("accepted: workers that each see a part cannot share a mask; write it into a column and give its name")
    parameters = inspect.signature(_build.build).parameters
    wanted: dict[str, Any] = {name: parameter.default for name, parameter in parameters.items()}
    unknown = sorted(set(options) - set(wanted))
    if unknown:
        raise TypeError(f"ifonly.ray.build() got an unexpected keyword argument {unknown[0]!r}")
    wanted |= {**options, "data": data, "output": output, "accepted": accepted}

    def builder(given: Any, chosen: str, settings: str | None, mask: object, bar: Bar) -> _build.Told:
        # Workers have directories of their own to start from.
        chosen = json.dumps({**json.loads(chosen), "output": os.path.abspath(output)})
        _ifonly.Build.check(chosen)
        with _met(address):
            if not is_dataset(given):
                return _from_files(_files(given), chosen, settings, _Team(num_cpus, bar), int(part_bytes))
            return _from_dataset(given, chosen, settings, _Team(num_cpus, bar), int(part_bytes))

    return _build.build_by(builder, wanted)


@contextlib.contextmanager
def _met(address: str | None) -> Iterator[None]:
    """Ray, as it runs already or for this time."""
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


def _from_files(files: list[str], chosen: str, settings: str | None, team: _Team, part_bytes: int) -> _build.Told:
    build = _ifonly.Build(files, chosen, settings)
    with in_order():
        return team.build(build, build.parts(part_bytes), Rows())


def _from_dataset(dataset: Any, chosen: str, settings: str | None, team: _Team, part_bytes: int) -> _build.Told:
    def begun(schema: Any) -> _ifonly.Build:
        # Columns alone: whoever works on a part has the rows.
        return _ifonly.Build(schema.empty_table(), chosen, settings)

    with in_order(dataset), _private_beside(json.loads(chosen)["output"]) as directory:
        team.bar.at(0, "reading")
        # What is wrong with the columns is known from the first block on; nobody should wait for the others.
        kept, schema = _asked(lambda: _blocks.gather(dataset, directory, team.num_cpus, begun))
        team.bar.at(1, "reading")
        rows = Rows(directory, schema.serialize().to_pybytes())
        return team.build(begun(schema), _blocks.parts(kept, part_bytes), rows)


@contextlib.contextmanager
def _private_beside(output: str) -> Iterator[str]:
    """A directory for rows on their way, which only this user can look into."""
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
    """Removes a directory to which somebody who has not heard yet that nobody wants it may still be writing."""
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.exists(directory):
            return
        time.sleep(0.1)
    warnings.warn(f"{directory} could not be removed and has rows or the signing key; remove it when all workers have ended", stacklevel=2)


@dataclass(frozen=True)
class Rows:
    """Where the rows of parts are: in the files that a part names, or in blocks that were kept."""

    directory: str | None = None
    schema: bytes = b""

    def of(self, part: str) -> str | tuple[Any, int]:
        """What the passes take."""
        return part if self.directory is None else _blocks.read(part, self.directory, self.schema)


class _Team:
    """Workers that share a build."""

    def __init__(self, num_cpus: float, bar: Bar) -> None:
        self.num_cpus, self.bar = num_cpus, bar

    def build(self, build: _ifonly.Build, parts: Sequence[str], rows: Rows) -> _build.Told:
        directory = None
        try:
            directory = os.fspath(build.begin())
            return self._build(build, list(parts), rows, directory)
        finally:
            build.close()
            if directory is not None:
                _remove(directory)

    def _build(self, build: _ifonly.Build, parts: list[str], rows: Rows, directory: str) -> _build.Told:
        work = build.work()
        for learnt in self._each("learning", _learn, parts, directory, work=work, rows=rows):
            build.take(learnt)
        plan = build.plan()
        encoded = self._each("encoding", _encode, parts, directory, work=work, plan=plan, rows=rows)
        told: list[tuple[str, int]] = [tuple(json.loads(one)) for one in encoded]
        tallies = [tally for tally, _ in told]
        manifest = build.manifest(plan, tallies)
        build.lend()
        counts = [str(count) for _, count in told]
        for _ in self._each("signing", _sign, counts, directory, manifest=manifest, threads=max(1, int(self.num_cpus))):
            pass
        return build.assemble(plan, tallies, lambda _, share: self.bar.at(share, "assembling"))

    def _each(self, stage: str, task: Callable[..., bytes], parts: list[str], directory: str, **known: Any) -> Iterator[bytes]:
        """What a task gives for each part, in their order."""
        items = [{"number": number, "part": part} for number, part in enumerate(parts)]
        results = each(_done, items, {"task": task, "stage": stage, "directory": directory, "known": known}, self.num_cpus)
        with contextlib.closing(results):
            for number in range(len(parts)):
                self.bar.at(number / len(parts), stage)
                row = _asked(lambda: next(results))
                if row["fault"]:
                    raise pickle.loads(row["fault"])
                yield row["result"]
        self.bar.at(1, stage)


def _asked(of_ray: Callable[[], Any]) -> Any:
    """What Ray gives; a fault of its own is the machine's, and what the functions of a dataset raise means something to their author."""
    try:
        return of_ray()
    except ray.exceptions.RayTaskError as error:
        import pyarrow as pa

        if isinstance(error.cause, pa.ArrowException) and not isinstance(error, _OF_THE_AUTHOR):
            # Of Ray itself, which makes Arrow tables of what else is in its blocks.
            raise InputError(f"the table: it cannot be read by the Arrow interface: {error.cause}") from error
        raise
    except _OF_THE_AUTHOR:
        raise
    except ray.exceptions.RayError as error:
        raise MachineError(f"a worker of Ray was lost and could not be replaced: {error}") from error


def _done(row: dict[str, Any], task: Callable[..., bytes], stage: str, directory: str, known: dict[str, Any]) -> dict[str, Any]:
    """Does one part. Faults of ours are told as any result, so that the first of them in the data is the one that counts, and no wrapper hides it."""
    number = row["number"]
    try:
        _count(stage, directory, number)
        return {"number": number, "result": task(row["part"], directory, number, **known), "fault": b""}
    except IfonlyError as error:
        return {"number": number, "result": b"", "fault": pickle.dumps(error)}


def _count(stage: str, directory: str, number: int) -> None:
    """Counts who begins a part; refuses one that has cost too many workers."""
    try:
        with open(os.path.join(directory, f"{stage}-{number}.begun"), "ab") as file:
            file.write(b".")
            begun = file.tell()
    except OSError as error:
        raise MachineError(f"cannot write in {directory}, which all workers share: {error.strerror}") from error
    if begun > _RETRIES + 1:
        raise MachineError(
            f"{stage}: part {number + 1} was begun {begun - 1} times, and each time its worker was lost: most likely for lack of memory, so give smaller parts "
            "(part_bytes) or fewer of them a time (num_cpus)"
        )


def _learn(part: str, directory: str, number: int, work: str, rows: Rows) -> bytes:
    return _ifonly.build_learn(work, rows.of(part))


def _encode(part: str, directory: str, number: int, work: str, plan: str, rows: Rows) -> bytes:
    return json.dumps(_ifonly.build_encode(work, plan, rows.of(part), directory, number)).encode()


def _sign(count: str, directory: str, number: int, manifest: str, threads: int) -> bytes:
    # Read once, when the first records of this process are signed: Ray has promised the other processors to others.
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    _ifonly.build_sign(manifest, directory, number, int(count))
    return b""
