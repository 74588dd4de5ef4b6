"""An all_reduce of an all_reduce over other axes: one over all of them."""

from __future__ import annotations

from dtensor.dialect import names
from dtensor.passes.collectives.reader import Collective, Collectives


def rewrite(work: Collectives, item: Collective) -> bool:
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
