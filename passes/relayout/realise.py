"""Relayout steps as operations on local tensors: dtensor collectives, and reshapes around them.

A collective works on a whole dimension. Where the digit it gathers or cuts is not the major one of
the shard, the local dimension is read as `outer` rows, so that the digit is major in each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from dtensor.dialect import names
from dtensor.dialect.attributes import index_attr
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.relayout.exchange import direct_exchange, exchange
from dtensor.passes.relayout.steps import (
    AllToAll,
    Gather,
    Mask,
    Permute,
    Reduce,
    ReduceScatter,
    Slice,
    Spread,
    Step,
)

Shape = tuple[int, ...]


class LocalBuilder(Protocol):
    """What creates the operations; `expansion.context.ExpansionContext` is one."""

    def value(
        self,
        name: str,
        operands: Sequence[ir.Value[Any]],
        result: ir.Type,
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> ir.Value[Any]: ...

    def tensor_type(self, shape: Sequence[int], element: str) -> ir.Type: ...

    def read_type(self, type_: ir.Type) -> tuple[Shape, str]: ...

    def reshape(self, value: ir.Value[Any], shape: Sequence[int]) -> ir.Value[Any]: ...

    def broadcast(
        self, value: ir.Value[Any], shape: Sequence[int], dims: Sequence[int] = ()
    ) -> ir.Value[Any]: ...

    def compare(
        self, direction: str, left: ir.Value[Any], right: ir.Value[Any]
    ) -> ir.Value[Any]: ...

    def select(
        self, predicate: ir.Value[Any], yes: ir.Value[Any], no: ir.Value[Any]
    ) -> ir.Value[Any]: ...

    def iota(self, shape: Sequence[int], dim: int, element: str) -> ir.Value[Any]: ...

    def axes(self, axes: Sequence[AxisRef]) -> ir.Attribute: ...

    def axis_index(self, axes: Sequence[AxisRef]) -> ir.Value[Any]: ...

    def constant(self, value: int | float | bool, type_: ir.Type) -> ir.Value[Any]: ...


def apply_steps(
    value: ir.Value[Any], steps: Sequence[Step], builder: LocalBuilder
) -> ir.Value[Any]:
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


def _apply(value: ir.Value[Any], step: Step, builder: LocalBuilder) -> ir.Value[Any]:
    match step:
        case Slice():
            return _on_rows(value, names.ALL_SLICE, step.dim, step.outer, step.axes, builder)
        case Gather():
            return _on_rows(value, names.ALL_GATHER, step.dim, step.outer, step.axes, builder)
        case ReduceScatter():
            return _on_rows(
                value,
                names.REDUCE_SCATTER,
                step.dim,
                step.outer,
                step.axes,
                builder,
                step.reduction,
            )
        case Reduce():
            attributes = _attributes(step.axes, builder, reduction=step.reduction)
            return builder.value(names.ALL_REDUCE, [value], value.type, attributes)
        case Permute():
            attributes = {
                names.FROM: builder.axes(step.sources),
                names.TO: builder.axes(step.targets),
            }
            return builder.value(names.COLLECTIVE_PERMUTE, [value], value.type, attributes)
        case AllToAll():
            return _all_to_all(value, step, builder)
        case Mask():
            first = _is_first(step.axes, builder)
            return builder.select(first, value, _identity(step.reduction, value.type, builder))
        case Spread():
            return _spread(value, step, builder)
    raise AssertionError(f"unknown step {step}")


def _attributes(
    axes: Sequence[AxisRef], builder: LocalBuilder, dim: int | None = None, reduction: str = ""
) -> dict[str, ir.Attribute]:
    attributes: dict[str, ir.Attribute] = {names.AXES: builder.axes(axes)}
    if dim is not None:
        attributes[names.DIM] = index_attr(dim)
    if reduction:
        attributes[names.REDUCTION] = ir.StringAttr.get(reduction)
    return attributes


def _on_rows(
    value: ir.Value[Any],
    name: str,
    dim: int,
    outer: int,
    axes: Sequence[AxisRef],
    builder: LocalBuilder,
    reduction: str = "",
) -> ir.Value[Any]:
    """The collective `name` on dimension `dim`, in each of its `outer` rows."""
    shape, element = builder.read_type(value.type)
    parts = math.prod(axis.size for axis in axes)
    rows = (*shape[:dim], outer, shape[dim] // outer, *shape[dim + 1 :])
    at = dim + 1 if outer > 1 else dim
    work = list(rows if outer > 1 else shape)
    operand = builder.reshape(value, work)
    work[at] = work[at] * parts if name == names.ALL_GATHER else work[at] // parts
    type_ = builder.tensor_type(work, element)
    result = builder.value(name, [operand], type_, _attributes(axes, builder, at, reduction))
    if outer == 1:
        return result
    return builder.reshape(result, (*shape[:dim], outer * work[at], *shape[dim + 1 :]))


def _all_to_all(value: ir.Value[Any], step: AllToAll, builder: LocalBuilder) -> ir.Value[Any]:
    shape, element = builder.read_type(value.type)
    direct = direct_exchange(step, shape)
    axes = builder.axes(step.axes)
    if direct is not None:
        operand = builder.reshape(value, direct.operand)
        attributes = {
            names.AXES: axes,
            names.SPLIT_DIM: index_attr(direct.split_dim),
            names.CONCAT_DIM: index_attr(direct.concat_dim),
        }
        type_ = builder.tensor_type(direct.result, element)
        moved = builder.value(names.ALL_TO_ALL, [operand], type_, attributes)
        return builder.reshape(moved, direct.final)
    form = exchange(step, shape)
    digits = _transpose(builder.reshape(value, form.digits), form.to_front, builder)
    front = builder.reshape(digits, form.front)
    attributes = {
        names.AXES: axes,
        names.SPLIT_DIM: index_attr(0),
        names.CONCAT_DIM: index_attr(1),
    }
    type_ = builder.tensor_type((1, form.front[0], *form.front[2:]), element)
    moved = builder.value(names.ALL_TO_ALL, [front], type_, attributes)
    parts = _transpose(builder.reshape(moved, form.parts), form.to_places, builder)
    return builder.reshape(parts, form.final)


def _transpose(value: ir.Value[Any], order: Sequence[int], builder: LocalBuilder) -> ir.Value[Any]:
    if list(order) == list(range(len(order))):
        return value
    shape, element = builder.read_type(value.type)
    type_ = builder.tensor_type([shape[i] for i in order], element)
    attributes: dict[str, ir.Attribute] = {"permutation": ir.DenseI64ArrayAttr.get(list(order))}
    return builder.value("stablehlo.transpose", [value], type_, attributes)


def _is_first(axes: Sequence[AxisRef], builder: LocalBuilder) -> ir.Value[Any]:
    index = builder.axis_index(axes)
    return builder.compare("EQ", index, builder.constant(0, index.type))


def _identity(reduction: str, type_: ir.Type, builder: LocalBuilder) -> ir.Value[Any]:
    attributes = {"value": Reduction.named(reduction).identity_attr(type_)}
    return builder.value("stablehlo.constant", [], type_, attributes)


def _spread(value: ir.Value[Any], step: Spread, builder: LocalBuilder) -> ir.Value[Any]:
    shape, _ = builder.read_type(value.type)
    dim, parts = step.dim, math.prod(axis.size for axis in step.axes)
    rest = shape[dim] // step.outer
    rows = (*shape[:dim], step.outer, rest, *shape[dim + 1 :])
    wide = (*shape[:dim], step.outer, parts, rest, *shape[dim + 1 :])
    dims = [d for d in range(len(wide)) if d != dim + 1]
    copies = builder.broadcast(builder.reshape(value, rows), wide, dims)
    index = builder.broadcast(builder.axis_index(step.axes), wide)
    mine = builder.compare("EQ", builder.iota(wide, dim + 1, "i32"), index)
    kept = builder.select(mine, copies, _identity(step.reduction, copies.type, builder))
    return builder.reshape(kept, (*shape[:dim], shape[dim] * parts, *shape[dim + 1 :]))
