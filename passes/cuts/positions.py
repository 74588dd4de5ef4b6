"""Gathers and their gradients whose positions are known: slices, reversals and repetitions.

A gather of rows 0, 0, 1, 1, 2, 2 is `jnp.repeat`, one of rows 3, 2, 1 a reversal. A split
dimension stays split there, where of a gather nobody knows which shard has what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dtensor.dialect.mlir import Value, ir, maker_of, stablehlo
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integers, is_identity, shape_of
from dtensor.passes.ops.numbers import Numbers, known_integers
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.reductions import combiner

GATHER, SCATTER = "stablehlo.gather", "stablehlo.scatter"
_MOST_RUNS = 4  # stretches of a gather that are put together


@dataclass(frozen=True)
class Run:
    """Positions `start`, `start + step`, ..., `count` of them, each `times` times in a row."""

    start: int
    step: int
    count: int
    times: int = 1


def written_as_cuts(op: ir.Operation, name: str, made: list[ir.Operation]) -> bool:
    """Rewrite a gather or a scatter of rows at known positions; whether that was done.

    Args:
        op: it has no users afterwards.
        name: of the operation.
        made: what was made is put there.
    """
    value = _of_gather(op, made) if name == GATHER else _of_scatter(op, made)
    if value is not None:
        op.results[0].replace_all_uses_with(value)
    return value is not None


def runs_of(positions: Numbers) -> list[Run]:
    """Positions as runs; with several, each of step 1."""
    times = int(np.argmax(np.append(positions != positions[0], True)))
    rows = positions[::times]
    if len(positions) % times == 0 and np.array_equal(np.repeat(rows, times), positions):
        steps = np.diff(rows)
        if not len(steps) or (steps == steps[0]).all():
            return [Run(int(rows[0]), int(steps[0]) if len(steps) else 1, len(rows), times)]
    edges = [0, *(np.flatnonzero(np.diff(positions) != 1) + 1).tolist(), len(positions)]
    return [Run(int(positions[a]), 1, b - a) for a, b in pairwise(edges)]


def _rows(indices: Value, column: int) -> Numbers | None:
    """The positions of a vector of them, or of a column."""
    shape = shape_of(indices)
    if 0 in shape or column != 1 or not (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)):
        return None
    found = known_integers(indices)
    return None if found is None else found.reshape(-1).astype(np.int64)


def _of_gather(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    operand: Value = op.operands[0]
    sizes, kept = shape_of(operand), integers(op.attributes["slice_sizes"])
    dims, offsets = list(numbers.start_index_map), list(numbers.offset_dims)
    is_batched = len(numbers.operand_batching_dims) > 0
    if len(dims) != 1 or list(numbers.collapsed_slice_dims) != dims or is_batched:
        return None
    dim = dims[0]
    if [n for d, n in enumerate(sizes) if d != dim] != [n for d, n in enumerate(kept) if d != dim]:
        return None
    rows = _rows(op.operands[1], numbers.index_vector_dim)
    if rows is None or not sizes[dim]:
        return None
    runs = runs_of(np.clip(rows, 0, sizes[dim] - 1))
    if len(runs) > _MOST_RUNS:
        return None
    builder = Builder(op, made)
    value = builder.joined([_taken(builder, operand, dim, run) for run in runs], dim)
    (place,) = set(range(len(sizes))) - set(offsets)
    order = [d for d in range(len(sizes)) if d != dim]
    order.insert(place, dim)
    return builder.transpose(value, order)


def _taken(builder: Builder, value: Value, dim: int, run: Run) -> Value:
    """The rows of a run along a dimension."""
    low = min(run.start, run.start + run.step * (run.count - 1))
    stride = abs(run.step) or 1
    value = builder.cut(value, dim, low, run.count, stride)
    if run.step < 0:
        value = builder.reversed(value, dim)
    if run.times == 1:
        return value
    shape = list(builder.shape_of(value))
    long = [*shape[: dim + 1], run.times, *shape[dim + 1 :]]
    dims = [d + (d > dim) for d in range(len(shape))]
    shape[dim] *= run.times
    return builder.reshape(builder.broadcast(value, long, dims), shape)


def _of_scatter(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """What is added to rows at known positions, added to the whole: the gradient of a gather.

    Where few rows of something large are added to, that is better done in its place.
    """
    if len(op.operands) != 3:
        return None
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    into, indices, update = op.operands
    sizes, counts = shape_of(into), shape_of(update)
    dims = list(numbers.scattered_dims_to_operand_dims)
    if len(dims) != 1 or list(numbers.inserted_window_dims) != dims or len(counts) != len(sizes):
        return None
    dim, windows = dims[0], list(numbers.update_window_dims)
    if [n for d, n in enumerate(sizes) if d != dim] != [counts[d] for d in windows]:
        return None
    element = str(ir.RankedTensorType(into.type).element_type)
    rows = _rows(indices, numbers.index_vector_dim)
    if rows is None or combiner(op.regions[0], (element,)) is not Reduction.SUM:
        return None
    runs = runs_of(rows)
    is_inside = 0 <= rows.min() and rows.max() < sizes[dim]  # what is not is dropped
    if not is_inside or len(runs) > _MOST_RUNS or not all(run.step for run in runs):
        return None
    into_nothing = is_identity(into, Reduction.SUM, element)
    if 2 * len(rows) < sizes[dim] and not into_nothing:
        return None
    builder = Builder(op, made)
    (place,) = set(range(len(counts))) - set(windows)
    order = list(windows)
    order.insert(dim, place)
    value = builder.transpose(update, order)
    start, total = 0, into
    nothing = builder.identity("sum", builder.tensor_type((), element))
    # XLA takes 0 + -0 for -0: what is first added to zeros brings the same zeros.
    beside = (_filled_with(into) if into_nothing else None) or nothing
    for run in runs:
        part = builder.cut(value, dim, start, run.count * run.times)
        added = _put_back(builder, part, dim, sizes[dim], run, beside)
        total, beside = builder.binary("add", total, added), nothing
        start += run.count * run.times
    return total


def _filled_with(value: Value) -> Value | None:
    """The scalar that fills a value, if it is written so."""
    op = maker_of(value)
    if op is None or op.name != "stablehlo.broadcast_in_dim" or shape_of(op.operands[0]):
        return None
    scalar: Value = op.operands[0]
    return scalar


def _put_back(
    builder: Builder, value: Value, dim: int, size: int, run: Run, nothing: Value
) -> Value:
    """Rows at the positions of a run, `nothing` elsewhere: `_taken` transposed."""
    shape = list(builder.shape_of(value))
    if run.times > 1:
        value = builder.reshape(value, [*shape[:dim], run.count, run.times, *shape[dim + 1 :]])
        value = builder.reduced(value, dim + 1, Reduction.SUM)
    if run.step < 0:
        value = builder.reversed(value, dim)
    low = min(run.start, run.start + run.step * (run.count - 1))
    stride = abs(run.step)
    high = size - low - (run.count - 1) * stride - 1
    rows = [[n if d == dim else 0 for d in range(len(shape))] for n in (low, high, stride - 1)]
    return builder.pad(value, nothing, *rows)
