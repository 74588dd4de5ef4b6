"""What a plan could do instead of moving a value, and what that costs: for whoever asks why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dtensor.dialect.layout import Layout
from dtensor.passes.planning.descend import Changes
from dtensor.passes.planning.options import Strategy
from dtensor.passes.planning.problem import Problem, ValueClass
from dtensor.passes.sharding.specs import RankSpecs

_MOST_VALUES = 64  # values, those that take longest to move: of the others it is not found


@dataclass(frozen=True)
class Alternative:
    """A plan in which a value stays where it is made, or is made where it is wanted.

    Attributes:
        nodes: the nodes of the graph that are laid out otherwise: what makes the value, or all that
            would have it moved.
        layout: that of the value.
        seconds: what the plan takes more, all such values of equal layers together.
    """

    nodes: tuple[int, ...]
    layout: Layout
    seconds: float


def alternatives(problem: Problem) -> dict[int, Alternative]:
    """The cheapest alternative to each move of a plan, by value of the graph.

    The nodes around a value change, all others stay as they are.
    """
    moved = {i: problem.value_seconds(i) for i in range(len(problem.values))}
    dearest = sorted([i for i in moved if moved[i] > 0.0], key=lambda i: (-moved[i], i))
    changes = Changes(problem)
    found: dict[int, Alternative] = {}
    for i in dearest[:_MOST_VALUES]:
        value = problem.values[i]
        ways = [*_made_elsewhere(changes, value), *_read_there(changes, value)]
        if ways:
            found[i] = min(ways, key=lambda way: way.seconds)
    return {v: found[i] for v, i in problem.value_of.items() if i in found}


def _made_elsewhere(changes: Changes, value: ValueClass) -> Iterator[Alternative]:
    """The producer gives the value as it is wanted."""
    problem, node = changes.problem, value.producer
    stays = np.flatnonzero(np.equal(changes.value_seconds(node, value), 0.0))
    if len(stays):
        costs, options = changes.seconds(node), problem.options(node)
        best = stays[costs[stays].argmin()]
        more = costs[best] - costs[options.index[problem.now[node]]]
        yield _alternative(problem, value, [node], int(options.column(~value.slot)[best]), more)


def _read_there(changes: Changes, value: ValueClass) -> Iterator[Alternative]:
    """All users take the value as it is given; parts of a sum would only be reduced later."""
    problem = changes.problem
    given = problem.now[value.producer].outs[value.slot]
    if _specs(problem, value).partial[given]:
        return
    users: dict[int, list[int]] = {}
    for node, k in value.uses:
        if problem.now[node].ins[k] != given:
            users.setdefault(node, []).append(k)
    chosen = {}
    for node, slots in users.items():
        options = problem.options(node)
        takes = np.all([options.column(k) == given for k in slots], axis=0)
        if not takes.any():
            return
        costs = np.where(takes, changes.seconds(node), np.inf)
        chosen[node] = options.strategies[int(costs.argmin())]
    kept = {node: problem.now[node] for node in users}
    before = _seconds(problem, users)
    _take(problem, chosen)
    more = _seconds(problem, users) - before
    _take(problem, kept)
    yield _alternative(problem, value, users, given, more)


def _take(problem: Problem, strategies: Mapping[int, Strategy]) -> None:
    for node, strategy in strategies.items():
        problem.now[node] = strategy


def _alternative(
    problem: Problem, value: ValueClass, nodes: Iterable[int], spec: int, more: float
) -> Alternative:
    examples = tuple([problem.example[node] for node in nodes])
    return Alternative(examples, _specs(problem, value).layout(spec), max(float(more), 0.0))


def _specs(problem: Problem, value: ValueClass) -> RankSpecs:
    return problem.maker.specs.rank(len(problem.graph.types[value.example].shape))


def _seconds(problem: Problem, nodes: Collection[int]) -> float:
    """Seconds of some nodes and of all values around them."""
    values = {number for node in nodes for number in problem.around[node]}
    seconds = sum(map(problem.value_seconds, values)) + sum(map(problem.node_seconds, nodes))
    pairs = [pair for pair in problem.pairs if pair.one in nodes or pair.other in nodes]
    return seconds - sum(map(problem.pair_seconds, pairs))
