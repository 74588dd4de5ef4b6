"""The benchmark of gaps, on a suite of one program."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "optimality.py"
SUITE = """
from types import SimpleNamespace
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

HOOK = None
def set_constrain_hook(hook):
    global HOOK
    HOOK = hook

def program(size, mesh):
    def fn(x, w):
        return HOOK(jnp.tanh(x @ w), P("x")).sum(0)

    rows = 8 if size == "test" else 64
    args = jax.ShapeDtypeStruct((rows, 16), jnp.float32), jax.ShapeDtypeStruct((16, 4), jnp.float32)
    return SimpleNamespace(
        fn=fn, abstract_args=lambda: args, in_specs=lambda: (P("x"), P(None, "y")),
        out_specs=P(), donate=(),
    )

def needs(size, mesh):
    raise ImportError("needs another package")

WORKLOADS = {
    "small": SimpleNamespace(mesh=lambda size: {"x": 2, "y": 4}, program=program),
    "other": SimpleNamespace(mesh=lambda size: {"x": 8}, program=needs),
}
"""


@pytest.fixture
def benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "workloads.py").write_text(SUITE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("workloads", "workloads_thirdparty"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("optimality", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_says_how_near_the_bound_a_plan_is(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--suite", str(tmp_path), "--size", "both", "--json", "small"]
    assert benchmark.main(arguments) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["size"] for row in rows] == ["test", "full"]
    for row in rows:
        assert 0.0 < row["bound_us"] <= row["cost_us"]
        assert row["gap"] == pytest.approx(1 - row["bound_us"] / row["cost_us"])


def test_an_axis_may_stand_as_several(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--suite", str(tmp_path), "--json", "small"]
    rows = []
    for more in ([], ["--axes", "3"]):
        assert benchmark.main([*arguments, *more]) == 0
        rows.append(json.loads(capsys.readouterr().out))
    assert rows[1]["mesh"] == {"x": 2, "y": 2, "y_2": 2}
    assert rows[1]["axes"] == 3
    assert 0.0 < rows[1]["bound_us"] <= rows[1]["cost_us"] <= rows[0]["cost_us"] * (1 + 1e-9)


def test_the_table_ends_with_the_largest_gap_and_what_failed_is_said(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark.main(["--suite", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "needs another package" in out
    assert "2 mesh axes: 1 programs" in out


def test_help_names_the_options(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--help"])
    assert "--effort" in capsys.readouterr().out
