"""Slices with a stride and pads with gaps, in two steps: whole rows of blocks, then a cut.

`x[2::2]` is `x[::2][1:]`. The first step keeps one element of each block of two, which every shard
does by itself; the second is a cut like others. So an associative scan, which halves values and
interleaves them again, moves one element per shard and step.

This is done only where more than half of the blocks are kept: few elements are better computed
where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, operation_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.names import CUTS, PAD, SLICE
from dtensor.passes.cuts.pieces import kept_of
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers


def split_strides(function: Rewriting) -> None:
    """Write slices and pads in two steps, in program order."""
    splitter = _Splitter()
    for op in function.named(SLICE, PAD):
        steps = splitter.steps(op)
        function.made += steps
        function.replace(op, steps[-1].results[0] if steps else None)


@dataclass
class _Splitter:
    """Writes slices and pads in two steps."""

    _blocks: dict[tuple[Value, ir.Block], list[tuple[ir.Operation, int]]] = field(
        default_factory=dict
    )  # slices that keep one element of each block along a dimension

    def steps(self, op: ir.Operation) -> list[ir.Operation]:
        """The operations that stand for one; none where it stays."""
        if op.name == PAD:
            return _split_pad(op)
        made = _of_cropped(op) or _of_joined(op)
        last = made[-1] if made else op
        made += _split_slice(last) or self._of_blocks(last)
        first = made[0] if made else op
        dim = _strided_dim(first)
        if dim is not None:
            self._blocks.setdefault((first.operands[0], op.block), []).append((first, dim))
        return made

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


def _split_slice(op: ir.Operation) -> list[ir.Operation]:
    starts, limits, strides = slice_numbers(op)
    sizes, kept = shape_of(op.operands[0]), shape_of(op.results[0])
    whole = list(kept)
    cut = [(0, size) for size in kept]
    for d, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if stride > 1 and size % stride == 0 and kept[d] < size // stride < 2 * kept[d]:
            whole[d] = size // stride
            cut[d] = starts[d] // stride, starts[d] // stride + kept[d]
            starts[d] %= stride
            limits[d] = starts[d] + (whole[d] - 1) * stride + 1
    if whole == kept:
        return []
    first = _sliced(op, op.operands[0], starts, limits, strides)
    return [first, _sliced(op, first, *zip(*cut, strict=True))]


def _split_pad(op: ir.Operation) -> list[ir.Operation]:
    lows, highs, gaps = pad_numbers(op)
    sizes, padded = shape_of(op.operands[0]), shape_of(op.results[0])
    whole, before, behind = list(sizes), [0] * len(sizes), [0] * len(sizes)
    for d, (size, gap) in enumerate(zip(sizes, gaps, strict=True)):
        blocks, rest = divmod(padded[d], gap + 1)
        is_inside = lows[d] >= 0 and highs[d] >= 0 and size < blocks < 2 * size
        if gap and not rest and is_inside:
            whole[d], before[d] = blocks, lows[d] // (gap + 1)
            behind[d] = blocks - size - before[d]
            lows[d] %= gap + 1
            highs[d] = gap - lows[d]
    if whole == sizes:
        return []
    made: list[ir.Operation] = []
    make, (value, fill) = Builder(op, made), op.operands
    make.pad(make.pad(value, fill, before, behind), fill, lows, highs, gaps)
    return made


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
