"""Where the search for a plan starts: axes spread one after the other, priority by priority."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef
from dtensor.passes.ops.rule import FactorKind, OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.planning.strategies import ResultPlaces
from dtensor.passes.propagation.axis import Decided, reach_of
from dtensor.passes.propagation.barriers import Settled, settled_labels
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.propagation.reach import AxisReach
from dtensor.passes.propagation.sweep import sweep
from dtensor.passes.propagation.task import (
    LAST,
    PriorityRound,
    Task,
    keep,
    planned_sub_axes,
    priorities_of,
    seed_bytes,
)


@dataclass(frozen=True)
class AxesInTurn:
    """How axes spread, one after the other.

    Attributes:
        axes: per sub-axis where it can get to, and the label of every node, after the last round.
        kept: per sub-axis and node, the labels that rounds before the last decided.
        order: the priorities that what is given has, ascending.
    """

    axes: list[tuple[AxisReach, tuple[Label, ...]]]
    kept: list[dict[int, Label]]
    order: list[int]

    @property
    def result_places(self) -> list[ResultPlaces]:
        """Per sub-axis where results that nobody laid out may have it."""
        return [_result_places(reach, labels) for reach, labels in self.axes]


def in_turn(
    task: Task, cuts: dict[str, set[int]], settled: Settled, nearby: bool = False
) -> AxesInTurn:
    """Let every axis spread in turn, once for each priority.

    Args:
        task: what is to be planned.
        cuts: where axes are cut into parts; extended, so that later stages cut them there too.
        settled: what earlier stages planned, which stays as it is.
        nearby: cut an axis that is alone once more, where its parts could go.

    Raises:
        ValueError: written parts of one axis have no common refinement.
    """
    graph = task.graph
    order = priorities_of(task.pins)

    def one_round(
        axes: Sequence[AxisRef], priority: int, kept: list[dict[int, Label]]
    ) -> list[tuple[AxisReach, tuple[Label, ...]]] | None:
        """The labels of each axis; None if an axis has to be cut first."""
        decided = Decided.nothing(graph)
        found: list[tuple[AxisReach, tuple[Label, ...]]] = []
        for i, axis in enumerate(axes):
            later = [other.size for other in axes[i + 1 :]]
            others = list(zip(axes, kept, strict=True))[i + 1 :]
            now = PriorityRound(priority, kept[i], others)
            reach = reach_of(task, axis, decided, later, now)
            if _add_cuts(reach, cuts, nearby and len(axes) == 1):
                return None
            labels = sweep(reach)
            found.append((reach, labels))
            decided.add(axis, labels)
        return found

    def all_rounds() -> AxesInTurn | None:
        axes = _axes(task, cuts)
        kept = [settled_labels(graph, settled, axis) for axis in axes]
        for priority in order[:-1]:
            found = one_round(axes, priority, kept)
            if found is None:
                return None
            for mine, (_, labels) in zip(kept, found, strict=True):
                keep(mine, labels)
        found = one_round(axes, LAST, kept)
        return None if found is None else AxesInTurn(found, kept, order)

    while (turns := all_rounds()) is None:
        pass
    return turns


def _axes(task: Task, cuts: dict[str, set[int]]) -> list[AxisRef]:
    """The sub-axes, first those whose seeds take longest to send."""

    def key(axis: AxisRef) -> tuple[float, int, int]:
        rate = task.cost.axis_link(axis.name).bytes_per_second
        order = task.mesh.axis_names.index(axis.name)
        return -seed_bytes(task.graph, task.pins, axis) / rate, order, axis.pre

    return sorted(planned_sub_axes(task.pins, task.mesh, cuts), key=key)


def _add_cuts(reach: AxisReach, cuts: dict[str, set[int]], is_alone: bool) -> bool:
    """Cut the axis where a part of it could be used of which the whole cannot.

    Where it stands already; if it is alone, also once where it could go, at nodes that it gets to.
    """
    pre, n = reach.sub_axis.pre, reach.sub_axis.size
    have = cuts.setdefault(reach.sub_axis.name, set())
    found = [edge for rule_labels in reach.table.rules() for edge in sorted(rule_labels.cuts)]
    if is_alone and not found:
        found = [max([1, *[edge for edge in _edges_nearby(reach) if edge < n]])]
    grown = False
    for cut in (pre * edge for edge in found if edge > 1):
        if cut not in have and all(cut % c == 0 or c % cut == 0 for c in have if c):
            have.add(cut)
            grown = True
    return grown


def _edges_nearby(reach: AxisReach) -> Iterator[int]:
    """Which parts of the axis could split what it gets to, and in two a product of two splits.

    Each shard of one side of such a product meets each of the other: of n of either, two parts of
    the axis gather about the root of n on each side, one axis all on one (Cannon 1969).
    """
    n = reach.sub_axis.size
    refused = {index for index, _ in reach.refused}
    for node, labels in zip(reach.graph.nodes, reach.labels, strict=True):
        if node.rule is None or (len(labels) < 2 and node.index not in refused):
            continue
        yield from [math.gcd(factor.size, n) for factor in node.rule.factors]
        free = {label.factor for label in labels if label.outs[0] > WHOLE}
        if opdef(node.name).must_divide and len(free) > 1:
            yield min(part for part in range(1, n + 1) if n % part == 0 and part * part >= n)


def _result_places(reach: AxisReach, labels: Sequence[Label]) -> ResultPlaces:
    """Per result the places that what is given leads to; None if the axis may come out anywhere.

    It may where an op cannot use it, or orders what it splits: to order or transform it, an op
    sends more than to move the axis to another dimension. So it is with a loop along what it
    splits; but a result that what is given leads to comes out there all the same.
    """
    pairs = zip(reach.graph.nodes, labels, strict=True)
    if reach.refused or any(
        node.rule is not None and _orders(node.rule, label.factor) for node, label in pairs
    ):
        return None
    places = reach.result_places
    return {k: found or None for k, found in places.items()} if _is_walked(reach) else places


def _is_walked(reach: AxisReach) -> bool:
    """Whether a loop may read what the axis splits piece by piece."""
    return any(
        label.factor >= 0 and node.rule.factors[label.factor].kind is FactorKind.OWNED
        for node, labels in zip(reach.graph.nodes, reach.labels, strict=True)
        if node.rule is not None and node.weight > 1
        for label in labels
    )


def _orders(rule: OpRule, factor: int) -> bool:
    """Whether a factor orders or transforms elements, and its dimension comes out."""
    if factor < 0 or rule.factors[factor].kind not in (FactorKind.ORDER, FactorKind.TRANSFORM):
        return False
    return any(k < 0 for k, _ in rule.dims_of_factor[factor])
