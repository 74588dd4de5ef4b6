"""What relayouts cost, as arrays over specs.

The specs of one rank are the corners of a graph whose edges are single collectives (or free local
steps). What an edge costs is a start per collective and a share of the tensor's bytes, so one
graph serves all shapes; shortest paths in it are the price of a relayout. `relayout.search` walks
the same steps when it realises one; tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.cost.model import CostModel
from dtensor.passes.propagation.places import MAX_RANK, WHOLE
from dtensor.passes.relayout.search import plan
from dtensor.passes.sharding.specs import Places, RankSpecs, Specs, is_legal

Seconds = NDArray[np.float64]
_LOCAL = 0.1  # of a collective's start is what a local step takes: one more operation to run
_EXACT = 3  # up to this many copies of one value, every order in which to make them is tried


class _Steps:
    """The graph of one rank: per edge, starts in seconds and seconds per byte of the whole."""

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
        self.last = np.zeros((count, count), bool)  # a mask or a spread: no way leads through it
        np.fill_diagonal(self.start, 0.0)
        places = np.array(specs.places, np.int64).reshape(count, len(sizes))
        cuts = [_cuts(p, sizes) for p in specs.places]
        differ = places[:, None, :] != places[None, :, :]
        number = (differ * (1 << np.arange(len(sizes)))).sum(-1)
        for before, after in np.argwhere(number).tolist():
            self._edge(before, after, cuts)

    def _edge(
        self, before: int, after: int, cuts: Sequence[frozenset[tuple[int, int, int]]]
    ) -> None:
        a, b = self.specs.places[before], self.specs.places[after]
        moving = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        share = _share(a, b, moving, self.sizes)
        if share is None and len(moving) == 1 and min(a[moving[0]], b[moving[0]]) > WHOLE:
            self._search(before, after)
            return
        if share is None:
            if (
                cuts[before] != cuts[after]
                or self.specs.partial[before] != self.specs.partial[after]
            ):
                return
            if any((a[i] < WHOLE) or (b[i] < WHOLE) for i in moving):
                return
            share = 1.0 / self.specs.splits[before]  # whole shards change places
        else:
            share /= self.specs.splits[before]
        links = [self.links[i] for i in moving]
        if not share:
            self.last[before, after] = any([b[i] < WHOLE for i in moving])
            self.start[before, after] = _LOCAL * max([k.alpha for k in links])
            self.rate[before, after] = 0.0
            return
        self.start[before, after] = max([k.alpha for k in links])
        self.rate[before, after] = share / min([k.bytes_per_second for k in links])

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
                link = self.cost.axes_link(step.network_axes)
                self.start[before, after] += link.alpha
                rate = step.wire_bytes / (math.prod(shape) * link.bytes_per_second)
                self.rate[before, after] += rate


def _share(a: Places, b: Places, moving: Sequence[int], sizes: Sequence[int]) -> float | None:
    """Wire bytes of one step, in shards before it; None if one step does not do."""
    n = math.prod([sizes[i] for i in moving])
    if all([a[i] == WHOLE or (a[i] > WHOLE and b[i] < WHOLE) for i in moving]):
        return 0.0  # slice, mask, spread
    if all([a[i] < WHOLE for i in moving]):
        if all([b[i] == WHOLE for i in moving]):
            return 2 * (n - 1) / n  # all_reduce
        if all([b[i] > WHOLE for i in moving]) and _are_neighbours(b, moving, sizes):
            return (n - 1) / n  # reduce_scatter
        return None
    if not all([a[i] > WHOLE for i in moving]):
        return None
    if all([b[i] == WHOLE for i in moving]):
        return float(n - 1) if _are_neighbours(a, moving, sizes) else None  # all_gather
    if all([b[i] > WHOLE for i in moving]) and _are_apart(a, b, moving, sizes):
        return (n - 1) / n  # all_to_all
    return None


def _are_neighbours(places: Places, moving: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether some sub-axes stand one behind the other in one dimension."""
    if len(moving) == 1:
        return True
    found = sorted([(*divmod(places[i], MAX_RANK)[::-1], sizes[i]) for i in moving])
    return all(one[0] == other[0] and one[1] * one[2] == other[1] for one, other in pairwise(found))


def _are_apart(a: Places, b: Places, moving: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the places that some sub-axes go to overlap no place that is taken before."""
    taken = [(p % MAX_RANK, p // MAX_RANK, n) for p, n in zip(a, sizes, strict=True) if p > WHOLE]
    for i in moving:
        major, dim = divmod(b[i], MAX_RANK)
        end = major * sizes[i]
        for other, start, size in taken:
            if other == dim and start % end and major % (start * size):
                return False
    return True


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


class Prices:
    """Seconds of relayouts between the specs of one program."""

    def __init__(self, specs: Specs, cost: CostModel) -> None:
        self.specs = specs
        self.cost = cost
        self._steps: dict[int, _Steps] = {}
        self._numbers: dict[tuple[tuple[int, ...], float], int] = {}
        self._shapes: list[tuple[int, ...]] = []
        self._bytes: list[float] = []
        self._edges: list[tuple[Seconds, Seconds] | None] = []
        self._rows: list[dict[int, Seconds]] = []
        self._copies: list[dict[tuple[int, tuple[int, ...]], float]] = []

    def class_of(self, shape: tuple[int, ...], itemsize: float) -> int:
        """The number of the values of this shape and element size; they share their prices."""
        key = (shape, itemsize)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._shapes)
            self._shapes.append(shape)
            self._bytes.append(math.prod(shape) * itemsize)
            self._edges.append(None)
            self._rows.append({})
            self._copies.append({})
        return found

    def row(self, cls: int, before: int) -> Seconds:
        """Seconds from one spec to every spec of a class of values."""
        rows = self._rows[cls]
        found = rows.get(before)
        if found is None or len(found) < len(self.specs.rank(len(self._shapes[cls]))):
            edges, lasts = self._edges_of(cls)
            ways = self._shortest(edges, before)
            found = rows[before] = np.minimum(ways, (ways[:, None] + lasts).min(0))
        return found

    def _edges_of(self, cls: int) -> tuple[Seconds, Seconds]:
        """Seconds of steps that lead on, and of those that are last: from complete to partial."""
        shape = self._shapes[cls]
        specs = self.specs.rank(len(shape))
        edges = self._edges[cls]
        if edges is not None and len(edges[0]) == len(specs):
            return edges
        steps = self._steps.get(len(shape))
        if steps is None or len(steps.start) < len(specs):
            names = [axis.name for axis in self.specs.subaxes]
            steps = self._steps[len(shape)] = _Steps(specs, self.specs.sizes, self.cost, names)
        whole = steps.start + steps.rate * self._bytes[cls]
        bad = [i for i, p in enumerate(specs.places) if not is_legal(p, self.specs.sizes, shape)]
        whole[:, bad] = math.inf
        edges = np.where(steps.last, math.inf, whole), np.where(steps.last, whole, math.inf)
        self._edges[cls] = edges
        return edges

    @staticmethod
    def _shortest(edges: Seconds, before: int) -> Seconds:
        """Bellman and Ford's algorithm from one corner; paths are a few steps long."""
        found: Seconds = edges[before]
        while True:
            better: Seconds = np.minimum(found, (found[:, None] + edges).min(0))
            if np.array_equal(better, found):
                return better
            found = better

    def move(self, cls: int, before: int, after: int) -> float:
        """Seconds of one relayout of a value of the class."""
        return 0.0 if before == after else float(self.row(cls, before)[after])

    def table(self, cls: int, given: NDArray[np.intp], wanted: NDArray[np.intp]) -> Seconds:
        """Seconds from each of some specs to each of others."""
        rows = {spec: self.row(cls, spec)[wanted] for spec in dict.fromkeys(given.tolist())}
        return np.array([rows[spec] for spec in given.tolist()])

    def copies(self, cls: int, given: int, wanted: tuple[int, ...]) -> float:
        """Seconds of having a value in all wanted specs; each copy is made from the nearest one.

        Args:
            cls: class of the value.
            given: the spec in which it is produced.
            wanted: the other specs, ascending, without `given`.
        """
        if len(wanted) < 2:
            return self.move(cls, given, wanted[0]) if wanted else 0.0
        memo = self._copies[cls]
        found = memo.get((given, wanted))
        if found is None:
            found = memo[given, wanted] = self._cheapest_copies(cls, given, wanted)
        return found

    def _cheapest_copies(self, cls: int, given: int, wanted: tuple[int, ...]) -> float:
        every = (given, *wanted)
        price = {a: self.row(cls, a) for a in every}
        if len(wanted) <= _EXACT:
            best = math.inf
            for order in permutations(wanted):
                have, total = [given], 0.0
                for spec in order:
                    total += min([price[h][spec] for h in have])
                    have.append(spec)
                best = min(best, total)
            return float(best)
        have, left, total = [given], list(wanted), 0.0
        while left:
            seconds, spec = min([(min([price[h][s] for h in have]), s) for s in left])
            total += seconds
            have.append(spec)
            left.remove(spec)
        return float(total)

    def coarser(self, rank: int, spec: int) -> list[int]:
        """The specs that leave some of the sub-axes out that split or are partial in `spec`."""
        specs = self.specs.rank(rank)
        places = specs.places[spec]
        used = [i for i, place in enumerate(places) if place != WHOLE]
        found = []
        for count in range(1, len(used) + 1):
            for out in combinations(used, count):
                coarse = tuple([WHOLE if i in out else p for i, p in enumerate(places)])
                found.append(specs.of(coarse))
        return found
