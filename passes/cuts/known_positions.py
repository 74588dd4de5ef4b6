"""Gathers and scatters whose positions are known: slices, reversals and repetitions.

A gather of rows 0, 0, 1, 1, 2, 2 is `jnp.repeat`, one of rows 3, 2, 1 a reversal, and one of a
matrix of positions may read frames, or a grid of rows and columns. A split dimension stays split
there, where of a gather nobody knows which shard has what it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product, repeat

import numpy as np

from dtensor.dialect.mlir import Value, ir, made_by, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.frames import Frames
from dtensor.passes.cuts.names import BROADCAST, GATHER, SCATTER
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.ops.attributes import integers, is_identity, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import Numbers, known_integers
from dtensor.passes.ops.reduction import Reduction

_MOST_RUNS = 4  # stretches of a gather that are put together
_WIDEST_STEP = 8  # from one element that is written to the next, where most are said to be
_SPARSEST = 64  # elements of the whole for each that is written


@dataclass(frozen=True)
class Run:
    """Positions `start`, `start + step`, ..., `count` of them, each `times` times in a row."""

    start: int
    step: int
    count: int
    times: int = 1


def write_as_cuts(function: Rewriting) -> list[ir.Operation]:
    """Rewrite gathers and scatters at known positions."""
    found = []
    for op in function.named(GATHER, SCATTER):
        value = (_of_gather if op.name == GATHER else _of_scatter)(op, function.made)
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            found.append(op)
    return found


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
    """What known index vectors say of one dimension.

    Attributes:
        dim: the dimension.
        axes: the dimensions of index vectors on which it depends where they read or write.
        starts: where that begins, by these.
        width: how many elements from there on.
        is_wide: whether these have a dimension of their own in what is read or written.
    """

    dim: int
    axes: tuple[int, ...]
    starts: Numbers
    width: int
    is_wide: bool

    @property
    def is_dropped(self) -> bool:
        """Whether what is read or written has no dimension for this one."""
        return not self.axes and not self.is_wide

    def said(self) -> list[Run] | Frames | None:
        """Where elements are read or written, if that is a few runs, or frames."""
        starts = self.starts
        positions = starts[..., None] + np.arange(self.width) if self.is_wide else starts
        if positions.ndim > 1:
            return Frames.of(positions) if positions.ndim == 2 else None
        runs = runs_of(np.atleast_1d(positions))
        return runs if len(runs) <= _MOST_RUNS else None

    def written(self, size: int, kind: str) -> list[Run] | Frames | None:
        """The same of a scatter; None where something is dropped, or the order of updates matters.

        Args:
            size: of the dimension.
            kind: what is done with updates.
        """
        if (self.starts < 0).any() or (self.starts > size - self.width).any():
            return None
        said = self.said()
        if not isinstance(said, list):
            return None if kind == "set" else said
        once = {run.start + run.step * i for run in said for i in range(run.count)}
        is_set_twice = kind == "set" and len(once) < self.starts.size * self.width
        return None if is_set_twice or not all(run.step for run in said) else said


def _reaches_most(access: _Access, said: list[Run] | Frames, size: int) -> bool:
    """Whether elements are written all over most of a dimension, not further apart than a few."""
    step = 1 if isinstance(said, Frames) else min(abs(run.step) for run in said)
    return step <= _WIDEST_STEP and 2 * access.starts.size * access.width * step >= size


def _accesses(
    indices: tuple[Value, int],
    named: Sequence[int],
    gone: Sequence[int],
    widths: Sequence[int],
    sizes: Sequence[int],
) -> list[_Access] | None:
    """What a gather or a scatter says of dimensions, if of each by itself; else None.

    Args:
        indices: its index vectors, and the dimension that holds them.
        named: the dimensions that the numbers of a vector speak of.
        gone: the dimensions that what is read or written does not have.
        widths: how many elements of each dimension a vector reads or writes.
        sizes: of the dimensions.
    """
    dims = [d for d, size in enumerate(sizes) if widths[d] != size or d in gone]
    if not dims or not set(dims) <= set(named) or 0 in sizes:
        return None
    found = known_integers(indices[0])
    if found is None or not found.size:
        return None
    is_scalar = indices[1] == found.ndim
    vectors = found[..., None] if is_scalar else np.moveaxis(found, indices[1], -1)
    if vectors[..., [d not in dims for d in named]].any():
        return None
    columns = [vectors[..., list(named).index(d)].astype(np.int64) for d in dims]
    axes = [
        [axis for axis in range(starts.ndim) if (starts != starts.take([0], axis)).any()]
        for starts in columns
    ]
    taken = [axis for mine in axes for axis in mine]
    if len(set(taken)) < len(taken):
        return None
    # What none depends on says the same of the first once more.
    axes[0] = sorted({*range(vectors.ndim - 1)} - {*taken[len(axes[0]) :]})
    return [
        _Access(
            d,
            tuple(mine),
            starts[tuple(slice(None) if a in mine else 0 for a in range(starts.ndim))],
            widths[d],
            d not in gone,
        )
        for d, mine, starts in zip(dims, axes, columns, strict=True)
    ]


def _order(
    accesses: Sequence[_Access], rank: int, beside: Sequence[int], windows: Sequence[int]
) -> list[int]:
    """Which dimensions of what is read or written come where their positions lie, in order.

    Args:
        accesses: what is said of dimensions.
        rank: of what is read from or written into.
        beside: the dimensions that index vectors have in what is read or written.
        windows: those of what stands at each.
    """
    said, left = {access.dim: access for access in accesses}, iter(windows)
    order = []
    for d in range(rank):
        if d in said:
            order += [beside[axis] for axis in said[d].axes]
        if d not in said or said[d].is_wide:
            order.append(next(left))
    return order


def _of_gather(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    numbers = IndexNumbers.of(op)
    operand, indices = op.operands
    sizes, widths = shape_of(operand), integers(op.attributes["slice_sizes"])
    named, gone = numbers.named, numbers.gone
    if numbers.walked:
        return None
    accesses = _accesses((indices, numbers.vector_dim), named, gone, widths, sizes)
    # what would reach outside is moved inside
    accesses = [
        replace(a, starts=np.clip(a.starts, 0, sizes[a.dim] - a.width)) for a in accesses or ()
    ]
    said = [each for access in accesses if (each := access.said()) is not None]
    if not accesses or len(said) < len(accesses):
        return None
    builder, value = Builder(op, made), operand
    for access, each in reversed([*zip(accesses, said, strict=True)]):
        value = _read(builder, value, access.dim, each)
        if access.is_dropped:
            shape = builder.shape_of(value)
            value = builder.reshape(value, [*shape[: access.dim], *shape[access.dim + 1 :]])
    offsets = numbers.windows
    beside = [d for d in range(len(shape_of(op.results[0]))) if d not in offsets]
    order = _order(accesses, len(sizes), beside, offsets)
    return builder.transpose(value, [order.index(d) for d in range(len(order))])


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
    """What is added at known positions, in the size of the whole; or chosen there, if it is set.

    Where few rows of something large are written, that is better done in its place.
    """
    if len(op.operands) != 3:
        return None
    numbers = IndexNumbers.of(op)
    into, indices, update = op.operands
    kind = update_kind(op)
    if kind not in ("set", Reduction.SUM) or numbers.walked:
        return None
    named, gone, windows = numbers.named, numbers.gone, numbers.windows
    sizes, counts = shape_of(into), shape_of(update)
    written = iter([counts[d] for d in windows])
    widths = [1 if d in gone else next(written) for d in range(len(sizes))]
    accesses = _accesses((indices, numbers.vector_dim), named, gone, widths, sizes)
    if accesses is None or not any(access.axes for access in accesses):
        return None  # one window: what it is computed of may tell how to write it
    element = str(ir.RankedTensorType(into.type).element_type)
    into_nothing = kind != "set" and is_identity(into, Reduction.SUM, element)
    said = [e for a in accesses if (e := a.written(sizes[a.dim], kind)) is not None]
    pairs = list(zip(accesses, said, strict=False))
    is_most = any(_reaches_most(access, each, sizes[access.dim]) for access, each in pairs)
    for_each = math.prod(sizes[a.dim] / (a.starts.size * a.width) for a in accesses)
    is_dense = is_most and for_each <= _SPARSEST
    if len(said) < len(accesses) or not (into_nothing or is_dense):
        return None
    builder = Builder(op, made)
    beside = [d for d in range(len(counts)) if d not in windows]
    parts = [builder.transpose(update, _order(accesses, len(sizes), beside, windows))]
    nothing = builder.identity("sum", builder.tensor_type((), element))
    # XLA takes 0 + -0 for -0: what is first added to zeros brings the same zeros.
    filled = (_filled_with(into) if into_nothing else None) or nothing
    for access, each in pairs:
        fills = chain([filled], repeat(nothing))
        size = sizes[access.dim]
        parts = [
            whole
            for part in parts
            for whole in _put_back(builder, part, access, each, size, fills, nothing)
        ]
    if kind != "set":
        return builder.combined("add", (into, *parts))
    for part, runs in zip(parts, product(*(e for e in said if isinstance(e, list))), strict=True):
        inside = {access.dim: run for access, run in zip(accesses, runs, strict=True)}
        into = builder.select(box(builder, sizes, inside), part, into)
    return into


def _filled_with(value: Value) -> Value | None:
    """The scalar that fills a value, if it is written so."""
    op = made_by(BROADCAST, value)
    return None if op is None or shape_of(op.operands[0]) else op.operands[0]


def _put_back(
    builder: Builder,
    value: Value,
    access: _Access,
    said: list[Run] | Frames,
    size: int,
    fills: Iterator[Value],
    nothing: Value,
) -> list[Value]:
    """What stands at its positions along a dimension, once for each run: `_read` transposed.

    Args:
        builder: the builder.
        value: what is written.
        access: which of its dimensions that is.
        said: the positions.
        size: of the dimension.
        fills: what stands elsewhere, one scalar for each run.
        nothing: the scalar that no sum notices.
    """
    dim = access.dim
    if isinstance(said, Frames):
        return [said.put_back(builder, value, dim, size, nothing, next(fills))]
    if access.is_dropped:
        shape = builder.shape_of(value)
        value = builder.reshape(value, [*shape[:dim], 1, *shape[dim:]])
    start, found = 0, []
    for run in said:
        part = builder.cut(value, dim, start, run.count * run.times)
        found.append(_spread(builder, part, dim, size, run, next(fills)))
        start += run.count * run.times
    return found


def _spread(builder: Builder, value: Value, dim: int, size: int, run: Run, fill: Value) -> Value:
    """Rows at the positions of a run, `fill` elsewhere: `_taken` transposed."""
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
    return builder.pad(value, fill, *rows)


def update_kind(op: ir.Operation) -> str | None:
    """What a scatter does with an update: "set", or a reduction; None for anything else."""
    block = op.regions[0].blocks[0]
    if len(block.operations) == 1 and terminator(block).operands[0] == block.arguments[1]:
        return "set"
    element = str(ir.RankedTensorType(op.operands[0].type).element_type)
    return combiner(op.regions[0], (element,))


def box(make: Builder, shape: Sequence[int], inside: Mapping[int, Run]) -> Value:
    """True where the indices along some dimensions are those of runs, else false."""

    def rows(d: int, run: Run) -> Value:
        low, high = sorted((run.start, run.start + run.step * (run.count - 1)))
        index, step = make.iota([shape[d]], 0, "i32"), abs(run.step)
        mask = make.within(index, low, high + 1)
        if step > 1:
            phase = make.modulo(index, step)
            is_in_step = make.compare("EQ", phase, make.constant_like(low % step, phase))
            mask = make.binary("and", mask, is_in_step)
        return make.broadcast(mask, shape, [d])

    return make.combined("and", (rows(d, run) for d, run in inside.items()))
