"""What two ops fetch of neighbours, and send once where both fetch the same.

Two convolutions that read one value in one layout exchange equal halos, and the second exchange
merges with the first. Users of a value with equal windows are taken in pairs, each with the next;
what a pair shares is taken off the cost of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dtensor.passes.graph import Node
from dtensor.passes.ops.rule import FactorKind, Window
from dtensor.passes.planning.options import Exchange, Strategy
from dtensor.passes.planning.steps import Seconds

if TYPE_CHECKING:
    from dtensor.passes.planning.problem import Problem


class Pair(NamedTuple):
    """Two nodes of the problem that read one value through windows.

    Attributes:
        one: the first.
        other: the second.
    """

    one: int
    other: int


def pairs_of(problem: Problem) -> Iterator[Pair]:
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
                if _are_together(nodes[example[one]], nodes[example[other]]):
                    yield Pair(one, other)


def _windows(node: Node) -> tuple[Window | None, ...]:
    factors = () if node.rule is None else node.rule.factors
    return tuple([factor.window for factor in factors if factor.kind is FactorKind.WINDOW])


def _are_together(one: Node, other: Node) -> bool:
    return bool(one.operation.block == other.operation.block)


def saved(
    problem: Problem, pair: Pair, ones: Sequence[Strategy], others: Sequence[Strategy]
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
