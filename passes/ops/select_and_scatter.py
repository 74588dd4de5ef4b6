"""select_and_scatter, the gradient of max-pooling.

Where windows overlap, a shard computes its own windows, as many as it has elements of the source:
it fetches the elements that they read, and sends back what they scatter on those.

Padding is never selected, but the elements beyond the tensor that a shard at its border has in
place of padding could be. They are copies of the nearest element, and what falls on a copy is added
to the element itself: reading a row of a window twice selects no other element than reading it
once, whichever the order of the elements is, NaN included.

With the attribute `dtensor.fill`, which dtensor-fuse-cuts writes, padding holds that value and may
be selected; what it is given is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.mlir import Value, forget, ir, ops_of
from dtensor.dialect.names import FILL
from dtensor.passes.creation import matrix_attr
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import all_of, summed
from dtensor.passes.ops.attributes import direction_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.exchanges import added, from_beside
from dtensor.passes.ops.halo import exchange
from dtensor.passes.ops.longer_windows import is_one_to_one, reads_end, set_padding
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, placed_of
from dtensor.passes.ops.reach import WindowReach, reach
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder, Window, element_bytes
from dtensor.passes.ops.windows import OVERLAP, share_windows, window_fill, windows_of

_DIRECTIONS = ("GE", "GT", "LE", "LT")


def own_reach(size: int, count: int, window: Window, shards: int) -> WindowReach | None:
    """What shards read of a dimension for the windows of their own elements.

    Returns:
        None if that is more than direct neighbours have, if a shard's windows begin at elements of
        others, or if one is of padding alone.
    """
    found = reach(size, count, window, shards)
    last = (count - 1) * window.stride - window.low  # where the last window begins
    is_alone = window.low >= window.size or last >= size
    return None if found is None or found.step or is_alone else found


def select_and_scatter_rule(op: OpInfo) -> OpRule:
    """`ij,ij,->ij`; a dimension is split if its windows tile it, or with what neighbours have.

    It is linear in the source and the init value, if the scatter body adds.
    """
    shape, builder = op.operand_shapes[0], RuleBuilder(op)
    reduction = combiner(op.operation.regions[1])
    is_usual = reduction is Reduction.SUM and _compares(op.operation.regions[0])
    for d, window in enumerate(windows_of(op)):
        if not window.tiles(shape[d]):
            builder.whole(0, d, OVERLAP)
            builder.whole(1, d, OVERLAP)
            if not is_usual:
                continue
        share_windows(builder, window, shape[d], (1, d), (0, d), (~0, d))
    if reduction is not None and op.operand_elements[1:] == op.result_elements * 2:
        builder.passes_each([reduction], [False, True, True])
    return builder.build()


def _compares(body: ir.Region) -> bool:
    """Whether the body selects by one comparison of its two arguments."""
    block = body.blocks[0]
    operations = ops_of(block)
    if len(operations) != 2 or operations[0].name != "stablehlo.compare":
        return False
    return (
        direction_of(operations[0]) in _DIRECTIONS
        and set(operations[0].operands) == set(block.arguments)
        and operations[1].operands[0] == operations[0].results[0]
    )


def _split(placed: Placed) -> list[tuple[int, WindowReach | None]]:
    """The split dimensions whose windows do not tile them, and what shards compute of each."""
    op, layout = placed.op, placed.operands[0]
    shape, source = op.operand_shapes[0], op.operand_shapes[1]
    return [
        (d, own_reach(shape[d], source[d], window, layout.dims[d].split))
        for d, window in enumerate(windows_of(op))
        if layout.dims[d].split > 1 and not window.tiles(shape[d])
    ]


def _applies(placed: Placed) -> bool:
    split = _split(placed)
    words = placed.operands[0].dims
    return bool(split) and all(
        found is not None
        and words[d].is_contiguous
        and placed.operands[1].dims[d] == placed.results[0].dims[d] == words[d]
        for d, found in split
    )


def _bytes(placed: Placed) -> tuple[Traffic, ...]:
    layout, traffic = placed.operands[0], []
    local = list(placed.shard(0))
    item = element_bytes(placed.op.operand_elements[0]) + element_bytes(
        placed.op.result_elements[0]
    )
    for d, found in _split(placed):
        assert found is not None, "priced where it does not apply"
        row = math.prod(n for other, n in enumerate(local) if other != d) * item
        sent = 2 * ((found.low > 0) + (found.high > 0))
        traffic.append(Traffic(layout.dims[d].axes, float(row * (found.low + found.high)), sent))
        local[d] = found.length
    return tuple(traffic)


def expand_with_halos(op: LocalOp) -> Sequence[Value]:
    """This shard's windows, and what they and its neighbours' scatter on its elements."""
    ctx, placed = op.ctx, placed_of(op)
    operand, source, init = op.operands
    fill = _fill(op)
    split = [(d, found) for d, found in _split(placed) if found is not None]
    rows = _rows(placed.op)
    for d, found in split:
        axes = placed.operands[0].dims[d].axes
        operand = exchange(ctx, operand, axes, d, found.low, found.high)
        operand = _with_border(ctx, operand, axes, d, found, fill)
        operand = ctx.cut(operand, d, found.first, found.length)
        rows[d] = (0, 0)
    result = _whole(op, rows, (operand, source, ctx.constant_like(0, init)))
    for d, found in reversed(split):
        word = op.operand_layouts[0].dims[d]
        size = op.operand_shapes[0][d] // word.split
        result = _own(ctx, result, word.axes, d, size, found, fill is None)
    return [ctx.binary("add", result, init)]


def expand_local(op: LocalOp) -> Sequence[Value]:
    """All windows of the shard."""
    return [_whole(op, _rows(placed_of(op).op), op.operands)]


def _rows(op: OpInfo) -> list[tuple[int, int]]:
    return [(window.low, window.high) for window in windows_of(op)]


def _fill(op: LocalOp) -> Value | None:
    """What padding holds if it may be selected."""
    if FILL not in op.operation.attributes:
        return None
    type_ = op.ctx.tensor_type((), op.ctx.element_of(op.operands[0]))
    value = op.operation.attributes[FILL]
    return op.ctx.dense(value, type_)


def _whole(op: LocalOp, rows: Sequence[tuple[int, int]], operands: Sequence[Value]) -> Value:
    """The op on operands as they stand, with this padding."""
    ctx, fill = op.ctx, _fill(op)
    operand, source, init = operands
    lows, highs = [low for low, _ in rows], [high for _, high in rows]
    is_filled = fill is not None and any([*lows, *highs])
    if fill is not None and is_filled:
        operand = ctx.pad(operand, fill, lows, highs)
        rows = [(0, 0)] * len(rows)
    operation = op.again((operand, source, init), [operand.type])
    operation.attributes["padding"] = matrix_attr(rows)
    forget(operation, FILL)
    result: Value = operation.results[0]
    if is_filled:  # what negative padding left out of all windows is what nothing was added to
        result = ctx.pad(result, init, [-low for low in lows], [-high for high in highs])
    return result


def _with_border(
    ctx: ExpansionContext,
    value: Value,
    axes: Sequence[AxisRef],
    dim: int,
    found: WindowReach,
    fill: Value | None,
) -> Value:
    """What was fetched, with the fill, or copies of the border, for what is beyond the tensor."""
    size = ctx.shape_of(value)[dim]
    local = size - found.low - found.high
    own = ctx.cut(value, dim, found.low, local)
    parts = [own]
    for k, count in ((0, found.low), (-1, found.high)):
        if not count:
            continue
        part = ctx.cut(value, dim, 0 if k == 0 else size - count, count)
        shape = ctx.shape_of(part)
        if fill is None:
            edge = ctx.cut(own, dim, 0 if k == 0 else local - 1, 1)
            kept = [d for d in range(len(shape)) if d != dim]
            flat = ctx.reshape(edge, [shape[d] for d in kept])
            beyond = ctx.broadcast(flat, shape, kept)
        else:
            beyond = ctx.broadcast(fill, shape)
        part = ctx.select(_is_at(ctx, axes, k), beyond, part)
        parts.insert(0 if k == 0 else len(parts), part)
    return ctx.joined(parts, dim)


def _is_at(ctx: ExpansionContext, axes: Sequence[AxisRef], end: int) -> Value:
    """Whether this shard is the first (0) or the last (-1) along some axes."""
    return ctx.is_shard(axes, end % devices_along(axes))


def _own(
    ctx: ExpansionContext,
    value: Value,
    axes: Sequence[AxisRef],
    dim: int,
    size: int,
    found: WindowReach,
    has_copies: bool,
) -> Value:
    """What falls on the shard's elements, from here and from neighbours, and on copies of those."""
    # A shard may have elements before its first window, and behind its last one.
    whole = ctx.lengthened(value, dim, max(0, found.origin), found.low + size + found.high)
    own = ctx.cut(whole, dim, found.low, size)
    for count, first, hop in ((found.low, 0, 1), (found.high, found.low + size, -1)):
        if not count:
            continue
        rows, edge = ctx.cut(whole, dim, first, count), 0 if hop == 1 else size - 1
        if has_copies:
            is_there = _is_at(ctx, axes, 0 if hop == 1 else -1)
            each = (ctx.cut(rows, dim, k, 1) for k in range(count))
            own = added(ctx, own, edge, dim, ctx.combined("add", each), is_there)
        come = from_beside(ctx, rows, axes, hop)
        own = added(ctx, own, size - count if hop == 1 else 0, dim, come)
    return own


def select_and_scatter_flops(op: OpInfo) -> float:
    """One per element of each window."""
    sizes = [window.size for window in windows_of(op)]
    return float(math.prod(op.operand_shapes[1]) * math.prod(sizes))


def window_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Windows beyond the end scatter what changes nothing, zeros where the scatter body adds.

    Where a window that does not begin there reads elements beyond the end, these are padding that
    may be selected, if the operation has such padding: the least number, as of max-pooling.
    """
    least = _is_least(op)
    scattered = combiner(op.operation.regions[1])
    ties: list[padding.TiedDims] = []
    if scattered is None:
        return ties
    for d, window in enumerate(windows_of(op)):
        is_read = reads_end(window, op.operand_shapes[0][d], op.operand_shapes[1][d])
        if is_one_to_one(window) or (is_read and not least):
            continue
        selected = Reduction.MAX if is_read else padding.Fill.ANY
        ties.append(
            (
                padding.Along(0, d, window.stride, selected),
                padding.Along(1, d, 1, scattered),
                padding.Along(~0, d, window.stride),
            )
        )
    return ties


def _is_least(op: OpInfo) -> bool:
    """Whether what its padding holds is the identity of a maximum, and may be selected."""
    if FILL not in op.operation.attributes:
        return False
    fill = ir.DenseElementsAttr(op.attribute(FILL))
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(fill.type).element_type)
    return bool(Reduction.MAX.identity_attr(scalar) == fill)


def lengthen_selected(op: padding.Grown) -> None:
    """As many windows as the source has elements."""
    windows = windows_of(op.info)
    rows = {
        d: window.padding(op.operands[0][d], op.operands[1][d])
        for d, window in enumerate(windows)
        if (op.grows(0, d) or op.grows(1, d)) and not is_one_to_one(window)
    }
    set_padding(op, windows, rows)
    if rows and not any([(window.low, window.high) != (0, 0) for window in windows]):
        # None but the windows added read padding now, and they scatter nothing. XLA's own padding
        # would change which of equal elements the others select.
        element = ir.RankedTensorType(op.operation.operands[0].type).element_type
        scalar = ir.RankedTensorType.get([], element)
        op.operation.attributes[FILL] = Reduction.SUM.identity_attr(scalar)


SELECT_AND_SCATTER = OpDef(
    select_and_scatter_rule,
    (
        Algorithm("halo", expand_with_halos, _applies, _bytes),
        Algorithm("local", expand_local, lambda placed: not _split(placed)),
    ),
    flops=select_and_scatter_flops,
    accuracy=summed(all_of(1)),
    padding=padding.Padding(window_fill, lengthen_selected, window_ties),
)
