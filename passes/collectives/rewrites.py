"""Rewrites of a collective and the one before it, so that less crosses the wire."""

from __future__ import annotations

import math
from collections.abc import Callable

from dtensor.dialect import names
from dtensor.dialect.mlir import ir
from dtensor.passes.collectives.reader import Collective, Collectives


def sliced_gather(work: Collectives, item: Collective) -> bool:
    """`all_slice(all_gather(x))` of one dimension.

    Over the same axes it is `x`; over the first axes of the gather, a gather over the others.
    """
    if item.name != names.ALL_SLICE:
        return False
    gathered = work.producer(item.op.operands[0])
    if gathered is None or gathered.name != names.ALL_GATHER or gathered.dim != item.dim:
        return False
    count = len(item.axes)
    if gathered.axes[:count] != item.axes:
        return False
    rest = gathered.axes[count:]
    source = gathered.op.operands[0]
    if not rest:
        work.replace(item, [source])
        return True
    type_ = item.op.results[0].type
    axes = (gathered.mesh, rest)
    dims = {names.DIM: item.dim}
    made = work.create(names.ALL_GATHER, [source], [type_], axes, item, gathered, dims)
    work.replace(item, made.op.results)
    return True


def slice_before_gather(work: Collectives, item: Collective) -> bool:
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


def sliced_reduction(work: Collectives, item: Collective) -> bool:
    """`all_slice(all_reduce(x))`, where nothing else uses the sum.

    Sliced over axes it was reduced over, it becomes a reduce_scatter over these, and an all_reduce
    over the others of what is left. Sliced over other axes, the slice comes first.
    """
    if item.name != names.ALL_SLICE:
        return False
    reduced = work.producer(item.op.operands[0])
    if reduced is None or reduced.name != names.ALL_REDUCE or len(reduced.op.operands) != 1:
        return False
    if reduced.scope is not item.scope or not work.has_one_use(reduced):
        return False
    rest = [axis for axis in reduced.axes if axis not in item.axes]
    if len(rest) == len(reduced.axes) - len(item.axes):
        first = names.REDUCE_SCATTER
    elif not any(a.overlaps(b) for a in item.axes for b in reduced.axes):
        first = names.ALL_SLICE
    else:
        return False
    type_ = item.op.results[0].type
    operands = reduced.op.operands
    kind = reduced.reduction if first == names.REDUCE_SCATTER else ""
    because = reduced if kind else item
    axes = (item.mesh, item.axes)
    made = work.create(first, operands, [type_], axes, item, because, {names.DIM: item.dim}, kind)
    if rest:
        over = (reduced.mesh, rest)
        values = made.op.results
        name = names.ALL_REDUCE
        kind = reduced.reduction
        made = work.create(name, values, [type_], over, item, reduced, reduction=kind)
    work.replace(item, made.op.results)
    return True


def joined_reduction(work: Collectives, item: Collective) -> bool:
    """`all_reduce(all_reduce(x, "x"), "y")`, where nothing else uses the inner one.

    Jointly over n devices 2 (n - 1) / n of the value crosses the wire, less than one by one.
    """
    if item.name != names.ALL_REDUCE or len(item.op.operands) != 1:
        return False
    inner = work.producer(item.op.operands[0])
    if inner is None or inner.name != names.ALL_REDUCE or len(inner.op.operands) != 1:
        return False
    if inner.reduction != item.reduction or inner.scope is not item.scope:
        return False
    if any(a.overlaps(b) for a in inner.axes for b in item.axes) or not work.has_one_use(inner):
        return False
    order = {name: position for position, name in enumerate(item.mesh.axis_names)}
    axes = sorted([*inner.axes, *item.axes], key=lambda axis: (order[axis.name], axis.pre))
    made = work.create(
        names.ALL_REDUCE,
        inner.op.operands,
        [item.op.results[0].type],
        (item.mesh, axes),
        item,
        inner,
        reduction=item.reduction,
    )
    work.replace(item, made.op.results)
    return True


REWRITES: tuple[Callable[[Collectives, Collective], bool], ...] = (
    sliced_gather,
    slice_before_gather,
    sliced_reduction,
    joined_reduction,
)
