"""The cheapest plan of a problem that is found within limits."""

from __future__ import annotations

from dtensor.passes.planning.descend import descend
from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort, Limits
from dtensor.passes.planning.messages import promising
from dtensor.passes.planning.model import FINE, Model, make_model
from dtensor.passes.planning.polish import bound_seconds, polish
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.windows import improve


def solve_within(problem: Problem, limits: Limits, has_choice: bool) -> float | None:
    """Leave the cheapest plan found in `problem.now`.

    Args:
        problem: with a plan.
        limits: how long to search.
        has_choice: whether another plan may be cheaper.

    Returns:
        Seconds that no plan falls below, if asked for or known.
    """
    is_least = has_choice and solve(problem, limits)
    if limits.polish:
        return polish(problem, limits.polish, limits.sweeps)
    if limits.bound:
        return bound_seconds(problem)
    # The model is exact where every value has one user.
    is_exact = is_least and all(len(v.uses) == 1 for v in problem.values)
    return problem.total() if is_exact else None


def solve(problem: Problem, limits: Limits) -> bool:
    """Leave the cheapest plan found in `problem.now`; whether its model has none cheaper."""
    best, least = list(problem.now), problem.total()
    model = make_model(problem)
    states, is_least = promising(model, limits.passes)
    if not is_least and limits.effort is not None:
        model = make_model(problem, FINE) if model.is_coarse else model
        states, is_least = _eliminate(model, limits.effort)
    model.take(problem, states)
    descend(problem, limits.sweeps)
    if problem.total() >= least:
        problem.now[:] = best
    return is_least


def _eliminate(model: Model, effort: Effort) -> tuple[list[int], bool]:
    """The cheapest states found, and whether none are cheaper."""
    elimination = Elimination(model, effort)
    found = elimination.run()
    if not found.narrowed:
        return found.states, True
    return improve(model, found.states, elimination.regret, effort), False
