"""The terms of a sum, which is written as one addition after another."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, made_by, reader_of
from dtensor.passes.cuts.names import ADD


def terms_of(op: ir.Operation) -> list[Value]:
    """The terms of the sum whose last addition this is, in order; none of an earlier one."""
    found: list[Value] = []
    last: ir.Operation | None = None if _goes_on(op) else op
    while last is not None:
        value, term = last.operands
        first = made_by(ADD, value)
        last = first if first is not None and _goes_on(first) else None
        found += [term] if last is not None else [term, value]
    return found[::-1]


def _goes_on(op: ir.Operation) -> bool:
    """Whether the one reader of a sum adds a further term to it, in the same block."""
    reader = reader_of(op.results[0])
    if reader is None or reader.name != ADD or reader.operands[0] != op.results[0]:
        return False
    return bool(reader.parent == op.parent)
