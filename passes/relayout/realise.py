"""Relayout steps as operations on local tensors: dtensor collectives, and reshapes around them.

A collective works on a whole dimension. Where the digit it gathers or cuts is not the major one of
the shard, the local dimension is read as `outer` rows, so that the digit is major in each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from dtensor.dialect import names
from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.exchanges import permuted
from dtensor.passes.ops.loops import looked_up
from dtensor.passes.relayout.exchange import direct_exchange, exchange
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
    """Create the operations of a plan.

    Args:
        value: the local tensor, laid out as the plan expects.
        steps: the plan, from `search.plan`.
        builder: creates the operations.

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
    """Each round brings a piece; what came and what was there is put in order."""
    shape, found = builder.shape_of(value), step.matching
    dim, part = step.dim + 1, shape[step.dim] // step.outer // found.pieces
    rows = (*shape[: step.dim], step.outer, found.pieces * part, *shape[dim:])
    value = builder.reshape(value, rows)
    device = builder.axis_index(step.axes)
    have = [value]
    for sources, sent in zip(found.sources, found.sent, strict=True):
        senders = [sent[k] if k in sources else None for k in range(len(sent))]
        piece = _piece(builder, value, dim, part, device, senders)
        have.append(permuted(builder, piece, step.axes, sources))
    all_ = builder.joined(have, dim)
    pieces = [_piece(builder, all_, dim, part, device, origin) for origin in found.origin]
    return builder.reshape(builder.joined(pieces, dim), shape)


def _piece(
    builder: ExpansionContext,
    value: Value,
    dim: int,
    size: int,
    device: Value,
    numbers: Sequence[int | None],
) -> Value:
    """A piece of `size` elements along `dim`; each device says which, or that any will do."""
    wanted = sorted({number for number in numbers if number is not None})
    if len(wanted) == 1:
        return builder.cut(value, dim, wanted[0] * size, size)
    start = looked_up(builder, device, [(number or 0) * size for number in numbers])
    return builder.stretch(value, dim, start, size)


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
