"""Gathers and their gradients whose positions are known: slices, reversals and repetitions.

A gather of rows 0, 0, 1, 1, 2, 2 is `jnp.repeat`, one of rows 3, 2, 1 a reversal, and one of a
matrix of positions may read frames. A split dimension stays split there, where of a gather nobody
knows which shard has what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dtensor.dialect.mlir import Value, ir, maker_of, stablehlo
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.frames import Frames
from dtensor.passes.ops.attributes import integers, is_identity, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.numbers import Numbers, known_integers
from dtensor.passes.ops.reduction import Reduction

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


@dataclass(frozen=True)
class _Access:
    """What known index vectors say, if they speak of one dimension alone.

    Attributes:
        dim: the dimension.
        starts: where along it each of them reads or writes first.
        width: how many elements from there on.
        is_wide: whether these have a dimension of their own in what is read or written.
    """

    dim: int
    starts: Numbers
    width: int
    is_wide: bool

    @staticmethod
    def of(
        indices: tuple[Value, int],
        named: Sequence[int],
        gone: Sequence[int],
        widths: Sequence[int],
        sizes: Sequence[int],
    ) -> _Access | None:
        """The access of a gather or a scatter.

        Args:
            indices: its index vectors, and the dimension that holds them.
            named: the dimensions that the numbers of a vector speak of.
            gone: the dimensions that what is read or written does not have.
            widths: how many elements of each dimension a vector reads or writes.
            sizes: of the dimensions.
        """
        dims = [d for d, size in enumerate(sizes) if widths[d] != size or d in gone]
        if len(dims) != 1 or dims[0] not in named or not sizes[dims[0]]:
            return None
        found = known_integers(indices[0])
        if found is None or not found.size:
            return None
        is_scalar = indices[1] == found.ndim
        vectors = found[..., None] if is_scalar else np.moveaxis(found, indices[1], -1)
        if vectors[..., [d not in dims for d in named]].any():
            return None
        starts = vectors[..., list(named).index(dims[0])].astype(np.int64)
        access = _Access(dims[0], starts, widths[dims[0]], not gone)
        return access if starts.ndim in ((1,) if access.is_wide else (1, 2)) else None

    def said(self) -> list[Run] | Frames | None:
        """Where elements are read or written, if that is a few runs, or frames."""
        positions = self.starts[:, None] + np.arange(self.width) if self.is_wide else self.starts
        if positions.ndim == 2:
            return Frames.of(positions)
        runs = runs_of(positions)
        return runs if len(runs) <= _MOST_RUNS else None

    def sides(self, rank: int) -> tuple[list[int], list[int]]:
        """Of a value with all positions in the place of one dimension, where dimensions stand.

        Returns:
            Those that index vectors have; and those of what is read or written at each.
        """
        said = list(range(self.dim, self.dim + self.starts.ndim))
        every = range(rank - 1 + self.starts.ndim + self.is_wide)
        return said, [d for d in every if d not in said]


def _of_gather(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    operand, indices = op.operands
    sizes, widths = shape_of(operand), integers(op.attributes["slice_sizes"])
    named, gone = list(numbers.start_index_map), list(numbers.collapsed_slice_dims)
    if len(numbers.operand_batching_dims) > 0:
        return None
    access = _Access.of((indices, numbers.index_vector_dim), named, gone, widths, sizes)
    if access is None:
        return None
    # what would reach outside is moved inside
    inside = np.clip(access.starts, 0, sizes[access.dim] - access.width)
    said = replace(access, starts=inside).said()
    if said is None:
        return None
    builder = Builder(op, made)
    value = _read(builder, operand, access.dim, said)
    vectors, read = access.sides(len(sizes))
    offsets = list(numbers.offset_dims)
    beside = [d for d in range(len(shape_of(op.results[0]))) if d not in offsets]
    order = dict(zip([*beside, *offsets], [*vectors, *read], strict=True))
    return builder.transpose(value, [order[d] for d in sorted(order)])


def _read(builder: Builder, value: Value, dim: int, said: list[Run] | Frames) -> Value:
    """What stands at positions along a dimension; it is in the place of that dimension."""
    if isinstance(said, Frames):
        return said.taken(builder, value, dim)
    return builder.joined([_taken(builder, value, dim, run) for run in said], dim)


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
    if len(numbers.input_batching_dims) > 0:
        return None
    named, gone = list(numbers.scattered_dims_to_operand_dims), list(numbers.inserted_window_dims)
    windows, sizes, counts = list(numbers.update_window_dims), shape_of(into), shape_of(update)
    written = iter([counts[d] for d in windows])
    widths = [1 if d in gone else next(written) for d in range(len(sizes))]
    access = _Access.of((indices, numbers.index_vector_dim), named, gone, widths, sizes)
    element = str(ir.RankedTensorType(into.type).element_type)
    if access is None or combiner(op.regions[0], (element,)) is not Reduction.SUM:
        return None
    said = access.said() if _is_inside(access, sizes[access.dim]) else None
    if said is None or (isinstance(said, list) and not all(run.step for run in said)):
        return None
    into_nothing = is_identity(into, Reduction.SUM, element)
    if 2 * access.starts.size * access.width < sizes[access.dim] and not into_nothing:
        return None
    builder = Builder(op, made)
    vectors, read = access.sides(len(sizes))
    beside = [d for d in range(len(counts)) if d not in windows]
    order = dict(zip([*vectors, *read], [*beside, *windows], strict=True))
    value = builder.transpose(update, [order[d] for d in sorted(order)])
    # XLA takes 0 + -0 for -0: what is first added to zeros brings the same zeros.
    filled = _filled_with(into) if into_nothing else None
    return _added(builder, value, access.dim, said, into, filled)


def _is_inside(access: _Access, size: int) -> bool:
    """Whether nothing is written outside; what is, is dropped."""
    return bool((0 <= access.starts).all() and (access.starts <= size - access.width).all())


def _added(
    builder: Builder,
    value: Value,
    dim: int,
    said: list[Run] | Frames,
    into: Value,
    filled: Value | None,
) -> Value:
    """What is added to positions along a dimension, added to the whole."""
    size, element = builder.shape_of(into)[dim], builder.element_of(into)
    nothing = builder.identity("sum", builder.tensor_type((), element))
    if isinstance(said, Frames):
        placed = said.put_back(builder, value, dim, size, nothing, filled or nothing)
        return builder.binary("add", into, placed)
    start, total, beside = 0, into, filled or nothing
    for run in said:
        part = builder.cut(value, dim, start, run.count * run.times)
        added = _put_back(builder, part, dim, size, run, beside)
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
