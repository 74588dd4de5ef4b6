"""Rows that slices take apart, and that pads and a sum interleave again."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.patterns import is_zero
from dtensor.passes.ops.reduction import Reduction

WEAVES = (Reduction.SUM.op, Reduction.OR.op)
_PADDING = ("edge_padding_low", "interior_padding")


def woven_dim(op: ir.Operation) -> int | None:
    """Along which dimension an op puts an element of one value after each of another."""
    pads = [maker_of(operand) for operand in op.operands] if op.name in WEAVES else []
    rows = []
    for pad in pads:
        if pad is None or pad.name != "stablehlo.pad" or not is_zero(pad.operands[1]):
            return None
        rows.append([integers(pad.attributes[name]) for name in _PADDING])
    if len(rows) != 2 or sum(rows[0][1]) != 1:
        return None
    dim = rows[0][1].index(1)
    one = [int(d == dim) for d in range(len(rows[0][1]))]
    none = [0] * len(one)
    return dim if rows == [[none, one], [one, one]] else None


def sliced_rows(
    op: ir.Operation, dim: int, start: int, count: int, size: int, stride: int
) -> Value | None:
    """What an operation takes some rows of, whole ones; None if it is no such slice.

    The slice takes `count` of `size` rows from `start` on, one of every `stride`.
    """
    if op.name != "stablehlo.slice":
        return None
    source: Value = op.operands[0]
    before, after = shape_of(source), shape_of(op.results[0])
    if before[dim : dim + 1] != [size] or after != [*before[:dim], count, *before[dim + 1 :]]:
        return None
    if count and integers(op.attributes["start_indices"])[dim] != start:
        return None
    if count > 1 and integers(op.attributes["strides"])[dim] != stride:
        return None
    return source
