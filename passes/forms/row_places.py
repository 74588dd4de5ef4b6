"""Gathers that read a few elements of each row along a dimension, at places of its own.

`jnp.nanmedian(x, 0)` reads every column at places that it has counted. JAX writes that as index
vectors of the place and of the column's own number, `jnp.take_along_axis` with batching dimensions.
Its gradient scatters to the same places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integer, integers, shape_of
from dtensor.passes.ops.indexing import SCATTER, IndexNumbers
from dtensor.passes.ops.numbers import known_integers


@dataclass(frozen=True)
class RowPlaces:
    """What such a gather reads, or such a scatter writes.

    Attributes:
        indices: its index vectors.
        component: of them the one that says the place.
        vector_dim: the dimension of the indices that holds index vectors.
        order: the dimensions of the result, or of the updates: first those along which one row has
            several places, then the other dimensions of what is read or written, in its order.
        several: how many of the first kind there are.
        count: how many elements are read or written of each row.
    """

    indices: Value
    component: int
    vector_dim: int
    order: tuple[int, ...]
    several: int
    count: int

    @staticmethod
    def of(op: ir.Operation, dim: int) -> RowPlaces | None:
        """What it reads or writes, if that is places along a dimension; None otherwise."""
        numbers = IndexNumbers.of(op)
        shape, vector_dim = shape_of(op.operands[0]), numbers.vector_dim
        walked, named = numbers.walked, numbers.named
        sizes = integers(op.attributes["slice_sizes"]) if op.name != SCATTER else []
        if any(n != 1 for n in sizes) or numbers.windows:
            return None
        if dim not in named or sorted([*walked, *named]) != list(range(len(shape))):
            return None
        beside = [d for d in range(len(shape_of(op.operands[1]))) if d != vector_dim]
        row = {d: beside.index(i) for d, i in zip(walked, numbers.beside, strict=True)}
        for component, d in enumerate(named):
            if d != dim:
                found = counted_along(op.operands[1], component, vector_dim, shape[d])
                if found is None:
                    return None
                row[d] = found
        result = shape_of(op.operands[2] if op.name == SCATTER else op.results[0])
        rows = [row[d] for d in range(len(shape)) if d != dim]
        if len(set(rows)) < len(rows):
            return None
        several = [d for d in range(len(result)) if d not in rows]
        count = math.prod(result[d] for d in several)
        order = (*several, *rows)
        return RowPlaces(op.operands[1], named.index(dim), vector_dim, order, len(several), count)

    def column(self, make: Builder) -> Value:
        """The places, those of a row first."""
        shape = make.shape_of(self.indices)
        places = self.indices
        if self.vector_dim < len(shape):
            places = make.cut(places, self.vector_dim, self.component, 1)
            places = make.reshape(places, [n for d, n in enumerate(shape) if d != self.vector_dim])
        places = make.transpose(places, self.order)
        return make.reshape(places, (self.count, *make.shape_of(places)[self.several :]))

    def read(self, make: Builder, found: Value, dim: int, result: Value) -> Value:
        """What the gather gives, of what stands at the places along a dimension."""
        shape = make.shape_of(result)
        found = make.reshape(make.moved(found, dim, 0), [shape[d] for d in self.order])
        return make.transpose(found, [self.order.index(d) for d in range(len(shape))])


def counted_along(indices: Value, component: int, vector_dim: int, size: int) -> int | None:
    """Along which dimension a component of index vectors counts all elements; None if none."""
    column = _component(indices, component, vector_dim)
    found = None if column is None else known_integers(column)
    if found is None:
        return None
    found = np.squeeze(found, vector_dim) if found.ndim > vector_dim else found
    for d, length in enumerate(found.shape):
        along = np.arange(size).reshape([-1 if k == d else 1 for k in range(found.ndim)])
        if length == size and (found == along).all():
            return d
    return None


def _component(indices: Value, component: int, vector_dim: int) -> Value | None:
    """The column of index vectors, as whoever joined them wrote it."""
    joined = made_by("stablehlo.concatenate", indices)
    if joined is None or integer(joined.attributes["dimension"]) != vector_dim:
        return None
    sizes = [shape_of(value)[vector_dim] for value in joined.operands]
    return joined.operands[component] if set(sizes) == {1} else None
