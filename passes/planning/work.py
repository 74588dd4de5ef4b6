"""How long the operations of a program take on one device, as XLA fuses them."""

from __future__ import annotations

import math

from dtensor.passes.cost.model import CostModel
from dtensor.passes.graph import CARRY, OP, Graph, Node
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef


def work_seconds(graph: Graph, cost: CostModel) -> list[float]:
    """Per node the seconds of its work on one device, per execution.

    A fusion of element-wise operations reads and writes its border alone: an operand counts where
    it crosses one, and so does a result. What moves elements alone reads no more than it gives, and
    what is written over a value that a loop carries, such as the rows made so far, what is new.
    """
    producer, types, uses = graph.producer, graph.types, graph.uses
    defined = [opdef(n.name) if n.kind == OP and n.rule is not None else None for n in graph.nodes]
    fuses = [definition is not None and definition.fuses for definition in defined]
    reduces = [fused and _reduces(n.rule) for n, fused in zip(graph.nodes, fuses, strict=True)]
    seconds = []
    for node, definition in zip(graph.nodes, defined, strict=True):
        rule = node.rule
        if definition is None or rule is None or rule.is_free:
            seconds.append(0.0)
            continue
        index, traffic = node.index, 0.0
        if definition.in_place and _is_overwritten(graph, node):
            traffic = 2 * sum([types[v].bytes for v in node.operands[len(node.results) :]])
            seconds.append(cost.local_seconds(rule.flops, traffic))
            continue
        joins, most = fuses[index], math.inf
        if definition.moves_only:
            most = sum([types[v].bytes for v in node.results])
        for v in dict.fromkeys(node.operands):
            maker = producer[v]
            if not (joins and fuses[maker] and not reduces[maker]):
                traffic += min(types[v].bytes, most)
        for v in node.results:
            if not joins or reduces[index] or any([not fuses[n] for n, _ in uses[v]]):
                traffic += types[v].bytes
        seconds.append(cost.local_seconds(rule.flops, traffic))
    return seconds


def _is_overwritten(graph: Graph, node: Node) -> bool:
    """Whether the results are written over what the same loop carries, which nobody else reads.

    Elsewhere the rest has to be written once at least: zeros, say, or a copy of an argument.
    """
    below = node.operands[: len(node.results)]
    return all(
        len(graph.uses[v]) == 1 and graph.nodes[graph.producer[v]].kind == CARRY for v in below
    )


def _reduces(rule: OpRule | None) -> bool:
    """Whether an op ends its fusion: XLA fuses what a reduction reads, and not what reads it."""
    return rule is not None and any([factor.reduction is not None for factor in rule.factors])
