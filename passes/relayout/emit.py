"""Writing the moves that the search found as steps on local tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.relayout.moves import Move
from dtensor.passes.relayout.problem import RelayoutProblem, State
from dtensor.passes.relayout.steps import AxisMove, RelayoutStep
from dtensor.passes.relayout.sub_axes import local_outer, merge_axes


def emit(
    problem: RelayoutProblem, after: Layout, found: Iterable[Move]
) -> tuple[RelayoutStep, ...]:
    """The steps of some moves, which lead from the start of the problem to `after`."""
    steps: list[RelayoutStep] = []
    state, layout = problem.start, problem.before
    for move in found:
        result = problem.layout(move.result)
        steps.append(_step(problem, move, state, layout, result))
        state, layout = move.result, result
    return (*steps[:-1], replace(steps[-1], result=after))


def _step(
    problem: RelayoutProblem, move: Move, state: State, before: Layout, result: Layout
) -> RelayoutStep:
    step = RelayoutStep(move.kind, result, move.wire_bytes, problem.axes(move.sub_axes))
    if move.kind == "permute":
        sources, targets = _permuted(problem, move)
        return replace(step, axes=sources, targets=targets)
    if move.kind == "all_to_all":
        moves = tuple(_axis_moves(problem, move, state, before))
        return replace(step, axes=tuple([each.axis for each in moves]), moves=moves)
    if move.matched is not None:
        of = move.matched
        return replace(step, dim=of.dim, outer=of.rows, pieces=of.pieces, rounds=of.rounds)
    step = replace(step, axes=merge_axes(step.axes))
    if move.kind not in ("gather", "slice"):
        step = replace(step, reduction=problem.kinds[move.sub_axes[0]])
    if move.kind in ("reduce", "mask"):
        return step
    placed = state if move.kind in ("gather", "spread") else move.result
    place = placed[move.sub_axes[0]]
    dim = problem.digit_dims[place]
    return replace(step, dim=dim, outer=local_outer(before, dim, problem.digit_outers[place]))


def _permuted(
    problem: RelayoutProblem, move: Move
) -> tuple[tuple[AxisRef, ...], tuple[AxisRef, ...]]:
    """Both lists name the same axes: where x gives way to y, y takes over what x told apart."""
    leaving = tuple(a for a in move.sub_axes if a not in move.others)
    arriving = tuple(a for a in move.others if a not in move.sub_axes)
    sources = list(problem.axes((*move.sub_axes, *arriving)))
    targets = list(problem.axes((*move.others, *leaving)))
    _join_parts(sources, targets)
    return tuple(sources), tuple(targets)


def _join_parts(sources: list[AxisRef], targets: list[AxisRef]) -> None:
    """Write parts of an axis that stay together as one, in both lists."""
    index = 0
    while index + 1 < len(sources):
        pair = sources[index : index + 2]
        joined = merge_axes(pair)
        at = targets.index(pair[0])
        if len(joined) == 1 and targets[at + 1 : at + 2] == pair[1:]:
            sources[index : index + 2] = joined
            targets[at : at + 2] = joined
        else:
            index += 1


def _axis_moves(
    problem: RelayoutProblem, move: Move, state: State, before: Layout
) -> Iterator[AxisMove]:
    position = problem.position
    for sub_axis in sorted(move.sub_axes, key=lambda sub_axis: position(move.result[sub_axis])):
        source, target = position(state[sub_axis]), position(move.result[sub_axis])
        outers = local_outer(before, *source), local_outer(before, *target)
        yield AxisMove(problem.sub_axes[sub_axis], source, target, outers)
