"""Equal operations once."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.ops import OPS
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps
from dtensor.passes.ops.attributes import CONSTANT, constant_attribute
from dtensor.passes.ops.table import opdef

_DEEPEST = 5  # operations one behind the other that cut out what is sent

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
