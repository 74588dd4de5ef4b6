"""Ops that slide a window over some dimensions: reduce_window and select_and_scatter.

A dimension can be split if its windows neither overlap nor leave gaps: each shard then holds whole
windows. A window of one element is the common case, two by two pooling another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import ir
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.reductions import combiner
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

OVERLAP = "has windows that overlap, are padded or leave gaps, so a shard would need the next one"


@dataclass(frozen=True, slots=True)
class Window:
    """How a window walks along one dimension; the fields are those of StableHLO."""

    size: int
    stride: int
    low: int
    high: int
    base_dilation: int
    dilation: int

    def tiles(self, elements: int) -> bool:
        """Whether the windows over a dimension of so many elements are its blocks, in order."""
        return (
            self.stride == self.size
            and elements % self.size == 0
            and self.low == self.high == 0
            and (self.base_dilation == 1 or elements <= 1)
            and (self.dilation == 1 or self.size == 1)
        )


def windows_of(op: OpInfo, sizes: Sequence[int], base: str, dilation: str) -> list[Window]:
    """One window of `sizes[d]` elements per dimension.

    Args:
        op: the op; attributes that it does not have are as StableHLO says.
        sizes: elements of the window.
        base: name of the attribute with the dilations of the tensor.
        dilation: name of the attribute with the dilations of the window.
    """
    padding = [0] * (2 * len(sizes))
    if op.has("padding") and sizes:
        pairs = ir.DenseIntElementsAttr(op.attribute("padding"))
        padding = [pairs[i] for i in range(len(pairs))]
    count = len(sizes)
    columns = (
        sizes,
        _integers(op, "window_strides", count),
        padding[::2],
        padding[1::2],
        _integers(op, base, count),
        _integers(op, dilation, count),
    )
    return [Window(*values) for values in zip(*columns, strict=True)]


def _integers(op: OpInfo, name: str, count: int) -> list[int]:
    return integers(op.attribute(name)) if op.has(name) else [1] * count


def reduce_window_rule(op: OpInfo) -> OpRule:
    """`ij,->ij`; a dimension is split if its windows tile it.

    The body is applied to elements and to the init value alike, so parts of its own reduction pass
    if both are parts.
    """
    count = len(op.result_shapes)
    sizes = integers(op.attribute("window_dimensions"))
    builder = RuleBuilder(op)
    windows = windows_of(op, sizes, "base_dilations", "window_dilations")
    for d, (window, size) in enumerate(zip(windows, op.operand_shapes[0], strict=True)):
        if not window.tiles(size):
            for k in range(count):
                builder.whole(k, d, OVERLAP)
            continue
        factor = builder.factor(op.result_shapes[0][d])
        for k in range(count):
            builder.operand(k, d, factor)
            builder.result(k, d, factor)
    reduction = combiner(op.operation.regions[0], op.result_elements)
    if reduction is not None and op.operand_elements[:count] == op.result_elements:
        builder.passes_each([reduction], [True] * (2 * count))
    return builder.build()


def reduce_window_flops(op: OpInfo) -> float:
    """One per element of each window."""
    sizes = integers(op.attribute("window_dimensions"))
    windows = math.prod(op.result_shapes[0]) * len(op.result_shapes)
    return float(windows * math.prod(sizes))


def select_and_scatter_rule(op: OpInfo) -> OpRule:
    """`ij,ij,->ij`, the gradient of max-pooling; a dimension is split if its windows tile it.

    It is linear in the source and the init value, if the scatter body adds.
    """
    shape, source = op.operand_shapes[0], op.operand_shapes[1]
    sizes = _integers(op, "window_dimensions", len(shape))
    builder = RuleBuilder(op)
    for d, window in enumerate(windows_of(op, sizes, "", "")):
        if not window.tiles(shape[d]):
            builder.whole(0, d, OVERLAP)
            builder.whole(1, d, OVERLAP)
            continue
        factor = builder.factor(source[d])
        builder.operand(0, d, factor)
        builder.operand(1, d, factor)
        builder.result(0, d, factor)
    reduction = combiner(op.operation.regions[1], op.result_elements)
    if reduction is not None and op.operand_elements[1:] == op.result_elements * 2:
        builder.passes_each([reduction], [False, True, True])
    return builder.build()


def select_and_scatter_flops(op: OpInfo) -> float:
    """One per element of each window."""
    source = op.operand_shapes[1]
    return float(math.prod(source) * math.prod(_integers(op, "window_dimensions", len(source))))


REDUCE_WINDOW = OpDef(reduce_window_rule, flops=reduce_window_flops)
SELECT_AND_SCATTER = OpDef(select_and_scatter_rule, flops=select_and_scatter_flops)
