"""Products of a sparse matrix in compressed rows (CSR) with a dense one: `BCSR @ x` on a CPU.

The call reads the elements, where each row of them begins, the column of each, and the dense matrix
or vector.
"""

from __future__ import annotations

import math

from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.opdef import Placed
from dtensor.passes.ops.padding import Fill, passing
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder

CSR_PRODUCT = "cpu_csr_sparse_dense_ffi"
_ELEMENTS, _BEGINS, _COLUMNS, _DENSE = range(4)


def csr_product_rule(op: OpInfo) -> OpRule | None:
    """`e,r,e,cj->rj` reduce `e`: some of the elements make a part of the sum of each row."""
    if len(op.operand_shapes) != 4 or op.operand_shapes[_ELEMENTS] != op.operand_shapes[_COLUMNS]:
        return None
    builder = RuleBuilder(op)
    summed = Reduction.SUM.on(op.result_elements[0])
    builder.share((_ELEMENTS, 0), (_COLUMNS, 0), reduction=summed, counts=True)
    builder.whole(_BEGINS, 0, "says where the elements of each row begin")
    builder.whole(_DENSE, 0, "is read at any column of the sparse matrix")
    if len(op.operand_shapes[_DENSE]) == 2:
        builder.share((_DENSE, 1), (~0, 1))
    return builder.build()


def csr_product_flops(op: OpInfo) -> float:
    """Each element is multiplied with a row of the dense matrix, and added."""
    return 2.0 * op.operand_shapes[_ELEMENTS][0] * math.prod(op.operand_shapes[_DENSE][1:])


def csr_product_applies(placed: Placed) -> bool:
    """The elements that a shard has are next to each other."""
    return placed.operands[_ELEMENTS].dims[0].is_contiguous


def csr_product_fill(rule: OpRule, factor: int) -> Fill | None:
    """No row has the elements beyond the end."""
    is_summed = rule.factors[factor].kind is FactorKind.REDUCTION
    return Fill.ANY if is_summed else passing(rule, factor)


def expand_csr_product(op: LocalOp) -> None:
    """A row begins at the same element as in the whole, or at the end of the shard next to it."""
    layout, size = op.operand_layouts[_ELEMENTS], op.operand_shapes[_ELEMENTS][0]
    offset, begins, make = op.ctx.shard_offset(layout, 0, size), op.operands[_BEGINS], op.ctx
    if offset is None:
        return
    places = make.binary("subtract", begins, make.convert(offset, make.element_of(begins)))
    places = make.binary("minimum", make.binary("maximum", places, 0), size // layout.dims[0].split)
    op.operation.operands[_BEGINS] = places
