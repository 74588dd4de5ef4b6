"""A slice of one dimension of what was gathered in another: slice first, or exchange."""

from __future__ import annotations

import math

from dtensor.dialect import names
from dtensor.dialect.mlir import ir
from dtensor.passes.collectives.reader import Collective, Collectives


def rewrite(work: Collectives, item: Collective) -> bool:
    """`all_slice(all_gather(x))` of different dimensions, where nothing else uses the gather.

    Over other axes the slice comes first, and less is gathered. Over the same axes each device
    keeps of every other's shard just one part: that is an all_to_all.
    """
    if item.name != names.ALL_SLICE:
        return False
    gathered = work.producer(item.op.operands[0])
    if gathered is None or gathered.name != names.ALL_GATHER or gathered.dim == item.dim:
        return False
    if gathered.scope is not item.scope or not work.has_one_use(gathered):
        return False
    source, type_ = gathered.op.operands[0], item.op.results[0].type
    axes = (gathered.mesh, gathered.axes)
    if gathered.axes == item.axes:
        dims = {names.SPLIT_DIM: item.dim, names.CONCAT_DIM: gathered.dim}
        made = work.create(names.ALL_TO_ALL, [source], [type_], axes, item, gathered, dims)
    elif any(a.overlaps(b) for a in item.axes for b in gathered.axes):
        return False
    else:
        tensor = ir.RankedTensorType(type_)
        shape = list(tensor.shape)
        shape[gathered.dim] //= math.prod(axis.size for axis in gathered.axes)
        small = ir.RankedTensorType.get(shape, tensor.element_type)
        sliced = work.create(
            item.name, [source], [small], (item.mesh, item.axes), item, item, {names.DIM: item.dim}
        )
        dims = {names.DIM: gathered.dim}
        made = work.create(gathered.name, sliced.op.results, [type_], axes, item, gathered, dims)
    work.replace(item, made.op.results)
    return True
