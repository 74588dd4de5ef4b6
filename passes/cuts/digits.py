"""Positions that count in digits of their own: reshapes, reversals and transposes.

`x[jnp.arange(n) ^ 4]` exchanges blocks of four elements, as a gate of a quantum circuit does, and
`x[bit_reversed]` reads the bits of a position the other way round. If a position is a number of a
few digits, what is read there is the array with a dimension for each digit: some are reversed, or
stand in another order. Then a split dimension stays split, but for the digits of the shards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder
from dtensor.passes.ops.numbers import Numbers

_MOST_DIGITS = 6  # digits: each is a dimension


@dataclass(frozen=True)
class PositionDigits:
    """Positions in a stretch of a dimension, each of them once.

    Attributes:
        shape: of the array of positions, whose dimensions stand for the one that they are in.
        start: the lowest position.
        sizes: how many values each digit has, from the one that changes last.
        steps: how far apart the positions of its values are; negative if they go backwards.
    """

    step: ClassVar[int] = 1  # from one position to the next, where they are nearest

    shape: tuple[int, ...]
    start: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @staticmethod
    def of(positions: Numbers) -> PositionDigits | None:
        """Positions as digits; None if these are many, or the positions not all of a stretch."""
        sizes, steps, left = list[int](), list[int](), positions.reshape(-1).astype(np.int64)
        while len(left) > 1:
            step = int(left[1] - left[0])
            # A digit begins anew wherever its step is broken.
            size = math.gcd(len(left), *(np.flatnonzero(np.diff(left) != step) + 1).tolist())
            if size == 1 or len(sizes) == _MOST_DIGITS:
                return None
            sizes.insert(0, size)
            steps.insert(0, step)
            left = left[::size]
        found = PositionDigits(positions.shape, int(positions.min()), tuple(sizes), tuple(steps))
        return found if found._is_whole else None

    @property
    def _is_whole(self) -> bool:
        """Whether no position of the stretch is left out, and none is there twice."""
        wanted = 1
        for digit in reversed(self._by_step):
            if abs(self.steps[digit]) != wanted:
                return False
            wanted *= self.sizes[digit]
        return True

    @property
    def _by_step(self) -> list[int]:
        """The digits in the order of the dimensions in which elements lie."""
        return sorted(range(len(self.sizes)), key=lambda digit: -abs(self.steps[digit]))

    def taken(self, make: Builder, value: Value, dim: int) -> Value:
        """What stands at the positions along a dimension, in its place."""
        count, order = math.prod(self.sizes), self._by_step
        value = make.cut(value, dim, self.start, count)
        value = make.regrouped(value, dim, *(self.sizes[digit] for digit in order))
        value = self._reversed(make, value, dim)
        value = _reordered(make, value, dim, [order.index(digit) for digit in range(len(order))])
        return make.regrouped(value, dim, *self.shape, count=len(order))

    def put_back(
        self, make: Builder, value: Value, dim: int, size: int, nothing: Value, beside: Value
    ) -> list[Value]:
        """What stands at its positions, as of `Runs`; `taken` transposed."""
        value = make.regrouped(value, dim, *self.sizes, count=len(self.shape))
        value = self._reversed(make, _reordered(make, value, dim, self._by_step), dim)
        value = make.regrouped(value, dim, math.prod(self.sizes), count=len(self.sizes))
        return [make.lengthened(value, dim, self.start, size, beside)]

    def _reversed(self, make: Builder, value: Value, dim: int) -> Value:
        for d, digit in enumerate(self._by_step):
            if self.steps[digit] < 0:
                value = make.reversed(value, dim + d)
        return value


def _reordered(make: Builder, value: Value, dim: int, order: list[int]) -> Value:
    """The dimensions from one on in another order."""
    others = range(dim + len(order), len(make.shape_of(value)))
    return make.transpose(value, [*range(dim), *(dim + d for d in order), *others])
