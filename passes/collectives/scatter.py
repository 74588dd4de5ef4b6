"""A slice of a reduced value: reduce only what is kept."""

from __future__ import annotations

from dtensor.dialect import names
from dtensor.passes.collectives.reader import Collective, Collectives


def rewrite(work: Collectives, item: Collective) -> bool:
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
