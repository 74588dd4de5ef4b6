"""Slices of one joined part, and slices of several dimensions, one dimension at a time.

What a slice reads of one of several joined values, it reads of that value: the others may be dear,
as the larger part is of `jnp.partition(x, 10)[:10]`.

Of `x[:4, -8:]` either each dimension is divided for itself, in what the other one left, or `x` is
moved as the whole slice wants it. Where a layout splits one of them, the slice becomes several:
those of dimensions that are whole come first, for they are local, then what leaves the least.
Not where the layout does not divide: what is in between would be padded, and cut to its true size.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir, made_by, users
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.creation import place_behind
from dtensor.passes.ops.attributes import integer, shape_of, slice_numbers
from dtensor.passes.ops.padding import PART
from dtensor.passes.rewriting.names import CONCATENATE, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting

_FEW_PARTS = 4  # of fewer equal parts, one is a block: it is cut as all are laid out
_Stretch = tuple[int, int, int]  # where it begins and ends, and its stride


def read_parts(function: Rewriting) -> None:
    """Let slices read the joined part in which all lies that they read."""
    for op in function.named(SLICE):
        value, starts = op.operands[0], None
        while (joined := _joined_for(value)) is not None:
            dim = integer(joined.attributes["dimension"])
            first, limits, strides = starts or slice_numbers(op)
            found = _part_of(joined, dim, first[dim], limits[dim])
            if found is None:
                break
            value, before = found
            starts = (_moved(first, dim, before), _moved(limits, dim, before), strides)
        if starts is not None:
            make = Builder(op, function.made)
            function.replace(op, make.slice(value, *starts))


def _joined_for(value: Value) -> ir.Operation | None:
    """What joins the parts of a value of which slices alone are read."""
    joined = made_by(CONCATENATE, value)
    is_sliced = joined is not None and all(user.name == SLICE for user in users(value))
    return joined if is_sliced else None


def _part_of(joined: ir.Operation, dim: int, start: int, limit: int) -> tuple[Value, int] | None:
    """The joined value that has the elements from `start` to `limit`, and how many stand before."""
    before = 0
    for value in joined.operands:
        size = shape_of(value)[dim]
        if before <= start and limit <= before + size:
            return value, before
        before += size
    return None


def _moved(places: Sequence[int], dim: int, before: int) -> list[int]:
    return [place - before if d == dim else place for d, place in enumerate(places)]


def cut_one_by_one(function: Rewriting) -> None:
    """Slice along one dimension at a time; what several slices begin with is sliced once."""
    made: dict[tuple[Value, int, _Stretch], Value] = {}
    for op in function.named(SLICE):
        value: Value = op.operands[0]
        stretches = list(zip(*slice_numbers(op), strict=True))
        for d in _order(op, function):
            key = value, d, stretches[d]
            if key not in made:
                made[key] = _cut(function, *key)
            value = made[key]
        if value != op.operands[0]:
            function.replace(op, value)


def _order(op: ir.Operation, function: Rewriting) -> list[int]:
    """The dimensions to slice one after another; none where the slice is better left as it is."""
    value, kept = op.operands[0], shape_of(op.results[0])
    sizes = shape_of(value)
    dims = [d for d, size in enumerate(sizes) if kept[d] < size]
    if len(dims) < 2 or 0 in kept:
        return []
    stretches = list(zip(*slice_numbers(op), strict=True))
    if not any(_moves_much(sizes[d], kept[d], stretches[d]) for d in dims):
        return []
    shards = {d: function.shards.count((value, d)) for d in dims}
    if max(shards.values()) == 1 or any(sizes[d] % shards[d] for d in dims):
        return []
    return sorted(dims, key=lambda d: (shards[d] > 1, kept[d] / sizes[d]))


def _moves_much(size: int, kept: int, stretch: _Stretch) -> bool:
    """Whether few elements are kept, or shards of them begin far from those of all."""
    start, limit, stride = stretch
    if limit - start == kept and not (size % kept or start % kept):
        return size >= _FEW_PARTS * kept
    return PART * (size - kept) > size or stride > 1


def _cut(function: Rewriting, value: Value, dim: int, stretch: _Stretch) -> Value:
    """A slice along one dimension, right behind the value."""
    numbers = [[0, size, 1] for size in shape_of(value)]
    numbers[dim] = list(stretch)
    starts, limits, strides = zip(*numbers, strict=True)
    return Trail(*place_behind(value), function.made).slice(value, starts, limits, strides)
