"""Three tables in which every level is one value, so that brute force finds the exact answer."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pandas as pd
import polars as pl


def loans(rng: random.Random) -> tuple[Any, pd.DataFrame, dict[str, Any]]:
    """A pandas table of numbers, words and booleans. A mask selects the accepted rows."""
    rows = [
        {
            "age": rng.randint(18, 79),
            "income": 100 * rng.randint(10, 80),
            "hours": rng.randint(0, 80) / 2,
            "job": rng.choice(["nurse", "baker", "pilot", "A, clerk", "cook"]),
            "owner": rng.random() < 0.4,
        }
        for _ in range(1500)
    ]
    table = pd.DataFrame(rows, index=[f"p{number}" for number in range(1500)])
    accepted = table.income + 40 * table.hours + 500 * table.owner > 4500
    return table, table, {"accepted": accepted, "accepted_by": "a rule"}


def members(rng: random.Random) -> tuple[Any, pd.DataFrame, dict[str, Any]]:
    """A pandas table of times, nullable numbers, categories and ordered words.

    Medians replace missing values. A column selects the accepted rows.
    """
    start = datetime.datetime(2019, 1, 1)

    def gap(value: Any) -> Any:
        return None if rng.random() < 0.06 else value

    rows = [
        {
            "since": gap(start + datetime.timedelta(days=rng.randint(0, 800))),
            "rating": gap(rng.randint(1, 5)),
            "grade": gap(rng.choice(["low", "medium", "high"])),
            "kind": gap(rng.choice(["x", "y", "z"])),
            "amount": gap(rng.randint(0, 900) / 4),
            "verdict": rng.choice(["Y", "N", "N"]),
        }
        for _ in range(1200)
    ]
    table = pd.DataFrame(rows).astype({"rating": "Int64", "kind": "category", "amount": "float64"})
    return table, table, {"accepted": "verdict", "accept": "Y", "missing": "median"}


def trips(rng: random.Random) -> tuple[Any, pd.DataFrame, dict[str, Any]]:
    """A polars table of dates, ordered words and cities. Rows with missing values are dropped."""
    start = datetime.date(2024, 2, 1)
    rows = [
        {
            "day": start + datetime.timedelta(days=rng.randint(0, 365)),
            "km": None if rng.random() < 0.03 else rng.randint(1, 400),
            "seat": rng.choice(["poor", "fair", "good", "excellent"]),
            "city": rng.choice(["A, north", "A, south", "B", "C"]),
            "paid": rng.random() < 0.5,
            "kept": rng.random() < 0.4,
        }
        for _ in range(1300)
    ]
    table = pl.DataFrame(rows, schema_overrides={"city": pl.Categorical, "km": pl.Int32})
    return table, pd.DataFrame(rows), {"accepted": "kept", "missing": "drop"}
