"""Rows looked up at the largest place so far: `x[jax.lax.cummax(jnp.where(is_known, places, 0))]`.

That fills what is missing with the last number before it, and finds where each group begins. Any
place that is looked up is one of those that the running maximum is taken of; so each is looked up
where it stands, at places that are known, and the row is carried along with the place. Shards pass
on one row each then, where any of them could have asked for any row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, made_by, maker_of, operation_of
from dtensor.dialect.names import DIM, REVERSE, SCAN
from dtensor.passes.builder import Builder, filling
from dtensor.passes.cuts.names import REDUCE_WINDOW
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.ops.attributes import integer, is_identity, shape_of, splat_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.indexing import indexed_dims
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.patterns import adds_ones
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.scans import scans
from dtensor.passes.ops.windows import windows_of
from dtensor.passes.program import copy_to

_MOST = 16  # operations between the running maximum and the lookup, or before it


def replace_lookup(gather: ir.Operation, function: Rewriting) -> None:
    """Carry the rows of a split table along with the running maximum of places."""
    dims = indexed_dims(gather, [*map(shape_of, gather.operands)])
    table, vectors = gather.operands
    if len(dims.picked) != 1 or len(dims.spread) != 1 or dims.cut or dims.partly or dims.batching:
        return
    (dim, _), (_, row) = dims.picked[0], dims.spread[0]
    if not function.shards.splits((table, dim)):
        return
    path = _Path()
    if not path.leads(vectors, _MOST) or len(path.ends) != 1:
        return
    (running,) = path.ends.values()
    if not _holds_known(running.given, _MOST):
        return
    make = Builder(gather, function.made)
    looked_up = _LookedUp(gather, row, running, path.works, make)
    rows = looked_up.at(running.given)
    shape = shape_of(rows)
    places = make.broadcast(running.given, shape, [row])
    scan = build.scan(
        [places, rows], row, running.is_reverse, loc=gather.location, ip=ir.InsertionPoint(gather)
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
        direction: "GT" of the largest, "LT" of the smallest.
        is_reverse: whether it begins with the last.
    """

    result: Value
    given: Value
    direction: str
    is_reverse: bool

    @staticmethod
    def of(value: Value) -> _Running | None:
        """What a value is; None if it is none."""
        op = maker_of(value)
        way = _WAYS.get(op.name) if op is not None and len(op.results) == 1 else None
        if op is None or way is None or len(shape_of(value)) != 1:
            return None
        reduction, is_reverse = combiner(op.regions[0]), way(op)
        if reduction not in _DIRECTIONS or is_reverse is None:
            return None
        return _Running(value, op.operands[0], _DIRECTIONS[reduction], is_reverse)


_DIRECTIONS = {Reduction.MAX: "GT", Reduction.MIN: "LT"}


def _of_windows(op: ir.Operation) -> bool | None:
    """Whether windows begin with the last element; None if they do not hold all up to one."""
    info, reduction = OpInfo.of(op), combiner(op.regions[0])
    if info is None or reduction is None or not is_identity(op.operands[1], reduction):
        return None
    (window,) = windows_of(info)
    is_scan = window.is_bare and scans(window, info.operand_shapes[0][0])
    return window.low == 0 if is_scan else None


def _of_scan(op: ir.Operation) -> bool | None:
    return bool(integer(op.attributes[REVERSE])) if integer(op.attributes[DIM]) == 0 else None


_WAYS: dict[str, Callable[[ir.Operation], bool | None]] = {
    REDUCE_WINDOW: _of_windows,
    SCAN: _of_scan,
}


@dataclass(frozen=True)
class _Path:
    """From running maxima to what is computed of them, element by element.

    Attributes:
        ends: the running maxima.
        works: the operations in between, in order.
    """

    ends: dict[Value, _Running] = field(default_factory=dict)
    works: list[ir.Operation] = field(default_factory=list)

    def leads(self, value: Value, most: int) -> bool:
        """Whether a value is computed so, by at most so many operations one after another."""
        op = maker_of(value)
        if splat_of(value) is not None or value in self.ends or op in self.works:
            return True
        if (running := _Running.of(value)) is not None:
            self.ends[value] = running
            return True
        if op is None or not most or not (is_scalar_work(op) or adds_ones(op)):
            return False
        if not all(self.leads(operand, most - 1) for operand in op.operands):
            return False
        self.works.append(op)
        return True


def _holds_known(value: Value, most: int) -> bool:
    """Whether a value chooses between places that are known."""
    choice = made_by("stablehlo.select", value)
    if choice is None:
        return known_integers(value) is not None
    if shape_of(choice.operands[0]) != shape_of(value) or not most:
        return False
    return all(_holds_known(each, most // 2) for each in choice.operands[1:])


@dataclass(frozen=True)
class _LookedUp:
    """A lookup, to be written for other places than the largest so far.

    Attributes:
        gather: the lookup.
        row: the dimension of its result that walks the places.
        running: the largest so far.
        works: what makes index vectors of them.
        make: creates operations before the lookup.
    """

    gather: ir.Operation
    row: int
    running: _Running
    works: list[ir.Operation]
    make: Builder

    def at(self, places: Value) -> Value:
        """The rows at places, which choose between known ones."""
        choice = made_by("stablehlo.select", places)
        if choice is not None:
            yes, no = map(self.at, choice.operands[1:])
            return self.make.select(choice.operands[0], yes, no, [self.row])
        known = {self.running.result: places}
        point = ir.InsertionPoint(self.gather)
        for op in (*self.works, self.gather):
            copy_to(point, op, known)
            self.make.note(operation_of(known[op.results[0]]))
        return known[self.gather.results[0]]


def _choose(block: ir.Block, direction: str) -> None:
    """Let a body of two places with their rows give the one that is ahead, and its row."""
    make = filling(block)
    place, row, other, its_row = block.arguments
    is_ahead = make.compare(direction, other, place)
    make.end([make.select(is_ahead, other, place), make.select(is_ahead, its_row, row)])
