"""dtensor.qr: of split rows each shard factorises its own, and all of them the triangles (TSQR).

Demmel, Grigori, Hoemmen and Langou (2012). Q and R are unique but for the signs of columns and
rows. Those that reflectors give follow from the first rows of Q (Ballard and others 2014), from
which column after column is eliminated: each is reflected to the side where its diagonal is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.attributes import entries_of
from dtensor.dialect.dim import WHOLE
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import FACTOR, PRODUCT
from dtensor.passes.builder import Builder
from dtensor.passes.cost.model import all_gather_bytes, all_reduce_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import factorised
from dtensor.passes.ops.contraction import matrix_product
from dtensor.passes.ops.elements import real_element
from dtensor.passes.ops.loops import counted_loop
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, is_whole
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, element_bytes


def qr_rule(op: OpInfo) -> OpRule:
    """`bij->bij,bjj`; of split rows the triangles are gathered, and columns are whole."""
    builder, rows = RuleBuilder(op), len(op.operand_shapes[0]) - 2
    for d in range(rows):
        builder.share((0, d), (~0, d), (~1, d))
    builder.share((0, rows), (~0, rows), kind=FactorKind.TRANSFORM)
    builder.whole(0, rows + 1, "is made orthogonal column by column")
    return builder.build()


def qr_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Rows of zeros are rows of zeros of Q, and change nothing else."""
    rows = len(op.operand_shapes[0]) - 2
    return [(padding.Along(0, rows, fill=Reduction.SUM), padding.Along(~0, rows))]


def qr_flops(op: OpInfo) -> float:
    """2 m n^2 for the reflectors of m rows and n columns, and as much for their product."""
    *batch, rows, columns = op.operand_shapes[0]
    return 4.0 * math.prod(batch) * rows * columns**2


def _is_tall(placed: Placed) -> bool:
    """Whether rows are split, into shards that are matrices of no fewer rows than columns."""
    word = placed.operands[0].dims[-2]
    rows, columns = placed.op.operand_shapes[0][-2:]
    return word.split > 1 and word.is_contiguous and rows // word.split >= columns


def triangle_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The triangle of each shard on every device, and a sign for each column."""
    op, word = placed.op, placed.operands[0].dims[-2]
    *batch, _, columns = placed.shard(0)
    size = math.prod(batch) * element_bytes(op.operand_elements[0])
    triangle = (columns + 1) // 2 * (columns + 1) * size
    wire = all_gather_bytes(triangle * word.split, word.split)
    if op.operand_elements[0].startswith("complex"):
        size //= 2  # signs are real
    return (Traffic(word.axes, wire + all_reduce_bytes(columns * size, word.split), 2),)


def expand_whole(op: LocalOp) -> Sequence[Value]:
    """The calls that the op stands for."""
    return _factorised(op, op.operands[0])


def expand_triangles(op: LocalOp) -> Sequence[Value]:
    """Q and R of the shard, then of all triangles; the two Q multiplied."""
    ctx, layout = op.ctx, op.operand_layouts[0]
    *batch, word, _ = layout.dims
    *batch_sizes, _, columns = op.operand_shapes[0]
    p, many = word.split, len(batch)
    own, triangle = _factorised(op, op.operands[0])
    packed = _packed(op, triangle)
    *local, height, width = ctx.shape_of(packed)
    split, whole = (
        Layout.of((first, *batch, WHOLE, WHOLE), layout.mesh) for first in (word, WHOLE)
    )
    packed = ctx.reshape(packed, (1, *local, height, width))
    packed = ctx.relayout(packed, split, whole, (p, *batch_sizes, height, width))
    stacked = _unpacked(op, packed, columns)
    stacked = ctx.reshape(ctx.moved(stacked, 0, many), (*local, p * columns, columns))
    above, triangle = _factorised(op, stacked)
    complete = Layout.of((*batch, WHOLE, WHOLE), layout.mesh)
    above = ctx.relayout(above, complete, layout, (*batch_sizes, p * columns, columns))
    q = matrix_product(ctx, own, above)
    square = (*local, columns, columns)
    signs = _signs(op, ctx.slice(q, [0] * len(square), square), triangle)
    signs = ctx.convert(signs, ctx.element_of(q))
    ahead = list(range(many))
    q = ctx.binary("multiply", q, ctx.broadcast(signs, ctx.shape_of(q), [*ahead, many + 1]))
    signs = ctx.broadcast(signs, square, [*ahead, many])
    return [q, ctx.binary("multiply", triangle, signs)]


def _factorised(op: LocalOp, matrix: Value) -> list[Value]:
    """Q and R of matrices that the device has."""
    ctx = op.ctx
    (*batch, _, columns), element = ctx.read_type(matrix.type)
    factor, product = (entries_of(op.operation.attributes[name]) for name in (FACTOR, PRODUCT))
    scales = ctx.tensor_type((*batch, columns), element)
    made = ctx.create("stablehlo.custom_call", [matrix], [matrix.type, scales], factor)
    q = ctx.value("stablehlo.custom_call", list(made.results), matrix.type, product)
    square = (*batch, columns, columns)
    top = ctx.slice(made.results[0], [0] * len(square), square)
    return [q, ctx.select(_upper(ctx, square), top, 0)]


def _upper(make: Builder, shape: Sequence[int]) -> Value:
    """Where the last two indices are those of an upper triangle."""
    row, column = (make.iota(shape, d, "i32") for d in (len(shape) - 2, len(shape) - 1))
    return make.compare("GE", column, row)


def _packed(op: LocalOp, triangle: Value) -> Value:
    """Upper triangles in half the space: the lower rows turned round, ahead of the upper ones."""
    ctx = op.ctx
    *batch, _, size = ctx.shape_of(triangle)
    height, rank = (size + 1) // 2, len(batch) + 2
    turned = ctx.reversed(ctx.reversed(triangle, rank - 2), rank - 1)
    upper, lower = (
        ctx.slice(each, [0] * rank, [*batch, height, size]) for each in (triangle, turned)
    )
    upper = ctx.lengthened(upper, rank - 1, 1, size + 1)
    lower = ctx.lengthened(lower, rank - 1, 0, size + 1)
    shape = (*batch, height, size + 1)
    row, column = (ctx.iota(shape, d, "i32") for d in (rank - 2, rank - 1))
    return ctx.select(ctx.compare("GT", column, row), upper, lower)


def _unpacked(op: LocalOp, packed: Value, size: int) -> Value:
    """The upper triangles of many that are packed, `[..., size, size]`."""
    ctx = op.ctx
    *many, height, _ = ctx.shape_of(packed)
    rank, none = len(many) + 2, [0] * len(many)
    upper = ctx.slice(packed, [*none, 0, 1], [*many, height, size + 1])
    lower = ctx.slice(packed, [*none, 0, 0], [*many, size - height, size])
    lower = ctx.reversed(ctx.reversed(lower, rank - 2), rank - 1)
    both = ctx.joined([upper, lower], rank - 2) if size > height else upper
    return ctx.select(_upper(ctx, (*many, size, size)), both, 0)


def _signs(op: LocalOp, top: Value, triangle: Value) -> Value:
    """What reflectors would multiply the columns of Q with, 1 or -1, of its first rows and of R.

    The rows of the first shard tell. Where a column of Q is that of the identity, no reflection
    is made, and none is where there is nothing but zeros. R has real numbers on its diagonal, and
    of complex numbers the real part says to which side a column is reflected. Where that is zero,
    so is the element that it comes from, and reflectors make that negative: R tells.
    """
    ctx = op.ctx
    (*batch, size, _), element = ctx.read_type(top.type)
    real = real_element(element)
    row, square, ahead = (*batch, size), (*batch, size, size), list(range(len(batch)))
    real_row, pivot_type = ctx.tensor_type(row, real), ctx.tensor_type(batch, real)

    def real_part(make: Builder, value: Value, type_: ir.Type) -> Value:
        return value if real == element else make.value("stablehlo.real", [value], type_)

    def side(make: Builder, value: Value, otherwise: int | Value) -> Value:
        """-1 for negative numbers, 1 for positive ones."""
        one = make.constant_like(1, value)
        rest = make.select(make.compare("GT", value, 0), one, otherwise)
        return make.select(make.compare("LT", value, 0), -1, rest)

    on_diagonal = ctx.compare("EQ", *(ctx.iota(square, len(batch) + k, "i32") for k in (0, 1)))
    diagonal = ctx.select(on_diagonal, triangle, 0)
    diagonal = ctx.reduced(diagonal, len(batch) + 1, "sum")
    sides = side(ctx, real_part(ctx, diagonal, real_row), 1)

    def step(make: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
        left, signs = carried
        zero = make.constant(0, number.type)
        across, down = (
            make.dynamic_slice(left, [*[zero] * len(batch), *starts], (*batch, *shape))
            for starts, shape in (((number, zero), (1, size)), ((zero, number), (size, 1)))
        )
        across, down = make.reshape(across, row), make.reshape(down, row)
        place = make.iota(row, len(batch), "i32")
        is_here = make.compare("EQ", place, number)
        pivot = make.reduced(make.select(is_here, across, 0), len(batch), "sum")
        part = real_part(make, pivot, pivot_type)
        mine = make.select(is_here, sides, 0)
        same = side(make, part, make.reduced(mine, len(batch), "sum"))
        size_of = make.unary("abs", part)
        is_kept = make.compare("GE", size_of, 1)
        turned = make.unary("negate", same)
        sign = make.select(is_kept, same, turned)
        ends = make.binary("add", pivot, make.convert(same, element))
        share = make.binary("divide", down, make.broadcast(ends, row, ahead))
        outer = make.binary(
            "multiply",
            make.broadcast(share, square, [*ahead, len(batch)]),
            make.broadcast(across, square, [*ahead, len(batch) + 1]),
        )
        keeps = make.broadcast(is_kept, square, ahead) if batch else is_kept
        left = make.select(keeps, left, make.binary("subtract", left, outer))
        signs = make.select(is_here, make.broadcast(sign, row, ahead), signs)
        return [left, signs]

    signs = counted_loop(ctx, size, [top, ctx.zeros(real_row)], step)[1]
    axes = op.operand_layouts[0].dims[-2].axes
    signs = ctx.select(ctx.is_shard(axes, 0), signs, 0)
    return ctx.all_reduced(signs, axes, "sum")


TALL_QR = OpDef(
    qr_rule,
    (
        Algorithm("triangles", expand_triangles, _is_tall, triangle_bytes),
        Algorithm("local", expand_whole, is_whole(lambda op: -2)),
    ),
    flops=qr_flops,
    accuracy=factorised,
    padding=padding.Padding(ties=qr_ties),
)
