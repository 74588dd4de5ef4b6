"""What a counted loop reads and writes in each trip: `lax.scan`, or `fori_loop` by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dtensor.dialect.mlir import Value, block_of, ir, maker_of, ops_of, terminator
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.elements import INTEGERS, element_kind
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import Numbers, known_integers, of_each_trip
from dtensor.passes.ops.scatter import overwrites
from dtensor.passes.program import counted, never_changed_in, trip_count

_READ: Final = "stablehlo.dynamic_slice"
_SCATTER: Final = "stablehlo.scatter"
_UPDATE: Final = "stablehlo.dynamic_update_slice"


@dataclass(frozen=True)
class Site:
    """An operation of a body that reads, or writes, one element of a dimension in each trip.

    Attributes:
        op: a dynamic_slice, a dynamic_update_slice, or a scatter that does the same.
        dim: the dimension, which is as long as there are trips.
    """

    op: ir.Operation
    dim: int

    @property
    def value(self) -> Value:
        """What is written."""
        value: Value = self.op.operands[2 if self.op.name == _SCATTER else 1]
        return value


class Trips:
    """A loop whose arrays are read and written once from end to end.

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
            dim = self._read(op)
            if dim is not None:
                self.reads[op] = Site(op, dim)
        sites = [*self.reads.values(), *self.writes.values()]
        self.is_reverse = bool(sites) and self._direction(sites[0]) < 0
        self.is_alike = all((self._direction(site) < 0) == self.is_reverse for site in sites)

    @staticmethod
    def of(loop: ir.Operation) -> Trips | None:
        """The loop; None if it may read the arrays in any other order."""
        count = trip_count(loop)
        if count is None or count < 2:
            return None
        moving = ops_of(loop.regions[1].blocks[0])
        moving = [op for op in moving if op.name in (_READ, _UPDATE, _SCATTER)]
        if not any(count in shape_of(op.operands[0]) for op in moving):
            return None
        trips = Trips(loop, count)
        return trips if trips.is_alike else None

    def array(self, site: Site) -> Value:
        """The array that is read, as it stands outside of the loop."""
        value: Value = site.op.operands[0]
        if isinstance(value.owner, ir.Block) and value.owner == self.body:
            value = self.loop.operands[ir.BlockArgument(value).arg_number]
        return value

    def _read_numbers(self) -> None:
        """Find the scalars of the body that count, in every trip."""
        trips = np.arange(self.count)
        for k, argument in enumerate(self.body.arguments):
            if k in self.counters:
                start, step = self.counters[k]
                self._note(argument, start + step * trips)
            elif k in self.fixed:
                self._read_known(argument, self.loop.operands[k])
        for op in ops_of(self.body):
            if len(op.results) != 1 or _shape(op.results[0]) not in ([], [1]):
                continue
            if not op.operands:
                self._read_known(op.results[0], op.results[0])
            given = [self._number(operand) for operand in op.operands]
            known = [found for found in given if found is not None]
            numbers = of_each_trip(op, known) if len(known) == len(given) else None
            if numbers is not None:
                self._note(op.results[0], numbers)

    def _number(self, value: Value) -> Numbers | None:
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

    def _direction(self, site: Site) -> int:
        """1 where the numbers count up, -1 where they count down."""
        first = 2 if site.op.name == _UPDATE else 1
        index = site.op.operands[first + (0 if site.op.name == _SCATTER else site.dim)]
        return 1 if self._number(index)[0] == 0 else -1  # type: ignore[index]

    def _walked(
        self, sizes: Sequence[int], kept: Sequence[int], starts: Sequence[Value]
    ) -> int | None:
        """The one dimension that is walked an element at a time, the others whole; or None."""
        cut = [d for d, size in enumerate(sizes) if kept[d] != size]
        if len(cut) != 1 or kept[cut[0]] != 1 or sizes[cut[0]] != self.count:
            return None
        return cut[0] if self._walks(starts[cut[0]]) else None

    def _walks(self, index: Value) -> bool:
        found = self._number(index)
        trips = np.arange(self.count)
        return found is not None and any(
            np.array_equal(found, each) for each in (trips, trips[::-1])
        )

    def _read(self, op: ir.Operation) -> int | None:
        """The dimension along which an operation reads an array that never changes."""
        if op.name != _READ:
            return None
        array: Value = op.operands[0]
        is_fixed = block_of(array) != self.body or (
            isinstance(array.owner, ir.Block) and ir.BlockArgument(array).arg_number in self.fixed
        )
        if not is_fixed:
            return None
        return self._walked(shape_of(array), shape_of(op.results[0]), op.operands[1:])

    def _write(self, k: int) -> Site | None:
        """Where an array is written that the body does not read."""
        op, array = maker_of(self.given[k]), self.body.arguments[k]
        if op is None or op.name not in (_UPDATE, _SCATTER) or op.operands[0] != array:
            return None
        uses = [*array.uses, *self.given[k].uses]
        if len(uses) != 2:  # by the operation, and by what the body returns
            return None
        sizes = shape_of(array)
        if op.name == _UPDATE:
            dim = self._walked(sizes, shape_of(op.operands[1]), op.operands[2:])
            return None if dim is None else Site(op, dim)
        if op.name == _SCATTER and self._puts_row(op, sizes):
            return Site(op, IndexNumbers.of(op).gone[0])
        return None

    def _puts_row(self, op: ir.Operation, sizes: Sequence[int]) -> bool:
        """Whether a scatter writes an element of one dimension, and all of the others."""
        if len(op.operands) != 3 or shape_of(op.operands[1]) != [1]:
            return False
        numbers, gone = IndexNumbers.of(op), IndexNumbers.of(op).gone
        return (
            len(gone) == 1
            and sizes[gone[0]] == self.count
            and numbers.named == gone
            and numbers.windows == list(range(len(sizes) - 1))
            and shape_of(op.operands[2]) == [n for d, n in enumerate(sizes) if d != gone[0]]
            and overwrites(op.regions[0], 1)
            and self._walks(op.operands[1])
        )


def _shape(value: Value) -> list[int] | None:
    """The shape of a tensor; None of anything else."""
    return shape_of(value) if isinstance(value.type, ir.RankedTensorType) else None
