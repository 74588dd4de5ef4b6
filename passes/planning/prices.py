"""What relayouts cost, as arrays over specs.

The specs of one rank are the corners of a graph whose edges are single steps (`steps`); shortest
paths in it are the price of a relayout. They are searched from the specs that somebody asks for.
`relayout.search` walks the same steps when it realises one; tests hold the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.cost.model import CostModel
from dtensor.passes.planning.steps import Mask, Numbers, Seconds, Steps, Ways
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.relayout.copies import copies_in_order
from dtensor.passes.sharding.specs import Specs, is_legal

_EXACT = 3  # up to this many copies of one value, every order in which to make them is tried
_MANY = 500  # specs; to find ways among as many, scipy is worth loading
_FEW = 4  # of so many sources one is looked at by itself; more are faster all together


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


class Prices:
    """Seconds of relayouts between the specs of one program."""

    def __init__(self, specs: Specs, cost: CostModel) -> None:
        self.specs = specs
        self.cost = cost
        self._steps: dict[int, Steps] = {}
        self._numbers: dict[tuple[tuple[int, ...], float], int] = {}
        self._shapes: list[tuple[int, ...]] = []
        self._bytes: list[float] = []
        self._found: list[_Found] = []

    def class_of(self, shape: tuple[int, ...], itemsize: float) -> int:
        """The number of the values of this shape and element size; they share their prices."""
        key = (shape, itemsize)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._shapes)
            self._shapes.append(shape)
            self._bytes.append(math.prod(shape) * itemsize)
            self._found.append(_Found(np.zeros(0, np.intp), np.zeros((0, 0)), {}))
        return found

    def between(self, cls: int, given: Numbers, wanted: Numbers) -> Seconds:
        """Seconds of relayouts of a value of the class, for specs that broadcast."""
        found = self.search(cls, given)
        seconds: Seconds = found.seconds[found.row[given], wanted]
        return seconds

    def search(self, cls: int, given: Numbers) -> _Found:
        """Find the ways from these specs; many at once are found faster than one by one."""
        found, count = self._found[cls], len(self.specs.rank(len(self._shapes[cls])))
        if len(found.row) < count:  # specs have come that may be on a shorter way
            found.row, found.seconds = np.full(count, -1), np.zeros((0, count))
        rows = found.row[given]
        if (rows < 0).any():
            missing = np.unique(np.asarray(given)[rows < 0])
            found.row[missing] = len(found.seconds) + np.arange(len(missing))
            found.seconds = np.concatenate([found.seconds, self._shortest(cls, missing)])
        return found

    def _shortest(self, cls: int, sources: Numbers) -> Seconds:
        """The shortest ways from some specs to all (Bellman 1958, Dijkstra 1959).

        At most the last step of a way makes a partial value; what is partial over the same
        sub-axis before and after stays so all the way, as in the search that realises it.
        """
        shape = self._shapes[cls]
        specs, sizes = self.specs.rank(len(shape)), self.specs.sizes
        steps = self._steps.get(len(shape))
        if steps is None:
            names = [axis.name for axis in self.specs.subaxes]
            steps = self._steps[len(shape)] = Steps(specs, sizes, self.cost, names)
        steps.take_in()
        legal = np.array([is_legal(places, sizes, shape) for places in specs.places])
        on, last = steps.on.leading_to(legal), steps.last.leading_to(legal)
        shortest = _by_scipy if len(specs) > _MANY else _by_rounds
        found = shortest(sources, on, self._seconds(cls, on))  # to each spec, from each source
        ended = found.copy()
        _walk(found, ended, found < math.inf, last, self._seconds(cls, last))
        partial = np.array(specs.places).reshape(len(specs), len(sizes)) < WHOLE
        stays = (partial[:, None] & partial[sources][None]).any(-1)
        return np.where(stays, found, ended).T

    def _seconds(self, cls: int, ways: Ways) -> Seconds:
        """What steps take."""
        seconds: Seconds = ways.start + ways.rate * self._bytes[cls]
        return seconds

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


def _by_rounds(sources: Numbers, ways: Ways, seconds: Seconds) -> Seconds:
    """The shortest ways to each spec from each source, a step longer in each round."""
    found = np.full((len(ways.first) - 1, len(sources)), math.inf)
    found[sources, np.arange(len(sources))] = 0.0
    nearer = found < math.inf
    while nearer.any():
        before = found.copy()
        _walk(found, found, nearer, ways, seconds)
        nearer = found < before
    return found


def _by_scipy(sources: Numbers, ways: Ways, seconds: Seconds) -> Seconds:
    """The same by Dijkstra's algorithm: ten times as fast among many, and slow to load."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(ways.first) - 1
    graph = csr_array((seconds, ways.to, ways.first), shape=(count, count))
    found: Seconds = dijkstra(graph, indices=sources)
    return found.T


def _walk(before: Seconds, after: Seconds, which: Mask, ways: Ways, seconds: Seconds) -> None:
    """Go one step further; `after` is at most as long as it was.

    Args:
        before: to each spec, from each source.
        after: likewise.
        which: the specs from which to go, and for which sources.
        ways: the steps.
        seconds: what each takes.
    """
    counts = which.sum(1)
    for spec in np.flatnonzero(counts).tolist():
        here = slice(ways.first[spec], ways.first[spec + 1])
        to = ways.to[here]
        if not len(to):
            continue
        if counts[spec] * _FEW < which.shape[1]:
            sources = np.flatnonzero(which[spec])
            at = to[:, None], sources
            after[at] = np.minimum(after[at], before[spec, sources] + seconds[here, None])
        else:
            after[to] = np.minimum(after[to], before[spec] + seconds[here, None])
