"""Building a bundle with many workers: what one process does with all rows, each worker does with a part of them.

Plain tasks over files: every task reads its files, or its row groups of one, with the reader that ``ifonly build`` has, so rows never pass
through Python or Ray's store. Only what was learnt about columns does, a few megabytes a part.
"""

from __future__ import annotations

import inspect
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from .. import _build, _ifonly, _tables
from .._progress import Bar
from ..errors import IfonlyError, InputError, MachineError

#: How often a part is tried again when its worker dies.
_RETRIES = 5


def build(
    paths: _build.StrPath | Sequence[_build.StrPath],
    output: _build.StrPath,
    accepted: str | None = None,
    *,
    address: str | None = None,
    num_cpus: float = 1,
    part_bytes: int = 64 << 20,
    **options: Any,
) -> _build.BuildReport:
    """Makes the bundle that ``ifonly.build`` would make, byte by byte, with all workers of a Ray cluster.

    ``paths`` are CSV or Parquet files, or directories of them; ``accepted`` is the name of the column that says who was accepted. Files are cut
    into parts of about ``part_bytes``: Parquet between its row groups, CSV not at all. Each task takes ``num_cpus``.
    ``address`` is the cluster's, as ``ray.init`` takes it; without it Ray is used as it runs already, or started on this machine for the
    time of the build. All other keyword arguments are those of ``ifonly.build``.

    On a cluster all nodes must see ``paths`` and the directory of ``output`` under the same names, as the same user: workers leave their parts, and
    find the signing key, in a directory beside ``output`` that only this user can read, and that goes when the build ends. A worker that dies is
    replaced, and its part done again, up to five times.
    """
    if not _tables.are_paths(paths):
        raise InputError("paths: give the paths of files or directories; tables in memory are for ifonly.build")
    if accepted is not None and not isinstance(accepted, str):
        raise InputError("accepted: workers that each see a part cannot share a mask; write it into a column and give its name")
    parameters = inspect.signature(_build.build).parameters
    wanted: dict[str, Any] = {name: parameter.default for name, parameter in parameters.items()}
    unknown = sorted(set(options) - set(wanted))
    if unknown:
        raise TypeError(f"ifonly.ray.build() got an unexpected keyword argument {unknown[0]!r}")
    wanted |= {**options, "data": paths, "output": output, "accepted": accepted}

    def builder(data: Any, chosen: str, settings: str | None, mask: object, bar: Bar) -> _build.Told:
        listed = [data] if isinstance(data, str) else data
        if "-" in listed:
            raise InputError("standard input cannot be read by several workers; give files")
        # Workers have directories of their own to start from.
        files = [os.path.abspath(path) for path in listed]
        chosen = json.dumps({**json.loads(chosen), "output": os.path.abspath(output)})
        build = _ifonly.Build(files, chosen, settings)
        started = not ray.is_initialized()
        if started:
            ray.init(address=address, log_to_driver=False)
        try:
            return _Shared(build, num_cpus, bar).build(int(part_bytes))
        finally:
            build.close()
            if started:
                ray.shutdown()

    return _build.build_by(builder, wanted)


class _Shared:
    """A build that workers share."""

    def __init__(self, build: _ifonly.Build, num_cpus: float, bar: Bar) -> None:
        self._build, self._bar = build, bar
        self._threads = max(1, int(num_cpus))
        self._remote: Callable[[Any], Any] = ray.remote(num_cpus=num_cpus, max_retries=_RETRIES)
        # Enough that nobody waits, so few that what was learnt does not pile up.
        cluster: Any = ray
        self._ahead = max(4, 2 * int(cluster.cluster_resources().get("CPU", 1) / max(num_cpus, 0.01)))

    def build(self, part_bytes: int) -> _build.Told:
        build = self._build
        work = ray.put(build.work())
        parts = build.parts(part_bytes)
        learn, encode, sign = self._remote(_learn), self._remote(_encode), self._remote(_sign)
        for learnt in self._each("learning", learn, ((work, part) for part in parts), len(parts)):
            build.take(learnt)
        plan = build.plan()
        sent, directory = ray.put(plan), os.fspath(build.begin())
        build.lend()
        encoding = ((work, sent, part, directory, number) for number, part in enumerate(parts))
        encoded = list(self._each("encoding", encode, encoding, len(parts)))
        tallies = [tally for tally, _ in encoded]
        manifest = ray.put(build.manifest(plan, tallies))
        signing = ((manifest, directory, number, rows, self._threads) for number, (_, rows) in enumerate(encoded))
        for _ in self._each("signing", sign, signing, len(parts)):
            pass
        return build.assemble(plan, tallies, lambda _, share: self._bar.at(share, "assembling"))

    def _each(self, stage: str, task: Any, calls: Iterable[tuple[Any, ...]], count: int) -> Iterator[Any]:
        """What the tasks give, in their order."""
        running: deque[Any] = deque()
        remaining = iter(calls)
        for done in range(count):
            while len(running) < self._ahead:
                arguments = next(remaining, None)
                if arguments is None:
                    break
                running.append(task.options(name=f"ifonly build: {stage} part {done + len(running)}").remote(*arguments))
            self._bar.at(done / count, stage)
            yield _got(running.popleft())
        self._bar.at(1, stage)


def _got(reference: Any) -> Any:
    """What a task gave; its own error where it has one."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, IfonlyError):
            raise cause from None
        raise
    except RayError as error:
        raise MachineError(f"a worker of Ray was lost and could not be replaced: {error}") from error


def _learn(work: str, part: str) -> bytes:
    return _ifonly.build_learn(work, part)


def _encode(work: str, plan: str, part: str, directory: str, number: int) -> tuple[str, int]:
    return _ifonly.build_encode(work, plan, part, directory, number)


def _sign(manifest: str, directory: str, number: int, rows: int, threads: int) -> None:
    # Read once, when the first records of this process are signed: Ray has promised the other processors to others.
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    _ifonly.build_sign(manifest, directory, number, rows)
