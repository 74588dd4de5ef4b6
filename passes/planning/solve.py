"""The cheapest plan of a problem that is found within limits."""

from __future__ import annotations

from dtensor.passes.planning.descend import descend
from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort, Limits
from dtensor.passes.planning.messages import proven
from dtensor.passes.planning.model import FINE, Model, make_model
from dtensor.passes.planning.polish import bound_seconds, polish
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.windows import improve

_GAIN = 1e-3  # of the plan's cost; another round must have gained more to be followed by a third


def solve_within(problem: Problem, limits: Limits, has_choice: bool) -> float | None:
    """Leave the cheapest plan found in `problem.now`.

    Args:
        problem: with a plan.
        limits: how long to search.
        has_choice: whether another plan may be cheaper.

    Returns:
        Seconds that no plan falls below, if asked for or known.
    """
    held = 0
    if has_choice and limits.rounds:
        held = solve(problem, limits)
    elif has_choice:
        held = descend(problem, limits.sweeps) + 1
    if limits.polish:
        return polish(problem, limits.polish, limits.sweeps)
    if limits.bound:
        return bound_seconds(problem)
    # Elimination's model is exact where every value has one user.
    is_exact = has_choice and not held and all(len(v.uses) == 1 for v in problem.values)
    return problem.total() if is_exact else None


def solve(problem: Problem, limits: Limits) -> int:
    """Leave the cheapest plan found in `problem.now`; how many variables were narrowed."""
    best, least = list(problem.now), problem.total()
    narrowed = 0
    for _ in range(limits.rounds):
        model = make_model(problem)
        states = proven(model)
        if states is None:
            model = make_model(problem, FINE)
            states, narrowed = _eliminate(model, limits.effort)
        model.take(problem, states)
        descend(problem, limits.sweeps)
        found = problem.total()
        gain = least - found
        if gain > 0.0:
            best, least = list(problem.now), found
        problem.now[:] = best
        if not narrowed or gain < _GAIN * least:
            break
    return narrowed


def _eliminate(model: Model, effort: Effort) -> tuple[list[int], int]:
    """The cheapest states found, and how many variables were narrowed."""
    elimination = Elimination(model, effort)
    found = elimination.run()
    if not found.narrowed:
        return found.states, 0
    return improve(model, found.states, elimination.regret, effort), found.narrowed
