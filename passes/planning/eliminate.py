"""Elimination: the best plan around the present one, exact where the program is tree-like enough.

1. Dead ends (Goldstein 1994): a state goes if another is never worse, whatever the others do.
2. Bucket elimination (Dechter 1999): a variable whose tables join into a small one is minimised
   away, and remembered with what it would choose.
3. Where no variable is cheap to eliminate, the one in the way is *held* at its present state.
   Without held variables the result is optimal; with them it is the best plan that agrees on
   these, and the next round holds others.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.model import Costs, Model

MAX_TABLE = 60_000  # entries of the table that eliminating a variable may visit
_MOST_DEAD_ENDS = 100_000  # entries that are compared to find the dead ends of one variable
_TINY = 1e-8  # microseconds
_STAY = 1e-7  # microseconds by which the present plan is preferred among equals


@dataclass
class Solution:
    """States of all variables.

    Attributes:
        states: per variable, its state.
        held: the variables that were held; none means that the states are optimal.
    """

    states: list[int]
    held: list[int]


class Elimination:
    """One run over a model; the model's tables are used up."""

    def __init__(self, model: Model, avoid: dict[int, int], max_table: int = MAX_TABLE) -> None:
        self.unary = [u.copy() for u in model.unary]
        for unary, start in zip(self.unary, model.start, strict=True):
            unary[start] -= _STAY
        self.tables: dict[tuple[int, ...], Costs] = {  # by scope, ascending
            scope: costs for scope, costs in model.tables.items()
        }
        self.scopes: list[dict[tuple[int, ...], None]] = [{} for _ in model.unary]
        for scope in self.tables:
            for x in scope:
                self.scopes[x][scope] = None
        self.start = list(model.start)
        self.alive = [np.arange(len(u)) for u in model.unary]
        self.avoid = avoid  # how often a variable was held before
        self.max_table = max_table
        self.left = dict.fromkeys(range(len(model.unary)))
        self.stack: list[tuple[int, list[tuple[int, NDArray[np.intp]]], NDArray[np.intp]]] = []
        self.held: list[int] = []

    def run(self) -> Solution:
        """Eliminate everything."""
        for x in range(len(self.unary)):
            self._drop_dead_ends(x)
        heap = [(self._size(x), x) for x in self.left]
        heapq.heapify(heap)
        while self.left:
            while heap:
                size, x = heapq.heappop(heap)
                if x not in self.left:
                    continue
                now = self._size(x)
                if now > size:
                    heapq.heappush(heap, (now, x))
                    continue
                break
            else:
                heap = [(self._size(x), x) for x in self.left]
                heapq.heapify(heap)
                continue
            if now <= self.max_table:
                touched = self._eliminate(x)
            else:
                heapq.heappush(heap, (now, x))
                touched = self._hold()
            for y in touched:
                if y in self.left:
                    heapq.heappush(heap, (self._size(y), y))
        return Solution(self._back(), self.held)

    def _near(self, x: int) -> list[int]:
        return sorted({y for scope in self.scopes[x] for y in scope if y != x})

    def _size(self, x: int) -> float:
        size = float(len(self.alive[x]))
        for y in self._near(x):
            size *= len(self.alive[y])
        return size

    def _drop_dead_ends(self, x: int) -> None:
        count = len(self.alive[x])
        if count < 2:
            return
        flat = [
            np.moveaxis(self.tables[scope], scope.index(x), 0).reshape(count, -1)
            for scope in self.scopes[x]
        ]
        if sum([f.size for f in flat]) * count > _MOST_DEAD_ENDS:
            return
        unary = self.unary[x]
        worse = unary[:, None] - unary[None, :]  # by how much a state is worse than another
        for f in flat:
            worse = worse + (f[:, None, :] - f[None, :, :]).min(-1)
        beaten = worse > -_TINY
        np.fill_diagonal(beaten, False)
        if not beaten.any():
            return
        keep = np.ones(count, bool)
        first = np.flatnonzero(self.alive[x] == self.start[x]).tolist()
        for t in (*first, *range(count)):  # among equals the present state stays, then the first
            if not keep[t]:
                continue
            gone = beaten[:, t] & keep
            if gone.any():
                if (self.alive[x][gone] == self.start[x]).any():
                    self.start[x] = int(self.alive[x][t])
                keep &= ~gone
        self._restrict(x, keep)

    def _restrict(self, x: int, keep: NDArray[np.bool_]) -> None:
        self.unary[x], self.alive[x] = self.unary[x][keep], self.alive[x][keep]
        for scope in self.scopes[x]:
            self.tables[scope] = np.compress(keep, self.tables[scope], axis=scope.index(x))

    def _eliminate(self, x: int) -> list[int]:
        near = self._near(x)
        order = [x, *near]
        total: Costs = self.unary[x].reshape((-1, *[1] * len(near)))
        for scope in list(self.scopes[x]):
            table = self._take(scope)
            shape = [table.shape[scope.index(y)] if y in scope else 1 for y in order]
            axes = [scope.index(y) for y in order if y in scope]
            total = total + np.transpose(table, axes).reshape(shape)
        self.stack.append((x, [(y, self.alive[y]) for y in near], self.alive[x][total.argmin(0)]))
        del self.left[x]
        best = total.min(0)
        if near:
            self._put(tuple(near), best)
            for y in near:
                self._drop_dead_ends(y)
        return near

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

    def _hold(self) -> list[int]:
        """Hold the variable with the most neighbours and states, rather one not held before."""
        open_ = [y for y in self.left if len(self.alive[y]) > 1]
        x = min(
            open_,
            key=lambda y: (
                self.avoid.get(y, 0),
                -len(self.scopes[y]) * np.log(len(self.alive[y])),
                y,
            ),
        )
        self._restrict(x, self.alive[x] == self.start[x])
        self.held.append(x)
        near = self._near(x)
        for scope in list(self.scopes[x]):
            table = self._take(scope)
            rest = tuple([y for y in scope if y != x])
            self._put(rest, np.squeeze(table, axis=scope.index(x)))
        self.stack.append((x, [], self.alive[x][0]))
        del self.left[x]
        for y in near:
            self._drop_dead_ends(y)
        return near

    def _back(self) -> list[int]:
        states = list(self.start)
        for x, near, choice in reversed(self.stack):
            at = tuple([int(np.searchsorted(alive, states[y])) for y, alive in near])
            states[x] = int(choice[at]) if near else int(choice)
        return states
