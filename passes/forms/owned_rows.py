"""Rows that indices pick from a split table, and what is computed of them: paged attention.

The table is cut into its shards, side by side along a new first dimension, and each picks a row for
every index. All that is computed of the rows is computed for each shard, until it is reduced over
the indices: that reduction goes over the shards too, and counts for each the rows that it owns. So
a shard attends to its own pages, and maxima, sums and weighted values are all that is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, ops_of, users
from dtensor.dialect.names import DOT_NUMBERS, SLICE_SIZES
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr
from dtensor.passes.expansion.indices import signed_index
from dtensor.passes.forms.walked import (
    Walks,
    labels_of,
    moved_walks,
    plain_walks,
    product_walks,
    walk_alike,
)
from dtensor.passes.ops.attributes import (
    dot_pairs,
    element_of,
    elements_of,
    integers,
    is_marked,
    shape_of,
)
from dtensor.passes.ops.batched import Batched
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.contraction import dot_numbers
from dtensor.passes.ops.elements import holds_floats
from dtensor.passes.ops.indexing import (
    IndexedDims,
    IndexNumbers,
    clamped,
    index_columns,
    index_vectors,
    indexed_dims,
)
from dtensor.passes.ops.linear import kept_dims
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards

_MOST_WORKS = 16  # operations per element that is picked: more of them had better be divided
_TIMES_SPARED = 2  # times as much would be sent otherwise


def replace_rows(gather: ir.Operation, function: Rewriting) -> None:
    """Write anew what is computed of the rows that a gather, and others at its indices, pick.

    Nothing is done at the others, which the first of them stands for.
    """
    first = _Picked.of(gather)
    if first is None:
        return
    rows = [first]
    for op in dict.fromkeys(reversed(users(first.indices))):
        row = _Picked.of(op) if op.name == gather.name and op != gather else None
        if row is None or not row.goes_with(first):
            continue
        if op.block != gather.block or op.is_before_in_block(gather):
            return
        rows.append(row)
    region = _Region.of(rows)
    split = None if region is None else _Split.of(rows, function.shards)
    if region is not None and split is not None:
        _Written(region, split, function).replace()


@dataclass(frozen=True)
class _Picked:
    """Rows that a gather picks, with the dimensions of the gather."""

    gather: ir.Operation
    dims: IndexedDims

    @staticmethod
    def of(op: ir.Operation) -> _Picked | None:
        """The rows that a gather picks; None if they are none, or at known places."""
        dims = indexed_dims(op, [*map(shape_of, op.operands)])
        sizes = shape_of(op.results[0])
        if is_marked(op) or dims.cut or dims.partly or not dims.picked or 0 in sizes:
            return None
        if all(sizes[r] == 1 for _, r in dims.full):
            return None  # single numbers are sent with what else is summed
        return _Picked(op, dims) if known_integers(op.operands[1]) is None else None

    @property
    def indices(self) -> Value:
        """The indices of the rows."""
        value: Value = self.gather.operands[1]
        return value

    def goes_with(self, other: _Picked) -> bool:
        """Whether these rows are named by the same vectors."""
        return self.indices == other.indices and self.dims.vector_dim == other.dims.vector_dim

    @property
    def walked(self) -> Walks:
        """What the dimensions of the gather walk."""
        pairs = [*self.dims.spread, *((i, r) for _, i, r in self.dims.batching)]
        labels: dict[int, int | None] = {r: i for i, r in pairs}
        sizes = enumerate(shape_of(self.gather.results[0]))
        return [[(labels.get(r), size)] if size != 1 else [] for r, size in sizes]


@dataclass(frozen=True)
class _Split:
    """How the tables are split from which gathers pick rows.

    Attributes:
        component: that of the index vectors that names the row.
        dims: the dimension of each table that is split.
        size: how many rows there are.
        shards: into how many shards.
    """

    component: int
    dims: Sequence[int]
    size: int
    shards: int

    @staticmethod
    def of(rows: Sequence[_Picked], shards: Shards) -> _Split | None:
        """How all tables are split; None if they are not, or not all alike."""
        found: dict[tuple[int, int, int], list[int]] = {}
        for each in rows:
            table = each.gather.operands[0]
            for dim, component in each.dims.picked:
                key = component, shape_of(table)[dim], shards.count((table, dim))
                found.setdefault(key, []).append(dim)
        split = [(key, dims) for key, dims in found.items() if key[-1] > 1]
        if len(split) != 1 or len(split[0][1]) != len(rows):
            return None
        (component, size, count), dims = split[0]
        return _Split(component, dims, size, count)

    @property
    def rows(self) -> int:
        """How many a shard has."""
        return -(-self.size // self.shards)

    def owned(self, make: Builder, row: _Picked) -> tuple[Value, Value]:
        """The index vectors of each shard, and which of them it owns, without the vectors."""
        indices = row.gather.operands[1]
        columns = index_columns(make, indices, row.dims.vector_dim)
        element = signed_index(make.element_of(indices))
        columns[self.component] = clamped(make, columns[self.component], self.size)
        shape = (self.shards, *make.shape_of(columns[0]))
        dims = range(1, len(shape))
        columns = [make.broadcast(make.convert(c, element), shape, dims) for c in columns]
        first = make.times(make.iota(shape, 0, element), self.rows)
        local = make.binary("subtract", columns[self.component], first)
        columns[self.component] = local
        rank = len(shape_of(indices)) + 1
        vectors = index_vectors(make, columns, row.dims.vector_dim + 1, rank)
        return vectors, make.within(local, 0, self.rows)

    def picked(self, make: Builder, op: ir.Operation, dim: int, vectors: Value) -> Value:
        """What each shard picks of a table that is split along a dimension."""
        table = make.lengthened(op.operands[0], dim, 0, self.rows * self.shards)
        table = make.regrouped(table, dim, self.shards, self.rows)
        table = make.moved(table, dim, 0)
        sizes = integers_attr([1, *integers(op.attributes[SLICE_SIZES])])
        shape = (self.shards, *shape_of(op.results[0]))
        said = {SLICE_SIZES: sizes, "indices_are_sorted": ir.BoolAttr.get(False)}
        made = make.again(op, [table, vectors], [shape], said)
        IndexNumbers.of(op).widened(True).write(made)
        found: Value = made.results[0]
        return found


@dataclass
class _Region:
    """All that is computed of what gathers by the same indices pick.

    Attributes:
        rows: the gathers.
        ops: they, and what is computed of them.
        walks: what the values walk that each shard computes by itself.
        joins: the operations that go over the shards, with what their operands walk.
        linear: the values that are the sum of what shards have, with zero for others' rows.
        sent: how many elements are reduced over the shards.
        spared: by value, how many elements the shards would reduce if sums alone could stay in
            parts.
    """

    rows: Sequence[_Picked]
    ops: list[ir.Operation] = field(default_factory=list)
    walks: dict[Value, Walks] = field(default_factory=dict)
    joins: dict[ir.Operation, list[Walks]] = field(default_factory=dict)
    linear: set[Value] = field(default_factory=set)
    sent: int = 0
    spared: dict[Value, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.most = _MOST_WORKS * max(elements_of(row.gather.results[0]) for row in self.rows)
        self.labels = sorted(labels_of(self.rows[0].walked))

    @staticmethod
    def of(rows: Sequence[_Picked]) -> _Region | None:
        """The region, if all of it is reduced and so less is sent than as parts of sums.

        Nor may it be as much as the tables hold: they could as well be gathered.
        """
        region = _Region(rows)
        if not region._read() or _TIMES_SPARED * region.sent > sum(region.spared.values()):
            return None
        tables = {row.gather.operands[0] for row in rows}
        return region if region.sent < sum(map(elements_of, tables)) else None

    def _read(self) -> bool:
        first = self.rows[0].gather
        gathers = {row.gather: row for row in self.rows}
        after = ops_of(first.block)
        for op in after[after.index(first) :]:
            if op in gathers:
                self.walks[op.results[0]] = gathers[op].walked
                self.linear.add(op.results[0])
            elif not any(value in self.walks for value in op.operands):
                continue
            elif len(op.results) != 1 or is_marked(op) or not self._reads(op):
                return False
            if any(use.owner.operation.block != op.block for use in op.results[0].uses):
                return False
            self.ops.append(op)
        return True

    def _reads(self, op: ir.Operation) -> bool:
        """Whether an op that reads rows does so for each shard, or reduces them."""
        is_linear = self._is_linear(op)
        if not is_linear:
            self.spared |= {v: elements_of(v) for v in op.operands if v in self.linear}
        match op.name:
            case "stablehlo.dot_general":
                found = self._product(op)
            case "stablehlo.reduce":
                found = self._reduced(op)
            case _:
                found = moved_walks(op, self.walks)
        result = op.results[0]
        if op in self.joins:
            self.sent += elements_of(result)
            self.spared |= {result: elements_of(result)} if is_linear else {}
            return True
        if (
            found is None
            or sorted(labels_of(found)) != self.labels
            or elements_of(result) > self.most
        ):
            return False
        self.walks[result] = found
        self.linear |= {result} if is_linear else set()
        return True

    def _reduced(self, op: ir.Operation) -> Walks | None:
        """What the result walks; None if that is nothing, and of what is not seen."""
        value, *starts = op.operands
        walks, summed = self.walks.get(value), integers(op.attributes["dimensions"])
        if walks is None or starts[0] in self.walks:
            return None
        if not labels_of([walks[d] for d in summed]):
            return [walked for d, walked in enumerate(walks) if d not in summed]
        if combiner(op.regions[0]) is not None:
            self.joins[op] = [walks]
        return None

    def _product(self, op: ir.Operation) -> Walks | None:
        """As `_reduced`."""
        batching, summed = dot_pairs(op)
        walks = [self.walks.get(value) or plain_walks(value) for value in op.operands]
        for k in [k for k in (0, 1) if op.operands[k] not in self.walks]:
            for pair in (*batching, *summed):
                walks[k][pair[k]] = walks[1 - k][pair[1 - k]]
        if not walk_alike(walks[0], walks[1], (*batching, *summed)):
            return None
        lengths = shape_of(op.operands[0])
        if elements_of(op.results[0]) * math.prod(lengths[d] for d, _ in summed) > self.most:
            return None
        if not labels_of([walks[0][d] for d, _ in summed]):
            return product_walks(op, walks)
        shared = [walks[0][d] for d, _ in (*batching, *summed)]
        if sorted(labels_of(shared)) == self.labels:  # else rows of one index meet those of others
            self.joins[op] = walks
        return None

    def _is_linear(self, op: ir.Operation) -> bool:
        """Whether an op gives parts of a sum, as rows of a split table are."""
        sides = [k for k, value in enumerate(op.operands) if value in self.linear]
        match op.name.removeprefix("stablehlo."):
            case "convert":
                return bool(sides) and holds_floats(*map(element_of, (*op.operands, *op.results)))
            case "select":
                is_sum = sides == [1, 2]
            case "multiply" | "dot_general" | "divide" | "reduce":
                is_sum = bool(sides)
            case _:
                is_sum = len(sides) == len(op.operands)
        return is_sum and kept_dims(op, sides) is not None


class _Written:
    """A region, as the shards compute it."""

    def __init__(self, region: _Region, split: _Split, function: Rewriting) -> None:
        self.region, self.split, self.function = region, split, function
        self.make = Builder(region.ops[0], function.made)
        self.to = Batched(self.make, split.shards)

    def replace(self) -> None:
        """Let it stand for the region, if all of that can be written."""
        region, split = self.region, self.split
        vectors, self.is_mine = split.owned(self.make, region.rows[0])
        dims = {row.gather: dim for row, dim in zip(region.rows, split.dims, strict=True)}
        for op in region.ops:
            self.make.move_to(op)
            if op in dims:
                self.to.say(op.results, [split.picked(self.make, op, dims[op], vectors)])
            elif op in region.joins:
                self.to.known[op.results[0]] = self._joined(op)
            elif not self.to.write(op):
                return
        for op in region.joins:
            self.function.replace(op, self.to.known[op.results[0]])

    def _joined(self, op: ir.Operation) -> Value:
        """The one result of an op that goes over the shards."""
        kind = Reduction.SUM
        if op.name == "stablehlo.reduce":
            dims = [0, *(d + 1 for d in integers(op.attributes["dimensions"]))]
            attributes = {"dimensions": integers_attr(dims)}
            kind = combiner(op.regions[0]) or kind
        else:
            batching, summed = ([(d + 1, e + 1) for d, e in pairs] for pairs in dot_pairs(op))
            attributes = {DOT_NUMBERS: dot_numbers(batching, [(0, 0), *summed])}
        walks = self.region.joins[op]
        given = [
            self._mine(value, each, kind) for value, each in zip(op.operands, walks, strict=False)
        ]
        given += map(self.to.one, list(op.operands)[len(walks) :])
        shape = self.make.shape_of(op.results[0])
        result: Value = self.make.again(op, given, [shape], attributes).results[0]
        return result

    def _mine(self, value: Value, walks: Walks, kind: Reduction) -> Value:
        """A value of each shard; for rows of other shards, the identity of a reduction."""
        make, shape = self.make, (self.to.count, *shape_of(value))
        walked = [each for dim in walks for each in dim]
        places = {label: k + 1 for k, (label, _) in enumerate(walked) if label is not None}
        order = [places[label] for label in self.region.labels]
        sizes = [self.to.count, *(size for _, size in walked)]
        mine = make.reshape(self.is_mine, [sizes[k] for k in (0, *order)])
        mine = make.reshape(make.spread(mine, sizes, [0, *order]), shape)
        given = self.to.all(value)
        return make.select(mine, given, make.identity(kind, given.type))
