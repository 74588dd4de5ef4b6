"""Factorisations, triangular systems and Fourier transforms: each matrix or row by itself."""

from __future__ import annotations

import math

from dtensor.dialect.mlir import ir
from dtensor.passes.rules.elements import reductions_of
from dtensor.passes.rules.reading import integers
from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder

MATRIX = "is a dimension of the matrices"


def cholesky_rule(op: OpInfo) -> OpRule:
    """`bij->bij`; the matrices are whole."""
    shape = op.operand_shapes[0]
    builder = leading(op, len(shape) - 2, MATRIX)
    return builder.build(flops=math.prod(shape) * shape[-1] / 3)


def triangular_solve_rule(op: OpInfo) -> OpRule:
    """`bij,bjk->bik`: the matrices `i`, `j` are whole, each right-hand side `k` is by itself.

    With `left_side = false` the rows of the second operand are the right-hand sides. The solution
    is linear in it, so parts of it give parts of the solution.
    """
    shape = op.operand_shapes[1]
    is_left = ir.BoolAttr(op.attribute("left_side")).value
    builder = leading(op, len(shape) - 2, MATRIX)
    sides = len(shape) - 1 if is_left else len(shape) - 2
    factor = builder.factor(shape[sides])
    builder.operand(1, sides, factor)
    builder.result(0, sides, factor)
    if "sum" in reductions_of(op.result_elements[0]):
        builder.passes([None, "sum"], ["sum"])
    return builder.build(flops=float(math.prod(shape)) * op.operand_shapes[0][-1])


def fft_rule(op: OpInfo) -> OpRule:
    """`bi->bi`; the dimensions that are transformed are whole. Linear: parts of a sum pass."""
    shape = op.operand_shapes[0]
    lengths = integers(op.attribute("fft_length"))
    builder = leading(op, len(shape) - len(lengths), "is transformed")
    builder.passes(["sum"], ["sum"])
    points = max(math.prod(lengths), 2)
    elements = max(math.prod(shape), math.prod(op.result_shapes[0]))
    return builder.build(flops=5.0 * elements * math.log2(points))


def leading(op: OpInfo, count: int, reason: str) -> RuleBuilder:
    """The first `count` dimensions are shared by all tensors, the others whole for `reason`."""
    builder = RuleBuilder(op)
    for d in range(count):
        factor = builder.factor(op.operand_shapes[0][d])
        for k in range(len(op.operand_shapes)):
            builder.operand(k, d, factor)
        for k in range(len(op.result_shapes)):
            builder.result(k, d, factor)
    for k, shape in enumerate(op.operand_shapes):
        for d in range(count, len(shape)):
            builder.whole(k, d, reason)
    return builder
