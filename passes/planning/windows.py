"""Windows: a part of the variables solved anew, around what the rest of the plan does.

Where elimination had to drop states (`eliminate`), its plan need not be the cheapest. Then a few
dozen variables that share tables, around one whose state costs more than messages promise, are
solved alone with all their states, the others held; as long as this finds something cheaper. That
is large neighbourhood search (Shaw 1998, "Using constraint programming and local search methods to
solve vehicle routing problems") with an exact search of each neighbourhood.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort
from dtensor.passes.planning.model import Model

_PASSES = 4  # rounds of messages in a window
_GAIN = 1e-7  # microseconds; what is found must be cheaper by more


def improve(
    model: Model, states: Sequence[int], regret: Callable[[int, int], float], effort: Effort
) -> list[int]:
    """States of all variables that cost no more than those given.

    Args:
        model: unchanged.
        states: per variable, its state now.
        regret: of a variable and its state, by how much another may be cheaper; the windows begin
            with the largest.
        effort: how many windows, of how many variables.
    """
    now = list(states)
    order = sorted(range(len(now)), key=lambda x: (-regret(x, now[x]), x))
    tried: set[int] = set()
    least: set[tuple[int, ...]] = set()  # centers, and states in and around their windows
    each = replace(effort, passes=_PASSES)
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
            if part.cost(solution.states) < part.cost(part.start) - _GAIN:
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
