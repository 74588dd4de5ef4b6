"""Moving elements: reshapes, slices, pads and joins, whose shapes follow from their operands."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.passes.creation import Creator, integers_attr, with_sizes


class Shaper(Creator):
    """Creates operations that move elements."""

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` in another shape."""
        have, element = self.read_type(value.type)
        if have == tuple(shape):
            return value
        return self.value("stablehlo.reshape", [value], self.tensor_type(shape, element))

    def regrouped(self, value: Value, dim: int, *sizes: int, count: int = 1) -> Value:
        """A value that has other sizes in the place of `count` dimensions, from one on."""
        return self.reshape(value, with_sizes(self.shape_of(value), dim, *sizes, count=count))

    def broadcast(self, value: Value, shape: Sequence[int], dims: Sequence[int] = ()) -> Value:
        """`value` spread over `shape`; its dimension i becomes dimension `dims[i]`."""
        have, element = self.read_type(value.type)
        if have == tuple(shape):
            return value
        attributes = {"broadcast_dimensions": integers_attr(dims)}
        type_ = self.tensor_type(shape, element)
        return self.value("stablehlo.broadcast_in_dim", [value], type_, attributes)

    def spread(self, value: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """As `broadcast`, to dimensions in any order."""
        order = sorted(range(len(dims)), key=lambda k: dims[k])
        return self.broadcast(self.transpose(value, order), shape, sorted(dims))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """`value`, whose dimension `order[i]` becomes dimension i."""
        if list(order) == list(range(len(order))):
            return value
        shape, element = self.read_type(value.type)
        type_ = self.tensor_type([shape[i] for i in order], element)
        return self.value(
            "stablehlo.transpose", [value], type_, {"permutation": integers_attr(order)}
        )

    def moved(self, value: Value, dim: int, to: int) -> Value:
        """`value`, one dimension of which becomes dimension `to`; the others keep their order."""
        order = [d for d in range(len(self.shape_of(value))) if d != dim]
        return self.transpose(value, [*order[:to], dim, *order[to:]])

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """The elements from `starts` on and before `limits`, one of every `strides`."""
        strides = strides or [1] * len(starts)
        attributes = {
            "start_indices": integers_attr(starts),
            "limit_indices": integers_attr(limits),
            "strides": integers_attr(strides),
        }
        rows = zip(starts, limits, strides, strict=True)
        shape = [-((start - limit) // stride) for start, limit, stride in rows]
        type_ = self.tensor_type(shape, self.element_of(value))
        return self.value("stablehlo.slice", [value], type_, attributes)

    def cut(self, value: Value, dim: int, start: int, count: int, stride: int = 1) -> Value:
        """`count` elements from `start` on along a dimension, one of every `stride`."""
        shape = self.shape_of(value)
        if count == shape[dim]:
            return value
        starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
        strides[dim] = stride if count > 1 else 1
        starts[dim] = start
        limits[dim] = start + (count - 1) * stride + 1 if count else start
        return self.slice(value, starts, limits, strides)

    def dynamic_slice(self, value: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        """`sizes` elements of a value from computed places on, a scalar for each dimension."""
        type_ = self.tensor_type(sizes, self.element_of(value))
        attributes = {"slice_sizes": integers_attr(sizes)}
        return self.value("stablehlo.dynamic_slice", [value, *starts], type_, attributes)

    def updated(self, value: Value, new: Value, starts: Sequence[Value]) -> Value:
        """A value with another one written over it, from computed places on."""
        return self.value("stablehlo.dynamic_update_slice", [value, new, *starts], value.type)

    def starts_along(self, value: Value, dim: int, start: Value) -> list[Value]:
        """The places of `value` from `start` on along a dimension, from 0 on along others."""
        zero = self.constant_like(0, start)
        return [start if d == dim else zero for d in range(len(self.shape_of(value)))]

    def stretch(self, value: Value, dim: int, start: Value, count: int) -> Value:
        """`count` elements of a value along a dimension, from a computed place on."""
        sizes = with_sizes(self.shape_of(value), dim, count)
        return self.dynamic_slice(value, self.starts_along(value, dim, start), sizes)

    def gather(
        self,
        value: Value,
        index: Value,
        sizes: Sequence[int],
        numbers: stablehlo.GatherDimensionNumbers,
        shape: Sequence[int],
    ) -> Value:
        """A gather of windows of `sizes` elements at any indices; the result has `shape`."""
        attributes = {
            "dimension_numbers": numbers,
            "slice_sizes": integers_attr(sizes),
            "indices_are_sorted": ir.BoolAttr.get(False),
        }
        type_ = self.tensor_type(shape, self.element_of(value))
        return self.value("stablehlo.gather", [value, index], type_, attributes)

    def along_last(self, value: Value, place: Value) -> Value:
        """The elements of each row at the places that `place` has for that row."""
        shape = self.shape_of(place)
        last = len(shape) - 1
        rows = list(range(last))
        numbers = stablehlo.GatherDimensionNumbers.get([], [last], rows, rows, [last], last + 1)
        return self.gather(
            value, self.reshape(place, (*shape, 1)), [1] * len(shape), numbers, shape
        )

    def reversed(self, value: Value, dim: int) -> Value:
        """A value whose last element along a dimension comes first."""
        attributes = {"dimensions": integers_attr([dim])}
        return self.value("stablehlo.reverse", [value], value.type, attributes)

    def joined(self, values: Sequence[Value], dim: int) -> Value:
        """Values one after another along a dimension."""
        if len(values) == 1:
            return values[0]
        shape, element = self.read_type(values[0].type)
        size = sum(self.shape_of(value)[dim] for value in values)
        type_ = self.tensor_type(with_sizes(shape, dim, size), element)
        return self.value("stablehlo.concatenate", values, type_, {"dimension": index_attr(dim)})

    def patched(self, value: Value, dim: int, place: int, part: Value) -> Value:
        """A value with another one in the place of elements from one on along a dimension."""
        size, end = self.shape_of(value)[dim], place + self.shape_of(part)[dim]
        before = [self.cut(value, dim, 0, place)] if place else []
        behind = [self.cut(value, dim, end, size - end)] if end < size else []
        return self.joined([*before, part, *behind], dim)

    def pad(
        self,
        value: Value,
        fill: Value,
        lows: Sequence[int],
        highs: Sequence[int],
        between: Sequence[int] | None = None,
    ) -> Value:
        """A value with a scalar around it, and between its elements."""
        shape, element = self.read_type(value.type)
        between = between or [0] * len(shape)
        if not any((*lows, *highs, *between)):
            return value
        attributes = {
            "edge_padding_low": integers_attr(lows),
            "edge_padding_high": integers_attr(highs),
            "interior_padding": integers_attr(between),
        }
        rows = zip(shape, lows, highs, between, strict=True)
        padded = [n + low + high + max(n - 1, 0) * gap for n, low, high, gap in rows]
        type_ = self.tensor_type(padded, element)
        return self.value("stablehlo.pad", [value, fill], type_, attributes)

    def lengthened(
        self, value: Value, dim: int, before: int, size: int, fill: Value | None = None
    ) -> Value:
        """A value that is `size` long along a dimension, itself behind `before` elements of zero.

        With `fill`, a scalar, that stands there in the place of zero.
        """
        shape = self.shape_of(value)
        if shape[dim] == size:
            return value
        fill = fill or self.zero_of(value)
        lows = [before if d == dim else 0 for d in range(len(shape))]
        highs = [size - before - n if d == dim else 0 for d, n in enumerate(shape)]
        return self.pad(value, fill, lows, highs)
