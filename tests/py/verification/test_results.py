"""Results as a whole: what rounding explains is no difference, and what it does not is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.cuts.fuse import FuseCutsPass
from dtensor.passes.functions import main_function
from dtensor.passes.program import walk

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ROWS = dtensor.Layout([("x", "y"), None], MESH)
X = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)


def bits(a: Any) -> Any:
    return lax.bitcast_convert_type(a, jnp.int32)


SENSITIVE: dict[str, Callable[[Any], Any]] = {
    "terms that cancel": lambda a: (a - a.mean()).sum(),
    "bits": lambda a: bits(a.sum(0) * 2),
    "integers of bits": lambda a: bits(a.sum(0) * 2) * 3 >> 2,
    "truncated": lambda a: (a.sum(0) * 2e6).astype(jnp.int32),
    "signs of what cancels": lambda a: jnp.sign(a.sum(0) - a[::-1].sum(0)),
    "remainders": lambda a: jnp.mod(a.sum(0) * 1e5, 1.0),
}


@pytest.mark.sweep
@pytest.mark.parametrize("case", SENSITIVE)
def test_what_rounding_explains_is_no_difference(case: str) -> None:
    report = dtensor.verify(SENSITIVE[case], X, in_layouts=(ROWS,))
    assert report.ok, str(report)


@pytest.mark.parametrize("case", ["bits", "truncated"])
def test_what_rounding_does_not_explain_is_one(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    run = FuseCutsPass.run

    def wrong(self: Any, module: ir.Module, state: PassState) -> None:
        run(self, module, state)
        for op, name, _ in list(walk(main_function(module))):
            if name == "stablehlo.multiply":  # by a constant, which is read twice
                op.operands[0] = op.operands[1]

    monkeypatch.setattr(FuseCutsPass, "run", wrong)
    report = dtensor.verify(SENSITIVE[case], X, in_layouts=(ROWS,))
    assert [d.operation for d in report.differences] == ["result"]


def test_one_wrong_element_among_many_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few signs are open: all others must agree."""
    run = FuseCutsPass.run

    def wrong(self: Any, module: ir.Module, state: PassState) -> None:
        run(self, module, state)
        for op, name, _ in list(walk(main_function(module))):
            if name == "stablehlo.sign":
                op.operands[0] = op.operands[0].owner.operation.operands[0]

    monkeypatch.setattr(FuseCutsPass, "run", wrong)
    report = dtensor.verify(lambda a: jnp.sign(a.sum(0) - a[1:].sum(0)), X, in_layouts=(ROWS,))
    assert [d.operation for d in report.differences] == ["result"]
