"""Sort: rows are sorted each by itself, a split row by exchanges between its shards."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, forget
from dtensor.dialect.names import PLACES, SIZE
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import true_size
from dtensor.passes.ops.columnsort import (
    columnsort_bytes,
    count_from_front,
    exchanges,
    expand_exchange,
    sorted_dimension,
)
from dtensor.passes.ops.opdef import (
    Algorithm,
    OpDef,
    Placed,
    comparisons,
    placed_of,
    says,
)
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder


def sort_rule(op: OpInfo) -> OpRule:
    """`ij,ij->ij,ij`; a split `j`, which is sorted, is exchanged between its shards."""
    builder = RuleBuilder(op)
    for d in range(len(op.operand_shapes[0])):
        kind = FactorKind.ORDER if d == sorted_dimension(op) else None
        builder.share(*builder.everywhere(d), kind=kind)
    return builder.build()


def sort_flops(op: OpInfo) -> float:
    """N log2 n comparisons of each row, which all operands are moved by."""
    return comparisons(op, sorted_dimension(op)) * len(op.operand_shapes)


def sort_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Rows may be longer; what is beyond their end stays there."""
    count = len(op.operand_shapes)
    if not op.operand_shapes[0]:
        return []
    dim = sorted_dimension(op)
    return [tuple(padding.Along(slot, dim) for k in range(count) for slot in (k, ~k))]


def lengthen_sort(op: padding.Grown) -> None:
    """Say where rows end."""
    dim = sorted_dimension(op.info)
    if op.operands[0]:
        op.say_size(dim)


def _sorts_whole(placed: Placed) -> bool:
    dim = sorted_dimension(placed.op)
    return all(layout.dims[dim].split == 1 for layout in placed.operands if layout.rank)


def expand_rows(op: LocalOp) -> Sequence[Value] | None:
    """Every row by itself, without what is beyond its end; what was said of it has served."""
    if SIZE not in op.operation.attributes:
        forget(op.operation, PLACES)
        return None
    ctx, dim = op.ctx, sorted_dimension(placed_of(op).op)
    size = op.operand_shapes[0][dim]
    true = true_size(op.operation, size)
    forget(op.operation, PLACES, SIZE)
    rows = [ctx.cut(value, dim, 0, true) for value in op.operands]
    found = op.again(rows, [row.type for row in rows]).results
    return [ctx.lengthened(value, dim, 0, size) for value in found]


SORT = OpDef(
    sort_rule,
    (
        Algorithm("columnsort", expand_exchange, exchanges, columnsort_bytes),
        Algorithm("local", expand_rows, _sorts_whole),
    ),
    flops=sort_flops,
    settle=count_from_front,
    known=says(PLACES, SIZE),
    padding=padding.Padding(refit=lengthen_sort, ties=sort_ties),
)
