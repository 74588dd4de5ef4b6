"""The planning problem: nodes with strategies, values that are moved, and what a plan costs.

Nodes that look alike (`classes`) are one node of the problem, and their values one value, weighted
by how often they occur and run. Two convolutions that read one value in one layout exchange equal
halos, and the second exchange merges with the first. Users of a value with equal windows are taken
in pairs, each with the next; what a pair shares is taken off the cost of both. Of unequal halos the
longer serves both operations too, which a plan does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dtensor.passes.graph import Node
from dtensor.passes.ops.rule import FactorKind, Window
from dtensor.passes.planning.classes import classes_of
from dtensor.passes.planning.options import Exchange, Options, Strategy
from dtensor.passes.planning.prices import Prices
from dtensor.passes.planning.steps import Seconds
from dtensor.passes.planning.strategies import Maker, Moves
from dtensor.passes.planning.work import Work


@dataclass(slots=True)
class ValueClass:
    """Alike values that somebody may have to move.

    Attributes:
        producer: node of the problem that makes it.
        slot: which of its results it is.
        uses: `(node, operand)` pairs that read it.
        weight: how often one of them is made.
        prices: its class in the price list.
        example: a value of the graph.
    """

    producer: int
    slot: int
    uses: tuple[tuple[int, int], ...]
    weight: float
    prices: int
    example: int


class Problem:
    """Nodes, values and the present plan.

    Attributes:
        start: per node the strategy at which the search starts.
        now: per node the strategy taken.
        values: what may have to be moved.
        around: per node, the values it makes or reads.
        work: per node, seconds of its work if one device did all of it.
        runs: per node, how often the nodes that look alike run in all.
        pairs: nodes that may exchange the same with neighbours.
        example: per node of the problem, a node of the graph.
        node_of: per node of the graph, its node of the problem.
        value_of: per value of the graph that may have to be moved, its number among `values`.
        scale: what a second is in the costs of models: a million, but less where the plan takes
            more than one at first, as costs of ten million are what cannot be.
    """

    def __init__(self, maker: Maker, start: list[Strategy], prices: Prices) -> None:
        self.graph = graph = maker.graph
        self.maker = maker
        self.prices = prices
        free = maker.task.free
        pins, given = maker.task.pins, zip(start, graph.nodes, strict=True)
        begin = [
            (s, maker.kept.get(n.index), maker.is_constant(n), pins.layouts.get(n.index))
            for s, n in given
        ]
        self.node_of = classes_of(graph, begin, free)
        count = max(self.node_of, default=-1) + 1
        self.example = [-1] * count
        self.work = [Work(0.0, {}) for _ in range(count)]
        self.runs = [0.0] * count
        for node, number in enumerate(self.node_of):
            if self.example[number] < 0:
                self.example[number] = node
            weight = graph.nodes[node].weight
            self.work[number].add(maker.work[node], weight)
            self.runs[number] += weight
        self.start = [start[node] for node in self.example]
        self.now = list(self.start)
        self.values: list[ValueClass] = []
        self.value_of: dict[int, int] = {}
        self.around: list[list[int]] = [[] for _ in range(count)]
        self._read_values()
        self.pairs = list(pairs_of(self))
        self.let_change((frozenset(range(len(maker.specs.sizes))),))
        self.scale = 1e6 / max(self.total(), 1.0)

    def _read_values(self) -> None:
        graph, node_of, maker = self.graph, self.node_of, self.maker
        free = maker.task.free
        numbers: dict[object, int] = {}
        for v, uses in enumerate(graph.uses):
            info = graph.types[v]
            if free[v] or not uses or not info.itemsize:
                continue
            producer = graph.producer[v]
            weight = graph.weights[v]
            if graph.nodes[producer].is_invariant:
                weight = graph.nodes[producer].weight  # its relayouts are hoisted out of the loop
            users = tuple(sorted({(node_of[n], k) for n, k in uses}))
            key = (node_of[producer], graph.producer_slot[v], users)
            number = self.value_of[v] = numbers.setdefault(key, len(self.values))
            if number < len(self.values):
                self.values[number].weight += weight
                continue
            for n in {key[0], *(n for n, _ in users)}:
                self.around[n].append(len(self.values))
            cls = self.prices.class_of(info.shape, info.itemsize, maker.task.summed(info))
            self.values.append(ValueClass(key[0], key[1], users, weight, cls, v))

    def let_change(self, moves: Moves | None) -> None:
        """Let nodes choose among the strategies that change the sub-axes of one set alone.

        With None, among those that the present one becomes without some of its sub-axes.
        """
        self._moves = moves
        self._options: list[Options | None] = [None] * len(self.now)
        self._costs: list[Seconds | None] = [None] * len(self.now)

    def options(self, node: int) -> Options:
        """The strategies of a node, made when they are first asked for."""
        found = self._options[node]
        if found is None:
            example = self.graph.nodes[self.example[node]]
            start, now = self.start[node], self.now[node]
            found = self._options[node] = self.maker.of(example, start, now, self._moves)
        return found

    def value_seconds(self, number: int) -> float:
        """Seconds of all relayouts of a value under the present plan."""
        value = self.values[number]
        now = self.now
        given = now[value.producer].outs[value.slot]
        wanted = {now[n].ins[k] for n, k in value.uses}
        wanted.discard(given)
        if not wanted:
            return 0.0
        if len(wanted) == 1:
            return value.weight * self.prices.move(value.prices, given, wanted.pop())
        return value.weight * self.prices.copies(value.prices, given, tuple(sorted(wanted)))

    def work_seconds(self, node: int) -> float:
        """Seconds of a node's work under the present plan."""
        work, now = self.work[node], self.now[node]
        ins, outs = self.maker.specs.sides(self.graph, self.graph.nodes[self.example[node]])

        def share_of(slot: int) -> float:
            side, spec, at = (ins, now.ins, slot) if slot >= 0 else (outs, now.outs, ~slot)
            return 1.0 / side[at].splits[spec[at]]

        found: float = work.seconds(1.0 / now.split, share_of, max)
        return found

    def node_costs(self, node: int) -> Seconds:
        """What `node_seconds` would be in each strategy of a node."""
        found = self._costs[node]
        if found is None:
            options = self.options(node)
            found = options.seconds(self.work[node]) + self.runs[node] * options.extra
            self._costs[node] = found
        return found

    def node_seconds(self, node: int) -> float:
        """The same, what its algorithm communicates, and what else it is priced at."""
        now = self.now[node]
        return self.work_seconds(node) + self.runs[node] * (now.comm + now.price)

    def pair_seconds(self, pair: WindowPair) -> float:
        """Seconds that two nodes save under the present plan, as they exchange the same."""
        return float(saved(self, pair, [self.now[pair.one]], [self.now[pair.other]])[0, 0])

    def total(self) -> float:
        """Seconds of the present plan."""
        moved = sum(map(self.value_seconds, range(len(self.values))))
        spent = moved + sum(map(self.node_seconds, range(len(self.now))))
        return spent - sum(map(self.pair_seconds, self.pairs))


class WindowPair(NamedTuple):
    """Two nodes of the problem that read one value through windows."""

    one: int
    other: int


def pairs_of(problem: Problem) -> Iterator[WindowPair]:
    """The pairs that run equally often, in one block of the program."""
    nodes, example = problem.graph.nodes, problem.example
    for value in problem.values:
        groups: dict[object, list[int]] = {}
        for n, k in value.uses:
            windows = _windows(nodes[example[n]]) if k == 0 else ()
            if windows:
                groups.setdefault((windows, problem.runs[n]), []).append(n)
        for users in groups.values():
            for one, other in pairwise(users):
                blocks = [nodes[example[n]].operation.block for n in (one, other)]
                if blocks[0] == blocks[1]:
                    yield WindowPair(one, other)


def _windows(node: Node) -> tuple[Window | None, ...]:
    factors = () if node.rule is None else node.rule.factors
    return tuple([factor.window for factor in factors if factor.kind is FactorKind.WINDOW])


def saved(
    problem: Problem, pair: WindowPair, ones: Sequence[Strategy], others: Sequence[Strategy]
) -> Seconds:
    """Seconds that a pair saves: a row per strategy of the first, a column per one of the other."""
    maker, nodes, example = problem.maker, problem.graph.nodes, problem.example
    rules = [nodes[example[n]].rule for n in pair]
    sides = [
        [(s.ins[0], maker.exchanges(rule, s)) for s in strategies]
        for rule, strategies in zip(rules, (ones, others), strict=True)
    ]
    found = np.zeros((len(ones), len(others)))
    for i, (spec, mine) in enumerate(sides[0]):
        for j, (wanted, theirs) in enumerate(sides[1]):
            if spec == wanted and mine and theirs:
                found[i, j] = _in_common(mine, theirs)
    return found * problem.runs[pair.one]


def _in_common(mine: Sequence[Exchange], theirs: Sequence[Exchange]) -> float:
    """Seconds of the exchanges with which both begin."""
    seconds = 0.0
    for (what, cost), (other, _) in zip(mine, theirs, strict=False):
        if what != other:
            break
        seconds += cost
    return seconds
