"""Data frames to give away. pandas unless the caller's own are polars'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def pandas() -> Any:
    """pandas, or an error that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("this gives a pandas DataFrame: pip install 'ifonly[pandas]'") from error
    return pandas


def frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pd.DataFrame:
    """Rows as a DataFrame."""
    made: pd.DataFrame = pandas().DataFrame(rows, columns=columns)
    return made
