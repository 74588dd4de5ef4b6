"""Relayouts beside conversions of the element type: the narrow side is moved."""

from __future__ import annotations

from dtensor.dialect import names
from dtensor.dialect.attributes import layouts_array_attr
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.ops.elementwise import CONVERT
from dtensor.passes.ops.table import opdef
from dtensor.passes.relayout.values import Relayouts, has_one_use, itemsize


def move_narrow_values(work: Relayouts) -> bool:
    """Gather a parameter after it was converted to bf16, and before it is converted to f32.

    Not for partial values: converting does not commute with every reduction.
    """
    changed = False
    for number, op in list(work.ops.items()):
        before, after = work.layout(op.operands[0]), work.after(op)
        if before is None or before.partial or after.partial:
            continue
        if not work.seconds(op.operands[0], before, after):
            continue
        changed = _sink(work, number, op, before) or _hoist(work, number, op) or changed
    return changed


def _sink(work: Relayouts, number: int, op: ir.Operation, before: Layout) -> bool:
    """`convert(relayout(x))` to a narrower type."""
    if not has_one_use(op.results[0]):
        return False
    user = next(iter(op.results[0].uses)).owner.operation
    if opdef(user.name) is not CONVERT or itemsize(user.results[0]) >= itemsize(op.results[0]):
        return False
    narrow = _convert(op.operands[0], user.results[0].type, before, user)
    why = "converted to a narrower type first"
    made = work.create(narrow, work.after(op), ir.InsertionPoint(user), number, why)
    user.results[0].replace_all_uses_with(made)
    user.erase()
    work.erase(number)
    return True


def _hoist(work: Relayouts, number: int, op: ir.Operation) -> bool:
    """`relayout(convert(x))` from a narrower type."""
    convert = op.operands[0].owner
    if isinstance(convert, ir.Block) or opdef(convert.operation.name) is not CONVERT:
        return False
    source = convert.operation.operands[0]
    if itemsize(source) >= itemsize(op.operands[0]) or not has_one_use(op.operands[0]):
        return False
    if work.layout(source) != work.layout(op.operands[0]):
        return False
    after = work.after(op)
    why = "converted to a wider type afterwards"
    moved = work.create(source, after, ir.InsertionPoint(op), number, why)
    wide = _convert(moved, op.results[0].type, after, convert.operation, op)
    work.replace(number, wide)
    convert.operation.erase()
    return True


def _convert(
    value: Value,
    type_: ir.Type,
    layout: Layout,
    like: ir.Operation,
    before: ir.Operation | None = None,
) -> Value:
    converted: Value = ir.Operation.create(
        "stablehlo.convert",
        results=[type_],
        operands=[value],
        attributes={names.RESULTS: layouts_array_attr((layout,))},
        loc=like.location,
        ip=ir.InsertionPoint(before or like),
    ).results[0]
    return converted
