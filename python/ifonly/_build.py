"""Builds bundles, which servers load, from tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _frames, _ifonly, _tables
from ._progress import Bar
from .errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Scalar = str | int | float | bool
StrPath = str | os.PathLike[str]


class BuildReport:
    """The report of a build."""

    def __init__(self, path: StrPath, document: str, text: str, warnings: list[str]) -> None:
        #: The bundle's directory.
        self.path = Path(path)
        #: Everything, as ``ifonly build --json`` prints it.
        self.document: dict[str, Any] = json.loads(document)
        #: Warnings about columns and rows.
        self.warnings = warnings
        self._text = text

    @property
    def rows_read(self) -> int:
        """Number of rows in the data."""
        return int(self.document["rows_read"])

    @property
    def rows_accepted(self) -> int:
        """Number of rows in the bundle."""
        return int(self.document["rows_accepted"])

    @property
    def accepted(self) -> str:
        """The definition of acceptance that the manifest publishes."""
        return str(self.document["manifest"]["dataset"]["accepted"])

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest, which is public."""
        return dict(self.document["manifest"])

    @property
    def exposure(self) -> dict[str, Any]:
        """How recognisable the accepted rows are, and what grouping costs. Never published."""
        return dict(self.document["exposure"])

    @property
    def groups(self) -> dict[str, Any] | None:
        """How accepted rows were grouped; ``None`` if every record is an original row."""
        groups = self.document["groups"]
        return None if groups is None else dict(groups)

    @property
    def signing_key(self) -> Path:
        """The file with the key that signed the records. Never copy it to a server."""
        return Path(self.document["signing_key"])

    def to_dataframe(self) -> pd.DataFrame:
        """Returns one row per feature.

        The columns are its kind, levels, widest interval, share of rows in the fullest level, and
        values.
        """
        frame = _frames.frame(self.document["features"])
        return frame.set_index("name")

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<ifonly.BuildReport: {self.rows_accepted} of {self.rows_read} rows in {str(self.path)!r}>"

    def _repr_html_(self) -> str:
        warnings = "".join(f"<li>{escape(warning)}</li>" for warning in self.warnings)
        head = ["name", "kind", "levels", "widest", "fullest", "values"]
        cells = [[feature.get(name) for name in head] for feature in self.document["features"]]
        shown = [[f"{cell:.1%}" if name == "fullest" and cell is not None else cell for name, cell in zip(head, row)] for row in cells]
        body = "".join("<tr>" + "".join(f"<td>{escape(str('' if cell is None else cell))}</td>" for cell in row) + "</tr>" for row in shown)
        return (
            f"<div><b>{escape(str(self.path))}</b>: {self.rows_accepted:,} of {self.rows_read:,} rows accepted ({escape(self.accepted)})"
            f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead><tbody>{body}</tbody></table>"
            f"{f'<ul>{warnings}</ul>' if warnings else ''}</div>"
        )


def build(
    data: Any,
    output: StrPath,
    accepted: Any = None,
    *,
    accept: Scalar | Sequence[Scalar] = (),
    accepted_by: str | None = None,
    schema: StrPath | Mapping[str, Any] | None = None,
    continuous: Iterable[str] = (),
    categorical: Iterable[str] = (),
    immutable: Iterable[str] = (),
    exclude: Iterable[str] = (),
    features: Mapping[str, Mapping[str, Any]] | None = None,
    one_hot: bool | None = None,
    others: str | None = None,
    group: int | None = None,
    keep: Iterable[str] = (),
    sensitive: Iterable[str] = (),
    l: int | None = None,
    model: Any = None,
    cuts: StrPath | None = None,
    levels: int | None = None,
    scale: str | None = None,
    missing: str | None = None,
    delimiter: str | None = None,
    name: str | None = None,
    version: str | None = None,
    signing_key: StrPath | None = None,
    bundle_id: str | None = None,
    replace: bool = False,
    servers: int | None = None,
    operators: Iterable[str] = (),
    threshold: int | None = None,
    silent: int | None = None,
    lying: int | None = None,
    shuffle: bool | None = None,
    verified: bool | None = None,
    weight_limit: int | None = None,
    immutable_limit: int | None = None,
    d_min: int | None = None,
    exponent: int | None = None,
    cost_limit: int | None = None,
    cost_bits: int | None = None,
    top_limit: int | None = None,
    floor: int | None = None,
    schemes: Iterable[str] = (),
    default_scheme: str | None = None,
    key_epochs: Iterable[int] = (),
    progress: bool | None = None,
) -> BuildReport:
    """Builds a bundle from the accepted rows of a table.

    ``data`` is a pandas or polars DataFrame, a pyarrow Table, any object with
    ``__arrow_c_stream__``, or the path of a CSV or Parquet file or of a directory of such files. A
    list of paths forms one table.

    ``accepted`` is a boolean mask with one value per row, or the name of the target column with
    the accepted values in ``accept`` (a boolean column needs none). Without it every row is
    accepted. ``accepted_by`` describes the mask in words; the manifest publishes it.

    The other arguments are those of ``ifonly build`` and the keys of its schema file. ``schema``
    is a schema file or a dictionary with these keys. ``missing`` is ``"drop"``, ``"median"``,
    ``"most-common"`` or ``"refuse"``.

    ``group=10`` replaces people by groups: every record stands for at least ten accepted people
    and is no original row. ``keep`` names columns that stay exact; ``sensitive`` columns have at
    least ``l`` values in every group. ``model`` is a function of a DataFrame that returns one
    truth value per row, or an object with such a method ``predict``; records that it does not
    accept are left out. ``cuts`` is an earlier bundle whose cuts are kept.

    ``bundle_id`` (32 hexadecimal digits) makes two builds of the same data equal byte by byte;
    without it, each build draws its own.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [34, 51, 28, 45], "income": [2100, 900, 3900, 2500]})
    >>> report = build(people, "people.bundle", accepted=people.income > 1000, immutable=["age"])
    >>> report.rows_accepted, report.accepted
    (3, 'a mask given at build')
    >>> report.to_dataframe().loc["income", "kind"]
    'numeric'
    """
    return build_by(_in_process, locals())


#: A report as JSON and as text, and its warnings.
Report = tuple[str, str, list[str]]
#: Decides which representatives of groups are kept, from names of columns and rows of texts.
Model = Callable[[list[str], list[list[str]]], list[bool]]
#: Builds from data, options, schema file settings, a mask and a model, and shows its progress.
Builder = Callable[[Any, str, "str | None", "tuple[bytes, str] | None", "Model | None", Bar], Report]


def _in_process(data: Any, options: str, settings: str | None, mask: tuple[bytes, str] | None, model: Model | None, bar: Bar) -> Report:
    return _ifonly.build(_tables.table(data, "data"), options, settings, mask, model, lambda stage, share: bar.at(share, stage))


def _model(model: Any) -> Model | None:
    if model is None:
        return None
    decide = getattr(model, "predict", model)
    if not callable(decide):
        raise InputError("model: must be a function of a DataFrame, or an object with a method predict")

    def check(names: list[str], rows: list[list[str]]) -> list[bool]:
        frame = _frames.frame([dict(zip(names, row)) for row in rows])
        for name in names:
            try:
                frame[name] = frame[name].astype(float)
            except ValueError:
                continue
        decisions: Any = decide(frame)
        return [bool(decision) for decision in decisions]

    return check


#: Arguments of ``build`` that are not passed on as options: data, display, and schema file keys.
_TRANSLATED = frozenset(
    "data accepted accepted_by continuous categorical immutable exclude features one_hot others keep sensitive l model key_epochs progress".split()
)


def build_by(builder: Builder, wanted: Mapping[str, Any]) -> BuildReport:
    """Builds with the arguments of ``build``, by name, in this process or in others."""
    data, schema, accept = wanted["data"], wanted["schema"], wanted["accept"]
    delimiter, signing_key = wanted["delimiter"], wanted["signing_key"]
    given: dict[str, Any] = {
        "continuous": _tables.names(wanted["continuous"]),
        "categorical": _tables.names(wanted["categorical"]),
        "immutable": _tables.names(wanted["immutable"]),
        "exclude": _tables.names(wanted["exclude"]),
        "features": {str(feature): dict(settings) for feature, settings in (wanted["features"] or {}).items()},
        "one_hot": wanted["one_hot"],
        "others": wanted["others"],
        "keep": _tables.names(wanted["keep"]),
        "sensitive": _tables.names(wanted["sensitive"]),
        "l": wanted["l"],
    }
    given = {key: value for key, value in given.items() if value not in (None, [], {})}
    settings: dict[str, Any] | None = None
    if isinstance(schema, Mapping):
        twice = sorted(set(schema) & set(given))
        if twice:
            raise InputError(f"{', '.join(twice)}: given both in the schema and as an argument; give it once")
        settings = {**schema, **given}
    elif schema is None:
        settings = given
    elif given:
        raise InputError(f"{', '.join(sorted(given))}: write this into the schema file, because one is given")
    target, mask = _acceptance(wanted["accepted"], wanted["accepted_by"], data)
    output = os.fspath(wanted["output"])
    options: dict[str, Any] = {
        **{key: value for key, value in wanted.items() if key not in _TRANSLATED},
        "output": output,
        "target": target,
        "accept": [_tables.text(value) for value in ([accept] if isinstance(accept, (str, int, float)) else accept)],
        "schema": None if schema is None or isinstance(schema, Mapping) else os.fspath(schema),
        "delimiter": None if delimiter is None else _delimiter(delimiter),
        # A table in memory takes the name of its bundle.
        "name": wanted["name"] or (None if _tables.are_paths(data) else Path(output).stem or "table"),
        "signing_key": None if signing_key is None else os.fspath(signing_key),
        "cuts": None if wanted["cuts"] is None else os.fspath(wanted["cuts"]),
        "replace": bool(wanted["replace"]),
        "operators": _tables.names(wanted["operators"]),
        "schemes": _tables.names(wanted["schemes"]),
        "key_epochs": list(wanted["key_epochs"]),
    }
    options = {key: value for key, value in options.items() if value is not None}
    with Bar("building", 1, wanted["progress"]) as bar:
        settled = None if settings is None else json.dumps(settings)
        report = builder(data, json.dumps(options), settled, mask, _model(wanted["model"]), bar)
    return BuildReport(output, *report)


def _acceptance(accepted: Any, accepted_by: str | None, data: Any) -> tuple[str | None, tuple[bytes, str] | None]:
    """Returns the name of the target column, or a mask and its definition."""
    if accepted is None or isinstance(accepted, str):
        if accepted_by is not None:
            raise InputError("accepted_by describes a mask; a target column needs no description")
        return accepted, None
    name = getattr(accepted, "name", None)
    truths = _tables.truths(accepted, data)
    if isinstance(name, str) and name in getattr(data, "columns", ()) and accepted_by is None:
        column = data[name]
        # The mask is a column of the table: it is the target and must not become a feature.
        if getattr(column, "tolist", getattr(column, "to_list", list))() == list(map(bool, truths)):
            return name, None
    return None, (truths, accepted_by or "a mask given at build")


def _delimiter(delimiter: str) -> int:
    if len(delimiter) != 1 or not delimiter.isascii():
        raise InputError(f"delimiter = {delimiter!r}: must be one ASCII character")
    return ord(delimiter)


def inspect(bundle: StrPath, *, check: bool = False) -> dict[str, Any]:
    """Returns a bundle's manifest, its digest and the costs of its schemes.

    The result is what ``ifonly inspect --json`` prints. ``check`` also checks rows and records.
    """
    document, _ = _ifonly.inspect(os.fspath(bundle), check)
    return dict(json.loads(document))
