"""Every test runs in its own directory."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the test, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
