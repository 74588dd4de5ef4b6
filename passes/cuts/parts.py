"""Some elements of a value along one dimension, computed of as few as they need.

A slice of a sum is the sum of slices, and one of what was put together is put together of slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import DIM, SPLICE
from dtensor.passes.builder import Trail, integers_attr
from dtensor.passes.cuts.align import read_along
from dtensor.passes.cuts.pieces import CONCATENATE, PAD, REVERSE, SLICE
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.ops.attributes import (
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
)

_SHARE = 4  # of a dimension is few: its owners give it to all


@dataclass(frozen=True, slots=True)
class Part:
    """`count` elements from `start` on along a dimension.

    Attributes:
        least: what is no longer than this is sliced, and not computed of other slices.
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
    _parts: dict[tuple[Value, Part], Value] = field(default_factory=dict)
    _cuts: dict[tuple[Value, int], None] = field(default_factory=dict)  # what is sliced, in order

    def of(self, value: Value, part: Part) -> Value:
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
                self.shards.know(found, d, (value, d))
        return self._parts[key]

    def share(self) -> None:
        """Slice few elements once that were sliced more than once, so that they are sent once."""
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

    def _take(self, whole: Value, start: int, cuts: list[tuple[Part, ir.Operation]]) -> None:
        """Let slices be taken of a slice that begins at `start`."""
        for part, op in cuts:
            make = Trail(ir.InsertionPoint(op), op.location, self.made)
            cut = make.cut(whole, part.dim, part.start - start, part.count)
            op.results[0].replace_all_uses_with(cut)

    def behind(self, value: Value) -> Trail:
        """Makes operations behind a value, ahead of all that read it."""
        op = maker_of(value)
        if op is None:
            owner = value.owner
            assert isinstance(owner, ir.Block), "an argument"
            return Trail(ir.InsertionPoint.at_block_begin(owner), value.location, self.made)
        return Trail(ir.InsertionPoint.after(op), op.location, self.made)

    def _computed(self, make: Trail, value: Value, part: Part) -> Value | None:
        op = maker_of(value)
        if op is None or shape_of(value)[part.dim] <= part.least:
            return None
        if op.name == CONCATENATE:
            return self._of_joined(make, op, part)
        if op.name == SLICE:
            return self._of_slice(make, op, part)
        if op.name == PAD:
            return self._of_pad(make, op, part)
        if op.name == REVERSE:
            return self._of_reversed(make, op, part)
        if op.name == SPLICE and integer(op.attributes[DIM]) == part.dim:
            return None
        read = read_along(op, part.dim) if len(op.results) == 1 and len(op.operands) else None
        if read is None:
            return None
        operands = list(op.operands)
        for k, d in read.items():
            operands[k] = self.of(operands[k], Part(d, part.start, part.count, part.least))
        return make.like(op, operands, part.dim, part.count)

    def _of_joined(self, make: Trail, op: ir.Operation, part: Part) -> Value:
        joined = integer(op.attributes["dimension"])
        if joined != part.dim:
            return make.joined([self.of(value, part) for value in op.operands], joined)
        found, place = [], 0
        for value in op.operands:
            size = shape_of(value)[joined]
            first, end = max(part.start, place), min(part.start + part.count, place + size)
            if first < end:
                inner = Part(joined, first - place, end - first, part.least)
                found.append(self.of(value, inner))
            place += size
        return make.joined(found, joined)

    def _of_slice(self, make: Trail, op: ir.Operation, part: Part) -> Value | None:
        starts, limits, strides = slice_numbers(op)
        d = part.dim
        if strides[d] != 1:
            return None
        inner = Part(d, starts[d] + part.start, part.count, part.least)
        value = self.of(op.operands[0], inner)
        starts[d], limits[d] = 0, part.count
        if limits == shape_of(value) and not any(starts):
            return value
        return make.slice(value, starts, limits, strides)

    def _of_pad(self, make: Trail, op: ir.Operation, part: Part) -> Value | None:
        lows, highs, gaps = pad_numbers(op)
        d, (value, fill) = part.dim, op.operands
        if gaps[d]:
            return None
        size, start = shape_of(value)[d], part.start - lows[d]
        first, end = max(start, 0), min(start + part.count, size)
        if first >= end:
            shape = shape_of(op.results[0])
            shape[d] = part.count
            return make.broadcast(fill, shape)
        lows[d], highs[d] = first - start, start + part.count - end
        inner = self.of(value, Part(d, first, end - first, part.least))
        return make.pad(inner, fill, lows, highs, gaps)

    def _of_reversed(self, make: Trail, op: ir.Operation, part: Part) -> Value:
        dims, value = integers(op.attributes["dimensions"]), op.operands[0]
        start = part.start
        if part.dim in dims:
            start = shape_of(value)[part.dim] - start - part.count
        value = self.of(value, Part(part.dim, start, part.count, part.least))
        return make.value(REVERSE, [value], value.type, {"dimensions": integers_attr(dims)})


def _few_of(value: Value, dim: int) -> Iterator[tuple[Part, ir.Operation]]:
    """The slices of a value that take few of its elements, along this dimension alone."""
    shape = shape_of(value)
    for use in value.uses:
        op = use.owner.operation
        if op.name != SLICE:
            continue
        starts, limits, strides = slice_numbers(op)
        part = Part(dim, starts[dim], limits[dim] - starts[dim])
        limits[dim] = shape[dim]
        others = [start for d, start in enumerate(starts) if d != dim]
        if limits == shape and not any(others) and set(strides) == {1}:
            if 0 < _SHARE * part.count <= shape[dim]:
                yield part, op
