"""A few places of an order, and what reads the elements there.

An operation that reads some rows of a sorted array reads them at places that the program writes,
at places that it computes, or at places of each row's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr
from dtensor.passes.forms.row_places import RowPlaces
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.counting import known_places
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.loops import numbered, take
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.rewriting.names import DYNAMIC_SLICE, GATHER, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting

MOST_PLACES = 16  # places; of more, sorting is simpler


@dataclass(frozen=True)
class Places:
    """Places of an order.

    Attributes:
        count: how many.
        at: the first of them, if the program writes it and the others follow; or the value that
            has them all; or those of each row.
    """

    count: int
    at: int | Value | RowPlaces

    @property
    def computed(self) -> list[Value]:
        """What must be computed to know them."""
        if isinstance(self.at, int):
            return []
        return [self.at.indices if isinstance(self.at, RowPlaces) else self.at]

    def known(self, size: int) -> list[int] | None:
        """The places among `size`, if they can be computed now."""
        if isinstance(self.at, int):
            return list(range(self.at, self.at + self.count))
        return None if isinstance(self.at, RowPlaces) else known_places(self.at, size)

    def column(self, make: Builder) -> Value:
        """The places: a tensor of one dimension, or with the other dimensions of what is sorted."""
        if isinstance(self.at, int):
            return numbered(make, range(self.at, self.at + self.count), "i32")
        if isinstance(self.at, RowPlaces):
            return self.at.column(make)
        return make.reshape(self.at, (self.count,))


@dataclass(frozen=True)
class Read:
    """A gather or a slice, of computed place or not, of whole rows at some places."""

    op: ir.Operation
    places: Places

    @staticmethod
    def of(op: ir.Operation, value: Value, dim: int) -> Read | None:
        """A use of a sorted value, if it reads places along the dimension and all else whole.

        What looks up something else at the sorted numbers reads all of them.
        """
        if [k for k, operand in enumerate(op.operands) if operand == value] != [0]:
            return None
        reader = _READERS.get(op.name)
        places = None if reader is None else reader(op, shape_of(value), dim)
        return None if places is None else Read(op, places)

    def let(self, ranked: Value, dim: int, index: Sequence[int], function: Rewriting) -> None:
        """Let the use read its places among those that are known, at these of them."""
        op, make = self.op, Builder(self.op, function.made)
        ranked = make.convert(ranked, make.element_of(op.results[0]))
        if op.name != GATHER or isinstance(self.places.at, RowPlaces):
            value = taken(make, ranked, dim, index)
            if isinstance(self.places.at, RowPlaces):
                value = self.places.at.read(make, value, dim, op.results[0])
            function.replace(op, value)
            return
        numbers = numbered(make, index, make.element_of(op.operands[1]))
        op.operands[0] = ranked
        op.operands[1] = make.reshape(numbers, shape_of(op.operands[1]))
        sizes = [1 if d == dim else size for d, size in enumerate(make.shape_of(ranked))]
        op.attributes["slice_sizes"] = integers_attr(sizes)


def taken(make: Builder, value: Value, dim: int, index: Sequence[int]) -> Value:
    """Rows of a value along a dimension."""
    if list(index) == list(range(index[0], index[0] + len(index))):
        return make.cut(value, dim, index[0], len(index))
    return take(make, value, numbered(make, index, "i32"), dim)


def _of_slice(op: ir.Operation, shape: list[int], dim: int) -> Places | None:
    cut = shape_of(op.results[0])
    others = [d for d in range(len(shape)) if d != dim and cut[d] != shape[d]]
    is_near = integers(op.attributes["strides"])[dim] == 1
    first = integers(op.attributes["start_indices"])[dim]
    return None if others or not is_near or not cut[dim] else Places(cut[dim], first)


def _of_dynamic_slice(op: ir.Operation, shape: list[int], dim: int) -> Places | None:
    return started(op.operands[1 + dim], shape_of(op.results[0]), shape, dim)


def started(start: Value, cut: list[int], shape: list[int], dim: int) -> Places | None:
    """The places of some rows from one on, which is moved to where all of them are."""
    if not cut[dim] or any(cut[d] != n for d, n in enumerate(shape) if d != dim):
        return None
    first = known_integers(start)
    if first is not None:
        return Places(cut[dim], min(max(int(first), 0), shape[dim] - cut[dim]))
    return Places(1, start) if cut[dim] == 1 else None


def _of_gather(op: ir.Operation, shape: list[int], dim: int) -> Places | None:
    numbers = IndexNumbers.of(op)
    sizes, indices = integers(op.attributes["slice_sizes"]), shape_of(op.operands[1])
    wanted = [1 if d == dim else size for d, size in enumerate(shape)]
    last = len(indices) - 1
    is_vector = indices == [1] or (len(indices) == 2 and indices[1] == 1)
    is_last = numbers.vector_dim == last
    is_one = sizes == wanted and numbers.named == [dim]
    if is_vector and is_last and is_one and not numbers.walked:
        return Places(indices[0], op.operands[1])
    found = RowPlaces.of(op, dim)
    return None if found is None else Places(found.count, found)


_READERS = {SLICE: _of_slice, DYNAMIC_SLICE: _of_dynamic_slice, GATHER: _of_gather}
