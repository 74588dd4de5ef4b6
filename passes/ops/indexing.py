"""What gather and scatter share: how their dimensions hang together, and index vectors."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.dialect.names import GATHER_DOT
from dtensor.passes.builder import Builder
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.expansion.indices import signed_index
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import RuleBuilder

Pairs = tuple[tuple[int, int], ...]

ANY_INDEX = (1 << 63) - 1  # of a dimension of any size

SCATTER = "stablehlo.scatter"

# The attribute, its class, and what it calls the lists of `IndexNumbers`.
_GATHER = (
    "dimension_numbers",
    stablehlo.GatherDimensionNumbers,
    (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    ),
)
_NUMBERS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "stablehlo.gather": _GATHER,
    GATHER_DOT: _GATHER,
    SCATTER: (
        "scatter_dimension_numbers",
        stablehlo.ScatterDimensionNumbers,
        (
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scattered_dims_to_operand_dims",
        ),
    ),
}
_PARTLY = "is read or written in windows of some elements, from its first one on"

_WINDOW = "is a window of some elements, which may lie across two shards"

_VECTOR = "holds the components of one index"


@dataclass(frozen=True, slots=True)
class IndexedDims:
    """How the dimensions of a gather or a scatter hang together.

    The *slices* are what is read or written: the result of a gather, the updates of a scatter.

    Attributes:
        batching: `(operand, indices, slices)` dimensions that walk together.
        spread: `(indices, slices)` dimensions: one index vector, one window.
        full: `(operand, slices)` dimensions that every window holds whole.
        picked: `(operand dimension, component of the index vector)` of the dimensions of which
            every window holds the one element that the index names.
        cut: `(operand dimension, component, slices dimension)` of the dimensions of which windows
            hold some elements, from the one on that the index names.
        partly: operand dimensions of which windows hold some elements that no index names.
        vector_dim: the dimension of the indices that holds index vectors; their rank if each
            index is a vector by itself.
    """

    batching: tuple[tuple[int, int, int], ...]
    spread: Pairs
    full: Pairs
    picked: Pairs
    cut: tuple[tuple[int, int, int], ...]
    partly: tuple[int, ...]
    vector_dim: int


@dataclass(frozen=True, slots=True)
class IndexNumbers:
    """The dimension numbers of a gather or a scatter, by what they mean in both.

    Attributes:
        windows: the dimensions of the slices that are those of a window.
        gone: dimensions of the operand that the slices do not have.
        walked: dimensions of the operand that walk together with some of the indices.
        beside: these dimensions of the indices.
        named: the dimension of the operand that each component of an index vector speaks of.
        vector_dim: the dimension of the indices that holds index vectors.
    """

    windows: list[int]
    gone: list[int]
    walked: list[int]
    beside: list[int]
    named: list[int]
    vector_dim: int

    @classmethod
    def of(cls, op: ir.Operation) -> IndexNumbers:
        """Those of a gather or a scatter."""
        attribute, kind, names = _NUMBERS[op.name]
        numbers = kind(op.attributes[attribute])
        windows, gone, walked, beside, named = (list(getattr(numbers, name)) for name in names)
        return cls(windows, gone, walked, beside, named, numbers.index_vector_dim)

    def widened(self, of_operand: bool) -> IndexNumbers:
        """Those of indices and slices that have one more dimension, ahead of the others.

        Where the operand has it too, the three walk along it together.
        """
        more = int(of_operand)
        return IndexNumbers(
            windows=[d + 1 for d in self.windows],
            gone=[d + more for d in self.gone],
            walked=[0] * more + [d + more for d in self.walked],
            beside=[0] * more + [d + 1 for d in self.beside],
            named=[d + more for d in self.named],
            vector_dim=self.vector_dim + 1,
        )

    def write(self, op: ir.Operation) -> None:
        """Let a gather or a scatter have these numbers."""
        attribute, kind, _ = _NUMBERS[op.name]
        rows = self.windows, self.gone, self.walked, self.beside, self.named
        op.attributes[attribute] = kind.get(*rows, self.vector_dim)


def indexed_dims(operation: ir.Operation, shapes: Sequence[Sequence[int]]) -> IndexedDims:
    """The dimensions of a gather or a scatter, by the global shapes of its operands."""
    numbers, operand = IndexNumbers.of(operation), shapes[0]
    skipped, at = {*numbers.gone, *numbers.walked}, 1
    if operation.name == SCATTER:
        at, kept = len(operation.results), iter(numbers.windows)
        updates = shapes[at + 1]
        window = [1 if d in skipped else updates[next(kept)] for d in range(len(operand))]
    else:
        window = integers(operation.attributes["slice_sizes"])
    rank = len(shapes[at])  # of the indices
    vector_dim, components = numbers.vector_dim, numbers.named
    batching = list(zip(numbers.walked, numbers.beside, strict=True))
    windows = [d for d in range(len(operand)) if d not in skipped]
    slice_dims = dict(zip(windows, numbers.windows, strict=True))
    index_dims = [d for d in range(rank) if d != vector_dim]
    slices = len(index_dims) + len(slice_dims)
    taken = set(slice_dims.values())
    place = dict(zip(index_dims, (d for d in range(slices) if d not in taken), strict=True))
    walked = {d for d, _ in batching}
    full, picked, cut, partly = [], [], [], []
    for d, size in enumerate(operand):
        if d in walked:
            continue
        if window[d] == size and d in slice_dims:
            full.append((d, slice_dims[d]))
        elif window[d] == 1 and size > 1 and d in components:
            picked.append((d, components.index(d)))
        elif window[d] > 1 and d in components:
            cut.append((d, components.index(d), slice_dims[d]))
        elif size > 1:
            partly.append(d)
    together = {i for _, i in batching}
    return IndexedDims(
        tuple((d, i, place[i]) for d, i in batching),
        tuple((i, place[i]) for i in index_dims if i not in together),
        tuple(full),
        tuple(picked),
        tuple(cut),
        tuple(partly),
        vector_dim,
    )


def say_whole(
    builder: RuleBuilder, dims: IndexedDims, indices: int, rank: int, slices: Sequence[int]
) -> None:
    """Say why dimensions are whole: of the operands before `indices`, and of that one, the vectors.

    Args:
        builder: of the rule.
        dims: the dimensions.
        indices: which operand the indices are; those before it are indexed.
        rank: of the indices.
        slices: the operands, or `~result`, that the slices are.
    """
    for _, _, u in dims.cut:
        for k in slices:
            builder.whole(k, u, _WINDOW)
    for d in dims.partly:
        for k in range(indices):
            builder.whole(k, d, _PARTLY)
    if dims.vector_dim < rank:
        builder.whole(indices, dims.vector_dim, _VECTOR)


def clamped(ctx: Builder, index: Value, size: int) -> Value:
    """The index of the element that a gather takes: the nearest one, if out of range."""
    element = ctx.element_of(index)
    scalar, highest = ctx.tensor_type((), element), Reduction.MIN.identity(element)
    low, high = ctx.constant(0, scalar), ctx.constant(min(size - 1, highest), scalar)
    return ctx.value("stablehlo.clamp", [low, index, high], index.type)


def index_columns(ctx: Builder, indices: Value, vector_dim: int) -> list[Value]:
    """The components of the index vectors, each a tensor without `vector_dim`."""
    shape = ctx.shape_of(indices)
    if vector_dim == len(shape):
        return [indices]
    rest = [n for d, n in enumerate(shape) if d != vector_dim]
    if shape[vector_dim] == 1:
        return [ctx.reshape(indices, rest)]
    count = shape[vector_dim]
    return [ctx.reshape(ctx.cut(indices, vector_dim, k, 1), rest) for k in range(count)]


def index_vectors(ctx: Builder, columns: Sequence[Value], vector_dim: int, rank: int) -> Value:
    """Index vectors from their components, of one type; undoes `index_columns`."""
    shape = ctx.shape_of(columns[0])
    if vector_dim == rank:
        return columns[0]
    single = [*shape[:vector_dim], 1, *shape[vector_dim:]]
    return ctx.joined([ctx.reshape(column, single) for column in columns], vector_dim)


def take_each(ctx: ExpansionContext, value: Value, index: Value, dim: int) -> Value:
    """The elements of `value` along `dim` at `index`, where each row has its own indices in range.

    `index` has how many are taken, then the other dimensions of `value`.
    """
    shape = ctx.shape_of(value)
    others = [d for d in range(len(shape)) if d != dim]
    numbers = stablehlo.GatherDimensionNumbers.get(
        [], [dim], others, list(range(1, len(shape))), [dim], len(shape)
    )
    taken = ctx.gather(value, index, [1] * len(shape), numbers, ctx.shape_of(index))
    return ctx.moved(taken, 0, dim)


@dataclass(frozen=True)
class Spread:
    """The index vectors of a gather or a scatter, some of its windows said element by element.

    Attributes:
        columns: the components of the vectors; each has the dimensions of `dims`.
        dims: the dimension of the given indices that each stands for, None for elements of windows.
        places: the dimension of the slices that goes with each.
        is_vector: whether the vectors have a dimension of their own, the last.
    """

    columns: list[Value]
    dims: tuple[int | None, ...]
    places: tuple[int, ...]
    is_vector: bool

    def vectors(self, ctx: ExpansionContext) -> Value:
        """The index vectors, their components along the last dimension."""
        rank = len(self.dims)
        return index_vectors(ctx, self.columns, rank, rank + self.is_vector)

    def write(self, op: ir.Operation, cut: Sequence[int]) -> None:
        """Let a gather or a scatter have these indices, its windows along `cut` by elements."""
        numbers = IndexNumbers.of(op)
        IndexNumbers(
            [d for d in numbers.windows if d not in self.places],
            sorted([*numbers.gone, *cut]),
            numbers.walked,
            [self.dims.index(dim) for dim in numbers.beside],
            numbers.named,
            len(self.dims),
        ).write(op)


def spread_windows(
    ctx: ExpansionContext,
    columns: Sequence[Value],
    dims: IndexedDims,
    windows: Sequence[tuple[int, int, int]],
    rank: int,
) -> Spread:
    """One index for each element of the windows along some dimensions.

    `columns` are the components of the index vectors, `windows` a `(component, slices dimension,
    elements)` each, and `rank` is that of the given indices.
    """
    pairs = sorted([(u, i) for _, i, u in dims.batching] + [(u, i) for i, u in dims.spread])
    places, labels = [u for u, _ in pairs], [i for _, i in pairs]
    found: list[int | None] = list(labels)
    element = signed_index(*map(ctx.element_of, columns))
    spread = [ctx.convert(column, element) for column in columns]
    for component, place, count in windows:
        at = bisect(places, place)
        places.insert(at, place)
        found.insert(at, None)
        shape = list(ctx.shape_of(spread[0]))
        shape.insert(at, count)
        others = [d for d in range(len(shape)) if d != at]
        spread = [ctx.broadcast(column, shape, others) for column in spread]
        step = ctx.iota(shape, at, ctx.element_of(spread[component]))
        spread[component] = ctx.binary("add", spread[component], step)
    return Spread(spread, tuple(found), tuple(places), dims.vector_dim < rank)
