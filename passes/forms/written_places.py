"""Gradients of sorts at a few places: sums that are added where the elements stood.

What is added at all places is zero but at a few of an order. Where the elements stood that are at
those is found without sorting, and there alone something is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.expansion.indices import index_element, signed_index
from dtensor.passes.forms.few_places import Places, started
from dtensor.passes.forms.row_places import RowPlaces
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.indexing import SCATTER, IndexNumbers
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.patterns import adds, is_zero, zeros_around
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.rewriting.rewriting import Rewriting


@dataclass(frozen=True)
class Term:
    """Numbers at some places of an order, and zeros everywhere else.

    Attributes:
        places: those.
        value: the numbers.
        order: its dimensions, those of the places first.
        may_miss: whether places may lie beyond an end; what is written there is written nowhere.
    """

    places: Places
    value: Value
    order: Sequence[int]
    may_miss: bool = False

    def added(self, make: Builder, where: Value, dim: int, shape: Sequence[int]) -> Value:
        """What is added at each place of what was sorted.

        Args:
            make: where to create it.
            where: where the elements stood that are at the places.
            dim: the dimension that is sorted.
            shape: of what is sorted.
        """
        count, others = self.places.count, [d for d in range(len(shape)) if d != dim]
        rows = make.transpose(self.value, self.order)
        rows = make.reshape(rows, (count, *(shape[d] for d in others)))
        if self.may_miss:
            rows = self._within(make, rows, shape[dim])
        each, dims = (count, *shape), [0, *(d + 1 for d in others)]
        where = make.broadcast(make.moved(where, dim, 0), each, dims)
        hits = make.compare("EQ", make.iota(each, dim + 1, make.element_of(where)), where)
        rows = make.select(hits, make.broadcast(rows, each, dims), 0)
        return make.reshape(rows, shape) if count == 1 else make.reduced(rows, 0, Reduction.SUM)

    def _within(self, make: Builder, rows: Value, size: int) -> Value:
        """The rows whose places are among `size`; zeros for others."""
        column = self.places.column(make)
        column = make.convert(column, signed_index(index_element(size), make.element_of(column)))
        dims = range(len(make.shape_of(column)))
        return make.select(make.within(column, 0, size), rows, 0, list(dims))


@dataclass(frozen=True)
class Write:
    """A scatter that adds to zeros, at all places, a sum that is zero but at a few of an order."""

    op: ir.Operation
    terms: list[Term]

    @staticmethod
    def of(op: ir.Operation, sort: ir.Operation, dim: int) -> Write | None:
        """A scatter at the places that a sort gives, if it is one."""
        shape = shape_of(sort.operands[0])
        if not _adds_to_zeros(op):
            return None
        numbers, others = IndexNumbers.of(op), [d for d in range(len(shape)) if d != dim]
        is_each = numbers.named == [dim] and numbers.walked == numbers.beside == others
        is_each = is_each and numbers.vector_dim == len(shape) and not numbers.windows
        if not is_each or any(shape_of(op.operands[k]) != shape for k in (0, 2)):
            return None
        terms = _terms(op.operands[2], sort.block, dim)
        return None if terms is None else Write(op, terms)

    def let(self, wheres: Sequence[Value], dim: int, function: Rewriting) -> None:
        """Let the terms be added where the elements stood that are at the places of each."""
        op, make = self.op, Builder(self.op, function.made)
        total, shape = op.operands[0], shape_of(op.operands[0])
        for term, where in zip(self.terms, wheres, strict=True):
            total = make.binary("add", total, term.added(make, where, dim, shape))
        function.replace(op, total)


def _adds_to_zeros(scatter: ir.Operation) -> bool:
    is_one = scatter.name == SCATTER and len(scatter.operands) == 3
    return is_one and is_zero(scatter.operands[0]) and adds(scatter)


def _terms(value: Value, block: ir.Block, dim: int) -> list[Term] | None:
    """The terms of a sum, each of which is zero but at some places; None of other sums."""
    op = maker_of(value)
    if op is None or op.block != block:
        return None
    if op.name == "stablehlo.add":
        sides = [_terms(operand, block, dim) for operand in op.operands]
        return None if None in sides else [term for side in sides for term in side or ()]
    reader = _TERMS.get(op.name)
    term = None if reader is None else reader(op, shape_of(value), dim)
    return None if term is None else [term]


def _padded(op: ir.Operation, shape: list[int], dim: int) -> Term | None:
    """Zeros around some rows."""
    value, ends = zeros_around(op.results[0]) or (op.operands[0], [])
    if not ends or any(any(each) for d, each in enumerate(ends) if d != dim):
        return None
    return Term(Places(shape_of(value)[dim], ends[dim][0]), value, _first(dim, shape))


def _updated(op: ir.Operation, shape: list[int], dim: int) -> Term | None:
    """Some rows put into zeros."""
    update = op.operands[1]
    if not is_zero(op.operands[0]):
        return None
    places = started(op.operands[2 + dim], shape_of(update), shape, dim)
    return None if places is None else Term(places, update, _first(dim, shape))


def _scattered(op: ir.Operation, shape: list[int], dim: int) -> Term | None:
    """Some rows, or elements of rows, added to zeros."""
    if not _adds_to_zeros(op):
        return None
    numbers, (_, index, updates) = IndexNumbers.of(op), op.operands
    if numbers.named == numbers.gone == [dim] and not numbers.walked:
        sizes, count = shape_of(updates), math.prod(shape_of(index))
        if [sizes[d] for d in numbers.windows] != [n for d, n in enumerate(shape) if d != dim]:
            return None
        order = [*(d for d in range(len(sizes)) if d not in numbers.windows), *numbers.windows]
        found = known_integers(index)
        is_within = found is not None and bool(((found >= 0) & (found < shape[dim])).all())
        return Term(Places(count, index), updates, order, not is_within)
    rows = RowPlaces.of(op, dim)
    return None if rows is None else Term(Places(rows.count, rows), updates, rows.order, True)


def _first(dim: int, shape: Sequence[int]) -> list[int]:
    return [dim, *(d for d in range(len(shape)) if d != dim)]


_TERMS = {
    "stablehlo.pad": _padded,
    "stablehlo.dynamic_update_slice": _updated,
    SCATTER: _scattered,
}
