"""What several operations need of a shard's neighbours, in one exchange."""

from __future__ import annotations

from dtensor.dialect.mlir import ir
from dtensor.dialect.names import DIM, HALO_EXCHANGE, HIGH, LOW
from dtensor.passes.builder import Builder
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps, as_they_stand
from dtensor.passes.creation import with_sizes
from dtensor.passes.ops.attributes import element_of, integer, shape_of


def share_halos(work: CollectiveOps) -> None:
    """Exchange once what is exchanged of one value, as far as any of them reaches."""
    groups: dict[object, list[CollectiveOp]] = {}
    for item in work.items:
        if item.is_alive and item.name == HALO_EXCHANGE:
            key = item.scope, item.op.operands[0], item.dim, item.mesh, tuple(item.axes)
            groups.setdefault(key, []).append(item)
    for group in groups.values():
        if len(group) > 1:
            _share(work, as_they_stand(group))


def _share(work: CollectiveOps, group: list[CollectiveOp]) -> None:
    first, dim = group[0], group[0].dim
    value = first.op.operands[0]
    reaches = [tuple([integer(item.op.attributes[key]) for key in (LOW, HIGH)]) for item in group]
    low, high = [max(side) for side in zip(*reaches, strict=True)]
    size = shape_of(value)[dim]
    shape = with_sizes(shape_of(value), dim, low + size + high)
    type_ = Builder(first.op).tensor_type(shape, element_of(value))
    numbers = {DIM: dim, LOW: low, HIGH: high}
    axes = first.mesh, first.axes
    wide = work.create(HALO_EXCHANGE, [value], [type_], axes, first, first, numbers)
    wide.op.location = ir.Location.fused([item.op.location for item in group])
    for item, (own_low, own_high) in zip(group, reaches, strict=True):
        make = Builder(item.op)
        near = make.cut(wide.op.results[0], dim, low - own_low, own_low + size + own_high)
        work.replace(item, [near])
