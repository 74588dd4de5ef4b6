"""Relayout steps as operations on local tensors: dtensor collectives, and reshapes around them.

A collective works on a whole dimension. Where the digit it gathers or cuts is not the major one of
the shard, the local dimension is read as `outer` rows, so that the digit is major in each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dtensor.dialect import names
from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.exchanges import in_rounds
from dtensor.passes.relayout.atoms import local_outer
from dtensor.passes.relayout.steps import (
    AllToAll,
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

Shape = tuple[int, ...]
_NAMES: Final = {
    Slice: names.ALL_SLICE,
    Gather: names.ALL_GATHER,
    ReduceScatter: names.REDUCE_SCATTER,
}


def apply_steps(value: Value, steps: Sequence[Step], builder: ExpansionContext) -> Value:
    """Create the operations of a plan, on a local tensor that is laid out as it expects.

    Returns:
        The local tensor in the layout of the last step.
    """
    for step in steps:
        value = _apply(value, step, builder)
    return value


def _apply(value: Value, step: Step, builder: ExpansionContext) -> Value:
    match step:
        case Slice() | Gather() | ReduceScatter():
            return _on_rows(value, step, builder)
        case Reduce():
            return builder.all_reduced(value, step.axes, step.reduction)
        case Permute():
            attributes = {
                names.FROM: builder.axes(step.sources),
                names.TO: builder.axes(step.targets),
            }
            return builder.value(names.COLLECTIVE_PERMUTE, [value], value.type, attributes)
        case AllToAll():
            return _all_to_all(value, step, builder)
        case Match():
            return _match(value, step, builder)
        case Mask():
            first = builder.is_shard(step.axes, 0)
            return builder.select(first, value, builder.identity(step.reduction, value.type))
        case Spread():
            return _spread(value, step, builder)
    raise AssertionError(f"unknown step {step}")


def _on_rows(
    value: Value, step: Slice | Gather | ReduceScatter, builder: ExpansionContext
) -> Value:
    """A collective on a dimension, in each of its `outer` rows."""
    shape, element = builder.read_type(value.type)
    dim, outer, parts = step.dim, step.outer, math.prod(axis.size for axis in step.axes)
    rows = (*shape[:dim], outer, shape[dim] // outer, *shape[dim + 1 :])
    at = dim + 1 if outer > 1 else dim
    work = list(rows if outer > 1 else shape)
    operand = builder.reshape(value, work)
    work[at] = work[at] * parts if isinstance(step, Gather) else work[at] // parts
    attributes = {names.AXES: builder.axes(step.axes), names.DIM: index_attr(at)}
    if isinstance(step, ReduceScatter):
        attributes[names.REDUCTION] = ir.StringAttr.get(step.reduction)
    type_ = builder.tensor_type(work, element)
    result = builder.value(_NAMES[type(step)], [operand], type_, attributes)
    return builder.reshape(result, (*shape[:dim], outer * work[at], *shape[dim + 1 :]))


def _all_to_all(value: Value, step: AllToAll, builder: ExpansionContext) -> Value:
    shape, element = builder.read_type(value.type)
    direct = direct_exchange(step, shape)

    def moved(value: Value, shape: Shape, split: int, concat: int) -> Value:
        attributes = {
            names.AXES: builder.axes(step.axes),
            names.SPLIT_DIM: index_attr(split),
            names.CONCAT_DIM: index_attr(concat),
        }
        type_ = builder.tensor_type(shape, element)
        return builder.value(names.ALL_TO_ALL, [value], type_, attributes)

    if direct is not None:
        operand = builder.reshape(value, direct.operand)
        parts = moved(operand, direct.result, direct.split_dim, direct.concat_dim)
        return builder.reshape(parts, direct.final)
    form = exchange(step, shape)
    digits = builder.transpose(builder.reshape(value, form.digits), form.to_front)
    front = builder.reshape(digits, form.front)
    parts = moved(front, (1, form.front[0], *form.front[2:]), 0, 1)
    parts = builder.transpose(builder.reshape(parts, form.parts), form.to_places)
    return builder.reshape(parts, form.final)


def _match(value: Value, step: Match, builder: ExpansionContext) -> Value:
    """Each round brings a piece."""
    shape = builder.shape_of(value)
    part = shape[step.dim] // step.outer // step.pieces
    rows = (*shape[: step.dim], step.outer, step.pieces * part, *shape[step.dim + 1 :])
    value = builder.reshape(value, rows)
    value = in_rounds(builder, value, value, step.dim + 1, step.axes, step.rounds, part)
    return builder.reshape(value, shape)


def _spread(value: Value, step: Spread, builder: ExpansionContext) -> Value:
    shape, _ = builder.read_type(value.type)
    dim, parts = step.dim, math.prod(axis.size for axis in step.axes)
    rest = shape[dim] // step.outer
    rows = (*shape[:dim], step.outer, rest, *shape[dim + 1 :])
    wide = (*shape[:dim], step.outer, parts, rest, *shape[dim + 1 :])
    dims = [d for d in range(len(wide)) if d != dim + 1]
    copies = builder.broadcast(builder.reshape(value, rows), wide, dims)
    index = builder.broadcast(builder.axis_index(step.axes), wide)
    mine = builder.compare("EQ", builder.iota(wide, dim + 1, "i32"), index)
    kept = builder.select(mine, copies, builder.identity(step.reduction, copies.type))
    return builder.reshape(kept, (*shape[:dim], shape[dim] * parts, *shape[dim + 1 :]))


@dataclass(frozen=True)
class DirectExchange:
    """An all_to_all from one dimension to another, each read as rows where need be.

    Attributes:
        operand: shape of the operand.
        split_dim: the dimension of it that is split.
        concat_dim: the dimension in which the parts arrive, one after the other.
        result: shape of the result.
        final: shape of the local tensor afterwards.
    """

    operand: Shape
    split_dim: int
    concat_dim: int
    result: Shape
    final: Shape


def direct_exchange(step: AllToAll, shape: Shape) -> DirectExchange | None:
    """The shapes, if all digits leave one dimension and enter another, neighbours and in order."""
    moves = step.moves
    source, target = moves[0].source[0], moves[0].target[0]
    if source == target:
        return None
    for move, following in pairwise(moves):
        size = move.axis.size
        if following.source != (source, move.source[1] * size):
            return None
        if following.target != (target, move.target[1] * size):
            return None
    outers = {
        source: local_outer(step.before, source, moves[0].source[1]),
        target: local_outer(step.before, target, moves[0].target[1]),
    }
    operand: list[int] = []
    at = {}
    for dim, size in enumerate(shape):
        outer = outers.get(dim, 1)
        if outer > 1:
            operand.append(outer)
        at[dim] = len(operand)
        operand.append(size // outer)
    parts = math.prod(move.axis.size for move in moves)
    result, final = list(operand), list(shape)
    result[at[target]] //= parts
    result[at[source]] *= parts
    final[target] //= parts
    final[source] *= parts
    return DirectExchange(tuple(operand), at[target], at[source], tuple(result), tuple(final))


@dataclass(frozen=True)
class Exchange:
    """Any all_to_all: the split digits become the first dimension, the second one receives.

    Attributes:
        digits: shape of the operand with every digit concerned a dimension of its own.
        to_front: permutation that brings the split digits to the front, in order of the axes.
        front: shape with these digits as one dimension, and one element to receive into.
        parts: shape with the received digits as dimensions at the front.
        to_places: permutation that brings them where they belong.
        final: shape of the local tensor afterwards.
    """

    digits: Shape
    to_front: tuple[int, ...]
    front: Shape
    parts: Shape
    to_places: tuple[int, ...]
    final: Shape


def exchange(step: AllToAll, shape: Shape) -> Exchange:
    """The shapes of an all_to_all between any digits."""
    digits: list[int] = []
    split_at: dict[int, int] = {}  # move -> dimension of `digits`
    order: list[tuple[str, int]] = []  # the result's digits: ("kept", dimension) or ("new", move)
    final: list[int] = []
    for dim, size in enumerate(shape):
        outer_size = size
        done = 1
        for position, index, leaves in _events(step, dim):
            outer = local_outer(step.before, dim, position)
            order.append(("kept", len(digits)))
            digits.append(outer // done)
            done = outer
            if leaves:
                order.append(("new", index))
                outer_size *= step.moves[index].axis.size
            else:
                split_at[index] = len(digits)
                digits.append(step.moves[index].axis.size)
                done *= step.moves[index].axis.size
                outer_size //= step.moves[index].axis.size
        order.append(("kept", len(digits)))
        digits.append(size // done)
        final.append(outer_size)
    sizes = [move.axis.size for move in step.moves]
    split = [split_at[index] for index in range(len(sizes))]
    kept = [d for d in range(len(digits)) if d not in split]
    kept_sizes = [digits[d] for d in kept]
    place = {("new", index): index for index in range(len(sizes))}
    place |= {("kept", d): len(sizes) + i for i, d in enumerate(kept)}
    return Exchange(
        tuple(digits),
        (*split, *kept),
        (math.prod(sizes), 1, *kept_sizes),
        (*sizes, *kept_sizes),
        tuple(place[entry] for entry in order),
        tuple(final),
    )


def _events(step: AllToAll, dim: int) -> Sequence[tuple[int, int, bool]]:
    """What happens in a dimension, by position: a digit leaves the mesh (True) or enters it."""
    events = []
    for index, move in enumerate(step.moves):
        for (at, position), leaves in ((move.source, True), (move.target, False)):
            if at == dim:
                events.append((position, index, leaves))
    return sorted(events)
