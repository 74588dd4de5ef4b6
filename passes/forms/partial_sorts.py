"""Sorts of which only a few places are read: medians, quantiles, the k-th element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, maker_of, ops_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.forms.few_places import MOST_PLACES, Places, Read, taken
from dtensor.passes.forms.row_places import RowPlaces
from dtensor.passes.forms.written_places import Write
from dtensor.passes.ops.attributes import integer, integers, shape_of, splat_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.comparators import compare_by
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.keys import orders
from dtensor.passes.ops.loops import numbered
from dtensor.passes.rewriting.rewriting import Rewriting


def replace_sort(sort: ir.Operation, function: Rewriting) -> None:
    """Let what stands at a few places stand for a sort of which no others are read."""
    if len(sort.operands) == 1:
        few = FewRead(sort)
        if few.takes(sort.results[0]):
            few.replace(function)


@dataclass
class FewRead:
    """A sort of one array of which few places are read.

    Attributes:
        sort: the sort; others may stand for it so far.
        reads: what reads what is sorted.
        counts: what reads it in any order: the operation, and as which operand.
        finds: what reads where elements stood.
        writes: what adds something there.
    """

    sort: ir.Operation
    reads: list[Read] = field(default_factory=list)
    counts: list[tuple[ir.Operation, int]] = field(default_factory=list)
    finds: list[Read] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)

    @property
    def dim(self) -> int:
        """The dimension that is sorted."""
        given = self.sort.attributes
        dim = integer(given["dimension"]) if "dimension" in given else -1
        return dim % len(self._shape)

    @property
    def _shape(self) -> list[int]:
        return shape_of(self.sort.results[0])

    @property
    def _places(self) -> list[Places]:
        """All places, as each use has them."""
        terms = [term.places for write in self.writes for term in write.terms]
        return [read.places for read in (*self.reads, *self.finds)] + terms

    def takes(self, value: Value) -> bool:
        """Whether all that reads a value, sorted so, reads places; it is taken down."""
        for use in value.uses:
            op = use.owner.operation
            if _forgets_order(op, self.dim, self._shape):
                self.counts.append((op, use.operand_number))
                continue
            read = Read.of(op, value, self.dim) if op.block == self.sort.block else None
            if read is None:
                return False
            self.reads.append(read)
        return True

    def takes_where(self, uses: Iterable[tuple[ir.Operation, int]]) -> bool:
        """The same of what reads where elements stood."""
        for op, k in uses:
            if op.block != self.sort.block:
                return False
            write = Write.of(op, self.sort, self.dim) if k == 1 else None
            if write is not None:
                self.writes.append(write)
                continue
            is_plain = shape_of(op.operands[k]) == self._shape
            read = Read.of(op, op.operands[k], self.dim) if is_plain else None
            if read is None:
                return False
            self.finds.append(read)
        return True

    def replace(self, function: Rewriting) -> bool:
        """Write it so, if the places are few and can be known before any is read."""
        ops = [read.op for read in (*self.reads, *self.finds)]
        ops += [write.op for write in self.writes]
        size = self._shape[self.dim]
        if not ops or size <= MOST_PLACES or orders(self.sort.regions[0].blocks[0]) is None:
            return False
        numbers = {op: i for i, op in enumerate(ops_of(self.sort.block))}
        for reads in (self.reads, self.finds):
            reads.sort(key=lambda read: numbers[read.op])
        found = _Joined.of(self._places, size)
        if found is None:
            return False
        first = min(ops, key=lambda op: numbers[op])
        computed = [value for places in self._places for value in places.computed]
        if not stands_before(computed, first, numbers):
            return False
        for op, k in self.counts:
            op.operands[k] = self.sort.operands[0]
        self._write(first, found, function)
        return True

    def _write(self, first: ir.Operation, found: _Joined, function: Rewriting) -> None:
        make, dim = Builder(first, function.made), self.dim
        has_where = bool(self.finds or self.writes)
        index = index_element(self._shape[dim]) if has_where else None
        ranked = build.ranked(
            self.sort.operands[0],
            found.column(make, [n for d, n in enumerate(self._shape) if d != dim]),
            dim,
            None if index is None else ir.Type.parse(index),
            loc=self.sort.location,
            ip=ir.InsertionPoint(first),
        )
        compare_by(self.sort.regions[0].blocks[0], ranked.regions[0].blocks[0], -1)
        function.made.append(ranked)
        for k, reads in enumerate((self.reads, self.finds)):
            for read in reads:
                read.let(ranked.results[k], dim, found.index(read.places), function)
        for write in self.writes:
            make = Builder(write.op, function.made)
            indices = [found.index(term.places) for term in write.terms]
            wheres = [taken(make, ranked.results[1], dim, index) for index in indices]
            write.let(wheres, dim, function)
        function.drop(self.sort)


@dataclass(frozen=True)
class _Joined:
    """Places of several uses, each once.

    Attributes:
        all: those of each use.
        known: for each the places, as numbers; nothing if those of one are not known.
    """

    all: list[Places]
    known: list[list[int]]

    @staticmethod
    def of(given: Sequence[Places], size: int) -> _Joined | None:
        """The places among `size`; None if there are many, or none."""
        each = list(dict.fromkeys(given))
        known = [found for places in each if (found := places.known(size)) is not None]
        if len(known) < len(each):
            count, known = sum(places.count for places in each), []
        else:
            count = len({place for found in known for place in found})
        return _Joined(each, known) if 0 < count <= MOST_PLACES else None

    @property
    def _wanted(self) -> list[int]:
        """All that are known."""
        return sorted({place for found in self.known for place in found})

    def index(self, places: Places) -> list[int]:
        """Which of all places these are."""
        k = self.all.index(places)
        if self.known:
            return [self._wanted.index(place) for place in self.known[k]]
        ends = [0, *accumulate(each.count for each in self.all)]
        return [list(range(*pair)) for pair in pairwise(ends)][k]

    def column(self, make: Builder, rows: Sequence[int]) -> Value:
        """All places; those of each row, of this shape, if one use has such."""
        if self.known:
            return numbered(make, self._wanted, "i32")
        columns = [places.column(make) for places in self.all]
        if any(isinstance(places.at, RowPlaces) for places in self.all):
            columns = [
                make.broadcast(each, (places.count, *rows), list(range(len(make.shape_of(each)))))
                for places, each in zip(self.all, columns, strict=True)
            ]
        if len({make.element_of(column) for column in columns}) > 1:
            columns = [make.convert(column, "i64") for column in columns]
        return make.joined(columns, 0)


def _forgets_order(op: ir.Operation, dim: int, shape: list[int]) -> bool:
    """Whether a use only computes element by element, and then reduces along the dimension.

    `jnp.nanmedian` does, which counts the numbers that it has sorted.
    """
    if op.name == "stablehlo.reduce":
        is_one = len(op.operands) == 2 and shape_of(op.operands[0]) == shape
        is_known = is_one and combiner(op.regions[0]) is not None
        return is_known and dim in integers(op.attributes["dimensions"])
    if (
        not is_scalar_work(op)
        or len({value for value in op.operands if splat_of(value) is None}) != 1
    ):
        return False
    found = users(op.results[0])
    return bool(found) and all(_forgets_order(user, dim, shape) for user in found)


def stands_before(
    values: Iterable[Value], op: ir.Operation, numbers: dict[ir.Operation, int]
) -> bool:
    """Whether values can be computed before an operation; what makes them is moved there."""
    for value in values:
        maker = maker_of(value)
        if maker is None or maker.block != op.block or numbers[maker] < numbers[op]:
            continue
        if maker == op or len(maker.regions) or maker.name == "stablehlo.gather":
            return False
        if not stands_before(maker.operands, op, numbers):
            return False
        maker.move_before(op)
        numbers[maker] = numbers[op] - 1
    return True
