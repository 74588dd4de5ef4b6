"""Bitwise `and` and `or` of integers across devices.

XLA reduces across devices by sum, product, minimum and maximum, and truth values by `and` and
`or`, but not the bits of integers. Those are exchanged and combined on each device.
"""

from __future__ import annotations

from typing import Any

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.builder import integer_attr, integers_attr
from dtensor.passes.lowering.emitter import Emitter
from dtensor.passes.ops.reduction import Reduction


def all_reduce_bits(
    value: ir.Value[Any],
    mesh: Mesh,
    axes: tuple[AxisRef, ...],
    parts: int,
    kind: str,
    emitter: Emitter,
) -> ir.Value[Any]:
    """An all_gather into a new first dimension, which is then reduced."""
    shape, element = emitter.read_type(value.type)
    row = emitter.reshape(value, (1, *shape))
    gathered = emitter.tensor_type((parts, *shape), element)
    attributes = {"all_gather_dim": integer_attr(0)}
    name = "stablehlo.all_gather"
    rows = emitter.collective(name, [row], [gathered], mesh, axes, attributes).results[0]
    return _reduced(rows, 0, kind, emitter)


def reduce_scatter_bits(
    value: ir.Value[Any],
    dim: int,
    mesh: Mesh,
    axes: tuple[AxisRef, ...],
    parts: int,
    kind: str,
    emitter: Emitter,
) -> ir.Value[Any]:
    """An all_to_all of the parts of `dim`, which are then reduced."""
    shape = emitter.shape_of(value)
    attributes = {
        "split_dimension": integer_attr(dim),
        "concat_dimension": integer_attr(dim),
        "split_count": integer_attr(parts),
    }
    name = "stablehlo.all_to_all"
    moved = emitter.collective(name, [value], [value.type], mesh, axes, attributes).results[0]
    rows = (*shape[:dim], parts, shape[dim] // parts, *shape[dim + 1 :])
    return _reduced(emitter.reshape(moved, rows), dim, kind, emitter)


def _reduced(value: ir.Value[Any], dim: int, kind: str, emitter: Emitter) -> ir.Value[Any]:
    shape, element = emitter.read_type(value.type)
    scalar = emitter.tensor_type((), element)
    start = emitter.identity(kind, scalar)
    type_ = emitter.tensor_type((*shape[:dim], *shape[dim + 1 :]), element)
    attributes = {"dimensions": integers_attr([dim])}
    op = emitter.create("stablehlo.reduce", [value, start], [type_], attributes, regions=1)
    emitter.reduction_body(op, Reduction.named(kind).op, scalar)
    result: ir.Value[Any] = op.results[0]
    return result
