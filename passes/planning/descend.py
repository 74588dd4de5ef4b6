"""Single changes: each node takes its cheapest strategy, given all others, until none gains.

Iterated conditional modes (Besag 1986). All strategies of a node are priced at once, as arrays;
what is shared among the users of a value is counted once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.problem import Problem, ValueClass, saved
from dtensor.passes.planning.steps import Seconds

_GAIN = 1e-9  # relative to the plan; less is rounding


def descend(problem: Problem, sweeps: int) -> int:
    """Change nodes one by one until none gains, or `sweeps` times through; how many changed."""
    changes, total = Changes(problem), problem.total()
    waiting = set(range(len(problem.now)))
    changed = 0
    for _ in range(sweeps):
        now, waiting = sorted(waiting), set()
        for node in now:
            if changes.improve(node, _GAIN * total):
                changed += 1
                waiting |= changes.neighbours(node)
        if not waiting:
            break
    return changed


class Changes:
    """What single changes of a plan cost."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def seconds(self, node: int) -> Seconds:
        """For every strategy of a node, the seconds of what it touches, all else equal."""
        problem = self.problem
        options = problem.options(node)
        mine = options.strategies
        found = problem.node_costs(node)
        for number in problem.around[node]:
            found = found + self.value_seconds(node, problem.values[number])
        for pair in problem.pairs:
            if pair.one == node:
                found = found - saved(problem, pair, mine, [problem.now[pair.other]])[:, 0]
            elif pair.other == node:
                found = found - saved(problem, pair, [problem.now[pair.one]], mine)[0]
        return found

    def value_seconds(self, node: int, value: ValueClass) -> Seconds | float:
        """For every strategy of a node, the seconds of moving a value that it makes or reads."""
        problem = self.problem
        options, now = problem.options(node), problem.now
        mine = [k for n, k in value.uses if n == node]
        others = {now[n].ins[k] for n, k in value.uses if n != node}
        if value.producer == node:
            columns = [options.column(~value.slot), *(options.column(k) for k in mine)]
            if len(columns) == 1:
                return self._into(value, columns[0], others)
            return self._jointly(value, columns, others)
        given = now[value.producer].outs[value.slot]
        others.discard(given)
        if len(mine) == 1:
            return self._from(value, given, options.column(mine[0]), others)
        fixed = np.full(len(options), given)
        return self._jointly(value, [fixed, *(options.column(k) for k in mine)], others)

    def _into(self, value: ValueClass, given: NDArray[np.intp], wanted: set[int]) -> Seconds:
        """The producer's side: every spec it may give, for the specs that are wanted."""
        prices = self.problem.prices
        if len(wanted) == 1:
            one = np.array(next(iter(wanted)))
            return prices.between(value.prices, given, one) * value.weight
        specs, where = np.unique(given, return_inverse=True)
        costs = [
            prices.copies(value.prices, a, tuple(sorted(wanted - {a}))) for a in specs.tolist()
        ]
        return np.array(costs)[where] * value.weight

    def _from(
        self, value: ValueClass, given: int, wanted: NDArray[np.intp], others: set[int]
    ) -> Seconds | float:
        """A user's side: every spec it may want, beside those that others want."""
        prices = self.problem.prices
        if not others:
            return prices.between(value.prices, np.array(given), wanted) * value.weight
        specs, where = np.unique(wanted, return_inverse=True)
        costs = [
            prices.copies(value.prices, given, tuple(sorted((others | {b}) - {given})))
            for b in specs.tolist()
        ]
        return np.array(costs)[where] * value.weight

    def _jointly(
        self, value: ValueClass, columns: list[NDArray[np.intp]], others: set[int]
    ) -> Seconds:
        """A node on several sides of a value."""
        copies = self.problem.prices.copies
        memo: dict[tuple[int, ...], float] = {}
        costs = []
        for row in zip(*(c.tolist() for c in columns), strict=True):
            if row not in memo:
                wanted = (others | set(row[1:])) - {row[0]}
                memo[row] = copies(value.prices, row[0], tuple(sorted(wanted))) * value.weight
            costs.append(memo[row])
        return np.array(costs)

    def improve(self, node: int, least: float) -> bool:
        """Give a node its cheapest strategy, if that gains more than so many seconds."""
        problem = self.problem
        options = problem.options(node)
        if len(options) < 2:
            return False
        changes = self.seconds(node)
        have, best = options.index[problem.now[node]], int(changes.argmin())
        if changes[best] >= changes[have] - least:
            return False
        problem.now[node] = options.strategies[best]
        return True

    def neighbours(self, node: int) -> set[int]:
        """The nodes that share a value with one, itself included."""
        problem = self.problem
        found = {node}
        for number in problem.around[node]:
            value = problem.values[number]
            found.add(value.producer)
            found.update([n for n, _ in value.uses])
        return found
