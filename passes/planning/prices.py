"""What relayouts cost, as arrays over specs.

The specs of one rank are the corners of a graph whose edges are single steps (`steps`); shortest
paths in it are the price of a relayout. `relayout.search` walks the same steps when it realises
one; tests hold the two together.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.cost.model import CostModel
from dtensor.passes.planning.steps import Steps
from dtensor.passes.sharding.specs import Specs, is_legal

Seconds = NDArray[np.float64]
_EXACT = 3  # up to this many copies of one value, every order in which to make them is tried


class Prices:
    """Seconds of relayouts between the specs of one program."""

    def __init__(self, specs: Specs, cost: CostModel) -> None:
        self.specs = specs
        self.cost = cost
        self._steps: dict[int, Steps] = {}
        self._numbers: dict[tuple[tuple[int, ...], float], int] = {}
        self._shapes: list[tuple[int, ...]] = []
        self._bytes: list[float] = []
        self._between: list[Seconds] = []
        self._copies: list[dict[tuple[int, tuple[int, ...]], float]] = []

    def class_of(self, shape: tuple[int, ...], itemsize: float) -> int:
        """The number of the values of this shape and element size; they share their prices."""
        key = (shape, itemsize)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._shapes)
            self._shapes.append(shape)
            self._bytes.append(math.prod(shape) * itemsize)
            self._between.append(np.zeros((0, 0)))
            self._copies.append({})
        return found

    def between(self, cls: int) -> Seconds:
        """Seconds from each spec to each other, for a class of values."""
        found = self._between[cls]
        if len(found) < len(self.specs.rank(len(self._shapes[cls]))):
            found = self._between[cls] = self._shortest(cls)
        return found

    def _shortest(self, cls: int) -> Seconds:
        """All shortest paths (Floyd 1962); at most the last step makes a partial value."""
        shape = self._shapes[cls]
        specs = self.specs.rank(len(shape))
        steps = self._steps.get(len(shape))
        if steps is None or len(steps.start) < len(specs):
            names = [axis.name for axis in self.specs.subaxes]
            steps = self._steps[len(shape)] = Steps(specs, self.specs.sizes, self.cost, names)
        legal = [i for i, p in enumerate(specs.places) if is_legal(p, self.specs.sizes, shape)]
        here = np.ix_(legal, legal)
        seconds = steps.start[here] + steps.rate[here] * self._bytes[cls]
        last = steps.last[here]
        found: Seconds = np.where(last, math.inf, seconds)
        for by in range(len(legal)):
            np.minimum(found, found[:, by, None] + found[by], out=found)
        paths = found.copy()
        for by in np.flatnonzero(last.any(1)).tolist():
            ends = np.flatnonzero(last[by])  # few of all
            found[:, ends] = np.minimum(found[:, ends], paths[:, by, None] + seconds[by, ends])
        between = np.full((len(specs), len(specs)), math.inf)
        between[here] = found
        return between

    def move(self, cls: int, before: int, after: int) -> float:
        """Seconds of one relayout of a value of the class."""
        return 0.0 if before == after else float(self.between(cls)[before, after])

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
        price = self.between(cls)[np.ix_(every, every)].tolist()
        left = range(1, len(every))
        if len(wanted) <= _EXACT:
            best = math.inf
            for order in permutations(left):
                have, total = [0], 0.0
                for spec in order:
                    total += min([price[h][spec] for h in have])
                    have.append(spec)
                best = min(best, total)
            return best
        have, waiting, total = [0], list(left), 0.0
        while waiting:
            seconds, spec = min([(min([price[h][s] for h in have]), s) for s in waiting])
            total += seconds
            have.append(spec)
            waiting.remove(spec)
        return total
