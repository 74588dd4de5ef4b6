"""Operations that compute each element along a dimension by itself, and what they read for that.

So `jnp.exp(x[1:]) * 2`, computed of a slice, may as well be a slice of what is computed of `x`.
"""

from __future__ import annotations

import math

from dtensor.dialect.mlir import ir, maker_of
from dtensor.passes.ops.attributes import integers, shape_of, spread_dims
from dtensor.passes.ops.table import opdef
from dtensor.passes.rewriting.names import BROADCAST, REDUCE, RESHAPE, TRANSPOSE
from dtensor.passes.rewriting.shards import At


def read_along(op: ir.Operation, dim: int) -> dict[int, int] | None:
    """What an operation reads, to compute each element along a dimension of its result by itself.

    Returns:
        By operand, the dimension along which it is read so; not of operands that are the same for
        all elements. None if elements along the dimension are not computed by themselves.
    """
    shape, sizes = shape_of(op.results[0]), shape_of(op.operands[0]) if len(op.operands) else []
    if op.name == BROADCAST:
        dims = spread_dims(op)
        is_given = dim in dims and sizes[dims.index(dim)] != 1
        return {0: dims.index(dim)} if is_given else {}
    if op.name == REDUCE and len(op.operands) == 2:
        reduced = integers(op.attributes["dimensions"])
        return {0: [d for d in range(len(sizes)) if d not in reduced][dim]}
    if op.name == TRANSPOSE:
        return {0: integers(op.attributes["permutation"])[dim]}
    if op.name == RESHAPE:
        before = math.prod(shape[:dim])
        same = [d for d, n in enumerate(sizes) if n == shape[dim]]
        return next(({0: d} for d in same if math.prod(sizes[:d]) == before), None)
    if not opdef(op.name).resizes:
        return None
    return {k: dim for k, value in enumerate(op.operands) if shape_of(value)}


def computed_of(at: At) -> list[At] | None:
    """What a value is computed of, each element along a dimension by itself; None if it is not."""
    op = maker_of(at[0])
    read = None if op is None else read_along(op, at[1])
    return None if op is None or read is None else [(op.operands[k], d) for k, d in read.items()]
