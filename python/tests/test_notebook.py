"""The example notebook runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_quickstart_runs(folder: Path) -> None:
    for needed in ("nbformat", "nbclient", "ipykernel", "sklearn", "dice_ml"):
        pytest.importorskip(needed)
    import nbclient
    import nbformat

    path = Path(__file__).resolve().parents[1] / "examples" / "quickstart.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [output["data"] for output in shown if "data" in output]
    assert any("→" in page.get("text/html", "") for page in pages)
    assert any("image/png" in page for page in pages)
    # One table shows the records of ifonly and of both DiCE methods.
    assert any(all(word in page.get("text/html", "") for word in ("ifonly", "DiCE kdtree", "DiCE random")) for page in pages)
