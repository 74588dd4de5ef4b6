"""Convolution: an einsum over batch and features, and windows over the spatial dimensions."""

from __future__ import annotations

import math

from dtensor.dialect.mlir import ir, stablehlo
from dtensor.passes.rules.elements import keeps_sums, reductions_of
from dtensor.passes.rules.reading import integer
from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder
from dtensor.passes.rules.windows import OVERLAP, windows_of


def group_count(operation: ir.Operation, name: str) -> int:
    """`feature_group_count` or `batch_group_count` of a convolution."""
    return integer(operation.attributes[name])


def convolution_rule(op: OpInfo) -> OpRule:
    """`bic,cio->bio` reduce `c`, where `i` are spatial dimensions whose windows tile them.

    With groups, `c` and `o` fall into one block per group, and the groups can be split where one
    side has no other features (depthwise convolutions, and their gradients by batch groups).
    It is linear in each side.
    """
    numbers = stablehlo.ConvDimensionNumbers(op.attribute("dimension_numbers"))
    by_feature = group_count(op.operation, "feature_group_count")
    by_batch = group_count(op.operation, "batch_group_count")
    builder = RuleBuilder(op)
    if by_batch == 1:
        _join(builder, numbers.input_batch_dimension, None, numbers.output_batch_dimension)
    if by_feature == 1:
        _contract(builder, numbers)
    if by_feature == by_batch == 1:
        _join(
            builder,
            None,
            numbers.kernel_output_feature_dimension,
            numbers.output_feature_dimension,
        )
    else:
        _groups(builder, numbers, max(by_feature, by_batch), by_batch > 1)
    _spatial(builder, numbers)
    if all(keeps_sums(element, op.result_elements[0]) for element in op.operand_elements):
        builder.passes(["sum", None], ["sum"])
        builder.passes([None, "sum"], ["sum"])
    kernel = math.prod(op.operand_shapes[1])
    outputs = max(op.operand_shapes[1][numbers.kernel_output_feature_dimension], 1)
    return builder.build(flops=2.0 * math.prod(op.result_shapes[0]) * kernel / outputs)


def _join(builder: RuleBuilder, lhs: int | None, rhs: int | None, result: int) -> None:
    """A factor that one dimension of an operand shares with one of the result."""
    factor = builder.factor(builder.op.result_shapes[0][result])
    if lhs is not None:
        builder.operand(0, lhs, factor)
    if rhs is not None:
        builder.operand(1, rhs, factor)
    builder.result(0, result, factor)


def _contract(builder: RuleBuilder, numbers: stablehlo.ConvDimensionNumbers) -> None:
    lhs, rhs = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
    if "sum" not in reductions_of(builder.op.result_elements[0]):
        return
    factor = builder.factor(builder.op.operand_shapes[0][lhs], "sum")
    builder.operand(0, lhs, factor)
    builder.operand(1, rhs, factor)


def _groups(
    builder: RuleBuilder, numbers: stablehlo.ConvDimensionNumbers, groups: int, is_batch: bool
) -> None:
    """The group index is the major digit of the grouped dimensions."""
    op = builder.op
    lhs = numbers.input_batch_dimension if is_batch else numbers.input_feature_dimension
    rhs, result = numbers.kernel_output_feature_dimension, numbers.output_feature_dimension
    if groups not in (op.operand_shapes[0][lhs], op.result_shapes[0][result]):
        for tensor, dim in ((0, lhs), (1, rhs), (~0, result)):
            builder.whole(
                tensor, dim, f"falls into {groups} groups of several features on each side"
            )
        return
    factor = builder.factor(groups)
    builder.operand(0, lhs, factor)
    builder.operand(1, rhs, factor)
    builder.result(0, result, factor)


def _spatial(builder: RuleBuilder, numbers: stablehlo.ConvDimensionNumbers) -> None:
    op = builder.op
    kernel = [op.operand_shapes[1][d] for d in numbers.kernel_spatial_dimensions]
    windows = windows_of(op, kernel, "lhs_dilation", "rhs_dilation")
    places = zip(
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        windows,
        strict=True,
    )
    for lhs, rhs, result, window in places:
        if window.tiles(op.operand_shapes[0][lhs]):
            _join(builder, lhs, None, result)
        else:
            builder.whole(0, lhs, OVERLAP)
        builder.whole(1, rhs, "is a dimension of the window")
