"""Slices whose place is computed: what they hold whole can be split, what they cut cannot."""

from __future__ import annotations

from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import constant_attribute
from dtensor.passes.ops.indexing import clamped
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def dynamic_slice_rule(op: OpInfo) -> OpRule:
    """`ij,,->ij`; a dimension of which only some elements are taken is whole.

    The start indices are scalars and complete; parts of the operand are cut each by itself.
    """
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        kept = op.result_shapes[0][d]
        if kept != size:
            builder.whole(0, d, f"has {kept} of {size} elements taken, from a computed place on")
            continue
        factor = builder.factor(size)
        builder.operand(0, d, factor)
        builder.result(0, d, factor)
    parts = [k == 0 for k in range(len(op.operand_shapes))]
    builder.passes_each(reductions_of(op.result_elements[0]), parts)
    return builder.build()


def dynamic_update_slice_rule(op: OpInfo) -> OpRule:
    """`ij,ij,,->ij`; a dimension of which only some elements are updated is whole.

    Parts pass if both the operand and the update are parts, for elements are only moved.
    """
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        new = op.operand_shapes[1][d]
        if new != size:
            reason = f"has {new} of {size} elements updated, from a computed place on"
            builder.whole(0, d, reason)
            builder.whole(1, d, reason)
            continue
        factor = builder.factor(size)
        builder.operand(0, d, factor)
        builder.operand(1, d, factor)
        builder.result(0, d, factor)
    parts = [k < 2 for k in range(len(op.operand_shapes))]
    builder.passes_each(reductions_of(op.result_elements[0]), parts)
    return builder.build()


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


DYNAMIC_SLICE = OpDef(
    dynamic_slice_rule, (local(expand_dynamic_slice),), fuses=True, moves_only=True
)
DYNAMIC_UPDATE_SLICE = OpDef(dynamic_update_slice_rule, moves_only=True)
