"""A loop over the rows of arrays, written for arrays whose rows are in the other order.

It reads and writes at mirrored places, and does all else as it did, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dtensor.dialect.mlir import Value, every, ir, is_read, operation_of, ops_of, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.forms.row_forms import added_rows, say_numbers
from dtensor.passes.forms.trips import RowAccess, Trips, start_operand, touched_sizes
from dtensor.passes.ops.attributes import element_of, shape_of
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.rewriting.names import DYNAMIC_SLICE, SCATTER
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import At

_BITS = 32  # of an integer that any place fits into
_TIMES_WRITTEN = 8  # as many rows as are written may be read of what was


class _Site(NamedTuple):
    """An operation of the body that reads or writes rows.

    Attributes:
        number: which operation it is.
        dim: the dimension along which the rows follow each other.
        array: what it reads, as it stands outside of the loop; None of what the loop carries.
    """

    number: int
    dim: int
    array: Value | None


@dataclass
class WalkedArrays:
    """The arrays whose rows a loop reads or writes one after another.

    Attributes:
        trips: the loop.
        written: by number of an array that it writes, the dimension along which it does.
        sites: where it reads and writes.
    """

    trips: Trips
    written: dict[int, int] = field(default_factory=dict)
    sites: list[_Site] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = self.trips.loop
        self.ops = ops_of(self.trips.body)

    @staticmethod
    def of(loop: ir.Operation, function: Rewriting) -> WalkedArrays | None:
        """Those of a loop, if it may take them from the other end."""
        trips = Trips.of(loop)
        if trips is None:
            return None
        say_numbers(trips, function)
        if not any(map(is_read, loop.results)):
            return None
        found = WalkedArrays(trips)
        for number, op in enumerate(found.ops):
            site = trips.reads.get(op) or trips.rows_of(op)
            if site is not None and trips.number_of(op.results[0]) is None:
                found.sites.append(_Site(number, site.dim, trips.array(site)))
        is_all = all([found._add(k) for k in (*trips.writes, *trips.carried)])
        return found if is_all else None

    @property
    def arrays(self) -> list[At]:
        """What is read, and what it starts to write in."""
        read = [(site.array, site.dim) for site in self.sites if site.array is not None]
        begun = [(self.loop.operands[k], dim) for k, dim in self.written.items()]
        return list(dict.fromkeys([*read, *begun]))

    @property
    def results(self) -> list[At]:
        """What it has written."""
        return [(self.loop.results[k], dim) for k, dim in self.written.items()]

    def _add(self, k: int) -> bool:
        """Take notice of a carried array; whether nothing is done to it but by rows."""
        trips, argument = self.trips, self.trips.body.arguments[k]
        write = trips.written(k, anyhow=True) or added_rows(trips, k)
        if write is None:
            return True
        if is_read(self.loop.regions[0].blocks[0].arguments[k]):
            return False
        given = operation_of(trips.given[k])  # the rows that are written, or what adds them
        passed = [(write.op, 0), (terminator(trips.body), k)]
        passed += [(given, 0), (given, 1)] if given != write.op else []
        uses = [*argument.uses, *trips.given[k].uses]
        places = [(use.owner.operation, use.operand_number) for use in uses]
        reads = [place for place in places if place not in passed]
        if not all(self._reads_rows(*place, write) for place in reads):
            return False
        self.written[k] = write.dim
        for op in (write.op, *(op for op, _ in reads)):
            self.sites.append(_Site(self.ops.index(op), write.dim, None))
        return True

    def _reads_rows(self, op: ir.Operation, operand: int, write: RowAccess) -> bool:
        """Whether an operation reads few rows of what is written, at places that are known."""
        if op.name != DYNAMIC_SLICE or operand or op.block != self.trips.body:
            return False
        rows, size = touched_sizes(op)[write.dim], shape_of(op.operands[0])[write.dim]
        places = self.trips.number_of(op.operands[start_operand(op, write.dim)])
        if places is None or rows > _TIMES_WRITTEN * write.rows:
            return False
        return 0 <= int(places.min()) and int(places.max()) <= size - rows

    def taken(self) -> dict[int, At]:
        """By number of a value that never changes, what it is, if rows alone are read of it."""
        found = dict[int, At]()
        for k in self.trips.fixed:
            argument = self.trips.body.arguments[k]
            sites = [site for site in self.sites if self.ops[site.number].operands[0] == argument]
            uses = len(list(argument.uses)) - 1  # and what the body returns
            others = [self.loop.regions[0].blocks[0].arguments[k], self.loop.results[k]]
            is_one = len({site.dim for site in sites}) == 1
            if is_one and len(sites) == uses and not any(map(is_read, others)):
                found[k] = (self.loop.operands[k], sites[0].dim)
        return found

    def uses(self) -> list[tuple[ir.Operation, int]]:
        """The operands that are arrays which it will read and write from the other end."""
        read = [(self.ops[site.number], 0) for site in self.sites if site.array is not None]
        return [*read, *((self.loop, k) for k in (*self.taken(), *self.written))]

    def reversed(self, arrays: Mapping[At, Value], function: Rewriting) -> ir.Operation:
        """A loop in front of this one that does the same with arrays in the other order.

        Args:
            arrays: those that it reads, and that it starts to write in.
            function: takes notice of what is created.
        """
        taken = self.taken()
        kept = [self.trips.body.arguments[k] for k in taken]
        copy = self.loop.clone(ip=ir.InsertionPoint(self.loop)).operation
        function.made += every(copy)
        ops = ops_of(copy.regions[1].blocks[0])
        for number, dim, array in self.sites:
            found = None
            if array is not None and self.ops[number].operands[0] not in kept:
                found = arrays[array, dim]
            _reverse(ops[number], dim, found, function)
        for k, at in taken.items():
            copy.operands[k] = arrays[at]
        for k, dim in self.written.items():
            copy.operands[k] = arrays[self.loop.operands[k], dim]
        for result, value in zip(self.loop.results, copy.results, strict=True):
            function.shards.stands_for(value, result)
        return copy


def _reverse(op: ir.Operation, dim: int, array: Value | None, function: Rewriting) -> None:
    """Let an operation read or write rows at the mirrored place, of another array perhaps."""
    make, at = Builder(op, function.made), start_operand(op, dim)
    array = op.operands[0] if array is None else array
    first = at if op.name == SCATTER else at - dim
    last = first + 1 if op.name == SCATTER else len(op.operands)
    rows = touched_sizes(op)[dim]
    starts = [_wide(make, value) for value in list(op.operands)[first:last]]
    starts[at - first] = make.binary("subtract", shape_of(array)[dim] - rows, starts[at - first])
    if op.name == SCATTER:
        op.operands[first] = starts[0]
    elif op.name == DYNAMIC_SLICE:
        found = make.dynamic_slice(array, starts, shape_of(op.results[0]))
        function.replace(op, make.reversed(found, dim) if rows > 1 else found)
    else:
        value = op.operands[1]
        value = make.reversed(value, dim) if rows > 1 else value
        function.replace(op, make.updated(array, value, starts))


def _wide(make: Builder, value: Value) -> Value:
    """A place, as an integer that any place fits into."""
    _, bits = element_kind(element_of(value))
    return value if bits >= _BITS else make.convert(value, "i32")
