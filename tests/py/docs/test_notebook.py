"""The notebook: its cells, run from top to bottom, print what is stored in it.

python -m tests.py.docs.test_notebook    stores what they print
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
END = "-- end of a cell --\n"


def code_cells(notebook: Any) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed_by(cells: list[dict[str, Any]]) -> list[str]:
    """What each cell prints, all of them in one process of their own."""
    program = "".join(f"{''.join(cell['source'])}\nprint({END[:-1]!r})\n" for cell in cells)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split(END)[:-1]


def outputs(text: str) -> list[dict[str, Any]]:
    """As notebooks store what was printed."""
    lines = text.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []


def test_the_cells_print_what_is_stored() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = code_cells(notebook)
    assert len(cells) >= 5
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell, printed in zip(cells, printed_by(cells), strict=True):
        assert cell["outputs"] == outputs(printed), "".join(cell["source"])


def store() -> None:
    """Write what the cells print into the notebook."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = code_cells(notebook)
    for number, (cell, printed) in enumerate(zip(cells, printed_by(cells), strict=True), 1):
        cell["outputs"], cell["execution_count"] = outputs(printed), number
    NOTEBOOK.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    store()
