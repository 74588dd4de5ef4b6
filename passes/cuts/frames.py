"""Gathers of frames: windows of equal length at equal distances, as a spectrogram cuts its signal.

`x[jnp.arange(n)[:, None] * hop + jnp.arange(length)]` reads most elements several times. In rows
of `hop` elements frame i is the rows from i on: a few slices of the rows, side by side, in which a
split dimension stays split and neighbours send each other the rows that frames share.

Frames of many rows, such as the keys that sliding windows of attention look at, are cut some
together: as one longer frame of fewer rows, in which they are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.ops.numbers import Numbers

_MOST_ROWS = 8  # of one frame: each is a slice of its own


@dataclass(frozen=True)
class Frames:
    """Positions `start + hop * i + j` of element j of frame i.

    Attributes:
        start: the first position; negative where frames begin ahead of the first element.
        hop: from the start of a frame to the start of the next, 1 or more.
        count: of frames.
        length: of a frame.
        is_transposed: whether the dimension of positions that counts frames comes second.
        together: how many neighbours are cut as one frame first.
        is_flat: whether one dimension of positions counts all elements, frame after frame.
        divides: whether shards have as many frames each, and not as many rows.
    """

    step: ClassVar[int] = 1  # from one position to the next, where they are nearest

    start: int
    hop: int
    count: int
    length: int
    is_transposed: bool = False
    together: int = 1
    is_flat: bool = False
    divides: bool = False

    @staticmethod
    def of(positions: Numbers, shards: Callable[[], int] = lambda: 1) -> Frames | None:
        """A matrix of positions as frames, of few rows each; None if they are none.

        Those of many rows only if there are `shards` that have a number of whole frames each.
        """
        return _frames(positions, False, shards) or _frames(positions.T, True, shards)

    @staticmethod
    def flat(positions: Numbers) -> Frames | None:
        """A row of positions as frames one after another, of few rows each; None if none."""
        breaks = np.flatnonzero(np.diff(positions) != 1)
        length = int(breaks[0]) + 1 if breaks.size else positions.size
        if positions.size % length:
            return None
        found = _frames(positions.reshape(-1, length), False, lambda: 1)
        return None if found is None else replace(found, is_flat=True)

    @property
    def rows(self) -> int:
        """How many rows of `hop` elements a frame reaches into."""
        return -(-self.length // self.hop)

    @property
    def all_rows(self) -> int:
        """How many rows of `hop` elements all frames together reach into."""
        return self.count + self.rows - 1

    def steps(self, start: int) -> Iterator[tuple[int, int, int]]:
        """What frames take of each row from `start` on: how far ahead it is, the first, the end."""
        end = start + self.length
        for ahead in range(start // self.hop, -(-end // self.hop)):
            yield ahead, max(start - ahead * self.hop, 0), min(end - ahead * self.hop, self.hop)

    def taken(self, make: Builder, value: Value, dim: int) -> Value:
        """The frames along a dimension, in whose place stand those of the positions.

        Where there is a frame for each row, zeros stand where they reach beyond the ends.
        """
        if self.together > 1:
            rows = self._wider._rows(make, value, dim)
            return self._transposed(make, self._apart(make, rows, dim), dim)
        shape, start = make.shape_of(value), self.start
        if self.count * self.hop != shape[dim]:
            wanted = self.all_rows * self.hop
            if start or shape[dim] % self.hop or wanted > shape[dim]:
                value = make.cut(value, dim, start, min(wanted, shape[dim] - start))
                value = make.lengthened(value, dim, 0, wanted)
            start = 0
        count = make.shape_of(value)[dim] // self.hop
        value = make.regrouped(value, dim, count, self.hop)
        zero, parts = make.zero_of(value), []
        for ahead, first, end in self.steps(start):
            low, high = max(ahead, 0), min(ahead + self.count, count)
            part = make.cut(make.cut(value, dim + 1, first, end - first), dim, low, high - low)
            parts.append(make.lengthened(part, dim, low - ahead, self.count, zero))
        frames = make.joined(parts, dim + 1)
        if self.is_flat:
            return make.regrouped(frames, dim, self.count * self.length, count=2)
        return self._transposed(make, frames, dim)

    def put_back(
        self, make: Builder, value: Value, dim: int, size: int, nothing: Value, beside: Value
    ) -> list[Value]:
        """The sums of what frames hold, as of `Runs`; `taken` transposed."""
        value = make.regrouped(value, dim, self.count, self.length) if self.is_flat else value
        value = self._transposed(make, value, dim)
        if self.together > 1:
            value = self._joined(make, value, dim, nothing)
            return [self._wider._put_rows(make, value, dim, size, nothing, beside)]
        value = make.lengthened(value, dim + 1, 0, self.rows * self.hop, nothing)
        parts = [make.cut(value, dim + 1, row * self.hop, self.hop) for row in range(self.rows)]
        value = (self._pushed if self.divides else self._added)(make, parts, dim, nothing)
        reached = (self.count - 1) * self.hop + self.length
        value = make.cut(value, dim, 0, reached)
        return [make.lengthened(value, dim, self.start, size, beside)]

    def _added(self, make: Builder, parts: Sequence[Value], dim: int, nothing: Value) -> Value:
        """The sums of the first row of each frame, the second of each, ..., where they belong."""
        rows = [make.lengthened(p, dim, row, self.all_rows, nothing) for row, p in enumerate(parts)]
        return make.regrouped(make.combined("add", rows), dim, self.all_rows * self.hop, count=2)

    def _pushed(self, make: Builder, parts: Sequence[Value], dim: int, nothing: Value) -> Value:
        """The same, as sums of rows that go on by one row at a time, and those behind the last.

        A shard sends one row for each row of a frame, and none but the last has more than frames.
        """
        *others, value = parts
        behind = list[Value]()
        for part in reversed(others):
            behind.insert(0, make.cut(value, dim, self.count - 1, 1))
            kept = make.cut(value, dim, 0, self.count - 1)
            value = make.binary("add", make.lengthened(kept, dim, 1, self.count, nothing), part)
        flat = [make.regrouped(value, dim, self.count * self.hop, count=2)]
        flat += [make.regrouped(row, dim, self.hop, count=2) for row in behind]
        return make.joined(flat, dim)

    def _rows(self, make: Builder, value: Value, dim: int) -> Value:
        """The frames along a dimension: the first row of each, the second of each, side by side.

        So all that is cut is about as long as the dimension, and stays in its place.
        """
        shape, length, parts = make.shape_of(value), self.count * self.hop, list[Value]()
        for ahead, _, end in self.steps(0):
            start = self.start + ahead * self.hop
            part = make.cut(value, dim, start, min(length, shape[dim] - start))
            part = make.lengthened(part, dim, 0, length)
            part = make.regrouped(part, dim, self.count, self.hop)
            parts.append(make.cut(part, dim + 1, 0, end))
        return make.joined(parts, dim + 1)

    def _put_rows(
        self, make: Builder, value: Value, dim: int, size: int, nothing: Value, beside: Value
    ) -> Value:
        """The sums of what frames hold: `_rows` transposed."""
        value = make.lengthened(value, dim + 1, 0, self.rows * self.hop, nothing)
        parts = list[Value]()
        for row in range(self.rows):
            part = make.cut(value, dim + 1, row * self.hop, self.hop)
            part = make.regrouped(part, dim, self.count * self.hop, count=2)
            start = self.start + row * self.hop
            part = make.cut(part, dim, 0, min(self.count * self.hop, size - start))
            parts.append(make.lengthened(part, dim, start, size, nothing if parts else beside))
        return make.combined("add", parts)

    @property
    def _wider(self) -> Frames:
        """Each as long as those that are cut together reach."""
        more = self.hop * (self.together - 1)
        count, hop = self.count // self.together, self.hop * self.together
        return Frames(self.start, hop, count, self.length + more)

    def _apart(self, make: Builder, value: Value, dim: int) -> Value:
        """The frames that wider ones hold, one behind the other.

        Each wider one is repeated, and `hop` elements longer rows of that begin `hop` further on.
        """
        long, shape = self._wider.length, make.shape_of(value)
        dims = [d for d in range(len(shape) + 1) if d != dim + 1]
        value = make.broadcast(value, with_sizes(shape, dim + 1, self.together, long), dims)
        value = make.regrouped(value, dim + 1, self.together * long, count=2)
        value = make.lengthened(value, dim + 1, 0, self.together * (long + self.hop))
        value = make.regrouped(value, dim + 1, self.together, long + self.hop)
        value = make.cut(value, dim + 2, 0, self.length)
        return make.regrouped(value, dim, self.count, self.length, count=3)

    def _joined(self, make: Builder, value: Value, dim: int, nothing: Value) -> Value:
        """The sums of what frames hold, in wider ones; `_apart` transposed."""
        wider = self._wider
        value = make.lengthened(value, dim + 1, 0, wider.length + self.hop, nothing)
        both = self.together * (wider.length + self.hop)
        value = make.regrouped(value, dim, wider.count, both, count=2)
        value = make.cut(value, dim + 1, 0, self.together * wider.length)
        value = make.regrouped(value, dim + 1, self.together, wider.length)
        return make.reduced(value, dim + 1, "sum")

    def _transposed(self, make: Builder, value: Value, dim: int) -> Value:
        return make.moved(value, dim, dim + 1) if self.is_transposed else value


def _frames(positions: Numbers, is_transposed: bool, shards: Callable[[], int]) -> Frames | None:
    count, length = positions.shape
    if count < 2 or length < 1:
        return None
    start, hop = int(positions[0, 0]), int(positions[1, 0] - positions[0, 0])
    if hop < 1:
        return None
    found = Frames(start, hop, count, length, is_transposed)
    expected = start + hop * np.arange(count)[:, None] + np.arange(length)
    if not np.array_equal(positions, expected):
        return None
    if found.rows <= _MOST_ROWS:
        parts = shards() if found.rows > 1 else 1
        divides = parts > 1 and not count % parts and bool(found.all_rows % parts)
        return replace(found, divides=divides)
    together = _together(found, shards())
    return None if together is None else replace(found, together=together)


def _together(frames: Frames, shards: int) -> int | None:
    """How many frames to cut as one: no more than reach into the next such one, if that can be.

    Each shard then sends what its neighbours lack, once.
    """
    if shards == 1 or frames.count % shards:
        return None
    each, enough = frames.count // shards, frames.rows - 1
    numbers = [n for n in range(2, each + 1) if each % n == 0]
    fitting = [n for n in numbers if enough <= (_MOST_ROWS - 1) * n]
    return min(fitting, key=lambda n: (n < enough, abs(n - enough)), default=None)
