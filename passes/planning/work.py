"""How long the operations of a program take on one device, as XLA fuses them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.passes.cost.model import DTYPES, CostModel
from dtensor.passes.graph import CARRY, OP, Graph, Node
from dtensor.passes.ops.attributes import is_precise
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef


@dataclass
class Work:
    """What the work of a node takes per execution, if one device does all of it.

    Attributes:
        compute: seconds of arithmetic, which devices divide as they divide the node.
        traffic: by slot, operand `k` or result `~k`, the seconds in which memory gives or takes it;
            a device needs its shards alone.
    """

    compute: float
    traffic: dict[int, float]

    @property
    def seconds(self) -> float:
        """What one device takes for all of it."""
        return max(self.compute, sum(self.traffic.values()))

    def add(self, other: Work, times: float) -> None:
        """Let this be the work of another node as well, which runs so many times."""
        self.compute += times * other.compute
        for slot, seconds in other.traffic.items():
            self.traffic[slot] = self.traffic.get(slot, 0.0) + times * seconds


def work_of(graph: Graph, cost: CostModel, free: Sequence[bool]) -> list[Work]:
    """Per node its work, per execution.

    A fusion of element-wise operations reads and writes its border alone: an operand counts where
    it crosses one, and so does a result. What moves elements alone reads no more than it gives, and
    what is written over a value that a loop carries, such as the rows made so far, what is new.

    Args:
        graph: the program.
        cost: the machine.
        free: per value whether it is made wherever it is wanted; that is the work of its readers.
    """
    defined = [opdef(n.name) if n.kind == OP and n.rule is not None else None for n in graph.nodes]
    fuses = [definition is not None and definition.fuses for definition in defined]
    reduces = [fused and _reduces(n.rule) for n, fused in zip(graph.nodes, fuses, strict=True)]
    found = []
    for node, definition in zip(graph.nodes, defined, strict=True):
        rule = node.rule
        is_free = any([free[v] for v in node.results])
        if definition is None or rule is None or rule.is_free or is_free:
            found.append(Work(0.0, {}))
            continue
        if definition.in_place and _is_overwritten(graph, node):
            moved = _overwritten(graph, node)
        else:
            moved = _moved(graph, node, definition, fuses, reduces)
        traffic = {slot: cost.memory_seconds(bytes_) for slot, bytes_ in moved.items()}
        found.append(
            Work(cost.compute_seconds(rule.flops, _element(graph, node, definition)), traffic)
        )
    return found


def _moved(
    graph: Graph, node: Node, definition: OpDef, fuses: Sequence[bool], reduces: Sequence[bool]
) -> dict[int, float]:
    """By slot the bytes of what crosses the border of a fusion at a node."""
    producer, types, uses = graph.producer, graph.types, graph.uses
    moved: dict[int, float] = {}
    joins, most = fuses[node.index], math.inf
    if definition.moves_only:
        most = sum([types[v].bytes for v in node.results])
    for k, v in enumerate(node.operands):
        maker = producer[v]
        if v in node.operands[:k] or (joins and fuses[maker] and not reduces[maker]):
            continue
        slot = k if types[v].bytes <= most else ~0  # what it reads of it is what it gives
        moved[slot] = moved.get(slot, 0.0) + min(types[v].bytes, most)
    for k, v in enumerate(node.results):
        if not joins or reduces[node.index] or any([not fuses[n] for n, _ in uses[v]]):
            moved[~k] = moved.get(~k, 0.0) + types[v].bytes
    return moved


def _overwritten(graph: Graph, node: Node) -> dict[int, float]:
    """The same of a node that writes what is new over what a loop carries."""
    count = len(node.results)
    return {k: 2 * graph.types[v].bytes for k, v in enumerate(node.operands) if k >= count}


def _element(graph: Graph, node: Node, definition: OpDef) -> str | None:
    """The type of the elements that a matrix product takes; None of what is none."""
    if not (definition.is_product and node.operands):
        return None
    element = graph.types[node.operands[0]].element.removeprefix("complex<").removeprefix("u")
    if element.startswith("f32") and is_precise(node.operation):
        return "f32_highest"
    return next((known for known in DTYPES if element.startswith(known)), None)


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
