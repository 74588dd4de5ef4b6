"""Windows at known places: dynamic slices are slices, and updates of what repeats a number pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.names import BROADCAST
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.numbers import known_integers


def of_dynamic_slice(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """The slice that a dynamic slice is; None where its place is not known."""
    value, *places = op.operands
    starts = window_starts(places, shape_of(value), shape_of(op.results[0]))
    if starts is None:
        return None
    ends = np.add(starts, shape_of(op.results[0])).tolist()
    return Builder(op, made).slice(value, starts, ends)


def window_starts(
    places: Sequence[Value], sizes: Sequence[int], counts: Sequence[int]
) -> list[int] | None:
    """Where a window begins in each dimension, if that is known; it is moved inside."""
    starts = []
    for place, size, count in zip(places, sizes, counts, strict=True):
        found = known_integers(place) if count < size else np.int64(0)
        if found is None:
            return None
        starts.append(max(0, min(int(found), size - count)))
    return starts


def filled_around(
    op: ir.Operation, update: Value, starts: Sequence[int], made: list[ir.Operation]
) -> Value | None:
    """A window that is put into most of what repeats one number, as padded with that number."""
    into: Value = op.operands[0]
    sizes, counts, fill = shape_of(into), shape_of(update), filled_with(into)
    highs = [n - low - count for n, low, count in zip(sizes, starts, counts, strict=True)]
    is_most = all(n < 2 * count for n, count in zip(sizes, counts, strict=True))
    if fill is None or not is_most or sizes == counts or min(*starts, *highs) < 0:
        return None
    return Builder(op, made).pad(update, fill, starts, highs)


def of_dynamic_update_slice(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """The pad that an update of most of one number is; None where it is none."""
    into, update, *places = op.operands
    starts = window_starts(places, shape_of(into), shape_of(update))
    return None if starts is None else filled_around(op, update, starts, made)


def filled_with(value: Value) -> Value | None:
    """The scalar that fills a value, if it is written so."""
    op = made_by(BROADCAST, value)
    return None if op is None or shape_of(op.operands[0]) else op.operands[0]
