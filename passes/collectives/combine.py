"""Equal operations once, and neighbouring all_reduces in one message."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect import names
from dtensor.dialect.mlir import Value, ir, maker_of, ops_of
from dtensor.dialect.ops import OPS
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps
from dtensor.passes.ops.attributes import CONSTANT, constant_attribute, element_of, size_bytes
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Scope

_DEEPEST = 5  # operations one behind the other that cut out what is sent

_Group = list[CollectiveOp]
_Key = tuple[object, ...]


def merge_duplicates(work: CollectiveOps) -> None:
    """Replace each operation by an equal one before it, in its block or an enclosing one.

    Runs before anything is created: operations are then numbered in program order.
    """
    seen: dict[_Key, CollectiveOp] = {}
    for item in list(work.items):
        what = _key(item.op)
        keys = [(scope, *what) for scope in item.scope.outwards()]
        earlier = next((seen[key] for key in keys if key in seen), None)
        if earlier is None:
            seen[keys[0]] = item
        else:
            work.replace(item, earlier.op.results)


def _key(op: ir.Operation, depth: int = 0) -> _Key:
    """What an operation computes; what little of a value it sends may have been cut out twice."""
    attributes = tuple((name, op.attributes[name]) for name in op.attributes)
    operands = tuple([_value_key(value, depth) for value in op.operands])
    return (op.name, operands, attributes, tuple(r.type for r in op.results))


def _value_key(value: Value, depth: int) -> object:
    op = maker_of(value)
    if op is None or depth == _DEEPEST or len(op.regions):
        return value
    if op.name == CONSTANT and constant_attribute(op) is None:
        return value
    definition = opdef(op.name)
    is_equal = definition.moves_only or (depth > 0 and definition.fuses and not definition.varies)
    if not is_equal or op.name in OPS:
        return value
    return (ir.OpResult(value).result_number, _key(op, depth + 1))


def combine_all_reduces(work: CollectiveOps, limit_bytes: int) -> None:
    """Combine all_reduces of one block, axes, reduction and element type into one.

    It takes the place of the last; so none of the values may be needed before. A group's operands
    together stay within `limit_bytes`: its first part could be on its way while the last is
    computed, and that is lost.
    """
    scopes: dict[Scope, list[CollectiveOp]] = {}
    for item in work.items:
        if item.is_alive and item.name == names.ALL_REDUCE:
            scopes.setdefault(item.scope, []).append(item)
    for scope, items in scopes.items():
        if len(items) > 1:
            for group in _groups(scope.block, items, limit_bytes):
                _combine(work, group)


def _groups(block: ir.Block, items: list[CollectiveOp], limit_bytes: int) -> list[_Group]:
    order = {op: position for position, op in enumerate(ops_of(block))}
    found: list[_Group] = []
    open_groups: dict[object, tuple[_Group, int, int]] = {}  # group, its bytes, its first use
    for item in sorted(items, key=lambda item: order[item.op]):
        operands = list(item.op.operands)
        size = int(sum(map(size_bytes, operands)))
        key = (item.mesh, item.axes, item.reduction, element_of(operands[-1]))
        position = order[item.op]
        first_use = _first_use(item.op, order)
        group, total, needed = open_groups.get(key, ([], 0, 0))
        if group and position < needed and total + size <= limit_bytes:
            group.append(item)
            open_groups[key] = (group, total + size, min(needed, first_use))
        else:
            group = [item]
            found.append(group)
            open_groups[key] = (group, size, first_use)
    return [group for group in found if len(group) > 1]


def _first_use(op: ir.Operation, order: dict[ir.Operation, int]) -> int:
    """Position of the first operation of the block that uses a result, itself or inside."""
    first = len(order)
    for result in op.results:
        for use in result.uses:
            user = use.owner.operation
            while user not in order:
                parent = user.parent
                assert parent is not None
                user = parent.operation
            first = min(first, order[user])
    return first


def _combine(work: CollectiveOps, group: Sequence[CollectiveOp]) -> None:
    last = group[-1]
    operands = [value for item in group for value in item.op.operands]
    made = work.create(
        names.ALL_REDUCE,
        operands,
        [value.type for value in operands],
        (last.mesh, last.axes),
        last,
        last,
        reduction=last.reduction,
    )
    results = list(made.op.results)
    for item in group:
        count = len(item.op.results)
        work.replace(item, results[:count])
        del results[:count]
