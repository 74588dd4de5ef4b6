"""What a counted loop reads and writes in each trip: `lax.scan`, or `fori_loop` by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtensor.dialect.mlir import Value, block_of, ir, maker_of, ops_of, terminator
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.elements import INTEGERS, element_kind
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import Numbers, known_integers, of_each_trip
from dtensor.passes.ops.padding import PART
from dtensor.passes.ops.scatter import overwrites
from dtensor.passes.program import counted, never_changed_in, outside, trip_count
from dtensor.passes.rewriting.names import DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE, SCATTER

_MOST_PARTS = 8  # parts of what one trip reads


@dataclass(frozen=True)
class RowAccess:
    """An operation of a body that reads, or writes, the next rows of an array in each trip.

    Attributes:
        op: a dynamic_slice, a dynamic_update_slice, or a scatter that does the same.
        dim: the dimension along which the rows follow each other; few are left out.
        first: the first row that any trip reads or writes.
        step: how many rows further on the next trip does.
        rows: how many rows each of them does.
    """

    op: ir.Operation
    dim: int
    first: int
    step: int
    rows: int

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Rows that overlap no others, of `step` each: where they begin, and how many are read."""
        starts = range(0, self.rows, self.step)
        return [(self.first + k, min(self.step, self.rows - k)) for k in starts]

    @property
    def start(self) -> Value:
        """Where it begins to read or write."""
        value: Value = self.op.operands[start_operand(self.op, self.dim)]
        return value

    @property
    def value(self) -> Value:
        """What is written."""
        value: Value = self.op.operands[2 if self.op.name == SCATTER else 1]
        return value


class Trips:
    """A loop whose arrays are read and written once from end to end, or nearly so.

    Attributes:
        loop: the `stablehlo.while`.
        body: what it does in each trip.
        count: how many trips there are.
        given: what the body returns.
        fixed: which carried values it never changes.
        counters: by number of a carried value that counts, its start and its step.
        writes: by number of a carried array that is only written, the operation that does.
        reads: the operations that read arrays that never change.
        carried: the numbers of all other carried values.
        is_reverse: whether the last element is the first that is read and written.
    """

    def __init__(self, loop: ir.Operation, count: int) -> None:
        self.loop, self.count = loop, count
        self.body = loop.regions[1].blocks[0]
        self.given = list(terminator(self.body).operands)
        self.fixed = never_changed_in(loop)
        found = {
            k: None if _shape(value) else counted(loop, k)
            for k, value in enumerate(loop.operands)
            if k not in self.fixed
        }
        self.counters = {k: pair for k, pair in found.items() if pair is not None}
        self._numbers: dict[Value, Numbers] = {}
        self._read_numbers()
        self.writes = {k: site for k in found if (site := self._write(k)) is not None}
        self.carried = [k for k in found if k not in self.counters and k not in self.writes]
        self.reads = {}
        for op in ops_of(self.body):
            site = self._read(op)
            if site is not None:
                self.reads[op] = site
        sites = [*self.reads.values(), *self.writes.values()]
        moved = [site for site in sites if site.op.results[0] not in self._numbers] or sites
        self.is_reverse = bool(moved) and self._direction(moved[0]) < 0
        self.is_alike = not any(map(self.is_reversed, moved))

    def is_reversed(self, site: RowAccess) -> bool:
        """Whether a site walks against the others: of numbers that are known, it may."""
        return (self._direction(site) < 0) != self.is_reverse

    @staticmethod
    def of(loop: ir.Operation) -> Trips | None:
        """The loop; None if it may read the arrays in any other order."""
        count = trip_count(loop)
        if count is None or count < 2:
            return None
        moving = ops_of(loop.regions[1].blocks[0])
        moving = [op for op in moving if op.name in (DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE, SCATTER)]
        if not any(_may_walk(op, count) for op in moving):
            return None
        trips = Trips(loop, count)
        return trips if trips.is_alike else None

    def array(self, site: RowAccess) -> Value:
        """The array that is read, as it stands outside of the loop."""
        found = outside(site.op.operands[0], self.body)
        assert found is not None, "an array that never changes"
        return found

    def _read_numbers(self) -> None:
        """Find the scalars of the body that count, in every trip."""
        trips = np.arange(self.count, dtype="u8")  # what overflows wraps around, as it does there
        for k, argument in enumerate(self.body.arguments):
            if k in self.counters:
                start, step = [number % (1 << 64) for number in self.counters[k]]
                self._note(argument, np.uint64(start) + np.uint64(step) * trips)
            elif k in self.fixed:
                self._read_known(argument, self.loop.operands[k])
        for op in ops_of(self.body):
            if len(op.results) != 1 or _shape(op.results[0]) not in ([], [1]):
                continue
            if not op.operands:
                self._read_known(op.results[0], op.results[0])
            given = [self.number_of(operand) for operand in op.operands]
            known = [found for found in given if found is not None]
            numbers = of_each_trip(op, known) if len(known) == len(given) else self._looked_up(op)
            if numbers is not None:
                self._note(op.results[0], numbers)

    def _looked_up(self, op: ir.Operation) -> Numbers | None:
        """The element of a table of numbers that each trip reads, as of `jnp.arange(n)`."""
        if op.name != DYNAMIC_SLICE or len(shape_of(op.operands[0])) != 1:
            return None
        place, table = self.number_of(op.operands[1]), outside(op.operands[0], self.body)
        numbers = None if place is None or table is None else known_integers(table)
        if place is None or numbers is None:
            return None
        found: Numbers = numbers[np.clip(place, 0, len(numbers) - 1)]
        return found

    def number_of(self, value: Value) -> Numbers | None:
        """The number that a value of one element is in each trip; None if it is not known."""
        if value not in self._numbers and block_of(value) != self.body:
            self._read_known(value, value)
        return self._numbers.get(value)

    def _read_known(self, value: Value, known: Value) -> None:
        if _shape(value) in ([], [1]):
            found = known_integers(known)
            if found is not None:
                self._note(value, np.full(self.count, found.reshape(())))

    def _note(self, value: Value, numbers: Numbers) -> None:
        kind, bits = element_kind(str(ir.RankedTensorType(value.type).element_type))
        if kind in INTEGERS and bits >= 8:
            self._numbers[value] = numbers.astype(f"{'i' if kind == 'signed' else 'u'}{bits // 8}")
        elif kind == "bool":
            self._numbers[value] = numbers.astype(bool)

    def places(self, site: RowAccess) -> Numbers:
        """The first row that a site reads or writes in each trip."""
        found = self.number_of(site.start)
        assert found is not None, "a site walks"
        return found.astype(np.int64)  # which are all within an array

    def _direction(self, site: RowAccess) -> int:
        """More than 0 where the numbers count up, less where they count down."""
        first, second = self.places(site)[:2].tolist()
        return int(second - first)

    def walk(self, op: ir.Operation) -> RowAccess | None:
        """An operation that reads or writes the next rows of an array in each trip; or None."""
        sizes = shape_of(op.operands[0])
        if op.name == SCATTER:
            return (
                self._along(op, IndexNumbers.of(op).gone[0]) if self._puts_row(op, sizes) else None
            )
        cut = [d for d, kept in enumerate(touched_sizes(op)) if kept != sizes[d]]
        return self._along(op, cut[0]) if len(cut) == 1 else None

    def rows_of(self, op: ir.Operation) -> RowAccess | None:
        """The rows that a slice walks which takes some elements alone of each; None of others."""
        if op.name != DYNAMIC_SLICE or outside(op.operands[0], self.body) is None:
            return None
        pairs = zip(shape_of(op.operands[0]), touched_sizes(op), strict=True)
        cut = [d for d, (size, kept) in enumerate(pairs) if kept != size]
        sites = [self._along(op, d) for d in cut] if len(cut) > 1 else []
        return next((site for site in sites if site is not None), None)

    def _along(self, op: ir.Operation, dim: int) -> RowAccess | None:
        """An operation that takes next rows along a dimension; None if it does not."""
        rows, size = touched_sizes(op)[dim], shape_of(op.operands[0])[dim]
        places = self.number_of(RowAccess(op, dim, 0, rows, rows).start)
        if places is None:
            return None
        places, trips = places.astype(np.int64), np.arange(self.count)
        first, step = int(places.min()), abs(int(places[1]) - int(places[0]))
        if not step or not 0 <= first <= size - step * (self.count - 1) - rows:
            return None
        if not any(np.array_equal(places, first + step * way) for way in (trips, trips[::-1])):
            return None
        is_most = PART * (size - step * self.count) <= size and rows <= _MOST_PARTS * step
        return RowAccess(op, dim, first, step, rows) if is_most else None

    def _read(self, op: ir.Operation) -> RowAccess | None:
        """Where an operation reads an array that never changes."""
        is_fixed = op.name == DYNAMIC_SLICE and outside(op.operands[0], self.body) is not None
        return self.walk(op) if is_fixed else None

    def _write(self, k: int) -> RowAccess | None:
        """Where an array is written that the body does not read."""
        # It is read by the operation, and what that gives by what the body returns.
        uses = [*self.body.arguments[k].uses, *self.given[k].uses]
        return self.written(k) if len(uses) == 2 else None

    def written(self, k: int, anyhow: bool = False) -> RowAccess | None:
        """Where rows of a carried array are overwritten, one in each trip; None of any other.

        Or where what is there is changed, with `anyhow`.
        """
        op = maker_of(self.given[k])
        if op is None or op.name not in (DYNAMIC_UPDATE_SLICE, SCATTER):
            return None
        is_plain = op.name == DYNAMIC_UPDATE_SLICE or overwrites(op.regions[0], 1)
        if op.operands[0] != self.body.arguments[k] or not (anyhow or is_plain):
            return None
        site = self.walk(op)
        return site if site is not None and site.step == site.rows else None

    def _puts_row(self, op: ir.Operation, sizes: Sequence[int]) -> bool:
        """Whether a scatter writes an element of one dimension, and all of the others."""
        if len(op.operands) != 3 or shape_of(op.operands[1]) != [1]:
            return False
        numbers, gone = IndexNumbers.of(op), IndexNumbers.of(op).gone
        return (
            len(gone) == 1
            and numbers.named == gone
            and numbers.windows == list(range(len(sizes) - 1))
            and shape_of(op.operands[2]) == [n for d, n in enumerate(sizes) if d != gone[0]]
        )


def start_operand(op: ir.Operation, dim: int) -> int:
    """Which operand says from where on an operation reads or writes along a dimension."""
    return {DYNAMIC_SLICE: 1 + dim, DYNAMIC_UPDATE_SLICE: 2 + dim, SCATTER: 1}[op.name]


def touched_sizes(op: ir.Operation) -> list[int]:
    """How much of each dimension a slice reads, or an update writes; of a scatter, the least."""
    if op.name == SCATTER:
        return [1] * len(shape_of(op.operands[0]))
    return shape_of(op.results[0] if op.name == DYNAMIC_SLICE else op.operands[1])


def _may_walk(op: ir.Operation, count: int) -> bool:
    """Whether so many trips may take all rows of an array, but for few."""
    pairs = zip(shape_of(op.operands[0]), touched_sizes(op), strict=True)
    return any(kept < size and count <= size for size, kept in pairs)


def _shape(value: Value) -> list[int] | None:
    """The shape of a tensor; None of anything else."""
    return shape_of(value) if isinstance(value.type, ir.RankedTensorType) else None
