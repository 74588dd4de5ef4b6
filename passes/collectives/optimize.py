"""The pass that makes local collectives fewer and smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import read_meshes
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.collectives.combine import combine_all_reduces, merge_duplicates
from dtensor.passes.collectives.reader import Collectives
from dtensor.passes.collectives.rewrites import rewrite


@dataclass(frozen=True)
class OptimizeCollectivesPass(Pass):
    """Rewrites the collectives of a per-device module so that less crosses the wire.

    Equal operations merge; operations whose results are not used go; a slice of what was gathered
    cancels, or comes first, or makes the gather an all_to_all; a slice of what was reduced becomes
    a reduce_scatter; an all_reduce of an all_reduce becomes one; and neighbouring all_reduces are
    combined into one of several operands.
    """

    name: ClassVar[str] = "dtensor-optimize-collectives"

    combine_bytes: int = 32 << 20  # bytes up to which all_reduces are combined; 0: not at all

    def run(self, module: ir.Module, state: PassState) -> None:
        work = Collectives(module, state.meshes or read_meshes(module))
        if not work.items:
            return
        merge_duplicates(work)
        for item in reversed(work.items):
            if item.is_alive and work.is_unused(item):
                work.erase(item)
        while work.worklist:
            rewrite(work, work.items[work.worklist.pop()])
        if self.combine_bytes:
            combine_all_reduces(work, self.combine_bytes)
        state.forget_ir()
