"""The profiles of a run in chunks: from files, tables in memory, or Ray datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .. import _tables
from ..errors import InputError
from ._datasets import in_order, is_dataset


def chunks(people: Any, size: int) -> tuple[Iterator[Any], int]:
    """Returns the profiles as pyarrow tables of ``size`` rows, and their number (0 if unknown).

    The same profiles always give the same chunks.
    """
    import pyarrow.dataset as ds

    if isinstance(people, (str, os.PathLike)) or (isinstance(people, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in people)):
        paths = [people] if isinstance(people, (str, os.PathLike)) else list(people)
        files = [str(file) for path in paths for file in _parquet_files(Path(path))]
        dataset = ds.dataset(files, format="parquet")
        return _cut(dataset.to_batches(), size), dataset.count_rows()
    if is_dataset(people):
        return _cut(_batches(people, size), size), 0
    table = _arrow(people)
    return _cut(table.to_batches(max_chunksize=size), size), table.num_rows


def _batches(dataset: Any, size: int) -> Iterator[Any]:
    # A run recognises its parts by their rows, so the rows must keep their order.
    with in_order(dataset):
        for table in dataset.iter_batches(batch_size=size, batch_format="pyarrow", prefetch_batches=1):
            yield from table.to_batches()


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
        raise InputError(f"people: no such file: {path}")
    return files


def _arrow(people: Any) -> Any:
    import pyarrow as pa

    return pa.table(_tables.table(people, "people"))
