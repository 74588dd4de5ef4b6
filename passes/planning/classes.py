"""Classes of nodes that look alike from where they stand: equal layers are planned once.

Colour refinement (Weisfeiler and Leman 1968), stopped after a few rounds: nodes of one class have
the same rule, the same start, and neighbours that are alike within `ROUNDS` steps. A plan that
treats a class alike costs exactly what the sum over its members costs, because values are grouped
by the classes of their producer and of all their users.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.passes.graph import Graph, Node

ROUNDS = 2


def classes_of(graph: Graph, start: Sequence[object], fixed: Sequence[bool]) -> list[int]:
    """The class of every node, numbered in program order.

    `start` has per node what it is laid out as now, equal of nodes that are alike; values that are
    `fixed`, constants and the like, are left out.
    """
    colour: list[int] = _number(
        [
            (
                node.kind,
                id(node.rule),
                node.weight,
                node.free,
                begin,
                _shape(graph, node),
            )
            for node, begin in zip(graph.nodes, start, strict=True)
        ]
    )
    producer, slot, uses = graph.producer, graph.producer_slot, graph.uses
    for _ in range(ROUNDS):
        keys: list[object] = []
        for node in graph.nodes:
            near: list[object] = [
                -1 if fixed[v] else colour[producer[v]] * 16 + slot[v] for v in node.operands
            ]
            for v in node.results:
                if not fixed[v]:
                    mine = uses[v]
                    if len(mine) == 1:
                        near.append(colour[mine[0][0]] * 16 + mine[0][1])
                    else:
                        near.append(tuple(sorted([colour[n] * 16 + k for n, k in mine])))
            keys.append((colour[node.index], *near))
        colour = _number(keys)
    return colour


def _shape(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Of what a node without a rule lays out."""
    if node.rule is not None or not (node.operands or node.results):
        return None
    return graph.types[node.subject].shape


def _number(keys: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
