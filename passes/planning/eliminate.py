"""Elimination: the cheapest states of all variables, exact where the program is tree-like enough.

1. Dead ends (Goldstein 1994): a state goes if another is never worse, whatever the others do.
2. Bucket elimination (Dechter 1999): a variable whose tables join into a small one is minimised
   away, and remembered with what says what it would choose. First those between two others at most.
3. Messages (`messages`) over what is left give a lower bound of the cost, and cheap plans on the
   way. States that cannot be part of a better plan go. Where a gap is left, all but the most
   promising states go, and where a bucket is still too large, the less promising half of a
   variable's states: the result need not be the optimum then.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.limits import Effort
from dtensor.passes.planning.messages import Messages, least_of
from dtensor.passes.planning.model import Costs, Model

_BEST = 6  # states of a variable that the others are compared with to find dead ends
_SMALL_TABLE = 8_000  # entries; a smaller table is eliminated faster than searched for dead ends
_LARGE_TABLE = 10_000  # entries; a variable with larger tables is not searched either
_PARTS = 16  # of a variable's neighbours: once such a part is eliminated it is searched again
_BETWEEN = 5  # times as many entries may be visited to eliminate what stands between two others
_TINY = 1e-8  # of a model's costs
_STAY = 1e-7  # of a model's costs, by which the present plan is preferred among equals
_GAP = 5e-4  # of the cost; where the bound is as near as that, messages have said enough
_MET = 1e-9  # of the cost; a plan as near the bound as that is the cheapest
_LITTLE = 300_000  # entries of all tables; where there are more and a gap is left,
_SHARE_OF_BOUND = 0.0015  # of the bound is what the states score that are kept, or less


@dataclass
class Solution:
    """States of all variables.

    Attributes:
        states: per variable, its state.
        bound: no assignment of states costs less; that of the states if they are optimal.
        narrowed: how many variables lost states that an optimum might need; 0 says optimal.
    """

    states: list[int]
    bound: float
    narrowed: int


class _Gone(NamedTuple):
    """A variable that was minimised away: what it would choose follows from its terms.

    Attributes:
        variable: its number.
        alive: its states then.
        near: the others in its bucket, and their states then.
        terms: its costs, of its states first, then of those of the others; 1 where it is the same.
    """

    variable: int
    alive: NDArray[np.intp]
    near: list[tuple[int, NDArray[np.intp]]]
    terms: list[Costs]


class Elimination:
    """One run over a model; the model's tables are used up."""

    def __init__(self, model: Model, effort: Effort) -> None:
        self.effort = effort
        self.unary = [u.copy() for u in model.unary]
        self.tables: dict[tuple[int, ...], Costs] = {
            s: t for s, t in model.tables.items()
        }  # by scope, ascending
        self.scopes: list[dict[tuple[int, ...], None]] = [{} for _ in model.unary]
        for scope in self.tables:
            for x in scope:
                self.scopes[x][scope] = None
        self.start = list(model.start)
        self.alive = [np.arange(len(u)) for u in model.unary]
        self.left = dict.fromkeys(range(len(model.unary)))
        self.stack: list[_Gone] = []
        self.narrowed: set[int] = set()
        self._sizes: dict[int, float] = {}  # of buckets, as far as known
        self._heap: list[tuple[float, int]] = []  # sizes, some of them out of date
        self._changed = set(self.left)  # variables whose size is not in the heap
        self._eliminated: Counter[int] = Counter()  # neighbours, since a variable was searched
        self.scores: dict[int, Costs] = {}  # of the variables that messages reached
        self.done = 0.0  # least cost of what is eliminated

    def run(self) -> Solution:
        """Eliminate everything."""
        for unary, start in zip(self.unary, self.start, strict=True):
            unary[start] -= _STAY
        self.reduce()
        bound = self._messages_of_rest() if self.left else 0.0
        cost = self._of_start() + self.done
        if self.left and cost <= bound + _MET * abs(bound) + 2 * _TINY:
            return Solution(self.back({x: self.start[x] for x in self.left}), cost, 0)
        while not self.finish():
            self._narrow()
        return Solution(self.back({}), bound if self.narrowed else self.done, len(self.narrowed))

    def regret(self, x: int, state: int) -> float:
        """What the cheapest plan with a variable's state costs above the bound, about.

        Infinite for a state that was dropped, 0 for a variable that messages did not reach.
        """
        scores = self.scores.get(x)
        if scores is None:
            return 0.0
        at = np.flatnonzero(self.alive[x] == state)
        return float(scores[at[0]]) if len(at) else math.inf

    def reduce(self) -> None:
        """Eliminate what stands between two others at most: the tables stay over pairs.

        Where a bucket is not small, its variable goes if the table that comes is no larger than
        those that go: messages then pass it faster, and farther at a time.
        """
        for x in range(len(self.unary)):
            self._drop_dead_ends(x)
        self._eliminate_small(2)
        waiting = [(self._size(x), x) for x in self.left]
        heapq.heapify(waiting)
        while waiting and waiting[0][0] <= _BETWEEN * self.effort.table:
            size, x = heapq.heappop(waiting)
            near = self._near(x) if x in self.left and size == self._size(x) else ()
            if near and len(near) <= 2 and self._shrinks(x, near):
                self._eliminate(x)
                for y in near:
                    heapq.heappush(waiting, (self._size(y), y))

    def _shrinks(self, x: int, near: Sequence[int]) -> bool:
        """Whether fewer entries are left without a variable that stands between these."""
        sizes = [len(self.alive[y]) for y in near]
        return tuple(near) in self.tables or math.prod(sizes) <= len(self.alive[x]) * sum(sizes)

    def messages(self, upper: float) -> Messages:
        """Messages over what is left; `upper` includes what is eliminated."""
        return Messages({x: self.unary[x] for x in self.left}, self.tables, upper - self.done)

    def _messages_of_rest(self) -> float:
        """A lower bound of the cost; states that are above the cheapest plan met go.

        Where a gap is left and the tables are not small, so do those that score much.
        """
        messages = self.messages(self._of_start() + self.done + _TINY)
        messages.run(self.effort.passes, _MET, looks=True)
        bound = messages.bound + self.done
        self._begin_at(messages)
        if messages.gap > _GAP and self.effort.more:
            if sum([table.size for table in self.tables.values()]) > _LITTLE:
                at = {x: int(np.searchsorted(self.alive[x], self.start[x])) for x in self.left}
                self.narrowed |= messages.narrow(_SHARE_OF_BOUND, at)
            messages.run(self.effort.more, _GAP, looks=True)
            self._begin_at(messages)
        messages.upper = min(messages.upper, self._of_start()) + _TINY  # rounding
        self.restrict(messages)
        return bound

    def _begin_at(self, messages: Messages) -> None:
        """Let the present plan be the cheapest that messages met, if that is cheaper."""
        if messages.least < self._of_start():
            for x, state in messages.states.items():
                self.start[x] = int(self.alive[x][state])

    def restrict(self, messages: Messages) -> bool:
        """Drop the states that cost more than the messages' upper bound; keep what they score.

        Returns:
            False if nothing costs less than that; then no state is dropped.
        """
        for x, scores in messages.scores.items():
            self.scores[x] = np.full(len(self.alive[x]), np.inf)
            self.scores[x][messages.alive[x]] = scores
        keep = {x: messages.floor + s <= messages.upper for x, s in self.scores.items()}
        if not all([mask.any() for mask in keep.values()]):
            return False
        for x, mask in keep.items():
            self._restrict(x, mask)
        return True

    def finish(self) -> bool:
        """Eliminate all that has small buckets; whether nothing is left."""
        self._eliminate_small(len(self.left))
        return not self.left

    def _of_start(self) -> float:
        """Cost of the present states of the variables that are left."""
        at = {x: int(np.searchsorted(self.alive[x], self.start[x])) for x in self.left}
        cost = sum([float(self.unary[x][at[x]]) for x in self.left])
        return cost + sum([float(t[tuple([at[y] for y in s])]) for s, t in self.tables.items()])

    def _eliminate_small(self, most_near: int) -> None:
        """Eliminate while a bucket is small and has few others in it, the smallest first."""
        kept = []
        while self._smallest()[0] <= self.effort.table:
            entry = heapq.heappop(self._heap)
            if len(self._near(entry[1])) <= most_near:
                self._eliminate(entry[1])
            else:
                kept.append(entry)
        for entry in kept:
            heapq.heappush(self._heap, entry)

    def _smallest(self) -> tuple[float, int]:
        """The size of the smallest bucket, and its variable; an infinite size if none is left."""
        for x in sorted(self._changed & self.left.keys()):
            heapq.heappush(self._heap, (self._size(x), x))
        self._changed.clear()
        while self._heap:
            size, x = self._heap[0]
            if x in self.left and self._sizes.get(x) == size:
                return size, x
            heapq.heappop(self._heap)
        return math.inf, -1

    def _resized(self, variables: Iterable[int]) -> None:
        for x in variables:
            self._sizes.pop(x, None)
            self._changed.add(x)

    def _narrow(self) -> None:
        """Make the smallest bucket smaller: its largest variable keeps the better half."""
        _, x = self._smallest()
        x = max([x, *self._near(x)], key=lambda y: (len(self.alive[y]), -y))
        score = self.scores[x].copy()
        score[self.alive[x] == self.start[x]] = -1.0
        keep = np.zeros(len(score), bool)
        keep[np.argsort(score, kind="stable")[: len(score) // 2]] = True
        self.narrowed.add(x)
        self._restrict(x, keep)

    def _near(self, x: int) -> list[int]:
        return sorted({y for scope in self.scopes[x] for y in scope if y != x})

    def _size(self, x: int) -> float:
        """Entries of a variable's bucket."""
        size = self._sizes.get(x)
        if size is None:
            size = float(len(self.alive[x]))
            for y in self._near(x):
                size *= len(self.alive[y])
            self._sizes[x] = size
        return size

    def _drop_dead_ends(self, x: int) -> None:
        """Drop states that the present state, or another of the best ones, is never worse than."""
        if len(self.alive[x]) < 2 or self._size(x) < _SMALL_TABLE:
            return
        if sum([self.tables[scope].size for scope in self.scopes[x]]) > _LARGE_TABLE:
            return
        tables = [_columns(self.tables[scope], scope.index(x)) for scope in self.scopes[x]]
        alive, rows = self.alive[x], np.concatenate([self.unary[x][None], *tables])
        first = np.cumsum([0, 1, *map(len, tables)])[:-1]  # rows: its own costs, then each table's
        least = np.minimum.reduceat(rows, first).sum(0)
        order = np.argsort(np.where(alive == self.start[x], -np.inf, least), kind="stable")[:_BEST]
        # By how much each is worse than these states, at least.
        worse = np.minimum.reduceat(rows[:, None] - rows[:, order, None], first).sum(0)
        keep = np.ones(len(alive), bool)
        for state, gone in zip(order.tolist(), worse > -_TINY, strict=True):
            if not keep[state]:
                continue
            gone[state] = False
            keep &= ~gone
            if self.start[x] in alive[gone]:
                self.start[x] = int(alive[state])
        self._restrict(x, keep)

    def _restrict(self, x: int, keep: NDArray[np.bool_]) -> None:
        if keep.all():
            return
        self.unary[x], self.alive[x] = self.unary[x][keep], self.alive[x][keep]
        self._resized((x, *self._near(x)))
        if x in self.scores:
            self.scores[x] = self.scores[x][keep]
        for scope in self.scopes[x]:
            self.tables[scope] = np.compress(keep, self.tables[scope], axis=scope.index(x))

    def _eliminate(self, x: int) -> None:
        near = self._near(x)
        self._resized(near)
        near = [y for y in near if len(self.alive[y]) > 1]  # an array has 64 dimensions at most
        order = [x, *near]
        terms: list[Costs] = [self.unary[x].reshape((-1, *[1] * len(near)))]
        for scope in list(self.scopes[x]):
            table = self._take(scope)
            table = table.squeeze(tuple([k for k, y in enumerate(scope) if y not in order]))
            scope = tuple([y for y in scope if y in order])
            shape = [table.shape[scope.index(y)] if y in scope else 1 for y in order]
            axes = [scope.index(y) for y in order if y in scope]
            terms.append(np.transpose(table, axes).reshape(shape))
        self.stack.append(_Gone(x, self.alive[x], [(y, self.alive[y]) for y in near], terms))
        del self.left[x]
        best = least_of(sum(terms[1:], terms[0]))
        if not near:
            self.done += float(best)
            return
        self._put(tuple(near), best)
        for y in near:
            self._eliminated[y] += 1
            if self._eliminated[y] * _PARTS >= len(self.scopes[y]):  # a search looks at all tables
                self._eliminated[y] = 0
                self._drop_dead_ends(y)

    def _take(self, scope: tuple[int, ...]) -> Costs:
        for y in scope:
            del self.scopes[y][scope]
        return self.tables.pop(scope)

    def _put(self, scope: tuple[int, ...], costs: Costs) -> None:
        if len(scope) == 1:
            self.unary[scope[0]] = self.unary[scope[0]] + costs
            return
        have = self.tables.get(scope)
        self.tables[scope] = costs if have is None else have + costs
        for y in scope:
            self.scopes[y][scope] = None

    def back(self, left: Mapping[int, int]) -> list[int]:
        """The states of all variables, from those of the variables that are left."""
        states = [left.get(x, start) for x, start in enumerate(self.start)]
        for gone in reversed(self.stack):
            at = [int(np.searchsorted(alive, states[y])) for y, alive in gone.near]
            costs = [_beside(term, at) for term in gone.terms]
            states[gone.variable] = int(gone.alive[sum(costs[1:], costs[0]).argmin()])
        return states


def _beside(term: Costs, at: Sequence[int]) -> Costs:
    """What each state of a term's first variable costs beside these states of the others."""
    for state in at:
        term = term[:, state if term.shape[1] > 1 else 0]
    return term


def _columns(table: Costs, axis: int) -> Costs:
    """A table with one column per state of the variable on `axis`."""
    last = table.ndim - 1
    if axis < last:
        table = table.transpose(*range(axis), *range(axis + 1, last + 1), axis)
    return table.reshape(-1, table.shape[-1])
