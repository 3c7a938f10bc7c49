"""The rows of a ``ray.data.Dataset``, stored in files from which both passes of a build read.

Executing a dataset twice may give other rows or another order. So it is executed once: the worker
that has a block writes it to an Arrow file in a directory that all workers share. If blocks have
different types for a column, all are read as their common type, as in one table in memory.
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

#: Name of the data in messages, as for a table in memory.
_TABLE = "the table"


@dataclass(frozen=True)
class StoredBlock:
    """A block in its file."""

    name: str
    rows: int
    #: Size in memory.
    bytes: int
    #: Checksum of the file, so that a reader detects changed rows.
    checksum: int


def store(block: Any, directory: str) -> dict[str, list[Any]]:
    """Writes a block to a new file, in a worker, and returns its description."""
    import pyarrow as pa

    # A block may be stored twice if a worker dies before it reports. A new name each time ensures
    # that a reported file is never overwritten.
    name = uuid.uuid4().hex
    block = block.replace_schema_metadata(None)
    path = os.path.join(directory, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with pa.ipc.new_file(file, block.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(block)
        file.flush()
        os.fsync(file.fileno())
    stored = {"name": name, "rows": block.num_rows, "bytes": block.nbytes, "checksum": _checksum(path)}
    return {"stored": [json.dumps(stored)], "schema": [block.schema.serialize().to_pybytes()]}


def gather(dataset: Any, directory: str, num_cpus: float, on_schema: Callable[[Any], object]) -> tuple[list[StoredBlock], Any]:
    """Stores all non-empty blocks of a dataset in order. Returns them and their common schema.

    ``on_schema`` is called with the schema of the first block.
    """
    import pyarrow as pa

    blocks: list[StoredBlock] = []
    schemas: dict[bytes, Any] = {}
    # Without a batch size a batch is a block.
    stored = dataset.map_batches(store, fn_kwargs={"directory": directory}, batch_size=None, batch_format="pyarrow", num_cpus=num_cpus)
    for row in stored.iter_rows():
        block = StoredBlock(**json.loads(row["stored"]))
        if not block.rows:
            # The types of an empty block mean nothing, and some filters leave no columns.
            continue
        if row["schema"] not in schemas:
            schemas[row["schema"]] = pa.ipc.read_schema(pa.py_buffer(row["schema"]))
            if len(schemas) == 1:
                on_schema(schemas[row["schema"]])
        blocks.append(block)
    if not blocks:
        raise InputError(f"{_TABLE}: this dataset has no rows")
    return blocks, common(list(schemas.values()))


def parts(blocks: Sequence[StoredBlock], size: int) -> list[str]:
    """Groups blocks, in order, into parts of about ``size`` bytes. It does not split blocks."""
    listed: list[str] = []
    before, rows, weight, group = 0, 0, 0, []
    for number, block in enumerate(blocks):
        group.append([block.name, block.checksum])
        rows, weight = rows + block.rows, weight + block.bytes
        if weight >= size or number + 1 == len(blocks):
            listed.append(json.dumps({"before": before, "blocks": group}))
            before, rows, weight, group = before + rows, 0, 0, []
    return listed


def read(part: str, directory: str, schema: bytes) -> tuple[Any, int]:
    """Returns the rows of a part as one table, and the number of rows before them."""
    import pyarrow as pa

    wanted = pa.ipc.read_schema(pa.py_buffer(schema))
    given = json.loads(part)
    tables = []
    for name, checksum in given["blocks"]:
        path = os.path.join(directory, name)
        try:
            if _checksum(path) != checksum:
                raise MachineError(f"{path}: the stored rows have changed; build again")
            with pa.memory_map(path) as file:
                table = pa.ipc.open_file(file).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise MachineError(f"cannot read stored rows: {error}") from error
        tables.append(_as(table, wanted))
    return pa.concat_tables(tables), given["before"]


def common(schemas: list[Any]) -> Any:
    """Returns the common schema of blocks with these schemas."""
    import pyarrow as pa

    first = schemas[0]
    for other in schemas:
        if other.names != first.names:
            missing, more = (sorted(set(one.names) - set(two.names)) for one, two in ((first, other), (other, first)))
            how = f"it has no column {missing[0]!r}" if missing else f"it also has a column {more[0]!r}" if more else "their order differs"
            raise InputError(f"{_TABLE}: the columns of a block differ from those of the first: {how}; all blocks must have the same columns")
    return pa.schema([(name, _type(name, [schema.field(place).type for schema in schemas])) for place, name in enumerate(first.names)])


def _type(name: str, types: list[Any]) -> Any:
    import pyarrow as pa

    if all(one == types[0] for one in types):
        return types[0]
    # A dictionary is only an encoding of values.
    plain = [one.value_type if pa.types.is_dictionary(one) else one for one in types]
    try:
        return pa.unify_schemas([pa.schema([(name, one)]) for one in plain], promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        if all(pa.types.is_nested(one) or isinstance(one, pa.BaseExtensionType) for one in plain):
            # Such a column is never a feature.
            return types[0]
        shown = " and ".join(sorted({str(one) for one in plain}))
        raise InputError(f"{_TABLE}, column {name!r}: its type is {shown} in different blocks; cast it to one type") from error


def _as(table: Any, schema: Any) -> Any:
    """Casts the table to the types of a schema."""
    import pyarrow as pa

    for place, field in enumerate(schema):
        column = table.column(place)
        if column.type == field.type:
            continue
        if pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType):
            # Nested types differ only if the column is not a feature in any block.
            column = pa.nulls(table.num_rows, field.type)
        else:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InputError(f"{_TABLE}, column {field.name!r}: some values of type {column.type} cannot be cast to {field.type}, the type in other blocks: {error}") from error
        table = table.set_column(place, field, column)
    return table


def _checksum(path: str) -> int:
    with open(path, "rb") as file:
        checksum = 0
        while chunk := file.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
        return checksum
