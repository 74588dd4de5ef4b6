"""Several arrays sent in one message: as rows, one for each device, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.creation import with_sizes
from dtensor.passes.lowering.emitter import Emitter
from dtensor.passes.ops.elements import moved_as


def rows_of(values: Sequence[Value], dim: int, parts: int, emitter: Emitter) -> Value:
    """A row for each part that a dimension of values is cut into, with that part of all values.

    Elements of several types, all of one size, are integers in it.
    """
    elements, rows = {emitter.element_of(value) for value in values}, []
    for value in values:
        if len(elements) > 1:
            value = emitter.bitcast(value, moved_as(emitter.element_of(value)))
        shape = emitter.shape_of(value)
        if dim > 0:
            value = emitter.regrouped(value, dim, parts, shape[dim] // parts)
            value = emitter.moved(value, dim, 0)
        rows.append(emitter.reshape(value, [parts, math.prod(shape) // parts]))
    return emitter.joined(rows, 1)


def of_rows(rows: Value, types: Sequence[ir.Type], dim: int, emitter: Emitter) -> list[Value]:
    """Values of such types, of which each row has a part, side by side along a dimension."""
    found, place = list[Value](), 0
    parts, _ = emitter.shape_of(rows)
    for type_ in types:
        shape, element = emitter.read_type(type_)
        count = math.prod(shape) // parts
        value = emitter.cut(rows, 1, place, count)
        if dim > 0:
            inner = with_sizes(shape, dim, shape[dim] // parts)
            value = emitter.moved(emitter.reshape(value, [parts, *inner]), 0, dim)
        found.append(emitter.bitcast(emitter.reshape(value, shape), element))
        place += count
    return found
