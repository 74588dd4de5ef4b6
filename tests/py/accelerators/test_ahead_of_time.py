"""The benchmark that compiles programs for machines that are not here."""

from __future__ import annotations

import json

import pytest

from benchmarks import ahead_of_time


def test_forms_compile_for_both_machines(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["heat_by_roll", "graph_network", "vocabulary_of_50257", "six_heads_over_four"]
    assert ahead_of_time.main([*names, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["target"] for row in rows] == ["tpu:v5e:2x4", "gpu:h100:8"] * 4
    assert all(row["in_hlo"] == row["planned"] for row in rows)
    assert [row["program"] for row in rows[::2]] == names
    assert rows[-1]["planned"] == 0


def test_what_does_not_compile_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def refused(target: str) -> object:
        raise ImportError(f"no compiler for {target}")

    row = ahead_of_time.measured("one", "", "tpu:v5e:2x4", refused)  # type: ignore[arg-type]
    assert row["error"] == "no compiler for tpu:v5e:2x4"
