"""Converts tables and values for Rust, as far as the Arrow interface does not."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from . import _ifonly
from .errors import InputError

_HINT = "give a pandas or polars DataFrame, a pyarrow Table, anything with __arrow_c_stream__, or the paths of files"


def is_pandas(data: object, kind: str) -> bool:
    """Whether ``data`` is a pandas object of this kind. Does not import pandas."""
    return type(data).__name__ == kind and type(data).__module__.partition(".")[0] == "pandas"


def are_paths(data: object) -> bool:
    """Whether ``data`` is one path or a list of paths."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(path, (str, os.PathLike)) for path in data)
    return isinstance(data, (str, os.PathLike))


def is_polars(data: object) -> bool:
    """Whether ``data`` is a polars object."""
    return type(data).__module__.partition(".")[0] == "polars"


def table(data: Any, what: str) -> Any:
    """Returns a path, a list of paths, or an object with the Arrow stream interface."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    if are_paths(data):
        return [os.fspath(path) for path in data]
    if is_pandas(data, "DataFrame"):
        if not hasattr(data, "__arrow_c_stream__"):
            raise InputError(f"{what}: this version of pandas cannot export tables; use pandas 2.2 or newer")
        # An index is not a column.
        data = data.reset_index(drop=True)
    elif is_polars(data) and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if not hasattr(data, "__arrow_c_stream__"):
        if type(data).__module__.startswith("ray.data"):
            raise InputError(f"{what}: use ifonly.ray.build for a Ray dataset")
        raise InputError(f"{what}: a {type(data).__name__} is not a table; {_HINT}")
    return data


def truths(mask: Any, data: Any) -> bytes:
    """Returns a boolean mask as one byte per row."""
    if is_pandas(mask, "Series") and is_pandas(data, "DataFrame") and not mask.index.equals(data.index):
        raise InputError("accepted: the mask and the data have different indices; pass the mask as .to_numpy()")
    listed: Any = mask
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(mask, method):
            listed = getattr(mask, method)()
            break
    if isinstance(listed, (str, bytes)) or not isinstance(listed, Iterable):
        raise InputError("accepted: give the name of a column, or a mask with True or False for each row")
    values = list(listed)
    for row, value in enumerate(values):
        if value is not True and value is not False:
            shown = "missing" if value is None or is_missing(value) else repr(value)
            raise InputError(
                f"accepted: row {row + 1} of the mask is {shown}, not True or False; use a comparison, "
                "such as accepted=(model.predict(X) == 1)"
            )
    return bytes(values)


def is_missing(value: Any) -> bool:
    """Whether the value is missing: None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def text(value: Any) -> str:
    """Returns a value as the text that a table would have; empty if it is missing."""
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
        # Write 5 rather than 5.0, and no exponent.
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else plain(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return str(value.isoformat(sep=" "))[:26]
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise InputError(f"a {type(value).__name__} is not a number, a text or a date")


def value(value: Any) -> str | float:
    """Returns a value for Rust. A fraction stays a number, as separators could change its text."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and type(value).__name__ != "datetime64":
        value = value.item()
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value % 1 != 0:
        return float(value)
    return text(value)


def people(data: Any, name: str) -> tuple[list[str], list[list[str | float]]]:
    """Returns columns and values of a table of people. As in `value`, a fraction stays a number."""
    columns, fractions, rows = _ifonly.rows(data, name)
    return columns, [[float(text) if fraction and "." in text else text for text, fraction in zip(row, fractions)] for row in rows]


def plain(value: float) -> str:
    """Returns the shortest decimal that reads back as this number."""
    shown = repr(value)
    return format(Decimal(shown), "f") if "e" in shown else shown


def names(value: str | Iterable[str] | None) -> list[str]:
    """Returns one name or several as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(name) for name in value]


def person(values: Mapping[Any, Any]) -> tuple[dict[str, str | float], str | None]:
    """Returns a person's values as texts and fractions, and an error message or None."""
    converted: dict[str, str | float] = {}
    wrong = None
    for name, one in values.items():
        try:
            converted[str(name)] = value(one)
        except InputError as error:
            wrong = wrong or f"{name}: {error}"
    return converted, wrong
