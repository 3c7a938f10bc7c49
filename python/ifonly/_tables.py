"""What people hold their tables in, on its way to Rust: only what the Arrow interface leaves open."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from .errors import InputError

_HINT = "give a pandas or polars DataFrame, a pyarrow Table, anything with __arrow_c_stream__, or the paths of files"


def is_pandas(data: object, kind: str) -> bool:
    """Whether this is a pandas object of that kind; pandas is not imported for it."""
    return type(data).__name__ == kind and type(data).__module__.partition(".")[0] == "pandas"


def are_paths(data: object) -> bool:
    """Whether these are paths, one or several."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(path, (str, os.PathLike)) for path in data)
    return isinstance(data, (str, os.PathLike))


def is_polars(data: object) -> bool:
    """Whether this is polars'."""
    return type(data).__module__.partition(".")[0] == "polars"


def table(data: Any, what: str) -> Any:
    """A path, a list of them, or something that gives itself away by the Arrow stream interface."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    if are_paths(data):
        return [os.fspath(path) for path in data]
    if is_pandas(data, "DataFrame"):
        if not hasattr(data, "__arrow_c_stream__"):
            raise InputError(f"{what}: this pandas is too old to give its tables away; use pandas 2.2 or newer")
        # An index names rows; it is no column.
        data = data.reset_index(drop=True)
    elif is_polars(data) and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if not hasattr(data, "__arrow_c_stream__"):
        if type(data).__module__.startswith("ray.data"):
            raise InputError(f"{what}: a dataset of Ray is for ifonly.ray.build")
        raise InputError(f"{what}: a {type(data).__name__} is no table; {_HINT}")
    return data


def truths(mask: Any, data: Any) -> bytes:
    """A boolean mask as one byte per row."""
    if is_pandas(mask, "Series") and is_pandas(data, "DataFrame") and not mask.index.equals(data.index):
        raise InputError("accepted: the mask has another index than the data, so its rows may be others; pass .to_numpy()")
    listed: Any = mask
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(mask, method):
            listed = getattr(mask, method)()
            break
    if isinstance(listed, (str, bytes)) or not isinstance(listed, Iterable):
        raise InputError("accepted: give the name of a column, or a mask with True or False for every row")
    values = list(listed)
    for row, value in enumerate(values):
        if value is not True and value is not False:
            shown = "missing" if value is None or is_missing(value) else repr(value)
            raise InputError(
                f"accepted: row {row + 1} of the mask is {shown}, neither True nor False; compare, as in "
                "accepted=(model.predict(X) == 1)"
            )
    return bytes(values)


def is_missing(value: Any) -> bool:
    """What stands for a missing value: None, NaN, NaT, pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def text(value: Any) -> str:
    """A single value as the text that a table would have for it; empty if it is missing."""
    if type(value).__name__ == "datetime64":
        shown = str(value)
        return "" if shown == "NaT" else shown[:26].replace("T", " ")
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if is_missing(value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, Decimal)):
        return str(value)
    if isinstance(value, float):
        # Without an exponent, as people write it; 5 rather than 5.0.
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else plain(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return str(value.isoformat(sep=" "))[:26]
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise InputError(f"a {type(value).__name__} is neither a number nor a text nor a date")


def plain(value: float) -> str:
    """The shortest decimal that is this number."""
    shown = repr(value)
    return format(Decimal(shown), "f") if "e" in shown else shown


def names(value: str | Iterable[str] | None) -> list[str]:
    """One name or several."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(name) for name in value]


def person(values: Mapping[Any, Any]) -> tuple[dict[str, str], str | None]:
    """A person's values as texts, and what is wrong with them if something is."""
    texts: dict[str, str] = {}
    wrong = None
    for name, value in values.items():
        try:
            texts[str(name)] = text(value)
        except InputError as error:
            wrong = wrong or f"{name}: {error}"
    return texts, wrong
