"""Fourier transforms of no more than is read of them, and of no more than is not zero.

Of `jnp.fft.rfft2(x)[:8, :8]` most columns are dropped once the rows are transformed: their
transforms are cut before the columns are, and before any device sends its rows. What is put
between zeros, `jnp.fft.irfft2(jnp.zeros(...).at[:8, :8].set(c))`, is transformed along one
dimension before it is padded along the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtensor.dialect.mlir import Value, ir, made_by, users
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.cuts.early_slices import DimPart, Parts, cut_slice
from dtensor.passes.cuts.known_windows import update_of, updated_place
from dtensor.passes.cuts.nonzero import NonZero, Stretch, length_of
from dtensor.passes.ops.attributes import integers, shape_of, slice_numbers
from dtensor.passes.ops.four_steps import LENGTH, transform_kind
from dtensor.passes.ops.table import opdef
from dtensor.passes.ops.transform_rows import Kind
from dtensor.passes.rewriting.names import (
    DYNAMIC_UPDATE_SLICE,
    SCATTER,
    SLICE,
    TRANSFORM,
    TRANSPOSE,
)
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.split_transforms import SplitTransform

_SHARE_KEPT = 2  # of a dimension is kept at most
_MOST_VALUES = 100  # values behind a transform that are looked at

Dims = dict[int, int]  # of a transform's result, where they are in what is computed of it


def transform_less(function: Rewriting) -> None:
    """Cut along each dimension before others are transformed, and pad along it behind them."""
    for op in function.each(SLICE):
        _cut_at_once(function, op)
    for op in function.each(TRANSFORM, is_reverse=True):
        _cut_early(function, op)
    for op in function.each(TRANSFORM):
        _pad_late(function, op)


def _order(op: ir.Operation, key: Mapping[int, tuple[float, ...]]) -> list[int]:
    """The transformed dimensions in the order of their keys, as far as their kind leaves it open.

    What was real begins with the last dimension, and what is to be real ends with it.
    """
    rank, count = len(shape_of(op.operands[0])), len(integers(op.attributes[LENGTH]))
    dims = sorted(range(rank - count, rank), key=lambda d: key[d])
    kind, last = transform_kind(op), rank - 1
    others = [d for d in dims if d != last]
    if kind is Kind.RFFT:
        return [last, *others]
    return [*others, last] if kind is Kind.IRFFT else dims


# Slices, before.


def _cut_at_once(function: Rewriting, op: ir.Operation) -> None:
    """Slice what a transform gave where it was cut to its true size before."""
    first = made_by(SLICE, op.operands[0])
    moved = None if first is None else made_by(TRANSPOSE, first.operands[0])
    if first is None or moved is None or made_by(TRANSFORM, moved.operands[0]) is None:
        return
    numbers, inner = slice_numbers(op), slice_numbers(first)
    if set(inner[2]) == {1}:
        starts, limits = (
            [n + start for n, start in zip(places, inner[0], strict=True)] for places in numbers[:2]
        )
        make = Builder(op, function.made)
        function.replace(op, make.slice(first.operands[0], starts, limits, numbers[2]))


def _cut_early(function: Rewriting, op: ir.Operation) -> None:
    """Let slices of a transform be transforms of slices, in dimensions that are not its last."""
    value, slices = op.results[0], _slices_of(op.results[0])
    sizes = shape_of(value)
    if not slices or 0 in sizes:
        return
    kept = [_kept(slices, d, size) / size for d, size in enumerate(sizes)]
    counts = [function.shards.count((op.operands[0], d)) for d in range(len(sizes))]
    order = _order(op, {d: (counts[d] > 1, kept[d]) for d in range(len(sizes))})
    batch = range(len(sizes) - len(order))
    dims = [d for d in (*batch, *order[:-1]) if _SHARE_KEPT * kept[d] <= 1]
    if not dims:
        return
    if len(order) > 1:
        function.replace(op, _transformed(op, function, order, {}))
    parts = Parts(function.shards, function.made)
    for each, places in slices:
        cut_slice(parts, each, [(places[d], 0) for d in dims])
    function.drop(op, *(each for each, _ in slices))


def _slices_of(value: Value) -> list[tuple[ir.Operation, Dims]] | None:
    """The slices that alone are read of a value, or what is computed of each of its elements."""
    found, seen = list[tuple[ir.Operation, Dims]](), set[ir.Operation]()
    waiting = [(value, {d: d for d in range(len(shape_of(value)))})]
    while waiting:
        value, dims = waiting.pop()
        for op in users(value):
            if op in seen:
                continue
            seen.add(op)
            if op.name == SLICE:
                found.append((op, dims))
                continue
            left = _dims_behind(op, value, dims)
            if left is None or len(seen) > _MOST_VALUES:
                return None
            waiting.append((op.results[0], left))
    return found


def _dims_behind(op: ir.Operation, value: Value, dims: Dims) -> Dims | None:
    """Where dimensions of a value are in what is computed of it; None of what is not followed."""
    if op.name == TRANSPOSE:
        order = integers(op.attributes["permutation"])
        return {d: order.index(place) for d, place in dims.items()}
    if op.name == TRANSFORM:
        batch = len(shape_of(op.operands[0])) - len(integers(op.attributes[LENGTH]))
        return {d: place for d, place in dims.items() if place < batch}
    if op.name in (SCATTER, DYNAMIC_UPDATE_SLICE):
        is_followed = op.operands[0] == value != update_of(op) and updated_place(op) is not None
    else:
        is_followed = opdef(op.name).resizes and len(op.results) == 1
    return dims if is_followed else None


def _kept(slices: Sequence[tuple[ir.Operation, Dims]], dim: int, size: int) -> int:
    """How many elements along a dimension are in slices; those of equal ones count once."""
    found = dict[Stretch, None]()
    for op, dims in slices:
        if dim not in dims:
            return size
        starts, limits, _ = slice_numbers(op)
        found[starts[dims[dim]], limits[dims[dim]]] = None
    return length_of(found)


# Zeros, behind.


def _pad_late(function: Rewriting, op: ir.Operation) -> None:
    """Put zeros around the transform along some dimensions of what is not zero along others."""
    value: Value = op.operands[0]
    sizes, nonzero = shape_of(value), NonZero()
    if 0 in sizes:
        return
    found = {d: nonzero.of(value, d) for d in range(len(sizes))}
    counts = [function.shards.count((op.results[0], d)) for d in range(len(sizes))]
    order = _order(op, {d: (counts[d] == 1, -length_of(found[d])) for d in range(len(sizes))})
    kept = {
        d: parts
        for d, parts in found.items()
        if d != order[0] and parts and _SHARE_KEPT * length_of(parts) <= sizes[d]
    }
    if kept:
        function.replace(op, _transformed(op, function, order, kept))


def _transformed(
    op: ir.Operation, function: Rewriting, order: Sequence[int], kept: Mapping[int, list[Stretch]]
) -> Value:
    """One dimension transformed after another, of what is not zero.

    Args:
        op: the transform.
        function: where it stands.
        order: its dimensions.
        kept: by dimension the stretches that are not zero; not of the first one of `order`.
    """
    value: Value = op.operands[0]
    sizes = shape_of(value)
    cuts = Parts(function.shards, function.made)
    make = SplitTransform(op, 1, function.made)
    for d, stretches in kept.items():
        parts = [cuts.of(value, DimPart(d, start, end - start)) for start, end in stretches]
        value = make.joined(parts, d)
    for d in order:
        if d in kept:
            value = _between_zeros(make, value, d, kept[d], sizes[d])
        value = make.along(value, d)
    for d in kept:
        if d not in order:
            value = _between_zeros(make, value, d, kept[d], sizes[d])
    return value


def _between_zeros(
    make: Builder, value: Value, dim: int, stretches: Sequence[Stretch], size: int
) -> Value:
    """A value whose elements stand in these stretches of a dimension of this size, one by one."""
    if len(stretches) == 1:
        return make.lengthened(value, dim, stretches[0][0], size)
    parts, place, read = list[Value](), 0, 0
    for start, end in (*stretches, (size, size)):
        if place < start:
            shape = with_sizes(make.shape_of(value), dim, start - place)
            parts.append(make.zeros(make.tensor_type(shape, make.element_of(value))))
        if start < end:
            parts.append(make.cut(value, dim, read, end - start))
        place, read = end, read + end - start
    return make.joined(parts, dim)
