"""The choice on one mesh axis: nodes, their labels, what is pinned, and what everything costs."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtensor.dialect.axes import AxisRef
from dtensor.passes.cost.model import CostModel
from dtensor.passes.graph import OP, Graph
from dtensor.passes.propagation.labels import Label, LabelTable
from dtensor.passes.propagation.places import MAX_RANK, WHOLE


@dataclass
class Problem:
    """One mesh axis, or part of one, over one graph.

    Attributes:
        graph: values and nodes.
        atom: the axis.
        labels: per node the labels it may take, the idle one first unless it was ruled out.
        fixed: per node the label it must take, or None.
        current: per node the label taken now.
        free: per value whether its producer can give it any place at no cost.
        value_alpha: per value the seconds that one collective takes however little it moves,
            times how often its producer runs.
        value_whole: per value the seconds that sending one whole copy takes, likewise, earlier
            axes' splits divided out.
        node_seconds: per node the seconds of local work if this axis leaves it whole.
        asleep: nodes that are pinned but do not spread in this round.
        refused: `(node, operand or ~result) -> place` that reached the node and has no label there.
        open_dims: per node that is pinned but for some dimensions, those dimensions.
        result_places: per result where it is split by what is given, without regard to conflicts.
    """

    graph: Graph
    atom: AxisRef
    table: LabelTable
    labels: list[list[Label]]
    fixed: list[Label | None]
    current: list[Label]
    free: list[bool]
    value_alpha: list[float]
    value_whole: list[float]
    node_seconds: list[float]
    open_dims: dict[int, frozenset[int]] = field(default_factory=dict)
    asleep: set[int] = field(default_factory=set)
    refused: dict[tuple[int, int], int] = field(default_factory=dict)
    result_places: dict[int, frozenset[int]] = field(default_factory=dict)

    def place(self, value: int) -> int:
        """The place at which the value is produced now."""
        graph = self.graph
        return self.current[graph.producer[value]].outs[graph.producer_slot[value]]

    def change_seconds(self, value: int, before: int, after: int) -> float:
        """Seconds of moving a value from one place to another."""
        if before == after or before == WHOLE:
            return 0.0
        n = self.atom.size
        alpha, whole = self.value_alpha[value], self.value_whole[value]
        share = whole * (n - 1) / n
        if before < WHOLE:
            if after < WHOLE:
                return alpha * 2 + share * 3  # reduce, then keep one part: never wanted
            return alpha + (2 * share if after == WHOLE else share)
        if after <= WHOLE:
            return alpha + share
        if (
            before % MAX_RANK == after % MAX_RANK
            and before > after
            and before // MAX_RANK % (after // MAX_RANK * n)
        ):
            return 2 * (alpha + share / n)  # the blocks ahead do not divide among the devices
        return alpha + share / n

    def value_seconds(self, value: int) -> float:
        """Seconds of all relayouts of a value, once per distinct place that its users want."""
        if self.free[value]:
            return 0.0
        current = self.current
        before = self.place(value)
        if before == WHOLE:
            return 0.0
        uses = self.graph.uses[value]
        if all([current[node].ins[k] == before for node, k in uses]):
            return 0.0
        wanted = {current[node].ins[k] for node, k in uses}
        wanted.discard(before)
        if WHOLE in wanted:  # what is whole can be sliced, or kept as one part, for nothing
            return self.change_seconds(value, before, WHOLE)
        return sum(self.change_seconds(value, before, after) for after in wanted)

    def local_seconds(self, node: int) -> float:
        """Seconds of a node's own work under its current label."""
        seconds, label = self.node_seconds[node], self.current[node]
        if label.divides:
            seconds /= self.atom.size
        return seconds + label.comm * self.graph.nodes[node].weight if label.comm else seconds

    def total_seconds(self) -> float:
        """Seconds of the whole program, as far as this axis goes."""
        work = sum(map(self.local_seconds, range(len(self.graph.nodes))))
        return work + sum(map(self.value_seconds, range(len(self.graph.values))))


@dataclass(frozen=True)
class Sizes:
    """What costs are computed from, read once per graph.

    Attributes:
        value_bytes: per value its whole size in bytes, times how often its producer runs.
        node_seconds: per node the seconds of its work on one device, times how often it runs.
    """

    value_bytes: list[float]
    node_seconds: list[float]


def measure(graph: Graph, cost: CostModel) -> Sizes:
    """The sizes of a graph."""
    peak, hbm = cost.peak_flops, cost.hbm_bytes_per_second
    sizes = [t.bytes for t in graph.types]
    seconds = []
    for node in graph.nodes:
        if node.kind != OP or node.rule is None or node.rule.is_free:
            seconds.append(0.0)
            continue
        traffic = 0.0
        for value in node.operands:
            traffic += sizes[value]
        for value in node.results:
            traffic += sizes[value]
        seconds.append(node.weight * max(node.rule.flops / peak, traffic / hbm))
    weighted = [size * weight for size, weight in zip(sizes, graph.weights, strict=True)]
    return Sizes(weighted, seconds)


def cost_arrays(
    graph: Graph,
    sizes: Sizes,
    cost: CostModel,
    atom: AxisRef,
    value_split: list[int],
    node_split: list[int],
) -> tuple[list[float], list[float], list[float]]:
    """Per value alpha and whole-copy seconds, per node seconds of work; see `Problem`."""
    link = cost.axis_link(atom.name)
    start, rate = link.alpha, link.bytes_per_second
    alpha = [start * weight for weight in graph.weights]
    whole = [b / (n * rate) for b, n in zip(sizes.value_bytes, value_split, strict=True)]
    work = [s / n for s, n in zip(sizes.node_seconds, node_split, strict=True)]
    return alpha, whole, work
