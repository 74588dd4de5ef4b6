"""Loops that read rows of an array which they write: recurrences in place.

`fori_loop(1, n, lambda i, y: y.at[i].set(f(y[i - 1], x[i])), y)` reads the row that it wrote one
trip ago. Such rows are carried instead, and what no trip has written yet is read of the array that
the loop starts from. The array is then only written, as the results of `lax.scan` are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from dtensor.dialect.mlir import Value, every, ir, is_read, ops_of, users
from dtensor.passes.builder import Builder, filling, new_block
from dtensor.passes.creation import with_sizes
from dtensor.passes.forms.row_forms import is_split, say_changes, say_numbers
from dtensor.passes.forms.trips import RowAccess, Trips, start_operand, touched_sizes
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.numbers import Numbers
from dtensor.passes.program import copy_to
from dtensor.passes.rewriting.names import DYNAMIC_SLICE
from dtensor.passes.rewriting.rewriting import Rewriting

_MOST_TRIPS_AGO = 4  # a row may have been written that is carried


def carry_read_rows(loop: ir.Operation, function: Rewriting) -> ir.Operation:
    """A loop, or one that stands for it, which carries the rows that it reads of what it wrote."""
    trips = Trips.of(loop)
    if trips is None:
        return loop
    say_numbers(trips, function)
    if not any(map(is_read, loop.results)) or not is_split(trips, function):
        return loop
    if say_changes(trips, function, is_read=True):
        function.clean()  # an array has a reader less
        trips = Trips(loop, trips.count)
    found = [each for k in trips.carried if (each := _Array.of(trips, k)) is not None]
    for each in found:
        for op, ago in each.reads.items():
            if ago <= 0:  # no trip has written the row yet
                op.operands[0] = loop.operands[each.k]
                function.has_changed = True
    is_kept = any(ago > 0 for each in found for ago in each.reads.values())
    return _replaced(trips, found, function) if is_kept else loop


@dataclass
class _Array:
    """A carried array, of which each trip reads rows and writes one.

    Attributes:
        trips: the loop.
        k: number of the array among what is carried.
        write: where it is written.
        reads: the operations that read it, and how many trips ago the row was written that they
            read; 0 or less where it was not.
        begun: what stands in the place of rows that no trip has written: by how many trips before
            the first one would have, less one, where it is.
    """

    trips: Trips
    k: int
    write: RowAccess
    reads: dict[ir.Operation, int] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(trips: Trips, k: int) -> _Array | None:
        """The carried value, if it is such an array."""
        write, array = trips.written(k), trips.body.arguments[k]
        if write is None or is_read(trips.loop.regions[0].blocks[0].arguments[k]):
            return None
        if len(users(trips.given[k])) > 1:  # not by what the body returns alone
            return None
        each = _Array(trips, k, write)
        others = [reader for reader in users(array) if reader != write.op]
        return each if all(map(each._add, others)) else None

    def _add(self, reader: ir.Operation) -> bool:
        """Take notice of an operation that reads the array; whether its rows may be carried."""
        read, written = self._places(reader), self.trips.places(self.write)
        if read is None:
            return False
        step = int(written[1] - written[0])
        ago, rest = divmod(int(written[-1] - read[-1]), step)
        early = max(ago, 0)
        if rest or ago > _MOST_TRIPS_AGO or (read + ago * step != written)[early:].any():
            return False
        for trip, place in enumerate(read[:early].tolist()):
            is_new = (abs(written[:trip] - place) >= self.write.rows).all()
            if not is_new or self.begun.setdefault(ago - 1 - trip, place) != place:
                return False
        self.reads[reader] = ago
        return True

    def _places(self, reader: ir.Operation) -> Numbers | None:
        """The row that an operation reads in each trip; None if it reads anything else."""
        write, array = self.write, reader.operands[0]
        if reader.name != DYNAMIC_SLICE or reader.block != self.trips.body:
            return None
        if tuple(touched_sizes(reader)) != with_sizes(shape_of(array), write.dim, write.rows):
            return None
        places = self.trips.number_of(reader.operands[start_operand(reader, write.dim)])
        last = shape_of(array)[write.dim] - write.rows
        return None if places is None else np.clip(places.astype(np.int64), 0, last)

    def before(self, make: Builder) -> list[Value]:
        """The rows that the first trips read where later ones read what was written.

        The first one is what the first trip reads of the trip before it.
        """
        value, write = self.trips.loop.operands[self.k], self.write
        places = [self.begun.get(k, 0) for k in range(max(self.reads.values(), default=0))]
        return [make.cut(value, write.dim, place, write.rows) for place in places]


def _replaced(trips: Trips, arrays: Sequence[_Array], function: Rewriting) -> ir.Operation:
    """Let a loop that carries more stand for this one."""
    loop, make = trips.loop, Builder(trips.loop, function.made)
    rows = [each.before(make) for each in arrays]
    operands = [*loop.operands, *chain(*rows)]
    types = [value.type for value in operands]
    new = make.create("stablehlo.while", operands, types, regions=2)
    condition, body = (new_block(region, types) for region in new.regions)
    kept, carried = list[list[Value]](), iter(list(body.arguments)[len(loop.operands) :])
    known = dict[Value, Value]()
    for each, begin in zip(arrays, rows, strict=True):
        kept.append([next(carried) for _ in begin])
        known |= {op.results[0]: kept[-1][ago - 1] for op, ago in each.reads.items() if ago > 0}
    after, inner = _copied(trips.body, body, known), filling(body)
    for each, mine in zip(arrays, kept, strict=True):
        row = known.get(each.write.value, each.write.value)
        after += [inner.reshape(row, inner.shape_of(value)) for value in mine[:1]] + mine[:-1]
    inner.end(after)
    filling(condition).end(_copied(loop.regions[0].blocks[0], condition, {}))
    function.made += every(new)[1:]
    for result, value in zip(loop.results, new.results, strict=False):
        function.shards.stands_for(value, result)
        function.replace_value(result, value)
    return new


def _copied(block: ir.Block, to: ir.Block, known: dict[Value, Value]) -> list[Value]:
    """Copy what stands in a block and is not known yet; what the copy returns."""
    known |= zip(block.arguments, to.arguments, strict=False)
    *ops, end = ops_of(block)
    for op in ops:
        if not any(result in known for result in op.results):
            copy_to(ir.InsertionPoint(to), op, known)
    return [known.get(value, value) for value in end.operands]
