"""Reductions: an init value that is not the identity is combined after the local reduction.

The specification lets an implementation fold an init value in any number of times. XLA does: it
drops one where the local dimension has size 1 and adds one twice where it reduces in two steps. So
only identities are handed to the local op, and every device's program folds the value in once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.relayout.identity import identity_attr
from dtensor.passes.rules.constants import identity_of
from dtensor.passes.rules.reduction import combiners

_OPS = {
    "sum": "add",
    "max": "maximum",
    "min": "minimum",
    "prod": "multiply",
    "and": "and",
    "or": "or",
}


def expand_reduce(op: LocalOp) -> Sequence[ir.Value[Any]] | None:
    """Reduce from the identity, then combine with this shard's part of the init value."""
    count = len(op.operands) // 2
    elements = tuple(op.ctx.element_of(value) for value in op.operands[:count])
    kinds = combiners(op.operation.regions[0], elements)
    if kinds is None:
        return None
    late = [k for k, kind in enumerate(kinds) if not _is_identity(op, count + k, kind)]
    if not late:
        return None
    copy = op.ctx.clone(op.operation)
    for k, result in enumerate(copy.results):
        result.set_type(op.ctx.tensor_type(op.local_result_shape(k), op.result_element(k)))
    values: list[ir.Value[Any]] = list(copy.results)
    for k in late:
        init = op.operands[count + k]
        constant = ir.InsertionPoint(copy)
        copy.operands[count + k] = ir.Operation.create(
            "stablehlo.constant",
            results=[init.type],
            attributes={"value": identity_attr(kinds[k], init.type)},
            loc=copy.location,
            ip=constant,
        ).results[0]
        whole = op.ctx.broadcast(init, op.local_result_shape(k), [])
        values[k] = op.ctx.binary(_OPS[kinds[k]], values[k], whole)
    return values


def _is_identity(op: LocalOp, index: int, kind: str) -> bool:
    owner = op.operands[index].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.constant":
        return False
    element = op.ctx.element_of(op.operands[index])
    return kind in identity_of(owner.operation, element)
