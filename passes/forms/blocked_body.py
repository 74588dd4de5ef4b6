"""One trip of every block that a loop is cut into, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.forms.trips import RowAccess, Trips
from dtensor.passes.ops.batched import Batched
from dtensor.passes.program import read_by

Values = dict[int, Value]  # by number of what the loop carries


class NotBatched(Exception):
    """The body has an operation that is not written for several blocks at once."""


@dataclass
class BlockedBody:
    """Writes the body of a loop for blocks of its trips.

    Attributes:
        trips: the loop.
        blocks: how many blocks.
        size: how many trips each has; the last block may end earlier.
    """

    trips: Trips
    blocks: int
    size: int
    _arrays: dict[tuple[Value, int, int, int], Value] = field(default_factory=dict)

    def of(
        self, make: Builder, number: Value, given: Mapping[int, Value], roots: Sequence[Value]
    ) -> Batched:
        """The values of the body that `roots` are computed by, in one trip of each block.

        The trip has this number in its block; `given` is what is carried.

        Raises:
            NotBatched: it cannot be written.
        """
        trips, to, ops = self.trips, Batched(make, self.blocks), needed(self.trips, roots)
        read = {*roots, *(value for op in ops if op not in trips.reads for value in read_by(op))}
        for k, argument in enumerate(trips.body.arguments):
            if k in given:
                to.say([argument], [given[k]])
            elif k in trips.fixed:
                to.known[argument] = trips.loop.operands[k]
            elif k in trips.counters and argument in read:
                to.say([argument], [self._counted(make, number, k)])
        for op in ops:
            site = trips.reads.get(op)
            if site is not None:
                place, dim, array = self.place(make, number, site.step), site.dim, trips.array(site)
                parts = [
                    make.stretch(self._arrays[array, dim, first, site.step], dim + 1, place, rows)
                    for first, rows in site.parts
                ]
                to.say(op.results, [make.joined(parts, dim + 1)])
            elif not to.write(op):
                raise NotBatched
        return to

    def place(self, make: Builder, number: Value, rows: int = 1) -> Value:
        """Where a trip reads and writes in its block, so many rows at a time."""
        if self.trips.is_reverse:
            number = make.binary("subtract", self.size - 1, number)
        return make.times(number, rows)

    def kept(
        self, make: Builder, number: Value, before: Sequence[Value], after: Sequence[Value]
    ) -> list[Value]:
        """The carried values after a trip: trips beyond the end of the arrays change nothing."""
        if self.size * self.blocks == self.trips.count:
            return list(after)
        index = self._index(make, number)
        is_one = make.compare("LT", index, self.trips.count)
        return [make.select(is_one, new, old, [0]) for old, new in zip(before, after, strict=True)]

    def _index(self, make: Builder, number: Value) -> Value:
        """Where a trip reads and writes in the whole arrays, of each block."""
        first = make.times(make.iota((self.blocks,), 0, "i32"), self.size)
        return make.binary("add", first, self.place(make, number))

    def _counted(self, make: Builder, number: Value, k: int) -> Value:
        """The value of a counter of the loop in a trip, of each block."""
        start, step = self.trips.counters[k]
        index = self._index(make, number)
        if self.trips.is_reverse:
            index = make.binary("subtract", self.trips.count - 1, index)
        index = make.times(make.convert(index, make.element_of(self.trips.body.arguments[k])), step)
        return make.binary("add", index, start)

    def everywhere(self, make: Builder, k: int) -> Value:
        """What the loop starts from, in each block."""
        value = self.trips.loop.operands[k]
        shape = make.shape_of(value)
        return make.broadcast(value, (self.blocks, *shape), range(1, len(shape) + 1))

    def started(self, make: Builder, k: int, others: Value) -> Value:
        """A carried value of all blocks: `others`, but in the first what the loop starts from."""
        index = make.iota((self.blocks,), 0, "i32")
        is_first = make.compare("EQ", index, self.blocks - 1 if self.trips.is_reverse else 0)
        return make.select(is_first, self.everywhere(make, k), others, [0])

    def ahead(self, make: Builder, ends: Values) -> Values:
        """The carried values that come into each block: those at the end of the block before."""
        found, is_reverse, last = Values(), self.trips.is_reverse, self.blocks - 1
        for k, value in ends.items():
            others = make.cut(value, 0, int(is_reverse), last)
            own = make.cut(value, 0, last if is_reverse else 0, 1)
            moved = make.joined([others, own] if is_reverse else [own, others], 0)
            found[k] = self.started(make, k, moved)
        return found

    # Arrays.

    def cut(self, make: Builder) -> None:
        """Cut the arrays that are read into blocks, side by side."""
        for site in self.trips.reads.values():
            array = self.trips.array(site)
            for first, _ in site.parts:
                key = (array, site.dim, first, site.step)
                if key not in self._arrays:
                    self._arrays[key] = self._cut(make, array, site, first)

    def _cut(self, make: Builder, array: Value, site: RowAccess, first: int) -> Value:
        """The rows of an array from one on, as many as a site steps over, in blocks."""
        dim, count = site.dim, site.step * self.trips.count
        value = make.cut(array, dim, first, min(count, make.shape_of(array)[dim] - first))
        value = make.lengthened(value, dim, 0, count)
        if self.trips.is_reversed(site):  # trips, not the rows of each
            value = make.regrouped(value, dim, self.trips.count, site.step)
            value = make.regrouped(make.reversed(value, dim), dim, count, count=2)
        value = make.lengthened(value, dim, 0, site.step * self.blocks * self.size)
        value = make.regrouped(value, dim, self.blocks, site.step * self.size)
        return make.moved(value, dim, 0)

    def shape(self, make: Builder, array: Value, site: RowAccess) -> tuple[int, ...]:
        """The shape of an array in blocks."""
        return (self.blocks, *with_sizes(make.shape_of(array), site.dim, site.step * self.size))

    def joined(self, make: Builder, value: Value, site: RowAccess) -> Value:
        """The rows of which these are the blocks."""
        value = make.moved(value, 0, site.dim)
        value = make.regrouped(value, site.dim, site.step * self.blocks * self.size, count=2)
        return make.cut(value, site.dim, 0, site.step * self.trips.count)


def needed(trips: Trips, roots: Sequence[Value]) -> list[ir.Operation]:
    """The operations of the body that values are computed by, in order."""
    wanted, found = set(roots), list[ir.Operation]()
    for op in reversed(ops_of(trips.body)):
        if any(result in wanted for result in op.results):
            found.append(op)
            if op not in trips.reads:
                wanted.update(read_by(op))
    return found[::-1]
