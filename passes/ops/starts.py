"""Window reductions from a value that changes the result, apart from that value.

XLA meets the init value of `reduce_window` once in each window, however much padding the window
reads, where the specification says that padding is made of init values. Shards read init values
where one device reads nothing, so the value is combined with the result, once, and windows are
reduced from what changes nothing. A scan stays as it is: XLA computes long ones in two steps, each
from the init value, and a split dimension is gathered for it.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import is_identity, shape_of
from dtensor.passes.ops.combiners import combiners


def started_apart(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Windows and the values that they start from, apart; nothing of most."""
    count = len(op.results)
    elements = tuple([str(ir.RankedTensorType(v.type).element_type) for v in op.operands[:count]])
    kinds = combiners(op.regions[0], elements) or ()
    late = [
        k
        for k, kind in enumerate(kinds)
        if not kind.idempotent and not is_identity(op.operands[count + k], kind, elements[k])
    ]
    if not late:
        return []
    make = Builder(op, made)
    inits = {k: make.identity(kinds[k], op.operands[count + k].type) for k in late}
    windows = op.clone(ip=ir.InsertionPoint(op)).operation
    made.append(windows)
    values: list[Value] = list(windows.results)
    for k in late:
        windows.operands[count + k] = inits[k]
        whole = make.broadcast(op.operands[count + k], shape_of(values[k]))
        values[k] = make.value(kinds[k].op, [values[k], whole], values[k].type)
    return values
