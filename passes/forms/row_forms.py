"""Loops that read and write rows in other forms: `x[i, j]`, `y.at[i].add(v)`, and its gradient.

They are said as `x[i][j]` and `y.at[i].set(y[i] + v)`: each trip takes whole rows, and writes them.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, every, ir, maker_of, operation_of, ops_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.forms.trips import RowAccess, Trips
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.loops import numbered
from dtensor.passes.ops.patterns import is_zero
from dtensor.passes.rewriting.names import DYNAMIC_UPDATE_SLICE, SCATTER
from dtensor.passes.rewriting.rewriting import Rewriting


def say_numbers(trips: Trips, function: Rewriting) -> None:
    """Say the numbers that a loop writes, if they are known: a gradient keeps places for later."""
    for k, write in trips.writes.items():
        value: Value = trips.loop.results[k]
        numbers = trips.number_of(write.value)
        make = Builder(trips.loop, function.made)
        is_all = make.shape_of(value) == (trips.count,) and write.rows == 1
        if numbers is None or not is_all or numbers.dtype.kind not in "iu":
            continue
        by_place = dict(zip(trips.places(write).tolist(), numbers.tolist(), strict=True))
        known = [by_place[place] for place in range(trips.count)]
        first, step, element = known[0], known[1] - known[0], make.element_of(value)
        is_even = known == [first + step * k for k in range(trips.count)]
        if is_even and (step >= 0 or numbers.dtype.kind == "i"):
            index = make.iota((trips.count,), 0, element)
            function.replace_value(value, make.binary("add", make.times(index, step), first))
        else:
            function.replace_value(value, numbered(make, known, element))


def is_split(trips: Trips, function: Rewriting) -> bool:
    """Whether some dimension that is walked is split before the loop, or after it."""
    rows = [trips.rows_of(op) for op in ops_of(trips.body)]
    reads = [*trips.reads.values(), *(site for site in rows if site is not None)]
    places = [(trips.array(site), site.dim) for site in reads]
    for k in (*trips.carried, *trips.writes):
        write = trips.written(k, anyhow=True) or added_rows(trips, k)
        if write is not None:
            values: list[Value] = [trips.loop.operands[k], trips.loop.results[k]]
            places += [(value, write.dim) for value in values]
    return bool(places) and function.shards.nearly(*places) > 1


def with_whole_rows(loop: ir.Operation, function: Rewriting) -> ir.Operation | None:
    """A copy that stands for a loop, where all is said row by row; None if it is already.

    A whole row is more than an element, and it is read where it was only added to: that is worth
    it in blocks alone.
    """
    trips = Trips.of(loop)
    if trips is None or not is_split(trips, function):
        return None
    if not _elements(trips) and not _changes(trips, is_read=False):
        return None
    copy = loop.clone(ip=ir.InsertionPoint(loop)).operation
    function.made += every(copy)
    for result, value in zip(loop.results, copy.results, strict=True):
        function.shards.stands_for(value, result)
        result.replace_all_uses_with(value)  # the loop stays: it may stand for itself again
    trips = Trips(copy, trips.count)
    for site in _elements(trips):
        _read_row(site, function)
    say_changes(trips, function, is_read=False)
    function.clean()  # arrays have a reader less
    return copy


def _elements(trips: Trips) -> list[RowAccess]:
    """Where a loop reads some elements alone of rows."""
    return [site for op in ops_of(trips.body) if (site := trips.rows_of(op)) is not None]


def _read_row(site: RowAccess, function: Rewriting) -> None:
    """Read elements of a row of the row."""
    op = site.op
    make, (array, *starts) = Builder(op, function.made), op.operands
    row = make.stretch(array, site.dim, starts[site.dim], site.rows)
    starts[site.dim] = make.constant_like(0, starts[site.dim])
    function.replace(op, make.dynamic_slice(row, starts, make.shape_of(op.results[0])))


def say_changes(trips: Trips, function: Rewriting, is_read: bool) -> bool:
    """Say what changes rows of arrays which trips read besides, or do not; whether any does."""
    found = _changes(trips, is_read)
    for k, (write, name) in found.items():
        op, array = operation_of(trips.given[k]), trips.body.arguments[k]
        make = Builder(op, function.made)
        start = make.reshape(write.start, ())
        row = make.stretch(array, write.dim, start, write.rows)
        value = make.reshape(write.value, make.shape_of(row))
        after, places = make.value(name, [row, value], row.type), (array, write.dim, start)
        function.replace(op, make.updated(array, after, make.starts_along(*places)))
    return bool(found)


def _changes(trips: Trips, is_read: bool) -> dict[int, tuple[RowAccess, str]]:
    """By number of a carried array, where its rows are changed, and by which operation."""
    found = dict[int, tuple[RowAccess, str]]()
    for k in trips.carried:
        if (len(users(trips.body.arguments[k])) > 1) == is_read:
            write, change = added_rows(trips, k), trips.written(k, anyhow=True)
            if write is not None:
                found[k] = write, "stablehlo.add"
            elif change is not None and change.op.name == SCATTER:
                reduction = combiner(change.op.regions[0])
                if reduction is not None:
                    found[k] = change, reduction.op
    return found


def added_rows(trips: Trips, k: int) -> RowAccess | None:
    """The rows that are added to a carried array, written over zeros: the gradient of a read."""
    op, array = maker_of(trips.given[k]), trips.body.arguments[k]
    if op is None or op.name != "stablehlo.add" or array not in op.operands:
        return None
    update = maker_of(op.operands[int(op.operands[0] == array)])
    if update is None or update.name != DYNAMIC_UPDATE_SLICE or update.block != trips.body:
        return None
    site = trips.walk(update) if is_zero(update.operands[0]) else None
    return site if site is not None and site.step == site.rows else None
