"""Slices with a stride and pads with gaps, in two steps: whole rows of blocks, then a cut.

`x[2::2]` is `x[::2][1:]`. The first step keeps one element of each block of two, which every shard
does by itself; the second is a cut like others. So an associative scan, which halves values and
interleaves them again, moves one element per shard and step.

This is done only where more than half of the blocks are kept: few elements are better computed
where they are.

Where a split dimension is no number of whole blocks, it is padded first: `x[::3]` of 512 elements
over 8 devices is that of `x` with 16 more behind it, 22 blocks of three for each device. So shards
fetch at most what their blocks lack. A pad with gaps is that of whole blocks likewise, of which the
last are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, operation_of
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.creation import place_behind
from dtensor.passes.cuts.pieces import kept_of
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.padding import PART
from dtensor.passes.rewriting.names import CUTS, PAD, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting


def split_strides(function: Rewriting) -> None:
    """Write slices with a stride and pads with gaps in two steps, those of most blocks."""
    splitter = _Splitter(function)
    for op in function.named(SLICE):
        steps = splitter.steps(op)
        function.made += steps
        function.replace(op, steps[-1].results[0] if steps else None)
    for op in reversed(function.named(PAD)):
        _split_pad(function, op)


@dataclass
class _Splitter:
    """Writes slices in two steps."""

    function: Rewriting
    # What is longer by so many elements in each dimension.
    _padded: dict[tuple[Value | int, ...], Value] = field(default_factory=dict)
    # Slices that keep one element of each block along a dimension.
    _blocks: dict[tuple[Value, ir.Block], list[tuple[ir.Operation, int]]] = field(
        default_factory=dict
    )

    def steps(self, op: ir.Operation) -> list[ir.Operation]:
        """The operations that stand for one; none where it stays."""
        made = self._of_whole_blocks(op)
        if not made:
            made = _of_cropped(op) or _of_joined(op)
            last = made[-1] if made else op
            made += _split_slice(last, last.operands[0]) or self._of_blocks(last)
        first = made[0] if made else op
        dim = _strided_dim(first)
        if dim is not None:
            self._blocks.setdefault((first.operands[0], op.block), []).append((first, dim))
        return made

    def _of_whole_blocks(self, op: ir.Operation) -> list[ir.Operation]:
        """A slice of what is longer by what the last blocks lack; none if they lack nothing."""
        value, kept = op.operands[0], shape_of(op.results[0])
        lacking = [0] * len(kept)
        for d, stride in enumerate(slice_numbers(op)[2]):
            if stride > 1 and shape_of(value)[d] < 2 * stride * kept[d]:
                lacking[d] = _lacking(self.function, value, d, stride)
        if not any(lacking):
            return []
        key = value, *lacking
        if key not in self._padded:
            behind = Trail(*place_behind(value), self.function.made)
            self._padded[key] = behind.pad(value, behind.zero_of(value), [0] * len(kept), lacking)
        _split_alike(self.function, op.results[0], value, lacking)
        return _split_slice(op, self._padded[key])

    def _of_blocks(self, op: ir.Operation) -> list[ir.Operation]:
        """A single element along a dimension, of an earlier slice that has one of each block."""
        starts, limits, strides = slice_numbers(op)
        kept = shape_of(op.results[0])
        for before, dim in self._blocks.get((op.operands[0], op.block), ()):
            if kept[dim] != 1:
                continue
            phases, _, steps = slice_numbers(before)
            phase, stride = phases[dim], steps[dim]
            if starts[dim] % stride == phase:
                starts[dim] //= stride
                limits[dim] = starts[dim] + 1
                return [_sliced(op, before, starts, limits, strides)]
        return []


def _strided_dim(op: ir.Operation) -> int | None:
    """The one dimension that a slice changes, if it keeps one element of each block there."""
    _, _, strides = slice_numbers(op)
    sizes, kept = shape_of(op.operands[0]), shape_of(op.results[0])
    changed = [d for d, size in enumerate(sizes) if size != kept[d]]
    is_whole = len(changed) == 1 and strides[changed[0]] * kept[changed[0]] == sizes[changed[0]]
    return changed[0] if is_whole else None


def _of_cropped(op: ir.Operation) -> list[ir.Operation]:
    """A slice with a stride of what a pad crops, as gradients have it: one slice of the whole."""
    (*ends, strides), pad = slice_numbers(op), made_by(PAD, op.operands[0])
    kept = kept_of(pad)
    if pad is None or kept is None or max([0, *strides]) < 2:
        return []
    starts, limits = (
        [at + first for at, (first, _) in zip(given, kept, strict=True)] for given in ends
    )
    return [_sliced(op, pad.operands[0], starts, limits, strides)]


def _of_joined(op: ir.Operation) -> list[ir.Operation]:
    """A slice with a stride of what was joined or padded: of as many blocks as are kept of it."""
    if maker_of(op.operands[0]) is None or operation_of(op.operands[0]).name not in CUTS:
        return []
    starts, limits, strides = slice_numbers(op)
    sizes, kept = shape_of(op.operands[0]), shape_of(op.results[0])
    whole = [(0, size) for size in sizes]
    for d, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        count = stride * kept[d]
        phase = max(0, starts[d] + count - size)
        if stride > 1 and 0 < count < size and phase < min(stride, starts[d] + 1):
            whole[d] = starts[d] - phase, starts[d] - phase + count
            starts[d], limits[d] = phase, phase + count - stride + 1
    if whole == [(0, size) for size in sizes]:
        return []
    first = _sliced(op, op.operands[0], *zip(*whole, strict=True))
    return [first, _sliced(op, first, starts, limits, strides)]


def _split_slice(op: ir.Operation, value: Value) -> list[ir.Operation]:
    """A slice of `value`: what is sliced, or that with more behind it; none where it is one."""
    starts, limits, strides = slice_numbers(op)
    kept = shape_of(op.results[0])
    whole = list(kept)
    cut = [(0, size) for size in kept]
    for d, (size, stride) in enumerate(zip(shape_of(value), strides, strict=True)):
        blocks, rest = divmod(size, stride)
        if stride > 1 and not rest and shape_of(op.operands[0])[d] < 2 * stride * kept[d]:
            first, starts[d] = divmod(starts[d], stride)
            whole[d], cut[d] = blocks, (first, first + kept[d])
            limits[d] = size
    if value == op.operands[0] and whole == kept:
        return []
    made = [_sliced(op, value, starts, limits, strides)]
    if whole != kept:
        made.append(_sliced(op, made[0], *zip(*cut, strict=True)))
    return made


def _split_pad(function: Rewriting, op: ir.Operation) -> None:
    """Put blocks around those of a value, then gaps into each; cut off what the last lacks."""
    (value, fill), padded = op.operands, shape_of(op.results[0])
    lows, highs, gaps = pad_numbers(op)
    sizes = shape_of(value)
    lacking, before, behind = [0] * len(sizes), [0] * len(sizes), [0] * len(sizes)
    for d, (size, gap) in enumerate(zip(sizes, gaps, strict=True)):
        block = gap + 1
        if not gap or min(lows[d], highs[d]) < 0 or padded[d] >= 2 * block * size:
            continue
        lacking[d] = _lacking(function, op.results[0], d, block)
        blocks, rest = divmod(padded[d] + lacking[d], block)
        if not rest:
            before[d], lows[d] = divmod(lows[d], block)
            behind[d], highs[d] = blocks - size - before[d], gap - lows[d]
    if any(lacking) or any(before) or any(behind):
        make = Builder(op, function.made)
        whole = make.pad(make.pad(value, fill, before, behind), fill, lows, highs, gaps)
        _split_alike(function, value, op.results[0], lacking)
        is_cut = any(lacking)
        function.replace(op, make.slice(whole, [0] * len(padded), padded) if is_cut else whole)


def _lacking(function: Rewriting, value: Value, dim: int, block: int) -> int:
    """How few elements a split dimension lacks for each shard to be of whole blocks; 0 if many."""
    size, shards = shape_of(value)[dim], function.shards.count((value, dim))
    lacking = -size % (shards * block) if shards > 1 else 0
    return lacking if PART * lacking <= size else 0


def _split_alike(function: Rewriting, value: Value, other: Value, lacking: Sequence[int]) -> None:
    """A value is split as another one is, in the dimensions that lack elements."""
    for d, count in enumerate(lacking):
        if count:
            function.shards.will_split(value, d, function.shards.count((other, d)))


def _sliced(
    op: ir.Operation,
    value: Value | ir.Operation,
    starts: Sequence[int],
    limits: Sequence[int],
    strides: Sequence[int] | None = None,
) -> ir.Operation:
    """A slice of a value, or of what an operation gives, before the operation at hand."""
    value = value.results[0] if isinstance(value, ir.Operation) else value
    return operation_of(Builder(op).slice(value, starts, limits, strides))
