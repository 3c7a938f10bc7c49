#!/usr/bin/env python3
"""Compares ifonly with DiCE on the same data, model and queries: constraints, costs and times.

    pip install './python[all]' scikit-learn dice-ml
    python python/benchmarks/dice.py [--questions 40]

There are two tables: scikit-learn's breast cancer data (569 rows, 30 numbers) and generated loans
(4,000 rows of words and whole numbers). A model decides which rows are accepted. Rejected people
search for one counterfactual, with ranges and immutable features.

An answer is valid if the model accepts it and it satisfies all constraints. All methods have the
same cost: the squared change relative to the column's value range, and 1 for another word. Costs
are compared over the queries that a method and ifonly both answered validly. ifonly's time includes
everything: shares, two servers on loopback, decoding, fetching the record.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import ifonly


def breast_cancer(rng: random.Random) -> tuple[pd.DataFrame, pd.Series]:
    data = load_breast_cancer(as_frame=True)
    return data.data, data.target


def loans(rng: random.Random) -> tuple[pd.DataFrame, pd.Series]:
    rows = [
        {
            "age": rng.randint(18, 75),
            "income": 100 * rng.randint(8, 90),
            "debt": 50 * rng.randint(0, 60),
            "years_employed": rng.randint(0, 30),
            "housing": rng.choice(["own", "rent", "free"]),
            "purpose": rng.choice(["car", "home", "study", "other"]),
        }
        for _ in range(4000)
    ]
    table = pd.DataFrame(rows)
    score = table.income / 1000 - table.debt / 500 + table.years_employed / 8 + (table.housing == "own")
    return table, (score + [rng.gauss(0, 0.7) for _ in rows] > 4).astype(int)


class Question:
    """A rejected person, immutable features, and permitted ranges."""

    def __init__(self, rng: random.Random, table: pd.DataFrame, rejected: pd.Index) -> None:
        self.person = table.loc[[rng.choice(list(rejected))]]
        own = self.person.iloc[0]
        numbers = list(table.select_dtypes("number").columns)
        words = [name for name in table.columns if name not in numbers]
        self.stay = rng.sample(words, rng.randint(0, len(words)))
        self.ranges: dict[str, list[float]] = {}
        for name in rng.sample(numbers, 2):
            low, high = table[name].min(), table[name].max()
            # Up to half of the value range away from the own value, in one direction.
            half = (high - low) / 2
            ends = [own[name], min(high, own[name] + half)] if rng.random() < 0.5 else [max(low, own[name] - half), own[name]]
            self.ranges[name] = [float(end) for end in ends]
        self.vary = [name for name in table.columns if name not in self.stay]

    def holds(self, found: pd.DataFrame, model: Any) -> bool:
        own, row = self.person.iloc[0], found.iloc[0]
        stays = all(str(row[name]) == str(own[name]) for name in self.stay)
        inside = all(low - 1e-9 <= float(row[name]) <= high + 1e-9 for name, (low, high) in self.ranges.items())
        return stays and inside and bool(model.predict(found[list(self.person.columns)])[0] == 1)


def cost(table: pd.DataFrame, person: pd.DataFrame, found: pd.DataFrame) -> float:
    total = 0.0
    for name in table.columns:
        own, other = person[name].iloc[0], found[name].iloc[0]
        if table[name].dtype.kind in "if":
            total += ((float(other) - float(own)) / float(table[name].max() - table[name].min())) ** 2
        else:
            total += float(str(own) != str(other))
    return total


def dice(method: str, table: pd.DataFrame, target: pd.Series, model: Any) -> Any:
    import dice_ml

    numbers = list(table.select_dtypes("number").columns)
    data = dice_ml.Data(dataframe=table.assign(accepted=target), continuous_features=numbers, outcome_name="accepted")
    explainer = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method=method)

    def ask(question: Question) -> pd.DataFrame | None:
        options = {"random_seed": 1} if method == "random" else {}
        try:
            found = explainer.generate_counterfactuals(
                question.person, total_CFs=1, desired_class="opposite", features_to_vary=question.vary,
                permitted_range=question.ranges, verbose=False, **options,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001
            # DiCE raises an exception if it finds nothing.
            if "No counterfactuals found" in str(error):
                return None
            raise
        frame = found.cf_examples_list[0].final_cfs_df
        return None if frame is None or frame.empty else frame.iloc[[0]][list(table.columns)].astype(table.dtypes.to_dict())

    return ask


def ours(explainer: ifonly.Explainer, table: pd.DataFrame) -> Any:
    def ask(question: Question) -> pd.DataFrame | None:
        found = explainer.generate_counterfactuals(question.person, immutable=question.stay, permitted_range=question.ranges)
        return found.to_dataframe()[list(table.columns)] if found[0] else None

    return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    print("| table | method | answered | valid | median cost | cost / ifonly's (queries) | median time |")
    print("|---|---|---|---|---|---|---|")
    for make in (breast_cancer, loans):
        rng = random.Random(f"{options.seed} {make.__name__}")
        table, target = make(rng)
        words = [name for name in table.columns if table[name].dtype.kind not in "if"]
        encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), remainder="passthrough")
        model = make_pipeline(encode, RandomForestClassifier(100, random_state=options.seed)).fit(table, target)
        predicted = pd.Series(model.predict(table), index=table.index)
        questions = [Question(rng, table, table.index[predicted == 0]) for _ in range(options.questions)]
        with tempfile.TemporaryDirectory() as folder:
            bundle = ifonly.build(table, Path(folder) / "bundle", accepted=predicted == 1, accepted_by="a random forest predicts 1")
            with ifonly.serve(bundle) as deployment:
                methods = {"ifonly": ours(deployment.explainer(), table)}
                methods |= {f"DiCE {name}": dice(name, table, predicted, model) for name in ("kdtree", "random")}
                costs: dict[str, list[float]] = {}
                for name, ask in methods.items():
                    times, held, answered = [], 0, 0
                    costs[name] = []
                    for question in questions:
                        start = time.perf_counter()
                        found = ask(question)
                        times.append(time.perf_counter() - start)
                        right = found is not None and question.holds(found, model)
                        answered, held = answered + (found is not None), held + right
                        costs[name].append(cost(table, question.person, found) if right else np.nan)
                    both = np.array(costs[name]) / np.array(costs["ifonly"])
                    both = both[np.isfinite(both)]
                    share = f"{100 * held / max(answered, 1):.0f} % of {answered}"
                    beside = f"{np.median(both):.2f} ({len(both)})" if len(both) else "none in common"
                    usual = f"{np.nanmedian(costs[name]):.3g}" if held else "–"
                    print(f"| {make.__name__} | {name} | {answered} of {len(questions)} | {share} | {usual} | {beside} | {1e3 * np.median(times):.0f} ms |", flush=True)


if __name__ == "__main__":
    main()
