"""A few elements of a value along one dimension, computed of no more than they need.

A slice of a sum is the sum of slices, and one of what was put together is put together of slices.
So `jnp.exp(jnp.pad(x, 1))[1:-1]` is computed of `x`, in its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import DIM, SPLICE
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.creation import integers_attr, place_behind, with_sizes
from dtensor.passes.cuts.known_windows import update_of, updated_place
from dtensor.passes.cuts.pieces import Operands, cut, kept_of, without_dim
from dtensor.passes.cuts.read_along import read_along
from dtensor.passes.ops.attributes import integer, integers, pad_numbers, shape_of, slice_numbers
from dtensor.passes.rewriting.names import (
    CONCATENATE,
    CUTS,
    DYNAMIC_UPDATE_SLICE,
    PAD,
    REVERSE,
    SCATTER,
    SLICE,
    TRANSFORM,
)
from dtensor.passes.rewriting.shards import At, Shards

_SHARE_OF_FEW = 4  # of a dimension is few: its owners give it to all


@dataclass(frozen=True, slots=True)
class DimPart:
    """`count` elements from `start` on along a dimension.

    Attributes:
        least: a value that is no longer than this is sliced itself, not computed of slices.
    """

    dim: int
    start: int
    count: int
    least: int = 0


@dataclass
class Parts:
    """Makes each part of a value once, right behind the value.

    Attributes:
        shards: are told how parts are split.
        made: what was made.
    """

    shards: Shards
    made: list[ir.Operation] = field(default_factory=list)
    _parts: dict[tuple[Value, DimPart], Value] = field(default_factory=dict)
    _cuts: dict[tuple[Value, int], None] = field(default_factory=dict)  # what is sliced, in order

    def of(self, value: Value, part: DimPart) -> Value:
        """The elements of a part."""
        if part.count == shape_of(value)[part.dim]:
            return value
        key = value, part
        if key not in self._parts:
            make = self.behind(value)
            found = self._computed(make, value, part)
            if found is None:
                found = make.cut(value, part.dim, part.start, part.count)
                self._cuts.setdefault((value, part.dim))
            self._parts[key] = found
            for d in range(len(shape_of(value))):
                self.shards.split_like(found, d, (value, d))
        return self._parts[key]

    def share(self) -> None:
        """Slice elements once that several slices take, where they are few: they are sent once."""
        for value, dim in self._cuts:
            cuts = sorted(_few_of(value, dim), key=lambda cut: cut[0].start)
            while cuts:
                alike = [cuts.pop(0)]
                start, end = alike[0][0].start, alike[0][0].start + alike[0][0].count
                while cuts and cuts[0][0].start < end:
                    alike.append(cuts.pop(0))
                    end = max(end, alike[-1][0].start + alike[-1][0].count)
                if len(alike) > 1:
                    whole = self.behind(value).cut(value, dim, start, end - start)
                    self._take(whole, start, alike)

    def _take(self, whole: Value, start: int, cuts: list[tuple[DimPart, ir.Operation]]) -> None:
        """Let slices be taken of a slice that begins at `start`."""
        for part, op in cuts:
            make = Builder(op, self.made)
            cut = make.cut(whole, part.dim, part.start - start, part.count)
            op.results[0].replace_all_uses_with(cut)

    def behind(self, value: Value) -> Trail:
        """Makes operations behind a value, ahead of all that read it."""
        return Trail(*place_behind(value), self.made)

    def _computed(self, make: Trail, value: Value, part: DimPart) -> Value | None:
        op = maker_of(value)
        if op is None or shape_of(value)[part.dim] <= part.least:
            return None
        if op.name in CUTS:
            return self._of_cut(make, op, part)
        if op.name == REVERSE:
            return self._of_reversed(make, op, part)
        if op.name == TRANSFORM:
            return self._of_transformed(make, op, part)
        if op.name in (SCATTER, DYNAMIC_UPDATE_SLICE):
            return self._of_updated(make, op, part)
        if op.name == SPLICE and integer(op.attributes[DIM]) == part.dim:
            return None
        read = read_along(op, part.dim) if len(op.results) == 1 and len(op.operands) else None
        if read is None:
            return None
        operands = list(op.operands)
        for k, d in read.items():
            operands[k] = self.of(operands[k], DimPart(d, part.start, part.count, part.least))
        return make.like(op, operands, part.dim, part.count)

    def _of_cut(self, make: Trail, op: ir.Operation, part: DimPart) -> Value | None:
        d = part.dim
        if op.name == CONCATENATE and integer(op.attributes["dimension"]) != d:
            values = [self.of(value, part) for value in op.operands]
            return make.joined(values, integer(op.attributes["dimension"]))
        pieces = cut(Operands().of_result(op, d) or (), part.start, part.count)
        kept = [piece for piece in pieces if not piece.fills]
        values = [self.of(p.source.value, DimPart(d, p.start, p.count, part.least)) for p in kept]
        if op.name == CONCATENATE:
            return make.joined(values, d)
        if not pieces:
            return None
        if not values:
            shape = shape_of(op.results[0])
            return make.broadcast(op.operands[1], with_sizes(shape, d, part.count))
        ends = [piece.count if piece.fills else 0 for piece in (pieces[0], pieces[-1])]
        if not any(ends) and not kept[0].source.ops:
            return values[0]
        return without_dim(make, op, values[0], d, *ends)

    def _of_reversed(self, make: Trail, op: ir.Operation, part: DimPart) -> Value:
        dims, value = integers(op.attributes["dimensions"]), op.operands[0]
        start = part.start
        if part.dim in dims:
            start = shape_of(value)[part.dim] - start - part.count
        value = self.of(value, DimPart(part.dim, start, part.count, part.least))
        return make.value(REVERSE, [value], value.type, {"dimensions": integers_attr(dims)})

    def _of_transformed(self, make: Trail, op: ir.Operation, part: DimPart) -> Value | None:
        """Along a dimension that is not transformed each row is by itself."""
        value: Value = op.operands[0]
        if part.dim >= len(shape_of(value)) - len(integers(op.attributes["fft_length"])):
            return None
        return make.like(op, [self.of(value, part)], part.dim, part.count)

    def _of_updated(self, make: Trail, op: ir.Operation, part: DimPart) -> Value | None:
        """What is written at a known place is written there, as far as it is in the part."""
        starts, d = updated_place(op), part.dim
        if starts is None:
            return None
        into, update = op.operands[0], update_of(op)
        counts = shape_of(update)
        into, first = self.of(into, part), max(starts[d], part.start)
        count = min(starts[d] + counts[d], part.start + part.count) - first
        if count <= 0:
            return into
        inner = DimPart(d, first - starts[d], count, part.least)
        starts[d] = first - part.start
        scalar = make.tensor_type((), "i32")
        return make.updated(
            into, self.of(update, inner), [make.constant(s, scalar) for s in starts]
        )


def _few_of(value: Value, dim: int) -> Iterator[tuple[DimPart, ir.Operation]]:
    """The slices of a value that take few of its elements, along this dimension alone."""
    shape = shape_of(value)
    for use in value.uses:
        op = use.owner.operation
        kept = kept_of(op) if op.name == SLICE else None
        if kept is None:
            continue
        first, end = kept[dim]
        kept[dim] = 0, shape[dim]
        is_along = kept == [(0, size) for size in shape]
        if is_along and 0 < _SHARE_OF_FEW * (end - first) <= shape[dim]:
            yield DimPart(dim, first, end - first), op


_MOST_VALUES = 100  # values looked at behind a slice


def cut_padded(parts: Parts, slices: Sequence[ir.Operation]) -> None:
    """Let what is sliced of values computed of padded ones be computed of slices instead."""
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
    """Let a slice be computed of slices along some dimensions, each with `DimPart.least`."""
    value: Value = op.operands[0]
    starts, limits, strides = slice_numbers(op)
    for d, least in dims:
        value = parts.of(value, DimPart(d, starts[d], limits[d] - starts[d], least))
        starts[d], limits[d] = 0, limits[d] - starts[d]
    if value == op.operands[0]:
        return
    if value.type != op.results[0].type:
        value = Builder(op, parts.made).slice(value, starts, limits, strides)
    op.results[0].replace_all_uses_with(value)


def cut_dims(op: ir.Operation) -> list[int]:
    """The dimensions that a slice cuts one stretch out of."""
    sizes, kept = shape_of(op.operands[0]), shape_of(op.results[0])
    strides = integers(op.attributes["strides"])
    return [d for d, size in enumerate(sizes) if 0 < kept[d] < size and strides[d] == 1]


def _is_kept(shards: Shards, at: At, count: int) -> bool:
    """Whether `count` elements are most of a value computed of a split one of that size, padded."""
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

    With `is_any_size` also behind cuts that change the size.
    """
    seen, left = {at}, [at]
    while left and len(seen) < _MOST_VALUES:
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
