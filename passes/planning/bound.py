"""A lower bound of what plans cost, and the cheapest assignment that is met while it is found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort
from dtensor.passes.planning.model import Model

MAX_TABLE = 1_000_000  # entries that minimising a variable away may visit
PASSES = 200  # rounds of messages
_ENOUGH = 1e-6  # relative; an assignment that is so near the bound is a cheapest one


@dataclass(frozen=True)
class Bound:
    """What no assignment of states falls below.

    Attributes:
        cost: microseconds.
        states: per variable, its state in the cheapest assignment met on the way.
        passes: rounds of messages it took; 0 if everything was minimised away.
        left: variables that were not.
    """

    cost: float
    states: list[int]
    passes: int
    left: int


def lower_bound(
    model: Model, upper: float = np.inf, passes: int = PASSES, max_table: int = MAX_TABLE
) -> Bound:
    """A cost that no assignment of states of a model falls below.

    Args:
        model: unchanged.
        upper: what is known to be possible; a bound above it is not looked for.
        passes: rounds of messages at most; more make it tighter.
        max_table: entries that minimising one variable away may visit.
    """
    core = Elimination(model, Effort(max_table, passes))
    core.reduce()
    if not core.left:
        return Bound(core.done, core.back({}), 0, 0)
    messages = core.messages(upper)
    count = messages.run(passes, _ENOUGH, looks=True)
    left, least = len(core.left), core.done + messages.least
    states = core.back({x: int(core.alive[x][s]) for x, s in messages.states.items()})
    bound = core.done + messages.bound
    if core.restrict(messages) and core.finish():  # all states that are worth it have been tried
        bound = max(bound, min(core.done, least, upper))
        states = core.back({}) if core.done < least else states
    return Bound(bound, states, count, left)
