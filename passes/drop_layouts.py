"""Dropping layouts: plain StableHLO again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import names
from dtensor.dialect.mlir import every, forget, ir, replace_op
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import drop_boundary_layouts


@dataclass(frozen=True)
class DropLayoutsPass(Pass):
    """Removes every layout attribute and every dtensor.relayout.

    What is left has the same values and says nothing of a mesh. Collectives stay.
    """

    name: ClassVar[str] = "dtensor-drop-layouts"
    keep_borders: bool = False  # leave the layouts of function arguments and results

    def run(self, module: ir.Module, state: PassState) -> None:
        for op in every(module.operation):
            if op.name == names.RELAYOUT:
                replace_op(op, op.operands)
                continue
            forget(op, names.OPERANDS, names.RESULTS, names.ALGORITHM)
            if op.name == names.FUNC and not self.keep_borders:
                drop_boundary_layouts(op)
        state.forget_ir()
