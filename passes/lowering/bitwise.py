"""Bitwise `and` and `or` of integers across devices.

XLA reduces across devices by sum, product, minimum and maximum, and truth values by `and` and
`or`, but not the bits of integers. Those are exchanged and combined on each device.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import integer_attr
from dtensor.passes.lowering.emitter import Emitter, Over


def all_reduce_bits(value: Value, over: Over, kind: str, emitter: Emitter) -> Value:
    """An all_gather into a new first dimension, which is then reduced."""
    shape, element = emitter.read_type(value.type)
    row = emitter.reshape(value, (1, *shape))
    gathered = emitter.tensor_type((over.parts, *shape), element)
    attributes = {"all_gather_dim": integer_attr(0)}
    name = "stablehlo.all_gather"
    rows = emitter.collective(name, [row], [gathered], over, attributes).results[0]
    return emitter.reduced(rows, 0, kind)


def reduce_scatter_bits(value: Value, dim: int, over: Over, kind: str, emitter: Emitter) -> Value:
    """An all_to_all of the parts of `dim`, which are then reduced."""
    shape = emitter.shape_of(value)
    attributes = {
        "split_dimension": integer_attr(dim),
        "concat_dimension": integer_attr(dim),
        "split_count": integer_attr(over.parts),
    }
    name = "stablehlo.all_to_all"
    moved = emitter.collective(name, [value], [value.type], over, attributes).results[0]
    rows = (*shape[:dim], over.parts, shape[dim] // over.parts, *shape[dim + 1 :])
    return emitter.reduced(emitter.reshape(moved, rows), dim, kind)
