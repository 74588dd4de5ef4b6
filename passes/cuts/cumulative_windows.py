"""Cumulative sums, products, maxima and minima along one dimension, as patterns read them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr, matrix_attr
from dtensor.passes.cuts.windows import Windows
from dtensor.passes.ops.attributes import is_identity, shape_of, splat_number
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.scans import scans
from dtensor.passes.rewriting.names import REDUCE_WINDOW


@dataclass(frozen=True)
class CumulativeWindow:
    """Windows that hold all elements up to one along a dimension, or all from one on.

    Attributes:
        op: the reduce_window; its init value is the identity, and no zero of minus sign.
        dim: the dimension.
        is_reverse: whether the last element is the first that is combined.
        kind: how elements are combined.
        number: the identity.
    """

    op: ir.Operation
    dim: int
    is_reverse: bool
    kind: Reduction
    number: float

    @classmethod
    def of(cls, op: ir.Operation | None) -> CumulativeWindow | None:
        """What an operation scans; None of another."""
        if op is None or op.name != REDUCE_WINDOW or len(op.operands) != 2:
            return None
        windows, shape = Windows.of(op), shape_of(op.operands[0])
        pairs = list(zip(windows.each, shape, strict=True))
        dims = [d for d, (window, _) in enumerate(pairs) if window.size > 1]
        kind = combiner(op.regions[0])
        if len(dims) != 1 or kind is None or op.operands[0].type != op.results[0].type:
            return None
        dim, start = dims[0], op.operands[1]
        others = [pair for d, pair in enumerate(pairs) if d != dim]
        is_scan = windows.each[dim].is_bare and scans(*pairs[dim])
        if not is_scan or not all(window.tiles(size) for window, size in others):
            return None
        number = splat_number(start)
        if number is None or not is_identity(start, kind):
            return None
        if number == 0 and math.copysign(1, number) < 0:
            return None
        return cls(op, dim, windows.each[dim].low == 0, kind, number)

    @property
    def start(self) -> Value:
        """The identity, a scalar."""
        value: Value = self.op.operands[1]
        return value

    def over(self, make: Builder, value: Value) -> Value:
        """The same scan of another value."""
        shape = shape_of(value)
        size = shape[self.dim]
        if size == 1:
            return make.merged(self.kind, self.start, value)
        sizes, rows = [1] * len(shape), [(0, 0)] * len(shape)
        sizes[self.dim] = size
        rows[self.dim] = (0, size - 1) if self.is_reverse else (size - 1, 0)
        result = make.like(self.op, [value], self.dim, size)
        result.set_type(value.type)
        attributes = operation_of(result).attributes
        attributes["window_dimensions"] = integers_attr(sizes)
        attributes["padding"] = matrix_attr(rows)
        return result

    def last(self, make: Builder, value: Value) -> Value:
        """The row of a scan that combines all elements."""
        at = 0 if self.is_reverse else make.shape_of(value)[self.dim] - 1
        return make.cut(value, self.dim, at, 1)

    def combined(self, make: Builder, row: Value, value: Value) -> Value:
        """A row combined with each row of a value."""
        row = make.broadcast(row, make.shape_of(value), range(len(make.shape_of(value))))
        return make.merged(self.kind, row, value)
