"""The first choice: one axis after the other, priority by priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef
from dtensor.passes.propagation.axis import make_problem, nothing_decided
from dtensor.passes.propagation.barriers import Settled, settled_labels
from dtensor.passes.propagation.choose import Choice, choose
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.pins import atoms_of, seed_bytes
from dtensor.passes.propagation.problem import Problem, measure
from dtensor.passes.propagation.rounds import LAST, Round, keep, priorities_of
from dtensor.passes.propagation.task import Task


@dataclass(frozen=True)
class Turns:
    """What was chosen, one axis after the other.

    Attributes:
        choices: per sub-axis its problem, and what was chosen, after the last round.
        kept: per sub-axis and node, the labels that rounds before the last decided.
        order: the priorities that what is given has, ascending.
    """

    choices: list[tuple[Problem, Choice]]
    kept: list[dict[int, Label]]
    order: list[int]


def in_turn(task: Task, cuts: dict[str, set[int]], settled: Settled) -> Turns:
    """Choose for every axis in turn, once for each priority.

    Args:
        task: what is to be planned.
        cuts: where axes are cut into parts; extended, so that later stages cut them there too.
        settled: what earlier stages planned, which stays as it is.

    Raises:
        ValueError: written parts of one axis have no common refinement.
    """
    graph, sizes = task.graph, measure(task.graph, task.cost)
    order = priorities_of(task.pins)

    def one_round(
        axes: Sequence[AxisRef], priority: int, kept: list[dict[int, Label]]
    ) -> list[tuple[Problem, Choice]] | None:
        """The choice of each axis; None if an axis has to be cut first."""
        decided = nothing_decided(graph)
        choices: list[tuple[Problem, Choice]] = []
        for i, axis in enumerate(axes):
            later = [other.size for other in axes[i + 1 :]]
            others = list(zip(axes, kept, strict=True))[i + 1 :]
            now = Round(priority, kept[i], others)
            problem = make_problem(task, axis, decided, sizes, later, now)
            if _add_cuts(problem, cuts):
                return None
            choice = choose(problem, follow=priority < LAST)
            choices.append((problem, choice))
            decided.add(graph, axis, choice.winner.labels)
        return choices

    def all_rounds() -> Turns | None:
        axes = _axes(task, cuts)
        kept = [settled_labels(graph, settled, axis) for axis in axes]
        for priority in order[:-1]:
            choices = one_round(axes, priority, kept)
            if choices is None:
                return None
            for mine, (_, choice) in zip(kept, choices, strict=True):
                keep(mine, choice.winner.labels)
        choices = one_round(axes, LAST, kept)
        return None if choices is None else Turns(choices, kept, order)

    while (turns := all_rounds()) is None:
        pass
    return turns


def _axes(task: Task, cuts: dict[str, set[int]]) -> list[AxisRef]:
    """The sub-axes, first those whose seeds take longest to send."""

    def key(axis: AxisRef) -> tuple[float, int, int]:
        rate = task.cost.axis_link(axis.name).bytes_per_second
        order = task.mesh.axis_names.index(axis.name)
        return -seed_bytes(task.graph, task.pins, axis) / rate, order, axis.pre

    return sorted(atoms_of(task.pins, task.mesh, cuts), key=key)


def _add_cuts(problem: Problem, cuts: dict[str, set[int]]) -> bool:
    """Cut the axis where one of its digits straddles two dimensions of a reshape."""
    atom = problem.atom
    grown = False
    for rule_labels in problem.table.rules():
        for edges in rule_labels.cuts.values():
            for edge in edges:
                have = cuts.setdefault(atom.name, set())
                cut = atom.pre * edge
                if cut not in have and all(cut % c == 0 or c % cut == 0 for c in have if c):
                    have.add(cut)
                    grown = True
    return grown
