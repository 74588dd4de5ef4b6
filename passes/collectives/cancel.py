"""A slice of what was just gathered: the gather was not needed, or less of it."""

from __future__ import annotations

from dtensor.dialect import names
from dtensor.passes.collectives.reader import Collective, Collectives


def rewrite(work: Collectives, item: Collective) -> bool:
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
