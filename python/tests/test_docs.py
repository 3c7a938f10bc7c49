"""Examples in docstrings and documents run, and the types are correct."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ifonly

HERE = Path(__file__).resolve().parent
MODULES = ["ifonly", *(f"ifonly.{module.name}" for module in pkgutil.iter_modules(ifonly.__path__) if module.name != "_ifonly")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, folder: Path) -> None:
    if name == "ifonly.ray":
        pytest.importorskip("ray", reason="ifonly.ray needs Ray: pip install 'ifonly[ray]'")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    if name in ("ifonly", "ifonly._build", "ifonly._ask", "ifonly._serve", "ifonly._lab"):
        assert result.attempted > 0


def test_everything_public_is_documented() -> None:
    for name in ifonly.__all__:
        thing = getattr(ifonly, name)
        if callable(thing):
            assert thing.__doc__, name
            methods = vars(thing).items() if isinstance(thing, type) else ()
            assert all(method.__doc__ for key, method in methods if callable(method) and not key.startswith("_")), name


@pytest.mark.parametrize("page", ["README.md", "python/README.md", "docs/python.md"])
def test_programs_in_the_documentation_run(page: str, folder: Path) -> None:
    """All programs of a page run in one namespace with a table of loans and a person."""
    text = (HERE.parents[1] / page).read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert programs
    loans = pd.DataFrame(
        {
            "age": [34, 51, 28, 45, 39, 60],
            "income": [2100, 900, 3900, 2500, 1200, 2900],
            "job": ["nurse", "baker", "nurse", "pilot", "baker", "pilot"],
            "decision": ["yes", "no", "yes", "yes", "no", "no"],
        }
    )
    loans.to_csv("loans.csv", index=False)
    session = {"loans": loans, "me": {"age": 39, "income": 1200, "job": "baker"}, "people": loans[loans.decision == "no"]}
    for program in programs:
        exec(compile(program, page, "exec"), session)  # noqa: S102


def test_types_hold(folder: Path) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(HERE.parent / "pyproject.toml"), "-p", "ifonly"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_accepts_real_manifests_and_refuses_faulty_ones(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    docs = HERE.parent.parent / "docs"
    schema = json.loads((docs / "manifest.schema.json").read_text())
    table = pd.DataFrame({"income": [1, 2, 3, 4], "job": ["nurse", "baker", "pilot", "nurse"], "ok": [1, 0, 1, 1]})
    ifonly.build(table, folder / "built.bundle", accepted="ok", accept="1")
    built = json.loads((folder / "built.bundle" / "manifest.json").read_text())
    vectors = docs.parent / "vectors"
    manifests = [built, *(json.loads(json.loads((vectors / name).read_text())["manifest"]) for name in ("values.json", "bundle.json"))]
    for manifest in manifests:
        jsonschema.validate(manifest, schema)
        for fault in ({"unknown": 1}, {"rows": "many"}, {"threshold": 0}, {"schemes": []}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**manifest, **fault}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: value for key, value in manifest.items() if key != "key_epochs"}, schema)


def test_the_schema_of_wishes_accepts_its_examples_and_refuses_faulty_wishes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((HERE.parent.parent / "docs" / "wishes.schema.json").read_text())
    wishes = {name: option["examples"][0] for name, option in schema["properties"].items()}
    jsonschema.validate(wishes, schema)
    jsonschema.validate({name: option["default"] for name, option in schema["properties"].items()}, schema)
    faults = [{"unknown": 1}, *({name: {"x": {}} if isinstance(value, dict) else {}} for name, value in wishes.items())]
    for fault in faults:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**wishes, **fault}, schema)
