"""Loops that read and write rows in other forms: `x[i, j]`, `y.at[i].add(v)`, and its gradient.

They are said as `x[i][j]` and `y.at[i].set(y[i] + v)`: each trip takes whole rows, and writes them.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, maker_of, ops_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.forms.trips import UPDATE, Site, Trips
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.loops import numbered
from dtensor.passes.ops.patterns import is_zero


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
            function.stand(value, make.binary("add", make.times(index, step), first))
        else:
            function.stand(value, numbered(make, known, element))


def say_rows(trips: Trips, function: Rewriting) -> bool:
    """Say all such reads and writes of a loop row by row; whether there are any."""
    reads = [site for op in ops_of(trips.body) if (site := trips.rows_of(op)) is not None]
    for site in reads:
        _read_row(site, function)
    writes = [write for k in trips.carried if (write := _written(trips, k, function)) is not None]
    return bool(reads or writes)


def _read_row(site: Site, function: Rewriting) -> None:
    """Read elements of a row of the row."""
    op = site.op
    make, (array, *starts) = Builder(op, function.made), op.operands
    row = make.stretch(array, site.dim, starts[site.dim], site.rows)
    starts[site.dim] = make.constant_like(0, starts[site.dim])
    function.replace(op, make.dynamic_slice(row, starts, make.shape_of(op.results[0])))


def _written(trips: Trips, k: int, function: Rewriting) -> ir.Operation | None:
    """What changes a row of a carried array, and is written anew; None of another value."""
    write = added(trips, k)
    if write is not None:
        op, name = maker_of(trips.given[k]), "stablehlo.add"
    else:
        write = trips.written(k, anyhow=True)
        if write is None or trips.written(k) is not None:
            return None
        op, reduction = write.op, combiner(write.op.regions[0])
        if reduction is None:
            return None
        name = reduction.op
    assert op is not None
    make, array, value = Builder(op, function.made), trips.body.arguments[k], write.value
    start = make.reshape(write.start, ())
    row = make.stretch(array, write.dim, start, write.rows)
    after = make.value(name, [row, make.reshape(value, make.shape_of(row))], row.type)
    function.replace(op, make.updated(array, after, make.starts_along(array, write.dim, start)))
    return op


def added(trips: Trips, k: int) -> Site | None:
    """The rows that are added to a carried array, written over zeros: the gradient of a read."""
    op, array = maker_of(trips.given[k]), trips.body.arguments[k]
    if op is None or op.name != "stablehlo.add" or array not in op.operands:
        return None
    update = maker_of(op.operands[int(op.operands[0] == array)])
    if update is None or update.name != UPDATE or update.block != trips.body:
        return None
    site = trips.walk(update) if is_zero(update.operands[0]) else None
    return site if site is not None and site.step == site.rows else None
