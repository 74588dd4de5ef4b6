"""What priorities have decided, as a filter of strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dtensor.passes.graph import Graph, Node
from dtensor.passes.propagation.labels import Label
from dtensor.passes.sharding.specs import Specs

KeptLabels = tuple[tuple[int, Label], ...]  # the number of a sub-axis, and its label


def kept_by_node(kept: Sequence[Mapping[int, Label]]) -> dict[int, KeptLabels]:
    """Per node what it must keep, from the labels of each sub-axis by node."""
    found: dict[int, KeptLabels] = {}
    for axis, labels in enumerate(kept):
        for node, label in labels.items():
            found[node] = (*found.get(node, ()), (axis, label))
    return found


def keeper(
    graph: Graph, specs: Specs, node: Node, labels: KeptLabels
) -> Callable[[tuple[int, ...], tuple[int, ...]], bool]:
    """Whether the specs of a node's operands and results say on those sub-axes what labels say."""
    ins, outs = ([side.places for side in sides] for sides in specs.sides(graph, node))

    def keeps(reads: tuple[int, ...], makes: tuple[int, ...]) -> bool:
        taken = [places[spec] for places, spec in zip(ins, reads, strict=True)]
        given = [places[spec] for places, spec in zip(outs, makes, strict=True)]
        return all(
            tuple([places[axis] for places in taken]) == label.ins
            and tuple([places[axis] for places in given]) == label.outs
            for axis, label in labels
        )

    return keeps
