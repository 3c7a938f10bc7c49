"""Bundles built by Ray's workers are those of one process, byte by byte, also when workers are killed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ifonly

ray = pytest.importorskip("ray", reason="ifonly.ray needs Ray: pip install 'ifonly[ray]'")
pa = pytest.importorskip("pyarrow", reason="Parquet files are written with pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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


def contents(bundle: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(bundle.iterdir())}


def build(by: Any, tables: list[Path], output: Path, **more: Any) -> ifonly.BuildReport:
    report: ifonly.BuildReport = by(tables, output, "ok", accept="yes", missing="drop", name="people", **more)
    return report


def test_workers_give_the_bytes_of_one_process(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import ifonly.ray

    one = build(ifonly.build, tables, tmp_path / "one.bundle")
    for part_bytes in (1, 4000, 1 << 30):
        by_ray = build(
            ifonly.ray.build, tables, tmp_path / "ray.bundle", sign=one.signing_key, part_bytes=part_bytes, replace=True
        )
        assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")
        assert by_ray.document["features"] == one.document["features"]
        assert by_ray.rows_read == one.rows_read == 1277
    # Nothing is left of what was needed on the way, the lent key least of all.
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


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

    def mortal(task: Any, place: str) -> Any:
        """The task, whose worker dies after the work and before anybody hears of it, the first time for every part."""

        def once(*arguments: Any) -> Any:
            result = task(*arguments)
            mark = os.path.join(place, f"{task.__name__}-{hashlib.sha256(repr(arguments).encode()).hexdigest()}")
            if not os.path.exists(mark):
                open(mark, "w").close()
                os._exit(1)
            return result

        return once

    for name in ("_learn", "_encode", "_sign"):
        monkeypatch.setattr(_build, name, mortal(getattr(_build, name), str(marks)))
    build(ifonly.ray.build, tables, tmp_path / "ray.bundle", sign=one.signing_key, part_bytes=1 << 30)
    assert len(list(marks.iterdir())) >= 3
    assert contents(tmp_path / "ray.bundle") == contents(tmp_path / "one.bundle")


def test_faults_of_workers_name_the_file_and_the_row(cluster: None, tables: list[Path], tmp_path: Path) -> None:
    import ifonly.ray

    bad = tmp_path / "bad.csv"
    bad.write_text("age,debt,job,ok\n20,1,pilot,yes\n21,2,pilot\n")
    with pytest.raises(ifonly.InputError, match=r"bad\.csv, line 3: 3 fields instead of 4"):
        build(ifonly.ray.build, [*tables, bad], tmp_path / "bad.bundle")
    with pytest.raises(ifonly.InputError, match="write it into a column"):
        ifonly.ray.build(tables, tmp_path / "bad.bundle", [True] * 1277)  # type: ignore[arg-type]
    with pytest.raises(ifonly.InputError, match="tables in memory"):
        ifonly.ray.build(pa.table({"a": [1, 2]}), tmp_path / "bad.bundle")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="lvls"):
        ifonly.ray.build(tables, tmp_path / "bad.bundle", lvls=3)
    assert not (tmp_path / "bad.bundle").exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
