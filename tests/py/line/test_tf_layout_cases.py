"""TensorFlow DTensor's operations, run here: values, and layouts against those TensorFlow gave.

`tf_layouts.json` holds cases that TensorFlow 2.21 ran; `benchmarks/layout_cases.py` runs them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.py import fresh

RUNNER = Path(__file__).parents[3] / "benchmarks" / "layout_cases.py"
ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("tf_layouts.json").read_text())

# The rows whose layout is not TensorFlow's, by why it is better, in the runner's words.
BETTER = {
    # 396: a split of a sharded dimension.
    "works here, an error in TensorFlow": [396],
    # A layout forgets axes of size 1, which TensorFlow writes down.
    "the same placement: the mesh axis has one device": [476, 478, 480, 482, 484, 486],
    # 42: an operation that TensorFlow only runs whole. 102, 106: joined along a sharded dimension.
    # 144, 170, 298: a slice, its gradient and a gather of a sharded dimension, whose axis moves to
    # another.
    # 202 to 284: an axis wanted by two of the rows, columns, batch and contracted dimensions of a
    # product, where TensorFlow shards neither. 318: a diagonal, which stays in its rows. 320, 326:
    # a cumulative sum along a sharded dimension, whose axis moves to another. 348, 350: what is
    # added to is sharded where it is scattered to, which TensorFlow gathers.
    "more shards: each device holds fewer bytes, and sends no more": [
        *(42, 102, 106, 144, 170, 202, 204, 242, 244, 258, 260, 270, 272, 284),
        *(298, 318, 320, 326, 348, 350),
    ],
    # One operand is sharded over its batch, and the other over its rows by the same axis.
    "as many shards, and each device sends fewer bytes": [266, 268],
    # What is added to keeps its layout; TensorFlow takes that of the addends.
    "as many shards and bytes sent, and the first operand stays where it is": [352],
}
MOST_BETTER = 0.15  # of the rows

# Four groups of about the same time; one process each.
COMMON = [row for row in ROWS if row["mesh"] == {"x": 2, "y": 4}]
OTHERS = [row for row in ROWS if row["mesh"] != {"x": 2, "y": 4}]
GROUPS = {"first": COMMON[:70], "second": COMMON[70:140], "third": COMMON[140:], "others": OTHERS}


def run_rows(rows: Sequence[dict[str, Any]], folder: Path) -> tuple[int, list[str], list[Any]]:
    """The runner's exit status, lines and verdicts."""
    file, verdicts = folder / "rows.json", folder / "verdicts.json"
    file.write_text(json.dumps(rows))
    words = [str(RUNNER), str(file), "--json", str(verdicts)]
    done = fresh.run(words, env=os.environ, timeout=600)
    assert verdicts.exists(), done.stderr
    return done.returncode, done.stdout.splitlines(), json.loads(verdicts.read_text())


@pytest.mark.sweep
@pytest.mark.parametrize("group", GROUPS)
def test_values_are_right_and_layouts_are_tensorflows_or_a_stated_better_one(
    group: str, tmp_path: Path
) -> None:
    rows = GROUPS[group]
    status, lines, verdicts = run_rows(rows, tmp_path)
    assert [line for line in lines if line.startswith("FAILED")] == []
    found = {v["id"]: v["reason"] for v in verdicts if v["reason"]}
    here = {row["id"] for row in rows}
    assert found == {i: why for why, ids in BETTER.items() for i in ids if i in here}
    assert (status, lines[-1]) == (0, f"{len(rows)} passed, 0 failed")


def test_few_rows_are_other_than_tensorflows() -> None:
    assert len(ROWS) == 260
    assert sum(map(len, GROUPS.values())) == len(ROWS)
    assert sum(map(len, BETTER.values())) <= MOST_BETTER * len(ROWS)


def row(op: str, spec: list[str], result: list[str] | None, **more: Any) -> dict[str, Any]:
    operand = {"shape": [4, 8], "dtype": "float32", "layout": spec}
    return {
        "id": op,
        "op": op,
        "attrs": {},
        "operands": [operand],
        "mesh": {"x": 2},
        "expected_layout": result,
        "mode": "eager",
        **more,
    }


def test_rows_that_are_not_so_fail_with_their_reason(tmp_path: Path) -> None:
    whole, rows, columns = ["unsharded"] * 2, ["x", "unsharded"], ["unsharded", "x"]
    status, lines, verdicts = run_rows(
        [
            row("Abs", rows, rows),
            row("Foo", rows, rows),
            row("Neg", rows, columns),  # what TensorFlow gives costs an exchange
            row("Exp", whole, rows),
            row("Cos", rows, columns, mode="sideways"),
            row("Sin", rows, columns, tf_2_21={"layout": rows}),  # what TensorFlow did counts
            row("Reshape", rows, rows, attrs={"shape": [5]}),
            row("Relayout", columns, ["x", "x"], mode="eager+relayout"),
            row("Tanh", rows, None, expected_error="UnknownError"),
        ],
        tmp_path,
    )
    assert status == 1
    assert lines[-1] == "4 passed, 5 failed"
    reasons = {v["id"]: (v["passed"], v["reason"]) for v in verdicts}
    assert reasons["Abs"] == reasons["Sin"] == (True, "")
    assert reasons["Foo"] == (False, "op Foo is not in the table")
    assert reasons["Exp"] == (False, "another layout, not known to be better")
    assert reasons["Neg"] == (True, "as many shards, and each device sends fewer bytes")
    assert "sideways" in reasons["Cos"][1]
    assert reasons["Reshape"][1].startswith("TypeError")
    assert reasons["Relayout"][1].startswith("LayoutError")
    assert reasons["Tanh"] == (True, "works here, an error in TensorFlow")
    assert (
        "FAILED Exp Exp (eager) [4, 8][U,U] on x=2: TensorFlow [x,U], here [U,U]: "
        "another layout, not known to be better"
    ) in lines
