"""Products with known matrices of a few diagonals: blocks of results, each of which reads a frame.

`jax.image.resize` multiplies with weights that it computes of positions alone. Each row of the
result reads a few rows of the image. Blocks of rows read frames of the image that are equally far
apart: these are slices of the image side by side, and a split dimension stays split. Where rows and
results have few blocks in common, as 63 and 125 have, each shard has one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
_WORK = 1000  # multiplications, in the time in which one element is sent
_COUNTS = ("ui8", "ui16", "ui32", "ui64")  # what elements are counted in


@dataclass(frozen=True)
class _Split:
    """How the dimensions of a band are split, that of its inputs and that of its outputs.

    Attributes:
        shards: how many.
        is_kept: of each, whether it becomes no longer than a layout given asks for.
    """

    shards: int
    is_kept: tuple[bool, bool]

    def sent(self, frames: Frames, sizes: Sequence[int]) -> int:
        """How many rows a shard sends and gets, where it has some number of whole blocks."""
        apart, each = 0, -(-frames.count // self.shards)
        for size, is_kept in zip(sizes, self.is_kept, strict=True):
            apart += is_kept * (each * -(-size // frames.count) - -(-size // self.shards))
        return frames.length - frames.hop + (self.shards - 1) * apart


def _frames_of(is_read: Numbers, split: _Split, more: int) -> Frames | None:
    """Which inputs each block of outputs reads, by a matrix [inputs, outputs].

    Blocks of one pattern are as many as inputs and outputs have in common. Or there is one for each
    shard: where the others are few, or where less is sent so and not much more computed.

    Args:
        is_read: where the matrix is not zero.
        split: how they are split.
        more: by how many elements frames are to be longer at both ends.

    Returns:
        A frame for each block; None if frames are long.
    """
    (inputs, outputs), shards = is_read.shape, split.shards
    if not is_read.any():
        return None
    small = _in_blocks_of(is_read, math.gcd(inputs, outputs), more)
    large = _in_blocks_of(is_read, shards, more)
    if large.length > 2 * large.hop or min(inputs, outputs) < shards:
        return small if _TIMES_A_FRAME * small.length <= inputs else None
    if _TIMES_A_FRAME * small.length > inputs:
        return large
    saved = split.sent(small, is_read.shape) - split.sent(large, is_read.shape)
    work = -(-outputs // shards) * (large.length - small.length)
    return large if work < _WORK * saved else small


def _in_blocks_of(is_read: Numbers, count: int, more: int) -> Frames:
    """A frame for each of `count` blocks of outputs."""
    step, made = (-(-size // count) for size in is_read.shape)
    rows, columns = np.nonzero(is_read)
    offsets = rows - step * (columns // made)
    return Frames(int(offsets.min()) - more, step, count, int(np.ptp(offsets)) + 1 + 2 * more)


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
        if len(shape_of(weights)) != 2 or not _is_of_one_type(op):
            continue
        known = _known(weights)
        written = next(known, None)
        if written is None:
            continue
        count = shards.nearly((value, dim))
        if count == 1:
            continue
        result: Value = op.results[0]
        outputs = 0 if k == 0 else len(shape_of(result)) - 1
        split = _Split(count, (shards.keeps(value, dim), shards.keeps(result, outputs)))
        band = _band(written, known, dims[k][0], split)
        if band is not None:
            return _written(op, k, (dims[k][0], dim), band, count, made)
    return None


def _is_of_one_type(op: ir.Operation) -> bool:
    types = {element_of(v) for v in (*op.operands, *op.results)}
    return len(types) == 1


def _known(weights: Value) -> Iterator[Numbers]:
    """A matrix as it is written, then as XLA may compute it; nothing if it is not known.

    One that is rounded to 16 bits in the end is zero where it was, and maybe elsewhere.
    """
    rounded = made_by(CONVERT, weights)
    if rounded is not None and holds_floats(*map(element_of, (weights, rounded.operands[0]))):
        weights = rounded.operands[0]
    yield from known_floats(weights)


def _band(written: Numbers, others: Iterator[Numbers], inputs: int, split: _Split) -> Frames | None:
    """The frames of a known matrix, of which one dimension, `inputs`, is that of the inputs.

    Where rounding decides which numbers are zero, XLA may find others: frames are longer by one
    then.
    """
    is_written = (written if inputs == 0 else written.T) != 0
    if not np.isfinite(written).all() or _frames_of(is_written, split, 0) is None:
        return None
    is_alike = all(np.array_equal(found != 0, written != 0) for found in others)
    return _frames_of(is_written, split, 0 if is_alike else 1)


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
    outputs = make.shape_of(weights)[1]
    each = -(-outputs // band.count)  # block
    weights = make.lengthened(weights, 0, 0, band.count * band.hop)
    weights = make.lengthened(weights, 1, 0, band.count * each)
    value = make.lengthened(value, dim, 0, band.count * band.hop)
    blocks, frames = _blocks(make, weights, band), band.taken(make, value, dim)
    found = _product(op, make, frames, blocks, dim)
    total = _total(make, _bad(make, value), dim, count, band)
    found = _spoilt(op, make, found, total, (_bad(make, frames), blocks), dim)
    # [block, others, output of a block]: outputs come first if the band does, else last.
    place = 0 if side == 0 else rank - 1
    found = make.moved(found, rank, 1) if side == 0 else make.moved(found, 0, rank - 1)
    found = make.regrouped(found, place, band.count * each, count=2)
    return make.cut(found, place, 0, outputs)


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

    So each of `count` shards need not count beyond that, and sums of bytes are sent. Where the
    shards do not have whole blocks, all are counted: then the dimension becomes longer, and is not
    cut into these.
    """
    size, most = make.shape_of(bad)[dim], count * (band.length + 1)
    if band.count % count or most >= size:
        counted = _count_in(size)
        total = make.reduced(make.convert(bad, counted), dim, "sum")
    else:
        apart = make.regrouped(bad, dim, count, size // count)
        each = make.reduced(apart, dim + 1, "sum")
        each = make.binary("minimum", each, band.length + 1)
        total = make.reduced(make.convert(each, _count_in(most)), dim, "sum")
    return make.convert(total, make.element_of(bad))


def _count_in(most: int) -> str:
    """The narrowest integers that count so far."""
    return next(each for each in _COUNTS if most < 1 << int(each[2:]))


def _bad(make: Builder, value: Value) -> Value:
    """1 where an element is infinite or NaN, else 0."""
    return make.convert(make.compare("NE", make.binary("multiply", value, 0), 0), "f32")
