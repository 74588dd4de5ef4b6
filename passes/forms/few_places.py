"""Argsorts of which a few places are read, and gradients of sorts at a few places.

Where the element of some rank stands is found without sorting. Its value is found as a median is.
Of the elements equal to it, the first stands at the lowest rank of them, the second at the next,
and so on: the shards count them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr, matrix_attr
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers, splat_number
from dtensor.passes.ops.comparators import on_tensors
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.patterns import adds
from dtensor.passes.ops.reduction import Reduction


@dataclass(frozen=True)
class _Term:
    """Numbers that stand at some ranks, from one on; the shape is that of what is sorted there."""

    rank: int
    count: int
    value: Value


@dataclass
class FewPlaces:
    """Reads of the places that a sort gives, and writes to them.

    Attributes:
        sort: the sort, of numbers and of places.
        place: which operand has those.
        dim: along which it sorts.
        cuts: operations that read places, each with the rank from which on it does.
        adds: scatters that add, at all places, a sum that is zero at most ranks.
    """

    sort: ir.Operation
    place: int
    dim: int
    cuts: list[tuple[ir.Operation, int]] = field(default_factory=list)
    adds: list[tuple[ir.Operation, list[_Term]]] = field(default_factory=list)

    @property
    def ranks(self) -> int:
        """How many places are read."""
        return sum(self._count(op) for op, _ in self.cuts) + sum(
            term.count for _, terms in self.adds for term in terms
        )

    def reads(self, op: ir.Operation) -> bool:
        """Whether an op reads places at known ranks, with all of the other dimensions."""
        if op.name not in ("stablehlo.slice", "stablehlo.dynamic_slice"):
            return False
        shape, result = shape_of(self.sort.operands[0]), shape_of(op.results[0])
        if op.name == "stablehlo.slice":
            starts, _, strides = slice_numbers(op)
            rank = starts[self.dim] if strides[self.dim] == 1 else None
        else:
            start = known_integers(op.operands[1 + self.dim])
            last = shape[self.dim] - result[self.dim]
            rank = None if start is None else min(max(int(start), 0), last)
        others = [n for d, n in enumerate(shape) if d != self.dim]
        if rank is None or others != [n for d, n in enumerate(result) if d != self.dim]:
            return False
        self.cuts.append((op, rank))
        return True

    def _count(self, op: ir.Operation) -> int:
        return shape_of(op.results[0])[self.dim]

    def writes(self, op: ir.Operation) -> bool:
        """Whether an op adds to zeros, at all places, a sum that is zero at most ranks."""
        if len(op.operands) != 3 or not _adds_to_zeros(op):
            return False
        numbers, shape = IndexNumbers.of(op), shape_of(self.sort.operands[0])
        others = [d for d in range(len(shape)) if d != self.dim]
        is_each = numbers.named == [self.dim] and numbers.walked == numbers.beside == others
        is_each = is_each and numbers.vector_dim == len(shape) and not numbers.windows
        if not is_each or any(shape_of(op.operands[k]) != shape for k in (0, 2)):
            return False
        terms = self._terms(op.operands[2])
        if terms is not None:
            self.adds.append((op, terms))
        return terms is not None

    def _terms(self, value: Value) -> list[_Term] | None:
        """The terms of a sum, each of which is zero but at some ranks; None of other sums."""
        op = maker_of(value)
        if op is None or op.block != self.sort.block:
            return None
        if op.name == "stablehlo.add":
            sides = [self._terms(operand) for operand in op.operands]
            return None if None in sides else [term for side in sides for term in side or ()]
        shape = shape_of(value)
        if op.name == "stablehlo.pad" and splat_number(op.operands[1]) == 0:
            lows, highs, gaps = pad_numbers(op)
            low, high, gap = lows.pop(self.dim), highs.pop(self.dim), gaps.pop(self.dim)
            if low < 0 or high < 0 or gap or any((*lows, *highs, *gaps)):
                return None
            return [_Term(low, shape_of(op.operands[0])[self.dim], op.operands[0])]
        if op.name != "stablehlo.scatter" or len(op.operands) != 3 or not _adds_to_zeros(op):
            return None
        numbers, index = IndexNumbers.of(op), known_integers(op.operands[1])
        others = [n for d, n in enumerate(shape) if d != self.dim]
        is_row = numbers.named == numbers.gone == [self.dim] and not numbers.walked
        is_row = is_row and math.prod(shape_of(op.operands[2])) == math.prod(others)
        if index is None or index.size != 1 or not is_row:
            return None
        if not 0 <= int(index.ravel()[0]) < shape[self.dim]:
            return None
        return [_Term(int(index.ravel()[0]), 1, op.operands[2])]

    def write(self, ordered: Value, function: Rewriting) -> None:
        """Let what is computed of the sorted numbers stand for the reads and the writes."""
        for op, rank in self.cuts:
            make = Builder(op, function.made)
            hits = self._hits(make, ordered, rank, self._count(op))
            index = make.iota(make.shape_of(hits), self.dim + 1, index_element(self._size))
            found = make.select(hits, index, 0)
            found = make.reduced(found, self.dim + 1, Reduction.SUM)
            found = make.convert(make.moved(found, 0, self.dim), make.element_of(op.results[0]))
            function.replace(op, found)
        for op, terms in self.adds:
            make, total = Builder(op, function.made), op.operands[0]
            for term in terms:
                total = make.binary("add", total, self._spread(make, ordered, term))
            function.replace(op, total)

    def _spread(self, make: Builder, ordered: Value, term: _Term) -> Value:
        """What is added at each place for a term."""
        hits = self._hits(make, ordered, term.rank, term.count)
        shape = [term.count if d == self.dim else n for d, n in enumerate(self._shape)]
        rows = self._each(make, make.reshape(term.value, shape), term.count)
        rows = make.select(hits, rows, 0)
        if term.count == 1:
            return make.reshape(rows, self._shape)
        return make.reduced(rows, 0, Reduction.SUM)

    @property
    def _shape(self) -> list[int]:
        return shape_of(self.sort.operands[0])

    @property
    def _size(self) -> int:
        return self._shape[self.dim]

    def _each(self, make: Builder, rows: Value, count: int) -> Value:
        """Rows of what is sorted, each against all of it."""
        others = [d + 1 for d in range(len(self._shape)) if d != self.dim]
        return make.broadcast(make.moved(rows, self.dim, 0), (count, *self._shape), [0, *others])

    def _hits(self, make: Builder, ordered: Value, rank: int, count: int) -> Value:
        """For each of `count` ranks from one on, which element stands there."""
        along, block = self.dim + 1, self.sort.regions[0].blocks[0]
        given = self.sort.operands[1 - self.place]
        shape = (count, *self._shape)
        each = self._each(make, make.cut(ordered, self.dim, rank, count), count)
        own = make.broadcast(given, shape, list(range(1, len(shape))))
        (before,) = on_tensors(make, block, [own, each] * 2)
        (behind,) = on_tensors(make, block, [each, own] * 2)
        either = make.binary("or", before, behind)
        equal = make.unary("not", either)
        element = index_element(self._size)
        ahead = make.reduced(make.convert(before, element), along, Reduction.SUM)
        ranks = make.iota(make.shape_of(ahead), 0, element)
        number = make.binary("subtract", ranks, ahead)
        number = make.binary("add", number, rank + 1)
        places = [d for d in range(len(shape)) if d != along]
        number = make.broadcast(number, shape, places)
        so_far = _sums(make, make.convert(equal, element), along)
        return make.binary("and", equal, make.compare("EQ", so_far, number))


def _adds_to_zeros(scatter: ir.Operation) -> bool:
    return splat_number(scatter.operands[0]) == 0 and adds(scatter)


def _sums(make: Builder, value: Value, dim: int) -> Value:
    """The sums of the elements up to each one."""
    size, shape = make.shape_of(value)[dim], make.shape_of(value)
    scalar = make.tensor_type((), make.element_of(value))
    ones = [1] * len(shape)
    attributes = {
        "window_dimensions": integers_attr([size if d == dim else 1 for d in range(len(shape))]),
        "window_strides": integers_attr(ones),
        "base_dilations": integers_attr(ones),
        "window_dilations": integers_attr(ones),
        "padding": matrix_attr([[size - 1 if d == dim else 0, 0] for d in range(len(shape))]),
    }
    zero = make.zeros(scalar)
    op = make.create("stablehlo.reduce_window", [value, zero], [value.type], attributes, regions=1)
    make.reduction_body(op, Reduction.SUM.op, scalar)
    result: Value = op.results[0]
    return result
