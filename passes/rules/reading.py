"""Reading the attributes of StableHLO ops, which the bindings hand out untyped."""

from __future__ import annotations

from dtensor.dialect.mlir import ir


def integers(attribute: ir.Attribute) -> list[int]:
    """The numbers of `array<i64: ...>`."""
    return list(ir.DenseI64ArrayAttr(attribute))


def integer(attribute: ir.Attribute) -> int:
    """The number of `n : i64`."""
    return int(ir.IntegerAttr(attribute).value)
