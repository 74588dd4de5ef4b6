"""Relayout steps as operations on local tensors: dtensor collectives, and reshapes around them.

A collective works on a whole dimension. Where the digit it gathers or cuts is not the major one of
the shard, the local dimension is read as `outer` rows, so that the digit is major in each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from dtensor.dialect import names
from dtensor.dialect.attributes import index_attr
from dtensor.dialect.axes import devices_along
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.creation import with_sizes
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.exchanges import in_rounds
from dtensor.passes.relayout.steps import RelayoutStep

_NAMES: Final = {
    "slice": names.ALL_SLICE,
    "gather": names.ALL_GATHER,
    "reduce_scatter": names.REDUCE_SCATTER,
}


def apply_steps(value: Value, steps: Sequence[RelayoutStep], builder: ExpansionContext) -> Value:
    """Create the operations of a plan; the local tensor in the layout of its last step."""
    for step in steps:
        value = _REALISED[step.kind](value, step, builder)
    return value


def _reduce(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    return builder.all_reduced(value, step.axes, step.reduction)


def _mask(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    first = builder.is_shard(step.axes, 0)
    return builder.select(first, value, builder.identity(step.reduction, value.type))


def _permute(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    attributes = {names.FROM: builder.axes(step.axes), names.TO: builder.axes(step.targets)}
    return builder.value(names.COLLECTIVE_PERMUTE, [value], value.type, attributes)


def _on_rows(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    """A collective on a dimension, in each of its `outer` rows."""
    shape, element = builder.read_type(value.type)
    dim, outer, parts = step.dim, step.outer, devices_along(step.axes)
    at = dim + 1 if outer > 1 else dim
    operand = builder.regrouped(value, dim, outer, shape[dim] // outer) if outer > 1 else value
    work = list(builder.shape_of(operand))
    work[at] = work[at] * parts if step.kind == "gather" else work[at] // parts
    attributes = {names.AXES: builder.axes(step.axes), names.DIM: index_attr(at)}
    if step.reduction:
        attributes[names.REDUCTION] = ir.StringAttr.get(step.reduction)
    type_ = builder.tensor_type(work, element)
    result = builder.value(_NAMES[step.kind], [operand], type_, attributes)
    return builder.reshape(result, with_sizes(shape, dim, outer * work[at]))


def _all_to_all(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    found = _between_two(value, step, builder)
    return _between_any(value, step, builder) if found is None else found


def _moved(
    value: Value,
    step: RelayoutStep,
    builder: ExpansionContext,
    shape: Sequence[int],
    split: int,
    at: int,
) -> Value:
    """One all_to_all, whose parts arrive at a dimension, one after the other."""
    attributes = {
        names.AXES: builder.axes(step.axes),
        names.SPLIT_DIM: index_attr(split),
        names.CONCAT_DIM: index_attr(at),
    }
    type_ = builder.tensor_type(shape, builder.element_of(value))
    return builder.value(names.ALL_TO_ALL, [value], type_, attributes)


def _between_two(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value | None:
    """Where all digits leave one dimension and enter another, neighbours and in order.

    Each dimension is read as rows where need be. None where digits do otherwise.
    """
    moves, shape = step.moves, builder.shape_of(value)
    source, target = moves[0].source[0], moves[0].target[0]
    if source == target:
        return None
    for move, following in pairwise(moves):
        size = move.axis.size
        if following.source != (source, move.source[1] * size):
            return None
        if following.target != (target, move.target[1] * size):
            return None
    outers = dict(zip((source, target), moves[0].outers, strict=True))
    rows: list[int] = []
    at = {}
    for dim, size in enumerate(shape):
        outer = outers.get(dim, 1)
        if outer > 1:
            rows.append(outer)
        at[dim] = len(rows)
        rows.append(size // outer)
    parts = devices_along(move.axis for move in moves)
    result, final = list(rows), list(shape)
    for sizes, split, joined in ((result, at[target], at[source]), (final, target, source)):
        sizes[split] //= parts
        sizes[joined] *= parts
    operand = builder.reshape(value, rows)
    return builder.reshape(_moved(operand, step, builder, result, at[target], at[source]), final)


def _between_any(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    """The digits that are split become the first dimension, and the second one receives."""
    digits: list[int] = []  # every digit concerned is a dimension of its own
    split_at: dict[int, int] = {}  # move -> dimension of `digits`
    order: list[tuple[str, int]] = []  # the result's digits: ("kept", dimension) or ("new", move)
    final: list[int] = []
    for dim, size in enumerate(builder.shape_of(value)):
        local, done = size, 1
        for _, index, leaves, outer in _events(step, dim):
            count = step.moves[index].axis.size
            order.append(("kept", len(digits)))
            digits.append(outer // done)
            done = outer
            if leaves:
                order.append(("new", index))
                local *= count
            else:
                split_at[index] = len(digits)
                digits.append(count)
                done *= count
                local //= count
        order.append(("kept", len(digits)))
        digits.append(size // done)
        final.append(local)
    sizes = [move.axis.size for move in step.moves]
    split = [split_at[index] for index in range(len(sizes))]
    kept = [d for d in range(len(digits)) if d not in split]
    rest = [digits[d] for d in kept]
    place = {("new", index): index for index in range(len(sizes))}
    place |= {("kept", d): len(sizes) + i for i, d in enumerate(kept)}
    front = builder.transpose(builder.reshape(value, digits), [*split, *kept])
    front = builder.reshape(front, [math.prod(sizes), 1, *rest])
    parts = _moved(front, step, builder, [1, math.prod(sizes), *rest], 0, 1)
    parts = builder.reshape(parts, [*sizes, *rest])
    return builder.reshape(builder.transpose(parts, [place[entry] for entry in order]), final)


def _events(step: RelayoutStep, dim: int) -> Sequence[tuple[int, int, bool, int]]:
    """What happens in a dimension, by position: a digit leaves the mesh (True) or enters it.

    With the number of the move, and how many local blocks are more major.
    """
    events = []
    for index, move in enumerate(step.moves):
        sides = zip((move.source, move.target), (True, False), move.outers, strict=True)
        for (at, position), leaves, outer in sides:
            if at == dim:
                events.append((position, index, leaves, outer))
    return sorted(events)


def _match(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    """Each round brings a piece."""
    shape = builder.shape_of(value)
    part = shape[step.dim] // step.outer // step.pieces
    value = builder.regrouped(value, step.dim, step.outer, step.pieces * part)
    value = in_rounds(builder, value, value, step.dim + 1, step.axes, step.rounds, part)
    return builder.reshape(value, shape)


def _spread(value: Value, step: RelayoutStep, builder: ExpansionContext) -> Value:
    shape, dim, parts = builder.shape_of(value), step.dim, devices_along(step.axes)
    rest = shape[dim] // step.outer
    wide = with_sizes(shape, dim, step.outer, parts, rest)
    dims = [d for d in range(len(wide)) if d != dim + 1]
    copies = builder.broadcast(builder.regrouped(value, dim, step.outer, rest), wide, dims)
    index = builder.axis_index(step.axes)
    mine = builder.compare("EQ", builder.iota(wide, dim + 1, "i32"), index)
    kept = builder.select(mine, copies, builder.identity(step.reduction, copies.type))
    return builder.reshape(kept, with_sizes(shape, dim, shape[dim] * parts))


_REALISED: Final[dict[str, Callable[[Value, RelayoutStep, ExpansionContext], Value]]] = {
    "slice": _on_rows,
    "gather": _on_rows,
    "reduce_scatter": _on_rows,
    "spread": _spread,
    "reduce": _reduce,
    "mask": _mask,
    "all_to_all": _all_to_all,
    "permute": _permute,
    "match": _match,
}
