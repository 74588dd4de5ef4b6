"""A plan's lower bound, and better plans that are met while it is found."""

from __future__ import annotations

from dtensor.passes.planning.bound import lower_bound
from dtensor.passes.planning.descend import descend
from dtensor.passes.planning.model import FINE, Model, make_model
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.relax import fixed_cost, relaxed_model

_GAIN = 1e-6  # relative to the plan; a round that gains less is the last


def bound_seconds(problem: Problem) -> float:
    """Seconds that no plan falls below in which equal layers are laid out alike."""
    fixed = fixed_cost(problem)
    return (lower_bound(relaxed_model(problem), problem.total() * 1e6 - fixed).cost + fixed) * 1e-6


def improve(problem: Problem, rounds: int, sweeps: int) -> None:
    """Leave the cheapest plan that messages lead to in `problem.now`.

    Args:
        problem: with a plan.
        rounds: of messages over elimination's model, each around the plan of the one before.
        sweeps: rounds of single changes after each.
    """
    for _ in range(rounds):
        model = make_model(problem, FINE)
        upper = model.cost(model.start)
        found = lower_bound(model, upper)
        if found.cost >= upper * (1 - _GAIN) or not _try(problem, model, found.states, sweeps):
            break


def polish(problem: Problem, rounds: int, sweeps: int) -> float:
    """As `improve`, and then what the bound's own messages lead to; the bound, in seconds."""
    improve(problem, rounds, sweeps)
    model, fixed = relaxed_model(problem), fixed_cost(problem)
    found = lower_bound(model, problem.total() * 1e6 - fixed)
    bound = (found.cost + fixed) * 1e-6
    if problem.total() > bound * (1 + _GAIN):
        _try(problem, model, found.states, sweeps)
    return bound


def _try(problem: Problem, model: Model, states: list[int], sweeps: int) -> bool:
    """Take the states of a model's variables, and what descends from there, if that is cheaper."""
    best, least = list(problem.now), problem.total()
    model.take(problem, states)
    descend(problem, sweeps)
    if problem.total() < least * (1 - _GAIN):
        return True
    problem.now[:] = best
    return False
