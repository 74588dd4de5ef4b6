"""The patterns that are rewritten, one after another: a table, and who goes through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtensor.dialect.mlir import ir, is_read
from dtensor.passes.base import PassState
from dtensor.passes.cuts.banded_products import write_in_blocks
from dtensor.passes.cuts.block_rows import cut_rows
from dtensor.passes.cuts.chains import fuse_chains
from dtensor.passes.cuts.joined_pads import join_pads
from dtensor.passes.cuts.known_positions import write_as_cuts
from dtensor.passes.cuts.names import (
    BROADCAST,
    CUTS,
    DOT,
    INDEXED,
    REDUCE,
    RESHAPE,
    REVERSE,
    SELECT_AND_SCATTER,
    TRANSPOSE,
    WINDOWED,
)
from dtensor.passes.cuts.overlapped_frames import move_parts
from dtensor.passes.cuts.padded_scans import scan_within
from dtensor.passes.cuts.padding_modes import say_padding
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.cuts.sliced_scans import scan_what_is_kept
from dtensor.passes.cuts.strides import split_strides
from dtensor.passes.cuts.unit_reductions import keep_units
from dtensor.passes.cuts.window_padding import drop_idle, fuse_padding
from dtensor.passes.functions import main_function
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Visit

# Each rewrites what it finds of one pattern.
Step = Callable[[Rewriting], None]

# What nobody reads any more after a step is erased, if it is of these names or of those that a
# value is computed of element by element.
_ERASED = CUTS | WINDOWED | INDEXED
_ERASED |= {RESHAPE, TRANSPOSE, REVERSE, BROADCAST, REDUCE, DOT, SELECT_AND_SCATTER}

STEPS: tuple[Step, ...] = (
    # What hides slices and pads is written as those.
    write_as_cuts,
    move_parts,
    cut_rows,
    drop_idle,
    scan_within,
    scan_what_is_kept,
    # Windows say what they read and write around the values that they walk over.
    fuse_padding,
    say_padding,
    # Others are written so that more of them go together.
    keep_units,
    join_pads,
    split_strides,
    fuse_chains,
)


def run_steps(module: ir.Module, ops: Sequence[Visit], state: PassState) -> None:
    """Rewrite `@main`, whose operations these are, in place."""
    shards = Shards(main_function(module), state.meshes)
    # It rewrites one product at a time.
    while (found := _applied(write_in_blocks, module, Rewriting(ops, shards), state)) is not None:
        ops, shards = found, Shards(main_function(module), state.meshes)
    for step in STEPS:
        found = _applied(step, module, Rewriting(ops, shards), state)
        if found is not None:
            ops, shards = found, Shards(main_function(module), state.meshes)
    state.graph = shards.graph


def _applied(
    step: Step, module: ir.Module, function: Rewriting, state: PassState
) -> list[Visit] | None:
    """The operations after a step, without those that nobody reads; None if it changed nothing."""
    step(function)
    if not function.has_changed:
        return None
    old = [op for op, name, _ in function.ops if name in _ERASED or opdef(name).resizes]
    is_gone = _erase_unused([*old, *function.made])[len(old) :]
    for op, gone in zip(function.made, is_gone, strict=True):
        if not gone:
            state.ledger.add_op(op)
    state.forget_ir()
    return state.operations(main_function(module))


def _erase_unused(ops: Sequence[ir.Operation]) -> list[bool]:
    """Erase the operations that nobody reads, until all are read; which of them are gone."""
    gone = [False] * len(ops)
    has_changed = True
    while has_changed:
        has_changed = False
        for i in reversed(range(len(ops))):
            if gone[i] or any(map(is_read, ops[i].results)):
                continue
            ops[i].erase()
            gone[i] = has_changed = True
    return gone
