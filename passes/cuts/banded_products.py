"""Products with known matrices of a few diagonals: blocks of results, each of which reads a frame.

`jax.image.resize` multiplies with weights that it computes of positions alone. Each row of the
result reads a few rows of the image. Blocks of rows read frames of the image that are equally far
apart: these are slices of the image side by side, and a split dimension stays split.
"""

from __future__ import annotations

import math

import numpy as np

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.frames import Frames
from dtensor.passes.ops.attributes import dot_sides, element_of, shape_of
from dtensor.passes.ops.contraction import product
from dtensor.passes.ops.elements import holds_floats
from dtensor.passes.ops.numbers import Numbers, known_floats
from dtensor.passes.rewriting.names import CONVERT, DOT
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards

_TIMES_A_FRAME = 4  # times as many elements as a frame has
_BYTE = 255


def _frames_of(is_read: Numbers, more: int) -> Frames | None:
    """Which inputs each block of outputs reads, by a matrix [inputs, outputs].

    Args:
        is_read: where the matrix is not zero.
        more: by how many elements frames are to be longer at both ends.

    Returns:
        A frame for each block; None if frames are long.
    """
    inputs, outputs = is_read.shape
    count = math.gcd(inputs, outputs)
    rows, columns = np.nonzero(is_read)
    if not len(rows):
        return None
    step, made = inputs // count, outputs // count
    offsets = rows - step * (columns // made)
    low, width = int(offsets.min()) - more, int(np.ptp(offsets)) + 1 + 2 * more
    return None if _TIMES_A_FRAME * width > inputs else Frames(low, step, count, width)


def write_in_blocks(function: Rewriting) -> None:
    """Rewrite the first product along a split dimension with a band matrix.

    Only the first: what it splits must be known when the next one is looked at.
    """
    for op in function.named(DOT):
        function.replace(op, _in_blocks(op, function.shards, function.made))
        if function.has_changed:
            break


def _in_blocks(op: ir.Operation, shards: Shards, made: list[ir.Operation]) -> Value | None:
    """What stands for a product with a band; None of any other."""
    batching, dims = zip(*dot_sides(op), strict=True)
    if batching[0] or len(dims[0]) != 1:
        return None
    for k in range(2):
        weights, value = op.operands[k], op.operands[1 - k]
        dim = dims[1 - k][0]
        if len(ir.RankedTensorType(weights.type).shape) != 2:
            continue
        band = _band(weights, dims[k][0])
        if band is None or not _is_of_one_type(op):
            continue
        count = shards.count((value, dim))
        if count > 1:
            return _written(op, k, (dims[k][0], dim), band, count, made)
    return None


def _is_of_one_type(op: ir.Operation) -> bool:
    types = {element_of(v) for v in (*op.operands, *op.results)}
    return len(types) == 1


def _band(weights: Value, inputs: int) -> Frames | None:
    """The frames of a known matrix, of which one dimension, `inputs`, is that of the inputs.

    Where rounding decides which numbers are zero, XLA may find others: frames are longer by one
    then. A matrix that is rounded to 16 bits in the end is zero where it was, and maybe elsewhere.
    """
    is_written, rounded = None, made_by(CONVERT, weights)
    if rounded is not None and holds_floats(*map(element_of, (weights, rounded.operands[0]))):
        weights = rounded.operands[0]
    for found in known_floats(weights):
        is_read = (found if inputs == 0 else found.T) != 0
        if is_written is None:
            is_written = is_read
            if not np.isfinite(found).all() or _frames_of(is_read, 0) is None:
                return None
        elif not np.array_equal(is_read, is_written):
            return _frames_of(is_written, 1)
    return None if is_written is None else _frames_of(is_written, 0)


def _written(
    op: ir.Operation,
    side: int,
    dims: tuple[int, int],
    band: Frames,
    count: int,
    made: list[ir.Operation],
) -> Value:
    """The product with a band matrix, written by frames.

    Operand `side` is the band. `dims` are its dimension of inputs, and the dimension, in `count`
    shards, along which the other operand is multiplied.
    """
    make, (weights, value) = Builder(op, made), (op.operands[side], op.operands[1 - side])
    inputs, dim = dims
    rank = len(shape_of(value))
    if inputs == 1:
        weights = make.transpose(weights, [1, 0])
    blocks, frames = _blocks(make, weights, band), band.taken(make, value, dim)
    found = _product(op, make, frames, blocks, dim)
    total = _total(make, _bad(make, value), dim, count, band)
    found = _spoilt(op, make, found, total, (_bad(make, frames), blocks), dim)
    # [block, others, output of a block]: outputs come first if the band does, else last.
    found = make.moved(found, rank, 1) if side == 0 else make.moved(found, 0, rank - 1)
    return make.reshape(found, shape_of(op.results[0]))


def _blocks(make: Builder, weights: Value, band: Frames) -> Value:
    """What is not zero of a matrix [inputs, outputs], as [block, element of the frame, output]."""
    count, outputs = band.count, make.shape_of(weights)[1] // band.count
    apart = make.reshape(weights, [count, band.hop, count, outputs])
    pieces = []
    for ahead, first, end in band.steps(band.start):
        inputs, block = (make.iota((count, count), d, "i32") for d in range(2))
        is_there = make.compare("EQ", inputs, make.binary("add", block, ahead))
        piece = make.cut(apart, 1, first, end - first)
        piece = make.select(is_there, piece, make.zero_of(weights), [0, 2])
        pieces.append(make.reduced(piece, 0, "sum"))
    return make.transpose(make.joined(pieces, 0), [1, 0, 2])


def _product(op: ir.Operation, make: Builder, frames: Value, blocks: Value, dim: int) -> Value:
    """Frames times weights, block by block: [block, others, output of a block]."""
    kept = [name for name in ("precision_config", "algorithm") if name in op.attributes]
    said = {name: op.attributes[name] for name in kept}
    element = make.element_of(frames)
    return product(make, [frames, blocks], [(dim, 0)], [(dim + 1, 1)], said, element)


def _spoilt(
    op: ir.Operation, make: Builder, found: Value, total: Value, read: tuple[Value, Value], dim: int
) -> Value:
    """The results, NaN where a zero of the matrix meets an element that is infinite or NaN.

    Args:
        op: the product.
        make: creates operations.
        found: the results of frames alone.
        total: how many such elements there are along the dimension, or more than a frame has.
        read: frames that are 1 for such elements and 0 for others; and the weights of frames.
        dim: the dimension of the frames.
    """
    frames, blocks = read
    has_weight = make.compare("NE", blocks, 0)
    counted = _product(op, make, frames, make.convert(has_weight, "f32"), dim)
    shape = make.shape_of(found)
    total = make.broadcast(total, shape, list(range(1, len(shape) - 1)))
    nan = make.constant(math.nan, make.tensor_type((), make.element_of(found)))
    return make.select(make.compare("GT", total, counted), nan, found)


def _total(make: Builder, bad: Value, dim: int, count: int, band: Frames) -> Value:
    """How many elements `bad` marks by 1; if more than a frame has, some such number.

    So each of `count` shards need not count beyond that, and sums of bytes are sent. Not where the
    shards do not have whole blocks: then the dimension becomes longer, and is not cut into these.
    """
    shape, width = make.shape_of(bad), band.length
    if band.count % count or count * (width + 1) > _BYTE:
        return make.reduced(bad, dim, "sum")
    apart = make.regrouped(bad, dim, count, shape[dim] // count)
    each = make.reduced(apart, dim + 1, "sum")
    each = make.binary("minimum", each, width + 1)
    total = make.reduced(make.convert(each, "ui8"), dim, "sum")
    return make.convert(total, make.element_of(bad))


def _bad(make: Builder, value: Value) -> Value:
    """1 where an element is infinite or NaN, else 0."""
    return make.convert(make.compare("NE", make.binary("multiply", value, 0), 0), "f32")
