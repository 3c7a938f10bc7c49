"""Searches: the connection to the servers, profiles and wishes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from . import _ifonly, _tables
from ._progress import Bar
from .errors import IfonlyError, InputError
from .results import Answer, Counterfactuals

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._build import StrPath

Metric = Literal["l2", "l1", "mad", "count"]
WaysBy = Literal["feature", "set"]
WAYS: tuple[str, ...] = get_args(WaysBy)
METRICS: tuple[str, ...] = get_args(Metric)

#: Default number of concurrent searches.
CONCURRENCY = 4


class Wishes(TypedDict, total=False):
    """The wishes of :meth:`Explainer.generate_counterfactuals`."""

    features_to_vary: Literal["all"] | Iterable[str]
    permitted_range: Mapping[str, Sequence[Any]] | None
    permitted_values: Mapping[str, Iterable[Any]] | None
    feature_weights: Mapping[str, float] | Literal["inverse_mad"] | None
    immutable: Iterable[str]
    suggested_immutable: bool
    only_up: Iterable[str]
    only_down: Iterable[str]
    metric: Metric
    cost: Mapping[str, Metric | Mapping[Literal["up", "down"], float]] | None
    cost_table: Mapping[str, Mapping[Any, float]] | None
    max_changes: int | None
    tolerance: Mapping[str, float | str] | float | str | None
    diverse: bool
    ways_by: WaysBy
    scheme: str | None


class Explainer:
    """A connection to all servers of one deployment, with matching manifests.

    ``servers`` are the addresses of all servers. Pins are values that the manifest must have:

    - ``threshold``: least number of servers that may collude and learn nothing;
    - ``manifest``: the digest that ``ifonly inspect`` prints;
    - ``signer``: the public key that signs the records;
    - ``operators``: who runs the servers.

    Two servers with the same host or certificate key are refused, because one operator would
    receive two shares of a query; ``allow_same_host=True`` allows it for trials.

    If a pin does not match, no query is sent. ``token`` is one token for all servers, or a
    dictionary from address to token. ``ca`` is a PEM file with the only trusted authorities.
    ``timeout`` is the number of seconds that one request may take, retries included.
    """

    def __init__(
        self,
        servers: Iterable[str],
        *,
        threshold: int | None = None,
        manifest: str | None = None,
        signer: str | None = None,
        operators: Iterable[str] | None = None,
        allow_same_host: bool = False,
        token: str | Mapping[str, str] | None = None,
        ca: StrPath | None = None,
        timeout: float = 120.0,
        plain_http: bool = False,
    ) -> None:
        pins = {
            "threshold": threshold,
            "manifest": manifest,
            "signer": signer,
            "operators": None if operators is None else _tables.names(operators),
            "allow_same_host": allow_same_host,
        }
        reach = {
            "ca": None if ca is None else os.fspath(ca),
            "token": token if isinstance(token, str) else None,
            "tokens": dict(token) if isinstance(token, Mapping) else {},
            "timeout": float(timeout),
            "plain_http": bool(plain_http),
        }
        self._servers = _tables.names(servers)
        self._client = _ifonly.Client(self._servers, json.dumps(pins), json.dumps(reach))
        self._manifest: dict[str, Any] = json.loads(self._client.manifest)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the servers."""
        return dict(self._manifest)

    @property
    def digest(self) -> str:
        """The manifest's digest, which a later connection can pin."""
        return self._client.digest

    def profile(self) -> str:
        """Returns an empty profile, as ``ifonly profile`` writes it.

        It lists every column with its kind, unit, range or values.
        """
        return self._client.template()

    def __repr__(self) -> str:
        dataset = self._manifest["dataset"]
        return f"<ifonly.Explainer: {dataset['name']}, {self._manifest['rows']} rows, {len(self._servers)} servers>"

    def generate_counterfactuals(
        self,
        query_instances: Any,
        total_CFs: int = 1,
        *,
        features_to_vary: Literal["all"] | Iterable[str] = "all",
        permitted_range: Mapping[str, Sequence[Any]] | None = None,
        permitted_values: Mapping[str, Iterable[Any]] | None = None,
        feature_weights: Mapping[str, float] | Literal["inverse_mad"] | None = None,
        immutable: Iterable[str] = (),
        suggested_immutable: bool = False,
        only_up: Iterable[str] = (),
        only_down: Iterable[str] = (),
        metric: Metric = "l2",
        cost: Mapping[str, Metric | Mapping[Literal["up", "down"], float]] | None = None,
        cost_table: Mapping[str, Mapping[Any, float]] | None = None,
        max_changes: int | None = None,
        tolerance: Mapping[str, float | str] | float | str | None = None,
        diverse: bool = False,
        ways_by: WaysBy = "feature",
        scheme: str | None = None,
        concurrency: int = CONCURRENCY,
        progress: bool | None = None,
    ) -> Counterfactuals:
        """Finds the nearest accepted records for one or more people; one search per person.

        ``query_instances`` is a person (a dictionary or a pandas Series), a list of them, or a
        table of them, as :func:`ifonly.build` takes it. These arguments are DiCE's:

        - ``total_CFs``: number of nearest records to fetch; visible to the servers.
        - ``features_to_vary``: only these features may change.
        - ``diverse``: ``total_CFs`` different ways, one search each, instead of the nearest
          records, which are often nearly equal.
        - ``permitted_range``: ``[low, high]`` of a number, ``None`` for an open bound; or the
          permitted values of a word.
        - ``feature_weights``: weight of a change, 0.01 to 1000; ``"inverse_mad"`` means
          ``metric="mad"``.

        These arguments are specific to ifonly; docs/asking.md describes them:

        - ``permitted_values``: permitted values, also of numbers.
        - ``immutable``: features that must not change.
        - ``suggested_immutable``: also the features that the institution marks as hard to change.
        - ``only_up``, ``only_down``: features that must not fall, or must not rise.
        - ``metric``: ``"l2"``, ``"l1"``, ``"mad"`` or ``"count"``.
        - ``cost``: by feature, a metric or weights such as ``{"up": 3, "down": 0.5}``.
        - ``cost_table``: by feature, the cost of each target value.
        - ``max_changes``: maximum number of features that change; fewer changes are preferred.
        - ``tolerance``: differences that count as unchanged, such as ``{"income": "2%"}`` of the
          value range, or ``"1%"`` for all features; ``0`` counts every difference.
        - ``ways_by``: what a further way holds at the user's values: ``"feature"``, the feature
          with the largest cost in the way before, or ``"set"``, all that it changed.
        - ``scheme``: the scheme to use; visible to the servers.

        At most ``concurrency`` searches run at a time. An error in a profile or a wish is raised
        after all searches, so that the servers do not see it. The exception's ``results`` has the
        answers of the other people.

        >>> import ifonly, pandas as pd
        >>> jobs = ["nurse", "baker", "pilot", "baker"]
        >>> table = pd.DataFrame({"age": [34, 51, 28, 45], "job": jobs})
        >>> with ifonly.serve(ifonly.build(table, "jobs.bundle")) as deployment:
        ...     explainer = deployment.explainer()
        ...     me = {"age": 30, "job": "baker"}
        ...     found = explainer.generate_counterfactuals(me, only_up=["age"], immutable=["job"])
        >>> found[0].record
        {'age': 45, 'job': 'baker'}
        >>> [(change.feature, change.yours, change.theirs) for change in found[0].changes]
        [('age', 30, 45)]
        """
        wishes = Wishes(
            features_to_vary=features_to_vary,
            permitted_range=permitted_range,
            permitted_values=permitted_values,
            feature_weights=feature_weights,
            immutable=immutable,
            suggested_immutable=suggested_immutable,
            only_up=only_up,
            only_down=only_down,
            metric=metric,
            cost=cost,
            cost_table=cost_table,
            max_changes=max_changes,
            tolerance=tolerance,
            diverse=diverse,
            ways_by=ways_by,
            scheme=scheme,
        )
        call = _Call(query_instances, total_CFs, wishes)
        batch = self._client.start(call.people, call.document, concurrency, None)
        try:
            with Bar("searching", len(call.people), progress) as bar:
                while not call.is_over:
                    # Python handles signals between two waits.
                    finished = batch.wait(0.1)
                    if finished is not None:
                        call.take(finished)
                        bar.at(call.done)
        finally:
            batch.stop()
        return call.result()

    async def generate_counterfactuals_async(
        self,
        query_instances: Any,
        total_CFs: int = 1,
        *,
        concurrency: int = CONCURRENCY,
        **wishes: Unpack[Wishes],
    ) -> Counterfactuals:
        """Does the same without blocking the event loop. Cancelling it drops searches in flight."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        call = _Call(query_instances, total_CFs, wishes)
        batch = self._client.start(call.people, call.document, concurrency, lambda: loop.call_soon_threadsafe(news.set))
        try:
            while not call.is_over:
                finished = batch.wait(0)
                if finished is not None:
                    call.take(finished)
                    continue
                # A worker may end without a notification. The next wait(0) then raises the error.
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(news.wait(), 1.0)
                news.clear()
        finally:
            batch.stop()
        return call.result()


class _Call:
    """The people, wishes and results of one call."""

    def __init__(self, query: Any, total_CFs: int, wishes: Wishes) -> None:
        self.labels, self.people = _people(query)
        self.query = query
        wrong = None
        listed: dict[str, Any] = {"scheme": wishes.get("scheme")}
        permitted_range: dict[str, list[str | float | None]] = {}
        try:
            listed, permitted_range = _wish_list(**wishes)
        except InputError as error:
            wrong = str(error)
        several = bool(wishes.get("diverse", False))
        listed["ways" if several else "top"] = total_CFs
        self.document = json.dumps({"wishes": listed, "permitted_range": permitted_range, "wrong": wrong})
        self._answers: dict[int, Answer] = {}
        self._errors: dict[int, IfonlyError] = {}

    @property
    def done(self) -> int:
        return len(self._answers) + len(self._errors)

    @property
    def is_over(self) -> bool:
        return self.done == len(self.people)

    def take(self, finished: tuple[int, str | None, str | None, IfonlyError | None]) -> None:
        number, document, scales, error = finished
        if error is not None:
            self._errors[number] = error
        elif document is not None and scales is not None:
            self._answers[number] = Answer(self.labels[number], {name: _tables.text(one) for name, one in self.people[number][0].items()}, document, scales)

    def result(self) -> Counterfactuals:
        results = Counterfactuals([self._answers[number] for number in sorted(self._answers)], self.query)
        if not self._errors:
            return results
        number = min(self._errors)
        error = self._errors[number]
        if len(self.people) > 1:
            code, arguments = error.code, error.arguments
            error = type(error)(f"person {self.labels[number]!r}: {error}")
            error.code, error.arguments = code, arguments
            error.results = results
        error.person = number
        raise error


def _people(query: Any) -> tuple[list[Any], list[tuple[dict[str, str | float], str | None]]]:
    """Returns the labels of the people, and their values as texts and fractions."""
    if isinstance(query, Mapping):
        return [0], [_tables.person(query)]
    if _tables.is_pandas(query, "Series"):
        return [query.name if query.name is not None else 0], [_tables.person(dict(query))]
    if isinstance(query, (list, tuple)):
        if not all(isinstance(one, Mapping) or _tables.is_pandas(one, "Series") for one in query):
            raise InputError("query_instances: a list must contain one dictionary per person")
        return list(range(len(query))), [_tables.person(dict(one)) for one in query]
    if isinstance(query, (str, os.PathLike)):
        raise InputError("query_instances: give a person or a table of people, not a path")
    columns, rows = _tables.people(_tables.table(query, "query_instances"), "query_instances")
    people: list[tuple[dict[str, str | float], str | None]] = [(dict(zip(columns, row)), None) for row in rows]
    labels = list(query.index) if _tables.is_pandas(query, "DataFrame") else list(range(len(rows)))
    return labels, people


def _wish_list(
    features_to_vary: Literal["all"] | Iterable[str] = "all",
    permitted_range: Mapping[str, Sequence[Any]] | None = None,
    permitted_values: Mapping[str, Iterable[Any]] | None = None,
    feature_weights: Mapping[str, float] | Literal["inverse_mad"] | None = None,
    immutable: Iterable[str] = (),
    suggested_immutable: bool = False,
    only_up: Iterable[str] = (),
    only_down: Iterable[str] = (),
    metric: Metric = "l2",
    cost: Mapping[str, Metric | Mapping[Literal["up", "down"], float]] | None = None,
    cost_table: Mapping[str, Mapping[Any, float]] | None = None,
    max_changes: int | None = None,
    tolerance: Mapping[str, float | str] | float | str | None = None,
    diverse: bool = False,
    ways_by: WaysBy = "feature",
    scheme: str | None = None,
) -> tuple[dict[str, Any], dict[str, list[str | float | None]]]:
    """Returns the wishes as the Rust code reads and checks them, and DiCE's ranges.

    Only the schema tells whether a DiCE range has bounds or words, so Rust interprets it.
    """
    vary = [] if isinstance(features_to_vary, str) and features_to_vary == "all" else _tables.names(features_to_vary)
    if not vary and not isinstance(features_to_vary, str):
        raise InputError("features_to_vary is empty, so no feature could change")
    if isinstance(feature_weights, str):
        if feature_weights != "inverse_mad":
            raise InputError(f"feature_weights = {feature_weights!r}: give a dictionary of weights, or 'inverse_mad'")
        metric, feature_weights = "mad", None
    if metric not in METRICS:
        raise InputError(f"metric = {metric!r}: must be one of {', '.join(map(repr, METRICS))}")
    metrics: dict[str, str] = {}
    asymmetric: dict[str, tuple[float, float]] = {}
    for name, chosen in (cost or {}).items():
        if isinstance(chosen, str) and chosen in METRICS:
            metrics[name] = chosen
        elif isinstance(chosen, Mapping) and chosen and set(chosen) <= {"up", "down"}:
            asymmetric[name] = (_number(chosen.get("up", 1.0), f"cost of {name}"), _number(chosen.get("down", 1.0), f"cost of {name}"))
        else:
            raise InputError(f"cost of {name}: must be {', '.join(map(repr, METRICS))}, or such as {{'up': 3, 'down': 0.5}}")
    if ways_by not in WAYS:
        raise InputError(f"ways_by = {ways_by!r}: must be one of {', '.join(map(repr, WAYS))}")
    if max_changes is not None and not (isinstance(max_changes, int) and max_changes >= 0):
        raise InputError(f"max_changes = {max_changes!r}: must be a whole number, 0 or more")
    wishes = {
        "immutable": _tables.names(immutable),
        "suggested_immutable": bool(suggested_immutable),
        "features_to_vary": vary,
        "only_up": _tables.names(only_up),
        "only_down": _tables.names(only_down),
        "weights": {name: _number(weight, f"feature_weights of {name}") for name, weight in (feature_weights or {}).items()},
        "metric": metric,
        "metrics": metrics,
        "asymmetric": asymmetric,
        "costs": {
            name: [[_tables.value(value), _number(amount, f"cost_table of {name}")] for value, amount in table.items()]
            for name, table in (cost_table or {}).items()
        },
        "permits": {name: list(_texts(values, f"permitted_values of {name}")) for name, values in (permitted_values or {}).items()},
        "max_changes": max_changes,
        "tolerance": {name: _tables.value(size) for name, size in _tolerances(tolerance).items()},
        "ways_by": ways_by,
        "scheme": scheme,
    }
    ranges = {name: list(_open_texts(values, f"permitted_range of {name}")) for name, values in (permitted_range or {}).items()}
    return wishes, ranges


def _tolerances(tolerance: Mapping[str, float | str] | float | str | None) -> Mapping[str, float | str]:
    if tolerance is None:
        return {}
    return tolerance if isinstance(tolerance, Mapping) else {"*": tolerance}


def _number(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{what}: {value!r} is not a number") from None
    if number - number != 0:
        raise InputError(f"{what}: {value!r} is not a finite number")
    return number


def _texts(values: Iterable[Any], what: str) -> Iterator[str | float]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{what}: give a list of values")
    for value in values:
        if _tables.is_missing(value):
            raise InputError(f"{what}: a value is missing")
        yield _tables.value(value)


def _open_texts(values: Sequence[Any], what: str) -> Iterator[str | float | None]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{what}: give [low, high], or a list of values")
    for value in values:
        if value is not None and _tables.is_missing(value):
            raise InputError(f"{what}: {value!r} is not a bound; None leaves an end open")
        yield None if value is None else _tables.value(value)
