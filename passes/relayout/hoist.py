"""Relayouts inside loops of values that the loop does not change: once, in front of the loop."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.program import WHILE, terminator
from dtensor.passes.relayout.values import Relayouts


def hoist_invariants(work: Relayouts) -> bool:
    """Move relayouts of loop-invariant values in front of their loop.

    A value is invariant if it is defined outside, or carried and yielded as it came. What is moved
    stays in memory for the whole loop: only relayouts that communicate are worth it.
    """
    changed = False
    for number, op in list(work.ops.items()):
        loop = op.parent.operation if op.parent is not None else None
        if loop is None or loop.name != WHILE:
            continue
        value = op.operands[0]
        before, after = work.layout(value), work.after(op)
        outside = _outside(value, op, loop)
        if outside is None or before is None or work.layout(outside) != before:
            continue
        if not work.seconds(value, before, after):
            continue
        why = "the loop does not change the value: moved in front of it"
        made = work.create(outside, after, ir.InsertionPoint(loop), number, why)
        scope = work.scopes[number]
        work.scopes[-1] = None if scope is None else scope.parent
        work.replace(number, made)
        changed = True
    return changed


def _outside(value: Value, op: ir.Operation, loop: ir.Operation) -> Value | None:
    """What an invariant value is called in front of the loop; None if it is not invariant."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return value if owner.operation.block != op.block else None
    if owner.owner.operation != loop:
        return value
    slot = ir.BlockArgument(value).arg_number
    body = loop.regions[1].blocks[0]
    if terminator(body).operands[slot] != body.arguments[slot]:
        return None
    outside: Value = loop.operands[slot]
    return outside
