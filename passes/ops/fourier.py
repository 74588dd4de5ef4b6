"""Fourier transforms: each row by itself, a split row in four steps.

A row of N = p L elements is p rows of L. Element n = L a + b gives element k = c + p d by a
transform of a to c, a turn of each number by b c / N of a circle, and a transform of b to d (Cooley
and Tukey 1965). Before each transform the shards exchange blocks, and afterwards to put k in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.cost.model import all_to_all_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import ELEMENTARY, Accuracy
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.exchanges import dealt, exchanged
from dtensor.passes.ops.linalg import leading
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule

Value = ir.Value[Any]


def fft_rule(op: OpInfo) -> OpRule:
    """`bi->bi`; one `i` of complex numbers may be split, others are whole. Parts of a sum pass."""
    shape = op.operand_shapes[0]
    lengths = integers(op.attribute("fft_length"))
    builder = leading(op, len(shape) - len(lengths), "is transformed")
    if len(lengths) == 1 and _is_complex(op) and shape[-1]:
        factor = builder.factor(shape[-1], kind=FactorKind.TRANSFORM)
        builder.operand(0, len(shape) - 1, factor)
        builder.result(0, len(shape) - 1, factor)
    builder.passes([Reduction.SUM], [Reduction.SUM])
    return builder.build()


def fft_flops(op: OpInfo) -> float:
    """5 n log2 n of each transform of n points."""
    points = max(math.prod(integers(op.attribute("fft_length"))), 2)
    elements = max(math.prod(op.operand_shapes[0]), math.prod(op.result_shapes[0]))
    return 5.0 * elements * math.log2(points)


def fft_accuracy(op: OpInfo) -> Accuracy:
    """One rounding after another in each of log2 n steps."""
    length = math.prod(integers(op.attribute("fft_length")))
    return Accuracy(ELEMENTARY * (2 + math.log2(max(length, 1))), of_tensor=True)


def _is_complex(op: OpInfo) -> bool:
    """Whether a transform of complex numbers to complex numbers."""
    return op.operand_elements == op.result_elements


def _is_split(placed: Placed) -> bool:
    """Whether the dimension that is transformed is split, into shards that their number divides."""
    shape = placed.op.operand_shapes[0]
    word = placed.operands[0].dims[-1]
    return word.split > 1 and word.is_contiguous and shape[-1] % word.split**2 == 0


def _is_whole(placed: Placed) -> bool:
    count = len(integers(placed.op.attribute("fft_length")))
    return all(word.split == 1 for word in placed.operands[0].dims[-count:])


def step_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """All elements, three times."""
    from dtensor.passes.graph import element_bytes  # the graph reads the table of operations

    op, word = placed.op, placed.operands[0].dims[-1]
    count = math.prod(placed.operands[0].local_shape(op.operand_shapes[0]))
    held = count * element_bytes(op.operand_elements[0])
    return (Traffic(word.axes, 3 * all_to_all_bytes(held, word.split), 3),)


def expand_steps(op: LocalOp) -> Sequence[Value]:
    """Transforms over the shards, turns, transforms in the shards, and the order of the result."""
    ctx, layout, shape = op.ctx, op.operand_layouts[0], op.operand_shapes[0]
    dim = layout.rank - 1
    p, local = layout.dims[dim].split, shape[dim] // layout.dims[dim].split
    rows = ctx.shape_of(op.operands[0])[:dim]

    def exchange(value: Value) -> Value:
        return exchanged(ctx, value, layout, dim, shape)

    value = dealt(ctx, exchange(op.operands[0]), dim, local // p)  # p of the same b side by side
    value = _transformed(op, ctx.reshape(value, (*rows, local // p, p)), p)
    value = ctx.binary("multiply", value, _turns(op, rows, local // p, p))
    value = dealt(ctx, ctx.reshape(value, (*rows, local)), dim, p)
    value = _transformed(op, exchange(value), local)
    return [dealt(ctx, exchange(value), dim, local // p)]


def _transformed(op: LocalOp, value: Value, length: int) -> Value:
    """The last dimension transformed."""
    attributes = {
        "fft_type": op.operation.attributes["fft_type"],
        "fft_length": ir.DenseI64ArrayAttr.get([length]),
    }
    return op.ctx.value("stablehlo.fft", [value], value.type, attributes)


def _turns(op: LocalOp, rows: Sequence[int], block: int, p: int) -> Value:
    """What each number is multiplied with: `exp(-2 pi i b c / N)`, c its place among p of one b."""
    ctx, word, size = op.ctx, op.operand_layouts[0].dims[-1], op.operand_shapes[0][-1]
    element = ctx.element_of(op.operands[0])[8:-1]
    index = "i32" if size < 2**31 else "i64"
    shard = ctx.convert(ctx.axis_index(word.axes), index)
    shape = (block, p)
    b = ctx.iota(shape, 0, index)
    b = ctx.binary("add", b, ctx.broadcast(ctx.times(shard, block), shape))
    parts = ctx.binary("multiply", b, ctx.iota(shape, 1, index))
    # Half a circle either way: a float says the smaller angle more exactly.
    is_more = ctx.compare("GT", parts, ctx.constant_like(size // 2, parts))
    less = ctx.binary("subtract", parts, ctx.constant_like(size, parts))
    parts = ctx.convert(ctx.select(is_more, less, parts), element)
    sign = 1 if "IFFT" in str(op.operation.attributes["fft_type"]) else -1
    angle = ctx.binary("multiply", parts, ctx.constant_like(sign * 2 * math.pi / size, parts))
    cosine, sine = (ctx.value(f"stablehlo.{f}", [angle], angle.type) for f in ("cosine", "sine"))
    turn = ctx.tensor_type(shape, f"complex<{element}>")
    turns = ctx.value("stablehlo.complex", [cosine, sine], turn)
    return ctx.broadcast(turns, (*rows, *shape), [len(rows), len(rows) + 1])


FFT = OpDef(
    fft_rule,
    (
        Algorithm("four_steps", expand_steps, _is_split, step_bytes),
        Algorithm("local", applies=_is_whole),
    ),
    flops=fft_flops,
    must_divide=True,
    padding=padding.ANY,
    accuracy=fft_accuracy,
)
