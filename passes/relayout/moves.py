"""The moves of the relayout search: what can be done from a state, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from dtensor.passes.cost import model
from dtensor.passes.ops.rounds import elements_sent
from dtensor.passes.relayout.matchings import Matched, matchings
from dtensor.passes.relayout.permutations import permutations, temporary_places
from dtensor.passes.relayout.problem import NOWHERE, PARTIAL, RelayoutProblem, State


class Move(NamedTuple):
    """A move of some sub-axes; `kind` names the step it becomes.

    `others` are the targets of a permute, `matched` says what a match exchanges.
    """

    kind: str
    sub_axes: tuple[int, ...]
    result: State
    wire_bytes: float
    seconds: float
    others: tuple[int, ...] = ()
    matched: Matched | None = None


def moves(problem: RelayoutProblem, state: State) -> Iterator[Move]:
    """Every move worth trying from a state in which nothing more can be sliced for free."""
    occupied = problem.occupied(state)
    yield from _reductions(problem, state, occupied)
    for sub_axes, result in temporary_places(problem, state, occupied, PARTIAL):
        yield from _reduce_scatter(problem, state, sub_axes, result)
    movable = _movable(problem, state, occupied)
    yield from _all_to_alls(problem, state, movable)
    yield from _gathers(problem, state, movable)
    size = problem.local_bytes(state)
    for sources, targets, result in permutations(problem, state):
        move = _sent(problem, "permute", sources, result, model.permute_bytes(size))
        yield move._replace(others=targets)
    for found in matchings(problem, state):
        (_, rounds), part = elements_sent(found.rounds), size / found.pieces
        seconds = rounds * problem.cost.seconds(part, problem.axes(found.moving))
        result = _with(state, found.moving, problem.goal)
        yield Move("match", found.moving, result, rounds * part, seconds, matched=found)
    for sub_axes, result in temporary_places(problem, state, occupied, NOWHERE):
        yield Move("slice", sub_axes, result, 0.0, 0.0)


def settle(problem: RelayoutProblem, state: State) -> tuple[State, list[Move]]:
    """Do what costs nothing: slice sub-axes into free places they are wanted in, and mask.

    A slice makes all that follows cheaper and never takes a place that another is wanted in.
    """
    goal = problem.goal
    if NOWHERE not in state:
        return state, []
    occupied = problem.occupied(state)
    sliced: list[int] = []
    masked: dict[str, list[int]] = {}
    for sub_axis, place in enumerate(state):
        target = goal[sub_axis]
        if place != NOWHERE or target == NOWHERE:
            continue
        if target == PARTIAL:
            masked.setdefault(problem.kinds[sub_axis], []).append(sub_axis)
        elif not problem.conflicts[target] & occupied:
            occupied |= 1 << target
            sliced.append(sub_axis)
    done = []
    for run in problem.neighbours(sliced, goal):
        state = _with(state, run, goal)
        done.append(Move("slice", run, state, 0.0, 0.0))
    for kind in sorted(masked):
        if _is_combined_otherwise(problem, state, kind):
            continue
        state = _with(state, masked[kind], goal)
        done.append(Move("mask", tuple(masked[kind]), state, 0.0, 0.0))
    return state, done


def _is_combined_otherwise(problem: RelayoutProblem, state: State, kind: str) -> bool:
    """Whether parts are still to be combined by another reduction than this one.

    That would combine the identities of this one, too: of those of a product a sum makes two.
    """
    return any(
        place == PARTIAL and target != PARTIAL and other != kind
        for place, target, other in zip(state, problem.goal, problem.kinds, strict=True)
    )


def _with(state: State, sub_axes: Iterable[int], new: State) -> State:
    places = list(state)
    for sub_axis in sub_axes:
        places[sub_axis] = new[sub_axis]
    return tuple(places)


def without(state: State, sub_axes: Iterable[int]) -> State:
    """A state in which some sub-axes are nowhere."""
    return _with(state, sub_axes, (NOWHERE,) * len(state))


def _sent(
    problem: RelayoutProblem, kind: str, sub_axes: tuple[int, ...], result: State, wire: float
) -> Move:
    """A move that sends so many bytes over the axes of its sub-axes."""
    return Move(kind, sub_axes, result, wire, problem.cost.seconds(wire, problem.axes(sub_axes)))


def _reductions(problem: RelayoutProblem, state: State, occupied: int) -> Iterator[Move]:
    goal = problem.goal
    parts = [a for a, p in enumerate(state) if p == PARTIAL and goal[a] != PARTIAL]
    if not parts:
        return
    size = problem.local_bytes(state)
    for sub_axes in _groups_to_reduce(problem, parts):
        wire = model.all_reduce_bytes(size, problem.split(sub_axes))
        yield _sent(problem, "reduce", sub_axes, without(state, sub_axes), wire)
    free = [a for a in parts if goal[a] >= 0 and not problem.conflicts[goal[a]] & occupied]
    for run in problem.neighbours(free, goal):
        for sub_axes in _pieces(run):
            yield from _reduce_scatter(problem, state, sub_axes, _with(state, sub_axes, goal))


def _reduce_scatter(
    problem: RelayoutProblem, state: State, sub_axes: tuple[int, ...], result: State
) -> Iterator[Move]:
    """One reduce_scatter of sub-axes of one reduction; nothing where there are several."""
    if len({problem.kinds[a] for a in sub_axes}) == 1:
        wire = model.reduce_scatter_bytes(problem.local_bytes(state), problem.split(sub_axes))
        yield _sent(problem, "reduce_scatter", sub_axes, result, wire)


def _groups_to_reduce(problem: RelayoutProblem, parts: list[int]) -> list[tuple[int, ...]]:
    """Sub-axes of one kind all at once, those that end nowhere at once, and each alone."""
    groups = []
    for kind in sorted({problem.kinds[a] for a in parts}):
        alike = [a for a in parts if problem.kinds[a] == kind]
        nowhere = [a for a in alike if problem.goal[a] == NOWHERE]
        groups += [tuple(alike), tuple(nowhere), *((a,) for a in alike)]
    return [g for g in dict.fromkeys(groups) if g]


def _pieces(run: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every stretch of neighbours in a run, longest first."""
    count = len(run)
    return [run[i : i + n] for n in range(count, 0, -1) for i in range(count - n + 1)]


def _movable(problem: RelayoutProblem, state: State, occupied: int) -> list[int]:
    """Sub-axes that can go straight from their place to the one they are wanted in."""
    goal = problem.goal
    return [
        sub_axis
        for sub_axis, place in enumerate(state)
        if place >= 0
        and goal[sub_axis] >= 0
        and goal[sub_axis] != place
        and not problem.conflicts[goal[sub_axis]] & occupied
    ]


def _all_to_alls(problem: RelayoutProblem, state: State, movable: list[int]) -> Iterator[Move]:
    if not movable:
        return
    size = problem.local_bytes(state)
    for sub_axes in _subsets(movable):
        wire = model.all_to_all_bytes(size, problem.split(sub_axes))
        yield _sent(problem, "all_to_all", sub_axes, _with(state, sub_axes, problem.goal), wire)


def _subsets(sub_axes: list[int]) -> list[tuple[int, ...]]:
    """All subsets of a few sub-axes; of many, all of them together and each alone."""
    if len(sub_axes) > 3:
        return [tuple(sub_axes), *((a,) for a in sub_axes)]
    return [s for n in range(len(sub_axes), 0, -1) for s in combinations(sub_axes, n)]


def _gathers(problem: RelayoutProblem, state: State, movable: list[int]) -> Iterator[Move]:
    """Gathers of neighbouring sub-axes, unless all can move by all_to_all, which is less."""
    goal = problem.goal
    size = problem.local_bytes(state)
    for run in problem.runs(state):
        for sub_axes in _pieces(run):
            if any(state[a] == goal[a] for a in sub_axes) or all(a in movable for a in sub_axes):
                continue
            if all(goal[a] == PARTIAL for a in sub_axes):
                kinds = {problem.kinds[a] for a in sub_axes}
                if len(kinds) == 1 and not _is_combined_otherwise(problem, state, *kinds):
                    yield Move("spread", sub_axes, _with(state, sub_axes, goal), 0.0, 0.0)
                continue
            parts = problem.split(sub_axes)
            wire = model.all_gather_bytes(size * parts, parts)
            yield _sent(problem, "gather", sub_axes, without(state, sub_axes), wire)
