"""What relayouts cost, as arrays over specs.

The specs of one rank are the corners of a graph whose edges are single steps (`steps`); shortest
paths in it are the price of a relayout. They are searched from the specs that somebody asks for.
`relayout.search` walks the same steps when it realises one; tests hold the two together.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.axes import AxisRef
from dtensor.passes.cost.model import CostModel
from dtensor.passes.planning.steps import Mask, Numbers, Seconds, SpecSteps, Ways
from dtensor.passes.relayout.copies import copies_in_order
from dtensor.passes.sharding.specs import Specs

_EXACT = 3  # up to this many copies of one value, every order in which to make them is tried
_UNASKED = 1000.0  # times the seconds of a relayout, where a plan without one is looked for
_SCIPY = "scipy.sparse.csgraph"
_MANY = 10_000_000  # steps from all sources, of one program; for as many it is worth loading
_ROWS = 4  # sources at a time: their steps stay in the caches of the processor


class _Class(NamedTuple):
    """Values of one shape; `summed` is the size of an element while devices add it up."""

    shape: tuple[int, ...]
    itemsize: float
    summed: float


@dataclass(slots=True)
class _Found:
    """The seconds found so far for one class of values.

    Attributes:
        row: per spec its row in `seconds`; -1 where no way from it was searched yet.
        seconds: from the specs that were searched to every spec.
        copies: by the spec produced and those wanted, what all copies take.
    """

    row: NDArray[np.intp]
    seconds: Seconds
    copies: dict[tuple[int, tuple[int, ...]], float]

    @classmethod
    def none(cls) -> _Found:
        """Nothing found."""
        return cls(np.zeros(0, np.intp), np.zeros((0, 0)), {})


PricesOf = dict[tuple[AxisRef, ...], "Prices"]  # by the sub-axes; on one mesh and machine


class Prices:
    """Seconds of relayouts between the specs of one program.

    Attributes:
        specs: the specs.
        cost: the machine.
        is_strict: whether relayouts count a thousand times, but for sums: a plan that needs none
            that nobody asked for is found, if there is one.
    """

    def __init__(self, specs: Specs, cost: CostModel, is_strict: bool = False) -> None:
        self.is_strict = is_strict
        self.specs = specs
        self.cost = cost
        self._steps: dict[int, SpecSteps] = {}
        self._numbers: dict[_Class, int] = {}
        self._classes: list[_Class] = []
        self._found: list[_Found] = []
        self._visited = 0  # steps, from all sources

    def class_of(self, shape: tuple[int, ...], itemsize: float, summed: float | None = None) -> int:
        """The number of the values of this shape and element size; they share their prices.

        Args:
            shape: the shape.
            itemsize: bytes of an element.
            summed: bytes of an element while devices add it up; as always by default.
        """
        key = _Class(shape, itemsize, itemsize if summed is None else summed)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._classes)
            self._classes.append(key)
            self._found.append(_Found.none())
        return found

    def between(self, cls: int, given: Numbers, wanted: Numbers) -> Seconds:
        """Seconds of relayouts of a value of the class, for specs that broadcast."""
        found = self.search(cls, given)
        seconds: Seconds = found.seconds[found.row[given], wanted]
        return seconds

    def search(self, cls: int, given: Numbers) -> _Found:
        """Find the ways from these specs; many at once are found faster than one by one."""
        found, count = self._found[cls], len(self.specs.rank(len(self._classes[cls].shape)))
        if len(found.row) < count:  # specs have come that may be on a shorter way
            found.row, found.seconds = np.full(count, -1), np.zeros((0, count))
        rows = found.row[given]
        if np.count_nonzero(rows < 0):
            missing = np.unique(np.asarray(given)[rows < 0])
            found.row[missing] = len(found.seconds) + np.arange(len(missing))
            found.seconds = np.concatenate([found.seconds, self._shortest(cls, missing)])
        return found

    def _shortest(self, cls: int, sources: Numbers) -> Seconds:
        """The shortest ways from some specs to all (Bellman 1958, Dijkstra 1959).

        At most the last step of a way makes a partial value; what is partial over the same
        sub-axis before and after stays so all the way, as in the search that realises it.
        """
        shape, itemsize, summed = self._classes[cls]
        steps = self._steps_of(len(shape))
        fit = steps.that_fit(shape)
        fit[sources] = True
        starts = np.cumsum(fit)[sources] - 1
        ways = steps.among(fit)
        partial = steps.partial_over(fit)
        seconds = ways.start + ways.rate * (math.prod(shape) * itemsize)
        if summed != itemsize:
            sums = _are_sums(ways, partial)
            seconds[sums] += ways.rate[sums] * (math.prod(shape) * (summed - itemsize))
        if self.is_strict:
            seconds[(ways.rate > 0) & ~_are_sums(ways, partial)] *= _UNASKED
        self._visited += len(sources) * len(seconds)
        is_large = self._visited > _MANY or _SCIPY in sys.modules
        found = (_by_scipy if is_large else _by_rounds)(starts, ways, seconds)
        on, last = np.split(found, 2, axis=1)
        stays = (partial[starts][:, None] & partial[None]).any(-1)
        every = np.full((len(sources), len(fit)), math.inf)
        every[:, fit] = np.where(stays, on, np.minimum(on, last))
        return every

    def _steps_of(self, rank: int) -> SpecSteps:
        """The steps among the specs of a rank, all that there are now."""
        steps = self._steps.get(rank)
        if steps is None:
            names = [axis.name for axis in self.specs.subaxes]
            steps = SpecSteps(self.specs.rank(rank), self.specs.sizes, self.cost, names)
            self._steps[rank] = steps
        steps.take_in()
        return steps

    @contextmanager
    def as_sent(self) -> Iterator[None]:
        """What relayouts take, and not how they count, in a `with` statement."""
        if not self.is_strict:
            yield
            return
        kept = self._found
        self.is_strict, self._found = False, [_Found.none() for _ in kept]
        yield
        self.is_strict, self._found = True, kept

    def move(self, cls: int, before: int, after: int) -> float:
        """Seconds of one relayout of a value of the class, to another spec."""
        found = self.search(cls, np.array([before]))
        return float(found.seconds[found.row[before], after])

    def copies(self, cls: int, given: int, wanted: tuple[int, ...]) -> float:
        """Seconds of having a value in all wanted specs; each copy is made from the nearest one.

        It is produced in the spec `given`; the others are `wanted`, ascending.
        """
        if len(wanted) < 2:
            return self.move(cls, given, wanted[0]) if wanted else 0.0
        memo = self._found[cls].copies
        found = memo.get((given, wanted))
        if found is None:
            found = memo[given, wanted] = self._cheapest_copies(cls, given, wanted)
        return found

    def _cheapest_copies(self, cls: int, given: int, wanted: tuple[int, ...]) -> float:
        every = np.array((given, *wanted))
        price = self.between(cls, every[:, None], every).tolist()
        seconds, _ = copies_in_order(len(wanted), lambda one, other: price[one][other], _EXACT)
        return float(seconds)


def _are_sums(ways: Ways, partial: Mask) -> Mask:
    """Per step, whether devices add up parts; `partial` has the sub-axes of each spec's parts."""
    before = np.repeat(np.arange(len(ways.first) - 1), np.diff(ways.first))
    sums: Mask = partial[before] & ~partial[ways.to % len(partial)]
    found: Mask = np.bitwise_or.reduce(sums, axis=-1)
    return found


def _by_rounds(sources: Numbers, ways: Ways, seconds: Seconds) -> Seconds:
    """The shortest ways from each source to each spec, a step longer in each round (Bellman)."""
    count = len(ways.first) - 1
    found = np.full((len(sources), count), math.inf)
    found[np.arange(len(sources)), sources] = 0.0
    if not len(seconds):
        return found
    order = np.argsort(ways.to, kind="stable")
    begin, seconds = np.repeat(np.arange(count), np.diff(ways.first))[order], seconds[order]
    to, groups = np.unique(ways.to[order], return_index=True)
    for first in range(0, len(sources), _ROWS):
        rows = found[first : first + _ROWS]
        while True:
            nearest = np.minimum.reduceat(rows[:, begin] + seconds, groups, axis=1)
            if not (nearest < rows[:, to]).any():
                break
            rows[:, to] = np.minimum(rows[:, to], nearest)
    return found


def _by_scipy(sources: Numbers, ways: Ways, seconds: Seconds) -> Seconds:
    """The same by Dijkstra's algorithm: several times as fast among many, and slow to load."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(ways.first) - 1
    graph = csr_array((seconds, ways.to, ways.first), shape=(count, count))
    found: Seconds = dijkstra(graph, indices=sources)
    return found
