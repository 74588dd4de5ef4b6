"""Whole shards that change places: moves in which axes trade the digits they fix.

If two axes of 2 devices stand in one another's places, each device needs just what another has: a
collective_permute moves one shard, where gathering would move the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtensor.passes.relayout.problem import NOWHERE, RelayoutProblem, State

Permutation = tuple[tuple[int, ...], tuple[int, ...], State]


def permutations(problem: RelayoutProblem, state: State) -> Iterator[Permutation]:
    """Permutes worth trying: sub-axes before and after, in one order of digits; the result."""
    for found in (_by_place(problem, state), _by_run(problem, state)):
        if found is not None:
            yield found


def _by_place(problem: RelayoutProblem, state: State) -> Permutation | None:
    """Each sub-axis takes the place it is wanted in from one of equal size that stands there."""
    holder = {place: sub_axis for sub_axis, place in enumerate(state) if place >= 0}
    owner = {}
    for sub_axis, place in enumerate(state):
        target = problem.goal[sub_axis]
        if target in holder and target != place and (place >= 0 or place == NOWHERE):
            owner[target] = sub_axis
    if not owner:
        return None
    places = list(state)
    for place, sub_axis in owner.items():
        places[sub_axis] = place
    taking = set(owner.values())
    for place in owner:
        displaced = holder[place]
        if displaced not in taking:
            places[displaced] = _vacated(state, owner, place)
    result = tuple(places)
    changed = _changed(problem, state, result)
    return (
        tuple(holder[place] for place in changed),
        tuple({p: a for a, p in enumerate(result)}[place] for place in changed),
        result,
    )


def _vacated(state: State, owner: dict[int, int], place: int) -> int:
    """The place that falls vacant when the chain of sub-axes that ends at `place` moves up."""
    while place in owner:
        place = state[owner[place]]
    return place


def _changed(problem: RelayoutProblem, state: State, result: State) -> list[int]:
    """Places whose sub-axis differs, in order of position."""
    before = {place: sub_axis for sub_axis, place in enumerate(state) if place >= 0}
    after = {place: sub_axis for sub_axis, place in enumerate(result) if place >= 0}
    places = [place for place in before if before[place] != after.get(place)]
    return sorted(places, key=problem.position)


def _by_run(problem: RelayoutProblem, state: State) -> Permutation | None:
    """Neighbouring sub-axes change to the sub-axes wanted there, whatever the single sizes.

    Where a run holds more than is wanted, the wanted sub-axes come first and the others follow.
    """
    sources: list[int] = []
    targets: list[int] = []
    starts: list[tuple[int, int]] = []
    for run in problem.runs(state):
        start = problem.position(state[run[0]])
        wanted = _wanted(problem, run, problem.goal_runs.get(start, ()))
        if wanted and wanted != run:
            sources += run
            targets += wanted
            starts += [start] * len(run)
    arriving = [a for a in targets if a not in sources]
    if not sources or any(state[a] != NOWHERE for a in arriving):
        return None
    if len(set(targets)) != len(targets):  # one follows in its old run and is wanted in another
        return None
    places = list(state)
    for sub_axis in sources:
        places[sub_axis] = NOWHERE
    if not _put(problem, places, targets, sources, starts):
        return None
    return tuple(sources), tuple(targets), tuple(places)


def _put(
    problem: RelayoutProblem,
    places: list[int],
    targets: list[int],
    sources: list[int],
    starts: list[tuple[int, int]],
) -> bool:
    """Place the target sub-axes one after the other, run by run; False where one does not fit."""
    index = 0
    for start in dict.fromkeys(starts):
        end = problem.split([s for s, at in zip(sources, starts, strict=True) if at == start])
        dim, outer = start
        done = 1
        while done < end:
            sub_axis = targets[index]
            places[sub_axis] = problem.digit(dim, outer * done, problem.sizes[sub_axis])
            if places[sub_axis] == NOWHERE:
                return False
            done *= problem.sizes[sub_axis]
            index += 1
    return True


def _wanted(
    problem: RelayoutProblem, run: tuple[int, ...], goal: tuple[int, ...]
) -> tuple[int, ...]:
    have, want = problem.split(run), problem.split(goal)
    if not goal or have == want:
        return goal
    if have % want == 0 and set(goal) <= set(run):
        return (*goal, *(a for a in run if a not in goal))
    return ()


def temporary_places(
    problem: RelayoutProblem, state: State, occupied: int, absent: int
) -> Iterator[tuple[tuple[int, ...], State]]:
    """Places that sub-axes can take for a while, so that a permute moves smaller shards.

    Digits that are taken are bits of `occupied`. The sub-axes to place are `absent`: those that are
    `NOWHERE`, or those that are `PARTIAL`.
    """
    for sub_axis, place in enumerate(state):
        if place == absent and problem.goal[sub_axis] >= 0:
            vacant = _end_of_chain(problem, state, sub_axis)
            if vacant >= 0 and not problem.conflicts[vacant] & occupied:
                places = list(state)
                places[sub_axis] = vacant
                yield (sub_axis,), tuple(places)
    for run in problem.runs(state):
        filled = _filled(problem, state, run, occupied, absent)
        if filled is not None:
            yield filled


def _end_of_chain(problem: RelayoutProblem, state: State, sub_axis: int) -> int:
    """The vacant place at the end of: the place wanted, its holder's wanted place, and so on."""
    holder = {place: a for a, place in enumerate(state) if place >= 0}
    place = problem.goal[sub_axis]
    for _ in state:
        if place not in holder:
            break
        place = problem.goal[holder[place]]
    wanted = place >= 0 and place not in holder and place != problem.goal[sub_axis]
    return place if wanted and problem.digit_sizes[place] == problem.sizes[sub_axis] else NOWHERE


def _filled(
    problem: RelayoutProblem, state: State, run: tuple[int, ...], occupied: int, absent: int
) -> tuple[tuple[int, ...], State] | None:
    """Sub-axes missing from the run that is wanted here, placed behind the ones that are here."""
    dim, outer = problem.position(state[run[0]])
    goal = problem.goal_runs.get((dim, outer), ())
    missing = tuple(a for a in goal if state[a] == absent)
    have = problem.split(run)
    if not missing or have * problem.split(missing) != problem.split(goal):
        return None
    if not set(run) <= set(goal):
        return None
    places = list(state)
    outer *= have
    for sub_axis in missing:
        places[sub_axis] = problem.digit(dim, outer, problem.sizes[sub_axis])
        if places[sub_axis] == NOWHERE or problem.conflicts[places[sub_axis]] & occupied:
            return None
        outer *= problem.sizes[sub_axis]
    return missing, tuple(places)
