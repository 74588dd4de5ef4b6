"""Gathers of frames: windows of equal length at equal distances, as a spectrogram cuts its signal.

`x[jnp.arange(n)[:, None] * hop + jnp.arange(length)]` reads most elements several times. In rows
of `hop` elements frame i is the rows from i on: a few slices of the rows, side by side, in which a
split dimension stays split and neighbours send each other the rows that frames share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder
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
        is_turned: whether the dimension of positions that counts frames comes second.
    """

    start: int
    hop: int
    count: int
    length: int
    is_turned: bool = False

    @staticmethod
    def of(positions: Numbers) -> Frames | None:
        """A matrix of positions as frames, of few rows each; None if they are none."""
        return _frames(positions, False) or _frames(positions.T, True)

    @property
    def step(self) -> int:
        """From one position to the next, where they are nearest."""
        return 1

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
        shape, start = make.shape_of(value), self.start
        if self.count * self.hop != shape[dim]:
            wanted = self.all_rows * self.hop
            if start or shape[dim] % self.hop or wanted > shape[dim]:
                value = make.cut(value, dim, start, min(wanted, shape[dim] - start))
                value = make.lengthened(value, dim, 0, wanted)
            start = 0
        count = make.shape_of(value)[dim] // self.hop
        value = make.reshape(value, (*shape[:dim], count, self.hop, *shape[dim + 1 :]))
        zero, parts = make.zero_of(value), []
        for ahead, first, end in self.steps(start):
            low, high = max(ahead, 0), min(ahead + self.count, count)
            part = make.cut(make.cut(value, dim + 1, first, end - first), dim, low, high - low)
            parts.append(make.lengthened(part, dim, low - ahead, self.count, zero))
        return self._turned(make, make.joined(parts, dim + 1), dim)

    def put_back(
        self, make: Builder, value: Value, dim: int, size: int, nothing: Value, beside: Value
    ) -> list[Value]:
        """The sums of what frames hold, as of `Runs`; `taken` transposed."""
        value = self._turned(make, value, dim)
        shape = make.shape_of(value)
        value = make.lengthened(value, dim + 1, 0, self.rows * self.hop, nothing)
        parts = []
        for row in range(self.rows):
            part = make.cut(value, dim + 1, row * self.hop, self.hop)
            parts.append(make.lengthened(part, dim, row, self.all_rows, nothing))
        value = make.combined("add", parts)
        value = make.reshape(value, (*shape[:dim], self.all_rows * self.hop, *shape[dim + 2 :]))
        reached = (self.count - 1) * self.hop + self.length
        value = make.cut(value, dim, 0, reached)
        return [make.lengthened(value, dim, self.start, size, beside)]

    def _turned(self, make: Builder, value: Value, dim: int) -> Value:
        if not self.is_turned:
            return value
        order = list(range(len(make.shape_of(value))))
        order[dim : dim + 2] = dim + 1, dim
        return make.transpose(value, order)


def _frames(positions: Numbers, is_turned: bool) -> Frames | None:
    count, length = positions.shape
    if count < 2 or length < 1:
        return None
    start, hop = int(positions[0, 0]), int(positions[1, 0] - positions[0, 0])
    if hop < 1 or length > _MOST_ROWS * hop:
        return None
    found = Frames(start, hop, count, length, is_turned)
    expected = start + hop * np.arange(count)[:, None] + np.arange(length)
    return found if np.array_equal(positions, expected) else None
