"""Seconds of local work: arithmetic, or memory traffic where XLA's fusions read and write."""

from __future__ import annotations

from dtensor.passes.cost.model import CostModel
from dtensor.passes.graph import OP, Graph
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef


def work_seconds(graph: Graph, cost: CostModel) -> list[float]:
    """Per node the seconds of its work on one device, times how often it runs.

    A fusion of element-wise operations reads and writes its border alone: an operand counts where
    it crosses one, and so does a result.
    """
    producer, types, uses = graph.producer, graph.types, graph.uses
    fuses = [n.kind == OP and n.rule is not None and opdef(n.name).fuses for n in graph.nodes]
    reduces = [fused and _reduces(n.rule) for n, fused in zip(graph.nodes, fuses, strict=True)]
    seconds = []
    for node in graph.nodes:
        rule = node.rule
        if node.kind != OP or rule is None or rule.is_free:
            seconds.append(0.0)
            continue
        index, traffic = node.index, 0.0
        joins = fuses[index]
        for v in dict.fromkeys(node.operands):
            maker = producer[v]
            if not (joins and fuses[maker] and not reduces[maker]):
                traffic += types[v].bytes
        for v in node.results:
            if not joins or reduces[index] or any([not fuses[n] for n, _ in uses[v]]):
                traffic += types[v].bytes
        seconds.append(node.weight * cost.local_seconds(rule.flops, traffic))
    return seconds


def _reduces(rule: OpRule | None) -> bool:
    """Whether an op ends its fusion: XLA fuses what a reduction reads, and not what reads it."""
    return rule is not None and any([factor.reduction is not None for factor in rule.factors])
