"""Windows at known places: dynamic slices are slices, and updates of what repeats a number pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.scatter import overwrites
from dtensor.passes.rewriting.names import BROADCAST, DYNAMIC_UPDATE_SLICE, SCATTER


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


def window_place(op: ir.Operation) -> list[int] | None:
    """Where the one window begins that an update or a scatter writes, if that is known."""
    into, update, *places = op.operands
    if op.name == DYNAMIC_UPDATE_SLICE:
        return window_starts(places, shape_of(into), shape_of(update))
    numbers, rank = IndexNumbers.of(op), len(shape_of(into))
    is_one = len(op.operands) == 3 and not (numbers.gone or numbers.walked or numbers.vector_dim)
    is_window = is_one and numbers.windows == list(range(rank))
    place = known_place(op.operands[1]) if is_window else None
    if place is None:
        return None
    starts = dict(zip(numbers.named, place, strict=True))
    return [starts.get(d, 0) for d in range(rank)]


def known_place(indices: Value) -> list[int] | None:
    """The one position that a vector says, if it is known."""
    found = known_integers(indices) if len(shape_of(indices)) == 1 else None
    return None if found is None else found.tolist()


def update_kind(op: ir.Operation) -> str | None:
    """What an update or a scatter does: "set", or a reduction; None for anything else."""
    if op.name == DYNAMIC_UPDATE_SLICE or overwrites(op.regions[0], len(op.results)):
        return "set"
    return combiner(op.regions[0])


def update_of(op: ir.Operation) -> Value:
    """What an update or a scatter of one array writes."""
    value: Value = op.operands[2 if op.name == SCATTER else 1]
    return value


def updated_place(op: ir.Operation) -> list[int] | None:
    """Where the one window begins that an update or a scatter sets, if that is inside."""
    starts = window_place(op) if len(op.results) == 1 else None
    if starts is None or update_kind(op) != "set":
        return None
    sizes, counts = shape_of(op.operands[0]), shape_of(update_of(op))
    fits = all(0 <= s <= n - c for s, n, c in zip(starts, sizes, counts, strict=True))
    return starts if fits else None


def filled_around(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """A window that is put into most of what repeats one number, as padded with that number."""
    into, starts = op.operands[0], window_place(op)
    fill = filled_with(into)
    if starts is None or fill is None:
        return None
    update = update_of(op)
    sizes, counts = shape_of(into), shape_of(update)
    highs = [n - low - count for n, low, count in zip(sizes, starts, counts, strict=True)]
    is_most = all(n < 2 * count for n, count in zip(sizes, counts, strict=True))
    if not is_most or sizes == counts or min(*starts, *highs) < 0:
        return None
    return Builder(op, made).pad(update, fill, starts, highs)


def filled_with(value: Value) -> Value | None:
    """The scalar that fills a value, if it is written so."""
    op = made_by(BROADCAST, value)
    return None if op is None or shape_of(op.operands[0]) else op.operands[0]
