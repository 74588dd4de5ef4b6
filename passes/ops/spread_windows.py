"""Windows of several elements at computed places, said element by element.

A window may lie across two shards, and an index names but its first element. With one index for
each element of the window, an element is read and written where it is.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.indexing import IndexedDims, index_vectors


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

    def batching(self, given: Sequence[int]) -> list[int]:
        """Dimensions of the given indices, as the vectors here number them."""
        return [self.dims.index(dim) for dim in given]


def spread_windows(
    ctx: ExpansionContext,
    columns: Sequence[Value],
    dims: IndexedDims,
    windows: Sequence[tuple[int, int, int]],
    rank: int,
) -> Spread:
    """One index for each element of the windows along some dimensions.

    Args:
        ctx: where to create operations.
        columns: the components of the index vectors.
        dims: the dimensions of the op.
        windows: `(component, slices dimension, elements)` of each.
        rank: of the given indices.
    """
    pairs = sorted([(u, i) for _, i, u in dims.batching] + [(u, i) for i, u in dims.spread])
    places, labels = [u for u, _ in pairs], [i for _, i in pairs]
    found: list[int | None] = list(labels)
    is_wide = any(ctx.element_of(column) in ("i64", "ui32", "ui64") for column in columns)
    spread = [ctx.convert(column, "i64" if is_wide else "i32") for column in columns]
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
