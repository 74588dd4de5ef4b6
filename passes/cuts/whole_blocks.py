"""Split dimensions of no number of whole blocks, for slices with a stride and pads with gaps.

`x[::3]` of 512 elements over 8 devices is that of `x` with 16 more behind it: 22 blocks of three
for each device, which keeps one element of each. So shards fetch at most what their blocks lack.
The gradient, a pad with gaps, is that of whole blocks likewise, of which the last are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.creation import place_behind
from dtensor.passes.cuts.names import PAD, SLICE
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.padding import PART

_Padded = dict[tuple[Value | int, ...], Value]  # by a value, and by how much it is longer


def fill_blocks(function: Rewriting) -> None:
    """Let slices with a stride and pads with gaps have whole blocks, those of most of them."""
    padded: _Padded = {}
    for op in function.named(SLICE):
        _fill_slice(function, op, padded)
    for op in reversed(function.named(PAD)):
        _fill_pad(function, op)


def _fill_slice(function: Rewriting, op: ir.Operation, padded: _Padded) -> None:
    value, kept = op.operands[0], shape_of(op.results[0])
    starts, limits, strides = slice_numbers(op)
    lacking, cut = [0] * len(kept), [(0, size) for size in kept]
    for d, (size, stride) in enumerate(zip(shape_of(value), strides, strict=True)):
        if stride > 1 and size < 2 * stride * kept[d]:
            lacking[d] = _lacking(size, stride, function.shards.count((value, d)))
        if lacking[d]:
            first, starts[d] = divmod(starts[d], stride)
            cut[d] = first, first + kept[d]
            limits[d] = size + lacking[d]
    if not any(lacking):
        return
    key = value, *lacking
    if key not in padded:
        behind = Trail(*place_behind(value), function.made)
        padded[key] = behind.pad(value, behind.zero_of(value), [0] * len(kept), lacking)
    make = Builder(op, function.made)
    made = make.slice(padded[key], starts, limits, strides)
    if shape_of(made) != kept:
        made = make.slice(made, *zip(*cut, strict=True))
    _split_alike(function, op.results[0], value, lacking)
    function.shards.stand(made, op.results[0])
    function.replace(op, made)


def _fill_pad(function: Rewriting, op: ir.Operation) -> None:
    (value, fill), padded = op.operands, shape_of(op.results[0])
    lows, highs, gaps = pad_numbers(op)
    sizes = shape_of(value)
    lacking, before, behind = [0] * len(sizes), [0] * len(sizes), [0] * len(sizes)
    for d, (size, gap) in enumerate(zip(sizes, gaps, strict=True)):
        block = gap + 1
        if gap and lows[d] >= 0 and highs[d] >= 0 and padded[d] < 2 * block * size:
            lacking[d] = _lacking(padded[d], block, function.shards.count((op.results[0], d)))
        if lacking[d]:
            before[d], lows[d] = divmod(lows[d], block)
            behind[d] = (padded[d] + lacking[d]) // block - size - before[d]
            highs[d] = gap - lows[d]
    if any(lacking):
        make = Builder(op, function.made)
        whole = make.pad(make.pad(value, fill, before, behind), fill, lows, highs, gaps)
        _split_alike(function, value, op.results[0], lacking)
        function.replace(op, make.slice(whole, [0] * len(padded), padded))


def _lacking(size: int, block: int, shards: int) -> int:
    """How few elements a split dimension lacks for each shard to be of whole blocks; 0 if many."""
    lacking = -size % (shards * block) if shards > 1 else 0
    return lacking if PART * lacking <= size else 0


def _split_alike(function: Rewriting, value: Value, other: Value, lacking: Sequence[int]) -> None:
    """A value is split as another one is, in the dimensions that lack elements."""
    for d, count in enumerate(lacking):
        if count:
            function.shards.split(value, d, function.shards.count((other, d)))
