"""Steps 3 to 7 on one mesh axis: candidates, their costs, and the cheapest."""

from __future__ import annotations

from dataclasses import dataclass

from dtensor.passes.propagation.descend import descend
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.problem import Problem
from dtensor.passes.propagation.seeds import SeedClass, seed_classes, seed_orders
from dtensor.passes.propagation.sweep import sweep

MAX_CANDIDATES = 6


@dataclass(frozen=True)
class Outcome:
    """One candidate after descent.

    Attributes:
        name: how the seeds spread: `all together`, `group 0 first`, ...
        seconds: planned seconds of the program, as far as this axis goes.
        labels: the label of every node.
    """

    name: str
    seconds: float
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Choice:
    """What was chosen on one axis, and what it was chosen over.

    Attributes:
        winner: the cheapest.
        others: the other candidates.
        classes: the classes of seeds.
    """

    winner: Outcome
    others: tuple[Outcome, ...]
    classes: tuple[SeedClass, ...]

    @property
    def runner_up(self) -> Outcome | None:
        """The cheapest of the others; None if there was no choice."""
        return min(self.others, key=lambda o: o.seconds, default=None)


def choose(problem: Problem, follow: bool = False) -> Choice:
    """Leave the cheapest assignment in `problem.current`; least seconds, then candidate order.

    Args:
        problem: the axis.
        follow: whether no node that the seeds reach may leave the axis idle, cheap as that may be.
    """
    classes = seed_classes(problem)
    outcomes = []
    for name, groups in seed_orders(classes, MAX_CANDIDATES):
        problem.current = sweep(problem, groups)
        labels = problem.labels
        if follow:
            problem.labels = list(map(_busy, labels, problem.current))
        descend(problem)
        problem.labels = labels
        outcomes.append(Outcome(name, problem.total_seconds(), tuple(problem.current)))
    best = min(range(len(outcomes)), key=lambda i: (outcomes[i].seconds, i))
    problem.current = list(outcomes[best].labels)
    others = tuple(o for i, o in enumerate(outcomes) if i != best)
    return Choice(outcomes[best], others, tuple(classes))


def _busy(labels: list[Label], taken: Label) -> list[Label]:
    """The labels of a node, without the idle one if it has taken another."""
    return labels if taken.is_idle else [label for label in labels if not label.is_idle]


def largest_differences(problem: Problem, choice: Choice, most: int) -> list[tuple[int, float]]:
    """The values that decide between the winner and the runner-up.

    Returns:
        Up to `most` pairs of a value and the seconds by which the runner-up moves it longer,
        negative where the winner does; the largest first.
    """
    runner_up = choice.runner_up
    if runner_up is None:
        return []
    kept = problem.current
    seconds = []
    for outcome in (choice.winner, runner_up):
        problem.current = list(outcome.labels)
        seconds.append([problem.value_seconds(v) for v in range(len(problem.graph.values))])
    problem.current = kept
    differences = [(v, b - a) for v, (a, b) in enumerate(zip(*seconds, strict=True)) if a != b]
    differences.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
    return differences[:most]
