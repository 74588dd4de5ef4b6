"""The problem as variables and tables of two: what elimination works on.

A variable is a node with a choice, or the *copies* of a value with several users: the spec in which
it is produced, and at most one copy that its users share; a user of a third spec pays for its own.
So sharing is counted and every table has two variables. Costs are in units of the problem
(`Problem.scale`): microseconds, but for plans of more than a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.problem import Problem, ValueClass, saved
from dtensor.passes.planning.steps import Numbers

Costs = NDArray[np.float64]
_MANY = 1000  # states of the copies of one value: up to here any spec may be the one that is shared
BIG = 1e7  # what cannot be: ten times what the plan costs at first, or more


@dataclass
class Model:
    """Variables with costs of their own, and tables over pairs of them.

    Attributes:
        unary: per variable, the cost of each of its states.
        start: per variable, the state of the present plan.
        tables: `(smaller, larger)` variables to costs.
        near: per variable, the variables it shares a table with.
        variable_of: per node of the problem, its variable; -1 without a choice.
        is_coarse: whether some value has too many states for any spec to be the one that is shared.
    """

    unary: list[Costs] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    tables: dict[tuple[int, ...], Costs] = field(default_factory=dict)
    near: list[dict[int, None]] = field(default_factory=list)
    variable_of: list[int] = field(default_factory=list)
    is_coarse: bool = False

    def variable(self, unary: Costs, start: int) -> int:
        """A new variable."""
        self.unary.append(unary)
        self.start.append(start)
        self.near.append({})
        return len(self.unary) - 1

    def add_node(self, problem: Problem, node: int) -> None:
        """The variable of the next node, if it has a choice, with the cost of what it does."""
        options = problem.options(node)
        if len(options) < 2:
            self.variable_of.append(-1)
            return
        cost = problem.scale * problem.node_costs(node)
        self.variable_of.append(self.variable(cost, options.index[problem.now[node]]))

    def take(self, problem: Problem, states: Sequence[int]) -> None:
        """Let the nodes of a problem have the strategies that these states stand for."""
        for node, variable in enumerate(self.variable_of):
            if variable >= 0:
                problem.now[node] = problem.options(node).strategies[states[variable]]

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

    def table(self, one: int, other: int) -> Costs:
        """What two variables cost together: a row per state of the first."""
        return self.tables[one, other] if one < other else self.tables[other, one].T

    def cost(self, states: Sequence[int]) -> float:
        """The cost of one assignment of states."""
        unary = sum([float(u[s]) for u, s in zip(self.unary, states, strict=True)])
        tables = [float(t[tuple([states[x] for x in s])]) for s, t in self.tables.items()]
        return unary + sum(tables)


def make_model(problem: Problem) -> Model:
    """The model of a problem; it can express the present plan.

    Variables are in program order: what a value is held in stands behind what makes it. Users of a
    value may share any spec, or, where that makes too many states, one that is coarser than what is
    produced, or the plan's.
    """
    model = Model()
    made: list[list[ValueClass]] = [[] for _ in problem.now]
    for value in problem.values:
        made[value.producer].append(value)
    copies: list[Copies] = []
    for node in range(len(problem.now)):
        problem.options(node)  # so that all specs are known
    _search(problem)
    for node in range(len(problem.now)):
        model.add_node(problem, node)
        for value in made[node]:
            if len({n for n, _ in value.uses}) > 1:
                copies.append(_copies(model, problem, value))
    for value in problem.values:
        if len({n for n, _ in value.uses}) == 1:
            _add_move(model, problem, value)
    for held in copies:
        _add_uses(model, problem, held)
    add_pairs(model, problem)
    return model


def add_pairs(model: Model, problem: Problem) -> None:
    """Take off what nodes save that exchange the same with neighbours."""
    for pair in problem.pairs:
        seconds = saved(problem, pair, *[problem.options(node).strategies for node in pair])
        if seconds.any():
            one, other = [model.variable_of[node] for node in pair]
            model.add(one, other, -problem.scale * seconds)


def _search(problem: Problem) -> None:
    """Find the ways of all values from the specs in which somebody may hold one, class by class."""
    held: dict[int, list[Numbers]] = {}
    for value in problem.values:
        given = problem.options(value.producer).distinct(~value.slot)
        read = [problem.options(node).distinct(k) for node, k in value.uses]
        held.setdefault(value.prices, []).extend([given, *(read if len(read) > 1 else ())])
    for cls, specs in held.items():
        problem.prices.search(cls, np.unique(np.concatenate(specs)))


def moves(problem: Problem, value: ValueClass, given: Numbers, wanted: Numbers) -> Costs:
    """What moving a value between specs costs; they broadcast."""
    between = problem.prices.between(value.prices, given, wanted)
    return np.minimum(between * (value.weight * problem.scale), BIG)


def _add_move(model: Model, problem: Problem, value: ValueClass) -> None:
    """A value with one user: a table of its producer and that user."""
    producer, node = model.variable_of[value.producer], model.variable_of[value.uses[0][0]]
    if producer < 0 and node < 0:
        return
    given = problem.options(value.producer).column(~value.slot)
    options = problem.options(value.uses[0][0])
    columns = {options.column(k).tobytes(): options.column(k) for _, k in value.uses}
    costs = np.zeros((len(given), len(options)))
    for wanted in columns.values():
        costs += moves(problem, value, given[:, None], wanted)
    if costs.any():
        model.add(producer, node, costs)


class Copies(NamedTuple):
    """A variable that says in which specs a value with several users is held.

    Attributes:
        value: the value.
        variable: its number in the model.
        held: the specs in which it is held: of each, one per state.
        rest: specs in which it is held beside those, in the last state.
    """

    value: ValueClass
    variable: int
    held: tuple[Numbers, Numbers]
    rest: tuple[int, ...]

    def price(self, problem: Problem, wanted: Numbers) -> Costs:
        """What it costs from the nearest copy: a row per state, a column per spec."""
        first, shared = [moves(problem, self.value, held[:, None], wanted) for held in self.held]
        nearest = np.minimum(first, shared)
        for spec in self.rest:
            other = moves(problem, self.value, np.array(spec), wanted)
            nearest[-1] = np.minimum(nearest[-1], other)
        return nearest


def _copies(model: Model, problem: Problem, value: ValueClass) -> Copies:
    given = problem.options(value.producer).column(~value.slot)
    first, shared, is_coarse = _states(problem, value)
    model.is_coarse |= is_coarse
    unary = moves(problem, value, first, shared)
    now_first, now_shared = _now(problem, value)
    found = np.flatnonzero((first == now_first) & (shared == (*now_shared, now_first)[0]))
    rest = now_shared if len(now_shared) > 1 or not len(found) else ()
    if rest:  # a state of its own
        first, shared = np.append(first, now_first), np.append(shared, rest[0])
        seconds = problem.prices.copies(value.prices, now_first, now_shared)
        unary = np.append(unary, min(seconds * value.weight * problem.scale, BIG))
    copies = model.variable(unary, len(first) - 1 if rest else int(found[0]))
    producer = model.variable_of[value.producer]
    model.add(producer, copies, np.where(given[:, None] == first[None, :], 0.0, BIG))
    return Copies(value, copies, (first, shared), rest[1:])


def _add_uses(model: Model, problem: Problem, copies: Copies) -> None:
    for node, k in copies.value.uses:
        price = copies.price(problem, problem.options(node).column(k))
        if price.any():
            model.add(copies.variable, model.variable_of[node], price)


def _now(problem: Problem, value: ValueClass) -> tuple[int, tuple[int, ...]]:
    given = problem.now[value.producer].outs[value.slot]
    wanted = {problem.now[n].ins[k] for n, k in value.uses} - {given}
    return given, tuple(sorted(wanted))


def _states(problem: Problem, value: ValueClass) -> tuple[Numbers, Numbers, bool]:
    """Produced specs, each alone and with one shared copy: a coarser spec, or what several want.

    Returns:
        Per state the spec that is produced and the one that is shared, alike where there is none;
        and whether only coarser specs may be shared, as there would be too many states.
    """
    specs = problem.maker.specs.rank(len(problem.graph.types[value.example].shape))
    counts = np.zeros(len(specs), np.intp)
    for node, k in value.uses:
        counts[problem.options(node).distinct(k)] += 1
    produced = problem.options(value.producer).distinct(~value.slot)
    is_coarse = len(produced) * np.count_nonzero(counts) > _MANY
    if not is_coarse:
        allowed = np.broadcast_to(counts > 0, (len(produced), len(specs))).copy()
    else:
        allowed = specs.coarser(produced)
        allowed[:, list(_now(problem, value)[1])] = True
        allowed &= counts > 1
    allowed[np.arange(len(produced)), produced] = False
    which, shared = np.nonzero(allowed)
    first = np.concatenate([produced, produced[which]])
    return first, np.concatenate([produced, shared]), bool(is_coarse)
