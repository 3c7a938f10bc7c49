#!/usr/bin/env python3
"""Measures the quality of groups: what people lose when records stand for groups.

    checks/groups.py --binary target/release/ifonly --data ../shared/data

Builds wine, COMPAS and three made-up tables without groups and with k = 5, 10, 20. A
gradient boosting model (scikit-learn) is trained on the labels. Accepted people are those whom both
the label and the model accept. Representatives count if the model accepts them, as with `model=` in
Python. The nearest record is searched for 400 people whom the model rejects, by brute force.

Columns of the table: number of groups, normalised certainty penalty (0: groups of equal people, 1:
each group spans the table), share of representatives that the model accepts, the same among those
nearest to rejected people, and the distance (square root of the cost) to the nearest accepted
representative: median and 90th percentile, both also divided by those of the distance to the
nearest accepted row, and the median over people of their own ratio ("each").
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier

SIZES = (5, 10, 20)
QUESTIONS = 400


def mortgages(random):
    """Applications for mortgages: skewed amounts, a credit score and some words."""
    n = 6000
    income = np.round(random.lognormal(10.6, 0.5, n), -2)
    price = np.round(income * random.uniform(2, 8, n), -3)
    down = np.round(price * random.beta(2, 8, n), -2)
    score = np.clip(random.normal(680, 70, n), 300, 850).round()
    debt = np.round(income * random.beta(2, 6, n), -2)
    table = pd.DataFrame({"income": income, "price": price, "down_payment": down, "score": score, "debt": debt})
    table["years_employed"] = random.gamma(2, 4, n).round()
    table["job"] = random.choice(["employee", "self-employed", "official", "retired"], n, p=[0.6, 0.2, 0.12, 0.08])
    table["region"] = random.choice(list("ABCDEF"), n)
    risk = (price - down + debt) / income - (score - 680) / 60 - table.years_employed / 10 + random.normal(0, 0.7, n)
    return table.assign(ok=np.where(risk < np.quantile(risk, 0.6), "yes", "no"))


def tumours(random):
    """Measurements of tumours: ten positive measures that follow four common factors."""
    n = 4000
    factors = random.normal(0, 1, (n, 4))
    measures = np.exp(factors @ random.normal(0, 0.35, (4, 10)) + random.normal(0, 0.15, (n, 10)))
    table = pd.DataFrame(np.round(10 * measures, 2), columns=[f"measure_{i}" for i in range(10)])
    risk = factors[:, 0] + 0.5 * factors[:, 1] + random.normal(0, 0.4, n)
    return table.assign(ok=np.where(risk < 0.3, "yes", "no"))


def wages(random):
    """Wages above a limit: few values per column and many words."""
    n = 8000
    education = np.clip(random.normal(10, 2.6, n).round(), 1, 16)
    table = pd.DataFrame({"age": np.clip(random.gamma(8, 5, n).round(), 17, 90), "education": education})
    table["hours"] = np.where(random.random(n) < 0.5, 40, np.clip(random.normal(41, 12, n).round(), 5, 90))
    table["sex"] = random.choice(["female", "male"], n, p=[0.4, 0.6])
    table["married"] = random.choice(["yes", "no"], n)
    table["work"] = random.choice(["private", "public", "own"], n, p=[0.7, 0.18, 0.12])
    table["job"] = random.choice(["sales", "craft", "service", "clerk", "manager", "expert", "transport"], n)
    good = table.education / 3 + table.age / 25 + table.hours / 25 + (table.married == "yes") + table.job.isin(["manager", "expert"]) * 1.5
    good = good + random.normal(0, 1, n)
    return table.assign(ok=np.where(good > good.quantile(0.7), "yes", "no"))


def built(arguments, directory, table, k):
    """Builds a bundle; returns the report and the records as a table of texts."""
    data, output = directory / "table.csv", directory / f"{k}.bundle"
    table.to_csv(data, index=False)
    command = [arguments.binary, "build", data, "-o", output, "--target", "decision", "--accept", "yes", "--group", str(k), "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    fields = report["manifest"]
    columns = list(dict.fromkeys((f["one_hot"] or {}).get("column", f["name"]) for f in fields["schema"]["features"]))
    content = (output / "records").read_bytes()[32:]
    rows = []
    for start in range(0, len(content), fields["record_length"]):
        row, at = [], start
        for _ in columns:
            length = int.from_bytes(content[at : at + 2], "little")
            row.append(content[at + 2 : at + 2 + length].decode())
            at += 2 + length
        rows.append(row)
    return report, pd.DataFrame(rows, columns=columns)


def measured(arguments, name, table, labels, columns):
    """Prints one line per size of groups."""
    numeric = [column for column in columns if pd.api.types.is_numeric_dtype(table[column])]
    words = [column for column in columns if column not in numeric]
    spread = table[numeric].max() - table[numeric].min()

    def features(frame):
        parts = [frame[numeric].astype(float)] + [(frame[column] == word).astype(float).rename(f"{column}={word}") for column in words for word in sorted(table[column].unique())]
        return pd.concat(parts, axis=1)

    model = GradientBoostingClassifier(random_state=1).fit(features(table), labels)
    decisions = model.predict(features(table)).astype(bool)
    accepted = decisions & labels.to_numpy()
    table = table[columns].assign(decision=np.where(accepted, "yes", "no"))
    rejected = table[~decisions].sample(min(QUESTIONS, int((~decisions).sum())), random_state=1)

    def nearest(records):
        found = []
        numbers, texts = records[numeric].astype(float).to_numpy(), records[words].to_numpy()
        for _, person in rejected.iterrows():
            costs = (((numbers - person[numeric].astype(float).to_numpy()) / spread.to_numpy()) ** 2).sum(axis=1)
            costs = costs + (texts != person[words].to_numpy()).sum(axis=1)
            found.append((np.sqrt(costs.min()), int(costs.argmin())))
        return np.array([distance for distance, _ in found]), [row for _, row in found]

    plain, _ = nearest(table[accepted])
    before = (np.median(plain), np.quantile(plain, 0.9))
    print(f"{name:10} {'-':>3} {accepted.sum():7} {'-':>6} {'-':>6} {'-':>6} {before[0]:7.3f} {before[1]:7.3f} {1:5.2f} {1:5.2f} {1:5.2f}", flush=True)
    for k in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            report, records = built(arguments, pathlib.Path(directory), table, k)
        for column in columns:
            if column not in records:
                # Every group has the same value, so any row has it nearly always.
                records[column] = str(table[accepted][column].mode()[0])
        decided = model.predict(features(records.astype({column: float for column in numeric}))).astype(bool)
        _, answers = nearest(records)
        distance, _ = nearest(records[decided])
        median, high = np.median(distance), np.quantile(distance, 0.9)
        ratios = [now / then if then > 0 else float("nan") for now, then in zip((median, high), before)]
        each = np.median(distance[plain > 0] / plain[plain > 0])
        penalty = report["groups"]["certainty_penalty"]
        print(f"{name:10} {k:3} {len(records):7} {penalty:6.3f} {decided.mean():6.1%} {decided[answers].mean():6.1%} {median:7.3f} {high:7.3f} {ratios[0]:5.2f} {ratios[1]:5.2f} {each:5.2f}", flush=True)


def main():
    """Measures all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/ifonly", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--data", default="../shared/data", type=pathlib.Path, help="folder with wine-white.csv and compas.csv")
    parser.add_argument("--only", help="one table")
    arguments = parser.parse_args()
    print(f"{'table':10} {'k':>3} {'records':>7} {'NCP':>6} {'model':>6} {'near':>6} {'median':>7} {'90 %':>7} {'x':>5} {'x':>5} {'each':>5}")
    wine, compas = arguments.data / "wine-white.csv", arguments.data / "compas.csv"
    tables = [(build.__name__, lambda build=build: build(np.random.default_rng(27))) for build in (mortgages, tumours, wages)]
    tables += [(name, lambda path=path: pd.read_csv(path)) for name, path in (("wine", wine), ("COMPAS", compas)) if path.exists()]
    for name, read in tables:
        if arguments.only not in (None, name):
            continue
        table = read()
        labels = {"wine": lambda: table.quality >= 7, "COMPAS": lambda: table.is_recid == 0}.get(name, lambda: table.ok == "yes")()
        measured(arguments, name, table, labels, [column for column in table if column not in ("quality", "is_recid", "ok")])


if __name__ == "__main__":
    main()
