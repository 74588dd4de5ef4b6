"""Propagation barriers: the sides of one are planned one after the other, or apart.

A barrier that is shut is, to the planner, a value that comes from nowhere: what makes its operand
and what reads its result share nothing. So the program falls into *parts*, joined by barriers.
With `forward` the part before the barrier is planned first, then held as it is while the barrier is
open; with `backward` the part behind it goes first; with `none` it stays shut. A plan of parts is a
*stage*; a program without barriers has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.kinds import BACKWARD, DIRECTION, FORWARD
from dtensor.dialect.layout import Layout
from dtensor.dialect.names import ALLOWED_DIRECTION, PROPAGATION_BARRIER
from dtensor.passes.disjoint_sets import DisjointSets
from dtensor.passes.graph import THROUGH, Graph, Node
from dtensor.passes.ledger import Ledger
from dtensor.passes.propagation.labels import Label, LabelTable
from dtensor.passes.propagation.places import WHOLE, place_of
from dtensor.passes.propagation.task import Task

Settled = dict[int, tuple[tuple[Layout, ...], tuple[Layout, ...]]]
"""Per node of an earlier stage, the layouts of its operands and results."""


def stages(task: Task, ledger: Ledger) -> Iterator[tuple[Task, list[Node]]]:
    """What to plan, one stage after the other.

    The ledger gets a warning for each barrier that other operations lead around.

    Yields:
        The task, with the barriers that are still shut cut, and its nodes that are settled once it
        is planned. At last all are settled, and the whole task says what that costs.
    """
    graph = task.graph
    barriers = {n.index: _direction(n) for n in graph.nodes if n.name == PROPAGATION_BARRIER}
    if not barriers:
        yield task, []
        return
    part = _parts(task, barriers)
    leads: dict[int, set[int]] = {}  # per part, those that must be settled before it
    apart: dict[int, tuple[int, int]] = {}  # per barrier that may open, the parts that it joins
    opened = set()
    for index, direction in barriers.items():
        node = graph.nodes[index]
        before, behind = part[graph.producer[node.operands[0]]], part[index]
        if direction not in (FORWARD, BACKWARD):
            continue
        if before == behind:
            opened.add(index)
            ledger.warn(
                node.operation,
                "layouts pass this propagation barrier both ways: other operations join what is "
                "before it to what is behind it; write a constraint on one side",
            )
            continue
        apart[index] = before, behind
        first, second = (before, behind) if direction == FORWARD else (behind, before)
        leads.setdefault(second, set()).add(first)
    waiting, done = list(dict.fromkeys(part)), set[int]()
    while waiting:
        ready = [p for p in waiting if leads.get(p, set()) <= done] or waiting[:1]
        opened |= {index for index, parts in apart.items() if done & set(parts)}
        stage = _cut(graph, [index for index in barriers if index not in opened])
        settled = [node for node in stage.nodes if part[node.index] in ready]
        yield replace(task, graph=stage), settled
        done |= set(ready)
        waiting = [p for p in waiting if p not in done]
    if len(opened) < len(barriers):
        yield task, []


def _direction(node: Node) -> str:
    return str(DIRECTION.read(node.operation.attributes[ALLOWED_DIRECTION], {}))


def _parts(task: Task, barriers: Mapping[int, str]) -> list[int]:
    """Per node a node that stands for its part: what no barrier, and nothing given, is between.

    Nor what is free: it joins nothing.
    """
    graph, pins = task.graph, task.pins
    parts = DisjointSets[int]()
    given = {i for i, layout in pins.layouts.items() if not layout.has_open} | pins.whole
    for value, users in enumerate(graph.uses):
        maker = graph.producer[value]
        if task.free[value] or not graph.types[value].shape or maker in given:
            continue
        for node in [n for n, _ in users if n not in barriers and n not in given]:
            parts.join(node, maker)
    return [parts.root(node.index) for node in graph.nodes]


def _cut(graph: Graph, shut: list[int]) -> Graph:
    """The graph in which the results of some barriers come from nowhere."""
    if not shut:
        return graph
    nodes, uses = list(graph.nodes), list(graph.uses)
    for index in shut:
        node = nodes[index]
        (value,) = node.operands
        nodes[index] = replace(node, kind=THROUGH, rule=None, operands=[])
        uses[value] = [use for use in uses[value] if use[0] != index]
    return replace(graph, nodes=nodes, uses=uses)


def settled_labels(graph: Graph, settled: Settled, axis: AxisRef) -> dict[int, Label]:
    """What the nodes that are settled say of one axis."""
    table = LabelTable(axis.size)
    found = {}
    for index, (reads, gives) in settled.items():
        node = graph.nodes[index]
        reads = reads or gives[: len(node.operands)]  # of a barrier that was shut
        ins = tuple([place_of(x, axis) for x in reads[: len(node.operands)]])
        found[index] = _label(table, node, ins, tuple([place_of(x, axis) for x in gives]))
    return found


def _label(table: LabelTable, node: Node, ins: tuple[int, ...], outs: tuple[int, ...]) -> Label:
    """The label of a node with these places."""
    slots = [*enumerate(ins), *((~k, place) for k, place in enumerate(outs))]
    used = [(slot, place) for slot, place in slots if place != WHOLE]
    if not used:
        return table.idle(node)
    for slot, place in used:
        at = table.at(node, slot, place) if node.rule is not None else (table.joint(node, place),)
        for label in at:
            if label.ins == ins and label.outs == outs:
                return label
    return Label(ins, outs)
