"""In which order in memory XLA for CPU wants the operands of products and collectives.

A dot whose batch dimensions do not come first, or with several dimensions that are contracted or
kept, becomes one of matrices, the left with its contracted elements last, the right either way.
A collective along a dimension treats it as the first in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import ir
from dtensor.passes.graph import OpReader
from dtensor.passes.ops.attributes import dot_sides

COLLECTIVE_DIMENSIONS = {
    "stablehlo.all_gather": "all_gather_dim",
    "stablehlo.reduce_scatter": "scatter_dimension",
}
_DOT = "stablehlo.dot_general"


def wanted_orders(
    op: ir.Operation, name: str, types: OpReader
) -> list[tuple[int, tuple[int, ...]]]:
    """The operands that are read in another order than theirs, and the dimensions in that order."""
    if name == _DOT:
        return _of_dot(op, types)
    if name not in COLLECTIVE_DIMENSIONS:
        return []
    dim = ir.IntegerAttr(op.attributes[COLLECTIVE_DIMENSIONS[name]]).value
    found = []
    for k, value in enumerate(op.operands):
        shape = types.type_info(value.type, None).shape
        others = [d for d in range(len(shape)) if d != dim]
        if math.prod(shape[:dim]) > 1:
            found.append((k, (dim, *others)))
    return found


def _of_dot(op: ir.Operation, types: OpReader) -> list[tuple[int, tuple[int, ...]]]:
    sides = dot_sides(op)
    shapes = [types.type_info(value.type, None).shape for value in op.operands]
    if all(map(_is_matrix, shapes, sides)):
        return []
    found = []
    for k, (shape, (batch, contracted)) in enumerate(zip(shapes, sides, strict=True)):
        kept = [d for d in range(len(shape)) if d not in (*batch, *contracted)]
        rows, columns = (*batch, *kept, *contracted), (*batch, *contracted, *kept)
        orders = (rows,) if k == 0 else (columns, rows)
        if not any(_is_in_order(shape, order) for order in orders):
            found.append((k, orders[0]))
    return found


def _is_in_order(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Whether elements lie in this order, dimensions of size 1 left out."""
    long = [d for d in order if shape[d] > 1]
    return long == sorted(long)


def _is_matrix(shape: Sequence[int], side: tuple[Sequence[int], Sequence[int]]) -> bool:
    """Whether an operand is a matrix, or several one after the other."""
    batch, contracted = side
    kept = len(shape) - len(batch) - len(contracted)
    return list(batch) == list(range(len(batch))) and len(contracted) == 1 and kept <= 1
