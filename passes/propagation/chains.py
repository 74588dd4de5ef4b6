"""Compound moves: a relayout moves up a chain of ops, to where the value is smaller.

`relayout(reshape(broadcast(x)))` moves more than `reshape(broadcast(relayout(x)))`. Each op of such
a chain alone has nothing to gain from the other place, so descent does not find it.
"""

from __future__ import annotations

from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.propagation.problem import Problem

_LONGEST = 8  # ops of a chain


def move_up(problem: Problem) -> int:
    """Move relayouts up where that makes the program cheaper; the number of chains changed."""
    graph, current = problem.graph, problem.current
    moved = 0
    for value in range(len(graph.values)):
        before = problem.place(value)
        if before <= WHOLE or problem.value_seconds(value) <= 0.0:
            continue
        wanted = {current[node].ins[k] for node, k in graph.uses[value]} - {before}
        for after in sorted(wanted):
            moved += _move(problem, value, after)
    return moved


def _move(problem: Problem, value: int, after: int) -> bool:
    """Give the ops that lead to a value the place its user wants, as far up as it pays."""
    graph, current = problem.graph, problem.current
    before: dict[int, Label] = {}
    gain = best = 0.0
    length = 0
    wants = [(value, after)]
    while wants and len(before) < _LONGEST:
        value, after = wants.pop()
        index = graph.producer[value]
        label = _label(problem, index, graph.producer_slot[value], after)
        if label is None or index in before:
            break
        node = graph.nodes[index]
        gain += _seconds(problem, index)
        before[index], current[index] = current[index], label
        gain -= _seconds(problem, index)
        if gain > best + 1e-15:
            best, length = gain, len(before)
        for operand, place in zip(node.operands, label.ins, strict=True):
            at = problem.place(operand)
            if at > WHOLE and at != place and not problem.free[operand]:
                wants.append((operand, place))
    for index in list(before)[length:]:
        current[index] = before[index]
    return length > 0


def _label(problem: Problem, index: int, slot: int, place: int) -> Label | None:
    """The other label of a node in which its result has this place, if it has a choice."""
    if problem.fixed[index] is not None:
        return None
    for label in problem.labels[index]:
        if label.outs[slot] == place and label is not problem.current[index]:
            return label
    return None


def _seconds(problem: Problem, index: int) -> float:
    node = problem.graph.nodes[index]
    values = dict.fromkeys(node.operands + node.results)
    return problem.local_seconds(index) + sum(map(problem.value_seconds, values))
