"""Calls of Python functions that have effects: one device calls, and all get what it is told.

Of the axes that are left to the planner, the devices at their start call; so a manual region calls
once per shard of it. The others get the results by a sum of their bits with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.callbacks import has_effects, is_callback
from dtensor.dialect.mlir import Value, ir, terminator
from dtensor.passes.builder import filling, new_block
from dtensor.passes.expansion.context import ExpansionContext, LocalOp


def calls_once(op: LocalOp) -> bool:
    """Whether a custom call may be made by one device alone."""
    call = op.operation
    return is_callback(call) and has_effects(call) and bool(_axes(op.ctx))


def _axes(ctx: ExpansionContext) -> list[AxisRef]:
    names = [name for name, size in ctx.mesh.axes if size > 1]
    return [ctx.mesh.axis(name) for name in names if ctx.free is None or name in ctx.free]


def expand_once(op: LocalOp) -> Sequence[Value]:
    """The call in a branch that the first device takes, and its results sent to the others."""
    ctx, axes = op.ctx, _axes(op.ctx)
    types = [result.type for result in op.operation.results]
    tokens = [value for value in op.operands if not isinstance(value.type, ir.RankedTensorType)]
    nothing = [
        ctx.zeros(type_) if isinstance(type_, ir.RankedTensorType) else tokens[0] for type_ in types
    ]
    call = ctx.clone(op.operation)
    branch = ctx.create("stablehlo.if", [ctx.is_shard(axes, 0)], types, regions=2)
    made: tuple[list[Value], list[Value]] = list(call.results), nothing
    for region, values in zip(branch.regions, made, strict=True):
        filling(new_block(region)).end(values)
    call.move_before(terminator(branch.regions[0].blocks[0]))
    return [_from_first(ctx, value, axes) for value in branch.results]


def _from_first(ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef]) -> Value:
    """A value that is zero but on one device, on all of them, to the bit."""
    if not isinstance(value.type, ir.RankedTensorType):
        return value
    element = value.type.element_type
    if isinstance(element, ir.ComplexType):
        return ctx.complex(*(_from_first(ctx, part, axes) for part in ctx.parts(value)))
    if isinstance(element, ir.IntegerType):
        return ctx.all_reduced(value, axes, "or" if element.width == 1 else "sum")
    bits = ctx.bitcast(value, f"ui{ir.FloatType(element).width}")
    sent = _from_first(ctx, bits, axes)
    return ctx.bitcast(sent, ctx.element_of(value))
