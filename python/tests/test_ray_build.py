"""Bundles built by Ray workers equal those of one process, byte by byte.

This holds for files and for Ray datasets, and also when workers are killed.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import logging
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ifonly

ray = pytest.importorskip("ray", reason="ifonly.ray needs Ray: pip install 'ifonly[ray]'")
pa = pytest.importorskip("pyarrow", reason="Parquet files are written with pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("ray.data")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """A directory of Parquet files with several row groups, and a CSV file."""
    folder = tmp_path / "tables"
    folder.mkdir()
    for part in range(3):
        numbers = range(400 * part, 400 * part + 400)
        table = {
            "age": [18 + n * 7 % 60 for n in numbers],
            "debt": [None if n % 17 == 3 else n * 31 % 1700 / 10 for n in numbers],
            "job": [["baker", "pilot", "nurse"][n * n % 3] for n in numbers],
            "ok": ["no" if n % 5 == 1 else "yes" for n in numbers],
        }
        pq.write_table(pa.table(table), folder / f"{part}.parquet", row_group_size=130)
    more = tmp_path / "more.csv"
    more.write_text("age,debt,job,ok\n" + "".join(f"{20 + n % 9},{n % 50},pilot,yes\n" for n in range(77)))
    return [folder, more]


def mortal(task: Any, place: str) -> Any:
    """Returns the task; its worker dies after the first attempt at each part, before it reports."""

    def once(*arguments: Any, **more: Any) -> Any:
        result = task(*arguments, **more)
        mark = os.path.join(place, f"{task.__name__}-{hashlib.sha256(repr(arguments[0]).encode()).hexdigest()}")
        if not os.path.exists(mark):
            open(mark, "w").close()
            os._exit(1)
        return result

    return once


def nothing_is_left(place: Path) -> bool:
    """Whether no temporary files remain, such as the copy of the signing key."""
    return not [path.name for path in place.iterdir() if path.name.startswith(".")]


def contents(bundle: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(bundle.iterdir())}


def build(by: Any, tables: list[Path], output: Path, **more: Any) -> ifonly.BuildReport:
    report: ifonly.BuildReport = by(tables, output, "ok", accept="yes", missing="drop", name="people", **more)
    return report


def test_workers_write_the_bytes_of_one_process(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import ifonly.ray

    one = build(ifonly.build, tables, tmp_path / "one.bundle")
    for part_bytes in (1, 4000, 1 << 30):
        by_ray = build(
            ifonly.ray.build, tables, tmp_path / "ray.bundle", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"], part_bytes=part_bytes, replace=True
        )
        assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")
        assert by_ray.document["features"] == one.document["features"]
        assert by_ray.rows_read == one.rows_read == 1277
    assert nothing_is_left(tmp_path)


def test_groups_are_the_same_from_one_process_and_from_workers(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import ifonly.ray

    one = build(ifonly.build, tables, tmp_path / "one.bundle", group=10)
    groups = one.groups
    assert groups is not None and groups["terms"]["k"] == 10 and groups["people"] + groups["left_out"] == one.rows_accepted
    build(ifonly.ray.build, tables, tmp_path / "ray.bundle", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"], part_bytes=4000, group=10)
    assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")
    assert nothing_is_left(tmp_path)


def test_a_new_key_is_made_beside_the_bundle(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import ifonly.ray

    report = build(ifonly.ray.build, tables, tmp_path / "new.bundle")
    assert report.signing_key == tmp_path / "new.bundle.signing.key" and report.signing_key.stat().st_mode & 0o777 == 0o600
    assert sorted(contents(tmp_path / "new.bundle")) == ["checksums", "manifest.json", "records", "rows"]
    ifonly.inspect(tmp_path / "new.bundle", check=True)


def test_killed_workers_change_nothing(cluster: None, tables: list[Path], tmp_path: Path, monkeypatch: Any) -> None:
    import ifonly.ray
    from ifonly.ray import _build

    one = build(ifonly.build, tables, tmp_path / "one.bundle")
    marks = tmp_path / "marks"
    marks.mkdir()
    for name in ("_learn", "_encode", "_sign"):
        monkeypatch.setattr(_build, name, mortal(getattr(_build, name), str(marks)))
    build(ifonly.ray.build, tables, tmp_path / "ray.bundle", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"], part_bytes=1 << 30)
    assert len(list(marks.iterdir())) >= 3
    assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")


def test_a_part_that_kills_every_worker_is_abandoned(cluster: None, tables: list[Path], tmp_path: Path, monkeypatch: Any) -> None:
    import ifonly.ray
    from ifonly.ray import _build

    def deadly(*_: Any, **__: Any) -> bytes:
        os._exit(1)

    monkeypatch.setattr(_build, "_encode", deadly)
    with pytest.raises(ifonly.MachineError, match="encoding: part 1 was started 6 times and its worker died each time"):
        build(ifonly.ray.build, tables, tmp_path / "bad.bundle", part_bytes=1 << 30)
    assert not (tmp_path / "bad.bundle").exists() and nothing_is_left(tmp_path)


def test_errors_of_workers_name_the_file_and_the_row(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import ifonly.ray

    bad = tmp_path / "bad.csv"
    bad.write_text("age,debt,job,ok\n20,1,pilot,yes\n21,2,pilot\n")
    with pytest.raises(ifonly.InputError, match=r"bad\.csv, line 3: 3 fields instead of 4"):
        build(ifonly.ray.build, [*tables, bad], tmp_path / "bad.bundle")
    with pytest.raises(ifonly.InputError, match="write it into a column"):
        ifonly.ray.build(tables, tmp_path / "bad.bundle", [True] * 1277)  # type: ignore[arg-type]
    with pytest.raises(ifonly.InputError, match="tables in memory"):
        ifonly.ray.build(pa.table({"a": [1, 2]}), tmp_path / "bad.bundle")
    with pytest.raises(TypeError, match="lvls"):
        ifonly.ray.build(tables, tmp_path / "bad.bundle", lvls=3)
    assert not (tmp_path / "bad.bundle").exists() and nothing_is_left(tmp_path)


def people(count: int, start: int = 0) -> Any:
    """A table of many types."""
    numbers = range(start, start + count)
    day = datetime.date(1960, 1, 1)
    jobs = pa.array([["baker", "pilot", "nurse"][n * n % 3] for n in numbers])
    return pa.table(
        {
            "age": pa.array([18 + n * 7 % 60 for n in numbers], pa.int32()),
            "debt": [None if n % 17 == 3 else n * 31 % 1700 / 10 for n in numbers],
            "job": jobs.dictionary_encode(),
            "born": [day + datetime.timedelta(days=n * 37 % 9000) for n in numbers],
            "paid": pa.array([f"${1 + n % 9},{n % 1000:03}" for n in numbers], pa.large_string()),
            "path": [[n, n + 1] for n in numbers],
            "ok": [n % 5 != 1 for n in numbers],
        }
    )


def cut(table: Any, seed: int) -> list[Any]:
    """Divides a table into blocks of random lengths, some of them empty."""
    lengths = random.Random(seed)
    blocks, start = [], 0
    while start < table.num_rows:
        length = lengths.choice([0, 1, lengths.randrange(400)])
        blocks.append(table.slice(start, length))
        start += length
    return blocks


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_dataset_gives_the_bytes_of_its_table_with_any_blocks(cluster: None, tmp_path: Path, seed: int) -> None:
    import ifonly.ray

    table = people(1000)
    wanted: dict[str, Any] = {"accepted": "ok", "missing": ["drop", "median", "most-common"][seed - 1]}
    one = ifonly.build(table, tmp_path / "people.bundle", **wanted)
    right = contents(tmp_path / "people.bundle")
    dataset = ray.data.from_arrow(cut(table, seed))
    part_bytes = [1, 5000, 1 << 30][seed - 1]
    report = ifonly.ray.build(
        dataset, tmp_path / "ray" / ".." / "people.bundle", **wanted, signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"], part_bytes=part_bytes, replace=True
    )
    assert contents(tmp_path / "people.bundle") == right, f"seed {seed}"
    assert report.rows_read == one.rows_read == 1000 and report.accepted == one.accepted
    assert report.document["features"] == one.document["features"] and report.warnings == one.warnings
    assert nothing_is_left(tmp_path)


def test_a_filtered_and_mapped_dataset_is_built_in_order(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import pyarrow.compute as pc

    import ifonly.ray

    table = pa.concat_tables([pq.read_table(file) for file in sorted(tables[0].iterdir())])
    table = table.filter(pc.and_(pc.greater(table["age"], 30), pc.less(table["debt"], 120)))
    one = ifonly.build(table, tmp_path / "one.bundle", "ok", accept="yes", name="people")

    def slowly(batch: Any) -> Any:
        # The first batch is finished last.
        import time

        time.sleep(0.5 if batch["age"][0].as_py() == 32 else 0)
        return batch

    dataset = ray.data.read_parquet([str(file) for file in sorted(tables[0].iterdir())])
    dataset = dataset.filter(lambda row: row["age"] > 30 and row["debt"] is not None and row["debt"] < 120)
    dataset = dataset.map_batches(slowly, batch_format="pyarrow")
    ifonly.ray.build(dataset, tmp_path / "ray.bundle", "ok", accept="yes", name="people", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"])
    assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")


def test_blocks_of_different_types_are_one_table(cluster: None, tmp_path: Path) -> None:
    import ifonly.ray

    def block(count: int, money: Any, word: Any, more: Any) -> Any:
        numbers = [(n * 13) % 40 for n in range(count)]
        words = pa.array([None if word == pa.null() else "ab"[n % 2] for n in numbers], word)
        # A quarter is exact in every width; a tenth has another value in 32 bits.
        amounts = pa.array([n if pa.types.is_integer(money) else n / (4 if n % 3 else 10) for n in numbers], money)
        return pa.table({"amount": amounts, "word": words, "more": pa.array(numbers, more)})

    blocks = [
        block(30, pa.float32(), pa.string(), pa.int8()),
        block(20, pa.float64(), pa.null(), pa.int64()),
        block(25, pa.int16(), pa.large_string(), pa.uint32()),
    ]
    table = pa.concat_tables(blocks, promote_options="permissive")
    assert table.schema.field("amount").type == pa.float64()
    words: Any = {"missing": "most-common", "name": "people"}
    one = ifonly.build(table, tmp_path / "one.bundle", **words)
    # Dictionary encoding does not change the words.
    place = table.schema.get_field_index("word")
    blocks[0] = blocks[0].set_column(place, "word", blocks[0]["word"].dictionary_encode())
    ifonly.ray.build(ray.data.from_arrow(blocks), tmp_path / "ray.bundle", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"], part_bytes=1 << 30, **words)
    assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")

    for other, why in [
        (pa.table({"a": ["x", "y"], "b": [1, 2]}), "column 'a': its type is int64 and string in different blocks"),
        (pa.table({"a": [1, 2]}), "it has no column 'b'"),
        (pa.table({"b": [1, 2], "a": [1, 2]}), "their order differs"),
        (pa.table({"a": [1, 2], "b": [1, 2], "c": [1, 2]}), "it also has a column 'c'"),
        (pa.table({"a": [0.5, 1.5], "b": [1, 2]}), "column 'a': some values of type int64 cannot be cast to double"),
    ]:
        first = pa.table({"a": [1, (1 << 53) + 1], "b": [1, 2]})
        with pytest.raises(ifonly.InputError, match=f"the table.*{why}"):
            ifonly.ray.build(ray.data.from_arrow([first, other]), tmp_path / "bad.bundle")
    assert not (tmp_path / "bad.bundle").exists() and nothing_is_left(tmp_path)


def test_datasets_of_pandas_frames_and_of_rows_are_tables(cluster: None, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    import ifonly.ray

    rows = [{"age": 20 + n % 30, "job": "ab"[n % 2]} for n in range(100)]
    one = ifonly.build(pa.Table.from_pylist(rows), tmp_path / "one.bundle", name="people")
    frames = [pd.DataFrame(rows[:33]), pd.DataFrame(rows[33:])]
    for dataset in (ray.data.from_items(rows), ray.data.from_pandas(frames), ray.data.from_pandas(frames).materialize()):
        ifonly.ray.build(dataset, tmp_path / "ray.bundle", name="people", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"], replace=True)
        assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")


def test_a_dataset_is_executed_once(cluster: None, tmp_path: Path) -> None:
    import ifonly.ray

    marks = tmp_path / "marks"
    marks.mkdir()

    def chance(batch: Any) -> Any:
        import random
        import uuid

        (marks / uuid.uuid4().hex).touch()
        return {"number": [random.randrange(100) for _ in batch["id"]], "other": list(batch["id"])}

    dataset = ray.data.range(600, override_num_blocks=6).random_shuffle().map_batches(chance, batch_size=None)
    report = ifonly.ray.build(dataset, tmp_path / "chance.bundle", part_bytes=1)
    assert report.rows_accepted == 600
    # If the passes had seen different rows, records and levels would not match.
    ifonly.inspect(tmp_path / "chance.bundle", check=True)
    # Once, not once per pass. Ray may repeat a block if it replaces a worker.
    assert 6 <= len(list(marks.iterdir())) < 12


def test_killed_workers_change_nothing_for_a_dataset(cluster: None, tmp_path: Path, monkeypatch: Any) -> None:
    import ifonly.ray
    from ifonly.ray import _blocks, _build

    table = people(300)
    one = ifonly.build(table, tmp_path / "one.bundle", "ok", missing="drop", name="people")
    marks = tmp_path / "marks"
    marks.mkdir()
    for module, name in ((_blocks, "store"), (_build, "_learn"), (_build, "_encode"), (_build, "_sign")):
        monkeypatch.setattr(module, name, mortal(getattr(module, name), str(marks)))
    dataset = ray.data.from_arrow([table.slice(0, 100), table.slice(100)])
    ifonly.ray.build(dataset, tmp_path / "ray.bundle", "ok", missing="drop", name="people", signing_key=one.signing_key, bundle_id=one.manifest["bundle_id"])
    assert len(list(marks.iterdir())) == 5
    assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")
    assert nothing_is_left(tmp_path)


def test_errors_in_a_dataset_are_those_of_its_table(cluster: None, tmp_path: Path) -> None:
    import ifonly.ray

    table = people(400)
    # Of several errors the first in the data is raised, whichever worker finishes first.
    beyond = table.set_column(3, "born", pa.array([1 << 60 if n in (120, 333) else 1 for n in range(400)], pa.timestamp("s")))
    unknown = table.set_column(6, "ok", pa.array([None if n == 201 else "yes" for n in range(400)]))
    # No row is accepted.
    rejected = table.set_column(6, "ok", pa.array(["no"] * 400))
    for given, wanted, why in [
        (table, {"accepted": "ok"}, 'the table, row 4, column "debt": the value is missing'),
        (beyond, {"accepted": "ok"}, 'the table, row 121, column "born": the date is out of range'),
        (unknown, {"accepted": "ok", "accept": "yes"}, 'the table, row 202, column "ok": the target is missing'),
        (rejected, {"accepted": "ok", "accept": "yes"}, "no row is accepted"),
        (table, {"accepted": "okay"}, 'no column "okay"'),
        (table, {"categorical": ["jobs"]}, 'no column "jobs"'),
        (table.select(["path"]), {}, "the table has no columns with single values"),
    ]:
        messages = []
        for by, data in ((ifonly.build, given), (ifonly.ray.build, ray.data.from_arrow(cut(given, 5)))):
            with pytest.raises(ifonly.InputError) as error:
                by(data, tmp_path / "bad.bundle", part_bytes=1, **wanted) if by is ifonly.ray.build else by(data, tmp_path / "bad.bundle", **wanted)
            messages.append(str(error.value))
        assert messages[0] == messages[1] and why in messages[0]
    with pytest.raises(ifonly.InputError, match="the table: this dataset has no rows"):
        ifonly.ray.build(ray.data.from_arrow(table).filter(lambda row: False), tmp_path / "bad.bundle")
    with pytest.raises(ifonly.InputError, match="ifonly.ray.build"):
        ifonly.build(ray.data.from_arrow(table), tmp_path / "bad.bundle")
    with pytest.raises(ifonly.InputError, match="write it into a column"):
        dataset = ray.data.from_arrow(table)
        ifonly.ray.build(dataset, tmp_path / "bad.bundle", [True] * 400)  # type: ignore[arg-type]
    assert not (tmp_path / "bad.bundle").exists() and nothing_is_left(tmp_path)

    def never(batch: Any) -> Any:
        raise AssertionError("the dataset must not be executed if the bundle already exists")

    ifonly.build(table, tmp_path / "there.bundle", "ok", missing="drop")
    with pytest.raises(ifonly.InputError, match="already exists"):
        ifonly.ray.build(ray.data.from_arrow(table).map_batches(never), tmp_path / "there.bundle", "ok", missing="drop")

    def wrong(batch: Any) -> Any:
        raise ValueError("of the author of the dataset")

    with pytest.raises(Exception, match="of the author of the dataset") as error:
        ifonly.ray.build(ray.data.from_arrow(table).map_batches(wrong), tmp_path / "bad.bundle")
    assert not isinstance(error.value, ifonly.IfonlyError)
    assert nothing_is_left(tmp_path)


def test_changed_rows_in_storage_are_detected(tmp_path: Path) -> None:
    from ifonly.ray import _blocks

    table = people(50)
    schema = table.schema.serialize().to_pybytes()
    stored = _blocks.store(table, str(tmp_path))
    (part,) = _blocks.parts([_blocks.StoredBlock(**json.loads(stored["stored"][0]))], 1)
    assert _blocks.read(part, str(tmp_path), schema)[0].equals(table)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ifonly.MachineError, match="the stored rows have changed"):
        _blocks.read(part, str(tmp_path), schema)
    file.unlink()
    with pytest.raises(ifonly.MachineError, match="cannot read stored rows"):
        _blocks.read(part, str(tmp_path), schema)


def test_settings_of_ray_data_are_restored(cluster: None, tmp_path: Path) -> None:
    import ifonly.ray

    def settings() -> list[Any]:
        contexts = [ray.data.DataContext.get_current(), dataset.context]
        found = [(context.enable_progress_bars, context.execution_options.preserve_order) for context in contexts]
        logger = logging.getLogger("ray.data")
        return [found, [handler.level for handler in logger.handlers], logging.getLogger("ray.data._internal.progress").level]

    dataset = ray.data.from_arrow(people(100))
    before = settings()
    ifonly.ray.build(dataset, tmp_path / "people.bundle", "ok", missing="drop")
    with contextlib.suppress(ifonly.InputError):
        ifonly.ray.build(dataset, tmp_path / "bad.bundle", "missing")
    assert settings() == before


def test_ray_runs_only_during_a_build_and_prints_nothing_about_datasets(tmp_path: Path) -> None:
    program = """
import logging, ray, ifonly.ray

if __name__ == "__main__":
    ifonly.ray.build("people.parquet", "people.bundle", "ok", accept="true", missing="drop")
    assert not ray.is_initialized()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    dataset = ray.data.read_parquet("people.parquet")
    ifonly.ray.build(dataset, "dataset.bundle", "ok", missing="drop", name="people", signing_key="people.bundle.signing.key")
    assert ray.is_initialized()
"""
    pq.write_table(people(200), tmp_path / "people.parquet")
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    printed = done.stdout + done.stderr
    assert not re.search("dataset|progress", printed, re.IGNORECASE), printed
    assert (tmp_path / "dataset.bundle" / "checksums").exists() and nothing_is_left(tmp_path)


def test_the_signing_key_does_not_pass_through_ray(cluster: None, tables: list[Path], tmp_path: Path, monkeypatch: Any) -> None:
    import ifonly.ray
    from ifonly.ray import _build

    sent: list[bytes] = []
    plain = _build.each

    def watched(task: Any, items: Any, known: Any, num_cpus: float) -> Any:
        sent.append(pickle.dumps((items, known)))
        return plain(task, items, known, num_cpus)

    monkeypatch.setattr(_build, "each", watched)
    report = build(ifonly.ray.build, tables, tmp_path / "new.bundle")
    found = re.search(r'^signing_key *= *"([0-9a-f]{64})"', report.signing_key.read_text(), re.MULTILINE)
    assert found is not None
    secret = found[1]
    assert len(sent) == 3 and not any(secret.encode() in this or bytes.fromhex(secret) in this for this in sent)
