"""The backend file of the benchmark suite, with stand-ins for the suite's own modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "peer_backend.py"


class Record:
    """What the suite's `Compiled` takes: the last arguments are functions of the program."""

    def __init__(self, *report: Any, call: Any, put: Any, step: Any) -> None:
        self.report, self.call, self.put, self.step = report, call, put, step


def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    modules: dict[str, dict[str, Any]] = {
        "hlo_metrics": {"collectives": lambda hlo, devices, trips: ([], 0)},
        "workloads": {"set_constrain_hook": lambda hook: None},
        "backend_api": {"Backend": object, "Compiled": Record},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("peer_backend", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Backend()


@pytest.mark.parametrize("specs", [{"w": P(None, "x"), "b": None}, {"w": None, "b": None}])
def test_an_argument_may_be_none(specs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def dense(params: Any, x: Any) -> Any:
        y = x @ params["w"]
        return y if params["b"] is None else y + params["b"]

    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    shapes = jax.eval_shape(lambda *args: args, {"w": w, "b": None}, x)
    compiled = backend(monkeypatch).compile(dense, {"x": 2}, shapes, (specs, P("x")), None)
    np.testing.assert_array_equal(compiled.call({"w": w, "b": None}, x), x @ w)
