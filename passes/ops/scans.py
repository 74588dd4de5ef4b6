"""Prefix sums and their kin along a split dimension: shards pass totals on, not elements.

Each shard combines its elements into one row. In log2(p) steps, the distance doubled each time,
every shard receives what all shards before it combine to, and scans its elements behind that row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.passes.creation import integers_attr, matrix_attr, with_sizes
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.ops.attributes import is_identity, splat_number
from dtensor.passes.ops.combiners import combiners
from dtensor.passes.ops.exchanges import from_beside
from dtensor.passes.ops.extremes import extreme
from dtensor.passes.ops.opdef import Placed, Traffic
from dtensor.passes.ops.rule import Window

_LOG_ADD_EXP = (
    "stablehlo.maximum stablehlo.subtract stablehlo.compare stablehlo.add stablehlo.abs "
    "stablehlo.negate stablehlo.exponential stablehlo.log_plus_one stablehlo.add stablehlo.select "
    "stablehlo.return"
).split()


def scans(window: Window, size: int) -> bool:
    """Whether the windows over a dimension hold all elements up to one, or all from one on."""
    return (
        window.size == size > 1
        and window.stride == window.base_dilation == window.dilation == 1
        and {window.low, window.high} == {0, size - 1}
    )


def is_associative(region: ir.Region) -> bool:
    """Whether a body is one that shards may apply to what they have combined."""
    is_known = combiners(region) is not None or extreme(region) is not None
    return is_known or _is_log_add_exp(region)


def _is_log_add_exp(region: ir.Region) -> bool:
    """The body of jax.lax.cumlogsumexp, log(exp(a) + exp(b))."""
    return [op.name for op in ops_of(region.blocks[0])] == _LOG_ADD_EXP


def scan_bytes(placed: Placed, dim: int) -> tuple[Traffic, ...]:
    """One row of every operand in each step."""
    count, layout = len(placed.results), placed.operands[0]
    row_bytes = sum(placed.row_bytes(k, dim) for k in range(count))
    steps = (layout.dims[dim].split - 1).bit_length()
    return (Traffic(layout.dims[dim].axes, steps * row_bytes, steps * count),)


def expand_scan(op: LocalOp, dim: int, window: Window) -> Sequence[Value]:
    """Totals of the shards before this one, then a scan of its elements behind them."""
    ctx, count = op.ctx, len(op.result_layouts)
    values, word = op.operands[:count], op.operand_layouts[0].dims[dim]
    is_reverse, kinds = window.low == 0, combiners(op.operation.regions[0])
    total = _combined(op, values, dim)

    def combined(come: Sequence[Value], have: Sequence[Value]) -> list[Value]:
        pairs = list(zip(come, have, strict=True))
        if kinds is not None:
            return [ctx.merged(kind, a, b) for kind, (a, b) in zip(kinds, pairs, strict=True)]
        return _combined(
            op, [ctx.joined([b, a] if is_reverse else [a, b], dim) for a, b in pairs], dim
        )

    before, has_any = totals_before(ctx, word.axes, total, combined, is_reverse)
    for k, value in enumerate(before):
        before[k] = ctx.select(has_any, value, op.operands[count + k])
    return _scanned(op, values, before, dim, is_reverse)


def totals_before(
    ctx: ExpansionContext,
    axes: Sequence[AxisRef],
    total: list[Value],
    combine: Callable[[Sequence[Value], Sequence[Value]], list[Value]],
    is_reverse: bool,
) -> tuple[list[Value], Value]:
    """What all shards before this one combine to, in log2(p) steps of doubled distance.

    `total` has what the elements of this shard combine to, of each operand.

    Returns:
        The totals, zeros on the first shard; and whether there is a shard before this one.
    """
    shards = devices_along(axes)
    shard = ctx.axis_index(axes)

    def behind(come: list[Value], have: list[Value], has_any: Value) -> list[Value]:
        both = zip(combine(come, have), have, strict=True)
        return [ctx.select(has_any, one, other) for one, other in both]

    before, has_before = list[Value](), None
    step = 1
    while step < shards:
        limit = shards - step if is_reverse else step
        has_any = ctx.compare("LT" if is_reverse else "GE", shard, limit)
        come = [from_beside(ctx, value, axes, step if is_reverse else -step) for value in total]
        if has_before is None:
            before, has_before = come, has_any
        else:
            before = behind(come, before, has_any)
        if 2 * step < shards:
            total = behind(come, total, has_any)
        step *= 2
    assert has_before is not None, "a scan of a dimension that is whole"
    return before, has_before


def _combined(op: LocalOp, values: Sequence[Value], dim: int) -> list[Value]:
    """All rows combined into one: the op with a window as long as the dimension."""
    size = op.ctx.shape_of(values[0])[dim]
    return _windowed(op, values, dim, size, (0, 0))


def _windowed(
    op: LocalOp, values: Sequence[Value], dim: int, size: int, padding: tuple[int, int]
) -> list[Value]:
    """The op on other operands, with another window along a dimension."""
    ctx, types = op.ctx, []
    for value in values:
        shape, element = ctx.read_type(value.type)
        results = shape[dim] + sum(padding) - size + 1
        types.append(ctx.tensor_type(with_sizes(shape, dim, results), element))
    copy, rank = op.again(values, types), len(ctx.shape_of(values[0]))
    sizes = [size if d == dim else 1 for d in range(rank)]
    pairs = [padding if d == dim else (0, 0) for d in range(rank)]
    copy.attributes["window_dimensions"] = integers_attr(sizes)
    copy.attributes["padding"] = matrix_attr(pairs)
    return list(copy.results)


def _scanned(
    op: LocalOp, values: Sequence[Value], before: Sequence[Value], dim: int, is_reverse: bool
) -> list[Value]:
    """The op on the shard behind the row of all shards before it."""
    size = op.ctx.shape_of(values[0])[dim]
    pairs = zip(values, before, strict=True)
    rows = [op.ctx.joined([v, row] if is_reverse else [row, v], dim) for v, row in pairs]
    padding = (0, size) if is_reverse else (size, 0)
    made = _windowed(op, rows, dim, size + 1, padding)
    return [op.ctx.cut(value, dim, 0 if is_reverse else 1, size) for value in made]


def starts_from_identity(operation: ir.Operation) -> bool:
    """Whether meeting the init values again, however often, changes nothing."""
    region = operation.regions[0]
    kinds = combiners(region)
    if kinds is None and extreme(region) is not None:
        return True
    inits = operation.operands[len(operation.results) :]
    if kinds is None:
        return _is_log_add_exp(region) and all(splat_number(n) == -math.inf for n in inits)
    pairs = zip(inits, kinds, strict=True)
    return all(kind.idempotent or is_identity(init, kind) for init, kind in pairs)
