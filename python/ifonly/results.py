"""Results: for every person the nearest accepted records, their differences and costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from . import _frames, _tables

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Text for an unchanged value.
SAME = "-"


@dataclass(frozen=True)
class Change:
    """A difference between the user and a record."""

    feature: str
    yours: Any
    theirs: Any
    #: Whether both values have the same level, so that the difference costs nothing.
    same_level: bool
    #: Whether the difference counts as unchanged.
    within_tolerance: bool
    #: Contribution to the cost; ``None`` if costs count levels.
    contribution: float | None


@dataclass(frozen=True)
class Counterfactual:
    """One of the nearest accepted records."""

    cost: float
    record: dict[str, Any]
    #: Only the columns that differ, the most expensive first.
    changes: list[Change]
    #: Positions of the values on their features' scales, for plots.
    scales: list[dict[str, Any]]
    #: Features that this way holds at the user's values, in addition to the wishes.
    held: list[str] = field(default_factory=list)
    #: The answer in one sentence, with the institution's labels and phrases.
    sentence: str = ""
    #: The group of people that the record stands for: ``at_least``, ``at_most`` and
    #: ``accepted_percent``; ``None`` if it is one person's original row.
    group: dict[str, Any] | None = None


class Answer:
    """One person's result; falsy if no row matches."""

    def __init__(self, label: Any, values: dict[str, str], document: str, scales: str) -> None:
        #: Label of the person: the index in the table, or the position in the list.
        self.label = label
        self._values, self._json = values, document
        self._document: dict[str, Any] = json.loads(document)
        one = [self._document] if self._document["found"] else []
        found = self._document.get("ways", self._document.get("nearest", one))
        self.counterfactuals = [
            Counterfactual(
                one["cost"],
                one["record"],
                [Change(**change) for change in one["changes"]],
                lines,
                held=one.get("held", []),
                sentence=one.get("sentence", ""),
                group=one.get("group"),
            )
            for one, lines in zip(found, json.loads(scales))
        ]

    @property
    def found(self) -> bool:
        """Whether a row matches."""
        return bool(self.counterfactuals)

    @property
    def cost(self) -> float | None:
        """The cost of the nearest record."""
        return self.counterfactuals[0].cost if self.counterfactuals else None

    @property
    def sentence(self) -> str | None:
        """The nearest record in one sentence."""
        return self.counterfactuals[0].sentence if self.counterfactuals else None

    @property
    def record(self) -> dict[str, Any] | None:
        """The nearest record, by column."""
        return self.counterfactuals[0].record if self.counterfactuals else None

    @property
    def changes(self) -> list[Change]:
        """Differences from the nearest record, the most expensive first."""
        return self.counterfactuals[0].changes if self.counterfactuals else []

    @property
    def notes(self) -> list[str]:
        """Notes for the user.

        They say how wishes were interpreted, which values were ignored and which servers failed.
        """
        failures = [f"{failure['server']} {failure['message']}" for failure in self._document["server_failures"]]
        return [note["message"] for note in self._document["notes"]] + failures

    @property
    def wishes(self) -> list[str]:
        """The constraints that a row had to satisfy, in words."""
        return [wish["message"] for wish in self._document["wishes"]]

    @property
    def document(self) -> dict[str, Any]:
        """The whole result, as ``ifonly ask --json`` prints it."""
        return dict(self._document)

    def to_json(self) -> str:
        """Returns the text that ``ifonly ask --json`` prints."""
        return self._json

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        if not self.found:
            return f"<ifonly.Answer for {self.label!r}: no row matches>"
        changes = ", ".join(f"{change.feature} {change.yours} → {change.theirs}" for change in self.changes)
        return f"<ifonly.Answer for {self.label!r}: {changes or 'a row with the same values'}>"

    def _repr_html_(self) -> str:
        from ._html import answers

        return answers([self])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the changes as arrows on each feature's scale.

        Needs matplotlib (``pip install 'ifonly[plot]'``).
        """
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
        """Returns the text that ``ifonly ask --json`` prints, or a list for several people."""
        texts = [answer.to_json() for answer in self._answers]
        return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"

    def to_dataframe(self) -> Any:
        """Returns a DataFrame with one row per record and its cost.

        The index has the person and the rank. The result is a polars DataFrame if the query was.
        Columns have the types of the query's columns if all values fit.
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
        """Returns a DataFrame with every person (rank 0) above the records found for them.

        With ``show_only_changes``, unchanged values are shown as ``-``.
        """
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
        """Draws one person's changes as arrows on each feature's scale.

        Needs matplotlib (``pip install 'ifonly[plot]'``).
        """
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
    """Casts a column to the type of the query's column, if all values fit."""
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
