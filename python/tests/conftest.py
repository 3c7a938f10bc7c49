"""Every test has a desk of its own, and nobody's progress bars."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
