"""Reductions by any body: shards reduce their parts, and what they get is reduced again, in order.

A body is associative, says the specification, and what it reduces stays in order. So totals of
contiguous shards may be reduced, and those of others where the body commutes. The init value is met
once, as on one device: a shard reduces from nothing. Each element comes with a flag, and so does
what is combined: whether there is anything yet; so nothing need be known that the body does not
notice. What stands beyond the true end of a dimension is nothing too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.dim import WHOLE, Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, forget, ir, is_read, terminator
from dtensor.dialect.names import ALGORITHM, OPERANDS, RESULTS
from dtensor.passes.builder import Builder
from dtensor.passes.cost.model import all_gather_bytes, all_to_all_bytes
from dtensor.passes.creation import Shape, integers_attr
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.combiners import combined, combiner, is_either_way
from dtensor.passes.ops.extremes import chosen, extreme
from dtensor.passes.ops.opdef import Placed, Traffic, placed_of
from dtensor.passes.ops.padding import Grown
from dtensor.passes.ops.rule import OpInfo, element_bytes, read_once


@read_once
def reduced_dims(op: OpInfo) -> list[int]:
    """The dimensions that are reduced, outermost first: the order of the elements."""
    return sorted(integers(op.attribute("dimensions")))


def axes_of_reduced(placed: Placed) -> tuple[AxisRef, ...]:
    """The axes that split the reduced dimensions, in their order."""
    dims = placed.operands[0].dims
    return tuple([axis for d in reduced_dims(placed.op) for axis in dims[d].axes])


def why_whole(op: OpInfo, dim: int) -> str:
    """Why shards of a reduced dimension have no totals; empty where they have."""
    shape, reduced = op.operand_shapes[0], reduced_dims(op)
    if not all(shape[d] for d in reduced):
        return "is reduced, and there is nothing to reduce"
    if not op.operand_elements == 2 * op.result_elements:
        return "is reduced in another element type"
    outer = reduced[: reduced.index(dim)]
    if all(shape[d] == 1 for d in outer) or is_either_way(op):
        return ""
    if chosen(op) is not None:
        return ""
    return "is reduced inside of another dimension, by a body that may not commute"


def has_totals(placed: Placed) -> bool:
    """Whether a reduced dimension is split, and shards have totals."""
    op, layout = placed.op, placed.operands[0]
    split = [d for d in reduced_dims(op) if layout.dims[d].split > 1]
    if not split or combined(op) is not None:
        return False
    if any(why_whole(op, d) for d in split):
        return False
    return all(layout.dims[d].is_contiguous for d in split) or is_either_way(op)


def gather_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """Every shard's totals, on every device."""
    axes, sizes = axes_of_reduced(placed), _total_bytes(placed)
    devices = devices_along(axes)
    wire = sum(all_gather_bytes(devices * size, devices) for size in sizes)
    return (Traffic(axes, wire, len(set(placed.op.result_elements))),)


def expand_gathered(op: LocalOp) -> Sequence[Value]:
    """Each shard reduces its part, the totals are gathered in order, and reduced."""
    return _expanded(op, None)


def has_shares(placed: Placed) -> bool:
    """Whether shards have totals, of which each can reduce a part of all."""
    return _shared_dim(placed) is not None and has_totals(placed)


def exchange_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """Parts of a shard's totals to all others, and then what each has reduced that is read."""
    axes, sizes = axes_of_reduced(placed), _total_bytes(placed)
    devices = devices_along(axes)
    results = zip(sizes, placed.op.operation.results, strict=True)
    read = [n for n, result in results if is_read(result)]
    wire = sum(all_to_all_bytes(n, devices) for n in sizes)
    wire += sum(all_gather_bytes(n, devices) for n in read)
    return (Traffic(axes, wire, len(set(placed.op.result_elements)) + len(read)),)


def expand_exchanged(op: LocalOp) -> Sequence[Value]:
    """Each shard reduces its part, then a part of the totals of all; the results are gathered."""
    return _expanded(op, _shared_dim(placed_of(op)))


def _total_bytes(placed: Placed) -> list[float]:
    """Bytes of the totals of one shard, of each operand."""
    n = math.prod(placed.shard(~0))
    return [n * element_bytes(element) for element in placed.op.result_elements]


def _shared_dim(placed: Placed) -> int | None:
    """A dimension of the results that divides among the shards; None if there is none."""
    devices = devices_along(axes_of_reduced(placed))
    sizes = enumerate(placed.shard(~0))
    return next((d for d, size in sizes if size and size % devices == 0), None)


def _expanded(op: LocalOp, shared: int | None) -> list[Value]:
    """The totals of all shards reduced, on all; or each a part of them along a dimension."""
    ctx, whole, shape = op.ctx, op.result_layouts[0], op.result_shapes[0]
    axes = axes_of_reduced(placed_of(op))
    split = Dim(canonical_digits(axes))
    dims = list(whole.dims)
    if shared is not None:
        dims[shared] = Dim(canonical_digits((*dims[shared].digits, *axes)))
    part = Layout.of(dims, whole.mesh)
    before = Layout.of((split, *whole.dims), whole.mesh)
    after = Layout.of((WHOLE, *dims), whole.mesh)
    rows = _gathered(ctx, _local_totals(op), before, after, (split.split, *shape))
    types = [ctx.tensor_type(part.local_shape(shape), ctx.element_of(row)) for row in rows]
    copy = op.again(rows, types)
    copy.attributes["dimensions"] = integers_attr([0])
    return [ctx.relayout(value, part, whole, shape) for value in copy.results]


def _gathered(
    ctx: ExpansionContext, totals: Sequence[Value], before: Layout, after: Layout, shape: Shape
) -> list[Value]:
    """Rows of totals, one of each shard; what is of one element type goes together."""
    found: dict[int, Value] = {}
    for element in dict.fromkeys(map(ctx.element_of, totals)):
        alike = [k for k, value in enumerate(totals) if ctx.element_of(value) == element]
        rows = [ctx.reshape(totals[k], (1, 1, *ctx.shape_of(totals[k]))) for k in alike]
        here, there = (Layout.of((x.dims[0], WHOLE, *x.dims[1:]), x.mesh) for x in (before, after))
        moved = ctx.relayout(ctx.joined(rows, 1), here, there, (shape[0], len(alike), *shape[1:]))
        for i, k in enumerate(alike):
            row = ctx.cut(moved, 1, i, 1)
            first, _, *rest = ctx.shape_of(row)
            found[k] = ctx.reshape(row, (first, *rest))
    return [found[k] for k in range(len(totals))]


def _local_totals(op: LocalOp) -> Sequence[Value]:
    """What a shard's part comes to."""
    ctx, types = op.ctx, [op.local_result_type(k) for k in range(len(op.result_layouts))]
    valid = ctx.constant(True, ctx.tensor_type(ctx.shape_of(op.operands[0]), "i1"))
    return flagged(ctx, op.operation, types, valid, False)


def refit_reduce(op: Grown) -> None:
    """What stands beyond the true end of a reduced dimension does not count."""
    region = op.operation.regions[0]
    if combiner(region) is None and extreme(region) is None:
        leave_out_ends(op, integers(op.operation.attributes["dimensions"]))


def flagged(
    make: Builder, op: ir.Operation, types: Sequence[ir.Type], valid: Value, start: bool
) -> Sequence[Value]:
    """The results of a reduce or of windows, of those elements alone that a flag marks.

    `valid` says which elements count, and `start` whether the init values do.
    """
    count, flag = len(types), make.tensor_type((), "i1")
    flags = make.tensor_type(make.read_type(types[0])[0], "i1")
    inits = [*op.operands[count:], make.constant(start, flag)]
    attributes = dict(op.attributes)
    new = make.create(
        op.name, [*op.operands[:count], valid, *inits], [*types, flags], attributes, regions=1
    )
    forget(new, ALGORITHM, OPERANDS, RESULTS)
    copy = op.clone(ip=ir.InsertionPoint(new)).operation  # nested regions may read the arguments
    copy.regions[0].blocks[0].append_to(new.regions[0])
    copy.erase()
    block = new.regions[0].blocks[0]
    earlier, later = list(block.arguments)[:count], list(block.arguments)[count:]
    has_earlier = block.add_argument(flag, op.location)
    moved = [block.add_argument(value.type, op.location) for value in later]
    has_later = block.add_argument(flag, op.location)
    for value, other in zip(later, moved, strict=True):
        value.replace_all_uses_with(other)
        block.erase_argument(count)
    end = terminator(block)
    inside = Builder(end)
    both = [
        inside.select(has_earlier, inside.select(has_later, value, one), other)
        for value, one, other in zip(end.operands, earlier, moved, strict=True)
    ]
    inside.create(end.name, [*both, inside.binary("or", has_earlier, has_later)], [])
    end.erase()
    return list(new.results)[:count]


def leave_out_ends(op: Grown, dims: Sequence[int]) -> None:
    """What stands beyond the true ends of these dimensions of the operands does not count."""
    make, shape, valid = Builder(op.operation, op.made), op.operands[0], list[Value]()
    for d in dims:
        if op.has_end and op.grows(0, d):
            place = make.iota((shape[d],), 0, index_element(shape[d]))
            is_inside = make.compare("LT", place, op.true_operand(0)[d])
            valid.append(make.broadcast(is_inside, shape, [d]))
    if valid:
        types = [result.type for result in op.operation.results]
        found = flagged(make, op.operation, types, make.combined("and", valid), True)
        op.instead |= enumerate(found)
