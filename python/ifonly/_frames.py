"""Data frames for results: pandas, unless the caller uses polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def pandas() -> Any:
    """Returns the module pandas. Raises an error with the install command if it is missing."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("this result is a pandas DataFrame; install pandas with: pip install 'ifonly[pandas]'") from error
    return pandas


def frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pd.DataFrame:
    """Returns rows as a DataFrame."""
    made: pd.DataFrame = pandas().DataFrame(rows, columns=columns)
    return made
