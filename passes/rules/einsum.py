"""Contractions."""

from __future__ import annotations

import math

from dtensor.dialect.mlir import stablehlo
from dtensor.passes.rules.elements import element_kind, keeps_sums, reductions_of
from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder


def dot_general_rule(op: OpInfo) -> OpRule:
    """`bij,bjk->bik`: split over j, each shard's product is a part of the sum.

    A sum passes through one operand if the other is complete: (a + b) c = a c + b c. Not where
    the result has wider integers than the operand, for the parts wrap and the sum would not.
    """
    numbers = stablehlo.DotDimensionNumbers(op.attribute("dot_dimension_numbers"))
    return contraction(
        op,
        (numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions),
        (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
    )


def dot_rule(op: OpInfo) -> OpRule:
    """As dot_general: the last dimension of the left with the first of the right."""
    return contraction(op, ([], []), ([len(op.operand_shapes[0]) - 1], [0]))


def contraction(
    op: OpInfo,
    batching: tuple[list[int], list[int]],
    contracting: tuple[list[int], list[int]],
) -> OpRule:
    """The rule of a product summed over the dimension pairs `contracting`.

    The result has the dimension pairs `batching`, then what is left of each operand.
    """
    builder = RuleBuilder(op)
    sizes = op.operand_shapes[0]
    result = 0
    for left, right in zip(*batching, strict=True):
        factor = builder.factor(sizes[left])
        builder.operand(0, left, factor)
        builder.operand(1, right, factor)
        builder.result(0, result, factor)
        result += 1
    element = op.result_elements[0]
    reduction = "or" if element == "i1" else "sum"
    summed = 1
    for left, right in zip(*contracting, strict=True):
        factor = builder.factor(sizes[left], reduction)
        builder.operand(0, left, factor)
        builder.operand(1, right, factor)
        summed *= sizes[left]
    for k, shape in enumerate(op.operand_shapes):
        for d, size in enumerate(shape):
            if d in batching[k] or d in contracting[k]:
                continue
            factor = builder.factor(size)
            builder.operand(k, d, factor)
            builder.result(0, result, factor)
            result += 1
    for k in range(2):
        if "sum" in reductions_of(element) and keeps_sums(op.operand_elements[k], element):
            builder.passes_each(["sum"], [k == 0, k == 1])
    per_product = 8.0 if element_kind(element)[0] == "complex" else 2.0
    return builder.build(flops=per_product * math.prod(op.result_shapes[0]) * summed)
