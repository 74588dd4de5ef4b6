"""Operations that move whole shards: of several one behind the other, one permute moves all."""

from __future__ import annotations

from dtensor.dialect.mlir import ir, maker_of, reader_of
from dtensor.dialect.names import COUNTS, DIM, SOURCES, SPLICE, STARTS
from dtensor.passes.ops.attributes import integer, integers, shape_of
from dtensor.passes.ops.opdef import Placed
from dtensor.passes.ops.table import opdef

Move = tuple[int, int]  # a dimension, and by how many elements it is rolled; 0 if it is reversed

_DEEPEST = 8  # operations that moved a value before


def moves_before(operation: ir.Operation) -> tuple[Move, ...]:
    """How what an operation reads was moved before, the last first: of values that one reads."""
    found, value, depth = list[Move](), operation.operands[0], 0
    while depth < _DEEPEST and reader_of(value) is not None and (maker := maker_of(value)):
        moves = _moves_of(maker)
        if not moves and not _is_in_place(maker):
            break
        found += moves
        value, depth = maker.operands[0], depth + 1
    return tuple(found)


def _is_in_place(op: ir.Operation) -> bool:
    """Whether an operation computes each element of the one at its place, and of nothing else."""
    if len(op.operands) != 1 or not opdef(op.name).resizes:
        return False
    return shape_of(op.operands[0]) == shape_of(op.results[0])


def _moves_of(op: ir.Operation) -> list[Move]:
    """How a reversal or a roll moves elements; nothing of other operations."""
    if op.name == "stablehlo.reverse":
        return [(dim, 0) for dim in integers(op.attributes["dimensions"])]
    if op.name != SPLICE or len(op.operands) > 1:
        return []
    dim, place, shifts = integer(op.attributes[DIM]), 0, set[int]()
    size = shape_of(op.results[0])[dim]
    columns = [integers(op.attributes[name]) for name in (SOURCES, STARTS, COUNTS)]
    for _, start, count in zip(*columns, strict=True):
        shifts.add((place - start) % size)
        place += count
    return [(dim, shift) for shift in shifts] if len(shifts) == 1 else []


def comes_along(placed: Placed) -> bool:
    """Whether shards that an op moves whole were moved whole before, so that it sends nothing."""
    sizes, dims = placed.op.result_shapes[0], placed.results[0].dims
    for dim, shift in moves_before(placed.op.operation):
        if dims[dim].split > 1:
            return not shift % (sizes[dim] // dims[dim].split)
    return False
