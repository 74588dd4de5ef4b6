"""Ops that only rename, repeat or regroup dimensions; parts of any reduction pass through."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.reduction import reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def pass_all(builder: RuleBuilder, count: int = 1) -> None:
    """Every reduction passes, if all `count` operands are parts of it: the elements only move."""
    builder.passes_each(reductions_of(builder.op.result_elements[0]), [True] * count)


def broadcast_in_dim_rule(op: OpInfo) -> OpRule:
    """`j->ij`: a dimension that is new, or grows from one element, can be split for free."""
    shape, result = op.operand_shapes[0], op.result_shapes[0]
    source = {d: k for k, d in enumerate(integers(op.attribute("broadcast_dimensions")))}
    builder = RuleBuilder(op)
    for d, size in enumerate(result):
        is_read = d in source and shape[source[d]] == size
        builder.share((~0, d), *([(0, source[d])] if is_read else []))
    pass_all(builder)
    return builder.build()


def transpose_rule(op: OpInfo) -> OpRule:
    """Result dimension i is operand dimension `permutation[i]`: `ijk->kij`."""
    builder = RuleBuilder(op)
    for d, source in enumerate(integers(op.attribute("permutation"))):
        builder.share((0, source), (~0, d))
    pass_all(builder)
    return builder.build()


def reshape_rule(op: OpInfo) -> OpRule:
    """Dimensions that hold the same elements form a group, and a group is one factor.

    In `[6, 4] -> [24]` the 24 elements are the digits of one index: dimension 0 has the first 6
    combinations of it, dimension 1 the other 4.
    """
    before, after = op.operand_shapes[0], op.result_shapes[0]
    builder = RuleBuilder(op)
    if math.prod(before) == 0:
        for d in range(len(before)):
            builder.whole(0, d, "is reshaped, and the tensor has no elements")
    else:
        for left, right in regroup(before, after):
            factor = builder.factor(math.prod(before[d] for d in left))
            for slot, dims, shape in ((0, left, before), (~0, right, after)):
                ahead = 1
                for d in dims:
                    builder.carry(slot, d, factor, ahead)
                    ahead *= shape[d]
    pass_all(builder)
    return builder.build()


def regroup(
    before: tuple[int, ...], after: tuple[int, ...]
) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions of equal product; dimensions of one element are left out.

    Both shapes have as many elements, more than none.
    """
    left = [d for d, size in enumerate(before) if size != 1]
    right = [d for d, size in enumerate(after) if size != 1]
    i = j = 0
    while i < len(left):
        group_left, group_right = [left[i]], [right[j]]
        have, need = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while have != need:
            if have < need:
                group_left.append(left[i])
                have *= before[left[i]]
                i += 1
            else:
                group_right.append(right[j])
                need *= after[right[j]]
                j += 1
        yield group_left, group_right


BROADCAST_IN_DIM = OpDef(
    broadcast_in_dim_rule,
    fuses=True,
    rematerialisable=True,
    moves_only=True,
    resizes=True,
    padding=padding.ANY,
)
TRANSPOSE = OpDef(transpose_rule, fuses=True, moves_only=True, padding=padding.ANY)
RESHAPE = OpDef(reshape_rule, fuses=True, moves_only=True, padding=padding.Padding(regroups=True))
