"""Writing the moves that the search found as steps on local tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.relayout import moves as m
from dtensor.passes.relayout.atoms import local_outer, merge_axes
from dtensor.passes.relayout.problem import Problem, State
from dtensor.passes.relayout.steps import (
    AllToAll,
    AxisMove,
    Gather,
    Mask,
    Match,
    Permute,
    Reduce,
    ReduceScatter,
    Slice,
    Spread,
    Step,
)

_OF_ALL: Final = {"reduce": Reduce, "mask": Mask}
_COMBINING: Final = {"spread": Spread, "reduce_scatter": ReduceScatter}
_MOVING: Final = {"gather": Gather, "slice": Slice}


def emit(problem: Problem, after: Layout, found: Iterable[m.Move]) -> tuple[Step, ...]:
    """The steps of some moves, which lead from the start of the problem to `after`."""
    steps: list[Step] = []
    state, layout = problem.start, problem.before
    for move in found:
        result = problem.layout(move.result)
        steps.append(_step(problem, move, state, layout, result))
        state, layout = move.result, result
    return (*steps[:-1], replace(steps[-1], result=after))


def _step(problem: Problem, move: m.Move, state: State, before: Layout, result: Layout) -> Step:
    wire = move.wire_bytes
    if move.kind == "permute":
        return _permute(problem, move, result)
    if move.kind == "all_to_all":
        return _all_to_all(problem, move, state, before, result)
    if move.matched is not None:
        found = move.matched
        axes = problem.axes(found.moving)
        return Match(result, wire, found.dim, found.rows, axes, found.pieces, found.rounds)
    axes, kind = merge_axes(problem.axes(move.atoms)), problem.kinds[move.atoms[0]]
    if move.kind in _OF_ALL:
        return _OF_ALL[move.kind](result, wire, axes, kind)
    placed = state if move.kind in ("gather", "spread") else move.result
    place = placed[move.atoms[0]]
    dim = problem.digit_dims[place]
    outer = local_outer(before, dim, problem.digit_outers[place])
    if move.kind in _COMBINING:
        return _COMBINING[move.kind](result, wire, dim, outer, axes, kind)
    return _MOVING[move.kind](result, wire, dim, outer, axes)


def _permute(problem: Problem, move: m.Move, result: Layout) -> Permute:
    """Both lists name the same axes: where x gives way to y, y takes over what x told apart."""
    leaving = tuple(a for a in move.atoms if a not in move.others)
    arriving = tuple(a for a in move.others if a not in move.atoms)
    sources = list(problem.axes((*move.atoms, *arriving)))
    targets = list(problem.axes((*move.others, *leaving)))
    _join_parts(sources, targets)
    return Permute(result, move.wire_bytes, tuple(sources), tuple(targets))


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


def _all_to_all(
    problem: Problem, move: m.Move, state: State, before: Layout, result: Layout
) -> AllToAll:
    position = problem.position
    ordered = sorted(move.atoms, key=lambda atom: position(move.result[atom]))
    moved = tuple(
        AxisMove(problem.atoms[a], position(state[a]), position(move.result[a])) for a in ordered
    )
    return AllToAll(result, move.wire_bytes, before, moved)
