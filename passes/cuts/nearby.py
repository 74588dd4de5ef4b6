"""Gathers of what stands near: `x[jnp.round(jnp.linspace(0, n - 1, n // 2)).astype(int)]`.

Known positions in no pattern, of which each shard reads those of its own elements and of few
around them, as resampling does. The array is cut in one frame for each shard, which has as many
elements of its neighbours as some shard reads, and each frame is read where the program says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dtensor.dialect.mlir import Value, stablehlo
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.frames import Frames
from dtensor.passes.ops.numbers import Numbers
from dtensor.passes.ops.reduction import Reduction

_SHARE_SENT = 4  # of a shard that its neighbours send is little


@dataclass(frozen=True)
class Nearby:
    """Positions of which each shard reads those near its own elements.

    Attributes:
        frames: one for each shard.
        size: of the dimension.
        count: of positions.
        each: of a shard; the last one may have fewer.
    """

    step: ClassVar[int] = 1  # from one position to the next, where they are nearest

    frames: Frames
    size: int
    count: int
    each: int

    @staticmethod
    def of(
        positions: Numbers, size: int, shards: Callable[[], int], slack: int = 0
    ) -> Nearby | None:
        """A row of positions as places in frames; None where they are far, or nothing is split.

        The program's own may differ by `slack` from these.
        """
        count, parts = positions.size, shards()
        if parts < 2 or min(count, size) < parts:
            return None
        hop, each = -(-size // parts), -(-count // parts)
        rows = np.pad(positions, (0, parts * each - count), mode="edge").reshape(parts, each)
        rows = rows - hop * np.arange(parts)[:, None]
        low, high = (max(0, int(n) + slack) for n in (-rows.min(), rows.max() - (hop - 1)))
        if _SHARE_SENT * (low + high) > hop:
            return None
        return Nearby(Frames(-low, hop, parts, low + hop + high), size, count, each)

    def taken(self, make: Builder, value: Value, dim: int, index: Value) -> Value:
        """What stands at the positions along a dimension; what would reach outside is inside."""
        frames = self.frames
        value = make.lengthened(value, dim, 0, frames.count * frames.hop)
        value = frames.taken(make, value, dim)
        shape = list(make.shape_of(value))
        sizes = [1 if d in (dim, dim + 1) else size for d, size in enumerate(shape)]
        numbers = stablehlo.GatherDimensionNumbers.get(
            _others(shape, dim), [dim + 1], [dim], [0], [dim + 1], 2
        )
        shape[dim + 1] = self.each
        index = make.convert(index, "i32")
        index = make.binary("minimum", make.binary("maximum", index, 0), self.size - 1)
        value = make.gather(value, self._places(make, index), sizes, numbers, shape)
        value = make.regrouped(value, dim, shape[dim] * self.each, count=2)
        return make.cut(value, dim, 0, self.count)

    def put_back(
        self, make: Builder, value: Value, dim: int, index: Value, nothing: Value, beside: Value
    ) -> list[Value]:
        """The sums of what is put to the positions, as of `Runs`; `taken` transposed."""
        frames = self.frames
        index = make.convert(index, "i32")
        is_inside = make.within(index, 0, self.size)
        is_inside = make.broadcast(is_inside, make.shape_of(value), [dim])
        value = make.select(is_inside, value, make.broadcast(nothing, make.shape_of(value)))
        value = make.lengthened(value, dim, 0, frames.count * self.each, nothing)
        value = make.regrouped(value, dim, frames.count, self.each)
        shape = list(make.shape_of(value))
        numbers = stablehlo.ScatterDimensionNumbers.get(
            _others(shape, dim), [dim + 1], [dim], [0], [dim + 1], 2
        )
        shape[dim + 1] = frames.length
        into = make.broadcast(nothing, shape)
        op = make.create(
            "stablehlo.scatter",
            [into, self._places(make, index), value],
            [into.type],
            {"scatter_dimension_numbers": numbers},
            regions=1,
        )
        scalar = make.tensor_type((), make.element_of(value))
        make.reduction_body(op, Reduction.SUM.op, scalar)
        value = self._folded(make, op.results[0], dim, nothing)
        value = make.cut(value, dim, 0, self.size)
        return [make.binary("add", value, make.broadcast(beside, make.shape_of(value)))]

    def _folded(self, make: Builder, value: Value, dim: int, nothing: Value) -> Value:
        """What frames hold, added to what the neighbours' hold of the same elements."""
        count, hop, low = self.frames.count, self.frames.hop, -self.frames.start
        total = make.cut(value, dim + 1, low, hop)
        ends = (0, low, -1, hop - low), (low + hop, self.frames.length - low - hop, 1, 0)
        for start, long, to, place in ends:
            if long:
                end = make.cut(make.cut(value, dim + 1, start, long), dim, to < 0, count - 1)
                end = make.lengthened(end, dim, to > 0, count, nothing)
                total = make.binary(
                    "add", total, make.lengthened(end, dim + 1, place, hop, nothing)
                )
        return make.regrouped(total, dim, count * hop, count=2)

    def _places(self, make: Builder, index: Value) -> Value:
        """Where positions are in the frame of their shard, as index vectors of one number."""
        frames = self.frames
        index = make.lengthened(index, 0, 0, frames.count * self.each)
        index = make.reshape(index, (frames.count, self.each, 1))
        shard = make.iota(make.shape_of(index), 0, "i32")
        return make.binary(
            "subtract", index, make.binary("add", make.times(shard, frames.hop), frames.start)
        )


def _others(shape: Sequence[int], dim: int) -> list[int]:
    """The dimensions but one and the next."""
    return [d for d in range(len(shape)) if d not in (dim, dim + 1)]
