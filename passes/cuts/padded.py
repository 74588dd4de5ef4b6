"""Slices of what is computed of padded values, as in the gradient of a stencil.

A stencil slices a value with elements of its own around it. Its gradient pads what it got to the
size with them, adds that up, and slices the sum: the stretch that is as long as what was padded,
and short ones at the ends. Here each of them is computed of slices of what was padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.align import read_along
from dtensor.passes.cuts.parts import Part, Parts
from dtensor.passes.cuts.pieces import CUTS, PAD
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.ops.attributes import integers, pad_numbers, shape_of, slice_numbers

_MOST = 100  # values looked at behind a slice

At = tuple[Value, int]  # a value and one of its dimensions


def cut_padded(parts: Parts, slices: Sequence[ir.Operation]) -> None:
    """Let slices of what is computed of padded values be computed of slices."""
    found = dict[At, int]()  # what is sliced, and how long what was padded is
    for op in slices:
        for d in cut_dims(op):
            count = shape_of(op.results[0])[d]
            if _is_kept(parts.shards, (op.operands[0], d), count):
                found.setdefault((op.operands[0], d), count)
    if not found:
        return
    wanted = [(op, [(d, found.get((op.operands[0], d))) for d in cut_dims(op)]) for op in slices]
    for op, dims in wanted:
        cut_slice(parts, op, [(d, least) for d, least in dims if least is not None])


def cut_slice(parts: Parts, op: ir.Operation, dims: Sequence[tuple[int, int]]) -> None:
    """Compute a slice of slices along some dimensions.

    Args:
        parts: make them.
        op: the slice.
        dims: the dimensions, each with how long a value is that is sliced itself.
    """
    value: Value = op.operands[0]
    starts, limits, strides = slice_numbers(op)
    for d, least in dims:
        value = parts.of(value, Part(d, starts[d], limits[d] - starts[d], least))
        starts[d], limits[d] = 0, limits[d] - starts[d]
    if value == op.operands[0]:
        return
    if limits != shape_of(value) or any(starts):
        value = Builder(op, parts.made).slice(value, starts, limits, strides)
    op.results[0].replace_all_uses_with(value)


def cut_dims(op: ir.Operation) -> list[int]:
    """The dimensions that a slice cuts one stretch out of."""
    sizes, kept = shape_of(op.operands[0]), shape_of(op.results[0])
    strides = integers(op.attributes["strides"])
    return [d for d, size in enumerate(sizes) if 0 < kept[d] < size and strides[d] == 1]


def _is_kept(shards: Shards, at: At, count: int) -> bool:
    """Whether `count` elements are most of a value computed of what shards hold, with padding."""
    op = maker_of(at[0])
    if 2 * count <= _size(at) or op is None or op.name in CUTS or shards.splits(at):
        return False
    padded = [
        place
        for op, place in _read_by(at, is_any_size=False)
        if op.name == PAD and _size(place) == count and not pad_numbers(op)[2][place[1]]
    ]
    return any(
        _size(place) == count and shards.splits(place)
        for start in padded
        for place in (start, *(place for _, place in _read_by(start, is_any_size=True)))
    )


def _size(at: At) -> int:
    return shape_of(at[0])[at[1]]


def _read_by(at: At, *, is_any_size: bool) -> Iterator[tuple[ir.Operation, At]]:
    """The operations that compute a value, each element by itself, and what they read.

    Args:
        at: the value.
        is_any_size: whether to go on behind cuts that change the size.
    """
    seen, left = {at}, [at]
    while left and len(seen) < _MOST:
        value, dim = left.pop()
        op = maker_of(value)
        if op is None or len(op.results) != 1:
            continue
        if op.name in CUTS:
            near = [(operand, dim) for operand in op.operands if shape_of(operand)]
        else:
            near = [(op.operands[k], d) for k, d in (read_along(op, dim) or {}).items()]
        for place in near:
            yield op, place
            if place not in seen and (is_any_size or _size(place) == _size((value, dim))):
                seen.add(place)
                left.append(place)
