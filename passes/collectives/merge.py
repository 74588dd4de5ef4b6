"""The same operation on the same values: once is enough."""

from __future__ import annotations

from dtensor.dialect.mlir import ir
from dtensor.passes.collectives.reader import Collective, Collectives
from dtensor.passes.program import Scope

_Key = tuple[object, ...]


def merge_duplicates(work: Collectives) -> None:
    """Replace each operation by an equal one before it, in its block or an enclosing one.

    Runs before anything is created: operations are then numbered in program order.
    """
    seen: dict[_Key, Collective] = {}
    for item in list(work.items):
        if not item.is_alive:
            continue
        what = _key(item.op)
        earlier = None
        scope: Scope | None = item.scope
        while earlier is None and scope is not None:
            earlier = seen.get((scope, *what))
            scope = scope.parent
        if earlier is None:
            seen[item.scope, *what] = item
        else:
            work.replace(item, earlier.op.results)


def _key(op: ir.Operation) -> _Key:
    attributes = tuple((name, op.attributes[name]) for name in op.attributes)
    return (op.name, tuple(op.operands), attributes, tuple(r.type for r in op.results))
