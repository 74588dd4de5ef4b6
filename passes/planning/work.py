"""How long the operations of a program take on one device, as XLA fuses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dtensor.dialect.mlir import ir
from dtensor.passes.cost.model import DTYPES, CostModel
from dtensor.passes.graph import CARRY, OP, Graph, Node
from dtensor.passes.ops.attributes import precision_of, products_of
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef

_NARROW: Final = ("i4", "i2")  # which devices multiply as bytes, at least


class Transfer(NamedTuple):
    """What memory gives to an operation, or takes.

    Attributes:
        slots: the operands `k`, or the result `~k`, that are this value; a device needs the largest
            of its shards there.
        is_bounded: whether no more of it is read than result 0 has, by what only moves elements.
    """

    slots: tuple[int, ...]
    is_bounded: bool = False


@dataclass
class Work:
    """What the work of a node takes per execution, if one device does all of it.

    Attributes:
        compute: seconds of arithmetic, which devices divide as they divide the node.
        traffic: the seconds of each transfer of a whole value, and of result 0.
    """

    compute: float
    traffic: dict[Transfer, tuple[float, float]]

    def seconds(self, compute_share: Any, share_of: Callable[[int], Any], maximum: Any) -> Any:
        """What a device takes, or what it takes in each of several strategies.

        Args:
            compute_share: which part of the arithmetic it does.
            share_of: of a slot, which part of the value its shard is.
            maximum: of two such numbers, or arrays of them.
        """
        moved: Any = 0.0
        for (slots, is_bounded), (seconds, most) in self.traffic.items():
            share = share_of(slots[0])
            for slot in slots[1:]:
                share = maximum(share, share_of(slot))
            taken = seconds * share
            moved = moved + (-maximum(-taken, -most * share_of(~0)) if is_bounded else taken)
        return maximum(self.compute * compute_share, moved)

    @property
    def whole(self) -> float:
        """Seconds of one device that does all of it."""
        found: float = self.seconds(1.0, lambda _: 1.0, max)
        return found

    def add(self, other: Work, times: float) -> None:
        """Let this be the work of another node as well, which runs so many times."""
        self.compute += times * other.compute
        for transfer, (seconds, most) in other.traffic.items():
            have = self.traffic.get(transfer, (0.0, 0.0))
            self.traffic[transfer] = have[0] + times * seconds, have[1] + times * most


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
    read = _read_by_products(graph, defined)
    fuses = [d is not None and d.fuses and not r for d, r in zip(defined, read, strict=True)]
    reduces = [fused and _reduces(n.rule) for n, fused in zip(graph.nodes, fuses, strict=True)]
    found = []
    for node, definition in zip(graph.nodes, defined, strict=True):
        rule = node.rule
        is_free = read[node.index] or any([free[v] for v in node.results])
        if definition is None or rule is None or rule.is_free or is_free:
            found.append(Work(0.0, {}))
            continue
        if definition.in_place and _is_overwritten(graph, node):
            moved = _overwritten(graph, node)
        else:
            moved = _moved(graph, node, definition, fuses, reduces)
        most = cost.memory_seconds(graph.types[node.results[0]].bytes) if node.results else 0.0
        traffic = {each: (cost.memory_seconds(size), most) for each, size in moved.items()}
        taken = graph.types[node.operands[0]].element if node.operands else ""
        compute = compute_seconds(cost, definition, node.operation, taken, rule.flops)
        work = Work(compute, traffic)
        found.append(work if cost.reads_shards else Work(work.whole, {}))
    return found


def _read_by_products(graph: Graph, defined: Sequence[OpDef | None]) -> list[bool]:
    """Per node whether a matrix product reads what it moves where that lies, as it needs it.

    XLA takes transposes, reshapes and slices at known places into products that alone read them.
    """
    found = [False] * len(graph.nodes)
    for node in reversed(graph.nodes):
        definition = defined[node.index]
        if definition is None or not (definition.moves_only and definition.fuses):
            continue
        if len(node.operands) != 1 or len(node.results) != 1:
            continue  # a slice at a place that is computed is copied
        (result,), of = node.results, graph.types[node.operands[0]]
        is_part = graph.types[result].bytes <= of.bytes
        users = [n for n, _ in graph.uses[result]]
        found[node.index] = (
            is_part
            and bool(users)
            and all([found[n] or ((d := defined[n]) is not None and d.is_product) for n in users])
        )
    return found


def _moved(
    graph: Graph, node: Node, definition: OpDef, fuses: Sequence[bool], reduces: Sequence[bool]
) -> dict[Transfer, float]:
    """The bytes of what crosses the border of a fusion at a node."""
    producer, types, uses = graph.producer, graph.types, graph.uses
    moved: dict[Transfer, float] = {}
    joins = fuses[node.index]
    for v in dict.fromkeys(node.operands):
        maker = producer[v]
        if not (joins and fuses[maker] and not reduces[maker]):
            slots = tuple([k for k, other in enumerate(node.operands) if other == v])
            moved[Transfer(slots, definition.moves_only)] = types[v].bytes
    for k, v in enumerate(node.results):
        if not joins or reduces[node.index] or any([not fuses[n] for n, _ in uses[v]]):
            moved[Transfer((~k,))] = types[v].bytes
    return moved


def _overwritten(graph: Graph, node: Node) -> dict[Transfer, float]:
    """The same of a node that writes what is new over what a loop carries."""
    count, types = len(node.results), graph.types
    return {Transfer((k,)): 2 * types[v].bytes for k, v in enumerate(node.operands) if k >= count}


def compute_seconds(
    cost: CostModel, definition: OpDef, operation: ir.Operation, taken: str, flops: float
) -> float:
    """Seconds of floating-point operations of an op, whose operand 0 has elements of this type."""
    element = _element(definition, operation, taken)
    times = products_of(operation) if element is not None else 1
    return cost.compute_seconds(flops * times, element)


def _element(definition: OpDef, operation: ir.Operation, taken: str) -> str | None:
    """The type of the elements that a matrix product takes, as peaks name it; None of what is none.

    `taken` is that of operand 0, as written.
    """
    if not (definition.is_product and taken):
        return None
    element = taken.removeprefix("complex<").removeprefix("u")
    if element.startswith("f32"):
        return precision_of(operation)
    return "i8" if element in _NARROW else next((t for t in DTYPES if element.startswith(t)), None)


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
