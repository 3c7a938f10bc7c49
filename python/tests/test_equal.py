"""Answers equal brute force in pandas, and the command line's byte for byte, for random wishes."""

from __future__ import annotations

import datetime
import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tables

import ifonly
from ifonly._ask import _people

QUESTIONS = int(os.environ.get("IFONLY_QUESTIONS", "300")) // 3
HERE = Path(__file__).resolve().parent


def command_line() -> str | None:
    """Returns the program to compare with, if it has been compiled."""
    built = [HERE.parents[1] / "target" / profile / "ifonly" for profile in ("release", "debug")]
    usual = os.pathsep.join(str(path) for path in built if path.is_file())
    paths = [path for path in os.environ.get("IFONLY", usual).split(os.pathsep) if path]
    return max(paths, key=os.path.getmtime) if paths else None


class Column:
    """A column as numbers: dates as days, words as positions."""

    def __init__(self, feature: dict[str, Any], values: pd.Series, accepted: np.ndarray) -> None:
        self.name: str = feature["name"]
        kind = feature["kind"]
        self.words: list[str] = kind.get("ranks") or kind.get("categories") or []
        self.is_number, self.is_ordered = kind["type"] == "numeric", kind["type"] != "categorical"
        self.default = feature.get("default")
        self.is_date = kind.get("notation", {}).get("type") in ("date", "timestamp")
        # The manifest has times in seconds.
        self.unit = 86_400 if kind.get("notation", {}).get("type") == "timestamp" else 1
        deviation = (feature.get("deviation") or {}).get("value")
        self.deviation = None if deviation is None else deviation / self.unit
        self.numbers = np.array([self.number(value) for value in values], dtype=float)
        present = self.numbers[~np.isnan(self.numbers)]
        value_range = present.max() - present.min() if self.is_number else len(self.words) - 1
        self.value_range = float(value_range) if self.is_ordered else 1.0
        self.accepted = self.numbers[accepted]

    def number(self, value: Any) -> float:
        if value is None or value is pd.NaT or value is pd.NA or value != value:
            if self.default is None:
                return float("nan")
            value = self.default
        if self.is_date:
            moment = pd.Timestamp(value)
            return (moment - pd.Timestamp(0)).total_seconds() / 86_400
        if self.is_number:
            return float(value)
        if isinstance(value, (bool, np.bool_)):
            value = "true" if value else "false"
        return float(self.words.index(str(value)))

    def written(self, number: float) -> Any:
        if self.is_date:
            return (datetime.datetime(1970, 1, 1) + datetime.timedelta(days=number)).isoformat(sep=" ")[: 19 if self.unit > 1 else 10]
        if self.is_number:
            return int(number) if number.is_integer() else number
        return self.words[int(number)]


class Question:
    """Random wishes, as Python arguments, as flags, and as rules for brute force."""

    def __init__(self, rng: random.Random, columns: list[Column], own: dict[str, float]) -> None:
        self.columns, self.own = columns, own
        self.wishes: dict[str, Any] = {"metric": rng.choice(["l2", "l2", "l1", "count", "mad"])}
        if any(column.is_ordered and column.deviation is None for column in columns) and self.wishes["metric"] == "mad":
            self.wishes["metric"] = "l1"
        self.flags = ["--metric", self.wishes["metric"]]
        self.rules: list[Callable[[], np.ndarray]] = []
        self.metrics = dict.fromkeys(own, self.wishes["metric"])
        self.weights = {name: (1.0, 1.0) for name in own}
        self.tables: dict[str, list[tuple[float, float]]] = {}
        for column in columns:
            self.constrain(rng, column)
            self.choose_cost(rng, column)
        if rng.random() < 0.15:
            names = [column.name for column in rng.sample(columns, rng.randint(2, len(columns)))]
            self.wishes["features_to_vary"] = names
            self.flags += sum((["--features-to-vary", f'"{name}"'] for name in names), [])
            self.rules += [(lambda c=column: c.accepted == own[c.name]) for column in columns if column.name not in names]
        self.max_changes = rng.randint(1, 4) if rng.random() < 0.2 else None
        if self.max_changes is not None:
            self.wishes["max_changes"] = self.max_changes
            self.flags += ["--max-changes", str(self.max_changes)]
        self.top = rng.choice([1, 1, 2, 3])
        self.flags += ["--top", str(self.top)]

    def wish(self, name: str, feature: str, value: Any = None) -> None:
        if value is None:
            self.wishes.setdefault(name, []).append(feature)
        else:
            self.wishes.setdefault(name, {})[feature] = value

    def constrain(self, rng: random.Random, column: Column) -> None:
        name, mine, draw = column.name, self.own[column.name], rng.random()
        if draw < 0.1:
            self.wish("immutable", name)
            self.flags += ["--immutable", f'"{name}"']
            self.rules.append(lambda: column.accepted == mine)
        elif draw < 0.2 and column.is_ordered:
            self.wish("only_up", name)
            self.flags += ["--only-up", f'"{name}"']
            self.rules.append(lambda: column.accepted >= mine)
        elif draw < 0.3 and column.is_ordered:
            self.wish("only_down", name)
            self.flags += ["--only-down", f'"{name}"']
            self.rules.append(lambda: column.accepted <= mine)
        elif draw < 0.45 and column.is_number:
            low, high = sorted(float(rng.choice(column.accepted.tolist())) for _ in range(2))
            ends = [None if rng.random() < 0.2 else end for end in (low, high)]
            shown = [None if end is None else column.written(end) for end in ends]
            self.wish("permitted_range", name, shown)
            self.flags += ["--range", f"{name}={'' if shown[0] is None else shown[0]}..{'' if shown[1] is None else shown[1]}"]
            self.rules.append(
                lambda: (column.accepted >= (-np.inf if ends[0] is None else low)) & (column.accepted <= (np.inf if ends[1] is None else high))
            )
        elif draw < 0.55:
            values = sorted({float(rng.choice(column.accepted.tolist())) for _ in range(3)})
            shown = [column.written(value) for value in values]
            word = rng.choice(["permitted_values", "permitted_range"]) if column.words else "permitted_values"
            self.wish(word, name, shown)
            self.flags += ["--permit", f"{name}=" + ",".join(f'"{value}"' for value in shown)]
            self.rules.append(lambda: np.isin(column.accepted, values))

    def choose_cost(self, rng: random.Random, column: Column) -> None:
        name, draw = column.name, rng.random()
        if draw < 0.2:
            weight = rng.choice([0.01, 0.5, 2.0, 3.25, 10.0, 100.0])
            self.weights[name] = (weight, weight)
            self.wish("feature_weights", name, weight)
            self.flags += ["--weight", f"{name}={weight}"]
        elif draw < 0.3 and column.is_ordered:
            self.weights[name] = (3.0, 0.5)
            self.wish("cost", name, {"up": 3, "down": 0.5})
            self.flags += ["--cost", f"{name}=up:3,down:0.5"]
        elif draw < 0.4:
            self.metrics[name] = rng.choice(["l1", "l2", "count"])
            self.wish("cost", name, self.metrics[name])
            self.flags += ["--cost", f"{name}={self.metrics[name]}"]
        elif draw < 0.47:
            places = sorted({float(rng.choice(column.accepted.tolist())) for _ in range(3)})
            if not column.is_number:
                places = [float(place) for place in range(len(column.words))]
            points = [(place, rng.randint(0, 40) / 8) for place in places]
            self.tables[name] = points
            self.wish("cost_table", name, {column.written(place): cost for place, cost in points})

    def best(self) -> tuple[int, list[tuple[float, float]]]:
        """Returns the number of matching rows, and (changes, cost) of the nearest, in order.

        With ``max_changes`` fewer changes come first; without it changes are 0.
        """
        count = len(self.columns[0].accepted)
        matches, total, changes = np.ones(count, bool), np.zeros(count), np.zeros(count)
        for rule in self.rules:
            matches &= rule()
        for column in self.columns:
            there, mine = column.accepted, self.own[column.name]
            changed = (there != mine).astype(float)
            gap = np.abs(there - mine) if column.is_ordered else changed
            share = gap / column.value_range
            metric = self.metrics[column.name]
            mad = gap / column.deviation if column.is_ordered and column.deviation else share
            costs = {"l2": share**2, "l1": share, "count": changed, "mad": mad}[metric]
            if column.name in self.tables:
                places, costs_there = zip(*self.tables[column.name])
                costs = np.interp(there, places, costs_there)
            up, down = self.weights[column.name]
            total += costs * np.where(there >= mine, up, down)
            changes += changed
        if self.max_changes is None:
            changes[:] = 0
        order = sorted(zip(changes[matches], total[matches]))
        most = np.inf if self.max_changes is None else self.max_changes
        return int(matches.sum()), [pair for pair in order if pair[0] <= most][: self.top]


@pytest.mark.parametrize("make", [tables.loans, tables.members, tables.trips], ids=lambda make: make.__name__)
def test_answers_equal_brute_force_and_the_command_line(make: Any, folder: Path) -> None:
    rng = random.Random(f"ifonly {make.__name__}")
    given, table, options = make(rng)
    report = ifonly.build(given, "bundle", shuffle=False, **options)
    accepted = options["accepted"]
    mask = np.array(accepted if not isinstance(accepted, str) else table[accepted].isin([options.get("accept", True)]), bool)
    features = report.manifest["schema"]["features"]
    names = [feature["name"] for feature in features]
    if options.get("missing") == "drop":
        mask &= table[names].notna().all(axis=1).to_numpy()
    assert report.rows_accepted == mask.sum()
    columns = [Column(feature, table[feature["name"]], mask) for feature in features]
    people = [row for row in np.flatnonzero(~mask) if not any(np.isnan(column.numbers[row]) for column in columns)]
    program = command_line()
    compared = found = refused = 0
    with ifonly.serve(report) as deployment:
        explainer = deployment.explainer()
        for number in range(QUESTIONS):
            row = rng.choice(people)
            question = Question(rng, columns, {column.name: float(column.numbers[row]) for column in columns})
            matching_rows, best = question.best()
            person = given[names][int(row)] if hasattr(given, "to_arrow") else given[names].iloc[[row]]
            context = f"{make.__name__}, question {number}: {question.wishes}"
            try:
                answer = explainer.generate_counterfactuals(person, question.top, tolerance={"*": 0}, **question.wishes)[0]
            except ifonly.InputError as error:
                # Wishes that permit no value of a feature are refused; then no row matches.
                assert matching_rows == 0 and "no value satisfies" in str(error), f"{context}: {error}"
                refused += 1
                if program is not None:
                    values = _people(person)[1][0][0]
                    assert ask(program, deployment.servers, values, question).returncode == error.exit_code == 4, context
                continue
            costs = [one.cost for one in answer.counterfactuals]
            assert len(costs) == len(best), context
            assert np.allclose(costs, [cost for _, cost in best], rtol=1e-6, atol=1e-9), context
            assert answer.document["matching_rows"] == matching_rows, context
            found += bool(costs)
            if program is not None:
                compared += 1
                done = ask(program, deployment.servers, answer._values, question)
                assert done.returncode == (0 if costs else 3), f"{context}: {done.stderr}"
                assert answer.to_json() == done.stdout.rstrip("\n"), context
    assert found > QUESTIONS / 4
    print(f"{make.__name__}: {QUESTIONS} searches equal brute force: {found} found a row, {refused} were refused; {compared} answers equal the command line's")


def ask(program: str, servers: list[str], values: dict[str, str], question: Question) -> subprocess.CompletedProcess[str]:
    """Runs the same search at the command line."""
    Path("me.json").write_text(json.dumps(values))
    flags = ["--tolerance", "*=0", *question.flags]
    if question.tables:
        written = {column.name: column.written for column in question.columns}
        costs = {name: {str(written[name](place)): cost for place, cost in points} for name, points in question.tables.items()}
        Path("costs.json").write_text(json.dumps(costs))
        flags += ["--cost-table", "costs.json"]
    urls = sum((["--server", url] for url in servers), [])
    return subprocess.run([program, "ask", *urls, "--profile", "me.json", "--json", *flags], capture_output=True, text=True)
