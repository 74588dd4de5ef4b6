"""Positions as a few runs: slices, reversals and repetitions, side by side.

`jnp.take(x, jnp.array([3, 2, 1]))` reads one run that goes backwards, and `jnp.repeat(x, 2)` one in
which each position comes twice. Gradients put elements back by the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder
from dtensor.passes.ops.numbers import Numbers
from dtensor.passes.ops.reduction import Reduction

_MOST_RUNS = 4  # stretches that are put together


@dataclass(frozen=True)
class Run:
    """Positions `start`, `start + step`, ..., `count` of them, each `times` times in a row."""

    start: int
    step: int
    count: int
    times: int = 1

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest position and the highest."""
        last = self.start + self.step * (self.count - 1)
        return min(self.start, last), max(self.start, last)

    def taken(self, make: Builder, value: Value, dim: int) -> Value:
        """What stands at the positions along a dimension."""
        value = make.cut(value, dim, self.ends[0], self.count, abs(self.step) or 1)
        if self.step < 0:
            value = make.reversed(value, dim)
        if self.times == 1:
            return value
        shape = list(make.shape_of(value))
        long = [*shape[: dim + 1], self.times, *shape[dim + 1 :]]
        dims = [d + (d > dim) for d in range(len(shape))]
        shape[dim] *= self.times
        return make.reshape(make.broadcast(value, long, dims), shape)

    def put_back(self, make: Builder, value: Value, dim: int, size: int, fill: Value) -> Value:
        """Rows at the positions, of `size`, and `fill` elsewhere: `taken` transposed."""
        shape = list(make.shape_of(value))
        if self.times > 1:
            value = make.regrouped(value, dim, self.count, self.times)
            value = make.reduced(value, dim + 1, Reduction.SUM)
        if self.step < 0:
            value = make.reversed(value, dim)
        low, last = self.ends
        numbers = low, size - last - 1, abs(self.step) - 1
        rows = [[n if d == dim else 0 for d in range(len(shape))] for n in numbers]
        return make.pad(value, fill, *rows)

    def inside(self, make: Builder, size: int) -> Value:
        """A vector that is true at the positions, of `size`."""
        (low, last), step = self.ends, abs(self.step)
        index = make.iota([size], 0, "i32")
        mask = make.within(index, low, last + 1)
        if step > 1:
            phase = make.modulo(index, step)
            is_in_step = make.compare("EQ", phase, low % step)
            mask = make.binary("and", mask, is_in_step)
        return mask


@dataclass(frozen=True)
class Runs:
    """Positions as runs; with several, each of step 1."""

    each: tuple[Run, ...]

    @staticmethod
    def of(positions: Numbers) -> Runs | None:
        """A vector of positions as runs; None if they are many."""
        times = int(np.argmax(np.append(positions != positions[0], True)))
        rows = positions[::times]
        if len(positions) % times == 0 and np.array_equal(np.repeat(rows, times), positions):
            steps = np.diff(rows)
            if not len(steps) or (steps == steps[0]).all():
                step = int(steps[0]) if len(steps) else 1
                return Runs((Run(int(rows[0]), step, len(rows), times),))
        breaks = np.flatnonzero(np.diff(positions) != 1) + 1
        if len(breaks) >= _MOST_RUNS:
            return None
        edges = [0, *breaks.tolist(), len(positions)]
        return Runs(tuple([Run(int(positions[a]), 1, b - a) for a, b in pairwise(edges)]))

    @property
    def step(self) -> int:
        """From one position to the next, where they are nearest."""
        return min(abs(run.step) for run in self.each)

    @property
    def once(self) -> int:
        """How many positions there are, each counted once."""
        each = [run.start + run.step * np.arange(run.count) for run in self.each]
        return len(np.unique(np.concatenate(each)))

    def taken(self, make: Builder, value: Value, dim: int) -> Value:
        """What stands at the positions along a dimension, in its place."""
        return make.joined([run.taken(make, value, dim) for run in self.each], dim)

    def put_back(
        self, make: Builder, value: Value, dim: int, size: int, nothing: Value, beside: Value
    ) -> list[Value]:
        """What stands at its positions along a dimension, as terms of a sum: `taken` transposed.

        Elsewhere stands the scalar `nothing`, which no sum notices, and in the first term `beside`.
        """
        start, found = 0, []
        for run in self.each:
            part = make.cut(value, dim, start, run.count * run.times)
            found.append(run.put_back(make, part, dim, size, nothing if start else beside))
            start += run.count * run.times
        return found


def box(make: Builder, shape: Sequence[int], inside: Mapping[int, Run]) -> Value:
    """True where the indices along some dimensions are those of runs, else false."""
    masks = [make.broadcast(run.inside(make, shape[d]), shape, [d]) for d, run in inside.items()]
    return make.combined("and", masks)
