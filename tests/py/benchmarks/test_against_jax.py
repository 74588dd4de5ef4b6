"""The benchmark beside jax.jit: it measures what it says, and the pages show its last run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.against_jax import report
from benchmarks.against_jax.measure import measure
from benchmarks.against_jax.table import WORKLOADS


@pytest.mark.parametrize("page", report.PAGES)
def test_the_tables_are_those_of_the_results(page: str) -> None:
    text, wanted = report.page(page)
    assert "<!-- bench:" in text
    assert text == wanted, "run python -m benchmarks.against_jax.report"


def test_the_results_are_of_these_workloads() -> None:
    rows = json.loads(report.RESULTS.read_text(encoding="utf-8"))["workloads"]
    assert {name: row["title"] for name, row in rows.items()} == {
        name: workload.title for name, workload in WORKLOADS.items()
    }


def test_a_workload_is_measured_under_both() -> None:
    mine, other = measure(WORKLOADS["all_pairs_forces"], calls=1).values()
    # Positions and masses are gathered: 7/8 of 4 floats of each of 1024 bodies.
    assert mine["collectives"] == {"all_gather": 1}  # in one message
    assert other["collectives"] == {"all_gather": 2}
    for found in (mine, other):
        assert found["wire_bytes"] == 7 / 8 * 1024 * 4 * 4
        assert found["largest_difference"] < 1e-5
        assert found["memory_bytes"] > 1024 * 4 * 4
        assert found["step_seconds"] > 0


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_computes_what_one_device_does(name: str) -> None:
    """Under dtensor; that jax.jit divides the others as it should, the benchmark itself says."""
    (found,) = measure(WORKLOADS[name], 0, compilations=1, compilers=("dtensor",)).values()
    assert found["largest_difference"] < 1e-5  # sums of float32 over 8 shards


def results(*bytes_of: tuple[float, float]) -> dict[str, Any]:
    fields = dict.fromkeys(
        ("local_flops", "memory_bytes", "seconds_to_executable", "step_seconds"), 2.0
    )
    rows = {
        f"w{i}": {
            "title": f"program {i}",
            "dtensor": fields | {"wire_bytes": mine},
            "jax": fields | {"wire_bytes": other},
        }
        for i, (mine, other) in enumerate(bytes_of)
    }
    return {"made_with": {"jax": "0.0"}, "workloads": rows}


def test_the_summary_says_where_dtensor_loses() -> None:
    text = report.summary(results((100.0, 100.0), (300.0, 100.0), (1.0, 2.0), (0.0, 0.0)))
    assert "Of 4 programs dtensor sends less than jax.jit on 1, the same on 2 and more on 1" in text
    assert "more on 1: program 1 (3 times)." in text


def test_the_best_program_stands_first() -> None:
    header, first, *_, last = report.rows_of(results((3e3, 1e3), (1e3, 2e3)), ("wire_bytes",))
    assert header == ["dtensor / jax.jit", "kB sent"]
    assert first == ["program 1", "1.0 / 2.0"]
    assert last == ["program 0", "3.0 / 1.0"]


def test_a_table_takes_the_place_of_the_one_before() -> None:
    page = "above\n<!-- bench: x -->\n\nold\n\n<!-- end -->\nbelow"
    assert (
        report.with_table(page, "new") == "above\n<!-- bench: x -->\n\nnew\n\n<!-- end -->\nbelow"
    )


def test_without_matplotlib_there_is_no_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "no chart" in report.write_chart(results((1.0, 2.0)), tmp_path / "chart.svg")
    assert not list(tmp_path.iterdir())
