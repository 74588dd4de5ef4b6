"""The problem as variables and tables of two: what elimination works on.

A variable is a node with a choice, or the *copies* of a value with several users: the spec in which
it is produced, and at most one copy that its users share; a user of a third spec pays for its own.
So sharing is counted and every table has two variables. Costs are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.problem import Problem, Value

Costs = NDArray[np.float64]
BIG = 1e7  # microseconds: what cannot be


@dataclass
class Model:
    """Variables with costs of their own, and tables over pairs of them.

    Attributes:
        unary: per variable, the cost of each of its states.
        start: per variable, the state of the present plan.
        tables: `(smaller, larger)` variables to costs.
        near: per variable, the variables it shares a table with.
        variable_of: per node of the problem, its variable; -1 without a choice.
    """

    unary: list[Costs] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    tables: dict[tuple[int, int], Costs] = field(default_factory=dict)
    near: list[dict[int, None]] = field(default_factory=list)
    variable_of: list[int] = field(default_factory=list)

    def variable(self, unary: Costs, start: int) -> int:
        """A new variable."""
        self.unary.append(unary)
        self.start.append(start)
        self.near.append({})
        return len(self.unary) - 1

    def add(self, one: int, other: int, costs: Costs) -> None:
        """Add a table; over one variable twice, its diagonal; -1 stands for a single state."""
        if one < 0 and other < 0:
            return
        if one < 0:
            self.unary[other] = self.unary[other] + costs[0]
        elif other < 0:
            self.unary[one] = self.unary[one] + costs[:, 0]
        elif one == other:
            self.unary[one] = self.unary[one] + np.diagonal(costs)
        else:
            key = (one, other) if one < other else (other, one)
            if one > other:
                costs = costs.T
            have = self.tables.get(key)
            self.tables[key] = costs if have is None else have + costs
            self.near[one][other] = self.near[other][one] = None


def make_model(problem: Problem) -> Model:
    """The model of a problem; it can express the present plan."""
    model = Model()
    for node in range(len(problem.now)):
        options = problem.options(node)
        if len(options) < 2:
            model.variable_of.append(-1)
            continue
        start = options.index[problem.now[node]]
        cost = 1e6 * (problem.work[node] * options.share + problem.runs[node] * options.comm)
        model.variable_of.append(model.variable(cost, start))
    for value in problem.values:
        _add_value(model, problem, value)
    return model


def _add_value(model: Model, problem: Problem, value: Value) -> None:
    prices, scale = problem.prices, value.weight * 1e6
    producer = model.variable_of[value.producer]
    given = problem.options(value.producer).column(~value.slot)
    if len({n for n, _ in value.uses}) == 1:
        node = value.uses[0][0]
        options = problem.options(node)
        costs = np.zeros((len(given), len(options)))
        columns = {options.column(k).tobytes(): options.column(k) for _, k in value.uses}
        for wanted in columns.values():
            costs += np.minimum(prices.table(value.prices, given, wanted) * scale, BIG)
        if costs.any():
            model.add(producer, model.variable_of[node], costs)
        return
    states = _states(problem, value, given)
    unary = np.array([min(prices.copies(value.prices, a, c) * scale, BIG) for a, c in states])
    now = _now(problem, value)
    if now not in states:
        states.append(now)
        unary = np.append(unary, min(prices.copies(value.prices, *now) * scale, BIG))
    copies = model.variable(unary, states.index(now))
    first = np.array([a for a, _ in states])
    model.add(producer, copies, np.where(given[:, None] == first[None, :], 0.0, BIG))
    for node, k in value.uses:
        wanted = problem.options(node).column(k)
        price = prices.table(value.prices, first, wanted)
        for i, (_, shared) in enumerate(states):
            for spec in shared:
                price[i] = np.minimum(price[i], prices.row(value.prices, spec)[wanted])
        if price.any():
            model.add(copies, model.variable_of[node], np.minimum(price * scale, BIG))


def _now(problem: Problem, value: Value) -> tuple[int, tuple[int, ...]]:
    given = problem.now[value.producer].outs[value.slot]
    wanted = {problem.now[n].ins[k] for n, k in value.uses} - {given}
    return given, tuple(sorted(wanted))


def _states(
    problem: Problem, value: Value, given: NDArray[np.intp]
) -> list[tuple[int, tuple[int, ...]]]:
    """Produced specs, each alone and with one shared copy: a coarser spec, or what several want."""
    rank = len(problem.graph.types[value.example].shape)
    counts: dict[int, int] = {}
    for node, k in value.uses:
        for spec in set(problem.options(node).column(k).tolist()):
            counts[spec] = counts.get(spec, 0) + 1
    _, wanted = _now(problem, value)
    states: dict[tuple[int, tuple[int, ...]], None] = {}
    for spec in dict.fromkeys(given.tolist()):
        states[spec, ()] = None
        for copy in (*problem.prices.coarser(rank, spec), *wanted):
            if copy != spec and counts.get(copy, 0) > 1:
                states[spec, (copy,)] = None
    return list(states)
