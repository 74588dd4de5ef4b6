"""Single steps between specs: what one collective, or one local operation, can do.

What a step costs is a start and a share of the tensor's bytes, so one table per rank serves all
shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.cost.model import CostModel
from dtensor.passes.propagation.places import MAX_RANK, WHOLE
from dtensor.passes.relayout.search import plan
from dtensor.passes.sharding.specs import Places, RankSpecs

LOCAL = 0.1  # of a collective's start is what a local step takes: one more operation to run

Mask = NDArray[np.bool_]
Seconds = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], ...]


class Ways(NamedTuple):
    """Steps in a row, those from one spec after those from another.

    Attributes:
        first: per spec, the number of the first step that starts there; one more at the end.
        to: per step, the spec to which it leads.
        start: per step, seconds of the collective's start.
        rate: per step, seconds per byte of the whole tensor.
    """

    first: list[int]
    to: NDArray[np.intp]
    start: Seconds
    rate: Seconds


class Steps:
    """The steps among the specs of one rank.

    Attributes:
        start: seconds of the collective's start, per spec before and after; infinite for no step.
        rate: seconds per byte of the whole tensor.
        on: the steps from which others lead on.
        last: masks and spreads, which make a partial value: no way leads on from there.
    """

    def __init__(
        self, specs: RankSpecs, sizes: Sequence[int], cost: CostModel, names: Sequence[str]
    ):
        self.specs = specs
        self.sizes = sizes
        self.cost = cost
        self.links = [cost.axis_link(name) for name in names]
        count = len(specs)
        self.start = np.full((count, count), math.inf)
        self.rate = np.zeros((count, count))
        self._makes_partial = np.zeros((count, count), bool)
        np.fill_diagonal(self.start, 0.0)
        self._splits = np.array(specs.splits, float)
        self._places = np.array(specs.places, np.int64).reshape(count, len(sizes))
        differ = self._places[:, None, :] != self._places[None, :, :]
        number = (differ * (1 << np.arange(len(sizes)))).sum(-1)
        permuted = self._permuted()
        for subset in range(1, 1 << len(sizes)):
            between = number == subset
            if between.any():
                moving = [i for i in range(len(sizes)) if subset >> i & 1]
                self._add(moving, between, permuted)
        is_step = np.isfinite(self.start)
        np.fill_diagonal(is_step, val=False)
        self.on = self._ways(is_step & ~self._makes_partial)
        self.last = self._ways(is_step & self._makes_partial)

    def _ways(self, which: Mask) -> Ways:
        first = [0, *np.cumsum(which.sum(1)).tolist()]
        return Ways(first, np.nonzero(which)[1], self.start[which], self.rate[which])

    def _add(self, moving: list[int], between: Mask, permuted: Mask) -> None:
        """The steps that change the places of these sub-axes and of no other."""
        places = self._places[:, moving]
        n = math.prod([self.sizes[i] for i in moving])
        whole, split, partial = places == WHOLE, places > WHOLE, places < WHOLE
        local = _every(whole[:, None] | (split[:, None] & partial[None, :])) & between
        wholly = _every(whole)
        splits = _every(split)
        parts = _every(partial)
        near = splits.copy()
        for spec in np.flatnonzero(splits).tolist() if len(moving) > 1 else ():
            near[spec] = _are_neighbours(self.specs.places[spec], moving, self.sizes)
        exchanged = between & splits[:, None] & splits[None, :]
        overlapping = self._overlapping(np.nonzero(exchanged), moving)
        exchanged[overlapping] = False
        for before, after in zip(*overlapping, strict=True) if len(moving) == 1 else ():
            self._search(int(before), int(after))
        self._set(moving, between & parts[:, None] & wholly[None, :], 2 * (n - 1) / n)
        self._set(moving, between & parts[:, None] & near[None, :], (n - 1) / n)
        self._set(moving, between & near[:, None] & wholly[None, :], n - 1)
        self._set(moving, exchanged, (n - 1) / n)
        complete = _every(places >= WHOLE)
        open_ = between & np.isinf(self.start) & ~local
        self._set(moving, open_ & permuted & complete[:, None] & complete[None, :], 1.0)
        self.start[local] = LOCAL * max([self.links[i].alpha for i in moving])
        self._makes_partial |= local & ~complete[None, :]

    def _overlapping(self, pairs: Pairs, moving: list[int]) -> Pairs:
        """Those pairs where a sub-axis goes to a place of which a part is taken before."""
        sizes = np.array(self.sizes)
        places = self._places[pairs[0]]
        start, dim = np.divmod(places, MAX_RANK)
        end = np.where(places > WHOLE, start * sizes, 1)  # what is nowhere ends where all begins
        overlap = np.zeros(len(places), bool)
        for i in moving:
            first, to = np.divmod(self._places[pairs[1], i, None], MAX_RANK)
            over = (dim == to) & (start % (first * sizes[i]) != 0) & (first % end != 0)
            overlap |= over.any(-1)
        return pairs[0][overlap], pairs[1][overlap]

    def _set(self, moving: Sequence[int], which: Mask, shards: float) -> None:
        """One collective, of so many shards of the tensor before it."""
        if not which.any():
            return
        links = [self.links[i] for i in moving]
        speed = min([link.bytes_per_second for link in links])
        self.start[which] = max([link.alpha for link in links])
        self.rate[which] = (shards / speed / self._splits)[np.nonzero(which)[0]]

    def _permuted(self) -> Mask:
        """Pairs of specs that cut the tensor alike: whole shards change places."""
        numbers: dict[object, int] = {}
        cuts = [
            (_cuts(p, self.sizes), partial)
            for p, partial in zip(self.specs.places, self.specs.partial, strict=True)
        ]
        number = np.array([numbers.setdefault(cut, len(numbers)) for cut in cuts])
        found: Mask = number[:, None] == number[None, :]
        return found

    def _search(self, before: int, after: int) -> None:
        """One sub-axis moves ahead of blocks of its dimension, or behind them: what that takes."""
        shape = [1] * self.specs.rank
        for spec in (before, after):
            for place, size in zip(self.specs.places[spec], self.sizes, strict=True):
                if place > WHOLE:
                    major, dim = divmod(place, MAX_RANK)
                    shape[dim] = math.lcm(shape[dim], major * size)
        layouts = self.specs.layout(before), self.specs.layout(after)
        self.start[before, after] = self.rate[before, after] = 0.0
        for step in plan(*layouts, shape, 1.0, self.cost):
            if not step.is_local:
                link = self.cost.axes_link(step.axes)
                self.start[before, after] += step.collectives * link.alpha
                rate = step.wire_bytes / (math.prod(shape) * link.bytes_per_second)
                self.rate[before, after] += rate


def _every(mask: Mask) -> Mask:
    """Whether all along the last axis are true."""
    found: Mask = np.logical_and.reduce(mask, axis=-1)
    return found


def _are_neighbours(places: Places, moving: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether some sub-axes stand one behind the other in one dimension."""
    if len(moving) == 1:
        return True
    found = sorted([(*divmod(places[i], MAX_RANK)[::-1], sizes[i]) for i in moving])
    return all(one[0] == other[0] and one[1] * one[2] == other[1] for one, other in pairwise(found))


def _cuts(places: Places, sizes: Sequence[int]) -> frozenset[tuple[int, int, int]]:
    """Where the tensor is cut, whichever sub-axes cut it: stretches `(dimension, ahead, end)`."""
    found: list[tuple[int, int, int]] = []
    placed = [(*divmod(p, MAX_RANK)[::-1], n) for p, n in zip(places, sizes, strict=True) if p >= 0]
    for dim, major, size in sorted(placed):
        start = major
        if found and (found[-1][0], found[-1][2]) == (dim, major):
            start = found.pop()[1]
        found.append((dim, start, major * size))
    return frozenset(found)
