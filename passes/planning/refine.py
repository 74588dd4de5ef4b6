"""Cheaper plans near one, where elimination had to drop states.

Two neighbourhoods of a plan are searched exactly, in turns, as long as something cheaper is found:

- windows: a few dozen variables that share tables, around one whose state costs more than messages
  promise, with all their states, the others held. That is large neighbourhood search (Shaw 1998,
  "Using constraint programming and local search methods to solve vehicle routing problems").
- all variables among a few states of each: the plan's, those that cost least while the others stay,
  and what answers these best. That is a fusion of proposals (Lempitsky et al. 2010, "Fusion moves
  for Markov random field optimization", IEEE PAMI 32(8)); it changes what no window holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort
from dtensor.passes.planning.model import Costs, Model

_PASSES = 4  # rounds of messages in a window
_PASSES_OF_ALL = 8  # among a few states
_FEW_STATES = 3  # states of a variable that cost least while the others stay
_CHEAPER = 1e-7  # of a model's costs; what is found must be cheaper by more
_GAIN = 1e-6  # of the cost; a round among a few states that gains less is the last

Regret = Callable[[int, int], float]


def refine(model: Model, states: Sequence[int], regret: Regret, effort: Effort) -> list[int]:
    """States of all variables that cost no more than those given.

    Args:
        model: unchanged.
        states: per variable, its state now.
        regret: of a variable and its state, by how much another may be cheaper; the windows begin
            with the largest.
        effort: how many windows, of how many variables, and how often all are solved anew.
    """
    now = improve(model, states, regret, effort)
    for _ in range(effort.rounds):
        found = _among_few(model, now, replace(effort, passes=_PASSES_OF_ALL, more=0))
        if model.cost(found) >= model.cost(now) * (1 - _GAIN):
            break
        now = improve(model, found, regret, effort)
    return now


def _among_few(model: Model, states: Sequence[int], effort: Effort) -> list[int]:
    """The cheapest states of all variables among a few of each."""
    kept = _few(model, states)
    part = Model()
    for unary, few, state in zip(model.unary, kept, states, strict=True):
        part.variable(unary[few], int(np.searchsorted(few, state)))
    for (x, y), table in model.tables.items():
        part.add(x, y, table[np.ix_(kept[x], kept[y])])
    found = Elimination(part, effort).run().states
    return [int(few[state]) for few, state in zip(kept, found, strict=True)]


def _few(model: Model, states: Sequence[int]) -> list[NDArray[np.intp]]:
    """Per variable, the states near a plan."""
    beside: list[Costs] = []  # what each state costs while the others stay
    for x, unary in enumerate(model.unary):
        beside.append(sum([model.table(x, y)[:, states[y]] for y in model.near[x]], start=unary))
    best = [
        sorted({state, *np.argsort(costs, kind="stable")[:_FEW_STATES].tolist()})
        for costs, state in zip(beside, states, strict=True)
    ]
    found = [set(each) for each in best]
    for (x, y), table in model.tables.items():
        of_y = table[best[x]] + (beside[y] - table[states[x]])
        of_x = table[:, best[y]] + (beside[x] - table[:, states[y]])[:, None]
        found[y].update(of_y.argmin(1).tolist())
        found[x].update(of_x.argmin(0).tolist())
    return [np.array(sorted(each)) for each in found]


def improve(model: Model, states: Sequence[int], regret: Regret, effort: Effort) -> list[int]:
    """As `refine`, by windows alone."""
    now = list(states)
    order = sorted(range(len(now)), key=lambda x: (-regret(x, now[x]), x))
    tried: set[int] = set()
    least: set[tuple[int, ...]] = set()  # centers, and states in and around their windows
    each = replace(effort, passes=_PASSES, more=0)
    for _ in range(effort.windows):
        center = next((x for x in order if x not in tried), None)
        if center is None:
            break
        window = _around(model, center, effort.window)
        seen = dict.fromkeys([*window, *(y for x in window for y in model.near[x])])
        key = center, *(now[x] for x in seen)
        if key not in least:
            part = _part(model, now, window)
            solution = Elimination(part, each).run()
            if part.cost(solution.states) < part.cost(part.start) - _CHEAPER:
                for x, state in zip(window, solution.states, strict=True):
                    now[x] = state
                tried.clear()
            else:
                least.add(key)
        tried |= {center, *model.near[center]}
    return now


def _around(model: Model, center: int, size: int) -> list[int]:
    """The variables nearest to one, in program order."""
    found = {center: None}
    for x in (queue := [center]):
        for y in model.near[x]:
            if y not in found and len(found) < size:
                found[y] = None
                queue.append(y)
    return sorted(found)


def _part(model: Model, states: Sequence[int], window: Sequence[int]) -> Model:
    """A model of some variables; what the others hold costs is added to theirs."""
    part = Model()
    number = {x: part.variable(model.unary[x], states[x]) for x in window}
    for x, mine in number.items():
        for y in model.near[x]:
            table = model.table(x, y)
            if y not in number:
                part.unary[mine] = part.unary[mine] + table[:, states[y]]
            elif x < y:
                part.add(mine, number[y], table)
    return part
