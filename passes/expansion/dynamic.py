"""Slices whose place is computed, on a shard."""

from __future__ import annotations

from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indexing import clamped
from dtensor.passes.rules.constants import constant_attribute


def expand_dynamic_slice(op: LocalOp) -> None:
    """A dimension that is taken whole is taken whole from the shard.

    Starts beyond the end are moved back here already: XLA adds up the starts of a slice and of the
    slice of it that cuts a shard, and forgets that the first of them had an end of its own.
    """
    op.set_integers("slice_sizes", op.local_result_shape())
    for d, (size, kept) in enumerate(zip(op.operand_shapes[0], op.result_shapes[0], strict=True)):
        last = size - kept
        is_one = kept == 1 and last > 0  # nobody cuts that further
        if not is_one and not _is_within(op.operands[d + 1], last):
            start = clamped(op.ctx, op.operands[d + 1], last + 1)
            op.operation.operands[d + 1] = start


def _is_within(start: ir.Value[Any], last: int) -> bool:
    """Whether a start is a constant from 0 to `last`."""
    maker = start.owner
    if isinstance(maker, ir.Block) or maker.operation.name != "stablehlo.constant":
        return False
    value = constant_attribute(maker.operation)
    return value is not None and 0 <= ir.IntegerAttr(value.get_splat_value()).value <= last
