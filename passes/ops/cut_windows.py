"""Slices and pads that leave most of a dimension: shards fetch of their neighbours what they lack.

Element i of `x[3:]` is element i + 3 of `x`, so a slice is a window of one element that walks over
the dimension, and a pad one that begins before it. Where the sizes differ by little, a shard of the
result begins near to where the same shard of the operand does.
"""

from __future__ import annotations

from collections.abc import Callable

from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.halo import Find, fetch
from dtensor.passes.ops.opdef import Placed, placed_of
from dtensor.passes.ops.padding import PART
from dtensor.passes.ops.rule import OpInfo, Window, WindowDim

Slides = Callable[[OpInfo, int], Window | None]


def slide_of_slice(op: OpInfo, dim: int) -> Window | None:
    """The window along a dimension of which a slice leaves most; None along another one."""
    size, kept = op.operand_shapes[0][dim], op.result_shapes[0][dim]
    start, stride = (integers(op.attribute(name))[dim] for name in ("start_indices", "strides"))
    return _slide(-start, size, kept) if stride == 1 else None


def slide_of_pad(op: OpInfo, dim: int) -> Window | None:
    """The window along a dimension to which a pad adds little; None along another one."""
    size, padded = op.operand_shapes[0][dim], op.result_shapes[0][dim]
    low, gap = (
        integers(op.attribute(name))[dim] for name in ("edge_padding_low", "interior_padding")
    )
    return None if gap else _slide(low, size, padded)


def _slide(low: int, size: int, other: int) -> Window | None:
    high = other - size - low
    if low == high == 0 or PART * max(abs(low), abs(high)) > size:
        return None
    return Window(1, 1, low, high, 1, 1)


def _sliding(slides: Slides) -> Find:
    """What gives the dimensions along which windows walk, and which are split."""

    def find(placed: Placed) -> list[WindowDim]:
        split = [d for d, dim in enumerate(placed.operands[0].dims) if dim.split > 1]
        found = [(d, slides(placed.op, d)) for d in split]
        return [WindowDim(d, (~0, d), d, window) for d, window in found if window is not None]

    return find


sliding_of_slice, sliding_of_pad = _sliding(slide_of_slice), _sliding(slide_of_pad)


def fetch_sliding(op: LocalOp, find: Find, *, fills: bool = False) -> list[int]:
    """Fetch what the op keeps along such dimensions, so that it has nothing left to do there.

    Args:
        op: its operand 0 is replaced.
        find: which dimensions.
        fills: whether operand 1 stands where there is no element.

    Returns:
        The dimensions.
    """
    placed = placed_of(op)
    dims = find(placed)
    for dim in dims:
        fill = op.operands[1] if fills else None
        op.operation.operands[0] = fetch(op.ctx, op.operands[0], placed, dim, fill)
    return [dim.operand for dim in dims]
