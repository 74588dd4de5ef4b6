"""Step 8: ways around what an op needs whole.

A sort along a dimension that is split needs it whole. Gathering it is one way; another, with fewer
bytes, is to move the axis to a dimension that the op does not mind, which is an all_to_all, and to
go on from there. Such a label is reached by no seed, and no change of one node alone finds it, so
this step offers it once all axes are decided, lets the ops behind follow, and keeps the cheaper.
"""

from __future__ import annotations

from dtensor.passes.propagation.axis import (
    Decided,
    behind,
    compatible,
    keep_blocks_inside,
    respect_taken_digits,
)
from dtensor.passes.propagation.choose import Choice, Outcome
from dtensor.passes.propagation.descend import descend
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.pins import Pins
from dtensor.passes.propagation.places import WHOLE, split_place
from dtensor.passes.propagation.problem import Problem
from dtensor.passes.propagation.spread import Spreader
from dtensor.passes.propagation.sweep import extend


def take_detours(problem: Problem, choice: Choice, others: Decided, pins: Pins) -> Choice:
    """Move the axis to other dimensions where that saves more than the start of a collective.

    Args:
        problem: an axis with all its choices made; they are changed.
        choice: how they were made.
        others: what all other axes decided.
        pins: what is fixed.

    Returns:
        The choice with detours, over the one without; or the same.
    """
    offered = _offer(problem, others)
    if not offered:
        return choice
    respect_taken_digits(problem, others, pins)
    keep_blocks_inside(problem, others)
    nodes = problem.graph.nodes
    points = [
        point
        for index, label in offered
        for point in zip(nodes[index].results, label.outs, strict=True)
    ]
    without = Outcome("without detours", problem.total_seconds(), tuple(problem.current))
    problem.current = extend(problem, points)
    descend(problem)
    seconds = problem.total_seconds()
    if seconds >= without.seconds - problem.alpha:
        problem.current = list(without.labels)
        return choice
    name = f"{choice.winner.name}, with detours"
    winner = Outcome(name, seconds, tuple(problem.current))
    taken = tuple(index for index, label in offered if problem.current[index] is label)
    return Choice(winner, (without, *choice.others), choice.classes, taken)


def _offer(problem: Problem, others: Decided) -> list[tuple[int, Label]]:
    """Give each idle node that the axis could not be used at another label; nodes and labels."""
    spreader = Spreader(problem)
    nodes = problem.graph.nodes
    offered: list[tuple[int, Label]] = []
    tried = 0
    while tried < len(problem.refused):  # what is behind a detour may need one too
        refused = list(problem.refused)[tried:]
        tried += len(refused)
        for index, slot in refused:
            if slot < 0 or not problem.current[index].is_idle:
                continue
            label = _detour(problem, others, index, slot)
            if label is None or label in problem.labels[index]:
                continue
            problem.labels[index].append(label)
            problem.reached_from[index, label] = nodes[index].operands[slot]
            offered.append((index, label))
            spreader.reach(nodes[index].results, label.outs)
        spreader.run()
    return offered


def _detour(problem: Problem, others: Decided, index: int, slot: int) -> Label | None:
    """The label that splits another dimension of an operand, the longest that no axis splits."""
    node = problem.graph.nodes[index]
    if node.rule is None:
        return None
    shape = problem.graph.types[node.operands[slot]].shape
    rules = problem.table.of_rule(node.rule)
    taken = others.digits[index]
    used = {factor for factor, _, _ in taken}
    found: list[tuple[bool, int, Label]] = []
    for dim, size in enumerate(shape):
        for label in rules.at(slot, split_place(dim, 1)):
            fits: Label | None = label
            if not compatible(label, taken, problem.atom.size):
                fits = behind(problem, node, label, taken)
            if fits is not None and all(place > WHOLE for place in fits.outs):
                found.append((fits.factor in used, -size, fits))
    return min(found, key=lambda entry: entry[:2], default=(False, 0, None))[2]
