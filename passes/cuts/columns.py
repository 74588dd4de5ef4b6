"""Gathers of a few elements around each place: `x[jnp.maximum(i[:, None] - jnp.arange(32), 0)]`.

Element j of every window is a slice of the array, which goes on with its first and last elements
where windows are moved inside, or with those of its other end where they go around. So shards send
their neighbours what windows reach of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.cuts.runs import Run, Runs
from dtensor.passes.ops.numbers import Numbers

_MOST_COLUMNS = 64  # elements of a window: each is a slice


@dataclass(frozen=True)
class Columns:
    """Positions `stride * i + offsets[j]` of element j of window i, where all are inside.

    Attributes:
        stride: from one window to the next, 1 or more.
        count: of windows.
        offsets: where the elements of the first window are, or would be beyond the ends.
        size: of the dimension.
        goes_around: whether those beyond an end come in at the other one; else they are moved to
            the end.
        is_transposed: whether the dimension of positions that counts windows comes second.
    """

    step: ClassVar[int] = 1  # from one position to the next, where they are nearest

    stride: int
    count: int
    offsets: tuple[int, ...]
    size: int
    goes_around: bool
    is_transposed: bool = False

    @staticmethod
    def of(positions: Numbers, size: int) -> Columns | None:
        """A matrix of positions as windows of a few elements; None if it has none."""
        return _columns(positions, size, False) or _columns(positions.T, size, True)

    @property
    def _beyond(self) -> tuple[int, int]:
        """How far windows reach beyond either end."""
        last = self.stride * (self.count - 1) + max(self.offsets)
        return max(0, -min(self.offsets)), max(0, last - (self.size - 1))

    def taken(self, make: Builder, value: Value, dim: int) -> Value:
        """The windows along a dimension, in whose place stand those of the positions."""
        (low, high), size = self._beyond, self.size
        if self.goes_around:
            ends = Run(size - low, 1, low), Run(0, 1, size), Run(0, 1, high)
        else:
            ends = Run(0, 1, 1, low), Run(0, 1, size), Run(size - 1, 1, 1, high)
        value = Runs(tuple([run for run in ends if run.count * run.times])).taken(make, value, dim)
        shape = with_sizes(make.shape_of(value), dim, self.count, 1)
        parts = [
            make.reshape(make.cut(value, dim, low + offset, self.count, self.stride), shape)
            for offset in self.offsets
        ]
        return self._transposed(make, make.joined(parts, dim + 1), dim)

    def put_back(
        self, make: Builder, value: Value, dim: int, size: int, nothing: Value, beside: Value
    ) -> list[Value]:
        """The sums of what windows hold, as of `Runs`; `taken` transposed."""
        value, (low, high) = self._transposed(make, value, dim), self._beyond
        wide, parts = low + size + high, list[Value]()
        for j, offset in enumerate(self.offsets):
            part = make.regrouped(make.cut(value, dim + 1, j, 1), dim, self.count, count=2)
            run = Run(low + offset, self.stride, self.count)
            parts.append(run.put_back(make, part, dim, wide, nothing if parts else beside))
        total = make.combined("add", parts)
        found = [make.cut(total, dim, low, size)]
        for start, long, place in ((0, low, 0), (low + size, high, size - 1)):
            if not long:
                continue
            end = make.cut(total, dim, start, long)
            if self.goes_around:
                place = 0 if start else size - low
            else:
                end = make.regrouped(make.reduced(end, dim, "sum"), dim, 1, count=0)
            found.append(make.lengthened(end, dim, place, size, nothing))
        return found

    def _transposed(self, make: Builder, value: Value, dim: int) -> Value:
        return make.moved(value, dim, dim + 1) if self.is_transposed else value


def _columns(positions: Numbers, size: int, is_transposed: bool) -> Columns | None:
    count, few = positions.shape
    if not 2 <= few <= _MOST_COLUMNS or count <= few:
        return None
    stride = int(np.diff(positions[:, 0]).max())
    is_inside = (positions > 0) & (positions < size - 1)
    if stride < 1 or not is_inside.any(0).all():
        return None
    steps = stride * np.arange(count)
    first = is_inside.argmax(0)
    offsets = positions[first, np.arange(few)] - steps[first]
    near = (offsets + size // 2) % size - size // 2
    for goes_around, each in ((False, offsets), (True, near)):
        reached = steps[:, None] + each
        inside = reached % size if goes_around else np.clip(reached, 0, size - 1)
        if np.array_equal(inside, positions):
            found = Columns(stride, count, tuple(each.tolist()), size, goes_around, is_transposed)
            return found if sum(found._beyond) <= size else None
    return None
