"""Windows whose results at the ends are added to others: the gradient of `jnp.pad(x, mode="edge")`.

Each shard computes as many more windows as there are ends, and those that hold the ends of the
result add them up: what was reflected comes from rows that a shard holds already. Where a padding
went round, the ends go round too, to the shard that holds the rows that they were made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.ends import EDGE, REFLECT, WRAP, Folds, read_padding
from dtensor.dialect.mlir import Value, forget
from dtensor.dialect.names import FOLDS
from dtensor.passes.creation import matrix_attr
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.ops.ends import end_of
from dtensor.passes.ops.exchanges import permuted
from dtensor.passes.ops.opdef import Placed, Traffic
from dtensor.passes.ops.rule import WindowDim, element_bytes


def fold_fits(folds: Folds | None, size: int, shards: int) -> bool:
    """Whether the shards at the ends hold what the ends of `size` results are added to."""
    if folds is None:
        return True
    _, kept = end_of(folds.size, size, shards)
    return max(folds.front, folds.behind) <= kept - (folds.mode == REFLECT)


def fold_bytes(placed: Placed, dims: Sequence[WindowDim]) -> Iterator[Traffic]:
    """What shards are sent of results, where the ends go round."""
    shape = placed.shard(~0)
    for _, (slot, d), _, window in dims:
        folds, word = window.folds, placed.results[0].dims[d] if slot < 0 else None
        if folds is None or folds.mode != WRAP or word is None or word.split == 1:
            continue
        row = math.prod(shape) / shape[d] * element_bytes(placed.op.result_elements[0])
        count = (folds.front > 0) + (folds.behind > 0)
        yield Traffic(word.axes, row * (folds.front + folds.behind), count)


def folded_results(
    op: LocalOp, dims: Sequence[WindowDim], own: Sequence[int], count: int
) -> list[Value] | None:
    """The result of windows with what there is at its ends added; None where nothing is.

    Args:
        op: the operation, which reads what its windows read; its padding, of `count` rows, is that
            of the windows whose results are kept.
        dims: the dimensions that windows overlap in.
        own: shape of the result.
        count: of the windows.
    """
    found = [(dim, dim.window.folds) for dim in dims if dim.window.folds is not None]
    if not found:
        return None
    ctx, shape = op.ctx, list(own)
    rows = read_padding(op.operation, count)
    for dim, folds in found:
        shape[dim.steps[1]] += folds.front + folds.behind
        low, high = rows[dim.row]
        rows[dim.row] = low + folds.front, high + folds.behind
    op.operation.attributes["padding"] = matrix_attr(rows)
    forget(op.operation, FOLDS)
    types = [ctx.tensor_type(shape, op.result_element())]
    value: Value = op.again(types=types).results[0]
    for dim, folds in found:
        d = dim.steps[1]
        word = op.result_layouts[0].dims[d]
        axes = word.axes if word.split > 1 else ()
        value = _folded(
            ctx, value, axes, d, folds, end_of(folds.size, op.result_shapes[0][d], word.split)
        )
    return [value]


def _folded(
    ctx: ExpansionContext,
    value: Value,
    axes: Sequence[AxisRef],
    dim: int,
    folds: Folds,
    end: tuple[int, int],
) -> Value:
    """The results of a shard, of more windows at both ends, with those at the ends added.

    `end` is the shard in which the results end, and how many of them it has.
    """
    (last, kept), front, behind = end, folds.front, folds.behind
    result = ctx.cut(value, dim, front, ctx.shape_of(value)[dim] - front - behind)
    for here, start, count in ((0, 0, front), (last, front + kept, behind)):
        if not count:
            continue
        piece, is_front = ctx.cut(value, dim, start, count), start == 0
        if folds.mode == WRAP:
            shards = devices_along(axes)
            sources = [here if k == last - here else -1 for k in range(shards)]
            piece = permuted(ctx, piece, axes, sources)
            place = kept - count if is_front else 0
        else:
            piece, place = _turned(ctx, piece, dim, folds.mode, 0 if is_front else kept)
            if axes:
                piece = ctx.select(ctx.is_shard(axes, here), piece, 0)
        piece = ctx.lengthened(piece, dim, place, ctx.shape_of(result)[dim])
        result = ctx.binary("add", result, piece)
    return result


def _turned(
    ctx: ExpansionContext, piece: Value, dim: int, mode: str, kept: int
) -> tuple[Value, int]:
    """What is added for results at an end, and from which place on.

    The shard in which they end has `kept` results; of those in front that is 0.
    """
    shape = list(ctx.shape_of(piece))
    if mode == EDGE:
        shape[dim], count = 1, shape[dim]
        summed = piece if count == 1 else ctx.reshape(ctx.reduced(piece, dim, "sum"), shape)
        return summed, max(kept - 1, 0)
    shift = int(mode == REFLECT)
    return ctx.reversed(piece, dim), kept - shape[dim] - shift if kept else shift
