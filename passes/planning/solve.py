"""The cheapest plan of a problem that is found within limits, and what no plan falls below.

One or two mesh axes are searched together, where there are not millions of choices, nor tensors of
many dimensions, and so are more in small programs. Otherwise there are too many strategies: each
node has the choice of some alone, and one axis after another, or one pair of them, is laid out anew
while the others stay, until none gains; in small programs from two starts. That is block coordinate
descent (Bertsekas 1999, "Nonlinear Programming", section 2.7). Of four mesh axes and more, those
that annotations name are laid out first, as if there were no others; then the last one, which they
name the least, changes together with each other one.

Where elimination had to drop states (`eliminate`), its plan need not be the cheapest: cheaper ones
near it are looked for (`refine`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, cycle, islice

import numpy as np

from dtensor.passes.planning.descend import descend
from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort, Limits
from dtensor.passes.planning.model import Model, make_model
from dtensor.passes.planning.options import Strategy
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.refine import refine
from dtensor.passes.planning.relax import fixed_cost, relaxed_model
from dtensor.passes.planning.strategies import Moves


def solve_within(problem: Problem, limits: Limits, has_choice: bool) -> float | None:
    """Leave the cheapest plan found in `problem.now`.

    `has_choice` says whether another plan may be cheaper.

    Returns:
        Seconds that no plan falls below, if asked for or known.
    """
    is_least = has_choice and solve(problem, limits)
    if limits.bound and problem.maker.has_left_out:
        _consider_all(problem, limits.proof)
    if problem.maker.has_left_out or problem.maker.lacks_blocks:
        return None  # what was left out may be cheaper
    if limits.polish:
        return polish(problem, limits.polish, limits.sweeps)
    if limits.bound:
        return bound_seconds(problem)
    # The model is exact where every value has one user.
    is_exact = is_least and all(len(v.uses) == 1 for v in problem.values)
    return problem.total() if is_exact else None


def solve(problem: Problem, limits: Limits) -> bool:
    """Leave the cheapest plan found in `problem.now`; whether its model has none cheaper."""
    maker = problem.maker
    axes, named = maker.mesh_axes, maker.named_axes
    if 0 < len(named) < len(axes) and len(axes) > _MANY_AXES:
        problem.let_change((frozenset[int]().union(*named),))
        _solve_over(problem, named, replace(limits, below=math.inf))
        problem.let_change((frozenset[int]().union(*axes),))
    return _solve_over(problem, axes, limits)


def _solve_over(problem: Problem, axes: Moves, limits: Limits) -> bool:
    """As `solve`, where these mesh axes alone may change; the others stay as they are."""
    is_vast = _most_dims(problem) >= _MANY_DIMS and sum(map(len, axes)) >= _MANY_AXES
    if is_vast or len(axes) >= _MANY_AXES:
        return _solve_by_axes(problem, axes, limits, is_vast)
    if _has_few_choices(problem, limits.most):
        if _costs_no_less(problem, limits.below):
            return False
        is_least = _search(problem, limits)
        if not problem.maker.has_left_out:
            return is_least
    return _solve_by_axes(problem, axes, limits, is_vast)


_MANY_AXES = 3  # mesh axes: then many programs have too many strategies
_FEW_SUB_AXES = 2  # sub-axes that change together, where one after another has: three may take long
_MANY_DIMS = 8  # of one tensor: three sub-axes may split it in 700 ways, and it has as many specs
_HOPELESS = 1.5  # times as much as a plan must cost: parts that go apart save a quarter, seldom
_MOST_CHOICES = 800_000  # of two neighbours, summed over all, where some are left out
_SURELY_MANY = 1_200_000  # the same, as an estimate says that is right within a fifth there


def _most_dims(problem: Problem) -> int:
    """How many dimensions a tensor has that somebody may have to move, at most."""
    types = problem.graph.types
    return max([len(types[value.example].shape) for value in problem.values], default=0)


def _solve_by_axes(problem: Problem, axes: Moves, limits: Limits, is_vast: bool) -> bool:
    """As `solve`, with many mesh axes: all of them at once only where that is quick.

    The parts of each of one or two mesh axes are laid out together first, and so are mesh axes that
    annotations only name side by side: one after another they would seldom move from one dimension
    to another, which gains only once all of them have moved. Where tensors have many dimensions
    (`is_vast`), what two sub-axes can do is too much already, and then they change one by one.
    """
    maker = problem.maker
    everything = frozenset[int]().union(*axes)
    has_few = (_most_dims(problem) + 1) ** len(everything) <= limits.specs
    is_small = len(problem.now) <= limits.small
    are_parted = len(axes) < _MANY_AXES and len(axes) < len(everything)
    goes_together = is_vast or len(maker.named_together) == 1 or are_parted
    if goes_together and not _parts_together(problem, axes, limits, is_vast):
        return False
    if not (has_few and is_small and _has_few_choices(problem, limits.choices)):
        maker.keep_few(is_vast)
        maker.has_left_out = True
        problem.let_change((everything,))
    if has_few and is_small and _search(problem, limits) and not maker.has_left_out:
        return True
    apart = axes if len(axes) > 1 and not is_vast else _one_by_one(everything)
    if not is_vast and (limits.pairs or (is_small and not has_few)):
        apart = tuple([one | other for one, other in combinations(apart, 2)])
    last = (everything,) if has_few else apart
    problem.let_change(last)
    ends_together = limits.specs > 0 and not (has_few and _has_many_choices(problem, everything))
    if ends_together and _costs_no_less(problem, limits.below):
        return False
    turns: list[Moves | None] = [(free,) for free in apart]
    if not ends_together:
        turns.append(None)
    if has_few and is_small:
        _from_two_starts(problem, turns, limits)
    else:
        _axes_in_turn(problem, axes if apart is axes else (), turns, limits)
    if apart is axes and len(axes) > _MANY_AXES:
        joined = [axes[-1] | other for other in axes[:-1]]
        turns = [(free,) for free in joined if len(free) <= _FEW_SUB_AXES]
        _in_turn(problem, turns, replace(limits, turns=limits.joined))
    if ends_together:
        _in_turn(problem, [last, None], limits, (everything,))
    else:
        maker.has_left_out = True
    problem.let_change(last if ends_together else apart)
    return False


def _parts_together(problem: Problem, axes: Moves, limits: Limits, is_vast: bool) -> bool:
    """Lay out anew where the sub-axes of each set, of those that may change, all do the same.

    All sets change at once, or one of them where tensors have many dimensions (`is_vast`) or there
    are too many choices.

    Returns:
        Whether a plan may be found from there that costs no more than is asked for.
    """
    maker, everything = problem.maker, frozenset[int]().union(*axes)
    maker.keep_parts_together(True)
    problem.let_change((everything,))
    if is_vast or not _has_few_choices(problem, limits.most):
        groups = [group & everything for group in maker.named_together]
        problem.let_change(tuple(filter(None, groups)))
    _search(problem, limits)
    maker.keep_parts_together(False)
    problem.let_change(axes)
    return problem.total() <= _HOPELESS * limits.below


def _one_by_one(axes: frozenset[int]) -> Moves:
    return tuple([frozenset([axis]) for axis in sorted(axes)])


def _from_two_starts(problem: Problem, turns: Sequence[Moves | None], limits: Limits) -> None:
    """As `_in_turn`, from the present plan and from where the problem starts."""
    begun = list(problem.now)
    _in_turn(problem, turns, limits)
    if begun != problem.start:
        found, least = list(problem.now), problem.total()
        problem.now[:] = problem.start
        _in_turn(problem, turns, limits)
        if problem.total() > least:
            problem.now[:] = found


def _axes_in_turn(
    problem: Problem, axes: Moves, turns: Sequence[Moves | None], limits: Limits
) -> None:
    """As `_in_turn`; where some of these mesh axes are named together, perhaps from another start.

    Each axis is laid out once, and the first again, which was laid out before the others were.
    Where that gains, axes that should go elsewhere together may keep each other back: then it is
    the start, or where those that are named together have gone together, if that is cheaper.
    """
    everything = frozenset[int]().union(*axes)
    together = tuple([g for g in problem.maker.named_together if g <= everything])
    idle = -1
    if 1 < len(together) < len(axes):
        begun, once = list(problem.now), replace(limits, turns=1)
        _in_turn(problem, [(axis,) for axis in axes], once)
        before = problem.total()
        _in_turn(problem, [(axes[0],)], once)
        turns, idle = [*turns[1:], turns[0]], 0
        if problem.total() < before * (1 - _WORTH) and _gains(problem, begun, together, once):
            idle = -1
    _in_turn(problem, turns, limits, idle=idle)


def _gains(problem: Problem, begun: list[Strategy], together: Moves, once: Limits) -> bool:
    """Leave what sets that do the same lead to from a plan, if it is cheaper; whether it is."""
    maker, found, least = problem.maker, list(problem.now), problem.total()
    problem.now[:] = begun
    maker.keep_parts_together(True)
    _in_turn(problem, [(group,) for group in together], once)
    maker.keep_parts_together(False)
    if problem.total() < least:
        return True
    problem.now[:] = found
    return False


def _has_few_choices(problem: Problem, most: float) -> bool:
    """Whether the tables of the problem's model stay small; it makes no more options than that."""
    count = 0
    for value in problem.values:
        here = len(problem.options(value.producer))
        count += here * sum([len(problem.options(node)) for node in {n for n, _ in value.uses}])
        if count > most:
            return False
    return True


def _has_many_choices(problem: Problem, axes: frozenset[int]) -> bool:
    """Whether the tables are large where all axes change, and few strategies of a node are kept.

    About how many choices there are is said without making the strategies, which takes long where
    there are many nodes.
    """
    maker, nodes = problem.maker, problem.graph.nodes
    about = [min(maker.choices(nodes[n]) ** len(axes), maker.most) for n in problem.example]
    users = [sum([about[n] for n in {n for n, _ in v.uses}]) for v in problem.values]
    count = sum([about[v.producer] * n for v, n in zip(problem.values, users, strict=True)])
    return count > _SURELY_MANY or not _has_few_choices(problem, _MOST_CHOICES)


def _consider_all(problem: Problem, most: int) -> None:
    """Let the nodes choose among all of their strategies, if neighbours have no more choices."""
    maker = problem.maker
    maker.keep_all()
    problem.let_change((frozenset[int]().union(*maker.mesh_axes),))
    maker.has_left_out = not _has_few_choices(problem, most)


def _costs_no_less(problem: Problem, seconds: float) -> bool:
    """Whether messages soon prove that no strategies that may be taken cost less."""
    if seconds == math.inf:
        return False
    core = Elimination(make_model(problem), Effort())
    core.reduce()
    least = seconds * problem.scale - fixed_cost(problem)
    if not core.left:
        return core.done >= least
    messages = core.messages(least)
    messages.run(core.effort.passes, 0.0)
    return messages.bound >= messages.upper


def _in_turn(
    problem: Problem,
    turns: Sequence[Moves | None],
    limits: Limits,
    every: Moves = (),
    idle: int = -1,
) -> None:
    """Let one after another of what may change do so, the rest held, until none gains.

    Nothing does after a plan that is proved to be the cheapest where `every` sub-axis may change.

    Where that is None each node may lose any of its sub-axes, all nodes at once: no single sub-axis
    says that values are best gathered at once, and all that follows computed whole.

    `idle` turns in a row have gained nothing, since one did; -1 where none was taken yet.
    """
    for moves in islice(cycle(turns), limits.turns * len(turns)):
        before = problem.total()
        problem.let_change(moves)
        if _search(problem, limits) and moves == every:
            break
        idle = 0 if problem.total() < before * (1 - _WORTH) else idle + 1
        if idle == len(turns) - 1:
            break


def _search(problem: Problem, limits: Limits) -> bool:
    """Leave the cheapest plan found among the strategies that may be taken; whether it is that."""
    model = make_model(problem)
    states, is_least = _eliminate(model, limits.effort)
    _try(problem, model, states, limits.sweeps)
    return is_least and not model.is_coarse


def _eliminate(model: Model, effort: Effort) -> tuple[list[int], bool]:
    """The cheapest states found, and whether none are cheaper."""
    elimination = Elimination(model, effort)
    found = elimination.run()
    if not found.narrowed:
        return found.states, True
    return refine(model, found.states, elimination.regret, effort), False


_GAIN = 1e-6  # relative to the plan; less is rounding
_WORTH = 5e-3  # the same of one set of sub-axes: searching the others again takes long


def bound_seconds(problem: Problem) -> float:
    """Seconds that no plan falls below in which equal layers are laid out alike."""
    model, fixed = relaxed_model(problem), fixed_cost(problem)
    found = lower_bound(model, problem.total() * problem.scale - fixed)
    return (found.cost + fixed) / problem.scale


def improve_by_messages(problem: Problem, rounds: int, sweeps: int) -> None:
    """Leave the cheapest plan that messages lead to in `problem.now`.

    Each round is over elimination's model, around the plan of the one before, and is followed by
    sweeps of single changes.
    """
    for _ in range(rounds):
        model = make_model(problem)
        upper = model.cost(model.start)
        found = lower_bound(model, upper)
        if found.cost >= upper * (1 - _GAIN) or not _try(problem, model, found.states, sweeps):
            break


def polish(problem: Problem, rounds: int, sweeps: int) -> float:
    """As `improve_by_messages`, then what the bound's messages lead to; the bound, in seconds."""
    improve_by_messages(problem, rounds, sweeps)
    model, fixed = relaxed_model(problem), fixed_cost(problem)
    found = lower_bound(model, problem.total() * problem.scale - fixed)
    bound = (found.cost + fixed) / problem.scale
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


MAX_TABLE = 1_000_000  # entries that minimising a variable away may visit
MESSAGE_ROUNDS = 200  # rounds of messages
_ENOUGH = 1e-6  # relative; an assignment that is so near the bound is a cheapest one


@dataclass(frozen=True)
class Bound:
    """What no assignment of states falls below.

    Attributes:
        cost: as those of the model.
        states: per variable, its state in the cheapest assignment met on the way.
        passes: rounds of messages it took; 0 if everything was minimised away.
        left: variables that were not.
    """

    cost: float
    states: list[int]
    passes: int
    left: int


def lower_bound(
    model: Model, upper: float = np.inf, passes: int = MESSAGE_ROUNDS, max_table: int = MAX_TABLE
) -> Bound:
    """A cost that no assignment of states of a model falls below.

    Args:
        model: unchanged.
        upper: what is known to be possible; a bound above it is not looked for.
        passes: rounds of messages at most; more make it tighter.
        max_table: entries that minimising one variable away may visit.
    """
    core = Elimination(model, Effort(table=max_table))
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
