"""The Fourier transform of a split row in four steps.

A row of N = height * width numbers is read as a matrix of so many rows and columns (Cooley and
Tukey 1965; Bailey 1990). Number n = width a + b gives number k = c + height d by a transform of the
columns, a to c; a turn of each number by b c / N of a circle; and a transform of the rows, b to d.
The shards exchange blocks to have whole columns, again to have whole rows, and to put k in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.cost.model import all_to_all_bytes
from dtensor.passes.creation import integers_attr
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.elements import real_element
from dtensor.passes.ops.exchanges import exchanged
from dtensor.passes.ops.loops import numbered, take
from dtensor.passes.ops.opdef import Placed, Traffic, placed_of
from dtensor.passes.ops.rule import element_bytes
from dtensor.passes.ops.transform_rows import FourSteps, Kind, RowsOfShards, best_steps, half

TRANSFORM = "stablehlo.fft"
TYPE, LENGTH = "fft_type", "fft_length"


def transform_kind(operation: ir.Operation) -> Kind:
    """FFT, IFFT, RFFT or IRFFT."""
    return Kind(str(operation.attributes[TYPE]).removesuffix(">").rpartition(" ")[2])


def transform_attributes(kind: Kind, length: int) -> dict[str, ir.Attribute]:
    """What a transform of one dimension says."""
    return {
        TYPE: ir.Attribute.parse(f"#stablehlo<fft_type {kind.value}>"),
        LENGTH: integers_attr([length]),
    }


def steps_of(placed: Placed) -> FourSteps | None:
    """How the split dimension is transformed; None if it is not split, or its length is prime."""
    op, lengths = placed.op, integers(placed.op.attribute(LENGTH))
    words = placed.operands[0].dims[-1], placed.results[0].dims[-1]
    p = words[0].split
    if len(lengths) > 1 or p == 1 or words[0] != words[1] or not words[0].is_contiguous:
        return None
    given, made = op.operand_shapes[0][-1], op.result_shapes[0][-1]
    return best_steps(transform_kind(op.operation), lengths[0], p, given // p, made // p)


def step_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """All elements, three times; a little more where shards are no whole rows."""
    op, word = placed.op, placed.operands[0].dims[-1]
    steps = steps_of(placed)
    assert steps is not None, "priced where it does not apply"
    rows = math.prod(placed.shard(0)[:-1])
    given, made = element_bytes(op.operand_elements[0]), element_bytes(op.result_elements[0])
    held = (
        rows * elements * each
        for elements, each in zip(steps.elements, (given, max(given, made), made), strict=True)
    )
    wire = sum(all_to_all_bytes(each, word.split) for each in held)
    return (Traffic(word.axes, wire, 3),)


def expand_steps(op: LocalOp) -> Sequence[Value]:
    """Whole columns are transformed, turned, and transformed along their rows."""
    return [_FourSteps(op).transformed()]


class _FourSteps:
    """One transform; all values have the dimensions before the last one, the batch, first."""

    def __init__(self, op: LocalOp) -> None:
        steps = steps_of(placed_of(op))
        assert steps is not None, "a transform that was checked"
        self.op, self.ctx, self.steps = op, op.ctx, steps
        self.layout, self.shape = op.operand_layouts[0], op.operand_shapes[0]
        self.batch = self.ctx.shape_of(op.operands[0])[:-1]
        self.rank = len(self.batch)
        self.index = index_element(self.length + steps.shards * (steps.width + steps.height))

    @property
    def length(self) -> int:
        """N."""
        return self.steps.height * self.steps.width

    @property
    def shard(self) -> Value:
        """The number of this shard."""
        return self.ctx.convert(self.ctx.axis_index(self.layout.dims[-1].axes), self.index)

    def transformed(self) -> Value:
        """The shard of the result."""
        steps, ctx = self.steps, self.ctx
        kind, p = steps.kind, steps.shards
        columns = self.turned(self.columns())
        inverse = kind.between_complex
        first = Kind.RFFT if kind is Kind.RFFT else inverse
        value = self.along_last(columns, first, steps.height, steps.kept)
        value = ctx.binary("multiply", value, self.turns())
        value = self.longer(value, 1, p * steps.local_kept)
        value = self.reshaped(value, steps.local_columns, p, steps.local_kept)
        value = self.exchanged(self.ordered(value, 1, 0, 2))
        value = self.reshaped(value, p * steps.local_columns, steps.local_kept)
        value = self.turned(self.cut(value, 0, 0, steps.columns))
        second = Kind.IRFFT if kind is Kind.IRFFT else inverse
        value = self.in_order(self.along_last(value, second, steps.width, steps.width))
        return self.without_padding(value)

    def columns(self) -> Value:
        """Columns of the matrix, `[height, local columns]`.

        What stands behind the end of the numbers is in rows that are dropped, or of a half in
        places that `completed` does not read.
        """
        steps, ctx = self.steps, self.ctx
        p, rows, local = steps.shards, steps.rows_in, steps.local_columns
        value = self.op.operands[0]
        if not rows.is_aligned:
            type_ = self.type_of(value, rows.count * rows.width)
            starts = [*[ctx.constant(0, self.scalar)] * self.rank, self.start(rows)]
            value = ctx.updated(ctx.zeros(type_), value, starts)
        value = self.reshaped(value, rows.count, rows.width)
        if steps.kind is Kind.IRFFT:
            parts = [self.cut(value, 1, 0, steps.columns), self.mirrored_columns(value)]
        else:
            parts = [value]
        parts = [self.longer(part, 1, p * local) for part in parts]
        parts = [self.reshaped(part, rows.count, p, local) for part in parts]
        value = self.exchanged(self.ordered(ctx.joined(parts, self.rank + 2), 1, 0, 2))
        value = self.reshaped(value, p * rows.count, len(parts) * local)
        known = -(-steps.kind.sizes(self.length)[0] // rows.width)
        value = self.put_together(value, rows, known)
        return value if len(parts) == 1 else self.completed(value, known)

    def mirrored_columns(self, value: Value) -> Value:
        """Behind each of the columns that are kept the one that is as far from the end."""
        columns = self.steps.columns
        value = self.ctx.reversed(value, self.rank + 1)
        return self.longer(self.cut(value, 1, 0, columns - 1), 1, columns, in_front=True)

    def put_together(self, value: Value, rows: RowsOfShards, count: int) -> Value:
        """Rows of which several shards may have a part; where one has none, it has zeros."""
        if rows.is_aligned:
            return self.cut(value, 0, 0, count)
        value = self.longer(value, 0, rows.count * rows.shards + 1)
        sources = rows.sources(count)
        columns = zip(*sources, strict=True)
        ctx = self.ctx
        indices = [numbered(ctx, column, self.index) for column in columns]
        return ctx.combined("add", [take(ctx, value, index, self.rank) for index in indices])

    def completed(self, value: Value, known: int) -> Value:
        """Columns of a transform of real numbers, of which the first rows are known.

        Number k is the conjugate of number N - k: in the last row but d if k is in row d, of the
        column as far from the end. The first column goes with itself, one row later.
        """
        steps, ctx, local = self.steps, self.ctx, self.steps.local_columns
        own, mirrored = (self.cut(value, 1, at, local) for at in (0, local))
        after = self.longer(self.cut(own, 0, 1, known - 1), 0, known)
        shape = ctx.shape_of(own)
        column = self.columns_here(shape, self.rank + 1)
        is_first = ctx.compare("EQ", column, 0)
        mirrored = ctx.select(is_first, after, mirrored)
        own, mirrored = (self.longer(each, 0, steps.height) for each in (own, mirrored))
        mirrored = self.conjugate(ctx.reversed(mirrored, self.rank))
        shape = ctx.shape_of(own)
        row = ctx.times(ctx.iota(shape, self.rank, self.index), steps.width)
        place = ctx.binary("add", row, self.columns_here(shape, self.rank + 1))
        is_known = ctx.compare("LT", place, half(self.length))
        return ctx.select(is_known, own, mirrored)

    def in_order(self, value: Value) -> Value:
        """The shard of the result, of rows `[local kept, width]`."""
        steps, ctx = self.steps, self.ctx
        p, rows, local = steps.shards, steps.rows_out, steps.local_kept
        parts = [self.turned(value)]
        if steps.kind is Kind.RFFT:
            parts.append(self.conjugate(ctx.reversed(parts[0], self.rank)))
        if rows.is_aligned:
            count = p * rows.count
            parts = [
                self.longer(self.cut(v, 0, 0, min(count, steps.width)), 0, count) for v in parts
            ]
        else:
            wanted = numbered(ctx, rows.wanted(steps.width), self.index)
            parts = [take(ctx, part, wanted, self.rank) for part in parts]
        value = self.exchanged(ctx.joined(parts, self.rank + 1))
        value = self.reshaped(value, p, rows.count, len(parts), local)
        value = self.ordered(value, 1, 2, 0, 3)
        value = self.reshaped(value, rows.count, len(parts) * p * local)
        own = self.cut(value, 1, 0, steps.kept)
        if len(parts) > 1 and steps.height > steps.kept:
            mirrored = self.cut(value, 1, p * local + 1, steps.height - steps.kept)
            own = ctx.joined([own, ctx.reversed(mirrored, self.rank + 1)], self.rank + 1)
        value = self.reshaped(own, rows.count * rows.width)
        if rows.is_aligned:
            return value
        starts = [*[ctx.constant(0, self.scalar)] * self.rank, self.start(rows)]
        return ctx.dynamic_slice(value, starts, (*self.batch, rows.shard))

    def without_padding(self, value: Value) -> Value:
        """The shard of the result with zeros behind the true end."""
        true, size = self.steps.kind.sizes(self.length)[1], self.op.result_shapes[0][-1]
        if true == size:
            return value
        ctx, layout = self.ctx, self.op.result_layouts[0]
        place = ctx.global_index(layout, self.rank, size, self.index)
        return ctx.kept_before(value, self.rank, place, true)

    def turns(self) -> Value:
        """What each number is multiplied with, `exp(-2 pi i b c / N)`, `[local columns, kept]`."""
        ctx, steps, size = self.ctx, self.steps, self.length
        shape = (steps.local_columns, steps.kept)
        parts = ctx.binary("multiply", self.columns_here(shape, 0), ctx.iota(shape, 1, self.index))
        # Half a circle either way: a float says the smaller angle more exactly.
        is_more = ctx.compare("GT", parts, size // 2)
        less = ctx.binary("subtract", parts, size)
        element = real_element(self.op.result_element())
        parts = ctx.convert(ctx.select(is_more, less, parts), element)
        sign = 1 if steps.kind.between_complex is Kind.IFFT else -1
        angle = ctx.binary("multiply", parts, sign * 2 * math.pi / size)
        cosine, sine = (ctx.unary(f, angle) for f in ("cosine", "sine"))
        turns = ctx.complex(cosine, sine)
        return ctx.broadcast(turns, (*self.batch, *shape), [self.rank, self.rank + 1])

    # Numbers.

    @property
    def scalar(self) -> ir.Type:
        return self.ctx.tensor_type((), self.index)

    def start(self, rows: RowsOfShards) -> Value:
        """Where in its first row the shard begins."""
        return self.ctx.modulo(self.ctx.times(self.shard, rows.shard), rows.width)

    def columns_here(self, shape: Sequence[int], dim: int) -> Value:
        """The number of each column that the shard transforms."""
        ctx = self.ctx
        first = ctx.broadcast(ctx.times(self.shard, self.steps.local_columns), shape)
        return ctx.binary("add", ctx.iota(shape, dim, self.index), first)

    # Values: their dimensions are counted behind the batch.

    def type_of(self, value: Value, *sizes: int) -> ir.Type:
        return self.ctx.tensor_type((*self.batch, *sizes), self.ctx.element_of(value))

    def reshaped(self, value: Value, *sizes: int) -> Value:
        return self.ctx.reshape(value, (*self.batch, *sizes))

    def ordered(self, value: Value, *order: int) -> Value:
        batch = range(self.rank)
        return self.ctx.transpose(value, [*batch, *(self.rank + d for d in order)])

    def turned(self, value: Value) -> Value:
        return self.ordered(value, 1, 0)

    def cut(self, value: Value, dim: int, start: int, count: int) -> Value:
        return self.ctx.cut(value, self.rank + dim, start, count)

    def longer(self, value: Value, dim: int, size: int, in_front: bool = False) -> Value:
        """With zeros behind, or in front."""
        dim += self.rank
        before = size - self.ctx.shape_of(value)[dim] if in_front else 0
        return self.ctx.lengthened(value, dim, before, size)

    def exchanged(self, value: Value) -> Value:
        """Block b of each shard goes to shard b; the blocks are the first dimension."""
        shape = self.ctx.shape_of(value)
        value = self.reshaped(value, math.prod(shape[self.rank :]))
        value = exchanged(self.ctx, value, self.layout, self.rank, self.shape)
        return self.ctx.reshape(value, shape)

    def conjugate(self, value: Value) -> Value:
        real, imaginary = self.ctx.parts(value)
        imaginary = self.ctx.unary("negate", imaginary)
        return self.ctx.complex(real, imaginary)

    def along_last(self, value: Value, kind: Kind, length: int, made: int) -> Value:
        """The last dimension transformed."""
        ctx = self.ctx
        shape, element = ctx.read_type(value.type)
        if kind is Kind.RFFT:
            element = self.op.result_element()
        elif kind is Kind.IRFFT:
            element = real_element(element)
        type_ = ctx.tensor_type((*shape[:-1], made), element)
        return ctx.value(TRANSFORM, [value], type_, transform_attributes(kind, length))
