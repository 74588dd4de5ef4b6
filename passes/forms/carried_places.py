"""Rows looked up at the largest place so far: `x[jax.lax.cummax(jnp.where(is_known, places, 0))]`.

That fills what is missing with the last number before it, and finds where each group begins. Any
place that is looked up is one of those that the running maximum is taken of; so each is looked up
where it stands, at places that are known, and the row is carried along with the place. Shards pass
on one row each then, where any of them could have asked for any row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, made_by, maker_of
from dtensor.dialect.names import DIM, REVERSE, SCAN
from dtensor.passes.builder import Builder, filling
from dtensor.passes.cuts.cumulative_windows import CumulativeWindow
from dtensor.passes.cuts.runs import Runs
from dtensor.passes.ops.attributes import integer, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.elementwise import cone, is_scalar_work
from dtensor.passes.ops.indexing import IndexedDims, indexed_dims
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.patterns import adds_ones
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.program import copy_to
from dtensor.passes.rewriting.rewriting import Rewriting

_MOST_WORKS = 16  # operations between the running maximum and the lookup, or before it


def replace_lookup(gather: ir.Operation, function: Rewriting) -> None:
    """Carry the rows of a split table along with the running maximum of places."""
    dims = indexed_dims(gather, [*map(shape_of, gather.operands)])
    table, vectors = gather.operands
    if len(dims.picked) != 1 or len(dims.spread) != 1 or dims.cut or dims.partly:
        return
    path = _path(vectors)
    if path is None or not function.shards.splits((table, dims.picked[0][0])):
        return
    running, works = path
    walked = sorted([*dims.spread, *((i, r) for _, i, r in dims.batching)])
    (index, row), places = dims.spread[0], [r for _, r in walked]
    is_along = running.dim == [i for i, _ in walked].index(index)
    if len(places) != len(shape_of(running.given)) or not is_along:
        return
    make = Builder(gather, function.made)
    looked_up = _LookedUp(gather, dims, places, running, works, make)
    if not looked_up.is_known(running.given, _MOST_WORKS):
        return
    rows = looked_up.at(running.given)
    wide = make.broadcast(running.given, shape_of(rows), places)
    scan = build.scan(
        [wide, rows], row, running.is_reverse, loc=gather.location, ip=ir.InsertionPoint(gather)
    )
    function.made.append(scan)
    _choose(scan.regions[0].blocks[0], running.direction)
    function.replace(gather, scan.results[1])


@dataclass(frozen=True)
class _Running:
    """The largest or smallest of places so far.

    Attributes:
        result: what is looked up.
        given: the places.
        dim: along which they are compared.
        direction: "GT" of the largest, "LT" of the smallest.
        is_reverse: whether it begins with the last.
    """

    result: Value
    given: Value
    dim: int
    direction: str
    is_reverse: bool

    @staticmethod
    def of(value: Value) -> _Running | None:
        """What a value is; None if it is none."""
        op = maker_of(value)
        if op is None or len(op.results) != 1:
            return None
        if op.name == SCAN:
            kind, dim = combiner(op.regions[0]), integer(op.attributes[DIM])
            is_reverse = bool(integer(op.attributes[REVERSE]))
        elif (window := CumulativeWindow.of(op)) is not None:
            kind, dim, is_reverse = window.kind, window.dim, window.is_reverse
        else:
            return None
        direction = {Reduction.MAX: "GT", Reduction.MIN: "LT"}.get(kind) if kind else None
        return _Running(value, op.operands[0], dim, direction, is_reverse) if direction else None


def _path(value: Value) -> tuple[_Running, list[ir.Operation]] | None:
    """The one running maximum that a value is computed of, and by what; None of others."""
    ends: dict[Value, _Running] = {}

    def is_end(value: Value) -> bool:
        running = ends.get(value) or _Running.of(value)
        if running is not None:
            ends[value] = running
        return running is not None

    works = cone(value, is_end, _MOST_WORKS, lambda op: is_scalar_work(op) or adds_ones(op))
    (running,) = ends.values() if len(ends) == 1 else (None,)
    return None if works is None or running is None else (running, works)


@dataclass(frozen=True)
class _LookedUp:
    """A lookup, to be written for other places than the largest so far.

    Attributes:
        gather: the lookup.
        dims: its dimensions.
        places: those of its result that the places have.
        running: the largest so far.
        works: what makes index vectors of them.
        make: creates operations before the lookup.
    """

    gather: ir.Operation
    dims: IndexedDims
    places: list[int]
    running: _Running
    works: list[ir.Operation]
    make: Builder

    def is_known(self, places: Value, most: int) -> bool:
        """Whether places choose between known ones, at which rows can be looked up."""
        choice = made_by("stablehlo.select", places)
        if choice is None:
            return self._row_of_each(places) is not None
        if shape_of(choice.operands[0]) != shape_of(places) or not most:
            return False
        return all(self.is_known(each, most // 2) for each in choice.operands[1:])

    def at(self, places: Value) -> Value:
        """The rows at places, which choose between known ones."""
        make, choice = self.make, made_by("stablehlo.select", places)
        if choice is not None:
            yes, no = map(self.at, choice.operands[1:])
            return make.select(choice.operands[0], yes, no, self.places)
        rows, (dim, _) = self._row_of_each(places), self.dims.picked[0]
        assert rows is not None, "places that are known"
        found, spread = rows.taken(make, self.gather.operands[0], dim), self.dims.spread[0][1]
        pairs = [(dim, spread), *self.dims.full, *((o, r) for o, _, r in self.dims.batching)]
        return make.transpose(found, [o for o, _ in sorted(pairs, key=lambda pair: pair[1])])

    def _row_of_each(self, places: Value) -> Runs | None:
        """The rows that are looked up, if they are known, alike for all columns, and few runs."""
        known = {self.running.result: places}
        for op in self.works:
            copy = copy_to(ir.InsertionPoint(self.gather), op, known)
            self.make.note(copy)  # erased, as nobody reads it
        vectors = self.gather.operands[1]
        found = known_integers(known.get(vectors, vectors))
        if found is None:
            return None
        rows = np.moveaxis(found.reshape(shape_of(places)), self.running.dim, 0)
        columns = rows.reshape(len(rows), -1)
        if not columns.size or (columns != columns[:, :1]).any():
            return None
        last = shape_of(self.gather.operands[0])[self.dims.picked[0][0]] - 1
        return Runs.of(np.clip(columns[:, 0], 0, last))


def _choose(block: ir.Block, direction: str) -> None:
    """Let a body of two places with their rows give the one that is ahead, and its row."""
    make = filling(block)
    place, row, other, its_row = block.arguments
    is_ahead = make.compare(direction, other, place)
    make.end([make.select(is_ahead, other, place), make.select(is_ahead, its_row, row)])
