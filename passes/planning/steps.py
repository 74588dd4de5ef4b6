"""Single steps between specs: what one collective, or one local operation, can do.

What a step costs is a start and a share of the tensor's bytes, so one table per rank serves all
shapes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.cost.model import CostModel
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, Places, split_place
from dtensor.passes.relayout.search import plan
from dtensor.passes.sharding.specs import RankSpecs, overlaps

LOCAL_STEP = 0.1  # of a collective's start is what a local step takes: one more operation to run

_WIDE = 1e9  # bytes of an element, so that starts do not count
_ROWS = 256  # specs whose steps are found at once: more would leave the caches of the processor

Mask = NDArray[np.bool_]
Seconds = NDArray[np.float64]
Numbers = NDArray[np.intp]
Axes = NDArray[np.int64]


class Ways(NamedTuple):
    """Steps in a row, those from one spec after those from another.

    Attributes:
        first: per spec, the number of the first step that starts there; one more at the end.
        to: per step, the spec to which it leads.
        start: per step, seconds of the collective's start.
        rate: per step, seconds per byte of the whole tensor.
    """

    first: Numbers
    to: Numbers
    start: Seconds
    rate: Seconds

    @classmethod
    def of(cls, which: Mask, start: Seconds, rate: Seconds, to: int) -> Ways:
        """Those that a mask names in a table of specs before and after, the latter from `to` on."""
        first = np.concatenate([[0], np.cumsum(which.sum(1))])
        return cls(first, np.nonzero(which)[1] + to, start[which], rate[which])

    @classmethod
    def joined(cls, parts: Sequence[Ways]) -> Ways:
        """Those of the specs of all parts."""
        counts = np.concatenate([np.diff(part.first) for part in parts])
        _, *others = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return cls(np.concatenate([[0], np.cumsum(counts)]), *others)

    def with_more(self, more: Ways) -> Ways:
        """Those of the same specs, in both."""
        counts = [np.diff(ways.first) for ways in (self, more)]
        starts = np.concatenate([np.repeat(np.arange(len(each)), each) for each in counts])
        order = np.argsort(starts, kind="stable")
        others = (np.concatenate(pair)[order] for pair in zip(self[1:], more[1:], strict=True))
        return Ways(np.concatenate([[0], np.cumsum(sum(counts))]), *others)

    def among(self, specs: Mask) -> Ways:
        """Those from one of these specs to another, which are numbered anew."""
        kept = np.repeat(specs, np.diff(self.first)) & specs[self.to]
        before = np.concatenate([[0], np.cumsum(kept)])  # per step, how many are kept before it
        first = before[self.first[np.append(specs, True)]]
        number = np.cumsum(specs) - 1
        return Ways(first, number[self.to[kept]], self.start[kept], self.rate[kept])


class SpecSteps:
    """The steps among the specs of one rank.

    Attributes:
        count: how many specs there were.
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
        self.count = 0
        self.on: Ways
        self.last: Ways
        self._cuts: dict[Hashable, int] = {}
        self._cut = np.zeros(0, np.intp)
        self._clash = np.zeros(0, bool)
        self.take_in()

    def take_in(self) -> None:
        """Find the steps from and to the specs that have come, if any have."""
        specs, had, self.count = self.specs, self.count, len(self.specs)
        if had == self.count:
            return
        self._splits = np.array(specs.splits, float)
        self._places = np.array(specs.places, np.int64).reshape(self.count, len(self.sizes))
        self._kept = self._axes_where(self._places == WHOLE)
        self._split = self._axes_where(self._places > WHOLE)
        self._partial = self._axes_where(self._places < WHOLE)
        come = zip(specs.places[had:], specs.partial[had:], strict=True)
        cuts = [(_cuts(places, self.sizes), is_partial) for places, is_partial in come]
        numbers = [self._cuts.setdefault(cut, len(self._cuts)) for cut in cuts]
        self._cut = np.concatenate([self._cut, np.array(numbers, np.intp)])
        clash = [overlaps(places, self.sizes) for places in specs.places[had:]]
        self._clash = np.concatenate([self._clash, np.array(clash, bool)])
        self._among: dict[bytes, Ways] = {}
        self._near: dict[int, Mask] = {}
        rows = [self._from(first, self.count, 0) for first in range(had, self.count, _ROWS)]
        on, last = (Ways.joined(parts) for parts in zip(*rows, strict=True))
        if had:
            rows = [self._from(first, had, had) for first in range(0, had, _ROWS)]
            more = [Ways.joined(parts) for parts in zip(*rows, strict=True)]
            on = Ways.joined([self.on.with_more(more[0]), on])
            last = Ways.joined([self.last.with_more(more[1]), last])
        self.on, self.last = on, last

    def that_fit(self, shape: Sequence[int]) -> Mask:
        """The specs that a tensor may have: see `is_legal`."""
        fit, split = ~self._clash, self._places > WHOLE
        major, dim = np.divmod(np.where(split, self._places, 0), MAX_RANK)
        ends = np.where(split, major * np.array(self.sizes, np.int64), 1)
        for d, size in enumerate(shape):
            fit &= ((dim != d) | (size % ends == 0)).all(-1)
        return fit

    def among(self, specs: Mask) -> Ways:
        """The steps among some specs, which are numbered anew.

        Those in `last` lead to copies of the specs, numbered behind them, where all ways end.
        """
        key = specs.tobytes()
        found = self._among.get(key)
        if found is None:
            on, last = self.on.among(specs), self.last.among(specs)
            count = len(on.first) - 1
            every = on.with_more(last._replace(to=last.to + count))
            ends = np.full(count, len(every.to))
            found = self._among[key] = every._replace(first=np.concatenate([every.first, ends]))
        return found

    def partial_over(self, specs: Mask) -> Mask:
        """Per such spec and sub-axis, whether the devices along it hold parts."""
        found: Mask = self._places[specs] < WHOLE
        return found

    def _axes_where(self, mask: Mask) -> Axes:
        """Per spec the sub-axes for which something holds, as the bits of a number."""
        found: Axes = (mask * (1 << np.arange(len(self.sizes)))).sum(-1)
        return found

    def _from(self, first: int, end: int, to: int) -> tuple[Ways, Ways]:
        """The steps from some specs in a row, of those before `end`, to all from `to` on.

        They are found by the sub-axes whose places they change.
        """
        places, others = self._places[first : min(first + _ROWS, end)], self._places[to:]
        shape = len(places), len(others)
        changed = np.zeros(shape, np.min_scalar_type((1 << len(self.sizes)) - 1))
        for axis in range(len(self.sizes)):
            differ = places[:, axis, None] != others[:, axis]
            changed |= differ.astype(changed.dtype) << axis
        order = np.argsort(changed, axis=None, kind="stable")
        numbers, ends = np.unique(changed.ravel()[order], return_index=True)
        start, rate = np.full(shape, math.inf), np.zeros(shape)
        makes_partial = np.zeros(shape, bool)
        for number, pairs in zip(numbers.tolist(), np.split(order, ends[1:]), strict=True):
            if number:
                row, after = np.divmod(pairs, len(others))
                found = self._between(number, row + first, after + to)
                for array, values in zip((start, rate, makes_partial), found, strict=True):
                    array.ravel()[pairs] = values
        is_step = np.isfinite(start)
        masks = is_step & ~makes_partial, is_step & makes_partial
        on, last = (Ways.of(mask, start, rate, to) for mask in masks)
        return on, last

    def _between(
        self, number: int, before: Numbers, after: Numbers
    ) -> tuple[Seconds, Seconds, Mask]:
        """The steps between pairs of specs in which these sub-axes have other places, no others.

        Args:
            number: the sub-axes, as bits.
            before: the specs before.
            after: those after.

        Returns:
            Seconds of the start, infinite for no step; seconds per byte; whether a step makes a
            partial value.
        """
        moving = [axis for axis in range(len(self.sizes)) if number >> axis & 1]
        n = math.prod([self.sizes[axis] for axis in moving])
        links = [self.links[axis] for axis in moving]
        alpha, speed = max([k.alpha for k in links]), min([k.bytes_per_second for k in links])
        start, rate = np.full(len(before), math.inf), np.zeros(len(before))

        def send(which: Mask, shards: float) -> None:
            """One collective, of so many shards of the tensor before it."""
            start[which] = alpha
            rate[which] = shards / speed / self._splits[before[which]]

        whole, near = self._kept & number == number, self._near_each_other(number, moving)
        partial = self._partial & number == number
        complete = self._partial & number == 0
        split = self._split & number == number
        kept = self._kept[before] | self._split[before] & self._partial[after]
        local = kept & number == number
        exchanged = split[before] & split[after]
        candidates = np.flatnonzero(exchanged)
        overlap = candidates[self._overlapping(before[candidates], after[candidates], moving)]
        exchanged[overlap] = False
        for pair in overlap[self._in_one_run(before[overlap], after[overlap], near, moving)]:
            start[pair], rate[pair] = self._search(int(before[pair]), int(after[pair]))
        send(partial[before] & whole[after], 2 * (n - 1) / n)
        send(partial[before] & near[after], (n - 1) / n)
        send(near[before] & whole[after], n - 1)
        send(exchanged, (n - 1) / n)
        permuted = np.isinf(start) & ~local & (self._cut[before] == self._cut[after])
        send(permuted & complete[before] & complete[after], 1.0)
        start[local] = LOCAL_STEP * alpha
        return start, rate, local & ~complete[after]

    def _near_each_other(self, number: int, moving: Sequence[int]) -> Mask:
        """Per spec, whether these sub-axes stand one behind the other in one dimension."""
        if number not in self._near:
            near = self._split & number == number
            for spec in np.flatnonzero(near).tolist() if len(moving) > 1 else ():
                near[spec] = _are_neighbours(self.specs.places[spec], moving, self.sizes)
            self._near[number] = near
        return self._near[number]

    def _in_one_run(
        self, before: Numbers, after: Numbers, near: Mask, moving: Sequence[int]
    ) -> Mask:
        """Per pair, whether what moves is one sub-axis, or stays together in its dimension.

        Not so where devices change places alone, and whole shards are sent.
        """
        if len(moving) == 1:
            return np.ones(len(before), bool)
        dim = self._places[:, moving[0]] % MAX_RANK
        is_same = (dim[before] == dim[after]) & (self._cut[before] != self._cut[after])
        found: Mask = is_same & near[before] & near[after]
        return found

    def _overlapping(self, before: Numbers, after: Numbers, moving: Sequence[int]) -> Mask:
        """Per pair, whether a sub-axis goes to a place of which a part is taken before."""
        sizes = np.array(self.sizes)
        start, dim = np.divmod(self._places, MAX_RANK)
        # What is nowhere ends where all begins.
        end = np.where(self._places > WHOLE, start * sizes, 1)
        overlap = np.zeros(len(before), bool)
        for axis in moving:
            first, to = start[after, axis, None], dim[after, axis, None]
            over = (dim[before] == to) & (start[before] % (first * sizes[axis]) != 0)
            overlap |= (over & (first % end[before] != 0)).any(-1)
        return overlap

    def _search(self, before: int, after: int) -> tuple[float, float]:
        """Sub-axes move ahead of blocks of their dimension, or behind them: what that takes.

        A tensor that has the dimensions alone in which it moves takes as much for each byte. What
        sends the fewest bytes is found: ways of less starts and more bytes are steps of their own.
        """
        sides = self.specs.places[before], self.specs.places[after]
        moves = [pair for pair in zip(*sides, strict=True) if pair[0] != pair[1]]
        dims = sorted({place % MAX_RANK for place in chain(*moves)})
        shape, splits = [1] * self.specs.rank, 1

        def there(place: int, size: int) -> int:
            if place <= WHOLE:
                return place
            major, dim = divmod(place, MAX_RANK)
            if dim not in dims:
                return WHOLE
            dim = dims.index(dim)
            shape[dim] = math.lcm(shape[dim], major * size)
            return split_place(dim, major)

        one, other = (tuple(map(there, places, self.sizes)) for places in sides)
        for place, size in zip(one, self.sizes, strict=True):
            splits *= size if place > WHOLE else 1
        layouts = self.specs.layout_at(one), self.specs.layout_at(other)
        start = rate = 0.0
        for step in plan(*layouts, shape, _WIDE, self.cost):
            if not step.is_local:
                link = self.cost.axes_link(step.axes)
                start += step.collectives * link.alpha
                rate += step.wire_bytes / (_WIDE * math.prod(shape) * link.bytes_per_second)
        return start, rate * splits / self.specs.splits[before]


def _are_neighbours(places: Places, moving: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether some sub-axes stand one behind the other in one dimension."""
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
