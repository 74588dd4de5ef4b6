"""Convolution on a shard: of the groups it has its own."""

from __future__ import annotations

from dtensor.dialect.mlir import ir, stablehlo
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.rules.convolution import group_count


def expand_convolution(op: LocalOp) -> None:
    """Local numbers of groups."""
    numbers = stablehlo.ConvDimensionNumbers(op.operation.attributes["dimension_numbers"])
    for name, dim in (
        ("feature_group_count", numbers.input_feature_dimension),
        ("batch_group_count", numbers.input_batch_dimension),
    ):
        groups = group_count(op.operation, name)
        split = op.operand_layouts[0].dims[dim].split
        if groups > 1 and split > 1:
            attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), groups // split)
            op.operation.attributes[name] = attribute
