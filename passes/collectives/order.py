"""Which operations of a block come first, and which may come sooner."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cmp_to_key

from dtensor.dialect.mlir import Value, block_of, every, ir, maker_of, users
from dtensor.dialect.names import NAMESPACE
from dtensor.passes.ops.opdef import no_rule
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CUSTOM_CALL

_MOST_MOVED = 24  # operations that go in front of another one
_OURS = f"{NAMESPACE}."


def _compared(one: ir.Operation, other: ir.Operation) -> int:
    return -1 if one.is_before_in_block(other) else 1


in_order = cmp_to_key(_compared)  # a key to sort operations of one block by


def is_before(one: ir.Operation, other: ir.Operation | None) -> bool:
    """Whether an operation comes before another one of its block; None is the block's end."""
    return other is None or one.is_before_in_block(other)


def standing_in(block: ir.Block, op: ir.Operation) -> ir.Operation:
    """The operation of a block that another one is, or stands in a region of."""
    while op.block != block:
        parent = op.parent
        assert parent is not None
        op = parent.operation
    return op


def first_reader(values: Iterable[Value]) -> ir.Operation | None:
    """The first operation of their block that reads one of the values, itself or in its regions."""
    first = None
    for value in values:
        for user in users(value):
            reader = standing_in(block_of(value), user)
            if is_before(reader, first):
                first = reader
    return first


def behind(
    values: Sequence[Value], op: ir.Operation, late: Container[Value]
) -> list[ir.Operation] | None:
    """The operations from one on that values need, in order; None if one of them cannot be before.

    What only computes can, if it needs none of the values that come late.
    """
    found, waiting = dict[Value, ir.Operation](), list(values)
    while waiting:
        value = waiting.pop()
        if value in late:
            return None
        maker = maker_of(value)
        if maker is None or maker.results[0] in found or maker.block != op.block:
            continue
        if maker.is_before_in_block(op):
            continue
        if len(found) == _MOST_MOVED or not only_computes(maker):
            return None
        found[maker.results[0]] = maker
        waiting += list(maker.operands)
    return sorted(found.values(), key=in_order)


def move(ops: Iterable[ir.Operation], before: ir.Operation) -> None:
    """Move operations of a block in front of another one, in the order in which they stand."""
    for op in sorted(ops, key=in_order):
        op.move_before(before)


def only_computes(op: ir.Operation) -> bool:
    """Whether an operation is known to do nothing but give its results."""
    is_known = opdef(op.name).rule is not no_rule and op.name != CUSTOM_CALL
    if not len(op.regions):
        return is_known or op.name.startswith(_OURS)
    return is_known and not any(inner.name.startswith(_OURS) for inner in every(op))
