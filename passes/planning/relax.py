"""The problem as a model that never costs more than the problem: what bounds are taken from.

Elimination's model overstates a value that is wanted in several specs: it has one copy that users
share. Here the states of such a value say in which spec it is produced and which copies are made,
where these can be listed; else how dear the dearest copy is. Both are at most what `Prices.copies`
says of the same specs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dtensor.passes.planning.model import BIG, Costs, Model, add_pairs, moves
from dtensor.passes.planning.problem import Problem, ValueClass
from dtensor.passes.planning.steps import Numbers

_MOST_STATES = 60_000  # of all values with several users; each has its share of them
_LEAST_OF_VALUE, _MOST_OF_VALUE = 5000, 10_000  # where its sets of copies are more, they are merged
_MOST_PAIRS = 40_000  # states of a value with two users, where its sets of copies are more
_MOST_GROUPS = 200  # groups of copies that may be the dearest, per produced spec


class _State(NamedTuple):
    """How a value is produced and moved.

    Attributes:
        given: the spec in which it is produced.
        cost: of the copies that are made, at least.
        private: per spec, what a user that wants it pays beside; `BIG` if it cannot.
    """

    given: int
    cost: float
    private: Costs


def relaxed_model(problem: Problem) -> Model:
    """A model whose least cost is at most that of every plan, beyond what has no choice."""
    model = Model()
    for node in range(len(problem.now)):
        model.add_node(problem, node)
    shared = sum([len({n for n, _ in value.uses}) > 1 for value in problem.values])
    most = min(max(_MOST_STATES // max(shared, 1), _LEAST_OF_VALUE), _MOST_OF_VALUE)
    for value in problem.values:
        _add_value(model, problem, value, most)
    add_pairs(model, problem)
    return model


def fixed_cost(problem: Problem) -> float:
    """The cost of the nodes and values that no variable of a model stands for."""
    alone = [len(problem.options(node)) < 2 for node in range(len(problem.now))]
    nodes = [problem.node_seconds(node) for node, single in enumerate(alone) if single]
    values = [
        problem.value_seconds(number)
        for number, value in enumerate(problem.values)
        if alone[value.producer] and all([alone[n] for n, _ in value.uses])
    ]
    pairs = [problem.pair_seconds(p) for p in problem.pairs if alone[p.one] and alone[p.other]]
    return problem.scale * (sum(nodes) + sum(values) - sum(pairs))


def _add_value(model: Model, problem: Problem, value: ValueClass, most_states: int) -> None:
    users = list(dict.fromkeys([n for n, _ in value.uses]))
    producer = model.variable_of[value.producer]
    if producer < 0 and all([model.variable_of[n] < 0 for n in users]):
        return
    given = problem.options(value.producer).column(~value.slot)
    columns = [problem.options(n).column(k) for n, k in value.uses]
    specs = np.unique(np.concatenate([given, *columns]))
    price = moves(problem, value, specs[:, None], specs)
    start = np.searchsorted(specs, given)
    ends = [np.searchsorted(specs, column) for column in columns]
    if len(users) == 1:
        costs = _of_one_user(price, start, ends)
        if costs.any():
            model.add(producer, model.variable_of[users[0]], costs)
        return
    states = list(_states(problem, value, specs, price, (start, ends), most_states))
    copies = model.variable(np.array([s.cost for s in states]), 0)
    first = np.array([s.given for s in states])
    model.add(producer, copies, np.where(start[:, None] == first[None, :], 0.0, BIG))
    private = np.stack([s.private for s in states])
    for (node, _), wanted in zip(value.uses, ends, strict=True):
        model.add(copies, model.variable_of[node], private[:, wanted])


def _of_one_user(price: Costs, start: Numbers, ends: Sequence[Numbers]) -> Costs:
    """A node that reads a value, perhaps more than once: exact for two specs, else the dearest."""
    columns = list({wanted.tobytes(): wanted for wanted in ends}.values())
    tables = [price[start[:, None], wanted] for wanted in columns]
    if len(tables) != 2:
        dearest: Costs = np.max(tables, axis=0)
        return dearest
    (one, other), (to_one, to_other) = columns, tables
    either = np.minimum(
        to_one + np.minimum(to_other, price[one, other]),
        to_other + np.minimum(to_one, price[other, one]),
    )
    return np.minimum(np.where(one == other, to_one, either), BIG)


def _states(
    problem: Problem,
    value: ValueClass,
    specs: Numbers,
    price: Costs,
    sides: tuple[Numbers, list[Numbers]],
    most_states: int,
) -> Iterator[_State]:
    """The states of the copies of a value; specs by their position in `specs`."""
    produced = np.unique(sides[0]).tolist()
    wanted = np.unique(np.concatenate(sides[1])).tolist()
    most = min(len(wanted), len(sides[1]))
    if len(produced) * _subsets(len(wanted), most) > most_states:
        if len(sides[1]) == 2 and len(produced) * len(wanted) <= _MOST_PAIRS:
            yield from _shared(price, produced, wanted)
        else:
            yield from _dearest(price, produced, wanted, len(sides[1]))
        return
    scale = value.weight * problem.scale
    for spec in produced:
        for count in range(most + 1):
            for copies in combinations([w for w in wanted if w != spec], count):
                ids = int(specs[spec]), tuple([int(specs[c]) for c in copies])
                cost = problem.prices.copies(value.prices, *ids) * scale
                private = np.full(len(specs), BIG)
                private[[spec, *copies]] = 0.0
                yield _State(spec, min(cost, BIG), private)


def _shared(price: Costs, produced: Sequence[int], wanted: Sequence[int]) -> Iterator[_State]:
    """States by one copy beside what is produced; each of two users pays what is left from there.

    Of two users one reads the copy that the other's is made of, or both read what is produced.
    """
    for spec in produced:
        for copy in dict.fromkeys((spec, *wanted)):
            yield _State(spec, float(price[spec, copy]), np.minimum(price[spec], price[copy]))


def _dearest(
    price: Costs, produced: Sequence[int], wanted: Sequence[int], users: int
) -> Iterator[_State]:
    """States by the copy that is dearest to make; of each other one, a share of what it adds.

    Copies hang together as a tree, so that the dearest copy `c` and another `w` cost at least what
    the cheapest three ways do that meet in some copy. A user of `w` pays what that is above `c`
    alone, divided by how many other users there are: together they pay for the dearest of them.
    """
    groups = max(min(_MOST_GROUPS, _LEAST_OF_VALUE // len(produced)), 1)
    wants = np.array(wanted, np.intp)
    for spec in produced:
        alone = np.full(len(price), BIG)
        alone[spec] = 0.0
        yield _State(spec, 0.0, alone)
        order = wants[np.argsort(price[spec][wants], kind="stable")]
        order = order[price[spec][order] < BIG]
        row, between = price[spec][order], price[np.ix_(order, order)]
        no_dearer = np.searchsorted(row, row, side="right").tolist()
        # Ways that meet in one of twice the cost are no cheaper than two from the spec produced.
        of_use = np.searchsorted(row, 2 * row).tolist()
        for group in _alike(row, groups):
            private = alone.copy()
            for c in group.tolist():
                rest, via = slice(no_dearer[c]), slice(of_use[c])
                ways = ((row[via] + between[via, c])[:, None] + between[via, rest]).min(
                    0, initial=BIG
                )
                more = np.maximum(np.minimum(ways, row[c] + row[rest]) - row[c], 0.0) / (users - 1)
                more[c] = 0.0
                others = order[rest]
                private[others] = np.minimum(private[others], more)
            yield _State(spec, float(row[group[0]]), private)


def _alike(costs: Costs, most: int) -> list[Numbers]:
    """The positions of ascending costs in groups, at most so many: cut where they rise most."""
    rises = np.argsort(-np.diff(costs), kind="stable")[: most - 1]
    return np.split(np.arange(len(costs)), np.sort(rises) + 1) if len(costs) else []


def _subsets(elements: int, most: int) -> int:
    found, term = 1, 1
    for k in range(most):
        term = term * (elements - k) // (k + 1)
        found += term
    return found
