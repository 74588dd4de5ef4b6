"""Cuts by whole rows of a dimension that is also reshaped to rows: written as cuts of the rows.

`jnp.pad(x, (0, 128)).reshape(-1, 128)` is `x.reshape(-1, 128)` padded by one row. Written so, the
rows are seen to be those of `x`, whatever size it was padded to, and a split of `x` between rows is
a split of the rows. The same goes for a cut of rows that were put one after another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integer, pad_numbers, shape_of, slice_numbers
from dtensor.passes.rewriting.names import CONCATENATE, CUTS, PAD, RESHAPE
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards


def cut_rows(function: Rewriting) -> None:
    """Write cuts of blocks as cuts of rows."""
    for op in function.named(RESHAPE, *CUTS):
        function.replace(op, _of_rows(op, function.made, function.shards))


def _of_rows(op: ir.Operation, made: list[ir.Operation], shards: Shards) -> Value | None:
    """What stands for a reshape of a cut, or for a cut of a reshape; None if nothing does."""
    value, result = op.operands[0], op.results[0]
    maker = maker_of(value)
    if maker is None or op.name == CONCATENATE:
        return None
    is_taken, is_put_back = op.name == RESHAPE, maker.name == RESHAPE
    if not (is_taken or is_put_back):
        return None
    if is_taken and is_put_back:
        same = shape_of(maker.operands[0]) == shape_of(result)
        return maker.operands[0] if same else None
    cut, other = (maker, result) if is_taken else (op, maker.operands[0])
    rows = Rows.between(shape_of(value), shape_of(other))
    if rows is None or not rows.fits(cut):
        return None
    if not shards.splits((cut.operands[0], rows.dim), (cut.results[0], rows.dim)):
        return None
    make = Builder(op, made)
    if is_taken:
        return rows.taken(make, value)
    return make.reshape(rows.cut(make, cut, [other]), shape_of(result))


@dataclass(frozen=True)
class Rows:
    """A dimension of which another shape has several: rows, and what one of them has.

    Attributes:
        dim: the dimension.
        row: the sizes that one row has in its place.
    """

    dim: int
    row: tuple[int, ...]

    @staticmethod
    def between(flat: Sequence[int], rows: Sequence[int]) -> Rows | None:
        """How one dimension of `flat` falls into several rows; None if it does not."""
        more = len(rows) - len(flat)
        dim = next((d for d, (m, n) in enumerate(zip(flat, rows, strict=False)) if m != n), None)
        if dim is None or more < 1 or list(flat[dim + 1 :]) != list(rows[dim + 1 + more :]):
            return None
        found = Rows(dim, tuple(rows[dim + 1 : dim + 1 + more]))
        return found if rows[dim] > 1 and rows[dim] * found.block == flat[dim] else None

    @property
    def block(self) -> int:
        """Elements of a row."""
        return math.prod(self.row)

    def shape(self, flat: Sequence[int]) -> list[int]:
        """The shape in rows of a value of this shape."""
        rows = flat[self.dim] // self.block
        return [*flat[: self.dim], rows, *self.row, *flat[self.dim + 1 :]]

    def fits(self, op: ir.Operation) -> bool:
        """Whether an operation puts together, or keeps, whole rows, and most of them."""
        if op.name not in CUTS:
            return False
        size = shape_of(op.results[0])[self.dim]
        if op.name == CONCATENATE:
            sizes = [shape_of(operand)[self.dim] for operand in op.operands]
            is_along = integer(op.attributes["dimension"]) == self.dim
            return is_along and size < 2 * max(sizes) and self._divides(*sizes)
        before = shape_of(op.operands[0])[self.dim]
        is_most = size != before and max(size, before) < 2 * min(size, before)
        if op.name == PAD:
            lows, highs, gaps = (numbers[self.dim] for numbers in pad_numbers(op))
            return is_most and not gaps and self._divides(before, lows, highs)
        starts, limits, strides = (numbers[self.dim] for numbers in slice_numbers(op))
        return is_most and strides == 1 and self._divides(before, starts, limits)

    def _divides(self, *sizes: int) -> bool:
        return not any(size % self.block for size in sizes)

    def taken(self, make: Builder, value: Value) -> Value:
        """A value in rows; where it was cut out of another, the rows of that are cut."""
        op, shape = maker_of(value), self.shape(shape_of(value))
        if op is not None and op.name == RESHAPE and shape_of(op.operands[0]) == shape:
            source: Value = op.operands[0]
            return source
        if op is None or not self.fits(op):
            return make.reshape(value, shape)
        parts = op.operands if op.name == CONCATENATE else op.operands[:1]
        return self.cut(make, op, [self.taken(make, part) for part in parts])

    def cut(self, make: Builder, op: ir.Operation, rows: Sequence[Value]) -> Value:
        """The cut or the join `op`, applied to the rows of its operands."""
        if op.name == CONCATENATE:
            return make.joined(rows, self.dim)
        if op.name == PAD:
            lows, highs, gaps = pad_numbers(op)
            around = [self._of_rows(lows, 0), self._of_rows(highs, 0), self._of_rows(gaps, 0)]
            return make.pad(rows[0], op.operands[1], *around)
        starts, limits, strides = slice_numbers(op)
        ends = self._of_rows(limits, 0)
        ends[self.dim + 1 : self.dim + 1 + len(self.row)] = self.row
        return make.slice(rows[0], self._of_rows(starts, 0), ends, self._of_rows(strides, 1))

    def _of_rows(self, numbers: Sequence[int], beside: int) -> list[int]:
        """Numbers of each dimension, counted in rows along this one; strides have `beside` 1."""
        own = numbers[self.dim] if beside else numbers[self.dim] // self.block
        behind = numbers[self.dim + 1 :]
        return [*numbers[: self.dim], own, *[beside] * len(self.row), *behind]
