"""Bundles from tables in memory equal those from files, and errors name their cause."""

from __future__ import annotations

import datetime
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables

import ifonly


def contents(bundle: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(bundle).iterdir())}


def every_type() -> pa.Table:
    """A table with every type that a feature can have."""
    rng = random.Random(7)
    count = 60
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randint(0, 300)) for _ in range(count)]
    moments = [datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=rng.randint(0, 10**6)) for _ in range(count)]

    def gaps(values: list[Any]) -> list[Any]:
        return [None if number % 11 == 3 else value for number, value in enumerate(values)]

    whole = [rng.randint(0, 90) for _ in range(count)]
    columns = {
        "i8": pa.array(gaps(whole), pa.int8()),
        "u16": pa.array([7 * n for n in whole], pa.uint16()),
        "i64": pa.array([n - 40 for n in whole], pa.int64()),
        "u64": pa.array(whole[::-1], pa.uint64()),
        "f32": pa.array([n / 4 for n in whole], pa.float32()),
        "f64": pa.array(gaps([rng.random() * 1e6 for _ in range(count)]), pa.float64()),
        "nan": pa.array([float("nan") if n % 9 == 0 else float(n % 7) for n in whole], pa.float64()),
        "truth": pa.array(gaps([n % 2 == 0 for n in whole]), pa.bool_()),
        "word": pa.array(gaps([["rent", "own", "free, of charge"][n % 3] for n in whole]), pa.string()),
        "large": pa.array([[" north", "south", "west "][n % 3] for n in whole[::-1]], pa.large_string()),
        "dictionary": pa.array(gaps([["a", "b", "c", "d"][n % 4] for n in whole]), pa.string()).dictionary_encode(),
        "day": pa.array(gaps(days), pa.date32()),
        "seconds": pa.array(moments, pa.timestamp("s")).cast(pa.timestamp("ms")),
        "nanos": pa.array(moments[::-1], pa.timestamp("ns")),
        "zoned": pa.array(moments, pa.timestamp("us", tz="Europe/Zurich")),
        "decimal": pa.array([n for n in whole], pa.decimal128(9, 2)),
        "list": pa.array([[n] for n in whole]),
    }
    return pa.table(columns)


def test_every_type_gives_the_bundle_of_its_parquet_file(folder: Path) -> None:
    table = every_type()
    pq.write_table(table, "types.parquet")
    ifonly.keygen("signing.key", signing_key=True)
    same = {"signing_key": "signing.key", "bundle_id": "00" * 16, "name": "types", "missing": "most-common"}
    from_file = ifonly.build("types.parquet", "file.bundle", **same)
    from_memory = ifonly.build(table, "memory.bundle", **same)
    assert contents("file.bundle") == contents("memory.bundle")
    left_out = {out["column"]: out["reason"] for out in from_memory.document["left_out"]}
    assert left_out == {out["column"]: out["reason"] for out in from_file.document["left_out"]}
    assert "list" in left_out
    # The division of a table into batches makes no difference.
    ifonly.build(pa.Table.from_batches(table.to_batches(max_chunksize=7)), "parts.bundle", **same)
    ifonly.build(pl.DataFrame(table.drop(["decimal"])), "polars.bundle", exclude=[], **same)
    assert contents("parts.bundle") == contents("memory.bundle")


@pytest.mark.parametrize("make", [tables.loans, tables.members, tables.trips], ids=lambda make: make.__name__)
def test_data_frames_give_the_bundle_of_their_parquet_file(make: Any, folder: Path) -> None:
    given, _, options = make(random.Random(1))
    ifonly.keygen("signing.key", signing_key=True)
    if hasattr(given, "write_parquet"):
        given.write_parquet("table.parquet")
        # For a file, the accepted value of a boolean column must be given.
        from_file = {**options, "accept": "true"}
    else:
        given.reset_index(drop=True).to_parquet("table.parquet")
        from_file = options
    ifonly.build(given, "memory.bundle", signing_key="signing.key", bundle_id="00" * 16, name="t", **options)
    ifonly.build("table.parquet", "file.bundle", signing_key="signing.key", bundle_id="00" * 16, name="t", **from_file)
    assert contents("memory.bundle") == contents("file.bundle")


LOANS = pd.DataFrame(
    {"income": [2100, 900, 1800, 1200], "job": ["nurse", "baker", "nurse", "pilot"], "approved": [True, False, True, False]}
)


def test_the_manifest_has_the_definition_of_acceptance(folder: Path) -> None:
    by_model = ifonly.build(LOANS[["income", "job"]], "a", accepted=np.array([True, False, True, False]), accepted_by="model 7 predicts 1")
    assert by_model.accepted == "model 7 predicts 1" == by_model.manifest["dataset"]["accepted"]
    assert ifonly.inspect("a", check=True)["manifest"]["dataset"]["accepted"] == "model 7 predicts 1"
    assert ifonly.build(LOANS, "b", accepted="approved").accepted == "approved is true"
    assert ifonly.build(LOANS, "c", accepted="job", accept=["nurse", "pilot"]).accepted == "job is nurse or pilot"
    assert ifonly.build(LOANS, "d").accepted == "every row of the data"
    # A mask that is a column of the table makes it the target, not a feature.
    assert "approved" not in ifonly.build(LOANS, "e", accepted=LOANS.approved).to_dataframe().index
    # The report warns about a column that equals the mask.
    assert any("approved" in warning for warning in ifonly.build(LOANS, "f", accepted=LOANS.approved.to_list()).warnings)


def test_schema_and_deployment_are_arguments(folder: Path) -> None:
    report = ifonly.build(
        LOANS,
        "loans.bundle",
        accepted="approved",
        immutable=["job"],
        features={"income": {"unit": "EUR", "min": 0, "max": 5000, "levels": 50}},
        servers=3,
        operators=["one", "two", "three=https://three.example"],
        top_limit=4,
        version="2026-11",
        shuffle=False,
    )
    manifest = report.manifest
    assert [operator["name"] for operator in manifest["operators"]] == ["one", "two", "three"]
    assert (manifest["top_limit"], manifest["shuffle"], manifest["dataset"]["version"]) == (4, False, "2026-11")
    income, job = manifest["schema"]["features"]
    assert income["unit"] == "EUR" and job["suggest_immutable"]
    assert list(report.to_dataframe().index) == ["income", "job"] and "2 of 4 rows accepted" in str(report)
    assert "<table>" in report._repr_html_()
    Path("schema.toml").write_text("immutable = ['job']\n")
    by_file = ifonly.build(LOANS, "file.bundle", accepted="approved", schema="schema.toml")
    by_dict = ifonly.build(LOANS, "dict.bundle", accepted="approved", schema={"immutable": ["job"]}, signing_key=by_file.signing_key, bundle_id=by_file.manifest["bundle_id"], name="file")
    assert by_file.manifest == by_dict.manifest


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"accepted": "aproved"}, 'no column "aproved"; did you mean "approved"'),
        ({"accepted": "job"}, 'which values of "job" count as accepted'),
        ({"accepted": "job", "accept": "king"}, "never matches king"),
        ({"accepted": [True, False]}, "the mask has 2 values, but the table has 4 rows"),
        ({"accepted": np.array([1, 0, 1, 0])}, "row 1 of the mask is 1, not True or False"),
        ({"accepted": pd.Series([True, None, True, False], dtype="boolean")}, "row 2 of the mask is missing"),
        ({"accepted": pd.Series([True, False, True, False], index=[4, 5, 6, 7])}, "different indices"),
        ({"accepted": [False] * 4}, "false everywhere"),
        ({"accepted": 3}, "name of a column, or a mask"),
        ({"data": [1, 2, 3]}, "a list is not a table"),
        ({"data": LOANS.assign(job=[1, "x", None, 2.5])}, "job"),
        ({"data": LOANS.assign(income=[2100, 900, None, 1200])}, 'row 3, column "income": the value is missing'),
        ({"data": LOANS.assign(income=[2100, 900, float("nan"), 1200])}, "`missing`"),
        ({"data": LOANS.iloc[:0]}, "no rows"),
        ({"data": LOANS[[]]}, "no columns"),
        ({"data": pd.concat([LOANS, LOANS[["job"]]], axis=1)}, "job"),
        ({"features": {"incom": {"unit": "EUR"}}}, 'did you mean "income"'),
        ({"features": {"income": {"unitt": "EUR"}}}, "unitt"),
        ({"scale": "cubic"}, "cubic"),
        ({"servers": -1}, "-1"),
        ({"schemes": ["gatedd"]}, "gatedd"),
        ({"threshold": 2}, "servers"),
        ({"schema": "nowhere.toml"}, "nowhere.toml"),
        ({"output": "there.bundle"}, "already exists"),
    ],
)
def test_errors_name_the_cause_and_nothing_is_written(change: dict[str, Any], complaint: str, folder: Path) -> None:
    ifonly.build(LOANS, "there.bundle", accepted="approved")
    before = sorted(path.name for path in folder.iterdir())
    options: dict[str, Any] = {"data": LOANS, "output": "new.bundle", "accepted": "approved", **change}
    with pytest.raises(ifonly.IfonlyError) as refused:
        ifonly.build(options.pop("data"), options.pop("output"), **options)
    assert complaint in str(refused.value), str(refused.value)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_bundle_is_replaced_only_on_demand(folder: Path) -> None:
    ifonly.build(LOANS, "loans.bundle", accepted="approved")
    report = ifonly.build(LOANS, "loans.bundle", accepted=[True, True, True, False], exclude=["approved"], replace=True)
    assert report.rows_accepted == 3


def test_control_c_stops_a_long_build_within_a_second_and_leaves_nothing(folder: Path) -> None:
    program = """
        import pyarrow as pa, sys, ifonly
        rows = 3_000_000
        table = pa.table({f"c{k}": pa.array(range(k, rows + k)) for k in range(4)})
        print_go_on_progress()
        ifonly.build(table, "long.bundle", exclude=[])
    """
    stopped_after(program)
    assert list(folder.iterdir()) == []


#: Prints "go" at the first progress, when a long task has begun and is far from its end.
PRINT_GO = """
def print_go_on_progress():
    import functools, ifonly._progress
    go = functools.cache(lambda: print("go", flush=True))
    ifonly._progress.Bar.at = lambda *_: go()
"""


def stopped_after(program: str) -> None:
    """Runs a program until it prints "go", interrupts it, and expects it to end at once."""
    command = [sys.executable, "-c", PRINT_GO + textwrap.dedent(program)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == "go\n", running.stderr.read()
    before = used(running.pid)
    running.send_signal(signal.SIGINT)
    running.wait(60)
    assert "KeyboardInterrupt" in running.stderr.read()
    # Measure CPU time, because other programs may use the machine.
    assert used_by_children() - before < 1.5 * (os.cpu_count() or 1)


def used(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") + used_by_children()


def used_by_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def test_keys_are_never_overwritten(folder: Path) -> None:
    ifonly.keygen("root.key")
    public = ifonly.keygen("signing.key", signing_key=True)
    assert public is not None and len(public) == 64
    assert os.stat("root.key").st_mode & 0o077 == 0
    for signing_key in (False, True):
        with pytest.raises(ifonly.IfonlyError):
            ifonly.keygen("root.key", signing_key=signing_key)


def test_a_model_decides_which_groups_become_records(tmp_path: Path) -> None:
    rng = np.random.default_rng(27)
    people = pd.DataFrame({"age": rng.integers(18, 80, 400), "income": rng.integers(900, 5000, 400), "job": rng.choice(["nurse", "baker"], 400)})
    seen: list[pd.DataFrame] = []

    def model(frame: pd.DataFrame) -> Any:
        seen.append(frame)
        return frame["income"] > 3000

    report = ifonly.build(people, tmp_path / "people.bundle", people.income > 2000, group=10, model=model, keep=["job"])
    groups = report.groups
    assert groups is not None and groups["refused_by_model"] > 0 and groups["terms"]["keep"] == ["job"]
    assert list(seen[0].columns) == ["age", "income", "job"] and len(seen[0]) == groups["groups"] + groups["refused_by_model"]
    assert report.manifest["dataset"]["groups"] == groups["terms"]
    assert not any("original row" in warning for warning in report.warnings)
    assert report.exposure["rows"] == report.rows_accepted
    with ifonly.serve(tmp_path / "people.bundle") as deployment:
        (answer,) = deployment.explainer().generate_counterfactuals({"age": 30, "income": 1000, "job": "nurse"})
    assert answer.record is not None and answer.record["job"] == "nurse" and answer.record["income"] > 3000
    group = answer.counterfactuals[0].group
    assert group is not None and group["at_least"] >= 10
    assert "the record stands for at least 10 accepted people; nobody's own record" in answer.notes

    def broken(frame: pd.DataFrame) -> Any:
        raise KeyError("income_1")

    with pytest.raises(KeyError, match="income_1"):
        ifonly.build(people, tmp_path / "other.bundle", people.income > 2000, group=10, model=broken)
    with pytest.raises(ifonly.InputError, match="returned 1 decisions"):
        ifonly.build(people, tmp_path / "other.bundle", people.income > 2000, group=10, model=lambda frame: [True])
    with pytest.raises(ifonly.InputError, match="need groups"):
        ifonly.build(people, tmp_path / "other.bundle", people.income > 2000, model=model)
