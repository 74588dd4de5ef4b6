"""What slices and pads do along each dimension, and how shards can do it.

Element i of `x[3:]` is element i + 3 of `x`, so a slice is a window of one element that walks over
the dimension, and a pad one that begins before it. Where the sizes differ by little, a shard of the
result begins near to where the same shard of the operand does, and fetches of its neighbours what
it lacks. Where whole blocks are cut off or added, each block can be split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from dtensor.dialect.names import FITS
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import pad_numbers, slice_numbers
from dtensor.passes.ops.halo import fetched, split_windows
from dtensor.passes.ops.opdef import placed_of
from dtensor.passes.ops.padding import PART
from dtensor.passes.ops.rule import OpInfo, Window, WindowDim, read_once

MOST_BLOCKS = 16  # of a dimension that a slice may cut: it is no fused matrix that has more


@dataclass(frozen=True, slots=True)
class DimBlocks:
    """How one dimension of a slice (or of a pad, the other way round) falls into blocks.

    Attributes:
        block: elements of one block of the longer side, a multiple of the stride.
        stride: elements of the longer side per element of the shorter one.
        first: where the first block of the shorter side begins, in elements of the longer side.
        phase: which of each `stride` elements belongs to the shorter side.
    """

    block: int
    stride: int
    first: int
    phase: int

    def start(self, shards: int) -> int:
        """Where the shorter side begins in a shard of the longer one."""
        return self.first // shards + self.phase


@dataclass(frozen=True)
class Cut:
    """What a slice or a pad does along one dimension.

    Attributes:
        before: elements of the operand.
        after: elements of the result.
        low: places in front of the first element; a slice that starts further on has fewer than 0.
        step: a slice keeps one of so many elements; a pad makes as many places of each.
        is_pad: whether it is a pad; one that crops does as a slice does.
        fits: whether shards fetch what they lack though it is more than little.
    """

    before: int
    after: int
    low: int
    step: int
    is_pad: bool
    fits: bool = False

    @cached_property
    def blocks(self) -> DimBlocks | None:
        """The blocks that both sides fall into; None if none fit."""
        longer, start, shorter = self.before, -self.low, self.after
        if self.is_pad:  # the slice that undoes it
            longer, start, shorter = self.after, self.low, self.before
        if longer == shorter and not start and (self.step == 1 or longer <= 1):
            return DimBlocks(longer, 1, 0, 0)
        if 0 in (longer, shorter) or longer % self.step:
            return None
        phase = start % self.step
        block = math.gcd(start - phase, shorter * self.step, longer)
        return DimBlocks(block, self.step, start - phase, phase)

    @cached_property
    def window(self) -> Window | None:
        """The window that walks over a dimension that little is cut off or added to."""
        high = self.after - self.before - self.low
        part = 1 if self.fits else PART
        is_little = 0 < part * max(abs(self.low), abs(high)) <= self.before
        return Window(1, 1, self.low, high, 1, 1) if is_little and self.step == 1 else None

    @cached_property
    def takes_few(self) -> bool:
        """Whether a slice takes so little of a dimension that the shards that own it give it."""
        return 0 < 4 * self.after <= self.before

    @cached_property
    def has_blocks(self) -> bool:
        """Whether it falls into blocks that are not too many, and so too small, to be split."""
        return self.blocks is not None and self.before <= MOST_BLOCKS * self.blocks.block


@read_once
def cuts_of(op: OpInfo) -> tuple[Cut, ...]:
    """What a slice or a pad does along each dimension."""
    is_pad = op.name == "stablehlo.pad"
    if is_pad:
        lows, _, gaps = pad_numbers(op.operation)
        steps = [gap + 1 for gap in gaps]
    else:
        starts, _, steps = slice_numbers(op.operation)
        lows = [-start for start in starts]
    rows = zip(op.operand_shapes[0], op.result_shapes[0], lows, steps, strict=True)
    fits = op.has(FITS)
    return tuple([Cut(*row, is_pad, fits) for row in rows])


def sliding(op: OpInfo) -> list[WindowDim]:
    """The dimensions along which windows walk."""
    found = [(d, cut.window) for d, cut in enumerate(cuts_of(op))]
    return [WindowDim(d, (~0, d), d, window) for d, window in found if window is not None]


def fetch_sliding(op: LocalOp) -> list[int]:
    """Fetch what the op keeps along such split dimensions: nothing is left to do; gives these.

    Operand 1 stands where there is no element, if there is one.
    """
    placed, fill = placed_of(op), op.operands[1] if len(op.operands) > 1 else None
    dims = split_windows(placed, sliding(placed.op))
    op.operation.operands[0] = fetched(op.ctx, op.operands[0], placed, dims, fill)
    return [dim.operand for dim in dims]
