"""What comes back: for every person the nearest accepted records, where they differ, and what that costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from . import _frames, _tables

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: What stands for an unchanged value.
SAME = "-"


@dataclass(frozen=True)
class Change:
    """Where two people differ."""

    feature: str
    yours: Any
    theirs: Any
    #: Whether the two are one level, so that the difference costs nothing.
    same_level: bool
    #: What it adds to the cost; ``None`` where costs are counted in levels.
    contribution: float | None


@dataclass(frozen=True)
class Counterfactual:
    """One of the nearest accepted people."""

    cost: float
    record: dict[str, Any]
    #: Only the columns that differ, the dearest first.
    changes: list[Change]
    #: Where the values of the changes stand on their features' scales, for pictures.
    scales: list[dict[str, Any]]


class Answer:
    """The answer to one person's question; false if nobody qualifies."""

    def __init__(self, label: Any, values: dict[str, str], document: str, scales: str) -> None:
        #: What the person is called: their index in the table, or their place in the list.
        self.label = label
        self._values, self._json = values, document
        self._document: dict[str, Any] = json.loads(document)
        found = self._document.get("nearest", [self._document] if self._document["found"] else [])
        self.counterfactuals = [
            Counterfactual(one["cost"], one["record"], [Change(**change) for change in one["changes"]], lines)
            for one, lines in zip(found, json.loads(scales))
        ]

    @property
    def found(self) -> bool:
        """Whether anybody qualifies."""
        return bool(self.counterfactuals)

    @property
    def cost(self) -> float | None:
        """The nearest one's."""
        return self.counterfactuals[0].cost if self.counterfactuals else None

    @property
    def record(self) -> dict[str, Any] | None:
        """The nearest one's, column by column."""
        return self.counterfactuals[0].record if self.counterfactuals else None

    @property
    def changes(self) -> list[Change]:
        """Where the nearest one differs, the dearest first."""
        return self.counterfactuals[0].changes if self.counterfactuals else []

    @property
    def notes(self) -> list[str]:
        """What the person should know beside: how wishes were understood, values that were ignored, servers that failed."""
        return list(self._document["notes"]) + list(self._document["troubles"])

    @property
    def wishes(self) -> list[str]:
        """The wishes that decided who qualifies, in words."""
        return list(self._document["wishes"])

    @property
    def document(self) -> dict[str, Any]:
        """Everything, as ``ifonly ask --json`` prints it."""
        return dict(self._document)

    def to_json(self) -> str:
        """The text that ``ifonly ask --json`` prints."""
        return self._json

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        if not self.found:
            return f"<ifonly.Answer for {self.label!r}: nobody qualifies>"
        changes = ", ".join(f"{change.feature} {change.yours} → {change.theirs}" for change in self.changes)
        return f"<ifonly.Answer for {self.label!r}: {changes or 'somebody with the same values'}>"

    def _repr_html_(self) -> str:
        from ._html import answers

        return answers([self])

    def plot(self, ax: Axes | None = None) -> Axes:
        """The changes as arrows on each feature's scale; needs matplotlib (``pip install 'ifonly[plot]'``)."""
        from ._plot import arrows

        return arrows(self, ax)


class Counterfactuals(Sequence[Answer]):
    """The answers of one call, in the order of the people."""

    def __init__(self, answers: list[Answer], query: Any = None) -> None:
        self._answers, self._query = answers, query

    @overload
    def __getitem__(self, place: int) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> Counterfactuals: ...
    def __getitem__(self, place: int | slice) -> Answer | Counterfactuals:
        if isinstance(place, slice):
            return Counterfactuals(self._answers[place], self._query)
        return self._answers[place]

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def to_json(self) -> str:
        """The text that ``ifonly ask --json`` prints; a list of them for more people than one."""
        texts = [answer.to_json() for answer in self._answers]
        return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"

    def to_dataframe(self) -> Any:
        """A pandas DataFrame: a row per record found, with its cost; the index says whose it is and how near. Polars in, polars out.

        Columns have the types of the query's where the values fit.
        """
        rows, people, ranks = [], [], []
        for answer in self._answers:
            for rank, one in enumerate(answer.counterfactuals, 1):
                rows.append({**one.record, self._cost(one.record): one.cost})
                people.append(answer.label)
                ranks.append(rank)
        if _tables.is_polars(self._query):
            return self._polars([{"person": person, "rank": rank, **row} for person, rank, row in zip(people, ranks, rows)])
        frame = _frames.frame(rows)
        for name in frame.columns:
            if _tables.is_pandas(self._query, "DataFrame") and name in self._query.columns:
                frame[name] = _as(frame[name], self._query[name].dtype)
        return self._indexed(frame, people, ranks)

    def visualize_as_dataframe(self, show_only_changes: bool = False) -> Any:
        """Every person (rank 0) above the records found for them; with ``show_only_changes``, ``-`` stands for what stays."""
        rows: list[dict[str, Any]] = []
        people, ranks = [], []
        for answer in self._answers:
            columns = list(answer.record or answer._values)
            rows.append({**{name: answer._values.get(name, "") for name in columns}, self._cost(columns): ""})
            people.append(answer.label)
            ranks.append(0)
            for rank, one in enumerate(answer.counterfactuals, 1):
                changed = {change.feature for change in one.changes}
                keep = changed if show_only_changes else set(one.record)
                shown = {name: value if name in keep else SAME for name, value in one.record.items()}
                rows.append({**shown, self._cost(columns): round(one.cost, 6)})
                people.append(answer.label)
                ranks.append(rank)
        if _tables.is_polars(self._query):
            texts = [{name: str(value) for name, value in row.items()} for row in rows]
            return self._polars([{"person": person, "rank": rank, **row} for person, rank, row in zip(people, ranks, texts)])
        return self._indexed(_frames.frame(rows), people, ranks)

    def plot(self, person: int = 0, ax: Axes | None = None) -> Axes:
        """One person's changes as arrows on each feature's scale; needs matplotlib (``pip install 'ifonly[plot]'``)."""
        return self._answers[person].plot(ax)

    def __repr__(self) -> str:
        found = sum(answer.found for answer in self._answers)
        return f"<ifonly.Counterfactuals: {len(self)} people, records for {found} of them>"

    def _repr_html_(self) -> str:
        from ._html import answers

        return answers(self._answers)

    @staticmethod
    def _cost(columns: Any) -> str:
        return "cost" if "cost" not in columns else "total cost"

    @staticmethod
    def _indexed(frame: pd.DataFrame, people: list[Any], ranks: list[int]) -> pd.DataFrame:
        frame.index = _frames.pandas().MultiIndex.from_arrays([people, ranks], names=["person", "rank"])
        return frame

    @staticmethod
    def _polars(rows: list[dict[str, Any]]) -> Any:
        import polars

        return polars.DataFrame(rows, infer_schema_length=None)


def _as(column: Any, wanted: Any) -> Any:
    """A column with the type of the query's, where all values fit it."""
    pandas = _frames.pandas()
    types = pandas.api.types
    try:
        if types.is_datetime64_any_dtype(wanted):
            return pandas.to_datetime(column, utc=getattr(wanted, "tz", None) is not None).astype(wanted)
        if types.is_bool_dtype(wanted):
            truths = {"true": True, "false": False}
            return column.map(lambda value: truths[str(value).lower()]).astype(wanted)
        if types.is_float_dtype(wanted) or types.is_integer_dtype(wanted):
            numbers = pandas.to_numeric(column)
            cast = numbers.astype(wanted)
            return cast if (cast == numbers).all() else column
        if isinstance(wanted, pandas.CategoricalDtype) and column.isin(wanted.categories).all():
            return column.astype(wanted)
    except (KeyError, TypeError, ValueError):
        pass
    return column
