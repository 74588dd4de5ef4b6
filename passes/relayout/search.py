"""The search for the cheapest chain of steps from one layout to another.

Dijkstra's algorithm over layouts, complete and partial, of the sub-axes that move. Only places that
the two layouts name are visited, and a few that shorten a permute, so that the number of layouts
stays small; the search is bounded all the same, and then takes the plain route that gathers only
what differs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache

from dtensor.dialect.layout import Layout
from dtensor.passes.cost.model import CostModel, all_gather_bytes, all_reduce_bytes
from dtensor.passes.propagation.places import place_of
from dtensor.passes.relayout.emit import emit
from dtensor.passes.relayout.moves import Move, moves, settle, without
from dtensor.passes.relayout.problem import PARTIAL, RelayoutProblem, State
from dtensor.passes.relayout.steps import RelayoutStep
from dtensor.passes.relayout.sub_axes import axis_cuts, is_chain, layout_at

MAX_LAYOUTS = 500  # layouts the search settles before it takes the plain route

_DEFAULT_COST = CostModel()
_Key = tuple[float, int]  # seconds, moves


def plan(
    before: Layout,
    after: Layout,
    shape: Sequence[int],
    itemsize: float,
    cost: CostModel = _DEFAULT_COST,
) -> tuple[RelayoutStep, ...]:
    """The cheapest steps that bring a tensor from layout `before` to layout `after`.

    Args:
        before: layout the tensor has; open dimensions count as closed.
        after: layout it is wanted in, on the same mesh.
        shape: global shape in elements; both layouts fit it.
        itemsize: bytes of one element.
        cost: the machine.

    Returns:
        The steps, none if the layouts are equal. The last step's result is `after`.

    Raises:
        LayoutError: a layout does not divide the shape.
    """
    return _plan(before.closed(), after.closed(), tuple(shape), itemsize, cost)


def steps_seconds(steps: Sequence[RelayoutStep], cost: CostModel) -> float:
    """Seconds of communication of a chain of steps."""
    return sum(
        s.collectives * cost.seconds(s.wire_bytes / s.collectives, s.axes)
        for s in steps
        if not s.is_local
    )


@lru_cache(maxsize=65536)
def _plan(
    before: Layout, after: Layout, shape: tuple[int, ...], itemsize: float, cost: CostModel
) -> tuple[RelayoutStep, ...]:
    if before == after:
        return ()
    for layout in (before, after):
        layout.verify(shape)
    clash = [name for name, cuts in axis_cuts(before, after).items() if not is_chain(cuts)]
    clash += _otherwise_partial(before, after)
    if clash:
        return _plan_in_two(before, after, shape, itemsize, cost, clash)
    problem = RelayoutProblem(before, after, shape, itemsize, cost)
    start, first = settle(problem, problem.start)
    if start == problem.goal:
        return emit(problem, after, first)
    return emit(problem, after, [*first, *_search(problem, start)])


def _otherwise_partial(before: Layout, after: Layout) -> list[str]:
    """Axes over which both layouts are partial, but not in the same reduction."""
    return sorted(
        {
            one.name
            for one, kind in before.partial
            for other, wanted in after.partial
            if one.overlaps(other) and kind != wanted
        }
    )


def _plan_in_two(
    before: Layout,
    after: Layout,
    shape: tuple[int, ...],
    itemsize: float,
    cost: CostModel,
    clash: list[str],
) -> tuple[RelayoutStep, ...]:
    """Two layouts cut an axis in ways without a common refinement: 6 = 2 * 3 and 3 * 2.

    That axis is taken out of the tensor first, and put in again; so is one over which the tensor
    is partial in both, with another reduction.
    """
    axes = [axis for axis in (*before.axes, *before.partial_axes) if axis.name not in clash]
    kept = {axis: place_of(before, axis) for axis in axes}
    middle = layout_at(kept, before.rank, before.mesh)
    assert middle not in (before, after), f"{before} or {after} cuts one axis in two ways"
    return (
        *_plan(before, middle, shape, itemsize, cost),
        *_plan(middle, after, shape, itemsize, cost),
    )


def _search(problem: RelayoutProblem, start: State) -> list[Move]:
    """The moves from `start` to the goal, by Dijkstra's algorithm."""
    best: dict[State, _Key] = {start: (0.0, 0)}
    came: dict[State, tuple[State, list[Move]]] = {}
    queue: list[tuple[_Key, int, State]] = [((0.0, 0), 0, start)]
    pushed = 0
    settled = 0
    while queue and settled < MAX_LAYOUTS:
        key, _, state = heapq.heappop(queue)
        if key != best[state]:
            continue
        if state == problem.goal:
            return _path(came, start, state)
        settled += 1
        for move in moves(problem, state):
            result, free = settle(problem, move.result)
            new_key = key[0] + move.seconds, key[1] + 1
            if result in best and best[result] <= new_key:
                continue
            best[result] = new_key
            came[result] = (state, [move, *free])
            pushed += 1
            heapq.heappush(queue, (new_key, pushed, result))
    return _plain_route(problem, start)


def _path(came: dict[State, tuple[State, list[Move]]], start: State, state: State) -> list[Move]:
    steps: list[list[Move]] = []
    while state != start:
        state, done = came[state]
        steps.append(done)
    return [move for done in reversed(steps) for move in done]


def _plain_route(problem: RelayoutProblem, state: State) -> list[Move]:
    """Reduce, gather what stands elsewhere, and slice: always possible."""
    done: list[Move] = []
    for kind in sorted(set(problem.kinds)):
        sub_axes = tuple(
            a
            for a, place in enumerate(state)
            if place == PARTIAL and problem.goal[a] != PARTIAL and problem.kinds[a] == kind
        )
        if sub_axes:
            wire = all_reduce_bytes(problem.local_bytes(state), problem.split(sub_axes))
            state = without(state, sub_axes)
            done.append(Move("reduce", sub_axes, state, wire, 0.0))
    for run in problem.runs(state):
        for sub_axis in run:
            if state[sub_axis] != problem.goal[sub_axis]:
                state = without(state, (sub_axis,))
                size = problem.sizes[sub_axis]
                wire = all_gather_bytes(problem.local_bytes(state), size)
                done.append(Move("gather", (sub_axis,), state, wire, 0.0))
    return [*done, *settle(problem, state)[1]]
