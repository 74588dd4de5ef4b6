"""Rows that indices pick from a split table, and what is computed of them: paged attention.

The table is cut into its shards, side by side along a first dimension, and each picks a row for
every index. What is computed of the rows is computed of those of each shard, until it is reduced
over the indices: that goes over the shards too, of the rows that each of them owns. So a shard
attends to its own pages, and maxima, sums and weighted values are all that is sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.dialect.names import DOT_NUMBERS, SLICE_SIZES
from dtensor.passes.builder import Builder, integers_attr
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.expansion.indices import signed_index
from dtensor.passes.forms.walked import (
    Walks,
    is_marked,
    labels_of,
    moved_dims,
    plain_dims,
    product_dims,
    walks_alike,
)
from dtensor.passes.ops.attributes import dot_sides, element_of, integers, shape_of
from dtensor.passes.ops.batched import Batched, copied
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.elements import holds_floats
from dtensor.passes.ops.indexing import (
    IndexedDims,
    IndexNumbers,
    clamped,
    gather_dims,
    index_columns,
    index_vectors,
)
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.reduction import Reduction

_MOST = 16  # operations per element that is picked: more of them had better be divided
_LEAST = 2  # times as much would be sent otherwise

_LINEAR = tuple(
    f"stablehlo.{name}"
    for name in "add broadcast_in_dim negate reshape slice subtract transpose".split()
)


def replaced_rows(gathers: Sequence[ir.Operation], shards: Shards) -> list[ir.Operation]:
    """What stands for what is computed of the rows that gathers pick, which is erased with them.

    Args:
        gathers: those of a program, in order.
        shards: into how many shards dimensions are known to be split.
    """
    groups: dict[tuple[Value, int, int, int, int], list[_Table]] = {}
    for op in gathers:
        table = _Table.of(op, shards)
        if table is not None:
            numbers = table.dims.vector_dim, table.component, table.size, table.shards
            groups.setdefault((op.operands[1], *numbers), []).append(table)
    return [op for tables in groups.values() for op in _Region(tables).replaced()]


@dataclass(frozen=True)
class _Table:
    """A gather from a table that is split.

    Attributes:
        gather: the gather.
        dims: its dimensions.
        dim: the dimension of the table that is split.
        component: that of the index vectors that speaks of it.
        shards: how many there are.
    """

    gather: ir.Operation
    dims: IndexedDims
    dim: int
    component: int
    shards: int

    @staticmethod
    def of(op: ir.Operation, shards: Shards) -> _Table | None:
        """The table that a gather reads; None if nothing is known to split one picked dimension."""
        table, indices = op.operands
        dims = gather_dims(op, shape_of(table), len(shape_of(indices)))
        sizes = shape_of(op.results[0])
        if is_marked(op) or dims.cut or dims.partly or 0 in sizes:
            return None
        if all(sizes[r] == 1 for _, r in dims.full):
            return None  # single numbers are sent with what else is summed
        found = [
            _Table(op, dims, d, component, count)
            for d, component in dims.picked
            if (count := shards.count((table, d))) > 1
        ]
        return found[0] if len(found) == 1 and known_integers(indices) is None else None

    @property
    def size(self) -> int:
        """How many rows there are."""
        return shape_of(self.gather.operands[0])[self.dim]

    @property
    def walked(self) -> Walks:
        """What the dimensions of the gather walk."""
        pairs = [*self.dims.spread, *((i, r) for _, i, r in self.dims.batching)]
        labels: dict[int, int | None] = {r: i for i, r in pairs}
        sizes = enumerate(shape_of(self.gather.results[0]))
        return [[(labels.get(r), size)] if size != 1 else [] for r, size in sizes]

    def owned(self, make: Builder) -> tuple[Value, Value]:
        """The index vectors of each shard, and which of them it owns, without the vectors."""
        indices = self.gather.operands[1]
        columns = index_columns(make, indices, self.dims.vector_dim)
        element = signed_index(make.element_of(indices))
        columns[self.component] = clamped(make, columns[self.component], self.size)
        shape = (self.shards, *make.shape_of(columns[0]))
        dims = range(1, len(shape))
        columns = [make.broadcast(make.convert(c, element), shape, dims) for c in columns]
        first = make.times(make.iota(shape, 0, element), self.rows)
        local = make.binary("subtract", columns[self.component], first)
        columns[self.component] = local
        rank = len(shape_of(indices)) + 1
        vector_dim = self.dims.vector_dim + 1
        return index_vectors(make, columns, vector_dim, rank), make.within(local, 0, self.rows)

    @property
    def rows(self) -> int:
        """How many a shard has."""
        return -(-self.size // self.shards)

    def picked(self, make: Builder, vectors: Value) -> Value:
        """What each shard picks."""
        op, dim, numbers = self.gather, self.dim, IndexNumbers.of(self.gather)
        table = make.lengthened(op.operands[0], dim, 0, self.rows * self.shards)
        shape = make.shape_of(table)
        table = make.reshape(table, (*shape[:dim], self.shards, self.rows, *shape[dim + 1 :]))
        table = make.transpose(table, [dim, *(d for d in range(len(shape) + 1) if d != dim)])
        made = stablehlo.GatherDimensionNumbers.get(
            _behind(numbers.windows),
            _behind(numbers.gone),
            [0, *_behind(numbers.walked)],
            [0, *_behind(numbers.beside)],
            _behind(numbers.named),
            numbers.vector_dim + 1,
        )
        sizes = [1, *integers(op.attributes[SLICE_SIZES])]
        return make.gather(table, vectors, sizes, made, (self.shards, *shape_of(op.results[0])))


@dataclass
class _Region:
    """All that is computed of what gathers by the same indices pick.

    Attributes:
        tables: the gathers.
        made: what is created.
        gone: what it stands for.
        dims: of the values that each shard computes by itself.
        linear: those of them that are the sum of what shards have, with zero for others' rows.
        sent: how many elements are reduced over the shards.
        spared: how many would be, if no more than parts of sums were: of which value.
    """

    tables: Sequence[_Table]
    made: list[ir.Operation] = field(default_factory=list)
    gone: list[ir.Operation] = field(default_factory=list)
    dims: dict[Value, Walks] = field(default_factory=dict)
    linear: set[Value] = field(default_factory=set)
    sent: int = 0
    spared: dict[Value, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = self.tables[0].gather
        self.make = Builder(self.first, self.made)
        self.to = Batched(self.make, self.tables[0].shards)
        self.most = _MOST * max(_size(table.gather.results[0]) for table in self.tables)
        self.labels = sorted(labels_of(self.tables[0].walked))

    def replaced(self) -> list[ir.Operation]:
        """What stands for it; nothing where it stays, as it does where that sends no less."""
        if not self._write() or _LEAST * self.sent > sum(self.spared.values()):
            for op in reversed(self.made):
                op.erase()
            return []
        for op in reversed(self.gone):
            for result in op.results:
                if result not in self.dims:
                    result.replace_all_uses_with(self.to.known[result])
            op.erase()
        return self.made

    def _write(self) -> bool:
        """Write all that is computed of the rows; whether that can be done."""
        gathers = {table.gather: table for table in self.tables}
        if any(op.block != self.first.block for op in gathers):
            return False
        vectors, self.is_mine = self.tables[0].owned(self.make)
        behind = [view.operation for view in self.first.block.operations]
        for op in behind[behind.index(self.first) :]:
            self.make.move_to(op)
            if op in gathers:
                self.to.say(op.results, [gathers[op].picked(self.make, vectors)])
                self.dims[op.results[0]] = gathers[op].walked
                self.linear.add(op.results[0])
            elif not any(value in self.dims for value in op.operands):
                continue
            elif len(op.results) != 1 or is_marked(op) or not self._write_one(op):
                return False
            if any(use.owner.operation.block != op.block for use in op.results[0].uses):
                return False
            self.gone.append(op)
        return True

    def _write_one(self, op: ir.Operation) -> bool:
        """Write what reads rows; whether that can be done."""
        is_linear = self._is_linear(op)
        if not is_linear:
            self.spared |= {v: _size(v) for v in op.operands if v in self.linear}
        match op.name:
            case "stablehlo.dot_general":
                return self._product(op, is_linear)
            case "stablehlo.reduce":
                return self._reduce(op, is_linear)
        return self._apart(op, moved_dims(op, self.dims), is_linear)

    def _apart(self, op: ir.Operation, dims: Walks | None, is_linear: bool) -> bool:
        """Write an op that each shard does by itself."""
        result = op.results[0]
        if dims is None or sorted(labels_of(dims)) != self.labels or _size(result) > self.most:
            return False
        self.dims[result] = dims
        if is_linear:
            self.linear.add(result)
        return self.to.write(op)

    def _reduce(self, op: ir.Operation, is_linear: bool) -> bool:
        value, start = op.operands[0], op.operands[1]
        dims, summed = self.dims.get(value), integers(op.attributes["dimensions"])
        if dims is None or start in self.dims:
            return False
        if not labels_of([dims[d] for d in summed]):
            kept = [walked for d, walked in enumerate(dims) if d not in summed]
            return self._apart(op, kept, is_linear)
        kind = combiner(op.regions[0])
        if kind is None:
            return False
        given = self._mine(value, dims, kind)
        along = integers_attr([0, *_behind(summed)])
        self._join(op, [given, self.to.one(start)], {"dimensions": along}, is_linear)
        return True

    def _product(self, op: ir.Operation, is_linear: bool) -> bool:
        sides = dot_sides(op)
        batching, summed = ([*zip(*pair, strict=True)] for pair in zip(*sides, strict=True))
        dims = [self.dims.get(value) or plain_dims(value) for value in op.operands]
        for k in [k for k in (0, 1) if op.operands[k] not in self.dims]:
            for pair in (*batching, *summed):
                dims[k][pair[k]] = dims[1 - k][pair[1 - k]]
        if not walks_alike(dims[0], dims[1], (*batching, *summed)):
            return False
        lengths = shape_of(op.operands[0])
        if _size(op.results[0]) * math.prod(lengths[d] for d, _ in summed) > self.most:
            return False
        if not labels_of([dims[0][d] for d, _ in summed]):
            return self._apart(op, product_dims(op, dims), is_linear)
        if any(sorted(labels_of(each)) != self.labels for each in dims):
            return False
        given = [self._mine(*pair, Reduction.SUM) for pair in zip(op.operands, dims, strict=True)]
        (left, summed_left), (right, summed_right) = sides
        numbers = stablehlo.DotDimensionNumbers.get(
            _behind(left), _behind(right), [0, *_behind(summed_left)], [0, *_behind(summed_right)]
        )
        self._join(op, given, {DOT_NUMBERS: numbers}, is_linear)
        return True

    def _mine(self, value: Value, dims: Walks, kind: Reduction) -> Value:
        """A value of each shard, with what a reduction does not notice for rows of others."""
        make, shape = self.make, (self.to.count, *shape_of(value))
        walked = [each for dim in dims for each in dim]
        places = {label: k + 1 for k, (label, _) in enumerate(walked) if label is not None}
        sizes = [self.to.count, *(size for _, size in walked)]
        mine = make.reshape(self.is_mine, [sizes[0], *(sizes[places[i]] for i in self.labels)])
        mine = make.spread(mine, sizes, [0, *(places[i] for i in self.labels)])
        given = self.to.all(value)
        return make.select(make.reshape(mine, shape), given, make.identity(kind, given.type))

    def _join(
        self,
        op: ir.Operation,
        given: Sequence[Value],
        attributes: Mapping[str, ir.Attribute],
        is_linear: bool,
    ) -> None:
        """Write an op that goes over the shards."""
        result = op.results[0]
        self.to.known[result] = copied(
            self.make, op, given, [self.make.shape_of(result)], attributes
        ).results[0]
        self.sent += _size(result)
        if is_linear:
            self.spared[result] = _size(result)

    def _is_linear(self, op: ir.Operation) -> bool:
        """Whether an op gives parts of a sum, as rows of a split table are."""
        values = [op.operands[0]] if op.name == "stablehlo.reduce" else list(op.operands)
        parts = [value in self.linear for value in values]
        match op.name:
            case "stablehlo.multiply" | "stablehlo.dot_general":
                return sum(parts) == 1
            case "stablehlo.reduce":
                return parts == [True] and combiner(op.regions[0]) is Reduction.SUM
            case "stablehlo.convert":
                return all(parts) and holds_floats(*map(element_of, (values[0], op.results[0])))
        return all(parts) and op.name in _LINEAR


def _size(value: Value) -> int:
    return math.prod(shape_of(value))


def _behind(dims: Sequence[int]) -> list[int]:
    """Dimensions, behind that of the shards."""
    return [d + 1 for d in dims]
