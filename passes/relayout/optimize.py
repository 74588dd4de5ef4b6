"""The pass that moves, merges and drops relayouts in the program of global shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import read_meshes
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.relayout.rewrites import (
    delay_reductions,
    erase_needless,
    hoist_invariants,
    move_narrow_values,
    share_equal,
    shorten_chains,
)
from dtensor.passes.relayout.values import Relayouts

REWRITES: tuple[Callable[[Relayouts], bool], ...] = (
    share_equal,
    shorten_chains,
    erase_needless,
    delay_reductions,
    move_narrow_values,
    hoist_invariants,
)
MAX_ROUNDS = 8  # every rewrite makes relayouts fewer, narrower or more outward; this is a guard


@dataclass(frozen=True)
class OptimizeRelayoutsPass(Pass):
    """Makes the relayouts of a program fewer and cheaper, without changing any strategy.

    Relayouts that undo one another cancel, and equal ones are shared; two partial values that are
    reduced and then added are added first; a value that is converted moves in its narrower type;
    and what a loop does not change is moved in front of it.
    """

    name: ClassVar[str] = "dtensor-optimize-relayouts"

    hoist: bool = True  # move relayouts of loop-invariant values out of loops: costs memory there
    narrow: bool = True  # move relayouts to the narrower side of a conversion

    def run(self, module: ir.Module, state: PassState) -> None:
        work = Relayouts(module, state, state.meshes or read_meshes(module))
        if not work.ops:
            return
        off = [move_narrow_values] * (not self.narrow) + [hoist_invariants] * (not self.hoist)
        for _ in range(MAX_ROUNDS):
            changed = [rewrite(work) for rewrite in REWRITES if rewrite not in off]
            if not any(changed):
                break
        state.forget_ir()
