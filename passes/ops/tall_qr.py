"""dtensor.qr: of split rows each shard factorises its own, and all of them the triangles (TSQR).

Demmel, Grigori, Hoemmen and Langou (2012). Q and R are unique but for the signs of columns and
rows. Those that reflectors give follow from the first rows of Q (Ballard and others 2014), from
which column after column is eliminated: each is reflected to the side where its diagonal is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtensor.dialect.dim import WHOLE
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ALL_REDUCE, AXES, FACTOR, PRODUCT, REDUCTION
from dtensor.passes.builder import Builder, integers_attr
from dtensor.passes.cost.model import all_gather_bytes, all_reduce_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import factorised
from dtensor.passes.ops.loops import counted_loop
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder

Value = ir.Value[Any]


def qr_rule(op: OpInfo) -> OpRule:
    """`ij->ij,jj`; of split rows the triangles are gathered, and columns are whole."""
    builder = RuleBuilder(op)
    rows = builder.factor(op.operand_shapes[0][0], kind=FactorKind.TRANSFORM)
    builder.operand(0, 0, rows)
    builder.result(0, 0, rows)
    builder.whole(0, 1, "is made orthogonal column by column")
    return builder.build()


def qr_flops(op: OpInfo) -> float:
    """2 m n^2 for the reflectors of m rows and n columns, and as much for their product."""
    rows, columns = op.operand_shapes[0]
    return 4.0 * rows * columns**2


def _is_tall(placed: Placed) -> bool:
    """Whether rows are split, into shards that are matrices of no fewer rows than columns."""
    word = placed.operands[0].dims[0]
    rows, columns = placed.op.operand_shapes[0]
    return word.split > 1 and word.is_contiguous and rows // word.split >= columns


def _is_whole(placed: Placed) -> bool:
    return placed.operands[0].dims[0].split == 1


def triangle_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The triangle of each shard on every device, and a sign for each column."""
    from dtensor.passes.graph import element_bytes  # the graph reads the table of operations

    op, word = placed.op, placed.operands[0].dims[0]
    columns, size = op.operand_shapes[0][1], element_bytes(op.operand_elements[0])
    triangle = (columns + 1) // 2 * (columns + 1) * size
    wire = all_gather_bytes(triangle * word.split, word.split)
    return (Traffic(word.axes, wire + all_reduce_bytes(columns * size, word.split), 2),)


def expand_whole(op: LocalOp) -> Sequence[Value]:
    """The calls that the op stands for."""
    return _factorised(op, op.operands[0])


def expand_triangles(op: LocalOp) -> Sequence[Value]:
    """Q and R of the shard, then of all triangles; the two Q multiplied."""
    ctx, layout = op.ctx, op.operand_layouts[0]
    word, columns = layout.dims[0], op.operand_shapes[0][1]
    p = word.split
    own, triangle = _factorised(op, op.operands[0])
    packed = _packed(op, triangle)
    height, width = ctx.shape_of(packed)
    split = Layout.of((word, WHOLE, WHOLE), layout.mesh)
    whole = Layout.of((WHOLE, WHOLE, WHOLE), layout.mesh)
    packed = ctx.reshape(packed, (1, height, width))
    packed = ctx.relayout(packed, split, whole, (p, height, width))
    stacked = ctx.reshape(_unpacked(op, packed, columns), (p * columns, columns))
    above, triangle = _factorised(op, stacked)
    complete = Layout.replicated(layout.mesh, 2)
    above = ctx.relayout(above, complete, layout, (p * columns, columns))
    q = _product(op, own, above)
    signs = _signs(op, ctx.slice(q, [0, 0], [columns, columns]))
    q = ctx.binary("multiply", q, ctx.broadcast(signs, ctx.shape_of(q), [1]))
    return [q, ctx.binary("multiply", triangle, ctx.broadcast(signs, (columns, columns), [0]))]


def _factorised(op: LocalOp, matrix: Value) -> list[Value]:
    """Q and R of a matrix that the device has."""
    ctx = op.ctx
    (_, columns), element = ctx.read_type(matrix.type)
    calls = [ir.DictAttr(op.operation.attributes[name]) for name in (FACTOR, PRODUCT)]
    entries = [[call[i] for i in range(len(call))] for call in calls]
    factor, product = ({entry.name: entry.attr for entry in call} for call in entries)
    scales = ctx.tensor_type((columns,), element)
    made = ctx.create("stablehlo.custom_call", [matrix], [matrix.type, scales], factor)
    q = ctx.value("stablehlo.custom_call", list(made.results), matrix.type, product)
    square = (columns, columns)
    top = ctx.slice(made.results[0], [0, 0], square)
    return [q, ctx.select(_upper(ctx, square), top, ctx.zeros(top.type))]


def _upper(make: Builder, shape: Sequence[int]) -> Value:
    """Where the last two indices are those of an upper triangle."""
    row, column = (make.iota(shape, d, "i32") for d in (len(shape) - 2, len(shape) - 1))
    return make.compare("GE", column, row)


def _packed(op: LocalOp, triangle: Value) -> Value:
    """An upper triangle in half the space: its lower rows turned round, ahead of its upper ones."""
    ctx = op.ctx
    (size, _), height = ctx.shape_of(triangle), (ctx.shape_of(triangle)[0] + 1) // 2
    zero = ctx.zeros(ctx.tensor_type((), ctx.element_of(triangle)))
    turned = ctx.reversed(ctx.reversed(triangle, 0), 1)
    upper, lower = (ctx.slice(each, [0, 0], [height, size]) for each in (triangle, turned))
    upper, lower = ctx.pad(upper, zero, [0, 1], [0, 0]), ctx.pad(lower, zero, [0, 0], [0, 1])
    shape = (height, size + 1)
    is_upper = ctx.compare("GT", ctx.iota(shape, 1, "i32"), ctx.iota(shape, 0, "i32"))
    return ctx.select(is_upper, upper, lower)


def _unpacked(op: LocalOp, packed: Value, size: int) -> Value:
    """The upper triangles of many that are packed, `[p, size, size]`."""
    ctx = op.ctx
    p, height, _ = ctx.shape_of(packed)
    upper = ctx.slice(packed, [0, 0, 1], [p, height, size + 1])
    lower = ctx.slice(packed, [0, 0, 0], [p, size - height, size])
    lower = ctx.reversed(ctx.reversed(lower, 1), 2)
    both = ctx.joined([upper, lower], 1) if size > height else upper
    return ctx.select(_upper(ctx, (p, size, size)), both, ctx.zeros(both.type))


def _product(op: LocalOp, left: Value, right: Value) -> Value:
    numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    highest = ir.Attribute.parse("#stablehlo<precision HIGHEST>")
    attributes = {
        "dot_dimension_numbers": ir.Attribute.parse(numbers),
        "precision_config": ir.ArrayAttr.get([highest, highest]),
    }
    return op.ctx.value("stablehlo.dot_general", [left, right], left.type, attributes)


def _signs(op: LocalOp, top: Value) -> Value:
    """What reflectors would multiply the columns of Q with, 1 or -1, of the first rows of Q.

    The rows of the first shard tell. Where a column of Q is that of the identity, no reflection
    is made, and none is where there is nothing but zeros.
    """
    ctx = op.ctx
    size, element = ctx.shape_of(top)[0], ctx.element_of(top)
    row = ctx.tensor_type((size,), element)

    def step(make: Builder, carried: Sequence[Value]) -> list[Value]:
        number, left, signs = carried
        zero = make.constant(0, number.type)
        across, down = (
            make.value(
                "stablehlo.dynamic_slice",
                [left, *starts],
                make.tensor_type(shape, element),
                {"slice_sizes": integers_attr(shape)},
            )
            for starts, shape in (((number, zero), (1, size)), ((zero, number), (size, 1)))
        )
        across, down = make.reshape(across, (size,)), make.reshape(down, (size,))
        is_here = make.compare("EQ", make.iota((size,), 0, "i32"), make.broadcast(number, (size,)))
        pivot = make.reduced(make.select(is_here, across, make.zeros(row)), 0, "sum")
        one = make.constant(1, pivot.type)
        minus = make.constant(-1, pivot.type)
        same = make.select(make.compare("LT", pivot, make.constant(0, pivot.type)), minus, one)
        size_of = make.value("stablehlo.abs", [pivot], pivot.type)
        is_kept = make.compare("GE", size_of, one)
        turned = make.value("stablehlo.negate", [same], same.type)
        sign = make.select(is_kept, same, turned)
        share = make.binary(
            "divide", down, make.broadcast(make.binary("add", pivot, same), (size,))
        )
        square = (size, size)
        outer = make.binary(
            "multiply", make.broadcast(share, square, [0]), make.broadcast(across, square, [1])
        )
        left = make.select(is_kept, left, make.binary("subtract", left, outer))
        signs = make.select(is_here, make.broadcast(sign, (size,)), signs)
        return [make.binary("add", number, make.constant(1, number.type)), left, signs]

    start = ctx.constant(0, ctx.tensor_type((), "i32"))
    signs = counted_loop(ctx, size, [start, top, ctx.zeros(row)], step)[2]
    axes = op.operand_layouts[0].dims[0].axes
    shard = ctx.axis_index(axes)
    is_first = ctx.compare("EQ", shard, ctx.constant_like(0, shard))
    signs = ctx.select(is_first, signs, ctx.zeros(row))
    attributes = {AXES: ctx.axes(axes), REDUCTION: ir.StringAttr.get("sum")}
    return ctx.value(ALL_REDUCE, [signs], row, attributes)


TALL_QR = OpDef(
    qr_rule,
    (
        Algorithm("triangles", expand_triangles, _is_tall, triangle_bytes),
        Algorithm("local", expand_whole, _is_whole),
    ),
    flops=qr_flops,
    accuracy=factorised,
    padding=padding.ANY,
)
