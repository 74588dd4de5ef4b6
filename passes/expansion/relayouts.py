"""Relayouts carried out: constants are made anew, all else moves by the cheapest steps."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.cost.model import CostModel
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.attributes import CONSTANT, constant_attribute, identity_of
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import element_bytes
from dtensor.passes.ops.table import opdef
from dtensor.passes.relayout.realise import apply_steps
from dtensor.passes.relayout.search import plan


def expand_relayout(
    ctx: ExpansionContext, value: Value, before: Layout, after: Layout, global_shape: Sequence[int]
) -> Value:
    """`value`, moved from layout `before` to `after`."""
    if before == after:
        return value
    if 0 in global_shape:  # nothing to move; collectives of nothing are refused
        shape = after.local_shape(global_shape)
        return ctx.zeros(ctx.tensor_type(shape, ctx.element_of(value)))
    splat = _splat_of(value)
    if splat is not None:
        constant, scalar = splat
        identities = identity_of(constant)
        kinds = [kind for _, kind in (*before.partial, *after.partial)]
        if all(kind in identities or Reduction.named(kind).idempotent for kind in kinds):
            type_ = ctx.tensor_type(after.local_shape(global_shape), ctx.element_of(value))
            return ctx.splat(scalar, type_)
    return relayout_value(ctx, value, before, after, global_shape)


def _splat_of(value: Value) -> tuple[ir.Operation, ir.Attribute] | None:
    """The constant that `value` repeats, and its one element."""
    maker = maker_of(value)
    while maker is not None and len(maker.operands) == 1 and opdef(maker.name).moves_only:
        maker = maker_of(maker.operands[0])
    if maker is None or maker.name != CONSTANT:
        return None
    attribute = constant_attribute(maker)
    if attribute is None or not attribute.is_splat:
        return None
    return maker, attribute.get_splat_value()


def relayout_value(
    ctx: ExpansionContext, value: Value, before: Layout, after: Layout, global_shape: Sequence[int]
) -> Value:
    """`value`, moved by the cheapest chain of steps."""
    planned = _without_idempotent(before, after)
    if before == planned:
        return value
    cost = CostModel() if ctx.state is None else ctx.state.cost_model()
    itemsize = element_bytes(ctx.element_of(value))
    steps = plan(before, planned, tuple(global_shape), itemsize, cost)
    return apply_steps(value, steps, ctx)


def _without_idempotent(before: Layout, after: Layout) -> Layout:
    """`after` less the parts that cost no step: a complete value is a part of its own maximum."""
    if not after.partial:
        return after
    used = [*before.axes, *before.partial_axes]
    partial = [
        (axis, kind)
        for axis, kind in after.partial
        if not Reduction.named(kind).idempotent or any(axis.overlaps(other) for other in used)
    ]
    return Layout.of(after.dims, after.mesh, partial)
