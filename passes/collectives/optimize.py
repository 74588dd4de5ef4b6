"""The pass that makes local collectives fewer and smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from dtensor.dialect import names
from dtensor.dialect.axes import devices_along
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.collectives.combine import combine
from dtensor.passes.collectives.edges import share_edges
from dtensor.passes.collectives.halos import share_halos
from dtensor.passes.collectives.merge import merge_duplicates
from dtensor.passes.collectives.permutes import join_permutes
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps


@dataclass(frozen=True)
class OptimizeCollectivesPass(Pass):
    """Rewrites the collectives of a per-device module so that less crosses the wire.

    Equal operations merge; operations whose results are not used go; a slice of what was gathered
    cancels, or comes first, or makes the gather an all_to_all; a slice of what was reduced becomes
    a reduce_scatter; permutes of shards one behind the other are one; what several operations
    exchange of one value with its neighbours is exchanged once; messages to the same devices that
    are small or share elements become one, which brings no element twice and none that can be
    computed of the others; and neighbouring all_reduces are combined into one of several operands.
    """

    name: ClassVar[str] = "dtensor-optimize-collectives"
    needs_mesh: ClassVar[bool] = True

    combine_bytes: int = 32 << 20  # bytes up to which all_reduces are combined; 0: not at all

    def run(self, module: ir.Module, state: PassState) -> None:
        work = CollectiveOps(module, state.meshes)
        if not work.items:
            return
        merge_duplicates(work)
        for scope in reversed(dict.fromkeys(item.scope for item in work.items)):
            work.erase_unread(scope)
        while work.worklist:
            rewrite(work, work.worklist.pop())
        join_permutes(work)
        share_halos(work)
        share_edges(work)
        if self.combine_bytes:
            combine(work, {names.ALL_REDUCE: self.combine_bytes}, moves=False)
        state.forget_ir()


def sliced_gather(work: CollectiveOps, item: CollectiveOp, gathered: CollectiveOp) -> None:
    """`all_slice(all_gather(x))` of one dimension.

    Over the same axes it is `x`; over the first axes of the gather, a gather over the others.
    """
    count = len(item.axes)
    if gathered.dim != item.dim or gathered.axes[:count] != item.axes:
        return
    rest = gathered.axes[count:]
    made: Sequence[Value] = gathered.op.operands
    if rest:
        axes = (gathered.mesh, rest)
        types, dims = [item.op.results[0].type], {names.DIM: item.dim}
        made = work.create(names.ALL_GATHER, made, types, axes, item, gathered, dims).op.results
    work.replace(item, made)


def slice_before_gather(work: CollectiveOps, item: CollectiveOp, gathered: CollectiveOp) -> None:
    """`all_slice(all_gather(x))` of different dimensions, where nothing else uses the gather.

    Over other axes the slice comes first, and less is gathered. Over the same axes each device
    keeps of every other's shard just one part: that is an all_to_all.
    """
    if gathered.dim == item.dim or not _is_alone(work, item, gathered):
        return
    source, type_ = gathered.op.operands[0], item.op.results[0].type
    axes = (gathered.mesh, gathered.axes)
    if gathered.axes == item.axes:
        dims = {names.SPLIT_DIM: item.dim, names.CONCAT_DIM: gathered.dim}
        made = work.create(names.ALL_TO_ALL, [source], [type_], axes, item, gathered, dims)
    elif _overlap(item, gathered):
        return
    else:
        tensor = ir.RankedTensorType(type_)
        shape = list(tensor.shape)
        shape[gathered.dim] //= devices_along(gathered.axes)
        small = ir.RankedTensorType.get(shape, tensor.element_type)
        sliced = work.create(
            item.name, [source], [small], (item.mesh, item.axes), item, item, {names.DIM: item.dim}
        )
        dims = {names.DIM: gathered.dim}
        made = work.create(gathered.name, sliced.op.results, [type_], axes, item, gathered, dims)
    work.replace(item, made.op.results)


def sliced_reduction(work: CollectiveOps, item: CollectiveOp, reduced: CollectiveOp) -> None:
    """`all_slice(all_reduce(x))`, where nothing else uses the sum.

    Sliced over axes it was reduced over, it becomes a reduce_scatter over these, and an all_reduce
    over the others of what is left. Sliced over other axes, the slice comes first.
    """
    if not _is_alone(work, item, reduced):
        return
    rest = [axis for axis in reduced.axes if axis not in item.axes]
    if len(rest) == len(reduced.axes) - len(item.axes):
        first = names.REDUCE_SCATTER
    elif not _overlap(item, reduced):
        first = names.ALL_SLICE
    else:
        return
    type_ = item.op.results[0].type
    operands = reduced.op.operands
    kind = reduced.reduction if first == names.REDUCE_SCATTER else ""
    because = reduced if kind else item
    axes = (item.mesh, item.axes)
    made = work.create(first, operands, [type_], axes, item, because, {names.DIM: item.dim}, kind)
    if rest:
        values, over = made.op.results, (reduced.mesh, rest)
        kind = reduced.reduction
        made = work.create(names.ALL_REDUCE, values, [type_], over, item, reduced, reduction=kind)
    work.replace(item, made.op.results)


def _is_alone(work: CollectiveOps, item: CollectiveOp, before: CollectiveOp) -> bool:
    """Whether nothing else uses the one before, which stands in the same block."""
    return before.scope is item.scope and work.has_one_use(before)


def _overlap(one: CollectiveOp, other: CollectiveOp) -> bool:
    return any(a.overlaps(b) for a in one.axes for b in other.axes)


Rewrite = Callable[[CollectiveOps, CollectiveOp, CollectiveOp], None]
# By the name of a collective, and that of the one that makes its first operand.
REWRITES: Final[tuple[tuple[str, str, Rewrite], ...]] = (
    (names.ALL_SLICE, names.ALL_GATHER, sliced_gather),
    (names.ALL_SLICE, names.ALL_GATHER, slice_before_gather),
    (names.ALL_SLICE, names.ALL_REDUCE, sliced_reduction),
)


def rewrite(work: CollectiveOps, item: CollectiveOp) -> None:
    """Apply what there is for a collective and the one before it."""
    for name, name_before, apply in REWRITES:
        if item.is_alive and item.name == name:
            before = work.producer(item.op.operands[0])
            if before is not None and before.name == name_before and len(before.op.operands) == 1:
                apply(work, item, before)
