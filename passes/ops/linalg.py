"""Factorisations and triangular systems: each matrix by itself."""

from __future__ import annotations

import math

from dtensor.dialect.mlir import ir
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import factorised
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

MATRIX = "is a dimension of the matrices"


def cholesky_rule(op: OpInfo) -> OpRule:
    """`bij->bij`; the matrices are whole."""
    return leading(op, len(op.operand_shapes[0]) - 2, MATRIX).build()


def cholesky_flops(op: OpInfo) -> float:
    """n^3 / 3 of each matrix."""
    shape = op.operand_shapes[0]
    return math.prod(shape) * shape[-1] / 3


def triangular_solve_rule(op: OpInfo) -> OpRule:
    """`bij,bjk->bik`: the matrices `i`, `j` are whole, each right-hand side `k` is by itself.

    With `left_side = false` the rows of the second operand are the right-hand sides. The solution
    is linear in it, but no parts pass: where a pivot is zero or infinite, a part that is zero gives
    NaN.
    """
    shape = op.operand_shapes[1]
    is_left = ir.BoolAttr(op.attribute("left_side")).value
    builder = leading(op, len(shape) - 2, MATRIX)
    sides = len(shape) - 1 if is_left else len(shape) - 2
    builder.share((1, sides), (~0, sides))
    return builder.build()


def triangular_solve_flops(op: OpInfo) -> float:
    """n^2 for each right-hand side."""
    return float(math.prod(op.operand_shapes[1])) * op.operand_shapes[0][-1]


def leading(op: OpInfo, count: int, reason: str) -> RuleBuilder:
    """The first `count` dimensions are shared by all tensors, the others whole for `reason`."""
    builder = RuleBuilder(op)
    for d in range(count):
        builder.share(*builder.everywhere(d))
    for k, shape in enumerate(op.operand_shapes):
        for d in range(count, len(shape)):
            builder.whole(k, d, reason)
    return builder


CHOLESKY = OpDef(
    cholesky_rule,
    flops=cholesky_flops,
    must_divide=True,
    is_product=True,
    padding=padding.ANY,
    accuracy=factorised,
)
TRIANGULAR_SOLVE = OpDef(
    triangular_solve_rule,
    flops=triangular_solve_flops,
    must_divide=True,
    is_product=True,
    padding=padding.ANY,
    accuracy=factorised,
)
