"""Bucket elimination to the end (Dechter 1999), if no bucket is too large: a least cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.model import Costs

Scope = tuple[int, ...]


def least_cost(
    unary: Mapping[int, Costs], tables: Mapping[Scope, Costs], most: int
) -> tuple[float, dict[int, int]] | None:
    """The least cost of an assignment of states, and the assignment.

    Args:
        unary: per variable, the cost of each state.
        tables: costs of pairs of variables, by scope, ascending.
        most: entries of the largest bucket; None comes back where one has more.
    """
    buckets = _Buckets(unary, tables)
    while buckets.sizes:
        x = min(buckets.sizes, key=lambda y: (buckets.sizes[y], y))
        if buckets.sizes[x] > most:
            return None
        buckets.eliminate(x)
    return buckets.cost, buckets.states()


class _Buckets:
    """Variables and the tables that are left.

    Attributes:
        sizes: per variable that is left, how many entries it takes to eliminate it.
        cost: what those that are gone cost.
    """

    def __init__(self, unary: Mapping[int, Costs], tables: Mapping[Scope, Costs]) -> None:
        self.tables: dict[Scope, Costs] = {**tables, **{(x,): u for x, u in unary.items()}}
        self.counts = {x: len(u) for x, u in unary.items()}
        self.scopes: dict[int, set[Scope]] = {x: {(x,)} for x in unary}
        for scope in tables:
            for x in scope:
                self.scopes[x].add(scope)
        self.sizes = {x: self._size(x) for x in unary}
        self.cost = 0.0
        self._gone: list[tuple[int, Scope, NDArray[np.intp]]] = []

    def _near(self, x: int) -> Scope:
        return tuple(sorted({y for scope in self.scopes[x] for y in scope} - {x}))

    def _size(self, x: int) -> int:
        size = self.counts[x]
        for y in self._near(x):
            size *= self.counts[y]
        return size

    def eliminate(self, x: int) -> None:
        """Take the best state of a variable for each of those around it."""
        near = self._near(x)
        order = (*near, x)
        total: Costs = np.zeros([self.counts[y] for y in order])
        for scope in sorted(self.scopes[x]):
            table = self.tables.pop(scope)
            for y in scope:
                self.scopes[y].discard(scope)
            axes = np.argsort([order.index(y) for y in scope])
            shape = [self.counts[y] if y in scope else 1 for y in order]
            total = total + table.transpose(axes).reshape(shape)
        self._gone.append((x, near, total.argmin(-1)))
        best: Costs = total.min(-1)
        del self.sizes[x]
        if not near:
            self.cost += float(best)
            return
        have = self.tables.get(near)
        self.tables[near] = best if have is None else have + best
        for y in near:
            self.scopes[y].add(near)
        for y in near:
            self.sizes[y] = self._size(y)

    def states(self) -> dict[int, int]:
        """The states of all variables, once all are eliminated."""
        found: dict[int, int] = {}
        for x, near, choice in reversed(self._gone):
            found[x] = int(choice[tuple([found[y] for y in near])])
        return found
