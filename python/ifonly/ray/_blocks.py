"""The rows of a ``ray.data.Dataset``, kept in files from which both passes of a build read them.

A dataset is a plan, and carrying it out twice may give other rows, or the same in another order. So it is carried out once: every block becomes an Arrow file,
written by the worker that has it, in a directory that all workers share. Blocks may have different types for a column; all are read as the type that
holds them all, as one table in memory would have them.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, MachineError

#: What messages call the data, as for a table in memory.
_TABLE = "the table"


@dataclass(frozen=True)
class Kept:
    """A block in its file."""

    name: str
    rows: int
    #: As Arrow has them in memory.
    bytes: int
    #: Of the file: whoever reads it sees the rows that were kept.
    checksum: int


def keep(block: Any, directory: str) -> dict[str, list[Any]]:
    """Writes a block to a file of its own, in a worker, and tells which."""
    import pyarrow as pa

    # Whoever keeps a block again, because nobody heard of the first time, takes another name: what was told is never overwritten.
    name = uuid.uuid4().hex
    block = block.replace_schema_metadata(None)
    path = os.path.join(directory, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with pa.ipc.new_file(file, block.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(block)
        file.flush()
        os.fsync(file.fileno())
    told = {"name": name, "rows": block.num_rows, "bytes": block.nbytes, "checksum": _checksum(path)}
    return {"kept": [json.dumps(told)], "schema": [block.schema.serialize().to_pybytes()]}


def gather(dataset: Any, directory: str, num_cpus: float, seen: Callable[[Any], object]) -> tuple[list[Kept], Any]:
    """Keeps all blocks of a dataset that have rows, in its order; gives them and their common schema. ``seen`` is called with the first one's."""
    import pyarrow as pa

    kept: list[Kept] = []
    schemas: dict[bytes, Any] = {}
    # Without a batch size a batch is a block.
    told = dataset.map_batches(keep, fn_kwargs={"directory": directory}, batch_size=None, batch_format="pyarrow", num_cpus=num_cpus)
    for row in told.iter_rows():
        block = Kept(**json.loads(row["kept"]))
        if not block.rows:
            # What type nothing has says nothing, and some filters leave no columns either.
            continue
        if row["schema"] not in schemas:
            schemas[row["schema"]] = pa.ipc.read_schema(pa.py_buffer(row["schema"]))
            if len(schemas) == 1:
                seen(schemas[row["schema"]])
        kept.append(block)
    if not kept:
        raise InputError(f"{_TABLE}: there are no rows in this dataset")
    return kept, common(list(schemas.values()))


def parts(kept: Sequence[Kept], size: int) -> list[str]:
    """The blocks in parts of about so many bytes, in order; a block is not cut."""
    listed: list[str] = []
    before, rows, weight, blocks = 0, 0, 0, []
    for number, block in enumerate(kept):
        blocks.append([block.name, block.checksum])
        rows, weight = rows + block.rows, weight + block.bytes
        if weight >= size or number + 1 == len(kept):
            listed.append(json.dumps({"before": before, "blocks": blocks}))
            before, rows, weight, blocks = before + rows, 0, 0, []
    return listed


def read(part: str, directory: str, schema: bytes) -> tuple[Any, int]:
    """The rows of a part as one table, and how many are in front of them."""
    import pyarrow as pa

    wanted = pa.ipc.read_schema(pa.py_buffer(schema))
    given = json.loads(part)
    tables = []
    for name, checksum in given["blocks"]:
        path = os.path.join(directory, name)
        try:
            if _checksum(path) != checksum:
                raise MachineError(f"{path}: the rows that were kept here are others now; build again")
            with pa.memory_map(path) as file:
                table = pa.ipc.open_file(file).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise MachineError(f"cannot read rows that were kept: {error}") from error
        tables.append(_as(table, wanted))
    return pa.concat_tables(tables), given["before"]


def common(schemas: list[Any]) -> Any:
    """The schema that holds what blocks with these have."""
    import pyarrow as pa

    first = schemas[0]
    for other in schemas:
        if other.names != first.names:
            missing, more = (sorted(set(one.names) - set(two.names)) for one, two in ((first, other), (other, first)))
            how = f"it has no column {missing[0]!r}" if missing else f"it has a column {more[0]!r} too" if more else "they are in another order"
            raise InputError(f"{_TABLE}: the columns of one block are not those of the first: {how}; all blocks must have the same")
    return pa.schema([(name, _type(name, [schema.field(place).type for schema in schemas])) for place, name in enumerate(first.names)])


def _type(name: str, types: list[Any]) -> Any:
    import pyarrow as pa

    if all(one == types[0] for one in types):
        return types[0]
    # A dictionary is a way to hold values.
    plain = [one.value_type if pa.types.is_dictionary(one) else one for one in types]
    try:
        return pa.unify_schemas([pa.schema([(name, one)]) for one in plain], promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        if all(pa.types.is_nested(one) or isinstance(one, pa.BaseExtensionType) for one in plain):
            # No feature in any case.
            return types[0]
        shown = " and ".join(sorted({str(one) for one in plain}))
        raise InputError(f"{_TABLE}, column {name!r}: it is {shown} in different blocks; cast it to one type") from error


def _as(table: Any, schema: Any) -> Any:
    """The table with the types of a schema."""
    import pyarrow as pa

    for place, field in enumerate(schema):
        column = table.column(place)
        if column.type == field.type:
            continue
        if pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType):
            # What cannot be a feature in one block is none in the others, and only then are these different.
            column = pa.nulls(table.num_rows, field.type)
        else:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InputError(f"{_TABLE}, column {field.name!r}: some of its {column.type} are no {field.type}, which other blocks have: {error}") from error
        table = table.set_column(place, field, column)
    return table


def _checksum(path: str) -> int:
    with open(path, "rb") as file:
        checksum = 0
        while chunk := file.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
        return checksum
